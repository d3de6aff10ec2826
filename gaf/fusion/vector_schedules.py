# SPDX-License-Identifier: Apache-2.0
"""Schedules of vector kernels: elementwise, broadcasts, reductions along lanes or rows, windows, running folds, sorts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gaf.dialects.common.index import DIMS, Expr, const, is_nonneg, product
from gaf.dialects.common.lanes import MAX_LANES, MAX_STEP, lane_map
from gaf.fusion.accesses import (
    Access,
    check_guards,
    check_loops,
    contiguous,
    is_spread,
    pick_rows,
    vector_accesses,
)
from gaf.fusion.online import fold_passes
from gaf.fusion.piecewise import guard_names
from gaf.fusion.region import Node, NotFusible, Region
from gaf.fusion.schedule import Schedule
from gaf.fusion.split import choose_split

WHOLE_ROW = 4096  # elements of a row up to which a core keeps it rather than shares it with others


def _reduced_axes(region: Region) -> list[str]:
    return sorted({a for n in region.nodes if n.kind in ("reduce", "scan") for a in n.over})


def vector_schedules(region: Region) -> list[Schedule]:
    """The schedules of a region without matmuls, best first. Raises NotFusible."""
    accesses = vector_accesses(region, ())
    if list(region.axes.values()) == [const(1)]:
        return [Schedule(next(iter(region.axes)), None, ())]
    reduced = _reduced_axes(region)
    scans = [n for n in region.nodes if n.kind == "scan"]
    if any(set(n.over) != set(reduced) for n in region.nodes if n.kind in ("reduce", "scan")):
        folds = {(region.origins.get(i, "a reduction"), tuple(n.over)) for i, n in enumerate(region.nodes) if n.kind in ("reduce", "scan")}
        shown = [f"{name} over {' x '.join(str(region.axes[a]) for a in over)}" for name, over in sorted(folds)]
        raise NotFusible("reductions over different axes: " + ", ".join(shown[:4]))
    stored = {n for o in region.outputs for e in o.index for n in e.names()} & set(region.axes)
    parallel = [a for a in region.axes if a in stored and a not in reduced]
    stray = [a for a in region.axes if a not in stored and a not in reduced]
    if stray:
        raise NotFusible("an axis is neither stored nor reduced")
    legal = [a for a in region.axes if _may_be_lanes(region, accesses, a)]
    windowed = not scans and _is_windowed(region, reduced) and not set(legal) <= set(reduced)
    if windowed:
        legal = [a for a in legal if a not in reduced]
    if not legal:
        raise NotFusible("no axis is contiguous in every operand (an on-chip transpose is needed): " + contiguous(region, accesses))
    lanes = max(
        legal,
        key=lambda a: (
            all(x.steps.get(a, 1) == 1 for x in accesses),
            sum(x.weight for x in accesses if a in x.steps),
            list(region.axes).index(a),
        ),
    )
    affine = [a for a in parallel if all(x.step(a) is not None for x in accesses)]
    if windowed or (not reduced and _beside(region, lanes)):
        rows = _window_rows(region, accesses, lanes, affine)
    else:
        rows = _vector_rows(region, accesses, lanes, affine, reduced)
    turned = _turned(region, accesses, lanes)
    if turned and not reduced and len(turned) == 1:
        rows = pick_rows(region, sorted(turned), {lanes}, accesses)
    if turned and turned != {rows}:
        raise NotFusible("the operands would be transposed on chip in different ways")
    grid = tuple(a for a in parallel if a not in (lanes, rows))
    for access in accesses:  # lanes were found to be legal; loops in steps of 1 take any index
        if rows is not None and access.step(rows) is None:
            raise NotFusible(f"the index map of {access.what} is not affine")
    check_guards(region, (rows, lanes))
    check_loops(region, [a for a in (*grid, rows, lanes) if a is not None and a not in reduced])
    if not reduced:
        return [Schedule(lanes, rows, grid)]
    if windowed:
        *outside, last = [a for a in region.axes if a in reduced]
        return [Schedule(lanes, rows, grid, last, streamed=True, folded=tuple(outside))]
    inner = lanes if lanes in reduced else rows
    outer = [a for a in region.axes if a in reduced and a != inner]
    folded = tuple([a for a in outer if a != rows] + [a for a in outer if a == rows])
    for number, out in enumerate(region.outputs):
        names = {n for e in out.index for n in e.names()} & set(reduced)
        if names and names != set(reduced):
            raise NotFusible(f"output {number} has some of the axes that the kernel reduces, but not all")
    if scans:
        if any(not set(reduced) & {n for e in o.index for n in e.names()} for o in region.outputs):
            raise NotFusible("an output lacks the axis of a running fold in the same kernel")
        return [Schedule(lanes, rows, grid, inner, streamed=True, scanned=True)]
    streamed = Schedule(lanes, rows, grid, inner, streamed=True, folded=folded)
    whole = lanes in reduced and set(folded) <= {rows}
    along = any(n in reduced for o in region.outputs for e in o.index for n in e.names())
    split = choose_split(region.axes, reduced, lanes, len(fold_passes(region)), along)
    if split is not None and not (whole and _fits(region, reduced)):
        return [replace(streamed, split=split)]
    return [replace(streamed, streamed=False), streamed] if whole else [streamed]


MOST_RANKED = 4095
"""Elements of a row that a kernel keeps in order: the longest list that one MrgSort takes."""


def ranked_schedule(region: Region, ordered: Sequence[Node]) -> Schedule:
    """Rows are walked in chunks, each of which is sorted and merged with the first elements so far."""
    sources = {a for n in ordered for a in n.over}
    places = {a for n in ordered for a in n.axes - region.nodes[n.args[0]].axes}
    if len(sources) > 1 or len(places) > 1:
        raise NotFusible("sorts along different axes")
    (source,), (place,) = sources, places
    kept = region.axes[place].as_int()
    if kept is None or kept > MOST_RANKED:
        raise NotFusible(f"{region.axes[place]} elements of a row in order (at most {MOST_RANKED})")
    if any(source in e.names() for o in region.outputs for e in o.index):
        raise NotFusible("an output has the elements that the kernel sorts, not in order")
    accesses = vector_accesses(region, ())
    for access in accesses:
        if any(axis in access.indirect or access.step(axis) not in (0, 1) for axis in (source, place)):
            raise NotFusible(f"the rows to sort are strided in {access.what}")
    others = [a for a in region.axes if a not in (source, place)]
    rows = pick_rows(region, [a for a in others if all(x.step(a) is not None for x in accesses)], {source, place}, accesses)
    grid = tuple(a for a in others if a != rows)
    check_guards(region, (rows, source, place))
    check_loops(region, [*grid, *([rows] if rows is not None else [])])
    return Schedule(source, rows, grid, source, streamed=True, ranked=place)


def _may_be_lanes(region: Region, accesses: Sequence[Access], axis: str) -> bool:
    """Whether neighbours along an axis are neighbours in memory, or in loads a few elements of one row apart."""
    loads = [n for n in region.nodes if n.kind == "load"]
    found = False
    for number, access in enumerate(accesses):  # the loads in order, then the stores
        if axis in access.indirect:
            return False
        if axis in access.steps and access.steps[axis] != 1:
            load = loads[number] if number < len(loads) else None
            if load is None or access.indirect:
                return False
            if not _is_picked(load, region, axis, access.steps[axis]) and turned_axis(load, access.steps, axis) is None:
                return False
        found |= axis in access.steps
    return found and not any(is_spread(n, axis) for n in loads)


def turned_axis(load: Node, steps: Mapping[str, Expr | None], lanes: str) -> str | None:
    """The axis along which neighbours of a load are neighbours in memory, if tiles of it and the lanes can be
    transposed on chip; None if not.
    """
    apart = steps[lanes]
    if load.guards or load.dtype.bytes not in (2, 4) or lanes in load.index[-1].names() or apart is None:
        return None
    if not is_nonneg(apart, DIMS):  # rows that lie in memory from the last to the first
        return None
    return next((a for a, step in steps.items() if step == 1 and a != lanes), None)


def _turned(region: Region, accesses: Sequence[Access], lanes: str) -> set[str]:
    """The axes that change places with the lanes in some load."""
    loads = [n for n in region.nodes if n.kind == "load"]
    found = set()
    for load, access in zip(loads, accesses, strict=False):
        step = access.steps.get(lanes, const(1))
        if step != 1 and not _is_picked(load, region, lanes, step):
            axis = turned_axis(load, access.steps, lanes)
            assert axis is not None
            found.add(axis)
    return found


def _small(step: Expr | None) -> bool:
    number = step.as_int() if step is not None else None
    return number is not None and 1 <= number <= MAX_STEP


def _is_picked(load: Node, region: Region, axis: str, step: Expr | None) -> bool:
    """Whether a load can pick lanes out of one row, at constant steps or rounded fractions; whole rows apart would be
    a transpose.
    """
    *outer, last = load.index
    if load.dtype.bytes not in (2, 4) or any(axis in g.low.names() | g.high.names() for g in load.guards):
        return False
    if step is None:
        picked = lane_map(last, axis)
        lanes = min(region.axes[axis].as_int() or MAX_LANES, MAX_LANES)
        return not any(axis in e.names() for e in outer) and picked is not None and picked.is_exact(lanes)
    width = region.input_types[load.input].shape[-1].as_int()
    return _small(step) and (last.coefficient(axis) == step or (width is not None and (step.as_int() or width) < width))


WINDOW = 4096
"""Most positions of a sliding window: each is a turn of a loop with its own load."""


def _is_windowed(region: Region, reduced: Sequence[str]) -> bool:
    """Whether the reductions fold sliding windows: a dim of some operand combines a reduced and a parallel axis."""
    sizes = [region.axes[a].as_int() for a in reduced]
    if not reduced or None in sizes or math.prod(s or 1 for s in sizes) > WINDOW:
        return False
    return any(names & set(reduced) and names - set(reduced) for names in _combined(region))


SHORT = 16
"""Lanes below which a reduced axis is walked in steps rather than folded within tiles."""


def _combined(region: Region) -> list[set[str]]:
    """The axes that meet in one dim of a loaded operand, as a place in a window and its position: not the parts of a
    reshaped dim, of which the inner one counts up to the outer one's step, if that is long enough for lanes.
    """
    found = []
    for e in (e for n in region.nodes if n.kind == "load" for e in n.index):
        steps = {a: e.coefficient(a) for a in region.axes if a in e.names()}
        inner = [a for a in steps if steps[a] == 1 and any(steps[b] == region.axes[a] for b in steps)]
        parts = any((region.axes[a].as_int() or SHORT) >= SHORT for a in inner)
        if len(steps) > 1 and not parts:
            found.append(set(steps))
    return found


def _beside(region: Region, lanes: str) -> set[str]:
    """Lanes and the axes that meet them in one dim of a loaded operand; empty if lanes are whole rows."""
    meeting = [found for found in _combined(region) if lanes in found]
    for e in (e for n in region.nodes if n.kind == "load" for e in n.index):
        if lanes in e.names() and e.coefficient(lanes) != 1:
            meeting.append(e.names() & set(region.axes))
    return {a for found in meeting for a in found}


def _window_rows(region: Region, accesses: Sequence[Access], lanes: str, parallel: Sequence[str]) -> str | None:
    """The second tile axis beside windows: the one that is contiguous with the lanes in every result, if both make
    a tile of some size, so that a tile is one piece of memory; else the longest, since single rows are short.
    """
    names = {n: 1 for e in region.axes.values() for n in e.names()}
    beside = _beside(region, lanes)

    def columns(axis: str) -> bool:
        return all(
            _small(a.step(axis)) and not a.indirect for a in accesses if a.has(axis) and not a.has(lanes)
        )

    affine = [a for a in parallel if a != lanes and columns(a)]
    bounded = [guard_names(g) for n in region.nodes for g in n.guards]
    found = [a for a in affine if a not in beside]
    found = found or [a for a in affine if not any({a, lanes} <= names for names in bounded)]
    stores = accesses[len(accesses) - len(region.outputs) :]

    def rank(axis: str) -> tuple[bool, int, int]:
        length = region.axes[axis].evaluate(names)
        joined = all(x.step(axis) == region.axes[lanes] for x in stores)
        return joined and length * region.axes[lanes].evaluate(names) >= PIECE, length, found.index(axis)

    return max(found, key=rank, default=None)


PIECE = 1024
"""Elements from which on a piece of memory keeps a copy engine busy."""


def _fits(region: Region, reduced: Sequence[str]) -> bool:
    """True if complete rows of the reduced axes are short enough to stay in UB."""
    size = product([region.axes[a] for a in reduced]).as_int()
    return size is not None and size <= WHOLE_ROW


def _vector_rows(
    region: Region, accesses: Sequence[Access], lanes: str, parallel: Sequence[str], reduced: Sequence[str]
) -> str | None:
    """The second tile axis: a reduced one where lanes are kept, or where the outputs have it; else a parallel one."""
    folds = [a for a in region.axes if a in reduced and a != lanes]
    kept = pick_rows(region, [a for a in parallel if a != lanes], {lanes}, accesses)
    if not folds:
        return kept
    row = pick_rows(region, folds, {lanes}, accesses)
    if lanes not in reduced:
        if row is None:
            raise NotFusible("a column operand of the reduction is strided in memory")
        return row
    along = any(n in reduced for o in region.outputs for e in o.index for n in e.names())
    return row if row is not None and (along or kept is None) else kept
