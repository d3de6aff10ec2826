# SPDX-License-Identifier: Apache-2.0
"""Short scatters as kernels: every reduction, duplicates and positions from the end, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaf.compiler import FusedModel, fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import finish, new_model
from gaf.dialects.graph.ops.scatter import FEW_LOOKS, FEW_UPDATES, ScatterElementsOp, ScatterNDOp
from gaf.dialects.graph.types import TensorType

REDUCTIONS = ["none", "add", "mul", "max", "min"]


def compiled(op: Any, x: Any, indices: Any, updates: Any, kind: dt.DType = dt.F32, **attrs: Any) -> FusedModel:
    shapes = {"x": (x, kind), "indices": (indices, dt.I64), "updates": (updates, kind)}
    model = new_model([(n, TensorType.of(s, k)) for n, (s, k) in shapes.items()])
    made = op.make(model.block.args, attrs)
    model.block.add_op(made)
    return fuse(finish(model, [("y", made.results[0])]))


def inputs(fused: FusedModel, size: int, symbols: dict[str, int] | None = None) -> dict[str, np.ndarray]:
    x, indices, updates = (t.concrete(symbols or {}) for t in fused.source_model.input_types)
    rng = np.random.default_rng(1)
    kind = fused.source_model.input_types[0].dtype.numpy
    return {
        "x": rng.integers(-8, 9, x).astype(kind), "updates": rng.integers(-8, 9, updates).astype(kind),
        "indices": rng.integers(-size, size, indices),
    }  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_elements_under_the_rules_of_the_machine(reduction: str) -> None:
    fused = compiled(ScatterElementsOp, (6, 40), (6, 11), (6, 11), axis=1, reduction=reduction)
    result = fused.verify(inputs(fused, 40), engine="check")
    assert fused.kernels and not fused.fallbacks
    assert result.ok and not result.violations


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rows_of_any_batch(reduction: str) -> None:
    fused = compiled(ScatterNDOp, ("B", 24), (7, 1), (7, 24), reduction=reduction)
    assert fused.kernels and not fused.fallbacks
    for batch in (1, 5, 40):
        assert fused.verify(inputs(fused, batch, {"B": batch}), engine="interpreter").ok


def test_nan_and_infinity_are_values_like_others() -> None:
    fused = compiled(ScatterElementsOp, (1, 5), (1, 3), (1, 3), axis=1, reduction="none")
    x, updates = np.zeros((1, 5), np.float32), np.asarray([[np.nan, np.inf, -np.inf]], np.float32)
    y = fused.run({"x": x, "updates": updates, "indices": np.asarray([[0, -1, 2]])})["y"]
    np.testing.assert_array_equal(y, [[np.nan, 0, -np.inf, 0, np.inf]])


def test_many_updates_stay_on_the_host_and_say_why() -> None:
    many = FEW_UPDATES + 1
    long = FEW_LOOKS // many + 1
    fused = compiled(ScatterElementsOp, (1, long), (1, many), (1, many), axis=1, reduction="add")
    assert not fused.kernels and f"at most {FEW_UPDATES}" in fused.fallbacks[0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_many_updates_of_a_small_tensor(reduction: str) -> None:
    """Rows that are named many times: duplicates count in order."""
    fused = compiled(ScatterNDOp, (40, 33), (500, 1), (500, 33), reduction=reduction)
    result = fused.verify(inputs(fused, 40), engine="check")
    assert fused.kernels and not fused.fallbacks and result.ok and not result.violations


@settings(max_examples=6, deadline=None)
@given(
    rows=st.integers(1, 6), columns=st.integers(1, 12), count=st.integers(1, 9), axis=st.integers(0, 1),
    reduction=st.sampled_from(REDUCTIONS), kind=st.sampled_from([dt.F32, dt.F16, dt.BF16]),
)  # fmt: skip
def test_any_axis_and_type(rows: int, columns: int, count: int, axis: int, reduction: str, kind: dt.DType) -> None:
    updates = (count, columns) if axis == 0 else (rows, count)
    fused = compiled(ScatterElementsOp, (rows, columns), updates, updates, kind, axis=axis, reduction=reduction)
    assert fused.verify(inputs(fused, (rows, columns)[axis]), engine="interpreter").ok
