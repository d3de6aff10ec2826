# SPDX-License-Identifier: Apache-2.0
"""A generated kernel with everything that belongs to it: source, host tiling, members, both lower levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gaf.codegen.host import HostTiling
    from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
    from gaf.dialects.tile.structure import KernelOp as TileKernelOp


@dataclass
class Kernel:
    """One kernel variant.

    `source` is the Ascend C text; `members` are the model nodes of its first use; `uses` counts the fused ops
    that launch it. `host` evaluates the tiling struct, block count and workspace bytes for given symbols.
    """

    name: str
    kind: str
    source: str
    members: list[str]
    host: HostTiling
    tile: TileKernelOp
    ascendc: AscendKernelOp
    uses: int = 1

    @property
    def arg_names(self) -> list[str]:
        """Inputs, then outputs; the workspace comes last in the C++ signature."""
        return list(self.tile.arg_names.data)

    def interpret(
        self, arrays: Mapping[str, np.ndarray], symbols: Mapping[str, int], level: str = "ascendc", wide: bool = False
    ) -> dict[str, np.ndarray]:
        """Run one level of the kernel in Python; returns the outputs by name."""
        if level == "tile":
            from gaf.dialects.tile.interpreter import interpret as run_tile

            return run_tile(self.tile, dict(arrays), dict(symbols), wide=wide)
        from gaf.dialects.ascendc.interpreter import interpret as run_ascendc

        return run_ascendc(self.ascendc, dict(arrays), dict(symbols))
