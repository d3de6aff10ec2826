// SPDX-License-Identifier: Apache-2.0
// CastTile for one pair of types on a tile of rows x lanes, every rounding mode.
#include "gaf_device.h"
using namespace AscendC;

struct CastsTiling {
    uint32_t pair, mode, rows, lanes;
};

template <class D, class S>
__aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const CastsTiling& t)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> in, out, mid;
    pipe.InitBuffer(in, t.rows * gaf::PitchOf<S>(t.lanes) * sizeof(S));
    pipe.InitBuffer(out, t.rows * gaf::PitchOf<D>(t.lanes) * sizeof(D));
    pipe.InitBuffer(mid, t.rows * gaf::PitchOf<half>(t.lanes) * sizeof(half));
    GlobalTensor<S> xGm;
    GlobalTensor<D> yGm;
    xGm.SetGlobalBuffer((__gm__ S*)x, t.rows * t.lanes);
    yGm.SetGlobalBuffer((__gm__ D*)y, t.rows * t.lanes);
    LocalTensor<S> s = in.Get<S>();
    LocalTensor<D> d = out.Get<D>();
    gaf::LoadTile(s, xGm, t.rows, t.lanes, t.lanes);
    gaf::SyncPipes<HardEvent::MTE2_V>();
    gaf::CastTile(d, s, mid.Get<half>(), static_cast<RoundMode>(t.mode), t.rows, t.lanes);
    gaf::SyncPipes<HardEvent::V_MTE3>();
    gaf::StoreTile(yGm, d, t.rows, t.lanes, t.lanes);
}

#define PAIR(NUMBER, D, S) \
    case NUMBER: Run<D, S>(x, y, t); break;

extern "C" __global__ __aicore__ void casts(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, CastsTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    switch (t.pair) {
        PAIR(0, half, float)
        PAIR(1, float, half) PAIR(2, bfloat16_t, float) PAIR(3, float, bfloat16_t) PAIR(4, int32_t, float)
            PAIR(5, float, int32_t) PAIR(6, int64_t, float) PAIR(7, float, int64_t) PAIR(8, int16_t, float)
                PAIR(9, float, int16_t) PAIR(10, int64_t, int32_t) PAIR(11, int32_t, int64_t)
                    PAIR(12, int8_t, float) PAIR(13, float, int8_t) PAIR(14, uint8_t, float)
                        PAIR(15, float, uint8_t) PAIR(16, half, int8_t) PAIR(17, int8_t, half)
                            PAIR(18, half, uint8_t) PAIR(19, uint8_t, half) PAIR(20, half, int16_t)
                                PAIR(21, int16_t, half) PAIR(22, int32_t, half) PAIR(23, int32_t, bfloat16_t)
                                    PAIR(24, int16_t, int32_t) default : break;
    }
}
