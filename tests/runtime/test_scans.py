# SPDX-License-Identifier: Apache-2.0
"""Running sums and products of any length as kernels: along lanes and rows, in chunks, fused with their neighbours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaf

ENGINES = ("tile", "interpreter", "host", "check")
FLOAT = TensorProto.FLOAT


def running(shape: Sequence[Any], axis: int, kind: int = FLOAT, op: str = "CumSum", **flags: int) -> gaf.Model:
    """x + running fold of relu(x)."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(op, ["r", "axis"], ["c"], **flags),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, kind, shape) for n in "xy")
    weights = [onnx.numpy_helper.from_array(np.asarray(axis), "axis")]
    graph = helper.make_graph(nodes, "scan", [x], [y], weights)
    opset = 26 if op == "CumProd" else 17
    return gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))


def check(model: gaf.Model, x: np.ndarray, engines: Sequence[str] = ENGINES) -> None:
    fused = gaf.fuse(model)
    assert len(fused.kernels) == 1 and not fused.fallbacks
    for engine in engines:
        assert fused.verify({"x": x}, engine=engine).ok, engine


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("shape, axis", [((5, 300), 1), ((3, 2, 1000), 2), ((4, 8), 1), ((2000, 70), 0), ((3, 400, 9), 1), ((5000,), 0)])
def test_axes_and_lengths(shape: tuple[int, ...], axis: int, exclusive: int) -> None:
    check(running(shape, axis, exclusive=exclusive), normal(*shape))


def test_symbolic_sizes() -> None:
    model = running(["B", "N"], 1)
    for shape in ((1, 1), (2, 9), (3, 2500)):
        check(model, normal(*shape))


def test_products_and_half() -> None:
    check(running([6, 500], 1, op="CumProd"), (1 + normal(6, 500) * 0.01).astype(np.float32))
    check(running(["B", 300], 1, kind=TensorProto.FLOAT16), normal(3, 300).astype(np.float16))


def test_special_numbers_spread_along_the_row() -> None:
    x = np.abs(normal(4, 700))
    x[0, 100], x[1, 600], x[2, 3] = np.nan, np.inf, np.nan
    check(running([4, 700], 1), x)


def test_positions_from_a_mask() -> None:
    """A running sum of int64 zeros and ones, as position ids of padded batches are made."""
    nodes = [
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.INT64),
        helper.make_node("CumSum", ["m", "axis"], ["c"]),
        helper.make_node("Mul", ["c", "m"], ["y"]),
    ]
    mask = helper.make_tensor_value_info("mask", TensorProto.BOOL, ["B", 900])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, ["B", 900])
    weights = [onnx.numpy_helper.from_array(np.asarray(1), "axis")]
    graph = helper.make_graph(nodes, "positions", [mask], [y], weights)
    fused = gaf.fuse(gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    assert len(fused.kernels) == 1 and not fused.fallbacks
    feeds = {"mask": np.random.default_rng(0).random((3, 900)) < 0.7}
    for engine in ENGINES:
        np.testing.assert_array_equal(fused.run(feeds, engine=engine)["y"], np.cumsum(feeds["mask"], 1) * feeds["mask"])


def test_running_fold_of_a_running_fold() -> None:
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["c"]), helper.make_node("CumSum", ["c", "axis"], ["y"], exclusive=1)]
    x, y = (helper.make_tensor_value_info(n, FLOAT, [3, 1500]) for n in "xy")
    weights = [onnx.numpy_helper.from_array(np.asarray(1), "axis")]
    graph = helper.make_graph(nodes, "twice", [x], [y], weights)
    check(gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])), normal(3, 1500))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_many_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.integers(1, (9, 40, 1500)[: rng.integers(1, 4)])]
    rng.shuffle(shape)
    check(running(shape, int(rng.integers(len(shape))), exclusive=int(rng.integers(2))), normal(*shape))
