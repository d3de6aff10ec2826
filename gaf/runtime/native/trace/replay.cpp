// SPDX-License-Identifier: Apache-2.0
// The timeline of a recorded launch: a discrete-event model of pipes that issue in order and run side by
// side.
//
// A core's scalar unit walks through the program; an instruction starts when it is issued, its pipe has taken
// the one before, and what its pipe waits for has happened. It occupies its pipe for the cycles of its
// throughput and is complete a start-up later: without a barrier the next one follows at once, behind a
// barrier or a flag it waits for completion. Not modelled: depth of the issue queues, bank conflicts in UB,
// instruction cache misses, and serialised accesses of many cores to one 512-byte line.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "recorder.h"

namespace gaf_twin {
namespace trace {

namespace {

constexpr uint32_t S = static_cast<uint32_t>(Pipe::S), V = static_cast<uint32_t>(Pipe::V),
                   MTE2 = static_cast<uint32_t>(Pipe::MTE2), MTE3 = static_cast<uint32_t>(Pipe::MTE3),
                   FIX = static_cast<uint32_t>(Pipe::FIX);

// What outlives the launch.
struct Owner {
    GafTrace trace{};
    std::vector<GafTraceCore> cores;
    std::vector<GafTraceArgument> arguments;
    std::vector<GafTraceSpan> spans;
    std::vector<std::string> names;
    std::vector<const char*> api, node, unknown;
    std::string fault;
};

// Times of one core, in cycles from the start of the launch.
struct Clock {
    double issue = 0;                       // of the scalar unit
    std::array<double, PIPES> ready{};      // the pipe can take the next instruction
    std::array<double, PIPES> complete{};   // everything it took is complete
    std::array<double, PIPES> floor{};      // what waits and barriers hold its next instruction back to
    std::array<bool, PIPES> used{};
    double flags[PIPES][PIPES][8] = {};
    std::array<std::deque<double>, 16> arrived;                 // sets of cross-core flags not waited for
    std::array<std::array<std::deque<double>, 16>, 3> pending;  // own sets that released nobody yet, by mode
    uint32_t generation[2] = {0, 0};                            // SyncAll calls
};

struct Cost {
    double occupied, work, latency;
};

}  // namespace

class Replay {
public:
    explicit Replay(Recorder& r) : r_(r), t_(r.timing_), clocks_(r.cores_.size()) {}

    GafTrace* run();

private:
    void prepare();
    double fromMemory(const Range& range, uint64_t& bytes) const;
    Cost cost(const Event& e);
    Cost load(const Event& e, bool cube);
    Cost store(const Event& e);
    Cost fixpipe(const Event& e);
    double head(uint32_t pipe) const;
    void begin(const Event& e);
    void end(const Event& e);
    void instruction(const Event& e);
    void crossSet(const Event& e);
    void deliver(uint32_t core, uint8_t id, double at) { clocks_[core].arrived[id].push_back(at); }
    void summarise();

