# SPDX-License-Identifier: Apache-2.0
"""BatchNorm, in any spelling, in constant weights: against float64, with look-alikes that must stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.interpreter import run_model
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp, SubOp
from gaf.dialects.graph.ops.channel_norm import BatchNormOp
from gaf.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.unary import ReluOp
from gaf.passes.pipeline import run_pipeline
from tests.fusion.helpers import Net

RNG = np.random.default_rng(7)


def vector(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def conv(n: Net, x: Any, channels: int = 6, bias: bool = True, groups: int = 1, kind: dt.DType = dt.F32) -> Any:
    w = n.constant(vector(channels, 4 // groups, 3, 3), kind)
    operands = [x, w] + ([n.constant(vector(channels), kind)] if bias else [])
    return n.op(ConvOp, *operands, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=groups)


def batch_norm(n: Net, x: Any, channels: int = 6, kind: dt.DType = dt.F32) -> Any:
    parameters = [vector(channels), vector(channels), vector(channels), np.abs(vector(channels)) + 0.1]
    return n.op(BatchNormOp, x, *(n.constant(p, kind) for p in parameters), epsilon=1e-5)


def spelled(n: Net, x: Any, shape: tuple[int, ...], kind: dt.DType = dt.F32) -> Any:
    """(x - mean) / deviation * scale + bias with four constants."""
    x = n.op(SubOp, x, n.constant(vector(*shape), kind))
    x = n.op(DivOp, x, n.constant(np.abs(vector(*shape)) + 0.5, kind))
    x = n.op(MulOp, n.constant(vector(*shape), kind), x)
    return n.op(AddOp, x, n.constant(vector(*shape), kind))


def check(n: Net, output: Any, left: set[type]) -> Model:
    """Fold; the ops that are left, and the same values as in float64."""
    model = n.finish(output)
    folded = model.clone()
    run_pipeline(folded.module, "fold-batch-norm,canonicalize,dce")
    kinds = {type(op) for op in folded.block.ops if op.operands and op.results}
    assert kinds == left
    inputs = {k: RNG.normal(size=[3 if d == "N" else d for d in shape]).astype(np.float32) for k, shape in n_shapes(n).items()}
    before, after = (run_model(m, inputs, wide=True) for m in (model, folded))
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=2e-5, atol=2e-5)
    return folded


def n_shapes(n: Net) -> dict[str, list[Any]]:
    from gaf.dialects.graph.contract import tensor_type

    return {k: [d.as_int() or "N" for d in tensor_type(v).shape] for k, v in n.values.items()}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(bias: bool, groups: int) -> None:
    n = Net(x=["N", 4, 5, 7])
    check(n, batch_norm(n, conv(n, n["x"], bias=bias, groups=groups)), {ConvOp})


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (1,), ()], ids=str)
def test_any_spelling(shape: tuple[int, ...]) -> None:
    n = Net(x=["N", 4, 5, 7])
    check(n, n.op(ReluOp, spelled(n, conv(n, n["x"]), shape)), {ConvOp, ReluOp})


def test_transposed_convolution() -> None:
    n = Net(x=[2, 4, 5, 7])
    w, b = n.constant(vector(4, 6, 3, 3)), n.constant(vector(6))
    y = n.op(ConvTransposeOp, n["x"], w, b, strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1,
             output_padding=(0, 0))  # fmt: skip
    check(n, batch_norm(n, y), {ConvTransposeOp})


def test_linear() -> None:
    n = Net(x=["N", 8])
    y = n.op(AddOp, n.op(MatMulOp, n["x"], n.constant(vector(8, 6))), n.constant(vector(6)))
    check(n, batch_norm(n, y), {MatMulOp, AddOp})


def test_shared_weights_are_copied() -> None:
    """Two convolutions with one weight, one of them normalised: the other keeps its values."""
    n = Net(x=[2, 4, 5, 7])
    w = n.constant(vector(6, 4, 3, 3))
    attrs: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    a, b = n.op(ConvOp, n["x"], w, **attrs), n.op(ConvOp, n["x"], w, **attrs)
    check(n, n.op(AddOp, batch_norm(n, a), b), {ConvOp, AddOp})


def test_look_alikes_stay() -> None:
    n = Net(x=[2, 4, 6, 6])
    y = conv(n, n["x"])
    check(n, n.op(MulOp, y, n.constant(vector(6))), {ConvOp, MulOp})  # along the width, not the channels
    n = Net(x=[2, 4, 6, 6])
    y = conv(n, n["x"])
    check(n, n.op(AddOp, batch_norm(n, y), y), {ConvOp, BatchNormOp, AddOp})  # read by another op as well
    n = Net(x=[2, 4, 6, 6], s=[6, 1, 1])
    check(n, n.op(MulOp, conv(n, n["x"]), n["s"]), {ConvOp, MulOp})  # not a constant
    n = Net(x=[2, 4, 6, 6])
    check(n, n.op(DivOp, n.constant(vector(6, 1, 1)), conv(n, n["x"])), {ConvOp, DivOp})  # a reciprocal
    n = Net(x=[2, 5, 8])  # channels of the norm are rows of the matmul
    y = n.op(MatMulOp, n["x"], n.constant(vector(8, 6)))
    check(n, batch_norm(n, y, 5), {MatMulOp, BatchNormOp})
    n = Net(x=[2, 4, 6, 6])
    check(n, n.op(ReluOp, n.op(AddOp, conv(n, n["x"]), n.constant(vector(6, 1, 1)))), {ConvOp, AddOp, ReluOp})


def test_weights_that_would_overflow_stay() -> None:
    n = Net(dt.F16, x=[1, 4, 5, 5])
    y = n.op(MulOp, conv(n, n["x"], kind=dt.F16), n.constant(np.full((6, 1, 1), 60000.0), dt.F16))
    model = n.finish(n.op(MulOp, y, n.constant(60000.0, dt.F16)))
    run_pipeline(model.module, "fold-batch-norm")
    assert sum(isinstance(op, MulOp) for op in model.block.ops) == 2


def test_switches() -> None:
    def launched(**options: Any) -> list[str]:
        n = Net(x=[2, 4, 5, 7])
        fused = gaf.fuse(n.finish(batch_norm(n, conv(n, n["x"]))), gaf.FusionConfig(**options))
        return [op.name for f in fused.fused_ops for op in f.members] + [op.name for op in fused.host_ops]

    assert "graph.batch_norm" not in launched()
    assert "graph.batch_norm" in launched(disabled_rules=("fold-batch-norm",))
    assert "graph.batch_norm" in launched(numerics="strict")
    assert "graph.batch_norm" in launched(enable_autofuse=False)
