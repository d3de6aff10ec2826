# SPDX-License-Identifier: Apache-2.0
"""Streamed reductions of a stage: loops that carry states, one or more passes, alone or shared between cores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid
from gaf.dialects.common.index import Expr, ceildiv, const, expr, maximum, minimum, product, round_up, sym
from gaf.dialects.tile.builder import KernelBuilder, Loop
from gaf.fusion.online import Fold, body, finished, fold_passes, moved, shrink, stand_in

if TYPE_CHECKING:
    from gaf.passes.tile.lower_region import RegionEmitter

PART_LANES = 64
"""A core's part of the lanes starts at a multiple of this."""

MERGED_PARTS = 4
"""States of a split reduction that are merged at a time."""


class Tiles:
    """Arithmetic of states on tiles."""

    def __init__(self, kb: KernelBuilder) -> None:
        self.kb = kb

    def map(self, function: str, *args: SSAValue) -> SSAValue:
        return self.kb.map(function, *args)

    def number(self, value: float | Expr) -> SSAValue:
        known = value.as_int() if isinstance(value, Expr) else value
        if known is not None:
            return self.kb.fill(float(known), dt.F32)
        return self.kb.cast(self.kb.index(expr(value), ()), dt.F32)  # type: ignore[arg-type]


class FoldEmitter:
    """Emits the reductions and outputs of a stage that is streamed, with the values of its `RegionEmitter`."""

    def __init__(self, e: RegionEmitter, contractions: Sequence[int] = ()) -> None:
        self.e = e
        self.kb = e.kb
        self.region, self.schedule = e.region, e.schedule
        self.nodes = e.region.nodes
        self.on = Tiles(e.kb)
        self.passes = fold_passes(e.region, contractions)
        self._shrinks: dict[tuple[SSAValue, SSAValue, float], SSAValue] = {}
        self.count = product(self.region.axes[a] for a in self.schedule.nest)

    # -- one core -------------------------------------------------------------------------------

    def stream(self, grid_axes: Sequence[str]) -> None:
        """Walk the reduced axes once per pass, then once more for the outputs that have them."""
        nest = self.schedule.nest
        for folds in self.passes:
            self._outside(nest)
            self.finish(folds, self._folded(folds, nest))
        self._outputs(grid_axes)

    def _outputs(self, grid_axes: Sequence[str]) -> None:
        """Store the outputs when all reductions are known."""
        nest = self.schedule.nest
        self._outside(nest)
        along = [i for i, o in enumerate(self.region.outputs) if set(nest) & _names(o.index)]
        if along:
            self._stored_along(along, nest, grid_axes)
        for i in range(len(self.e.outputs)):
            if i not in along:
                self.e.store(i, grid_axes)

    def _stored_along(self, outputs: Sequence[int], nest: Sequence[str], grid_axes: Sequence[str]) -> None:
        """Loops over all reduced axes that compute and store outputs which have them."""
        axis, *rest = nest
        with self._loop(axis) as loop, self.e.scope():
            if rest:
                self._outside(rest, self._below([self.region.outputs[i].node for i in outputs]))
                self._stored_along(outputs, rest, grid_axes)
            else:
                for i in outputs:
                    self.e.store(i, grid_axes)
            loop.yield_()

    # -- folds ----------------------------------------------------------------------------------

    def _folded(self, folds: Sequence[Fold], nest: Sequence[str]) -> dict[int, SSAValue]:
        """The states of reductions over the current windows of `nest`, one loop for each axis."""
        axis, *rest = nest
        numbers = [f.node for f in folds]
        with self._loop(axis, [self.identity(n) for n in numbers]) as loop, self.e.scope():
            old = dict(zip(numbers, loop.carried))
            parts: Mapping[int, SSAValue] | None = None
            if rest:
                self._outside(rest, self._below(numbers))
                parts = self._folded(folds, rest)
            states: dict[int, SSAValue] = {}
            for fold in folds:
                with self.at(fold):
                    states[fold.node] = self.next(fold, axis, rest, old, parts, states)
            loop.yield_(carried=list(states.values()))
        return dict(zip(numbers, loop.results))

    def next(
        self, fold: Fold, axis: str, rest: Sequence[str], old: Mapping[int, SSAValue],
        parts: Mapping[int, SSAValue] | None, states: Mapping[int, SSAValue],
    ) -> SSAValue:  # fmt: skip
        """The state after a step of the loop over `axis`, inside of which `rest` are folded to `parts`."""
        number, on = fold.node, self.on
        if fold.follows is None:
            part = parts[number] if parts is not None else self._fold(fold)
            return self.kb.merge(self.nodes[number].function, old[number], part)
        final = states[fold.follows]
        before, here, behind = self._counts(fold, axis, rest)
        if fold.is_moment:
            kept = moved(fold, on, old[number], old[fold.follows], final, before, behind)
        else:
            kept = on.map("mul", old[number], self.shrink(fold, old[fold.follows], final))
        if parts is not None:
            part = moved(fold, on, parts[number], parts[fold.follows], final, here, behind)
        else:
            assert fold.running is not None
            if fold.running not in self.e.scopes[-1]:
                self.e.scopes[-1][fold.running] = stand_in(fold, on, final, behind, self.count)
            part = self._fold(fold)
        return on.map("add", kept, part)

    def shrink(self, fold: Fold, followed: SSAValue, final: SSAValue) -> SSAValue:
        """What a sum of exponentials is multiplied by: once for all sums that follow one maximum."""
        key = (followed, final, fold.rate)
        if key not in self._shrinks:
            self._shrinks[key] = shrink(fold, self.on, followed, final)
        return self._shrinks[key]

    def _counts(self, fold: Fold, axis: str, rest: Sequence[str]) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Elements folded before a step of the loop over `axis`, in it, and both; 1 if that doesn't matter."""
        if not fold.is_moment:
            one = self.on.number(1.0)
            return one, one, one
        name, bounds = self.e.rename[axis], self._bounds(axis)
        first = bounds[0] if bounds is not None else const(0)
        low, high = sym(f"{name}.lo"), sym(f"{name}.hi")
        # a tile has a window of every axis of the loops around, and all of those inside
        around = [self.e.rename[a] for a in self.schedule.nest[: self.schedule.nest.index(axis)]]
        others = product([sym(f"{a}.hi") - sym(f"{a}.lo") for a in around] + [self._folded_by_core(a) for a in rest])
        found = [self.on.number(n * others) for n in (low - first, high - low, high - first)]
        return found[0], found[1], found[2]

    def _folded_by_core(self, axis: str) -> Expr:
        """Elements along an axis that a core folds."""
        bounds, extent = self._bounds(axis), self.region.axes[axis]
        return extent if bounds is None else maximum(0, minimum(bounds[1], extent) - bounds[0])

    def _fold(self, fold: Fold) -> SSAValue:
        """A reduction of the tile at hand; axes walked in steps of 1 are no part of it."""
        node = self.nodes[fold.node]
        over = [self.e.rename[a] for a in self.e.axis_order() if a in node.over and a not in self.schedule.walked]
        with self.at(fold):
            value = body(fold, self.on, [self.e.operand(t.node) for t in fold.terms])
            return self.kb.reduce(node.function, value, over) if over else value

    def finish(self, folds: Iterable[Fold], states: Mapping[int, SSAValue]) -> None:
        """The values of reductions, from their last states."""
        for fold in folds:
            with self.at(fold):
                shift = self.e.operand(fold.running) if fold.running is not None and not fold.is_moment else None
                factors = [(self.e.operand(t.node), t.inverse) for t in fold.outside]
                self.e.scopes[-1][fold.node] = finished(fold, self.on, states[fold.node], shift, factors)

    def identity(self, number: int) -> SSAValue:
        """The state of nothing."""
        node = self.nodes[number]
        return self.kb.fill(monoid.by_name(node.function or "sum").identity, dt.F32, self.e.tile_axes(node))

    # -- shared between cores -------------------------------------------------------------------

    def split(self) -> None:
        """Grids over parts of one reduced axis, one for every pass: each leaves its states in a workspace. Behind a
        barrier, the next one starts from all of them; the last one makes the outputs.
        """
        e, kb = self.e, self.kb
        steps = e.kept_steps()
        nest = self.schedule.nest
        arrays = {f.node: self._state_array(f.node) for folds in self.passes for f in folds}
        stored: list[Fold] = []
        for folds in self.passes:
            with kb.grid([(e.part, const(1)), *steps]), e.scope():
                self._merge_parts(stored, arrays)
                self._outside(nest)
                for number, state in self._folded(folds, nest).items():
                    at = e.index([sym(a) for a in self._state_axes(number)])
                    kb.store(state, arrays[number], [sym(f"{e.part}.lo"), *at])
            stored += folds
            kb.sync()
        along = any(set(nest) & _names(o.index) for o in self.region.outputs)
        last = [(e.part, const(1)), *steps] if along else e.whole_grid(steps)
        with kb.grid(last), e.scope():
            self._merge_parts(stored, arrays)
            self._outputs([a for a, _ in last])

    def _state_axes(self, reduction: int) -> list[str]:
        """The region's axes that the state of a reduction has."""
        return [a for a in self.e.axis_order() if a in self.nodes[reduction].axes]

    def _state_array(self, reduction: int) -> SSAValue:
        """A workspace for the states of a reduction, one for every part."""
        assert self.schedule.split is not None
        shape = [const(self.schedule.split.parts), *(self.region.axes[a] for a in self._state_axes(reduction))]
        return self.kb.workspace(shape, dt.F32, self.e.free_name(f"states{reduction}"))

    def _merge_parts(self, folds: Iterable[Fold], arrays: Mapping[int, SSAValue]) -> None:
        """The reductions that all cores have left in workspaces, in the order of their dependences."""
        assert self.schedule.split is not None
        parts, slot = self.schedule.split.parts, self.e.slot
        merged: dict[int, SSAValue] = {}
        for fold in folds:
            with self.at(fold):
                node = self.nodes[fold.node]
                axes = self.e.tile_axes(node)
                step = min(parts, MERGED_PARTS) if axes else parts
                with self.kb.for_(slot, step, carried=[self.identity(fold.node)]) as loop:
                    states = self._load_parts(fold.node, arrays)
                    if fold.follows is not None:
                        followed = self._load_parts(fold.follows, arrays)
                        count = self._part_counts() if fold.is_moment else self.on.number(1.0)
                        states = moved(
                            fold, self.on, states, followed, merged[fold.follows], count, self.on.number(self.count)
                        )
                    folded = self.kb.reduce(node.function, states, [slot])
                    loop.yield_(carried=[self.kb.merge(node.function, loop.carried[0], folded)])
            merged[fold.node] = loop.results[0]
            self.finish([fold], merged)

    def _load_parts(self, number: int, arrays: Mapping[int, SSAValue]) -> SSAValue:
        """States of the current slots."""
        e = self.e
        index = [sym(e.slot), *e.index([sym(a) for a in self._state_axes(number)])]
        return self.kb.load(arrays[number], index, [e.slot, *e.tile_axes(self.nodes[number])])

    def _part_counts(self) -> SSAValue:
        """Elements that the parts of the current slots have folded."""
        split, on = self.schedule.split, self.on
        assert split is not None
        extent, size = self.region.axes[split.axis], self._part_size()
        others = product(self.region.axes[a] for a in self.schedule.nest if a != split.axis)
        first = on.map("mul", self.kb.cast(self.kb.index(sym(self.e.slot), [self.e.slot]), dt.F32), on.number(size))
        rest = on.map("max", on.map("sub", on.number(extent), first), on.number(0.0))
        return on.map("mul", on.map("min", rest, on.number(size)), on.number(others))

    def _part_size(self) -> Expr:
        split = self.schedule.split
        assert split is not None
        size = ceildiv(self.region.axes[split.axis], split.parts)
        return round_up(size, PART_LANES) if split.axis == self.schedule.lanes else size

    # -- loops ----------------------------------------------------------------------------------

    def _bounds(self, axis: str) -> tuple[Expr, Expr] | None:
        """The part of a reduced axis that a core folds; None: all of it."""
        split = self.schedule.split
        if split is None or split.axis != axis:
            return None
        low = sym(f"{self.e.part}.lo") * self._part_size()
        return low, low + self._part_size()

    def _loop(self, axis: str, carried: Sequence[SSAValue] = ()) -> AbstractContextManager[Loop]:
        """A loop over a reduced axis, or over the part of it that belongs to the core."""
        return self.kb.for_(self.e.rename[axis], self._step(axis), carried, self._bounds(axis))

    def _step(self, axis: str) -> Expr:
        """The step of the loop over a reduced axis."""
        if axis in self.schedule.walked:
            return const(1)
        return sym(self.e.names["tm" if self.e.rename[axis] == self.e.m else "tn"])

    def at(self, fold: Fold) -> AbstractContextManager[None]:
        """Ops made inside belong to the model node of a fold."""
        return self.kb.at(self.region.origins.get(fold.node) or self.kb.location)

    def _below(self, numbers: Iterable[int]) -> set[int]:
        """Nodes that some nodes are computed from, themselves included."""
        found: set[int] = set()
        stack = list(numbers)
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += self.nodes[number].args
        return found

    def _outside(self, axes: Sequence[str], needed: Collection[int] | None = None) -> None:
        """Emit what is known by now (of `needed`) and doesn't vary along `axes`, outside of their loops."""
        for i, node in enumerate(self.nodes):
            if needed is not None and i not in needed:
                continue
            if node.axes & set(axes) or set(node.over) & set(axes) or node.kind in ("number", "contract"):
                continue
            if self.e.is_ready(node) and self.e.is_vector(i):
                self.e.operand(i)


def _names(index: Iterable[Expr]) -> set[str]:
    return {n for e in index for n in e.names()}
