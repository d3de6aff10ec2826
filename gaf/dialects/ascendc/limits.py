# SPDX-License-Identifier: Apache-2.0
"""On-chip memory that a kernel asks for, as expressions of its tiling, and the capacities of A2."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.dialects.ascendc.cube import InitMmadOp
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.dialects.ascendc.queue import InitBufOp, InitQueueOp
from gaf.dialects.common.index import Expr, const, round_up
from gaf.target import DEFAULT, Chip

UB_BYTES = DEFAULT.ub_usable_bytes
"""Unified buffer free for kernels on the default chip; all chips of the family have the same."""

MAX_BUFFERS = 60
"""Buffers of all InitBuffer calls of a kernel: 64, of which the toolkit keeps 4 (8.1, QBUF_MAX_LEN)."""

MAX_EVENTS = 8
"""Buffers of all queues of one position: each may hold one of the 8 event ids of a pipe pair (8.1, TQue)."""

MMAD_BUFFERS = 9
"""Buffers that one BlockMmad makes (`gaf_cube.h`)."""


@dataclass(frozen=True)
class Buffer:
    """On-chip memory: what it is called, where it lies, its bytes over tiling fields; queues have `count` buffers."""

    name: str
    space: str  # "UB", "L1" or "L0C"
    bytes: Expr
    count: int = 1


def buffers(kernel: KernelOp) -> list[Buffer]:
    """Every on-chip allocation of a kernel; lengths are rounded up to 32 bytes as InitBuffer does."""
    found: list[Buffer] = []
    for op in kernel.walk():
        match op:
            case InitQueueOp():
                count = op.queue.type.buffers.data
                size = round_up(op.param("bytes"), 32) * count
                found.append(Buffer(op.queue.name_hint or "queue", "UB", size, count))
            case InitBufOp():
                found.append(Buffer(op.buf.name_hint or "buf", "UB", round_up(op.param("bytes"), 32)))
            case InitMmadOp():
                name = op.mmad.name_hint or "mmad"
                found.append(Buffer(f"{name} panels", "L1", op.l1_bytes(op.param("m"), op.param("n"), op.kept_bytes)))
                found.append(Buffer(f"{name} sums", "L0C", op.l0c_bytes(op.param("m"), op.param("n"))))
    return found


def capacities(chip: Chip = DEFAULT) -> dict[str, int]:
    """Bytes available in each space of a chip."""
    return {"UB": chip.ub_usable_bytes, "L1": chip.l1_usable_bytes, "L0C": chip.l0c_bytes}


def totals(kernel: KernelOp) -> dict[str, Expr]:
    """Bytes asked for in each space that the kernel uses."""
    result: dict[str, Expr] = {}
    for buffer in buffers(kernel):
        result[buffer.space] = result.get(buffer.space, const(0)) + buffer.bytes
    return result
