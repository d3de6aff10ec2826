// SPDX-License-Identifier: Apache-2.0
// Kernels without TPipe: tensors placed by address, allocators of on-chip memory.
#ifndef GAF_TWIN_STATIC_H
#define GAF_TWIN_STATIC_H

#include "twin/queue.h"

namespace gaf_twin {

// The bare names of the toolkit's system variables.
struct BlockIndexView {
    operator int64_t() const { return Current().block; }
};
struct BlockNumberView {
    operator int64_t() const { return Current().blockNum; }
};

constexpr TPosition DefaultPosition(Hardware h)
{
    return h == Hardware::UB       ? TPosition::VECCALC
           : h == Hardware::L1     ? TPosition::A1
           : h == Hardware::L0A    ? TPosition::A2
           : h == Hardware::L0B    ? TPosition::B2
           : h == Hardware::L0C    ? TPosition::CO1
           : h == Hardware::BIAS   ? TPosition::C2
           : h == Hardware::FIXBUF ? TPosition::C2PIPE2GM
                                   : TPosition::MAX;
}

}  // namespace gaf_twin

static const gaf_twin::BlockIndexView block_idx;
static const gaf_twin::BlockNumberView block_num;
inline int64_t get_block_idx() { return gaf_twin::Current().block; }
inline int64_t get_block_num() { return gaf_twin::Current().blockNum; }
inline int64_t get_subblockid() { return gaf_twin::Current().sub; }
inline int64_t get_subblockdim() { return gaf_twin::Current().subs; }

namespace AscendC {

// First call of a kernel that places its tensors itself: puts mask and atomic mode into their initial state.
inline void InitSocState()
{
    gaf_twin::Current().counterMode = false;
    ResetMask();
    SetAtomicNone();
    gaf_twin::check::staticTensors();
}

// Hands out one memory of the core from its start, 32-byte aligned.
template <Hardware HARD = Hardware::UB>
class LocalMemAllocator {
public:
    LocalMemAllocator() { gaf_twin::check::staticTensors(); }
    uint32_t GetCurAddr() const { return head_; }
    template <TPosition POS, class T, uint32_t COUNT>
    LocalTensor<T> Alloc()
    {
        return Alloc<POS, T>(COUNT);
    }
    template <TPosition POS, class T>
    LocalTensor<T> Alloc(uint32_t count)
    {
        static_assert(gaf_twin::HardwareOf(POS) == HARD, "LocalMemAllocator: the position lies in another memory");
        const uint32_t at = head_, bytes = gaf_twin::RoundUp(static_cast<uint32_t>(count * sizeof(T)), 32);
        const bool fits = uint64_t(at) + bytes <= gaf_twin::BytesOf(HARD);
        gaf_twin::check::rule(fits, "memory-overflow", "LocalMemAllocator::Alloc",
                              "%u bytes at byte %u exceed the %u bytes of the memory", bytes, at,
                              gaf_twin::BytesOf(HARD));
        if (!fits) {
            gaf_twin::Abandon("memory-overflow", "LocalMemAllocator::Alloc exceeds the memory");
        }
        head_ += bytes;
        return LocalTensor<T>(POS, at, count);
    }
    template <class T, uint32_t COUNT>
    LocalTensor<T> Alloc()
    {
        return Alloc<gaf_twin::DefaultPosition(HARD), T>(COUNT);
    }
    template <class T>
    LocalTensor<T> Alloc(uint32_t count)
    {
        return Alloc<gaf_twin::DefaultPosition(HARD), T>(count);
    }

private:
    uint32_t head_ = 0;
};

constexpr uint32_t GetUBSizeInBytes() { return gaf_twin::UB_BYTES - 256; }
inline uint32_t GetRuntimeUBSize() { return gaf_twin::UB_BYTES - 256; }
constexpr uint32_t GetVecLen() { return 256; }
inline void GetArchVersion(uint32_t& version) { version = 220; }
inline int64_t GetProgramCounter() { return 0; }
inline int64_t GetICachePreloadStatus() { return 0; }

}  // namespace AscendC

#endif  // GAF_TWIN_STATIC_H
