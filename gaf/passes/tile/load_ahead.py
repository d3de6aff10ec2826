# SPDX-License-Identifier: Apache-2.0
"""Tiles that are loaded whole and computed on in pieces, where temporaries leave no room for large copies.

A copy has the full rate only from `LARGE_LOAD` bytes on. A tile of that size and its float32 temporaries often don't
fit UB together. Then a loop inside of the tile narrows its window: what is loaded before the loop is one copy, and
temporaries, stores and other loads are as small as a piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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

    def __init__(
        self, plan: Plan, tile: Tile, names: dict[str, int], ahead: Sequence[Operation] = (), block: Block | None = None
    ) -> None:
        """Of what stands in the grid, or in a `block` in it."""
        self.tile = tile
        self.loads: list[_Copy] = []
        self.stores: list[_Copy] = []
        self.folded: list[float] = []
        """Columns of 64 lanes that each reduction folds."""
        self.slope = self.start = 0.0
        """Vector cycles for a step along the axis, and for a piece."""
        for op, leaf in plan.leaves.items():
            if op.parent is not (block or tile.grid.body.block):
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

    def of_tile(self, size: int, piece: int) -> dict[str, float]:
        """Cycles that a tile of `size` takes of every pipe, computed on in pieces."""
        pieces, load = -(-size // piece), 0.0
        for copy in self.loads:
            parts = 1 if copy.ahead or not copy.step else pieces
            rate = TIMING.load_l2 if copy.again else TIMING.load_rate(self.tile.cores, copy.bytes(size / parts))
            load += copy.bytes(size) / rate + parts * copy.start
        # down few columns, four of them at a time, or along few rows; then a tree
        waits = sum(c / 4 + 1 if c < 3 * piece else 2 for c in self.folded)
        vector = self.slope * size + (self.start + waits * VECTOR_COSTS["Add"].start32) * pieces
        rate = TIMING.store_rate(self.tile.cores)
        store = sum(c.bytes(size) / rate + pieces * c.start for c in self.stores)
        return {"load": load, "vector": vector, "store": store}

    def head(self, size: int, pieces: int = 1) -> float:
        """Cycles before the first load of a core."""
        if any(c.bytes(size if c.ahead else size / pieces) >= LARGE_LOAD for c in self.loads):
            return TIMING.mte2_head_large + TIMING.mte2_head_large_core * self.tile.cores
        return TIMING.mte2_head_small + TIMING.mte2_head_small_core * self.tile.cores

    def busiest(self, size: int, piece: int) -> float:
        """Cycles of the core with the most tiles of `size`, computed on in pieces."""
        tile, work, pieces = self.tile, self.of_tile(size, piece), -(-size // piece)
        tiles = -(-(-(-tile.extent // size) * tile.others) // tile.cores)
        slowest = max(work, key=lambda p: work[p])
        # the first load and what is left behind the last one of the busiest pipe overlap with nothing
        alone = sum(t if p == "load" else t / pieces for p, t in work.items() if p != slowest)
        return self.head(size, pieces) + tiles * work[slowest] + alone


EVERY_COUNT = 4096
"""Numbers of tiles up to which each is tried; of larger ones those in steps of one part in as many."""


def counts(end: int) -> Iterator[int]:
    """Numbers of tiles to try, ascending from 1 to below `end`: their number grows with the logarithm of a large `end`."""
    count = 1
    while count < end:
        yield count
        count += 1 + count // EVERY_COUNT


def load_ahead(
    kernel: KernelOp, plan: Plan, tile: Tile, names: dict[str, int], target: Chip
) -> Plan | None:
    """Choose the size of tiles again, and cut them into pieces if that is modelled as faster.

    `names` are the values of the parameters. Changes the kernel, and returns its plan; None: it stays as it is.
    `tile.param` becomes the size of a piece, and `<param>_load` what a tile loads.
    """
    ahead = _loads_ahead(plan, tile)
    if not ahead:
        return None
    times = Times(plan, tile, names, ahead)
    now, most = names[tile.param], -(-tile.extent * tile.others // tile.cores)
    sizes = {-(-tile.extent // k) for k in counts(tile.extent // max(1, now) + 4 * tile.cores)}
    sizes = {-(-s // tile.granule) * tile.granule for s in sizes}
    whole = Rooms(plan, tile.param, tile.param, names, target.ub_usable_bytes, tile.granule)
    tries = [(times.busiest(size, size), size, size) for size in sizes if whole.piece(size) == size]
    best = min([(times.busiest(now, now), now, now), *tries])
    outer = ""
    if any(c.bytes(best[1]) < LARGE_LOAD <= c.bytes(most) for c in times.loads if c.ahead):
        trial = kernel.clone()
        outer = _cut(trial, tile, _index(tile.grid), [_index(op) for op in ahead])
        rooms = Rooms(Plan.build(trial, target), tile.param, outer, names, target.ub_usable_bytes, tile.granule)
        pieces = {s: p for s in sizes if now <= s <= max(most, now) and (p := rooms.piece(s))}
        tries = [(times.busiest(size, piece) / WORTH, size, piece) for size, piece in pieces.items() if piece < size]
        best = min([best, *tries])
    _, size, piece = best
    if size == now:
        return None
    if piece < size:
        _cut(kernel, tile, _index(tile.grid), [_index(op) for op in ahead])
    settle(kernel, {tile.param: const(piece), outer: const(size)})
    return Plan.build(kernel, target) if piece < size else plan


class Rooms:
    """How large a piece fits beside what a tile loads: memory is linear in both, apart from rounding."""

    def __init__(self, plan: Plan, inner: str, outer: str, names: dict[str, int], bytes: int, granule: int) -> None:
        self.size = plan.ub_bytes
        self.inner, self.outer, self.names = inner, outer, names
        self.bytes, self.granule = bytes, granule

    def largest(self, size: int) -> int:
        """The largest piece of a tile of `size` that fits; 0: none."""
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
        return room

    def piece(self, size: int) -> int:
        """The largest piece such that all pieces of a tile of `size` are about as large; 0: none fits."""
        room = self.largest(size)
        if not room:
            return 0
        pieces = -(-size // room)
        return min(room, -(-size // (pieces * self.granule)) * self.granule)


def settle(kernel: KernelOp, bound: Mapping[str, Expr]) -> None:
    """Bind parameters, and drop those that no loop, guard or other parameter needs any more."""
    needed = {n for guard in kernel.guards for n in guard.names()}
    for op in kernel.walk():
        if isinstance(op, GridOp):
            needed |= {n for _, step in op.steps for n in step.names()}
        elif isinstance(op, ForOp):
            needed |= op.step.names() | {n for b in op.bounds or () for n in b.names()}
    params: list[tuple[str, Expr]] = []
    for name, value in reversed(kernel.params):
        if name in needed:
            params.insert(0, (name, bound.get(name, value)))
            needed |= params[0][1].names()
    kernel.properties["params"] = BindingsAttr.of(params)


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
    loop_over(grid, tile.axis, sym(tile.param), first)
    steps = [(a, sym(outer) if a == tile.axis else s) for a, s in grid.steps]
    grid.properties["steps"] = BindingsAttr.of(steps)
    for op in first:
        op.attributes["buffers"] = IntegerAttr(2, i64)
    params: list[tuple[str, Expr]] = []
    for name, value in kernel.params:
        params += [(outer, value), (name, value)] if name == tile.param else [(name, value)]
    kernel.properties["params"] = BindingsAttr.of(params)
    return outer


def loop_over(grid: GridOp, axis: str, step: Expr, before: Sequence[Operation] = ()) -> None:
    """Put what varies along an axis of a grid, but for the ops `before`, into a loop over its window."""
    names = {axis, f"{axis}.lo", f"{axis}.hi"}
    inside: list[Operation] = []
    for op in grid.body.block.ops:
        varies = bool(names_of(op) & names) or any(axis in tile_type(r).axes for r in op.results)
        if op not in before and (varies or any(o.owner in inside for o in op.operands)):
            inside.append(op)
    for op in inside:
        op.detach()
    loop = ForOp(axis, step, [], Region(Block([*inside, YieldOp()])))
    loop.location = grid.location
    grid.body.block.add_op(loop)


def names_of(op: Operation) -> set[str]:
    """Names in the index expressions and guards of an op."""
    exprs: list[Expr] = []
    if isinstance(op, LoadOp | StoreOp):
        exprs += [*op.index, *(e for g in op.guards for e in (g.value, g.low, g.high))]
    elif isinstance(op, IndexOp):
        exprs.append(op.value)
    return {n for e in exprs for n in e.names()}
