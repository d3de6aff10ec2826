# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic on two operands that broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.scalar import Arg, Scalar, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    broadcast_shapes,
    graph_op,
    tensor_type,
)
from gaf.dialects.graph.meaning import Meaning, elementwise
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import NUMERIC, apply_body, check_kind, format_dims, same_dtype
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError

A, B = Arg(0), Arg(1)


class BinaryOp(GraphOp):
    """Base: both operands have one dtype, which is the result's; shapes broadcast.

    16-bit floats are computed in float32 and rounded once.
    """

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    KINDS: ClassVar[tuple[str, ...]] = NUMERIC
    SCALAR: ClassVar[str] = ""  # name in the scalar table
    LOGIC: ClassVar[str] = ""  # the op that ATen's call means on bools
    ONNX_SINCE: ClassVar[int] = 7

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        """The formula on Arg(0) and Arg(1)."""
        return call(cls.SCALAR, A, B)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        dtype = same_dtype(operands, cls.name)
        check_kind(dtype, cls.KINDS, cls.name)
        return [TensorType.of(broadcast_shapes([o.shape for o in operands], cls.name), dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return apply_body(self.body(self.attrs()), args, self.result_tensor_types()[0].dtype, wide)

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        return elementwise(
            r.shape, [o.shape for o in self.operand_tensor_types()], self.body(self.attrs()), r.dtype
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.opset < 7 and (ctx.attr("broadcast", 0) or ctx.attr("axis") is not None):
            raise ctx.unsupported(
                "broadcasting by attribute (opset 6 and older)",
                hint="convert the model with onnx.version_converter",
            )
        return super().from_onnx(ctx)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        from gaf.dialects.graph.ops import compare

        logic = cls.LOGIC and ctx.result.dtype.is_bool
        op = getattr(compare, cls.LOGIC) if logic else cls
        return ctx.emit(op, cls.aten_operands(ctx, ctx.result.dtype), **cls.aten_attributes(ctx))

    @classmethod
    def aten_operands(cls, ctx: AtenContext, dtype: dt.DType) -> list[Any]:
        """The two operands of an ATen call in the type that is computed in; the second times `alpha`."""
        second = ctx.value("other", dtype)
        alpha = ctx.attr("alpha", 1)
        if alpha != 1:
            second = ctx.emit(MulOp, [second, ctx.number(alpha, dtype)])
        return [ctx.value("self", dtype), second]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        if ctx.opset < self.ONNX_SINCE:
            raise UnsupportedError(
                f"{self.name} needs a newer ONNX opset",
                where=self.location_name(),
                expected=f"opset {self.ONNX_SINCE} or later",
                got=ctx.opset,
            )
        return super().to_onnx(ctx, inputs)


@graph_op
class AddOp(BinaryOp):
    """a + b."""

    name = "graph.add"
    ONNX = ("Add",)
    ATEN = ("aten.add.Tensor", "aten.add.Scalar")
    GAF = ("add",)
    SCALAR = "add"
    LOGIC = "OrOp"
    traits = traits_def(Pure(), Commutative())


@graph_op
class SubOp(BinaryOp):
    """a - b."""

    name = "graph.sub"
    ONNX = ("Sub",)
    ATEN = ("aten.sub.Tensor", "aten.sub.Scalar", "aten.rsub.Tensor", "aten.rsub.Scalar")
    GAF = ("sub",)
    SCALAR = "sub"

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        dtype = ctx.result.dtype
        if not ctx.op_type.startswith("aten.rsub"):
            return super().from_aten(ctx)
        first, second, alpha = ctx.value("self", dtype), ctx.value("other", dtype), ctx.attr("alpha", 1)
        first = first if alpha == 1 else ctx.emit(MulOp, [first, ctx.number(alpha, dtype)])
        return ctx.emit(cls, [second, first])


@graph_op
class MulOp(BinaryOp):
    """a * b."""

    name = "graph.mul"
    ONNX = ("Mul",)
    ATEN = ("aten.mul.Tensor", "aten.mul.Scalar")
    GAF = ("mul",)
    SCALAR = "mul"
    LOGIC = "AndOp"
    traits = traits_def(Pure(), Commutative())


@graph_op
class DivOp(BinaryOp):
    """a / b; integers truncate towards zero."""

    name = "graph.div"
    ONNX = ("Div",)
    ATEN = ("aten.div.Tensor", "aten.div.Scalar")
    GAF = ("div",)
    SCALAR = "div"


@graph_op
class PowOp(BinaryOp):
    """a to the power b. Integers wrap around; a negative integer power is 0 (1 and -1 excepted)."""

    name = "graph.pow"
    ONNX = ("Pow",)
    ATEN = ("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
    GAF = ("pow",)
    SCALAR = "pow"
    ONNX_SINCE = 12

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        # ONNX lets base and exponent differ; the result has the base's type.
        base, exponent = ctx.operands[:2]
        base_type, exponent_type = tensor_type(base).dtype, tensor_type(exponent).dtype
        if base_type == exponent_type:
            return ctx.emit(cls, [base, exponent])
        if exponent_type.is_float and not base_type.is_float:
            power = ctx.emit(cls, [ctx.emit(CastOp, [base], to=exponent_type), exponent])
            return ctx.emit(CastOp, [power], to=base_type)
        return ctx.emit(cls, [base, ctx.emit(CastOp, [exponent], to=base_type)])

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        dtype = ctx.result.dtype
        base = ctx.value("self", dtype)
        if ctx.op_type == "aten.pow.Tensor_Scalar" and ctx.attr("exponent") == 2:
            return ctx.emit(MulOp, [base, base])
        return ctx.emit(cls, [base, ctx.value("exponent", dtype)])

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        base, exponent = args
        if base.dtype.kind in "iu" and np.any(exponent < 0):  # numpy refuses these
            base, exponent = np.broadcast_arrays(base, exponent)
            power = np.power(base, np.maximum(exponent, 0))
            inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2, -1, 1), 0))
            return [np.where(exponent < 0, inverse, power).astype(base.dtype)]
        return super().reference(*args, wide=wide)


class ExtremumOp(BinaryOp):
    """Base of max and min; ONNX's take any number of operands and become a chain."""

    ONNX_SINCE = 8
    traits = traits_def(Pure(), Commutative())

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        operands = [o for o in ctx.operands if o is not None]
        if not operands:
            raise ctx.unsupported(f"{ctx.op_type} without operands")
        result = operands[0]
        for operand in operands[1:]:
            result = ctx.emit(cls, [result, operand])
        return result


@graph_op
class MaxOp(ExtremumOp):
    """The larger of a and b; NaN if either is NaN."""

    name = "graph.max"
    ONNX = ("Max",)
    ATEN = ("aten.maximum.default",)
    GAF = ("max",)
    SCALAR = "max"


@graph_op
class MinOp(ExtremumOp):
    """The smaller of a and b; NaN if either is NaN."""

    name = "graph.min"
    ONNX = ("Min",)
    ATEN = ("aten.minimum.default",)
    GAF = ("min",)
    SCALAR = "min"


@graph_op
class ModOp(BinaryOp):
    """The remainder of a / b: with the sign of b, or with `fmod` the sign of a (as C's fmod)."""

    name = "graph.mod"
    fmod = bool_prop()
    ONNX = ("Mod",)
    ATEN = (
        "aten.remainder.Tensor",
        "aten.remainder.Scalar",
        "aten.remainder.Scalar_Tensor",
        "aten.fmod.Tensor",
        "aten.fmod.Scalar",
    )
    GAF = ("mod",)
    GAF_DEFAULTS = {"fmod": False}
    ONNX_SINCE = 10

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("fmod" if attrs["fmod"] else "floormod", A, B)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        operands = cls.aten_operands(ctx, ctx.result.dtype)
        return ctx.emit(cls, operands, fmod=ctx.op_type.startswith("aten.fmod"))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.emit(cls, ctx.operands[:2], fmod=bool(ctx.attr("fmod", 0)))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        fmod = bool(self.attrs()["fmod"])
        if fmod or not self.operand_tensor_types()[0].dtype.is_float:
            return ctx.node("Mod", inputs, fmod=int(fmod))
        # ONNX has no floor modulo on floats: a - b * floor(a / b)
        quotient = ctx.node("Floor", ctx.node("Div", inputs, 1), 1)[0]
        return ctx.node("Sub", [inputs[0], ctx.node("Mul", [inputs[1], quotient], 1)[0]])


@graph_op
class PReluOp(BinaryOp):
    """x where x >= 0, else slope * x; the slope broadcasts to x, never the other way."""

    name = "graph.prelu"
    ONNX = ("PRelu",)
    ATEN = ("aten.prelu.default", "aten._prelu_kernel.default")
    GAF = ("prelu",)

    @classmethod
    def body(cls, attrs: Mapping[str, Any]) -> Scalar:
        return call("select", call("lt", A, 0.0), A * B, A)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        from gaf.dialects.graph.ops.shape import ReshapeOp

        x, slope = ctx.operands[:2]
        rank, count = tensor_type(x).rank, tensor_type(slope).num_elements()
        if ctx.op_type == "aten.prelu.default" and rank != 1:  # one slope a channel, which is axis 1
            shape = (count, *[1] * (rank - 2)) if rank > 1 else ()
            slope = ctx.emit(ReshapeOp, [slope], shape=shape)
        return ctx.emit(cls, [x, slope])

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (result,) = super().infer(operands, attrs)
        if result.shape != operands[0].shape:
            raise InvalidInputError(
                "graph.prelu: the slope doesn't broadcast to x",
                expected=f"a shape that broadcasts to {format_dims(operands[0].shape)}",
                got=format_dims(operands[1].shape),
            )
        return [result]


class BitwiseOp(BinaryOp):
    """Base of the bitwise ops on integers."""

    KINDS = ("int", "uint")
    ONNX_SINCE = 18
    traits = traits_def(Pure(), Commutative())


@graph_op
class BitwiseAndOp(BitwiseOp):
    """Bits set in both."""

    name = "graph.bitwise_and"
    ONNX = ("BitwiseAnd",)
    ATEN = ("aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar")
    GAF = ("bitwise_and",)
    SCALAR = "bitand"
    LOGIC = "AndOp"


@graph_op
class BitwiseOrOp(BitwiseOp):
    """Bits set in either."""

    name = "graph.bitwise_or"
    ONNX = ("BitwiseOr",)
    ATEN = ("aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar")
    GAF = ("bitwise_or",)
    SCALAR = "bitor"
    LOGIC = "OrOp"


@graph_op
class BitwiseXorOp(BitwiseOp):
    """Bits set in exactly one."""

    name = "graph.bitwise_xor"
    ONNX = ("BitwiseXor",)
    ATEN = ("aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar")
    GAF = ("bitwise_xor",)
    SCALAR = "bitxor"
    LOGIC = "XorOp"
