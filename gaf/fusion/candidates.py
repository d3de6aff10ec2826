# SPDX-License-Identifier: Apache-2.0
"""Candidates: what joining a group of ops gains, split into memory, launches, latency and build time, and
why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gaf.fusion import names
from gaf.fusion.cost import GroupCost, OpView, total
from gaf.fusion.rules import Subgraph

if TYPE_CHECKING:
    from gaf.fusion.search import Group, Search

HIGH, MEDIUM = 30, 10
"""Percent of the members' time from which a candidate's priority is high or medium."""


@dataclass(frozen=True)
class Candidate:
    """A group of ops that fusion joined, or looked at and left apart.

    `gain` is the percent of the members' unfused modelled time that one kernel saves; a rule may set its own.
    `memory_gain`, `launch_gain` and `latency_gain` are its parts in percentage points (bytes moved; starts of
    kernels; the rest: overlap, cores left idle), `jit_gain` what build time takes away when it is spread over
    runs. `jit_cost` is in seconds. `why` says what decided, with its number.
    """

    subgraph: Subgraph
    kind: str
    gain: int
    memory_gain: float
    launch_gain: float
    latency_gain: float
    jit_gain: float
    jit_cost: float
    priority: str
    why: str
    fused: bool
    footprint: int = 0
    footprint_limit: int = 0
    rule: str = ""

    @property
    def members(self) -> list[str]:
        """Model nodes."""
        return self.subgraph.members

    @property
    def before(self) -> GroupCost:
        return self.subgraph.before

    @property
    def after(self) -> GroupCost:
        return self.subgraph.after

    def to_json(self) -> dict[str, Any]:
        """Plain data, the same for the same model and options."""
        return {
            "subgraph": str(self.subgraph),
            "members": self.members,
            "kind": self.kind,
            "fused": self.fused,
            "gain": self.gain,
            "memory_gain": round(self.memory_gain, 2),
            "launch_gain": round(self.launch_gain, 2),
            "latency_gain": round(self.latency_gain, 2),
            "jit_gain": round(self.jit_gain, 2),
            "jit_cost": round(self.jit_cost, 3),
            "priority": self.priority,
            "why": self.why,
            "rule": self.rule,
            "kernels_before": self.before.launches,
            "kernels_after": self.after.launches,
            "bytes_before": self.before.hbm_bytes,
            "bytes_after": self.after.hbm_bytes,
            "us_before": round(self.before.us, 3),
            "us_after": round(self.after.us, 3),
            "footprint": self.footprint,
            "footprint_limit": self.footprint_limit,
            "limit": self.after.limit,
        }


def subgraph_of(search: Search, ops: Sequence[int], after: GroupCost) -> Subgraph:
    """What a rule or a reader sees of a group of op numbers."""
    compute = [i for i in ops if names.computes(search.ops[i])] or list(ops)
    views = tuple(OpView(search.ops[i], search.env, search.single.get(i)).freeze() for i in compute)
    costs = [search.alone[i].cost for i in dict.fromkeys(compute) if i in search.alone]
    before = total([c for c in costs if c is not None])
    leaf_us = search.leaf_us(compute)
    if leaf_us:
        before = replace(before, us=leaf_us)
    return Subgraph(views, tuple(search.titles(ops)), before, after)


def find_candidates(search: Search, groups: Sequence[Group]) -> list[Candidate]:
    """Groups of two computing ops or more, and those that were refused for what they cost; sorted by gain."""
    found = [
        candidate_of(search, g.ops, g, "", g.rule or "")
        for g in groups
        if sum(names.computes(search.ops[i]) for i in g.ops) > 1
    ]
    for ops, reason, rule in search.refused:
        try:
            group = search.build(ops)
        except Exception:
            continue
        found.append(candidate_of(search, ops, group, reason, rule))
    return sorted(found, key=lambda c: (-c.gain, not c.fused, c.members))


def candidate_of(
    search: Search, ops: Sequence[int], group: Group, refused: str, rule: str, gain: float | None = None
) -> Candidate:
    """One candidate; `refused` is the reason why it isn't fused, `gain` what a rule says (0..1)."""
    assert group.cost is not None
    subgraph = subgraph_of(search, ops, group.cost)
    before, after = subgraph.before, subgraph.after
    whole = before.us or 1.0
    jit = search.jit_us(after)
    memory = 100 * (before.memory_us - after.memory_us) / whole
    launch = 100 * (before.launch_us - after.launch_us) / whole
    modelled = 100 * (before.us - after.us - jit) / whole
    percent = round(100 * gain) if gain is not None else round(modelled)
    return Candidate(
        subgraph,
        group.kind,
        percent,
        memory,
        launch,
        100 * (before.us - after.us) / whole - memory - launch,
        -100 * jit / whole,
        after.jit_s,
        "high" if percent >= HIGH else "medium" if percent >= MEDIUM else "low",
        refused or _why(before, after),
        not refused,
        after.footprint,
        search.model.target.ub_usable_bytes,
        rule,
    )


def _why(before: GroupCost, after: GroupCost) -> str:
    parts = []
    if before.hbm_bytes > after.hbm_bytes:
        parts.append(f"{(before.hbm_bytes - after.hbm_bytes) / 1e6:.3g} MB less HBM traffic")
    if before.launches > after.launches:
        parts.append(f"{before.launches - after.launches} fewer launches")
    saved = " and ".join(parts) or "nothing saved"
    return f"{saved}: {before.us:.1f} -> {after.us:.1f} µs, bound by {after.limit}"
