// SPDX-License-Identifier: Apache-2.0
// Further forms of the vector instructions: bit masks, operations with a cast, gathers, comparison register,
// names of CANN 9.
#ifndef GAF_TWIN_FORMS_H
#define GAF_TWIN_FORMS_H

#include "twin/high.h"
#include "twin/move.h"
#include "twin/reduce.h"
#include "twin/select.h"

namespace AscendC {

constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};

// ---- bit masks of instructions that take a scalar or accumulate -------------------------------------------
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalar, uint64_t mask[],
                 const U8 repeat, const UnaryRepeatParams& p)
{
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::UnaryLanes("Axpy", &gaf_twin::rt::Axpy<T, U>, dst, src, &scalar,
                         gaf_twin::ShapeFor<isSetMask>("Axpy", mask, repeat, lanes), lanes, p, true);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const uint64_t mask[], const U8 repeat, const BinaryRepeatParams& p)
{
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::BinaryLanes("MulAddDst", &gaf_twin::rt::MulAddDst<T, U>, dst, src0, src1,
                          gaf_twin::ShapeFor<isSetMask>("MulAddDst", mask, repeat, lanes), lanes, p, true);
}
template <class T, class U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                          const uint64_t mask[], U8 repeat, const UnaryRepeatParams& p)
{
    (void)mask;
    CompareScalar(dst, src0, scalar, mode, uint64_t(0), repeat, p);
}
template <class T, class U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                     const uint64_t mask, U8 repeat, const UnaryRepeatParams& p)
{
    CompareScalar(dst, src0, scalar, mode, mask, repeat, p);
}
template <class T, class U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                     const uint64_t mask[], U8 repeat, const UnaryRepeatParams& p)
{
    CompareScalar(dst, src0, scalar, mode, mask, repeat, p);
}
template <class T, class U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   T scalar, SELMODE mode, uint64_t mask[], U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::SelectRepeat(dst, selMask, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode,
                           gaf_twin::ShapeFor<isSetMask>("Select", mask, repeat, gaf_twin::LANES<T>), p);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    if (count == 0) {
        return;
    }
    gaf_twin::HighCall call("Copy");
    if (call.Read("src", src, count).Write("dst", dst, count).ok()) {
        memmove(dst.GetPhyAddr(), src.GetPhyAddr(), count * sizeof(T));
    }
}
template <class T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask,
                       const U8 repeat, const UnaryRepeatParams& p, bool roundEn)
{
    using gaf_twin::rt::Op;
    gaf_twin::rt::Fn fn = roundEn ? &gaf_twin::rt::Apply<Op::SHIFT_RIGHT_ROUND, T>
                                  : &gaf_twin::rt::Apply<Op::SHIFT_RIGHT, T>;
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::UnaryLanes("ShiftRight", fn, dst, src, &scalar,
                         gaf_twin::ShapeFor<isSetMask>("ShiftRight", mask, repeat, lanes), lanes, p);
}
template <class T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask[],
                       const U8 repeat, const UnaryRepeatParams& p, bool roundEn)
{
    using gaf_twin::rt::Op;
    gaf_twin::rt::Fn fn = roundEn ? &gaf_twin::rt::Apply<Op::SHIFT_RIGHT_ROUND, T>
                                  : &gaf_twin::rt::Apply<Op::SHIFT_RIGHT, T>;
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::UnaryLanes("ShiftRight", fn, dst, src, &scalar,
                         gaf_twin::ShapeFor<isSetMask>("ShiftRight", mask, repeat, lanes), lanes, p);
}

}  // namespace AscendC

