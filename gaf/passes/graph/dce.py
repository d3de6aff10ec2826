# SPDX-License-Identifier: Apache-2.0
"""Pass `dce`: erases operations whose results nobody uses, and weights that nobody names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from gaf.dialects.graph.model import weights_of
from gaf.dialects.graph.ops.structure import WeightOp
from gaf.passes.graph.effects import is_pure
from gaf.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class DcePass(ModulePass):
    """Erase pure operations without uses, and drop weights that no operation names.

    Operations with effects, arguments and results of functions stay. One sweep from the end of each block,
    so that an operation is seen after everything that could use it.
    """

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                erase_dead_ops(block)
        drop_unused_weights(op)


def erase_dead_ops(block: Block) -> int:
    """Erases the dead operations of `block` and of the regions in it; returns how many."""
    erased = 0
    op = block.last_op
    while op is not None:
        previous = op.prev_op
        if op.results and all(r.first_use is None for r in op.results) and is_pure(op):
            op.detach()
            op.erase()
            erased += 1
        else:
            for region in op.regions:
                # a terminator uses the results of its block; blocks that follow may use earlier ones
                for inner in reversed(tuple(region.blocks)):
                    erased += erase_dead_ops(inner)
        op = previous
    return erased


def drop_unused_weights(module: ModuleOp) -> int:
    """Discards the weights of `module`'s store that no `graph.weight` names; returns how many."""
    store = weights_of(module)
    if not len(store):
        return 0
    used = {op.weight.data for op in module.walk() if isinstance(op, WeightOp)}
    unused = [name for name in store if name not in used]
    for name in unused:
        store.discard(name)
    return len(unused)
