// SPDX-License-Identifier: Apache-2.0
// Compare into bit masks and Select by them.
#ifndef GAF_TWIN_SELECT_H
#define GAF_TWIN_SELECT_H

#include "twin/vector.h"

namespace gaf_twin {

template <class T>
inline void CompareCount(const char* api, void* bits, check::View view, const AscendC::LocalTensor<T>& a,
                         const void* b, const AscendC::LocalTensor<T>* bTensor, AscendC::CMPMODE mode,
                         uint32_t count)
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
    if (TouchFlat(api, "src0", false, a, n) &&
        (bTensor == nullptr || TouchFlat(api, "src1", false, *bTensor, n)) &&
        check::access(Pipe::V, api, "dst", true, bits, n / 8, 1, 0, 32, view)) {
        rt::CompareBits<T>(static_cast<uint8_t*>(bits), a.GetPhyAddr(), b, bTensor == nullptr, mode, n);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                    CMPMODE mode, uint32_t count)
{
    static_assert(gaf_twin::OneOf<U, uint8_t, int8_t>, "Compare: dst is uint8_t or int8_t");
    gaf_twin::CompareCount("Compare", dst.GetPhyAddr(), dst.View(), src0, src1.GetPhyAddr(), &src1, mode,
                           count);
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
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                     uint32_t count)
{
    CompareScalar(dst, src0, scalar, mode, count);
}

}  // namespace AscendC

namespace gaf_twin {

// The repeat forms write whole repeats, one after the other, to dst (mask bits are ignored on A2).
template <class T, class U>
inline void CompareRepeat(const char* api, const AscendC::LocalTensor<U>& dst,
                          const AscendC::LocalTensor<T>& a, const void* b,
                          const AscendC::LocalTensor<T>* bTensor, AscendC::CMPMODE mode, uint32_t repeat,
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
            const T* pb =
                static_cast<const T*>(b) + (bTensor == nullptr ? 0 : (r * bRep + k * bBlk) * BLK<T>);
            rt::CompareBits<T>(out + (r * 8 + k) * BLK<T> / 8, pa, pb, bTensor == nullptr, mode, BLK<T>);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                    CMPMODE mode, const uint64_t, U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("Compare", dst, src0, src1.GetPhyAddr(), &src1, mode, repeat, p.src0BlkStride,
                            p.src0RepStride, p.src1BlkStride, p.src1RepStride);
}
template <class T, class U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                    CMPMODE mode, const uint64_t[], U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("Compare", dst, src0, src1.GetPhyAddr(), &src1, mode, repeat, p.src0BlkStride,
                            p.src0RepStride, p.src1BlkStride, p.src1RepStride);
}
template <class T, class U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                          const uint64_t, U8 repeat, const UnaryRepeatParams& p)
{
    gaf_twin::CompareRepeat("CompareScalar", dst, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr),
                            mode, repeat, p.srcBlkStride, p.srcRepStride, 0, 0);
}

}  // namespace AscendC

namespace gaf_twin {

template <class T, class U>
inline void SelectCount(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& mask,
                        const AscendC::LocalTensor<T>& a, const void* b,
                        const AscendC::LocalTensor<T>* bTensor, AscendC::SELMODE mode, uint32_t count)
{
    static_assert(OneOf<T, half, float>, "Select: A2 takes half and float");
    using M = AscendC::SELMODE;
    check::rule(mode == (bTensor == nullptr ? M::VSEL_TENSOR_SCALAR_MODE : M::VSEL_TENSOR_TENSOR_MODE) ||
                    (bTensor != nullptr && mode == M::VSEL_CMPMASK_SPR),
                "select-mode", "Select", "selection mode %d does not fit the operands",
                static_cast<int>(mode));
    if (count == 0) {
        return;
    }
    const bool same = mode == M::VSEL_CMPMASK_SPR;  // every repeat reads the same bits
    check::op(Pipe::V, "Select");
    if (!same) {
        check::reservedUb("Select");
    }
    const uint64_t maskBytes = same ? LANES<T> / 8 : DivUp(count, 8);
    if (!check::access(Pipe::V, "Select", "selMask", false, mask.GetPhyAddr(), maskBytes, 1, 0, 32,
                       mask.View()) ||
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
                         const AscendC::LocalTensor<T>& a, const void* b,
                         const AscendC::LocalTensor<T>* bTensor, AscendC::SELMODE mode, const Shape& shape,
                         const AscendC::BinaryRepeatParams& p)
{
    static_assert(OneOf<T, half, float>, "Select: A2 takes half and float");
    const bool same = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR;
    const uint32_t repeat = shape.counter ? DivUp(shape.count, LANES<T>) : shape.repeat;
    if (repeat == 0) {
        return;
    }
    const Lanes d = LanesOf(dst, p.dstBlkStride, p.dstRepStride),
                la = LanesOf(a, p.src0BlkStride, p.src0RepStride);
    check::op(Pipe::V, "Select");
    if (!same) {
        check::reservedUb("Select");
    }
    if (!check::access(Pipe::V, "Select", "selMask", false, mask.GetPhyAddr(),
                       uint64_t(same ? 1 : repeat) * LANES<T> / 8, 1, 0, 32, mask.View()) ||
        !TouchLanes("Select", "src0", false, a, la, shape, LANES<T>) ||
        (bTensor != nullptr &&
         !TouchLanes("Select", "src1", false, *bTensor, LanesOf(*bTensor, p.src1BlkStride, p.src1RepStride),
                     shape, LANES<T>)) ||
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
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0,
                   T scalar, SELMODE mode, uint32_t count)
{
    gaf_twin::SelectCount(dst, mask, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode, count);
}
template <class T, class U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint64_t mask, U8 repeat,
                   const BinaryRepeatParams& p)
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
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   T scalar, SELMODE mode, uint64_t mask, U8 repeat, const BinaryRepeatParams& p)
{
    gaf_twin::SelectRepeat(dst, selMask, src0, &scalar, static_cast<const LocalTensor<T>*>(nullptr), mode,
                           gaf_twin::ShapeFor<isSetMask>("Select", mask, repeat, gaf_twin::LANES<T>), p);
}

}  // namespace AscendC

#endif  // GAF_TWIN_SELECT_H
