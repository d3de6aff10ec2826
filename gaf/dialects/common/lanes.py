# SPDX-License-Identifier: Apache-2.0
"""Where the lanes of a tile lie in a row of memory, if they aren't neighbours: strides and rounded fractions."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.dialects.common.index import Expr, Func, const, maximum, minimum

MAX_STEP = 32
"""Largest distance of neighbouring lanes in memory: a row is loaded with what lies between, and picked apart on chip."""

MAX_DIV = 1 << 12
"""Largest numerator and denominator of a fraction."""

MAX_LANES = 1 << 14
"""Most lanes of a tile."""

EXACT = 1 << 21
"""Whole numbers below this are divided and rounded down exactly in float32: half of 1 / div stays above the rounding."""


@dataclass(frozen=True)
class LaneMap:
    """Lane n of an axis lies at `floor((n * mul + rest) / div)`, limited to [low, high] where they are given.

    `rest` and the limits don't depend on the axis; mul and div are positive.
    """

    mul: int
    rest: Expr
    div: int = 1
    low: Expr | None = None
    high: Expr | None = None

    @property
    def is_fraction(self) -> bool:
        return self.div > 1 or self.low is not None or self.high is not None

    def is_exact(self, lanes: int) -> bool:
        """Whether the places of so many lanes are found exactly."""
        return lanes * self.mul + self.div < EXACT

    def clamp(self, place: Expr) -> Expr:
        """A place within the limits."""
        place = place if self.low is None else maximum(place, self.low)
        return place if self.high is None else minimum(place, self.high)

    def room(self, lanes: Expr) -> Expr:
        """Elements of a row that so many lanes reach over, at most."""
        return lanes * self.mul if not self.is_fraction else lanes * -(-self.mul // self.div) + 1


def lane_map(place: Expr, axis: str) -> LaneMap | None:
    """The map of an index expression of one dim; None if it is another function of the axis."""
    low: Expr | None = None
    high: Expr | None = None
    while (atom := _lone_atom(place)) is not None and atom.name in ("min", "max"):
        bounds = [a for a in atom.args if axis not in a.names()]
        if len(bounds) != 1:
            return None
        (inner,) = (a for a in atom.args if axis in a.names())
        if atom.name == "max":  # a limit outside holds after those inside
            low = bounds[0] if low is None else maximum(low, bounds[0])
        else:
            high = bounds[0] if high is None else minimum(high, bounds[0])
        place = inner
    linear = _linear(place, axis)
    if linear is not None:
        return _checked(LaneMap(*linear, 1, low, high))
    with_axis = {m: c for m, c in place.terms.items() if axis in Expr({m: c}).names()}
    if len(with_axis) != 1:
        return None
    ((mono, coef),) = with_axis.items()
    if coef != 1 or len(mono) != 1 or not isinstance(mono[0], Func) or mono[0].name != "floordiv":
        return None
    div, inside = mono[0].args[1].as_int(), _linear(mono[0].args[0], axis)
    if div is None or inside is None:
        return None
    offset = place - Expr({mono: coef})
    return _checked(LaneMap(inside[0], inside[1] + offset * div, div, low, high))


def _lone_atom(e: Expr) -> Func | None:
    if len(e.terms) != 1:
        return None
    ((mono, coef),) = e.terms.items()
    return mono[0] if coef == 1 and len(mono) == 1 and isinstance(mono[0], Func) else None


def _linear(e: Expr, axis: str) -> tuple[int, Expr] | None:
    step = e.coefficient(axis)
    number = step.as_int() if step is not None else None
    return None if number is None or number < 1 else (number, e.substitute({axis: const(0)}))


def _checked(found: LaneMap) -> LaneMap | None:
    """The map, if positions are exact in float32 and rows of sensible length hold the lanes."""
    return found if found.mul <= MAX_STEP * found.div and found.mul <= MAX_DIV and found.div <= MAX_DIV else None
