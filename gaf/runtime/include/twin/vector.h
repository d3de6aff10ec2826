// SPDX-License-Identifier: Apache-2.0
// Vector instructions on elements: unary, binary, scalar, Cast, Compare, Select, Duplicate, Copy, Brcb, Gather, indices.
//
// Forms as in the toolkit: (dst, src.., count); (dst, src.., uint64_t mask, repeat, strides); (.., uint64_t mask[], ..).
// A dtype that A2 does not support does not compile.
#ifndef GAF_TWIN_VECTOR_H
#define GAF_TWIN_VECTOR_H

#include "twin/params.h"
#include "twin/queue.h"
#include "twin/rt.h"

namespace gaf_twin {

// Lanes selected by a contiguous mask: the first `mask` of `lanes`; in Counter mode `mask` elements in all.
inline Shape MaskShape(const char* api, uint64_t mask, uint32_t repeat, uint32_t lanes)
{
    Shape s;
    if (Current().counterMode) {
        s.counter = true;
        s.count = static_cast<uint32_t>(mask);
        return s;
    }
    check::rule(mask <= lanes, "mask", api, "mask of %llu lanes, a repeat has %u", static_cast<unsigned long long>(mask),
                lanes);
    s.repeat = repeat;
    s.lo = mask >= 64 ? ~0ull : (1ull << mask) - 1;
    s.hi = mask >= 128 ? ~0ull : mask > 64 ? (1ull << (mask - 64)) - 1 : 0;
    return s;
}
// Lanes selected by a bit mask of two words.
inline Shape BitShape(const char* api, const uint64_t mask[], uint32_t repeat, uint32_t lanes)
{
    Shape s;
    if (Current().counterMode) {
        s.counter = true;
        s.count = static_cast<uint32_t>(mask[0]);
        return s;
    }
    s.repeat = repeat;
    s.lo = mask[0];
    s.hi = lanes > 64 ? mask[1] : 0;
    check::rule(lanes > 64 || mask[1] == 0, "mask", api, "the second mask word must be 0 for 32-bit and wider types");
    return s;
}
// Lanes selected by the mask registers (isSetMask == false).
inline Shape RegisterShape(uint32_t repeat, uint32_t lanes)
{
    const Core& c = Current();
    Shape s;
    s.counter = c.counterMode;
    s.count = static_cast<uint32_t>(c.maskLo);
    s.repeat = repeat;
    s.lo = c.maskLo;
    s.hi = lanes > 64 ? c.maskHi : 0;
    return s;
}
template <bool SET>
inline Shape ShapeFor(const char* api, uint64_t mask, uint32_t repeat, uint32_t lanes)
{
    return SET ? MaskShape(api, mask, repeat, lanes) : RegisterShape(repeat, lanes);
}
template <bool SET>
inline Shape ShapeFor(const char* api, const uint64_t mask[], uint32_t repeat, uint32_t lanes)
{
    return SET ? BitShape(api, mask, repeat, lanes) : RegisterShape(repeat, lanes);
}

template <class T>
inline Lanes LanesOf(const AscendC::LocalTensor<T>& t, uint32_t blk, uint32_t rep)
{
    return Lanes{t.GetPhyAddr(), sizeof(T), blk, rep, false};
}

// A flat operand of `n` elements.
template <class T>
inline bool TouchFlat(const char* api, const char* operand, bool write, const AscendC::LocalTensor<T>& t, uint64_t n)
{
    return check::access(Pipe::V, api, operand, write, t.GetPhyAddr(), n * sizeof(T), 1, 0, 32, t.View());
}
template <class T>
inline bool TouchLanes(const char* api, const char* operand, bool write, const AscendC::LocalTensor<T>& t,
                       const Lanes& l, const Shape& s, uint32_t lanes)
{
#if GAF_TWIN_CHECKING
    return TouchMasked(api, operand, write, l, s, lanes, t.View());
#else
    (void)api, (void)operand, (void)write, (void)t, (void)l, (void)s, (void)lanes;
    return true;
#endif
}

inline void CheckRepeats(const char* api, const char* operand, const Lanes& dst, const Lanes& src, const Shape& shape,
                         uint32_t lanes, bool secondSource)
{
#if GAF_TWIN_CHECKING
    CheckRepeatOverlap(api, operand, dst, src, shape, lanes, secondSource);
#else
    (void)api, (void)operand, (void)dst, (void)src, (void)shape, (void)lanes, (void)secondSource;
#endif
}

template <class D, class S>
inline void UnaryFlat(const char* api, rt::Fn fn, const AscendC::LocalTensor<D>& dst,
                      const AscendC::LocalTensor<S>& src, const void* scalar, int64_t n, uint32_t flags = 0,
                      bool readsDst = false)
{
    if (n <= 0) {
        return;
    }
    check::op(Pipe::V, api, flags);
    if (TouchFlat(api, "src", false, src, n) && (!readsDst || TouchFlat(api, "dst", false, dst, n)) &&
        TouchFlat(api, "dst", true, dst, n)) {
        fn(dst.GetPhyAddr(), src.GetPhyAddr(), scalar, static_cast<uint32_t>(n));
    }
}
template <class D, class S>
inline void UnaryLanes(const char* api, rt::Fn fn, const AscendC::LocalTensor<D>& dst,
                       const AscendC::LocalTensor<S>& src, const void* scalar, const Shape& shape, uint32_t lanes,
                       const AscendC::UnaryRepeatParams& p, bool readsDst = false)
{
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride), a = LanesOf(src, p.srcBlkStride, p.srcRepStride);
    check::op(Pipe::V, api);
    CheckRepeats(api, "src", d, a, shape, lanes, false);
    if (TouchLanes(api, "src", false, src, a, shape, lanes) &&
        (!readsDst || TouchLanes(api, "dst", false, dst, d, shape, lanes)) &&
        TouchLanes(api, "dst", true, dst, d, shape, lanes)) {
        RunMasked(fn, d, a, Lanes{const_cast<void*>(scalar), 0, 0, 0, true}, shape, lanes);
    }
}
template <class D, class S>
inline void BinaryFlat(const char* api, rt::Fn fn, const AscendC::LocalTensor<D>& dst,
                       const AscendC::LocalTensor<S>& a, const AscendC::LocalTensor<S>& b, int64_t n,
                       bool readsDst = false, uint32_t flags = 0)
{
    if (n <= 0) {
        return;
    }
    check::op(Pipe::V, api, flags);
    if (TouchFlat(api, "src0", false, a, n) && TouchFlat(api, "src1", false, b, n) &&
        (!readsDst || TouchFlat(api, "dst", false, dst, n)) && TouchFlat(api, "dst", true, dst, n)) {
        fn(dst.GetPhyAddr(), a.GetPhyAddr(), b.GetPhyAddr(), static_cast<uint32_t>(n));
    }
}
template <class D, class S>
inline void BinaryLanes(const char* api, rt::Fn fn, const AscendC::LocalTensor<D>& dst,
                        const AscendC::LocalTensor<S>& src0, const AscendC::LocalTensor<S>& src1, const Shape& shape,
                        uint32_t lanes, const AscendC::BinaryRepeatParams& p, bool readsDst = false)
{
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride), a = LanesOf(src0, p.src0BlkStride, p.src0RepStride),
                b = LanesOf(src1, p.src1BlkStride, p.src1RepStride);
    check::op(Pipe::V, api);
    CheckRepeats(api, "src0", d, a, shape, lanes, false);
    CheckRepeats(api, "src1", d, b, shape, lanes, true);
    if (TouchLanes(api, "src0", false, src0, a, shape, lanes) && TouchLanes(api, "src1", false, src1, b, shape, lanes) &&
        (!readsDst || TouchLanes(api, "dst", false, dst, d, shape, lanes)) &&
        TouchLanes(api, "dst", true, dst, d, shape, lanes)) {
        RunMasked(fn, d, a, b, shape, lanes);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_UNARY(NAME, OP, ...)                                                                                  \
    template <class T>                                                                                                 \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count)                       \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        gaf_twin::UnaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr, count);           \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const U8 repeat,        \
                     const UnaryRepeatParams& p)                                                                       \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr,                  \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);                     \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const U8 repeat,      \
                     const UnaryRepeatParams& p)                                                                       \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr,                  \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);                     \
    }

