# SPDX-License-Identifier: Apache-2.0
"""Writing at positions: a scatter of few updates is a fold over them, a longer one stays on the host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, product, sym
from gaf.dialects.common.scalar import Arg, Coord, Extent, Scalar, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    graph_op,
    int_prop,
    maybe_equal,
    str_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import (
    Dim,
    Meaning,
    Opaque,
    Read,
    Stage,
    identity_read,
    result_dims,
)
from gaf.dialects.graph.ops.common import (
    accumulator,
    computing,
    finish,
    format_dims,
    norm_axis,
    same_dtype,
)
from gaf.dialects.graph.ops.index import check_indices, positions, wide_indices
from gaf.dialects.graph.ops.shape import expanded
from gaf.dialects.graph.ops.slice import sliced
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError

REDUCTIONS = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


FEW_UPDATES = 64
"""Updates to one axis up to which each result element looks at all of them: no write order, so no race."""

FEW_LOOKS = 1 << 22
"""Pairs of a result element and an update up to which that pays for more updates too: microseconds on all cores."""

FOLDS = {
    "none": ("sum", None, 0.0),  # of one value and zeros; keeps NaN and infinity, but not the sign of a zero
    "add": ("sum", "add", 0.0),
    "mul": ("prod", "mul", 1.0),
    "max": ("max", "max", -math.inf),
    "min": ("min", "min", math.inf),
}
"""Reduction -> monoid of the updates of a place, how they join the element (None: they replace it), identity."""


def names_place(index: int, dim: str, size: Expr) -> Scalar:
    """Whether read `index`, a position that may count from the end, is the coordinate `dim` of a dim of `size`."""
    from_end = call("eq", Arg(index), Coord(dim) - Extent(size))
    return call("or", call("eq", Arg(index), Coord(dim)), from_end)


class ScatterBase(GraphOp):
    """Base: a copy of x with `updates` written, or with a `reduction` folded in, at the indexed places.

    Places named twice are folded in order; without reduction the last one wins (ONNX leaves it open).
    """

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    reduction = str_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def check(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        """Raises InvalidInputError for wrong types or an unknown reduction."""
        x, indices, updates = operands
        check_indices(indices, cls.name)
        same_dtype([x, updates], cls.name)
        if attrs["reduction"] not in REDUCTIONS:
            raise InvalidInputError(
                f"{cls.name}: unknown reduction", expected=", ".join(REDUCTIONS), got=attrs["reduction"]
            )

    def write(
        self, x: np.ndarray, place: tuple[np.ndarray, ...], updates: np.ndarray, wide: bool
    ) -> np.ndarray:
        """x with the updates applied; computed like all references in float32 for 16-bit floats."""
        result = computing(x).copy()
        fold = REDUCTIONS[self.attrs()["reduction"]]
        if fold is None:
            result[place] = updates
        else:
            with np.errstate(all="ignore"):
                fold.at(result, place, computing(updates))
        return finish(result, self.result_tensor_types()[0].dtype, wide)

    def places(self) -> list[Expr]:
        """The sizes of the dims of x that the last dim of `indices` names; one without such a dim."""
        raise NotImplementedError(self.name)

    def unnamed_dims(self) -> Sequence[int]:
        """The dims of x that a place doesn't depend on: each update is a slice along them."""
        return ()

    def folded(
        self, reads: Sequence[Read], hit: Scalar, order: Scalar, over: Sequence[Dim]
    ) -> Meaning | Opaque:
        """The result as folds over the updates for each of its elements, in which those of other places don't count.

        `reads` begin with the update; `hit` says whether its place is this one, `order` numbers the updates.
        """
        (x, _, _), kind = self.operand_tensor_types(), self.attrs()["reduction"]
        count = product(d.extent for d in over).as_int()
        elements = x.num_elements().as_int()
        looks = math.inf if elements is None else elements * (count or 0)
        if count is None or (count > FEW_UPDATES and looks > FEW_LOOKS):
            updates = product(d.extent for d in over)
            return Opaque(f"a scatter of {updates} updates to an axis (at most {FEW_UPDATES}, or {FEW_LOOKS} with every element)")
        if not x.dtype.is_float:
            return Opaque(f"a scatter of {x.dtype} has no fold that is exact in float32")
        dims, inner, whole = result_dims(x.shape), accumulator(x.dtype), identity_read(x.rank, operand=0)
        monoid, combine, identity = FOLDS[kind]
        if combine is not None:
            body = call("select", hit, Arg(0), identity)
            fold = Stage(dims, tuple(reads), body, inner, tuple(over), monoid)
            both = (whole, identity_read(x.rank, stage=0))
            return Meaning((fold, Stage(dims, both, call(combine, Arg(0), Arg(1)), x.dtype)), results=(1,))
        # the last update of a place: its number, then its value, the only one that isn't the identity
        number = call("select", self.of_each_element(hit), cast(order, dt.F32), -1.0)
        last = Stage(dims, tuple(reads), number, dt.F32, tuple(over), "max")
        at = call("and", hit, call("eq", cast(order, dt.F32), Arg(len(reads))))
        value = call("select", at, Arg(0), identity)
        taken = Stage(dims, (*reads, identity_read(x.rank, stage=0)), value, inner, tuple(over), monoid)
        three = (identity_read(x.rank, stage=0), whole, identity_read(x.rank, stage=1))
        body = call("select", call("lt", Arg(0), 0.0), Arg(1), Arg(2))
        return Meaning((last, taken, Stage(dims, three, body, x.dtype)), results=(2,))

    def of_each_element(self, hit: Scalar) -> Scalar:
        """`hit` with a condition that always holds, on the dims that the indices don't name: what is folded under it has
        these dims too, so that cores share them out.
        """
        x, rest = self.operand_tensor_types()[0], self.unnamed_dims()
        if not rest:
            return hit
        place: Scalar = Coord(f"d{rest[0]}")
        for i in rest[1:]:
            place = place * Extent(x.shape[i]) + Coord(f"d{i}")
        return call("and", hit, call("ge", place, 0.0))

    @classmethod
    def imported_reduction(cls, ctx: ImportContext) -> str:
        """The reduction attribute of an ONNX node. Raises UnsupportedError for an unknown one."""
        reduction = ctx.attr("reduction", "none")
        if reduction not in REDUCTIONS:
            raise ctx.unsupported("unknown reduction", expected=", ".join(REDUCTIONS), got=reduction)
        return reduction

    def reduction_attribute(self, ctx: ExportContext) -> dict[str, str]:
        """The ONNX attribute; max and min exist from opset 18 on."""
        reduction = self.attrs()["reduction"]
        if reduction in ("max", "min") and ctx.opset < 18:
            raise UnsupportedError(
                f"{self.name} with reduction {reduction}",
                where=self.location_name(),
                expected="opset 18 or later",
                got=ctx.opset,
            )
        return {} if reduction == "none" else {"reduction": reduction}


