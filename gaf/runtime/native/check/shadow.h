// SPDX-License-Identifier: Apache-2.0
// Shadow memory: for every byte who wrote it last, who read it since, and whether it was ever initialised.
//
// Bytes that were last touched by the same accesses share one `State`; memory is an array of state numbers,
// one per 32-byte block, so a whole-tile access costs one compare and one fill of that array. A block whose
// bytes differ (the tail of a row) is expanded into 32 numbers of its own: races and initialisation are exact
// to the byte.
#ifndef GAF_CHECK_SHADOW_H
#define GAF_CHECK_SHADOW_H

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace gaf_twin {
namespace check {

constexpr uint32_t BLOCK = 32;           // bytes of one block of shadow
constexpr uint16_t NOBODY = 0xFFFF;      // core number of "not written by the kernel"

enum StampFlag : uint8_t { STAMP_ATOMIC = 1, STAMP_M_ORDERED = 2, STAMP_UNIT_FLAG = 4 };

// One instruction: the epoch-th of a pipe of a core.
struct Stamp {
    uint32_t epoch = 0;
    uint16_t core = NOBODY;
    uint8_t pipe = 0;
    uint8_t flags = 0;

    bool sameInstruction(const Stamp& o) const
    {
        return epoch == o.epoch && core == o.core && pipe == o.pipe;
    }
};

// An instruction with what a message says of it. `api` and `node` are string literals of the kernel.
struct Access {
    Stamp stamp;
    const char* api = nullptr;
    const char* node = nullptr;
};

struct State {
    Access writer;           // last writer; core NOBODY = none
    uint32_t others = 0;     // chain of readers since then, and of unordered atomic writers (0 = none)
    uint32_t slots = 0;      // number of shadow slots that hold this state
    bool initialised = false;
};

struct Other {
    Access who;
    bool wrote = false;      // an atomic writer, not a reader
    uint32_t next = 0;
};

// Owner of states, chains and expanded blocks. Number 0 is "untouched" everywhere.
class StatePool {
public:
    static constexpr uint32_t EXPANDED = 0x80000000u;   // a slot with this bit names an expanded block

    StatePool() { reset(); }

    void reset()
    {
        states_.assign(1, State{});
        others_.assign(1, Other{});
        bytes_.clear();
        freeStates_.clear();
        freeOthers_.clear();
        freeBytes_.clear();
    }

    State& operator[](uint32_t id) { return states_[id]; }
    Other& other(uint32_t index) { return others_[index]; }
    uint32_t* expanded(uint32_t slot) { return bytes_[slot & ~EXPANDED]->ids; }

    uint32_t makeState()
    {
        if (!freeStates_.empty()) {
            uint32_t id = freeStates_.back();
            freeStates_.pop_back();
            states_[id] = State{};
            return id;
        }
        states_.emplace_back();
        return static_cast<uint32_t>(states_.size() - 1);
    }

    // Copy of a state (its chain too) that no slot holds yet.
    uint32_t copyState(uint32_t from)
    {
        uint32_t id = makeState();
        State& to = states_[id];
        to.writer = states_[from].writer;
        to.initialised = states_[from].initialised;
        for (uint32_t at = states_[from].others; at != 0; at = others_[at].next) {
            push(id, others_[at].who, others_[at].wrote);
        }
        return id;
    }

    void push(uint32_t id, Access who, bool wrote)   // by value: it may come from the chain itself
    {
        uint32_t index;
        if (!freeOthers_.empty()) {
            index = freeOthers_.back();
            freeOthers_.pop_back();
        } else {
            others_.emplace_back();
            index = static_cast<uint32_t>(others_.size() - 1);
        }
        others_[index] = Other{who, wrote, states_[id].others};
        states_[id].others = index;
    }

    // Removes the chain node after `previous` (0: the head) of state `id`; returns the node that follows.
    uint32_t unlink(uint32_t id, uint32_t previous, uint32_t index)
    {
        uint32_t next = others_[index].next;
        (previous == 0 ? states_[id].others : others_[previous].next) = next;
        freeOthers_.push_back(index);
        return next;
    }

    // `slots` slots let go of state `id`; true when nobody holds it any more (it is then free).
    bool release(uint32_t id, uint32_t slots)
    {
        if (id == 0) {
            return false;
        }
        State& s = states_[id];
        s.slots -= slots;
        if (s.slots != 0) {
            return false;
        }
        for (uint32_t at = s.others; at != 0; at = others_[at].next) {
            freeOthers_.push_back(at);
        }
        freeStates_.push_back(id);
        return true;
    }

    // Turns one block slot into 32 byte slots of the same state.
    uint32_t expand(uint32_t id)
    {
        uint32_t index;
        if (!freeBytes_.empty()) {
            index = freeBytes_.back();
            freeBytes_.pop_back();
        } else {
            bytes_.push_back(std::make_unique<Bytes>());
            index = static_cast<uint32_t>(bytes_.size() - 1);
        }
        for (uint32_t& slot : bytes_[index]->ids) {
            slot = id;
        }
        if (id != 0) {
            states_[id].slots += BLOCK - 1;
        }
        return index | EXPANDED;
    }

    // Turns an expanded block whose bytes agree back into one slot; otherwise returns the slot unchanged.
    uint32_t collapse(uint32_t slot)
    {
        const uint32_t* ids = expanded(slot);
        for (uint32_t i = 1; i < BLOCK; ++i) {
            if (ids[i] != ids[0]) {
                return slot;
            }
        }
        uint32_t id = ids[0];
        if (id != 0) {
            states_[id].slots -= BLOCK - 1;
        }
        freeBytes_.push_back(slot & ~EXPANDED);
        return id;
    }

private:
    struct Bytes {
        uint32_t ids[BLOCK];
    };
    std::vector<State> states_;
    std::vector<Other> others_;
    std::vector<std::unique_ptr<Bytes>> bytes_;
    std::vector<uint32_t> freeStates_, freeOthers_, freeBytes_;
};

// Slots of one memory (an arena of a core, or one GM argument). Untouched slots are 0 and take no memory.
class Shadow {
public:
    Shadow() = default;
    Shadow(uint64_t bytes, StatePool* pool, bool initialised)
        : blocks_((bytes + BLOCK - 1) / BLOCK), pool_(pool), initialised_(initialised)
    {
        slots_.reset(static_cast<uint32_t*>(calloc(blocks_ == 0 ? 1 : blocks_, sizeof(uint32_t))));
    }

    explicit operator bool() const { return slots_ != nullptr; }
    uint32_t* slots() { return slots_.get(); }
    uint64_t blocks() const { return blocks_; }
    StatePool& pool() { return *pool_; }
    // Whether bytes that the kernel never touched count as initialised.
    bool untouchedInitialised() const { return initialised_; }
    bool initialised(uint32_t id) { return id == 0 ? initialised_ : (*pool_)[id].initialised; }

private:
    struct Free {
        void operator()(void* p) const { free(p); }
    };
    std::unique_ptr<uint32_t[], Free> slots_;
    uint64_t blocks_ = 0;
    StatePool* pool_ = nullptr;
    bool initialised_ = false;
};

// Number of equal slots from `slots[0]` on, at most `n` (> 0).
inline uint64_t runOfEqual(const uint32_t* slots, uint64_t n)
{
    const uint32_t id = slots[0];
    uint64_t i = 1;
    for (; i + 16 <= n; i += 16) {   // 16 at a time without early exit inside, so that it vectorises
        uint32_t differ = 0;
        for (uint64_t j = 0; j < 16; ++j) {
            differ |= slots[i + j] ^ id;
        }
        if (differ != 0) {
            break;
        }
    }
    while (i < n && slots[i] == id) {
        ++i;
    }
    return i;
}

// Replaces the state of bytes [lo, hi): `change(id, slots, offset, bytes)` returns the new state of the
// `slots` slots (`bytes` bytes from `offset` on) that hold `id`; it does the counting of slots.
template <class Change> void forStates(Shadow& shadow, uint64_t lo, uint64_t hi, Change&& change)
{
    uint32_t* slots = shadow.slots();
    StatePool& pool = shadow.pool();
    uint64_t at = lo;
    while (at < hi) {
        uint64_t block = at / BLOCK, end = hi / BLOCK;
        if (at % BLOCK == 0 && block < end && (slots[block] & StatePool::EXPANDED) == 0) {
            uint32_t id = slots[block];
            uint64_t n = runOfEqual(slots + block, end - block);
            uint32_t to = change(id, static_cast<uint32_t>(n), at, n * BLOCK);
            if (to != id) {
                for (uint64_t i = 0; i < n; ++i) {
                    slots[block + i] = to;
                }
            }
            at += n * BLOCK;
            continue;
        }
        if ((slots[block] & StatePool::EXPANDED) == 0) {
            slots[block] = pool.expand(slots[block]);
        }
        uint32_t* bytes = pool.expanded(slots[block]);
        uint64_t start = at % BLOCK, stop = hi - block * BLOCK < BLOCK ? hi - block * BLOCK : BLOCK;
        while (start < stop) {
            uint32_t id = bytes[start];
            uint64_t n = runOfEqual(bytes + start, stop - start);
            uint32_t to = change(id, static_cast<uint32_t>(n), block * BLOCK + start, n);
            for (uint64_t i = 0; i < n; ++i) {
                bytes[start + i] = to;
            }
            start += n;
        }
        slots[block] = pool.collapse(slots[block]);
        at = (block + 1) * BLOCK;
    }
}

}  // namespace check
}  // namespace gaf_twin

#endif  // GAF_CHECK_SHADOW_H
