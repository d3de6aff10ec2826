# SPDX-License-Identifier: Apache-2.0
"""Softmax and the normalisations, as stages: row statistics first, then the elementwise formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, opt_operand_def, result_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div, expr, floordiv, product, sym
from gaf.dialects.common.scalar import Arg, Extent, Scalar, call, evaluate
from gaf.dialects.graph.contract import (
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    float_prop,
    graph_op,
    int_prop,
    ints_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Dim,
    Meaning,
    Read,
    Stage,
    broadcast_index,
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
    format_dims,
    maybe_equal,
    norm_axes,
    norm_axis,
    number,
    same_dtype,
)
from gaf.dialects.graph.ops.reduce import reduced_shape
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

SQUARED_DISTANCE = call("mul", Arg(0) - Arg(1), Arg(0) - Arg(1))


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
    ATEN = ("aten._softmax.default",)
    GAF = ("softmax",)

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, axes = computing(args[0]), self.resolved_axes()
        with np.errstate(all="ignore"):
            terms = np.exp(x - np.max(x, axis=axes, keepdims=True, initial=-np.inf))
            result = terms / np.sum(terms, axis=axes, keepdims=True)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        inner, dims, whole = accumulator(x.dtype), result_dims(x.shape), identity_read(x.rank, operand=0)
        peak = _fold(x.shape, axes, [whole], Arg(0), "max", inner)
        terms = Stage(dims, (whole, kept_read(x.rank, axes, stage=0)), call("exp", Arg(0) - Arg(1)), inner)
        total = _fold(x.shape, axes, [identity_read(x.rank, stage=1)], Arg(0), "sum", inner)
        reads = (identity_read(x.rank, stage=1), kept_read(x.rank, axes, stage=2))
        return Meaning((peak, terms, total, Stage(dims, reads, Arg(0) / Arg(1), x.dtype)), results=(3,))

    def _join(self, ctx: ExportContext, shifted: str, terms: str, total: str) -> list[str]:
        return ctx.node("Div", [terms, total])


@graph_op
class LogSoftmaxOp(SoftmaxBase):
    """x - max - log(sum(exp(x - max))) over axes."""

    name = "graph.log_softmax"
    ONNX = ("LogSoftmax",)
    ATEN = ("aten._log_softmax.default",)
    GAF = ("log_softmax",)

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, axes = computing(args[0]), self.resolved_axes()
        with np.errstate(all="ignore"):
            shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
            result = shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (x,), axes = self.operand_tensor_types(), self.resolved_axes()
        inner, dims, whole = accumulator(x.dtype), result_dims(x.shape), identity_read(x.rank, operand=0)
        peak = _fold(x.shape, axes, [whole], Arg(0), "max", inner)
        shifted = Stage(dims, (whole, kept_read(x.rank, axes, stage=0)), Arg(0) - Arg(1), inner)
        total = _fold(x.shape, axes, [identity_read(x.rank, stage=1)], call("exp", Arg(0)), "sum", inner)
        reads = (identity_read(x.rank, stage=1), kept_read(x.rank, axes, stage=2))
        return Meaning((peak, shifted, total, Stage(dims, reads, Arg(0) - call("log", Arg(1)), x.dtype)), results=(3,))

    def _join(self, ctx: ExportContext, shifted: str, terms: str, total: str) -> list[str]:
        return ctx.node("Sub", [shifted, ctx.node("Log", [total], 1)[0]])


def _fold(
    shape: Sequence[Expr], axes: Sequence[int], reads: Sequence[Read], body: Scalar, fold: str, dtype: dt.DType
) -> Stage:
    """`row_stage`, or the elementwise stage when there is nothing to fold."""
    if axes:
        return row_stage(shape, axes, reads, body, fold, dtype)
    return Stage(result_dims(shape), tuple(reads), body, dtype)


# -- normalisations of rows --------------------------------------------------------------------------


class RowNormOp(GraphOp):
    """Base: statistics over the last dims from `axis` on; scale (and bias) broadcast to x, never widen it.

    Statistics are computed in float32 for 16-bit operands, as ONNX's stash_type 1 asks.
    """

    epsilon = float_prop()
    axis = int_prop()

    @classmethod
    def check_affine(cls, x: TensorType, parameter: TensorType, what: str) -> None:
        """Raises InvalidInputError unless `parameter` broadcasts to the shape of x."""
        offset = x.rank - parameter.rank
        fits = offset >= 0 and all(p == 1 or p == x.shape[offset + i] for i, p in enumerate(parameter.shape))
        if not fits:
            raise InvalidInputError(
                f"{cls.name}: {what} doesn't broadcast to x", expected=f"a shape that broadcasts to {format_dims(x.shape)}",
                got=format_dims(parameter.shape),
            )

    def axes(self) -> tuple[int, ...]:
        """The normalised axes, counted from the front."""
        rank = self.operand_tensor_types()[0].rank
        return tuple(range(norm_axis(self.attrs()["axis"], rank, self.name), rank))


@graph_op
class LayerNormOp(RowNormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the dims from `axis` on.

    Operands x, scale and an optional bias. With `stash`, two more results: mean and 1 / sqrt(variance +
    epsilon), of x's shape with size 1 on the normalised axes, in float32 for 16-bit x.
    """

    name = "graph.layer_norm"
    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    stash = bool_prop()
    result = result_def(TensorType)
    statistics = var_result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("LayerNormalization",)
    ATEN = ("aten.native_layer_norm.default",)
    GAF = ("layer_norm",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x = operands[0]
        check_kind(same_dtype(operands, cls.name), ("float",), cls.name)
        axis = norm_axis(attrs["axis"], x.rank, cls.name)
        for parameter, what in zip(operands[1:], ("scale", "bias")):
            cls.check_affine(x, parameter, what)
        if not attrs["stash"]:
            return [x]
        shape = reduced_shape(x.shape, range(axis, x.rank), True)
        return [x, *[TensorType.of(shape, accumulator(x.dtype))] * 2]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs, axes, types = self.attrs(), self.axes(), self.result_tensor_types()
        x, scale, *bias = (computing(a) for a in args)
        with np.errstate(all="ignore"):
            mean = np.mean(x, axis=axes, keepdims=True, dtype=x.dtype)
            variance = np.mean(np.square(x - mean), axis=axes, keepdims=True, dtype=x.dtype)
            invstd = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(attrs["epsilon"]))
            result = (x - mean) * invstd * scale
            result = result + bias[0] if bias else result
        results = [result, mean, invstd] if attrs["stash"] else [result]
        return [finish(r, t.dtype, wide) for r, t in zip(results, types)]

    def meaning(self) -> Meaning:
        attrs, axes = self.attrs(), self.axes()
        x, scale, *bias = self.operand_tensor_types()
        inner, rank, dims = accumulator(x.dtype), x.rank, result_dims(x.shape)
        count = Extent(product(x.shape[a] for a in axes))
        whole = identity_read(rank, operand=0)
        rows = result_dims([d for i, d in enumerate(x.shape) if i not in axes])
        at_row = lambda stage: identity_read(len(rows), stage=stage)  # noqa: E731
        stages = [
            _fold(x.shape, axes, [whole], Arg(0), "sum", inner),
            Stage(rows, (at_row(0),), Arg(0) / count, inner),  # 1: mean
            _fold(x.shape, axes, [whole, kept_read(rank, axes, stage=1)], SQUARED_DISTANCE, "sum", inner),
            Stage(rows, (at_row(2),), 1.0 / call("sqrt", Arg(0) / count + attrs["epsilon"]), inner),  # 3: invstd
        ]
        reads = [whole, kept_read(rank, axes, stage=1), kept_read(rank, axes, stage=3)]
        reads.append(Read(broadcast_index(scale.shape, dims), operand=1))
        body = (Arg(0) - Arg(1)) * Arg(2) * Arg(3)
        if bias:
            reads.append(Read(broadcast_index(bias[0].shape, dims), operand=2))
            body = body + Arg(4)
        stages.append(Stage(dims, tuple(reads), body, x.dtype))
        if not attrs["stash"]:
            return Meaning(tuple(stages), results=(4,))
        shape = result_dims(reduced_shape(x.shape, axes, True))
        for stage in (1, 3):
            stages.append(Stage(shape, (kept_read(rank, axes, stage=stage),), Arg(0), inner))
        return Meaning(tuple(stages), results=(4, 5, 6))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return _import_row_norm(cls, ctx, stash=_outputs(ctx) > 1)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        names = ctx.node("LayerNormalization", inputs, axis=attrs["axis"], epsilon=attrs["epsilon"], stash_type=1)
        return names


