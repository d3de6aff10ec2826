# SPDX-License-Identifier: Apache-2.0
"""How one kernel runs a region: which axes become lanes, rows and grid, and what is streamed.

A kernel computes on two-dimensional tiles, *rows* x *lanes*; every other parallel axis is a grid loop of step
1. `choose_schedules` returns the schedules that are legal for a region, best first, or raises NotFusible with
the binding constraint. It knows two families: *vector* (elementwise, broadcasts, reductions along lanes or
rows) and *cube* (one matmul whose result tile the vector cores finish).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.dialects.graph.types import TensorType
from gaf.fusion.region import NotFusible, Region, address, direct_names, reads_in

CUBE_DTYPES = (dt.F32, dt.F16, dt.BF16)
MAX_INPUTS = 24  # kernel arguments; fusion.md 2.2 (8)


@dataclass(frozen=True)
class Schedule:
    """The role of every axis of a region.

    `lanes` is contiguous in memory in every access that has it; `rows` is the second tile axis (None: one
    row); `grid` axes run in steps of 1. `reduced` is the axis of the vector reductions (lanes or rows). With
    `streamed` that axis is walked in chunks with carried state, once per dependent reduction; otherwise whole
    rows stay in UB. `contract` is the summed axis of the matmul, `trans_a` / `trans_b` say that the operand
    is stored [k, m] / [n, k].
    """

    lanes: str
    rows: str | None
    grid: tuple[str, ...]
    reduced: str | None = None
    streamed: bool = False
    contract: str | None = None
    trans_a: bool = False
    trans_b: bool = False

    @property
    def is_cube(self) -> bool:
        return self.contract is not None

    @property
    def kind(self) -> str:
        """The fusion type, for reports."""
        parts = (["matmul"] if self.is_cube else []) + (["reduction"] if self.reduced else [])
        return "+".join([*parts, "elementwise"]) if not self.is_cube or self.reduced else "matmul"

    @property
    def tile_axes(self) -> tuple[str, ...]:
        return (self.rows, self.lanes) if self.rows is not None else (self.lanes,)


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


def choose_schedules(region: Region) -> list[Schedule]:
    """Legal schedules, best first. Raises NotFusible with the reason when there is none."""
    if len(region.inputs) > MAX_INPUTS:
        raise NotFusible(f"{len(region.inputs)} inputs are more than the {MAX_INPUTS} a kernel takes")
    contracts = region.contracts()
    if len(contracts) > 1:
        raise NotFusible("two matmuls in one group (matmul to matmul has no schedule yet)")
    for node in region.nodes:
        if node.kind == "load" and node.dtype not in (dt.F32, dt.F16, dt.BF16, dt.BOOL, dt.I32, dt.I64, dt.U8, dt.I8):
            raise NotFusible(f"{node.dtype} has no vector form yet")
    for out in region.outputs:
        if region.nodes[out.node].dtype.is_int and region.nodes[out.node].kind == "load" and not contracts:
            if out.type.dtype not in (dt.I32,):
                raise NotFusible(f"a pure copy of {out.type.dtype} stays on the host")
    return _cube(region, contracts[0]) if contracts else _vector(region)


def _reduced_axes(region: Region) -> list[str]:
    return sorted({a for n in region.nodes if n.kind == "reduce" for a in n.over})


def _check_affine(accesses: Sequence[_Access]) -> None:
    for access in accesses:
        for axis, step in access.steps.items():
            if step is None:
                raise NotFusible(f"the index map of {access.what} is not affine")


def _pick_rows(candidates: Sequence[str], lanes: str, accesses: Sequence[_Access]) -> str | None:
    """The innermost axis whose column accesses (with rows, without lanes) are contiguous in memory."""
    for axis in reversed(candidates):
        columns = [a for a in accesses if a.has(axis) and not a.has(lanes)]
        if all(axis in a.steps and a.step(axis) == 1 and not a.indirect for a in columns):
            return axis
    return None


def _check_loops(region: Region, loops: Sequence[str]) -> None:
    """No reduction is recomputed, and no output rewritten, for every step of a loop it doesn't depend on."""
    for node in region.nodes:
        if node.kind in ("reduce", "contract") and not set(loops) <= node.axes | set(node.over):
            raise NotFusible("a reduction would be recomputed for every step of an axis it doesn't have")
    for number, out in enumerate(region.outputs):
        names = {n for e in out.index for n in e.names()}
        if not set(loops) <= names:
            raise NotFusible(f"output {number} lacks an axis that the kernel loops over")


