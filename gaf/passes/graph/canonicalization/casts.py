# SPDX-License-Identifier: Apache-2.0
"""Canonical casts: none to the same type, and no detour over a type that holds every value."""

from __future__ import annotations

import ml_dtypes
from xdsl.pattern_rewriter import PatternRewriter

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops.cast import CastOp
from gaf.passes.driver import rewrite_rule
from gaf.passes.graph.canonicalization.match import producer


def holds(wide: dt.DType, narrow: dt.DType) -> bool:
    """True if every value of `narrow`, subnormal ones included, is a value of `wide`."""
    if wide == narrow or narrow.is_bool:
        return True
    match narrow.kind, wide.kind:
        case "float", "float":
            a, b = ml_dtypes.finfo(narrow.numpy), ml_dtypes.finfo(wide.numpy)
            return a.nmant <= b.nmant and a.maxexp <= b.maxexp and a.minexp - a.nmant >= b.minexp - b.nmant
        case "int" | "uint", "float":
            digits = narrow.bits - (narrow.kind == "int")
            info = ml_dtypes.finfo(wide.numpy)
            return digits <= info.nmant + 1 and narrow.bits < info.maxexp
        case ("int", "int") | ("uint", "uint"):
            return narrow.bits <= wide.bits
        case "uint", "int":
            return narrow.bits < wide.bits
    return False


@rewrite_rule(CastOp)
def drop_cast_to_same_type(op: CastOp, rewriter: PatternRewriter) -> None:
    """cast(x) to the type of x -> x."""
    if op.x.type == op.result.type:
        rewriter.replace(op, [], [op.x])


@rewrite_rule(CastOp)
def merge_casts(op: CastOp, rewriter: PatternRewriter) -> None:
    """cast(cast(x)) -> cast(x), or x, where the type in between holds every value of x.

    f16 -> f32 -> f16 vanishes, f32 -> f16 -> f32 stays: it rounds. Bit-exact; a signalling NaN may stay one.
    """
    inner = producer(op.x, CastOp)
    if inner is None:
        return
    source, between, target = (tensor_type(v).dtype for v in (inner.x, inner.result, op.result))
    if not holds(between, source):
        return
    if source == target:
        rewriter.replace(op, [], [inner.x])
    else:
        rewriter.replace(op, CastOp.make([inner.x], {"to": target}))


RULES = (drop_cast_to_same_type, merge_casts)
