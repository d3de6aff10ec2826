# SPDX-License-Identifier: Apache-2.0
"""How one kernel runs a region: which axes become lanes, rows and grid, and what is streamed.

A kernel computes on two-dimensional tiles, *rows* x *lanes*; every other parallel axis is a grid loop of step
1. `choose_schedules` returns the schedules that are legal for a region, best first, or raises NotFusible with
the binding constraint. It knows two families: *vector* (elementwise, broadcasts, reductions along lanes or
rows) and *cube* (one matmul whose result tile the vector cores finish).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gaf.dialects.ascendc.sync import FLAG_LIMIT
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import DIMS, Expr, const, is_nonneg, mod, product
from gaf.dialects.common.lanes import MAX_LANES, MAX_STEP, lane_map
from gaf.dialects.graph.types import TensorType
from gaf.fusion.online import fold_passes
from gaf.fusion.piecewise import guard_names
from gaf.fusion.reach import reach
from gaf.fusion.region import Handed, Node, NotFusible, Region, address, direct_names, reads_in
from gaf.fusion.split import Split, choose_split

CUBE_DTYPES = (dt.F32, dt.F16, dt.BF16)
MAX_INPUTS = 64  # kernel arguments: their addresses are 512 bytes of the launch
MAX_HANDOVERS = FLAG_LIMIT // 2  # operands and results of matmuls in a row: each takes two of the flags that cores have
WHOLE_ROW = 4096  # elements of a row up to which a core keeps it rather than shares it with others


@dataclass(frozen=True)
class MatMul:
    """One matmul of a schedule: contract node `node` sums over `summed`, its result has the axis `columns`.

    `trans_a` / `trans_b`: the operand is stored [k, m] / [n, k]. `computed`: the left operand comes from the
    vector cores instead of global memory. Several summed axes, outermost first, are one row of the left operand; the
    rows of the right one start anywhere, as those of the windows of an image do.
    """

    node: int
    columns: str
    summed: tuple[str, ...]
    trans_a: bool
    trans_b: bool
    computed: bool


@dataclass(frozen=True)
class Schedule:
    """The role of every axis of a region.

    `lanes` is contiguous in memory in every access that has it; `rows` is the second tile axis (None: one
    row); `grid` axes run in steps of 1. `reduced` is the axis of the vector reductions (lanes or rows). With
    `streamed` that axis is walked in chunks with carried state, once per dependent reduction; otherwise whole
    rows stay in UB. A reduced axis that is neither lanes nor rows is one of a sliding window: it is walked in
    steps of 1, and the state is a whole tile. `folded` are further axes that every reduction folds, outermost
    first: the rows, walked in chunks too, and axes that are neither rows nor lanes, walked in steps of 1. `split`:
    cores fold parts of one of these axes and merge their states.

    `levels` are the matmuls in order, those of one level side by side. Between two levels, and before the first
    one if its left operand is computed, the vector cores work on whole rows of the axis that the next level sums.

    `looped`: the columns of the first level, which the second one sums, are walked in stacks with carried states.

    `scanned`: the kernel makes running folds along the axis that is `reduced` and streamed.

    `ranked`: the kernel orders the elements along the lanes, which are `reduced` and streamed; this is the axis of
    those that it keeps.

    With `stages` the kernel runs these one after the other; the other fields are those of the stage with the matmul.
    """

    lanes: str
    rows: str | None
    grid: tuple[str, ...]
    reduced: str | None = None
    streamed: bool = False
    levels: tuple[tuple[MatMul, ...], ...] = ()
    folded: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    split: Split | None = None
    looped: bool = False
    ranked: str | None = None
    scanned: bool = False

    @property
    def nest(self) -> tuple[str, ...]:
        """All axes that the vector reductions fold, outermost first."""
        return (*self.folded, self.reduced) if self.reduced is not None else ()

    @property
    def walked(self) -> tuple[str, ...]:
        """Axes of loops in steps of 1: a tile has one point of them."""
        return (*self.grid, *(a for a in self.nest if a not in (self.rows, self.lanes)))

    @property
    def is_cube(self) -> bool:
        return bool(self.levels)

    @property
    def is_chain(self) -> bool:
        """Vector work feeds a matmul of the same kernel."""
        return any(m.computed for level in self.levels for m in level)

    @property
    def is_pipeline(self) -> bool:
        """Several matmuls, or vector work in front of one: a kernel whose units hand over more than once."""
        return self.is_chain or sum(len(level) for level in self.levels) > 1

    @property
    def kind(self) -> str:
        """The fusion type, for reports."""
        if self.stages:
            return _joined_kind([stage.schedule.kind for stage in self.stages])
        if self.ranked is not None:
            return "sort+elementwise"
        if self.scanned:
            return "scan+elementwise"
        if not self.is_cube:
            return "reduction+elementwise" if self.reduced else "elementwise"
        parts = ["elementwise"] if self.levels[0][0].computed else []
        parts += ["matmul"] * len(self.levels) + (["reduction", "elementwise"] if self.reduced else [])
        return "+".join(parts)

    @property
    def handed(self) -> int:
        """Values that one stage writes for another."""
        return sum(isinstance(target, Handed) for stage in self.stages for target in stage.stores)

    @property
    def tile_axes(self) -> tuple[str, ...]:
        return (self.rows, self.lanes) if self.rows is not None else (self.lanes,)


@dataclass(frozen=True, eq=False)
class Stage:
    """One of several regions of a kernel; `stores` says for every output of it which result of the kernel it is,
    or what it hands to later stages. All cores wait for each other before it if it has a `barrier`; without one it
    doesn't depend on the region before it.
    """

    region: Region
    schedule: Schedule
    stores: tuple[int | Handed, ...]
    barrier: bool = False


def _joined_kind(kinds: Sequence[str]) -> str:
    """The kind of a kernel in stages: vector work before a matmul is a prologue, whatever it is."""
    at = next((i for i, kind in enumerate(kinds) if "matmul" in kind), None)
    if at is None:
        return max(kinds, key=len)
    behind = [k for k in kinds[at + 1 :] if k != "elementwise" or not kinds[at].endswith(k)]
    return "+".join((["elementwise"] if at else []) + [kinds[at], *dict.fromkeys(behind)])


@dataclass(frozen=True)
class _Access:
    """One load or store: step of every axis in elements (None: not affine), axes named inside gather indices."""

    what: str
    steps: dict[str, Expr | None]
    indirect: frozenset[str]
    weight: int

    def step(self, axis: str) -> Expr | None:
        return self.steps.get(axis, const(0))

    def has(self, axis: str) -> bool:
        return axis in self.steps or axis in self.indirect


def _access(what: str, type_: TensorType, index: Sequence[Expr], region: Region) -> _Access:
    linear = address(type_.shape, index, region.axes)
    steps: dict[str, Expr | None] = {}
    for axis in direct_names(linear) & set(region.axes):
        bare = Expr({m: c for m, c in linear.terms.items() if not reads_in(Expr({m: c}))})
        steps[axis] = bare.coefficient(axis)
    indirect = {n for r in reads_in(linear) for e in r.args for n in e.names()} & set(region.axes)
    return _Access(what, steps, frozenset(indirect), len(steps))


def _vector_accesses(region: Region, skip: Iterable[int]) -> list[_Access]:
    """Accesses of the vector unit: all loads but the matmul operands, and all stores."""
    types = region.input_types
    skipped = set(skip)
    found = [
        _access(region.inputs[n.input].name_hint or f"input {n.input}", types[n.input], n.index, region)
        for i, n in enumerate(region.nodes)
        if n.kind == "load" and i not in skipped
    ]
    return found + [_access(f"output {i}", o.type, o.index, region) for i, o in enumerate(region.outputs)]


def _check_gathers(region: Region) -> None:
    """Raise NotFusible for loads whose place is more than one dim looked up in an index tensor.

    Indices that count from the end may be taken modulo the size: the device function does that itself.
    """
    for node in region.nodes:
        looked_up = [(i, e) for i, e in enumerate(node.index) if node.kind == "load" and reads_in(e)]
        if not looked_up:
            continue
        (dim, place), name = looked_up[0], region.inputs[node.input].name_hint or f"input {node.input}"
        row = Expr({(reads_in(place)[0],): 1})
        if len(reads_in(place)) > 1:
            raise NotFusible(f"'{name}' is looked up at indices that are looked up themselves: a kernel of its own stores them")
        if len(looked_up) > 1:
            raise NotFusible(f"'{name}' is looked up in {len(looked_up)} dims at once: a gather copies rows along one")
        if place not in (row, mod(row, region.input_types[node.input].shape[dim])):
            raise NotFusible(f"'{name}' is looked up at {place}: a gather takes indices as they are")


def choose_schedules(region: Region) -> list[Schedule]:
    """Legal schedules, best first. Raises NotFusible with the reason when there is none."""
    if len(region.inputs) > MAX_INPUTS:
        raise NotFusible(f"{len(region.inputs)} inputs are more than the {MAX_INPUTS} a kernel takes")
    _check_gathers(region)
    contracts = region.contracts()
    for node in region.nodes:
        if node.kind == "load" and node.dtype not in (dt.F32, dt.F16, dt.BF16, dt.BOOL, dt.I32, dt.I64, dt.I16, dt.U8, dt.I8):
            raise NotFusible(f"{node.dtype} has no vector form yet")
    ordered = [n for n in region.nodes if n.kind == "rank"]
    scans = [n for n in region.nodes if n.kind == "scan"]
    if (ordered or scans) and (contracts or region.reductions() or (ordered and scans)):
        raise NotFusible("a sort or a running fold beside other folds or matmuls")
    if ordered:
        return [_ranked(region, ordered)]
    if not contracts:
        return _vector(region)
    schedules = _cube(region, contracts)
    first = schedules[0]
    inner = [a for level in first.levels for m in level for a in (m.columns, *m.summed)]
    _check_guards(region, (first.rows, first.lanes, *inner))
    return schedules


def _is_spread(node: Node, axis: str) -> bool:
    """True for a guarded load that has an axis only through its guards: the same element all along it."""
    return bool(node.guards) and axis in node.axes and not any(axis in e.names() for e in node.index)


def _check_guards(region: Region, tile: Collection[str | None]) -> None:
    """Guards and coordinates are linear: a copy from memory is a box of rows and lanes, with a constant around it."""
    for node in region.nodes:
        for guard in node.guards:
            used = [a for a in tile if a is not None and a in guard_names(guard)]
            step = guard.index.coefficient(used[0]) if used else None
            number = step.as_int() if step is not None else None
            bounds = guard.low.names() | guard.high.names()
            if len(set(used)) > 1 or (used and (number is None or number < -1 or number == 0 or bounds & set(used))):
                raise NotFusible("a padded or concatenated axis is split or combined with another one")
        if node.kind == "coord":
            for axis in tile:
                if axis is not None and axis in node.index[0].names() and node.index[0].coefficient(axis) is None:
                    raise NotFusible("coordinates that aren't linear in an axis have no vector form")


def _reduced_axes(region: Region) -> list[str]:
    return sorted({a for n in region.nodes if n.kind in ("reduce", "scan") for a in n.over})


def _check_affine(accesses: Sequence[_Access]) -> None:
    for access in accesses:
        for axis, step in access.steps.items():
            if step is None:
                raise NotFusible(f"the index map of {access.what} is not affine")


LONG = 128
"""Rows that fill the largest tile or matmul block: an axis of so many, or of unknown extent, is long enough."""


def _pick_rows(
    region: Region, candidates: Sequence[str], lanes: Collection[str], accesses: Sequence[_Access]
) -> str | None:
    """The innermost of the longest axes whose column accesses (with rows, without lanes) are contiguous in memory."""

    def is_legal(axis: str) -> bool:
        columns = [a for a in accesses if a.has(axis) and not any(a.has(x) for x in lanes)]
        return all(axis in a.steps and a.step(axis) == 1 and not a.indirect for a in columns)

    def length(axis: str) -> int:
        known = region.axes[axis].as_int()
        return LONG if known is None else min(known, LONG)

    return max((a for a in reversed(candidates) if is_legal(a)), key=length, default=None)


def _check_loops(region: Region, loops: Sequence[str]) -> None:
    """No reduction is recomputed, and no output rewritten, for every step of a loop it doesn't depend on."""
    for node in region.nodes:
        if node.kind in ("reduce", "contract", "rank", "scan") and not set(loops) <= node.axes | set(node.over):
            lacks = sorted(set(loops) - node.axes - set(node.over))
            made = region.origins.get(region.nodes.index(node), "a reduction")
            raise NotFusible(f"{made} would be computed again for every step of an axis it doesn't have ({_sizes(region, lacks)})")
    for number, out in enumerate(region.outputs):
        names = {n for e in out.index for n in e.names()}
        if not set(loops) <= names:
            made = region.origins.get(out.node, f"output {number}")
            raise NotFusible(f"the result of {made} lacks an axis that the kernel loops over ({_sizes(region, sorted(set(loops) - names))})")


