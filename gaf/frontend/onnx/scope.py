# SPDX-License-Identifier: Apache-2.0
"""`Scope`: the ONNX nodes of a graph or function being written, with their names, constants and dims."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from xdsl.ir import Operation, SSAValue

from gaf.dialects.common.index import Expr, Func, sym
from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError, UnsupportedError


class Scope(ABC):
    """Nodes, and names that are unique among them; completed by `GraphScope` and `FunctionScope`."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.origins: list[str] = []  # for each node the model node it comes from
        self.names: dict[SSAValue, str] = {}
        self.domains: set[str] = set()
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._node_names: dict[str, int] = {}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._sources: dict[str, tuple[str, int, Expr]] = {}  # symbol -> value, axis, dim
        self._dims: dict[Expr, str] = {}
        self._vectors: dict[tuple[Expr, ...], str] = {}

    @abstractmethod
    def make_constant(self, array: np.ndarray, stem: str) -> str:
        """Add a constant under a name like `stem`; returns the name."""

    @abstractmethod
    def missing_symbol(self, symbol: str) -> str:
        """Name of an i64[1] value with the size of a symbol that is a dim of no value in the scope."""

    @abstractmethod
    def weight(self, name: str, type_: TensorType) -> str:
        """Name of the value that holds a weight of the model."""

    # -- names ------------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        """A name that no other value of the scope has."""
        stem = stem or "v"
        name, n = stem, self._counts.get(stem, 0)
        while name in self._taken:
            n += 1
            name = f"{stem}_{n}"
        self._counts[stem] = n
        self._taken.add(name)
        return name

    def define(self, value: SSAValue, name: str) -> str:
        """Give a value its name, and remember the dims that its shape gives."""
        self.names[value] = name
        self.note_shape(name, tensor_type(value))
        return name

    def note_shape(self, name: str, type_: TensorType) -> None:
        """Sizes of symbols can be taken from the shape of this value."""
        for axis, dim in enumerate(type_.shape):
            symbols = dim.names()
            if len(symbols) != 1:
                continue
            (symbol,) = symbols
            known = self._sources.get(symbol)
            if known is not None and (known[2].as_name() or not dim.as_name()):
                continue
            if dim.as_name() or _inverse(dim, symbol) is not None:
                self._sources[symbol] = (name, axis, dim)

    # -- nodes ------------------------------------------------------------------------------------

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str,
        attrs: dict[str, Any],
        origin: str,
    ) -> list[str]:
        """Add a node; trailing inputs left out ("") are dropped."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        proto = onnx.NodeProto(op_type=op_type, domain=domain, name=self._node_name(origin))
        proto.input.extend(given)
        proto.output.extend(outputs)
        proto.attribute.extend(_attribute(k, v, op_type) for k, v in attrs.items() if v is not None)
        self.nodes.append(proto)
        self.origins.append(origin)
        self.domains.add(domain)
        return list(outputs)

    def _node_name(self, origin: str) -> str:
        """`origin`, with a number for the second node and on: onnxruntime wants node names to differ."""
        if not origin:
            return ""
        count = self._node_names.get(origin, 0)
        self._node_names[origin] = count + 1
        name = f"{origin}#{count}" if count else origin
        if count:
            self._node_names.setdefault(name, 1)
        return name

    def constant(self, array: np.ndarray, stem: str = "const") -> str:
        """The name of a constant; equal ones are shared."""
        array = np.asarray(array)
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.make_constant(array, stem)
        return self._constants[key]

    # -- dims ---------------------------------------------------------------------------------------

    def dims(self, dims: Sequence[Expr]) -> str:
        """An int64 vector of dims: a constant, or computed from shapes."""
        key = tuple(dims)
        if key not in self._vectors:
            sizes = [d.as_int() for d in key]
            if all(s is not None for s in sizes):
                self._vectors[key] = self.constant(np.array(sizes, np.int64), "shape")
            elif len(key) == 1:
                self._vectors[key] = self.dim(key[0])
            else:
                pieces = [self.dim(d) for d in key]
                self._vectors[key] = self._helper("Concat", pieces, axis=0)
        return self._vectors[key]

    def dim(self, dim: Expr) -> str:
        """A [1]-shaped int64 value with the size of one dim expression."""
        if dim not in self._dims:
            self._dims[dim] = self._compute(dim)
        return self._dims[dim]

    def _compute(self, dim: Expr) -> str:
        size = dim.as_int()
        if size is not None:
            return self.constant(np.array([size], np.int64), "size")
        symbol = dim.as_name()
        if symbol is not None:
            return self.symbol(symbol)
        total: str | None = None
        for mono, coefficient in dim.terms.items():
            factors = [self.symbol(a) if isinstance(a, str) else self._function(a) for a in mono]
            if coefficient != 1 or not factors:
                factors.append(self.constant(np.array([coefficient], np.int64), "size"))
            term = factors[0]
            for factor in factors[1:]:
                term = self._helper("Mul", [term, factor])
            total = term if total is None else self._helper("Add", [total, term])
        assert total is not None
        return total

    def symbol(self, symbol: str) -> str:
        """A [1]-shaped int64 value with the size of a symbol."""
        key = sym(symbol)
        if key in self._dims:
            return self._dims[key]
        source = self._sources.get(symbol)
        if source is None:
            name = self.missing_symbol(symbol)
        else:
            value, axis, dim = source
            name = self._helper("Shape", [value], start=axis, end=axis + 1)
            inverse = _inverse(dim, symbol)
            assert inverse is not None
            scale, shift = inverse
            if shift:
                name = self._helper("Sub", [name, self.constant(np.array([shift], np.int64), "size")])
            if scale != 1:
                name = self._helper("Div", [name, self.constant(np.array([scale], np.int64), "size")])
        self._dims[key] = name
        return name

    def _function(self, atom: Func) -> str:
        args = [self.dim(a) for a in atom.args]
        match atom.name:
            case "floordiv":  # ONNX's Div truncates: subtract the (non-negative) remainder first
                rest = self._helper("Mod", args)
                return self._helper("Div", [self._helper("Sub", [args[0], rest]), args[1]])
            case "mod":
                return self._helper("Mod", args)
            case "min" | "max":
                return self._helper(atom.name.capitalize(), args)
        raise UnsupportedError(f"a size computed by '{atom.name}' has no ONNX form")

    def _helper(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        return self.node(op_type, inputs, [self.unique("size")], "", attrs, "")[0]


class OpContext:
    """Implements `gaf.dialects.graph.contract.ExportContext` for one op in a scope."""

    def __init__(self, scope: Scope, op: Operation, result_names: Sequence[str]) -> None:
        self._scope = scope
        self._results = list(result_names)
        self._origin = location_name(op) or ""
        self._stem = op.name.removeprefix("graph.")
        self.opset = scope.opset

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int | None = None, domain: str = "", **attrs: Any
    ) -> list[str]:
        if outputs is None:
            names = self._results
        else:
            names = [self._scope.unique(f"{self._stem}_{op_type.lower()}") for _ in range(outputs)]
        return self._scope.node(op_type, inputs, names, domain, attrs, self._origin)

    def constant(self, array: np.ndarray) -> str:
        return self._scope.constant(array)

    def dims(self, dims: Sequence[Expr]) -> str:
        return self._scope.dims(dims)


def _inverse(dim: Expr, symbol: str) -> tuple[int, int] | None:
    """(c, k) if `dim == c * symbol + k` with integers c > 0 and k."""
    scale = dim.coefficient(symbol)
    if scale is None or scale.as_int() is None or scale.as_int() <= 0:  # type: ignore[operator]
        return None
    rest = dim.substitute({symbol: 0}).as_int()
    return None if rest is None else (scale.as_int() or 0, rest)


def _attribute(name: str, value: Any, op_type: str) -> AttributeProto:
    match value:
        case AttributeProto():
            return value
        case np.ndarray():
            return helper.make_attribute(name, tensor_proto(value, ""))
        case bool() | np.bool_():
            return helper.make_attribute(name, int(value))
        case np.integer() | np.floating():
            return helper.make_attribute(name, value.item())
        case tuple() | list():
            if not value:
                return helper.make_attribute(name, [], attr_type=AttributeProto.INTS)
            return helper.make_attribute(name, [v.item() if isinstance(v, np.generic) else v for v in value])
        case int() | float() | str() | onnx.TensorProto() | onnx.GraphProto():
            return helper.make_attribute(name, value)
    raise InternalError(f"attribute '{name}' of {op_type} is a {type(value).__name__}: no ONNX form")


def tensor_proto(array: np.ndarray, name: str) -> onnx.TensorProto:
    """A TensorProto with raw data."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def value_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """Name and type; symbolic dims as `dim_param`."""
    shape = [str(d) if d.as_int() is None else d.as_int() for d in type_.shape]
    return helper.make_tensor_value_info(name, type_.dtype.onnx, shape)


def identifier(text: str) -> str:
    """A legal ONNX identifier made from a label."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if name and not name[0].isdigit() else f"k_{name}"
