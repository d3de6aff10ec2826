# SPDX-License-Identifier: Apache-2.0
"""The one plan of a tile kernel: forms, recipes, buffers and queues; legality, cost and lowering read it.

Every value of the vector program gets memory once: a queue tensor (loads, ring blocks, outputs) or a slot of
the buffer for temporaries. Slots are handed out by a linear scan over lifetimes and shared by values of equal
size expressions, so no choice of tile sizes can make two living values overlap. All sizes are expressions
over the kernel's symbols and tiling parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const
from gaf.dialects.tile.compute import FillOp, IndexOp, MapOp
from gaf.dialects.tile.folds import MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.dialects.tile.types import GmType
from gaf.errors import UnsupportedError
from gaf.passes.tile.buffers import MAX_QUEUE_BUFFERS, Carry, Group, Home, Leaf, Memory, slot_bytes
from gaf.passes.tile.cube import CubePlan, plan_cube
from gaf.passes.tile.forms import (
    Form,
    axis_ranges,
    is_transposed,
    memory_dtype,
    physical_dtype,
    picked_lanes,
    refuse,
    tile_type,
)
from gaf.passes.tile.guards import check_load_guards
from gaf.passes.tile.program import Number, Program, check_supported, goes_to_cube, is_store, vector_ops
from gaf.passes.tile.recipes import INTEGER_MAPS, MAPS
from gaf.passes.tile.recipes.base import Kind, Kinds, Recipe
from gaf.passes.tile.recipes.casts import COPY, Cast, cast_recipe, load_cast, store_cast
from gaf.passes.tile.recipes.coordinates import Coordinates, Fill, OnNumber
from gaf.passes.tile.recipes.integers import ANY_WIDTH
from gaf.passes.tile.recipes.lanes import TakeLanes, Transpose
from gaf.passes.tile.recipes.ranks import Rank, Ranked
from gaf.passes.tile.recipes.reductions import Reduce
from gaf.passes.tile.recipes.scans import Scan
from gaf.passes.tile.skew import copies
from gaf.target import DEFAULT, Chip


class Plan(Memory):
    """Memory and recipes of a kernel on one chip. Raises UnsupportedError for what has no lowering.

    `staged` are loads that are copied to a slot at once, so that their queue buffer is free again; `build`
    finds them.
    """

    def __init__(
        self,
        kernel: KernelOp,
        chip: Chip,
        staged: frozenset[Operation] = frozenset(),
        doubled: Sequence[str] = ("vecin", "vecout"),
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.chip = chip
        self.staged = staged
        self.program = Program(kernel)
        self.cube: CubePlan | None = plan_cube(kernel)
        self.homes: dict[SSAValue, Home] = {}
        self.leaves: dict[Operation, Leaf] = {}
        self.transposes = False
        """Some load has its lanes along the rows of the tile."""
        self.puts: dict[SSAValue, Leaf] = {}
        """Collected tile -> how the rows of one step of the loop are handed over to the cube."""
        self.starts: dict[ForOp, list[Carry]] = {}
        self.nexts: dict[YieldOp, list[Carry]] = {}
        self.frees: dict[int, list[SSAValue]] = {}
        """Position -> loads whose queue tensor is over after it."""
        self._expire: dict[int, list[SSAValue]] = {}
        self._out_ends: dict[int, list[Group]] = {}
        check_supported(self.program)
        self._block(kernel.body.block)
        self._share_queues()
        self._set_buffers(doubled)

    @staticmethod
    def build(kernel: KernelOp, chip: Chip = DEFAULT) -> Plan:
        """The plan of a kernel: two buffers for what is loaded and stored, if the smallest tile fits with them."""
        plan = Plan._staged(kernel, chip)
        smallest = {name: const(1) for name, _ in kernel.params}
        for doubled in (("vecin",), ()):
            size = plan.ub_bytes.substitute(smallest).as_int()
            if size is None or size <= chip.ub_usable_bytes:
                break
            plan = Plan(kernel, chip, plan.staged, doubled)
        return plan

    @staticmethod
    def _staged(kernel: KernelOp, chip: Chip) -> Plan:
        """The plan of a kernel whose loads are staged through slots if they need too many queue buffers."""
        staged: frozenset[Operation] = frozenset()
        while True:
            plan = Plan(kernel, chip, staged)
            if sum(g.peak for g in plan.groups if g.position == "vecin") <= MAX_QUEUE_BUFFERS:
                return plan
            loads = [
                op
                for op, leaf in plan.leaves.items()
                if isinstance(op, LoadOp | MoveOp) and op not in staged and leaf.queue is not None
            ]
            program = plan.program
            longest = max(
                loads, key=lambda op: program.end(program.root(op.results[0])) - program.position[op]
            )
            staged |= {longest}

    # -- results ------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """The cores the kernel needs: "aiv", "aic" or "mix"."""
        if self.cube is None:
            return "aiv"
        stores = any(isinstance(op, StoreOp) for op in self.program.position)
        return "mix" if self.cube.handovers or stores else "aic"

    @property
    def cube_grid(self) -> GridOp | None:
        """The grid of the matmuls."""
        return self.cube.grid if self.cube is not None else None

    def all_leaves(self) -> Iterator[Leaf]:
        """The leaves of all ops and hand-overs."""
        yield from self.leaves.values()
        yield from self.puts.values()

    # -- the walk -----------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in vector_ops(block):
            at = self.program.position[op]
            match op:
                case GridOp():
                    self._grid(op)
                    at = self.program.loop_end[op]
                case ForOp():
                    self._for(op)
                    at = self.program.loop_end[op]
                case SyncOp() | WorkspaceOp():
                    pass
                case YieldOp():
                    self._yield(op)
                case LoadOp() | MoveOp():
                    self._load(op)
                case StoreOp():
                    self._store(op)
                case FillOp() | IndexOp() | MapOp() | ReduceOp() | MergeOp() | RankOp() | RankedOp() | ScanOp():
                    self._compute(op)
            self._release(at)

    def _release(self, at: int) -> None:
        for root in self._expire.pop(at, []):
            home = self.homes[root]
            if home.slot is not None:
                self._give_back_slot(home.slot)
            elif home.queue is not None and home.queue.position == "vecin":
                home.queue.live -= 1
                self.frees.setdefault(at, []).append(root)
        for group in self._out_ends.pop(at, []):
            group.live -= 1

    def _grid(self, op: GridOp) -> None:
        if self.cube is None or op is self.cube.grid:
            self._block(op.body.block)
            return
        self._phase = op  # nothing in here lives when the other grids run
        self._block(op.body.block)
        self._phase = None

    def _for(self, op: ForOp) -> None:
        carries = []
        for init, variable in zip(op.inits, op.carried_results, strict=True):
            form = self.program.windows(op).form(op, tile_type(variable))
            self._new_slot(variable, form)
            number = self.program.number(init)
            recipe = Fill() if number is not None else COPY
            carries.append(Carry(init, variable, recipe))
        self.starts[op] = carries
        for result in op.collected_results:
            if not goes_to_cube(result) and self.program.root(result) is result:
                ring = self.cube.ring if self.cube is not None else None
                count = copies(ring, result, self.cube.lags) if self.cube is not None and ring is not None else 1
                self._new_slot(result, self.program.windows(op).form(op, tile_type(result)), count)
        self._release(self.program.position[op])
        in_round = self.cube is not None and op.parent in (self.cube.body, self.cube.grid.body.block)
        if not in_round or op is self.cube.ring:  # type: ignore[union-attr]
            self._block(op.body.block)
            return
        self._phase = op  # what lives only in here shares memory with the other loops of the grid
        self._block(op.body.block)
        self._phase = None

    def _yield(self, op: YieldOp) -> None:
        loop = op.parent_op()
        assert isinstance(loop, ForOp)
        copies = []
        variables = {self.program.root(r) for r in loop.carried_results}
        for value, variable in zip(op.carried, loop.carried_results, strict=True):
            root = self.program.root(value)
            if root is variable:
                continue
            if root in variables:
                raise refuse(op, "a loop exchanges its carried states", hint="yield copies of them")
            copies.append(Carry(value, variable, Fill() if self.program.number(value) is not None else COPY))
        self.nexts[op] = copies
        for value, result in zip(op.collected, loop.collected_results, strict=True):
            if not goes_to_cube(result):
                recipe = Fill() if self.program.number(value) is not None else COPY
                copies.append(Carry(value, result, recipe))
                continue
            part = self.cube.parts[result] if self.cube is not None and result in self.cube.parts else None
            if part is None:
                raise refuse(loop, "a collected tile that no move takes to the cube")
            self.puts[result] = self._put(op, value, part.dtype, part.name)

    # -- memory -------------------------------------------------------------------------------

    def _new_slot(self, root: SSAValue, form: Form, count: int = 1) -> None:
        self.homes[root] = Home(form, slot=self._take(slot_bytes(form.bytes) * count), copies=count)
        self._expire_at(root)

    def _expire_at(self, root: SSAValue) -> None:
        self._expire.setdefault(self.program.end(root), []).append(root)

    def _is_looped(self, op: Operation) -> bool:
        return bool(self.program.loops(op))

    # -- leaves -------------------------------------------------------------------------------

    def _label(self, op: Operation) -> str:
        array = op.operands[0] if isinstance(op, LoadOp) else op.operands[-1]
        names = dict(zip(self.kernel.body.block.args, self.kernel.arg_names.data, strict=True))
        return names.get(array, array.name_hint or "block")  # type: ignore[arg-type]

    def _load(self, op: LoadOp | MoveOp) -> None:
        result = op.results[0]
        type = tile_type(result)
        form = self.program.windows(op).form(op, type)
        kind = memory_dtype(type.dtype)
        memory = form.with_dtype(kind)
        if isinstance(op, LoadOp) and op.guards:
            check_load_guards(op, form.axes)
        self._check_dtype(op, type.dtype)
        recipe = load_cast(type.dtype)
        ranges = axis_ranges(self.kernel)
        picked = picked_lanes(op, form.axes, ranges) if isinstance(op, LoadOp) else None
        if isinstance(op, LoadOp) and is_transposed(op, form.axes, ranges):
            recipe = Transpose()
            memory = replace(memory, axes=form.axes[::-1], rows=form.lanes, lanes=form.rows)
            self.transposes = True
        elif picked is not None:
            recipe = TakeLanes()
            memory = replace(memory, lanes=picked.room(memory.lanes))
        if op in self.staged:
            recipe = recipe or COPY
            group = self._staged_group(slot_bytes(memory.bytes), self._is_looped(op))
        else:
            group = self._group("vecin", slot_bytes(memory.bytes), self._is_looped(op), self._label(op))
        if "buffers" in op.attributes:
            group.ahead += 1
        if recipe is None:
            self.homes[result] = Home(form, queue=group)
            self._expire_at(result)
            self.leaves[op] = Leaf(form, queue=group)
            return
        kinds = (Kind.FULL,)
        scratch = self._scratch(recipe.scratch(kinds, form))
        self._new_slot(result, form)
        self._give_back(scratch)
        group.live -= 1
        self.leaves[op] = Leaf(form, recipe, kinds, scratch, group)

    def _check_dtype(self, op: Operation, kind: dt.DType) -> None:
        known = (dt.F32, dt.F16, dt.BF16, dt.I8, dt.U8, dt.I16, dt.I32, dt.I64, dt.BOOL)
        if kind not in known:
            raise refuse(
                op, f"tiles of {kind} have no lowering", expected=" or ".join(d.name for d in known), got=kind
            )

    def _store(self, op: StoreOp) -> None:
        target = op.target.type
        assert isinstance(target, GmType)
        if op.add:
            raise refuse(op, "scatter-add has no lowering yet")
        self._check_guards(op)
        self.leaves[op] = self._put(op, op.value, target.dtype, self._label(op))

    def _put(self, op: StoreOp | YieldOp, value: SSAValue, target: dt.DType, label: str) -> Leaf:
        """How a tile gets to an array of `target` elements: the output queue, and what fills its tensor."""
        program, type = self.program, tile_type(value)
        form = program.windows(op).form(op, type)
        home = self.homes.get(program.root(value))
        if home is not None and home.queue is not None and home.queue.position == "vecout":
            self._out_ends.setdefault(program.position[op], []).append(home.queue)
            return Leaf(form, queue=home.queue, source=value, sink=True)
        memory = form.with_dtype(memory_dtype(target))
        group = self._group("vecout", slot_bytes(memory.bytes), self._is_looped(op), label)
        source, recipe = self._store_recipe(value, type.dtype)
        number = program.number(source)
        kinds = (Kind.NUMBER if number is not None else Kind.FULL,)
        if number is not None and not isinstance(recipe, Fill):
            recipe = OnNumber(recipe)
        scratch = self._scratch(recipe.scratch(kinds, form))
        self._give_back(scratch)
        self._out_ends.setdefault(program.position[op], []).append(group)
        return Leaf(form, recipe, kinds, scratch, group, source)

    def _store_recipe(self, value: SSAValue, kind: dt.DType) -> tuple[SSAValue, Recipe]:
        """The value in UB that a store starts from, and what makes array elements of it."""
        program = self.program
        if value in program.lazy:
            producer = value.owner
            assert isinstance(producer, MapOp)
            return producer.args[0], self._cast_recipe(producer)
        convert = store_cast(kind)
        if program.number(value) is not None:
            if convert is not None:
                return value, convert
            if kind in (dt.F32, dt.F16, dt.BF16, dt.I32, dt.I16):
                return value, Fill()
            return value, Cast(dt.F32, kind)
        return value, convert or COPY

    def _check_guards(self, op: StoreOp) -> None:
        wide = self.program.windows(op).wide_axes(tile_type(op.value).axes)
        for guard in op.guards:
            if names := sorted(guard.names() & set(wide)):
                raise refuse(
                    op,
                    f"a store guarded along '{names[0]}' has no lowering yet",
                    expected="a guard on the window of a loop, like [m.lo in 0 to 1]",
                    got=str(guard),
                )

    def _cast_recipe(self, op: MapOp) -> Recipe:
        source, target = tile_type(op.args[0]).dtype, tile_type(op.res).dtype
        recipe = cast_recipe(source, target)
        if recipe is None:
            raise refuse(
                op, f"no conversion from {source} to {target} on this hardware", hint="convert to f32 first"
            )
        return recipe

    def _compute(self, op: Operation) -> None:
        program = self.program
        result = op.results[0]
        if result in program.lazy or program.number(result) is not None:
            return
        root = program.root(result)
        if root is not result and result not in program.in_place:
            return  # shares the memory of its operand
        windows = program.windows(op)
        form = windows.form(op, tile_type(result))
        at_form = form
        match op:
            case FillOp():
                recipe: Recipe = Fill()
                kinds: tuple[Kind, ...] = (Kind.NUMBER,)
            case IndexOp():
                recipe, kinds = Coordinates(const(0), const(0), const(0)), ()
            case ReduceOp():
                recipe, kinds, at_form = self._reduce(op)
            case RankOp():
                recipe, kinds, at_form = self._rank(op)
            case ScanOp():
                recipe, kinds = self._scan(op, form)
            case RankedOp():
                recipe, kinds = Ranked(op.what, op.order), (Kind.FULL,)
            case _:
                recipe, kinds = self._map(op, form)
        scratch = self._scratch(recipe.scratch(kinds, at_form))
        if root is result:
            self._place(op, result, form, recipe, kinds)
        self._give_back(scratch)
        self.leaves[op] = Leaf(at_form, recipe, kinds, scratch)

    def _place(self, op: Operation, result: SSAValue, form: Form, recipe: Recipe, kinds: Kinds) -> None:
        """Give a result memory: an output tensor, an operand's slot whose life ends here, or another slot."""
        program = self.program
        at = program.position[op]
        if (label := self._sink(op, result)) is not None:
            group = self._group("vecout", slot_bytes(form.bytes), self._is_looped(op), label)
            self.homes[result] = Home(form, queue=group)
            return
        roots = [program.root(v) for v in op.operands]
        for i in recipe.inplace(kinds):
            if i >= len(roots) or kinds[i] is not Kind.FULL:
                continue
            home = self.homes.get(roots[i])
            elsewhere = any(r is roots[i] for j, r in enumerate(roots) if j not in recipe.inplace(kinds))
            if home is None or home.slot is None or elsewhere:
                continue
            if home.slot.bytes != slot_bytes(form.bytes) or roots[i] not in self._expire.get(at, []):
                continue
            self._expire[at].remove(roots[i])
            self.homes[result] = Home(form, slot=home.slot)
            self._expire_at(result)
            return
        self._new_slot(result, form)

    def _sink(self, op: Operation, result: SSAValue) -> str | None:
        """A label, if the only use of a result is a store that can take it straight from the output queue."""
        use = next(iter(result.uses)) if len(list(result.uses)) == 1 else None
        if use is None or not is_store(use) or use.operation.parent is not op.parent:
            return None
        store = use.operation
        if isinstance(store, StoreOp):
            assert isinstance(store.target.type, GmType)
            if store.guards:
                return None
            target, label = store.target.type.dtype, self._label(store)
        else:
            assert isinstance(store, YieldOp)
            target, label = tile_type(result).dtype, "panel"
        kind = tile_type(result).dtype
        same = not kind.is_bool and memory_dtype(target) is kind
        busy = sum(g.live for g in self.groups if g.position == "vecout")
        return label if same and busy < MAX_QUEUE_BUFFERS // 2 else None

    def kinds(self, op: Operation, values: Sequence[SSAValue], form: Form) -> tuple[Kind, ...]:
        """How operands relate to a result of `form`."""
        windows = self.program.windows(op)
        found = []
        for value in values:
            axes = windows.wide_axes(tile_type(value).axes)
            if self.program.number(value) is not None:
                found.append(Kind.NUMBER)
            elif axes == form.axes:
                found.append(Kind.FULL)
            elif not axes:
                found.append(Kind.ONE)
            else:
                found.append(Kind.COL if axes == form.axes[:1] else Kind.ROW)
        return tuple(found)

    def _map(self, op: Operation, form: Form) -> tuple[Recipe, tuple[Kind, ...]]:
        assert isinstance(op, MapOp | MergeOp)
        if isinstance(op, MergeOp):
            function = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[op.monoid]
        else:
            function = op.function
        kinds = self.kinds(op, op.operands, form)
        if function == "cast":
            assert isinstance(op, MapOp)
            recipe: Recipe = self._cast_recipe(op)
            kind = self._compute_dtype(op)
        else:
            kind = self._compute_dtype(op)
            recipe = self._function(op, function, kind, kinds)
        if kinds[0] is Kind.NUMBER and (len(kinds) == 1 or (kinds[1] is Kind.NUMBER and len(kinds) == 2)):
            recipe = OnNumber(recipe, kind)
        return recipe, kinds

    def _compute_dtype(self, op: MapOp | MergeOp) -> dt.DType:
        """What a map computes on: f32 for floats and predicates, else the dtype of its integer operands."""
        found = [physical_dtype(tile_type(v).dtype) for v in op.operands]
        return next((k for k in found if k is not dt.F32), dt.F32)

    def _function(self, op: Operation, function: str, kind: dt.DType, kinds: Kinds) -> Recipe:
        """The recipe of a scalar function on operands of a dtype. Raises UnsupportedError if there is none."""
        if kind is dt.F32 and function in MAPS:
            return MAPS[function]
        full = set(kinds) == {Kind.FULL}
        if function in INTEGER_MAPS and (kind is dt.I32 or (kind.is_int and function in ANY_WIDTH and full)):
            return INTEGER_MAPS[function]
        if kind is dt.F32:
            raise refuse(op, f"the function '{function}' has no lowering to Ascend C yet")
        raise refuse(
            op,
            f"'{function}' on a tile of {kind} has no lowering",
            expected="f32 (or arithmetic, comparisons, selection and bits of i32)",
            got=kind,
            hint="add a tile.map cast to f32 before, and one back after",
        )

    def _scan(self, op: ScanOp, form: Form) -> tuple[Recipe, tuple[Kind, ...]]:
        if op.last not in self.program.in_place:
            raise refuse(op, "a running fold whose state isn't the loop's own", hint="yield the state of tile.scan")
        if op.over not in form.axes:
            raise refuse(op, "a running fold over one element", got=str(tile_type(op.value)))
        return Scan(op.monoid, op.exclusive, op.over == form.axes[-1]), (Kind.FULL, Kind.FULL)

    def _rank(self, op: RankOp) -> tuple[Recipe, tuple[Kind, ...], Form]:
        if op.res not in self.program.in_place:
            raise refuse(op, "a state of ordered rows that isn't the loop's own", hint="yield the result of tile.rank")
        kept = self.kernel.extents[tile_type(op.state).axes[-1]] // 2
        form = self.program.windows(op).form(op, tile_type(op.value))
        if form.axes[-1:] != (op.over,):
            raise refuse(op, "a row of one element is in order", got=str(tile_type(op.value)))
        return Rank(op.order, kept), (Kind.FULL, Kind.FULL), form

    def _reduce(self, op: ReduceOp) -> tuple[Recipe, tuple[Kind, ...], Form]:
        windows = self.program.windows(op)
        source = windows.form(op, tile_type(op.args[0]))
        if physical_dtype(tile_type(op.args[0]).dtype) is not dt.F32:
            raise refuse(
                op, "reductions work in f32", got=tile_type(op.args[0]).dtype, hint="add a tile.map cast"
            )
        over = set(windows.wide_axes(op.over))
        lanes = source.axes[-1] in over
        rows = len(source.axes) == 2 and source.axes[0] in over
        recipe: Recipe = Reduce(op.monoid, lanes, rows)
        if self.program.number(op.args[0]) is not None:
            return OnNumber(recipe), (Kind.NUMBER,), source
        return recipe, (Kind.FULL,), source

    # -- questions of the lowering --------------------------------------------------------------

    def number(self, value: SSAValue) -> Number | None:
        return self.program.number(value)

    def check_buffers(self) -> None:
        """Raise UnsupportedError if the kernel needs more buffers or queue tensors than a core has."""
        for position in ("vecin", "vecout"):
            total = sum(g.buffers for g in self.groups if g.position == position)
            if total > MAX_QUEUE_BUFFERS:
                raise UnsupportedError(
                    f"kernel '{self.kernel.sym_name.data}' needs {total} {position} buffers at a time",
                    expected=f"at most {MAX_QUEUE_BUFFERS} (event ids of a pipe pair)",
                    hint="split the kernel",
                )
