# SPDX-License-Identifier: Apache-2.0
"""`gaf twin`: builds hand-written Ascend C programs for the CPU, and runs them with every access checked."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaf.errors import EXIT_MISMATCH, EXIT_OK, InvalidInputError
from gaf.tools.cli.common import Output

if TYPE_CHECKING:
    from gaf.runtime.samples import Program, ProgramResult

SHOWN = 20
"""Violations that are printed; `--json` holds all that were recorded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("build", "run"), help="build: write an executable; run: build and run it")
    parser.add_argument(
        "sources", nargs="+", metavar="FILE", help="sources of one program: .asc, or .cpp with kernels or host code"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the executable (run: default a temporary one)")
    parser.add_argument("--check", action="store_true", help="check every access, queue, flag and API rule")
    parser.add_argument(
        "-I", dest="include", action="append", default=[], metavar="FOLDER", help="where headers are; repeatable"
    )
    parser.add_argument(
        "-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro; repeatable"
    )
    parser.add_argument("--shared", action="store_true", help="build a shared library (build only)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="compilers at a time (default %(default)s)")
    parser.add_argument("--cwd", metavar="FOLDER", help="where the program runs (default: here)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give a program up that takes longer")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads (default: one a processor)")
    parser.add_argument(
        "--no-auto-sync",
        action="store_true",
        help="want the barriers, too, that the device compiler adds by itself (vector to vector, scalar to other pipes)",
    )
    parser.add_argument(
        "--fill", type=_byte, default=0xFF, metavar="BYTE", help="what fresh device memory holds (default 255: NaNs)"
    )
    parser.add_argument("--args", nargs=argparse.REMAINDER, default=[], help="all that follows goes to the program")


def _byte(text: str) -> int:
    value = int(text, 0)
    if not 0 <= value <= 255:
        raise ValueError
    return value


_byte.__name__ = "byte (0..255)"  # what argparse calls it in its message


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if the program failed or a kernel broke a rule.

    Raises InvalidInputError for sources that can't be read, CompileError for those that don't compile.
    """
    if args.action == "build":
        if args.output is None:
            raise InvalidInputError("nowhere to write the program", hint="-o FILE")
        _build(args, Path(args.output), out)
        out.result(
            f"{args.output} written", {"command": "twin", "action": "build", "ok": True, "output": args.output}
        )
        return EXIT_OK
    if args.shared:
        raise InvalidInputError("a shared library can't be run", hint="`gaf twin build --shared`")
    if args.cwd is not None and not Path(args.cwd).is_dir():
        raise InvalidInputError("there is no such folder", where=args.cwd)
    with tempfile.TemporaryDirectory(prefix="gaf-twin-") as folder:
        program = _build(args, Path(args.output or Path(folder) / "program"), out)
        result = program.run(
            args.args,
            args.cwd,
            args.timeout,
            auto_sync=not args.no_auto_sync,
            threads=args.threads,
            fill=args.fill,
        )
    ok = result.returncode == 0 and all(not n.total and not n.stuck for n in result.launches)
    out.result(_text(result, program.mode), _data(result, program.mode, ok))
    return EXIT_OK if ok else EXIT_MISMATCH


def _build(args: argparse.Namespace, output: Path, out: Output) -> Program:
    from gaf.runtime.samples import build_program

    mode = "check" if args.check else "fast"
    with out.phase(f"building for {mode} mode"):
        return build_program(
            args.sources, output, mode, args.include, args.define, shared=args.shared, jobs=max(1, args.jobs)
        )


def _text(result: ProgramResult, mode: str) -> str:
    lines = [text.rstrip("\n") for text in (result.stdout, result.stderr) if text.strip()]
    for launch in result.launches:
        state = "stuck" if launch.stuck else f"{launch.total} violations" if launch.total else "ok"
        lines.append(f"kernel {launch.kernel} ({launch.blocks} blocks): {state}")
    for v in result.violations[:SHOWN]:
        lines.append(f"[{v['rule']}] {v['core']} {v['api']}: {v['message']}")
    if len(result.violations) > SHOWN:
        lines.append(f"and {len(result.violations) - SHOWN} more")
    lines.append(f"{mode} mode, exit code {result.returncode}")
    return "\n".join(lines)


def _data(result: ProgramResult, mode: str, ok: bool) -> dict[str, Any]:
    return {
        "command": "twin",
        "action": "run",
        "ok": ok,
        "mode": mode,
        "exit_code": result.returncode,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "launches": [
            {
                "kernel": launch.kernel,
                "blocks": launch.blocks,
                "stuck": launch.stuck,
                "violations": launch.total,
                "found": launch.violations,
            }
            for launch in result.launches
        ],
    }
