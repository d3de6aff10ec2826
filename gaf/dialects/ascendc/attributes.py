# SPDX-License-Identifier: Apache-2.0
"""Parameters of Ascend C API calls: enums with their C++ spelling, float scalars, names and tiling fields."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr, ShapeAttr, format_shape, parse_expr, parse_shape
from gaf.dialects.common.index import Expr, ExprLike, expr, format_expr
from gaf.errors import GafError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a name in an ascendc kernel looks like: it becomes a C++ name."""


def invalid(
    what: str, *, expected: object = None, got: object = None, hint: str | None = None
) -> VerifyException:
    """A verifier error in the form of all gaf errors: what is wrong, expected, got, hint."""
    return VerifyException(str(GafError(what, expected=expected, got=got, hint=hint)))


class Position(StrEnum):
    """The logical position of a queue or buffer on the vector core."""

    VECIN = "vecin"
    VECOUT = "vecout"
    VECCALC = "veccalc"

    @property
    def cpp(self) -> str:
        return f"TPosition::{self.name}"


class KernelKind(StrEnum):
    """The cores a kernel runs on: vector cores, cube cores, or groups of one cube and two vector cores."""

    AIV = "aiv"
    AIC = "aic"
    MIX = "mix"

    @property
    def cpp(self) -> str:
        return {
            "aiv": "KERNEL_TYPE_AIV_ONLY",
            "aic": "KERNEL_TYPE_AIC_ONLY",
            "mix": "KERNEL_TYPE_MIX_AIC_1_2",
        }[self.value]


class Pipe(StrEnum):
    """An in-order instruction queue of a core."""

    S = "S"
    V = "V"
    M = "M"
    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    FIX = "FIX"
    ALL = "ALL"

    @property
    def cpp(self) -> str:
        return f"PIPE_{self.name}"


class HardEvent(StrEnum):
    """An edge between two pipes of one vector core; same-pipe edges are pipe barriers."""

    S_V = "S_V"
    V_S = "V_S"
    S_MTE2 = "S_MTE2"
    MTE2_S = "MTE2_S"
    S_MTE3 = "S_MTE3"
    MTE3_S = "MTE3_S"
    V_MTE2 = "V_MTE2"
    MTE2_V = "MTE2_V"
    V_MTE3 = "V_MTE3"
    MTE3_V = "MTE3_V"
    MTE2_MTE3 = "MTE2_MTE3"
    MTE3_MTE2 = "MTE3_MTE2"

    @property
    def cpp(self) -> str:
        return f"HardEvent::{self.name}"


class Bop(StrEnum):
    """A binary operation of a tile `a` with a column or row `b`; the reversed ones compute `b op a`."""

    ADD = "add"
    SUB = "sub"
    RSUB = "rsub"
    MUL = "mul"
    DIV = "div"
    RDIV = "rdiv"
    MAX = "max"
    MIN = "min"

    @property
    def cpp(self) -> str:
        return f"gaf::Bop::{self.name}"

    @property
    def numpy(self) -> Callable[[Any, Any], Any]:
        return _BOP[self.value]


_BOP: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "rsub": lambda a, b: b - a, "mul": np.multiply,
    "div": np.divide, "rdiv": lambda a, b: b / a, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


