# SPDX-License-Identifier: Apache-2.0
"""Vector functions of the device library on rows x lanes: broadcast operands, reductions, transposes and casts.

A tile is rows x lanes in UB with row pitch `pitch(lanes)`; a column ([rows]) or a row ([lanes]) is a tile
with one row. Every function writes pad lanes too, with any value. Scratch sizes are class methods, so that a
plan can ask before the op exists; they equal the `...Bytes` functions of `gaf_vector.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp, local_dtype, pitch, tile
from gaf.dialects.ascendc.attributes import (
    BopAttr,
    Mon,
    MonAttr,
    RoundModeAttr,
    invalid,
)
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.ascendc.vector import CAST_PAIRS, convert
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, const, expr, maximum, minimum, round_up

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

F32 = (dt.F32,)
WORD = (dt.F32, dt.I32)
"""What broadcasts and elementwise arithmetic work on."""

_BOP_COST = {
    "add": "Add",
    "sub": "Sub",
    "rsub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "rdiv": "Div",
    "max": "Max",
    "min": "Min",
}
_MON_COST = {"sum": "Add", "max": "Max", "min": "Min", "prod": "Mul"}


class RowsOp(ApiOp):
    """Base of the functions on rows x lanes."""

    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)

    HEADER: ClassVar[str] = "gaf_vector.h"

    def size(self) -> tuple[Expr, Expr]:
        return self.param("rows"), self.param("lanes")

    def ints(self, core: Core) -> tuple[int, int]:
        return core.int(self.param("rows")), core.int(self.param("lanes"))


class _BroadcastBinaryOp(RowsOp):
    """Base of the operations between a tile and a column or row; integers don't divide."""

    op = prop_def(BopAttr)

    def verify_(self) -> None:
        super().verify_()
        kind = local_dtype(self.operand_named("dst"))
        if kind.is_int and self.op.data.value in ("div", "rdiv"):
            raise invalid(f"{self.name}: no division of {kind.name}", expected="f32", got=kind.name)


