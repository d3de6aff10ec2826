# SPDX-License-Identifier: Apache-2.0
"""Pass `verify-limits`: stops when a kernel asks for more memory, buffers or events than a core has."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.dialects.ascendc.attributes import Position
from gaf.dialects.ascendc.cube import InitMmadOp
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.dialects.ascendc.limits import (
    MAX_BUFFERS,
    MAX_EVENTS,
    MMAD_BUFFERS,
    buffers,
    capacities,
    totals,
)
from gaf.dialects.ascendc.queue import InitBufOp, InitQueueOp
from gaf.errors import UnsupportedError
from gaf.passes.registry import option, register_pass
from gaf.target import DEFAULT, Chip, chip


@register_pass
@dataclass(frozen=True)
class VerifyLimitsPass(ModulePass):
    """Check on-chip bytes, the number of buffers, and event ids of every kernel.

    Sizes that depend on tiling fields are checked by the host tiling at each launch.
    """

    name = "verify-limits"

    target: str = option("ascend910b3", "chip whose capacities the kernels have to fit")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = chip(self.target)
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                verify_limits(kernel, target)


def verify_limits(kernel: KernelOp, target: Chip = DEFAULT) -> None:
    """Raises UnsupportedError, listing the buffers, when a kernel can't fit for any shape."""
    where = f"kernel '{kernel.sym_name.data}'"
    for space, total in totals(kernel).items():
        size, limit = total.as_int(), capacities(target)[space]
        if size is not None and size > limit:
            parts = ", ".join(f"{b.name} {b.bytes}" for b in buffers(kernel) if b.space == space)
            raise UnsupportedError(
                f"the buffers don't fit {space}",
                where=where,
                expected=f"at most {limit} bytes",
                got=f"{size}: {parts}",
                hint="a smaller tile, or fewer buffers per queue",
            )
    count = 0
    queues: dict[Position, list[InitQueueOp]] = {}
    for op in kernel.walk():
        match op:
            case InitQueueOp():
                count += op.queue.type.buffers.data
                queues.setdefault(op.queue.type.position.data, []).append(op)
            case InitBufOp():
                count += 1
            case InitMmadOp():
                count += MMAD_BUFFERS
    for position, members in queues.items():
        events = sum(q.queue.type.buffers.data for q in members)
        if events > MAX_EVENTS:
            names = ", ".join(f"{q.queue.name_hint or 'queue'} {q.queue.type.buffers.data}" for q in members)
            raise UnsupportedError(
                f"{position.value} queues hold too many buffers",
                where=where,
                expected=f"at most {MAX_EVENTS} (event ids of a pipe pair)",
                got=f"{events}: {names}",
                hint="single buffers for small or rarely loaded operands",
            )
    if count > MAX_BUFFERS:
        raise UnsupportedError("too many buffers", where=where, expected=f"at most {MAX_BUFFERS}", got=count)
