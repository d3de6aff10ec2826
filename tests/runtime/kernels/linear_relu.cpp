// SPDX-License-Identifier: Apache-2.0
// y = relu(x W^T + bias), a mix kernel: blocks of x rows by the cube core, epilogue on its two vector cores.
//
// The cube core hands a block over through a ring of two slots in workspace; FULL and FREE are the flags of a
// slot.
#include "gaf_device.h"
using namespace AscendC;

struct LinearReluTiling {
    uint32_t m, n, k, bm, bn;
};

constexpr uint32_t RING = 2;
constexpr uint16_t FULL = 0, FREE = 2;

extern "C" __global__ __aicore__ void linear_relu(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y,
                                                  GM_ADDR workspace, LinearReluTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    uint32_t core = GetBlockIdx();
    if ASCEND_IS_AIV {
        core /= GetSubBlockNum();
    }
    const uint32_t ldw = gaf::RoundUp(t.bn, 16), rows = gaf::DivUp(t.m, t.bm), cols = gaf::DivUp(t.n, t.bn);
    GlobalTensor<half> xGm, wGm, yGm;
    GlobalTensor<float> ring, biasGm;
    xGm.SetGlobalBuffer((__gm__ half*)x, (uint64_t)t.m * t.k);
    wGm.SetGlobalBuffer((__gm__ half*)w, (uint64_t)t.n * t.k);
    yGm.SetGlobalBuffer((__gm__ half*)y, (uint64_t)t.m * t.n);
    biasGm.SetGlobalBuffer((__gm__ float*)bias, t.n);
    ring.SetGlobalBuffer((__gm__ float*)workspace + (uint64_t)core * RING * t.bm * ldw,
                         (uint64_t)RING * t.bm * ldw);
    TPipe pipe;
    uint32_t it = 0;
    if ASCEND_IS_AIC {
        gaf::BlockMmad<half, false, true, float> mmad;
        mmad.Init(&pipe, t.bm, t.bn);
        for (uint32_t i = core; i < rows * cols; i += GetBlockNum(), ++it) {
            const uint32_t slot = it % RING, m0 = i / cols * t.bm, n0 = i % cols * t.bn;
            if (it >= RING) {
                CrossCoreWaitFlag(FREE + slot);
            }
            GAF_AT("linear");
            mmad.Run(ring[(uint64_t)slot * t.bm * ldw], ldw, xGm[(uint64_t)m0 * t.k], t.k,
                     wGm[(uint64_t)n0 * t.k], t.k, gaf::Min(t.m - m0, t.bm), gaf::Min(t.n - n0, t.bn), t.k);
            CrossCoreSetFlag<0x2, PIPE_FIX>(FULL + slot);
        }
        for (uint32_t i = it > RING ? it - RING : 0; i < it; ++i) {
            CrossCoreWaitFlag(FREE + i % RING);
        }
    }
    if ASCEND_IS_AIV {
        TQue<TPosition::VECIN, 1> in, inBias;
        TQue<TPosition::VECOUT, 1> out;
        const uint32_t half_ = gaf::DivUp(t.bm, 2);
        pipe.InitBuffer(in, 1, half_ * ldw * sizeof(float));
        pipe.InitBuffer(inBias, 1, ldw * sizeof(float));
        pipe.InitBuffer(out, 1, half_ * ldw * sizeof(half));
        for (uint32_t i = core; i < rows * cols; i += GetBlockNum(), ++it) {
            const uint32_t slot = it % RING, m0 = i / cols * t.bm, n0 = i % cols * t.bn;
            const uint32_t m = gaf::Min(t.m - m0, t.bm), n = gaf::Min(t.n - n0, t.bn);
            const uint32_t r0 = gaf::Min(GetSubBlockIdx() * half_, m), r = gaf::Min(m - r0, half_);
            CrossCoreWaitFlag(FULL + slot);
            if (r > 0) {
                GAF_AT("bias+relu");
                LocalTensor<float> b = inBias.AllocTensor<float>();
                gaf::LoadTile(b, biasGm[n0], 1, n, n);
                inBias.EnQue(b);
                LocalTensor<float> v = in.AllocTensor<float>();
                gaf::LoadTile(v, ring[((uint64_t)slot * t.bm + r0) * ldw], r, n, ldw);
                in.EnQue(v);
                b = inBias.DeQue<float>();
                v = in.DeQue<float>();
                gaf::BinaryRow<gaf::Bop::ADD>(v, v, b, r, n);
                PipeBarrier<PIPE_V>();
                Relu(v, v, static_cast<int32_t>(r * gaf::PitchOf<float>(n)));
                PipeBarrier<PIPE_V>();
                LocalTensor<half> o = out.AllocTensor<half>();
                gaf::CastTile(o, v, RoundMode::CAST_RINT, r, n);
                out.EnQue(o);
                in.FreeTensor(v);
                inBias.FreeTensor(b);
                o = out.DeQue<half>();
                gaf::StoreTile(yGm[(uint64_t)(m0 + r0) * t.n + n0], o, r, n, t.n);
                out.FreeTensor(o);
            }
            CrossCoreSetFlag<0x2, PIPE_MTE2>(FREE + slot);
        }
    }
}
