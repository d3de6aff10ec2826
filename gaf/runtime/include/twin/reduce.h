// SPDX-License-Identifier: Apache-2.0
// Vector instructions that change the shape of data: reductions, GatherMask, 16x16 Transpose, TransDataTo5HD.
#ifndef GAF_TWIN_REDUCE_H
#define GAF_TWIN_REDUCE_H

#include "twin/vector.h"

namespace gaf_twin {

enum class Fold : uint8_t { SUM, MAX, MIN };

// The active lanes of repeat r, gathered (inactive lanes are left out). `at[i]` is the lane number of element
// i.
template <class T>
inline uint32_t ActiveLanes(const AscendC::LocalTensor<T>& src, const Shape& s, uint32_t r, uint32_t blk,
                            uint32_t rep, T* out, uint8_t* at)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < LANES<T>; ++l) {
        const bool active =
            s.counter ? r * LANES<T> + l < s.count : ((l < 64 ? s.lo >> l : s.hi >> (l - 64)) & 1) != 0;
        if (active) {
            out[n] = src.GetPhyAddr()[(uint64_t(r) * rep + uint64_t(l / BLK<T>) * blk) * BLK<T> + l % BLK<T>];
            at[n] = static_cast<uint8_t>(l);
            ++n;
        }
    }
    return n;
}

template <class T>
inline void PutIndex(T* dst, uint32_t index)
{
    if (sizeof(T) == 2) {
        const uint16_t i = static_cast<uint16_t>(index);
        memcpy(dst, &i, 2);
    } else {
        memcpy(dst, &index, 4);
    }
}

// The limits of the instruction behind int32_t parameters.
inline void CheckReduceRepeat(const char* api, const Shape& s, int32_t dstRep, int32_t blk, int32_t rep)
{
    check::rule(s.counter || s.repeat <= 255, "repeat", api, "repeat %d is not in 0..255",
                static_cast<int>(s.repeat));
    check::rule(dstRep >= 0 && dstRep <= 65535 && blk >= 0 && blk <= 65535 && rep >= 0 && rep <= 65535,
                "stride", api, "strides %d, %d and %d: each is 0 to 65535", dstRep, blk, rep);
}

// One result per repeat. dstRep in elements of one result (2 elements per result for value and index).
template <Fold F, class T>
inline void WholeReduce(const char* api, const AscendC::LocalTensor<T>& dst,
                        const AscendC::LocalTensor<T>& src, const Shape& s, int32_t dstRep, int32_t blk,
                        int32_t rep, AscendC::ReduceOrder order)
{
    static_assert(OneOf<T, half, float>, "WholeReduce*: A2 takes half and float");
    using O = AscendC::ReduceOrder;
    const uint32_t repeat = s.counter ? DivUp(s.count, LANES<T>) : s.repeat;
    const bool single = F == Fold::SUM || order == O::ORDER_ONLY_VALUE || order == O::ORDER_ONLY_INDEX;
    const uint32_t width = single ? 1 : 2;
    if (repeat == 0) {
        return;
    }
    CheckReduceRepeat(api, s, dstRep, blk, rep);
    check::op(Pipe::V, api, check::OP_MAY_OVERLAP);
    if (!TouchLanes(api, "src", false, src,
                    Lanes{src.GetPhyAddr(), sizeof(T), uint32_t(blk), uint32_t(rep), false}, s, LANES<T>) ||
        !check::access(Pipe::V, api, "dst", true, dst.GetPhyAddr(), width * sizeof(T), repeat,
                       int64_t(dstRep) * width * int64_t(sizeof(T)), width * sizeof(T), dst.View())) {
        return;
    }
    T lanes[128];
    uint8_t at[128];
    for (uint32_t r = 0; r < repeat; ++r) {
        T* d = dst.GetPhyAddr() + uint64_t(r) * dstRep * width;
        const uint32_t n = ActiveLanes(src, s, r, blk, rep, lanes, at);
        if (n == 0) {
            continue;
        }
        if (F == Fold::SUM) {
            *d = rt::TreeSum<T>(lanes, n);
            continue;
        }
        uint32_t index = 0;
        const T v = rt::Extreme<T>(lanes, n, F == Fold::MAX, &index);
        index = at[index];
        if (order == O::ORDER_VALUE_INDEX) {
            d[0] = v;
            PutIndex(d + 1, index);
        } else if (order == O::ORDER_INDEX_VALUE) {
            PutIndex(d, index);
            d[1] = v;
        } else if (order == O::ORDER_ONLY_VALUE) {
            d[0] = v;
        } else {
            PutIndex(d, index);
        }
    }
}

