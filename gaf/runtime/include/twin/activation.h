// SPDX-License-Identifier: Apache-2.0
// High-level activations and softmax family on half and float: computed in float, rounded once.
#ifndef GAF_TWIN_ACTIVATION_H
#define GAF_TWIN_ACTIVATION_H

#include <math.h>

#include "twin/high.h"
#include "twin/tiling_data.h"

namespace gaf_twin {

inline float GeluOf(float x) { return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x))); }
inline float FasterGeluOf(float x) { return x / (1.0f + expf(-1.702f * x)); }
inline float SwishOf(float x, float beta) { return x / (1.0f + expf(-beta * x)); }

// dst[i] = fn(src[i]).
template <class T, class FN>
inline void Elementwise(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                        const Tmp8* tmp, uint64_t need, uint32_t n, uint32_t flags, FN fn)
{
    static_assert(OneOf<T, half, float>, "A2 takes half and float");
    HighCall call(api, flags);
    if (n != 0 && call.Read("src", src, n).TmpOrStack(tmp, need).Write("dst", dst, n).ok()) {
        for (uint32_t i = 0; i < n; ++i) {
            dst.GetPhyAddr()[i] = static_cast<T>(fn(F(src.GetPhyAddr()[i])));
        }
    }
}
template <class T, class FN>
inline void Elementwise2(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                         const AscendC::LocalTensor<T>& b, const Tmp8* tmp, uint64_t need, uint32_t n,
                         uint32_t flags, FN fn)
{
    static_assert(OneOf<T, half, float>, "A2 takes half and float");
    HighCall call(api, flags);
    if (n != 0 && call.Read("src0", a, n).Read("src1", b, n).TmpOrStack(tmp, need).Write("dst", dst, n).ok()) {
        for (uint32_t i = 0; i < n; ++i) {
            dst.GetPhyAddr()[i] = static_cast<T>(fn(F(a.GetPhyAddr()[i]), F(b.GetPhyAddr()[i])));
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_GELU(NAME, FN)                                                                               \
    template <class T, bool highPrecision = false, bool highPerformance = false>                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,   \
                     const uint32_t count)                                                                    \
    {                                                                                                         \
        gaf_twin::Elementwise(#NAME, dst, src, &tmp, 768, count, 0, &gaf_twin::FN);                           \
    }                                                                                                         \
    template <class T, bool highPrecision = false, bool highPerformance = false>                              \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)              \
    {                                                                                                         \
        gaf_twin::Elementwise(#NAME, dst, src, gaf_twin::NO_TMP, 768, count, 0, &gaf_twin::FN);               \
    }
GAF_TWIN_GELU(Gelu, GeluOf)
GAF_TWIN_GELU(FasterGelu, FasterGeluOf)
GAF_TWIN_GELU(FasterGeluV2, FasterGeluOf)
#undef GAF_TWIN_GELU

// src0 * act(src1).
#define GAF_TWIN_GATED(NAME, HALF_TMP, FN)                                                                    \
    template <class T, bool isReuseSource = false>                                                            \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,       \
                     const LocalTensor<uint8_t>& tmp, uint32_t count)                                         \
    {                                                                                                         \
        gaf_twin::Elementwise2(#NAME, dst, src0, src1, &tmp, sizeof(T) == 2 ? HALF_TMP : 0, count,            \
                               gaf_twin::check::OP_NO_ALIAS, FN);                                             \
    }                                                                                                         \
    template <class T, bool isReuseSource = false>                                                            \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,       \
                     uint32_t count)                                                                          \
    {                                                                                                         \
        gaf_twin::Elementwise2(#NAME, dst, src0, src1, gaf_twin::NO_TMP, sizeof(T) == 2 ? HALF_TMP : 0,       \
                               count, gaf_twin::check::OP_NO_ALIAS, FN);                                      \
    }                                                                                                         \
    template <class T, bool isReuseSource = false>                                                            \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,       \
                     const LocalTensor<uint8_t>& tmp)                                                         \
    {                                                                                                         \
        NAME<T, isReuseSource>(dst, src0, src1, tmp, src0.GetSize());                                         \
    }                                                                                                         \
    template <class T, bool isReuseSource = false>                                                            \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1)       \
    {                                                                                                         \
        NAME<T, isReuseSource>(dst, src0, src1, src0.GetSize());                                              \
    }
