# SPDX-License-Identifier: Apache-2.0
"""What a grid axis doesn't change stays in UB for several of its steps."""

from __future__ import annotations

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.unary import ReluOp
from gaf.dialects.tile.memory import LoadOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.passes.tile.tile_plan import evaluate_params
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net


def scaled(heads: int | str, rows: int, lanes: int, kind: dt.DType = dt.F32) -> Net:
    """relu(x * table + x[:, :, :1] of another array): a table of positions under all heads."""
    n = Net(kind, x=(heads, rows, lanes), table=(rows, lanes), c=(heads, rows, 1))
    n.finish(n.op(ReluOp, n.op(AddOp, n.op(MulOp, n["x"], n["table"]), n["c"])))
    return n


def tile_of(net: Net) -> tuple[gaf.FusedModel, KernelOp]:
    fused = gaf.fuse(net.model)
    tile = fused.kernels[0].tile
    assert tile is not None
    return fused, tile


def test_a_table_is_loaded_once_for_several_heads() -> None:
    fused, tile = tile_of(scaled(12, 200, 72))
    grid = next(op for op in tile.body.block.ops if isinstance(op, GridOp))
    *before, loop = grid.body.block.ops
    assert isinstance(loop, ForOp) and sum(isinstance(op, LoadOp) for op in before) == 1
    sizes = evaluate_params(tile, {})
    steps = next(s.as_name() for a, s in grid.steps if a == loop.axis)
    assert steps is not None and 1 < sizes[steps] <= 12
    tiles = -(-200 // sizes["tm"]) * -(-12 // sizes[steps])
    assert tiles >= 20  # and the cores still have work
    for engine in ["tile", "interpreter"] + (["check"] if find_compiler() is not None else []):
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)


def test_rows_and_unknown_sizes_are_loaded_again() -> None:
    row = Net(x=(12, 200, 72), row=(72,))
    row.finish(row.op(MulOp, row["x"], row["row"]))
    for net in (scaled("H", 200, 72), row):
        _, tile = tile_of(net)
        assert not any(isinstance(op, ForOp) for op in tile.walk())
