# SPDX-License-Identifier: Apache-2.0
"""The device library's tile functions: both bodies against numpy, for rows and lanes with pads and limits."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler

from .twin_kernels import MODES, kernel, ulps

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

SHAPES = [
    (1, 1),
    (1, 5),
    (2, 8),
    (3, 9),
    (7, 64),
    (8, 65),
    (9, 127),
    (17, 128),
    (5, 300),
    (33, 20),
    (300, 3),
    (260, 17),
    (2, 2050),
    (3, 2100),
    (1, 4500),
]
BOPS = ("ADD", "SUB", "RSUB", "MUL", "DIV", "RDIV", "MAX", "MIN")
MONS = ("SUM", "MAX", "MIN", "PROD")


def tile(rows: int, lanes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two tiles, a column, a row; nowhere near zero, so that divisions are tame."""
    rng = np.random.default_rng(seed + rows * 7919 + lanes)
    sizes = ((rows, lanes), (rows, lanes), (rows,), (lanes,))
    return tuple((rng.uniform(0.5, 2, s) * rng.choice([-1, 1], s)).astype(np.float32) for s in sizes)


def launch(
    mode: str, op: int, which: int, data: tuple[np.ndarray, ...], shape: tuple[int, ...], scalar: float = 0.0
) -> np.ndarray:
    out = np.full(shape, np.nan, np.float32)
    tiling = struct.pack("<4If", op, which, *data[0].shape, scalar)
    found = kernel("device_ops", mode).launch([*data, out], 0, tiling, 1, outputs=1)
    assert found.violations == [] and not found.deadlock, found.message
    return out


