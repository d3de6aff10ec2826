# SPDX-License-Identifier: Apache-2.0
"""A block of graph ops as numbers: who reads whom through folded views, what escapes a group, structural keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free
from xdsl.traits import IsTerminator, Pure, is_side_effect_free

from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.meaning import Meaning, Opaque, View
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.fusion.names import node_name
from gaf.fusion.region import reads_in


def is_constant(op: Operation) -> bool:
    """A constant or a weight."""
    return isinstance(op, ConstantOp | WeightOp)


_pure: dict[type[Operation], bool] = {}


def effectful(ops: Sequence[Operation]) -> list[int]:
    """Numbers of the ops with side effects, in order: calls of user code that may not swap places."""
    found: list[int] = []
    for i, op in enumerate(ops):
        pure = _pure.get(type(op))
        if pure is None:
            pure = _pure[type(op)] = op.has_trait(Pure) or op.has_trait(IsTerminator)
        if not pure and not is_side_effect_free(op):
            found.append(i)
    return found


class OpGraph:
    """Ops of a block by number, in block order.

    `meanings` holds what every op means; `views` are those that compute nothing, `folded` the views that their
    readers read through instead of storing them. Ops in `host` (number -> reason) are left alone.
    """

    def __init__(self, block: Block, host: Mapping[int, str] | None = None) -> None:
        host = host or {}
        self.ops = list(block.ops)
        self.number = {op: i for i, op in enumerate(self.ops)}
        self.meanings: dict[int, object] = {
            i: op.meaning() for i, op in enumerate(self.ops) if isinstance(op, GraphOp) and not is_constant(op)
        }
        ordered = [i for i, op in enumerate(self.ops) if self._is_effect(i, op)]
        self.after: dict[int, int] = dict(zip(ordered, ordered[1:]))
        """Op with effects -> the next one: their order stays."""
        self.before: dict[int, int] = {b: a for a, b in self.after.items()}
        self.views = {i for i, m in self.meanings.items() if isinstance(m, View) and i not in host}
        self.folded = set(self.views)
        effects = effectful(self.ops)
        self.next_effect = dict(zip(effects, effects[1:]))  # ops with effects keep their order

    def _is_effect(self, number: int, op: Operation) -> bool:
        opaque = isinstance(self.meanings.get(number), Opaque)
        return opaque and not is_constant(op) and not is_side_effect_free(op)

    def name(self, number: int) -> str:
        """The model node of an op."""
        return node_name(self.ops[number])

    def gathers(self, view: int) -> bool:
        """Does this view read through an index tensor? Then it is work, unlike a transpose of the caller's data."""
        meaning = self.meanings[view]
        return isinstance(meaning, View) and any(reads_in(e) for p in meaning.pieces for e in p.index)

    def is_piecewise(self, view: int) -> bool:
        """Does this view join several pieces (concat, pad)? Then storing it is a copy, even on the host."""
        meaning = self.meanings[view]
        return isinstance(meaning, View) and not meaning.is_simple

    def meaning(self, number: int) -> Meaning | None:
        """The iteration spaces of an op, or None for views, constants and opaque ops."""
        found = self.meanings.get(number)
        return found if isinstance(found, Meaning) else None

    # -- edges, looking through folded views ------------------------------------------------------

    def sources(self, number: int) -> Iterator[int]:
        """Ops whose results `number` reads, and the op with effects that must come before it."""
        if number in self.before:
            yield self.before[number]
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
        """Ops that read a result of `number`, and the next op with effects if it has some itself."""
        if number in self.next_effect:
            yield self.next_effect[number]
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

    def root(self, value: SSAValue) -> SSAValue:
        """The stored value behind a chain of folded views with one operand that is read."""
        while isinstance(value.owner, Operation) and self.number.get(value.owner) in self.folded:
            meaning = self.meanings[self.number[value.owner]]
            assert isinstance(meaning, View)
            if not meaning.is_simple:
                break
            value = value.owner.operands[meaning.pieces[0].operand]
        return value

    # -- groups -----------------------------------------------------------------------------------

    def outputs_of(self, members: set[int], outside: set[int] | frozenset[int] = frozenset()) -> list[SSAValue]:
        """Results of members that something outside needs, directly or through folded views (not those in `outside`)."""
        return [r for i in sorted(members) for r in self.ops[i].results if self.escapes(r, members, outside)]

    def escapes(self, value: SSAValue, members: set[int], outside: set[int] | frozenset[int] = frozenset()) -> bool:
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

    def signature(
        self, ops: Iterable[int], outputs: Sequence[SSAValue], outside: set[int] | frozenset[int] = frozenset()
    ) -> tuple[tuple, list[SSAValue]]:
        """A key that is equal for structurally equal groups, and the outside values in an order that fits the key."""
        numbers: dict[SSAValue, int] = {}
        parts: list[object] = []
        external: list[SSAValue] = []
        members = set(ops)

        def inside(value: SSAValue) -> bool:
            owner = value.owner
            index = self.number.get(owner) if isinstance(owner, Operation) else None
            return index is not None and (index in members or (index in self.folded and index not in outside))

        stack: list[tuple[SSAValue, bool]] = [(v, False) for v in reversed(outputs)]
        while stack:
            value, done = stack.pop()
            if value in numbers:
                continue
            owner = value.owner
            if isinstance(owner, ConstantOp) and owner.value.array.size == 1:
                parts.append((value.type, owner.value))
            elif not inside(value):
                parts.append(value.type)
                external.append(value)
            elif not done:
                stack.append((value, True))
                stack += [(o, False) for o in reversed(owner.operands)]  # type: ignore[union-attr]
                continue
            else:
                assert isinstance(owner, Operation)
                parts.append(
                    (owner.name, tuple(owner.properties.items()), tuple(numbers[o] for o in owner.operands), value.type)
                )
                for r in owner.results:
                    if r is not value:
                        numbers.setdefault(r, len(numbers))
            numbers[value] = len(numbers)
        parts.append(tuple(numbers[v] for v in outputs))
        return tuple(parts), external
