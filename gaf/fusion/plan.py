# SPDX-License-Identifier: Apache-2.0
"""The result of a search: groups, decisions with both costs, and the check that the kernels have an order."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from gaf.errors import InternalError
from gaf.fusion.cost import GroupCost
from gaf.fusion.opgraph import effectful
from gaf.fusion.schedule import Schedule
from gaf.fusion.work import Work

if TYPE_CHECKING:
    from gaf.fusion.candidates import Candidate
    from gaf.fusion.exact import SearchReport


MAX_GROUP_OPS = 64
"""Code size and planner cost: fusion.md 2.2 (8) allows 128."""

SLACK = 0.15
"""With the objective "traffic", how much slower than its parts a kernel may be modelled."""


@dataclass(frozen=True)
class Legal:
    """What the legality check found out about a group; shared by structurally equal groups.

    `inputs` are the positions of the region's inputs among the outside values of the signature, `outputs` the
    number of stored results. `footprint` is the smallest tile's bytes of UB, if they were asked for.
    """

    schedules: list[Schedule]
    work: Work
    inputs: tuple[int, ...]
    footprint: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a group is not legal; shared by structurally equal groups, each with names of its own."""

    reason: str
    names: tuple[str, ...]

    def about(self, names: tuple[str, ...]) -> str:
        """The reason for an equal group, whose names are in the same order."""
        renamed = {old: new for old, new in zip(self.names, names) if old and old != new}
        if not renamed or len(names) != len(self.names):
            return self.reason
        longest = sorted(renamed, key=len, reverse=True)
        pattern = r"(?<![\w/.])(" + "|".join(map(re.escape, longest)) + r")(?![\w/])"
        return re.sub(pattern, lambda m: renamed[m[1]], self.reason)


@dataclass(eq=False)
class Group:
    """Ops (numbers in block order) that form one kernel; `legal` comes from the legality check.

    `best_us` is the least modelled time seen for its ops, as one kernel or as several. `label` is the name
    that a rule gave it.
    """

    ops: list[int]
    legal: Legal | None = None
    cost: GroupCost | None = None
    best_us: float = 0.0
    alive: bool = True
    label: str | None = None
    rule: str | None = None

    def take(self, other: Group) -> None:
        """The ops of another form of this group, with its legality and cost."""
        self.ops, self.legal, self.cost, self.best_us = other.ops, other.legal, other.cost, other.best_us

    @property
    def schedules(self) -> list[Schedule]:
        return self.legal.schedules if self.legal is not None else []

    @property
    def kind(self) -> str:
        return self.schedules[0].kind


@dataclass(frozen=True)
class Decision:
    """One answered question: were these two groups joined, and what was decisive?

    `reason` is the binding constraint with its number, empty for a join. `before` is the cost of the two
    kernels, `after` that of one (None: there is no such kernel). `footprint` (bytes of UB at the smallest
    tile) and `footprint_limit` belong to the joined kernel. `rule` names the rule that asked for the join.
    """

    producer_nodes: tuple[str, ...]
    consumer_nodes: tuple[str, ...]
    fused: bool
    reason: str = ""
    kind: str = ""
    before: GroupCost | None = None
    after: GroupCost | None = None
    footprint_limit: int = 0
    rule: str = ""

    @property
    def producer(self) -> str:
        return " + ".join(self.producer_nodes)

    @property
    def consumer(self) -> str:
        return " + ".join(self.consumer_nodes)

    @property
    def members(self) -> list[str]:
        return list(dict.fromkeys((*self.producer_nodes, *self.consumer_nodes)))

    @property
    def kernels_before(self) -> int:
        return (self.before.launches if self.before else 0) or 1 + bool(self.consumer_nodes)

    @property
    def kernels_after(self) -> int:
        """Of the plan: what was left apart stays so; one kernel, or the launches of kernels in parts."""
        return (self.after.launches if self.after is not None else 1) if self.fused else self.kernels_before

    @property
    def footprint(self) -> int:
        return self.after.footprint if self.after is not None else 0

    def to_json(self) -> dict[str, object]:
        """Plain data; costs are left out where there are none. What is `_after` is of the joined kernel, joined or not,
        but for `kernels_after`, which says what the plan has.
        """
        found: dict[str, object] = {
            "members": self.members,
            "kind": self.kind,
            "fused": self.fused,
            "reason": self.reason,
            "rule": self.rule,
            "kernels_before": self.kernels_before,
            "kernels_after": self.kernels_after,
        }
        for when, cost in (("before", self.before), ("after", self.after)):
            if cost is not None:
                found |= {
                    f"bytes_{when}": cost.hbm_bytes,
                    f"us_{when}": round(cost.us, 3),
                    f"jit_s_{when}": round(cost.jit_s, 3),
                }
        if self.after is not None:
            found |= {
                "footprint": self.footprint,
                "footprint_limit": self.footprint_limit,
                "limit": self.after.limit,
                "launches_after": self.after.launches,
            }
        return found


