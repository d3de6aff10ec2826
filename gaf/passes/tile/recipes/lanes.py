# SPDX-License-Identifier: Apache-2.0
"""Recipe of loads whose lanes are apart in memory: whole rows come in, every step-th lane stays."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.rows import TakeLanesOp
from gaf.dialects.common import dtype as dt
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kinds, Recipe, Scratch


class TakeLanes(Recipe):
    """`result[r, c] = row[r, c * step]`."""

    def __init__(self, step: int) -> None:
        self.step = step

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.I32, TakeLanesOp.tmp_elements(form.lanes, form.dtype))]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(TakeLanesOp, dst, args[0].value, tmp[0], rows=calls.rows, lanes=calls.lanes, step=self.step)
