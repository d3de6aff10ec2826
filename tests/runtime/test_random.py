# SPDX-License-Identifier: Apache-2.0
"""Random tensors: the same bits on every engine and for every tiling, fused with their neighbours, and seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaf
from gaf.dialects.common.random import random24

ENGINES = ("graph", "tile", "interpreter", "host", "check")
FLOAT, HALF, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BOOL


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any], constants: dict[str, Any] = {}
) -> gaf.Model:
    """A model of ONNX nodes; inputs and outputs are name -> (type, shape)."""
    infos = [[helper.make_tensor_value_info(n, *t) for n, t in side.items()] for side in (inputs, outputs)]
    weights = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(list(nodes), "random", *infos, weights)
    return gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def like(op: str, shape: Sequence[Any], kind: int = FLOAT, **attributes: Any) -> gaf.Model:
    node = helper.make_node(op, ["x"], ["y"], dtype=kind, **attributes)
    return model([node], {"x": (FLOAT, shape)}, {"y": (kind, shape)})


def test_uniform_has_the_same_bits_everywhere() -> None:
    fused = gaf.fuse(like("RandomUniformLike", ["B", 7, 301]))
    assert len(fused.kernels) == 1
    x = {"x": np.zeros((5, 7, 301), np.float32)}
    found = []
    for engine in ENGINES:
        gaf.manual_seed(3)
        found.append(fused.run(x, engine=engine)["y"])
    gaf.manual_seed(3)
    salt = int(random24(1, 3, 0))
    places = np.arange(5 * 7 * 301).reshape(5, 7, 301)
    expected = (random24(places, salt, 2) * 2.0**-24).astype(np.float32)
    for got in found:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", [FLOAT, HALF, TensorProto.BFLOAT16])
def test_uniform_stays_below_its_upper_bound(kind: int) -> None:
    fused = gaf.fuse(like("RandomUniformLike", [64, 1000], kind))
    y = fused.run({"x": np.zeros((64, 1000), np.float32)})["y"].astype(np.float64)
    assert y.min() >= 0 and y.max() < 1
    assert abs(y.mean() - 0.5) < 0.01 and abs(y.var() - 1 / 12) < 0.003


def test_normal_is_normal() -> None:
    fused = gaf.fuse(like("RandomNormalLike", [300, 401], mean=2.0, scale=3.0))
    x = {"x": np.zeros((300, 401), np.float32)}
    assert fused.verify(x, engine="check").ok
    y = np.sort((fused.run(x)["y"].astype(np.float64).reshape(-1) - 2) / 3)
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    inside = [np.mean(np.abs(y) < s) for s in (1, 2, 3)]
    np.testing.assert_allclose(inside, [0.6827, 0.9545, 0.9973], atol=0.005)


def dropout(ratio: float = 0.3, training: bool | None = True) -> gaf.Model:
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("Dropout", ["s", "r", "t"], ["d", "mask"]),
        helper.make_node("Add", ["d", "x"], ["y"]),
    ]
    inputs: dict[str, Any] = {"x": (FLOAT, ["B", 300])}
    constants: dict[str, Any] = {"r": np.float32(ratio)}
    if training is None:
        inputs["t"] = (BOOL, [])
    else:
        constants["t"] = np.asarray(training)
    return model(nodes, inputs, {"y": (FLOAT, ["B", 300]), "mask": (BOOL, ["B", 300])}, constants)


@pytest.mark.parametrize("engine", ENGINES)
def test_dropout_fuses_with_its_neighbours(engine: str) -> None:
    fused = gaf.fuse(dropout())
    assert len({tuple(k.members) for k in fused.kernels}) == 1 and not any("ropout" in f for f in fused.fallbacks)
    for rows in (1, 13):
        result = fused.verify({"x": np.random.default_rng(rows).normal(size=(rows, 300)).astype(np.float32)}, engine=engine)
        assert result.ok, result


def test_dropout_drops_its_part_and_scales_the_rest() -> None:
    fused = gaf.fuse(dropout(0.25))
    x = np.random.default_rng(0).normal(size=(400, 300)).astype(np.float32)
    found = fused.run({"x": x})
    assert abs(found["mask"].mean() - 0.75) < 0.01
    soft = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(found["y"] - x, np.where(found["mask"], soft / 0.75, 0), atol=1e-6)
    again = fused.run({"x": x})
    assert 0.55 < np.mean(found["mask"] == again["mask"]) < 0.7  # runs are independent: 0.75**2 + 0.25**2
    columns = np.corrcoef(found["mask"].astype(float).T)
    assert np.abs(columns - np.eye(300)).max() < 0.3


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(ratio: float) -> None:
    fused = gaf.fuse(dropout(ratio))
    x = {"x": np.ones((3, 300), np.float32)}
    assert fused.verify(x, engine="check").ok
    assert (fused.run(x)["mask"] == (ratio == 0)).all()


def test_training_may_be_decided_at_run_time() -> None:
    fused = gaf.fuse(dropout(0.5, None))
    x = np.ones((3, 300), np.float32)
    for training in (False, True):
        feeds = {"x": x, "t": np.asarray(training)}
        assert fused.verify(feeds, engine="check").ok
        assert fused.run(feeds)["mask"].all() != training


def test_seeds() -> None:
    """A node's own seed makes its numbers the same in every run; otherwise gaf.manual_seed decides."""
    x = {"x": np.zeros((4, 100), np.float32)}
    own, free = (gaf.fuse(like("RandomUniformLike", ["B", 100], **kind)) for kind in ({"seed": 1.5}, {}))
    np.testing.assert_array_equal(own.run(x)["y"], own.run(x)["y"])
    gaf.manual_seed(7)
    first, second = free.run(x)["y"], free.run(x)["y"]
    assert (first != second).mean() > 0.99
    gaf.manual_seed(7)
    np.testing.assert_array_equal(free.run(x)["y"], first)
    with pytest.raises(gaf.InvalidInputError, match="a seed is an integer"):
        gaf.manual_seed(0.5)  # type: ignore[arg-type]


def test_two_nodes_have_streams_of_their_own() -> None:
    nodes = [helper.make_node("RandomNormal", [], [n], shape=[50, 80]) for n in "ab"]
    outputs = {n: (FLOAT, [50, 80]) for n in "ab"}
    found = gaf.fuse(model(nodes, {}, outputs)).run({})
    assert abs(np.corrcoef(found["a"].reshape(-1), found["b"].reshape(-1))[0, 1]) < 0.05


def test_bernoulli_and_reshaped_noise() -> None:
    """The place of an element is that in the random tensor, whatever views it goes through."""
    nodes = [
        helper.make_node("Bernoulli", ["p"], ["b"], dtype=TensorProto.INT32),
        helper.make_node("RandomUniform", [], ["u"], shape=[6, 100]),
        helper.make_node("Reshape", ["u", "to"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
        helper.make_node("Add", ["t", "x"], ["y"]),
    ]
    inputs = {"p": (HALF, [3, 70]), "x": (FLOAT, [60, 10])}
    outputs = {"b": (TensorProto.INT32, [3, 70]), "y": (FLOAT, [60, 10])}
    fused = gaf.fuse(model(nodes, inputs, outputs, {"to": np.asarray([10, 60])}))
    p = np.linspace(0, 1, 210).reshape(3, 70).astype(np.float16)
    feeds = {"p": p, "x": np.zeros((60, 10), np.float32)}
    for engine in ("interpreter", "check"):
        assert fused.verify(feeds, engine=engine).ok
    b = fused.run(feeds)["b"]
    assert b[0, 0] == 0 and b[2, 69] == 1 and abs(b.mean() - 0.5) < 0.1
