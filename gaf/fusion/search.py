# SPDX-License-Identifier: Apache-2.0
"""Which ops form a kernel: a greedy search over producer-consumer edges, decided by region and schedule.

Views belong to whoever reads through them: a consumer folds them into its index maps, or, where the map
would not be affine, the producer stores its result already transposed. What can be neither runs alone.
Every group is convex, so the groups always have an order; `plan_fusion` asserts it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.meaning import Meaning, View
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.errors import InternalError
from gaf.fusion.region import NotFusible, Region, build_region, reads_in
from gaf.fusion.schedule import Schedule, choose_schedules

MAX_GROUP_OPS = 64  # code size and planner cost: fusion.md 2.2 (8) allows 128
MAX_WINDOW = 4000  # ops looked at to prove convexity of one merge


@dataclass(eq=False)
class Group:
    """Ops (numbers in block order) that form one kernel; `kind` and `schedules` come from the legality check."""

    ops: list[int]
    schedules: list[Schedule]
    alive: bool = True

    @property
    def kind(self) -> str:
        return self.schedules[0].kind


@dataclass
class Decision:
    """One answered question: why these ops were joined, or why not. `reason` is empty for a join."""

    producer: str
    consumer: str
    fused: bool
    reason: str = ""


@dataclass
class FusionPlan:
    """Groups in a legal order, ops that stay on the host with the reason, and every decision taken."""

    groups: list[Group]
    host: dict[int, str]
    decisions: list[Decision]
    ops: list[Operation]
    folded_views: set[int] = field(default_factory=set)


def plan_fusion(
    block: Block,
    *,
    autofuse: bool = True,
    max_depth: int | None = None,
    strict: bool = False,
    host: Mapping[int, str] | None = None,
    pipelines: bool = False,
) -> FusionPlan:
    """Decide the kernels of a block of graph ops.

    With `autofuse=False` every op is its own kernel. `max_depth` bounds the contractions and reductions on
    the longest path inside a kernel. Ops in `host` (number -> reason) are left alone.
    With `pipelines`, vector work may feed a matmul of the same kernel, and matmuls may share one.
    """
    return _Search(block, autofuse, max_depth, strict, host or {}, pipelines).run()


class _Search:
    def __init__(self, block: Block, autofuse: bool, max_depth: int | None, strict: bool, host: Mapping[int, str], pipelines: bool) -> None:
        self.pipelines = pipelines
        self.autofuse, self.max_depth, self.strict = autofuse, max_depth, strict
        self.ops = list(block.ops)
        self.number = {op: i for i, op in enumerate(self.ops)}
        self.meanings: dict[int, object] = {
            i: op.meaning() for i, op in enumerate(self.ops) if isinstance(op, GraphOp) and not self.is_constant(op)
        }
        self.views = {i for i, m in self.meanings.items() if isinstance(m, View) and i not in host}
        self.folded = {i for i in self.views if self.meanings[i].is_simple}  # type: ignore[union-attr]
        self.group_of: dict[int, Group] = {}
        self.host: dict[int, str] = dict(host)
        self.decisions: list[Decision] = []
        self.cache: dict[tuple, list[Schedule] | str] = {}

    @staticmethod
    def is_constant(op: Operation) -> bool:
        return isinstance(op, ConstantOp | WeightOp)

    # -- legality ---------------------------------------------------------------------------------

    def check(self, ops: Sequence[int], loose: Iterable[int] = ()) -> list[Schedule]:
        """Schedules of a candidate group; raises NotFusible. `loose`: views kept out of the fold for this check."""
        outside = set(loose)
        members = set(ops)
        outputs = self.outputs_of(members, outside)
        key = self.signature(ops, outputs, outside)
        known = self.cache.get(key)
        if known is None:
            try:
                operations = [self.ops[i] for i in members | (self.folded - outside)]
                region = build_region(operations, outputs, self.strict)
                known = choose_schedules(region)
                if known[0].is_pipeline and not self.pipelines:
                    raise NotFusible("vector work in front of a matmul, or two matmuls: pipelines are switched off")
                self.check_depth(region)
            except NotFusible as reason:
                known = str(reason)
            self.cache[key] = known
        if isinstance(known, str):
            raise NotFusible(known)
        return known

    def check_depth(self, region: Region) -> None:
        if self.max_depth is None:
            return
        depth: list[int] = []
        for node in region.nodes:
            below = max((depth[a] for a in node.args), default=0)
            depth.append(below + (node.kind in ("reduce", "contract")))
        if depth and max(depth) > self.max_depth:
            raise NotFusible(f"fusion depth {max(depth)} > max_fusion_depth {self.max_depth}")

    def signature(self, ops: Sequence[int], outputs: Sequence[SSAValue], outside: set[int]) -> tuple:
        """A key that is equal for structurally equal groups (repeated layers are analysed once)."""
        numbers: dict[SSAValue, int] = {}
        parts: list[object] = []

        def visit(value: SSAValue) -> None:
            if value in numbers:
                return
            owner = value.owner
            index = self.number.get(owner) if isinstance(owner, Operation) else None
            if isinstance(owner, ConstantOp) and owner.value.array.size == 1:
                parts.append((value.type, owner.value))
            elif index is not None and (index in members or (index in self.folded and index not in outside)):
                for operand in owner.operands:
                    visit(operand)
                parts.append((owner.name, tuple(owner.properties.items()), tuple(numbers[o] for o in owner.operands), value.type))
                for r in owner.results:
                    if r is not value:
                        numbers.setdefault(r, len(numbers))
            else:
                parts.append(value.type)
            numbers[value] = len(numbers)

        members = set(ops)
        for value in outputs:
            visit(value)
        parts.append(tuple(numbers[v] for v in outputs))
        return tuple(parts)

    def outputs_of(self, members: set[int], outside: set[int] | frozenset[int] = frozenset()) -> list[SSAValue]:
        """Results of members that something outside needs, directly or through folded views."""
        return [r for i in sorted(members) for r in self.ops[i].results if self.escapes(r, members, outside)]

    def escapes(self, value: SSAValue, members: set[int], outside: set[int] | frozenset[int]) -> bool:
        stack = [value]
        while stack:
            for use in stack.pop().uses:
                user = self.number[use.operation]
                if user in members:
                    continue
                if user in self.folded and user not in outside:
                    stack += self.ops[user].results
                    continue
                return True
        return False

    # -- the compute graph: ops joined through folded views ------------------------------------------

    def sources(self, number: int) -> Iterator[int]:
        """Ops whose results `number` reads, looking through folded views."""
        stack = list(self.ops[number].operands)
        seen: set[SSAValue] = set()
        while stack:
            value = stack.pop()
            if value in seen or not isinstance(value.owner, Operation):
                continue
            seen.add(value)
            i = self.number[value.owner]
            if i in self.folded:
                stack += value.owner.operands
            else:
                yield i

    def consumers(self, number: int) -> Iterator[int]:
        """Ops that read a result of `number`, looking through folded views."""
        stack = list(self.ops[number].results)
        seen: set[int] = set()
        while stack:
            for use in stack.pop().uses:
                i = self.number[use.operation]
                if i in seen:
                    continue
                seen.add(i)
                if i in self.folded:
                    stack += self.ops[i].results
                else:
                    yield i

    # -- steps ------------------------------------------------------------------------------------

    def run(self) -> FusionPlan:
        self.folded -= {v for v in self.folded if self.gathers(v) and not all(self.computes(c) for c in self.consumers(v))}
        for i, op in enumerate(self.ops):
            if i in self.meanings and i not in self.views and i not in self.host:
                self.seed(i)
        self.absorb_views()
        if self.autofuse:
            self.number_units()
            self.merge_edges()
        groups = sorted({id(g): g for g in self.group_of.values()}.values(), key=lambda g: g.ops[-1])
        plan = FusionPlan(groups, self.host, self.decisions, self.ops, self.folded)
        check_acyclic(plan)
        return plan

    def gathers(self, view: int) -> bool:
        """Does this view read through an index tensor? Then it is work, unlike a transpose of the caller's data."""
        meaning = self.meanings[view]
        return isinstance(meaning, View) and any(reads_in(e) for p in meaning.pieces for e in p.index)

    def computes(self, number: int) -> bool:
        return isinstance(self.meanings.get(number), Meaning) and number not in self.host

    def seed(self, number: int) -> None:
        """Make an op a group of its own, with views on its operands folded as far as the maps stay affine."""
        if not isinstance(self.meanings[number], Meaning):
            self.host[number] = getattr(self.meanings[number], "reason", "no iteration space")
            return
        try:
            self.group_of[number] = Group([number], self.check([number]))
            return
        except NotFusible as error:
            reason = str(error)
        for cut in self.cuts(number):
            try:
                self.group_of[number] = Group([number], self.check([number], cut))
            except NotFusible:
                continue
            self.folded -= cut
            return
        self.host[number] = reason

    def cuts(self, number: int) -> Iterator[set[int]]:
        """Views below `number` to store instead of fold: one (nearest the producer first), then all."""
        chain: list[int] = []
        stack = [o.owner for o in self.ops[number].operands]
        while stack:
            owner = stack.pop()
            if not isinstance(owner, Operation) or self.number[owner] not in self.folded:
                continue
            if self.number[owner] not in chain:
                chain.append(self.number[owner])
                stack += [o.owner for o in owner.operands]
        for view in reversed(chain):
            yield {view}
        if len(chain) > 1:
            yield set(chain)

    def absorb_views(self) -> None:
        """A view that must be stored is written by its producer if it can, else by a copy kernel, else on the host."""
        for view in sorted(self.views - self.folded):
            source = self.only_source(view)
            group = self.group_of.get(source) if source is not None else None
            if group is not None:
                try:
                    group.schedules = self.check([*group.ops, view])
                    group.ops.append(view)
                    self.group_of[view] = group
                    continue
                except NotFusible:
                    pass
            try:
                if isinstance(self.meanings[view], View) and self.meanings[view].is_simple:  # type: ignore[union-attr]
                    self.group_of[view] = Group([view], self.check([view]))
                    continue
                self.host[view] = "a piecewise view (pad or concat)"
            except NotFusible as error:
                self.host[view] = str(error)

    def only_source(self, view: int) -> int | None:
        """The single producer of a stored view, if nothing else reads what lies between."""
        value = self.ops[view].operands[0]
        while True:
            if not value.has_one_use() or not isinstance(value.owner, Operation):
                return None
            i = self.number[value.owner]
            if i not in self.folded:
                return i
            value = value.owner.operands[0]

    def merge_edges(self) -> None:
        """Join each op's group with its producers' groups, in block order, until nothing changes."""
        changed = True
        rounds = 0
        while changed and rounds < 3:
            changed = False
            rounds += 1
            for i in range(len(self.ops)):
                if i in self.group_of:
                    changed |= self.merge_into_producers(i, record=rounds == 1)

    def merge_into_producers(self, number: int, record: bool) -> bool:
        changed = False
        candidates = {id(self.group_of[s]): self.group_of[s] for s in self.sources(number) if s in self.group_of}
        ordered = sorted(candidates.values(), key=lambda g: (not g.schedules[0].is_cube, -g.ops[-1]))
        for producer in ordered:
            consumer = self.group_of[number]
            if producer is consumer or not producer.alive:
                continue
            labels = self.label(producer), self.label(consumer)
            reason = self.try_merge(producer, consumer)
            changed |= not reason
            if record or not reason:
                self.decisions.append(Decision(*labels, not reason, reason))
        return changed

    def try_merge(self, producer: Group, consumer: Group) -> str:
        """Merge two groups; returns "" or the binding constraint."""
        if len(producer.ops) + len(consumer.ops) > MAX_GROUP_OPS:
            return f"more than {MAX_GROUP_OPS} ops in one kernel"
        ops = sorted(producer.ops + consumer.ops)
        try:
            schedules = self.check(ops)
        except NotFusible as error:
            return str(error)
        after = self.descendants(producer, consumer)
        if isinstance(after, str):
            return after
        self.place(producer, consumer, after)
        producer.alive = False
        consumer.ops, consumer.schedules = ops, schedules
        for i in ops:
            self.group_of[i] = self.unit_of[i] = consumer
        return ""

    # -- order: every unit (group or single op) has a rank, a topological order kept up to date ----------

    def number_units(self) -> None:
        """Ranks in block order, valid because every group is still one op (and views that follow it)."""
        self.order: list[Group] = []
        self.unit_of: dict[int, Group] = {}
        for i in range(len(self.ops)):
            if i in self.folded or i in self.unit_of:
                continue
            unit = self.group_of.get(i) or Group([i], [])
            for j in unit.ops:
                self.unit_of[j] = unit
            self.order.append(unit)
        self.rank = {unit: r for r, unit in enumerate(self.order)}

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
                for c in self.consumers(op):
                    other = self.unit_of[c]
                    if other is consumer:
                        if unit is not producer:
                            return f"a path through {self.name(unit.ops[0])} leaves and re-enters the group"
                    elif other not in found and other is not producer and self.rank[other] < last:
                        found.add(other)
                        stack.append(other)
            if len(found) > MAX_WINDOW:
                return "too many ops between the two to prove that no path leaves and re-enters the group"
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

    def name(self, number: int) -> str:
        op = self.ops[number]
        return location_name(op) or op.name

    def label(self, group: Group) -> str:
        return " + ".join(self.name(i) for i in group.ops)


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

