# SPDX-License-Identifier: Apache-2.0
"""The op contract: everything gaf knows about a graph op lives on its class.

A concrete op defines operands and properties, `infer` (shapes and dtypes), `reference` (numpy, also in
float64), `meaning` (iteration spaces or why there are none) and its names in ONNX, ATen and `.gaf`. The
verifier, builder, text format, importers, exporter, interpreter, fusion and lowering all follow from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    NameLoc,
    StringAttr,
    TypeAttribute,
    NoneAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr, ShapeAttr
from gaf.dialects.common.index import DIMS, Expr, is_positive
from gaf.dialects.graph.meaning import Opaque, OpMeaning
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InvalidInputError, UnsupportedError


# -- properties: Python values on the outside, attributes in the IR ------------------------------


def int_prop() -> IntegerAttr:
    """A required integer property."""
    return prop_def(IntegerAttr)


def float_prop() -> FloatAttr:
    """A required float property (held as f64)."""
    return prop_def(FloatAttr)


def bool_prop() -> IntegerAttr:
    """A required boolean property."""
    return prop_def(IntegerAttr)


def str_prop() -> StringAttr:
    """A required string property."""
    return prop_def(StringAttr)


def ints_prop() -> DenseArrayBase:
    """A required list of integers (axes, permutations)."""
    return prop_def(DenseArrayBase)


def dims_prop() -> ShapeAttr:
    """A required list of dim expressions (shapes, slice bounds)."""
    return prop_def(ShapeAttr)


def dtype_prop() -> Attribute:
    """A required element type."""
    return prop_def(Attribute)


def to_attribute(value: Any) -> Attribute:
    """The attribute that stores a Python value; tuples with an Expr become a ShapeAttr."""
    match value:
        case Attribute():
            return value
        case dt.DType():
            return value.mlir
        case bool() | np.bool_():
            return BoolAttr.from_bool(bool(value))
        case int() | np.integer():
            return IntegerAttr(int(value), i64)
        case float() | np.floating():
            return FloatAttr(float(value), f64)
        case str():
            return StringAttr(value)
        case np.ndarray():
            return ArrayAttr.of(value)
        case tuple() | list():
            if any(isinstance(v, Expr) for v in value):
                return ShapeAttr.of(value)
            return DenseArrayBase.from_list(i64, [int(v) for v in value])
    raise TypeError(f"no attribute for a {type(value).__name__}: {value!r}")


def from_attribute(attribute: Attribute) -> Any:
    """The Python value of an attribute made by `to_attribute`."""
    match attribute:
        case IntegerAttr():
            value = attribute.value.data
            return bool(value) if attribute.type == i1 else value
        case FloatAttr():
            return attribute.value.data
        case StringAttr() | ShapeAttr():
            return attribute.data
        case ArrayAttr():
            return attribute.array
        case DenseArrayBase():
            return tuple(attribute.get_values())
        case TypeAttribute() if attribute in dt._BY_MLIR:
            return dt.of(attribute)
    return attribute


# -- import and export: what an op may ask of the frontend that reads or writes it -----------------


class ImportContext(Protocol):
    """One node of a foreign model while it is imported. Implemented by the frontends."""

    op_type: str
    opset: int
    operands: list[SSAValue | None]  # None: optional input left out
    num_outputs: int  # outputs that the node has

    def attr(self, name: str, default: Any = None) -> Any:
        """A node attribute as Python value (ints, floats, str, ndarray, tuples), or `default`."""
        ...

    def operand(self, index: int) -> SSAValue | None:
        """Operand `index`, or None if absent."""
        ...

    def constant(self, index: int) -> np.ndarray | None:
        """The value of operand `index` if it is known at import time."""
        ...

    def dims(self, index: int) -> tuple[Expr, ...] | None:
        """The elements of an integer operand as expressions over symbols, if known (shape arithmetic)."""
        ...

    def constant_value(self, array: np.ndarray) -> SSAValue:
        """A new constant."""
        ...

    def new_symbol(self, stem: str) -> Expr:
        """A fresh symbolic dim, for data-dependent sizes."""
        ...

    def random_source(self) -> tuple[SSAValue, int]:
        """The salt that is drawn for every run of the model, and a number that no other node has."""
        ...

    def emit(self, op: type[GraphOp], operands: Sequence[SSAValue], **attributes: Any) -> Any:
        """Create an op; returns its result, or the list of results when there are several."""
        ...

    def unsupported(self, what: str, **details: Any) -> UnsupportedError:
        """An error that names the node; raise it."""
        ...


class AtenContext(ImportContext, Protocol):
    """One ATen call while it is imported; `op_type` is its overload, e.g. `aten.add.Tensor`.

    `operands` are the values of its Tensor arguments (of tensor lists: one after the other) in the order of
    the schema; `attr` gives any other argument by its name in the schema, sizes as Expr if symbolic.
    """

    result: TensorType  # the type of the first result, as PyTorch infers it
    results: Sequence[TensorType]  # the types of all results

    def has(self, name: str) -> bool:
        """True if argument `name` exists and is not None."""
        ...

    def value(self, name: str, dtype: dt.DType | None = None) -> SSAValue:
        """Argument `name` as a value; Python numbers become rank-0 constants. Cast to `dtype` if given."""
        ...

    def values(self, name: str, dtype: dt.DType | None = None) -> list[SSAValue | None]:
        """The elements of a list of tensors (None where one is left out), cast to `dtype` if given."""
        ...

    def dim_args(self, name: str) -> tuple[Expr, ...]:
        """A size or a list of sizes."""
        ...

    def common_dtype(self, *names: str) -> dt.DType:
        """What PyTorch's type promotion makes of these arguments."""
        ...

    def cast(self, value: SSAValue, dtype: dt.DType) -> SSAValue:
        """`value` as `dtype`; itself if it is already."""
        ...

    def number(self, value: float, dtype: dt.DType) -> SSAValue:
        """A rank-0 constant of a dtype."""
        ...

    def used(self, index: int) -> bool:
        """True if somebody reads result `index` of a call with several results."""
        ...


