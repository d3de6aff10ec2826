# SPDX-License-Identifier: Apache-2.0
"""Declared types against actual ones: binds dim names, element type variables and `...`, and checks the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import (
    DIMS,
    Expr,
    exact_div,
    expr,
    floordiv,
    is_nonneg,
    is_positive,
    maximum,
    minimum,
    mod,
)
from gaf.dialects.graph.types import TensorType
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near
from gaf.frontend.language.format import format_expression, format_type

SCALARS = {"int": int, "float": float, "bool": bool, "string": str}
"""Types of parameters that are no tensors; their values are known when the graph is built."""

DTYPES = {d.name: d for d in dt.ALL} | {"bool": dt.BOOL}
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


@dataclass
class Bindings:
    """What the names of a signature stand for in one use of it."""

    dims: dict[str, Expr] = field(default_factory=dict)
    dtypes: dict[str, dt.DType] = field(default_factory=dict)
    rest: tuple[Expr, ...] | None = None


def is_scalar(param: s.Param) -> bool:
    """True for a parameter that takes a number, bool or string instead of a tensor: `alpha: float`."""
    return param.type.element in SCALARS and not param.type.dims


def is_type_variable(name: str) -> bool:
    """True for names such as `T` that stand for an element type to be inferred."""
    return name[:1].isupper() and name not in DTYPES


def dim_names(params: Sequence[s.Param]) -> list[str]:
    """The dim names that parameters introduce, in order."""
    found: dict[str, None] = {}
    for p in params:
        for d in p.type.dims:
            for name in _names(d):
                found.setdefault(name)
    return list(found)


def _names(e: s.Expression) -> list[str]:
    match e:
        case s.Name(name):
            return [name]
        case s.Binary(_, left, right):
            return _names(left) + _names(right)
        case s.Unary(_, operand):
            return _names(operand)
        case s.Call(_, args):
            return [n for a in args for n in _names(a.value)]
    return []


def element_type(type_: s.TypeExpr, bindings: Bindings, source: Source) -> dt.DType:
    """The element type that a type names. Raises LanguageError for an unknown one."""
    found = DTYPES.get(type_.element) or bindings.dtypes.get(type_.element)
    if found is None:
        if is_type_variable(type_.element):
            raise source.error(
                f"the element type '{type_.element}' isn't bound by a parameter",
                type_.span,
                expected="an element type, or a name that a parameter uses",
            )
        raise unknown_element(type_, source)
    return found


def unknown_element(type_: s.TypeExpr, source: Source) -> Exception:
    hint = near(type_.element, DTYPES)
    return source.error(
        f"unknown element type '{type_.element}'",
        type_.span,
        expected=", ".join(DTYPES),
        hint=hint or "a name that starts with a capital letter stands for any element type",
    )


def dim_value(e: s.Expression, dims: Mapping[str, Any], source: Source) -> Expr:
    """A size as an expression over symbols. Raises LanguageError for unknown names and other operators."""
    match e:
        case s.Number(value) if isinstance(value, int):
            return expr(value)
        case s.Name(name):
            found = dims.get(name)
            if isinstance(found, int) and not isinstance(found, bool):
                return expr(found)
            if not isinstance(found, Expr):
                known = [n for n, v in dims.items() if isinstance(v, Expr | int)]
                raise source.error(
                    f"unknown size '{name}'",
                    e.span,
                    expected=", ".join(known) or "a number",
                    hint=near(name, known),
                )
            return found
        case s.Unary("-", operand):
            return -dim_value(operand, dims, source)
        case s.Binary(op, left, right) if op in ("+", "-", "*", "//", "%", "/"):
            return dim_binary(op, dim_value(left, dims, source), dim_value(right, dims, source), e, source)
        case s.Call("min" | "max" as name, (s.Argument(None, a), s.Argument(None, b))):
            x, y = dim_value(a, dims, source), dim_value(b, dims, source)
            return minimum(x, y, DIMS) if name == "min" else maximum(x, y, DIMS)
    raise source.error("this is no size", e.span, expected="an integer, a dim name, or + - * // % of these")


def dim_binary(op: str, a: Expr, b: Expr, e: s.Expression, source: Source) -> Expr:
    """`+ - * // %` on sizes; `/` where it is exact."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    if not is_positive(b, DIMS):
        raise source.error(f"division of a size by {b}", e.span, expected="a divisor of 1 or more")
    if op == "/":
        quotient = exact_div(a, b)
        if quotient is None:
            raise source.error(
                f"{a} / {b} isn't a whole number for all sizes",
                e.span,
                hint="use // to round down",
            )
        return quotient
    return floordiv(a, b, DIMS) if op == "//" else mod(a, b, DIMS)


