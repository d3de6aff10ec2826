# SPDX-License-Identifier: Apache-2.0
"""Plans: every op in one place, convex and in order, the same every time; depth, threshold, effects,
decisions.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gaf
from gaf.config import FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.binary import AddOp
from gaf.dialects.graph.ops.custom import CustomOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.dialects.graph.ops.unary import ExpOp, TanhOp
from gaf.frontend.language.program import program_from_text
from gaf.fusion import names
from gaf.fusion.region import NotFusible
from gaf.fusion.search import FusionPlan, check_acyclic
from gaf.passes.graph import lower_graph
from tests.fusion.helpers import Net, members, plan
from tests.graphs import graphs, random_graph


def check_plan(p: FusionPlan) -> None:
    """Every computing op is in exactly one kernel or on the host; the kernels have an order."""
    grouped = [i for g in p.groups for i in g.ops]
    assert len(grouped) == len(set(grouped))
    for i, op in enumerate(p.ops):
        if names.computes(op):
            assert (i in set(grouped)) != (i in p.host), names.node_name(op)
    order = check_acyclic(p)
    assert sorted(i for unit in order for i in unit) == list(range(len(p.ops)))


@given(
    graphs(max_steps=9),
    st.sampled_from(["greedy", "optimal", "none"]),
    st.sampled_from(["traffic", "time"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_plans_of_random_graphs(model: Model, strategy: str, objective: str, strict: bool) -> None:
    numerics = "strict" if strict else "fast"
    check_plan(plan(model, strategy=strategy, objective=objective, numerics=numerics))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_model_gives_the_same_plan(seed: int) -> None:
    def all_of() -> str:
        p = plan(random_graph(seed, steps=12))
        return json.dumps(
            [members(p), [d.to_json() for d in p.decisions], [c.to_json() for c in p.candidates]]
        )

    assert all_of() == all_of()


def norms(count: int) -> Model:
    """Softmax after softmax, with an elementwise op between."""
    n = Net(x=[64, 32])
    y = n["x"]
    for i in range(count):
        y = n.op(TanhOp, n.op(SoftmaxOp, y, axes=(-1,), name=f"s{i}"), name=f"t{i}")
    return n.finish(y)


@pytest.mark.parametrize(("depth", "kernels"), [(0, 6), (1, 3), (2, 2), (3, 1), (None, 1)])
def test_depth_counts_reductions_on_a_path(depth: int | None, kernels: int) -> None:
    p = plan(norms(3), max_fusion_depth=depth)
    assert len(p.groups) == kernels
    if kernels > 1:
        assert any(f"max_fusion_depth {depth}" in d.reason for d in p.decisions)


def test_a_norm_that_is_spelled_out_counts_once() -> None:
    n = Net(x=[64, 32])
    model = n.finish(n.op(TanhOp, n.layer_norm(n["x"], 32)))
    assert len(plan(model, max_fusion_depth=1).groups) == 1
    assert len(plan(model, max_fusion_depth=0).groups) > 1


def test_the_threshold_takes_groups_apart_and_says_why() -> None:
    n = Net(x=[4096, 768])
    model = n.finish(n.op(TanhOp, n.op(ExpOp, n["x"], name="a"), name="b"))
    (c,) = plan(model).candidates
    strict = plan(model, cost_threshold=c.gain / 100 + 0.02)
    assert members(strict) == [["a"], ["b"]]
    (refused,) = strict.candidates
    assert not refused.fused and "cost_threshold" in refused.why and refused.gain == c.gain
    check_plan(strict)
    assert members(plan(model, cost_threshold=c.gain / 100 - 0.02)) == [["a", "b"]]


def test_objectives() -> None:
    """Fewest bytes against least time: neither is worse at its own aim."""
    for seed in range(15):
        model = random_graph(seed, steps=8)
        traffic, fast = plan(model), plan(model, objective="time")
        assert traffic.report is not None and fast.report is not None
        assert traffic.report.hbm_bytes <= fast.report.hbm_bytes
        assert fast.report.cost_us <= traffic.report.cost_us * 1.0001


def test_decisions_hold_both_costs_and_the_binding_constraint() -> None:
    n = Net(x=[256, 64], y=[64, 256])
    a = n.op(ExpOp, n["x"], name="a")
    b = n.op(TanhOp, a, name="b")
    s = n.op(SoftmaxOp, n.op(SoftmaxOp, b, axes=(-1,), name="rows"), axes=(0,), name="columns")
    p = plan(n.finish(s))
    join = next(d for d in p.decisions if d.fused)
    assert join.before is not None and join.after is not None
    assert (
        join.kernels_before == 2 and join.kernels_after == 1 and join.after.hbm_bytes < join.before.hbm_bytes
    )
    assert 0 < join.footprint <= join.footprint_limit
    refused = next(d for d in p.decisions if not d.fused)
    assert refused.consumer == "columns" and "different axes" in refused.reason
    assert {"members", "reason", "us_before", "bytes_before"} <= refused.to_json().keys()


def test_ops_with_effects_keep_their_order() -> None:
    """`second` is ready long before `first`, which waits for a chain: it must not overtake."""
    n = Net(x=[8, 16])
    y = n["x"]
    for _ in range(3):
        y = n.op(ExpOp, y)
    first = CustomOp.of("acme::log", [y], [y.type], pure=False, location="first")  # type: ignore[list-item]
    n.model.block.add_op(first)
    second = CustomOp.of("acme::log", [n["x"]], [y.type], pure=False, location="second")  # type: ignore[list-item]
    n.model.block.add_op(second)
    z = n.op(AddOp, n.op(TanhOp, first.results[0], name="late"), second.results[0], name="sum")
    p = plan(n.finish(z))
    order = [names.node_name(p.ops[i]) for unit in check_acyclic(p) for i in unit]
    assert order.index("first") < order.index("second")
    check_plan(p)


def test_a_plan_can_be_given_by_node_names() -> None:
    n = Net(x=[64, 32])
    a = n.op(ExpOp, n["x"], name="a")
    b = n.op(TanhOp, a, name="b")
    c = n.op(AddOp, a, n.op(ExpOp, b, name="b2"), name="c")
    model = n.finish(c)
    given = plan(model, groups=(("a", "b"), ("b2", "c"), ("b", "c"), ("a", "missing")))
    assert members(given) == [["a", "b"], ["b2", "c"]]
    assert [d.reason for d in given.decisions] == ["", "", "a node is in two groups"]
    skipping = plan(model, groups=(("a", "c"),))
    assert len(skipping.groups) == 4 and "leaves and re-enters" in skipping.decisions[0].reason


def test_symbols_decide_at_which_sizes_a_model_is_priced() -> None:
    n = Net(x=["B", 768])
    model = n.finish(n.op(TanhOp, n.op(ExpOp, n["x"])))
    small, large = (plan(model, symbols={"B": b}).report for b in (1, 10_000))
    assert small is not None and large is not None and large.hbm_bytes == 10_000 * small.hbm_bytes


def test_opportunities_are_sorted_and_explained() -> None:
    model = random_graph(5, steps=12)
    found = gaf.Autofuse(cost_model=gaf.CostModel()).find_fusion_opportunities(model)
    assert [c.gain for c in found] == sorted((c.gain for c in found), reverse=True)
    for c in found:
        assert c.priority in ("high", "medium", "low") and isinstance(c.gain, int) and c.why and c.members


def test_fused_models_carry_the_search() -> None:
    fused = gaf.fuse(norms(2), FusionConfig(max_fusion_depth=1))
    assert fused.search is not None and fused.search.kernels == 2 == len(fused.fused_ops)
    assert [str(c.subgraph) for c in fused.candidates] == ["Softmax + Tanh"] * 2
    assert all(op.shape == (64, 32) for c in fused.candidates for op in c.subgraph)


@pytest.mark.parametrize("step", [-1, 1], ids=["flipped", "transposed"])
def test_a_view_of_an_input_that_is_an_output_too(step: int) -> None:
    """Lanes can't run backwards: the flipped input is stored, and its readers have kernels that read that."""
    net = Net(x=[20, 20], y=[20, 20])
    if step < 0:
        view = net.op(SliceOp, net["x"], starts=[0, 19], sizes=[20, 20], steps=[1, -1])
    else:
        view = net.op(TransposeOp, net["x"], perm=(1, 0))
    rows = net.op(ReduceSumOp, net["y"], axes=(1,), keepdims=False)
    out = net.op(AddOp, view, net.op(AddOp, rows, net["y"]))
    fused = gaf.fuse(net.finish(out, view))
    assert fused.kernels and not fused.host_ops
    fused.verify(engine="interpreter").raise_if_failed()