class ExportContext(Protocol):
    """Writes ONNX nodes for one graph op. Implemented by the exporter."""

    opset: int

    def node(self, op_type: str, inputs: Sequence[str], outputs: int | None = None, domain: str = "", **attrs: Any) -> list[str]:
        """Add a node; `outputs=None` uses the op's own result names. Returns the output names."""
        ...

    def constant(self, array: np.ndarray) -> str:
        """Name of an initializer with this value."""
        ...

    def dims(self, dims: Sequence[Expr]) -> str:
        """Name of an int64 vector with these dims (an initializer, or computed from Shape if symbolic)."""
        ...


def assume(ctx: ImportContext, condition: Expr, what: str) -> None:
    """Record that `condition >= 0` has to hold whenever the model runs, where the model can't say more.

    A frontend that keeps such conditions has a method `assume(condition, what)`; the references check
    them in any case.
    """
    record = getattr(ctx, "assume", None)
    if record is not None:
        record(condition, what)


def graph_op(cls: Any) -> Any:
    """Class decorator of every concrete graph op: xDSL's, after marking upper-case names as constants."""
    for base in cls.__mro__:
        if issubclass(base, GraphOp):
            known = base.__dict__.get("__annotations__", {})
            base.__annotations__ = {**known, **{k: ClassVar[Any] for k in vars(base) if k.isupper() and k not in known}}
    return irdl_op_definition(cls)


# -- the op base class ----------------------------------------------------------------------------


