# SPDX-License-Identifier: Apache-2.0
"""Which ops form a kernel: a search over edges; region and schedule say what is legal, cost what pays.

Views belong to whoever reads through them: a consumer folds them into its index maps, or, where the map would
not be affine, the producer stores its result already transposed. What can be neither runs alone. Every group
is convex, so the groups always have an order; `plan_fusion` asserts it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from gaf.config import FusionConfig
from gaf.dialects.graph.meaning import Meaning
from gaf.errors import InternalError
from gaf.fusion import names
from gaf.fusion.cost import CostModel, GroupCost, Work, region_work, sizes, total
from gaf.fusion.footprint import SUSPECT, Planner
from gaf.fusion.improve import improve
from gaf.fusion.macros import Macro, find_macros
from gaf.fusion.opgraph import OpGraph, is_constant
from gaf.fusion.plan import (
    MAX_GROUP_OPS,
    SLACK,
    Decision,
    FusionPlan,
    Group,
    Legal,
    Refusal,
    check_acyclic,
)
from gaf.fusion.pricer import Pricer
from gaf.fusion.refit import Apart, Failure, cut_failed
from gaf.fusion.region import Handed, NotFusible, Region
from gaf.fusion.residency import resident_values
from gaf.fusion.schedule import Schedule
from gaf.fusion.seeds import Seeds
from gaf.fusion.side_by_side import Memo, kernel_of
from gaf.fusion.stages import staged_schedules


def plan_fusion(
    block: Block,
    *,
    config: FusionConfig | None = None,
    autofuse: bool | None = None,
    max_depth: int | None = None,
    strict: bool | None = None,
    host: Mapping[int, str] | None = None,
    rules: bool = True,
    candidates: bool = True,
    failures: Sequence[Failure] = (),
    planner: Planner | None = None,
) -> FusionPlan:
    """Decide the kernels of a block of graph ops.

    `config` holds all options; `autofuse`, `max_depth` and `strict` override it. Ops in `host` (number ->
    reason) are left alone. `rules=False` ignores registered rules and ATB patterns; `candidates=False`
    doesn't describe what was found. `failures` are groups of an earlier plan that have no kernel. `planner` is asked
    about groups that may not fit the chip's memory; without one only generating them shows it. Raises
    InvalidInputError for a cost model or rule that fails (see `FusionConfig.rule_errors`).
    """
    config = config or FusionConfig()
    changed: dict[str, object] = {}
    if autofuse is not None:
        changed["enable_autofuse"] = autofuse
    if max_depth is not None:
        changed["max_fusion_depth"] = max_depth
    if strict is not None:
        changed["numerics"] = "strict" if strict else "fast"
    config = replace(config, **changed)  # type: ignore[arg-type]
    plan = Search(block, config, host or {}, rules, candidates, failures, planner).run()
    if config.groups is not None or failures:
        return plan
    others = []
    if config.objective == "time":
        # joins that pay only together (a matmul, its softmax and the next matmul) are found by their bytes
        others.append(replace(config, objective="traffic"))
    if config.strategy == "optimal":
        # that is exact in a cluster; the greedy search may join what lies in two
        others += [replace(c, strategy="greedy") for c in (config, *others)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rules have given theirs already
        plans = [plan, *(Search(block, c, host or {}, rules, candidates, (), planner).run() for c in others)]
    best = min(plans, key=lambda p: p.cost(config.objective))
    if best.report is not None and plan.report is not None:
        best.report.take_optimum(plan.report)
    return best


def model_of(config: FusionConfig) -> CostModel:
    """The cost model of a configuration, priced for its chip and budgets."""
    model = config.cost_model if isinstance(config.cost_model, CostModel) else CostModel(config.target)
    model.configure(
        config.target,
        matmul_precision=config.matmul_precision,
        core_budget=config.core_budget,
        l2_budget=config.l2_budget,
    )
    return model


STAGES_WORTH = 0.9
"""Modelled time of a kernel in stages over that without, from which on it is taken: both are estimates."""


class Search(Seeds):
    """One search over one block; `run` gives the plan."""

    def __init__(
        self,
        block: Block,
        config: FusionConfig,
        host: Mapping[int, str],
        rules: bool = True,
        candidates: bool = True,
        failures: Sequence[Failure] = (),
        planner: Planner | None = None,
    ) -> None:
        self.config = config
        self.planner = planner
        self.failures = failures
        self.strict = config.strict
        self.with_rules, self.with_candidates = rules, candidates
        self.env = sizes(config.symbols)
        self.model = model_of(config)
        self.pricer = Pricer(self.model, self.env)
        self.host: dict[int, str] = dict(host)
        self.graph = OpGraph(block, host)
        self.ops = self.graph.ops
        self.apart = Apart(self.ops)
        self.memo: Memo = {}
        self.group_of: dict[int, Group] = {}
        self.single: dict[int, Work] = {}
        self.decisions: list[Decision] = []
        self.notes: list[str] = []
        self.left_alone: list[tuple[str, list[int]]] = []
        self.refused: list[tuple[list[int], str, str]] = []
        self.rule_gains: dict[tuple[str, tuple[str, ...]], float] = {}
        self.alone: dict[int, Group] = {}
        self.cache: dict[tuple, Legal | Refusal] = {}
        self._macros: list[Macro] | None = None
        self._depths: dict[int, int] | None = None

    @property
    def macros(self) -> list[Macro]:
        """LayerNorm, Softmax, GELU... in any spelling; found when they are first asked for."""
        if self._macros is None:
            self._macros = find_macros(self.graph, self.env)
        return self._macros

    # -- legality and cost ------------------------------------------------------------------------

    def check(self, ops: Sequence[int], loose: Iterable[int] = ()) -> Legal:
        """Schedules and work of a candidate group; raises NotFusible. `loose`: views kept out of the fold for
        this check.
        """
        return self._check(ops, loose)[0]

    def _check(
        self, ops: Sequence[int], loose: Iterable[int] = ()
    ) -> tuple[Legal, list[SSAValue], list[SSAValue]]:
        outside = set(loose)
        members = set(ops)
        self.apart.check(members)
        outputs = self.graph.outputs_of(members, outside)
        key, external = self.graph.signature(members, outputs, outside)
        known = self.cache.get(key)
        if known is None:
            try:
                operations = [self.ops[i] for i in members | (self.folded - outside)]
                region, schedules, work, footprint = self.choose(operations, outputs)
                position = {v: i for i, v in enumerate(external)}
                inputs = tuple(position[v] for v in region.inputs if not isinstance(v, Handed))
                known = Legal(schedules, work, inputs, footprint)
            except NotFusible as reason:
                known = Refusal(str(reason), self.names_of(members, external))
            self.cache[key] = known
        if isinstance(known, Refusal):
            raise NotFusible(known.about(self.names_of(members, external)))
        if self.config.max_fusion_depth is not None:
            self.check_depth(members, self.config.max_fusion_depth)
        return known, external, outputs

    def names_of(self, members: set[int], external: Sequence[SSAValue]) -> tuple[str, ...]:
        """What a reason may name: the members, and the values from outside, in an order that equal groups share."""
        return (*(self.graph.name(i) for i in sorted(members)), *(v.name_hint or "" for v in external))

    def choose(
        self, operations: Sequence[Operation], outputs: Sequence[SSAValue]
    ) -> tuple[Region, list[Schedule], Work, int | None]:
        """The region of a group, its schedules, in stages if that is clearly cheaper, its work, and its bytes of UB if
        they are known. Raises NotFusible without a schedule that fits the chip.
        """
        region, found = kernel_of(operations, outputs, self.strict, memo=self.memo)
        work = region_work(region, found[0], self.env)
        forms = [(found, work)]
        if not found[0].stages:
            try:
                staged = staged_schedules(region)
            except NotFusible:
                staged = []
            if staged:
                other = region_work(region, staged[0], self.env)
                if self.model.price(other).us < STAGES_WORTH * self.model.price(work).us:
                    forms.insert(0, (staged, other))
        refusal: NotFusible | None = None
        for schedules, of_form in forms:
            try:
                return (region, *self.fitting(region, schedules, of_form))
            except NotFusible as reason:
                refusal = reason
        assert refusal is not None
        raise refusal

    def fitting(
        self, region: Region, schedules: list[Schedule], work: Work
    ) -> tuple[list[Schedule], Work, int | None]:
        """The schedules whose smallest tiles fit UB, the work of the first, and its bytes of UB if they are known.

        Raises NotFusible with the number that is too large if none fits.
        """
        if self.planner is None or not self._suspect(work):
            return schedules, work, None
        reasons = []
        for i, schedule in enumerate(schedules):
            found = self.planner(region, schedule, self.model.target)
            if found.reason:
                reasons.append(found.reason)
                continue
            if i > 0:
                work = region_work(region, schedule, self.env)
            return schedules[i:], work, found.bytes  # those behind it are for sizes that it doesn't take
        raise NotFusible("; ".join(dict.fromkeys(reasons)))

    def _suspect(self, work: Work) -> bool:
        """May the smallest tile be too large? Estimates are cheap, plans take milliseconds."""
        most = max(map(self.model.footprint, work.stages or (work,)))
        return most > SUSPECT * self.model.target.ub_usable_bytes

    def check_depth(self, members: set[int], most: int) -> None:
        """Contractions and reductions, a re-rolled one counting once, on the longest path inside a group."""
        if self._depths is None:
            self._depths = {
                i: int(isinstance(m, Meaning) and any(s.reduced for s in m.stages))
                for i, m in self.graph.meanings.items()
            }
            for macro in self.macros:
                if macro.name in ("LayerNorm", "RMSNorm", "Softmax", "LogSoftmax"):
                    self._depths.update({i: int(i == macro.last) for i in macro.ops})
        depth: dict[int, int] = {}
        for i in sorted(members):
            depth[i] = max(
                (depth[s] for s in self.graph.sources(i) if s in members), default=0
            ) + self._depths.get(i, 0)
        deepest = max(depth.values(), default=0)
        if deepest > most and len(members) > 1:
            raise NotFusible(f"fusion depth {deepest} > max_fusion_depth {most}")

    def build(self, ops: Sequence[int], loose: Iterable[int] = ()) -> Group:
        """A priced group of these ops; raises NotFusible."""
        legal, external, outputs = self._check(ops, loose)
        reads = [self.graph.root(external[i]) in self.resident for i in legal.inputs]
        writes = [v in self.resident for v in outputs]
        cost = self.pricer.group(
            [self.ops[i] for i in ops], [self.single.get(i) for i in ops], legal.work, reads, writes
        )
        if legal.footprint is not None:
            cost = replace(cost, footprint=legal.footprint)
        return Group(list(ops), legal, cost, cost.us)

    def leaf_us(self, ops: Iterable[int]) -> float:
        """Modelled time of ops as kernels of their own."""
        return sum(
            self.pricer.leaf(self.ops[i], self.single.get(i)) for i in ops if names.computes(self.ops[i])
        )

    # -- steps ------------------------------------------------------------------------------------

    def run(self) -> FusionPlan:
        graph = self.graph
        self.folded.difference_update(
            {
                v
                for v in self.folded
                if (graph.gathers(v) or graph.is_piecewise(v))
                and not all(self.computes(c) for c in graph.consumers(v))
            }
        )
        copies = {v for v in self.folded if self.copies_input(v)}
        self.folded.difference_update(copies)
        if self.with_rules and self.config.atb == "prefer":
            from gaf.fusion.atb import leave_to_atb

            leave_to_atb(self)
        self.resident = resident_values(graph, self.env, self.model.l2_bytes * self.model.rates.l2_fraction)
        for i, op in enumerate(self.ops):
            if i in graph.meanings and i not in graph.views and i not in self.host:
                self.seed(i)
        self.absorb_views(copies)
        self.number_units()
        copies = {id(g): replace(g) for g in self.group_of.values()}  # groups change when they are joined
        self.alone = {i: copies[id(g)] for i, g in self.group_of.items()}
        cut_failed(self, self.failures)
        if self.with_rules:
            from gaf.fusion.forced import apply_rules

            apply_rules(self)
        report = None
        if self.config.groups is not None:
            self.join_given(self.config.groups)
        elif self.config.enable_autofuse and self.config.strategy != "none":
            if self.config.strategy == "optimal":
                from gaf.fusion.exact import fuse_clusters

                report = fuse_clusters(self)
            self.merge_edges()
            if improve(self):
                self.merge_edges()
            self.apply_threshold()
        plan = FusionPlan(
            self.groups(),
            self.host,
            self.decisions,
            self.ops,
            self.folded,
            left_alone=self.left_alone,
            notes=self.notes,
        )
        check_acyclic(plan)
        if self.with_candidates:
            from gaf.fusion.candidates import find_candidates
            from gaf.fusion.exact import judge

            plan.candidates = find_candidates(self, plan.groups)
            plan.report = judge(self, plan.groups, report)
        return plan

    def groups(self) -> list[Group]:
        return sorted({id(g): g for g in self.group_of.values()}.values(), key=lambda g: g.ops[-1])

    # -- joining ----------------------------------------------------------------------------------

    def join_given(self, groups: Sequence[Sequence[str]]) -> None:
        """Join nodes by name; what isn't legal stays apart with the reason."""
        by_name: dict[str, list[int]] = {}
        for i in self.group_of:
            by_name.setdefault(self.graph.name(i), []).append(i)
        for wanted in groups:
            ops = sorted({j for n in wanted for i in by_name.get(n, ()) for j in self.alone[i].ops})
            units = list({id(self.unit_of[i]): self.unit_of[i] for i in ops}.values())
            if len(units) < 2:
                continue
            before = total([u.cost for u in units if u.cost is not None])
            nodes, merged = tuple(self.graph.name(i) for i in ops), None
            try:
                merged = self.build(ops)
                reason = (
                    self.fuse_set(ops, merged)
                    if {i for u in units for i in u.ops} == set(ops)
                    else "a node is in two groups"
                )
            except NotFusible as error:
                reason = str(error)
            self.decide(nodes, (), reason, before, merged)

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
        """Join the group of an op with those that feed it, matmuls first, until nothing more can be joined.

        What was refused may be legal once another producer is in: the result of a matmul that two members of the
        group read stays inside only then.
        """
        changed, progress = False, True
        while progress:
            progress = False
            sources = (self.group_of[s] for s in self.graph.sources(number) if s in self.group_of)
            for producer in sorted(
                {id(g): g for g in sources}.values(), key=lambda g: (not g.schedules[0].is_cube, -g.ops[-1])
            ):
                consumer = self.group_of[number]
                if producer is consumer or not producer.alive:
                    continue
                sides = self.nodes(producer), self.nodes(consumer)
                before = total([c for c in (producer.cost, consumer.cost) if c is not None])
                reason, merged = self.try_merge(producer, consumer)
                progress |= not reason
                if record or not reason:
                    self.decide(*sides, reason, before, merged)
            changed |= progress
        return changed

    def decide(
        self, producer: tuple[str, ...], consumer: tuple[str, ...], reason: str, before: GroupCost | None,
        merged: Group | None, rule: str = "",
    ) -> None:  # fmt: skip
        """Record an answer."""
        self.decisions.append(
            Decision(
                producer,
                consumer,
                not reason,
                reason,
                merged.kind if merged is not None else "",
                before,
                merged.cost if merged is not None else None,
                self.model.target.ub_usable_bytes,
                rule,
            )  # fmt: skip
        )

    def try_merge(self, producer: Group, consumer: Group) -> tuple[str, Group | None]:
        """Merge two groups; returns "" or the binding constraint, and the joined group if there is one."""
        if len(producer.ops) + len(consumer.ops) > MAX_GROUP_OPS:
            return f"{len(producer.ops) + len(consumer.ops)} ops in one kernel > {MAX_GROUP_OPS}", None
        try:
            merged = self.build(sorted(producer.ops + consumer.ops))
        except NotFusible as error:
            return str(error), None
        reason = self.worth([producer, consumer], merged) or self.join(producer, consumer)
        if reason:
            return reason, merged
        self.adopt(consumer, merged, producer)
        return "", merged

    def adopt(self, group: Group, merged: Group, *parts: Group) -> None:
        """`group`, already in its place in the order, becomes the joined one."""
        group.best_us = min(merged.best_us, group.best_us + sum(p.best_us for p in parts))
        group.ops, group.legal, group.cost = merged.ops, merged.legal, merged.cost
        for part in parts:
            group.label, group.rule = group.label or part.label, group.rule or part.rule
        for i in merged.ops:
            self.group_of[i] = self.unit_of[i] = group

    def worth(self, parts: Sequence[Group], merged: Group) -> str:
        """ "" if one kernel is better than its parts under the objective, else why not, with the numbers."""
        assert merged.cost is not None
        apart = total([p.cost for p in parts if p.cost is not None])
        if self.config.objective == "time":
            if merged.cost.us >= apart.us:
                limit = merged.cost.limit
                return f"one kernel is modelled {merged.cost.us:.1f} µs ({limit}), apart {apart.us:.1f} µs"
            return ""
        if merged.cost.hbm_bytes > apart.hbm_bytes:
            return f"one kernel moves {merged.cost.hbm_bytes / 1e6:.2f} MB, apart {apart.hbm_bytes / 1e6:.2f} MB"
        best = sum(p.best_us for p in parts)
        if merged.cost.us > (1 + SLACK) * best:
            busy = (
                f", {merged.cost.blocks} blocks on {self.model.aic} cube cores"
                if merged.schedules[0].is_cube
                else ""
            )
            return (
                f"one kernel is modelled {merged.cost.us:.1f} µs ({merged.cost.limit}{busy}), "
                f"apart {best:.1f} µs: more than {100 * SLACK:.0f} % slower"
            )
        return ""

    def apply_threshold(self) -> None:
        """Groups that save less than `cost_threshold` of their members' time become single kernels again."""
        threshold = self.config.cost_threshold
        if not threshold:
            return
        for group in self.groups():
            if (
                group.rule is not None
                or group.cost is None
                or sum(names.computes(self.ops[i]) for i in group.ops) < 2
            ):
                continue
            alone = self.leaf_us(group.ops)
            gain = 1 - (group.cost.us + self.jit_us(group.cost)) / alone if alone else 0.0
            if gain >= threshold:
                continue
            reason = f"gain {100 * gain:.1f} % < cost_threshold {100 * threshold:g} %"
            self.refused.append((list(group.ops), reason, ""))
            before = total([g.cost for g in self.split(group.ops) if g.cost is not None])
            self.decide(self.nodes(group), (), reason, before, group)

    def split(self, ops: Sequence[int]) -> list[Group]:
        """Put the ops of a group back into the groups that they started as."""
        result: list[Group] = []
        done: set[int] = set()
        for i in sorted(ops):
            if i in done:
                continue
            mates = [j for j in ops if self.alone[j] is self.alone[i]]
            fresh = self.build(sorted(mates, key=lambda j: (j in self.graph.views, j)))
            done.update(mates)
            result.append(fresh)
            for j in mates:
                self.group_of[j] = fresh
        return result

    def jit_us(self, cost: GroupCost) -> float:
        """The part of a kernel's build time that one run bears, in µs; 0 for kernels that are built ahead of
        time.
        """
        return 1e6 * cost.jit_s / self.model.expected_runs if self.model.expected_runs else 0.0

    # -- several groups at a time -------------------------------------------------------------------

    def fuse_set(self, ops: Sequence[int], merged: Group) -> str:
        """Make one group of whole groups whose ops are `ops`; returns "" or why not."""
        reason = self.convex(ops)
        if reason:
            return reason
        units = sorted({self.unit_of[i] for i in ops}, key=lambda u: self.rank[u])
        current = units[0]
        for unit in units[1:]:
            reason = self.join(current, unit)
            if reason:
                raise InternalError(f"a convex set of ops has no place in the order: {reason}")
            best = current.best_us + unit.best_us
            unit.ops = sorted(current.ops + unit.ops)
            for i in unit.ops:
                self.group_of[i] = self.unit_of[i] = unit
            unit.best_us = best
            current = unit
        self.adopt(current, merged)
        current.best_us = min(current.best_us, merged.best_us)
        return ""

    # -- names ------------------------------------------------------------------------------------

    def nodes(self, group: Group) -> tuple[str, ...]:
        return tuple(self.graph.name(i) for i in group.ops)

    def titles(self, ops: Iterable[int]) -> list[str]:
        """What people call the computing ops of a group, a macro counting as one."""
        wanted = set(ops)
        inside: dict[int, Macro] = {}
        for macro in self.macros:
            if len(macro.ops) > 1 and macro.name not in ("Linear", "Gate") and macro.ops <= wanted:
                for i in macro.ops:
                    inside.setdefault(i, macro)
        found: list[str] = []
        for i in sorted(wanted):
            macro = inside.get(i)
            if macro is not None:
                if i == min(macro.ops):
                    found.append(macro.name)
            elif names.computes(self.ops[i]) or (i in self.graph.views and self.graph.gathers(i)):
                found.append(names.op_title(self.ops[i]))
        return found


__all__ = [
    "Decision",
    "FusionPlan",
    "Group",
    "Legal",
    "Search",
    "check_acyclic",
    "is_constant",
    "model_of",
    "plan_fusion",
]
