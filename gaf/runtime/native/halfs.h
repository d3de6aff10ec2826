// SPDX-License-Identifier: Apache-2.0
// Bulk conversion between half, bfloat16 and float, by the processor's instructions where it has them.
#ifndef GAF_NATIVE_HALFS_H
#define GAF_NATIVE_HALFS_H

#include "twin/types.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace gaf_twin {
namespace rt {

inline void HalfToFloats(float* d, const half* s, uint32_t n)
{
    uint32_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i))));
    }
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
    }
#endif
    for (; i < n; ++i) {
        d[i] = HalfToFloat(s[i].bits);
    }
}

inline void FloatsToHalf(half* d, const float* s, uint32_t n)
{
    uint32_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        const __m256i h =
            _mm512_cvtps_ph(_mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i), h);
    }
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        const __m128i h =
            _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), h);
    }
#endif
    for (; i < n; ++i) {
        d[i].bits = FloatToHalf(s[i]);
    }
}

inline void Bf16ToFloats(float* d, const bfloat16_t* s, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        d[i] = Bf16ToFloat(s[i].bits);
    }
}
inline void FloatsToBf16(bfloat16_t* d, const float* s, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t u = BitsOf(s[i]);
        const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
        d[i].bits = static_cast<uint16_t>(nan ? (u >> 16 | 0x40u) : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
    }
}

}  // namespace rt
}  // namespace gaf_twin

#endif  // GAF_NATIVE_HALFS_H
