# SPDX-License-Identifier: Apache-2.0
"""Runs an ascendc kernel as unkindly as the device may: pipes run late and out of step, in an order drawn by
chance.

The scalar unit issues statements into a queue per pipe. A pipe starts its instructions in order, but an
instruction reads memory when it starts and writes when it completes, later ones of the pipe may start in
between, and pipes and cores advance at speeds drawn at random. Only what the device guarantees holds them
back: PipeBarrier, flags, EnQue and DeQue, AllocTensor and FreeTensor, cross-core flags, SyncAll. Memory
starts with other contents each time. A kernel with enough synchronisation gives one result in every
execution. Knows nothing of the host twin or its check mode.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.ascendc.api import ApiOp, AscendOp, local_dtype, pitch
from gaf.dialects.ascendc.attributes import KernelKind, Mon, Pipe, Position
from gaf.dialects.ascendc.copy import LoadTileBoxOp
from gaf.dialects.ascendc.counts import Compare01Op, Compare01SOp, Recip1Op, Rsqrt1Op, Select01Op
from gaf.dialects.ascendc.interpreter import Core, GmRef, Machine
from gaf.dialects.ascendc.kernel import KernelOp, RegionOp
from gaf.dialects.ascendc.queue import AllocOp, DequeOp, EnqueOp, FreeOp
from gaf.dialects.ascendc.rows import BinaryColOp, BroadcastColOp, CastTileOp, ColReduceOp, RowReduceOp
from gaf.dialects.ascendc.sync import (
    CrossCoreSetFlagOp,
    CrossCoreWaitFlagOp,
    PipeBarrierOp,
    SetFlagOp,
    SyncAllOp,
    WaitFlagOp,
)
from gaf.dialects.common import dtype as dt
from gaf.errors import GafError, VerificationError
from gaf.runtime.verify import TOLERANCE_ULPS, compare

IN_FLIGHT = 3
"""Instructions of one pipe that may be under way at the same time."""

FILLS = (0xFF, 0x00, 0x7B, 0x5A)
"""What memory holds at first, by execution: NaN, zeros, two others."""

FORWARD = {Position.VECIN: (Pipe.MTE2, Pipe.V), Position.VECOUT: (Pipe.V, Pipe.MTE3)}
"""Pipe that fills a buffer of a queue, and pipe that uses it."""


class Hang(Exception):
    """The kernel makes no progress, or far more steps than it should."""


@dataclass(eq=False)
class Token:
    """A flag between two pipes: set once, taken once."""

    up: bool = False


@dataclass(eq=False)
class Instruction:
    """One call, with the scalars and tensors of the moment it was issued."""

    op: ApiOp
    env: dict[str, int]
    values: dict[SSAValue, Any]
    node: str


def before_first_barrier(op: ApiOp, env: Mapping[str, int]) -> tuple[tuple[str, ...] | None, bool]:
    """What a call of the device library touches before its first own PipeBarrier, and whether it ends with
    one.

    None: it has no barrier inside, or its first instruction touches everything. From `gaf_vector.h`.
    """
    match op:
        case RowReduceOp():
            rows, lanes = op.param("rows").evaluate(env), op.param("lanes").evaluate(env)
            if rows % 8:
                return ("dst",), op.mon.data is Mon.PROD
            return (
                ("src", "tmp") if lanes > 64 else ("tmp",) if op.mon.data is Mon.PROD else None
            ), op.mon.data is Mon.PROD
        case ColReduceOp():
            return None, True
        case BinaryColOp() | BroadcastColOp():
            return ("col", "tmp"), False
        case Rsqrt1Op():
            return ("src", "tmp"), False
        case Recip1Op():
            return ("tmp",), False
        case Compare01Op() | Compare01SOp() | Select01Op():
            count = op.param("count").evaluate(env)
            staged = count % 64 != 0 and count < 256
            compared = (
                ("cond",)
                if isinstance(op, Select01Op)
                else ("a", "b")
                if isinstance(op, Compare01Op)
                else ("a",)
            )
            return ("tmp",) if staged else (*compared, "tmp"), False
        case CastTileOp():
            lanes = op.param("lanes")
            wider = pitch(lanes, local_dtype(op.dst)).evaluate(env) > pitch(
                lanes, local_dtype(op.src)
            ).evaluate(env)
            return (("dst",) if wider else None), False
    return None, False


@dataclass(eq=False)
class Writes:
    """What an instruction under way will write when it completes."""

    ub: np.ndarray
    bytes: np.ndarray
    gm: list[tuple[GmRef, np.ndarray, np.ndarray]]


class LateGm:
    """A GlobalTensor whose stores are kept back."""

    def __init__(self, ref: GmRef, kept: list[tuple[GmRef, np.ndarray, np.ndarray]]) -> None:
        self.ref, self.kept = ref, kept

    def read(self, op: Operation, core: Core, at: int, rows: int, lanes: int, stride: int) -> np.ndarray:
        return self.ref.read(op, core, at, rows, lanes, stride)

    def write(self, op: Operation, core: Core, at: int, stride: int, values: np.ndarray) -> None:
        rows, lanes = values.shape
        if not self.ref.writable:
            raise core.error(op, f"stores to the input '{self.ref.name}'")
        if rows > 1 and stride < lanes:
            raise core.error(op, f"rows of {lanes} elements overlap at stride {stride}")
        self.kept.append((self.ref, self.ref._index(op, core, at, rows, lanes, stride), values.copy()))


class LateCore(Core):
    """One core with its pipes."""

    machine: LateMachine

    def __init__(self, machine: LateMachine, kind: KernelKind, block: int, sub: int) -> None:
        super().__init__(machine, kind, block, sub)
        self.ub[:] = machine.fill
        self.queues: dict[Pipe, deque[Any]] = {p: deque() for p in (Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.M)}
        self.under_way: dict[Pipe, list[Writes]] = {p: [] for p in self.queues}
        self.hard: dict[tuple[str, int], Token] = {}
        self.ready: dict[int, tuple[Token, Pipe]] = {}  # by start of the buffer
        self.given_back: dict[int, tuple[Token, Pipe]] = {}
        rng = machine.rng
        self.speed = {p: (10 ** rng.uniform(-1.5, 0), 10 ** rng.uniform(-1.5, 0)) for p in self.queues}
        self.issue_speed = 10 ** rng.uniform(-1, 0.5)
        self.kept: list[tuple[GmRef, np.ndarray, np.ndarray]] = []
        self.program = self.block(machine.kernel.body.block)
        self.over = False

    # -- the scalar unit ------------------------------------------------------------------------

    def block(self, block: Block) -> Iterator[str]:
        for op in block.ops:
            self.op = op
            if isinstance(op, RegionOp):
                yield from op.run(self)
            elif isinstance(op, AscendOp):
                yield from self.issue(op)
                yield "step"
            else:
                raise self.error(op, "isn't an op of the ascendc dialect")

    def _queue(self, pipe: Pipe) -> deque[Any]:
        """The pipes of a cube core run inside one call: they are one queue here."""
        if self.kind is KernelKind.AIC:
            return self.queues[Pipe.M]
        return self.queues[pipe]

    def _set(self, pipe: Pipe, token: Token) -> None:
        if pipe is Pipe.S:
            token.up = True
        else:
            self._queue(pipe).append(("set", token))

    def _wait(self, pipe: Pipe, token: Token) -> Iterator[str]:
        if pipe is Pipe.S:
            while not token.up:
                yield "wait"
            token.up = False
        else:
            self._queue(pipe).append(("wait", token))

    def drained(self) -> bool:
        return not any(self.queues.values()) and not any(self.under_way.values())

    def issue(self, op: AscendOp) -> Iterator[str]:
        """Give one statement to its pipe; yields "wait" while the core is stopped."""
        match op:
            case PipeBarrierOp():
                if op.pipe.data is Pipe.ALL:
                    while not self.drained():
                        yield "wait"
                else:
                    self._queue(op.pipe.data).append(("barrier", None))
            case SetFlagOp():
                key = (op.event.data.value, self.int(op.param("id")))
                if key in self.hard:
                    raise self.error(op, "is set again before a wait took it")
                self.hard[key] = Token()
                self._set(Pipe(key[0].split("_")[0]), self.hard[key])
            case WaitFlagOp():
                key = (op.event.data.value, self.int(op.param("id")))
                if key not in self.hard:
                    raise self.error(op, "nobody has set it: the core would hang")
                yield from self._wait(Pipe(key[0].split("_")[1]), self.hard.pop(key))
            case CrossCoreSetFlagOp():
                self._queue(op.pipe.data).append(("cross", (op, self.int(op.param("flag")))))
            case CrossCoreWaitFlagOp():
                flag = self.int(op.param("flag"))
                while not self.flags.get(flag):
                    yield "wait"
                self.flags[flag] -= 1
            case SyncAllOp():
                while not self.drained():
                    yield "wait"
                self.barriers += 1
                while min(c.barriers for c in self.machine.cores) < self.barriers:
                    yield "wait"
            case AllocOp():
                self.alloc(op)
                start = self.values[op.tensor].start
                if start in self.given_back:
                    token, pipe = self.given_back.pop(start)
                    yield from self._wait(pipe, token)
            case EnqueOp():
                self.enque(op)
                source, target = FORWARD[op.queue.type.position.data]  # type: ignore[attr-defined]
                token = Token()
                self.ready[self.values[op.tensor].start] = (token, target)
                self._set(source, token)
            case DequeOp():
                self.deque(op)
                token, pipe = self.ready.pop(self.values[op.tensor].start)
                yield from self._wait(pipe, token)
            case FreeOp():
                self.free(op)
                source, target = FORWARD[op.queue.type.position.data]  # type: ignore[attr-defined]
                token = Token()
                self.given_back[self.values[op.tensor].start] = (token, source)
                self._set(target, token)
            case ApiOp():
                if isinstance(op, LoadTileBoxOp):  # fills on V first, and waits for that itself
                    token = Token()
                    self._set(Pipe.V, token)
                    yield from self._wait(Pipe.MTE2, token)
                values = {o: self.values[o] for o in op.operands}
                self._queue(op.PIPE).append(("call", Instruction(op, dict(self.env), values, self.node)))
            case _:
                op.run(self)

    def alloc(self, op: AllocOp) -> None:
        """As in the interpreter, but the buffer keeps its contents."""
        kept = self.ub.copy()
        super().alloc(op)
        self.ub[:] = kept

    def free(self, op: FreeOp) -> None:
        """The toolkit takes back every tensor that is not free already."""
        slot = self.values[op.tensor].slot
        if slot.state == "allocated":
            slot.state = "dequeued"
        super().free(op)

    def span(self, value: SSAValue, elements: int) -> np.ndarray:
        """The state of the buffer was judged when the call was issued."""
        ref = self.values[value]
        slot, ref.slot = ref.slot, None
        try:
            return super().span(value, elements)
        finally:
            ref.slot = slot

    def gm(self, value: SSAValue) -> Any:
        return LateGm(self.values[value], self.kept)

    # -- the pipes ------------------------------------------------------------------------------

    def start(self, pipe: Pipe) -> bool:
        """Take the next item of a pipe if what it needs has happened."""
        queue, busy = self.queues[pipe], self.under_way[pipe]
        if not queue:
            return False
        kind, item = queue[0]
        if kind == "call":
            if len(busy) >= IN_FLIGHT:
                return False
            queue.popleft()
            busy.append(self.execute(item, pipe))
            if before_first_barrier(item.op, item.env)[1]:
                queue.appendleft(("barrier", None))
            return True
        if kind == "wait":
            if not item.up:
                return False
            item.up = False
        elif busy:
            return False
        queue.popleft()
        if kind == "set":
            item.up = True
        elif kind == "cross":
            self.machine.cross_set(self, *item)
        return True

    def finish_all(self, pipe: Pipe) -> None:
        """Everything under way on a pipe completes, first come first."""
        while self.under_way[pipe]:
            self._apply(self.under_way[pipe].pop(0))

    def execute(self, call: Instruction, pipe: Pipe) -> Writes:
        """Read now, and keep back what is written.

        A library call with a barrier inside sees the old contents only of what it touches before that
        barrier.
        """
        early, _ = before_first_barrier(call.op, call.env)
        if early is not None and self.under_way[pipe]:
            old = [(call.values[call.op.operand_named(n)], n) for n in early if n in call.op.operand_names()]
            stale = [(r.start, self.ub[r.start : r.start + r.bytes].copy()) for r, _ in old]
            self.finish_all(pipe)
            fresh = [self.ub[start : start + len(part)].copy() for start, part in stale]
            for start, part in stale:
                self.ub[start : start + len(part)] = part
            try:
                return self._run(call)
            finally:
                for (start, part), now in zip(stale, fresh):
                    self.ub[start : start + len(part)] = now
        return self._run(call)

    def _run(self, call: Instruction) -> Writes:
        now = (self.env, self.values, self.node, self.op, self.kept)
        self.env, self.values, self.node, self.op, self.kept = call.env, call.values, call.node, call.op, []
        before = self.ub[: self.top].copy()
        try:
            with np.errstate(all="ignore"):
                call.op.run(self)
            self._check_overlap(call.op)
            changed = np.flatnonzero(before != self.ub[: self.top])
            writes = Writes(changed, self.ub[changed].copy(), self.kept)
        finally:
            self.ub[: self.top] = before
            self.env, self.values, self.node, self.op, self.kept = now
        return writes

    def complete(self, pipe: Pipe) -> bool:
        """One of the instructions under way writes its results."""
        busy = self.under_way[pipe]
        if not busy:
            return False
        self._apply(busy.pop(self.machine.rng.randrange(len(busy))))
        return True

    def _apply(self, writes: Writes) -> None:
        self.ub[writes.ub] = writes.bytes
        for ref, index, values in writes.gm:
            ref.array[index] = values if ref.array.dtype != np.bool_ else values != 0
            if ref.written is not None:
                ref.written[index] = True

    def finish(self) -> None:
        super().finish()
        if self.hard:
            raise self.error(self.machine.kernel, f"events without a wait: {sorted(self.hard)}")


class LateMachine(Machine):
    """One launch whose order is drawn from `seed`."""

    cores: list[LateCore]  # type: ignore[assignment]

    def __init__(
        self,
        kernel: KernelOp,
        arrays: Mapping[str, np.ndarray],
        symbols: Mapping[str, int],
        blocks: int,
        seed: int,
    ) -> None:
        self.rng = random.Random(seed)
        self.fill = FILLS[seed % len(FILLS)]
        super().__init__(kernel, arrays, symbols, blocks)
        self.workspace[:] = self.fill
        for ref, _ in self.outputs.values():
            ref.array.view(np.uint8)[:] = self.fill
        self.cores = [LateCore(self, c.kind, c.block_index, c.sub) for c in self.cores]
        self.steps = 0

    def _advance(self, core: LateCore) -> bool:
        """One action of a core, drawn by speed; False when it can do nothing now."""
        actions: list[tuple[float, Any, Any]] = []
        if not core.over:
            actions.append((core.issue_speed, "issue", None))
        for pipe, (start, complete) in core.speed.items():
            if core.queues[pipe]:
                actions.append((start, "start", pipe))
            if core.under_way[pipe]:
                actions.append((complete, "complete", pipe))
        while actions:
            (chosen,) = self.rng.choices(range(len(actions)), [a[0] for a in actions])
            _, what, pipe = actions.pop(chosen)
            if what == "issue":
                reason = next(core.program, None)
                if reason is None:
                    core.over = True
                if reason != "wait":
                    return True
            elif core.start(pipe) if what == "start" else core.complete(pipe):
                return True
        return False

    def run(self, limit: int = 1_000_000) -> dict[str, np.ndarray]:
        """Run to the end. Raises GafError for an illegal action, Hang when nothing moves or after `limit`
        steps.
        """
        running = list(self.cores)
        weights = {c: 10 ** self.rng.uniform(-1, 0) for c in running}
        while running:
            waiting = list(running)
            moved = False
            while waiting and not moved:
                (at,) = self.rng.choices(range(len(waiting)), [weights[c] for c in waiting])
                moved = self._advance(waiting.pop(at))
            if not moved:
                raise Hang("no core can go on")
            self.steps += 1
            if self.steps > limit:
                raise Hang(f"more than {limit} steps")
            running = [c for c in running if not (c.over and c.drained())]
        for core in self.cores:
            core.finish()
        if any(any(counts) for counts in self.pending.values()):
            raise VerificationError(
                "a cross-core flag that only one vector core set", where=f"kernel '{self.name}'"
            )
        return {name: self._output(name, ref, shape) for name, (ref, shape) in self.outputs.items()}


def same(name: str, got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results differ by no more than `verify` allows."""
    unit = {dt.F16: 2.0**-10, dt.BF16: 2.0**-7}.get(dt.of_numpy(got.dtype), 2.0**-23)
    return compare(name, got, expected, TOLERANCE_ULPS * unit).ok


