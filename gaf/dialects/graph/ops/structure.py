# SPDX-License-Identifier: Apache-2.0
"""Ops that hold a graph together: constants, weights, and the fused region with its terminator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr
from gaf.dialects.graph.contract import GraphOp, graph_op, str_prop
from gaf.dialects.graph.meaning import Opaque, OpMeaning
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError, InvalidInputError

INLINE_LIMIT = 64  # elements; larger constants live in the weight store


class ConstantLikeProperty(ConstantLike):
    """The value of `graph.constant` is its `value` property."""

    def get_constant_value(self, op: Operation) -> Attribute | None:
        return op.properties.get("value")


@graph_op
class ConstantOp(GraphOp):
    """A constant of at most 64 elements, written in the IR."""

    name = "graph.constant"
    value = prop_def(ArrayAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ConstantLikeProperty())

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        array = attrs["value"]
        return [TensorType.of(array.shape, dt.of_numpy(array.dtype))]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        array = self.value.array
        return [array.astype(np.float64) if wide and dt.of_numpy(array.dtype).is_float else array]

    def meaning(self) -> OpMeaning:
        return Opaque("a constant")


@graph_op
class WeightOp(GraphOp):
    """A constant that lives in the model's weight store under `weight`; the IR holds only its name."""

    name = "graph.weight"
    weight = str_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def of(cls, name: str, type: TensorType) -> Self:
        return cls.create(result_types=[type], properties={"weight": StringAttr(name)})

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        raise InternalError("the type of graph.weight comes from the weight store; use WeightOp.of")

    def verify_(self) -> None:
        pass  # any tensor type; the interpreter checks it against the store

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        raise InternalError(f"weight '{self.weight.data}' needs the model's weight store")

    def meaning(self) -> OpMeaning:
        return Opaque("a weight")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a `graph.fused` region; its operands are the results of the fused op."""

    name = "graph.yield"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "($values^ `:` type($values))? attr-dict"


IN_STAGES = "in_stages"


@irdl_op_definition
class FusedOp(IRDLOperation):
    """Ops that become one kernel. Isolated, one level deep; every outside value is an operand.

    Text: `%y = graph.fused "kind" @label (%a = %x : type, ...) -> (types) { ... graph.yield %v : type }`.
    """

    name = "graph.fused"
    kind = prop_def(StringAttr)
    label = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure())

    @classmethod
    def build_from(
        cls, kind: str, label: str, inputs: Sequence[SSAValue], body: Region, in_stages: bool = False
    ) -> Self:
        """A fused op whose result types are those of the region's yield. `in_stages`: see the property."""
        terminator = body.block.last_op
        assert terminator is not None
        return cls.create(
            operands=list(inputs),
            result_types=[v.type for v in terminator.operands],
            properties={"kind": StringAttr(kind), "label": StringAttr(label)},
            attributes={IN_STAGES: UnitAttr()} if in_stages else {},
            regions=[body],
        )

    @property
    def in_stages(self) -> bool:
        """Is its kernel to run in stages with barriers, where it could hand rows over as well?"""
        return IN_STAGES in self.attributes

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def members(self) -> list[GraphOp]:
        """The graph ops of the region, in order."""
        return [op for op in self.block.ops if isinstance(op, GraphOp)]

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        terminator = self.block.last_op
        assert terminator is not None
        return tuple(terminator.operands)

    def verify_(self) -> None:
        block = self.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("graph.fused: the region must end with graph.yield")
        for what, got, expected in (
            ("region arguments", [a.type for a in block.args], [o.type for o in self.inputs]),
            ("yielded values", [v.type for v in block.last_op.operands], [r.type for r in self.outputs]),
        ):
            if got != expected:
                raise VerifyException(
                    f"graph.fused @{self.label.data}: types of {what} differ from the op's: "
                    f"expected ({', '.join(map(str, expected))}), got ({', '.join(map(str, got))})"
                )
        for op in block.ops:
            if not isinstance(op, GraphOp | YieldOp):
                raise VerifyException(f"graph.fused: only graph ops may be fused, got {op.name}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.kind)
        printer.print_string(" ")
        printer.print_symbol_name(self.label.data)
        with printer.in_parens():

            def bind(pair: tuple[SSAValue, SSAValue]) -> None:
                arg, outer = pair
                printer.print_ssa_value(arg)
                printer.print_string(" = ")
                printer.print_ssa_value(outer)
                printer.print_string(" : ")
                printer.print_attribute(arg.type)

            printer.print_list(list(zip(self.block.args, self.inputs)), bind)
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list([r.type for r in self.outputs], printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = parser.parse_attribute()
        label = parser.parse_symbol_name()

        def binding() -> tuple[Parser.Argument, SSAValue]:
            arg = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            outer = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            type_ = parser.parse_type()
            return arg.resolve(type_), parser.resolve_operand(outer, type_)

        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([a for a, _ in bindings])
        return cls.create(
            operands=[o for _, o in bindings],
            result_types=results,
            properties={"kind": kind, "label": label},
            attributes=attributes.data if attributes else {},
            regions=[body],
        )


def constant(array: np.ndarray) -> ConstantOp:
    """A `graph.constant`; raises InvalidInputError above 64 elements."""
    array = np.asarray(array)
    if array.size > INLINE_LIMIT:
        raise InvalidInputError(
            "constant too large for the IR", expected=f"at most {INLINE_LIMIT} elements", got=array.size,
            hint="put it into the weight store and use graph.weight",
        )
    return ConstantOp.create(
        result_types=[TensorType.of(array.shape, dt.of_numpy(array.dtype))], properties={"value": ArrayAttr.of(array)}
    )
