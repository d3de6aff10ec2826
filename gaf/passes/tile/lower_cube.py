# SPDX-License-Identifier: Apache-2.0
"""The cube program of a lowered kernel: blocks of matmuls into rings, or straight to an output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from gaf.dialects.ascendc.cube import MmadRunOp, MmadWindowsOp, ReleaseMmadOp, SetHf32Op
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, product, sym
from gaf.dialects.tile.folds import ContractOp
from gaf.dialects.tile.structure import ForOp, SyncOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.cube import Block, Operand, operand_base
from gaf.passes.tile.emit import Condition, Emitter, gm_name
from gaf.passes.tile.forms import linear, require_contiguous
from gaf.passes.tile.handover import Part, Step

if TYPE_CHECKING:
    from gaf.passes.tile.lower_tile import Lowering

BLOCK, BLOCKS = sym("block"), sym("blocks")


class CubeEmitter:
    """The program of the cube core."""

    def __init__(self, lowering: Lowering, e: Emitter) -> None:
        assert lowering.cube is not None
        self.lowering = lowering
        self.kb = lowering.kb
        self.plan = lowering.cube
        self.e = e
        self.mmads: dict[tuple[dt.DType, bool, bool, dt.DType], SSAValue] = {}

    def run(self) -> None:
        self._init()
        hf32 = self.lowering.hf32 and any(kind is dt.F32 for kind, *_ in self.mmads)
        if hf32:
            self.kb.call(SetHf32Op, on=1)
        self._grids()
        if self.lowering.keeps_left:
            self.kb.call(ReleaseMmadOp, *self.mmads.values())
        if hf32:  # the mode is the core's: leave it as it was for the next kernel
            self.kb.call(SetHf32Op, on=0)

    def _grids(self) -> None:
        for op in self.lowering.kernel.body.block.ops:
            if isinstance(op, SyncOp):
                self.kb.call(SyncAllOp)
            elif op is self.plan.grid:
                self._grid()

    def _grid(self) -> None:
        plan, e, lowering = self.plan, self.e, self.lowering
        todo = plan.steps("aic")
        if lowering.plan.kind == "aic":
            ops = [step.op for step in todo if step.op is not None]
            if lowering.keeps_left:
                with lowering.rings.tiles(plan.grid, e):
                    self._ops(ops)
                return
            _, total = lowering.tiles[plan.grid]
            with e.for_("tile", BLOCK, total, BLOCKS) as tile, lowering.grid_windows(plan.grid, tile, e):
                self._ops(ops)
            return
        if plan.early:
            for late in lowering.rings.overlapped(plan.grid, e):
                self._round(todo[plan.early :] if late else todo[: plan.early])
        elif plan.ring is None:
            with lowering.rings.rounds(plan.grid, e):
                self._round(todo)
        else:
            with lowering.rings.tiles(plan.grid, e) as tile, lowering.rings.turns(plan.ring, tile, e) as turns:
                for lag, part in groupby(todo, lambda step: step.lag):
                    with turns.at(lag) as conditions:
                        self._round(part, conditions)
        lowering.rings.drain("aic", plan.grid, plan.ring, e)

    def _round(self, todo: Iterable[Step], conditions: Sequence[Condition] = ()) -> None:
        """The ops of a round on some conditions, and its signals."""
        for step in todo:
            if step.op is not None:
                with self.e.on(conditions):
                    self._ops([step.op])
            self.lowering.rings.signals([step], self.e)

    def _init(self) -> None:
        """A BlockMmad per operand layout and type; all share the buffers of the first."""
        first: SSAValue | None = None
        for op, block in self.plan.blocks.items():
            if block.layout in self.mmads:
                continue
            self.e.node(op)
            if first is None:
                kept = self.lowering.kept_k or None
                first = self.mmads[block.layout] = self.kb.init_mmad("mmad", *block.layout, *self.plan.size, kept)
            else:
                self.mmads[block.layout] = self.kb.share_mmad("mmad", first, *block.layout)

    def _ops(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            match op:
                case ContractOp():
                    self._run(self.plan.blocks[op])
                case ForOp():
                    with self.e.loop(op):
                        self._ops(op.body.block.ops)
                case _:
                    pass  # loads and moves are where the product reads, stores where it writes

    def _run(self, block: Block) -> None:
        e = self.e
        e.node(block.contract)
        target, c_at, ldc = self._target(block)
        params: dict[str, Expr] = {"c_at": c_at, "ldc": ldc}
        arrays = []
        for letter, operand in (("a", block.left), ("b", block.right)):
            array, at = self._operand(operand)
            arrays.append(array)
            params[f"{letter}_at"] = e.name(at, f"{letter}_at")
            params[f"ld{letter}"] = e.name(operand.pitch, f"ld{letter}")
        for letter, axes in (("m", [block.rows]), ("n", [block.columns]), ("k", block.summed)):
            params[letter] = e.name(product([e.windows[a][1] for a in axes if a]), f"{letter}_size")
        rows = block.right.rows
        if rows is None:
            self.kb.call(MmadRunOp, self.mmads[block.layout], target, *arrays, **params)
            return
        params |= {"taps": rows.taps, "inner": rows.inner, "line": rows.line, "phase": rows.phase, "step": rows.step}
        params |= {"dilation": const(rows.dilation), "stride": const(rows.stride)}
        self.kb.call(MmadWindowsOp, self.mmads[block.layout], target, *arrays, **params)

    def _operand(self, operand: Operand) -> tuple[SSAValue, Expr]:
        """Array and first element of an operand."""
        lowering, e = self.lowering, self.e
        if isinstance(operand.source, Part):
            part = operand.source
            return lowering.rings.arrays[part], lowering.rings.part_at(part, e) + lowering.rings.offset_in(
                part, e
            )
        return e.array(operand.source.source), operand_base(lowering.kernel, operand, e.lows())

    def _target(self, block: Block) -> tuple[SSAValue, Expr, Expr]:
        """Array, first element and row pitch of the product."""
        lowering, e = self.lowering, self.e
        if isinstance(block.target, Part):
            part = block.target
            at = lowering.rings.part_at(part, e) + lowering.rings.offset_in(part, e)
            return lowering.rings.arrays[part], e.name(at, "c_at"), e.name(part.pitch, f"{part.name}_pitch")
        store = block.target
        target = store.target.type
        assert isinstance(target, GmType)
        axes = (block.rows, block.columns)
        what = f"the store to '{gm_name(store.target)}'"
        address = linear(store, target.shape, store.index, axes, e.lows(), e.ranges, what)
        require_contiguous(store, address, axes, what)
        return e.array(store.target), e.name(address.base, "c_at"), e.name(address.row_step, "ldc")
