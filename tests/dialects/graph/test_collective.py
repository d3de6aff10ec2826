# SPDX-License-Identifier: Apache-2.0
"""Collectives: what several ranks get, names in model formats, nothing evaluated or dropped early, bad groups."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.interpreter import run_model
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.collective import AllGatherOp, AllReduceOp, CollectiveOp, ReduceScatterOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError
from gaf.frontend.onnx import export_model
from gaf.passes.pipeline import graph_pipeline, run_pipeline
from gaf.runtime.ranks import RankLeftError, run_ranks


def model_of(*nodes: onnx.NodeProto, shape=(2, 4), out: list | None = None) -> Model:
    domains = {n.domain for n in nodes if n.domain}
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in sorted(domains))]
    graph = helper.make_graph(
        list(nodes), "ranks", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
    )  # fmt: skip
    return gaf.load_model(helper.make_model(graph, opset_imports=opsets))


def data(ranks: int, *shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(ranks)]


def ops_of(model: Model) -> list[CollectiveOp]:
    return [op for op in model.block.ops if isinstance(op, CollectiveOp)]


def test_all_reduce_adds_what_the_ranks_hold() -> None:
    node = helper.make_node("AllReduce", ["x"], ["y"], domain="com.microsoft", name="tp/AllReduce")
    model = model_of(node, helper.make_node("Relu", ["x"], ["unused"]))
    xs = data(3, 2, 4)
    results = run_ranks(lambda i: run_model(model, i), [{"x": x} for x in xs])
    for result in results:
        np.testing.assert_allclose(result["y"], sum(xs), rtol=1e-6)


def test_gather_and_scatter_are_shares_of_one_whole() -> None:
    gathered = model_of(helper.make_node("AllGather", ["x"], ["y"], domain="com.microsoft", axis=0, group_size=2))
    scattered = model_of(helper.make_node("ReduceScatter", ["x"], ["y"], domain="gaf", axis=1, group_size=2))
    xs = data(2, 2, 4)
    inputs = [{"x": x} for x in xs]
    for result in run_ranks(lambda i: run_model(gathered, i), inputs):
        np.testing.assert_array_equal(result["y"], np.concatenate(xs))
    parts = [r["y"] for r in run_ranks(lambda i: run_model(scattered, i), inputs)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), xs[0] + xs[1], rtol=1e-6)


def test_one_rank_alone_is_a_group_of_equals() -> None:
    (x,) = data(1, 2, 4)
    for reduce, expected in (("sum", 2 * x), ("mean", x), ("max", x), ("prod", x * x)):
        node = helper.make_node("AllReduce", ["x"], ["y"], domain="gaf", reduction=reduce, group_size=2)
        np.testing.assert_allclose(run_model(model_of(node), {"x": x})["y"], expected, rtol=1e-6)
    unknown = model_of(helper.make_node("AllReduce", ["x"], ["y"], domain="com.microsoft"))
    np.testing.assert_array_equal(run_model(unknown, {"x": x})["y"], x)


def test_several_tensors_in_one_node_are_several_ops() -> None:
    node = helper.make_node("AllReduce", ["x", "z"], ["a", "b"], domain="com.microsoft")
    model = model_of(helper.make_node("Neg", ["x"], ["z"]), node, helper.make_node("Sub", ["a", "b"], ["y"]))
    assert len(ops_of(model)) == 2
    (x,) = data(1, 2, 4)
    np.testing.assert_allclose(run_model(model, {"x": x})["y"], 2 * x, rtol=1e-6)


@pytest.mark.parametrize("op, attrs", [
    ("AllReduce", {}), ("AllGather", {"axis": 1, "group_size": 2}),
])  # fmt: skip
def test_onnx_names_come_back(op: str, attrs: dict) -> None:
    model = model_of(helper.make_node(op, ["x"], ["y"], domain="com.microsoft", **attrs))
    (again,) = ops_of(gaf.load_model(export_model(model)))
    (first,) = ops_of(model)
    assert type(again) is type(first) and again.attrs() == first.attrs()


def test_passes_neither_fold_nor_merge_nor_drop_them() -> None:
    """All ranks have to meet: even the sum of a constant, even twice the same, even unread."""
    model = model_of(
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.FLOAT, [4], [1, 2, 3, 4])),
        helper.make_node("AllReduce", ["c"], ["a"], domain="com.microsoft"),
        helper.make_node("AllReduce", ["c"], ["b"], domain="com.microsoft"),
        helper.make_node("AllReduce", ["x"], ["unread"], domain="com.microsoft"),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    )
    run_pipeline(model.module, graph_pipeline(True, False))
    assert len(ops_of(model)) == 3


def test_a_size_that_ranks_agree_on_is_no_constant() -> None:
    """A maximum over ranks of a shape is known only when they meet."""
    model = model_of(
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("AllReduce", ["s"], ["m"], domain="gaf", reduction="max", group_size=2),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    )
    assert len(ops_of(model)) == 1


def test_neighbours_fuse_on_either_side() -> None:
    model = model_of(
        helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Neg", ["e"], ["n"]),
        helper.make_node("AllReduce", ["n"], ["r"], domain="gaf", group_size=2),
        helper.make_node("Add", ["r", "x"], ["t"]), helper.make_node("Tanh", ["t"], ["y"]),
    )  # fmt: skip
    fused = gaf.fuse(model)
    assert len(fused.kernels) == 2 and [op.name for op in fused.host_ops] == ["graph.all_reduce"]
    assert "HCCL" in fused.fallbacks[0]
    xs = data(2, 2, 4)
    results = run_ranks(lambda i: fused.run(i, engine="interpreter"), [{"x": x} for x in xs])
    total = -np.exp(xs[0]) - np.exp(xs[1])
    for x, result in zip(xs, results):
        np.testing.assert_allclose(result["y"], np.tanh(total + x), rtol=1e-4, atol=1e-6)
    assert fused.verify(engine="interpreter").ok


def test_a_rank_that_fails_releases_the_others() -> None:
    model = model_of(helper.make_node("AllReduce", ["x"], ["y"], domain="gaf", group_size=2))
    good, bad = {"x": np.zeros((2, 4), np.float32)}, {"x": np.zeros((3, 4), np.float32)}
    with pytest.raises(InvalidInputError):
        run_ranks(lambda i: run_model(model, i), [good, bad])
    with pytest.raises(InvalidInputError, match="2 ranks"):
        run_ranks(lambda i: run_model(model, i), [good])
    assert issubclass(RankLeftError, gaf.errors.GafError)


@pytest.mark.parametrize("op, attrs, words", [
    (AllReduceOp, {"reduce": "median", "ranks": 2}, "sum, mean, max"),
    (AllReduceOp, {"reduce": "sum", "ranks": -1}, "1 or more"),
    (AllGatherOp, {"axis": 0, "ranks": 0}, "number of ranks"),
    (AllGatherOp, {"axis": 2, "ranks": 2}, "out of range"),
    (ReduceScatterOp, {"reduce": "sum", "axis": 1, "ranks": 3}, "shared out evenly"),
])  # fmt: skip
def test_bad_groups(op: type[CollectiveOp], attrs: dict, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        op.infer([TensorType.of((6, 4), dt.F32)], {**attrs, "group": ""})
