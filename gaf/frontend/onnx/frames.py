# SPDX-License-Identifier: Apache-2.0
"""`Frame`: a list of nodes being imported (graph, function body or branch) and the names that they see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto
from xdsl.ir import Operation, SSAValue

from gaf.frontend.onnx.support import standard_domain


@dataclass
class Frame:
    """A list of nodes being imported, and the names they see."""

    nodes: Iterator[tuple[int, NodeProto]]
    opsets: Mapping[str, int]
    values: dict[str, SSAValue] = field(default_factory=dict)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    parent: Frame | None = None  # where captured names of a subgraph come from
    attributes: Mapping[str, AttributeProto] | None = None  # of the function call; None outside functions
    prefix: str = ""
    labels: Sequence[str] = ()  # better names for the nodes, by index
    calls: tuple[tuple[str, str, str], ...] = ()  # functions being expanded
    absent: set[str] = field(default_factory=set)  # optional inputs of the function that the call leaves out
    lacking: dict[str, str] = field(default_factory=dict)  # value name -> why there is no such value
    done: Callable[[], None] = lambda: None


def resolved_attributes(node: NodeProto, frame: Frame) -> dict[str, AttributeProto]:
    """The node's attributes by name; references to attributes of the enclosing function are resolved."""
    result: dict[str, AttributeProto] = {}
    for proto in node.attribute:
        if not proto.ref_attr_name:
            result[proto.name] = proto
            continue
        source = (frame.attributes or {}).get(proto.ref_attr_name)
        if source is not None:  # else: the call leaves it out, and the op's default holds
            copy = AttributeProto()
            copy.CopyFrom(source)
            copy.name = proto.name
            result[proto.name] = copy
    return result


def resolved_node(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """The node with `attributes` in place of its own, which may refer to those of a function."""
    result = NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    result.attribute.extend(attributes.values())
    return result


def function_opsets(body: FunctionProto) -> dict[str, int]:
    """Domain -> version of the ops in a function."""
    return {standard_domain(o.domain): o.version for o in body.opset_import}


def result_list(results: Any) -> list[SSAValue | None]:
    """What an op's `from_onnx` returned (a value, an op, or a list of these) as a list of values."""
    match results:
        case SSAValue():
            return [results]
        case Operation():
            return list(results.results)
        case _:
            return [r.results[0] if isinstance(r, Operation) else r for r in results]
