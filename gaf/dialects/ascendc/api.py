# SPDX-License-Identifier: Apache-2.0
"""The contract of an op of this dialect: operands, parameters, C++ text, pipe, memory, cost and meaning.

An API call is one class. Everything that another part of the compiler needs to know about it is asked of the
class: the verifier, the printer, synchronisation, the cost model and the interpreter hold no list of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation, OptionalDef
from xdsl.parser import Parser
from xdsl.printer import Printer

from gaf.dialects.ascendc.attributes import PARAM_KINDS, ParamKind, Pipe, Scalar, ScalarAttr, invalid
from gaf.dialects.ascendc.cycles import FREE, Cost
from gaf.dialects.ascendc.types import GmType, LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, expr, round_up

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

BLOCK_BYTES = 32


class Cpp(Protocol):
    """What the printer offers to an op that writes its own text."""

    def value(self, value: SSAValue) -> str:
        """The C++ name (or inlined expression) of a value."""
        ...

    def expr(self, e: Expr, tight: bool = False) -> str:
        """C++ text of an integer expression; `tight`: in parentheses unless it is a single factor."""
        ...

    def declare(self, value: SSAValue, suffix: str = "") -> str:
        """A fresh C++ name for a value that this op defines."""
        ...


@dataclass(frozen=True)
class Access:
    """One operand's memory that a call reads or writes: `elements` of the operand's type from its start."""

    name: str
    value: SSAValue
    write: bool
    elements: Expr


def pitch(lanes: ExprLike, dtype: dt.DType = dt.F32) -> Expr:
    """Row pitch in elements of a tile with so many lanes: rows start 32-byte aligned."""
    return round_up(lanes, BLOCK_BYTES // dtype.bytes)


def tile(rows: ExprLike, lanes: ExprLike, dtype: dt.DType = dt.F32) -> Expr:
    """Elements of a rows x lanes tile with its row padding."""
    return expr(rows) * pitch(lanes, dtype)


def local_dtype(value: SSAValue) -> dt.DType:
    """The element type of a LocalTensor or GlobalTensor value."""
    assert isinstance(value.type, LocalType | GmType)
    return value.type.dtype


def cpp_scalar(value: Scalar, dtype: dt.DType, cpp: Cpp) -> str:
    """A scalar operand as a C++ expression of the element type `dtype`."""
    if value.expr is not None:
        return f"static_cast<{dtype.cpp}>({cpp.expr(value.expr)})"
    if dtype.is_int:
        return str(int(value.value)) if dtype is dt.I32 else f"static_cast<{dtype.cpp}>({int(value.value)})"
    text = _float_literal(value.value)
    return text if dtype is dt.F32 else f"static_cast<{dtype.cpp}>({text})"


def _float_literal(value: float) -> str:
    import numpy as np

    number = np.float32(value)
    if np.isnan(number):
        return "gaf::NanF()"
    if np.isinf(number):
        return "gaf::InfF()" if number > 0 else "-gaf::InfF()"
    text = repr(float(str(number)))
    return text + "f"


def defined_operand(parser: Parser) -> SSAValue:
    """Parse `%name` of a value that is defined above; its type is known, so the text doesn't repeat it."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error("value used before it is defined", operand.span)
    return values[operand.index]


