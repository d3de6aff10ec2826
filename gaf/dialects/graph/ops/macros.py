# SPDX-License-Identifier: Apache-2.0
"""Operators of models that have no graph op of their own: they are written with other ops at import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar


from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, exact_div, expr, product
from gaf.dialects.graph.contract import AtenContext, ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import dim_list, norm_axis, number
from gaf.dialects.graph.ops.compare import EqualOp, WhereOp
from gaf.dialects.graph.ops.create import PositionsOp
from gaf.dialects.graph.ops.matmul import MatMulOp, matmul
from gaf.dialects.graph.ops.pool import AveragePoolOp
from gaf.dialects.graph.ops.reduce import ReduceL1Op, ReduceL2Op, ReduceMaxOp, ReduceMeanOp
from gaf.dialects.graph.ops.search import ArgMaxOp, assume_exact
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import equal_parts, split


FAMILIES_OF_EXPANSIONS = ("attention", "dropout", "einsum", "lookup", "quantize", "sampling")
"""Modules of this package that define expansions, besides this one."""


class Expansion:
    """Base: names like a graph op's, and `from_onnx`, which emits graph ops."""

    ONNX: ClassVar[tuple[str, ...]] = ()
    ATEN: ClassVar[tuple[str, ...]] = ()
    GAF: ClassVar[tuple[str, ...]] = ()
    # what a `.gaf` call takes: operands ("bias?" may be left out) and the ONNX attributes with their defaults
    GAF_OPERANDS: ClassVar[tuple[str, ...]] = ()
    GAF_DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        """Emit ops for an ONNX node; returns its result or the list of its results."""
        raise NotImplementedError(cls.__name__)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        """Emit ops for an ATen call; returns its result or the list of its results."""
        raise NotImplementedError(cls.__name__)


