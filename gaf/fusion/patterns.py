# SPDX-License-Identifier: Apache-2.0
"""Declarative patterns over a graph: slots of names, matched along the data flow.

A slot matches a connected, non-empty group of ops with one of its names, or a macro (LayerNorm in any
spelling, Linear, Gate...). The group of a slot reads a result of the group before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gaf.errors import InvalidInputError
from gaf.fusion import names
from gaf.fusion.macros import Macro
from gaf.fusion.opgraph import OpGraph

MAX_WINDOW = 500
"""Ops looked at to see whether a group stays convex."""


@dataclass(frozen=True)
class Slot:
    """One step of a pattern. `names` are as the user wrote them; an optional slot may match nothing."""

    label: str
    names: tuple[str, ...]
    optional: bool = False

    @property
    def plain(self) -> frozenset[str]:
        return frozenset(names.plain(n) for n in self.names)


class Pattern:
    """`Pattern("CustomOp") >> Pattern("ReLU")`: a chain of slots; several names, or `|`, are alternatives."""

    def __init__(
        self, *alternatives: str, optional: bool = False, _slots: tuple[Slot, ...] | None = None
    ) -> None:
        if _slots is None:
            if not alternatives or not all(isinstance(n, str) and n.strip() for n in alternatives):
                raise InvalidInputError(
                    "a Pattern needs the name of an op", expected='Pattern("Add")', got=alternatives
                )
            _slots = (Slot("+".join(alternatives), tuple(alternatives), optional),)
        self.slots = _slots

    def __rshift__(self, other: Pattern) -> Pattern:
        if not isinstance(other, Pattern):
            raise InvalidInputError(
                "only patterns can be chained with >>", expected="Pattern", got=type(other).__name__
            )
        return Pattern(_slots=self.slots + other.slots)

    def __or__(self, other: Pattern) -> Pattern:
        if len(self.slots) != 1 or not isinstance(other, Pattern) or len(other.slots) != 1:
            raise InvalidInputError("only single patterns can be alternatives with |")
        return Pattern(*self.slots[0].names, *other.slots[0].names)

    def __repr__(self) -> str:
        return " >> ".join("|".join(s.names) for s in self.slots)


def parse_pattern(pattern: Any, rule: str) -> tuple[Slot, ...]:
    """Slots of a Pattern or of a list of (label, names) pairs.

    Raises InvalidInputError, naming the rule, for an empty pattern and for names that look misspelt.
    """
    if isinstance(pattern, Pattern):
        slots = pattern.slots
    elif isinstance(pattern, Sequence) and not isinstance(pattern, str):
        slots = tuple(_slot(entry, i, rule) for i, entry in enumerate(pattern))
    else:
        raise InvalidInputError(
            "the pattern of a fusion rule is a list of slots", where=f"rule '{rule}'",
            expected='[("norm", ["LayerNorm", "RMSNorm"]), ("proj", ["Linear"])]', got=type(pattern).__name__,
        )  # fmt: skip
    if all(s.optional for s in slots):
        raise InvalidInputError(
            "the pattern of a fusion rule names nothing", where=f"rule '{rule}'", expected="one slot or more"
        )
    known = names.known_names()
    for slot in slots:
        for name in slot.names:
            if names.plain(name) not in known and "." not in name:
                near = get_close_matches(names.plain(name), list(known), n=1, cutoff=0.85)
                if near:
                    raise InvalidInputError(
                        f"no op is called '{name}'", where=f"rule '{rule}', slot '{slot.label}'",
                        hint=f"did you mean '{known[near[0]]}'?",
                    )  # fmt: skip
    return slots


def _slot(entry: Any, number: int, rule: str) -> Slot:
    where = f"rule '{rule}', slot {number}"
    if isinstance(entry, str):
        entry = (entry, [entry])
    if not isinstance(entry, Sequence) or len(entry) not in (2, 3) or not isinstance(entry[0], str):
        raise InvalidInputError(
            "a slot is a pair (label, names)", where=where, expected='("norm", ["LayerNorm"])', got=entry
        )
    wanted = [entry[1]] if isinstance(entry[1], str) else list(entry[1])
    if not wanted or not all(isinstance(n, str) and n.strip() for n in wanted):
        raise InvalidInputError(
            "a slot names nothing", where=f"{where} ('{entry[0]}')", expected="names of ops", got=entry[1]
        )
    return Slot(entry[0], tuple(wanted), len(entry) == 3 and entry[2] == "optional")


@dataclass(frozen=True)
class Match:
    """Ops (numbers) of a match, slot by slot; an optional slot without ops is empty."""

    slots: tuple[frozenset[int], ...]

    @property
    def ops(self) -> list[int]:
        return sorted(frozenset().union(*self.slots))


class Matcher:
    """Finds the matches of patterns in one graph."""

    def __init__(self, graph: OpGraph, macros: Sequence[Macro], closed: Iterable[int] = ()) -> None:
        self.graph = graph
        self.closed = set(closed)
        self.by_name: dict[str, list[int]] = {}
        self.names: dict[int, frozenset[str]] = {}
        for i, op in enumerate(graph.ops):
            if i in graph.meanings and i not in graph.folded and i not in self.closed:
                self.names[i] = names.op_names(op)
                for name in self.names[i]:
                    self.by_name.setdefault(name, []).append(i)
        self.macros: dict[str, list[Macro]] = {}
        for macro in macros:
            if not macro.ops & self.closed:
                self.macros.setdefault(names.plain(macro.name), []).append(macro)

    def knows(self, slot: Slot) -> bool:
        """Does any op or macro of this graph have a name of the slot?"""
        return any(n in self.by_name or n in self.macros for n in slot.plain)

    def matches(self, slots: Sequence[Slot]) -> Iterator[Match]:
        """Matches in block order; no op is in two of them."""
        taken: set[int] = set()
        first = next((i for i, s in enumerate(slots) if not s.optional), 0)
        if not all(self.knows(s) for s in slots if not s.optional):
            return
        for start in range(first + 1):
            for group in self._groups(slots[start], None, taken):
                if taken & group:
                    continue
                found = self._extend(slots[start + 1 :], group, taken | group)
                if found is not None:
                    match = Match((*[frozenset()] * start, group, *found))
                    taken |= set(match.ops)
                    yield match

    def _extend(
        self, slots: Sequence[Slot], before: frozenset[int], taken: set[int]
    ) -> tuple[frozenset[int], ...] | None:
        if not slots:
            return ()
        for group in self._groups(slots[0], before, taken):
            rest = self._extend(slots[1:], group, taken | group)
            if rest is not None:
                return (group, *rest)
        if slots[0].optional:
            rest = self._extend(slots[1:], before, taken)
            if rest is not None:
                return (frozenset(), *rest)
        return None

    def _groups(self, slot: Slot, before: frozenset[int] | None, taken: set[int]) -> Iterator[frozenset[int]]:
        """Groups that fit a slot: macros first, then connected ops with its names that read from `before`."""
        wanted = slot.plain
        entry = None if before is None else {c for i in before for c in self.graph.consumers(i)} - before
        for name in sorted(wanted & self.macros.keys()):
            for macro in self.macros[name]:
                if not macro.ops & taken and (entry is None or macro.ops & entry):
                    yield macro.ops
        starts = (
            sorted({i for name in wanted for i in self.by_name.get(name, ())})
            if entry is None
            else sorted(i for i in entry if self.names.get(i, frozenset()) & wanted)
        )
        seen: set[int] = set()
        for start in starts:
            if start in seen or start in taken:
                continue
            group = self._connected(start, wanted, taken | seen, before is None)
            seen |= group
            yield frozenset(group)

    def _connected(self, start: int, wanted: frozenset[str], outside: set[int], first: bool) -> set[int]:
        """Ops with the wanted names that `start` leads to, as far as the group stays convex.

        A first slot also takes producers that nothing else reads. A matmul is never joined with another one.
        """
        group = {start}
        stack = [start]
        while stack:
            i = stack.pop()
            if self._contracts(i):
                continue
            near = sorted(set(self.graph.consumers(i)))
            if first:
                near += [
                    s for s in sorted(set(self.graph.sources(i))) if set(self.graph.consumers(s)) <= group
                ]
            for j in near:
                if j in group or j in outside or not self.names.get(j, frozenset()) & wanted:
                    continue
                if self._contracts(j) or self._reenters(j, group):
                    continue
                group.add(j)
                stack.append(j)
        return group

    def _contracts(self, number: int) -> bool:
        meaning = self.graph.meaning(number)
        return (
            meaning is not None
            and any(s.reduced and len(s.reads) > 1 for s in meaning.stages)
            and len(meaning.stages) == 1
        )

    def _reenters(self, number: int, group: set[int]) -> bool:
        """Does `number` read a value that was computed from the group outside it?"""
        low = min(group)
        stack = [s for s in self.graph.sources(number) if s not in group]
        seen: set[int] = set()
        while stack:
            i = stack.pop()
            if i in group:
                return True
            if i <= low or i in seen:
                continue
            seen.add(i)
            if len(seen) > MAX_WINDOW:
                return True
            stack += self.graph.sources(i)
        return False
