# SPDX-License-Identifier: Apache-2.0
"""Recipes on int32 tiles: comparisons, selection, bits. Arithmetic shares the recipes of floats."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.attributes import CmpMode, RoundMode
from gaf.dialects.ascendc.counts import Compare01SOp, compare_bytes
from gaf.dialects.ascendc.random import Random24Op
from gaf.dialects.ascendc.rows import CastTileOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes import arithmetic, mathematics
from gaf.passes.tile.recipes.base import (
    Arg,
    Calls,
    Kind,
    Kinds,
    Recipe,
    Scratch,
    Spread,
    spread,
    spread_scratch,
)

ADD, SUB, MUL, MAX = (arithmetic.RECIPES[n] for n in ("add", "sub", "mul", "max"))

# a < b exactly if max(a, b) isn't a, and so on: (operand that the maximum is compared with, for equality?)
BY_MAXIMUM = {"lt": (0, False), "gt": (1, False), "le": (1, True), "ge": (0, True)}


UNIT = Form((), const(1), const(1), dt.I32)
"""A form to count the temporaries of a recipe with, where their sizes don't matter."""


def spread_all(calls: Calls, args: Sequence[Arg], tmp: list[SSAValue]) -> list[SSAValue]:
    """Operands as full tiles; temporaries are taken from the front of `tmp` in the order of `spread_scratch`."""
    full: list[SSAValue] = []
    for arg in args:
        if arg.kind is Kind.FULL:
            full.append(arg.value)
            continue
        tile = tmp.pop(0)
        spread(calls, tile, arg, [tmp.pop(0)] if arg.kind in (Kind.COL, Kind.ONE) else [])
        full.append(tile)
    return full


class IntCompare(Recipe):
    """Comparison of int32 by a difference that is 0 exactly when two values are equal, even if it overflows.

    The unit itself compares int32 for equality only; the difference is compared as float32, whose rounding
    never makes a 0.
    """

    def __init__(self, name: str) -> None:
        self.other, self.equal = BY_MAXIMUM.get(name, (1, name == "eq"))
        self.ordered = name in BY_MAXIMUM

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        words = form.with_dtype(dt.I32)
        found = [Scratch(dt.I32, words.elements), Scratch(dt.U8, compare_bytes(form.elements))]
        if self.ordered:
            return [*found, *MAX.scratch(kinds, words), *SUB.scratch((Kind.FULL, kinds[self.other]), words)]
        return [*found, *SUB.scratch(kinds, words)]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0, 1)  # both are used up before the result is written

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        difference, bits, *rest = tmp
        if self.ordered:
            first = len(rest) - len(SUB.scratch((Kind.FULL, args[self.other].kind), UNIT))
            MAX.emit(calls, difference, args, rest[:first])
            SUB.emit(calls, difference, [Arg(Kind.FULL, difference), args[self.other]], rest[first:])
        else:
            SUB.emit(calls, difference, args, rest)
        size = {"rows": calls.rows, "lanes": calls.lanes}
        calls.call(CastTileOp, dst, difference, mode=RoundMode.RINT, **size)
        mode = CmpMode.EQ if self.equal else CmpMode.NE
        calls.call(Compare01SOp, dst, dst, bits, mode=mode, scalar=0, count=calls.count)


class IntSelect(Recipe):
    """`cond ? a : b` of int32 as `a * c + b * (1 - c)` with c the predicate as 0 or 1: nothing can overflow."""

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        found = [Scratch(dt.I32, form.elements), Scratch(dt.I32, form.elements)]
        found += spread_scratch(kinds[0], form.with_dtype(dt.F32))
        for kind in kinds[1:]:
            found += spread_scratch(kind, form)
        return found

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        chosen, product, *rest = tmp
        cond, a, b = spread_all(calls, args, rest)
        n = calls.count
        calls.call(CastTileOp, chosen, cond, mode=RoundMode.RINT, rows=calls.rows, lanes=calls.lanes)
        calls.call(v.MulOp, product, a, chosen, count=n)
        calls.call(v.MulsOp, chosen, chosen, scalar=-1, count=n)
        calls.call(v.AddsOp, chosen, chosen, scalar=1, count=n)
        calls.call(v.MulOp, chosen, b, chosen, count=n)
        calls.call(v.AddOp, dst, product, chosen, count=n)


class Bits(Recipe):
    """Bitwise operations: the unit has And, Or and Not on 16-bit words; a ^ b is (a | b) - (a & b)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        found = [s for kind in kinds for s in spread_scratch(kind, form)]
        return [Scratch(dt.I32, form.elements), *found] if self.name == "bitxor" else found

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return tuple(range(len(kinds)))

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        rest = list(tmp)
        both = rest.pop(0) if self.name == "bitxor" else None
        full = spread_all(calls, args, rest)
        kind = dst.type.dtype  # type: ignore[attr-defined]
        words = calls.count_of(kind) * kind.bytes // 2

        def as_words(value: SSAValue) -> SSAValue:
            return value if kind is dt.I16 else calls.reinterpret(value, dt.I16)

        target, sources = as_words(dst), [as_words(x) for x in full]
        if self.name == "bitnot":
            calls.call(v.NotOp, target, sources[0], count=words)
            return
        if both is not None:
            calls.call(v.AndOp, as_words(both), *sources, count=words)
        calls.call(v.AndOp if self.name == "bitand" else v.OrOp, target, *sources, count=words)
        if both is not None:
            calls.call(v.SubOp, dst, dst, both, count=calls.count)


class Random(Spread):
    """Random bits of a counter; the key is a number, the salt one element for all."""

    NUMBERS = (2,)
    own_count = 1

    def own_scratch(self, form: Form) -> list[Scratch]:
        return [Scratch(dt.I32, Random24Op.tmp_elements(form.elements))]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0,)

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        index, salt, key = args
        assert not isinstance(key.number, float)
        calls.call(Random24Op, dst, index.value, salt.value, tmp[0], key=key.number, count=calls.count)


RECIPES: dict[str, Recipe] = {
    **{name: arithmetic.RECIPES[name] for name in ("add", "sub", "mul", "max", "min")},
    **{name: mathematics.RECIPES[name] for name in ("neg", "relu")},
    **{name: IntCompare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: Bits(name) for name in ("bitand", "bitor", "bitxor", "bitnot")},
    "select": IntSelect(),
    "random24": Random(),
}
"""Scalar function -> recipe on int32 tiles."""

ANY_WIDTH = ("bitand", "bitor", "bitnot")
"""Functions that work on integers of every width, on full operands."""