class Identity(Expansion):
    """The operand itself."""

    ONNX = ("Identity",)
    ATEN = tuple(
        f"aten.{name}.default"
        for name in ("alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "positive")
    ) + ("_c10d_functional.wait_tensor.default",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.operands[0]

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.operands[0]


class LocalResponseNorm(Expansion):
    """x / (bias + alpha * m)^beta, m the mean of x * x over `size` neighbouring channels, 0 beyond the ends.

    onnx.reference (1.23) counts along the batch; ONNX's text and onnxruntime along the channels.
    """

    ONNX = ("LRN",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        type_, size = tensor_type(x), ctx.attr("size")
        if size is None or size < 1 or type_.rank < 2:
            raise ctx.unsupported("LRN needs channels and a size", got=f"{type_}, size {size}")
        before, behind = (size - 1) // 2, size // 2
        rows = (type_.shape[0], const(1), type_.shape[1], product(type_.shape[2:]))
        squares = ctx.emit(ReshapeOp, [ctx.emit(MulOp, [x, x])], shape=rows)
        window = {"kernel": (size, 1), "strides": (1, 1), "pads": (before, 0, behind, 0), "dilations": (1, 1)}
        mean = ctx.emit(AveragePoolOp, [squares], ceil_mode=False, count_include_pad=True, **window)
        mean = ctx.emit(ReshapeOp, [mean], shape=type_.shape)
        factors = (ctx.attr("alpha", 1e-4), -ctx.attr("beta", 0.75), ctx.attr("bias", 1.0))
        alpha, beta, bias = (ctx.constant_value(number(v, type_.dtype)) for v in factors)
        base = ctx.emit(AddOp, [ctx.emit(MulOp, [mean, alpha]), bias])
        return ctx.emit(MulOp, [x, ctx.emit(PowOp, [base, beta])])


class LpNormalization(Expansion):
    """x over its p-norm along an axis, p 1 or 2; 0 where the norm is 0."""

    ONNX = ("LpNormalization",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, order = ctx.operands[0], int(ctx.attr("p", 2))
        type_ = tensor_type(x)
        if order not in (1, 2):
            raise ctx.unsupported("this norm", expected="p of 1 or 2", got=order)
        axis = norm_axis(int(ctx.attr("axis", -1)), type_.rank, ctx.op_type)
        norm = ctx.emit(ReduceL1Op if order == 1 else ReduceL2Op, [x], axes=(axis,), keepdims=True)
        zero, one = (ctx.constant_value(number(v, type_.dtype)) for v in (0.0, 1.0))
        divisor = ctx.emit(WhereOp, [ctx.emit(EqualOp, [norm, zero]), one, norm])
        return ctx.emit(DivOp, [x, divisor])


class Clip(Expansion):
    """min(max(x, low), high); either bound may be left out."""

    ONNX = ("Clip",)
    ATEN = (
        *("aten.clamp.default", "aten.clamp.Tensor", "aten.clamp_min.default", "aten.clamp_min.Tensor"),
        *("aten.clamp_max.default", "aten.clamp_max.Tensor", "aten.hardtanh.default"),
    )
    GAF = ("clip",)
    GAF_OPERANDS = ("x", "low?", "high?")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        dtype = tensor_type(x).dtype
        if ctx.opset < 11:
            values = [ctx.attr(name) for name in ("min", "max")]
            bounds = [None if v is None else ctx.constant_value(number(v, dtype)) for v in values]
        else:
            bounds = [ctx.operand(1), ctx.operand(2)]
        for bound, op in zip(bounds, (MaxOp, MinOp)):
            if bound is not None:
                if tensor_type(bound).num_elements() != 1:
                    raise ctx.unsupported(
                        "a clip bound that is no scalar", expected="one element", got=tensor_type(bound)
                    )
                if tensor_type(bound).rank > tensor_type(x).rank:
                    bound = ctx.emit(ReshapeOp, [bound], shape=())
                x = ctx.emit(op, [x, bound])
        return x

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        hardtanh = ctx.op_type == "aten.hardtanh.default"
        x = ctx.value("self", ctx.result.dtype)
        for name, op in (("min", MaxOp), ("max", MinOp)):
            name += "_val" if hardtanh else ""
            if ctx.has(name):
                x = ctx.emit(op, [x, ctx.value(name, ctx.result.dtype)])
        return x


class Sum(Expansion):
    """The sum of any number of operands, as a chain of additions."""

    ONNX = ("Sum",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        operands = [o for o in ctx.operands if o is not None]
        if not operands:
            raise ctx.unsupported(f"{ctx.op_type} without operands")
        result = operands[0]
        for operand in operands[1:]:
            result = ctx.emit(AddOp, [result, operand])
        return result


class Mean(Sum):
    """The mean of any number of operands."""

    ONNX = ("Mean",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        total = super().from_onnx(ctx)
        count = sum(o is not None for o in ctx.operands)
        if count == 1:
            return total
        return ctx.emit(DivOp, [total, ctx.constant_value(number(count, tensor_type(total).dtype))])


class Gemm(Expansion):
    """alpha * A' B' + beta * C, where ' transposes on request; factors of 1 vanish."""

    ONNX = ("Gemm",)
    ATEN = ("aten.addmm.default", "aten.linear.default", "aten.baddbmm.default", "aten.addmv.default")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        a, b = ctx.operands[:2]
        for operand in (a, b):
            if tensor_type(operand).rank != 2:
                raise ctx.unsupported(
                    "Gemm of operands that are no matrices", expected="rank 2", got=tensor_type(operand)
                )
        a = ctx.emit(TransposeOp, [a], perm=(1, 0)) if ctx.attr("transA", 0) else a
        b = ctx.emit(TransposeOp, [b], perm=(1, 0)) if ctx.attr("transB", 0) else b
        result = cls.scaled(ctx, ctx.emit(MatMulOp, [a, b]), float(ctx.attr("alpha", 1.0)))
        c = ctx.operand(2)
        if c is None or float(ctx.attr("beta", 1.0)) == 0.0:
            return result
        return ctx.emit(AddOp, [result, cls.scaled(ctx, c, float(ctx.attr("beta", 1.0)))])

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.op_type == "aten.linear.default":
            weight = ctx.value("weight")
            weight = ctx.emit(TransposeOp, [weight], perm=(1, 0)) if tensor_type(weight).rank == 2 else weight
            result = matmul(ctx, ctx.value("input"), weight)
            return ctx.emit(AddOp, [result, ctx.value("bias")]) if ctx.has("bias") else result
        added, a, b = ctx.operands[:3]
        beta = float(ctx.attr("beta", 1))
        result = cls.scaled(ctx, matmul(ctx, a, b), float(ctx.attr("alpha", 1)))
        # with beta 0 not even a NaN of the addend counts
        return result if beta == 0.0 else ctx.emit(AddOp, [result, cls.scaled(ctx, added, beta)])

    @classmethod
    def scaled(cls, ctx: ImportContext, x: Any, factor: float) -> Any:
        """x times a constant; x itself for 1. Raises UnsupportedError for fractions of integers."""
        if factor == 1.0:
            return x
        dtype = tensor_type(x).dtype
        if not dtype.is_float and factor != int(factor):
            raise ctx.unsupported(
                "Gemm of integers with a fractional factor", expected="whole alpha and beta", got=factor
            )
        return ctx.emit(MulOp, [x, ctx.constant_value(number(factor, dtype))])


class Linear(Expansion):
    """x @ weights + bias, with x of any rank and weights [inputs, outputs]; the bias may be left out."""

    GAF = ("linear",)
    GAF_OPERANDS = ("x", "weights", "bias?")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, weights = ctx.operands[:2]
        result = matmul(ctx, x, weights)
        bias = ctx.operand(2)
        return result if bias is None else ctx.emit(AddOp, [result, bias])


class Split(Expansion):
    """Parts of an operand along one axis: each is a slice."""

    ONNX = ("Split",)
    ATEN = tuple(
        f"aten.{name}"
        for name in ("split_with_sizes.default", "split.Tensor", "split.sizes", "chunk.default")
    )
    GAF = ("split",)
    GAF_OPERANDS = ("x",)
    GAF_DEFAULTS = {"axis": 0, "split": (), "num_outputs": 0}

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        axis = norm_axis(int(ctx.attr("axis", 0)), tensor_type(x).rank, "Split")
        dim = tensor_type(x).shape[axis]
        static = ctx.attr("split")
        if static is not None:
            sizes = [expr(int(s)) for s in static]
        elif ctx.operand(1) is not None:
            sizes = list(dim_list(ctx, 1, "the sizes of a split"))
        else:
            count = int(ctx.attr("num_outputs", ctx.num_outputs))
            parts = equal_parts(dim, count)
            if parts is None:
                raise ctx.unsupported(
                    f"split of a dim of {dim} into {count} parts", hint="fix the sizes with --input-shape"
                )
            sizes = parts
        if len(sizes) != ctx.num_outputs or sum(sizes, const(0)) != dim:
            raise ctx.unsupported(
                "sizes of a split that don't fit",
                expected=f"{ctx.num_outputs} sizes with sum {dim}",
                got=", ".join(map(str, sizes)),
            )
        return split(ctx, x, axis, sizes)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        axis = norm_axis(int(ctx.attr("dim", 0)), tensor_type(x).rank, ctx.op_type)
        return split(ctx, x, axis, [type_.shape[axis] for type_ in ctx.results])


class Hardmax(Expansion):
    """1 at the first largest element along an axis, 0 elsewhere."""

    ONNX = ("Hardmax",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        shape, rank = tensor_type(x).shape, tensor_type(x).rank
        axis = norm_axis(int(ctx.attr("axis", -1 if ctx.opset >= 13 else 1)), rank, ctx.op_type)
        if ctx.opset < 13 and axis != rank - 1:
            raise ctx.unsupported("Hardmax over several axes (before opset 13)", expected="the last axis", got=axis)
        assume_exact(ctx, shape[axis])
        best = ctx.emit(ArgMaxOp, [x], axis=axis, keepdims=True, select_last=False)
        counted = tuple(d if i == axis else const(1) for i, d in enumerate(shape))
        here = ctx.emit(PositionsOp, [], first=(const(0),), shape=counted)
        hit = ctx.emit(EqualOp, [here, ctx.emit(CastOp, [best], to=dt.I32)])
        return ctx.emit(CastOp, [hit], to=tensor_type(x).dtype)


class GlobalPool(Expansion):
    """Base of reductions over all spatial dims, which stay with size 1."""

    REDUCTION: ClassVar[Any] = None

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        rank = tensor_type(ctx.operands[0]).rank
        if rank < 3:
            raise ctx.unsupported(
                f"{ctx.op_type} without spatial dims",
                expected="[batch, channels, spatial..]",
                got=f"rank {rank}",
            )
        return ctx.emit(cls.REDUCTION, ctx.operands[:1], axes=tuple(range(2, rank)), keepdims=True)


class GlobalAveragePool(GlobalPool):
    """Mean over the spatial dims."""

    ONNX = ("GlobalAveragePool",)
    REDUCTION = ReduceMeanOp


class GlobalMaxPool(GlobalPool):
    """Maximum over the spatial dims."""

    ONNX = ("GlobalMaxPool",)
    REDUCTION = ReduceMaxOp


class DepthToSpace(Expansion):
    """Channels moved into blocks of the spatial dims: reshape, transpose, reshape."""

    ONNX = ("DepthToSpace",)
    ATEN = ("aten.pixel_shuffle.default",)
    GAF = ("depth_to_space",)
    GAF_OPERANDS = ("x",)
    GAF_DEFAULTS = {"blocksize": 0, "mode": "DCR"}

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, block = ctx.operands[0], _block_size(ctx)
        n, c, h, w = tensor_type(x).shape
        depth = exact_div(c, expr(block * block))
        if depth is None:
            raise ctx.unsupported(
                "channels that don't divide into blocks", expected=f"a multiple of {block * block}", got=c
            )
        if ctx.attr("mode", "DCR") == "CRD":
            inner, perm = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
        else:
            inner, perm = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
        x = ctx.emit(TransposeOp, [ctx.emit(ReshapeOp, [x], shape=inner)], perm=perm)
        return ctx.emit(ReshapeOp, [x], shape=(n, depth, h * block, w * block))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, block = ctx.operands[0], int(ctx.attr("upscale_factor"))
        *batch, depth, height, width = ctx.result.shape
        rank = len(batch)
        rows, columns = tensor_type(x).shape[-2:]
        x = ctx.emit(ReshapeOp, [x], shape=(*batch, depth, block, block, rows, columns))
        perm = (*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2)
        return ctx.emit(
            ReshapeOp, [ctx.emit(TransposeOp, [x], perm=perm)], shape=(*batch, depth, height, width)
        )


class SpaceToDepth(Expansion):
    """Blocks of the spatial dims moved into channels."""

    ONNX = ("SpaceToDepth",)
    ATEN = ("aten.pixel_unshuffle.default",)
    GAF = ("space_to_depth",)
    GAF_OPERANDS = ("x",)
    GAF_DEFAULTS = {"blocksize": 0, "mode": "DCR"}

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, block = ctx.operands[0], _block_size(ctx)
        n, c, h, w = tensor_type(x).shape
        rows, columns = exact_div(h, expr(block)), exact_div(w, expr(block))
        if rows is None or columns is None:
            raise ctx.unsupported(
                "spatial dims that don't divide into blocks",
                expected=f"multiples of {block}",
                got=f"{h} x {w}",
            )
        x = ctx.emit(ReshapeOp, [x], shape=(n, c, rows, block, columns, block))
        depth_last = ctx.attr("mode", "DCR") == "CRD"
        x = ctx.emit(TransposeOp, [x], perm=(0, 1, 3, 5, 2, 4) if depth_last else (0, 3, 5, 1, 2, 4))
        return ctx.emit(ReshapeOp, [x], shape=(n, product([c, block, block]), rows, columns))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, block = ctx.operands[0], int(ctx.attr("downscale_factor"))
        *batch, depth, rows, columns = ctx.result.shape
        rank, channels = len(batch), tensor_type(x).shape[-3]
        x = ctx.emit(ReshapeOp, [x], shape=(*batch, channels, rows, block, columns, block))
        perm = (*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3)
        return ctx.emit(
            ReshapeOp, [ctx.emit(TransposeOp, [x], perm=perm)], shape=(*batch, depth, rows, columns)
        )


def _block_size(ctx: ImportContext) -> int:
    block = ctx.attr("blocksize")
    if block is None or tensor_type(ctx.operands[0]).rank != 4:
        raise ctx.unsupported(f"{ctx.op_type} without blocksize, or of rank other than 4")
    return int(block)


def expansions() -> Sequence[type[Expansion]]:
    """Every expansion that has a name in a model format, of this module and the other families of expansions."""
    found = []
    for module in ("macros", *FAMILIES_OF_EXPANSIONS):
        for value in vars(import_module(f"gaf.dialects.graph.ops.{module}")).values():
            own = isinstance(value, type) and issubclass(value, Expansion) and value.__module__.endswith(module)
            if own and (value.ONNX or value.ATEN or value.GAF):
                found.append(value)
    return found
