// SPDX-License-Identifier: Apache-2.0
// Cube core: LoadData (2D, 3D v2, with transpose), InitConstValue, Mmad, Fixpipe.
//
// Layouts on A2, fractal = 16 rows of 32 bytes, C0 = elements of 32 bytes: L1 Nz [cols/C0][rows][C0], L0A Zz
// [m/16][k/C0][16][C0], L0B Zn [k/C0][n/16][16 n][C0 k], L0C Nz [n/16][m padded to 16][16].
#ifndef GAF_TWIN_CUBE_H
#define GAF_TWIN_CUBE_H

#include "twin/copy.h"

namespace gaf_twin {

template <class T>
constexpr bool IS_FRACTAL = OneOf<T, int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t, float>;

inline bool IsL0(Hardware h) { return h == Hardware::L0A || h == Hardware::L0B; }

template <class T>
inline void TransposeSquare(const T* src, T* first, T* second)
{
    constexpr uint32_t c0 = 32 / sizeof(T);
    if (sizeof(T) == 2) {
        for (uint32_t i = 0; i < 16; ++i) {
            for (uint32_t j = 0; j < 16; ++j) {
                first[j * c0 + i] = src[i * c0 + j];
            }
        }
    } else if (sizeof(T) == 4) {  // two 16 x 8 fractals side by side
        for (uint32_t i = 0; i < 16; ++i) {
            for (uint32_t j = 0; j < 16; ++j) {
                T* to = i < 8 ? first : second;
                to[j * 8 + i % 8] = src[(j / 8 * 16 + i) * 8 + j % 8];
            }
        }
    } else {  // two 16 x 32 fractals one below the other
        for (uint32_t i = 0; i < 32; ++i) {
            for (uint32_t j = 0; j < 32; ++j) {
                T* to = j < 16 ? first : second;
                to[j % 16 * 32 + i] = src[i * 32 + j];
            }
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

// ---- fractals, optionally transposed ----------------------------------------------------------------------
template <class T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p)
{
    using gaf_twin::Pipe;
    static_assert(gaf_twin::IS_FRACTAL<T>, "LoadData: dtype not supported");
    const char* api = "LoadData(2D)";
    const Hardware to = gaf_twin::HardwareOfTensor(dst);
    gaf_twin::check::rule(gaf_twin::IsL0(to) && gaf_twin::HardwareOfTensor(src) == Hardware::L1, "position",
                          api, "the path is L1 to L0A or L0B");
    gaf_twin::check::rule(!p.ifTranspose || sizeof(T) == 2, "load-transpose", api,
                          "ifTranspose is for 16-bit types only");
    if (p.repeatTimes == 0 || (p.ifTranspose && sizeof(T) != 2)) {
        return;
    }
    const int64_t step = p.addrMode == 0 ? int64_t(p.srcStride) * 512 : -int64_t(p.srcStride) * 512;
    const uint8_t* s = reinterpret_cast<const uint8_t*>(src.GetPhyAddr()) + uint64_t(p.startIndex) * 512;
    uint8_t* d = reinterpret_cast<uint8_t*>(dst.GetPhyAddr());
    const int64_t dstStep = (int64_t(p.dstGap) + 1) * 512;
    gaf_twin::check::op(Pipe::MTE1, api);
    if (!gaf_twin::Touch(Pipe::MTE1, api, "src", false, s, 512, p.repeatTimes, step, 32, src.View()) ||
        !gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d, 512, p.repeatTimes, dstStep, 512, dst.View())) {
        return;
    }
    if (!p.ifTranspose) {
        gaf_twin::rt::CopyRuns(d, s, 512, p.repeatTimes, dstStep, step);
        return;
    }
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        gaf_twin::TransposeSquare(reinterpret_cast<const T*>(s + step * r),
                                  reinterpret_cast<T*>(d + dstStep * r), static_cast<T*>(nullptr));
    }
}

template <class T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& p)
{
    using gaf_twin::Pipe;
    static_assert(gaf_twin::IS_FRACTAL<T>, "LoadDataWithTranspose: dtype not supported");
    const char* api = "LoadDataWithTranspose";
    gaf_twin::check::rule(
        gaf_twin::IsL0(gaf_twin::HardwareOfTensor(dst)) && gaf_twin::HardwareOfTensor(src) == Hardware::L1,
        "position", api, "the path is L1 to L0A or L0B");
    if (p.repeatTimes == 0) {
        return;
    }
    constexpr uint32_t parts = sizeof(T) == 2 ? 1 : 2;
    const int64_t square = 512 * parts, sign = p.addrMode == 0 ? 1 : -1;
    const uint8_t* s = reinterpret_cast<const uint8_t*>(src.GetPhyAddr()) + uint64_t(p.startIndex) * square;
    uint8_t* d = reinterpret_cast<uint8_t*>(dst.GetPhyAddr());
    const int64_t step = sign * int64_t(p.srcStride) * square, dstStep = (int64_t(p.dstGap) + 1) * 512;
    const int64_t part = (int64_t(p.dstFracGap) + 1) * 512;
    gaf_twin::check::op(Pipe::MTE1, api);
    if (!gaf_twin::Touch(Pipe::MTE1, api, "src", false, s, square, p.repeatTimes, step, 32, src.View()) ||
        !gaf_twin::check::access(Pipe::MTE1, api, "dst", true, d, 512, parts, part, 512, dst.View(),
                                 p.repeatTimes, dstStep)) {
        return;
    }
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        uint8_t* to = d + dstStep * r;
        gaf_twin::TransposeSquare(reinterpret_cast<const T*>(s + step * r), reinterpret_cast<T*>(to),
                                  reinterpret_cast<T*>(to + part));
    }
}

