# SPDX-License-Identifier: Apache-2.0
"""Schedules of matmuls, one or several in a row, and of the vector work in front, between and behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gaf.dialects.ascendc.sync import FLAG_LIMIT
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import product
from gaf.dialects.graph.types import TensorType
from gaf.fusion.accesses import (
    Access,
    access_of,
    check_affine,
    check_loops,
    extents_of,
    pick_rows,
    vector_accesses,
)
from gaf.fusion.online import fold_passes
from gaf.fusion.reach import reach
from gaf.fusion.region import NotFusible, Region
from gaf.fusion.schedule import MatMul, Schedule

CUBE_DTYPES = (dt.F32, dt.F16, dt.BF16)

MAX_HANDOVERS = FLAG_LIMIT // 2  # operands and results of matmuls in a row: each takes two of the flags that cores have


def _matmul_name(region: Region, contract: int) -> str:
    """For messages: the model node of a matmul."""
    return region.origins.get(contract) or f"the matmul summing over {extents_of(region, region.nodes[contract].over)}"


def matmul_levels(region: Region) -> tuple[list[list[int]], list[int]]:
    """Contract nodes by level, and the level of every node: contractions on the longest path up to it."""
    depth: list[int] = []
    levels: list[list[int]] = []
    for i, node in enumerate(region.nodes):
        depth.append(max((depth[a] for a in node.args), default=0) + (node.kind == "contract"))
        if node.kind == "contract":
            if depth[i] > len(levels):
                levels.append([])
            levels[depth[i] - 1].append(i)
    return levels, depth


def cube_schedules(region: Region, contracts: Sequence[int]) -> list[Schedule]:
    """The schedules of a region with the matmuls `contracts`, best first. Raises NotFusible."""
    levels, depth = matmul_levels(region)
    for c in contracts:
        right = region.nodes[c].args[1]
        if region.nodes[right].kind != "load":
            made = f" (by {region.origins[right]})" if right in region.origins else ""
            raise NotFusible(f"the right operand of {_matmul_name(region, c)} is computed here{made}; only the left one can be")
    computed = sum(region.nodes[region.nodes[level[0]].args[0]].kind != "load" for level in levels)
    if len(levels) + computed > MAX_HANDOVERS:
        raise NotFusible(
            f"a kernel with {len(levels)} matmuls in a row hands over {len(levels) + computed} times between cube and "
            f"vector cores > {MAX_HANDOVERS}"
        )
    types = region.input_types
    operands = {i for c in contracts for i in region.nodes[c].args if region.nodes[i].kind == "load"}
    used_elsewhere = {i for n in region.nodes if n.kind != "contract" for i in n.args} | {o.node for o in region.outputs}
    accesses = vector_accesses(region, operands - used_elsewhere)
    check_affine(accesses)
    last = region.nodes[levels[-1][0]]
    a, b = (region.nodes[i] for i in last.args)
    m_axes = [x for x in region.axes if x in a.axes - b.axes]
    n_axes = [x for x in region.axes if x in b.axes - a.axes]
    lanes = next(
        (x for x in reversed(n_axes) if all(s.steps[x] == 1 for s in accesses if x in s.steps) and _stored(region, x)), None
    )
    if lanes is None:
        sizes = extents_of(region, n_axes)
        raise NotFusible(f"the columns of {_matmul_name(region, levels[-1][0])} ({sizes}) aren't contiguous in what its epilogue reads or stores")
    wide = {x for c in contracts for x in (*region.nodes[c].over, *(region.nodes[region.nodes[c].args[1]].axes - region.nodes[region.nodes[c].args[0]].axes))}
    rows = pick_rows(region, m_axes, wide | {lanes}, accesses)
    if rows is None:
        raise NotFusible(
            f"no axis of rows of {_matmul_name(region, levels[-1][0])} ({extents_of(region, m_axes)}) is contiguous in what has one "
            "value a row: the statistics would be strided in memory"
        )
    columns = [_columns(region, level, rows) for level in levels[:-1]] + [lanes]
    plan = tuple(
        tuple(_matmul(region, types, c, rows, n) for c in level) for level, n in zip(levels, columns)
    )
    grid = tuple(x for x in region.axes if x in last.axes and x not in (rows, lanes))
    schedule = Schedule(lanes, rows, grid, None, False, plan)
    if schedule.is_chain or len(levels) > 1:
        _check_chain(region, schedule, accesses)
    for level in plan:
        if len({m.computed for m in level}) > 1 or any(m.columns != level[0].columns for m in level):
            raise NotFusible("matmuls side by side differ in their columns or operands")
        if level[0].computed and len({region.nodes[m.node].args[0] for m in level}) > 1:
            raise NotFusible("matmuls side by side have different computed operands")
    # the last vector phase: what depends on the last matmul, and outputs beside it that depend on none
    late = [n for n, phases in zip(region.nodes, node_phases(region, schedule)) if len(levels) in phases]
    reduced = sorted({x for n in late if n.kind == "reduce" for x in n.over})
    if reduced not in ([], [lanes]):
        raise NotFusible("the epilogue reduces over rows of the matmul")
    if reduced and len(n_axes) > 1:
        raise NotFusible("the epilogue needs complete rows, but they are split over several axes")
    spanned = {x for n in late for x in n.axes}
    last_stores = [o for o in region.outputs if region.nodes[o.node] in late]
    spanned |= {x for o in last_stores for e in o.index for x in e.names() if x in region.axes}  # an expanded result
    if not spanned <= {*grid, rows, lanes}:
        raise NotFusible("the epilogue has an axis that the matmul result lacks")
    check_loops(region, [*grid, rows, *([] if reduced or schedule.is_chain else [lanes])])
    schedule = replace(schedule, reduced=lanes if reduced else None)
    if schedule.is_chain:
        return _chains(region, schedule)
    if not reduced:
        return [schedule]
    return [schedule, replace(schedule, streamed=True)]


SHORT_ROW = 1024
"""Columns of a row between two matmuls up to which a core always keeps it."""


LONG_ROW = 2048
"""Columns from which on a walk is faster: the ring of longer rows leaves L2. With a mask that leaves a part of the
columns, the walk, which skips the rest, is faster from SHORT_ROW on.
"""


CARRIED_COLUMNS = 256
"""Columns of the second product up to which a block that carries its sums has enough rows."""


def _chains(region: Region, schedule: Schedule) -> list[Schedule]:
    """The schedules of two matmuls with vector work between them: whole rows, or stacks of columns; the one that suits
    the size first. Rows of unknown length are whole if they fit.
    """
    columns = schedule.levels[0][0].columns
    size, width = region.axes[columns].as_int(), region.axes[schedule.lanes].as_int()
    looped = _looped(region, schedule) if size is None or size > SHORT_ROW else None
    if looped is None:
        return [schedule]
    (folds,) = fold_passes(region, [schedule.levels[1][0].node])
    masked = reach(region, columns, folds[:-1]) is not None
    is_long = size is not None and (masked or size >= LONG_ROW)
    return [looped, schedule] if is_long and width is not None and width <= CARRIED_COLUMNS else [schedule, looped]


def _looped(region: Region, schedule: Schedule) -> Schedule | None:
    """The schedule that walks the row between two matmuls, if all its folds, the second matmul among them, take one pass."""
    if len(schedule.levels) != 2 or any(len(level) > 1 for level in schedule.levels) or schedule.levels[0][0].computed:
        return None
    phases = node_phases(region, schedule)
    if any(phases[r] != {1} for r in region.reductions()) or any(phases[o.node] != {2} for o in region.outputs):
        return None
    passes = fold_passes(region, [schedule.levels[1][0].node])
    if len(passes) > 1 or any(f.is_moment for f in passes[0]):
        return None
    return replace(schedule, looped=True)


def _columns(region: Region, level: Sequence[int], rows: str) -> str:
    """The column axis of an inner level: the one that the next level sums over."""
    node = region.nodes[level[0]]
    a, b = (region.nodes[i] for i in node.args)
    own = [x for x in region.axes if x in b.axes - a.axes]
    if rows not in a.axes - b.axes or len(own) != 1:
        raise NotFusible(
            f"{_matmul_name(region, level[0])} feeds the last matmul, but doesn't have its rows (an axis of {region.axes[rows]})"
        )
    return own[0]


def _matmul(region: Region, types: Sequence[TensorType], number: int, rows: str, columns: str) -> MatMul:
    """Orientation of a matmul's operands. Raises NotFusible where the cube can't read them."""
    node = region.nodes[number]
    a, b = (region.nodes[i] for i in node.args)
    if a.dtype != b.dtype or a.dtype not in CUBE_DTYPES:
        raise NotFusible(f"the cube unit multiplies float operands of one dtype; got {a.dtype} and {b.dtype}")
    if a.guards or b.guards:
        side = "left" if a.guards else "right"
        raise NotFusible(f"a padded or concatenated matmul operand (the {side} one of {_matmul_name(region, number)}) is stored first")
    if rows not in a.axes - b.axes:
        raise NotFusible(
            f"{_matmul_name(region, number)} doesn't have the rows of the last matmul (an axis of {region.axes[rows]}): "
            "matmuls of one kernel share their rows"
        )
    if columns not in b.axes - a.axes:
        raise NotFusible(
            f"{_matmul_name(region, number)} doesn't have the columns of the matmul beside or behind it (an axis of "
            f"{region.axes[columns]})"
        )
    *_, k = node.over
    right = access_of(f"the right operand of {_matmul_name(region, number)}", types[b.input], b.index, region)
    reads = [right]
    if a.kind == "load":
        left = access_of(f"the left operand of {_matmul_name(region, number)}", types[a.input], a.index, region)
        reads.append(left)
    if len(node.over) > 1:
        whole = a.kind == "load" and left.step(k) == 1 and all(
            left.step(o) == product([region.axes[i] for i in node.over[n + 1 :]]) for n, o in enumerate(node.over)
        )
        if not whole or right.step(columns) != 1:
            raise NotFusible("a matmul operand is contiguous along none of several summed axes")
        if len({x for e in b.index if e.names() & {*node.over} for x in (e.names() & {*region.axes}) - {*node.over}}) > 1:
            raise NotFusible("the windows of an image start anew in every line: they are laid out first")
        reads[0] = replace(right, steps={x: step for x, step in right.steps.items() if x not in node.over})
    check_affine(reads)
    if any(r.indirect for r in reads):
        raise NotFusible("a matmul operand is gathered by an index tensor")
    trans_b = right.step(columns) != 1
    if trans_b and right.step(k) != 1:
        raise NotFusible("the right matmul operand is contiguous in neither columns nor the summed axis")
    trans_a = a.kind == "load" and left.step(k) != 1
    if trans_a and left.step(rows) != 1:
        raise NotFusible("the left matmul operand is contiguous in neither rows nor the summed axis")
    return MatMul(number, columns, tuple(node.over), trans_a, trans_b, a.kind != "load")


def _check_chain(region: Region, schedule: Schedule, accesses: Sequence[Access]) -> None:
    """Every vector phase works on whole rows of one axis: that which the next matmul sums over.

    Phase 0 stands before the first matmul, phase i behind the matmuls of level i.
    """
    first = schedule.levels[0][0]
    lanes = [first.summed[-1] if first.computed else None, *(level[0].columns for level in schedule.levels)]
    for phase, level in enumerate(schedule.levels):
        for m in level:
            if phase and not m.computed:
                raise NotFusible("a second matmul that doesn't depend on the first")
            if m.computed and m.summed != (lanes[phase],):
                raise NotFusible("a matmul sums over an axis that isn't the row of its computed operand")
    phases = node_phases(region, schedule)
    around = {*schedule.grid, schedule.rows}
    for node, at in zip(region.nodes, phases):
        if node.kind not in ("map", "reduce", "coord"):
            continue
        wide = node.axes | set(node.over)
        for phase in at:
            if not wide <= around | {lanes[phase]}:
                raise NotFusible("a vector phase mixes rows of two matmuls")
        if node.kind == "reduce" and (len(at) > 1 or set(node.over) != {lanes[min(at)]}):
            raise NotFusible("a row statistic isn't over the row of the one phase that uses it")
    for access in accesses:
        for axis in lanes:
            if axis is not None and access.has(axis) and access.step(axis) != 1:
                raise NotFusible(f"{access.what} isn't contiguous along the rows of its phase")


def node_phases(region: Region, schedule: Schedule) -> list[set[int]]:
    """The vector phases in which each node is computed: those of its users.

    Outputs that don't depend on a matmul belong to the phase before it, if there is one.
    """
    _, depth = matmul_levels(region)
    free = 0 if schedule.levels and schedule.levels[0][0].computed else len(schedule.levels)
    phases: list[set[int]] = [set() for _ in region.nodes]
    for out in region.outputs:
        phases[out.node].add(depth[out.node] or free)
    for i in reversed(range(len(region.nodes))):
        node = region.nodes[i]
        for a in node.args:
            phases[a] |= {depth[i] - 1} if node.kind == "contract" else phases[i]
    return phases


def _stored(region: Region, axis: str) -> bool:
    return any(axis in e.names() for o in region.outputs for e in o.index) or any(
        axis in n.over for n in region.nodes if n.kind == "reduce"
    )
