# SPDX-License-Identifier: Apache-2.0
"""Operators that decide at random what counts: dropout and Bernoulli, as comparisons with uniform numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.dialects.graph.contract import AtenContext, ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import DivOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import number
from gaf.dialects.graph.ops.compare import GreaterOrEqualOp, LessOp, OrOp, WhereOp
from gaf.dialects.graph.ops.create import FullOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.random import uniform_like
from gaf.dialects.graph.ops.unary import NotOp


def converted(ctx: ImportContext, value: SSAValue, dtype: dt.DType) -> Any:
    """`value` as `dtype`."""
    return value if tensor_type(value).dtype == dtype else ctx.emit(CastOp, [value], to=dtype)


def dropped(ctx: ImportContext, x: SSAValue, ratio: float, shape: Sequence[Expr]) -> list[Any]:
    """x with a part `ratio` of its elements 0 and the others scaled, and the mask of those kept, of `shape`."""
    keep = ctx.emit(GreaterOrEqualOp, [uniform_like(ctx, shape), ctx.constant_value(number(ratio, dt.F32))])
    return masked(ctx, x, keep, ctx.constant_value(number(1.0 / (1.0 - ratio) if ratio < 1.0 else 0.0, tensor_type(x).dtype)))


def masked(ctx: ImportContext, x: SSAValue, keep: SSAValue, scale: SSAValue) -> list[Any]:
    """x * scale where `keep`, else 0; and `keep`."""
    zero = ctx.constant_value(number(0.0, tensor_type(x).dtype))
    return [ctx.emit(WhereOp, [keep, ctx.emit(MulOp, [x, scale]), zero]), keep]


def everything(ctx: ImportContext, x: SSAValue, kind: dt.DType = dt.BOOL) -> list[Any]:
    """x itself, and a mask that keeps all of it."""
    return [x, ctx.emit(FullOp, [], shape=tensor_type(x).shape, value=np.ones((), kind.numpy))]


class Dropout(Expansion):
    """An inference model drops nothing; in training mode elements are dropped by numbers drawn for each run."""

    ONNX = ("Dropout",)
    ATEN = ("aten.dropout.default", "aten.native_dropout.default", "aten.feature_dropout.default")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, training = ctx.operands[0], ctx.operand(2) if ctx.opset >= 12 else None
        known = ctx.constant(2) if training is not None else np.asarray(False)
        if known is not None and not known.item():
            kind = dt.BOOL if ctx.opset >= 10 else tensor_type(x).dtype
            return everything(ctx, x, kind) if ctx.num_outputs > 1 else x
        fixed = ctx.constant(1) if ctx.operand(1) is not None else np.asarray(0.5)
        if known is not None and fixed is not None:
            made = dropped(ctx, x, cls.checked(ctx, float(fixed.item())), tensor_type(x).shape)
        else:
            made = cls.decided_later(ctx, x, training)
        return made if ctx.num_outputs > 1 else made[0]

    @classmethod
    def decided_later(cls, ctx: ImportContext, x: SSAValue, training: SSAValue) -> list[Any]:
        """The ratio, or whether anything is dropped, is known when the model runs."""
        ratio = ctx.operand(1) if ctx.operand(1) is not None else ctx.constant_value(number(0.5, dt.F32))
        ratio, one = converted(ctx, ratio, dt.F32), ctx.constant_value(number(1.0, dt.F32))
        scale = ctx.emit(DivOp, [one, ctx.emit(SubOp, [one, ratio])])
        keep = ctx.emit(GreaterOrEqualOp, [uniform_like(ctx, tensor_type(x).shape), ratio])
        keep = ctx.emit(OrOp, [keep, ctx.emit(NotOp, [training])])
        scale = ctx.emit(WhereOp, [training, scale, one])
        return masked(ctx, x, keep, converted(ctx, scale, tensor_type(x).dtype))

    @staticmethod
    def checked(ctx: ImportContext, ratio: float) -> float:
        """A ratio of 0..1. Raises UnsupportedError for others."""
        if not 0.0 <= ratio <= 1.0:
            raise ctx.unsupported("a dropout ratio out of range", expected="0..1", got=ratio)
        return ratio

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, ratio = ctx.value("input"), cls.checked(ctx, float(ctx.attr("p")))
        with_mask = ctx.op_type == "aten.native_dropout.default"
        if not ctx.attr("train", with_mask):
            return everything(ctx, x) if with_mask else x
        shape = tensor_type(x).shape
        if ctx.op_type == "aten.feature_dropout.default":  # whole channels
            shape = (*shape[:2], *(const(1) for _ in shape[2:]))
        made = dropped(ctx, x, ratio, shape)
        return made if with_mask else made[0]


class Bernoulli(Expansion):
    """1 with the probability that the operand says, else 0."""

    ONNX = ("Bernoulli",)
    ATEN = ("aten.bernoulli.default", "aten.bernoulli.p")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        chance, code = ctx.operands[0], ctx.attr("dtype")
        kind = tensor_type(chance).dtype if code is None else dt.of_onnx(int(code))
        return cls.decided(ctx, tensor_type(chance).shape, converted(ctx, chance, dt.F32), kind)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        fixed = ctx.op_type == "aten.bernoulli.p"
        chance = ctx.number(float(ctx.attr("p")), dt.F32) if fixed else ctx.cast(ctx.value("self"), dt.F32)
        return cls.decided(ctx, ctx.result.shape, chance, ctx.result.dtype)

    @staticmethod
    def decided(ctx: ImportContext, shape: Sequence[Expr], chance: SSAValue, kind: dt.DType) -> Any:
        """0 or 1 as `kind`."""
        return converted(ctx, ctx.emit(LessOp, [uniform_like(ctx, shape), chance]), kind)
