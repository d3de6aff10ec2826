# SPDX-License-Identifier: Apache-2.0
"""`narrow-integers`: int64 arithmetic in a form that the vector unit's 32 bits are enough for.

The unit has no int64 arithmetic. Two uses of it don't need more than int32, whatever the operands are:
positions for gathers and scatters, of which only valid ones count and those fit; and comparisons of a sum with small
numbers, which can be compared with the one big operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.ops.assume import AssumeShapeOp
from gaf.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.compare import (
    EqualOp,
    GreaterOp,
    GreaterOrEqualOp,
    LessOp,
    LessOrEqualOp,
    NotEqualOp,
    WhereOp,
)
from gaf.dialects.graph.ops.control import all_blocks
from gaf.dialects.graph.ops.index import GatherBase
from gaf.dialects.graph.ops.scatter import ScatterBase
from gaf.dialects.graph.ops.shape import ExpandOp, ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp, SliceOp
from gaf.dialects.graph.ops.structure import ConstantOp, constant
from gaf.dialects.graph.ops.unary import NegOp
from gaf.fusion.bounds import Bounds
from gaf.passes.registry import register_pass

ARITHMETIC = (AddOp, SubOp, MulOp, NegOp, WhereOp)
"""Ops whose low 32 bits are made of their operands' low 32 bits."""

VIEWS = (AssumeShapeOp, ConcatOp, ExpandOp, ReshapeOp, SliceOp, SqueezeOp, TransposeOp, UnsqueezeOp)

COMPARISONS = (EqualOp, NotEqualOp, LessOp, LessOrEqualOp, GreaterOp, GreaterOrEqualOp)

SMALL = 1 << 29
"""Sums of two numbers below this are small enough to be compared with any int64 (`gaf.fusion.integers`)."""


@register_pass
@dataclass(frozen=True)
class NarrowIntegersPass(ModulePass):
    """Compute positions in int32, and compare int64 values instead of sums with them.

    Exact wherever an index is valid, and for sums that don't overflow int64.
    """

    name = "narrow-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, FuncOp):
                for block in all_blocks(func.body.block):
                    bounds = Bounds()
                    move_sums(block, bounds)
                    narrow_positions(block, bounds)


# -- comparisons ------------------------------------------------------------------------------------------


def move_sums(block: Block, bounds: Bounds) -> None:
    """`x + c < y` -> `x < y - c` where c and y are small and x may be big."""
    for op in list(block.ops):
        while isinstance(op, COMPARISONS) and tensor_type(op.operands[0]).dtype == dt.I64:
            moved = _moved(op, bounds)
            if moved is None:
                break
            op = moved


def _moved(op: GraphOp, bounds: Bounds) -> GraphOp | None:
    """The comparison with one summand on the other side, in the place of `op`; None if there is none to move."""
    for position in (0, 1):
        other = op.operands[1 - position]
        views, total = _seen_through(op.operands[position])
        if total is None or not _small(other, bounds):
            continue
        a, b = total.operands
        if not _small(b, bounds) or bounds.of(a) is not None:
            if not isinstance(total, AddOp) or not _small(a, bounds) or bounds.of(b) is not None:
                continue
            a, b = b, a
        if views and not all(
            _is_scalar(v) or tensor_type(v).shape == tensor_type(total.results[0]).shape for v in (a, b)
        ):
            continue
        new: list[GraphOp] = []
        big, small = (_shown(v, views, new) for v in (a, b))
        across = (SubOp if isinstance(total, AddOp) else AddOp).make([other, small])
        made = type(op).make(
            [big, across.results[0]] if position == 0 else [across.results[0], big], op.attrs()
        )
        new += [across, made]
        for each in new:
            each.location = op.location
        Rewriter.replace_op(op, new)
        return made
    return None


def _seen_through(value: SSAValue) -> tuple[list[GraphOp], AddOp | SubOp | None]:
    """The views between a value and the sum that it shows, outermost first; the sum, or None."""
    views: list[GraphOp] = []
    while isinstance(value, OpResult) and isinstance(value.op, VIEWS) and len(value.op.operands) == 1:
        views.append(value.op)
        value = value.op.operands[0]
    return views, value.op if isinstance(value, OpResult) and isinstance(value.op, AddOp | SubOp) else None


def _shown(value: SSAValue, views: Sequence[GraphOp], new: list[GraphOp]) -> SSAValue:
    """An operand of the sum as the views show the sum; the views that this takes are added to `new`."""
    for view in () if _is_scalar(value) else reversed(views):
        new.append(type(view).make([value], view.attrs()))
        value = new[-1].results[0]
    return value


def _is_scalar(value: SSAValue) -> bool:
    """One element, in a shape that broadcasts to any other with a dim."""
    type_ = tensor_type(value)
    return type_.rank <= 1 and all(d == 1 for d in type_.shape)


def _small(value: SSAValue, bounds: Bounds) -> bool:
    most = bounds.of(value)
    return most is not None and most < SMALL


# -- positions ----------------------------------------------------------------------------------------------


def narrow_positions(block: Block, bounds: Bounds) -> None:
    """Arithmetic that only makes positions, on values that may need more than 32 bits, is done in int32."""
    narrow: set[Operation] = set()
    for op in reversed(list(block.ops)):
        if isinstance(op, (*ARITHMETIC, *VIEWS)) and tensor_type(op.results[0]).dtype == dt.I64:
            if all(
                use.operation in narrow or _is_position(use.operation, use.index)
                for use in op.results[0].uses
            ):
                narrow.add(op)
    replaced: dict[SSAValue, SSAValue] = {}
    for op in list(block.ops):
        if op not in narrow or not isinstance(op, GraphOp):
            continue
        behind = any(o in replaced for o in op.operands)
        if not behind and not (isinstance(op, ARITHMETIC) and bounds.of(op.results[0]) is None):
            continue
        first = 1 if isinstance(op, WhereOp) else 0
        operands = [o if i < first else _word(o, op, replaced) for i, o in enumerate(op.operands)]
        made = type(op).make(operands, op.attrs())
        made.location = op.location
        made.results[0].name_hint = op.results[0].name_hint
        Rewriter.insert_op(made, InsertPoint.before(op))
        replaced[op.results[0]] = made.results[0]
    for old, new in replaced.items():
        old.replace_uses_with_if(new, lambda use: use.operation not in narrow)
    for old in reversed(list(replaced)):
        if not old.uses and isinstance(old, OpResult):
            old.op.detach()
            old.op.erase()


def _is_position(op: Operation, operand: int) -> bool:
    return operand == 1 and isinstance(op, GatherBase | ScatterBase)


def _word(value: SSAValue, user: Operation, replaced: dict[SSAValue, SSAValue]) -> SSAValue:
    """`value` as int32, made in front of `user`."""
    if value in replaced:
        return replaced[value]
    made: GraphOp
    if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
        made = constant(value.op.value.array.astype("int32"))
    else:
        made = CastOp.make([value], {"to": dt.I32})
    made.location = user.location
    Rewriter.insert_op(made, InsertPoint.before(user))
    return made.results[0]
