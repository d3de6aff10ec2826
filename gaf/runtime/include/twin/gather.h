// SPDX-License-Identifier: Apache-2.0
// Gathers by repeats and blocks, GatherMask with a pattern tensor, transposes beside 16x16, the comparison
// register.
#ifndef GAF_TWIN_GATHER_H
#define GAF_TWIN_GATHER_H

#include "twin/forms.h"

namespace AscendC {

// ---- Gather with a mask and repeats; blocks ---------------------------------------------------------------
struct GatherRepeatParams {
    GatherRepeatParams() {}
    GatherRepeatParams(U8 dstBlk, U8 dstRep) : dstRepStride(static_cast<uint8_t>(dstRep)), dstBlkStride(dstBlk) {}
    uint32_t blockNumber = 8;
    U16 dstRepStride = 8;
    U8 dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, src0RepStride = 8, src1RepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false;
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void GatherLanes(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                        const AscendC::LocalTensor<uint32_t>& offset, uint32_t base, const Shape& s,
                        uint32_t dstRep)
{
    static_assert(OneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Gather: A2 takes 16-bit and 32-bit types");
    const uint32_t repeat = s.counter ? DivUp(s.count, LANES<T>) : s.repeat;
    if (repeat == 0) {
        return;
    }
    check::op(Pipe::V, "Gather", check::OP_NO_ALIAS);
    // Offsets of a repeat follow those of the one before, a word for every lane.
    const char* from = reinterpret_cast<const char*>(src.GetPhyAddr()) + base;
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t l = 0; l < LANES<T>; ++l) {
            if (!(s.counter ? r * LANES<T> + l < s.count
                            : ((l < 64 ? s.lo >> l : s.hi >> (l - 64)) & 1) != 0)) {
                continue;
            }
            const uint32_t* o = offset.GetPhyAddr() + r * LANES<T> + l;
            T* d = dst.GetPhyAddr() + uint64_t(r) * dstRep * BLK<T> + l;
            if (!check::access(Pipe::V, "Gather", "srcOffset", false, o, 4, 1, 0, 4, offset.View()) ||
                !check::access(Pipe::V, "Gather", "dst", true, d, sizeof(T), 1, 0, sizeof(T), dst.View()) ||
                !check::rule(*o % sizeof(T) == 0, "gather-offset", "Gather",
                             "offset %u is not a multiple of the element size", *o) ||
                !check::access(Pipe::V, "Gather", "src", false, from + *o, sizeof(T), 1, 0, sizeof(T),
                               src.View())) {
                return;
            }
            memcpy(d, from + *o, sizeof(T));
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint64_t mask, const U8 repeat, const U16 dstRep)
{
    gaf_twin::GatherLanes(dst, src, offset, base, gaf_twin::MaskShape("Gather", mask, repeat, gaf_twin::LANES<T>),
                          dstRep);
}
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint64_t mask[], const U8 repeat, const U16 dstRep)
{
    gaf_twin::GatherLanes(dst, src, offset, base, gaf_twin::BitShape("Gather", mask, repeat, gaf_twin::LANES<T>),
                          dstRep);
}

// Eight 32-byte blocks a repeat, each from its own byte offset.
template <class T>
inline void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const U8 repeat, const GatherRepeatParams& p)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gatherb: A2 takes 16-bit and 32-bit types");
    if (repeat == 0) {
        return;
    }
    using gaf_twin::Pipe;
    const uint32_t blk = p.dstBlkStride == 0 ? 1u : uint32_t(p.dstBlkStride);
    gaf_twin::check::op(Pipe::V, "Gatherb", gaf_twin::check::OP_NO_ALIAS);
    if (!gaf_twin::TouchFlat("Gatherb", "offset", false, offset, uint64_t(repeat) * 8) ||
        !gaf_twin::check::access(Pipe::V, "Gatherb", "dst", true, dst.GetPhyAddr(), 32, 8, int64_t(blk) * 32, 32,
                                 dst.View(), repeat, int64_t(p.dstRepStride) * 32)) {
        return;
    }
    const char* from = reinterpret_cast<const char*>(src.GetPhyAddr());
    char* to = reinterpret_cast<char*>(dst.GetPhyAddr());
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t b = 0; b < 8; ++b) {
            const uint32_t o = offset.GetPhyAddr()[r * 8 + b];
            if (!gaf_twin::check::rule(o % 32 == 0, "gather-offset", "Gatherb",
                                       "offset %u is not a multiple of 32", o) ||
                !gaf_twin::check::access(Pipe::V, "Gatherb", "src", false, from + o, 32, 1, 0, 32, src.View())) {
                return;
            }
            memcpy(to + (uint64_t(r) * p.dstRepStride + uint64_t(b) * blk) * 32, from + o, 32);
        }
    }
}

