# SPDX-License-Identifier: Apache-2.0
"""Hand-written Ascend C programs on the host twin: building sources with kernels and a main, and running them.

Sources are taken as they are: `.asc` files and 8.x kernels with `<<<>>>` or ACLRT_LAUNCH_KERNEL, host code that
uses `acl/acl.h`. What the C++ compiler can't read is rewritten (`gaf.runtime.ascend_source`); the rest
compiles against the headers in `gaf/runtime/include` and links with the twin's runtime library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaf.errors import InvalidInputError
from gaf.runtime.ascend_source import (
    KernelDeclaration,
    RewrittenSource,
    launch_stub,
    parameter_name,
    qualifier_macros,
    rewrite_source,
)
from gaf.runtime.compiler import (
    COMMON_FLAGS,
    INCLUDE,
    default_cache_dir,
    require_compiler,
    run_compiler,
    work_dir,
)
from gaf.runtime.twin import MODES, load_runtime, runtime_path

# As the device compiler defines them for dav-2201.
DEFINES = ("__CCE__=1", "__NPU_ARCH__=2201", "__CCE_AICORE__=220", "__DAV_C220__", "__CANN_TWIN__=1")
HOST_FLAGS = (*COMMON_FLAGS, "-O1", "-w")
# Libraries of the toolkit that samples name; their functions are in the twin's headers and library.
TOOLKIT_LIBRARIES = frozenset(
    "ascendcl tiling_api register platform runtime ascend_dump profapi error_manager unified_dlog c_sec".split()
)


@dataclass(frozen=True)
class Program:
    """A built program: the executable and the mode of its kernels."""

    path: Path
    mode: str

    def run(
        self,
        arguments: Sequence[str] = (),
        cwd: str | Path | None = None,
        timeout: float | None = None,
        auto_sync: bool = True,
        threads: int = 0,
        fill: int = 0xFF,
    ) -> ProgramResult:
        """Run the program in `cwd`; `timeout` in seconds.

        `auto_sync` (check mode): the device compiler's default, which orders the vector pipe with itself and the
        scalar unit with the other pipes, so that sources need no barriers there; False wants every one.
        `fill`: the byte that fresh device memory holds; by default all floats in it are NaN.
        Raises InvalidInputError when the time is up.
        """
        with work_dir(default_cache_dir()) as work:
            report = work / "report.jsonl"
            env = dict(os.environ, GAF_TWIN_REPORT=str(report), GAF_TWIN_AUTO_SYNC="1" if auto_sync else "0")
            env["GAF_TWIN_FILL"] = str(fill)
            if threads:
                env["GAF_THREADS"] = str(threads)
            try:
                run = subprocess.run(
                    [str(self.path), *arguments],
                    cwd=cwd,
                    env=env,
                    check=False,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=timeout,
                )
            except subprocess.TimeoutExpired as e:
                raise InvalidInputError(
                    f"the program did not end within {timeout:g} seconds", where=str(self.path)
                ) from e
            lines = report.read_text().splitlines() if report.exists() else []
        result = ProgramResult(run.returncode, run.stdout, run.stderr)
        for line in lines:
            entry = json.loads(line)
            if "launch" in entry:
                result.launches.append(
                    Launch(entry["launch"], entry["blocks"], entry["code"] == 2, entry["violations"])
                )
            elif result.launches:
                result.launches[-1].violations.append(entry)
        return result


@dataclass
class Launch:
    """One kernel launch of a program: violations are JSON objects as in `LaunchResult`."""

    kernel: str
    blocks: int
    stuck: bool
    total: int
    violations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class ProgramResult:
    """What a run of a program printed and returned, and its launches in order."""

    returncode: int
    stdout: str
    stderr: str
    launches: list[Launch] = field(default_factory=list)

    @property
    def violations(self) -> list[dict[str, Any]]:
        """Of all launches."""
        return [v for launch in self.launches for v in launch.violations]


def build_program(
    sources: Sequence[str | Path],
    output: str | Path,
    mode: str = "fast",
    include_dirs: Sequence[str | Path] = (),
    defines: Sequence[str] = (),
    flags: Sequence[str] = (),
    shared: bool = False,
    jobs: int = 2,
) -> Program:
    """Build `sources` (.asc, .cpp, .cce) into the executable (`shared`: library) `output`.

    `defines` are NAME or NAME=VALUE; `flags` go to the compiler and the linker as they are. Raises
    InvalidInputError for a source that is missing or can't be rewritten, CompileError when the compiler refuses
    one.
    """
    if mode not in MODES:
        raise InvalidInputError(f"unknown mode '{mode}'", expected=" or ".join(MODES))
    paths = [Path(s).resolve() for s in sources]
    for path in paths:
        if not path.is_file():
            raise InvalidInputError("no such source", where=str(path))
    if not paths:
        raise InvalidInputError("no sources to build")
    compiler = require_compiler()
    load_runtime(jobs)
    output = Path(output).resolve()
    output.parent.mkdir(parents=True, exist_ok=True)
    with work_dir(default_cache_dir()) as work:
        tree = _Tree(work / "src", [Path(d).resolve() for d in include_dirs])
        units = [tree.unit(path) for path in paths]
        tree.write_stubs(units)
        common = [
            *compiler.command,
            *compiler.flags(*HOST_FLAGS),
            *(f"-D{d}" for d in (*DEFINES, f"GAF_TWIN={MODES[mode]}", *defines)),
            f"-I{work / 'src' / 'stubs'}",
            *(f"-I{d}" for d in tree.roots(paths)),
            f"-I{INCLUDE}",
            f"-I{INCLUDE / 'toolkit'}",
            *flags,
        ]

        def build(i: int) -> Path:
            obj = work / f"{i}.o"
            head = ["-include", "gaf_twin_host.h", "-include", "kernel_operator.h"] if units[i].device else []
            run_compiler(
                [*common, *head, "-x", "c++", "-c", str(units[i].path), "-o", str(obj)], str(paths[i])
            )
            return obj

        with ThreadPoolExecutor(max(jobs, 1)) as pool:
            objects = list(pool.map(build, range(len(units))))
        library = runtime_path()
        run_compiler(
            [
                *compiler.command,
                *(["-shared"] if shared else []),
                *map(str, objects),
                str(library),
                f"-Wl,-rpath,{library.parent}",
                *[f for f in flags if not (f.startswith("-l") and f[2:] in TOOLKIT_LIBRARIES)],
                "-lpthread",
                "-lm",
                "-ldl",
                "-o",
                str(output),
            ],
            "linking",
        )
    return Program(output, mode)


@dataclass
class _Unit:
    """A translation unit to compile: where its text lies, and whether it holds kernels or launches."""

    path: Path
    device: bool
    source: RewrittenSource


_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(["<])([^">\n]+)[">]', re.M)


class _Tree:
    """Sources and the headers of theirs that had to be rewritten, in a folder of their own."""

    def __init__(self, folder: Path, include_dirs: list[Path]) -> None:
        self.folder, self.include_dirs = folder, include_dirs
        (folder / "stubs").mkdir(parents=True)
        self._done: dict[Path, Path | None] = {}
        self._rewritten: dict[Path, RewrittenSource] = {}
        self._wanted: set[str] = set()

    def roots(self, paths: list[Path]) -> list[Path]:
        """Folders to search for headers that were left where they are."""
        return list(dict.fromkeys([p.parent for p in paths] + self.include_dirs))

    def unit(self, path: Path) -> _Unit:
        target = self._process(path, True, {})
        assert target is not None
        source = self._rewritten[path]
        text = source.text
        device = source.changed or bool(source.kernels) or "kernel_operator.h" in text
        return _Unit(target, device, source)

    def _find(self, name: str, including: Path) -> Path | None:
        for folder in (including.parent, *self.include_dirs):
            path = (folder / name).resolve()
            if path.is_file():
                return path
        return None

    def _process(self, path: Path, force: bool, qualifiers: Mapping[str, str]) -> Path | None:
        """Where the rewritten file lies; None when it can stay where it is.

        `qualifiers` are macros of the including files that stand for a kernel's type.
        """
        if path in self._done:
            return self._done[path]
        self._done[path] = None
        text = path.read_text(errors="replace")
        qualifiers = {**qualifiers, **qualifier_macros(text)}
        source = rewrite_source(text, str(path), qualifiers)
        self._rewritten[path] = source
        moved = source.changed or force

        def include(match: re.Match[str]) -> str:
            nonlocal moved
            stub = re.fullmatch(r"(?:.*/)?aclrtlaunch_(\w+)\.h", match[3])
            if stub:
                self._wanted.add(stub[1])
                return match[0]
            if match[2] != '"':
                return match[0]
            found = self._find(match[3], path)
            if found is None:
                return match[0]
            target = self._process(found, False, qualifiers)
            if target is None:
                # A folder of its own hides what lay beside the file.
                return f'{match[1]}"{found}"' if force or moved else match[0]
            moved = True
            return f'{match[1]}"{target}"'

        before = moved
        text = _INCLUDE.sub(include, source.text)
        if moved and not before:  # includes of before the first rewritten one still have short names
            text = _INCLUDE.sub(include, source.text)
        if not moved:
            return None
        target = self.folder / f"{len(self._done)}" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'#line 1 "{path}"\n{text}')
        self._done[path] = target
        return target

    def write_stubs(self, units: list[_Unit]) -> None:
        """Headers aclrtlaunch_<kernel>.h that sources ask for, and the functions beside the kernels."""
        kernels: dict[str, tuple[KernelDeclaration, _Unit]] = {}
        for unit in units:
            for kernel in unit.source.kernels:
                if kernel.defined:
                    kernels[kernel.name] = (kernel, unit)
        for name in sorted(self._wanted):
            if name not in kernels:  # an error only where the preprocessor doesn't skip the line
                (self.folder / "stubs" / f"aclrtlaunch_{name}.h").write_text(
                    f"#error no source defines the kernel '{name}': add its source to the sources\n"
                )
                continue
            kernel, unit = kernels[name]
            (self.folder / "stubs" / f"aclrtlaunch_{name}.h").write_text(
                f'#ifndef GAF_ACLRTLAUNCH_{name}\n#define GAF_ACLRTLAUNCH_{name}\n#include "acl/acl.h"\n'
                f"{launch_stub(kernel, defined=False)}\n#endif\n"
            )
            with unit.path.open("a") as f:
                f.write(f"\n{launch_stub(kernel, defined=True)}\n")
            unit.device = True


__all__ = ["Launch", "Program", "ProgramResult", "build_program", "parameter_name"]
