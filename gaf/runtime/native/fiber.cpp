// SPDX-License-Identifier: Apache-2.0
// Fiber switching for Linux on x86-64 and AArch64 in assembly, and by ucontext elsewhere.
#include "fiber.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if GAF_FIBER_ASM
extern "C" void gaf_twin_fiber_switch(void** save, void* load);
extern "C" void gaf_twin_fiber_start();

#if defined(__x86_64__)
// Saved on the stack, from low addresses: mxcsr and x87 control word, r15, r14, r13, r12, rbx, rbp, return
// address.
asm(R"(
    .text
    .p2align 4
    .globl gaf_twin_fiber_switch
    .hidden gaf_twin_fiber_switch
    .type gaf_twin_fiber_switch, @function
gaf_twin_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size gaf_twin_fiber_switch, .-gaf_twin_fiber_switch

    .p2align 4
    .globl gaf_twin_fiber_start
    .hidden gaf_twin_fiber_start
    .type gaf_twin_fiber_start, @function
gaf_twin_fiber_start:
    movq %r12, %rdi
    callq *%r13
    ud2
    .size gaf_twin_fiber_start, .-gaf_twin_fiber_start
)");
#else
// Saved on the stack: x19..x30, d8..d15, fpcr.
asm(R"(
    .text
    .p2align 4
    .globl gaf_twin_fiber_switch
    .hidden gaf_twin_fiber_switch
    .type gaf_twin_fiber_switch, %function
gaf_twin_fiber_switch:
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldr x9, [sp, #160]
    msr fpcr, x9
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
    .size gaf_twin_fiber_switch, .-gaf_twin_fiber_switch

    .p2align 4
    .globl gaf_twin_fiber_start
    .hidden gaf_twin_fiber_start
    .type gaf_twin_fiber_start, %function
gaf_twin_fiber_start:
    mov x0, x19
    blr x20
    brk #0
    .size gaf_twin_fiber_start, .-gaf_twin_fiber_start
)");
#endif
#endif  // GAF_FIBER_ASM

namespace gaf_twin {

Fiber::~Fiber()
{
    if (stack_ != nullptr) {
        munmap(stack_, FIBER_STACK);
    }
}

bool Fiber::Reset(void (*entry)(void*), void* arg)
{
    if (stack_ == nullptr) {
        void* p = mmap(nullptr, FIBER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            return false;
        }
        stack_ = static_cast<char*>(p);
        mprotect(stack_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
    }
#if GAF_FIBER_ASM
    uint64_t* top = reinterpret_cast<uint64_t*>(stack_ + FIBER_STACK);
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t control;
    asm volatile("stmxcsr %0" : "=m"(mxcsr));
    asm volatile("fnstcw %0" : "=m"(control));
    uint64_t* frame = top - 10;  // after the return to gaf_twin_fiber_start rsp is a multiple of 16
    frame[0] = mxcsr | static_cast<uint64_t>(control) << 32;
    frame[1] = frame[2] = 0;
    frame[3] = reinterpret_cast<uint64_t>(entry);  // r13
    frame[4] = reinterpret_cast<uint64_t>(arg);    // r12
    frame[5] = frame[6] = 0;
    frame[7] = reinterpret_cast<uint64_t>(&gaf_twin_fiber_start);
#else
    uint64_t* frame = top - 22;
    for (int i = 0; i < 22; ++i) {
        frame[i] = 0;
    }
    uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    frame[0] = reinterpret_cast<uint64_t>(arg);    // x19
    frame[1] = reinterpret_cast<uint64_t>(entry);  // x20
    frame[11] = reinterpret_cast<uint64_t>(&gaf_twin_fiber_start);
    frame[20] = control;
#endif
    self_ = frame;
#else
    getcontext(&self_);
    self_.uc_stack.ss_sp = stack_;
    self_.uc_stack.ss_size = FIBER_STACK;
    self_.uc_link = nullptr;
    const uintptr_t e = reinterpret_cast<uintptr_t>(entry), a = reinterpret_cast<uintptr_t>(arg);
    // makecontext passes ints: the pointers travel in halves.
    auto start = +[](unsigned eh, unsigned el, unsigned ah, unsigned al) {
        const uint64_t fn = static_cast<uint64_t>(eh) << 32 | el, ar = static_cast<uint64_t>(ah) << 32 | al;
        reinterpret_cast<void (*)(void*)>(static_cast<uintptr_t>(fn))(
            reinterpret_cast<void*>(static_cast<uintptr_t>(ar)));
    };
    makecontext(&self_, reinterpret_cast<void (*)()>(start), 4,
                static_cast<unsigned>(static_cast<uint64_t>(e) >> 32), static_cast<unsigned>(e),
                static_cast<unsigned>(static_cast<uint64_t>(a) >> 32), static_cast<unsigned>(a));
#endif
    return true;
}

void Fiber::Enter()
{
#if GAF_FIBER_ASM
    gaf_twin_fiber_switch(&caller_, self_);
#else
    swapcontext(&caller_, &self_);
#endif
}

void Fiber::Leave()
{
#if GAF_FIBER_ASM
    gaf_twin_fiber_switch(&self_, caller_);
#else
    swapcontext(&self_, &caller_);
#endif
}

}  // namespace gaf_twin
