# SPDX-License-Identifier: Apache-2.0
"""Reductions over any set of axes, norms over several of them, and outputs whose dims an operand sees in two parts."""

from __future__ import annotations

from itertools import combinations

import pytest

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const
from gaf.dialects.graph.model import finish
from gaf.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from gaf.dialects.graph.ops.channel_norm import GroupNormOp, InstanceNormOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import ConcatOp
from gaf.dialects.graph.ops.unary import ExpOp, NegOp, TanhOp
from gaf.fusion.region import NotFusible, build_region
from gaf.fusion.schedule import Schedule
from gaf.fusion.schedules import choose_schedules
from gaf.runtime.compiler import find_compiler
from tests.fusion.test_piecewise import Graph

AXES = [axes for n in (1, 2, 3, 4) for axes in combinations(range(4), n)]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_every_set_of_axes(axes: tuple[int, ...]) -> None:
    for op in (ReduceSumOp, ReduceMaxOp):
        g = Graph(x=["B", 6, "S", 40])
        g.check(g.add(op, g["x"], axes=axes, keepdims=False), kernels=1)


def variance(g: Graph, axes: tuple[int, ...]) -> tuple:  # type: ignore[type-arg]
    mean = g.add(ReduceMeanOp, g["x"], axes=axes, keepdims=True)
    centred = g.add(SubOp, g["x"], mean)
    return centred, g.add(ReduceMeanOp, g.add(MulOp, centred, centred), axes=axes, keepdims=True)


@pytest.mark.parametrize("axes", [(0, 2), (1, 3), (0, 3), (0, 2, 3), (0, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("last", [40, 9000])
def test_two_dependent_statistics_and_the_values_themselves(axes: tuple[int, ...], last: int) -> None:
    """Batch-norm-like: three walks over the reduced axes, or one tile that holds them all."""
    g = Graph(x=["B", 2, "P", last])
    centred, var = variance(g, axes)
    g.check(g.add(MulOp, centred, g.add(ExpOp, g.add(MulOp, var, var))), kernels=1)


@pytest.mark.parametrize("kind", [dt.F32, dt.BF16], ids=str)
@pytest.mark.parametrize("spatial", [49, 5000])
def test_group_norm_is_one_kernel(spatial: int, kind: dt.DType) -> None:
    g = Graph(x=(["B", 8, spatial], kind), w=([8], kind), b=([8], kind))
    y = g.add(GroupNormOp, g["x"], g["w"], g["b"], num_groups=2, epsilon=1e-5)
    g.check(g.add(TanhOp, y), kernels=1)


def test_instance_norm_is_one_kernel() -> None:
    g = Graph(x=["B", 8, 7, 9], w=[8], b=[8])
    g.check(g.add(InstanceNormOp, g["x"], g["w"], g["b"], epsilon=1e-5), kernels=1)


def schedules(g: Graph, *outputs) -> list[Schedule]:  # type: ignore[no-untyped-def]
    return choose_schedules(build_region(g.ops, outputs))


def test_channels_of_a_group_become_rows() -> None:
    g = Graph(x=["B", 8, 49], w=[8], b=[8])
    y = g.add(GroupNormOp, g["x"], g["w"], g["b"], num_groups=2, epsilon=1e-5)
    region = build_region(g.ops, [y])
    whole, streamed = choose_schedules(region)
    assert region.axes[whole.rows or ""] == const(4) and region.axes[whole.lanes] == const(49)
    assert set(whole.nest) == {whole.rows, whole.lanes} and not whole.streamed and streamed.streamed
    assert whole.walked == whole.grid


def test_an_axis_that_is_neither_rows_nor_lanes_is_walked() -> None:
    g = Graph(x=["B", 6, "S", 40])
    (streamed,) = schedules(g, g.add(ReduceSumOp, g["x"], axes=(0, 2), keepdims=False))
    assert len(streamed.nest) == 2 and len(streamed.grid) == 1 and len(streamed.walked) == 2


def test_different_axes_stay_apart() -> None:
    g = Graph(x=[24, 40])
    first = g.add(ReduceSumOp, g["x"], axes=(0,), keepdims=True)
    out = g.add(ReduceMaxOp, g.add(MulOp, g["x"], first), axes=(1,), keepdims=True)
    with pytest.raises(NotFusible, match="reductions over different axes"):
        schedules(g, out)
    g.check(out)


def test_an_output_along_some_of_the_axes_stays_apart() -> None:
    g = Graph(x=["B", 6, 7, 40], c=["B", 6, 1, 1])
    total = g.add(ReduceSumOp, g["x"], axes=(1, 3), keepdims=True)
    out = g.add(AddOp, total, g["c"])
    with pytest.raises(NotFusible):
        schedules(g, out)
    g.check(out)


def test_merged_heads_are_split_again() -> None:
    """[B, 4, S, 16] transposed and reshaped to [B, S, 64]: a bias and a residual join without a copy."""
    g = Graph(x=["B", 4, "S", 16], b=[64], r=["B", "S", 64])
    merged = g.add(ReshapeOp, g.add(TransposeOp, g["x"], perm=(0, 2, 1, 3)), shape=("B", "S", 64))
    out = g.add(AddOp, g.add(AddOp, merged, g["b"]), g["r"])
    region = build_region(g.ops, [out])
    assert const(16) in region.axes.values() and const(4) in region.axes.values()
    g.check(out, kernels=1)


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_walks_over_several_axes_on_the_twin() -> None:
    """The same kernels as C++ in check mode: group norm, rotary positions, a reduction over outer axes."""
    graphs = []
    g = Graph(x=["B", 8, 5000], w=[8], b=[8])
    graphs.append((g, g.add(GroupNormOp, g["x"], g["w"], g["b"], num_groups=2, epsilon=1e-5)))
    g = Graph(x=["B", "S", 64], cos=["S", 64])
    turned = g.add(ConcatOp, g.add(NegOp, g.slice(g["x"], 2, 32, 32)), g.slice(g["x"], 2, 0, 32), axis=2)
    graphs.append((g, g.add(MulOp, turned, g["cos"])))
    g = Graph(x=["B", 6, "S", 40])
    graphs.append((g, g.add(ReduceSumOp, g.pad(g["x"], [1, 0, 0, 3], [0, 0, 2, 0]), axes=(0, 2), keepdims=False)))
    for graph, out in graphs:
        found = fuse(finish(graph.model, [("y", out)])).verify(engine="check")
        assert found.ok and not found.violations
