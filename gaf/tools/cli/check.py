# SPDX-License-Identifier: Apache-2.0
"""`gaf check`: do the generated kernels and their host code compile against the headers of a CANN toolkit? Types only; no NPU needed."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gaf.errors import EXIT_COMPILER, EXIT_OK, InvalidInputError
from gaf.tools.cli.common import Output

DEFINES = (
    "__CCE_AICORE__=220",
    "__DAV_C220__",
    "__CCE_KT_TEST__=1",
    "ASCENDC_CPU_DEBUG=1",
    "ASCENDC_DEBUG=1",
)
"""The toolkit's CPU-debug mode for the 910B, in which a host compiler reads its headers."""

SUBFOLDERS = {
    "stub_fun.h": (".",),
    "kernel_operator.h": (
        ".",
        "impl",
        "interface",
        "..",
        "../highlevel_api",
        "../highlevel_api/lib",
        "../highlevel_api/impl",
        "../highlevel_api/lib/matmul",
        "../..",
        "../../../include",
        "../adv_api",
        "../utils",
        "../basic_api",
    ),
}
"""Include folders relative to the folder of each header; layouts of CANN 8 and 9."""


OPERATOR_MACROS = ("GET_TILING_DATA_WITH_STRUCT(T, t, p)=T t = *(__gm__ T *)(p)",)
"""What the toolkit's build of an operator project defines for kernels, with the same types."""


@dataclass
class Checked:
    """A kernel and what the compiler said about it (empty: fine)."""

    name: str
    errors: list[str]
    log: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="a folder that `gaf fuse` wrote")
    parser.add_argument(
        "--cann",
        metavar="PATH",
        default=os.environ.get("ASCEND_HOME_PATH"),
        help="where the toolkit is installed or unpacked (default: $ASCEND_HOME_PATH)",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", default=os.cpu_count() or 1, help="compilers at a time"
    )


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 4 if a kernel doesn't compile. Raises InvalidInputError without headers or kernels."""
    from gaf.runtime.compiler import require_compiler

    if not args.cann:
        raise InvalidInputError("no toolkit is named", hint="--cann PATH, or set ASCEND_HOME_PATH")
    folder = Path(args.folder)
    kernels: list[tuple[str, Path, list[str]]] = [(path.stem, path, []) for path in sorted(folder.glob("kernels/*.cpp"))]
    macros = [f"-D{macro}" for macro in OPERATOR_MACROS]
    kernels += [(str(path.relative_to(folder)), path, macros) for path in sorted(folder.glob("aclnn/op_kernel/*.cpp"))]
    if not kernels:
        raise InvalidInputError(
            "there are no kernels", where=args.folder, expected="a folder that `gaf fuse` wrote"
        )
    includes = include_folders(Path(args.cann))
    command = [*require_compiler().command, "-std=c++17", "-fsyntax-only", "-w", *(f"-D{d}" for d in DEFINES)]
    with (
        out.phase("type-check"),
        out.progress("type-check") as show,
        tempfile.TemporaryDirectory() as scratch,
    ):
        flags = [*_precompiled(command, includes, Path(scratch)), *(f"-I{include}" for include in includes)]
        checked: list[Checked] = []
        with ThreadPoolExecutor(max(1, args.jobs)) as pool:
            for result in pool.map(lambda k: _check([*command, *flags, *k[2]], k[1], k[0]), kernels):
                checked.append(result)
                show(result.name, len(checked), len(kernels))
        plain = [c for c in command if not c.startswith("-D")]
        host = [_check([*plain, *flags], folder / name, name) for name, flags in host_code(args)]
    bad = [c for c in checked if c.errors]
    wrong = [c for c in host if c.errors]
    lines = [
        f"{c.name}: {'ok' if not c.errors else 'FAILED'}" + "".join(f"\n    {e}" for e in c.errors[:5])
        for c in [*checked, *host]
    ]
    lines.append(f"{len(checked) - len(bad)} of {len(checked)} kernels type-check against {args.cann}")
    out.result(
        "\n".join(lines),
        {
            "command": "check",
            "ok": not bad and not wrong,
            "cann": args.cann,
            "kernels": {c.name: c.errors for c in checked},
            "host": {c.name: c.errors for c in host},
        },
    )
    return EXIT_COMPILER if bad or wrong else EXIT_OK


def host_code(args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Host sources that compile without generated stubs, with the flags that they need.

    The check program needs the toolkit's acl headers, an operator project those of the graph engine; without them
    they are left out.
    """
    folder = Path(args.folder)
    if (folder / "host/launch.cpp").is_file():
        yield "host/launch.cpp", ["-DGAF_CANN9"]
    acl = _nearest(args.cann, "acl/acl.h")
    if acl is not None and (folder / "check/main.cpp").is_file():
        yield "check/main.cpp", [f"-I{folder / 'host'}", f"-I{acl.parents[1]}"]
    graph = [_nearest(args.cann, name) for name in ("register/op_def_registry.h", "tiling/platform/platform_ascendc.h")]
    if None not in graph:
        flags = [f"-I{path.parents[depth]}" for path, depth in zip(graph, (1, 2)) if path is not None]
        for path in sorted([*folder.glob("aclnn/op_host/*.cpp"), *folder.glob("aclnn/framework/*/*.cc")]):
            yield str(path.relative_to(folder)), flags


def _nearest(root: str, header: str) -> Path | None:
    """The place of a header that is the least deep below `root`."""
    return min(Path(root).rglob(header), key=lambda p: (len(p.parts), str(p)), default=None)


def include_folders(toolkit: Path) -> list[Path]:
    """Include folders of a toolkit, found by two of its headers. Raises InvalidInputError if they aren't there."""
    if not toolkit.is_dir():
        raise InvalidInputError("there is no such folder", where=str(toolkit), expected="a CANN toolkit")
    found: dict[Path, None] = {}
    for header, subfolders in SUBFOLDERS.items():
        places = sorted(toolkit.rglob(header), key=lambda p: (len(p.parts), str(p)))
        if not places:
            raise InvalidInputError(
                f"the toolkit's header {header} isn't there",
                where=str(toolkit),
                expected="an installed or unpacked CANN toolkit",
                hint="unpack the toolkit's .run file with --noexec --extract=FOLDER",
            )
        for subfolder in subfolders:
            folder = (places[0].parent / subfolder).resolve()
            if folder.is_dir():
                found[folder] = None
    return list(found)


def _precompiled(command: Sequence[str], includes: Sequence[Path], scratch: Path) -> Iterator[str]:
    """Flags for a precompiled header (seconds per kernel saved), or none if it can't be made."""
    header = scratch / "toolkit.h"
    header.write_text('#include "kernel_operator.h"\n')
    line = [c for c in command if c != "-fsyntax-only"]
    made = subprocess.run(
        [*line, *(f"-I{f}" for f in includes), "-x", "c++-header", str(header), "-o", f"{header}.gch"],
        capture_output=True,
    )
    if made.returncode == 0:
        yield from ("-include", str(header))


def _check(command: Sequence[str], path: Path, name: str) -> Checked:
    done = subprocess.run(
        [*command, f"-I{path.parent}", str(path)], capture_output=True, text=True, errors="replace"
    )
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    if done.returncode and not errors:
        errors = done.stderr.splitlines()[:5] or [f"the compiler ended with exit code {done.returncode}"]
    return Checked(name, errors, done.stderr)
