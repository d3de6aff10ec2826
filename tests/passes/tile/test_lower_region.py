# SPDX-License-Identifier: Apache-2.0
"""What `lower_region` emits: tile kernels that mean the same as their region, for the less common shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import ExpandOp, ReshapeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp, SliceOp
from gaf.dialects.graph.ops.unary import ExpOp, SigmoidOp
from gaf.dialects.graph.types import TensorType
from gaf.passes.tile import lower_region


def model(inputs: dict[str, tuple[tuple[int | str, ...], dt.DType]], build: Callable[..., list[SSAValue]]) -> Model:
    made = new_model([(n, TensorType.of(s, d)) for n, (s, d) in inputs.items()])

    def add(op: type, *operands: SSAValue, **attrs: object) -> SSAValue:
        one = op.make(operands, attrs)
        made.block.add_op(one)
        return one.results[0]

    outputs = build(add, *made.block.args)
    return finish(made, [(f"y{i}", v) for i, v in enumerate(outputs)])


def overwritten(add: Callable[..., SSAValue], x: SSAValue) -> SSAValue:
    """Edges of [4, 5, 6] replaced by other rows, again and again: choices of choices."""
    shape = (4, 5, 6)
    for axis in (2, 1):
        size = shape[axis]
        for to, source in ((0, size - 2), (size - 1, 1)):
            parts = [(0, to), (source, 1), (to + 1, size - to - 1)]
            cut = [
                add(
                    SliceOp,
                    x,
                    starts=tuple(start if i == axis else 0 for i in range(3)),
                    sizes=tuple(length if i == axis else d for i, d in enumerate(shape)),
                    steps=(1, 1, 1),
                )
                for start, length in parts
                if length
            ]
            x = add(ConcatOp, *cut, axis=axis)
    return x


CASES: dict[str, Model] = {
    "sum of matmuls of different rows and depths": model(
        {"x": (("M", 20), dt.F32), "w": ((20, 30), dt.F32), "h": (("M", 12), dt.F32), "u": ((12, 30), dt.F32)},
        lambda add, x, w, h, u: [add(SigmoidOp, add(AddOp, add(MatMulOp, x, w), add(MatMulOp, h, u)))],
    ),
    "difference of matmuls by one matrix": model(
        {"x": (("M", 20), dt.F32), "h": (("M", 20), dt.F32), "w": ((20, 20), dt.F32)},
        lambda add, x, h, w: [add(SubOp, add(MatMulOp, x, w), add(MatMulOp, h, w))],
    ),
    "an expanded mask is an output beside what uses it": model(
        {"x": (("B", "S", 48), dt.F32), "mask": (("B", "S"), dt.I64)},
        lambda add, x, mask: [
            m := add(CastOp, add(ExpandOp, add(UnsqueezeOp, mask, axes=(2,)), shape=("B", "S", 48)), to=dt.F32),
            add(MulOp, x, m),
        ],
    ),
    "masked mean over the middle axis": model(
        {"x": (("B", "S", 40), dt.F32), "mask": (("B", "S"), dt.I64)},
        lambda add, x, mask: [
            add(ReduceSumOp, add(MulOp, x, add(CastOp, add(UnsqueezeOp, mask, axes=(2,)), to=dt.F32)), axes=(1,), keepdims=False)
        ],
    ),
    "everything folds into one element": model(
        {"x": (("B", "S", 40), dt.F32)}, lambda add, x: [add(ReduceSumOp, add(ExpOp, x), axes=(0, 1, 2), keepdims=False)]
    ),
    "rows looked up twice and added": model(
        {"table": ((20, 24), dt.F32), "ids": (("B", "S"), dt.I64), "kinds": (("B", "S"), dt.I64)},
        lambda add, table, ids, kinds: [
            add(AddOp, add(GatherOp, table, ids, axis=0, wrap=True), add(GatherOp, table, kinds, axis=0, wrap=True))
        ],
    ),
    "a matmul block with ragged columns and a column operand": model(
        {"x": (("M", 20), dt.F32), "w": ((20, 30), dt.F32), "c": (("M", 1), dt.F32)},
        lambda add, x, w, c: [add(MulOp, add(MatMulOp, x, w), add(SigmoidOp, c))],
    ),
    "heads split, transposed and stored that way": model(
        {"x": (("B", "S", 32), dt.F32), "w": ((32, 32), dt.F32)},
        lambda add, x, w: [
            add(TransposeOp, add(ReshapeOp, add(MatMulOp, x, w), shape=("B", "S", 2, 16)), perm=(0, 2, 1, 3))
        ],
    ),
}


def test_deep_regions_are_emitted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of choices are as deep as Python's stack: no recursion goes down more than STRIDE levels."""
    deepest = 0
    emit = lower_region.RegionEmitter._emit

    def watched(self: object, number: int, node: object) -> SSAValue:
        nonlocal deepest
        deepest = max(deepest, sum(f.function == "watched" for f in inspect.stack(0)))
        return emit(self, number, node)  # type: ignore[arg-type]

    monkeypatch.setattr(lower_region.RegionEmitter, "_emit", watched)
    monkeypatch.setattr(lower_region, "STRIDE", 4)
    case = model({"x": ((4, 5, 6), dt.F32)}, lambda add, x: [overwritten(add, x)])
    fused = fuse(case)
    assert fused.kernels and 1 < deepest <= 5
    x = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    assert fused.verify({"x": x}, engine="interpreter").ok


@pytest.mark.parametrize("engine", ["tile", "interpreter"])
@pytest.mark.parametrize("name", CASES)
def test_kernels_mean_what_the_graph_means(name: str, engine: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(1)
    env = {"B": 2, "S": 7, "M": 37}
    inputs = {
        n: rng.standard_normal(t.concrete(env)).astype(t.dtype.numpy) if t.dtype.is_float else rng.integers(0, 2, t.concrete(env))
        for n, t in zip(case.input_names, case.input_types)
    }
    fused = fuse(case)
    assert fused.kernels
    result = fused.verify(inputs, engine=engine)
    result.raise_if_failed()
    assert result.ok