@dataclass
class FusionPlan:
    """Groups in a legal order, ops that stay on the host with the reason, and every decision taken.

    `left_alone` are patterns that another library covers: (its operator, op numbers). `candidates` are the
    groups of two computing ops or more with their gains, `report` says what the search found and how good it
    is.
    """

    groups: list[Group]
    host: dict[int, str]
    decisions: list[Decision]
    ops: list[Operation]
    folded_views: set[int] = field(default_factory=set)
    candidates: list[Candidate] = field(default_factory=list)
    left_alone: list[tuple[str, list[int]]] = field(default_factory=list)
    report: SearchReport | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def modelled_us(self) -> float:
        """Modelled time of all groups."""
        return sum(g.cost.us for g in self.groups if g.cost is not None)

    def cost(self, objective: str) -> tuple[float, float]:
        """What a plan is judged by under an objective, the smaller the better."""
        moved = float(sum(g.cost.hbm_bytes for g in self.groups if g.cost is not None))
        return (self.modelled_us, moved) if objective == "time" else (moved, self.modelled_us)


def check_acyclic(plan: FusionPlan) -> list[list[int]]:
    """Kahn's algorithm over groups and single ops; returns units in order. Always on.

    Raises InternalError if the groups have a cycle.
    """
    unit_of: dict[int, int] = {}
    units: list[list[int]] = []
    for group in plan.groups:
        for i in group.ops:
            unit_of[i] = len(units)
        units.append(list(group.ops))
    for i in range(len(plan.ops)):
        if i not in unit_of:
            unit_of[i] = len(units)
            units.append([i])
    number = {op: i for i, op in enumerate(plan.ops)}
    grouped = {i for g in plan.groups for i in g.ops}
    successors: list[set[int]] = [set() for _ in units]
    waiting = [0] * len(units)
    for i, op in enumerate(plan.ops):
        stack, target = list(op.operands), unit_of[i]
        while stack:
            owner = stack.pop().owner
            if not isinstance(owner, Operation):
                continue
            if i in grouped and number[owner] in plan.folded_views:
                stack += owner.operands  # a group clones the views that it reads through
                continue
            source = unit_of[number[owner]]
            if source != target and target not in successors[source]:
                successors[source].add(target)
                waiting[target] += 1
    effects = effectful(plan.ops)
    for first, second in zip(effects, effects[1:]):  # they keep their order
        source, target = unit_of[first], unit_of[second]
        if target not in successors[source]:
            successors[source].add(target)
            waiting[target] += 1
    ready = [(min(u), k) for k, u in enumerate(units) if not waiting[k]]
    heapq.heapify(ready)
    order: list[list[int]] = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(units[k])
        for s in successors[k]:
            waiting[s] -= 1
            if not waiting[s]:
                heapq.heappush(ready, (min(units[s]), s))
    if len(order) != len(units):
        raise InternalError("the fusion plan has a cycle between kernels; please report this model")
    return order
