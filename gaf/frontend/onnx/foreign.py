# SPDX-License-Identifier: Apache-2.0
"""Makes `graph.foreign` for ONNX nodes without a graph op; their types come from ONNX shape inference."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from google.protobuf import text_format
from onnx import helper, numpy_helper, shape_inference
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.onnx.support import RANDOM, schema_of, standard_domain

DATA_LIMIT = 1024  # elements of a constant operand that shape inference gets to see


def emit_foreign(
    builder: GraphBuilder,
    node: onnx.NodeProto,
    operands: Sequence[SSAValue | None],
    opset: int,
    location: str,
    where: str,
) -> list[SSAValue]:
    """The node as one `graph.foreign`; `node` must not refer to attributes of a function.

    Raises UnsupportedError if ONNX can't tell the types of its results.
    """
    domain = standard_domain(node.domain)
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    for clear in ("name", "doc_string", "input", "output", "metadata_props"):
        bare.ClearField(clear)
    bare.input.extend("" if o is None else f"i{i}" for i, o in enumerate(operands))
    bare.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.output))
    while bare.output and not bare.output[-1]:
        del bare.output[-1]
    if "" in bare.output:  # a result in the middle that nobody wants still takes a place
        for i in range(len(bare.output)):
            bare.output[i] = f"o{i}"
    types = _Types(builder, location, where).infer(bare, operands, domain, opset)
    op = ForeignOp.of(
        "onnx",
        domain,
        node.op_type,
        opset,
        text_format.MessageToString(bare, as_one_line=True).strip(),
        [o for o in operands if o is not None],
        types,
        pure=node.op_type not in RANDOM,
        location=location,
    )
    return builder.insert(op)


def type_proto(type_: TensorType) -> onnx.TypeProto:
    """The type as ONNX says it; a symbolic dim is the text of its expression."""
    sizes = [(dim, dim.as_int()) for dim in type_.shape]
    shape = [str(dim) if size is None else size for dim, size in sizes]
    return helper.make_tensor_type_proto(type_.dtype.onnx, shape)


class _Types:
    """Result types of one node; symbolic dims travel through ONNX as `dim_param` texts."""

    def __init__(self, builder: GraphBuilder, location: str, where: str) -> None:
        self.builder = builder
        self.location = location
        self.where = where
        self.dims: dict[str, Expr] = {}

    def infer(
        self, node: onnx.NodeProto, operands: Sequence[SSAValue | None], domain: str, opset: int
    ) -> list[TensorType]:
        inputs: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, operand in zip(node.input, operands):
            if operand is None:
                continue
            inputs[name] = self._proto(tensor_type(operand))
            value = self.builder.known(operand)
            if value is not None and value.size <= DATA_LIMIT:
                data[name] = numpy_helper.from_array(value, name)
        schema = schema_of(domain, node.op_type, opset)
        found: dict[str, onnx.TypeProto] = {}
        if schema is not None:
            opsets = [helper.make_opsetid(domain, opset)]
            try:
                found = shape_inference.infer_node_outputs(schema, node, inputs, data, opset_imports=opsets)
            except Exception as error:  # InferenceError and others: the shapes don't fit the op
                raise InvalidInputError(
                    f"ONNX shape inference refuses this node: {' '.join(str(error).split())}",
                    where=self.where,
                ) from None
        return [self._type(found.get(name), i) for i, name in enumerate(node.output)]

    def _proto(self, type_: TensorType) -> onnx.TypeProto:
        self.dims.update({str(dim): dim for dim in type_.shape if dim.as_int() is None})
        return type_proto(type_)

    def _type(self, proto: onnx.TypeProto | None, index: int) -> TensorType:
        if (
            proto is None
            or proto.WhichOneof("value") != "tensor_type"
            or not proto.tensor_type.HasField("shape")
        ):
            raise UnsupportedError(
                f"the type of result {index} is not known, so it can't run on the host either",
                where=self.where,
                hint="a fixed input shape may help: --input-shape",
            )
        info = proto.tensor_type
        dims = [self._dim(d, index, axis) for axis, d in enumerate(info.shape.dim)]
        return TensorType.of(dims, dt.of_onnx(info.elem_type, where=self.where))

    def _dim(self, proto: onnx.TensorShapeProto.Dimension, index: int, axis: int) -> Expr:
        if proto.HasField("dim_value"):
            return const(proto.dim_value)
        if proto.dim_param in self.dims:
            return self.dims[proto.dim_param]
        return self.builder.new_symbol(f"{self.location.rpartition('/')[2]}_{index}_{axis}")
