# SPDX-License-Identifier: Apache-2.0
"""Axes cut where guards change: the halves of a rotated row, or joined tensors of one size, as results of their own.

`concat(-x[:, h:], x[:, :h]) * s` reads `x` under two guards that meet in the middle of the row. As one tile of whole
rows, both pieces are loaded, filled with zeros where they don't count, and selected lane by lane. With the axis cut
where the guards meet, no guard is left: every piece is a result of its own at the same coordinates, and pieces that
read the same element share its load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import scalar
from gaf.dialects.common.index import Expr, const, is_nonneg, sym
from gaf.dialects.graph.meaning import Guard
from gaf.fusion.axes import prune
from gaf.fusion.nodes import Node, NotFusible, Output, Region
from gaf.fusion.piecewise import guard_names, holds

MOST_PIECES = 4
"""Pieces of an axis: the code of a kernel grows with them."""

MOST_NODES = 200
"""Nodes of a region that is cut."""

FEWEST_BYTES = 32
"""Of a piece of contiguous elements: shorter copies are slow."""

_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}


def cut_at_guards(region: Region) -> tuple[Region, tuple[int, ...]] | None:
    """A region with one axis cut into equal pieces, and for each of its outputs the output of `region` that it is a
    part of; None if no cut makes all guards on an axis plain. Raises NotFusible for what has no form in pieces.
    """
    if len(region.nodes) > MOST_NODES or any(n.kind in ("reduce", "contract") for n in region.nodes):
        return None
    guards = [g for n in region.nodes for g in n.guards]
    for axis, extent in region.axes.items():
        size = extent.as_int()
        on_axis = [g for g in guards if axis in g.index.names()]
        stored = all(any(axis in e.names() for e in o.index) for o in region.outputs)
        if size is None or not on_axis or not stored:
            continue
        pieces = _pieces(on_axis, axis, size)
        if pieces is not None and size // pieces * _narrowest(region, axis) >= FEWEST_BYTES:
            return _Cut(region, axis, size // pieces, pieces).run()
    return None


def _pieces(guards: list[Guard], axis: str, size: int) -> int | None:
    """The number of equal pieces such that no guard changes inside of one."""
    bounds: set[int] = set()
    for guard in guards:
        rest = guard.index - sym(axis)
        low, high = (guard.low - rest).as_int(), (guard.high - rest).as_int()
        if low is None or high is None:
            return None
        bounds |= {b for b in (low, high) if 0 < b < size}
    for count in range(2, MOST_PIECES + 1):
        if size % count == 0 and all(b % (size // count) == 0 for b in bounds):
            return count
    return None


def _narrowest(region: Region, axis: str) -> int:
    """Bytes of the smallest element whose neighbours along the axis are neighbours in memory, or 32 if none are."""
    found = [FEWEST_BYTES]
    for type_, index in region.accesses():
        if index and axis in index[-1].names():
            found.append(type_.dtype.bytes)
    return min(found)


class _Cut:
    """Makes every node once for each piece; equal ones are one node."""

    def __init__(self, region: Region, axis: str, width: int, pieces: int) -> None:
        self.old = region
        self.axis, self.width, self.pieces = axis, width, pieces
        self.axes = {a: const(width) if a == axis else e for a, e in region.axes.items()}
        self.new = Region(self.axes, [], list(region.inputs))
        self.table: dict[tuple[Node, str], int] = {}

    def run(self) -> tuple[Region, tuple[int, ...]]:
        results: list[int] = []
        outputs: list[list[Output]] = [[] for _ in self.old.outputs]
        for piece in range(self.pieces):
            env = {self.axis: sym(self.axis) + piece * self.width}
            made: list[int] = []
            for number, node in enumerate(self.old.nodes):
                made.append(self._node(node, made, env, self.old.origins.get(number, "")))
            for i, out in enumerate(self.old.outputs):
                index = tuple(e.substitute(env, self.axes) for e in out.index)
                outputs[i].append(Output(made[out.node], index, out.type))
        for i, parts in enumerate(outputs):
            self.new.outputs += parts
            results += [i] * len(parts)
        return prune(self.new), tuple(results)

    def _add(self, node: Node, origin: str) -> int:
        key = (node, repr(node.value))  # -0.0 == 0.0
        number = self.table.get(key)
        if number is None:
            number = self.table[key] = len(self.new.nodes)
            self.new.nodes.append(node)
            self.new.origins[number] = origin
        return number

    def _number(self, value: float, kind: dt.DType, origin: str) -> int:
        return self._add(Node("number", dt.BOOL if kind.is_bool else dt.F32, value=value), origin)

    def _node(self, node: Node, made: list[int], env: Mapping[str, Expr], origin: str) -> int:
        move = lambda e: e.substitute(env, self.axes)
        if node.kind == "load":
            guards = [Guard(move(g.index), move(g.low), move(g.high)) for g in node.guards]
            known = [holds(g, self.axes) for g in guards]
            if False in known:
                return self._number(node.value, node.dtype, origin)
            left = tuple(g for g, k in zip(guards, known) if k is None)
            index = tuple(move(e) for e in node.index)
            names = {n for e in index for n in e.names()} | {n for g in left for n in guard_names(g)}
            value = node.value if left else 0.0
            return self._add(
                replace(node, index=index, guards=left, value=value, axes=frozenset(names & set(self.axes))), origin
            )
        if node.kind == "coord":
            index = tuple(move(e) for e in node.index)
            axes = frozenset({n for e in index for n in e.names()} & set(self.axes))
            return self._add(replace(node, index=index, axes=axes), origin)
        args = tuple(made[a] for a in node.args)
        if node.kind == "map" and (same := self._folded(node, args, origin)) is not None:
            return same
        axes = frozenset().union(*(self.new.nodes[a].axes for a in args)) if args else node.axes
        return self._add(replace(node, args=args, axes=axes), origin)

    def _folded(self, node: Node, args: tuple[int, ...], origin: str) -> int | None:
        """What a map is if some operands are constants in this piece; None: it stays a map."""
        operands = [self.new.nodes[a] for a in args]
        if node.function == "select" and operands[0].kind == "number":
            return args[1] if operands[0].value else args[2]
        if node.function in _COMPARISONS and operands[1].kind == "number":
            known = self._compared(node.function, operands[0], operands[1].value)
            if known is not None:
                return self._number(float(known), dt.BOOL, origin)
        for value, other in ((0, 1), (1, 0)):
            if len(args) != 2 or operands[other].kind != "number":
                continue
            number = operands[other].value
            if node.function == "add" and number == 0 and np.signbit(number):
                return args[value]
            if node.function == "bitor" and number == 0:
                return args[value]
            if node.function == "and":
                return args[value] if number else args[other]
            if node.function == "or":
                return args[other] if number else args[value]
        if any(o.kind != "number" for o in operands):
            return None
        if node.dtype.is_int:
            raise NotFusible("integers that are constant in a piece of an axis")
        if node.function == "cast":
            return args[0] if node.dtype == dt.F32 else None
        known = scalar.FUNCTIONS[node.function].numpy(*(np.float64(o.value) for o in operands))
        return self._number(float(known), node.dtype, origin)

    def _compared(self, function: str, value: Node, bound: float) -> bool | None:
        """A comparison of a coordinate, which may be cast, with a number: what it is for all coordinates, if known."""
        if value.kind == "map" and value.function == "cast":
            value = self.new.nodes[value.args[0]]
        if value.kind != "coord" or bound != int(bound):
            return None
        below, above = int(bound) - value.index[0], value.index[0] - int(bound)
        if is_nonneg(below - 1, self.axes):
            return function in ("lt", "le", "ne")
        if is_nonneg(above - 1, self.axes):
            return function in ("gt", "ge", "ne")
        if is_nonneg(below, self.axes) and function in ("le", "gt"):
            return function == "le"
        if is_nonneg(above, self.axes) and function in ("ge", "lt"):
            return function == "ge"
        return None
