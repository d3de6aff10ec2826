# SPDX-License-Identifier: Apache-2.0
"""Pass `insert-sync`: a barrier before every vector call that depends on one not known to be complete."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from gaf.dialects.ascendc.api import ApiOp, root
from gaf.dialects.ascendc.attributes import Bindings, Pipe
from gaf.dialects.ascendc.kernel import ForOp, IfOp, KernelOp, SectionOp
from gaf.dialects.ascendc.memory import Range, disjoint, field_values, range_of
from gaf.dialects.ascendc.queue import AllocOp, DequeOp
from gaf.dialects.ascendc.sync import PipeBarrierOp, SyncAllOp
from gaf.passes.registry import register_pass


@dataclass(frozen=True)
class Pending:
    """Memory that a vector call since the last barrier reads or writes. `fixed`: the same bytes in every
    iteration.
    """

    tensor: SSAValue
    range: Range
    fixed: bool
    write: bool


State = frozenset[Pending]
NOTHING: State = frozenset()


@register_pass
@dataclass(frozen=True)
class InsertSyncPass(ModulePass):
    """Insert PIPE_V barriers between dependent vector calls (read or write after write, write after read).

    Loops are followed around their back edge. Calls on other pipes need none: queues carry their events.
    """

    name = "insert-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                insert_sync(kernel)


def insert_sync(kernel: KernelOp) -> int:
    """Add the barriers that a kernel lacks; returns their number."""
    flow = _Flow(kernel.tiling.data)
    flow.block(kernel.body.block, NOTHING)
    for op in flow.barriers:
        assert op.parent is not None
        barrier = PipeBarrierOp(pipe=Pipe.V)
        barrier.location = op.location
        op.parent.insert_op_before(barrier, op)
    return len(flow.barriers)


class _Flow:
    """Follows the vector calls that may be incomplete through a kernel, and collects where barriers are
    needed.
    """

    def __init__(self, fields: Bindings) -> None:
        self.values = field_values(fields)
        self._conflicts: dict[tuple[Range, Range], bool] = {}
        self.barriers: dict[Operation, None] = {}

    def block(self, block: Block, state: State) -> State:
        """The calls that may be incomplete after a block, given those before it."""
        for op in block.ops:
            state = self._step(op, state)
        return state

    def _step(self, op: Operation, state: State) -> State:
        match op:
            case ForOp():
                while True:
                    after = state | self.block(op.body.block, state)
                    if after == state:
                        return state
                    state = after
            case IfOp():
                return state | self.block(op.body.block, state)
            case SectionOp():
                return self.block(op.body.block, state)
            case PipeBarrierOp():
                return NOTHING if op.pipe.data in (Pipe.V, Pipe.ALL) else state
            case SyncAllOp():
                return NOTHING
            case (
                AllocOp() | DequeOp()
            ):  # queue events have ordered everything on the buffer's previous tensor
                return frozenset(p for p in state if root(p.tensor) is not op.tensor)
            case ApiOp() if op.PIPE is Pipe.V:
                mine = frozenset(self._pending(a.value, a.write) for a in op.accesses())
                if op in self.barriers or any(self._conflict(a, b) for a in state for b in mine):
                    self.barriers[op] = None
                    return mine
                return state | mine
        return state

    def _pending(self, tensor: SSAValue, write: bool) -> Pending:
        range_ = range_of(tensor)
        fixed = (range_.start.names() | range_.bytes.names()) <= self.values.keys()
        return Pending(tensor, range_, fixed, write)

    def _conflict(self, a: Pending, b: Pending) -> bool:
        """Whether two accesses must not overlap in time: one writes what the other touches."""
        if not (a.write or b.write) or a.range.buffer is not b.range.buffer:
            return False
        if not (a.fixed and b.fixed):
            return True
        key = (a.range, b.range)
        if key not in self._conflicts:
            self._conflicts[key] = not disjoint(a.range, b.range, self.values)
        return self._conflicts[key]
