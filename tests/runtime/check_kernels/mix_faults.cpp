// SPDX-License-Identifier: Apache-2.0
// A mix kernel, y = relu(a * b') tile by tile through a ring of two slots, then z = y of the next vector
// core; it contains every mistake of the enum below and makes the one it is told.
#include "kernel_operator.h"

using namespace AscendC;

// The Python test reads the names from here; NONE is the correct kernel.
enum Fault : uint32_t {
    NONE = 0,
    // between the cube core and its vector cores
    FULL_FORGOTTEN,
    FREE_FORGOTTEN,
    FULL_FROM_PIPE_MTE1,
    FULL_FROM_TWO_PIPES,
    FULL_FROM_PIPES_IN_ORDER,
    FULL_ID_12,
    DRAIN_FORGOTTEN,
    FULL_NEVER_SET,
    FREE_FROM_ONE_CORE,
    MODE_MIXED,
    HALVES_OVERLAP,
    COUNTER_OVERFLOW,
    // between all cores
    SYNC_ALL_FORGOTTEN,
    SYNC_ALL_SKIPPED_BY_ONE,
    // inside the cube core
    MISSING_MTE2_MTE1,
    MISSING_MTE1_M,
    MISSING_M_FIX,
    MISSING_MTE1_MTE2,
    MISSING_M_MTE1,
    MISSING_FIX_M,
    MISSING_M_BARRIER,
    SCALAR_EVENT_ON_CUBE,
    // rules of cube calls
    K_NOT_FILLED,
    FIXPIPE_N_30,
    FIXPIPE_QUANT,
    ND2NZ_STRIDE_70000,
    ND2NZ_C0_STRIDE_0,
    MMAD_K_5000,
    L0A_OVERFLOW,
    OPERANDS_SWAPPED,
    TRANSPOSE_OF_FLOAT,
    FILL_TOO_LARGE,
    LOAD3D_WINDOW,
    COPY_L1_TO_L0,
    VECTOR_CALL_ON_CUBE,
    TOO_MANY_BLOCKS,
    FAULT_COUNT
};

struct MixTiling {
    uint32_t fault, tiles;   // tiles of every cube core
};

constexpr uint32_t M = 32, N = 32, K = 32, RING = 2, HALF_ROWS = M / 2;
constexpr uint16_t FULL = 0, FREE = 2;   // + slot

class MixKernel {
public:
    __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR z, GM_ADDR ws, const MixTiling& t,
                               TPipe* pipe)
    {
        fault_ = t.fault;
        block_ = GetBlockIdx();
        if ASCEND_IS_AIV { block_ /= GetSubBlockNum(); }
        aGm_.SetGlobalBuffer((__gm__ half*)a);
        bGm_.SetGlobalBuffer((__gm__ half*)b);
        yGm_.SetGlobalBuffer((__gm__ float*)y);
        zGm_.SetGlobalBuffer((__gm__ float*)z);
        wsGm_.SetGlobalBuffer((__gm__ float*)ws + static_cast<uint64_t>(block_) * RING * M * N);
        if ASCEND_IS_AIC {
            pipe->InitBuffer(a1_, M * K * sizeof(half));
            pipe->InitBuffer(b1_, N * K * sizeof(half));
            pipe->InitBuffer(a2_, M * K * sizeof(half));
            pipe->InitBuffer(b2_, N * K * sizeof(half));
            pipe->InitBuffer(c_, M * N * sizeof(float));
        }
        if ASCEND_IS_AIV { pipe->InitBuffer(x_, HALF_ROWS * N * sizeof(float)); }
        for (uint32_t it = 0; it < t.tiles; ++it) {
            const uint32_t tile = block_ * t.tiles + it, slot = it % RING;
            const bool full = fault_ != FULL_FORGOTTEN,
                       free = fault_ != FREE_FORGOTTEN && fault_ != COUNTER_OVERFLOW;
            const bool oneId = fault_ == COUNTER_OVERFLOW || fault_ == FULL_FROM_TWO_PIPES || fault_ == FULL_FROM_PIPES_IN_ORDER;
            const uint16_t fullId = fault_ == FULL_ID_12 ? 12 : oneId ? FULL : FULL + slot;
            if ASCEND_IS_AIC {
                if (free && it >= RING) { CrossCoreWaitFlag(FREE + slot); }
                Cube(tile, slot);
                if (full && fault_ != FULL_NEVER_SET) {
                    if (fault_ == FULL_FROM_PIPE_MTE1) {
                        CrossCoreSetFlag<0x2, PIPE_MTE1>(fullId);
                    } else if (fault_ == FULL_FROM_TWO_PIPES && it % 2 == 1) {
                        CrossCoreSetFlag<0x2, PIPE_MTE2>(fullId);
                    } else if (fault_ == FULL_FROM_PIPES_IN_ORDER && it % 2 == 1) {
                        PipeBarrier<PIPE_ALL>();  // sets of two pipes, but never two on their way
                        CrossCoreSetFlag<0x2, PIPE_MTE2>(fullId);
                        PipeBarrier<PIPE_ALL>();
                    } else {
                        CrossCoreSetFlag<0x2, PIPE_FIX>(fullId);
                    }
                }
            }
            if ASCEND_IS_AIV {
                if (full) { CrossCoreWaitFlag(fullId); }
                Epilogue(tile, slot);
                if (fault_ == MODE_MIXED) { CrossCoreSetFlag<0x1, PIPE_MTE2>(FULL + slot); }
                if (free && (fault_ != FREE_FROM_ONE_CORE || GetSubBlockIdx() == 0)) {
                    CrossCoreSetFlag<0x2, PIPE_MTE2>(FREE + slot);
                }
                if (fault_ == MODE_MIXED) { CrossCoreWaitFlag(FULL + slot); }
            }
        }
        if ASCEND_IS_AIC {
            const bool drain =
                fault_ != FREE_FORGOTTEN && fault_ != DRAIN_FORGOTTEN && fault_ != COUNTER_OVERFLOW;
            for (uint32_t it = t.tiles > RING ? t.tiles - RING : 0; drain && it < t.tiles; ++it) {
                CrossCoreWaitFlag(FREE + it % RING);
            }
        }
        if ASCEND_IS_AIV { Neighbour(t.tiles); }
    }

