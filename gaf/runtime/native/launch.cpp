// SPDX-License-Identifier: Apache-2.0
// Launching a kernel: argument checks, worker threads, atomic stores, results.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "halfs.h"
#include "scheduler.h"
#include "trace/recorder.h"
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

void Start(Launch& launch, const LaunchCall& call)
{
    launch.call = &call;
    launch.type = *call.kernelType;
    launch.shape = ShapeOfType(launch.type);
    launch.checking = call.mode == MODE_CHECK || call.mode == MODE_TRACE;
    launch.finished.assign(call.blocks, false);
}

check::GmRole RoleOf(const LaunchCall& call, uint32_t i)
{
    return static_cast<check::GmRole>(call.result->roles != nullptr ? call.result->roles[i] : 0);
}

void BindArguments(const LaunchCall& call)
{
    for (uint32_t i = 0; i < call.nargs; ++i) {
        const std::string name = call.names != nullptr ? call.names[i] : "argument " + std::to_string(i);
        check::gmBind(call.args[i], call.bytes[i], name.c_str(), RoleOf(call, i));
    }
}

// The failures that stopped a launch, as text and numbers of its result.
int32_t Stopped(const Launch& launch, GafTwinResult& result)
{
    std::string text;
    for (const std::string& f : launch.failures) {
        text += f + "\n";
    }
    PutText(&result, text);
    result.violations = launch.failures.size();
    result.deadlock = 1;
    return 2;
}

// What a kernel may write, to run it again on the same contents.
class Contents {
public:
    explicit Contents(const LaunchCall& call) : call_(call)
    {
        for (uint32_t i = 0; i < call.nargs; ++i) {
            const check::GmRole role = RoleOf(call, i);
            const auto* p = static_cast<const uint8_t*>(call.args[i]);
            const bool kept = role == check::GmRole::OUTPUT || role == check::GmRole::IN_OUT;
            bytes_.emplace_back(p, p + (kept ? call.bytes[i] : 0));
        }
    }
    void Restore() const
    {
        for (uint32_t i = 0; i < call_.nargs; ++i) {
            std::copy(bytes_[i].begin(), bytes_[i].end(), static_cast<uint8_t*>(call_.args[i]));
        }
    }
    // Reports the first byte of every argument that is different now.
    void Compare() const
    {
        for (uint32_t i = 0; i < call_.nargs; ++i) {
            const auto* now = static_cast<const uint8_t*>(call_.args[i]);
            const auto at = std::mismatch(bytes_[i].begin(), bytes_[i].end(), now).first;
            check::rule(at == bytes_[i].end(), "order-dependent", "kernel end",
                        "byte %lld of argument %u depends on which core runs first",
                        static_cast<long long>(at - bytes_[i].begin()), i);
        }
    }

private:
    const LaunchCall& call_;
    std::vector<std::vector<uint8_t>> bytes_;
};

// One run of all cores under the check engine; `first` is what an earlier run left, to compare with.
void CheckOnce(const LaunchCall& call, Launch& launch, const Contents* first)
{
    check::launchBegin(call.name, call.blocks, launch.type);
    check::autoSync(call.autoSync);
    BindArguments(call);
    launch.Work();
    if (first != nullptr && !launch.stop.load()) {
        first->Compare();
    }
    check::launchEnd();
}

int32_t Checked(const LaunchCall& call, Launch& launch)
{
    GafTwinResult& result = *call.result;
    std::lock_guard<std::mutex> hold(launchLock);
    std::unique_ptr<Contents> before;
    if (result.again != 0 && call.blocks * (launch.shape.aivs + (launch.shape.aic ? 1 : 0)) > 1) {
        before.reset(new Contents(call));
    }
    CheckOnce(call, launch, nullptr);
    Launch reversed;
    const Launch* last = &launch;
    if (before != nullptr && check::violationCount() == 0 && launch.failures.empty()) {
        const Contents after(call);
        before->Restore();
        Start(reversed, call);
        reversed.reversed = true;
        CheckOnce(call, reversed, &after);
        last = &reversed;
    }
    result.violations = check::violationCount();
    result.notes = check::noteCount();
    if (result.text != nullptr && result.textBytes > 0) {
        check::report(result.text, result.textBytes);
    }
    if (result.violations == 0 && !last->failures.empty()) {
        result.violations = last->failures.size();
        PutText(&result, last->failures[0] + "\n");
    }
    result.deadlock = last->stop.load() ? 1 : 0;
    return result.deadlock != 0 ? 2 : result.violations != 0 ? 1 : 0;
}

int32_t Traced(const LaunchCall& call, Launch& launch)
{
    GafTwinResult& result = *call.result;
    if (result.costs == nullptr || result.costs->timingBytes != sizeof(GafTraceTiming) ||
        result.costs->vectors == 0) {
        return BadCall(call, "trace mode needs the costs that gaf/target/timing.py gives");
    }
    std::lock_guard<std::mutex> hold(launchLock);
    trace::Recorder recorder(*result.costs);
    trace::activate(&recorder);
    check::launchBegin(call.name, call.blocks, launch.type);
    BindArguments(call);
    launch.Work();
    trace::activate(nullptr);
    result.trace = recorder.finish();
    return launch.stop.load() ? Stopped(launch, result) : 0;
}

}  // namespace

int32_t RunLaunch(const LaunchCall& call)
{
    GafTwinResult& result = *call.result;
    result.violations = 0;
    result.deadlock = 0;
    result.notes = 0;
    result.trace = nullptr;
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
    Start(launch, call);
    result.kernelType = static_cast<uint32_t>(launch.type);

    if (call.mode == MODE_TRACE) {
        return Traced(call, launch);
    }
    if (call.mode == MODE_CHECK) {
        return Checked(call, launch);
    }
    launch.FindStreamed();
    const uint32_t threads = std::min(result.threads != 0 ? result.threads : DefaultThreads(), call.blocks);
    std::unique_lock<std::mutex> hold(launchLock, std::try_to_lock);
    if (threads > 1 && hold.owns_lock()) {
        ThePool().Run(launch, threads - 1);
    } else {
        launch.Work();
    }
    if (launch.stop.load()) {
        return Stopped(launch, result);
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
