// SPDX-License-Identifier: Apache-2.0
// LoadTileBox of one type: a tile of which a box comes from x (rows `stride` apart), the rest is `fill`; then a
// second tile into the same queue, so that the fill meets a buffer that was just read.
#include "gaf_device.h"
using namespace AscendC;

struct BoxesTiling {
    uint32_t type, rows, lanes, row0, col0, nrows, ncols, stride;
    float fill;
};

template <class T>
__aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const BoxesTiling& t)
{
    const uint32_t pitch = gaf::PitchOf<T>(t.lanes), part = gaf::Min(t.rows, 1024);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, t.rows * pitch * sizeof(T));
    pipe.InitBuffer(out, 1, part * pitch * sizeof(T));
    GlobalTensor<T> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ T*)x);
    yGm.SetGlobalBuffer((__gm__ T*)y);
    for (uint32_t i = 0; i < 2; ++i) {
        LocalTensor<T> room = in.AllocTensor<T>();
        gaf::LoadTileBox(room, xGm, t.rows, t.lanes, i == 0 ? t.row0 : 0, i == 0 ? t.col0 : 0,
                         i == 0 ? t.nrows : 0, t.ncols, t.stride, static_cast<T>(t.fill));
        in.EnQue(room);
        LocalTensor<T> tile = in.DeQue<T>();
        for (uint32_t r = 0; r < t.rows; r += part) {
            const uint32_t n = gaf::Min(t.rows - r, part);
            LocalTensor<T> result = out.AllocTensor<T>();
            DataCopy(result, tile[r * pitch], n * pitch);
            out.EnQue(result);
            LocalTensor<T> ready = out.DeQue<T>();
            gaf::StoreTile(yGm[(i * t.rows + r) * t.lanes], ready, n, t.lanes, t.lanes);
            out.FreeTensor(ready);
        }
        in.FreeTensor(tile);
    }
}

extern "C" __global__ __aicore__ void boxes(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, BoxesTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    switch (t.type) {
        case 0: Run<float>(x, y, t); break;
        case 1: Run<half>(x, y, t); break;
        case 2: Run<bfloat16_t>(x, y, t); break;
        case 3: Run<uint8_t>(x, y, t); break;
        case 4: Run<int32_t>(x, y, t); break;
        case 5: Run<int64_t>(x, y, t); break;
        case 6: Run<int8_t>(x, y, t); break;
        default: break;
    }
}
