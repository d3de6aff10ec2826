# SPDX-License-Identifier: Apache-2.0
"""Transposes in kernels: as strides of copies where lanes stay lanes, else on chip; copies of inputs have a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.dialects.ascendc.rows import TransposeTileOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import finish
from gaf.dialects.graph.ops.binary import AddOp
from gaf.dialects.graph.ops.channel_norm import GroupNormOp, InstanceNormOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.dialects.graph.ops.unary import ExpOp
from gaf.fusion.region import build_region
from gaf.fusion.schedules import choose_schedules
from gaf.runtime.compiler import find_compiler
from tests.fusion.test_piecewise import Graph

SIZES = {"B": 3, "S": 9, "P": 4, "M": 5, "N": 130}


def check(g: Graph, y: SSAValue, on_chip: bool, kernels: int = 1) -> None:
    """The kernels of a graph are right on all engines, and transpose on chip or not."""
    fused = fuse(finish(g.model, [("y", y)]))
    assert len(fused.fused_ops) == kernels and not fused.host_ops
    assert any("TransposeTile" in k.source for k in fused.kernels) == on_chip
    rng = np.random.default_rng(0)
    inputs = {
        n: (rng.standard_normal(t.concrete(SIZES)) * 9).astype(t.dtype.numpy)
        for n, t in zip(fused.source_model.input_names, fused.source_model.input_types)
    }
    for engine in ["interpreter", "check", "host"] if find_compiler() else ["interpreter"]:
        verified = fused.verify(inputs, engine=engine)
        assert verified.ok, (engine, verified)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((37, 131), dt.F32), ((37, 131), dt.BF16), ((64, 48), dt.I32), (("N", 200), dt.F16), ((1, 7), dt.F32)],
    ids=str,
)
def test_last_two_dims(shape: tuple, kind: dt.DType) -> None:
    g = Graph(x=(shape, kind))
    y = g.add(TransposeOp, g["x"], perm=(1, 0))
    check(g, y, on_chip=shape[0] != 1, kernels=shape[0] != 1)


def test_batched() -> None:
    g = Graph(x=["B", 4, 33, 70])
    check(g, g.add(TransposeOp, g["x"], perm=(0, 1, 3, 2)), on_chip=True)


@pytest.mark.parametrize("flipped", [0, 1])
def test_turned_by_a_quarter(flipped: int) -> None:
    """Rows that lie in memory from the last to the first aren't one copy to transpose."""
    g = Graph(x=[9, 40])
    sizes = [9, 40]
    starts = [size - 1 if i == flipped else 0 for i, size in enumerate(sizes)]
    view = g.add(SliceOp, g["x"], starts=starts, sizes=sizes, steps=[-1 if i == flipped else 1 for i in range(2)])
    fused = fuse(finish(g.model, [("y", g.add(ExpOp, g.add(TransposeOp, view, perm=(1, 0))))]))
    x = np.random.default_rng(0).standard_normal((9, 40), dtype=np.float32)
    (got,) = fused.run({"x": x}, engine="interpreter").values()
    np.testing.assert_allclose(got, np.exp(np.flip(x, flipped).T), rtol=1e-5)


def test_first_to_last() -> None:
    g = Graph(x=(["B", 12, 50], dt.F16))
    check(g, g.add(TransposeOp, g["x"], perm=(1, 2, 0)), on_chip=True)


def test_heads_are_strides_of_the_copies() -> None:
    g = Graph(x=["B", "S", 4, 64])
    check(g, g.add(TransposeOp, g["x"], perm=(0, 2, 1, 3)), on_chip=False)


def test_an_operand_is_transposed_where_it_is_used() -> None:
    g = Graph(x=[70, 50], z=[50, 70], b=[50])
    turned = g.add(TransposeOp, g["z"], perm=(1, 0))
    check(g, g.add(AddOp, g.add(AddOp, g["x"], g.add(ExpOp, turned)), g["b"]), on_chip=True)


def test_a_reshape_of_an_input_stays_a_view() -> None:
    g = Graph(x=[6, 40])
    fused = fuse(finish(g.model, [("y", g.add(ReshapeOp, g["x"], shape=(8, 30)))]))
    assert not fused.fused_ops and not fused.host_ops


def test_statistics_over_a_square_walk_it_in_memory_order() -> None:
    """Two dims of one size: which is which follows their place, so no load is transposed."""
    for op, attrs in ((GroupNormOp, {"num_groups": 2}), (InstanceNormOp, {})):
        g = Graph(x=["B", 8, 16, 16], w=[8], b=[8])
        y = g.add(op, g["x"], g["w"], g["b"], epsilon=1e-5, **attrs)
        region = build_region(g.ops, [y])
        lanes = choose_schedules(region)[0].lanes
        assert region.axes[lanes] == 256


def test_the_device_function_has_its_scratch() -> None:
    assert TransposeTileOp.tmp_elements(17) == 32
