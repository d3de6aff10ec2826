// SPDX-License-Identifier: Apache-2.0
// Sorting: Sort32, MrgSort, Sort, Concat, Extract, TopK. A list is made of 8-byte pairs (score, index).
#ifndef GAF_TWIN_SORT_H
#define GAF_TWIN_SORT_H

#include "twin/gather.h"
#include "twin/tiling_data.h"

namespace gaf_twin {

// (score, index): float score in bytes 0..3, half score in bytes 0..1; index in bytes 4..7.
template <class T>
struct Pair {
    T score;
    uint32_t index;
};
template <class T>
inline Pair<T> LoadPair(const void* p, uint64_t i)
{
    Pair<T> pair;
    memcpy(&pair.score, static_cast<const uint8_t*>(p) + i * 8, sizeof(T));
    memcpy(&pair.index, static_cast<const uint8_t*>(p) + i * 8 + 4, 4);
    return pair;
}
template <class T>
inline void StorePair(void* p, uint64_t i, const Pair<T>& pair)
{
    uint8_t* d = static_cast<uint8_t*>(p) + i * 8;
    memset(d, 0, 8);
    memcpy(d, &pair.score, sizeof(T));
    memcpy(d + 4, &pair.index, 4);
}
// Descending; NaN comes first.
template <class T>
inline bool Before(T a, T b)
{
    const float x = static_cast<float>(a), y = static_cast<float>(b);
    return x != x ? y == y : x > y;
}
// Stable merge sort of n pairs, `spare` has room for as many.
template <class T>
inline void SortPairs(Pair<T>* p, Pair<T>* spare, uint32_t n)
{
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t from = 0; from < n; from += 2 * width) {
            const uint32_t mid = from + width < n ? from + width : n, end = from + 2 * width < n ? from + 2 * width : n;
            uint32_t i = from, j = mid, k = from;
            while (i < mid || j < end) {
                spare[k++] = j >= end || (i < mid && !Before(p[j].score, p[i].score)) ? p[i++] : p[j++];
            }
        }
        memcpy(p, spare, n * sizeof(Pair<T>));
    }
}

}  // namespace gaf_twin

namespace AscendC {

// 32 scores with their indices become 32 pairs in descending order, a repeat each.
template <class T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
                   const int32_t repeat)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Sort32: A2 takes half and float");
    if (repeat <= 0) {
        return;
    }
    using gaf_twin::Pipe;
    gaf_twin::check::rule(repeat <= 255, "repeat", "Sort32", "repeat %d is not in 0..255", repeat);
    gaf_twin::check::op(Pipe::V, "Sort32", gaf_twin::check::OP_NO_ALIAS);
    const uint64_t n = uint64_t(repeat) * 32;
    if (!gaf_twin::TouchFlat("Sort32", "src0", false, src0, n) ||
        !gaf_twin::TouchFlat("Sort32", "src1", false, src1, n) ||
        !gaf_twin::check::access(Pipe::V, "Sort32", "dst", true, dst.GetPhyAddr(), n * 8, 1, 0, 32, dst.View())) {
        return;
    }
    for (int32_t r = 0; r < repeat; ++r) {
        gaf_twin::Pair<T> row[32], spare[32];
        for (uint32_t i = 0; i < 32; ++i) {
            row[i] = {src0.GetPhyAddr()[r * 32 + i], src1.GetPhyAddr()[r * 32 + i]};
        }
        gaf_twin::SortPairs(row, spare, 32);
        for (uint32_t i = 0; i < 32; ++i) {
            gaf_twin::StorePair(dst.GetPhyAddr(), uint64_t(r) * 32 + i, row[i]);
        }
    }
}

