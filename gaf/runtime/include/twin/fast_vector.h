// SPDX-License-Identifier: Apache-2.0
// The device library's tile functions with direct bodies: same contract as gaf_vector.h, used in fast mode
// only.
#ifndef GAF_TWIN_FAST_VECTOR_H
#define GAF_TWIN_FAST_VECTOR_H

#include "twin/copy.h"
#include "twin/math.h"
#include "twin/move.h"

namespace gaf {

namespace rt = gaf_twin::rt;

template <class T>
__attribute__((always_inline)) inline void LoadTile(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows, uint32_t lanes,
                     uint64_t gmRowStride)
{
    rt::FetchRows(dst.GetPhyAddr(), src.GetPhyAddr(), rows, lanes * sizeof(T), PitchOf<T>(lanes) * sizeof(T),
                  static_cast<int64_t>(gmRowStride * sizeof(T)));
}

template <class T>
inline void FillRun(T* dst, T value, uint64_t count)
{
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
        rt::Fill<T>(dst, value, static_cast<uint32_t>(count));
    } else {
        for (uint64_t i = 0; i < count; ++i) {
            dst[i] = value;
        }
    }
}

template <class T>
inline void FillTile(const LocalTensor<T>& dst, T value, uint32_t count)
{
    FillRun(dst.GetPhyAddr(), value, count);
}

template <class T>
inline void LoadTileBox(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows, uint32_t lanes,
                        uint32_t row0, uint32_t col0, uint32_t nrows, uint32_t ncols, uint64_t gmRowStride,
                        T fill)
{
    if (nrows >= rows && ncols >= lanes) {
        LoadTile(dst, src, rows, lanes, gmRowStride);
        return;
    }
    const uint32_t pitch = PitchOf<T>(lanes);
    if (nrows == 0 || ncols == 0) {
        FillTile(dst, fill, rows * pitch);
        return;
    }
    T* first = dst.GetPhyAddr() + static_cast<uint64_t>(row0) * pitch;
    FillRun(dst.GetPhyAddr(), fill, row0 * pitch);
    FillRun(first + static_cast<uint64_t>(nrows) * pitch, fill, (rows - row0 - nrows) * pitch);
    if (ncols < pitch) {
        for (uint32_t r = 0; r < nrows; ++r) {
            FillRun(first + static_cast<uint64_t>(r) * pitch, fill, col0);
            FillRun(first + static_cast<uint64_t>(r) * pitch + col0 + ncols, fill, pitch - col0 - ncols);
        }
    }
    rt::CopyRuns(first + col0, src.GetPhyAddr(), static_cast<uint64_t>(ncols) * sizeof(T), nrows,
                 static_cast<int64_t>(pitch * sizeof(T)), static_cast<int64_t>(gmRowStride * sizeof(T)));
}

template <class T>
inline void StoreTile(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows, uint32_t lanes,
                      uint64_t gmRowStride)
{
    if (gaf_twin::Current().atomicOp != gaf_twin::AtomicOp::NONE) {
        gaf_twin::AtomicRuns(dst.GetPhyAddr(), src.GetPhyAddr(), lanes * sizeof(T), rows,
                             static_cast<int64_t>(gmRowStride * sizeof(T)),
                             static_cast<int64_t>(PitchOf<T>(lanes) * sizeof(T)));
        return;
    }
    gaf_twin::StoreRows(dst.GetPhyAddr(), src.GetPhyAddr(), rows, lanes * sizeof(T),
                        static_cast<int64_t>(gmRowStride * sizeof(T)),
                        static_cast<int64_t>(PitchOf<T>(lanes) * sizeof(T)));
}

template <class T, class I>
inline void GatherTile(const LocalTensor<T>& dst, const GlobalTensor<T>& table, const GlobalTensor<I>& ids,
                       uint32_t rows, uint32_t lanes, int64_t idStride, uint64_t tableRowStride,
                       int64_t tableRows)
{
    static_assert(IS_SAME<I, int32_t> || IS_SAME<I, int64_t>, "GatherTile: indices are int32_t or int64_t");
    const uint32_t pitch = PitchOf<T>(lanes);
    for (uint32_t r = 0; r < rows; ++r) {
        const int64_t row = WrapRow(ids.GetPhyAddr()[static_cast<int64_t>(r) * idStride], tableRows);
        rt::LoadRows(dst.GetPhyAddr() + static_cast<uint64_t>(r) * pitch,
                     table.GetPhyAddr() + static_cast<uint64_t>(row) * tableRowStride, 1, lanes * sizeof(T),
                     pitch * sizeof(T), 0);
    }
}

