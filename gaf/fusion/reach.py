# SPDX-License-Identifier: Apache-2.0
"""Which part of an axis a mask of coordinates leaves: causal and sliding-window attention skip the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gaf.dialects.common.index import Expr, const
from gaf.fusion.nodes import Region
from gaf.fusion.online import Fold

Range = tuple[Expr | None, Expr | None]
"""First element and the one behind the last, as expressions of the other axes; None: no limit."""

MIRRORED = {"le": "ge", "ge": "le", "lt": "gt", "gt": "lt"}


def reach(region: Region, axis: str, folds: Iterable[Fold]) -> tuple[Expr, Expr] | None:
    """The elements of `axis` outside of which every row of what is folded is -inf, for any values of the other axes.

    None if there is no such limit: without a maximum of a selection between values and -inf by coordinates. Terms
    that are -inf change no fold that follows their maximum.
    """
    folds = list(folds)
    peaks = [f for f in folds if f.follows is None and region.nodes[f.node].function == "max"]
    if len(peaks) != 1 or any(f.follows != peaks[0].node for f in folds if f is not peaks[0]):
        return None
    low, high = _of_scores(region, region.nodes[peaks[0].node].args[0], axis)
    if low is None and high is None:
        return None
    return low if low is not None else const(0), high if high is not None else region.axes[axis]


def _of_scores(region: Region, number: int, axis: str) -> Range:
    """Where a value may be more than -inf."""
    node = region.nodes[number]
    if node.kind != "map" or node.function != "select":
        return None, None
    condition, value, other = node.args
    if region.nodes[other].kind != "number" or region.nodes[other].value != -math.inf:
        return None, None
    return _both(_of_condition(region, condition, axis), _of_scores(region, value, axis))


def _of_condition(region: Region, number: int, axis: str) -> Range:
    """Where a condition may hold."""
    node = region.nodes[number]
    if node.kind != "map":
        return None, None
    if node.function == "and":
        first, second = (_of_condition(region, a, axis) for a in node.args)
        return _both(first, second)
    if node.function not in MIRRORED:
        return None, None
    function, (left, right) = node.function, node.args
    place, limit = _coordinate(region, left), region.nodes[right]
    if place is None:
        function, place, limit = MIRRORED[function], _coordinate(region, right), region.nodes[left]
    if place is None or limit.kind != "number" or not math.isfinite(limit.value):
        return None, None
    step = place.coefficient(axis)
    rest = place.substitute({axis: const(0)})
    if step == -1:  # -a + rest <= c: a >= rest - c
        function, rest, value = MIRRORED[function], const(0) - rest, -limit.value
    elif step == 1:
        value = limit.value
    else:
        return None, None
    if any(rest.coefficient(a) is None or rest.coefficient(a).as_int() is None for a in region.axes if a in rest.names()):  # type: ignore[union-attr]
        return None, None
    match function:  # a + rest <, <=, >, >= value
        case "le":
            return None, const(math.floor(value) + 1) - rest
        case "lt":
            return None, const(math.ceil(value)) - rest
        case "ge":
            return const(math.ceil(value)) - rest, None
        case _:
            return const(math.floor(value) + 1) - rest, None


def _coordinate(region: Region, number: int) -> Expr | None:
    """The index expression of a node that is a coordinate as data."""
    node = region.nodes[number]
    while node.kind == "map" and node.function == "cast" and (node.dtype.name in ("f32", "i32", "i64")):
        node = region.nodes[node.args[0]]
    return node.index[0] if node.kind == "coord" else None


def _both(a: Range, b: Range) -> Range:
    """A range that holds what two ranges have in common: the first limit of each side that is known."""
    return (a[0] if a[0] is not None else b[0]), (a[1] if a[1] is not None else b[1])
