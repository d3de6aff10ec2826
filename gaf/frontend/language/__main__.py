# SPDX-License-Identifier: Apache-2.0
"""`python -m gaf.frontend.language FILE`: checks `.gaf` files, or lays them out anew with --format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gaf.errors import EXIT_MISMATCH, EXIT_OK, GafError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code (see `gaf.errors`)."""
    parser = argparse.ArgumentParser(
        prog="python -m gaf.frontend.language", description="Check .gaf files, or lay them out anew."
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--format", action="store_true", help="write each file back in its standard layout")
    parser.add_argument(
        "--check", action="store_true", help="with --format: write nothing, exit 1 if a file would change"
    )
    parser.add_argument("--print", action="store_true", help="print the graph of each model")
    args = parser.parse_args(argv)
    code = EXIT_OK
    for name in args.files:
        try:
            code = max(
                code, _format(Path(name), args.check) if args.format else _check(Path(name), args.print)
            )
        except GafError as error:
            print(error, file=sys.stderr)
            code = max(code, error.exit_code)
    return code


def _check(path: Path, show: bool) -> int:
    from gaf.frontend.language.program import load_program

    program = load_program(path)
    for name in program.models or program.own_ops():
        model = program.model(name)
        if show:
            print(model.module)
    print(f"{path}: {len(program.models)} models, {len(program.own_ops())} ops, {len(program.rules)} rules")
    return EXIT_OK


def _format(path: Path, check: bool) -> int:
    from gaf.frontend.language.format import format_path

    if format_path(path, write=not check) and check:
        print(f"{path}: would be laid out anew", file=sys.stderr)
        return EXIT_MISMATCH
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