// ---- image to columns -------------------------------------------------------------------------------------
inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4], const FmatrixMode& mode)
{
    gaf_twin::Fmatrix& f = gaf_twin::Current().fmatrix[mode == FmatrixMode::FMATRIX_LEFT ? 0 : 1];
    f.h = l1H;
    f.w = l1W;
    for (int i = 0; i < 4; ++i) {
        f.pad[i] = padList[i];
    }
}
template <class T>
inline void SetLoadDataPaddingValue(const T value)
{
    gaf_twin::Current().load3dPad = 0;
    memcpy(&gaf_twin::Current().load3dPad, &value, sizeof(T));
}
// Reads of LoadData(3D) at or beyond `bytes` of L1 start again at its beginning; 0 = no boundary.
inline void SetLoadDataBoundary(uint32_t bytes)
{
    gaf_twin::check::rule(bytes == 0 || bytes >= 1024, "load3d-window", "SetLoadDataBoundary",
                          "a boundary of %u bytes, at least 1024 are needed", bytes);
    gaf_twin::Current().load3dBoundary = bytes;
}
// LoadData(3D) is carried out `repeatTime` times.
inline void SetLoadDataRepeat(const LoadDataRepeatParam& p)
{
    gaf_twin::check::rule(p.repeatTime <= 1, "load3d-repeat", "SetLoadDataRepeat",
                          "the twin carries out LoadData(3D) once, not %u times", uint32_t(p.repeatTime));
    gaf_twin::Current().load3dRepeat = p.repeatTime;
}