class AscendOp(IRDLOperation):
    """Base of ops without regions: one constructor and one syntax for all.

    Text: `%r = ascendc.op %a, %b [param = value, ...] : result_type`.
    Operand types are known from their definition.
    """

    def __init__(
        self, *operands: SSAValue | Operation | None, result: Attribute | None = None, **params: Any
    ) -> None:
        definition = type(self).get_irdl_definition()
        padded: list[Any] = list(operands) + [None] * (len(definition.operands) - len(operands))
        for i, (_, operand_def) in enumerate(definition.operands):
            if isinstance(operand_def, OptionalDef):
                padded[i] = [padded[i]] if padded[i] is not None else []
        properties: dict[str, Attribute] = {}
        for name, value in params.items():
            if name not in definition.properties:
                raise TypeError(
                    f"{definition.name} has no parameter '{name}', only {', '.join(definition.properties)}"
                )
            if value is not None:
                properties[name] = (
                    value if isinstance(value, Attribute) else self.kinds()[name].convert(value)
                )
        ordered = {name: properties[name] for name in definition.properties if name in properties}
        super().__init__(operands=padded, result_types=[] if result is None else [result], properties=ordered)

    @classmethod
    def kinds(cls) -> dict[str, ParamKind]:
        """How each parameter is written, in declaration order."""
        found: dict[str, ParamKind] = {}
        for name, definition in cls.get_irdl_definition().properties.items():
            assert isinstance(definition.constr, BaseAttr)
            found[name] = PARAM_KINDS[definition.constr.attr]
        return found

    @classmethod
    def parse(cls, parser: Parser) -> AscendOp:
        definition = cls.get_irdl_definition()
        operands: list[SSAValue] = []
        for i in range(len(definition.operands)):
            optional = isinstance(definition.operands[i][1], OptionalDef)
            if i and optional and parser.parse_optional_punctuation(",") is None:
                break
            if i and not optional:
                parser.parse_punctuation(",")
            operands.append(defined_operand(parser))
        kinds, params = cls.kinds(), {}

        def param() -> None:
            name = parser.parse_identifier()
            if name not in kinds:
                parser.raise_error(f"{cls.name} has no parameter '{name}', only {', '.join(kinds)}")
            parser.parse_punctuation("=")
            params[name] = kinds[name].parse(parser)

        parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, param)
        result: Attribute | None = None
        if definition.results:
            parser.parse_punctuation(":")
            result = parser.parse_type()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(*operands, result=result, **params)
        if attributes is not None:
            op.attributes = dict(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        for i, operand in enumerate(self.operands):
            printer.print_string(", " if i else " ")
            printer.print_ssa_value(operand)
        kinds = self.kinds()
        given = [f"{n} = {kinds[n].format(self.properties[n])}" for n in kinds if n in self.properties]
        if given:
            printer.print_string(f" [{', '.join(given)}]")
        if self.results:
            printer.print_string(" : ")
            printer.print_attribute(self.results[0].type)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)

    # -- questions that passes ask ----------------------------------------------------------------

    def expressions(self) -> Iterator[tuple[str, Expr]]:
        """Every integer expression among the parameters, with the parameter's name."""
        for name, attr in self.properties.items():
            if isinstance(attr, ExprAttr):
                yield name, attr.data
            elif isinstance(attr, ScalarAttr) and attr.data.expr is not None:
                yield name, attr.data.expr

    def param(self, name: str) -> Expr:
        """An integer parameter."""
        attr = self.properties[name]
        assert isinstance(attr, ExprAttr)
        return attr.data

    def operand_named(self, name: str) -> SSAValue:
        """The operand of that name (for messages and templates)."""
        return getattr(self, name)

    def operand_names(self) -> list[str]:
        """Names of the operands that are present, in order."""
        names = [n for n, _ in type(self).get_irdl_definition().operands]
        return names[: len(self.operands)]

    def cpp_fields(self, cpp: Cpp) -> dict[str, str]:
        """What a C++ template of this op may use: `{operand}`, `{param}`, and `{T}`, the type of the first
        tensor.

        A tensor operand X with a parameter X_at becomes X[at].
        """
        fields: dict[str, str] = {}
        tensor: dt.DType | None = None
        for name in self.operand_names():
            value = self.operand_named(name)
            text = cpp.value(value)
            at = self.properties.get(f"{name}_at")
            if isinstance(at, ExprAttr) and at.data != 0:
                text = f"{text}[{cpp.expr(at.data)}]"
            fields[name] = text
            if tensor is None and isinstance(value.type, LocalType | GmType):
                tensor = value.type.dtype
        if tensor is not None:
            fields["T"] = tensor.cpp
        for name, attr in self.properties.items():
            if isinstance(attr, ExprAttr):
                fields[name] = cpp.expr(attr.data)
            elif isinstance(attr, ScalarAttr):
                fields[name] = cpp_scalar(attr.data, tensor or dt.F32, cpp)
            elif hasattr(getattr(attr, "data", None), "cpp"):
                fields[name] = attr.data.cpp  # type: ignore[attr-defined]
        return fields

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        """The statements of this op."""
        raise NotImplementedError(self.name)

    def run(self, core: Core) -> Iterator[str] | None:
        """Execute on a core of the interpreter; an iterator yields what it waits for."""
        raise NotImplementedError(self.name)


class ApiOp(AscendOp):
    """Base of API and device-library calls.

    CPP: C++ template over `cpp_fields`. PIPE: where it runs. HEADER: device-library header it needs.
    DTYPES: allowed element types per operand. SAME: groups of operands with one element type.
    INPLACE: operands that dst may alias; other overlaps of read and written operands are refused.
    """

    CPP: ClassVar[str]
    PIPE: ClassVar[Pipe] = Pipe.V
    HEADER: ClassVar[str] = "gaf_compat.h"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = ()
    INPLACE: ClassVar[tuple[str, ...]] = ()

    def accesses(self) -> tuple[Access, ...]:
        """Local memory read and written, reads first; scratch operands count as written."""
        return ()

    def cost(self) -> tuple[Cost, ...]:
        """Instructions with amounts; their cycles add up on the op's pipe."""
        return FREE

    def cycles(self, env: dict[str, int]) -> float:
        """Modelled cycles on the op's pipe when the names have the values in `env`."""
        return sum(c.cycles(env) for c in self.cost())

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return [self.CPP.format_map(self.cpp_fields(cpp)) + ";"]

    def read(self, name: str, elements: ExprLike) -> Access:
        return Access(name, self.operand_named(name), False, expr(elements))

    def written(self, name: str, elements: ExprLike) -> Access:
        return Access(name, self.operand_named(name), True, expr(elements))

    def verify_(self) -> None:
        from gaf.dialects.ascendc.memory import check_use

        for name, allowed in self.DTYPES.items():
            if name in self.operand_names():
                got = local_dtype(self.operand_named(name))
                if got not in allowed:
                    raise invalid(
                        f"{self.name}: element type of {name}",
                        expected=" or ".join(d.name for d in allowed),
                        got=got.name,
                    )
        for group in self.SAME:
            types = {
                n: _storage(local_dtype(self.operand_named(n))) for n in group if n in self.operand_names()
            }
            if len(set(types.values())) > 1:
                raise invalid(
                    f"{self.name}: {', '.join(types)} have one element type",
                    got=", ".join(f"{n} {t.name}" for n, t in types.items()),
                )
        for name, value in self.expressions():
            number = value.as_int()
            if number is not None and number < 0 and name not in self.SIGNED:
                raise invalid(f"{self.name}: {name} is negative", expected=">= 0", got=number)
        check_use(self)

    SIGNED: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be negative."""

    SCALAR_READS: ClassVar[tuple[str, ...]] = ()
    """Operands in global memory that the scalar unit reads, through a data cache that isn't coherent."""


def _storage(dtype: dt.DType) -> dt.DType:
    """Booleans are bytes in memory."""
    return dt.U8 if dtype.is_bool else dtype


def root(value: SSAValue) -> SSAValue:
    """The buffer, queue tensor or argument that a sub-tensor or reinterpreted tensor is part of."""
    while isinstance(value, OpResult) and getattr(value.op, "IS_VIEW", False):
        value = value.op.operands[0]
    return value
