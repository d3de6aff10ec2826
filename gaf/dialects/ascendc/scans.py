# SPDX-License-Identifier: Apache-2.0
"""Running folds of tiles on the vector core: `gaf_scan.h` of the device library."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp, Cpp, pitch, tile
from gaf.dialects.ascendc.attributes import MonAttr
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, expr, maximum, round_up
from gaf.dialects.common.monoid import by_name

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

F32 = (dt.F32,)
STEPS = 10
"""Doublings of the distance that a row is priced with: a row of 1024."""

_CALL = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min"}


class _ScanOp(ApiOp):
    """Base: `carry` holds the fold of what came before, and then of everything; `exclusive` (1) leaves out the element."""

    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)
    mon = prop_def(MonAttr)
    exclusive = prop_def(ExprAttr)

    HEADER: ClassVar[str] = "gaf_scan.h"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "carry": F32, "src": F32, "tmp": F32}

    def cpp_fields(self, cpp: Cpp) -> dict[str, str]:
        return {**super().cpp_fields(cpp), "without": "true" if self.param("exclusive") == 1 else "false"}

    def size(self) -> tuple[Expr, Expr]:
        return self.param("rows"), self.param("lanes")

    def fold(self, src: np.ndarray, first: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """(prefixes along `axis` of src behind `first`, the last state), one element after the other."""
        merge = by_name(self.mon.data.value).merge
        states = [first]
        for i in range(src.shape[axis]):
            states.append(np.asarray(merge(states[-1], np.take(src, i, axis)), np.float32))
        kept = states[:-1] if self.param("exclusive") == 1 else states[1:]
        return np.stack(kept, axis), states[-1]


@irdl_op_definition
class ScanLanesOp(_ScanOp):
    """Along the lanes; carry is a column."""

    name = "ascendc.scan_lanes"
    dst = operand_def(LocalType)
    carry = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::ScanLanes<{mon}, {without}>({dst}, {carry}, {src}, {tmp}, {rows}, {lanes})"

    @staticmethod
    def tmp_elements(rows: ExprLike, lanes: ExprLike) -> Expr:
        """`gaf::ScanLanesTmp`."""
        rows, column, row = expr(rows), round_up(rows, 8), round_up(lanes, 8)
        return rows * (row + 8) + maximum(row, column) + 9 * column

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("src", tile(rows, lanes)),
            self.written("tmp", self.tmp_elements(rows, lanes)),
            self.written("carry", rows),
            self.written("dst", tile(rows, lanes)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        elements, calls = tile(rows, lanes) * STEPS, rows * STEPS
        return Cost.of("Gather", elements, calls), Cost.of(_CALL[self.mon.data.value], elements, calls)

    def run(self, core: Core) -> None:
        rows, lanes = (core.int(p) for p in self.size())
        src, carry = core.tile(self.src, rows, lanes)[:, :lanes].copy(), core.span(self.carry, rows)
        core.clobber(self.tmp, core.int(self.tmp_elements(rows, lanes)))
        dst = core.tile(self.dst, rows, lanes)
        dst[:] = 0
        dst[:, :lanes], carry[:] = self.fold(src, carry.copy(), 1)


@irdl_op_definition
class ScanRowsOp(_ScanOp):
    """Along the rows; carry is a row."""

    name = "ascendc.scan_rows"
    dst = operand_def(LocalType)
    carry = operand_def(LocalType)
    src = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::ScanRows<{mon}, {without}>({dst}, {carry}, {src}, {rows}, {lanes})"

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("src", tile(rows, lanes)),
            self.written("carry", pitch(lanes)),
            self.written("dst", tile(rows, lanes)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        return (Cost.of(_CALL[self.mon.data.value], tile(rows, lanes), rows), Cost.of("PipeBarrier", 0, rows))

    def run(self, core: Core) -> None:
        rows, lanes = (core.int(p) for p in self.size())
        carry = core.tile(self.carry, 1, lanes)
        dst = core.tile(self.dst, rows, lanes)
        with np.errstate(all="ignore"):
            dst[:], carry[0] = self.fold(core.tile(self.src, rows, lanes).copy(), carry[0].copy(), 0)


OPS = (ScanLanesOp, ScanRowsOp)
