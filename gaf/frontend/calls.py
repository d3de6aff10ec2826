# SPDX-License-Identifier: Apache-2.0
"""Calls of graph ops by their `.gaf` names: which arguments are operands, which are properties, and their defaults.

The `.gaf` language and the tracer of Python ops share this, so a call means the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr, ShapeAttr
from gaf.dialects.common.index import Expr, expr
from gaf.dialects.common.scalar import Extent
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp, property_kinds, tensor_type
from gaf.dialects.graph.meaning import Meaning, Stage
from gaf.dialects.graph.ops.common import number
from gaf.dialects.graph.ops.custom import GenericOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.language.errors import near

Importable = registry.Importable
Value = Any
"""What a call works on: SSAValue (a tensor), Expr (a size), int, float, bool, str, DType, or a list of these."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function: an operand or a property. `default` is None if there is none."""

    name: str
    kind: str  # operand, operands (any number), dims, ints, int, float, bool, string, element type, value
    required: bool
    default: Any = None


def parameters(entry: Importable) -> list[Parameter]:
    """The parameters of a registry function, operands first."""
    if not issubclass(entry, GraphOp):
        operands = [Parameter(n.rstrip("?"), "operand", not n.endswith("?")) for n in entry.GAF_OPERANDS]
        return operands + [Parameter(n, _kind_of(d), False, d) for n, d in entry.GAF_DEFAULTS.items()]
    found: list[Parameter] = []
    for name, definition in entry.get_irdl_definition().operands:
        if isinstance(definition, OptOperandDef):
            found.append(Parameter(name, "operand", False))
        elif isinstance(definition, VarOperandDef):
            found.append(Parameter(name, "operands", True))
        else:
            found.append(Parameter(name, "operand", name not in entry.GAF_OPTIONAL))
    defaults = entry.gaf_defaults()
    for name, attribute in property_kinds(entry).items():
        default = defaults.get(name)
        if attribute is ShapeAttr:
            kind = "dims"
        elif callable(default) or default is None:
            kind = {DenseArrayBase: "ints", IntegerAttr: "int", FloatAttr: "float", StringAttr: "string",
                    ArrayAttr: "value"}.get(attribute, "element type")  # type: ignore[arg-type]  # fmt: skip
        else:
            kind = _kind_of(default)
        found.append(Parameter(name, kind, name not in defaults, default))
    return found


def _kind_of(default: Any) -> str:
    return {bool: "bool", int: "int", float: "float", str: "string", tuple: "ints"}[type(default)]


