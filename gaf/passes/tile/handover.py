# SPDX-License-Identifier: Apache-2.0
"""Hand-overs between the cube core and its two vector cores: rings in workspace, flags, and their order.

A hand-over is one direction at one place of a round (a grid tile of a group of cores, or a step of a loop in it). Its data lie in a ring in
global memory, `slots` deep; slot `round mod slots` has a flag FULL, set by the writers, and a flag FREE, set by
the readers. Writers wait for FREE from round `slots` on, and once more per slot before the kernel ends. Both units
run the same rounds, and within a round the ops, waits and sets in the order of the tile program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.ascendc.sync import FLAG_LIMIT
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, round_up
from gaf.dialects.tile.folds import ContractOp
from gaf.dialects.tile.memory import MoveOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.errors import InternalError
from gaf.passes.tile.forms import Windows, refuse, tile_type
from gaf.passes.tile.program import is_cube_op

FRACTAL = 16
"""Fixpipe writes whole fractals: 16 columns; blocks have whole fractals of rows."""

ROW_BYTES = 512
"""Pitch of rows that the cube reads: shorter or unaligned rows halve the rate of Nd2Nz (CATLASS)."""

MAX_SLOTS = 2
"""Depth of a ring: one slot is filled while the other is read."""


@dataclass(frozen=True, eq=False)
class Part:
    """One tile of a hand-over, over the window of its grid tile: `rows` x `pitch` elements per slot.

    Whole fractals of rows: every slot starts at a multiple of 512 bytes.
    """

    value: SSAValue
    axes: tuple[str, str]  # rows (or "") and lanes
    rows: Expr
    pitch: Expr
    dtype: dt.DType
    name: str

    @property
    def elements(self) -> Expr:
        return self.rows * self.pitch


@dataclass(eq=False)
class HandOver:
    """Parts that are handed over together. `writers` and `readers` are ops in the body of the grid."""

    to_cube: bool
    parts: list[Part] = field(default_factory=list)
    writers: list[Operation] = field(default_factory=list)
    readers: list[Operation] = field(default_factory=list)
    slots: int = MAX_SLOTS
    flag: int = 0
    """FULL flags are `flag` .. `flag + slots - 1`; FREE flags follow."""

    @property
    def writer(self) -> str:
        return "aiv" if self.to_cube else "aic"

    def full(self, slot: Expr) -> Expr:
        return slot + self.flag

    def free(self, slot: Expr) -> Expr:
        return slot + self.flag + self.slots


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a unit's round: an op of it, or a wait for or set of a flag of a hand-over; `lag` turns behind."""

    kind: str  # "op", "wait" or "set"
    op: Operation | None = None
    handover: HandOver | None = None
    is_full: bool = False
    lag: int = 0


def collect_handovers(kernel: KernelOp, grid: GridOp, ring: ForOp | None = None) -> list[HandOver]:
    """The hand-overs of a grid, or of the loop `ring` in it, in program order, with flags. Raises UnsupportedError
    without a way to do one.
    """
    body = (ring or grid).body.block
    found: dict[object, HandOver] = {}
    parts: dict[SSAValue, Part] = {}
    runs = _cube_runs(body)
    for move in kernel.walk():
        if not isinstance(move, MoveOp):
            continue
        source, target = tile_type(move.source).space, tile_type(move.res).space
        if source == "l0c" and target == "l1":
            raise refuse(move, "a block that goes back to L1 has no lowering yet", got="l0c -> l1")
        to_cube = target == "l1"
        producer = top_op(move.source.owner, body)
        if producer is None or (to_cube and not _is_row_loop(producer, move.source)):
            raise refuse(
                move,
                "rows for the cube are collected by a loop in the grid"
                if to_cube
                else "a block for the vector cores comes from a matmul in the grid, or a loop over its columns",
            )
        handover = found.setdefault(producer if to_cube else runs[producer], HandOver(to_cube))
        if move.source not in parts:
            loops: list[GridOp | ForOp] = [grid] if ring is None else [grid, ring]
            parts[move.source] = _part(kernel, loops, move, to_cube, len(parts))
            handover.parts.append(parts[move.source])
        handover.writers.append(producer)
        handover.readers += _readers(move, body, to_cube)
        handover.slots = min(handover.slots, _slots(move))
    result = list(found.values())
    for handover in result:
        if not handover.readers:
            raise refuse(handover.writers[0], "a tile is moved to L1, but no matmul uses it")
    _assign_flags(grid, result)
    return result


