// SPDX-License-Identifier: Apache-2.0
// The first elements of rows in order, on the vector core: chunks are sorted and merged with the elements so far.
#ifndef GAF_SORT_H
#define GAF_SORT_H

#include "gaf_vector.h"

namespace gaf {

// Elements that Sort32 sorts at a time, and lists that MrgSort merges.
constexpr uint32_t SORTED = 32, LISTS = 4;

// Floats of `tmp` of RankTile for chunks of up to `lanes` elements of rows of which `kept` stay: keys, places, two
// lists of pairs, a merged list, and room to begin at a multiple of 256 bytes.
__aicore__ constexpr uint32_t RankTileTmp(uint32_t lanes, uint32_t kept)
{
    return 64 + 6 * RoundUp(lanes, SORTED) + 2 * (kept + Min(kept, lanes)) + 8;
}

}  // namespace gaf

#if defined(GAF_TWIN) && GAF_TWIN == 1

namespace gaf {

template <bool LARGEST>
__aicore__ inline void RankTile(const LocalTensor<float>& state, const LocalTensor<float>& src,
                                const LocalTensor<float>&, uint32_t rows, uint32_t lanes, uint32_t kept, uint32_t first)
{
    gaf_twin::rt::RankRows(state.GetPhyAddr(), src.GetPhyAddr(), rows, lanes, PitchOf<float>(lanes), kept,
                           PitchOf<float>(2 * kept), first, LARGEST);
}
template <bool LARGEST>
__aicore__ inline void RankValues(const LocalTensor<float>& dst, const LocalTensor<float>& state,
                                  const LocalTensor<int32_t>&, uint32_t rows, uint32_t kept)
{
    gaf_twin::rt::RankedValues(dst.GetPhyAddr(), state.GetPhyAddr(), rows, kept, PitchOf<float>(kept),
                               PitchOf<float>(2 * kept), LARGEST);
}
__aicore__ inline void RankPlaces(const LocalTensor<int32_t>& dst, const LocalTensor<float>& state, uint32_t rows,
                                  uint32_t kept)
{
    gaf_twin::rt::RankedPlaces(dst.GetPhyAddr(), state.GetPhyAddr(), rows, kept, PitchOf<float>(kept),
                               PitchOf<float>(2 * kept));
}

}  // namespace gaf

#else

#if defined(GAF_TWIN)
#include "twin/sort.h"  // what the twin's lean form of kernel_operator.h leaves out
#endif

