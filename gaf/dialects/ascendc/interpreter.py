# SPDX-License-Identifier: Apache-2.0
"""Runs an ascendc kernel in Python: every core, byte-exact unified buffer, queues, flags between cores.

Values live at the byte offsets that the kernel plans, so a wrong memory plan gives wrong results. Memory that
nobody wrote holds NaN bytes, and so does scratch after use. Detected: accesses outside of a tensor, buffer or
argument, queue misuse, a store to an input, outputs that were never written, more memory than there is, and
deadlocks. Pipes have no time here: a missing barrier or event goes unseen (that is the host twin's check
mode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.ascendc.api import Access, ApiOp, AscendOp, local_dtype
from gaf.dialects.ascendc.attributes import KernelKind, Scalar
from gaf.dialects.ascendc.kernel import KernelOp, RegionOp
from gaf.dialects.ascendc.limits import UB_BYTES
from gaf.dialects.ascendc.memory import conflicting_pairs, overlap_hint
from gaf.dialects.ascendc.queue import (
    AllocOp,
    BufGetOp,
    DequeOp,
    EnqueOp,
    FreeOp,
    ReinterpretOp,
    SliceOp,
    WorkspaceOp,
)
from gaf.dialects.ascendc.types import LocalType, QueueType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.errors import GafError, InvalidInputError, UnsupportedError, VerificationError

FLAG_MAX = 15
"""A cross-core flag counts to 15."""

POISON = 0xFF
"""A byte of memory that nobody wrote: NaN as any float, -1 as any integer."""


Observer = Callable[["Core", Operation], None]


def interpret(
    kernel: KernelOp,
    arrays: Mapping[str, np.ndarray],
    symbols: Mapping[str, int],
    blocks: int | None = None,
    observe: Observer | None = None,
) -> dict[str, np.ndarray]:
    """Execute a launch; returns the output arrays by argument name.

    `arrays` holds every input with the shape that the kernel states; outputs in it are ignored. `symbols`
    gives each symbol; `blocks` overrides the launch width; `observe` is called with the core before each
    statement. Raises UnsupportedError when a guard of the kernel fails, InvalidInputError for arrays that
    don't fit, VerificationError when the kernel does something illegal.
    """
    return Machine(kernel, arrays, symbols, blocks, observe).run()


@dataclass
class GmRef:
    """A GlobalTensor: a flat array in global memory."""

    name: str
    array: np.ndarray
    writable: bool
    written: np.ndarray | None = None

    def read(self, op: Operation, core: Core, at: int, rows: int, lanes: int, stride: int) -> np.ndarray:
        """A copy of rows x lanes elements from `at` on, rows `stride` elements apart."""
        index = self._index(op, core, at, rows, lanes, stride)
        return self.array[index]

    def write(self, op: Operation, core: Core, at: int, stride: int, values: np.ndarray) -> None:
        """Store a 2-D array from `at` on, rows `stride` elements apart."""
        rows, lanes = values.shape
        if not self.writable:
            raise core.error(op, f"stores to the input '{self.name}'")
        if rows > 1 and stride < lanes:
            raise core.error(op, f"rows of {lanes} elements overlap at stride {stride} in '{self.name}'")
        index = self._index(op, core, at, rows, lanes, stride)
        self.array[index] = values if self.array.dtype != np.bool_ else values != 0
        if self.written is not None:
            self.written[index] = True

    def _index(self, op: Operation, core: Core, at: int, rows: int, lanes: int, stride: int) -> np.ndarray:
        if rows < 0 or lanes < 0:
            raise core.error(op, f"{rows} rows of {lanes} elements of '{self.name}'")
        if rows and lanes:
            first, last = min(at, at + (rows - 1) * stride), max(at, at + (rows - 1) * stride) + lanes
            if first < 0 or last > self.array.size:
                raise core.error(
                    op, f"elements {first}..{last - 1} of '{self.name}', which has {self.array.size}"
                )
        return at + np.arange(rows)[:, None] * stride + np.arange(lanes)[None, :]


@dataclass
class LocalRef:
    """A LocalTensor: bytes [start, start + bytes) of the unified buffer."""

    start: int
    bytes: int
    slot: Slot | None = None


@dataclass
class Slot:
    """One buffer of a queue, and where it stands between alloc and free."""

    start: int
    state: str = "free"  # free -> allocated -> enqueued -> dequeued -> free


@dataclass
class Queue:
    """A TQue: its slots, and the order in which they were enqueued."""

    name: str
    bytes: int
    slots: list[Slot]
    fifo: list[Slot] = field(default_factory=list)


class Core:
    """One core that executes the kernel's statements."""

    def __init__(self, machine: Machine, kind: KernelKind, block: int, sub: int) -> None:
        self.machine, self.kind, self.block_index, self.sub = machine, kind, block, sub
        self.env: dict[str, int] = {**machine.fields, "block": block, "blocks": machine.blocks, "sub": sub}
        self.values: dict[SSAValue, Any] = dict(machine.arguments)
        self.ub = np.full(UB_BYTES, POISON, np.uint8)
        self.top = 0
        self.node = ""
        self.op: Operation = machine.kernel
        self.events: set[tuple[str, int]] = set()
        self.flags: dict[int, int] = {}
        self.barriers = 0
        self.hf32 = False

    @property
    def title(self) -> str:
        """Which core this is, for messages."""
        sub = (
            f".{self.sub}"
            if self.machine.kernel.kind.data is KernelKind.MIX and self.kind is KernelKind.AIV
            else ""
        )
        return f"{self.kind.value} {self.block_index}{sub}"

    def error(self, op: Operation, what: str) -> GafError:
        """An illegal action, with kernel, core, model node and op."""
        node = f", node '{self.node}'" if self.node else ""
        return VerificationError(what, where=f"kernel '{self.machine.name}', {self.title}{node}, {op.name}")

    # -- scalars and memory ---------------------------------------------------------------------

    def int(self, e: Expr) -> int:
        """The value of an integer expression."""
        return e.evaluate(self.env)

    def scalar(self, value: Scalar, dtype: np.dtype) -> Any:
        """A scalar operand in the tensor's element type."""
        number = value.value if value.expr is None else self.int(value.expr)
        with np.errstate(over="ignore"):
            return np.asarray(number).astype(dtype)[()]

    def gm(self, value: SSAValue) -> GmRef:
        return self.values[value]

    def span(self, value: SSAValue, elements: int) -> np.ndarray:
        """A view of the first elements of a LocalTensor."""
        ref: LocalRef = self.values[value]
        dtype = local_dtype(value).numpy
        size = elements * dtype.itemsize
        op = self.op
        if elements < 0 or size > ref.bytes:
            raise self.error(
                op, f"{elements} elements ({size} bytes) of '%{value.name_hint}', which has {ref.bytes} bytes"
            )
        if ref.slot is not None and ref.slot.state not in ("allocated", "dequeued"):
            raise self.error(op, f"'%{value.name_hint}' is used while {ref.slot.state}")
        return self.ub[ref.start : ref.start + size].view(dtype)

    def tile(self, value: SSAValue, rows: int, lanes: int) -> np.ndarray:
        """A view [rows, pitch] of a tile, its row padding included."""
        block = 32 // local_dtype(value).bytes
        pitch = -(-lanes // block) * block
        return self.span(value, rows * pitch).reshape(rows, pitch)

    def clobber(self, value: SSAValue, elements: int) -> None:
        """What a call leaves in its scratch operand: nothing that a later call may rely on."""
        self.span(value, elements).view(np.uint8)[:] = POISON

    def reserve(self, op: Operation, size: int, what: str) -> int:
        """Take bytes of the unified buffer, as InitBuffer does."""
        size = -(-size // 32) * 32
        if size <= 0:
            raise self.error(op, f"buffer '{what}' of {size} bytes")
        start = self.top
        self.top += size
        if self.top > UB_BYTES:
            raise self.error(op, f"buffer '{what}' of {size} bytes ends at {self.top} of {UB_BYTES} bytes")
        return start

    # -- buffers and queues ---------------------------------------------------------------------

    def init_queue(self, value: SSAValue, size: int) -> None:
        kind = value.type
        assert isinstance(kind, QueueType) and isinstance(value.owner, Operation)
        name = value.name_hint or "queue"
        slots = [Slot(self.reserve(value.owner, size, name)) for _ in range(kind.buffers.data)]
        self.values[value] = Queue(name, -(-size // 32) * 32, slots)

    def init_buf(self, value: SSAValue, size: int) -> None:
        assert isinstance(value.owner, Operation)
        self.values[value] = LocalRef(
            self.reserve(value.owner, size, value.name_hint or "buf"), -(-size // 32) * 32
        )

    def buf_get(self, op: BufGetOp) -> None:
        buf: LocalRef = self.values[op.buf]
        offset, size = (
            self.int(op.param("offset")),
            self.int(op.param("count")) * local_dtype(op.tensor).bytes,
        )
        if offset % 32:
            raise self.error(op, f"offset {offset} isn't a multiple of 32 bytes")
        if offset < 0 or size < 0 or offset + size > buf.bytes:
            raise self.error(op, f"bytes {offset}..{offset + size} of a buffer of {buf.bytes} bytes")
        self.values[op.tensor] = LocalRef(buf.start + offset, size)

    def alloc(self, op: AllocOp) -> None:
        queue: Queue = self.values[op.queue]
        slot = next((s for s in queue.slots if s.state == "free"), None)
        if slot is None:
            raise self.error(
                op, f"all {len(queue.slots)} buffers of '{queue.name}' are in use: the core would hang"
            )
        slot.state = "allocated"
        self.ub[slot.start : slot.start + queue.bytes] = POISON
        self.values[op.tensor] = LocalRef(slot.start, queue.bytes, slot)

    def enque(self, op: EnqueOp) -> None:
        queue, slot = self._slot(op)
        if slot.state not in ("allocated", "dequeued"):
            raise self.error(op, f"a tensor of '{queue.name}' is enqueued while {slot.state}")
        slot.state = "enqueued"
        queue.fifo.append(slot)

    def deque(self, op: DequeOp) -> None:
        queue: Queue = self.values[op.queue]
        if not queue.fifo:
            raise self.error(op, f"'{queue.name}' is empty: the core would hang")
        slot = queue.fifo.pop(0)
        slot.state = "dequeued"
        self.values[op.tensor] = LocalRef(slot.start, queue.bytes, slot)

    def free(self, op: FreeOp) -> None:
        queue, slot = self._slot(op)
        if slot.state != "dequeued":
            raise self.error(op, f"a tensor of '{queue.name}' is freed while {slot.state}")
        slot.state = "free"

    def _slot(self, op: EnqueOp | FreeOp) -> tuple[Queue, Slot]:
        slot = self.values[op.tensor].slot
        assert slot is not None
        return self.values[op.queue], slot

    def slice(self, op: SliceOp) -> None:
        source: LocalRef = self.values[op.source]
        size = local_dtype(op.source).bytes
        offset, count = self.int(op.param("offset")) * size, self.int(op.param("count")) * size
        if offset % 32:
            raise self.error(op, f"the start, byte {offset}, isn't a multiple of 32")
        if offset < 0 or count < 0 or offset + count > source.bytes:
            raise self.error(op, f"bytes {offset}..{offset + count} of a tensor of {source.bytes} bytes")
        self.values[op.tensor] = LocalRef(source.start + offset, count, source.slot)

    def reinterpret(self, op: ReinterpretOp) -> None:
        self.values[op.tensor] = self.values[op.source]

    def workspace(self, op: WorkspaceOp) -> None:
        memory, offset = self.machine.workspace, self.int(op.param("offset"))
        dtype = local_dtype(op.tensor).numpy
        if offset < 0 or offset % 32 or offset > memory.size:
            raise self.error(op, f"offset {offset} of {memory.size} bytes of workspace")
        usable = (memory.size - offset) // dtype.itemsize * dtype.itemsize
        self.values[op.tensor] = GmRef("workspace", memory[offset : offset + usable].view(dtype), True)

    # -- synchronisation ------------------------------------------------------------------------

    def set_event(self, op: Operation, event: str, number: int) -> None:
        if (event, number) in self.events:
            raise self.error(op, f"event {event} {number} is set twice without a wait")
        self.events.add((event, number))

    def wait_event(self, op: Operation, event: str, number: int) -> None:
        if (event, number) not in self.events:
            raise self.error(op, f"event {event} {number} was never set: the core would hang")
        self.events.remove((event, number))

    def cross_set(self, op: Operation, flag: int) -> None:
        self.machine.cross_set(self, op, flag)

    def cross_wait(self, op: Operation, flag: int) -> Iterator[str]:
        while not self.flags.get(flag):
            yield f"flag {flag}"
        self.flags[flag] -= 1

    def sync_all(self) -> Iterator[str]:
        self.barriers += 1
        while min(c.barriers for c in self.machine.cores) < self.barriers:
            yield "SyncAll"

    # -- statements -----------------------------------------------------------------------------

    def block(self, block: Block) -> Iterator[str]:
        """Execute statements; yields what the core waits for."""
        for op in block.ops:
            if not isinstance(op, AscendOp | RegionOp):
                raise self.error(op, "isn't an op of the ascendc dialect")
            self.op = op
            if self.machine.observe is not None:
                self.machine.observe(self, op)
            with np.errstate(all="ignore"):
                waiting = op.run(self)
            if isinstance(op, ApiOp):
                self._check_overlap(op)
            if waiting is not None:
                yield from waiting

    def _check_overlap(self, op: ApiOp) -> None:
        """What a call writes shares no memory with other operands, except those that may equal dst."""
        accesses = [a for a in op.accesses() if isinstance(a.value.type, LocalType)]
        for target, other in conflicting_pairs(op, accesses):
            (lo, hi), (low, high) = self._extent(target), self._extent(other)
            equal = lo == low and not other.write and target.name == "dst" and other.name in op.INPLACE
            if lo < high and low < hi and not equal:
                raise self.error(op, f"{target.name} overlaps {other.name}; {overlap_hint(op)}")

    def _extent(self, access: Access) -> tuple[int, int]:
        start = self.values[access.value].start
        return start, start + self.int(access.elements) * local_dtype(access.value).bytes

    def finish(self) -> None:
        """Checks at the end of the kernel."""
        for value in self.values.values():
            if isinstance(value, Queue) and any(s.state != "free" for s in value.slots):
                states = ", ".join(s.state for s in value.slots)
                raise self.error(self.machine.kernel, f"queue '{value.name}' ends with buffers {states}")
        if self.events:
            raise self.error(self.machine.kernel, f"events without a wait: {sorted(self.events)}")
        left = {flag: n for flag, n in self.flags.items() if n}
        if left:
            raise self.error(self.machine.kernel, f"cross-core flags without a wait: {left}")


class Machine:
    """One launch: global memory, all cores, and the order in which they run."""

    def __init__(
        self,
        kernel: KernelOp,
        arrays: Mapping[str, np.ndarray],
        symbols: Mapping[str, int],
        blocks: int | None = None,
        observe: Observer | None = None,
    ) -> None:
        self.kernel, self.name, self.observe = kernel, kernel.sym_name.data, observe
        env = {s: int(symbols[s]) for s in kernel.symbols.data}
        shapes = {n: tuple(d.evaluate(env) for d in s) for n, _, _, s in kernel.args}
        for name, value in kernel.tiling.data:
            env[name] = value.evaluate(env)
        for guard in kernel.guards.data:
            if guard.evaluate(env) < 0:
                raise UnsupportedError(
                    f"kernel '{self.name}' can't run for these sizes",
                    expected=f"{guard} >= 0",
                    got=guard.evaluate(env),
                )
        self.fields = {n: env[n] for n, _ in kernel.tiling.data}
        self.blocks = blocks if blocks is not None else max(1, kernel.param("blocks").evaluate(env))
        self.workspace = np.full(max(0, kernel.param("workspace").evaluate(env)), POISON, np.uint8)
        self.outputs: dict[str, tuple[GmRef, tuple[int, ...]]] = {}
        self.arguments: dict[SSAValue, GmRef] = {}
        for value, (name, kind, role, _) in zip(kernel.body.block.args, kernel.args, strict=True):
            self.arguments[value] = self._argument(name, kind.dtype, role, shapes[name], arrays)
        self.pending: dict[tuple[int, int], list[int]] = {}
        self.cores = [
            Core(self, core_kind, b, s)
            for b in range(self.blocks)
            for core_kind, s in {
                KernelKind.AIV: [(KernelKind.AIV, 0)],
                KernelKind.AIC: [(KernelKind.AIC, 0)],
                KernelKind.MIX: [(KernelKind.AIC, 0), (KernelKind.AIV, 0), (KernelKind.AIV, 1)],
            }[kernel.kind.data]
        ]

    def _argument(
        self, name: str, dtype: dt.DType, role: str, shape: tuple[int, ...], arrays: Mapping[str, np.ndarray]
    ) -> GmRef:
        if role == "out":
            size = int(np.prod(shape, dtype=np.int64))
            memory = np.full(size * dtype.bytes, POISON, np.uint8)
            ref = GmRef(
                name, memory.view(np.uint8 if dtype.is_bool else dtype.numpy), True, np.zeros(size, bool)
            )
            self.outputs[name] = (ref, shape)
            return ref
        if name not in arrays:
            raise InvalidInputError(f"kernel '{self.name}': input '{name}' is missing")
        array = np.asarray(arrays[name])
        if tuple(array.shape) != shape or array.dtype != dtype.numpy:
            raise InvalidInputError(
                f"kernel '{self.name}': input '{name}' doesn't fit",
                expected=f"{dtype.name}{list(shape)}",
                got=f"{array.dtype}{list(array.shape)}",
            )
        flat = np.ascontiguousarray(array).reshape(-1)
        return GmRef(name, flat.view(np.uint8) if dtype.is_bool else flat, False)

    def cross_set(self, core: Core, op: Operation, flag: int) -> None:
        """Mode 2: an AIC's set reaches both AIVs; a set of both AIVs reaches the AIC."""
        group = [c for c in self.cores if c.block_index == core.block_index]
        if core.kind is KernelKind.AIC:
            targets = [c for c in group if c.kind is KernelKind.AIV]
        else:
            counts = self.pending.setdefault((core.block_index, flag), [0, 0])
            counts[core.sub] += 1
            if min(counts) == 0:
                return
            counts[0] -= 1
            counts[1] -= 1
            targets = [c for c in group if c.kind is KernelKind.AIC]
        for target in targets:
            target.flags[flag] = target.flags.get(flag, 0) + 1
            if target.flags[flag] > FLAG_MAX:
                raise core.error(op, f"flag {flag} counts beyond {FLAG_MAX}")

    def run(self) -> dict[str, np.ndarray]:
        """Run every core until it waits, in turn, until all are done."""
        running = {core: core.block(self.kernel.body.block) for core in self.cores}
        waiting: dict[Core, str] = {}
        while running:
            progress = False
            for core in list(running):
                before = waiting.get(core)
                reason = next(running[core], None)
                if reason is None:
                    core.finish()
                    del running[core]
                    waiting.pop(core, None)
                    progress = True
                    continue
                waiting[core] = reason
                progress |= before is None or not self._stuck(core, reason)
            if running and not progress:
                self._deadlock(waiting, running)
        if any(any(counts) for counts in self.pending.values()):
            left = {flag: counts for (_, flag), counts in self.pending.items() if any(counts)}
            raise VerificationError(
                f"cross-core flags that only one vector core set: {left}", where=f"kernel '{self.name}'"
            )
        return {name: self._output(name, ref, shape) for name, (ref, shape) in self.outputs.items()}

    def _stuck(self, core: Core, reason: str) -> bool:
        """Whether a core that yielded `reason` would yield it again right away."""
        if reason == "SyncAll":
            return min(c.barriers for c in self.cores) < core.barriers
        return not core.flags.get(int(reason.split()[1]))

    def _deadlock(self, waiting: Mapping[Core, str], running: Mapping[Core, Any]) -> None:
        if any(not self._stuck(core, waiting[core]) for core in running):
            return
        text = "; ".join(f"{c.title} waits for {waiting[c]}" for c in running)
        raise VerificationError(f"deadlock: {text}", where=f"kernel '{self.name}'")

    def _output(self, name: str, ref: GmRef, shape: tuple[int, ...]) -> np.ndarray:
        assert ref.written is not None
        if not ref.written.all():
            missing = np.flatnonzero(~ref.written)
            raise VerificationError(
                f"{missing.size} of {ref.written.size} elements of output '{name}' are never written",
                where=f"kernel '{self.name}'",
                got=f"the first is element {missing[0]}",
            )
        array = ref.array.reshape(shape)
        kind = self.kernel.args[self.kernel.arg_names.data.index(name)][1].dtype
        return array.view(np.bool_) if kind.is_bool else array