def _sizes(region: Region, axes: Sequence[str]) -> str:
    """For messages: `axis of 512, axis of 64`."""
    return ", ".join(f"axis of {region.axes[a]}" for a in axes) or "none"


def _matmul_name(region: Region, contract: int) -> str:
    """For messages: the model node of a matmul."""
    return region.origins.get(contract) or f"the matmul summing over {_sizes(region, region.nodes[contract].over)}"


def _contiguous(region: Region, accesses: Sequence[_Access]) -> str:
    """For messages: along which axis each operand is contiguous, those that differ from the first one only."""
    found: dict[str, str] = {}
    for access in accesses:
        along = [a for a in region.axes if access.step(a) == 1]
        found.setdefault(_sizes(region, along), access.what)
    return "; ".join(f"{what} along {sizes}" for sizes, what in list(found.items())[:3])


def _vector(region: Region) -> list[Schedule]:
    accesses = _vector_accesses(region, ())
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
        raise NotFusible("no axis is contiguous in every operand (an on-chip transpose is needed): " + _contiguous(region, accesses))
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
        rows = _pick_rows(region, sorted(turned), {lanes}, accesses)
    if turned and turned != {rows}:
        raise NotFusible("the operands would be transposed on chip in different ways")
    grid = tuple(a for a in parallel if a not in (lanes, rows))
    for access in accesses:  # lanes were found to be legal; loops in steps of 1 take any index
        if rows is not None and access.step(rows) is None:
            raise NotFusible(f"the index map of {access.what} is not affine")
    _check_guards(region, (rows, lanes))
    _check_loops(region, [a for a in (*grid, rows, lanes) if a is not None and a not in reduced])
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


