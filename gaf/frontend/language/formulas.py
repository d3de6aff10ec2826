# SPDX-License-Identifier: Apache-2.0
"""Formulas of comprehensions: expressions as scalar bodies, typed, and indices as index expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid, scalar
from gaf.dialects.common.index import Expr, Func, const, expr, floordiv, maximum, minimum, mod, sym
from gaf.dialects.common.scalar import Arg, Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Read, Stage
from gaf.dialects.graph.meaning_eval import check_bounds, function_type
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError
from gaf.frontend import calls
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near
from gaf.frontend.language.signature import DTYPES, is_scalar

if TYPE_CHECKING:
    from gaf.frontend.language.lowering import OpEntry

FOLDS = (*monoid.ALL, "mean")
BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "floormod", "^": "pow", "==": "eq", "!=": "ne", "<": "lt",
    "<=": "le", ">": "gt", ">=": "ge", "and": "and", "or": "or",
}  # fmt: skip
SYNONYMS = {"where": "select", "maximum": "max", "minimum": "min"}


@dataclass
class AxisInfo:
    """An axis in scope; `symbol` names it in index expressions until its stage is finished."""

    name: str
    symbol: str
    extent: Expr


@dataclass
class Space:
    """The iteration space under construction: the axes in scope, outermost first, and what it reads."""

    axes: list[AxisInfo]
    reads: dict[Read, int] = field(default_factory=dict)

    def arg(self, read: Read) -> Arg:
        return Arg(self.reads.setdefault(read, len(self.reads)))


@dataclass(frozen=True)
class Value:
    """A scalar in a space: its formula, and its element type as the user sees it (None: a literal)."""

    body: Scalar
    dtype: dt.DType | None


class Formulas:
    """Compiles expressions over an iteration space. `env` maps names to tensors, sizes and numbers; `ops` finds user ops."""

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
        self.substitutions: dict[str, Value] = {}

    def fold(self, node: s.Fold, space: Space) -> Value:
        """A fold inside a formula; see `Comprehension`."""
        raise NotImplementedError

    def scalar(self, e: s.Expression, space: Space) -> Value:
        """The formula of an expression."""
        match e:
            case s.Number(value):
                return Value(Const(float(value)), None)
            case s.Bool(value):
                return Value(Call("cast", (Const(float(value)),), dt.BOOL), dt.BOOL)
            case s.Name(name):
                return self._name(name, e, space)
            case s.Unary("-", s.Number(value)):
                return Value(Const(-float(value)), None)
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
                raise self.source.error(
                    "only tensors with a name can be indexed", base.span, hint="name it with 'let' first"
                )
            case s.Call():
                return self._function(e, space)
            case s.Comprehension():
                raise self.source.error(
                    "a comprehension inside a comprehension", e.span, hint="name it with 'let' first"
                )
        raise self.source.error(
            "this is no number", e.span, expected="a formula of numbers, axes and tensor elements"
        )

    def _binary(self, e: s.Binary, space: Space) -> Value:
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
                raise self.source.error(
                    f"'{part.op}' has no meaning on numbers", part.op_span, hint=f"write {hint}"
                )
            left = self._call(function, [left, self.scalar(part.right, space)], part)
        return left

    def _call(
        self, function: str, args: Sequence[Value], e: s.Expression, target: dt.DType | None = None
    ) -> Value:
        if all(a.dtype is None for a in args) and function in ("add", "sub", "mul", "div", "neg"):
            folded = self._literal(function, [a.body for a in args])
            if folded is not None:
                return Value(folded, None)
        try:
            found = function_type(function, [a.dtype for a in args], target)
        except InvalidInputError as error:
            raise self.source.wrap(error, e.span) from None
        kind = next((a.dtype for a in args if a.dtype is not None), None)
        if kind is not None and not kind.is_float:
            for a in args:
                if isinstance(a.body, Const) and not a.body.value.is_integer() and function != "select":
                    raise self.source.error(
                        f"the fraction {a.body.value} meets {kind} values",
                        e.span,
                        hint="convert them: f32(..)",
                    )
        return Value(Call(function, tuple(a.body for a in args), target), found)

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

    def _name(self, name: str, e: s.Name, space: Space) -> Value:
        axis = next((a for a in reversed(space.axes) if a.name == name), None)
        if axis is not None:
            return Value(Coord(axis.symbol), dt.I64)
        if name in self.substitutions:
            return self.substitutions[name]
        value = self.env.get(name)
        match value:
            case bool():
                return Value(Call("cast", (Const(float(value)),), dt.BOOL), dt.BOOL)
            case int() | float():
                return Value(Const(float(value)), None)
            case Expr():
                known = value.as_int()
                return Value(Const(float(known)) if known is not None else Extent(value), None)
            case SSAValue():
                type_ = tensor_type(value)
                if type_.rank:
                    axes = ", ".join("ijklmnpq"[: type_.rank])
                    raise self.source.error(
                        f"'{name}' is a tensor of rank {type_.rank}, not a number",
                        e.span,
                        expected=f"{name}[{axes}]",
                        got=type_,
                    )
                return Value(space.arg(Read((), operand=self._operand(value))), type_.dtype)
        if name in ("inf", "nan"):
            return Value(Const(float(name)), None)
        known_names = [*(a.name for a in space.axes if not a.name.startswith("...")), *self.env]
        raise self.source.error(f"unknown name '{name}'", e.span, hint=near(name, known_names))

    def _operand(self, value: SSAValue) -> int:
        if value not in self.operands:
            self.operands.append(value)
        return self.operands.index(value)

    def _element(self, name: str, index: Sequence[s.Expression], e: s.Index, space: Space) -> Value:
        value = self.env.get(name)
        if not isinstance(value, SSAValue):
            if value is None:
                tensors = [n for n, v in self.env.items() if isinstance(v, SSAValue)]
                raise self.source.error(f"unknown tensor '{name}'", e.base.span, hint=near(name, tensors))
            raise self.source.error(f"'{name}' is no tensor", e.base.span, got=calls.describe(value))
        type_ = tensor_type(value)
        read = Read(self._places(name, type_, index, e, space), operand=self._operand(value))
        return Value(space.arg(read), type_.dtype)

    def _places(
        self, name: str, type_: TensorType, index: Sequence[s.Expression], e: s.Index, space: Space
    ) -> tuple[Expr, ...]:
        places: list[Expr] = []
        batch = bool(index) and isinstance(index[0], s.Ellipsis)
        plain = index[1:] if batch else index
        offset = type_.rank - len(plain)
        if offset < 0 or (offset and not batch):
            raise self.source.error(
                f"'{name}' has rank {type_.rank}",
                e.span,
                expected=f"{type_.rank} indices",
                got=f"{len(plain)} for {type_}",
            )
        if batch:
            leading = [a for a in space.axes if a.name.startswith("...")]
            if offset > len(leading):
                raise self.source.error(
                    f"'{name}' has more leading dims than the comprehension",
                    e.span,
                    expected=f"at most {len(leading)}",
                    got=f"{offset} in {type_}",
                    hint="begin the axes with '...'",
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
                limits = ", ".join(
                    f"0 <= {a.name} < {a.extent}" for a in space.axes if a.symbol in place.names()
                )
                raise self.source.error(
                    f"the index '{shown}' can't be shown to stay inside dim {axis_number} of '{name}'",
                    span,
                    expected=f"0 <= {shown} < {type_.shape[axis_number]}"
                    + (f" for {limits}" if limits else ""),
                    hint=error.hint,
                ) from None
        return tuple(places)

    def place(self, e: s.Expression, space: Space) -> Expr:
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
                known = [
                    *(a.name for a in space.axes),
                    *(n for n, v in self.env.items() if isinstance(v, Expr)),
                ]
                raise self.source.error(
                    f"'{name}' is no axis or size",
                    e.span,
                    expected=", ".join(n for n in known if "." not in n),
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
                            raise self.source.error(
                                "an index that multiplies axes", e.span, expected="axis * size"
                            )
                        return a * b
                divisor = b.as_int()
                if b.names() & set(ranges) or (divisor is not None and divisor <= 0):
                    raise self.source.error(
                        "an index is divided by sizes only", right.span, expected="1 or more", got=b
                    )
                return floordiv(a, b, ranges) if op == "//" else mod(a, b, ranges)
            case s.Binary("/", _, _):
                raise self.source.error(
                    "an index is a whole number", e.op_span, hint="use //, which rounds down"
                )
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
            "this is no index",
            e.span,
            expected="axes, sizes and integers with + - * // % min max, or table[i]",
        )

    def _function(self, e: s.Call, space: Space) -> Value:
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
            return Value(Call("cast", (value.body,), target), target)
        named = {a.name: a for a in e.args if a.name is not None}
        if name in scalar.FUNCTIONS and not named:
            arity = scalar.FUNCTIONS[name].arity
            if len(positional) != arity:
                raise self.source.error(
                    f"'{e.function}' takes {arity} number{'s' if arity > 1 else ''}",
                    e.span,
                    got=len(positional),
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
                f"'{e.function}' works on tensors, not on the numbers of a comprehension",
                e.name_span,
                hint=f"use it outside of [..] =, or a fold: {name}(k: ...)"
                if name in FOLDS
                else "use it outside of [..] =",
            )
        raise self.source.error(f"unknown function '{e.function}'", e.name_span, hint=near(e.function, known))

    def _cast_target(self, e: s.Call) -> dt.DType:
        for a in e.args:
            if a.name == "to" or (a.name is None and a is not e.args[0]):
                if isinstance(a.value, s.Name) and a.value.name in self.dtypes:
                    return self.dtypes[a.value.name]
        raise self.source.error("'cast' needs an element type", e.span, expected="cast(x, to=f32), or f32(x)")

    def _graph_op(
        self, entry: type[GraphOp], e: s.Call, args: Sequence[Value], named: Mapping[str | None, s.Argument]
    ) -> Value:
        """An elementwise op by its own formula: gelu, silu, ..."""
        known = calls.parameters(entry)
        operands = [p for p in known if p.kind == "operand"]
        if len(args) != len(operands):
            raise self.source.error(
                f"'{e.function}' takes {len(operands)} number{'s' if len(operands) > 1 else ''}",
                e.span,
                got=len(args),
            )
        attrs = {p.name: p.default for p in known if p.kind != "operand"}
        for name, argument in named.items():
            parameter = next((p for p in known if p.name == name and p.kind != "operand"), None)
            if parameter is None:
                raise self.source.error(
                    f"'{e.function}' has no argument '{name}'",
                    argument.span,
                    expected=", ".join(attrs) or "no arguments",
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
        return Value(body, None if literal else found.dtype)

    def _constant(self, e: s.Expression) -> Any:
        match e:
            case s.Number(value) | s.String(value) | s.Bool(value):
                return value
            case s.Unary("-", s.Number(value)):
                return -value
            case s.Name(name) if isinstance(self.env.get(name), int | float | str | Expr):
                return self.env[name]
        raise self.source.error(
            "this argument is no constant", e.span, expected="a number, true, false or a string"
        )

    def _inline(self, user: OpEntry, e: s.Call, space: Space) -> Value:
        """A user op on numbers: its parameters have rank 0 and its block is one formula."""
        op = user.node
        if op.name in self.calls:
            raise self.source.error(f"the op '{op.name}' calls itself", e.name_span)
        tensors = [p for p in op.params if not is_scalar(p)]
        if any(p.type.dims for p in tensors) or len(op.results) != 1 or op.results[0].dims:
            raise self.source.error(
                f"'{op.name}' works on tensors, not on the numbers of a comprehension",
                e.name_span,
                expected="an op whose parameters and result have rank 0, e.g. (x: T[]) -> T[]",
            )
        given: dict[str, Value] = {}
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
                    f"argument '{p.name}' of '{op.name}' has the wrong element type",
                    e.span,
                    expected=wanted,
                    got=value.dtype,
                )
        inner = type(self)(user.source, constants, user.find, user.names(), dtypes)
        inner.operands, inner.stages, inner.counter = self.operands, self.stages, self.counter
        inner.calls, inner.substitutions = (*self.calls, op.name), given
        body = Space([], space.reads)
        for let in op.block.lets:
            if len(let.targets) != 1 or isinstance(let.value, s.Comprehension):
                raise user.source.error("an op on numbers has formulas only", let.span)
            inner.substitutions = {**inner.substitutions, let.targets[0].name: inner.scalar(let.value, body)}
        result = inner.scalar(op.block.results[0].value, body)
        declared = DTYPES.get(op.results[0].element) or dtypes.get(op.results[0].element)
        if declared is not None and result.dtype not in (None, declared):
            raise user.source.error(
                f"the result of '{op.name}' has another element type than its type",
                op.block.results[0].span,
                expected=declared,
                got=result.dtype,
            )
        return Value(result.body, declared if result.dtype is not None else None)
