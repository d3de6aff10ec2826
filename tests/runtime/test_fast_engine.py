# SPDX-License-Identifier: Apache-2.0
"""Fast mode's own ways: tiles for the caches, pooled memory, packed constants, stores past the caches."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import gaf
from gaf.compiler import FusedModel
from gaf.runtime import host_tiles
from gaf.runtime.compiler import find_compiler
from gaf.runtime.memory import SMALLEST, Pool

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def fused(tmp_path: Path, text: str, weights: dict[str, np.ndarray] | None = None) -> FusedModel:
    if weights:
        np.savez(tmp_path / "w.npz", **weights)
        text = f'weights "w.npz"\n{text}'
    (tmp_path / "m.gaf").write_text(text)
    return gaf.fuse(gaf.load_model(tmp_path / "m.gaf"))


# ---- memory ------------------------------------------------------------------------------------------------


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    pool = Pool(1 << 30)
    first = pool.empty((1024, 1024), np.float32)
    first[:] = 1
    address, row = first.ctypes.data, first[5]
    del first
    gc.collect()
    assert pool.idle_bytes == 0  # a row of it is still in use
    other = pool.empty((1024, 1024), np.float32)
    assert other.ctypes.data != address and (row == 1).all()
    del row
    gc.collect()
    assert pool.empty((512, 2048), np.int32).ctypes.data == address


def test_pool_keeps_no_more_than_its_limit() -> None:
    pool = Pool(3 * SMALLEST)
    arrays = [pool.empty((2 * SMALLEST,), np.uint8) for _ in range(3)]
    arrays.clear()
    gc.collect()
    assert 0 < pool.idle_bytes <= pool.limit


@pytest.mark.parametrize("shape", [(), (0, 5), (3,), (1 << 20, 2)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "int64"])
def test_arrays_are_like_numpys(shape: tuple[int, ...], dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    array = Pool(1 << 30).empty(shape, kind)
    assert array.shape == shape and array.dtype == kind
    assert array.flags.c_contiguous and array.flags.writeable


# ---- tiles -------------------------------------------------------------------------------------------------

CASES = {
    "chain": ("model m(a: f32[N], b: f32[N]) { y = relu(a * b + a) }", {"N": 100_000}),
    "rows": ("model m(a: f32[M, N], b: f32[N]) { y = softmax(a + b) }", {"M": 300, "N": 700}),
    "columns": ("model m(a: f32[M, N]) { y = sum(a, axes=[0]) }", {"M": 700, "N": 900}),
    "product": ("model m(a: f32[M, 70], b: f32[70, 50]) { y = relu(matmul(a, b)) }", {"M": 700}),
}


@pytest.mark.parametrize("name", CASES)
def test_tiles_fit_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(host_tiles, "cache_bytes", lambda: 12 * 1024)
    text, sizes = CASES[name]
    for kernel in fused(tmp_path, text).kernels:
        limits = host_tiles.host_limits(kernel, sizes)
        tiling = kernel.host.evaluate(sizes, limits)
        device = kernel.host.evaluate(sizes)
        assert set(limits) <= set(kernel.tile_sizes)
        assert all(1 <= tiling.fields[n] <= device.fields[n] for n in limits)
        held = [b.bytes.evaluate({**sizes, **tiling.fields}) // b.count for b in kernel.host.buffers if b.space == "UB"]
        lanes = [n for n, counts_lanes in kernel.tile_sizes.items() if counts_lanes]
        least = all(tiling.fields[n] < 2 * host_tiles.FEWEST_LANES for n in lanes)
        rows = [n for n in kernel.tile_sizes if n not in lanes]
        assert sum(held) <= host_tiles.cache_bytes() or (least and all(tiling.fields[n] == 1 for n in rows))


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "expected"),
    [
        (1000, 40, 1, 512),  # one thread: as many rows as a block may have
        (1000, 40, 2, 512),
        (1000, 40, 4, 256),  # a block for each thread
        (1000, 4000, 2, 512),  # columns keep the threads busy
        (20, 40, 2, None),  # the device's blocks
    ],
)
def test_blocks_of_products_are_as_large_as_threads_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, columns: int, threads: int, expected: int | None
) -> None:
    monkeypatch.setattr(host_tiles, "default_threads", lambda: threads)
    text = f"model m(a: f32[{rows}, 64], b: f32[64, {columns}]) {{ y = relu(matmul(a, b)) }}"
    (kernel,) = fused(tmp_path, text).kernels
    found = host_tiles.host_block_rows(kernel, {})
    assert list(found.values()) == ([expected] if expected is not None else [])
    launch = kernel.host.evaluate({}, blocks=found)
    assert all(launch.fields[n] == size for n, size in found.items())


# ---- results -----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_results_with_small_tiles(tmp_path: Path, name: str) -> None:
    text, sizes = CASES[name]
    model = fused(tmp_path, text)
    rng = np.random.default_rng(0)
    inputs = {
        n: rng.standard_normal(t.concrete(sizes)).astype(np.float32)
        for n, t in zip(model.model.input_names, model.model.input_types)
    }
    assert model.verify(inputs, engine="host").ok


@needs_compiler
@pytest.mark.parametrize("columns", [1024, 1000])
def test_large_results_with_and_without_whole_lines(tmp_path: Path, columns: int) -> None:
    """Stores past the caches take whole aligned lines; other rows don't."""
    model = fused(tmp_path, f"model m(a: f32[4000, {columns}]) {{ y = a * 2 + 1 }}")
    a = np.random.default_rng(0).standard_normal((4000, columns)).astype(np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"a": a}, engine="host")["y"], a * 2 + 1)