// One result per 32-byte block (group = BLK<T>) or per pair of lanes (group = 2). dstRep: results of one
// repeat apart, in units of 8 blocks' results (BlockReduce) or of 256 bytes' worth (PairReduce) as on the
// device.
template <Fold F, class T>
inline void GroupReduce(const char* api, const AscendC::LocalTensor<T>& dst,
                        const AscendC::LocalTensor<T>& src, const Shape& s, uint32_t group, int32_t dstRep,
                        int32_t blk, int32_t rep)
{
    static_assert(OneOf<T, half, float>, "BlockReduce*, PairReduceSum: A2 takes half and float");
    const uint32_t repeat = s.counter ? DivUp(s.count, LANES<T>) : s.repeat, results = LANES<T> / group;
    if (repeat == 0) {
        return;
    }
    CheckReduceRepeat(api, s, dstRep, blk, rep);
    check::op(Pipe::V, api, check::OP_MAY_OVERLAP);
    const uint64_t pitch = uint64_t(dstRep) * results;
    if (!TouchLanes(api, "src", false, src,
                    Lanes{src.GetPhyAddr(), sizeof(T), uint32_t(blk), uint32_t(rep), false}, s, LANES<T>) ||
        !check::access(Pipe::V, api, "dst", true, dst.GetPhyAddr(), results * sizeof(T), repeat,
                       static_cast<int64_t>(pitch * sizeof(T)),
                       results * sizeof(T) < 32 ? results * sizeof(T) : 32, dst.View())) {
        return;
    }
    T lanes[128];
    uint8_t at[128];
    for (uint32_t r = 0; r < repeat; ++r) {
        const uint32_t n = ActiveLanes(src, s, r, blk, rep, lanes, at);
        T part[128];
        for (uint32_t g = 0, i = 0; g < results; ++g) {
            uint32_t k = 0;
            for (; i < n && at[i] / group == g; ++i) {
                part[k++] = lanes[i];
            }
            if (k == 0) {
                continue;  // a fully masked group leaves dst as it is
            }
            uint32_t index = 0;
            dst.GetPhyAddr()[r * pitch + g] =
                F == Fold::SUM ? rt::TreeSum<T>(part, k) : rt::Extreme<T>(part, k, F == Fold::MAX, &index);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                           const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep)
{
    gaf_twin::WholeReduce<gaf_twin::Fold::SUM>(
        "WholeReduceSum", dst, src,
        gaf_twin::ShapeFor<isSetMask>("WholeReduceSum", uint64_t(mask), uint32_t(repeat), gaf_twin::LANES<T>),
        dstRep, blk, rep, ReduceOrder::ORDER_ONLY_VALUE);
}
template <class T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                           const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep)
{
    gaf_twin::WholeReduce<gaf_twin::Fold::SUM>(
        "WholeReduceSum", dst, src,
        gaf_twin::ShapeFor<isSetMask>("WholeReduceSum", mask, uint32_t(repeat), gaf_twin::LANES<T>), dstRep,
        blk, rep, ReduceOrder::ORDER_ONLY_VALUE);
}

#define GAF_TWIN_WHOLE_REDUCE(NAME, FOLD)                                                                  \
    template <class T, bool isSetMask = true>                                                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,             \
                     const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep,     \
                     ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)                                   \
    {                                                                                                      \
        gaf_twin::WholeReduce<gaf_twin::Fold::FOLD>(                                                       \
            #NAME, dst, src,                                                                               \
            gaf_twin::ShapeFor<isSetMask>(#NAME, uint64_t(mask), uint32_t(repeat), gaf_twin::LANES<T>),    \
            dstRep, blk, rep, order);                                                                      \
    }                                                                                                      \
    template <class T, bool isSetMask = true>                                                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],          \
                     const int32_t repeat, const int32_t dstRep, const int32_t blk, const int32_t rep,     \
                     ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)                                   \
    {                                                                                                      \
        gaf_twin::WholeReduce<gaf_twin::Fold::FOLD>(                                                       \
            #NAME, dst, src,                                                                               \
            gaf_twin::ShapeFor<isSetMask>(#NAME, mask, uint32_t(repeat), gaf_twin::LANES<T>), dstRep, blk, \
            rep, order);                                                                                   \
    }
GAF_TWIN_WHOLE_REDUCE(WholeReduceMax, MAX)
GAF_TWIN_WHOLE_REDUCE(WholeReduceMin, MIN)
#undef GAF_TWIN_WHOLE_REDUCE

// Here repeat comes before mask.
#define GAF_TWIN_GROUP_REDUCE(NAME, FOLD, GROUP)                                                             \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,             \
                     const int32_t mask, const int32_t dstRep, const int32_t blk, const int32_t rep)         \
    {                                                                                                        \
        gaf_twin::GroupReduce<gaf_twin::Fold::FOLD>(                                                         \
            #NAME, dst, src,                                                                                 \
            gaf_twin::ShapeFor<isSetMask>(#NAME, uint64_t(mask), uint32_t(repeat), gaf_twin::LANES<T>),      \
            GROUP, dstRep, blk, rep);                                                                        \
    }                                                                                                        \
    template <class T, bool isSetMask = true>                                                                \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,             \
                     const uint64_t mask[], const int32_t dstRep, const int32_t blk, const int32_t rep)      \
    {                                                                                                        \
        gaf_twin::GroupReduce<gaf_twin::Fold::FOLD>(                                                         \
            #NAME, dst, src,                                                                                 \
            gaf_twin::ShapeFor<isSetMask>(#NAME, mask, uint32_t(repeat), gaf_twin::LANES<T>), GROUP, dstRep, \
            blk, rep);                                                                                       \
    }
GAF_TWIN_GROUP_REDUCE(BlockReduceSum, SUM, gaf_twin::BLK<T>)
GAF_TWIN_GROUP_REDUCE(BlockReduceMax, MAX, gaf_twin::BLK<T>)
GAF_TWIN_GROUP_REDUCE(BlockReduceMin, MIN, gaf_twin::BLK<T>)
GAF_TWIN_GROUP_REDUCE(PairReduceSum, SUM, 2)
#undef GAF_TWIN_GROUP_REDUCE

template <class T, bool isSetMask = true>
inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,
                            const int32_t elems, const int32_t, const int32_t blk, const int32_t dstRep,
                            const int32_t rep)
{
    WholeReduceSum<T, isSetMask>(dst, src, elems, repeat, dstRep, blk, rep);
}

}  // namespace AscendC