template <Bop OP, class T>
inline void BinaryCol(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& col,
                      const LocalTensor<T>&, uint32_t rows, uint32_t lanes)
{
    static_assert(IS_SAME<T, float> || (IS_SAME<T, int32_t> && OP != Bop::DIV && OP != Bop::RDIV),
                  "BinaryCol: float, or int32_t without division");
    if constexpr (IS_SAME<T, float>) {
        rt::TileCol(dst.GetPhyAddr(), a.GetPhyAddr(), col.GetPhyAddr(), rows, PitchOf<T>(lanes),
                    static_cast<int>(OP));
    } else {
        rt::TileColI(dst.GetPhyAddr(), a.GetPhyAddr(), col.GetPhyAddr(), rows, PitchOf<T>(lanes),
                     static_cast<int>(OP));
    }
}

template <Bop OP, class T>
inline void BinaryRow(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& row,
                      uint32_t rows, uint32_t lanes)
{
    static_assert(IS_SAME<T, float> || (IS_SAME<T, int32_t> && OP != Bop::DIV && OP != Bop::RDIV),
                  "BinaryRow: float, or int32_t without division");
    if constexpr (IS_SAME<T, float>) {
        rt::TileRow(dst.GetPhyAddr(), a.GetPhyAddr(), row.GetPhyAddr(), rows, PitchOf<T>(lanes),
                    static_cast<int>(OP));
    } else {
        rt::TileRowI(dst.GetPhyAddr(), a.GetPhyAddr(), row.GetPhyAddr(), rows, PitchOf<T>(lanes),
                     static_cast<int>(OP));
    }
}

template <class T>
inline void BroadcastCol(const LocalTensor<T>& dst, const LocalTensor<T>& col, const LocalTensor<T>&,
                         uint32_t rows, uint32_t lanes)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    for (uint32_t r = 0; r < rows; ++r) {
        rt::Fill<T>(dst.GetPhyAddr() + static_cast<uint64_t>(r) * pitch, col.GetPhyAddr()[r], pitch);
    }
}

template <class T>
inline void BroadcastRow(const LocalTensor<T>& dst, const LocalTensor<T>& row, uint32_t rows, uint32_t lanes)
{
    const uint32_t bytes = PitchOf<T>(lanes) * sizeof(T);
    rt::CopyRuns(dst.GetPhyAddr(), row.GetPhyAddr(), bytes, rows, bytes, 0);
}

template <Mon M>
inline void RowReduce(const LocalTensor<float>& col, const LocalTensor<float>& src, const LocalTensor<float>&,
                      uint32_t rows, uint32_t lanes)
{
    rt::TileRowReduce(col.GetPhyAddr(), src.GetPhyAddr(), rows, lanes, PitchOf<float>(lanes),
                      static_cast<int>(M));
}

template <Mon M>
inline void ColReduce(const LocalTensor<float>& row, const LocalTensor<float>& src, uint32_t rows,
                      uint32_t lanes)
{
    rt::TileColReduce(row.GetPhyAddr(), src.GetPhyAddr(), rows, PitchOf<float>(lanes), static_cast<int>(M));
}

template <class T>
constexpr bool IS_BYTE = IS_SAME<T, int8_t> || IS_SAME<T, uint8_t>;

template <class T>
inline void TransposeTile(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>&, uint32_t rows,
                          uint32_t lanes)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TransposeTile: 16-bit and 32-bit types");
    const uint32_t pitch = PitchOf<T>(lanes), dstPitch = PitchOf<T>(rows);
    const T* s = src.GetPhyAddr();
    T* d = dst.GetPhyAddr();
    constexpr uint32_t side = 64 / sizeof(T);  // squares of one cache line
    for (uint32_t c0 = 0; c0 < lanes; c0 += side) {
        for (uint32_t r0 = 0; r0 < dstPitch; r0 += side) {
            for (uint32_t c = c0; c < Min(c0 + side, lanes); ++c) {
                for (uint32_t r = r0; r < Min(r0 + side, dstPitch); ++r) {
                    d[static_cast<uint64_t>(c) * dstPitch + r] = s[static_cast<uint64_t>(Min(r, rows - 1)) * pitch + c];
                }
            }
        }
    }
}

template <class T>
inline void TakeLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<int32_t>& tmp,
                      uint32_t rows, uint32_t lanes, uint32_t span, uint32_t mul, uint32_t rest, uint32_t div,
                      int32_t shift)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TakeLanes: 16-bit and 32-bit types");
    const uint32_t pitch = PitchOf<T>(lanes), srcPitch = PitchOf<T>(span);
    int32_t* places = tmp.GetPhyAddr();
    for (uint32_t c = 0; c < pitch; ++c) {
        const int64_t place = static_cast<int64_t>((c * mul + rest) / div) + shift;
        places[c] = static_cast<int32_t>(place < 0 ? 0 : place < span ? place : span - 1);
    }
    for (uint32_t r = 0; r < rows; ++r) {
        T* d = dst.GetPhyAddr() + static_cast<uint64_t>(r) * pitch;
        const T* s = src.GetPhyAddr() + static_cast<uint64_t>(r) * srcPitch;
        for (uint32_t c = 0; c < pitch; ++c) {
            d[c] = s[places[c]];
        }
    }
}

