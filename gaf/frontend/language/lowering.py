# SPDX-License-Identifier: Apache-2.0
"""Blocks of `.gaf` to graph ops: types are inferred by the ops themselves, calls of user ops are inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import DIMS, Expr, expr, maximum, minimum
from gaf.dialects.common.scalar import Arg, Extent
from gaf.dialects.common.scalar import call as scalar_call
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.meaning import elementwise
from gaf.dialects.graph.meaning_eval import function_type
from gaf.dialects.graph.ops.custom import GenericOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.frontend import calls
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.language import syntax as s
from gaf.frontend.language.comprehension import Comprehension
from gaf.frontend.language.errors import LanguageError, LanguageUnsupportedError, Source, near
from gaf.frontend.language.format import format_expression
from gaf.frontend.language.formulas import BINARY, FOLDS
from gaf.frontend.language.signature import (
    DTYPES,
    SCALARS,
    Bindings,
    bind,
    dim_binary,
    holds,
    is_scalar,
    resolve,
)

OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "^": "pow", "@": "matmul", "==": "equal",
    "!=": "not_equal", "<": "less", "<=": "less_or_equal", ">": "greater", ">=": "greater_or_equal", "and": "and",
    "or": "or",
}  # fmt: skip
"""Operators on tensors, and the functions that they stand for."""

MAX_CALLS = 64
"""Calls of user ops inside each other."""

Condition = Callable[[str], None]


@dataclass(frozen=True)
class OpEntry:
    """A user's op with the file that it stands in, and what its names mean there."""

    node: s.Op
    source: Source
    find: Callable[[str], "OpEntry | None"]
    names: Callable[[], Sequence[str]]


class HostCall:
    """A custom op of Python (traced or opaque) that a `.gaf` file may call by name."""

    def __init__(self, name: str, emit: Callable[..., list[SSAValue]], mutates: Sequence[int] = ()) -> None:
        self.name, self.emit, self.mutates = name, emit, tuple(mutates)


class Scope:
    """What the names of a file mean besides its own parameters and lets."""

    def __init__(
        self,
        source: Source,
        find: Callable[[str], OpEntry | None],
        names: Callable[[], Sequence[str]],
        weight: Callable[[str], np.ndarray | None] = lambda name: None,
        weight_names: Callable[[], Sequence[str]] = lambda: (),
        host_call: Callable[[str], HostCall | None] = lambda name: None,
    ) -> None:
        self.source, self.find, self.names = source, find, names
        self.weight, self.weight_names, self.host_call = weight, weight_names, host_call


