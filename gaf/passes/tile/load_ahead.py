# SPDX-License-Identifier: Apache-2.0
"""Tiles that are loaded whole and computed on in pieces, where temporaries leave no room for large copies.

A copy has the full rate only from `LARGE_LOAD` bytes on. A tile of that size and its float32 temporaries often don't
fit UB together. Then a loop inside of the tile narrows its window: what is loaded before the loop is one copy, and
temporaries, stores and other loads are as small as a piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, Region

from gaf.dialects.common.index import Expr, const, sym
from gaf.dialects.tile.attributes import BindingsAttr
from gaf.dialects.tile.compute import FillOp, IndexOp, MapOp
from gaf.dialects.tile.folds import ReduceOp
from gaf.dialects.tile.memory import LoadOp, StoreOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, YieldOp
from gaf.fusion.work import map_calls
from gaf.passes.tile.buffers import Leaf
from gaf.passes.tile.forms import BLOCK_BYTES, Form, find_read, tile_type
from gaf.passes.tile.plan import Plan
from gaf.target import Chip
from gaf.target.timing import VECTOR_COSTS, Timing

TIMING = Timing.of()

LARGE_LOAD = int(TIMING.large_load)
"""Bytes of a copy from which on it has the full rate."""

WORTH = 0.97
"""Pieces have to save this much of the modelled time: they cost scalar work that isn't modelled."""

GRANULE = 64
"""Pieces of lanes are a multiple of this, a repeat of 32-bit elements."""


@dataclass(frozen=True)
class Tile:
    """The axis of a grid that a tile is cut along, its parameter, and the sizes around it."""

    grid: GridOp
    axis: str
    param: str
    extent: int
    others: int
    """Windows of the other axes of the grid."""
    cores: int
    rows: bool
    """The axis is the rows of the tiles, not their lanes."""

    @property
    def granule(self) -> int:
        return 1 if self.rows else GRANULE


@dataclass(frozen=True)
class _Copy:
    """Bytes that a copy moves: of the tile, and for each step along the axis."""

    base: float
    step: float
    start: float
    """Cycles that it costs beside those for its bytes."""
    ahead: bool
    again: bool
    """Other tiles load the same: it comes from L2."""

    def bytes(self, size: float) -> float:
        return self.base + self.step * size


