# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic of a region: what the vector unit computes exactly on 32-bit integers, and what it can't.

The unit adds, subtracts, multiplies and compares int32; int64 is only copied and converted. An int64 value whose
elements are known to fit (coordinates, widened bytes, sums of those; see bounds.py) is therefore an i32 node, and only its store
is int64. Arithmetic on coordinates stays an index expression as long as it is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, product
from gaf.fusion.bounds import LIMIT, SMALL, UNKNOWN_SIZE, combine, size_bound
from gaf.fusion.nodes import Node, NotFusible

if TYPE_CHECKING:
    from gaf.fusion.region import Builder

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = ("add", "sub", "mul", "max", "min", "neg", "abs", "relu")
DIVISIONS = ("div", "floormod", "fmod")
BITS = ("bitand", "bitor", "bitxor", "bitnot")

EXACT_FLOAT = 1 << 24
"""Integers up to here are exact in float32."""


def compute(builder: Builder, function: str, args: list[int]) -> int:
    """The node of a scalar function with integer operands; raises NotFusible."""
    nodes = [builder.node(a) for a in args]
    kinds = [n.dtype for n in nodes if n.dtype.is_int and n.kind != "number"]
    exprs = [_index(n) for n in nodes]
    if all(e is not None for e in exprs) and function in ("add", "sub", "mul", "neg"):
        folded = _linear(builder, function, exprs)  # type: ignore[arg-type]
        if folded is not None and (builder.kind != dt.I64 or expr_bound(builder, folded) is not None):
            return builder.coordinate(folded)
    if function in COMPARISONS and all(e is not None for e in exprs):
        difference = builder.compute("cast", [builder.coordinate(exprs[0] - exprs[1])], dt.F32)  # type: ignore[operator]
        return builder.map(function, [difference, builder.number(0.0, dt.F32)], dt.BOOL)
    if function in COMPARISONS:
        wide = [n.dtype == dt.I64 and n.kind != "number" and bound(builder, a) is None for a, n in zip(args, nodes)]
        if wide.count(True) == 1:
            return compare_wide(builder, function, args, other=args[wide.index(False)])
        return builder.map(function, [word(builder, a) for a in args], dt.BOOL)
    if function == "select":
        return builder.map(function, [args[0], *(word(builder, a) for a in args[1:])], dt.I32)
    narrow = builder.kind if builder.kind in SMALL and builder.kind.is_int else next((k for k in kinds if k in SMALL), None)
    wraps = ("add", "sub", "mul", "neg", "abs") if narrow != dt.U8 else ("add", "sub", "mul", "neg", "bitnot")
    if narrow is not None and function in wraps:
        raise NotFusible(f"'{function}' on {narrow} would have to wrap at {8 * narrow.bytes} bits; it stays on the host")
    if function in BITS or function == "random24":
        return builder.map(function, [word(builder, a) for a in args], dt.I32)
    if function in ARITHMETIC:
        words = [word(builder, a) for a in args]
        if function == "abs":
            words, function = [words[0], builder.map("neg", words, dt.I32)], "max"
        result = builder.map(function, words, dt.I32)
        if builder.kind == dt.I64 and bound(builder, result) is None:
            raise NotFusible(f"'{function}' on i64 values that may need more than 32 bits; it stays on the host")
        return result
    if function in DIVISIONS:
        return divide(builder, function, args, kinds[0])
    raise NotFusible(f"'{function}' on {kinds[0]} has no vector form; it stays on the host")


def divide(builder: Builder, function: str, args: Sequence[int], kind: dt.DType) -> int:
    """A quotient or remainder of integers below 2**24, by a float32 division; 0 for a divisor of 0, as numpy has it.

    The nearest float of a quotient of such integers is never beyond a whole number that the quotient doesn't reach.
    """
    if any(most is None or most >= EXACT_FLOAT for most in (bound(builder, a) for a in args)):
        raise NotFusible(f"'{function}' on {kind} is exact below 2**24 only, and the operands aren't known to be; it stays on the host")
    if function == "div" and builder.kind in (dt.I8, dt.I16):
        raise NotFusible(f"'div' on {builder.kind} would have to wrap at {8 * builder.kind.bytes} bits; it stays on the host")
    x, y = (builder.compute("cast", [a], dt.F32) for a in args)
    zero = builder.number(0.0, dt.F32)
    nothing = builder.map("eq", [y, zero], dt.BOOL) if builder.node(y).kind != "number" else None
    divisor = y if nothing is None else builder.map("select", [nothing, builder.number(1.0, dt.F32), y], dt.F32)
    quotient = builder.map("div", [x, divisor], dt.F32)
    result = builder.map("floor" if function == "floormod" else "trunc", [quotient], dt.F32)
    if function != "div":
        result = builder.map("sub", [x, builder.map("mul", [result, divisor], dt.F32)], dt.F32)
    if nothing is not None:
        result = builder.map("select", [nothing, zero, result], dt.F32)
    return builder.map("cast", [result], dt.I32)


NEAR = 1 << 30
"""Integers below this stay below 2**31 when float32 rounds them."""


