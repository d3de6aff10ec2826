# SPDX-License-Identifier: Apache-2.0
"""ATen calls that have no graph op of their own: they are written with other ops at import."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import DIMS, const, expr, is_positive
from gaf.dialects.graph.contract import AtenContext, broadcast_shapes, tensor_type
from gaf.dialects.graph.ops.activation import SoftplusOp
from gaf.dialects.graph.ops.binary import AddOp, DivOp, ModOp, MulOp, PowOp, SubOp
from gaf.dialects.graph.ops.channel_norm import InstanceNormOp, aten_affine
from gaf.dialects.graph.ops.common import norm_axis
from gaf.dialects.graph.ops.compare import EqualOp, LessOrEqualOp, WhereOp
from gaf.dialects.graph.ops.index import GatherNDOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.pool import AveragePoolOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceSumOp, aten_axes
from gaf.dialects.graph.ops.scatter import ScatterNDOp
from gaf.dialects.graph.ops.search import ArgMaxOp, ArgMinOp
from gaf.dialects.graph.ops.shape import (
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
    expanded,
    reshaped,
)
from gaf.dialects.graph.ops.slice import FAR, ConcatOp, clamp, slice_window, sliced, split
from gaf.dialects.graph.ops.unary import (
    ExpOp,
    IsInfOp,
    LogOp,
    NegOp,
    RsqrtOp,
    SigmoidOp,
    SignOp,
    SqrtOp,
    TruncOp,
)

_EXPANSIONS: list[type[Expansion]] = []


def aten_expansions() -> Sequence[type[Expansion]]:
    """Every expansion of an ATen call."""
    from gaf.dialects.graph.ops import aten_statistics, aten_windows  # noqa: F401  their calls enter the list with the import

    return _EXPANSIONS


def expands(*names: str) -> Callable[[Callable[[AtenContext], Any]], type[Expansion]]:
    """Makes an `Expansion` of a function: `names` are ATen overloads without `aten.`."""

    def make(function: Callable[[AtenContext], Any]) -> type[Expansion]:
        members = {
            "__doc__": function.__doc__,
            "__module__": __name__,
            "ATEN": tuple(f"aten.{name}" for name in names),
            "from_aten": staticmethod(function),
        }
        expansion = type(function.__name__.title().replace("_", ""), (Expansion,), members)
        _EXPANSIONS.append(expansion)
        return expansion

    return make


# -- elementwise ---------------------------------------------------------------------------------------


@expands("square.default")
def square(ctx: AtenContext) -> Any:
    """x * x."""
    x = ctx.value("self", ctx.result.dtype)
    return ctx.emit(MulOp, [x, x])


@expands("log2.default", "log10.default")
def log_of_base(ctx: AtenContext) -> Any:
    """log(x) / log(base)."""
    dtype = ctx.result.dtype
    base = 2.0 if ctx.op_type == "aten.log2.default" else 10.0
    log = ctx.emit(LogOp, [ctx.value("self", dtype)])
    return ctx.emit(MulOp, [log, ctx.number(1.0 / math.log(base), dtype)])


@expands("exp2.default")
def exp2(ctx: AtenContext) -> Any:
    """2 to the power x."""
    dtype = ctx.result.dtype
    return ctx.emit(PowOp, [ctx.number(2.0, dtype), ctx.value("self", dtype)])


@expands("log1p.default")
def log1p(ctx: AtenContext) -> Any:
    """log(1 + x) without loss near 0: x * log(u) / (u - 1) with u = 1 + x rounded.

    Source: Goldberg, "What every computer scientist should know about floating-point arithmetic", theorem 4.
    """
    dtype = _working(ctx)
    x, one = ctx.cast(ctx.value("self"), dtype), ctx.number(1.0, dtype)
    u = ctx.emit(AddOp, [x, one])
    step = ctx.emit(SubOp, [u, one])
    scaled = ctx.emit(DivOp, [ctx.emit(MulOp, [x, ctx.emit(LogOp, [u])]), step])
    small = ctx.emit(EqualOp, [u, one])
    infinite = ctx.emit(IsInfOp, [u], negative=False, positive=True)
    result = ctx.emit(WhereOp, [small, x, ctx.emit(WhereOp, [infinite, u, scaled])])
    return ctx.cast(result, ctx.result.dtype)


@expands("expm1.default")
def expm1(ctx: AtenContext) -> Any:
    """exp(x) - 1 without loss near 0: (u - 1) * x / log(u) with u = exp(x) rounded (Kahan's formula)."""
    dtype = _working(ctx)
    x, one = ctx.cast(ctx.value("self"), dtype), ctx.number(1.0, dtype)
    u = ctx.emit(ExpOp, [x])
    step = ctx.emit(SubOp, [u, one])
    scaled = ctx.emit(DivOp, [ctx.emit(MulOp, [step, x]), ctx.emit(LogOp, [u])])
    minus = ctx.emit(EqualOp, [step, ctx.number(-1.0, dtype)])
    infinite = ctx.emit(IsInfOp, [u], negative=False, positive=True)
    plain = ctx.emit(WhereOp, [minus, step, ctx.emit(WhereOp, [infinite, u, scaled])])
    result = ctx.emit(WhereOp, [ctx.emit(EqualOp, [u, one]), x, plain])
    return ctx.cast(result, ctx.result.dtype)


def _working(ctx: AtenContext) -> dt.DType:
    """Formulas that rely on rounding compute 16-bit floats in float32."""
    dtype = ctx.result.dtype
    return dt.F32 if dtype.bits == 16 else dtype


@expands("sgn.default")
def sgn(ctx: AtenContext) -> Any:
    """sign(x) of real numbers."""
    return ctx.emit(SignOp, [ctx.value("self")])


@expands("frac.default")
def frac(ctx: AtenContext) -> Any:
    """x - trunc(x)."""
    x = ctx.value("self")
    return ctx.emit(SubOp, [x, ctx.emit(TruncOp, [x])])


@expands("log_sigmoid_forward.default")
def log_sigmoid(ctx: AtenContext) -> Any:
    """-softplus(-x); the second result is a buffer for the backward pass."""
    if ctx.used(1):
        raise ctx.unsupported("the buffer of log_sigmoid_forward")
    x = ctx.emit(NegOp, [ctx.value("self")])
    return [ctx.emit(NegOp, [ctx.emit(SoftplusOp, [x])]), None]


@expands("glu.default")
def glu(ctx: AtenContext) -> Any:
    """First half times the sigmoid of the second."""
    x = ctx.value("self")
    axis = norm_axis(int(ctx.attr("dim", -1)), tensor_type(x).rank, ctx.op_type)
    a, b = split(ctx, x, axis, [ctx.result.shape[axis]] * 2)
    return ctx.emit(MulOp, [a, ctx.emit(SigmoidOp, [b])])


@expands("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default", "floor_divide.Scalar")
def divide_and_round(ctx: AtenContext) -> Any:
    """A quotient rounded towards zero or down."""
    dtype = ctx.result.dtype
    mode = ctx.attr("rounding_mode", "floor" if "floor_divide" in ctx.op_type else None)
    a, b = ctx.value("self", dtype), ctx.value("other", dtype)
    if mode is None:
        return ctx.emit(DivOp, [a, b])
    if dtype.is_float:
        if mode == "floor":
            raise ctx.unsupported("floor division of floats, which PyTorch corrects by the remainder")
        return ctx.emit(TruncOp, [ctx.emit(DivOp, [a, b])])
    if mode == "floor":  # a minus its remainder is a multiple of b
        a = ctx.emit(SubOp, [a, ctx.emit(ModOp, [a, b], fmod=False)])
    return ctx.emit(DivOp, [a, b])


@expands("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(ctx: AtenContext) -> Any:
    """A value where the mask holds."""
    dtype = ctx.result.dtype
    return ctx.emit(
        WhereOp, [ctx.value("mask", dt.BOOL), ctx.value("value", dtype), ctx.value("self", dtype)]
    )


@expands("copy.default")
def copy(ctx: AtenContext) -> Any:
    """The source in the shape and type of the target."""
    return expanded(ctx, ctx.value("src", ctx.result.dtype), ctx.result.shape)


@expands("threshold_backward.default")
def threshold_backward(ctx: AtenContext) -> Any:
    """The gradient where x is above the threshold, else 0."""
    dtype = ctx.result.dtype
    x = ctx.value("self")
    below = ctx.emit(LessOrEqualOp, [x, ctx.value("threshold", tensor_type(x).dtype)])
    return ctx.emit(WhereOp, [below, ctx.number(0, dtype), ctx.value("grad_output", dtype)])


# -- reductions ------------------------------------------------------------------------------------------


@expands("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_or_all(ctx: AtenContext) -> Any:
    """The maximum or minimum of truth values."""
    x = ctx.value("self", dt.BOOL)
    op = ReduceMaxOp if ctx.op_type.startswith("aten.any") else ReduceMinOp
    axes = aten_axes(ctx, tensor_type(x).rank)
    return ctx.cast(ctx.emit(op, [x], axes=axes, keepdims=bool(ctx.attr("keepdim", False))), ctx.result.dtype)


@expands("max.dim", "min.dim")
def extreme_with_position(ctx: AtenContext) -> Any:
    """The extreme element of an axis and where it stands."""
    x, keepdims = ctx.value("self"), bool(ctx.attr("keepdim", False))
    axis = norm_axis(int(ctx.attr("dim")), tensor_type(x).rank, ctx.op_type)
    value, position = (ReduceMaxOp, ArgMaxOp) if ctx.op_type == "aten.max.dim" else (ReduceMinOp, ArgMinOp)
    where = None
    if ctx.used(1):
        where = ctx.emit(position, [x], axis=axis, keepdims=keepdims, select_last=False)
    return [ctx.emit(value, [x], axes=(axis,), keepdims=keepdims), where]


@expands("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def variance(ctx: AtenContext) -> Any:
    """The mean of squared distances from the mean, over `count - correction` elements."""
    x, keepdims = ctx.value("self"), bool(ctx.attr("keepdim", False))
    type_ = tensor_type(x)
    axes = aten_axes(ctx, type_.rank)
    correction = ctx.attr("correction", 1)
    mean = ctx.emit(ReduceMeanOp, [x], axes=axes, keepdims=True)
    distance = ctx.emit(SubOp, [x, mean])
    squares = ctx.emit(MulOp, [distance, distance])
    if correction == 0:
        result = ctx.emit(ReduceMeanOp, [squares], axes=axes, keepdims=keepdims)
    else:
        count = 1
        for axis in axes:
            size = type_.shape[axis].as_int()
            if size is None:
                raise ctx.unsupported("a corrected variance over a symbolic size", expected="correction 0")
            count *= size
        if count - correction <= 0:
            raise ctx.unsupported("a variance of fewer elements than its correction")
        total = ctx.emit(ReduceSumOp, [squares], axes=axes, keepdims=keepdims)
        result = ctx.emit(MulOp, [total, ctx.number(1.0 / (count - correction), type_.dtype)])
    if ctx.op_type.startswith("aten.std"):
        result = ctx.emit(SqrtOp, [result])
    if "_mean" not in ctx.op_type:
        return result
    return [result, mean if keepdims or not axes else ctx.emit(SqueezeOp, [mean], axes=axes)]


@expands("_native_batch_norm_legit.no_stats")
def batch_statistics_norm(ctx: AtenContext) -> Any:
    """Channels (axis 1) normalised by the statistics of this batch: what instance_norm becomes, with batch 1."""
    x = ctx.value("input")
    type_ = tensor_type(x)
    scale, bias = aten_affine(ctx)
    epsilon = float(ctx.attr("eps"))
    if type_.rank >= 3 and type_.shape[0] == 1 and not (ctx.used(1) or ctx.used(2)):
        return [ctx.emit(InstanceNormOp, [x, scale, bias], epsilon=epsilon), None, None]
    axes = tuple(i for i in range(type_.rank) if i != 1)
    spread = tuple(type_.shape[1] if i == 1 else const(1) for i in range(type_.rank))
    mean = ctx.emit(ReduceMeanOp, [x], axes=axes, keepdims=True)
    distance = ctx.emit(SubOp, [x, mean])
    spreading = ctx.emit(ReduceMeanOp, [ctx.emit(MulOp, [distance, distance])], axes=axes, keepdims=True)
    factor = ctx.emit(RsqrtOp, [ctx.emit(AddOp, [spreading, ctx.number(epsilon, type_.dtype)])])
    normal = ctx.emit(MulOp, [ctx.emit(MulOp, [distance, factor]), reshaped(ctx, scale, spread)])
    result = ctx.emit(AddOp, [normal, reshaped(ctx, bias, spread)])
    return [result, *(reshaped(ctx, s, (type_.shape[1],)) for s in (mean, factor))]


@expands("_adaptive_avg_pool2d.default")
def adaptive_average(ctx: AtenContext) -> Any:
    """The average over windows of equal size; sizes that don't divide have windows that overlap."""
    x = ctx.value("self")
    sizes = [d.as_int() for d in tensor_type(x).shape[-2:]]
    counts = [d.as_int() for d in ctx.result.shape[-2:]]
    if None in sizes or None in counts or any(not c or n % c for n, c in zip(sizes, counts)):
        raise ctx.unsupported("adaptive pooling with windows of unequal size", got=f"{sizes} to {counts}")
    kernel = tuple(n // c for n, c in zip(sizes, counts))
    batched = tensor_type(x).rank == 4
    x = x if batched else ctx.emit(UnsqueezeOp, [x], axes=(0,))
    window = {"kernel": kernel, "strides": kernel, "pads": (0,) * 4, "dilations": (1, 1)}
    made = ctx.emit(AveragePoolOp, [x], ceil_mode=False, count_include_pad=False, **window)
    return made if batched else ctx.emit(SqueezeOp, [made], axes=(0,))


# -- views and joins ----------------------------------------------------------------------------------------


@expands("select.int")
def select(ctx: AtenContext) -> Any:
    """One position of an axis, which disappears."""
    x = ctx.value("self")
    shape = tensor_type(x).shape
    axis = norm_axis(int(ctx.attr("dim")), len(shape), ctx.op_type)
    at = _position(ctx, expr(ctx.attr("index")), shape[axis])
    return ctx.emit(SqueezeOp, [sliced(ctx, x, {axis: (at, const(1), 1)})], axes=(axis,))


def _position(ctx: AtenContext, index: Any, dim: Any) -> Any:
    """An index counted from the front."""
    return clamp(ctx, index, dim, const(0), dim - 1)


@expands("as_strided.default")
def as_strided(ctx: AtenContext) -> Any:
    """A reshape, where the strides are those of row-major order; the importer has checked the operand's."""
    x, strides = ctx.value("self"), ctx.dim_args("stride")
    step = const(1)
    for dim, stride in zip(reversed(ctx.result.shape), reversed(strides), strict=True):
        if dim != 1 and stride != step:
            raise ctx.unsupported("strides that overlap or leave gaps", got=f"{strides}")
        step = step * dim
    if ctx.attr("storage_offset", 0) != 0 or step != tensor_type(x).num_elements():
        raise ctx.unsupported("a part of the memory of a tensor")
    return reshaped(ctx, x, ctx.result.shape)


@expands("unbind.int")
def unbind(ctx: AtenContext) -> Any:
    """Every position of an axis."""
    x = ctx.value("self")
    axis = norm_axis(int(ctx.attr("dim", 0)), tensor_type(x).rank, ctx.op_type)
    parts = split(ctx, x, axis, [const(1)] * len(ctx.results))
    return [ctx.emit(SqueezeOp, [part], axes=(axis,)) for part in parts]


@expands("stack.default")
def stack(ctx: AtenContext) -> Any:
    """The tensors side by side along a new axis."""
    axis = norm_axis(int(ctx.attr("dim", 0)), ctx.result.rank, ctx.op_type)
    parts = [ctx.emit(UnsqueezeOp, [p], axes=(axis,)) for p in ctx.values("tensors", ctx.result.dtype)]
    return parts[0] if len(parts) == 1 else ctx.emit(ConcatOp, parts, axis=axis)


@expands("slice_scatter.default")
def slice_scatter(ctx: AtenContext) -> Any:
    """The tensor with a slice replaced: what is before, the source, what is behind."""
    x = ctx.value("self")
    dim_of, axis = tensor_type(x).shape, norm_axis(int(ctx.attr("dim", 0)), tensor_type(x).rank, ctx.op_type)
    dim = dim_of[axis]
    if ctx.attr("step", 1) != 1:
        raise ctx.unsupported("slice_scatter with steps", expected="step 1")
    start, size, _ = slice_window(ctx, dim, expr(ctx.attr("start", 0)), expr(ctx.attr("end", FAR)), 1)
    return _replace(ctx, x, axis, start, size, ctx.value("src", ctx.result.dtype))


@expands("select_scatter.default")
def select_scatter(ctx: AtenContext) -> Any:
    """The tensor with one position of an axis replaced."""
    x = ctx.value("self")
    shape = tensor_type(x).shape
    axis = norm_axis(int(ctx.attr("dim")), len(shape), ctx.op_type)
    at = _position(ctx, expr(ctx.attr("index")), shape[axis])
    source = ctx.emit(UnsqueezeOp, [ctx.value("src", ctx.result.dtype)], axes=(axis,))
    return _replace(ctx, x, axis, at, const(1), source)


def _replace(ctx: AtenContext, x: Any, axis: int, start: Any, size: Any, source: Any) -> Any:
    dim = tensor_type(x).shape[axis]
    rest = dim - start - size
    parts = []
    if start != 0:
        parts.append(sliced(ctx, x, {axis: (const(0), start, 1)}))
    if size != 0:
        parts.append(source)
    if rest != 0:
        if not is_positive(rest, DIMS):
            raise ctx.unsupported("a replaced slice whose end is not known", got=f"{start} + {size} of {dim}")
        parts.append(sliced(ctx, x, {axis: (start + size, rest, 1)}))
    return parts[0] if len(parts) == 1 else ctx.emit(ConcatOp, parts, axis=axis)


@expands("roll.default")
def roll(ctx: AtenContext) -> Any:
    """Rotated along axes: the end, then the front. Without axes the flat tensor is rotated."""
    x = ctx.value("self")
    shape = tensor_type(x).shape
    shifts, dims = ctx.attr("shifts"), ctx.attr("dims", ())
    shifts = shifts if isinstance(shifts, list | tuple) else (shifts,)
    flat = not dims
    if flat:
        x = reshaped(ctx, x, (tensor_type(x).num_elements(),))
    for shift, axis in zip(shifts, (0,) if flat else dims):
        dim = tensor_type(x).shape[axis].as_int()
        if dim is None or not isinstance(shift, int):
            raise ctx.unsupported("a rotation of a symbolic size", expected="numbers")
        place = shift % dim if dim else 0
        if place:
            axis %= tensor_type(x).rank
            front, end = split(ctx, x, axis, [const(dim - place), const(place)])
            x = ctx.emit(ConcatOp, [end, front], axis=axis)
    return reshaped(ctx, x, shape) if flat else x


# -- indexing ----------------------------------------------------------------------------------------------


def _index_plan(ctx: AtenContext, x: Any) -> tuple[list[int], Any, tuple[Any, ...]]:
    """(indexed axes, int64 positions [broadcast.., axes], the broadcast shape).

    Raises UnsupportedError for masks: how many elements they pick is not known before.
    """
    indices = ctx.values("indices")
    axes = [i for i, index in enumerate(indices) if index is not None]
    given = [indices[i] for i in axes]
    if not given or any(tensor_type(i).dtype not in (dt.I32, dt.I64) for i in given):
        raise ctx.unsupported("indexing by a mask", expected="integer indices")
    shape = broadcast_shapes([tensor_type(i).shape for i in given], ctx.op_type)
    columns = []
    for index in given:
        wide = expanded(ctx, ctx.cast(index, dt.I64), shape)
        columns.append(ctx.emit(UnsqueezeOp, [wide], axes=(len(shape),)))
    table = columns[0] if len(columns) == 1 else ctx.emit(ConcatOp, columns, axis=len(shape))
    return axes, table, shape


def _to_front(ctx: AtenContext, x: Any, axes: Sequence[int]) -> tuple[Any, list[int]]:
    """x with `axes` first, and the permutation that did it."""
    perm = [*axes, *(i for i in range(tensor_type(x).rank) if i not in axes)]
    return (x if perm == sorted(perm) else ctx.emit(TransposeOp, [x], perm=tuple(perm))), perm


@expands("index.Tensor", "_unsafe_index.Tensor")
def index(ctx: AtenContext) -> Any:
    """Elements at integer positions of some axes, as numpy's advanced indexing places them."""
    x = ctx.value("self")
    axes, table, shape = _index_plan(ctx, x)
    if any(tensor_type(x).shape[a] == 0 for a in axes):
        raise ctx.unsupported("positions in an axis without elements")
    x, _ = _to_front(ctx, x, axes)
    picked = ctx.emit(GatherNDOp, [x, table], batch_dims=0, wrap=True)
    together = axes == list(range(axes[0], axes[-1] + 1))
    if not together or axes[0] == 0:
        return picked
    # axes that stand together stay where they were: behind the `axes[0]` dims before them
    count, rank = len(shape), tensor_type(picked).rank
    perm = (*range(count, count + axes[0]), *range(count), *range(count + axes[0], rank))
    return ctx.emit(TransposeOp, [picked], perm=perm)


@expands("index_put.default", "_unsafe_index_put.default")
def index_put(ctx: AtenContext) -> Any:
    """The tensor with elements at integer positions replaced or added to; a mask with one value is a choice."""
    x, dtype = ctx.value("self"), ctx.result.dtype
    accumulate = bool(ctx.attr("accumulate", False))
    given = ctx.values("indices")
    source = ctx.value("values", dtype)
    masks = [i for i in given if i is not None]
    if len(masks) == 1 and tensor_type(masks[0]).dtype.is_bool and given[0] is not None:
        if accumulate or tensor_type(source).num_elements() != 1:
            raise ctx.unsupported("values put at the places of a mask", expected="one value")
        mask, value = masks[0], reshaped(ctx, source, ())
        rank = tensor_type(x).rank
        shape = (*tensor_type(mask).shape, *[const(1)] * (rank - tensor_type(mask).rank))
        return ctx.emit(WhereOp, [reshaped(ctx, mask, shape), value, x])
    axes, table, shape = _index_plan(ctx, x)
    together = axes == list(range(axes[0], axes[-1] + 1))
    front, perm = _to_front(ctx, x, axes)
    rest = tensor_type(front).shape[len(axes) :]
    if together and axes[0] > 0:  # values have the layout of the indexing result: move its index dims first
        lead, count = axes[0], len(shape)
        placed = (*rest[:lead], *shape, *rest[lead:])
        source = expanded(ctx, source, placed)
        order = (*range(lead, lead + count), *range(lead), *range(lead + count, len(placed)))
        source = ctx.emit(TransposeOp, [source], perm=order)
    else:
        source = expanded(ctx, source, (*shape, *rest))
    done = ctx.emit(ScatterNDOp, [front, table, source], reduction="add" if accumulate else "none")
    back = tuple(perm.index(i) for i in range(len(perm)))
    return done if perm == sorted(perm) else ctx.emit(TransposeOp, [done], perm=back)
