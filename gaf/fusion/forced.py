# SPDX-License-Identifier: Apache-2.0
"""Applies registered rules: matches become groups if they are legal and their gain is high enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gaf.errors import InvalidInputError
from gaf.fusion import names
from gaf.fusion.candidates import subgraph_of
from gaf.fusion.cost import OpView, total
from gaf.fusion.patterns import Match, Matcher
from gaf.fusion.region import NotFusible
from gaf.fusion.rules import FusionRule, generated, registered_rules, rule_gain, warn

if TYPE_CHECKING:
    from gaf.fusion.search import Group, Search


@dataclass
class _Proposal:
    rule: FusionRule
    ops: list[int]
    group: Group
    gain: float
    label: str | None


def apply_rules(search: Search) -> None:
    """Join what the rules of the user match, best gain first; refusals are decisions like all others."""
    rules = [r for r in registered_rules() if r.title not in search.config.disabled_rules]
    if not rules:
        return
    matcher = Matcher(search.graph, search.macros)
    proposals: list[_Proposal] = []
    for rule in rules:
        slots = rule.slots()
        for slot in slots:
            if not slot.optional and not matcher.knows(slot):
                search.notes.append(f"rule '{rule.title}': the model has no {' or '.join(slot.names)}{_nearest(search, slot.names)}")
        for match in matcher.matches(slots):
            try:
                proposal = _propose(search, rule, match)
            except InvalidInputError as error:
                if search.config.rule_errors == "raise":
                    raise
                warn(str(error))
                search.notes.append(str(error))
                _refuse(search, match.ops, str(error), rule, None)
                continue
            if proposal is not None:
                proposals.append(proposal)
    for p in sorted(
        proposals, key=lambda p: -p.gain
    ):  # stable: the order of rules and of the block decides ties
        _apply(search, p)


def _nearest(search: Search, wanted: Sequence[str]) -> str:
    """A hint for names that nobody knows: the most similar one that the model or gaf has."""
    known = {names.plain(n): n for op in search.ops for n in (names.op_type(op), names.op_title(op))} | names.known_names()
    for name in wanted:
        near = get_close_matches(names.plain(name), known, n=1, cutoff=0.7)
        if names.plain(name) not in known and near:
            return f"; did you mean {known[near[0]]}?"
    return ""


def _propose(search: Search, rule: FusionRule, match: Match) -> _Proposal | None:
    """A legal match with its gain, or None with the refusal recorded. Raises InvalidInputError if the rule
    fails.
    """
    ops = match.ops
    on_host = [i for i in ops if i in search.host]
    if on_host:
        _refuse(
            search,
            ops,
            f"{search.graph.name(on_host[0])} has no kernel: {search.host[on_host[0]]}",
            rule,
            None,
        )
        return None
    ops = sorted({j for i in ops for j in search.alone[i].ops})
    try:
        group = search.build(ops)
    except NotFusible as error:
        _refuse(search, ops, str(error), rule, None)
        return None
    assert group.cost is not None
    gain = rule_gain(rule, subgraph_of(search, ops, group.cost))
    external = search.graph.signature(set(ops), search.graph.outputs_of(set(ops)))[1]
    node = generated(rule, [OpView(search.ops[i], search.env, search.single.get(i)) for i in ops], external)
    if gain == 0.0:
        _refuse(search, ops, "its rule says that it gains nothing", rule, group)
        return None
    if gain < search.config.cost_threshold:
        reason = f"gain {100 * gain:.1f} % < cost_threshold {100 * search.config.cost_threshold:g} %"
        _refuse(search, ops, reason, rule, group)
        return None
    return _Proposal(rule, ops, group, gain, node.label if node is not None else None)


def _apply(search: Search, proposal: _Proposal) -> None:
    taken = [i for i in proposal.ops if search.unit_of[i].rule is not None]
    if taken:
        other = search.unit_of[taken[0]].rule
        _refuse(
            search,
            proposal.ops,
            f"{search.graph.name(taken[0])} belongs to a match of rule '{other}'",
            proposal.rule,
            proposal.group,
        )
        return
    before = total([c for c in (u.cost for u in _units(search, proposal.ops)) if c is not None])
    nodes = tuple(search.graph.name(i) for i in proposal.ops)
    reason = search.fuse_set(proposal.ops, proposal.group)
    if reason:
        _refuse(search, proposal.ops, reason, proposal.rule, proposal.group)
        return
    group = search.unit_of[proposal.ops[0]]
    group.rule, group.label = proposal.rule.title, proposal.label
    search.rule_gains[proposal.rule.title, nodes] = proposal.gain
    search.decide(nodes, (), "", before, group, proposal.rule.title)


def _units(search: Search, ops: list[int]) -> list[Group]:
    return list({id(search.unit_of[i]): search.unit_of[i] for i in ops}.values())


def _refuse(search: Search, ops: list[int], reason: str, rule: FusionRule, group: Group | None) -> None:
    units = [u for u in _units(search, ops) if u.cost is not None]
    search.decide(
        tuple(search.graph.name(i) for i in ops),
        (),
        reason,
        total([u.cost for u in units if u.cost is not None]),
        group,
        rule.title,
    )
    if group is not None:
        search.refused.append((list(ops), reason, rule.title))
