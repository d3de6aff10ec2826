# SPDX-License-Identifier: Apache-2.0
"""The cube side of a tile kernel: one matmul, its operands in GM, and where its blocks go."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, round_up
from gaf.dialects.tile.folds import ContractOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, YieldOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.forms import Address, Windows, axis_ranges, linear, loops_around, refuse, tile_type

MAX_ROWS, MAX_COLUMNS = 128, 256
"""Largest block of the device library's BlockMmad."""

FRACTAL = 16
"""Fixpipe writes whole fractals: 16 columns."""


@dataclass(frozen=True)
class Operand:
    """One side of the product: `step_k == 1` or `step_other == 1` decides how it is stored."""

    load: LoadOp
    axes: tuple[str, str]  # (m, k) or (k, n)
    transposed: bool
    pitch: Expr


@dataclass(frozen=True)
class Ring:
    """Blocks of the product in workspace, `slots` per group of cores, each `rows` x `pitch` floats."""

    slots: int
    rows: Expr
    pitch: Expr
    moves: tuple[MoveOp, ...]

    @property
    def elements(self) -> Expr:
        return self.rows * self.pitch


@dataclass(frozen=True)
class CubePlan:
    """One contraction. `panel` is the loop that completes rows, if there is one; `ring` or `store` is set."""

    grid: GridOp
    contract: ContractOp
    rows: str
    columns: str
    summed: str
    left: Operand
    right: Operand
    block: tuple[Expr, Expr]
    panel: ForOp | None
    ring: Ring | None
    store: StoreOp | None

    @property
    def output(self) -> dt.DType:
        """What Fixpipe writes."""
        if self.store is None:
            return dt.F32
        target = self.store.target.type
        assert isinstance(target, GmType)
        return target.dtype


def plan_cube(kernel: KernelOp) -> CubePlan | None:
    """The cube plan of a kernel, None without a contraction.

    Raises UnsupportedError for shapes without lowering.
    """
    contracts = [op for op in kernel.walk() if isinstance(op, ContractOp)]
    if not contracts:
        return None
    if len(contracts) > 1:
        raise refuse(contracts[1], "a kernel with two matmuls has no lowering yet", hint="split the kernel")
    op = contracts[0]
    loops = loops_around(op)
    panel = loops[1] if len(loops) == 2 and isinstance(loops[1], ForOp) else None
    if not loops or not isinstance(loops[0], GridOp) or len(loops) > (2 if panel else 1):
        raise refuse(op, "a matmul stands in a grid, or in one loop over its columns in a grid")
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
    summed = [a for a in op.summed if not windows.is_unit(a)] or list(op.summed[-1:])
    if len(summed) != 1:
        raise refuse(op, "a matmul that sums over two axes has no lowering", got=", ".join(summed))
    if windows.capacity[summed[0]] != expr(kernel.extents[summed[0]]):
        raise refuse(
            op, f"the summed axis '{summed[0]}' is looped over", hint="leave it whole: BlockMmad walks it"
        )
    left, right = _operands(kernel, op, rows, columns, summed[0])
    block = (windows.capacity[rows] if rows else const(1), windows.capacity[columns])
    _check_block(op, block)
    result: SSAValue = op.res
    if panel is not None:
        result = _collected(panel, op, columns)
    users = [use.operation for use in result.uses if not isinstance(use.operation, YieldOp)]
    moves = tuple(u for u in kernel.walk() if isinstance(u, MoveOp) and u in users)
    stores = [u for u in users if isinstance(u, StoreOp)]
    ring = store = None
    if moves and not stores:
        outer = Windows(kernel, loops[:1], vector=False)
        slots = max(_slots(m) for m in moves)
        ring = Ring(slots, block[0], round_up(outer.capacity[columns], FRACTAL), moves)
        if any(tile_type(m.res).space != "ub" for m in moves):
            raise refuse(op, "a block that goes back to L1 has no lowering yet", got="l0c -> l1")
    elif len(stores) == 1 and not moves and panel is None:
        store = stores[0]
        _check_direct(store, kernel, columns, block[1])
    else:
        raise refuse(op, "a matmul result is either moved to the vector cores or stored once")
    return CubePlan(loops[0], op, rows, columns, summed[0], left, right, block, panel, ring, store)


def _operands(
    kernel: KernelOp, op: ContractOp, rows: str, columns: str, summed: str
) -> tuple[Operand, Operand]:
    a, b = op.a, op.b
    if columns in tile_type(a).axes and columns not in tile_type(b).axes:
        a, b = b, a
    found = []
    for value, axes, kept in ((a, (rows, summed), rows), (b, (summed, columns), columns)):
        load = value.owner
        if not isinstance(load, LoadOp) or load.guards:
            raise refuse(op, "an operand of a matmul is loaded from global memory as it is there")
        address = operand_address(kernel, load, axes, {})
        steps = dict(zip(axes, (address.row_step, address.lane_step), strict=True))
        inner, outer = axes[1], axes[0]
        if steps[inner] == 1:
            transposed, pitch = False, steps[outer]
        elif steps[outer] == 1:
            transposed, pitch = True, steps[inner]
        else:
            raise refuse(
                load,
                f"a matmul operand is contiguous in neither '{outer}' nor '{inner}'",
                expected="a stride of 1 along one of them",
                got=f"{steps[outer]} and {steps[inner]}",
            )
        if pitch == 0:
            if kept and kernel.extents[kept] != 1:
                raise refuse(load, f"a matmul operand doesn't vary along '{kept}'")
            pitch = const(1)  # a single row: the pitch is never used
        found.append(Operand(load, axes, transposed, pitch))
    kinds = {tile_type(o.load.res).dtype for o in found}
    if not kinds <= {dt.F32, dt.F16, dt.BF16}:
        raise refuse(
            op, "the cube multiplies floats", expected="f32, f16 or bf16", got=", ".join(map(str, kinds))
        )
    return found[0], found[1]


def operand_address(kernel: KernelOp, load: LoadOp, axes: tuple[str, str], lows: dict[str, Expr]) -> Address:
    """Address of a matmul operand along its two axes."""
    source = load.source.type
    assert isinstance(source, GmType)
    what = f"the matmul operand '{load.source.name_hint}'"
    return linear(load, source.shape, load.index, axes, lows, axis_ranges(kernel), what)


def _slots(move: MoveOp) -> int:
    """Ring slots that a move asks for."""
    attribute = move.attributes.get("slots")
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 2


def _check_block(op: ContractOp, block: tuple[Expr, Expr]) -> None:
    for size, limit, what in ((block[0], MAX_ROWS, "rows"), (block[1], MAX_COLUMNS, "columns")):
        value = size.as_int()
        if value is not None and value > limit:
            raise refuse(
                op,
                f"a matmul block has too many {what}",
                expected=f"at most {limit}",
                got=value,
                hint="use a smaller step in the grid",
            )


def _collected(panel: ForOp, op: ContractOp, columns: str) -> SSAValue:
    last = panel.terminator
    if (
        panel.axis != columns
        or panel.inits
        or [v for v in last.collected if v is not op.res]
        or not last.collected
    ):
        raise refuse(
            panel,
            "a loop around a matmul only collects its column blocks",
            expected=f"a loop over '{columns}'",
        )
    return panel.collected_results[0]


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
