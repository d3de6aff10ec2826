# SPDX-License-Identifier: Apache-2.0
"""`several-passes`: dependent reductions keep a pass each, as if `gaf.fusion.online` weren't there."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from gaf.dialects.graph.contract import GraphOp
from gaf.fusion.region import SEVERAL_PASSES
from gaf.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class SeveralPassesPass(ModulePass):
    """Mark the ops of a model so that kernels fold a reduction only when those that it depends on are complete."""

    name = "several-passes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, GraphOp):
                inner.attributes[SEVERAL_PASSES] = UnitAttr()
