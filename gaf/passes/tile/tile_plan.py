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
from gaf.passes.tile.cube import MAX_ROWS
from gaf.passes.tile.handover import FRACTAL
from gaf.passes.tile.plan import Plan
from gaf.target import Chip, chip

LANES_2D = 2048
"""Most lanes of a tile that has rows: longer ones would leave few rows."""

LANES_1D = 16384
"""Most lanes of a tile without rows."""

FEWEST_LANES = 256
"""Lanes are split over cores only down to this: shorter copies waste bandwidth."""

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

    Returns the plan, which stays valid: it is symbolic in the parameters. Raises UnsupportedError when the
    kernel has no plan or its memory isn't linear in the number of rows.
    """
    plan = Plan.build(kernel, target)
    binder = _Binder(kernel, target, plan)
    binder.run()
    kernel.properties["params"] = BindingsAttr.of(binder.params)
    kernel.properties["guards"] = ShapeAttr.of([*kernel.guards, *binder.guards])
    return plan


@dataclass(frozen=True)
class _Use:
    """Where a parameter is the step of a loop."""

    axis: str
    in_grid: bool


class _Binder:
    def __init__(self, kernel: KernelOp, target: Chip, plan: Plan) -> None:
        self.kernel = kernel
        self.target = target
        self.plan = plan
        self.params: list[tuple[str, Expr]] = []
        self.guards: list[Expr] = []
        self.grids = [op for op in kernel.body.block.ops if isinstance(op, GridOp)]
        self.cores = target.aiv_cores if plan.kind == "aiv" else target.aic_cores
        self.uses = self._uses()
        forms = [h.form for h in plan.homes.values()]
        forms += [leaf.form for leaf in plan.all_leaves()]
        self.row_axes = {f.axes[0] for f in forms if len(f.axes) == 2}
        self.lane_axes = {f.axes[-1] for f in forms if f.axes} - self.row_axes

    def _uses(self) -> dict[str, list[_Use]]:
        names = {n for n, _ in self.kernel.params}
        found: dict[str, list[_Use]] = {}
        for op in self.kernel.walk():
            if isinstance(op, GridOp | ForOp):
                steps = op.steps if isinstance(op, GridOp) else ((op.axis, op.step),)
                for axis, step in steps:
                    if step.as_name() in names:
                        found.setdefault(step.as_name() or "", []).append(_Use(axis, isinstance(op, GridOp)))
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
        for name in lanes:
            self.params.append((name, self._lanes(name)))
        for i, name in enumerate(rows):
            self._rows(name, rows[i + 1 :])
        free = {name: const(1) for name in rows}
        smallest = self.plan.ub_bytes.substitute(free)
        self.guards.append(const(self.target.ub_usable_bytes) - smallest)

    # -- matmul blocks --------------------------------------------------------------------------

    def _is_block(self, name: str) -> bool:
        cube = self.plan.cube
        return cube is not None and any(name == s.as_name() for b in cube.blocks.values() for s in b.size)

    def _block_rows(self, value: Expr) -> Expr:
        """Fewer rows a block when there are fewer blocks than cores, in whole fractals."""
        cube = self.plan.cube
        most = value.as_int()
        if cube is None or most is None or most > MAX_ROWS:
            return value
        work = self._others(cube.grid, cube.rows) * self.kernel.extents[cube.rows]
        return minimum(most, maximum(FRACTAL, round_up(ceildiv(work, self.cores), FRACTAL)))

    def _others(self, grid: GridOp, axis: str) -> Expr:
        """Number of windows of the other axes of a grid."""
        counts = []
        for other, step in grid.steps:
            if other != axis:
                extent = self.kernel.extents[other]
                counts.append(extent if step == 1 else ceildiv(extent, step))
        return product(counts)

    # -- lanes ----------------------------------------------------------------------------------

    def _lanes(self, name: str) -> Expr:
        use = self.uses[name][0]
        extent = self.kernel.extents[use.axis]
        widest = minimum(self._widest(name), extent)
        grid = self._grid_of(use)
        if grid is None:
            return widest
        work = extent
        for axis, _ in grid.steps:
            if axis != use.axis:
                work = work * self.kernel.extents[axis]
        share = round_up(ceildiv(work, self.cores), 64)
        return minimum(widest, maximum(FEWEST_LANES, share))

    def _widest(self, name: str) -> int:
        """The most lanes, a power of two, at which a few rows fit; a guess if that depends on shapes."""
        rows = [n for n in self.uses if {u.axis for u in self.uses[n]} <= self.row_axes]
        size = LANES_2D if self.row_axes else LANES_1D
        bound = dict(self.params)
        while size > 64:
            names: dict[str, Expr] = {name: const(size)}
            names |= {n: const(ROWS) for n in rows}
            names |= {n: v for n, v in bound.items() if n not in names}
            bytes = self.plan.ub_bytes.substitute(names).as_int()
            if bytes is None:
                return min(size, 512)
            if bytes <= self.target.ub_usable_bytes:
                break
            size //= 2
        return size

    def _grid_of(self, use: _Use) -> GridOp | None:
        if not use.in_grid:
            return None
        return next((g for g in self.grids if use.axis in dict(g.steps)), None)

    # -- rows -----------------------------------------------------------------------------------

    def _rows(self, name: str, later: Sequence[str] = ()) -> None:
        """As many rows as fit, in eights when there are more; no more than leave work for every core.

        The stages of a kernel use one memory, each with its own number of rows: a stage leaves its share to
        those that are bound `later`.
        """
        use = self.uses[name][0]
        one = {n: const(1) for n in later}
        capacity = self.target.ub_usable_bytes // (len(later) + 1)
        try:
            slope, offset, scale = _linear_bound(self.plan.ub_bytes.substitute(one), name)
        except ValueError as error:
            raise UnsupportedError(
                f"kernel '{self.kernel.sym_name.data}': no row count can be derived from its memory plan",
                got=f"{self.plan.ub_bytes} bytes, {error}",
            ) from None
        limit = self._row_limit(use)
        if slope.as_int() == 0:
            self.params.append((name, limit))
            return
        fit = (const(capacity * scale) - offset) // slope
        fitting = f"{name}_fit"
        self.params.append((fitting, fit))
        whole = maximum(minimum(sym(fitting), ROWS), sym(fitting) // ROWS * ROWS)
        self.params.append((name, maximum(1, minimum(whole, limit))))

    def _row_limit(self, use: _Use) -> Expr:
        extent = self.kernel.extents[use.axis]
        grid = self._grid_of(use)
        if grid is not None:
            cores = self.target.aiv_cores if grid is not self.plan.cube_grid else self.cores
            return ceildiv(extent * self._others(grid, use.axis), cores)
        cube = self.plan.cube
        if cube is not None and use.axis == cube.rows:
            rows = cube.size[0]
            return ceildiv(rows, 2) if cube.grid.sub == use.axis else rows
        return extent


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
