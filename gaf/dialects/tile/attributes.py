# SPDX-License-Identifier: Apache-2.0
"""Attributes of the tile dialect: axes, name lists, bindings, guards and constants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common.attributes import parse_expr
from gaf.dialects.common.index import Expr, ExprLike, expr, format_expr
from gaf.errors import GafError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of axes, symbols, parameters and arguments: they become C++ names, so no dots or dollars."""


def invalid(
    what: str, *, expected: object = None, got: object = None, hint: str | None = None
) -> VerifyException:
    """A verifier error in the form of all gaf errors: what is wrong, expected, got, hint."""
    return VerifyException(str(GafError(what, expected=expected, got=got, hint=hint)))


@dataclass(frozen=True)
class Axis:
    """A named axis: `extent` values 0..extent-1, or with `hull` the interval hull of the expression `extent`.

    The window of a hull axis is not narrowed by a loop of its own: it follows the windows of the axes in its
    expression (the halo of a convolution or a pooling).
    """

    name: str
    extent: Expr
    hull: bool = False

    def __str__(self) -> str:
        return f"{self.name} {'hull' if self.hull else '='} {format_expr(self.extent)}"


@irdl_attr_definition
class AxesAttr(Data[tuple[Axis, ...]]):
    """The axes of a kernel, `#tile.axes<[m = M, ih hull 2 * oh + i - 1]>`."""

    name = "tile.axes"

    @classmethod
    def of(cls, axes: Mapping[str, ExprLike] | Iterable[tuple[str, ExprLike] | Axis]) -> AxesAttr:
        """Build from a mapping, from pairs (name, extent), or from `Axis` objects."""
        items = axes.items() if isinstance(axes, Mapping) else axes
        return cls(tuple(a if isinstance(a, Axis) else Axis(a[0], expr(a[1])) for a in items))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Axis, ...]:
        with parser.in_angle_brackets():
            return parse_axes(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_axes(self.data)}>")


def parse_axes(parser: AttrParser) -> tuple[Axis, ...]:
    """Parse `[m = M, ih hull expr]`."""

    def axis() -> Axis:
        name = parser.parse_identifier()
        if parser.parse_optional_keyword("hull"):
            return Axis(name, parse_expr(parser), True)
        parser.parse_punctuation("=")
        return Axis(name, parse_expr(parser))

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, axis))


def format_axes(axes: Iterable[Axis]) -> str:
    """Print `[m = M, ih hull expr]`."""
    return "[" + ", ".join(str(a) for a in axes) + "]"


@irdl_attr_definition
class NamesAttr(Data[tuple[str, ...]]):
    """A list of names, `#tile.names<[m, k]>`."""

    name = "tile.names"

    @classmethod
    def of(cls, names: Iterable[str]) -> NamesAttr:
        return cls(tuple(names))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        with parser.in_angle_brackets():
            return parse_names(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_names(self.data)}>")