// Keeps the elements whose bit in the pattern tensor is set. Without counter mode every repeat takes 256
// bytes of src and its bits from src1RepeatStride blocks further on; in counter mode `mask` elements.
enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
template <class T, class U>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& p, uint64_t& kept)
{
    static_assert((sizeof(T) == 2 && gaf_twin::OneOf<U, uint16_t>) || (sizeof(T) == 4 && gaf_twin::OneOf<U, uint32_t>),
                  "GatherMask: 16-bit data with uint16_t bits, 32-bit data with uint32_t bits");
    using gaf_twin::Pipe;
    using gaf_twin::check::access;
    const uint32_t perRepeat = reduceMode ? mask : gaf_twin::LANES<T>;
    uint64_t n = 0;
    gaf_twin::check::op(Pipe::V, "GatherMask", gaf_twin::check::OP_MAY_OVERLAP);
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        const uint8_t* bits =
            reinterpret_cast<const uint8_t*>(pattern.GetPhyAddr()) + uint64_t(r) * p.src1RepeatStride * 32;
        if (!access(Pipe::V, "GatherMask", "src1Pattern", false, bits, gaf_twin::DivUp(perRepeat, 8), 1, 0, 0,
                    pattern.View())) {
            return;
        }
        for (uint32_t i = 0; i < perRepeat; ++i) {
            if ((bits[i / 8] >> (i % 8) & 1) == 0) {
                continue;
            }
            const T* s = src.GetPhyAddr() +
                         (uint64_t(r) * p.src0RepeatStride + uint64_t(i / gaf_twin::BLK<T>) * p.src0BlockStride) *
                             gaf_twin::BLK<T> +
                         i % gaf_twin::BLK<T>;
            T* d = dst.GetPhyAddr() + n;
            if (!access(Pipe::V, "GatherMask", "src0", false, s, sizeof(T), 1, 0, 0, src.View()) ||
                !access(Pipe::V, "GatherMask", "dst", true, d, sizeof(T), 1, 0, 0, dst.View())) {
                return;
            }
            *d = *s;
            ++n;
        }
    }
    kept = n;
    SetMaskNorm();
    ResetMask();
}

