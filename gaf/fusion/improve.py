# SPDX-License-Identifier: Apache-2.0
"""Local improvement of a greedy plan: ops at the border between two kernels move over where that lowers the
cost.

Moves as of Fiduccia and Mattheyses: an op without readers in its group may go to a group that reads it, an op
without producers in its group to one that feeds it, and all that follows a matmul to one that reads it. A
move must keep both groups legal and the kernels in an order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gaf.fusion.cost import GroupCost, total
from gaf.fusion.region import NotFusible

if TYPE_CHECKING:
    from gaf.fusion.search import Group, Search

MAX_ROUNDS = 3
MAX_GROUP_OPS = 64
LEAST_TIME, MORE_TIME = 0.01, 0.1
"""Parts of the modelled time that a move must save: for the least time, and for time at equal bytes."""


SLACK = 0.15
"""As in `search`: how much slower than before a plan with fewer bytes may be."""


def improve(search: Search) -> int:
    """Move border ops until nothing gets cheaper; returns the number of moves."""
    moves = 0
    for _ in range(MAX_ROUNDS):
        before = moves
        for number in sorted(search.group_of):
            group = search.group_of[number]
            if len(group.ops) < 2 or group.rule is not None or search.alone[number].ops != [number]:
                continue
            for moved, forward in ([number], True), ([number], False), (_tail(search, number, group), True):
                if moved and any(
                    _move(search, moved, group, t, forward) for t in _targets(search, moved, group, forward)
                ):
                    moves += 1
                    break
        if moves == before:
            break
    return moves


def _tail(search: Search, number: int, group: Group) -> list[int]:
    """What follows a matmul in its kernel: the part that vector cores could do in a kernel of their own."""
    meaning = search.graph.meaning(number)
    if not search.alone[number].schedules[0].is_cube or meaning is None:
        return []
    inside = set(group.ops) - {number}
    found: set[int] = set()
    for i in sorted(inside):
        if any(s == number or s in found for s in search.graph.sources(i)):
            found.add(i)
    return sorted(found) if len(found) < len(inside) + 1 else []


def _targets(search: Search, moved: list[int], group: Group, forward: bool) -> list[Group]:
    """Groups that ops may move to: those that read them, or those that feed them."""
    inside = set(group.ops) - set(moved)
    found: dict[int, Group] = {}
    for i in moved:
        near = list(search.graph.consumers(i) if forward else search.graph.sources(i))
        if any(c in inside for c in near):
            return []
        for c in near:
            other = search.group_of.get(c)
            if other is not None and other is not group and other.rule is None:
                found[id(other)] = other
    return list(found.values())


def _move(search: Search, moved: list[int], group: Group, other: Group, forward: bool) -> bool:
    rest = [i for i in group.ops if i not in moved]
    if not rest or len(other.ops) + len(moved) > MAX_GROUP_OPS:
        return False
    try:
        smaller, wider = search.build(rest), search.build(sorted([*other.ops, *moved]))
        part = search.build(moved)
    except NotFusible:
        return False
    assert smaller.cost and wider.cost and group.cost and other.cost
    if not _better(search, (smaller.cost, wider.cost), (group.cost, other.cost)):
        return False
    slower = smaller.cost.us + wider.cost.us > (1 + SLACK) * (group.best_us + other.best_us)
    if search.config.objective != "time" and slower:
        return False
    before, whole = total([group.cost, other.cost]), replace(group)
    search.split_off(part, group, smaller, after=forward)
    if search.join(part, other):
        search.unsplit(part, group, whole)
        return False
    search.adopt(other, wider)
    stay = tuple(search.graph.name(i) for i in wider.ops if i not in moved)
    search.decide(tuple(search.graph.name(i) for i in moved), stay, "", before, wider)
    return True


def _better(search: Search, new: tuple[GroupCost, GroupCost], old: tuple[GroupCost, GroupCost]) -> bool:
    """Is a move worth it? Small differences of modelled times are not."""
    us, bytes_ = (sum(c.us for c in old), sum(c.hbm_bytes for c in old))
    new_us, new_bytes = (sum(c.us for c in new), sum(c.hbm_bytes for c in new))
    if search.config.objective == "time":
        return new_us < (1 - LEAST_TIME) * us
    return new_bytes < bytes_ or (new_bytes == bytes_ and new_us < (1 - MORE_TIME) * us)
