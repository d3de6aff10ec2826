# SPDX-License-Identifier: Apache-2.0
"""The cube side of a tile kernel: its matmuls, where their operands lie, and where their blocks go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import Block as IRBlock
from xdsl.ir import Operation, SSAValue

from gaf.dialects.ascendc.cube import InitMmadOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, maximum
from gaf.dialects.tile.folds import ContractOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, YieldOp
from gaf.dialects.tile.types import GmType
from gaf.errors import InternalError
from gaf.passes.tile.forms import (
    Address,
    Windows,
    axis_ranges,
    element_offset,
    linear,
    loops_around,
    refuse,
    tile_type,
)
from gaf.passes.tile.handover import FRACTAL, HandOver, Part, Step, check_order, collect_handovers, early_steps, steps
from gaf.passes.tile.program import is_cube_op
from gaf.passes.tile.skew import lags
from gaf.passes.tile.window_rows import WindowRows, window_rows
from gaf.target import Chip

MAX_ROWS, MAX_COLUMNS = 128, 256
"""Largest block of the device library's BlockMmad."""


@dataclass(frozen=True, eq=False)
class Operand:
    """One side of the product, from global memory or from a part that the vector cores hand over."""

    source: LoadOp | Part
    axes: tuple[str, ...]  # (m, k...) or (k..., n)
    transposed: bool
    pitch: Expr
    dtype: dt.DType
    rows: WindowRows | None = None
    """Where the rows of a right operand start that sums over several axes; then `pitch` is the outermost one's."""


@dataclass(frozen=True, eq=False)
class Block:
    """One contraction: blocks of `size` that go to a part of a hand-over or straight to an output.

    `panel` is the loop over its columns, if there is one inside the grid.
    """

    contract: ContractOp
    rows: str
    columns: str
    summed: tuple[str, ...]
    left: Operand
    right: Operand
    size: tuple[Expr, Expr]
    panel: ForOp | None
    target: Part | StoreOp

    @property
    def output(self) -> dt.DType:
        """What Fixpipe writes."""
        if isinstance(self.target, Part):
            return dt.F32
        target = self.target.target.type
        assert isinstance(target, GmType)
        return target.dtype

    @property
    def layout(self) -> tuple[dt.DType, bool, bool, dt.DType]:
        """What a BlockMmad is made for: input, is A transposed, is B, output."""
        return self.left.dtype, self.left.transposed, self.right.transposed, self.output


@dataclass(frozen=True, eq=False)
class CubePlan:
    """All contractions of a kernel, and what the cube core and the vector cores hand over to each other.

    `ring`: a loop in the grid whose steps are the rounds in which they do, if it isn't the grid itself.
    """

    grid: GridOp
    ring: ForOp | None
    blocks: dict[ContractOp, Block]
    handovers: list[HandOver]
    parts: dict[SSAValue, Part] = field(default_factory=dict)
    """Collected or contracted value -> the part that it is."""
    lags: dict[Operation, int] = field(default_factory=dict)
    """Turns of the ring by which an op is behind the first ones of its round."""

    @property
    def depth(self) -> int:
        """Turns by which the last ops of a round are behind."""
        return max(self.lags.values(), default=0)

    @property
    def body(self) -> IRBlock:
        """The ops of a round."""
        return (self.ring or self.grid).body.block

    @property
    def rows(self) -> str:
        """The axis of the rows of all blocks; "" without one."""
        return next(iter(self.blocks.values())).rows

    @property
    def columns(self) -> set[str]:
        return {b.columns for b in self.blocks.values()}

    @property
    def size(self) -> tuple[Expr, Expr]:
        """Rows and columns of the largest block."""
        first, *others = self.blocks.values()
        rows, columns = first.size
        for block in others:
            rows, columns = maximum(rows, block.size[0]), maximum(columns, block.size[1])
        return rows, columns

    @cached_property
    def early(self) -> int:
        """Steps of a round that the cube does before it finishes the round before, while the vector cores work on that."""
        if self.ring is not None or any(h.slots < 2 for h in self.handovers):
            return 0
        early = early_steps(self.steps("aic"))
        try:
            check_order(self.steps("aic"), self.steps("aiv"), self.handovers, early)
        except InternalError:
            return 0  # a round needs all of the one before
        return early

    def steps(self, side: str) -> list[Step]:
        """What a unit ("aic" or "aiv") does in one round: its ops, waits and sets, in order."""
        ops = [op for op in self.body.ops if is_cube_op(op) == (side == "aic") and not isinstance(op, YieldOp)]
        return steps(ops, self.handovers, side, self.lags)


