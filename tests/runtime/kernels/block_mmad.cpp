// SPDX-License-Identifier: Apache-2.0
// c[m, n] = A * B by BlockMmad for every combination of types and transposes, whole matrices cut into blocks.
#include "gaf_device.h"
using namespace AscendC;

struct BlockMmadTiling {
    uint32_t type;            // 0 float, 1 half, 2 bfloat16
    uint32_t ta, tb, narrow;  // narrow: result of A's type
    uint32_t m, n, k, bm, bn;
    uint32_t lda, ldb, ldc;  // leading dimensions in elements; ldc >= roundUp(n, 16)
    uint32_t kept;           // A stays in L1 while blocks of the same rows follow one another (not transposed)
};

template <class AT, bool TA, bool TB, class CT>
__aicore__ inline void Blocks(GM_ADDR a, GM_ADDR b, GM_ADDR c, const BlockMmadTiling& t, TPipe* pipe)
{
    GlobalTensor<AT> aGm, bGm;
    GlobalTensor<CT> cGm;
    aGm.SetGlobalBuffer((__gm__ AT*)a, (uint64_t)(TA ? t.k : t.m) * t.lda);
    bGm.SetGlobalBuffer((__gm__ AT*)b, (uint64_t)(TB ? t.n : t.k) * t.ldb);
    cGm.SetGlobalBuffer((__gm__ CT*)c, (uint64_t)t.m * t.ldc);
    gaf::BlockMmad<AT, TA, TB, CT> mmad;
    mmad.Init(pipe, t.bm, t.bn, t.kept != 0 ? t.k : 0);
    const uint32_t rows = gaf::DivUp(t.m, t.bm), cols = gaf::DivUp(t.n, t.bn);
    for (uint32_t i = GetBlockIdx(); i < rows * cols; i += GetBlockNum()) {
        const uint32_t m0 = i / cols * t.bm, n0 = i % cols * t.bn;
        mmad.Run(cGm[(uint64_t)m0 * t.ldc + n0], t.ldc, aGm[TA ? (uint64_t)m0 : (uint64_t)m0 * t.lda], t.lda,
                 bGm[TB ? (uint64_t)n0 * t.ldb : (uint64_t)n0], t.ldb, gaf::Min(t.m - m0, t.bm),
                 gaf::Min(t.n - n0, t.bn), t.k);
    }
    mmad.Release();
}

template <class AT, class CT>
__aicore__ inline void Transposes(GM_ADDR a, GM_ADDR b, GM_ADDR c, const BlockMmadTiling& t, TPipe* pipe)
{
    if (t.ta != 0) {
        if (t.tb != 0) {
            Blocks<AT, true, true, CT>(a, b, c, t, pipe);
        } else {
            Blocks<AT, true, false, CT>(a, b, c, t, pipe);
        }
    } else {
        if (t.tb != 0) {
            Blocks<AT, false, true, CT>(a, b, c, t, pipe);
        } else {
            Blocks<AT, false, false, CT>(a, b, c, t, pipe);
        }
    }
}

extern "C" __global__ __aicore__ void block_mmad(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace,
                                                 BlockMmadTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    if (t.type == 0) {
        Transposes<float, float>(a, b, c, t, &pipe);
    } else if (t.type == 1) {
        if (t.narrow != 0) {
            Transposes<half, half>(a, b, c, t, &pipe);
        } else {
            Transposes<half, float>(a, b, c, t, &pipe);
        }
    } else {
        if (t.narrow != 0) {
            Transposes<bfloat16_t, bfloat16_t>(a, b, c, t, &pipe);
        } else {
            Transposes<bfloat16_t, float>(a, b, c, t, &pipe);
        }
    }
}
