# SPDX-License-Identifier: Apache-2.0
"""Views that rename, merge, split, repeat or reorder dims: every one is an index map on an edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common.index import Expr, Ranges, const, exact_div, expr, floordiv, mod, product, sym
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    broadcast_shapes,
    dims_prop,
    graph_op,
    ints_prop,
    maybe_equal,
    tensor_type,
    unequal,
)
from gaf.dialects.graph.meaning import Piece, View, broadcast_index, result_dims
from gaf.dialects.graph.ops.common import (
    concrete,
    dim_list,
    format_dims,
    int_list,
    norm_axes,
)
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


class ViewOp(GraphOp):
    """Base of views of one operand; `reference` takes symbol values through `reference_with_symbols`."""

    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    IS_VIEW = True

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def _types(self) -> tuple[TensorType, TensorType]:
        """(operand type, result type)."""
        return self.operand_tensor_types()[0], self.result_tensor_types()[0]

    def ranges(self) -> Ranges:
        """Extents of the result dims d0, d1, ..."""
        return {d.name: d.extent for d in result_dims(self._types()[1].shape)}


def view(index: Sequence[Expr]) -> View:
    """A view that is one map of operand 0."""
    return View((Piece(0, tuple(index)),))


# -- reshape ------------------------------------------------------------------------------------------


def matching_groups(a: Sequence[Expr], b: Sequence[Expr]) -> list[tuple[range, range]]:
    """Shortest consecutive groups of dims of `a` and `b` with equal products.

    Dims that can't be matched end in one last group.
    """
    groups: list[tuple[range, range]] = []
    i = j = start_a = start_b = 0
    size_a = size_b = const(1)
    while i < len(a) or j < len(b):
        if i > start_a and j > start_b and size_a == size_b:
            groups.append((range(start_a, i), range(start_b, j)))
            start_a, start_b, size_a, size_b = i, j, const(1), const(1)
        elif j == len(b) or (i < len(a) and (i == start_a or (j > start_b and _divides(size_a, size_b)))):
            size_a, i = size_a * a[i], i + 1
        else:
            size_b, j = size_b * b[j], j + 1
    if i > start_a or j > start_b:
        groups.append((range(start_a, i), range(start_b, j)))
    return groups


def _divides(a: Expr, b: Expr) -> bool:
    """Whether `a` is a proven (proper) divisor of `b`, or smaller where both are numbers."""
    ai, bi = a.as_int(), b.as_int()
    if ai is not None and bi is not None:
        return ai < bi
    return exact_div(b, a) is not None


def reshape_index(source: Sequence[Expr], target: Sequence[Expr], ranges: Ranges) -> tuple[Expr, ...]:
    """The operand index, over d0.., of each element of a row-major reshape `source` -> `target`."""
    index: list[Expr] = [const(0)] * len(source)
    for group_a, group_b in matching_groups(source, target):
        linear, stride = const(0), const(1)
        for j in reversed(group_b):
            if target[j] != 1:
                linear = linear + sym(f"d{j}") * stride
            stride = stride * target[j]
        wide = [i for i in group_a if source[i] != 1]
        stride = const(1)
        for i in reversed(wide):
            position = floordiv(linear, stride, ranges)
            index[i] = (position if i == wide[0] else mod(position, source[i], ranges)).simplify(ranges)
            stride = stride * source[i]
    return tuple(index)


@graph_op
class ReshapeOp(ViewOp):
    """The same elements in row-major order under another shape."""

    name = "graph.reshape"
    shape = dims_prop()
    ONNX = ("Reshape", "Flatten")
    ATEN = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
    GAF = ("reshape",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), shape = operands, attrs["shape"]
        if not maybe_equal(x.num_elements(), product(shape)):
            raise InvalidInputError(
                f"{cls.name}: the number of elements changes",
                expected=f"{x.num_elements()} elements {format_dims(x.shape)}",
                got=f"{product(shape)} {format_dims(shape)}",
            )
        return [TensorType.of(shape, x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        shape = concrete(self.attrs()["shape"], env, self.name)
        if int(np.prod(shape, dtype=np.int64)) != args[0].size:
            raise InvalidInputError(
                f"{self.name}: the number of elements changes",
                where=self.location_name(),
                expected=f"{args[0].size} elements {format_dims(args[0].shape)}",
                got=format_dims(shape),
            )
        return [args[0].reshape(shape)]

    def meaning(self) -> View:
        x, r = self._types()
        if any(d == 0 for d in r.shape):
            return view([const(0)] * x.rank)
        return view(reshape_index(x.shape, r.shape, self.ranges()))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        source = tensor_type(x)
        if ctx.op_type == "Flatten":
            axis = int(ctx.attr("axis", 1))
            if not -source.rank <= axis <= source.rank:
                raise ctx.unsupported(
                    "Flatten axis out of range", expected=f"-{source.rank}..{source.rank}", got=axis
                )
            axis = axis + source.rank if axis < 0 else axis
            target = (product(source.shape[:axis]), product(source.shape[axis:]))
        else:
            static = ctx.attr("shape")  # an attribute before opset 5
            wanted = (
                tuple(expr(int(v)) for v in static) if static is not None else dim_list(ctx, 1, "the shape")
            )
            target = resolve_shape(source, wanted, bool(ctx.attr("allowzero", 0)))
        return reshaped(ctx, x, target)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return reshaped(ctx, ctx.operands[0], ctx.result.shape)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        shape = self.attrs()["shape"]
        if any(d == 0 for d in shape):
            return ctx.node("Reshape", [inputs[0], ctx.dims(shape)], allowzero=1)
        return ctx.node("Reshape", [inputs[0], ctx.dims(shape)])


def reshaped(ctx: ImportContext, x: Any, shape: Sequence[Expr]) -> Any:
    """Emit a reshape of `x`, or nothing if it has the shape already."""
    return x if tensor_type(x).shape == tuple(shape) else ctx.emit(ReshapeOp, [x], shape=tuple(shape))


def resolve_shape(source: TensorType, wanted: Sequence[Expr], allowzero: bool) -> tuple[Expr, ...]:
    """ONNX Reshape: 0 copies the operand's dim (unless `allowzero`), -1 takes what is left.

    Raises InvalidInputError for more than one -1, or a 0 beyond the operand's rank.
    """
    dims = list(wanted)
    for i, dim in enumerate(dims):
        if dim == 0 and not allowzero:
            if i >= source.rank:
                raise InvalidInputError(
                    "Reshape: 0 copies a dim that the operand lacks",
                    expected=f"rank {i + 1} or more",
                    got=source,
                )
            dims[i] = source.shape[i]
    free = [i for i, d in enumerate(dims) if d == -1]
    if len(free) > 1:
        raise InvalidInputError("Reshape: more than one dim is -1", got=format_dims(wanted))
    if free:
        known = product(d for i, d in enumerate(dims) if i != free[0])
        if known == 0:
            raise InvalidInputError(
                "Reshape: -1 beside a dim of size 0 has no unique value", got=format_dims(wanted)
            )
        total = source.num_elements()
        rest = exact_div(total, known)
        if rest is None and total.as_int() is not None and known.as_int() is not None:
            raise InvalidInputError(
                "Reshape: the operand doesn't fit", expected=f"{total} elements", got=f"{format_dims(wanted)}"
            )
        dims[free[0]] = floordiv(total, known) if rest is None else rest
    return tuple(dims)


# -- dims of size 1, order of dims ------------------------------------------------------------------------


@graph_op
class SqueezeOp(ViewOp):
    """Without the dims `axes`, which have size 1."""

    name = "graph.squeeze"
    axes = ints_prop()
    ONNX = ("Squeeze",)
    ATEN = ("aten.squeeze.dims", "aten.squeeze.dim", "aten.squeeze.default")
    GAF = ("squeeze",)
    GAF_DEFAULTS = {"axes": lambda x, *_: tuple(i for i, d in enumerate(x.shape) if d == 1)}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        axes = norm_axes(attrs["axes"], x.rank, cls.name)
        for axis in axes:
            if x.shape[axis] != 1:
                details = {"expected": "size 1", "got": format_dims(x.shape)}
                raise unequal(f"{cls.name}: dim {axis} is not 1", x.shape[axis], const(1), **details)
        return [TensorType.of([d for i, d in enumerate(x.shape) if i not in axes], x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.squeeze(args[0], norm_axes(self.attrs()["axes"], args[0].ndim, self.name))]

    def meaning(self) -> View:
        x, _ = self._types()
        axes = norm_axes(self.attrs()["axes"], x.rank, self.name)
        kept = iter(range(x.rank))
        return view([const(0) if i in axes else sym(f"d{next(kept)}") for i in range(x.rank)])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        type_ = tensor_type(x)
        axes = int_list(ctx, 1, "axes", "axes")
        if axes is None:
            axes = tuple(i for i, d in enumerate(type_.shape) if d == 1)
        axes = norm_axes(axes, type_.rank, "Squeeze")
        return ctx.emit(cls, [x], axes=axes) if axes else x

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        shape, dims = tensor_type(x).shape, ctx.attr("dim")
        wanted = range(len(shape)) if dims is None else dims if isinstance(dims, list | tuple) else (dims,)
        axes = tuple(sorted({d % max(len(shape), 1) for d in wanted}))
        axes = tuple(a for a in axes if a < len(shape) and shape[a] == 1)  # others stay
        return ctx.emit(cls, [x], axes=axes) if axes else x

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        axes = norm_axes(self.attrs()["axes"], self._types()[0].rank, self.name)
        return ctx.node("Squeeze", [inputs[0], ctx.constant(np.asarray(axes, np.int64))])


@graph_op
class UnsqueezeOp(ViewOp):
    """With new dims of size 1 at the positions `axes` of the result."""

    name = "graph.unsqueeze"
    axes = ints_prop()
    ONNX = ("Unsqueeze",)
    ATEN = ("aten.unsqueeze.default",)
    GAF = ("unsqueeze",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        rank = x.rank + len(attrs["axes"])
        axes = norm_axes(attrs["axes"], rank, cls.name)
        dims = iter(x.shape)
        return [TensorType.of([const(1) if i in axes else next(dims) for i in range(rank)], x.dtype)]

    def _axes(self) -> tuple[int, ...]:
        return norm_axes(self.attrs()["axes"], self._types()[1].rank, self.name)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.expand_dims(args[0], self._axes())]

    def meaning(self) -> View:
        axes = self._axes()
        return view([sym(f"d{i}") for i in range(self._types()[1].rank) if i not in axes])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        axes = int_list(ctx, 1, "axes", "axes")
        if axes is None:
            raise ctx.unsupported(
                "Unsqueeze without axes", expected="axes as operand (opset 13) or attribute"
            )
        x = ctx.operands[0]
        if not axes:
            return x
        return ctx.emit(cls, [x], axes=norm_axes(axes, tensor_type(x).rank + len(axes), "Unsqueeze"))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        return ctx.emit(cls, [x], axes=norm_axes([ctx.attr("dim")], tensor_type(x).rank + 1, ctx.op_type))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Unsqueeze", [inputs[0], ctx.constant(np.asarray(self._axes(), np.int64))])


@graph_op
class TransposeOp(ViewOp):
    """Result dim i is operand dim `perm[i]`."""

    name = "graph.transpose"
    perm = ints_prop()
    ONNX = ("Transpose",)
    ATEN = ("aten.permute.default", "aten.transpose.int", "aten.t.default")
    GAF = ("transpose",)
    GAF_DEFAULTS = {"perm": lambda x, *_: tuple(reversed(range(x.rank)))}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), perm = operands, tuple(attrs["perm"])
        if sorted(perm) != list(range(x.rank)):
            raise InvalidInputError(
                f"{cls.name}: perm is no permutation", expected=f"each of 0..{x.rank - 1} once", got=perm
            )
        return [TensorType.of([x.shape[p] for p in perm], x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.transpose(args[0], self.attrs()["perm"])]

    def meaning(self) -> View:
        perm = self.attrs()["perm"]
        return view([sym(f"d{perm.index(i)}") for i in range(len(perm))])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        rank = tensor_type(x).rank
        perm = ctx.attr("perm")
        perm = tuple(range(rank - 1, -1, -1)) if perm is None else tuple(int(p) for p in perm)
        return x if perm == tuple(range(rank)) else ctx.emit(cls, [x], perm=perm)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        rank = tensor_type(x).rank
        perm = list(range(rank))
        if ctx.op_type == "aten.permute.default":
            perm = [d % rank for d in ctx.attr("dims")]
        elif rank >= 2:  # below, both others change nothing
            a, b = (0, 1) if ctx.op_type == "aten.t.default" else (ctx.attr("dim0"), ctx.attr("dim1"))
            perm[a], perm[b] = perm[b], perm[a]
        return x if perm == list(range(rank)) else ctx.emit(cls, [x], perm=tuple(perm))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        perm = self.attrs()["perm"]
        return ctx.node("Transpose", inputs, perm=list(perm)) if perm else ctx.node("Identity", inputs)


# -- repetition and reversal ----------------------------------------------------------------------------


@graph_op
class ExpandOp(ViewOp):
    """Broadcast to `shape`, to which the operand's shape broadcasts."""

    name = "graph.expand"
    shape = dims_prop()
    ONNX = ("Expand",)
    ATEN = ("aten.expand.default",)
    GAF = ("expand",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), shape = operands, tuple(attrs["shape"])
        if broadcast_shapes([x.shape, shape], cls.name) != shape:
            raise InvalidInputError(
                f"{cls.name}: the shape would not widen the operand only",
                expected=f"a shape that {format_dims(x.shape)} broadcasts to",
                got=format_dims(shape),
            )
        return [TensorType.of(shape, x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.broadcast_to(args[0], concrete(self.attrs()["shape"], env, self.name))]

    def meaning(self) -> View:
        x, r = self._types()
        return view(broadcast_index(x.shape, result_dims(r.shape)))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        shape = broadcast_shapes([tensor_type(x).shape, dim_list(ctx, 1, "the shape")], "Expand")
        return expanded(ctx, x, shape)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return expanded(ctx, ctx.operands[0], ctx.result.shape)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Expand", [inputs[0], ctx.dims(self.attrs()["shape"])])


def expanded(ctx: ImportContext, x: Any, shape: Sequence[Expr]) -> Any:
    """Emit a broadcast of `x` to `shape`, or nothing if it has the shape already."""
    return x if tensor_type(x).shape == tuple(shape) else ctx.emit(ExpandOp, [x], shape=tuple(shape))


@graph_op
class TileOp(ViewOp):
    """The operand repeated `repeats[i]` times along dim i."""

    name = "graph.tile"
    repeats = dims_prop()
    ONNX = ("Tile",)
    ATEN = ("aten.repeat.default",)
    GAF = ("tile",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), repeats = operands, attrs["repeats"]
        if len(repeats) != x.rank:
            raise InvalidInputError(
                f"{cls.name}: one repeat count a dim", expected=f"{x.rank} counts", got=format_dims(repeats)
            )
        return [TensorType.of([d * r for d, r in zip(x.shape, repeats)], x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.tile(args[0], concrete(self.attrs()["repeats"], env, self.name))]

    def meaning(self) -> View:
        x, r = self._types()
        if any(d == 0 for d in r.shape):
            return view([const(0)] * x.rank)
        ranges = self.ranges()
        return view([mod(sym(f"d{i}"), d, ranges) if d != 1 else const(0) for i, d in enumerate(x.shape)])

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        if ctx.opset < 6:
            raise ctx.unsupported(
                "Tile of opset 5 or older", hint="convert the model with onnx.version_converter"
            )
        x, repeats = ctx.operands[0], dim_list(ctx, 1, "the repeat counts")
        return x if all(r == 1 for r in repeats) else ctx.emit(cls, [x], repeats=repeats)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, repeats = ctx.operands[0], ctx.dim_args("repeats")
        new = len(repeats) - tensor_type(x).rank
        x = ctx.emit(UnsqueezeOp, [x], axes=tuple(range(new))) if new else x
        return x if all(r == 1 for r in repeats) else ctx.emit(cls, [x], repeats=repeats)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Tile", [inputs[0], ctx.dims(self.attrs()["repeats"])])


@graph_op
class FlipOp(ViewOp):
    """Reversed along `axes`."""

    name = "graph.flip"
    axes = ints_prop()
    ATEN = ("aten.flip.default",)
    GAF = ("flip",)
    GAF_DEFAULTS = {"axes": (-1,)}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        norm_axes(attrs["axes"], operands[0].rank, cls.name)
        return [operands[0]]

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        axes = norm_axes(ctx.attr("dims"), tensor_type(x).rank, ctx.op_type)
        return ctx.emit(cls, [x], axes=axes) if axes else x

    def _axes(self) -> tuple[int, ...]:
        return norm_axes(self.attrs()["axes"], self._types()[0].rank, self.name)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        return [np.flip(args[0], self._axes())]

    def meaning(self) -> View:
        x, axes = self._types()[0], self._axes()
        return view([d - 1 - sym(f"d{i}") if i in axes else sym(f"d{i}") for i, d in enumerate(x.shape)])

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        axes = self._axes()
        if not axes:
            return ctx.node("Identity", inputs)
        # From the last element down to before the first: ends past the start of the axis are clamped.
        vectors = ([-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), axes, [-1] * len(axes))
        return ctx.node("Slice", [inputs[0], *(ctx.constant(np.asarray(v, np.int64)) for v in vectors)])
