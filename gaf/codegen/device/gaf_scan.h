// SPDX-License-Identifier: Apache-2.0
// Running folds of tiles on the vector core, chunk by chunk: every function continues from a carried state.
#ifndef GAF_SCAN_H
#define GAF_SCAN_H

#include "gaf_vector.h"

namespace gaf {

// Floats of `tmp` of ScanLanes: rows with a block in front, offsets of a gather, and columns.
__aicore__ constexpr uint32_t ScanLanesTmp(uint32_t rows, uint32_t lanes)
{
    return rows * (RoundUp(lanes, 8) + 8) + Max(RoundUp(lanes, 8), RoundUp(rows, 8)) + 9 * RoundUp(rows, 8);
}

}  // namespace gaf

#if defined(GAF_TWIN) && GAF_TWIN == 1

namespace gaf {

// Pad lanes hold the last element.
template <Mon M, bool EXCLUSIVE>
__aicore__ inline void ScanLanes(const LocalTensor<float>& dst, const LocalTensor<float>& carry,
                                 const LocalTensor<float>& src, const LocalTensor<float>&, uint32_t rows, uint32_t lanes)
{
    gaf_twin::rt::ScanLanes(dst.GetPhyAddr(), carry.GetPhyAddr(), src.GetPhyAddr(), rows, lanes, PitchOf<float>(lanes),
                            static_cast<int>(M), EXCLUSIVE);
}
template <Mon M, bool EXCLUSIVE>
__aicore__ inline void ScanRows(const LocalTensor<float>& dst, const LocalTensor<float>& carry,
                                const LocalTensor<float>& src, uint32_t rows, uint32_t lanes)
{
    gaf_twin::rt::ScanRows(dst.GetPhyAddr(), carry.GetPhyAddr(), src.GetPhyAddr(), rows, PitchOf<float>(lanes),
                           static_cast<int>(M), EXCLUSIVE);
}

}  // namespace gaf

#else

