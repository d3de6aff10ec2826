# SPDX-License-Identifier: Apache-2.0
"""Activation functions: elementwise formulas over primitive scalar functions, safe for large |x|."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.scalar import Arg, Scalar, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    ImportContext,
    float_prop,
    graph_op,
    str_prop,
)
from gaf.dialects.graph.ops.common import body_to_onnx
from gaf.dialects.graph.ops.unary import UnaryOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

X = Arg(0)


def clamp01(value: Scalar) -> Scalar:
    """max(0, min(1, value))."""
    return call("max", call("min", value, 1.0), 0.0)


@graph_op
class LeakyReluOp(UnaryOp):
    """x where x >= 0, else alpha * x."""

    name = "graph.leaky_relu"
    alpha = float_prop()
    ONNX = ("LeakyRelu",)
    ATEN = ("aten.leaky_relu.default",)
    GAF = ("leaky_relu",)
    ONNX_ATTRS = {"alpha": ("alpha", 0.01)}
    ATEN_ATTRS = {"alpha": ("negative_slope", 0.01)}

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("select", call("lt", X, 0.0), X * attrs["alpha"], X)


@graph_op
class ThresholdedReluOp(UnaryOp):
    """x where x > alpha, else 0."""

    name = "graph.thresholded_relu"
    alpha = float_prop()
    ONNX = ("ThresholdedRelu",)
    GAF = ("thresholded_relu",)
    ONNX_ATTRS = {"alpha": ("alpha", 1.0)}

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("select", call("gt", X, attrs["alpha"]), X, 0.0)


@graph_op
class EluOp(UnaryOp):
    """x where x >= 0, else alpha * (exp(x) - 1)."""

    name = "graph.elu"
    alpha = float_prop()
    ONNX = ("Elu",)
    ATEN = ("aten.elu.default",)
    GAF = ("elu",)
    ONNX_ATTRS = {"alpha": ("alpha", 1.0)}
    ATEN_ATTRS = {"alpha": ("alpha", 1.0)}

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.attr("scale", 1) != 1 or ctx.attr("input_scale", 1) != 1:
            raise ctx.unsupported("elu with a scale", expected="scale and input_scale of 1")
        return super().from_aten(ctx)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        # exp of min(x, 0): the branch that is not taken must not overflow
        below = (call("exp", call("min", X, 0.0)) - 1.0) * attrs["alpha"]
        return call("select", call("lt", X, 0.0), below, X)


@graph_op
class SeluOp(UnaryOp):
    """gamma * x where x > 0, else gamma * (alpha * exp(x) - alpha)."""

    name = "graph.selu"
    alpha = float_prop()
    gamma = float_prop()
    ONNX = ("Selu",)
    ATEN = ("aten.selu.default",)
    GAF = ("selu",)
    # the defaults of the ONNX standard, which are float32 values
    ONNX_ATTRS = {"alpha": ("alpha", 1.6732631921768188), "gamma": ("gamma", 1.0507010221481323)}

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        # the constants of Klambauer et al., "Self-normalizing neural networks" (2017), in double precision
        x = ctx.cast(ctx.operands[0], ctx.result.dtype)
        return ctx.emit(cls, [x], alpha=1.6732632423543772, gamma=1.0507009873554805)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        below = (call("exp", call("min", X, 0.0)) - 1.0) * attrs["alpha"]
        return call("select", call("gt", X, 0.0), X, below) * attrs["gamma"]


@graph_op
class CeluOp(UnaryOp):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    name = "graph.celu"
    alpha = float_prop()
    ONNX = ("Celu",)
    ATEN = ("aten.celu.default",)
    GAF = ("celu",)
    ONNX_ATTRS = {"alpha": ("alpha", 1.0)}
    ATEN_ATTRS = {"alpha": ("alpha", 1.0)}
    ONNX_SINCE = 12

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        alpha = attrs["alpha"]
        if alpha > 0:
            below = (call("exp", call("min", X, 0.0) / alpha) - 1.0) * alpha
            return call("select", call("lt", X, 0.0), below, X)
        curve = (call("exp", X / alpha) - 1.0) * alpha
        return call("max", X, 0.0) + call("min", curve, 0.0)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if attrs["alpha"] == 0:
            raise InvalidInputError("graph.celu: alpha is zero", expected="another value; relu has no alpha")
        return super().infer(operands, attrs)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        if self.operand_tensor_types()[0].dtype != dt.F32:  # ONNX Celu takes float32 only
            return body_to_onnx(ctx, self.body(self.attrs()), inputs, self.operand_tensor_types()[0].dtype)
        return super().to_onnx(ctx, inputs)


@graph_op
class HardSigmoidOp(UnaryOp):
    """max(0, min(1, alpha * x + beta))."""

    name = "graph.hard_sigmoid"
    alpha = float_prop()
    beta = float_prop()
    ONNX = ("HardSigmoid",)
    ATEN = ("aten.hardsigmoid.default",)
    GAF = ("hard_sigmoid",)
    ONNX_ATTRS = {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, ctx.operands[:1], alpha=1.0 / 6.0, beta=0.5)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return clamp01(X * attrs["alpha"] + attrs["beta"])


@graph_op
class HardSwishOp(UnaryOp):
    """x * max(0, min(1, x / 6 + 1 / 2))."""

    name = "graph.hard_swish"
    ONNX = ("HardSwish",)
    ATEN = ("aten.hardswish.default",)
    GAF = ("hard_swish",)
    ONNX_SINCE = 14

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return X * clamp01(X / 6.0 + 0.5)


@graph_op
class SoftplusOp(UnaryOp):
    """log(1 + exp(x)), written as max(x, 0) + log(1 + exp(-|x|)) so that exp can't overflow."""

    name = "graph.softplus"
    ONNX = ("Softplus",)
    ATEN = ("aten.softplus.default",)
    GAF = ("softplus",)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        # PyTorch switches to x above the threshold; at 20 the difference is 2e-9, which float32 can't hold
        if ctx.attr("beta", 1) != 1 or ctx.attr("threshold", 20) < 20 or ctx.result.dtype == dt.F64:
            raise ctx.unsupported(
                "softplus with another slope or a low threshold", expected="beta 1, threshold 20"
            )
        return super().from_aten(ctx)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("max", X, 0.0) + call("log", call("exp", -call("abs", X)) + 1.0)


