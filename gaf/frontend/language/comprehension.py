# SPDX-License-Identifier: Apache-2.0
"""Tensor comprehensions as `graph.generic`: every fold becomes a stage, every index an index map.

Inside a comprehension names stand for numbers: axes for the current position, tensors of rank 0 for their
element, dim names for sizes. Tensors are indexed; calls are scalar functions, casts, elementwise graph ops
by their own formula, and user ops whose parameters have rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid, scalar
from gaf.dialects.common.index import Expr, Func, const, expr, floordiv, maximum, minimum, mod, product, sym
from gaf.dialects.common.scalar import Arg, Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage
from gaf.dialects.graph.meaning_eval import check_bounds, function_type
from gaf.dialects.graph.ops.common import accumulator
from gaf.dialects.graph.ops.custom import GenericOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError
from gaf.frontend import calls
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near
from gaf.frontend.language.signature import DTYPES, dim_value, is_scalar

if TYPE_CHECKING:
    from gaf.frontend.language.lowering import OpEntry

FOLDS = (*monoid.ALL, "mean")
BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "floormod", "^": "pow", "==": "eq", "!=": "ne", "<": "lt",
    "<=": "le", ">": "gt", ">=": "ge", "and": "and", "or": "or",
}  # fmt: skip
SYNONYMS = {"where": "select", "maximum": "max", "minimum": "min"}


@dataclass
class _AxisInfo:
    """An axis in scope; `symbol` names it in index expressions until its stage is finished."""

    name: str
    symbol: str
    extent: Expr


@dataclass
class _Space:
    """The iteration space under construction: the axes in scope, outermost first, and what it reads."""

    axes: list[_AxisInfo]
    reads: dict[Read, int] = field(default_factory=dict)

    def arg(self, read: Read) -> Arg:
        return Arg(self.reads.setdefault(read, len(self.reads)))


@dataclass(frozen=True)
class _Value:
    """A scalar in a space: its formula, and its element type as the user sees it (None: a literal)."""

    body: Scalar
    dtype: dt.DType | None


class Comprehension:
    """Compiles one comprehension. `env` maps names to tensors, sizes and numbers; `ops` finds user ops."""

    def __init__(
        self,
        source: Source,
        env: Mapping[str, Any],
        ops: Callable[[str], OpEntry | None],
        known_ops: Sequence[str] = (),
        dtypes: Mapping[str, dt.DType] | None = None,
    ) -> None:
        self.source, self.env, self.ops, self.known_ops = source, env, ops, known_ops
        self.dtypes = {**DTYPES, **(dtypes or {})}  # element types by name, with the variables of the op
        self.operands: list[SSAValue] = []
        self.stages: list[Stage] = []
        self.counter = 0
        self.calls: tuple[str, ...] = ()
        self.substitutions: dict[str, _Value] = {}

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
                    "the comprehension has another shape than its type", node.span,
                    expected=expected, got="[" + ", ".join(map(str, got)) + "]",
                )
        outer = [*batch, *axes]
        dtype = expected.dtype if expected is not None else None
        if isinstance(node.body, s.Fold) and node.body.kind != "mean":
            direct = self._direct(node.body, outer, dtype)
            if direct:
                return self._op(label, location, node)
        space = _Space(list(outer))
        value = self.scalar(node.body, space)
        found = self._result_type(value, dtype, node)
        self.stages.append(self._stage(space, outer, value.body, found))
        return self._op(label, location, node)

    def _op(self, label: str, location: str | None, node: s.Comprehension) -> GenericOp:
        try:
            return GenericOp.of(label, Meaning(tuple(self.stages), (len(self.stages) - 1,)), self.operands, location)
        except InvalidInputError as error:
            error.what = error.what.partition("': ")[2] or error.what
            error.where = None
            raise self.source.wrap(error, node.span) from None

    def _result_type(self, value: _Value, dtype: dt.DType | None, node: s.Expression) -> dt.DType:
        if value.dtype is None:
            return dtype or dt.F32
        if dtype is not None and value.dtype != dtype:
            raise self.source.error(
                "the comprehension has another element type than its type", node.span,
                expected=dtype, got=value.dtype, hint=f"convert it: {dtype}(..)",
            )
        return value.dtype

    # -- axes -----------------------------------------------------------------------------------------

    def _axis(
        self, axis: s.Axis, body: s.Expression, position: int, expected: TensorType | None, node: s.Comprehension
    ) -> _AxisInfo:
        if axis.extent is not None:
            extent = self._size(axis.extent)
        else:
            found = self._extents(axis.name, body)
            extent = found[0][0] if found else None
            if expected is not None:
                declared = position + expected.rank - len(node.axes)
                if 0 <= declared < expected.rank:
                    extent = expected.shape[declared]
            self._agree(axis, found, extent)
            if extent is None:
                raise self.source.error(
                    f"nothing says how long axis '{axis.name}' is", axis.span,
                    expected=f"{axis.name} < size, or a tensor indexed by '{axis.name}' alone",
                )
        return self._fresh(axis.name, extent)

    def _fresh(self, name: str, extent: Expr) -> _AxisInfo:
        self.counter += 1
        return _AxisInfo(name, f"@{self.counter}", extent)

    def _size(self, e: s.Expression) -> Expr:
        return dim_value(e, self.env, self.source)

    def _agree(self, axis: s.Axis, found: Sequence[tuple[Expr, s.Span]], extent: Expr | None) -> None:
        for other, span in found:
            if extent is not None and other != extent:
                raise self.source.error(
                    f"axis '{axis.name}' indexes dims of different sizes", span,
                    expected=extent, got=other, hint=f"say how far it goes: {axis.name} < size",
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

    def _batch(self, node: s.Comprehension, expected: TensorType | None) -> list[_AxisInfo]:
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
        self, space: _Space, outer: Sequence[_AxisInfo], body: Scalar, dtype: dt.DType,
        inner: Sequence[_AxisInfo] = (), fold: str | None = None,
    ) -> Stage:  # fmt: skip
        """Axes renamed to d0, d1, ... and r0, r1, ..."""
        names = {a.symbol: sym(f"d{i}") for i, a in enumerate(outer)} | {a.symbol: sym(f"r{i}") for i, a in enumerate(inner)}
        ranges = {str(names[a.symbol]): a.extent for a in (*outer, *inner)}
        reads = tuple(
            Read(tuple(e.substitute(names).simplify(ranges) for e in r.index), r.operand, r.stage) for r in space.reads
        )
        return Stage(
            tuple(Dim(f"d{i}", a.extent) for i, a in enumerate(outer)), reads, _rename_coords(body, names), dtype,
            tuple(Dim(f"r{i}", a.extent) for i, a in enumerate(inner)), fold,
        )  # fmt: skip

    def _fold(self, node: s.Fold, scope: Sequence[_AxisInfo]) -> tuple[_Space, list[_AxisInfo], _Value]:
        if node.kind not in FOLDS:
            raise self.source.error(
                f"'{node.kind}' is no fold", node.name_span, expected=", ".join(FOLDS), hint=near(node.kind, FOLDS)
            )
        taken = {a.name for a in scope}
        inner: list[_AxisInfo] = []
        for axis in node.axes:
            if axis.name in taken:
                raise self.source.error(f"the axis '{axis.name}' is in use already", axis.span, expected="another name")
            taken.add(axis.name)
            if axis.extent is not None:
                extent = self._size(axis.extent)
            else:
                found = self._extents(axis.name, node.body)
                if not found:
                    raise self.source.error(
                        f"nothing says how long axis '{axis.name}' is", axis.span,
                        expected=f"{axis.name} < size, or a tensor indexed by '{axis.name}' alone",
                    )
                extent = found[0][0]
                self._agree(axis, found, extent)
            inner.append(self._fresh(axis.name, extent))
        space = _Space([*scope, *inner])
        value = self.scalar(node.body, space)
        if value.dtype is not None and value.dtype.is_bool and node.kind not in ("max", "min"):
            raise self.source.error(
                f"a {node.kind} of bool values", node.body.span, expected="numbers", hint="convert them: i32(..) or f32(..)"
            )
        return space, inner, value

    def _direct(self, node: s.Fold, outer: Sequence[_AxisInfo], dtype: dt.DType | None) -> bool:
        """The fold as the last stage itself, if it depends on all axes of the result."""
        operands, stages, counter = list(self.operands), list(self.stages), self.counter
        space, inner, value = self._fold(node, outer)
        if [a.symbol for a in self._used(space, value.body, outer)] != [a.symbol for a in outer]:
            self.operands, self.stages, self.counter = operands, stages, counter
            return False
        found = self._result_type(value, dtype, node)
        self.stages.append(self._stage(space, outer, value.body, found, inner, node.kind))
        return True

    def _used(self, space: _Space, body: Scalar, scope: Sequence[_AxisInfo]) -> list[_AxisInfo]:
        used = {n for r in space.reads for e in r.index for n in e.names()}
        used |= {node.dim for node in scalar.walk(body) if isinstance(node, Coord)}
        return [a for a in scope if a.symbol in used]

    def fold(self, node: s.Fold, space: _Space) -> _Value:
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
                raise self.source.error(f"a mean of {nominal} values", node.body.span, expected="floats", hint="convert them: f32(..)")
            count = product(a.extent for a in inner)
            known = count.as_int()
            result = result / (Const(float(known)) if known is not None else Extent(count))
        return _Value(result, nominal)

    # -- formulas -----------------------------------------------------------------------------------------

    def scalar(self, e: s.Expression, space: _Space) -> _Value:
        """The formula of an expression."""
        match e:
            case s.Number(value):
                return _Value(Const(float(value)), None)
            case s.Bool(value):
                return _Value(Call("cast", (Const(float(value)),), dt.BOOL), dt.BOOL)
            case s.Name(name):
                return self._name(name, e, space)
            case s.Unary("-", s.Number(value)):
                return _Value(Const(-float(value)), None)
            case s.Unary(op, operand):
                return self._call("neg" if op == "-" else "not", [self.scalar(operand, space)], e)
            case s.Binary("^", base, s.Number(2)):
                x = self.scalar(base, space)
                return self._call("mul", [x, x], e)
            case s.Binary():
                return self._binary(e, space)
            case s.Fold():
                return self.fold(e, space)
            case s.Index(s.Name(name), index):
                return self._element(name, index, e, space)
            case s.Index(base, _):
                raise self.source.error("only tensors with a name can be indexed", base.span, hint="name it with 'let' first")
            case s.Call():
                return self._function(e, space)
            case s.Comprehension():
                raise self.source.error("a comprehension inside a comprehension", e.span, hint="name it with 'let' first")
        raise self.source.error("this is no number", e.span, expected="a formula of numbers, axes and tensor elements")

    def _binary(self, e: s.Binary, space: _Space) -> _Value:
        chain: list[s.Binary] = []
        node: s.Expression = e
        while isinstance(node, s.Binary) and not (node.op == "^" and isinstance(node.right, s.Number)):
            chain.append(node)
            node = node.left
        left = self.scalar(node, space)
        for part in reversed(chain):
            function = BINARY.get(part.op)
            if function is None:
                hint = "floor(a / b)" if part.op == "//" else "sum(k: a[i, k] * b[k, j])"
                raise self.source.error(f"'{part.op}' has no meaning on numbers", part.op_span, hint=f"write {hint}")
            left = self._call(function, [left, self.scalar(part.right, space)], part)
        return left

    def _call(self, function: str, args: Sequence[_Value], e: s.Expression, target: dt.DType | None = None) -> _Value:
        if all(a.dtype is None for a in args) and function in ("add", "sub", "mul", "div", "neg"):
            folded = self._literal(function, [a.body for a in args])
            if folded is not None:
                return _Value(folded, None)
        try:
            found = function_type(function, [a.dtype for a in args], target)
        except InvalidInputError as error:
            raise self.source.wrap(error, e.span) from None
        kind = next((a.dtype for a in args if a.dtype is not None), None)
        if kind is not None and not kind.is_float:
            for a in args:
                if isinstance(a.body, Const) and not a.body.value.is_integer() and function != "select":
                    raise self.source.error(
                        f"the fraction {a.body.value} meets {kind} values", e.span, hint="convert them: f32(..)"
                    )
        return _Value(Call(function, tuple(a.body for a in args), target), found)

    @staticmethod
    def _literal(function: str, args: Sequence[Scalar]) -> Const | None:
        """Arithmetic on literals, done here."""
        values = [a.value for a in args if isinstance(a, Const)]
        if len(values) != len(args) or (function == "div" and values[1] == 0):
            return None
        match function:
            case "neg":
                return Const(-values[0])
            case "add":
                return Const(values[0] + values[1])
            case "sub":
                return Const(values[0] - values[1])
            case "mul":
                return Const(values[0] * values[1])
        return Const(values[0] / values[1])

    def _name(self, name: str, e: s.Name, space: _Space) -> _Value:
        axis = next((a for a in reversed(space.axes) if a.name == name), None)
        if axis is not None:
            return _Value(Coord(axis.symbol), dt.I64)
        if name in self.substitutions:
            return self.substitutions[name]
        value = self.env.get(name)
        match value:
            case bool():
                return _Value(Call("cast", (Const(float(value)),), dt.BOOL), dt.BOOL)
            case int() | float():
                return _Value(Const(float(value)), None)
            case Expr():
                known = value.as_int()
                return _Value(Const(float(known)) if known is not None else Extent(value), None)
            case SSAValue():
                type_ = tensor_type(value)
                if type_.rank:
                    axes = ", ".join("ijklmnpq"[: type_.rank])
                    raise self.source.error(
                        f"'{name}' is a tensor of rank {type_.rank}, not a number", e.span, expected=f"{name}[{axes}]", got=type_
                    )
                return _Value(space.arg(Read((), operand=self._operand(value))), type_.dtype)
        if name in ("inf", "nan"):
            return _Value(Const(float(name)), None)
        known_names = [*(a.name for a in space.axes if not a.name.startswith("...")), *self.env]
        raise self.source.error(f"unknown name '{name}'", e.span, hint=near(name, known_names))

    def _operand(self, value: SSAValue) -> int:
        if value not in self.operands:
            self.operands.append(value)
        return self.operands.index(value)

    def _element(self, name: str, index: Sequence[s.Expression], e: s.Index, space: _Space) -> _Value:
        value = self.env.get(name)
        if not isinstance(value, SSAValue):
            if value is None:
                tensors = [n for n, v in self.env.items() if isinstance(v, SSAValue)]
                raise self.source.error(f"unknown tensor '{name}'", e.base.span, hint=near(name, tensors))
            raise self.source.error(f"'{name}' is no tensor", e.base.span, got=calls.describe(value))
        type_ = tensor_type(value)
        read = Read(self._places(name, type_, index, e, space), operand=self._operand(value))
        return _Value(space.arg(read), type_.dtype)

    def _places(
        self, name: str, type_: TensorType, index: Sequence[s.Expression], e: s.Index, space: _Space
    ) -> tuple[Expr, ...]:
        places: list[Expr] = []
        batch = bool(index) and isinstance(index[0], s.Ellipsis)
        plain = index[1:] if batch else index
        offset = type_.rank - len(plain)
        if offset < 0 or (offset and not batch):
            raise self.source.error(
                f"'{name}' has rank {type_.rank}", e.span, expected=f"{type_.rank} indices", got=f"{len(plain)} for {type_}"
            )
        if batch:
            leading = [a for a in space.axes if a.name.startswith("...")]
            if offset > len(leading):
                raise self.source.error(
                    f"'{name}' has more leading dims than the comprehension", e.span,
                    expected=f"at most {len(leading)}", got=f"{offset} in {type_}", hint="begin the axes with '...'",
                )
            for axis, size in zip(leading[len(leading) - offset :], type_.shape):
                places.append(const(0) if size == 1 and axis.extent != 1 else sym(axis.symbol))
        ranges = {a.symbol: a.extent for a in space.axes}
        places += [self.place(i, space) for i in plain]
        names = {a.symbol: sym(a.name) for a in space.axes if not a.name.startswith("...")}
        for axis_number, (place, span) in enumerate(zip(places[offset:], (i.span for i in plain)), offset):
            try:
                check_bounds([place], [type_.shape[axis_number]], ranges, f"'{name}'")
            except InvalidInputError as error:
                shown = place.substitute(names)
                limits = ", ".join(f"0 <= {a.name} < {a.extent}" for a in space.axes if a.symbol in place.names())
                raise self.source.error(
                    f"the index '{shown}' can't be shown to stay inside dim {axis_number} of '{name}'", span,
                    expected=f"0 <= {shown} < {type_.shape[axis_number]}" + (f" for {limits}" if limits else ""),
                    hint=error.hint,
                ) from None
        return tuple(places)

    def place(self, e: s.Expression, space: _Space) -> Expr:
        """An index: axes, sizes and integers with + - * // %, min, max, and elements of integer tensors."""
        ranges = {a.symbol: a.extent for a in space.axes}
        match e:
            case s.Number(value) if isinstance(value, int):
                return expr(value)
            case s.Unary("-", operand):
                return -self.place(operand, space)
            case s.Name(name):
                axis = next((a for a in reversed(space.axes) if a.name == name), None)
                if axis is not None:
                    return sym(axis.symbol)
                value = self.env.get(name)
                if isinstance(value, int) and not isinstance(value, bool):
                    return expr(value)
                if isinstance(value, Expr):
                    return value
                known = [*(a.name for a in space.axes), *(n for n, v in self.env.items() if isinstance(v, Expr))]
                raise self.source.error(
                    f"'{name}' is no axis or size", e.span, expected=", ".join(n for n in known if "." not in n),
                    hint=near(name, known),
                )
            case s.Binary(op, left, right) if op in ("+", "-", "*", "//", "%"):
                a, b = self.place(left, space), self.place(right, space)
                match op:
                    case "+":
                        return a + b
                    case "-":
                        return a - b
                    case "*":
                        if (a.names() & set(ranges)) and (b.names() & set(ranges)):
                            raise self.source.error("an index that multiplies axes", e.span, expected="axis * size")
                        return a * b
                divisor = b.as_int()
                if b.names() & set(ranges) or (divisor is not None and divisor <= 0):
                    raise self.source.error("an index is divided by sizes only", right.span, expected="1 or more", got=b)
                return floordiv(a, b, ranges) if op == "//" else mod(a, b, ranges)
            case s.Binary("/", _, _):
                raise self.source.error("an index is a whole number", e.op_span, hint="use //, which rounds down")
            case s.Call("min" | "max" as name, (s.Argument(None, first), s.Argument(None, second))):
                a, b = self.place(first, space), self.place(second, space)
                return minimum(a, b, ranges) if name == "min" else maximum(a, b, ranges)
            case s.Index(s.Name(name), index):
                value = self.env.get(name)
                if not isinstance(value, SSAValue):
                    raise self.source.error(f"'{name}' is no tensor", e.base.span)
                type_ = tensor_type(value)
                if type_.dtype not in (dt.I32, dt.I64):
                    raise self.source.error(
                        f"'{name}' holds no indices", e.base.span, expected="i32 or i64", got=type_.dtype
                    )
                at = self._places(name, type_, index, e, space)
                return Expr({(Func("read", at, str(self._operand(value))),): 1})
        raise self.source.error(
            "this is no index", e.span, expected="axes, sizes and integers with + - * // % min max, or table[i]"
        )

    def _function(self, e: s.Call, space: _Space) -> _Value:
        name = SYNONYMS.get(e.function, e.function)
        positional = [a for a in e.args if a.name is None]
        user = self.ops(e.function)
        if user is not None:
            return self._inline(user, e, space)
        if name in self.dtypes or name == "cast":
            target = self.dtypes.get(name) or self._cast_target(e)
            if len(positional) < 1:
                raise self.source.error(f"'{name}' converts one number", e.span, expected=f"{name}(x)")
            value = self.scalar(positional[0].value, space)
            return _Value(Call("cast", (value.body,), target), target)
        named = {a.name: a for a in e.args if a.name is not None}
        if name in scalar.FUNCTIONS and not named:
            arity = scalar.FUNCTIONS[name].arity
            if len(positional) != arity:
                raise self.source.error(
                    f"'{e.function}' takes {arity} number{'s' if arity > 1 else ''}", e.span, got=len(positional),
                    hint=f"a fold is written {name}(k: ...)" if name in FOLDS else None,
                )
            return self._call(name, [self.scalar(a.value, space) for a in positional], e)
        entry = registry.by_gaf(e.function)
        body = getattr(entry, "body", None)
        if entry is not None and issubclass(entry, GraphOp) and body is not None:
            return self._graph_op(entry, e, [self.scalar(a.value, space) for a in positional], named)
        known = [*scalar.FUNCTIONS, *FOLDS, *DTYPES, *SYNONYMS, *self.known_ops]
        if entry is not None:
            raise self.source.error(
                f"'{e.function}' works on tensors, not on the numbers of a comprehension", e.name_span,
                hint=f"use it outside of [..] =, or a fold: {name}(k: ...)" if name in FOLDS else "use it outside of [..] =",
            )
        raise self.source.error(f"unknown function '{e.function}'", e.name_span, hint=near(e.function, known))

    def _cast_target(self, e: s.Call) -> dt.DType:
        for a in e.args:
            if a.name == "to" or (a.name is None and a is not e.args[0]):
                if isinstance(a.value, s.Name) and a.value.name in self.dtypes:
                    return self.dtypes[a.value.name]
        raise self.source.error("'cast' needs an element type", e.span, expected="cast(x, to=f32), or f32(x)")

    def _graph_op(
        self, entry: type[GraphOp], e: s.Call, args: Sequence[_Value], named: Mapping[str | None, s.Argument]
    ) -> _Value:
        """An elementwise op by its own formula: gelu, silu, ..."""
        known = calls.parameters(entry)
        operands = [p for p in known if p.kind == "operand"]
        if len(args) != len(operands):
            raise self.source.error(
                f"'{e.function}' takes {len(operands)} number{'s' if len(operands) > 1 else ''}", e.span, got=len(args)
            )
        attrs = {p.name: p.default for p in known if p.kind != "operand"}
        for name, argument in named.items():
            parameter = next((p for p in known if p.name == name and p.kind != "operand"), None)
            if parameter is None:
                raise self.source.error(
                    f"'{e.function}' has no argument '{name}'", argument.span, expected=", ".join(attrs) or "no arguments"
                )
            try:
                attrs[parameter.name] = calls.convert(self._constant(argument.value), parameter, e.function)
            except InvalidInputError as error:
                raise self.source.wrap(error, argument.span) from None
        types = [TensorType.of((), a.dtype or dt.F32) for a in args]
        try:
            (found,) = entry.infer(types, attrs)
        except InvalidInputError as error:
            raise self.source.wrap(error, e.span) from None
        body = scalar.rewrite_args(entry.body(attrs), [a.body for a in args])  # type: ignore[attr-defined]
        literal = all(a.dtype is None for a in args) and not found.dtype.is_bool
        return _Value(body, None if literal else found.dtype)

    def _constant(self, e: s.Expression) -> Any:
        match e:
            case s.Number(value) | s.String(value) | s.Bool(value):
                return value
            case s.Unary("-", s.Number(value)):
                return -value
            case s.Name(name) if isinstance(self.env.get(name), int | float | str | Expr):
                return self.env[name]
        raise self.source.error("this argument is no constant", e.span, expected="a number, true, false or a string")

    def _inline(self, user: OpEntry, e: s.Call, space: _Space) -> _Value:
        """A user op on numbers: its parameters have rank 0 and its block is one formula."""
        op = user.node
        if op.name in self.calls:
            raise self.source.error(f"the op '{op.name}' calls itself", e.name_span)
        tensors = [p for p in op.params if not is_scalar(p)]
        if any(p.type.dims for p in tensors) or len(op.results) != 1 or op.results[0].dims:
            raise self.source.error(
                f"'{op.name}' works on tensors, not on the numbers of a comprehension", e.name_span,
                expected="an op whose parameters and result have rank 0, e.g. (x: T[]) -> T[]",
            )
        given: dict[str, _Value] = {}
        constants: dict[str, Any] = {}
        positional = iter(op.params)
        for a in e.args:
            p = next((p for p in op.params if p.name == a.name), None) if a.name else next(positional, None)
            if p is None or p.name in given or p.name in constants:
                raise self.source.error(
                    f"'{op.name}' has no such argument", a.span, expected=", ".join(p.name for p in op.params)
                )
            if is_scalar(p):
                constants[p.name] = self._constant(a.value)
            else:
                given[p.name] = self.scalar(a.value, space)
        for p in op.params:
            if is_scalar(p) and p.name not in constants and p.default is not None:
                constants[p.name] = self._constant(p.default)
            elif p.name not in given and p.name not in constants:
                raise self.source.error(f"'{op.name}' needs the argument '{p.name}'", e.span)
        dtypes: dict[str, dt.DType] = {}
        for p in tensors:
            value = given[p.name]
            wanted = DTYPES.get(p.type.element) or dtypes.get(p.type.element)
            if wanted is None and value.dtype is not None:
                dtypes[p.type.element] = value.dtype
            elif wanted is not None and value.dtype not in (None, wanted):
                raise self.source.error(
                    f"argument '{p.name}' of '{op.name}' has the wrong element type", e.span, expected=wanted, got=value.dtype
                )
        inner = Comprehension(user.source, constants, user.find, user.names(), dtypes)
        inner.operands, inner.stages, inner.counter = self.operands, self.stages, self.counter
        inner.calls, inner.substitutions = (*self.calls, op.name), given
        body = _Space([], space.reads)
        for let in op.block.lets:
            if len(let.targets) != 1 or isinstance(let.value, s.Comprehension):
                raise user.source.error("an op on numbers has formulas only", let.span)
            inner.substitutions = {**inner.substitutions, let.targets[0].name: inner.scalar(let.value, body)}
        result = inner.scalar(op.block.results[0].value, body)
        declared = DTYPES.get(op.results[0].element) or dtypes.get(op.results[0].element)
        if declared is not None and result.dtype not in (None, declared):
            raise user.source.error(
                f"the result of '{op.name}' has another element type than its type", op.block.results[0].span,
                expected=declared, got=result.dtype,
            )
        return _Value(result.body, declared if result.dtype is not None else None)


def _rename_coords(body: Scalar, names: Mapping[str, Expr]) -> Scalar:
    match body:
        case Coord(dim):
            return Coord(str(names[dim]))
        case Call(function, args, dtype):
            return Call(function, tuple(_rename_coords(a, names) for a in args), dtype)
    return body


__all__ = ["BINARY", "FOLDS", "Comprehension"]
