# SPDX-License-Identifier: Apache-2.0
"""Quantised operators: the same bytes as onnx's reference, in kernels, under the rules of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from gaf.compiler import FusedModel, fuse
from gaf.frontend.onnx import load_onnx

OPSET = 21


def onnx_model(nodes: list[Any], inputs: dict[str, np.ndarray], outputs: list[str], weights: dict[str, np.ndarray]) -> Any:
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    graph = helper.make_graph(
        nodes, "g", infos, [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def check(
    nodes: list[Any], inputs: dict[str, np.ndarray], outputs: list[str], weights: dict[str, np.ndarray] | None = None,
    engine: str = "check", tolerance: float = 0.0,
) -> FusedModel:  # fmt: skip
    """Fuse, run, compare with onnx's reference."""
    proto = onnx_model(nodes, inputs, outputs, weights or {})
    fused = fuse(load_onnx(proto))
    assert not fused.fallbacks
    got, expected = fused.run(inputs, engine=engine), ReferenceEvaluator(proto).run(None, inputs)
    for name, right in zip(outputs, expected):
        assert got[name].dtype == right.dtype and got[name].shape == right.shape
        assert np.max(np.abs(got[name].astype(np.float64) - right), initial=0) <= tolerance
    return fused


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


def bytes_(kind: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return np.random.default_rng(4).integers(info.min, info.max + 1, shape).astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_static_quantisation_of_a_channel_is_one_kernel(kind: Any) -> None:
    weights = {"s": np.asarray([0.02, 0.5, 0.01], np.float32), "z": np.asarray([3, 0, 100], kind)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    fused = check(nodes, {"x": normal(2, 3, 37)}, ["q", "y"], weights, tolerance=1e-6)
    assert len(fused.kernels) == 1


def test_values_out_of_range_saturate() -> None:
    x = np.asarray([-1e9, -3, 0.5, 1.5, 2.5, 300, 1e9, np.inf, -np.inf], np.float32)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"])]
    proto = onnx_model(nodes, {"x": x}, ["q"], {"s": np.asarray(1, np.float32)})
    assert fuse(load_onnx(proto)).run({"x": x})["q"].tolist() == [0, 0, 0, 2, 2, 255, 255, 255, 0]


def test_dynamic_quantisation_and_product() -> None:
    """The pattern that exporters write for a dynamically quantised linear layer."""
    weights = {"w": bytes_(np.int8, 40, 24), "ws": np.asarray(0.01, np.float32), "b": normal(24)}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["p"]),
        helper.make_node("Cast", ["p"], ["f"], to=1),
        helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Mul", ["f", "scale"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    check(nodes, {"x": normal(5, 40)}, ["y"], weights, tolerance=1e-4)


@pytest.mark.parametrize("length", [1, 257, 259, 700])
def test_integer_products_are_exact(length: int) -> None:
    """Longer sums than float32 holds exactly: the extremes of both types, everywhere."""
    a, b = np.full((3, length), 255, np.uint8), np.full((length, 16), -128, np.int8)
    a[1], b[:, 1] = bytes_(np.uint8, length), bytes_(np.int8, length)
    zeros = {"az": np.asarray(0, np.uint8), "bz": np.asarray(127, np.int8)}
    check([helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])], {"a": a, "b": b}, ["y"], zeros, "host")


def test_weight_only_quantisation() -> None:
    weights = {"w": bytes_(np.int8, 32, 48), "s": np.abs(normal(48)) * 0.01}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=1),
        helper.make_node("MatMul", ["x", "wf"], ["y"]),
    ]
    check(nodes, {"x": normal(7, 32)}, ["y"], weights, tolerance=1e-3)


@settings(max_examples=5, deadline=None)
@given(rows=st.integers(1, 20), length=st.integers(1, 40), columns=st.integers(1, 20), kind=st.sampled_from([np.uint8, np.int8]))
def test_quantised_products_of_any_size(rows: int, length: int, columns: int, kind: Any) -> None:
    scale = np.asarray(0.02, np.float32)
    weights = {
        "as": scale, "az": np.asarray(5, kind), "b": bytes_(kind, length, columns), "bs": scale,
        "bz": np.asarray(9, kind), "ys": np.asarray(0.5, np.float32), "yz": np.asarray(11, kind),
    }  # fmt: skip
    nodes = [helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])]
    check(nodes, {"a": bytes_(kind, rows, length)}, ["y"], weights, "interpreter", tolerance=1)
