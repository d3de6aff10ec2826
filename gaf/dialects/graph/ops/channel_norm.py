# SPDX-License-Identifier: Apache-2.0
"""Normalisations of channels (axis 1): batch, instance and group normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div, expr, floordiv, product, sym
from gaf.dialects.common.scalar import Arg, Extent, Scalar, call, evaluate
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    float_prop,
    graph_op,
    int_prop,
    maybe_equal,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Dim,
    Meaning,
    Read,
    Stage,
    identity_read,
    result_dims,
)
from gaf.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import (
    accumulator,
    check_kind,
    computing,
    export_float,
    finish,
    format_dims,
    number,
    same_dtype,
)
from gaf.dialects.graph.ops.norm import SQUARED_DISTANCE
from gaf.dialects.graph.ops.reduce import ReduceMeanOp
from gaf.dialects.graph.ops.shape import reshaped
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


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
    # not aten.batch_norm: it updates its statistics without saying so in its schema; PyTorch decomposes it
    ATEN = ("aten._native_batch_norm_legit_no_training.default",)
    GAF = ("batch_norm",)
    GAF_DEFAULTS = {"epsilon": 1e-5}

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
                    f"{cls.name}: wrong shape of {what}",
                    expected=format_dims([channels]),
                    got=format_dims(parameter.shape),
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
        x = self.operand_tensor_types()[0]
        dims = result_dims(x.shape)
        channel = sym("d1") if x.rank > 1 else const(0)
        reads = (identity_read(x.rank, operand=0), *(Read((channel,), operand=i) for i in range(1, 5)))
        return Meaning((Stage(dims, reads, self.body(self.attrs()["epsilon"]), x.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.attr("training_mode", 0):
            return cls._trained(ctx)
        if ctx.num_outputs > 1 or (ctx.opset < 7 and not ctx.attr("is_test", 0)):
            raise ctx.unsupported("batch normalisation in training mode", expected="an inference model, or opset 14")
        if ctx.opset < 9 and not ctx.attr("spatial", 1):
            raise ctx.unsupported("BatchNormalization with spatial=0", expected="statistics per channel")
        return ctx.emit(cls, ctx.operands[:5], epsilon=float(ctx.attr("epsilon", 1e-5)))

    @classmethod
    def _trained(cls, ctx: ImportContext) -> Any:
        """Training mode: normalised with the batch's own statistics; also the running statistics, moved towards those."""
        x, scale, bias, mean, variance = ctx.operands[:5]
        type_ = tensor_type(x)
        inner, axes = accumulator(type_.dtype), tuple(i for i in range(type_.rank) if i != 1)
        spread = tuple(type_.shape[1] if i == 1 else const(1) for i in range(type_.rank))
        wide = x if type_.dtype == inner else ctx.emit(CastOp, [x], to=inner)
        own_mean = ctx.emit(ReduceMeanOp, [wide], axes=axes, keepdims=False)
        centred = ctx.emit(SubOp, [wide, reshaped(ctx, own_mean, spread)])
        own_variance = ctx.emit(ReduceMeanOp, [ctx.emit(MulOp, [centred, centred])], axes=axes, keepdims=False)
        made = ctx.emit(
            cls, [x, scale, bias, own_mean, own_variance], epsilon=float(ctx.attr("epsilon", 1e-5))
        )
        momentum, moved = float(ctx.attr("momentum", 0.9)), []
        for running, own in ((mean, own_mean), (variance, own_variance)):
            kind = tensor_type(running).dtype
            parts = [
                ctx.emit(MulOp, [value, ctx.constant_value(number(factor, kind))])
                for value, factor in (
                    (running, momentum),
                    (own if kind == inner else ctx.emit(CastOp, [own], to=kind), 1.0 - momentum),
                )
            ]
            moved.append(ctx.emit(AddOp, parts))
        return [made, *moved][: max(ctx.num_outputs, 1)]

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.used(1) or ctx.used(2):
            raise ctx.unsupported("saved statistics of a batch normalisation")
        mean, variance = ctx.value("running_mean"), ctx.value("running_var")
        operands = [ctx.value("input"), *aten_affine(ctx), mean, variance]
        return [ctx.emit(cls, operands, epsilon=float(ctx.attr("eps", 1e-5))), None, None]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("BatchNormalization", inputs, epsilon=self.attrs()["epsilon"])


