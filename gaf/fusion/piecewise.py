# SPDX-License-Identifier: Apache-2.0
"""Views of several pieces (concat, pad, and what is cut out of them) as guarded loads, sums of them, or selections.

A piece that is an array in memory becomes a load with a guard: outside its range it gives a constant that
doesn't count (-0.0 for floats: x + -0.0 is x for every x, -0.0 and NaN included), so that the sum of all pieces
is the view; integers are joined bit by bit with 0 outside. A piece that is computed in the group is evaluated everywhere and selected by coordinates; the loads
below it get the guard, since outside of it their index may leave the array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, is_nonneg
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Guard, Piece, View

if TYPE_CHECKING:
    from gaf.fusion.region import Builder

EXACT_FLOAT = 1 << 24
"""Integers up to here are exact in float32."""

Guards = tuple[Guard, ...]


def guard_names(guard: Guard) -> set[str]:
    """Axes and symbols that a guard depends on."""
    return guard.index.names() | guard.low.names() | guard.high.names()


def holds(guard: Guard, axes: Mapping[str, Expr]) -> bool | None:
    """Whether a guard is true, or false, for all values of the axes; None if that isn't proven."""
    above, below = guard.index - guard.low, guard.high - guard.index
    if is_nonneg(above, axes) and is_nonneg(below - 1, axes):
        return True
    return False if is_nonneg(-above - 1, axes) or is_nonneg(-below, axes) else None


@dataclass(frozen=True)
class Source:
    """Inside `guards` the element is `value[index]`."""

    value: SSAValue
    index: tuple[Expr, ...]
    guards: Guards


def sources(builder: Builder, op: GraphOp, view: View, index: tuple[Expr, ...], outer: Guards = ()) -> list[Source]:
    """The pieces of a view at `index` that may apply, looking through views below it; `outer` guards are added."""
    return _pieces(builder, op, view.pieces, {f"d{i}": e for i, e in enumerate(index)}, outer)


def _pieces(
    builder: Builder, op: GraphOp, pieces: Sequence[Piece], env: Mapping[str, Expr], outer: Guards = ()
) -> list[Source]:
    axes = builder.region.axes
    found: list[Source] = []
    for piece in pieces:
        guards = [
            Guard(*(e.substitute(env, axes) for e in (g.index, g.low, g.high))) for g in piece.guards
        ]
        known = [holds(g, axes) for g in guards]
        if False in known:
            continue
        open_guards = tuple(g for g, k in zip(guards, known) if k is None)
        moved = tuple(builder.resolve(op, e.substitute(env, axes)) for e in piece.index)
        found += _look_through(builder, Source(op.operands[piece.operand], moved, (*outer, *open_guards)))
        if not open_guards:
            break  # this piece always applies, so no other does
    return found


def _look_through(builder: Builder, source: Source) -> list[Source]:
    """The sources behind views without a constant part."""
    found = builder.view_of(source.value)
    if found is None or found[1].fill is not None:
        return [source]
    return sources(builder, *found, source.index, source.guards)


def is_array(builder: Builder, source: Source) -> bool:
    """True for an array in memory whose elements at the index differ along some axis."""
    if builder.computed(source.value) or not source.index:
        return False
    return bool({n for e in source.index for n in e.names()} & set(builder.region.axes))


def pull_pieces(builder: Builder, op: GraphOp, view: View, index: tuple[Expr, ...]) -> int:
    """The node for element `index` of a view of several pieces."""
    return _joined(builder, sources(builder, op, view, index), view.fill, tensor_type(op.results[0]).dtype)


def pull_padded(builder: Builder, op: GraphOp, piece: Piece, fill: float, env: Mapping[str, Expr]) -> int:
    """The node of an operand that a stage reads under guards, over the names `env`: `fill` outside of them."""
    found = _pieces(builder, op, (piece,), env)
    return _joined(builder, found, fill, tensor_type(op.operands[piece.operand]).dtype)


def _joined(builder: Builder, found: list[Source], fill: float | None, kind: dt.DType) -> int:
    """The one value that sources make together; `fill` where none of them applies."""
    if not found:
        return builder.number(fill or 0.0, dt.BOOL if kind.is_bool else dt.F32)
    if len(found) == 1 and (fill is None or not found[0].guards):
        return _under(builder, found[0])  # the other pieces are empty here
    if all(is_array(builder, s) for s in found):
        if len(found) == 1:
            return builder.load(found[0].value, found[0].index, (*builder.guards, *found[0].guards), fill)
        if fill is None:
            return _sum(builder, found, kind)
    if fill is not None:
        rest = builder.number(fill, dt.BOOL if kind.is_bool else dt.F32)
    else:
        rest = _under(builder, found.pop())
    for source in reversed(found):
        rest = builder.compute("select", [condition(builder, source.guards), _under(builder, source), rest], None)
    return rest


def _under(builder: Builder, source: Source) -> int:
    with builder.under(source.guards):
        return builder.pull(source.value, source.index)


def _sum(builder: Builder, found: Sequence[Source], kind: dt.DType) -> int:
    neutral, join = (-0.0, "add") if kind.is_float else (0.0, "or" if kind.is_bool else "bitor")
    result: int | None = None
    for source in found:
        part = builder.load(source.value, source.index, (*builder.guards, *source.guards), neutral)
        if result is None:
            result = part
        elif join == "bitor":
            result = builder.map(join, [result, part], kind)
        else:
            result = builder.compute(join, [result, part], None)
    assert result is not None
    return result


def condition(builder: Builder, guards: Guards) -> int:
    """The conjunction of guards as a predicate on coordinates, exact for all coordinates of 32 bits."""
    terms: list[int] = []
    axes = builder.region.axes
    for g in guards:
        if not is_nonneg(g.index - g.low, axes):
            terms.append(_compare(builder, "ge", g.index, g.low))
        if not is_nonneg(g.high - 1 - g.index, axes):
            terms.append(_compare(builder, "lt", g.index, g.high))
    result = terms[0]
    for term in terms[1:]:
        result = builder.compute("and", [result, term], None)
    return result


def _compare(builder: Builder, mode: str, value: Expr, bound: Expr) -> int:
    """A coordinate against a bound: as floats if the bound is small, else by the sign of the difference."""
    number = bound.as_int()
    if number is None or abs(number) >= EXACT_FLOAT:
        value, number = value - bound, 0
    coordinate = builder.compute("cast", [builder.coordinate(value)], dt.F32)
    return builder.compute(mode, [coordinate, builder.number(number, dt.F32)], None)


# -- guards of loads when axes are merged -----------------------------------------------------------------


def merged_guard(guard: Guard, outer: str, inner: str, axes: Mapping[str, Expr]) -> Guard | None:
    """A guard after `outer` and `inner` became one axis called `outer`; None if it isn't a range of that axis.

    `axes` still has both. With E the extent of `inner`: a range of `outer` is one of the merged axis with bounds
    E times as big; the value outer * E + inner is the merged axis itself.
    """
    names, extent = guard_names(guard), axes[inner]
    if not names & {outer, inner}:
        return guard
    if (guard.low.names() | guard.high.names()) & {outer, inner}:
        return None
    if inner not in names:
        if guard.index.coefficient(outer) != const(1):
            return None
        rest = guard.index.substitute({outer: const(0)})
        return Guard(Expr({(outer,): 1}) + rest * extent, guard.low * extent, guard.high * extent)
    step = guard.index.coefficient(inner)
    if step != const(1) or guard.index.coefficient(outer) != extent:
        return None
    return Guard(Expr({(outer,): 1}) + guard.index.substitute({outer: const(0), inner: const(0)}), guard.low, guard.high)