// ---- operation and cast in one instruction ----------------------------------------------------------------
namespace gaf_twin {

enum class CastAfter : uint8_t { ADD_RELU, SUB_RELU, MUL };

inline float ToFloat(half v) { return v; }
inline float ToFloat(float v) { return v; }
inline float ToFloat(int16_t v) { return v; }

template <CastAfter OP, class D, class S>
void CastAfterRun(void* dst, const void* a, const void* b, uint32_t n)
{
    D* d = static_cast<D*>(dst);
    const S *x = static_cast<const S*>(a), *y = static_cast<const S*>(b);
    for (uint32_t i = 0; i < n; ++i) {
        float v = OP == CastAfter::ADD_RELU   ? ToFloat(x[i]) + ToFloat(y[i])
                  : OP == CastAfter::SUB_RELU ? ToFloat(x[i]) - ToFloat(y[i])
                                              : ToFloat(x[i]) * ToFloat(y[i]);
        if (OP != CastAfter::MUL && !(v > 0)) {
            v = 0;
        }
        if (sizeof(D) == 1) {
            v = __builtin_rintf(v);
            const float low = std::is_same<D, uint8_t>::value ? 0.0f : -128.0f, high = low + 255.0f;
            v = v < low ? low : v > high ? high : v;
        }
        d[i] = static_cast<D>(v);
    }
}
template <CastAfter OP, class D, class S>
constexpr bool CastAfterFits()
{
    return OP == CastAfter::MUL ? OneOf<S, half> && OneOf<D, int8_t, uint8_t>
                                : (OneOf<S, half> && OneOf<D, int8_t>) || (OneOf<S, float> && OneOf<D, half>) ||
                                      (OneOf<S, int16_t> && OneOf<D, int8_t>);
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_CAST_AFTER(NAME, OP)                                                                       \
    template <class D, class S>                                                                             \
    inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,     \
                     const uint32_t count)                                                                  \
    {                                                                                                       \
        using gaf_twin::CastAfter;                                                                          \
        static_assert(gaf_twin::CastAfterFits<CastAfter::OP, D, S>(), #NAME ": A2 has no such types");      \
        gaf_twin::BinaryFlat(#NAME, &gaf_twin::CastAfterRun<CastAfter::OP, D, S>, dst, src0, src1, count);  \
    }                                                                                                       \
    template <class D, class S, bool isSetMask = true>                                                      \
    inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,     \
                     uint64_t mask, const U8 repeat, const BinaryRepeatParams& p)                           \
    {                                                                                                       \
        using gaf_twin::CastAfter;                                                                          \
        constexpr uint32_t lanes = gaf_twin::LANES<S>;                                                      \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::CastAfterRun<CastAfter::OP, D, S>, dst, src0, src1,         \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);         \
    }                                                                                                       \
    template <class D, class S, bool isSetMask = true>                                                      \
    inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,     \
                     uint64_t mask[], const U8 repeat, const BinaryRepeatParams& p)                         \
    {                                                                                                       \
        using gaf_twin::CastAfter;                                                                          \
        constexpr uint32_t lanes = gaf_twin::LANES<S>;                                                      \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::CastAfterRun<CastAfter::OP, D, S>, dst, src0, src1,         \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);         \
    }
GAF_TWIN_CAST_AFTER(AddReluCast, ADD_RELU)
GAF_TWIN_CAST_AFTER(SubReluCast, SUB_RELU)
GAF_TWIN_CAST_AFTER(MulCast, MUL)
#undef GAF_TWIN_CAST_AFTER

// Dequantisation constants of CastDequant: scale (19 high bits of a float), offset (9 bits), sign.
constexpr int VDEQ_TENSOR_SIZE = 16;
struct VdeqInfo {
    VdeqInfo() {}
    VdeqInfo(const float scale[VDEQ_TENSOR_SIZE], const int16_t offset[VDEQ_TENSOR_SIZE],
             const bool sign[VDEQ_TENSOR_SIZE])
    {
        for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
            vdeqScale[i] = scale[i];
            vdeqOffset[i] = offset[i];
            vdeqSignMode[i] = sign[i];
        }
    }
    float vdeqScale[VDEQ_TENSOR_SIZE] = {};
    int16_t vdeqOffset[VDEQ_TENSOR_SIZE] = {};
    bool vdeqSignMode[VDEQ_TENSOR_SIZE] = {};
};
inline void SetDeqScale(float scale, int16_t offset, bool signMode)
{
    gaf_twin::Core& c = gaf_twin::Current();
    c.deqScale = scale;
    for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
        c.deqScales[i] = scale;
        c.deqOffsets[i] = offset;
        c.deqSigns[i] = signMode;
    }
    c.deqVector = false;
}
template <class T>
inline void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& info)
{
    static_assert(sizeof(T) == 8, "SetDeqScale: the tensor is uint64_t");
    gaf_twin::Core& c = gaf_twin::Current();
    gaf_twin::check::op(gaf_twin::Pipe::S, "SetDeqScale");
    if (!gaf_twin::check::access(gaf_twin::Pipe::S, "SetDeqScale", "vdeq", true, vdeq.GetPhyAddr(), 128, 1, 0, 32,
                                 vdeq.View())) {
        return;
    }
    for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
        c.deqScales[i] = info.vdeqScale[i];
        c.deqOffsets[i] = info.vdeqOffset[i];
        c.deqSigns[i] = info.vdeqSignMode[i];
    }
    c.deqVector = true;
}

}  // namespace AscendC

