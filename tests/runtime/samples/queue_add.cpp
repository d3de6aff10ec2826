// SPDX-License-Identifier: Apache-2.0
// A kernel with queues in the style of CANN 8: z = x + y on several cores, tiles of 256, a tail by DataCopyPad.
#include "kernel_operator.h"

using namespace AscendC;

class QueueAdd {
public:
    __aicore__ inline QueueAdd() {}
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total)
    {
        const uint32_t perCore = (total + GetBlockNum() - 1) / GetBlockNum();
        const uint32_t start = perCore * GetBlockIdx();
        length_ = start >= total ? 0 : (total - start < perCore ? total - start : perCore);
        xGm_.SetGlobalBuffer((__gm__ half*)x + start, length_);
        yGm_.SetGlobalBuffer((__gm__ half*)y + start, length_);
        zGm_.SetGlobalBuffer((__gm__ half*)z + start, length_);
        pipe_.InitBuffer(xQueue_, 2, TILE * sizeof(half));
        pipe_.InitBuffer(yQueue_, 2, TILE * sizeof(half));
        pipe_.InitBuffer(zQueue_, 2, TILE * sizeof(half));
    }
    __aicore__ inline void Process()
    {
        for (uint32_t at = 0; at < length_; at += TILE) {
            const uint32_t n = length_ - at < TILE ? length_ - at : TILE;
            CopyIn(at, n);
            Compute(n);
            CopyOut(at, n);
        }
    }

private:
    static constexpr uint32_t TILE = 256;

    __aicore__ inline void CopyIn(uint32_t at, uint32_t n)
    {
        LocalTensor<half> x = xQueue_.AllocTensor<half>();
        LocalTensor<half> y = yQueue_.AllocTensor<half>();
        DataCopyExtParams params{1, static_cast<uint32_t>(n * sizeof(half)), 0, 0, 0};
        DataCopyPadExtParams<half> pad{false, 0, 0, 0};
        DataCopyPad(x, xGm_[at], params, pad);
        DataCopyPad(y, yGm_[at], params, pad);
        xQueue_.EnQue(x);
        yQueue_.EnQue(y);
    }
    __aicore__ inline void Compute(uint32_t n)
    {
        LocalTensor<half> x = xQueue_.DeQue<half>();
        LocalTensor<half> y = yQueue_.DeQue<half>();
        LocalTensor<half> z = zQueue_.AllocTensor<half>();
        Add(z, x, y, n);
        zQueue_.EnQue<half>(z);
        xQueue_.FreeTensor(x);
        yQueue_.FreeTensor(y);
    }
    __aicore__ inline void CopyOut(uint32_t at, uint32_t n)
    {
        LocalTensor<half> z = zQueue_.DeQue<half>();
        DataCopyPad(zGm_[at], z, DataCopyExtParams{1, static_cast<uint32_t>(n * sizeof(half)), 0, 0, 0});
        zQueue_.FreeTensor(z);
    }

    TPipe pipe_;
    TQue<QuePosition::VECIN, 2> xQueue_, yQueue_;
    TQue<QuePosition::VECOUT, 2> zQueue_;
    GlobalTensor<half> xGm_, yGm_, zGm_;
    uint32_t length_ = 0;
};

extern "C" __global__ __aicore__ void queue_add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    QueueAdd op;
    op.Init(x, y, z, total);
    op.Process();
}
