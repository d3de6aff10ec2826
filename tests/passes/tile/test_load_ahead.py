# SPDX-License-Identifier: Apache-2.0
"""Tiles that are loaded in one large copy and computed on in pieces."""

from __future__ import annotations

import pytest

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp
from gaf.dialects.graph.ops.reduce import ReduceMeanOp
from gaf.dialects.graph.ops.unary import SigmoidOp, SqrtOp
from gaf.dialects.tile.memory import LoadOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp
from gaf.passes.tile.load_ahead import LARGE_LOAD
from gaf.passes.tile.tile_plan import evaluate_params
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net


def gated(kind: dt.DType, *shape: int) -> Net:
    n = Net(kind, x=shape, y=shape)
    n.finish(n.op(MulOp, n.op(MulOp, n["x"], n.op(SigmoidOp, n["x"])), n["y"]))
    return n


def normed(kind: dt.DType, rows: int, lanes: int) -> Net:
    n = Net(kind, x=(rows, lanes), y=(rows, lanes))
    t = n.op(AddOp, n["x"], n["y"])
    mean = n.op(ReduceMeanOp, n.op(MulOp, t, t), axes=(-1,), keepdims=True)
    n.finish(t, n.op(DivOp, t, n.op(SqrtOp, mean)))
    return n


def pieces(kernel: KernelOp) -> tuple[list[LoadOp], ForOp]:
    """Loads of the whole tile, and the loop over its pieces."""
    grid = next(op for op in kernel.body.block.ops if isinstance(op, GridOp))
    *before, loop = grid.body.block.ops
    assert isinstance(loop, ForOp)
    return [op for op in before if isinstance(op, LoadOp)], loop


@pytest.mark.parametrize(
    ("net", "param", "ahead"),
    [(gated(dt.F16, 1 << 20), "tn", 2), (gated(dt.BF16, 1800, 1003), "tn", 2), (normed(dt.BF16, 1600, 2048), "tm", 2)],
)
def test_large_loads_and_small_temporaries(net: Net, param: str, ahead: int) -> None:
    fused = gaf.fuse(net.model)
    tile = fused.kernels[0].tile
    assert tile is not None
    loads, loop = pieces(tile)
    sizes = evaluate_params(tile, {})
    whole, piece = sizes[f"{param}_load"], sizes[param]
    assert piece < whole and loop.step.as_name() == param
    assert sum("buffers" in op.attributes for op in loads) == ahead
    lanes = 1 if param == "tn" else net.model.input_types[0].concrete({})[-1]
    assert whole * lanes * net.model.input_types[0].dtype.bytes >= LARGE_LOAD
    if param == "tn":
        assert piece % 64 == 0  # slices start at whole blocks
    for engine in ["tile", "interpreter"] + (["check"] if find_compiler() is not None else []):
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)


@pytest.mark.parametrize("net", [gated(dt.F16, 4096), gated(dt.F16, "N"), normed(dt.BF16, 64, 256)])
def test_small_or_unknown_sizes_have_no_pieces(net: Net) -> None:
    tile = gaf.fuse(net.model).kernels[0].tile
    assert tile is not None
    assert not any(name.endswith("_load") for name, _ in tile.params)
    assert not any(isinstance(op, ForOp) for op in tile.walk())
