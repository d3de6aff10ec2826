// SPDX-License-Identifier: Apache-2.0
// A vector kernel, y = 2 * (x + 1) on rows, that contains every mistake of the enum below and makes the one
// it is told.
#include "gaf_vector.h"

using namespace AscendC;

// The Python test reads the names from here; NONE is the correct kernel.
enum Fault : uint32_t {
    NONE = 0,
    // order inside a core
    MISSING_BARRIER,
    MISSING_MTE2_V,
    MISSING_V_MTE3,
    MISSING_V_MTE2,
    MISSING_MTE3_MTE2,
    GET_VALUE_TOO_EARLY,
    SET_VALUE_THEN_VECTOR,
    FLAG_NEVER_WAITED,
    FLAG_NEVER_SET,
    FLAG_SET_TWICE,
    EVENT_ID_7,
    EVENT_OF_CUBE_CORE,
    // bounds, alignment, initialisation
    STORE_PAST_END,
    LOAD_PAST_END,
    UNALIGNED_OPERAND,
    COUNT_TOO_LARGE,
    UNINITIALISED_TAIL,
    UNINITIALISED_TBUF,
    WORKSPACE_NOT_WRITTEN,
    OUTPUT_ROW_NOT_WRITTEN,
    OUTPUT_WRITTEN_TWICE,
    WRITE_TO_INPUT,
    GM_VIEW_TOO_SMALL,
    ADDRESS_OF_NOBODY,
    SUB_TENSOR_PAST_END,
    TENSOR_SIZE_STRETCHED,
    TBUF_PART_TOO_LARGE,
    TABLE_INDEX_TOO_LARGE,
    // queues and buffers
    DOUBLE_FREE,
    USE_AFTER_FREE,
    USE_BEFORE_DEQUE,
    ENQUE_FORGOTTEN,
    FREE_FORGOTTEN,
    ALLOC_WITHOUT_FREE,
    FOREIGN_TENSOR,
    UB_OVERFLOW,
    UB_TOP_USED,
    TOO_MANY_BUFFERS,
    TOO_MANY_TENSORS,
    ENQUE_TWICE,
    ENQUE_BEYOND_DEPTH,
    BUFFER_NOT_INITIALISED,
    BUFFER_OF_CUBE_CORE,
    SECOND_TPIPE,
    // rules of calls
    COMPARE_TAIL,
    REPEAT_256,
    REPEAT_STRIDE_256,
    MASK_TOO_WIDE,
    SECOND_MASK_WORD,
    OPERANDS_OVERLAP,
    ROWS_OVERLAP,
    ACCUMULATOR_FIRST,
    TANH_IN_PLACE,
    SELECT_NEEDS_RESERVED_UB,
    COPY_COUNT,
    PADDING_TOO_LONG,
    CAST_MODE,
    ATOMIC_LEFT_ON,
    CROSS_FLAG_IN_VECTOR_KERNEL,
    GATHER_OFFSET,
    MASK_MODE_LEFT,
    BLOCK_COUNT_5000,
    REDUCE_REPEAT_300,
    DST_BLOCK_STRIDE_0,
    GM_SET_VALUE_NOT_CLEANED,
    COMPARE_INT_LT,
    SELECT_MODE,
    TMP_TOO_SMALL,
    GATHER_PATTERN_9,
    TRAP,
    FAULT_COUNT
};

struct FaultTiling {
    uint32_t fault, rows, lanes;   // rows of every core; elements of a row (its pitch in GM)
};

