// SPDX-License-Identifier: Apache-2.0
// Buffer pools inside a TPipe: TBufPool, pools of a program's own class, the stack behind the last buffer.
#ifndef GAF_TWIN_POOL_H
#define GAF_TWIN_POOL_H

#include "twin/static.h"

namespace AscendC {

// A piece of a memory with buffers of its own; several pools may share one piece, one after the other.
template <TPosition POS, uint32_t BUFFERS = 4>
class TBufPoolBase {
public:
    static constexpr TPosition POSITION = POS;

    void Init()
    {
        used_ = count_ = 0;
    }
    void Place(uint32_t address, uint32_t len)
    {
        address_ = address;
        len_ = len;
        Init();
    }
    uint32_t Address() const { return address_; }
    uint32_t Length() const { return len_; }
    // Gives the pool's buffers back.
    void Reset()
    {
        for (uint32_t i = 0; i < count_ && i < BUFFERS; ++i) {
            gaf_twin::Buffer& b = records_[i];
            if (b.freeId != INVALID_TEVENTID) {
                gaf_twin::check::waitFlag(b.freeEvent, b.freeId, true);
                gaf_twin::ReleaseEvent(b.freeEvent, b.freeId);
                b.freeId = INVALID_TEVENTID;
            }
        }
        uint8_t* base = gaf_twin::Current().arena[static_cast<uint32_t>(gaf_twin::HardwareOf(POS))];
        gaf_twin::check::bufferDrop(base + address_, used_);
        Init();
    }

    // What InitBuffer of a program's own pool is made of.
    TBufHandle GetBufHandle(uint32_t index) { return &records_[index < BUFFERS ? index : BUFFERS - 1]; }
    uint32_t GetCurAddr() const { return address_ + used_; }
    void SetCurAddr(uint32_t address)
    {
        used_ = address - address_;
        gaf_twin::check::rule(used_ <= len_, "memory-overflow", "SetCurAddr", "%u bytes of a pool of %u", used_, len_);
    }
    uint32_t GetCurBufSize() const { return count_; }
    void SetCurBufSize(uint32_t count)
    {
        count_ = count;
        gaf_twin::check::rule(count <= BUFFERS, "buffer-number", "SetCurBufSize", "%u buffers of a pool for %u",
                              count, BUFFERS);
    }

protected:
    bool Take(const char* api, uint32_t num, uint32_t bytes)
    {
        const bool fits = uint64_t(used_) + uint64_t(num) * bytes <= len_ && count_ + num <= BUFFERS;
        gaf_twin::check::rule(fits, "memory-overflow", api,
                              "%u buffers of %u bytes after %u bytes and %u buffers of a pool of %u bytes and %u buffers",
                              num, bytes, used_, count_, len_, BUFFERS);
        if (!fits) {
            gaf_twin::Abandon("memory-overflow", "a buffer pool is too small for its buffers");
        }
        return fits;
    }

    gaf_twin::Buffer records_[BUFFERS];
    uint32_t address_ = 0, len_ = 0, used_ = 0, count_ = 0;
};

template <TPosition POS, uint32_t BUFFERS = 4>
class TBufPool : public TBufPoolBase<POS, BUFFERS> {
public:
    template <class Q>
    bool InitBuffer(Q& que, uint8_t num, uint32_t len)
    {
        static_assert(Q::isTQue, "InitBuffer(queue, number, bytes): a TBuf takes no number");
        const uint32_t bytes = gaf_twin::RoundUp(len, 32);
        this->Take("InitBuffer", num, bytes);
        TBufHandle start = this->GetBufHandle(this->count_);
        que.InitStartBufHandle(start, num, bytes);
        for (uint32_t i = 0; i < num; ++i) {
            que.InitBufHandle(this, i, start, this->GetCurAddr() + i * bytes, bytes);
        }
        this->used_ += num * bytes;
        this->count_ += num;
        return true;
    }
    template <TPosition P>
    bool InitBuffer(TBuf<P>& buf, uint32_t len)
    {
        const uint32_t bytes = gaf_twin::RoundUp(len, 32);
        this->Take("InitBuffer", 1, bytes);
        TBufHandle start = this->GetBufHandle(this->count_);
        buf.InitStartBufHandle(start, 1, bytes);
        buf.InitBufHandle(this, 0, start, this->GetCurAddr(), bytes);
        this->used_ += bytes;
        ++this->count_;
        return true;
    }
    template <class POOL>
    bool InitBufPool(POOL& pool, uint32_t len)
    {
        const uint32_t bytes = gaf_twin::RoundUp(len, 32);
        this->Take("InitBufPool", 0, 0);
        gaf_twin::check::rule(uint64_t(this->used_) + bytes <= this->len_, "memory-overflow", "InitBufPool",
                              "%u bytes after %u of a pool of %u", bytes, this->used_, this->len_);
        pool.Place(this->GetCurAddr(), bytes);
        this->used_ += bytes;
        return true;
    }
    template <class POOL, class SHARED>
    bool InitBufPool(POOL& pool, uint32_t len, SHARED& shared)
    {
        gaf_twin::check::rule(len <= shared.Length(), "pool-share", "InitBufPool",
                              "%u bytes share a pool of %u bytes", len, shared.Length());
        pool.Place(shared.Address(), gaf_twin::RoundUp(len, 32));
        return true;
    }
};

// The part of UB that no buffer holds, as one tensor; valid until the next InitBuffer.
template <class T, TPosition POS = TPosition::LCM>
inline bool PopStackBuffer(LocalTensor<T>& tensor)
{
    gaf_twin::Core& c = gaf_twin::Current();
    constexpr Hardware memory = gaf_twin::HardwareOf(POS);
    uint8_t* base = c.arena[static_cast<uint32_t>(memory)] + c.used[static_cast<uint32_t>(memory)];
    const uint32_t bytes = gaf_twin::BytesOf(memory) - 256 - c.used[static_cast<uint32_t>(memory)];
    gaf_twin::check::bufferDrop(base, bytes);
    gaf_twin::check::bufferInit(base, bytes, POS, "stack");
    tensor = LocalTensor<T>(reinterpret_cast<T*>(base), static_cast<uint32_t>(bytes / sizeof(T)), POS, nullptr);
    return true;
}

}  // namespace AscendC

// Inside of a class: makes it a pool of BUFFERS buffers at position POS; InitBuffer is the class's own.
#define EXTERN_IMPL_BUFPOOL(NAME, POS, BUFFERS)                                                 \
private:                                                                                        \
    ::AscendC::TBufPoolBase<POS, BUFFERS> impl_;                                                \
                                                                                                \
public:                                                                                         \
    static constexpr ::AscendC::TPosition POSITION = POS;                                       \
    void Init() { impl_.Init(); }                                                               \
    void Reset() { impl_.Reset(); }                                                             \
    void Place(uint32_t address, uint32_t len) { impl_.Place(address, len); }                   \
    uint32_t Address() const { return impl_.Address(); }                                        \
    uint32_t Length() const { return impl_.Length(); }                                          \
    ::AscendC::TBufHandle GetBufHandle(uint32_t index) { return impl_.GetBufHandle(index); }    \
    uint32_t GetCurAddr() const { return impl_.GetCurAddr(); }                                  \
    void SetCurAddr(uint32_t address) { impl_.SetCurAddr(address); }                            \
    uint32_t GetCurBufSize() const { return impl_.GetCurBufSize(); }                            \
    void SetCurBufSize(uint32_t count) { impl_.SetCurBufSize(count); }

#endif  // GAF_TWIN_POOL_H
