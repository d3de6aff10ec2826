// SPDX-License-Identifier: Apache-2.0
// The model of one check-mode launch: memories with shadow state, buffers and queues, order, and the report.
//
// One engine lives per thread (a check launch runs on one thread; its cores are fibers of that thread). The
// functions of twin/check.h forward to it. Split by subject: access.cpp and touch.cpp (memory), buffers.cpp
// (TPipe, TQue), numeric.cpp (notes on numbers), sync.cpp (flags, barriers, cross-core), launch.cpp (cores,
// arguments, end of launch).
#ifndef GAF_CHECK_ENGINE_H
#define GAF_CHECK_ENGINE_H

#include <array>
#include <cstdarg>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "order.h"
#include "report.h"
#include "shadow.h"
#include "twin/check.h"

namespace gaf_twin {
namespace check {

using AscendC::Hardware;

constexpr uint32_t MEMORIES = static_cast<uint32_t>(Hardware::MAX);
// UB: 192 KiB - 256 B are usable; calls that borrow the reserved 8 KiB leave 184 KiB - 256 B (dav-2201).
constexpr uint32_t TOP_RESERVED = 256;

// What a core is blocked on besides flags, as crossBlock() gets it.
constexpr int ON_SYNC_ALL = -1, ON_NOTHING = -2, ON_POLLING = -3;
constexpr uint32_t BORROWED = 8 * 1024;
constexpr uint32_t MAX_BUFFERS = 64;       // over all InitBuffer calls of a kernel
constexpr uint64_t TOO_MANY = 200000;      // violations after which a kernel is given up
constexpr uint32_t CACHE_LINE = 64;        // of the scalar unit's data cache
constexpr uint32_t MAX_BLOCKS = 24;        // cube cores of the largest part (910B1)

// Kernel types as KERNEL_TASK_TYPE_DEFAULT numbers them (CANN 8.1).
enum : int { KERNEL_AIV_ONLY = 0, KERNEL_AIC_ONLY, KERNEL_MIX_AIV_1_0, KERNEL_MIX_AIC_1_0, KERNEL_MIX_AIC_1_1,
             KERNEL_MIX_AIC_1_2 };

const char* pipeName(uint32_t pipe);
const char* memoryName(Hardware hardware);
const char* positionName(Position position);
const char* eventName(HardEvent event);
const char* eventName(uint32_t srcPipe, uint32_t dstPipe);   // null: no such event

// PLAIN: no queue has handed it out yet.
enum class TensorState : uint8_t { PLAIN, FREE, OCCUPIED, ENQUE, DEQUE };

// One buffer of an InitBuffer call.
struct Buffer {
    std::string name;
    uint64_t start = 0;                    // bytes from the start of the memory
    uint64_t bytes = 0;
    Position position = Position::GM;
    TensorState state = TensorState::PLAIN;
    const char* node = nullptr;            // where it was allocated or freed last
    bool whole = false;                    // a memory whose tensors are placed by address: queues may take it over
};

// UB, L1, L0A... of one core.
struct Memory {
    uint8_t* base = nullptr;
    uint64_t bytes = 0;
    Shadow shadow;
    std::vector<uint16_t> bufferOf;        // per 32-byte block: number of the buffer + 1, 0 = none
};

// One GM argument.
struct Argument {
    const uint8_t* base = nullptr;
    uint64_t bytes = 0;
    std::string name;
    GmRole role = GmRole::IN_OUT;
    Shadow shadow;                         // empty for INPUT
};

// An operand of the instruction in progress, to find forbidden overlaps.
struct OperandRange {
    const char* name;
    uint64_t lo, hi;
    bool write;
};

struct Core {
    CoreKind kind = CoreKind::AIV;
    uint32_t block = 0, sub = 0;
    uint16_t number = 0;
    bool begun = false, ended = false;
    std::array<Memory, MEMORIES> memory;
    std::vector<Buffer> buffers;
    StatePool pool;                        // states of all its memories
    CoreClock clock;
    std::array<std::array<HardFlag, EVENT_IDS>, static_cast<size_t>(HardEvent::MAX)> flags;
    std::array<std::array<bool, EVENT_IDS>, static_cast<size_t>(HardEvent::MAX)> given{};   // ids that TPipe gave the program
    const char* node = "";
    bool atomic = false, counterMode = false, staticTensors = false;
    std::set<uintptr_t> dirtyLines;        // GM lines that the scalar unit wrote and did not clean
    std::set<uintptr_t> watchedLines;      // GM lines that it dropped from its cache to see other cores' writes
    uint32_t buffersMade = 0;
    // the instruction in progress
    const char* api = nullptr;
    uint8_t pipe = 0;
    uint32_t opFlags = 0;
    Stamp stamp;
    std::vector<OperandRange> operands;
    const void* source = nullptr;          // what it reads, when its numbers are looked at (numeric.cpp)
    Number sourceNumber = Number::OTHER;
    std::array<uint64_t, 3> sourceRuns{};      // bytes, runs, times
    std::array<int64_t, 2> sourceStrides{};
    // blocked in: -2 nothing, -1 SyncAll, else CrossCoreWaitFlag id
    int blockedOn = ON_NOTHING;            // a cross-core flag, or one of these
    uint32_t barrierGeneration[2] = {0, 0};
};

class Engine {
public:
    // launch.cpp
    void launchBegin(const char* kernel, uint32_t blocks, int kernelType);
    void autoSync(bool on) { autoSync_ = on; }
    void gmBind(const void* p, uint64_t bytes, const char* name, GmRole role);
    int coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const Arena* arenas, uint32_t count);
    void coreSwitch(int core);
    void coreEnd();
    void crossBlock(int id);
    void deadlock();
    void launchEnd();
    const Report& report() const { return report_; }
    const Report& notes() const { return notes_; }

