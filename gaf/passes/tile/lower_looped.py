# SPDX-License-Identifier: Apache-2.0
"""Two matmuls around a row that is walked in stacks of columns, with the states of its folds carried (attention)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, sym
from gaf.fusion.online import Fold, body, finished
from gaf.fusion.reach import reach
from gaf.passes.tile.lower_folds import FoldEmitter

if TYPE_CHECKING:
    from gaf.passes.tile.lower_region import RegionEmitter

ROWS = 8
"""Rows of a tile of the vector cores: columns of states are sliced at whole blocks of 32 bytes."""


class LoopedEmitter:
    """Emits the grid tile of a `looped` schedule:

    a stack of columns of the first product; on the vector cores its elements, folds and the panel of the second
    product; that product; and its sum with the carried one, moved to the new states. Behind the last stack, the
    outputs.
    """

    def __init__(self, e: RegionEmitter) -> None:
        self.e, self.kb = e, e.kb
        (first,), (second,) = e.schedule.levels
        self.first, self.second = first, second
        self.columns = e.rename[first.columns]
        self.folds = FoldEmitter(e, [second.node])
        (folds,) = self.folds.passes
        self.vector = [f for f in folds if f.node != second.node]
        self.product = next(f for f in folds if f.node == second.node)

    def emit(self, steps: Sequence[tuple[str, Expr]]) -> None:
        """The body of the grid over `steps`."""
        e, kb = self.e, self.kb
        numbers = [*(f.node for f in self.vector), self.second.node]
        lefts = e.panels([self.first], 0, steps)
        initial = [self.folds.identity(n) for n in numbers]
        with kb.for_(self.columns, sym(e.names["tk"]), initial, self._bounds()) as ring, e.scope():
            old = dict(zip(numbers, ring.carried))
            with kb.for_(self.columns, const(self._block())) as loop:
                loop.yield_(collect=[e.contract(self.first, lefts)])
            e.blocks[self.first.node] = loop.results[0]
            *states, panel = self._softmax(old)
            factors = states[len(self.vector) :]
            left = kb.move(panel, slots=2)
            with kb.for_(e.rename[self.second.columns], e.block_columns(self.second.columns)) as loop:
                loop.yield_(collect=[e.contract(self.second, {e.region.nodes[self.second.node].args[0]: left})])
            total = self._accumulate(old[self.second.node], factors, loop.results[0])
            ring.yield_(carried=[*states[: len(self.vector)], total])
        self._outputs(dict(zip(numbers, ring.results)), steps)

    def _block(self) -> int:
        """Columns of a block of the first product."""
        return self.e.block_columns(self.first.columns).as_int() or 0

    def _bounds(self) -> tuple[Expr, Expr] | None:
        """The columns that a mask leaves to the rows of the block, if it is known from coordinates."""
        e = self.e
        found = reach(e.region, self.first.columns, self.vector)
        if found is None:
            return None
        low, high = (self._extreme(v, most) for v, most in zip(found, (False, True)))
        return low, high

    def _extreme(self, value: Expr, most: bool) -> Expr:
        """The largest or smallest value of a linear expression over the rows of the block."""
        e = self.e
        env: dict[str, Expr] = {}
        for axis, name in e.rename.items():
            step = value.coefficient(axis)
            if step is None or step == 0:
                continue
            last = ((step.as_int() or 0) > 0) == most
            env[axis] = sym(f"{name}.hi") - 1 if last and axis == e.schedule.rows else sym(f"{name}.lo")
        return value.substitute(env)

    def _softmax(self, old: dict[int, SSAValue]) -> tuple[SSAValue, ...]:
        """Row by row: the next states, what the carried product is multiplied by (if by anything), and the panel."""
        e, kb, folds = self.e, self.kb, self.folds
        with kb.for_(e.m, const(ROWS)) as rows, e.scope():
            states: dict[int, SSAValue] = {}
            for fold in self.vector:
                with folds.at(fold):
                    states[fold.node] = folds.next(fold, self.first.columns, (), old, None, states)
            with folds.at(self.product):
                factor = self._factor(old, states)
                panel = self._panel()
            rows.yield_(collect=[*states.values(), *factor, panel])
        return rows.results

    def _factor(self, old: dict[int, SSAValue], states: dict[int, SSAValue]) -> list[SSAValue]:
        fold = self.product
        return [] if fold.follows is None else [self.folds.shrink(fold, old[fold.follows], states[fold.follows])]

    def _panel(self) -> SSAValue:
        """The left operand of the second product, without the factors that are taken out."""
        e, region = self.e, self.e.region
        number, right = region.nodes[self.second.node].args
        if not self.product.outside:
            return e.value(number)
        terms = tuple(t for t in self.product.terms if t.node != right)
        fold = Fold(self.product.node, terms)
        value = body(fold, self.folds.on, [e.operand(t.node) for t in terms])
        kind = region.nodes[number].dtype
        return value if kind == dt.F32 else self.kb.cast(value, kind)

    def _accumulate(self, old: SSAValue, factors: Sequence[SSAValue], made: SSAValue) -> SSAValue:
        """The carried product, moved to the new states, plus that of this stack."""
        e, kb = self.e, self.kb
        with kb.for_(e.m, const(ROWS)) as rows, e.scope(), self.folds.at(self.product):
            for factor in factors:
                old = kb.map("mul", old, factor)
            rows.yield_(collect=[kb.map("add", old, kb.move(made, slots=2))])
        return rows.results[0]

    def _outputs(self, states: dict[int, SSAValue], steps: Sequence[tuple[str, Expr]]) -> None:
        e, kb, folds = self.e, self.kb, self.folds
        with kb.for_(e.m, const(ROWS)) as rows, e.scope():
            folds.finish(self.vector, states)
            with folds.at(self.product):
                shift = e.operand(self.product.running) if self.product.running is not None else None
                factors = [(e.operand(t.node), t.inverse) for t in self.product.outside]
                e.scopes[-1][self.second.node] = finished(
                    self.product, folds.on, states[self.second.node], shift, factors
                )
            e.finish([a for a, _ in steps])
            rows.yield_()
