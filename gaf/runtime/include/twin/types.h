// SPDX-License-Identifier: Apache-2.0
// Scalar types, qualifiers and enumerations of Ascend C as the host compiler sees them.
#ifndef GAF_TWIN_TYPES_H
#define GAF_TWIN_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#include "twin/enums.h"

#if !defined(GAF_TWIN)
#error "define GAF_TWIN: 1 (fast), 2 (check), 3 (trace)"
#endif

// Address-space and function qualifiers mean nothing on the host.
#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __inout_pipe__(x)
#define __sync_alias__
#define __sync_noalias__
#define __kfc_workspace__
#define __simd_callee__
#define __biasbuf__
#define __fixpipe__
#define __vector__
#define __cube__
#define __mix__(a, b)
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define GM_ADDR __gm__ uint8_t*

enum event_t : uint8_t {
    EVENT_ID0 = 0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7
};

// Conversion that Fixpipe applies to the float or int32 result.
enum QuantMode_t : uint8_t {
    NoQuant = 0,
    F322F16 = 1,
    VQF322HIF8_PRE = 2,
    QF322HIF8_PRE = 3,
    AttachF16Mul = 6,
    VREQ8 = 8,
    REQ8 = 9,
    VDEQF16 = 10,
    DEQF16 = 11,
    F322BF16 = 16,
    VQF162B8_PRE = 23,
    QF162B8_PRE = 24,
    VQF322B8_PRE = 25,
    QF322B8_PRE = 26
};

