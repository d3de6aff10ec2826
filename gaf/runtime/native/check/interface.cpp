// SPDX-License-Identifier: Apache-2.0
// The functions of twin/check.h: each acts on the engine of this thread, or on its recorder in trace mode.
#include "engine.h"
#include "trace/recorder.h"

namespace gaf_twin {
namespace check {

void op(Pipe pipe, const char* api, uint32_t flags)
{
    if (trace::Recorder* r = trace::active()) {
        r->op(pipe, api);
        return;
    }
    engine().op(pipe, api, flags);
}

bool access(Pipe pipe, const char* api, const char* operand, bool write, const void* ptr, uint64_t runBytes,
            uint32_t runs, int64_t strideBytes, uint32_t requiredAlign, View view, uint32_t outer,
            int64_t outerStride)
{
    if (trace::Recorder* r = trace::active()) {
        return r->access(api, operand, write, ptr, runBytes, runs, strideBytes, view, outer, outerStride);
    }
    return engine().access(pipe, api, operand, write, ptr, runBytes, runs, strideBytes, requiredAlign, view,
                           outer, outerStride);
}

bool rule(bool ok, const char* ruleName, const char* api, const char* format, ...)
{
    if (ok) {
        return true;
    }
    va_list args;
    va_start(args, format);
    if (trace::Recorder* r = trace::active()) {
        r->fault(ruleName, api, format, args);
    } else {
        Engine& e = engine();
        e.violateV(ruleName, api, "", e.currentPipe(api), "", -1, format, args);
    }
    va_end(args);
    return false;
}

// What both listen to; the rest is for the check engine alone.
#define GAF_EITHER(TRACED, CHECKED)                  \
    if (trace::Recorder* r = trace::active()) {      \
        r->TRACED;                                   \
    } else {                                         \
        engine().CHECKED;                            \
    }
#define GAF_CHECKED(CALL)            \
    if (trace::active() == nullptr) { \
        engine().CALL;                \
    }

void work(uint64_t amount)
{
    if (trace::Recorder* r = trace::active()) {
        r->work(amount);
    }
}
void reservedUb(const char* api) { GAF_CHECKED(reservedUb(api)) }
void setFlag(HardEvent event, int id, bool byPipe)
{
    GAF_EITHER(setFlag(event, id), setFlag(event, id, byPipe))
}
void waitFlag(HardEvent event, int id, bool byPipe)
{
    GAF_EITHER(waitFlag(event, id), waitFlag(event, id, byPipe))
}
void giveEvent(HardEvent event, int id) { GAF_CHECKED(giveEvent(event, id)) }
void barrier(Pipe pipe) { GAF_EITHER(barrier(pipe), barrier(pipe)) }
void crossSet(int mode, Pipe pipe, int id) { GAF_EITHER(crossSet(mode, pipe, id), crossSet(mode, pipe, id)) }
void crossWait(int id) { GAF_EITHER(crossWait(id), crossWait(id)) }
void post(uint64_t key, bool pipes) { GAF_CHECKED(post(key, pipes)) }
void awaitPosts(uint64_t key, uint64_t count) { GAF_CHECKED(awaitPosts(key, count)) }
void bufferDrop(void* base, uint64_t bytes) { GAF_CHECKED(bufferDrop(base, bytes)) }
void syncAllArrive(bool mix) { GAF_EITHER(syncAll(true, mix), syncAllArrive(mix)) }
void syncAllLeave(bool mix) { GAF_EITHER(syncAll(false, mix), syncAllLeave(mix)) }

void bufferInit(void* base, uint64_t bytes, Position pos, const char* what)
{
    GAF_CHECKED(bufferInit(base, bytes, pos, what))
}
void bufferReset() { GAF_CHECKED(bufferReset()) }
void queueAlloc(void* base, uint64_t, Position pos)
{
    GAF_CHECKED(queue(TensorState::OCCUPIED, "AllocTensor", base, pos))
}
void queueEnque(void* base, uint64_t, Position pos)
{
    GAF_CHECKED(queue(TensorState::ENQUE, "EnQue", base, pos))
}
void queueDeque(void* base, uint64_t, Position pos)
{
    GAF_CHECKED(queue(TensorState::DEQUE, "DeQue", base, pos))
}
void queueFree(void* base, uint64_t, Position pos)
{
    GAF_CHECKED(queue(TensorState::FREE, "FreeTensor", base, pos))
}

void staticTensors() { GAF_CHECKED(staticTensors()) }
void autoSync(bool on) { GAF_CHECKED(autoSync(on)) }
void gmView(const void* p, uint64_t bytes) { GAF_CHECKED(gmView(p, bytes)) }
void cacheCleaned(const void* p) { GAF_CHECKED(cacheCleaned(p)) }
void cacheDropped(const void* p) { GAF_CHECKED(cacheDropped(p)) }
void counterMode(bool on) { GAF_CHECKED(counterMode(on)) }
void atomicMode(bool on) { GAF_CHECKED(atomicMode(on)) }
void setNode(const char* node) { GAF_EITHER(setNode(node), setNode(node)) }

void launchBegin(const char* kernel, uint32_t blocks, int kernelType)
{
    GAF_EITHER(launchBegin(blocks, kernelType), launchBegin(kernel, blocks, kernelType))
}
void gmBind(const void* p, uint64_t bytes, const char* name, GmRole role)
{
    GAF_EITHER(gmBind(p, bytes, role), gmBind(p, bytes, name, role))
}
int coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const Arena* arenas, uint32_t arenaCount)
{
    trace::Recorder* r = trace::active();
    return r != nullptr ? r->coreBegin(kind, block, sub, arenas, arenaCount)
                        : engine().coreBegin(kind, block, sub, arenas, arenaCount);
}
void coreSwitch(int core) { GAF_EITHER(coreSwitch(core), coreSwitch(core)) }
void coreEnd() { GAF_EITHER(coreEnd(), coreEnd()) }
void crossBlock(int id) { GAF_CHECKED(crossBlock(id)) }
void deadlock() { GAF_CHECKED(deadlock()) }
void launchEnd() { GAF_CHECKED(launchEnd()) }
uint64_t violationCount() { return engine().report().total(); }
uint64_t noteCount() { return engine().notes().total(); }
uint64_t report(char* out, uint64_t cap)
{
    const uint64_t used = engine().report().json(out, cap);
    return used + engine().notes().json(out + used, cap - used, true);
}

#undef GAF_EITHER
#undef GAF_CHECKED

}  // namespace check
}  // namespace gaf_twin
