# SPDX-License-Identifier: Apache-2.0
"""ATen calls that have no graph op of their own: they are written with other ops at import."""

from __future__ import annotations

from collections.abc import Sequence

from gaf.dialects.graph.ops.macros import Expansion


def aten_expansions() -> Sequence[type[Expansion]]:
    """Every expansion of an ATen call."""
    return []