def _cube_runs(body: Block) -> dict[Operation, int]:
    """Number of the run of cube ops that an op of a round stands in: what a run makes is handed over at once."""
    runs: dict[Operation, int] = {}
    number = 0
    for op in body.ops:
        number += not is_cube_op(op)
        runs[op] = number
    return runs


def top_op(op: object, body: Block) -> Operation | None:
    """The op of a round that an op stands in."""
    at = op if isinstance(op, Operation) else None
    while at is not None and at.parent is not body:
        at = at.parent_op()
    return at


def _is_row_loop(producer: Operation, value: SSAValue) -> bool:
    return isinstance(producer, ForOp) and value in producer.collected_results


def _readers(move: MoveOp, body: Block, to_cube: bool) -> list[Operation]:
    users: list[Operation] = [u.operation for u in move.res.uses] if to_cube else [move]
    if to_cube and any(not isinstance(u, ContractOp) for u in users):
        raise refuse(move, "a tile in L1 is an operand of matmuls only")
    found = [top_op(u, body) for u in users]
    if None in found:
        raise refuse(move, "a hand-over leaves its round")
    return [op for op in found if op is not None]


def _part(kernel: KernelOp, loops: Sequence[GridOp | ForOp], move: MoveOp, to_cube: bool, number: int) -> Part:
    type = tile_type(move.source)
    grid = loops[0]
    assert isinstance(grid, GridOp)
    windows = Windows(kernel, loops, vector=False)
    axes = (type.axes[-2] if len(type.axes) > 1 else "", type.axes[-1])
    for axis in type.axes[:-2]:
        if not windows.is_unit(axis):
            raise refuse(move, f"a block with the batch axis '{axis}'", hint="make it a grid axis of step 1")
    rows = windows.capacity[axes[0]] if axes[0] else const(1)
    if to_cube:
        loop = move.source.owner
        assert isinstance(loop, ForOp)
        if type.dtype not in (dt.F32, dt.F16, dt.BF16):
            raise refuse(move, "the cube multiplies floats", expected="f32, f16 or bf16", got=type.dtype)
        if not loop.axis == axes[0] == grid.sub or loop.bounds is not None:
            raise refuse(
                loop,
                "a panel for the cube is collected row by row, half by each vector core",
                expected=f"a loop over all of '{axes[0]}', the sub axis of the grid",
                got=f"a loop over '{loop.axis}' in a grid with the sub axis '{grid.sub}'",
            )
    align = ROW_BYTES // type.dtype.bytes if to_cube else FRACTAL
    known = rows.as_int()
    if known is None or known % FRACTAL:
        rows = round_up(rows, FRACTAL)
    pitch = round_up(windows.capacity[axes[1]], align)
    kind = "panel" if to_cube else "ring"
    return Part(move.source, axes, rows, pitch, type.dtype, f"{kind}{number or ''}")


def _slots(move: MoveOp) -> int:
    """Ring slots that a move asks for."""
    attribute = move.attributes.get("slots")
    return max(1, attribute.value.data) if isinstance(attribute, IntegerAttr) else MAX_SLOTS


def _assign_flags(grid: GridOp, handovers: Sequence[HandOver]) -> None:
    """Number the flags; the last hand-overs get a single slot where all would take too many flags.

    A second slot lets a writer run a round ahead: most useful to the first hand-over of a round, since later ones
    wait for it anyway.
    """
    for handover in reversed(handovers):
        if sum(2 * h.slots for h in handovers) > FLAG_LIMIT:
            handover.slots = 1
    total = sum(2 * h.slots for h in handovers)
    if total > FLAG_LIMIT:
        raise refuse(
            grid,
            f"a kernel hands over {len(handovers)} times between the cube and the vector cores",
            expected=f"at most {FLAG_LIMIT // 2}: each takes two of {FLAG_LIMIT} flags",
            got=f"{total} flags",
            hint="split the kernel",
        )
    flag = 0
    for handover in handovers:
        handover.flag = flag
        flag += 2 * handover.slots


# -- order ------------------------------------------------------------------------------------------


def steps(
    ops: Sequence[Operation], handovers: Sequence[HandOver], side: str, lags: Mapping[Operation, int]
) -> list[Step]:
    """The round of a unit that runs `ops`: waits before the first op that needs them, sets after the last."""
    order = {op: i for i, op in enumerate(ops)}
    before: dict[Operation, list[Step]] = {}
    after: dict[Operation, list[Step]] = {}
    for handover in handovers:
        writes = handover.writer == side
        mine = sorted({order[op] for op in (handover.writers if writes else handover.readers)})
        first, last = ops[mine[0]], ops[mine[-1]]
        before.setdefault(first, []).append(Step("wait", None, handover, not writes, lags.get(first, 0)))
        after.setdefault(last, []).append(Step("set", None, handover, writes, lags.get(last, 0)))
    found: list[Step] = []
    for op in ops:
        found += [*before.get(op, ()), Step("op", op, lag=lags.get(op, 0)), *after.get(op, ())]
    return found


