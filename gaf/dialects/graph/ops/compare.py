# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic on bools, and the elementwise choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.scalar import Arg, call
from gaf.dialects.graph.contract import AtenContext, ExportContext, GraphOp, broadcast_shapes, graph_op
from gaf.dialects.graph.meaning import Meaning, elementwise
from gaf.dialects.graph.ops.binary import BinaryOp
from gaf.dialects.graph.ops.common import ANY, apply_body, check_kind, is_symbolic, same_dtype
from gaf.dialects.graph.types import TensorType


class CompareOp(BinaryOp):
    """Base: a bool result; a comparison with NaN is false (except `ne`)."""

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        return [TensorType.of(super().infer(operands, attrs)[0].shape, dt.BOOL)]

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, cls.aten_operands(ctx, ctx.common_dtype("self", "other")))


@graph_op
class EqualOp(CompareOp):
    """a == b."""

    name = "graph.equal"
    ONNX = ("Equal",)
    ATEN = ("aten.eq.Tensor", "aten.eq.Scalar")
    GAF = ("equal",)
    SCALAR = "eq"
    KINDS = ANY
    traits = traits_def(Pure(), Commutative())


@graph_op
class NotEqualOp(CompareOp):
    """a != b."""

    name = "graph.not_equal"
    ATEN = ("aten.ne.Tensor", "aten.ne.Scalar")
    GAF = ("not_equal",)
    SCALAR = "ne"
    KINDS = ANY
    traits = traits_def(Pure(), Commutative())

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Not", ctx.node("Equal", inputs, 1))


@graph_op
class LessOp(CompareOp):
    """a < b."""

    name = "graph.less"
    ONNX = ("Less",)
    ATEN = ("aten.lt.Tensor", "aten.lt.Scalar")
    GAF = ("less",)
    SCALAR = "lt"
    ONNX_SINCE = 9


@graph_op
class LessOrEqualOp(CompareOp):
    """a <= b."""

    name = "graph.less_or_equal"
    ONNX = ("LessOrEqual",)
    ATEN = ("aten.le.Tensor", "aten.le.Scalar")
    GAF = ("less_or_equal",)
    SCALAR = "le"
    ONNX_SINCE = 12


@graph_op
class GreaterOp(CompareOp):
    """a > b."""

    name = "graph.greater"
    ONNX = ("Greater",)
    ATEN = ("aten.gt.Tensor", "aten.gt.Scalar")
    GAF = ("greater",)
    SCALAR = "gt"
    ONNX_SINCE = 9


@graph_op
class GreaterOrEqualOp(CompareOp):
    """a >= b."""

    name = "graph.greater_or_equal"
    ONNX = ("GreaterOrEqual",)
    ATEN = ("aten.ge.Tensor", "aten.ge.Scalar")
    GAF = ("greater_or_equal",)
    SCALAR = "ge"
    ONNX_SINCE = 12


class LogicOp(CompareOp):
    """Base of logic on bools."""

    KINDS = ("bool",)
    traits = traits_def(Pure(), Commutative())

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, cls.aten_operands(ctx, dt.BOOL))


@graph_op
class AndOp(LogicOp):
    """True where both are."""

    name = "graph.and"
    ONNX = ("And",)
    ATEN = ("aten.logical_and.default",)
    GAF = ("and",)
    SCALAR = "and"


@graph_op
class OrOp(LogicOp):
    """True where either is."""

    name = "graph.or"
    ONNX = ("Or",)
    ATEN = ("aten.logical_or.default",)
    GAF = ("or",)
    SCALAR = "or"


@graph_op
class XorOp(LogicOp):
    """True where exactly one is."""

    name = "graph.xor"
    ONNX = ("Xor",)
    ATEN = ("aten.logical_xor.default",)
    GAF = ("xor",)
    SCALAR = "xor"


@graph_op
class WhereOp(GraphOp):
    """a where the condition holds, else b; all three broadcast."""

    name = "graph.where"
    condition = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Where",)
    ATEN = ("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
    GAF = ("where",)
    BODY = call("select", Arg(0), Arg(1), Arg(2))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        dtype = ctx.result.dtype
        operands = [ctx.value("condition", dt.BOOL), ctx.value("self", dtype), ctx.value("other", dtype)]
        return ctx.emit(cls, operands)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        check_kind(operands[0].dtype, ("bool",), f"{cls.name}: condition")
        dtype = same_dtype(operands[1:], cls.name)
        return [TensorType.of(broadcast_shapes([o.shape for o in operands], cls.name), dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        if is_symbolic(args):
            return [np.where(args[0].astype(bool), args[1], args[2])]
        return apply_body(self.BODY, args, self.result_tensor_types()[0].dtype, wide)

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        return elementwise(r.shape, [o.shape for o in self.operand_tensor_types()], self.BODY, r.dtype)