GAF_TWIN_UNARY(Exp, EXP, half, float)
GAF_TWIN_UNARY(Ln, LN, half, float)
GAF_TWIN_UNARY(Abs, ABS, half, float)
GAF_TWIN_UNARY(Sqrt, SQRT, half, float)
GAF_TWIN_UNARY(Rsqrt, RSQRT, half, float)
GAF_TWIN_UNARY(Reciprocal, RECIPROCAL, half, float)
GAF_TWIN_UNARY(Relu, RELU, half, float, int32_t)
GAF_TWIN_UNARY(Not, NOT, int16_t, uint16_t)
#undef GAF_TWIN_UNARY

#define GAF_TWIN_BINARY(NAME, OP, READS_DST, ...)                                                                      \
    template <class T>                                                                                                 \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                \
                     const int32_t& count)                                                                             \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        gaf_twin::BinaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1, count, READS_DST); \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, \
                     const U8 repeat, const BinaryRepeatParams& p)                                                \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1,                   \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p, READS_DST);         \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                \
                     uint64_t mask[], const U8 repeat, const BinaryRepeatParams& p)                               \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1,                   \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p, READS_DST);         \
    }

GAF_TWIN_BINARY(Add, ADD, false, int16_t, half, int32_t, float)
GAF_TWIN_BINARY(Sub, SUB, false, int16_t, half, int32_t, float)
GAF_TWIN_BINARY(Mul, MUL, false, int16_t, half, int32_t, float)
GAF_TWIN_BINARY(Div, DIV, false, half, float)
GAF_TWIN_BINARY(Max, MAX, false, int16_t, half, int32_t, float)
GAF_TWIN_BINARY(Min, MIN, false, int16_t, half, int32_t, float)
GAF_TWIN_BINARY(And, AND, false, int16_t, uint16_t)
GAF_TWIN_BINARY(Or, OR, false, int16_t, uint16_t)
GAF_TWIN_BINARY(AddRelu, ADD_RELU, false, int16_t, half, float)
GAF_TWIN_BINARY(SubRelu, SUB_RELU, false, int16_t, half, float)
GAF_TWIN_BINARY(FusedMulAdd, FUSED_MUL_ADD, true, half, float)
GAF_TWIN_BINARY(FusedMulAddRelu, FUSED_MUL_ADD_RELU, true, half, float)
#undef GAF_TWIN_BINARY