class FaultKernel {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR ws, const FaultTiling& t, TPipe* pipe)
    {
        fault_ = t.fault;
        lanes_ = t.lanes;
        rows_ = t.rows;
        const uint64_t elements = static_cast<uint64_t>(GetBlockNum()) * rows_ * lanes_;
        const uint64_t start = static_cast<uint64_t>(GetBlockIdx()) * rows_ * lanes_;
        xGm_.SetGlobalBuffer((__gm__ float*)x, fault_ == GM_VIEW_TOO_SMALL ? elements - 1 : elements);
        yGm_.SetGlobalBuffer((__gm__ float*)y, elements);
        wsGm_.SetGlobalBuffer((__gm__ float*)ws + start, static_cast<uint64_t>(rows_) * lanes_);
        pitch_ = (lanes_ + 7) / 8 * 8;
        pipe->InitBuffer(in_, 2, pitch_ * sizeof(float));
        pipe->InitBuffer(out_, 2, pitch_ * sizeof(float));
        pipe->InitBuffer(work_, 4096);
        pipe->InitBuffer(more_, 4096);
        if (fault_ == UB_OVERFLOW) { pipe->InitBuffer(big_, 192 * 1024); }
        if (fault_ == UB_TOP_USED) { pipe->InitBuffer(big_, 192 * 1024 - 8192 - 4 * pitch_ * sizeof(float)); }
        if (fault_ == SELECT_NEEDS_RESERVED_UB) { pipe->InitBuffer(big_, 176 * 1024); }
        if (fault_ == TOO_MANY_BUFFERS) { pipe->InitBuffer(many_, 60, 32); }
        if (fault_ == TOO_MANY_TENSORS) { pipe->InitBuffer(many_, 9, 32); }
        if (fault_ == ENQUE_BEYOND_DEPTH) { pipe->InitBuffer(many_, 2, 32); }
        if (fault_ == BUFFER_OF_CUBE_CORE) { pipe->InitBuffer(a1_, 512); }
        if (fault_ == SECOND_TPIPE) { TPipe second; }
        for (uint32_t r = 0; r < rows_; ++r) {
            if (fault_ == OUTPUT_ROW_NOT_WRITTEN && r == 1 && GetBlockIdx() == 1) { continue; }
            Row(start + static_cast<uint64_t>(r) * lanes_,
                r + 1 == rows_ && GetBlockIdx() + 1 == GetBlockNum());
        }
        Extras();
    }

