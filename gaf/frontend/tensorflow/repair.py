# SPDX-License-Identifier: Apache-2.0
"""Mends what tf2onnx writes: operators that ONNX hasn't, and names of dims that say nothing. Works without TensorFlow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import onnx
from onnx import helper

from gaf.errors import UnsupportedError

UNKNOWN_DIM = re.compile(r"unk__\d+")
"""What tf2onnx calls a dim that TensorFlow leaves open."""


def repair(proto: onnx.ModelProto, where: str, shared_batch: bool = False) -> None:
    """Make the result of a conversion a valid ONNX model, in place.

    tf2onnx logs operators that it can't convert and returns a file with their TensorFlow names all the same:
    Erfc is 1 - Erf, any other raises UnsupportedError with every operator and how often it occurs. Open dims
    are named after their input and axis, or `batch` for axis 0 with `shared_batch`.
    Raises UnsupportedError for whatever else onnx.checker finds.
    """
    graphs = [proto.graph, *(g for node in proto.graph.node for g in _subgraphs(node))]
    for graph in graphs:
        _expand_erfc(graph)
    unknown = Counter(
        node.op_type
        for graph in graphs
        for node in graph.node
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type)
    )
    if unknown:
        listed = ", ".join(f"{count} x {name}" for name, count in sorted(unknown.items()))
        raise UnsupportedError(
            f"TensorFlow operators without a form in ONNX: {listed}",
            where=where,
            hint="write them with other operators, or convert the model yourself with custom_op_handlers of tf2onnx "
            "and load the .onnx file",
        )
    _name_dims(proto.graph, shared_batch)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        raise UnsupportedError(
            f"tf2onnx wrote an invalid model: {str(error).strip().splitlines()[0]}",
            where=where,
            hint="report it to tf2onnx, with the model",
        ) from None


def _subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
            found += [g for inner in attribute.g.node for g in _subgraphs(inner)]
    return found


def _expand_erfc(graph: onnx.GraphProto) -> None:
    """Erfc(x) = 1 - Erf(x); the 1 has the type of x as Erf's result minus itself plus one would, without knowing it."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "Erfc" or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        (x,), (y,) = node.input, node.output
        name = node.name or y
        one = helper.make_tensor("one", onnx.TensorProto.FLOAT, [], [1.0])
        nodes += [
            helper.make_node("Erf", [x], [f"{y}_erf"], name=f"{name}/erf"),
            helper.make_node("Constant", [], [f"{y}_one_f32"], name=f"{name}/one", value=one),
            helper.make_node("CastLike", [f"{y}_one_f32", x], [f"{y}_one"], name=f"{name}/one_like"),
            helper.make_node("Sub", [f"{y}_one", f"{y}_erf"], [y], name=f"{name}/sub"),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _name_dims(graph: onnx.GraphProto, shared_batch: bool) -> None:
    names: dict[str, str] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if UNKNOWN_DIM.fullmatch(dim.dim_param):
                batch = shared_batch and axis == 0
                names.setdefault(dim.dim_param, "batch" if batch else f"{_word(value.name)}_{axis}")
    for value in _values(graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.dim_param = names[dim.dim_param]
            elif UNKNOWN_DIM.fullmatch(dim.dim_param):
                dim.Clear()  # a size that only shows at run time


def _values(graph: onnx.GraphProto) -> Sequence[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name.partition(":")[0], flags=re.ASCII) or "x"
