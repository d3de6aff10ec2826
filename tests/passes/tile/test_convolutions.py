# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the cube: lines laid out by the vector cores, a matmul of windows, and the epilogue in one kernel."""

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
from gaf.fusion.nodes import Handed
from gaf.fusion.region import build_region
from gaf.fusion.stages import kernel_schedules
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
    "dilated": ((4, 14, 15), (6, 4, 3, 3), attributes(2, pads=2, dilations=2)),
    "dilated with a stride": ((4, 17, 15), (6, 4, 4, 3), attributes(2, strides=2, pads=1, dilations=3)),
    "overlapping by two": ((4, 20, 15), (6, 4, 5, 5), attributes(2, strides=3)),
    "one valid dim": ((4, 40), (12, 4, 5), attributes(1)),
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
@pytest.mark.parametrize(("name", "kind"), [("padded", dt.F32), ("stem", dt.F16), ("groups", dt.BF16), ("dilated with a stride", dt.F32)])
def test_compiled_convolutions(name: str, kind: dt.DType) -> None:
    shape, weights, attrs = CASES[name]
    w, b = values(weights, kind, seed=1), values(weights[:1], kind, seed=2)
    model = build(ConvOp, TensorType.of((sym("N"), *shape), kind), w, b, around=False, **attrs)
    judged(model, {"x": values((2, *shape), kind)}, "check", "host")


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


@pytest.mark.parametrize(
    ("name", "copies"),
    [
        ("padded", 3 * 14 * 10),  # each line once for every position along the inner dim of a window
        ("stem", 7 * 2 * 19 * 16),  # even and odd lines, as every other line is in one window
        ("one dim", 44),
        ("three dims", 3 * 3 * 7 * 6 * 7),
        ("patches", 32 * 32),  # windows that share nothing
        ("one valid dim", 0),
    ],
)
def test_windows_lie_in_memory_once_for_each_line(name: str, copies: int) -> None:
    """Elements of workspace for one channel of one image."""
    shape, weights, attrs = CASES[name]
    model = build(ConvOp, TensorType.of((1, *shape), dt.F32), values(weights), around=False, **attrs)
    (conv,) = (op for op in model.block.ops if isinstance(op, ConvOp))
    stages = kernel_schedules(build_region([conv], [conv.result]))[0].stages
    sizes = [t.type.num_elements() for stage in stages for t in stage.stores if isinstance(t, Handed)]
    assert [s.as_int() for s in sizes] == ([copies * shape[0]] if copies else [])


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