def test_rows_gathered_from_a_reshaped_result_are_an_output() -> None:
    """A row of [6, 8] that is computed as [2, 3, 8] lies at two coordinates: the reshape is stored, not folded."""
    net = Net(x=[2, 3, 8])
    ids = net.constant([5, 0, 3, 3], dt.I64)
    rows = net.op(ReshapeOp, net.op(TanhOp, net["x"]), shape=(6, 8))
    out = net.op(GatherOp, rows, ids, axis=0, wrap=False)
    fused = gaf.fuse(net.finish(out))
    assert fused.kernels and not fused.host_ops
    assert not any(isinstance(op, GatherOp) for op in fused.model.block.ops)
    fused.verify(engine="interpreter").raise_if_failed()


def test_rows_at_gathered_positions() -> None:
    """Positions that are looked up themselves are stored by a kernel of their own."""
    net = Net(dt.I64, first=[9], second=[4])
    at = net.op(GatherOp, net["first"], net["second"], axis=0, wrap=False)
    rows = [net.constant(np.random.default_rng(i).random((9, 16))) for i in range(2)]
    out = net.op(AddOp, *(net.op(GatherOp, r, at, axis=0, wrap=bool(i)) for i, r in enumerate(rows)))
    fused = gaf.fuse(net.finish(out))
    assert fused.kernels and not fused.host_ops
    inputs = {"first": np.asarray([4, 1, 8, 0, 2, 6, 3, 5, 7]), "second": np.asarray([3, 3, 8, 0])}
    fused.verify(inputs, engine="interpreter").raise_if_failed()


