# SPDX-License-Identifier: Apache-2.0
"""Sampling at computed places: grid sampling and deformable convolution, written with gathers of flat positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div, expr, product
from gaf.dialects.graph.contract import AtenContext, ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import AddOp, MaxOp, MinOp, ModOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import accumulator, number
from gaf.dialects.graph.ops.compare import AndOp, GreaterOp, GreaterOrEqualOp, LessOrEqualOp, WhereOp
from gaf.dialects.graph.ops.create import PositionsOp
from gaf.dialects.graph.ops.index import GatherNDOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.resize import cubic_weights
from gaf.dialects.graph.ops.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp, reshaped
from gaf.dialects.graph.ops.slice import sliced
from gaf.dialects.graph.ops.unary import FloorOp, RoundOp

MODES = {"linear": (0, 1), "nearest": (0,), "cubic": (-1, 0, 1, 2)}
"""Mode -> the elements that count, from the one at the floor of the place on."""


class _Arithmetic:
    """Ops on values and numbers of one float type; sizes may be symbolic."""

    def __init__(self, ctx: ImportContext, kind: dt.DType) -> None:
        self.ctx, self.kind = ctx, kind

    def value(self, x: Any) -> Any:
        if isinstance(x, Expr):
            known = x.as_int()
            if known is None:
                return self.ctx.emit(
                    CastOp, [self.ctx.emit(PositionsOp, [], first=(x,), shape=())], to=self.kind
                )
            x = known
        return self.ctx.constant_value(number(x, self.kind)) if isinstance(x, int | float) else x

    def apply(self, op: Any, *args: Any) -> Any:
        return self.ctx.emit(op, [self.value(a) for a in args])

    def add(self, a: Any, b: Any) -> Any:
        return self.apply(AddOp, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        return self.apply(SubOp, a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return self.apply(MulOp, a, b)

    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        return self.apply(MinOp, self.apply(MaxOp, x, low), high)

    def to_border(self, x: Any, size: Expr, align: bool) -> Any:
        """x moved to the first or last element if it lies beyond, or (not `align`) half an element beyond."""
        inside = self.clamp(x, 0.0, size - 1)
        if align:
            return inside
        beyond = self.sub(size, 0.5)
        kept = [self.apply(GreaterOrEqualOp, x, -0.5), self.apply(LessOrEqualOp, x, beyond)]
        return self.ctx.emit(WhereOp, [self.ctx.emit(AndOp, kept), x, inside])

    def reflect(self, x: Any, size: Expr, align: bool) -> Any:
        """x mirrored at the first and last element (`align`), or half an element further out, until it is inside."""
        if size == 1:
            return self.clamp(x, 0.0, 0.0)
        low, length = (0.0, size - 1) if align else (-0.5, size)
        turned = self.ctx.emit(ModOp, [self.sub(x, low), self.value(length * 2)], fmod=False)
        back = self.sub(length * 2, turned)
        inside = self.ctx.emit(WhereOp, [self.apply(GreaterOp, turned, length), back, turned])
        return self.add(inside, low)

    def between(self, x: Any, size: Expr) -> Any:
        """Whether 0 <= x <= size - 1."""
        return self.ctx.emit(
            AndOp, [self.apply(GreaterOrEqualOp, x, 0.0), self.apply(LessOrEqualOp, x, size - 1)]
        )


class _Formula:
    """A value with Python's operators, for formulas that are shared with numpy."""

    def __init__(self, ops: _Arithmetic, value: Any) -> None:
        self.ops, self.value = ops, value

    def _with(self, op: Any, other: Any, swapped: bool = False) -> _Formula:
        other = other.value if isinstance(other, _Formula) else other
        args = (other, self.value) if swapped else (self.value, other)
        return _Formula(self.ops, self.ops.apply(op, *args))

    def __add__(self, other: Any) -> _Formula:
        return self._with(AddOp, other)

    def __sub__(self, other: Any) -> _Formula:
        return self._with(SubOp, other)

    def __rsub__(self, other: Any) -> _Formula:
        return self._with(SubOp, other, swapped=True)

    def __mul__(self, other: Any) -> _Formula:
        return self._with(MulOp, other)


