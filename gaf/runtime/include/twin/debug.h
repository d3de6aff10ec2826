// SPDX-License-Identifier: Apache-2.0
// Output from kernels: printf, tensor dumps, assertions.
#ifndef GAF_TWIN_DEBUG_H
#define GAF_TWIN_DEBUG_H

#include <stdio.h>

#include "twin/tensor.h"

#pragma GCC visibility push(default)
namespace gaf_twin {
// One block of output, written at once: threads do not mix their lines.
void WriteOutput(const char* text, uint64_t bytes);
}  // namespace gaf_twin
#pragma GCC visibility pop

namespace gaf_twin {

// printf arguments as C knows them: half and bfloat16_t print as floats, tensors' elements as themselves.
template <class A>
inline const A& Printable(const A& a)
{
    return a;
}
inline double Printable(const half& h) { return static_cast<float>(h); }
inline double Printable(const bfloat16_t& b) { return static_cast<float>(b); }

template <class... A>
inline void Print(const char* format, const A&... args)
{
    Current();
    char text[1024];
    const int n = snprintf(text, sizeof(text), format, Printable(args)...);
    if (n > 0) {
        WriteOutput(text, static_cast<uint64_t>(n) < sizeof(text) ? static_cast<uint64_t>(n) : sizeof(text) - 1);
    }
}

template <class T>
inline void DumpElements(const char* where, const T* p, uint64_t size, uint32_t desc, uint32_t count)
{
    const Core& c = Current();
    char line[256];
    int n = snprintf(line, sizeof(line), "DumpTensor: desc=%u, position=%s, core=%s %u, elements=%u\n[", desc,
                     where, c.kind == CoreKind::AIC ? "AIC" : "AIV",
                     c.kind == CoreKind::AIC ? c.block : c.block * c.subs + c.sub, count);
    WriteOutput(line, static_cast<uint64_t>(n));
    for (uint32_t i = 0; i < count && i < size; ++i) {
        if constexpr (std::is_integral<T>::value) {
            n = snprintf(line, sizeof(line), "%s%lld", i == 0 ? "" : ", ", static_cast<long long>(p[i]));
        } else {
            n = snprintf(line, sizeof(line), "%s%f", i == 0 ? "" : ", ",
                         static_cast<double>(static_cast<float>(p[i])));
        }
        WriteOutput(line, static_cast<uint64_t>(n));
    }
    WriteOutput("]\n", 2);
}

// Whether `count` elements lie in L1 or an L0 buffer, which only dumps read: no pipe takes them to the scalar unit.
template <class T>
inline bool InCubeMemory(const T* p, uint64_t count)
{
    using AscendC::Hardware;
    for (const Hardware h : {Hardware::L1, Hardware::L0A, Hardware::L0B, Hardware::L0C}) {
        const uint8_t* const base = Current().arena[static_cast<uint32_t>(h)];
        const uint8_t* const at = reinterpret_cast<const uint8_t*>(p);
        if (base != nullptr && at >= base && at + count * sizeof(T) <= base + BytesOf(h)) {
            return true;
        }
    }
    return false;
}

template <class T>
inline void DumpMemory(const char* where, const T* p, uint32_t desc, uint32_t count)
{
    if (InCubeMemory(p, count)) {
        DumpElements(where, p, count, desc, count);
        return;
    }
    check::op(Pipe::S, "asc_dump");
    if (Touch(Pipe::S, "asc_dump", "input", false, p, uint64_t(count) * sizeof(T), 1, 0, sizeof(T), {})) {
        DumpElements(where, p, count, desc, count);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class... A>
inline void printf(const char* format, const A&... args)
{
    gaf_twin::Print(format, args...);
}
template <class... A>
inline void PRINTF(const char* format, const A&... args)
{
    gaf_twin::Print(format, args...);
}

template <class T>
inline void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t count)
{
    gaf_twin::check::op(gaf_twin::Pipe::S, "DumpTensor");
    const uint32_t n = count < tensor.GetSize() ? count : tensor.GetSize();
    gaf_twin::check::rule(count <= tensor.GetSize(), "tensor-bounds", "DumpTensor",
                          "%u elements of a tensor of %u", count, tensor.GetSize());
    gaf_twin::DumpElements(gaf_twin::PositionName(static_cast<TPosition>(tensor.GetPosition())),
                           tensor.GetPhyAddr(), n, desc, n);
}
template <class T>
inline void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t count)
{
    gaf_twin::check::op(gaf_twin::Pipe::S, "DumpTensor");
    if (gaf_twin::Touch(gaf_twin::Pipe::S, "DumpTensor", "tensor", false, tensor.GetPhyAddr(),
                        uint64_t(count) * sizeof(T), 1, 0, sizeof(T), tensor.View())) {
        gaf_twin::DumpElements("GM", tensor.GetPhyAddr(), count, desc, count);
    }
}
template <class T>
inline void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t count, const ShapeInfo&)
{
    DumpTensor(tensor, desc, count);
}
template <class T>
inline void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t count, const ShapeInfo&)
{
    DumpTensor(tensor, desc, count);
}
template <class T>
inline void DumpAccChkPoint(const LocalTensor<T>& tensor, uint32_t index, uint32_t from, uint32_t count)
{
    DumpTensor(tensor[from], index, count);
}
template <class T>
inline void DumpAccChkPoint(const GlobalTensor<T>& tensor, uint32_t index, uint32_t from, uint32_t count)
{
    DumpTensor(tensor[from], index, count);
}

}  // namespace AscendC

