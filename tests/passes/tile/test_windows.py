# SPDX-License-Identifier: Apache-2.0
"""Sliding windows on the vector cores: pools and depthwise convolutions, alone and with elementwise neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import sym
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.ops.conv import ConvOp
from gaf.dialects.graph.ops.pool import AveragePoolOp, LpPoolOp, MaxPoolOp
from gaf.dialects.graph.ops.resize import ResizeOp
from gaf.dialects.graph.types import TensorType
from tests.passes.tile.windows import CHECK, SLOW, build, judged, values, window

POOLS: list[tuple[type[GraphOp], dict[str, Any], dict[str, Any]]] = [
    (MaxPoolOp, window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), {}),
    (MaxPoolOp, window((3, 2), (2, 3), (1, 0, 0, 1), (2, 1)), {"ceil_mode": True}),
    (AveragePoolOp, window((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), {"count_include_pad": False}),
    (AveragePoolOp, window((3, 2), (2, 2), (1, 1, 1, 0), (1, 3)), {"count_include_pad": True, "ceil_mode": True}),
    (AveragePoolOp, window((2, 2), (1, 2), (2, 1, 1, 1), (3, 2)), {"count_include_pad": False, "ceil_mode": True}),
    (LpPoolOp, window((2, 3), (1, 2), (0, 1, 1, 1), (1, 1)), {"p": 2}),
]


@pytest.mark.parametrize(("op", "attrs", "more"), POOLS, ids=range(len(POOLS)))
@pytest.mark.parametrize("kind", [dt.F32, dt.BF16])
def test_pools(op: type[GraphOp], attrs: dict[str, Any], more: dict[str, Any], kind: dt.DType) -> None:
    model = build(op, TensorType.of((sym("N"), 3, 11, 9), kind), **{"ceil_mode": False, **attrs, **more})
    judged(model, {"x": values((2, 3, 11, 9), kind)}, "tile", "interpreter")


@CHECK
@pytest.mark.parametrize("number", [1, 4, pytest.param(0, marks=SLOW), pytest.param(2, marks=SLOW), pytest.param(3, marks=SLOW)])
def test_compiled_pools(number: int) -> None:
    op, attrs, more = POOLS[number]
    kind = (dt.F16, dt.F32)[number % 2]
    model = build(op, TensorType.of((sym("N"), 3, 11, 9), kind), **{"ceil_mode": False, **attrs, **more})
    judged(model, {"x": values((2, 3, 11, 9), kind)}, "check")


@pytest.mark.parametrize("shape", [(5, 40), (1, 7, 6, 5)])
def test_pools_of_one_and_three_dims(shape: tuple[int, ...]) -> None:
    n = len(shape) - 1
    attrs = window((3,) * n, (2,) * n, (1,) * 2 * n, (1,) * n)
    for op, more in ((MaxPoolOp, {}), (AveragePoolOp, {"count_include_pad": False})):
        model = build(op, TensorType.of((sym("N"), *shape), dt.F32), around=False, ceil_mode=False, **attrs, **more)
        judged(model, {"x": values((2, *shape))}, "tile", "interpreter")


@pytest.mark.parametrize("kind", [dt.I8, dt.U8])
def test_integer_max_pool_pads_with_the_lowest_value(kind: dt.DType) -> None:
    attrs = window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    model = build(MaxPoolOp, TensorType.of((2, 3, 6, 5), kind), around=False, ceil_mode=False, **attrs)
    x = np.random.default_rng(0).integers(-128 if kind is dt.I8 else 0, -100 if kind is dt.I8 else 9, (2, 3, 6, 5))
    judged(model, {"x": x.astype(kind.numpy)}, "tile", "interpreter")


def resized(mode: str, coordinates: str, *scales: tuple[int, int], sizes: tuple[Any, ...]) -> dict[str, Any]:
    up, down = zip(*scales)
    attrs = {"mode": mode, "coordinates": coordinates, "rounding": "floor", "cubic": -0.75, "axes": (2, 3)}
    return {**attrs, "sizes": sizes, "numerators": up, "denominators": down}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_resize(mode: str, coordinates: str) -> None:
    """Lanes at rounded fractions within the ends of a row."""
    attrs = resized(mode, coordinates, (2, 1), (3, 2), sizes=(10, 13))
    model = build(ResizeOp, TensorType.of((sym("N"), 2, 5, 9), dt.F32), **attrs)
    judged(model, {"x": values((2, 2, 5, 9))}, "tile", "interpreter")


@CHECK
def test_compiled_resize() -> None:
    attrs = resized("linear", "half_pixel", (2, 1), (2, 1), sizes=(2 * sym("H"), 600))
    model = build(ResizeOp, TensorType.of((2, 2, sym("H"), 300), dt.F16), around=False, **attrs)
    judged(model, {"x": values((2, 2, 3, 300), dt.F16)}, "check")


def test_symbolic_height_and_width() -> None:
    attrs = window((3, 3), (2, 2), (1, 1, 1, 1), (1, 1))
    model = build(MaxPoolOp, TensorType.of((1, 4, sym("H"), sym("W")), dt.F32), ceil_mode=False, **attrs)
    judged(model, {"x": values((1, 4, 13, 300))}, "tile", "interpreter")
    judged(model, {"x": values((1, 4, 2, 1), seed=1)}, "interpreter")


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((6, 11, 9), (3, 3), {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}),
        ((6, 12, 20), (5, 3), {"strides": (2, 2), "pads": (2, 1, 2, 1), "dilations": (1, 2)}),
        ((6, 40), (5,), {"strides": (3,), "pads": (2, 1), "dilations": (2,)}),
    ],
)
@pytest.mark.parametrize("kind", [dt.F32, dt.F16])
def test_depthwise_convolution(shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], kind: dt.DType) -> None:
    weights = values((6, 1, *kernel), kind, 1), values((6,), kind, 2)
    model = build(ConvOp, TensorType.of((sym("N"), *shape), kind), *weights, groups=6, **attrs)
    judged(model, {"x": values((2, *shape), kind)}, "tile", "interpreter")


@CHECK
def test_compiled_depthwise_convolution() -> None:
    """Strided lanes under a guard, weights as a column, one kernel with its neighbours."""
    attrs = {"strides": (2, 2), "pads": (2, 1, 2, 1), "dilations": (1, 2), "groups": 6}
    model = build(ConvOp, TensorType.of((sym("N"), 6, 12, 20), dt.F16), values((6, 1, 5, 3), dt.F16, 1), **attrs)
    fused = judged(model, {"x": values((2, 6, 12, 20), dt.F16)}, "check")
    assert len(fused.kernels) == 1


@settings(max_examples=15, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.data())
def test_random_windows(data: st.DataObject) -> None:
    small = st.integers(1, 3)
    n = data.draw(st.integers(1, 2))
    kernel, strides, dilations = (tuple(data.draw(small) for _ in range(n)) for _ in range(3))
    pads = tuple(data.draw(st.integers(0, (kernel[i % n] - 1) * dilations[i % n])) for i in range(2 * n))
    size = tuple((k - 1) * d + data.draw(st.integers(4, 9)) for k, d in zip(kernel, dilations))
    attrs = {"strides": strides, "pads": pads, "dilations": dilations}
    what = data.draw(st.sampled_from(("max", "average", "conv")))
    around = data.draw(st.booleans())
    x = TensorType.of((2, 3, *size), dt.F32)
    if what == "conv":
        model = build(ConvOp, x, values((3, 1, *kernel), seed=1), groups=3, around=around, **attrs)
    else:
        attrs |= {"kernel": kernel, "ceil_mode": data.draw(st.booleans())}
        more = {"count_include_pad": data.draw(st.booleans())} if what == "average" else {}
        model = build(MaxPoolOp if what == "max" else AveragePoolOp, x, around=around, **attrs, **more)
    judged(model, {"x": values((2, 3, *size))}, "tile", "interpreter")
