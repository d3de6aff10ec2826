// SPDX-License-Identifier: Apache-2.0
// Cores as fibers: the blocks of one launch, what a blocked core waits for, and the flags between cores.
#ifndef GAF_NATIVE_SCHEDULER_H
#define GAF_NATIVE_SCHEDULER_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "fiber.h"
#include "gaf_twin_launch.h"
#include "packs.h"
#include "twin/core.h"

namespace gaf_twin {

constexpr uint32_t FLAG_IDS = 16;
constexpr int MODE_CHECK = 2, MODE_TRACE = 3;
constexpr uint32_t POLL_LIMIT = 20000;  // looks at a word in GM while nothing else happens, until that is a deadlock

struct Launch;
struct Group;

enum class Wait : uint8_t { NOTHING, FLAG, SYNC_ALL, TURN, YIELD, POST, NEVER };

// One core: its registers, its memory, its stack.
struct CoreFiber {
    Core core;
    Fiber fiber;
    Launch* launch = nullptr;
    Group* group = nullptr;
    bool probing = false, done = false;
    bool again = false;    // Wait::YIELD: it has looked at this word of GM before
    bool streams = false;  // it has stored past the caches since the last StoresDone
    Wait wait = Wait::NOTHING;
    int waitId = 0;
    bool waitAivOnly = false;
    uint64_t waitTarget = 0;
    uint32_t flags[FLAG_IDS] = {};     // counters raised by modes 1 and 2
    uint32_t taken[FLAG_IDS] = {};     // rounds of mode 0 that this core has waited for
    uint32_t pending1[FLAG_IDS] = {};  // sets of mode 1 and 2 not yet combined with the other AIV's
    uint32_t pending2[FLAG_IDS] = {};
    uint64_t syncs[2] = {};  // SyncAll calls, by aivOnly
    std::map<uint64_t, uint64_t> waits;  // NextWait
    std::unordered_set<const void*> looked;  // words of GM that YieldCore was called for
    uint64_t waitKey = 0;    // Wait::POST: the counter, until it has reached waitTarget
    std::unique_ptr<uint8_t[]> memory;
    CoreKind memoryKind = CoreKind::AIV;
    uint32_t memories = 0;  // that `memory` has room for

    bool Prepare(Launch* launch, Group* group, CoreKind kind, uint32_t block, uint32_t sub);
    bool Runnable() const;
    std::string Name() const;
    std::string WaitsFor() const;
};

// The cores of one block: an AIC and its AIVs, or one of them. They run on one thread.
struct Group {
    uint32_t block = 0;
    std::vector<std::unique_ptr<CoreFiber>> cores;
    bool polls = false;  // a core looked in vain for a word in GM
    uint32_t running = 0;  // cores not done
    CoreFiber* Aic() const;
};

// Shape of a kernel type.
struct Shape12 {
    bool aic;
    uint32_t aivs;
};
Shape12 ShapeOfType(int type);

// Flags of mode 0: one set by every core of a kind makes a round.
struct GridFlags {
    std::mutex lock;
    std::vector<uint32_t> sets[2][FLAG_IDS];  // by kind and id, per core of the grid
    std::atomic<uint32_t> rounds[2][FLAG_IDS];
    GridFlags();
};

// Counters that cores raise and wait for: IBSet, NotifyNextBlock, GroupBarrier.
struct Posts {
    std::mutex lock;
    std::map<uint64_t, uint64_t> counters;
    uint64_t Value(uint64_t key)
    {
        std::lock_guard<std::mutex> hold(lock);
        const auto at = counters.find(key);
        return at == counters.end() ? 0 : at->second;
    }
};

// State of one launch, shared by its worker threads.
struct Launch {
    const LaunchCall* call = nullptr;
    int type = KERNEL_TYPE_AIV_ONLY;
    Shape12 shape{false, 1};
    bool checking = false;  // check or trace mode: one thread, instructions are announced
    bool reversed = false;  // the last block and core first
    std::atomic<uint32_t> nextBlock{0};
    std::atomic<uint64_t> epoch{1};         // raised with everything that may unblock a core
    std::atomic<uint64_t> syncArrivals[2];  // by aivOnly
    std::atomic<bool> stop{false}, deadlock{false};
    std::atomic<bool> turnsOff{false};
    GridFlags grid;
    Posts posts;

    std::mutex lock;             // guards what follows
    std::vector<bool> finished;  // blocks
    std::atomic<uint32_t> finishedPrefix{0};
    std::vector<std::string> failures;  // JSON lines
    std::vector<uint64_t> quiet;        // per worker: epoch at which all its cores were blocked

    std::vector<uint32_t> streamed;  // outputs that are stored past the caches (fast mode)
    std::unique_ptr<PackCache> packs{new PackCache};

    Launch();
    void Fail(const std::string& rule, const std::string& core, const std::string& message, const char* node);
    void FinishBlock(uint32_t block);
    void FindStreamed();
    // Claims and runs blocks until none is left; called by each worker thread.
    void Work();

private:
    static constexpr uint64_t LEFT = ~0ull;  // in quiet: the worker has nothing to run any more
    bool RunGroup(Group& group);
    bool AllQuiet(size_t worker, uint64_t now);
};

// The core that this thread runs, and leaving it until what it waits for has come.
CoreFiber* Running();
void Block(CoreFiber* fiber);

// Makes what the core has stored past the caches visible to other threads.
void StoresDone(CoreFiber& fiber);

// Blocks the current core until all blocks before its own are finished.
void WaitTurn();

// Runs a kernel only up to its KERNEL_TASK_TYPE_DEFAULT, or to the first use of its core; returns the type.
int ProbeKernelType(const LaunchCall& call);

}  // namespace gaf_twin

#endif  // GAF_NATIVE_SCHEDULER_H