template <class T, class U>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const int32_t& count)
{
    gaf_twin::BinaryFlat("MulAddDst", &gaf_twin::rt::MulAddDst<T, U>, dst, src0, src1, count, true);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const uint64_t mask, const U8 repeat, const BinaryRepeatParams& p)
{
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::BinaryLanes("MulAddDst", &gaf_twin::rt::MulAddDst<T, U>, dst, src0, src1,
                          gaf_twin::ShapeFor<isSetMask>("MulAddDst", mask, repeat, lanes), lanes, p, true);
}

// The scalar has the tensor's type: a literal of another type does not compile, as in the toolkit.
#define GAF_TWIN_SCALAR(NAME, OP, ...)                                                                                 \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count)      \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        gaf_twin::UnaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar, count);           \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask,             \
                     const U8 repeat, const UnaryRepeatParams& p)                                                 \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar,                  \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);                     \
    }                                                                                                                  \
    template <class T, bool isSetMask = true>                                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask[],           \
                     const U8 repeat, const UnaryRepeatParams& p)                                                 \
    {                                                                                                                  \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                              \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                                 \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar,                  \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);                     \
    }

GAF_TWIN_SCALAR(Adds, ADDS, int16_t, half, int32_t, float)
GAF_TWIN_SCALAR(Muls, MULS, int16_t, half, int32_t, float)
GAF_TWIN_SCALAR(Maxs, MAXS, int16_t, half, int32_t, float)
GAF_TWIN_SCALAR(Mins, MINS, int16_t, half, int32_t, float)
GAF_TWIN_SCALAR(LeakyRelu, LEAKY_RELU, half, float)
GAF_TWIN_SCALAR(ShiftLeft, SHIFT_LEFT, int16_t, uint16_t, int32_t, uint32_t)
GAF_TWIN_SCALAR(ShiftRight, SHIFT_RIGHT, int16_t, uint16_t, int32_t, uint32_t)
#undef GAF_TWIN_SCALAR

template <class T, class U>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalar, const int32_t& count)
{
    gaf_twin::UnaryFlat("Axpy", &gaf_twin::rt::Axpy<T, U>, dst, src, &scalar, count, 0, true);
}
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalar, uint64_t mask,
                 const U8 repeat, const UnaryRepeatParams& p)
{
    constexpr uint32_t lanes = gaf_twin::LANES<T>;
    gaf_twin::UnaryLanes("Axpy", &gaf_twin::rt::Axpy<T, U>, dst, src, &scalar,
                         gaf_twin::ShapeFor<isSetMask>("Axpy", mask, repeat, lanes), lanes, p, true);
}

// ---- Cast ----------------------------------------------------------------------------------------------------------

}  // namespace AscendC

