# SPDX-License-Identifier: Apache-2.0
"""Canonical views: those that change nothing vanish, chains become one, broadcasting is left to the user.

A transpose under a matmul stays: it is an index map of the operand. All rules are exact.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from gaf.dialects.common.index import sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import View
from gaf.dialects.graph.ops.binary import BinaryOp
from gaf.dialects.graph.ops.compare import WhereOp
from gaf.dialects.graph.ops.create import ShapeOp, SizeOp
from gaf.dialects.graph.ops.shape import (
    ExpandOp,
    FlipOp,
    ReshapeOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
    ViewOp,
)
from gaf.dialects.graph.ops.structure import constant
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.passes.driver import rewrite_rule
from gaf.passes.graph.canonicalization.match import producer, replace

VIEWS = tuple(cls for cls in registry.all_ops() if cls.IS_VIEW)


@rewrite_rule(*VIEWS)
def drop_identity_view(op: GraphOp, rewriter: PatternRewriter) -> None:
    """A reshape to the same shape, a slice of everything, a concat of one, ... -> its operand."""
    if len(op.results) != 1 or all(o.type != op.results[0].type for o in op.operands):
        return
    view = op.meaning()
    if not isinstance(view, View) or len(view.pieces) != 1 or view.pieces[0].guards:
        return
    (piece,) = view.pieces
    source = op.operands[piece.operand]
    if source.type != op.results[0].type:
        return
    shape = tensor_type(source).shape
    # a dim of size 1 has only one element to read
    if all(i == sym(f"d{n}") or size == 1 for n, (i, size) in enumerate(zip(piece.index, shape))):
        rewriter.replace(op, [], [source])


@rewrite_rule(ShapeOp, SizeOp)
def known_sizes(op: ShapeOp | SizeOp, rewriter: PatternRewriter) -> None:
    """The shape or size of a tensor without symbolic dims -> a constant."""
    type_ = tensor_type(op.x)
    dims = (
        type_.shape[op.attrs()["start"] : op.attrs()["end"]]
        if isinstance(op, ShapeOp)
        else [type_.num_elements()]
    )
    sizes = [d.as_int() for d in dims]
    if all(size is not None for size in sizes):
        result = tensor_type(op.result)
        rewriter.replace(op, constant(np.array(sizes, result.dtype.numpy).reshape(result.static_shape())))


# -- reshapes -----------------------------------------------------------------------------------------

_RESHAPES = (ReshapeOp, SqueezeOp, UnsqueezeOp, TransposeOp)


def keeps_order(op: GraphOp) -> bool:
    """True if a view leaves all elements in row-major order and provably as many: it is a reshape."""
    match op:
        case ReshapeOp():
            return tensor_type(op.x).num_elements() == tensor_type(op.result).num_elements()
        case SqueezeOp() | UnsqueezeOp():
            return True
        case TransposeOp():
            shape = tensor_type(op.x).shape
            moved = [p for p in op.attrs()["perm"] if shape[p] != 1]
            return moved == sorted(moved)
    return False


@rewrite_rule(*_RESHAPES)
def merge_reshapes(op: ViewOp, rewriter: PatternRewriter) -> None:
    """A chain of reshapes, squeezes, unsqueezes and transposes of dims of size 1 -> one reshape, or none.

    Where symbolic sizes don't prove that every step keeps the number of elements, the step stays: it checks
    them when the model runs.
    """
    if not keeps_order(op):
        return
    inner = producer(op.x, *_RESHAPES)
    if inner is None or not keeps_order(inner):
        if not isinstance(op, TransposeOp):
            return
        source = op.x
    else:
        source = inner.x
    if source.type == op.result.type:
        rewriter.replace(op, [], [source])
    else:
        replace(op, rewriter, ReshapeOp, [source], shape=tensor_type(op.result).shape)


# -- other chains -------------------------------------------------------------------------------------


@rewrite_rule(TransposeOp)
def merge_transposes(op: TransposeOp, rewriter: PatternRewriter) -> None:
    """transpose(transpose(x)) -> transpose(x) in the composed order."""
    if (inner := producer(op.x, TransposeOp)) is not None:
        first = inner.attrs()["perm"]
        replace(op, rewriter, TransposeOp, [inner.x], perm=tuple(first[p] for p in op.attrs()["perm"]))


@rewrite_rule(FlipOp)
def drop_double_flip(op: FlipOp, rewriter: PatternRewriter) -> None:
    """flip(flip(x)) along the same axes -> x."""
    inner = producer(op.x, FlipOp)
    if inner is not None and _axes(inner) == _axes(op):
        rewriter.replace(op, [], [inner.x])


def _axes(op: FlipOp) -> set[int]:
    rank = tensor_type(op.x).rank
    return {a % rank for a in op.attrs()["axes"]}


# -- broadcasting -------------------------------------------------------------------------------------


def before_broadcast(value: SSAValue) -> SSAValue | None:
    """What `value` is a broadcast of by the rules of numpy: expanded, or with 1s put in front of its dims."""
    op = producer(value, ExpandOp, ReshapeOp, UnsqueezeOp)
    if op is None:
        return None
    if not isinstance(op, ExpandOp):
        source, shape = tensor_type(op.x).shape, tensor_type(op.result).shape
        added = len(shape) - len(source)
        if added <= 0 or shape[added:] != source or any(d != 1 for d in shape[:added]):
            return None
    return op.x


@rewrite_rule(ExpandOp)
def merge_expands(op: ExpandOp, rewriter: PatternRewriter) -> None:
    """expand(expand(x)) -> expand(x); so it is with an unsqueeze in front."""
    if (source := before_broadcast(op.x)) is not None:
        replace(op, rewriter, ExpandOp, [source], shape=op.attrs()["shape"])


@rewrite_rule(BinaryOp, WhereOp)
def leave_broadcast_to_the_user(op: GraphOp, rewriter: PatternRewriter) -> None:
    """expand(x) + y -> x + y where y is as wide: elementwise ops broadcast by themselves."""
    for index, operand in enumerate(op.operands):
        source = before_broadcast(operand)
        if source is None:
            continue
        operands = list(op.operands)
        operands[index] = source
        if _result_types(op, [tensor_type(o) for o in operands]) == [r.type for r in op.results]:
            op.operands = operands
            rewriter.notify_op_modified(op)
            return


def _result_types(op: GraphOp, operands: list[TensorType]) -> list[TensorType] | None:
    try:
        return list(op.infer(operands, op.attrs()))
    except GafError:
        return None


RULES = (
    known_sizes,
    drop_identity_view,
    merge_reshapes,
    merge_transposes,
    drop_double_flip,
    merge_expands,
    leave_broadcast_to_the_user,
)