def test_a_group_that_does_not_lower_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = lower_graph.fused_kernel

    def small(fused: FusedOp, strict: bool = False) -> object:
        if sum(names.computes(op) for op in fused.members) > 2:
            raise NotFusible("three are too many")
        return lowered(fused, strict)

    net = Net(x=[8, 40])
    y = net["x"]
    for kind in (ExpOp, TanhOp, ExpOp, TanhOp, ExpOp):
        y = net.op(kind, y)
    model = net.finish(y)
    assert len(gaf.fuse(model).kernels) == 1
    monkeypatch.setattr(lower_graph, "fused_kernel", small)
    fused = gaf.fuse(model)
    assert all(sum(names.computes(op) for op in f.members) <= 2 for f in fused.fused_ops)
    assert not fused.host_ops
    assert any(d.reason == "three are too many" for d in fused.decisions)
    fused.verify(engine="interpreter").raise_if_failed()


def test_equal_groups_are_refused_with_names_of_their_own() -> None:
    """What was found out about one layer holds for its copies; the words name each one's nodes."""
    n = Net(x=[64, 32])
    y = n["x"]
    for layer in range(3):
        keys = n.op(MatMulOp, y, n.constant(np.full((32, 64), 0.1)), name=f"layer.{layer}/keys")
        turned = n.op(TransposeOp, keys, perm=(1, 0))
        scores = n.op(MatMulOp, keys, turned, name=f"layer.{layer}/scores")
        y = n.op(MatMulOp, scores, y, name=f"layer.{layer}/out")
    refused = [d for d in plan(n.finish(y)).decisions if not d.fused and "right operand of" in d.reason]
    assert {d.reason.split("right operand of ")[1].split(" ")[0] for d in refused} >= {f"layer.{i}/scores" for i in range(3)}
    for decision in refused:
        named = {word.strip(");,") for word in decision.reason.split() if word.startswith(("layer.", "(layer."))}
        assert {w.removeprefix("(") for w in named} <= set(decision.members)


@pytest.mark.parametrize(("layers", "kernels"), [(3, 1), (4, 2)])
def test_layers_in_a_row_are_one_kernel_while_there_are_flags(layers: int, kernels: int) -> None:
    """Each layer's rows go to the next through workspace, with two flags of the cores for each hand-over."""
    sizes = (13, 40, 24, 16, 8)[: layers + 1]
    weights = ", ".join(f"w{i}: f32[{a}, {b}]" for i, (a, b) in enumerate(zip(sizes, sizes[1:])))
    value = "x"
    for i in range(layers):
        value = f"relu(matmul({value}, w{i}))"
    fused = gaf.fuse(program_from_text(f"model m(x: f32[N, 13], {weights}) {{ y = {value} }}").model())
    assert len(fused.fused_ops) == kernels
    for engine in ("tile", "interpreter"):
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, (engine, result)