namespace gaf_twin {

// int16 -> int8 / uint8 by the deq registers. `half_`: which 16 bytes of each 32-byte block of dst are
// written (a block of 16 sources makes 16 bytes).
template <class D>
inline D DequantOne(int32_t v, uint32_t lane, bool vector)
{
    const Core& c = Current();
    const uint32_t i = vector ? lane % 16 : 0;
    float x = __builtin_rintf(static_cast<float>(v) * c.deqScales[i]) + static_cast<float>(c.deqOffsets[i]);
    const float low = std::is_same<D, uint8_t>::value ? 0.0f : -128.0f, high = low + 255.0f;
    x = x < low ? low : x > high ? high : x;
    return static_cast<D>(x);
}

}  // namespace gaf_twin

namespace AscendC {

template <class D, class S, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
inline void CastDequant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const int32_t mask, U8 repeat,
                        const UnaryRepeatParams& p)
{
    if constexpr (std::is_same<S, int32_t>::value && std::is_same<D, half>::value) {
        constexpr uint32_t lanes = gaf_twin::LANES<S>;
        const float scale = gaf_twin::Current().deqScale;
        gaf_twin::UnaryLanes("CastDequant", gaf_twin::CastFn<half, int32_t>(RoundMode::CAST_NONE), dst, src,
                             &scale, gaf_twin::ShapeFor<isSetMask>("CastDequant", uint64_t(mask), repeat, lanes),
                             lanes, p);
    } else {
        static_assert(std::is_same<S, int16_t>::value && sizeof(D) == 1,
                      "CastDequant: int32_t to half, int16_t to int8_t or uint8_t");
        gaf_twin::Shape s = gaf_twin::ShapeFor<isSetMask>("CastDequant", uint64_t(mask), repeat, 128u);
        const uint32_t repeats = s.counter ? gaf_twin::DivUp(s.count, 128) : s.repeat;
        gaf_twin::check::op(gaf_twin::Pipe::V, "CastDequant");
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t b = 0; b < 8; ++b) {
                const S* from = src.GetPhyAddr() + (uint64_t(r) * p.srcRepStride + b * p.srcBlkStride) * 16;
                D* to = dst.GetPhyAddr() + (uint64_t(r) * p.dstRepStride + b * p.dstBlkStride) * 32 +
                        (halfBlock ? 0 : 16);
                if (!gaf_twin::check::access(gaf_twin::Pipe::V, "CastDequant", "src", false, from, 32, 1, 0, 32,
                                             src.View()) ||
                    !gaf_twin::check::access(gaf_twin::Pipe::V, "CastDequant", "dst", true, to, 16, 1, 0, 16,
                                             dst.View())) {
                    return;
                }
                for (uint32_t i = 0; i < 16; ++i) {
                    const uint32_t l = b * 16 + i;
                    if (s.counter ? r * 128 + l < s.count : ((l < 64 ? s.lo >> l : s.hi >> (l - 64)) & 1) != 0) {
                        to[i] = gaf_twin::DequantOne<D>(from[i], i, isVecDeq);
                    }
                }
            }
        }
    }
}
template <class D, class S, bool isVecDeq = true, bool halfBlock = true>
inline void CastDequant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const uint32_t count)
{
    if (count == 0) {
        return;
    }
    if constexpr (std::is_same<S, int32_t>::value && std::is_same<D, half>::value) {
        const float scale = gaf_twin::Current().deqScale;
        gaf_twin::UnaryFlat("CastDequant", gaf_twin::CastFn<half, int32_t>(RoundMode::CAST_NONE), dst, src, &scale,
                            count);
    } else {
        static_assert(std::is_same<S, int16_t>::value && sizeof(D) == 1,
                      "CastDequant: int32_t to half, int16_t to int8_t or uint8_t");
        // 16 results in one half of each 32-byte block.
        gaf_twin::HighCall call("CastDequant");
        const uint32_t blocks = gaf_twin::DivUp(count, 16);
        if (call.Read("src", src, count).Write("dst", dst, uint64_t(blocks) * 32).ok()) {
            for (uint32_t i = 0; i < count; ++i) {
                dst.GetPhyAddr()[i / 16 * 32 + (halfBlock ? 0 : 16) + i % 16] =
                    gaf_twin::DequantOne<D>(src.GetPhyAddr()[i], i, isVecDeq);
            }
        }
    }
}
template <class D, class S, bool isVecDeq = true, bool halfBlock = true>
inline void CastDeq(const LocalTensor<D>& dst, const LocalTensor<S>& src, const uint32_t count)
{
    CastDequant<D, S, isVecDeq, halfBlock>(dst, src, count);
}
template <class D, class S, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
inline void CastDeq(const LocalTensor<D>& dst, const LocalTensor<S>& src, const int32_t mask, U8 repeat,
                    const UnaryRepeatParams& p)
{
    CastDequant<D, S, isSetMask, isVecDeq, halfBlock>(dst, src, mask, repeat, p);
}

