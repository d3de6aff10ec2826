// SPDX-License-Identifier: Apache-2.0
// TPipe, TQue, TBuf: buffers of a core, their queues and the events behind them, with the states of the
// toolkit.
#ifndef GAF_TWIN_QUEUE_H
#define GAF_TWIN_QUEUE_H

#include "twin/sync.h"

namespace gaf_twin {

using AscendC::Hardware;
using AscendC::TBufState;

// Source and destination of a TQue<position>; where its buffers lie; the events of its two directions.
constexpr TPosition QueueSource(TPosition p)
{
    switch (p) {
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::VECIN: return TPosition::GM;
        case TPosition::A2: return TPosition::A1;
        case TPosition::B2: return TPosition::B1;
        case TPosition::C2: return TPosition::C1;
        case TPosition::C2PIPE2GM: return TPosition::B1;
        case TPosition::CO1:
        case TPosition::CO2:
        case TPosition::VECOUT: return p;
        default: return TPosition::MAX;
    }
}
constexpr TPosition QueueTarget(TPosition p)
{
    switch (p) {
        case TPosition::CO1: return TPosition::CO2;
        case TPosition::CO2:
        case TPosition::VECOUT: return TPosition::GM;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::A2:
        case TPosition::B2:
        case TPosition::C2:
        case TPosition::VECIN:
        case TPosition::C2PIPE2GM: return p;
        default: return TPosition::MAX;
    }
}
constexpr TPosition BufferPosition(TPosition src, TPosition dst)
{
    return dst == TPosition::GM || dst == TPosition::CO2 ? src : dst;
}
constexpr HardEvent QueueEvent(Hardware src, Hardware dst, bool forward)
{
    using H = Hardware;
    using E = HardEvent;
    if (src == H::GM) {
        return dst == H::UB                     ? (forward ? E::MTE2_V : E::V_MTE2)
               : dst == H::L1                   ? (forward ? E::MTE2_MTE1 : E::MTE1_MTE2)
               : dst == H::L0A || dst == H::L0B ? (forward ? E::MTE2_M : E::M_MTE2)
                                                : E::MAX;
    }
    if (src == H::UB) {
        return dst == H::GM   ? (forward ? E::V_MTE3 : E::MTE3_V)
               : dst == H::L1 ? (forward ? E::MTE3_MTE1 : E::MTE1_MTE3)
               : dst == H::UB ? (forward ? E::MTE2_MTE3 : E::MTE3_MTE2)
                              : E::MAX;
    }
    if (src == H::L1) {
        return dst == H::L0A || dst == H::L0B || dst == H::BIAS ? (forward ? E::MTE1_M : E::M_MTE1)
               : dst == H::FIXBUF                               ? (forward ? E::MTE1_FIX : E::FIX_MTE1)
               : dst == H::UB                                   ? (forward ? E::MTE1_V : E::V_MTE1)
                                                                : E::MAX;
    }
    if (src == H::L0C) {
        return forward ? E::M_FIX : E::FIX_M;
    }
    return E::MAX;
}

// Ids of one event type: held from Alloc to Release. Returns -1 (reported) when all eight are held.
inline int8_t AllocEvent(HardEvent e, bool hold)
{
    Core& c = Current();
    const uint32_t i = static_cast<uint32_t>(e);
    for (int8_t id = 0; id < EVENT_IDS; ++id) {
        if ((c.eventBusy[i] >> id & 1) == 0) {
            c.eventBusy[i] = static_cast<uint8_t>(c.eventBusy[i] | (hold ? 1u << id : 0u));
            return id;
        }
    }
    check::rule(false, "event-ids", "AllocEventID",
                "all %d event ids of %s are in use (too many tensors not freed)", EVENT_IDS, EventName(e));
    return AscendC::INVALID_TEVENTID;
}
// The same for the program, which may then use this id although it belongs to TPipe.
inline int8_t GiveEvent(HardEvent e, bool hold)
{
    const int8_t id = AllocEvent(e, hold);
    check::giveEvent(e, id);
    return id;
}
inline void ReleaseEvent(HardEvent e, int8_t id)
{
    if (id >= 0 && id < EVENT_IDS) {
        uint8_t& busy = Current().eventBusy[static_cast<uint32_t>(e)];
        busy = static_cast<uint8_t>(busy & ~(1u << id));
    }
}

// A new buffer from the pool of `pos`; never null: what does not fit is reported and placed at the pool's
// start.
Buffer* NewBuffer(TPosition pos, uint32_t len, HardEvent freeEvent, const char* what, uint32_t index);

// A buffer of the vector core's memory, made on a cube core, gives no tensors.
inline void NeedsMemory(const Buffer* b, const char* api)
{
    if (b->base == nullptr) {
        check::rule(false, "wrong-position", api, "a cube core has no memory for position %s", PositionName(b->position));
        Abandon("wrong-position", "a cube core takes a tensor from a buffer of the vector core");
    }
}

// Makes `b` the buffer at byte `address` of the memory of `pos` (buffers of pools).
inline void PlaceBuffer(Buffer& b, TPosition pos, uint32_t address, uint32_t len, HardEvent freeEvent, const char* what)
{
    const Hardware memory = HardwareOf(pos);
    uint8_t* base = HasMemory(Current(), pos) ? Current().arena[static_cast<uint32_t>(memory)] : nullptr;
    const uint32_t bytes = RoundUp(len, 32);
    if (base == nullptr || uint64_t(address) + bytes > BytesOf(memory)) {
        check::rule(false, "memory-overflow", "InitBuffer", "%u bytes at byte %u of a pool", bytes, address);
        Abandon("memory-overflow", "a buffer of a pool lies outside of the core's memory");
    }
    b = Buffer();
    b.base = base + address;
    b.bytes = bytes;
    b.position = pos;
    b.freeEvent = freeEvent;
    check::bufferInit(b.base, bytes, pos, what);
}

}  // namespace gaf_twin