def _vector(region: Region) -> list[Schedule]:
    accesses = _vector_accesses(region, ())
    _check_affine(accesses)
    reduced = _reduced_axes(region)
    if len(reduced) > 1:
        raise NotFusible("reductions over different axes: " + ", ".join(f"size {region.axes[a]}" for a in reduced))
    stored = {n for o in region.outputs for e in o.index for n in e.names()} & set(region.axes)
    parallel = [a for a in region.axes if a in stored and a not in reduced]
    stray = [a for a in region.axes if a not in stored and a not in reduced]
    if stray:
        raise NotFusible("an axis is neither stored nor reduced")
    lane_steps = {a: [x.steps[a] for x in accesses if a in x.steps] for a in region.axes}
    legal = [
        a for a in region.axes
        if lane_steps[a] and all(s == 1 for s in lane_steps[a]) and not any(a in x.indirect for x in accesses)
    ]
    if not legal:
        if not region.axes:
            raise NotFusible("a single element: not worth a kernel")
        raise NotFusible("no axis is contiguous in every operand (an on-chip transpose is needed)")
    lanes = max(legal, key=lambda a: (sum(x.weight for x in accesses if a in x.steps), list(region.axes).index(a)))
    if reduced and reduced[0] != lanes:
        rows: str | None = reduced[0]
        if any(x.has(reduced[0]) and not x.has(lanes) and x.step(reduced[0]) != 1 for x in accesses):
            raise NotFusible("a column operand of the reduction is strided in memory")
    else:
        rows = _pick_rows([a for a in parallel if a != lanes], lanes, accesses)
    grid = tuple(a for a in parallel if a not in (lanes, rows))
    base = Schedule(lanes, rows, grid, reduced[0] if reduced else None)
    _check_loops(region, [a for a in (*grid, rows, lanes) if a is not None and a not in reduced])
    if not reduced:
        return [base]
    streamed = Schedule(lanes, rows, grid, reduced[0], streamed=True)
    return [streamed] if reduced[0] != lanes else [base, streamed]


def _cube(region: Region, number: int) -> list[Schedule]:
    node = region.nodes[number]
    a, b = (region.nodes[i] for i in node.args)
    if a.dtype != b.dtype or a.dtype not in CUBE_DTYPES:
        raise NotFusible(f"the cube unit multiplies float operands of one dtype; got {a.dtype} and {b.dtype}")
    (k,) = node.over
    types = region.input_types
    left, right = (_access(w, types[x.input], x.index, region) for w, x in (("left operand", a), ("right operand", b)))
    accesses = _vector_accesses(region, node.args)
    if any(i in node.args for n in region.nodes if n.kind != "contract" for i in n.args):
        accesses += [left, right]
    _check_affine([left, right, *accesses])
    if left.indirect or right.indirect:
        raise NotFusible("a matmul operand is gathered by an index tensor")
    reduced = _reduced_axes(region)
    used = {x for n in region.nodes for x in n.axes}
    m_axes = [x for x in region.axes if x in a.axes - b.axes]
    n_axes = [x for x in region.axes if x in b.axes - a.axes]
    extra = [x for x in region.axes if x in used and x not in a.axes | b.axes]
    if extra:
        raise NotFusible("the epilogue has an axis that the matmul result lacks")
    lanes = next(
        (x for x in reversed(n_axes) if all(s.steps[x] == 1 for s in accesses if x in s.steps) and _stored(region, x)), None
    )
    if lanes is None:
        raise NotFusible("no column axis of the matmul is contiguous in the operands of its epilogue")
    rows = _pick_rows(m_axes, lanes, accesses)
    if rows is None:
        raise NotFusible("a row statistic is strided in memory")
    if reduced not in ([], [lanes]):
        raise NotFusible("the epilogue reduces over rows of the matmul")
    if reduced and len(n_axes) > 1:
        raise NotFusible("the epilogue needs complete rows, but they are split over several axes")
    trans_a, trans_b = left.step(k) != 1, right.step(lanes) != 1
    if trans_a and left.step(rows) != 1:
        raise NotFusible("the left matmul operand is contiguous in neither rows nor the summed axis")
    if trans_b and right.step(k) != 1:
        raise NotFusible("the right matmul operand is contiguous in neither columns nor the summed axis")
    grid = tuple(x for x in region.axes if x in node.axes and x not in (rows, lanes))
    base = Schedule(lanes, rows, grid, lanes if reduced else None, False, k, trans_a, trans_b)
    _check_loops(region, [*grid, rows, *([] if reduced else [lanes])])
    if not reduced:
        return [base]
    return [base, Schedule(lanes, rows, grid, lanes, True, k, trans_a, trans_b)]


def _stored(region: Region, axis: str) -> bool:
    return any(axis in e.names() for o in region.outputs for e in o.index) or any(
        axis in n.over for n in region.nodes if n.kind == "reduce"
    )