namespace gaf_twin {

// Rounding modes that A2 has for a pair, a bit per RoundMode; 0: the pair does not exist.
template <class D, class S>
constexpr uint32_t CastModes()
{
    constexpr uint32_t N = 1, R = 2, F = 4, C = 8, A = 16, Z = 32, O = 64, INT = R | F | C | A | Z;
    if (std::is_same<S, half>::value) {
        return OneOf<D, int8_t, uint8_t> ? (INT | N) : OneOf<D, int16_t, int32_t> ? INT : OneOf<D, float> ? N : 0;
    }
    if (std::is_same<S, float>::value) {
        return OneOf<D, int16_t, int32_t, int64_t, float> ? INT
               : OneOf<D, half>                           ? (INT | O | N)
               : OneOf<D, bfloat16_t>                     ? INT
                                                          : 0;
    }
    if (std::is_same<S, bfloat16_t>::value) {
        return OneOf<D, float> ? N : OneOf<D, int32_t> ? INT : 0;
    }
    if (OneOf<S, int8_t, uint8_t>) {
        return OneOf<D, half> ? N : 0;
    }
    if (std::is_same<S, int16_t>::value) {
        return OneOf<D, half> ? (INT | N) : OneOf<D, float> ? N : 0;
    }
    if (std::is_same<S, int32_t>::value) {
        return OneOf<D, int16_t, int64_t> ? N : OneOf<D, half, float> ? (INT | N) : 0;
    }
    if (std::is_same<S, int64_t>::value) {
        return OneOf<D, int32_t> ? N : OneOf<D, float> ? INT : 0;
    }
    return 0;
}

template <class D, class S, AscendC::RoundMode M>
void CastRun(void* dst, const void* src, const void* scale, uint32_t n)
{
    if constexpr (std::is_same<D, half>::value && std::is_same<S, int32_t>::value) {
        rt::Int32ToHalfScaled(dst, src, *static_cast<const float*>(scale), n);
    } else {
        rt::Convert<D, S>(dst, src, M, n);
    }
}
template <class D, class S>
inline rt::Fn CastFn(AscendC::RoundMode mode)
{
    using M = AscendC::RoundMode;
    switch (mode) {
        case M::CAST_RINT: return &CastRun<D, S, M::CAST_RINT>;
        case M::CAST_FLOOR: return &CastRun<D, S, M::CAST_FLOOR>;
        case M::CAST_CEIL: return &CastRun<D, S, M::CAST_CEIL>;
        case M::CAST_ROUND: return &CastRun<D, S, M::CAST_ROUND>;
        case M::CAST_TRUNC: return &CastRun<D, S, M::CAST_TRUNC>;
        case M::CAST_ODD: return &CastRun<D, S, M::CAST_ODD>;
        default: return &CastRun<D, S, M::CAST_NONE>;
    }
}
template <class D, class S>
inline void CheckCast(AscendC::RoundMode mode)
{
    static_assert(CastModes<D, S>() != 0, "Cast: A2 has no such pair of types in one instruction");
    check::rule((CastModes<D, S>() >> static_cast<uint32_t>(mode) & 1) != 0, "cast-mode", "Cast",
                "rounding mode %d is not available for this pair of types on A2", static_cast<int>(mode));
}

}  // namespace gaf_twin

namespace AscendC {

template <class T1, class T2>
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode, const uint32_t count)
{
    gaf_twin::CheckCast<T1, T2>(mode);
    if constexpr (std::is_same<T1, half>::value && std::is_same<T2, int32_t>::value) {
        const float scale = gaf_twin::Current().deqScale;
        gaf_twin::UnaryFlat("Cast", gaf_twin::CastFn<T1, T2>(mode), dst, src, &scale, count);
    } else {
        if (count == 0) {
            return;
        }
        gaf_twin::check::op(gaf_twin::Pipe::V, "Cast");
        if (gaf_twin::TouchFlat("Cast", "src", false, src, count) &&
            gaf_twin::TouchFlat("Cast", "dst", true, dst, count)) {
            gaf_twin::rt::Convert<T1, T2>(dst.GetPhyAddr(), src.GetPhyAddr(), mode, count);
        }
    }
}
template <class T1, class T2, bool isSetMask = true>
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode, const uint64_t mask,
                 const U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CheckCast<T1, T2>(mode);
    constexpr uint32_t lanes = 256 / (sizeof(T1) > sizeof(T2) ? sizeof(T1) : sizeof(T2));
    const float scale = gaf_twin::Current().deqScale;
    gaf_twin::UnaryLanes("Cast", gaf_twin::CastFn<T1, T2>(mode), dst, src, &scale,
                         gaf_twin::ShapeFor<isSetMask>("Cast", mask, repeat, lanes), lanes, p);
}
template <class T1, class T2, bool isSetMask = true>
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode, const uint64_t mask[],
                 const U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CheckCast<T1, T2>(mode);
    constexpr uint32_t lanes = 256 / (sizeof(T1) > sizeof(T2) ? sizeof(T1) : sizeof(T2));
    const float scale = gaf_twin::Current().deqScale;
    gaf_twin::UnaryLanes("Cast", gaf_twin::CastFn<T1, T2>(mode), dst, src, &scale,
                         gaf_twin::ShapeFor<isSetMask>("Cast", mask, repeat, lanes), lanes, p);
}
inline void SetDeqScale(half scale) { gaf_twin::Current().deqScale = scale; }