namespace gaf_twin {

// A flag that an API call sets and waits for itself.
template <HardEvent EVENT>
inline void WaitForPipe()
{
#if GAF_TWIN_CHECKING
    const int8_t id = AllocEvent(EVENT, false);
    if (id != AscendC::INVALID_TEVENTID) {
        check::setFlag(EVENT, id, true);
        check::waitFlag(EVENT, id, true);
    }
#endif
}

// Reduction of a whole tensor to one element (value, then index for extremes with calIndex).
template <Fold F, class T>
inline void ReduceAll(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                      const AscendC::LocalTensor<T>& work, int32_t count, bool calIndex)
{
    static_assert(OneOf<T, half, float>, "Reduce*: A2 takes half and float");
    if (count <= 0) {
        return;
    }
    const uint32_t n = static_cast<uint32_t>(count), repeats = DivUp(n, LANES<T>);
    check::op(Pipe::V, api, check::OP_MAY_OVERLAP);
    if (!TouchFlat(api, "src", false, src, n)) {
        return;
    }
    if (F != Fold::SUM) {
        const uint64_t need = RoundUp(2 * repeats, BLK<T>);
        if (!TouchFlat(api, "workLocal", true, work, need)) {
            return;
        }
    }
    // The sum goes through a scalar register: the call waits for the vector pipe, stores from the scalar
    // unit, and holds back the pipes that may use the result.
    const Pipe writer = F == Fold::SUM ? Pipe::S : Pipe::V;
    if (F == Fold::SUM) {
        WaitForPipe<HardEvent::V_S>();
        check::op(Pipe::S, api);
    }
    if (!check::access(writer, api, "dst", true, dst.GetPhyAddr(), (calIndex ? 2 : 1) * sizeof(T), 1, 0, 32,
                       dst.View())) {
        return;
    }
    if (F == Fold::SUM) {
        WaitForPipe<HardEvent::S_V>();
        WaitForPipe<HardEvent::S_MTE3>();
    }
    const T* p = src.GetPhyAddr();
    if (F == Fold::SUM) {  // tree inside a repeat, sequential across repeats
        float total = 0.0f;
        for (uint32_t i = 0; i < n; i += LANES<T>) {
            total = total + static_cast<float>(rt::TreeSum<T>(p + i, n - i < LANES<T> ? n - i : LANES<T>));
            total = static_cast<float>(static_cast<T>(total));
        }
        dst.GetPhyAddr()[0] = static_cast<T>(total);
        Current().accumulated = total;
        return;
    }
    uint32_t index = 0;
    const T v = rt::Extreme<T>(p, n, F == Fold::MAX, &index);
    dst.GetPhyAddr()[0] = v;
    if (calIndex) {
        PutIndex(dst.GetPhyAddr() + 1, index);
    }
    Current().reduceValue = v;
    Current().reduceIndex = index;
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count)
{
    gaf_twin::ReduceAll<gaf_twin::Fold::SUM>("ReduceSum", dst, src, work, count, false);
}
template <class T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, bool calIndex = 0)
{
    gaf_twin::ReduceAll<gaf_twin::Fold::MAX>("ReduceMax", dst, src, work, count, calIndex);
}
template <class T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, bool calIndex = 0)
{
    gaf_twin::ReduceAll<gaf_twin::Fold::MIN>("ReduceMin", dst, src, work, count, calIndex);
}
template <class T>
inline T GetAccVal()
{
    return static_cast<T>(gaf_twin::Current().accumulated);
}