class Lowering:
    """Evaluates blocks into the ops of a builder."""

    def __init__(self, builder: GraphBuilder, condition: Condition = lambda text: None) -> None:
        self.builder = builder
        self.condition = condition  # is told the conditions on sizes that only a run can decide
        self.weights: dict[str, SSAValue] = {}
        self.written = 0  # ops as the user wrote them: those outside of inlined ops

    def block(
        self,
        block: s.Block,
        env: dict[str, Any],
        scope: Scope,
        path: tuple[str, ...],
        expected: Sequence[TensorType] | None,
        bindings: Bindings | None = None,
    ) -> list[SSAValue]:
        """The results of a block; with `expected`, they have to have these types."""
        frame = _Frame(self, dict(env), scope, path, bindings or Bindings())
        for let in block.lets:
            frame.let(let)
        source = scope.source
        if expected is not None and len(expected) != len(block.results):
            raise source.error(
                "wrong number of results",
                block.results[-1].span,
                expected=len(expected),
                got=len(block.results),
            )
        results: list[SSAValue] = []
        for i, r in enumerate(block.results):
            wanted = expected[i] if expected is not None else None
            value = frame.tensor(r.value, wanted)
            if wanted is not None and tensor_type(value) != wanted:
                raise source.error(
                    "the result has another type than declared",
                    r.span,
                    expected=wanted,
                    got=tensor_type(value),
                )
            results.append(value)
        return results

    def call_op(
        self,
        entry: OpEntry,
        args: Sequence[Any],
        places: Sequence[s.Span],
        called_in: Source,
        place: s.Span,
        path: tuple[str, ...],
        scope_of: Callable[[OpEntry], Scope],
    ) -> list[SSAValue]:
        """Inline a user op; `args` are tensors and, for scalar parameters, Python values."""
        op = entry.node
        if op.name in path or len(path) > MAX_CALLS:
            raise called_in.error(
                f"the op '{op.name}' calls itself", place, hint="ops are inlined: they can't recurse"
            )
        tensors = [(p, a, at) for p, a, at in zip(op.params, args, places) if not is_scalar(p)]
        bindings = bind(
            [p for p, _, _ in tensors], [tensor_type(a) for _, a, _ in tensors], [at for _, _, at in tensors],
            entry.source, called_in, op.name,
        )  # fmt: skip
        env: dict[str, Any] = dict(bindings.dims)
        env.update((p.name, a) for p, a in zip(op.params, args))
        self.check_where(op.where, env, entry.source, called_in, place, f"'{op.name}' needs")
        expected = [resolve(r, bindings, entry.source) for r in op.results]
        try:
            return self.block(op.block, env, scope_of(entry), (*path, op.name), expected, bindings)
        except (LanguageError, LanguageUnsupportedError) as error:
            if place != op.name_span:  # else the op is only being tried
                error.calls = (*error.calls, f"in '{op.name}', called at {called_in.location(place)}")
            raise

    def check_where(
        self, where: Sequence[s.Expression], dims: Mapping[str, Any], declared_in: Source, called_in: Source,
        place: s.Span, what: str,
    ) -> None:  # fmt: skip
        """Conditions on sizes: refused if they can't hold, handed on if only a run can tell."""
        for condition in where:
            answer, text = holds(condition, dims, declared_in)
            if answer is False:
                raise called_in.error(f"{what} {format_expression(condition)}", place, got=text)
            if answer is None:
                self.condition(text)