GAF_TWIN_GATED(GeGLU, 1024, [](float a, float b) { return a * gaf_twin::GeluOf(b); })
GAF_TWIN_GATED(ReGlu, 1536, [](float a, float b) { return b > 0 ? a * b : 0.0f; })
#undef GAF_TWIN_GATED

template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   const float& beta, const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    gaf_twin::Elementwise2("SwiGLU", dst, src0, src1, &tmp, sizeof(T) == 2 ? 1536 : 0, count,
                           gaf_twin::check::OP_NO_ALIAS,
                           [beta](float a, float b) { return a * gaf_twin::SwishOf(b, beta); });
}
template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   const float& beta, uint32_t count)
{
    gaf_twin::Elementwise2("SwiGLU", dst, src0, src1, gaf_twin::NO_TMP, sizeof(T) == 2 ? 1536 : 0, count,
                           gaf_twin::check::OP_NO_ALIAS,
                           [beta](float a, float b) { return a * gaf_twin::SwishOf(b, beta); });
}
template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   const float& beta, const LocalTensor<uint8_t>& tmp)
{
    SwiGLU<T, isReuseSource>(dst, src0, src1, beta, tmp, src0.GetSize());
}
template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   const float& beta)
{
    SwiGLU<T, isReuseSource>(dst, src0, src1, beta, src0.GetSize());
}
// The count comes before the scalar.
template <class T, bool isReuseSource = false>
inline void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, const T beta)
{
    const float b = gaf_twin::F(beta);
    gaf_twin::Elementwise("Swish", dst, src, gaf_twin::NO_TMP, 0, count, gaf_twin::check::OP_NO_ALIAS,
                          [b](float x) { return gaf_twin::SwishOf(x, b); });
}

// ---- softmax ----------------------------------------------------------------------------------------------
enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
    constexpr SoftmaxConfig(bool checkTiling, uint32_t m = 0, uint32_t k = 0,
                            SoftmaxMode kind = SoftmaxMode::SOFTMAX_NORMAL)
        : isCheckTiling(checkTiling), oriSrcM(m), oriSrcK(k), mode(kind)
    {
    }
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0, oriSrcK = 0;
    SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};
struct SoftMaxShapeInfo {
    uint32_t srcM{0}, srcK{0}, oriSrcM{0}, oriSrcK{0};
};
struct SoftMaxParams {
    uint32_t srcM{0}, srcK{0}, oriSrcM{0}, oriSrcK{0}, loopCnt{1}, splitMeanCnt{8};
    float alpha{0.9375};
};

}  // namespace AscendC

