// SPDX-License-Identifier: Apache-2.0
// Flags inside a core, barriers, flags between cores and SyncAll: order, limits and pairing.
#include <algorithm>
#include <cinttypes>

#include "engine.h"

namespace gaf_twin {
namespace check {

namespace {

constexpr int FIRST_PIPE_EVENT_ID = 6;     // 6 and 7 belong to TPipe
constexpr int FIRST_RESERVED_CROSS_ID = 11, LAST_RESERVED_CROSS_ID = 14;   // SyncAll and the hardware

// Whether the hardware of a core kind has a flag from `src` to `dst`.
bool eventExists(CoreKind kind, Pipe src, Pipe dst)
{
    auto isVector = [](Pipe p) { return p == Pipe::S || p == Pipe::V || p == Pipe::MTE2 || p == Pipe::MTE3; };
    if (src == dst || src >= Pipe::COUNT || dst >= Pipe::COUNT) {
        return false;
    }
    if (kind == CoreKind::AIV) {
        return isVector(src) && isVector(dst);
    }
    switch (src) {
        case Pipe::M: return dst == Pipe::MTE1 || dst == Pipe::MTE2 || dst == Pipe::FIX;
        case Pipe::MTE1: return dst == Pipe::M || dst == Pipe::MTE2 || dst == Pipe::MTE3 || dst == Pipe::FIX;
        case Pipe::MTE2: return dst == Pipe::M || dst == Pipe::MTE1 || dst == Pipe::MTE3 || dst == Pipe::FIX;
        case Pipe::MTE3: return dst == Pipe::MTE1 || dst == Pipe::MTE2 || dst == Pipe::FIX;
        case Pipe::FIX: return dst == Pipe::M || dst == Pipe::MTE1 || dst == Pipe::MTE2 || dst == Pipe::MTE3;
        default: return false;
    }
}

// The queue by which a vector core hands a tensor in L1 to a matmul object, whose pipes are the cube core's.
bool handsToMatmul(const Core& core, EventPipes pipes)
{
    return core.kind == CoreKind::AIV && (pipes.src == Pipe::MTE1 || pipes.dst == Pipe::MTE1) &&
           core.memory[static_cast<size_t>(AscendC::Hardware::L1)].bytes != 0;
}

}  // namespace

void Engine::giveEvent(HardEvent event, int id)
{
    if (core_ != nullptr && id >= 0 && id < EVENT_IDS) {
        core_->given[static_cast<size_t>(event)][id] = true;
    }
}

void Engine::setFlag(HardEvent event, int id, bool byPipe)
{
    if (core_ == nullptr) {
        return;
    }
    EventPipes pipes = PipesOf(event);
    const char* name = eventName(event);
    if (!eventExists(core_->kind, pipes.src, pipes.dst) && !(byPipe && handsToMatmul(*core_, pipes))) {
        violate("event-kind", "SetFlag", "", name, "", -1, "%s has no flag %s",
                coreName(core_->number).c_str(), name);
        return;
    }
    if (id < 0 || id >= EVENT_IDS) {
        violate("event-id", "SetFlag", "", name, "", -1, "event id %d of %s: ids are 0..7", id, name);
        return;
    }
    if (!byPipe && id >= FIRST_PIPE_EVENT_ID && !core_->given[static_cast<size_t>(event)][id]) {
        violate("event-id", "SetFlag", "", name, "", -1, "event id %d of %s belongs to TPipe: use 0..5", id,
                name);
    }
    HardFlag& flag = core_->flags[static_cast<size_t>(event)][id];
    if (flag.set) {
        violate("flag-set-twice", "SetFlag", "", name, "", -1,
                "flag %s id %d is set again before a WaitFlag took the first (set at node '%s')", name, id,
                flag.node != nullptr ? flag.node : "");
    }
    flag.set = true;
    flag.row = core_->clock.completed(pipes.src);
    flag.node = core_->node;
    core_->clock.issue();
}

void Engine::waitFlag(HardEvent event, int id, bool byPipe)
{
    if (core_ == nullptr) {
        return;
    }
    EventPipes pipes = PipesOf(event);
    const char* name = eventName(event);
    if (!eventExists(core_->kind, pipes.src, pipes.dst) && !(byPipe && handsToMatmul(*core_, pipes))) {
        violate("event-kind", "WaitFlag", "", name, "", -1, "%s has no flag %s",
                coreName(core_->number).c_str(), name);
        return;
    }
    if (id < 0 || id >= EVENT_IDS) {
        violate("event-id", "WaitFlag", "", name, "", -1, "event id %d of %s: ids are 0..7", id, name);
        return;
    }
    if (!byPipe && id >= FIRST_PIPE_EVENT_ID && !core_->given[static_cast<size_t>(event)][id]) {
        violate("event-id", "WaitFlag", "", name, "", -1, "event id %d of %s belongs to TPipe: use 0..5", id,
                name);
    }
    HardFlag& flag = core_->flags[static_cast<size_t>(event)][id];
    if (!flag.set) {
        violate("wait-without-set", "WaitFlag", "", name, "", -1,
                "nothing has set flag %s id %d: the core would wait for ever", name, id);
        return;
    }
    flag.set = false;
    core_->clock.learn(pipes.dst, flag.row);
    core_->clock.issue();
}

void Engine::barrier(Pipe pipe)
{
    if (core_ == nullptr) {
        return;
    }
    if (pipe == Pipe::S) {
        violate("barrier-pipe", "PipeBarrier", "", "S", "", -1, "PipeBarrier<PIPE_S> does not exist");
        return;
    }
    core_->clock.barrier(pipe);
    core_->clock.issue();
}

bool Engine::hasScheduler() const
{
    return kernelType_ != KERNEL_AIV_ONLY && kernelType_ != KERNEL_AIC_ONLY;
}

// A barrier of all cores needs all of them to run at the same time.
void Engine::checkAllResident(const char* api)
{
    uint32_t limit = aics_ == 0 ? 2 * MAX_BLOCKS / aivs_ : MAX_BLOCKS;
    if (blocks_ > limit) {
        violate("too-many-blocks", api, "", "", "", -1,
                "%u blocks wait for each other, but at most %u run at the same time", blocks_, limit);
    }
}

void Engine::deliver(uint16_t to, int id, int mode, const Vector& message)
{
    CrossCounter& counter = counters_[to][id];
    if (!counter.arrived.empty() && counter.mode != mode) {
        violate("cross-flag-mode", "CrossCoreSetFlag", "", "", "", -1,
                "flag %d of %s is set in mode %d while sets of mode %d are not yet waited for", id,
                coreName(to).c_str(), mode, counter.mode);
    }
    counter.mode = mode;
    counter.arrived.push_back(message);
    ++counter.sets;
    // Waits that surely came before this set: those whose issue the message knows of.
    uint32_t known = message[static_cast<size_t>(to) * ROW + ISSUE];
    size_t waited = static_cast<size_t>(
        std::upper_bound(counter.waits.begin(), counter.waits.end(), known) - counter.waits.begin());
    if (counter.sets - waited > CROSS_LIMIT) {
        violate("cross-flag-overflow", "CrossCoreSetFlag", "", "", "", -1,
                "flag %d of %s may reach %zu: the counter holds 15 (let the waiting core set a flag back)",
                id, coreName(to).c_str(), static_cast<size_t>(counter.sets) - waited);
    }
}

// Takes one set of every core in `from` when each has one; `all` becomes their joint message.
bool Engine::popPending(const std::vector<uint16_t>& from, int mode, int id, Vector& all)
{
    for (uint16_t core : from) {
        if (pending_[core].byMode[mode][id].empty()) {
            return false;
        }
    }
    for (uint16_t core : from) {
        std::deque<Vector>& sets = pending_[core].byMode[mode][id];
        join(all, sets.front());
        sets.pop_front();
    }
    return true;
}

void Engine::crossSet(int mode, Pipe pipe, int id)
{
    if (core_ == nullptr) {
        return;
    }
    const char* api = "CrossCoreSetFlag";
    const char* pipeText = pipe < Pipe::COUNT ? pipeName(static_cast<uint32_t>(pipe)) : "ALL";
    if (!hasScheduler()) {
        violate("cross-flag-kernel-type", api, "", pipeText, "", -1,
                "a kernel of type AIV_ONLY or AIC_ONLY has no cross-core flags: use a MIX kernel type");
        return;
    }
    if (mode < 0 || mode > 2) {
        violate("cross-flag-mode", api, "", pipeText, "", -1, "mode %d: A2 has modes 0, 1 and 2", mode);
        return;
    }
    if (mode == 1 && core_->kind == CoreKind::AIC) {
        violate("cross-flag-mode", api, "", pipeText, "", -1,
                "mode 1 orders the vector cores of one AI core only");
        return;
    }
    if (id < 0 || id >= CROSS_IDS) {
        violate("cross-flag-id", api, "", pipeText, "", -1, "flag id %d: ids are 0..15", id);
        return;
    }
    if (id >= FIRST_RESERVED_CROSS_ID && id <= LAST_RESERVED_CROSS_ID) {
        violate("cross-flag-id", api, "", pipeText, "", -1,
                "flag id %d is used by SyncAll and the hardware (11..14): use 0..10", id);
    }
    uint32_t allowed =
        core_->kind == CoreKind::AIV ? 0b0110010u : 0b1111100u;   // bits of Pipe: not S, not ALL
    if (pipe >= Pipe::COUNT || (allowed >> static_cast<uint32_t>(pipe) & 1) == 0) {
        violate("cross-flag-pipe", api, "", pipeText, "", -1, "pipe %s of %s can't set a cross-core flag",
                pipeText, coreName(core_->number).c_str());
        return;
    }
    PendingSets& mine = pending_[core_->number];
    Stamp& last = mine.last[id];
    const uint8_t number = static_cast<uint8_t>(pipe);
    if (last.core != NOBODY && last.pipe != number && !core_->clock.ordered(last, number)) {
        violate("cross-flag-two-pipes", api, "", pipeText, "", -1,
                "flag %d is set from pipe %s and before from pipe %s, which nothing orders: sets of different pipes "
                "may overtake each other",
                id, pipeText, pipeName(last.pipe));
    }
    ++mine.sets[id];
    Vector message = core_->clock.message(core_->clock.completed(pipe));
    last.core = core_->number;
    last.pipe = number;
    last.epoch = core_->clock.start(pipe);

    std::vector<uint16_t> from, to;
    if (mode == 0) {
        checkAllResident(api);
        for (uint32_t b = 0; b < blocks_; ++b) {
            for (uint32_t s = 0; s < (core_->kind == CoreKind::AIC ? aics_ : aivs_); ++s) {
                from.push_back(rosterNumber(core_->kind, b, s));
            }
        }
        to = from;
    } else {
        for (uint32_t s = 0; s < aivs_; ++s) {
            from.push_back(rosterNumber(CoreKind::AIV, core_->block, s));
        }
        if (mode == 1) {
            to = from;
        } else if (core_->kind == CoreKind::AIC) {
            for (uint16_t aiv : from) {
                deliver(aiv, id, mode, message);
            }
            return;
        } else if (aics_ != 0) {
            to.push_back(rosterNumber(CoreKind::AIC, core_->block, 0));
        }
    }
    mine.byMode[mode][id].push_back(std::move(message));
    Vector all;
    while (popPending(from, mode, id, all)) {
        for (uint16_t core : to) {
            deliver(core, id, mode, all);
        }
        all.clear();
    }
}

void Engine::crossWait(int id)
{
    if (core_ == nullptr) {
        return;
    }
    core_->blockedOn = ON_NOTHING;
    const char* api = "CrossCoreWaitFlag";
    if (!hasScheduler()) {
        violate("cross-flag-kernel-type", api, "", "", "", -1,
                "a kernel of type AIV_ONLY or AIC_ONLY has no cross-core flags: use a MIX kernel type");
        return;
    }
    if (id < 0 || id >= CROSS_IDS) {
        violate("cross-flag-id", api, "", "", "", -1, "flag id %d: ids are 0..15", id);
        return;
    }
    CrossCounter& counter = counters_[core_->number][id];
    if (counter.arrived.empty()) {
        violate("cross-wait-without-set", api, "", "", "", -1, "%s waits for flag %d, which nobody has set",
                coreName(core_->number).c_str(), id);
        return;
    }
    core_->clock.learnRemote(counter.arrived.front());
    counter.arrived.pop_front();
    core_->clock.issue();
    counter.waits.push_back(core_->clock.issued());
}

void Engine::post(uint64_t key, bool pipes)
{
    if (core_ == nullptr) {
        return;
    }
    if (pipes) {
        core_->clock.barrier(Pipe::ALL);
    }
    const Row done = pipes ? core_->clock.completedAll() : core_->clock.completed(Pipe::S);
    std::vector<Vector>& published = posts_[key];
    Vector all = published.empty() ? Vector{} : published.back();
    join(all, core_->clock.message(done));
    published.push_back(std::move(all));
    core_->clock.issue();
}

void Engine::awaitPosts(uint64_t key, uint64_t count)
{
    if (core_ == nullptr) {
        return;
    }
    core_->blockedOn = ON_NOTHING;
    const std::vector<Vector>& published = posts_[key];
    if (count > 0 && !published.empty()) {
        core_->clock.learnRemote(published[std::min<size_t>(count, published.size()) - 1]);
    }
    core_->clock.issue();
}

void Engine::syncAllArrive(bool mix)
{
    if (core_ == nullptr) {
        return;
    }
    if (!hasScheduler()) {
        violate("cross-flag-kernel-type", "SyncAll", "", "", "", -1,
                "SyncAll needs a kernel of a MIX type (vector-only: KERNEL_TYPE_MIX_AIV_1_0)");
    }
    checkAllResident("SyncAll");
    core_->clock.barrier(Pipe::ALL);
    uint32_t generation = core_->barrierGeneration[mix]++;
    join(barriers_[mix].generations[generation].knowledge, core_->clock.message(core_->clock.completedAll()));
    core_->blockedOn = ON_SYNC_ALL;
}

void Engine::syncAllLeave(bool mix)
{
    if (core_ == nullptr || core_->barrierGeneration[mix] == 0) {
        return;
    }
    core_->blockedOn = ON_NOTHING;
    uint32_t generation = core_->barrierGeneration[mix] - 1;
    auto at = barriers_[mix].generations.find(generation);
    if (at == barriers_[mix].generations.end()) {
        return;
    }
    core_->clock.learnRemote(at->second.knowledge);
    core_->clock.issue();
    uint32_t members = blocks_ * (mix ? aics_ + aivs_ : aivs_);
    if (++at->second.left == members) {
        barriers_[mix].generations.erase(at);
    }
}

}  // namespace check
}  // namespace gaf_twin
