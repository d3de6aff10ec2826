# SPDX-License-Identifier: Apache-2.0
"""Regions side by side in one kernel, and groups that are cut because no kernel can be generated."""

from __future__ import annotations

import re

from typing import Any

import numpy as np
import pytest

import gaf
from gaf import compiler
from gaf.config import FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.ops.binary import MulOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp
from gaf.dialects.graph.ops.unary import ExpOp, NegOp, ReluOp, TanhOp
from gaf.errors import UnsupportedError
from gaf.fusion.opgraph import is_constant
from gaf.fusion.refit import Failure
from gaf.fusion.region import NotFusible, build_region
from gaf.fusion.search import plan_fusion
from gaf.fusion.side_by_side import assembled, kernel_of, side_by_side
from gaf.fusion.stages import kernel_schedules
from gaf.fusion.work import region_work, sizes
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net, members, plan


def bags(axis: int, tables: int = 4) -> Net:
    """Sums of looked-up rows of several tables and an activation, stacked along `axis`."""
    n = Net(x=[6, 16])
    parts = [n.op(ReluOp, n["x"])]
    rng = np.random.default_rng(axis + 1)
    for i in range(tables):
        table = n.constant(rng.normal(size=(50 + i, 16)))
        ids = n.constant(rng.integers(0, 50, size=(6, 3)), dt.I64)
        rows = n.op(GatherOp, table, ids, axis=0, wrap=False)
        parts.append(n.op(ReduceSumOp, rows, axes=(1,), keepdims=False))
    if axis == 1:
        parts = [n.op(UnsqueezeOp, p, axes=(1,)) for p in parts]
    n.finish(n.op(ConcatOp, *parts, axis=axis))
    return n


def pairs(shared: bool = False) -> Net:
    """Products of all pairs of looked-up sums, and one of the sums times them if it is `shared`."""
    n = Net(x=[6, 16])
    rng = np.random.default_rng(1)
    parts = [n["x"]]
    for i in range(3):
        rows = n.op(
            GatherOp, n.constant(rng.normal(size=(50 + i, 16))), n.constant(rng.integers(0, 50, size=(6, 3)), dt.I64),
            axis=0, wrap=False,
        )  # fmt: skip
        parts.append(n.op(ReduceSumOp, rows, axes=(1,), keepdims=False))
    stacked = n.op(ConcatOp, *(n.op(UnsqueezeOp, p, axes=(1,)) for p in parts), axis=1)
    result = n.op(MatMulOp, stacked, n.op(TransposeOp, stacked, perm=(0, 2, 1)))
    if shared:
        scale = n.op(UnsqueezeOp, n.op(ReduceSumOp, parts[-1], axes=(1,), keepdims=True), axes=(1,))
        result = n.op(MulOp, result, scale)
    n.finish(result)
    return n


def test_pieces_are_assembled_for_a_matmul_in_the_same_kernel() -> None:
    fused = gaf.fuse(pairs().model)
    assert len(fused.fused_ops) == 1 and not fused.host_ops
    engines = ["tile", "interpreter"] + (["check", "host"] if find_compiler() is not None else [])
    for engine in engines:
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)
    assert fused.kernels[0].source.count("SyncAll") == 2  # once for each kind of core


def test_what_is_assembled_counts_as_workspace() -> None:
    model = pairs().model
    ops = [op for op in model.block.ops if isinstance(op, GraphOp) and not is_constant(op)]
    region, (schedule, *_) = assembled(ops, list(model.returned))
    work = region_work(region, schedule, sizes(None))
    assert work.handed == 2 * 4 * 6 * 4 * 16 and work.barriers == 1
    assert work.writes == (4 * 6 * 4 * 4,)


def test_a_piece_with_another_use_is_not_assembled() -> None:
    model = pairs(shared=True).model
    ops = [op for op in model.block.ops if isinstance(op, GraphOp) and not is_constant(op)]
    with pytest.raises(NotFusible, match="no concatenation between two parts"):
        assembled(ops, list(model.returned))


def test_concatenations_of_other_groups_are_left_alone() -> None:
    """A search hands the views of the whole model to every group: one that the group doesn't read is no part of it."""
    n = Net(x=[6, 16], y=[40, 16])
    stacked = n.op(ConcatOp, *(n.op(UnsqueezeOp, n.op(kind, n["x"]), axes=(1,)) for kind in (ReluOp, TanhOp) * 5), axis=1)
    n.op(ExpOp, stacked)
    other = n.op(ExpOp, n["y"])
    ops = [op for op in n.finish(other).block.ops if isinstance(op, GraphOp) and not is_constant(op)]
    with pytest.raises(NotFusible, match="no concatenation between two parts"):
        assembled(ops, [other])
    region, _ = kernel_of(ops, [other])
    assert [v.name_hint for v in region.inputs] == ["y"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lookups_that_end_in_one_tensor_are_one_kernel(axis: int) -> None:
    fused = gaf.fuse(bags(axis).model)
    assert len(fused.fused_ops) == 1 and not fused.host_ops
    engines = ["tile", "interpreter"] + (["check"] if find_compiler() is not None else [])
    for engine in engines:
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)
    assert "SyncAll" not in fused.kernels[0].source  # nothing waits for anything


