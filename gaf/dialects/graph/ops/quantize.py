# SPDX-License-Identifier: Apache-2.0
"""Quantisation to 8 bits and products of quantised matrices, written with float ops that are exact on them."""

from __future__ import annotations

from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div, expr
from gaf.dialects.graph.contract import ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import norm_axis, number
from gaf.dialects.graph.ops.compare import EqualOp, WhereOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.matmul import matmul
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMinOp
from gaf.dialects.graph.ops.shape import ReshapeOp
from gaf.dialects.graph.ops.slice import sliced
from gaf.dialects.graph.ops.unary import NegOp, RoundOp

BOUNDS = {dt.U8: (0, 255), dt.I8: (-128, 127), dt.U16: (0, 65535), dt.I16: (-32768, 32767)}
"""Lowest and highest value of the quantised types."""

EXACT = 1 << 24
"""Integers up to here are exact in float32."""


def as_float(ctx: ImportContext, x: Any) -> Any:
    """x in float32."""
    return x if tensor_type(x).dtype == dt.F32 else ctx.emit(CastOp, [x], to=dt.F32)


def constant(ctx: ImportContext, value: float) -> Any:
    return ctx.constant_value(number(value, dt.F32))


def aligned(ctx: ImportContext, parameter: Any, x: Any, axis: int) -> Any:
    """A scale or zero point of one element, or one for each of dim `axis` of x, such that it broadcasts to x."""
    shape, rank = tensor_type(parameter).shape, tensor_type(x).rank
    if len(shape) == 1 and shape[0] != 1:
        axis = norm_axis(axis, rank, ctx.op_type)
        return ctx.emit(ReshapeOp, [parameter], shape=tuple(shape[0] if i == axis else const(1) for i in range(rank)))
    return ctx.emit(ReshapeOp, [parameter], shape=()) if len(shape) == 1 else parameter


def in_blocks(ctx: ImportContext, x: Any, parameters: list[Any], axis: int, block: int) -> tuple[Any, list[Any]]:
    """x with dim `axis` as [blocks, block], and parameters with a value for each block accordingly."""
    shape = tensor_type(x).shape
    axis = norm_axis(axis, len(shape), ctx.op_type)
    blocks = exact_div(shape[axis], expr(block))
    if blocks is None:
        raise ctx.unsupported("a dim that blocks don't divide", expected=f"a multiple of {block}", got=shape[axis])
    x = ctx.emit(ReshapeOp, [x], shape=(*shape[:axis], blocks, const(block), *shape[axis + 1 :]))
    wide = []
    for parameter in parameters:
        own = tensor_type(parameter).shape
        wide.append(ctx.emit(ReshapeOp, [parameter], shape=(*own[: axis + 1], const(1), *own[axis + 1 :])))
    return x, wide


def quantized(ctx: ImportContext, ratio: Any, zero: Any | None, target: dt.DType) -> Any:
    """round(ratio) + zero, saturated, as `target`; all in float32, where these integers are exact."""
    low, high = BOUNDS[target]
    y = ctx.emit(RoundOp, [ratio])
    if zero is not None:
        y = ctx.emit(AddOp, [y, as_float(ctx, zero)])
    y = ctx.emit(MinOp, [ctx.emit(MaxOp, [y, constant(ctx, low)]), constant(ctx, high)])
    return ctx.emit(CastOp, [y], to=target)


def centred(ctx: ImportContext, x: Any, zero: Any | None) -> Any:
    """x - zero in float32, exactly."""
    x = as_float(ctx, x)
    return x if zero is None else ctx.emit(SubOp, [x, as_float(ctx, zero)])