def _ranked(region: Region, ordered: Sequence[Node]) -> Schedule:
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
    accesses = _vector_accesses(region, ())
    for access in accesses:
        if any(axis in access.indirect or access.step(axis) not in (0, 1) for axis in (source, place)):
            raise NotFusible(f"the rows to sort are strided in {access.what}")
    others = [a for a in region.axes if a not in (source, place)]
    rows = _pick_rows(region, [a for a in others if all(x.step(a) is not None for x in accesses)], {source, place}, accesses)
    grid = tuple(a for a in others if a != rows)
    _check_guards(region, (rows, source, place))
    _check_loops(region, [*grid, *([rows] if rows is not None else [])])
    return Schedule(source, rows, grid, source, streamed=True, ranked=place)


def _may_be_lanes(region: Region, accesses: Sequence[_Access], axis: str) -> bool:
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
    return found and not any(_is_spread(n, axis) for n in loads)


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


def _turned(region: Region, accesses: Sequence[_Access], lanes: str) -> set[str]:
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


def _window_rows(region: Region, accesses: Sequence[_Access], lanes: str, parallel: Sequence[str]) -> str | None:
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
    region: Region, accesses: Sequence[_Access], lanes: str, parallel: Sequence[str], reduced: Sequence[str]
) -> str | None:
    """The second tile axis: a reduced one where lanes are kept, or where the outputs have it; else a parallel one."""
    folds = [a for a in region.axes if a in reduced and a != lanes]
    kept = _pick_rows(region, [a for a in parallel if a != lanes], {lanes}, accesses)
    if not folds:
        return kept
    row = _pick_rows(region, folds, {lanes}, accesses)
    if lanes not in reduced:
        if row is None:
            raise NotFusible("a column operand of the reduction is strided in memory")
        return row
    along = any(n in reduced for o in region.outputs for e in o.index for n in e.names())
    return row if row is not None and (along or kept is None) else kept


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


