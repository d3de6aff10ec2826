// SPDX-License-Identifier: Apache-2.0
// Random accesses, flags and barriers on two cores, judged by the engine and by a naive model: one record for
// every byte, and for every pipe the plain set of instructions that are complete (no clocks, no shared
// states).
#include <bitset>
#include <cstdio>
#include <deque>
#include <random>
#include <vector>

#include "twin/check.h"

using namespace gaf_twin;
using namespace gaf_twin::check;
using AscendC::Hardware;

namespace {

constexpr int MIX_1_1 = 4;
constexpr uint32_t STEPS = 700, UB_SIZE = 640, GM_SIZE = 1000, PIPE_COUNT = 7;
using Done = std::bitset<STEPS + 1>;

struct Byte {
    int writer = -1;
    std::vector<int> readers;
    bool initialised = false;
    bool atomicWriter = false;
    std::vector<int> atomicWriters;   // earlier atomic writers, unordered with the last
};

struct NaiveCore {
    Done known[PIPE_COUNT], issued[PIPE_COUNT];
    bool flagSet[64] = {};
    Done flag[64];
    std::deque<Done> arrived;
};

struct Fuzz {
    std::mt19937 random;
    NaiveCore cores[2];               // 0: AIC (L1 memory), 1: AIV (UB memory)
    std::vector<Byte> local[2], gm;
    std::vector<uint8_t> memory[2], gmMemory;
    int engineCore[2];
    int step = 0;

    explicit Fuzz(uint32_t seed) : random(seed), gm(GM_SIZE), gmMemory(GM_SIZE)
    {
        launchBegin("fuzz", 1, MIX_1_1);
        gmBind(gmMemory.data(), GM_SIZE, "gm", GmRole::WORKSPACE);
        for (int c = 0; c < 2; ++c) {
            local[c].resize(UB_SIZE);
            memory[c].resize(UB_SIZE + 512 + 64);
            Arena arena{base(c), UB_SIZE + 256, c == 0 ? Hardware::L1 : Hardware::UB};
            engineCore[c] = coreBegin(c == 0 ? CoreKind::AIC : CoreKind::AIV, 0, 0, &arena, 1);
            bufferInit(base(c), UB_SIZE, c == 0 ? Position::A1 : Position::VECCALC, "tile");
        }
    }

    uint8_t* base(int c)
    {
        return memory[c].data() + (64 - reinterpret_cast<uintptr_t>(memory[c].data()) % 64) % 64;
    }
    uint32_t pick(uint32_t n) { return random() % n; }

    // Judges one access in the naive model; returns the number of kinds of violation (race, uninitialised).
    int judge(int c, uint32_t pipe, bool write, bool atomic, std::vector<Byte>& bytes,
              const std::vector<uint32_t>& at)
    {
        const Done& known = cores[c].known[pipe];
        auto ordered = [&](int op) { return op < 0 || op == step || known[op]; };
        bool race = false, empty = false;
        for (uint32_t i : at) {
            Byte& b = bytes[i];
            if (!write) {
                race |= !ordered(b.writer);
                for (int w : b.atomicWriters) {
                    race |= !ordered(w);
                }
                empty |= !b.initialised;
                b.initialised = true;
                b.readers.push_back(step);
                continue;
            }
            for (int r : b.readers) {
                race |= !ordered(r);
            }
            std::vector<int> keep;
            for (int w : b.atomicWriters) {
                if (!ordered(w)) {
                    race |= !atomic;
                    keep.push_back(w);
                }
            }
            if (!ordered(b.writer)) {
                if (atomic && b.atomicWriter) {
                    keep.push_back(b.writer);
                } else {
                    race = true;
                }
            }
            b.atomicWriters = atomic ? keep : std::vector<int>{};
            b.writer = step;
            b.atomicWriter = atomic;
            b.readers.clear();
            b.initialised = true;
        }
        return race + empty;
    }

    bool oneAccess(int c, uint32_t pipe, bool write, bool onGm, bool atomic, const char* api,
                   const char* operand)
    {
        std::vector<Byte>& bytes = onGm ? gm : local[c];
        uint32_t size = onGm ? GM_SIZE : UB_SIZE;
        uint32_t unit = pick(3) == 0 ? 1 : 32;
        uint32_t run = (1 + pick(4)) * unit, runs = 1 + pick(4), outer = 1 + pick(3);
        int stride = static_cast<int>(pick(5) * unit), outerStride = static_cast<int>(pick(6) * unit);
        uint32_t span = run + stride * (runs - 1) + outerStride * (outer - 1);
        if (span > size) {
            runs = outer = 1;
            span = run;
        }
        uint32_t start = pick((size - span) / unit + 1) * unit;
        std::vector<uint32_t> at;
        for (uint32_t o = 0; o < outer; ++o) {
            for (uint32_t r = 0; r < runs; ++r) {
                for (uint32_t b = 0; b < run; ++b) {
                    at.push_back(start + o * outerStride + r * stride + b);
                }
            }
        }
        uint64_t before = violationCount();
        const uint8_t* p = (onGm ? gmMemory.data() : base(c)) + start;
        access(static_cast<Pipe>(pipe), api, operand, write, p, run, runs, stride, 0, View{}, outer,
               outerStride);
        int found = static_cast<int>(violationCount() - before);
        int expected = judge(c, pipe, write, atomic, bytes, at);
        if (found != expected) {
            printf("step %d: core %d pipe %u %s %s [%u + %u x %d x %u]: engine %d, model %d\n", step, c, pipe,
                   write ? "writes" : "reads", onGm ? "GM" : "local", start, run, stride, runs, found,
                   expected);
            return false;
        }
        return true;
    }