// The image [C1][H][W][C0] in L1 becomes the matrix im2col[m = output pixel][k = (c1, kh, kw, c0)]; of it the
// window [mStartPt, +mExtension) x [kStartPt, +kExtension) goes to L0A (Zz; with enTranspose its transpose)
// or to L0B, where m is the k of the product and k its n (Zn).
template <class T, const IsResetLoad3dConfig& CONFIG = IS_RESER_LOAD3D_DEFAULT_CONFIG, class U = T,
          typename std::enable_if<std::is_same<T, U>::value, bool>::type = true>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<U>& p)
{
    using gaf_twin::Pipe;
    static_assert(gaf_twin::IS_FRACTAL<T>, "LoadData(3D): dtype not supported");
    const char* api = "LoadData(3D)";
    constexpr uint32_t c0 = 32 / sizeof(T);
    const Hardware to = gaf_twin::HardwareOfTensor(dst);
    gaf_twin::check::rule(gaf_twin::IsL0(to) && gaf_twin::HardwareOfTensor(src) == Hardware::L1, "position",
                          api, "the path is L1 to L0A or L0B");
    const bool toB = to == Hardware::L0B, transposed = toB || p.enTranspose;
    gaf_twin::check::rule(!transposed || sizeof(T) >= 2, "load3d-dtype", api,
                          "8-bit types cannot be transposed");
    if (CONFIG.isSetFMatrix) {
        SetFmatrix(p.l1H, p.l1W, p.padList,
                   p.fMatrixCtrl ? FmatrixMode::FMATRIX_RIGHT : FmatrixMode::FMATRIX_LEFT);
    }
    if (CONFIG.isSetPadding) {
        SetLoadDataPaddingValue(p.padValue);
    }
    const gaf_twin::Fmatrix f = gaf_twin::Current().fmatrix[p.fMatrixCtrl ? 1 : 0];
    const uint32_t filterW = p.filterW + (p.filterSizeW ? 256u : 0u),
                   filterH = p.filterH + (p.filterSizeH ? 256u : 0u);
    if (gaf_twin::Current().load3dRepeat == 0 || f.h == 0 || f.w == 0 || p.channelSize == 0 || p.kExtension == 0 || p.mExtension == 0 ||
        filterW == 0 || filterH == 0) {
        return;
    }
    const uint32_t left = f.pad[0], right = f.pad[1], top = f.pad[2], bottom = f.pad[3];
    const uint32_t strideW = p.strideW == 0 ? 1u : uint32_t(p.strideW),
                   strideH = p.strideH == 0 ? 1u : uint32_t(p.strideH);
    const int32_t spanW = int32_t(f.w + left + right) - int32_t((filterW - 1) * p.dilationFilterW + 1);
    const int32_t spanH = int32_t(f.h + top + bottom) - int32_t((filterH - 1) * p.dilationFilterH + 1);
    if (!gaf_twin::check::rule(spanW >= 0 && spanH >= 0, "load3d-window", api,
                               "the filter does not fit the image") ||
        spanW < 0 || spanH < 0) {
        return;
    }
    const uint32_t outW = uint32_t(spanW) / strideW + 1, outH = uint32_t(spanH) / strideH + 1;
    const uint32_t c1Count = gaf_twin::DivUp(p.channelSize, c0), hw = uint32_t(f.h) * f.w;
    const uint32_t mEnd = p.mStartPt + uint32_t(p.mExtension), kEnd = p.kStartPt + uint32_t(p.kExtension);
    gaf_twin::check::rule(mEnd <= gaf_twin::RoundUp(outW * outH, 16), "load3d-window", api,
                          "m window ends at %u, there are %u output pixels", mEnd, outW * outH);
    gaf_twin::check::rule(kEnd <= gaf_twin::RoundUp(c1Count * filterH * filterW * c0, 16), "load3d-window",
                          api, "k window ends at %u, there are %u", kEnd, c1Count * filterH * filterW * c0);
    gaf_twin::check::rule(p.kStartPt % c0 == 0, "load3d-window", api, "kStartPt must be a multiple of %u",
                          c0);

    // Sizes of the window in the frame of the destination.
    const uint32_t rows = p.mExtension, cols = p.kExtension;
    const uint32_t colFrac = gaf_twin::DivUp(cols, c0), colPad = gaf_twin::RoundUp(cols, 16);
    const uint32_t rowFracT = gaf_twin::RoundUp(rows, 16) / c0;
    const bool point =
        filterW == 1 && filterH == 1 && strideW == 1 && strideH == 1 && left + right + top + bottom == 0;

    gaf_twin::check::op(Pipe::MTE1, api);
    const uint32_t boundary = gaf_twin::Current().load3dBoundary;
    const uint8_t* const wrap = gaf_twin::Current().arena[static_cast<uint32_t>(Hardware::L1)];
    const uint64_t whole = uint64_t(c1Count) * hw * 32;
    const uint64_t untilWrap = static_cast<uint64_t>(
        wrap + boundary - reinterpret_cast<const uint8_t*>(src.GetPhyAddr()));  // where boundary isn't 0
    bool ok = boundary != 0
                  ? gaf_twin::Touch(Pipe::MTE1, api, "src", false, src.GetPhyAddr(),
                                    untilWrap < whole ? untilWrap : whole, 1, 0, 32, src.View())
              : point ? gaf_twin::Touch(Pipe::MTE1, api, "src", false,
                                      src.GetPhyAddr() + (uint64_t(p.kStartPt / c0) * hw + p.mStartPt) * c0,
                                      uint64_t(rows) * 32, colFrac, int64_t(hw) * 32, 32, src.View())
                    : gaf_twin::Touch(Pipe::MTE1, api, "src", false, src.GetPhyAddr(),
                                      uint64_t(c1Count) * hw * 32, 1, 0, 32, src.View());
    T* d = dst.GetPhyAddr();
    const uint32_t fullR = rows / 16 * 16, fullC = cols / 16 * 16;
    if (toB) {
        ok = ok && gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d, uint64_t(cols) * 32,
                                   gaf_twin::DivUp(rows, c0), int64_t(colPad) * 32, 512, dst.View());
    } else if (transposed) {
        ok = ok &&
             (fullC == 0 || gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d, uint64_t(fullC) * rowFracT * 32,
                                            1, 0, 512, dst.View())) &&
             (fullC == cols ||
              gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d + uint64_t(fullC) * rowFracT * c0,
                              uint64_t(cols - fullC) * 32, rowFracT, 512, 512, dst.View()));
    } else {
        ok = ok &&
             (fullR == 0 || gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d, uint64_t(fullR) * colFrac * 32,
                                            1, 0, 512, dst.View())) &&
             (fullR == rows ||
              gaf_twin::Touch(Pipe::MTE1, api, "dst", true, d + uint64_t(fullR) * colFrac * c0,
                              uint64_t(rows - fullR) * 32, colFrac, 512, 512, dst.View()));
    }
    if (!ok) {
        return;
    }
    T padValue;
    memcpy(&padValue, &gaf_twin::Current().load3dPad, sizeof(T));
    const T* image = src.GetPhyAddr();
    for (uint32_t m = 0; m < rows; ++m) {
        const uint32_t pixel = p.mStartPt + m, oh = pixel / outW, ow = pixel % outW;
        for (uint32_t kf = 0; kf < colFrac; ++kf) {
            const uint32_t tap = p.kStartPt / c0 + kf, kw = tap % filterW, kh = tap / filterW % filterH,
                           c1 = tap / filterW / filterH;
            const int32_t h = int32_t(oh * strideH + kh * p.dilationFilterH) - int32_t(top);
            const int32_t w = int32_t(ow * strideW + kw * p.dilationFilterW) - int32_t(left);
            const bool inside = h >= 0 && h < f.h && w >= 0 && w < f.w;
            T line[c0];
            if (inside) {
                const T* from = image + (uint64_t(c1) * hw + uint32_t(h) * f.w + uint32_t(w)) * c0;
                const uint64_t at = reinterpret_cast<const uint8_t*>(from) - wrap;
                memcpy(line, boundary == 0 ? reinterpret_cast<const uint8_t*>(from) : wrap + at % boundary, 32);
            } else {
                for (uint32_t i = 0; i < c0; ++i) {
                    line[i] = padValue;
                }
            }
            const uint32_t n = cols - kf * c0 < c0 ? cols - kf * c0 : c0;
            if (!transposed) {
                memcpy(d + ((uint64_t(m / 16) * colFrac + kf) * 16 + m % 16) * c0, line, 32);
                continue;
            }
            for (uint32_t i = 0; i < n; ++i) {
                const uint32_t c = kf * c0 + i;
                const uint64_t frac =
                    toB ? uint64_t(m / c0) * (colPad / 16) + c / 16 : uint64_t(c / 16) * rowFracT + m / c0;
                d[(frac * 16 + c % 16) * c0 + m % c0] = line[i];
            }
        }
    }
}

