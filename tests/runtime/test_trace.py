# SPDX-License-Identifier: Apache-2.0
"""Trace mode: cycles of single instructions, order between pipes and cores, bytes, and the Perfetto file."""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gaf.errors import InvalidInputError
from gaf.report.trace import TracedLaunch, rows, to_json, write_perfetto
from gaf.runtime import timeline as timelines
from gaf.runtime.compiler import INCLUDE, find_compiler
from gaf.runtime.timeline import Timeline
from gaf.runtime.twin import LaunchResult, TwinKernel, build_kernels
from gaf.target.timing import VECTOR_COSTS, Timing

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

TIMING = Timing.of()

# Several kernels in one: `what` of the tiling says which; `n` is a number of floats, `rounds` a count.
SOURCE = """
#include "gaf_vector.h"
using namespace AscendC;
struct Tiling { int64_t what, n, rounds; };

__aicore__ inline void Stream(GM_ADDR x, GM_ADDR y, int64_t n, int64_t rounds, int depth)
{
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, depth, n * 4);
    pipe.InitBuffer(out, depth, n * 4);
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    for (int64_t i = GetBlockIdx(); i < rounds; i += GetBlockNum()) {
        GAF_AT("model/exp");
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, xGm[i * n], n);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Exp(b, a, n);
        PipeBarrier<PIPE_V>();
        Exp(b, b, n);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopy(yGm[i * n], b, n);
        out.FreeTensor(b);
    }
}

extern "C" __global__ __aicore__ void traced(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, Tiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    if (t.what <= 2) {
        Stream(x, y, t.n, t.rounds, static_cast<int>(t.what));
        return;
    }
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 3 * 4 * 8192);
    LocalTensor<float> a = buf.GetWithOffset<float>(8192, 0), b = buf.GetWithOffset<float>(8192, 4 * 8192);
    LocalTensor<float> c = buf.GetWithOffset<float>(8192, 8 * 8192);
    GlobalTensor<float> xGm, yGm, wGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    wGm.SetGlobalBuffer((__gm__ float*)workspace);
    if (t.what == 3) {  // independent and dependent vector work
        Duplicate(a, 1.0f, static_cast<int32_t>(t.n));
        Duplicate(b, 2.0f, static_cast<int32_t>(t.n));
        PipeBarrier<PIPE_V>();
        Add(c, a, b, static_cast<int32_t>(t.n));
        Cast(a.ReinterpretCast<half>(), c, RoundMode::CAST_RINT, static_cast<uint32_t>(t.n));
        Muls(b, b, 2.0f, 64, 3, UnaryRepeatParams{1, 1, 8, 8});
    } else if (t.what == 4) {  // rows with a pitch
        DataCopyPad(a, xGm,
                    DataCopyExtParams{static_cast<uint16_t>(t.rounds), static_cast<uint32_t>(t.n * 4), 64,
                                      0, 0},
                    DataCopyPadExtParams<float>{true, 0, 0, 0.0f});
    } else if (t.what == 5) {  // through the workspace and back
        for (int64_t i = 0; i < t.rounds; ++i) {
            gaf::LoadTile(a, xGm, 1, t.n, t.n);
            gaf::SyncPipes<HardEvent::MTE2_MTE3>();
            gaf::StoreTile(wGm, a, 1, t.n, t.n);
            gaf::SyncPipes<HardEvent::MTE3_MTE2>();
            gaf::LoadTile(b, wGm, 1, t.n, t.n);
            gaf::SyncPipes<HardEvent::MTE2_MTE3>();
            gaf::StoreTile(yGm, b, 1, t.n, t.n);
            gaf::SyncPipes<HardEvent::MTE3_MTE2>();
        }
    } else if (t.what == 6) {  // scalar reads of one line, then of another
        float s = xGm.GetValue(0) + xGm.GetValue(1) + xGm.GetValue(16);
        Duplicate(a, s, 64);
    } else if (t.what == 7) {  // past the end of x
        DataCopy(a, xGm[t.n], 64);
        gaf::SyncPipes<HardEvent::MTE2_MTE3>();
        DataCopy(yGm, b, 64);
    } else if (t.what == 8) {  // short rows
        gaf::StoreTile(yGm, a, t.rounds, t.n, t.n);
    }
}
"""


@cache
def kernel(mode: str = "trace") -> TwinKernel:
    return build_kernels([("traced", SOURCE)], mode=mode)["traced"]


def launch(
    what: int, n: int, rounds: int = 1, blocks: int = 1, size: int = 0, mode: str = "trace", **options: object
) -> tuple[LaunchResult, np.ndarray]:
    x = np.linspace(-1, 1, size or n * rounds, dtype=np.float32)
    y = np.zeros_like(x)
    tiling = struct.pack("<3q", what, n, rounds)
    return kernel(mode).launch([x, y], 1 << 16, tiling, blocks, outputs=1, **options), y  # type: ignore[arg-type]


