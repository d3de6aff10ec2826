# SPDX-License-Identifier: Apache-2.0
"""Tile ops that compute element by element: constants, coordinates, scalar functions, views, opaque calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr, parse_expr
from gaf.dialects.common.index import Expr, ExprLike, expr, format_expr
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.tile.attributes import (
    BindingsAttr,
    NumberAttr,
    format_bindings,
    format_names,
    format_number,
    invalid,
    parse_bindings,
    parse_number,
    parse_operand,
    parse_operand_list,
)
from gaf.dialects.tile.memory import parse_tile_type
from gaf.dialects.tile.types import TileType


def tile_type(value: SSAValue) -> TileType:
    """The tile type of a value that a verifier has checked."""
    assert isinstance(value.type, TileType)
    return value.type


def check_ub(op: IRDLOperation) -> None:
    """Raise VerifyException unless every tile of an op is in ub."""
    for value in (*op.operands, *op.results):
        if tile_type(value).space != "ub":
            raise invalid(
                f"{op.name} works on the vector unit",
                expected="tiles in ub",
                got=value.type,
                hint="hand the tile over with tile.move",
            )


def _is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(name in rest for name in part)


def print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    """Print `%a, %b`."""
    printer.print_list(values, printer.print_operand)


@irdl_op_definition
class FillOp(IRDLOperation):
    """A tile whose elements are all `value`."""

    name = "tile.fill"

    value_attr = prop_def(NumberAttr, prop_name="value")
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, value: int | float | bool, result_type: TileType) -> None:
        super().__init__(properties={"value": NumberAttr.of(value)}, result_types=[result_type])

    @property
    def value(self) -> int | float:
        return self.value_attr.value

    def verify_(self) -> None:
        check_ub(self)
        kind = tile_type(self.res).dtype
        if not kind.is_float and not isinstance(self.value, int):
            raise invalid(f"a tile of {kind} can't hold {format_number(self.value)}", expected="an integer")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {format_number(self.value)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parse_number(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(value, parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class IndexOp(IRDLOperation):
    """Coordinates as data: the value of an expression over the axes of the result."""

    name = "tile.index"

    value_attr = prop_def(ExprAttr, prop_name="value")
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, value: ExprLike, result_type: TileType) -> None:
        super().__init__(properties={"value": ExprAttr(expr(value))}, result_types=[result_type])

    @property
    def value(self) -> Expr:
        return self.value_attr.data

    def verify_(self) -> None:
        check_ub(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(f"({format_expr(self.value)})")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        with parser.in_parens():
            value = parse_expr(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(value, parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class MapOp(IRDLOperation):
    """A function of the scalar table, element by element; operands are aligned by axis name."""

    name = "tile.map"

    function_attr = prop_def(StringAttr, prop_name="function")
    args = var_operand_def(TileType)
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, function: str, operands: Sequence[SSAValue], result_type: TileType) -> None:
        super().__init__(
            operands=[list(operands)],
            properties={"function": StringAttr(function)},
            result_types=[result_type],
        )

    @property
    def function(self) -> str:
        return self.function_attr.data

    def verify_(self) -> None:
        entry = FUNCTIONS.get(self.function)
        if entry is None:
            raise invalid(
                f"unknown scalar function '{self.function}'",
                hint="gaf/dialects/common/scalar.py lists the functions",
            )
        if len(self.args) != entry.arity:
            raise invalid(
                f"wrong number of operands for '{self.function}'", expected=entry.arity, got=len(self.args)
            )
        check_ub(self)
        types = [tile_type(a) for a in self.args]
        result = tile_type(self.res)
        for type in types:
            if not _is_subsequence(type.axes, result.axes):
                raise invalid(
                    f"the axes of an operand of '{self.function}' are no in-order part of the result's",
                    expected=f"a subsequence of {format_names(result.axes)}",
                    got=format_names(type.axes),
                    hint="transpose the operand with tile.view",
                )
        present = {a for t in types for a in t.axes}
        if missing := [a for a in result.axes if a not in present]:
            raise invalid(
                f"no operand of '{self.function}' has the axis '{missing[0]}' of the result",
                expected=format_names([a for a in result.axes if a in present]),
                got=format_names(result.axes),
            )
        if self.function == "select":
            if not types[0].dtype.is_bool:
                raise invalid("the condition of 'select' is no predicate", expected="i1", got=types[0].dtype)
            types = types[1:]
        elif self.function in ("and", "or", "xor", "not"):
            for type in types:
                if not type.dtype.is_bool:
                    raise invalid(f"'{self.function}' works on predicates", expected="i1", got=type.dtype)
        if len({t.element for t in types}) > 1:
            raise invalid(
                f"the operands of '{self.function}' differ in dtype",
                expected="one dtype",
                got=", ".join(str(t.dtype) for t in types),
                hint="add a tile.map cast",
            )
        wanted = {"same": types[0].dtype, "bool": dt.BOOL, "cast": result.dtype}[entry.result]
        if result.dtype != wanted:
            raise invalid(
                f"wrong dtype of the result of '{self.function}'", expected=wanted, got=result.dtype
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function}(")
        print_operands(printer, self.args)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        function = parser.parse_identifier()
        operands = parse_operand_list(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(function, operands, parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class ViewOp(IRDLOperation):
    """`out[axes] = source[k = e(axes)]` on chip; an unbound axis of the source is the result's own."""

    name = "tile.view"

    source = operand_def(TileType)
    bindings_attr = prop_def(BindingsAttr, prop_name="bindings")
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(
        self,
        source: SSAValue,
        bindings: Mapping[str, ExprLike] | Sequence[tuple[str, ExprLike]],
        result_type: TileType,
    ) -> None:
        super().__init__(
            operands=[source], properties={"bindings": BindingsAttr.of(bindings)}, result_types=[result_type]
        )

    @property
    def bindings(self) -> tuple[tuple[str, Expr], ...]:
        return self.bindings_attr.data

    def verify_(self) -> None:
        source, result = tile_type(self.source), tile_type(self.res)
        if source.element != result.element or source.space != result.space:
            raise invalid("tile.view keeps dtype and space", expected=source, got=result)
        bound = dict(self.bindings)
        for name in bound:
            if name not in source.axes:
                raise invalid(
                    f"tile.view binds '{name}', which isn't an axis of its operand",
                    expected=format_names(source.axes),
                    got=name,
                )
        for name in source.axes:
            if name not in bound and name not in result.axes:
                raise invalid(
                    f"tile.view loses the axis '{name}'",
                    expected=f"'{name}' in the result, or a binding [{name} = e]",
                    got=format_names(result.axes),
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(format_bindings(self.bindings))
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parse_operand(parser)
        bindings = parse_bindings(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(source, bindings, parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class CallOp(IRDLOperation):
    """An opaque function on tiles, known by name to the interpreter and to a device function of that name."""

    name = "tile.call"

    function_attr = prop_def(StringAttr, prop_name="function")
    args = var_operand_def(TileType)
    res = var_result_def(TileType)

    def __init__(self, function: str, operands: Sequence[SSAValue], result_types: Sequence[TileType]) -> None:
        super().__init__(
            operands=[list(operands)],
            properties={"function": StringAttr(function)},
            result_types=[list(result_types)],
        )

    @property
    def function(self) -> str:
        return self.function_attr.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.function)
        printer.print_string("(")
        print_operands(printer, self.args)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        if self.res:
            printer.print_string(" : ")
            printer.print_list([r.type for r in self.res], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        function = parser.parse_symbol_name().data
        operands = parse_operand_list(parser)
        attributes = parser.parse_optional_attr_dict()
        types: list[TileType] = []
        if parser.parse_optional_punctuation(":"):
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, lambda: parse_tile_type(parser))
        op = cls(function, operands, types)
        op.attributes.update(attributes)
        return op
