# SPDX-License-Identifier: Apache-2.0
"""Tile ops that touch memory: loads and stores with index maps, and moves between the units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ShapeAttr, format_shape, parse_shape
from gaf.dialects.common.index import Expr, ExprLike
from gaf.dialects.tile.attributes import (
    Guard,
    GuardsAttr,
    NumberAttr,
    format_guards,
    format_number,
    invalid,
    parse_guards,
    parse_number,
    parse_operand,
)
from gaf.dialects.tile.types import GmType, TileType

GuardLike = Guard | tuple[ExprLike, ExprLike, ExprLike]

MOVES = {("ub", "l1"), ("l0c", "ub"), ("l0c", "l1")}
"""Legal (source, target) spaces of `tile.move`."""


def _check_rank(op: IRDLOperation, gm_type: GmType, index: tuple[Expr, ...]) -> None:
    if len(index) != gm_type.rank:
        raise invalid(
            f"{op.name}: the index has another rank than the array",
            expected=f"{gm_type.rank} expressions for {gm_type}",
            got=format_shape(index),
        )


@irdl_op_definition
class LoadOp(IRDLOperation):
    """`out[axes] = source[index(axes)]`; outside the guards the value is `otherwise`."""

    name = "tile.load"

    source = operand_def(GmType)
    index_attr = prop_def(ShapeAttr, prop_name="index")
    guards_attr = opt_prop_def(GuardsAttr, prop_name="guards")
    otherwise_attr = opt_prop_def(NumberAttr, prop_name="otherwise")
    res = result_def(TileType)

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        source: SSAValue,
        index: Sequence[ExprLike],
        result_type: TileType,
        guards: Sequence[GuardLike] = (),
        otherwise: int | float | None = None,
    ) -> None:
        super().__init__(
            operands=[source],
            properties={
                "index": ShapeAttr.of(index),
                "guards": GuardsAttr.of(guards) if guards else None,
                "otherwise": NumberAttr.of(otherwise) if otherwise is not None else None,
            },
            result_types=[result_type],
        )

    @property
    def index(self) -> tuple[Expr, ...]:
        return self.index_attr.data

    @property
    def guards(self) -> tuple[Guard, ...]:
        return self.guards_attr.data if self.guards_attr is not None else ()

    @property
    def otherwise(self) -> int | float | None:
        return self.otherwise_attr.value if self.otherwise_attr is not None else None

    def verify_(self) -> None:
        source, result = self.source.type, self.res.type
        assert isinstance(source, GmType) and isinstance(result, TileType)
        _check_rank(self, source, self.index)
        if source.element != result.element:
            raise invalid(
                "tile.load doesn't convert",
                expected=f"a tile of {source.dtype}",
                got=result,
                hint="load the dtype of the array and add a tile.map cast",
            )
        if result.space == "l0c":
            raise invalid("tile.load can't fill l0c", expected="ub or l1", got=result)
        if bool(self.guards) != (self.otherwise is not None):
            raise invalid(
                "a guarded load needs the value outside its guard, and no other load has one",
                expected="`where [...] else c`",
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(format_shape(self.index))
        if self.guards:
            printer.print_string(f" where {format_guards(self.guards)}")
        if self.otherwise is not None:
            printer.print_string(f" else {format_number(self.otherwise)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parse_operand(parser)
        index = parse_shape(parser)
        guards = parse_guards(parser) if parser.parse_optional_keyword("where") else ()
        otherwise = parse_number(parser) if parser.parse_optional_keyword("else") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(source, index, parse_tile_type(parser), guards, otherwise)
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class StoreOp(IRDLOperation):
    """`target[index(axes)] = value[axes]` inside the guards; with `add` the values are added."""

    name = "tile.store"

    value = operand_def(TileType)
    target = operand_def(GmType)
    index_attr = prop_def(ShapeAttr, prop_name="index")
    guards_attr = opt_prop_def(GuardsAttr, prop_name="guards")
    add_attr = opt_prop_def(UnitAttr, prop_name="add")

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        target: SSAValue,
        index: Sequence[ExprLike],
        guards: Sequence[GuardLike] = (),
        add: bool = False,
    ) -> None:
        super().__init__(
            operands=[value, target],
            properties={
                "index": ShapeAttr.of(index),
                "guards": GuardsAttr.of(guards) if guards else None,
                "add": UnitAttr() if add else None,
            },
        )

    @property
    def index(self) -> tuple[Expr, ...]:
        return self.index_attr.data

    @property
    def guards(self) -> tuple[Guard, ...]:
        return self.guards_attr.data if self.guards_attr is not None else ()

    @property
    def add(self) -> bool:
        return self.add_attr is not None

    def verify_(self) -> None:
        value, target = self.value.type, self.target.type
        assert isinstance(value, TileType) and isinstance(target, GmType)
        _check_rank(self, target, self.index)
        if target.role == "in":
            raise invalid("tile.store writes an input", expected="a target of role out or ws", got=target)
        if value.space == "l1":
            raise invalid("tile.store can't read l1", expected="ub or l0c", got=value)
        if value.element != target.element and not (value.space == "l0c" and target.dtype.is_float):
            raise invalid(
                "tile.store doesn't convert",
                expected=f"a tile of {target.dtype}",
                got=value,
                hint="add a tile.map cast before the store",
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        printer.print_operand(self.target)
        printer.print_string(format_shape(self.index))
        if self.guards:
            printer.print_string(f" where {format_guards(self.guards)}")
        if self.add:
            printer.print_string(" add")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parse_operand(parser)
        parser.parse_punctuation(",")
        target = parse_operand(parser)
        index = parse_shape(parser)
        guards = parse_guards(parser) if parser.parse_optional_keyword("where") else ()
        add = parser.parse_optional_keyword("add") is not None
        op = cls(value, target, index, guards, add)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class MoveOp(IRDLOperation):
    """Hands a tile to another space: ub -> l1, l0c -> ub (through a workspace ring), l0c -> l1 (Fixpipe)."""

    name = "tile.move"

    source = operand_def(TileType)
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, result_type: TileType) -> None:
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.source.type, self.res.type
        assert isinstance(source, TileType) and isinstance(result, TileType)
        if (source.space, result.space) not in MOVES:
            raise invalid(
                "no such path on the chip",
                expected=" or ".join(f"{a} -> {b}" for a, b in sorted(MOVES)),
                got=f"{source.space} -> {result.space}",
            )
        if source.axes != result.axes:
            raise invalid("tile.move keeps the axes", expected=source, got=result)
        converts = source.space == "l0c" and source.dtype.is_float and result.dtype in (dt.F16, dt.BF16)
        if source.element != result.element and not converts:
            raise invalid("tile.move keeps the dtype", expected=source.dtype, got=result.dtype)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parse_operand(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(source, parse_tile_type(parser))
        op.attributes.update(attributes)
        return op


def parse_tile_type(parser: Parser) -> TileType:
    """Parse a type that has to be a tile."""
    position = parser.pos
    type = parser.parse_type()
    if not isinstance(type, TileType):
        parser.raise_error("expected a !tile.t type", position)
    return type