// ---- constant fill of L1, L0A, L0B ------------------------------------------------------------------------
template <class T, class U = T, typename std::enable_if<std::is_same<T, U>::value, bool>::type = true>
inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& p)
{
    using gaf_twin::Pipe;
    const Hardware to = gaf_twin::HardwareOfTensor(dst);
    const bool l0 = gaf_twin::IsL0(to);
    const Pipe pipe = l0 ? Pipe::MTE1 : Pipe::MTE2;
    gaf_twin::check::rule(l0 || to == Hardware::L1, "position", "InitConstValue",
                          "dst must lie in L1, L0A or L0B");
    gaf_twin::check::rule(p.repeatTimes <= 32767 && p.blockNum <= 32767 && p.dstGap <= 32767, "fill-limits",
                          "InitConstValue", "repeatTimes, blockNum and dstGap are at most 32767");
    if (p.repeatTimes == 0 || p.blockNum == 0) {
        return;
    }
    const int64_t unit = l0 ? 512 : 32, step = (int64_t(p.blockNum) + p.dstGap) * unit;
    gaf_twin::check::op(pipe, "InitConstValue");
    if (gaf_twin::Touch(pipe, "InitConstValue", "dst", true, dst.GetPhyAddr(), p.blockNum * unit,
                        p.repeatTimes, step, l0 ? 512 : 32, dst.View())) {
        for (uint32_t r = 0; r < p.repeatTimes; ++r) {
            T* d = dst.GetPhyAddr() + step * r / int64_t(sizeof(T));
            for (uint32_t i = 0; i < p.blockNum * unit / sizeof(T); ++i) {
                d[i] = p.initValue;
            }
        }
    }
}
template <class T, class U = T, typename std::enable_if<std::is_same<T, U>::value, bool>::type = true>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& p)
{
    InitConstValue(dst, p);
}

}  // namespace AscendC

