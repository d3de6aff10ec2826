# SPDX-License-Identifier: Apache-2.0
"""A user's file for `gaf-opt --load`: one pass with an option, driven by one rule."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from gaf.passes.driver import RuleDriver, rewrite_rule
from gaf.passes.registry import option, register_pass


@rewrite_rule(UnrealizedConversionCastOp)
def drop_identity_cast(op: UnrealizedConversionCastOp, rewriter: PatternRewriter) -> None:
    """A cast from a type to the same type is its operand."""
    if op.inputs.types == op.outputs.types:
        rewriter.replace(op, (), op.inputs)


@register_pass
@dataclass(frozen=True)
class DropCastsPass(ModulePass):
    """Drop casts that change nothing."""

    name = "drop-casts"

    enabled: bool = option(True, "false leaves the program alone")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.enabled:
            RuleDriver(self.name, [drop_identity_cast]).run(op)
