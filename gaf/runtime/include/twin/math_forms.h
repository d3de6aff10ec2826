// SPDX-License-Identifier: Apache-2.0
// Further mathematics of the high-level API: Fmod, Xor, Clamp, CumSum, Rint, Fma, row reductions, DropOut, Select
// by bytes.
#ifndef GAF_TWIN_MATH_FORMS_H
#define GAF_TWIN_MATH_FORMS_H

#include <math.h>

#include "twin/activation.h"
#include "twin/forms.h"

namespace AscendC {

// ---- two tensors, with the four ways to give tmp and count ------------------------------------------------
#define GAF_TWIN_TWO(NAME, CALL)                                                                                 \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                     const LocalTensor<uint8_t>& tmp, const uint32_t count)                                      \
    {                                                                                                            \
        CALL(dst, src0, src1, &tmp, count);                                                                      \
    }                                                                                                            \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                     const uint32_t count)                                                                       \
    {                                                                                                            \
        CALL(dst, src0, src1, gaf_twin::NO_TMP, count);                                                          \
    }                                                                                                            \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                     const LocalTensor<uint8_t>& tmp)                                                            \
    {                                                                                                            \
        CALL(dst, src0, src1, &tmp, src0.GetSize());                                                             \
    }                                                                                                            \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1)          \
    {                                                                                                            \
        CALL(dst, src0, src1, gaf_twin::NO_TMP, src0.GetSize());                                                 \
    }

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void FmodFlat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                     const AscendC::LocalTensor<T>& b, const Tmp8* tmp, uint32_t n)
{
    Elementwise2("Fmod", dst, a, b, tmp, std::is_same<T, float>::value ? 256 : 768, n, check::OP_NO_ALIAS,
                 [](float x, float y) { return fmodf(x, y); });
}
template <class T>
inline void HypotFlat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                      const AscendC::LocalTensor<T>& b, const Tmp8* tmp, uint32_t n)
{
    Elementwise2("Hypot", dst, a, b, tmp, 256, n, check::OP_NO_ALIAS, [](float x, float y) { return hypotf(x, y); });
}
template <class T>
inline void XorFlat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                    const AscendC::LocalTensor<T>& b, const Tmp8* tmp, uint32_t n)
{
    static_assert(OneOf<T, int16_t, uint16_t>, "Xor: A2 takes int16_t and uint16_t");
    HighCall call("Xor", check::OP_NO_ALIAS);
    if (n != 0 && call.Read("src0", a, n).Read("src1", b, n).TmpOrStack(tmp, 256).Write("dst", dst, n).ok()) {
        for (uint32_t i = 0; i < n; ++i) {
            dst.GetPhyAddr()[i] = static_cast<T>(a.GetPhyAddr()[i] ^ b.GetPhyAddr()[i]);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

GAF_TWIN_TWO(Fmod, gaf_twin::FmodFlat)
GAF_TWIN_TWO(Hypot, gaf_twin::HypotFlat)
GAF_TWIN_TWO(Xor, gaf_twin::XorFlat)
#undef GAF_TWIN_TWO

// ---- Power without tmp, with a scalar base ----------------------------------------------------------------
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const LocalTensor<T>& exponent, uint32_t count)
{
    gaf_twin::HighCall call("Power", gaf_twin::check::OP_NO_ALIAS);
    if (count != 0 && call.Reserved()
                          .Read("src0", base, count)
                          .Read("src1", exponent, count)
                          .Stack(256 * (std::is_same<T, half>::value ? 14 : 6))
                          .Write("dst", dst, count)
                          .ok()) {
        gaf_twin::rt::Apply<gaf_twin::rt::Op::POWER, T>(dst.GetPhyAddr(), base.GetPhyAddr(), exponent.GetPhyAddr(),
                                                        count);
    }
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const LocalTensor<T>& exponent)
{
    Power<T, isReuseSource>(dst, base, exponent, base.GetSize());
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const LocalTensor<T>& exponent,
                  const LocalTensor<uint8_t>& tmp)
{
    Power<T, isReuseSource>(dst, base, exponent, tmp, base.GetSize());
}

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void PowerScalar(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& tensor, T scalar,
                        bool scalarBase, const Tmp8* tmp, uint32_t n)
{
    static_assert(OneOf<T, half, float, int32_t>, "Power: A2 takes half, float and int32_t");
    HighCall call("Power", check::OP_NO_ALIAS);
    call.Reserved()
        .Read("src", tensor, n)
        .TmpOrStack(tmp, 256 * (std::is_same<T, half>::value ? 14 : std::is_same<T, float>::value ? 5 : 7))
        .Write("dst", dst, n);
    T row[64];
    for (T& r : row) {
        r = scalar;
    }
    for (uint32_t i = 0; call.ok() && i < n; i += 64) {
        const T* t = tensor.GetPhyAddr() + i;
        rt::Apply<rt::Op::POWER, T>(dst.GetPhyAddr() + i, scalarBase ? row : t, scalarBase ? t : row,
                                    n - i < 64 ? n - i : 64);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const T& exponent, uint32_t count)
{
    gaf_twin::PowerScalar(dst, base, exponent, false, gaf_twin::NO_TMP, count);
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const T& base, const LocalTensor<T>& exponent,
                  const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    gaf_twin::PowerScalar(dst, exponent, base, true, &tmp, count);
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const T& base, const LocalTensor<T>& exponent, uint32_t count)
{
    gaf_twin::PowerScalar(dst, exponent, base, true, gaf_twin::NO_TMP, count);
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const T& exponent,
                  const LocalTensor<uint8_t>& tmp)
{
    gaf_twin::PowerScalar(dst, base, exponent, false, &tmp, base.GetSize());
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const T& exponent)
{
    gaf_twin::PowerScalar(dst, base, exponent, false, gaf_twin::NO_TMP, base.GetSize());
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const T& base, const LocalTensor<T>& exponent,
                  const LocalTensor<uint8_t>& tmp)
{
    gaf_twin::PowerScalar(dst, exponent, base, true, &tmp, exponent.GetSize());
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const T& base, const LocalTensor<T>& exponent)
{
    gaf_twin::PowerScalar(dst, exponent, base, true, gaf_twin::NO_TMP, exponent.GetSize());
}
template <class T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    gaf_twin::Elementwise("Exp", dst, src, gaf_twin::NO_TMP, std::is_same<T, float>::value ? 768 : 1024, count,
                          gaf_twin::check::OP_NO_ALIAS, [](float x) { return expf(x); });
}
template <class T, bool isReuseSource = false>
inline void Log(const LocalTensor<T>& dst, const LocalTensor<T>& src)
{
    Log<T, isReuseSource>(dst, src, src.GetSize());
}
template <class T, bool isReuseSource = false>
inline void Log10(const LocalTensor<T>& dst, const LocalTensor<T>& src)
{
    Log10<T, isReuseSource>(dst, src, src.GetSize());
}

// ---- Clamp, Rint, Fma, Axpy with half data and float sums -------------------------------------------------
#define GAF_TWIN_CLAMP(NAME, KEEP)                                                                               \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,      \
                     const T scalar, const uint32_t count)                                                       \
    {                                                                                                            \
        const float s = gaf_twin::F(scalar);                                                                     \
        gaf_twin::Elementwise(#NAME, dst, src, &tmp, 256, count, 0, [s](float x) { return KEEP ? x : s; });      \
    }                                                                                                            \
    template <class T, bool isReuseSource = false>                                                               \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t count) \
    {                                                                                                            \
        const float s = gaf_twin::F(scalar);                                                                     \
        gaf_twin::Elementwise(#NAME, dst, src, gaf_twin::NO_TMP, 256, count, 0,                                  \
                              [s](float x) { return KEEP ? x : s; });                                            \
    }
GAF_TWIN_CLAMP(ClampMax, x <= s)
GAF_TWIN_CLAMP(ClampMin, x >= s)
#undef GAF_TWIN_CLAMP

template <class T, class U, bool isReuseSource = false>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U scalar, const LocalTensor<uint8_t>& tmp,
                 const uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float> && gaf_twin::OneOf<U, half, float>, "Axpy: half and float");
    gaf_twin::HighCall call("Axpy");
    if (count != 0 && call.Read("src", src, count).Tmp(tmp, 0).Read("dst", dst, count).Write("dst", dst, count).ok()) {
        for (uint32_t i = 0; i < count; ++i) {
            dst.GetPhyAddr()[i] = static_cast<T>(gaf_twin::F(dst.GetPhyAddr()[i]) +
                                                 gaf_twin::F(src.GetPhyAddr()[i]) * gaf_twin::F(scalar));
        }
    }
}

