# SPDX-License-Identifier: Apache-2.0
"""`NodeContext`: one ONNX node as the graph ops see it while they import themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto
from xdsl.ir import SSAValue

from gaf.dialects.common.index import Expr
from gaf.dialects.graph.contract import GraphOp
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.onnx.reader import tensor_array


class NodeContext:
    """Implements `gaf.dialects.graph.contract.ImportContext` for a node.

    `attributes` are the node's own, with those that a function call hands over.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        node: onnx.NodeProto,
        operands: list[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        opset: int,
        location: str,
        where: str,
        folder: Path | None,
    ) -> None:
        self._builder = builder
        self.op_type: str = node.op_type
        self.domain: str = node.domain
        self.opset = opset
        self.operands = operands
        self.num_outputs = len(node.output)
        self.location = location
        self.where = where
        self._attributes = attributes
        self._folder = folder

    def attr(self, name: str, default: Any = None) -> Any:
        proto = self._attributes.get(name)
        return default if proto is None else attribute_value(proto, self.where, self._folder)

    def operand(self, index: int) -> SSAValue | None:
        return self.operands[index] if index < len(self.operands) else None

    def constant(self, index: int) -> np.ndarray | None:
        value = self.operand(index)
        return None if value is None else self._builder.known(value)

    def dims(self, index: int) -> tuple[Expr, ...] | None:
        value = self.operand(index)
        return None if value is None else self._builder.dims(value)

    def constant_value(self, array: np.ndarray) -> SSAValue:
        return self._builder.constant(array, self.location)

    def random_source(self) -> tuple[SSAValue, int]:
        return self._builder.random_source("gaf")

    def new_symbol(self, stem: str) -> Expr:
        return self._builder.new_symbol(stem)

    def emit(self, op: type[GraphOp], operands: Sequence[SSAValue], **attributes: Any) -> Any:
        return self._builder.emit(op, operands, attributes, self.location)

    def assume(self, condition: Expr, what: str) -> None:
        self._builder.assume(condition, what)

    def unsupported(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(what, where=self.where, **details)


def attribute_value(proto: AttributeProto, where: str, folder: Path | None = None) -> Any:
    """The Python value of an attribute: int, float, str, tuple of these, ndarray, GraphProto or TypeProto.

    Raises UnsupportedError for sparse tensors and lists of tensors, InvalidInputError for unknown types.
    """
    match proto.type:
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.FLOAT:
            return proto.f
        case AttributeProto.STRING:
            return _text(proto.s, proto.name, where)
        case AttributeProto.INTS:
            return tuple(proto.ints)
        case AttributeProto.FLOATS:
            return tuple(proto.floats)
        case AttributeProto.STRINGS:
            return tuple(_text(s, proto.name, where) for s in proto.strings)
        case AttributeProto.TENSOR:
            return tensor_array(proto.t, where, folder, name=f"attribute {proto.name}")
        case AttributeProto.GRAPH:
            return proto.g
        case AttributeProto.TYPE_PROTO:
            return proto.tp
        case AttributeProto.UNDEFINED:
            raise InvalidInputError(f"attribute '{proto.name}' has no type", where=where)
        case _:
            kind = AttributeProto.AttributeType.Name(proto.type).lower().replace("_", " ")
            raise UnsupportedError(
                f"attribute '{proto.name}' is a {kind}; these are not supported", where=where
            )


def _text(data: bytes, name: str, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"attribute '{name}' is not text in UTF-8", where=where) from None