namespace gaf {

// dst = a op b; dst may be a.
template <Mon M>
__aicore__ inline void FoldTwo(const LocalTensor<float>& dst, const LocalTensor<float>& a, const LocalTensor<float>& b,
                               uint32_t count)
{
    const int32_t n = static_cast<int32_t>(count);
    if constexpr (M == Mon::SUM) {
        Add(dst, a, b, n);
    } else if constexpr (M == Mon::PROD) {
        Mul(dst, a, b, n);
    } else if constexpr (M == Mon::MAX) {
        Max(dst, a, b, n);
    } else {
        Min(dst, a, b, n);
    }
}
template <Mon M>
__aicore__ constexpr float Identity()
{
    return M == Mon::SUM ? 0.0f : M == Mon::PROD ? 1.0f : M == Mon::MAX ? -__builtin_inff() : __builtin_inff();
}
template <Mon M>
constexpr Bop BOP_OF = M == Mon::SUM ? Bop::ADD : M == Mon::PROD ? Bop::MUL : M == Mon::MAX ? Bop::MAX : Bop::MIN;

// Bit for bit.
__aicore__ inline void CopyFloats(const LocalTensor<float>& dst, const LocalTensor<float>& src, uint32_t count)
{
    Adds(dst.ReinterpretCast<int32_t>(), src.ReinterpretCast<int32_t>(), static_cast<int32_t>(0),
         static_cast<int32_t>(count));
}

// offsets = bytes of the elements max(first + i, least).
__aicore__ inline void ElementOffsets(const LocalTensor<int32_t>& offsets, int32_t first, int32_t least, uint32_t count)
{
    AscendC::CreateVecIndex(offsets, first, count);
    PipeBarrier<PIPE_V>();
    Maxs(offsets, offsets, least, static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
    Muls(offsets, offsets, static_cast<int32_t>(sizeof(float)), static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
}

// dst[r, c] = carry[r] op src[r, 0] op .. op src[r, c] (EXCLUSIVE: up to c - 1); carry[r] becomes the fold of the whole
// row. In steps of doubled distance; lanes below a distance meet a block of identities in front of the row.
// tmp: ScanLanesTmp(rows, lanes).
template <Mon M, bool EXCLUSIVE>
__aicore__ inline void ScanLanes(const LocalTensor<float>& dst, const LocalTensor<float>& carry,
                                 const LocalTensor<float>& src, const LocalTensor<float>& tmp, uint32_t rows,
                                 uint32_t lanes)
{
    constexpr uint32_t FRONT = BLOCK<float>;
    const uint32_t pitch = PitchOf<float>(lanes), wide = pitch + FRONT, column = RoundUp(rows, 8);
    const LocalTensor<float> totals = tmp[rows * wide + Max(pitch, column)], spread = totals[column];
    const LocalTensor<int32_t> index = tmp[rows * wide].ReinterpretCast<int32_t>();
    const LocalTensor<uint32_t> offsets = index.ReinterpretCast<uint32_t>();
    Duplicate(tmp, Identity<M>(), static_cast<int32_t>(rows * wide));
    PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < rows; ++r) {
        CopyFloats(tmp[r * wide + FRONT], src[r * pitch], lanes);
    }
    PipeBarrier<PIPE_V>();
    for (uint32_t distance = 1; distance < lanes; distance *= 2) {
        ElementOffsets(index, static_cast<int32_t>(FRONT) - static_cast<int32_t>(distance),
                       static_cast<int32_t>(FRONT - 1), pitch);
        for (uint32_t r = 0; r < rows; ++r) {
            Gather(dst[r * pitch], tmp, offsets, static_cast<uint32_t>(r * wide * sizeof(float)), pitch);
        }
        PipeBarrier<PIPE_V>();
        for (uint32_t r = 0; r < rows; ++r) {
            FoldTwo<M>(tmp[r * wide + FRONT], tmp[r * wide + FRONT], dst[r * pitch], pitch);
        }
        PipeBarrier<PIPE_V>();
    }
    AscendC::CreateVecIndex(index, static_cast<int32_t>(0), column);
    PipeBarrier<PIPE_V>();
    Mins(index, index, static_cast<int32_t>(rows - 1), static_cast<int32_t>(column));
    PipeBarrier<PIPE_V>();
    Muls(index, index, static_cast<int32_t>(wide * sizeof(float)), static_cast<int32_t>(column));
    PipeBarrier<PIPE_V>();
    Gather(totals, tmp, offsets, static_cast<uint32_t>((FRONT + lanes - 1) * sizeof(float)), column);
    PipeBarrier<PIPE_V>();
    if constexpr (EXCLUSIVE) {
        ElementOffsets(index, static_cast<int32_t>(FRONT - 1), static_cast<int32_t>(0), pitch);
        for (uint32_t r = 0; r < rows; ++r) {
            Gather(dst[r * pitch], tmp, offsets, static_cast<uint32_t>(r * wide * sizeof(float)), pitch);
        }
    } else {
        for (uint32_t r = 0; r < rows; ++r) {
            CopyFloats(dst[r * pitch], tmp[r * wide + FRONT], pitch);
        }
    }
    PipeBarrier<PIPE_V>();
    BinaryCol<BOP_OF<M>>(dst, dst, carry, spread, rows, lanes);
    PipeBarrier<PIPE_V>();
    FoldTwo<M>(carry, carry, totals, rows);
    PipeBarrier<PIPE_V>();
}

// dst[r, c] = carry[c] op src[0, c] op .. op src[r, c] (EXCLUSIVE: up to r - 1); carry[c] becomes the fold of the
// whole column.
template <Mon M, bool EXCLUSIVE>
__aicore__ inline void ScanRows(const LocalTensor<float>& dst, const LocalTensor<float>& carry,
                                const LocalTensor<float>& src, uint32_t rows, uint32_t lanes)
{
    const uint32_t pitch = PitchOf<float>(lanes);
    for (uint32_t r = 0; r < rows; ++r) {
        if constexpr (EXCLUSIVE) {
            CopyFloats(dst[r * pitch], carry, pitch);
            PipeBarrier<PIPE_V>();
            FoldTwo<M>(carry, carry, src[r * pitch], pitch);
        } else {
            FoldTwo<M>(dst[r * pitch], r == 0 ? carry : dst[(r - 1) * pitch], src[r * pitch], pitch);
        }
        PipeBarrier<PIPE_V>();
    }
    if constexpr (!EXCLUSIVE) {
        CopyFloats(carry, dst[(rows - 1) * pitch], pitch);
        PipeBarrier<PIPE_V>();
    }
}

}  // namespace gaf

#endif  // GAF_TWIN == 1
#endif  // GAF_SCAN_H