def apply(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return {
        "ADD": a + b,
        "SUB": a - b,
        "RSUB": b - a,
        "MUL": a * b,
        "DIV": a / b,
        "RDIV": b / a,
        "MAX": np.maximum(a, b),
        "MIN": np.minimum(a, b),
    }[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BOPS)
def test_binary_with_column_and_row(name: str, mode: str) -> None:
    for rows, lanes in SHAPES:
        data = tile(rows, lanes)
        a, _, col, row = data
        got = launch(mode, 0, BOPS.index(name), data, a.shape)
        np.testing.assert_array_equal(got, apply(name, a, col[:, None]))
        got = launch(mode, 1, BOPS.index(name), data, a.shape)
        np.testing.assert_array_equal(got, apply(name, a, row[None, :]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MONS)
def test_reductions(name: str, mode: str) -> None:
    fold = {"SUM": np.sum, "MAX": np.max, "MIN": np.min, "PROD": np.prod}[name]
    for rows, lanes in SHAPES:
        data = tile(rows, lanes)
        a = data[0].astype(np.float64)
        if name == "PROD":  # keep the product in range
            data = (
                np.sign(data[0]) * np.exp2(np.round(np.log2(np.abs(data[0])))).astype(np.float32),
                *data[1:],
            )
            a = data[0].astype(np.float64)
        padded = (rows + 7) // 8 * 8
        got = launch(mode, 2, MONS.index(name), data, (padded,))
        with np.errstate(over="ignore", under="ignore"):
            expected = fold(a, axis=1).astype(np.float32)
            bound = 1e-6 * lanes**0.5 * np.max(np.abs(a)) * (lanes if name == "SUM" else 1) ** 0.5
        np.testing.assert_allclose(got[:rows], expected, rtol=1e-6, atol=bound if name == "SUM" else 0)
        np.testing.assert_array_equal(got[rows:], 0)
        got = launch(mode, 3, MONS.index(name), data, (lanes,))
        with np.errstate(over="ignore", under="ignore"):
            expected = fold(a, axis=0).astype(np.float32)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=2e-6 * rows if name == "SUM" else 0)


@pytest.mark.parametrize("mode", MODES)
def test_broadcasts(mode: str) -> None:
    for rows, lanes in SHAPES:
        data = tile(rows, lanes)
        np.testing.assert_array_equal(
            launch(mode, 4, 0, data, (rows, lanes)), np.repeat(data[2][:, None], lanes, 1)
        )
        np.testing.assert_array_equal(
            launch(mode, 4, 1, data, (rows, lanes)), np.repeat(data[3][None], rows, 0)
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "which, compare",
    list(enumerate([np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal])),
)
def test_comparisons(which: int, compare: np.ufunc, mode: str) -> None:
    for rows, lanes in SHAPES:
        rng = np.random.default_rng(rows + lanes)
        a, b = (rng.integers(-2, 3, (rows, lanes)).astype(np.float32) for _ in range(2))
        a[rng.random(a.shape) < 0.1] = np.nan
        data = (a, b, a[:, 0].copy(), a[0].copy())
        np.testing.assert_array_equal(launch(mode, 5, which, data, a.shape), compare(a, b).astype(np.float32))
        np.testing.assert_array_equal(
            launch(mode, 6, which, data, a.shape, 1.0), compare(a, 1.0).astype(np.float32)
        )


@pytest.mark.parametrize("mode", MODES)
def test_select_hides_the_other_side(mode: str) -> None:
    for rows, lanes in SHAPES:
        _, b, col, row = tile(rows, lanes)
        cond = (np.arange(rows * lanes).reshape(rows, lanes) % 3 == 0).astype(np.float32)
        b[cond == 0] = np.where(np.arange((cond == 0).sum()) % 2, np.nan, b[cond == 0])
        got = launch(mode, 7, 0, (cond, b, col, row), cond.shape)
        np.testing.assert_array_equal(got, np.where(cond != 0, b, -b))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which, rounding", list(enumerate([np.rint, np.floor, np.ceil, None, np.trunc])))
def test_rounding(which: int, rounding: np.ufunc | None, mode: str) -> None:
    a = np.array(
        [[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.49999997, 8388609.0, 1e30, -3.7, 3.2, -0.0]],
        np.float32,
    )
    expected = np.trunc(a.astype(np.float64) + np.copysign(0.5, a)) if rounding is None else rounding(a)
    got = launch(mode, 8, which, (a, a, a[:, 0].copy(), a[0].copy()), a.shape)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


MATH = [
    ("Tanh1", np.tanh, -5, 5, 3),
    ("Erf1", np.vectorize(math.erf), -4, 4, 2),
    ("Sin1", np.sin, -50, 50, 2),
    ("Cos1", np.cos, -50, 50, 2),
    ("Tan1", np.tan, -1, 1, 1),
    ("Atan1", np.arctan, -9, 9, 1),
    ("Log1", np.log, 0.1, 9, 1.5),
    ("Pow1", None, 0.1, 4, 1),
    ("Rsqrt1", lambda x: 1 / np.sqrt(x), 0.1, 9, 1.6),
    ("Recip1", lambda x: 1 / x, 0.1, 9, 0.51),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which", range(len(MATH)), ids=[m[0] for m in MATH])
def test_mathematics(which: int, mode: str) -> None:
    _, f, lo, hi, allowed = MATH[which]
    for rows, lanes in SHAPES:
        rng = np.random.default_rng(lanes)
        a, b = (rng.uniform(lo, hi, (rows, lanes)).astype(np.float32) for _ in range(2))
        wide = a.astype(np.float64)
        exact = np.power(wide, b.astype(np.float64)) if f is None else f(wide)
        assert ulps(launch(mode, 9, which, (a, b, a[:, 0].copy(), a[0].copy()), a.shape), exact) <= allowed


# ---- casts -------------------------------------------------------------------------------------------------

BF16 = ml_dtypes.bfloat16
PAIRS = [
    (np.float16, np.float32),
    (np.float32, np.float16),
    (BF16, np.float32),
    (np.float32, BF16),
    (np.int32, np.float32),
    (np.float32, np.int32),
    (np.int64, np.float32),
    (np.float32, np.int64),
    (np.int16, np.float32),
    (np.float32, np.int16),
    (np.int64, np.int32),
    (np.int32, np.int64),
    (np.int8, np.float32),
    (np.float32, np.int8),
    (np.uint8, np.float32),
    (np.float32, np.uint8),
    (np.float16, np.int8),
    (np.int8, np.float16),
    (np.float16, np.uint8),
    (np.uint8, np.float16),
    (np.float16, np.int16),
    (np.int16, np.float16),
    (np.int32, np.float16),
    (np.int32, BF16),
    (np.int16, np.int32),
]
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC = range(6)


def is_float(t: type) -> bool:
    return t in (np.float16, np.float32, BF16)


def to_integer(x: np.ndarray, mode: int) -> np.ndarray:
    return {
        NONE: np.rint,
        RINT: np.rint,
        FLOOR: np.floor,
        CEIL: np.ceil,
        TRUNC: np.trunc,
        ROUND: lambda v: np.trunc(v + np.copysign(0.5, v)),
    }[mode](x)


def reference_cast(x: np.ndarray, dst: type, mode: int) -> np.ndarray:
    """Conversion with saturation for integers; to floats: nearest even."""
    if is_float(dst):
        with np.errstate(over="ignore"):
            return x.astype(np.float64).astype(dst) if is_float(x.dtype.type) else x.astype(dst)
    info = np.iinfo(dst)
    if not is_float(x.dtype.type):
        return np.clip(x, info.min, info.max).astype(dst)
    whole = to_integer(x.astype(np.float64), mode)
    return np.array([int(min(max(v, info.min), info.max)) for v in whole.ravel().tolist()], dst).reshape(
        x.shape
    )


def source_values(src: type, dst: type, rows: int, lanes: int) -> np.ndarray:
    rng = np.random.default_rng(rows * 31 + lanes)
    if is_float(src):
        big = 300.0 if np.dtype(dst).itemsize == 1 else 70000.0 if src is not np.float16 else 60000.0
        x = rng.uniform(-big, big, (rows, lanes))
        half_way = np.round(rng.uniform(-40, 40, (rows, lanes))) + 0.5
        return np.where(rng.random((rows, lanes)) < 0.5, x, half_way).astype(src)
    info = np.iinfo(src)
    lo, hi = max(info.min, -(2**40)), min(info.max, 2**40)
    return rng.integers(lo, hi, (rows, lanes), endpoint=True).astype(src)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pair", range(len(PAIRS)), ids=[f"{np.dtype(s).name}-{np.dtype(d).name}" for d, s in PAIRS]
)
def test_cast_tile(pair: int, mode: str) -> None:
    dst, src = PAIRS[pair]
    roundings = (RINT, FLOOR, CEIL, ROUND, TRUNC) if is_float(src) and not is_float(dst) else (RINT,)
    for rows, lanes in [
        (1, 1),
        (1, 9),
        (3, 5),
        (4, 8),
        (5, 17),
        (2, 33),
        (7, 64),
        (300, 3),
        (2, 600),
        (1, 4200),
    ]:
        x = source_values(src, dst, rows, lanes)
        for rounding in roundings:
            y = np.zeros((rows, lanes), dst)
            found = kernel("casts", mode).launch(
                [x, y], 0, struct.pack("<4I", pair, rounding, rows, lanes), 1, outputs=1
            )
            assert found.violations == [], found.message
            expected = reference_cast(x, dst, rounding)
            np.testing.assert_array_equal(
                y.astype(np.float64) if dst is BF16 else y,
                expected.astype(np.float64) if dst is BF16 else expected,
            )


def test_half_rounding_of_every_bit_pattern() -> None:
    """float -> half and float -> bfloat16 agree with numpy and ml_dtypes on ties, subnormals and specials."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float32)
    between = (finite[:-1] + finite[1:]) / 2  # ties
    for x in (
        finite,
        between,
        np.nextafter(between, np.float32(np.inf)),
        np.array([65519.996, 65520, np.inf, -np.inf], np.float32),
    ):
        for dst, pair in ((np.float16, 0), (BF16, 2)):
            y = np.zeros((1, len(x)), dst)
            for start in range(0, len(x), 4096):
                part = np.ascontiguousarray(x[None, start : start + 4096])
                out = np.zeros(part.shape, dst)
                kernel("casts", "fast").launch(
                    [part, out], 0, struct.pack("<4I", pair, RINT, *part.shape), 1, outputs=1
                )
                y[:, start : start + 4096] = out
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(y[0].view(np.uint16), x.astype(dst).view(np.uint16))
