# SPDX-License-Identifier: Apache-2.0
"""Tile ops that fold: reductions and their merges and scans by monoid, and contractions on the cube."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
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
from gaf.dialects.tile.attributes import (
    NamesAttr,
    format_names,
    invalid,
    parse_names,
    parse_operand,
    parse_operand_list,
    parse_operands,
)
from gaf.dialects.tile.compute import check_ub, print_operands, tile_type
from gaf.dialects.tile.memory import parse_tile_type
from gaf.dialects.tile.types import TileType


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
        check_ub(self)
        if len(self.res) != len(self.args):
            raise invalid(
                "tile.reduce has a result per component", expected=len(self.args), got=len(self.res)
            )
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
        print_operands(printer, self.args)
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
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, lambda: parse_tile_type(parser))
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
        check_ub(self)
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
        print_operands(printer, self.first)
        printer.print_string(" | ")
        print_operands(printer, self.second)
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
    """Prefix fold of `value` along an axis, starting from `carry`; results: prefix, new carry.

    A prefix includes its element, unless the scan is `exclusive`.
    """

    name = "tile.scan"

    monoid_attr = prop_def(StringAttr, prop_name="monoid")
    over_attr = prop_def(StringAttr, prop_name="over")
    exclusive_attr = opt_prop_def(UnitAttr, prop_name="exclusive")
    value = operand_def(TileType)
    carry = operand_def(TileType)
    prefix = result_def(TileType)
    last = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, monoid: str, value: SSAValue, carry: SSAValue, over: str, exclusive: bool = False) -> None:
        super().__init__(
            operands=[value, carry],
            properties={
                "monoid": StringAttr(monoid), "over": StringAttr(over), "exclusive": UnitAttr() if exclusive else None,
            },
            result_types=[value.type, carry.type],
        )  # fmt: skip

    @property
    def exclusive(self) -> bool:
        return self.exclusive_attr is not None

    @property
    def monoid(self) -> str:
        return self.monoid_attr.data

    @property
    def over(self) -> str:
        return self.over_attr.data

    def verify_(self) -> None:
        _check_monoid(self, self.monoid, 1)
        check_ub(self)
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
        print_operands(printer, (self.value, self.carry))
        printer.print_string(f") over [{self.over}]{' exclusive' if self.exclusive else ''}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        monoid = parser.parse_identifier()
        operands = parse_operand_list(parser)
        if len(operands) != 2:
            parser.raise_error("tile.scan has two operands: the tile and the carry")
        parser.parse_keyword("over")
        (over,) = parse_names(parser)
        exclusive = parser.parse_optional_keyword("exclusive") is not None
        op = cls(monoid, operands[0], operands[1], over, exclusive)
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

    def __init__(self, a: SSAValue, b: SSAValue, result_type: TileType, acc: SSAValue | None = None) -> None:
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
        print_operands(printer, (self.a, self.b))
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
        op = cls(operands[0], operands[1], parse_tile_type(parser), acc)
        op.attributes.update(attributes)
        return op
