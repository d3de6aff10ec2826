// SPDX-License-Identifier: Apache-2.0
// Small helpers of the toolkit: type traits, integer division, scalar conversions and bit counts, lists of tensors.
#ifndef GAF_TWIN_UTILITY_H
#define GAF_TWIN_UTILITY_H

#include <tuple>
#include <type_traits>
#include <utility>

#include "twin/copy_forms.h"

namespace AscendC {

namespace Std {
using namespace ::std;
}  // namespace Std

constexpr uint32_t K_MAX_DIM = 8;
constexpr uint32_t DEFAULT_C0_SIZE = 32;
constexpr int32_t DEFAULT_BLK_STRIDE = 1, DEFAULT_REPEAT_STRIDE = 8, MAX_REPEAT_TIMES = 255, CUBE_MAX_SIZE = 256,
                  BLOCK_CUBE = 16;
constexpr uint64_t FULL_MASK = 0xffffffffffffffffull;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256, PAD_SIZE = 4;

template <class T>
using PrimT = T;
template <bool CONDITION, class T1, class T2>
struct Conditional {
    using type = typename std::conditional<CONDITION, T1, T2>::type;
};
// Type of a product's sums.
template <class T>
struct GetMmDstType {
    using Type = typename std::conditional<std::is_same<T, int8_t>::value, int32_t, float>::type;
};

template <class A, class B>
constexpr auto DivCeil(const A& a, const B& b)
{
    return (a + b - 1) / b;
}
template <class A, class B,
          typename std::enable_if<std::is_integral<A>::value && std::is_integral<B>::value, bool>::type = true>
constexpr auto Ceil(const A& a, const B& b)
{
    return (a + b - 1) / b;
}
template <class A, class B>
constexpr auto CeilDivision(const A& a, const B& b)
{
    return b == 0 ? decltype((a + b - 1) / b)(0) : (a + b - 1) / b;
}
template <class A, class B>
constexpr auto CeilAlign(const A& a, const B& b)
{
    return (a + b - 1) / b * b;
}
template <class A, class B>
constexpr auto AlignUp(const A& a, const B& b)
{
    return (a + b - 1) / b * b;
}

// ---- scalar unit ------------------------------------------------------------------------------------------
template <int COUNTED>
inline int64_t ScalarGetCountOfValue(uint64_t value)
{
    static_assert(COUNTED == 0 || COUNTED == 1, "ScalarGetCountOfValue counts zeros or ones");
    const int ones = __builtin_popcountll(value);
    return COUNTED == 1 ? ones : 64 - ones;
}
template <int COUNTED>
inline int64_t GetBitCount(uint64_t value)
{
    return ScalarGetCountOfValue<COUNTED>(value);
}
inline int64_t ScalarCountLeadingZero(uint64_t value) { return value == 0 ? 64 : __builtin_clzll(value); }
inline int64_t CountLeadingZero(uint64_t value) { return ScalarCountLeadingZero(value); }
// Position of the first zero or one from the low end, -1 without one.
template <int SOUGHT>
inline int64_t ScalarGetSFFValue(uint64_t value)
{
    static_assert(SOUGHT == 0 || SOUGHT == 1, "ScalarGetSFFValue looks for a zero or a one");
    const uint64_t v = SOUGHT == 1 ? value : ~value;
    return v == 0 ? -1 : __builtin_ctzll(v);
}
template <int SOUGHT>
inline int64_t GetSFFValue(uint64_t value)
{
    return ScalarGetSFFValue<SOUGHT>(value);
}
// Equal leading bits behind the sign bit.
inline int64_t CountBitsCntSameAsSignBit(int64_t value)
{
    const uint64_t v = static_cast<uint64_t>(value < 0 ? ~value : value);
    return v == 0 ? 63 : __builtin_clzll(v) - 1;
}
// float to half or int32_t in one of the rounding modes of the scalar unit.
template <class T, class U, RoundMode MODE>
inline U ScalarCast(T value)
{
    static_assert(std::is_same<T, float>::value && (std::is_same<U, half>::value || std::is_same<U, int32_t>::value),
                  "ScalarCast: float to half or int32_t");
    if constexpr (std::is_same<U, half>::value) {
        return half(value);
    } else {
        const float r = MODE == RoundMode::CAST_FLOOR   ? __builtin_floorf(value)
                        : MODE == RoundMode::CAST_CEIL  ? __builtin_ceilf(value)
                        : MODE == RoundMode::CAST_ROUND ? __builtin_roundf(value)
                        : MODE == RoundMode::CAST_TRUNC ? __builtin_truncf(value)
                                                        : __builtin_rintf(value);
        return static_cast<int32_t>(r);
    }
}
template <class T, class U, RoundMode MODE>
inline U Cast(T value)
{
    return ScalarCast<T, U, MODE>(value);
}
inline float ToFloat(const bfloat16_t& value) { return value; }
inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }

