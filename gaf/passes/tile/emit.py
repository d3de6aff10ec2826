# SPDX-License-Identifier: Apache-2.0
"""Shared state of a lowering from tile to ascendc: named scalars, windows of the axes, tensors of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from xdsl.dialects.builtin import NameLoc
from xdsl.ir import BlockArgument, Operation, SSAValue

from gaf.dialects.ascendc import builder as asc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, ExprLike, const, expr, maximum, minimum
from gaf.dialects.tile.structure import ForOp, WorkspaceOp
from gaf.passes.diagnostics import location_text
from gaf.passes.tile.buffers import Group, Home, Leaf, Slot, slot_bytes
from gaf.passes.tile.forms import axis_ranges, loops_around, pitch, refuse, tile_type
from gaf.passes.tile.plan import Plan
from gaf.passes.tile.recipes.base import Arg, Calls, Kind

Window = tuple[Expr, Expr]
"""First coordinate and number of elements."""

Condition = tuple[Expr, str, Expr]
"""A comparison of scalars: left side, mode, right side."""


class Emitter:
    """Writes one ascendc kernel: what the vector and the cube program have in common."""

    def __init__(self, plan: Plan, kb: asc.KernelBuilder) -> None:
        self.plan = plan
        self.kernel = plan.kernel
        self.kb = kb
        self.ranges = axis_ranges(self.kernel)
        self.windows: dict[str, Window] = {
            a.name: (const(0), a.extent) for a in self.kernel.axes if not a.hull
        }
        self.fields: set[str] = {n for n, _ in kb.tiling}
        self._named: list[dict[Expr, Expr]] = [{}]
        self._node: str | None = None
        self.turn: Expr = const(0)
        """Number of the current round, which chooses among the copies of a tile."""
        self.arrays: dict[SSAValue, SSAValue] = {}
        for name, arg in zip(self.kernel.arg_names.data, self.kernel.body.block.args, strict=True):
            self.arrays[arg] = kb.arg(name)

    # -- scalars ------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A nested scope of names and of the current model node."""
        self._named.append({})
        self._node = None
        try:
            yield
        finally:
            self._named.pop()
            self._node = None

    def name(self, value: ExprLike, hint: str) -> Expr:
        """A short expression for a value: the value itself if it is short, else a tiling field or a `let`.

        Values that only the host's names occur in are computed once by the host.
        """
        value = expr(value)
        if value.as_int() is not None or value.as_name() is not None:
            return value
        for names in self._named:
            if value in names:
                return names[value]
        fixed = value.names() <= self.fields
        names = self._named[0] if fixed else self._named[-1]
        fresh = self.kb.fresh(hint)
        if fixed:
            names[value] = self.kb.field(fresh, value)
            self.fields.add(fresh)
        else:
            names[value] = self.kb.let(fresh, value)
        return names[value]

    def field(self, hint: str, value: ExprLike) -> Expr:
        """A tiling field, whatever its value is."""
        fresh = self.kb.fresh(hint)
        self.fields.add(fresh)
        return self.kb.field(fresh, value)

    @contextmanager
    def for_(self, hint: str, low: ExprLike, high: ExprLike, step: ExprLike = 1) -> Iterator[Expr]:
        """A scalar loop with a fresh variable."""
        with self.kb.for_(self.kb.fresh(hint), low, high, step) as variable, self.scope():
            yield variable

    @contextmanager
    def if_(self, lhs: ExprLike, mode: str, rhs: ExprLike) -> Iterator[None]:
        with self.kb.if_(lhs, mode, rhs), self.scope():
            yield

    @contextmanager
    def on(self, conditions: Sequence[Condition]) -> Iterator[None]:
        """What is emitted inside runs where all conditions hold."""
        with ExitStack() as open_:
            for lhs, mode, rhs in conditions:
                open_.enter_context(self.if_(lhs, mode, rhs))
            yield

    # -- windows ------------------------------------------------------------------------------

    @contextmanager
    def loop(self, op: ForOp) -> Iterator[None]:
        """The scalar loop of a tile.for, with the window of its axis narrowed inside."""
        low, size = self.windows[op.axis]
        high = low + size
        if op.bounds is not None:
            low = maximum(low, self.evaluate(op.bounds[0]))
            high = minimum(high, self.evaluate(op.bounds[1]))
        low, high = self.name(low, f"{op.axis}_begin"), self.name(high, f"{op.axis}_end")
        step = self.evaluate(op.step)
        with (
            self.for_(f"{op.axis}0", low, high, step) as variable,
            self.narrowed({op.axis: self.step_window(op.axis, variable, step, high)}),
        ):
            yield

    @contextmanager
    def narrowed(self, windows: dict[str, Window]) -> Iterator[None]:
        """The windows of some axes are narrower inside."""
        saved = dict(self.windows)
        self.windows.update(windows)
        try:
            yield
        finally:
            self.windows = saved

    def lows(self) -> dict[str, Expr]:
        """What axis names and bounds stand for here."""
        names: dict[str, Expr] = {}
        for axis, (low, size) in self.windows.items():
            names[axis] = names[f"{axis}.lo"] = low
            names[f"{axis}.hi"] = low + size
        return names

    def evaluate(self, value: Expr) -> Expr:
        """An index expression with the names of this place."""
        return value.simplify(self.ranges).substitute(self.lows())

    def step_window(self, axis: str, low: Expr, step: Expr, high: Expr) -> Window:
        """The window [low, low + step) clipped to `high`, its size named; steps of 1 need no clipping."""
        if step == 1:
            return low, const(1)
        return low, self.name(minimum(step, high - low), f"{axis}_size")

    def size(self, axes: Sequence[str]) -> tuple[Expr, Expr]:
        """Rows and lanes of the current window of the wide axes of a tile."""
        rows = self.windows[axes[0]][1] if len(axes) == 2 else const(1)
        lanes = self.windows[axes[-1]][1] if axes else const(1)
        return self.name(rows, axes[0] + "_size" if axes else "rows"), self.name(lanes, "lanes")

    # -- model nodes --------------------------------------------------------------------------

    def node(self, op: Operation) -> None:
        """Mark the model node that the calls below come from, when it changes."""
        location = op.location
        if isinstance(location, NameLoc) and (text := location_text(location)) and text != self._node:
            self.kb.node(text)
            self._node = text
        self.kb.location = location

    def array(self, value: SSAValue) -> SSAValue:
        """The GlobalTensor of an argument or workspace."""
        return self.arrays[value]


