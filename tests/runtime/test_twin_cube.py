# SPDX-License-Identifier: Apache-2.0
"""Cube core of the twin: BlockMmad in every combination, each way from L1 to L0, mix kernels."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler

from .twin_kernels import MODES, kernel

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

TYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
# m, n, k, block m, block n: single elements, every tail, more than one panel of k, several blocks
SHAPES = [
    (1, 1, 1, 16, 16),
    (3, 5, 7, 16, 16),
    (16, 16, 16, 16, 16),
    (17, 33, 65, 32, 48),
    (31, 24, 8, 32, 32),
    (40, 50, 70, 48, 64),
    (128, 256, 64, 128, 256),
    (100, 200, 300, 128, 256),
    (130, 90, 129, 64, 48),
    (5, 8, 520, 16, 16),
]


def matrix(rng: np.random.Generator, rows: int, cols: int, pitch: int, dtype: type) -> np.ndarray:
    """[rows, pitch] whose first cols columns count; the rest is NaN, so that reading it shows."""
    out = np.full((rows, pitch), np.nan, np.float32)
    out[:, :cols] = rng.uniform(-1, 1, (rows, cols))
    return out.astype(dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tb", (0, 1), ids=("B", "Bt"))
@pytest.mark.parametrize("ta", (0, 1), ids=("A", "At"))
@pytest.mark.parametrize("dtype", range(3), ids=("float", "half", "bfloat16"))
def test_block_mmad(dtype: int, ta: int, tb: int, mode: str) -> None:
    rng = np.random.default_rng(dtype * 4 + ta * 2 + tb)
    for i, (m, n, k, bm, bn) in enumerate(SHAPES):
        for narrow in (0, 1) if dtype and i % 3 == 0 else (0,):
            lda, ldb, ldc = (
                (m if ta else k) + i % 3,
                (k if tb else n) + i % 2,
                (n + 15) // 16 * 16 + 16 * (i % 2),
            )
            a = matrix(rng, k if ta else m, m if ta else k, lda, TYPES[dtype])
            b = matrix(rng, n if tb else k, k if tb else n, ldb, TYPES[dtype])
            c = np.full((m, ldc), 7, TYPES[dtype] if narrow else np.float32)
            tiling = struct.pack("<13I", dtype, ta, tb, narrow, m, n, k, bm, bn, lda, ldb, ldc, 0)
            found = kernel("block_mmad", mode).launch([a, b, c], 0, tiling, 3)
            assert found.violations == [], found.message
            left = a.astype(np.float64)[:, : m if ta else k]
            right = b.astype(np.float64)[:, : k if tb else n]
            exact = (left.T if ta else left) @ (right.T if tb else right)
            scale = np.abs(left.T if ta else left) @ np.abs(right.T if tb else right)
            error = np.abs(c[:, :n].astype(np.float64) - exact)
            eps = 2.0**-8 if c.dtype == ml_dtypes.bfloat16 else 2.0**-11 if c.dtype == np.float16 else 0
            assert np.all(error <= scale * 1e-6 + np.abs(exact) * eps), (m, n, k)
            fractals = c[:, n : (n + 15) // 16 * 16].astype(np.float32)
            np.testing.assert_array_equal(fractals, 0)
            np.testing.assert_array_equal(c[:, (n + 15) // 16 * 16 :].astype(np.float32), 7)


def test_block_mmad_reads_rows_too_far_apart_for_one_instruction() -> None:
    """A row pitch above 65535 elements goes row by row."""
    rng = np.random.default_rng(0)
    a = matrix(rng, 5, 9, 66000, np.float16)
    b = matrix(rng, 9, 6, 66001, np.float16)
    for mode in MODES:
        c = np.zeros((5, 16), np.float32)
        tiling = struct.pack("<13I", 1, 0, 0, 0, 5, 6, 9, 16, 16, 66000, 66001, 16, 0)
        assert kernel("block_mmad", mode).launch([a, b, c], 0, tiling, 1).violations == []
        np.testing.assert_allclose(
            c[:, :6], a[:, :9].astype(np.float64) @ b[:, :6].astype(np.float64), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", range(3), ids=("float", "half", "bfloat16"))
def test_a_left_operand_that_stays_in_l1(dtype: int, mode: str) -> None:
    """Blocks of the same rows follow one another, on one core and on several."""
    rng = np.random.default_rng(dtype)
    for m, n, k, bm, bn in [(40, 150, 70, 16, 48), (33, 96, 1030, 32, 16), (17, 40, 257, 32, 16), (128, 520, 129, 128, 256)]:
        a, b = matrix(rng, m, k, k + 3, TYPES[dtype]), matrix(rng, k, n, n, TYPES[dtype])
        exact = a.astype(np.float64)[:, :k] @ b.astype(np.float64)
        scale = np.abs(a.astype(np.float64)[:, :k]) @ np.abs(b.astype(np.float64))
        for cores in (1, 3):
            c = np.full((m, (n + 15) // 16 * 16), 7, np.float32)
            tiling = struct.pack("<13I", dtype, 0, 0, 0, m, n, k, bm, bn, k + 3, n, c.shape[1], 1)
            found = kernel("block_mmad", mode).launch([a, b, c], 0, tiling, cores)
            assert found.violations == [], found.message
            assert np.all(np.abs(c[:, :n] - exact) <= scale * 1e-6), (m, n, k, cores)


LOADS = [
    (t, load, ta, tb)
    for t in range(3)
    for load in range(3)
    for ta in (0, 1)
    for tb in (0, 1)
    if not (load == 0 and t != 1 and (ta or not tb))  # LoadData 2D turns 16-bit types only
    and not (load == 1 and t == 2 and (ta or not tb))
]  # LoadData 3D turns no 8-bit types


@pytest.mark.parametrize("type_, load, ta, tb", LOADS)
def test_every_way_into_l0(type_: int, load: int, ta: int, tb: int) -> None:
    rng = np.random.default_rng(type_)
    dtype, out = ((np.float32, np.float32), (np.float16, np.float32), (np.int8, np.int32))[type_]
    for m, n, k, bias in [(32, 32, 32, 0), (64, 32, 96, 1), (32, 96, 64, 0)]:
        a, b = (
            rng.integers(-9, 10, s).astype(dtype)
            for s in ((k, m) if ta else (m, k), (n, k) if tb else (k, n))
        )
        row = rng.integers(-9, 10, n).astype(out)
        c = np.zeros((m, n), out)
        found = kernel("l0_loads", "check").launch(
            [a, b, row, c], 0, struct.pack("<8I", type_, load, ta, tb, m, n, k, bias), 1, outputs=1
        )
        assert found.violations == [], found.message
        exact = (a.T if ta else a).astype(np.int64) @ (b.T if tb else b).astype(np.int64) + bias * row.astype(
            np.int64
        )
        np.testing.assert_array_equal(c, exact)


@pytest.mark.parametrize("mode", MODES)
def test_mix_kernel(mode: str) -> None:
    rng = np.random.default_rng(3)
    for m, n, k, bm, bn, blocks in [
        (1, 1, 1, 16, 16, 1),
        (50, 40, 33, 16, 16, 2),
        (200, 70, 64, 32, 32, 3),
        (64, 300, 17, 64, 128, 4),
    ]:
        x, w = (rng.uniform(-1, 1, s).astype(np.float16) for s in ((m, k), (n, k)))
        bias = rng.uniform(-1, 1, n).astype(np.float32)
        y = np.zeros((m, n), np.float16)
        found = kernel("linear_relu", mode).launch(
            [x, w, bias, y],
            blocks * 2 * bm * ((bn + 15) // 16 * 16) * 4,
            struct.pack("<5I", m, n, k, bm, bn),
            blocks,
            outputs=1,
        )
        assert found.violations == [] and not found.deadlock, found.message
        exact = np.maximum(x.astype(np.float64) @ w.astype(np.float64).T + bias, 0)
        np.testing.assert_allclose(y.astype(np.float64), exact, rtol=2e-3, atol=2e-3)


def test_values_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.uniform(-1, 1, s).astype(np.float16) for s in ((500, 96), (200, 96)))
    bias = rng.uniform(-1, 1, 200).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        y = np.zeros((500, 200), np.float16)
        tiling = struct.pack("<5I", 500, 200, 96, 64, 64)
        kernel("linear_relu", "fast").launch([x, w, bias, y], 8 * 2 * 64 * 64 * 4, tiling, 8, threads=threads)
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
