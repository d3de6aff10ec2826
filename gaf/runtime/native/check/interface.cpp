// SPDX-License-Identifier: Apache-2.0
// The functions of twin/check.h: each acts on the engine of this thread.
#include "engine.h"

namespace gaf_twin {
namespace check {

void op(Pipe pipe, const char* api, uint32_t flags) { engine().op(pipe, api, flags); }

bool access(Pipe pipe, const char* api, const char* operand, bool write, const void* ptr, uint64_t runBytes,
            uint32_t runs, int64_t strideBytes, uint32_t requiredAlign, View view, uint32_t outer,
            int64_t outerStride)
{
    return engine().access(pipe, api, operand, write, ptr, runBytes, runs, strideBytes, requiredAlign, view,
                           outer, outerStride);
}

bool rule(bool ok, const char* ruleName, const char* api, const char* format, ...)
{
    if (ok) {
        return true;
    }
    Engine& e = engine();
    va_list args;
    va_start(args, format);
    e.violateV(ruleName, api, "", e.currentPipe(api), "", -1, format, args);
    va_end(args);
    return false;
}

void reservedUb(const char* api) { engine().reservedUb(api); }
void setFlag(HardEvent event, int id, bool byPipe) { engine().setFlag(event, id, byPipe); }
void waitFlag(HardEvent event, int id, bool byPipe) { engine().waitFlag(event, id, byPipe); }
void barrier(Pipe pipe) { engine().barrier(pipe); }
void crossSet(int mode, Pipe pipe, int id) { engine().crossSet(mode, pipe, id); }
void crossWait(int id) { engine().crossWait(id); }
void syncAllArrive(bool mix) { engine().syncAllArrive(mix); }
void syncAllLeave(bool mix) { engine().syncAllLeave(mix); }

void bufferInit(void* base, uint64_t bytes, Position pos, const char* what)
{
    engine().bufferInit(base, bytes, pos, what);
}
void bufferReset() { engine().bufferReset(); }
void queueAlloc(void* base, uint64_t, Position pos)
{
    engine().queue(TensorState::OCCUPIED, "AllocTensor", base, pos);
}
void queueEnque(void* base, uint64_t, Position pos)
{
    engine().queue(TensorState::ENQUE, "EnQue", base, pos);
}
void queueDeque(void* base, uint64_t, Position pos)
{
    engine().queue(TensorState::DEQUE, "DeQue", base, pos);
}
void queueFree(void* base, uint64_t, Position pos)
{
    engine().queue(TensorState::FREE, "FreeTensor", base, pos);
}

void gmView(const void* p, uint64_t bytes) { engine().gmView(p, bytes); }
void cacheCleaned(const void* p) { engine().cacheCleaned(p); }
void counterMode(bool on) { engine().counterMode(on); }
void atomicMode(bool on) { engine().atomicMode(on); }
void setNode(const char* node) { engine().setNode(node); }

void launchBegin(const char* kernel, uint32_t blocks, int kernelType)
{
    engine().launchBegin(kernel, blocks, kernelType);
}
void gmBind(const void* p, uint64_t bytes, const char* name, GmRole role)
{
    engine().gmBind(p, bytes, name, role);
}
int coreBegin(CoreKind kind, uint32_t block, uint32_t sub, const Arena* arenas, uint32_t arenaCount)
{
    return engine().coreBegin(kind, block, sub, arenas, arenaCount);
}
void coreSwitch(int core) { engine().coreSwitch(core); }
void coreEnd() { engine().coreEnd(); }
void crossBlock(int id) { engine().crossBlock(id); }
void deadlock() { engine().deadlock(); }
void launchEnd() { engine().launchEnd(); }
uint64_t violationCount() { return engine().report().total(); }
uint64_t report(char* out, uint64_t cap) { return engine().report().json(out, cap); }

}  // namespace check
}  // namespace gaf_twin
