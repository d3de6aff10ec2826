# SPDX-License-Identifier: Apache-2.0
"""Every vector instruction of the twin against numpy in float64: sizes with tails, all forms, both modes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler

from .twin_kernels import MODES, kernel, ulps

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

SIZES = (1, 2, 7, 8, 9, 31, 33, 63, 64, 65, 127, 128, 129, 200, 256, 300)
TYPES = {"float": (0, np.float32), "half": (1, np.float16), "int32": (2, np.int32), "int16": (3, np.int16)}
COUNT, MASK, BITS = 0, 1, 2

Reference = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def special(f: Callable[[float], float]) -> Reference:
    return lambda a, b, d, s: np.array([f(v) for v in a.tolist()])


# name: (number, reference in float64, forms, range of a, ulps allowed in float)
EXACT: dict[str, tuple[int, Reference, tuple[int, ...]]] = {
    "Add": (0, lambda a, b, d, s: a + b, (COUNT, MASK, BITS)),
    "Sub": (1, lambda a, b, d, s: a - b, (COUNT, MASK, BITS)),
    "Mul": (2, lambda a, b, d, s: a * b, (COUNT, MASK, BITS)),
    "Max": (3, lambda a, b, d, s: np.maximum(a, b), (COUNT, MASK, BITS)),
    "Min": (4, lambda a, b, d, s: np.minimum(a, b), (COUNT, MASK, BITS)),
    "Adds": (5, lambda a, b, d, s: a + s, (COUNT, MASK, BITS)),
    "Muls": (6, lambda a, b, d, s: a * s, (COUNT, MASK, BITS)),
    "Maxs": (7, lambda a, b, d, s: np.maximum(a, s), (COUNT, MASK, BITS)),
    "Mins": (8, lambda a, b, d, s: np.minimum(a, s), (COUNT, MASK, BITS)),
    "Duplicate": (9, lambda a, b, d, s: np.full_like(a, s), (COUNT,)),
    "CreateVecIndex": (10, lambda a, b, d, s: s + np.arange(len(a)), (COUNT,)),
}
FLOAT_EXACT: dict[str, tuple[int, Reference, tuple[int, ...]]] = {
    "Div": (20, lambda a, b, d, s: a / b, (COUNT, MASK, BITS)),
    "LeakyRelu": (21, lambda a, b, d, s: np.where(a >= 0, a, a * s), (COUNT, MASK, BITS)),
    "AddRelu": (22, lambda a, b, d, s: relu(a + b), (COUNT, MASK, BITS)),
    "SubRelu": (23, lambda a, b, d, s: relu(a - b), (COUNT, MASK, BITS)),
    "Abs": (32, lambda a, b, d, s: np.abs(a), (COUNT, MASK, BITS)),
    "Sqrt": (33, lambda a, b, d, s: np.sqrt(np.abs(a)), (COUNT, MASK, BITS)),
    "Reciprocal": (35, lambda a, b, d, s: 1 / a, (COUNT, MASK, BITS)),
    "Relu": (36, lambda a, b, d, s: relu(a), (COUNT, MASK, BITS)),
    "Floor": (56, lambda a, b, d, s: np.floor(a), (COUNT,)),
    "Ceil": (57, lambda a, b, d, s: np.ceil(a), (COUNT,)),
    "Round": (58, lambda a, b, d, s: np.trunc(a + np.copysign(0.5, a)), (COUNT,)),
    "Trunc": (59, lambda a, b, d, s: np.trunc(a), (COUNT,)),
    "Sign": (60, lambda a, b, d, s: np.sign(a), (COUNT,)),
    "Frac": (61, lambda a, b, d, s: a - np.trunc(a), (COUNT,)),
}
# name: (number, reference, (lowest, highest) argument, ulps)
MATH: dict[str, tuple[int, Reference, tuple[float, float], float]] = {
    "Exp": (30, lambda a, b, d, s: np.exp(a), (-110, 92), 1.5),
    "Ln": (31, lambda a, b, d, s: np.log(a), (0, 1e4), 1.5),
    "Rsqrt": (34, lambda a, b, d, s: 1 / np.sqrt(a), (1e-3, 1e4), 1.6),
    "Tanh": (40, lambda a, b, d, s: np.tanh(a), (-12, 12), 3),
    "Erf": (41, special(math.erf), (-5, 5), 2),
    "Erfc": (42, special(math.erfc), (-3, 9), 1),
    "Sin": (43, lambda a, b, d, s: np.sin(a), (-65000, 65000), 2),
    "Cos": (44, lambda a, b, d, s: np.cos(a), (-65000, 65000), 2),
    "Tan": (45, lambda a, b, d, s: np.tan(a), (-100, 100), 1),
    "Asin": (46, lambda a, b, d, s: np.arcsin(a), (-1, 1), 1),
    "Acos": (47, lambda a, b, d, s: np.arccos(a), (-1, 1), 1),
    "Atan": (48, lambda a, b, d, s: np.arctan(a), (-50, 50), 1),
    "Sinh": (49, lambda a, b, d, s: np.sinh(a), (-20, 20), 1),
    "Cosh": (50, lambda a, b, d, s: np.cosh(a), (-20, 20), 1),
    "Asinh": (51, lambda a, b, d, s: np.arcsinh(a), (-50, 50), 1),
    "Acosh": (52, lambda a, b, d, s: np.arccosh(a), (1, 50), 1),
    "Atanh": (53, lambda a, b, d, s: np.arctanh(a), (-0.99, 0.99), 1),
    "Log2": (54, lambda a, b, d, s: np.log2(a), (1e-3, 1e4), 1),
    "Sigmoid": (55, lambda a, b, d, s: 1 / (1 + np.exp(-a)), (-60, 60), 3),
    "Log": (62, lambda a, b, d, s: np.log(a), (1e-3, 1e4), 1.5),
    "Log10": (63, lambda a, b, d, s: np.log10(a), (1e-3, 1e4), 1),
    "Power": (64, lambda a, b, d, s: np.power(a, b), (0.01, 20), 1),
}


def launch(
    mode: str,
    dtype: str,
    number: int,
    form: int,
    a: np.ndarray,
    b: np.ndarray,
    d: np.ndarray,
    scalar: float = 0.0,
) -> np.ndarray:
    """Run one instruction on copies; check mode must find nothing."""
    result = d.copy()
    tiling = struct.pack("<4If", TYPES[dtype][0], number, form, a.size, scalar)
    found = kernel("vector_ops", mode).launch([a, b, result], 0, tiling, 1)
    assert found.violations == [] and not found.deadlock, found.message
    return result


def operands(
    dtype: str, n: int, lo: float, hi: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    np_type = TYPES[dtype][1]
    if np.issubdtype(np_type, np.integer):
        return tuple(rng.integers(lo, hi, n).astype(np_type) for _ in range(3))
    a = rng.uniform(lo, hi, n).astype(np_type)
    b = rng.uniform(0.5, 3, n).astype(np_type) * rng.choice([-1, 1], n).astype(np_type)
    return a, b, rng.uniform(-2, 2, n).astype(np_type)


def fits(form: int, n: int, dtype: str) -> bool:
    lanes = 256 // np.dtype(TYPES[dtype][1]).itemsize
    return form == COUNT or n <= lanes or n % lanes == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", EXACT)
def test_arithmetic(name: str, dtype: str, mode: str) -> None:
    number, reference, forms = EXACT[name]
    for n in SIZES:
        a, b, d = operands(dtype, n, -100, 100, n)
        expected = reference(a.astype(np.float64), b.astype(np.float64), d, 3.0).astype(a.dtype)
        for form in forms:
            if fits(form, n, dtype):
                np.testing.assert_array_equal(launch(mode, dtype, number, form, a, b, d, 3.0), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ("float", "half"))
@pytest.mark.parametrize("name", FLOAT_EXACT)
def test_float_only(name: str, dtype: str, mode: str) -> None:
    """Correctly rounded operations: equal to float64 rounded once (float: LeakyRelu's product included)."""
    number, reference, forms = FLOAT_EXACT[name]
    for n in SIZES:
        a, b, d = operands(dtype, n, -50, 50, n)
        if name == "Sqrt":
            a = np.abs(a)
        scalar = 0.25
        expected = reference(a.astype(np.float64), b.astype(np.float64), d, scalar).astype(a.dtype)
        for form in forms:
            if fits(form, n, dtype):
                np.testing.assert_array_equal(launch(mode, dtype, number, form, a, b, d, scalar), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MATH)
def test_mathematics(name: str, mode: str) -> None:
    number, reference, (lo, hi), allowed = MATH[name]
    worst = 0.0
    for n in (*SIZES, 2048):
        a, b, d = operands("float", n, lo, hi, n)
        exact = reference(a.astype(np.float64), b.astype(np.float64), d, 0.0)
        worst = max(worst, ulps(launch(mode, "float", number, COUNT, a, b, d), exact))
    assert worst <= allowed


@pytest.mark.parametrize("name", MATH)
def test_mathematics_in_half(name: str) -> None:
    number, reference, (lo, hi), _ = MATH[name]
    a, b, d = operands("half", 300, max(lo, -60000), min(hi, 60000), 5)
    with np.errstate(all="ignore"):
        exact = reference(a.astype(np.float64), b.astype(np.float64), d, 0.0)
    assert ulps(launch("fast", "half", number, COUNT, a, b, d), exact) <= 0.51


@pytest.mark.parametrize(
    "name",
    (
        "Exp",
        "Ln",
        "Sqrt",
        "Rsqrt",
        "Reciprocal",
        "Tanh",
        "Erf",
        "Sin",
        "Cos",
        "Sigmoid",
        "Relu",
        "Abs",
        "Floor",
        "Sign",
        "Power",
    ),
)
def test_special_values(name: str) -> None:
    """NaN stays NaN, infinities and zeros go where mathematics sends them."""
    number, reference = (MATH.get(name) or FLOAT_EXACT[name])[:2]
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3e38, -3e38, 1e-20, 100.0, -100.0], np.float32)
    b = np.array([2.0] * len(a), np.float32)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64)
        exact = np.array(
            [
                float(v)
                for v in (np.sqrt(wide) if name == "Sqrt" else reference(wide, b.astype(np.float64), a, 0.0))
            ]
        )
    got = launch("fast", "float", number, COUNT, a, b, a)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    assert ulps(got[~np.isnan(exact)], exact[~np.isnan(exact)]) <= 3