// ---- the comparison register ------------------------------------------------------------------------------
// One repeat of src0 and src1, its bits left in the register (for Select without a mask tensor).
template <class T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, const uint64_t mask,
                    const BinaryRepeatParams& p)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Compare: the register form takes half and float");
    const gaf_twin::Shape s = gaf_twin::ShapeFor<isSetMask>("Compare", mask, 1u, gaf_twin::LANES<T>);
    const gaf_twin::Lanes a = gaf_twin::LanesOf(src0, p.src0BlkStride, p.src0RepStride),
                          b = gaf_twin::LanesOf(src1, p.src1BlkStride, p.src1RepStride);
    gaf_twin::check::op(gaf_twin::Pipe::V, "Compare");
    if (!gaf_twin::TouchLanes("Compare", "src0", false, src0, a, s, gaf_twin::LANES<T>) ||
        !gaf_twin::TouchLanes("Compare", "src1", false, src1, b, s, gaf_twin::LANES<T>)) {
        return;
    }
    uint8_t* bits = gaf_twin::Current().compareMask;
    memset(bits, 0, 32);
    for (uint32_t k = 0; k < 8; ++k) {
        gaf_twin::rt::CompareBits<T>(bits + k * gaf_twin::BLK<T> / 8,
                                     src0.GetPhyAddr() + k * p.src0BlkStride * gaf_twin::BLK<T>,
                                     src1.GetPhyAddr() + k * p.src1BlkStride * gaf_twin::BLK<T>, false, mode,
                                     gaf_twin::BLK<T>);
    }
}
template <class T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, const uint64_t[],
                    const BinaryRepeatParams& p)
{
    Compare<T, isSetMask>(src0, src1, mode, uint64_t(gaf_twin::LANES<T>), p);
}
template <class T>
inline void GetCmpMask(const LocalTensor<T>& dst)
{
    const uint32_t bytes = 16;
    gaf_twin::check::op(gaf_twin::Pipe::V, "GetCmpMask");
    if (gaf_twin::check::access(gaf_twin::Pipe::V, "GetCmpMask", "dst", true, dst.GetPhyAddr(), bytes, 1, 0, 16,
                                dst.View())) {
        memcpy(dst.GetPhyAddr(), gaf_twin::Current().compareMask, bytes);
    }
}
template <class T>
inline void SetCmpMask(const LocalTensor<T>& src)
{
    const uint32_t bytes = 16;
    gaf_twin::check::op(gaf_twin::Pipe::V, "SetCmpMask");
    if (gaf_twin::check::access(gaf_twin::Pipe::V, "SetCmpMask", "src", false, src.GetPhyAddr(), bytes, 1, 0, 16,
                                src.View())) {
        memcpy(gaf_twin::Current().compareMask, src.GetPhyAddr(), bytes);
    }
}
// By the register: the same bits in every repeat.
template <class T, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, U8 repeat,
                   const BinaryRepeatParams& p)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Select: A2 takes half and float");
    const gaf_twin::Shape s = gaf_twin::RegisterShape(repeat, gaf_twin::LANES<T>);
    const uint32_t repeats = s.counter ? gaf_twin::DivUp(s.count, gaf_twin::LANES<T>) : s.repeat;
    const gaf_twin::Lanes d = gaf_twin::LanesOf(dst, p.dstBlkStride, p.dstRepStride),
                          a = gaf_twin::LanesOf(src0, p.src0BlkStride, p.src0RepStride),
                          b = gaf_twin::LanesOf(src1, p.src1BlkStride, p.src1RepStride);
    gaf_twin::check::op(gaf_twin::Pipe::V, "Select");
    if (!gaf_twin::TouchLanes("Select", "src0", false, src0, a, s, gaf_twin::LANES<T>) ||
        !gaf_twin::TouchLanes("Select", "src1", false, src1, b, s, gaf_twin::LANES<T>) ||
        !gaf_twin::TouchLanes("Select", "dst", true, dst, d, s, gaf_twin::LANES<T>)) {
        return;
    }
    const uint8_t* bits = gaf_twin::Current().compareMask;
    for (uint32_t r = 0; r < repeats; ++r) {
        for (uint32_t l = 0; l < gaf_twin::LANES<T>; ++l) {
            const bool active = s.counter ? r * gaf_twin::LANES<T> + l < s.count
                                          : ((l < 64 ? s.lo >> l : s.hi >> (l - 64)) & 1) != 0;
            if (!active) {
                continue;
            }
            const uint32_t k = l / gaf_twin::BLK<T>, e = l % gaf_twin::BLK<T>;
            const bool first = (bits[l / 8] >> (l % 8) & 1) != 0;
            const T* from = first ? src0.GetPhyAddr() + (r * p.src0RepStride + k * p.src0BlkStride) * gaf_twin::BLK<T>
                                  : src1.GetPhyAddr() + (r * p.src1RepStride + k * p.src1BlkStride) * gaf_twin::BLK<T>;
            dst.GetPhyAddr()[(r * p.dstRepStride + k * p.dstBlkStride) * gaf_twin::BLK<T> + e] = from[e];
        }
    }
}

// ---- transposes -------------------------------------------------------------------------------------------
template <class T>
inline void TransDataTo5HD(uint64_t dstList[16], uint64_t srcList[16], const TransDataTo5HDParams& p)
{
    LocalTensor<T> dst[16], src[16];
    for (int i = 0; i < 16; ++i) {  // addresses carry no size: the access check knows the buffer alone
        dst[i] = LocalTensor<T>(reinterpret_cast<T*>(dstList[i]), 0, TPosition::VECCALC, nullptr);
        src[i] = LocalTensor<T>(reinterpret_cast<T*>(srcList[i]), 0, TPosition::VECCALC, nullptr);
    }
    TransDataTo5HD<T>(dst, src, p);
}
// The addresses as a tensor of 16 words.
template <class T>
inline void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                           const TransDataTo5HDParams& p)
{
    const uint8_t* base = gaf_twin::Current().arena[static_cast<uint32_t>(Hardware::UB)];
    uint64_t dstList[16], srcList[16];
    for (int i = 0; i < 16; ++i) {
        const uint64_t d = dst.GetValue(static_cast<uint32_t>(i)), s = src.GetValue(static_cast<uint32_t>(i));
        dstList[i] = d < gaf_twin::UB_BYTES ? reinterpret_cast<uint64_t>(base) + d : d;
        srcList[i] = s < gaf_twin::UB_BYTES ? reinterpret_cast<uint64_t>(base) + s : s;
    }
    TransDataTo5HD<T>(dstList, srcList, p);
}