// ---- operations with a scalar of CANN 9 -------------------------------------------------------------------
struct BinaryDefaultType {
};
struct BinaryConfig {
    int8_t scalarTensorIndex = 1;  // which operand is the scalar (a one-element tensor counts as one)
};
constexpr BinaryConfig DEFAULT_BINARY_CONFIG = {1};

}  // namespace AscendC

namespace gaf_twin {

template <class A>
struct IsTensor : std::false_type {
};
template <class T>
struct IsTensor<AscendC::LocalTensor<T>> : std::true_type {
};

template <class T, class V>
inline T ScalarOf(const char* api, const V& v)
{
    if constexpr (IsTensor<V>::value) {  // the scalar lies in UB: the vector unit reads it
        const bool ok = check::access(Pipe::V, api, "src1", false, v.GetPhyAddr(), sizeof(T), 1, 0, sizeof(T),
                                      v.View());
        return ok ? *v.GetPhyAddr() : T(0);
    } else {
        return static_cast<T>(v);
    }
}

// dst[i] = a OP b where one of a and b is one element.
template <int SCALAR, class T, class S, class V>
inline void ScalarBinary(const char* api, rt::Fn fn, const AscendC::LocalTensor<T>& dst, const S& a, const V& b,
                         int64_t n)
{
    static_assert(SCALAR == 0 || SCALAR == 1, "scalarTensorIndex is 0 or 1");
    if (n <= 0) {
        return;
    }
    check::op(Pipe::V, api);
    const T scalar = SCALAR == 0 ? ScalarOf<T>(api, a) : ScalarOf<T>(api, b);
    const AscendC::LocalTensor<T>* tensor;
    if constexpr (SCALAR == 0) {
        tensor = &b;
    } else {
        tensor = &a;
    }
    if (!TouchFlat(api, "src", false, *tensor, static_cast<uint64_t>(n)) ||
        !TouchFlat(api, "dst", true, dst, static_cast<uint64_t>(n))) {
        return;
    }
    T row[64];
    for (T& r : row) {
        r = scalar;
    }
    for (int64_t i = 0; i < n; i += 64) {
        const T* t = tensor->GetPhyAddr() + i;
        fn(dst.GetPhyAddr() + i, SCALAR == 0 ? row : t, SCALAR == 0 ? t : row,
           static_cast<uint32_t>(n - i < 64 ? n - i : 64));
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_SCALAR_BINARY(NAME, OP)                                                                     \
    template <class Q = BinaryDefaultType, bool isSetMask = true,                                            \
              const BinaryConfig& config = DEFAULT_BINARY_CONFIG, class T, class S, class V>                 \
    inline void NAME(const LocalTensor<T>& dst, const S& src0, const V& src1, const int32_t& count)          \
    {                                                                                                        \
        constexpr int index = gaf_twin::IsTensor<S>::value && gaf_twin::IsTensor<V>::value                   \
                                  ? config.scalarTensorIndex                                                 \
                                  : (gaf_twin::IsTensor<S>::value ? 1 : 0);                                  \
        gaf_twin::ScalarBinary<index>(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1, \
                                      count);                                                                \
    }
GAF_TWIN_SCALAR_BINARY(Subs, SUB)
GAF_TWIN_SCALAR_BINARY(Divs, DIV)
GAF_TWIN_SCALAR_BINARY(Ands, AND)
GAF_TWIN_SCALAR_BINARY(Ors, OR)
#undef GAF_TWIN_SCALAR_BINARY

// ---- reductions under their names of CANN 9: mask before repeat -------------------------------------------
enum class ReduceType : uint8_t { IS_REDUCE_SUM = 0, IS_REDUCE_MAX, IS_REDUCE_MIN, SUM = 0, MAX, MIN };

template <ReduceType TYPE, class T, class U, bool isSetMask = true, class MASK>
inline void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, const MASK& mask,
                         const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep,
                         ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)
{
    static_assert(std::is_same<T, U>::value, "ReduceRepeat: A2 keeps the dtype");
    if constexpr (TYPE == ReduceType::SUM) {
        WholeReduceSum<T, isSetMask>(dst, src, mask, repeat, dstRep, blk, rep);
    } else if constexpr (TYPE == ReduceType::MAX) {
        WholeReduceMax<T, isSetMask>(dst, src, mask, repeat, dstRep, blk, rep, order);
    } else {
        WholeReduceMin<T, isSetMask>(dst, src, mask, repeat, dstRep, blk, rep, order);
    }
}
template <ReduceType TYPE, class T, class U, bool isSetMask = true, class MASK>
inline void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<U>& src, const MASK& mask,
                            const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep)
{
    static_assert(std::is_same<T, U>::value, "ReduceDataBlock: A2 keeps the dtype");
    if constexpr (TYPE == ReduceType::SUM) {
        BlockReduceSum<T, isSetMask>(dst, src, repeat, mask, dstRep, blk, rep);
    } else if constexpr (TYPE == ReduceType::MAX) {
        BlockReduceMax<T, isSetMask>(dst, src, repeat, mask, dstRep, blk, rep);
    } else {
        BlockReduceMin<T, isSetMask>(dst, src, repeat, mask, dstRep, blk, rep);
    }
}
template <ReduceType TYPE, class T, class U, bool isSetMask = true, class MASK>
inline void ReducePairElem(const LocalTensor<T>& dst, const LocalTensor<U>& src, const MASK& mask,
                           const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep)
{
    static_assert(TYPE == ReduceType::SUM && std::is_same<T, U>::value, "ReducePairElem: sums only");
    PairReduceSum<T, isSetMask>(dst, src, repeat, mask, dstRep, blk, rep);
}

}  // namespace AscendC

