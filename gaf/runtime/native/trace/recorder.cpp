// SPDX-License-Identifier: Apache-2.0
// Recording: what a kernel announces, in order of execution, with the cycles that are known at once.
#include "recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "twin/types.h"

namespace gaf_twin {
namespace trace {

namespace {

thread_local Recorder* current = nullptr;

constexpr uint64_t LINE = 64;  // of the scalar unit's data cache

// Operands that the instruction works through, in contrast to scratch and masks.
bool isData(const char* operand)
{
    return strncmp(operand, "src", 3) == 0 || strncmp(operand, "dst", 3) == 0;
}

}  // namespace

Recorder* active() { return current; }
void activate(Recorder* recorder) { current = recorder; }

uint16_t Recorder::Names::of(const char* name)
{
    auto known = byAddress.find(name);
    if (known != byAddress.end()) {
        return known->second;
    }
    const auto next = static_cast<uint16_t>(std::min<size_t>(text.size(), 65535));
    auto [at, isNew] = byText.emplace(name, next);
    if (isNew && text.size() < 65536) {
        text.emplace_back(name);
    }
    byAddress.emplace(name, at->second);
    return at->second;
}

Recorder::Recorder(const GafTraceCosts& costs) : costs_(costs), timing_(*costs.timing) { nodes_.of(""); }

uint32_t Recorder::rosterNumber(CoreKind kind, uint32_t block, uint32_t sub) const
{
    return block * (aics_ + aivs_) + (kind == CoreKind::AIC ? 0 : aics_ + sub);
}

void Recorder::launchBegin(uint32_t blocks, int type)
{
    blocks_ = blocks;
    const bool cube = type == KERNEL_TYPE_AIC_ONLY || type == KERNEL_TYPE_MIX_AIC_1_0 ||
                      type == KERNEL_TYPE_MIX_AIC_1_1 || type == KERNEL_TYPE_MIX_AIC_1_2;
    aics_ = cube ? 1 : 0;
    aivs_ = type == KERNEL_TYPE_MIX_AIC_1_2                                     ? 2
            : type == KERNEL_TYPE_AIC_ONLY || type == KERNEL_TYPE_MIX_AIC_1_0 ? 0
                                                                              : 1;
    cores_.resize(static_cast<size_t>(blocks) * (aics_ + aivs_));
}

void Recorder::gmBind(const void* p, uint64_t bytes, check::GmRole role)
{
    Argument a;
    a.base = static_cast<const uint8_t*>(p);
    a.bytes = bytes;
    a.role = role;
    arguments_.push_back(std::move(a));
}

int Recorder::coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const check::Arena* arenas,
                        uint32_t count)
{
    flush();
    core_ = rosterNumber(kind, block, sub);
    Core& c = cores_[core_];
    c.kind = kind;
    c.block = block;
    c.sub = sub;
    c.arenaCount = count;
    std::copy(arenas, arenas + count, c.arenas);
    add(Kind::BEGIN, 0);
    return static_cast<int>(core_);
}

void Recorder::coreSwitch(int core)
{
    flush();
    core_ = static_cast<uint32_t>(core);
}

void Recorder::coreEnd()
{
    flush();
    add(Kind::END, 0);
}

Event& Recorder::add(Kind kind, uint32_t pipe)
{
    Event e{};
    e.kind = kind;
    e.pipe = static_cast<uint8_t>(pipe);
    e.core = core_;
    e.node = cores_[core_].node;
    events_.push_back(e);
    return events_.back();
}

void Recorder::op(Pipe pipe, const char* api)
{
    flush();
    pending_ = Pending();
    pending_.open = true;
    pending_.pipe = pipe;
    pending_.api = api;
    pending_.range = static_cast<uint32_t>(ranges_.size());
}

// Where the bytes lie; whether they exist: the API skips a call that would leave memory.
bool Recorder::access(const char* api, const char* operand, bool write, const void* ptr, uint64_t runBytes,
                      uint32_t runs, int64_t stride, check::View view, uint32_t outer, int64_t outerStride)
{
    if (runBytes == 0 || runs == 0 || outer == 0) {
        return true;
    }
    if (!pending_.open) {
        op(Pipe::S, api);
    }
    const int64_t span = stride * (int64_t(runs) - 1), outerSpan = outerStride * (int64_t(outer) - 1);
    const int64_t low = std::min<int64_t>(span, 0) + std::min<int64_t>(outerSpan, 0);
    const int64_t high =
        std::max<int64_t>(span, 0) + std::max<int64_t>(outerSpan, 0) + static_cast<int64_t>(runBytes);
    const uint8_t* p = static_cast<const uint8_t*>(ptr);
    const uint64_t bytes = runBytes * runs * outer;
    Core& c = cores_[core_];
    for (uint32_t i = 0; i < c.arenaCount; ++i) {
        const check::Arena& arena = c.arenas[i];
        if (p < arena.base || p >= arena.base + arena.bytes) {
            continue;
        }
        if (p + low < arena.base || p + high > arena.base + arena.bytes) {
            break;
        }
        local_[static_cast<uint32_t>(arena.hardware)][write ? 1 : 0] += bytes;
        if (write) {
            pending_.toMemory[static_cast<uint32_t>(arena.hardware)] += bytes;
        }
        if (pending_.pipe == Pipe::S) {
            pending_.scalar += timing_.scalarUb;
        } else if (pending_.pipe == Pipe::M) {
            const uint32_t width = strcmp(operand, "fm") == 0 ? view.element : 0;
            pending_.element = std::max(pending_.element, width);
        } else if (isData(operand)) {
            pending_.element = std::max<uint32_t>(pending_.element, view.element);
            pending_.repeats = std::max(pending_.repeats, outer * ((runBytes * runs + 255) / 256));
        }
        return true;
    }
    for (uint32_t i = 0; i < arguments_.size(); ++i) {
        Argument& a = arguments_[i];
        if (p < a.base || p >= a.base + a.bytes) {
            continue;
        }
        if (p + low < a.base || p + high > a.base + a.bytes) {
            break;
        }
        const uint64_t offset = static_cast<uint64_t>(p - a.base);
        if (pending_.pipe == Pipe::S) {
            const uint64_t line = (reinterpret_cast<uintptr_t>(p)) / LINE;
            pending_.scalar += line == c.line ? timing_.scalarGmHit : timing_.scalarGmMiss;
            c.line = line;
        }
        const Range range{i, write, runs, outer, offset, runBytes, stride, outerStride};
        ranges_.push_back(range);
        ++pending_.ranges;
        touch(a, range);
        return true;
    }
    ++faults_;
    if (fault_.empty()) {
        fault_ = std::string(api) + ": " + operand + " lies outside of every buffer and argument";
    }
    return false;
}

void Recorder::touch(Argument& a, const Range& r)
{
    std::vector<uint16_t>& counts = r.write ? a.writes : a.reads;
    if (counts.empty()) {
        counts.assign((a.bytes + BLOCK - 1) / BLOCK, 0);
    }
    (r.write ? a.written : a.read) += r.bytes();
    a.unaligned += r.offset % 512 != 0 ? r.bytes() : 0;
    for (uint32_t o = 0; o < r.outer; ++o) {
        uint64_t next = 0;  // blocks below were counted for this instruction: rows that share a block
        for (uint32_t k = 0; k < r.runs; ++k) {
            const uint64_t start =
                static_cast<uint64_t>(static_cast<int64_t>(r.offset) + o * r.outerStride + k * r.stride);
            const uint64_t last = (start + r.runBytes - 1) / BLOCK;
            for (uint64_t b = r.stride >= 0 ? std::max(start / BLOCK, next) : start / BLOCK; b <= last; ++b) {
                counts[b] = static_cast<uint16_t>(counts[b] + (counts[b] != 65535 ? 1 : 0));
            }
            next = last + 1;
        }
    }
}

void Recorder::fault(const char* rule, const char* api, const char* format, va_list args)
{
    ++faults_;
    if (fault_.empty()) {
        char text[400];
        vsnprintf(text, sizeof text, format, args);
        fault_ = std::string(rule) + ": " + api + ": " + text;
    }
}

const GafTraceVectorCost& Recorder::vectorCost(uint16_t api, uint32_t element)
{
    const uint32_t key = uint32_t(api) << 8 | element;
    auto known = costOf_.find(key);
    if (known != costOf_.end()) {
        return *known->second;
    }
    const GafTraceVectorCost* found = nullptr;
    const GafTraceVectorCost* fallback = nullptr;
    for (uint32_t i = 0; i < costs_.vectors; ++i) {
        const GafTraceVectorCost& row = costs_.vector[i];
        if (row.elementBytes != element) {
            continue;
        }
        fallback = &row;
        if (strncmp(row.api, apis_.text[api].c_str(), sizeof row.api) == 0) {
            found = &row;
            break;
        }
    }
    if (found == nullptr) {
        found = fallback != nullptr ? fallback : &costs_.vector[costs_.vectors - 1];
        if (std::find(unknown_.begin(), unknown_.end(), api) == unknown_.end()) {
            unknown_.push_back(api);
        }
    }
    costOf_.emplace(key, found);
    return *found;
}

// Ends the announced instruction: it becomes an event.
void Recorder::flush()
{
    if (!pending_.open) {
        return;
    }
    pending_.open = false;
    const Pending& p = pending_;
    Event& e = add(Kind::INSTRUCTION, static_cast<uint32_t>(p.pipe));
    e.api = apis_.of(p.api);
    e.range = p.range;
    e.ranges = p.ranges;
    const auto memory = [&p](Hardware h) { return p.toMemory[static_cast<uint32_t>(h)]; };
    switch (p.pipe) {
        case Pipe::S: e.occupied = static_cast<float>(p.scalar); break;
        case Pipe::V:
            if (p.repeats != 0 && p.element != 0) {
                const uint32_t width = p.element > 8 ? 8 : p.element;
                const GafTraceVectorCost& cost = vectorCost(e.api, width);
                e.occupied = static_cast<float>(cost.slope * static_cast<double>(p.repeats * (256 / width)));
                e.latency = static_cast<float>(cost.start);
            }
            break;
        case Pipe::M:
            e.occupied = static_cast<float>(p.amount * costs_.fractalCycles[p.element > 8 ? 8 : p.element]);
            e.latency = static_cast<float>(timing_.mmadStart);
            break;
        case Pipe::MTE1:
            e.occupied = static_cast<float>(memory(Hardware::L0A) / timing_.mte1L0a +
                                            memory(Hardware::L0B) / timing_.mte1L0b +
                                            memory(Hardware::BIAS) / timing_.mte1Table +
                                            memory(Hardware::FIXBUF) / timing_.mte1Table);
            e.latency = static_cast<float>(timing_.mte1Start);
            break;
        default: break;  // copies with a GM side: replay
    }
    for (uint64_t bytes : p.toMemory) {
        e.bytes += bytes;
    }
}

// ---- order ------------------------------------------------------------------------------------------------

void Recorder::setFlag(HardEvent event, int id)
{
    flush();
    Event& e = add(Kind::SET_FLAG, static_cast<uint32_t>(PipesOf(event).src));
    e.other = static_cast<uint8_t>(PipesOf(event).dst);
    e.id = static_cast<uint8_t>(id & 7);
}

void Recorder::waitFlag(HardEvent event, int id)
{
    flush();
    Event& e = add(Kind::WAIT_FLAG, static_cast<uint32_t>(PipesOf(event).src));
    e.other = static_cast<uint8_t>(PipesOf(event).dst);
    e.id = static_cast<uint8_t>(id & 7);
}

void Recorder::barrier(Pipe pipe)
{
    flush();
    add(Kind::BARRIER, static_cast<uint32_t>(pipe));
}

void Recorder::crossSet(int mode, Pipe pipe, int id)
{
    flush();
    Event& e = add(Kind::CROSS_SET, static_cast<uint32_t>(pipe));
    e.other = static_cast<uint8_t>(mode);
    e.id = static_cast<uint8_t>(id & 15);
}

void Recorder::crossWait(int id)
{
    flush();
    add(Kind::CROSS_WAIT, 0).id = static_cast<uint8_t>(id & 15);
}

void Recorder::syncAll(bool arrive, bool mix)
{
    flush();
    add(arrive ? Kind::ARRIVE : Kind::LEAVE, 0).other = mix ? 1 : 0;
}

void Recorder::setNode(const char* node)
{
    flush();
    cores_[core_].node = nodes_.of(node != nullptr ? node : "");
}

GafTrace* Recorder::finish()
{
    flush();
    return replay(*this);
}

}  // namespace trace
}  // namespace gaf_twin