def trace(what: int, n: int, rounds: int = 1, blocks: int = 1, **options: object) -> Timeline:
    found, _ = launch(what, n, rounds, blocks, **options)  # type: ignore[arg-type]
    assert found.timeline is not None and not found.violations
    return found.timeline


def spans(line: Timeline, core: int = 0) -> list[tuple[str, float, float]]:
    return [
        (line.apis[s["api"]], float(s["start"]), float(s["end"])) for s in line.spans if s["core"] == core
    ]


# ---- values and the table ---------------------------------------------------------------------------------


def test_values_are_those_of_fast_mode() -> None:
    _, traced = launch(2, 1024, 7, 3)
    _, fast = launch(2, 1024, 7, 3, mode="fast")
    assert np.array_equal(traced, fast) and traced.any()


def test_every_vector_api_has_a_cost() -> None:
    announced: set[str] = set()
    for path in INCLUDE.rglob("*.h"):
        text = path.read_text()
        announced |= set(re.findall(r'op\((?:gaf_twin::)?Pipe::V, "(\w+)"', text))
        announced |= set(
            re.findall(
                r'(?:UnaryFlat|UnaryLanes|BinaryFlat|BinaryLanes|MathUnary|WholeReduce|ReduceAll)[<(][^"]*?"([A-Z]\w+)"',
                text,
            )
        )
        macros = r"GAF_TWIN_(?:UNARY|BINARY|SCALAR|MATH|WHOLE_REDUCE|GROUP_REDUCE)\((\w+),"
        announced |= {name for name in re.findall(macros, text) if name != "NAME"}
    assert len(announced) > 60
    assert announced <= set(VECTOR_COSTS), announced - set(VECTOR_COSTS)


def test_no_instruction_is_faster_than_one_repeat_a_cycle() -> None:
    for name, cost in VECTOR_COSTS.items():
        for width in (1, 2, 4, 8):
            assert cost.slope(width) >= width / 256 and cost.start(width) > 0, name


def test_an_api_without_a_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(VECTOR_COSTS, "Duplicate")
    monkeypatch.setattr("gaf.runtime.twin.costs_of", timelines.costs_of.__wrapped__)
    assert trace(3, 512).unknown_apis == ["Duplicate"]
    monkeypatch.undo()
    assert trace(3, 512).unknown_apis == []


# ---- single instructions ----------------------------------------------------------------------------------


def test_vector_instructions_follow_each_other_unless_a_barrier_is_between() -> None:
    line = trace(3, 512)
    (_, a0, a1), (_, b0, b1), (_, c0, c1), (_, d0, d1), (_, e0, e1) = spans(line)
    dup, add = VECTOR_COSTS["Duplicate"], VECTOR_COSTS["Add"]
    assert a0 == pytest.approx(TIMING.kernel_head + TIMING.vector_head, abs=0.01)
    assert a1 - a0 == pytest.approx(512 * dup.slope(4)) and c1 - c0 == pytest.approx(512 * add.slope(4))
    assert b0 == pytest.approx(max(a1, TIMING.kernel_head + 2 * TIMING.issue))
    assert c0 == pytest.approx(b1 + dup.start(4))  # behind the barrier: complete, not only taken
    assert d0 == pytest.approx(max(c1, c0 + TIMING.issue), abs=0.01)
    assert d1 - d0 == pytest.approx(512 / 64)  # the wider side of a cast counts
    assert e1 - e0 == pytest.approx(3 * 64 * VECTOR_COSTS["Muls"].slope(4))  # whole repeats
    assert line.nodes[line.spans[0]["node"]] == ""


def test_a_load_costs_what_the_formula_says() -> None:
    small, large = trace(2, 4096), trace(2, 8192)
    rate = TIMING.load_small + TIMING.load_small_core
    assert small.busiest("MTE2") == pytest.approx(4096 * 4 / rate + TIMING.load_start, rel=1e-4)
    rate = TIMING.load_large + TIMING.load_large_core
    assert large.busiest("MTE2") == pytest.approx(8192 * 4 / rate + TIMING.load_start, rel=1e-4)
    assert large.busiest("MTE3") == pytest.approx(
        8192 * 4 / TIMING.store_rate(1) + TIMING.store_start, rel=1e-4
    )
    assert large.cores[0].work["MTE2"] == pytest.approx(8192 * 4 / rate, rel=1e-4)


