// SPDX-License-Identifier: Apache-2.0
// Cores as fibers: running the blocks of a launch, blocking and waking, deadlocks.
#include "scheduler.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "twin/queue.h"

namespace gaf_twin {

namespace {

thread_local CoreFiber* currentFiber = nullptr;

// A vector core beside a cube core places what a matmul object reads in that core's L1 (TSCM): its own share here.
constexpr Hardware AIV_MEMORY[] = {Hardware::UB, Hardware::L1};
constexpr Hardware AIC_MEMORY[] = {Hardware::L1,  Hardware::L0A,  Hardware::L0B,
                                   Hardware::L0C, Hardware::BIAS, Hardware::FIXBUF};

// Stacks and core memory of finished blocks, kept for the next.
thread_local std::vector<std::unique_ptr<Group>> spareGroups;

std::string Escape(const std::string& s)
{
    std::string out;
    for (char c : s) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out;
}

void CoreMain(void* arg)
{
    CoreFiber* f = static_cast<CoreFiber*>(arg);
    const LaunchCall& call = *f->launch->call;
    call.run(call.args, call.tiling);
    if (!f->probing) {
        if (f->launch->checking) {
            check::coreEnd();
        }
    }
    StoresDone(*f);
    f->done = true;
    f->fiber.Leave();
}

}  // namespace

CoreFiber* Running() { return currentFiber; }

// Leaves the fiber until its wait is over.
void Block(CoreFiber* f)
{
    if (!f->Runnable()) {
        f->fiber.Leave();
    }
    f->wait = Wait::NOTHING;
}

const char* PositionName(AscendC::TPosition p)
{
    static const char* const names[] = {"GM",  "A1",   "A2",        "B1",           "B2",     "C1",
                                        "C2",  "CO1",  "CO2",       "VECIN",        "VECOUT", "VECCALC",
                                        "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL", "MAX"};
    return static_cast<uint32_t>(p) < sizeof(names) / sizeof(names[0]) ? names[static_cast<uint32_t>(p)]
                                                                       : "?";
}

const char* EventName(AscendC::HardEvent e)
{
    static const char* const names[] = {
        "MTE2_MTE1", "MTE1_MTE2", "MTE1_M",  "M_MTE1",    "MTE2_V",    "V_MTE2", "MTE3_V", "V_MTE3",
        "M_V",       "V_M",       "V_V",     "MTE3_MTE1", "MTE1_MTE3", "MTE1_V", "MTE2_M", "M_MTE2",
        "V_MTE1",    "M_FIX",     "FIX_M",   "MTE3_MTE2", "MTE2_MTE3", "S_V",    "V_S",    "S_MTE2",
        "MTE2_S",    "S_MTE3",    "MTE3_S",  "MTE2_FIX",  "FIX_MTE2",  "FIX_S",  "M_S",    "FIX_MTE3",
        "MTE1_FIX",  "FIX_MTE1",  "FIX_FIX", "no event"};
    return static_cast<uint32_t>(e) < sizeof(names) / sizeof(names[0]) ? names[static_cast<uint32_t>(e)]
                                                                       : "?";
}

// ---- cores ------------------------------------------------------------------------------------------------

Core& Current()
{
    CoreFiber* f = currentFiber;
    if (__builtin_expect(f->probing, 0)) {  // the kernel started to work without naming its type
        f->fiber.Leave();
    }
    return f->core;
}

bool OnCore() { return currentFiber != nullptr; }

uint8_t* AbsentMemory()
{
    alignas(512) static uint8_t bytes[UB_BYTES];
    return bytes;
}

void SetNode(const char* node)
{
    CoreFiber* f = currentFiber;
    if (!f->probing) {
        f->core.node = node;
        if (f->launch->checking) {
            check::setNode(node);
        }
    }
}

void DeclareKernelType(int type)
{
    CoreFiber* f = currentFiber;
    if (f->probing) {
        f->core.kernelType = static_cast<KernelMetaType>(type);
        f->fiber.Leave();
    }
}

Shape12 ShapeOfType(int type)
{
    switch (type) {
        case KERNEL_TYPE_AIC_ONLY:
        case KERNEL_TYPE_MIX_AIC_1_0: return {true, 0};
        case KERNEL_TYPE_MIX_AIC_1_1: return {true, 1};
        case KERNEL_TYPE_MIX_AIC_1_2: return {true, 2};
        default: return {false, 1};
    }
}

bool CoreFiber::Prepare(Launch* owner, Group* g, CoreKind kind, uint32_t block, uint32_t sub)
{
    launch = owner;
    group = g;
    probing = done = streams = false;
    wait = Wait::NOTHING;
    for (uint32_t i = 0; i < FLAG_IDS; ++i) {
        flags[i] = taken[i] = pending1[i] = pending2[i] = 0;
    }
    syncs[0] = syncs[1] = 0;
    waits.clear();
    looked.clear();

    const Hardware* kinds = kind == CoreKind::AIC ? AIC_MEMORY : AIV_MEMORY;
    const uint32_t count = kind == CoreKind::AIC ? 6 : owner->shape.aic ? 2 : 1;
    if (memory == nullptr || memoryKind != kind || memories < count) {
        uint64_t bytes = 4096;
        for (uint32_t i = 0; i < count; ++i) {
            bytes += BytesOf(kinds[i]) + 4096;
        }
        memory.reset(new uint8_t[bytes]);
        memoryKind = kind;
        memories = count;
    }
    uint8_t* p = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.get()) + 4095) / 4096 * 4096);
    for (uint32_t i = 0; i < 8; ++i) {
        core.arena[i] = nullptr;
        core.used[i] = 0;
    }
    check::Arena arenas[6];
    for (uint32_t i = 0; i < count; ++i) {
        core.arena[static_cast<uint32_t>(kinds[i])] = p;
        arenas[i] = check::Arena{p, BytesOf(kinds[i]), kinds[i]};
        p += (BytesOf(kinds[i]) + 4095u) / 4096 * 4096;
    }
    core.kind = kind;
    core.block = block;
    core.sub = sub;
    core.subs = kind == CoreKind::AIV && owner->shape.aivs > 0 ? owner->shape.aivs : 1;
    core.blockNum = owner->call->blocks;
    core.kernelType = static_cast<KernelMetaType>(owner->type);
    core.bufferCount = 0;
    core.pipe = nullptr;
    for (uint32_t i = 0; i < EVENT_TYPES; ++i) {
        core.eventBusy[i] = core.flags[i] = 0;
    }
    core.maskLo = core.maskHi = ~0ull;
    core.hf32 = core.hf32Even = false;
    core.counterMode = false;
    core.deqScale = 1.0f;
    core.padValue = core.load3dPad = 0;
    core.load3dBoundary = 0;
    core.load3dRepeat = 1;
    core.padValueSet = false;
    core.fixScales = core.fixScalar = 0;
    core.fixNdNum = 1;
    core.fixSrcNd = core.fixDstNd = 0;
    core.deqVector = false;
    core.atomicOp = AtomicOp::NONE;
    core.sysWorkspace = reinterpret_cast<uint64_t>(owner->call->sysWorkspace);
    core.node = "";
    if (owner->checking) {
        for (uint32_t i = 0; i < count; ++i) {
            memset(arenas[i].base, 0xff, arenas[i].bytes);  // NaN in every float type
        }
        core.checkIndex = check::coreBegin(kind, block, sub, arenas, count);
    }
    return fiber.Reset(&CoreMain, this);
}

