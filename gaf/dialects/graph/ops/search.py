# SPDX-License-Identifier: Apache-2.0
"""Positions of extreme elements, top-k and running sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr, sym
from gaf.dialects.common.order import LARGEST, PLACES, SMALLEST, VALUES, stable_order
from gaf.dialects.common.scalar import Arg, Coord, Scalar, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    assume,
    bool_prop,
    dims_prop,
    graph_op,
    int_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Dim,
    Meaning,
    Opaque,
    Rank,
    Read,
    Scan,
    Stage,
    identity_read,
    kept_read,
    result_dims,
    row_stage,
)
from gaf.dialects.graph.meaning_onnx import export_meaning
from gaf.dialects.graph.ops.common import (
    NUMERIC,
    accumulator,
    check_kind,
    computing,
    dim_list,
    finish,
    norm_axis,
    scalar_constant,
)
from gaf.dialects.graph.ops.reduce import reduced_shape
from gaf.dialects.graph.ops.shape import TransposeOp, reshaped
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError


EXACT_POSITIONS = 1 << 24
"""Positions up to here are exact in float32."""


def assume_exact(ctx: ImportContext, size: Expr) -> None:
    """Record that a symbolic axis is short enough for its positions to be exact in float32."""
    if size.as_int() is None:
        assume(ctx, expr(EXACT_POSITIONS) - size, "positions along an axis are exact in float32")


class ArgReduceOp(GraphOp):
    """Base: position of the extreme element along one axis, as int64; ties go to the first (or last) one."""

    x = operand_def(TensorType)
    axis = int_prop()
    keepdims = bool_prop()
    select_last = bool_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    PICK: ClassVar[Any] = np.argmax
    MONOID: ClassVar[str] = "max"

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, NUMERIC, cls.name)
        axis = norm_axis(attrs["axis"], x.rank, cls.name)
        if x.shape[axis] == 0:
            raise InvalidInputError(f"{cls.name}: the axis is empty", expected="at least one element")
        return [TensorType.of(reduced_shape(x.shape, [axis], bool(attrs["keepdims"])), dt.I64)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs, x = self.attrs(), args[0]
        axis = norm_axis(attrs["axis"], x.ndim, self.name)
        pick = type(self).PICK
        if attrs["select_last"]:
            found = x.shape[axis] - 1 - pick(np.flip(x, axis), axis=axis)
        else:
            found = pick(x, axis=axis)
        found = np.asarray(found, np.int64)
        return [np.expand_dims(found, axis) if attrs["keepdims"] else found]

    def meaning(self) -> Meaning | Opaque:
        """The extreme of each row, then the first (or last) position that holds it, or that holds a NaN."""
        (x,), attrs = self.operand_tensor_types(), self.attrs()
        axis = norm_axis(attrs["axis"], x.rank, self.name)
        size, inner = x.shape[axis], accumulator(x.dtype)
        known = size.as_int()
        if known is not None and known > EXACT_POSITIONS:
            return Opaque(f"positions along an axis of {known} aren't exact in float32 (at most {EXACT_POSITIONS})")
        whole = identity_read(x.rank, operand=0)
        peak = row_stage(x.shape, [axis], [whole], Arg(0), self.MONOID, inner)
        hit: Scalar = call("eq", Arg(0), Arg(1))
        if x.dtype.is_float:
            hit = call("or", hit, call("ne", Arg(0), Arg(0)))
        fold, none = ("max", -1.0) if attrs["select_last"] else ("min", float(EXACT_POSITIONS))
        at = call("select", hit, cast(Coord(f"r{axis}"), dt.F32), none)
        place = row_stage(x.shape, [axis], [whole, kept_read(x.rank, [axis], stage=0)], at, fold, dt.F32)
        (result,) = self.result_tensor_types()
        dims = result_dims(result.shape)
        kept = tuple(sym(d.name) for i, d in enumerate(dims) if not attrs["keepdims"] or i != axis)
        stored = Stage(dims, (Read(kept, stage=1),), cast(Arg(0), dt.I64), dt.I64)
        return Meaning((peak, place, stored), results=(2,))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        axis = norm_axis(int(ctx.attr("axis", 0)), tensor_type(ctx.operands[0]).rank, ctx.op_type)
        assume_exact(ctx, tensor_type(ctx.operands[0]).shape[axis])
        flags = {
            "keepdims": bool(ctx.attr("keepdims", 1)),
            "select_last": bool(ctx.attr("select_last_index", 0)),
        }
        return ctx.emit(cls, ctx.operands[:1], axis=axis, **flags)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, dim = ctx.operands[0], ctx.attr("dim")
        if dim is not None:
            axis = norm_axis(int(dim), tensor_type(x).rank, ctx.op_type)
            keepdims = bool(ctx.attr("keepdim", False))
            assume_exact(ctx, tensor_type(x).shape[axis])
            return ctx.emit(cls, [x], axis=axis, keepdims=keepdims, select_last=False)
        flat = reshaped(ctx, x, (tensor_type(x).num_elements(),))
        found = ctx.emit(cls, [flat], axis=0, keepdims=False, select_last=False)
        return reshaped(ctx, found, ctx.result.shape)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        flags = {"keepdims": int(attrs["keepdims"]), "select_last_index": int(attrs["select_last"])}
        return ctx.node(self.ONNX[0], inputs, axis=attrs["axis"], **flags)


@graph_op
class ArgMaxOp(ArgReduceOp):
    """Position of the largest element along an axis."""

    name = "graph.argmax"
    ONNX = ("ArgMax",)
    ATEN = ("aten.argmax.default",)
    GAF = ("argmax",)
    GAF_DEFAULTS = {"axis": -1, "keepdims": False, "select_last": False}


@graph_op
class ArgMinOp(ArgReduceOp):
    """Position of the smallest element along an axis."""

    name = "graph.argmin"
    ONNX = ("ArgMin",)
    ATEN = ("aten.argmin.default",)
    GAF = ("argmin",)
    GAF_DEFAULTS = {"axis": -1, "keepdims": False, "select_last": False}
    PICK = np.argmin
    MONOID = "min"


SHORT_SCAN = 256
"""Elements up to which a running fold is computed as one fold for each result: work grows with their square."""


class ScanOp(GraphOp):
    """Base: a fold of all elements up to each one; `exclusive` leaves out the element itself, `reverse` runs from the end."""

    x = operand_def(TensorType)
    axis = int_prop()
    exclusive = bool_prop()
    reverse = bool_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    MONOID: ClassVar[str] = "sum"
    FOLD: ClassVar[Any] = np.add

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, NUMERIC, cls.name)
        norm_axis(attrs["axis"], x.rank, cls.name)
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs, x = self.attrs(), computing(args[0])
        axis = norm_axis(attrs["axis"], x.ndim, self.name)
        x = np.flip(x, axis) if attrs["reverse"] else x
        with np.errstate(all="ignore"):
            total = self.FOLD.accumulate(x, axis=axis, dtype=x.dtype)
        if attrs["exclusive"] and x.shape[axis]:
            first = np.full_like(np.take(x, [0], axis), self.FOLD.identity)
            total = np.concatenate([first, np.delete(total, -1, axis)], axis)
        total = np.flip(total, axis) if attrs["reverse"] else total
        return [finish(total, self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning | Opaque:
        """A running fold; from the end, as `folds`."""
        (x,), attrs = self.operand_tensor_types(), self.attrs()
        if attrs["reverse"]:
            return self.folds()
        scan = Scan(f"d{norm_axis(attrs['axis'], x.rank, self.name)}", self.MONOID, bool(attrs["exclusive"]))
        return Meaning((Stage(result_dims(x.shape), (identity_read(x.rank, operand=0),), Arg(0), x.dtype, scan=scan),))

    def folds(self) -> Meaning | Opaque:
        """A fold for each result over the whole axis, in which elements of the other side count as the identity."""
        (x,), attrs = self.operand_tensor_types(), self.attrs()
        axis = norm_axis(attrs["axis"], x.rank, self.name)
        size = x.shape[axis].as_int()
        if size is None or size > SHORT_SCAN:
            return Opaque(f"a running fold from the end of {x.shape[axis]} elements (at most {SHORT_SCAN})")
        before, at = Coord("r"), Coord(f"d{axis}")
        first, second = (at, before) if attrs["reverse"] else (before, at)
        counts = call("lt" if attrs["exclusive"] else "le", first, second)
        index = tuple(sym("r" if i == axis else f"d{i}") for i in range(x.rank))
        body = call("select", counts, Arg(0), float(self.FOLD.identity))
        dims, over = result_dims(x.shape), (Dim("r", x.shape[axis]),)
        return Meaning((Stage(dims, (Read(index, operand=0),), body, x.dtype, over, self.MONOID),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        axis = scalar_constant(ctx, 1, "axis")
        if axis is None:
            raise ctx.unsupported(f"{ctx.op_type} without axis", expected="two operands")
        flags = {"exclusive": bool(ctx.attr("exclusive", 0)), "reverse": bool(ctx.attr("reverse", 0))}
        axis = norm_axis(int(axis), tensor_type(ctx.operands[0]).rank, ctx.op_type)
        return ctx.emit(cls, ctx.operands[:1], axis=axis, **flags)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.cast(ctx.operands[0], ctx.result.dtype)
        if not tensor_type(x).rank:
            return x
        axis = norm_axis(int(ctx.attr("dim")), tensor_type(x).rank, ctx.op_type)
        return ctx.emit(cls, [x], axis=axis, exclusive=False, reverse=False)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        flags = {"exclusive": int(attrs["exclusive"]), "reverse": int(attrs["reverse"])}
        return ctx.node(self.ONNX[0], [inputs[0], ctx.constant(np.asarray(attrs["axis"], np.int64))], **flags)


@graph_op
class CumSumOp(ScanOp):
    """Running sum along an axis."""

    name = "graph.cumsum"
    ONNX = ("CumSum",)
    ATEN = ("aten.cumsum.default",)
    GAF = ("cumsum",)
    GAF_DEFAULTS = {"axis": -1, "exclusive": False, "reverse": False}


@graph_op
class CumProdOp(ScanOp):
    """Running product along an axis."""

    name = "graph.cumprod"
    ONNX = ("CumProd",)
    ATEN = ("aten.cumprod.default",)
    GAF = ("cumprod",)
    GAF_DEFAULTS = {"axis": -1, "exclusive": False, "reverse": False}
    MONOID = "prod"
    FOLD = np.multiply

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        meaning = self.folds()
        if ctx.opset < 26 and isinstance(meaning, Meaning):
            return export_meaning(ctx, meaning, inputs, self.operand_tensor_types(), self.result_tensor_types())
        if ctx.opset < 26:
            raise UnsupportedError(
                "a running product", where=self.location_name(), expected="opset 26 or later", got=ctx.opset
            )
        return super().to_onnx(ctx, inputs)


@graph_op
class TopKOp(GraphOp):
    """The `k` largest (or smallest) elements along an axis with their int64 positions, in order.

    Equal elements come in order of position. `k` is a list of one dim expression.
    """

    name = "graph.topk"
    x = operand_def(TensorType)
    k = dims_prop()
    axis = int_prop()
    largest = bool_prop()
    values = result_def(TensorType)
    indices = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("TopK",)
    ATEN = (
        *("aten.topk.default", "aten.sort.default", "aten.sort.stable", "aten.argsort.default", "aten.argsort.stable"),
    )
    GAF = ("topk",)
    GAF_DEFAULTS = {"axis": -1, "largest": True}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, NUMERIC, cls.name)
        axis = norm_axis(attrs["axis"], x.rank, cls.name)
        if len(attrs["k"]) != 1:
            raise InvalidInputError(f"{cls.name}: k is one number", got=f"{len(attrs['k'])} numbers")
        (k,) = attrs["k"]
        size, count = x.shape[axis].as_int(), k.as_int()
        if size is not None and count is not None and not 0 <= count <= size:
            raise InvalidInputError(f"{cls.name}: k is out of range", expected=f"0..{size}", got=count)
        shape = [k if i == axis else d for i, d in enumerate(x.shape)]
        return [TensorType.of(shape, x.dtype), TensorType.of(shape, dt.I64)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        attrs, x = self.attrs(), args[0]
        axis, k = norm_axis(attrs["axis"], x.ndim, self.name), attrs["k"][0].evaluate(env)
        if k > x.shape[axis]:
            raise InvalidInputError(f"{self.name}: k is out of range", expected=f"0..{x.shape[axis]}", got=k)
        order = stable_order(x, axis, self.order)
        order = np.take(order, np.arange(k), axis)
        values = np.take_along_axis(x, order, axis)
        return [finish(values, self.result_tensor_types()[0].dtype, wide), order.astype(np.int64)]

    @property
    def order(self) -> str:
        """Which elements come first."""
        return LARGEST if self.attrs()["largest"] else SMALLEST

    def meaning(self) -> Meaning | Opaque:
        """Both results as elements of the ordered axis; a single one as an extreme and its place."""
        (x,), (values, _), attrs = self.operand_tensor_types(), self.result_tensor_types(), self.attrs()
        axis = norm_axis(attrs["axis"], x.rank, self.name)
        size = x.shape[axis].as_int()
        if size is not None and size > EXACT_POSITIONS:
            return Opaque(f"positions along an axis of {size} aren't exact in float32 (at most {EXACT_POSITIONS})")
        if attrs["k"][0] == 1:
            return self.extreme(x, axis)
        dims, index = result_dims(values.shape), tuple(sym("r" if i == axis else f"d{i}") for i in range(x.rank))
        reads, over = (Read(index, operand=0),), (Dim("r", x.shape[axis]),)

        def stage(what: str, dtype: dt.DType) -> Stage:
            return Stage(dims, reads, Arg(0), dtype, over, rank=Rank(f"d{axis}", self.order, what))

        return Meaning((stage(VALUES, x.dtype), stage(PLACES, dt.I64)), results=(0, 1))

    def extreme(self, x: TensorType, axis: int) -> Meaning:
        """The first element in order. NaN is the largest number: only a row of nothing else has it as its smallest."""
        inner, largest = accumulator(x.dtype), self.order == LARGEST
        whole, peak_of = identity_read(x.rank, operand=0), kept_read(x.rank, [axis], stage=0)
        is_nan = call("ne", Arg(0), Arg(0))
        smallest = call("select", is_nan, math.inf, Arg(0)) if x.dtype.is_float else Arg(0)
        peak = row_stage(x.shape, [axis], [whole], Arg(0) if largest else smallest, "max" if largest else "min", inner)
        hit: Scalar = call("eq", Arg(0), Arg(1))
        if x.dtype.is_float and largest:
            hit = call("or", hit, is_nan)
        elif x.dtype.is_float:
            hit = call("eq", smallest, Arg(1))
        at = call("select", hit, cast(Coord(f"r{axis}"), dt.F32), float(EXACT_POSITIONS))
        place = row_stage(x.shape, [axis], [whole, peak_of], at, "min", dt.F32)
        if x.dtype.is_float and not largest:  # infinity before NaN
            plain = call("and", hit, call("eq", Arg(0), Arg(0)))
            first = call("select", plain, cast(Coord(f"r{axis}"), dt.F32), float(EXACT_POSITIONS))
            place = row_stage(x.shape, [axis], [whole, peak_of], first, "min", dt.F32)
        (result, _) = self.result_tensor_types()
        dims = result_dims(result.shape)
        kept = tuple(sym(d.name) for i, d in enumerate(dims) if i != axis)
        if not (x.dtype.is_float and not largest):
            value = Stage(dims, (Read(kept, stage=0),), Arg(0), x.dtype)
            where = Stage(dims, (Read(kept, stage=1),), cast(Arg(0), dt.I64), dt.I64)
            return Meaning((peak, place, value, where), results=(2, 3))
        none = call("ge", Arg(1), float(EXACT_POSITIONS))  # nothing but NaN
        value = Stage(dims, (Read(kept, stage=0), Read(kept, stage=1)), call("select", none, math.nan, Arg(0)), x.dtype)
        found = cast(call("select", call("ge", Arg(0), float(EXACT_POSITIONS)), 0.0, Arg(0)), dt.I64)
        where = Stage(dims, (Read(kept, stage=1),), found, dt.I64)
        return Meaning((peak, place, value, where), results=(2, 3))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        k = (expr(int(ctx.attr("k"))),) if ctx.attr("k") is not None else dim_list(ctx, 1, "k")
        axis = norm_axis(int(ctx.attr("axis", -1)), tensor_type(ctx.operands[0]).rank, "TopK")
        return ordered(ctx, ctx.operands[0], k, axis, bool(ctx.attr("largest", 1)))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x = ctx.operands[0]
        if not tensor_type(x).rank:
            raise ctx.unsupported("a sort of a scalar", expected="a tensor of rank 1 or more")
        axis = norm_axis(int(ctx.attr("dim", -1)), tensor_type(x).rank, ctx.op_type)
        if ctx.op_type == "aten.topk.default":
            return ordered(ctx, x, ctx.dim_args("k"), axis, bool(ctx.attr("largest", True)))
        made = ordered(ctx, x, (tensor_type(x).shape[axis],), axis, bool(ctx.attr("descending", False)))
        return made[1] if ctx.op_type.startswith("aten.argsort") else made

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        return ctx.node(
            "TopK",
            [inputs[0], ctx.dims(attrs["k"])],
            axis=attrs["axis"],
            largest=int(attrs["largest"]),
            sorted=1,
        )


def ordered(ctx: ImportContext, x: SSAValue, k: Sequence[Expr], axis: int, largest: bool) -> list[SSAValue]:
    """Values and places of a TopK. Rows are contiguous: another axis than the last is transposed, and back."""
    type_ = tensor_type(x)
    assume_exact(ctx, type_.shape[axis])
    last = type_.rank - 1
    if axis == last:
        return list(ctx.emit(TopKOp, [x], k=tuple(k), axis=axis, largest=largest))
    swap = [last if i == axis else axis if i == last else i for i in range(type_.rank)]
    made = ctx.emit(TopKOp, [ctx.emit(TransposeOp, [x], perm=swap)], k=tuple(k), axis=last, largest=largest)
    return [ctx.emit(TransposeOp, [m], perm=swap) for m in made]
