# SPDX-License-Identifier: Apache-2.0
"""Check mode beyond single accesses: the reverse second run, the run on one core, notes on numbers."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler
from gaf.runtime.executor import Executor
from gaf.runtime.twin import LaunchResult, TwinKernel, build_kernels

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

SOURCE = """
#include "gaf_vector.h"
using namespace AscendC;
struct Tiling { int64_t what, n; };

__aicore__ inline float* Shared() { static float value; return &value; }  // no device has this

extern "C" __global__ __aicore__ void noted(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, Tiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GAF_AT("node/7");
    const uint32_t n = static_cast<uint32_t>(t.n), at = GetBlockIdx() * n;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, gaf::RoundUp(n * 4, 32));
    pipe.InitBuffer(out, 1, gaf::RoundUp(n * 4, 32));
    GlobalTensor<float> xGm, yGm;
    GlobalTensor<half> hGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    hGm.SetGlobalBuffer((__gm__ half*)y);
    LocalTensor<float> a = in.AllocTensor<float>();
    gaf::LoadTile(a, xGm[at], 1, n, n);
    in.EnQue(a);
    a = in.DeQue<float>();
    if (t.what == 1) {  // to half
        LocalTensor<half> h = out.AllocTensor<half>();
        Cast(h, a, RoundMode::CAST_RINT, n);
        out.EnQue(h);
        h = out.DeQue<half>();
        gaf::StoreTile(hGm[at], h, 1, n, n);
        out.FreeTensor(h);
    } else {
        LocalTensor<float> b = out.AllocTensor<float>();
        if (t.what == 2) {
            Sqrt(b, a, static_cast<int32_t>(n));
        } else {  // 3: adds what the core before left, and leaves 4 or 0
            float* shared = Shared();
            Adds(b, a, *shared, static_cast<int32_t>(n));
            *shared = GetBlockIdx() == 1 ? 4.0f : 0.0f;
        }
        out.EnQue(b);
        b = out.DeQue<float>();
        gaf::StoreTile(yGm[at], b, 1, n, n);
        out.FreeTensor(b);
    }
    in.FreeTensor(a);
}
"""


@cache
def kernel() -> TwinKernel:
    return build_kernels([("noted", SOURCE)], mode="check")["noted"]


def run(what: int, x: np.ndarray, blocks: int = 1, again: bool = True) -> tuple[LaunchResult, np.ndarray]:
    y = np.zeros(x.shape, np.float16 if what == 1 else np.float32)
    n = x.size // blocks
    return kernel().launch([x, y], 0, struct.pack("<2q", what, n), blocks, outputs=1, again=again), y


def test_finite_floats_that_half_cannot_hold() -> None:
    x = np.array([1.0, 65519.0, 65520.0, -1e6, np.inf, 2.0, 3.0, 4.0], np.float32)
    found, y = run(1, x)
    assert found.violations == [] and found.total == 0
    (note,) = found.notes
    assert note["rule"] == "half-overflow" and note["api"] == "Cast" and note["node"] == "node/7"
    assert note["message"].startswith("2 finite numbers")  # infinity itself was no finite number
    assert np.isinf(y).sum() == 3


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_nan_from_finite_numbers(value: float) -> None:
    x = np.full(8, 4.0, np.float32)
    x[3] = value
    found, y = run(2, x)
    assert np.isnan(y[3]) and not found.violations
    rules = [n["rule"] for n in found.notes]
    assert rules == ([] if np.isnan(value) else ["not-finite"])


def test_padding_is_no_result() -> None:
    # The 5 real lanes are fine; what Sqrt makes of the padding is nobody's business.
    found, _ = run(2, np.full(5, 4.0, np.float32))
    assert found.notes == [] and found.violations == []


def test_results_that_depend_on_which_core_runs_first() -> None:
    x = np.ones(32, np.float32)
    once, y = run(3, x, blocks=4, again=False)
    assert once.violations == [] and list(y[::8]) == [1.0, 1.0, 5.0, 1.0]
    found, _ = run(3, x, blocks=4)
    (violation,) = found.violations
    assert violation["rule"] == "order-dependent" and "argument 1" in violation["message"]
    assert violation["message"].startswith("byte 2 ")  # in reverse, core 0 adds what core 1 left: 5.0 for 1.0


def test_outputs_are_right_after_both_runs() -> None:
    x = np.arange(1, 33, dtype=np.float32)
    found, y = run(2, x, blocks=4)
    assert found.violations == []
    np.testing.assert_allclose(y, np.sqrt(x), rtol=1e-6)


def test_the_check_engine_runs_all_tiles_on_one_core_too() -> None:
    import gaf
    from benchmarks.npu import F32, Case, feeds, softmax

    model, graph = Case("softmax", F32, softmax, (), ()).graph((40, 64))
    fused = gaf.fuse(model)
    seen: list[int] = []
    executor: Executor = fused.executor("check")
    executor.build()
    for built in executor.built.values():
        launch = built.launch

        def counted(arrays, workspace, tiling, blocks, launch=launch, **options):  # type: ignore
            seen.append(blocks)
            return launch(arrays, workspace, tiling, blocks, **options)

        built.launch = counted
    fused.run(feeds(model, graph), engine="check")
    assert len(seen) == 2 and seen[0] > 1 and seen[1] == 1
