# SPDX-License-Identifier: Apache-2.0
"""Indexing by tensors of positions: gathers are views that read their index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, mod, read, sym
from gaf.dialects.common.scalar import Arg, Coord, Extent, call
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    dims_prop,
    graph_op,
    int_prop,
    maybe_equal,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Meaning,
    Opaque,
    Piece,
    Read,
    Stage,
    View,
    result_dims,
)
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import (
    check_kind,
    concrete,
    dim_list,
    finish,
    format_dims,
    is_symbolic,
    norm_axis,
    scalar_dim,
    unknown_size,
)
from gaf.dialects.graph.ops.shape import SqueezeOp
from gaf.dialects.graph.ops.slice import sliced
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

INDEX_KINDS = ("int",)


def check_indices(indices: TensorType, what: str) -> None:
    """Raises InvalidInputError unless the positions are int32 or int64."""
    if indices.dtype not in (dt.I32, dt.I64):
        raise InvalidInputError(f"{what}: wrong type of indices", expected="i32 or i64", got=indices.dtype)


def positions(indices: np.ndarray, size: int, what: str) -> np.ndarray:
    """Indices as int64, negative ones counted from the end. Raises InvalidInputError if out of range."""
    if indices.dtype == object:
        numbers = [expr(e).as_int() for e in indices.reshape(-1)]
        if any(n is None for n in numbers):
            raise unknown_size("an index made of sizes")
        indices = np.asarray(numbers, np.int64).reshape(indices.shape)
    indices = indices.astype(np.int64)
    wrong = (indices < -size) | (indices >= size)
    if np.any(wrong):
        raise InvalidInputError(
            f"{what}: index out of range", expected=f"{-size}..{size - 1}", got=indices[wrong].reshape(-1)[0]
        )
    return np.where(indices < 0, indices + size, indices)


def position_map(index: Sequence[Expr], size: Expr, wrap: bool) -> Expr:
    """The index expression of an indirect read through operand 1; `wrap` maps -1 to the last element."""
    loaded = read("1", *index)
    if size == 1:
        return const(0)
    return mod(loaded, size) if wrap else loaded


def may_be_negative(ctx: ImportContext, position: int) -> bool:
    """False if operand `position` is known to hold no negative index."""
    array = ctx.constant(position)
    return array is None or bool(np.any(array < 0))


def wide_indices(ctx: ExportContext, name: str, indices: TensorType) -> str:
    """The indices as int64, which is all that ONNX's GatherND and ScatterND take."""
    return name if indices.dtype == dt.I64 else ctx.node("Cast", [name], 1, to=dt.I64.onnx)[0]


class GatherBase(GraphOp):
    """Base: `wrap` says that negative indices occur and count from the end."""

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    wrap = bool_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    IS_VIEW = True