    Recorder& r_;
    const GafTraceTiming& t_;
    std::vector<Clock> clocks_;
    std::unique_ptr<Owner> out_ = std::make_unique<Owner>();
    std::vector<double> slotFree_;       // physical groups of cores: when the block on it ends; < 0: taken
    std::vector<int> slotOf_;            // by block
    std::vector<double> startOf_;        // by block
    std::vector<uint32_t> left_;         // cores of the block that still run
    std::vector<std::vector<double>> barriers_[2];  // arrivals by generation of SyncAll
    bool readAgainStays_ = true;         // re-read data fit L2
    double vectorCores_ = 1, cubeCores_ = 1, largestLoad_ = 0;
    double first_ = -1;
};

// Sums that costs depend on, and the sizes of the arguments' traffic.
void Replay::prepare()
{
    uint64_t again = 0;
    for (Argument& a : r_.arguments_) {
        GafTraceArgument g{};
        g.bytes = a.bytes;
        g.role = static_cast<uint32_t>(a.role);
        g.read = a.read;
        g.written = a.written;
        g.unaligned = a.unaligned;
        const auto count = [&a](const std::vector<uint16_t>& touches, uint16_t least) {
            uint64_t blocks = 0;
            for (uint16_t n : touches) {
                blocks += n >= least ? 1 : 0;
            }
            return std::min(blocks * BLOCK, a.bytes);
        };
        g.readOnce = count(a.reads, 1);
        g.readAgain = count(a.reads, 2);
        g.writtenOnce = count(a.writes, 1);
        again += g.readAgain;
        out_->arguments.push_back(g);
    }
    readAgainStays_ = static_cast<double>(again) < t_.l2ResidentBytes;
    for (GafTraceArgument& g : out_->arguments) {
        const bool workspace = g.role == static_cast<uint32_t>(check::GmRole::WORKSPACE);
        if (workspace && static_cast<double>(g.writtenOnce) < t_.l2ResidentBytes) {
            continue;  // written and read again without leaving L2
        }
        g.hbmRead = readAgainStays_ ? g.readOnce : std::max(g.readOnce, g.read);
        g.hbmWritten = workspace ? g.written : g.writtenOnce;
    }
    const double groups = r_.aics_ != 0 ? t_.aicCores : r_.aivs_ != 0 ? t_.aivCores / r_.aivs_ : t_.aivCores;
    const double active = std::min<double>(r_.blocks_, groups);
    vectorCores_ = std::max(1.0, active * r_.aivs_);
    cubeCores_ = std::max(1.0, active * r_.aics_);
    slotFree_.assign(static_cast<size_t>(groups), 0.0);
    slotOf_.assign(r_.blocks_, -1);
    startOf_.assign(r_.blocks_, 0.0);
    left_.assign(r_.blocks_, 0);
    for (const Event& e : r_.events_) {
        if (e.kind == Kind::INSTRUCTION && e.pipe == MTE2) {
            uint64_t bytes = 0;
            for (uint32_t i = 0; i < e.ranges; ++i) {
                bytes += r_.ranges_[e.range + i].bytes();
            }
            largestLoad_ = std::max(largestLoad_, static_cast<double>(bytes));
        }
    }
}

// Bytes of a range that the memory behind L2 moves: what n instructions touch counts 1/n for each.
double Replay::fromMemory(const Range& range, uint64_t& bytes) const
{
    const Argument& a = r_.arguments_[range.argument];
    bytes += range.bytes();
    if (out_->arguments[range.argument].hbmRead + out_->arguments[range.argument].hbmWritten == 0) {
        return 0;
    }
    if (!range.write && !readAgainStays_) {
        return static_cast<double>(range.bytes());
    }
    const std::vector<uint16_t>& touches = range.write ? a.writes : a.reads;
    double sum = 0;
    for (uint32_t o = 0; o < range.outer; ++o) {
        for (uint32_t k = 0; k < range.runs; ++k) {
            uint64_t at = static_cast<uint64_t>(static_cast<int64_t>(range.offset) + o * range.outerStride +
                                                k * range.stride);
            const uint64_t stop = at + range.runBytes;
            while (at < stop) {
                const uint64_t block = at / BLOCK, next = std::min(stop, (block + 1) * BLOCK);
                sum += static_cast<double>(next - at) / touches[block];
                at = next;
            }
        }
    }
    return sum;
}

Cost Replay::load(const Event& e, bool cube)
{
    if (e.ranges == 0) {  // a fill of L1
        const double cycles = static_cast<double>(e.bytes) / t_.aicLoad;
        return {cycles, cycles, 0};
    }
    Cost c{0, 0, 0};
    for (uint32_t i = 0; i < e.ranges; ++i) {
        const Range& r = r_.ranges_[e.range + i];
        uint64_t bytes = 0;
        const double memory = fromMemory(r, bytes);
        double size = static_cast<double>(bytes), part = size > 0 ? memory / size : 0;
        const double rows = static_cast<double>(r.runs) * r.outer, row = static_cast<double>(r.runBytes);
        const uint64_t pitch = static_cast<uint64_t>(r.stride < 0 ? -r.stride : r.stride);
        const bool strided = r.runs > 1 && pitch != r.runBytes;
        if (cube) {
            double factor = row >= 512   ? 1.0
                            : row >= 256 ? t_.aicRow256 + (1 - t_.aicRow256) * (row - 256) / 256
                            : row >= 128 ? t_.aicRow128 + (t_.aicRow256 - t_.aicRow128) * (row - 128) / 128
                                         : t_.aicRow128 * row / 128;
            if (strided && pitch % 512 != 0) {
                factor = std::min(factor, pitch % 32 == 0 ? t_.aicPitch32 : t_.aicPitchOdd);
            }
            const double near = t_.aicLoad * factor, far = std::min(near, t_.hbmBytesPerCycle / cubeCores_);
            c.occupied += size * (part / far + (1 - part) / near);
            const double best = std::min(t_.aicLoad, t_.hbmBytesPerCycle / cubeCores_);
            c.work += size * (part / best + (1 - part) / t_.aicLoad);
            c.latency = t_.nd2nzStart;
            continue;
        }
        const double far = size >= t_.largeLoad ? t_.loadLarge + t_.loadLargeCore / vectorCores_
                                                : t_.loadSmall + t_.loadSmallCore / vectorCores_;
        c.work += size * (part / far + (1 - part) / t_.loadL2);
        if (row < t_.shortRow && rows > 1) {
            size = rows * t_.shortRowAs;
        }
        c.occupied += size * (part / far + (1 - part) / t_.loadL2) + t_.loadStart +
                      (strided ? t_.loadStride * rows * static_cast<double>(pitch % 256) : 0);
    }
    return c;
}

Cost Replay::store(const Event& e)
{
    Cost c{0, 0, 0};
    const double rate = t_.store + t_.storeCore / vectorCores_;
    for (uint32_t i = 0; i < e.ranges; ++i) {
        const Range& r = r_.ranges_[e.range + i];
        uint64_t bytes = 0;
        const double memory = fromMemory(r, bytes), size = static_cast<double>(bytes);
        const double part = size > 0 ? memory / size : 0, rows = static_cast<double>(r.runs) * r.outer;
        const double row = rows > 1 ? static_cast<double>(r.runBytes) : size;
        const uint64_t pitch = static_cast<uint64_t>(r.stride < 0 ? -r.stride : r.stride);
        double far = size / rate + t_.storeStart;
        if (rows > 1 && pitch != r.runBytes) {
            far += t_.storeStride * rows * static_cast<double>(pitch % 256);
        }
        if (r.runBytes % 32 != 0) {
            if (row < 32) {
                far = rows * ((t_.storeTinyCoreSlope * vectorCores_ + t_.storeTinySlope) * row +
                              t_.storeTinyCore * vectorCores_ + t_.storeTiny) + t_.storeStart;
            } else if (row <= 512) {
                far = size / t_.storeUnaligned;
            } else {
                far += std::max(0.0, 256 - (t_.storeStart + 512 / rate));
            }
        }
        c.occupied += part * far + (1 - part) * (size / t_.storeL2 + t_.storeStart);
        c.work += size * (part / rate + (1 - part) / t_.storeL2);
    }
    return c;
}

Cost Replay::fixpipe(const Event& e)
{
    if (e.ranges == 0) {
        const double cycles = static_cast<double>(e.bytes) / t_.fixpipeL2;
        return {cycles, cycles, t_.fixpipeStart};
    }
    double cycles = 0;
    for (uint32_t i = 0; i < e.ranges; ++i) {
        uint64_t bytes = 0;
        const double memory = fromMemory(r_.ranges_[e.range + i], bytes);
        cycles += memory / t_.fixpipeHbm + (static_cast<double>(bytes) - memory) / t_.fixpipeL2;
    }
    return {cycles, cycles, t_.fixpipeStart};
}

Cost Replay::cost(const Event& e)
{
    if (e.pipe == MTE2) {
        return load(e, r_.cores_[e.core].kind == CoreKind::AIC);
    }
    if (e.pipe == MTE3) {
        return store(e);
    }
    if (e.pipe == FIX) {
        return fixpipe(e);
    }
    return {e.occupied, e.occupied, e.latency};
}

// What a pipe takes before its first instruction.
double Replay::head(uint32_t pipe) const
{
    if (pipe == V) {
        return t_.vectorHead;
    }
    if (pipe == MTE3) {
        return t_.mte3Head;
    }
    if (pipe == MTE2) {
        const double cores = r_.aivs_ != 0 ? vectorCores_ : cubeCores_;
        return largestLoad_ >= t_.largeLoad ? t_.mte2HeadLarge + t_.mte2HeadLargeCore * cores
                                            : t_.mte2HeadSmall + t_.mte2HeadSmallCore * cores;
    }
    return 0;
}

// A block starts on the physical cores that are free first.
void Replay::begin(const Event& e)
{
    const Core& core = r_.cores_[e.core];
    if (slotOf_[core.block] < 0) {
        size_t best = 0;
        for (size_t i = 1; i < slotFree_.size(); ++i) {
            const bool taken = slotFree_[best] < 0;
            best = slotFree_[i] >= 0 && (taken || slotFree_[i] < slotFree_[best]) ? i : best;
        }
        slotOf_[core.block] = static_cast<int>(best);
        startOf_[core.block] = std::max(0.0, slotFree_[best]);
        slotFree_[best] = -1;
        left_[core.block] = r_.aics_ + r_.aivs_;
    }
    Clock& c = clocks_[e.core];
    double start = startOf_[core.block] + t_.kernelHead;
    if (r_.aics_ != 0 && r_.aivs_ != 0 && startOf_[core.block] == 0) {
        start += t_.mixHead + t_.mixHeadFull * std::min(1.0, r_.blocks_ / t_.aicCores);
    }
    c.issue = start;
    c.ready.fill(start);
    c.complete.fill(start);
    GafTraceCore& out = out_->cores[e.core];
    out.cube = core.kind == CoreKind::AIC ? 1 : 0;
    out.block = core.block;
    out.sub = core.sub;
    out.slot = static_cast<uint32_t>(slotOf_[core.block]);
    out.start = startOf_[core.block];
}

void Replay::end(const Event& e)
{
    Clock& c = clocks_[e.core];
    double last = c.issue;
    for (double t : c.complete) {
        last = std::max(last, t);
    }
    out_->cores[e.core].end = last;
    const uint32_t block = r_.cores_[e.core].block;
    if (--left_[block] == 0) {
        double all = 0;
        for (uint32_t i = 0; i < r_.aics_ + r_.aivs_; ++i) {
            all = std::max(all, out_->cores[static_cast<size_t>(block) * (r_.aics_ + r_.aivs_) + i].end);
        }
        slotFree_[static_cast<size_t>(slotOf_[block])] = all;
    }
}

void Replay::instruction(const Event& e)
{
    Clock& c = clocks_[e.core];
    const uint32_t p = e.pipe;
    const Cost k = cost(e);
    double start;
    GafTraceCore& out = out_->cores[e.core];
    if (p == S) {
        start = std::max(c.issue, c.floor[S]);
        c.issue = start + k.occupied;
        c.complete[S] = c.ready[S] = c.issue;
    } else {
        c.issue += t_.issue;
        out.busy[S] += t_.issue;
        if (!c.used[p]) {
            c.used[p] = true;
            c.ready[p] += head(p);
        }
        start = std::max({c.issue, c.ready[p], c.floor[p]});
        c.ready[p] = start + k.occupied;
        c.complete[p] = std::max(c.complete[p], c.ready[p] + k.latency);
        first_ = first_ < 0 ? start : std::min(first_, start);
    }
    out.busy[p] += k.occupied;
    out.work[p] += k.work;
    ++out.instructions[p];
    if (r_.costs_.wantSpans != 0) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < e.ranges; ++i) {
            bytes += r_.ranges_[e.range + i].bytes();
        }
        out_->spans.push_back(
            {start, start + k.occupied, e.core, e.api, e.node, p, static_cast<uint32_t>(bytes)});
    }
}

