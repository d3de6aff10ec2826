# SPDX-License-Identifier: Apache-2.0
"""Recipes of loads whose lanes aren't neighbours in memory: they are picked out of whole rows, or rows become lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.rows import TakeLanesOp, TransposeTileOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kinds, Recipe, Scratch


@dataclass(frozen=True)
class Picks:
    """Lane c of a tile is element `(c * mul + rest) floordiv div + shift` of a row of `span`, within its ends."""

    span: Expr
    mul: int
    rest: Expr
    div: int
    shift: Expr


class TakeLanes(Recipe):
    """`result[r, c] = row[r, place(c)]`; what the places are is known where the load is emitted."""

    def __init__(self, picks: Picks | None = None) -> None:
        self.picks = picks

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.I32, TakeLanesOp.tmp_elements(form.lanes, form.dtype))]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        assert self.picks is not None
        p = self.picks
        calls.call(
            TakeLanesOp, dst, args[0].value, tmp[0], rows=calls.rows, lanes=calls.lanes, span=p.span, mul=p.mul,
            rest=p.rest, div=p.div, shift=p.shift,
        )  # fmt: skip


class Transpose(Recipe):
    """`result[r, c] = loaded[c, r]`; `calls` and `form` are those of the result."""

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(form.dtype, TransposeTileOp.tmp_elements(form.lanes))]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(TransposeTileOp, dst, args[0].value, tmp[0], rows=calls.lanes, lanes=calls.rows)