@graph_op
class GatherOp(GatherBase):
    """Slices of x along `axis` at the positions `indices`, whose dims replace that axis."""

    name = "graph.gather"
    axis = int_prop()
    ONNX = ("Gather",)
    ATEN = ("aten.embedding.default", "aten.index_select.default")
    GAF = ("gather",)
    GAF_DEFAULTS = {"axis": 0, "wrap": True}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, indices = operands
        check_indices(indices, cls.name)
        axis = norm_axis(attrs["axis"], x.rank, cls.name)
        return [TensorType.of((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, indices = args
        axis = norm_axis(self.attrs()["axis"], x.ndim, self.name)
        return [np.take(x, positions(indices, x.shape[axis], self.name), axis)]

    def meaning(self) -> View:
        x, indices = self.operand_tensor_types()
        attrs = self.attrs()
        axis = norm_axis(attrs["axis"], x.rank, self.name)
        names = [sym(f"d{i}") for i in range(x.rank + indices.rank - 1)]
        at = position_map(names[axis : axis + indices.rank], x.shape[axis], attrs["wrap"])
        return View((Piece(0, (*names[:axis], at, *names[axis + indices.rank :])),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, indices = ctx.operands[:2]
        shape = tensor_type(x).shape
        axis = norm_axis(int(ctx.attr("axis", 0)), len(shape), "Gather")
        known = ctx.constant(1)
        if (
            known is not None
            and known.ndim <= 1
            and known.size == 1
            and np.issubdtype(known.dtype, np.integer)
        ):
            # one fixed position: a slice, whose index map is affine
            at = int(known.reshape(-1)[0])
            start = shape[axis] + at if at < 0 else expr(at)
            part = sliced(ctx, x, {axis: (start, const(1), 1)})
            return ctx.emit(SqueezeOp, [part], axes=(axis,)) if known.ndim == 0 else part
        return ctx.emit(cls, [x, indices], axis=axis, wrap=may_be_negative(ctx, 1))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.op_type == "aten.embedding.default":
            x, indices, axis = ctx.value("weight"), ctx.value("indices"), 0
        else:
            x, indices = ctx.value("self"), ctx.value("index")
            axis = norm_axis(int(ctx.attr("dim")), tensor_type(x).rank, ctx.op_type)
        # PyTorch refuses negative positions here
        return ctx.emit(cls, [x, indices], axis=axis, wrap=False)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Gather", inputs, axis=self.attrs()["axis"])


@graph_op
class GatherElementsOp(GatherBase):
    """result[.., j, ..] = x[.., indices[.., j, ..], ..]: one position of `axis` for each result element."""

    name = "graph.gather_elements"
    axis = int_prop()
    ONNX = ("GatherElements",)
    ATEN = ("aten.gather.default",)
    GAF = ("gather_elements",)
    GAF_DEFAULTS = {"axis": -1, "wrap": True}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, indices = operands
        check_indices(indices, cls.name)
        axis = norm_axis(attrs["axis"], x.rank, cls.name)
        if indices.rank != x.rank:
            raise InvalidInputError(
                f"{cls.name}: indices have another rank than x", expected=x.rank, got=indices.rank
            )
        for i, (mine, its) in enumerate(zip(indices.shape, x.shape)):
            if i != axis and (mine.as_int() or 0) > (its.as_int() if its.as_int() is not None else 1 << 62):
                raise InvalidInputError(
                    f"{cls.name}: indices reach past x on dim {i}", expected=f"at most {its}", got=mine
                )
        return [TensorType.of(indices.shape, x.dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, indices = args
        axis = norm_axis(self.attrs()["axis"], x.ndim, self.name)
        grid = list(np.indices(indices.shape, sparse=True))
        grid[axis] = positions(indices, x.shape[axis], self.name)
        return [x[tuple(grid)]]

    def meaning(self) -> View:
        x, _ = self.operand_tensor_types()
        attrs = self.attrs()
        axis = norm_axis(attrs["axis"], x.rank, self.name)
        names = [sym(f"d{i}") for i in range(x.rank)]
        at = position_map(names, x.shape[axis], attrs["wrap"])
        return View((Piece(0, (*names[:axis], at, *names[axis + 1 :])),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        axis = norm_axis(int(ctx.attr("axis", 0)), tensor_type(ctx.operands[0]).rank, ctx.op_type)
        return ctx.emit(cls, ctx.operands[:2], axis=axis, wrap=may_be_negative(ctx, 1))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.value("self")
        axis = norm_axis(int(ctx.attr("dim")), tensor_type(x).rank, ctx.op_type)
        return ctx.emit(cls, [x, ctx.value("index")], axis=axis, wrap=False)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("GatherElements", inputs, axis=self.attrs()["axis"])


@graph_op
class GatherNDOp(GatherBase):
    """The last dim of `indices` holds positions of the dims of x after the first `batch_dims`."""

    name = "graph.gather_nd"
    batch_dims = int_prop()
    ONNX = ("GatherND",)
    GAF = ("gather_nd",)
    GAF_DEFAULTS = {"batch_dims": 0, "wrap": True}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, indices = operands
        check_indices(indices, cls.name)
        batch = attrs["batch_dims"]
        depth = indices.shape[-1].as_int() if indices.rank else None
        if indices.rank < 1 or depth is None:
            raise InvalidInputError(
                f"{cls.name}: the last dim of the indices must be a number", got=format_dims(indices.shape)
            )
        if not 0 <= batch < min(x.rank, indices.rank) or batch + depth > x.rank:
            raise InvalidInputError(
                f"{cls.name}: indices don't fit x",
                expected=f"batch_dims + {depth} of at most {x.rank}",
                got=f"batch_dims {batch}",
            )
        if not all(maybe_equal(a, b) for a, b in zip(x.shape[:batch], indices.shape[:batch])):
            raise InvalidInputError(
                f"{cls.name}: batch dims differ",
                expected=format_dims(x.shape),
                got=format_dims(indices.shape),
            )
        return [TensorType.of((*indices.shape[:-1], *x.shape[batch + depth :]), x.dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, indices = args
        batch, depth = self.attrs()["batch_dims"], indices.shape[-1]
        grid = list(np.indices(indices.shape[:-1], sparse=True))[:batch]
        for j in range(depth):
            grid.append(positions(indices[..., j], x.shape[batch + j], self.name))
        return [x[tuple(grid)] if grid else np.broadcast_to(x, indices.shape[:-1] + x.shape)]

    def meaning(self) -> View:
        x, indices = self.operand_tensor_types()
        attrs = self.attrs()
        batch, depth = attrs["batch_dims"], indices.shape[-1].as_int()
        assert depth is not None
        outer = [sym(f"d{i}") for i in range(indices.rank - 1)]
        at = [position_map([*outer, const(j)], x.shape[batch + j], attrs["wrap"]) for j in range(depth)]
        rest = [sym(f"d{indices.rank - 1 + i}") for i in range(x.rank - batch - depth)]
        return View((Piece(0, (*outer[:batch], *at, *rest)),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.emit(
            cls, ctx.operands[:2], batch_dims=int(ctx.attr("batch_dims", 0)), wrap=may_be_negative(ctx, 1)
        )

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        inputs = [inputs[0], wide_indices(ctx, inputs[1], self.operand_tensor_types()[1])]
        return ctx.node("GatherND", inputs, batch_dims=self.attrs()["batch_dims"])


@graph_op
class OneHotOp(GraphOp):
    """A new dim at `axis` of size `depth`: values[1] where its position equals the index, else values[0].

    Negative indices count from the end; other indices out of range give values[0] everywhere. `depth` is
    a list of one dim expression.
    """

    name = "graph.one_hot"
    indices = operand_def(TensorType)
    values = operand_def(TensorType)
    depth = dims_prop()
    axis = int_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("OneHot",)
    GAF = ("one_hot",)
    GAF_DEFAULTS = {"axis": -1}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        indices, values = operands
        check_kind(indices.dtype, INDEX_KINDS, f"{cls.name}: indices")
        axis = norm_axis(attrs["axis"], indices.rank + 1, cls.name)
        if values.shape != (const(2),) or len(attrs["depth"]) != 1:
            raise InvalidInputError(
                f"{cls.name}: values are the pair off, on", expected="[2]", got=format_dims(values.shape)
            )
        return [
            TensorType.of((*indices.shape[:axis], attrs["depth"][0], *indices.shape[axis:]), values.dtype)
        ]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        indices, values = args
        if is_symbolic(args):
            raise unknown_size("one_hot")
        (depth,) = concrete(self.attrs()["depth"], env, self.name)
        axis = norm_axis(self.attrs()["axis"], indices.ndim + 1, self.name)
        at = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
        position = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
        return [
            finish(np.where(position == at, values[1], values[0]), self.result_tensor_types()[0].dtype, wide)
        ]

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        axis = norm_axis(self.attrs()["axis"], r.rank, self.name)
        dims = result_dims(r.shape)
        index = tuple(sym(d.name) for i, d in enumerate(dims) if i != axis)
        reads = (Read(index, operand=0), Read((const(0),), operand=1), Read((const(1),), operand=1))
        here = Coord(f"d{axis}")  # compared with the index, which may need all its bits
        hit = call("or", call("eq", Arg(0), here), call("eq", Arg(0), here - Extent(r.shape[axis])))
        body = call("select", hit, Arg(2), Arg(1))
        return Meaning((Stage(dims, reads, body, r.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        indices, _, values = ctx.operands[:3]
        known = ctx.constant(1)
        depth = (expr(int(known.reshape(-1)[0])),) if known is not None else dim_list(ctx, 1, "the depth")
        if tensor_type(indices).dtype.kind != "int":
            indices = ctx.emit(CastOp, [indices], to=dt.I64)
        axis = norm_axis(int(ctx.attr("axis", -1)), tensor_type(indices).rank + 1, "OneHot")
        return ctx.emit(cls, [indices, values], depth=depth, axis=axis)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        depth = scalar_dim(ctx, self.attrs()["depth"][0])
        return ctx.node("OneHot", [inputs[0], depth, inputs[1]], axis=self.attrs()["axis"])


@graph_op
class NonZeroOp(GraphOp):
    """Positions of the elements that are not 0, as columns of an int64 matrix, in row-major order.

    `count` is a list of one symbol: the number of such elements, known when the op has run.
    """

    name = "graph.nonzero"
    x = operand_def(TensorType)
    count = dims_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("NonZero",)
    GAF = ("nonzero",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if len(attrs["count"]) != 1:
            raise InvalidInputError(f"{cls.name}: count is one symbol", got=format_dims(attrs["count"]))
        return [TensorType.of((operands[0].rank, attrs["count"][0]), dt.I64)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x = args[0]
        found = np.nonzero(x.reshape(-1)) if x.ndim == 0 else np.nonzero(x)
        return [np.asarray(found, np.int64)[: x.ndim].reshape(x.ndim, -1)]

    def meaning(self) -> Opaque:
        return Opaque("the size of the result depends on the data")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.emit(cls, ctx.operands[:1], count=(ctx.new_symbol("nonzero"),))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("NonZero", inputs)
