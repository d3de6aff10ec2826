# SPDX-License-Identifier: Apache-2.0
"""Tiles that stay for several steps of a grid axis that they don't have: a table of positions under many heads.

Without it every core loads what the axis doesn't change again with each of its steps. From L2 that is faster than from
memory, but it takes the time of the one pipe that loads. The steps of the axis become a loop inside of the tile, and
what doesn't vary stands in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


from gaf.dialects.common.index import Expr, const, sym
from gaf.dialects.tile.attributes import BindingsAttr
from gaf.dialects.tile.compute import FillOp, IndexOp, MapOp
from gaf.dialects.tile.folds import ReduceOp
from gaf.dialects.tile.memory import LoadOp, StoreOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.forms import tile_type
from gaf.passes.tile.load_ahead import Rooms, Tile, Times, loop_over, names_of, settle
from gaf.passes.tile.plan import Plan
from gaf.target import Chip

LEAST = 0.25
"""Bytes that are loaded again, as a part of those that vary, from which on they are kept."""

MOST_STEPS = 64
"""Steps of the axis in one tile at most: enough to make loading again cheap."""


@dataclass(frozen=True)
class Reuse:
    """The axis of a grid whose steps share loads, and the parameter that says how many."""

    axis: str
    param: str


def shared_axis(kernel: KernelOp) -> str | None:
    """The grid axis along which most is loaded again, if it is much.

    Only of kernels of one grid of straight-line code and of known sizes.
    """
    grids = [op for op in kernel.body.block.ops if isinstance(op, GridOp)]
    if len(grids) != 1 or any(isinstance(op, ForOp) for op in kernel.walk()):
        return None
    (grid,) = grids
    ops = list(grid.body.block.ops)
    if not all(isinstance(op, LoadOp | StoreOp | MapOp | ReduceOp | FillOp | IndexOp) for op in ops):
        return None
    if any(kernel.extents[axis].as_int() is None for axis, _ in grid.steps):
        return None  # how many steps to share depends on how many there are
    best: tuple[float, str] = (LEAST, "")
    for axis, step in grid.steps:
        if step != 1 or kernel.extents[axis] == 1:
            continue
        again = [op for op in ops if isinstance(op, LoadOp) and not names_of(op) & {axis, f"{axis}.lo", f"{axis}.hi"}]
        others = [op for op in ops if isinstance(op, LoadOp) and op not in again]
        if others and all(f"{axis}.lo" in names_of(op) for op in ops if isinstance(op, StoreOp)):
            best = max(best, (_weight(again) / _weight(others), axis))
    return best[1] or None


def keep_tiles(kernel: KernelOp, axis: str) -> Reuse:
    """Put the steps of a grid axis into a loop inside of the tile. Their number is 1 until `share_steps` sets it."""
    grid = next(op for op in kernel.body.block.ops if isinstance(op, GridOp))
    param = f"{axis}_steps"
    loop_over(grid, axis, const(1))
    grid.properties["steps"] = BindingsAttr.of([(a, sym(param) if a == axis else s) for a, s in grid.steps])
    kernel.properties["params"] = BindingsAttr.of([*kernel.params, (param, const(1))])
    return Reuse(axis, param)


def _weight(loads: list[LoadOp]) -> float:
    """Bytes of loads of whole tiles: of one element each, rows and columns don't count."""
    found = 0.0
    for op in loads:
        source = op.source.type
        assert isinstance(source, GmType)
        found += source.dtype.bytes if len(tile_type(op.res).axes) > 1 else 0
    return found or 1e-9


def share_steps(kernel: KernelOp, plan: Plan, reuse: Reuse, tile: Tile, names: Mapping[str, int], target: Chip) -> None:
    """Bind the number of steps and the size of tiles, so that the busiest core has the least to do.

    `names` are the values of the parameters.
    """
    known = dict(names)
    (loop,) = [op for op in tile.grid.body.block.ops if isinstance(op, ForOp)]
    once, each = Times(plan, tile, known), Times(plan, tile, known, block=loop.body.block)
    steps = kernel.extents[reuse.axis].evaluate({})
    rooms = Rooms(plan, tile.param, tile.param, known, target.ub_usable_bytes, tile.granule)
    room = rooms.largest(tile.extent)
    fewest = -(-tile.extent // max(1, room))
    others = tile.others // steps
    best: tuple[float, int, int] | None = None
    for count in range(fewest, min(tile.extent, fewest + 8) + 1):
        size = -(-(-(-tile.extent // count)) // tile.granule) * tile.granule
        first, work = once.of_tile(size, size), each.of_tile(size, size)
        for taken in range(1, min(steps, MOST_STEPS) + 1):
            tiles = -(-count * others * -(-steps // taken) // tile.cores)
            pipes = {p: first[p] + taken * work[p] for p in work}
            slowest = max(pipes, key=lambda p: pipes[p])
            alone = sum(first[p] + work[p] for p in pipes if p != slowest)
            best = min(best or (float("inf"), 0, 0), (each.head(size) + tiles * pipes[slowest] + alone, size, taken))
    if best is None:
        return
    bound: dict[str, Expr] = {tile.param: const(best[1]), reuse.param: const(best[2])}
    settle(kernel, bound)
