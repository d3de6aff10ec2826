// SPDX-License-Identifier: Apache-2.0
// Conversions between element types with the rounding modes of Cast; integers saturate, NaN becomes 0.
#include "twin/rt.h"

#include <limits>

#include "halfs.h"
#include "vmath.h"

namespace gaf_twin {
namespace rt {

using AscendC::RoundMode;
namespace vm = gaf_twin::vmath;

template <RoundMode M>
inline float ToInteger(float x)
{
    return M == RoundMode::CAST_FLOOR   ? __builtin_floorf(x)
           : M == RoundMode::CAST_CEIL  ? __builtin_ceilf(x)
           : M == RoundMode::CAST_ROUND ? vm::RoundAway(x)
           : M == RoundMode::CAST_TRUNC ? __builtin_truncf(x)
                                        : __builtin_rintf(x);
}

// Integers of at most 16 bits: every bound is a float.
template <RoundMode M, class D>
inline D SmallInteger(float x)
{
    constexpr float lo = static_cast<float>(std::is_signed<D>::value ? -(1 << (8 * sizeof(D) - 1)) : 0);
    constexpr float hi = static_cast<float>((1 << (8 * sizeof(D) - (std::is_signed<D>::value ? 1 : 0))) - 1);
    float v = ToInteger<M>(x);
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    v = x != x ? 0.0f : v;
    return static_cast<D>(static_cast<int32_t>(v));
}
template <RoundMode M>
inline int32_t Integer32(float x)
{
    const float v = ToInteger<M>(x);
    float c = v > -2147483648.0f ? v : -2147483648.0f;
    c = c < 2147483520.0f ? c : 2147483520.0f;
    int32_t i = static_cast<int32_t>(c);
    i = v >= 2147483648.0f ? INT32_MAX : i;
    return x != x ? 0 : i;
}
template <RoundMode M>
inline int64_t Integer64(float x)
{
    const float v = ToInteger<M>(x);
    return x != x                        ? 0
           : v >= 9223372036854775808.0f ? INT64_MAX
           : v < -9223372036854775808.0f ? INT64_MIN
                                         : static_cast<int64_t>(v);
}

// Next value of a narrow float type (T has `bits`) towards +-infinity.
template <class T>
inline T NextTowards(T v, bool up)
{
    const bool negative = (v.bits & 0x8000u) != 0, zero = (v.bits & 0x7fffu) == 0;
    if (zero) {
        v.bits = up ? 0x0001u : 0x8001u;
    } else {
        v.bits = static_cast<uint16_t>(negative == up ? v.bits - 1 : v.bits + 1);
    }
    return v;
}
inline float NextTowards(float v, bool up) { return nextafterf(v, up ? HUGE_VALF : -HUGE_VALF); }

// `exact` rounded to the narrow float type D; nearest even is what the constructor of D does.
template <RoundMode M, class D>
inline D NarrowFloat(double exact, D nearest)
{
    const double got = static_cast<float>(nearest);
    if (M == RoundMode::CAST_RINT || M == RoundMode::CAST_NONE || got == exact || exact != exact) {
        return nearest;
    }
    if (M == RoundMode::CAST_FLOOR || M == RoundMode::CAST_CEIL || M == RoundMode::CAST_TRUNC) {
        const bool up = M == RoundMode::CAST_CEIL || (M == RoundMode::CAST_TRUNC && exact < 0);
        return up == (got > exact) ? nearest : NextTowards(nearest, up);
    }
    const D other = NextTowards(nearest, exact > got);
    if (M == RoundMode::CAST_ODD) {  // of the two neighbours the one with an odd last bit
        uint16_t bits;
        memcpy(&bits, &nearest, 2);
        return (bits & 1u) != 0 ? nearest : other;
    }
    const double a = got - exact, b = static_cast<float>(other) - exact;  // ROUND: halves away from zero
    return (a < 0 ? -a : a) == (b < 0 ? -b : b) ? ((exact > 0) == (b > a) ? other : nearest) : nearest;
}

template <RoundMode M, class D, class S>
static void Run(D* d, const S* s, uint32_t n)
{
    constexpr bool fromHalf = std::is_same<S, half>::value, fromBf16 = std::is_same<S, bfloat16_t>::value;
    constexpr bool toNearest = M == RoundMode::CAST_RINT || M == RoundMode::CAST_NONE;
    if constexpr (fromHalf && std::is_same<D, float>::value) {
        HalfToFloats(d, s, n);
    } else if constexpr (fromBf16 && std::is_same<D, float>::value) {
        Bf16ToFloats(d, s, n);
    } else if constexpr (std::is_same<S, float>::value && std::is_same<D, half>::value && toNearest) {
        FloatsToHalf(d, s, n);
    } else if constexpr (std::is_same<S, float>::value && std::is_same<D, bfloat16_t>::value && toNearest) {
        FloatsToBf16(d, s, n);
    } else if constexpr (std::is_same<S, float>::value && std::is_same<D, float>::value) {
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = ToInteger<M>(s[i]);
        }
    } else if constexpr (fromHalf || fromBf16 || std::is_same<S, float>::value) {
        for (uint32_t i = 0; i < n; ++i) {
            const float x = s[i];
            if constexpr (OneOf<D, half, bfloat16_t>) {
                d[i] = NarrowFloat<M, D>(x, D(x));
            } else if constexpr (sizeof(D) <= 2) {
                d[i] = SmallInteger<M, D>(x);
            } else if constexpr (sizeof(D) == 4) {
                d[i] = Integer32<M>(x);
            } else {
                d[i] = Integer64<M>(x);
            }
        }
    } else if constexpr (std::is_same<D, float>::value) {  // from int16, int32, int64
        for (uint32_t i = 0; i < n; ++i) {
            const float nearest = static_cast<float>(s[i]);
            if constexpr (toNearest || sizeof(S) == 2) {
                d[i] = nearest;
            } else {
                d[i] = NarrowFloat<M, float>(static_cast<double>(s[i]), nearest);
            }
        }
    } else if constexpr (std::is_same<D, half>::value) {  // from int8, uint8, int16
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = NarrowFloat<M, half>(static_cast<double>(s[i]), half(s[i]));
        }
    } else {  // between integers
        constexpr int64_t lo = std::numeric_limits<D>::min(), hi = std::numeric_limits<D>::max();
        for (uint32_t i = 0; i < n; ++i) {
            const int64_t v = s[i];
            d[i] = static_cast<D>(v < lo ? lo : v > hi ? hi : v);
        }
    }
}