class _Frame:
    """One block being evaluated: its names, and where it stands in the chain of inlined ops."""

    def __init__(
        self, lowering: Lowering, env: dict[str, Any], scope: Scope, path: tuple[str, ...], bindings: Bindings
    ) -> None:
        self.lowering, self.env, self.scope, self.path, self.bindings = lowering, env, scope, path, bindings
        self.builder, self.source = lowering.builder, scope.source

    def location(self, span: s.Span, what: str) -> str:
        """`block.gaf:3 gate/mul`: file, line, and the op inside the inlined ops around it."""
        return f"{Path(self.source.name).name}:{span.line} {'/'.join((*self.path, what))}"

    # -- statements -------------------------------------------------------------------------------

    def let(self, let: s.Let) -> None:
        expected = None
        if let.type is not None:
            bindings = Bindings(
                {n: v for n, v in self.env.items() if isinstance(v, Expr)} | self.bindings.dims,
                self.bindings.dtypes, self.bindings.rest,
            )  # fmt: skip
            expected = resolve(let.type, bindings, self.source)
        if len(let.targets) == 1:
            name = let.targets[0].name
            value: Any
            if isinstance(let.value, s.Comprehension):
                value = self.comprehension(let.value, name, expected)
            else:
                value = self.value(let.value)
                if isinstance(value, list) and value and all(isinstance(v, SSAValue) for v in value):
                    raise self.source.error(
                        f"{len(value)} results for one name",
                        let.span,
                        expected=", ".join(f"{name}{i}" for i in range(len(value))),
                    )
                if expected is not None:
                    value = self.as_tensor(value, let.value.span, expected.dtype)
                    if tensor_type(value) != expected:
                        raise self.source.error(
                            f"'{name}' has another type than declared",
                            let.value.span,
                            expected=expected,
                            got=tensor_type(value),
                        )
            self.define(name, value)
            return
        results = self.results(let.value)
        if len(results) != len(let.targets):
            raise self.source.error(
                f"{len(let.targets)} names for {len(results)} result{'s' if len(results) != 1 else ''}",
                let.span,
            )
        for target, result in zip(let.targets, results):
            self.define(target.name, result)

    def define(self, name: str, value: Any) -> None:
        self.env[name] = value
        if isinstance(value, SSAValue):
            self.builder.name(value, name)

    # -- values -----------------------------------------------------------------------------------

    def tensor(self, e: s.Expression, expected: TensorType | None = None) -> SSAValue:
        """The value of an expression as a tensor; a number takes the element type that is expected."""
        if isinstance(e, s.Comprehension):
            return self.comprehension(e, self.path[-1] if self.path else "comprehension", expected)
        value = self.value(e)
        if isinstance(value, list):
            raise self.source.error(
                f"{len(value)} values where one is needed", e.span, hint="name them: let a, b = ...;"
            )
        return self.as_tensor(value, e.span, expected.dtype if expected is not None else None)

    def as_tensor(self, value: Any, span: s.Span, dtype: dt.DType | None) -> SSAValue:
        try:
            return calls.as_tensor(self.builder, value, dtype, "this place", self.location(span, "size"))
        except GafError as error:
            raise self.source.wrap(error, span) from None

    def results(self, e: s.Expression) -> list[Any]:
        value = self.value(e)
        return value if isinstance(value, list) else [value]

    def comprehension(self, e: s.Comprehension, label: str, expected: TensorType | None) -> SSAValue:
        self.lowering.written += not self.path
        compiler = Comprehension(
            self.source, self.env, self.scope.find, self.scope.names(), self.bindings.dtypes
        )
        op = compiler.compile(e, label, expected, self.location(e.span, label if not self.path else "[..]"))
        return self.builder.insert(op)[0]

    def value(self, e: s.Expression) -> Any:
        """SSAValue, Expr, int, float, bool, str, DType, or a list of these."""
        match e:
            case s.Number(value) | s.String(value) | s.Bool(value):
                return value
            case s.Name(name):
                return self.name(name, e)
            case s.ListExpr(items):
                return [self.value(i) for i in items]
            case s.Unary("-", operand):
                value = self.value(operand)
                if isinstance(value, int | float | Expr) and not isinstance(value, bool):
                    return -value
                return self.function("neg", [value], {}, e.span, e.span)[0]
            case s.Unary(_, operand):
                value = self.value(operand)
                if isinstance(value, bool):
                    return not value
                return self.function("not", [value], {}, e.span, e.span)[0]
            case s.Binary():
                return self.binary(e)
            case s.Call():
                return self.call(e)
            case s.Fold(kind, axes, _):
                names = ", ".join(a.name for a in axes)
                raise self.source.error(
                    f"'{kind}({names}: ...)' folds axes of a comprehension, and there is none around it",
                    e.span,
                    hint=f"[] = {kind}({names}: ...) is a number; {kind}(x, axes=[..]) folds a whole tensor",
                )
            case s.Index():
                raise self.source.error(
                    "tensors are indexed inside of comprehensions",
                    e.span,
                    expected="[i, j] = ...",
                    hint="slice(x, starts=.., sizes=..) and gather(x, i) work on whole tensors",
                )
            case s.Comprehension():
                return self.comprehension(e, "comprehension", None)
        raise self.source.error("this is no value", e.span)

    def name(self, name: str, e: s.Name) -> Any:
        if name in self.env:
            return self.env[name]
        if name in DTYPES:
            return DTYPES[name]
        if name in ("inf", "nan"):
            return float(name)
        bound = self.bindings.dtypes.get(name)
        if bound is not None:
            return bound
        known = self.lowering.weights.get(name)
        if known is None:
            array = self.scope.weight(name)
            if array is not None:
                known = self.lowering.weights[name] = self.builder.constant(array, name)
        if known is not None:
            return known
        candidates = [*self.env, *self.scope.weight_names()]
        hint = near(name, candidates)
        if hint is None and (self.scope.find(name) or registry.by_gaf(name)):
            hint = f"'{name}' is a function: call it, {name}(...)"
        raise self.source.error(f"unknown name '{name}'", e.span, hint=hint)

    def binary(self, e: s.Binary) -> Any:
        """A chain of operators, from the left; in a loop, since sums may be long."""
        chain: list[s.Binary] = []
        node: s.Expression = e
        while isinstance(node, s.Binary):
            chain.append(node)
            node = node.left
        left = self.value(node)
        for part in reversed(chain):
            left = self.operator(part, left, self.value(part.right))
        return left

    def operator(self, e: s.Binary, a: Any, b: Any) -> Any:
        for side, value in ((e.left, a), (e.right, b)):
            if isinstance(value, str | list | dt.DType):
                raise self.source.error(
                    f"'{e.op}' works on tensors and numbers", side.span, got=calls.describe(value)
                )
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return self.arithmetic(e, a, b)
        if e.op == "//":
            raise self.source.error("'//' works on sizes", e.op_span, hint="floor(a / b) rounds tensors down")
        size = next((v for v in (a, b) if isinstance(v, Expr) and v.as_int() is None), None)
        if size is not None and e.op in BINARY:
            return self.with_size(e, a, b)
        if e.op == "^" and b == 2 and not isinstance(b, SSAValue):
            return self.function("mul", [a, a], {}, e.op_span, e.span)[0]
        return self.function(OPERATORS[e.op], [a, b], {}, e.op_span, e.span)[0]

    def with_size(self, e: s.Binary, a: Any, b: Any) -> SSAValue:
        """A tensor and a size that only a run knows: one elementwise op, in which the size is a number."""
        self.lowering.written += not self.path
        tensor = a if isinstance(a, SSAValue) else b
        type_ = tensor_type(tensor)
        function = BINARY[e.op]
        sides = [Arg(0) if isinstance(v, SSAValue) else Extent(v) for v in (a, b)]
        try:
            found = function_type(function, [type_.dtype])
        except GafError as error:
            raise self.source.wrap(error, e.span) from None
        meaning = elementwise(type_.shape, [type_.shape], scalar_call(function, *sides), found or type_.dtype)
        op = GenericOp.of(OPERATORS[e.op], meaning, [tensor], self.location(e.op_span, OPERATORS[e.op]))
        return self.builder.insert(op)[0]

    def arithmetic(self, e: s.Binary, a: Any, b: Any) -> Any:
        """Numbers and sizes are computed here and now."""
        if isinstance(a, Expr) or isinstance(b, Expr):
            if e.op in ("+", "-", "*", "//", "%") and all(isinstance(v, int | Expr) for v in (a, b)):
                return dim_binary(e.op, expr(a), expr(b), e, self.source)
            numbers = [v.as_int() if isinstance(v, Expr) else v for v in (a, b)]
            if None in numbers:  # a size that only a run knows: as a number it is a tensor
                kind = dt.F32
                left, right = (calls.as_tensor(self.builder, v, kind, "size") for v in (a, b))
                if e.op == "//" or e.op == "@":
                    raise self.source.error(f"'{e.op}' has no meaning here", e.op_span)
                return self.function(OPERATORS[e.op], [left, right], {}, e.op_span, e.span)[0]
            a, b = numbers
        if e.op in ("/", "//", "%") and b == 0:
            raise self.source.error("division by 0", e.right.span)
        match e.op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/":
                return a / b
            case "//":
                return a // b
            case "%":
                return a % b
            case "^":
                return self._power(e, a, b)
            case "and" | "or" if isinstance(a, bool) and isinstance(b, bool):
                return (a and b) if e.op == "and" else (a or b)
            case "==":
                return a == b
            case "!=":
                return a != b
            case "<" | "<=" | ">" | ">=":
                return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[e.op]
        raise self.source.error(
            f"'{e.op}' has no meaning on {calls.describe(a)} and {calls.describe(b)}",
            e.op_span,
            expected="tensors",
        )

    def _power(self, e: s.Binary, a: float, b: float) -> float:
        try:
            result = float(a) ** float(b)
        except (OverflowError, ZeroDivisionError):
            raise self.source.error("this power is no number", e.span) from None
        if isinstance(result, complex):
            raise self.source.error("this power is no real number", e.span)
        whole = isinstance(a, int) and isinstance(b, int) and b >= 0 and abs(result) < 2**53
        return int(result) if whole else result

    # -- calls ------------------------------------------------------------------------------------

    def function(
        self, name: str, args: list[Any], named: dict[str, Any], at: s.Span, span: s.Span
    ) -> list[SSAValue]:
        """A registry function; its errors point at the call."""
        self.lowering.written += not self.path
        try:
            return calls.call(self.builder, name, args, named, self.location(at, name))
        except GafError as error:
            error.where = None
            raise self.source.wrap(error, span) from None

    def call(self, e: s.Call) -> Any:
        user = self.scope.find(e.function)
        if user is not None:
            return _single(self.call_user(user, e))
        host = self.scope.host_call(e.function)
        if host is not None:
            return _single(self.call_host(host, e))
        if e.function in DTYPES:
            if len(e.args) != 1 or e.args[0].name is not None:
                raise self.source.error(
                    f"'{e.function}' converts one value", e.span, expected=f"{e.function}(x)"
                )
            value = self.value(e.args[0].value)
            if isinstance(value, SSAValue):
                return self.function("cast", [value], {"to": DTYPES[e.function]}, e.span, e.span)[0]
            return self.as_tensor(value, e.args[0].span, DTYPES[e.function])
        if e.function in ("min", "max"):
            values = [self.value(a.value) for a in e.args if a.name is None]
            if len(values) == 2 and all(isinstance(v, int | float | Expr) for v in values):
                return self.extremum(e, values)
        if e.function == "weight":
            return self.weight(e)
        if registry.by_gaf(e.function) is None:
            known = [
                *self.scope.names(),
                *(n for op in registry.all_ops() for n in op.GAF),
                *DTYPES,
                "weight",
            ]
            known += [n for x in registry.expansions() for n in x.GAF]
            hint = near(e.function, known)
            if hint is None and e.function in FOLDS:
                hint = f"{e.function}(k: ...) folds axes inside of a comprehension"
            raise self.source.error(f"unknown function '{e.function}'", e.name_span, hint=hint)
        args = [self.value(a.value) for a in e.args if a.name is None]
        named: dict[str, Any] = {}
        for a in e.args:
            if a.name is not None:
                if a.name in named:
                    raise self.source.error(f"argument '{a.name}' is given twice", a.span)
                named[a.name] = self.value(a.value)
        return _single(self.function(e.function, args, named, e.name_span, e.span))

    def extremum(self, e: s.Call, values: Sequence[Any]) -> Any:
        if any(isinstance(v, Expr) for v in values):
            if any(isinstance(v, float) for v in values):
                raise self.source.error("a size and a fraction", e.span, expected="sizes and integers")
            return (minimum if e.function == "min" else maximum)(*values, DIMS)
        return min(values) if e.function == "min" else max(values)

    def weight(self, e: s.Call) -> SSAValue:
        """`weight("layer.0.bias")`: an array of the weights file whose name is no identifier."""
        if len(e.args) != 1 or not isinstance(e.args[0].value, s.String):
            raise self.source.error(
                "'weight' takes the name of an array", e.span, expected='weight("layer.0.bias")'
            )
        name = e.args[0].value.value
        if name not in self.lowering.weights:
            array = self.scope.weight(name)
            if array is None:
                known = self.scope.weight_names()
                raise self.source.error(
                    f"there is no weight '{name}'",
                    e.args[0].span,
                    hint=near(name, known) if known else 'add: weights "file.npz"',
                )
            self.lowering.weights[name] = self.builder.constant(array, name)
        return self.lowering.weights[name]

    def arguments(self, e: s.Call, params: Sequence[s.Param], what: str) -> tuple[list[Any], list[s.Span]]:
        """Values of the parameters of a user op, in order, and where they stand."""
        given: dict[str, tuple[Any, s.Span]] = {}
        positional = iter(params)
        for a in e.args:
            if a.name is None:
                p = next(positional, None)
                if p is None:
                    raise self.source.error(
                        f"'{what}' got too many arguments",
                        a.span,
                        expected=", ".join(q.name for q in params) or "none",
                    )
            else:
                p = next((q for q in params if q.name == a.name), None)
                if p is None:
                    raise self.source.error(
                        f"'{what}' has no argument '{a.name}'",
                        a.span,
                        expected=", ".join(q.name for q in params),
                        hint=near(a.name, [q.name for q in params]),
                    )
            if p.name in given:
                raise self.source.error(f"argument '{p.name}' of '{what}' is given twice", a.span)
            given[p.name] = (self.value(a.value), a.value.span)
        # a number among tensors takes the type that its parameter declares, or that of the first tensor
        first = next((tensor_type(v).dtype for v, _ in given.values() if isinstance(v, SSAValue)), None)
        values: list[Any] = []
        places: list[s.Span] = []
        for p in params:
            if p.name not in given:
                if p.default is None:
                    raise self.source.error(
                        f"'{what}' needs the argument '{p.name}'",
                        e.span,
                        expected=", ".join(q.name for q in params),
                    )
                given[p.name] = (literal(p.default, self.source), e.span)
            value, place = given[p.name]
            if is_scalar(p):
                value = scalar_value(value, p, what, self.source, place)
            else:
                value = self.as_tensor(value, place, DTYPES.get(p.type.element) or first)
            values.append(value)
            places.append(place)
        return values, places

    def call_user(self, user: OpEntry, e: s.Call) -> list[SSAValue]:
        args, places = self.arguments(e, user.node.params, user.node.name)
        self.lowering.written += not self.path

        def scope_of(entry: OpEntry) -> Scope:
            inner = Scope(entry.source, entry.find, entry.names, host_call=self.scope.host_call)
            return inner

        return self.lowering.call_op(user, args, places, self.source, e.span, self.path, scope_of)

    def call_host(self, host: HostCall, e: s.Call) -> list[SSAValue]:
        self.lowering.written += not self.path
        args = [self.value(a.value) for a in e.args if a.name is None]
        named = {a.name: self.value(a.value) for a in e.args if a.name is not None}
        try:
            results = host.emit(self.builder, args, named, self.location(e.name_span, e.function))
        except GafError as error:
            error.where = None
            raise self.source.wrap(error, e.span) from None
        for number, new in zip(host.mutates, results[len(results) - len(host.mutates) :]):
            target = e.args[number].value if number < len(e.args) else None
            if not isinstance(target, s.Name) or target.name not in self.env:
                raise self.source.error(
                    f"'{e.function}' writes into this argument",
                    e.args[number].span if number < len(e.args) else e.span,
                    expected="the name of a tensor, which then stands for the new value",
                )
            self.env[target.name] = new
        return results[: len(results) - len(host.mutates)]


def _single(results: list[SSAValue]) -> Any:
    return results[0] if len(results) == 1 else results


def literal(e: s.Expression, source: Source) -> Any:
    """The value of a literal. Raises LanguageError for anything else."""
    match e:
        case s.Number(value) | s.String(value) | s.Bool(value):
            return value
        case s.Unary("-", s.Number(value)):
            return -value
        case s.ListExpr(items):
            return [literal(i, source) for i in items]
    raise source.error("this is no literal", e.span, expected='a number, true, false or a string "..."')


def scalar_value(value: Any, param: s.Param, what: str, source: Source, span: s.Span) -> Any:
    """A value for a parameter of type int, float, bool or string. Raises LanguageError."""
    wanted = SCALARS[param.type.element]
    if isinstance(value, Expr) and value.as_int() is not None:
        value = value.as_int()
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise source.error(
            f"argument '{param.name}' of '{what}' has the wrong kind",
            span,
            expected=param.type.element,
            got=calls.describe(value),
        )
    return value
