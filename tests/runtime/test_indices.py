# SPDX-License-Identifier: Apache-2.0
"""Positions out of range are refused on every engine, also where fast code would clamp them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from gaf.compiler import FusedModel, fuse
from gaf.errors import InvalidInputError
from gaf.frontend.onnx import load_onnx


def embedding() -> FusedModel:
    """relu(table[ids[:, 1:]]) with symbolic sizes."""
    nodes = [
        helper.make_node("Slice", ["ids", "one", "end", "one"], ["used"]),
        helper.make_node("Gather", ["table", "used"], ["rows"], name="embed"),
        helper.make_node("Relu", ["rows"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("table", TensorProto.FLOAT, ["V", 24]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", 5]),
    ]
    constants = [
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("end", TensorProto.INT64, [1], [5]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    return fuse(load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


@pytest.mark.parametrize("engine", ["host", "interpreter"])
@pytest.mark.parametrize("wrong", [7, -8, 1 << 40])
def test_a_position_out_of_range_is_named(engine: str, wrong: int) -> None:
    fused = embedding()
    assert len(fused.kernels) >= 1 and not fused.fallbacks
    ids = np.zeros((2, 5), np.int64)
    ids[1, 3] = wrong
    with pytest.raises(InvalidInputError) as error:
        fused.run({"table": np.ones((7, 24), np.float32), "ids": ids}, engine=engine)
    text = str(error.value)
    assert str(wrong) in text and "[1, 3]" in text and "-7..6" in text and "embed" in text


def test_elements_that_no_kernel_reads_may_be_anything() -> None:
    table = np.arange(7 * 24, dtype=np.float32).reshape(7, 24)
    ids = np.asarray([[-100, 1, -1, 6, 0]])
    y = embedding().run({"table": table, "ids": ids})["y"]
    assert np.array_equal(y, table[ids[:, 1:]])


@pytest.mark.parametrize("engine", ["host", "interpreter"])
def test_a_scatter_out_of_range_is_named(engine: str) -> None:
    node = helper.make_node("ScatterElements", ["x", "ids", "u"], ["y"], axis=1, reduction="add", name="spread")
    kinds = {"x": TensorProto.FLOAT, "ids": TensorProto.INT64, "u": TensorProto.FLOAT}
    shapes = {"x": [3, 9], "ids": [3, 4], "u": [3, 4]}
    infos = [helper.make_tensor_value_info(n, kinds[n], shapes[n]) for n in kinds]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    fused = fuse(load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)))
    assert fused.kernels and not fused.fallbacks
    rng = np.random.default_rng(0)
    inputs = {"x": rng.random((3, 9), np.float32), "u": rng.random((3, 4), np.float32)}
    ids = rng.integers(-9, 9, (3, 4))
    expected = inputs["x"].copy()
    np.add.at(expected, (np.arange(3)[:, None], ids), inputs["u"])
    np.testing.assert_allclose(fused.run({**inputs, "ids": ids}, engine=engine)["y"], expected, rtol=1e-6)
    ids[2, 1] = 9
    with pytest.raises(InvalidInputError, match=r"spread.*-9\.\.8.*9 at \[2, 1\]"):
        fused.run({**inputs, "ids": ids}, engine=engine)
