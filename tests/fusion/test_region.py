# SPDX-License-Identifier: Apache-2.0
"""Regions and schedules: which groups have a joint iteration space, and how views become index maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, sym
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.unary import ExpOp, TanhOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion.region import NotFusible, address, build_region
from gaf.fusion.schedules import choose_schedules


class Graph:
    """Ops on named inputs; every op joins the group."""

    def __init__(self, **inputs: Sequence[int | str] | tuple[Sequence[int | str], dt.DType]) -> None:
        types = []
        for name, spec in inputs.items():
            shape, kind = spec if isinstance(spec, tuple) else (spec, dt.F32)
            types.append((name, TensorType.of(shape, kind)))
        self.model: Model = new_model(types)
        self.values: dict[str, SSAValue] = dict(zip(inputs, self.model.block.args))
        self.ops: list[Operation] = []

    def __getitem__(self, name: str) -> SSAValue:
        return self.values[name]

    def add(self, op: type[GraphOp], *operands: SSAValue, **attrs: Any) -> SSAValue:
        made = op.make(operands, attrs)
        self.model.block.add_op(made)
        self.ops.append(made)
        return made.results[0]

    def number(self, value: float) -> SSAValue:
        made = self.model.constant(np.float32(value))
        self.model.block.add_op(made)
        return made.results[0]


def heads(g: Graph, x: SSAValue) -> SSAValue:
    split = g.add(ReshapeOp, x, shape=("B", "S", 4, 16))
    return g.add(TransposeOp, split, perm=(0, 2, 1, 3))


def test_elementwise_chain_collapses_to_one_axis() -> None:
    g = Graph(x=["B", "S", 96])
    region = build_region(g.ops, [g.add(TanhOp, g.add(ExpOp, g["x"]))])
    assert list(region.axes.values()) == [sym("B") * sym("S") * 96]
    (schedule,) = choose_schedules(region)
    assert schedule.rows is None and schedule.grid == () and not schedule.is_cube


def test_broadcast_operands_keep_their_own_axes() -> None:
    g = Graph(x=["B", 7, 32], bias=[32])
    region = build_region(g.ops, [g.add(AddOp, g["x"], g["bias"])])
    assert sorted(map(str, region.axes.values())) == ["32", "B * 7"]
    loads = [n for n in region.nodes if n.kind == "load"]
    assert sorted(len(n.axes) for n in loads) == [1, 2]


def test_softmax_reduces_over_the_output_axis_and_shares_its_operand() -> None:
    g = Graph(x=["M", 64])
    region = build_region(g.ops, [g.add(SoftmaxOp, g["x"], axes=(-1,))])
    assert len(region.axes) == 2
    assert len([n for n in region.nodes if n.kind == "load"]) == 1
    assert {n.over for n in region.nodes if n.kind == "reduce"} == {region.nodes[region.reductions()[0]].over}
    persistent, streamed = choose_schedules(region)
    assert persistent.reduced == persistent.lanes and not persistent.streamed and streamed.streamed


def test_head_split_and_transpose_become_an_affine_load() -> None:
    g = Graph(q=["B", "S", 64], k=["B", "S", 64])
    keys = g.add(TransposeOp, heads(g, g["k"]), perm=(0, 1, 3, 2))
    region = build_region(g.ops, [g.add(MatMulOp, heads(g, g["q"]), keys)])
    (schedule,) = choose_schedules(region)
    ((matmul,),) = schedule.levels
    assert matmul.trans_b and not matmul.trans_a and not matmul.computed
    left = region.nodes[region.nodes[matmul.node].args[0]]
    linear = address(region.input_types[left.input].shape, left.index, region.axes)
    assert [linear.coefficient(a) for a in matmul.summed] == [1]
    assert linear.coefficient(schedule.rows) == 64


def test_matmul_result_stored_transposed_by_its_producer() -> None:
    g = Graph(p=["B", 4, "S", "S"], v=["B", "S", 64])
    context = g.add(TransposeOp, g.add(MatMulOp, g["p"], heads(g, g["v"])), perm=(0, 2, 1, 3))
    region = build_region(g.ops, [context])
    (schedule,) = choose_schedules(region)
    linear = address(region.outputs[0].type.shape, region.outputs[0].index, region.axes)
    assert linear.coefficient(schedule.lanes) == 1
    assert linear.coefficient(schedule.rows) == 64


def test_row_complete_epilogue_of_a_matmul() -> None:
    g = Graph(x=["B", "S", 64], w=[64, 96], r=["B", "S", 96], gamma=[96], beta=[96])
    y = g.add(AddOp, g.add(MatMulOp, g["x"], g["w"]), g["r"])
    y = g.add(LayerNormOp, y, g["gamma"], g["beta"], axis=-1, epsilon=1e-5, stash=False)
    persistent, streamed = choose_schedules(build_region(g.ops, [y]))
    assert persistent.is_cube and persistent.reduced == persistent.lanes
    assert streamed.streamed


def test_normalisation_in_front_of_a_matmul() -> None:
    g = Graph(x=["M", 64], gamma=[64], beta=[64], w=[64, 64], b=[64])
    h = g.add(LayerNormOp, g["x"], g["gamma"], g["beta"], axis=-1, epsilon=1e-5, stash=False)
    y = g.add(AddOp, g.add(MatMulOp, h, g["w"]), g["b"])
    region = build_region(g.ops, [y])
    (schedule,) = choose_schedules(region)
    ((matmul,),) = schedule.levels
    assert matmul.computed and schedule.is_chain
    # the statistics run over the summed axis, though the columns have the same size
    assert {region.nodes[r].over for r in region.reductions()} == {matmul.summed}


def test_attention_is_two_matmuls_with_rows_between() -> None:
    g = Graph(q=["B", "S", 64], k=["B", "S", 64], v=["B", "S", 64])
    keys = g.add(TransposeOp, heads(g, g["k"]), perm=(0, 1, 3, 2))
    scores = g.add(MulOp, g.add(MatMulOp, heads(g, g["q"]), keys), g.number(0.25))
    context = g.add(MatMulOp, g.add(SoftmaxOp, scores, axes=(-1,)), heads(g, g["v"]))
    out = g.add(TransposeOp, context, perm=(0, 2, 1, 3))
    schedule, walk = choose_schedules(build_region(g.ops, [out]))
    assert walk.looped and not schedule.looped, "whole rows if they fit: the length is unknown"
    first, second = schedule.levels
    assert not first[0].computed and second[0].computed
    assert second[0].summed == (first[0].columns,)


def test_matmuls_side_by_side_share_rows_and_columns() -> None:
    g = Graph(x=["M", 64], gate=[64, 96], up=[64, 96])
    left, right = g.add(MatMulOp, g["x"], g["gate"]), g.add(MatMulOp, g["x"], g["up"])
    (schedule,) = choose_schedules(build_region(g.ops, [g.add(MulOp, g.add(TanhOp, left), right)]))
    (level,) = schedule.levels
    assert len(level) == 2 and not schedule.is_chain


def test_embedding_lookup_reads_its_index_tensor() -> None:
    g = Graph(table=([100, 32], dt.F32), ids=(["B", "S"], dt.I64))
    region = build_region(g.ops, [g.add(GatherOp, g["table"], g["ids"], axis=0, wrap=False)])
    (schedule,) = choose_schedules(region)
    assert len(region.inputs) == 2
    assert region.axes[schedule.rows] == sym("B") * sym("S")
    assert region.axes[schedule.lanes] == const(32)


def test_equal_work_is_one_node() -> None:
    g = Graph(x=["M", 8])
    a, b = g.add(ExpOp, g["x"]), g.add(ExpOp, g["x"])
    region = build_region(g.ops, [g.add(MulOp, a, b)])
    assert [n.function for n in region.nodes if n.kind == "map"] == ["exp", "mul"]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda g: g.add(MatMulOp, g["a"], g.add(ExpOp, g["b"])), "the right operand of graph.matmul is computed here"),
        (lambda g: g.add(ReduceSumOp, g.add(ReduceSumOp, g["a"], axes=(0,), keepdims=True), axes=(1,), keepdims=True), "different axes"),
        (lambda g: g.add(ExpOp, g.add(SliceOp, g["a"], starts=[0, 23], sizes=[24, 24], steps=[1, -1])), "contiguous"),
    ],
)
def test_groups_without_a_schedule_say_why(build: Any, reason: str) -> None:
    g = Graph(a=[24, 24], b=[24, 24])
    out = build(g)
    with pytest.raises(NotFusible, match=reason):
        choose_schedules(build_region(g.ops, [out]))


def test_float64_stays_on_the_host() -> None:
    g = Graph(x=([4, 4], dt.F64))
    with pytest.raises(NotFusible, match="float64"):
        build_region(g.ops, [g.add(ExpOp, g["x"])])


def test_strict_numerics_round_after_every_op() -> None:
    g = Graph(x=([4, 64], dt.F16))
    out = g.add(TanhOp, g.add(ExpOp, g["x"]))
    casts = [n for n in build_region(g.ops, [out], strict=True).nodes if n.function == "cast"]
    assert len(casts) == 2
    assert not [n for n in build_region(g.ops, [out]).nodes if n.function == "cast"]


def test_rows_are_the_long_axis() -> None:
    """Four query heads share a key head: blocks of a matmul are filled by the sequence, not by the four."""
    g = Graph(p=[2, 4, 300, 64], v=[2, 64, 32])
    v = g.add(UnsqueezeOp, g["v"], axes=(1,))
    region = build_region(g.ops, [g.add(MatMulOp, g["p"], v)])
    (schedule,) = choose_schedules(region)
    assert schedule.rows is not None and region.axes[schedule.rows] == 4 * 300
    y = Graph(p=[2, 300, 4, 64], v=[2, 64, 32])
    swapped = y.add(TransposeOp, y["p"], perm=(0, 2, 1, 3))
    region = build_region(y.ops, [y.add(MatMulOp, swapped, y.add(UnsqueezeOp, y["v"], axes=(1,)))])
    (schedule,) = choose_schedules(region)
    assert schedule.rows is not None and region.axes[schedule.rows] == 300


@pytest.mark.parametrize(
    "text,kept", [("x * 1.0", False), ("1.0 * x", False), ("x / 1.0", False), ("x - 0.0", False), ("x + 0.0", True), ("0.0 - x", True)]
)
def test_neutral_elements_cost_nothing(text: str, kept: bool) -> None:
    """What returns its operand bit for bit is no instruction; x + 0 turns -0 into 0 and stays."""
    from gaf.frontend.language.program import program_from_text

    model = program_from_text(f"model m(x: f32[n]) {{ {text} }}").model()
    ops = [op for op in model.block.ops if isinstance(op, GraphOp)]
    region = build_region(ops, [ops[-1].results[0]])
    assert any(n.kind == "map" for n in region.nodes) == kept
