# SPDX-License-Identifier: Apache-2.0
"""Recipes of arithmetic on two operands: full tiles, columns, rows, single elements and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.api import AscendOp
from gaf.dialects.ascendc.attributes import Bop
from gaf.dialects.ascendc.counts import Pow1Op
from gaf.dialects.ascendc.rows import BinaryColOp, BinaryRowOp, BroadcastColOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import (
    Arg,
    Calls,
    Kind,
    Kinds,
    Number,
    Recipe,
    Scratch,
    Spread,
    column_scratch,
    spread,
)

ONE_BLOCK = 8
"""Floats of a single element with its padding."""


def reciprocal_power_of_two(number: Number) -> float | None:
    """1 / number when it is exact (number is a power of two), else None."""
    if isinstance(number, Expr) or number == 0 or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(number)
    return 1.0 / number if abs(mantissa) == 0.5 and -120 < exponent < 120 else None


class Binary(Recipe):
    """`a op b`, with the two broadcast forms of the device library and the scalar form of the instruction.

    `plain` is the count form, `bop` the operation with the tile on the left, `reversed` with it on the right,
    `scalar` the instruction with a number (None: there is none, or it isn't exact).
    """

    def __init__(self, plain: type[AscendOp], bop: Bop, reversed: Bop, scalar: type[AscendOp] | None) -> None:
        self.plain = plain
        self.bop = bop
        self.reversed = reversed
        self.scalar = scalar

    # The left operand is the tile; `order` says whether the operands were swapped to get there.
    def _order(self, kinds: Kinds) -> tuple[int, int]:
        return (1, 0) if kinds[1] is Kind.FULL and kinds[0] is not Kind.FULL else (0, 1)

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        tile, other = self._order(kinds)
        match kinds[other]:
            case Kind.FULL | Kind.ROW:
                found = []
            case Kind.NUMBER:
                found = self.number_scratch(form, swapped=tile == 1)
            case kind:
                found = [column_scratch(kind, form)]
        if kinds[tile] in (Kind.COL, Kind.ONE):
            found.append(column_scratch(kinds[tile], form))
        return found

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        tile, other = self._order(kinds)
        if kinds[other] is Kind.NUMBER and not self.number_inplace(swapped=tile == 1):
            return ()
        return (0, 1)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        left, right = self._order([a.kind for a in args])
        swapped = left == 1
        tile, other = args[left], args[right]
        if tile.kind is not Kind.FULL:  # an outer operation: both operands are smaller than the result
            spread(calls, dst, tile, tmp[-1:])
            tile = Arg(Kind.FULL, dst)
        bop = self.reversed if swapped else self.bop
        size = {"rows": calls.rows, "lanes": calls.lanes}
        match other.kind:
            case Kind.FULL:
                first, second = (other, tile) if swapped else (tile, other)
                calls.call(self.plain, dst, first.value, second.value, count=calls.count)
            case Kind.ROW:
                calls.call(BinaryRowOp, dst, tile.value, other.value, op=bop, **size)
            case Kind.COL:
                calls.call(BinaryColOp, dst, tile.value, other.value, tmp[0], op=bop, **size)
            case Kind.ONE:
                calls.call(
                    BinaryColOp, dst, tile.value, other.value, tmp[0], op=bop, rows=1, lanes=calls.count
                )
            case Kind.NUMBER:
                self.with_number(calls, dst, tile.value, other.number, swapped, tmp)

    # -- numbers: commutative operations with a scalar form; others override -------------------------

    def number_scratch(self, form: Form, swapped: bool) -> list[Scratch]:
        return []

    def number_inplace(self, swapped: bool) -> bool:
        return True

    def with_number(
        self,
        calls: Calls,
        dst: SSAValue,
        tile: SSAValue,
        number: Number,
        swapped: bool,
        tmp: Sequence[SSAValue],
    ) -> None:
        assert self.scalar is not None
        calls.call(self.scalar, dst, tile, scalar=number, count=calls.count)


class Subtract(Binary):
    """x - c is x + (-c); c - x is (-x) + c: both are exact."""

    def with_number(
        self,
        calls: Calls,
        dst: SSAValue,
        tile: SSAValue,
        number: Number,
        swapped: bool,
        tmp: Sequence[SSAValue],
    ) -> None:
        if swapped:
            calls.call(v.MulsOp, dst, tile, scalar=-1, count=calls.count)
            calls.call(v.AddsOp, dst, dst, scalar=number, count=calls.count)
        else:
            negative = const(0) - number if isinstance(number, Expr) else -number
            calls.call(v.AddsOp, dst, tile, scalar=negative, count=calls.count)


class Divide(Binary):
    """x / c multiplies only when 1 / c is exact; else c becomes a tensor: x * (1 / c) rounds twice."""

    def number_scratch(self, form: Form, swapped: bool) -> list[Scratch]:
        if swapped:
            return []
        return [Scratch(dt.F32, const(ONE_BLOCK)), Scratch(dt.F32, BroadcastColOp.tmp_elements(1))]

    def number_inplace(self, swapped: bool) -> bool:
        return not swapped

    def with_number(
        self,
        calls: Calls,
        dst: SSAValue,
        tile: SSAValue,
        number: Number,
        swapped: bool,
        tmp: Sequence[SSAValue],
    ) -> None:
        if swapped:
            calls.call(v.DuplicateOp, dst, scalar=number, count=calls.count)
            calls.call(v.DivOp, dst, dst, tile, count=calls.count)
            return
        exact = reciprocal_power_of_two(number)
        if exact is not None:
            calls.call(v.MulsOp, dst, tile, scalar=exact, count=calls.count)
            return
        calls.call(v.DuplicateOp, tmp[0], scalar=number, count=ONE_BLOCK)
        calls.call(BinaryColOp, dst, tile, tmp[0], tmp[1], op=Bop.DIV, rows=1, lanes=calls.count)


class Power(Spread):
    """a ** b; the result may not overlap an operand."""

    own_count = 1

    def own_scratch(self, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, Pow1Op.tmp_bytes(form.elements))]

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(Pow1Op, dst, args[0].value, args[1].value, tmp[0], count=calls.count)


RECIPES: dict[str, Recipe] = {
    "add": Binary(v.AddOp, Bop.ADD, Bop.ADD, v.AddsOp),
    "sub": Subtract(v.SubOp, Bop.SUB, Bop.RSUB, None),
    "mul": Binary(v.MulOp, Bop.MUL, Bop.MUL, v.MulsOp),
    "div": Divide(v.DivOp, Bop.DIV, Bop.RDIV, None),
    # what the hardware's Max and Min do with NaN isn't documented; the interpreters let NaN win
    "max": Binary(v.MaxOp, Bop.MAX, Bop.MAX, v.MaxsOp),
    "min": Binary(v.MinOp, Bop.MIN, Bop.MIN, v.MinsOp),
    "pow": Power(),
}
