// SPDX-License-Identifier: Apache-2.0
// The walk of one operand over the shadow: initialisation, and order against who used the bytes before.
#include <cinttypes>

#include "operand.h"

namespace gaf_twin {
namespace check {

// Order that exists without flags: parts of one instruction, atomic writes, big accumulating Mmads, unitFlag
// pairs.
bool Engine::excused(const Stamp& earlier) const
{
    const Stamp& now = core_->stamp;
    if (now.sameInstruction(earlier)) {
        return true;
    }
    if (earlier.core == now.core) {
        constexpr uint8_t M = static_cast<uint8_t>(Pipe::M), FIX = static_cast<uint8_t>(Pipe::FIX);
        if (earlier.pipe == M && now.pipe == M && (earlier.flags & STAMP_M_ORDERED) != 0) {
            return true;
        }
        bool cubePair = (earlier.pipe == M && now.pipe == FIX) || (earlier.pipe == FIX && now.pipe == M)
                     || (earlier.pipe == M && now.pipe == M);
        if (cubePair && (earlier.flags & now.flags & STAMP_UNIT_FLAG) != 0) {
            return true;
        }
    }
    return core_->clock.ordered(earlier, now.pipe);
}

void Engine::noteRace(Touch& t, const Access& earlier, bool earlierWrote, uint64_t offset)
{
    if (t.raceAt < 0) {
        t.raceAt = static_cast<int64_t>(offset);
        t.rival = earlier;
        t.rivalWrote = earlierWrote;
    }
}

void Engine::touch(Touch& t, Shadow& shadow, uint64_t lo, uint64_t hi)
{
    StatePool& pool = shadow.pool();
    if (t.write) {
        forStates(shadow, lo, hi, [&](uint32_t id, uint32_t slots, uint64_t offset, uint64_t) {
            return touchWrite(t, pool, id, slots, offset);
        });
        return;
    }
    forStates(shadow, lo, hi, [&](uint32_t id, uint32_t slots, uint64_t offset, uint64_t bytes) {
        if (!shadow.initialised(id)) {
            if (t.unwrittenAt < 0) {
                t.unwrittenAt = static_cast<int64_t>(offset);
            }
            t.unwrittenBytes += bytes;
        }
        return touchRead(t, pool, id, slots, offset);
    });
}

uint32_t Engine::touchWrite(Touch& t, StatePool& pool, uint32_t id, uint32_t slots, uint64_t offset)
{
    if (id != 0 && (id == t.written || (t.haveFrom && id == t.to))) {
        return id;   // runs that overlap
    }
    uint32_t target = t.haveFrom && id == t.from ? t.to : 0;
    if (target == 0) {
        std::vector<Access> together = unorderedWriters(t, pool, id, offset);
        if (!together.empty()) {
            target = pool.makeState();
            for (const Access& who : together) {
                pool.push(target, who, true);   // a later access must be after each of them
            }
            t.from = id;
            t.to = target;
            t.haveFrom = true;
        } else if (t.written == 0) {
            target = t.written = pool.makeState();
        } else {
            target = t.written;
        }
        pool[target].writer = t.now;
        pool[target].initialised = true;
    }
    pool[target].slots += slots;
    if (pool.release(id, slots) && t.from == id) {
        t.haveFrom = false;   // its number may be given to another state now
    }
    return target;
}

// Notes the race of a write with what used state `id` before; returns the atomic writers that this (atomic)
// write may overlap, which is none for most writes.
std::vector<Access> Engine::unorderedWriters(Touch& t, StatePool& pool, uint32_t id, uint64_t offset)
{
    std::vector<Access> together;
    if (id == 0) {
        return together;
    }
    bool atomic = (t.now.stamp.flags & STAMP_ATOMIC) != 0;
    // Readers first: what orders this write after them orders it after the earlier write too.
    for (uint32_t at = pool[id].others; at != 0; at = pool.other(at).next) {
        const Other& other = pool.other(at);
        if (excused(other.who.stamp)) {
            continue;
        }
        if (atomic && other.wrote) {
            together.push_back(other.who);
        } else {
            noteRace(t, other.who, other.wrote, offset);
        }
    }
    const Access& writer = pool[id].writer;
    if (!excused(writer.stamp)) {
        if (atomic && (writer.stamp.flags & STAMP_ATOMIC) != 0) {
            together.push_back(writer);
        } else {
            noteRace(t, writer, true, offset);
        }
    }
    return together;
}

uint32_t Engine::touchRead(Touch& t, StatePool& pool, uint32_t id, uint32_t slots, uint64_t offset)
{
    if (t.haveFrom && id == t.to) {
        return id;
    }
    if (id != 0) {
        const State& s = pool[id];
        if (!excused(s.writer.stamp)) {
            noteRace(t, s.writer, true, offset);
        }
    }
    if (t.polled) {
        return id;
    }
    uint32_t target;
    bool move = true;
    if (t.haveFrom && id == t.from) {
        target = t.to;
    } else if (id != 0 && pool[id].slots == slots) {
        target = id;
        move = false;
    } else {
        target = pool.copyState(id);
        pool[target].initialised = true;   // reported once; do not report the same bytes again
        t.from = id;
        t.to = target;
        t.haveFrom = true;
        move = true;
    }
    if (!move || pool[target].slots == 0) {
        // Add this reader. Of its own pipe the newest earlier one stays too (this instruction may go on to
        // write the same bytes); others that are complete before it go, since whoever is after it is after
        // them.
        pool[target].initialised = true;
        uint32_t newest = 0;
        for (uint32_t at = pool[target].others; at != 0; at = pool.other(at).next) {
            const Other& other = pool.other(at);
            if (other.wrote && !excused(other.who.stamp)) {
                noteRace(t, other.who, true, offset);
            }
            if (!other.wrote && other.who.stamp.core == t.now.stamp.core && other.who.stamp.pipe == t.pipe
                && other.who.stamp.epoch > newest && other.who.stamp.epoch < t.now.stamp.epoch) {
                newest = other.who.stamp.epoch;
            }
        }
        uint32_t previous = 0;
        for (uint32_t at = pool[target].others; at != 0;) {
            const Other& other = pool.other(at);
            bool older = other.who.stamp.core == t.now.stamp.core && other.who.stamp.pipe == t.pipe
                      && other.who.stamp.epoch < newest;
            bool again = !other.wrote && other.who.stamp.sameInstruction(t.now.stamp);
            if (!other.wrote && (older || again || core_->clock.ordered(other.who.stamp, t.pipe))) {
                at = pool.unlink(target, previous, at);
            } else {
                previous = at;
                at = other.next;
            }
        }
        pool.push(target, t.now, false);
    }
    if (move) {
        pool[target].slots += slots;
        if (pool.release(id, slots) && t.from == id) {
            t.haveFrom = false;   // its number may be given to another state now
        }
    }
    return target;
}

void Engine::reportTouch(const Operand& o, const Touch& t, const Place& place)
{
    const char* memory = place.memory != nullptr ? memoryName(place.hardware) : "GM";
    if (t.unwrittenAt >= 0) {
        Place at = place;
        at.offset = static_cast<uint64_t>(t.unwrittenAt);
        std::string name = placeName(at);
        int64_t offset = offsetInBuffer(at, at.offset);
        violate("uninitialised-read", o.api, o.name, o.pipe, name, offset,
                "%s reads %" PRIu64 " bytes of %s that nothing has written, the first at byte %" PRId64
                " of '%s'",
                o.name, t.unwrittenBytes, memory, offset, name.c_str());
    }
    if (t.raceAt < 0) {
        return;
    }
    Place at = place;
    at.offset = static_cast<uint64_t>(t.raceAt);
    std::string name = placeName(at);
    int64_t offset = offsetInBuffer(at, at.offset);
    const Stamp& earlier = t.rival.stamp;
    std::string rivalCore = coreName(earlier.core), cure;
    const char* rule;
    if (earlier.core != core_->number) {
        rule = "race-between-cores";
        cure = "a cross-core flag or SyncAll is missing";
    } else if (earlier.pipe == t.pipe) {
        rule = "missing-barrier";
        cure = std::string("PipeBarrier<PIPE_") + o.pipe + "> is missing";
    } else {
        rule = "missing-sync";
        const char* event = eventName(earlier.pipe, t.pipe);
        cure = event != nullptr ? std::string("an EnQue/DeQue pair or SetFlag/WaitFlag<HardEvent::") + event
                                      + "> is missing"
                                : std::string("no flag can order these two pipes: use PipeBarrier<PIPE_ALL>");
    }
    violate(rule, o.api, o.name, o.pipe, name, offset,
            "%s %s byte %" PRId64 " of '%s', which %s (pipe %s%s%s%s%s) %s without order: %s", o.name, o.verb,
            offset, name.c_str(), t.rival.api != nullptr ? t.rival.api : "an access", pipeName(earlier.pipe),
            earlier.core != core_->number ? ", " : "", earlier.core != core_->number ? rivalCore.c_str() : "",
            t.rival.node != nullptr && *t.rival.node != 0 ? ", node " : "",
            t.rival.node != nullptr ? t.rival.node : "", t.rivalWrote ? "wrote" : "read", cure.c_str());
}

}  // namespace check
}  // namespace gaf_twin