def aten_affine(ctx: AtenContext) -> list[Any]:
    """Scale and bias of an ATen call; 1 and 0 where they are left out."""
    from gaf.dialects.graph.ops.create import FullOp

    x = tensor_type(ctx.value("input"))
    result = []
    for name, default in (("weight", 1), ("bias", 0)):
        fill = np.full((), default, x.dtype.numpy)
        shape = (x.shape[1] if x.rank > 1 else const(1),)
        result.append(ctx.value(name) if ctx.has(name) else ctx.emit(FullOp, [], shape=shape, value=fill))
    return result


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
            raise InvalidInputError(
                f"{cls.name}: rank too low", expected="[batch, channels, spatial..]", got=format_dims(x.shape)
            )
        for parameter, what in ((scale, "scale"), (bias, "bias")):
            if parameter.shape != (x.shape[1],):
                raise InvalidInputError(
                    f"{cls.name}: wrong shape of {what}",
                    expected=format_dims([x.shape[1]]),
                    got=format_dims(parameter.shape),
                )
        groups = cls.groups(x, attrs)
        if exact_div(x.shape[1], groups) is None:
            raise InvalidInputError(
                f"{cls.name}: channels don't divide into groups",
                expected=f"a multiple of {groups}",
                got=x.shape[1],
            )
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
            Dim(f"r{i}", expr(per_group if i == 1 else x.shape[i]))
            for i in range(1, x.rank)
            if i > 1 or not alone
        )
        fold = "sum" if reduced else None
        count = Extent(per_group * product(x.shape[2:]))
        at_row = (sym("d0"), sym("d1"))
        own_row = (sym("d0"), floordiv(sym("d1"), per_group))
        whole = identity_read(x.rank, operand=0)
        reads = (
            whole,
            Read(own_row, stage=1),
            Read(own_row, stage=3),
            Read((sym("d1"),), operand=1),
            Read((sym("d1"),), operand=2),
        )
        return Meaning(
            (
                Stage(rows, (Read(index, operand=0),), Arg(0), inner, reduced, fold),
                Stage(rows, (Read(at_row, stage=0),), Arg(0) / count, inner),
                Stage(
                    rows,
                    (Read(index, operand=0), Read(at_row, stage=1)),
                    SQUARED_DISTANCE,
                    inner,
                    reduced,
                    fold,
                ),
                Stage(
                    rows,
                    (Read(at_row, stage=2),),
                    1.0 / call("sqrt", Arg(0) / count + attrs["epsilon"]),
                    inner,
                ),
                Stage(dims, reads, (Arg(0) - Arg(1)) * Arg(2) * Arg(3) + Arg(4), x.dtype),
            ),
            results=(4,),
        )


@graph_op
class InstanceNormOp(ChannelGroupNormOp):
    """Each channel of each batch element normalised over its spatial dims, then scaled and shifted."""

    name = "graph.instance_norm"
    ONNX = ("InstanceNormalization",)
    GAF = ("instance_norm",)
    MIN_RANK = 3
    ONNX_ATTRS = {"epsilon": ("epsilon", 1e-5)}

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return export_float(ctx, self.ONNX[0], inputs, self.operand_tensor_types()[0].dtype, super().to_onnx)


@graph_op
class GroupNormOp(ChannelGroupNormOp):
    """Groups of channels normalised together with their spatial dims, then scaled and shifted per channel."""

    name = "graph.group_norm"
    num_groups = int_prop()
    ONNX = ("GroupNormalization",)
    ATEN = ("aten.native_group_norm.default", "aten.group_norm.default")
    GAF = ("group_norm",)
    GAF_DEFAULTS = {"epsilon": 1e-5}

    @classmethod
    def groups(cls, x: TensorType, attrs: Mapping[str, Any]) -> Expr:
        if attrs["num_groups"] < 1:
            raise InvalidInputError(
                f"{cls.name}: no groups", expected="num_groups of 1 or more", got=attrs["num_groups"]
            )
        return expr(attrs["num_groups"])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, scale, bias = ctx.operands[:3]
        groups = ctx.attr("num_groups")
        if groups is None:
            raise ctx.unsupported("attribute 'num_groups' is missing")
        channels = tensor_type(x).shape[1]
        if (
            ctx.opset < 21
            and maybe_equal(tensor_type(scale).shape[0], expr(int(groups)))
            and channels != groups
        ):
            scale, bias = (_per_channel(ctx, p, channels, int(groups)) for p in (scale, bias))
        return ctx.emit(
            cls, [x, scale, bias], num_groups=int(groups), epsilon=float(ctx.attr("epsilon", 1e-5))
        )

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        native = ctx.op_type == "aten.native_group_norm.default"
        if native and (ctx.used(1) or ctx.used(2)):
            raise ctx.unsupported("saved statistics of a group normalisation")
        groups = int(ctx.attr("group" if native else "num_groups"))
        operands = [ctx.value("input"), *aten_affine(ctx)]
        made = ctx.emit(cls, operands, num_groups=groups, epsilon=float(ctx.attr("eps", 1e-5)))
        return [made, None, None] if native else made

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        if ctx.opset >= 21:
            return ctx.node(
                "GroupNormalization", inputs, num_groups=attrs["num_groups"], epsilon=attrs["epsilon"]
            )
        dtype = self.operand_tensor_types()[0].dtype
        return export_float(ctx, "InstanceNormalization", inputs, dtype, self._through_instance_norm)

    def _through_instance_norm(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """Before opset 21: instance normalisation of [batch, groups, rest], then the affine part."""
        x, *_ = self.operand_tensor_types()
        groups = self.attrs()["num_groups"]
        dtype = dt.F32 if x.dtype == dt.BF16 else x.dtype  # what `export_float` gives
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
        raise ctx.unsupported(
            "channels that don't divide into groups", expected=f"a multiple of {groups}", got=channels
        )
    column = ctx.emit(ReshapeOp, [parameter], shape=(expr(groups), const(1)))
    return ctx.emit(ReshapeOp, [ctx.emit(ExpandOp, [column], shape=(expr(groups), each))], shape=(channels,))