def plan_cube(kernel: KernelOp) -> CubePlan | None:
    """The cube plan of a kernel, None without a contraction.

    Raises UnsupportedError for shapes without lowering.
    """
    contracts = [op for op in kernel.walk() if isinstance(op, ContractOp)]
    if not contracts:
        return None
    grid, ring = _loops_of(contracts)
    handovers = collect_handovers(kernel, grid, ring)
    parts = {part.value: part for h in handovers for part in h.parts}
    blocks = {op: _plan_block(kernel, op, ring, parts) for op in contracts}
    plan = CubePlan(grid, ring, blocks, handovers, parts)
    others = {b.rows for b in blocks.values()} - {plan.rows}
    if others:
        raise refuse(
            grid,
            "the matmuls of a kernel have different row axes",
            expected=plan.rows,
            got=", ".join(sorted(others)),
        )
    if ring is not None:
        plan.lags.update(lags(ring, handovers))
    if not plan.early:
        check_order(plan.steps("aic"), plan.steps("aiv"), handovers)
    return plan


def _loops_of(contracts: Sequence[ContractOp]) -> tuple[GridOp, ForOp | None]:
    """The grid of all matmuls, and the loop in it in which both units work, if there is one."""
    grids: list[GridOp] = []
    rings: list[ForOp | None] = []
    for op in contracts:
        grid, *inner = loops_around(op) or [None]
        ring = inner.pop(0) if inner and not is_cube_op(inner[0]) else None
        if not isinstance(grid, GridOp) or len(inner) > 1 or not all(isinstance(x, ForOp) for x in inner):
            raise refuse(op, "a matmul stands in a grid, or in one loop over its columns in a grid")
        if inner and not is_cube_op(inner[0]):
            raise refuse(
                op,
                "a loop in a loop with both matmuls and vector work has no lowering yet",
                hint="complete the matmul in a loop of its own, and work on its rows in another",
            )
        assert ring is None or isinstance(ring, ForOp)
        if grid not in grids:
            grids.append(grid)
        if ring not in rings:
            rings.append(ring)
    if len(grids) > 1:
        raise refuse(grids[1], "a kernel with a matmul has a second grid", hint="split the kernel")
    if len(rings) > 1:
        raise refuse(contracts[-1], "matmuls of a kernel stand in different loops", hint="split the kernel")
    return grids[0], rings[0]


def _plan_block(kernel: KernelOp, op: ContractOp, ring: ForOp | None, parts: dict[SSAValue, Part]) -> Block:
    loops = loops_around(op)
    panel = loops[-1] if isinstance(loops[-1], ForOp) and loops[-1] is not ring else None
    if op.acc is not None:
        raise refuse(
            op,
            "a carried accumulator has no lowering",
            hint="leave the summed axis whole: BlockMmad walks it",
        )
    windows = Windows(kernel, loops, vector=False)
    axes = tile_type(op.res).axes
    rows, columns = axes[-2] if len(axes) > 1 else "", axes[-1]
    for axis in axes[:-2]:
        if not windows.is_unit(axis):
            raise refuse(
                op,
                f"a matmul with the batch axis '{axis}' in one block",
                hint="make it a grid axis of step 1",
            )
    summed = tuple(a for a in op.summed if not windows.is_unit(a)) or op.summed[-1:]
    for axis in summed:
        if ring is not None and axis == ring.axis:
            continue  # a round sums its step: the vector cores add up
        if windows.capacity[axis] != expr(kernel.extents[axis]):
            raise refuse(
                op, f"the summed axis '{axis}' is looped over", hint="leave it whole: BlockMmad walks it"
            )
    left, right = _operands(kernel, op, rows, columns, summed, parts)
    size = (windows.capacity[rows] if rows else const(1), windows.capacity[columns])
    _check_size(op, size)
    if panel is not None and (panel.axis != columns or panel.inits):
        raise refuse(
            panel,
            "a loop around a matmul only walks its column blocks",
            expected=f"a loop over '{columns}'",
        )
    target = _target(kernel, op, panel, columns, size[1], parts)
    return Block(op, rows, columns, summed, left, right, size, panel, target)


