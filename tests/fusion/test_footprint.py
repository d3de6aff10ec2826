# SPDX-License-Identifier: Apache-2.0
"""Groups whose smallest tile doesn't fit are refused in the search, with the number; kernels that can't run aren't made."""

from __future__ import annotations

from pathlib import Path

import pytest

import gaf
import gaf.compiler
from examples.onnx import networks
from examples.onnx.writer import SparseWriter
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.shape import ReshapeOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.errors import UnsupportedError
from gaf.fusion.region import build_region
from gaf.fusion.schedules import choose_schedules
from gaf.passes.graph.footprint import smallest_tile
from gaf.passes.tile.lower_region import lower_region
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.target import chip
from tests.fusion.helpers import Net

TARGET = chip("ascend910b3")


def sums_and_softmax(lanes: int | str, inputs: int = 7) -> Model:
    """Softmax of a sum, times every summand: each row of each input is alive to the end."""
    n = Net(**{f"x{i}": [40, lanes] for i in range(inputs)})
    total = n["x0"]
    for i in range(1, inputs):
        total = n.op(AddOp, total, n[f"x{i}"])
    weights = n.op(SoftmaxOp, total, axes=(1,))
    return n.finish(*(n.op(MulOp, weights, n[f"x{i}"]) for i in range(inputs)))


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reasons of groups that turned out to have no kernel after the search."""
    found: list[str] = []
    original = gaf.compiler.fuse_block

    def watched(block, **options):
        found.extend(f.reason for f in options.get("failures", ()))
        return original(block, **options)

    monkeypatch.setattr(gaf.compiler, "fuse_block", watched)
    return found


def test_rows_that_fit_are_whole_longer_ones_streamed_and_nothing_else_is_made(failures: list[str]) -> None:
    short, long = gaf.fuse(sums_and_softmax(256)), gaf.fuse(sums_and_softmax(8192))
    assert len(short.fused_ops) == len(long.fused_ops) == 1
    assert any(not k.name.endswith("_streamed") for k in short.kernels)
    assert all(k.name.endswith("_streamed") for k in long.kernels)  # whole rows take 289 KiB at any tile
    assert not failures


def test_a_plan_is_priced_by_the_schedule_that_runs() -> None:
    """Streamed rows are read in every pass: that is what the group costs."""
    fused = gaf.fuse(sums_and_softmax(8192))
    (candidate,) = fused.candidates
    region = build_region(list(fused.fused_ops[0].members), list(fused.fused_ops[0].yielded))
    whole, streamed = choose_schedules(region)
    assert "UB 289 KiB > 184 KiB" in smallest_tile(region, whole, TARGET).reason
    assert smallest_tile(region, streamed, TARGET).reason == ""
    assert candidate.footprint <= candidate.footprint_limit


def test_symbolic_rows_are_left_to_guards() -> None:
    fused = gaf.fuse(sums_and_softmax("N"))
    assert {k.name.endswith("_streamed") for k in fused.kernels} == {True, False}


def test_inner_rows_that_dont_fit_are_refused_with_the_number(failures: list[str], tmp_path: Path) -> None:
    """Both halves of a gate, 14336 wide, don't lie in UB beside each other until the next matmul takes them."""
    writers: list[SparseWriter] = []

    def writer(name: str) -> SparseWriter:
        writers.append(SparseWriter(name))
        return writers[-1]

    proto = networks.llama_block(4096, 32, 8, 14336, 2048, writer)
    fused = gaf.fuse(gaf.load_model(writers[0].save(proto, tmp_path)))
    refused = [d for d in fused.decisions if not d.fused and "KiB >" in d.reason]
    assert any({"mlp/MatMul", "mlp/Sigmoid", "mlp/MatMul_2"} <= set(d.members) for d in refused)
    assert all(d.reason.startswith("UB ") and "> 184 KiB at the smallest tile" in d.reason for d in refused)
    assert not failures


def test_planning_a_kernel_that_never_fits_is_an_error() -> None:
    """Without a search before it, too: the message lists the buffers."""
    model = sums_and_softmax(8192)
    ops = list(model.block.ops)[:-1]
    region = build_region(ops, list(model.returned))
    kernel = lower_region(region, choose_schedules(region)[0], "rows")
    with pytest.raises(UnsupportedError, match="UB 289 KiB > 184 KiB") as found:
        bind_tiles(kernel, TARGET)
    assert "bytes (x0)" in str(found.value)


def test_a_quotient_of_indices_is_refused_in_the_search(failures: list[str]) -> None:
    """Gathering along flattened dims looks up two dims of the unflattened value at once."""
    n = Net(x=[8, 6, 32])
    flat = n.op(ReshapeOp, n["x"], shape=(8 * 6, 32))
    rows = n.constant([5, 3, 40, 41], dt.I64)
    y = n.op(GatherOp, n.op(MulOp, flat, flat), rows, axis=0, wrap=False)
    fused = gaf.fuse(n.finish(n.op(AddOp, y, y)))
    assert not failures
    assert fused.verify(engine="interpreter").ok