private:
    template <HardEvent EVENT>
    __aicore__ inline void Edge(Fault forgotten)
    {
        if (fault_ != forgotten) {
            const event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(EVENT));
            SetFlag<EVENT>(id);
            WaitFlag<EVENT>(id);
        }
    }

    __aicore__ inline void Cube(uint32_t tile, uint32_t slot)
    {
        LocalTensor<half> a1 = a1_.Get<half>(), b1 = b1_.Get<half>(), a2 = a2_.Get<half>(),
                          b2 = b2_.Get<half>();
        LocalTensor<float> c = c_.Get<float>();
        Nd2NzParams load(1, M, K, 0, K, M, 1, 0);
        if (fault_ == ND2NZ_STRIDE_70000) { load.srcDValue = K + (1 << 16); }
        if (fault_ == ND2NZ_C0_STRIDE_0) { load.dstNzC0Stride = 0; }
        DataCopy(a1, aGm_[static_cast<uint64_t>(tile) * M * K], load);
        DataCopy(b1, bGm_, Nd2NzParams(1, N, K, 0, K, N, 1, 0));
        Edge<HardEvent::MTE2_MTE1>(MISSING_MTE2_MTE1);
        LoadData2DParams la;
        la.repeatTimes = fault_ == K_NOT_FILLED ? 1 : K / 16;
        la.srcStride = M / 16;
        for (uint32_t i = 0; i < M / 16; ++i) {   // Nz -> Zz
            LoadData(a2[i * 16 * K], a1[i * 256], la);
        }
        LoadData2DParams lb;
        lb.repeatTimes = K / 16 * (N / 16);
        lb.srcStride = 1;
        LoadData(b2, b1, lb);   // b is stored [n, k]: Nz already is Zn
        if (fault_ == TRANSPOSE_OF_FLOAT) {
            lb.ifTranspose = true;
            lb.repeatTimes = 1;
            PipeBarrier<PIPE_MTE1>();
            LoadData(b2.ReinterpretCast<float>(), b1.ReinterpretCast<float>(), lb);
        } else if (fault_ == FILL_TOO_LARGE) {
            PipeBarrier<PIPE_MTE1>();
            InitConstValue(b2, InitConstValueParams<half>(40000, 0, 0, static_cast<half>(0)));
        } else if (fault_ == LOAD3D_WINDOW) {
            LoadData3DParamsV2<half> image;
            image.l1H = 1;
            image.l1W = M;
            image.channelSize = image.kExtension = K;
            image.mExtension = M + 16;
            PipeBarrier<PIPE_MTE1>();
            LoadData(a2, a1, image);
        } else if (fault_ == COPY_L1_TO_L0) {
            PipeBarrier<PIPE_MTE1>();
            DataCopy(a2, a1, 256);
        } else if (fault_ == VECTOR_CALL_ON_CUBE) {
            Duplicate(a1, static_cast<half>(0), 16);
        }
        Edge<HardEvent::MTE1_MTE2>(MISSING_MTE1_MTE2);
        Edge<HardEvent::MTE1_M>(MISSING_MTE1_M);
        MmadParams mm;
        mm.m = fault_ == L0A_OVERFLOW ? 2048 : M;
        mm.n = N;
        mm.k = fault_ == MMAD_K_5000 ? 5000 : K;
        if (fault_ == OPERANDS_SWAPPED) {
            Mmad(c, b2, a2, mm);
        } else {
            Mmad(c, a2, b2, mm);
        }
        if (fault_ == MISSING_M_BARRIER) {
            mm.cmatrixInitVal = false;
            Mmad(c, a2, b2, mm);
        }
        Edge<HardEvent::M_MTE1>(MISSING_M_MTE1);
        Edge<HardEvent::M_FIX>(MISSING_M_FIX);
        if (fault_ == SCALAR_EVENT_ON_CUBE) {
            SetFlag<HardEvent::M_S>(0);
            WaitFlag<HardEvent::M_S>(0);
        }
        FixpipeParamsV220 f(fault_ == FIXPIPE_N_30 ? 30 : N, M, M, N, false);
        f.quantPre = fault_ == FIXPIPE_QUANT ? QuantMode_t::F322F16 : QuantMode_t::NoQuant;
        Fixpipe<float, float, CFG_ROW_MAJOR>(wsGm_[slot * M * N], c, f);
        Edge<HardEvent::FIX_M>(MISSING_FIX_M);
    }

    __aicore__ inline void Epilogue(uint32_t tile, uint32_t slot)
    {
        LocalTensor<float> x = x_.Get<float>();
        const uint32_t row = GetSubBlockIdx() * HALF_ROWS, n = HALF_ROWS * N;
        DataCopy(x, wsGm_[(slot * M + row) * N], n);
        Edge<HardEvent::MTE2_V>(FAULT_COUNT);
        Relu(x, x, static_cast<int32_t>(n));
        Edge<HardEvent::V_MTE3>(FAULT_COUNT);
        const uint64_t to = (static_cast<uint64_t>(tile) * M + row) * N;
        DataCopy(yGm_[fault_ == HALVES_OVERLAP && row != 0 ? to - N : to], x, n);
        Edge<HardEvent::MTE3_MTE2>(FAULT_COUNT);
    }

    // z of this core = y of the next vector core, first tile.
    __aicore__ inline void Neighbour(uint32_t tiles)
    {
        const uint32_t cores = GetBlockNum() * GetSubBlockNum(), me = GetBlockIdx(), next = (me + 1) % cores;
        if (fault_ != SYNC_ALL_FORGOTTEN && (fault_ != SYNC_ALL_SKIPPED_BY_ONE || me != 1)) {
            SyncAll<true>();
        }
        LocalTensor<float> x = x_.Get<float>();
        const uint32_t n = HALF_ROWS * N;
        DataCopy(x, yGm_[static_cast<uint64_t>(next / 2 * tiles * 2 + next % 2) * n], n);
        Edge<HardEvent::MTE2_MTE3>(FAULT_COUNT);
        DataCopy(zGm_[static_cast<uint64_t>(me) * n], x, n);
        PipeBarrier<PIPE_ALL>();
    }

    TBuf<TPosition::A1> a1_;
    TBuf<TPosition::B1> b1_;
    TBuf<TPosition::A2> a2_;
    TBuf<TPosition::B2> b2_;
    TBuf<TPosition::CO1> c_;
    TBuf<TPosition::VECCALC> x_;
    GlobalTensor<half> aGm_, bGm_;
    GlobalTensor<float> yGm_, zGm_, wsGm_;
    uint32_t fault_ = 0, block_ = 0;
};

extern "C" __global__ __aicore__ void mix_faults(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR z, GM_ADDR ws,
                                                 MixTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    MixKernel kernel;
    kernel.Run(a, b, y, z, ws, t, &pipe);
}
