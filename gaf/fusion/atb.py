# SPDX-License-Identifier: Apache-2.0
"""Whole patterns that the Ascend Transformer Boost library has operators for: left alone with `atb="prefer"`.

The list follows ATB's public parameter headers (infer_op_params.h): attention, norms with residual, linear
with activation, rotary positions. Single ops that ATB has too are no reason to leave them: joining them is a
gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from gaf.dialects.graph.meaning import View
from gaf.fusion import names
from gaf.fusion.patterns import Matcher, Pattern

if TYPE_CHECKING:
    from gaf.fusion.search import Search

_SCORES = Pattern("Scale", "Mul", "Div", "Add", "Where", "Sub", "Cast", optional=True)
_ACTIVATION = Pattern("Relu", "Gelu", "QuickGelu", "Silu", "Sigmoid")

PATTERNS: tuple[tuple[str, Pattern], ...] = (
    ("SelfAttention", Pattern("MatMul") >> _SCORES >> Pattern("Softmax") >> Pattern("MatMul")),
    ("LayerNorm with residual", Pattern("Add") >> Pattern("LayerNorm")),
    ("RmsNorm with residual", Pattern("Add") >> Pattern("RMSNorm")),
    ("Linear with activation", Pattern("Linear") >> _ACTIVATION),
)
"""ATB's operator -> the pattern that it covers, in the order in which they are looked for."""


def leave_to_atb(search: Search) -> None:
    """Keep the ops of covered patterns out of all groups, with the operator as reason."""
    taken: set[int] = set()
    for ops in _ropes(search):
        _leave(search, "Rope", ops, taken)
    for operator, pattern in PATTERNS:
        matcher = Matcher(search.graph, search.macros, taken | search.host.keys())
        for match in matcher.matches(pattern.slots):
            _leave(search, operator, match.ops, taken)


def _leave(search: Search, operator: str, ops: list[int], taken: set[int]) -> None:
    if taken & set(ops) or any(i in search.host for i in ops):
        return
    taken.update(ops)
    reason = f"left to ATB: {operator}"
    search.host.update({i: reason for i in ops})
    search.left_alone.append((operator, list(ops)))
    search.decide(tuple(search.graph.name(i) for i in ops), (), reason, None, None, "atb")


def _ropes(search: Search) -> Iterator[list[int]]:
    """x * cos + rotate(x) * sin, where rotate swaps the halves of the last axis and negates one."""
    g = search.graph
    for i, op in enumerate(g.ops):
        if names.op_type(op) != "Add" or len(op.operands) != 2:
            continue
        factors = []
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and names.op_type(owner) == "Mul" and operand.has_one_use():
                factors.append(owner)
        if len(factors) != 2:
            continue
        for plain, turned in (factors, factors[::-1]):
            found = [_rotation(search, o, set(plain.operands)) for o in turned.operands]
            inner = next((f for f in found if f is not None), None)
            if inner is not None:
                yield sorted({i, g.number[plain], g.number[turned], *inner})
                break


def _rotation(search: Search, value: SSAValue, sources: set[SSAValue]) -> list[int] | None:
    """Ops of a rotated half of a value in `sources`: a view of a slice and a negated slice of it."""
    g = search.graph
    owner = value.owner
    if not isinstance(owner, Operation) or len(owner.operands) != 2:
        return None
    meaning = g.meanings.get(g.number[owner])
    if not isinstance(meaning, View) or len(meaning.pieces) != 2:
        return None
    ops = [g.number[owner]]
    ends: list[SSAValue] = []
    negated = 0
    for operand in owner.operands:
        inner = operand.owner
        if isinstance(inner, Operation) and names.op_type(inner) == "Neg":
            ops.append(g.number[inner])
            negated += 1
            operand = inner.operands[0]
            inner = operand.owner
        if not isinstance(inner, Operation) or g.number[inner] not in g.folded:
            return None
        ends.append(g.root(operand))
    roots = {g.root(s) for s in sources}
    return ops if negated == 1 and len(set(ends)) == 1 and ends[0] in roots else None