class Times:
    """Modelled cycles of the busiest core, from the plan of a kernel without pieces."""

    def __init__(self, plan: Plan, tile: Tile, ahead: Sequence[Operation], names: dict[str, int]) -> None:
        self.tile = tile
        self.loads: list[_Copy] = []
        self.stores: list[_Copy] = []
        self.folded: list[float] = []
        """Columns of 64 lanes that each reduction folds."""
        self.slope = self.start = 0.0
        """Vector cycles for a step along the axis, and for a piece."""
        for op, leaf in plan.leaves.items():
            if op.parent is not tile.grid.body.block:
                continue
            if isinstance(op, LoadOp | StoreOp):
                self._copy(op, leaf, op in ahead, names)
            if leaf.recipe is not None:
                self._calls(op, leaf.form, names)

    def _sizes(self, form: Form, names: dict[str, int]) -> tuple[float, float]:
        """Elements of a form: of the tile, and for each step along the axis."""
        rows, lanes = form.rows.evaluate(names), form.lanes.evaluate(names)
        if self.tile.axis not in form.axes:
            return rows * lanes, 0.0
        return 0.0, lanes if self.tile.rows else rows

    def _copy(self, op: LoadOp | StoreOp, leaf: Leaf, ahead: bool, names: dict[str, int]) -> None:
        array = op.source if isinstance(op, LoadOp) else op.target
        size = array.type.dtype.bytes  # type: ignore[union-attr]
        base, step = (n * size for n in self._sizes(leaf.form, names))
        walked = {n.removesuffix(".lo") for e in op.index for n in e.names()}
        again = not {a for a, _ in self.tile.grid.steps} <= walked
        if isinstance(op, LoadOp):
            self.loads.append(_Copy(base, step, TIMING.load_start, ahead, again))
            return
        start = TIMING.store_start
        row = step if self.tile.rows else base
        if row > 512 and row % BLOCK_BYTES:
            start += max(0.0, 256 - start - 512 / TIMING.store_rate(self.tile.cores))
        self.stores.append(_Copy(base, step, start, ahead, again))

    def _calls(self, op: Operation, form: Form, names: dict[str, int]) -> None:
        base, step = self._sizes(form, names)
        calls = [("Cast", 1.0)]
        if isinstance(op, MapOp):
            calls = [(call, 1.0) for call in map_calls(op.function, tile_type(op.res).dtype)]
        elif isinstance(op, ReduceOp):
            lanes = base + step
            calls = [("Add", 1.0), ("WholeReduceSum", GRANULE / max(GRANULE, lanes))]
            self.folded.append(lanes / GRANULE)
        for call, part in calls:
            cost = VECTOR_COSTS[call]
            self.slope += cost.slope(4) * step * part
            self.start += cost.slope(4) * base * part + cost.start(4) + TIMING.issue

    def busiest(self, size: int, piece: int) -> float:
        """Cycles of the core with the most tiles of `size`, computed on in pieces."""
        tile = self.tile
        tiles = -(-(-(-tile.extent // size) * tile.others) // tile.cores)
        pieces = -(-size // piece)
        load, large = 0.0, False
        for copy in self.loads:
            parts = 1 if copy.ahead or not copy.step else pieces
            large |= copy.bytes(size / parts) >= LARGE_LOAD
            rate = TIMING.load_l2 if copy.again else TIMING.load_rate(tile.cores, copy.bytes(size / parts))
            load += copy.bytes(size) / rate + parts * copy.start
        # down few columns, four of them at a time, or along few rows; then a tree
        waits = sum(c / 4 + 1 if c < 3 * piece else 2 for c in self.folded)
        vector = self.slope * size + (self.start + waits * VECTOR_COSTS["Add"].start32) * pieces
        store = sum(c.bytes(size) / TIMING.store_rate(tile.cores) + pieces * c.start for c in self.stores)
        head = TIMING.mte2_head_small + TIMING.mte2_head_small_core * tile.cores
        if large:
            head = TIMING.mte2_head_large + TIMING.mte2_head_large_core * tile.cores
        # the first load and what is left behind the last one of the busiest pipe overlap with nothing
        alone = {load: load, vector: vector / pieces, store: store / pieces}
        longest = max(alone)
        return head + tiles * longest + sum(t for whole, t in alone.items() if whole != longest)


def load_ahead(kernel: KernelOp, plan: Plan, tile: Tile, names: dict[str, int], target: Chip) -> Plan | None:
    """Choose the size of tiles again, and cut them into pieces if that is modelled as faster.

    `names` are the values of the parameters. Changes the kernel, and returns its plan; None: it stays as it is. `tile.param` becomes
    the size of a piece, and `<param>_load` what a tile loads.
    """
    ahead = _loads_ahead(plan, tile)
    if not ahead:
        return None
    times = Times(plan, tile, ahead, names)
    now, most = names[tile.param], -(-tile.extent * tile.others // tile.cores)
    sizes = {-(-tile.extent // k) for k in range(1, tile.extent // max(1, now) + 4 * tile.cores)}
    sizes = {-(-s // tile.granule) * tile.granule for s in sizes}
    whole = _Rooms(plan, tile.param, tile.param, names, target.ub_usable_bytes, tile.granule)
    tries = [(times.busiest(size, size), size, size) for size in sizes if whole.piece(size) == size]
    best = min([(times.busiest(now, now), now, now), *tries])
    outer = ""
    if any(c.bytes(best[1]) < LARGE_LOAD <= c.bytes(most) for c in times.loads if c.ahead):
        trial = kernel.clone()
        outer = _cut(trial, tile, _index(tile.grid), [_index(op) for op in ahead])
        rooms = _Rooms(Plan.build(trial, target), tile.param, outer, names, target.ub_usable_bytes, tile.granule)
        pieces = {s: p for s in sizes if now <= s <= max(most, now) and (p := rooms.piece(s))}
        tries = [(times.busiest(size, piece) / WORTH, size, piece) for size, piece in pieces.items() if piece < size]
        best = min([best, *tries])
    _, size, piece = best
    if size == now:
        return None
    if piece < size:
        _cut(kernel, tile, _index(tile.grid), [_index(op) for op in ahead])
    bound = {tile.param: const(piece), outer: const(size)}
    kernel.properties["params"] = BindingsAttr.of([(n, bound.get(n, v)) for n, v in kernel.params])
    return Plan.build(kernel, target) if piece < size else plan


class _Rooms:
    """How large a piece fits beside what a tile loads: memory is linear in both, apart from rounding."""

    def __init__(self, plan: Plan, inner: str, outer: str, names: dict[str, int], bytes: int, granule: int) -> None:
        self.size = plan.ub_bytes
        self.inner, self.outer, self.names = inner, outer, names
        self.bytes, self.granule = bytes, granule

    def piece(self, size: int) -> int:
        """The largest piece of a tile of `size`, such that all its pieces are about as large; 0: none fits."""
        names = {**self.names, self.outer: size}
        at = lambda piece: self.size.evaluate({**names, self.inner: piece})
        low, step = self.granule, 8 * self.granule
        if at(low) > self.bytes:
            return 0
        slope = (at(low + step) - at(low)) / step
        room = min(size, math.floor(low + (self.bytes - at(low)) / slope)) if slope > 0 else size
        room = max(low, room // self.granule * self.granule)
        while room > low and at(room) > self.bytes:
            room -= self.granule
        pieces = -(-size // room)
        return min(room, -(-size // (pieces * self.granule)) * self.granule)


def _index(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)


def _loads_ahead(plan: Plan, tile: Tile) -> list[Operation]:
    """The loads of the tile that its pieces can be slices of; none if the tile isn't made by straight-line code."""
    found: list[Operation] = []
    for op in tile.grid.body.block.ops:
        if not isinstance(op, LoadOp | StoreOp | MapOp | ReduceOp | FillOp | IndexOp):
            return []
        if isinstance(op, ReduceOp) and tile.axis in op.over:
            return []
        if isinstance(op, StoreOp) and tile.axis not in tile_type(op.value).axes:
            return []
        if isinstance(op, LoadOp) and op.guards:
            return []  # what is filled in around a copy waits for the vector unit, piece by piece
        if not isinstance(op, LoadOp) or any(find_read(e) is not None for e in op.index):
            continue
        leaf = plan.leaves[op]
        whole = len(leaf.form.axes) == 2 if tile.rows else leaf.form.axes == (tile.axis,)
        if leaf.recipe is None and tile.axis in leaf.form.axes and whole:
            found.append(op)
    return found


def _cut(kernel: KernelOp, tile: Tile, grid_at: int, ahead: Sequence[int]) -> str:
    """Put what depends on the axis of a tile, but for the loads `ahead`, into a loop over its pieces.

    Returns the name of the parameter that says how much a tile loads.
    """
    grid = list(kernel.body.block.ops)[grid_at]
    assert isinstance(grid, GridOp)
    outer = f"{tile.param}_load"
    ops = list(grid.body.block.ops)
    first = [ops[i] for i in ahead]
    inside = [op for op in ops if op not in first and _varies(op, tile.axis)]
    for op in inside:
        op.detach()
    block = Block([*inside, YieldOp()])
    steps = [(a, sym(outer) if a == tile.axis else s) for a, s in grid.steps]
    grid.properties["steps"] = BindingsAttr.of(steps)
    for op in first:
        op.attributes["buffers"] = IntegerAttr(2, i64)
    loop = ForOp(tile.axis, sym(tile.param), [], Region(block))
    loop.location = grid.location
    grid.body.block.add_op(loop)
    params: list[tuple[str, Expr]] = []
    for name, value in kernel.params:
        params += [(outer, value), (name, value)] if name == tile.param else [(name, value)]
    kernel.properties["params"] = BindingsAttr.of(params)
    return outer


def _varies(op: Operation, axis: str) -> bool:
    """True if what an op makes or writes is different along the axis."""
    value = op.value if isinstance(op, StoreOp) else op.results[0]
    return axis in tile_type(value).axes
