# SPDX-License-Identifier: Apache-2.0
"""The ascendc dialect: API calls, buffers, queues and synchronisation of one kernel, ready to print."""

from __future__ import annotations

from xdsl.ir import Dialect

from gaf.dialects.ascendc import copy, counts, cube, kernel, queue, random, ranks, rows, scans, sync, vector
from gaf.dialects.ascendc.api import ApiOp, AscendOp, pitch, tile
from gaf.dialects.ascendc.attributes import (
    ATTRIBUTES,
    Bop,
    CmpMode,
    HardEvent,
    KernelKind,
    Mon,
    Pipe,
    Position,
    RoundMode,
    Scalar,
)
from gaf.dialects.ascendc.builder import KernelBuilder
from gaf.dialects.ascendc.kernel import ForOp, IfOp, KernelOp, LetOp, NodeOp, SectionOp
from gaf.dialects.ascendc.types import TYPES, BufType, GmType, LocalType, MmadType, QueueType

OPS = (*kernel.OPS, *queue.OPS, *copy.OPS, *vector.OPS, *rows.OPS, *counts.OPS, *random.OPS, *ranks.OPS, *scans.OPS, *cube.OPS, *sync.OPS)
"""Every op class of the dialect."""

API_OPS = tuple(op for op in OPS if issubclass(op, ApiOp))
"""Every API and device-library call."""

AscendC = Dialect("ascendc", list(OPS), [*ATTRIBUTES, *TYPES])

__all__ = [
    "API_OPS", "OPS", "ApiOp", "AscendC", "AscendOp", "Bop", "BufType", "CmpMode", "ForOp", "GmType",
    "HardEvent", "IfOp",
    "KernelBuilder", "KernelKind", "KernelOp", "LetOp", "LocalType", "MmadType", "Mon", "NodeOp", "Pipe",
    "Position",
    "QueueType", "RoundMode", "Scalar", "SectionOp", "copy", "counts", "cube", "kernel", "pitch", "queue", "random", "ranks", "rows", "scans",
    "sync", "tile",
    "vector",
]  # fmt: skip