@irdl_op_definition
class BinaryColOp(_BroadcastBinaryOp):
    """`dst[r, c] = a[r, c] op col[r]`; dst may be a."""

    name = "ascendc.binary_col"
    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    col = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::BinaryCol<{op}>({dst}, {a}, {col}, {tmp}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": WORD}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "a", "col", "tmp"),)
    INPLACE: ClassVar[tuple[str, ...]] = ("a",)

    @classmethod
    def tmp_elements(cls, rows: ExprLike) -> Expr:
        """Floats of tmp: one 32-byte block per row, rows in groups of 8."""
        return round_up(rows, 8) * 8

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("a", tile(rows, lanes)),
            self.read("col", round_up(rows, 8)),
            self.written("tmp", self.tmp_elements(rows)),
            self.written("dst", tile(rows, lanes)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        return (
            Cost.of("Brcb", self.tmp_elements(rows)),
            Cost.of(_BOP_COST[self.op.data.value], tile(rows, lanes)),
        )

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        a, col = core.tile(self.a, rows, lanes), core.span(self.col, rows).copy()
        core.clobber(self.tmp, core.int(self.tmp_elements(rows)))
        core.tile(self.dst, rows, lanes)[:] = self.op.data.numpy(a, col[:, None])


@irdl_op_definition
class BinaryRowOp(_BroadcastBinaryOp):
    """`dst[r, c] = a[r, c] op row[c]`; dst may be a."""

    name = "ascendc.binary_row"
    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    row = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::BinaryRow<{op}>({dst}, {a}, {row}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": WORD}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "a", "row"),)
    INPLACE: ClassVar[tuple[str, ...]] = ("a",)

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("a", tile(rows, lanes)),
            self.read("row", pitch(lanes)),
            self.written("dst", tile(rows, lanes)),
        )

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(_BOP_COST[self.op.data.value], tile(*self.size())),)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        row = core.tile(self.row, 1, lanes)
        core.tile(self.dst, rows, lanes)[:] = self.op.data.numpy(core.tile(self.a, rows, lanes), row)


@irdl_op_definition
class BroadcastColOp(RowsOp):
    """`dst[r, c] = col[r]`."""

    name = "ascendc.broadcast_col"
    dst = operand_def(LocalType)
    col = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::BroadcastCol({dst}, {col}, {tmp}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": WORD}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "col", "tmp"),)

    @classmethod
    def tmp_elements(cls, rows: ExprLike) -> Expr:
        """Floats of tmp: one 32-byte block per row, rows in groups of 8."""
        return round_up(rows, 8) * 8

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("col", round_up(rows, 8)),
            self.written("tmp", self.tmp_elements(rows)),
            self.written("dst", tile(rows, lanes)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        return Cost.of("Brcb", self.tmp_elements(rows)), Cost.of("Copy", tile(rows, lanes))

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        col = core.span(self.col, rows).copy()
        core.clobber(self.tmp, core.int(self.tmp_elements(rows)))
        core.tile(self.dst, rows, lanes)[:] = col[:, None]


@irdl_op_definition
class BroadcastRowOp(RowsOp):
    """`dst[r, c] = row[c]`."""

    name = "ascendc.broadcast_row"
    dst = operand_def(LocalType)
    row = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::BroadcastRow({dst}, {row}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": WORD}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "row"),)

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return self.read("row", pitch(lanes)), self.written("dst", tile(rows, lanes))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Copy", tile(*self.size())),)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        core.tile(self.dst, rows, lanes)[:] = core.tile(self.row, 1, lanes)


def _fold(values: np.ndarray, mon: Mon, axis: int) -> np.ndarray:
    fold = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}[mon.value]
    return fold(values, axis=axis)


@irdl_op_definition
class RowReduceOp(RowsOp):
    """`col[r] = fold over the real lanes of src[r, :]`; col is written up to a multiple of 8, its pad with
    0.
    """

    name = "ascendc.row_reduce"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)
    mon = prop_def(MonAttr)

    CPP: ClassVar[str] = "gaf::RowReduce<{mon}>({dst}, {src}, {tmp}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {n: F32 for n in ("dst", "src", "tmp")}

    PARTS: ClassVar[int] = 4
    """Partial results of 64 lanes that are kept for every row, so that folds don't wait for each other."""

    @classmethod
    def tmp_elements(cls, rows: ExprLike, lanes: ExprLike) -> Expr:
        """Floats of tmp for tiles of up to so many rows and lanes."""
        return expr(rows) * 64 * minimum(maximum(expr(lanes) // 64, 1), cls.PARTS)

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return (
            self.read("src", tile(rows, lanes)),
            self.written("tmp", self.tmp_elements(rows, lanes)),
            self.written("dst", round_up(rows, 8)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        pieces = round_up(lanes, 64)
        return (
            Cost.of("Copy", rows * 64),
            Cost.of(_MON_COST[self.mon.data.value], rows * (pieces - 64), pieces // 64),
            Cost.of("WholeReduceSum", rows * 64),
        )

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        col = _fold(core.tile(self.src, rows, lanes)[:, :lanes], self.mon.data, 1)
        core.clobber(self.tmp, core.int(self.tmp_elements(rows, lanes)))
        dst = core.span(self.dst, -(-rows // 8) * 8)
        dst[rows:] = 0
        dst[:rows] = col


@irdl_op_definition
class ColReduceOp(RowsOp):
    """`row[c] = fold over the rows of src[:, c]`."""

    name = "ascendc.col_reduce"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    mon = prop_def(MonAttr)

    CPP: ClassVar[str] = "gaf::ColReduce<{mon}>({dst}, {src}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {n: F32 for n in ("dst", "src")}

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        return self.read("src", tile(rows, lanes)), self.written("dst", pitch(lanes))

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        return (Cost.of(_MON_COST[self.mon.data.value], tile(rows, lanes), (lanes + 63) // 64),)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        core.tile(self.dst, 1, lanes)[0] = _fold(core.tile(self.src, rows, lanes), self.mon.data, 0)


BYTES = (dt.I8, dt.U8)


@irdl_op_definition
class TransposeTileOp(RowsOp):
    """`dst[c, r] = src[r, c]` for a src of rows x lanes; tmp is a row of dst."""

    name = "ascendc.transpose_tile"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::TransposeTile({dst}, {src}, {tmp}, {rows}, {lanes})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": (dt.F32, dt.F16, dt.BF16, dt.I32, dt.I16)}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src", "tmp"),)

    @classmethod
    def tmp_elements(cls, rows: ExprLike) -> Expr:
        """Elements of tmp for tiles of up to so many rows."""
        return round_up(rows, 16)

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        kind = local_dtype(self.dst)
        return (
            self.read("src", tile(rows, lanes, kind)),
            self.written("tmp", self.tmp_elements(rows)),
            self.written("dst", tile(lanes, rows, kind)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        return (Cost.of("TransDataTo5HD", tile(rows, lanes, local_dtype(self.dst)), (lanes + 7) // 8),)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        values = core.tile(self.src, rows, lanes)[:, :lanes].copy()
        core.clobber(self.tmp, core.int(self.tmp_elements(rows)))
        dst = core.tile(self.dst, lanes, rows)
        dst[:] = 0
        dst[:, :rows] = values.T


@irdl_op_definition
class TakeLanesOp(RowsOp):
    """`dst[r, c] = src[r, place(c)]` with `place(c) = (c * mul + rest) floordiv div + shift`, limited to
    [0, span); rows of src have the pitch of `span` lanes. 0 <= rest < div, and lanes * mul < 2^21.
    """

    name = "ascendc.take_lanes"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)
    span = prop_def(ExprAttr)
    mul = prop_def(ExprAttr)
    rest = prop_def(ExprAttr)
    div = prop_def(ExprAttr)
    shift = prop_def(ExprAttr)

    CPP: ClassVar[str] = (
        "gaf::TakeLanes({dst}, {src}, {tmp}, {rows}, {lanes}, {span}, {mul}, {rest}, {div}, {shift})"
    )
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {
        "dst": (dt.F32, dt.F16, dt.BF16, dt.I32, dt.I16),
        "tmp": (dt.I32,),
    }
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)
    SIGNED: ClassVar[tuple[str, ...]] = ("shift",)

    @classmethod
    def tmp_elements(cls, lanes: ExprLike, kind: dt.DType) -> Expr:
        """Offsets of one row of dst, pad lanes included, and as many floats."""
        return round_up(pitch(lanes, kind), 64) * 2

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        kind = local_dtype(self.dst)
        return (
            self.read("src", tile(rows, self.param("span"), kind)),
            self.written("tmp", self.tmp_elements(lanes, kind)),
            self.written("dst", tile(rows, lanes, kind)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        kind = local_dtype(self.dst)
        offsets = pitch(lanes, kind)
        return Cost.of("CreateVecIndex", offsets * 8, 8), Cost.of("Gather", tile(rows, lanes, kind), rows)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        span, mul, rest, div, shift = (core.int(self.param(p)) for p in ("span", "mul", "rest", "div", "shift"))
        if not (span > 0 and mul > 0 and 0 <= rest < div and lanes * mul < 1 << 21):
            raise core.error(self, f"lane c at (c * {mul} + {rest}) / {div} of a row of {span}")
        src = core.tile(self.src, rows, span)
        core.clobber(self.tmp, core.int(self.tmp_elements(lanes, local_dtype(self.dst))))
        places = np.clip((np.arange(lanes) * mul + rest) // div + shift, 0, span - 1)
        dst = core.tile(self.dst, rows, lanes)
        dst[:] = 0
        dst[:, :lanes] = src[:, places]


@irdl_op_definition
class CastTileOp(RowsOp):
    """`dst[r, c] = src[r, c]` converted, each side with its own pitch; bytes <-> f32 take two steps through
    `tmp`.
    """

    name = "ascendc.cast_tile"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = opt_operand_def(LocalType)
    mode = prop_def(RoundModeAttr)

    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"tmp": (dt.F16,)}

    @classmethod
    def needs_tmp(cls, source: dt.DType, target: dt.DType) -> bool:
        """Whether the conversion goes through half."""
        return (source in BYTES and target is dt.F32) or (source is dt.F32 and target in BYTES)

    @classmethod
    def tmp_elements(cls, source: dt.DType, target: dt.DType, rows: ExprLike, lanes: ExprLike) -> Expr:
        """Halves of tmp; 0 when the conversion is one instruction."""
        return tile(rows, lanes, dt.F16) if cls.needs_tmp(source, target) else const(0)

    def pair(self) -> tuple[dt.DType, dt.DType]:
        return local_dtype(self.src), local_dtype(self.dst)

    def cpp(self, cpp: Any) -> list[str]:
        tmp = "{tmp}, " if self.tmp is not None else ""
        text = "gaf::CastTile({dst}, {src}, " + tmp + "{mode}, {rows}, {lanes});"
        return [text.format_map(self.cpp_fields(cpp))]

    def verify_(self) -> None:
        super().verify_()
        source, target = self.pair()
        if self.needs_tmp(source, target):
            if self.tmp is None:
                raise invalid(
                    f"ascendc.cast_tile from {source.name} to {target.name}", expected="a tmp tile of f16"
                )
        elif (source, target) not in CAST_PAIRS:
            raise invalid(
                f"ascendc.cast_tile: no conversion from {source.name} to {target.name}",
                expected=", ".join(d.name for s, d in CAST_PAIRS if s is source) or "another source type",
                got=target.name,
                hint="convert to f32 first",
            )

    def accesses(self) -> tuple[Access, ...]:
        rows, lanes = self.size()
        source, target = self.pair()
        tmp = (self.written("tmp", tile(rows, lanes, dt.F16)),) if self.tmp is not None else ()
        return (
            self.read("src", tile(rows, lanes, source)),
            *tmp,
            self.written("dst", tile(rows, lanes, target)),
        )

    def cost(self) -> tuple[Cost, ...]:
        rows, lanes = self.size()
        steps = 2 if self.needs_tmp(*self.pair()) else 1
        return (Cost.of("Cast", tile(rows, lanes) * steps, steps),)

    def run(self, core: Core) -> None:
        rows, lanes = self.ints(core)
        values = convert(core.tile(self.src, rows, lanes)[:, :lanes], self.pair()[1], self.mode.data)
        if self.tmp is not None:
            core.clobber(self.tmp, rows * -(-lanes // 16) * 16)
        dst = core.tile(self.dst, rows, lanes)
        dst[:] = 0
        dst[:, :lanes] = values


OPS = (
    BinaryColOp, BinaryRowOp, BroadcastColOp, BroadcastRowOp, RowReduceOp, ColReduceOp, TransposeTileOp, TakeLanesOp, CastTileOp,
)  # fmt: skip