// ---- Duplicate, indices, Copy, Brcb, Gather ------------------------------------------------------------------------

}  // namespace AscendC

namespace gaf_twin {

template <class T>
void FillRun(void* dst, const void*, const void* scalar, uint32_t n)
{
    rt::Fill<T>(dst, *static_cast<const T*>(scalar), n);
}
template <class T>
void MoveRun(void* dst, const void* src, const void*, uint32_t n)
{
    memmove(dst, src, n * sizeof(T));
}
template <class T>
inline void DuplicateLanes(const AscendC::LocalTensor<T>& dst, T value, const Shape& shape, uint32_t blk, uint32_t rep)
{
    const Lanes d = LanesOf(dst, blk, rep);
    check::op(Pipe::V, "Duplicate");
    if (TouchLanes("Duplicate", "dst", true, dst, d, shape, LANES<T>)) {
        RunMasked(&FillRun<T>, d, Lanes{}, Lanes{&value, 0, 0, 0, true}, shape, LANES<T>);
    }
}
template <class T>
inline void CopyLanes(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, Shape shape,
                      uint32_t repeat, const AscendC::CopyRepeatParams& p)
{
    static_assert(OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Copy: A2 takes 16-bit and 32-bit types");
    if (shape.counter) {  // Copy is the exception: repeat still counts
        shape.counter = false;
        shape.repeat = repeat;
        const uint32_t n = shape.count;
        shape.lo = n >= 64 ? ~0ull : (1ull << n) - 1;
        shape.hi = n >= 128 ? ~0ull : n > 64 ? (1ull << (n - 64)) - 1 : 0;
    }
    const Lanes d = LanesOf(dst, p.dstStride, p.dstRepeatSize), s = LanesOf(src, p.srcStride, p.srcRepeatSize);
    check::op(Pipe::V, "Copy");
    CheckRepeats("Copy", "src", d, s, shape, LANES<T>, false);
    if (TouchLanes("Copy", "src", false, src, s, shape, LANES<T>) &&
        TouchLanes("Copy", "dst", true, dst, d, shape, LANES<T>)) {
        RunMasked(&MoveRun<T>, d, s, Lanes{}, shape, LANES<T>);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_DUPLICATE_TYPES(T)                                                                    \
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,   \
                  "Duplicate: A2 takes half, bfloat16_t, (u)int16_t, (u)int32_t, float")
template <class T>
inline void Duplicate(const LocalTensor<T>& dst, const T& value, const int32_t& count)
{
    GAF_TWIN_DUPLICATE_TYPES(T);
    if (count <= 0) {
        return;
    }
    gaf_twin::check::op(gaf_twin::Pipe::V, "Duplicate");
    if (gaf_twin::TouchFlat("Duplicate", "dst", true, dst, count)) {
        gaf_twin::rt::Fill<T>(dst.GetPhyAddr(), value, static_cast<uint32_t>(count));
    }
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask, const U8 repeat,
                      const U16 dstBlk, const U8 dstRep)
{
    GAF_TWIN_DUPLICATE_TYPES(T);
    gaf_twin::DuplicateLanes(dst, value, gaf_twin::ShapeFor<isSetMask>("Duplicate", mask, repeat, gaf_twin::LANES<T>),
                             dstBlk, dstRep);
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask[], const U8 repeat,
                      const U16 dstBlk, const U8 dstRep)
{
    GAF_TWIN_DUPLICATE_TYPES(T);
    gaf_twin::DuplicateLanes(dst, value, gaf_twin::ShapeFor<isSetMask>("Duplicate", mask, repeat, gaf_twin::LANES<T>),
                             dstBlk, dstRep);
}
#undef GAF_TWIN_DUPLICATE_TYPES

template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const U8 repeat,
                 const CopyRepeatParams& p)
{
    gaf_twin::CopyLanes(dst, src, gaf_twin::ShapeFor<isSetMask>("Copy", mask, repeat, gaf_twin::LANES<T>), repeat, p);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const U8 repeat,
                 const CopyRepeatParams& p)
{
    gaf_twin::CopyLanes(dst, src, gaf_twin::ShapeFor<isSetMask>("Copy", mask, repeat, gaf_twin::LANES<T>), repeat, p);
}

template <class T>
inline void CreateVecIndex(LocalTensor<T> dst, const T& first, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, int16_t, half, int32_t, float>, "CreateVecIndex: A2 takes int16, half, int32, float");
    if (count == 0) {
        return;
    }
    gaf_twin::check::op(gaf_twin::Pipe::V, "CreateVecIndex");
    if (gaf_twin::TouchFlat("CreateVecIndex", "dst", true, dst, count)) {
        gaf_twin::rt::Iota<T>(dst.GetPhyAddr(), first, T(1), count);
    }
}
template <class T>
inline void ArithProgression(const LocalTensor<T>& dst, const T first, const T step, const int32_t count)
{
    static_assert(gaf_twin::OneOf<T, int16_t, half, int32_t, float>, "ArithProgression: int16, half, int32, float");
    if (count <= 0) {
        return;
    }
    gaf_twin::check::op(gaf_twin::Pipe::V, "ArithProgression");
    if (gaf_twin::TouchFlat("ArithProgression", "dst", true, dst, count)) {
        gaf_twin::rt::Iota<T>(dst.GetPhyAddr(), first, step, static_cast<uint32_t>(count));
    }
}

// 8 elements of src become 8 blocks of dst in each repeat.
template <class T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const U8 repeat, const BrcbRepeatParams& p)
{
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Brcb: A2 takes 16-bit and 32-bit types");
    if (repeat == 0) {
        return;
    }
    using gaf_twin::Pipe;
    gaf_twin::check::op(Pipe::V, "Brcb", gaf_twin::check::OP_NO_ALIAS);
    if (!gaf_twin::TouchFlat("Brcb", "src", false, src, uint64_t(repeat) * 8) ||
        !gaf_twin::check::access(Pipe::V, "Brcb", "dst", true, dst.GetPhyAddr(), 32, 8, int64_t(p.dstBlkStride) * 32, 32,
                                 dst.View(), repeat, int64_t(p.dstRepStride) * 32)) {
        return;
    }
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t i = 0; i < 8; ++i) {
            T* d = dst.GetPhyAddr() + (uint64_t(r) * p.dstRepStride + uint64_t(i) * p.dstBlkStride) * gaf_twin::BLK<T>;
            const T v = src.GetPhyAddr()[r * 8 + i];
            for (uint32_t k = 0; k < gaf_twin::BLK<T>; ++k) {
                d[k] = v;
            }
        }
    }
}