def parse_names(parser: AttrParser) -> tuple[str, ...]:
    """Parse `[a, b]`."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_identifier())
    )


def format_names(names: Iterable[str]) -> str:
    """Print `[a, b]`."""
    return "[" + ", ".join(names) + "]"


@irdl_attr_definition
class BindingsAttr(Data[tuple[tuple[str, Expr], ...]]):
    """Names bound to expressions, `#tile.bind<[tm = min(64, M)]>`: parameters, steps, view indices."""

    name = "tile.bind"

    @classmethod
    def of(cls, bindings: Mapping[str, ExprLike] | Iterable[tuple[str, ExprLike]]) -> BindingsAttr:
        items = bindings.items() if isinstance(bindings, Mapping) else bindings
        return cls(tuple((name, expr(value)) for name, value in items))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Expr], ...]:
        with parser.in_angle_brackets():
            return parse_bindings(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_bindings(self.data)}>")


def parse_bindings(parser: AttrParser, separator: str = "=") -> tuple[tuple[str, Expr], ...]:
    """Parse `[a = e, b = e]`, or with the separator "step" `[a step e]`."""

    def binding() -> tuple[str, Expr]:
        name = parser.parse_identifier()
        if separator == "=":
            parser.parse_punctuation("=")
        else:
            parser.parse_keyword(separator)
        return name, parse_expr(parser)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, binding))


def format_bindings(bindings: Iterable[tuple[str, Expr]], separator: str = "=") -> str:
    """Print `[a = e, b = e]`."""
    return "[" + ", ".join(f"{n} {separator} {format_expr(e)}" for n, e in bindings) + "]"


@dataclass(frozen=True)
class Guard:
    """The condition `low <= value < high`."""

    value: Expr
    low: Expr
    high: Expr

    @classmethod
    def of(cls, value: ExprLike, low: ExprLike, high: ExprLike) -> Guard:
        return cls(expr(value), expr(low), expr(high))

    def names(self) -> set[str]:
        return self.value.names() | self.low.names() | self.high.names()

    def __str__(self) -> str:
        return f"{format_expr(self.value)} in {format_expr(self.low)} to {format_expr(self.high)}"


@irdl_attr_definition
class GuardsAttr(Data[tuple[Guard, ...]]):
    """A conjunction of ranges, `#tile.guards<[j in 0 to K - 3]>`."""

    name = "tile.guards"

    @classmethod
    def of(cls, guards: Iterable[Guard | tuple[ExprLike, ExprLike, ExprLike]]) -> GuardsAttr:
        return cls(tuple(g if isinstance(g, Guard) else Guard.of(*g) for g in guards))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Guard, ...]:
        with parser.in_angle_brackets():
            return parse_guards(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_guards(self.data)}>")


def parse_guards(parser: AttrParser) -> tuple[Guard, ...]:
    """Parse `[e in lo to hi, ...]`."""

    def guard() -> Guard:
        value = parse_expr(parser)
        parser.parse_keyword("in")
        low = parse_expr(parser)
        parser.parse_keyword("to")
        return Guard(value, low, parse_expr(parser))

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, guard))


def format_guards(guards: Iterable[Guard]) -> str:
    """Print `[e in lo to hi, ...]`."""
    return "[" + ", ".join(str(g) for g in guards) + "]"


class _Number:
    """A Python number with exact equality: -0.0 is not 0, NaN equals NaN, 1.0 is 1."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | bool) -> None:
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, float) and value.is_integer() and (value != 0 or math.copysign(1, value) > 0):
            value = int(value)
        self.value = value

    def _key(self) -> tuple[str, int | float | str]:
        if isinstance(self.value, int):
            return ("int", self.value)
        return ("float", repr(float(self.value)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@irdl_attr_definition
class NumberAttr(Data[_Number]):
    """A constant without a dtype, `#tile.number<-inf>`; it takes the dtype of the tile it fills."""

    name = "tile.number"

    @classmethod
    def of(cls, value: int | float | bool) -> NumberAttr:
        return cls(_Number(value))

    @property
    def value(self) -> int | float:
        return self.data.value

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> _Number:
        with parser.in_angle_brackets():
            return _Number(parse_number(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_number(self.value)}>")


def parse_number(parser: AttrParser) -> int | float:
    """Parse an integer, a float, `inf`, `-inf` or `nan`."""
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf"):
        return -math.inf if negative else math.inf
    if parser.parse_optional_keyword("nan"):
        return math.nan
    value = parser.parse_optional_number(allow_boolean=False)
    if value is None:
        parser.raise_error("expected a number, inf, -inf or nan")
    return -value if negative else value


def format_number(value: int | float) -> str:
    """The shortest text that `parse_number` reads back to the same value."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _defined(parser: Parser, operand: UnresolvedOperand) -> SSAValue:
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error("value used before it is defined", operand.span)
    return values[operand.index]


def parse_operands(parser: Parser) -> list[SSAValue]:
    """Parse `%a, %b`, values defined above, so that the text doesn't repeat their types; maybe none."""
    operands: list[SSAValue] = []
    while (operand := parser.parse_optional_unresolved_operand()) is not None:
        operands.append(_defined(parser, operand))
        if parser.parse_optional_punctuation(",") is None:
            break
    return operands


def parse_operand(parser: Parser) -> SSAValue:
    """Parse one `%a`, defined above."""
    return _defined(parser, parser.parse_unresolved_operand())


def parse_operand_list(parser: Parser) -> list[SSAValue]:
    """Parse `(%a, %b)`."""
    with parser.in_parens():
        return parse_operands(parser)