// As the hardware counts: mode 0 all cores of a kind, mode 1 the vector cores of a block, mode 2 a cube core
// and its vector cores.
void Replay::crossSet(const Event& e)
{
    const Core& core = r_.cores_[e.core];
    const double at = std::max(clocks_[e.core].issue, clocks_[e.core].complete[e.pipe]) + t_.crossFlag;
    std::vector<uint32_t> from, to;
    if (e.other == 0) {
        for (uint32_t b = 0; b < r_.blocks_; ++b) {
            for (uint32_t s = 0; s < (core.kind == CoreKind::AIC ? r_.aics_ : r_.aivs_); ++s) {
                from.push_back(r_.rosterNumber(core.kind, b, s));
            }
        }
        to = from;
    } else {
        for (uint32_t s = 0; s < r_.aivs_; ++s) {
            from.push_back(r_.rosterNumber(CoreKind::AIV, core.block, s));
        }
        if (e.other == 2 && core.kind == CoreKind::AIC) {
            for (uint32_t aiv : from) {
                deliver(aiv, e.id, at);
            }
            return;
        }
        if (e.other == 1) {
            to = from;
        } else if (r_.aics_ != 0) {
            to.push_back(r_.rosterNumber(CoreKind::AIC, core.block, 0));
        }
    }
    const uint32_t mode = std::min<uint32_t>(e.other, 2);
    clocks_[e.core].pending[mode][e.id].push_back(at);
    for (uint32_t f : from) {
        if (clocks_[f].pending[mode][e.id].empty()) {
            return;
        }
    }
    double last = 0;
    for (uint32_t f : from) {
        last = std::max(last, clocks_[f].pending[mode][e.id].front());
        clocks_[f].pending[mode][e.id].pop_front();
    }
    for (uint32_t f : to) {
        deliver(f, e.id, last);
    }
}