// dst[i] = *(T*)((char*)src + base + offset[i]).
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Gather: A2 takes 16-bit and 32-bit types");
    if (count == 0) {
        return;
    }
    using gaf_twin::Pipe;
    gaf_twin::check::op(Pipe::V, "Gather", gaf_twin::check::OP_NO_ALIAS);
    if (!gaf_twin::TouchFlat("Gather", "srcOffset", false, offset, count) ||
        !gaf_twin::TouchFlat("Gather", "dst", true, dst, count)) {
        return;
    }
    const char* from = reinterpret_cast<const char*>(src.GetPhyAddr()) + base;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t o = offset.GetPhyAddr()[i];
        if (!gaf_twin::check::rule(o % sizeof(T) == 0, "gather-offset", "Gather",
                                   "offset %u is not a multiple of the element size", o) ||
            !gaf_twin::check::access(Pipe::V, "Gather", "src", false, from + o, sizeof(T), 1, 0, sizeof(T),
                                     src.View())) {
            return;
        }
        memcpy(dst.GetPhyAddr() + i, from + o, sizeof(T));
    }
}

// ---- Compare, Select -----------------------------------------------------------------------------------------------

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void CompareCount(const char* api, void* bits, check::View view, const AscendC::LocalTensor<T>& a, const void* b,
                         const AscendC::LocalTensor<T>* bTensor, AscendC::CMPMODE mode, uint32_t count)
{
    static_assert(OneOf<T, half, float, int32_t>, "Compare: A2 takes half, float and (EQ only) int32_t");
    check::rule(!std::is_same<T, int32_t>::value || mode == AscendC::CMPMODE::EQ, "compare-dtype", api,
                "int32_t has only EQ on A2");
    check::rule(uint64_t(count) * sizeof(T) % 256 == 0, "compare-count", api,
                "%u elements are not a multiple of 256 bytes: the last bits are not computed", count);
    const uint32_t n = count / LANES<T> * LANES<T>;
    if (n == 0) {
        return;
    }
    check::op(Pipe::V, api);
    if (TouchFlat(api, "src0", false, a, n) && (bTensor == nullptr || TouchFlat(api, "src1", false, *bTensor, n)) &&
        check::access(Pipe::V, api, "dst", true, bits, n / 8, 1, 0, 32, view)) {
        rt::CompareBits<T>(static_cast<uint8_t*>(bits), a.GetPhyAddr(), b, bTensor == nullptr, mode, n);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    uint32_t count)
{
    static_assert(gaf_twin::OneOf<U, uint8_t, int8_t>, "Compare: dst is uint8_t or int8_t");
    gaf_twin::CompareCount("Compare", dst.GetPhyAddr(), dst.View(), src0, src1.GetPhyAddr(), &src1, mode, count);
}
template <class T, class U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                          uint32_t count)
{
    static_assert(gaf_twin::OneOf<U, uint8_t, int8_t>, "CompareScalar: dst is uint8_t or int8_t");
    gaf_twin::CompareCount("CompareScalar", dst.GetPhyAddr(), dst.View(), src0, &scalar,
                           static_cast<const LocalTensor<T>*>(nullptr), mode, count);
}
template <class T, class U>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode, uint32_t count)
{
    CompareScalar(dst, src0, scalar, mode, count);
}

}  // namespace AscendC

