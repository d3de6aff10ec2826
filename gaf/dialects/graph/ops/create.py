# SPDX-License-Identifier: Apache-2.0
"""Tensors made from nothing or from shapes alone: fills, ranges, masks of positions, shapes as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr
from gaf.dialects.common.index import DIMS, ceildiv, expr, maximum
from gaf.dialects.common.scalar import Arg, Const, Coord, Extent, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    dims_prop,
    dtype_prop,
    graph_op,
    int_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import Meaning, Opaque, Read, Stage, identity_read, result_dims
from gaf.dialects.graph.ops.common import (
    NUMERIC,
    check_kind,
    computing,
    concrete,
    dim_list,
    finish,
    format_dims,
    number,
    same_dtype,
    scalar_constant,
    scalar_dim,
)
from gaf.dialects.graph.ops.shape import expanded
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


class CreationOp(GraphOp):
    """Base: `reference` takes symbol values through `reference_with_symbols`."""

    result = result_def(TensorType)
    traits = traits_def(Pure())

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)


@graph_op
class FullOp(CreationOp):
    """Every element is `value` (a rank-0 array, which also gives the dtype)."""

    name = "graph.full"
    shape = dims_prop()
    value = prop_def(ArrayAttr)
    ONNX = ("ConstantOfShape",)
    ATEN = (
        *(f"aten.{name}.default" for name in ("full", "full_like", "new_full", "scalar_tensor")),
        *(f"aten.{fill}{kind}.default" for fill in ("zeros", "ones") for kind in ("", "_like")),
        *("aten.new_zeros.default", "aten.new_ones.default", "aten.empty.memory_format"),
        *("aten.empty_like.default", "aten.new_empty.default"),
    )
    GAF = ("full",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        value = attrs["value"]
        if value.ndim:
            raise InvalidInputError(
                f"{cls.name}: the value is a scalar", expected="rank 0", got=format_dims(value.shape)
            )
        return [TensorType.of(attrs["shape"], dt.of_numpy(value.dtype))]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        value = self.value.array
        filled = np.full(concrete(self.attrs()["shape"], env, self.name), value, value.dtype)
        return [finish(filled, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        return Meaning((Stage(result_dims(r.shape), (), Const(float(self.value.array)), r.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        value = np.asarray(ctx.attr("value", np.zeros(1, np.float32)))
        return ctx.emit(cls, [], shape=dim_list(ctx, 0, "the shape"), value=value.reshape(-1)[:1].reshape(()))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        fill = ctx.attr("fill_value", ctx.attr("s", 1 if "ones" in ctx.op_type else 0))
        if not isinstance(fill, bool | int | float):  # made of sizes
            name = "fill_value" if ctx.has("fill_value") else "s"
            return expanded(ctx, ctx.value(name, ctx.result.dtype), ctx.result.shape)
        value = number(fill, ctx.result.dtype)
        return ctx.emit(cls, [], shape=ctx.result.shape, value=value)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        from onnx import numpy_helper

        value = numpy_helper.from_array(self.value.array.reshape(1))
        return ctx.node("ConstantOfShape", [ctx.dims(self.attrs()["shape"])], value=value)


@graph_op
class RangeOp(CreationOp):
    """start, start + delta, ...: `count` elements (a list of one dim expression)."""

    name = "graph.range"
    start = operand_def(TensorType)
    delta = operand_def(TensorType)
    count = dims_prop()
    ONNX = ("Range",)
    ATEN = ("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
    GAF = ("range",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        dtype = same_dtype(operands, cls.name)
        check_kind(dtype, NUMERIC, cls.name)
        for operand, what in zip(operands, ("start", "delta")):
            if operand.rank:
                raise InvalidInputError(
                    f"{cls.name}: {what} is a scalar", expected="rank 0", got=format_dims(operand.shape)
                )
        if len(attrs["count"]) != 1:
            raise InvalidInputError(f"{cls.name}: count is one number", got=format_dims(attrs["count"]))
        return [TensorType.of(attrs["count"], dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        start, delta = (computing(a) for a in args)
        (count,) = concrete(self.attrs()["count"], env, self.name)
        steps = np.arange(count).astype(start.dtype)
        return [finish(start + steps * delta, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        body = Arg(0) + cast(Coord("d0"), r.dtype) * Arg(1)
        return Meaning(
            (Stage(result_dims(r.shape), (Read((), operand=0), Read((), operand=1)), body, r.dtype),)
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        start, limit, delta = (ctx.constant(i) for i in range(3))
        if start is not None and limit is not None and delta is not None:
            step = delta.item()
            if step == 0:
                raise ctx.unsupported("a range with delta 0")
            count = expr(max(0, math.ceil((limit.item() - start.item()) / step)))
        else:
            low, high, steps = (dim_list(ctx, i, "the bounds of the range") for i in range(3))
            step = steps[0].as_int()
            if not step:
                raise ctx.unsupported(
                    "a range with a symbolic step", expected="a constant step", got=steps[0]
                )
            distance = high[0] - low[0] if step > 0 else low[0] - high[0]
            count = maximum(ceildiv(distance, abs(step), DIMS), 0, DIMS)
        return ctx.emit(cls, [ctx.operands[0], ctx.operands[2]], count=(count,))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        start, step, dtype = ctx.attr("start", 0), ctx.attr("step", 1), ctx.result.dtype
        if not isinstance(start, int | float) or not isinstance(step, int | float):
            raise ctx.unsupported("a range with a symbolic start or step", expected="numbers", got=start)
        return ctx.emit(cls, [ctx.number(start, dtype), ctx.number(step, dtype)], count=ctx.result.shape)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        # ONNX gives the limit: start + count * delta would round for floats, so index an integer range.
        (r,) = self.result_tensor_types()
        start, delta = inputs
        zero, one = (ctx.constant(np.asarray(v, np.int64)) for v in (0, 1))
        count = scalar_dim(ctx, self.attrs()["count"][0])
        steps = ctx.node("Range", [zero, count, one], 1)[0]
        if r.dtype != dt.I64:
            steps = ctx.node("Cast", [steps], 1, to=r.dtype.onnx)[0]
        return ctx.node("Add", [start, ctx.node("Mul", [steps, delta], 1)[0]])


@graph_op
class PositionsOp(CreationOp):
    """`first`, first + 1, ... along the one dim of `shape` that isn't 1, as int32; both may be symbolic."""

    name = "graph.positions"
    first = dims_prop()
    shape = dims_prop()

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if len(attrs["first"]) != 1:
            raise InvalidInputError(f"{cls.name}: first is one number", got=format_dims(attrs["first"]))
        if sum(d != 1 for d in attrs["shape"]) > 1:
            raise InvalidInputError(f"{cls.name}: one dim is counted, the others are 1", got=format_dims(attrs["shape"]))
        first = expr(attrs["first"][0]).as_int() or 0
        if not -(1 << 31) <= first < 1 << 31:
            raise InvalidInputError(f"{cls.name}: a position beyond 32 bits", got=first)
        return [TensorType.of(attrs["shape"], dt.I32)]

    def counted(self) -> int | None:
        """The dim that isn't 1."""
        return next((i for i, d in enumerate(self.attrs()["shape"]) if d != 1), None)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        shape = concrete(self.attrs()["shape"], env, self.name)
        (first,) = concrete(self.attrs()["first"], env, self.name)
        return [(np.arange(math.prod(shape), dtype=np.int32) + np.int32(first)).reshape(shape)]

    def meaning(self) -> Meaning:
        (r,), counted = self.result_tensor_types(), self.counted()
        (first,) = self.attrs()["first"]
        body = Extent(first) + (Coord(f"d{counted}") if counted is not None else 0.0)
        return Meaning((Stage(result_dims(r.shape), (), cast(body, dt.I32), dt.I32),))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, counted = self.attrs(), self.counted()
        (first,) = attrs["first"]
        last = first + (attrs["shape"][counted] if counted is not None else 1)
        one = ctx.constant(np.asarray(1, np.int64))
        steps = ctx.node("Range", [scalar_dim(ctx, first), scalar_dim(ctx, last), one], 1)[0]
        steps = ctx.node("Reshape", [steps, ctx.dims(attrs["shape"])], 1)[0]
        return ctx.node("Cast", [steps], to=dt.I32.onnx)


