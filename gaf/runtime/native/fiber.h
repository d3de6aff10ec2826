// SPDX-License-Identifier: Apache-2.0
// Fibers: stacks that one thread switches between by hand; a switch saves only what a call must preserve.
#ifndef GAF_NATIVE_FIBER_H
#define GAF_NATIVE_FIBER_H

#include <stddef.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define GAF_FIBER_ASM 1
#else
#define GAF_FIBER_ASM 0
#include <ucontext.h>
#endif

namespace gaf_twin {

constexpr size_t FIBER_STACK = 512 * 1024;  // reserved, touched page by page; a guard page lies below

// A stack with a suspended function on it. Reset before each use; the function must not return.
class Fiber {
public:
    Fiber() = default;
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // The next Enter starts entry(arg). Returns false without memory.
    bool Reset(void (*entry)(void*), void* arg);
    // Runs the fiber until it leaves.
    void Enter();
    // Called on the fiber: back to Enter.
    void Leave();

private:
    char* stack_ = nullptr;
#if GAF_FIBER_ASM
    void* self_ = nullptr;
    void* caller_ = nullptr;
#else
    ucontext_t self_, caller_;
#endif
};

}  // namespace gaf_twin

#endif  // GAF_NATIVE_FIBER_H
