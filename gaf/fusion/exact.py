# SPDX-License-Identifier: Apache-2.0
"""Exact search on small clusters, and how far a plan is from the best: cost, lower bound, gap.

A cluster is a set of ops connected by edges whose two ends could share a kernel. Elementwise ops with one
consumer are contracted into it first; then a dynamic program over downsets tries every connected, closed set
as the next kernel. It is exact over the contracted ops and over sets that are connected by data flow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from gaf.fusion import names
from gaf.fusion.opgraph import is_constant
from gaf.fusion.plan import MAX_GROUP_OPS, SLACK
from gaf.fusion.region import NotFusible
from gaf.fusion.work import value_bytes

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from gaf.fusion.search import Group, Search

MAX_UNITS = 14
"""Contracted ops of a cluster that the exact search takes."""

FAN_OUT = 8
"""A value with more readers than this ends a cluster: joining one of them saves little."""

MAX_SETS = 6000
"""Candidate groups that one cluster may price before it is left to the greedy search."""

Cost = tuple[float, ...]


@dataclass
class SearchReport:
    """How good a plan is. Times in µs, sizes in bytes; `clusters` is 0 if no exact search was asked for.

    `cost_us` is the modelled time of the plan, `lower_bound_us` what no plan of these ops can beat:
    compulsory bytes of the model at full bandwidth, or its products at the cube's peak, and one launch.
    `gap_pct` compares the plan with the exact optimum on clusters where that is known (`exact_clusters`), and
    with the bound elsewhere.
    """

    strategy: str
    objective: str
    kernels: int = 0
    hbm_bytes: int = 0
    l2_bytes: int = 0
    compulsory_bytes: int = 0
    cost_us: float = 0.0
    lower_bound_us: float = 0.0
    clusters: int = 0
    exact_clusters: int = 0
    optimum_us: float = 0.0
    """Exact optimum of the clusters where it is known, the lower bound of the others."""
    seconds: float = 0.0
    optimal_groups: dict[tuple[int, ...], list[list[int]]] = field(default_factory=dict, repr=False)

    @property
    def gap_pct(self) -> float:
        """Percent that the plan costs more than `optimum_us`."""
        return 100 * max(0.0, self.cost_us / self.optimum_us - 1) if self.optimum_us else 0.0

    def take_optimum(self, other: SearchReport) -> None:
        """Adopt what another search of the same graph found out about the optimum."""
        self.strategy, self.objective = other.strategy, other.objective
        self.clusters, self.exact_clusters = other.clusters, other.exact_clusters
        self.optimum_us = min(other.optimum_us, self.cost_us)

    def to_json(self) -> dict[str, Any]:
        """Plain data without times of this run."""
        return {
            "strategy": self.strategy,
            "objective": self.objective,
            "kernels": self.kernels,
            "hbm_bytes": self.hbm_bytes,
            "l2_bytes": self.l2_bytes,
            "compulsory_bytes": self.compulsory_bytes,
            "cost_us": round(self.cost_us, 3),
            "lower_bound_us": round(self.lower_bound_us, 3),
            "clusters": self.clusters,
            "exact_clusters": self.exact_clusters,
            "gap_pct": round(self.gap_pct, 2),
        }


# -- clusters ---------------------------------------------------------------------------------------


def clusters_of(search: Search) -> list[list[int]]:
    """Sets of ops connected by edges whose two ends could share a kernel, each in block order."""
    parent: dict[int, int] = {}

    def find(i: int) -> int:
        while parent.setdefault(i, i) != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i in sorted(search.alone):
        find(min(search.alone[i].ops))
        for s in search.graph.sources(i):
            if (
                s not in search.alone
                or search.alone[s] is search.alone[i]
                or len(set(search.graph.consumers(s))) > FAN_OUT
            ):
                continue
            if _pair(search, s, i):
                a, b = find(min(search.alone[s].ops)), find(min(search.alone[i].ops))
                parent[max(a, b)] = min(a, b)
    found: dict[int, list[int]] = {}
    for i in sorted(search.alone):
        found.setdefault(find(min(search.alone[i].ops)), []).append(i)
    return list(found.values())


def _pair(search: Search, a: int, b: int) -> bool:
    both = sorted({*search.alone[a].ops, *search.alone[b].ops})
    try:
        search.check(both)
    except NotFusible:
        return False
    return not search.convex(both)


def contract(search: Search, cluster: Sequence[int]) -> list[list[int]]:
    """Units of a cluster: elementwise ops join their only consumer where that is legal; in an order of the
    data flow.
    """
    inside = set(cluster)
    unit: dict[int, list[int]] = {}
    for i in cluster:
        unit.setdefault(i, unit.get(i) or [i])
    first: dict[int, int] = {i: min(search.alone[i].ops) for i in cluster}
    root = {i: first[i] for i in cluster}

    def find(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    members: dict[int, list[int]] = {}
    for i in cluster:
        members.setdefault(find(i), []).append(i)
    for i in sorted(cluster, reverse=True):
        meaning = search.graph.meaning(i)
        if meaning is None or not meaning.is_elementwise:
            continue
        users = {find(c) if c in inside else -1 for c in search.graph.consumers(i)} - {find(i)}
        if len(users) != 1 or -1 in users:
            continue
        (target,) = users
        if any(search.alone[j].schedules[0].is_cube for j in members[target]):
            continue
        joined = sorted({*members[find(i)], *members[target]})
        try:
            search.check(joined)
        except NotFusible:
            continue
        mine = find(i)
        low, high = min(mine, target), max(mine, target)
        root[high] = low
        members[low] = joined
        del members[high]
    return _ordered(search, list(members.values()))


def _ordered(search: Search, units: list[list[int]]) -> list[list[int]]:
    """Units sorted so that producers come first."""
    of = {i: k for k, u in enumerate(units) for i in u}
    before = [
        {of[s] for i in u for s in search.graph.sources(i) if s in of} - {k} for k, u in enumerate(units)
    ]
    done: list[int] = []
    left = set(range(len(units)))
    while left:
        ready = [k for k in sorted(left, key=lambda k: units[k][0]) if before[k] <= set(done)]
        if not ready:
            return sorted(units)  # contraction made a cycle: the caller sees that no set is closed
        done.append(ready[0])
        left.discard(ready[0])
    return [units[k] for k in done]


# -- the dynamic program ------------------------------------------------------------------------------


def best_partition(
    needs: Sequence[int], price: Callable[[int], Cost | None], max_sets: int = MAX_SETS
) -> tuple[Cost, list[int]] | None:
    """The cheapest partition of nodes 0..n-1 into groups with an order; None if too many groups would be
    priced.

    `needs[i]` is the bit set of direct predecessors of i; `price(mask)` the additive cost of a group, None if
    it is illegal. Costs compare like tuples.
    """
    count = len(needs)
    full = (1 << count) - 1
    users = [0] * count
    for i, mask in enumerate(needs):
        for j in range(count):
            if mask >> j & 1:
                users[j] |= 1 << i
    prices: dict[int, Cost | None] = {}
    memo: dict[int, tuple[Cost, list[int]] | None] = {full: ((), [])}

    def closed(mask: int, done: int) -> int:
        """`mask` with all missing predecessors."""
        stack = mask
        while stack:
            i = (stack & -stack).bit_length() - 1
            stack &= stack - 1
            missing = needs[i] & ~done & ~mask
            mask |= missing
            stack |= missing
        return mask

    def sets(done: int) -> list[int]:
        found: dict[int, None] = {}
        stack = [closed(1 << i, done) for i in range(count) if not done >> i & 1 and not needs[i] & ~done]
        while stack:
            mask = stack.pop()
            if mask in found:
                continue
            found[mask] = None
            if len(found) + len(prices) > 4 * max_sets:
                return []
            around = 0
            for i in range(count):
                if mask >> i & 1:
                    around |= users[i]
            around &= ~mask & ~done
            while around:
                low = around & -around
                around ^= low
                stack.append(closed(mask | low, done))
        return list(found)

    def solve(done: int) -> tuple[Cost, list[int]] | None:
        if done in memo:
            return memo[done]
        best: tuple[Cost, list[int]] | None = None
        options = sets(done)
        for mask in options:
            if mask not in prices:
                if len(prices) >= max_sets:
                    raise OverflowError
                prices[mask] = price(mask)
            own = prices[mask]
            if own is None:
                continue
            rest = solve(done | mask)
            if rest is None:
                continue
            whole = tuple(a + b for a, b in zip(own, rest[0])) if rest[0] else own
            if best is None or whole < best[0]:
                best = (whole, [mask, *rest[1]])
        if not options:
            raise OverflowError
        memo[done] = best
        return best

    try:
        return solve(0)
    except (OverflowError, RecursionError):
        return None


def solve_cluster(search: Search, cluster: Sequence[int]) -> tuple[list[list[int]], float] | None:
    """The best groups of a cluster and their modelled time; None if it is too big for the exact search."""
    units = contract(search, cluster)
    if len(units) > MAX_UNITS:
        return None
    of = {i: k for k, u in enumerate(units) for i in u}
    needs = [0] * len(units)
    for k, unit in enumerate(units):
        for i in unit:
            for s in search.graph.sources(i):
                if s in of and of[s] != k:
                    needs[k] |= 1 << of[s]
    times: dict[int, float] = {}
    alone: dict[int, float] = {}

    def ops_of(mask: int) -> list[int]:
        return sorted(i for k, u in enumerate(units) if mask >> k & 1 for i in u)

    def price(mask: int) -> Cost | None:
        ops = ops_of(mask)
        if len(ops) > MAX_GROUP_OPS:
            return None
        try:
            group = search.build(ops)
        except NotFusible:
            return None
        if search.convex(ops):
            return None
        assert group.cost is not None
        times[mask] = group.cost.us
        single = mask & (mask - 1) == 0
        if single:
            alone[mask] = group.cost.us
        if search.config.objective == "time":
            return (group.cost.us, float(group.cost.hbm_bytes))
        if not single:
            apart = 0.0
            for k in range(len(units)):
                if mask >> k & 1:
                    if 1 << k not in alone:
                        price(1 << k)
                    apart += alone.get(1 << k, 0.0)
            if group.cost.us > (1 + SLACK) * apart:
                return None
        return (float(group.cost.hbm_bytes), 1.0, group.cost.us)

    found = best_partition(needs, price)
    if found is None:
        return None
    return [ops_of(m) for m in found[1]], sum(times[m] for m in found[1])


def fuse_clusters(search: Search) -> SearchReport:
    """Apply the exact solution of every cluster that is small enough; equal clusters are solved once."""
    start = time.perf_counter()
    report = SearchReport("optimal", search.config.objective)
    for cluster in clusters_of(search):
        report.clusters += 1
        exact = report.exact_clusters
        solution = _solved(search, cluster, report)
        if report.exact_clusters == exact:
            report.optimum_us += _cluster_bound(search, cluster)
        if solution is None:
            continue
        for ops in solution:
            units = {search.unit_of[i] for i in ops}
            if len(units) < 2 or any(set(u.ops) - set(ops) for u in units):
                continue
            group = search.build(ops)
            sides = tuple(search.graph.name(i) for i in ops)
            from gaf.fusion.cost import total

            before = total([u.cost for u in sorted(units, key=lambda u: u.ops[0]) if u.cost is not None])
            reason = search.fuse_set(ops, group)
            search.decide(sides, (), reason, before, group)
    report.seconds = time.perf_counter() - start
    return report


def _solved(search: Search, cluster: Sequence[int], report: SearchReport) -> list[list[int]] | None:
    """The solution of a cluster, by its structure; counts what is exact."""
    if len(cluster) < 2:
        report.exact_clusters += 1
        cost = search.alone[cluster[0]].cost
        report.optimum_us += cost.us if cost is not None else 0.0
        return None
    position = {i: k for k, i in enumerate(cluster)}
    key = _key(search, cluster, position)
    if key not in report.optimal_groups:
        found = solve_cluster(search, cluster)
        report.optimal_groups[key] = [[position[i] for i in g] for g in found[0]] if found is not None else []
        report.optimal_groups[("us", *key)] = [[found[1]]] if found is not None else []  # type: ignore[list-item]
    relative = report.optimal_groups[key]
    if not relative:
        return None
    report.exact_clusters += 1
    report.optimum_us += report.optimal_groups[("us", *key)][0][0]  # type: ignore[index]
    return [[cluster[k] for k in g] for g in relative]


def _key(search: Search, cluster: Sequence[int], position: dict[int, int]) -> tuple:
    """Equal for clusters with the same ops, edges, places in L2 and outside uses, in the same order."""
    outside: dict[SSAValue, int] = {}
    parts: list[object] = []
    for i in cluster:
        op = search.ops[i]
        signature, external = search.graph.signature({i}, list(op.results))
        ends = []
        for value in external:
            owner = search.graph.number.get(value.owner) if not isinstance(value.owner, type(None)) else None  # type: ignore[arg-type]
            where: object = position.get(owner) if owner is not None else None
            ends.append(
                where
                if where is not None
                else ("x", outside.setdefault(value, len(outside)), value in search.resident)
            )
        users = tuple(sorted(position.get(c, -1) for c in search.graph.consumers(i)))
        parts.append((signature, tuple(ends), users, tuple(r in search.resident for r in op.results)))
    return tuple(parts)


# -- judging a plan -----------------------------------------------------------------------------------


def judge(search: Search, groups: Sequence[Group], exact: SearchReport | None) -> SearchReport:
    """Cost of a plan and its distance from the lower bound, or from the exact optimum where that is known."""
    report = SearchReport(search.config.strategy, search.config.objective)
    costs = [g.cost for g in groups if g.cost is not None]
    report.kernels = len(groups)
    report.cost_us = sum(c.us for c in costs)
    report.hbm_bytes = sum(c.hbm_bytes for c in costs)
    report.l2_bytes = sum(c.l2_bytes for c in costs)
    bound = _bound(search)
    report.compulsory_bytes, report.lower_bound_us = bound
    report.optimum_us = report.lower_bound_us
    if exact is not None:
        report.seconds, report.exact_clusters = exact.seconds, exact.exact_clusters
        report.clusters = exact.clusters
        report.optimum_us = exact.optimum_us
    return report


def _cluster_bound(search: Search, cluster: Sequence[int]) -> float:
    """No kernels of a cluster are faster: its outside operands and results once, its products, one launch."""
    inside = set(cluster)
    macs: dict[str, int] = {}
    moved: dict[SSAValue, int] = {}
    for i in cluster:
        group = search.alone[i]
        if i != group.ops[0] or group.legal is None:
            continue
        work = group.legal.work
        for m in work.matmuls:
            macs[m.dtype] = macs.get(m.dtype, 0) + work.grid * m.rows * m.columns * m.summed
        outputs = search.graph.outputs_of(set(group.ops))
        outside = search.graph.signature(set(group.ops), outputs)[1]
        for place, size in zip(group.legal.inputs, work.reads):
            value = outside[place] if place < len(outside) else None
            if value is not None and search.graph.number.get(search.graph.root(value).owner) not in inside:  # type: ignore[arg-type]
                moved[value] = min(size, moved.get(value, size))
        for value, size in zip(outputs, work.writes):
            if any(search.graph.number[u.operation] not in inside for u in value.uses):
                moved[value] = size
    resident = sum(size for value, size in moved.items() if search.graph.root(value) in search.resident)
    return search.model.lower_bound_us(sum(moved.values()) - resident, macs)


def _bound(search: Search) -> tuple[int, float]:
    """(compulsory bytes, lower bound in µs): operands of the whole model once, one launch."""
    inputs: dict[SSAValue, None] = {}
    outputs: dict[SSAValue, None] = {}
    macs: dict[str, int] = {}
    for i, op in enumerate(search.ops):
        if not op.results:
            outputs.update(dict.fromkeys(op.operands))
            continue
        if is_constant(op) or i in search.folded:
            continue
        group = search.alone.get(i)
        if group is not None and i == group.ops[0] and group.legal is not None:
            for m in group.legal.work.matmuls:
                macs[m.dtype] = macs.get(m.dtype, 0) + group.legal.work.grid * m.rows * m.columns * m.summed
        for operand in op.operands:
            value = search.graph.root(operand)
            given = not isinstance(value.owner, Operation) or is_constant(value.owner)
            if given and not names.is_scalar_constant(value):
                inputs[value] = None
    single: dict[SSAValue, int] = {}
    for group in search.alone.values():
        if group.legal is None:
            continue
        outside = search.graph.signature(set(group.ops), search.graph.outputs_of(set(group.ops)))[1]
        for place, size in zip(group.legal.inputs, group.legal.work.reads):
            if place < len(outside):
                value = outside[place]
                single[value] = single.get(value, 0) + size
    read = sum(min(value_bytes(v, search.env), single.get(v, 1 << 62)) for v in inputs)
    written = sum(value_bytes(v, search.env) for v in outputs)
    return read + written, search.model.lower_bound_us(read + written, macs, 1 if search.alone else 0)