@needs_compiler
def test_constants_are_packed_per_model(tmp_path: Path) -> None:
    """Two models with weights of one shape, run in turn, and an input in the weight's place that changes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((70, 96)).astype(np.float32)
    models = []
    for i in range(2):
        (tmp_path / str(i)).mkdir()
        w = rng.standard_normal((96, 200)).astype(np.float32)
        models.append((fused(tmp_path / str(i), "model m(x: f32[70, 96]) { y = relu(x @ w) }", {"w": w}), w))
    for _ in range(3):
        for model, w in models:
            got = model.run({"x": x}, engine="host")["y"]
            np.testing.assert_allclose(got, np.maximum(x @ w, 0), rtol=2e-4, atol=2e-4)
    free = fused(tmp_path, "model m(x: f32[70, 96], w: f32[96, 200]) { y = relu(x @ w) }")
    w = np.empty((96, 200), np.float32)
    for _ in range(3):  # the same memory with other contents
        w[:] = rng.standard_normal((96, 200))
        np.testing.assert_allclose(
            free.run({"x": x, "w": w}, engine="host")["y"], np.maximum(x @ w, 0), rtol=2e-4, atol=2e-4
        )


@needs_compiler
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 130, 17), (131, 257, 65), (40, 300, 150)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_odd_sizes(tmp_path: Path, m: int, k: int, n: int, turned: bool) -> None:
    shape, factor = (f"{n}, {k}", "transpose(w, perm=[1, 0])") if turned else (f"{k}, {n}", "w")
    model = fused(tmp_path, f"model m(x: f32[{m}, {k}], w: f32[{shape}]) {{ y = relu(x @ {factor}) }}")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k) if turned else (k, n)).astype(np.float32)
    assert model.verify({"x": x, "w": w}, engine="host").ok


@needs_compiler
def test_exponentials_and_quotients_at_the_ends(tmp_path: Path) -> None:
    model = fused(tmp_path, "model m(x: f32[N, 40], d: f32[N, 1]) { e = exp(x), q = x / d, r = reciprocal(x) }")
    special = np.array([0, -0.0, 1, -1, 88.72, 88.8, 200, -87.4, -100, -103.9, -104.1, -1e30, 1e30, 1e-40, -3e-39, 2e38, np.inf, -np.inf, np.nan], np.float32)
    x = np.resize(special, (len(special), 40)).astype(np.float32)
    d = special[:, None].copy()
    got = model.run({"x": x, "d": d}, engine="host")
    with np.errstate(all="ignore"):
        exp = np.exp(x.astype(np.float64)).astype(np.float32)
        np.testing.assert_allclose(got["e"], exp, rtol=3e-7, atol=1e-44)
        np.testing.assert_allclose(got["r"], np.float32(1) / x, rtol=1.2e-7, atol=1e-44)
        np.testing.assert_allclose(got["q"], x / d, rtol=1.2e-7, atol=1e-44)
