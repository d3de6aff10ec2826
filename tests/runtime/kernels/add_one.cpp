// SPDX-License-Identifier: Apache-2.0
// y = x + 1 over n floats, tiles of `tile` elements handed out to the blocks in turn; double buffered.
#include "gaf_device.h"
using namespace AscendC;

struct AddOneTiling {
    uint32_t n, tile;
};

extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, AddOneTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, t.tile * sizeof(float));
    pipe.InitBuffer(out, 2, t.tile * sizeof(float));
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, t.n);
    yGm.SetGlobalBuffer((__gm__ float*)y, t.n);
    for (uint32_t i = GetBlockIdx() * t.tile; i < t.n; i += GetBlockNum() * t.tile) {
        const uint32_t n = t.n - i < t.tile ? t.n - i : t.tile;
        LocalTensor<float> a = in.AllocTensor<float>();
        gaf::LoadTile(a, xGm[i], 1, n, n);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        GAF_AT("add_one");
        Adds(b, a, 1.0f, static_cast<int32_t>(n));
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        gaf::StoreTile(yGm[i], b, 1, n, n);
        out.FreeTensor(b);
    }
}
