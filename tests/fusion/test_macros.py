# SPDX-License-Identifier: Apache-2.0
"""Macros are found in any spelling, and look-alikes are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MulOp, PowOp, SubOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from gaf.dialects.graph.ops.unary import ErfOp, ExpOp, ReciprocalOp, SigmoidOp, SqrtOp, TanhOp
from gaf.fusion.cost import sizes
from gaf.fusion.macros import find_macros
from gaf.fusion.opgraph import OpGraph
from tests.fusion.helpers import Net

SIZE = 40


def mean(n: Net, x: SSAValue) -> SSAValue:
    return n.op(ReduceMeanOp, x, axes=(-1,), keepdims=True)


def moments(n: Net, x: SSAValue, epsilon: float = 1e-5) -> SSAValue:
    """LayerNorm by E[x^2] - E[x]^2, multiplied with the reciprocal, without scale and bias."""
    m = mean(n, x)
    variance = n.op(SubOp, mean(n, n.op(MulOp, x, x)), n.op(MulOp, m, m))
    inverse = n.op(ReciprocalOp, n.op(SqrtOp, n.op(AddOp, variance, n.constant(epsilon))))
    return n.op(MulOp, n.op(SubOp, x, m), inverse)


def rms(n: Net, x: SSAValue) -> SSAValue:
    square = mean(n, n.op(PowOp, x, n.constant(2.0)))
    scaled = n.op(DivOp, x, n.op(SqrtOp, n.op(AddOp, square, n.constant(1e-6))))
    return n.op(MulOp, scaled, n.constant(np.linspace(0.5, 1.5, SIZE)))


def softmax(n: Net, x: SSAValue, shifted: bool = True) -> SSAValue:
    y = n.op(SubOp, x, n.op(ReduceMaxOp, x, axes=(-1,), keepdims=True)) if shifted else x
    e = n.op(ExpOp, y)
    return n.op(DivOp, e, n.op(ReduceSumOp, e, axes=(-1,), keepdims=True))


def gelu(n: Net, x: SSAValue, half: float = 0.5) -> SSAValue:
    inner = n.op(AddOp, n.op(ErfOp, n.op(DivOp, x, n.constant(2.0**0.5))), n.constant(1.0))
    return n.op(MulOp, n.op(MulOp, x, inner), n.constant(half))


def gelu_tanh(n: Net, x: SSAValue) -> SSAValue:
    cubic = n.op(MulOp, n.op(MulOp, n.op(MulOp, x, x), x), n.constant(0.044715))
    inner = n.op(TanhOp, n.op(MulOp, n.op(AddOp, x, cubic), n.constant((2 / np.pi) ** 0.5)))
    return n.op(MulOp, n.op(MulOp, n.op(AddOp, inner, n.constant(1.0)), x), n.constant(0.5))


def silu(n: Net, x: SSAValue) -> SSAValue:
    return n.op(MulOp, x, n.op(SigmoidOp, x))


# look-alikes


def l2_norm(n: Net, x: SSAValue) -> SSAValue:
    """The sum of squares instead of the mean."""
    total = n.op(ReduceSumOp, n.op(MulOp, x, x), axes=(-1,), keepdims=True)
    scaled = n.op(DivOp, x, n.op(SqrtOp, n.op(AddOp, total, n.constant(1e-6))))
    return n.op(MulOp, scaled, n.constant(np.linspace(0.5, 1.5, SIZE)))


def unbiased(n: Net, x: SSAValue) -> SSAValue:
    """The variance divided by n - 1."""
    centred = n.op(SubOp, x, mean(n, x))
    total = n.op(ReduceSumOp, n.op(MulOp, centred, centred), axes=(-1,), keepdims=True)
    return n.op(DivOp, centred, n.op(SqrtOp, n.op(DivOp, total, n.constant(SIZE - 1.0))))


def around_max(n: Net, x: SSAValue) -> SSAValue:
    """The variance around the maximum, not around the mean."""
    below = n.op(SubOp, x, n.op(ReduceMaxOp, x, axes=(-1,), keepdims=True))
    return n.op(DivOp, n.op(SubOp, x, mean(n, x)), n.op(SqrtOp, mean(n, n.op(MulOp, below, below))))


def half_softmax(n: Net, x: SSAValue) -> SSAValue:
    """Divided by twice the sum."""
    e = n.op(ExpOp, x)
    total = n.op(MulOp, n.op(ReduceSumOp, e, axes=(-1,), keepdims=True), n.constant(2.0))
    return n.op(DivOp, e, total)


def clipped_gelu(n: Net, x: SSAValue) -> SSAValue:
    return gelu(n, n.op(MaxOp, x, n.constant(-1.0)), 0.4)


Build = Callable[[Net, SSAValue], SSAValue]


def found(build: Build) -> list[str]:
    n = Net(x=["B", "S", SIZE])
    model = n.finish(build(n, n["x"]))
    return [
        m.name for m in find_macros(OpGraph(model.block), sizes(None)) if m.name not in ("Linear", "Gate")
    ]


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda n, x: n.layer_norm(x, SIZE), "LayerNorm"),
        (moments, "LayerNorm"),
        (rms, "RMSNorm"),
        (softmax, "Softmax"),
        (lambda n, x: softmax(n, x, False), "Softmax"),
        (gelu, "Gelu"),
        (gelu_tanh, "Gelu"),
        (silu, "Silu"),
    ],
)
def test_any_spelling_is_found(build: Build, name: str) -> None:
    assert found(build) == [name]


@pytest.mark.parametrize(
    "build", [l2_norm, unbiased, around_max, half_softmax, clipped_gelu, lambda n, x: gelu(n, x, 0.25)]
)
def test_look_alikes_are_not(build: Build) -> None:
    assert found(build) == []


def test_a_value_that_is_read_elsewhere_belongs_to_no_macro() -> None:
    n = Net(x=["B", SIZE])
    e = n.op(ExpOp, n["x"])
    y = n.op(DivOp, e, n.op(ReduceSumOp, e, axes=(-1,), keepdims=True))
    model = n.finish(y, e)
    assert find_macros(OpGraph(model.block), sizes(None)) == []


def test_linear_takes_its_bias_and_gate_its_activation() -> None:
    n = Net(x=["B", SIZE], g=["B", SIZE])
    y = n.linear(n["x"], SIZE, 16)
    z = n.op(MulOp, n["x"], n.op(SigmoidOp, n["g"]))
    model = n.finish(y, z)
    macros = {m.name: len(m.ops) for m in find_macros(OpGraph(model.block), sizes(None))}
    assert macros == {"Linear": 2, "Gate": 2}