def _target(
    kernel: KernelOp,
    op: ContractOp,
    panel: ForOp | None,
    columns: str,
    width: Expr,
    parts: dict[SSAValue, Part],
) -> Part | StoreOp:
    """Where a block goes: every result is either handed over to the vector cores or stored once."""
    users = [use.operation for use in op.res.uses]
    stores = [u for u in users if isinstance(u, StoreOp)]
    value: SSAValue = op.res
    if panel is not None and any(isinstance(u, YieldOp) for u in users):
        value = panel.collected_results[list(panel.terminator.collected).index(op.res)]
    if value in parts and not stores:
        return parts[value]
    if len(stores) == 1 and len(users) == 1 and stores[0].parent is op.parent:
        _check_direct(stores[0], kernel, columns, width)
        return stores[0]
    raise refuse(op, "a matmul result is either moved to the vector cores or stored once")


def _operands(
    kernel: KernelOp, op: ContractOp, rows: str, columns: str, over: tuple[str, ...], parts: dict[SSAValue, Part]
) -> tuple[Operand, Operand]:
    a, b = op.a, op.b
    if columns in tile_type(a).axes and columns not in tile_type(b).axes:
        a, b = b, a
    if len(over) > 1:
        return _window_operands(kernel, op, a, b, rows, columns, over)
    (summed,) = over
    found = []
    for value, axes, kept in ((a, (rows, summed), rows), (b, (summed, columns), columns)):
        owner, kind = value.owner, tile_type(value).dtype
        if isinstance(owner, MoveOp) and owner.source in parts and value is a:
            part = parts[owner.source]
            if part.axes != axes:
                raise refuse(
                    op,
                    "a matmul operand from the vector cores has another order of axes",
                    expected=f"[{rows}, {summed}]",
                    got=tile_type(value),
                )
            found.append(Operand(part, axes, False, part.pitch, kind))
            continue
        if not isinstance(owner, LoadOp) or owner.guards:
            raise refuse(
                op,
                "an operand of a matmul is loaded from global memory as it is there"
                + ("" if value is a else ", and only the left one may come from the vector cores"),
            )
        address = operand_address(kernel, owner, axes, {})
        along = dict(zip(axes, (address.row_step, address.lane_step), strict=True))
        inner, outer = axes[1], axes[0]
        if along[inner] == 1:
            transposed, pitch = False, along[outer]
        elif along[outer] == 1:
            transposed, pitch = True, along[inner]
        else:
            raise refuse(
                owner,
                f"a matmul operand is contiguous in neither '{outer}' nor '{inner}'",
                expected="a stride of 1 along one of them",
                got=f"{along[outer]} and {along[inner]}",
            )
        if pitch == 0:
            if kept and kernel.extents[kept] != 1:
                raise refuse(owner, f"a matmul operand doesn't vary along '{kept}'")
            pitch = const(1)  # a single row: the pitch is never used
        found.append(Operand(owner, axes, transposed, pitch, kind))
    kinds = {o.dtype for o in found}
    if not kinds <= {dt.F32, dt.F16, dt.BF16}:
        raise refuse(
            op, "the cube multiplies floats", expected="f32, f16 or bf16", got=", ".join(map(str, kinds))
        )
    return found[0], found[1]