namespace gaf_twin {

// Rows of a softmax: m rows of `pitch` elements of which k count; Nz: blocks of 16 columns, [k/16][m][16].
struct SoftmaxShape {
    uint32_t m, k, pitch;
    bool nz;
    uint64_t At(uint32_t i, uint32_t j) const
    {
        return nz ? (uint64_t(j / 16) * m + i) * 16 + j % 16 : uint64_t(i) * pitch + j;
    }
};
template <class T, class TILING>
inline SoftmaxShape ShapeOfSoftmax(const char* api, const AscendC::LocalTensor<T>& src, const TILING& tiling,
                                   const AscendC::SoftMaxShapeInfo& info, const AscendC::SoftmaxConfig& config, bool nz)
{
    SoftmaxShape s{info.srcM, info.oriSrcK != 0 ? info.oriSrcK : info.srcK, info.srcK, nz};
#if !defined(GAF_TWIN_LEAN)
    const AscendC::ShapeInfo noted = src.GetShapeInfo();
    if (s.m == 0 && noted.shapeDim != 0 && noted.shapeDim <= 8) {
        s.pitch = noted.shape[noted.shapeDim - 1];
        s.m = s.pitch == 0 ? 0 : static_cast<uint32_t>(GetShapeSize(noted) / s.pitch);
        s.k = noted.originalShapeDim != 0 ? noted.originalShape[noted.originalShapeDim - 1] : s.pitch;
    }
#else
    (void)src;
#endif
    if (s.m == 0) {
        s.m = tiling.srcM;
        s.k = s.pitch = tiling.srcK;
    }
    s.k = config.oriSrcK != 0 ? config.oriSrcK : s.k;
    check::rule(s.m != 0 && s.k != 0 && s.k <= s.pitch, "softmax-shape", api, "%u rows of %u of %u columns", s.m, s.k,
                s.pitch);
    check::rule(uint64_t(s.pitch) * sizeof(T) % 32 == 0, "softmax-shape", api,
                "rows of %u elements are no multiple of 32 bytes", s.pitch);
    return s;
}
inline uint64_t SoftmaxTmp(uint32_t elemBytes, uint32_t k) { return 4 * (32 / elemBytes + uint64_t(k) + 64); }

// One value a row, repeated over a block of 32 bytes (or alone: config without broadcast).
template <class T>
inline void PutRow(const AscendC::LocalTensor<T>& t, uint32_t i, float v, bool alone)
{
    if (alone) {
        t.GetPhyAddr()[i] = static_cast<T>(v);
        return;
    }
    for (uint32_t j = 0; j < BLK<T>; ++j) {
        t.GetPhyAddr()[i * BLK<T> + j] = static_cast<T>(v);
    }
}
template <class T>
inline float GetRow(const AscendC::LocalTensor<T>& t, uint32_t i, bool alone)
{
    return F(t.GetPhyAddr()[alone ? i : i * BLK<T>]);
}
template <class T>
constexpr uint64_t RowElements(uint64_t m, bool alone)
{
    return alone ? m : m * BLK<T>;
}

template <class T>
inline float RowMax(const T* p, const SoftmaxShape& s, uint32_t i)
{
    float m = F(p[s.At(i, 0)]);
    for (uint32_t j = 1; j < s.k; ++j) {
        const float v = F(p[s.At(i, j)]);
        m = v > m ? v : m;
    }
    return m;
}

// dst = exp(src - max) / sum; sum and max null: not wanted. LOG: its logarithm to base 10.
template <class T, class U, bool LOG>
inline void SoftmaxRows(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>* sum,
                        const AscendC::LocalTensor<U>* max, const AscendC::LocalTensor<T>& src, const Tmp8* tmp,
                        const SoftmaxShape& s, bool alone)
{
    static_assert(OneOf<T, half, float>, "SoftMax: A2 takes half and float");
    const uint64_t all = uint64_t(s.m) * s.pitch;
    HighCall call(api);
    call.Read("src", src, all).TmpOrStack(tmp, SoftmaxTmp(sizeof(T), s.pitch)).Write("dst", dst, all);
    if (sum != nullptr) {
        call.Write("sum", *sum, RowElements<U>(s.m, alone)).Write("max", *max, RowElements<U>(s.m, alone));
    }
    if (!call.ok()) {
        return;
    }
    for (uint32_t i = 0; i < s.m; ++i) {
        const float m = RowMax(src.GetPhyAddr(), s, i);
        float total = 0;
        for (uint32_t j = 0; j < s.k; ++j) {
            total += expf(F(src.GetPhyAddr()[s.At(i, j)]) - m);
        }
        for (uint32_t j = 0; j < s.k; ++j) {
            const float v = F(src.GetPhyAddr()[s.At(i, j)]) - m;
            dst.GetPhyAddr()[s.At(i, j)] =
                static_cast<T>(LOG ? (v - logf(total)) * 0.4342944819032518f : expf(v) / total);
        }
        if (sum != nullptr) {
            PutRow(*sum, i, total, alone);
            PutRow(*max, i, m, alone);
        }
    }
}

// The online form: dst = exp(src - max) without division; update joins what came before.
template <class T, class U, bool UPDATE>
inline void FlashRows(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>* rowMax,
                      const AscendC::LocalTensor<U>& sum, const AscendC::LocalTensor<U>& max,
                      const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& expMax,
                      const AscendC::LocalTensor<U>& inSum, const AscendC::LocalTensor<U>& inMax, const Tmp8* tmp,
                      const SoftmaxShape& s, bool alone)
{
    static_assert(OneOf<T, half, float>, "SoftmaxFlashV2: A2 takes half and float");
    const uint64_t all = uint64_t(s.m) * s.pitch, rows = RowElements<U>(s.m, alone);
    HighCall call(api);
    call.Read("src", src, all)
        .Read("inExpSum", inSum, UPDATE ? rows : 0)
        .Read("inMax", inMax, UPDATE ? rows : 0)
        .TmpOrStack(tmp, SoftmaxTmp(sizeof(T), s.pitch))
        .Write("dst", dst, all)
        .Write("expSum", sum, rows)
        .Write("max", max, rows)
        .Write("expMax", expMax, UPDATE ? RowElements<T>(s.m, alone) : 0);
    if (rowMax != nullptr) {
        call.Write("reduceMax", *rowMax, rows);
    }
    if (!call.ok()) {
        return;
    }
    for (uint32_t i = 0; i < s.m; ++i) {
        const float own = RowMax(src.GetPhyAddr(), s, i);
        const float before = UPDATE ? GetRow(inMax, i, alone) : 0, m = UPDATE && before > own ? before : own;
        const float scale = UPDATE ? expf(before - m) : 0;
        float total = 0;
        for (uint32_t j = 0; j < s.k; ++j) {
            const float e = expf(F(src.GetPhyAddr()[s.At(i, j)]) - m);
            dst.GetPhyAddr()[s.At(i, j)] = static_cast<T>(e);
            total += e;
        }
        if (UPDATE) {
            total += scale * GetRow(inSum, i, alone);
            PutRow(expMax, i, scale, alone);
        }
        PutRow(sum, i, total, alone);
        PutRow(max, i, m, alone);
        if (rowMax != nullptr) {
            PutRow(*rowMax, i, own, alone);
        }
    }
}

// grad * src summed over rows; FRONT: that alone, else dst = (grad - sum) * src.
template <class T>
inline void SoftmaxGradRows(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& grad,
                            const AscendC::LocalTensor<T>& src, const Tmp8* tmp, bool front, const SoftmaxShape& s)
{
    const uint64_t all = uint64_t(s.m) * s.pitch;
    HighCall call(api);
    call.Read("grad", grad, all)
        .Read("src", src, all)
        .TmpOrStack(tmp, SoftmaxTmp(sizeof(T), s.pitch))
        .Write("dst", dst, front ? RowElements<T>(s.m, false) : all);
    if (!call.ok()) {
        return;
    }
    for (uint32_t i = 0; i < s.m; ++i) {
        double exact = 0;  // the device adds in a tree, which is near
        for (uint32_t j = 0; j < s.k; ++j) {
            exact += static_cast<double>(F(grad.GetPhyAddr()[s.At(i, j)])) * F(src.GetPhyAddr()[s.At(i, j)]);
        }
        const float total = static_cast<float>(exact);
        if (front) {
            PutRow(dst, i, total, false);
            continue;
        }
        for (uint32_t j = 0; j < s.k; ++j) {
            const uint64_t at = s.At(i, j);
            dst.GetPhyAddr()[at] = static_cast<T>((F(grad.GetPhyAddr()[at]) - total) * F(src.GetPhyAddr()[at]));
        }
    }
}

constexpr bool Alone(const AscendC::SoftmaxConfig& c)
{
    return c.mode == AscendC::SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC;
}

}  // namespace gaf_twin

