# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic of a region: what the vector unit computes exactly on 32-bit integers, and what it can't.

The unit adds, subtracts, multiplies and compares int32; int64 is only copied and converted. An int64 value whose
elements are known to fit (coordinates, widened bytes, sums of those) is therefore an i32 node, and only its store
is int64. Arithmetic on coordinates stays an index expression as long as it is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const

if TYPE_CHECKING:
    from gaf.fusion.region import Builder, Node

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = ("add", "sub", "mul", "max", "min", "neg", "abs", "relu")
BITS = ("bitand", "bitor", "bitxor", "bitnot")
SMALL = {dt.BOOL: 1, dt.U8: 255, dt.I8: 128, dt.I16: 1 << 15}
"""Largest absolute value of dtypes narrower than 32 bits."""

LIMIT = 1 << 31
EXACT_FLOAT = 1 << 24
"""Integers up to here are exact in float32."""


def compute(builder: Builder, function: str, args: list[int]) -> int:
    """The node of a scalar function with integer operands; raises NotFusible."""
    from gaf.fusion.region import NotFusible

    nodes = [builder.node(a) for a in args]
    kinds = [n.dtype for n in nodes if n.dtype.is_int and n.kind != "number"]
    exprs = [_index(n) for n in nodes]
    if all(e is not None for e in exprs) and function in ("add", "sub", "mul", "neg"):
        folded = _linear(function, exprs)  # type: ignore[arg-type]
        if folded is not None and (not builder.is_long or expr_bound(builder, folded) is not None):
            return builder.coordinate(folded)
    if function in COMPARISONS and all(e is not None for e in exprs):
        difference = builder.compute("cast", [builder.coordinate(exprs[0] - exprs[1])], dt.F32)  # type: ignore[operator]
        return builder.map(function, [difference, builder.number(0.0, dt.F32)], dt.BOOL)
    if function in COMPARISONS:
        return builder.map(function, [word(builder, a) for a in args], dt.BOOL)
    if function == "select":
        return builder.map(function, [args[0], *(word(builder, a) for a in args[1:])], dt.I32)
    if any(k in SMALL for k in kinds):
        raise NotFusible(f"'{function}' on {kinds[0]} would have to wrap at {8 * kinds[0].bytes} bits; it stays on the host")
    if function in BITS:
        return builder.map(function, [word(builder, a) for a in args], dt.I32)
    if function in ARITHMETIC:
        words = [word(builder, a) for a in args]
        if function == "abs":
            words, function = [words[0], builder.map("neg", words, dt.I32)], "max"
        result = builder.map(function, words, dt.I32)
        if builder.is_long and bound(builder, result) is None:
            raise NotFusible(f"'{function}' on i64 values that may need more than 32 bits; it stays on the host")
        return result
    raise NotFusible(f"'{function}' on {kinds[0]} has no vector form; it stays on the host")


def word(builder: Builder, number: int) -> int:
    """A value as an i32 node (numbers stay numbers); raises NotFusible for int64 that may not fit."""
    from gaf.fusion.region import NotFusible

    node = builder.node(number)
    if node.kind == "number" or node.dtype == dt.I32:
        return number
    if node.kind == "extent":
        return builder.coordinate(node.index[0])
    if node.dtype in SMALL:
        return builder.map("cast", [number], dt.I32)
    raise NotFusible(f"{node.dtype} has no vector arithmetic; it is only copied and converted")


def cast(builder: Builder, number: int, target: dt.DType) -> int | None:
    """The node of a conversion to an integer dtype, or None if it is an ordinary one; raises NotFusible."""
    from gaf.fusion.region import NotFusible

    node = builder.node(number)
    if target == dt.I64 and (node.dtype == dt.I32 or node.dtype in SMALL):
        return word(builder, number)
    if target in SMALL and node.dtype in (dt.I32, dt.I64) and node.kind != "number":
        most = bound(builder, number) if node.dtype == dt.I32 else None
        lowest = 0 if target == dt.U8 else -most if most is not None else 0
        if most is None or most >= SMALL[target] or (target == dt.U8 and lowest < 0):
            raise NotFusible(f"a cast from {node.dtype} to {target} drops high bits; it stays on the host")
    return None


# -- sizes of values --------------------------------------------------------------------------------------


def bound(builder: Builder, number: int) -> int | None:
    """A bound of the absolute value of an integer node, less than 2**31, or None."""
    node = builder.node(number)
    found: int | None = None
    match node.kind:
        case "number":
            found = abs(int(node.value))
        case "load":
            found = SMALL.get(node.dtype)
        case "coord":
            found = expr_bound(builder, node.index[0])
        case "map":
            found = _map_bound(builder, node)
    return found if found is not None and found < LIMIT else None


def _map_bound(builder: Builder, node: Node) -> int | None:
    if node.dtype.is_bool:
        return 1
    args = node.args[1:] if node.function == "select" else node.args
    if node.function == "cast" and builder.node(args[0]).dtype.is_float:
        return None
    known = [bound(builder, a) for a in args]
    if None in known:
        return None
    sizes: list[int] = known  # type: ignore[assignment]
    match node.function:
        case "add" | "sub":
            return sizes[0] + sizes[1]
        case "mul":
            return sizes[0] * sizes[1]
        case "max" | "min" | "select" | "neg" | "relu" | "cast":
            return max(sizes)
    return None


def expr_bound(builder: Builder, value: Expr) -> int | None:
    """A bound of an index expression over axes; a size that isn't known is less than 2**31, as all sizes are."""
    total = 0
    for mono, coefficient in value.terms.items():
        if len(mono) > 1 or any(not isinstance(a, str) for a in mono):
            return None
        extent = builder.region.axes.get(str(mono[0]), None) if mono else const(2)
        size = (extent - 1).as_int() if extent is not None else None
        if size is None:
            # differences of positions and sums of a position and a small number fit: no array is that long
            if abs(coefficient) != 1:
                return None
            continue
        total += abs(coefficient) * size
    return total if total < LIMIT else None


def _index(node: Node) -> Expr | None:
    """A node as an index expression, if it is one."""
    if node.kind in ("coord", "extent"):
        return node.index[0]
    if node.kind == "number" and float(node.value).is_integer():
        return const(int(node.value))
    return None


def _linear(function: str, args: Sequence[Expr]) -> Expr | None:
    match function:
        case "add":
            return args[0] + args[1]
        case "sub":
            return args[0] - args[1]
        case "neg":
            return const(0) - args[0]
    if args[0].as_int() is None and args[1].as_int() is None:
        return None
    return args[0] * args[1]