def test_many_cores_share_the_memory() -> None:
    one, many = trace(2, 1024, 40, 1), trace(2, 1024, 40, 40)
    assert many.busiest("MTE2") == pytest.approx(
        4096 / TIMING.load_rate(40, 4096) + TIMING.load_start, rel=1e-4
    )
    assert one.total("MTE2") < many.total("MTE2") and many.cycles < one.cycles


def test_rows_with_a_pitch_pay_for_it() -> None:
    line = trace(4, 256, rounds=8, size=8 * 256 + 8 * 16)  # rows of 1024 bytes, 1088 apart
    rate = TIMING.load_small + TIMING.load_small_core
    expected = 8 * 1024 / rate + TIMING.load_start + TIMING.load_stride * 8 * (1088 % 256)
    assert line.busiest("MTE2") == pytest.approx(expected, rel=1e-4)


def test_stores_of_short_rows_are_slow() -> None:
    tiny, odd, whole = trace(8, 3, rounds=64), trace(8, 33, rounds=64), trace(8, 32, rounds=64)
    row = (
        (TIMING.store_tiny_core_slope + TIMING.store_tiny_slope) * 12
        + TIMING.store_tiny_core
        + TIMING.store_tiny
    )
    assert tiny.busiest("MTE3") == pytest.approx(64 * row + TIMING.store_start, rel=1e-4)
    assert odd.busiest("MTE3") == pytest.approx(64 * 132 / TIMING.store_unaligned, rel=1e-4)
    assert whole.busiest("MTE3") < odd.busiest("MTE3") / 3


def test_scalar_reads_hit_the_line_that_was_read_last() -> None:
    core = trace(6, 64, size=64).cores[0]
    calls = 4 * TIMING.issue  # some of them; the rest of S is the three reads
    reads = 2 * TIMING.scalar_gm_miss + TIMING.scalar_gm_hit
    assert reads <= core.busy["S"] <= reads + 2 * calls


# ---- order ------------------------------------------------------------------------------------------------


def test_two_buffers_overlap_what_one_buffer_does_in_turn() -> None:
    double, single = trace(2, 8192, 8), trace(1, 8192, 8)
    assert double.busiest("MTE2") == pytest.approx(single.busiest("MTE2"))
    assert double.cycles < 0.9 * single.cycles  # the stores alone take 83 % of it
    serial = sum(single.busiest(p) for p in ("MTE2", "V"))
    assert single.cycles > serial > 0
    # Nothing starts before what it waits for, in either.
    for line in (double, single):
        by_api = defaultdict(list)
        for s in line.spans:
            by_api[int(s["pipe"])].append((float(s["start"]), float(s["end"])))
        loads, works, stores = by_api[4], by_api[1][::2], by_api[5]
        assert len(loads) == len(works) == len(stores) == 8
        depth = 2 if line is double else 1
        for i in range(8):
            assert works[i][0] >= loads[i][1]
            assert stores[i][0] >= by_api[1][2 * i + 1][1]
            if i >= depth:
                assert loads[i][0] >= by_api[1][2 * (i - depth) + 1][1]


def test_blocks_beyond_the_cores_run_in_a_second_wave() -> None:
    line = trace(2, 256, 50, 50)
    first = [c for c in line.cores if c.block < 40]
    second = [c for c in line.cores if c.block >= 40]
    assert all(c.start == 0 for c in first) and {c.slot for c in first} == set(range(40))
    assert all(c.start >= min(f.end for f in first) for c in second)
    assert line.cycles == pytest.approx(max(c.end for c in second))


MIX = """
#include "gaf_device.h"
using namespace AscendC;
struct Tiling { int64_t late; };
extern "C" __global__ __aicore__ void handed_over(GM_ADDR a, GM_ADDR b, GM_ADDR y,
                                                  GM_ADDR workspace, Tiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GlobalTensor<float> aGm, bGm, yGm, wGm;
    aGm.SetGlobalBuffer((__gm__ float*)a);
    bGm.SetGlobalBuffer((__gm__ float*)b);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    wGm.SetGlobalBuffer((__gm__ float*)workspace);
    if ASCEND_IS_AIC {
        TPipe pipe;
        gaf::BlockMmad<float, false, false> mmad;
        mmad.Init(&pipe, 64, 64);
        mmad.Run(wGm, 64, aGm, 64, bGm, 64, 64, 64, 64);
        CrossCoreSetFlag<2, PIPE_FIX>(3);
    }
    if ASCEND_IS_AIV {
        TPipe pipe;
        TBuf<TPosition::VECCALC> buf;
        pipe.InitBuffer(buf, 64 * 64 * 4);
        LocalTensor<float> x = buf.Get<float>();
        CrossCoreWaitFlag(3);
        const uint32_t first = GetSubBlockIdx() * 32;
        gaf::LoadTile(x, wGm[first * 64], 32, 64, 64);
        gaf::SyncPipes<HardEvent::MTE2_MTE3>();
        gaf::StoreTile(yGm[first * 64], x, 32, 64, 64);
    }
}
"""


