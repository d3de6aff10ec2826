# SPDX-License-Identifier: Apache-2.0
"""Attributes shared by the dialects: index expressions, lists of them, and small array data."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.context import Context
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import (
    Expr,
    ExprLike,
    Func,
    const,
    expr,
    floordiv,
    format_expr,
    maximum,
    minimum,
    mod,
    sym,
)


def parse_expr(parser: AttrParser) -> Expr:
    """Parse `term (('+' | '-') term)*`; the text that `format_expr` prints."""
    negative = parser.parse_optional_punctuation("-") is not None
    result = _parse_term(parser)
    if negative:
        result = -result
    while True:
        if parser.parse_optional_punctuation("+") is not None:
            result = result + _parse_term(parser)
        elif parser.parse_optional_punctuation("-") is not None:
            result = result - _parse_term(parser)
        else:
            return result


def _parse_term(parser: AttrParser) -> Expr:
    result = _parse_factor(parser)
    while True:
        if parser.parse_optional_punctuation("*") is not None:
            result = result * _parse_factor(parser)
        elif parser.parse_optional_keyword("floordiv") is not None:
            result = floordiv(result, _parse_factor(parser))
        elif parser.parse_optional_keyword("mod") is not None:
            result = mod(result, _parse_factor(parser))
        else:
            return result


def _parse_factor(parser: AttrParser) -> Expr:
    if parser.parse_optional_punctuation("(") is not None:
        inner = parse_expr(parser)
        parser.parse_punctuation(")")
        return inner
    value = parser.parse_optional_integer(allow_boolean=False, allow_negative=True)
    if value is not None:
        return const(value)
    name = parser.parse_identifier()
    match name:
        case "min" | "max":
            parser.parse_punctuation("(")
            a = parse_expr(parser)
            parser.parse_punctuation(",")
            b = parse_expr(parser)
            parser.parse_punctuation(")")
            return minimum(a, b) if name == "min" else maximum(a, b)
        case "read":
            tag = parser.parse_identifier()
            index = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_expr(parser))
            return Expr({(Func("read", tuple(index), tag),): 1})
        case _:
            return sym(name)


def expr_from_text(text: str) -> Expr:
    """Parse an expression from a string, e.g. a command line option.

    Raises xdsl.utils.exceptions.ParseError on malformed text.
    """
    return parse_expr(Parser(Context(), text))


@irdl_attr_definition
class ExprAttr(Data[Expr]):
    """One index expression, `#graph.expr<B * S + 1>`."""

    name = "graph.expr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Expr:
        with parser.in_angle_brackets():
            return parse_expr(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_expr(self.data)}>")


@irdl_attr_definition
class ShapeAttr(Data[tuple[Expr, ...]]):
    """A list of index expressions, `#graph.shape<[B, S, 768]>`: a shape, or one index map."""

    name = "graph.shape"

    @classmethod
    def of(cls, dims: Iterable[ExprLike]) -> ShapeAttr:
        return cls(tuple(expr(d) for d in dims))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Expr, ...]:
        with parser.in_angle_brackets():
            return parse_shape(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_shape(self.data)}>")


def parse_shape(parser: AttrParser) -> tuple[Expr, ...]:
    """Parse `[e0, e1, ...]`."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_expr(parser)))


def format_shape(dims: Iterable[Expr]) -> str:
    """Print `[e0, e1, ...]`."""
    return "[" + ", ".join(format_expr(d) for d in dims) + "]"


class _Array:
    """An immutable, hashable, read-only numpy array: equal means same dtype, shape and bits."""

    __slots__ = ("array", "_key")

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array).reshape(np.shape(array))
        self.array.flags.writeable = False
        self._key = (self.array.dtype.str, self.array.dtype.name, self.array.shape, self.array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@irdl_attr_definition
class ArrayAttr(Data[_Array]):
    """A small constant, `#graph.array<f32 [2, 2] : 1.0, 2.5, inf, 0x7fc00001>`.

    Floats print as the shortest text that reads back to the same bits; NaN prints as its bit pattern.
    Large arrays don't belong here: they live in the weight store (see `graph.weight`).
    """

    name = "graph.array"

    @classmethod
    def of(cls, array: np.ndarray) -> ArrayAttr:
        return cls(_Array(np.asarray(array)))

    @property
    def array(self) -> np.ndarray:
        return self.data.array

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> _Array:
        with parser.in_angle_brackets():
            kind = dt.by_name(parser.parse_identifier())
            shape = tuple(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer())
            )
            values: list[np.ndarray] = []
            if parser.parse_optional_punctuation(":") is not None:
                values.append(_parse_scalar(parser, kind))
                while parser.parse_optional_punctuation(",") is not None:
                    values.append(_parse_scalar(parser, kind))
        if len(values) != int(np.prod(shape)):
            parser.raise_error(f"expected {int(np.prod(shape))} values for shape {shape}, got {len(values)}")
        data = np.array(values, dtype=kind.numpy).reshape(shape) if values else np.zeros(shape, kind.numpy)
        return _Array(data)

    def print_parameter(self, printer: Printer) -> None:
        kind = dt.of_numpy(self.array.dtype)
        shape = ", ".join(str(d) for d in self.array.shape)
        values = ", ".join(_format_scalar(v, kind) for v in self.array.reshape(-1))
        printer.print_string(f"<{kind.name} [{shape}]" + (f" : {values}>" if values else ">"))


def _format_scalar(value: np.generic, kind: dt.DType) -> str:
    if kind.is_bool:
        return "true" if value else "false"
    if not kind.is_float:
        return str(int(value))
    number = float(value)
    if np.isnan(number):
        return f"0x{int(np.asarray(value).view(kind.bits_dtype)):0{kind.bits // 4}x}"
    if np.isinf(number):
        return "inf" if number > 0 else "-inf"
    text = str(value) if kind.numpy in (np.float32, np.float64) else repr(number)
    return text if any(c in text for c in ".") else (text.replace("e", ".0e") if "e" in text else text + ".0")


def _parse_scalar(parser: AttrParser, kind: dt.DType) -> np.ndarray:
    if kind.is_bool:
        return np.asarray(parser.parse_boolean())
    if not kind.is_float:
        return np.asarray(parser.parse_integer(), dtype=kind.numpy)
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf") is not None:
        return np.asarray(-np.inf if negative else np.inf, dtype=kind.numpy)
    value = parser.parse_optional_number()
    if value is None:
        parser.raise_error("expected a number")
    if isinstance(value, int):  # hexadecimal: the bit pattern
        return np.asarray(value, dtype=kind.bits_dtype).view(kind.numpy)
    return np.asarray(-value if negative else value, dtype=kind.numpy)
