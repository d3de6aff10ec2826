# SPDX-License-Identifier: Apache-2.0
"""What the op families share: axes, rounding rules, arithmetic on symbolic sizes, constants of ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import index, scalar
from gaf.dialects.common.index import DIMS, Expr, expr, is_nonneg, is_positive
from gaf.dialects.common.scalar import Arg, Call, Const, Scalar
from gaf.dialects.graph.contract import ExportContext, ImportContext, maybe_equal
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError

NUMERIC = ("float", "int", "uint")
ANY = ("float", "int", "uint", "bool")

# -- shapes and axes --------------------------------------------------------------------------------


def format_dims(dims: Iterable[Expr | int]) -> str:
    """`[B, 3]` for messages."""
    return "[" + ", ".join(map(str, dims)) + "]"


def norm_axis(axis: int, rank: int, what: str) -> int:
    """`axis` counted from the front. Raises InvalidInputError if it is out of range."""
    if not -rank <= axis < rank:
        allowed = f"an axis of -{rank}..{rank - 1}" if rank else "no axis, the operand is a scalar"
        raise InvalidInputError(f"{what}: axis out of range", expected=allowed, got=axis)
    return axis % rank


def norm_axes(axes: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """`axes` counted from the front, ascending. Raises InvalidInputError if out of range or repeated."""
    result = sorted(norm_axis(a, rank, what) for a in axes)
    if len(set(result)) != len(result):
        raise InvalidInputError(f"{what}: an axis is named twice", got=tuple(axes))
    return tuple(result)


def same_dtype(operands: Sequence[TensorType], what: str) -> dt.DType:
    """The element type of all operands. Raises InvalidInputError if they differ."""
    first = operands[0].dtype
    for other in operands[1:]:
        if other.dtype != first:
            raise InvalidInputError(
                f"{what}: operands have different element types",
                expected=first,
                got=other.dtype,
                hint="add a cast",
            )
    return first


def check_kind(dtype: dt.DType, kinds: Sequence[str], what: str) -> None:
    """Raises InvalidInputError unless the element type is of one of `kinds`."""
    if dtype.kind not in kinds:
        raise InvalidInputError(f"{what}: wrong element type", expected=" or ".join(kinds), got=dtype)


def concrete(dims: Iterable[Expr], env: Mapping[str, int], what: str) -> tuple[int, ...]:
    """Dim expressions as integers. Raises InvalidInputError for a symbol that `env` lacks."""
    try:
        return tuple(int(d.evaluate(env)) for d in dims)
    except KeyError as error:
        raise InvalidInputError(
            f"{what}: the value of symbol {error} is not known", hint="run with symbol values"
        ) from None


# -- rounding: what a reference computes in ------------------------------------------------------------


def accumulator(dtype: dt.DType) -> dt.DType:
    """The type that kernels compute in: f32 for 16-bit floats, else the type itself."""
    return dt.F32 if dtype.is_float and dtype.bits == 16 else dtype


def computing(array: Any) -> np.ndarray:
    """A float16 or bfloat16 array as float32; others unchanged. One op rounds once, at its result."""
    array = np.asarray(array)
    if array.dtype == object:
        return array
    return array.astype(np.float32) if dt.of_numpy(array.dtype) in (dt.F16, dt.BF16) else array


def finish(array: Any, dtype: dt.DType, wide: bool) -> np.ndarray:
    """A result rounded to `dtype`; with `wide` float results become float64 instead."""
    array = np.asarray(array)
    if array.dtype == object:
        return array
    if wide and dtype.is_float:
        return array.astype(np.float64)
    return scalar.convert(array, dtype)


def apply_body(body: Scalar, args: Sequence[np.ndarray], dtype: dt.DType, wide: bool) -> list[np.ndarray]:
    """The elementwise result of a scalar body; object arrays are evaluated as symbolic sizes."""
    if is_symbolic(args):
        return [evaluate_symbolic(body, args)]
    values = [computing(a) for a in args]
    return [finish(scalar.evaluate(body, values), dtype, wide)]


# -- arithmetic on symbolic sizes (numpy object arrays of Expr and int) ------------------------------------


def is_symbolic(args: Iterable[Any]) -> bool:
    """True if some array holds index expressions instead of numbers."""
    return any(getattr(a, "dtype", None) == object for a in args)


def unknown_size(what: str) -> UnsupportedError:
    """The error of shape arithmetic that symbols leave open."""
    return UnsupportedError(
        f"{what} can't be decided while sizes are symbolic", hint="fix the sizes with --input-shape"
    )


def _equal(a: Expr, b: Expr) -> bool:
    if a == b:
        return True
    if not maybe_equal(a, b):
        return False
    raise unknown_size(f"whether {a} equals {b}")


def _less(a: Expr, b: Expr) -> bool:
    if is_positive(b - a, DIMS):
        return True
    if is_nonneg(a - b, DIMS):
        return False
    raise unknown_size(f"whether {a} is less than {b}")


def _div(a: Expr, b: Expr) -> Expr:
    ai, bi = a.as_int(), b.as_int()
    if ai is not None and bi:
        quotient = abs(ai) // abs(bi)
        return expr(quotient if (ai < 0) == (bi < 0) else -quotient)
    exact = index.exact_div(a, b)
    if exact is not None:
        return exact
    if is_nonneg(a, DIMS) and is_positive(b, DIMS):
        return index.floordiv(a, b)
    raise unknown_size(f"{a} / {b}")


def _mod(a: Expr, b: Expr) -> Expr:
    if not is_positive(b, DIMS):
        raise unknown_size(f"{a} mod {b}")
    return index.mod(a, b)


def _abs(a: Expr) -> Expr:
    return -a if _less(a, expr(0)) else a


_SYMBOLIC: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "abs": _abs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _div,
    "floormod": _mod,
    "max": lambda a, b: index.maximum(a, b, DIMS),
    "min": lambda a, b: index.minimum(a, b, DIMS),
    "eq": _equal,
    "ne": lambda a, b: not _equal(a, b),
    "lt": _less,
    "le": lambda a, b: not _less(b, a),
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: not _less(a, b),
    "relu": lambda a: index.maximum(a, 0, DIMS),
}
_PREDICATES = {"eq", "ne", "lt", "le", "gt", "ge"}


def evaluate_symbolic(body: Scalar, args: Sequence[np.ndarray]) -> np.ndarray:
    """Evaluate an integer body on object arrays of Expr and int.

    Comparisons give bool arrays. Raises UnsupportedError when the symbols leave the result open.
    """
    match body:
        case Arg(i):
            return np.asarray(args[i])
        case Const(value):
            if value != int(value):
                raise unknown_size("arithmetic on fractions")
            return np.asarray(int(value), dtype=object)
        case Call(function, operands, dtype):
            values = [evaluate_symbolic(o, args) for o in operands]
            if function == "select":
                return np.where(values[0].astype(bool), values[1], values[2])
            if function == "cast":
                assert dtype is not None
                return cast_symbolic(values[0], dtype)
            rule = _SYMBOLIC.get(function)
            if rule is None:
                if not is_symbolic(values):
                    return np.asarray(scalar.FUNCTIONS[function].numpy(*values))
                raise unknown_size(f"'{function}' of sizes")
            # frompyfunc returns a bare object for 0-d input
            result = np.asarray(
                np.frompyfunc(lambda *v: rule(*map(expr, v)), len(values), 1)(*values), dtype=object
            )
            return result.astype(bool) if function in _PREDICATES else result
    raise unknown_size("this formula")


def cast_symbolic(array: np.ndarray, dtype: dt.DType) -> np.ndarray:
    """Conversion of an object array: integers stay, bool is `!= 0`. Raises UnsupportedError for floats."""
    if dtype.is_float:
        raise unknown_size("a size as a float")
    if dtype.is_bool and array.dtype == object:
        return evaluate_symbolic(Call("ne", (Arg(0), Const(0.0))), [array])
    return array


# -- ONNX nodes ------------------------------------------------------------------------------------------


def int_list(ctx: ImportContext, position: int, attribute: str | None, what: str) -> tuple[int, ...] | None:
    """Integers that are an attribute in old opsets and an operand in newer ones; None if absent.

    Raises UnsupportedError if the operand is computed at run time.
    """
    if attribute is not None:
        value = ctx.attr(attribute)
        if value is not None:
            return tuple(int(v) for v in (value if isinstance(value, list | tuple | np.ndarray) else [value]))
    if ctx.operand(position) is None:
        return None
    array = ctx.constant(position)
    if array is None:
        dims = ctx.dims(position)
        if dims is None or any(d.as_int() is None for d in dims):
            raise ctx.unsupported(f"{what} computed at run time", expected=f"constant {what}")
        return tuple(d.as_int() for d in dims)  # type: ignore[misc]
    return tuple(int(v) for v in np.asarray(array).reshape(-1))


def dim_list(ctx: ImportContext, position: int, what: str) -> tuple[Expr, ...]:
    """An integer operand as expressions over symbols. Raises UnsupportedError if it depends on data."""
    dims = ctx.dims(position)
    if dims is None:
        array = ctx.constant(position)
        if array is None:
            raise ctx.unsupported(
                f"run-time data decides {what}", expected=f"{what} made of constants and input sizes"
            )
        dims = tuple(expr(int(v)) for v in np.asarray(array).reshape(-1))
    return dims


def scalar_constant(ctx: ImportContext, position: int, what: str) -> float | None:
    """The value of an optional scalar operand; None if absent. Raises UnsupportedError if not constant."""
    if ctx.operand(position) is None:
        return None
    array = ctx.constant(position)
    if array is None:
        raise ctx.unsupported(f"{what} computed at run time", expected=f"a constant {what}")
    if array.size != 1:
        raise ctx.unsupported(f"{what} has {array.size} elements", expected="one element")
    return array.reshape(-1)[0].item()


def number(value: float, dtype: dt.DType) -> np.ndarray:
    """A rank-0 array of a model element type."""
    return np.asarray(value, dtype=np.float64 if dtype.is_float else None).astype(dtype.numpy)


# Scalar functions that ONNX has as one operator (opset 17).
ONNX_FUNCTIONS = {
    "neg": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal",
    "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "floor": "Floor", "ceil": "Ceil", "rint": "Round", "sign": "Sign",
    "relu": "Relu", "isnan": "IsNaN", "isinf": "IsInf", "not": "Not", "add": "Add", "sub": "Sub",
    "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "and": "And", "or": "Or", "xor": "Xor",
    "select": "Where",
}  # fmt: skip


def body_to_onnx(ctx: ExportContext, body: Scalar, inputs: Sequence[str], dtype: dt.DType) -> list[str]:
    """Write a scalar body as ONNX nodes; constants take `dtype`. The last node has the op's result names.

    For ops that have no ONNX operator of their own at the exporter's opset. Raises UnsupportedError for
    a scalar function that ONNX lacks.
    """
    done: dict[Scalar, str] = {}

    def visit(node: Scalar, last: bool) -> str:
        if node in done and not last:
            return done[node]
        match node:
            case Arg(i):
                name = ctx.node("Identity", [inputs[i]])[0] if last else inputs[i]
            case Const(value):
                name = ctx.constant(number(value, dtype))
            case Call(function, operands, target):
                name = emit(function, [visit(o, False) for o in operands], target, None if last else 1)
            case _:
                raise UnsupportedError(f"a formula with {type(node).__name__} has no elementwise ONNX form")
        done[node] = name
        return name

    def emit(function: str, args: list[str], target: dt.DType | None, outputs: int | None) -> str:
        if function == "cast":
            assert target is not None
            return ctx.node("Cast", args, outputs, to=target.onnx)[0]
        if function == "rsqrt":
            return ctx.node("Reciprocal", ctx.node("Sqrt", args, 1), outputs)[0]
        if function == "ne":
            return ctx.node("Not", ctx.node("Equal", args, 1), outputs)[0]
        if function in ("fmod", "floormod"):
            return ctx.node("Mod", args, outputs, fmod=int(function == "fmod"))[0]
        if function not in ONNX_FUNCTIONS:
            raise UnsupportedError(f"the scalar function '{function}' has no ONNX form at opset {ctx.opset}")
        return ctx.node(ONNX_FUNCTIONS[function], args, outputs)[0]

    return [visit(body, True)]


def scalar_dim(ctx: ExportContext, dim: Expr) -> str:
    """Name of an int64 scalar that holds one dim expression."""
    size = dim.as_int()
    if size is not None:
        return ctx.constant(np.asarray(size, np.int64))
    return ctx.node("Squeeze", [ctx.dims([dim]), ctx.constant(np.asarray([0], np.int64))], 1)[0]


@lru_cache(maxsize=4096)
def onnx_takes(op_type: str, opset: int, dtype: dt.DType) -> bool:
    """Whether an ONNX operator of the standard domain takes `dtype` as its first operand at an opset."""
    from onnx import TensorProto, defs

    schema = defs.get_schema(op_type, opset)
    name = f"tensor({TensorProto.DataType.Name(dtype.onnx).lower()})"
    return name in schema.inputs[0].types


class _Narrowing:
    """An ExportContext whose result goes through a Cast to `dtype`."""

    def __init__(self, ctx: ExportContext, dtype: dt.DType) -> None:
        self._ctx, self._dtype, self.opset = ctx, dtype, ctx.opset
        self.constant, self.dims = ctx.constant, ctx.dims

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int | None = None, domain: str = "", **attrs: Any
    ) -> list[str]:
        names = self._ctx.node(op_type, inputs, outputs or 1, domain, **attrs)
        return names if outputs is not None else self._ctx.node("Cast", names, to=self._dtype.onnx)


def export_float(
    ctx: ExportContext,
    op_type: str,
    inputs: Sequence[str],
    dtype: dt.DType,
    write: Callable[[ExportContext, Sequence[str]], list[str]],
) -> list[str]:
    """`write` an op of one result; through float32 if the ONNX operator doesn't take `dtype` yet.

    Many operators take bfloat16 from opset 22 on only. All operands have to be of type `dtype`.
    """
    if not dtype.is_float or dtype.bits != 16 or onnx_takes(op_type, ctx.opset, dtype):
        return write(ctx, inputs)
    wide = [ctx.node("Cast", [name], 1, to=dt.F32.onnx)[0] for name in inputs]
    return write(_Narrowing(ctx, dtype), wide)
