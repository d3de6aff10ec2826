# SPDX-License-Identifier: Apache-2.0
"""Types of a model's inputs: symbolic dims from `dim_param`, fresh names for unnamed dims, user overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, sym
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.builder import dim_from_text, symbol_name, unique_name

InputShapes = Mapping[str, Sequence[int | str | None]]


def parse_input_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """`x:1,S,768` (as in `--input-shape`) as name and dims; `x:` is a scalar. Raises InvalidInputError."""
    name, colon, dims = text.rpartition(":")
    if not colon or not name:
        raise InvalidInputError(
            "can't read the input shape", expected="NAME:DIM,DIM,... such as x:1,S,768", got=f"'{text}'"
        )
    parts = [p.strip() for p in dims.split(",")] if dims.strip() else []
    return name, tuple(int(p) if p.lstrip("-").isdigit() else p for p in parts)


@dataclass
class InputTypes:
    """Input names with types, and notes on dims that had no name in the model."""

    inputs: list[tuple[str, TensorType]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def input_types(
    values: Iterable[onnx.ValueInfoProto], where: str, overrides: InputShapes | None = None
) -> InputTypes:
    """Types of the graph inputs `values`.

    An override gives every dim of an input: a number, a name, or None (also "?", -1) to keep the model's.
    A dim that the model names gets its override wherever the name occurs. Raises InvalidInputError for
    overrides that don't fit, UnsupportedError for inputs that are not tensors.
    """
    values, overrides = list(values), dict(overrides or {})
    names = [v.name for v in values]
    for name in overrides:
        if name not in names:
            raise InvalidInputError(
                f"the model has no input '{name}'",
                where=where,
                expected=", ".join(names) or "no input shapes",
            )
    reader = _Dims(where)
    shapes = [(v, tensor_info(v, where), overrides.get(v.name)) for v in values]
    reader.reserve(proto for _, info, _ in shapes if info.HasField("shape") for proto in info.shape.dim)
    result = InputTypes(notes=reader.notes)
    parsed: list[tuple[str, list[Expr], dt.DType]] = []
    for value, info, override in shapes:
        label = f"{where}: input '{value.name}'"
        dtype = dt.of_onnx(info.elem_type, where=label)
        if info.HasField("shape"):
            dims = [
                reader.dim(proto, value.name, axis, override) for axis, proto in enumerate(info.shape.dim)
            ]
        elif override is not None:
            dims = [reader.fresh(value.name, axis, given=True) for axis in range(len(override))]
        else:
            raise InvalidInputError(
                "the model doesn't say how many dims this input has",
                where=label,
                hint=f"give its shape: --input-shape {value.name}:1,128 ({{'{value.name}': (1, 128)}})",
            )
        if override is not None:
            reader.override(label, dims, override)
        parsed.append((value.name, dims, dtype))
    for name, dims, dtype in parsed:
        result.inputs.append((name, TensorType.of([reader.resolve(d) for d in dims], dtype)))
    return result


def tensor_info(value: onnx.ValueInfoProto, where: str) -> onnx.TypeProto.Tensor:
    """The tensor type of an input or output. Raises UnsupportedError for sequences, maps and the like."""
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        return value.type.tensor_type
    label = f"{where}: '{value.name}'"
    if kind is None:
        raise InvalidInputError("it has no type", where=label, hint="the model may be truncated or damaged")
    raise UnsupportedError(
        f"{kind.removesuffix('_type').replace('_', ' ')} values are not supported",
        where=label,
        expected="tensors",
    )


class _Dims:
    """Turns dim protos into expressions; keeps one symbol per name of the model."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.notes: list[str] = []
        self._symbols: dict[str, Expr] = {}  # the model's text -> expression
        self._taken: set[str] = set()
        self._bound: dict[str, tuple[Expr, str]] = {}  # symbol -> what an override says, and which one

    def reserve(self, protos: Iterable[onnx.TensorShapeProto.Dimension]) -> None:
        """Give names that are legal symbols to their owners before others are changed to fit."""
        for proto in protos:
            text = proto.dim_param.strip()
            if text and text == symbol_name(text) and text not in self._symbols:
                self._symbols[text] = sym(text)
                self._taken.add(text)

    def dim(
        self, proto: onnx.TensorShapeProto.Dimension, name: str, axis: int, override: Sequence[object] | None
    ) -> Expr:
        if proto.HasField("dim_value") and proto.dim_value >= 0:
            return const(proto.dim_value)
        text = proto.dim_param.strip()
        if text in ("", "?", "-1", "None"):
            given = override is not None and axis < len(override) and override[axis] is not None
            return self.fresh(name, axis, given)
        if text not in self._symbols:
            written = dim_from_text(text)
            if written is None or written.as_int() is not None:
                symbol = unique_name(symbol_name(text), self._taken)
                self._taken.add(symbol)
                self.notes.append(f"dim '{text}' of input '{name}' is called {symbol}")
                written = sym(symbol)
            self._taken |= written.names()
            self._symbols[text] = written
        return self._symbols[text]

    def fresh(self, name: str, axis: int, given: bool) -> Expr:
        symbol = unique_name(symbol_name(f"{name}_{axis}"), self._taken)
        self._taken.add(symbol)
        if not given:
            self.notes.append(f"axis {axis} of input '{name}' has no size and no name: it is called {symbol}")
        return sym(symbol)

    def override(self, label: str, dims: list[Expr], given: Sequence[int | str | None]) -> None:
        if len(given) != len(dims):
            raise InvalidInputError(
                "the given shape has the wrong number of dims",
                where=label,
                expected=f"{len(dims)} dims: [{', '.join(map(str, dims))}]",
                got=list(given),
            )
        for axis, (dim, value) in enumerate(zip(dims, given)):
            if value is None or value == "?" or value == -1:  # keep the model's dim
                continue
            wanted = self._wanted(label, axis, value)
            symbol = dim.as_name()
            if symbol is None:
                if dim.as_int() is not None and dim != wanted:
                    raise InvalidInputError(
                        f"axis {axis} has a fixed size",
                        where=label,
                        expected=dim,
                        got=value,
                        hint="only symbolic dims can be given a size",
                    )
                continue
            if symbol in self._bound and self._bound[symbol][0] != wanted:
                before, by = self._bound[symbol]
                raise InvalidInputError(
                    f"dim {symbol} is given two sizes",
                    where=label,
                    expected=f"{before} as in {by}",
                    got=value,
                )
            self._bound[symbol] = (wanted, label)

    def _wanted(self, label: str, axis: int, value: object) -> Expr:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidInputError(
                f"axis {axis} must be a number, a name or None", where=label, got=repr(value)
            )
        if isinstance(value, int):
            if value < 0:
                raise InvalidInputError(f"axis {axis} has a negative size", where=label, got=value)
            return const(value)
        written = dim_from_text(value)
        if written is None:
            raise InvalidInputError(
                f"'{value}' is not a dim",
                where=label,
                expected="a number, a name, or an expression such as S + 1",
            )
        return written

    def resolve(self, dim: Expr) -> Expr:
        """The dim after all overrides."""
        return expr(dim).substitute({s: e for s, (e, _) in self._bound.items()})