def test_a_vector_core_starts_when_the_cube_core_has_handed_over() -> None:
    built = build_kernels([("handed_over", MIX)], mode="trace")["handed_over"]
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    y = np.zeros((64, 64), np.float32)
    found = built.launch([a, b, y], 64 * 64 * 4, bytes(8), 1, outputs=1)
    np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-4)
    line = found.timeline
    assert line is not None
    names = [c.name for c in line.cores]
    assert names == ["AIC 0", "AIV 0", "AIV 1"]
    fixed = next(e for n, _, e in spans(line, 0) if n == "Fixpipe")
    for core in (1, 2):
        assert spans(line, core)[0][1] >= fixed + TIMING.fixpipe_start + TIMING.cross_flag
    assert line.cores[0].busy["M"] == pytest.approx(
        64 // 16 * (64 // 16) * (64 // 8) * 2
    )  # float32: two cycles a fractal
    workspace = line.arguments[-1]
    assert workspace.role == "workspace" and workspace.hbm_read == workspace.hbm_written == 0
    assert workspace.written == workspace.read == 64 * 64 * 4
    assert line.memory["L0C"][0] == 64 * 64 * 4


# ---- bytes ------------------------------------------------------------------------------------------------


def test_bytes_that_everybody_reads_come_from_memory_once() -> None:
    line = trace(5, 2048, rounds=5, size=2048)
    x, y, w = line.arguments
    assert (x.read, x.read_once, x.read_again) == (5 * 8192, 8192, 8192)
    assert (x.hbm_read, y.hbm_written, w.hbm_read + w.hbm_written) == (8192, 8192, 0)
    assert line.hbm_bytes == 16384 and line.moved_bytes == 5 * 4 * 8192
    crowded = trace(5, 2048, rounds=5, size=2048, timing=replace(TIMING, l2_resident_bytes=1024.0))
    x, y, w = crowded.arguments
    assert (x.hbm_read, w.hbm_read, w.hbm_written) == (5 * 8192, 5 * 8192, 5 * 8192)
    assert crowded.busiest("MTE2") > 1.5 * line.busiest("MTE2")


def test_on_chip_bytes() -> None:
    line = trace(3, 512)
    floats = 512 * 4
    assert line.memory["UB"] == (3 * floats + 3 * 256, 3 * floats + floats // 2 + 3 * 256)


# ---- whole launches ---------------------------------------------------------------------------------------


def test_a_timeline_is_the_same_every_time() -> None:
    first, second = trace(2, 1000, 9, 4), trace(2, 1000, 9, 4)
    assert first.cycles == second.cycles and np.array_equal(first.spans, second.spans)
    assert first.to_json() == second.to_json()


def test_sums_without_spans() -> None:
    full, sums = trace(2, 1000, 9, 4), trace(2, 1000, 9, 4, spans=False)
    assert len(sums.spans) == 0 and sums.cycles == full.cycles and sums.instructions == full.instructions
    assert len(full.spans) == full.instructions


def test_an_access_outside_of_memory_is_left_out_and_named() -> None:
    found, _ = launch(7, 64, size=64)
    assert found.timeline is not None and "src" in found.timeline.fault


def test_perfetto_file(tmp_path: Path) -> None:
    line = trace(2, 1024, 9, 2)
    other = trace(3, 512)
    launches = [TracedLaunch(line, 3.0, ("a", "b")), TracedLaunch(other, 10.0)]
    write_perfetto(tmp_path / "t.json.gz", launches)
    with gzip.open(tmp_path / "t.json.gz", "rt") as f:
        events = json.load(f)["traceEvents"]
    lanes = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            lanes[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for lane in lanes.values():
        lane.sort()
        assert all(b[0] >= a[1] - 1e-3 for a, b in pairwise(lane))  # a pipe does one thing at a time
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
    assert {"AIV 0", "AIV 1", "MTE2", "MTE3", "V", "launches"} <= names
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert [k["ts"] for k in kernels] == [3.0, 10.0] and kernels[0]["args"]["nodes"] == "a, b"
    exp = next(e for e in events if e["name"] == "Exp")
    assert exp["args"]["node"] == "model/exp" and exp["ts"] > 3.0
    assert len([e for e in events if e["ph"] == "X"]) == line.instructions + other.instructions + 2
    assert rows(launches)[0]["launches"] == 2 and to_json(launches)["launches"][0]["members"] == ["a", "b"]
    with pytest.raises(InvalidInputError, match="timeline"):
        write_perfetto(tmp_path / "no" / "t.json", line)
