# SPDX-License-Identifier: Apache-2.0
"""`sink-views`: compute first, reshape and transpose later, so that views end at the op that indexes with them.

`exp(transpose(x))` becomes `transpose(exp(x))`. The elementwise op then joins the kernel that makes `x`, and
the transpose reaches the matmul or reduction behind it, where it is only an index map.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from gaf.dialects.common.index import sym
from gaf.dialects.common.scalar import Coord, walk
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Meaning
from gaf.dialects.graph.ops.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from gaf.errors import GafError
from gaf.passes.driver import RuleDriver, rewrite_rule
from gaf.passes.registry import register_pass

# Views that only rename elements: a bijection between source and result.
BIJECTIVE = (ReshapeOp, TransposeOp, UnsqueezeOp, SqueezeOp)


@register_pass
@dataclass(frozen=True)
class SinkViewsPass(ModulePass):
    """Move reshape, transpose, squeeze and unsqueeze behind elementwise ops."""

    name = "sink-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RuleDriver(self.name, [sink_view], erase_dead=True).run(op)


@rewrite_rule(GraphOp)
def sink_view(op: GraphOp, rewriter: PatternRewriter) -> None:
    """`f(view(x), scalars)` -> `view(f(x, scalars))`; all viewed operands must share the same view."""
    views = [o.owner for o in op.operands if isinstance(o.owner, BIJECTIVE)]
    if not views or len(op.results) != 1 or op.IS_VIEW:
        return
    shape = tensor_type(op.results[0]).shape
    first = views[0]
    source_shape = tensor_type(first.operands[0]).shape
    operands: list[SSAValue] = []
    for operand in op.operands:
        type_ = tensor_type(operand)
        if _same_view(operand.owner, first) and type_.shape == shape:
            operands.append(operand.owner.operands[0])  # type: ignore[union-attr]
        elif all(d == 1 for d in type_.shape) and type_.rank <= len(source_shape) and not isinstance(operand.owner, BIJECTIVE):
            operands.append(operand)
        else:
            return
    # a view that something else reads stays there: sinking would compute nothing less
    if not all(v.results[0].has_one_use() or len(set(op.operands)) < len(op.operands) for v in views):
        return
    meaning = op.meaning()
    if not (isinstance(meaning, Meaning) and meaning.is_elementwise and _ignores_position(op, meaning)):
        return
    try:
        inner = type(op).make(operands, op.attrs())
    except GafError:  # the op's properties hold the shape
        return
    if tensor_type(inner.results[0]).shape != source_shape:
        return
    inner.location = op.location
    outer = type(first).make([inner.results[0]], first.attrs())
    outer.location = first.location
    inner.results[0].name_hint = op.results[0].name_hint
    rewriter.replace(op, [inner, outer])


def _ignores_position(op: GraphOp, meaning: Meaning) -> bool:
    """True if an element is made of operand elements at its own place alone: no masks, no other index maps."""
    (stage,) = meaning.stages
    if any(isinstance(node, Coord) for node in walk(stage.body)):
        return False
    own = [sym(d.name) for d in stage.dims]
    return all(
        r.operand is not None
        and (list(r.index) == own or all(d == 1 for d in tensor_type(op.operands[r.operand]).shape))
        for r in stage.reads
    )


def _same_view(owner: object, first: Operation) -> bool:
    return (
        isinstance(owner, Operation)
        and type(owner) is type(first)
        and owner.properties == first.properties
        and tensor_type(owner.operands[0]).shape == tensor_type(first.operands[0]).shape
    )
