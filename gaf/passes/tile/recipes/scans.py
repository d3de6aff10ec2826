# SPDX-License-Identifier: Apache-2.0
"""Recipe of running folds: along lanes or rows, from a carried state that is updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.scans import ScanLanesOp, ScanRowsOp
from gaf.dialects.common import dtype as dt
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kinds, Recipe, Scratch


@dataclass(frozen=True)
class Scan(Recipe):
    """The running fold of a tile; the second operand is the state."""

    monoid: str
    exclusive: bool
    along_lanes: bool

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.F32, ScanLanesOp.tmp_elements(form.rows, form.lanes))] if self.along_lanes else []

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        op = ScanLanesOp if self.along_lanes else ScanRowsOp
        calls.call(
            op, dst, args[1].value, args[0].value, *tmp, mon=self.monoid, exclusive=int(self.exclusive), rows=calls.rows,
            lanes=calls.lanes,
        )  # fmt: skip