namespace gaf_twin {

template <class... A>
[[noreturn]] inline void AssertFailed(const char* file, int line, const char* condition, const A&... args)
{
    if (!OnCore()) {
        fprintf(stderr, "%s:%d: Assertion `%s' failed.\n", file, line, condition);
        abort();
    }
    Print("[ASSERT] %s:%d: Assertion `%s' failed.\n", file, line, condition);
    if constexpr (sizeof...(A) > 0) {
        Print(args...);
        Print("\n");
    }
    check::rule(false, "assert", "assert", "assertion '%s' failed (%s:%d)", condition, file, line);
    Abandon("assert", condition);
}

}  // namespace gaf_twin

#define ascendc_assert(condition, ...)                                                        \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            ::gaf_twin::AssertFailed(__FILE__, __LINE__, #condition, ##__VA_ARGS__);          \
        }                                                                                     \
    } while (0)
// In kernels as in host code; a later #include <cassert> brings back the one of the C library.
#undef assert
#define assert(condition, ...) ascendc_assert(condition, ##__VA_ARGS__)
#define ASCENDC_ASSERT(condition, behaviour) \
    do {                                     \
        if (!(condition)) {                  \
            behaviour;                       \
        }                                    \
    } while (0)
#define ASCENDC_DEBUG_ASSERT(condition, behaviour) ASCENDC_ASSERT(condition, behaviour)
// ---- memory by its address --------------------------------------------------------------------------------
template <class T>
inline void asc_dump_gm(T* input, uint32_t desc, uint32_t size)
{
    gaf_twin::DumpMemory("GM", input, desc, size);
}
template <class T>
inline void asc_dump_ubuf(T* input, uint32_t desc, uint32_t size)
{
    gaf_twin::DumpMemory("UB", input, desc, size);
}
template <class T>
inline void asc_dump_l1buf(T* input, uint32_t desc, uint32_t size)
{
    gaf_twin::DumpMemory("L1", input, desc, size);
}
template <class T>
inline void asc_dump_cbuf(T* input, uint32_t desc, uint32_t size)
{
    gaf_twin::DumpMemory("L0C", input, desc, size);
}
template <class T>
inline void asc_dump(T* input, uint32_t desc, uint32_t size)
{
    gaf_twin::DumpMemory("memory", input, desc, size);
}
#define KERNEL_LOG(level, ...) ::gaf_twin::Print(__VA_ARGS__)
#define ASCENDC_REPORT_OVERFLOW_MEM(condition) ascendc_assert(condition)

#endif  // GAF_TWIN_DEBUG_H
