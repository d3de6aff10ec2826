// SPDX-License-Identifier: Apache-2.0
// Vector instructions on elements (unary, binary, with a scalar) and what all masked instructions share.
//
// Forms as in the toolkit: (dst, src.., count); (dst, src.., uint64_t mask, repeat, strides); (.., uint64_t
// mask[], ..). A dtype that A2 does not support does not compile.
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
    check::rule(mask <= lanes, "mask", api, "mask of %llu lanes, a repeat has %u",
                static_cast<unsigned long long>(mask), lanes);
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
    check::rule(lanes > 64 || mask[1] == 0, "mask", api,
                "the second mask word must be 0 for 32-bit and wider types");
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
inline bool TouchFlat(const char* api, const char* operand, bool write, const AscendC::LocalTensor<T>& t,
                      uint64_t n)
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

inline void CheckRepeats(const char* api, const char* operand, const Lanes& dst, const Lanes& src,
                         const Shape& shape, uint32_t lanes, bool secondSource)
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
                       const AscendC::LocalTensor<S>& src, const void* scalar, const Shape& shape,
                       uint32_t lanes, const AscendC::UnaryRepeatParams& p, bool readsDst = false)
{
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride),
                a = LanesOf(src, p.srcBlkStride, p.srcRepStride);
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
                        const AscendC::LocalTensor<S>& src0, const AscendC::LocalTensor<S>& src1,
                        const Shape& shape, uint32_t lanes, const AscendC::BinaryRepeatParams& p,
                        bool readsDst = false)
{
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride),
                a = LanesOf(src0, p.src0BlkStride, p.src0RepStride),
                b = LanesOf(src1, p.src1BlkStride, p.src1RepStride);
    check::op(Pipe::V, api);
    CheckRepeats(api, "src0", d, a, shape, lanes, false);
    CheckRepeats(api, "src1", d, b, shape, lanes, true);
    if (TouchLanes(api, "src0", false, src0, a, shape, lanes) &&
        TouchLanes(api, "src1", false, src1, b, shape, lanes) &&
        (!readsDst || TouchLanes(api, "dst", false, dst, d, shape, lanes)) &&
        TouchLanes(api, "dst", true, dst, d, shape, lanes)) {
        RunMasked(fn, d, a, b, shape, lanes);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_UNARY(NAME, OP, ...)                                                                        \
    template <class T>                                                                                       \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count)             \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        gaf_twin::UnaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr, count); \
    }                                                                                                        \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const U8 repeat,   \
                     const UnaryRepeatParams& p)                                                             \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                       \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr,        \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);           \
    }                                                                                                        \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const U8 repeat, \
                     const UnaryRepeatParams& p)                                                             \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                       \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, nullptr,        \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);           \
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

#define GAF_TWIN_BINARY(NAME, OP, READS_DST, ...)                                                          \
    template <class T>                                                                                     \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                     const int32_t& count)                                                                 \
    {                                                                                                      \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                  \
        gaf_twin::BinaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1, count, \
                             READS_DST);                                                                   \
    }                                                                                                      \
    template <class T, bool isSetMask = true>                                                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                     uint64_t mask, const U8 repeat, const BinaryRepeatParams& p)                          \
    {                                                                                                      \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                  \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                     \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1,       \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p,         \
                              READS_DST);                                                                  \
    }                                                                                                      \
    template <class T, bool isSetMask = true>                                                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                     uint64_t mask[], const U8 repeat, const BinaryRepeatParams& p)                        \
    {                                                                                                      \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                  \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                     \
        gaf_twin::BinaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src0, src1,       \
                              gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p,         \
                              READS_DST);                                                                  \
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
#define GAF_TWIN_SCALAR(NAME, OP, ...)                                                                       \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar,                  \
                     const int32_t& count)                                                                   \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        gaf_twin::UnaryFlat(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar, count); \
    }                                                                                                        \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask,   \
                     const U8 repeat, const UnaryRepeatParams& p)                                            \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                       \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar,        \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);           \
    }                                                                                                        \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask[], \
                     const U8 repeat, const UnaryRepeatParams& p)                                            \
    {                                                                                                        \
        static_assert(gaf_twin::OneOf<T, __VA_ARGS__>, #NAME ": A2 takes " #__VA_ARGS__);                    \
        constexpr uint32_t lanes = gaf_twin::LANES<T>;                                                       \
        gaf_twin::UnaryLanes(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &scalar,        \
                             gaf_twin::ShapeFor<isSetMask>(#NAME, mask, repeat, lanes), lanes, p);           \
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

}  // namespace AscendC

#endif  // GAF_TWIN_VECTOR_H
