# SPDX-License-Identifier: Apache-2.0
"""Recipes of ordered rows: joining a chunk to a state, and reading a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.ranks import RankPlacesOp, RankTileOp, RankValuesOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.dialects.common.order import LARGEST, PLACES
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Arg, Calls, Kinds, Recipe, Scratch


@dataclass(frozen=True)
class Rank(Recipe):
    """Joins a tile to the state of `kept` pairs a row in place; `first` is the place of its first lane."""

    order: str
    kept: Expr
    first: Expr = const(0)

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [Scratch(dt.F32, RankTileOp.tmp_elements(form.lanes, self.kept))]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        calls.call(
            RankTileOp, dst, args[0].value, tmp[0], rows=calls.rows, kept=self.kept, largest=int(self.order == LARGEST),
            lanes=calls.lanes, first=self.first,
        )  # fmt: skip


@dataclass(frozen=True)
class Ranked(Recipe):
    """The values or the places of a state."""

    what: str
    order: str

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        return [] if self.what == PLACES else [Scratch(dt.I32, form.elements)]

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        size = {"rows": calls.rows, "kept": calls.lanes, "largest": int(self.order == LARGEST)}
        if self.what == PLACES:
            calls.call(RankPlacesOp, dst, args[0].value, **size)
        else:
            calls.call(RankValuesOp, dst, args[0].value, tmp[0], **size)
