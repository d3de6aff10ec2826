# SPDX-License-Identifier: Apache-2.0
"""Softmax and its logarithm as stages: row statistics first, then the elementwise formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.common.scalar import Arg, Scalar, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    graph_op,
    ints_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Meaning,
    Read,
    Stage,
    identity_read,
    kept_read,
    result_dims,
    row_stage,
)
from gaf.dialects.graph.ops.common import (
    accumulator,
    check_kind,
    computing,
    finish,
    norm_axes,
    norm_axis,
    number,
)
from gaf.dialects.graph.types import TensorType


def fold_rows(
    shape: Sequence[Expr],
    axes: Sequence[int],
    reads: Sequence[Read],
    body: Scalar,
    fold: str,
    dtype: dt.DType,
) -> Stage:
    """`row_stage`, or the elementwise stage when there is nothing to fold."""
    if axes:
        return row_stage(shape, axes, reads, body, fold, dtype)
    return Stage(result_dims(shape), tuple(reads), body, dtype)


class SoftmaxBase(GraphOp):
    """Base: over `axes` jointly (one axis, or all from some axis on in ONNX before opset 13).

    A row of -inf only gives NaN, as the formula does. 16-bit floats are computed in float32.
    """

    x = operand_def(TensorType)
    axes = ints_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, ("float",), cls.name)
        norm_axes(attrs["axes"], x.rank, cls.name)
        return [x]

    def resolved_axes(self) -> tuple[int, ...]:
        """The axes, counted from the front."""
        return norm_axes(self.attrs()["axes"], self.operand_tensor_types()[0].rank, self.name)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        rank = tensor_type(ctx.operands[0]).rank
        axis = norm_axis(int(ctx.attr("axis", -1 if ctx.opset >= 13 else 1)), max(rank, 1), ctx.op_type)
        # Before opset 13 the operand is flattened to a matrix at `axis`.
        axes = (axis,) if ctx.opset >= 13 else tuple(range(axis, rank))
        return ctx.emit(cls, ctx.operands[:1], axes=axes if rank else ())

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.cast(ctx.operands[0], ctx.result.dtype)
        rank = tensor_type(x).rank
        axes = (norm_axis(int(ctx.attr("dim")), rank, ctx.op_type),) if rank else ()
        return ctx.emit(cls, [x], axes=axes)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        axes = self.resolved_axes()
        if len(axes) == 1:
            return ctx.node(self.ONNX[0], inputs, axis=axes[0])
        if not axes:  # each element is a row of its own
            return self._rows_of_one(ctx, inputs)
        names = ctx.constant(np.asarray(axes, np.int64))
        peak = reduce_node(ctx, "ReduceMax", inputs[0], axes, names)
        shifted = ctx.node("Sub", [inputs[0], peak], 1)[0]
        terms = ctx.node("Exp", [shifted], 1)[0]
        total = reduce_node(ctx, "ReduceSum", terms, axes, names)
        return self._join(ctx, shifted, terms, total)

    def _rows_of_one(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        rank = self.operand_tensor_types()[0].rank
        axis = ctx.constant(np.asarray([rank], np.int64))
        wide = ctx.node("Unsqueeze", [inputs[0], axis], 1)[0]
        return ctx.node("Squeeze", [ctx.node(self.ONNX[0], [wide], 1, axis=rank)[0], axis])

    def _join(self, ctx: ExportContext, shifted: str, terms: str, total: str) -> list[str]:
        raise NotImplementedError


def reduce_node(ctx: ExportContext, op_type: str, x: str, axes: Sequence[int], names: str) -> str:
    """A keepdims ReduceMax (axes operand from opset 18) or ReduceSum (from 13)."""
    if ctx.opset >= (13 if op_type == "ReduceSum" else 18):
        return ctx.node(op_type, [x, names], 1, keepdims=1)[0]
    return ctx.node(op_type, [x], 1, axes=list(axes), keepdims=1)[0]


@graph_op
class SoftmaxOp(SoftmaxBase):
    """exp(x - max) / sum(exp(x - max)) over axes."""

    name = "graph.softmax"
    ONNX = ("Softmax",)
    ATEN = ("aten._softmax.default", "aten.softmax.int")
    GAF = ("softmax",)
    GAF_DEFAULTS = {"axes": (-1,)}

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, axes = computing(args[0]), self.resolved_axes()
        with np.errstate(all="ignore"):
            terms = np.exp(x - np.max(x, axis=axes, keepdims=True, initial=-np.inf))
            result = terms / np.sum(terms, axis=axes, keepdims=True)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        inner, dims, whole = accumulator(x.dtype), result_dims(x.shape), identity_read(x.rank, operand=0)
        peak = fold_rows(x.shape, axes, [whole], Arg(0), "max", inner)
        terms = Stage(dims, (whole, kept_read(x.rank, axes, stage=0)), call("exp", Arg(0) - Arg(1)), inner)
        total = fold_rows(x.shape, axes, [identity_read(x.rank, stage=1)], Arg(0), "sum", inner)
        reads = (identity_read(x.rank, stage=1), kept_read(x.rank, axes, stage=2))
        return Meaning((peak, terms, total, Stage(dims, reads, Arg(0) / Arg(1), x.dtype)), results=(3,))

    def _join(self, ctx: ExportContext, shifted: str, terms: str, total: str) -> list[str]:
        return ctx.node("Div", [terms, total])


@graph_op
class SafeSoftmaxOp(SoftmaxBase):
    """Softmax whose rows of -inf only are 0 instead of NaN: no key takes part in such a row of an attention."""

    name = "graph.safe_softmax"
    ATEN = ("aten._safe_softmax.default",)
    GAF = ("safe_softmax",)
    GAF_DEFAULTS = {"axes": (-1,)}

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, axes = computing(args[0]), self.resolved_axes()
        with np.errstate(all="ignore"):
            peak = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
            terms = np.exp(x - np.where(peak == -np.inf, 0, peak).astype(x.dtype))
            total = np.sum(terms, axis=axes, keepdims=True)
            result = terms / np.where(total == 0, 1, total).astype(x.dtype)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        inner, dims, whole = accumulator(x.dtype), result_dims(x.shape), identity_read(x.rank, operand=0)
        peak = fold_rows(x.shape, axes, [whole], Arg(0), "max", inner)
        # the lowest finite number stands for -inf: exp(-inf - it) is 0
        shift = Arg(0) - call("max", Arg(1), float(np.finfo(np.float32).min))
        terms = Stage(dims, (whole, kept_read(x.rank, axes, stage=0)), call("exp", shift), inner)
        total = fold_rows(x.shape, axes, [identity_read(x.rank, stage=1)], Arg(0), "sum", inner)
        reads = (identity_read(x.rank, stage=1), kept_read(x.rank, axes, stage=2))
        # a row with a finite element sums to 1 at least
        body = Arg(0) / call("max", Arg(1), float(np.finfo(np.float32).tiny))
        return Meaning((peak, terms, total, Stage(dims, reads, body, x.dtype)), results=(3,))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        if not axes:
            return self._rows_of_one(ctx, inputs)
        names = ctx.constant(np.asarray(axes, np.int64))
        zero, one, low = (ctx.constant(number(v, x.dtype)) for v in (0.0, 1.0, -np.inf))
        peak = reduce_node(ctx, "ReduceMax", inputs[0], axes, names)
        empty = ctx.node("Equal", [peak, low], 1)[0]
        shifted = ctx.node("Sub", [inputs[0], ctx.node("Where", [empty, zero, peak], 1)[0]], 1)[0]
        terms = ctx.node("Exp", [shifted], 1)[0]
        total = reduce_node(ctx, "ReduceSum", terms, axes, names)
        return ctx.node("Div", [terms, ctx.node("Where", [empty, one, total], 1)[0]])

    def _rows_of_one(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        x = self.operand_tensor_types()[0].dtype
        low, zero = ctx.constant(number(-np.inf, x)), ctx.constant(number(0.0, x))
        empty = ctx.node("Equal", [inputs[0], low], 1)[0]
        shifted = ctx.node("Sub", [inputs[0], inputs[0]], 1)[0]  # NaN and inf stay NaN
        return ctx.node("Where", [empty, zero, ctx.node("Exp", [shifted], 1)[0]])


@graph_op
class LogSoftmaxOp(SoftmaxBase):
    """x - max - log(sum(exp(x - max))) over axes."""

    name = "graph.log_softmax"
    ONNX = ("LogSoftmax",)
    ATEN = ("aten._log_softmax.default", "aten.log_softmax.int")
    GAF = ("log_softmax",)
    GAF_DEFAULTS = {"axes": (-1,)}

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, axes = computing(args[0]), self.resolved_axes()
        with np.errstate(all="ignore"):
            shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
            result = shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        inner, dims, whole = accumulator(x.dtype), result_dims(x.shape), identity_read(x.rank, operand=0)
        peak = fold_rows(x.shape, axes, [whole], Arg(0), "max", inner)
        shifted = Stage(dims, (whole, kept_read(x.rank, axes, stage=0)), Arg(0) - Arg(1), inner)
        total = fold_rows(x.shape, axes, [identity_read(x.rank, stage=1)], call("exp", Arg(0)), "sum", inner)
        reads = (identity_read(x.rank, stage=1), kept_read(x.rank, axes, stage=2))
        return Meaning(
            (peak, shifted, total, Stage(dims, reads, Arg(0) - call("log", Arg(1)), x.dtype)), results=(3,)
        )

    def _join(self, ctx: ExportContext, shifted: str, terms: str, total: str) -> list[str]:
        return ctx.node("Sub", [shifted, ctx.node("Log", [total], 1)[0]])
