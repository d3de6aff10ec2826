# SPDX-License-Identifier: Apache-2.0
"""`gaf export`: a fused model as a file for other tools: ONNX, graph-level text, or linalg on tensors."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gaf.errors import EXIT_OK, InvalidInputError
from gaf.tools.cli.common import Output, add_model_options, config_of, load

ENDINGS = {"onnx": ".onnx", "mlir": ".mlir", "linalg": ".mlir"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--to",
        required=True,
        choices=tuple(ENDINGS),
        help="onnx: each kernel a local function; mlir: the fused graph, weights in an .npz beside it; "
        "linalg: a function on tensors for each fused group",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="is replaced if it exists")


def run(args: argparse.Namespace, out: Output) -> int:
    """Writes the whole file or nothing."""
    from gaf.compiler import fuse

    path = Path(args.output)
    if path.suffix.lower() != ENDINGS[args.to]:
        raise InvalidInputError(
            f"--to {args.to} writes another kind of file", where=args.output, expected=ENDINGS[args.to]
        )
    model = load(args)
    with out.phase("fuse"):
        fused = fuse(model, config_of(args))
    if args.to == "linalg":
        from gaf.codegen.linalg import export_linalg

        _write(path, export_linalg(fused.model))
    else:
        from gaf.frontend.save import save

        save(fused.model, path)
    out.result(f"wrote {args.output}", {"file": args.output, "to": args.to})
    return EXIT_OK


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidInputError(f"can't write: {error.strerror}", where=str(path)) from None