def _cube(region: Region, contracts: Sequence[int]) -> list[Schedule]:
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
    accesses = _vector_accesses(region, operands - used_elsewhere)
    _check_affine(accesses)
    last = region.nodes[levels[-1][0]]
    a, b = (region.nodes[i] for i in last.args)
    m_axes = [x for x in region.axes if x in a.axes - b.axes]
    n_axes = [x for x in region.axes if x in b.axes - a.axes]
    lanes = next(
        (x for x in reversed(n_axes) if all(s.steps[x] == 1 for s in accesses if x in s.steps) and _stored(region, x)), None
    )
    if lanes is None:
        sizes = _sizes(region, n_axes)
        raise NotFusible(f"the columns of {_matmul_name(region, levels[-1][0])} ({sizes}) aren't contiguous in what its epilogue reads or stores")
    wide = {x for c in contracts for x in (*region.nodes[c].over, *(region.nodes[region.nodes[c].args[1]].axes - region.nodes[region.nodes[c].args[0]].axes))}
    rows = _pick_rows(region, m_axes, wide | {lanes}, accesses)
    if rows is None:
        raise NotFusible(
            f"no axis of rows of {_matmul_name(region, levels[-1][0])} ({_sizes(region, m_axes)}) is contiguous in what has one "
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
    _check_loops(region, [*grid, rows, *([] if reduced or schedule.is_chain else [lanes])])
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
    right = _access(f"the right operand of {_matmul_name(region, number)}", types[b.input], b.index, region)
    reads = [right]
    if a.kind == "load":
        left = _access(f"the left operand of {_matmul_name(region, number)}", types[a.input], a.index, region)
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
    _check_affine(reads)
    if any(r.indirect for r in reads):
        raise NotFusible("a matmul operand is gathered by an index tensor")
    trans_b = right.step(columns) != 1
    if trans_b and right.step(k) != 1:
        raise NotFusible("the right matmul operand is contiguous in neither columns nor the summed axis")
    trans_a = a.kind == "load" and left.step(k) != 1
    if trans_a and left.step(rows) != 1:
        raise NotFusible("the left matmul operand is contiguous in neither rows nor the summed axis")
    return MatMul(number, columns, tuple(node.over), trans_a, trans_b, a.kind != "load")


def _check_chain(region: Region, schedule: Schedule, accesses: Sequence[_Access]) -> None:
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