class Mon(StrEnum):
    """A reduction monoid of the device library."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"

    @property
    def cpp(self) -> str:
        return f"gaf::Mon::{self.name}"


class RoundMode(StrEnum):
    """Rounding of Cast: to nearest even, down, up, half away from zero, towards zero, or none needed."""

    NONE = "none"
    RINT = "rint"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    TRUNC = "trunc"

    @property
    def cpp(self) -> str:
        return f"RoundMode::CAST_{self.name}"

    @property
    def numpy(self) -> Callable[[Any], Any]:
        """Rounding to an integral value of the same type."""
        return _ROUND[self.value]


def _half_away(x: Any) -> Any:
    return np.where(np.isfinite(x), np.trunc(x + np.copysign(np.where(np.abs(x) < 2**23, 0.5, 0), x)), x)


_ROUND: dict[str, Callable[[Any], Any]] = {
    "none": np.rint, "rint": np.rint, "floor": np.floor, "ceil": np.ceil, "round": _half_away,
    "trunc": np.trunc,
}  # fmt: skip


class CmpMode(StrEnum):
    """The relation of Compare."""

    LT = "lt"
    GT = "gt"
    EQ = "eq"
    LE = "le"
    GE = "ge"
    NE = "ne"

    @property
    def cpp(self) -> str:
        return f"CMPMODE::{self.name}"

    @property
    def symbol(self) -> str:
        return {"lt": "<", "gt": ">", "eq": "==", "le": "<=", "ge": ">=", "ne": "!="}[self.value]

    @property
    def numpy(self) -> Callable[[Any, Any], Any]:
        return {"lt": np.less, "gt": np.greater, "eq": np.equal,
                "le": np.less_equal, "ge": np.greater_equal, "ne": np.not_equal}[self.value]  # fmt: skip


@irdl_attr_definition
class PositionAttr(EnumAttribute[Position], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.position"


@irdl_attr_definition
class KernelKindAttr(EnumAttribute[KernelKind], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.kind"


@irdl_attr_definition
class PipeAttr(EnumAttribute[Pipe], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.pipe"


@irdl_attr_definition
class HardEventAttr(EnumAttribute[HardEvent], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.event"


@irdl_attr_definition
class BopAttr(EnumAttribute[Bop], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.bop"


@irdl_attr_definition
class MonAttr(EnumAttribute[Mon], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.mon"


@irdl_attr_definition
class RoundModeAttr(EnumAttribute[RoundMode], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.round"


@irdl_attr_definition
class CmpModeAttr(EnumAttribute[CmpMode], SpacedOpaqueSyntaxAttribute):
    name = "ascendc.cmp"


@dataclass(frozen=True)
class Scalar:
    """A number with exact equality (bits of a float64), or an integer expression converted to a float."""

    bits: int = 0
    expr: Expr | None = None

    @classmethod
    def of(cls, value: float | int | Expr | Scalar) -> Scalar:
        if isinstance(value, Scalar):
            return value
        if isinstance(value, Expr):
            known = value.as_int()
            if known is None:
                return cls(0, value)
            value = known
        number = math.nan if math.isnan(value) else float(value)
        return cls(struct.unpack("<Q", struct.pack("<d", number))[0])

    @property
    def value(self) -> float:
        """The number; meaningful when `expr` is None."""
        return struct.unpack("<d", struct.pack("<Q", self.bits))[0]

    def __str__(self) -> str:
        if self.expr is not None:
            return f"float({format_expr(self.expr)})"
        if math.isnan(self.value):
            return "nan"
        if math.isinf(self.value):
            return "inf" if self.value > 0 else "-inf"
        text = repr(self.value)
        return text if "." in text else text.replace("e", ".0e")


@irdl_attr_definition
class ScalarAttr(Data[Scalar]):
    """A scalar operand, `#ascendc.scalar<-inf>` or `#ascendc.scalar<float(K)>`."""

    name = "ascendc.scalar"

    @classmethod
    def of(cls, value: float | int | Expr | Scalar) -> ScalarAttr:
        return cls(Scalar.of(value))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Scalar:
        with parser.in_angle_brackets():
            return parse_scalar(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def parse_scalar(parser: AttrParser) -> Scalar:
    """Parse a number, `inf`, `-inf`, `nan` or `float(expr)`."""
    if parser.parse_optional_keyword("float"):
        parser.parse_punctuation("(")
        value = parse_expr(parser)
        parser.parse_punctuation(")")
        return Scalar.of(value)
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf"):
        return Scalar.of(-math.inf if negative else math.inf)
    if parser.parse_optional_keyword("nan"):
        return Scalar.of(math.nan)
    number = parser.parse_optional_number(allow_boolean=False)
    if number is None:
        parser.raise_error("expected a number, inf, -inf, nan or float(expression)")
    return Scalar.of(-float(number) if negative else float(number))


@irdl_attr_definition
class NamesAttr(Data[tuple[str, ...]]):
    """A list of names, `#ascendc.names<[M, K]>`."""

    name = "ascendc.names"

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


Bindings = tuple[tuple[str, Expr], ...]


@irdl_attr_definition
class TilingAttr(Data[Bindings]):
    """The fields of a tiling struct in order, `#ascendc.tiling<[tm = min(64, M)]>`."""

    name = "ascendc.tiling"

    @classmethod
    def of(cls, fields: Mapping[str, ExprLike] | Iterable[tuple[str, ExprLike]]) -> TilingAttr:
        items = fields.items() if isinstance(fields, Mapping) else fields
        return cls(tuple((name, expr(value)) for name, value in items))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Bindings:
        with parser.in_angle_brackets():
            return parse_tiling(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_tiling(self.data)}>")


def parse_tiling(parser: AttrParser) -> Bindings:
    """Parse `[a = e, b = e]`."""

    def binding() -> tuple[str, Expr]:
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        return name, parse_expr(parser)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, binding))


def format_tiling(fields: Bindings) -> str:
    """Print `[a = e, b = e]`."""
    return "[" + ", ".join(f"{n} = {format_expr(e)}" for n, e in fields) + "]"


@dataclass(frozen=True)
class ParamKind:
    """How one class of parameter attributes is written in custom syntax and built from a Python value."""

    parse: Callable[[AttrParser], Attribute]
    format: Callable[[Any], str]
    convert: Callable[[Any], Attribute]


def _enum_kind(cls: type[EnumAttribute[Any]]) -> ParamKind:
    return ParamKind(
        lambda parser: cls(cls.parse_parameter(parser)),
        lambda a: a.data.value,
        lambda v: cls(cls.enum_type(v)),
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


PARAM_KINDS: dict[type[Attribute], ParamKind] = {
    ExprAttr: ParamKind(
        lambda parser: ExprAttr(parse_expr(parser)),
        lambda a: format_expr(a.data),
        lambda v: ExprAttr(expr(v)),
    ),
    ShapeAttr: ParamKind(lambda p: ShapeAttr(parse_shape(p)), lambda a: format_shape(a.data), ShapeAttr.of),
    ScalarAttr: ParamKind(lambda p: ScalarAttr(parse_scalar(p)), lambda a: str(a.data), ScalarAttr.of),
    StringAttr: ParamKind(lambda p: StringAttr(p.parse_str_literal()), lambda a: _quoted(a.data), StringAttr),
    **{
        cls: _enum_kind(cls)
        for cls in (
            PositionAttr,
            KernelKindAttr,
            PipeAttr,
            HardEventAttr,
            BopAttr,
            MonAttr,
            RoundModeAttr,
            CmpModeAttr,
        )
    },
}
"""Every kind of parameter that an op of this dialect may have."""

ATTRIBUTES: tuple[type[Attribute], ...] = (
    PositionAttr, KernelKindAttr, PipeAttr, HardEventAttr, BopAttr, MonAttr, RoundModeAttr, CmpModeAttr,
    ScalarAttr, NamesAttr, TilingAttr,
)  # fmt: skip


def cpp_type(element: Attribute) -> str:
    """The Ascend C name of an element type; booleans are bytes."""
    return dt.of(element).cpp