namespace AscendC {

template <TPosition SRC, TPosition DST, int32_t DEPTH, auto MASK = 0>
class TQueBind {
public:
    TQueBind() {}

    template <class T>
    LocalTensor<T> AllocTensor()
    {
        return TensorOf<T>(Alloc());
    }
    template <class T>
    void AllocTensor(LocalTensor<T>& tensor)
    {
        tensor = TensorOf<T>(Alloc());
    }
    TBufHandle AllocBuffer() { return Alloc(); }
    template <class T>
    void FreeTensor(LocalTensor<T>& tensor)
    {
        Free(tensor.GetBufferHandle());
    }
    void FreeBuffer(TBufHandle buffer) { Free(buffer); }
    TBuffAddr GetBufferAddr(TBufHandle buffer)
    {
        TBuffAddr address;
        address.dataLen = buffer->bytes;
        address.bufferHandle = buffer;
        address.logicPos = static_cast<uint8_t>(POSITION);
        address.absAddr = buffer->base;
        return address;
    }
    template <class T>
    bool EnQue(const LocalTensor<T>& tensor)
    {
        return Push(tensor.GetBufferHandle(), FORWARD);
    }
    bool EnQue(TBufHandle buffer) { return Push(buffer, FORWARD); }
    template <TPosition SRC_USER, TPosition DST_USER, class T>
    bool EnQue(const LocalTensor<T>& tensor)
    {
        return Push(tensor.GetBufferHandle(), gaf_twin::QueueEvent(gaf_twin::HardwareOf(SRC_USER),
                                                                   gaf_twin::HardwareOf(DST_USER), true));
    }
    template <class T>
    LocalTensor<T> DeQue()
    {
        return TensorOf<T>(Pop(FORWARD));
    }
    template <class T>
    void DeQue(LocalTensor<T>& tensor)
    {
        tensor = TensorOf<T>(Pop(FORWARD));
    }
    TBufHandle DeQue() { return Pop(FORWARD); }
    template <TPosition SRC_USER, TPosition DST_USER, class T>
    LocalTensor<T> DeQue()
    {
        return TensorOf<T>(
            Pop(gaf_twin::QueueEvent(gaf_twin::HardwareOf(SRC_USER), gaf_twin::HardwareOf(DST_USER), true)));
    }
    bool VacantInQue() { return used_ < CAPACITY; }
    bool HasTensorInQue() { return used_ > 0; }
    int32_t GetTensorCountInQue() { return static_cast<int32_t>(used_); }
    bool HasIdleBuffer() { return occupied_ < count_; }
    template <class T>
    TBufState GetState(const LocalTensor<T>& tensor) const
    {
        return tensor.GetBufferHandle() == nullptr ? TBufState::FREE : tensor.GetBufferHandle()->state;
    }
    void FreeAllEvent()
    {
        for (uint32_t i = 0; i < count_; ++i) {
            TakeBack(&first_[i]);
        }
    }