// ---- CumSum -----------------------------------------------------------------------------------------------
enum class CumSumAlgorithm { CUMSUM_ALGORITHM_LINEBYLINE = 0, CUMSUM_ALGORITHM_SKLANSKY = 1 };
struct CumSumConfig {
    bool isLastAxis{true}, isReuseSource{false}, outputLastRow{false};
    CumSumAlgorithm algorithm{CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
};
constexpr CumSumConfig defaultCumSumConfig = {true, false, true, CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
struct CumSumInfo {
    uint32_t outter{0}, inner{0};
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void CumSumRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& last,
                       const AscendC::LocalTensor<T>& src, const Tmp8* tmp, const AscendC::CumSumInfo& info,
                       const AscendC::CumSumConfig& c)
{
    static_assert(OneOf<T, half, float>, "CumSum: A2 takes half and float");
    const uint32_t rows = info.outter, cols = info.inner;
    HighCall call("CumSum");
    call.Rule(uint64_t(cols) * sizeof(T) % 32 == 0, "cumsum-shape", "rows of %u elements are no multiple of 32 bytes",
              cols)
        .Read("src", src, uint64_t(rows) * cols)
        .TmpOrStack(tmp, 0)
        .Write("dst", dst, uint64_t(rows) * cols)
        .Write("lastRow", last, c.outputLastRow ? cols : 0);
    if (!call.ok()) {
        return;
    }
    const uint32_t lanes = c.isLastAxis ? rows : cols, steps = c.isLastAxis ? cols : rows;
    for (uint32_t l = 0; l < lanes; ++l) {
        float sum = 0;
        for (uint32_t s = 0; s < steps; ++s) {
            const uint64_t at = c.isLastAxis ? uint64_t(l) * cols + s : uint64_t(s) * cols + l;
            sum += F(src.GetPhyAddr()[at]);
            dst.GetPhyAddr()[at] = static_cast<T>(sum);
        }
    }
    if (c.outputLastRow) {
        memcpy(last.GetPhyAddr(), dst.GetPhyAddr() + uint64_t(rows - 1) * cols, cols * sizeof(T));
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, const CumSumConfig& config = defaultCumSumConfig>
inline void CumSum(LocalTensor<T>& dst, LocalTensor<T>& lastRow, const LocalTensor<T>& src, LocalTensor<uint8_t>& tmp,
                   const CumSumInfo& info)
{
    gaf_twin::CumSumRows(dst, lastRow, src, &tmp, info, config);
}
template <class T, const CumSumConfig& config = defaultCumSumConfig>
inline void CumSum(LocalTensor<T>& dst, LocalTensor<T>& lastRow, const LocalTensor<T>& src, const CumSumInfo& info)
{
    gaf_twin::CumSumRows(dst, lastRow, src, gaf_twin::NO_TMP, info, config);
}

// ---- reductions of rows -----------------------------------------------------------------------------------
struct SumParams {
    uint32_t outter = 1, inner = 0, n = 0;
};
struct MeanParams {
    uint32_t outter = 1, inner = 0, n = 0;
};
namespace Pattern {
namespace Reduce {
struct R {
};
struct AR {
};
struct RA {
};
}  // namespace Reduce
}  // namespace Pattern

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void SumRows(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                    const Tmp8* tmp, uint32_t outer, uint32_t inner, uint32_t n, bool mean)
{
    static_assert(OneOf<T, half, float>, "Sum, Mean: A2 takes half and float");
    HighCall call(api, check::OP_MAY_OVERLAP);
    call.Rule(uint64_t(inner) * sizeof(T) % 32 == 0 && n >= 1 && n <= inner, "sum-shape",
              "n %u, inner %u: 1 <= n <= inner, a multiple of 32 bytes", n, inner)
        .Read("src", src, uint64_t(outer) * inner)
        .TmpOrStack(tmp, uint64_t(RoundUp(DivUp(n, LANES<T>), BLK<T>)) * sizeof(T))
        .Write("dst", dst, outer);
    for (uint32_t i = 0; call.ok() && i < outer; ++i) {
        T part[512];
        uint32_t parts = 0;
        for (uint32_t j = 0; j < n; j += LANES<T>) {
            part[parts++ % 512] = rt::TreeSum<T>(src.GetPhyAddr() + uint64_t(i) * inner + j,
                                                 n - j < LANES<T> ? n - j : LANES<T>);
        }
        T total = parts <= LANES<T> ? rt::TreeSum<T>(part, parts) : T(0);
        for (uint32_t j = 0; parts > LANES<T> && j < parts; j += LANES<T>) {
            total = static_cast<T>(F(total) +
                                   F(rt::TreeSum<T>(part + j, parts - j < LANES<T> ? parts - j : LANES<T>)));
        }
        dst.GetPhyAddr()[i] = mean ? static_cast<T>(F(total) / static_cast<float>(n)) : total;
    }
}

enum class RowFold : uint8_t { SUM, MAX, MIN, PROD, MEAN, ANY, ALL };
template <RowFold FOLD, class T, class PATTERN>
inline void ReducePattern(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                          const Tmp8* tmp, const uint32_t shape[], bool innerPad)
{
    static_assert(OneOf<T, float>, "Reduce* by pattern: A2 takes float");
    constexpr bool last = std::is_same<PATTERN, AscendC::Pattern::Reduce::AR>::value;
    static_assert(last || std::is_same<PATTERN, AscendC::Pattern::Reduce::RA>::value, "A2 has the patterns AR and RA");
    const uint32_t rows = shape[0], cols = shape[1], pitch = innerPad ? RoundUp(cols, BLK<T>) : cols;
    HighCall call(api, check::OP_NO_ALIAS);
    call.Rule(innerPad, "reduce-pad", "srcInnerPad must be true on A2")
        .Read("src", src, uint64_t(rows) * pitch)
        .TmpOrStack(tmp, 0)
        .Write("dst", dst, last ? rows : pitch);
    const uint32_t results = last ? rows : cols, steps = last ? cols : rows;
    for (uint32_t r = 0; call.ok() && r < results; ++r) {
        float v = 0;
        for (uint32_t s = 0; s < steps; ++s) {
            const float x = F(src.GetPhyAddr()[last ? uint64_t(r) * pitch + s : uint64_t(s) * pitch + r]);
            if (s == 0) {
                v = FOLD == RowFold::ANY || FOLD == RowFold::ALL ? float(x != 0) : x;
                continue;
            }
            v = FOLD == RowFold::MAX    ? (x > v ? x : v)
                : FOLD == RowFold::MIN  ? (x < v ? x : v)
                : FOLD == RowFold::PROD ? v * x
                : FOLD == RowFold::ANY  ? float(v != 0 || x != 0)
                : FOLD == RowFold::ALL  ? float(v != 0 && x != 0)
                                        : v + x;
        }
        dst.GetPhyAddr()[r] = static_cast<T>(FOLD == RowFold::MEAN ? v / static_cast<float>(steps) : v);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                const SumParams& p)
{
    gaf_twin::SumRows("Sum", dst, src, &tmp, p.outter, p.inner, p.n, false);
}
template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& p)
{
    gaf_twin::SumRows("Sum", dst, src, gaf_twin::NO_TMP, p.outter, p.inner, p.n, false);
}
template <class T, class accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                 const MeanParams& p)
{
    gaf_twin::SumRows("Mean", dst, src, &tmp, p.outter, p.inner, p.n, true);
}
template <class T, class accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MeanParams& p)
{
    gaf_twin::SumRows("Mean", dst, src, gaf_twin::NO_TMP, p.outter, p.inner, p.n, true);
}
#define GAF_TWIN_REDUCE_PATTERN(NAME, FOLD)                                                                       \
    template <class T, class pattern, bool isReuseSource = false>                                                 \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,       \
                     const uint32_t srcShape[], bool srcInnerPad)                                                 \
    {                                                                                                             \
        gaf_twin::ReducePattern<gaf_twin::RowFold::FOLD, T, pattern>(#NAME, dst, src, &tmp, srcShape,             \
                                                                     srcInnerPad);                                \
    }                                                                                                             \
    template <class T, class pattern, bool isReuseSource = false>                                                 \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t srcShape[],             \
                     bool srcInnerPad)                                                                            \
    {                                                                                                             \
        gaf_twin::ReducePattern<gaf_twin::RowFold::FOLD, T, pattern>(#NAME, dst, src, gaf_twin::NO_TMP, srcShape, \
                                                                     srcInnerPad);                                \
    }