@graph_op
class SoftsignOp(UnaryOp):
    """x / (1 + |x|)."""

    name = "graph.softsign"
    ONNX = ("Softsign",)
    GAF = ("softsign",)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return X / (call("abs", X) + 1.0)


@graph_op
class GeluOp(UnaryOp):
    """x/2 * (1 + erf(x / sqrt(2))), or with `approximate = "tanh"` Hendrycks' tanh formula."""

    name = "graph.gelu"
    approximate = str_prop()
    ONNX = ("Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu")
    ATEN = ("aten.gelu.default",)
    GAF = ("gelu",)
    ONNX_ATTRS = {"approximate": ("approximate", "none")}
    ATEN_ATTRS = {"approximate": ("approximate", "none")}
    ONNX_SINCE = 20

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        fast = ctx.op_type == "FastGelu"
        approximate = "tanh" if fast else ctx.attr("approximate", "none")
        x = ctx.operands[0]
        bias = ctx.operand(1) if fast else None
        if bias is not None:  # com.microsoft.FastGelu takes an optional bias
            from gaf.dialects.graph.ops.binary import AddOp

            x = ctx.emit(AddOp, [x, bias])
        return ctx.emit(cls, [x], approximate=approximate)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if attrs["approximate"] not in ("none", "tanh"):
            raise InvalidInputError(
                "graph.gelu: unknown approximation", expected="none or tanh", got=attrs["approximate"]
            )
        return super().infer(operands, attrs)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        if attrs["approximate"] == "tanh":
            inner = (X + X * X * X * 0.044715) * math.sqrt(2.0 / math.pi)
            return X * 0.5 * (call("tanh", inner) + 1.0)
        return X * 0.5 * (call("erf", X * math.sqrt(0.5)) + 1.0)


@graph_op
class MishOp(UnaryOp):
    """x * tanh(softplus(x)).

    With u = exp(-|x|), tanh(log(1 + e^x)) is (1 + 2u) / (1 + 2u + 2u^2) for x >= 0 and
    (u^2 + 2u) / (u^2 + 2u + 2) below: no overflow, no cancellation.
    """

    name = "graph.mish"
    ONNX = ("Mish",)
    ATEN = ("aten.mish.default",)
    GAF = ("mish",)
    ONNX_SINCE = 18

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        u = call("exp", -call("abs", X))
        negative = call("lt", X, 0.0)
        top = call("select", negative, u * (u + 2.0), u * 2.0 + 1.0)
        rest = call("select", negative, 2.0, u * u * 2.0)
        return X * (top / (top + rest))


@graph_op
class SiluOp(UnaryOp):
    """x * sigmoid(alpha * x); alpha = 1 is SiLU, 1.702 is QuickGELU."""

    name = "graph.silu"
    alpha = float_prop()
    ONNX = ("Swish", "com.microsoft.QuickGelu")
    ATEN = ("aten.silu.default",)
    GAF = ("silu", "swish")
    ONNX_ATTRS = {"alpha": ("alpha", 1.0)}
    ONNX_SINCE = 24

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        default = 1.702 if ctx.op_type == "QuickGelu" else 1.0
        return ctx.emit(cls, ctx.operands[:1], alpha=float(ctx.attr("alpha", default)))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, ctx.operands[:1], alpha=1.0)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        scaled = X if attrs["alpha"] == 1.0 else X * attrs["alpha"]
        return X * call("sigmoid", scaled)
