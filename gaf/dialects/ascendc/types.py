# SPDX-License-Identifier: Apache-2.0
"""The types of the ascendc dialect: GlobalTensor, LocalTensor, TQue, TBuf and gaf's BlockMmad."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.ascendc.attributes import Position, PositionAttr, invalid
from gaf.dialects.common import dtype as dt
from gaf.errors import UnsupportedError

MMAD_INPUTS = ("f32", "f16", "bf16")


def _element(value: dt.DType | Attribute) -> Attribute:
    return value.mlir if isinstance(value, dt.DType) else value


def _check_element(element: Attribute) -> dt.DType:
    try:
        return dt.of(element)
    except UnsupportedError as error:
        raise VerifyException(str(error)) from None


class _TensorType(ParametrizedAttribute, TypeAttribute):
    """Base of the two tensor types: one element type in angle brackets."""

    element: Attribute = param_def()

    @property
    def dtype(self) -> dt.DType:
        return dt.of(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parser.parse_type(),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)


@irdl_attr_definition
class GmType(_TensorType):
    """`!ascendc.gm<f16>`: a GlobalTensor, a flat array in global memory. `i1` is one byte per element."""

    name = "ascendc.gm"

    @classmethod
    def of(cls, element: dt.DType | Attribute) -> GmType:
        return cls(_element(element))

    def verify(self) -> None:
        _check_element(self.element)


@irdl_attr_definition
class LocalType(_TensorType):
    """`!ascendc.local<f32>`: a LocalTensor in the unified buffer; its start is 32-byte aligned."""

    name = "ascendc.local"

    @classmethod
    def of(cls, element: dt.DType | Attribute) -> LocalType:
        return cls(_element(element))

    def verify(self) -> None:
        if _check_element(self.element).is_bool:
            raise invalid("a LocalTensor can't hold i1", expected="ui8 bytes or f32 values 0 and 1", got="i1")


@irdl_attr_definition
class QueueType(ParametrizedAttribute, TypeAttribute):
    """`!ascendc.queue<vecin, 2>`: a TQue of that position with so many buffers (and that depth)."""

    name = "ascendc.queue"

    position: PositionAttr = param_def()
    buffers: IntAttr = param_def()

    @classmethod
    def of(cls, position: Position | str, buffers: int) -> QueueType:
        return cls(PositionAttr(Position(position)), IntAttr(buffers))

    def verify(self) -> None:
        if self.position.data is Position.VECCALC:
            raise invalid(
                "a queue moves data in or out",
                expected="vecin or vecout",
                got="veccalc",
                hint="temporaries live in an ascendc.buf<veccalc>",
            )
        if not 1 <= self.buffers.data <= 8:
            raise invalid(
                "buffers of one queue", expected="1..8 (event ids of a pipe pair)", got=self.buffers.data
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            position = PositionAttr(PositionAttr.parse_parameter(parser))
            parser.parse_punctuation(",")
            return (position, IntAttr(parser.parse_integer()))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.position.data.value}, {self.buffers.data}>")


@irdl_attr_definition
class BufType(ParametrizedAttribute, TypeAttribute):
    """`!ascendc.buf<veccalc>`: a TBuf, memory without queue operations."""

    name = "ascendc.buf"

    position: PositionAttr = param_def()

    @classmethod
    def of(cls, position: Position | str = Position.VECCALC) -> BufType:
        return cls(PositionAttr(Position(position)))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (PositionAttr(PositionAttr.parse_parameter(parser)),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.position.data.value}>")


@irdl_attr_definition
class MmadType(ParametrizedAttribute, TypeAttribute):
    """`!ascendc.mmad<f16, nt, f32>`: `gaf::BlockMmad` for operands f16, A as stored, B transposed, C in f32.

    The two letters are the storage of A and B: `n` = [m, k] / [k, n], `t` = [k, m] / [n, k].
    """

    name = "ascendc.mmad"

    input: Attribute = param_def()
    storage: StringAttr = param_def()
    output: Attribute = param_def()

    @classmethod
    def of(
        cls, input: dt.DType | Attribute, trans_a: bool, trans_b: bool, output: dt.DType | Attribute = dt.F32
    ) -> MmadType:
        storage = ("t" if trans_a else "n") + ("t" if trans_b else "n")
        return cls(_element(input), StringAttr(storage), _element(output))

    @property
    def trans(self) -> tuple[bool, bool]:
        """Whether A and B are stored transposed."""
        return self.storage.data[0] == "t", self.storage.data[1] == "t"

    def verify(self) -> None:
        source, target = _check_element(self.input), _check_element(self.output)
        if self.storage.data not in ("nn", "nt", "tn", "tt"):
            raise invalid("storage of A and B", expected="nn, nt, tn or tt", got=self.storage.data)
        if source.name not in MMAD_INPUTS:
            raise invalid("operands of BlockMmad", expected=" or ".join(MMAD_INPUTS), got=source.name)
        if target not in (dt.F32, source):
            raise invalid("result of BlockMmad", expected=f"f32 or {source.name}", got=target.name)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            source = parser.parse_type()
            parser.parse_punctuation(",")
            storage = parser.parse_keyword_in(("nn", "nt", "tn", "tt"))
            parser.parse_punctuation(",")
            target = parser.parse_type()
        return (source, StringAttr(storage), target)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.input)
        printer.print_string(f", {self.storage.data}, ")
        printer.print_attribute(self.output)
        printer.print_string(">")


TYPES: tuple[type[Attribute], ...] = (GmType, LocalType, QueueType, BufType, MmadType)