    // For pools: buffers `start`, start + 1, ... of the pool's records are this queue's.
    void InitStartBufHandle(TBufHandle start, uint8_t num, uint32_t)
    {
        first_ = start;
        count_ = num;
        cursor_ = occupied_ = used_ = head_ = 0;
    }
    template <class POOL>
    void InitBufHandle(POOL*, uint32_t index, TBufHandle start, uint32_t address, uint32_t len)
    {
        gaf_twin::PlaceBuffer(start[index], POSITION, address, len, BACKWARD, Name());
    }

    static constexpr bool isTQue = true;
    static constexpr TPosition srcPosition = SRC, dstPosition = DST;

private:
    friend class TPipe;
    static constexpr TPosition POSITION = gaf_twin::BufferPosition(SRC, DST);
    static constexpr HardEvent FORWARD =
        gaf_twin::QueueEvent(gaf_twin::HardwareOf(SRC), gaf_twin::HardwareOf(DST), true);
    static constexpr HardEvent BACKWARD =
        gaf_twin::QueueEvent(gaf_twin::HardwareOf(SRC), gaf_twin::HardwareOf(DST), false);
    static constexpr uint32_t CAPACITY = DEPTH < 1 ? 1 : static_cast<uint32_t>(DEPTH);

    static constexpr const char* Name()
    {
        switch (POSITION) {
            case TPosition::A1: return "A1 queue";
            case TPosition::A2: return "A2 queue";
            case TPosition::B1: return "B1 queue";
            case TPosition::B2: return "B2 queue";
            case TPosition::C1: return "C1 queue";
            case TPosition::C2: return "C2 queue";
            case TPosition::CO1: return "CO1 queue";
            case TPosition::VECIN: return "VECIN queue";
            case TPosition::VECOUT: return "VECOUT queue";
            default: return "queue";
        }
    }

    template <class T>
    static LocalTensor<T> TensorOf(gaf_twin::Buffer* b)
    {
        return LocalTensor<T>(reinterpret_cast<T*>(b->base), b->bytes / sizeof(T), POSITION, b);
    }
    bool Owns(gaf_twin::Buffer* b, const char* api) const
    {
        return gaf_twin::check::rule(b != nullptr && b >= first_ && b < first_ + count_, "queue-owner", api,
                                     "the tensor is not a buffer of this %s", Name()) &&
               b != nullptr && b >= first_ && b < first_ + count_;
    }
    // Waits for the event that FreeTensor left on the buffer.
    static void TakeBack(gaf_twin::Buffer* b)
    {
        if (b->freeId != INVALID_TEVENTID) {
            gaf_twin::check::waitFlag(BACKWARD, b->freeId, true);
            gaf_twin::ReleaseEvent(BACKWARD, b->freeId);
            b->freeId = INVALID_TEVENTID;
        }
    }

