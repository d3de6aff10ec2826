# SPDX-License-Identifier: Apache-2.0
"""Local improvement of a greedy plan: ops at the border between two kernels move over where that lowers the
cost.

Moves as of Fiduccia and Mattheyses: an op without readers in its group may go to a group that reads it, an op
without producers in its group to one that feeds it; so may all that follows a matmul, all that only one other group
reads (a norm between two matmuls), and all that depends on one other group only. What is cheaper alone becomes a
kernel of its own. A move must keep both groups legal and the kernels in an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gaf.fusion.cost import GroupCost, total
from gaf.fusion.plan import MAX_GROUP_OPS, SLACK
from gaf.fusion.region import NotFusible

if TYPE_CHECKING:
    from gaf.fusion.search import Group, Search

MAX_ROUNDS = 3
LEAST_TIME, MORE_TIME = 0.01, 0.1
"""Parts of the modelled time that a move must save: for the least time, and for time at equal bytes."""


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
        moves += sum(_move_blocks(search, group) for group in search.groups() if group.alive)
        if moves == before:
            break
    return moves


def _move_blocks(search: Search, group: Group) -> bool:
    """Move the largest part of a group that is tied to one other group only."""
    if len(group.ops) < 2 or group.rule is not None:
        return False
    for forward in (True, False):
        near = search.graph.consumers if forward else search.graph.sources
        others = {id(g): g for i in group.ops for c in near(i) if (g := search.group_of.get(c)) is not None}
        for other in others.values():
            if other is group or other.rule is not None:
                continue
            moved: set[int] = set()
            for i in sorted(group.ops, reverse=forward):
                ends = list(near(i))
                if all(e in moved or search.group_of.get(e) is other for e in ends) and (ends or not forward):
                    moved.add(i)
            if len(moved) > 1 and _keeps_units(search, moved) and _move(search, sorted(moved), group, other, forward):
                return True
    return False


def _keeps_units(search: Search, moved: set[int]) -> bool:
    """A view that its producer stores moves with it."""
    return all(set(search.alone[i].ops) <= moved for i in moved)


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


def _targets(search: Search, moved: list[int], group: Group, forward: bool) -> list[Group | None]:
    """Groups that ops may move to: those that read them, or those that feed them; None for a kernel of their own."""
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
    return [*found.values(), None]


def _move(search: Search, moved: list[int], group: Group, other: Group | None, forward: bool) -> bool:
    """Move ops to another group, or out of their group (`other` is None); False if that isn't legal or better."""
    rest = [i for i in group.ops if i not in moved]
    if not rest or (other is not None and len(other.ops) + len(moved) > MAX_GROUP_OPS):
        return False
    try:
        smaller, part = search.build(rest), search.build(moved)
        wider = search.build(sorted([*other.ops, *moved])) if other is not None else part
    except NotFusible:
        return False
    old = [g.cost for g in (group, other) if g is not None and g.cost is not None]
    assert smaller.cost and wider.cost
    if not _better(search, (smaller.cost, wider.cost), old):
        return False
    best = group.best_us + (other.best_us if other is not None else 0.0)
    if search.config.objective != "time" and smaller.cost.us + wider.cost.us > (1 + SLACK) * best:
        return False
    before, whole = total(old), replace(group)
    search.split_off(part, group, smaller, after=forward)
    if other is None:
        group.best_us = smaller.cost.us
    elif search.join(part, other):
        search.unsplit(part, group, whole)
        return False
    else:
        search.adopt(other, wider)
    stay = tuple(search.graph.name(i) for i in wider.ops if i not in moved)
    search.decide(tuple(search.graph.name(i) for i in moved), stay, "", before, wider)
    return True


def _better(search: Search, new: Sequence[GroupCost], old: Sequence[GroupCost]) -> bool:
    """Is a move worth it? Small differences of modelled times are not."""
    us, bytes_ = (sum(c.us for c in old), sum(c.hbm_bytes for c in old))
    new_us, new_bytes = (sum(c.us for c in new), sum(c.hbm_bytes for c in new))
    if search.config.objective == "time":
        return new_us < (1 - LEAST_TIME) * us
    return new_bytes < bytes_ or (new_bytes == bytes_ and new_us < (1 - MORE_TIME) * us)
