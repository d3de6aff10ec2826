# SPDX-License-Identifier: Apache-2.0
"""ATen calls about statistics, distances and bags of rows, written with other ops at import."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const
from gaf.dialects.graph.contract import AtenContext, tensor_type
from gaf.dialects.graph.ops.aten import expands
from gaf.dialects.graph.ops.binary import AddOp, MulOp, PowOp, SubOp
from gaf.dialects.graph.ops.channel_norm import aten_affine
from gaf.dialects.graph.ops.common import norm_axis
from gaf.dialects.graph.ops.compare import NotEqualOp
from gaf.dialects.graph.ops.einsum import diagonal
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceSumOp,
    aten_axes,
)
from gaf.dialects.graph.ops.shape import UnsqueezeOp, reshaped
from gaf.dialects.graph.ops.unary import AbsOp, RsqrtOp

# -- batch normalisation -----------------------------------------------------------------------------------


@expands("_native_batch_norm_legit_functional.default")
def batch_norm(ctx: AtenContext) -> Any:
    """Batch normalisation with the new running statistics as results: what training mode becomes.

    Results: normalised x, mean and 1 / deviation of the batch, new running mean and variance. The running
    variance counts one element less (Bessel's correction).
    """
    x = ctx.value("input")
    type_, results = tensor_type(x), ctx.results
    kind = dt.F32 if type_.dtype.bits == 16 else type_.dtype
    axes = tuple(i for i in range(type_.rank) if i != 1)
    spread = tuple(type_.shape[1] if i == 1 else const(1) for i in range(type_.rank))
    running = [ctx.value("running_mean", kind), ctx.value("running_var", kind)]
    wide = ctx.cast(x, kind)
    if ctx.attr("training"):
        count = math.prod(type_.shape[a].as_int() or 0 for a in axes)
        if count < 2:
            raise ctx.unsupported("batch statistics over a symbolic or single size", got=type_)
        mean = ctx.emit(ReduceMeanOp, [wide], axes=axes, keepdims=True)
        distance = ctx.emit(SubOp, [wide, mean])
        variance = ctx.emit(ReduceMeanOp, [ctx.emit(MulOp, [distance, distance])], axes=axes, keepdims=True)
        flat = [reshaped(ctx, s, (type_.shape[1],)) for s in (mean, variance)]
        flat[1] = ctx.emit(MulOp, [flat[1], ctx.number(count / (count - 1), kind)])
        running = [_blend(ctx, old, new, kind) for old, new in zip(running, flat)]
    else:
        mean, variance = (reshaped(ctx, s, spread) for s in running)
        distance = ctx.emit(SubOp, [wide, mean])
    factor = ctx.emit(RsqrtOp, [ctx.emit(AddOp, [variance, ctx.number(float(ctx.attr("eps")), kind)])])
    scale, bias = (reshaped(ctx, ctx.cast(p, kind), spread) for p in aten_affine(ctx))
    normal = ctx.emit(AddOp, [ctx.emit(MulOp, [ctx.emit(MulOp, [distance, factor]), scale]), bias])
    saved = [None, None]
    if ctx.attr("training"):
        saved = [reshaped(ctx, s, (type_.shape[1],)) for s in (mean, factor)]
    elif ctx.used(1) or ctx.used(2):
        raise ctx.unsupported("saved statistics of a batch norm in evaluation mode")
    made = [normal, *saved, *running]
    return [None if m is None else ctx.cast(m, r.dtype) for m, r in zip(made, results)]


def _blend(ctx: AtenContext, old: Any, new: Any, kind: dt.DType) -> Any:
    momentum = float(ctx.attr("momentum"))
    kept = ctx.emit(MulOp, [old, ctx.number(1.0 - momentum, kind)])
    return ctx.emit(AddOp, [kept, ctx.emit(MulOp, [new, ctx.number(momentum, kind)])])


# -- norms and distances -----------------------------------------------------------------------------------


@expands("linalg_vector_norm.default")
def vector_norm(ctx: AtenContext) -> Any:
    """The norm of any order over axes: 1, 2, inf, -inf, 0 (how many differ from 0), or (sum |x|^p)^(1/p)."""
    x = ctx.cast(ctx.operands[0], ctx.result.dtype)
    axes = aten_axes(ctx, tensor_type(x).rank)
    return _norm(ctx, x, float(ctx.attr("ord", 2)), axes, bool(ctx.attr("keepdim", False)))


def _norm(ctx: AtenContext, x: Any, order: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    options = {"axes": axes, "keepdims": keepdims}
    kind = tensor_type(x).dtype
    if order in (1.0, 2.0):
        return ctx.emit(ReduceL1Op if order == 1.0 else ReduceL2Op, [x], **options)
    if math.isinf(order):
        if any(tensor_type(x).shape[a] == 0 for a in axes):
            raise ctx.unsupported("the largest of no elements")
        return ctx.emit(ReduceMaxOp if order > 0 else ReduceMinOp, [ctx.emit(AbsOp, [x])], **options)
    if order == 0.0:
        counted = ctx.cast(ctx.emit(NotEqualOp, [x, ctx.number(0.0, kind)]), kind)
        return ctx.emit(ReduceSumOp, [counted], **options)
    powers = ctx.emit(PowOp, [ctx.emit(AbsOp, [x]), ctx.number(order, kind)])
    return ctx.emit(PowOp, [ctx.emit(ReduceSumOp, [powers], **options), ctx.number(1.0 / order, kind)])


@expands("_cdist_forward.default")
def distances(ctx: AtenContext) -> Any:
    """The distance of every row of one matrix to every row of another: a norm of their differences."""
    a, b = ctx.value("x1"), ctx.value("x2")
    rank = tensor_type(a).rank
    pairs = [ctx.emit(UnsqueezeOp, [a], axes=(rank - 1,)), ctx.emit(UnsqueezeOp, [b], axes=(rank - 2,))]
    return _norm(ctx, ctx.emit(SubOp, pairs), float(ctx.attr("p")), (rank,), False)


# -- diagonals and bags ------------------------------------------------------------------------------------


@expands("diagonal.default", "diagonal_copy.default")
def diagonal_of_axes(ctx: AtenContext) -> Any:
    """A diagonal of two axes, which becomes the last axis."""
    x = ctx.value("self")
    rank = tensor_type(x).rank
    first, second = (norm_axis(int(ctx.attr(n, d)), rank, ctx.op_type) for n, d in (("dim1", 0), ("dim2", 1)))
    return diagonal(ctx, x, first, second, int(ctx.attr("offset", 0)), ctx.result.shape[-1])


@expands("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(ctx: AtenContext) -> Any:
    """Rows of a table looked up and folded, one bag a result, where all bags have the same size."""
    if any(ctx.used(i) for i in (1, 2, 3)):
        raise ctx.unsupported("the buffers of embedding_bag")
    if int(ctx.attr("padding_idx", -1)) >= 0:
        raise ctx.unsupported("bags with a padding index")
    table, indices = ctx.value("weight"), ctx.value("indices")
    offsets = ctx.constant(2)
    count, bags = tensor_type(indices).shape[0].as_int(), ctx.result.shape[0].as_int()
    size = count // bags if count and bags else 0
    if offsets is None or not size or not np.array_equal(offsets[:bags], np.arange(bags) * size):
        raise ctx.unsupported("bags of unequal or unknown size")
    if size * bags != count:
        raise ctx.unsupported("bags of unequal size")
    places = reshaped(ctx, indices, (const(bags or 0), const(size)))
    rows = ctx.emit(GatherOp, [table, places], axis=0, wrap=False)
    if ctx.has("per_sample_weights"):
        weights = reshaped(ctx, ctx.value("per_sample_weights"), (const(bags or 0), const(size), const(1)))
        rows = ctx.emit(MulOp, [rows, weights])
    fold = (ReduceSumOp, ReduceMeanOp, ReduceMaxOp)[int(ctx.attr("mode", 0))]
    return [ctx.emit(fold, [rows], axes=(1,), keepdims=False), None, None, None]
