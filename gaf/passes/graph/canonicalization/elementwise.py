# SPDX-License-Identifier: Apache-2.0
"""Canonical elementwise ops: neutral elements and double operations vanish, powers become products.

Every rule is exact on every input, -0, infinities, NaN and subnormals included (of a NaN only its bits may
change), unless its docstring names the difference. Sums and products are not reassociated: that rounds.
Which zero max(-0.0, 0.0) gives is not defined, so max and min count as commutative.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops.binary import (
    AddOp,
    BinaryOp,
    BitwiseAndOp,
    BitwiseOp,
    BitwiseOrOp,
    BitwiseXorOp,
    DivOp,
    MaxOp,
    MinOp,
    MulOp,
    PowOp,
    SubOp,
)
from gaf.dialects.graph.ops.compare import (
    AndOp,
    EqualOp,
    GreaterOp,
    GreaterOrEqualOp,
    LessOp,
    LessOrEqualOp,
    LogicOp,
    NotEqualOp,
    OrOp,
    WhereOp,
    XorOp,
)
from gaf.dialects.graph.ops.create import FullOp
from gaf.dialects.graph.ops.reduce import ReduceMeanOp, ReduceSumOp, ReduceSumSquareOp
from gaf.dialects.graph.ops.structure import constant
from gaf.dialects.graph.ops.unary import (
    AbsOp,
    BitwiseNotOp,
    CeilOp,
    ExpOp,
    FloorOp,
    NegOp,
    NotOp,
    ReciprocalOp,
    ReluOp,
    RoundOp,
    RsqrtOp,
    SigmoidOp,
    SignOp,
    SqrtOp,
    TruncOp,
    UnaryOp,
)
from gaf.passes.driver import rewrite_rule
from gaf.passes.graph.canonicalization.match import inline_constant, is_constant, producer, replace, uniform

# -- constants to the right ---------------------------------------------------------------------------

_MIRRORED: dict[type[BinaryOp], type[BinaryOp]] = {
    LessOp: GreaterOp, GreaterOp: LessOp, LessOrEqualOp: GreaterOrEqualOp, GreaterOrEqualOp: LessOrEqualOp,
}  # fmt: skip


@rewrite_rule(AddOp, MulOp, MaxOp, MinOp, EqualOp, NotEqualOp, LogicOp, BitwiseOp)
def constant_to_the_right(op: BinaryOp, rewriter: PatternRewriter) -> None:
    """c + x -> x + c, for all commutative ops."""
    a, b = op.operands
    if is_constant(a) and not is_constant(b):
        op.operands = (b, a)
        rewriter.notify_op_modified(op)


@rewrite_rule(*_MIRRORED)
def constant_to_the_right_of_comparison(op: BinaryOp, rewriter: PatternRewriter) -> None:
    """c < x -> x > c; comparisons with NaN are false on both sides."""
    a, b = op.operands
    if is_constant(a) and not is_constant(b):
        replace(op, rewriter, _MIRRORED[type(op)], [b, a])


# -- neutral elements ---------------------------------------------------------------------------------

# x + 0.0 is not in the table: it turns -0.0 into 0.0
_NEUTRAL: dict[type[BinaryOp], dict[str, float | int | bool]] = {
    AddOp: {"float": -0.0, "int": 0, "uint": 0},
    SubOp: {"float": 0.0, "int": 0, "uint": 0},
    MulOp: {"float": 1.0, "int": 1, "uint": 1},
    DivOp: {"float": 1.0, "int": 1, "uint": 1},
    PowOp: {"float": 1.0, "int": 1, "uint": 1},
    MaxOp: {"float": -np.inf, "uint": 0},
    MinOp: {"float": np.inf},
    AndOp: {"bool": True},
    OrOp: {"bool": False},
    XorOp: {"bool": False},
    BitwiseAndOp: {"int": -1},
    BitwiseOrOp: {"int": 0, "uint": 0},
    BitwiseXorOp: {"int": 0, "uint": 0},
}


@rewrite_rule(*_NEUTRAL)
def drop_neutral_element(op: BinaryOp, rewriter: PatternRewriter) -> None:
    """x * 1, x / 1, x ** 1, x - 0, x + -0.0, max(x, -inf), x and true, ... -> x, unless c widens x."""
    x, c = op.operands
    if x.type != op.results[0].type:
        return
    value = uniform(c)
    neutral = _NEUTRAL[type(op)].get(tensor_type(x).dtype.kind)
    if value is None or neutral is None or value != neutral:
        return
    if math.copysign(1, value) == math.copysign(1, neutral):
        rewriter.replace(op, [], [x])


@rewrite_rule(SubOp)
def cancel_difference(op: SubOp, rewriter: PatternRewriter) -> None:
    """x - x -> 0 for integers; floats may be NaN or infinite."""
    type_ = tensor_type(op.results[0])
    if op.operands[0] is op.operands[1] and not type_.dtype.is_float:
        rewriter.replace(op, FullOp.make([], {"shape": type_.shape, "value": np.zeros((), type_.dtype.numpy)}))


# -- double operations --------------------------------------------------------------------------------


@rewrite_rule(NegOp, NotOp, BitwiseNotOp)
def drop_double_negation(op: UnaryOp, rewriter: PatternRewriter) -> None:
    """-(-x), not not x, ~~x -> x; the smallest integer is its own negative."""
    if (inner := producer(op.x, type(op))) is not None:
        rewriter.replace(op, [], [inner.x])


_ROUNDINGS = (FloorOp, CeilOp, RoundOp, TruncOp)


@rewrite_rule(AbsOp, ReluOp, SignOp, *_ROUNDINGS)
def drop_repeated_operation(op: UnaryOp, rewriter: PatternRewriter) -> None:
    """abs(abs(x)) -> abs(x), and so on; a rounding of a rounded value is that value."""
    same = _ROUNDINGS if isinstance(op, _ROUNDINGS) else (type(op),)
    if producer(op.x, *same) is not None:
        rewriter.replace(op, [], [op.x])


@rewrite_rule(AbsOp)
def drop_sign_under_abs(op: AbsOp, rewriter: PatternRewriter) -> None:
    """abs(-x) -> abs(x)."""
    if (inner := producer(op.x, NegOp)) is not None:
        replace(op, rewriter, AbsOp, [inner.x])


# -- division and powers ------------------------------------------------------------------------------


@rewrite_rule(DivOp)
def divide_by_power_of_two(op: DivOp, rewriter: PatternRewriter) -> None:
    """x / c -> x * (1 / c) if each element of c is a power of two whose reciprocal is a normal number.

    Both round the same exact value once, so results agree where they are subnormal, too.
    """
    x, c = op.operands
    array = inline_constant(c)
    dtype = tensor_type(x).dtype
    if array is None or array.size == 0 or not dtype.is_float or is_constant(x):
        return
    wide = array.astype(np.float64)
    if not np.all(np.isfinite(wide)) or np.any(np.abs(np.frexp(wide)[0]) != 0.5):
        return
    with np.errstate(all="ignore"):
        exact = 1.0 / wide
        inverse = exact.astype(dtype.numpy)
    limits = ml_dtypes.finfo(dtype.numpy)
    if np.any(np.abs(exact) < float(limits.smallest_normal)) or np.any(np.abs(exact) > float(limits.max)):
        return
    factor = constant(inverse)
    rewriter.replace(op, [factor, MulOp.make([x, factor.result])])


@rewrite_rule(PowOp)
def power_to_product(op: PowOp, rewriter: PatternRewriter) -> None:
    """x ** 2 -> x * x, x ** 3 -> x * x * x, x ** -1 -> 1 / x.

    The square and the inverse are rounded correctly, the cube twice (within 1.5 ulp); where x * x overflows,
    the cube does, and where it is subnormal, the cube is far below that. Integers wrap around in both forms.
    """
    x, c = op.operands
    exponent = uniform(c)
    dtype = tensor_type(x).dtype
    if x.type != op.result.type or exponent is None or is_constant(x):
        return
    match exponent:
        case 2:
            rewriter.replace(op, MulOp.make([x, x]))
        case 3:
            square = MulOp.make([x, x])
            rewriter.replace(op, [square, MulOp.make([square.result, x])])
        case -1 if dtype.is_float:
            rewriter.replace(op, ReciprocalOp.make([x]))


@rewrite_rule(PowOp)
def power_to_root(op: PowOp, rewriter: PatternRewriter) -> None:
    """x ** 0.5 -> sqrt(x), x ** -0.5 -> rsqrt(x), where x is known to be neither negative nor -0.

    There the special cases agree; elsewhere they don't: (-inf) ** 0.5 is inf, (-0.0) ** 0.5 is 0.0. The
    square root is rounded correctly, its inverse within 1.5 ulp.
    """
    x, c = op.operands
    exponent = uniform(c)
    if exponent in (0.5, -0.5) and x.type == op.result.type and is_nonnegative(x):
        replace(op, rewriter, SqrtOp if exponent == 0.5 else RsqrtOp, [x])


def is_nonnegative(value: SSAValue, depth: int = 8) -> bool:
    """True if no element of a float value can be negative or -0.0, from the ops that made it (NaN may be)."""
    array = inline_constant(value)
    if array is not None:
        return dt.of_numpy(array.dtype).is_float and not np.any(np.signbit(array.astype(np.float64)))
    op = value.owner
    if depth == 0:
        return False
    match op:
        case AbsOp() | ExpOp() | SigmoidOp() | ReduceSumSquareOp():
            return True
        case MulOp() if op.a is op.b:
            return True
        case AddOp() | MulOp() | DivOp() | MaxOp():
            return is_nonnegative(op.a, depth - 1) and is_nonnegative(op.b, depth - 1)
        case SqrtOp() | ReduceMeanOp() | ReduceSumOp():
            return is_nonnegative(op.operands[0], depth - 1)
    return False


# -- where --------------------------------------------------------------------------------------------


@rewrite_rule(WhereOp)
def drop_decided_where(op: WhereOp, rewriter: PatternRewriter) -> None:
    """where(true, a, b) -> a; where(false, a, b) -> b; where(c, a, a) -> a; unless that is narrower."""
    condition = uniform(op.condition)
    if op.a is op.b or condition is not None:
        chosen = op.b if condition is False else op.a
        if chosen.type == op.result.type:
            rewriter.replace(op, [], [chosen])


@rewrite_rule(WhereOp)
def drop_not_under_where(op: WhereOp, rewriter: PatternRewriter) -> None:
    """where(not c, a, b) -> where(c, b, a)."""
    if (negation := producer(op.condition, NotOp)) is not None:
        replace(op, rewriter, WhereOp, [negation.x, op.b, op.a])


RULES = (
    constant_to_the_right,
    constant_to_the_right_of_comparison,
    drop_neutral_element,
    cancel_difference,
    drop_double_negation,
    drop_repeated_operation,
    drop_sign_under_abs,
    divide_by_power_of_two,
    power_to_product,
    power_to_root,
    drop_decided_where,
    drop_not_under_where,
)
