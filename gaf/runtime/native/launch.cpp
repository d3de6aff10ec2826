// SPDX-License-Identifier: Apache-2.0
// Launching a kernel: argument checks, worker threads, atomic stores, results.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "halfs.h"
#include "scheduler.h"
#include "twin/copy.h"

namespace gaf_twin {

namespace {

// Threads that help the caller of a launch. They sleep between launches.
class Pool {
public:
    // Runs launch.Work() on the caller and up to `helpers` pool threads.
    void Run(Launch& launch, uint32_t helpers)
    {
        {
            std::lock_guard<std::mutex> hold(lock_);
            while (threads_ < helpers) {
                std::thread(&Pool::Loop, this).detach();
                ++threads_;
            }
            launch_ = &launch;
            places_ = helpers;
        }
        wake_.notify_all();
        launch.Work();
        std::unique_lock<std::mutex> hold(lock_);
        launch_ = nullptr;  // who is late finds nothing and goes back to sleep
        done_.wait(hold, [this] { return inside_ == 0; });
    }

private:
    void Loop()
    {
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            wake_.wait(hold, [this] { return launch_ != nullptr && places_ > 0; });
            Launch* launch = launch_;
            --places_;
            ++inside_;
            hold.unlock();
            launch->Work();
            hold.lock();
            --inside_;
            if (inside_ == 0) {
                done_.notify_all();
            }
        }
    }

    std::mutex lock_;
    std::condition_variable wake_, done_;
    Launch* launch_ = nullptr;
    uint32_t places_ = 0, inside_ = 0, threads_ = 0;
};

std::mutex launchLock;  // one launch uses the pool, or the check engine, at a time
Pool* pool = nullptr;
pid_t poolOwner = 0;

Pool& ThePool()
{
    if (pool == nullptr || poolOwner != getpid()) {  // after a fork the threads are gone: start anew
        pool = new Pool;
        poolOwner = getpid();
    }
    return *pool;
}

uint32_t DefaultThreads()
{
    static const uint32_t threads = [] {
        const char* set = getenv("GAF_THREADS");
        const long asked = set != nullptr ? strtol(set, nullptr, 10) : 0;
        const unsigned found = std::thread::hardware_concurrency();
        return static_cast<uint32_t>(asked > 0 ? asked : found > 0 ? found : 1);
    }();
    return threads;
}

void PutText(GafTwinResult* r, const std::string& text)
{
    if (r->text != nullptr && r->textBytes > 0) {
        const uint64_t n = std::min<uint64_t>(text.size(), r->textBytes - 1);
        memcpy(r->text, text.data(), n);
        r->text[n] = '\0';
    }
}

int32_t BadCall(const LaunchCall& call, const std::string& why)
{
    PutText(call.result,
            "{\"rule\":\"launch\",\"api\":\"\",\"operand\":\"\",\"buffer\":\"\",\"offset\":0,\"core\":\"\","
            "\"pipe\":\"\",\"node\":\"\",\"message\":\"" +
                std::string(call.name) + ": " + why + "\"}\n");
    call.result->violations = 1;
    return 3;
}

}  // namespace