namespace gaf {

constexpr int32_t INFINITY_BITS = 0x7F800000;

// steps = 1 where bits > 0, else 0.
__aicore__ inline void PositiveSteps(const LocalTensor<int32_t>& steps, const LocalTensor<int32_t>& bits, int32_t n)
{
    Mins(steps, bits, static_cast<int32_t>(1), n);
    PipeBarrier<PIPE_V>();
    Maxs(steps, steps, static_cast<int32_t>(0), n);
    PipeBarrier<PIPE_V>();
}

// keys whose descending order is that of src, with NaN as the largest number: NaN becomes infinity, and positive
// numbers the next smaller ones to make room for it. Nothing depends on how NaN compares. FromKeys undoes it.
template <bool LARGEST>
__aicore__ inline void ToKeys(const LocalTensor<float>& keys, const LocalTensor<float>& src,
                              const LocalTensor<int32_t>& t, const LocalTensor<int32_t>& u, int32_t n)
{
    const LocalTensor<int32_t> bits = src.ReinterpretCast<int32_t>(), key = keys.ReinterpretCast<int32_t>();
    PositiveSteps(t, bits, n);
    Sub(key, bits, t, n);
    PipeBarrier<PIPE_V>();
    Mins(key, key, INFINITY_BITS, n);  // NaN with the sign bit clear
    Mins(t, bits, static_cast<int32_t>(0), n);
    PipeBarrier<PIPE_V>();
    Maxs(u, t, static_cast<int32_t>(-1), n);  // -1 for numbers with the sign bit set
    PipeBarrier<PIPE_V>();
    Maxs(t, t, static_cast<int32_t>(-0x800000), n);
    PipeBarrier<PIPE_V>();
    Adds(t, t, static_cast<int32_t>(0x800000), n);  // > 0 beyond -infinity: NaN, and numbers with the sign bit clear
    PipeBarrier<PIPE_V>();
    Mins(t, t, static_cast<int32_t>(1), n);
    PipeBarrier<PIPE_V>();
    Mul(u, u, t, n);  // -1 for NaN with the sign bit set
    PipeBarrier<PIPE_V>();
    Maxs(t, bits, static_cast<int32_t>(-0x7FFFFF), n);
    PipeBarrier<PIPE_V>();
    Mins(t, t, static_cast<int32_t>(0), n);
    PipeBarrier<PIPE_V>();
    Adds(t, t, -INFINITY_BITS, n);
    PipeBarrier<PIPE_V>();
    Mul(t, t, u, n);
    PipeBarrier<PIPE_V>();
    Add(key, key, t, n);
    PipeBarrier<PIPE_V>();
    if constexpr (!LARGEST) {
        Muls(keys, keys, -1.0f, n);
        PipeBarrier<PIPE_V>();
    }
}
template <bool LARGEST>
__aicore__ inline void FromKeys(const LocalTensor<float>& keys, const LocalTensor<int32_t>& t, int32_t n)
{
    const LocalTensor<int32_t> bits = keys.ReinterpretCast<int32_t>();
    if constexpr (!LARGEST) {
        Muls(keys, keys, -1.0f, n);
        PipeBarrier<PIPE_V>();
    }
    PositiveSteps(t, bits, n);
    Add(bits, bits, t, n);
    PipeBarrier<PIPE_V>();
}

// n pairs, bit for bit.
__aicore__ inline void CopyPairs(const LocalTensor<float>& dst, const LocalTensor<float>& src, uint32_t n)
{
    Adds(dst.ReinterpretCast<int32_t>(), src.ReinterpretCast<int32_t>(), static_cast<int32_t>(0),
         static_cast<int32_t>(2 * n));
    PipeBarrier<PIPE_V>();
}

// Up to four sorted lists of `length` pairs, the last of which may be shorter, `total` pairs in all, become one;
// `times` groups of four full lists behind each other.
__aicore__ inline void MergeLists(const LocalTensor<float>& dst, const LocalTensor<float>& src, uint32_t length,
                                  uint32_t total, uint32_t times)
{
    const uint32_t lists = DivUp(total, length);
    if (lists == 1) {
        CopyPairs(dst, src, total);
        return;
    }
    uint16_t lengths[LISTS] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < lists; ++i) {
        lengths[i] = static_cast<uint16_t>(Min(length, total - i * length));
    }
    const uint32_t step = 2 * length;
    AscendC::MrgSortSrcList<float> from(src, src[step], src[lists > 2 ? 2 * step : 0], src[lists > 3 ? 3 * step : 0]);
    AscendC::MrgSort4Info info(lengths, false, static_cast<uint16_t>((1 << lists) - 1), static_cast<uint16_t>(times));
    AscendC::MrgSort(dst, from, info);
    PipeBarrier<PIPE_V>();
}

