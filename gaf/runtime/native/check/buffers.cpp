// SPDX-License-Identifier: Apache-2.0
// Buffers of TPipe and the states that a TQue moves its tensors through.
#include <algorithm>
#include <cinttypes>

#include "engine.h"

namespace gaf_twin {
namespace check {

namespace {

const char* stateName(TensorState state)
{
    switch (state) {
        case TensorState::FREE: return "free";
        case TensorState::OCCUPIED: return "allocated";
        case TensorState::ENQUE: return "enqueued";
        case TensorState::DEQUE: return "dequeued";
        default: return "not allocated";
    }
}

}  // namespace

void Engine::bufferInit(void* base, uint64_t bytes, Position position, const char* what)
{
    if (core_ == nullptr) {
        return;
    }
    ++core_->buffersMade;
    std::string name = what != nullptr ? what : positionName(position);
    if (core_->buffersMade == MAX_BUFFERS + 1) {
        violate("buffer-number", "InitBuffer", "", "", name, -1,
                "a TPipe may initialise %u buffers in all (each buffer of a double-buffered queue counts)",
                MAX_BUFFERS);
    }
    if (bytes == 0) {
        violate("buffer-size", "InitBuffer", "", "", name, -1, "'%s' has 0 bytes", name.c_str());
        return;
    }
    Place place = find(base);
    if (place.memory == nullptr) {
        violate("buffer-overflow", "InitBuffer", "", "", name, -1,
                "'%s' (%" PRIu64 " bytes) does not start in %s", name.c_str(), bytes,
                memoryName(HardwareOf(position)));
        return;
    }
    if (place.hardware != HardwareOf(position)) {
        violate("wrong-position", "InitBuffer", "", "", name, static_cast<int64_t>(place.offset),
                "a buffer at %s lies in %s", positionName(position), memoryName(place.hardware));
    }
    Memory& memory = *place.memory;
    uint64_t usable = memory.bytes;
    if (place.hardware == Hardware::UB || place.hardware == Hardware::L1) {
        usable -= TOP_RESERVED;
    }
    uint64_t end = place.offset + bytes;
    if (end > usable) {
        violate("memory-overflow", "InitBuffer", "", "", name, static_cast<int64_t>(place.offset),
                "'%s' ends at byte %" PRIu64 " of %s, of which %" PRIu64 " bytes are usable", name.c_str(),
                end, memoryName(place.hardware), usable);
    }
    if (place.offset % BLOCK != 0) {
        violate("unaligned", "InitBuffer", "", "", name, static_cast<int64_t>(place.offset),
                "'%s' starts at byte %" PRIu64 " of %s, which is not a multiple of %u", name.c_str(),
                place.offset, memoryName(place.hardware), BLOCK);
    }
    Buffer buffer;
    buffer.name = std::move(name);
    buffer.start = place.offset;
    buffer.bytes = bytes;
    buffer.position = position;
    buffer.node = core_->node;
    core_->buffers.push_back(std::move(buffer));
    uint16_t number = static_cast<uint16_t>(core_->buffers.size());
    uint64_t stop = std::min<uint64_t>((end + BLOCK - 1) / BLOCK, memory.bufferOf.size());
    const Buffer* overlapped = nullptr;
    for (uint64_t block = place.offset / BLOCK; block < stop; ++block) {
        const Buffer* there = memory.bufferOf[block] != 0 ? &core_->buffers[memory.bufferOf[block] - 1] : nullptr;
        if (there != nullptr && !there->whole && overlapped == nullptr) {
            overlapped = there;
        }
        memory.bufferOf[block] = number;
    }
    if (overlapped != nullptr) {
        violate("buffer-overlap", "InitBuffer", "", "", core_->buffers.back().name,
                static_cast<int64_t>(place.offset), "'%s' overlaps '%s'", core_->buffers.back().name.c_str(),
                overlapped->name.c_str());
    }
}

void Engine::staticTensors()
{
    if (core_ == nullptr || core_->staticTensors) {
        return;
    }
    core_->staticTensors = true;
    for (uint32_t i = 1; i < MEMORIES; ++i) {
        Memory& memory = core_->memory[i];
        if (memory.bytes == 0) {
            continue;
        }
        Buffer buffer;
        buffer.name = memoryName(static_cast<Hardware>(i));
        buffer.bytes = memory.bytes;
        buffer.node = core_->node;
        buffer.whole = true;
        core_->buffers.push_back(std::move(buffer));
        for (uint16_t& number : memory.bufferOf) {
            if (number == 0) {
                number = static_cast<uint16_t>(core_->buffers.size());
            }
        }
    }
}

void Engine::reportLeaks()
{
    for (const Buffer& buffer : core_->buffers) {
        bool queued = buffer.state == TensorState::ENQUE;
        if (queued || buffer.state == TensorState::OCCUPIED || buffer.state == TensorState::DEQUE) {
            violate("queue-leak", "TPipe", "tensor", "", buffer.name, 0, "'%s' was %s when the kernel ended",
                    buffer.name.c_str(), queued ? "still enqueued (no DeQue)" : "not freed");
        }
    }
}

void Engine::bufferDrop(void* base, uint64_t bytes)
{
    if (core_ == nullptr || bytes == 0) {
        return;
    }
    Place place = find(base);
    if (place.memory == nullptr) {
        return;
    }
    uint64_t stop = std::min<uint64_t>((place.offset + bytes) / BLOCK, place.memory->bufferOf.size());
    uint16_t last = 0;
    for (uint64_t block = place.offset / BLOCK; block < stop; ++block) {
        uint16_t number = place.memory->bufferOf[block];
        place.memory->bufferOf[block] = 0;
        if (number != 0 && number != last) {
            Buffer& buffer = core_->buffers[number - 1];
            bool queued = buffer.state == TensorState::ENQUE;
            if (queued || buffer.state == TensorState::OCCUPIED || buffer.state == TensorState::DEQUE) {
                violate("queue-leak", "TBufPool::Reset", "tensor", "", buffer.name, 0,
                        "'%s' was %s when its pool was reset", buffer.name.c_str(),
                        queued ? "still enqueued (no DeQue)" : "not freed");
            }
            buffer.state = TensorState::PLAIN;
            last = number;
        }
    }
}

// The buffers are gone: TPipe::Reset, TPipe::Destroy or the end of the TPipe.
void Engine::bufferReset()
{
    if (core_ == nullptr) {
        return;
    }
    reportLeaks();
    for (Memory& memory : core_->memory) {
        std::fill(memory.bufferOf.begin(), memory.bufferOf.end(), 0);
    }
    core_->buffers.clear();
    core_->buffersMade = 0;
}

Buffer* Engine::bufferOfTensor(void* base)
{
    Place place = find(base);
    const Buffer* buffer = bufferAt(place);
    return buffer != nullptr && buffer->start == place.offset ? const_cast<Buffer*>(buffer) : nullptr;
}

void Engine::queue(TensorState to, const char* call, void* base, Position position)
{
    if (core_ == nullptr) {
        return;
    }
    Buffer* buffer = bufferOfTensor(base);
    if (buffer == nullptr) {
        Place place = find(base);
        violate("foreign-tensor", call, "tensor", "", placeName(place), static_cast<int64_t>(place.offset),
                "the tensor does not start at a buffer of a %s queue", positionName(position));
        return;
    }
    TensorState from = buffer->state;
    bool ok = true;
    switch (to) {
        case TensorState::OCCUPIED: ok = from == TensorState::FREE || from == TensorState::PLAIN; break;
        case TensorState::ENQUE: ok = from == TensorState::OCCUPIED || from == TensorState::DEQUE; break;
        case TensorState::DEQUE: ok = from == TensorState::ENQUE; break;
        case TensorState::FREE:
            ok = from == TensorState::OCCUPIED || from == TensorState::DEQUE || from == TensorState::ENQUE;
            break;
        default: break;
    }
    if (!ok) {
        const char* rule = to == TensorState::FREE ? "double-free" : "queue-state";
        violate(rule, call, "tensor", "", buffer->name, 0, "'%s' is %s%s%s", buffer->name.c_str(),
                stateName(from), buffer->node != nullptr && *buffer->node != 0 ? " since node " : "",
                buffer->node != nullptr ? buffer->node : "");
    } else if (to == TensorState::FREE && from == TensorState::ENQUE) {
        violate("queue-state", call, "tensor", "", buffer->name, 0, "'%s' is freed without DeQue",
                buffer->name.c_str());
    }
    buffer->state = to;
    buffer->node = core_->node;
    if (to == TensorState::OCCUPIED) {
        // A new tensor holds nothing yet; who used the memory before still counts for order.
        Memory* memory = find(base).memory;
        StatePool& pool = memory->shadow.pool();
        uint64_t end = std::min(buffer->start + buffer->bytes, memory->bytes);
        forStates(memory->shadow, buffer->start, end, [&](uint32_t id, uint32_t slots, uint64_t, uint64_t) {
            if (id == 0 || !pool[id].initialised) {
                return id;
            }
            if (pool[id].slots == slots) {
                pool[id].initialised = false;
                return id;
            }
            uint32_t fresh = pool.copyState(id);
            pool[fresh].initialised = false;
            pool[fresh].slots = slots;
            pool.release(id, slots);
            return fresh;
        });
    }
}

void Engine::reservedUb(const char* api)
{
    if (core_ == nullptr) {
        return;
    }
    uint64_t usable = core_->memory[static_cast<size_t>(Hardware::UB)].bytes - TOP_RESERVED - BORROWED;
    for (const Buffer& buffer : core_->buffers) {
        if (HardwareOf(buffer.position) == Hardware::UB && buffer.start + buffer.bytes > usable) {
            violate("reserved-ub", api, "", "V", buffer.name, static_cast<int64_t>(buffer.start),
                    "%s borrows the top 8 KiB of UB, but '%s' ends at byte %" PRIu64 " (usable: %" PRIu64 ")",
                    api, buffer.name.c_str(), buffer.start + buffer.bytes, usable);
        }
    }
}

}  // namespace check
}  // namespace gaf_twin