int32_t RunLaunch(const LaunchCall& call)
{
    GafTwinResult& result = *call.result;
    result.violations = 0;
    result.deadlock = 0;
    PutText(&result, "");
    if (call.nargs != call.pointers) {
        return BadCall(call, "takes " + std::to_string(call.pointers) + " GM arguments, got " +
                                 std::to_string(call.nargs));
    }
    if (call.tilingBytes != call.tilingSize) {
        return BadCall(call, "takes " + std::to_string(call.tilingSize) + " bytes of tiling, got " +
                                 std::to_string(call.tilingBytes));
    }
    if (call.blocks == 0) {
        return 0;
    }
    if (*call.kernelType < 0) {
        *call.kernelType = ProbeKernelType(call);
    }
    Launch launch;
    launch.call = &call;
    launch.type = *call.kernelType;
    launch.shape = ShapeOfType(launch.type);
    launch.checking = call.mode == MODE_CHECK;
    launch.finished.assign(call.blocks, false);
    result.kernelType = static_cast<uint32_t>(launch.type);

    if (launch.checking) {
        std::lock_guard<std::mutex> hold(launchLock);
        check::launchBegin(call.name, call.blocks, launch.type);
        for (uint32_t i = 0; i < call.nargs; ++i) {
            const auto role = static_cast<check::GmRole>(result.roles != nullptr ? result.roles[i] : 0);
            check::gmBind(call.args[i], call.bytes[i], ("argument " + std::to_string(i)).c_str(), role);
        }
        launch.Work();
        check::launchEnd();
        result.violations = check::violationCount();
        if (result.text != nullptr && result.textBytes > 0) {
            check::report(result.text, result.textBytes);
        }
        if (result.violations == 0 && !launch.failures.empty()) {
            result.violations = launch.failures.size();
            PutText(&result, launch.failures[0] + "\n");
        }
        result.deadlock = launch.stop.load() ? 1 : 0;
        return result.deadlock != 0 ? 2 : result.violations != 0 ? 1 : 0;
    }

    const uint32_t threads = std::min(result.threads != 0 ? result.threads : DefaultThreads(), call.blocks);
    std::unique_lock<std::mutex> hold(launchLock, std::try_to_lock);
    if (threads > 1 && hold.owns_lock()) {
        ThePool().Run(launch, threads - 1);
    } else {
        launch.Work();
    }
    if (launch.stop.load()) {
        std::string text;
        for (const std::string& f : launch.failures) {
            text += f + "\n";
        }
        PutText(&result, text);
        result.violations = launch.failures.size();
        result.deadlock = 1;
        return 2;
    }
    return 0;
}

// ---- atomic stores ----------------------------------------------------------------------------------------

namespace {

std::mutex atomicLock;

template <class T, class W>
void Combine(void* dst, const void* src, uint64_t bytes, AtomicOp op)
{
    T* d = static_cast<T*>(dst);
    const T* s = static_cast<const T*>(src);
    for (uint64_t i = 0; i < bytes / sizeof(T); ++i) {
        const W a = static_cast<W>(d[i]), b = static_cast<W>(s[i]);
        d[i] = static_cast<T>(op == AtomicOp::ADD   ? static_cast<W>(a + b)
                              : op == AtomicOp::MAX ? (a > b ? a : b)
                                                    : (a < b ? a : b));
    }
}

}  // namespace

void AtomicRuns(void* dst, const void* src, uint64_t runBytes, uint32_t runs, int64_t dstStride,
                int64_t srcStride)
{
    const Core& c = Current();
    WaitTurn();
    std::lock_guard<std::mutex> hold(atomicLock);
    for (uint32_t r = 0; r < runs; ++r) {
        void* d = static_cast<uint8_t*>(dst) + dstStride * r;
        const void* s = static_cast<const uint8_t*>(src) + srcStride * r;
        switch (static_cast<AscendC::AtomicDtype>(c.atomicType)) {
            case AscendC::AtomicDtype::ATOMIC_F32: Combine<float, float>(d, s, runBytes, c.atomicOp); break;
            case AscendC::AtomicDtype::ATOMIC_F16: Combine<half, float>(d, s, runBytes, c.atomicOp); break;
            case AscendC::AtomicDtype::ATOMIC_BF16:
                Combine<bfloat16_t, float>(d, s, runBytes, c.atomicOp);
                break;
            case AscendC::AtomicDtype::ATOMIC_S16:
                Combine<int16_t, int32_t>(d, s, runBytes, c.atomicOp);
                break;
            case AscendC::AtomicDtype::ATOMIC_S8: Combine<int8_t, int32_t>(d, s, runBytes, c.atomicOp); break;
            default: Combine<int32_t, int64_t>(d, s, runBytes, c.atomicOp); break;
        }
    }
}

}  // namespace gaf_twin
