# SPDX-License-Identifier: Apache-2.0
"""Recipes of functions that are several vector instructions: inverse and hyperbolic functions, remainders.

All of them use correctly rounded instructions (add, multiply, divide, square root) and Exp and Ln, never a
library call whose accuracy isn't documented. Polynomials are fits of our own: least squares, reweighted until
the relative error is level, of f(x) / x in x * x. `MAX_ULPS` states the largest error measured against float64,
with Exp and Ln within 1 ulp; NaN and infinities come out as numpy's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.attributes import CmpMode, RoundMode
from gaf.dialects.ascendc.counts import Compare01Op, Compare01SOp, RoundToOp, Select01Op, compare_bytes
from gaf.dialects.common import dtype as dt
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Recipe, Scratch, Spread

MAX_ULPS = {
    "sinh": 6, "cosh": 6, "asinh": 4, "acosh": 4, "atanh": 3, "asin": 3, "acos": 3, "atan2": 4, "fmod": 0, "floormod": 1,
}  # fmt: skip
"""Largest error of a recipe in units of the last place of the exact result."""

ATANH = (0.3333315849304199, 0.20012454688549042, 0.13980302214622498, 0.14089162647724152)
"""(atanh(x) / x - 1) / x^2 in x^2 for |x| <= 1/3."""

ASIN = (
    0.1666679084300995, 0.07494434714317322, 0.04555017501115799, 0.023858215659856796, 0.04263556748628616,
)  # fmt: skip
"""(asin(x) / x - 1) / x^2 in x^2 for |x| <= 1/2."""

ATAN = (
    -0.3333328366279602, 0.1999826580286026, -0.142619326710701, 0.10942026972770691, -0.08377303928136826,
    0.057551901787519455, -0.03080439753830433, 0.010726837441325188, -0.001753906486555934,
)  # fmt: skip
"""(atan(x) / x - 1) / x^2 in x^2 for |x| <= 1."""

SINH = (0.1666666716337204, 0.008333352394402027, 0.00019835813145618886, 2.818523853420629e-06)
"""(sinh(x) / x - 1) / x^2 in x^2 for |x| <= 1."""

LN2 = math.log(2)
HALF_PI = math.pi / 2
SPLIT = 4097.0
"""2^12 + 1: x * SPLIT - (x * SPLIT - x) holds the upper 12 bits of a float32 x."""


@dataclass
class Kit:
    """Vector calls on whole tiles of floats."""

    calls: Calls
    bits: SSAValue

    def unary(self, op: type, dst: SSAValue, x: SSAValue) -> None:
        self.calls.call(op, dst, x, count=self.calls.count)

    def binary(self, op: type, dst: SSAValue, a: SSAValue, b: SSAValue) -> None:
        self.calls.call(op, dst, a, b, count=self.calls.count)

    def add(self, dst: SSAValue, a: SSAValue, b: SSAValue | float) -> None:
        if isinstance(b, float):
            self.calls.call(v.AddsOp, dst, a, scalar=b, count=self.calls.count)
        else:
            self.binary(v.AddOp, dst, a, b)

    def sub(self, dst: SSAValue, a: SSAValue, b: SSAValue) -> None:
        self.binary(v.SubOp, dst, a, b)

    def mul(self, dst: SSAValue, a: SSAValue, b: SSAValue | float) -> None:
        if isinstance(b, float):
            self.calls.call(v.MulsOp, dst, a, scalar=b, count=self.calls.count)
        else:
            self.binary(v.MulOp, dst, a, b)

    def div(self, dst: SSAValue, a: SSAValue, b: SSAValue) -> None:
        self.binary(v.DivOp, dst, a, b)

    def fill(self, dst: SSAValue, number: float) -> None:
        self.calls.call(v.DuplicateOp, dst, scalar=number, count=self.calls.count)

    def compare(self, dst: SSAValue, a: SSAValue, mode: CmpMode, b: SSAValue | float) -> None:
        """dst = 1 where the comparison holds, else 0; nothing holds for NaN but NE."""
        if isinstance(b, float):
            self.calls.call(Compare01SOp, dst, a, self.bits, mode=mode, scalar=b, count=self.calls.count)
        else:
            self.calls.call(Compare01Op, dst, a, b, self.bits, mode=mode, count=self.calls.count)

    def select(self, dst: SSAValue, cond: SSAValue, a: SSAValue, b: SSAValue) -> None:
        """dst = a where cond isn't 0, else b; dst may be a or b."""
        self.calls.call(Select01Op, dst, cond, a, b, self.bits, count=self.calls.count)

    def odd(self, dst: SSAValue, x: SSAValue, coefficients: Sequence[float], square: SSAValue) -> None:
        """dst = x + x * s * (c0 + c1 s + ...) with s = x * x, which stays in `square`."""
        self.mul(square, x, x)
        self.mul(dst, square, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            self.add(dst, dst, c)
            self.mul(dst, dst, square)
        self.mul(dst, dst, x)
        self.add(dst, dst, x)


Steps = Callable[[Kit, SSAValue, Sequence[SSAValue], Sequence[SSAValue]], None]


class Composed(Spread):
    """A function as steps (kit, dst, operands, temporaries); dst shares no memory with the operands."""

    def __init__(self, steps: Steps, temporaries: int) -> None:
        self.steps = steps
        self.own_count = 1 + temporaries

    def own_scratch(self, form: Form) -> list[Scratch]:
        tiles = [Scratch(dt.F32, form.elements)] * (self.own_count - 1)
        return [Scratch(dt.U8, compare_bytes(form.elements)), *tiles]

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        self.steps(Kit(calls, tmp[0]), dst, [a.value for a in args], tmp[1:])


# -- hyperbolic functions -----------------------------------------------------------------------------------


def _half_exp(kit: Kit, dst: SSAValue, x: SSAValue, tmp: SSAValue) -> None:
    """dst = exp(|x|) / 2, without overflow before its time: (exp(|x| / 2) / 2) * exp(|x| / 2)."""
    kit.unary(v.AbsOp, tmp, x)
    kit.mul(tmp, tmp, 0.5)
    kit.unary(v.ExpOp, tmp, tmp)
    kit.mul(dst, tmp, 0.5)
    kit.mul(dst, dst, tmp)


def _quarter_over(kit: Kit, dst: SSAValue, s: SSAValue) -> None:
    """dst = 0.25 / s, the other exponential."""
    kit.fill(dst, 0.25)
    kit.div(dst, dst, s)


def cosh(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    s, other = tmp
    _half_exp(kit, s, args[0], other)
    _quarter_over(kit, other, s)
    kit.add(dst, s, other)


def sinh(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (s, other) = args, tmp
    _half_exp(kit, s, x, other)
    _quarter_over(kit, other, s)
    kit.sub(s, s, other)
    kit.compare(dst, x, CmpMode.LT, 0.0)
    kit.mul(dst, dst, -2.0)
    kit.add(dst, dst, 1.0)
    kit.mul(s, s, dst)  # the sign of x
    kit.odd(dst, x, SINH, other)
    kit.unary(v.AbsOp, other, x)
    kit.compare(other, other, CmpMode.LT, 1.0)
    kit.select(dst, other, dst, s)


# -- their inverses -----------------------------------------------------------------------------------------


def atanh(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (ratio, other) = args, tmp
    kit.mul(other, x, -1.0)
    kit.add(other, other, 1.0)
    kit.add(ratio, x, 1.0)
    kit.div(ratio, ratio, other)
    kit.unary(v.LnOp, ratio, ratio)
    kit.mul(ratio, ratio, 0.5)
    kit.odd(dst, x, ATANH, other)
    kit.unary(v.AbsOp, other, x)
    kit.compare(other, other, CmpMode.LE, 1 / 3)
    kit.select(dst, other, dst, ratio)


def _log1p(kit: Kit, dst: SSAValue, u: SSAValue, tmp: Sequence[SSAValue]) -> None:
    """dst = ln(1 + u) for u >= 0: 2 atanh(u / (2 + u)) up to u = 1, where Ln of a value near 1 loses digits."""
    z, other = tmp
    kit.add(z, u, 2.0)
    kit.div(z, u, z)
    kit.odd(dst, z, ATANH, other)
    kit.mul(dst, dst, 2.0)
    kit.add(z, u, 1.0)
    kit.unary(v.LnOp, z, z)
    kit.compare(other, u, CmpMode.LE, 1.0)
    kit.select(dst, other, dst, z)


def _or_large(kit: Kit, dst: SSAValue, x: SSAValue, small: SSAValue, tmp: SSAValue) -> None:
    """dst = dst where `small`, else ln(2 x): what both inverses become for large x."""
    kit.unary(v.LnOp, tmp, x)
    kit.add(tmp, tmp, LN2)
    kit.select(dst, small, dst, tmp)


def asinh(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (a, small, u, t0, t1) = args, tmp
    kit.unary(v.AbsOp, a, x)
    kit.compare(small, a, CmpMode.LT, 4096.0)
    kit.fill(t0, 1.0)
    kit.select(t0, small, a, t0)  # a where its square is harmless
    kit.mul(u, t0, t0)
    kit.add(t1, u, 1.0)
    kit.unary(v.SqrtOp, t1, t1)
    kit.add(t1, t1, 1.0)
    kit.div(u, u, t1)
    kit.add(u, u, t0)  # a + a^2 / (1 + sqrt(1 + a^2))
    _log1p(kit, dst, u, (t0, t1))
    _or_large(kit, dst, a, small, t0)
    kit.compare(t0, x, CmpMode.LT, 0.0)
    kit.mul(t0, t0, -2.0)
    kit.add(t0, t0, 1.0)
    kit.mul(dst, dst, t0)
    kit.compare(t0, a, CmpMode.LT, 2.0**-13)
    kit.select(dst, t0, x, dst)  # x itself: keeps the sign of -0


def acosh(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (small, u, t0, t1) = args, tmp
    kit.compare(small, x, CmpMode.LT, 4096.0)
    kit.fill(t0, 2.0)
    kit.select(t0, small, x, t0)
    kit.add(t0, t0, -1.0)  # t
    kit.unary(v.SqrtOp, u, t0)  # NaN below 1
    kit.add(t1, t0, 2.0)
    kit.unary(v.SqrtOp, t1, t1)
    kit.mul(u, u, t1)
    kit.add(u, u, t0)  # t + sqrt(t (t + 2))
    _log1p(kit, dst, u, (t0, t1))
    _or_large(kit, dst, x, small, t0)


# -- inverse circular functions -----------------------------------------------------------------------------


def _asin_parts(kit: Kit, dst: SSAValue, outer: SSAValue, x: SSAValue, tmp: SSAValue) -> None:
    """dst = asin of x for |x| <= 1/2 and of sqrt((1 - |x|) / 2) elsewhere, where `outer` is 1; NaN beyond 1."""
    kit.unary(v.AbsOp, tmp, x)
    kit.compare(outer, tmp, CmpMode.GT, 0.5)
    kit.mul(tmp, tmp, -0.5)
    kit.add(tmp, tmp, 0.5)
    kit.unary(v.SqrtOp, tmp, tmp)
    kit.select(tmp, outer, tmp, x)


def asin(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (outer, part, other) = args, tmp
    _asin_parts(kit, dst, outer, x, part)
    kit.odd(dst, part, ASIN, other)
    kit.mul(part, dst, -2.0)
    kit.add(part, part, HALF_PI)  # pi / 2 - 2 asin(..)
    kit.compare(other, x, CmpMode.LT, 0.0)
    kit.mul(other, other, -2.0)
    kit.add(other, other, 1.0)
    kit.mul(part, part, other)
    kit.select(dst, outer, part, dst)


def acos(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    (x,), (outer, part, other, inner) = args, tmp
    _asin_parts(kit, dst, outer, x, part)
    kit.odd(dst, part, ASIN, other)
    kit.mul(inner, dst, -1.0)
    kit.add(inner, inner, HALF_PI)
    kit.mul(dst, dst, 2.0)  # x > 1/2
    kit.mul(part, dst, -1.0)
    kit.add(part, part, math.pi)  # x < -1/2
    kit.compare(other, x, CmpMode.LT, 0.0)
    kit.select(dst, other, part, dst)
    kit.select(dst, outer, dst, inner)


def _negative(kit: Kit, dst: SSAValue, x: SSAValue, tmp: SSAValue) -> None:
    """dst = 1 where the sign bit of x is set, -0 included (whose reciprocal is -inf), else 0."""
    kit.fill(tmp, 1.0)
    kit.div(tmp, tmp, x)
    kit.compare(tmp, tmp, CmpMode.LT, 0.0)
    kit.compare(dst, x, CmpMode.LT, 0.0)
    kit.binary(v.MaxOp, dst, dst, tmp)


def atan2(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    """atan of the smaller over the larger, in the octant that the signs and sizes say."""
    (y, x), (ay, ax, steep, ratio, other) = args, tmp
    kit.unary(v.AbsOp, ay, y)
    kit.unary(v.AbsOp, ax, x)
    kit.compare(steep, ay, CmpMode.GT, ax)
    kit.select(ratio, steep, ax, ay)
    kit.select(other, steep, ay, ax)
    kit.compare(dst, ratio, CmpMode.EQ, other)  # |y| = |x|: 1, but 0 for 0 / 0, and inf / inf is 1
    kit.div(other, ratio, other)
    kit.compare(ratio, ratio, CmpMode.NE, 0.0)
    kit.select(other, dst, ratio, other)
    kit.odd(dst, other, ATAN, ratio)
    kit.mul(other, dst, -1.0)
    kit.add(other, other, HALF_PI)
    kit.select(dst, steep, other, dst)
    kit.mul(other, dst, -1.0)
    kit.add(other, other, math.pi)
    _negative(kit, steep, x, ratio)
    kit.select(dst, steep, other, dst)
    _negative(kit, steep, y, ratio)
    kit.mul(steep, steep, -2.0)
    kit.add(steep, steep, 1.0)
    kit.mul(dst, dst, steep)


# -- remainders ---------------------------------------------------------------------------------------------


def _high_part(kit: Kit, dst: SSAValue, x: SSAValue, tmp: SSAValue) -> None:
    """dst = the upper 12 bits of x, so that products of such parts are exact."""
    kit.mul(tmp, x, SPLIT)
    kit.sub(dst, tmp, x)
    kit.sub(dst, tmp, dst)


def _reduce(kit: Kit, r: SSAValue, b: SSAValue, tmp: Sequence[SSAValue]) -> None:
    """r = r - trunc(r / b) * b, the product taken exactly in parts; r may then be one b off the remainder."""
    q, product, q_high, b_high, t0 = tmp
    kit.div(q, r, b)
    kit.calls.call(RoundToOp, q, q, mode=RoundMode.TRUNC, count=kit.calls.count)
    kit.mul(product, q, b)
    kit.sub(r, r, product)
    # error of the product: q_high b_high - product + q_high b_low + q_low b_high + q_low b_low, all exact
    _high_part(kit, q_high, q, t0)
    _high_part(kit, b_high, b, t0)
    kit.mul(t0, q_high, b_high)
    kit.sub(product, t0, product)
    kit.sub(q, q, q_high)  # low part of q
    kit.sub(t0, b, b_high)  # low part of b
    kit.mul(q_high, q_high, t0)
    kit.add(product, product, q_high)
    kit.mul(b_high, b_high, q)
    kit.add(product, product, b_high)
    kit.mul(t0, t0, q)
    kit.add(product, product, t0)
    kit.sub(r, r, product)


def fmod(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    """|a| reduced by |b| twice (exact for quotients up to 2^44), corrected by one |b|, with the sign of a.

    Operands beyond 2^115 give NaN unless |a| < |b|: the split of a product overflows.
    """
    (a, b), (r, size, t0, t1, t2, t3, t4) = args, tmp
    kit.unary(v.AbsOp, r, a)
    kit.unary(v.AbsOp, size, b)
    for _ in range(2):
        _reduce(kit, r, size, (t0, t1, t2, t3, t4))
    kit.compare(t0, r, CmpMode.LT, 0.0)
    kit.mul(t0, t0, size)
    kit.add(r, r, t0)
    kit.compare(t0, r, CmpMode.GE, size)
    kit.mul(t0, t0, size)
    kit.sub(r, r, t0)
    # a smaller than b is its own remainder, whatever b is
    kit.unary(v.AbsOp, t0, a)
    kit.compare(t1, t0, CmpMode.LT, size)
    kit.select(r, t1, t0, r)
    _negative(kit, t0, a, t1)
    kit.mul(t0, t0, -2.0)
    kit.add(t0, t0, 1.0)
    kit.mul(dst, r, t0)


def floormod(kit: Kit, dst: SSAValue, args: Sequence[SSAValue], tmp: Sequence[SSAValue]) -> None:
    """fmod, plus b where the remainder has the other sign; a remainder of 0 takes the sign of b."""
    b = args[1]
    fmod(kit, dst, args, tmp)
    other, zero, sum_, t0 = tmp[:4]
    kit.compare(t0, dst, CmpMode.NE, 0.0)
    _negative(kit, zero, b, sum_)
    _negative(kit, other, dst, sum_)
    kit.compare(other, other, CmpMode.NE, zero)  # signs differ
    kit.mul(other, other, t0)
    kit.add(sum_, dst, b)
    kit.select(dst, other, sum_, dst)
    kit.mul(zero, zero, -2.0)
    kit.add(zero, zero, 1.0)
    kit.mul(zero, zero, 0.0)
    kit.select(dst, t0, dst, zero)


RECIPES: dict[str, Recipe] = {
    "sinh": Composed(sinh, 2),
    "cosh": Composed(cosh, 2),
    "asinh": Composed(asinh, 5),
    "acosh": Composed(acosh, 4),
    "atanh": Composed(atanh, 2),
    "asin": Composed(asin, 3),
    "acos": Composed(acos, 4),
    "atan2": Composed(atan2, 5),
    "fmod": Composed(fmod, 7),
    "floormod": Composed(floormod, 7),
}
