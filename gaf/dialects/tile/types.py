# SPDX-License-Identifier: Apache-2.0
"""The types of the tile dialect: kernel arguments in global memory, and tiles over named axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ShapeAttr, format_shape, parse_shape
from gaf.dialects.common.index import Expr, ExprLike
from gaf.dialects.tile.attributes import NamesAttr, format_names, invalid, parse_names

ROLES = ("in", "out", "ws")
SPACES = ("ub", "l1", "l0c")


def _check_element(element: Attribute) -> None:
    try:
        dt.of(element)
    except dt.UnsupportedError as error:
        raise VerifyException(str(error)) from None


@irdl_attr_definition
class GmType(ParametrizedAttribute, TypeAttribute):
    """A dense row-major array in global memory, `!tile.gm<[M, K], f32, out>`; the role is in, out or ws."""

    name = "tile.gm"

    shape_attr: ShapeAttr = param_def()
    element: Attribute = param_def()
    role_attr: StringAttr = param_def()

    @classmethod
    def of(cls, shape: Iterable[ExprLike], element: dt.DType | Attribute, role: str = "in") -> GmType:
        """Build a type from dims (int, name or Expr), an element type and a role."""
        mlir = element.mlir if isinstance(element, dt.DType) else element
        return cls(ShapeAttr.of(shape), mlir, StringAttr(role))

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.shape_attr.data

    @property
    def dtype(self) -> dt.DType:
        return dt.of(self.element)

    @property
    def role(self) -> str:
        return self.role_attr.data

    @property
    def rank(self) -> int:
        return len(self.shape)

    def verify(self) -> None:
        _check_element(self.element)
        if self.role not in ROLES:
            raise invalid("unknown role of a tile.gm", expected=" or ".join(ROLES), got=self.role)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parse_shape(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            role = "in"
            if parser.parse_optional_punctuation(","):
                role = parser.parse_identifier()
        return (ShapeAttr(shape), element, StringAttr(role))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{format_shape(self.shape)}, ")
        printer.print_attribute(self.element)
        printer.print_string(">" if self.role == "in" else f", {self.role}>")

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(str(d) for d in self.shape)}]"


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """A tile, `!tile.t<[m, k], f32, l1>`: named axes in physical order (the last one is the lanes).

    Its extents are the windows of its axes where the value is used. The space is ub (vector unit),
    l1 (cube operand) or l0c (cube accumulator).
    """

    name = "tile.t"

    axes_attr: NamesAttr = param_def()
    element: Attribute = param_def()
    space_attr: StringAttr = param_def()

    @classmethod
    def of(cls, axes: Iterable[str], element: dt.DType | Attribute, space: str = "ub") -> TileType:
        """Build a type from axis names, an element type and a space."""
        mlir = element.mlir if isinstance(element, dt.DType) else element
        return cls(NamesAttr.of(axes), mlir, StringAttr(space))

    @property
    def axes(self) -> tuple[str, ...]:
        return self.axes_attr.data

    @property
    def dtype(self) -> dt.DType:
        return dt.of(self.element)

    @property
    def space(self) -> str:
        return self.space_attr.data

    def verify(self) -> None:
        _check_element(self.element)
        if self.space not in SPACES:
            raise invalid("unknown space of a tile", expected=" or ".join(SPACES), got=self.space)
        if len(set(self.axes)) != len(self.axes):
            raise invalid("an axis occurs twice in a tile", got=format_names(self.axes))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = parse_names(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            space = "ub"
            if parser.parse_optional_punctuation(","):
                space = parser.parse_identifier()
        return (NamesAttr(axes), element, StringAttr(space))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{format_names(self.axes)}, ")
        printer.print_attribute(self.element)
        printer.print_string(">" if self.space == "ub" else f", {self.space}>")

    def __str__(self) -> str:
        suffix = "" if self.space == "ub" else f" in {self.space}"
        return f"{self.dtype.name}[{', '.join(self.axes)}]{suffix}"
