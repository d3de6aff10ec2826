# SPDX-License-Identifier: Apache-2.0
"""What `lower_region` emits: tile kernels that mean the same as their region, for the less common shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import ExpandOp, ReshapeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.unary import ExpOp, SigmoidOp
from gaf.dialects.graph.types import TensorType


def model(inputs: dict[str, tuple[tuple[int | str, ...], dt.DType]], build: Callable[..., list[SSAValue]]) -> Model:
    made = new_model([(n, TensorType.of(s, d)) for n, (s, d) in inputs.items()])

    def add(op: type, *operands: SSAValue, **attrs: object) -> SSAValue:
        one = op.make(operands, attrs)
        made.block.add_op(one)
        return one.results[0]

    outputs = build(add, *made.block.args)
    return finish(made, [(f"y{i}", v) for i, v in enumerate(outputs)])


CASES: dict[str, Model] = {
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
