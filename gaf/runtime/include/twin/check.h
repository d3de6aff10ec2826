// SPDX-License-Identifier: Apache-2.0
// Interface between the API headers of the twin and the check engine: empty in fast mode, else the engine.
//
// GAF_TWIN == 1 (fast): every function is an empty always-inlined body, so a kernel pays nothing.
// GAF_TWIN == 2 (check): functions live in the runtime library (native/check) and act on the *current core*,
// which the launcher announces by coreBegin / coreSwitch.
// GAF_TWIN == 3 (trace): the same functions, which then feed the timeline (native/trace, twin/trace.h).
#ifndef GAF_TWIN_CHECK_H
#define GAF_TWIN_CHECK_H

#include "twin/enums.h"

namespace gaf_twin {

using AscendC::HardEvent;
using AscendC::TPosition;
using Position = AscendC::TPosition;

#if defined(GAF_TWIN) && GAF_TWIN == 1
#define GAF_TWIN_CHECKING 0
#define GAF_CHECK_FN(sig, ret) __attribute__((always_inline)) static inline sig { ret; }
#else
#define GAF_TWIN_CHECKING 1
#define GAF_CHECK_FN(sig, ret) __attribute__((visibility("default"))) sig;
#endif

namespace check {

using gaf_twin::Pipe;
using gaf_twin::CoreKind;

// Starts one instruction of `pipe`: what follows up to the next op() is one atomic instruction of `api` (it
// cannot race with itself; a call that issues several instructions calls op() for each, or is one op when it
// orders its own parts). Every API calls op() once before its access() calls. `flags`: see OpFlag.
enum OpFlag : uint32_t {
    OP_UNIT_FLAG = 1,   // Mmad / Fixpipe with unitFlag: the pair is ordered by hardware on L0C
    OP_M_ORDERED = 2,   // Mmad with (m/16)*(n/16) >= 10: an accumulating Mmad after it needs no barrier
    OP_NO_ALIAS = 4,    // not even dst == src is allowed (Tanh, Erf, Gather, Brcb, ...)
    OP_MAY_OVERLAP = 8,   // operands may overlap in any way
};
GAF_CHECK_FN(void op(Pipe pipe, const char* api, uint32_t flags = 0), )

// Amount of the current instruction where its operands don't tell: of Mmad the products of 16 x 16 x 32 bytes.
GAF_CHECK_FN(void work(uint64_t amount), )

// Element types that can hold NaN and infinity.
enum class Number : uint8_t { OTHER, F16, BF16, F32 };

// The tensor that an operand belongs to: LocalTensor (start, bytes from there) or GlobalTensor
// (SetGlobalBuffer's pointer and declared bytes). base null = unknown; bytes 0 = no declared size (base still
// names the GM argument).
struct View {
    const void* base = nullptr;
    uint64_t bytes = 0;
    uint8_t element = 0;                   // bytes of one element, 0 = unknown
    Number number = Number::OTHER;         // how to read one
};

// Called BEFORE data is touched: `runs` runs of `runBytes` bytes, starts `strideBytes` apart, by `api`'s
// `operand`; the whole pattern repeats `outer` times, `outerStride` bytes apart (vector repeats: runs = 8
// blocks, outer = repeatTime). `ptr` is an address in a core's UB/L1/L0/BT/FB arena (see coreBegin()) or in
// GM (see gmBind()). `requiredAlign`: alignment in bytes of the start of every run (0 = none). Returns false
// when touching the range would be memory-unsafe (outside of every allocation): the API then skips the whole
// call.
GAF_CHECK_FN(bool access(Pipe pipe, const char* api, const char* operand, bool write, const void* ptr,
                         uint64_t runBytes, uint32_t runs, int64_t strideBytes, uint32_t requiredAlign,
                         View view = View{}, uint32_t outer = 1, int64_t outerStride = 0), return true)

// The call borrows the reserved top 8 KiB of UB (Select modes 1 and 2, Power, Sign, ...): user buffers end
// below.
GAF_CHECK_FN(void reservedUb(const char* api), )

// Records a violation of `ruleName` when !ok; returns ok. `fmt` is printf-like.
#if GAF_TWIN_CHECKING
__attribute__((visibility("default"), format(printf, 4, 5)))
bool rule(bool ok, const char* ruleName, const char* api, const char* fmt, ...);
#else
template <class... A>
__attribute__((always_inline)) static inline bool rule(bool, const char*, const char*, const char*, A...)
{
    return true;
}
#endif

// Order inside a core. waitFlag with nothing set is a deadlock on the device: recorded, and execution goes
// on. `byPipe`: the call comes from a TQue or a TPipe-owned event (ids 6 and 7 are TPipe's; programs may not
// use them).
GAF_CHECK_FN(void setFlag(HardEvent event, int id, bool byPipe = false), )
GAF_CHECK_FN(void waitFlag(HardEvent event, int id, bool byPipe = false), )
// TPipe gives the program an event id, which it may use although ids 6 and 7 are TPipe's.
GAF_CHECK_FN(void giveEvent(HardEvent event, int id), )
GAF_CHECK_FN(void barrier(Pipe pipe), )

// Order between cores. crossSet is called before the launcher raises counters. crossWait is called when the
// counter is known to be available and before it is decremented (blocking itself is the launcher's: fibers).
// A blocked wait is announced by crossBlock so that a deadlock report can say who waits for what.
GAF_CHECK_FN(void crossSet(int mode, Pipe pipe, int id), )
GAF_CHECK_FN(void crossWait(int id), )
// Counters between cores: `post` publishes everything that this core has completed (`pipes`: it waits for all of
// its pipes first), `awaitPosts` learns what the first `count` posts published.
GAF_CHECK_FN(void post(uint64_t key, bool pipes), )
GAF_CHECK_FN(void awaitPosts(uint64_t key, uint64_t count), )
GAF_CHECK_FN(void syncAllArrive(bool mix), )   // before blocking in SyncAll
GAF_CHECK_FN(void syncAllLeave(bool mix), )    // after all cores arrived

// Buffers. `base` is an arena address. `bufferInit` is one buffer of an InitBuffer call (TQue: one call per
// buffer). `what` names the queue or buffer if known ("VECIN queue 0 buffer 1").
GAF_CHECK_FN(void bufferInit(void* base, uint64_t bytes, Position pos, const char* what), )
// The buffers between base and base + bytes are gone (TBufPool::Reset).
GAF_CHECK_FN(void bufferDrop(void* base, uint64_t bytes), )
GAF_CHECK_FN(void bufferReset(), )             // TPipe::Reset / Destroy: every buffer is gone
GAF_CHECK_FN(void queueAlloc(void* base, uint64_t bytes, Position pos), )
GAF_CHECK_FN(void queueEnque(void* base, uint64_t bytes, Position pos), )
GAF_CHECK_FN(void queueDeque(void* base, uint64_t bytes, Position pos), )
GAF_CHECK_FN(void queueFree(void* base, uint64_t bytes, Position pos), )

// The core places its tensors itself (LocalMemAllocator, LocalTensor(position, address, count)): all of its
// on-chip memory counts as one buffer per memory.
GAF_CHECK_FN(void staticTensors(), )

// GM view made by GlobalTensor::SetGlobalBuffer(p, elements): `bytes` is the declared size (0 = unknown).
GAF_CHECK_FN(void gmView(const void* p, uint64_t bytes), )

// Scalar writes to GM stay in the data cache of the core: cacheCleaned for DataCacheCleanAndInvalid of the
// 64-byte line that holds `p`, null for the whole cache. A line with writes is published with all that the scalar
// unit has completed before; one without is dropped, and the next read learns what other cores published of it.
GAF_CHECK_FN(void cacheCleaned(const void* p), )
GAF_CHECK_FN(void cacheDropped(const void* p), )

// Counter mode of the vector mask (SetMaskCount) is on: it must be off at the end of the kernel.
GAF_CHECK_FN(void counterMode(bool on), )

// Atomic mode of MTE3/FIX writes to GM is on (writes may then overlap between cores).
GAF_CHECK_FN(void atomicMode(bool on), )

// Name of the model node that the following calls belong to (GAF_AT).
GAF_CHECK_FN(void setNode(const char* node), )

}  // namespace check
}  // namespace gaf_twin

