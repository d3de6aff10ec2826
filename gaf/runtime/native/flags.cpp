// SPDX-License-Identifier: Apache-2.0
// Synchronisation between cores: cross-core flags of the three modes, SyncAll, turns of atomic stores.
#include "scheduler.h"

namespace gaf_twin {

GridFlags::GridFlags()
{
    for (auto& kind : rounds) {
        for (auto& r : kind) {
            r.store(0);
        }
    }
}

void CrossSet(int mode, Pipe pipe, int id)
{
    Current();
    CoreFiber* f = Running();
    StoresDone(*f);
    if (f->launch->checking) {
        check::crossSet(mode, pipe, id);
    }
    id &= FLAG_IDS - 1;
    Group& g = *f->group;
    if (mode == 0) {
        const uint32_t kind = f->core.kind == CoreKind::AIC ? 1 : 0;
        GridFlags& grid = f->launch->grid;
        std::lock_guard<std::mutex> hold(grid.lock);
        std::vector<uint32_t>& sets = grid.sets[kind][id];
        const uint32_t per = kind == 1 ? 1 : f->launch->shape.aivs;
        if (sets.empty()) {
            sets.assign(static_cast<size_t>(f->core.blockNum) * per, 0);
        }
        ++sets[static_cast<size_t>(f->core.block) * per + f->core.sub];
        uint32_t least = sets[0];
        for (uint32_t s : sets) {
            least = s < least ? s : least;
        }
        grid.rounds[kind][id].store(least);
        f->launch->epoch.fetch_add(1);
    } else if (mode == 1 || f->core.kind == CoreKind::AIV) {  // all AIVs of the block must set
        bool all = true;
        ++(mode == 1 ? f->pending1 : f->pending2)[id];
        for (auto& c : g.cores) {
            if (c->core.kind == CoreKind::AIV) {
                all = all && (mode == 1 ? c->pending1 : c->pending2)[id] > 0;
            }
        }
        if (all) {
            for (auto& c : g.cores) {
                if (c->core.kind == CoreKind::AIV) {
                    --(mode == 1 ? c->pending1 : c->pending2)[id];
                }
                if ((c->core.kind == CoreKind::AIV) == (mode == 1)) {
                    ++c->flags[id];
                }
            }
        }
    } else {
        for (auto& c : g.cores) {
            if (c->core.kind == CoreKind::AIV) {
                ++c->flags[id];
            }
        }
    }
}

void CrossWait(int id)
{
    Current();
    CoreFiber* f = Running();
    const int slot = id & static_cast<int>(FLAG_IDS - 1);
    f->wait = Wait::FLAG;
    f->waitId = slot;
    if (f->launch->checking && !f->Runnable()) {
        check::crossBlock(id);
    }
    Block(f);
    if (f->launch->checking) {
        check::crossWait(id);
    }
    if (f->flags[slot] > 0) {
        --f->flags[slot];
    } else {
        ++f->taken[slot];
    }
}

void SyncAllCores(bool aivOnly)
{
    Current();
    CoreFiber* f = Running();
    Launch& l = *f->launch;
    StoresDone(*f);
    if (aivOnly && f->core.kind == CoreKind::AIC) {
        return;
    }
    if (l.checking) {
        check::syncAllArrive(!aivOnly);
    }
    if (!aivOnly && !l.shape.aic) {
        f->wait = Wait::NEVER;
    } else {
        const uint64_t cores = static_cast<uint64_t>(f->core.blockNum) * (l.shape.aivs + (aivOnly ? 0 : 1));
        f->wait = Wait::SYNC_ALL;
        f->waitAivOnly = aivOnly;
        f->waitTarget = ++f->syncs[aivOnly ? 1 : 0] * cores;
        l.syncArrivals[aivOnly ? 1 : 0].fetch_add(1);
        l.epoch.fetch_add(1);
    }
    if (l.checking && !f->Runnable()) {
        check::crossBlock(-1);
    }
    Block(f);
    if (l.checking) {
        check::syncAllLeave(!aivOnly);
    }
}

void Post(uint64_t key)
{
    Current();
    StoresDone(*Running());
    Launch& l = *Running()->launch;
    if (l.checking) {
        check::post(key, true);
    }
    {
        std::lock_guard<std::mutex> hold(l.posts.lock);
        ++l.posts.counters[key];
    }
    l.epoch.fetch_add(1);
}

void AwaitPosts(uint64_t key, uint64_t count)
{
    Current();
    CoreFiber* f = Running();
    f->wait = Wait::POST;
    f->waitKey = key;
    f->waitTarget = count;
    if (f->launch->checking && !f->Runnable()) {
        check::crossBlock(-1);
    }
    Block(f);
    if (f->launch->checking) {
        check::awaitPosts(key, count);
    }
}

uint64_t NextWait(uint64_t key)
{
    Current();
    return ++Running()->waits[key];
}

void YieldCore(const void* address)
{
    CoreFiber* f = Running();
    f->again = !f->looked.insert(address).second;
    f->wait = Wait::YIELD;
    if (f->launch->checking) {
        check::crossBlock(-3);
    }
    f->fiber.Leave();
    f->wait = Wait::NOTHING;
}

// Blocks take turns in atomic stores, so that sums do not depend on the schedule.
void WaitTurn()
{
    CoreFiber* f = Running();
    f->wait = Wait::TURN;
    Block(f);
}

}  // namespace gaf_twin
