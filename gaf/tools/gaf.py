# SPDX-License-Identifier: Apache-2.0
"""`gaf`: fuses models, runs and verifies them, and explains what it did."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence

from gaf import __version__
from gaf.errors import EXIT_OK, GafError, InternalError
from gaf.tools.cli.common import Output, add_output_options

COMMANDS = {
    "fuse": "fuse a model, generate and verify its kernels, write everything into a folder",
    "run": "run a fused model from its folder",
    "verify": "compare a fused model with a float64 reference; --bisect names the first level that is wrong",
    "explain": "why ops are in one kernel, or why not",
    "bench": "fused and unfused side by side: modelled on the chip, measured on this machine",
    "trace": "where the time of every kernel goes on the modelled chip; a timeline for Perfetto",
    "tune": "search better tile sizes on the modelled chip, check them, write them for gaf fuse --tuning",
    "compare": "what became better or worse between two report.json; exit code 1 for a regression",
    "twin": "build and run hand-written Ascend C programs on the CPU",
    "check": "type-check generated kernels against the headers of a CANN toolkit",
    "export": "write a fused model as ONNX, graph-level MLIR, or linalg on tensors for other toolchains",
    "fmt": "lay .gaf files out anew; with --check exit code 1 if one would change",
    "new-op": "write the files that a custom operator of your own begins with",
    "doctor": "what is installed, what is missing, what to do",
}
"""Subcommands; each is the module of this name in `gaf.tools.cli`, with _ for -."""

EXIT_CODES = """\
exit codes:
   0  fine
   1  results differ, an API rule was violated, or doctor found something missing
   2  wrong usage, unreadable or invalid input, output that can't be written
   3  an op, dtype, shape or target that gaf doesn't support
   4  the C++ compiler is missing or failed
  70  a bug in gaf: run again with --debug for a traceback, and report it
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="gaf",
        description="Fuses neural-network graphs into Ascend C kernels, and runs them anywhere.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gaf {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"gaf.tools.cli.{name.replace('-', '_')}")
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        add_output_options(sub)
        sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `gaf` and returns its exit code; messages go to stderr, with `--json` also as JSON to stdout."""
    try:
        args = make_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed help or what is wrong
        return stop.code if isinstance(stop.code, int) else 2
    out = Output(args.json, args.quiet)
    try:
        return args.run(args, out)
    except BrokenPipeError:
        # the reader of our output (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        print("gaf: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        shown = _user_error(error)
        if args.debug:
            traceback.print_exc()
        print(f"gaf: {shown}", file=sys.stderr)
        if args.json:
            print(json.dumps({"error": _error_json(shown)}, indent=2, ensure_ascii=False))
        return shown.exit_code


def _user_error(error: Exception) -> GafError:
    """Any exception as an error that a user can read."""
    if isinstance(error, GafError):
        return error
    what = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
    return InternalError(
        f"internal error: {type(error).__name__}: {what}",
        hint="this is a bug in gaf: run again with --debug for a traceback, and report it",
    )


def _error_json(error: GafError) -> dict[str, object]:
    fields = {
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "got": error.got,
        "hint": error.hint,
    }
    shown = {k: None if v is None else str(v) for k, v in fields.items()}
    return {"exit_code": error.exit_code, **shown}


if __name__ == "__main__":
    sys.exit(main())