@dataclass(frozen=True)
class Verdict:
    """What the executions of a kernel showed."""

    illegal: str = ""
    """Why it may not run at all: outside of memory, a hang, misused queues or flags."""
    differs: int = 0
    """Executions whose outputs are not those expected."""
    steps: int = 0

    @property
    def wrong(self) -> bool:
        return bool(self.illegal or self.differs)


def judge(
    kernel: KernelOp, arrays: Mapping[str, np.ndarray], symbols: Mapping[str, int], blocks: int,
    expected: Mapping[str, np.ndarray], executions: int = 8, limit: int = 1_000_000,
) -> Verdict:  # fmt: skip
    """Run `executions` orders and compare every output with `expected`; stops at the first wrong one."""
    steps = 0
    for seed in range(executions):
        try:
            machine = LateMachine(kernel, arrays, symbols, blocks, seed)
            outputs = machine.run(limit)
        except GafError as e:
            return Verdict(illegal=e.what)
        except (Hang, ValueError, IndexError, KeyError, OverflowError, MemoryError, ArithmeticError) as e:
            return Verdict(illegal=f"{type(e).__name__}: {e}")
        steps = max(steps, machine.steps)
        for name, array in outputs.items():
            if not same(name, array, expected[name]):
                return Verdict(differs=1, steps=steps)
    return Verdict(steps=steps)
