# SPDX-License-Identifier: Apache-2.0
"""Guards of loads as boxes: the rows and lanes of a tile that exist in memory; the rest is a constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gaf.dialects.common.index import Expr, ceildiv, const, is_nonneg, maximum, minimum, sym
from gaf.dialects.tile.attributes import Guard
from gaf.dialects.tile.memory import LoadOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.forms import find_read, refuse

if TYPE_CHECKING:
    from gaf.passes.tile.emit import Emitter


@dataclass(frozen=True)
class Box:
    """Tile-local rows [row0, row0 + nrows) and lanes [col0, col0 + ncols); empty if a count is 0."""

    row0: Expr
    nrows: Expr
    col0: Expr
    ncols: Expr


def check_load_guards(op: LoadOp, axes: Sequence[str]) -> None:
    """Raise UnsupportedError unless the guards of a load cut a box out of a tile with these wide axes."""
    if any(find_read(i) is not None for i in op.index):
        raise refuse(
            op,
            "a gather with a guard has no lowering",
            got=", ".join(map(str, op.guards)),
            hint="gather first, then pad or concatenate in a kernel of its own",
        )
    source = op.source.type
    assert isinstance(source, GmType)
    if source.dtype.bytes == 8 and op.otherwise != 0:
        raise refuse(
            op, f"a guarded load of {source.dtype} fills with 0 only", expected="else 0", got=op.otherwise
        )
    for guard in op.guards:
        _axis_of(op, guard, axes)


def _axis_of(op: LoadOp, guard: Guard, axes: Sequence[str]) -> tuple[str, int] | None:
    """The wide axis that a guard bounds and its step there (-1, or positive); None for a guard on loops and symbols only."""
    used = [a for a in axes if a in guard.names()]
    if not used:
        return None
    step = guard.value.coefficient(used[0])
    number = step.as_int() if step is not None else None
    bounds = guard.low.names() | guard.high.names()
    if len(used) > 1 or number is None or number < -1 or number == 0 or bounds & set(axes):
        raise refuse(
            op,
            "a guard that isn't a range of rows or of lanes has no lowering",
            expected="`axis * step + constant in low to high`, with one axis of the tile",
            got=str(guard),
        )
    return used[0], number


def load_box(op: LoadOp, axes: Sequence[str], rows: Expr, lanes: Expr, e: Emitter) -> Box:
    """The box of a guarded load in the current windows, as named scalars."""
    sizes = dict(zip(axes[-1:], [lanes])) | (dict(zip(axes[:1], [rows])) if len(axes) == 2 else {})
    begins: dict[str, Expr] = {}
    ends: dict[str, Expr] = {}
    inside = const(1)
    for guard in op.guards:
        found = _axis_of(op, guard, axes)
        low, high = e.evaluate(guard.low), e.evaluate(guard.high)
        if found is None:
            inside = inside * _holds(e.evaluate(guard.value), low, high)
            continue
        axis, step = found
        # value at tile-local position 0 of the axis; the value goes up by a step or down by one from there
        first = e.evaluate(guard.value)
        if step > 0:
            begin, end = ceildiv(low - first, step), ceildiv(high - first, step)
        else:
            begin, end = first - high + 1, first - low + 1
        begins[axis] = maximum(begins.get(axis, const(0)), begin)
        if not _beyond(guard, axis, step, e):
            ends[axis] = minimum(ends.get(axis, sizes[axis]), end)
    spans: dict[str, tuple[Expr, Expr]] = {}
    for axis, size in sizes.items():
        begin = e.name(minimum(begins[axis], size), f"{axis}_first") if axis in begins else const(0)
        spans[axis] = begin, maximum(ends[axis] - begin, 0) if axis in ends else size - begin
    row0, nrows = spans[axes[0]] if len(axes) == 2 else (const(0), const(1))
    col0, ncols = spans[axes[-1]] if axes else (const(0), const(1))
    if inside != 1:
        nrows = nrows * e.name(inside, "inside")
    return Box(row0, e.name(nrows, "box_rows"), col0, e.name(ncols, "box_lanes"))


def _beyond(guard: Guard, axis: str, step: int, e: Emitter) -> bool:
    """Whether a guard still holds where the axis ends: then every window ends first."""
    extent = e.ranges.get(axis)
    if extent is None:
        return False
    last = guard.value - sym(axis) * step + (extent - 1) * step
    return is_nonneg(guard.high - 1 - last if step > 0 else last - guard.low, e.ranges)


def _holds(value: Expr, low: Expr, high: Expr) -> Expr:
    """1 if low <= value < high, else 0."""
    return maximum(minimum(minimum(value - low + 1, high - value), 1), 0)
