# SPDX-License-Identifier: Apache-2.0
"""Bind the tile sizes of kernels: host expressions, from the memory plan, that fit UB and busy all cores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.dialects.common.attributes import ShapeAttr
from gaf.dialects.common.index import Expr, Func, ceildiv, const, maximum, minimum, product, round_up, sym
from gaf.dialects.tile.attributes import BindingsAttr
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.errors import UnsupportedError
from gaf.passes.registry import option, register_pass
from gaf.passes.tile.blocks import block_rows
from gaf.passes.tile.cube import MAX_ROWS
from gaf.passes.tile.load_ahead import GRANULE, LARGE_LOAD, Tile, load_ahead
from gaf.passes.tile.plan import Plan
from gaf.passes.tile.reuse import Reuse, keep_tiles, share_steps, shared_axis
from gaf.target import Chip, chip

LANES_2D = 2048
"""Most lanes of a tile that has rows: longer ones would leave few rows."""

STACK = 1024
"""Most columns of a product that are handed over at a time: fewer start the cube too often, more leave L2."""

LANES_TRANSPOSED = 128
"""Most lanes of a tile that is transposed on chip: what are rows in one order are lanes in the other."""

FEWEST_LANES = 128
"""Lanes are split over cores only down to this, 512 bytes of float32: shorter rows share lines of L2 with other cores."""

FEWEST_ELEMENTS = 1024
"""Elements of a tile below which more tiles cost more in starts than their overlap saves."""

TILES = 4
"""Tiles that a core works on at least, if they have enough elements: loads, vector work and stores of one tile
overlap with those of its neighbours, but for the first load and the last store."""

SLOW_COPIES = 1.25
"""How much longer smaller copies take."""

BLOCKS = 16
"""Lanes that are whole 32-byte blocks in every float type."""

LARGEST = 1 << 30
"""A tile size where nothing limits it."""

ROWS = 8
"""Rows that a tile has at least if it can: columns come in blocks of eight floats."""


@register_pass
@dataclass(frozen=True)
class TilePlanPass(ModulePass):
    """Bind the tiling parameters of every tile.kernel to expressions that the host evaluates."""

    name = "tile-plan"

    target: str = option("ascend910b3", "chip whose capacities and core counts the kernel is made for")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = chip(self.target)
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                bind_tiles(kernel, target)


def bind_tiles(kernel: KernelOp, target: Chip) -> Plan:
    """Bind the parameters that are steps of loops, and add the guard that the smallest tile fits UB.

    Tiles may stay for several steps of the grid (`keep_tiles`), and those of constant size be cut into pieces
    (`load_ahead`). Returns the plan, which stays valid: it is symbolic in the parameters. Raises UnsupportedError when
    the kernel has no plan, its memory isn't linear in the number of rows, or the smallest tile is too large for UB at
    all sizes.
    """
    reuse = _kept(kernel, target)
    binder = _bound(kernel, target)
    if binder.is_constant() and (tile := binder.tile(names := evaluate_params(kernel, {}))) is not None:
        if reuse is None:
            return load_ahead(kernel, binder.plan, tile, names, target) or binder.plan
        share_steps(kernel, binder.plan, reuse, tile, names, target)
    return binder.plan


def _kept(kernel: KernelOp, target: Chip) -> Reuse | None:
    """Keep tiles for several steps of the grid if they fit beside what the steps need."""
    axis = shared_axis(kernel)
    if axis is None:
        return None
    trial = kernel.clone()
    keep_tiles(trial, axis)
    try:
        _bound(trial, target)
    except UnsupportedError:
        return None
    return keep_tiles(kernel, axis)


def smallest_bytes(kernel: KernelOp, target: Chip) -> int | None:
    """Bind the tiles of a kernel; the bytes of UB of the smallest, or None if that depends on sizes. Raises as `bind_tiles`."""
    _bound(kernel, target)
    spare = spare_bytes(kernel)
    return target.ub_usable_bytes - spare if spare is not None else None


def _bound(kernel: KernelOp, target: Chip) -> _Binder:
    plan = Plan.build(kernel, target)
    binder = _Binder(kernel, target, plan)
    binder.run()
    kernel.properties["params"] = BindingsAttr.of(binder.params)
    kernel.properties["guards"] = ShapeAttr.of([*kernel.guards, *binder.guards])
    spare = spare_bytes(kernel)
    if spare is not None and spare < 0:
        size, limit = target.ub_usable_bytes - spare, target.ub_usable_bytes
        raise UnsupportedError(
            f"UB {size / 1024:.0f} KiB > {limit / 1024:.0f} KiB at the smallest tile",
            where=f"kernel '{kernel.sym_name.data}'", got=plan.breakdown(),
            hint="a shorter row, or fewer tensors in one kernel",
        )  # fmt: skip
    return binder


def spare_bytes(kernel: KernelOp) -> int | None:
    """Bytes of UB that the smallest tile of a kernel with bound tiles leaves free; None if that depends on sizes."""
    known: dict[str, int] = {}
    for name, value in kernel.params:
        if value.names() <= known.keys():
            known[name] = value.evaluate(known)
    guard = kernel.guards[-1]
    return guard.evaluate(known) if guard.names() <= known.keys() else None


@dataclass(frozen=True)
class _Use:
    """Where a parameter is the step of a loop."""

    axis: str
    in_grid: bool
    whole: bool
    """The loop runs over the complete axis."""


class _Binder:
    def __init__(self, kernel: KernelOp, target: Chip, plan: Plan) -> None:
        self.kernel = kernel
        self.target = target
        self.plan = plan
        self.params: list[tuple[str, Expr]] = []
        self.guards: list[Expr] = []
        self.grids = [op for op in kernel.body.block.ops if isinstance(op, GridOp)]
        self.cores = target.aiv_cores if plan.kind == "aiv" else target.aic_cores
        self.kernel_params = {n for n, _ in kernel.params}
        self.uses = self._uses()
        self.streams = any(not u.in_grid for uses in self.uses.values() for u in uses)
        forms = [h.form for h in plan.homes.values()]
        forms += [leaf.form for leaf in plan.all_leaves()]
        self.row_axes = {f.axes[0] for f in forms if len(f.axes) == 2}
        self.lane_axes = {f.axes[-1] for f in forms if f.axes} - self.row_axes

    def _uses(self) -> dict[str, list[_Use]]:
        found: dict[str, list[_Use]] = {}
        for op in self.kernel.walk():
            if isinstance(op, GridOp | ForOp):
                steps = op.steps if isinstance(op, GridOp) else ((op.axis, op.step),)
                whole = isinstance(op, GridOp) or op.bounds is None
                for axis, step in steps:
                    if step.as_name() in self.kernel_params:
                        use = _Use(axis, isinstance(op, GridOp), whole)
                        found.setdefault(step.as_name() or "", []).append(use)
        return found

    def run(self) -> None:
        cube = self.plan.cube
        cube_axes = {cube.rows, *cube.columns} if cube is not None else set()
        blocks: list[tuple[str, Expr]] = []
        lanes: list[str] = []
        rows: list[str] = []
        for name, value in self.kernel.params:
            uses = self.uses.get(name, [])
            axes = {u.axis for u in uses}
            if cube is not None and any(u.in_grid and u.axis == cube.rows for u in uses):
                blocks.append((name, value))
            elif not uses or len(axes) != 1 or (axes & cube_axes and self._is_block(name)):
                self.params.append((name, value))
            elif axes <= self.row_axes:
                rows.append(name)
            elif axes <= self.lane_axes:
                lanes.append(name)
            else:
                self.params.append((name, value))
        for name, value in blocks:
            self.params.append((name, self._block_rows(value)))
        for i, name in enumerate(lanes):
            self.params.append((name, self._lanes(name, lanes[i + 1 :])))
        for i, name in enumerate(rows):
            self.params.append((name, self._rows(name, rows[i + 1 :])))
        free = {name: const(1) for name in rows}
        smallest = self.plan.ub_bytes.substitute(free)
        self.guards.append(const(self.target.ub_usable_bytes) - smallest)

    def is_constant(self) -> bool:
        """All sizes are known."""
        known = {name for name, _ in self.params}
        extents = [self.kernel.extents[axis] for grid in self.grids for axis, _ in grid.steps]
        return not any(value.names() - known for _, value in self.params) and all(e.as_int() for e in extents)

    def tile(self, names: Mapping[str, int]) -> Tile | None:
        """What the tiles of a vector kernel of straight-line code are cut along: rows if they have any."""
        if self.plan.kind != "aiv" or len(self.grids) != 1 or self.streams:
            return None
        grid = self.grids[0]
        steps = {n: a for a, s in grid.steps if (n := s.as_name()) in self.kernel_params}
        for name, axis in sorted(steps.items(), key=lambda item: item[1] not in self.row_axes):
            extent, others = self.kernel.extents[axis].evaluate({}), self._others(grid, axis).evaluate(names)
            return Tile(grid, axis, name or "", extent, others, self._cores_of(grid), axis in self.row_axes)
        return None

    # -- matmul blocks --------------------------------------------------------------------------

    def _is_block(self, name: str) -> bool:
        cube = self.plan.cube
        return cube is not None and any(name == s.as_name() for b in cube.blocks.values() for s in b.size)

    def _block_rows(self, value: Expr) -> Expr:
        """Rows of a matmul block: fewer when there are few blocks."""
        cube = self.plan.cube
        most = value.as_int()
        if cube is None or most is None or most > MAX_ROWS:
            return value
        others = self._others(cube.grid, cube.rows)
        return block_rows(self.kernel.extents[cube.rows], others, most, self.cores)

    def _others(self, grid: GridOp, axis: str) -> Expr:
        """Number of windows of the other axes of a grid."""
        counts = []
        for other, step in grid.steps:
            if other != axis:
                extent = self.kernel.extents[other]
                counts.append(extent if step == 1 else ceildiv(extent, step))
        return product(counts)

    # -- lanes ----------------------------------------------------------------------------------

    def _lanes(self, name: str, later: Sequence[str]) -> Expr:
        """As many lanes as fit beside a few rows, in equal tiles, and no more than leave work for every core."""
        use = self.uses[name][0]
        extent = self.kernel.extents[use.axis]
        ring = self.plan.cube.ring if self.plan.cube is not None else None
        widest = self._widest(name, later)
        if ring is not None and ring.axis == use.axis:
            return self._even(extent, self._named(f"{name}_widest", minimum(widest, STACK)))
        widest = self._named(f"{name}_widest", minimum(widest, extent))
        grid = self._grid_of(use)
        if grid is None:
            return self._even(extent, widest) if use.whole else widest
        if any(step.as_name() in self.kernel_params and axis != use.axis for axis, step in grid.steps):
            work = product([self.kernel.extents[axis] for axis, _ in grid.steps])
            share = round_up(ceildiv(work, self._cores_of(grid)), GRANULE)
            return minimum(self._even(extent, widest), maximum(FEWEST_LANES, share))
        others = self._others(grid, use.axis)
        fewest = FEWEST_LANES if self.row_axes else FEWEST_ELEMENTS
        cores = self._cores_of(grid)
        pieces = cores * (1 if self.row_axes else TILES)
        wanted = minimum(widest, maximum(fewest, _share(extent, others, pieces)))
        lanes = self._balanced(name, extent, wanted, others, cores, GRANULE, self._large(name))
        return minimum(widest, maximum(fewest, round_up(lanes, GRANULE)))

    def _even(self, extent: Expr, most: Expr) -> Expr:
        """The size of equal tiles, none larger than `most`."""
        return minimum(most, round_up(ceildiv(extent, ceildiv(extent, most)), GRANULE))

    def _widest(self, name: str, later: Sequence[str]) -> Expr:
        """The most lanes at which a few rows fit, and a part of what is bound later."""
        rows = [n for n in self.uses if n != name and {u.axis for u in self.uses[n]} <= self.row_axes]
        names = {n: minimum(ROWS, self.kernel.extents[self.uses[n][0].axis]) for n in rows}
        names |= {n: const(GRANULE) for n in later} | dict(self.params)
        fit = self._fitting(name, names, len(later) + 1)
        blocks = maximum(BLOCKS, minimum(GRANULE, fit // BLOCKS * BLOCKS))
        lanes = maximum(blocks, fit // GRANULE * GRANULE)
        if self.plan.transposes:
            return minimum(lanes, LANES_TRANSPOSED)
        if not self.row_axes:
            return lanes
        known = [self.kernel.extents[self.uses[n][0].axis].as_int() or ROWS for n in rows]
        return minimum(lanes, LANES_2D * ROWS // min([ROWS, *known]))

    def _fitting(self, name: str, others: Mapping[str, Expr], users: int) -> Expr:
        """The largest value of a parameter at which the buffers fit its share of UB, named like it with `_fit`.

        `others` says what other parameters are taken to be. Raises UnsupportedError if the size isn't linear in the
        parameter.
        """
        try:
            slope, offset, scale = _linear_bound(self.plan.ub_bytes.substitute(others), name)
        except ValueError as error:
            raise UnsupportedError(
                f"kernel '{self.kernel.sym_name.data}': no tile size can be derived from its memory plan",
                got=f"{self.plan.ub_bytes} bytes, {error}",
            ) from None
        if slope.as_int() == 0:
            return const(LARGEST)
        fit = (const(self.target.ub_usable_bytes // users * scale) - offset) // slope
        if fit.as_int() is not None:
            return fit
        self.params.append((f"{name}_fit", fit))
        return sym(f"{name}_fit")

    def _named(self, name: str, value: Expr) -> Expr:
        """A value as a parameter of its own, so that the expressions that use it stay readable."""
        if value.as_int() is not None or value.as_name() is not None:
            return value
        self.params.append((name, value))
        return sym(name)

    def _balanced(
        self, name: str, extent: Expr, most: Expr, others: Expr, cores: int, start: int, large: int
    ) -> Expr:
        """The size of tiles, at most `most`, of which every core gets the same number, if that can be."""
        sizes = (extent.as_int(), most.as_int(), others.as_int())
        if None not in sizes:
            n, limit, count = (s or 0 for s in sizes)
            return const(_best_size(n, limit, count, cores, start, large))
        most = self._named(f"{name}_most", most)
        others = self._named(f"{name}_others", others)
        rounds = self._named(f"{name}_rounds", ceildiv(ceildiv(extent, most) * others, cores))
        return ceildiv(extent, maximum(1, rounds * cores // others))

    def _grid_of(self, use: _Use) -> GridOp | None:
        if not use.in_grid:
            return None
        return next((g for g in self.grids if use.axis in dict(g.steps)), None)

    def _large(self, name: str) -> int:
        """The value of a parameter from which the largest copy of a tile has the full rate; 1: unknown."""
        names = {n: const(ROWS) for n in self.kernel_params if n != name} | dict(self.params)
        slopes = []
        for group in self.plan.groups:
            if group.position == "vecin" and name in group.bytes.names():
                slope, _, scale = _linear_bound(group.bytes.substitute(names), name)
                if (known := slope.as_int()) is not None:
                    slopes.append(known / scale)
        return math.ceil(LARGE_LOAD / max(slopes)) if slopes and max(slopes) > 0 else 1

    def _cores_of(self, grid: GridOp) -> int:
        """Cores that the tiles of a grid are shared out to: in a kernel in stages, each has its own."""
        return self.target.aiv_cores if grid is not self.plan.cube_grid else self.cores

    # -- rows -----------------------------------------------------------------------------------

    def _rows(self, name: str, later: Sequence[str]) -> Expr:
        """As many rows as fit, but no more than leave tiles for every core; those of a matmul block in eights.

        The stages of a kernel use one memory, each with its own number of rows: a stage leaves its share to
        those that are bound `later`.
        """
        use = self.uses[name][0]
        one = {n: const(1) for n in later}
        fit = self._fitting(name, one, len(later) + 1)
        extent = self.kernel.extents[use.axis]
        grid = self._grid_of(use)
        cube = self.plan.cube
        if grid is not None:
            others = self._others(grid, use.axis)
            fewest = ceildiv(FEWEST_ELEMENTS, self._row_lanes(use.axis))
            cores = self._cores_of(grid)
            share = _share(extent, others, cores)
            # loops inside of a tile overlap its copies and vector work by themselves
            wanted = minimum(share, maximum(fewest, _share(extent, others, cores * (1 if self.streams else TILES))))
            start = 2 * (fewest.as_int() or 1)
            if self.plan.transposes:  # whole groups: what is loaded has the rows as lanes
                fit, wanted = maximum(BLOCKS, fit // BLOCKS * BLOCKS), maximum(GRANULE, wanted)
                return round_up(self._balanced(name, extent, minimum(fit, wanted), others, cores, BLOCKS, 1), BLOCKS)
            most = maximum(1, minimum(fit, wanted))
            return self._balanced(name, extent, most, others, cores, start, self._large(name))
        if cube is not None and use.axis == cube.rows:
            rows, whole = cube.size[0], maximum(minimum(fit, ROWS), fit // ROWS * ROWS)
            return maximum(1, minimum(whole, ceildiv(rows, 2) if cube.grid.sub == use.axis else rows))
        most = maximum(1, minimum(fit, extent))
        return ceildiv(extent, ceildiv(extent, most)) if use.whole else most

    def _row_lanes(self, axis: str) -> Expr:
        """Lanes of the widest tile with rows along an axis."""
        forms = [h.form for h in self.plan.homes.values()]
        found = const(1)
        for form in forms:
            if len(form.axes) == 2 and form.axes[0] == axis:
                found = maximum(found, form.lanes)
        return found


def _share(extent: Expr, others: Expr, tiles: int) -> Expr:
    """The part of an axis that makes so many tiles."""
    return maximum(1, ceildiv(extent * others, tiles))


def _best_size(n: int, limit: int, count: int, cores: int, start: int, large: int) -> int:
    """The size of tiles of an axis of `n`, at most `limit`, that leaves the busiest core the least work.

    There are `count` windows of the other axes. A tile costs `start` beside its size, and more if it is smaller than
    `large`.
    """
    fewest = -(-n // limit)

    def busiest(tiles: int) -> float:
        size = -(-n // tiles)
        return -(-tiles * count // cores) * (size * (1.0 if size >= large else SLOW_COPIES) + start)

    return -(-n // min(range(fewest, min(n, fewest + 4 * cores) + 1), key=busiest))


# -- bounds -----------------------------------------------------------------------------------------

Bound = tuple[Expr, Expr, int]
"""(slope, offset, scale): `scale * e <= slope * name + offset`."""


def _linear_bound(value: Expr, name: str) -> Bound:
    """An upper bound of a size that is linear in `name`, which occurs in round-ups, minima and once a term.

    All names are >= 0. Raises ValueError for anything else.
    """
    bounds: list[Bound] = []
    for mono, coef in value.terms.items():
        inside = [a for a in mono if name in Expr({(a,): 1}).names()]
        rest = Expr({tuple(a for a in mono if a not in inside): coef})
        if not inside:
            bounds.append((const(0), rest, 1))
            continue
        if len(inside) > 1 or coef < 0:
            raise ValueError(f"which isn't linear in {name}")
        slope, offset, scale = _atom_bound(inside[0], name)
        bounds.append((slope * rest, offset * rest, scale))
    scale = math.lcm(*(s for _, _, s in bounds)) if bounds else 1
    slope, offset = const(0), const(0)
    for a, b, s in bounds:
        slope, offset = slope + a * (scale // s), offset + b * (scale // s)
    divisor = math.gcd(scale, *slope.terms.values(), *offset.terms.values())
    return _divided(slope, divisor), _divided(offset, divisor), scale // divisor


def _atom_bound(atom: str | Func, name: str) -> Bound:
    if isinstance(atom, str):
        return const(1), const(0), 1
    if atom.name == "floordiv" and (divisor := atom.args[1].as_int()) is not None:
        slope, offset, scale = _linear_bound(atom.args[0], name)
        return slope, offset, scale * divisor
    if atom.name == "min":
        free = [a for a in atom.args if name not in a.names()]
        return (const(0), free[0], 1) if free else _linear_bound(atom.args[0], name)
    if atom.name == "max":
        (s1, o1, c1), (s2, o2, c2) = (_linear_bound(a, name) for a in atom.args)
        return maximum(s1 * c2, s2 * c1), maximum(o1 * c2, o2 * c1), c1 * c2
    raise ValueError(f"with {atom.name} of {name}")


def _divided(value: Expr, divisor: int) -> Expr:
    return Expr({m: c // divisor for m, c in value.terms.items()})


def evaluate_params(kernel: KernelOp, symbols: Mapping[str, int]) -> dict[str, int]:
    """The values of the tiling parameters for given sizes."""
    names = dict(symbols)
    for name, value in kernel.params:
        names[name] = value.evaluate(names)
    return {name: names[name] for name, _ in kernel.params}
