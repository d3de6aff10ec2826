# SPDX-License-Identifier: Apache-2.0
"""Tile ops that order rows: the first elements of a row are a state that chunks of it are joined to.

A state is a tile whose last axis holds pairs: the element number 2 i is the i-th value in order, the one behind it
its place along the row (-1: no element yet).
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.order import ORDERS, PLACES, RANKED
from gaf.dialects.tile.attributes import format_names, invalid, parse_names, parse_operand_list
from gaf.dialects.tile.compute import check_ub, print_operands, tile_type
from gaf.dialects.tile.memory import parse_tile_type
from gaf.dialects.tile.types import TileType


def _check_order(order: str) -> None:
    if order not in ORDERS:
        raise invalid(f"unknown order '{order}'", expected=" or ".join(ORDERS), got=order)


@irdl_op_definition
class RankOp(IRDLOperation):
    """The state `state` with the current window of `value` along the axis `over` joined to it.

    Windows come in order; `order` says whether the largest or the smallest elements come first.
    """

    name = "tile.rank"

    order_attr = prop_def(StringAttr, prop_name="order")
    over_attr = prop_def(StringAttr, prop_name="over")
    value = operand_def(TileType)
    state = operand_def(TileType)
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, order: str, value: SSAValue, state: SSAValue, over: str) -> None:
        super().__init__(
            operands=[value, state],
            properties={"order": StringAttr(order), "over": StringAttr(over)},
            result_types=[state.type],
        )

    @property
    def order(self) -> str:
        return self.order_attr.data

    @property
    def over(self) -> str:
        return self.over_attr.data

    def verify_(self) -> None:
        _check_order(self.order)
        check_ub(self)
        value, state = tile_type(self.value), tile_type(self.state)
        if value.dtype != dt.F32 or state.dtype != dt.F32:
            raise invalid("tile.rank orders f32 tiles", expected=dt.F32, got=f"{value.dtype}, {state.dtype}")
        if value.axes[-1:] != (self.over,):
            raise invalid("tile.rank orders the lanes of its operand", expected=value.axes[-1:], got=self.over)
        if state.axes[:-1] != value.axes[:-1] or self.res.type != state:
            raise invalid(
                "the state of tile.rank has the rows of its operand, and an axis of pairs",
                expected=format_names([*value.axes[:-1], "pairs"]),
                got=format_names(state.axes),
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.order}(")
        print_operands(printer, (self.value, self.state))
        printer.print_string(f") over [{self.over}]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        order = parser.parse_identifier()
        operands = parse_operand_list(parser)
        if len(operands) != 2:
            parser.raise_error("tile.rank has two operands: the tile and the state")
        parser.parse_keyword("over")
        (over,) = parse_names(parser)
        op = cls(order, operands[0], operands[1], over)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class RankedOp(IRDLOperation):
    """The values of a state (f32), or their places (i32), along an axis of half as many elements."""

    name = "tile.ranked"

    what_attr = prop_def(StringAttr, prop_name="what")
    order_attr = prop_def(StringAttr, prop_name="order")
    state = operand_def(TileType)
    res = result_def(TileType)

    traits = traits_def(Pure())

    def __init__(self, what: str, order: str, state: SSAValue, axes: tuple[str, ...]) -> None:
        kind = dt.I32 if what == PLACES else dt.F32
        super().__init__(
            operands=[state],
            properties={"what": StringAttr(what), "order": StringAttr(order)},
            result_types=[TileType.of(axes, kind)],
        )

    @property
    def what(self) -> str:
        return self.what_attr.data

    @property
    def order(self) -> str:
        return self.order_attr.data

    def verify_(self) -> None:
        _check_order(self.order)
        check_ub(self)
        if self.what not in RANKED:
            raise invalid(f"unknown part '{self.what}' of a state", expected=" or ".join(RANKED), got=self.what)
        state, result = tile_type(self.state), tile_type(self.res)
        if result.axes[:-1] != state.axes[:-1] or len(result.axes) != len(state.axes):
            raise invalid(
                "the result of tile.ranked has the rows of the state", expected=format_names(state.axes[:-1]),
                got=format_names(result.axes[:-1]),
            )  # fmt: skip
        if result.dtype != (dt.I32 if self.what == PLACES else dt.F32):
            raise invalid("places are i32, values f32", got=result.dtype)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.what} {self.order}(")
        print_operands(printer, (self.state,))
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        what, order = parser.parse_identifier(), parser.parse_identifier()
        (state,) = parse_operand_list(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(what, order, state, parse_tile_type(parser).axes)
        op.attributes.update(attributes)
        return op


OPS = (RankOp, RankedOp)
