// SPDX-License-Identifier: Apache-2.0
// Launch entry of one kernel: include the kernel's source, then this, then write GAF_TWIN_ENTRY(name) once
// per kernel.
//
// Defines: int32_t NAME_twin_launch(args, bytes, nargs, tiling, tilingBytes, blocks, result), which runs
// `blocks` blocks and returns 0 (done), 1 (violations found, check mode), 2 (deadlock or a kernel that gave
// up), 3 (bad call). In trace mode `result` receives the timeline. args[i] is the address of GM argument i, bytes[i] its real size; the last argument is
// the workspace where the kernel has one. The tiling structure is copied and passed by value.
#ifndef GAF_TWIN_LAUNCH_H
#define GAF_TWIN_LAUNCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "twin/trace.h"

extern "C" {
typedef struct GafTwinResult {
    // Given by the caller.
    uint32_t threads;  // worker threads in fast mode; 0: GAF_THREADS, else the number of processors
    uint32_t again;    // check mode: 1 runs the cores in reverse order too and compares what they write
    const uint8_t* roles;  // per argument: 0 in/out, 1 workspace, 2 input, 3 output, 4 constant; null: all 0
    char* text;            // receives one JSON object a line per violation, NUL-terminated
    uint64_t textBytes;    // size of text
    const GafTraceCosts* costs;  // trace mode: the figures
    // Filled in.
    uint64_t violations;  // number found (those kept in text are fewer)
    uint32_t deadlock;    // 1: no core could go on
    uint32_t kernelType;  // KernelMetaType
    uint64_t notes;       // remarks in text behind the violations (check mode)
    GafTrace* trace;      // trace mode: the timeline, for gafTraceFree
    // Given by the caller.
    void* packs;  // of gafPacksNew: packed constants, kept between launches (fast mode); null: not kept
} GafTwinResult;
}

namespace gaf_twin {

#pragma GCC visibility push(default)
struct LaunchCall {
    const char* name;
    void (*run)(void* const* args, const void* tiling);  // calls the kernel function
    int* kernelType;                                     // cache of the declared type, -1 at first
    int mode;                                            // GAF_TWIN of the kernel's build
    uint32_t pointers;                                   // GM arguments of the kernel
    uint64_t tilingSize;                                 // sizeof the tiling structure, 0 without one
    void* const* args;
    const uint64_t* bytes;
    uint32_t nargs;
    const void* tiling;
    uint64_t tilingBytes;
    uint32_t blocks;
    GafTwinResult* result;
    // Of launches by host programs (gaf_twin_host.h), zero otherwise.
    const char* const* names;  // of the arguments
    void* sysWorkspace;        // what GetSysWorkSpacePtr returns
    bool autoSync;             // check::autoSync
};
int32_t RunLaunch(const LaunchCall& call);
#pragma GCC visibility pop

template <class A>
inline A ArgumentAt(void* const* args, const void* tiling, size_t i)
{
    if constexpr (std::is_pointer<A>::value) {
        return static_cast<A>(args[i]);
    } else {
        static_assert(std::is_trivially_copyable<A>::value, "the tiling structure must be plain data");
        A value;
        memcpy(&value, tiling, sizeof(A));
        return value;
    }
}

template <class... A>
struct KernelEntry {
    static constexpr uint32_t POINTERS = ((std::is_pointer<A>::value ? 1u : 0u) + ... + 0u);
    static constexpr uint64_t TILING = ((std::is_pointer<A>::value ? 0u : sizeof(A)) + ... + 0u);
    static_assert(sizeof...(A) - POINTERS <= 1,
                  "a kernel takes GM addresses and at most one tiling structure");

    template <void (*FN)(A...)>
    static void Run(void* const* args, const void* tiling)
    {
        Call<FN>(args, tiling, std::index_sequence_for<A...>{});
    }
    template <void (*FN)(A...), size_t... I>
    static void Call(void* const* args, const void* tiling, std::index_sequence<I...>)
    {
        FN(ArgumentAt<A>(args, tiling, I)...);
    }
};
template <class... A>
constexpr KernelEntry<A...> EntryOf(void (*)(A...))
{
    return {};
}

}  // namespace gaf_twin

#define GAF_TWIN_ENTRY(NAME)                                                                                 \
    extern "C" __attribute__((visibility("default"))) int32_t NAME##_twin_launch(                            \
        void* const* args, const uint64_t* bytes, uint32_t nargs, const void* tiling, uint64_t tilingBytes,  \
        uint32_t blocks, GafTwinResult* result)                                                              \
    {                                                                                                        \
        using Entry = decltype(gaf_twin::EntryOf(&NAME));                                                    \
        static int kernelType = -1;                                                                          \
        return gaf_twin::RunLaunch({#NAME, &Entry::template Run<&NAME>, &kernelType, GAF_TWIN,               \
                                    Entry::POINTERS, Entry::TILING, args, bytes, nargs, tiling, tilingBytes, \
                                    blocks, result});                                                        \
    }

#endif  // GAF_TWIN_LAUNCH_H
