# SPDX-License-Identifier: Apache-2.0
"""PyTorch's types and symbolic sizes in gaf's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, floordiv, maximum, minimum, mod, sym
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError

_DTYPES = {getattr(torch, "bool" if d.is_bool else str(d.numpy)): d for d in dt.ALL}


def dtype_of(dtype: torch.dtype) -> dt.DType:
    """The element type for a torch dtype. Raises UnsupportedError for complex, quantised and 8-bit floats."""
    found = _DTYPES.get(dtype)
    if found is None:
        raise UnsupportedError(
            f"element type {str(dtype).removeprefix('torch.')} is not supported",
            expected=", ".join(d.name for d in dt.ALL),
        )
    return found


def torch_dtype(dtype: dt.DType) -> torch.dtype:
    """The torch dtype of an element type."""
    return getattr(torch, "bool" if dtype.is_bool else str(dtype.numpy))


def type_of(tensor: torch.Tensor) -> TensorType:
    """The graph type of a (fake) tensor. Raises UnsupportedError for sparse ones and other dtypes."""
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        raise UnsupportedError(f"{kind} tensors are not supported", expected="dense tensors")
    return TensorType.of([size_of(s) for s in tensor.shape], dtype_of(tensor.dtype))


def size_of(size: Any) -> Expr:
    """A size (int or SymInt) as an expression. Raises UnsupportedError for what is no polynomial of sizes."""
    return const(size) if isinstance(size, int) else expression(size.node.expr)


def expression(value: sympy.Expr) -> Expr:
    """A sympy expression over size symbols as an index expression. Raises UnsupportedError."""
    if value.is_Integer:
        return const(int(value))
    if value.is_Symbol:
        return sym(str(value))
    if value.is_Add or value.is_Mul:
        result = expression(value.args[0])
        for arg in value.args[1:]:
            other = expression(arg)
            result = result + other if value.is_Add else result * other
        return result
    if value.is_Pow and value.args[1].is_Integer and int(value.args[1]) > 0:
        base = expression(value.args[0])
        result = base
        for _ in range(int(value.args[1]) - 1):
            result = result * base
        return result
    name = type(value).__name__
    rule = _FUNCTIONS.get(name)
    if rule is None:
        raise UnsupportedError(
            f"the size {value} can't be expressed", expected="+, *, //, %, min, max of sizes"
        )
    first, *rest = (expression(a) for a in value.args)
    for other in rest:
        first = rule(first, other)
    return first


_FUNCTIONS = {
    **dict.fromkeys(("FloorDiv", "CleanDiv"), floordiv),
    **dict.fromkeys(("Mod", "PythonMod"), mod),
    **dict.fromkeys(("Max", "Identity"), maximum),  # of one argument: the argument itself
    "Min": minimum,
}


def strides_of(tensor: torch.Tensor) -> tuple[Expr, ...] | None:
    """The strides of a tensor that is not in row-major order, else None."""
    try:
        if tensor.is_contiguous():
            return None
        return tuple(size_of(s) for s in tensor.stride())
    except (UnsupportedError, RuntimeError):
        return None


def evaluate(dims: Sequence[Expr], env: dict[str, int]) -> tuple[int, ...]:
    """Sizes as numbers."""
    return tuple(expr(d).evaluate(env) for d in dims)
