# SPDX-License-Identifier: Apache-2.0
"""Windows that slide along an axis: what neighbouring windows share needs no copy for each of them.

An operand with the index `stride * column + dilation * tap - pad` along one dim holds every line of an image
up to `taps` times. Counted by lines instead, `stride * line + phase`, it holds each once; the window at `column`
finds position `tap` at line `column + tap * dilation // stride` of phase `tap * dilation % stride`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gaf.dialects.common.index import Expr, const, sym
from gaf.dialects.graph.meaning import Guard
from gaf.fusion.nodes import Node, Region


@dataclass(frozen=True)
class Slide:
    """A region whose right operand is counted by lines: axes `line` and `phase` instead of `column` and `tap`."""

    region: Region
    column: str
    tap: str
    line: str
    phase: str
    stride: int
    dilation: int

    def order(self, axes: Sequence[str]) -> list[str]:
        """`axes` of the operand with the new ones: a phase is an image of its own, its lines the last dims."""
        lines = [self.phase, self.line] if self.stride > 1 else [self.line]
        return [name for a in axes if a != self.tap for name in (lines if a == self.column else [a])]

    def place(self, axis: str) -> Expr:
        """Where the window at `column` finds position `tap`, along an axis of the operand."""
        if axis == self.line:
            return sym(self.column) + sym(self.tap) * self.dilation // self.stride
        if axis == self.phase:
            return sym(self.tap) * self.dilation % self.stride
        return sym(axis)


def find_slide(region: Region, number: int, column: str, taps: Sequence[str]) -> Slide | None:
    """How the windows of node `number` slide along `column`; None if they don't, or share too little.

    Lines of an unknown number count as 32.
    """
    below = _below(region, number)
    for tap in taps:
        steps = {_steps(e, column, tap) for i in below for e in _indices(region.nodes[i])} - {(0, 0)}
        count = region.axes[tap].as_int()
        if len(steps) != 1 or count is None or count < 2:
            continue
        stride, dilation = next(iter(steps))
        if stride < 1 or dilation < 1 or any({column, tap} & set(region.nodes[i].over) for i in below):
            continue
        lines = region.axes[column] + dilation * (count - 1) // stride
        sizes = {n: 32 for n in lines.names()}
        if stride * lines.evaluate(sizes) >= count * region.axes[column].evaluate(sizes):
            continue
        return _slide(region, below, column, tap, stride, dilation)
    return None


def _slide(region: Region, below: Sequence[int], column: str, tap: str, stride: int, dilation: int) -> Slide:
    line, phase = f"{column}_line", f"{column}_phase"
    count = region.axes[tap].as_int() or 1
    reach = dilation * (count - 1)
    axes = {**region.axes, line: region.axes[column] + reach // stride}
    if stride > 1:
        axes[phase] = const(stride)
    moved = {column: sym(line), tap: const(0)}

    def slides(e: Expr) -> bool:
        return _steps(e, column, tap) != (0, 0)

    def index(e: Expr) -> Expr:
        return e.substitute(moved) + sym(phase) if stride > 1 and slides(e) else e.substitute(moved)

    last = (region.axes[column] - 1) * stride + reach
    nodes = list(region.nodes)
    for i in below:
        node = nodes[i]
        guards = [replace(g, index=index(g.index)) for g in node.guards]
        if stride > 1:  # lines behind the last window may lie behind the end of the array
            first = {line: const(0), phase: const(0)}
            guards += [
                Guard(index(e), const(0), index(e).substitute(first) + last + 1)
                for e in node.index if slides(e) and all(g.index != e for g in node.guards)
            ]  # fmt: skip
        kept = node.axes - {column, tap}
        if kept != node.axes:
            kept |= {line, phase} & axes.keys()
        nodes[i] = replace(node, index=tuple(map(index, node.index)), guards=tuple(guards), axes=kept)
    return Slide(replace(region, axes=axes, nodes=nodes), column, tap, line, phase, stride, dilation)


def _below(region: Region, number: int) -> list[int]:
    """The nodes that a node is computed from, itself included, in order."""
    found, stack = set(), [number]
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack += region.nodes[at].args
    return sorted(found)


def _indices(node: Node) -> list[Expr]:
    """The index expressions of a node, those of its guards included."""
    return [*node.index, *(g.index for g in node.guards), *(e for g in node.guards for e in (g.low, g.high))]


def _steps(e: Expr, column: str, tap: str) -> tuple[int, int]:
    """Steps of an expression along two axes; (-1, -1) if they aren't constant."""
    found = tuple(step.as_int() if (step := e.coefficient(a)) is not None else None for a in (column, tap))
    return found if None not in found else (-1, -1)  # type: ignore[return-value]
