# SPDX-License-Identifier: Apache-2.0
"""ATen calls that lay windows of an axis side by side, written with reshapes, slices and lookups at import."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaf.dialects.common.index import const
from gaf.dialects.graph.contract import AtenContext, tensor_type
from gaf.dialects.graph.ops.aten import expands
from gaf.dialects.graph.ops.common import norm_axis
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.shape import TransposeOp, reshaped
from gaf.dialects.graph.ops.slice import ConcatOp, sliced

MOST_PARTS = 8
"""Parts that a window is put together from; beyond that its elements are looked up."""


@expands("unfold.default", "unfold_copy.default")
def unfold(ctx: AtenContext) -> Any:
    """Windows of `size` elements of an axis, `step` apart: the axis counts them, a new last axis is their elements.

    Windows side by side are a reshape. Where the step divides the size, they are neighbouring parts, joined.
    """
    x, size, step = ctx.value("self"), int(ctx.attr("size")), int(ctx.attr("step"))
    shape = tensor_type(x).shape
    if not shape or size < 1:
        raise ctx.unsupported("windows of a scalar, or of no elements")
    axis = norm_axis(int(ctx.attr("dimension")), len(shape), ctx.op_type)
    count = ctx.result.shape[axis]
    parts = size // step
    if size % step == 0 and parts <= MOST_PARTS:
        window = (*shape[:axis], count, const(step), *shape[axis + 1 :])
        pieces = [reshaped(ctx, sliced(ctx, x, {axis: (const(k * step), count * step, 1)}), window) for k in range(parts)]
        windows = ctx.emit(ConcatOp, pieces, axis=axis + 1) if parts > 1 else pieces[0]
    elif (known := count.as_int()) is not None:
        places = np.arange(known)[:, None] * step + np.arange(size)
        windows = ctx.emit(GatherOp, [x, ctx.constant_value(places)], axis=axis, wrap=False)
    else:
        raise ctx.unsupported("windows of a symbolic axis whose step doesn't divide their size", got=tensor_type(x))
    rank = len(shape) + 1
    perm = (*(i for i in range(rank) if i != axis + 1), axis + 1)
    return windows if perm == tuple(range(rank)) else ctx.emit(TransposeOp, [windows], perm=perm)
