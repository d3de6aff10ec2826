# SPDX-License-Identifier: Apache-2.0
"""Scalar functions and scalar expressions: the bodies of iteration spaces, one table for every level.

`FUNCTIONS` lists the primitive functions; graph bodies, `tile.map`, the interpreters and the lowering
recipes refer to them by name. `Arg`, `Const`, `Coord`, `Extent` and `Call` build immutable expression trees;
Python operators work on them, so an op writes its body as a formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.common.random import random24


@dataclass(frozen=True)
class ScalarFunction:
    """A scalar function: numpy meaning (any float precision), arity and result kind.

    `result` is "same" (dtype of the operands), "bool", or "cast" (dtype given at the use).
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    result: str = "same"
    doc: str = ""


_erf = np.frompyfunc(math.erf, 1, 1)


def _np_erf(x: Any) -> Any:
    """erf in the precision of `x` through float64 math.erf (C library, < 1 ulp in float64)."""
    x = np.asarray(x)
    return np.asarray(_erf(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)


def _np_sigmoid(x: Any) -> Any:
    x = np.asarray(x)
    e = np.exp(-np.abs(x))  # never overflows
    one = x.dtype.type(1)
    return np.where(x >= 0, one / (one + e), e / (one + e)).astype(x.dtype)


def _np_floormod(a: Any, b: Any) -> Any:
    return np.mod(a, b)


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """IEEE results (inf, nan) instead of numpy warnings."""

    def wrapped(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return wrapped


def _table() -> dict[str, ScalarFunction]:
    rows: list[ScalarFunction] = [
        ScalarFunction("neg", 1, np.negative),
        ScalarFunction("abs", 1, np.abs),
        ScalarFunction("exp", 1, np.exp),
        ScalarFunction("log", 1, np.log),
        ScalarFunction("sqrt", 1, np.sqrt),
        ScalarFunction("rsqrt", 1, lambda x: 1 / np.sqrt(x)),
        ScalarFunction("reciprocal", 1, lambda x: np.asarray(x).dtype.type(1) / x),
        ScalarFunction("tanh", 1, np.tanh),
        ScalarFunction("sigmoid", 1, _np_sigmoid),
        ScalarFunction("erf", 1, _np_erf),
        ScalarFunction("sin", 1, np.sin),
        ScalarFunction("cos", 1, np.cos),
        ScalarFunction("tan", 1, np.tan),
        ScalarFunction("asin", 1, np.arcsin),
        ScalarFunction("acos", 1, np.arccos),
        ScalarFunction("atan", 1, np.arctan),
        ScalarFunction("sinh", 1, np.sinh),
        ScalarFunction("cosh", 1, np.cosh),
        ScalarFunction("asinh", 1, np.arcsinh),
        ScalarFunction("acosh", 1, np.arccosh),
        ScalarFunction("atanh", 1, np.arctanh),
        ScalarFunction("floor", 1, np.floor),
        ScalarFunction("ceil", 1, np.ceil),
        ScalarFunction("rint", 1, np.rint, doc="to nearest, ties to even"),
        ScalarFunction("trunc", 1, np.trunc),
        ScalarFunction("sign", 1, np.sign),
        ScalarFunction("relu", 1, lambda x: np.maximum(x, np.asarray(x).dtype.type(0))),
        ScalarFunction("isnan", 1, np.isnan, "bool"),
        ScalarFunction("isinf", 1, np.isinf, "bool"),
        ScalarFunction("not", 1, np.logical_not, "bool"),
        ScalarFunction("add", 2, np.add),
        ScalarFunction("sub", 2, np.subtract),
        ScalarFunction("mul", 2, np.multiply),
        ScalarFunction("div", 2, lambda a, b: _int_aware_div(a, b), doc="integers truncate towards zero"),
        ScalarFunction("max", 2, np.maximum, doc="NaN if either operand is NaN"),
        ScalarFunction("min", 2, np.minimum, doc="NaN if either operand is NaN"),
        ScalarFunction("pow", 2, np.power),
        ScalarFunction("floormod", 2, _np_floormod, doc="sign of the divisor"),
        ScalarFunction("fmod", 2, np.fmod, doc="sign of the dividend"),
        ScalarFunction("atan2", 2, np.arctan2),
        ScalarFunction("eq", 2, np.equal, "bool"),
        ScalarFunction("ne", 2, np.not_equal, "bool"),
        ScalarFunction("lt", 2, np.less, "bool"),
        ScalarFunction("le", 2, np.less_equal, "bool"),
        ScalarFunction("gt", 2, np.greater, "bool"),
        ScalarFunction("ge", 2, np.greater_equal, "bool"),
        ScalarFunction("and", 2, np.logical_and, "bool"),
        ScalarFunction("or", 2, np.logical_or, "bool"),
        ScalarFunction("xor", 2, np.logical_xor, "bool"),
        ScalarFunction("bitand", 2, np.bitwise_and),
        ScalarFunction("bitor", 2, np.bitwise_or),
        ScalarFunction("bitxor", 2, np.bitwise_xor),
        ScalarFunction("bitnot", 1, np.invert),
        ScalarFunction("select", 3, lambda c, a, b: np.where(c, a, b), doc="select(c, a, b) = a if c else b"),
        ScalarFunction("cast", 1, lambda x: x, "cast"),
        ScalarFunction("random24", 3, random24, doc="24 random bits of the counter (index, salt) under a key; integers"),
    ]
    return {r.name: ScalarFunction(r.name, r.arity, _quiet(r.numpy), r.result, r.doc) for r in rows}


def _int_aware_div(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "iu":
        return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)
    return np.true_divide(a, b)


FUNCTIONS: dict[str, ScalarFunction] = _table()


class Scalar:
    """Base of scalar expressions; supports + - * / and unary minus."""

    def __add__(self, other: Any) -> Scalar:
        return Call("add", (self, lift(other)))

    def __radd__(self, other: Any) -> Scalar:
        return Call("add", (lift(other), self))

    def __sub__(self, other: Any) -> Scalar:
        return Call("sub", (self, lift(other)))

    def __rsub__(self, other: Any) -> Scalar:
        return Call("sub", (lift(other), self))

    def __mul__(self, other: Any) -> Scalar:
        return Call("mul", (self, lift(other)))

    def __rmul__(self, other: Any) -> Scalar:
        return Call("mul", (lift(other), self))

    def __truediv__(self, other: Any) -> Scalar:
        return Call("div", (self, lift(other)))

    def __rtruediv__(self, other: Any) -> Scalar:
        return Call("div", (lift(other), self))

    def __neg__(self) -> Scalar:
        return Call("neg", (self,))


@dataclass(frozen=True)
class Arg(Scalar):
    """Operand number `index` of the body."""

    index: int


@dataclass(frozen=True)
class Const(Scalar):
    """A literal; it takes the dtype of the computation."""

    value: float

    @cached_property
    def _key(self) -> tuple:
        return (math.copysign(1.0, self.value), "nan" if math.isnan(self.value) else self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@dataclass(frozen=True)
class Coord(Scalar):
    """The current value of a dim of the iteration space, as data (masks, positions)."""

    dim: str


@dataclass(frozen=True)
class Extent(Scalar):
    """The value of a dim expression as a number (the N of a mean over N elements)."""

    value: Expr


@dataclass(frozen=True)
class Call(Scalar):
    """`function(args)`; `dtype` is the target of a "cast", else None."""

    function: str
    args: tuple[Scalar, ...]
    dtype: dt.DType | None = None

    def __post_init__(self) -> None:
        arity = FUNCTIONS[self.function].arity
        if arity != len(self.args):
            raise ValueError(f"{self.function} takes {arity} operands, got {len(self.args)}")


def lift(value: Any) -> Scalar:
    """A Python number as a `Const`; scalar expressions pass through."""
    return value if isinstance(value, Scalar) else Const(float(value))


def call(function: str, *args: Any) -> Scalar:
    """`Call` with Python numbers lifted to constants."""
    return Call(function, tuple(lift(a) for a in args))


def cast(value: Scalar, dtype: dt.DType) -> Scalar:
    """Conversion to `dtype`, rounding to nearest even for floats and truncating for integers."""
    return Call("cast", (value,), dtype)


def evaluate(
    body: Scalar, args: Sequence[Any], coords: Mapping[str, Any] | None = None, env: Mapping[str, int] | None = None
) -> Any:
    """Evaluate a body on numpy arrays that broadcast against each other.

    Constants take the dtype of the arrays they meet, so float64 arguments give a float64 result.
    `coords` gives the values of dims for `Coord`, `env` those of symbols for `Extent`.
    """
    match body:
        case Arg(index):
            return args[index]
        case Const(value):
            return np.asarray(value).astype(_literal_dtype(args))
        case Extent(value):
            return np.asarray(value.evaluate(env or {})).astype(_literal_dtype(args))
        case Coord(dim):
            return (coords or {})[dim]
        case Call(function, operands, dtype):
            values = [evaluate(o, args, coords, env) for o in operands]
            kinds = [np.asarray(v).dtype for o, v in zip(operands, values) if not isinstance(o, Const | Extent)]
            met = next((k for k in kinds if k.kind == "f"), None)
            if met is not None and _literal_dtype(args).kind in "iu":  # integer operands, computed on as floats
                values = [
                    np.asarray(o.value).astype(met) if isinstance(o, Const) else v for o, v in zip(operands, values)
                ]
            if function == "cast":
                assert dtype is not None
                return convert(values[0], dtype)
            return FUNCTIONS[function].numpy(*values)
    raise TypeError(f"not a scalar expression: {body!r}")


def _literal_dtype(args: Sequence[Any]) -> np.dtype:
    return next((np.asarray(a).dtype for a in args if np.asarray(a).dtype.kind != "b"), np.dtype(np.float64))


def convert(value: Any, dtype: dt.DType) -> np.ndarray:
    """numpy conversion with gaf's rules: float to int truncates, anything to bool is `!= 0`."""
    value = np.asarray(value)
    with np.errstate(all="ignore"):
        if dtype.is_bool:
            return value != 0
        if dtype.numpy == value.dtype:
            return value
        return value.astype(dtype.numpy)


def walk(body: Scalar) -> list[Scalar]:
    """Every sub-expression, operands before users; each distinct one once."""
    seen: dict[Scalar, None] = {}

    def visit(node: Scalar) -> None:
        if node in seen:
            return
        if isinstance(node, Call):
            for arg in node.args:
                visit(arg)
        seen[node] = None

    visit(body)
    return list(seen)


def rewrite_args(body: Scalar, args: Sequence[Scalar]) -> Scalar:
    """Substitute `args[i]` for `Arg(i)`."""
    match body:
        case Arg(index):
            return args[index]
        case Call(function, operands, dtype):
            return Call(function, tuple(rewrite_args(o, args) for o in operands), dtype)
        case _:
            return body