GafTrace* Replay::run()
{
    prepare();
    out_->cores.resize(r_.cores_.size());
    for (const Event& e : r_.events_) {
        Clock& c = clocks_[e.core];
        switch (e.kind) {
            case Kind::BEGIN: begin(e); break;
            case Kind::END: end(e); break;
            case Kind::INSTRUCTION: instruction(e); break;
            case Kind::SET_FLAG:
                c.issue += t_.issue;
                c.flags[e.pipe][e.other][e.id] = std::max(c.issue, c.complete[e.pipe]);
                break;
            case Kind::WAIT_FLAG:
                c.issue += t_.issue;
                c.floor[e.other] = std::max(c.floor[e.other], c.flags[e.pipe][e.other][e.id]);
                if (e.other == S) {
                    c.issue = std::max(c.issue, c.floor[S]);
                }
                break;
            case Kind::BARRIER:
                c.issue += t_.issue;
                if (e.pipe < PIPES) {
                    c.floor[e.pipe] = std::max(c.floor[e.pipe], c.complete[e.pipe]);
                } else {
                    for (double t : c.complete) {
                        c.issue = std::max(c.issue, t);
                    }
                }
                break;
            case Kind::CROSS_SET:
                c.issue += t_.issue;
                crossSet(e);
                break;
            case Kind::CROSS_WAIT:
                c.issue += t_.issue;
                if (!c.arrived[e.id].empty()) {
                    c.issue = std::max(c.issue, c.arrived[e.id].front());
                    c.arrived[e.id].pop_front();
                }
                break;
            case Kind::ARRIVE: {
                for (double t : c.complete) {
                    c.issue = std::max(c.issue, t);
                }
                auto& generations = barriers_[e.other];
                const uint32_t g = c.generation[e.other]++;
                if (generations.size() <= g) {
                    generations.resize(g + 1, std::vector<double>{0.0});
                }
                generations[g][0] = std::max(generations[g][0], c.issue);
                break;
            }
            case Kind::LEAVE:
                if (c.generation[e.other] > 0) {
                    c.issue = barriers_[e.other][c.generation[e.other] - 1][0] + t_.syncAll;
                }
                break;
        }
    }
    summarise();
    return &out_.release()->trace;
}

