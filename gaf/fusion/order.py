# SPDX-License-Identifier: Apache-2.0
"""A topological order of groups that is kept up to date while they are joined, after Pearce and Kelly."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from gaf.fusion.opgraph import OpGraph
from gaf.fusion.plan import Group

MAX_WINDOW = 4000
"""Ops looked at to prove convexity of one merge."""

TOO_FAR = f"more than {MAX_WINDOW} ops between: no proof that no path leaves and re-enters the group"


class UnitOrder:
    """Every unit (a group, or an op without one) has a rank; joining needs that no other path leads there."""

    graph: OpGraph
    ops: list[Operation]
    group_of: dict[int, Group]
    order: list[Group]
    rank: dict[Group, int]
    unit_of: dict[int, Group]

    def _through(self, unit: Group) -> str:
        return f"a path through {self.graph.name(unit.ops[0])} leaves and re-enters the group"

    def number_units(self) -> None:
        """Ranks in block order, valid because every group is still one op (and views that follow it)."""
        self.order: list[Group] = []
        self.unit_of: dict[int, Group] = {}
        for i in range(len(self.ops)):
            if i in self.folded or i in self.unit_of:
                continue
            unit = self.group_of.get(i) or Group([i])
            for j in unit.ops:
                self.unit_of[j] = unit
            self.order.append(unit)
        self.rank = {unit: r for r, unit in enumerate(self.order)}

    def join(self, producer: Group, consumer: Group) -> str:
        """Give two units one place in the order, that of `consumer`; returns "" or why there is none.

        Afterwards `producer` is dead and the caller must `adopt` its ops.
        """
        first, last = (
            (producer, consumer) if self.rank[producer] < self.rank[consumer] else (consumer, producer)
        )
        after = self.descendants(first, last)
        if isinstance(after, str):
            return after
        self.place(first, last, after)
        if last is not consumer:  # the merged unit is called `consumer`
            r = self.rank[last]
            self.order[r], self.order[self.rank[first]] = consumer, last
            self.rank[last], self.rank[consumer] = self.rank[first], r
        producer.alive = False
        return ""

    def descendants(self, producer: Group, consumer: Group) -> set[Group] | str:
        """Units after `producer` and ranked before `consumer` that depend on it.

        Returns the reason instead if one of them feeds `consumer`: merging would not be convex.
        """
        last = self.rank[consumer]
        found: set[Group] = set()
        stack = [producer]
        while stack:
            unit = stack.pop()
            for op in unit.ops:
                for c in self.graph.consumers(op):
                    other = self.unit_of[c]
                    if other is consumer:
                        if unit is not producer:
                            return self._through(unit)
                    elif other not in found and other is not producer and self.rank[other] < last:
                        found.add(other)
                        stack.append(other)
            if len(found) > MAX_WINDOW:
                return TOO_FAR
        return found

    def place(self, producer: Group, consumer: Group, after: set[Group]) -> None:
        """Give the merged unit (`consumer`) a rank: before `after`, the units that depend on `producer`."""
        first, last = self.rank[producer], self.rank[consumer]
        window = [u for u in self.order[first + 1 : last] if u not in after]
        window += [consumer, *(u for u in self.order[first + 1 : last] if u in after)]
        # the producer's slot is left as a dead entry so that ranks outside the window don't move
        self.order[first : last + 1] = [producer, *window]
        for r in range(first, last + 1):
            self.rank[self.order[r]] = r

    def split_off(self, part: Group, group: Group, smaller: Group, after: bool) -> None:
        """Take the ops of `part` out of a group: a unit of its own right behind the group, or right before
        it.
        """
        group.ops, group.legal, group.cost = smaller.ops, smaller.legal, smaller.cost
        for i in part.ops:
            self.group_of[i] = self.unit_of[i] = part
        at = self.rank[group] + (1 if after else 0)
        self.order.insert(at, part)
        for r in range(at, len(self.order)):
            self.rank[self.order[r]] = r

    def unsplit(self, part: Group, group: Group, whole: Group) -> None:
        """Undo `split_off`; `whole` is what the group was."""
        at = self.rank.pop(part)
        del self.order[at]
        for r in range(at, len(self.order)):
            self.rank[self.order[r]] = r
        group.ops, group.legal, group.cost = whole.ops, whole.legal, whole.cost
        for i in part.ops:
            self.group_of[i] = self.unit_of[i] = group

    def convex(self, ops: Iterable[int]) -> str:
        """ "" if no path leaves and re-enters these ops, else the reason."""
        members = {self.unit_of[i] for i in ops}
        last = max(self.rank[u] for u in members)
        seen: set[Group] = set()
        stack = [u for u in members]
        while stack:
            unit = stack.pop()
            for op in unit.ops:
                for c in self.graph.consumers(op):
                    other = self.unit_of[c]
                    if other in members:
                        if unit not in members:
                            return self._through(unit)
                    elif other not in seen and self.rank[other] < last:
                        seen.add(other)
                        stack.append(other)
            if len(seen) > MAX_WINDOW:
                return TOO_FAR
        return ""
