# SPDX-License-Identifier: Apache-2.0
"""A block of graph ops as numbers: who reads whom through folded views, what escapes a group, keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator, Pure, is_side_effect_free

from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.meaning import Meaning, View
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.fusion.bounds import Bounds
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

    `meanings` holds what every op means; `views` are those that compute nothing, `folded` the views that
    their readers read through instead of storing them. Ops in `host` (number -> reason) are left alone.
    """

    def __init__(self, block: Block, host: Mapping[int, str] | None = None) -> None:
        host = host or {}
        self.ops = list(block.ops)
        self.number = {op: i for i, op in enumerate(self.ops)}
        self.meanings: dict[int, object] = {
            i: op.meaning()
            for i, op in enumerate(self.ops)
            if isinstance(op, GraphOp) and not is_constant(op)
        }
        self._ids: dict[SSAValue, int] = {}
        self._values: list[SSAValue] = []
        self._owners: list[int] = []
        self._scalars: list[int] = []
        self._types: list[int] = []
        self._shapes: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        self._numbers: dict[object, int] = {}
        self.bounds = Bounds()
        self.views = {i for i, m in self.meanings.items() if isinstance(m, View) and i not in host}
        self.folded = set(self.views)
        effects = effectful(self.ops)
        self.next_effect = dict(zip(effects, effects[1:]))  # ops with effects keep their order

    def name(self, number: int) -> str:
        """The model node of an op."""
        return node_name(self.ops[number])

    def gathers(self, view: int) -> bool:
        """Does this view read through an index tensor? Then it is work, unlike a transpose of the caller's
        data.
        """
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
        """Ops whose results `number` reads."""
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

    def outputs_of(
        self, members: set[int], outside: set[int] | frozenset[int] = frozenset()
    ) -> list[SSAValue]:
        """Results of members that something outside needs, directly or through folded views (not those in
        `outside`).
        """
        return [r for i in sorted(members) for r in self.ops[i].results if self.escapes(r, members, outside)]

    def escapes(
        self, value: SSAValue, members: set[int], outside: set[int] | frozenset[int] = frozenset()
    ) -> bool:
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

    # Values by number: signatures are asked for some ten times an op, so they work on integers.

    def _id(self, value: SSAValue) -> int:
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            owner = value.owner
            self._values.append(value)
            self._owners.append(self.number.get(owner, -1) if isinstance(owner, Operation) else -1)
            scalar = isinstance(owner, ConstantOp) and owner.value.array.size == 1
            self._scalars.append(self._intern((value.type, owner.value)) if scalar else -1)  # type: ignore[union-attr]
            self._types.append(-1)
        return found

    def _op(self, number: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """(number that equal ops share: name, properties, result types; operands; results)."""
        found = self._shapes.get(number)
        if found is None:
            op = self.ops[number]
            key = self._intern((op.name, tuple(op.properties.items()), tuple(r.type for r in op.results)))
            found = (key, tuple(map(self._id, op.operands)), tuple(map(self._id, op.results)))
            self._shapes[number] = found
        return found

    def _intern(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _type(self, value: int) -> int:
        """A number that outside values share if they have the same type and bounds."""
        found = self._types[value]
        if found < 0:
            v = self._values[value]
            found = self._types[value] = self._intern((v.type, self.bounds.of(v)))
        return found

    def signature(
        self,
        ops: Iterable[int],
        outputs: Sequence[SSAValue],
        outside: set[int] | frozenset[int] = frozenset(),
    ) -> tuple[tuple, list[SSAValue]]:
        """A key that is equal for structurally equal groups, and the outside values in an order that fits the
        key.
        """
        numbers: dict[int, int] = {}
        parts: list[object] = []
        external: list[SSAValue] = []
        members, folded, owners, scalars = set(ops), self.folded, self._owners, self._scalars
        roots = [self._id(v) for v in outputs]
        stack = roots[::-1]
        while stack:
            value = stack[-1]
            if value in numbers:
                stack.pop()
                continue
            owner = owners[value]
            if scalars[value] >= 0:
                parts.append(scalars[value])
            elif not (owner in members or (owner in folded and owner not in outside)):
                parts.append((self._type(value),))
                external.append(self._values[value])
            else:
                key, operands, results = self._op(owner)
                missing = [o for o in operands if o not in numbers]
                if missing:
                    stack += missing[::-1]
                    continue
                parts.append((key, *(numbers[o] for o in operands), -1 - results.index(value)))
                for r in results:
                    if r != value:
                        numbers.setdefault(r, len(numbers))
            numbers[value] = len(numbers)
            stack.pop()
        parts.append(tuple(numbers[v] for v in roots))
        return tuple(parts), external
