# SPDX-License-Identifier: Apache-2.0
"""Ordered rows on the vector core: `gaf_sort.h` of the device library.

A state holds pairs for every row: a float key (`order.sort_keys`) and the bits of an int32 place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp, Cpp, tile
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, const, expr, minimum, round_up
from gaf.dialects.common.order import LARGEST, SMALLEST, from_keys, sort_keys, stable_order

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

F32 = (dt.F32,)
SORTED = 32
"""Elements that one repeat of Sort32 sorts."""


class _OrderedOp(ApiOp):
    """Base: `largest` says which elements come first (1 or 0)."""

    rows = prop_def(ExprAttr)
    kept = prop_def(ExprAttr)
    largest = prop_def(ExprAttr)

    HEADER: ClassVar[str] = "gaf_sort.h"

    @property
    def order(self) -> str:
        return LARGEST if self.param("largest") == 1 else SMALLEST

    def cpp_fields(self, cpp: Cpp) -> dict[str, str]:
        return {**super().cpp_fields(cpp), "first_ones": "true" if self.order == LARGEST else "false"}

    def state_size(self) -> Expr:
        return tile(self.param("rows"), 2 * self.param("kept"))

    def pairs(self, core: Core) -> np.ndarray:
        """The state as rows of (key, place), raw."""
        rows, kept = core.int(self.param("rows")), core.int(self.param("kept"))
        return core.tile(self.operand_named("state"), rows, 2 * kept)[:, : 2 * kept]


@irdl_op_definition
class RankTileOp(_OrderedOp):
    """Join `lanes` elements of every row of src, the first of which is number `first` of its row, to the state."""

    name = "ascendc.rank_tile"
    state = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)
    lanes = prop_def(ExprAttr)
    first = prop_def(ExprAttr)

    CPP: ClassVar[str] = "gaf::RankTile<{first_ones}>({state}, {src}, {tmp}, {rows}, {lanes}, {kept}, {first})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"state": F32, "src": F32, "tmp": F32}

    @staticmethod
    def tmp_elements(lanes: ExprLike, kept: ExprLike) -> Expr:
        """`gaf::RankTileTmp`: keys, places, two lists of pairs and a merged one."""
        kept = expr(kept)
        return const(72) + 6 * round_up(lanes, SORTED) + 2 * (kept + minimum(kept, lanes))

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.param("rows"), self.param("lanes")
        return (
            self.read("src", tile(rows, lanes)),
            self.written("tmp", self.tmp_elements(lanes, self.param("kept"))),
            self.written("state", self.state_size()),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes, kept = self.param("rows"), self.param("lanes"), self.param("kept")
        elements = rows * round_up(lanes, SORTED)
        return (
            Cost.of("Adds", 16 * elements, 16 * rows),
            Cost.of("Sort32", elements, rows),
            Cost.of("MrgSort", 4 * elements + 2 * rows * kept, 5 * rows),
        )

    def run(self, core: Core) -> None:
        rows, lanes, kept, first = (core.int(self.param(p)) for p in ("rows", "lanes", "kept", "first"))
        src, state = core.tile(self.src, rows, lanes)[:, :lanes], self.pairs(core)
        seen = min(first, kept)
        keys = np.concatenate([state[:, : 2 * seen : 2], sort_keys(src, self.order)], 1)
        new = np.broadcast_to(np.arange(first, first + lanes, dtype=np.int32), (rows, lanes))
        old = np.ascontiguousarray(state[:, 1 : 2 * seen : 2]).view(np.int32)
        places = np.concatenate([old, new], 1)
        chosen = stable_order(keys, 1, LARGEST)[:, :kept]
        count = chosen.shape[1]
        core.clobber(self.tmp, core.int(self.tmp_elements(lanes, kept)))
        state[:, : 2 * count : 2] = np.take_along_axis(keys, chosen, 1)
        state[:, 1 : 2 * count : 2] = np.take_along_axis(places, chosen, 1).view(np.float32)


@irdl_op_definition
class RankValuesOp(_OrderedOp):
    """The elements of a complete state in order."""

    name = "ascendc.rank_values"
    dst = operand_def(LocalType)
    state = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::RankValues<{first_ones}>({dst}, {state}, {tmp}, {rows}, {kept})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "state": F32, "tmp": (dt.I32,)}

    def accesses(self) -> tuple[Access, ...]:
        size = tile(self.param("rows"), self.param("kept"))
        return self.read("state", self.state_size()), self.written("tmp", size), self.written("dst", size)

    def cost(self) -> tuple[Cost, ...]:
        rows, size = self.param("rows"), tile(self.param("rows"), self.param("kept"))
        return Cost.of("GatherMask", 2 * size, rows), Cost.of("Adds", 4 * size, 4)

    def run(self, core: Core) -> None:
        rows, kept = core.int(self.param("rows")), core.int(self.param("kept"))
        keys = self.pairs(core)[:, ::2].copy()
        core.clobber(self.tmp, core.int(tile(rows, kept)))
        dst = core.tile(self.dst, rows, kept)
        dst[:] = 0
        dst[:, :kept] = from_keys(keys, self.order)


@irdl_op_definition
class RankPlacesOp(_OrderedOp):
    """Where the elements of a complete state stood in their rows."""

    name = "ascendc.rank_places"
    dst = operand_def(LocalType)
    state = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::RankPlaces({dst}, {state}, {rows}, {kept})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": (dt.I32,), "state": F32}

    def accesses(self) -> tuple[Access, ...]:
        return self.read("state", self.state_size()), self.written("dst", tile(self.param("rows"), self.param("kept")))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("GatherMask", 2 * tile(self.param("rows"), self.param("kept")), self.param("rows")),)

    def run(self, core: Core) -> None:
        rows, kept = core.int(self.param("rows")), core.int(self.param("kept"))
        places = np.ascontiguousarray(self.pairs(core)[:, 1::2]).view(np.int32)
        dst = core.tile(self.dst, rows, kept)
        dst[:] = 0
        dst[:, :kept] = places


OPS = (RankTileOp, RankValuesOp, RankPlacesOp)
