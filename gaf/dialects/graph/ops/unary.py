# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of one operand that are one primitive scalar function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.scalar import Arg, Scalar, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    graph_op,
)
from gaf.dialects.graph.meaning import Meaning, elementwise
from gaf.dialects.graph.ops.common import NUMERIC, apply_body, body_to_onnx, check_kind, export_float
from gaf.dialects.graph.types import TensorType


class UnaryOp(GraphOp):
    """Base: the result has the operand's shape and dtype (bool for predicates).

    16-bit floats are computed in float32 and rounded once.
    """

    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    KINDS: ClassVar[tuple[str, ...]] = ("float",)  # operand kinds accepted: float, int, uint, bool
    PREDICATE: ClassVar[bool] = False
    ONNX_SINCE: ClassVar[int] = 1  # opset that brought the ONNX operator; older ones get the formula

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        """The formula on Arg(0); by default the scalar function named like the op."""
        return call(cls.name.removeprefix("graph."), Arg(0))

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, cls.KINDS, cls.name)
        return [TensorType.of(x.shape, dt.BOOL) if cls.PREDICATE else x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return apply_body(self.body(self.attrs()), args, self.result_tensor_types()[0].dtype, wide)

    def meaning(self) -> Meaning:
        (x,), (r,) = self.operand_tensor_types(), self.result_tensor_types()
        return elementwise(r.shape, [x.shape], self.body(self.attrs()), r.dtype)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        # integers become floats first where the result is one (exp of an int64 tensor, ...)
        x = ctx.operands[0] if cls.PREDICATE else ctx.cast(ctx.operands[0], ctx.result.dtype)
        return ctx.emit(cls, [x], **cls.aten_attributes(ctx))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        if not self.ONNX or ctx.opset < self.ONNX_SINCE:
            return body_to_onnx(ctx, self.body(self.attrs()), inputs, self.operand_tensor_types()[0].dtype)
        return export_float(ctx, self.ONNX[0], inputs, self.operand_tensor_types()[0].dtype, super().to_onnx)


@graph_op
class NegOp(UnaryOp):
    """-x."""

    name = "graph.neg"
    ONNX = ("Neg",)
    ATEN = ("aten.neg.default",)
    GAF = ("neg",)
    KINDS = ("float", "int")


@graph_op
class AbsOp(UnaryOp):
    """|x|."""

    name = "graph.abs"
    ONNX = ("Abs",)
    ATEN = ("aten.abs.default",)
    GAF = ("abs",)
    KINDS = NUMERIC


@graph_op
class SignOp(UnaryOp):
    """-1, 0 or 1; NaN stays NaN."""

    name = "graph.sign"
    ONNX = ("Sign",)
    ATEN = ("aten.sign.default",)
    GAF = ("sign",)
    KINDS = NUMERIC


@graph_op
class BitwiseNotOp(UnaryOp):
    """All bits inverted."""

    name = "graph.bitwise_not"
    ONNX = ("BitwiseNot",)
    ATEN = ("aten.bitwise_not.default",)
    GAF = ("bitwise_not",)
    KINDS = ("int", "uint")

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("bitnot", Arg(0))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(NotOp if ctx.result.dtype.is_bool else cls, ctx.operands[:1])


@graph_op
class NotOp(UnaryOp):
    """Logical not."""

    name = "graph.not"
    ONNX = ("Not",)
    ATEN = ("aten.logical_not.default",)
    GAF = ("not",)
    KINDS = ("bool",)
    PREDICATE = True

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, [ctx.cast(ctx.operands[0], dt.BOOL)])


@graph_op
class IsNaNOp(UnaryOp):
    """True where x is NaN."""

    name = "graph.isnan"
    ONNX = ("IsNaN",)
    ATEN = ("aten.isnan.default",)
    GAF = ("isnan",)
    PREDICATE = True


@graph_op
class IsInfOp(UnaryOp):
    """True where x is infinite; each sign can be left out."""

    name = "graph.isinf"
    negative = bool_prop()
    positive = bool_prop()
    ONNX = ("IsInf",)
    ATEN = ("aten.isinf.default",)
    GAF = ("isinf",)
    GAF_DEFAULTS = {"negative": True, "positive": True}
    PREDICATE = True
    ONNX_ATTRS = {"negative": ("detect_negative", 1), "positive": ("detect_positive", 1)}

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        signs = {prop: bool(ctx.attr(onnx, default)) for prop, (onnx, default) in cls.ONNX_ATTRS.items()}
        return ctx.emit(cls, ctx.operands[:1], **signs)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, ctx.operands[:1], negative=True, positive=True)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        inf = call("isinf", Arg(0))
        match bool(attrs["negative"]), bool(attrs["positive"]):
            case True, True:
                return inf
            case True, False:
                return call("and", inf, call("lt", Arg(0), 0.0))
            case False, True:
                return call("and", inf, call("gt", Arg(0), 0.0))
            case _:  # neither: false everywhere, also for NaN
                return call("and", inf, call("not", inf))


@graph_op
class RoundOp(UnaryOp):
    """To the nearest integer, ties to even."""

    name = "graph.round"
    ONNX = ("Round",)
    ATEN = ("aten.round.default",)
    GAF = ("round",)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("rint", Arg(0))