// Keeps the elements that a pattern selects: 1..7 are fixed patterns (1: even, 2: odd, 3..6: one of four, 7:
// all).
template <class T>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& p, uint64_t& kept)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask: A2 takes 16-bit and 32-bit types");
    gaf_twin::check::rule(pattern >= 1 && pattern <= 7, "gather-mask-pattern", "GatherMask",
                          "pattern %u is not in 1..7", static_cast<uint32_t>(pattern));
    const uint32_t perRepeat = reduceMode ? mask : gaf_twin::LANES<T>;
    uint64_t n = 0;
    gaf_twin::check::op(gaf_twin::Pipe::V, "GatherMask", gaf_twin::check::OP_MAY_OVERLAP);
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        for (uint32_t i = 0; i < perRepeat; ++i) {
            const bool keep = pattern == 7 || (pattern == 1 && i % 2 == 0) || (pattern == 2 && i % 2 == 1) ||
                              (pattern >= 3 && pattern <= 6 && i % 4 == static_cast<uint32_t>(pattern - 3));
            if (!keep) {
                continue;
            }
            const T* s =
                src.GetPhyAddr() +
                (uint64_t(r) * p.src0RepeatStride + uint64_t(i / gaf_twin::BLK<T>) * p.src0BlockStride) *
                    gaf_twin::BLK<T> +
                i % gaf_twin::BLK<T>;
            T* d = dst.GetPhyAddr() + n;
            if (!gaf_twin::check::access(gaf_twin::Pipe::V, "GatherMask", "src", false, s, sizeof(T), 1, 0, 0,
                                         src.View()) ||
                !gaf_twin::check::access(gaf_twin::Pipe::V, "GatherMask", "dst", true, d, sizeof(T), 1, 0, 0,
                                         dst.View())) {
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

// 16 x 16 transpose of a 16-bit type.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src)
{
    static_assert(gaf_twin::OneOf<T, int16_t, uint16_t, half>,
                  "Transpose: A2 takes int16_t, uint16_t and half");
    gaf_twin::check::op(gaf_twin::Pipe::V, "Transpose");
    if (!gaf_twin::TouchFlat("Transpose", "src", false, src, 256) ||
        !gaf_twin::TouchFlat("Transpose", "dst", true, dst, 256)) {
        return;
    }
    T t[256];
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t j = 0; j < 16; ++j) {
            t[j * 16 + i] = src.GetPhyAddr()[i * 16 + j];
        }
    }
    memcpy(dst.GetPhyAddr(), t, sizeof(t));
}

