# SPDX-License-Identifier: Apache-2.0
"""References on arrays of sizes: what folds shape arithmetic at import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr, floordiv, maximum, sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError
from tests.dialects.graph.harness import value

B, S = sym("B"), sym("S")


def sizes(*values: Any) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = [expr(v) for v in values]
    return array


def scalar(v: Any) -> np.ndarray:
    array = np.empty((), dtype=object)
    array[()] = expr(v)
    return array


def fold(name: str, *arrays: np.ndarray, dtype: dt.DType = dt.I64, **attrs: Any) -> np.ndarray:
    """The reference of `name` on arrays, some of them of sizes."""
    kinds = [dtype if a.dtype == object else dt.of_numpy(a.dtype) for a in arrays]
    op = registry.by_name(f"graph.{name}").make(
        [value(TensorType.of(a.shape, k)) for a, k in zip(arrays, kinds)], attrs
    )
    (result,) = op.reference_with_symbols(*arrays, env={})
    assert result.shape == op.result_tensor_types()[0].static_shape()
    return result


def dims(*values: int) -> tuple[Expr, ...]:
    return tuple(expr(v) for v in values)


def same(got: np.ndarray, *want: Any) -> None:
    assert [expr(g) for g in got.reshape(-1)] == [expr(w) for w in want]


def test_moving_sizes_around() -> None:
    shape = sizes(B, S, 768)
    same(fold("gather", shape, np.asarray([2, -1, 0]), axis=0, wrap=True), 768, 768, B)
    same(fold("concat", shape, sizes(4), axis=0), B, S, 768, 4)
    same(fold("slice", shape, starts=dims(2), sizes=dims(2), steps=(-1,)), 768, S)
    same(fold("unsqueeze", scalar(S), axes=(0,)), S)
    same(fold("squeeze", sizes(S), axes=(0,)), S)
    same(fold("reshape", shape, shape=dims(3, 1)), B, S, 768)
    same(fold("transpose", shape.reshape(1, 3), perm=(1, 0)), B, S, 768)
    same(fold("expand", sizes(S), shape=dims(2, 1)), S, S)
    same(fold("cast", shape, to=dt.I32), B, S, 768)
    assert fold("cast", sizes(B, 0), to=dt.BOOL).tolist() == [True, False]


def test_arithmetic() -> None:
    one = np.asarray([1])
    same(fold("add", sizes(S), one), S + 1)
    same(fold("sub", sizes(S), sizes(B)), S - B)
    same(fold("mul", sizes(S, B), np.asarray(4)), S * 4, B * 4)
    same(fold("div", sizes(S * 12, S), np.asarray([4, 2])), S * 3, floordiv(S, 2))
    same(fold("div", sizes(-7, 7), np.asarray([2, -2])), -3, -3)  # towards zero
    same(fold("mod", sizes(S * 8), np.asarray([8]), fmod=False), 0)
    same(fold("max", sizes(S, S), sizes(1, B)), S, maximum(S, B))
    same(fold("min", sizes(S), np.asarray([1])), 1)
    same(fold("neg", sizes(S)), -S)
    same(fold("reduce_prod", sizes(B, S, 3), axes=(0,), keepdims=False), B * S * 3)
    same(fold("reduce_sum", sizes(B, S, 3), axes=(0,), keepdims=True), B + S + 3)
    same(fold("reduce_max", sizes(S, 1), axes=(0,), keepdims=False), S)


def test_expand_idiom_of_exporters() -> None:
    """where(shape == -1, ones, shape): no size is -1, whatever its value."""
    shape = sizes(B, S, -1)
    equal = fold("equal", shape, np.asarray([-1, -1, -1]))
    assert equal.dtype == bool and equal.tolist() == [False, False, True]
    same(fold("where", equal, np.asarray([1, 1, 1]), shape), B, S, 1)


def test_comparisons() -> None:
    assert fold("greater", sizes(S, 3), np.asarray([0, 5])).tolist() == [True, False]
    assert fold("less_or_equal", sizes(S), sizes(S + 1)).tolist() == [True]
    assert fold("not_equal", sizes(S, S), sizes(S, S + 1)).tolist() == [False, True]
    for name in ("equal", "less", "greater_or_equal"):
        with pytest.raises(UnsupportedError, match="can't be decided while sizes are symbolic"):
            fold(name, sizes(S), sizes(B))


@pytest.mark.parametrize(
    "name, arrays, attrs",
    [
        ("div", (sizes(S - B), np.asarray([2])), {}),  # the sign decides the rounding
        ("mod", (sizes(S), sizes(S - B)), {"fmod": False}),
        ("cast", (sizes(S),), {"to": dt.F32}),
        ("gather", (np.asarray([1, 2, 3]), sizes(S)), {"axis": 0, "wrap": True}),
        ("reduce_mean", (sizes(S, 2),), {"axes": (0,), "keepdims": False}),
        ("pow", (sizes(S), np.asarray([2])), {}),
        ("bitwise_and", (sizes(S), np.asarray([2])), {}),
    ],
)
def test_what_symbols_leave_open_is_an_error(name: str, arrays: tuple, attrs: dict) -> None:
    with pytest.raises(UnsupportedError):
        fold(name, *arrays, **attrs)
