# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention, written with matmuls, a mask and a softmax at import."""

from __future__ import annotations

import math
from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div
from gaf.dialects.graph.contract import ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import format_dims, number
from gaf.dialects.graph.ops.compare import AndOp, GreaterOrEqualOp, LessOp, LessOrEqualOp, WhereOp
from gaf.dialects.graph.ops.create import PositionsOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import ConcatOp, PadOp
from gaf.dialects.graph.ops.softmax import SafeSoftmaxOp, SoftmaxOp
from gaf.dialects.graph.ops.unary import TanhOp

BATCH, HEADS, LENGTH = 0, 1, 2
"""Axes of queries, keys and values once heads are apart."""


class Attention(Expansion):
    """softmax(scale * q @ k' + bias) @ v for each head; a query without any key gives zeros.

    q is [batch, heads, queries, size] or [batch, queries, heads * size], k and v accordingly, maybe with fewer
    heads (each serves a group of query heads). The mask (bool: takes part; float: added) broadcasts to
    [batch, heads, queries, keys]. The scale is applied to the product in float32, where ONNX applies its root to
    both factors.
    """

    ONNX = ("Attention",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        q, k, v = ctx.operands[:3]
        flat = tensor_type(q).rank == 3
        if flat:
            q_heads, kv_heads = ctx.attr("q_num_heads"), ctx.attr("kv_num_heads")
            if not q_heads or not kv_heads:
                raise ctx.unsupported("attention on rank-3 operands without q_num_heads and kv_num_heads")
            q = apart(ctx, q, int(q_heads))
            k, v = apart(ctx, k, int(kv_heads)), apart(ctx, v, int(kv_heads))
        if any(tensor_type(x).rank != 4 for x in (q, k, v)):
            raise ctx.unsupported("attention operands of this rank", expected="rank 3 or 4", got=tensor_type(q))
        past = const(0)
        if ctx.operand(4) is not None and ctx.operand(5) is not None:
            past = tensor_type(ctx.operand(4)).shape[LENGTH]
            k = ctx.emit(ConcatOp, [ctx.operand(4), k], axis=LENGTH)
            v = ctx.emit(ConcatOp, [ctx.operand(5), v], axis=LENGTH)
        y, scores = cls.attend(ctx, q, k, v, past)
        if flat:
            batch, heads, length, size = tensor_type(y).shape
            y = ctx.emit(TransposeOp, [y], perm=(BATCH, LENGTH, HEADS, 3))
            y = ctx.emit(ReshapeOp, [y], shape=(batch, length, heads * size))
        return [y, k, v, scores][: max(ctx.num_outputs, 1)]

    @classmethod
    def attend(cls, ctx: ImportContext, q: Any, k: Any, v: Any, past: Expr) -> tuple[Any, Any]:
        """Result and scores (as `qk_matmul_output_mode` says), both with the heads apart."""
        mode, kind = int(ctx.attr("qk_matmul_output_mode", 0)), tensor_type(q).dtype
        batch, heads, queries, size = tensor_type(q).shape
        groups, keys = tensor_type(k).shape[HEADS], tensor_type(k).shape[LENGTH]
        share = exact_div(heads, groups)
        if share is None:
            raise ctx.unsupported(
                "query heads that don't divide among the key heads", expected=f"a multiple of {groups}", got=heads
            )
        # the query heads of a group are rows of one matmul, so that keys and values are never repeated
        grouped = groups != heads
        spread = (batch, groups, share, queries)
        if grouped:
            q = ctx.emit(ReshapeOp, [q], shape=(*spread, size))
            k, v = (ctx.emit(ReshapeOp, [x], shape=(batch, groups, 1, *tensor_type(x).shape[2:])) for x in (k, v))
        rank = tensor_type(k).rank
        turned = ctx.emit(TransposeOp, [k], perm=(*range(rank - 2), rank - 1, rank - 2))
        scores = ctx.emit(MatMulOp, [q, turned])
        scale = ctx.attr("scale")
        if scale is None:
            known = size.as_int()
            if known is None:
                raise ctx.unsupported("attention whose head size is symbolic", hint="fix it with --input-shape")
            scale = 1 / math.sqrt(known)
        scores = ctx.emit(MulOp, [scores, ctx.constant_value(number(float(scale), kind))])
        cap = float(ctx.attr("softcap", 0.0) or 0.0)
        if cap > 0:
            value = ctx.constant_value(number(cap, kind))
            scores = ctx.emit(MulOp, [ctx.emit(TanhOp, [ctx.emit(DivOp, [scores, value])]), value])
        whole = (batch, heads, queries, keys)
        shown = scores if mode in (0, 1) else None
        allowed, bias = cls.masks(ctx, queries, keys, past)
        masked = allowed is not None or bias is not None
        if bias is not None:
            scores = ctx.emit(AddOp, [scores, cls.grouped(ctx, bias, groups, share) if grouped else bias])
        if allowed is not None:
            allowed = cls.grouped(ctx, allowed, groups, share) if grouped else allowed
            scores = ctx.emit(WhereOp, [allowed, scores, ctx.constant_value(number(-math.inf, kind))])
        shown = scores if mode == 2 else shown
        softmax = SafeSoftmaxOp if masked else SoftmaxOp
        weights = ctx.emit(softmax, [scores], axes=(tensor_type(scores).rank - 1,))
        shown = weights if mode == 3 else shown
        y = ctx.emit(MatMulOp, [weights, v])
        if grouped:
            y = ctx.emit(ReshapeOp, [y], shape=(batch, heads, queries, tensor_type(v).shape[-1]))
            shown = ctx.emit(ReshapeOp, [shown], shape=whole) if ctx.num_outputs > 3 else shown
        return y, shown

    @staticmethod
    def grouped(ctx: ImportContext, mask: Any, groups: Expr, share: Expr) -> Any:
        """A mask that broadcasts to [batch, heads, queries, keys] with the heads as [groups, share]."""
        shape = tensor_type(mask).shape
        if len(shape) < 3:
            return mask
        heads = (const(1), const(1)) if shape[-3] == 1 else (groups, share)
        return ctx.emit(ReshapeOp, [mask], shape=(*shape[:-3], *heads, *shape[-2:]))

    @classmethod
    def masks(cls, ctx: ImportContext, queries: Expr, keys: Expr, past: Expr) -> tuple[Any, Any]:
        """(which keys take part, what is added to the scores); None for neither."""
        allowed, bias, mask = None, None, ctx.operand(3)
        if mask is not None:
            type_ = tensor_type(mask)
            missing = keys - type_.shape[-1]
            if type_.shape[-1] != keys and type_.shape[-1] != 1:
                sides = {"before": (const(0),) * type_.rank, "after": (*[const(0)] * (type_.rank - 1), missing)}
                fill = 0.0 if type_.dtype.is_bool else -math.inf
                mask = ctx.emit(PadOp, [mask], **sides, mode="constant", value=fill)
            if type_.dtype.is_bool:
                allowed = mask
            else:
                bias = mask
        count = ctx.operand(6)  # valid keys of each batch
        left, right = int(ctx.attr("left_window_size", -1)), int(ctx.attr("right_window_size", -1))
        causal = bool(ctx.attr("is_causal", 0))
        if count is not None:
            batch = tensor_type(count).shape[0]
            count = ctx.emit(ReshapeOp, [ctx.emit(CastOp, [count], to=dt.I32)], shape=(batch, 1, 1, 1))
        if not (causal or left >= 0 or right >= 0 or count is not None):
            return allowed, bias
        key, one = ctx.emit(PositionsOp, [], first=(const(0),), shape=(const(1), keys)), const(1)
        found = [allowed] if allowed is not None else []

        def query(offset: int) -> Any:
            """Position among the keys of each query, moved by `offset`."""
            # behind the cache; with padded keys the last query is the last valid key
            first = past if count is None else const(0) - queries
            rows = ctx.emit(PositionsOp, [], first=(first + offset,), shape=(queries, one))
            return rows if count is None else ctx.emit(AddOp, [rows, count])

        if causal:
            found.append(ctx.emit(LessOrEqualOp, [key, query(0)]))
        if left >= 0:
            found.append(ctx.emit(GreaterOrEqualOp, [key, query(-left)]))
        if right >= 0:
            found.append(ctx.emit(LessOrEqualOp, [key, query(right)]))
        if count is not None:
            found.append(ctx.emit(LessOp, [key, count]))
        allowed = found[0]
        for other in found[1:]:
            allowed = ctx.emit(AndOp, [allowed, other])
        return allowed, bias


def apart(ctx: ImportContext, x: Any, heads: int) -> Any:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = tensor_type(x).shape
    size = exact_div(width, const(heads))
    if size is None:
        raise ctx.unsupported(f"a width that {heads} heads don't divide", got=format_dims(tensor_type(x).shape))
    x = ctx.emit(ReshapeOp, [x], shape=(batch, length, heads, size))
    return ctx.emit(TransposeOp, [x], perm=(0, 2, 1, 3))
