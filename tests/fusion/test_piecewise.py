# SPDX-License-Identifier: Apache-2.0
"""Concat, pad and slices of them inside kernels: guarded loads, their sums, selections, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, expr, sym
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.interpreter import run_model
from gaf.dialects.graph.meaning import Guard
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import ExpandOp, ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import ConcatOp, PadOp, SliceOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.unary import ExpOp, NegOp, TanhOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion.piecewise import holds, merged_guard
from gaf.fusion.region import Node, NotFusible, Region, build_region
from gaf.fusion.schedules import MAX_INPUTS, choose_schedules
from gaf.fusion.stages import staged_schedules

Spec = Sequence[int | str] | tuple[Sequence[int | str], dt.DType]


class Graph:
    """Ops on named inputs; `region` makes one group of all of them, `check` runs the fused model."""

    def __init__(self, **inputs: Spec) -> None:
        specs = {n: s if isinstance(s, tuple) else (s, dt.F32) for n, s in inputs.items()}
        self.model: Model = new_model([(n, TensorType.of(s, k)) for n, (s, k) in specs.items()])
        self.values: dict[str, SSAValue] = dict(zip(inputs, self.model.block.args))
        self.ops: list[Operation] = []

    def __getitem__(self, name: str) -> SSAValue:
        return self.values[name]

    def add(self, op: type[GraphOp], *operands: SSAValue, **attrs: Any) -> SSAValue:
        made = op.make(operands, attrs, location=f"n{len(self.model.block.ops)}")
        self.model.block.add_op(made)
        self.ops.append(made)
        return made.results[0]

    def slice(self, x: SSAValue, axis: int, start: int, size: int) -> SSAValue:
        shape = tensor_type(x).shape
        starts = [expr(start) if i == axis else expr(0) for i in range(len(shape))]
        sizes = [expr(size) if i == axis else d for i, d in enumerate(shape)]
        return self.add(SliceOp, x, starts=starts, sizes=sizes, steps=[1] * len(shape))

    def pad(self, x: SSAValue, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> SSAValue:
        return self.add(PadOp, x, before=before, after=after, mode="constant", value=value)

    def region(self, *outputs: SSAValue) -> Region:
        region = build_region(self.ops, outputs)
        choose_schedules(region)
        return region

    def check(self, *outputs: SSAValue, kernels: int | None = None, host: Sequence[str] = ()) -> None:
        fused = fuse(finish(self.model, [(f"y{i}", v) for i, v in enumerate(outputs)]))
        copies = [op.name for op in fused.model.block.ops if op.name in ("graph.concat", "graph.pad")]
        assert copies == list(host), str(fused.model.module)
        assert kernels is None or len(fused.fused_ops) == kernels, str(fused.model.module)
        rng = np.random.default_rng(0)
        sizes = {"B": 3, "S": 9, "P": 4, "M": 5}
        inputs = {
            n: rng.standard_normal(t.concrete(sizes)).astype(t.dtype.numpy)
            for n, t in zip(fused.source_model.input_names, fused.source_model.input_types)
        }
        want = run_model(fused.source_model, inputs, wide=True)
        got = fused.run(inputs, "interpreter")
        for name, array in want.items():
            tolerance = max(1e-4, 4 * dt.of_numpy(got[name].dtype).eps)
            np.testing.assert_allclose(got[name].astype(float), array, rtol=tolerance, atol=tolerance)


def loads(region: Region) -> list[Node]:
    return [n for n in region.nodes if n.kind == "load"]


def functions(region: Region) -> list[str]:
    return sorted(n.function for n in region.nodes if n.kind == "map")


def test_concat_of_arrays_is_a_sum_of_guarded_loads() -> None:
    g = Graph(x=["M", 40], y=["M", 24])
    region = g.region(g.add(TanhOp, g.add(ConcatOp, g["x"], g["y"], axis=1)))
    assert functions(region) == ["add", "tanh"]
    first, second = loads(region)
    assert [len(n.guards) for n in loads(region)] == [1, 1]
    assert (first.guards[0].low, first.guards[0].high) == (const(0), const(40))
    assert (second.guards[0].low, second.guards[0].high) == (const(40), const(64))
    assert all(str(n.value) == "-0.0" for n in loads(region)), "x + -0.0 is x, and 0.0 isn't neutral for -0.0"


def test_pad_is_one_guarded_load() -> None:
    g = Graph(x=["M", 40])
    region = g.region(g.add(ExpOp, g.pad(g["x"], [0, 3], [0, 2], float("-inf"))))
    (load,) = loads(region)
    assert functions(region) == ["exp"] and load.value == float("-inf")


def test_a_slice_that_hits_one_piece_has_no_guard() -> None:
    g = Graph(x=["M", 40], y=["M", 24])
    both = g.add(ConcatOp, g["x"], g["y"], axis=1)
    region = g.region(g.add(AddOp, g.slice(both, 1, 0, 40), g.slice(g.pad(g["x"], [0, 3], [0, 2]), 1, 3, 40)))
    (load,) = loads(region)
    assert not load.guards and [str(v.name_hint) for v in region.inputs] == ["x"]


def test_nested_concats_are_flat() -> None:
    g = Graph(x=["M", 40], y=["M", 24], z=["M", 8])
    both = g.add(ConcatOp, g.add(ConcatOp, g["x"], g["y"], axis=1), g["z"], axis=1)
    region = g.region(g.add(TanhOp, both))
    assert functions(region) == ["add", "add", "tanh"] and len(loads(region)) == 3


def test_computed_pieces_are_selected_and_their_loads_guarded() -> None:
    """rotate_half of rotary embeddings."""
    g = Graph(x=["B", "S", 64], cos=["S", 64], sin=["S", 64])
    turned = g.add(ConcatOp, g.add(NegOp, g.slice(g["x"], 2, 32, 32)), g.slice(g["x"], 2, 0, 32), axis=2)
    out = g.add(AddOp, g.add(MulOp, g["x"], g["cos"]), g.add(MulOp, turned, g["sin"]))
    region = g.region(out)
    assert functions(region) == ["add", "cast", "lt", "mul", "mul", "neg", "select"]
    guarded = [n for n in loads(region) if n.guards]
    assert len(guarded) == 2 and len(loads(region)) == 5
    g.check(out, kernels=1)


def test_a_statistic_inside_a_piece_is_computed_once() -> None:
    """The guard is on an axis that the row statistic doesn't have: it isn't taken into the statistic."""
    g = Graph(x=["M", 64], gamma=[64], beta=[64])
    norm = g.add(LayerNormOp, g["x"], g["gamma"], g["beta"], axis=-1, epsilon=1e-5, stash=False)
    out = g.add(ConcatOp, g.slice(norm, 1, 32, 32), g.slice(norm, 1, 0, 32), axis=1)
    region = build_region(g.ops, [out])
    statistics = [n for n in region.nodes if n.kind == "reduce"]
    assert len(statistics) == 2
    assert not any(region.nodes[a].guards for n in statistics for a in _below(region, n))
    g.check(g.add(TanhOp, out))


def _below(region: Region, node: Node) -> set[int]:
    found, stack = set(), list(node.args)
    while stack:
        i = stack.pop()
        found.add(i)
        stack += region.nodes[i].args
    return found


def test_outer_guards_scale_when_axes_are_merged() -> None:
    g = Graph(x=["P", 64], y=["S", 64])
    region = g.region(g.add(TanhOp, g.add(ConcatOp, g["x"], g["y"], axis=0)))
    assert len(region.axes) == 1, "rows and lanes become one axis"
    assert [n.guards[0].high for n in loads(region)] == [sym("P") * 64, (sym("P") + sym("S")) * 64]


AXES = {"a": expr(6), "b": expr(8)}


@pytest.mark.parametrize(
    ("guard", "want"),
    [
        (Guard(sym("a") - 1, const(0), const(4)), Guard(sym("a") - 8, const(0), const(32))),
        (Guard(sym("a") * 8 + sym("b") + 3, const(2), const(9)), Guard(sym("a") + 3, const(2), const(9))),
        (Guard(sym("c"), const(0), const(4)), Guard(sym("c"), const(0), const(4))),
        (Guard(sym("b"), const(0), const(4)), None),
        (Guard(sym("a") * 2, const(0), const(4)), None),
        (Guard(sym("a") + sym("b"), const(0), const(4)), None),
        (Guard(sym("c"), const(0), sym("a")), None),
    ],
    ids=str,
)
def test_merged_guards(guard: Guard, want: Guard | None) -> None:
    got = merged_guard(guard, "a", "b", AXES)
    assert got == want
    if got is not None:
        for a in range(6):
            for b in range(8):
                for c in range(6):
                    old, new = {"a": a, "b": b, "c": c}, {"a": a * 8 + b, "c": c}
                    before, after = (
                        g.low.evaluate(e) <= g.index.evaluate(e) < g.high.evaluate(e) for g, e in ((guard, old), (got, new))
                    )
                    assert before == after


@pytest.mark.parametrize(
    ("guard", "want"),
    [
        (Guard(sym("a"), const(0), const(6)), True),
        (Guard(sym("a"), const(0), const(5)), None),
        (Guard(sym("a") + 6, const(0), const(6)), False),
        (Guard(sym("a") - 6, const(0), const(6)), False),
        (Guard(sym("a"), const(0), sym("P") + 5), True),
        (Guard(sym("a"), const(0), sym("P")), None),
    ],
    ids=str,
)
def test_what_is_proven_about_guards(guard: Guard, want: bool | None) -> None:
    assert holds(guard, AXES) is want


@pytest.mark.parametrize("kind", [dt.F32, dt.F16, dt.BF16], ids=str)
def test_class_token_and_positions(kind: dt.DType) -> None:
    """ViT: concat(token expanded to every batch, x) + positions, then LayerNorm: one kernel."""
    g = Graph(token=([1, 1, 32], kind), x=(["B", "S", 32], kind), p=([1, 1, 32], kind), w=([32], kind), b=([32], kind))
    token = g.add(ExpandOp, g["token"], shape=("B", 1, 32))
    both = g.add(AddOp, g.add(ConcatOp, token, g["x"], axis=1), g["p"])
    g.check(g.add(LayerNormOp, both, g["w"], g["b"], axis=-1, epsilon=1e-5, stash=False), kernels=1)


def test_cache_that_is_also_a_result_is_stored_once() -> None:
    """concat(past, new) is an output: one copy kernel, and its readers read the copy."""
    g = Graph(past=["B", "P", 32], x=["B", "S", 32])
    cache = g.add(ConcatOp, g["past"], g["x"], axis=1)
    g.check(cache, g.add(TanhOp, cache), kernels=1)


def test_softmax_over_a_padded_row_and_a_sum_over_a_concat() -> None:
    g = Graph(x=["B", 40], y=["B", 24])
    soft = g.add(SoftmaxOp, g.pad(g["x"], [0, 5], [0, 3], float("-inf")), axes=(-1,))
    total = g.add(ReduceSumOp, g.add(ConcatOp, g["x"], g["y"], axis=1), axes=(1,), keepdims=True)
    g.check(soft, g.add(AddOp, g["y"], total))


def test_pieces_that_are_constant_or_have_no_axis_of_their_own() -> None:
    g = Graph(x=["B", 40], c=["B", 1], d=[1, 1])
    wide = g.add(ExpandOp, g["c"], shape=("B", 8))
    one = g.add(ExpandOp, g["d"], shape=("B", 4))
    g.check(g.add(TanhOp, g.add(ConcatOp, g["x"], wide, one, axis=1)), kernels=1)


def test_padded_matmul_operands_are_stored_first() -> None:
    g = Graph(x=["M", 24], w=[32, 16])
    padded = g.pad(g["x"], [0, 4], [0, 4])
    region = build_region(g.ops, [g.add(MatMulOp, padded, g["w"])])
    with pytest.raises(NotFusible, match="padded or concatenated matmul operand"):
        choose_schedules(region)
    first, second = staged_schedules(region)[0].stages
    assert not first.schedule.is_cube and second.schedule.is_cube
    h = Graph(x=["B", 24], w=[32, 16])
    h.check(h.add(MatMulOp, h.pad(h["x"], [0, 4], [0, 4]), h["w"]), kernels=1)


def test_gathers_inside_a_concat_are_stored_first() -> None:
    g = Graph(table=[10, 16], ids=(["S"], dt.I64), x=["P", 16])
    out = g.add(ConcatOp, g["x"], g.add(GatherOp, g["table"], g["ids"], axis=0, wrap=False), axis=0)
    with pytest.raises(NotFusible, match="a gather inside a padded or concatenated value"):
        build_region(g.ops, [out])


def test_a_concatenated_axis_that_is_split_again() -> None:
    """[2 * 12, 16] -> [6, 4, 16] -> transposed: the guard is a range of no axis any more."""
    g = Graph(x=[12, 16], y=[12, 16])
    split = g.add(ReshapeOp, g.add(ConcatOp, g["x"], g["y"], axis=0), shape=(6, 4, 16))
    out = g.add(TanhOp, g.add(TransposeOp, split, perm=(1, 0, 2)))
    g.check(out)


def test_more_inputs_than_a_kernel_takes() -> None:
    g = Graph(**{f"x{i}": ["B", 8] for i in range(MAX_INPUTS + 1)})
    out = g.add(ConcatOp, *g.values.values(), axis=1)
    with pytest.raises(NotFusible, match=f"{MAX_INPUTS + 1} inputs are more than"):
        choose_schedules(build_region(g.ops, [out]))
    g.check(g.add(TanhOp, out), host=["graph.concat"])