namespace gaf_twin {

template <class T>
constexpr rt::Num NumOf()
{
    return std::is_same<T, half>::value         ? rt::Num::F16
           : std::is_same<T, bfloat16_t>::value ? rt::Num::BF16
                                                : rt::Num::F32;
}

// A of one row is a vector in L0A (GEMV, which m = 1 always turns on): k values one after the other. Returns the
// same as row 0 of fractals, for `k` up to 4095.
template <class A>
inline const A* RowAsFractals(const A* a, uint32_t k)
{
    constexpr uint32_t c0 = 32 / sizeof(A);
    static thread_local A fractals[4096 * 16];
    for (uint32_t i = 0; i < k; i += c0) {
        memcpy(fractals + uint64_t(i) * 16, a + i, 32);
    }
    return fractals;
}

template <class C, class A, class B>
inline void MmadAny(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b,
                    const void* bias, check::View biasView, uint32_t biasBytes, const AscendC::MmadParams& p)
{
    static_assert(
        (std::is_same<C, float>::value && std::is_same<A, B>::value && OneOf<A, half, bfloat16_t, float>) ||
            (std::is_same<C, int32_t>::value && OneOf<A, int8_t> && std::is_same<A, B>::value),
        "Mmad: A2 takes half, bfloat16_t or float into float, int8_t into int32_t");
    const char* api = "Mmad";
    constexpr uint32_t c0 = 32 / sizeof(A);
    check::rule(p.m <= 4095 && p.n <= 4095 && p.k <= 4095, "mmad-limits", api,
                "m %u, n %u, k %u: at most 4095 each", static_cast<uint32_t>(p.m), static_cast<uint32_t>(p.n),
                static_cast<uint32_t>(p.k));
    check::rule(HardwareOfTensor(c) == Hardware::L0C && HardwareOfTensor(a) == Hardware::L0A &&
                    HardwareOfTensor(b) == Hardware::L0B,
                "position", api, "operands must lie in L0C, L0A, L0B");
    const uint32_t m = p.m, n = p.n, k = p.k;
    if (m == 0 || n == 0 || k == 0) {
        return;
    }
    const uint32_t kFrac = DivUp(k, c0), aFrac = p.kDirectionAlign && c0 == 8 ? RoundUp(k, 16) / 8 : kFrac;
    const uint32_t mPad = RoundUp(m, 16), nPad = RoundUp(n, 16), fullM = m / 16 * 16;
    check::rule(uint64_t(mPad) * aFrac * 32 <= L0A_BYTES && uint64_t(nPad) * kFrac * 32 <= L0B_BYTES &&
                    uint64_t(mPad) * nPad * 4 <= L0C_BYTES,
                "mmad-capacity", api, "m %u, n %u, k %u exceed L0A, L0B or L0C", m, n, k);
    if (bias == nullptr && p.cmatrixSource && !p.cmatrixInitVal) {  // the bias table from its start
        bias = Current().arena[static_cast<uint32_t>(Hardware::BIAS)];
        biasBytes = sizeof(C);
    }
    const bool row = m == 1, accumulate = !p.cmatrixInitVal && !(p.cmatrixSource && bias != nullptr);
    check::op(Pipe::M, api,
              (mPad / 16 * (nPad / 16) >= 10 ? check::OP_M_ORDERED : 0u) |
                  (p.unitFlag != 0 ? check::OP_UNIT_FLAG : 0u));
    const Core& core = Current();
    const bool hf32 = std::is_same<A, float>::value && core.hf32;
    const uint64_t fractals = uint64_t(mPad / 16) * (nPad / 16) * kFrac;
    check::work(hf32 ? DivUp(fractals, uint64_t(2)) : fractals);
    bool ok = (!row ||
               Touch(Pipe::M, api, "fm", false, a.GetPhyAddr(), uint64_t(k) * sizeof(A), 1, 0, 512, a.View())) &&
              (fullM == 0 || Touch(Pipe::M, api, "fm", false, a.GetPhyAddr(), uint64_t(kFrac) * 512,
                                   fullM / 16, int64_t(aFrac) * 512, 512, a.View())) &&
              (row || fullM == m || Touch(Pipe::M, api, "fm", false, a.GetPhyAddr() + uint64_t(fullM) * aFrac * c0,
                                   uint64_t(m - fullM) * 32, kFrac, 512, 512, a.View())) &&
              Touch(Pipe::M, api, "filter", false, b.GetPhyAddr(), uint64_t(n) * 32, kFrac,
                    int64_t(nPad) * 32, 512, b.View()) &&
              (bias == nullptr ||
               Touch(Pipe::M, api, "bias", false, bias, uint64_t(n) * biasBytes, 1, 0, 64, biasView));
    const uint32_t fullN = n / 16 * 16;
    for (int pass = accumulate ? 0 : 1; pass < 2 && ok; ++pass) {  // read, then write
        ok = (fullN == 0 || Touch(Pipe::M, api, "dst", pass == 1, c.GetPhyAddr(), uint64_t(m) * 64,
                                  fullN / 16, int64_t(mPad) * 64, 1024, c.View())) &&
             (fullN == n || Touch(Pipe::M, api, "dst", pass == 1, c.GetPhyAddr() + uint64_t(fullN) * mPad,
                                  uint64_t(n - fullN) * 4, m, 64, 0, c.View()));
    }
    if (!ok) {
        return;
    }
    const void* from = !p.cmatrixInitVal && p.cmatrixSource ? bias : nullptr;
    const A* left = row ? RowAsFractals(a.GetPhyAddr(), k) : a.GetPhyAddr();
    if constexpr (std::is_same<C, float>::value) {
        rt::MmadFloat(c.GetPhyAddr(), left, b.GetPhyAddr(), NumOf<A>(), m, n, k, aFrac,
                      static_cast<const float*>(from), !accumulate,
                      !hf32           ? rt::Hf32::OFF
                      : core.hf32Even ? rt::Hf32::TIES_TO_EVEN
                                      : rt::Hf32::TIES_TO_ZERO);
    } else {
        rt::MmadInt8(c.GetPhyAddr(), left, b.GetPhyAddr(), m, n, k,
                     static_cast<const int32_t*>(from), !accumulate);
    }
}

}  // namespace gaf_twin