// --- The part that the launcher calls (runtime library, always built with the engine) ----------------------
namespace gaf_twin {
namespace check {

// IN_OUT: role unknown or updated in place (initialised at launch, need not be written). OUTPUT: every byte
// must be written by the kernel and none read before. INPUT: never written. WORKSPACE: uninitialised.
// CONSTANT: an input that holds the same bytes at every launch (fast mode).
enum class GmRole : uint8_t { IN_OUT = 0, WORKSPACE = 1, INPUT = 2, OUTPUT = 3, CONSTANT = 4 };

// One buffer of on-chip memory of one core: real bytes, so that an address identifies the buffer.
struct Arena {
    uint8_t* base;
    uint32_t bytes;
    AscendC::Hardware hardware;
};

// Launcher side, check mode only. A core is (kind, block, sub): AIC sub = 0; AIV sub = 0 or 1 in MIX 1:2.
void launchBegin(const char* kernel, uint32_t blocks, int kernelType);
// The compiler orders the vector pipe with itself and the scalar unit with the other pipes, as the device
// compiler does by default for sources that don't place these barriers. Holds until the next launchBegin.
void autoSync(bool on);
void gmBind(const void* p, uint64_t bytes, const char* name, GmRole role);   // allocation of an argument
// A core starts; `arenas` stay valid until coreEnd. Returns a core number used by coreSwitch.
int coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const Arena* arenas, uint32_t arenaCount);
void coreSwitch(int core);                     // the following calls act on this core
void coreEnd();                                // current core finished: leftovers are reported
void crossBlock(int id);   // current core is blocked in CrossCoreWaitFlag(id); -1: SyncAll, -3: a polling loop on GM
void deadlock();                               // nothing can run: report who waits for what
void launchEnd();                              // never-written outputs, leftovers of flags
// Violations found: count, and JSON lines (one object a line) in `out` (at most `cap` bytes with NUL). Notes follow
// them, with "note": true.
uint64_t violationCount();
uint64_t noteCount();
uint64_t report(char* out, uint64_t cap);

}  // namespace check
}  // namespace gaf_twin

#undef GAF_CHECK_FN
#endif  // GAF_TWIN_CHECK_H