def _outputs(ctx: ImportContext) -> int:
    """How many outputs of the node are used, if the frontend says so."""
    return int(getattr(ctx, "num_outputs", 1))


def _import_row_norm(cls: type[RowNormOp], ctx: ImportContext, **flags: bool) -> Any:
    x = ctx.operands[0]
    type_ = tensor_type(x)
    if int(ctx.attr("stash_type", 1)) not in (1, type_.dtype.onnx) and type_.dtype != dt.F64:
        raise ctx.unsupported("statistics in a narrow type", expected="stash_type 1 (float32)", got=ctx.attr("stash_type"))
    operands = [o for o in ctx.operands if o is not None]
    axis = norm_axis(int(ctx.attr("axis", -1)), type_.rank, ctx.op_type)
    return ctx.emit(cls, operands, axis=axis, epsilon=float(ctx.attr("epsilon", 1e-5)), **flags)


@graph_op
class RMSNormOp(RowNormOp):
    """x / sqrt(mean(x^2) + epsilon) * scale over the dims from `axis` on."""

    name = "graph.rms_norm"
    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("RMSNormalization", "SimplifiedLayerNormalization")
    ATEN = ("aten.rms_norm.default",)
    GAF = ("rms_norm",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, scale = operands
        check_kind(same_dtype(operands, cls.name), ("float",), cls.name)
        norm_axis(attrs["axis"], x.rank, cls.name)
        cls.check_affine(x, scale, "scale")
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, scale = (computing(a) for a in args)
        epsilon = x.dtype.type(self.attrs()["epsilon"])
        with np.errstate(all="ignore"):
            square = np.mean(np.square(x), axis=self.axes(), keepdims=True, dtype=x.dtype)
            result = x * (x.dtype.type(1) / np.sqrt(square + epsilon)) * scale
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        axes = self.axes()
        x, scale = self.operand_tensor_types()
        inner, rank, dims = accumulator(x.dtype), x.rank, result_dims(x.shape)
        count = Extent(product(x.shape[a] for a in axes))
        whole = identity_read(rank, operand=0)
        rows = result_dims([d for i, d in enumerate(x.shape) if i not in axes])
        factor = 1.0 / call("sqrt", Arg(0) / count + self.attrs()["epsilon"])
        reads = (whole, kept_read(rank, axes, stage=1), Read(broadcast_index(scale.shape, dims), operand=1))
        return Meaning(
            (
                _fold(x.shape, axes, [whole], Arg(0) * Arg(0), "sum", inner),
                Stage(rows, (identity_read(len(rows), stage=0),), factor, inner),
                Stage(dims, reads, Arg(0) * Arg(1) * Arg(2), x.dtype),
            ),
            results=(2,),
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.op_type == "SimplifiedLayerNormalization" and _outputs(ctx) > 1:
            raise ctx.unsupported("the second output of SimplifiedLayerNormalization")
        return _import_row_norm(cls, ctx)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, axes, dtype = self.attrs(), self.axes(), self.operand_tensor_types()[0].dtype
        if ctx.opset >= 23:
            return ctx.node("RMSNormalization", inputs, axis=attrs["axis"], epsilon=attrs["epsilon"])
        inner = accumulator(dtype)
        x, scale = inputs
        if inner != dtype:
            x, scale = (ctx.node("Cast", [n], 1, to=inner.onnx)[0] for n in inputs)
        square = ctx.node("Mul", [x, x], 1)[0]
        if ctx.opset >= 18:
            mean = ctx.node("ReduceMean", [square, ctx.constant(np.asarray(axes, np.int64))], 1, keepdims=1)[0]
        else:
            mean = ctx.node("ReduceMean", [square], 1, axes=list(axes), keepdims=1)[0]
        shifted = ctx.node("Add", [mean, ctx.constant(number(attrs["epsilon"], inner))], 1)[0]
        normal = ctx.node("Div", [x, ctx.node("Sqrt", [shifted], 1)[0]], 1)[0]
        if inner == dtype:
            return ctx.node("Mul", [normal, scale])
        return ctx.node("Cast", ctx.node("Mul", [normal, scale], 1), to=dtype.onnx)


# -- normalisations of channels (axis 1) -----------------------------------------------------------------


@graph_op
class BatchNormOp(GraphOp):
    """Inference: (x - mean) / sqrt(variance + epsilon) * scale + bias, all four per channel (axis 1)."""

    name = "graph.batch_norm"
    x = operand_def(TensorType)
    parameters = var_operand_def(TensorType)  # scale, bias, mean, variance: [channels]
    epsilon = float_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("BatchNormalization",)
    ATEN = ("aten._native_batch_norm_legit_no_training.default",)
    GAF = ("batch_norm",)

    @classmethod
    def body(cls, epsilon: float) -> Scalar:
        """The formula on x, scale, bias, mean, variance."""
        x, scale, bias, mean, variance = map(Arg, range(5))
        return (x - mean) * (1.0 / call("sqrt", variance + epsilon)) * scale + bias

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, *parameters = operands
        check_kind(x.dtype, ("float",), cls.name)
        if x.rank < 1 or len(parameters) != 4:
            raise InvalidInputError(f"{cls.name}: wrong operands", expected="x, scale, bias, mean, variance")
        channels = x.shape[1] if x.rank > 1 else const(1)
        for parameter, what in zip(parameters, ("scale", "bias", "mean", "variance")):
            if parameter.shape != (channels,):
                raise InvalidInputError(
                    f"{cls.name}: wrong shape of {what}", expected=format_dims([channels]), got=format_dims(parameter.shape)
                )
        same_dtype(operands[:3], cls.name)
        same_dtype(operands[3:], cls.name)
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, *parameters = (computing(a) for a in args)
        shape = (-1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)
        result = evaluate(self.body(self.attrs()["epsilon"]), [x, *(p.reshape(shape) for p in parameters)])
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        x, *parameters = self.operand_tensor_types()
        dims = result_dims(x.shape)
        channel = sym("d1") if x.rank > 1 else const(0)
        reads = (identity_read(x.rank, operand=0), *(Read((channel,), operand=i) for i in range(1, 5)))
        return Meaning((Stage(dims, reads, self.body(self.attrs()["epsilon"]), x.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.attr("training_mode", 0) or _outputs(ctx) > 1 or (ctx.opset < 7 and not ctx.attr("is_test", 0)):
            raise ctx.unsupported("batch normalisation in training mode", expected="an inference model")
        if ctx.opset < 9 and not ctx.attr("spatial", 1):
            raise ctx.unsupported("BatchNormalization with spatial=0", expected="statistics per channel")
        return ctx.emit(cls, ctx.operands[:5], epsilon=float(ctx.attr("epsilon", 1e-5)))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("BatchNormalization", inputs, epsilon=self.attrs()["epsilon"])


class ChannelGroupNormOp(GraphOp):
    """Base of instance and group normalisation: statistics over a group of channels and all spatial dims.

    x is [batch, channels, spatial..]; scale and bias are [channels].
    """

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    epsilon = float_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    MIN_RANK: ClassVar[int] = 2

    @classmethod
    def groups(cls, x: TensorType, attrs: Mapping[str, Any]) -> Expr:
        """The number of groups."""
        return x.shape[1]

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, scale, bias = operands
        check_kind(same_dtype(operands, cls.name), ("float",), cls.name)
        if x.rank < cls.MIN_RANK:
            raise InvalidInputError(f"{cls.name}: rank too low", expected="[batch, channels, spatial..]", got=format_dims(x.shape))
        for parameter, what in ((scale, "scale"), (bias, "bias")):
            if parameter.shape != (x.shape[1],):
                raise InvalidInputError(
                    f"{cls.name}: wrong shape of {what}", expected=format_dims([x.shape[1]]), got=format_dims(parameter.shape)
                )
        groups = cls.groups(x, attrs)
        if exact_div(x.shape[1], groups) is None:
            raise InvalidInputError(f"{cls.name}: channels don't divide into groups", expected=f"a multiple of {groups}", got=x.shape[1])
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, scale, bias = (computing(a) for a in args)
        attrs = self.attrs()
        groups = attrs.get("num_groups", x.shape[1])
        rows = x.reshape(x.shape[0], groups, -1)
        spread = (-1, *[1] * (x.ndim - 2))
        with np.errstate(all="ignore"):
            mean = np.mean(rows, axis=2, keepdims=True, dtype=x.dtype)
            variance = np.mean(np.square(rows - mean), axis=2, keepdims=True, dtype=x.dtype)
            normal = (rows - mean) / np.sqrt(variance + x.dtype.type(attrs["epsilon"]))
            result = normal.reshape(x.shape) * scale.reshape(spread) + bias.reshape(spread)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        x, _, _ = self.operand_tensor_types()
        attrs = self.attrs()
        inner, dims = accumulator(x.dtype), result_dims(x.shape)
        groups = self.groups(x, attrs)
        per_group = exact_div(x.shape[1], groups)
        assert per_group is not None
        alone = per_group == 1
        rows = result_dims([x.shape[0], groups])
        group = sym("d1") if alone else sym("d1") * per_group + sym("r1")
        index = (sym("d0"), group, *(sym(f"r{i}") for i in range(2, x.rank)))
        reduced = tuple(
            Dim(f"r{i}", expr(per_group if i == 1 else x.shape[i])) for i in range(1, x.rank) if i > 1 or not alone
        )
        fold = "sum" if reduced else None
        count = Extent(per_group * product(x.shape[2:]))
        at_row = (sym("d0"), sym("d1"))
        own_row = (sym("d0"), floordiv(sym("d1"), per_group))
        whole = identity_read(x.rank, operand=0)
        reads = (
            whole, Read(own_row, stage=1), Read(own_row, stage=3),
            Read((sym("d1"),), operand=1), Read((sym("d1"),), operand=2),
        )
        return Meaning(
            (
                Stage(rows, (Read(index, operand=0),), Arg(0), inner, reduced, fold),
                Stage(rows, (Read(at_row, stage=0),), Arg(0) / count, inner),
                Stage(rows, (Read(index, operand=0), Read(at_row, stage=1)), SQUARED_DISTANCE, inner, reduced, fold),
                Stage(rows, (Read(at_row, stage=2),), 1.0 / call("sqrt", Arg(0) / count + attrs["epsilon"]), inner),
                Stage(dims, reads, (Arg(0) - Arg(1)) * Arg(2) * Arg(3) + Arg(4), x.dtype),
            ),
            results=(4,),
        )


@graph_op
class InstanceNormOp(ChannelGroupNormOp):
    """Each channel of each batch element normalised over its spatial dims, then scaled and shifted."""

    name = "graph.instance_norm"
    ONNX = ("InstanceNormalization",)
    ATEN = ("aten.instance_norm.default",)
    GAF = ("instance_norm",)
    MIN_RANK = 3
    ONNX_ATTRS = {"epsilon": ("epsilon", 1e-5)}


@graph_op
class GroupNormOp(ChannelGroupNormOp):
    """Groups of channels normalised together with their spatial dims, then scaled and shifted per channel."""

    name = "graph.group_norm"
    num_groups = int_prop()
    ONNX = ("GroupNormalization",)
    ATEN = ("aten.native_group_norm.default",)
    GAF = ("group_norm",)

    @classmethod
    def groups(cls, x: TensorType, attrs: Mapping[str, Any]) -> Expr:
        if attrs["num_groups"] < 1:
            raise InvalidInputError(f"{cls.name}: no groups", expected="num_groups of 1 or more", got=attrs["num_groups"])
        return expr(attrs["num_groups"])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, scale, bias = ctx.operands[:3]
        groups = ctx.attr("num_groups")
        if groups is None:
            raise ctx.unsupported("attribute 'num_groups' is missing")
        channels = tensor_type(x).shape[1]
        if ctx.opset < 21 and maybe_equal(tensor_type(scale).shape[0], expr(int(groups))) and channels != groups:
            scale, bias = (_per_channel(ctx, p, channels, int(groups)) for p in (scale, bias))
        return ctx.emit(cls, [x, scale, bias], num_groups=int(groups), epsilon=float(ctx.attr("epsilon", 1e-5)))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        if ctx.opset >= 21:
            return ctx.node("GroupNormalization", inputs, num_groups=attrs["num_groups"], epsilon=attrs["epsilon"])
        return self._through_instance_norm(ctx, inputs)

    def _through_instance_norm(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """Before opset 21: instance normalisation of [batch, groups, rest], then the affine part."""
        x, *_ = self.operand_tensor_types()
        groups = self.attrs()["num_groups"]
        dtype = x.dtype
        ones, zeros = (ctx.constant(np.full(groups, v).astype(dtype.numpy)) for v in (1, 0))
        rows = ctx.node("Reshape", [inputs[0], ctx.constant(np.asarray([0, groups, -1], np.int64))], 1)[0]
        normal = ctx.node("InstanceNormalization", [rows, ones, zeros], 1, epsilon=self.attrs()["epsilon"])[0]
        back = ctx.node("Reshape", [normal, ctx.dims(x.shape)], 1)[0]
        spread = ctx.constant(np.asarray([-1, *[1] * (x.rank - 2)], np.int64))
        scale, bias = (ctx.node("Reshape", [n, spread], 1)[0] for n in inputs[1:])
        return ctx.node("Add", [ctx.node("Mul", [back, scale], 1)[0], bias])


def _per_channel(ctx: ImportContext, parameter: Any, channels: Expr, groups: int) -> Any:
    """Opset 18 to 20 give scale and bias per group: repeat each for the channels of its group."""
    from gaf.dialects.graph.ops.shape import ExpandOp, ReshapeOp

    each = exact_div(channels, expr(groups))
    if each is None:
        raise ctx.unsupported("channels that don't divide into groups", expected=f"a multiple of {groups}", got=channels)
    column = ctx.emit(ReshapeOp, [parameter], shape=(expr(groups), const(1)))
    return ctx.emit(ReshapeOp, [ctx.emit(ExpandOp, [column], shape=(expr(groups), each))], shape=(channels,))