class QuantizeLinear(Expansion):
    """round(x / scale) + zero point, saturated to 8 or 16 bits; one scale, one per element of an axis, or per block."""

    ONNX = ("QuantizeLinear",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, scale, zero = ctx.operands[0], ctx.operands[1], ctx.operand(2)
        if zero is not None:
            target = tensor_type(zero).dtype
        else:
            code = int(ctx.attr("output_dtype", 0))
            target = dt.of_onnx(code) if code else dt.U8
        if target not in BOUNDS:
            raise ctx.unsupported(f"quantisation to {target}", expected=", ".join(map(str, BOUNDS)))
        shape, axis, block = tensor_type(x).shape, int(ctx.attr("axis", 1)), int(ctx.attr("block_size", 0))
        parameters = [p for p in (scale, zero) if p is not None]
        if block:
            x, parameters = in_blocks(ctx, x, parameters, axis, block)
        else:
            parameters = [aligned(ctx, p, x, axis) for p in parameters]
        ratio = ctx.emit(DivOp, [as_float(ctx, x), as_float(ctx, parameters[0])])
        y = quantized(ctx, ratio, parameters[1] if zero is not None else None, target)
        return ctx.emit(ReshapeOp, [y], shape=shape) if block else y


class DequantizeLinear(Expansion):
    """(x - zero point) * scale, computed in float32 and rounded once to the type of the scale."""

    ONNX = ("DequantizeLinear",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, scale, zero = ctx.operands[0], ctx.operands[1], ctx.operand(2)
        kind = tensor_type(x).dtype
        if kind not in BOUNDS and kind != dt.I32:
            raise ctx.unsupported(f"dequantisation of {kind}", expected=", ".join(map(str, (*BOUNDS, dt.I32))))
        code = int(ctx.attr("output_dtype", 0))
        target = dt.of_onnx(code) if code else tensor_type(scale).dtype
        shape, axis, block = tensor_type(x).shape, int(ctx.attr("axis", 1)), int(ctx.attr("block_size", 0))
        parameters = [p for p in (scale, zero) if p is not None]
        if block:
            x, parameters = in_blocks(ctx, x, parameters, axis, block)
        else:
            parameters = [aligned(ctx, p, x, axis) for p in parameters]
        y = centred(ctx, x, parameters[1] if zero is not None else None)
        y = ctx.emit(MulOp, [y, as_float(ctx, parameters[0])])
        y = y if target == dt.F32 else ctx.emit(CastOp, [y], to=target)
        return ctx.emit(ReshapeOp, [y], shape=shape) if block else y


class DynamicQuantizeLinear(Expansion):
    """x as uint8 with the scale and zero point that its own range, widened to hold 0, gives."""

    ONNX = ("DynamicQuantizeLinear",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        axes = tuple(range(tensor_type(x).rank))
        zero = constant(ctx, 0.0)
        high = ctx.emit(MaxOp, [ctx.emit(ReduceMaxOp, [x], axes=axes, keepdims=False), zero])
        low = ctx.emit(MinOp, [ctx.emit(ReduceMinOp, [x], axes=axes, keepdims=False), zero])
        scale = ctx.emit(DivOp, [ctx.emit(SubOp, [high, low]), constant(ctx, 255.0)])
        # zeros only: any divisor gives zeros
        divisor = ctx.emit(WhereOp, [ctx.emit(EqualOp, [scale, zero]), constant(ctx, 1.0), scale])
        point = quantized(ctx, ctx.emit(DivOp, [ctx.emit(NegOp, [low]), divisor]), None, dt.U8)
        return [quantized(ctx, ctx.emit(DivOp, [x, divisor]), point, dt.U8), scale, point]


def exact_matmul(ctx: ImportContext, a: Any, b: Any, zeros: tuple[Any | None, Any | None]) -> Any:
    """(a - zero) @ (b - zero) of 8-bit matrices as int32, or float32 where all sums are exact in it.

    Products of 8-bit numbers are exact in float32, and so are sums of them below 2**24: the summed axis is cut
    into pieces that short, whose sums are added as int32.
    """
    most = 1
    for x, zero in zip((a, b), zeros):
        if tensor_type(x).dtype not in (dt.U8, dt.I8):
            raise ctx.unsupported(f"a quantised product of {tensor_type(x).dtype}", expected="ui8 or i8")
        symmetric = tensor_type(x).dtype == dt.I8 and zero is None
        most *= 128 if symmetric else 255
    length = tensor_type(a).shape[-1].as_int()
    if length is None:
        raise ctx.unsupported("a quantised product over a symbolic axis", hint="fix it with --input-shape")
    left, right = centred(ctx, a, zeros[0]), centred(ctx, b, zeros[1])
    piece = EXACT // most
    total = None
    rank_a, rank_b = tensor_type(a).rank, tensor_type(b).rank
    for first in range(0, length, piece):
        last = min(length, first + piece)
        parts = [left, right]
        if length > piece:
            part: tuple[Expr, Expr, int] = (const(first), const(last - first), 1)
            parts = [
                sliced(ctx, left, {rank_a - 1: part}),
                sliced(ctx, right, {max(rank_b - 2, 0): part}),
            ]
        product = matmul(ctx, *parts)
        if length <= piece:
            return product
        product = ctx.emit(CastOp, [product], to=dt.I32)
        total = product if total is None else ctx.emit(AddOp, [total, product])
    return total


def matrix_zero(ctx: ImportContext, zero: Any | None, axis: int) -> Any | None:
    """A zero point of one element, or one for each row (axis -2) or column (axis -1), such that it broadcasts."""
    if zero is None or tensor_type(zero).rank != 1:
        return zero
    size = tensor_type(zero).shape[0]
    if size == 1:
        return ctx.emit(ReshapeOp, [zero], shape=())
    return ctx.emit(ReshapeOp, [zero], shape=(size, const(1)) if axis == -2 else (const(1), size))


class MatMulInteger(Expansion):
    """The int32 product of two 8-bit matrices, less their zero points."""

    ONNX = ("MatMulInteger",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        a, b = ctx.operands[:2]
        zeros = matrix_zero(ctx, ctx.operand(2), -2), matrix_zero(ctx, ctx.operand(3), -1)
        y = exact_matmul(ctx, a, b, zeros)
        return y if tensor_type(y).dtype == dt.I32 else ctx.emit(CastOp, [y], to=dt.I32)


class QLinearMatMul(Expansion):
    """The product of two quantised matrices, quantised again."""

    ONNX = ("QLinearMatMul",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = ctx.operands[:8]
        zeros = matrix_zero(ctx, a_zero, -2), matrix_zero(ctx, b_zero, -1)
        product = as_float(ctx, exact_matmul(ctx, a, b, zeros))
        scales = [as_float(ctx, matrix_zero(ctx, s, axis)) for s, axis in ((a_scale, -2), (b_scale, -1), (y_scale, -1))]
        factor = ctx.emit(DivOp, [ctx.emit(MulOp, scales[:2]), scales[2]])
        ratio = ctx.emit(MulOp, [product, factor])
        return quantized(ctx, ratio, matrix_zero(ctx, y_zero, -1), tensor_type(y_zero).dtype)