@graph_op
class ScatterElementsOp(ScatterBase):
    """One position of `axis` for each element of `updates`."""

    name = "graph.scatter_elements"
    axis = int_prop()
    ONNX = ("ScatterElements", "Scatter")
    ATEN = (
        "aten.scatter.src",
        "aten.scatter.value",
        "aten.scatter_add.default",
        "aten.scatter_reduce.two",
    )
    GAF = ("scatter_elements",)
    GAF_DEFAULTS = {"axis": -1, "reduction": "none"}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, indices, updates = operands
        cls.check(operands, attrs)
        norm_axis(attrs["axis"], x.rank, cls.name)
        if indices.rank != x.rank or indices.shape != updates.shape:
            raise InvalidInputError(
                f"{cls.name}: indices and updates differ in shape, or in rank from x",
                expected=format_dims(indices.shape),
                got=format_dims(updates.shape),
            )
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, indices, updates = args
        axis = norm_axis(self.attrs()["axis"], x.ndim, self.name)
        grid = list(np.indices(indices.shape, sparse=True))
        grid[axis] = positions(indices, x.shape[axis], self.name)
        return [self.write(x, tuple(np.broadcast_arrays(*grid)) if grid else (), updates, wide)]

    def places(self) -> list[Expr]:
        x = self.operand_tensor_types()[0]
        return [x.shape[norm_axis(self.attrs()["axis"], x.rank, self.name)]] if x.rank else []

    def meaning(self) -> Meaning | Opaque:
        x, indices, _ = self.operand_tensor_types()
        if not x.rank:
            return Opaque("a scatter to a scalar")
        axis = norm_axis(self.attrs()["axis"], x.rank, self.name)
        if any(a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape)) if i != axis):
            return Opaque("a scatter whose updates don't cover the dims beside the axis")
        at = tuple(sym("r" if i == axis else f"d{i}") for i in range(x.rank))
        reads = (Read(at, operand=2), Read(at, operand=1))
        hit = names_place(1, f"d{axis}", x.shape[axis])
        return self.folded(reads, hit, Coord("r"), (Dim("r", indices.shape[axis]),))

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        axis = norm_axis(int(ctx.attr("axis", 0)), tensor_type(ctx.operands[0]).rank, ctx.op_type)
        return ctx.emit(cls, ctx.operands[:3], axis=axis, reduction=cls.imported_reduction(ctx))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        x, indices = ctx.value("self"), ctx.value("index")
        axis = norm_axis(int(ctx.attr("dim")), tensor_type(x).rank, ctx.op_type)
        shape, dtype = tensor_type(indices).shape, ctx.result.dtype
        if ctx.op_type == "aten.scatter.value":
            updates = expanded(ctx, ctx.value("value", dtype), shape)
        else:  # the source may be larger than the indices: its front is used
            updates = sliced(ctx, ctx.value("src"), {i: (const(0), d, 1) for i, d in enumerate(shape)})
        reduction = "add" if ctx.op_type == "aten.scatter_add.default" else "none"
        if ctx.op_type == "aten.scatter_reduce.two":
            known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
            reduction = known.get(ctx.attr("reduce"), "")
            if not reduction or not ctx.attr("include_self", True):
                raise ctx.unsupported("this scatter_reduce", got=ctx.attr("reduce"))
        return ctx.emit(cls, [x, indices, updates], axis=axis, reduction=reduction)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("ScatterElements", inputs, axis=self.attrs()["axis"], **self.reduction_attribute(ctx))