bool CoreFiber::Runnable() const
{
    if (done) {
        return false;
    }
    switch (wait) {
        case Wait::NOTHING:
        case Wait::YIELD: return true;
        case Wait::FLAG: {
            const uint32_t kind = core.kind == CoreKind::AIC ? 1 : 0;
            return flags[waitId] > 0 || launch->grid.rounds[kind][waitId].load() > taken[waitId];
        }
        case Wait::SYNC_ALL: return launch->syncArrivals[waitAivOnly ? 1 : 0].load() >= waitTarget;
        case Wait::POST: return launch->posts.Value(waitKey) >= waitTarget;
        case Wait::TURN: return launch->finishedPrefix.load() >= core.block || launch->turnsOff.load();
        default: return false;
    }
}

std::string CoreFiber::Name() const
{
    char text[48];
    if (core.kind == CoreKind::AIC) {
        snprintf(text, sizeof(text), "AIC %u", core.block);
    } else {
        snprintf(text, sizeof(text), "AIV %u", core.block * core.subs + core.sub);
    }
    return text;
}

std::string CoreFiber::WaitsFor() const
{
    switch (wait) {
        case Wait::FLAG: return "waits for cross-core flag " + std::to_string(waitId) + " that nobody sets";
        case Wait::SYNC_ALL: return "waits in SyncAll for cores that never arrive";
        case Wait::POST: return "waits for another core's IBSet, NotifyNextBlock or Arrive that never comes";
        case Wait::NEVER: return "waits for cores that this kernel type does not start";
        case Wait::YIELD: return "polls global memory for a value that nobody writes";
        default: return "cannot go on";
    }
}