class GraphOp(IRDLOperation):
    """Base of all graph ops. Subclasses set the names and implement `infer`, `reference`, `meaning`."""

    ONNX: ClassVar[tuple[str, ...]] = ()  # "Add", or "com.microsoft.Gelu" outside the default domain
    ATEN: ClassVar[tuple[str, ...]] = ()  # "aten.add.Tensor"
    GAF: ClassVar[tuple[str, ...]] = ()  # "add"
    # property -> (ONNX attribute, default); None as default: the attribute is required
    ONNX_ATTRS: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    # property -> (argument of the ATen schema, default); the default's type is the property's
    ATEN_ATTRS: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    # property -> its value if a `.gaf` call leaves it out; a function gets the operand types
    GAF_DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    GAF_OPTIONAL: ClassVar[tuple[str, ...]] = ()  # operands that `from_gaf` makes if they are left out
    IS_VIEW: ClassVar[bool] = False  # costs nothing by itself: an index map on an edge

    # The three rules every op implements -----------------------------------------------------

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        """Result types. Raises InvalidInputError for inconsistent operands."""
        raise NotImplementedError(cls.name)

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        """The meaning in numpy. With `wide`, float operands are float64 and results stay so."""
        raise NotImplementedError(self.name)

    def reference_with_symbols(self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False) -> Sequence[np.ndarray]:
        """`reference` for ops whose properties hold dim expressions: `env` gives the symbols' values."""
        return self.reference(*args, wide=wide)

    def meaning(self) -> OpMeaning:
        """Iteration spaces over the result dims, a view, or opaque with the reason."""
        return Opaque(f"{self.name} has no iteration space")

    # Import and export -----------------------------------------------------------------------

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        """Emit ops for an ONNX node; by default one op with ONNX_ATTRS as properties."""
        attrs = {prop: ctx.attr(onnx, default) for prop, (onnx, default) in cls.ONNX_ATTRS.items()}
        missing = [cls.ONNX_ATTRS[p][0] for p, v in attrs.items() if v is None]
        if missing:
            raise ctx.unsupported(f"attribute '{missing[0]}' is missing")
        return ctx.emit(cls, [o for o in ctx.operands if o is not None], **attrs)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        """Emit ops for an ATen call; by default one op on the tensor arguments, with ATEN_ATTRS as properties.

        Whatever can't be said raises (`ctx.unsupported`, or the error of an op): the call then runs on the host.
        """
        return ctx.emit(cls, [o for o in ctx.operands if o is not None], **cls.aten_attributes(ctx))

    @classmethod
    def from_gaf(cls, ctx: ImportContext, operands: Sequence[SSAValue], attrs: Mapping[str, Any]) -> Any:
        """Emit ops for a call in `.gaf` or Python; `attrs` are the given properties and the defaults of the rest."""
        return ctx.emit(cls, operands, **attrs)

    @classmethod
    def gaf_defaults(cls) -> dict[str, Any]:
        """GAF_DEFAULTS of the class and its bases, and the defaults of ONNX_ATTRS."""
        found = {prop: default for prop, (_, default) in cls.ONNX_ATTRS.items() if default is not None}
        for base in reversed(cls.__mro__):
            found.update(vars(base).get("GAF_DEFAULTS", {}))
        return found

    @classmethod
    def aten_attributes(cls, ctx: AtenContext) -> dict[str, Any]:
        """The properties of ATEN_ATTRS for a call."""
        attrs = {}
        for prop, (argument, default) in cls.ATEN_ATTRS.items():
            value = ctx.attr(argument, default)
            attrs[prop] = type(default)(value) if isinstance(default, bool | float | int) else value
        return attrs

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """Write this op as ONNX nodes; returns the output names."""
        if not self.ONNX:
            raise UnsupportedError(f"{self.name} has no ONNX form", where=self.location_name())
        domain, _, op_type = self.ONNX[0].rpartition(".")
        attrs = {onnx: self.attrs()[prop] for prop, (onnx, _) in self.ONNX_ATTRS.items()}
        return ctx.node(op_type, inputs, domain=domain, **attrs)

    # Building and reading --------------------------------------------------------------------

    @classmethod
    def make(cls, operands: Sequence[SSAValue | Operation], attrs: Mapping[str, Any] | None = None, location: str | None = None) -> Self:
        """Create the op with inferred result types. `attrs` are Python values.

        Raises InvalidInputError (naming `location`) if the operands don't fit.
        """
        attrs = dict(attrs or {})
        values = [SSAValue.get(o) for o in operands]
        kinds = property_kinds(cls)
        for name, value in attrs.items():
            if kinds.get(name) is ShapeAttr and not isinstance(value, Attribute):
                attrs[name] = ShapeAttr.of(value).data
        try:
            types = cls.infer([tensor_type(v) for v in values], attrs)
        except GafError as error:
            if location and error.where is None:
                error.where = location
            raise
        properties = {
            k: ShapeAttr.of(v) if kinds.get(k) is ShapeAttr and not isinstance(v, Attribute) else to_attribute(v)
            for k, v in attrs.items()
            if v is not None
        }
        op = cls.create(operands=values, result_types=list(types), properties=properties)
        if location:
            op.location = NameLoc(StringAttr(location), NoneAttr())
        return op

    def attrs(self) -> dict[str, Any]:
        """All properties as Python values."""
        return {k: from_attribute(v) for k, v in self.properties.items()}

    def operand_tensor_types(self) -> list[TensorType]:
        return [tensor_type(o) for o in self.operands]

    def result_tensor_types(self) -> list[TensorType]:
        return [tensor_type(r) for r in self.results]

    def location_name(self) -> str | None:
        return location_name(self)

    def verify_(self) -> None:
        try:
            expected = self.infer(self.operand_tensor_types(), self.attrs())
        except GafError as error:  # who prints it puts the op's name in front
            raise VerifyException(str(error).removeprefix(f"{self.name}: ")) from None
        got = self.result_tensor_types()
        if list(expected) != got:
            raise VerifyException(
                f"expected result types ({', '.join(map(str, expected))}), got ({', '.join(map(str, got))})"
            )

    # One text format for all ops ---------------------------------------------------------------

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes | self.properties)
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists(self.operand_tensor_types(), self.result_tensor_types()))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        entries = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        signature = parser.parse_type()
        if not isinstance(signature, FunctionType):
            parser.raise_error("expected a function type: (operand types) -> result types", pos)
        values = parser.resolve_operands(operands or [], signature.inputs.data, pos)
        known = property_kinds(cls)
        return cls.create(
            operands=values,
            result_types=list(signature.outputs.data),
            properties={k: v for k, v in entries.items() if k in known},
            attributes={k: v for k, v in entries.items() if k not in known},
        )


