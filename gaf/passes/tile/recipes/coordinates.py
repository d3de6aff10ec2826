# SPDX-License-Identifier: Apache-2.0
"""Recipes of constants and coordinates: fills, numbers as operands, and expressions over axes as data."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.passes.tile.forms import Form, pitch
from gaf.passes.tile.recipes.base import Arg, Calls, Kind, Kinds, Recipe, Scratch


class Fill(Recipe):
    """A number in every element: the operand is that number."""

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        kind = dst.type.dtype  # type: ignore[attr-defined]
        calls.call(v.DuplicateOp, dst, scalar=args[0].number, count=calls.count_of(kind))


class Coordinates(Recipe):
    """`base + row_step * row + lane_step * lane`, row by row."""

    def __init__(self, base: Expr, row_step: Expr, lane_step: Expr) -> None:
        self.base = base
        self.row_step = row_step
        self.lane_step = lane_step

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        step = pitch(calls.lanes, dst.type.dtype)  # type: ignore[attr-defined]
        if calls.rows == 1:
            self._row(calls, dst, const(0), step)
            return
        with calls.for_("r", 0, calls.rows) as row:
            self._row(calls, calls.slice(dst, row * step, step), row, step)

    def _row(self, calls: Calls, dst: SSAValue, row: Expr, count: Expr) -> None:
        base = self.base + self.row_step * row
        if self.lane_step == 1:
            calls.call(v.CreateVecIndexOp, dst, first=base, count=count)
        elif self.lane_step == 0:
            calls.call(v.DuplicateOp, dst, scalar=base, count=count)
        else:
            calls.call(v.CreateVecIndexOp, dst, first=0, count=count)
            calls.call(v.MulsOp, dst, dst, scalar=self.lane_step, count=count)
            calls.call(v.AddsOp, dst, dst, scalar=base, count=count)


class OnNumber(Recipe):
    """A recipe for full operands whose first operand is a number: it becomes a tile first."""

    def __init__(self, inner: Recipe, dtype: dt.DType = dt.F32) -> None:
        self.inner = inner
        self.dtype = dtype

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        full = (Kind.FULL, *kinds[1:])
        return [Scratch(self.dtype, form.with_dtype(self.dtype).elements), *self.inner.scratch(full, form)]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        Fill().emit(calls, tmp[0], args[:1], ())
        self.inner.emit(calls, dst, [Arg(Kind.FULL, tmp[0]), *args[1:]], tmp[1:])
