# SPDX-License-Identifier: Apache-2.0
"""Normalisations of rows: LayerNorm and RMSNorm over the last dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def, traits_def, var_result_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import product
from gaf.dialects.common.scalar import Arg, Extent, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    float_prop,
    graph_op,
    int_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Meaning,
    Read,
    Stage,
    broadcast_index,
    identity_read,
    kept_read,
    result_dims,
)
from gaf.dialects.graph.ops.common import (
    accumulator,
    check_kind,
    computing,
    finish,
    format_dims,
    norm_axis,
    number,
    same_dtype,
)
from gaf.dialects.graph.ops.create import FullOp
from gaf.dialects.graph.ops.reduce import reduced_shape
from gaf.dialects.graph.ops.softmax import fold_rows
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

SQUARED_DISTANCE = call("mul", Arg(0) - Arg(1), Arg(0) - Arg(1))


class RowNormOp(GraphOp):
    """Base: statistics over the last dims from `axis` on; scale (and bias) broadcast to x, never widen it.

    Statistics are computed in float32 for 16-bit operands, as ONNX's stash_type 1 asks.
    """

    epsilon = float_prop()
    axis = int_prop()
    GAF_OPTIONAL = ("scale",)

    @classmethod
    def check_affine(cls, x: TensorType, parameter: TensorType, what: str) -> None:
        """Raises InvalidInputError unless `parameter` broadcasts to the shape of x."""
        offset = x.rank - parameter.rank
        fits = offset >= 0 and all(p == 1 or p == x.shape[offset + i] for i, p in enumerate(parameter.shape))
        if not fits:
            raise InvalidInputError(
                f"{cls.name}: {what} doesn't broadcast to x",
                expected=f"a shape that broadcasts to {format_dims(x.shape)}",
                got=format_dims(parameter.shape),
            )

    @classmethod
    def aten_row_norm(cls, ctx: AtenContext) -> tuple[list[Any], int]:
        """(x, scale and bias of an ATen call, the first normalised axis); a scale left out is 1."""
        from gaf.dialects.graph.ops.create import FullOp

        x, shape = ctx.value("input"), ctx.dim_args("normalized_shape")
        one = np.ones((), tensor_type(x).dtype.numpy)
        scale = ctx.value("weight") if ctx.has("weight") else ctx.emit(FullOp, [], shape=shape, value=one)
        bias = [ctx.value("bias")] if ctx.has("bias") else []
        return [x, scale, *bias], tensor_type(x).rank - len(shape)

    @classmethod
    def from_gaf(cls, ctx: ImportContext, operands: Sequence[SSAValue], attrs: Mapping[str, Any]) -> Any:
        """A scale that is left out is 1."""
        operands = list(operands)
        if len(operands) == 1:
            x = tensor_type(operands[0])
            axis = norm_axis(attrs["axis"], x.rank, cls.name)
            operands.append(ctx.emit(FullOp, [], shape=x.shape[axis:], value=number(1.0, x.dtype)))
        return ctx.emit(cls, operands, **attrs)

    def axes(self) -> tuple[int, ...]:
        """The normalised axes, counted from the front."""
        rank = self.operand_tensor_types()[0].rank
        return tuple(range(norm_axis(self.attrs()["axis"], rank, self.name), rank))


@graph_op
class LayerNormOp(RowNormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the dims from `axis` on.

    Operands x, scale and an optional bias. With `stash`, two more results: mean and 1 / sqrt(variance +
    epsilon), of x's shape with size 1 on the normalised axes, in float32 as in ONNX.
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
    ATEN = ("aten.native_layer_norm.default", "aten.layer_norm.default")
    GAF = ("layer_norm",)
    GAF_DEFAULTS = {"axis": -1, "epsilon": 1e-5, "stash": False}

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
        return [x, *[TensorType.of(shape, dt.F32)] * 2]

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
        at_row = lambda stage: identity_read(len(rows), stage=stage)
        stages = [
            fold_rows(x.shape, axes, [whole], Arg(0), "sum", inner),
            Stage(rows, (at_row(0),), Arg(0) / count, inner),  # 1: mean
            fold_rows(x.shape, axes, [whole, kept_read(rank, axes, stage=1)], SQUARED_DISTANCE, "sum", inner),
            Stage(
                rows, (at_row(2),), 1.0 / call("sqrt", Arg(0) / count + attrs["epsilon"]), inner
            ),  # 3: invstd
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
            stages.append(Stage(shape, (kept_read(rank, axes, stage=stage),), Arg(0), dt.F32))
        return Meaning(tuple(stages), results=(4, 5, 6))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return _import_row_norm(cls, ctx, stash=ctx.num_outputs > 1)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        operands, axis = cls.aten_row_norm(ctx)
        native = ctx.op_type == "aten.native_layer_norm.default"
        stash = native and (ctx.used(1) or ctx.used(2))
        made = ctx.emit(cls, operands, axis=axis, epsilon=float(ctx.attr("eps", 1e-5)), stash=stash)
        if not native:
            return made
        return [made[0], *(ctx.cast(s, ctx.result.dtype) for s in made[1:])] if stash else [made, None, None]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        names = ctx.node(
            "LayerNormalization", inputs, axis=attrs["axis"], epsilon=attrs["epsilon"], stash_type=1
        )
        return names


def _import_row_norm(cls: type[RowNormOp], ctx: ImportContext, **flags: bool) -> Any:
    x = ctx.operands[0]
    type_ = tensor_type(x)
    if int(ctx.attr("stash_type", 1)) not in (1, type_.dtype.onnx) and type_.dtype != dt.F64:
        raise ctx.unsupported(
            "statistics in a narrow type", expected="stash_type 1 (float32)", got=ctx.attr("stash_type")
        )
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
    ATEN = ("aten.rms_norm.default", "aten._fused_rms_norm.default")
    GAF = ("rms_norm",)
    GAF_DEFAULTS = {"axis": -1, "epsilon": 1e-5}

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
                fold_rows(x.shape, axes, [whole], Arg(0) * Arg(0), "sum", inner),
                Stage(rows, (identity_read(len(rows), stage=0),), factor, inner),
                Stage(dims, reads, Arg(0) * Arg(1) * Arg(2), x.dtype),
            ),
            results=(2,),
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.op_type == "SimplifiedLayerNormalization" and ctx.num_outputs > 1:
            raise ctx.unsupported("the second output of SimplifiedLayerNormalization")
        return _import_row_norm(cls, ctx)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.op_type == "aten._fused_rms_norm.default" and ctx.used(1):
            raise ctx.unsupported("the second result of _fused_rms_norm")
        operands, axis = cls.aten_row_norm(ctx)
        dtype = ctx.result.dtype
        epsilon = float(ctx.attr("eps", dtype.eps))  # PyTorch's default is the type's own
        made = ctx.emit(cls, operands, axis=axis, epsilon=epsilon)
        return [made, None] if ctx.op_type == "aten._fused_rms_norm.default" else made

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
            mean = ctx.node("ReduceMean", [square, ctx.constant(np.asarray(axes, np.int64))], 1, keepdims=1)[
                0
            ]
        else:
            mean = ctx.node("ReduceMean", [square], 1, axes=list(axes), keepdims=1)[0]
        shifted = ctx.node("Add", [mean, ctx.constant(number(attrs["epsilon"], inner))], 1)[0]
        normal = ctx.node("Div", [x, ctx.node("Sqrt", [shifted], 1)[0]], 1)[0]
        if inner == dtype:
            return ctx.node("Mul", [normal, scale])
        return ctx.node("Cast", ctx.node("Mul", [normal, scale], 1), to=dtype.onnx)