namespace AscendC {

// ---- HF32: float operands of Mmad are rounded to 11 bits of mantissa, at twice the speed ------------------
enum class HF32Mode : uint8_t { DISABLE = 0, ENABLE };
enum class HF32TransMode : uint8_t { NEAREST_ZERO = 0, NEAREST_EVEN };
inline void SetHF32Mode(bool on) { gaf_twin::Current().hf32 = on; }
inline void SetHF32Mode(HF32Mode mode) { SetHF32Mode(mode == HF32Mode::ENABLE); }
inline void SetHF32TransMode(bool even) { gaf_twin::Current().hf32Even = even; }
inline void SetHF32TransMode(HF32TransMode mode) { SetHF32TransMode(mode == HF32TransMode::NEAREST_EVEN); }

template <class C, class A, class B>
inline void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<B>& filter,
                 const MmadParams& p)
{
    gaf_twin::MmadAny(dst, fm, filter, nullptr, {}, 0, p);
}
// With a bias row in the bias table: it starts the sums when cmatrixInitVal is false and cmatrixSource is
// true.
template <class C, class A, class B, class V>
inline void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<B>& filter,
                 const LocalTensor<V>& bias, const MmadParams& p)
{
    static_assert(std::is_same<V, C>::value, "Mmad: the twin takes a bias of the result's type");
    gaf_twin::check::rule(gaf_twin::HardwareOfTensor(bias) == Hardware::BIAS, "position", "Mmad",
                          "the bias must lie in the bias table (C2)");
    MmadParams q = p;
    q.cmatrixInitVal = false;
    q.cmatrixSource = true;
    gaf_twin::MmadAny(dst, fm, filter, bias.GetPhyAddr(), bias.View(), sizeof(V), q);
}

}  // namespace AscendC