@graph_op
class ReluOp(UnaryOp):
    """max(x, 0); NaN stays NaN."""

    name = "graph.relu"
    ONNX = ("Relu",)
    ATEN = ("aten.relu.default",)
    GAF = ("relu",)
    KINDS = ("float", "int")


@graph_op
class ExpOp(UnaryOp):
    """e to the power x."""

    name = "graph.exp"
    ONNX = ("Exp",)
    ATEN = ("aten.exp.default",)
    GAF = ("exp",)


@graph_op
class LogOp(UnaryOp):
    """Natural logarithm."""

    name = "graph.log"
    ONNX = ("Log",)
    ATEN = ("aten.log.default",)
    GAF = ("log",)


@graph_op
class SqrtOp(UnaryOp):
    """Square root."""

    name = "graph.sqrt"
    ONNX = ("Sqrt",)
    ATEN = ("aten.sqrt.default",)
    GAF = ("sqrt",)


@graph_op
class RsqrtOp(UnaryOp):
    """1 / sqrt(x)."""

    name = "graph.rsqrt"
    ATEN = ("aten.rsqrt.default",)
    GAF = ("rsqrt",)


@graph_op
class ReciprocalOp(UnaryOp):
    """1 / x."""

    name = "graph.reciprocal"
    ONNX = ("Reciprocal",)
    ATEN = ("aten.reciprocal.default",)
    GAF = ("reciprocal",)


@graph_op
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""

    name = "graph.tanh"
    ONNX = ("Tanh",)
    ATEN = ("aten.tanh.default",)
    GAF = ("tanh",)


@graph_op
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x)), without overflow."""

    name = "graph.sigmoid"
    ONNX = ("Sigmoid",)
    ATEN = ("aten.sigmoid.default",)
    GAF = ("sigmoid",)


@graph_op
class ErfOp(UnaryOp):
    """Error function."""

    name = "graph.erf"
    ONNX = ("Erf",)
    ATEN = ("aten.erf.default",)
    GAF = ("erf",)


@graph_op
class SinOp(UnaryOp):
    """Sine."""

    name = "graph.sin"
    ONNX = ("Sin",)
    ATEN = ("aten.sin.default",)
    GAF = ("sin",)


@graph_op
class CosOp(UnaryOp):
    """Cosine."""

    name = "graph.cos"
    ONNX = ("Cos",)
    ATEN = ("aten.cos.default",)
    GAF = ("cos",)


@graph_op
class TanOp(UnaryOp):
    """Tangent."""

    name = "graph.tan"
    ONNX = ("Tan",)
    ATEN = ("aten.tan.default",)
    GAF = ("tan",)


@graph_op
class AsinOp(UnaryOp):
    """Inverse sine."""

    name = "graph.asin"
    ONNX = ("Asin",)
    ATEN = ("aten.asin.default",)
    GAF = ("asin",)


@graph_op
class AcosOp(UnaryOp):
    """Inverse cosine."""

    name = "graph.acos"
    ONNX = ("Acos",)
    ATEN = ("aten.acos.default",)
    GAF = ("acos",)


@graph_op
class AtanOp(UnaryOp):
    """Inverse tangent."""

    name = "graph.atan"
    ONNX = ("Atan",)
    ATEN = ("aten.atan.default",)
    GAF = ("atan",)


@graph_op
class SinhOp(UnaryOp):
    """Hyperbolic sine."""

    name = "graph.sinh"
    ONNX = ("Sinh",)
    ATEN = ("aten.sinh.default",)
    GAF = ("sinh",)


@graph_op
class CoshOp(UnaryOp):
    """Hyperbolic cosine."""

    name = "graph.cosh"
    ONNX = ("Cosh",)
    ATEN = ("aten.cosh.default",)
    GAF = ("cosh",)


@graph_op
class AsinhOp(UnaryOp):
    """Inverse hyperbolic sine."""

    name = "graph.asinh"
    ONNX = ("Asinh",)
    ATEN = ("aten.asinh.default",)
    GAF = ("asinh",)


@graph_op
class AcoshOp(UnaryOp):
    """Inverse hyperbolic cosine."""

    name = "graph.acosh"
    ONNX = ("Acosh",)
    ATEN = ("aten.acosh.default",)
    GAF = ("acosh",)


@graph_op
class AtanhOp(UnaryOp):
    """Inverse hyperbolic tangent."""

    name = "graph.atanh"
    ONNX = ("Atanh",)
    ATEN = ("aten.atanh.default",)
    GAF = ("atanh",)


@graph_op
class FloorOp(UnaryOp):
    """The largest integer <= x."""

    name = "graph.floor"
    ONNX = ("Floor",)
    ATEN = ("aten.floor.default",)
    GAF = ("floor",)


@graph_op
class CeilOp(UnaryOp):
    """The smallest integer >= x."""

    name = "graph.ceil"
    ONNX = ("Ceil",)
    ATEN = ("aten.ceil.default",)
    GAF = ("ceil",)


@graph_op
class TruncOp(UnaryOp):
    """The integer part, towards zero."""

    name = "graph.trunc"
    ATEN = ("aten.trunc.default",)
    GAF = ("trunc",)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        # ONNX has no Trunc: sign(x) * floor(|x|)
        size = ctx.node("Floor", ctx.node("Abs", inputs, 1), 1)[0]
        return ctx.node("Mul", [ctx.node("Sign", inputs, 1)[0], size])
