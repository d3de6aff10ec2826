# SPDX-License-Identifier: Apache-2.0
"""Writes a `Meaning` as ONNX nodes: reads become views or gathers, bodies elementwise nodes, folds reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, Func, const, expr, product
from gaf.dialects.common.scalar import Arg, Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph.contract import ExportContext
from gaf.dialects.graph.meaning import Meaning, Read, Stage
from gaf.dialects.graph.meaning_eval import LOGIC, function_type
from gaf.dialects.graph.ops.common import ONNX_FUNCTIONS, accumulator, number, scalar_dim
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError

_FOLDS = {
    "sum": ("ReduceSum", 13),
    "max": ("ReduceMax", 18),
    "min": ("ReduceMin", 18),
    "prod": ("ReduceProd", 18),
}
"""Monoid -> ONNX operator, and the opset from which its axes are an operand."""

_BITWISE = {"bitand": "BitwiseAnd", "bitor": "BitwiseOr", "bitxor": "BitwiseXor", "bitnot": "BitwiseNot"}


def export_meaning(
    ctx: ExportContext,
    meaning: Meaning,
    inputs: Sequence[str],
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
) -> list[str]:
    """Names of the results. Raises UnsupportedError for a scalar function that ONNX lacks at this opset."""
    names: list[str] = []
    types: list[TensorType] = []
    for stage in meaning.stages:
        names.append(_StageWriter(ctx, stage, inputs, operands, names, types).write())
        types.append(TensorType.of([d.extent for d in stage.dims], stage.dtype))
    found = [names[r] for r in meaning.results]
    return ctx.node("Identity", found) if len(results) == 1 else found


class _StageWriter:
    """Nodes for one stage. Every value has the rank of the iteration space, with size 1 where it doesn't vary."""

    def __init__(
        self,
        ctx: ExportContext,
        stage: Stage,
        inputs: Sequence[str],
        operands: Sequence[TensorType],
        made: Sequence[str],
        made_types: Sequence[TensorType],
    ) -> None:
        self.ctx, self.stage = ctx, stage
        self.inputs, self.operands = inputs, operands
        self.made, self.made_types = made, made_types
        self.dims = [*stage.dims, *stage.reduced]
        self.position = {d.name: i for i, d in enumerate(self.dims)}

    def write(self) -> str:
        stage = self.stage
        name = self.matmul()
        if name is not None:
            return name
        dtype = accumulator(stage.dtype)
        reads = [self.read(r) for r in stage.reads]
        name, found = self.body(stage.body, [n for n, _ in reads], [t for _, t in reads], dtype)
        name = self.widened(name, self.varies(stage.body))
        if stage.monoid is not None:
            name = self.fold(name, stage.monoid, found or dtype)
        return name if dtype == stage.dtype else self.one("Cast", [name], to=stage.dtype.onnx)

    # -- small tools ------------------------------------------------------------------------------

    def one(self, op_type: str, inputs: Sequence[str], **attrs: object) -> str:
        return self.ctx.node(op_type, inputs, 1, **attrs)[0]

    def ints(self, *values: int) -> str:
        return self.ctx.constant(np.asarray(values, np.int64))

    def fold(self, name: str, monoid: str, dtype: dt.DType) -> str:
        op_type, since = _FOLDS[monoid]
        axes = list(range(len(self.stage.dims), len(self.dims)))
        if dtype.is_bool:
            name = self.one("Cast", [name], to=dt.I32.onnx)
        if self.ctx.opset >= since:
            name = self.one(op_type, [name, self.ints(*axes)], keepdims=0)
        else:
            name = self.one(op_type, [name], axes=axes, keepdims=0)
        return self.one("Cast", [name], to=dt.BOOL.onnx) if dtype.is_bool else name

    def widened(self, name: str, axes: set[str]) -> str:
        """`name` as a tensor of the whole space, if it lacks axes of it."""
        if all(d.name in axes or d.extent == 1 for d in self.dims) and axes:
            return name
        if not self.dims:
            return name
        return self.one("Expand", [name, self.ctx.dims([d.extent for d in self.dims])])

    def varies(self, body: Scalar) -> set[str]:
        """The axes that the value of a body has."""
        match body:
            case Arg(i):
                return {n for e in self.stage.reads[i].index for n in e.names()} & self.position.keys()
            case Coord(dim):
                return {dim}
            case Call(_, args, _):
                return set().union(*map(self.varies, args))
        return set()

    def place(self, name: str, axes: Sequence[str]) -> str:
        """A tensor over `axes`, in that order, as one over the whole space."""
        order = sorted(range(len(axes)), key=lambda i: self.position[axes[i]])
        if order != list(range(len(axes))):
            name = self.one("Transpose", [name], perm=order)
        missing = [i for i, d in enumerate(self.dims) if d.name not in axes]
        return self.one("Unsqueeze", [name, self.ints(*missing)]) if missing else name

    # -- reads --------------------------------------------------------------------------------------

    def read(self, read: Read) -> tuple[str, dt.DType]:
        if read.operand is not None:
            name, type_ = self.inputs[read.operand], self.operands[read.operand]
        else:
            assert read.stage is not None
            name, type_ = self.made[read.stage], self.made_types[read.stage]
        name = self.element(name, type_, read.index)
        kind = accumulator(type_.dtype)
        return (name if kind == type_.dtype else self.one("Cast", [name], to=kind.onnx)), kind

    def element(self, name: str, type_: TensorType, index: Sequence[Expr]) -> str:
        plain = self.plain(index)
        if plain is None:
            return self.gathered(name, type_, index)
        axes: list[str] = []
        starts: list[Expr] = []
        ends: list[Expr] = []
        cut: list[int] = []
        dropped: list[int] = []
        for i, ((axis, offset), size) in enumerate(zip(plain, type_.shape)):
            extent = self.dims[self.position[axis]].extent if axis else const(1)
            if offset != 0 or extent != size:
                cut.append(i)
                starts.append(offset)
                ends.append(offset + extent)
            if axis:
                axes.append(axis)
            else:
                dropped.append(i)
        if cut:
            vectors = [self.ctx.dims(starts), self.ctx.dims(ends), self.ints(*cut)]
            name = self.one("Slice", [name, *vectors])
        if dropped:
            name = self.one("Squeeze", [name, self.ints(*dropped)])
        return self.place(name, axes)

    def plain(self, index: Sequence[Expr]) -> list[tuple[str, Expr]] | None:
        """(axis, offset) of every index expression that is `axis + offset` or `offset` ("" as axis)."""
        found: list[tuple[str, Expr]] = []
        for e in index:
            axes = e.names() & self.position.keys()
            if len(axes) > 1 or any(isinstance(a, Func) and a.name == "read" for a in e.atoms()):
                return None
            if not axes:
                found.append(("", e))
                continue
            (axis,) = axes
            if e.coefficient(axis) != 1:
                return None
            found.append((axis, e - axis))
        named = [a for a, _ in found if a]
        return found if len(set(named)) == len(named) else None

    def gathered(self, name: str, type_: TensorType, index: Sequence[Expr]) -> str:
        """Elements at computed places: a gather from the flattened tensor."""
        address: str | None = None
        for size, e in zip(type_.shape, index):
            place = self.index(e)
            if address is None:
                address = place
            else:
                address = self.one("Add", [self.one("Mul", [address, scalar_dim(self.ctx, size)]), place])
        assert address is not None
        flat = self.one("Reshape", [name, self.ints(-1)])
        return self.one("Gather", [flat, address], axis=0)

    def index(self, e: Expr) -> str:
        """An index expression as int64 values over the space."""
        total: str | None = None
        for mono, coef in e.terms.items():
            factors = [self.atom(a) for a in mono]
            if coef != 1 or not factors:
                factors.append(self.ctx.constant(np.asarray(coef, np.int64)))
            term = factors[0]
            for factor in factors[1:]:
                term = self.one("Mul", [term, factor])
            total = term if total is None else self.one("Add", [total, term])
        return total if total is not None else self.ctx.constant(np.asarray(0, np.int64))

    def atom(self, atom: str | Func) -> str:
        if isinstance(atom, str):
            return self.coordinate(atom) if atom in self.position else scalar_dim(self.ctx, expr(atom))
        if atom.name == "read":
            number = int(atom.tag)
            name = self.element(self.inputs[number], self.operands[number], atom.args)
            return name if self.operands[number].dtype == dt.I64 else self.one("Cast", [name], to=dt.I64.onnx)
        a, b = (self.index(x) for x in atom.args)
        match atom.name:
            case "floordiv":  # ONNX's Div truncates: subtract the (non-negative) remainder first
                return self.one("Div", [self.one("Sub", [a, self.one("Mod", [a, b], fmod=0)]), b])
            case "mod":
                return self.one("Mod", [a, b], fmod=0)
        return self.one(atom.name.capitalize(), [a, b])  # Min, Max

    def coordinate(self, axis: str) -> str:
        """0, 1, ... along one axis."""
        extent = self.dims[self.position[axis]].extent
        bounds = [self.ctx.constant(np.asarray(v, np.int64)) for v in (0, 1)]
        values = self.one("Range", [bounds[0], scalar_dim(self.ctx, extent), bounds[1]])
        return self.place(values, [axis])

    # -- bodies ---------------------------------------------------------------------------------------

    def body(
        self, body: Scalar, names: Sequence[str], kinds: Sequence[dt.DType], literal: dt.DType
    ) -> tuple[str, dt.DType | None]:
        """(name, element type) of a body; literals become constants of type `literal`, which is then the type."""
        match body:
            case Arg(i):
                return names[i], kinds[i]
            case Const(value):
                return self.ctx.constant(number(value, literal)), None
            case Extent(value):
                return self.one("Cast", [scalar_dim(self.ctx, value)], to=literal.onnx), None
            case Coord(dim):
                return self.coordinate(dim), dt.I64
            case Call("cast", (operand,), target):
                assert target is not None
                name, found = self.body(operand, names, kinds, dt.F64)
                name = self.one("Cast", [name], to=target.onnx) if found != target else name
                wide = accumulator(target)
                return (name if wide == target else self.one("Cast", [name], to=wide.onnx)), wide
            case Call(function, operands, _):
                values = operands[1:] if function == "select" else operands
                known = [t for t in (self.type_of(o, kinds) for o in values) if t is not None]
                inner = known[0] if known else literal
                args = [self.body(o, names, kinds, inner)[0] for o in operands]
                types = [self.type_of(o, kinds) for o in operands]
                return self.call(function, args, inner), function_type(function, types)
        raise UnsupportedError(f"a formula with {type(body).__name__} has no ONNX form")

    def type_of(self, body: Scalar, kinds: Sequence[dt.DType]) -> dt.DType | None:
        match body:
            case Arg(i):
                return kinds[i]
            case Coord():
                return dt.I64
            case Call(function, operands, target):
                found = function_type(function, [self.type_of(o, kinds) for o in operands], target)
                return accumulator(found) if found is not None else None
        return None

    def call(self, function: str, args: list[str], dtype: dt.DType) -> str:
        match function:
            case "rsqrt":
                return self.one("Reciprocal", [self.one("Sqrt", args)])
            case "reciprocal" if dtype.is_int:
                return self.one("Div", [self.ctx.constant(number(1, dtype)), *args])
            case "ne":
                return self.one("Not", [self.one("Equal", args)])
            case "trunc":
                magnitude = self.one("Floor", [self.one("Abs", args)])
                return self.one("Mul", [magnitude, self.one("Sign", args)])
            case "fmod":
                return self.one("Mod", args, fmod=1)
            case "floormod" if dtype.is_int:
                return self.one("Mod", args, fmod=0)
            case "floormod":  # ONNX has no floor modulo on floats
                quotient = self.one("Floor", [self.one("Div", args)])
                return self.one("Sub", [args[0], self.one("Mul", [args[1], quotient])])
        if function in _BITWISE and self.ctx.opset >= 18:
            return self.one(_BITWISE[function], args)
        if function not in ONNX_FUNCTIONS or (function in LOGIC and not dtype.is_bool):
            raise UnsupportedError(
                f"the scalar function '{function}' has no ONNX form at opset {self.ctx.opset}"
            )
        return self.one(ONNX_FUNCTIONS[function], args)

    # -- contractions -----------------------------------------------------------------------------------

    def matmul(self) -> str | None:
        """A sum over one axis of a product of two plain reads as MatMul; None for any other stage."""
        stage = self.stage
        product_body = Call("mul", (Arg(0), Arg(1)))
        if (
            stage.monoid != "sum"
            or len(stage.reduced) != 1
            or stage.body != product_body
            or len(stage.reads) != 2
        ):
            return None
        (k,) = (d.name for d in stage.reduced)
        sides: list[tuple[str, TensorType, list[str]]] = []
        for read in stage.reads:
            type_ = self.operands[read.operand] if read.operand is not None else self.made_types[read.stage]  # type: ignore[index]
            name = self.inputs[read.operand] if read.operand is not None else self.made[read.stage]  # type: ignore[index]
            axes = [e.as_name() or "" for e in read.index]
            whole = [
                a in self.position and self.dims[self.position[a]].extent == d
                for a, d in zip(axes, type_.shape)
            ]
            if not all(whole) or len(set(axes)) != len(axes) or k not in axes or type_.dtype != stage.dtype:
                return None
            sides.append((name, type_, axes))
        (a, _, left), (b, _, right) = sides
        if {*left, *right} != self.position.keys():
            return None
        batch = [d.name for d in stage.dims if d.name in left and d.name in right]
        rows = [d.name for d in stage.dims if d.name in left and d.name not in right]
        columns = [d.name for d in stage.dims if d.name in right and d.name not in left]
        a = self.matrix(a, left, [batch, rows, [k]])
        b = self.matrix(b, right, [batch, [k], columns])
        result = self.one("MatMul", [a, b])
        order = [*batch, *rows, *columns]
        extents = [self.dims[self.position[n]].extent for n in order]
        if len(rows) != 1 or len(columns) != 1:
            result = (
                self.one("Reshape", [result, self.ctx.dims(extents)])
                if extents
                else self.one("Reshape", [result, self.ctx.constant(np.zeros(0, np.int64))])
            )
        perm = [order.index(d.name) for d in stage.dims]
        return result if perm == list(range(len(perm))) else self.one("Transpose", [result], perm=perm)

    def matrix(self, name: str, axes: list[str], groups: Sequence[Sequence[str]]) -> str:
        """A tensor over `axes` as batch dims and two matrix dims, each the product of a group."""
        order = [a for group in groups for a in group]
        perm = [axes.index(a) for a in order]
        if perm != list(range(len(perm))):
            name = self.one("Transpose", [name], perm=perm)
        if all(len(g) == 1 for g in groups[1:]):
            return name
        size = {d.name: d.extent for d in self.dims}
        shape = [*(size[a] for a in groups[0]), *(product(size[a] for a in g) for g in groups[1:])]
        return self.one("Reshape", [name, self.ctx.dims(shape)])