namespace gaf_twin {

// The repeat forms write whole repeats, one after the other, to dst (mask bits are ignored on A2).
template <class T, class U>
inline void CompareRepeat(const char* api, const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& a,
                          const void* b, const AscendC::LocalTensor<T>* bTensor, AscendC::CMPMODE mode, uint32_t repeat,
                          uint32_t aBlk, uint32_t aRep, uint32_t bBlk, uint32_t bRep)
{
    static_assert(OneOf<T, half, float, int32_t>, "Compare: A2 takes half, float and (EQ only) int32_t");
    check::rule(!std::is_same<T, int32_t>::value || mode == AscendC::CMPMODE::EQ, "compare-dtype", api,
                "int32_t has only EQ on A2");
    Shape s;
    s.repeat = repeat;
    s.lo = s.hi = ~0ull;
    s.hi = LANES<T> > 64 ? ~0ull : 0;
    const Lanes la = LanesOf(a, aBlk, aRep);
    check::op(Pipe::V, api);
    if (!TouchLanes(api, "src0", false, a, la, s, LANES<T>) ||
        (bTensor != nullptr &&
         !TouchLanes(api, "src1", false, *bTensor, LanesOf(*bTensor, bBlk, bRep), s, LANES<T>)) ||
        !check::access(Pipe::V, api, "dst", true, dst.GetPhyAddr(), uint64_t(repeat) * LANES<T> / 8, 1, 0, 32,
                       dst.View())) {
        return;
    }
    uint8_t* out = reinterpret_cast<uint8_t*>(dst.GetPhyAddr());
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t k = 0; k < 8; ++k) {
            const T* pa = a.GetPhyAddr() + (r * aRep + k * aBlk) * BLK<T>;
            const T* pb = static_cast<const T*>(b) + (bTensor == nullptr ? 0 : (r * bRep + k * bBlk) * BLK<T>);
            rt::CompareBits<T>(out + (r * 8 + k) * BLK<T> / 8, pa, pb, bTensor == nullptr, mode, BLK<T>);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    const uint64_t, U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("Compare", dst, src0, src1.GetPhyAddr(), &src1, mode, repeat, p.src0BlkStride,
                            p.src0RepStride, p.src1BlkStride, p.src1RepStride);
}
template <class T, class U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    const uint64_t[], U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("Compare", dst, src0, src1.GetPhyAddr(), &src1, mode, repeat, p.src0BlkStride,
                            p.src0RepStride, p.src1BlkStride, p.src1RepStride);
}
template <class T, class U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                          const uint64_t, U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("CompareScalar", dst, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode,
                            repeat, p.srcBlkStride, p.srcRepStride, 0, 0);
}

}  // namespace AscendC