namespace gaf_twin {

// Reduction of the active lanes of all repeats to one element.
template <Fold F, class T>
inline void ReduceRepeats(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                          const AscendC::LocalTensor<T>& work, const Shape& s, int32_t rep, bool calIndex)
{
    static_assert(OneOf<T, half, float>, "Reduce*: A2 takes half and float");
    const uint32_t repeat = s.counter ? DivUp(s.count, LANES<T>) : s.repeat;
    if (repeat == 0) {
        return;
    }
    CheckReduceRepeat(api, s, 0, 1, rep);
    check::op(Pipe::V, api, check::OP_MAY_OVERLAP);
    const uint64_t need = F == Fold::SUM ? RoundUp(repeat, BLK<T>) : RoundUp(2 * repeat, BLK<T>);
    if (!TouchLanes(api, "src", false, src,
                    Lanes{src.GetPhyAddr(), sizeof(T), 1, static_cast<uint32_t>(rep), false}, s, LANES<T>) ||
        !TouchFlat(api, "workLocal", true, work, need) ||
        !check::access(Pipe::V, api, "dst", true, dst.GetPhyAddr(), (calIndex ? 2 : 1) * sizeof(T), 1, 0, 32,
                       dst.View())) {
        return;
    }
    T lanes[128], total = T(0);
    uint8_t at[128];
    uint32_t index = 0;
    float partial[256];
    uint32_t parts = 0;
    bool any = false;
    for (uint32_t r = 0; r < repeat; ++r) {
        const uint32_t n = ActiveLanes(src, s, r, 1, static_cast<uint32_t>(rep), lanes, at);
        if (n == 0) {
            continue;
        }
        if (F == Fold::SUM) {
            partial[parts++ % 256] = static_cast<float>(rt::TreeSum<T>(lanes, n));
            continue;
        }
        uint32_t i = 0;
        const T v = rt::Extreme<T>(lanes, n, F == Fold::MAX, &i);
        if (!any || (F == Fold::MAX ? static_cast<float>(v) > static_cast<float>(total)
                                    : static_cast<float>(v) < static_cast<float>(total))) {
            total = v;
            index = r * LANES<T> + at[i];
            any = true;
        }
    }
    if (F == Fold::SUM) {  // a tree across the repeats as well
        T row[256];
        for (uint32_t i = 0; i < parts && i < 256; ++i) {
            row[i] = static_cast<T>(partial[i]);
        }
        while (parts > 1) {
            const uint32_t lanesOf = LANES<T>;
            uint32_t out = 0;
            for (uint32_t i = 0; i < parts; i += lanesOf) {
                row[out++] = rt::TreeSum<T>(row + i, parts - i < lanesOf ? parts - i : lanesOf);
            }
            parts = out;
        }
        total = row[0];
        Current().accumulated = static_cast<float>(total);
    } else {
        Current().reduceValue = static_cast<float>(total);
        Current().reduceIndex = index;
    }
    dst.GetPhyAddr()[0] = total;
    if (calIndex) {
        PutIndex(dst.GetPhyAddr() + 1, index);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_REDUCE_REPEATS(NAME, FOLD, MASK, TO_MASK, INDEX_PARAMETER, INDEX)                           \
    template <class T>                                                                                       \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,       \
                     const MASK, const int32_t repeat, const int32_t srcRep INDEX_PARAMETER)                 \
    {                                                                                                        \
        gaf_twin::ReduceRepeats<gaf_twin::Fold::FOLD>(                                                       \
            #NAME, dst, src, work,                                                                           \
            gaf_twin::ShapeFor<true>(#NAME, TO_MASK, static_cast<uint32_t>(repeat), gaf_twin::LANES<T>),     \
            srcRep, INDEX);                                                                                  \
    }
#define GAF_TWIN_INDEX , bool calIndex = false
#define GAF_TWIN_NO_INDEX
GAF_TWIN_REDUCE_REPEATS(ReduceSum, SUM, int32_t mask, uint64_t(mask), GAF_TWIN_NO_INDEX, false)
GAF_TWIN_REDUCE_REPEATS(ReduceSum, SUM, uint64_t mask[], mask, GAF_TWIN_NO_INDEX, false)
GAF_TWIN_REDUCE_REPEATS(ReduceMax, MAX, int32_t mask, uint64_t(mask), GAF_TWIN_INDEX, calIndex)
GAF_TWIN_REDUCE_REPEATS(ReduceMax, MAX, uint64_t mask[], mask, GAF_TWIN_INDEX, calIndex)
GAF_TWIN_REDUCE_REPEATS(ReduceMin, MIN, int32_t mask, uint64_t(mask), GAF_TWIN_INDEX, calIndex)
GAF_TWIN_REDUCE_REPEATS(ReduceMin, MIN, uint64_t mask[], mask, GAF_TWIN_INDEX, calIndex)
#undef GAF_TWIN_REDUCE_REPEATS
#undef GAF_TWIN_INDEX
#undef GAF_TWIN_NO_INDEX

// Scalar registers that the last reduction left.
template <class T>
inline void GetReduceMaxMinCount(T& value, T& index)
{
    value = static_cast<T>(gaf_twin::Current().reduceValue);
    gaf_twin::PutIndex(&index, static_cast<uint32_t>(gaf_twin::Current().reduceIndex));
}
template <class T>
inline void GetReduceMaxMinCount(T& value)
{
    value = static_cast<T>(gaf_twin::Current().reduceValue);
}
template <class T>
inline void GetReduceRepeatMaxMinSpr(T& value, T& index)
{
    GetReduceMaxMinCount(value, index);
}
template <class T>
inline void GetReduceRepeatMaxMinSpr(T& value)
{
    GetReduceMaxMinCount(value);
}
template <class T>
inline T GetReduceRepeatSumSpr()
{
    return GetAccVal<T>();
}

}  // namespace AscendC

#endif  // GAF_TWIN_FORMS_H