    // access.cpp
    void op(Pipe pipe, const char* api, uint32_t flags);
    bool access(Pipe pipe, const char* api, const char* operand, bool write, const void* ptr,
                uint64_t runBytes, uint64_t runs, int64_t stride, uint32_t align, View view, uint64_t outer,
                int64_t outerStride);
    void gmView(const void* p, uint64_t bytes);

    // buffers.cpp
    void bufferInit(void* base, uint64_t bytes, Position position, const char* what);
    void bufferReset();
    void bufferDrop(void* base, uint64_t bytes);
    void queue(TensorState to, const char* call, void* base, Position position);
    void reservedUb(const char* api);
    void staticTensors();

    // sync.cpp
    void setFlag(HardEvent event, int id, bool byPipe);
    void giveEvent(HardEvent event, int id);
    void waitFlag(HardEvent event, int id, bool byPipe);
    void barrier(Pipe pipe);
    void crossSet(int mode, Pipe pipe, int id);
    void crossWait(int id);
    void post(uint64_t key, bool pipes);
    void awaitPosts(uint64_t key, uint64_t count);
    void syncAllArrive(bool mix);
    void syncAllLeave(bool mix);

    void cacheCleaned(const void* p);
    void cacheDropped(const void* p);
    void counterMode(bool on);
    void atomicMode(bool on);
    void setNode(const char* node);

    // Adds a violation with core, node and kernel of the current core.
    void violate(const char* rule, const char* api, const char* operand, const char* pipe,
                 const std::string& buffer, int64_t offset, const char* format, ...)
        __attribute__((format(printf, 8, 9)));
    void violateV(const char* rule, const char* api, const char* operand, const char* pipe,
                  const std::string& buffer, int64_t offset, const char* format, va_list args);
    const char* currentPipe(const char* api) const;

private:
    // Where an address lies: a memory of the current core or a GM argument; both null = nowhere.
    struct Place {
        Memory* memory = nullptr;
        Argument* argument = nullptr;
        Hardware hardware = Hardware::MAX;
        uint64_t offset = 0;               // from the start of the memory or argument
    };
    struct Touch;                          // one access while it walks over the shadow

    struct Pattern;                        // the bytes of an operand
    struct Operand;                        // what messages say of it

    bool inInstruction(Pipe pipe, const char* api) const;
    Place find(const void* p);
    std::string placeName(const Place& place);
    const Buffer* bufferAt(const Place& place) const;
    int64_t offsetInBuffer(const Place& place, uint64_t offset) const;
    bool checkAllocation(const Operand& o, const Place& place, const void* ptr, View view,
                         const Pattern& pattern);
    void checkView(const Operand& o, const Place& place, const void* ptr, View view, const Pattern& pattern);
    void checkAlignment(const Operand& o, const Place& place, const void* ptr, uint32_t align,
                        const Pattern& pattern);
    void checkBuffer(const Operand& o, const Place& place, const Pattern& pattern);
    void checkOperandOverlap(const Operand& o, const Place& place, uint64_t lo, uint64_t hi);
    void checkNumbers(const Operand& o, const Place& place, const void* ptr, View view,
                      const Pattern& pattern);
    static bool isFinite(Number number, const void* ptr, const Pattern& pattern);
    void note(const char* rule, const Operand& o, const Place& place, const char* format, ...)
        __attribute__((format(printf, 5, 6)));
    void touch(Touch& t, Shadow& shadow, uint64_t lo, uint64_t hi);
    uint32_t touchRead(Touch& t, StatePool& pool, uint32_t id, uint32_t slots, uint64_t offset);
    uint32_t touchWrite(Touch& t, StatePool& pool, uint32_t id, uint32_t slots, uint64_t offset);
    std::vector<Access> unorderedWriters(Touch& t, StatePool& pool, uint32_t id, uint64_t offset);
    bool excused(const Stamp& earlier) const;
    void noteRace(Touch& t, const Access& earlier, bool earlierWrote, uint64_t offset);
    void reportTouch(const Operand& o, const Touch& t, const Place& place);
    Buffer* bufferOfTensor(void* base);
    void reportLeaks();
    void reportUnwritten(Argument& argument);

    std::string coreName(uint16_t number) const;
    uint16_t rosterNumber(CoreKind kind, uint32_t block, uint32_t sub) const;
    bool hasScheduler() const;
    void checkAllResident(const char* api);
    void deliver(uint16_t to, int id, int mode, const Vector& message);
    bool popPending(const std::vector<uint16_t>& from, int mode, int id, Vector& all);
    void reportLeftovers(Core& core);

    Report report_, notes_;
    bool inputsFinite_ = true;             // every number read from an argument so far
    int kernelType_ = 0;
    bool autoSync_ = false;
    uint32_t blocks_ = 0, aics_ = 0, aivs_ = 0;            // cores of each kind in one block
    std::vector<std::unique_ptr<Core>> cores_;             // by roster number; null until it begins
    std::vector<std::unique_ptr<Core>> spare_;             // ended cores, for their memory
    Core* core_ = nullptr;
    StatePool gmPool_;
    std::vector<std::unique_ptr<Argument>> arguments_;     // sorted by base
    Argument* lastArgument_ = nullptr;
    std::vector<std::array<CrossCounter, CROSS_IDS>> counters_;
    std::vector<PendingSets> pending_;
    GridBarrier barriers_[2];
    std::map<uint64_t, std::vector<Vector>> posts_;        // by key: what the first n posts published
};

Engine& engine();   // of this thread

}  // namespace check
}  // namespace gaf_twin

#endif  // GAF_CHECK_ENGINE_H
