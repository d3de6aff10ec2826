# SPDX-License-Identifier: Apache-2.0
"""Kernels in stages: where they are cut, what they hand over, that they compute the same, and when they pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gaf
from gaf.config import FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp
from gaf.dialects.graph.ops.shape import TransposeOp
from gaf.dialects.graph.ops.unary import SigmoidOp
from gaf.fusion.cost import CostModel, GroupCost
from gaf.fusion.nodes import Handed
from gaf.fusion.region import NotFusible, build_region
from gaf.fusion.schedule import Schedule
from gaf.fusion.stages import staged_schedules
from gaf.fusion.work import region_work, sizes
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net, members, plan


class StagesFirst(CostModel):
    """Stages cost next to nothing, so every kernel that can have them gets them."""

    def price(self, work: Any, *args: Any, **kwargs: Any) -> GroupCost:
        cost = super().price(work, *args, **kwargs)
        return replace(cost, us=cost.us / 1e6) if work.stages else cost


def norm(n: Net, x: Any, kind: dt.DType, name: str = "norm") -> Any:
    size = 48
    gamma = n.constant(np.linspace(0.5, 1.5, size), kind)
    return n.op(LayerNormOp, x, gamma, n.constant(np.linspace(-1, 1, size), kind), axis=-1, epsilon=1e-5,
                stash=False, name=name)  # fmt: skip


def weight(n: Net, kind: dt.DType, rows: int = 48, columns: int = 48) -> Any:
    return n.constant(np.random.default_rng(rows * columns).normal(size=(rows, columns)) * 0.2, kind)


def tail(kind: dt.DType = dt.F32, rows: Any = (3, 37)) -> Model:
    """A residual behind a matmul, and its LayerNorm."""
    n = Net(kind, x=[*rows, 48], r=[*rows, 48])
    y = n.op(AddOp, n.op(MatMulOp, n["x"], weight(n, kind)), n["r"])
    return n.finish(norm(n, y, kind))


def tail_with_residual(kind: dt.DType = dt.F32, rows: Any = (37,)) -> Model:
    """As `tail`, but the sum is a result too: the second stage reads it back."""
    n = Net(kind, x=[*rows, 48], r=[*rows, 48])
    y = n.op(AddOp, n.op(MatMulOp, n["x"], weight(n, kind)), n["r"])
    return n.finish(y, norm(n, y, kind))


def head(kind: dt.DType = dt.F32, rows: Any = ("B", 37)) -> Model:
    """LayerNorm, gate, Linear."""
    n = Net(kind, x=[*rows, 48])
    y = norm(n, n["x"], kind)
    y = n.op(MulOp, y, n.op(SigmoidOp, y))
    return n.finish(n.op(MatMulOp, y, weight(n, kind, 48, 80)))


def both(kind: dt.DType = dt.F32, rows: Any = (37,)) -> Model:
    """Norm, matmul, residual, norm."""
    n = Net(kind, x=[*rows, 48])
    y = n.op(MatMulOp, norm(n, n["x"], kind, "first"), weight(n, kind))
    return n.finish(norm(n, n.op(AddOp, y, n["x"]), kind, "second"))


def both_operands(kind: dt.DType = dt.F32, rows: Any = (37,)) -> Model:
    """Products of computed rows with computed rows of another number: two regions side by side in the first stage."""
    n = Net(kind, x=[*rows, 48], y=[21, 48])
    x, y = n.op(SigmoidOp, n["x"]), n.op(MulOp, n["y"], n["y"])
    return n.finish(n.op(MatMulOp, x, n.op(TransposeOp, y, perm=(1, 0))))


CASES = [both_operands, tail, tail_with_residual, head, both]


def schedule_of(model: Model) -> Schedule:
    ops = [op for op in model.block.ops if op.results and op.operands]
    outputs = [v for v in model.block.last_op.operands]  # type: ignore[union-attr]
    return staged_schedules(build_region(ops, outputs))[0]


@pytest.mark.parametrize("kind", [dt.F32, dt.F16], ids=str)
@pytest.mark.parametrize("build", CASES, ids=lambda b: b.__name__)
def test_stages_compute_the_same(build: Any, kind: dt.DType) -> None:
    fused = gaf.fuse(build(kind), FusionConfig(cost_model=StagesFirst()))
    assert len(fused.fused_ops) == 1 and fused.fused_ops[0].in_stages
    for engine in ("tile", "interpreter"):
        result = fused.verify(engine=engine)
        assert result.ok, str(result)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("build", [both, both_operands, tail_with_residual], ids=lambda b: b.__name__)
def test_stages_pass_the_checks_of_the_twin(build: Any) -> None:
    fused = gaf.fuse(build(rows=(150,)), FusionConfig(cost_model=StagesFirst()))
    result = fused.verify(engine="check")
    assert result.ok and not result.violations, str(result)
    assert "SyncAll<false>()" in fused.kernels[0].source


def test_where_a_region_is_cut() -> None:
    stages = schedule_of(both()).stages
    assert [s.schedule.is_cube for s in stages] == [False, True, False]
    handed = [[t for t in s.stores if isinstance(t, Handed)] for s in stages]
    assert [len(h) for h in handed] == [1, 1, 0]
    assert stages[2].stores == (0,)
    # the squares of LayerNorm are made from the sum again, not handed over beside it
    assert [h.type.static_shape() for hs in handed for h in hs] == [(37, 48), (37, 48)]


def test_operands_of_different_sizes_are_made_side_by_side() -> None:
    stages = schedule_of(both_operands()).stages
    assert [s.barrier for s in stages] == [False, False, True]


def test_a_result_is_read_back_instead_of_stored_twice() -> None:
    stages = schedule_of(tail_with_residual()).stages
    assert [s.stores for s in stages] == [(0,), (1,)]
    assert [v.output for v in stages[1].region.inputs if isinstance(v, Handed)] == [0]


def test_a_float16_result_is_not_read_back() -> None:
    """The statistics start from the float32 sum, as they do without stages."""
    stages = schedule_of(tail_with_residual(dt.F16)).stages
    assert [v.output for v in stages[1].region.inputs if isinstance(v, Handed)] == [None]


def test_nothing_to_cut() -> None:
    n = Net(x=[37, 48])
    assert not staged_schedules(_region(n.finish(n.op(MatMulOp, n["x"], weight(n, dt.F32)))))
    n = Net(x=[37, 48])
    assert not staged_schedules(_region(n.finish(norm(n, n["x"], dt.F32))))


def test_a_stage_without_a_schedule_is_refused() -> None:
    """Every stage has to be a kernel: one that stores its result in two orders is none."""
    n = Net(x=[37, 48])
    y = norm(n, n.op(MatMulOp, n["x"], weight(n, dt.F32)), dt.F32)
    with pytest.raises(NotFusible):
        staged_schedules(_region(n.finish(y, n.op(TransposeOp, y, perm=(1, 0)))))


def _region(model: Model) -> Any:
    ops = [op for op in model.block.ops if op.results and op.operands]
    return build_region(ops, list(model.block.last_op.operands))  # type: ignore[union-attr]


# -- cost -----------------------------------------------------------------------------------------------


def test_few_rows_run_in_stages_and_move_no_more() -> None:
    """128 rows of a block each would keep one core of 20 busy: the matmul is tiled in two dims instead."""
    n = Net(x=[128, 768], r=[128, 768])
    y = n.op(AddOp, n.op(MatMulOp, n["x"], n.constant(np.full((768, 768), 0.01)), name="mm"), n["r"], name="add")
    g, b = n.constant(np.ones(768)), n.constant(np.zeros(768))
    p = plan(n.finish(n.op(LayerNormOp, y, g, b, axis=-1, epsilon=1e-5, stash=False, name="norm")))
    assert members(p) == [["mm", "add", "norm"]]
    (group,) = p.groups
    assert group.schedules[0].stages and group.cost is not None
    assert group.cost.hbm_bytes == 4 * (3 * 128 * 768 + 768 * 768 + 2 * 768)
    assert group.cost.l2_bytes >= 2 * 4 * 128 * 768  # the sum, written and read


def test_what_does_not_stay_in_l2_counts_as_hbm_traffic() -> None:
    model = CostModel()
    n = Net(x=[128, 768], r=[128, 768])
    y = n.op(AddOp, n.op(MatMulOp, n["x"], n.constant(np.full((768, 768), 0.01))), n["r"])
    g, b = n.constant(np.ones(768)), n.constant(np.zeros(768))
    region = _region(n.finish(n.op(LayerNormOp, y, g, b, axis=-1, epsilon=1e-5, stash=False)))
    work = region_work(region, staged_schedules(region)[0], sizes(None))
    free = model.price(work)
    model.configure("ascend910b3", l2_budget=1 << 18)
    spilled = model.price(work)
    assert spilled.hbm_bytes - free.hbm_bytes == work.handed == 2 * 4 * 128 * 768
    assert spilled.memory_us > free.memory_us
