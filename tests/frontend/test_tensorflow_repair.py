# SPDX-License-Identifier: Apache-2.0
"""What tf2onnx gets wrong is mended or refused; needs no TensorFlow."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import gaf
from gaf.errors import UnsupportedError
from gaf.frontend.tensorflow.repair import repair


def model(*nodes: onnx.NodeProto, dtype: int = onnx.TensorProto.FLOAT, dims: tuple[int | str, ...] = ("unk__6", 4)) -> onnx.ModelProto:
    """`nodes` from x to y, as tf2onnx would write them."""
    x = helper.make_tensor_value_info("x:0", dtype, list(dims))
    y = helper.make_tensor_value_info("y", dtype, ["unk__9", 4])
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_erfc_becomes_one_minus_erf(kind: str) -> None:
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    proto = model(helper.make_node("Erfc", ["x:0"], ["y"], name="gelu/Erfc"), dtype=dtype)
    repair(proto, "m")
    x = np.linspace(-2, 2, 12, dtype=kind).reshape(3, 4)
    got = gaf.load_model(proto)
    result = gaf.fuse(got).run({got.input_names[0]: x}, engine="interpreter")["y"]
    expected = np.vectorize(math.erfc)(x.astype(np.float64))
    assert result.dtype == x.dtype
    assert np.allclose(result, expected, atol=4 * np.finfo(kind).eps if kind != "float64" else 1e-15)


def test_operators_without_a_form_are_listed_with_their_number() -> None:
    nodes = [
        helper.make_node("FFT", ["x:0"], ["a"]),
        helper.make_node("FFT", ["a"], ["b"]),
        helper.make_node("MatrixDeterminant", ["b"], ["y"]),
    ]
    with pytest.raises(UnsupportedError, match="2 x FFT, 1 x MatrixDeterminant"):
        repair(model(*nodes), "m")


def test_operators_inside_of_branches_are_found() -> None:
    inner = helper.make_graph(
        [helper.make_node("Erfc", ["x:0"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, None)]
    )
    other = helper.make_graph(
        [helper.make_node("Nonsense", ["x:0"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, None)]
    )
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True]))
    proto = model(condition, helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other))
    with pytest.raises(UnsupportedError, match="1 x Nonsense"):
        repair(proto, "m")


@pytest.mark.parametrize("shared,name", [(False, "x_0"), (True, "batch")])
def test_open_dims_get_names_that_say_something(shared: bool, name: str) -> None:
    proto = model(helper.make_node("Relu", ["x:0"], ["y"]))
    repair(proto, "m", shared_batch=shared)
    assert [d.dim_param or d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim] == [name, 4]
    assert not proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param


def test_whatever_the_checker_finds_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="invalid model"):
        repair(model(helper.make_node("Relu", ["missing"], ["y"])), "m")


def test_without_tensorflow_a_saved_model_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="not installed"):
        gaf.load_model(str(tmp_path))
