# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes: one base, one class per formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid
from gaf.dialects.common.index import Expr, const, expr, product, sym
from gaf.dialects.common.scalar import Arg, Call, Const, Extent, Scalar, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    graph_op,
    ints_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage, identity_read, result_dims
from gaf.dialects.graph.ops.common import (
    NUMERIC,
    accumulator,
    apply_body,
    check_kind,
    computing,
    evaluate_symbolic,
    finish,
    int_list,
    is_symbolic,
    norm_axes,
)
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError


def reduced_shape(shape: Sequence[Expr], axes: Sequence[int], keepdims: bool) -> tuple[Expr, ...]:
    """The result shape of a reduction over (non-negative) `axes`."""
    if keepdims:
        return tuple(const(1) if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def result_stage(
    shape: Sequence[Expr],
    axes: Sequence[int],
    keepdims: bool,
    read: Read,
    body: Scalar,
    fold: str,
    dtype: dt.DType,
) -> Stage:
    """A reduction stage whose dims are the op's result dims (size 1 where `keepdims` keeps an axis).

    `read.index` is given over d0..d(rank-1) of the operand.
    """
    dims = result_dims(reduced_shape(shape, axes, keepdims))
    kept = [i for i in range(len(shape)) if keepdims or i not in axes]
    rename = {f"d{a}": sym(f"d{i}") for i, a in enumerate(kept)} | {f"d{a}": sym(f"r{a}") for a in axes}
    index = tuple(e.substitute(rename) for e in read.index)
    reduced = tuple(Dim(f"r{a}", expr(shape[a])) for a in axes)
    if not reduced:  # nothing to fold: elementwise
        return Stage(dims, (Read(index, read.operand, read.stage),), body, dtype)
    return Stage(dims, (Read(index, read.operand, read.stage),), body, dtype, reduced, fold)


class ReduceOp(GraphOp):
    """Base: `post(fold over axes of pre(x))`.

    16-bit floats accumulate in float32. Over an empty axis a sum is 0, a product 1, a maximum the
    lowest value of the type, a mean NaN.
    """

    x = operand_def(TensorType)
    axes = ints_prop()
    keepdims = bool_prop()
    GAF_DEFAULTS = {"axes": lambda x, *_: tuple(range(x.rank)), "keepdims": False}
    result = result_def(TensorType)
    traits = traits_def(Pure())

    KINDS: ClassVar[tuple[str, ...]] = NUMERIC
    FOLD: ClassVar[str] = "sum"
    # the opset from which ONNX takes the axes as an operand
    AXES_INPUT: ClassVar[int] = 18

    @classmethod
    def pre(cls) -> Scalar:
        """Applied to each element before folding."""
        return Arg(0)

    @classmethod
    def post(cls, count: Expr) -> Scalar | None:
        """Applied to the folded value; `count` is the number of folded elements."""
        return None

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, cls.KINDS, cls.name)
        axes = norm_axes(attrs["axes"], x.rank, cls.name)
        return [TensorType.of(reduced_shape(x.shape, axes, bool(attrs["keepdims"])), x.dtype)]

    def resolved(self) -> tuple[tuple[int, ...], bool]:
        """(axes counted from the front, keepdims)."""
        attrs = self.attrs()
        return norm_axes(attrs["axes"], self.operand_tensor_types()[0].rank, self.name), bool(
            attrs["keepdims"]
        )

    def count(self) -> Expr:
        """The number of elements folded into one result."""
        shape = self.operand_tensor_types()[0].shape
        return product(shape[a] for a in self.resolved()[0])

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        axes, keepdims = self.resolved()
        (x,) = args
        dtype = self.result_tensor_types()[0].dtype
        if is_symbolic(args):
            return [self._symbolic(x, axes, keepdims)]
        values = np.asarray(apply_body(self.pre(), [computing(x)], accumulator(dtype), wide)[0])
        with np.errstate(all="ignore"):
            folded = np.asarray(monoid.by_name(self.FOLD).fold(values, axes)) if axes else values
        if keepdims:
            folded = folded.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
        post = self.post(expr(int(np.prod([x.shape[a] for a in axes], dtype=np.int64))))
        if post is not None:
            folded = apply_body(_numbers(post), [folded], accumulator(dtype), wide)[0]
        return [finish(folded, dtype, wide)]

    def _symbolic(self, x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        """Fold object arrays of sizes; only sums, products and extrema have a meaning there."""
        if self.post(const(1)) is not None:
            raise UnsupportedError(f"{self.name} of symbolic sizes has no value")
        x = evaluate_symbolic(self.pre(), [x])
        combine = call(monoid.by_name(self.FOLD).combine, Arg(0), Arg(1))
        for axis in reversed(axes):
            slices = [np.take(x, [i], axis) for i in range(x.shape[axis])]
            if not slices:
                raise UnsupportedError(f"{self.name} over no sizes")
            x = slices[0]
            for other in slices[1:]:
                x = evaluate_symbolic(combine, [x, other])
        return x if keepdims else x.reshape([n for i, n in enumerate(x.shape) if i not in axes])

    def meaning(self) -> Meaning:
        axes, keepdims = self.resolved()
        (x,), (r,) = self.operand_tensor_types(), self.result_tensor_types()
        post = self.post(self.count())
        inner = accumulator(x.dtype) if post is not None else r.dtype
        read = identity_read(x.rank, operand=0)
        stage = result_stage(x.shape, axes, keepdims, read, self.pre(), self.FOLD, inner)
        if post is None:
            return Meaning((stage,))
        last = Stage(result_dims(r.shape), (identity_read(r.rank, stage=0),), post, r.dtype)
        return Meaning((stage, last), results=(1,))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        rank = tensor_type(x).rank
        axes = int_list(ctx, 1, "axes", "axes")
        if not axes:
            if ctx.attr("noop_with_empty_axes", 0):
                return cls.unreduced(ctx, x)
            axes = tuple(range(rank))
        axes = norm_axes(axes, rank, ctx.op_type)
        return ctx.emit(cls, [x], axes=axes, keepdims=bool(ctx.attr("keepdims", 1)))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.cast(ctx.operands[0], ctx.result.dtype)  # `dtype`, or int64 for a sum of bools
        axes = aten_axes(ctx, tensor_type(x).rank)
        return ctx.emit(cls, [x], axes=axes, keepdims=bool(ctx.attr("keepdim", False)))

    @classmethod
    def unreduced(cls, ctx: ImportContext, x: Any) -> Any:
        """`noop_with_empty_axes`: a reduction over no axes still applies the formula to each element."""
        if cls.pre() == Arg(0) and cls.post(const(1)) is None:
            return x
        return ctx.emit(cls, [x], axes=(), keepdims=True)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        axes, keepdims = self.resolved()
        if not axes:
            return self._unreduced_to_onnx(ctx, inputs)
        op_type = self.ONNX[0]
        if ctx.opset >= self.AXES_INPUT:
            axes_name = ctx.constant(np.asarray(axes, np.int64))
            return ctx.node(op_type, [inputs[0], axes_name], keepdims=int(keepdims))
        return ctx.node(op_type, list(inputs), axes=list(axes), keepdims=int(keepdims))

    def _unreduced_to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """A reduction over no axes: over a new last axis of size 1."""
        rank = self.operand_tensor_types()[0].rank
        axis = np.asarray([rank], np.int64)
        wide = ctx.node("Unsqueeze", [inputs[0], ctx.constant(axis)], 1)[0]
        if ctx.opset >= self.AXES_INPUT:
            return ctx.node(self.ONNX[0], [wide, ctx.constant(axis)], keepdims=0)
        return ctx.node(self.ONNX[0], [wide], axes=[rank], keepdims=0)


def aten_axes(ctx: AtenContext, rank: int) -> tuple[int, ...]:
    """The argument `dim` of an ATen reduction; none or an empty list means all axes."""
    dims = ctx.attr("dim")
    dims = () if dims is None else tuple(dims) if isinstance(dims, list | tuple) else (dims,)
    if rank == 0:
        return ()
    return norm_axes(dims, rank, ctx.op_type) if dims else tuple(range(rank))


def _numbers(body: Scalar) -> Scalar:
    """Extents that are known numbers as constants."""
    match body:
        case Extent(value):
            number = value.as_int()
            assert number is not None
            return Const(float(number))
        case Call(function, operands, dtype):
            return Call(function, tuple(_numbers(o) for o in operands), dtype)
        case _:
            return body


@graph_op
class ReduceSumOp(ReduceOp):
    """Sum over axes."""

    name = "graph.reduce_sum"
    ONNX = ("ReduceSum",)
    ATEN = ("aten.sum.dim_IntList", "aten.sum.default")
    GAF = ("sum",)
    AXES_INPUT = 13


@graph_op
class ReduceMeanOp(ReduceOp):
    """Arithmetic mean over axes (integers truncate towards zero)."""

    name = "graph.reduce_mean"
    ONNX = ("ReduceMean",)
    ATEN = ("aten.mean.dim", "aten.mean.default")
    GAF = ("mean",)

    @classmethod
    def post(cls, count: Expr) -> Scalar | None:
        return call("div", Arg(0), Extent(count))


@graph_op
class ReduceMaxOp(ReduceOp):
    """Largest element over axes; NaN if one is NaN; of bools: any."""

    name = "graph.reduce_max"
    ONNX = ("ReduceMax",)
    ATEN = ("aten.amax.default", "aten.max.default")
    GAF = ("reduce_max",)
    KINDS = ("float", "int", "uint", "bool")
    FOLD = "max"

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return _bool_through_int(self, ctx, inputs, super().to_onnx)


@graph_op
class ReduceMinOp(ReduceOp):
    """Smallest element over axes; NaN if one is NaN; of bools: all."""

    name = "graph.reduce_min"
    ONNX = ("ReduceMin",)
    ATEN = ("aten.amin.default", "aten.min.default")
    GAF = ("reduce_min",)
    KINDS = ("float", "int", "uint", "bool")
    FOLD = "min"

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return _bool_through_int(self, ctx, inputs, super().to_onnx)


def _bool_through_int(op: ReduceOp, ctx: ExportContext, inputs: Sequence[str], write: Any) -> list[str]:
    """ReduceMax and ReduceMin take bools from opset 20 on; before, they go through uint8."""
    if not op.operand_tensor_types()[0].dtype.is_bool or ctx.opset >= 20:
        return write(ctx, inputs)
    axes, keepdims = op.resolved()
    if not axes:
        return ctx.node("Identity", inputs)
    number = ctx.node("Cast", inputs, 1, to=dt.U8.onnx)[0]
    if ctx.opset >= op.AXES_INPUT:
        reduced = ctx.node(
            op.ONNX[0], [number, ctx.constant(np.asarray(axes, np.int64))], 1, keepdims=int(keepdims)
        )[0]
    else:
        reduced = ctx.node(op.ONNX[0], [number], 1, axes=list(axes), keepdims=int(keepdims))[0]
    return ctx.node("Cast", [reduced], to=dt.BOOL.onnx)


@graph_op
class ReduceProdOp(ReduceOp):
    """Product over axes."""

    name = "graph.reduce_prod"
    ONNX = ("ReduceProd",)
    ATEN = ("aten.prod.dim_int", "aten.prod.default")
    GAF = ("prod",)
    FOLD = "prod"


@graph_op
class ReduceL1Op(ReduceOp):
    """Sum of |x| over axes."""

    name = "graph.reduce_l1"
    ONNX = ("ReduceL1",)
    GAF = ("reduce_l1",)

    @classmethod
    def pre(cls) -> Scalar:
        return call("abs", Arg(0))


@graph_op
class ReduceSumSquareOp(ReduceOp):
    """Sum of x * x over axes."""

    name = "graph.reduce_sum_square"
    ONNX = ("ReduceSumSquare",)
    GAF = ("reduce_sum_square",)

    @classmethod
    def pre(cls) -> Scalar:
        return Arg(0) * Arg(0)


@graph_op
class ReduceL2Op(ReduceOp):
    """sqrt of the sum of x * x over axes."""

    name = "graph.reduce_l2"
    ONNX = ("ReduceL2",)
    GAF = ("reduce_l2",)
    KINDS = ("float",)

    @classmethod
    def pre(cls) -> Scalar:
        return Arg(0) * Arg(0)

    @classmethod
    def post(cls, count: Expr) -> Scalar | None:
        return call("sqrt", Arg(0))


@graph_op
class ReduceLogSumOp(ReduceOp):
    """log of the sum over axes."""

    name = "graph.reduce_log_sum"
    ONNX = ("ReduceLogSum",)
    GAF = ("reduce_log_sum",)
    KINDS = ("float",)

    @classmethod
    def post(cls, count: Expr) -> Scalar | None:
        return call("log", Arg(0))


@graph_op
class ReduceLogSumExpOp(ReduceOp):
    """log(sum(exp(x))) over axes, as m + log(sum(exp(x - m))) with m the largest x (0 if infinite)."""

    name = "graph.reduce_log_sum_exp"
    ONNX = ("ReduceLogSumExp",)
    ATEN = ("aten.logsumexp.default",)
    GAF = ("log_sum_exp",)
    KINDS = ("float",)

    # exp(x - m) is nan for x = m = -inf; a row of -inf has to give -inf
    SHIFT = call("select", call("isinf", Arg(0)), 0.0, Arg(0))
    SHIFTED = call("exp", Arg(0) - Arg(1))
    JOIN = call("log", Arg(0)) + Arg(1)

    @classmethod
    def post(cls, count: Expr) -> Scalar | None:
        return call("log", Arg(0))  # the plain formula; `reference` and `meaning` use the shifted one

    @classmethod
    def pre(cls) -> Scalar:
        return call("exp", Arg(0))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        axes, keepdims = self.resolved()
        dtype = self.result_tensor_types()[0].dtype
        x = computing(args[0])
        inner = accumulator(dtype)
        peak = monoid.MAX.fold(x, axes) if axes else x
        peak = np.asarray(peak).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
        shift = apply_body(self.SHIFT, [peak], inner, wide)[0]
        terms = apply_body(self.SHIFTED, [x, shift], inner, wide)[0]
        total = np.asarray(monoid.SUM.fold(terms, axes) if axes else terms).reshape(shift.shape)
        result = apply_body(self.JOIN, [total, shift], inner, wide)[0]
        return [finish(result.reshape(reduced_numbers(x.shape, axes, keepdims)), dtype, wide)]

    def meaning(self) -> Meaning:
        axes, keepdims = self.resolved()
        (x,), (r,) = self.operand_tensor_types(), self.result_tensor_types()
        inner = accumulator(x.dtype)
        whole = identity_read(x.rank, operand=0)
        dims = result_dims(r.shape)
        peak = result_stage(x.shape, axes, keepdims, whole, Arg(0), "max", inner)
        shift = Stage(dims, (identity_read(r.rank, stage=0),), self.SHIFT, inner)
        plain = result_stage(x.shape, axes, keepdims, whole, Arg(0), "sum", inner)
        at_row = Read(tuple(sym(d.name) for d in plain.dims), stage=1)
        total = Stage(plain.dims, (*plain.reads, at_row), self.SHIFTED, inner, plain.reduced, plain.monoid)
        reads = (identity_read(r.rank, stage=2), identity_read(r.rank, stage=1))
        return Meaning((peak, shift, total, Stage(dims, reads, self.JOIN, r.dtype)), results=(3,))


def reduced_numbers(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> list[int]:
    """`reduced_shape` on integers."""
    return [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
