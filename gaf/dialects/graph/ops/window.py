# SPDX-License-Identifier: Apache-2.0
"""Sliding windows: sizes, automatic padding, reads and numpy views, shared by convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaf.dialects.common.index import (
    DIMS,
    Expr,
    ceildiv,
    const,
    exact_div,
    expr,
    floordiv,
    is_nonneg,
    maximum,
    minimum,
    sym,
)
from gaf.dialects.common.lanes import EXACT
from gaf.dialects.common.scalar import Scalar, call
from gaf.dialects.graph.contract import AtenContext, ImportContext
from gaf.dialects.graph.meaning import Dim, Guard, Read
from gaf.errors import InvalidInputError


def output_size(
    size: Expr,
    kernel: Expr | int,
    stride: int,
    before: int,
    after: int,
    dilation: int,
    ceil_mode: bool = False,
) -> Expr:
    """Number of window positions along one axis.

    With `ceil_mode` a last partial window counts if it starts inside the operand or its front padding.
    """
    span = size + before + after - (expr(kernel) - 1) * dilation - 1
    if not ceil_mode:
        return floordiv(span, stride) + 1
    count = ceildiv(span, stride, DIMS) + 1
    # the last window starts at (count - 1) * stride, which must lie before size + before
    return minimum(count, ceildiv(size + before, stride, DIMS), DIMS)


def window_attributes(ctx: ImportContext, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(strides, dilations) of a node; 1 where left out."""
    ones = (1,) * spatial
    return tuple(ctx.attr("strides", ones)), tuple(ctx.attr("dilations", ones))


def aten_window(ctx: AtenContext, name: str, spatial: int, default: int) -> tuple[int, ...]:
    """A window argument of an ATen call, one number a spatial dim; a single number stands for all of them."""
    value = ctx.attr(name)
    numbers = tuple(value) if isinstance(value, list | tuple) else () if value is None else (value,)
    numbers = numbers or (default,)
    numbers = numbers * spatial if len(numbers) == 1 else numbers
    if len(numbers) != spatial or not all(isinstance(n, int) for n in numbers):
        raise ctx.unsupported(f"'{name}' of this form", expected=f"{spatial} numbers", got=value)
    return numbers


def resolve_pads(
    ctx: ImportContext,
    sizes: Sequence[Expr],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, ...]:
    """Explicit pads (all fronts, then all ends) from `pads` and `auto_pad`.

    Raises UnsupportedError where SAME padding depends on a symbolic size.
    """
    auto = ctx.attr("auto_pad", "NOTSET")
    count = len(kernel)
    if auto in ("NOTSET", ""):
        return tuple(int(p) for p in ctx.attr("pads", (0,) * (2 * count)))
    if auto == "VALID":
        return (0,) * (2 * count)
    fronts, ends = [], []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations):
        # out = ceil(size / stride) windows
        span = (k - 1) * dilation + 1
        total = maximum((ceildiv(size, stride, DIMS) - 1) * stride + span - size, 0, DIMS)
        number = total.as_int()
        if number is None:
            if exact_div(size, const(stride)) is None:
                raise ctx.unsupported(
                    f"auto_pad {auto} on a symbolic size", hint="fix the sizes with --input-shape"
                )
            number = max(span - stride, 0)
        small, large = number // 2, number - number // 2
        fronts.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return (*fronts, *ends)


def check_window(spatial: int, what: str, **lists: Sequence[int]) -> None:
    """Raises InvalidInputError unless every list has an entry a spatial dim (pads: two), of legal value."""
    for name, values in lists.items():
        wanted = spatial * (2 if name == "pads" else 1)
        if len(values) != wanted:
            raise InvalidInputError(f"{what}: wrong number of {name}", expected=wanted, got=len(values))
        low = 0 if name in ("pads", "output_padding") else 1
        if any(v < low for v in values):
            raise InvalidInputError(f"{what}: {name} too small", expected=f"{low} or more", got=tuple(values))


def check_output(sizes: Sequence[Expr], what: str) -> None:
    """Raises InvalidInputError for a window that doesn't fit its operand even once."""
    for axis, size in enumerate(sizes):
        if is_nonneg(-size, DIMS) and size != 0 or size == 0:
            raise InvalidInputError(
                f"{what}: the window is larger than spatial dim {axis} with its padding",
                got=f"{size} positions",
            )


def window_dims(kernel: Sequence[Expr | int]) -> tuple[Dim, ...]:
    """The reduced dims of a window: r1, r2, ..., one a spatial dim (r0 is a convolution's channel)."""
    return tuple(Dim(f"r{1 + i}", expr(k)) for i, k in enumerate(kernel))


def window_read(
    operand: int,
    shape: Sequence[Expr],
    channel: Expr,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    fill: float,
) -> Read:
    """Element r1, r2, ... of the window at d2, d3, ... in operand [batch d0, `channel`, spatial..].

    Outside of the operand it is `fill`.
    """
    places = [
        sym(f"d{2 + i}") * strides[i] + sym(f"r{1 + i}") * dilations[i] - pads[i] for i in range(len(strides))
    ]
    guards = tuple(Guard(at, const(0), size) for at, size in zip(places, shape[2:]))
    return Read((sym("d0"), channel, *places), operand, guards=guards, fill=fill)


def whole_part(value: Scalar, div: int) -> Scalar:
    """`value floordiv div` of whole numbers below EXACT in size, as floats.

    With half a unit more the quotient never comes near an integer, however it is rounded.
    """
    return call("floor", (value + 0.5) / float(div))


def counts_exactly(size: Expr, mul: int = 1) -> bool:
    """Whether `whole_part` is right for the multiples by `mul` of all positions along a dim; of a symbolic dim if
    nothing but a very long one would be wrong.
    """
    known = size.as_int()
    return mul <= 32 if known is None else known * mul < EXACT // 2


def windows(
    x: np.ndarray,
    fill: Any,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    outputs: Sequence[int],
) -> np.ndarray:
    """A view [batch, channels, outputs.., kernel..] of `x` padded with `fill` up to the last window."""
    count = len(kernel)
    widths = [(0, 0), (0, 0)]
    for i in range(count):
        needed = (outputs[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        widths.append((pads[i], max(needed - x.shape[2 + i] - pads[i], pads[count + i], 0)))
    padded = np.pad(x, widths, constant_values=fill)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=tuple(range(2, 2 + count)))
    picks = [slice(None, (outputs[i] - 1) * strides[i] + 1, strides[i]) for i in range(count)]
    return view[(slice(None), slice(None), *picks, *(slice(None, None, d) for d in dilations))]
