# SPDX-License-Identifier: Apache-2.0
"""Resize of spatial dims by nearest, linear or cubic interpolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as combinations
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, floordiv, maximum, minimum, sym
from gaf.dialects.common.scalar import Arg, Coord, Scalar, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    dims_prop,
    float_prop,
    graph_op,
    ints_prop,
    str_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import IDENTITY_BODY, Meaning, Opaque, Read, Stage, result_dims
from gaf.dialects.graph.ops.common import check_kind, computing, export_float, finish
from gaf.dialects.graph.ops.resample import cubic_weights, resample
from gaf.dialects.graph.ops.window import counts_exactly, whole_part
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

MAX_FRACTION = 4096
"""Largest numerator and denominator of a scale; others aren't told apart from a nearby fraction."""


@dataclass(frozen=True)
class Place:
    """Element o of the result lies at `(o * mul + rest) / div` in the operand."""

    mul: int
    rest: int
    div: int


@graph_op
class ResizeOp(GraphOp):
    """x with the dims `axes` resized to `sizes`, sampled at distances of 1 / scale, as ONNX Resize.

    Scales are the fractions `numerators / denominators`. `rounding` is for mode nearest, `cubic` for mode cubic.
    """

    name = "graph.resize"
    x = operand_def(TensorType)
    mode = str_prop()
    coordinates = str_prop()
    rounding = str_prop()
    cubic = float_prop()
    axes = ints_prop()
    sizes = dims_prop()
    numerators = ints_prop()
    denominators = ints_prop()
    result = result_def(TensorType)
    ONNX = ("Resize", "Upsample")
    ATEN = (
        *(f"aten.upsample_nearest{n}d.vec" for n in (1, 2, 3)),
        "aten.upsample_linear1d.vec",
        "aten.upsample_bilinear2d.vec",
        "aten.upsample_bicubic2d.vec",
    )
    GAF = ("resize",)
    GAF_DEFAULTS = {"mode": "nearest", "coordinates": "half_pixel", "rounding": "round_prefer_floor", "cubic": -0.75}
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        known = {"mode": MODES, "coordinates": COORDINATES, "rounding": ROUNDINGS}
        for name, allowed in known.items():
            if attrs[name] not in allowed:
                raise InvalidInputError(f"{cls.name}: unknown {name}", expected=", ".join(allowed), got=attrs[name])
        if attrs["mode"] != "nearest":
            check_kind(x.dtype, ("float",), cls.name)
        lists = [attrs[k] for k in ("axes", "sizes", "numerators", "denominators")]
        if len({len(values) for values in lists}) != 1:
            raise InvalidInputError(f"{cls.name}: lists of different lengths", got=[len(v) for v in lists])
        axes = attrs["axes"]
        if len(set(axes)) != len(axes) or not all(0 <= a < x.rank for a in axes):
            raise InvalidInputError(f"{cls.name}: wrong axes", expected=f"distinct, 0 to {x.rank - 1}", got=axes)
        if any(n < 1 or d < 1 for n, d in zip(attrs["numerators"], attrs["denominators"])):
            raise InvalidInputError(f"{cls.name}: scales are positive")
        shape = list(x.shape)
        for axis, size in zip(axes, attrs["sizes"]):
            shape[axis] = expr(size)
        return [TensorType.of(shape, x.dtype)]

    def places(self) -> dict[int, tuple[Place, Expr]]:
        """axis -> where its elements come from, and the size of the operand there."""
        attrs, (x,), (r,) = self.attrs(), self.operand_tensor_types(), self.result_tensor_types()
        found = {}
        for axis, n, d in zip(attrs["axes"], attrs["numerators"], attrs["denominators"]):
            if x.shape[axis] == r.shape[axis] and n == d:
                continue
            place = place_of(attrs["coordinates"], x.shape[axis], r.shape[axis], Fraction(n, d))
            assert place is not None, "checked where the op was made"
            found[axis] = (rounded(place, attrs["rounding"]) if attrs["mode"] == "nearest" else place), x.shape[axis]
        return found

    def meaning(self) -> Meaning | Opaque:
        (r,), attrs = self.result_tensor_types(), self.attrs()
        dims = result_dims(r.shape)
        places = self.places()
        index = [sym(d.name) for d in dims]
        if attrs["mode"] == "nearest":
            for axis, (place, size) in places.items():
                index[axis] = _tap(index[axis], place, size, 0)
            return Meaning((Stage(dims, (Read(tuple(index), 0),), IDENTITY_BODY, r.dtype),))
        if not all(counts_exactly(r.shape[axis], place.mul) for axis, (place, _) in places.items()):
            return Opaque("positions along a dim that float32 doesn't count exactly")
        reads: list[Read] = []
        total: Scalar | None = None
        taps = (0, 1) if attrs["mode"] == "linear" else (-1, 0, 1, 2)
        weights = {axis: self._weights(axis, place) for axis, (place, _) in places.items()}
        for chosen in combinations(range(len(taps)), repeat=len(places)):
            at = list(index)
            term: Scalar = Arg(len(reads))
            for (axis, (place, size)), tap in zip(places.items(), chosen):
                at[axis] = _tap(index[axis], place, size, taps[tap])
                term = term * weights[axis][tap]
            reads.append(Read(tuple(at), 0))
            total = term if total is None else total + term
        assert total is not None
        return Meaning((Stage(dims, tuple(reads), total, r.dtype),))

    def _weights(self, axis: int, place: Place) -> list[Scalar]:
        """Weights of the taps along an axis, from the fraction of the place."""
        at = cast(Coord(f"d{axis}"), dt.F32) * float(place.mul) + float(place.rest)
        t = (at - whole_part(at, place.div) * float(place.div)) / float(place.div)
        if self.attrs()["mode"] == "linear":
            return [1.0 - t, t]
        return cubic_weights(t, self.attrs()["cubic"])

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs, (r,) = self.attrs(), self.result_tensor_types()
        result = args[0] if attrs["mode"] == "nearest" else computing(args[0])
        scales = dict(zip(attrs["axes"], zip(attrs["numerators"], attrs["denominators"])))
        for axis, (n, d) in scales.items():
            size, scale = args[0].shape[axis], Fraction(n, d)
            wanted = r.shape[axis].as_int()
            if wanted is None:  # a symbolic size is the operand's times the scale
                wanted = int(size * scale)
            place = place_of(attrs["coordinates"], const(size), const(wanted), scale)
            if place is None or (size == wanted and n == d):
                continue
            if attrs["mode"] == "nearest":
                place = rounded(place, attrs["rounding"])
            at = np.arange(wanted) * place.mul + place.rest
            first, t = at // place.div, (at % place.div) / place.div
            if attrs["mode"] == "nearest":
                result = np.take(result, np.clip(first, 0, size - 1), axis)
                continue
            linear = attrs["mode"] == "linear"
            weights = [1 - t, t] if linear else cubic_weights(t, attrs["cubic"])
            spread = [-1 if i == axis else 1 for i in range(result.ndim)]
            result = sum(
                np.take(result, np.clip(first + tap, 0, size - 1), axis) * np.asarray(w, result.dtype).reshape(spread)
                for tap, w in zip((0, 1) if linear else (-1, 0, 1, 2), weights)
            )
        return [result if attrs["mode"] == "nearest" else finish(np.asarray(result), r.dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, first = tensor_type(ctx.operands[0]), ctx.op_type == "Upsample" or ctx.opset < 11
        if first:  # what Resize was before it had coordinates and sizes
            given = np.asarray(ctx.attr("scales")) if ctx.attr("scales") is not None else ctx.constant(1)
            mode, coordinates, rounding = ctx.attr("mode", "nearest"), "asymmetric", "floor"
        else:
            given = ctx.constant(2)
            mode, coordinates = ctx.attr("mode", "nearest"), ctx.attr("coordinate_transformation_mode", "half_pixel")
            rounding = ctx.attr("nearest_mode", "round_prefer_floor")
        mode = "linear" if mode == "bilinear" else mode
        axes = tuple(a % x.rank for a in ctx.attr("axes", tuple(range(x.rank))))
        unusual = coordinates == "tf_crop_and_resize" or ctx.attr("antialias", 0) or ctx.attr("exclude_outside", 0)
        if unusual or ctx.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            return resample(ctx, axes, mode, coordinates)
        sizes: list[Expr] = []
        scales: list[Fraction] = []
        if given is not None and given.size:
            for axis, value in zip(axes, np.asarray(given, np.float64).reshape(-1)):
                scale = Fraction(float(value)).limit_denominator(MAX_FRACTION)
                if scale <= 0 or abs(float(scale) - value) > 1e-6 * value:
                    if first:
                        raise ctx.unsupported("a scale that is no simple fraction", got=float(value))
                    return resample(ctx, axes, mode, coordinates)
                scales.append(scale)
                sizes.append(floordiv(x.shape[axis] * scale.numerator, scale.denominator))
        else:
            wanted = None if first else ctx.dims(3)
            if wanted is None:
                raise ctx.unsupported("sizes or scales that aren't known")
            for axis, size in zip(axes, wanted):
                sizes.append(size)
                scales.append(_ratio(ctx, size, x.shape[axis]))
        return cls._emit(ctx, mode, coordinates, rounding, float(ctx.attr("cubic_coeff_a", -0.75)), axes, sizes, scales)

    @classmethod
    def _emit(
        cls, ctx: ImportContext, mode: str, coordinates: str, rounding: str, cubic: float, axes: Sequence[int],
        sizes: Sequence[Expr], scales: Sequence[Fraction],
    ) -> Any:  # fmt: skip
        x = tensor_type(ctx.operands[0])
        kept = [i for i, a in enumerate(axes) if sizes[i] != x.shape[a] or scales[i] != 1]
        if mode not in MODES or (mode != "nearest" and len(kept) > (3 if mode == "linear" else 2)):
            raise ctx.unsupported(f"a resize of {len(kept)} dims in mode '{mode}'")
        for i in kept:
            if place_of(coordinates, x.shape[axes[i]], sizes[i], scales[i]) is None:
                raise ctx.unsupported(f"coordinates '{coordinates}' on a symbolic size", hint="fix the sizes with --input-shape")
        if not kept:
            return ctx.operands[0]
        return ctx.emit(
            cls, ctx.operands[:1], mode=mode, coordinates=coordinates, rounding=rounding, cubic=cubic,
            axes=tuple(axes[i] for i in kept), sizes=tuple(sizes[i] for i in kept),
            numerators=tuple(scales[i].numerator for i in kept), denominators=tuple(scales[i].denominator for i in kept),
        )  # fmt: skip

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, name = tensor_type(ctx.operands[0]), ctx.op_type
        sizes, axes = ctx.result.shape[2:], tuple(range(2, x.rank))
        factors = ctx.attr("scale_factors")
        if factors:
            scales = [Fraction(float(f)).limit_denominator(MAX_FRACTION) for f in factors]
        else:
            scales = [_ratio(ctx, size, x.shape[a]) for a, size in zip(axes, sizes)]
        mode = "nearest" if "nearest" in name else "cubic" if "cubic" in name else "linear"
        coordinates = "asymmetric" if mode == "nearest" else "align_corners" if ctx.attr("align_corners", False) else "half_pixel"
        return cls._emit(ctx, mode, coordinates, "floor", -0.75, axes, sizes, scales)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, (x,), (r,) = self.attrs(), self.operand_tensor_types(), self.result_tensor_types()
        scales = np.ones(x.rank, np.float32)
        for axis, n, d in zip(attrs["axes"], attrs["numerators"], attrs["denominators"]):
            scales[axis] = n / d
        exact = all(
            x.shape[a] * n == r.shape[a] * d
            for a, n, d in zip(attrs["axes"], attrs["numerators"], attrs["denominators"])
        )
        sizes = ["", ctx.dims(r.shape)] if exact else [ctx.constant(scales)]
        window = {"mode": attrs["mode"], "coordinate_transformation_mode": attrs["coordinates"]}
        if attrs["mode"] == "nearest":
            window["nearest_mode"] = attrs["rounding"]
        if attrs["mode"] == "cubic":
            window["cubic_coeff_a"] = attrs["cubic"]

        def write(ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
            return ctx.node("Resize", [inputs[0], "", *sizes], **window)

        return write(ctx, inputs) if attrs["mode"] == "nearest" else export_float(ctx, "Resize", inputs, x.dtype, write)


def _ratio(ctx: ImportContext, size: Expr, before: Expr) -> Fraction:
    """The scale from one size to another."""
    a, b = size.as_int(), before.as_int()
    if a is not None and b is not None:
        return Fraction(a, b)
    if size == before:
        return Fraction(1)
    for factor in range(2, 17):
        if size == before * factor:
            return Fraction(factor)
        if size * factor == before:
            return Fraction(1, factor)
    raise ctx.unsupported("a resize between symbolic sizes", hint="fix the sizes with --input-shape")


def place_of(coordinates: str, before: Expr, after: Expr, scale: Fraction) -> Place | None:
    """Where element o of the result lies in the operand; None if that depends on a symbolic size."""
    n, d = scale.numerator, scale.denominator
    old, new = before.as_int(), after.as_int()
    match coordinates:
        case "asymmetric":
            return Place(d, 0, n)
        case "align_corners":
            if old is None or new is None:
                return None
            length = scale * old  # a fraction, of which `new` is the whole part
            if old == 1 or length <= 1:
                return Place(0, 0, 1)
            step = (old - 1) / (length - 1)
            return Place(step.numerator, 0, step.denominator)
        case "pytorch_half_pixel" if new == 1:
            return Place(0, 0, 1)
        case "pytorch_half_pixel" if new is None:
            return None
    shift = Fraction(0)
    if coordinates == "half_pixel_symmetric":
        if old is None or new is None:
            return None
        shift = Fraction(old, 2) * (1 - Fraction(new) / (scale * old))
    start = Fraction(d, 2 * n) - Fraction(1, 2) + shift  # (o + 1/2) / scale - 1/2
    step = Fraction(d, n)
    div = np.lcm(step.denominator, start.denominator).item()
    return Place(int(step * div), int(start * div), div)


def rounded(place: Place, rounding: str) -> Place:
    """The place whose floor is the rounded one."""
    mul, rest, div = place.mul, place.rest, place.div
    match rounding:
        case "floor":
            return place
        case "ceil":
            return Place(mul, rest + div - 1, div)
        case "round_prefer_ceil":  # floor(x + 1/2)
            return Place(2 * mul, 2 * rest + div, 2 * div)
    return Place(2 * mul, 2 * rest + div - 1, 2 * div)  # ceil(x - 1/2)


def _tap(at: Expr, place: Place, size: Expr, tap: int) -> Expr:
    """Index of the element `tap` after the place, within the operand."""
    if place.mul == 0:
        return const(0)
    found = floordiv(at * place.mul + place.rest, place.div) + tap
    return minimum(maximum(found, 0), size - 1)