CoreFiber* Group::Aic() const
{
    return cores.front()->core.kind == CoreKind::AIC ? cores.front().get() : nullptr;
}

// ---- waiting and waking -----------------------------------------------------------------------------------

void Abandon(const char* rule, const char* message)
{
    CoreFiber* f = currentFiber;
    if (!f->probing) {
        f->launch->Fail(rule, f->Name(), message, f->core.node);
    }
    f->done = true;
    for (;;) {
        f->fiber.Leave();
    }
}

// ---- the blocks of a launch -------------------------------------------------------------------------------

Launch::Launch()
{
    syncArrivals[0].store(0);
    syncArrivals[1].store(0);
}

void Launch::Fail(const std::string& rule, const std::string& core, const std::string& message,
                  const char* node)
{
    std::lock_guard<std::mutex> hold(lock);
    failures.push_back("{\"rule\":\"" + Escape(rule) +
                       "\",\"api\":\"\",\"operand\":\"\",\"buffer\":\"\",\"offset\":0," + "\"core\":\"" +
                       Escape(core) + "\",\"pipe\":\"S\",\"node\":\"" + Escape(node) + "\",\"message\":\"" +
                       Escape(message) + "\"}");
    stop.store(true);
}

void Launch::FinishBlock(uint32_t block)
{
    std::lock_guard<std::mutex> hold(lock);
    finished[block] = true;
    uint32_t p = finishedPrefix.load();
    while (p < finished.size() && finished[p]) {
        ++p;
    }
    finishedPrefix.store(p);
    epoch.fetch_add(1);
}

// Gives every runnable core of the group its turn; true if any did more than look at a word that it polls.
bool Launch::RunGroup(Group& g)
{
    bool ran = false;
    g.polls = false;
    for (size_t i = 0; i < g.cores.size(); ++i) {
        auto& c = g.cores[reversed ? g.cores.size() - 1 - i : i];
        if (!c->Runnable() || stop.load(std::memory_order_relaxed)) {
            continue;
        }
        currentFiber = c.get();
        if (checking) {
            check::coreSwitch(c->core.checkIndex);
        }
        c->fiber.Enter();
        currentFiber = nullptr;
        if (c->done) {
            --g.running;
        }
        const bool polls = !c->done && c->wait == Wait::YIELD && c->again;
        g.polls = g.polls || polls;
        ran = ran || !polls;
    }
    return ran;
}

// No core of any worker has been able to go on since epoch `now` (recorded for `worker`).
bool Launch::AllQuiet(size_t worker, uint64_t now)
{
    std::lock_guard<std::mutex> hold(lock);
    quiet[worker] = now;
    for (uint64_t q : quiet) {
        if (q != now && q != LEFT) {
            return false;
        }
    }
    return epoch.load() == now;
}

