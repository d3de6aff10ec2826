# SPDX-License-Identifier: Apache-2.0
"""Checks of ONNX nodes before they are imported: order, unique names, arity and attributes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto
from onnx.defs import OpSchema

from gaf.errors import InvalidInputError
from gaf.frontend.onnx.support import schema_of

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def order_nodes(nodes: Iterable[NodeProto], defined: set[str], where: str) -> list[tuple[int, NodeProto]]:
    """The nodes with their positions, producers before users.

    `defined` are the names that exist before the first node. A valid file keeps its order. Raises
    InvalidInputError for a value defined twice, a value that nobody defines, and cycles.
    """
    numbered = list(enumerate(nodes))
    producer: dict[str, int] = {}
    for index, node in numbered:
        for name in node.output:
            if not name:
                continue
            if name in producer or name in defined:
                other = (
                    _name_of(numbered[producer[name]])
                    if name in producer
                    else "the model's inputs or weights"
                )
                raise InvalidInputError(
                    f"the value '{name}' is defined twice",
                    where=f"{where}: node '{node_label(node, index)}'",
                    got=f"another definition by {other}",
                )
            producer[name] = index
    ready = set(defined)
    in_order = True
    for index, node in numbered:
        for name in names_read(node):
            if name not in ready:
                if name not in producer:
                    raise InvalidInputError(
                        f"the value '{name}' is used but not defined",
                        where=f"{where}: node '{node_label(node, index)}' ({node.op_type})",
                        expected="a model input, a weight or a node's output",
                    )
                in_order = False
        ready.update(node.output)
    return numbered if in_order else _sorted(numbered, producer, where)


def _sorted(
    numbered: list[tuple[int, NodeProto]], producer: Mapping[str, int], where: str
) -> list[tuple[int, NodeProto]]:
    """Kahn's algorithm; the file's order where it is free."""
    users: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for index, node in numbered:
        needs = {producer[name] for name in names_read(node) if name in producer}
        waiting[index] = len(needs)
        for need in needs:
            users.setdefault(need, []).append(index)
    queue = [index for index, count in waiting.items() if not count]
    heapq.heapify(queue)
    order: list[int] = []
    while queue:
        index = heapq.heappop(queue)
        order.append(index)
        for user in users.get(index, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(queue, user)
    if len(order) < len(numbered):
        cycle = _cycle(numbered, producer, set(range(len(numbered))) - set(order))
        names = " -> ".join(f"'{_name_of(numbered[i])}'" for i in cycle[:6])
        raise InvalidInputError(
            "the nodes form a cycle", where=where, got=names + (" -> ..." if len(cycle) > 6 else "")
        )
    return [numbered[i] for i in order]


def _cycle(numbered: list[tuple[int, NodeProto]], producer: Mapping[str, int], stuck: set[int]) -> list[int]:
    """Nodes along one cycle, in the direction of the data. Every stuck node waits for another stuck one."""
    path: list[int] = []
    place: dict[int, int] = {}
    current = min(stuck)
    while current not in place:
        place[current] = len(path)
        path.append(current)
        current = next(producer[n] for n in names_read(numbered[current][1]) if producer.get(n) in stuck)
    return [*reversed(path[place[current] :]), path[-1]]


def names_read(node: NodeProto) -> list[str]:
    """The values that a node needs: its inputs, and what its subgraphs take from outside."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.type in _GRAPHS else ():
            names += free_names(graph)
    return names


def free_names(graph: GraphProto) -> list[str]:
    """The names that a subgraph uses and doesn't define."""
    defined = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    defined |= {name for node in graph.node for name in node.output}
    used = [name for node in graph.node for name in names_read(node)] + [v.name for v in graph.output]
    return list(dict.fromkeys(name for name in used if name and name not in defined))


def node_label(node: NodeProto, index: int) -> str:
    """The node's name, or `<op type>_<position>` if it has none."""
    return node.name or f"{node.op_type}_{index}"


def _name_of(numbered: tuple[int, NodeProto]) -> str:
    return node_label(numbered[1], numbered[0])


@dataclass(frozen=True)
class _Rule:
    """What a schema says about the outside of a node."""

    min_inputs: int
    max_inputs: int
    max_outputs: int
    required: tuple[int, ...]
    attributes: Mapping[str, int]  # name -> AttributeProto.AttributeType
    needed: tuple[str, ...]


class NodeRules:
    """Checks nodes against the ONNX schemas; ops of other domains pass."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str, int], _Rule | None] = {}

    def check(
        self,
        node: NodeProto,
        operands: Sequence[Any],
        attributes: Mapping[str, AttributeProto],
        domain: str,
        opset: int,
        where: str,
    ) -> None:
        """Raises InvalidInputError for a wrong number of operands or results, or wrong attributes."""
        key = (domain, node.op_type, opset)
        if key not in self._rules:
            self._rules[key] = _rule(schema_of(domain, node.op_type, opset))
        rule = self._rules[key]
        if rule is None:
            return
        if not rule.min_inputs <= len(operands) <= rule.max_inputs:
            raise InvalidInputError(
                "wrong number of inputs",
                where=where,
                expected=_range(rule.min_inputs, rule.max_inputs),
                got=len(operands),
            )
        if len(node.output) > rule.max_outputs:
            raise InvalidInputError(
                "too many outputs", where=where, expected=f"at most {rule.max_outputs}", got=len(node.output)
            )
        for position in rule.required:
            if position < len(operands) and operands[position] is None:
                raise InvalidInputError(f"input {position} may not be left out", where=where)
        for name, proto in attributes.items():
            kind = rule.attributes.get(name)
            if kind is None:
                raise InvalidInputError(
                    f"unknown attribute '{name}' for opset {opset}",
                    where=where,
                    expected=", ".join(rule.attributes) or "no attributes",
                )
            if kind != proto.type:
                raise InvalidInputError(
                    f"attribute '{name}' has the wrong type",
                    where=where,
                    expected=_type_name(kind),
                    got=_type_name(proto.type),
                )
        for name in rule.needed:
            if name not in attributes:
                raise InvalidInputError(f"attribute '{name}' is missing", where=where)


def _rule(schema: OpSchema | None) -> _Rule | None:
    if schema is None:
        return None
    single = OpSchema.FormalParameterOption.Single
    return _Rule(
        schema.min_input,
        schema.max_input,
        schema.max_output,
        tuple(i for i, formal in enumerate(schema.inputs) if formal.option == single),
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        tuple(name for name, a in schema.attributes.items() if a.required),
    )


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"at least {low}" if high >= 1 << 30 else f"{low} to {high}"


def _type_name(kind: int) -> str:
    return AttributeProto.AttributeType.Name(kind)  # type: ignore[arg-type]
