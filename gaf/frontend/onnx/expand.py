# SPDX-License-Identifier: Apache-2.0
"""Ops that ONNX defines by a function which depends on the node: its attributes, operand types and results.

Such a body may hold what gaf lacks, or sizes that it can't follow, and an import can't be taken back. So the
call is imported alone first, as a model of its own with operands of the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs, helper, numpy_helper

from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError

TRIAL_DOMAIN = "gaf.trial"
DATA_LIMIT = 64
"""Elements of a known operand that may be sizes or options, so that the trial gets them too."""

Importer = Callable[[onnx.ModelProto], object]


def expansion(
    schema: defs.OpSchema,
    node: NodeProto,
    attributes: Mapping[str, AttributeProto],
    operands: Sequence[tuple[TensorType, np.ndarray | None] | None],
    opset: int,
    load: Importer,
) -> FunctionProto | None:
    """The function that stands for a node, or None if there is none that `load` takes without host ops.

    `operands` are types, and values where they are known; None for an operand left out.
    """
    if not schema.has_context_dependent_function:
        return None
    version = max((v for v in schema.context_dependent_function_opset_versions if v <= opset), default=None)
    if version is None:
        return None
    call = NodeProto()
    call.CopyFrom(node)
    del call.attribute[:]
    call.attribute.extend(attributes.values())
    types = [TypeProto() if o is None else _type(o[0]) for o in operands]
    try:
        text = schema.get_context_dependent_function_with_opset_version(
            version, call.SerializeToString(), [t.SerializeToString() for t in types]
        )
        body = FunctionProto.FromString(text)
        del body.output[len(call.output) :]  # the rest need not be made
        model = load(_trial(body, call, types, operands, opset))
    except (GafError, RuntimeError, ValueError, TypeError):
        return None
    return None if getattr(model, "fallbacks", {}) else body


def _type(type_: TensorType) -> TypeProto:
    dims = [d.as_int() for d in type_.shape]
    return helper.make_tensor_type_proto(
        type_.dtype.onnx, [str(e) if d is None else d for d, e in zip(dims, type_.shape)]
    )


def _trial(
    body: FunctionProto,
    call: NodeProto,
    types: Sequence[TypeProto],
    operands: Sequence[tuple[TensorType, np.ndarray | None] | None],
    opset: int,
) -> onnx.ModelProto:
    """A model of the one call, with the body as its function."""
    function = FunctionProto()
    function.CopyFrom(body)
    function.domain, function.name = TRIAL_DOMAIN, call.op_type
    names = [f"i{i}" if o is not None else "" for i, o in enumerate(operands)]
    outputs = [f"o{i}" for i, o in enumerate(call.output) if o]
    node = helper.make_node(call.op_type, names, [f"o{i}" if o else "" for i, o in enumerate(call.output)], domain=TRIAL_DOMAIN)
    node.attribute.extend(call.attribute)
    known = [
        numpy_helper.from_array(np.ascontiguousarray(o[1]), name)
        for name, o in zip(names, operands)
        if o is not None and o[1] is not None and o[1].size <= DATA_LIMIT
    ]
    constants = {t.name for t in known}
    inputs = [
        helper.make_value_info(name, type_) for name, type_ in zip(names, types) if name and name not in constants
    ]
    graph = helper.make_graph(
        [node], "trial", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], known
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(TRIAL_DOMAIN, 1)]
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
