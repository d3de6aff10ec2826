// SPDX-License-Identifier: Apache-2.0
// State of the simulated AI core that the current fiber runs on, and the launcher services it calls.
#ifndef GAF_TWIN_CORE_H
#define GAF_TWIN_CORE_H

#include "twin/check.h"
#include "twin/types.h"

namespace AscendC {
class TPipe;
}

#pragma GCC visibility push(default)
namespace gaf_twin {

constexpr uint32_t EVENT_TYPES = static_cast<uint32_t>(AscendC::HardEvent::MAX);
constexpr int EVENT_IDS = 8;
constexpr uint32_t MAX_BUFFERS = 64;      // of one TPipe (QBUF_MAX_LEN)
constexpr uint32_t BUFFER_RECORDS = 256;  // kept after that limit was reported

// One buffer made by TPipe::InitBuffer.
struct Buffer {
    uint8_t* base = nullptr;
    uint32_t bytes = 0;
    AscendC::TPosition position = AscendC::TPosition::MAX;
    AscendC::TBufState state = AscendC::TBufState::FREE;
    AscendC::HardEvent freeEvent = AscendC::HardEvent::MAX;
    int8_t enqueId = AscendC::INVALID_TEVENTID, freeId = AscendC::INVALID_TEVENTID;
    AscendC::HardEvent enqueEvent = AscendC::HardEvent::MAX;
    int32_t userTag = -1;
};

enum class AtomicOp : uint8_t { NONE, ADD, MAX, MIN };

struct Fmatrix {
    uint16_t h = 0, w = 0;
    uint8_t pad[4] = {0, 0, 0, 0};
};

// Registers and bookkeeping of one core. Members change only while the core's fiber runs.
struct Core {
    CoreKind kind = CoreKind::AIV;
    uint32_t block = 0, sub = 0, subs = 1, blockNum = 1;
    KernelMetaType kernelType = KERNEL_TYPE_AIV_ONLY;
    int checkIndex = -1;

    uint8_t* arena[8] = {};  // by AscendC::Hardware
    uint32_t used[8] = {};   // bytes handed out by InitBuffer
    Buffer buffers[BUFFER_RECORDS];
    uint32_t bufferCount = 0;
    AscendC::TPipe* pipe = nullptr;

    uint8_t eventBusy[EVENT_TYPES] = {};  // ids held by AllocEventID, a bit each
    uint8_t flags[EVENT_TYPES] = {};      // hard flags that are set, a bit each

    uint64_t maskLo = ~0ull, maskHi = ~0ull;
    bool hf32 = false, hf32Even = false;  // SetHF32Mode, SetHF32TransMode
    bool counterMode = false;
    uint8_t compareMask[32] = {};
    float deqScale = 1.0f;
    uint64_t padValue = 0, load3dPad = 0;
    uint32_t load3dBoundary = 0;  // bytes of L1 after which LoadData(3D) starts again, 0 = none
    uint8_t load3dRepeat = 1;     // times that LoadData(3D) is carried out: 0 or 1
    bool padValueSet = false;
    AtomicOp atomicOp = AtomicOp::NONE;
    uint8_t atomicType = 0;  // AscendC::AtomicDtype
    Fmatrix fmatrix[2];
    float accumulated = 0.0f;  // GetAccVal
    float reduceValue = 0.0f;  // GetReduceMaxMinCount
    uint64_t reduceIndex = 0;
    uint64_t sysWorkspace = 0;
    // CastDequant: constants of the 16 lanes, or lane 0 for all.
    float deqScales[16] = {};
    int16_t deqOffsets[16] = {};
    bool deqSigns[16] = {}, deqVector = false;
    uint16_t merged[4] = {};  // GetMrgSortResult
    bool scalarWrote = false;  // a scalar write to GM since the last DataCacheCleanAndInvalid
    // Registers of L0C -> GM copies.
    uint64_t fixScales = 0, fixScalar = 0;
    uint16_t fixNdNum = 1, fixSrcNd = 0, fixDstNd = 0;

    const char* node = "";
};

// The core of the current fiber. Announces the default kernel type when a kernel reaches it before
// KERNEL_TASK_TYPE.
Core& Current();
// Whether a kernel calls, not the host's code.
bool OnCore();
// Where tensors of the vector core lie that a cube core declares but must not use: no memory of any core.
uint8_t* AbsentMemory();

// Model node that the following calls belong to (GAF_AT).
void SetNode(const char* node);

// Kernel type announced by KERNEL_TASK_TYPE_DEFAULT.
void DeclareKernelType(int type);

// Gives up the current kernel: the launch ends with result 2 (deadlock) or 1, and `message` says why.
[[noreturn]] void Abandon(const char* rule, const char* message);

// Cross-core synchronisation; these block the fiber.
void CrossSet(int mode, Pipe pipe, int id);
void CrossWait(int id);
void SyncAllCores(bool aivOnly);
// Raises the counter `key`; waits until it has been raised `count` times.
void Post(uint64_t key);
void AwaitPosts(uint64_t key, uint64_t count);
// How often this core has asked for its next wait on `key`, this time included.
uint64_t NextWait(uint64_t key);

// Keys of these counters: what they count, and two numbers that tell counters of one kind apart.
enum class PostKind : uint64_t { PAIR = 1, TURN, ARRIVE, ALL, LINE };

constexpr uint64_t PostKey(PostKind kind, uint64_t a, uint64_t b)
{
    return static_cast<uint64_t>(kind) << 60 | (a & 0xfffffffffffull) << 16 | (b & 0xffff);
}

// Whether the core has the memory of a position; of L1 a vector core has only what it hands to matmul objects.
inline bool HasMemory(const Core& core, AscendC::TPosition pos)
{
    const AscendC::Hardware memory = HardwareOf(pos);
    return core.arena[static_cast<uint32_t>(memory)] != nullptr &&
           (core.kind == CoreKind::AIC || memory == AscendC::Hardware::UB || pos == AscendC::TPosition::TSCM);
}

// A look at a word of GM gives the other cores a turn: it may be a loop that waits for one of them.
void YieldCore(const void* address);

const char* PositionName(AscendC::TPosition p);
const char* EventName(AscendC::HardEvent e);

}  // namespace gaf_twin
#pragma GCC visibility pop

namespace gaf_twin {

struct CoreTypeView {
    operator int32_t() const { return Current().kind == CoreKind::AIC ? AscendC::AIC : AscendC::AIV; }
};

// One operand of an API call for the access check.
inline bool Touch(Pipe pipe, const char* api, const char* operand, bool write, const void* p,
                  uint64_t runBytes, uint32_t runs, int64_t stride, uint32_t align, check::View view)
{
    return check::access(pipe, api, operand, write, p, runBytes, runs, stride, align, view);
}

}  // namespace gaf_twin

// Unlike on the device this is evaluated at run time: one build serves both kinds of core.
static const gaf_twin::CoreTypeView g_coreType;
#define ASCEND_IS_AIV (g_coreType == AscendC::AIV)
#define ASCEND_IS_AIC (g_coreType == AscendC::AIC)
#define ASCEND_IS_NOT_AIV (g_coreType != AscendC::AIV)
#define ASCEND_IS_NOT_AIC (g_coreType != AscendC::AIC)

#define KERNEL_TASK_TYPE_DEFAULT(type) ::gaf_twin::DeclareKernelType(type)
#define KERNEL_TASK_TYPE(key, type) ::gaf_twin::DeclareKernelType(type)

#endif  // GAF_TWIN_CORE_H
