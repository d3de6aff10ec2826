// SPDX-License-Identifier: Apache-2.0
// Trace mode: the instructions of one launch as they were issued, and the timeline made of them.
//
// The recorder takes what the API headers announce (twin/check.h) and keeps it in order of execution; after
// the launch `finish` replays it with costs: every core issues in program order into its pipes, which run
// side by side as far as flags, barriers, queues and cross-core flags let them. A replay, not a running
// clock, because the cost of a copy depends on the whole launch: bytes that several instructions touch come
// from memory once.
#ifndef GAF_TRACE_RECORDER_H
#define GAF_TRACE_RECORDER_H

#include <cstdarg>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "twin/check.h"
#include "twin/trace.h"

namespace gaf_twin {
namespace trace {

using AscendC::Hardware;

constexpr uint32_t PIPES = static_cast<uint32_t>(Pipe::COUNT);
constexpr uint32_t MEMORIES = static_cast<uint32_t>(Hardware::MAX);
constexpr uint64_t BLOCK = 32;  // bytes of GM that are counted together

enum class Kind : uint8_t {
    INSTRUCTION,
    SET_FLAG,
    WAIT_FLAG,
    BARRIER,
    CROSS_SET,
    CROSS_WAIT,
    ARRIVE,
    LEAVE,
    BEGIN,
    END
};

// Bytes of one GM argument that an instruction touches.
struct Range {
    uint32_t argument;
    bool write;
    uint32_t runs, outer;
    uint64_t offset, runBytes;
    int64_t stride, outerStride;

    uint64_t bytes() const { return runBytes * runs * outer; }
};

struct Event {
    Kind kind;
    uint8_t pipe;   // of the instruction, barrier or set; source pipe of a flag
    uint8_t other;  // target pipe of a flag; mode of a cross-core set; 1: SyncAll of all cores
    uint8_t id;     // of a flag
    uint16_t api, node;
    uint32_t core;
    float occupied, latency;  // cycles; of copies only known in the replay
    uint32_t range, ranges;   // in ranges_
    uint64_t bytes;           // moved by copies without a GM side
};

struct Argument {
    const uint8_t* base = nullptr;
    uint64_t bytes = 0;
    check::GmRole role = check::GmRole::IN_OUT;
    std::vector<uint16_t> reads, writes;  // instructions that touched a block, by block
    uint64_t read = 0, written = 0, unaligned = 0;
};

struct Core {
    CoreKind kind = CoreKind::AIV;
    uint32_t block = 0, sub = 0;
    check::Arena arenas[6];
    uint32_t arenaCount = 0;
    uint16_t node = 0;
    uint64_t line = ~0ull;  // GM line that the scalar unit read last
};

// The instruction that is being announced.
struct Pending {
    bool open = false;
    Pipe pipe = Pipe::S;
    const char* api = nullptr;
    uint32_t element = 0;       // bytes, the widest operand
    uint64_t repeats = 0;       // of 256 bytes, the longest operand
    uint64_t amount = 0;        // Mmad: fractal products
    uint64_t toMemory[MEMORIES] = {};
    double scalar = 0;          // cycles of the scalar unit
    uint32_t range = 0, ranges = 0;
};

class Recorder {
public:
    explicit Recorder(const GafTraceCosts& costs);

    void launchBegin(uint32_t blocks, int kernelType);
    void gmBind(const void* p, uint64_t bytes, check::GmRole role);
    int coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const check::Arena* arenas, uint32_t count);
    void coreSwitch(int core);
    void coreEnd();

    void op(Pipe pipe, const char* api);
    void work(uint64_t amount) { pending_.amount += amount; }
    bool access(const char* api, const char* operand, bool write, const void* ptr, uint64_t runBytes,
                uint32_t runs, int64_t stride, check::View view, uint32_t outer, int64_t outerStride);
    void fault(const char* rule, const char* api, const char* format, va_list args);
    void setFlag(HardEvent event, int id);
    void waitFlag(HardEvent event, int id);
    void barrier(Pipe pipe);
    void crossSet(int mode, Pipe pipe, int id);
    void crossWait(int id);
    void syncAll(bool arrive, bool mix);
    void setNode(const char* node);

    // The timeline; the recorder is then of no more use.
    GafTrace* finish();

private:
    friend class Replay;
    struct Names {  // strings by address: literals of the kernel
        std::vector<std::string> text;
        std::unordered_map<const char*, uint16_t> byAddress;
        std::unordered_map<std::string, uint16_t> byText;
        uint16_t of(const char* name);
    };

    void flush();
    Event& add(Kind kind, uint32_t pipe);
    void touch(Argument& argument, const Range& range);
    const GafTraceVectorCost& vectorCost(uint16_t api, uint32_t element);
    uint32_t rosterNumber(CoreKind kind, uint32_t block, uint32_t sub) const;

    const GafTraceCosts& costs_;
    const GafTraceTiming& timing_;
    uint32_t blocks_ = 0, aics_ = 0, aivs_ = 0;  // cores of each kind in one block
    std::vector<Core> cores_;
    uint32_t core_ = 0;
    Pending pending_;
    std::vector<Argument> arguments_;
    std::vector<Range> ranges_;
    std::vector<Event> events_;
    Names apis_, nodes_;
    std::unordered_map<uint32_t, const GafTraceVectorCost*> costOf_;  // by api and element bytes
    std::vector<uint16_t> unknown_;
    uint64_t local_[MEMORIES][2] = {};
    uint32_t faults_ = 0;
    std::string fault_;
};

// The recorder of this thread's launch; null in check mode.
Recorder* active();
void activate(Recorder* recorder);

GafTrace* replay(Recorder& recorder);

}  // namespace trace
}  // namespace gaf_twin

#endif  // GAF_TRACE_RECORDER_H
