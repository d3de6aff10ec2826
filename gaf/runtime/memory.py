# SPDX-License-Identifier: Apache-2.0
"""Memory for the results of kernels: blocks that are used again when no array on them is left.

Page faults make filling a fresh block of 64 MB take about twice as long as filling a used one (10.6 and 5.7 ms
with numpy on a two-core x86 machine).
"""

from __future__ import annotations

import math
import mmap
import os
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

SMALLEST = 1 << 20
"""Bytes from which an array gets a block of its own; smaller ones come from the C library, which keeps them."""

HUGE_PAGE = 1 << 21


def idle_limit() -> int:
    """Most bytes that wait for reuse: a sixteenth of the machine's memory, 2 GiB at most."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        total = 1 << 33
    return min(1 << 31, total // 16)


class Pool:
    """Hands out uninitialised arrays; their memory comes back when the last array or view of it is gone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle_bytes = 0
        self._idle: dict[int, list[mmap.mmap]] = {}
        self._lock = threading.RLock()  # an array may be freed by a collection in the middle of anything

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
        """An array like numpy.empty's; large ones are aligned to huge pages."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if size < SMALLEST:
            return np.empty(shape, kind)
        held = _rounded(size)
        lease = _Lease(self, self._take(held), held, size)
        return np.asarray(lease).view(kind).reshape(shape)

    def _take(self, size: int) -> mmap.mmap:
        with self._lock:
            blocks = self._idle.get(size)
            if blocks:
                self.idle_bytes -= size
                return blocks.pop()
        block = mmap.mmap(-1, size + HUGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                block.madvise(mmap.MADV_HUGEPAGE)
            except OSError:  # a system built without them
                pass
        return block

    def give_back(self, block: mmap.mmap, size: int) -> None:
        """Keep a block of `size` bytes for later, or free it when enough are kept."""
        with self._lock:
            if self.idle_bytes + size <= self.limit:
                self.idle_bytes += size
                self._idle.setdefault(size, []).append(block)


class _Lease:
    """What an array on a block keeps alive: the block goes back with it."""

    def __init__(self, pool: Pool, block: mmap.mmap, held: int, size: int) -> None:
        self.pool, self.block, self.held = pool, block, held
        start = np.frombuffer(block, np.uint8).ctypes.data
        self.__array_interface__ = {
            "data": (-(-start // HUGE_PAGE) * HUGE_PAGE, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self.pool.give_back(self.block, self.held)


def _rounded(size: int) -> int:
    """The size of the block for so many bytes: arrays of about one size share blocks."""
    unit = max(HUGE_PAGE, 1 << max(0, size.bit_length() - 4))
    return -(-size // unit) * unit


pool = Pool(idle_limit())
