// SPDX-License-Identifier: Apache-2.0
// Launching kernels from host code of the same program: what `kernel<<<blocks, l2, stream>>>(arguments)`
// becomes.
//
// A launch runs to its end before it returns; what it found is printed, and written as JSON lines to the file
// that GAF_TWIN_REPORT names. A launch that got stuck makes the next aclrtSynchronize* fail.
#ifndef GAF_TWIN_HOST_H
#define GAF_TWIN_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <type_traits>

#if !defined(GAF_TWIN)
#error "define GAF_TWIN: 1 (fast), 2 (check)"
#endif

namespace gaf_twin {
namespace host {

#pragma GCC visibility push(default)
struct LaunchRequest {
    const char* name;
    uint32_t blocks;
    int mode;                       // GAF_TWIN of the kernel's build
    int type;                       // KernelMetaType, -1: what the kernel itself says
    void (*run)(void* closure);     // calls the kernel function once
    void* closure;
    const void* const* pointers;    // the arguments that are addresses
    uint32_t pointerCount;
};
// Returns 0, or the code of GafTwinResult (1 violations, 2 stuck, 3 bad call).
int32_t Launch(const LaunchRequest& request);

// Device memory: what aclrtMalloc returns. A kernel may touch no other global memory.
void* DeviceAlloc(uint64_t bytes);
bool DeviceFree(void* p);
// Host code wrote to device memory: its bytes count as initialised.
void DeviceWritten(const void* p);
// 0, or the code of the last launch that failed, which it takes away.
int32_t TakeFailure();

// The kernel's __kfc_workspace__ parameter becomes the system workspace of its core.
void SetWorkspace(void* p);
#pragma GCC visibility pop

class Launcher {
public:
    static constexpr uint32_t MAX_POINTERS = 64;

    template <class L2 = int, class Stream = void*>
    Launcher(const char* name, uint64_t blocks, L2 = L2(), Stream = Stream())
        : request_{name, static_cast<uint32_t>(blocks), GAF_TWIN, -1, nullptr, nullptr, pointers_, 0}
    {
    }
    Launcher& Type(int type)
    {
        request_.type = type;
        return *this;
    }
    template <class... A>
    Launcher& Arguments(const A&... arguments)
    {
        (Note(arguments), ...);
        return *this;
    }
    template <class F>
    int32_t Run(F&& body)
    {
        using Body = typename std::remove_reference<F>::type;
        request_.run = [](void* closure) { (*static_cast<Body*>(closure))(); };
        request_.closure = &body;
        return Launch(request_);
    }

private:
    template <class A>
    void Note(const A& argument)
    {
        if constexpr (std::is_pointer<A>::value) {
            if (request_.pointerCount < MAX_POINTERS) {
                pointers_[request_.pointerCount++] = reinterpret_cast<const void*>(argument);
            }
        } else {
            (void)argument;
        }
    }

    const void* pointers_[MAX_POINTERS] = {};
    LaunchRequest request_;
};

}  // namespace host
}  // namespace gaf_twin

#endif  // GAF_TWIN_HOST_H