@pytest.mark.parametrize("mode", MODES)
def test_operations_that_read_their_destination(mode: str) -> None:
    for n in SIZES:
        a, b, d = operands("float", n, -5, 5, n)
        wide = a.astype(np.float64), b.astype(np.float64), d.astype(np.float64)
        fused = launch(mode, "float", 24, COUNT, a, b, d)
        np.testing.assert_allclose(fused, wide[0] * wide[2] + wide[1], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            launch(mode, "float", 65, COUNT, a, b, d, 3.0), wide[2] + 3 * wide[0], rtol=1e-6, atol=1e-6
        )
        np.testing.assert_allclose(
            launch(mode, "float", 66, COUNT, a, b, d), wide[2] + wide[0] * wide[1], rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("mode", MODES)
def test_integer_bits(mode: str) -> None:
    for n in SIZES:
        a, b, d = operands("int16", n, -30000, 30000, n)
        for form in (COUNT, MASK, BITS):
            if fits(form, n, "int16"):
                np.testing.assert_array_equal(launch(mode, "int16", 70, form, a, b, d), a & b)
                np.testing.assert_array_equal(launch(mode, "int16", 71, form, a, b, d), a | b)
                np.testing.assert_array_equal(launch(mode, "int16", 72, form, a, b, d), ~a)
        a, b, d = operands("int32", n, -(2**30), 2**30, n)
        np.testing.assert_array_equal(launch(mode, "int32", 73, COUNT, a, b, d, 1.0), a << 1)
        np.testing.assert_array_equal(launch(mode, "int32", 74, COUNT, a, b, d, 3.0), a >> 3)


@pytest.mark.parametrize("mode", MODES)
def test_masked_forms_leave_other_lanes_alone(mode: str) -> None:
    a, b, d = operands("float", 128, -5, 5, 1)
    got = d.copy()
    tiling = struct.pack("<4If", 0, 0, MASK, 128, 0.0)
    kernel("vector_ops", mode).launch([a, b, got], 0, tiling, 1)
    np.testing.assert_array_equal(got, a + b)
    a, b, d = operands("float", 40, -5, 5, 1)  # 40 of the 64 lanes of one repeat
    np.testing.assert_array_equal(launch(mode, "float", 0, BITS, a, b, d), a + b)