def compare_wide(builder: Builder, function: str, args: Sequence[int], other: int) -> int:
    """A comparison of any int64 with `other`, an integer below 2**30: as float32, and as int32 where that can't tell.

    Rounding keeps order, so different floats decide. Equal ones mean that the int64 is close to `other` and fits
    int32, whatever the conversion makes of numbers that don't.
    """
    most = bound(builder, other)
    if most is None or most >= NEAR:
        raise NotFusible("a comparison of i64 with a value that may need more than 30 bits; it stays on the host")
    floats = [builder.compute("cast", [a], dt.F32) for a in args]
    words = [builder.map("cast", [a], dt.I32) if a != other else word(builder, a) for a in args]
    same = builder.map("eq", floats, dt.BOOL)
    if function in ("eq", "ne"):
        equal = builder.map("and", [same, builder.map("eq", words, dt.BOOL)], dt.BOOL)
        return equal if function == "eq" else builder.map("not", [equal], dt.BOOL)
    strict = {"le": "lt", "ge": "gt"}.get(function, function)
    close = builder.map("and", [same, builder.map(function, words, dt.BOOL)], dt.BOOL)
    return builder.map("or", [builder.map(strict, floats, dt.BOOL), close], dt.BOOL)


def word(builder: Builder, number: int) -> int:
    """A value as an i32 node (numbers stay numbers); raises NotFusible for int64 that isn't known to fit."""
    node = builder.node(number)
    if node.kind == "number" or node.dtype == dt.I32:
        return number
    if node.kind == "extent":
        return builder.coordinate(node.index[0])
    if node.dtype in SMALL or (node.dtype.is_int and bound(builder, number) is not None):
        return builder.map("cast", [number], dt.I32)
    raise NotFusible(f"{node.dtype} has no vector arithmetic; it is only copied and converted")


def cast(builder: Builder, number: int, target: dt.DType) -> int | None:
    """The node of a conversion to an integer dtype, or None if it is an ordinary one; raises NotFusible."""
    node = builder.node(number)
    if target == dt.I64 and (node.dtype == dt.I32 or node.dtype in SMALL):
        return word(builder, number)
    if target in (dt.U8, dt.I8, dt.I16) and node.dtype.is_int and node.dtype != target and node.kind != "number":
        most = bound(builder, number)
        if target == dt.U8 or most is None or most >= SMALL[target]:
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
            found = builder.bounds.of(builder.region.inputs[node.input])
            if found is not None and node.guards:
                found = max(found, abs(int(node.value)))
        case "coord":
            found = expr_bound(builder, node.index[0])
        case "rank":
            found = size_bound(builder.region.axes[node.over[0]])
        case "map" if node.dtype.is_bool:
            found = 1
        case "map" if node.function == "cast":
            inner = node.args[0]
            found = fold_bound(builder, inner) if builder.node(inner).dtype.is_float else bound(builder, inner)
        case "map":
            found = combine(node.function, [bound(builder, a) for a in node.args])
    return found if found is not None and found < LIMIT else None


def fold_bound(builder: Builder, number: int) -> int | None:
    """A bound of a fold of integers that was computed in float32, or None."""
    fold = builder.node(number)
    if fold.kind not in ("reduce", "scan") or fold.function not in ("sum", "max", "min"):
        return None
    source = builder.node(fold.args[0])
    if source.kind != "map" or source.function != "cast" or builder.node(source.args[0]).dtype.is_float:
        return None
    most = bound(builder, source.args[0])
    terms = product(size_bound(builder.region.axes[a]) for a in fold.over).as_int() if fold.function == "sum" else 1
    return None if most is None or terms is None else most * terms


def expr_bound(builder: Builder, value: Expr) -> int | None:
    """A bound of a linear index expression over axes and sizes, less than 2**31, or None."""
    total = 0
    for mono, coefficient in value.terms.items():
        if len(mono) > 1 or any(not isinstance(a, str) for a in mono):
            return None
        extent = builder.region.axes.get(str(mono[0])) if mono else None
        size = size_bound(extent) - 1 if extent is not None else UNKNOWN_SIZE if mono else 1
        total += abs(coefficient) * size
    return total if total < LIMIT else None


def _index(node: Node) -> Expr | None:
    """A node as an index expression, if it is one."""
    if node.kind in ("coord", "extent"):
        return node.index[0]
    if node.kind == "number" and float(node.value).is_integer():
        return const(int(node.value))
    return None


def _linear(builder: Builder, function: str, args: Sequence[Expr]) -> Expr | None:
    """The result as an expression; None for a product of two coordinates.

    The place of an element in a reshaped tensor, made of quotients and remainders, becomes a sum of its axes again.
    """
    axes = builder.region.axes
    match function:
        case "add":
            return (args[0] + args[1]).simplify(axes)
        case "sub":
            return (args[0] - args[1]).simplify(axes)
        case "neg":
            return const(0) - args[0]
    if all(e.names() & axes.keys() for e in args):
        return None
    return args[0] * args[1]
