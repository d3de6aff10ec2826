# SPDX-License-Identifier: Apache-2.0
"""Graphs on which other compilers were wrong, by the kind of fault: each against onnx.reference or a formula.

Every graph is imported, fused and run by interpreting its kernels; the sizes are those that make the fault
show (rows that aren't whole blocks, operands of different widths, ops that must stay where they are).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import gaf
from gaf.config import FusionConfig
from gaf.frontend.onnx import load_onnx
from tests.frontend.onnx_models import node, onnx_model, reference, value

RNG = np.random.default_rng(5)


def randn(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def run(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> gaf.FusedModel:
    """Fuse a graph of nodes; its outputs must be those of onnx.reference, and every kernel's right by itself."""
    infos = [value(n, a.shape, onnx.helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in inputs.items()]
    model = onnx_model(nodes, infos, outputs, weights, opset=opset)
    fused = gaf.fuse(load_onnx(model))
    assert fused.source_model.output_names == list(outputs)
    with np.errstate(all="ignore"):
        wanted = reference(model, inputs)
    got = fused.run(inputs, engine="interpreter")
    for name, want in zip(outputs, wanted):
        assert got[name].shape == want.shape and got[name].dtype == want.dtype
        np.testing.assert_allclose(
            got[name].astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, err_msg=name
        )
    fused.verify(inputs, engine="interpreter").raise_if_failed()
    return fused


def norm(x: str, out: str, gamma: str) -> list[onnx.NodeProto]:
    """RMSNorm in five nodes over the last axis."""
    return [
        node("Mul", [x, x], [f"{out}_sq"]),
        node("ReduceMean", [f"{out}_sq", "last"], [f"{out}_ms"], keepdims=1),
        node("Add", [f"{out}_ms", "eps"], [f"{out}_e"]),
        node("Sqrt", [f"{out}_e"], [f"{out}_rms"]),
        node("Div", [x, f"{out}_rms"], [f"{out}_n"]),
        node("Mul", [f"{out}_n", gamma], [out]),
    ]


LAST = {"last": np.array([-1]), "eps": np.float32(1e-5)}

# -- what may be joined ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [(3, 1), (4,), (2, 1, 1), (1,)], ids=str)
def test_a_scale_of_a_norm_that_only_broadcasts(gamma: tuple[int, ...]) -> None:
    run(norm("x", "y", "g"), {"x": randn(2, 3, 4)}, ["y"], {"g": randn(*gamma), **LAST})


def test_a_scale_that_makes_the_result_wider_than_its_statistics() -> None:
    fused = run(norm("x", "y", "g"), {"x": randn(1, 1)}, ["y"], {"g": randn(2), **LAST})
    assert fused.run({"x": np.ones((1, 1), np.float32)}, engine="interpreter")["y"].shape == (1, 2)


def test_values_inside_of_a_kernel_that_are_outputs_too() -> None:
    nodes = [
        node("Add", ["x", "b"], ["z"]),
        node("Div", ["z", "root2"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["e1"]),
        node("Mul", ["z", "e1"], ["m"]),
        node("Mul", ["m", "half"], ["y"]),
    ]
    numbers = {"root2": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    run(nodes, {"x": randn(4, 33)}, ["y", "z", "e1"], {"b": randn(33), **numbers})


@pytest.mark.parametrize("order", ["x*k", "k*x"])
def test_the_order_of_operands_does_not_change_the_kernels(order: str) -> None:
    def pair(a: str, b: str) -> list[str]:
        return [a, b] if order == "x*k" else [b, a]

    nodes = [
        node("Add", pair("x", "b"), ["z"]),
        node("Mul", pair("z", "k"), ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", pair("e", "one"), ["e1"]),
        node("Mul", pair("z", "e1"), ["m"]),
        node("Mul", pair("m", "half"), ["y"]),
    ]
    numbers = {"k": np.float32(0.5**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    assert len(run(nodes, {"x": randn(4, 96)}, ["y"], {"b": randn(96), **numbers}).kernels) == 1


def test_equal_looking_constants_are_two() -> None:
    nodes = [
        node("Div", ["x", "two"], ["a"]),
        node("Mul", ["y", "four"], ["b"]),
        node("Add", ["a", "b"], ["o"]),
    ]
    weights = {"two": np.float32([2]), "four": np.float32([4])}
    run(nodes, {"x": randn(3, 5), "y": randn(3, 5)}, ["o"], weights)


def test_a_group_around_a_matmul_keeps_the_order() -> None:
    nodes = [
        node("Sigmoid", ["x"], ["s"]),
        node("MatMul", ["s", "w"], ["p"]),
        node("Mul", ["s", "p"], ["m"]),
        node("Add", ["m", "x"], ["a"]),
        node("Tanh", ["a"], ["y"]),
    ]
    run(nodes, {"x": randn(6, 40)}, ["y"], {"w": randn(40, 40, scale=0.2)}, rtol=1e-4, atol=1e-4)


def test_a_weight_that_all_layers_read_does_not_join_them() -> None:
    nodes, x = [], "x"
    weights = {"g": randn(32), **LAST}
    for i in range(3):
        nodes += norm(x, f"n{i}", "g")
        nodes += [
            node("MatMul", [f"n{i}", f"w{i}"], [f"p{i}"]),
            node("Sigmoid", [f"p{i}"], [f"s{i}"]),
            node("Mul", [f"p{i}", f"s{i}"], [f"u{i}"]),
            node("Add", [x, f"u{i}"], [f"x{i}"]),
        ]
        weights[f"w{i}"] = randn(32, 32, scale=0.2)
        x = f"x{i}"
    fused = run(nodes, {"x": randn(5, 32)}, [x], weights, rtol=1e-4, atol=1e-4)
    assert all(len(f.operands) <= 5 for f in fused.fused_ops)


def test_the_widest_operand_gives_the_width() -> None:
    nodes = [
        node("Sigmoid", ["gate"], ["s"]),
        node("Mul", ["s", "h"], ["m"]),
        node("Mul", ["m", "w"], ["y"]),
    ]
    run(nodes, {"gate": randn(7, 1), "h": randn(7, 300)}, ["y", "s"], {"w": randn(300)})


def test_values_that_live_to_the_end_of_a_long_chain() -> None:
    nodes, at = [node("Tanh", ["x"], ["a"])], "a"
    for i in range(16):
        nodes.append(node(("Sigmoid", "Tanh", "Neg", "Abs")[i % 4], [at], [f"c{i}"]))
        at = f"c{i}"
    nodes += [node("Add", [at, "a"], ["r"]), node("Mul", ["r", "x"], ["y"])]
    run(nodes, {"x": randn(8, 512)}, ["y"])


# -- values and indices ---------------------------------------------------------------------------------------


def test_padding_in_front_of_a_reduction_keeps_its_value() -> None:
    nodes = [
        node("Pad", ["x", "pads", "low"], ["p"]),
        node("ReduceMin", ["p", "last"], ["y"], keepdims=0),
        node("ReduceSum", ["p", "last"], ["z"], keepdims=1),
    ]
    weights = {"pads": np.array([0, 1, 0, 3]), "low": np.float32(-2.5), "last": np.array([-1])}
    run(nodes, {"x": np.abs(randn(3, 37))}, ["y", "z"], weights, rtol=1e-4)


def test_lanes_behind_the_end_add_nothing_to_a_scattered_sum() -> None:
    n, bias = 37, np.float32(0.020368)
    nodes = [node("Add", ["x", "b"], ["a"]), node("ScatterElements", ["zero", "at", "a"], ["y"], reduction="add")]
    weights = {"b": bias, "zero": np.zeros((1, 1), np.float32), "at": np.zeros((n, 1), np.int64)}
    x = randn(n, 1)
    fused = run(nodes, {"x": x}, ["y"], weights)
    got = fused.run({"x": x}, engine="interpreter")["y"]
    np.testing.assert_allclose(got, [[x.sum(dtype=np.float64) + n * np.float64(bias)]], rtol=1e-5)


def test_a_flip_between_elementwise_ops() -> None:
    nodes = [
        node("Tan", ["x"], ["t"]),
        node("Slice", ["t", "from", "to", "axis", "step"], ["f"]),
        node("Tan", ["f"], ["y"]),
    ]
    weights = {"from": np.array([-1]), "to": np.array([-1000]), "axis": np.array([1]), "step": np.array([-1])}
    run(nodes, {"x": randn(64, 64, scale=0.3)}, ["y"], weights, rtol=1e-4)


@pytest.mark.parametrize("width", [1, 7, 100, 126])
def test_rows_that_are_not_whole_blocks(width: int) -> None:
    run([node("Softmax", ["x"], ["y"], axis=-1)], {"x": randn(3, 5, width)}, ["y"])
    run([node("BitwiseNot", ["i"], ["j"])], {"i": RNG.integers(-9999, 9999, (9, width)).astype(np.int16)}, ["j"])


def test_a_summed_axis_with_a_tail() -> None:
    a, b = (randn(*s).astype(np.float16) for s in ((64, 200), (200, 128)))
    run([node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"], rtol=4e-3, atol=3e-2)


def test_a_row_longer_than_the_memory_of_a_core_is_split() -> None:
    fused = run(norm("x", "y", "g"), {"x": randn(2, 48000)}, ["y"], {"g": randn(48000), **LAST}, rtol=1e-4)
    assert fused.kernels and not fused.host_ops


# -- numerics -------------------------------------------------------------------------------------------------


def test_a_cast_to_float32_is_not_cancelled() -> None:
    """The squares pass the largest float16."""
    nodes = [
        node("Cast", ["x"], ["w"], to=TensorProto.FLOAT),
        *norm("w", "n", "g"),
        node("Cast", ["n"], ["y"], to=TensorProto.FLOAT16),
    ]
    x = randn(4, 256, scale=300).astype(np.float16)
    run(nodes, {"x": x}, ["y"], {"g": randn(256), **LAST}, rtol=2e-3, atol=2e-3)


def test_float64_is_not_computed_in_float32() -> None:
    nodes = [
        node("Mul", ["x", "k"], ["a"]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["x", "s"], ["y"]),
    ]
    x = RNG.standard_normal((1, 37))
    fused = run(nodes, {"x": x}, ["y"], {"k": np.float64(1.702)}, rtol=1e-12, atol=1e-13)
    assert any("f64" in note or "float64" in note for note in fused.fallbacks)


def test_strict_numerics_round_bfloat16_after_every_op() -> None:
    nodes = [node("Mul", ["x", "y"], ["p"]), node("Add", ["p", "z"], ["o"])]
    inputs = {n: randn(4, 64).astype(ml_dtypes.bfloat16) for n in "xyz"}
    infos = [value(n, [4, 64], TensorProto.BFLOAT16) for n in inputs]
    model = load_onnx(onnx_model(nodes, infos, ["o"]))
    x, y, z = inputs.values()
    twice = (x * y) + z
    got = gaf.fuse(model, FusionConfig(numerics="strict")).run(inputs, engine="interpreter")["o"]
    np.testing.assert_array_equal(got.view(np.uint16), twice.view(np.uint16))
    exact = np.multiply(x, y, dtype=np.float64) + z.astype(np.float64)
    once = gaf.fuse(model).run(inputs, engine="interpreter")["o"]
    assert np.abs(once.astype(np.float64) - exact).max() <= np.abs(twice.astype(np.float64) - exact).max()


def test_a_row_without_anything_to_attend_to_is_nan() -> None:
    nodes = [node("Where", ["m", "s", "low"], ["w"]), node("Softmax", ["w"], ["y"], axis=-1)]
    mask = np.ones((1, 1, 4, 6), bool)
    mask[0, 0, 2] = False
    run(nodes, {"s": randn(1, 2, 4, 6), "m": mask}, ["y"], {"low": np.float32(-np.inf)})


# -- operators ------------------------------------------------------------------------------------------------

OPERATORS = {
    "Pad wraps along one axis": (
        node("Pad", ["x", "a", "", "b"], ["y"], mode="wrap"),
        [3, 4],
        {"a": np.array([1, 2]), "b": np.array([1])},
    ),
    "ConvTranspose SAME_UPPER": (
        node("ConvTranspose", ["x", "a"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]),
        [1, 1, 4, 4],
        {"a": randn(1, 1, 3, 3)},
    ),
    "Resize rounds halves down": (
        node("Resize", ["x", "", "", "a"], ["y"], mode="nearest", nearest_mode="round_prefer_floor"),
        [1, 1, 3, 3],
        {"a": np.array([1, 1, 4, 4])},
    ),
    "PRelu broadcasts its slope": (node("PRelu", ["x", "a"], ["y"]), [2, 3, 4], {"a": randn(3, 1)}),
    "Clip without a maximum": (node("Clip", ["x", "a"], ["y"]), [13], {"a": np.float32(-0.3)}),
    "Clip without a minimum": (node("Clip", ["x", "", "a"], ["y"]), [13], {"a": np.float32(0.3)}),
    "Clip without bounds": (node("Clip", ["x"], ["y"]), [13], {}),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_operator(case: str) -> None:
    made, shape, weights = OPERATORS[case]
    run([made], {"x": randn(*shape)}, ["y"], weights, opset=19)


def test_a_partial_window_averages_what_is_there() -> None:
    made = node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1)
    x = randn(1, 3, 17, 17)
    model = onnx_model([made], [value("x", x.shape)], ["y"], opset=19)
    got = gaf.fuse(load_onnx(model)).run({"x": x}, engine="interpreter")["y"]
    assert got.shape == (1, 3, 9, 9)
    np.testing.assert_allclose(got[..., -1, -1], x[..., -1, -1], rtol=1e-6)
    np.testing.assert_allclose(got[..., :8, :8], x[..., :16, :16].reshape(1, 3, 8, 2, 8, 2).mean((3, 5)), atol=1e-6)
