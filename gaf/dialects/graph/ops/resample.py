# SPDX-License-Identifier: Apache-2.0
"""Resizing of fixed sizes in the ways that aren't plain interpolation: regions, antialiasing, kept aspect ratios.

Each of these is linear in x along an axis, so it is a product with a matrix that is computed at import (for mode
nearest a gather with fixed positions).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaf.dialects.graph.contract import ImportContext, tensor_type
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import accumulator, number
from gaf.dialects.graph.ops.compare import WhereOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp, matmul
from gaf.dialects.graph.ops.shape import TransposeOp


def cubic_weights(t: Any, a: float) -> list[Any]:
    """Weights of the elements at -1, 0, 1 and 2 of a place at `t` between 0 and 1 (Keys, 1981)."""

    def outer(x: Any) -> Any:
        return ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a

    def inner(x: Any) -> Any:
        return ((x * (a + 2.0) - (a + 3.0)) * x) * x + 1.0

    return [outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)]


def resample(ctx: ImportContext, axes: Sequence[int], mode: str, coordinates: str) -> Any:
    """Emit an ONNX Resize whose sizes, scales and region are known numbers."""
    x = ctx.operands[0]
    type_ = tensor_type(x)
    old = [type_.shape[a].as_int() for a in axes]
    if None in old:
        raise ctx.unsupported(
            "a resize of a symbolic size with a region of interest, antialiasing or a kept aspect ratio",
            hint="fix the sizes with --input-shape",
        )
    if mode != "nearest" and not type_.dtype.is_float:
        raise ctx.unsupported(f"a resize of {type_.dtype} in mode '{mode}'", expected="floats")
    sizes, scales = _sizes(ctx, [s for s in old if s is not None])
    region = _region(ctx, len(axes)) if coordinates == "tf_crop_and_resize" else None
    outside: dict[int, np.ndarray] = {}
    kind = accumulator(type_.dtype)
    result = x if type_.dtype == kind or mode == "nearest" else ctx.emit(CastOp, [x], to=kind)
    for i, axis in enumerate(axes):
        before, after = old[i], sizes[i]
        assert before is not None
        places = _places(coordinates, before, after, scales[i], region[i] if region else None)
        if region is not None:
            outside[axis] = (places < 0) | (places > before - 1)
        if mode == "nearest":
            at = np.clip(_nearest(places, ctx.attr("nearest_mode", "round_prefer_floor")), 0, before - 1)
            if not np.array_equal(at, np.arange(before)):
                result = ctx.emit(GatherOp, [result, ctx.constant_value(at)], axis=axis, wrap=False)
            continue
        shrink = min(scales[i], 1.0) if ctx.attr("antialias", 0) else 1.0
        matrix = weights(
            places,
            before,
            mode,
            shrink,
            float(ctx.attr("cubic_coeff_a", -0.75)),
            bool(ctx.attr("exclude_outside", 0)),
        )
        if before != after or not np.array_equal(matrix, np.eye(before)):
            result = _along(ctx, result, matrix.astype(kind.numpy), axis)
    if any(np.any(m) for m in outside.values()):
        result = _filled(ctx, result, outside, float(ctx.attr("extrapolation_value", 0.0)))
    return result if tensor_type(result).dtype == type_.dtype else ctx.emit(CastOp, [result], to=type_.dtype)


def _sizes(ctx: ImportContext, old: Sequence[int]) -> tuple[list[int], list[float]]:
    """The new sizes and the scales, from what the node gives."""
    given = ctx.constant(2)
    if given is not None and given.size:
        scales = [float(s) for s in np.asarray(given, np.float64).reshape(-1)]
        if len(scales) != len(old) or any(s <= 0 for s in scales):
            raise ctx.unsupported("these scales", expected=f"{len(old)} positive numbers", got=scales)
        return [math.floor(size * scale) for size, scale in zip(old, scales)], scales
    dims = ctx.dims(3)
    wanted = [None if d is None else d.as_int() for d in dims or ()]
    if len(wanted) != len(old) or None in wanted:
        raise ctx.unsupported("sizes or scales that aren't known")
    sizes = [int(w) for w in wanted if w is not None]
    scales = [new / size for new, size in zip(sizes, old)]
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        return [math.floor(size * scale + 0.5) for size in old], [scale] * len(old)
    return sizes, scales


def _region(ctx: ImportContext, count: int) -> list[tuple[float, float]]:
    """(start, end) of each axis, relative to its size."""
    given = ctx.constant(1)
    if given is None or given.size != 2 * count:
        raise ctx.unsupported("a region of interest that isn't known", expected=f"{2 * count} numbers")
    numbers = np.asarray(given, np.float64).reshape(2, count)
    return [(float(a), float(b)) for a, b in numbers.T]


def _places(
    coordinates: str, before: int, after: int, scale: float, region: tuple[float, float] | None
) -> np.ndarray:
    """Where the elements of the result lie along an axis of x."""
    o = np.arange(after, dtype=np.float64)
    match coordinates:
        case "tf_crop_and_resize":
            assert region is not None
            start, end = region
            if after == 1:
                return np.asarray([0.5 * (start + end) * (before - 1)])
            return start * (before - 1) + o * (end - start) * (before - 1) / (after - 1)
        case "asymmetric":
            return o / scale
        case "align_corners":
            length = scale * before
            return o * (before - 1) / (length - 1) if length > 1 else 0 * o
        case "pytorch_half_pixel" if after == 1:
            return 0 * o
        case "half_pixel_symmetric":
            return before / 2 * (1 - after / (scale * before)) + (o + 0.5) / scale - 0.5
    return (o + 0.5) / scale - 0.5


def _nearest(places: np.ndarray, rounding: str) -> np.ndarray:
    match rounding:
        case "floor":
            found = np.floor(places)
        case "ceil":
            found = np.ceil(places)
        case "round_prefer_ceil":
            found = np.floor(places + 0.5)
        case _:
            found = np.ceil(places - 0.5)
    return found.astype(np.int64)


def weights(
    places: np.ndarray, before: int, mode: str, shrink: float, cubic: float, inside_only: bool
) -> np.ndarray:
    """The matrix [before, len(places)] that interpolates along an axis.

    `shrink` below 1 widens the filter to that part of its sharpness (antialiasing). Beyond the ends the first or
    last element counts, or with `inside_only` none; the weights of a place add up to 1.
    """
    reach = (1 if mode == "linear" else 2) / shrink
    matrix = np.zeros((before, len(places)))
    for column, place in enumerate(places):
        taps = np.arange(math.floor(place - reach), math.ceil(place + reach) + 1)
        distance = np.abs(taps - place) * shrink
        if mode == "linear":
            share = np.clip(1 - distance, 0, None)
        else:
            near, far = cubic_weights(distance, cubic)[1], cubic_weights(distance - 1, cubic)[0]
            share = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
        if inside_only:
            share = np.where((taps >= 0) & (taps < before), share, 0.0)
        if shrink < 1 or inside_only:
            share = share / np.sum(share)
        np.add.at(matrix[:, column], np.clip(taps, 0, before - 1), share)
    return matrix


def _along(ctx: ImportContext, x: Any, matrix: np.ndarray, axis: int) -> Any:
    """x with its elements along an axis multiplied by a matrix [before, after]."""
    rank = tensor_type(x).rank
    if axis == rank - 2:
        return ctx.emit(MatMulOp, [ctx.constant_value(np.ascontiguousarray(matrix.T)), x])
    perm = tuple(i for i in range(rank) if i != axis) + (axis,)
    moved = axis != rank - 1
    x = ctx.emit(TransposeOp, [x], perm=perm) if moved else x
    made = matmul(ctx, x, ctx.constant_value(matrix))
    return ctx.emit(TransposeOp, [made], perm=tuple(perm.index(i) for i in range(rank))) if moved else made


def _filled(ctx: ImportContext, x: Any, outside: Mapping[int, np.ndarray], value: float) -> Any:
    """x with `value` wherever an axis is outside."""
    type_ = tensor_type(x)
    fill = ctx.constant_value(number(value, type_.dtype))
    for axis, mask in outside.items():
        spread = mask.reshape([-1 if i == axis else 1 for i in range(type_.rank)])
        x = ctx.emit(WhereOp, [ctx.constant_value(spread), fill, x]) if np.any(mask) else x
    return x