enum class TransposeType : uint8_t {
    TRANSPOSE_TYPE_NONE,
    TRANSPOSE_NZ2ND_0213,
    TRANSPOSE_NZ2NZ_0213,
    TRANSPOSE_NZ2NZ_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITHOUT_N,
    TRANSPOSE_NZ2NZ_012_WITHOUT_N,
    TRANSPOSE_ND2ND_ONLY,
    TRANSPOSE_ND_UB_GM,
    TRANSPOSE_GRAD_ND_UB_GM,
    TRANSPOSE_ND2ND_B16,
    TRANSPOSE_NCHW2NHWC,
    TRANSPOSE_NHWC2NCHW,
    TRANSPOSE_ND2ND_021,
    TRANSPOSE_ND2ND_102,
    TRANSPOSE_ND2ND_210,
    TRANSPOSE_ND2NZ_WITH_INTLV
};
struct TransposeParamsExt {
    constexpr TransposeParamsExt() {}
    constexpr TransposeParamsExt(uint16_t n, uint16_t c, uint16_t h, uint16_t w, TransposeType type)
        : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type)
    {
    }
    uint16_t nSize = 0, cSize = 0, hSize = 0, wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};
// [N, C, H, W] to [N, H, W, C] and back, or one 16x16 square.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                      const TransposeParamsExt& p)
{
    if (p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16) {
        if constexpr (sizeof(T) == 2) {
            Transpose(dst.template ReinterpretCast<uint16_t>(), src.template ReinterpretCast<uint16_t>());
        } else {
            gaf_twin::check::rule(false, "transpose-type", "Transpose", "TRANSPOSE_ND2ND_B16 is for 16-bit types");
        }
        return;
    }
    const bool toLast = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC;
    const uint64_t hw = uint64_t(p.hSize) * p.wSize, all = hw * p.cSize * p.nSize;
    gaf_twin::HighCall call("Transpose", gaf_twin::check::OP_NO_ALIAS);
    call.Rule(toLast || p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW, "transpose-type",
              "transposeType %d is not available on A2", static_cast<int>(p.transposeType))
        .Rule(hw * sizeof(T) % 32 == 0, "transpose-shape", "h * w = %llu elements is no multiple of 32 bytes",
              static_cast<unsigned long long>(hw))
        .Read("src", src, all)
        .Tmp(tmp, 0)
        .Write("dst", dst, all);
    if (!call.ok()) {
        return;
    }
    for (uint32_t n = 0; n < p.nSize; ++n) {
        for (uint32_t c = 0; c < p.cSize; ++c) {
            for (uint64_t i = 0; i < hw; ++i) {
                const uint64_t first = (uint64_t(n) * p.cSize + c) * hw + i, last = (uint64_t(n) * hw + i) * p.cSize + c;
                dst.GetPhyAddr()[toLast ? last : first] = src.GetPhyAddr()[toLast ? first : last];
            }
        }
    }
}

template <class T>
inline void Arange(const LocalTensor<T>& dst, const T first, const T step, const int32_t count)
{
    ArithProgression(dst, first, step, count);
}
template <class T, bool isSetMask = true>
inline void CreateVecIndex(LocalTensor<T>& dst, const T& first, uint64_t mask, U8 repeat, U16 dstBlk, U8 dstRep)
{
    static_assert(gaf_twin::OneOf<T, int16_t, half, int32_t, float>, "CreateVecIndex: int16, half, int32, float");
    const gaf_twin::Shape s = gaf_twin::MaskShape("CreateVecIndex", mask, repeat, gaf_twin::LANES<T>);
    const gaf_twin::Lanes d = gaf_twin::LanesOf(dst, dstBlk, dstRep);
    const uint32_t repeats = s.counter ? gaf_twin::DivUp(s.count, gaf_twin::LANES<T>) : s.repeat;
    gaf_twin::check::op(gaf_twin::Pipe::V, "CreateVecIndex");
    if (!gaf_twin::TouchLanes("CreateVecIndex", "dst", true, dst, d, s, gaf_twin::LANES<T>)) {
        return;
    }
    for (uint32_t r = 0; r < repeats; ++r) {
        for (uint32_t l = 0; l < gaf_twin::LANES<T>; ++l) {
            if (s.counter ? r * gaf_twin::LANES<T> + l < s.count
                          : ((l < 64 ? s.lo >> l : s.hi >> (l - 64)) & 1) != 0) {
                dst.GetPhyAddr()[(r * dstRep + l / gaf_twin::BLK<T> * dstBlk) * gaf_twin::BLK<T> +
                                 l % gaf_twin::BLK<T>] =
                    static_cast<T>(static_cast<double>(first) + r * gaf_twin::LANES<T> + l);
            }
        }
    }
}

}  // namespace AscendC

#endif  // GAF_TWIN_GATHER_H
