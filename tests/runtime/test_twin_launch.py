# SPDX-License-Identifier: Apache-2.0
"""Building and launching: the compiler and its cache, errors, threads, cores that wait for each other."""

from __future__ import annotations

import os
import shutil
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from gaf.errors import CompileError, InvalidInputError
from gaf.runtime import compiler
from gaf.runtime.twin import build_kernels

from .twin_kernels import KERNELS, MODES, kernel

pytestmark = pytest.mark.skipif(compiler.find_compiler() is None, reason="no C++ compiler")


def add_one(mode: str, x: np.ndarray, tile: int = 256, blocks: int = 8, threads: int = 0) -> np.ndarray:
    y = np.zeros_like(x)
    found = kernel("add_one", mode).launch(
        [x, y], 0, struct.pack("<2I", x.size, tile), blocks, outputs=1, threads=threads
    )
    assert found.violations == [], found.message
    return y


@pytest.mark.parametrize("mode", MODES)
def test_sizes_and_tails(mode: str) -> None:
    for n in (1, 7, 8, 255, 256, 257, 5000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(add_one(mode, x), x + 1)


def test_launches_from_several_threads() -> None:
    """The pool serves one launch at a time; the others run on their own thread."""
    x = np.arange(30000, dtype=np.float32)
    wrong = []

    def work() -> None:
        for _ in range(20):
            if not np.array_equal(add_one("fast", x, blocks=16, threads=3), x + 1):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


@pytest.mark.parametrize("what", (1, 2), ids=("SyncAll", "mode 0 flags"))
@pytest.mark.parametrize("mode", MODES)
def test_barriers_across_the_grid(mode: str, what: int) -> None:
    for cores, threads in ((1, 1), (5, 1), (24, 2), (7, 3)):
        x, y = np.zeros((cores, 40), np.float32), np.zeros((cores, 40), np.float32)
        found = kernel("grid", mode).launch([x, y], 0, struct.pack("<2I", what, 40), cores, threads=threads)
        assert found.violations == [] and not found.deadlock, found.message
        np.testing.assert_array_equal(y, np.repeat((np.arange(cores) + 1) % cores + 1, 40).reshape(cores, 40))


def test_atomic_sums_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (24, 100)).astype(np.float32)
    results = []
    for mode, threads in (("fast", 1), ("fast", 2), ("fast", 4), ("check", 1)):
        y = np.zeros_like(x)
        found = kernel("grid", mode).launch([x, y], 0, struct.pack("<2I", 0, 100), 24, threads=threads)
        assert found.violations == [], found.message
        results.append(y[0].copy())
        np.testing.assert_allclose(y[0], x.astype(np.float64).sum(0), atol=1e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what, cores, says", [(3, 4, "SyncAll"), (4, 2, "flag 3"), (5, 1, "")])
def test_deadlocks_are_reported(what: int, cores: int, says: str, mode: str) -> None:
    x, y = np.zeros((cores, 8), np.float32), np.zeros((cores, 8), np.float32)
    found = kernel("grid", mode).launch([x, y], 0, struct.pack("<2I", what, 8), cores)
    assert found.deadlock and found.violations
    assert mode == "check" or says in found.message
    x = np.arange(100, dtype=np.float32)  # the twin goes on working
    np.testing.assert_array_equal(add_one(mode, x), x + 1)


def test_wrong_arguments_are_refused() -> None:
    add = kernel("add_one", "fast")
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(InvalidInputError, match="takes 3 GM arguments, got 2"):
        add.launch([x], 0, struct.pack("<2I", 8, 8), 1)
    with pytest.raises(InvalidInputError, match="takes 8 bytes of tiling, got 4"):
        add.launch([x, y], 0, b"1234", 1)
    with pytest.raises(InvalidInputError, match="not C-contiguous"):
        add.launch([np.zeros((8, 8), np.float32)[:, ::2], y], 0, struct.pack("<2I", 8, 8), 1)
    y.flags.writeable = False
    with pytest.raises(InvalidInputError, match="read-only"):
        add.launch([x, y], 0, struct.pack("<2I", 8, 8), 1, outputs=1)


def test_compile_errors_name_the_kernel_and_keep_a_reproducer() -> None:
    source = (KERNELS / "add_one.cpp").read_text().replace("1.0f, static_cast", "1.0, static_cast")
    with pytest.raises(CompileError) as e:
        build_kernels([("add_one", source)])
    text = str(e.value)
    assert "kernel 'add_one'" in text and "error" in text and e.value.exit_code == 4
    kept = Path(text.rsplit(" ", 1)[1])
    assert (kept / "add_one.cpp").read_text() == source
    assert "add_one" in (kept / "log.txt").read_text() and (kept / "command.txt").exists()
    shutil.rmtree(kept)


REFUSED = {
    "Cast bfloat16 to half": "Cast(h, b, RoundMode::CAST_RINT, 16);",
    "Add on bfloat16": "Add(b, b, b, 16);",
    "Exp on int32": "Exp(i, i, 16);",
    "scalar of another type": "Adds(h, h, 1.0f, 16);",
    "Duplicate on int8": "Duplicate(c, static_cast<int8_t>(0), 32);",
    "And on int32": "And(i, i, i, 16);",
    "Div on int32": "Div(i, i, i, 16);",
    "ReduceSum on int32": "ReduceSum(i, i, i, 16);",
    "Transpose on float": "Transpose(f, f);",
}


@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED.keys())
def test_types_that_a2_does_not_have_do_not_compile(statement: str) -> None:
    """Also types that the toolkit's headers accept although the hardware has no such instruction."""
    source = """#include "kernel_operator.h"
    using namespace AscendC;
    extern "C" __global__ __aicore__ void refused(GM_ADDR x, GM_ADDR workspace) {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
        TPipe p; TBuf<TPosition::VECCALC> t; p.InitBuffer(t, 1024);
        LocalTensor<half> h = t.Get<half>(); LocalTensor<bfloat16_t> b = t.Get<bfloat16_t>();
        LocalTensor<int32_t> i = t.Get<int32_t>(); LocalTensor<int8_t> c = t.Get<int8_t>();
        LocalTensor<float> f = t.Get<float>();
        %s
    }
    """
    build_kernels([("refused", source % "")])
    with pytest.raises(CompileError):
        build_kernels([("refused", source % statement)])