class CallContext:
    """Implements `gaf.dialects.graph.contract.ImportContext` for a call."""

    opset = 18

    def __init__(
        self,
        builder: GraphBuilder,
        name: str,
        operands: Sequence[SSAValue | None] = (),
        attrs: Mapping[str, Any] | None = None,
        num_outputs: int = 1,
        location: str | None = None,
    ) -> None:
        self.builder = builder
        self.op_type = name
        self.operands = list(operands)
        self.num_outputs = num_outputs
        self.location = location
        self._attrs = dict(attrs or {})

    def attr(self, name: str, default: Any = None) -> Any:
        return self._attrs.get(name, default)

    def operand(self, index: int) -> SSAValue | None:
        return self.operands[index] if index < len(self.operands) else None

    def constant(self, index: int) -> np.ndarray | None:
        value = self.operand(index)
        return None if value is None else self.builder.known(value)

    def dims(self, index: int) -> tuple[Expr, ...] | None:
        value = self.operand(index)
        return None if value is None else self.builder.dims(value)

    def constant_value(self, array: np.ndarray) -> SSAValue:
        return self.builder.constant(array)

    def random_source(self) -> tuple[SSAValue, int]:
        return self.builder.random_source("gaf")

    def new_symbol(self, stem: str) -> Expr:
        return self.builder.new_symbol(stem)

    def emit(self, op: type[GraphOp], operands: Sequence[SSAValue], **attributes: Any) -> Any:
        return self.builder.emit(op, operands, attributes, self.location)

    def assume(self, condition: Expr, what: str) -> None:
        self.builder.assume(condition, what)

    def unsupported(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(what, **details)


def call(
    builder: GraphBuilder,
    name: str,
    args: Sequence[Value],
    named: Mapping[str, Value] | None = None,
    location: str | None = None,
) -> list[SSAValue]:
    """The results of a registry function.

    Numbers among the operands become constants of the element type of the first tensor. Raises
    InvalidInputError for arguments that the function doesn't take, and whatever the op says about them.
    """
    entry = registry.by_gaf(name)
    assert entry is not None
    operands, attrs = bind(builder, entry, name, args, dict(named or {}), location)
    if issubclass(entry, GraphOp):
        ctx = CallContext(builder, name, location=location)
        result = entry.from_gaf(ctx, [o for o in operands if o is not None], attrs)
    else:
        result = _expand(builder, entry, name, operands, attrs, location)
    return list(result) if isinstance(result, list | tuple) else [result]


def _expand(
    builder: GraphBuilder,
    entry: type[Expansion],
    name: str,
    operands: Sequence[SSAValue | None],
    attrs: dict[str, Any],
    location: str | None,
) -> Any:
    outputs = 1
    if name == "split":
        outputs = len(attrs["split"]) or attrs.pop("num_outputs", 0)
        if not outputs:
            raise InvalidInputError(
                "split needs the number of parts", expected="num_outputs=2 or split=[3, 5]"
            )
        if not attrs["split"]:
            del attrs["split"]
    given = {k: v for k, v in attrs.items() if v is not None}
    return entry.from_onnx(CallContext(builder, name, operands, given, outputs, location))


def bind(
    builder: GraphBuilder,
    entry: Importable,
    name: str,
    args: Sequence[Value],
    named: dict[str, Value],
    location: str | None = None,
) -> tuple[list[SSAValue | None], dict[str, Any]]:
    """Operands (None: left out) and properties of a call. Raises InvalidInputError."""
    known = parameters(entry)
    wanted = [p for p in known if p.kind in ("operand", "operands")]
    properties = [p for p in known if p.kind not in ("operand", "operands")]
    if "axis" in named and not any(p.name == "axis" for p in known) and any(p.name == "axes" for p in known):
        named["axes"] = named.pop("axis")  # one axis of a function that takes several
    for key in named:
        if not any(p.name == key for p in known):
            raise InvalidInputError(
                f"'{name}' has no argument '{key}'",
                expected=", ".join(p.name for p in known) or "no arguments",
                hint=near(key, [p.name for p in known]),
            )
    variadic = any(p.kind == "operands" for p in wanted)
    positional = list(args)
    if variadic:  # the last operand takes what is left; a list counts as its elements
        head = len(wanted) - 1
        rest = positional[head:]
        if len(rest) == 1 and isinstance(rest[0], list | tuple):
            rest = list(rest[0])
        operands: list[Any] = positional[:head] + rest
        if not rest:
            raise InvalidInputError(f"'{name}' needs operands", expected=wanted[-1].name)
    else:
        operands = positional[: len(wanted)]
        extra = positional[len(wanted) :]
        if len(extra) > len(properties):
            raise InvalidInputError(
                f"'{name}' got too many arguments",
                expected=_signature(known),
                got=f"{len(positional)} arguments",
            )
        for parameter, value in zip(properties, extra):
            if parameter.name in named:
                raise InvalidInputError(f"argument '{parameter.name}' of '{name}' is given twice")
            named[parameter.name] = value
        operands += [None] * (len(wanted) - len(operands))
        for i, parameter in enumerate(wanted):
            if parameter.name in named:
                if operands[i] is not None:
                    raise InvalidInputError(f"argument '{parameter.name}' of '{name}' is given twice")
                operands[i] = named.pop(parameter.name)
            if operands[i] is None and parameter.required:
                raise InvalidInputError(
                    f"'{name}' needs the argument '{parameter.name}'", expected=_signature(known)
                )
    values = tensors(builder, operands, name, location)
    types = [tensor_type(v) for v in values if v is not None]
    attrs: dict[str, Any] = {}
    for parameter in properties:
        if parameter.name in named:
            attrs[parameter.name] = convert(named[parameter.name], parameter, name, types)
        elif parameter.required:
            raise InvalidInputError(
                f"'{name}' needs the argument '{parameter.name}'", expected=_signature(known)
            )
        elif callable(parameter.default):
            attrs[parameter.name] = parameter.default(*types)
        else:
            attrs[parameter.name] = parameter.default
    return values, attrs


def _signature(known: Sequence[Parameter]) -> str:
    return ", ".join(p.name if p.required else f"[{p.name}]" for p in known) or "no arguments"


def tensors(
    builder: GraphBuilder, operands: Sequence[Value], name: str, location: str | None = None
) -> list[SSAValue | None]:
    """Operands as tensors: numbers and sizes take the element type of the first tensor among them (f32 if none)."""
    first = next(
        (tensor_type(o).dtype for o in operands if isinstance(o, SSAValue) and not _is_mask(o, name)), None
    )
    return [None if o is None else as_tensor(builder, o, first, name, location) for o in operands]


def _is_mask(value: SSAValue, name: str) -> bool:
    """The condition of `where` says nothing about the type of the numbers beside it."""
    return name == "where" and tensor_type(value).dtype.is_bool


def as_tensor(
    builder: GraphBuilder, value: Value, dtype: dt.DType | None, name: str, location: str | None = None
) -> SSAValue:
    """A tensor; a number becomes a rank-0 constant of `dtype`. Raises InvalidInputError if it doesn't fit."""
    match value:
        case SSAValue():
            return value
        case bool():
            return builder.constant(np.asarray(value))
        case int() | float():
            kind = dtype or (dt.F32 if isinstance(value, float) else dt.I64)
            if not kind.is_float and value != int(value):
                raise InvalidInputError(
                    f"the fraction {value} meets {kind} values", hint="convert them: f32(x)"
                )
            if kind.is_bool:
                raise InvalidInputError(f"the number {value} meets bool values", expected="true or false")
            return builder.constant(number(value, kind))
        case Expr():
            return size_tensor(builder, value, dtype or dt.I64, location)
        case np.ndarray():
            return builder.constant(value)
    raise InvalidInputError(
        f"'{name}' works on tensors", expected="a tensor or a number", got=describe(value)
    )


def size_tensor(builder: GraphBuilder, value: Expr, dtype: dt.DType, location: str | None = None) -> SSAValue:
    """A size as a rank-0 tensor."""
    known = value.as_int()
    if known is not None:
        return builder.constant(number(known, dtype))
    stage = Stage((), (), Extent(value), dtype)
    return builder.insert(GenericOp.of("size", Meaning((stage,)), [], location))[0]


def convert(value: Value, parameter: Parameter, name: str, operands: Sequence[Any] = ()) -> Any:
    """A property value of the right kind. Raises InvalidInputError."""

    def wrong(expected: str) -> InvalidInputError:
        return InvalidInputError(
            f"argument '{parameter.name}' of '{name}' has the wrong kind",
            expected=expected,
            got=describe(value),
        )

    if isinstance(value, Expr) and value.as_int() is not None and parameter.kind != "dims":
        value = value.as_int()
    match parameter.kind:
        case "dims":
            items = list(value) if isinstance(value, list | tuple) else [value]
            if not all(isinstance(i, int | Expr) and not isinstance(i, bool) for i in items):
                raise wrong("a list of sizes, e.g. [n, 4]")
            return tuple(expr(i) for i in items)
        case "ints":
            items = list(value) if isinstance(value, list | tuple) else [value]
            numbers = [i.as_int() if isinstance(i, Expr) else i for i in items]
            if not all(isinstance(i, int) and not isinstance(i, bool) for i in numbers):
                raise wrong("a list of integers")
            return tuple(numbers)
        case "int":
            if not isinstance(value, int) or isinstance(value, bool):
                raise wrong("an integer")
            return value
        case "float":
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise wrong("a number")
            return float(value)
        case "bool":
            if not isinstance(value, bool):
                raise wrong("true or false")
            return value
        case "string":
            if not isinstance(value, str):
                raise wrong('a string "..."')
            return value
        case "element type":
            if not isinstance(value, dt.DType):
                raise wrong("an element type such as f16")
            return value
    if isinstance(value, np.ndarray | np.generic):  # "value": a scalar with its element type
        return np.asarray(value)
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int | float):
        dtype = operands[0].dtype if operands else (dt.F32 if isinstance(value, float) else dt.I64)
        return number(value, dtype)
    raise wrong("a number")


def describe(value: Value) -> str:
    """A value for messages: what kind of thing it is."""
    match value:
        case SSAValue():
            return f"a tensor {tensor_type(value)}"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the string "{value}"'
        case Expr():
            return f"the size {value}"
        case dt.DType():
            return f"the element type {value}"
        case list() | tuple():
            return f"a list of {len(value)}"
    return type(value).__name__
