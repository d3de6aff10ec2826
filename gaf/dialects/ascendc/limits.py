# SPDX-License-Identifier: Apache-2.0
"""On-chip memory that a kernel asks for, as expressions of its tiling, and the A2 capacities it must stay within."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.dialects.ascendc.cube import InitMmadOp
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.dialects.ascendc.queue import InitBufOp, InitQueueOp
from gaf.dialects.common.index import Expr, const, round_up

UB_BYTES = 188_160
"""Unified buffer free for kernels: 192 KiB - 256 B - 8 KiB that Select and others borrow (asc-devkit, NPU 2201)."""

L1_BYTES = 524_032
"""L1 free for kernels: 512 KiB - 256 B (asc-devkit, NPU architecture 2201)."""

L0C_BYTES = 131_072
"""L0C: 128 KiB (SoC ini files)."""

MAX_BUFFERS = 60
"""Buffers of all InitBuffer calls of a kernel: 64, of which the toolkit keeps 4 (8.1 headers, QBUF_MAX_LEN)."""

MAX_EVENTS = 8
"""Buffers of all queues of one position: each may hold an event id, and a pipe pair has 8 (asc-devkit, TQue)."""

MMAD_BUFFERS = 9
"""Buffers that one BlockMmad makes (`gaf_cube.h`)."""


@dataclass(frozen=True)
class Buffer:
    """One on-chip allocation: what it is called, where it lies, and its bytes over tiling fields."""

    name: str
    space: str  # "UB", "L1" or "L0C"
    bytes: Expr


def buffers(kernel: KernelOp) -> list[Buffer]:
    """Every on-chip allocation of a kernel; lengths are rounded up to 32 bytes as InitBuffer does."""
    found: list[Buffer] = []
    for op in kernel.walk():
        match op:
            case InitQueueOp():
                size = round_up(op.param("bytes"), 32) * op.queue.type.buffers.data
                found.append(Buffer(op.queue.name_hint or "queue", "UB", size))
            case InitBufOp():
                found.append(Buffer(op.buf.name_hint or "buf", "UB", round_up(op.param("bytes"), 32)))
            case InitMmadOp():
                name = op.mmad.name_hint or "mmad"
                found.append(Buffer(f"{name} panels", "L1", op.l1_bytes(op.param("m"), op.param("n"))))
                found.append(Buffer(f"{name} sums", "L0C", op.l0c_bytes(op.param("m"), op.param("n"))))
    return found


def capacities(ub: int = UB_BYTES) -> dict[str, int]:
    """Bytes available in each space."""
    return {"UB": ub, "L1": L1_BYTES, "L0C": L0C_BYTES}


def totals(kernel: KernelOp) -> dict[str, Expr]:
    """Bytes asked for in each space that the kernel uses."""
    result: dict[str, Expr] = {}
    for buffer in buffers(kernel):
        result[buffer.space] = result.get(buffer.space, const(0)) + buffer.bytes
    return result