// 16 source rows of one block each, transposed: 16-bit: dst[j][i] = src[i][j]; 32-bit: 16 x 8 -> dst list of
// 16 half rows, dst[2 * j + i / 8][i % 8] = src[i][j]; 8-bit: a half (low or high 16 columns) of the blocks.
template <class T>
inline void TransDataTo5HD(const LocalTensor<T> (&dstList)[16], const LocalTensor<T> (&srcList)[16],
                           const TransDataTo5HDParams& p)
{
    static_assert(gaf_twin::OneOf<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "TransDataTo5HD: 8-, 16- and 32-bit types");
    using gaf_twin::Pipe;
    gaf_twin::check::op(Pipe::V, "TransDataTo5HD", gaf_twin::check::OP_MAY_OVERLAP);
    for (uint32_t i = 0; i < 16; ++i) {
        if (!gaf_twin::check::access(Pipe::V, "TransDataTo5HD", "srcList", false, srcList[i].GetPhyAddr(), 32,
                                     p.repeatTimes, int64_t(p.srcRepStride) * 32, 32, srcList[i].View()) ||
            !gaf_twin::check::access(Pipe::V, "TransDataTo5HD", "dstList", true,
                                     dstList[i].GetPhyAddr() + (sizeof(T) == 1 && p.dstHighHalf ? 16 : 0),
                                     sizeof(T) == 1 ? 16 : 32, p.repeatTimes, int64_t(p.dstRepStride) * 32,
                                     sizeof(T) == 1 ? 16 : 32, dstList[i].View())) {
            return;
        }
    }
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        T in[16][32 / sizeof(T)];
        for (uint32_t i = 0; i < 16; ++i) {
            memcpy(in[i], srcList[i].GetPhyAddr() + uint64_t(r) * p.srcRepStride * gaf_twin::BLK<T>, 32);
        }
        for (uint32_t k = 0; k < 16; ++k) {
            T* d = dstList[k].GetPhyAddr() + uint64_t(r) * p.dstRepStride * gaf_twin::BLK<T>;
            if (sizeof(T) == 2) {
                for (uint32_t i = 0; i < 16; ++i) {
                    d[i] = in[i][k % gaf_twin::BLK<T>];
                }
            } else if (sizeof(T) == 4) {
                for (uint32_t i = 0; i < 8; ++i) {
                    d[i] = in[i + k % 2 * 8][k / 2];
                }
            } else {
                for (uint32_t i = 0; i < 16; ++i) {
                    d[i + (p.dstHighHalf ? 16 : 0)] =
                        in[i][(k + (p.srcHighHalf ? 16 : 0)) % gaf_twin::BLK<T>];
                }
            }
        }
    }
}

}  // namespace AscendC

#endif  // GAF_TWIN_REDUCE_H
