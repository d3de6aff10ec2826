# SPDX-License-Identifier: Apache-2.0
"""Physical forms of tiles: rows x lanes in UB, and linear addresses of their index maps in GM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import (
    DIMS,
    Expr,
    Func,
    ceildiv,
    const,
    expr,
    is_nonneg,
    mod,
    product,
    round_up,
)
from gaf.dialects.common.lanes import LaneMap, lane_map
from gaf.dialects.tile.attributes import format_names
from gaf.dialects.tile.memory import LoadOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.dialects.tile.types import GmType, TileType
from gaf.errors import GafError, UnsupportedError
from gaf.passes.diagnostics import where

BLOCK_BYTES = 32
"""UB tensors and tile rows start at multiples of this."""

Loop = GridOp | ForOp


def physical_dtype(kind: dt.DType) -> dt.DType:
    """What a tile of `kind` is in UB: predicates are floats 0 and 1, everything else is itself."""
    return dt.F32 if kind.is_bool else kind


def memory_dtype(kind: dt.DType) -> dt.DType:
    """What an element of `kind` is in global memory: predicates are bytes."""
    return dt.U8 if kind.is_bool else kind


def pitch(lanes: Expr | int, kind: dt.DType) -> Expr:
    """Elements from one row of a tile to the next."""
    return round_up(lanes, BLOCK_BYTES // kind.bytes)


@dataclass(frozen=True)
class Form:
    """A tile in UB: `axes` are those wider than one element (rows and lanes), sizes are capacities."""

    axes: tuple[str, ...]
    rows: Expr
    lanes: Expr
    dtype: dt.DType

    @property
    def elements(self) -> Expr:
        """Elements including row padding."""
        return self.rows * pitch(self.lanes, self.dtype)

    @property
    def bytes(self) -> Expr:
        return self.elements * self.dtype.bytes

    def with_dtype(self, kind: dt.DType) -> Form:
        return Form(self.axes, self.rows, self.lanes, kind)


def refuse(op: Operation, what: str, **details: object) -> UnsupportedError:
    """The error for a tile op that has no lowering, with the place it comes from."""
    return UnsupportedError(what, where=where(op), **details)  # type: ignore[arg-type]


def loops_around(op: Operation) -> list[Loop]:
    """The loops around an op, outermost first."""
    found: list[Loop] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOp):
        if isinstance(parent, GridOp | ForOp):
            found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


class Windows:
    """Capacity of every axis inside given loops: the step of the innermost one, else the extent.

    On the vector cores the `sub` axis of a grid is halved; `vector` tells which side is asked.
    """

    def __init__(self, kernel: KernelOp, loops: Sequence[Loop], vector: bool = True) -> None:
        self.capacity: dict[str, Expr] = {a.name: a.extent for a in kernel.axes if not a.hull}
        for loop in loops:
            if isinstance(loop, ForOp):
                self.capacity[loop.axis] = loop.step
                continue
            for axis, step in loop.steps:
                self.capacity[axis] = ceildiv(step, 2) if vector and axis == loop.sub else step

    def is_unit(self, axis: str) -> bool:
        """True if the window never holds more than one element."""
        return self.capacity[axis] == 1

    def wide_axes(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes that count physically."""
        return tuple(a for a in axes if not self.is_unit(a))

    def form(self, op: Operation, type: TileType) -> Form:
        """The form of a tile type here; raises UnsupportedError for more than two wide axes."""
        missing = [a for a in type.axes if a not in self.capacity]
        if missing:
            raise refuse(op, f"the hull axis '{missing[0]}' has no form in UB yet", got=type)
        axes = self.wide_axes(type.axes)
        if len(axes) > 2:
            raise refuse(
                op,
                f"a tile has {len(axes)} axes wider than one element",
                expected="rows and lanes",
                got=format_names(axes),
                hint="loop over the outer axes in steps of 1, or collapse them",
            )
        sizes = [self.capacity[a] for a in axes]
        rows = sizes[0] if len(axes) == 2 else const(1)
        lanes = sizes[-1] if axes else const(1)
        return Form(axes, rows, lanes, physical_dtype(type.dtype))


# -- addresses ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """Element offset `base + row_step * row + lane_step * lane` for tile-local row and lane."""

    base: Expr
    row_step: Expr
    lane_step: Expr


@dataclass(frozen=True)
class Gather:
    """Rows of a table chosen by an index array: `table[base + ids[first + row * step] * stride + lane]`."""

    ids: str
    first: Expr
    step: Expr
    base: Expr
    stride: Expr
    rows: Expr


def strides(shape: Sequence[Expr]) -> list[Expr]:
    """Row-major strides in elements."""
    return [product(shape[i + 1 :]) for i in range(len(shape))]


def element_offset(shape: Sequence[Expr], index: Sequence[Expr], ranges: Mapping[str, Expr]) -> Expr:
    """The offset in elements of an index map, simplified for axes of these extents."""
    total = const(0)
    for value, stride in zip(index, strides(shape), strict=True):
        total = total + value * stride
    return total.simplify(ranges)


def linear(
    op: Operation,
    shape: Sequence[Expr],
    index: Sequence[Expr],
    axes: Sequence[str],
    lows: Mapping[str, Expr],
    ranges: Mapping[str, Expr],
    what: str,
) -> Address:
    """The address of an index map for a tile whose wide axes are `axes`.

    `lows` gives the first coordinate of every axis of the tile and `m.lo` / `m.hi` of open loops, `ranges`
    the extents (for simplification). Raises UnsupportedError when the map isn't linear in rows and lanes.
    """
    total = element_offset(shape, index, ranges)
    steps = [_step(op, total, axis, what, index) for axis in axes]
    base = total.substitute({a: lows[a] for a in total.names() if a in lows})
    lane = steps[-1] if steps else const(1)
    return Address(base, steps[0] if len(steps) == 2 else const(0), lane)