struct MrgSort4Info {
    MrgSort4Info() {}
    MrgSort4Info(const uint16_t lengths[4], bool suspend, U16 bits, U16 repeats)
        : ifExhaustedSuspension(suspend), validBit(bits), repeatTimes(static_cast<uint8_t>(repeats))
    {
        for (int i = 0; i < 4; ++i) {
            elementLengths[i] = lengths[i];
        }
    }
    uint16_t elementLengths[4] = {0, 0, 0, 0};
    bool ifExhaustedSuspension = false;
    U16 validBit = 0;
    U8 repeatTimes = 1;
};
template <class T>
struct MrgSortSrcList {
    MrgSortSrcList() {}
    MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c,
                   const LocalTensor<T>& d)
        : src1(a), src2(b), src3(c), src4(d)
    {
    }
    LocalTensor<T> src1, src2, src3, src4;
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void Merge(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::MrgSortSrcList<T>& src,
                  const uint16_t lengths[4], bool suspend, uint32_t validBit, uint32_t repeats, uint32_t taken[4])
{
    static_assert(OneOf<T, half, float>, "MrgSort: A2 takes half and float");
    check::rule(validBit == 3 || validBit == 7 || validBit == 15, "sort-valid-bit", api,
                "validBit %u is not 3, 7 or 15", validBit);
    const uint32_t lists = validBit == 3 ? 2 : validBit == 7 ? 3 : 4;
    const AscendC::LocalTensor<T>* from[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
    uint32_t total = 0;
    bool same = true, dense = true;
    for (uint32_t i = 0; i < lists; ++i) {
        check::rule(lengths[i] <= 4095, "sort-length", api, "a list of %u pairs, at most 4095 are possible",
                    static_cast<uint32_t>(lengths[i]));
        total += lengths[i];
        same = same && lengths[i] == lengths[0];
        dense = dense && reinterpret_cast<const uint8_t*>(from[i]->GetPhyAddr()) ==
                             reinterpret_cast<const uint8_t*>(from[0]->GetPhyAddr()) + uint64_t(i) * lengths[0] * 8;
    }
    if (repeats > 1 && !(lists == 4 && same && dense && !suspend)) {
        check::rule(false, "sort-repeat", api,
                    "repeats need four lists of one length that follow each other, and no suspension");
        repeats = 1;
    }
    if (repeats == 0 || total == 0) {
        return;
    }
    check::op(Pipe::V, api, check::OP_NO_ALIAS);
    for (uint32_t i = 0; i < lists; ++i) {
        if (lengths[i] != 0 &&
            !check::access(Pipe::V, api, "src", false, from[i]->GetPhyAddr(), uint64_t(lengths[i]) * 8, repeats,
                           int64_t(total) * 8, 8, repeats > 1 ? check::View{} : from[i]->View())) {
            return;
        }
    }
    if (!suspend && !check::access(Pipe::V, api, "dst", true, dst.GetPhyAddr(), uint64_t(total) * 8 * repeats, 1, 0,
                                   32, dst.View())) {
        return;
    }
    for (uint32_t r = 0; r < repeats; ++r) {
        uint32_t at[4] = {0, 0, 0, 0}, n = 0;
        for (; n < total; ++n) {
            int best = -1;
            Pair<T> top = {};
            for (uint32_t i = 0; i < lists; ++i) {
                if (at[i] == lengths[i]) {
                    continue;
                }
                const Pair<T> p = LoadPair<T>(from[i]->GetPhyAddr(), uint64_t(r) * total + at[i]);
                if (best < 0 || Before(p.score, top.score)) {
                    best = static_cast<int>(i);
                    top = p;
                }
            }
            if (suspend && !check::access(Pipe::V, api, "dst", true,
                                          reinterpret_cast<uint8_t*>(dst.GetPhyAddr()) + uint64_t(n) * 8, 8, 1, 0, 8,
                                          dst.View())) {
                return;
            }
            StorePair(dst.GetPhyAddr(), uint64_t(r) * total + n, top);
            ++at[best];
            if (suspend && at[best] == lengths[best]) {
                break;
            }
        }
        for (uint32_t i = 0; i < 4; ++i) {
            taken[i] = at[i];
            Current().merged[i] = static_cast<uint16_t>(at[i]);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& p)
{
    uint32_t taken[4];
    gaf_twin::Merge("MrgSort", dst, src, p.elementLengths, p.ifExhaustedSuspension, p.validBit, p.repeatTimes, taken);
}
template <class T, bool isExhaustedSuspension = false>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const uint16_t lengths[4],
                    uint32_t sortedNum[4], uint16_t validBit, const int32_t repeat)
{
    uint32_t taken[4] = {0, 0, 0, 0};
    gaf_twin::Merge("MrgSort", dst, src, lengths, isExhaustedSuspension, validBit, static_cast<uint32_t>(repeat),
                    taken);
    if (isExhaustedSuspension) {
        for (int i = 0; i < 4; ++i) {
            sortedNum[i] = taken[i];
        }
    }
}
inline void GetMrgSortResult(uint16_t& list1, uint16_t& list2, uint16_t& list3, uint16_t& list4)
{
    const uint16_t* m = gaf_twin::Current().merged;
    list1 = m[0];
    list2 = m[1];
    list3 = m[2];
    list4 = m[3];
}

// Elements of T that `count` pairs take.
template <class T>
inline uint32_t GetSortOffset(const uint32_t count)
{
    return count * 8 / static_cast<uint32_t>(sizeof(T));
}
template <class T>
inline uint32_t GetSortLen(const uint32_t count)
{
    return GetSortOffset<T>(count);
}
enum class SortType : uint8_t { RADIX_SORT, MERGE_SORT };
struct SortConfig {
    SortType type = SortType::RADIX_SORT;
    bool isDescend = false, hasSrcIndex = false, hasDstIndex = false;
};
// A2 sorts scores as they are.
template <class T>
inline void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, const int32_t)
{
    concat = src;
}
// Blocks of 32 sorted, or (isFullSort) all of them.
template <class T, bool isFullSort>
inline void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
                 LocalTensor<T>& tmp, const int32_t repeat)
{
    if (!isFullSort || repeat <= 1) {
        Sort32(dst, concat, index, repeat);
        return;
    }
    const uint32_t n = static_cast<uint32_t>(repeat) * 32;
    gaf_twin::HighCall call("Sort", gaf_twin::check::OP_NO_ALIAS);
    call.Rule(repeat <= 255, "repeat", "repeat %d is not in 0..255", repeat)
        .Read("concat", concat, n)
        .Read("index", index, n)
        .Tmp(tmp, uint64_t(n) * 8)
        .Write("dst", dst, GetSortLen<T>(n));
    if (!call.ok()) {
        return;
    }
    gaf_twin::Pair<T> pairs[255 * 32], spare[255 * 32];
    for (uint32_t i = 0; i < n; ++i) {
        pairs[i] = {concat.GetPhyAddr()[i], index.GetPhyAddr()[i]};
    }
    gaf_twin::SortPairs(pairs, spare, n);
    for (uint32_t i = 0; i < n; ++i) {
        gaf_twin::StorePair(dst.GetPhyAddr(), i, pairs[i]);
    }
}
template <class T>
inline void Extract(const LocalTensor<T>& value, const LocalTensor<uint32_t>& index, const LocalTensor<T>& sorted,
                    const int32_t repeat)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Extract: A2 takes half and float");
    const uint32_t n = static_cast<uint32_t>(repeat) * 32;
    gaf_twin::HighCall call("Extract", gaf_twin::check::OP_NO_ALIAS);
    if (call.Read("sorted", sorted, GetSortLen<T>(n)).Write("dstValue", value, n).Write("dstIndex", index, n).ok()) {
        for (uint32_t i = 0; i < n; ++i) {
            const gaf_twin::Pair<T> p = gaf_twin::LoadPair<T>(sorted.GetPhyAddr(), i);
            value.GetPhyAddr()[i] = p.score;
            index.GetPhyAddr()[i] = p.index;
        }
    }
}

