# SPDX-License-Identifier: Apache-2.0
"""Positions of extreme elements and running folds as kernels, against numpy and under the rules of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaf.compiler import FusedModel, fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.search import SHORT_SCAN, ArgMaxOp, ArgMinOp, CumProdOp, CumSumOp
from tests.fusion.helpers import Net


def compiled(op: Any, shape: tuple[Any, ...], dtype: dt.DType = dt.F32, **attrs: Any) -> FusedModel:
    net = Net(dtype, x=shape)
    return fuse(net.finish(net.op(op, net["x"], **attrs)))


def test_ties_go_to_the_first_or_last_position_and_nan_wins() -> None:
    x = np.asarray([[3, 7, 7, 1], [2, 2, 2, 2], [1, np.nan, 9, np.nan]], np.float32)
    for last, expected in ((False, [1, 0, 1]), (True, [2, 3, 3])):
        fused = compiled(ArgMaxOp, ("B", 4), axis=1, keepdims=False, select_last=last)
        assert fused.kernels and not fused.fallbacks
        assert fused.run({"x": x})["y0"].tolist() == expected


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arg_min_under_the_rules_of_the_machine(axis: int) -> None:
    fused = compiled(ArgMinOp, (5, 33, 17), axis=axis, keepdims=True, select_last=False)
    result = fused.verify(engine="check")
    assert fused.kernels and result.ok and not result.violations


@pytest.mark.parametrize("op", [CumSumOp, CumProdOp])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_folds_under_the_rules_of_the_machine(op: Any, axis: int) -> None:
    fused = compiled(op, (19, 40), axis=axis, exclusive=axis == 0, reverse=axis == 1)
    result = fused.verify(engine="check")
    assert fused.kernels and not fused.fallbacks
    assert result.ok and not result.violations


def test_long_running_folds_from_the_end_stay_on_the_host_and_say_why() -> None:
    fused = compiled(CumSumOp, (4, SHORT_SCAN + 1), axis=1, exclusive=False, reverse=True)
    assert not fused.kernels and f"at most {SHORT_SCAN}" in fused.fallbacks[0]


@settings(max_examples=6, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=3).map(tuple),
    data=st.data(),
    kind=st.sampled_from([dt.F32, dt.F16, dt.BF16]),
)
def test_any_axis_of_any_shape(shape: tuple[int, ...], data: st.DataObject, kind: dt.DType) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    if data.draw(st.booleans()):
        fused = compiled(ArgMaxOp, shape, kind, axis=axis, keepdims=False, select_last=data.draw(st.booleans()))
    else:
        flags = {"exclusive": data.draw(st.booleans()), "reverse": data.draw(st.booleans())}
        fused = compiled(CumSumOp, shape, kind, axis=axis, **flags)
    x = np.random.default_rng(0).integers(-4, 4, shape).astype(kind.numpy)
    assert fused.verify({"x": x}, engine="interpreter").ok