GAF_TWIN_REDUCE_PATTERN(ReduceSum, SUM)
GAF_TWIN_REDUCE_PATTERN(ReduceMax, MAX)
GAF_TWIN_REDUCE_PATTERN(ReduceMin, MIN)
GAF_TWIN_REDUCE_PATTERN(ReduceProd, PROD)
GAF_TWIN_REDUCE_PATTERN(ReduceMean, MEAN)
GAF_TWIN_REDUCE_PATTERN(ReduceAny, ANY)
GAF_TWIN_REDUCE_PATTERN(ReduceAll, ALL)
#undef GAF_TWIN_REDUCE_PATTERN

// ---- DropOut ----------------------------------------------------------------------------------------------
struct DropOutShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// Modes: 1 bytes with padding, 2 bytes, 3 bits, 4 bits with padding; 0: by the shapes.
template <class T>
inline void DropOutRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                        const AscendC::LocalTensor<uint8_t>& mask, const Tmp8* tmp, float keep,
                        const AscendC::DropOutShapeInfo& info, uint32_t mode)
{
    static_assert(OneOf<T, half, float>, "DropOut: A2 takes half and float");
    const uint32_t rows = info.firstAxis, cols = info.srcLastAxis, maskCols = info.maskLastAxis;
    if (mode == 0) {
        mode = cols == maskCols ? 2 : cols < maskCols ? 1 : cols == maskCols * 8 ? 3 : 4;
    }
    const bool bits = mode == 3 || mode == 4;
    const uint64_t maskBytes = mode == 3 ? DivUp(rows * cols, 8) : uint64_t(rows) * maskCols;
    HighCall call("DropOut");
    call.Rule(keep > 0 && keep < 1, "dropout-keep", "keepProb %f is not in (0, 1)", static_cast<double>(keep))
        .Reserved()
        .Read("src", src, uint64_t(rows) * cols)
        .Read("mask", mask, maskBytes)
        .TmpOrStack(tmp, 512)
        .Write("dst", dst, uint64_t(rows) * cols);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        for (uint32_t j = 0; j < cols; ++j) {
            const uint64_t at = uint64_t(i) * cols + j, bit = mode == 3 ? at : uint64_t(i) * maskCols * 8 + j;
            const bool taken = bits ? (mask.GetPhyAddr()[bit / 8] >> (bit % 8) & 1) != 0
                                    : mask.GetPhyAddr()[uint64_t(i) * maskCols + j] != 0;
            dst.GetPhyAddr()[at] = taken ? static_cast<T>(F(src.GetPhyAddr()[at]) * (1.0f / keep)) : T(0);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask,
                    const LocalTensor<uint8_t>& tmp, const float keepProb, const DropOutShapeInfo& info)
{
    gaf_twin::DropOutRows(dst, src, mask, &tmp, keepProb, info, dropOutMode);
}
template <class T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask,
                    const float keepProb, const DropOutShapeInfo& info)
{
    gaf_twin::DropOutRows(dst, src, mask, gaf_twin::NO_TMP, keepProb, info, dropOutMode);
}