def _window_operands(
    kernel: KernelOp, op: ContractOp, a: SSAValue, b: SSAValue, rows: str, columns: str, over: tuple[str, ...]
) -> tuple[Operand, Operand]:
    """Operands of a matmul over several axes: rows of the left one that hold them all, rows of the right one that start
    where `window_rows` says.
    """
    found = []
    for value in (a, b):
        load = value.owner
        if not isinstance(load, LoadOp) or load.guards:
            raise refuse(op, "an operand of a matmul over several axes is loaded from global memory as it is there")
        source = load.source.type
        assert isinstance(source, GmType)
        total = element_offset(source.shape, load.index, axis_ranges(kernel))
        if value is a:
            size = const(1)
            for axis in reversed(over):
                if total.coefficient(axis) != size:
                    raise refuse(
                        load, "the left operand of a matmul over several axes has them in one row", got=str(total)
                    )
                size = size * kernel.extents[axis]
            pitch = total.coefficient(rows) if rows else const(1)
            if pitch is None:
                raise refuse(load, f"the left operand of a matmul isn't linear in '{rows}'", got=str(total))
            found.append(Operand(load, (rows, *over), False, pitch, source.dtype))
            continue
        starts = window_rows(total, over, kernel.extents)
        if starts is None or total.coefficient(columns) != 1:
            raise refuse(
                load, "the right operand of a matmul over several axes has no rows of columns", got=str(total)
            )
        found.append(Operand(load, (*over, columns), False, starts.outer, source.dtype, starts))
    if {o.dtype for o in found} - {dt.F32, dt.F16, dt.BF16}:
        raise refuse(op, "the cube multiplies floats", expected="f32, f16 or bf16", got=str(found[0].dtype))
    return found[0], found[1]


def operand_base(kernel: KernelOp, operand: Operand, lows: dict[str, Expr]) -> Expr:
    """Element offset of the first element of a matmul operand in global memory."""
    load = operand.source
    assert isinstance(load, LoadOp)
    source = load.source.type
    assert isinstance(source, GmType)
    total = element_offset(source.shape, load.index, axis_ranges(kernel))
    return total.substitute({a: lows[a] for a in total.names() if a in lows})


def operand_address(kernel: KernelOp, load: LoadOp, axes: tuple[str, str], lows: dict[str, Expr]) -> Address:
    """Address of a matmul operand along its two axes."""
    source = load.source.type
    assert isinstance(source, GmType)
    what = f"the matmul operand '{load.source.name_hint}'"
    return linear(load, source.shape, load.index, axes, lows, axis_ranges(kernel), what)


def _check_size(op: Operation, size: tuple[Expr, Expr]) -> None:
    for value, limit, what in ((size[0], MAX_ROWS, "rows"), (size[1], MAX_COLUMNS, "columns")):
        known = value.as_int()
        if known is not None and known > limit:
            raise refuse(
                op,
                f"a matmul block has too many {what}",
                expected=f"at most {limit}",
                got=known,
                hint="use a smaller step in the grid",
            )


def _check_direct(store: StoreOp, kernel: KernelOp, columns: str, block: Expr) -> None:
    for size, what in ((kernel.extents[columns], "the row length"), (block, "the block width")):
        value = size.as_int()
        if value is None or value % FRACTAL:
            raise refuse(
                store,
                f"the cube stores whole fractals, but {what} isn't a known multiple of {FRACTAL}",
                got=str(size),
                hint="move the block to the vector cores and store it from there",
            )
    if store.guards or store.add:
        raise refuse(store, "a guarded store of a matmul block has no lowering")


def kept_left(plan: CubePlan, kernel: KernelOp, target: Chip) -> int:
    """Summed elements of a left operand that can stay in L1 for several blocks of columns; 0 if none can.

    It is one array from global memory for all products, its rows lie there in one piece, and it fits beside the panels
    of the right operand.
    """
    first, *others = plan.blocks.values()
    left, columns = first.left, kernel.extents[first.columns].as_int()
    summed = kernel.extents[first.summed[0]].as_int() if len(first.summed) == 1 else None
    plain = isinstance(left.source, LoadOp) and not left.transposed and first.right.rows is None
    if summed is None or columns is None or not plain:
        return 0
    if any(b.left.source is not left.source or b.layout != first.layout or b.summed != first.summed for b in others):
        return 0
    wide = columns > (first.size[1].as_int() or columns) or bool(others)
    last = plan.grid.steps[-1][0]
    if not wide or (first.panel is None and not others and last != first.columns):
        return 0
    bounds = dict(kernel.params)
    rows, width = (bounds.get(e.as_name() or "", e).as_int() for e in plan.size)
    size = InitMmadOp.l1_bytes(rows or MAX_ROWS, width or MAX_COLUMNS, summed * left.dtype.bytes).as_int()
    return summed if size is not None and size <= target.l1_usable_bytes else 0
