# SPDX-License-Identifier: Apache-2.0
"""Tile ops that compute: constants, coordinates, maps, views, monoid reductions, scans and contractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
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
from gaf.dialects.common import monoid as monoids
from gaf.dialects.common.attributes import ExprAttr, parse_expr
from gaf.dialects.common.index import Expr, ExprLike, expr, format_expr
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.tile.attributes import (
    BindingsAttr,
    NamesAttr,
    NumberAttr,
    format_bindings,
    format_names,
    format_number,
    invalid,
    parse_bindings,
    parse_names,
    parse_number,
    parse_operand,
    parse_operand_list,
    parse_operands,
)
from gaf.dialects.tile.memory import _parse_tile_type
from gaf.dialects.tile.types import TileType


def tile_type(value: SSAValue) -> TileType:
    """The tile type of a value that a verifier has checked."""
    assert isinstance(value.type, TileType)
    return value.type


def _check_ub(op: IRDLOperation) -> None:
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


def _operands(printer: Printer, values: Sequence[SSAValue]) -> None:
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
        _check_ub(self)
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
        op = cls(value, _parse_tile_type(parser))
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
        _check_ub(self)

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
        op = cls(value, _parse_tile_type(parser))
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
        _check_ub(self)
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
            raise invalid(f"wrong dtype of the result of '{self.function}'", expected=wanted, got=result.dtype)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function}(")
        _operands(printer, self.args)
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
        op = cls(function, operands, _parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class ViewOp(IRDLOperation):
    """`out[axes] = source[k = e(axes)]` on chip; an axis of the source without a binding is the result's own."""

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
        op = cls(source, bindings, _parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


def _check_monoid(op: IRDLOperation, name: str, states: int) -> None:
    if name not in monoids.ALL:
        raise invalid(f"unknown monoid '{name}'", expected=" or ".join(monoids.ALL), got=name)
    if states != 1:
        raise invalid(f"the state of monoid '{name}' has one component", expected=1, got=states)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Folds the current windows of the axes `over` with a monoid; an empty window gives its identity."""

    name = "tile.reduce"

    monoid_attr = prop_def(StringAttr, prop_name="monoid")
    over_attr = prop_def(NamesAttr, prop_name="over")
    args = var_operand_def(TileType)
    res = var_result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, monoid: str, operands: Sequence[SSAValue], over: Sequence[str]) -> None:
        types = [tile_type(v) for v in operands]
        results = [TileType.of([a for a in t.axes if a not in over], t.element, t.space) for t in types]
        super().__init__(
            operands=[list(operands)],
            properties={"monoid": StringAttr(monoid), "over": NamesAttr.of(over)},
            result_types=[results],
        )

    @property
    def monoid(self) -> str:
        return self.monoid_attr.data

    @property
    def over(self) -> tuple[str, ...]:
        return self.over_attr.data

    def verify_(self) -> None:
        _check_monoid(self, self.monoid, len(self.args))
        _check_ub(self)
        if len(self.res) != len(self.args):
            raise invalid("tile.reduce has a result per component", expected=len(self.args), got=len(self.res))
        for value, result in zip(self.args, self.res, strict=True):
            operand = tile_type(value)
            if missing := [a for a in self.over if a not in operand.axes]:
                raise invalid(
                    f"tile.reduce folds '{missing[0]}', which isn't an axis of its operand",
                    expected=format_names(operand.axes),
                    got=format_names(self.over),
                )
            axes = tuple(a for a in operand.axes if a not in self.over)
            wanted = TileType.of(axes, operand.element)
            if result.type != wanted:
                raise invalid(
                    "the result of tile.reduce isn't its operand without the folded axes",
                    expected=wanted,
                    got=result.type,
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.monoid}(")
        _operands(printer, self.args)
        printer.print_string(f") over {format_names(self.over)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([r.type for r in self.res], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        monoid = parser.parse_identifier()
        operands = parse_operand_list(parser)
        parser.parse_keyword("over")
        over = parse_names(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(
            Parser.Delimiter.NONE, lambda: _parse_tile_type(parser)
        )
        op = cls.create(
            operands=operands,
            properties={"monoid": StringAttr(monoid), "over": NamesAttr(over)},
            result_types=types,
            attributes=attributes,
        )
        return op


@irdl_op_definition
class MergeOp(IRDLOperation):
    """Joins two states of a monoid, component by component; the results have the types of the first state."""

    name = "tile.merge"

    monoid_attr = prop_def(StringAttr, prop_name="monoid")
    first = var_operand_def(TileType)
    second = var_operand_def(TileType)
    res = var_result_def(TileType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(self, monoid: str, first: Sequence[SSAValue], second: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[list(first), list(second)],
            properties={"monoid": StringAttr(monoid)},
            result_types=[[v.type for v in first]],
        )

    @property
    def monoid(self) -> str:
        return self.monoid_attr.data

    def verify_(self) -> None:
        _check_monoid(self, self.monoid, len(self.first))
        _check_ub(self)
        first = [v.type for v in self.first]
        for what, values in (("second state", self.second), ("results", self.res)):
            types = [v.type for v in values]
            if types != first:
                raise invalid(
                    f"the {what} of tile.merge differ from the first state",
                    expected=", ".join(map(str, first)),
                    got=", ".join(map(str, types)),
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.monoid}(")
        _operands(printer, self.first)
        printer.print_string(" | ")
        _operands(printer, self.second)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        monoid = parser.parse_identifier()
        with parser.in_parens():
            first = parse_operands(parser)
            parser.parse_punctuation("|")
            second = parse_operands(parser)
        op = cls(monoid, first, second)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive prefix fold of `value` along one axis, starting from `carry`; results: prefix and new carry."""

    name = "tile.scan"

    monoid_attr = prop_def(StringAttr, prop_name="monoid")
    over_attr = prop_def(StringAttr, prop_name="over")
    value = operand_def(TileType)
    carry = operand_def(TileType)
    prefix = result_def(TileType)
    last = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, monoid: str, value: SSAValue, carry: SSAValue, over: str) -> None:
        super().__init__(
            operands=[value, carry],
            properties={"monoid": StringAttr(monoid), "over": StringAttr(over)},
            result_types=[value.type, carry.type],
        )

    @property
    def monoid(self) -> str:
        return self.monoid_attr.data

    @property
    def over(self) -> str:
        return self.over_attr.data

    def verify_(self) -> None:
        _check_monoid(self, self.monoid, 1)
        _check_ub(self)
        value = tile_type(self.value)
        if self.over not in value.axes:
            raise invalid(
                f"tile.scan runs along '{self.over}', which isn't an axis of its operand",
                expected=format_names(value.axes),
                got=self.over,
            )
        wanted = TileType.of([a for a in value.axes if a != self.over], value.element)
        if self.carry.type != wanted:
            raise invalid("wrong carry of tile.scan", expected=wanted, got=self.carry.type)
        if self.prefix.type != value or self.last.type != wanted:
            raise invalid(
                "the results of tile.scan are the prefix and the new carry",
                expected=f"{value}, {wanted}",
                got=f"{self.prefix.type}, {self.last.type}",
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.monoid}(")
        _operands(printer, (self.value, self.carry))
        printer.print_string(f") over [{self.over}]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        monoid = parser.parse_identifier()
        operands = parse_operand_list(parser)
        if len(operands) != 2:
            parser.raise_error("tile.scan has two operands: the tile and the carry")
        parser.parse_keyword("over")
        (over,) = parse_names(parser)
        op = cls(monoid, operands[0], operands[1], over)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class ContractOp(IRDLOperation):
    """Sum of products over the axes that both operands have and the result lacks; plus `acc` when given."""

    name = "tile.contract"

    a = operand_def(TileType)
    b = operand_def(TileType)
    acc = opt_operand_def(TileType)
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(
        self, a: SSAValue, b: SSAValue, result_type: TileType, acc: SSAValue | None = None
    ) -> None:
        super().__init__(operands=[a, b, acc], result_types=[result_type])

    @property
    def summed(self) -> tuple[str, ...]:
        """The axes that are summed over, in the order of the first operand."""
        b, result = tile_type(self.b).axes, tile_type(self.res).axes
        return tuple(x for x in tile_type(self.a).axes if x in b and x not in result)

    def verify_(self) -> None:
        a, b, result = tile_type(self.a), tile_type(self.b), tile_type(self.res)
        for type, space in ((a, "l1"), (b, "l1"), (result, "l0c")):
            if type.space != space:
                raise invalid(
                    "tile.contract multiplies tiles in l1 into l0c", expected=f"a tile in {space}", got=type
                )
        if a.element != b.element:
            raise invalid("the operands of tile.contract differ in dtype", expected=a.dtype, got=b.dtype)
        wanted = dt.F32 if a.dtype.is_float else dt.I32
        if result.dtype != wanted:
            raise invalid("tile.contract accumulates in full width", expected=wanted, got=result.dtype)
        for axis in result.axes:
            if axis not in a.axes and axis not in b.axes:
                raise invalid(f"no operand of tile.contract has the axis '{axis}' of the result")
        for axis in (*a.axes, *b.axes):
            if axis not in result.axes and not (axis in a.axes and axis in b.axes):
                raise invalid(
                    f"the axis '{axis}' vanishes: only one operand of tile.contract has it",
                    expected=f"'{axis}' in the result or in both operands",
                )
        if not self.summed:
            raise invalid("tile.contract sums over no axis", hint="use tile.map mul for a product")
        if self.acc is not None:
            acc = tile_type(self.acc)
            if acc != result:
                raise invalid("wrong accumulator of tile.contract", expected=result, got=acc)

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        _operands(printer, (self.a, self.b))
        printer.print_string(")")
        if self.acc is not None:
            printer.print_string(" acc ")
            printer.print_operand(self.acc)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        if len(operands) != 2:
            parser.raise_error("tile.contract has two operands")
        acc = parse_operand(parser) if parser.parse_optional_keyword("acc") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(operands[0], operands[1], _parse_tile_type(parser), acc)
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class CallOp(IRDLOperation):
    """An opaque function on tiles, known by name to the interpreter and to a device function of that name."""

    name = "tile.call"

    function_attr = prop_def(StringAttr, prop_name="function")
    args = var_operand_def(TileType)
    res = var_result_def(TileType)

    def __init__(
        self, function: str, operands: Sequence[SSAValue], result_types: Sequence[TileType]
    ) -> None:
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
        _operands(printer, self.args)
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
            types = parser.parse_comma_separated_list(
                Parser.Delimiter.NONE, lambda: _parse_tile_type(parser)
            )
        op = cls(function, operands, types)
        op.attributes.update(attributes)
        return op
