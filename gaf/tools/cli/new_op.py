# SPDX-License-Identifier: Apache-2.0
"""`gaf new-op`: the files that a new custom operator begins with, in the `.gaf` language and in Python."""

from __future__ import annotations

import argparse
from pathlib import Path

from gaf.errors import EXIT_OK, InvalidInputError
from gaf.tools.cli.common import Output, relative


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and _, such as my_gate")
    parser.add_argument(
        "--namespace", default="acme", help="what the operator's names begin with (default %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default=".", help="where the files go (default: the current folder)"
    )


def run(args: argparse.Namespace, out: Output) -> int:
    """Writes all files or none; one that exists is never replaced."""
    from gaf.frontend.language import new_op

    folder = Path(args.output)
    files = {folder / name: text for name, text in new_op(args.name, args.namespace).items()}
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        exists = isinstance(error, FileExistsError)
        raise InvalidInputError(
            "the file exists already" if exists else f"can't write: {error.strerror}",
            where=str(error.filename or folder),
            hint="take another name, or another folder with -o" if exists else None,
        ) from None
    names = [relative(p) for p in files]
    steps = [f"gaf fuse {names[0]} -o out/", "gaf fuse model.onnx --ops " + names[0] + " -o out/"]
    out.result("\n".join([f"wrote {n}" for n in names] + [f"try: {steps[0]}", f"use: {steps[1]}"]), {"files": names})
    return EXIT_OK