// Joins the lanes of src, elements `first`, first + 1, ... of every row, to `state`: Min(first, kept) pairs (key,
// place) in order, which become Min(first + lanes, kept). Of equal elements the first one comes first; NaN counts as
// the largest number. kept <= 4095; lanes <= 4096. tmp: RankTileTmp(lanes, kept) floats.
template <bool LARGEST>
__aicore__ inline void RankTile(const LocalTensor<float>& state, const LocalTensor<float>& src,
                                const LocalTensor<float>& tmp, uint32_t rows, uint32_t lanes, uint32_t kept,
                                uint32_t first)
{
    const uint32_t padded = RoundUp(lanes, SORTED), seen = Min(first, kept), taken = Min(lanes, kept);
    const uint32_t inside = static_cast<uint32_t>(reinterpret_cast<uint64_t>(tmp.GetPhyAddr()) % REPEAT_BYTES);
    const uint32_t begin = (REPEAT_BYTES - inside) % REPEAT_BYTES / sizeof(float);
    const LocalTensor<float> keys = tmp[begin], merged = tmp[begin + 6 * padded];
    const LocalTensor<int32_t> places = tmp[begin + padded].ReinterpretCast<int32_t>();
    AscendC::CreateVecIndex(places, static_cast<int32_t>(first), padded);
    PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < rows; ++r) {
        LocalTensor<float> sorted = tmp[begin + 2 * padded], other = tmp[begin + 4 * padded];
        if (padded > lanes) {  // padding is behind every element, as it comes last among equals
            Duplicate(keys[padded - SORTED], -__builtin_inff(), static_cast<int32_t>(SORTED));
            PipeBarrier<PIPE_V>();
        }
        ToKeys<LARGEST>(keys, src[r * PitchOf<float>(lanes)], sorted.ReinterpretCast<int32_t>(),
                        other.ReinterpretCast<int32_t>(), static_cast<int32_t>(lanes));
        AscendC::Sort32(sorted, keys, places.ReinterpretCast<uint32_t>(), static_cast<int32_t>(padded / SORTED));
        PipeBarrier<PIPE_V>();
        for (uint32_t length = SORTED; length < padded; length *= LISTS) {
            const uint32_t group = LISTS * length, groups = padded / group, rest = padded % group;
            if (groups > 0) {
                MergeLists(other, sorted, length, group, groups);
            }
            if (rest > 0) {
                MergeLists(other[2 * groups * group], sorted[2 * groups * group], length, rest, 1);
            }
            const LocalTensor<float> merging = sorted;
            sorted = other;
            other = merging;
        }
        const LocalTensor<float> row = state[r * PitchOf<float>(2 * kept)];
        if (seen == 0) {
            CopyPairs(row, sorted, taken);
            continue;
        }
        const uint16_t lengths[LISTS] = {static_cast<uint16_t>(seen), static_cast<uint16_t>(taken), 0, 0};
        AscendC::MrgSortSrcList<float> from(row, sorted, row, row);
        AscendC::MrgSort(merged, from, AscendC::MrgSort4Info(lengths, false, 3, 1));
        PipeBarrier<PIPE_V>();
        CopyPairs(row, merged, Min(seen + taken, kept));
    }
}

// Every second word of the rows of a state, from word `half` on.
__aicore__ inline void PairHalves(const LocalTensor<uint32_t>& dst, const LocalTensor<uint32_t>& state, uint32_t rows,
                                  uint32_t kept, uint8_t half)
{
    const uint32_t pitch = PitchOf<float>(kept), statePitch = PitchOf<float>(2 * kept);
    Duplicate(dst.ReinterpretCast<int32_t>(), static_cast<int32_t>(0), static_cast<int32_t>(rows * pitch));
    PipeBarrier<PIPE_V>();
    uint64_t count = 0;
    for (uint32_t r = 0; r < rows; ++r) {
        AscendC::GatherMask(dst[r * pitch], state[r * statePitch], static_cast<uint8_t>(1 + half), true, 2 * kept,
                            AscendC::GatherMaskParams{1, 1, 0, 0}, count);
    }
    PipeBarrier<PIPE_V>();
}

// The `kept` elements of the rows of a complete state in order. tmp: as many int32 as dst.
template <bool LARGEST>
__aicore__ inline void RankValues(const LocalTensor<float>& dst, const LocalTensor<float>& state,
                                  const LocalTensor<int32_t>& tmp, uint32_t rows, uint32_t kept)
{
    PairHalves(dst.ReinterpretCast<uint32_t>(), state.ReinterpretCast<uint32_t>(), rows, kept, 0);
    FromKeys<LARGEST>(dst, tmp, static_cast<int32_t>(rows * PitchOf<float>(kept)));
}

// Where they stood.
__aicore__ inline void RankPlaces(const LocalTensor<int32_t>& dst, const LocalTensor<float>& state, uint32_t rows,
                                  uint32_t kept)
{
    PairHalves(dst.ReinterpretCast<uint32_t>(), state.ReinterpretCast<uint32_t>(), rows, kept, 1);
}

}  // namespace gaf

#endif  // GAF_TWIN == 1
#endif  // GAF_SORT_H