    gaf_twin::Buffer* Alloc()
    {
        for (uint32_t i = 0; i < count_; ++i) {
#if GAF_TWIN_CHECKING
            gaf_twin::Buffer* b = &first_[cursor_];  // round robin, as on the device
            cursor_ = cursor_ + 1 == count_ ? 0 : cursor_ + 1;
#else
            gaf_twin::Buffer* b = &first_[i];  // the lowest free one: stays in the first-level cache
#endif
            if (b->state == TBufState::FREE) {
                gaf_twin::NeedsMemory(b, "AllocTensor");
                b->state = TBufState::OCCUPIED;
                TakeBack(b);
                ++occupied_;
                gaf_twin::check::queueAlloc(b->base, b->bytes, POSITION);
                return b;
            }
        }
        gaf_twin::check::rule(false, "queue-alloc", "AllocTensor", "no free buffer among the %u of the %s",
                              count_, Name());
        gaf_twin::Abandon("queue-alloc", count_ == 0 ? "AllocTensor before InitBuffer"
                                                     : "AllocTensor waits for a buffer that nobody frees");
    }

    void Free(gaf_twin::Buffer* b)
    {
        if (!Owns(b, "FreeTensor")) {
            return;
        }
        if (b->state == TBufState::FREE) {
            gaf_twin::check::queueFree(b->base, b->bytes, POSITION);  // reports it
            return;
        }
#if GAF_TWIN_CHECKING
        b->freeId = gaf_twin::AllocEvent(BACKWARD, true);
        if (b->freeId != INVALID_TEVENTID) {
            gaf_twin::check::setFlag(BACKWARD, b->freeId, true);
        }
#endif
        b->state = TBufState::FREE;
        --occupied_;
        gaf_twin::check::queueFree(b->base, b->bytes, POSITION);
    }

    bool Push(gaf_twin::Buffer* b, HardEvent event)
    {
        if (!Owns(b, "EnQue")) {
            return false;
        }
        if (!gaf_twin::check::rule(used_ < CAPACITY, "queue-depth", "EnQue",
                                   "the %s holds %u tensors, its depth", Name(), used_) ||
            used_ >= CAPACITY) {
            return false;
        }
        b->state = TBufState::ENQUE;
        b->enqueEvent = event;
#if GAF_TWIN_CHECKING
        b->enqueId = gaf_twin::AllocEvent(event, true);
        if (b->enqueId != INVALID_TEVENTID) {
            gaf_twin::check::setFlag(event, b->enqueId, true);
        }
#endif
        queue_[(head_ + used_) % CAPACITY] = b;
        ++used_;
        gaf_twin::check::queueEnque(b->base, b->bytes, POSITION);
        return true;
    }

    gaf_twin::Buffer* Pop(HardEvent event)
    {
        if (used_ == 0) {
            gaf_twin::check::rule(false, "queue-deque", "DeQue", "the %s is empty", Name());
            gaf_twin::Abandon("queue-deque", "DeQue of an empty queue");
        }
        gaf_twin::Buffer* b = queue_[head_];
        head_ = head_ + 1 == CAPACITY ? 0 : head_ + 1;
        --used_;
        gaf_twin::check::rule(b->enqueEvent == event, "queue-deque-event", "DeQue",
                              "EnQue and DeQue of the %s name different positions", Name());
        b->state = TBufState::DEQUE;
        if (b->enqueId != INVALID_TEVENTID) {
            gaf_twin::check::waitFlag(b->enqueEvent, b->enqueId, true);
            gaf_twin::ReleaseEvent(b->enqueEvent, b->enqueId);
            b->enqueId = INVALID_TEVENTID;
        }
        gaf_twin::check::queueDeque(b->base, b->bytes, POSITION);
        return b;
    }

