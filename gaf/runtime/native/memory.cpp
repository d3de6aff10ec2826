// SPDX-License-Identifier: Apache-2.0
// Global memory in fast mode: tiles fetched ahead, large outputs stored past the caches, packed constants.
#include <unistd.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "packs.h"
#include "scheduler.h"
#include "twin/copy.h"

namespace gaf_twin {

namespace {

// Where each load of a kernel read last, by its place in the code: the next tile lies as far ahead again.
struct LastLoad {
    const void* site = nullptr;
    const uint8_t* from = nullptr;
};
constexpr uint32_t SITES = 64;
constexpr int64_t FARTHEST = 1 << 22;       // bytes between tiles that still count as a walk through memory
constexpr uint32_t LINE = 64;
constexpr uint32_t FEWEST = 256;            // bytes of a row that is worth it
thread_local LastLoad lastLoads[SITES];

// Bytes to the tile that the load at `site` reads next if it goes on as it came, else 0.
int64_t StepOf(const void* site, const uint8_t* from)
{
    LastLoad& last = lastLoads[(reinterpret_cast<uintptr_t>(site) >> 2) % SITES];
    const int64_t step = last.site == site ? from - last.from : 0;
    last = {site, from};
    return step < FARTHEST && step > -FARTHEST ? step : 0;
}

// Copies a row and fetches what lies `step` bytes further on, line by line: memory is busy all the time.
inline void CopyAhead(uint8_t* d, const uint8_t* s, uint64_t bytes, int64_t step)
{
    typedef uint8_t Line __attribute__((vector_size(LINE), aligned(1), may_alias));
    uint64_t i = 0;
    for (; i + LINE <= bytes; i += LINE) {
        *reinterpret_cast<Line*>(d + i) = *reinterpret_cast<const Line*>(s + i);
        __builtin_prefetch(s + i + step, 0, 2);
    }
    if (i < bytes) {
        memcpy(d + i, s + i, bytes - i);
        __builtin_prefetch(s + i + step, 0, 2);
    }
}

// Copies past the caches; `bytes` and `d` are multiples of a line. Ordered by StoresDone.
inline void StreamLines(uint8_t* d, const uint8_t* s, uint64_t bytes)
{
#if defined(__AVX512F__)
    for (uint64_t i = 0; i < bytes; i += 64) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i), _mm512_loadu_si512(s + i));
    }
#elif defined(__AVX__)
    for (uint64_t i = 0; i < bytes; i += 32) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(d + i),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i)));
    }
#elif defined(__SSE2__)
    for (uint64_t i = 0; i < bytes; i += 16) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(d + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i)));
    }
#else
    memcpy(d, s, bytes);
#endif
}

bool Contains(const Launch& launch, uint32_t i, const void* p)
{
    const auto* base = static_cast<const uint8_t*>(launch.call->args[i]);
    const auto* at = static_cast<const uint8_t*>(p);
    return at >= base && at < base + launch.call->bytes[i];
}

// Bytes from which an output doesn't stay in the second-level cache until somebody reads it.
uint64_t StreamedFrom()
{
    static const uint64_t bytes = [] {
#if defined(_SC_LEVEL2_CACHE_SIZE)
        const long found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
        const long found = 0;
#endif
        return 2 * static_cast<uint64_t>(found > 0 ? found : 1 << 20);
    }();
    return bytes;
}

}  // namespace

namespace rt {

void FetchRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, uint32_t pitchBytes, int64_t srcStride)
{
    uint8_t* d = static_cast<uint8_t*>(dst);
    const uint8_t* s = static_cast<const uint8_t*>(src);
    const int64_t step = StepOf(__builtin_return_address(0), s);
    if (step == 0 || bytes < FEWEST) {
        LoadRows(dst, src, rows, bytes, pitchBytes, srcStride);
        return;
    }
    for (uint32_t r = 0; r < rows; ++r, d += pitchBytes, s += srcStride) {
        CopyAhead(d, s, bytes, step);
        memset(d + bytes, 0, pitchBytes - bytes);
    }
}

}  // namespace rt

void StoreRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, int64_t dstStride, int64_t srcStride)
{
    CoreFiber* f = Running();
    const Launch& launch = *f->launch;
    const bool whole = (reinterpret_cast<uintptr_t>(dst) | static_cast<uint64_t>(dstStride) | bytes) % LINE == 0;
    bool stream = false;
    for (size_t i = 0; i < launch.streamed.size() && whole && !stream; ++i) {
        stream = Contains(launch, launch.streamed[i], dst);
    }
    if (!stream) {
        rt::CopyRuns(dst, src, bytes, rows, dstStride, srcStride);
        return;
    }
    f->streams = true;
    for (uint32_t r = 0; r < rows; ++r) {
        StreamLines(static_cast<uint8_t*>(dst) + dstStride * r, static_cast<const uint8_t*>(src) + srcStride * r,
                    bytes);
    }
}

void StoresDone(CoreFiber& f)
{
#if defined(__SSE2__)
    if (f.streams) {
        _mm_sfence();
    }
#endif
    f.streams = false;
}

void Launch::FindStreamed()
{
    for (uint32_t i = 0; i < call->nargs && call->result->roles != nullptr; ++i) {
        if (call->result->roles[i] == static_cast<uint8_t>(check::GmRole::OUTPUT) &&
            call->bytes[i] > StreamedFrom()) {
            streamed.push_back(i);
        }
    }
}

PackCache* PacksFor(const void* b, bool* constant)
{
    CoreFiber* f = Running();
    if (f == nullptr || f->launch->call->result == nullptr) {
        return nullptr;
    }
    Launch& launch = *f->launch;
    const GafTwinResult& result = *launch.call->result;
    for (uint32_t i = 0; i < launch.call->nargs && result.roles != nullptr; ++i) {
        if (!Contains(launch, i, b)) {
            continue;
        }
        const auto role = static_cast<check::GmRole>(result.roles[i]);
        if (role == check::GmRole::CONSTANT && result.packs != nullptr) {
            *constant = true;
            return static_cast<PackCache*>(result.packs);
        }
        return role == check::GmRole::INPUT || role == check::GmRole::CONSTANT ? launch.packs.get() : nullptr;
    }
    return nullptr;
}

}  // namespace gaf_twin

extern "C" {
__attribute__((visibility("default"))) void* gafPacksNew() { return new gaf_twin::PackCache; }
__attribute__((visibility("default"))) void gafPacksFree(void* packs)
{
    delete static_cast<gaf_twin::PackCache*>(packs);
}
}
