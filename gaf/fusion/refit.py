# SPDX-License-Identifier: Apache-2.0
"""Groups that turned out to have no kernel: cut in two where that costs least, and never joined across the cut again.

Legality is decided on regions; a few limits (queue buffers, UB of a memory plan) show only when a kernel is
generated. The ops of such a group come back with an attribute that names their side of the cut, so the next search,
and every one after it, keeps the sides apart and is free to join each of them as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from gaf.fusion import names
from gaf.fusion.cost import total
from gaf.fusion.plan import Group
from gaf.fusion.region import NotFusible

if TYPE_CHECKING:
    from gaf.fusion.search import Search

APART = "gaf.apart"
"""Attribute of an op: the sides of cuts that it stands on, each as "number of the cut:side"."""

ALIKE = 0.02
"""Cuts whose costs differ by less than this part count as equal: the one nearest the middle is taken."""


@dataclass
class Failure:
    """A group of ops without a kernel, and why."""

    ops: list[Operation]
    reason: str


class Apart:
    """Ops that must not share a kernel: for every cut, op number -> side."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.sides: dict[str, dict[int, str]] = {}
        self.reasons: dict[str, str] = {}
        for number, op in enumerate(ops):
            found = op.attributes.get(APART)
            for entry in found if isinstance(found, ArrayAttr) else ():
                cut, side, reason = entry.data.split(":", 2)  # type: ignore[attr-defined]
                self.sides.setdefault(cut, {})[number] = side
                self.reasons[cut] = reason

    def check(self, members: set[int]) -> None:
        """Raise NotFusible if ops of two sides of a cut are members."""
        for cut, sides in self.sides.items():
            if len({sides[i] for i in members if i in sides}) > 1:
                raise NotFusible(self.reasons[cut])

    def cut(self, ops: Sequence[Operation], groups: Sequence[Sequence[int]], reason: str) -> None:
        """Keep groups of op numbers apart from now on."""
        used = [int(c) for op in ops for c in _cuts(op)]
        name = str(max(used, default=-1) + 1)
        self.sides[name] = {i: str(side) for side, group in enumerate(groups) for i in group}
        self.reasons[name] = reason
        for number, side in self.sides[name].items():
            op = ops[number]
            old = op.attributes.get(APART)
            entries = list(old.data) if isinstance(old, ArrayAttr) else []
            op.attributes[APART] = ArrayAttr([*entries, StringAttr(f"{name}:{side}:{reason}")])


def _cuts(op: Operation) -> list[str]:
    found = op.attributes.get(APART)
    return [e.data.split(":", 1)[0] for e in found] if isinstance(found, ArrayAttr) else []  # type: ignore[attr-defined]


def cut_failed(search: Search, failures: Sequence[Failure]) -> None:
    """Cut every failed group where its two parts cost least, and record the decision with the reason."""
    for failure in failures:
        numbers = [search.graph.number[op] for op in failure.ops if op in search.graph.number]
        members = [i for i in numbers if i in search.group_of]
        if sum(names.computes(search.ops[i]) for i in members) < 2 and len(members) < 2:
            continue
        parts = _best_cut(search, members)
        sides = [search.nodes(Group(p)) for p in parts]
        before = total([g.cost for i in members if (g := search.alone.get(i)) is not None and g.cost is not None])
        search.apart.cut(search.ops, parts, failure.reason)
        for first, second in zip(sides, sides[1:]):
            search.decide(first, second, failure.reason, before, None)


def _best_cut(search: Search, members: Sequence[int]) -> list[list[int]]:
    """Two parts, in the order of the data flow, with a kernel each and the least cost; every op alone without any."""
    units = list({id(search.alone[i]): search.alone[i].ops for i in sorted(members)}.values())
    best: tuple[float, int, list[list[int]]] | None = None
    for k in range(1, len(units)):
        halves = [sorted(i for u in part for i in u) for part in (units[:k], units[k:])]
        try:
            costs = [search.build(h).cost for h in halves]
        except NotFusible:
            continue
        us = sum(c.us for c in costs if c is not None)
        unbalanced = abs(2 * k - len(units))
        if best is None or us < (1 - ALIKE) * best[0] or (us < (1 + ALIKE) * best[0] and unbalanced < best[1]):
            best = us, unbalanced, halves
    return best[2] if best is not None else [[i] for i in sorted(members)]