// ---- Select by bytes: 0 takes src0 ------------------------------------------------------------------------
struct SelectWithBytesMaskShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};

}  // namespace AscendC

namespace gaf_twin {

template <class T, class U>
inline void SelectBytes(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, T scalar,
                        bool scalarFirst, const AscendC::LocalTensor<U>& mask, const Tmp8& tmp,
                        const AscendC::SelectWithBytesMaskShapeInfo& info)
{
    static_assert(OneOf<T, half, float> && (sizeof(U) == 1 || sizeof(U) == 2 || sizeof(U) == 4),
                  "Select by bytes: half and float");
    const uint64_t all = uint64_t(info.firstAxis) * info.srcLastAxis;
    HighCall call("Select");
    call.Rule(info.maskLastAxis >= info.srcLastAxis && uint64_t(info.maskLastAxis) * sizeof(U) % 32 == 0 &&
                  info.maskLastAxis % 16 == 0,
              "select-shape", "mask rows of %u elements for rows of %u", info.maskLastAxis, info.srcLastAxis)
        .Reserved()
        .Read("src", src, all)
        .Read("mask", mask, uint64_t(info.firstAxis) * info.maskLastAxis)
        .Tmp(tmp, 0)
        .Write("dst", dst, all);
    for (uint32_t i = 0; call.ok() && i < info.firstAxis; ++i) {
        for (uint32_t j = 0; j < info.srcLastAxis; ++j) {
            const uint64_t at = uint64_t(i) * info.srcLastAxis + j;
            const bool first = mask.GetPhyAddr()[uint64_t(i) * info.maskLastAxis + j] == static_cast<U>(0);
            dst.GetPhyAddr()[at] = first != scalarFirst ? src.GetPhyAddr()[at] : scalar;
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, class U, bool isReuseMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, T src1, const LocalTensor<U>& mask,
                   const LocalTensor<uint8_t>& tmp, const SelectWithBytesMaskShapeInfo& info)
{
    gaf_twin::SelectBytes(dst, src0, src1, false, mask, tmp, info);
}
template <class T, class U, bool isReuseMask = true>
inline void Select(const LocalTensor<T>& dst, T src0, const LocalTensor<T>& src1, const LocalTensor<U>& mask,
                   const LocalTensor<uint8_t>& tmp, const SelectWithBytesMaskShapeInfo& info)
{
    gaf_twin::SelectBytes(dst, src1, src0, true, mask, tmp, info);
}
template <class T, class U, bool isReuseMask = true>
inline void SelectWithBytesMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, T src1,
                                const LocalTensor<U>& mask, const LocalTensor<uint8_t>& tmp,
                                const SelectWithBytesMaskShapeInfo& info)
{
    gaf_twin::SelectBytes(dst, src0, src1, false, mask, tmp, info);
}
template <class T, class U, bool isReuseMask = true>
inline void SelectWithBytesMask(const LocalTensor<T>& dst, T src0, const LocalTensor<T>& src1,
                                const LocalTensor<U>& mask, const LocalTensor<uint8_t>& tmp,
                                const SelectWithBytesMaskShapeInfo& info)
{
    gaf_twin::SelectBytes(dst, src1, src0, true, mask, tmp, info);
}

}  // namespace AscendC

#endif  // GAF_TWIN_MATH_FORMS_H