namespace AscendC {

// With sum and max (of type T, or float beside half data).
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class D, class U>
inline void SoftMax(const LocalTensor<D>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,
                    const LocalTensor<D>& src, const LocalTensor<uint8_t>& tmp, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s = gaf_twin::ShapeOfSoftmax("SoftMax", src, tiling, info, config, isDataFormatNZ);
    gaf_twin::SoftmaxRows<D, U, false>("SoftMax", dst, &sum, &max, src, &tmp, s, gaf_twin::Alone(config));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class D, class U>
inline void SoftMax(const LocalTensor<D>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,
                    const LocalTensor<D>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s = gaf_twin::ShapeOfSoftmax("SoftMax", src, tiling, info, config, isDataFormatNZ);
    gaf_twin::SoftmaxRows<D, U, false>("SoftMax", dst, &sum, &max, src, gaf_twin::NO_TMP, s, gaf_twin::Alone(config));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s = gaf_twin::ShapeOfSoftmax("SoftMax", src, tiling, info, config, false);
    gaf_twin::SoftmaxRows<T, T, false>("SoftMax", dst, nullptr, nullptr, src, &tmp, s, false);
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s = gaf_twin::ShapeOfSoftmax("SoftMax", src, tiling, info, config, false);
    gaf_twin::SoftmaxRows<T, T, false>("SoftMax", dst, nullptr, nullptr, src, gaf_twin::NO_TMP, s, false);
}
template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>
inline void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max,
                       const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp, const LogSoftMaxTiling& tiling,
                       const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s =
        gaf_twin::ShapeOfSoftmax("LogSoftMax", src, tiling, info, SOFTMAX_DEFAULT_CFG, isDataFormatNZ);
    gaf_twin::SoftmaxRows<T, T, true>("LogSoftMax", dst, &sum, &max, src, &tmp, s, false);
}
// Rows whose maximum has the bits `from` become `to`; whether there was one.
template <class T1, class T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
inline bool AdjustSoftMaxRes(const LocalTensor<T1>& res, const LocalTensor<T2>& max, const uint32_t from, const T1 to,
                             const SoftMaxShapeInfo& info)
{
    const gaf_twin::SoftmaxShape s{info.srcM, info.srcK, info.srcK, isDataFormatNZ};
    gaf_twin::HighCall call("AdjustSoftMaxRes");
    const uint64_t step = stepSizeMode == 0 ? gaf_twin::BLK<T2> : 1;
    if (!call.Read("max", max, uint64_t(s.m) * step).Write("softMaxRes", res, uint64_t(s.m) * s.pitch).ok()) {
        return false;
    }
    bool any = false;
    for (uint32_t i = 0; i < s.m; ++i) {
        uint32_t bits = 0;
        memcpy(&bits, max.GetPhyAddr() + i * step, sizeof(T2));
        if (bits != from) {
            continue;
        }
        any = true;
        for (uint32_t j = 0; j < s.k; ++j) {
            res.GetPhyAddr()[s.At(i, j)] = to;
        }
    }
    return any;
}
// exp(src - max) / sum with max and sum given.
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class D, class U>
inline void SimpleSoftMax(const LocalTensor<D>& dst, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,
                          const LocalTensor<D>& src, const LocalTensor<uint8_t>& tmp, const SoftMaxTiling& tiling,
                          const SoftMaxShapeInfo& info = {})
{
    const gaf_twin::SoftmaxShape s =
        gaf_twin::ShapeOfSoftmax("SimpleSoftMax", src, tiling, info, config, isDataFormatNZ);
    const uint64_t all = uint64_t(s.m) * s.pitch, rows = gaf_twin::RowElements<U>(s.m, gaf_twin::Alone(config));
    gaf_twin::HighCall call("SimpleSoftMax");
    call.Read("src", src, all).Read("inSum", inSum, rows).Read("inMax", inMax, rows).Tmp(tmp, 0).Write("dst", dst, all);
    for (uint32_t i = 0; call.ok() && i < s.m; ++i) {
        const float m = gaf_twin::GetRow(inMax, i, gaf_twin::Alone(config)),
                    total = gaf_twin::GetRow(inSum, i, gaf_twin::Alone(config));
        for (uint32_t j = 0; j < s.k; ++j) {
            dst.GetPhyAddr()[s.At(i, j)] =
                static_cast<D>(expf(gaf_twin::F(src.GetPhyAddr()[s.At(i, j)]) - m) / total);
        }
    }
}

#define GAF_TWIN_FLASH(TMP_PARAMETER, TMP)                                                                       \
    template <class T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,             \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class D, class U>  \
    inline void SoftmaxFlashV2(const LocalTensor<D>& dst, const LocalTensor<U>& expSum,                          \
                               const LocalTensor<U>& max, const LocalTensor<D>& src,                             \
                               const LocalTensor<D>& expMax, const LocalTensor<U>& inExpSum,                     \
                               const LocalTensor<U>& inMax, TMP_PARAMETER const SoftMaxTiling& tiling,           \
                               const SoftMaxShapeInfo& info = {})                                                \
    {                                                                                                            \
        const gaf_twin::SoftmaxShape s =                                                                         \
            gaf_twin::ShapeOfSoftmax("SoftmaxFlashV2", src, tiling, info, config, isDataFormatNZ);               \
        gaf_twin::FlashRows<D, U, isUpdate>("SoftmaxFlashV2", dst, static_cast<const LocalTensor<U>*>(nullptr),  \
                                            expSum, max, src, expMax, inExpSum, inMax, TMP, s,                   \
                                            gaf_twin::Alone(config));                                            \
    }                                                                                                            \
    template <class T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,             \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                    \
    inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<T>& reduceMax,                       \
                               const LocalTensor<T>& expSum, const LocalTensor<T>& max,                          \
                               const LocalTensor<T>& src, const LocalTensor<T>& expMax,                          \
                               const LocalTensor<T>& inExpSum, const LocalTensor<T>& inMax,                      \
                               TMP_PARAMETER const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {})     \
    {                                                                                                            \
        const gaf_twin::SoftmaxShape s =                                                                         \
            gaf_twin::ShapeOfSoftmax("SoftmaxFlashV2", src, tiling, info, config, isDataFormatNZ);               \
        gaf_twin::FlashRows<T, T, isUpdate>("SoftmaxFlashV2", dst, &reduceMax, expSum, max, src, expMax,         \
                                            inExpSum, inMax, TMP, s, gaf_twin::Alone(config));                   \
    }                                                                                                            \
    template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>                                  \
    inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,    \
                            TMP_PARAMETER const SoftMaxTiling& tiling, bool isFront = false,                     \
                            const SoftMaxShapeInfo& info = {})                                                   \
    {                                                                                                            \
        gaf_twin::SoftmaxGradRows("SoftmaxGrad", dst, grad, src, TMP, isFront,                                   \
                                  gaf_twin::ShapeOfSoftmax("SoftmaxGrad", src, tiling, info,                     \
                                                           SOFTMAX_DEFAULT_CFG, isDataFormatNZ));                \
    }                                                                                                            \
    template <class T, bool isBasicBlock = false, bool isDataFormatNZ = false>                                   \
    inline void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad,                          \
                                 const LocalTensor<T>& src, TMP_PARAMETER const SoftMaxTiling& tiling,           \
                                 const SoftMaxShapeInfo& info = {})                                              \
    {                                                                                                            \
        gaf_twin::SoftmaxGradRows("SoftmaxGradFront", dst, grad, src, TMP, true,                                 \
                                  gaf_twin::ShapeOfSoftmax("SoftmaxGradFront", src, tiling, info,                \
                                                           SOFTMAX_DEFAULT_CFG, isDataFormatNZ));                \
    }