void Replay::summarise()
{
    Owner& o = *out_;
    GafTrace& t = o.trace;
    for (const GafTraceCore& c : o.cores) {
        t.cycles = std::max(t.cycles, c.end);
        for (uint64_t n : c.instructions) {
            t.instructions += n;
        }
    }
    t.fillCycles = std::max(0.0, first_);
    memcpy(t.local, r_.local_, sizeof t.local);
    o.fault = r_.fault_;
    const auto list = [&o](const std::vector<std::string>& names, std::vector<const char*>& to) {
        for (const std::string& n : names) {
            to.push_back(n.c_str());
        }
    };
    // Strings are moved first: their addresses must not change any more.
    o.names.reserve(r_.apis_.text.size() + r_.nodes_.text.size());
    std::vector<std::string> apis = std::move(r_.apis_.text), nodes = std::move(r_.nodes_.text);
    for (std::string& n : apis) {
        o.names.push_back(std::move(n));
    }
    for (std::string& n : nodes) {
        o.names.push_back(std::move(n));
    }
    list(o.names, o.api);
    o.node.assign(o.api.begin() + static_cast<std::ptrdiff_t>(apis.size()), o.api.end());
    o.api.resize(apis.size());
    for (uint16_t api : r_.unknown_) {
        o.unknown.push_back(o.api[api]);
    }
    t.cores = static_cast<uint32_t>(o.cores.size());
    t.arguments = static_cast<uint32_t>(o.arguments.size());
    t.apis = static_cast<uint32_t>(o.api.size());
    t.nodes = static_cast<uint32_t>(o.node.size());
    t.unknown = static_cast<uint32_t>(o.unknown.size());
    t.faults = r_.faults_;
    t.spans = o.spans.size();
    t.core = o.cores.data();
    t.argument = o.arguments.data();
    t.span = o.spans.data();
    t.api = o.api.data();
    t.node = o.node.data();
    t.unknownApi = o.unknown.data();
    t.fault = o.fault.c_str();
    t.owner = &o;
}

GafTrace* replay(Recorder& recorder) { return Replay(recorder).run(); }

}  // namespace trace
}  // namespace gaf_twin

extern "C" void gafTraceFree(GafTrace* trace)
{
    if (trace != nullptr) {
        delete static_cast<gaf_twin::trace::Owner*>(trace->owner);
    }
}