private:
    __aicore__ inline void Row(uint64_t at, bool last)
    {
        GAF_AT("model/input");
        LocalTensor<float> x = in_.AllocTensor<float>();
        const uint32_t bytes = lanes_ * sizeof(float);
        const uint64_t from = fault_ == LOAD_PAST_END && last ? at + 4 : at;
        DataCopyPadExtParams<float> pad{true, 0, static_cast<uint8_t>(pitch_ - lanes_), 0.0f};
        if (fault_ == PADDING_TOO_LONG) { pad.leftPadding = 9; }
        if (fault_ == COPY_COUNT) {
            DataCopy(x, xGm_[from], lanes_);
        } else {
            DataCopyPad(x, xGm_[from], DataCopyExtParams{1, bytes, 0, 0, 0}, pad);
        }
        if (fault_ != ENQUE_FORGOTTEN) { in_.EnQue(x); }
        if (fault_ == ENQUE_TWICE) { in_.EnQue(x); }
        if (fault_ == USE_BEFORE_DEQUE) { Adds(x, x, 0.0f, lanes_); PipeBarrier<PIPE_V>(); }
        x = in_.DeQue<float>();
        LocalTensor<float> y = out_.AllocTensor<float>();
        if (fault_ == ALLOC_WITHOUT_FREE) { out_.AllocTensor<float>(); }
        GAF_AT("model/double");
        Compute(y, x);
        GAF_AT("model/output");
        out_.EnQue(y);
        if (fault_ == USE_AFTER_FREE) {
            in_.FreeTensor(x);
            Adds(x, x, 1.0f, lanes_);
        } else if (fault_ == FOREIGN_TENSOR) {
            out_.FreeTensor(x);
        } else if (fault_ != FREE_FORGOTTEN || !last) {
            in_.FreeTensor(x);
        }
        if (fault_ == DOUBLE_FREE) { in_.FreeTensor(x); }
        y = out_.DeQue<float>();
        uint64_t to = at;
        if (fault_ == STORE_PAST_END && last) { to += 1; }
        if (fault_ == OUTPUT_WRITTEN_TWICE && at >= lanes_) { to -= 1; }
        DataCopyPad(fault_ == WRITE_TO_INPUT ? xGm_[to] : yGm_[to], y, DataCopyExtParams{1, bytes, 0, 0, 0});
        if (fault_ == WRITE_TO_INPUT) { DataCopyPad(yGm_[to], y, DataCopyExtParams{1, bytes, 0, 0, 0}); }
        out_.FreeTensor(y);
    }

    // y = 2 * (x + 1) on pitch_ elements.
    __aicore__ inline void Compute(const LocalTensor<float>& y, const LocalTensor<float>& x)
    {
        const int32_t n = static_cast<int32_t>(fault_ == COUNT_TOO_LARGE ? pitch_ + 8 : pitch_);
        if (fault_ == UNALIGNED_OPERAND) {
            Adds(y, x, 1.0f, n);
            PipeBarrier<PIPE_V>();
            Adds(y[1], x[1], 1.0f, n - 1);
        } else if (fault_ == OPERANDS_OVERLAP) {
            Adds(x[8], x, 1.0f, n - 8);
            PipeBarrier<PIPE_V>();
            Adds(y, x, 1.0f, n);
        } else if (fault_ == REPEAT_256) {
            Adds(y, x, 1.0f, static_cast<uint64_t>(8), rows_ * 64, UnaryRepeatParams{1, 1, 0, 0});
            PipeBarrier<PIPE_V>();
            Adds(y, x, 1.0f, n);
        } else if (fault_ == REPEAT_STRIDE_256) {
            Adds(y, x, 1.0f, static_cast<uint64_t>(8), 1, UnaryRepeatParams(1, 1, rows_ * 64, 8));
            PipeBarrier<PIPE_V>();
            Adds(y, x, 1.0f, n);
        } else if (fault_ == MASK_TOO_WIDE) {
            Adds(y, x, 1.0f, static_cast<uint64_t>(65), 1, UnaryRepeatParams{1, 1, 8, 8});
            PipeBarrier<PIPE_V>();
            Adds(y, x, 1.0f, n);
        } else if (fault_ == SECOND_MASK_WORD) {
            uint64_t mask[2] = {~0ull, 1};
            Adds(y, x, 1.0f, mask, 1, UnaryRepeatParams{1, 1, 8, 8});
            PipeBarrier<PIPE_V>();
            Adds(y, x, 1.0f, n);
        } else {
            Adds(y, x, 1.0f, n);
        }
        if (fault_ != MISSING_BARRIER) { PipeBarrier<PIPE_V>(); }
        if (fault_ == UNINITIALISED_TAIL) {
            LocalTensor<float> w = work_.Get<float>();
            Adds(w, y, 0.0f, 8);
            PipeBarrier<PIPE_V>();
            Add(w, w, y, 16);
            PipeBarrier<PIPE_V>();
        }
        Muls(y, y, 2.0f, static_cast<int32_t>(pitch_));
    }

    // Faults around raw buffers, after the rows are done.
    __aicore__ inline void Extras()
    {
        LocalTensor<float> w = work_.Get<float>(), v = more_.Get<float>();
        switch (fault_) {
            case MISSING_MTE2_V:
                DataCopy(w, xGm_, 64);
                Adds(v, w, 1.0f, 64);
                break;
            case MISSING_V_MTE3:
                Duplicate(w, 1.0f, 64);
                DataCopy(wsGm_, w, 64);
                break;
            case MISSING_V_MTE2:
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                Adds(v, w, 1.0f, 64);
                DataCopy(w, xGm_, 64);
                break;
            case MISSING_MTE3_MTE2:
                Duplicate(w, 1.0f, 64);
                Edge<HardEvent::V_MTE3>();
                DataCopy(wsGm_, w, 64);
                DataCopy(v, wsGm_, 64);
                break;
            case GET_VALUE_TOO_EARLY:
                Duplicate(w, 1.0f, 64);
                sum_ += w.GetValue(0);
                break;
            case SET_VALUE_THEN_VECTOR:
                w.SetValue(0, 1.0f);
                Adds(v, w, 1.0f, 1);
                break;
            case FLAG_NEVER_WAITED: SetFlag<HardEvent::V_MTE3>(2); break;
            case FLAG_NEVER_SET: WaitFlag<HardEvent::V_MTE3>(2); break;
            case FLAG_SET_TWICE:
                SetFlag<HardEvent::V_MTE3>(2);
                SetFlag<HardEvent::V_MTE3>(2);
                WaitFlag<HardEvent::V_MTE3>(2);
                break;
            case EVENT_ID_7:
                SetFlag<HardEvent::V_MTE3>(7);
                WaitFlag<HardEvent::V_MTE3>(7);
                break;
            case EVENT_OF_CUBE_CORE:
                SetFlag<HardEvent::M_FIX>(0);
                WaitFlag<HardEvent::M_FIX>(0);
                break;
            case ADDRESS_OF_NOBODY: {
                float local[16];
                GlobalTensor<float> stray;
                stray.SetGlobalBuffer(local, 16);
                DataCopy(w, stray, 16);
                break;
            }
            case SUB_TENSOR_PAST_END: Duplicate(w[1025], 1.0f, 8); break;
            case TENSOR_SIZE_STRETCHED:
                w.SetSize(1100);
                Duplicate(w, 1.0f, 1100);
                break;
            case TBUF_PART_TOO_LARGE: Duplicate(work_.Get<float>(1100), 1.0f, 8); break;
            case TABLE_INDEX_TOO_LARGE: {   // row 1 of x, as an integer, is far beyond a table of 1 row
                GlobalTensor<int32_t> ids;
                ids.SetGlobalBuffer((__gm__ int32_t*)xGm_[lanes_].GetPhyAddr(), 1);
                gaf::GatherTile(w, xGm_, ids, 1, 8, 1, lanes_, 1);
                break;
            }
            case ENQUE_BEYOND_DEPTH:
                for (int i = 0; i < 2; ++i) {
                    LocalTensor<float> t = many_.AllocTensor<float>();
                    many_.EnQue(t);
                }
                break;
            case BUFFER_NOT_INITIALISED: Duplicate(big_.Get<float>(), 1.0f, 8); break;
            case COMPARE_INT_LT:
                Duplicate(v, 1.0f, 128);
                PipeBarrier<PIPE_V>();
                Compare(w.ReinterpretCast<uint8_t>(), v.ReinterpretCast<int32_t>(),
                        v[64].ReinterpretCast<int32_t>(), CMPMODE::LT, 64);
                break;
            case SELECT_MODE:
                Duplicate(v, 1.0f, 64);
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                Select(v, w.ReinterpretCast<uint8_t>(), v, 0.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
                break;
            case TMP_TOO_SMALL:
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                Erf(v, w, w[64].ReinterpretCast<uint8_t>()[0], 64);
                Erf(v, w, more_.GetWithOffset<uint8_t>(512, 2048), 64);
                break;
            case GATHER_PATTERN_9: {
                uint64_t kept = 0;
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                GatherMask(v, w, 9, false, 0, GatherMaskParams{1, 1, 8, 0}, kept);
                break;
            }
            case TRAP: Trap(); break;
            case UNINITIALISED_TBUF: Adds(v, w, 1.0f, 8); break;
            case WORKSPACE_NOT_WRITTEN: DataCopy(w, wsGm_, 64); break;
            case TOO_MANY_TENSORS:
                for (int i = 0; i < 9; ++i) {
                    LocalTensor<float> t = many_.AllocTensor<float>();
                    many_.FreeTensor(t);
                }
                break;
            case COMPARE_TAIL:
                Duplicate(v, 1.0f, 128);
                PipeBarrier<PIPE_V>();
                CompareScalar(w.ReinterpretCast<uint8_t>(), v, 0.0f, CMPMODE::GT, 100);
                break;
            case TANH_IN_PLACE:
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                Tanh(w, w, v.ReinterpretCast<uint8_t>(), 64);
                break;
            case SELECT_NEEDS_RESERVED_UB:
                Duplicate(v, 1.0f, 128);
                PipeBarrier<PIPE_V>();
                CompareScalar(w.ReinterpretCast<uint8_t>(), v, 0.0f, CMPMODE::GT, 64);
                PipeBarrier<PIPE_V>();
                Select(v, w.ReinterpretCast<uint8_t>(), v, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
                break;
            case CAST_MODE:
                Duplicate(w, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                Cast(v.ReinterpretCast<int32_t>(), w, RoundMode::CAST_NONE, 64);
                break;
            case ATOMIC_LEFT_ON: SetAtomicAdd<float>(); break;
            case CROSS_FLAG_IN_VECTOR_KERNEL: CrossCoreSetFlag<0, PIPE_MTE3>(1); break;
            case ROWS_OVERLAP:
                Duplicate(w, 1.0f, 256);
                PipeBarrier<PIPE_V>();
                Adds(w[8], w, 1.0f, static_cast<uint64_t>(64), 2, UnaryRepeatParams{1, 1, 16, 16});
                break;
            case ACCUMULATOR_FIRST:
            case NONE:   // allowed with the accumulator as second source
                Duplicate(w, 1.0f, 128);
                Duplicate(v, 1.0f, 64);
                PipeBarrier<PIPE_V>();
                if (fault_ == NONE) {
                    Add(v, w, v, static_cast<uint64_t>(64), 2, BinaryRepeatParams{1, 1, 1, 0, 8, 0});
                } else {
                    Add(v, v, w, static_cast<uint64_t>(64), 2, BinaryRepeatParams{1, 1, 1, 0, 0, 8});
                }
                break;
            case GATHER_OFFSET: {
                LocalTensor<int32_t> offset = w.ReinterpretCast<int32_t>();
                Duplicate(v, 1.0f, 64);
                CreateVecIndex(offset, 0, 8);
                PipeBarrier<PIPE_V>();
                Gather(v[512], v, offset.ReinterpretCast<uint32_t>(), 0, 8);
                break;
            }
            case MASK_MODE_LEFT: SetMaskCount(); break;
            case BLOCK_COUNT_5000: DataCopyPad(wsGm_, w, DataCopyExtParams{5000, 0, 0, 0, 0}); break;
            case REDUCE_REPEAT_300: WholeReduceSum(v, w, 64, 300, 1, 1, 8); break;
            case DST_BLOCK_STRIDE_0:
                Duplicate(w, 1.0f, static_cast<uint64_t>(64), 1, 0, 8);
                break;
            case GM_SET_VALUE_NOT_CLEANED: wsGm_.SetValue(0, 1.0f); break;
            default: break;
        }
    }

    template <HardEvent EVENT>
    __aicore__ inline void Edge()
    {
        SetFlag<EVENT>(0);
        WaitFlag<EVENT>(0);
    }

    TQue<QuePosition::VECIN, 2> in_;
    TQue<QuePosition::VECOUT, 2> out_;
    TQue<QuePosition::VECIN, 1> many_;
    TBuf<QuePosition::VECCALC> work_, more_, big_;
    TBuf<QuePosition::A1> a1_;
    GlobalTensor<float> xGm_, yGm_, wsGm_;
    uint32_t fault_ = 0, rows_ = 0, lanes_ = 0, pitch_ = 0;
    float sum_ = 0;
};

extern "C" __global__ __aicore__ void vector_faults(GM_ADDR x, GM_ADDR y, GM_ADDR ws, FaultTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    FaultKernel kernel;
    kernel.Run(x, y, ws, t, &pipe);
}