void Launch::Work()
{
    std::vector<Group*> live;
    uint32_t idle = 0, polled = 0;
    size_t worker;
    {
        std::lock_guard<std::mutex> hold(lock);
        worker = quiet.size();
        quiet.push_back(0);
    }
    while (!stop.load(std::memory_order_relaxed)) {
        const uint64_t before = epoch.load();
        bool ran = false, polls = false;
        for (size_t i = 0; i < live.size(); ++i) {
            while (RunGroup(*live[i])) {
                ran = true;
            }
            polls = polls || live[i]->polls;
            if (live[i]->running == 0) {
                FinishBlock(live[i]->block);
                spareGroups.emplace_back(live[i]);
                live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
                --i;
            }
        }
        if (nextBlock.load(std::memory_order_relaxed) < call->blocks) {
            const uint32_t claimed = nextBlock.fetch_add(1);
            if (claimed < call->blocks) {
                const uint32_t block = reversed ? call->blocks - 1 - claimed : claimed;
                const uint32_t count = (shape.aic ? 1 : 0) + shape.aivs;
                std::unique_ptr<Group> g;
                if (!spareGroups.empty()) {
                    g = std::move(spareGroups.back());
                    spareGroups.pop_back();
                } else {
                    g.reset(new Group);
                }
                while (g->cores.size() < count) {
                    g->cores.emplace_back(new CoreFiber);
                }
                g->cores.resize(count);
                g->block = block;
                g->running = count;
                for (uint32_t i = 0; i < count; ++i) {
                    const bool cube = shape.aic && i == 0;
                    if (!g->cores[i]->Prepare(this, g.get(), cube ? CoreKind::AIC : CoreKind::AIV, block,
                                              cube ? 0 : i - (shape.aic ? 1 : 0))) {
                        Fail("memory", "", "no memory for the stack of a core", "");
                    }
                }
                live.push_back(g.release());
                idle = 0;
                continue;
            }
        }
        if (live.empty()) {
            break;
        }
        if (ran) {
            idle = polled = 0;
            continue;
        }
        // Every core of this thread is blocked or polls, and no block is left to start.
        if (AllQuiet(worker, before) && (!polls || ++polled > POLL_LIMIT)) {
            if (!turnsOff.exchange(true)) {  // perhaps only the order of atomic stores holds them
                epoch.fetch_add(1);
                continue;
            }
            deadlock.store(true);
            stop.store(true);
            break;
        }
        if (++idle > 200) {
            const timespec pause = {0, 20000};
            nanosleep(&pause, nullptr);
        } else if (idle > 20) {
            sched_yield();
        }
    }
    if (deadlock.load() && checking) {
        check::deadlock();
    }
    for (Group* g : live) {
        for (auto& c : g->cores) {
            if (deadlock.load() && !c->done) {
                Fail("deadlock", c->Name(), c->WaitsFor(), c->core.node);
            }
        }
        delete g;  // abandoned in the middle
    }
    std::lock_guard<std::mutex> hold(lock);
    quiet[worker] = LEFT;
}

int ProbeKernelType(const LaunchCall& call)
{
    Launch probe;
    probe.call = &call;
    Group group;
    group.cores.emplace_back(new CoreFiber);
    CoreFiber& f = *group.cores.back();
    if (!f.Prepare(&probe, &group, CoreKind::AIV, 0, 0)) {
        return KERNEL_TYPE_AIV_ONLY;
    }
    f.probing = true;
    f.core.kernelType = KERNEL_TYPE_AIV_ONLY;
    currentFiber = &f;
    f.fiber.Enter();
    currentFiber = nullptr;
    return f.core.kernelType;
}

// ---- buffers ----------------------------------------------------------------------------------------------

// A buffer that does not fit ends the kernel: nothing after it would be memory-safe. In check mode the engine
// says why.
Buffer* NewBuffer(AscendC::TPosition pos, uint32_t len, HardEvent freeEvent, const char* what, uint32_t index)
{
    Core& c = Current();
    const Hardware hw = HardwareOf(pos);
    const uint32_t h = static_cast<uint32_t>(hw), room = BytesOf(hw);
    const std::string name = std::string(what) + " " + std::to_string(index);
    const bool absent = !HasMemory(c, pos);
    if (absent && !(c.kind == CoreKind::AIC && hw == Hardware::UB)) {
        const std::string why = name + ": this kind of core has no memory for position " + PositionName(pos);
        if (currentFiber->launch->checking) {
            check::rule(false, "wrong-position", "InitBuffer", "%s", why.c_str());
        }
        Abandon("wrong-position", why.c_str());
    }
    // Kernels of both kinds of cores make the buffers of their vector part on the cube core too: harmless unless
    // a tensor is taken from them.
    uint8_t* base = absent ? nullptr : c.arena[h] + c.used[h];
    if (currentFiber->launch->checking && !absent) {
        check::bufferInit(base, (uint64_t(len) + 31) / 32 * 32, pos, name.c_str());
    }
    if (c.bufferCount >= BUFFER_RECORDS || len > room || c.used[h] + RoundUp(len, 32) > room) {
        Abandon("memory-overflow",
                (name + ": " + std::to_string(len) + " bytes after " + std::to_string(c.used[h]) +
                 " exceed the " + std::to_string(room) + " bytes of memory")
                    .c_str());
    }
    Buffer& b = c.buffers[c.bufferCount++];
    b = Buffer();
    b.base = base;
    b.bytes = RoundUp(len, 32);
    b.position = pos;
    b.freeEvent = freeEvent;
    c.used[h] += b.bytes;
    return &b;
}

}  // namespace gaf_twin