def early_steps(program: Sequence[Step]) -> int:
    """How many steps of a round a unit can do before it goes back to the rest of the round before: those in front of its
    last wait for the other unit, if some of them are what the other one waits for. 0: there are none.
    """
    waits = [i for i, step in enumerate(program) if step.kind == "wait" and step.is_full]
    return waits[-1] if waits and any(s.kind == "set" and s.is_full for s in program[: waits[-1]]) else 0


def check_order(
    aic: Sequence[Step], aiv: Sequence[Step], handovers: Sequence[HandOver], early: int = 0
) -> None:
    """Prove that the two programs never wait for each other in a circle, and that no flag is lost or left over.

    The cube does its `early` steps of a round before the rest of the round before.

    Each flag has one unit that sets and one that waits, so the order in which the units get on doesn't matter: one
    run of both decides, and as many rounds as the deepest ring plus two cover the periodic pattern. Where steps are
    behind, rounds are turns of grid tiles, whose last ones are caught up before the next tile. Raises InternalError.
    """
    deep = max((step.lag for step in (*aic, *aiv)), default=0)
    for rounds in range(MAX_SLOTS + 3):
        for turns in range(1, MAX_SLOTS + 2) if deep else (1,):
            _run([(aic, early), (aiv, 0)], handovers, rounds, turns)


def _run(
    programs: Sequence[tuple[Sequence[Step], int]], handovers: Sequence[HandOver], tiles: int, turns: int
) -> None:
    counts: dict[tuple[int, bool, int], int] = {}
    waits = [
        _events(program, early, handovers, side, tiles, turns)
        for (program, early), side in zip(programs, ("aic", "aiv"), strict=True)
    ]
    pending = [next(w, None) for w in waits]
    while any(p is not None for p in pending):
        progress = False
        for i, events in enumerate(waits):
            while (event := pending[i]) is not None:
                kind, key = event
                if kind == "wait" and not counts.get(key):
                    break
                counts[key] = counts.get(key, 0) + (1 if kind == "set" else -1)
                if counts[key] > 1:
                    raise InternalError(f"flag {key} is set twice before it is waited for")
                pending[i] = next(events, None)
                progress = True
        if not progress:
            raise InternalError(f"the cube and the vector program wait for each other: {pending}")
    if any(counts.values()):
        raise InternalError(f"flags are left over after {tiles * turns} rounds: {counts}")


def _events(
    program: Sequence[Step], early: int, handovers: Sequence[HandOver], side: str, tiles: int, turns: int
) -> Iterator[tuple[str, tuple[int, bool, int]]]:
    rounds = tiles * turns
    for number, step in _overlapped(program, early, rounds) if early else _in_turns(program, tiles, turns):
        if step.handover is None or (step.kind == "wait" and not step.is_full and number < step.handover.slots):
            continue
        yield step.kind, (step.handover.flag, step.is_full, number % step.handover.slots)
    for handover in handovers:
        if handover.writer == side:
            for number in range(max(0, rounds - handover.slots), rounds):
                yield "wait", (handover.flag, False, number % handover.slots)


def _in_turns(program: Sequence[Step], tiles: int, turns: int) -> Iterator[tuple[int, Step]]:
    """Steps with the numbers of their rounds, which are turns of grid tiles; some steps are behind others."""
    deep = max((step.lag for step in program), default=0)
    for tile in range(tiles):
        for turn in range(turns + deep):
            for step in program:
                if 0 <= turn - step.lag < turns:
                    yield tile * turns + turn - step.lag, step


def _overlapped(program: Sequence[Step], early: int, rounds: int) -> Iterator[tuple[int, Step]]:
    """Steps with the numbers of their rounds: the `early` ones of a round come before the others of the round before."""
    for turn in range(rounds + 1):
        if turn < rounds:
            yield from ((turn, step) for step in program[:early])
        if turn:
            yield from ((turn - 1, step) for step in program[early:])


def whole_rows_only(op: Operation, sub: str) -> bool:
    """True if an op of the grid touches tiles with the sub axis only inside loops over it.

    Such an op does nothing on a vector core whose half of the rows is empty.
    """
    if isinstance(op, ForOp):
        return op.axis == sub or all(whole_rows_only(o, sub) for o in op.body.block.ops)
    values = [*op.operands, *op.results]
    return all(sub not in getattr(v.type, "axes", ()) for v in values)
