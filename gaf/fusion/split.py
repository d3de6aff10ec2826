# SPDX-License-Identifier: Apache-2.0
"""When to share a reduction out to cores: few results, each folded from many elements.

Every core folds a part of one reduced axis and leaves its state in a workspace; behind a barrier all states are
merged in the order of the parts, so that results don't depend on which core was first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gaf.dialects.common.index import Expr
from gaf.target import DEFAULT

CORES = DEFAULT.aiv_cores
"""Vector cores to keep busy. Schedules are made once for all chips: a usual count, not the target's."""

LANES = 64
"""Lanes of the narrowest tile that a grid step takes."""

UNKNOWN = 512
"""What a reduced axis of unknown size counts as."""

BARRIER_ELEMENTS = 10_000
"""Elements that a core loads in the time of a barrier and of the merge behind it, about 4500 cycles."""

SHORT_COPY = 32
"""Lanes that a copy of a row costs beside those that it moves: short rows waste bandwidth."""


STATE_SPEED = 3
"""How much faster states come from L2 than inputs from memory."""

WORTH = 0.8
"""A split has to save this much: its cost is a guess."""


@dataclass(frozen=True)
class Split:
    """The reduced axis that is shared out, and into how many parts."""

    axis: str
    parts: int


def choose_split(
    extents: Mapping[str, Expr], reduced: list[str], lanes: str, depth: int, along: bool
) -> Split | None:
    """The best split of a streamed reduction; None if sharing out its results keeps the cores as busy.

    `reduced` are the folded axes, `depth` the dependent reductions. `along`: an output has the reduced axes.
    Numbers of results that aren't known count as too many to split, and rows of unknown length as short, except a
    single one; other reduced axes as long.
    """
    sizes = {a: e.as_int() for a, e in extents.items()}
    results = [sizes[a] for a in extents if a not in reduced]
    known = [sizes[a] for a in reduced]
    if None in results or (None in known and results and lanes in reduced):
        return None
    axis = max(reduced, key=lambda a: sizes[a] or math.inf)
    folded = math.prod(n or UNKNOWN for n in known)
    others = math.prod(n or 1 for n in results)
    wide = sizes[lanes] or 1
    passes = depth + along
    best, chosen = math.inf, None
    for parts in range(1, min(CORES, sizes[axis] or CORES) + 1):
        barriers = depth if parts > 1 else 0
        if lanes in reduced:
            cost = passes * -(-others * parts // CORES) * folded / parts + barriers * BARRIER_ELEMENTS
        else:
            cost = math.inf
            for step in _steps(wide, parts):
                rounds = -(-(others // wide) * -(-wide // step) * parts // CORES)
                merging = barriers * (BARRIER_ELEMENTS + parts * step / STATE_SPEED)
                cost = min(cost, passes * rounds * (step + SHORT_COPY) * folded / parts + merging)
        if cost < (best if chosen is not None else WORTH * best):
            best, chosen = cost, Split(axis, parts) if parts > 1 else None
    return chosen


def _steps(wide: int, parts: int) -> list[int]:
    """Lanes of a grid step that may be best: as many as make one step for every core, or all."""
    share = -(-wide * parts // CORES)
    return [min(wide, max(LANES, -(-share // LANES) * LANES)), wide]