// Overflow mode and other control bits: they change nothing here.
struct AscendCUtils {
    static void SetOverflow(uint64_t) {}
    static void SetMask(const uint64_t& high, const uint64_t& low) { SetVectorMask<half>(high, low); }
};
template <int8_t FIRST, int8_t LAST>
inline void SetCtrlSpr(int64_t)
{
}
template <int8_t FIRST, int8_t LAST>
inline int64_t GetCtrlSpr()
{
    return 0;
}
template <int8_t FIRST, int8_t LAST>
inline void ResetCtrlSpr()
{
}
template <int COUNT = 1>
inline void Nop()
{
}

// ---- lists of tensors in GM -------------------------------------------------------------------------------
// A word with the byte offset of the list of addresses; then a description of every tensor (dimensions, index,
// sizes as words); then the addresses.
template <class T>
class TensorDesc {
public:
    void SetShapeAddr(uint64_t* shape) { shape_ = shape; }
    uint64_t GetDim() { return dim_; }
    uint64_t GetIndex() { return index_; }
    uint64_t GetShape(uint32_t i) { return i < dim_ && shape_ != nullptr ? shape_[i] : 0; }
    T* GetDataPtr() { return data_; }
    GlobalTensor<T> GetDataObj()
    {
        GlobalTensor<T> t;
        t.SetGlobalBuffer(data_);
        return t;
    }

private:
    friend class ListTensorDesc;
    T* data_ = nullptr;
    uint64_t* shape_ = nullptr;
    uint64_t dim_ = 0, index_ = 0;
};

class ListTensorDesc {
public:
    ListTensorDesc() {}
    explicit ListTensorDesc(__gm__ void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff)
    {
        Init(data, length, shapeSize);
    }
    void Init(__gm__ void* data, uint32_t = 0xffffffff, uint32_t = 0xffffffff)
    {
        base_ = static_cast<uint8_t*>(data);
        offset_ = Word(0);
        size_ = 0;
        for (uint64_t at = 8; at < offset_; at += 8 + (Word(at) & 0xffffffffu) * 8) {
            ++size_;
        }
    }
    template <class T>
    void GetDesc(TensorDesc<T>& desc, uint32_t index)
    {
        uint64_t at = 8;
        for (uint32_t i = 0; i < index; ++i) {
            at += 8 + (Word(at) & 0xffffffffu) * 8;
        }
        const uint64_t head = Word(at);
        desc.dim_ = head & 0xffffffffu;
        desc.index_ = head >> 32;
        for (uint64_t i = 0; desc.shape_ != nullptr && i < desc.dim_; ++i) {
            desc.shape_[i] = Word(at + 8 + i * 8);
        }
        desc.data_ = GetDataPtr<T>(index);
    }
    template <class T>
    T* GetDataPtr(uint32_t index)
    {
        return reinterpret_cast<T*>(Word(offset_ + uint64_t(index) * 8));
    }
    uint32_t GetSize() { return size_; }

private:
    uint64_t Word(uint64_t at) const
    {
        gaf_twin::check::op(gaf_twin::Pipe::S, "ListTensorDesc");
        uint64_t w = 0;
        if (gaf_twin::Touch(gaf_twin::Pipe::S, "ListTensorDesc", "data", false, base_ + at, 8, 1, 0, 8,
                            gaf_twin::check::View{})) {
            memcpy(&w, base_ + at, 8);
        }
        return w;
    }
    uint8_t* base_ = nullptr;
    uint64_t offset_ = 0;
    uint32_t size_ = 0;
};

}  // namespace AscendC

#define ASSERT(condition) ascendc_assert(condition)

// Scalar functions that device code calls without a namespace.
#define GAF_TWIN_SCALAR(T)                              \
    constexpr T min(T a, T b) { return b < a ? b : a; } \
    constexpr T max(T a, T b) { return a < b ? b : a; }
GAF_TWIN_SCALAR(int32_t)
GAF_TWIN_SCALAR(uint32_t)
GAF_TWIN_SCALAR(int64_t)
GAF_TWIN_SCALAR(uint64_t)
GAF_TWIN_SCALAR(float)
#undef GAF_TWIN_SCALAR
#if !defined(likely)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#endif  // GAF_TWIN_UTILITY_H