template <class D, class S>
inline void CastTile(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode, uint32_t rows,
                     uint32_t lanes)
{
    static_assert(gaf_twin::CastModes<D, S>() != 0,
                  "CastTile: A2 has no such pair of types in one instruction");
    const uint32_t dp = PitchOf<D>(lanes), sp = PitchOf<S>(lanes);
    if (dp == sp) {
        rt::Convert<D, S>(dst.GetPhyAddr(), src.GetPhyAddr(), mode, rows * dp);
        return;
    }
    const uint32_t n = dp < sp ? dp : sp;
    for (uint32_t r = 0; r < rows; ++r) {
        D* d = dst.GetPhyAddr() + static_cast<uint64_t>(r) * dp;
        rt::Convert<D, S>(d, src.GetPhyAddr() + static_cast<uint64_t>(r) * sp, mode, n);
        memset(static_cast<void*>(d + n), 0, (dp - n) * sizeof(D));
    }
}

template <class D, class S>
inline void CastTile(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<half>& tmp,
                     RoundMode mode, uint32_t rows, uint32_t lanes)
{
    if constexpr (IS_BYTE<S> && IS_SAME<D, float>) {
        CastTile(tmp, src, RoundMode::CAST_NONE, rows, lanes);
        CastTile(dst, tmp, RoundMode::CAST_NONE, rows, lanes);
    } else if constexpr (IS_BYTE<D> && IS_SAME<S, float>) {
        LocalTensor<int16_t> wide = tmp.template ReinterpretCast<int16_t>();
        CastTile(wide, src, mode, rows, lanes);
        CastTile(tmp, wide, RoundMode::CAST_RINT, rows, lanes);
        CastTile(dst, tmp, RoundMode::CAST_RINT, rows, lanes);
    } else {
        CastTile(dst, src, mode, rows, lanes);
    }
}

template <RoundMode MODE>
inline void RoundTo(const LocalTensor<float>& dst, const LocalTensor<float>& src, uint32_t count)
{
    rt::Convert<float, float>(dst.GetPhyAddr(), src.GetPhyAddr(), MODE, count);
}

template <CMPMODE M>
inline void Compare01(const LocalTensor<float>& dst, const LocalTensor<float>& a, const LocalTensor<float>& b,
                      const LocalTensor<uint8_t>&, uint32_t count)
{
    rt::Compare01(dst.GetPhyAddr(), a.GetPhyAddr(), b.GetPhyAddr(), false, M, count);
}
template <CMPMODE M>
inline void Compare01S(const LocalTensor<float>& dst, const LocalTensor<float>& a, float scalar,
                       const LocalTensor<uint8_t>&, uint32_t count)
{
    rt::Compare01(dst.GetPhyAddr(), a.GetPhyAddr(), &scalar, true, M, count);
}
inline void Select01(const LocalTensor<float>& dst, const LocalTensor<float>& cond,
                     const LocalTensor<float>& a, const LocalTensor<float>& b, const LocalTensor<uint8_t>&,
                     uint32_t count)
{
    rt::Select01(dst.GetPhyAddr(), cond.GetPhyAddr(), a.GetPhyAddr(), b.GetPhyAddr(), count);
}

#define GAF_FAST_UNARY(NAME, OP)                                                                            \
    template <class TMP>                                                                                    \
    inline void NAME(const LocalTensor<float>& dst, const LocalTensor<float>& src, const LocalTensor<TMP>&, \
                     uint32_t count)                                                                        \
    {                                                                                                       \
        rt::Apply<rt::Op::OP, float>(dst.GetPhyAddr(), src.GetPhyAddr(), nullptr, count);                   \
    }
GAF_FAST_UNARY(Rsqrt1, RSQRT)
GAF_FAST_UNARY(Recip1, RECIPROCAL)
GAF_FAST_UNARY(Tanh1, TANH)
GAF_FAST_UNARY(Erf1, ERF)
GAF_FAST_UNARY(Sin1, SIN)
GAF_FAST_UNARY(Cos1, COS)
GAF_FAST_UNARY(Tan1, TAN)
GAF_FAST_UNARY(Atan1, ATAN)
GAF_FAST_UNARY(Log1, LN)
#undef GAF_FAST_UNARY
inline void Pow1(const LocalTensor<float>& dst, const LocalTensor<float>& base,
                 const LocalTensor<float>& exponent, const LocalTensor<uint8_t>&, uint32_t count)
{
    rt::Apply<rt::Op::POWER, float>(dst.GetPhyAddr(), base.GetPhyAddr(), exponent.GetPhyAddr(), count);
}

}  // namespace gaf

#endif  // GAF_TWIN_FAST_VECTOR_H
