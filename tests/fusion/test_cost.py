# SPDX-License-Identifier: Apache-2.0
"""The cost model: bytes, cores, pipes, the L2 rule, measured tables, errors of models that users write."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import new_model
from gaf.dialects.graph.ops.binary import MulOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.dialects.graph.ops.unary import ExpOp, ReluOp, SigmoidOp, TanhOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion.cost import CostModel, Matmul, OpView, Work, region_work, sizes
from gaf.fusion.region import build_region, region_bytes
from gaf.fusion.schedules import choose_schedules
from tests.fusion.helpers import Net, members, plan

MODEL = CostModel()


def matmul(m: int, n: int, k: int, **options: Any) -> Work:
    return Work(
        (4 * m * k, 4 * k * n), (4 * m * n,), 0.0, 0.0, m, n, 1, 2, (Matmul(m, n, k, "f32"),), **options
    )


def test_every_operand_is_counted_once() -> None:
    n = Net(x=["B", 64])
    y = n.op(MulOp, n["x"], n["x"])
    model = n.finish(y)
    region = build_region([op for op in model.block.ops][:1], [y])
    work = region_work(region, choose_schedules(region)[0], sizes({"B": 10}))
    assert work.reads == (10 * 64 * 4,) and work.writes == (10 * 64 * 4,)
    assert work.bytes == sum(region_bytes(region, {"B": 10}))


def test_products_are_counted_once_however_the_result_is_stored() -> None:
    """A projection whose columns are split into heads: the heads are steps of the grid, not columns again."""
    n = Net(x=[96, 64], w=[64, 48])
    y = n.op(MatMulOp, n["x"], n["w"])
    heads = n.op(TransposeOp, n.op(ReshapeOp, y, shape=(96, 3, 16)), perm=(1, 0, 2))
    ops = [op for op in n.model.block.ops]
    for output, members_ in ((y, ops[:1]), (heads, ops)):
        region = build_region(members_, [output])
        work = region_work(region, choose_schedules(region)[0], sizes(None))
        assert work.macs == 96 * 64 * 48


def test_a_slice_counts_what_is_read_of_it() -> None:
    n = Net(x=[64, 300])
    parts = [n.op(SliceOp, n["x"], starts=(0, 0), sizes=(64, e), steps=(1, 1)) for e in (100, 200)]
    second = n.op(SliceOp, n["x"], starts=(0, 100), sizes=(64, 100), steps=(1, 1))
    ops = list(n.model.block.ops)
    for value, read in ((n.op(ExpOp, parts[0]), 100), (n.op(MulOp, parts[0], second), 200)):
        region = build_region([*ops, value.owner], [value])  # type: ignore[list-item]
        work = region_work(region, choose_schedules(region)[0], sizes(None))
        assert work.reads == (64 * read * 4,) and work.bytes == sum(region_bytes(region, {}))


def test_matmuls_side_by_side_share_their_columns_out_to_cores() -> None:
    """A gated MLP: gate and up projections as one matmul, whose halves meet in the epilogue."""
    n = Net(x=[256, 64])
    both = n.op(MatMulOp, n["x"], n.constant(np.ones((64, 1024))))
    gate = n.op(SliceOp, both, starts=(0, 0), sizes=(256, 512), steps=(1, 1))
    up = n.op(SliceOp, both, starts=(0, 512), sizes=(256, 512), steps=(1, 1))
    p = plan(n.finish(n.op(MulOp, n.op(SigmoidOp, gate), up)))
    (group,) = p.groups
    assert group.legal is not None and not group.legal.work.row_complete
    assert group.cost is not None and group.cost.blocks > 8


def test_a_gathered_table_counts_the_rows_that_are_read() -> None:
    model = new_model([("table", TensorType.of([30000, 64], dt.F32)), ("ids", TensorType.of([8], dt.I64))])
    op = GatherOp.make(list(model.block.args), {"axis": 0, "wrap": False})
    model.block.add_op(op)
    region = build_region([op], list(op.results))
    work = region_work(region, choose_schedules(region)[0], sizes(None))
    assert sorted(work.reads) == [8 * 8, 8 * 64 * 4]


def test_a_matmul_is_bound_by_the_cube_and_fp16_is_faster() -> None:
    cost = MODEL.price(matmul(8192, 768, 768, bare=True))
    peak = 8192 * 768 * 768 / 1024 / 20 / 1800
    assert cost.limit == "cube" and peak < cost.us < 1.5 * peak
    assert MODEL.matmul_us((8192, 768, 768), "f16") < 0.5 * MODEL.matmul_us((8192, 768, 768), "f32")


def test_small_kernels_are_bound_by_their_launch() -> None:
    cost = MODEL.price(Work((4096,), (4096,), 20.0, 20.0, 8, 128, 1, 2))
    assert cost.limit == "launch" and cost.us < 6


def test_complete_rows_leave_cores_idle_when_there_are_few() -> None:
    """schedules.md 2: M=512, N=768, K=3072 by whole rows streams all weights through every core."""
    tiles, rows = MODEL.price(matmul(512, 768, 3072)), MODEL.price(matmul(512, 768, 3072, row_complete=True))
    assert rows.pipes["load"] > 1.5 * tiles.pipes["load"]
    large = MODEL.price(matmul(10240, 768, 768)), MODEL.price(matmul(10240, 768, 768, row_complete=True))
    assert large[1].us < 1.15 * large[0].us  # 80 blocks of rows fill 20 cores four times


def test_rounds_over_cores_are_whole() -> None:
    """21 blocks on 20 cores become 34 smaller ones, of 80 rows, in two rounds."""
    full, one_more = (
        MODEL.price(matmul(20 * 128, 128, 4096, bare=True)),
        MODEL.price(matmul(21 * 128, 128, 4096, bare=True)),
    )
    assert one_more.pipes["cube"] == pytest.approx(2 * 80 / 128 * full.pipes["cube"])


def test_resident_operands_cost_l2_time_but_the_same_bytes() -> None:
    work = Work((32 << 20,), (32 << 20,), 1e4, 20.0, 8192, 1024, 1, 2)
    cold, warm = MODEL.price(work), MODEL.price(work, [True], [True])
    assert warm.us < cold.us and warm.hbm_bytes == cold.hbm_bytes
    assert warm.resident_bytes == 2 * (32 << 20) and cold.resident_bytes == 0


def test_large_intermediates_are_not_resident() -> None:
    def resident(rows: int) -> int:
        n = Net(x=[rows, 1024])
        model = n.finish(n.op(TanhOp, n.op(ExpOp, n["x"])))
        return sum(g.cost.resident_bytes for g in plan(model, strategy="none").groups if g.cost)

    assert resident(1000) == 2 * 1000 * 1024 * 4  # written and read once
    assert resident(100_000) == 0


def test_budgets_slow_a_model_down() -> None:
    small = CostModel(core_budget=5)
    assert small.matmul_us((8192, 768, 768)) > 3 * MODEL.matmul_us((8192, 768, 768))
    with pytest.raises(gaf.UnsupportedError, match="ascend999"):
        CostModel("ascend999")


def test_gain_is_split_and_sums_up() -> None:
    n = Net(x=[4096, 768])
    model = n.finish(n.op(TanhOp, n.op(ExpOp, n["x"])))
    (c,) = plan(model).candidates
    assert c.memory_gain + c.launch_gain + c.latency_gain + c.jit_gain == pytest.approx(c.gain, abs=0.51)
    assert c.before.hbm_bytes == 2 * c.after.hbm_bytes and c.jit_cost > 0


def test_build_time_counts_when_it_is_spread_over_runs() -> None:
    n = Net(x=[64, 64])
    model = n.finish(n.op(TanhOp, n.op(ExpOp, n["x"])))
    (ahead,) = plan(model).candidates
    (few,) = plan(model, cost_model=CostModel(expected_runs=100_000)).candidates
    assert few.gain < ahead.gain and few.jit_gain == pytest.approx(
        -100 * 1e6 * few.jit_cost / 100_000 / few.before.us
    )


# -- what users override ----------------------------------------------------------------------------


def linear_net() -> Any:
    n = Net(x=[512, 256])
    return n.finish(n.op(TanhOp, n.linear(n["x"], 256, 128)))


def test_a_measured_table_overrides_one_leaf_and_its_groups() -> None:
    class Measured(gaf.CostModel):
        def estimate_latency(self, op: OpView) -> float:
            if op.type == "MatMul":
                assert op.shape == (512, 256, 128)
                return self.matmul_latency_table[op.shape]
            return super().estimate_latency(op)

    model = Measured()
    base = plan(linear_net()).groups[0].cost
    assert base is not None
    assert plan(linear_net(), cost_model=model).groups[0].cost.us == pytest.approx(base.us)
    model.matmul_latency_table = {(512, 256, 128): model.matmul_us((512, 256, 128)) + 40}
    assert plan(linear_net(), cost_model=model).groups[0].cost.us == pytest.approx(base.us + 40)


def test_missing_shapes_of_a_table_fall_back() -> None:
    class Table(gaf.CostModel):
        matmul_latency_table = {(1, 2, 3): 7.0}

        def __init__(self) -> None:  # users forget super().__init__()
            pass

    model = Table()
    assert model.matmul_latency_table[1, 2, 3] == 7.0
    assert model.matmul_latency_table[64, 64, 64] == pytest.approx(MODEL.matmul_us((64, 64, 64)))


def test_group_estimates_can_be_overridden() -> None:
    class Flat(gaf.CostModel):
        def estimate_group(self, group: Any) -> float:
            return 5.0 if len(group.ops) == 1 else 100.0

    p = plan(linear_net(), cost_model=Flat())
    assert len(p.groups) == 3
    assert any("100.0 µs" in d.reason and not d.fused for d in p.decisions)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf, "fast", None])
@pytest.mark.parametrize("method", ["estimate_latency", "estimate_group"])
def test_bad_times_name_model_and_node(bad: Any, method: str) -> None:
    broken = type("Broken", (gaf.CostModel,), {method: lambda self, op: bad})
    with pytest.raises(gaf.InvalidInputError, match=r"n\d+|linear/.*") as error:
        plan(linear_net(), cost_model=broken())
    assert "Broken" in str(error.value) and method in str(error.value)


def test_a_model_that_raises_names_model_and_node() -> None:
    class Buggy(gaf.CostModel):
        def estimate_latency(self, op: OpView) -> float:
            return {}[op.type]  # type: ignore[return-value]

    with pytest.raises(gaf.InvalidInputError, match="'Buggy' raised KeyError in estimate_latency"):
        plan(linear_net(), cost_model=Buggy())


@pytest.mark.parametrize(
    "options",
    [
        {"cost_threshold": 1.5},
        {"cost_threshold": math.nan},
        {"cost_threshold": -0.1},
        {"max_fusion_depth": -1},
        {"objective": "speed"},
        {"strategy": "magic"},
        {"atb": "always"},
        {"core_budget": 0},
        {"symbols": {"B": 0}},
        {"cost_model": object()},
        {"cost_model": gaf.CostModel},
        {"matmul_precision": "fp16"},
        {"rule_errors": "ignore"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(gaf.InvalidInputError, match=next(iter(options))):
        gaf.FusionConfig(**options)


def test_traffic_keeps_apart_what_is_modelled_much_slower() -> None:
    """Two matmuls in a row with few rows: complete rows in between would leave cores idle, so they stay two
    kernels, with both times as reason.
    """
    n = Net(x=[32, 2048])
    y = n.op(MatMulOp, n["x"], n.constant(np.full((2048, 8192), 0.01)), name="wide/MatMul")
    y = n.op(ReluOp, y, name="wide/Relu")
    model = n.finish(n.op(MatMulOp, y, n.constant(np.full((8192, 2048), 0.01)), name="narrow/MatMul"))
    p = plan(model)
    assert members(p) == [["wide/MatMul", "wide/Relu"], ["narrow/MatMul"]]
    refused = next(d for d in p.decisions if "slower" in d.reason)
    assert (
        "more than 15 % slower" in refused.reason and refused.after is not None and refused.before is not None
    )
    assert refused.after.us > 1.15 * refused.before.us
