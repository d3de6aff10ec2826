# SPDX-License-Identifier: Apache-2.0
"""Copies between global memory and the unified buffer: MTE2 loads and MTE3 stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import BLOCK_BYTES, Access, ApiOp, Cpp, local_dtype, pitch, tile
from gaf.dialects.ascendc.attributes import Pipe, ScalarAttr, invalid
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import GmType, LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, round_up

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core


@irdl_op_definition
class LoadTileOp(ApiOp):
    """`dst[r, c] = src[src_at + r * stride + c]`; pad lanes become 0.

    The stride is in elements; 0 reads one row again.
    """

    name = "ascendc.load_tile"
    dst = operand_def(LocalType)
    src = operand_def(GmType)
    src_at = prop_def(ExprAttr)
    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)
    stride = prop_def(ExprAttr)

    CPP: ClassVar[str] = "gaf::LoadTile({dst}, {src}, {rows}, {lanes}, {stride})"
    PIPE: ClassVar[Pipe] = Pipe.MTE2
    HEADER: ClassVar[str] = "gaf_vector.h"
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", tile(self.param("rows"), self.param("lanes"), local_dtype(self.dst))),)

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("GmToUb", self.param("rows") * self.param("lanes") * local_dtype(self.dst).bytes),)

    def run(self, core: Core) -> None:
        rows, lanes = core.int(self.param("rows")), core.int(self.param("lanes"))
        dst = core.tile(self.dst, rows, lanes)
        at, stride = core.int(self.param("src_at")), core.int(self.param("stride"))
        dst[:] = 0
        dst[:, :lanes] = core.gm(self.src).read(self, core, at, rows, lanes, stride)


@irdl_op_definition
class LoadTileBoxOp(ApiOp):
    """A tile of which only a box comes from memory: `dst[r, c] = src[src_at + (r - row0) * stride + c - col0]`
    for row0 <= r < row0 + nrows and col0 <= c < col0 + ncols, `fill` elsewhere, pad lanes included.

    An empty box reads nothing, wherever src_at points. The call also uses the vector pipe, for the fill, and
    waits for it itself. 64-bit types fill with 0 only.
    """

    name = "ascendc.load_tile_box"
    dst = operand_def(LocalType)
    src = operand_def(GmType)
    src_at = prop_def(ExprAttr)
    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)
    row0 = prop_def(ExprAttr)
    col0 = prop_def(ExprAttr)
    nrows = prop_def(ExprAttr)
    ncols = prop_def(ExprAttr)
    stride = prop_def(ExprAttr)
    fill = prop_def(ScalarAttr)

    CPP: ClassVar[str] = (
        "gaf::LoadTileBox({dst}, {src}, {rows}, {lanes}, {row0}, {col0}, {nrows}, {ncols}, {stride}, {fill})"
    )
    PIPE: ClassVar[Pipe] = Pipe.MTE2
    HEADER: ClassVar[str] = "gaf_vector.h"
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)
    SIGNED: ClassVar[tuple[str, ...]] = ("src_at",)

    def verify_(self) -> None:
        super().verify_()
        kind = local_dtype(self.dst)
        if kind.bytes == 8 and (self.fill.data.expr is not None or self.fill.data.value != 0):
            raise invalid(
                f"{self.name}: a tile of {kind.name} is filled with {self.fill.data}",
                expected="0: copies pad 64-bit types with nothing else",
            )
        for first, count, size in (("row0", "nrows", "rows"), ("col0", "ncols", "lanes")):
            beyond = (self.param(first) + self.param(count) - self.param(size)).as_int()
            if beyond is not None and beyond > 0:
                raise invalid(
                    f"{self.name}: the box ends outside of the tile",
                    expected=f"{first} + {count} <= {self.param(size)}",
                    got=self.param(first) + self.param(count),
                )

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", tile(self.param("rows"), self.param("lanes"), local_dtype(self.dst))),)

    def cost(self) -> tuple[Cost, ...]:
        kind = local_dtype(self.dst)
        words = tile(self.param("rows"), self.param("lanes"), kind) * kind.bytes // 4
        return (
            Cost.of("Duplicate", words),
            Cost.of("GmToUb", self.param("nrows") * self.param("ncols") * kind.bytes),
        )

    def run(self, core: Core) -> None:
        names = ("rows", "lanes", "row0", "col0", "nrows", "ncols", "stride", "src_at")
        rows, lanes, row0, col0, nrows, ncols, stride, at = (core.int(self.param(n)) for n in names)
        inside = 0 <= row0 <= row0 + nrows <= rows and 0 <= col0 <= col0 + ncols <= lanes
        if nrows < 0 or ncols < 0 or not inside:
            box = f"rows {row0}..{row0 + nrows}, lanes {col0}..{col0 + ncols}"
            raise core.error(self, f"the box {box} lies outside of a tile of {rows} x {lanes}")
        dst = core.tile(self.dst, rows, lanes)
        dst[:] = core.scalar(self.fill.data, dst.dtype)
        if nrows and ncols:
            values = core.gm(self.src).read(self, core, at, nrows, ncols, stride)
            dst[row0 : row0 + nrows, col0 : col0 + ncols] = values
            if nrows == rows and ncols == lanes:
                dst[:, lanes:] = 0  # a whole tile is an ordinary load


@irdl_op_definition
class StoreTileOp(ApiOp):
    """`dst[dst_at + r * stride + c] = src[r, c]` for the real lanes.

    The stride is in elements, and >= lanes when there are several rows.
    """

    name = "ascendc.store_tile"
    dst = operand_def(GmType)
    src = operand_def(LocalType)
    dst_at = prop_def(ExprAttr)
    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)
    stride = prop_def(ExprAttr)

    CPP: ClassVar[str] = "gaf::StoreTile({dst}, {src}, {rows}, {lanes}, {stride})"
    PIPE: ClassVar[Pipe] = Pipe.MTE3
    HEADER: ClassVar[str] = "gaf_vector.h"
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)

    def accesses(self) -> tuple[Access, ...]:
        return (self.read("src", tile(self.param("rows"), self.param("lanes"), local_dtype(self.src))),)

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("UbToGm", self.param("rows") * self.param("lanes") * local_dtype(self.src).bytes),)

    def run(self, core: Core) -> None:
        rows, lanes = core.int(self.param("rows")), core.int(self.param("lanes"))
        src = core.tile(self.src, rows, lanes)[:, :lanes]
        core.gm(self.dst).write(
            self, core, core.int(self.param("dst_at")), core.int(self.param("stride")), src
        )


@irdl_op_definition
class GatherTileOp(ApiOp):
    """`dst[r, c] = table[table_at + row * table_stride + c]`, `row = ids[ids_at + r * id_stride]`.

    A negative id counts from the end of the `table_rows` rows; an id outside is an error.
    """

    name = "ascendc.gather_tile"
    dst = operand_def(LocalType)
    table = operand_def(GmType)
    ids = operand_def(GmType)
    table_at = prop_def(ExprAttr)
    ids_at = prop_def(ExprAttr)
    rows = prop_def(ExprAttr)
    lanes = prop_def(ExprAttr)
    id_stride = prop_def(ExprAttr)
    table_stride = prop_def(ExprAttr)
    table_rows = prop_def(ExprAttr)

    CPP: ClassVar[str] = (
        "gaf::GatherTile({dst}, {table}, {ids}, {rows}, {lanes}, {id_stride}, {table_stride}, {table_rows})"
    )
    PIPE: ClassVar[Pipe] = Pipe.MTE2
    HEADER: ClassVar[str] = "gaf_vector.h"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"ids": (dt.I32, dt.I64)}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "table"),)
    SIGNED: ClassVar[tuple[str, ...]] = ("id_stride",)
    SCALAR_READS: ClassVar[tuple[str, ...]] = ("ids",)

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", tile(self.param("rows"), self.param("lanes"), local_dtype(self.dst))),)

    def cost(self) -> tuple[Cost, ...]:
        row_bytes = self.param("lanes") * local_dtype(self.dst).bytes
        return (Cost.of("GmToUb", self.param("rows") * row_bytes, self.param("rows")),)

    def run(self, core: Core) -> None:
        rows, lanes = core.int(self.param("rows")), core.int(self.param("lanes"))
        dst = core.tile(self.dst, rows, lanes)
        dst[:] = 0
        count = core.int(self.param("table_rows"))
        table, ids = core.gm(self.table), core.gm(self.ids)
        at, stride = core.int(self.param("table_at")), core.int(self.param("table_stride"))
        first, step = core.int(self.param("ids_at")), core.int(self.param("id_stride"))
        for r in range(rows):
            row = int(ids.read(self, core, first + r * step, 1, 1, 1)[0, 0])
            if not -count <= row < count:
                raise core.error(self, f"index {row} is outside a table of {count} rows")
            row += count if row < 0 else 0
            dst[r, :lanes] = table.read(self, core, at + row * stride, 1, lanes, lanes)[0]


MAX_BURSTS, MAX_BURST_BYTES = 4095, 2_097_151
"""Limits of one DataCopyPad (asc-devkit, DataCopyPad)."""


class _PadOp(ApiOp):
    """Base of the raw copies: `bursts` rows of `length` elements.

    `gm_gap` is the distance between rows in global memory in bytes, end to start; `ub_gap` the one in the
    unified buffer in 32-byte blocks, after each row was padded to whole blocks.
    """

    bursts = prop_def(ExprAttr)
    length = prop_def(ExprAttr)
    gm_gap = prop_def(ExprAttr)
    ub_gap = prop_def(ExprAttr)

    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)

    def local(self) -> SSAValue:
        """The operand in the unified buffer."""
        return next(v for v in self.operands if isinstance(v.type, LocalType))

    def row(self) -> Expr:
        """Elements from one row to the next in the unified buffer."""
        block = BLOCK_BYTES // local_dtype(self.local()).bytes
        return round_up(self.param("length"), block) + self.param("ub_gap") * block

    def span(self) -> Expr:
        """Elements in the unified buffer from the start of the first row to the end of the last."""
        return self.row() * self.param("bursts") - self.param("ub_gap") * (
            BLOCK_BYTES // local_dtype(self.local()).bytes
        )

    def verify_(self) -> None:
        super().verify_()
        size = local_dtype(self.local()).bytes
        for what, value, limit in (
            ("bursts", self.param("bursts"), MAX_BURSTS),
            ("bytes of a burst", self.param("length") * size, MAX_BURST_BYTES),
        ):
            number = value.as_int()
            if number is not None and number > limit:
                raise invalid(f"{self.name}: {what}", expected=f"at most {limit}", got=number)

    def cost(self) -> tuple[Cost, ...]:
        size = local_dtype(self.local()).bytes
        kind = "GmToUb" if self.PIPE is Pipe.MTE2 else "UbToGm"
        return (Cost.of(kind, self.param("bursts") * self.param("length") * size),)

    def params_text(self, cpp: Cpp) -> str:
        """The C++ of DataCopyExtParams."""
        names = {"bursts": "uint16_t", "bytes": "uint32_t", "gm_gap": "uint32_t", "ub_gap": "uint32_t"}
        values = {n: self.param(n) for n in ("bursts", "gm_gap", "ub_gap")}
        values["bytes"] = self.param("length") * local_dtype(self.local()).bytes
        gaps = ("gm_gap", "ub_gap") if self.PIPE is Pipe.MTE2 else ("ub_gap", "gm_gap")
        casts = [f"static_cast<{names[n]}>({cpp.expr(values[n])})" for n in ("bursts", "bytes", *gaps)]
        return f"DataCopyExtParams{{{', '.join(casts)}, 0}}"

    def rows_of(self, core: Core) -> np.ndarray:
        """A view [bursts, row pitch] in the unified buffer."""
        bursts, row = core.int(self.param("bursts")), core.int(self.row())
        if (
            bursts > MAX_BURSTS
            or core.int(self.param("length")) * local_dtype(self.local()).bytes > MAX_BURST_BYTES
        ):
            raise core.error(self, f"{bursts} bursts of {core.int(self.param('length'))} elements")
        flat = core.span(self.local(), core.int(self.span()))
        return np.lib.stride_tricks.as_strided(flat, (bursts, row), (row * flat.itemsize, flat.itemsize))

    def gm_stride(self, core: Core) -> int:
        gap, size = core.int(self.param("gm_gap")), local_dtype(self.local()).bytes
        if gap % size:
            raise core.error(self, f"a gap of {gap} bytes between elements of {size} bytes")
        return core.int(self.param("length")) + gap // size


@irdl_op_definition
class DataCopyPadInOp(_PadOp):
    """DataCopyPad from global memory: each row is padded to whole 32-byte blocks with zeros."""

    name = "ascendc.data_copy_pad_in"
    dst = operand_def(LocalType)
    src = operand_def(GmType)
    src_at = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.MTE2

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", self.span()),)

    def cpp(self, cpp: Cpp) -> list[str]:
        dtype = local_dtype(self.dst)
        fields = self.cpp_fields(cpp)
        pad = cpp.expr(pitch(self.param("length"), dtype) - self.param("length"))
        kind = dtype.cpp
        zero = f"DataCopyPadExtParams<{kind}>{{true, 0, static_cast<uint8_t>({pad}), static_cast<{kind}>(0)}}"
        return [f"DataCopyPad({fields['dst']}, {fields['src']}, {self.params_text(cpp)}, {zero});"]

    def run(self, core: Core) -> None:
        length, rows = core.int(self.param("length")), self.rows_of(core)
        at, stride = core.int(self.param("src_at")), self.gm_stride(core)
        padded = core.int(pitch(length, local_dtype(self.dst)))
        values = core.gm(self.src).read(self, core, at, rows.shape[0], length, stride)
        for row, value in zip(rows, values, strict=True):
            row[:padded] = 0
            row[:length] = value


@irdl_op_definition
class DataCopyPadOutOp(_PadOp):
    """DataCopyPad to global memory: exactly `length` elements of each row."""

    name = "ascendc.data_copy_pad_out"
    dst = operand_def(GmType)
    src = operand_def(LocalType)
    dst_at = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.MTE3

    def accesses(self) -> tuple[Access, ...]:
        return (self.read("src", self.span()),)

    def cpp(self, cpp: Cpp) -> list[str]:
        fields = self.cpp_fields(cpp)
        return [f"DataCopyPad({fields['dst']}, {fields['src']}, {self.params_text(cpp)});"]

    def run(self, core: Core) -> None:
        length, rows = core.int(self.param("length")), self.rows_of(core)
        values = np.array([row[:length] for row in rows])
        core.gm(self.dst).write(self, core, core.int(self.param("dst_at")), self.gm_stride(core), values)


OPS = (LoadTileOp, LoadTileBoxOp, StoreTileOp, GatherTileOp, DataCopyPadInOp, DataCopyPadOutOp)