template <class D, class S>
void Convert(void* dst, const void* src, RoundMode mode, uint32_t n)
{
    D* d = static_cast<D*>(dst);
    const S* s = static_cast<const S*>(src);
    switch (mode) {
        case RoundMode::CAST_FLOOR: return Run<RoundMode::CAST_FLOOR>(d, s, n);
        case RoundMode::CAST_CEIL: return Run<RoundMode::CAST_CEIL>(d, s, n);
        case RoundMode::CAST_ROUND: return Run<RoundMode::CAST_ROUND>(d, s, n);
        case RoundMode::CAST_TRUNC: return Run<RoundMode::CAST_TRUNC>(d, s, n);
        case RoundMode::CAST_ODD:
            if constexpr (std::is_same<D, half>::value) {
                return Run<RoundMode::CAST_ODD>(d, s, n);
            }
            [[fallthrough]];
        default: return Run<RoundMode::CAST_RINT>(d, s, n);
    }
}

void Int32ToHalfScaled(void* dst, const void* src, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        const double v =
            static_cast<double>(static_cast<const int32_t*>(src)[i]) * static_cast<double>(scale);
        static_cast<half*>(dst)[i] = half(v);
    }
}

#define I(D, S) template void Convert<D, S>(void*, const void*, RoundMode, uint32_t);
I(half, int8_t)
I(half, uint8_t) I(half, int16_t) I(half, float) I(float, half) I(float, bfloat16_t) I(float, int16_t)
    I(float, int32_t) I(float, int64_t) I(float, float) I(int8_t, half) I(uint8_t, half) I(int16_t, half)
        I(int32_t, half) I(int16_t, float) I(int32_t, float) I(int64_t, float) I(bfloat16_t, float)
            I(int32_t, bfloat16_t) I(int16_t, int32_t) I(int64_t, int32_t) I(int32_t, int64_t)
#undef I

}  // namespace rt
}  // namespace gaf_twin