namespace gaf_twin {

// What Fixpipe makes of one value of L0C.
template <class D, class S>
inline D FixValue(S v, QuantMode_t quant, float scale, bool relu)
{
    if (relu && !(v > S(0))) {
        v = S(0);
    }
    if (quant == QuantMode_t::DEQF16) {
        return static_cast<D>(static_cast<float>(v) * scale);
    }
    if (quant == QuantMode_t::QF322B8_PRE || quant == QuantMode_t::REQ8) {
        const float x = __builtin_rintf(static_cast<float>(v) * scale);
        return static_cast<D>(x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x);
    }
    return static_cast<D>(v);
}
template <class D, class S>
constexpr bool QuantFits(QuantMode_t q)
{
    using Q = QuantMode_t;
    return std::is_same<D, S>::value       ? q == Q::NoQuant
           : std::is_same<S, float>::value ? (std::is_same<D, half>::value         ? q == Q::F322F16
                                              : std::is_same<D, bfloat16_t>::value ? q == Q::F322BF16
                                                                                   : q == Q::QF322B8_PRE)
           : std::is_same<D, half>::value  ? q == Q::DEQF16
                                           : q == Q::REQ8;
}

// L0C -> GM (row-major or Nz) or L1 (Nz) with relu and conversion.
template <class D, class S>
inline void FixpipeAny(D* dst, check::View dstView, Hardware to, const LocalTensor<S>& src, bool rowMajor,
                       const AscendC::FixpipeParamsV220& p)
{
    static_assert((std::is_same<S, float>::value && OneOf<D, float, half, bfloat16_t, int8_t, uint8_t>) ||
                      (std::is_same<S, int32_t>::value && OneOf<D, int32_t, half, int8_t, uint8_t>),
                  "Fixpipe: this pair of types is not supported on A2");
    const char* api = "Fixpipe";
    check::rule(to != Hardware::UB, "fixpipe-path", api, "A2 has no path from L0C to UB");
    check::rule(HardwareOfTensor(src) == Hardware::L0C, "position", api, "the source must lie in L0C");
    // The documentation wants multiples of 16 everywhere; its own examples write rows of any length.
    check::rule(p.nSize <= 4095 && (rowMajor || p.nSize % 16 == 0), "fixpipe-limits", api,
                "nSize %u is not a multiple of 16 up to 4095", static_cast<uint32_t>(p.nSize));
    check::rule(p.mSize <= (rowMajor ? 8192u : 65535u), "fixpipe-limits", api, "mSize %u is above 8192",
                static_cast<uint32_t>(p.mSize));
    check::rule(QuantFits<D, S>(p.quantPre), "fixpipe-quant", api,
                "quantPre %d does not convert between these types", static_cast<int>(p.quantPre));
    if (p.nSize == 0 || p.mSize == 0) {
        return;
    }
    const uint32_t scaleBits = static_cast<uint32_t>(p.deqScalar);
    const float scale = FloatOf(scaleBits);
    const uint32_t nds = rowMajor ? (p.ndNum == 0 ? 1u : uint32_t(p.ndNum)) : 1u, blocks = DivUp(p.nSize, 16);
    check::op(Pipe::FIX, api, p.unitFlag != 0 ? check::OP_UNIT_FLAG : 0u);
    for (uint32_t nd = 0; nd < nds; ++nd) {
        const S* s = src.GetPhyAddr() + uint64_t(nd) * p.srcNdStride * 256;
        D* d = dst + uint64_t(nd) * p.dstNdStride;
        if (!Touch(Pipe::FIX, api, "src", false, s, uint64_t(p.mSize) * 64, blocks, int64_t(p.srcStride) * 64,
                   64, src.View())) {
            return;
        }
        if (rowMajor) {
            if (!Touch(Pipe::FIX, api, "dst", true, d, uint64_t(p.nSize) * sizeof(D), p.mSize,
                       int64_t(p.dstStride) * int64_t(sizeof(D)), to == Hardware::GM ? sizeof(D) : 32,
                       dstView)) {
                return;
            }
            for (uint32_t i = 0; i < p.mSize; ++i) {
                D row[4096];
                for (uint32_t j = 0; j < p.nSize; ++j) {
                    row[j] = FixValue<D>(s[(uint64_t(j / 16) * p.srcStride + i) * 16 + j % 16], p.quantPre,
                                         scale, p.reluEn);
                }
                D* to_ = d + uint64_t(i) * p.dstStride;
                if (to == Hardware::GM) {
                    StoreRuns(to_, row, uint64_t(p.nSize) * sizeof(D), 1, 0, 0);
                } else {
                    memcpy(to_, row, uint64_t(p.nSize) * sizeof(D));
                }
            }
        } else {
            // Nz in blocks of 16 columns (8-bit: 32); dstStride in 32-byte blocks between block columns.
            const uint32_t width = 32 / sizeof(D) < 16 && !p.isChannelSplit ? 16 : 32 / sizeof(D);
            for (uint32_t j0 = 0; j0 < p.nSize; j0 += width) {
                D* col = d + uint64_t(j0 / width) * p.dstStride * (32 / sizeof(D));
                if (!Touch(Pipe::FIX, api, "dst", true, col, uint64_t(p.mSize) * width * sizeof(D), 1, 0, 32,
                           dstView)) {
                    return;
                }
                for (uint32_t i = 0; i < p.mSize; ++i) {
                    for (uint32_t j = j0; j < j0 + width && j < p.nSize; ++j) {
                        col[uint64_t(i) * width + j - j0] =
                            FixValue<D>(s[(uint64_t(j / 16) * p.srcStride + i) * 16 + j % 16], p.quantPre,
                                        scale, p.reluEn);
                    }
                }
            }
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class D, class S, const FixpipeConfig& CONFIG = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<D>& dst, const LocalTensor<S>& src, const FixpipeParamsV220& p)
{
    gaf_twin::FixpipeAny<D, S>(dst.GetPhyAddr(), dst.View(), Hardware::GM, src,
                               CONFIG.format == CO2Layout::ROW_MAJOR, p);
}
template <class D, class S, const FixpipeConfig& CONFIG = CFG_ROW_MAJOR>
inline void Fixpipe(const LocalTensor<D>& dst, const LocalTensor<S>& src, const FixpipeParamsV220& p)
{
    gaf_twin::FixpipeAny<D, S>(dst.GetPhyAddr(), dst.View(), gaf_twin::HardwareOfTensor(dst), src,
                               CONFIG.format == CO2Layout::ROW_MAJOR, p);
}

}  // namespace AscendC

#endif  // GAF_TWIN_CUBE_H
