# SPDX-License-Identifier: Apache-2.0
"""Values of shape arithmetic at import time: small tensors whose elements are numbers or dim expressions.

A known value is a numpy array: in the tensor's own dtype when every element is a number, or of dtype
object with `Expr` elements when the value depends on symbolic dims. The ops' own references compute on
both; they refuse what would not hold for all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.traits import is_side_effect_free

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr, product
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Opaque
from gaf.errors import InvalidInputError

LIMIT = 1024
"""Values of more elements are not followed: no shape is that long, and weights must not be folded here."""


def is_symbolic(array: np.ndarray) -> bool:
    """True if elements are expressions over symbols."""
    return array.dtype == object


def settle(array: np.ndarray, dtype: dt.DType) -> np.ndarray:
    """`array` in `dtype` if no element depends on a symbol, else with an `Expr` for every element.

    Raises InvalidInputError for a size that the type doesn't hold.
    """
    if array.dtype != object:
        return array
    flat = [expr(e) for e in array.reshape(-1)]
    numbers = [e.as_int() for e in flat]
    if all(n is not None for n in numbers):
        try:
            return np.array(numbers, dtype=dtype.numpy).reshape(array.shape)
        except OverflowError:
            raise InvalidInputError(f"a size that {dtype} doesn't hold", got=max(map(abs, numbers))) from None  # type: ignore[arg-type]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(array.shape)


def dims_array(dims: Sequence[Expr]) -> np.ndarray:
    """The int64 vector of some dims."""
    array = np.empty(len(dims), dtype=object)
    array[:] = list(dims)
    return settle(array, dt.I64)


def shape_value(op: GraphOp) -> list[np.ndarray]:
    """The value of Shape or Size, which needs only the operand's type."""
    shape = tensor_type(op.operands[0]).shape
    if op.name == "graph.size":
        size = np.empty((), dtype=object)
        size[()] = product(shape)
        return [settle(size, dt.I64)]
    attrs = op.attrs()
    return [dims_array(shape[slice(attrs.get("start", 0), attrs.get("end"))])]


def evaluate(op: GraphOp, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The results of `op` on known operands (one array per result), or None if they are not known."""
    types = op.result_tensor_types()
    if not is_side_effect_free(op):  # it asks other ranks, draws random numbers or calls the user's code
        return None
    try:
        if any(is_symbolic(a) for a in operands) and isinstance(op.meaning(), Opaque):
            # e.g. TopK or NonZero: their order and equality tests say nothing about sizes not yet known
            return None
        results = op.reference_with_symbols(*operands, env={})
        arrays = [settle(np.asarray(r), t.dtype) for r, t in zip(results, types, strict=True)]
    except Exception:  # whatever goes wrong, the op stays in the graph and is computed at run time
        return None
    for array, type_ in zip(arrays, types):
        if array.shape != type_.static_shape():
            return None
        if not is_symbolic(array) and array.dtype != type_.dtype.numpy:
            return None
    return arrays
