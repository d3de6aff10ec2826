# SPDX-License-Identifier: Apache-2.0
"""Tensor comprehensions as `graph.generic`: every fold becomes a stage, every index an index map.

Inside a comprehension names stand for numbers: axes for the current position, tensors of rank 0 for their
element, dim names for sizes. Tensors are indexed; calls are scalar functions, casts, elementwise graph ops
by their own formula, and user ops whose parameters have rank 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import scalar
from gaf.dialects.common.index import Expr, product, sym
from gaf.dialects.common.scalar import Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage
from gaf.dialects.graph.ops.common import accumulator
from gaf.dialects.graph.ops.custom import GenericOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import near
from gaf.frontend.language.formulas import FOLDS, AxisInfo, Formulas, Space, Value
from gaf.frontend.language.signature import dim_value


class Comprehension(Formulas):
    """Compiles one comprehension."""

    def compile(
        self, node: s.Comprehension, label: str, expected: TensorType | None, location: str | None
    ) -> GenericOp:
        """The op. With `expected`, its dims and element type have to be those.

        Raises LanguageError at the expression that is wrong.
        """
        axes = [self._axis(a, node.body, i, expected, node) for i, a in enumerate(node.axes)]
        batch = self._batch(node, expected)
        if len({a.name for a in axes}) != len(axes):
            raise self.source.error("two axes have one name", node.span)
        if expected is not None:
            got = [a.extent for a in (*batch, *axes)]
            if list(expected.shape) != got:
                raise self.source.error(
                    "the comprehension has another shape than its type",
                    node.span,
                    expected=expected,
                    got="[" + ", ".join(map(str, got)) + "]",
                )
        outer = [*batch, *axes]
        dtype = expected.dtype if expected is not None else None
        if isinstance(node.body, s.Fold) and node.body.kind != "mean":
            direct = self._direct(node.body, outer, dtype)
            if direct:
                return self._op(label, location, node)
        space = Space(list(outer))
        value = self.scalar(node.body, space)
        found = self._result_type(value, dtype, node)
        self.stages.append(self._stage(space, outer, value.body, found))
        return self._op(label, location, node)

    def _op(self, label: str, location: str | None, node: s.Comprehension) -> GenericOp:
        try:
            return GenericOp.of(
                label, Meaning(tuple(self.stages), (len(self.stages) - 1,)), self.operands, location
            )
        except InvalidInputError as error:
            error.what = error.what.partition("': ")[2] or error.what
            error.where = None
            raise self.source.wrap(error, node.span) from None

    def _result_type(self, value: Value, dtype: dt.DType | None, node: s.Expression) -> dt.DType:
        if value.dtype is None:
            return dtype or dt.F32
        if dtype is not None and value.dtype != dtype:
            raise self.source.error(
                "the comprehension has another element type than its type",
                node.span,
                expected=dtype,
                got=value.dtype,
                hint=f"convert it: {dtype}(..)",
            )
        return value.dtype

    # -- axes -----------------------------------------------------------------------------------------

    def _axis(
        self,
        axis: s.Axis,
        body: s.Expression,
        position: int,
        expected: TensorType | None,
        node: s.Comprehension,
    ) -> AxisInfo:
        if axis.extent is not None:
            extent = self._size(axis.extent)
        else:
            declared = position + expected.rank - len(node.axes) if expected is not None else -1
            extent = None
            if expected is not None and 0 <= declared < expected.rank:
                extent = expected.shape[declared]  # indices are checked against it one by one
            elif found := self._extents(axis.name, body):
                extent = found[0][0]
                self._agree(axis, found, extent)
            if extent is None:
                raise self.source.error(
                    f"nothing says how long axis '{axis.name}' is",
                    axis.span,
                    expected=f"{axis.name} < size, or a tensor indexed by '{axis.name}' alone",
                )
        return self._fresh(axis.name, extent)

    def _fresh(self, name: str, extent: Expr) -> AxisInfo:
        self.counter += 1
        return AxisInfo(name, f"@{self.counter}", extent)

    def _size(self, e: s.Expression) -> Expr:
        return dim_value(e, self.env, self.source)

    def _agree(self, axis: s.Axis, found: Sequence[tuple[Expr, s.Span]], extent: Expr | None) -> None:
        for other, span in found:
            if extent is not None and other != extent:
                raise self.source.error(
                    f"axis '{axis.name}' indexes dims of different sizes",
                    span,
                    expected=extent,
                    got=other,
                    hint=f"say how far it goes: {axis.name} < size",
                )

    def _extents(self, name: str, body: s.Expression) -> list[tuple[Expr, s.Span]]:
        """Sizes of the dims that the axis indexes by itself, with the places."""
        found: list[tuple[Expr, s.Span]] = []

        def visit(e: s.Expression) -> None:
            match e:
                case s.Index(s.Name(tensor), index):
                    value = self.env.get(tensor)
                    if isinstance(value, SSAValue):
                        shape = tensor_type(value).shape
                        plain = [i for i in index if not isinstance(i, s.Ellipsis)]
                        if len(plain) == len(index) != len(shape):
                            plain = []  # the wrong number of indices: an error of its own, later
                        for position, i in enumerate(plain, len(shape) - len(plain)):
                            if isinstance(i, s.Name) and i.name == name and 0 <= position < len(shape):
                                found.append((shape[position], i.span))
                    for i in index:
                        visit(i)
                case s.Fold(_, axes, inner):
                    if all(a.name != name for a in axes):
                        visit(inner)
                case s.Binary():
                    node: s.Expression = e
                    while isinstance(node, s.Binary):
                        visit(node.right)
                        node = node.left
                    visit(node)
                case s.Unary(_, operand):
                    visit(operand)
                case s.Call(_, args):
                    for a in args:
                        visit(a.value)

        visit(body)
        found.reverse()  # chains of operators are visited from the right
        return found

    def _batch(self, node: s.Comprehension, expected: TensorType | None) -> list[AxisInfo]:
        """Axes for `...`: the leading dims of the tensors that are indexed with it, broadcast."""
        if not node.batch:
            return []
        if expected is not None and expected.rank >= len(node.axes):
            shape = expected.shape[: expected.rank - len(node.axes)]
        else:
            shapes: list[tuple[Expr, ...]] = []
            self._leading(node.body, shapes)
            if not shapes:
                raise self.source.error(
                    "nothing says what '...' stands for", node.span, expected="a tensor indexed with '...'"
                )
            shape = max(shapes, key=len)
        return [self._fresh(f"...{i}", d) for i, d in enumerate(shape)]

    def _leading(self, body: s.Expression, found: list[tuple[Expr, ...]]) -> None:
        match body:
            case s.Index(s.Name(tensor), index):
                value = self.env.get(tensor)
                if isinstance(value, SSAValue) and index and isinstance(index[0], s.Ellipsis):
                    type_ = tensor_type(value)
                    found.append(type_.shape[: max(type_.rank - len(index) + 1, 0)])
                for i in index:
                    self._leading(i, found)
            case s.Fold(_, _, inner):
                self._leading(inner, found)
            case s.Binary(_, left, right):
                self._leading(left, found)
                self._leading(right, found)
            case s.Unary(_, operand):
                self._leading(operand, found)
            case s.Call(_, args):
                for a in args:
                    self._leading(a.value, found)

    # -- stages -----------------------------------------------------------------------------------------

    def _stage(
        self, space: Space, outer: Sequence[AxisInfo], body: Scalar, dtype: dt.DType,
        inner: Sequence[AxisInfo] = (), fold: str | None = None,
    ) -> Stage:  # fmt: skip
        """Axes renamed to d0, d1, ... and r0, r1, ..."""
        names = {a.symbol: sym(f"d{i}") for i, a in enumerate(outer)} | {
            a.symbol: sym(f"r{i}") for i, a in enumerate(inner)
        }
        ranges = {str(names[a.symbol]): a.extent for a in (*outer, *inner)}
        reads = tuple(
            Read(tuple(e.substitute(names).simplify(ranges) for e in r.index), r.operand, r.stage)
            for r in space.reads
        )
        return Stage(
            tuple(Dim(f"d{i}", a.extent) for i, a in enumerate(outer)), reads, _rename_coords(body, names), dtype,
            tuple(Dim(f"r{i}", a.extent) for i, a in enumerate(inner)), fold,
        )  # fmt: skip

    def _fold(self, node: s.Fold, scope: Sequence[AxisInfo]) -> tuple[Space, list[AxisInfo], Value]:
        if node.kind not in FOLDS:
            raise self.source.error(
                f"'{node.kind}' is no fold",
                node.name_span,
                expected=", ".join(FOLDS),
                hint=near(node.kind, FOLDS),
            )
        taken = {a.name for a in scope}
        inner: list[AxisInfo] = []
        for axis in node.axes:
            if axis.name in taken:
                raise self.source.error(
                    f"the axis '{axis.name}' is in use already", axis.span, expected="another name"
                )
            taken.add(axis.name)
            if axis.extent is not None:
                extent = self._size(axis.extent)
            else:
                found = self._extents(axis.name, node.body)
                if not found:
                    raise self.source.error(
                        f"nothing says how long axis '{axis.name}' is",
                        axis.span,
                        expected=f"{axis.name} < size, or a tensor indexed by '{axis.name}' alone",
                    )
                extent = found[0][0]
                self._agree(axis, found, extent)
            inner.append(self._fresh(axis.name, extent))
        space = Space([*scope, *inner])
        value = self.scalar(node.body, space)
        if value.dtype is not None and value.dtype.is_bool and node.kind not in ("max", "min"):
            raise self.source.error(
                f"a {node.kind} of bool values",
                node.body.span,
                expected="numbers",
                hint="convert them: i32(..) or f32(..)",
            )
        return space, inner, value

    def _direct(self, node: s.Fold, outer: Sequence[AxisInfo], dtype: dt.DType | None) -> bool:
        """The fold as the last stage itself, if it depends on all axes of the result."""
        operands, stages, counter = list(self.operands), list(self.stages), self.counter
        space, inner, value = self._fold(node, outer)
        if [a.symbol for a in self._used(space, value.body, outer)] != [a.symbol for a in outer]:
            self.operands, self.stages, self.counter = operands, stages, counter
            return False
        found = self._result_type(value, dtype, node)
        self.stages.append(self._stage(space, outer, value.body, found, inner, node.kind))
        return True

    def _used(self, space: Space, body: Scalar, scope: Sequence[AxisInfo]) -> list[AxisInfo]:
        used = {n for r in space.reads for e in r.index for n in e.names()}
        used |= {node.dim for node in scalar.walk(body) if isinstance(node, Coord)}
        return [a for a in scope if a.symbol in used]

    def fold(self, node: s.Fold, space: Space) -> Value:
        """A fold inside a formula: a stage of its own over the axes that it depends on."""
        inner_space, inner, value = self._fold(node, space.axes)
        kept = self._used(inner_space, value.body, space.axes)
        nominal = value.dtype or dt.F32
        kind = "sum" if node.kind == "mean" else node.kind
        stage = self._stage(inner_space, kept, value.body, accumulator(nominal), inner, kind)
        if stage not in self.stages:  # the same fold may be written twice
            self.stages.append(stage)
        result: Scalar = space.arg(Read(tuple(sym(a.symbol) for a in kept), stage=self.stages.index(stage)))
        if node.kind == "mean":
            if not nominal.is_float:
                raise self.source.error(
                    f"a mean of {nominal} values",
                    node.body.span,
                    expected="floats",
                    hint="convert them: f32(..)",
                )
            count = product(a.extent for a in inner)
            known = count.as_int()
            result = result / (Const(float(known)) if known is not None else Extent(count))
        return Value(result, nominal)


def _rename_coords(body: Scalar, names: Mapping[str, Expr]) -> Scalar:
    match body:
        case Coord(dim):
            return Coord(str(names[dim]))
        case Call(function, args, dtype):
            return Call(function, tuple(_rename_coords(a, names) for a in args), dtype)
    return body
