# SPDX-License-Identifier: Apache-2.0
"""A generated kernel with everything that belongs to it: source, host tiling, members, both lower levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gaf.dialects.common.index import Expr, ceildiv, expr, product

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from gaf.codegen.host import HostTiling
    from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
    from gaf.dialects.tile.structure import KernelOp as TileKernelOp
    from gaf.runtime.indices import IndexRead


@dataclass(frozen=True)
class SharedBlocks:
    """Blocks of a matrix product: the tiling parameter of their rows, all rows, and blocks side by side."""

    parameter: str
    rows: Expr
    others: Expr


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

    @cached_property
    def index_reads(self) -> list[IndexRead]:
        """The gathers of the kernel, whose positions are checked before a launch."""
        from gaf.runtime.indices import index_reads

        return index_reads(self.tile)

    @cached_property
    def tile_sizes(self) -> dict[str, bool]:
        """The tiling parameters that are tile sizes of vector work, and whether they count lanes or rows."""
        from gaf.dialects.tile.structure import ForOp, GridOp
        from gaf.dialects.tile.types import TileType

        def tiles(op: Operation) -> list[TileType]:
            return [r.type for o in op.walk() for r in o.results if isinstance(r.type, TileType)]

        rows = {axis for t in tiles(self.tile) if t.space == "ub" for axis in t.axes[:-1]}
        found: dict[str, bool] = {}
        for op in self.tile.walk():
            if isinstance(op, ForOp):
                steps: Sequence[tuple[str, Expr]] = [(op.axis, op.step)]
            elif isinstance(op, GridOp) and all(t.space == "ub" for t in tiles(op)):
                steps = op.steps
            else:
                continue  # blocks of the cube
            found |= {name: axis not in rows for axis, step in steps if (name := step.as_name()) is not None}
        names = {n for n, _ in self.tile.params}
        return {name: lanes for name, lanes in found.items() if name in names}

    @cached_property
    def shared_blocks(self) -> SharedBlocks | None:
        """The blocks of a product that cores share by rows and columns; None for other kernels."""
        from gaf.dialects.tile.folds import ContractOp
        from gaf.dialects.tile.structure import GridOp

        params = {n for n, _ in self.tile.params}
        for grid in self.tile.walk():
            if not isinstance(grid, GridOp) or not any(isinstance(op, ContractOp) for op in grid.body.block.ops):
                continue
            counts = {a: ceildiv(self.tile.extents[a], step) for a, step in grid.steps if step.as_name() not in params}
            free = [(a, name) for a, step in grid.steps if (name := step.as_name()) in params]
            wide = any(step.as_int() not in (None, 1) for _, step in grid.steps)
            if len(free) == 1 and wide and free[0][1] is not None:
                return SharedBlocks(free[0][1], expr(self.tile.extents[free[0][0]]), product(counts.values()))
        return None

    def interpret(
        self, arrays: Mapping[str, np.ndarray], symbols: Mapping[str, int], level: str = "ascendc", wide: bool = False
    ) -> dict[str, np.ndarray]:
        """Run one level of the kernel in Python; returns the outputs by name."""
        if level == "tile":
            from gaf.dialects.tile.interpreter import interpret as run_tile

            return run_tile(self.tile, dict(arrays), dict(symbols), wide=wide)
        from gaf.dialects.ascendc.interpreter import interpret as run_ascendc

        return run_ascendc(self.ascendc, dict(arrays), dict(symbols))
