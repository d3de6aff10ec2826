# SPDX-License-Identifier: Apache-2.0
"""Views that cut, join and pad tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from xdsl.irdl import result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from gaf.dialects.common.index import (
    DIMS,
    Expr,
    ceildiv,
    const,
    exact_div,
    expr,
    is_nonneg,
    is_positive,
    maximum,
    minimum,
    mod,
    sym,
)
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    assume,
    dims_prop,
    float_prop,
    graph_op,
    int_prop,
    ints_prop,
    str_prop,
    tensor_type,
    unequal,
)
from gaf.dialects.graph.meaning import Guard, Piece, View
from gaf.dialects.graph.ops.common import (
    concrete,
    dim_list,
    format_dims,
    int_list,
    norm_axis,
    number,
    same_dtype,
    scalar_constant,
)
from gaf.dialects.graph.ops.shape import ViewOp, view
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError

FAR = 2**31 - 1  # ends at or beyond this mean "to the end"; no dim is that long


@graph_op
class SliceOp(ViewOp):
    """Along dim i the elements `starts[i] + steps[i] * j` for j < `sizes[i]`; all of them exist.

    Steps may be negative, never 0. Importers resolve open and negative ends.
    """

    name = "graph.slice"
    starts = dims_prop()
    sizes = dims_prop()
    steps = ints_prop()
    ONNX = ("Slice",)
    ATEN = ("aten.slice.Tensor",)
    GAF = ("slice",)
    GAF_DEFAULTS = {"steps": lambda x, *_: (1,) * x.rank}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        starts, sizes, steps = attrs["starts"], attrs["sizes"], attrs["steps"]
        if not len(starts) == len(sizes) == len(steps) == x.rank:
            raise InvalidInputError(
                f"{cls.name}: one start, size and step a dim", expected=f"{x.rank} of each", got=len(starts)
            )
        for axis, (dim, start, size, step) in enumerate(zip(x.shape, starts, sizes, steps)):
            if step == 0:
                raise InvalidInputError(
                    f"{cls.name}: step 0 on dim {axis}", expected="a positive or negative step"
                )
            if size == 0:
                continue
            last = start + (size - 1) * step
            for position in (start, last):
                if is_positive(-position, DIMS) or is_nonneg(position - dim, DIMS):
                    raise InvalidInputError(
                        f"{cls.name}: dim {axis} is read out of bounds",
                        expected=f"positions 0..{dim - 1}",
                        got=position,
                    )
        return [TensorType.of(sizes, x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        attrs, (x,) = self.attrs(), args
        starts, sizes = (concrete(attrs[k], env, self.name) for k in ("starts", "sizes"))
        window = []
        for axis, (start, size, step) in enumerate(zip(starts, sizes, attrs["steps"])):
            end = start + size * step
            last = end - step
            if size > 0 and not (0 <= start < x.shape[axis] and 0 <= last < x.shape[axis]):
                raise InvalidInputError(
                    f"{self.name}: dim {axis} is read out of bounds",
                    where=self.location_name(),
                    expected=f"positions 0..{x.shape[axis] - 1}",
                    got=last if 0 <= start < x.shape[axis] else start,
                    hint="an input is longer than the model's tables allow",
                )
            window.append(slice(start, None if end < 0 else end, step) if size > 0 else slice(0, 0))
        return [x[tuple(window)]]

    def meaning(self) -> View:
        attrs = self.attrs()
        return view(
            [s + sym(f"d{i}") * step for i, (s, step) in enumerate(zip(attrs["starts"], attrs["steps"]))]
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        shape = tensor_type(x).shape
        if ctx.opset < 10:
            bounds = [tuple(expr(int(v)) for v in ctx.attr(name, ())) for name in ("starts", "ends")]
            axes, steps = ctx.attr("axes"), None
        else:
            bounds = [
                dim_list(ctx, i, what) for i, what in ((1, "the start of a slice"), (2, "the end of a slice"))
            ]
            axes, steps = int_list(ctx, 3, None, "axes"), int_list(ctx, 4, None, "steps")
        count = len(bounds[0])
        axes = (
            tuple(range(count))
            if axes is None
            else tuple(norm_axis(int(a), len(shape), "Slice") for a in axes)
        )
        steps = (1,) * count if steps is None else steps
        if not len(bounds[1]) == len(axes) == len(steps) == count or len(set(axes)) != count:
            raise ctx.unsupported("starts, ends, axes and steps differ in length or repeat an axis")
        window = {a: slice_window(ctx, shape[a], s, e, step) for a, s, e, step in zip(axes, *bounds, steps)}
        return sliced(ctx, x, window)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        shape = tensor_type(x).shape
        axis = norm_axis(int(ctx.attr("dim", 0)), len(shape), ctx.op_type)
        start, end = expr(ctx.attr("start", 0)), expr(ctx.attr("end", FAR))
        step = expr(ctx.attr("step", 1)).as_int()
        if not step:
            raise ctx.unsupported("a slice with a symbolic step")
        return sliced(ctx, x, {axis: slice_window(ctx, shape[axis], start, end, step)})

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, x = self.attrs(), self._types()[0]
        axes, starts, ends, steps = [], [], [], []
        for axis, (dim, start, size, step) in enumerate(
            zip(x.shape, attrs["starts"], attrs["sizes"], attrs["steps"])
        ):
            if start == 0 and size == dim and step == 1:
                continue
            axes.append(axis)
            starts.append(start)
            # An end of -1 would mean the last element: going down, count ends from the back instead.
            ends.append(start + size * step if step > 0 else start + size * step - dim)
            steps.append(step)
        if not axes:
            return ctx.node("Identity", inputs)
        vectors = [
            ctx.dims(starts),
            ctx.dims(ends),
            *(ctx.constant(np.asarray(v, np.int64)) for v in (axes, steps)),
        ]
        return ctx.node("Slice", [inputs[0], *vectors])


Window = tuple[Expr, Expr, int]  # start, size, step


def sliced(ctx: ImportContext, x: Any, window: Mapping[int, Window]) -> Any:
    """Emit a slice of the axes in `window` (others stay whole), or nothing if it takes everything."""
    shape = tensor_type(x).shape
    whole = [window.get(i, (const(0), d, 1)) for i, d in enumerate(shape)]
    if all(start == 0 and size == d and step == 1 for d, (start, size, step) in zip(shape, whole)):
        return x
    starts, sizes, steps = zip(*whole)
    return ctx.emit(SliceOp, [x], starts=starts, sizes=sizes, steps=steps)


def slice_window(ctx: ImportContext, dim: Expr, start: Expr, end: Expr, step: int) -> Window:
    """Start, size and step of ONNX's `start:end:step` on an axis of `dim` elements, ends clamped.

    A symbolic end on a table of fixed size (position embeddings) is assumed to lie inside the table; the
    assumption is recorded, and checked when the model runs.
    """
    if step == 0:
        raise ctx.unsupported("a slice with step 0")
    if dim == 0:
        return const(0), const(0), step
    if step > 0:
        low, high = clamp(ctx, start, dim, const(0), dim), clamp(ctx, end, dim, const(0), dim)
        size = maximum(ceildiv(high - low, step, DIMS), 0, DIMS)
    else:
        low, high = clamp(ctx, start, dim, const(0), dim - 1), clamp(ctx, end, dim, const(-1), dim - 1)
        size = maximum(ceildiv(low - high, -step, DIMS), 0, DIMS)
    return (low if size != 0 else const(0)), size, step


def clamp(ctx: ImportContext, position: Expr, dim: Expr, low: Expr, high: Expr) -> Expr:
    """A slice bound counted from the front and clamped to low..high."""
    value = position.as_int()
    if value is not None and abs(value) >= FAR:
        return high if value > 0 else low
    if is_positive(-position, DIMS):
        position = position + dim
    elif not is_nonneg(position, DIMS):
        raise ctx.unsupported(
            f"a slice bound {position} that may be negative or not", hint="fix the sizes with --input-shape"
        )
    open_ended = not is_nonneg(high - position, DIMS) and not is_nonneg(position - high, DIMS)
    if open_ended and dim.as_int() is not None:
        assume(ctx, high - position, f"a slice up to {position} of a table with {dim} rows")
        return maximum(position, low, DIMS)
    return maximum(minimum(position, high, DIMS), low, DIMS)


# -- concat -----------------------------------------------------------------------------------------------


@graph_op
class ConcatOp(GraphOp):
    """The operands one after the other along `axis`."""

    name = "graph.concat"
    parts = var_operand_def(TensorType)
    axis = int_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Concat",)
    ATEN = ("aten.cat.default", "aten.concatenate.default", "aten.concat.default")
    GAF = ("concat",)
    GAF_DEFAULTS = {"axis": -1}
    IS_VIEW = True

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if not operands:
            raise InvalidInputError(f"{cls.name}: no operands", expected="at least one")
        dtype, first = same_dtype(operands, cls.name), operands[0]
        axis = norm_axis(attrs["axis"], first.rank, cls.name)
        for other in operands[1:]:
            what = f"{cls.name}: operands differ outside dim {axis}"
            details = {"expected": format_dims(first.shape), "got": format_dims(other.shape)}
            if other.rank != first.rank:
                raise InvalidInputError(what, **details)
            for i, (a, b) in enumerate(zip(first.shape, other.shape)):
                if i != axis and a != b:
                    raise unequal(what, a, b, **details)
        total = sum((o.shape[axis] for o in operands), const(0))
        return [TensorType.of([total if i == axis else d for i, d in enumerate(first.shape)], dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return [np.concatenate(args, self.attrs()["axis"])]

    def meaning(self) -> View:
        types = self.operand_tensor_types()
        axis = norm_axis(self.attrs()["axis"], types[0].rank, self.name)
        position = sym(f"d{axis}")
        ends = list(accumulate((t.shape[axis] for t in types), initial=const(0)))
        pieces = []
        for number_, (start, end) in enumerate(pairwise(ends)):
            index = tuple(position - start if i == axis else sym(f"d{i}") for i in range(types[0].rank))
            guards = () if len(types) == 1 else (Guard(position, start, end),)
            pieces.append(Piece(number_, index, guards))
        return View(tuple(pieces))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        operands = [o for o in ctx.operands if o is not None]
        axis = ctx.attr("axis", 1 if ctx.opset < 4 else None)
        if axis is None or not operands:
            raise ctx.unsupported("Concat without axis or operands")
        if len(operands) == 1:
            return operands[0]
        return ctx.emit(cls, operands, axis=norm_axis(int(axis), tensor_type(operands[0]).rank, "Concat"))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        rank = ctx.result.rank
        # PyTorch lets empty vectors stand beside tensors of any rank
        parts = [p for p in ctx.values("tensors", ctx.result.dtype) if tensor_type(p).rank == rank]
        if len(parts) == 1:
            return parts[0]
        return ctx.emit(cls, parts, axis=norm_axis(int(ctx.attr("dim", 0)), rank, ctx.op_type))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Concat", inputs, axis=self.attrs()["axis"])


def split(ctx: ImportContext, x: Any, axis: int, sizes: Sequence[Expr]) -> list[Any]:
    """Emit one slice for each part of `x` along `axis`."""
    starts = accumulate(sizes, initial=const(0))
    return [sliced(ctx, x, {axis: (start, size, 1)}) for start, size in zip(starts, sizes)]


def equal_parts(dim: Expr, count: int) -> list[Expr] | None:
    """`count` parts of equal size, the last one smaller if need be; None if no sizes can be given."""
    even = exact_div(dim, const(count))
    if even is not None:
        return [even] * count
    if dim.as_int() is None:
        return None
    chunk = ceildiv(dim, count, DIMS)
    last = dim - chunk * (count - 1)
    return [chunk] * (count - 1) + [last] if is_nonneg(last, DIMS) else None


# -- pad ----------------------------------------------------------------------------------------------------

MODES = ("constant", "reflect", "edge", "wrap")


@graph_op
class PadOp(ViewOp):
    """`before[i]` and `after[i]` more elements on dim i (negative: fewer), in numpy's four `mode`s.

    `value` fills in mode constant.
    """

    name = "graph.pad"
    before = dims_prop()
    after = dims_prop()
    mode = str_prop()
    value = float_prop()
    ONNX = ("Pad",)
    ATEN = (
        "aten.constant_pad_nd.default",
        *(f"aten.{kind}_pad{n}d.default" for kind in ("reflection", "replication") for n in (1, 2, 3)),
    )
    GAF = ("pad",)
    GAF_DEFAULTS = {"mode": "constant", "value": 0.0}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), mode = operands, attrs["mode"]
        if mode not in MODES:
            raise InvalidInputError(f"{cls.name}: unknown mode", expected=", ".join(MODES), got=mode)
        before, after = attrs["before"], attrs["after"]
        if not len(before) == len(after) == x.rank:
            raise InvalidInputError(
                f"{cls.name}: one pad before and after each dim",
                expected=x.rank,
                got=f"{len(before)} and {len(after)}",
            )
        dims = []
        for axis, (dim, low, high) in enumerate(zip(x.shape, before, after)):
            size = dim + low + high
            if is_positive(-size, DIMS):
                raise InvalidInputError(
                    f"{cls.name}: dim {axis} is cropped below 0",
                    expected=f"at most {dim}",
                    got=f"{low} and {high}",
                )
            limit = dim - 1 if mode == "reflect" else None
            for pad in (low, high):
                if limit is not None and is_positive(pad - limit, DIMS) and pad != 0:
                    raise InvalidInputError(
                        f"{cls.name}: dim {axis} is too short to reflect",
                        expected=f"a pad of at most {limit}",
                        got=pad,
                    )
                if mode != "constant" and dim == 0 and pad != 0:
                    raise InvalidInputError(
                        f"{cls.name}: dim {axis} is empty", expected="mode constant", got=mode
                    )
            dims.append(size)
        return [TensorType.of(dims, x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        attrs, x = self.attrs(), args[0]
        before, after = (concrete(attrs[k], env, self.name) for k in ("before", "after"))
        inside: list[np.ndarray] = []
        for axis, (low, high) in enumerate(zip(before, after)):
            n = x.shape[axis]
            position = np.arange(-low, n + high)
            match attrs["mode"]:
                case "edge":
                    position = np.clip(position, 0, n - 1)
                case "wrap":
                    position = position % max(n, 1)
                case "reflect":
                    position = (n - 1) - np.abs((n - 1) - np.abs(position))
            inside.append((position >= 0) & (position < n))
            x = (
                np.take(x, np.clip(position, 0, max(n - 1, 0)), axis)
                if n
                else np.zeros((*x.shape[:axis], len(position), *x.shape[axis + 1 :]), x.dtype)
            )
        if attrs["mode"] != "constant":
            return [x]
        keep = np.ones(x.shape, bool)
        for axis, mask in enumerate(inside):
            keep &= mask.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        fill = np.asarray(attrs["value"]).astype(x.dtype)
        return [np.where(keep, x, fill)]

    def meaning(self) -> View:
        attrs, (x, _) = self.attrs(), self._types()
        index: list[Expr] = []
        guards: list[Guard] = []
        ranges = self.ranges()
        for axis, (dim, low, high) in enumerate(zip(x.shape, attrs["before"], attrs["after"])):
            position = sym(f"d{axis}") - low
            if not (is_nonneg(-low, DIMS) and is_nonneg(-high, DIMS)):
                match attrs["mode"]:
                    case "constant":
                        guards.append(Guard(position, const(0), dim))
                    case "edge":
                        position = maximum(minimum(position, dim - 1, ranges), 0, ranges)
                    case "wrap":
                        position = mod(position, dim, ranges) if dim != 1 else const(0)
                    case "reflect":
                        inner = (dim - 1) - maximum(position, -position, ranges)
                        position = (dim - 1) - maximum(inner, -inner, ranges)
            index.append(position)
        fill = attrs["value"] if attrs["mode"] == "constant" else None
        return View((Piece(0, tuple(index), tuple(guards)),), fill)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        rank = tensor_type(x).rank
        if ctx.opset < 11:
            static = ctx.attr("pads", ctx.attr("paddings"))
            pads = tuple(expr(int(v)) for v in static or ())
            value: float | None = float(ctx.attr("value", 0.0))
        else:
            pads, value = dim_list(ctx, 1, "the padding"), scalar_constant(ctx, 2, "pad value")
        axes = int_list(ctx, 3, None, "axes")
        axes = tuple(range(rank)) if axes is None else tuple(norm_axis(a, rank, "Pad") for a in axes)
        if len(pads) != 2 * len(axes):
            raise ctx.unsupported("wrong number of pads", expected=2 * len(axes), got=len(pads))
        before, after = [const(0)] * rank, [const(0)] * rank
        for i, axis in enumerate(axes):
            before[axis], after[axis] = pads[i], pads[len(axes) + i]
        if all(p == 0 for p in (*before, *after)):
            return x
        mode = ctx.attr("mode", "constant")
        return ctx.emit(cls, [x], before=before, after=after, mode=mode, value=float(value or 0.0))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        rank = tensor_type(x).rank
        name = "pad" if ctx.op_type == "aten.constant_pad_nd.default" else "padding"
        pads = ctx.dim_args(name)
        before, after = [const(0)] * rank, [const(0)] * rank
        for i in range(len(pads) // 2):  # the last dim comes first
            before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
        if all(p == 0 for p in pads):
            return x
        kind = ctx.op_type.removeprefix("aten.").partition("_")[0]
        mode = {"constant": "constant", "reflection": "reflect", "replication": "edge"}[kind]
        value = float(ctx.attr("value", 0)) if mode == "constant" else 0.0
        return ctx.emit(cls, [x], before=before, after=after, mode=mode, value=value)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, x = self.attrs(), self._types()[0]
        if x.rank == 0:
            return ctx.node("Identity", inputs)
        mode = attrs["mode"]
        if mode == "wrap" and ctx.opset < 19:
            return self._wrap_to_onnx(ctx, inputs)
        operands = [inputs[0], ctx.dims([*attrs["before"], *attrs["after"]])]
        if mode == "constant":
            operands.append(ctx.constant(number(attrs["value"], x.dtype)))
        return ctx.node("Pad", operands, mode=mode)

    def _wrap_to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """Before opset 19 Pad doesn't wrap: gather each padded axis at its wrapped positions."""
        attrs, x = self.attrs(), self._types()[0]
        name = inputs[0]
        padded = [i for i in range(x.rank) if attrs["before"][i] != 0 or attrs["after"][i] != 0]
        for axis in padded:
            sizes = [e.as_int() for e in (x.shape[axis], attrs["before"][axis], attrs["after"][axis])]
            if any(s is None for s in sizes):
                raise UnsupportedError(
                    "padding of a symbolic dim in mode wrap",
                    where=self.location_name(),
                    expected="opset 19 or later",
                    got=ctx.opset,
                )
            n, low, high = sizes
            position = ctx.constant(np.arange(-low, n + high, dtype=np.int64) % n)
            (name,) = ctx.node("Gather", [name, position], None if axis == padded[-1] else 1, axis=axis)
        return [name] if padded else ctx.node("Identity", inputs)
