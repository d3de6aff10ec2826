# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements to computed places, and resizes that are matrix products: right and in kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from gaf.compiler import fuse
from gaf.frontend.onnx import load_onnx
from tests.frontend.onnx_models import I64, node, onnx_model, reference, value


def model(
    op_type: str, inputs: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray] | None = None, opset: int = 20,
    outputs: int = 1, shapes: Mapping[str, Sequence[Any]] | None = None, order: Sequence[str] = (), **attributes: Any,
) -> Any:  # fmt: skip
    """An ONNX model of one node; `shapes` are symbolic ones for some inputs."""
    constants = constants or {}
    names = list(order) or [*inputs, *constants]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], **attributes)
    given = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), (shapes or {}).get(n, a.shape)
        )
        for n, a in inputs.items()
    ]
    made = [helper.make_empty_tensor_value_info(n) for n in node.output]
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph([node], "one", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def through_kernels(
    proto: Any, inputs: Mapping[str, np.ndarray], engine: str = "interpreter"
) -> list[np.ndarray]:
    """The results of generated kernels; nothing may run on the host, or break a rule of the machine."""
    fused = fuse(load_onnx(proto))
    assert fused.kernels and not fused.fallbacks
    if engine == "check":
        found = fused.verify(inputs, engine="check")
        assert found.ok and not found.violations
    return list(fused.run(dict(inputs), engine=engine).values())


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    inputs = {"x": normal(2, 3, 4, 5), "grid": 1.5 * normal(2, 3, 4, 2)}
    proto = model("GridSample", inputs, mode=mode, padding_mode=padding, align_corners=0)
    got = list(load_onnx(proto).run(inputs).values())
    np.testing.assert_allclose(got[0], reference(proto, inputs)[0], rtol=1e-4, atol=1e-4)


def test_grid_sample_in_kernels() -> None:
    inputs = {"x": normal(1, 3, 6, 7), "grid": 1.2 * normal(1, 5, 4, 2)}
    proto = model("GridSample", inputs, mode="linear", padding_mode="border", align_corners=1)
    (got,) = through_kernels(proto, inputs, "check")
    np.testing.assert_allclose(got, reference(proto, inputs)[0], rtol=1e-4, atol=1e-4)


def test_deformable_convolution_with_groups() -> None:
    inputs = {
        "x": normal(2, 4, 6, 5),
        "w": normal(6, 2, 3, 2),
        "offset": 1.5 * normal(2, 2 * 3 * 2 * 2, 3, 4),
    }
    inputs |= {"b": normal(6), "mask": normal(2, 2 * 3 * 2, 3, 4)}
    attributes = {
        "group": 2,
        "offset_group": 2,
        "strides": [2, 1],
        "pads": [1, 0, 0, 0],
        "kernel_shape": [3, 2],
    }
    proto = model("DeformConv", inputs, **attributes)
    got = list(load_onnx(proto).run(inputs).values())
    np.testing.assert_allclose(got[0], reference(proto, inputs)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_reverse_sequence(batch_axis: int) -> None:
    inputs = {"x": normal(4, 4, 9), "n": np.asarray([4, 1, 0, 3], np.int64)}
    proto = model("ReverseSequence", inputs, batch_axis=batch_axis, time_axis=1 - batch_axis)
    (got,) = through_kernels(proto, inputs, "check" if batch_axis else "interpreter")
    np.testing.assert_array_equal(got, reference(proto, inputs)[0])


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter_on_symbolic_sizes(mode: str) -> None:
    inputs = {
        "cache": normal(3, 2, 7, 8),
        "new": normal(3, 2, 3, 8) + 9,
        "at": np.asarray([0, 3, 6 if mode == "circular" else 4]),
    }
    shapes = {"cache": ("B", 2, "M", 8), "new": ("B", 2, 3, 8), "at": ("B",)}
    proto = model("TensorScatter", inputs, opset=24, shapes=shapes, mode=mode, axis=2)
    (got,) = through_kernels(proto, inputs)
    np.testing.assert_array_equal(got, reference(proto, inputs)[0])


def test_max_pool_with_positions_and_back() -> None:
    x = normal(2, 3, 6, 8)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    values, places = through_kernels(model("MaxPool", {"x": x}, outputs=2, **window), {"x": x}, "check")
    np.testing.assert_array_equal(np.ravel(x)[places], values)
    small = np.asarray([0, 6, 9, 15]).reshape(2, 2) + 16 * np.arange(3).reshape(1, 3, 1, 1)
    pooled = {"x": values[:1, :, :2, :2], "at": small}
    (back,) = through_kernels(model("MaxUnpool", pooled, **window), pooled)
    assert np.ravel(back)[np.ravel(pooled["at"])].tolist() == np.ravel(pooled["x"]).tolist()
    assert np.count_nonzero(back) == pooled["x"].size


@pytest.mark.parametrize(
    ("mode", "more", "operands"),
    [
        ("linear", {"antialias": 1}, {"sizes": [2, 3, 5, 4]}),
        ("cubic", {"antialias": 1}, {"scales": [1.0, 1.0, 0.6, 0.7]}),
        ("cubic", {"exclude_outside": 1, "cubic_coeff_a": -0.5}, {"scales": [1.0, 1.0, 1.6, 0.7]}),
        ("linear", {"keep_aspect_ratio_policy": "not_larger"}, {"sizes": [5, 9], "axes": [2, 3]}),
        ("nearest", {"keep_aspect_ratio_policy": "not_smaller"}, {"sizes": [5, 9], "axes": [2, 3]}),
        ("linear", {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0},
         {"roi": [0, 0, -0.2, 0.1, 1, 1, 0.8, 1.3], "sizes": [2, 3, 5, 4]}),
        ("nearest", {"coordinate_transformation_mode": "tf_crop_and_resize"},
         {"roi": [0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9], "sizes": [2, 3, 5, 4]}),
    ],
)  # fmt: skip
def test_resize_with_region_antialiasing_and_aspect_ratio(
    mode: str, more: dict[str, Any], operands: dict[str, Any]
) -> None:
    x = {"x": normal(2, 3, 8, 7)}
    axes = operands.pop("axes", None)
    more = more | ({"axes": axes} if axes else {})
    kinds = {"roi": np.float32, "scales": np.float32, "sizes": np.int64}
    constants = {n: np.asarray(v, kinds[n]) for n, v in operands.items()}
    names = ["x", *(n if n in constants else "" for n in ("roi", "scales", "sizes"))]
    proto = model("Resize", x, constants, 19, order=names, mode=mode, **more)
    fused = fuse(load_onnx(proto))
    assert not fused.fallbacks
    (got,) = fused.run(x, engine="interpreter").values()
    np.testing.assert_allclose(got, reference(proto, x)[0], rtol=1e-4, atol=1e-4)


def test_upsample_of_old_opsets() -> None:
    x = {"x": normal(1, 2, 3, 4)}
    for opset, constants, attrs in (
        (7, {}, {"scales": [1.0, 1.0, 2.0, 3.0]}),
        (9, {"s": np.asarray([1, 1, 2, 3], np.float32)}, {}),
    ):
        (got,) = through_kernels(model("Upsample", x, constants, opset, mode="nearest", **attrs), x)
        np.testing.assert_array_equal(got, x["x"].repeat(2, 2).repeat(3, 3))


def test_normalisation_by_a_norm_that_may_be_zero() -> None:
    x = normal(3, 8)
    x[1] = 0
    for p in (1, 2):
        (got,) = through_kernels(model("LpNormalization", {"x": x}, p=p, axis=1), {"x": x})
        norm = np.linalg.norm(x, p, axis=1, keepdims=True)
        np.testing.assert_allclose(got, np.divide(x, norm, where=norm != 0, out=np.zeros_like(x)), rtol=1e-5)


def test_region_of_interest_that_is_computed_runs_on_the_host() -> None:
    inputs = {"x": normal(1, 1, 4, 4), "roi": np.asarray([0, 0, 0, 0, 1, 1, 1, 1], np.float32)}
    sizes = {"sizes": np.asarray([1, 1, 2, 2])}
    proto = model(
        "Resize",
        inputs,
        sizes,
        19,
        order=["x", "roi", "", "sizes"],
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    loaded = load_onnx(proto)
    assert list(loaded.fallbacks) == ["Resize"]
    np.testing.assert_allclose(list(loaded.run(inputs).values())[0], reference(proto, inputs)[0], rtol=1e-5)


def test_places_that_are_looked_up_need_no_host() -> None:
    """Token types of RoBERTa: positions look up types, which look up rows."""
    made = load_onnx(
        onnx_model(
            [
                node("GatherElements", ["types", "positions"], ["t"], axis=1),
                node("Gather", ["rows", "t"], ["a"]),
                node("Gather", ["words", "ids"], ["b"]),
                node("Add", ["a", "b"], ["y"]),
            ],
            [value("positions", [2, 7], I64), value("ids", [2, 7], I64)],
            ["y"],
            {
                "types": np.arange(64, dtype=np.int64).reshape(2, 32) % 5,
                "rows": np.random.default_rng(0).normal(size=(5, 32)).astype("f"),
                "words": np.random.default_rng(1).normal(size=(9, 32)).astype("f"),
            },
        )
    )
    fused = fuse(made)
    assert not fused.host_ops
    inputs = {"positions": np.arange(14).reshape(2, 7) % 9, "ids": np.arange(14).reshape(2, 7) % 9}
    assert fused.verify(inputs, "interpreter").ok