    gaf_twin::Buffer* first_ = nullptr;
    uint32_t count_ = 0, cursor_ = 0, occupied_ = 0, used_ = 0, head_ = 0;
    gaf_twin::Buffer* queue_[CAPACITY] = {};
};

template <TPosition POS, int32_t DEPTH, auto MASK = 0>
class TQue : public TQueBind<gaf_twin::QueueSource(POS), gaf_twin::QueueTarget(POS), DEPTH, MASK> {
public:
    TQue() = default;
};

template <TPosition POS = TPosition::LCM>
class TBuf {
public:
    TBuf() = default;
    template <class T>
    LocalTensor<T> Get()
    {
        return Get<T>(bytes_ / sizeof(T));
    }
    template <class T>
    LocalTensor<T> Get(uint32_t count)
    {
        return GetWithOffset<T>(count, 0);
    }
    template <class T>
    LocalTensor<T> GetWithOffset(uint32_t count, uint32_t offset)
    {
        if (buffer_ == nullptr) {
            gaf_twin::check::rule(false, "buffer-init", "TBuf::Get", "the buffer was not initialised");
            gaf_twin::Abandon("buffer-init", "TBuf::Get before InitBuffer");
        }
        gaf_twin::NeedsMemory(buffer_, "TBuf::Get");
        gaf_twin::check::rule(uint64_t(count) * sizeof(T) + offset <= bytes_, "buffer-size", "TBuf::Get",
                              "%u elements of %u bytes at byte %u do not fit the %u bytes of the buffer",
                              count, static_cast<uint32_t>(sizeof(T)), offset, bytes_);
        return LocalTensor<T>(reinterpret_cast<T*>(buffer_->base + offset), count, POS, buffer_);
    }
    template <class T>
    void EnQue(const LocalTensor<T>&)
    {
    }
    template <class T>
    LocalTensor<T> DeQue()
    {
        return Get<T>();
    }
    template <class T>
    LocalTensor<T> AllocTensor()
    {
        return Get<T>();
    }
    template <class T>
    void FreeTensor(LocalTensor<T>&)
    {
    }

    uint32_t GetBufLen() const { return bytes_; }
    void InitStartBufHandle(TBufHandle start, uint8_t, uint32_t len)
    {
        buffer_ = start;
        bytes_ = gaf_twin::RoundUp(len, 32);
    }
    template <class POOL>
    void InitBufHandle(POOL*, uint32_t index, TBufHandle start, uint32_t address, uint32_t len)
    {
        gaf_twin::PlaceBuffer(start[index], POS, address, len, HardEvent::MAX, "TBuf");
    }

