# SPDX-License-Identifier: Apache-2.0
"""The host twin from Python: building Ascend C kernels for the CPU and launching them on numpy arrays."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gaf.codegen.printer import HEADERS
from gaf.errors import CompileError, InternalError, InvalidInputError
from gaf.runtime.compiler import (
    COMMON_FLAGS,
    DEVICE,
    INCLUDE,
    NATIVE,
    Compiler,
    ObjectCache,
    build_lock,
    cpu_identity,
    default_cache_dir,
    key_of,
    native_flags,
    publish,
    require_compiler,
    run_compiler,
    tree_digest,
    work_dir,
)
from gaf.runtime.memory import pool
from gaf.runtime.timeline import Timeline, costs_of, take
from gaf.target.timing import Timing

MODES = {"fast": 1, "check": 2, "trace": 3}
KERNEL_FLAGS = (*COMMON_FLAGS, "-fno-exceptions", "-fno-rtti", "-w")
OPTIMISATION = {"fast": "-O1", "check": "-O0", "trace": "-O1"}
"""Check mode spends its time in the engine: kernels compile in half the time and run as fast."""

RUNTIME_FLAGS = (
    *COMMON_FLAGS,
    *["-O3", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-w", "-DGAF_TWIN=2"],
)
EXTRA_FLAGS = {"gemm.cpp": ("-ffp-contract=fast",)}

WORKSPACE, INPUT, OUTPUT, CONSTANT = 1, 2, 3, 4  # GmRole of check.h
REPORT_BYTES = 1 << 16

Progress = Callable[[str, int, int], None]


class _Result(ctypes.Structure):
    """GafTwinResult of gaf_twin_launch.h."""

    _fields_ = [
        ("threads", ctypes.c_uint32),
        ("again", ctypes.c_uint32),
        ("roles", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
        ("text_bytes", ctypes.c_uint64),
        ("costs", ctypes.c_void_p),
        ("violations", ctypes.c_uint64),
        ("deadlock", ctypes.c_uint32),
        ("kernel_type", ctypes.c_uint32),
        ("notes", ctypes.c_uint64),
        ("trace", ctypes.c_void_p),
        ("packs", ctypes.c_void_p),
    ]


@dataclass
class LaunchResult:
    """What a launch found: violations (JSON objects of check mode, at most 50) and whether it got stuck.

    `notes` are remarks of check mode that break no rule (same form); `timeline` is what trace mode made.
    """

    violations: list[dict[str, Any]] = field(default_factory=list)
    deadlock: bool = False
    total: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list)
    timeline: Timeline | None = None

    @property
    def message(self) -> str:
        """One line a violation."""
        return "\n".join(
            f"{v.get('core', '')}: {v.get('api', '')}: {v.get('message', '')}" for v in self.violations
        )


class Packs:
    """Operands of matrix products in the layout of the fast engine, kept for arrays that never change.

    Whoever launches kernels with it keeps those arrays alive: they are known by their addresses.
    """

    def __init__(self) -> None:
        load_runtime()
        assert _runtime is not None
        _runtime.gafPacksNew.restype = ctypes.c_void_p
        _runtime.gafPacksFree.argtypes = [ctypes.c_void_p]
        self._free = _runtime.gafPacksFree
        self.address: int | None = _runtime.gafPacksNew()

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", None), None
        if address is not None:
            self._free(address)


class TwinKernel:
    """One built kernel.

    `launch(arrays, workspace_bytes, tiling, blocks)` runs it; `arrays` are C-contiguous and outputs are
    written in place. The GIL is released while the kernel runs; several threads may launch at the same time.
    """

    def __init__(self, path: str | Path, name: str, mode: str = "fast") -> None:
        self.path, self.name, self.mode = Path(path), name, mode
        load_runtime()
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
            self._entry = getattr(self._library, f"{name}_twin_launch")
        except (OSError, AttributeError) as e:
            raise InternalError(f"the built kernel can't be loaded: {e}", where=name) from e
        self._entry.restype = ctypes.c_int32
        self._entry.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint32,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.c_uint32,
            ctypes.POINTER(_Result),
        ]

    def launch(
        self,
        arrays: Sequence[np.ndarray],
        workspace_bytes: int | None,
        tiling: bytes,
        blocks: int,
        outputs: int = 0,
        threads: int = 0,
        again: bool = True,
        timing: Timing | None = None,
        spans: bool = True,
        constants: Sequence[int] = (),
        packs: Packs | None = None,
    ) -> LaunchResult:
        """Run `blocks` blocks.

        `workspace_bytes` None: the kernel has no workspace argument (0 still passes one). The last `outputs`
        arrays are outputs, which check mode wants to see written. `threads` 0: GAF_THREADS or one a processor
        (fast mode). `again`: check mode runs a kernel without violations a second time with the cores in
        reverse order, and reports bytes that differ. `timing`: the figures of trace mode (the default chip's
        otherwise); `spans`: keep every instruction of the timeline. `constants`: numbers of the inputs that hold the same
        bytes at every launch with `packs` (fast mode).
        Raises InvalidInputError for arrays that are not C-contiguous or arguments that don't fit the kernel.
        """
        for i, a in enumerate(arrays):
            if not a.flags.c_contiguous:
                raise InvalidInputError(f"argument {i} of the kernel is not C-contiguous", where=self.name)
            if i >= len(arrays) - outputs and not a.flags.writeable:
                raise InvalidInputError(f"output {i} of the kernel is read-only", where=self.name)
        roles = [INPUT if outputs else 0] * (len(arrays) - outputs) + [OUTPUT] * outputs
        if packs is not None:
            for i in constants:
                roles[i] = CONSTANT
        pointers = [a.ctypes.data for a in arrays]
        sizes = [a.nbytes for a in arrays]
        workspace = None
        if workspace_bytes is not None:
            # 512-byte aligned, as on the device; at least one line so that the address is valid.
            size = max(workspace_bytes, 512)
            workspace = pool.empty((size + 512,), np.uint8)
            address = (workspace.ctypes.data + 511) // 512 * 512
            pointers.append(address)
            sizes.append(size)
            roles.append(WORKSPACE)
        n = len(pointers)
        role_bytes = (ctypes.c_uint8 * max(n, 1))(*roles)
        text_bytes = REPORT_BYTES if self.mode == "check" else 4096
        text = ctypes.create_string_buffer(text_bytes)
        addresses = ctypes.addressof(role_bytes), ctypes.addressof(text)
        result = _Result(threads, int(again), *addresses, text_bytes)
        if packs is not None:
            result.packs = packs.address
        if self.mode == "trace":
            timing = timing or Timing.of()
            costs = costs_of(timing, spans)
            result.costs = ctypes.addressof(costs)
        code = self._entry(
            (ctypes.c_void_p * max(n, 1))(*pointers),
            (ctypes.c_uint64 * max(n, 1))(*sizes),
            n,
            tiling,
            len(tiling),
            blocks,
            ctypes.byref(result),
        )
        timeline = None
        if result.trace and timing is not None:
            assert _runtime is not None
            timeline = take(result.trace, _runtime, self.name, timing)
        if code == 0 and not result.notes:
            return LaunchResult(timeline=timeline)
        # A line that was cut off at the end of the buffer does not end with a brace.
        lines = text.value.decode("utf-8", "replace").splitlines()
        violations = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        if code == 3:
            raise InvalidInputError(violations[0]["message"] if violations else "bad launch", where=self.name)
        notes = [v for v in violations if v.get("note")]
        violations = [v for v in violations if not v.get("note")]
        return LaunchResult(violations, bool(result.deadlock), result.violations, notes, timeline)


# ---- the runtime library -----------------------------------------------------------------------------------

_runtime: ctypes.CDLL | None = None
_runtime_lock = threading.Lock()


def load_runtime(jobs: int = 2, on_progress: Progress | None = None) -> None:
    """Build (once a machine) and load the library of vector routines, scheduler and check engine."""
    global _runtime
    with _runtime_lock:
        if _runtime is None:
            path = _build_runtime(require_compiler(), jobs, on_progress)
            _runtime = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def runtime_path() -> Path:
    """The runtime library, built if need be: what a program with kernels links with."""
    load_runtime()
    assert _runtime is not None
    return Path(_runtime._name)


def _build_runtime(compiler: Compiler, jobs: int, on_progress: Progress | None) -> Path:
    """The library, from the cache or built: one object a source, cached by what it includes, and one link."""
    cache = default_cache_dir()
    flags = [*compiler.flags(*RUNTIME_FLAGS), *native_flags(compiler)]
    common = (*compiler.command, compiler.version, *flags, repr(EXTRA_FLAGS), cpu_identity())
    sources = sorted(NATIVE.rglob("*.cpp"), key=lambda p: -p.stat().st_size)  # the longest first
    objects = ObjectCache(cache / "objects", (NATIVE, INCLUDE), common)
    found = [objects.find(source) for source in sources]

    def library(kept: list[Path]) -> Path:
        return cache / f"runtime-{key_of(*sorted(o.name for o in kept), *common)}" / "libgaf_twin.so"

    if all(found) and (target := library([o for o in found if o])).exists():
        return target
    with build_lock(cache / "runtime.lock"), work_dir(cache) as work:
        done = 0
        lock = threading.Lock()

        def build(source: Path) -> Path:
            nonlocal done
            kept = objects.find(source)
            if kept is None:
                out = work / f"{key_of(str(source))}.o"
                depends = out.with_suffix(".d")
                command = [
                    *compiler.command, *flags, *EXTRA_FLAGS.get(source.name, ()),
                    f"-I{INCLUDE}", f"-I{NATIVE}", "-MMD", "-MF", str(depends),
                    "-c", str(source), "-o", str(out),
                ]  # fmt: skip
                started = time.time()
                run_compiler(command, f"runtime library, {source.name}")
                kept = objects.keep(source, out, depends, started)
            with lock:
                done += 1
                if on_progress is not None:
                    on_progress("runtime library", done, len(sources))
            return kept

        with ThreadPoolExecutor(max(jobs, 1)) as pool:
            built = list(pool.map(build, sources))
        target = library(built)
        if not target.exists():
            linked = work / "libgaf_twin.so"
            run_compiler(
                [*compiler.command, "-shared", *map(str, built), "-lpthread", "-lm", "-o", str(linked)],
                "runtime library",
            )
            publish(linked, target)
    return target


# ---- kernels -----------------------------------------------------------------------------------------------


def build_kernels(
    sources: Sequence[tuple[str, str]],
    mode: str = "fast",
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> dict[str, TwinKernel]:
    """Build kernels given as (name, Ascend C source) for one mode, `jobs` at a time, and load them.

    `on_progress(name, done, total)` is called from the building threads after each kernel. Built kernels are
    cached on disk by source, headers, flags and compiler. Raises CompileError for the first kernel that does
    not build.
    """
    if mode not in MODES:
        raise InvalidInputError(f"unknown mode '{mode}'", expected=" or ".join(MODES))
    compiler = require_compiler()
    jobs = jobs or int(os.environ.get("GAF_JOBS") or 0) or min(os.cpu_count() or 1, 8)
    load_runtime(jobs, on_progress)
    done = 0
    lock = threading.Lock()

    def build(job: tuple[str, str]) -> tuple[str, TwinKernel]:
        nonlocal done
        kernel = TwinKernel(_build_kernel(compiler, *job, mode), job[0], mode)
        with lock:
            done += 1
            if on_progress is not None:
                on_progress(job[0], done, len(sources))
        return job[0], kernel

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        return dict(pool.map(build, sources))


def _build_kernel(compiler: Compiler, name: str, source: str, mode: str) -> Path:
    if not name.isidentifier():
        raise InvalidInputError(f"'{name}' is not a kernel name", expected="a C++ identifier")
    cache = default_cache_dir()
    flags = [*compiler.flags(*KERNEL_FLAGS), OPTIMISATION[mode], f"-DGAF_TWIN={MODES[mode]}", "-DGAF_TWIN_LEAN"]
    key = key_of(source, name, tree_digest(INCLUDE, DEVICE), *compiler.command, compiler.version, *flags)
    target = cache / "kernels" / key[:2] / f"{name}-{key}.so"
    if target.exists():
        return target
    unit = f'#include "{name}.cpp"\n#include "gaf_twin_launch.h"\nGAF_TWIN_ENTRY({name})\n'
    headers = _precompiled(compiler, tuple(flags), cache, source)
    with work_dir(cache) as work:
        (work / f"{name}.cpp").write_text(source)
        (work / "unit.cpp").write_text(unit)
        library = work / "kernel.so"

        def command(folder: Path) -> list[str]:
            return [
                *compiler.command, *flags, *headers, f"-I{INCLUDE}", f"-I{DEVICE}", "-shared", "-nostdlib",
                str(folder / "unit.cpp"), "-o", str(library),
            ]  # fmt: skip

        try:
            run_compiler(command(work), f"kernel '{name}'")
        except CompileError:
            kept = cache / "failed" / f"{name}-{key}"
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{name}.cpp").write_text(source)
            (kept / "unit.cpp").write_text(unit)
            run_compiler(command(kept), f"kernel '{name}'", kept)
        publish(library, target)
    return target


_headers_lock = threading.Lock()


def _precompiled(compiler: Compiler, flags: tuple[str, ...], cache: Path, source: str) -> list[str]:
    """Flags that include the headers that a kernel begins with in compiled form, made once for each set of flags.

    Reading the headers anew takes a third of a kernel's compile time. Nothing for sources that begin otherwise,
    and with clang, which spells it otherwise.
    """
    included = [h for h in HEADERS if f'#include "{h}"' in source]
    first = next((line for line in source.splitlines() if line.startswith("#")), "")
    if compiler.clang or not included or first != f'#include "{included[0]}"':
        return []
    text = "".join(f'#include "{h}"\n' for h in included)
    key = key_of(text, tree_digest(INCLUDE, DEVICE), *compiler.command, compiler.version, *flags)
    folder = cache / f"headers-{key}"
    header, compiled = folder / "kernel.h", folder / "kernel.h.gch"
    with _headers_lock:
        if not compiled.exists():
            with build_lock(cache / "headers.lock"), work_dir(cache) as work:
                if not compiled.exists():
                    (work / "kernel.h").write_text(text)
                    command = [*compiler.command, *flags, f"-I{INCLUDE}", f"-I{DEVICE}", "-x", "c++-header"]
                    out = work / "kernel.h.gch"
                    run_compiler([*command, str(work / "kernel.h"), "-o", str(out)], "headers of kernels")
                    publish(work / "kernel.h", header)
                    publish(out, compiled)
    return ["-include", str(header)]
