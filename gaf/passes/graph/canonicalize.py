# SPDX-License-Identifier: Apache-2.0
"""Pass `canonicalize`: one form for operations that mean the same, none for those that do nothing."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.passes.driver import RuleDriver
from gaf.passes.graph.canonicalization import casts, elementwise, views
from gaf.passes.registry import register_pass

RULES = (*views.RULES, *casts.RULES, *elementwise.RULES)


@register_pass
@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Simplify views, casts and elementwise ops; constants go to the right, powers become products.

    The result is the same to the last bit, except where the docstring of a rule in `canonicalization/`
    says otherwise (`pow`). Operations that lose their uses stay until `dce`.
    """

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RuleDriver(self.name, RULES).run(op)
