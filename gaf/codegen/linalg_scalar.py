# SPDX-License-Identifier: Apache-2.0
"""Scalar bodies of stages as arith and math ops: the inside of a linalg.generic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.common.scalar import Arg, Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph.ops.common import accumulator
from gaf.errors import UnsupportedError

_FLOAT = {
    "neg": "arith.negf", "abs": "math.absf", "exp": "math.exp", "log": "math.log", "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt", "tanh": "math.tanh", "erf": "math.erf", "sin": "math.sin", "cos": "math.cos",
    "tan": "math.tan", "asin": "math.asin", "acos": "math.acos", "atan": "math.atan", "sinh": "math.sinh",
    "cosh": "math.cosh", "asinh": "math.asinh", "acosh": "math.acosh", "atanh": "math.atanh",
    "floor": "math.floor", "ceil": "math.ceil", "rint": "math.roundeven", "trunc": "math.trunc",
    "add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "div": "arith.divf",
    "max": "arith.maximumf", "min": "arith.minimumf", "pow": "math.powf", "atan2": "math.atan2",
}  # fmt: skip
_INT = {
    "add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "div": "arith.divsi", "max": "arith.maxsi",
    "min": "arith.minsi", "abs": "math.absi", "fmod": "arith.remsi",
    "bitand": "arith.andi", "bitor": "arith.ori", "bitxor": "arith.xori",
}  # fmt: skip
_BOOL = {
    "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori", "mul": "arith.andi", "min": "arith.andi",
    "max": "arith.ori",
}  # fmt: skip
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_INT_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def element(dtype: dt.DType) -> str:
    """`f32`, `i64`, `i1`. Raises UnsupportedError for unsigned integers: arith is signless, divides signed here."""
    if dtype.kind == "uint":
        raise UnsupportedError(f"element type {dtype} has no linalg form", expected="floats, signed integers, bool")
    if dtype.is_bool:
        return "i1"
    return str(dtype.mlir)


def literal(value: float, dtype: dt.DType) -> str:
    """A number as MLIR text that reads back as the same value; infinities and NaN are bit patterns."""
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if not math.isfinite(value):
        bits = int(np.asarray(value).astype(dtype.numpy).view(dtype.bits_dtype))
        return f"0x{bits:0{dtype.bits // 4}X}"
    mantissa, _, exponent = repr(float(value)).partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + (f"e{exponent}" if exponent else "")


def scalar_constant(value: float, dtype: dt.DType) -> str:
    """`arith.constant 2.0 : f32`, `arith.constant true`."""
    return f"arith.constant {literal(value, dtype)}" + ("" if dtype.is_bool else f" : {element(dtype)}")


class Body:
    """Lines of one block. `arguments` are its arguments, `positions` the numbers of dims, `sizes` index values."""

    def __init__(
        self,
        arguments: Sequence[tuple[str, dt.DType]],
        positions: Mapping[str, int],
        sizes: Mapping[Expr, str],
        refuse: Callable[[str], NoReturn],
    ) -> None:
        self.arguments, self.positions, self.sizes, self.refuse = arguments, positions, sizes, refuse
        self.lines: list[str] = []
        self._made: dict[tuple[Scalar, dt.DType | None], tuple[str, dt.DType]] = {}

    def result(self, body: Scalar, dtype: dt.DType) -> str:
        """The value of a body as an element of `dtype`."""
        free = dt.F64 if dtype.is_bool else accumulator(dtype)
        name, have = self._value(body, self._type(body) or free)
        return self._convert(name, have, dtype)

    def combine(self, function: str, a: str, b: str, dtype: dt.DType) -> str:
        """Two values of `dtype` joined by the function of a monoid."""
        return self._primitive(function, [a, b], dtype)

    def emit(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _type(self, node: Scalar) -> dt.DType | None:
        """What a node is computed in; None for numbers that take the type of what they meet."""
        if isinstance(node, Arg):
            return accumulator(self.arguments[node.index][1])
        if not isinstance(node, Call):
            return None
        if node.function == "cast":
            assert node.dtype is not None
            return accumulator(node.dtype)
        if node.function in _FLOAT_COMPARE or node.function in ("isnan", "isinf", "not", "and", "or", "xor"):
            return dt.BOOL
        args = node.args[1:] if node.function == "select" else node.args
        return next((t for a in args if (t := self._type(a)) is not None), None)

    def _value(self, node: Scalar, wanted: dt.DType) -> tuple[str, dt.DType]:
        """Name and type of a node; `wanted` is the type of one without a type of its own."""
        key = (node, None if self._type(node) else wanted)
        if key not in self._made:
            self._made[key] = self._make(node, wanted)
        return self._made[key]

    def _make(self, node: Scalar, wanted: dt.DType) -> tuple[str, dt.DType]:
        match node:
            case Arg(index):
                name, dtype = self.arguments[index]
                return self._convert(name, dtype, accumulator(dtype)), accumulator(dtype)
            case Const(value):
                return self._number(value, wanted), wanted
            case Coord(dim):
                return self._index(self.emit(f"linalg.index {self.positions[dim]} : index"), wanted), wanted
            case Extent(value):
                return self._index(self.sizes[value], wanted), wanted
            case Call():
                return self._call(node, wanted)
        raise TypeError(f"not a scalar expression: {node!r}")

    def _number(self, value: float, dtype: dt.DType) -> str:
        return self.emit(scalar_constant(value, dtype))

    def _index(self, name: str, dtype: dt.DType) -> str:
        return self._convert(self.emit(f"arith.index_cast {name} : index to i64"), dt.I64, dtype)

    def _call(self, node: Call, wanted: dt.DType) -> tuple[str, dt.DType]:
        f = node.function
        if f == "cast":
            assert node.dtype is not None
            name, have = self._value(node.args[0], self._type(node.args[0]) or accumulator(node.dtype))
            rounded = self._convert(name, have, node.dtype)
            return self._convert(rounded, node.dtype, accumulator(node.dtype)), accumulator(node.dtype)
        values = node.args[1:] if f == "select" else node.args
        if f in ("and", "or", "xor", "not"):
            kind = dt.BOOL
        else:
            own = next((t for a in values if (t := self._type(a)) is not None), None)
            compared = f in _FLOAT_COMPARE or f in ("isnan", "isinf")
            kind = own or (dt.F64 if compared else wanted)
        names = [self._convert(*self._value(a, kind), kind) for a in values]
        if f == "select":
            condition = self._convert(*self._value(node.args[0], dt.BOOL), dt.BOOL)
            return self.emit(f"arith.select {condition}, {names[0]}, {names[1]} : {element(kind)}"), kind
        if f in _FLOAT_COMPARE:
            op = f"cmpf {_FLOAT_COMPARE[f]}" if kind.is_float else f"cmpi {_INT_COMPARE[f]}"
            if kind.is_bool and f not in ("eq", "ne"):
                self.refuse(f"'{f}' of bools")
            return self.emit(f"arith.{op}, {names[0]}, {names[1]} : {element(kind)}"), dt.BOOL
        if f in ("isnan", "isinf") and kind.is_float:
            if f == "isnan":
                return self.emit(f"arith.cmpf uno, {names[0]}, {names[0]} : {element(kind)}"), dt.BOOL
            size, infinity = self._primitive("abs", names, kind), self._number(float("inf"), kind)
            return self.emit(f"arith.cmpf oeq, {size}, {infinity} : {element(kind)}"), dt.BOOL
        if f == "not":
            return self.emit(f"arith.xori {names[0]}, {self._number(1, dt.BOOL)} : i1"), dt.BOOL
        return self._primitive(f, names, kind), kind

    def _primitive(self, f: str, names: Sequence[str], kind: dt.DType) -> str:
        """A function of operands of one type, whose result has this type."""
        if f == "relu":
            return self._primitive("max", [names[0], self._number(0, kind)], kind)
        if f == "sign" and not kind.is_bool:  # zeros and NaN are their own signs
            (x,), zero = names, self._number(0, kind)
            test, above, below = ("cmpf", "ogt", "olt") if kind.is_float else ("cmpi", "sgt", "slt")
            type_, value = element(kind), x
            for predicate, sign in ((below, -1), (above, 1)):
                holds = self.emit(f"arith.{test} {predicate}, {x}, {zero} : {type_}")
                value = self.emit(f"arith.select {holds}, {self._number(sign, kind)}, {value} : {type_}")
            return value
        if f == "neg" and kind.kind == "int":
            return self._primitive("sub", [self._number(0, kind), names[0]], kind)
        if f == "bitnot" and kind.kind == "int":
            return self._primitive("bitxor", [names[0], self._number(-1, kind)], kind)
        if f == "reciprocal" and kind.is_float:
            return self._primitive("div", [self._number(1, kind), names[0]], kind)
        if f == "sigmoid" and kind.is_float:
            falling = self._primitive("exp", [self._primitive("neg", names, kind)], kind)
            one = self._number(1, kind)
            return self._primitive("div", [one, self._primitive("add", [one, falling], kind)], kind)
        table = _FLOAT if kind.is_float else _BOOL if kind.is_bool else _INT
        if f not in table:
            self.refuse(f"'{f}' of {kind}")
        return self.emit(f"{table[f]} {', '.join(names)} : {element(kind)}")

    def _convert(self, name: str, have: dt.DType, want: dt.DType) -> str:
        if have == want:
            return name
        a, b = element(have), element(want)
        if want.is_bool:
            zero = self._number(0, have)
            test = "cmpf une" if have.is_float else "cmpi ne"
            return self.emit(f"arith.{test}, {name}, {zero} : {a}")
        if have.is_float and want.is_float:
            if have.bits == want.bits:  # f16 and bf16
                return self._convert(self._convert(name, have, dt.F32), dt.F32, want)
            op = "extf" if want.bits > have.bits else "truncf"
        elif have.is_float:
            op = "fptosi"
        elif want.is_float:
            op = "uitofp" if have.is_bool else "sitofp"
        else:
            op = "trunci" if want.bits < have.bits else "extui" if have.is_bool else "extsi"
        return self.emit(f"arith.{op} {name} : {a} to {b}")
