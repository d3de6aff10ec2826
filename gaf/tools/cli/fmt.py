# SPDX-License-Identifier: Apache-2.0
"""`gaf fmt`: lays `.gaf` files out anew, or says which ones would change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gaf.errors import EXIT_MISMATCH, EXIT_OK, GafError
from gaf.tools.cli.common import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a .gaf file")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit code is 1 if a file would change"
    )


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0; 1 with `--check` if a file would change; that of the worst error, whose files stay as they are."""
    from gaf.frontend.language.format import format_path

    changed, failed, code = [], [], EXIT_OK
    for name in dict.fromkeys(args.files):
        try:
            if format_path(Path(name), write=not args.check):
                changed.append(name)
        except GafError as error:
            print(f"gaf: {error}", file=sys.stderr)
            failed.append(name)
            code = max(code, error.exit_code)
    if args.check and changed:
        code = max(code, EXIT_MISMATCH)
    verb = "would be laid out anew" if args.check else "laid out anew"
    same = len(set(args.files)) - len(changed) - len(failed)
    lines = [f"{name}: {verb}" for name in changed] + [f"{same} of {len(set(args.files))} files are in layout"]
    out.result("\n".join(lines), {"changed": changed, "failed": failed, "written": not args.check})
    return code
