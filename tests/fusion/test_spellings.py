# SPDX-License-Identifier: Apache-2.0
"""Activations and norms in any spelling, with parameters of any shape, are one kernel with the right values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from gaf.dialects.graph.ops.reduce import ReduceMeanOp, ReduceSumOp
from gaf.dialects.graph.ops.shape import ReshapeOp
from gaf.dialects.graph.ops.unary import ErfOp, ExpOp, LogOp, NegOp, ReciprocalOp, ReluOp, RsqrtOp, SigmoidOp, SqrtOp, TanhOp
from tests.fusion.helpers import Net

Build = Callable[[Net, SSAValue], SSAValue]
ROOT = 2.0**0.5


def gelu_of_half(n: Net, x: SSAValue) -> SSAValue:
    """(x / 2) * (1 + erf(x * 1/sqrt 2))"""
    inner = n.op(AddOp, n.constant(1.0), n.op(ErfOp, n.op(MulOp, x, n.constant(1 / ROOT))))
    return n.op(MulOp, n.op(DivOp, x, n.constant(2.0)), inner)


def gelu_expanded(n: Net, x: SSAValue) -> SSAValue:
    """x / 2 + x / 2 * erf(x / sqrt 2)"""
    half = n.op(MulOp, x, n.constant(0.5))
    return n.op(AddOp, half, n.op(MulOp, half, n.op(ErfOp, n.op(DivOp, x, n.constant(ROOT)))))


def gelu_by_power(n: Net, x: SSAValue) -> SSAValue:
    cubic = n.op(MulOp, n.op(PowOp, x, n.constant(3.0)), n.constant(0.044715))
    inner = n.op(TanhOp, n.op(MulOp, n.constant(0.7978845608), n.op(AddOp, x, cubic)))
    return n.op(MulOp, n.op(MulOp, n.constant(0.5), x), n.op(AddOp, n.constant(1.0), inner))


def gelu_by_sigmoid(n: Net, x: SSAValue) -> SSAValue:
    """The tanh form as x * sigmoid(2 y)"""
    square = n.op(AddOp, n.op(MulOp, n.op(MulOp, x, x), n.constant(0.0713548)), n.constant(1.5957691))
    return n.op(MulOp, x, n.op(SigmoidOp, n.op(MulOp, x, square)))


def quick_gelu(n: Net, x: SSAValue) -> SSAValue:
    return n.op(DivOp, x, n.op(AddOp, n.constant(1.0), n.op(ExpOp, n.op(MulOp, x, n.constant(-1.702)))))


def silu_by_quotient(n: Net, x: SSAValue) -> SSAValue:
    return n.op(MulOp, x, n.op(ReciprocalOp, n.op(AddOp, n.op(ExpOp, n.op(NegOp, x)), n.constant(1.0))))


def mish(n: Net, x: SSAValue) -> SSAValue:
    return n.op(MulOp, x, n.op(TanhOp, n.op(LogOp, n.op(AddOp, n.op(ExpOp, x), n.constant(1.0)))))


def mish_by_powers(n: Net, x: SSAValue) -> SSAValue:
    """tanh(log(1 + e)) as ((1 + e)^2 - 1) / ((1 + e)^2 + 1)"""
    square = n.op(PowOp, n.op(AddOp, n.op(ExpOp, x), n.constant(1.0)), n.constant(2.0))
    one = n.constant(1.0)
    return n.op(MulOp, x, n.op(DivOp, n.op(SubOp, square, one), n.op(AddOp, square, one)))


def hard_swish(n: Net, x: SSAValue) -> SSAValue:
    clipped = n.op(MinOp, n.op(ReluOp, n.op(AddOp, x, n.constant(3.0))), n.constant(6.0))
    return n.op(DivOp, n.op(MulOp, x, clipped), n.constant(6.0))


def hard_swish_scaled(n: Net, x: SSAValue) -> SSAValue:
    inner = n.op(AddOp, n.op(MulOp, x, n.constant(1 / 6)), n.constant(0.5))
    return n.op(MulOp, x, n.op(MaxOp, n.op(MinOp, inner, n.constant(1.0)), n.constant(0.0)))


ACTIVATIONS: list[Build] = [
    gelu_of_half, gelu_expanded, gelu_by_power, gelu_by_sigmoid, quick_gelu, silu_by_quotient, mish, mish_by_powers,
    hard_swish, hard_swish_scaled,
]  # fmt: skip


def one_kernel(n: Net, y: SSAValue, **shapes: Sequence[int]) -> None:
    fused = fuse(n.finish(y))
    assert len(fused.fused_ops) == 1 and not fused.fallbacks, str(fused.model.module)
    rng = np.random.default_rng(0)
    result = fused.verify({k: rng.standard_normal(s).astype(np.float32) * 2 + 0.5 for k, s in shapes.items()}, engine="interpreter")
    assert result.ok, result


@pytest.mark.parametrize("build", ACTIVATIONS, ids=lambda b: b.__name__)
def test_activations(build: Build) -> None:
    n = Net(x=[9, 70])
    one_kernel(n, build(n, n["x"]), x=[9, 70])


# -- norms ------------------------------------------------------------------------------------------


def two_pass(n: Net, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    centred = n.op(SubOp, x, n.op(ReduceMeanOp, x, axes=axes, keepdims=True))
    variance = n.op(ReduceMeanOp, n.op(PowOp, centred, n.constant(2.0)), axes=axes, keepdims=True)
    return n.op(MulOp, centred, n.op(RsqrtOp, n.op(AddOp, variance, n.constant(1e-5))))


def squares_minus_square(n: Net, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """E[x^2] - E[x]^2, clipped at 0"""
    mean = n.op(ReduceMeanOp, x, axes=axes, keepdims=True)
    square = n.op(ReduceMeanOp, n.op(MulOp, x, x), axes=axes, keepdims=True)
    variance = n.op(MaxOp, n.op(SubOp, square, n.op(MulOp, mean, mean)), n.constant(0.0))
    return n.op(DivOp, n.op(SubOp, x, mean), n.op(SqrtOp, n.op(AddOp, variance, n.constant(1e-5))))


def sums(n: Net, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Sums divided by counts, negated differences, a power of -1/2"""
    shape = [d.as_int() or 0 for d in x.type.shape]  # type: ignore[attr-defined]
    count = n.constant(float(np.prod([shape[a] for a in axes])))
    mean = n.op(DivOp, n.op(ReduceSumOp, x, axes=axes, keepdims=True), count)
    centred = n.op(SubOp, mean, x)
    variance = n.op(DivOp, n.op(ReduceSumOp, n.op(MulOp, centred, centred), axes=axes, keepdims=True), count)
    return n.op(NegOp, n.op(MulOp, centred, n.op(PowOp, n.op(AddOp, variance, n.constant(1e-5)), n.constant(-0.5))))