def bind(
    params: Sequence[s.Param],
    actual: Sequence[TensorType],
    places: Sequence[s.Span],
    declared_in: Source,
    called_in: Source,
    what: str,
) -> Bindings:
    """Names of the tensor parameters bound to the dims and element types of the arguments.

    Raises LanguageError at the argument that doesn't fit.
    """
    found = Bindings()
    pending: list[tuple[s.Param, int, s.Expression, Expr, s.Span, TensorType]] = []
    for p, type_, place in zip(params, actual, places):
        _bind_dtype(p, type_, found, declared_in, called_in, place, what)
        dims = list(p.type.dims)
        batch = bool(dims) and isinstance(dims[0], s.Ellipsis)
        dims = dims[1:] if batch else dims
        if len(dims) > type_.rank or (not batch and len(dims) != type_.rank):
            leading = type_.rank > len(dims) and not batch
            raise called_in.error(
                f"argument '{p.name}' of '{what}' has the wrong rank",
                place,
                expected=format_type(p.type),
                got=type_,
                hint=f"declare leading dims: {p.name}: {p.type.element}[..., "
                + ", ".join(map(format_expression, dims))
                + "]"
                if leading and dims
                else None,
            )
        offset = type_.rank - len(dims)
        if batch:
            rest = type_.shape[:offset]
            if found.rest is not None and found.rest != rest:
                raise called_in.error(
                    f"argument '{p.name}' of '{what}' has other leading dims than those before",
                    place,
                    expected=_shape(found.rest),
                    got=_shape(rest),
                )
            found.rest = rest
        for axis, (declared, dim) in enumerate(zip(dims, type_.shape[offset:]), offset):
            if isinstance(declared, s.Name) and declared.name not in found.dims:
                found.dims[declared.name] = dim
            else:
                pending.append((p, axis, declared, dim, place, type_))
    for p, _, declared, dim, place, type_ in pending:
        _solve(declared, dim, found)
    for p, axis, declared, dim, place, type_ in pending:
        if any(n not in found.dims for n in _names(declared)):
            raise called_in.error(
                f"argument '{p.name}' of '{what}' has the wrong size on axis {axis}",
                place,
                expected=format_expression(declared),
                got=f"{dim} in {type_}",
            )
        wanted = dim_value(declared, found.dims, declared_in)
        if wanted != dim:
            shown = format_expression(declared)
            raise called_in.error(
                f"argument '{p.name}' of '{what}' has the wrong size on axis {axis}",
                place,
                expected=f"{shown} = {wanted}" if shown != str(wanted) else shown,
                got=f"{dim} in {type_}",
                hint=None
                if wanted.as_int() is not None and dim.as_int() is not None
                else "sizes have to be equal for all values of their symbols",
            )
    return found


def _bind_dtype(
    p: s.Param,
    type_: TensorType,
    found: Bindings,
    declared_in: Source,
    called_in: Source,
    place: s.Span,
    what: str,
) -> None:
    name = p.type.element
    if is_type_variable(name):
        known = found.dtypes.setdefault(name, type_.dtype)
        if known != type_.dtype:
            raise called_in.error(
                f"argument '{p.name}' of '{what}' has another element type than those before",
                place,
                expected=f"{name} = {known}",
                got=type_.dtype,
                hint=f"convert it: cast(.., to={known})",
            )
        return
    wanted = element_type(p.type, found, declared_in)
    if wanted != type_.dtype:
        raise called_in.error(
            f"argument '{p.name}' of '{what}' has the wrong element type",
            place,
            expected=wanted,
            got=type_.dtype,
            hint=f"convert it: cast(.., to={wanted})",
        )


def _solve(declared: s.Expression, dim: Expr, found: Bindings) -> None:
    """Bind the one unknown name of `c * name + k` if the size allows it."""
    unknown = [n for n in dict.fromkeys(_names(declared)) if n not in found.dims]
    if len(unknown) != 1:
        return
    (name,) = unknown
    probe = Source("", "")
    try:
        at = [dim_value(declared, {**found.dims, name: expr(v)}, probe) for v in (0, 1, 2)]
    except Exception:  # not linear, or it names something unknown: reported later
        return
    slope = at[1] - at[0]
    if at[2] - at[1] != slope or slope == 0:
        return
    value = exact_div(dim - at[0], slope)
    number = (dim - at[0]).as_int(), slope.as_int()
    if value is None and number[0] is not None and number[1]:
        if number[0] % number[1]:
            return
        value = expr(number[0] // number[1])
    if value is not None:
        found.dims[name] = value


def resolve(type_: s.TypeExpr, bindings: Bindings, source: Source) -> TensorType:
    """A declared type with its names replaced. Raises LanguageError for names that nothing binds."""
    dims: list[Expr] = []
    for i, d in enumerate(type_.dims):
        if isinstance(d, s.Ellipsis):
            if i or bindings.rest is None:
                raise source.error(
                    "'...' stands for leading dims that a parameter has",
                    d.span,
                    expected="... as the first dim, here and in a parameter",
                )
            dims.extend(bindings.rest)
        else:
            dims.append(dim_value(d, bindings.dims, source))
            if is_positive(-dims[-1], DIMS):
                raise source.error(f"a size of {dims[-1]}", d.span, expected="0 or more")
    return TensorType.of(dims, element_type(type_, bindings, source))


def holds(condition: s.Expression, dims: Mapping[str, Any], source: Source) -> tuple[bool | None, str]:
    """(whether a condition on sizes holds for all values of their symbols, or None; its text over symbols).

    Raises LanguageError if it is no comparison of sizes.
    """
    if not isinstance(condition, s.Binary) or condition.op not in COMPARISONS:
        raise source.error(
            "this is no condition on sizes", condition.span, expected="e.g. n % 16 == 0 or n <= 4096"
        )
    a, b = dim_value(condition.left, dims, source), dim_value(condition.right, dims, source)
    return _compare(a, condition.op, b), f"{a} {condition.op} {b}"


def _compare(a: Expr, op: str, b: Expr) -> bool | None:
    match op:
        case "==":
            if a == b:
                return True
            return False if is_positive(a - b, DIMS) or is_positive(b - a, DIMS) else None
        case "!=":
            equal = _compare(a, "==", b)
            return None if equal is None else not equal
        case "<=":
            return True if is_nonneg(b - a, DIMS) else (False if is_positive(a - b, DIMS) else None)
        case "<":
            return True if is_positive(b - a, DIMS) else (False if is_nonneg(a - b, DIMS) else None)
    return _compare(b, "<=" if op == ">=" else "<", a)


def _shape(dims: Sequence[Expr]) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"