class VectorEmitter(Emitter):
    """Adds the tensors of the vector program: queues, slots, and where values are in them."""

    def __init__(self, plan: Plan, kb: asc.KernelBuilder) -> None:
        super().__init__(plan, kb)
        self.tensors: dict[SSAValue, SSAValue] = {}
        self.numbers: dict[SSAValue, Expr] = {}
        self._made: dict[SSAValue, dict[str, Window]] = {}
        self._queues: dict[int, SSAValue] = {}
        self._slots: dict[tuple[int, dt.DType], SSAValue] = {}

    # -- buffers ------------------------------------------------------------------------------

    def init_buffers(self) -> None:
        """Queues and the buffer for temporaries, with a tensor per slot and element type."""
        plan = self.plan
        for group in plan.groups:
            size = self.name(group.bytes, f"{group.label}_bytes")
            suffix = "in" if group.position == "vecin" else "out"
            self._queues[id(group)] = self.kb.init_queue(
                f"{group.label}_{suffix}", group.position, group.buffers, size
            )
        if not plan.slots:
            return
        pool = self.kb.init_buf("temporaries", self.name(plan.pool_bytes, "pool_bytes"))
        kinds = self._slot_kinds()
        for slot, offset in plan.layout():
            at = self.name(offset, f"slot{slot.number}_at")
            for kind in kinds.get(slot.number, ()):
                count = self.name(slot.bytes // kind.bytes, f"slot{slot.number}_count")
                name = f"slot{slot.number}" if kind is dt.F32 else f"slot{slot.number}_{kind.name}"
                self._slots[(slot.number, kind)] = self.kb.buf_get(pool, at, count, kind, name)

    def _slot_kinds(self) -> dict[int, list[dt.DType]]:
        found: dict[int, dict[dt.DType, None]] = {}
        for home in self.plan.homes.values():
            if home.slot is not None:
                found.setdefault(home.slot.number, {})[home.form.dtype] = None
        for leaf in self.plan.all_leaves():
            for slot, scratch in leaf.scratch:
                found.setdefault(slot.number, {})[scratch.dtype] = None
        return {n: sorted(kinds, key=lambda k: k.name) for n, kinds in found.items()}

    def queue(self, group: Group) -> SSAValue:
        return self._queues[id(group.queue)]

    def slot(self, slot: Slot, kind: dt.DType) -> SSAValue:
        return self._slots[(slot.number, kind)]

    def temporaries(self, leaf: Leaf) -> list[SSAValue]:
        """The scratch tensors of an op."""
        return [self.slot(slot, scratch.dtype) for slot, scratch in leaf.scratch]

    # -- values -------------------------------------------------------------------------------

    def define(self, value: SSAValue, tensor: SSAValue | None = None) -> SSAValue:
        """The tensor that a value is written to, and from now on read from."""
        root = self.plan.program.root(value)
        home = self.plan.homes[root]
        if tensor is None:
            if home.slot is not None:
                tensor = self.slot(home.slot, home.form.dtype)
            elif root in self.tensors and home.queue is None:
                tensor = self.tensors[root]
            else:
                assert home.queue is not None
                tensor = self.kb.alloc(self.queue(home.queue), home.form.dtype, value.name_hint or "result")
        self.tensors[root] = tensor
        self._made[root] = dict(self.windows)
        return tensor

    def arg(self, value: SSAValue, op: Operation, kind: Kind) -> Arg:
        """An operand of `op` as its recipe wants it."""
        if kind is Kind.NUMBER:
            number = self.plan.number(value)
            assert number is not None
            if isinstance(number, Expr):
                number = self.numbers[self.plan.program.root(value)]
            return Arg(kind, number=number)
        return Arg(kind, self.tensor(value, op))

    def tensor(self, value: SSAValue, op: Operation) -> SSAValue:
        """The part of a value's tensor that is visible inside the open loops."""
        root = self.plan.program.root(value)
        home, tensor, made = self.plan.homes[root], self.tensors[root], self._made[root]
        narrowed = [a for a in home.form.axes if self.windows[a] != made[a]]
        if home.copies > 1:
            size = slot_bytes(home.form.bytes) // home.form.dtype.bytes
            first = self.name(self.name(self.turn % home.copies, "copy") * self.name(size, "copy_count"), "copy_at")
            tensor = self.kb.slice(tensor, first, self.name(size, "copy_count"))
        if not narrowed:
            return tensor
        axis = narrowed[0]
        if len(narrowed) > 1 or (len(home.form.axes) == 2 and axis == home.form.axes[1]):
            raise refuse(
                op,
                f"a loop over '{home.form.axes[-1]}' takes slices of a tile that is complete outside",
                expected="a loop over its rows",
                got=str(tile_type(value)),
                hint="compute the tile inside the loop, or store it in a workspace",
            )
        distance = self.windows[axis][0] - made[axis][0]
        size = self.windows[axis][1]
        if len(home.form.axes) == 2:
            row = pitch(made[home.form.axes[1]][1], home.form.dtype)
            return self.kb.slice(
                tensor, self.name(distance * row, "part"), self.name(size * row, "part_count")
            )
        self._check_alignment(op, axis, home)
        count = self.name(pitch(size, home.form.dtype), "part_count")
        return self.kb.slice(tensor, self.name(distance, "part"), count)

    def _check_alignment(self, op: Operation, axis: str, home: Home) -> None:
        """A column or row is sliced at multiples of 32 bytes only."""
        for loop in loops_around(op)[::-1]:
            step = getattr(loop, "step", None)
            if getattr(loop, "axis", None) != axis or step is None:
                continue
            block = 32 // home.form.dtype.bytes
            known = dict(self.plan.kernel.params).get(step.as_name() or "", step).as_int()
            if known is None or known % block:
                raise refuse(
                    op,
                    f"a loop over '{axis}' takes slices of a column or row that start unaligned",
                    expected=f"a constant step that is a multiple of {block}",
                    got=str(step),
                )

    def calls(self, rows: Expr, lanes: Expr) -> Calls:
        """What a recipe emits to, for a tile of this size."""

        def count_of(kind: dt.DType) -> Expr:
            return self.name(rows * pitch(lanes, kind), "count")

        return Calls(rows, lanes, count_of, self.kb.call, self.kb.slice, self.kb.reinterpret, self.for_)


def gm_name(value: SSAValue) -> str:
    """The name of an array for messages."""
    if isinstance(value, BlockArgument) or isinstance(value.owner, WorkspaceOp):
        return value.name_hint or "array"
    return "block"