@graph_op
class ScatterNDOp(ScatterBase):
    """The last dim of `indices` holds the leading position of each slice of `updates`."""

    name = "graph.scatter_nd"
    ONNX = ("ScatterND",)
    GAF = ("scatter_nd",)
    GAF_DEFAULTS = {"reduction": "none"}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        x, indices, updates = operands
        cls.check(operands, attrs)
        depth = indices.shape[-1].as_int() if indices.rank else None
        if depth is None or depth > x.rank:
            raise InvalidInputError(
                f"{cls.name}: the last dim of the indices doesn't fit x",
                expected=f"1..{x.rank}",
                got=format_dims(indices.shape),
            )
        wanted = (*indices.shape[:-1], *x.shape[depth:])
        if len(wanted) != updates.rank or not all(maybe_equal(a, b) for a, b in zip(wanted, updates.shape)):
            raise InvalidInputError(
                f"{cls.name}: wrong shape of updates",
                expected=format_dims(wanted),
                got=format_dims(updates.shape),
            )
        return [x]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, indices, updates = args
        place = tuple(positions(indices[..., j], x.shape[j], self.name) for j in range(indices.shape[-1]))
        return [self.write(x, place, updates, wide)]

    def places(self) -> list[Expr]:
        x, indices, _ = self.operand_tensor_types()
        return list(x.shape[: indices.shape[-1].as_int() or 0])

    def unnamed_dims(self) -> Sequence[int]:
        return range(len(self.places()), self.operand_tensor_types()[0].rank)

    def meaning(self) -> Meaning | Opaque:
        x, indices, _ = self.operand_tensor_types()
        depth, outer = len(self.places()), indices.shape[:-1]
        if not depth:
            return Opaque("a scatter without positions")
        over = tuple(Dim(f"r{i}", d) for i, d in enumerate(outer))
        if not over:
            return Opaque("a scatter of one update that has no dim of its own")
        names = [sym(d.name) for d in over]
        rest = [sym(f"d{i}") for i in range(depth, x.rank)]
        reads = [Read((*names, *rest), operand=2)]
        reads += [Read((*names, const(j)), operand=1) for j in range(depth)]
        hit = names_place(1, "d0", x.shape[0])
        for j in range(1, depth):
            hit = call("and", hit, names_place(1 + j, f"d{j}", x.shape[j]))
        order: Scalar = Coord(over[0].name)
        for dim in over[1:]:
            order = order * Extent(dim.extent) + Coord(dim.name)
        return self.folded(reads, hit, order, over)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.emit(cls, ctx.operands[:3], reduction=cls.imported_reduction(ctx))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        inputs = [inputs[0], wide_indices(ctx, inputs[1], self.operand_tensor_types()[1]), inputs[2]]
        return ctx.node("ScatterND", inputs, **self.reduction_attribute(ctx))


# -- masks of positions ----------------------------------------------------------------------------