def test_cache_is_used_and_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (KERNELS / "add_one.cpp").read_text()
    progress: list[tuple[str, int, int]] = []
    first = build_kernels([("add_one", source)], on_progress=lambda *p: progress.append(p))["add_one"]
    assert progress[-1] == ("add_one", 1, 1)

    def refuse(*_: object) -> None:
        raise AssertionError("the compiler ran although the kernel is in the cache")

    monkeypatch.setattr("gaf.runtime.twin.run_compiler", refuse)
    assert build_kernels([("add_one", source)])["add_one"].path == first.path
    monkeypatch.setenv("GAF_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert compiler.default_cache_dir() == tmp_path / "elsewhere"
    with pytest.raises(AssertionError):
        build_kernels([("add_one", source)])


def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiler.find_compiler.cache_clear()
    try:
        assert compiler.find_compiler() is None
        assert compiler.compiler_reason() == "no C++ compiler: CXX='no-such-compiler' does not run"
        with pytest.raises(CompileError, match="interpreter"):
            compiler.require_compiler()
    finally:
        monkeypatch.undo()
        compiler.find_compiler.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_process_starts_its_own_threads() -> None:
    x = np.arange(10000, dtype=np.float32)
    np.testing.assert_array_equal(add_one("fast", x, threads=2), x + 1)  # the parent's pool has threads now
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(add_one("fast", x, threads=2), x + 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
