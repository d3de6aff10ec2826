# SPDX-License-Identifier: Apache-2.0
"""Recipes of reductions: along lanes, along rows, or both."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.attributes import Mon
from gaf.dialects.ascendc.rows import ColReduceOp, RowReduceOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import round_up
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kinds, Recipe, Scratch


class Reduce(Recipe):
    """Fold of a rows x lanes operand; `form` and `calls` are those of the operand, not of the result.

    What max and min do with NaN isn't documented for the hardware; the interpreters let NaN win. Sums fold 64
    interleaved partial sums per row, then a tree: not the order of numpy.
    """

    def __init__(self, monoid: str, lanes: bool, rows: bool) -> None:
        self.mon = Mon(monoid)
        self.lanes = lanes
        self.rows = rows

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        if not self.lanes:
            return []
        found = [Scratch(dt.F32, RowReduceOp.tmp_elements(form.rows, form.lanes))]
        if self.rows:
            column = Scratch(dt.F32, round_up(form.rows, 8))
            found += [column, Scratch(dt.F32, RowReduceOp.tmp_elements(1, form.rows))]
        return found

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        source, size = args[0].value, {"rows": calls.rows, "lanes": calls.lanes}
        if not self.lanes:
            calls.call(ColReduceOp, dst, source, mon=self.mon, **size)
        elif not self.rows:
            calls.call(RowReduceOp, dst, source, tmp[0], mon=self.mon, **size)
        else:
            calls.call(RowReduceOp, tmp[1], source, tmp[0], mon=self.mon, **size)
            calls.call(RowReduceOp, dst, tmp[1], tmp[2], mon=self.mon, rows=1, lanes=calls.rows)
