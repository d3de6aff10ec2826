# SPDX-License-Identifier: Apache-2.0
"""Lower tile kernels to Ascend C kernels: bind the recipes of the plan to queues, slots, loops and flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from gaf.dialects.ascendc import builder as asc
from gaf.dialects.ascendc.copy import GatherTileOp, LoadTileBoxOp, LoadTileOp
from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import DIMS, Expr, ceildiv, const, is_nonneg, maximum, minimum, product, sym
from gaf.dialects.common.lanes import LaneMap
from gaf.dialects.tile.attributes import Guard
from gaf.dialects.tile.compute import FillOp, IndexOp, MapOp
from gaf.dialects.tile.folds import MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.dialects.tile.types import GmType
from gaf.passes.registry import option, register_pass
from gaf.passes.tile.buffers import Carry, Leaf
from gaf.passes.tile.cube import MAX_COLUMNS, MAX_ROWS, kept_left
from gaf.passes.tile.emit import Condition, Emitter, VectorEmitter, Window, gm_name
from gaf.passes.tile.forms import (
    Address,
    find_read,
    gather_address,
    is_transposed,
    linear,
    memory_dtype,
    picked_lanes,
    refuse,
    require_contiguous,
    tile_type,
)
from gaf.passes.tile.guards import load_box
from gaf.passes.tile.handover import Step, whole_rows_only
from gaf.passes.tile.lower_cube import CubeEmitter
from gaf.passes.tile.lower_rings import Rings, Round
from gaf.passes.tile.plan import Plan
from gaf.passes.tile.program import vector_ops
from gaf.passes.tile.recipes.base import Arg, Kind
from gaf.passes.tile.recipes.coordinates import Coordinates
from gaf.passes.tile.recipes.lanes import Picks, TakeLanes
from gaf.passes.tile.recipes.ranks import Rank
from gaf.target import Chip, chip

BLOCK, BLOCKS, SUB = sym("block"), sym("blocks"), sym("sub")

VECTORS = 2
"""Vector cores of a group in a kernel with both kinds of cores."""


@register_pass
@dataclass(frozen=True)
class LowerTilePass(ModulePass):
    """Lower every tile.kernel to an ascendc.kernel of the same name."""

    name = "lower-tile"
    LOWERS_TO: ClassVar[str] = "ascendc"

    target: str = option("ascend910b3", "chip whose capacities and core counts the kernel is made for")
    hf32: bool = option(False, "matmuls round f32 operands to 11 bits of mantissa, at twice the speed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = chip(self.target)
        for kernel in [k for k in op.walk() if isinstance(k, KernelOp)]:
            lowered = lower_kernel(kernel, target, self.hf32)
            lowered.location = kernel.location
            block = kernel.parent
            assert block is not None
            block.insert_op_before(lowered, kernel)
            kernel.detach()
            kernel.erase()


def lower_kernel(kernel: KernelOp, target: Chip, hf32: bool = False) -> AscendKernelOp:
    """The Ascend C kernel of a tile kernel whose parameters are bound.

    Raises UnsupportedError, with the op and its place, for what has no lowering.
    """
    plan = Plan.build(kernel, target)
    plan.check_buffers()
    return Lowering(plan, target, hf32).run()


class Lowering:
    def __init__(self, plan: Plan, target: Chip, hf32: bool = False) -> None:
        self.plan = plan
        self.hf32 = hf32
        self.kernel = plan.kernel
        self.cube = plan.cube
        self.target = target
        kernel = self.kernel
        args = []
        for name, arg in zip(kernel.arg_names.data, kernel.body.block.args, strict=True):
            assert isinstance(arg.type, GmType)
            args.append((name, arg.type.element, arg.type.role, arg.type.shape))
        self.kb = asc.KernelBuilder(
            kernel.sym_name.data,
            plan.kind,
            args,
            kernel.symbols,
            [*((s, sym(s)) for s in kernel.symbols), *kernel.params],
            kernel.guards,
            members=_members(kernel),
        )
        self.kept_k = kept_left(self.cube, kernel, target) if self.cube is not None else 0
        """Summed elements of a left operand that stays in L1 for the tiles that have it in common; 0: none does."""
        self.tiles: dict[GridOp, tuple[list[Expr], Expr]] = {}
        self.rings = Rings(self)

    @property
    def keeps_left(self) -> bool:
        return self.kept_k > 0

    def run(self) -> AscendKernelOp:
        kb, plan = self.kb, self.plan
        vector = VectorEmitter(plan, kb)
        # counts of grid tiles are the host's: every other number of blocks and workspace bytes builds on them
        grids = [op for op in self.kernel.body.block.ops if isinstance(op, GridOp)]
        for grid in grids:
            self._count_tiles(grid, vector)
        cores = self.target.aiv_cores if plan.kind == "aiv" else self.target.aic_cores
        most = const(1)
        for tiles in dict.fromkeys(self._rounds(grid) for grid in grids):
            most = maximum(most, tiles, DIMS)  # numbers of tiles are >= 1
        kb.blocks = minimum(cores, most) if grids else const(1)
        left = const(self.target.ub_usable_bytes) - plan.ub_bytes
        if not is_nonneg(left):
            kb.guard(left)
        self._workspace(vector)
        if plan.kind == "aiv":
            vector.init_buffers()
            self._vector_ops(self.kernel.body.block.ops, vector)
        elif plan.kind == "aic":
            CubeEmitter(self, Emitter(plan, kb)).run()
        else:
            self._mix(vector)
        return kb.finish()

    def _mix(self, vector: VectorEmitter) -> None:
        cube = Emitter(self.plan, self.kb)
        cube.fields, cube._named = vector.fields, vector._named
        cube.arrays = vector.arrays
        with self.kb.section("aic"), cube.scope():
            CubeEmitter(self, cube).run()
        with self.kb.section("aiv"), vector.scope():
            vector.init_buffers()
            self._vector_ops(self.kernel.body.block.ops, vector)

    # -- host side ------------------------------------------------------------------------------

    def _rounds(self, grid: GridOp) -> Expr:
        """Groups of cores that a grid can use."""
        tiles = self.tiles[grid][1]
        beside = self.plan.kind == "mix" and grid is not self.plan.cube_grid
        return ceildiv(tiles, VECTORS) if beside else tiles

    def _count_tiles(self, grid: GridOp, e: Emitter) -> None:
        counts = []
        for axis, step in grid.steps:
            extent = self.kernel.extents[axis]
            counts.append(e.name(extent if step == 1 else ceildiv(extent, step), f"{axis}_tiles"))
        self.tiles[grid] = (counts, e.name(product(counts), "tiles"))

    def _workspace(self, e: Emitter) -> None:
        """Bytes of global scratch memory: the rings of hand-overs, then the kernel's own arrays."""
        offset = const(0)
        if self.cube is not None:
            kb = self.kb
            for size, limit in zip(self.cube.size, (MAX_ROWS, MAX_COLUMNS), strict=True):
                if size.as_int() is None:
                    kb.guard(const(limit) - size)
            offset = self.rings.allocate(e)
        for op in self.kernel.body.block.ops:
            if isinstance(op, WorkspaceOp):
                type = op.res.type
                assert isinstance(type, GmType)
                at = e.field(f"{op.res.name_hint or 'ws'}_at", offset) if offset != 0 else offset
                e.arrays[op.res] = self.kb.workspace(op.res.name_hint or "ws", at, memory_dtype(type.dtype))
                size = product(type.shape) * memory_dtype(type.dtype).bytes
                offset = offset + ceildiv(size, 32) * 32
        self.kb.workspace_bytes = offset

    # -- grids ----------------------------------------------------------------------------------

    @contextmanager
    def grid_windows(self, grid: GridOp, tile: Expr, e: Emitter) -> Iterator[dict[str, Window]]:
        """Windows of the grid axes for tile number `tile`; the last axis varies fastest."""
        counts, _ = self.tiles[grid]
        windows: dict[str, Window] = {}
        for i, (axis, step) in enumerate(grid.steps):
            inner = product(counts[i + 1 :])
            number = tile // inner if i + 1 < len(counts) else tile
            if i > 0:
                number = number % counts[i]
            low = e.name(number * step, f"{axis}0")
            windows[axis] = e.step_window(axis, low, step, self.kernel.extents[axis])
        with e.narrowed(windows):
            yield windows

    def _grid(self, grid: GridOp, e: VectorEmitter) -> None:
        _, total = self.tiles[grid]
        if self.plan.kind == "mix" and grid is self.plan.cube_grid:
            self._mix_grid(grid, e)
            return
        first, step = (BLOCK, BLOCKS) if self.plan.kind != "mix" else (BLOCK * VECTORS + SUB, BLOCKS * VECTORS)
        with e.for_("tile", e.name(first, "first"), total, e.name(step, "vectors")) as tile:
            with self.grid_windows(grid, tile, e):
                self._vector_ops(vector_ops(grid.body.block), e)

    def _mix_grid(self, grid: GridOp, e: VectorEmitter) -> None:
        """The vector side of the grid of the matmuls: half of every grid tile per vector core."""
        assert self.cube is not None
        todo = self.cube.steps("aiv")
        if not todo:
            return  # the cube stores its results itself
        if grid.sub is None:
            raise refuse(grid, "a kernel with a matmul and a vector part needs a sub axis", expected="sub m")
        guarded = self.cube.ring is None and self._needs_guard(todo, grid.sub)
        with self.rings.tiles(grid, e) if self.cube.ring is not None else self.rings.rounds(grid, e) as now:
            low, size = now.windows[grid.sub]
            share = e.name(ceildiv(size, 2), "share")
            first = e.name(low + SUB * share, f"{grid.sub}0")
            rest = e.name(minimum(share, low + size - first), f"{grid.sub}_size")
            # both vector cores wait and signal, even if one has no rows: a signal of both reaches the cube
            with e.narrowed({grid.sub: (first, rest)}):
                if self.cube.ring is not None:
                    self._ring_tile(grid, self.cube.ring, now, e)
                elif guarded:
                    ops = [step.op for step in todo if step.op is not None]
                    self.rings.signals([s for s in todo if s.kind == "wait"], e)
                    with e.if_(rest, "gt", 0):
                        self._vector_ops(ops, e)
                    self.rings.signals([s for s in todo if s.kind == "set"], e)
                else:
                    for step in todo:
                        if step.op is not None:
                            self._vector_ops([step.op], e)
                        self.rings.signals([step], e)
        self.rings.drain("aiv", grid, self.cube.ring, e)

    def _ring_tile(self, grid: GridOp, ring: ForOp, tile: Round, e: VectorEmitter) -> None:
        """The vector side of a grid tile with a loop of rounds: what stands before it, its steps, and what comes
        behind. Nothing but the loop touches rows of a half that may be empty, and its inner loops over them.
        """
        assert self.cube is not None and grid.sub is not None
        for op in vector_ops(grid.body.block):
            if op is not ring:
                if not whole_rows_only(op, grid.sub) and not isinstance(op, FillOp):
                    raise refuse(op, f"a tile with the sub axis '{grid.sub}' outside of a loop over it")
                self._vector_ops([op], e)
                continue
            self._start(ring, e, [(e.windows[grid.sub][1], "gt", const(0))])
            with self.rings.turns(ring, tile, e) as turns:
                for lag, part in groupby(self.cube.steps("aiv"), lambda step: step.lag):
                    with turns.at(lag) as conditions:
                        self._ring_round(part, conditions, grid.sub, e)
                if self.plan.nexts[ring.terminator]:
                    raise refuse(ring, "a state of a loop with matmuls that isn't computed in place")
            self._free(self.plan.program.loop_end[ring], e)

    def _ring_round(self, todo: Iterable[Step], conditions: Sequence[Condition], sub: str, e: VectorEmitter) -> None:
        """Ops of a round on some conditions, and its signals."""
        for step in todo:
            if step.op is not None:
                if not whole_rows_only(step.op, sub):
                    raise refuse(step.op, f"a tile with the sub axis '{sub}' outside of a loop over it")
                with e.on(conditions):
                    self._vector_ops([step.op], e)
            self.rings.signals([step], e)

    def _needs_guard(self, todo: Sequence[Step], sub: str) -> bool:
        """Whether an empty half has to be skipped as a whole; that takes waits first, and sets last."""
        loose = [s.op for s in todo if s.op is not None and not whole_rows_only(s.op, sub)]
        if not loose:
            return False
        order = ["op" if s.op is not None else s.kind for s in todo]
        last_wait = max((i for i, kind in enumerate(order) if kind == "wait"), default=0)
        if "set" in order[:last_wait]:
            raise refuse(
                loose[0],
                f"a tile with the sub axis '{sub}' between two hand-overs, outside of a loop over '{sub}'",
                expected=f"tile.for {sub} step ...",
            )
        return True

    # -- vector program -------------------------------------------------------------------------

    def _vector_ops(self, ops: Iterable[Operation], e: VectorEmitter) -> None:
        for op in ops:
            at = self.plan.program.position[op]
            match op:
                case GridOp():
                    self._grid(op, e)
                    at = self.plan.program.loop_end[op]
                case ForOp():
                    self._for(op, e)
                    at = self.plan.program.loop_end[op]
                case SyncOp():
                    self.kb.call(SyncAllOp)
                case WorkspaceOp():
                    pass
                case YieldOp():
                    for carry in self.plan.nexts[op]:
                        self._carry(carry, op, e)
                    self._hand_over(op, e)
                case LoadOp():
                    e.node(op)
                    self._load(op, e)
                case MoveOp():
                    e.node(op)
                    self._move(op, e)
                case StoreOp():
                    e.node(op)
                    self._guarded_store(op, e)
                case IndexOp() if self.plan.number(op.res) is not None:
                    e.numbers[op.res] = e.evaluate(op.value)
                case MapOp() if isinstance(self.plan.number(op.res), Expr):
                    e.numbers[op.res] = e.numbers[self.plan.program.root(op.args[0])]
                case FillOp() | IndexOp() | MapOp() | ReduceOp() | MergeOp() | RankOp() | RankedOp() | ScanOp():
                    e.node(op)
                    self._compute(op, e)
            self._free(at, e)

    def _free(self, at: int, e: VectorEmitter) -> None:
        for root in self.plan.frees.get(at, ()):
            group = self.plan.homes[root].queue
            assert group is not None
            self.kb.free(e.queue(group), e.tensors[root])

    def _for(self, op: ForOp, e: VectorEmitter) -> None:
        self._start(op, e)
        with e.loop(op):
            self._vector_ops(vector_ops(op.body.block), e)

    def _start(self, op: ForOp, e: VectorEmitter, conditions: Sequence[Condition] = ()) -> None:
        """Give the variables of a loop and its collected tiles their memory; the former get their first values."""
        for carry in self.plan.starts[op]:
            e.define(carry.variable)
            with e.on(conditions):
                self._carry(carry, op, e)
        for result in op.collected_results:
            if result in self.plan.homes:
                e.define(result)
        self._free(self.plan.program.position[op], e)

    def _carry(self, carry: Carry, op: Operation, e: VectorEmitter) -> None:
        """Copy a number or a tile into a loop variable, or into the current rows of a collected tile."""
        kind = Kind.NUMBER if self.plan.number(carry.value) is not None else Kind.FULL
        arg = e.arg(carry.value, op, kind)
        rows, lanes = e.size(self.plan.homes[self.plan.program.root(carry.variable)].form.axes)
        carry.recipe.emit(e.calls(rows, lanes), e.tensor(carry.variable, op), [arg], [])

    def _compute(self, op: Operation, e: VectorEmitter) -> None:
        result, leaf = op.results[0], self.plan.leaves.get(op)
        if leaf is None:
            return  # a number, a conversion at the store, or the memory of an operand
        recipe, kinds = leaf.recipe, leaf.kinds
        assert recipe is not None
        if isinstance(op, IndexOp):
            recipe = self._coordinates(op, leaf.form.axes, e)
        if isinstance(op, RankOp):
            assert isinstance(recipe, Rank)
            recipe = replace(recipe, first=e.windows[op.over][0])
        if isinstance(op, FillOp):
            args = [Arg(Kind.NUMBER, number=op.value)]
        else:
            args = [e.arg(v, op, k) for v, k in zip(op.operands, kinds, strict=True)]
        root = self.plan.program.root(result)
        dst = e.tensors[root] if result in self.plan.program.in_place else e.define(result)
        recipe.emit(e.calls(*e.size(leaf.form.axes)), dst, args, e.temporaries(self.plan.leaves[op]))

    def _coordinates(self, op: IndexOp, axes: tuple[str, ...], e: VectorEmitter) -> Coordinates:
        value = op.value.simplify(e.ranges)
        steps = []
        for axis in axes:
            step = value.coefficient(axis)
            if step is None:
                raise refuse(
                    op, f"coordinates that aren't linear in '{axis}' have no lowering", got=str(op.value)
                )
            steps.append(e.evaluate(step))
        base = e.evaluate(op.value)
        return Coordinates(base, steps[0] if len(steps) == 2 else const(0), steps[-1])

    # -- memory ---------------------------------------------------------------------------------

    def _load(self, op: LoadOp, e: VectorEmitter) -> None:
        source = op.source.type
        assert isinstance(source, GmType)
        axes = self.plan.leaves[op].form.axes
        rows, lanes = e.size(axes)
        what = f"the load of '{gm_name(op.source)}'"
        if any(find_read(i) is not None for i in op.index):
            self._gather(op, source, axes, what, e)
            return
        if is_transposed(op, axes, e.ranges):
            self._load_transposed(op, axes, linear(op, source.shape, op.index, axes, e.lows(), e.ranges, what), e)
            return
        picked = picked_lanes(op, axes, e.ranges)
        index = op.index
        if picked is not None and picked.is_fraction:
            index = [*op.index[:-1], const(0)]  # the lanes are the business of `picks`
        address = linear(op, source.shape, index, axes, e.lows(), e.ranges, what)
        require_contiguous(op, address if picked is None else replace(address, lane_step=const(1)), axes, what)
        picks, at = None, address.base
        if picked is not None:
            picks, first = self._picks(picked, axes[-1], lanes, e)
            at = at + first
        span = lanes if picks is None else picks.span
        stride = e.name(address.row_step, "stride") if len(axes) == 2 else span
        if op.guards:
            self._load_box(op, axes, at, stride, picks, e)
            return
        name, at = gm_name(op.source), e.name(at, f"{gm_name(op.source)}_at")

        def copy(room: SSAValue) -> None:
            self.kb.call(LoadTileOp, room, e.array(op.source), src_at=at, rows=rows, lanes=span, stride=stride)

        self._enqueue(op, name, rows, lanes, copy, e, picks)

    def _picks(self, picked: LaneMap, axis: str, lanes: Expr, e: VectorEmitter) -> tuple[Picks, Expr]:
        """How the current lanes are picked out of their row, and where in the row of memory it starts."""
        if not picked.is_fraction:
            span = e.name((lanes - 1) * picked.mul + 1, "span")
            return Picks(span, picked.mul, const(0), 1, const(0)), const(0)
        # nothing that may be negative gets a name: names are known to be >= 0
        at = e.evaluate(picked.rest) + e.windows[axis][0] * picked.mul
        start, rest = at // picked.div, e.name(at % picked.div, "rest")
        limits = replace(
            picked,
            low=None if picked.low is None else e.evaluate(picked.low),
            high=None if picked.high is None else e.evaluate(picked.high),
        )
        first = limits.clamp(start)
        last = limits.clamp(start + ((lanes - 1) * picked.mul + rest) // picked.div)
        return Picks(e.name(last - first + 1, "span"), picked.mul, rest, picked.div, start - first), first

    def _load_transposed(self, op: LoadOp, axes: tuple[str, ...], address: Address, e: VectorEmitter) -> None:
        """A load whose lanes are rows in memory."""
        rows, lanes = e.size(axes)
        name = gm_name(op.source)
        at, stride = e.name(address.base, f"{name}_at"), e.name(address.lane_step, "stride")

        def copy(room: SSAValue) -> None:
            self.kb.call(LoadTileOp, room, e.array(op.source), src_at=at, rows=lanes, lanes=rows, stride=stride)

        self._enqueue(op, name, rows, lanes, copy, e)

    def _load_box(
        self, op: LoadOp, axes: tuple[str, ...], start: Expr, stride: Expr, picks: Picks | None, e: VectorEmitter
    ) -> None:
        """A guarded load: only a box of the tile comes from memory. Picked lanes come with what lies between."""
        rows, lanes = e.size(axes)
        box = load_box(op, axes, rows, lanes, e)
        name = gm_name(op.source)
        span, col0, ncols = lanes, box.col0, box.ncols
        if picks is not None:
            span = picks.span

            def place(lane: Expr) -> Expr:
                found = (lane * picks.mul + picks.rest) // picks.div + picks.shift
                return minimum(maximum(found, 0), span - 1)

            col0 = e.name(place(box.col0), "box_first")
            ncols = e.name(minimum(box.ncols, 1) * (place(box.col0 + box.ncols - 1) - col0 + 1), "box_span")
        at = e.name(start + box.row0 * stride + col0, f"{name}_at")

        def copy(room: SSAValue) -> None:
            self.kb.call(
                LoadTileBoxOp, room, e.array(op.source), src_at=at, rows=rows, lanes=span, row0=box.row0,
                col0=col0, nrows=box.nrows, ncols=ncols, stride=stride, fill=op.otherwise,
            )  # fmt: skip

        self._enqueue(op, name, rows, lanes, copy, e, picks)

    def _fetch(
        self, op: Operation, array: SSAValue, at: Expr, rows: Expr, lanes: Expr, stride: Expr, name: str,
        e: VectorEmitter,
    ) -> None:  # fmt: skip
        def copy(room: SSAValue) -> None:
            self.kb.call(LoadTileOp, room, array, src_at=at, rows=rows, lanes=lanes, stride=stride)

        self._enqueue(op, name, rows, lanes, copy, e)

    def _enqueue(
        self,
        op: Operation,
        name: str,
        rows: Expr,
        lanes: Expr,
        copy: Callable[[SSAValue], None],
        e: VectorEmitter,
        picks: Picks | None = None,
    ) -> None:
        """Fill a queue tensor by `copy`, and convert it, pick lanes out of it, or hand it on as the value itself."""
        leaf, result = self.plan.leaves[op], op.results[0]
        assert leaf.queue is not None
        queue = e.queue(leaf.queue)
        kind = memory_dtype(tile_type(result).dtype)
        room = self.kb.alloc(queue, kind, f"{name}_in")
        copy(room)
        self.kb.enque(queue, room)
        tensor = self.kb.deque(queue, kind, result.name_hint or name)
        if leaf.recipe is None:
            e.define(result, tensor)
            return
        recipe = leaf.recipe if picks is None else TakeLanes(picks)
        recipe.emit(e.calls(rows, lanes), e.define(result), [Arg(Kind.FULL, tensor)], e.temporaries(self.plan.leaves[op]))
        self.kb.free(queue, tensor)

    def _gather(self, op: LoadOp, source: GmType, axes: tuple[str, ...], what: str, e: VectorEmitter) -> None:
        atom = next(found for i in op.index if (found := find_read(i)) is not None)
        ids = self.kernel.argument(atom.tag)
        assert isinstance(ids.type, GmType)
        found = gather_address(op, source, op.index, ids.type.shape, axes, e.lows(), e.ranges, what)
        rows, lanes = e.size(axes)

        def copy(room: SSAValue) -> None:
            self.kb.call(
                GatherTileOp, room, e.array(op.source), e.array(ids),
                table_at=e.name(found.base, "table_at"), ids_at=e.name(found.first, f"{found.ids}_at"),
                rows=rows, lanes=lanes, id_stride=found.step,
                table_stride=e.name(found.stride, "table_stride"),
                table_rows=e.name(found.rows, "table_rows"),
            )  # fmt: skip

        self._enqueue(op, gm_name(op.source), rows, lanes, copy, e)

    def _move(self, op: MoveOp, e: VectorEmitter) -> None:
        """A block of the matmul out of the ring slot of this round."""
        assert self.cube is not None
        part, axes = self.cube.parts[op.source], self.plan.leaves[op].form.axes
        if axes and axes[-1] != part.axes[1]:
            raise refuse(op, "a column of a matmul block has no lowering", expected="whole rows", got=axes)
        rows, lanes = e.size(axes)
        at = self.rings.part_at(part, e) + self.rings.offset_in(part, e)
        pitch = e.name(part.pitch, f"{part.name}_pitch")
        self._fetch(op, self.rings.arrays[part], e.name(at, "block_at"), rows, lanes, pitch, "block", e)

    def _hand_over(self, op: YieldOp, e: VectorEmitter) -> None:
        """The rows that this step of a loop collects for the cube."""
        loop = op.parent_op()
        assert isinstance(loop, ForOp)
        for value, result in zip(op.collected, loop.collected_results, strict=True):
            if result not in self.plan.puts:
                continue
            assert self.cube is not None
            part, leaf = self.cube.parts[result], self.plan.puts[result]
            at = self.rings.part_at(part, e) + self.rings.offset_in(part, e)
            pitch = e.name(part.pitch, f"{part.name}_pitch")
            self._put(op, value, leaf, part.dtype, self.rings.arrays[part], e.name(at, "rows_at"), pitch, part.name, e)

    def _guarded_store(self, op: StoreOp, e: VectorEmitter) -> None:
        conditions = [c for g in op.guards for c in self._conditions(g, e)]
        self._nested(op, conditions, e)

    def _nested(self, op: StoreOp, conditions: list[tuple[Expr, str, Expr]], e: VectorEmitter) -> None:
        if not conditions:
            self._store(op, e)
            return
        (lhs, mode, rhs), *rest = conditions
        with e.if_(lhs, mode, rhs):
            self._nested(op, rest, e)

    def _conditions(self, guard: Guard, e: VectorEmitter) -> list[tuple[Expr, str, Expr]]:
        """`low <= value < high` without the half that always holds: coordinates are never negative."""
        coordinates = {n: sym(n) for n in guard.value.names() if n.endswith(".lo")}
        found = []
        if not (guard.low == 0 and is_nonneg(guard.value, {n: sym(n) for n in coordinates})):
            found.append((e.evaluate(guard.value), "ge", e.evaluate(guard.low)))
        found.append((e.evaluate(guard.value), "lt", e.evaluate(guard.high)))
        return found

    def _store(self, op: StoreOp, e: VectorEmitter) -> None:
        leaf, target = self.plan.leaves[op], op.target.type
        assert isinstance(target, GmType) and leaf.queue is not None
        axes = leaf.form.axes
        _, lanes = e.size(axes)
        name = gm_name(op.target)
        what = f"the store to '{name}'"
        if any(find_read(i) is not None for i in op.index):
            raise refuse(op, "a scatter has no lowering yet", got="[" + ", ".join(map(str, op.index)) + "]")
        address = linear(op, target.shape, op.index, axes, e.lows(), e.ranges, what)
        require_contiguous(op, address, axes, what)
        stride = e.name(address.row_step, "stride") if len(axes) == 2 else lanes
        at = e.name(address.base, f"{name}_at")
        self._put(op, op.value, leaf, memory_dtype(target.dtype), e.array(op.target), at, stride, name, e)

    def _put(
        self, op: Operation, value: SSAValue, leaf: Leaf, kind: dt.DType, array: SSAValue, at: Expr, stride: Expr,
        name: str, e: VectorEmitter,
    ) -> None:  # fmt: skip
        """Write a tile to global memory, through the output queue."""
        assert leaf.queue is not None
        rows, lanes = e.size(leaf.form.axes)
        queue = e.queue(leaf.queue)
        if leaf.sink:
            tensor = e.tensor(value, op)
        else:
            assert leaf.recipe is not None and leaf.source is not None
            arg = e.arg(leaf.source, op, leaf.kinds[0])
            tensor = self.kb.alloc(queue, kind, f"{name}_tile")
            leaf.recipe.emit(e.calls(rows, lanes), tensor, [arg], e.temporaries(leaf))
        self.kb.store(queue, tensor, array, at, rows, lanes, stride)


def _members(kernel: KernelOp) -> list[str]:
    members = kernel.attributes.get("members")
    return [m.data for m in members if isinstance(m, StringAttr)] if isinstance(members, ArrayAttr) else []
