# SPDX-License-Identifier: Apache-2.0
"""Recipes: what each scalar function, reduction and conversion of the tile level is in Ascend C calls.

One entry per function of the scalar table; a function without an entry has no lowering yet (`MISSING`).
"""

from __future__ import annotations

from gaf.dialects.common.scalar import FUNCTIONS
from gaf.passes.tile.recipes import arithmetic, composed, integers, logic, mathematics
from gaf.passes.tile.recipes.base import Recipe

MAPS: dict[str, Recipe] = {**arithmetic.RECIPES, **mathematics.RECIPES, **logic.RECIPES, **composed.RECIPES}
"""Scalar function -> recipe on float tiles; "cast" depends on dtypes, see `casts.cast_recipe`."""

INTEGER_MAPS: dict[str, Recipe] = integers.RECIPES
"""Scalar function -> recipe on int32 tiles."""

MISSING: frozenset[str] = frozenset(FUNCTIONS) - frozenset(MAPS) - frozenset(INTEGER_MAPS) - {"cast"}
"""Scalar functions that have no lowering to Ascend C yet."""
