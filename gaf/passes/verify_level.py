# SPDX-License-Identifier: Apache-2.0
"""Pass `verify-level`: stops when the program is not legal at a level; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.errors import InvalidInputError
from gaf.passes.boundary import LEVEL_DIALECTS, check_level
from gaf.passes.registry import option, register_pass


@register_pass
@dataclass(frozen=True)
class VerifyLevelPass(ModulePass):
    """Check op verifiers, SSA dominance and allowed dialects at the border of a level."""

    name = "verify-level"

    level: str = option("graph", "graph, tile or ascendc")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.level not in LEVEL_DIALECTS:
            raise InvalidInputError(
                f"verify-level: there is no level '{self.level}'",
                expected=" or ".join(LEVEL_DIALECTS),
            )
        check_level(op, self.level)
