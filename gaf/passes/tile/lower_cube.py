# SPDX-License-Identifier: Apache-2.0
"""The cube program of a lowered kernel: blocks of one matmul into the ring, or straight to the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.cube import MmadRunOp
from gaf.dialects.ascendc.sync import CrossCoreSetFlagOp, CrossCoreWaitFlagOp
from gaf.dialects.common.index import Expr, ceildiv, const, maximum, sym
from gaf.dialects.tile.structure import GridOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.cube import CubePlan, operand_address
from gaf.passes.tile.emit import Emitter, gm_name
from gaf.passes.tile.forms import linear, refuse, require_contiguous, tile_type

if TYPE_CHECKING:
    from gaf.passes.tile.lower_tile import Lowering

BLOCK, BLOCKS = sym("block"), sym("blocks")


@dataclass(frozen=True)
class Round:
    """One turn of a group's loop: its number, the grid tile, the ring slot and the slot's first element."""

    number: Expr
    tile: Expr
    slot: Expr
    ring_at: Expr


class CubeEmitter:
    """The program of the cube core."""

    def __init__(self, lowering: Lowering, e: Emitter) -> None:
        assert lowering.cube is not None
        self.lowering = lowering
        self.kb = lowering.kb
        self.plan: CubePlan = lowering.cube
        self.e = e

    def run(self) -> None:
        kb, plan, e = self.kb, self.plan, self.e
        kernel = self.lowering.kernel
        grids = [op for op in kernel.body.block.ops if isinstance(op, GridOp)]
        if len(grids) > 1:
            raise refuse(grids[1], "a kernel with a matmul has a second grid", hint="split the kernel")
        e.node(plan.contract)
        self.mmad = kb.init_mmad(
            "mmad",
            tile_type(plan.left.load.res).dtype,
            plan.left.transposed,
            plan.right.transposed,
            plan.output,
            plan.block[0],
            plan.block[1],
        )
        _, total = self.lowering.tiles[plan.grid]
        if plan.ring is None:
            with e.for_("tile", BLOCK, total, BLOCKS) as tile, self.lowering.grid_windows(plan.grid, tile, e):
                self._store_block()
            return
        ring = plan.ring
        with self.lowering.ring_loop(total, e) as now, self.lowering.grid_windows(plan.grid, now.tile, e):
            with e.if_(now.number, "ge", ring.slots):
                kb.call(CrossCoreWaitFlagOp, flag=now.slot + ring.slots)
            self._fill_ring(now.ring_at)
            kb.call(CrossCoreSetFlagOp, flag=now.slot, pipe="FIX")
        # every flag that was set has to be waited for before the kernel ends
        rounds = e.name(ceildiv(total - BLOCK, BLOCKS), "rounds")
        with e.for_("round", maximum(0, rounds - ring.slots), rounds) as number:
            kb.call(CrossCoreWaitFlagOp, flag=number % ring.slots + ring.slots)

    def _fill_ring(self, ring_at: Expr) -> None:
        e, plan = self.e, self.plan
        assert plan.ring is not None
        row_pitch = e.name(plan.ring.pitch, "ring_pitch")
        ring = self.lowering.ring
        if plan.panel is None:
            self._run(ring, ring_at, row_pitch)
            return
        step = e.evaluate(plan.panel.step)
        low, size = e.windows[plan.columns]
        high = e.name(low + size, f"{plan.columns}_end")
        with e.for_(f"{plan.columns}0", low, high, step) as variable:
            with e.narrowed({plan.columns: e.step_window(plan.columns, variable, step, high)}):
                self._run(ring, ring_at + variable - low, row_pitch)

    def _store_block(self) -> None:
        store = self.plan.store
        assert store is not None
        target = store.target.type
        assert isinstance(target, GmType)
        axes = (self.plan.rows, self.plan.columns)
        what = f"the store to '{gm_name(store.target)}'"
        e = self.e
        address = linear(store, target.shape, store.index, axes, e.lows(), e.ranges, what)
        require_contiguous(store, address, axes, what)
        self._run(e.array(store.target), e.name(address.base, "c_at"), e.name(address.row_step, "ldc"))

    def _run(self, c: SSAValue, c_at: Expr, row_pitch: Expr) -> None:
        e, plan, kernel = self.e, self.plan, self.lowering.kernel
        e.node(plan.contract)
        params: dict[str, Expr] = {"c_at": c_at, "ldc": row_pitch}
        for letter, operand in (("a", plan.left), ("b", plan.right)):
            address = operand_address(kernel, operand.load, operand.axes, e.lows())
            params[f"{letter}_at"] = e.name(address.base, f"{letter}_at")
            params[f"ld{letter}"] = e.name(operand.pitch, f"ld{letter}")
        for letter, axis in (("m", plan.rows), ("n", plan.columns), ("k", plan.summed)):
            params[letter] = e.name(e.windows[axis][1], f"{letter}_size") if axis else const(1)
        a, b = e.array(plan.left.load.source), e.array(plan.right.load.source)
        self.kb.call(MmadRunOp, self.mmad, c, a, b, **params)
