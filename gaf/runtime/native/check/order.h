// SPDX-License-Identifier: Apache-2.0
// Happens-before: vector clocks of the pipes of every core, hard-event flags, cross-core flags, barriers.
//
// Inside a core every pipe p keeps clock[p][q] = the last instruction of pipe q known to be complete before
// the next instruction of p starts. What a core learnt from other cores is one vector for all its pipes,
// because a cross-core wait stops the issue of all later instructions of the core.
#ifndef GAF_CHECK_ORDER_H
#define GAF_CHECK_ORDER_H

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "shadow.h"
#include "twin/enums.h"

namespace gaf_twin {
namespace check {

constexpr uint32_t PIPES = static_cast<uint32_t>(Pipe::COUNT);   // S V M MTE1 MTE2 MTE3 FIX
constexpr uint32_t ISSUE = PIPES;          // extra column: how far the core had issued
constexpr uint32_t ROW = PIPES + 1;
constexpr int EVENT_IDS = 8;
constexpr int CROSS_IDS = 16;
constexpr int CROSS_LIMIT = 15;            // a counter of a cross-core flag holds 0..15

using Row = std::array<uint32_t, ROW>;
using Vector = std::vector<uint32_t>;      // ROW numbers for every core of the launch

inline void join(Row& to, const Row& from)
{
    for (uint32_t i = 0; i < ROW; ++i) {
        to[i] = to[i] < from[i] ? from[i] : to[i];
    }
}

inline void join(Vector& to, const Vector& from)
{
    if (to.size() < from.size()) {
        to.resize(from.size(), 0);
    }
    for (size_t i = 0; i < from.size(); ++i) {
        to[i] = to[i] < from[i] ? from[i] : to[i];
    }
}

// Clocks of one core.
class CoreClock {
public:
    void reset(uint16_t self, size_t cores)
    {
        *this = CoreClock{};
        self_ = self;
        cores_ = cores;
    }

    // Starts an instruction of pipe `p`; returns its epoch.
    uint32_t start(Pipe p)
    {
        uint32_t at = static_cast<uint32_t>(p);
        uint32_t epoch = ++counter_[at];
        if (p == Pipe::S) {
            clock_[at][at] = epoch;   // the scalar unit is in order with itself
        }
        ++counter_[ISSUE];
        return epoch;
    }

    // Whether `earlier` is complete before the next instruction of pipe `p` starts.
    bool ordered(const Stamp& earlier, uint32_t p) const
    {
        if (earlier.core == NOBODY) {
            return true;
        }
        if (earlier.core == self_) {
            return clock_[p][earlier.pipe] >= earlier.epoch;
        }
        size_t at = static_cast<size_t>(earlier.core) * ROW + earlier.pipe;
        return at < remote_.size() && remote_[at] >= earlier.epoch;
    }

    // What is complete once every instruction issued so far on pipe `p` is.
    Row completed(Pipe p) const
    {
        uint32_t at = static_cast<uint32_t>(p);
        Row row = clock_[at];
        row[at] = counter_[at];
        row[ISSUE] = counter_[ISSUE];
        return row;
    }

    Row completedAll() const
    {
        return counter_;
    }

    void barrier(Pipe p)
    {
        if (p == Pipe::ALL) {
            for (Row& row : clock_) {
                row = counter_;
            }
        } else {
            uint32_t at = static_cast<uint32_t>(p);
            clock_[at][at] = counter_[at];
        }
    }

    // The waits that the device compiler places in front of an instruction of `p` (see check::autoSync).
    void orderBySource(Pipe p)
    {
        switch (p) {
            case Pipe::S:
                for (Pipe other : {Pipe::V, Pipe::MTE2, Pipe::MTE3}) {
                    learn(Pipe::S, completed(other));
                }
                break;
            case Pipe::V: barrier(Pipe::V); [[fallthrough]];
            case Pipe::MTE2:
            case Pipe::MTE3: learn(p, completed(Pipe::S)); break;
            default: break;
        }
    }

    // Pipe `p` waited for `row`. The scalar unit issues every instruction: its waits hold for all pipes.
    void learn(Pipe p, const Row& row)
    {
        if (p != Pipe::S) {
            join(clock_[static_cast<uint32_t>(p)], row);
            return;
        }
        for (Row& mine : clock_) {
            join(mine, row);
        }
    }

    // Message for other cores: what this core knows of them, and `row` of its own.
    Vector message(const Row& row) const
    {
        Vector v = remote_;
        v.resize(cores_ * ROW, 0);
        for (uint32_t i = 0; i < ROW; ++i) {
            v[static_cast<size_t>(self_) * ROW + i] = row[i];
        }
        return v;
    }

    // The core stopped issuing until `message` had arrived. Its own entries, come back, order its own pipes.
    void learnRemote(const Vector& message)
    {
        join(remote_, message);
        Row own;
        for (uint32_t i = 0; i < ROW; ++i) {
            own[i] = message[static_cast<size_t>(self_) * ROW + i];
        }
        for (Row& mine : clock_) {
            join(mine, own);
        }
    }

    uint32_t issued() const { return counter_[ISSUE]; }
    void issue() { ++counter_[ISSUE]; }

private:
    std::array<Row, PIPES> clock_{};
    Row counter_{};
    Vector remote_;
    size_t cores_ = 0;
    uint16_t self_ = 0;
};

// State of SetFlag/WaitFlag of one core: binary flags per (event, id).
struct HardFlag {
    bool set = false;
    bool everWaited = false;
    Row row{};
    const char* node = nullptr;
};

// One of the 16 counters of a core: messages that arrived and were not waited for.
struct CrossCounter {
    std::deque<Vector> arrived;
    uint32_t sets = 0;                     // +1 so far
    std::vector<uint32_t> waits;           // issue position of every wait so far
    int mode = -1;                         // mode of the sets in flight
};

// What a core has set and what released nobody yet, per mode and id (modes 0, 1 and AIV -> AIC of mode 2).
struct PendingSets {
    std::array<std::array<std::deque<Vector>, CROSS_IDS>, 3> byMode;
    std::array<Stamp, CROSS_IDS> last{};   // the latest set of an id from this core
    std::array<uint32_t, CROSS_IDS> sets{};
};

// Generations of SyncAll: what all arrived cores knew.
struct GridBarrier {
    struct Generation {
        Vector knowledge;
        uint32_t left = 0;
    };
    std::map<uint32_t, Generation> generations;
};

}  // namespace check
}  // namespace gaf_twin

#endif  // GAF_CHECK_ORDER_H