// ---- TopK -------------------------------------------------------------------------------------------------
struct TopKInfo {
    int32_t outter = 1;
    int32_t inner = 0;
    int32_t n = 0;
};
enum class TopKMode : uint8_t { TOPK_NORMAL, TOPK_NSMALL };

}  // namespace AscendC

namespace gaf_twin {

template <class T, bool INIT_INDEX, bool HAS_FINISH, AscendC::TopKMode MODE>
inline void TopKRows(const AscendC::LocalTensor<T>& dstValue, const AscendC::LocalTensor<int32_t>& dstIndex,
                     const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<int32_t>& srcIndex,
                     const AscendC::LocalTensor<bool>& finish, const Tmp8* tmp, uint32_t k,
                     const AscendC::TopKInfo& info, bool largest)
{
    static_assert(OneOf<T, half, float>, "TopK: A2 takes half and float");
    constexpr bool small = MODE == AscendC::TopKMode::TOPK_NSMALL;
    const uint32_t rows = static_cast<uint32_t>(info.outter), inner = static_cast<uint32_t>(info.inner),
                   n = static_cast<uint32_t>(info.n);
    const uint32_t valuePitch = small ? k : RoundUp(k, BLK<T>), indexPitch = small ? k : RoundUp(k, 8);
    HighCall call("TopK", check::OP_NO_ALIAS);
    call.Rule(inner % 32 == 0 && inner != 0 && (small ? inner == 32 : inner <= 4096), "topk-shape",
              "inner %u: a multiple of 32 up to 4096 (small mode: 32)", inner)
        .Rule(k >= 1 && k <= n && n <= inner, "topk-shape", "k %u, n %u, inner %u: 1 <= k <= n <= inner", k, n, inner)
        .Read("srcLocal", src, uint64_t(rows) * inner)
        .Read("srcIndexLocal", srcIndex, INIT_INDEX ? (small ? uint64_t(rows) * inner : inner) : 0)
        .Read("finishLocal", finish, HAS_FINISH ? rows : 0)
        .TmpOrStack(tmp, small ? uint64_t(rows) * 32 * 8 : uint64_t(inner) * 16)
        .Write("dstValueLocal", dstValue, uint64_t(rows) * valuePitch)
        .Write("dstIndexLocal", dstIndex, uint64_t(rows) * indexPitch);
    if (!call.ok() || k > inner || inner > 4096) {
        return;
    }
    Pair<T> pairs[4096], spare[4096];
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t i = 0; i < inner; ++i) {
            const T v = src.GetPhyAddr()[uint64_t(r) * inner + i];
            const uint32_t index =
                INIT_INDEX ? static_cast<uint32_t>(srcIndex.GetPhyAddr()[small ? uint64_t(r) * inner + i : i]) : i;
            pairs[i] = {largest ? v : static_cast<T>(-static_cast<float>(v)), index};
        }
        SortPairs(pairs, spare, inner);
        const bool done = HAS_FINISH && finish.GetPhyAddr()[r];
        for (uint32_t i = 0; i < k; ++i) {
            const T v = pairs[i].score;
            dstValue.GetPhyAddr()[uint64_t(r) * valuePitch + i] = largest ? v : static_cast<T>(-static_cast<float>(v));
            dstIndex.GetPhyAddr()[uint64_t(r) * indexPitch + i] = static_cast<int32_t>(done ? n : pairs[i].index);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish,
                 const LocalTensor<uint8_t>& tmp, const int32_t k, const TopkTiling&, const TopKInfo& info,
                 const bool isLargest = true)
{
    gaf_twin::TopKRows<T, isInitIndex, isHasfinish, topkMode>(dstValue, dstIndex, src, srcIndex, finish, &tmp,
                                                              static_cast<uint32_t>(k), info, isLargest);
}
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const int32_t k,
                 const TopkTiling&, const TopKInfo& info, const bool isLargest = true)
{
    gaf_twin::TopKRows<T, isInitIndex, isHasfinish, topkMode>(dstValue, dstIndex, src, srcIndex, finish,
                                                              gaf_twin::NO_TMP, static_cast<uint32_t>(k), info,
                                                              isLargest);
}

}  // namespace AscendC

#endif  // GAF_TWIN_SORT_H