@graph_op
class EyeOp(CreationOp):
    """1 where column - row equals `k`, else 0; `shape` has two dims."""

    name = "graph.eye"
    shape = dims_prop()
    k = int_prop()
    dtype = dtype_prop()
    ONNX = ("EyeLike",)
    ATEN = ("aten.eye.m", "aten.eye.default")
    GAF = ("eye",)
    GAF_DEFAULTS = {"k": 0}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if len(attrs["shape"]) != 2:
            raise InvalidInputError(f"{cls.name}: a matrix has two dims", got=format_dims(attrs["shape"]))
        return [TensorType.of(attrs["shape"], attrs["dtype"])]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        rows, columns = concrete(self.attrs()["shape"], env, self.name)
        ones = np.eye(rows, columns, self.attrs()["k"])
        return [finish(ones, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        hit = call("eq", Coord("d1") - Coord("d0"), float(self.attrs()["k"]))
        return Meaning((Stage(result_dims(r.shape), (), call("select", hit, 1.0, 0.0), r.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        like = tensor_type(ctx.operands[0])
        code = ctx.attr("dtype")
        dtype = like.dtype if code is None else dt.of_onnx(int(code))
        return ctx.emit(cls, [], shape=like.shape, k=int(ctx.attr("k", 0)), dtype=dtype)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, [], shape=ctx.result.shape, k=0, dtype=ctx.result.dtype)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, (r,) = self.attrs(), self.result_tensor_types()
        like = ctx.node("ConstantOfShape", [ctx.dims(attrs["shape"])], 1)[0]
        return ctx.node("EyeLike", [like], k=attrs["k"], dtype=r.dtype.onnx)


@graph_op
class TriluOp(GraphOp):
    """The upper (column - row >= k) or lower (<= k) triangle of each matrix; 0 elsewhere."""

    name = "graph.trilu"
    x = operand_def(TensorType)
    upper = bool_prop()
    k = int_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Trilu",)
    ATEN = ("aten.triu.default", "aten.tril.default")
    GAF = ("trilu",)
    GAF_DEFAULTS = {"upper": True, "k": 0}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if operands[0].rank < 2:
            raise InvalidInputError(
                f"{cls.name}: the operand is a matrix", expected="rank 2 or more", got=operands[0].rank
            )
        return [operands[0]]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, attrs = args[0], self.attrs()
        rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
        keep = columns - rows >= attrs["k"] if attrs["upper"] else columns - rows <= attrs["k"]
        return [np.where(keep, x, np.zeros((), x.dtype))]

    def meaning(self) -> Meaning:
        (x,), attrs = self.operand_tensor_types(), self.attrs()
        diagonal = Coord(f"d{x.rank - 1}") - Coord(f"d{x.rank - 2}")
        keep = call("ge" if attrs["upper"] else "le", diagonal, float(attrs["k"]))
        body = call("select", keep, Arg(0), 0.0)
        return Meaning((Stage(result_dims(x.shape), (identity_read(x.rank, operand=0),), body, x.dtype),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        k = scalar_constant(ctx, 1, "k")
        return ctx.emit(cls, ctx.operands[:1], upper=bool(ctx.attr("upper", 1)), k=int(k or 0))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        k = ctx.attr("diagonal", 0)
        if not isinstance(k, int):
            raise ctx.unsupported("a symbolic diagonal", expected="a number", got=k)
        return ctx.emit(cls, ctx.operands[:1], upper=ctx.op_type == "aten.triu.default", k=k)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        return ctx.node(
            "Trilu", [inputs[0], ctx.constant(np.asarray(attrs["k"], np.int64))], upper=int(attrs["upper"])
        )


# -- shapes as data: folded at import, or computed by the host ----------------------------------------------


@graph_op
class ShapeOp(GraphOp):
    """The dims start..end of the operand's shape as an int64 vector."""

    name = "graph.shape"
    x = operand_def(TensorType)
    start = int_prop()
    end = int_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Shape",)
    ATEN = ("aten.sym_size.int",)
    GAF = ("shape",)
    GAF_DEFAULTS = {"start": 0, "end": lambda x, *_: x.rank}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        rank, start, end = operands[0].rank, attrs["start"], attrs["end"]
        if not 0 <= start <= end <= rank:
            raise InvalidInputError(
                f"{cls.name}: bounds out of range",
                expected=f"0 <= start <= end <= {rank}",
                got=f"{start}, {end}",
            )
        return [TensorType.of([end - start], dt.I64)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs = self.attrs()
        return [np.asarray(args[0].shape[attrs["start"] : attrs["end"]], np.int64)]

    def meaning(self) -> Opaque:
        return Opaque("a shape is known to the host, not computed by a kernel")

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        rank = tensor_type(ctx.operands[0]).rank
        start, end, _ = slice(int(ctx.attr("start", 0)), int(ctx.attr("end", rank))).indices(rank)
        return ctx.emit(cls, ctx.operands[:1], start=start, end=max(start, end))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        return ctx.node("Shape", inputs, start=attrs["start"], end=attrs["end"])


@graph_op
class SizeOp(GraphOp):
    """The number of elements, as an int64 scalar."""

    name = "graph.size"
    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Size",)
    ATEN = ("aten.numel.default",)
    GAF = ("size",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        return [TensorType.of([], dt.I64)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return [np.asarray(args[0].size, np.int64)]

    def meaning(self) -> Opaque:
        return Opaque("a size is known to the host, not computed by a kernel")
