# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the cube: windows laid out by the vector cores, a matmul, and the epilogue in one kernel."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import sym
from gaf.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from gaf.dialects.graph.types import TensorType
from tests.passes.tile.windows import CHECK, build, judged, values


def attributes(n: int, strides: int = 1, pads: int = 0, dilations: int = 1, groups: int = 1) -> dict[str, Any]:
    lists = {"strides": (strides,) * n, "pads": (pads,) * 2 * n, "dilations": (dilations,) * n}
    return {**lists, "groups": groups}


CASES = {
    "point": ((16, 12, 10), (32, 16, 1, 1), attributes(2)),
    "point with a stride": ((16, 12, 10), (32, 16, 1, 1), attributes(2, strides=2)),
    "padded": ((16, 12, 10), (32, 16, 3, 3), attributes(2, pads=1)),
    "valid": ((16, 12, 10), (32, 16, 3, 3), attributes(2)),
    "stem": ((3, 32, 32), (8, 3, 7, 7), attributes(2, strides=2, pads=3)),
    "patches": ((3, 32, 32), (8, 3, 16, 16), attributes(2, strides=16)),
    "groups": ((8, 14, 15), (12, 4, 3, 3), attributes(2, pads=1, groups=2)),
    "multiplied channels": ((4, 14, 15), (12, 1, 3, 3), attributes(2, pads=1, groups=4)),
    "one dim": ((4, 40), (12, 4, 5), attributes(1, pads=2, dilations=2)),
    "three dims": ((4, 5, 6, 7), (6, 4, 3, 3, 3), attributes(3, pads=1)),
    "wide": ((4, 5, 300), (8, 4, 3, 3), attributes(2, pads=1)),
    "one channel": ((4, 12, 10), (1, 4, 3, 3), attributes(2, pads=1)),
    "whole image": ((16, 3, 3), (32, 16, 3, 3), attributes(2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("around", [False, True])
def test_convolutions(name: str, around: bool) -> None:
    shape, weights, attrs = CASES[name]
    w, b = values(weights, seed=1), values(weights[:1], seed=2)
    model = build(ConvOp, TensorType.of((sym("N"), *shape), dt.F32), w, b, around=around, **attrs)
    fused = judged(model, {"x": values((2, *shape))}, "tile", "interpreter")
    assert len(fused.kernels) <= 2  # a sigmoid or relu of the neighbours may be cheaper apart


@CHECK
@pytest.mark.parametrize(("name", "kind"), [("padded", dt.F32), ("stem", dt.F16), ("groups", dt.BF16)])
def test_compiled_convolutions(name: str, kind: dt.DType) -> None:
    shape, weights, attrs = CASES[name]
    w, b = values(weights, kind, seed=1), values(weights[:1], kind, seed=2)
    model = build(ConvOp, TensorType.of((sym("N"), *shape), kind), w, b, around=False, **attrs)
    judged(model, {"x": values((2, *shape), kind)}, "check")


TRANSPOSED = {
    "doubled": ((4, 5, 6), (4, 6, 2, 2), attributes(2, strides=2), (0, 0)),
    "overlapping": ((4, 5, 6), (4, 3, 4, 4), attributes(2, strides=2, pads=1, groups=2), (0, 1)),
    "dilated": ((3, 20), (3, 5, 3), attributes(1, strides=3, dilations=2), (2,)),
    "same size": ((3, 6, 7), (3, 2, 3, 3), attributes(2, pads=1), (0, 0)),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str) -> None:
    shape, weights, attrs, extra = TRANSPOSED[name]
    w, b = values(weights, seed=1), values((weights[1] * attrs["groups"],), seed=2)
    x = TensorType.of((sym("N"), *shape), dt.F32)
    model = build(ConvTransposeOp, x, w, b, around=False, output_padding=extra, **attrs)
    fused = judged(model, {"x": values((2, *shape))}, "tile", "interpreter")
    assert len(fused.kernels) == 1


@CHECK
def test_compiled_transposed_convolution() -> None:
    """Lanes at rounded fractions under a guard."""
    shape, weights, attrs, extra = TRANSPOSED["overlapping"]
    x = TensorType.of((sym("N"), *shape), dt.F16)
    model = build(ConvTransposeOp, x, values(weights, dt.F16, 1), around=False, output_padding=extra, **attrs)
    judged(model, {"x": values((2, *shape), dt.F16)}, "check")


def test_symbolic_height_and_width() -> None:
    w = values((8, 4, 3, 3), seed=1)
    x = TensorType.of((1, 4, sym("H"), sym("W")), dt.F32)
    model = build(ConvOp, x, w, around=False, **attributes(2, strides=2, pads=1))
    judged(model, {"x": values((1, 4, 13, 37))}, "tile", "interpreter")


@settings(max_examples=10, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.data())
def test_random_convolutions(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 2))
    kernel, strides, dilations = (tuple(data.draw(st.integers(1, 3)) for _ in range(n)) for _ in range(3))
    pads = tuple(data.draw(st.integers(0, 2)) for _ in range(2 * n))
    groups, inside, outside = (data.draw(st.integers(1, k)) for k in (2, 5, 20))
    size = tuple((k - 1) * d + data.draw(st.integers(1, 9)) for k, d in zip(kernel, dilations))
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    x = TensorType.of((sym("N"), groups * inside, *size), dt.F32)
    weights = values((groups * outside, inside, *kernel), seed=1), values((groups * outside,), seed=2)
    model = build(ConvOp, x, *weights, around=data.draw(st.booleans()), **attrs)
    fused = fuse(model)
    inputs = {"x": values((data.draw(st.integers(1, 2)), groups * inside, *size))}
    for engine in ("tile", "interpreter"):
        result = fused.verify(inputs, engine=engine)
        assert result.ok and not result.violations, (engine, result)