def sample(
    ctx: ImportContext,
    x: Any,
    places: Sequence[Any],
    mode: str,
    padding: str,
    align: bool,
    padded_taps: bool = False,
) -> Any:
    """x [batch, channels, spatial..] at `places`, one [batch, P] for each spatial dim: [batch, channels, P].

    `padding` outside of x: zeros, border or reflection. Places outside move to the border or are reflected
    before they are rounded; with `padded_taps` the elements around them do, as PyTorch has it for mode cubic.
    """
    type_ = tensor_type(x)
    batch, channels, *sizes = type_.shape
    ops = _Arithmetic(ctx, accumulator(type_.dtype))
    flat = ctx.emit(ReshapeOp, [x], shape=(batch, channels, product(sizes)))
    flat = ctx.emit(TransposeOp, [flat], perm=(0, 2, 1))
    taps: list[list[tuple[Any, Any, Any]]] = []  # of each dim: (position as float, weight, whether it counts)
    for place, size in zip(places, sizes):
        place = ctx.emit(RoundOp, [place]) if mode == "nearest" else place
        if not padded_taps and padding == "border":
            place = ops.to_border(place, size, align)
        elif not padded_taps and padding == "reflection":
            place = ops.reflect(place, size, align)
        taps.append(_taps(ops, place, size, mode, padding, align))
    total: Any = None
    for chosen in combinations(*taps):
        at, weight, counts = None, None, None
        for i, (position, factor, inside) in enumerate(chosen):
            stride = product(sizes[i + 1 :])
            step = position if stride == 1 else ops.mul(position, stride)
            at = step if at is None else ops.add(at, step)
            weight = factor if weight is None else weight if factor is None else ops.mul(weight, factor)
            counts = (
                inside if counts is None else counts if inside is None else ctx.emit(AndOp, [counts, inside])
            )
        found = _rows(ctx, flat, at)
        found = found if type_.dtype == ops.kind else ctx.emit(CastOp, [found], to=ops.kind)
        if counts is not None:
            found = ctx.emit(WhereOp, [_column(ctx, counts), found, ops.value(0.0)])
        found = found if weight is None else ctx.emit(MulOp, [found, _column(ctx, weight)])
        total = found if total is None else ops.add(total, found)
    total = total if type_.dtype == ops.kind else ctx.emit(CastOp, [total], to=type_.dtype)
    return ctx.emit(TransposeOp, [total], perm=(0, 2, 1))


def _taps(
    ops: _Arithmetic, place: Any, size: Expr, mode: str, padding: str, align: bool
) -> list[tuple[Any, Any, Any]]:
    first = ops.ctx.emit(FloorOp, [place])
    fraction = _Formula(ops, ops.sub(place, first))
    weights: list[Any] = [None]
    if mode == "linear":
        weights = [(1.0 - fraction).value, fraction.value]
    elif mode == "cubic":
        weights = [w.value for w in cubic_weights(fraction, -0.75)]
    found = []
    for tap, weight in zip(MODES[mode], weights):
        at = first if tap == 0 else ops.add(first, float(tap))
        inside = ops.between(at, size) if padding == "zeros" else None
        if padding == "reflection":
            at = ops.reflect(at, size, align)
        found.append((ops.clamp(at, 0.0, size - 1), weight, inside))
    return found


def _rows(ctx: ImportContext, flat: Any, at: Any) -> Any:
    """The rows of flat [batch, S, channels] at [batch, P]: [batch, P, channels]."""
    index = ctx.emit(UnsqueezeOp, [ctx.emit(CastOp, [at], to=dt.I32)], axes=(2,))
    return ctx.emit(GatherNDOp, [flat, index], batch_dims=1, wrap=False)


def _column(ctx: ImportContext, x: Any) -> Any:
    return ctx.emit(UnsqueezeOp, [x], axes=(2,))