namespace gaf_twin {

inline uint32_t BitsOf(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
inline float FloatOf(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// IEEE binary16 <-> binary32, round to nearest even; subnormals, infinities and NaN kept.
inline float HalfToFloat(uint16_t h)
{
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, mag = h & 0x7fffu;
    if (mag >= 0x7c00u) {
        return FloatOf(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
    }
    // Place the 15 bits as a float 2^112 times too small, then scale: exact for subnormals as well.
    const float magic = FloatOf(mag << 13) * 5.192296858534828e+33f;  // 2^112
    return FloatOf(sign | BitsOf(magic));
}
inline uint16_t FloatToHalf(float f)
{
    const uint32_t u = BitsOf(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | (mag >> 13 & 0x1ffu));
    }
    if (mag >= 0x477ff000u) {  // 65520 and above round to infinity
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (mag < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
        const float shifted =
            FloatOf(mag) + 0.5f;  // ulp of 0.5 .. 1 is 2^-24: the addition rounds to nearest even
        return static_cast<uint16_t>(sign | (BitsOf(shifted) - 0x3f000000u));
    }
    const uint32_t odd = mag >> 13 & 1u;
    return static_cast<uint16_t>(sign | ((mag + 0xfffu + odd - 0x38000000u) >> 13));
}
inline float Bf16ToFloat(uint16_t b) { return FloatOf(static_cast<uint32_t>(b) << 16); }
inline uint16_t FloatToBf16(float f)
{
    const uint32_t u = BitsOf(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<uint16_t>(u >> 16 | 0x40u);
    }
    return static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
// A double rounded to odd in float: a second rounding to a narrower type then is correct.
inline float DoubleToOddFloat(double d)
{
    const float f = static_cast<float>(d);
    if (static_cast<double>(f) == d || f != f) {
        return f;
    }
    uint32_t u = BitsOf(f);
    if ((u & 1u) == 0) {
        const bool away = (f < 0 ? -static_cast<double>(f) : f) > (d < 0 ? -d : d);
        u += away ? 0xffffffffu : 1u;
    }
    return FloatOf(u);
}

}  // namespace gaf_twin

// IEEE binary16. Arithmetic goes through float, as C++ promotes it, and rounds when it is stored.
struct half {
    uint16_t bits;
    half() = default;
    half(float f) : bits(gaf_twin::FloatToHalf(f)) {}
    half(double d) : bits(gaf_twin::FloatToHalf(gaf_twin::DoubleToOddFloat(d))) {}
    template <class I, typename std::enable_if<std::is_integral<I>::value, bool>::type = true>
    half(I i) : bits(gaf_twin::FloatToHalf(gaf_twin::DoubleToOddFloat(static_cast<double>(i))))
    {
    }
    operator float() const { return gaf_twin::HalfToFloat(bits); }
    half operator-() const
    {
        half r;
        r.bits = static_cast<uint16_t>(bits ^ 0x8000u);
        return r;
    }
    half& operator+=(float b) { return *this = half(static_cast<float>(*this) + b); }
    half& operator-=(float b) { return *this = half(static_cast<float>(*this) - b); }
    half& operator*=(float b) { return *this = half(static_cast<float>(*this) * b); }
    half& operator/=(float b) { return *this = half(static_cast<float>(*this) / b); }
};
typedef half float16_t;

// bfloat16: the upper half of a float. The vector unit of A2 has no arithmetic on it.
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    bfloat16_t(float f) : bits(gaf_twin::FloatToBf16(f)) {}
    bfloat16_t(double d) : bits(gaf_twin::FloatToBf16(gaf_twin::DoubleToOddFloat(d))) {}
    template <class I, typename std::enable_if<std::is_integral<I>::value, bool>::type = true>
    bfloat16_t(I i) : bits(gaf_twin::FloatToBf16(gaf_twin::DoubleToOddFloat(static_cast<double>(i))))
    {
    }
    operator float() const { return gaf_twin::Bf16ToFloat(bits); }
};

namespace AscendC {

// Two 4-bit integers in a byte, the first in the low half. Counts, sizes and offsets of its tensors are in
// 4-bit elements and even.
struct int4b_t {
    uint8_t pair;
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
constexpr uint64_t ElementBytes(uint64_t count)
{
    return std::is_same<T, AscendC::int4b_t>::value ? count / 2 : count * sizeof(T);
}
template <class T>
constexpr uint64_t ElementsIn(uint64_t bytes)
{
    return std::is_same<T, AscendC::int4b_t>::value ? bytes * 2 : bytes / sizeof(T);
}
template <class T>
constexpr T* Advance(T* p, uint64_t count)
{
    return p + (std::is_same<T, AscendC::int4b_t>::value ? count / 2 : count);
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U>
struct IsSameType {
    static constexpr bool value = std::is_same<T, U>::value;
};

enum class RoundMode : uint8_t {
    CAST_NONE = 0,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD
};
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t {
    ORDER_VALUE_INDEX = 0,
    ORDER_INDEX_VALUE,
    ORDER_ONLY_VALUE,
    ORDER_ONLY_INDEX
};
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class MemDsbT : uint8_t { ALL = 0, DDR, UB, SEQ };
enum class CacheMode {
    CACHE_MODE_DISABLE = 0,
    CACHE_MODE_NORMAL = 1,
    CACHE_MODE_LAST = 2,
    CACHE_MODE_PERSISTENT = 4
};
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
enum class TBufState : uint8_t { FREE = 0, OCCUPIED, ENQUE, DEQUE };

constexpr int32_t MIX = 0, AIC = 1, AIV = 2;
constexpr uint32_t ONE_BLK_SIZE = 32, DEFAULT_BLK_NUM = 8;
constexpr int8_t INVALID_TEVENTID = -1;
using TEventID = int8_t;
using TTagType = int32_t;

}  // namespace AscendC

enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2,
    KERNEL_TYPE_AICORE,
    KERNEL_TYPE_VECTORCORE,
    KERNEL_TYPE_MIX_AICORE,
    KERNEL_TYPE_MIX_VECTOR_CORE,
    KERNEL_TYPE_MAX
};

namespace gaf_twin {

template <class T, class... U>
constexpr bool OneOf = (std::is_same<T, U>::value || ...);

// Lanes of T in one 256-byte repeat, elements in one 32-byte block.
template <class T>
constexpr uint32_t LANES = 256 / sizeof(T);
template <class T>
constexpr uint32_t BLK = 32 / sizeof(T);

constexpr uint32_t RoundUp(uint32_t a, uint32_t b) { return (a + b - 1) / b * b; }
constexpr uint32_t DivUp(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

}  // namespace gaf_twin

#endif  // GAF_TWIN_TYPES_H