def _step(op: Operation, total: Expr, axis: str, what: str, index: Sequence[Expr]) -> Expr:
    step = total.coefficient(axis)
    if step is None:
        raise refuse(
            op,
            f"the index map of {what} isn't linear in '{axis}'",
            expected=f"a constant distance in memory between neighbours along '{axis}'",
            got="[" + ", ".join(str(e) for e in index) + "]",
            hint=f"make '{axis}' a grid axis of step 1, or split it into two axes",
        )
    return step


def require_contiguous(op: Operation, address: Address, axes: Sequence[str], what: str) -> None:
    """Raise UnsupportedError unless neighbouring lanes are neighbours in memory and rows go forward."""
    if axes and address.lane_step != 1:
        kind = "row" if len(axes) == 2 else "value"
        raise refuse(
            op,
            f"{what}: the lane axis '{axes[-1]}' has a stride of {address.lane_step} elements in memory",
            expected="1",
            got=address.lane_step,
            hint=f"a {kind} has to be contiguous: choose another lane axis, or copy the array first",
        )
    value = address.row_step.as_int()
    if value is not None and value < 0:
        raise refuse(op, f"{what}: rows go backwards in memory", expected="a stride >= 0", got=value)


def picked_lanes(op: LoadOp, axes: Sequence[str], ranges: Mapping[str, Expr]) -> LaneMap | None:
    """Where the lanes of a load lie in a row of memory, if they aren't neighbours there and are picked on chip."""
    source = op.source.type
    if not axes or not isinstance(source, GmType) or any(find_read(e) is not None for e in op.index):
        return None
    if memory_dtype(source.dtype).bytes not in (2, 4):
        return None
    step = element_offset(source.shape, op.index, ranges).coefficient(axes[-1])
    if step is not None:
        number = step.as_int()
        return LaneMap(number, const(0)) if number is not None and number > 1 else None
    *outer, last = (e.simplify(ranges) for e in op.index)
    return None if any(axes[-1] in e.names() for e in outer) else lane_map(last, axes[-1])


def is_transposed(op: LoadOp, axes: Sequence[str], ranges: Mapping[str, Expr]) -> bool:
    """True if a load of rows and lanes finds its rows next to each other in memory: they change places on chip."""
    source = op.source.type
    if len(axes) != 2 or op.guards or not isinstance(source, GmType) or any(find_read(e) is not None for e in op.index):
        return False
    if axes[1] in op.index[-1].names() or memory_dtype(source.dtype).bytes not in (2, 4):
        return False
    total = element_offset(source.shape, op.index, ranges)
    apart = total.coefficient(axes[1])
    if apart is None or apart in (const(0), const(1)) or not is_nonneg(apart, DIMS):
        return False
    return total.coefficient(axes[0]) == 1


def find_read(value: Expr) -> Func | None:
    """The `read` atom inside an expression, at any depth."""
    for atom in value.atoms():
        if isinstance(atom, Func):
            if atom.name == "read":
                return atom
            for arg in atom.args:
                if (found := find_read(arg)) is not None:
                    return found
    return None


def gather_address(
    op: Operation,
    source: GmType,
    index: Sequence[Expr],
    ids_shape: Sequence[Expr],
    axes: Sequence[str],
    lows: Mapping[str, Expr],
    ranges: Mapping[str, Expr],
    what: str,
) -> Gather:
    """The parts of a load whose index holds one `read`; raises UnsupportedError for other gathers."""
    at = [i for i, e in enumerate(index) if find_read(e) is not None]
    atom = find_read(index[at[0]])
    assert atom is not None
    plain = Expr({(atom,): 1})
    # GatherTile itself counts negative indices from the end
    if len(at) != 1 or index[at[0]] not in (plain, mod(plain, source.shape[at[0]])):
        raise refuse(
            op,
            f"{what}: this gather has no lowering",
            expected="one dimension indexed by `read ids[...]`, or that modulo its size",
            got="[" + ", ".join(str(e) for e in index) + "]",
        )
    lane_axes, row_axes = axes[-1:], axes[:-1]
    if any(a in e.names() for a in lane_axes for e in atom.args):
        raise refuse(
            op,
            f"{what}: the indices vary along the lanes",
            expected=f"indices without '{lane_axes[0]}'",
            got=str(index[at[0]]),
            hint="a gather copies whole rows; element gathers have no lowering yet",
        )
    ids = linear(op, ids_shape, atom.args, [*row_axes, "?"], lows, ranges, f"the indices '{atom.tag}'")
    rest = [const(0) if i == at[0] else e for i, e in enumerate(index)]
    table = linear(op, source.shape, rest, axes, lows, ranges, what)
    require_contiguous(op, table, lane_axes, what)
    if table.row_step != 0:
        raise refuse(op, f"{what}: rows are gathered and strided at once", expected="one of the two")
    return Gather(
        atom.tag, ids.base, ids.row_step, table.base, strides(source.shape)[at[0]], source.shape[at[0]]
    )


def tile_type(value: SSAValue) -> TileType:
    """The tile type of a value; raises GafError if it is none."""
    if not isinstance(value.type, TileType):
        raise GafError(f"expected a tile, got {value.type}")
    return value.type


def axis_ranges(kernel: KernelOp) -> dict[str, Expr]:
    """Axis -> extent, for simplification of index maps."""
    ranges = {a.name: expr(a.extent) for a in kernel.axes if not a.hull}
    return ranges | {f"{name}.lo": extent for name, extent in ranges.items()}
