# SPDX-License-Identifier: Apache-2.0
"""Tile sizes for the caches of this machine: in fast mode a kernel runs with smaller tiles than on the device.

A tile is loaded, computed on and stored by one call after another: what these calls hand to each other should
stay in the first-level cache. The source of a kernel doesn't depend on its tile sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from gaf.passes.tile.handover import FRACTAL
from gaf.runtime.kernel import Kernel

FEWEST_LANES = 256
"""Lanes are not split below this: a call costs as much as some 100 elements."""

MOST_LANES = 512
"""Lanes of one call at most: memory keeps working while the processor computes on short tiles."""

BLOCKS_PER_THREAD = 2
"""Blocks that each of several threads finds to claim: more even out threads that are held up, fewer walk through
memory in longer strides. One thread runs one block.
"""


MOST_BLOCK_ROWS = 512
"""Rows of a cube block at most: its sums, in a ring in memory, stay in the second-level cache."""

IDLE = 0.15
"""Part of the time that threads may wait for the last block."""


@cache
def cache_bytes() -> int:
    """Bytes that the buffers of a tile may take: two thirds of the first-level data cache."""
    try:
        size = os.sysconf("SC_LEVEL1_DCACHE_SIZE")
    except (AttributeError, OSError, ValueError):
        size = 0
    return (size if size > 0 else 48 * 1024) * 2 // 3


@cache
def default_threads() -> int:
    """Threads of a launch in fast mode: GAF_THREADS, or one a processor (as native/launch.cpp decides)."""
    asked = os.environ.get("GAF_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else os.cpu_count() or 1


def host_blocks(blocks: int) -> int:
    """Launch width in fast mode of a kernel that the device would launch `blocks` wide."""
    threads = default_threads()
    return min(blocks, BLOCKS_PER_THREAD * threads if threads > 1 else 1)


def host_block_rows(kernel: Kernel, symbols: Mapping[str, int]) -> dict[str, int]:
    """Rows of the cube blocks of a kernel: every block packs its columns anew, so there are as few as keep all threads
    busy. Empty where the device's are as large.
    """
    shared = kernel.shared_blocks
    if shared is None:
        return {}
    device = kernel.host.evaluate(symbols).fields
    rows, others, threads = shared.rows.evaluate(symbols), shared.others.evaluate(symbols), default_threads()
    for pieces in range(-(-rows // MOST_BLOCK_ROWS), -(-rows // FRACTAL) + 1):
        blocks = pieces * others
        if -(-blocks // threads) * threads * (1 - IDLE) <= blocks:
            size = -(-rows // pieces // FRACTAL) * FRACTAL
            return {shared.parameter: size} if size > device[shared.parameter] else {}
    return {}


def host_limits(kernel: Kernel, symbols: Mapping[str, int]) -> dict[str, int]:
    """Bounds of the kernel's tile sizes for these sizes: rows are given up first, then lanes, by halves.

    The one goes first that frees most memory. Blocks of the cube stay as they are.
    """
    lanes = [name for name, counts_lanes in kernel.tile_sizes.items() if counts_lanes]
    rows = [name for name in kernel.tile_sizes if name not in lanes]
    limits = {name: MOST_LANES for name in lanes}
    held, fields = _held(kernel, symbols, limits)
    while held > cache_bytes():
        larger = [n for n in rows if fields[n] > 1] or [n for n in lanes if fields[n] >= 2 * FEWEST_LANES]
        tries = [{**limits, name: fields[name] // 2} for name in larger]
        if not tries:
            break
        limits = min(tries, key=lambda bounds: _held(kernel, symbols, bounds)[0])
        held, fields = _held(kernel, symbols, limits)
    return limits


def _held(kernel: Kernel, symbols: Mapping[str, int], limits: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Bytes that the tiles of one pass take (one buffer of every queue), and the tiling fields."""
    fields = kernel.host.evaluate(symbols, limits).fields
    names = {**symbols, **fields}
    held = sum(b.bytes.evaluate(names) // b.count for b in kernel.host.buffers if b.space == "UB")
    return held, fields
