# SPDX-License-Identifier: Apache-2.0
"""Axes cut where guards change: no guards and no selections are left, and elements that pieces share load once."""

from __future__ import annotations

import numpy as np
import pytest

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.shape import TransposeOp
from gaf.dialects.graph.ops.slice import ConcatOp, SliceOp
from gaf.dialects.graph.ops.unary import NegOp, ReluOp
from gaf.fusion.cut import cut_at_guards
from gaf.fusion.region import build_region
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net


def rotated(width: int, kind: dt.DType = dt.F32, rows: int = 37) -> Net:
    """Rotary embedding: x * cos + concat(-x[:, h:], x[:, :h]) * sin."""
    n = Net(kind, x=[3, rows, width], c=[rows, width], s=[rows, width])
    half = width // 2
    low, high = (
        n.op(SliceOp, n["x"], starts=(0, 0, at), sizes=(3, rows, half), steps=(1, 1, 1)) for at in (0, half)
    )
    turned = n.op(ConcatOp, n.op(NegOp, high), low, axis=-1)
    n.finish(n.op(AddOp, n.op(MulOp, n["x"], n["c"]), n.op(MulOp, turned, n["s"])))
    return n


def region_of(n: Net):
    *ops, returned = n.model.block.ops
    return build_region(ops, list(returned.operands))


def check(n: Net) -> None:
    fused = gaf.fuse(n.model)
    for engine in ["tile", "interpreter"] + (["check"] if find_compiler() is not None else []):
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)


@pytest.mark.parametrize("kind", [dt.F32, dt.F16])
def test_a_rotated_row_is_two_halves(kind: dt.DType) -> None:
    n = rotated(64, kind)
    cut = cut_at_guards(region_of(n))
    assert cut is not None
    region, results = cut
    loads = [node for node in region.nodes if node.kind == "load"]
    assert results == (0, 0) and len(loads) == 6  # two halves of x, cos and sin, each loaded once
    assert not any(node.guards or node.kind == "coord" or node.function == "select" for node in region.nodes)
    check(n)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [dt.F32, dt.I32, dt.I64])
def test_joined_tensors_of_one_size(axis: int, kind: dt.DType) -> None:
    n = Net(kind, x=[20, 48], y=[20, 48])
    joined = n.op(ConcatOp, n["x"], n["y"], axis=axis)
    n.finish(n.op(ReluOp, joined) if kind.is_float else n.op(AddOp, joined, joined))
    check(n)


def test_pieces_of_different_size_are_not_cut() -> None:
    n = Net(x=[20, 48], y=[20, 32])
    n.finish(n.op(ReluOp, n.op(ConcatOp, n["x"], n["y"], axis=1)))
    assert cut_at_guards(region_of(n)) is None
    check(n)


def test_pieces_of_a_few_bytes_are_not_cut() -> None:
    assert cut_at_guards(region_of(rotated(8))) is None


def test_a_transposed_join_and_a_second_result() -> None:
    """Both results are stored in two pieces; one of them with the cut axis in front."""
    n = Net(x=[24, 40], y=[24, 40])
    joined = n.op(ConcatOp, n["x"], n["y"], axis=0)
    total = n.op(AddOp, joined, n.constant(np.float32(1.5)))
    n.finish(total, n.op(TransposeOp, n.op(NegOp, total), perm=(1, 0)))
    check(n)
