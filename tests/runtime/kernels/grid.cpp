// SPDX-License-Identifier: Apache-2.0
// Cores that work together: sums over the grid by atomic adds, a barrier of all vector cores, a barrier that
// never opens.
#include "gaf_device.h"
using namespace AscendC;

struct GridTiling {
    uint32_t what;  // 0 atomic sum, 1 each core reads what its neighbour wrote before SyncAll, 2 the same
                    // with mode-0 flags, 3 one core leaves before the barrier, 4 a wait for a flag that
                    // nobody sets, 5 AllocTensor without a free buffer
    uint32_t n;
};

__aicore__ inline void Write(TPipe& pipe, const GlobalTensor<float>& gm, float value, uint32_t n)
{
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(out, 1, gaf::PitchOf<float>(n) * 4);
    LocalTensor<float> t = out.AllocTensor<float>();
    Duplicate(t, value, static_cast<int32_t>(n));
    out.EnQue(t);
    t = out.DeQue<float>();
    gaf::StoreTile(gm, t, 1, n, n);
    out.FreeTensor(t);
}

extern "C" __global__ __aicore__ void grid(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GridTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    const uint32_t me = GetBlockIdx(), cores = GetBlockNum();
    GlobalTensor<float> xGm, yGm, mine, other;
    xGm.SetGlobalBuffer((__gm__ float*)x, (uint64_t)cores * t.n);
    yGm.SetGlobalBuffer((__gm__ float*)y, (uint64_t)cores * t.n);
    TPipe pipe;
    if (t.what == 0) {  // y[0..n) = sum over cores of x[core, :]
        TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
        pipe.InitBuffer(through, 1, gaf::PitchOf<float>(t.n) * 4);
        LocalTensor<float> v = through.AllocTensor<float>();
        gaf::LoadTile(v, xGm[(uint64_t)me * t.n], 1, t.n, t.n);
        through.EnQue(v);
        v = through.DeQue<float>();
        SetAtomicAdd<float>();
        gaf::StoreTile(yGm, v, 1, t.n, t.n);
        SetAtomicNone();
        through.FreeTensor(v);
        return;
    }
    if (t.what == 4) {
        CrossCoreWaitFlag(3);
        return;
    }
    if (t.what == 5) {
        TQue<TPosition::VECIN, 1> one;
        pipe.InitBuffer(one, 1, 256);
        LocalTensor<float> a = one.AllocTensor<float>(), b = one.AllocTensor<float>();
        return;
    }
    Write(pipe, xGm[(uint64_t)me * t.n], static_cast<float>(me + 1), t.n);
    if (t.what == 3 && me == cores - 1) {
        return;
    }
    if (t.what == 2) {
        CrossCoreSetFlag<0x0, PIPE_MTE3>(5);
        CrossCoreWaitFlag(5);
    } else {
        SyncAll<true>();
    }
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
    pipe.InitBuffer(through, 1, gaf::PitchOf<float>(t.n) * 4);
    LocalTensor<float> v = through.AllocTensor<float>();
    gaf::LoadTile(v, xGm[(uint64_t)((me + 1) % cores) * t.n], 1, t.n, t.n);
    through.EnQue(v);
    v = through.DeQue<float>();
    gaf::StoreTile(yGm[(uint64_t)me * t.n], v, 1, t.n, t.n);
    through.FreeTensor(v);
}
