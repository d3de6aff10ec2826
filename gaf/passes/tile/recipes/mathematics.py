# SPDX-License-Identifier: Apache-2.0
"""Recipes of functions of one operand: instructions, device-library calls, and short chains of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import counts
from gaf.dialects.ascendc import rows as r
from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.attributes import RoundMode
from gaf.dialects.common import dtype as dt
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Chain, Kinds, Recipe, Scratch, step


class Mathematics(Recipe):
    """A function of the high-level mathematics API: needs bytes of scratch, and memory of its own."""

    def __init__(self, op: type[counts.MathOp]) -> None:
        self.op = op

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, self.op.tmp_bytes(form.elements))]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(self.op, dst, args[0].value, tmp[0], count=calls.count)


class Root(Recipe):
    """1 / x or 1 / sqrt(x) in full precision: the single instructions are approximations."""

    def __init__(self, op: type[r._RootOp]) -> None:
        self.op = op

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.F32, form.elements)]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0,)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(self.op, dst, args[0].value, tmp[0], count=calls.count)


class Sigmoid(Recipe):
    """1 / (1 + exp(-x)): exp overflows to inf for x < -88, and 1 / inf is the right 0."""

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.F32, form.elements)]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0,)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        n = calls.count
        calls.call(v.MulsOp, dst, args[0].value, scalar=-1, count=n)
        calls.call(v.ExpOp, dst, dst, count=n)
        calls.call(v.AddsOp, dst, dst, scalar=1, count=n)
        calls.call(counts.Recip1Op, dst, dst, tmp[0], count=n)


RECIPES: dict[str, Recipe] = {
    "neg": Chain(step(v.MulsOp, scalar=-1)),
    "abs": Chain(step(v.AbsOp)),
    "exp": Chain(step(v.ExpOp)),
    "log": Chain(step(v.LnOp)),
    "sqrt": Chain(step(v.SqrtOp)),
    "relu": Chain(step(v.ReluOp)),
    "floor": Chain(step(counts.RoundToOp, mode=RoundMode.FLOOR)),
    "ceil": Chain(step(counts.RoundToOp, mode=RoundMode.CEIL)),
    "rint": Chain(step(counts.RoundToOp, mode=RoundMode.RINT)),
    "trunc": Chain(step(counts.RoundToOp, mode=RoundMode.TRUNC)),
    "not": Chain(step(v.MulsOp, scalar=-1), step(v.AddsOp, scalar=1)),
    "rsqrt": Root(counts.Rsqrt1Op),
    "reciprocal": Root(counts.Recip1Op),
    "sigmoid": Sigmoid(),
    "tanh": Mathematics(counts.Tanh1Op),
    "erf": Mathematics(counts.Erf1Op),
    "sin": Mathematics(counts.Sin1Op),
    "cos": Mathematics(counts.Cos1Op),
    "tan": Mathematics(counts.Tan1Op),
    "atan": Mathematics(counts.Atan1Op),
}