    static constexpr bool isTQue = false;

private:
    friend class TPipe;
    gaf_twin::Buffer* buffer_ = nullptr;
    uint32_t bytes_ = 0;
};

template <TPosition POS, int32_t DEPTH = 1, auto MASK = 0>
using TSCM = TQueBind<POS, TPosition::TSCM, DEPTH, MASK>;

class TPipe {
public:
    TPipe() { Init(); }
    ~TPipe() { Destroy(); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    void Init()
    {
        gaf_twin::Core& c = gaf_twin::Current();
        gaf_twin::check::rule(c.pipe == nullptr, "pipe-twice", "TPipe", "a second TPipe while one is alive");
        c.pipe = this;
        c.bufferCount = 0;
        for (uint32_t i = 0; i < 8; ++i) {
            c.used[i] = 0;
        }
        for (uint32_t i = 0; i < gaf_twin::EVENT_TYPES; ++i) {
            c.eventBusy[i] = 0;
        }
        alive_ = true;
        if (c.kind == gaf_twin::CoreKind::AIC) {  // the toolkit keeps three M_MTE1 ids for its matrix macros
            for (int i = 0; i < 3; ++i) {
                gaf_twin::check::setFlag(HardEvent::M_MTE1, gaf_twin::AllocEvent(HardEvent::M_MTE1, true),
                                         true);
            }
        }
    }

    template <class Q>
    bool InitBuffer(Q& que, uint8_t num, uint32_t len)
    {
        static_assert(Q::isTQue, "InitBuffer(queue, number, bytes): a TBuf takes no number");
        gaf_twin::check::rule(num > 0 && num <= gaf_twin::MAX_BUFFERS, "buffer-number", "InitBuffer",
                              "%u buffers; 1 to %u are possible", num, gaf_twin::MAX_BUFFERS);
        que.first_ = nullptr;
        que.count_ = num;
        que.cursor_ = que.occupied_ = que.used_ = que.head_ = 0;
        for (uint32_t i = 0; i < num; ++i) {
            gaf_twin::Buffer* b = gaf_twin::NewBuffer(Q::POSITION, len, Q::BACKWARD, Q::Name(), i);
            if (i == 0) {
                que.first_ = b;
            }
        }
        return true;
    }
    template <TPosition POS>
    bool InitBuffer(TBuf<POS>& buf, uint32_t len)
    {
        buf.buffer_ = gaf_twin::NewBuffer(POS, len, HardEvent::MAX, "TBuf", 0);
        buf.bytes_ = buf.buffer_->bytes;
        return true;
    }

    template <class POOL>
    bool InitBufPool(POOL& pool, uint32_t len)
    {
        constexpr Hardware memory = gaf_twin::HardwareOf(POOL::POSITION);
        uint32_t& used = gaf_twin::Current().used[static_cast<uint32_t>(memory)];
        const uint32_t bytes = gaf_twin::RoundUp(len, 32);
        gaf_twin::check::rule(uint64_t(used) + bytes <= gaf_twin::BytesOf(memory), "memory-overflow", "InitBufPool",
                              "%u bytes after %u exceed the %u bytes of memory", bytes, used,
                              gaf_twin::BytesOf(memory));
        pool.Place(used, bytes);
        used += bytes;
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

    template <HardEvent EVENT>
    TEventID AllocEventID()
    {
        return gaf_twin::GiveEvent(EVENT, true);
    }
    template <HardEvent EVENT>
    void ReleaseEventID(TEventID id)
    {
        gaf_twin::check::rule(id >= 0 && id < gaf_twin::EVENT_IDS, "event-id", "ReleaseEventID",
                              "id %d is not in 0..%d", id, gaf_twin::EVENT_IDS - 1);
        gaf_twin::ReleaseEvent(EVENT, id);
    }
    template <HardEvent EVENT>
    TEventID FetchEventID()
    {
        return gaf_twin::GiveEvent(EVENT, false);
    }
    TEventID FetchEventID(HardEvent event) { return gaf_twin::GiveEvent(event, false); }

    template <TPosition POS, class T>
    LocalTensor<T> GetAbsAddr(int32_t offset, int32_t count) const
    {
        uint8_t* base = gaf_twin::Current().arena[static_cast<uint32_t>(gaf_twin::HardwareOf(POS))];
        return LocalTensor<T>(reinterpret_cast<T*>(base + offset), static_cast<uint32_t>(count), POS,
                              nullptr);
    }

    // Gives all buffers back; the pipe can be used again with new InitBuffer calls.
    void Reset()
    {
        Finish();
        alive_ = false;
        gaf_twin::Current().pipe = nullptr;
        Init();
    }
    void Destroy()
    {
        if (alive_) {
            Finish();
            alive_ = false;
            gaf_twin::Current().pipe = nullptr;
        }
    }

private:
    void Finish()
    {
        gaf_twin::Core& c = gaf_twin::Current();
        for (uint32_t i = 0; i < c.bufferCount; ++i) {
            gaf_twin::Buffer& b = c.buffers[i];
            if (b.freeId != INVALID_TEVENTID) {
                gaf_twin::check::waitFlag(b.freeEvent, b.freeId, true);
                gaf_twin::ReleaseEvent(b.freeEvent, b.freeId);
                b.freeId = INVALID_TEVENTID;
            }
        }
        if (c.kind == gaf_twin::CoreKind::AIC) {
            for (int8_t i = 0; i < 3; ++i) {
                gaf_twin::check::waitFlag(HardEvent::M_MTE1, i, true);
                gaf_twin::ReleaseEvent(HardEvent::M_MTE1, i);
            }
        }
        gaf_twin::check::bufferReset();
    }

    bool alive_ = false;
};

}  // namespace AscendC

#endif  // GAF_TWIN_QUEUE_H
