# SPDX-License-Identifier: Apache-2.0
"""Which graph operations may be removed, merged or evaluated early: those without side effects."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.traits import IsTerminator, Pure, is_side_effect_free

# A trait look-up costs several microseconds, so the answer of a class is kept.
_pure_classes: dict[type[Operation], bool] = {}


def is_pure(op: Operation) -> bool:
    """True if `op` and everything inside it only computes results: no effects, no terminator.

    An op whose effects depend on its properties (`graph.foreign`) is asked itself. Random ops and ops that
    change state say so by not being `Pure`.
    """
    pure = _pure_classes.get(type(op))
    if pure is None:
        pure = op.has_trait(Pure) and not op.has_trait(IsTerminator)
        _pure_classes[type(op)] = pure
    if not pure and (op.has_trait(IsTerminator) or not is_side_effect_free(op)):
        return False
    return all(
        is_pure(inner) or inner.has_trait(IsTerminator)
        for region in op.regions
        for block in region.blocks
        for inner in block.ops
    )
