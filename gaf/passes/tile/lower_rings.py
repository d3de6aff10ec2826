# SPDX-License-Identifier: Apache-2.0
"""Rounds of a kernel with a matmul: rings in workspace, the slot of a round, waits and sets of flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.sync import CrossCoreSetFlagOp, CrossCoreWaitFlagOp
from gaf.dialects.common.index import Expr, ceildiv, const, maximum, minimum, sym
from gaf.dialects.tile.structure import ForOp, GridOp
from gaf.passes.tile.emit import Condition, Emitter, Window
from gaf.passes.tile.handover import HandOver, Part, Step

if TYPE_CHECKING:
    from gaf.passes.tile.lower_tile import Lowering

BLOCK, BLOCKS = sym("block"), sym("blocks")


@dataclass(frozen=True)
class Round:
    """One turn of a group's loop: its number, and the windows of its grid tile (whole, not a vector core's half) and of
    the loop in it.
    """

    number: Expr
    windows: dict[str, Window]


@dataclass(frozen=True)
class Turns:
    """One turn of the loop over the rounds of a grid tile, number `turn` of `count`; windows are steps of `limits`."""

    rings: Rings
    ring: ForOp
    tile: Round
    turn: Expr
    count: Expr
    limits: Window
    depth: int
    e: Emitter

    @contextmanager
    def at(self, lag: int) -> Iterator[list[Condition]]:
        """What is emitted inside belongs to the round `lag` turns behind, if there is one. Yields the conditions on
        which that has anything to do; both units pass all rounds, so that slots and flags follow from their number.
        """
        e, axis, (low, high) = self.e, self.ring.axis, self.limits
        valid: list[Condition] = [(self.turn, "ge", const(lag))] if lag else []
        valid += [(self.turn, "lt", self.count + lag)] if lag < self.depth else []
        with e.on(valid):
            turn = e.name(self.turn - lag, "behind")
            step = e.evaluate(self.ring.step)
            first = e.name(low + turn * step, f"{axis}0")
            window = e.step_window(axis, first, step, high)
            with e.narrowed({axis: window}):
                number = e.name(self.tile.number * self.count + turn, "turn")
                self.rings.begin(Round(number, {**self.tile.windows, axis: window}), e)
                yield [(first, "lt", high)] if self.ring.bounds is not None else []


class Rings:
    """What both programs of a kernel say about hand-overs."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.kb = lowering.kb
        self.handovers = lowering.cube.handovers if lowering.cube is not None else []
        self.arrays: dict[Part, SSAValue] = {}
        self.now = Round(const(0), {})

    def allocate(self, e: Emitter) -> Expr:
        """Declare the rings, one after the other from the start of the workspace; returns the bytes of all.

        Slots, and so rings, start at multiples of 512 bytes.
        """
        offset = const(0)
        for handover in self.handovers:
            for part in handover.parts:
                at = e.name(offset, f"{part.name}_offset")
                self.arrays[part] = self.kb.workspace(part.name, at, part.dtype)
                elements = e.name(part.elements, f"{part.name}_elements")
                offset = offset + self.kb.blocks * elements * (handover.slots * part.dtype.bytes)  # type: ignore[operator]
        return offset

    @contextmanager
    def tiles(self, grid: GridOp, e: Emitter) -> Iterator[Round]:
        """The loop of a group of cores over its grid tiles, with their windows."""
        count, (first, step) = self.count(grid, e), self.sequence(grid, e)
        with e.for_("round", 0, count) as number:
            tile = e.name(first + number * step, "tile")
            with self.lowering.grid_windows(grid, tile, e) as windows:
                yield Round(number, windows)

    @contextmanager
    def rounds(self, grid: GridOp, e: Emitter) -> Iterator[Round]:
        """The rounds of a group of cores: its grid tiles."""
        with self.tiles(grid, e) as tile:
            yield self.begin(tile, e)

    def overlapped(self, grid: GridOp, e: Emitter) -> Iterator[bool]:
        """The rounds of a group of cores in two parts: the first one of a round (False) comes before the second one of
        the round before (True).
        """
        count, (first, step) = self.count(grid, e), self.sequence(grid, e)
        with e.for_("turn", 0, count + 1) as turn:
            for late in (False, True):
                with e.if_(turn, "ge", 1) if late else e.if_(turn, "lt", count):
                    number = e.name(turn - 1, "round") if late else turn
                    tile = e.name(first + number * step, "tile")
                    with self.lowering.grid_windows(grid, tile, e) as windows:
                        self.begin(Round(number, windows), e)
                        yield late

    @contextmanager
    def turns(self, ring: ForOp, tile: Round, e: Emitter) -> Iterator[Turns]:
        """The loop of a group of cores over the rounds in a grid tile: the steps of a loop, and as many turns more as
        the last ops of a round are behind.
        """
        cube = self.lowering.cube
        assert cube is not None
        axis, count = ring.axis, self._turns_of(ring, e)
        low, high = const(0), self.lowering.kernel.extents[axis]
        if ring.bounds is not None:
            with e.narrowed(tile.windows):  # of the whole tile, not of a vector core's rows
                low, high = (e.evaluate(b) for b in ring.bounds)
            low = e.name(maximum(0, low), f"{axis}_begin")
            high = e.name(minimum(high, self.lowering.kernel.extents[axis]), f"{axis}_end")
        with e.for_(f"{axis}_step", 0, count + cube.depth) as turn:
            yield Turns(self, ring, tile, turn, count, (low, high), cube.depth, e)

    def _turns_of(self, ring: ForOp, e: Emitter) -> Expr:
        """Steps of a loop over a whole axis."""
        return e.name(ceildiv(self.lowering.kernel.extents[ring.axis], ring.step), f"{ring.axis}_steps")

    def begin(self, now: Round, e: Emitter) -> Round:
        """What is emitted from here on is part of a round."""
        self.now, e.turn = now, now.number
        for handover in self.handovers:
            for part in handover.parts:
                self.part_at(part, e)  # named here, outside of inner loops
        return now

    def count(self, grid: GridOp, e: Emitter) -> Expr:
        """Tiles of a group of cores."""
        _, total = self.lowering.tiles[grid]
        if self.lowering.keeps_left:
            return e.name(total * (BLOCK + 1) // BLOCKS - total * BLOCK // BLOCKS, "rounds")
        return e.name(ceildiv(total - BLOCK, BLOCKS), "rounds")

    def sequence(self, grid: GridOp, e: Emitter) -> tuple[Expr, Expr]:
        """The first tile of a group of cores, and the distance of the next: neighbours, if they have the left operand
        of their products in common.
        """
        _, total = self.lowering.tiles[grid]
        if self.lowering.keeps_left:
            return e.name(total * BLOCK // BLOCKS, "first_tile"), const(1)
        return BLOCK, BLOCKS

    def slot(self, handover: HandOver, number: Expr, e: Emitter) -> Expr:
        """The ring slot of a round."""
        return e.name(number % handover.slots, "ring_slot")

    def part_at(self, part: Part, e: Emitter) -> Expr:
        """First element of a part in its ring, in this round of this group of cores."""
        handover = next(h for h in self.handovers if part in h.parts)
        elements = e.name(part.elements, f"{part.name}_elements")
        slot = self.slot(handover, self.now.number, e)
        return e.name((BLOCK * handover.slots + slot) * elements, f"{part.name}_at")

    def offset_in(self, part: Part, e: Emitter) -> Expr:
        """Elements from the first of a part to the first of the current window."""
        at = const(0)
        for axis, scale in zip(part.axes, (e.name(part.pitch, f"{part.name}_pitch"), const(1)), strict=True):
            if axis:
                first = self.now.windows[axis][0] if axis in self.now.windows else const(0)
                at = at + (e.windows[axis][0] - first) * scale
        return at

    def signals(self, todo: Sequence[Step], e: Emitter) -> None:
        """Waits and sets of flags."""
        for step in todo:
            handover = step.handover
            if handover is None:
                continue
            slot = self.slot(handover, self.now.number, e)
            flag = handover.full(slot) if step.is_full else handover.free(slot)
            if step.kind == "set":
                pipe = "MTE2" if not step.is_full else "MTE3" if handover.to_cube else "FIX"
                self.kb.call(CrossCoreSetFlagOp, flag=flag, pipe=pipe)
            elif step.is_full:
                self.kb.call(CrossCoreWaitFlagOp, flag=flag)
            else:
                with e.if_(self.now.number, "ge", handover.slots):
                    self.kb.call(CrossCoreWaitFlagOp, flag=flag)

    def drain(self, side: str, grid: GridOp, ring: ForOp | None, e: Emitter) -> None:
        """Every flag that was set has to be waited for before the kernel ends."""
        turns = const(1) if ring is None else self._turns_of(ring, e)
        for handover in self.handovers:
            if handover.writer != side:
                continue
            count = e.name(self.count(grid, e) * turns, "rounds")
            if handover.slots == 1:
                with e.if_(count, "ge", 1):
                    self.kb.call(CrossCoreWaitFlagOp, flag=handover.free(const(0)))
                continue
            with e.for_("round", maximum(0, count - handover.slots), count) as number:
                self.kb.call(CrossCoreWaitFlagOp, flag=handover.free(number % handover.slots))
