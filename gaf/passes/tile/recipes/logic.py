# SPDX-License-Identifier: Apache-2.0
"""Recipes of comparisons, predicates (floats 0 and 1) and selection."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.attributes import Bop, CmpMode
from gaf.dialects.ascendc.counts import Compare01Op, Compare01SOp, Select01Op, compare_bytes
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.arithmetic import Binary
from gaf.passes.tile.recipes.base import (
    COMPARISONS,
    MIRRORED,
    Arg,
    Calls,
    Kind,
    Kinds,
    Recipe,
    Scratch,
    Spread,
)


class Compare(Spread):
    """`a mode b ? 1 : 0`; comparisons with NaN are false, ne is true."""

    NUMBERS = (0, 1)
    own_count = 1

    def __init__(self, mode: CmpMode) -> None:
        self.mode = mode

    def own_scratch(self, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, compare_bytes(form.elements))]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0, 1)

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        a, b, mode = args[0], args[1], self.mode
        if a.kind is Kind.NUMBER:
            a, b, mode = b, a, MIRRORED[mode]
        if b.kind is Kind.NUMBER:
            calls.call(Compare01SOp, dst, a.value, tmp[0], mode=mode, scalar=b.number, count=calls.count)
        else:
            calls.call(Compare01Op, dst, a.value, b.value, tmp[0], mode=mode, count=calls.count)


class CompareWith(Recipe):
    """Comparison of an operand with itself (`number` None) or a number, perhaps of its absolute value."""

    def __init__(self, mode: CmpMode, number: float | None = None, absolute: bool = False) -> None:
        self.mode = mode
        self.number = number
        self.absolute = absolute

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, compare_bytes(form.elements))]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0,)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        source = args[0].value
        if self.absolute:
            calls.call(v.AbsOp, dst, source, count=calls.count)
            source = dst
        if self.number is None:
            calls.call(Compare01Op, dst, source, source, tmp[0], mode=self.mode, count=calls.count)
        else:
            calls.call(
                Compare01SOp, dst, source, tmp[0], mode=self.mode, scalar=self.number, count=calls.count
            )


class Sign(Recipe):
    """(x > 0) - (x < 0), and NaN for NaN."""

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, compare_bytes(form.elements)), *[Scratch(dt.F32, form.elements)] * 3]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        (x, n), (bits, below, above, nan) = (args[0].value, calls.count), tmp
        calls.call(Compare01SOp, below, x, bits, mode=CmpMode.LT, scalar=0, count=n)
        calls.call(Compare01SOp, above, x, bits, mode=CmpMode.GT, scalar=0, count=n)
        calls.call(v.SubOp, above, above, below, count=n)
        calls.call(Compare01Op, nan, x, x, bits, mode=CmpMode.NE, count=n)
        calls.call(Select01Op, dst, nan, x, above, bits, count=n)


class Xor(Compare):
    """Predicates differ."""

    def __init__(self) -> None:
        super().__init__(CmpMode.NE)


class Select(Spread):
    """`cond ? a : b`: a NaN or infinity on the side that isn't chosen has no influence."""

    own_count = 1

    def own_scratch(self, form: Form) -> list[Scratch]:
        return [Scratch(dt.U8, compare_bytes(form.elements))]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (1, 2)

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        cond, a, b = (x.value for x in args)
        calls.call(Select01Op, dst, cond, a, b, tmp[0], count=calls.count)


def constant_choice(number: float | Expr) -> bool | None:
    """The side that a numeric condition selects, or None if it is only known at run time."""
    return None if isinstance(number, Expr) else not math.isnan(number) and number != 0


RECIPES: dict[str, Recipe] = {
    **{name: Compare(mode) for name, mode in COMPARISONS.items()},
    "isnan": CompareWith(CmpMode.NE),
    "isinf": CompareWith(CmpMode.EQ, math.inf, absolute=True),
    "sign": Sign(),
    "and": Binary(v.MulOp, Bop.MUL, Bop.MUL, v.MulsOp),
    "or": Binary(v.MaxOp, Bop.MAX, Bop.MAX, v.MaxsOp),
    "xor": Xor(),
    "select": Select(),
}
