# SPDX-License-Identifier: Apache-2.0
"""Sizes of the blocks of a matmul: columns by cost where sizes are known, rows that leave every core as many."""

from __future__ import annotations

from gaf.dialects.common.index import Expr, ceildiv, const, maximum, minimum, round_up
from gaf.passes.tile.cube import MAX_COLUMNS, MAX_ROWS
from gaf.passes.tile.handover import FRACTAL
from gaf.target import DEFAULT
from gaf.target.timing import Timing

MACS = 4096
"""Products of a 16-bit type in a cycle: 16 x 16 x 16."""

START = 1500
"""Cycles of a block that nothing overlaps: its first copy to L1, its last from L0C."""

WIDE = 1 << 20
"""Rows of a matmul whose rows aren't known: enough to busy all cores."""


def even_columns(width: int | None) -> int:
    """Columns of equal blocks of a row, whole fractals, as wide as a block can be; a row of unknown width: the
    widest block.
    """
    if width is None:
        return MAX_COLUMNS
    blocks = -(-width // MAX_COLUMNS)
    return _up(-(-width // blocks))


def grid_columns(
    width: int | None, rows: int | None, others: int | None, summed: int | None, element: int, transposed: bool
) -> int:
    """Columns of the blocks of a grid with `others` matmuls of `rows` x `width`.

    The fastest by copies to L1 and products of the busiest core; `element`: bytes of an element of the operands,
    `transposed`: the right one is stored by columns.
    """
    if width is None:
        return MAX_COLUMNS
    timing, cores = Timing.of(), DEFAULT.aic_cores
    depth, height, count = summed or 1024, rows or WIDE, others or 1

    def cost(columns: int) -> float:
        blocks = -(-width // columns) * count
        tall = block_rows_of(height, blocks, cores)
        rounds = -(-(-(-height // tall)) * blocks // cores)
        row = (depth if transposed else columns) * element
        part = timing.aic_row_256 + (1 - timing.aic_row_256) * max(0, row - 256) / 256  # of the rate, short rows
        load = (tall + columns) * depth * element / (timing.aic_load * min(1.0, part))
        products = tall * columns * depth / MACS * timing.fractal_cycles(element) * (2 if element == 4 else 1)
        return rounds * (max(load, products) + START)

    widest = min(MAX_COLUMNS, _up(width))
    return min(range(widest, min(widest, 4 * FRACTAL) - 1, -FRACTAL), key=cost)


def block_rows_of(height: int, blocks: int, cores: int) -> int:
    """`block_rows` for known sizes."""
    rows = block_rows(const(height), const(blocks), MAX_ROWS, cores).as_int()
    assert rows is not None
    return rows


def block_rows(height: Expr, others: Expr, most: int, cores: int) -> Expr:
    """Rows of a block, whole fractals and at most `most`, so that cores have equally many of the blocks.

    `others`: blocks side by side of every row.
    """
    rounds = ceildiv(ceildiv(height, most) * others, cores)
    share = ceildiv(height, maximum(1, rounds * cores // others))
    return minimum(most, maximum(FRACTAL, round_up(share, FRACTAL)))


CARRIED = 16384
"""Elements of a block of carried sums: half of them are in UB of each vector core."""


def looped_rows(width: int | None) -> int:
    """Rows of a block whose sums of `width` columns are carried."""
    rows = CARRIED // max(1, width or MAX_COLUMNS) // FRACTAL * FRACTAL
    return max(FRACTAL, min(MAX_ROWS, rows))


def _up(value: int) -> int:
    return -(-value // FRACTAL) * FRACTAL
