# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements to computed positions, written with gathers, scatters and integer arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, product
from gaf.dialects.graph.contract import ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import dim_list, norm_axis, number
from gaf.dialects.graph.ops.compare import AndOp, GreaterOrEqualOp, LessOp, WhereOp
from gaf.dialects.graph.ops.create import FullOp, PositionsOp
from gaf.dialects.graph.ops.index import GatherNDOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.scatter import ScatterElementsOp
from gaf.dialects.graph.ops.shape import TransposeOp, UnsqueezeOp, reshaped
from gaf.dialects.graph.ops.slice import PadOp
from gaf.dialects.graph.ops.unary import FloorOp


def _size(ctx: ImportContext, size: Expr) -> Any:
    """A size as an int32 scalar."""
    known = size.as_int()
    return (
        ctx.constant_value(np.int32(known))
        if known is not None
        else ctx.emit(PositionsOp, [], first=(size,), shape=())
    )


def _column(ctx: ImportContext, x: Any) -> Any:
    """int32 [batch, 1] of an integer vector whose elements are less than 2**31."""
    x = x if tensor_type(x).dtype == dt.I32 else ctx.emit(CastOp, [x], to=dt.I32)
    return ctx.emit(UnsqueezeOp, [x], axes=(1,))


def _row(ctx: ImportContext, size: Expr) -> Any:
    """int32 [1, size]: 0, 1, ..."""
    return ctx.emit(PositionsOp, [], first=(const(0),), shape=(const(1), size))


def _picked(ctx: ImportContext, x: Any, at: Any, batch: int, axis: int) -> Any:
    """x with element `at[b, t]` of `axis` at t, where b is the position along the dim `batch`."""
    rank = tensor_type(x).rank
    perm = (batch, axis, *(i for i in range(rank) if i not in (batch, axis)))
    plain = perm == tuple(range(rank))
    rows = x if plain else ctx.emit(TransposeOp, [x], perm=perm)
    found = ctx.emit(GatherNDOp, [rows, ctx.emit(UnsqueezeOp, [at], axes=(2,))], batch_dims=1, wrap=False)
    back = tuple(perm.index(i) for i in range(rank))
    return found if plain else ctx.emit(TransposeOp, [found], perm=back)


class ReverseSequence(Expansion):
    """The first `lengths[b]` elements of the time axis in reverse order, for each element b of the batch."""

    ONNX = ("ReverseSequence",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, lengths = ctx.operands[:2]
        rank = tensor_type(x).rank
        batch, time = (
            norm_axis(int(ctx.attr(f"{n}_axis", d)), rank, ctx.op_type)
            for n, d in (("batch", 1), ("time", 0))
        )
        if batch == time:
            raise ctx.unsupported("one axis for batch and time", got=batch)
        length, position = _column(ctx, lengths), _row(ctx, tensor_type(x).shape[time])
        mirrored = ctx.emit(SubOp, [ctx.emit(SubOp, [length, ctx.constant_value(np.int32(1))]), position])
        at = ctx.emit(WhereOp, [ctx.emit(LessOp, [position, length]), mirrored, position])
        return _picked(ctx, x, at, batch, time)


class TensorScatter(Expansion):
    """A cache with `update` in place of its elements from `start[b]` on along an axis, past the end (circular) or not."""

    ONNX = ("TensorScatter",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        cache, update, start = ctx.operands[0], ctx.operands[1], ctx.operand(2)
        shape, rank = tensor_type(cache).shape, tensor_type(cache).rank
        axis, circular = (
            norm_axis(int(ctx.attr("axis", -2)), rank, ctx.op_type),
            ctx.attr("mode", "linear") == "circular",
        )
        if axis == 0:
            raise ctx.unsupported("an update along the batch", got="axis 0")
        size, length = shape[axis], tensor_type(update).shape[axis]
        if start is None:
            start = ctx.emit(FullOp, [], shape=(shape[0],), value=np.asarray(0, np.int32))
        first = _column(ctx, start)
        if circular:
            first = _remainder(ctx, first, size)
        zero, end = ctx.constant_value(np.int32(0)), _size(ctx, size)
        at = ctx.emit(SubOp, [_row(ctx, size), first])
        if circular:
            at = ctx.emit(WhereOp, [ctx.emit(LessOp, [at, zero]), ctx.emit(AddOp, [at, end]), at])
        inside = ctx.emit(
            AndOp, [ctx.emit(GreaterOrEqualOp, [at, zero]), ctx.emit(LessOp, [at, _size(ctx, length)])]
        )
        found = _picked(ctx, update, ctx.emit(WhereOp, [inside, at, zero]), 0, axis)
        wide = tuple(shape[0] if i == 0 else size if i == axis else const(1) for i in range(rank))
        return ctx.emit(WhereOp, [reshaped(ctx, inside, wide), found, cache])


def _remainder(ctx: ImportContext, x: Any, size: Expr) -> Any:
    """x modulo size of int32 values from 0 to 2**22, by a float quotient with half a unit more: see `whole_part`."""
    whole, divisor = ctx.emit(CastOp, [x], to=dt.F32), ctx.emit(CastOp, [_size(ctx, size)], to=dt.F32)
    half = ctx.constant_value(number(0.5, dt.F32))
    quotient = ctx.emit(FloorOp, [ctx.emit(DivOp, [ctx.emit(AddOp, [whole, half]), divisor])])
    return ctx.emit(CastOp, [ctx.emit(SubOp, [whole, ctx.emit(MulOp, [quotient, divisor])])], to=dt.I32)


class MaxUnpool(Expansion):
    """Zeros but for the elements of x, each at its flat position in the result of a max pool's operand."""

    ONNX = ("MaxUnpool",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, at = ctx.operands[:2]
        type_, kernel = tensor_type(x), ctx.attr("kernel_shape")
        n = type_.rank - 2
        strides, pads = ctx.attr("strides", (1,) * n), ctx.attr("pads", (0,) * 2 * n)
        if kernel is None or not len(kernel) == len(strides) == n == len(pads) // 2:
            raise ctx.unsupported("a window of another rank than the operand's", got=kernel)
        sizes = [(type_.shape[2 + i] - 1) * strides[i] - pads[i] - pads[n + i] + kernel[i] for i in range(n)]
        shape = (*type_.shape[:2], *map(expr, sizes))
        zeros = ctx.emit(FullOp, [], shape=(product(shape),), value=number(0.0, type_.dtype))
        count = (type_.num_elements(),)
        flat = ctx.emit(
            ScatterElementsOp,
            [zeros, reshaped(ctx, at, count), reshaped(ctx, x, count)],
            axis=0,
            reduction="none",
        )
        result = reshaped(ctx, flat, shape)
        if ctx.operand(2) is None:
            return result
        wanted = dim_list(ctx, 2, "the shape of the result")  # the positions are those of the smaller shape
        after = tuple(w - s for w, s in zip(wanted, shape, strict=True))
        if all(a == 0 for a in after):
            return result
        return ctx.emit(
            PadOp, [result], before=(const(0),) * type_.rank, after=after, mode="constant", value=0.0
        )
