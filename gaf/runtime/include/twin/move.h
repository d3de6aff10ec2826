// SPDX-License-Identifier: Apache-2.0
// Vector instructions that convert and place elements: Cast, Duplicate, Copy, Brcb, Gather, indices.
#ifndef GAF_TWIN_MOVE_H
#define GAF_TWIN_MOVE_H

#include "twin/vector.h"

namespace gaf_twin {

// Rounding modes that A2 has for a pair, a bit per RoundMode; 0: the pair does not exist.
template <class D, class S>
constexpr uint32_t CastModes()
{
    constexpr uint32_t N = 1, R = 2, F = 4, C = 8, A = 16, Z = 32, O = 64, INT = R | F | C | A | Z;
    if (std::is_same<S, half>::value) {
        return OneOf<D, int8_t, uint8_t>    ? (INT | N)
               : OneOf<D, int16_t, int32_t> ? INT
               : OneOf<D, float>            ? N
                                            : 0;
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
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode,
                 const uint32_t count)
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
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode,
                 const uint64_t mask, const U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CheckCast<T1, T2>(mode);
    constexpr uint32_t lanes = 256 / (sizeof(T1) > sizeof(T2) ? sizeof(T1) : sizeof(T2));
    const float scale = gaf_twin::Current().deqScale;
    gaf_twin::UnaryLanes("Cast", gaf_twin::CastFn<T1, T2>(mode), dst, src, &scale,
                         gaf_twin::ShapeFor<isSetMask>("Cast", mask, repeat, lanes), lanes, p);
}
template <class T1, class T2, bool isSetMask = true>
inline void Cast(const LocalTensor<T1>& dst, const LocalTensor<T2>& src, const RoundMode& mode,
                 const uint64_t mask[], const U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CheckCast<T1, T2>(mode);
    constexpr uint32_t lanes = 256 / (sizeof(T1) > sizeof(T2) ? sizeof(T1) : sizeof(T2));
    const float scale = gaf_twin::Current().deqScale;
    gaf_twin::UnaryLanes("Cast", gaf_twin::CastFn<T1, T2>(mode), dst, src, &scale,
                         gaf_twin::ShapeFor<isSetMask>("Cast", mask, repeat, lanes), lanes, p);
}
inline void SetDeqScale(half scale) { gaf_twin::Current().deqScale = scale; }

// ---- Duplicate, indices, Copy, Brcb, Gather ---------------------------------------------------------------

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
inline void DuplicateLanes(const AscendC::LocalTensor<T>& dst, T value, const Shape& shape, uint32_t blk,
                           uint32_t rep)
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
    const Lanes d = LanesOf(dst, p.dstStride, p.dstRepeatSize),
                s = LanesOf(src, p.srcStride, p.srcRepeatSize);
    check::op(Pipe::V, "Copy");
    CheckRepeats("Copy", "src", d, s, shape, LANES<T>, false);
    if (TouchLanes("Copy", "src", false, src, s, shape, LANES<T>) &&
        TouchLanes("Copy", "dst", true, dst, d, shape, LANES<T>)) {
        RunMasked(&MoveRun<T>, d, s, Lanes{}, shape, LANES<T>);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_DUPLICATE_TYPES(T)                                                                  \
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>, \
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
    gaf_twin::DuplicateLanes(dst, value,
                             gaf_twin::ShapeFor<isSetMask>("Duplicate", mask, repeat, gaf_twin::LANES<T>),
                             dstBlk, dstRep);
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask[], const U8 repeat,
                      const U16 dstBlk, const U8 dstRep)
{
    GAF_TWIN_DUPLICATE_TYPES(T);
    gaf_twin::DuplicateLanes(dst, value,
                             gaf_twin::ShapeFor<isSetMask>("Duplicate", mask, repeat, gaf_twin::LANES<T>),
                             dstBlk, dstRep);
}
#undef GAF_TWIN_DUPLICATE_TYPES

template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const U8 repeat,
                 const CopyRepeatParams& p)
{
    gaf_twin::CopyLanes(dst, src, gaf_twin::ShapeFor<isSetMask>("Copy", mask, repeat, gaf_twin::LANES<T>),
                        repeat, p);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const U8 repeat,
                 const CopyRepeatParams& p)
{
    gaf_twin::CopyLanes(dst, src, gaf_twin::ShapeFor<isSetMask>("Copy", mask, repeat, gaf_twin::LANES<T>),
                        repeat, p);
}

template <class T>
inline void CreateVecIndex(LocalTensor<T> dst, const T& first, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, int16_t, half, int32_t, float>,
                  "CreateVecIndex: A2 takes int16, half, int32, float");
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
    static_assert(gaf_twin::OneOf<T, int16_t, half, int32_t, float>,
                  "ArithProgression: int16, half, int32, float");
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
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const U8 repeat,
                 const BrcbRepeatParams& p)
{
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Brcb: A2 takes 16-bit and 32-bit types");
    if (repeat == 0) {
        return;
    }
    using gaf_twin::Pipe;
    gaf_twin::check::op(Pipe::V, "Brcb", gaf_twin::check::OP_NO_ALIAS);
    if (!gaf_twin::TouchFlat("Brcb", "src", false, src, uint64_t(repeat) * 8) ||
        !gaf_twin::check::access(Pipe::V, "Brcb", "dst", true, dst.GetPhyAddr(), 32, 8,
                                 int64_t(p.dstBlkStride) * 32, 32, dst.View(), repeat,
                                 int64_t(p.dstRepStride) * 32)) {
        return;
    }
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t i = 0; i < 8; ++i) {
            T* d = dst.GetPhyAddr() +
                   (uint64_t(r) * p.dstRepStride + uint64_t(i) * p.dstBlkStride) * gaf_twin::BLK<T>;
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

}  // namespace AscendC

#endif  // GAF_TWIN_MOVE_H
