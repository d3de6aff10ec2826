// SPDX-License-Identifier: Apache-2.0
// One access of one operand: where it lies, bounds, alignment, state of its buffer, overlap with others.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "operand.h"

namespace gaf_twin {
namespace check {

namespace {

constexpr uint32_t bit(Hardware h) { return 1u << static_cast<uint32_t>(h); }

// Memories that a pipe may read and write on A2 (what exists as a data path).
constexpr uint32_t READS[PIPES] = {
    /* S    */ bit(Hardware::UB) | bit(Hardware::GM),
    /* V    */ bit(Hardware::UB),
    /* M    */ bit(Hardware::L0A) | bit(Hardware::L0B) | bit(Hardware::L0C) | bit(Hardware::BIAS),
    /* MTE1 */ bit(Hardware::L1),
    /* MTE2 */ bit(Hardware::GM),
    /* MTE3 */ bit(Hardware::UB) | bit(Hardware::L1),
    /* FIX  */ bit(Hardware::L0C) | bit(Hardware::L1) | bit(Hardware::FIXBUF),
};
constexpr uint32_t WRITES[PIPES] = {
    /* S    */ bit(Hardware::UB) | bit(Hardware::GM),
    /* V    */ bit(Hardware::UB),
    /* M    */ bit(Hardware::L0C),
    /* MTE1 */ bit(Hardware::L0A) | bit(Hardware::L0B) | bit(Hardware::BIAS),
    /* MTE2 */ bit(Hardware::UB) | bit(Hardware::L1) | bit(Hardware::L0A) | bit(Hardware::L0B),
    /* MTE3 */ bit(Hardware::GM),
    /* FIX  */ bit(Hardware::GM) | bit(Hardware::L1) | bit(Hardware::FIXBUF),
};

constexpr uint32_t pipeBit(Pipe p) { return 1u << static_cast<uint32_t>(p); }
constexpr uint32_t AIV_PIPES =
    pipeBit(Pipe::S) | pipeBit(Pipe::V) | pipeBit(Pipe::MTE2) | pipeBit(Pipe::MTE3);
constexpr uint32_t AIC_PIPES = pipeBit(Pipe::S) | pipeBit(Pipe::M) | pipeBit(Pipe::MTE1) | pipeBit(Pipe::MTE2)
                             | pipeBit(Pipe::MTE3) | pipeBit(Pipe::FIX);

}  // namespace

void Engine::op(Pipe pipe, const char* api, uint32_t flags)
{
    Core* core = core_;
    if (core == nullptr || pipe >= Pipe::COUNT) {
        return;
    }
    core->api = api;
    core->pipe = static_cast<uint8_t>(pipe);
    core->opFlags = flags;
    core->operands.clear();
    core->stamp.core = core->number;
    core->stamp.pipe = core->pipe;
    if (autoSync_) {
        core->clock.orderBySource(pipe);
    }
    core->stamp.epoch = core->clock.start(pipe);
    core->stamp.flags = static_cast<uint8_t>(((flags & OP_M_ORDERED) != 0 ? STAMP_M_ORDERED : 0)
                                             | ((flags & OP_UNIT_FLAG) != 0 ? STAMP_UNIT_FLAG : 0));
    uint32_t allowed = core->kind == CoreKind::AIV ? AIV_PIPES : AIC_PIPES;
    if ((allowed & pipeBit(pipe)) == 0) {
        violate("pipe-of-other-core", api, "", pipeName(core->pipe), "", -1,
                "%s runs on pipe %s, which %s does not have", api, pipeName(core->pipe),
                core->kind == CoreKind::AIV ? "a vector core" : "a cube core");
    }
}

bool Engine::inInstruction(Pipe pipe, const char* api) const
{
    return core_->api != nullptr && core_->pipe == static_cast<uint8_t>(pipe)
        && (core_->api == api || strcmp(core_->api, api) == 0);
}

Engine::Place Engine::find(const void* p)
{
    Place place;
    const uint8_t* at = static_cast<const uint8_t*>(p);
    for (uint32_t i = 1; i < MEMORIES; ++i) {
        Memory& memory = core_->memory[i];
        if (at >= memory.base && static_cast<uint64_t>(at - memory.base) < memory.bytes) {
            place.memory = &memory;
            place.hardware = static_cast<Hardware>(i);
            place.offset = static_cast<uint64_t>(at - memory.base);
            return place;
        }
    }
    Argument* hit = lastArgument_;
    if (hit == nullptr || at < hit->base || static_cast<uint64_t>(at - hit->base) >= hit->bytes) {
        auto next = std::upper_bound(arguments_.begin(), arguments_.end(), at,
                                     [](const uint8_t* a, const auto& b) { return a < b->base; });
        hit = next == arguments_.begin() ? nullptr : std::prev(next)->get();
        if (hit == nullptr || static_cast<uint64_t>(at - hit->base) >= hit->bytes) {
            return place;
        }
        lastArgument_ = hit;
    }
    place.argument = hit;
    place.hardware = Hardware::GM;
    place.offset = static_cast<uint64_t>(at - hit->base);
    return place;
}

const Buffer* Engine::bufferAt(const Place& place) const
{
    if (place.memory == nullptr) {
        return nullptr;
    }
    uint64_t block = place.offset / BLOCK;
    uint16_t number = block < place.memory->bufferOf.size() ? place.memory->bufferOf[block] : 0;
    return number == 0 ? nullptr : &core_->buffers[number - 1];
}

std::string Engine::placeName(const Place& place)
{
    if (place.argument != nullptr) {
        return place.argument->name;
    }
    const Buffer* buffer = bufferAt(place);
    return buffer != nullptr ? buffer->name : place.memory != nullptr ? memoryName(place.hardware) : "";
}

int64_t Engine::offsetInBuffer(const Place& place, uint64_t offset) const
{
    const Buffer* buffer = bufferAt(place);
    return static_cast<int64_t>(buffer != nullptr ? offset - buffer->start : offset);
}

bool Engine::access(Pipe pipe, const char* api, const char* operand, bool write, const void* ptr,
                    uint64_t runBytes, uint64_t runs, int64_t stride, uint32_t align, View view,
                    uint64_t outer, int64_t outerStride)
{
    if (core_ == nullptr || pipe >= Pipe::COUNT || runBytes == 0 || runs == 0 || outer == 0) {
        return true;
    }
    if (!inInstruction(pipe, api)) {
        op(pipe, api, 0);   // a call that did not announce itself
    }
    Pattern pattern(runBytes, runs, stride, outer, outerStride);
    Operand o{api, operand, write ? "writes" : "reads", write, pipeName(core_->pipe)};
    Place place = find(ptr);
    if (!checkAllocation(o, place, ptr, view, pattern)) {
        return false;
    }
    if (((write ? WRITES : READS)[core_->pipe] & bit(place.hardware)) == 0) {
        violate("wrong-position", api, operand, o.pipe, placeName(place), offsetInBuffer(place, place.offset),
                "%s %s %s, but pipe %s can't", operand, o.verb, memoryName(place.hardware), o.pipe);
        return true;   // memory-safe, but there is no such data path, hence nothing to order
    }
    checkView(o, place, ptr, view, pattern);
    checkAlignment(o, place, ptr, align, pattern);
    pattern.merge();
    checkNumbers(o, place, ptr, view, pattern);
    if (place.memory != nullptr) {
        checkBuffer(o, place, pattern);
        if (core_->pipe == static_cast<uint8_t>(Pipe::V) && pattern.contiguous()) {
            checkOperandOverlap(o, place, place.offset, place.offset + pattern.runBytes);
        }
    } else if (place.argument->role == GmRole::INPUT) {
        if (write) {
            violate("write-to-input", api, operand, o.pipe, place.argument->name,
                    static_cast<int64_t>(place.offset),
                    "%s writes '%s', which is an input of the model or a weight", operand,
                    place.argument->name.c_str());
        }
        return true;   // never written, so nothing to order
    }
    Touch t;
    if (core_->pipe == static_cast<uint8_t>(Pipe::S) && place.argument != nullptr) {
        const uintptr_t line = reinterpret_cast<uintptr_t>(ptr) / CACHE_LINE;
        if (write) {
            core_->dirtyLines.insert(line);
        }
        t.polled = !write && core_->watchedLines.count(line) != 0;
    }
    t.now = Access{core_->stamp, api, core_->node};
    t.now.stamp.flags =
        static_cast<uint8_t>(core_->stamp.flags | (core_->atomic && write ? STAMP_ATOMIC : 0));
    t.pipe = core_->pipe;
    t.write = write;
    Shadow& shadow = place.memory != nullptr ? place.memory->shadow : place.argument->shadow;
    for (uint64_t i = 0; i < pattern.outer; ++i) {
        int64_t at = static_cast<int64_t>(place.offset) + static_cast<int64_t>(i) * pattern.outerStride;
        for (uint64_t r = 0; r < pattern.runs; ++r, at += pattern.stride) {
            touch(t, shadow, static_cast<uint64_t>(at), static_cast<uint64_t>(at) + pattern.runBytes);
        }
    }
    if (t.raceAt >= 0 || t.unwrittenAt >= 0) {
        reportTouch(o, t, place);
    }
    return true;
}

// Whether the whole pattern lies in one allocation; a violation when not.
bool Engine::checkAllocation(const Operand& o, const Place& place, const void* ptr, View view,
                             const Pattern& pattern)
{
    const uint8_t* start = static_cast<const uint8_t*>(ptr);
    if (view.base != nullptr && place.memory == nullptr) {
        // An address past the end of one GM argument may lie in another one: the view says which is meant.
        Place home = find(view.base);
        if (home.argument != nullptr && home.argument != place.argument) {
            int64_t offset = start - home.argument->base;
            violate("out-of-bounds", o.api, o.name, o.pipe, home.argument->name, offset,
                    "%s %s bytes %" PRId64 "..%" PRId64 " of '%s', which has %" PRIu64 " bytes", o.name,
                    o.verb, offset + pattern.low, offset + pattern.high - 1, home.argument->name.c_str(),
                    home.argument->bytes);
            return false;
        }
    }
    if (place.memory == nullptr && place.argument == nullptr) {
        violate("not-allocated", o.api, o.name, o.pipe, "", -1,
                "%s %s an address that is no kernel argument and no on-chip memory of this core", o.name,
                o.verb);
        return false;
    }
    uint64_t size = place.memory != nullptr ? place.memory->bytes : place.argument->bytes;
    int64_t first = static_cast<int64_t>(place.offset) + pattern.low;
    int64_t last = static_cast<int64_t>(place.offset) + pattern.high;
    if (first >= 0 && last <= static_cast<int64_t>(size)) {
        return true;
    }
    std::string name = placeName(place);
    violate("out-of-bounds", o.api, o.name, o.pipe, name, offsetInBuffer(place, place.offset),
            "%s %s bytes %" PRId64 "..%" PRId64 " of %s, which has %" PRIu64 " bytes", o.name, o.verb, first,
            last - 1, place.memory != nullptr ? memoryName(place.hardware) : name.c_str(), size);
    return false;
}

// Whether the pattern stays inside the tensor that the program named (LocalTensor, SetGlobalBuffer).
void Engine::checkView(const Operand& o, const Place& place, const void* ptr, View view,
                       const Pattern& pattern)
{
    if (view.base == nullptr || view.bytes == 0) {
        return;
    }
    int64_t at = static_cast<const uint8_t*>(ptr) - static_cast<const uint8_t*>(view.base);
    if (at + pattern.low < 0 || at + pattern.high > static_cast<int64_t>(view.bytes)) {
        violate("tensor-bounds", o.api, o.name, o.pipe, placeName(place), offsetInBuffer(place, place.offset),
                "%s %s bytes %" PRId64 "..%" PRId64 " of a %s of %" PRIu64 " bytes", o.name, o.verb,
                at + pattern.low, at + pattern.high - 1,
                place.memory != nullptr ? "LocalTensor" : "GlobalTensor", view.bytes);
    }
}

void Engine::checkAlignment(const Operand& o, const Place& place, const void* ptr, uint32_t align,
                            const Pattern& pattern)
{
    if (align <= 1) {
        return;
    }
    int64_t step = static_cast<int64_t>(align);
    uint64_t address = place.memory != nullptr ? place.offset : reinterpret_cast<uintptr_t>(ptr);
    if (address % align == 0 && pattern.stride % step == 0 && pattern.outerStride % step == 0) {
        return;
    }
    violate("unaligned", o.api, o.name, o.pipe, placeName(place), offsetInBuffer(place, place.offset),
            "%s starts at byte %" PRIu64 " of %s (strides %" PRId64 " and %" PRId64
            " bytes), but must be aligned to %u bytes",
            o.name, place.offset, place.memory != nullptr ? memoryName(place.hardware) : "GM", pattern.stride,
            pattern.outerStride, align);
}

// Whether the pattern stays in one initialised buffer that the queue has handed out.
void Engine::checkBuffer(const Operand& o, const Place& place, const Pattern& pattern)
{
    int64_t first = static_cast<int64_t>(place.offset) + pattern.low;
    int64_t last = static_cast<int64_t>(place.offset) + pattern.high;
    const Buffer* buffer = bufferAt(place);
    if (buffer == nullptr) {
        violate("not-allocated", o.api, o.name, o.pipe, memoryName(place.hardware), first,
                "%s %s bytes %" PRId64 "..%" PRId64 " of %s, where no buffer was initialised", o.name, o.verb,
                first, last - 1, memoryName(place.hardware));
        return;
    }
    int64_t start = static_cast<int64_t>(buffer->start), offset = static_cast<int64_t>(place.offset) - start;
    if (first < start || last > start + static_cast<int64_t>(buffer->bytes)) {
        violate("buffer-overflow", o.api, o.name, o.pipe, buffer->name, offset,
                "%s %s bytes %" PRId64 "..%" PRId64 " of '%s', which has %" PRIu64 " bytes", o.name, o.verb,
                first - start, last - 1 - start, buffer->name.c_str(), buffer->bytes);
    }
    if (buffer->state == TensorState::FREE) {
        violate("use-after-free", o.api, o.name, o.pipe, buffer->name, offset,
                "%s %s '%s' after its FreeTensor", o.name, o.verb, buffer->name.c_str());
    } else if (buffer->state == TensorState::ENQUE) {
        violate("not-dequeued", o.api, o.name, o.pipe, buffer->name, offset,
                "%s %s '%s' between EnQue and DeQue", o.name, o.verb, buffer->name.c_str());
    }
}

// Operands of one vector instruction must be the same bytes or disjoint (hardware constraint of dav-2201).
void Engine::checkOperandOverlap(const Operand& o, const Place& place, uint64_t lo, uint64_t hi)
{
    uint32_t flags = core_->opFlags;
    if ((flags & OP_MAY_OVERLAP) != 0) {
        return;
    }
    for (const OperandRange& other : core_->operands) {
        if ((!o.write && !other.write) || hi <= other.lo || other.hi <= lo) {
            continue;
        }
        bool same = lo == other.lo && hi == other.hi;
        if (same && (flags & OP_NO_ALIAS) == 0) {
            continue;
        }
        violate("operand-overlap", o.api, o.name, o.pipe, placeName(place),
                offsetInBuffer(place, place.offset),
                "%s (bytes %" PRIu64 "..%" PRIu64 " of UB) %s %s (bytes %" PRIu64 "..%" PRIu64
                "), which %s does not allow",
                o.name, lo, hi - 1, same ? "is the same memory as" : "overlaps but does not equal",
                other.name, other.lo, other.hi - 1, o.api);
    }
    if (hi - lo >= BLOCK) {   // single elements (Gather) are checked against the others only
        core_->operands.push_back(OperandRange{o.name, lo, hi, o.write});
    }
}

}  // namespace check
}  // namespace gaf_twin
