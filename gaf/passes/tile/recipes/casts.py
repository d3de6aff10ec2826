# SPDX-License-Identifier: Apache-2.0
"""Recipes of conversions and copies: each side of a CastTile has its own row pitch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.attributes import CmpMode, RoundMode
from gaf.dialects.ascendc.rows import CastTileOp
from gaf.dialects.common import dtype as dt
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kind, Kinds, Recipe, Scratch
from gaf.passes.tile.recipes.logic import CompareWith

# Conversions of one CastTile. To an integer truncates (as ONNX and C do), to a float rounds to nearest even.
DIRECT: dict[tuple[dt.DType, dt.DType], RoundMode] = {
    (dt.F16, dt.F32): RoundMode.NONE,
    (dt.BF16, dt.F32): RoundMode.NONE,
    (dt.I16, dt.F32): RoundMode.NONE,
    (dt.I32, dt.F32): RoundMode.RINT,
    (dt.I64, dt.F32): RoundMode.RINT,
    (dt.I8, dt.F32): RoundMode.NONE,
    (dt.U8, dt.F32): RoundMode.NONE,
    (dt.F32, dt.F16): RoundMode.RINT,
    (dt.F32, dt.BF16): RoundMode.RINT,
    (dt.F32, dt.I16): RoundMode.TRUNC,
    (dt.F32, dt.I32): RoundMode.TRUNC,
    (dt.F32, dt.I64): RoundMode.TRUNC,
    (dt.F32, dt.I8): RoundMode.TRUNC,
    (dt.F32, dt.U8): RoundMode.TRUNC,
    (dt.I64, dt.I32): RoundMode.NONE,
    (dt.I32, dt.I64): RoundMode.NONE,
}


class Cast(Recipe):
    """One conversion between physical dtypes; bytes <-> float take a half tile of scratch."""

    def __init__(self, source: dt.DType, target: dt.DType) -> None:
        self.source = source
        self.target = target

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        if not CastTileOp.needs_tmp(self.source, self.target):
            return []
        elements = CastTileOp.tmp_elements(self.source, self.target, form.rows, form.lanes)
        return [Scratch(dt.F16, elements)]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        mode = DIRECT[(self.source, self.target)]
        calls.call(CastTileOp, dst, args[0].value, *tmp, mode=mode, rows=calls.rows, lanes=calls.lanes)


class CastThrough(Recipe):
    """Two conversions with float between them: for pairs that the hardware doesn't have."""

    def __init__(self, source: dt.DType, target: dt.DType) -> None:
        self.first = Cast(source, dt.F32)
        self.second = Cast(dt.F32, target)

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        middle = Scratch(dt.F32, form.with_dtype(dt.F32).elements)
        return [middle, *self.first.scratch(kinds, form), *self.second.scratch(kinds, form)]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        split = 1 + (1 if CastTileOp.needs_tmp(self.first.source, dt.F32) else 0)
        self.first.emit(calls, tmp[0], args, tmp[1:split])
        self.second.emit(calls, dst, [Arg(Kind.FULL, tmp[0])], tmp[split:])


class ToPredicate(Recipe):
    """x != 0 as 0 or 1, for a source that is converted to float first."""

    def __init__(self, source: dt.DType) -> None:
        self.cast = Cast(source, dt.F32) if source is not dt.F32 else None
        self.compare = CompareWith(CmpMode.NE, 0)

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        first = self.cast.scratch(kinds, form) if self.cast else []
        return [*self.compare.scratch(kinds, form), *first]

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return () if self.cast else (0,)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        if self.cast:
            self.cast.emit(calls, dst, args, tmp[1:])
            args = [Arg(Kind.FULL, dst)]
        self.compare.emit(calls, dst, args, tmp[:1])


class Copy(Recipe):
    """The same bits somewhere else: an integer addition of 0 on the bits, so that NaN and -0 survive."""

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        kind = dst.type.dtype  # type: ignore[attr-defined]
        words = calls.count_of(kind) * kind.bytes // 4
        target, source = dst, args[0].value
        if kind is not dt.I32:
            target, source = calls.reinterpret(dst, dt.I32), calls.reinterpret(source, dt.I32)
        calls.call(v.AddsOp, target, source, scalar=0, count=words)


COPY = Copy()


def cast_recipe(source: dt.DType, target: dt.DType) -> Recipe | None:
    """The recipe from one tile dtype to another; None if the hardware can't convert them.

    Predicates are floats 0 and 1; from a predicate to float nothing happens, which is no recipe's business.
    """
    if target.is_bool:
        return ToPredicate(source) if source is dt.F32 or (source, dt.F32) in DIRECT else None
    if source.is_bool:
        source = dt.F32
    if source is target:
        return COPY
    if (source, target) in DIRECT:
        return Cast(source, target)
    if (source, dt.F32) in DIRECT and (dt.F32, target) in DIRECT:
        return CastThrough(source, target)
    return None


def load_cast(memory: dt.DType) -> Recipe | None:
    """What turns an array element of dtype `memory` into its tile dtype; None if they are the same."""
    return Cast(dt.U8, dt.F32) if memory.is_bool else None


def store_cast(memory: dt.DType) -> Recipe | None:
    """What turns a tile element into an array element of dtype `memory`; None if they are the same."""
    return Cast(dt.F32, dt.U8) if memory.is_bool else None