_KINDS: dict[type, dict[str, type | None]] = {}


def property_kinds(cls: type[GraphOp]) -> dict[str, type | None]:
    """Property name -> attribute class (None when any attribute is allowed)."""
    found = _KINDS.get(cls)
    if found is None:
        definition = cls.get_irdl_definition()
        found = {
            name: prop.constr.attr if isinstance(prop.constr, BaseAttr) else None
            for name, prop in definition.properties.items()
        }
        _KINDS[cls] = found
    return found


def tensor_type(value: SSAValue) -> TensorType:
    """The graph tensor type of a value. Raises InvalidInputError for any other type."""
    if isinstance(value.type, TensorType):
        return value.type
    raise InvalidInputError("graph ops work on tensors", expected="!graph.tensor<...>", got=value.type)


def location_name(op: Operation) -> str | None:
    """The model node name an op came from, if known."""
    loc = op.location
    return loc.desc.data if isinstance(loc, NameLoc) else None


class UnprovenEqualError(InvalidInputError):
    """Two sizes `a` and `b` have to be equal and may be, but nothing proves it: a frontend may assume it."""

    def __init__(self, what: str, a: Expr, b: Expr, **details: Any) -> None:
        super().__init__(what, hint="the sizes are symbolic: fix them with --input-shape", **details)
        self.a, self.b = a, b


def broadcast_shapes(shapes: Sequence[Sequence[Expr]], what: str) -> tuple[Expr, ...]:
    """numpy broadcasting on symbolic dims.

    Raises InvalidInputError when two dims differ and neither is 1, UnprovenEqualError when they may be equal.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Expr] = []
    for i in range(rank):
        dims = [s[len(s) - rank + i] for s in shapes if len(s) - rank + i >= 0]
        wide = [d for d in dims if d != 1]
        for d in wide[1:]:
            if d != wide[0]:
                details = {
                    "expected": f"dim {i - rank} to be equal or 1",
                    "got": " and ".join("[" + ", ".join(map(str, s)) + "]" for s in shapes),
                }
                raise unequal(f"{what}: shapes don't broadcast", wide[0], d, **details)
        result.append(wide[0] if wide else dims[0])
    return tuple(result)


def unequal(what: str, a: Expr, b: Expr, **details: Any) -> InvalidInputError:
    """The error for two sizes that have to be equal and differ, or can't be proven to be equal."""
    if maybe_equal(a, b):
        return UnprovenEqualError(what, a, b, **details)
    return InvalidInputError(what, **details)


def maybe_equal(a: Expr, b: Expr) -> bool:
    """False only if the two sizes are proven to differ for all values of the symbols."""
    return a == b or not (is_positive(a - b, DIMS) or is_positive(b - a, DIMS))


__all__ = [
    "AtenContext", "ExportContext", "GraphOp", "ImportContext", "UnprovenEqualError", "assume", "bool_prop", "broadcast_shapes",
    "dims_prop", "dtype_prop", "float_prop", "from_attribute", "graph_op", "int_prop", "ints_prop", "location_name",
    "maybe_equal", "opt_prop_def", "str_prop", "tensor_type", "to_attribute", "unequal",
]