    bool instruction(int c)
    {
        static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
        // AIV: V inside UB, MTE2 in, MTE3 out, S. AIC: MTE2 in, MTE3 (L1 to GM) out.
        uint32_t pipe =
            c == 1 ? (const uint32_t[]){0, 1, 1, 4, 5}[pick(5)] : (const uint32_t[]){4, 5}[pick(2)];
        bool atomic = pipe == 5 && pick(3) == 0;
        if (c == 1) {
            cores[1].known[0] |= cores[1].issued[0];
        }
        op(static_cast<Pipe>(pipe), names[pipe], OP_MAY_OVERLAP);
        atomicMode(atomic);
        bool ok = true;
        if (pipe == 1) {
            ok = oneAccess(c, pipe, false, false, false, names[pipe], "src") && ok;
            ok = ok && oneAccess(c, pipe, true, false, false, names[pipe], "dst");
        } else if (pipe == 0) {
            ok = oneAccess(c, pipe, pick(2) == 0, false, false, names[pipe], "value");
        } else {
            bool in = pipe == 4;
            ok = oneAccess(c, pipe, false, in, false, names[pipe], "src");
            ok = ok && oneAccess(c, pipe, true, !in, atomic, names[pipe], "dst");
        }
        atomicMode(false);
        cores[c].issued[pipe].set(step);
        if (pipe == 0) {
            cores[c].known[0].set(step);
        }
        return ok;
    }

    void order(int c)
    {
        NaiveCore& core = cores[c];
        switch (pick(4)) {
            case 0: {
                uint32_t pipe =
                    c == 1 ? (const uint32_t[]){1, 4, 5}[pick(3)] : (const uint32_t[]){4, 5}[pick(2)];
                barrier(static_cast<Pipe>(pipe));
                core.known[pipe] |= core.issued[pipe];
                break;
            }
            case 1: {
                if (pick(6) != 0) {
                    break;
                }
                barrier(Pipe::ALL);
                Done all;
                for (const Done& d : core.issued) {
                    all |= d;
                }
                for (Done& d : core.known) {
                    d |= all;
                }
                break;
            }
            default: {
                static const HardEvent aiv[] = {
                    HardEvent::MTE2_V,    HardEvent::V_MTE2,    HardEvent::V_MTE3,
                    HardEvent::MTE3_V,    HardEvent::V_S,       HardEvent::S_V,
                    HardEvent::MTE3_MTE2, HardEvent::MTE2_MTE3, HardEvent::S_MTE3};
                static const HardEvent aic[] = {HardEvent::MTE3_MTE2, HardEvent::MTE2_MTE3};
                HardEvent event = c == 1 ? aiv[pick(9)] : aic[pick(2)];
                uint32_t slot = static_cast<uint32_t>(event);
                uint32_t src = static_cast<uint32_t>(PipesOf(event).src),
                         dst = static_cast<uint32_t>(PipesOf(event).dst);
                if (!core.flagSet[slot]) {
                    setFlag(event, 0);
                    core.flagSet[slot] = true;
                    core.flag[slot] = core.known[src] | core.issued[src];
                } else {
                    waitFlag(event, 0);
                    core.flagSet[slot] = false;
                    for (uint32_t p = 0; p < PIPE_COUNT; ++p) {
                        if (p == dst || dst == 0) {
                            core.known[p] |= core.flag[slot];
                        }
                    }
                }
            }
        }
    }

    void cross(int c)
    {
        NaiveCore& other = cores[1 - c];
        if (pick(2) == 0 && other.arrived.size() < 10) {
            constexpr uint32_t MTE3 = 5;
            crossSet(2, Pipe::MTE3, 1);
            other.arrived.push_back(cores[c].known[MTE3] | cores[c].issued[MTE3]);
        } else if (!cores[c].arrived.empty()) {
            crossWait(1);
            for (Done& d : cores[c].known) {
                d |= cores[c].arrived.front();
            }
            cores[c].arrived.pop_front();
        }
    }
};

}  // namespace

// Runs `STEPS` random steps; returns 0 when engine and model agree on every access, else the step of the
// first disagreement. `violations` counts what the engine found, so that a caller can see that both kinds
// happen.
extern "C" __attribute__((visibility("default"))) int32_t run_fuzz(uint32_t seed, uint64_t* violations)
{
    Fuzz fuzz(seed);
    int32_t bad = 0;
    for (fuzz.step = 1; fuzz.step <= static_cast<int>(STEPS) && bad == 0; ++fuzz.step) {
        int c = static_cast<int>(fuzz.pick(2));
        coreSwitch(fuzz.engineCore[c]);
        uint32_t kind = fuzz.pick(12);
        if (kind < 5) {
            bad = fuzz.instruction(c) ? 0 : fuzz.step;
        } else if (kind < 11) {
            fuzz.order(c);
        } else {
            fuzz.cross(c);
        }
    }
    *violations = violationCount();
    launchEnd();
    return bad;
}