#define GAF_TWIN_TMP const LocalTensor<uint8_t>&tmp,
GAF_TWIN_FLASH(GAF_TWIN_TMP, &tmp)
GAF_TWIN_FLASH(, gaf_twin::NO_TMP)
#undef GAF_TWIN_FLASH

}  // namespace AscendC

namespace gaf_twin {

// SoftmaxFlashV3: the rows' mean is subtracted in parts of k / splitMeanCnt columns before the maximum.
template <class T, class U, bool UPDATE>
inline void FlashV3(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& mean,
                    const AscendC::LocalTensor<U>& sum, const AscendC::LocalTensor<U>& max,
                    const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& expMax,
                    const AscendC::LocalTensor<U>& inMean, const AscendC::LocalTensor<U>& inSum,
                    const AscendC::LocalTensor<U>& inMax, const Tmp8* tmp, const AscendC::SoftMaxParams& p)
{
    const uint32_t m = p.srcM, k = p.oriSrcK != 0 ? p.oriSrcK : p.srcK, parts = p.splitMeanCnt, part = k / parts;
    const uint64_t all = uint64_t(m) * p.srcK, rows = RowElements<U>(m, false);
    HighCall call("SoftmaxFlashV3");
    call.Rule(parts == 8 && k % 64 == 0 && k >= 512, "softmax-shape",
              "splitMeanCnt %u and %u columns: 8 and a multiple of 64 from 512", parts, k)
        .Read("src", src, all)
        .Read("inMean", inMean, UPDATE ? rows : 0)
        .Read("inExpSum", inSum, UPDATE ? rows : 0)
        .Read("inMax", inMax, UPDATE ? rows : 0)
        .TmpOrStack(tmp, SoftmaxTmp(sizeof(T), p.srcK))
        .Write("dst", dst, all)
        .Write("mean", mean, rows)
        .Write("expSum", sum, rows)
        .Write("max", max, rows)
        .Write("expMax", expMax, UPDATE ? RowElements<T>(m, false) : 0);
    if (!call.ok() || part == 0) {
        return;
    }
    const float scalar = p.alpha / (1.0f - p.alpha), count = static_cast<float>(p.loopCnt);
    for (uint32_t i = 0; i < m; ++i) {
        const T* row = src.GetPhyAddr() + uint64_t(i) * p.srcK;
        // Partial sums of blocks of 8 columns; those behind column 512 are added lane by lane.
        float lanes[64], local[8] = {}, global = 0;
        for (uint32_t j = 0; j < 64; ++j) {
            lanes[j] = 0;
            for (uint32_t t = 0; t < 8; ++t) {
                lanes[j] += F(row[j * 8 + t]);
            }
            for (uint32_t q = 512 + j; q < k; q += 64) {
                lanes[j] += F(row[q]);
            }
            local[j / 8] += lanes[j];
        }
        for (float& v : local) {
            v /= static_cast<float>(part);
            global += v;
        }
        global /= 8;
        const float before = UPDATE ? GetRow(inMean, i, false) : 0;
        const float mu = UPDATE ? (global + before * (count - 1)) / count : global;
        float top = 0;
        for (uint32_t j = 0; j < k; ++j) {
            const float v = F(row[j]) - (global - local[j / part]) * scalar;
            top = j == 0 || v > top ? v : top;
        }
        const float now = (global - mu) * scalar, prev = UPDATE ? (before - mu) * scalar : 0;
        float best = now + top;
        if (UPDATE && prev + GetRow(inMax, i, false) > best) {
            best = prev + GetRow(inMax, i, false);
        }
        float total = 0;
        for (uint32_t j = 0; j < k; ++j) {
            const float e = expf(F(row[j]) - (global - local[j / part]) * scalar - (best - now));
            dst.GetPhyAddr()[uint64_t(i) * p.srcK + j] = static_cast<T>(e);
            total += e;
        }
        if (UPDATE) {
            const float scale = expf(GetRow(inMax, i, false) - best + prev);
            total += scale * GetRow(inSum, i, false);
            PutRow(expMax, i, scale, false);
        }
        PutRow(mean, i, mu, false);
        PutRow(sum, i, total, false);
        PutRow(max, i, best, false);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_FLASH3(TMP_PARAMETER, TMP)                                                                    \
    template <class T, class U, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,  \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                  \
    inline void SoftmaxFlashV3(const LocalTensor<T>& dst, const LocalTensor<U>& mean,                          \
                               const LocalTensor<U>& expSum, const LocalTensor<U>& max,                        \
                               const LocalTensor<T>& src, const LocalTensor<T>& expMax,                        \
                               const LocalTensor<U>& inMean, const LocalTensor<U>& inExpSum,                   \
                               const LocalTensor<U>& inMax, TMP_PARAMETER const SoftMaxTiling&,                \
                               const SoftMaxParams& params)                                                    \
    {                                                                                                          \
        gaf_twin::FlashV3<T, U, isUpdate>(dst, mean, expSum, max, src, expMax, inMean, inExpSum, inMax, TMP,   \
                                          params);                                                             \
    }
GAF_TWIN_FLASH3(GAF_TWIN_TMP, &tmp)
GAF_TWIN_FLASH3(, gaf_twin::NO_TMP)
#undef GAF_TWIN_FLASH3
#undef GAF_TWIN_TMP

}  // namespace AscendC

#endif  // GAF_TWIN_ACTIVATION_H
