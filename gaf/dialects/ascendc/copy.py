# SPDX-License-Identifier: Apache-2.0
"""Copies between global memory and the unified buffer: MTE2 loads and MTE3 stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp, local_dtype, tile
from gaf.dialects.ascendc.attributes import Pipe
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import GmType, LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr

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


OPS = (LoadTileOp, StoreTileOp, GatherTileOp)