def test_regions_of_equal_size_share_tile_sizes() -> None:
    fused = gaf.fuse(bags(1, tables=12).model)
    (kernel,) = fused.kernels
    assert sum(re.fullmatch(r"tm\d*", name) is not None for name, _ in kernel.tile.params) <= 2  # type: ignore[union-attr]


def test_pieces_that_share_work_are_one_region() -> None:
    """exp is computed once, for both its pieces."""
    n = Net(x=[8, 16], y=[8, 16])
    e = n.op(ExpOp, n["x"])
    parts = [n.op(ReduceSumOp, v, axes=(1,), keepdims=True) for v in (e, n.op(NegOp, e), n["y"])]
    out = n.op(ConcatOp, *parts, axis=0)
    ops = list(n.model.block.ops)
    _, schedules = side_by_side(ops, [out])
    assert [len(s.stores) for s in schedules[0].stages] == [2, 1]


def test_one_region_does_not_run_beside_itself() -> None:
    n = Net(x=[8, 16])
    out = n.op(ExpOp, n["x"])
    with pytest.raises(NotFusible, match="side by side"):
        side_by_side(list(n.model.block.ops), [out])


def test_two_matmuls_of_other_sizes_stay_apart() -> None:
    n = Net(x=[8, 16], y=[24, 48])
    a = n.op(MatMulOp, n["x"], n.constant(np.ones((16, 32))))
    b = n.op(MatMulOp, n["y"], n.constant(np.ones((48, 32))))
    out = n.op(ConcatOp, a, b, axis=0)
    with pytest.raises(NotFusible, match="two matmuls side by side"):
        side_by_side([op for op in n.model.block.ops if op.operands], [out])


def test_the_reason_is_that_against_one_region() -> None:
    n = Net(x=[8, 16, 24])
    x = n["x"]
    total = n.op(ReduceSumOp, n.op(ReduceSumOp, x, axes=(2,), keepdims=True), axes=(0,), keepdims=True)
    with pytest.raises(NotFusible) as one:
        kernel_schedules(build_region(list(n.model.block.ops), [total]))
    with pytest.raises(NotFusible) as both:
        kernel_of(list(n.model.block.ops), [total])
    assert str(one.value) == str(both.value)


# -- groups without a kernel ------------------------------------------------------------------------------


def chain(length: int) -> Net:
    n = Net(x=[64, 96])
    y = n["x"]
    for i in range(length):
        y = n.op((TanhOp, ExpOp, NegOp)[i % 3], y, name=f"op{i}")
    n.finish(y)
    return n


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_group_without_a_kernel_is_cut_not_dissolved(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A chain of six whose kernels can't have more than `most` ops: as few kernels as halving gives, all verified."""
    lower = compiler._lower_kernel

    def limited(tile: Any, config: FusionConfig, seconds: dict[str, float]) -> Any:
        count = len(tile.attributes["members"].data)
        if count > most:
            raise UnsupportedError(f"{count} nodes need more buffers than a core has")
        return lower(tile, config, seconds)

    monkeypatch.setattr(compiler, "_lower_kernel", limited)
    fused = gaf.fuse(chain(6).model)
    assert not fused.host_ops
    sizes = [len(op.members) for op in fused.fused_ops]
    assert sum(sizes) == 6 and max(sizes) <= most and len(sizes) <= {1: 6, 2: 4, 3: 2}[most]
    assert any("more buffers than a core has" in d.reason and not d.fused for d in fused.decisions)
    assert fused.verify(engine="tile").ok


def test_what_was_cut_stays_apart() -> None:
    model = chain(4).model
    ops = [op for op in model.block.ops if op.operands and op.results]
    first = plan_fusion(model.block, failures=[Failure(ops, "too big")])
    assert members(first) == [["op0", "op1"], ["op2", "op3"]]
    again = plan_fusion(model.block)  # the cut is written on the ops
    assert members(again) == members(first)
    assert any(d.reason == "too big" for d in again.decisions)


def test_an_uncut_graph_is_planned_as_before() -> None:
    n = Net(x=[8, 8])
    model = n.finish(n.op(MulOp, n.op(ExpOp, n["x"], name="a"), n["x"], name="b"))
    assert members(plan(model)) == [["a", "b"]]