class GridSample(Expansion):
    """x sampled where a grid of relative coordinates (-1 to 1, the last spatial dim first) says."""

    ONNX = ("GridSample",)
    ATEN = ("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(name := ctx.attr("mode", "linear"), name)
        padding, align = ctx.attr("padding_mode", "zeros"), bool(ctx.attr("align_corners", 0))
        if mode not in MODES or padding not in ("zeros", "border", "reflection"):
            raise ctx.unsupported(f"grid sampling in mode '{mode}' with padding '{padding}'")
        return cls.emitted(ctx, *ctx.operands[:2], mode, padding, align)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        mode = ("linear", "nearest", "cubic")[int(ctx.attr("interpolation_mode"))]
        padding = ("zeros", "border", "reflection")[int(ctx.attr("padding_mode"))]
        align = bool(ctx.attr("align_corners"))
        return cls.emitted(ctx, ctx.value("input"), ctx.value("grid"), mode, padding, align, mode == "cubic")

    @staticmethod
    def emitted(
        ctx: ImportContext, x: Any, grid: Any, mode: str, padding: str, align: bool, padded_taps: bool = False
    ) -> Any:
        sizes, shape = tensor_type(x).shape[2:], tensor_type(grid).shape
        if len(shape) != len(sizes) + 2 or shape[-1] != len(sizes) or not tensor_type(x).dtype.is_float:
            raise ctx.unsupported("a grid that doesn't fit", got=f"{tensor_type(x)} and {tensor_type(grid)}")
        ops = _Arithmetic(ctx, accumulator(tensor_type(x).dtype))
        grid = grid if tensor_type(grid).dtype == ops.kind else ctx.emit(CastOp, [grid], to=ops.kind)
        rows = ctx.emit(ReshapeOp, [grid], shape=(shape[0], product(shape[1:-1]), shape[-1]))
        places = []
        for i, size in enumerate(sizes):
            last = len(sizes) - 1 - i
            at = ctx.emit(SqueezeOp, [sliced(ctx, rows, {2: (const(last), const(1), 1)})], axes=(2,))
            at = ops.add(at, 1.0)
            places.append(
                ops.mul(at, _half(ops, size - 1)) if align else ops.sub(ops.mul(at, _half(ops, size)), 0.5)
            )
        made = sample(ctx, x, places, mode, padding, align, padded_taps)
        return ctx.emit(ReshapeOp, [made], shape=(*tensor_type(x).shape[:2], *shape[1:-1]))


def _half(ops: _Arithmetic, size: Expr) -> Any:
    known = size.as_int()
    return known / 2 if known is not None else ops.mul(size, 0.5)


class DeformConv(Expansion):
    """A 2-D convolution whose windows' elements are moved by offsets, and weighted by a mask, that are computed.

    Offsets and mask hold a value for each group of channels, element of the window and result. Elements between
    those of x are interpolated linearly; outside of x they are 0.
    """

    ONNX = ("DeformConv",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, weights, offset, bias, mask = (ctx.operand(i) for i in range(5))
        type_, shape = tensor_type(x), tensor_type(weights).shape
        window = [d.as_int() for d in shape[2:]]
        if type_.rank != 4 or None in window or not type_.dtype.is_float:
            raise ctx.unsupported("a deformable convolution that isn't 2-D", got=type_)
        strides, dilations = (tuple(ctx.attr(name, (1, 1))) for name in ("strides", "dilations"))
        pads, groups, spread = (
            tuple(ctx.attr("pads", (0,) * 4)),
            int(ctx.attr("group", 1)),
            int(ctx.attr("offset_group", 1)),
        )
        batch, channels = type_.shape[:2]
        per_spread, per_group = _part(ctx, channels, spread), _part(ctx, channels, groups)
        filters, outputs = _part(ctx, shape[0], groups), tensor_type(offset).shape[2:]
        ops, count = _Arithmetic(ctx, accumulator(type_.dtype)), product(map(expr, window))
        many = (batch * spread, *map(expr, window), *outputs)
        points = product(many[1:])
        moved = reshaped(ctx, offset, (many[0], *many[1:3], const(2), *many[3:]))
        moved = moved if type_.dtype == ops.kind else ctx.emit(CastOp, [moved], to=ops.kind)
        places = []
        for i in range(2):
            at = ctx.emit(SqueezeOp, [sliced(ctx, moved, {3: (const(i), const(1), 1)})], axes=(3,))
            for axis, size, step in ((1 + i, many[1 + i], dilations[i]), (3 + i, many[3 + i], strides[i])):
                counted = tuple(size if a == axis else const(1) for a in range(5))
                steps = ctx.emit(CastOp, [ctx.emit(PositionsOp, [], first=(0,), shape=counted)], to=ops.kind)
                at = ops.add(at, steps if step == 1 else ops.mul(steps, float(step)))
            at = at if not pads[i] else ops.sub(at, float(pads[i]))
            places.append(reshaped(ctx, at, (many[0], points)))
        apart = reshaped(ctx, x, (many[0], per_spread, *type_.shape[2:]))
        columns = sample(ctx, apart, places, "linear", "zeros", True)
        if mask is not None:
            factor = reshaped(ctx, mask, (many[0], const(1), points))
            columns = ctx.emit(MulOp, [columns, factor])
        area = product(outputs)
        columns = reshaped(ctx, columns, (batch, expr(groups), per_group * count, area))
        filters_ = reshaped(ctx, weights, (expr(groups), filters, per_group * count))
        made = ctx.emit(MatMulOp, [filters_, columns])
        made = reshaped(ctx, made, (batch, shape[0], *outputs))
        if bias is not None:
            made = ctx.emit(AddOp, [made, reshaped(ctx, bias, (shape[0], const(1), const(1)))])
        return made


def _part(ctx: ImportContext, size: Expr, parts: int) -> Expr:
    found = exact_div(size, expr(parts))
    if found is None:
        raise ctx.unsupported(
            "channels that don't divide into groups", expected=f"a multiple of {parts}", got=size
        )
    return found
