// SPDX-License-Identifier: Apache-2.0
// Start and end of launches and cores, and names for messages.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "operand.h"
#include "twin/core.h"

namespace gaf_twin {
namespace check {

const char* pipeName(uint32_t pipe)
{
    static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
    return pipe < PIPES ? names[pipe] : "ALL";
}

const char* memoryName(Hardware hardware)
{
    static const char* const names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return static_cast<uint32_t>(hardware) < MEMORIES ? names[static_cast<uint32_t>(hardware)] : "no memory";
}

const char* positionName(Position position)
{
    static const char* const names[] = {"GM",  "A1",   "A2",        "B1",          "B2",     "C1",
                                        "C2",  "CO1",  "CO2",       "VECIN",       "VECOUT", "VECCALC",
                                        "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
    return position < Position::MAX ? names[static_cast<uint32_t>(position)] : "?";
}

namespace {

// "MTE2_V" and so on, made once from the pipes of every event.
struct EventNames {
    char text[static_cast<size_t>(HardEvent::MAX)][12];
    EventNames()
    {
        for (uint32_t e = 0; e < static_cast<uint32_t>(HardEvent::MAX); ++e) {
            EventPipes pipes = PipesOf(static_cast<HardEvent>(e));
            snprintf(text[e], sizeof text[e], "%s_%s", pipeName(static_cast<uint32_t>(pipes.src)),
                     pipeName(static_cast<uint32_t>(pipes.dst)));
        }
    }
};

const EventNames& eventNames()
{
    static const EventNames names;
    return names;
}

}  // namespace

const char* eventName(HardEvent event)
{
    return event < HardEvent::MAX ? eventNames().text[static_cast<size_t>(event)] : "?";
}

const char* eventName(uint32_t srcPipe, uint32_t dstPipe)
{
    for (uint32_t e = 0; e < static_cast<uint32_t>(HardEvent::MAX); ++e) {
        EventPipes pipes = PipesOf(static_cast<HardEvent>(e));
        if (static_cast<uint32_t>(pipes.src) == srcPipe && static_cast<uint32_t>(pipes.dst) == dstPipe) {
            return eventNames().text[e];
        }
    }
    return nullptr;
}

Engine& engine()
{
    static thread_local std::unique_ptr<Engine> mine;
    if (mine == nullptr) {
        mine = std::make_unique<Engine>();
    }
    return *mine;
}

void Engine::launchBegin(const char* kernel, uint32_t blocks, int kernelType)
{
    report_.clear();
    report_.setKernel(kernel);
    notes_.clear();
    notes_.setKernel(kernel);
    inputsFinite_ = true;
    kernelType_ = kernelType;
    autoSync_ = false;
    blocks_ = blocks;
    aics_ = kernelType == KERNEL_AIV_ONLY || kernelType == KERNEL_MIX_AIV_1_0 ? 0 : 1;
    aivs_ = kernelType == KERNEL_AIC_ONLY || kernelType == KERNEL_MIX_AIC_1_0 ? 0
          : kernelType == KERNEL_MIX_AIC_1_2 ? 2 : 1;
    size_t roster = static_cast<size_t>(blocks) * (aics_ + aivs_);
    cores_.clear();
    cores_.resize(roster);
    core_ = nullptr;
    arguments_.clear();
    lastArgument_ = nullptr;
    gmPool_.reset();
    counters_.assign(roster, {});
    pending_.assign(roster, {});
    posts_.clear();
    barriers_[0].generations.clear();
    barriers_[1].generations.clear();
}

void Engine::gmBind(const void* p, uint64_t bytes, const char* name, GmRole role)
{
    if (p == nullptr || bytes == 0) {
        return;
    }
    const uint8_t* base = static_cast<const uint8_t*>(p);
    for (auto& other : arguments_) {
        if (base < other->base + other->bytes && other->base < base + bytes) {
            // Two arguments share memory (an output in place of an input): one region that is read and
            // written.
            const uint8_t* end = std::max(other->base + other->bytes, base + bytes);
            other->base = std::min(other->base, base);
            other->bytes = static_cast<uint64_t>(end - other->base);
            other->name += std::string("/") + name;
            other->role = GmRole::IN_OUT;
            other->shadow = Shadow(other->bytes, &gmPool_, true);
            return;
        }
    }
    auto argument = std::make_unique<Argument>();
    argument->base = base;
    argument->bytes = bytes;
    argument->name = name != nullptr ? name : "argument";
    argument->role = role;
    if (role != GmRole::INPUT) {
        argument->shadow = Shadow(bytes, &gmPool_, role == GmRole::IN_OUT);
    }
    auto at = std::upper_bound(arguments_.begin(), arguments_.end(), argument,
                               [](const auto& a, const auto& b) { return a->base < b->base; });
    arguments_.insert(at, std::move(argument));
    lastArgument_ = nullptr;
}

uint16_t Engine::rosterNumber(CoreKind kind, uint32_t block, uint32_t sub) const
{
    return static_cast<uint16_t>(block * (aics_ + aivs_) + (kind == CoreKind::AIC ? 0 : aics_ + sub));
}

std::string Engine::coreName(uint16_t number) const
{
    uint32_t perBlock = aics_ + aivs_;
    if (perBlock == 0 || number == NOBODY) {
        return "";
    }
    uint32_t block = number / perBlock, at = number % perBlock;
    if (at < aics_) {
        return "AIC " + std::to_string(block);
    }
    return "AIV " + std::to_string(block * aivs_ + at - aics_);
}

int Engine::coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const Arena* arenas, uint32_t count)
{
    uint16_t number = rosterNumber(kind, block, sub);
    if (number >= cores_.size()) {
        return -1;
    }
    std::unique_ptr<Core> core;
    if (!spare_.empty()) {
        core = std::move(spare_.back());
        spare_.pop_back();
    } else {
        core = std::make_unique<Core>();
    }
    core->kind = kind;
    core->block = block;
    core->sub = sub;
    core->number = number;
    core->begun = true;
    core->ended = false;
    core->buffers.clear();
    core->buffersMade = 0;
    core->pool.reset();
    core->clock.reset(number, cores_.size());
    for (auto& ids : core->flags) {
        ids.fill(HardFlag{});
    }
    core->given = {};
    core->node = "";
    core->atomic = core->counterMode = core->staticTensors = false;
    core->dirtyLines.clear();
    core->watchedLines.clear();
    core->api = nullptr;
    core->opFlags = 0;
    core->operands.clear();
    core->source = nullptr;
    core->blockedOn = ON_NOTHING;
    core->barrierGeneration[0] = core->barrierGeneration[1] = 0;
    for (Memory& memory : core->memory) {
        memory.base = nullptr;
        memory.bytes = 0;
    }
    for (uint32_t i = 0; i < count; ++i) {
        Memory& memory = core->memory[static_cast<size_t>(arenas[i].hardware)];
        memory.base = arenas[i].base;
        memory.bytes = arenas[i].bytes;
        memory.shadow = Shadow(memory.bytes, &core->pool, false);
        memory.bufferOf.assign((memory.bytes + BLOCK - 1) / BLOCK, 0);
    }
    core_ = core.get();
    cores_[number] = std::move(core);
    return number;
}

void Engine::coreSwitch(int core)
{
    core_ = core >= 0 && static_cast<size_t>(core) < cores_.size() ? cores_[core].get() : nullptr;
}

void Engine::coreEnd()
{
    if (core_ == nullptr) {
        return;
    }
    reportLeftovers(*core_);
    core_->ended = true;
    spare_.push_back(std::move(cores_[core_->number]));
    core_ = nullptr;
}

void Engine::reportLeftovers(Core& core)
{
    reportLeaks();
    for (size_t e = 0; e < core.flags.size(); ++e) {
        for (int id = 0; id < EVENT_IDS; ++id) {
            const HardFlag& flag = core.flags[e][id];
            if (flag.set) {
                const char* name = eventName(static_cast<HardEvent>(e));
                violate("flag-left-set", "kernel end", "", name, "", -1,
                        "flag %s id %d was set (at node '%s') and never waited for: it stays set for the "
                        "next kernel",
                        name, id, flag.node != nullptr ? flag.node : "");
            }
        }
    }
    if (core.atomic) {
        violate("atomic-left-on", "kernel end", "", "", "", -1,
                "the atomic mode of GM writes is still on: call SetAtomicNone");
    }
    if (core.counterMode) {
        violate("counter-mode-left-on", "kernel end", "", "V", "", -1,
                "the vector mask is still in counter mode: call SetMaskNorm and ResetMask");
    }
    if (!core.dirtyLines.empty()) {
        Place place =
            find(reinterpret_cast<const void*>(*core.dirtyLines.begin() * CACHE_LINE + CACHE_LINE - 1));
        violate("cache-not-cleaned", "kernel end", "", "S", placeName(place),
                static_cast<int64_t>(place.offset),
                "%zu lines that the scalar unit wrote to GM are still in its cache: call "
                "DataCacheCleanAndInvalid",
                core.dirtyLines.size());
    }
}

void Engine::crossBlock(int id)
{
    if (core_ != nullptr) {
        core_->blockedOn = id;
    }
}

void Engine::deadlock()
{
    std::string who;
    int named = 0, blocked = 0;
    for (const auto& core : cores_) {
        if (core == nullptr || core->blockedOn == ON_NOTHING) {
            continue;
        }
        ++blocked;
        if (++named > 6) {
            continue;
        }
        who += named == 1 ? "" : "; ";
        who += coreName(core->number);
        who += core->blockedOn == ON_POLLING ? std::string(" polls global memory for a value that nobody writes")
               : core->blockedOn == ON_SYNC_ALL ? std::string(" waits for SyncAll")
                                                : " waits for flag " + std::to_string(core->blockedOn);
        if (core->node != nullptr && *core->node != 0) {
            who += std::string(" at node ") + core->node;
        }
    }
    if (blocked > 6) {
        who += "; and " + std::to_string(blocked - 6) + " more cores";
    }
    core_ = nullptr;
    violate("deadlock", "CrossCoreWaitFlag", "", "", "", -1, "no core can go on: %s", who.c_str());
}

void Engine::reportUnwritten(Argument& argument)
{
    uint64_t missing = 0;
    int64_t first = -1;
    forStates(argument.shadow, 0, argument.bytes,
              [&](uint32_t id, uint32_t, uint64_t offset, uint64_t bytes) {
                  if (id == 0 || gmPool_[id].writer.stamp.core == NOBODY) {
                      first = first < 0 ? static_cast<int64_t>(offset) : first;
                      missing += bytes;
                  }
                  return id;
              });
    if (missing != 0) {
        violate("output-not-written", "kernel end", argument.name.c_str(), "", argument.name, first,
                "%" PRIu64 " of %" PRIu64
                " bytes of output '%s' were never written, the first at byte %" PRId64,
                missing, argument.bytes, argument.name.c_str(), first);
    }
}

void Engine::launchEnd()
{
    core_ = nullptr;
    for (uint16_t number = 0; number < counters_.size(); ++number) {
        for (int id = 0; id < CROSS_IDS; ++id) {
            size_t left = counters_[number][id].arrived.size();
            if (left != 0) {
                violate("cross-flag-left-set", "kernel end", "", "", "", -1,
                        "flag %d of %s was set %zu times more than waited for", id, coreName(number).c_str(),
                        left);
            }
            for (int mode = 0; mode < 3; ++mode) {
                size_t half = pending_[number].byMode[mode][id].size();
                if (half != 0) {
                    violate("cross-flag-left-set", "kernel end", "", "", "", -1,
                            "%s set flag %d in mode %d %zu times more than its partners: it releases nobody",
                            coreName(number).c_str(), id, mode, half);
                }
            }
        }
    }
    for (auto& argument : arguments_) {
        if (argument->role == GmRole::OUTPUT) {
            reportUnwritten(*argument);
        }
    }
    for (auto& core : cores_) {
        if (core != nullptr) {
            spare_.push_back(std::move(core));   // a core that a deadlock stopped
        }
    }
    arguments_.clear();
    lastArgument_ = nullptr;
}

void Engine::gmView(const void* p, uint64_t bytes)
{
    if (core_ == nullptr || bytes == 0) {
        return;
    }
    Place place = find(p);
    if (place.argument != nullptr && place.offset + bytes > place.argument->bytes) {
        note("gm-view", Operand{"SetGlobalBuffer", "buffer", "", false, ""}, place,
             "a view of %" PRIu64 " bytes at byte %" PRIu64 " of '%s', which has %" PRIu64 " bytes", bytes,
             place.offset, place.argument->name.c_str(), place.argument->bytes);
    }
}

void Engine::cacheCleaned(const void* p)
{
    if (core_ == nullptr) {
        return;
    }
    std::set<uintptr_t> lines;
    if (p == nullptr) {
        lines = core_->dirtyLines;
    } else {
        lines.insert(reinterpret_cast<uintptr_t>(p) / CACHE_LINE);
    }
    for (uintptr_t line : lines) {
        const uint64_t key = PostKey(PostKind::LINE, line, 0);
        if (core_->dirtyLines.erase(line) != 0) {
            post(key, false);
        } else {
            cacheDropped(reinterpret_cast<const void*>(line * CACHE_LINE));
        }
    }
}

void Engine::cacheDropped(const void* p)
{
    if (core_ != nullptr) {
        const uintptr_t line = reinterpret_cast<uintptr_t>(p) / CACHE_LINE;
        core_->watchedLines.insert(line);
        awaitPosts(PostKey(PostKind::LINE, line, 0), ~uint64_t(0));
    }
}

void Engine::counterMode(bool on)
{
    if (core_ != nullptr) {
        core_->counterMode = on;
    }
}

void Engine::atomicMode(bool on)
{
    if (core_ != nullptr) {
        core_->atomic = on;
    }
}

void Engine::setNode(const char* node)
{
    if (core_ != nullptr) {
        core_->node = node != nullptr ? node : "";
    }
}

const char* Engine::currentPipe(const char* api) const
{
    return core_ != nullptr && core_->api == api ? pipeName(core_->pipe) : "";
}

void Engine::violateV(const char* rule, const char* api, const char* operand, const char* pipe,
                      const std::string& buffer, int64_t offset, const char* format, va_list args)
{
    char text[600];
    vsnprintf(text, sizeof text, format, args);
    Violation v;
    v.rule = rule;
    v.api = api;
    v.operand = operand;
    v.buffer = buffer;
    v.offset = offset;
    v.core = core_ != nullptr ? coreName(core_->number) : "";
    v.pipe = pipe;
    v.node = core_ != nullptr ? core_->node : "";
    v.message = text;
    report_.add(std::move(v));
    if (core_ != nullptr && report_.total() == TOO_MANY) {   // a loop that ran away
        Abandon("too-many-violations", "the kernel is given up after too many violations");
    }
}

void Engine::violate(const char* rule, const char* api, const char* operand, const char* pipe,
                     const std::string& buffer, int64_t offset, const char* format, ...)
{
    va_list args;
    va_start(args, format);
    violateV(rule, api, operand, pipe, buffer, offset, format, args);
    va_end(args);
}

}  // namespace check
}  // namespace gaf_twin