def rms(n: Net, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    square = n.op(ReduceMeanOp, n.op(PowOp, x, n.constant(2.0)), axes=axes, keepdims=True)
    return n.op(DivOp, x, n.op(SqrtOp, n.op(AddOp, square, n.constant(1e-6))))


NORMS = [two_pass, squares_minus_square, sums, rms]


@pytest.mark.parametrize("norm", NORMS, ids=lambda b: b.__name__)
@pytest.mark.parametrize(
    "shape, axes, parameter",
    [
        ([6, 40], (1,), [40]), ([6, 40], (1,), [1, 40]), ([6, 40], (-1,), []), ([6, 40], (1,), [1]), ([6, 40], (1,), [6, 1]),
        ([2, 5, 6, 7], (2, 3), [5, 1, 1]), ([2, 5, 6, 7], (1, 2, 3), [5, 1, 1]), ([2, 5, 6, 7], (2, 3), [1, 5, 1, 1]),
        ([2, 5, 6, 7], (1,), [5, 1, 1]),
    ],
    ids=str,
)  # fmt: skip
def test_norms(norm: Callable[..., SSAValue], shape: Sequence[int], axes: Sequence[int], parameter: Sequence[int]) -> None:
    """Layer, instance and channels-first norms, with a scale and a bias that aren't constants."""
    n = Net(x=shape, g=parameter, b=parameter)
    axes = [a % len(shape) for a in axes]
    y = n.op(AddOp, n.op(MulOp, norm(n, n["x"], axes), n["g"]), n["b"])
    one_kernel(n, y, x=shape, g=parameter, b=parameter)


@pytest.mark.parametrize("norm", NORMS[:3], ids=lambda b: b.__name__)
@pytest.mark.parametrize("parameter", [[1, 6, 1, 1], [6, 1, 1], [1]], ids=str)
def test_group_norms(norm: Callable[..., SSAValue], parameter: Sequence[int]) -> None:
    """Six channels in two groups: a reshape there and back around the norm."""
    n = Net(x=[2, 6, 5, 7], g=parameter, b=parameter)
    apart = n.op(ReshapeOp, n["x"], shape=(2, 2, 3 * 5 * 7))
    back = n.op(ReshapeOp, norm(n, apart, [2]), shape=(2, 6, 5, 7))
    y = n.op(AddOp, n.op(MulOp, back, n["g"]), n["b"])
    one_kernel(n, y, x=[2, 6, 5, 7], g=parameter, b=parameter)