namespace gaf_twin {

template <class T, class U>
inline void SelectCount(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& mask,
                        const AscendC::LocalTensor<T>& a, const void* b, const AscendC::LocalTensor<T>* bTensor,
                        AscendC::SELMODE mode, uint32_t count)
{
    static_assert(OneOf<T, half, float>, "Select: A2 takes half and float");
    using M = AscendC::SELMODE;
    check::rule(mode == (bTensor == nullptr ? M::VSEL_TENSOR_SCALAR_MODE : M::VSEL_TENSOR_TENSOR_MODE) ||
                    (bTensor != nullptr && mode == M::VSEL_CMPMASK_SPR),
                "select-mode", "Select", "selection mode %d does not fit the operands", static_cast<int>(mode));
    if (count == 0) {
        return;
    }
    const bool same = mode == M::VSEL_CMPMASK_SPR;  // every repeat reads the same bits
    check::op(Pipe::V, "Select");
    if (!same) {
        check::reservedUb("Select");
    }
    const uint64_t maskBytes = same ? LANES<T> / 8 : DivUp(count, 8);
    if (!check::access(Pipe::V, "Select", "selMask", false, mask.GetPhyAddr(), maskBytes, 1, 0, 32, mask.View()) ||
        !TouchFlat("Select", "src0", false, a, count) ||
        (bTensor != nullptr && !TouchFlat("Select", "src1", false, *bTensor, count)) ||
        !TouchFlat("Select", "dst", true, dst, count)) {
        return;
    }
    const uint8_t* bits = reinterpret_cast<const uint8_t*>(mask.GetPhyAddr());
    const uint32_t step = same ? LANES<T> : count;
    for (uint32_t i = 0; i < count; i += step) {
        const uint32_t n = count - i < step ? count - i : step;
        rt::SelectBits<T>(dst.GetPhyAddr() + i, bits, a.GetPhyAddr() + i,
                          static_cast<const T*>(b) + (bTensor == nullptr ? 0 : i), bTensor == nullptr, n);
    }
}

// Masked form: bits are consumed a repeat at a time (mode 0: the same bits each repeat).
template <class T, class U>
inline void SelectRepeat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& mask,
                         const AscendC::LocalTensor<T>& a, const void* b, const AscendC::LocalTensor<T>* bTensor,
                         AscendC::SELMODE mode, const Shape& shape, const AscendC::BinaryRepeatParams& p)
{
    static_assert(OneOf<T, half, float>, "Select: A2 takes half and float");
    const bool same = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR;
    const uint32_t repeat = shape.counter ? DivUp(shape.count, LANES<T>) : shape.repeat;
    if (repeat == 0) {
        return;
    }
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride), la = LanesOf(a, p.src0BlkStride, p.src0RepStride);
    check::op(Pipe::V, "Select");
    if (!same) {
        check::reservedUb("Select");
    }
    if (!check::access(Pipe::V, "Select", "selMask", false, mask.GetPhyAddr(),
                       uint64_t(same ? 1 : repeat) * LANES<T> / 8, 1, 0, 32, mask.View()) ||
        !TouchLanes("Select", "src0", false, a, la, shape, LANES<T>) ||
        (bTensor != nullptr && !TouchLanes("Select", "src1", false, *bTensor,
                                           LanesOf(*bTensor, p.src1BlkStride, p.src1RepStride), shape, LANES<T>)) ||
        !TouchLanes("Select", "dst", true, dst, d, shape, LANES<T>)) {
        return;
    }
    const uint8_t* bits = reinterpret_cast<const uint8_t*>(mask.GetPhyAddr());
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t l = 0; l < LANES<T>; ++l) {
            const bool active = shape.counter ? r * LANES<T> + l < shape.count
                                              : ((l < 64 ? shape.lo >> l : shape.hi >> (l - 64)) & 1) != 0;
            if (!active) {
                continue;
            }
            const uint32_t k = l / BLK<T>, e = l % BLK<T>, bit = same ? l : r * LANES<T> + l;
            const T* pb = static_cast<const T*>(b) +
                          (bTensor == nullptr ? 0 : (r * p.src1RepStride + k * p.src1BlkStride) * BLK<T> + e);
            const T* pa = a.GetPhyAddr() + (r * p.src0RepStride + k * p.src0BlkStride) * BLK<T> + e;
            T* pd = dst.GetPhyAddr() + (r * p.dstRepStride + k * p.dstBlkStride) * BLK<T> + e;
            *pd = (bits[bit / 8] >> (bit % 8) & 1) != 0 ? *pa : *pb;
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint32_t count)
{
    gaf_twin::SelectCount(dst, mask, src0, src1.GetPhyAddr(), &src1, mode, count);
}
template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, T scalar,
                   SELMODE mode, uint32_t count)
{
    gaf_twin::SelectCount(dst, mask, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode, count);
}
template <class T, class U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint64_t mask, U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::SelectRepeat(dst, selMask, src0, src1.GetPhyAddr(), &src1, mode,
                           gaf_twin::ShapeFor<isSetMask>("Select", mask, repeat, gaf_twin::LANES<T>), p);
}
template <class T, class U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint64_t mask[], U8 repeat,
                   const BinaryRepeatParams& p)
{
    gaf_twin::SelectRepeat(dst, selMask, src0, src1.GetPhyAddr(), &src1, mode,
                           gaf_twin::ShapeFor<isSetMask>("Select", mask, repeat, gaf_twin::LANES<T>), p);
}
template <class T, class U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T scalar,
                   SELMODE mode, uint64_t mask, U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::SelectRepeat(dst, selMask, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode,
                           gaf_twin::ShapeFor<isSetMask>("Select", mask, repeat, gaf_twin::LANES<T>), p);
}

}  // namespace AscendC

#endif  // GAF_TWIN_VECTOR_H
