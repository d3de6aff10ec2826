// SPDX-License-Identifier: Apache-2.0
// High-level normalisations: LayerNorm and its gradients, RmsNorm, DeepNorm, GroupNorm, Welford, Normalize.
#ifndef GAF_TWIN_NORMALIZE_H
#define GAF_TWIN_NORMALIZE_H

#include <math.h>

#include "twin/high.h"
#include "twin/tiling_data.h"

namespace gaf_twin {

template <class T>
inline void RowStatistics(const T* row, uint32_t h, float* mean, float* variance)
{
    double sum = 0, square = 0;
    for (uint32_t j = 0; j < h; ++j) {
        sum += F(row[j]);
    }
    const double m = sum / h;
    for (uint32_t j = 0; j < h; ++j) {
        square += (F(row[j]) - m) * (F(row[j]) - m);
    }
    *mean = static_cast<float>(m);
    *variance = static_cast<float>(square / h);
}
inline uint64_t NormTmp(uint32_t rows, uint32_t h) { return 4 * (3 * uint64_t(h)) + 2 * RoundUp(4 * rows, 32); }

}  // namespace gaf_twin

namespace AscendC {

struct LayerNormConfig {
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false, isOutputRstd = true;
};
constexpr LayerNormConfig LNCFG_NORM = {false, false, false, true};
constexpr LayerNormConfig LNCFG_NOBETA = {true, false, false, true};
constexpr LayerNormConfig LNCFG_NOGAMMA = {false, true, false, true};
constexpr LayerNormConfig LNCFG_ONLYOUTPUT = {false, false, true, true};
struct LayerNormPara {
    uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// y[b, s, h] from x with mean and variance of every row; pads of a row (beyond originalHLength) do not count.
template <class T>
inline void LayerNormRows(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& mean,
                          const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& x,
                          const AscendC::LocalTensor<T>& gamma, const AscendC::LocalTensor<T>& beta, const Tmp8* tmp,
                          T epsilon, const LayerNormTiling& t)
{
    static_assert(OneOf<T, half, float>, "LayerNorm: A2 takes half and float");
    const uint32_t rows = t.bLength * t.sLength, pitch = t.hLength, h = t.originalHLength != 0 ? t.originalHLength : pitch;
    HighCall call("LayerNorm");
    call.Rule(rows != 0 && h != 0 && h <= pitch && pitch * sizeof(T) % 32 == 0, "norm-shape",
              "%u rows of %u of %u elements (rows are multiples of 32 bytes)", rows, h, pitch)
        .Reserved()
        .Read("inputX", x, uint64_t(rows) * pitch)
        .Read("gamma", gamma, pitch)
        .Read("beta", beta, pitch)
        .TmpOrStack(tmp, NormTmp(rows, pitch))
        .Write("output", y, uint64_t(rows) * pitch)
        .Write("outputMean", mean, rows)
        .Write("outputVariance", variance, rows);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const T* row = x.GetPhyAddr() + uint64_t(i) * pitch;
        float m, v;
        RowStatistics(row, h, &m, &v);
        const float rstd = 1.0f / sqrtf(v + F(epsilon));
        for (uint32_t j = 0; j < pitch; ++j) {
            y.GetPhyAddr()[uint64_t(i) * pitch + j] =
                static_cast<T>((F(row[j]) - m) * rstd * F(gamma.GetPhyAddr()[j]) + F(beta.GetPhyAddr()[j]));
        }
        mean.GetPhyAddr()[i] = static_cast<T>(m);
        variance.GetPhyAddr()[i] = static_cast<T>(v);
    }
}
template <class U, class T>
inline void LayerNormRstd(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<float>& mean,
                          const AscendC::LocalTensor<float>& rstd, const AscendC::LocalTensor<T>& x,
                          const AscendC::LocalTensor<U>& gamma, const AscendC::LocalTensor<U>& beta, const Tmp8* tmp,
                          float epsilon, const AscendC::LayerNormPara& p, const AscendC::LayerNormConfig& config)
{
    const uint32_t rows = p.aLength, pitch = p.rLengthWithPadding, h = p.rLength;
    HighCall call("LayerNorm");
    call.Rule(rows != 0 && h != 0 && h <= pitch, "norm-shape", "%u rows of %u of %u elements", rows, h, pitch)
        .Reserved()
        .Read("inputX", x, uint64_t(rows) * pitch)
        .Read("gamma", gamma, config.isNoGamma ? 0 : h)
        .Read("beta", beta, config.isNoBeta ? 0 : h)
        .TmpOrStack(tmp, NormTmp(1, pitch))
        .Write("output", y, uint64_t(rows) * pitch)
        .Write("outputMean", mean, config.isOnlyOutput ? 0 : rows)
        .Write("outputRstd", rstd, config.isOnlyOutput ? 0 : rows);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const T* row = x.GetPhyAddr() + uint64_t(i) * pitch;
        float m, v;
        RowStatistics(row, h, &m, &v);
        const float r = 1.0f / sqrtf(v + epsilon);
        for (uint32_t j = 0; j < h; ++j) {
            const float g = config.isNoGamma ? 1.0f : F(gamma.GetPhyAddr()[j]), b = config.isNoBeta ? 0.0f : F(beta.GetPhyAddr()[j]);
            y.GetPhyAddr()[uint64_t(i) * pitch + j] = static_cast<T>((F(row[j]) - m) * r * g + b);
        }
        if (!config.isOnlyOutput) {
            mean.GetPhyAddr()[i] = m;
            rstd.GetPhyAddr()[i] = config.isOutputRstd ? r : v;
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                      const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const LocalTensor<uint8_t>& tmp, const T epsilon, LayerNormTiling& tiling)
{
    gaf_twin::LayerNormRows(output, mean, variance, x, gamma, beta, &tmp, epsilon, tiling);
}
template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                      const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const T epsilon, LayerNormTiling& tiling)
{
    gaf_twin::LayerNormRows(output, mean, variance, x, gamma, beta, gaf_twin::NO_TMP, epsilon, tiling);
}
template <class U, class T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& mean, const LocalTensor<float>& rstd,
                      const LocalTensor<T>& x, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const float epsilon, const LocalTensor<uint8_t>& tmp, const LayerNormPara& para,
                      const LayerNormSeparateTiling&)
{
    gaf_twin::LayerNormRstd(output, mean, rstd, x, gamma, beta, &tmp, epsilon, para, config);
}
template <class U, class T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& mean, const LocalTensor<float>& rstd,
                      const LocalTensor<T>& x, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const float epsilon, const LayerNormPara& para, const LayerNormSeparateTiling&)
{
    gaf_twin::LayerNormRstd(output, mean, rstd, x, gamma, beta, gaf_twin::NO_TMP, epsilon, para, config);
}

struct LayerNormGradShapeInfo {
    DataFormat dataFormat = DataFormat::ND;
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void LayerNormGradRows(const AscendC::LocalTensor<T>& pdX, const AscendC::LocalTensor<T>& resForGamma,
                              const AscendC::LocalTensor<T>& dy, const AscendC::LocalTensor<T>& x,
                              const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& mean,
                              const AscendC::LocalTensor<T>& gamma, const Tmp8* tmp, T epsilon,
                              const LayerNormGradTiling& t)
{
    const uint32_t rows = t.bLength * t.sLength, pitch = t.hLength, h = t.originalHLength != 0 ? t.originalHLength : pitch;
    const uint64_t all = uint64_t(rows) * pitch;
    HighCall call("LayerNormGrad");
    call.Rule(rows != 0 && h != 0 && h <= pitch, "norm-shape", "%u rows of %u of %u elements", rows, h, pitch)
        .Read("inputDy", dy, all)
        .Read("inputX", x, all)
        .Read("inputVariance", variance, rows)
        .Read("inputMean", mean, rows)
        .Read("inputGamma", gamma, pitch)
        .TmpOrStack(tmp, 9 * 4 * uint64_t(pitch))
        .Write("outputPdX", pdX, all)
        .Write("resForGamma", resForGamma, all);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const double m = F(mean.GetPhyAddr()[i]), r = 1.0 / sqrt(double(F(variance.GetPhyAddr()[i])) + F(epsilon));
        double pdVar = 0, pdMean = 0, centred = 0;
        for (uint32_t j = 0; j < h; ++j) {
            const uint64_t at = uint64_t(i) * pitch + j;
            const double pdXl = double(F(dy.GetPhyAddr()[at])) * F(gamma.GetPhyAddr()[j]), d = F(x.GetPhyAddr()[at]) - m;
            pdVar += -0.5 * pdXl * d * r * r * r;
            pdMean += -pdXl * r;
            centred += -2.0 * d;
        }
        pdMean += pdVar * centred / h;
        for (uint32_t j = 0; j < h; ++j) {
            const uint64_t at = uint64_t(i) * pitch + j;
            const double pdXl = double(F(dy.GetPhyAddr()[at])) * F(gamma.GetPhyAddr()[j]), d = F(x.GetPhyAddr()[at]) - m;
            pdX.GetPhyAddr()[at] = static_cast<T>(static_cast<float>(pdXl * r + pdVar * 2.0 / h * d + pdMean / h));
            resForGamma.GetPhyAddr()[at] = static_cast<T>(static_cast<float>(d * r));
        }
    }
}
template <class T>
inline void LayerNormGradBetaRows(const AscendC::LocalTensor<T>& pdGamma, const AscendC::LocalTensor<T>& pdBeta,
                                  const AscendC::LocalTensor<T>& resForGamma, const AscendC::LocalTensor<T>& dy,
                                  const Tmp8* tmp, const LayerNormGradBetaTiling& t)
{
    const uint32_t rows = t.bLength * t.sLength, pitch = t.hLength;
    HighCall call("LayerNormGradBeta");
    call.Read("resForGamma", resForGamma, uint64_t(rows) * pitch)
        .Read("inputDy", dy, uint64_t(rows) * pitch)
        .TmpOrStack(tmp, sizeof(T) == 2 ? 4 * 4 * uint64_t(pitch) : 0)
        .Write("outputPdGamma", pdGamma, pitch)
        .Write("outputPdBeta", pdBeta, pitch);
    for (uint32_t j = 0; call.ok() && j < pitch; ++j) {
        float g = 0, b = 0;
        for (uint32_t i = 0; i < rows; ++i) {
            const uint64_t at = uint64_t(i) * pitch + j;
            g += F(dy.GetPhyAddr()[at]) * F(resForGamma.GetPhyAddr()[at]);
            b += F(dy.GetPhyAddr()[at]);
        }
        pdGamma.GetPhyAddr()[j] = static_cast<T>(g);
        pdBeta.GetPhyAddr()[j] = static_cast<T>(b);
    }
}
// LayerNorm of alpha * x + gx.
template <class T>
inline void DeepNormRows(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& mean,
                         const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& x,
                         const AscendC::LocalTensor<T>& gx, const AscendC::LocalTensor<T>& beta,
                         const AscendC::LocalTensor<T>& gamma, const Tmp8* tmp, T alpha, T epsilon,
                         const DeepNormTiling& t)
{
    const uint32_t rows = t.bLength * t.sLength, pitch = t.hLength, h = t.originalHLength != 0 ? t.originalHLength : pitch;
    const uint64_t all = uint64_t(rows) * pitch;
    HighCall call("DeepNorm");
    call.Rule(rows != 0 && h != 0 && h <= pitch, "norm-shape", "%u rows of %u of %u elements", rows, h, pitch)
        .Read("src", x, all)
        .Read("gx", gx, all)
        .Read("beta", beta, pitch)
        .Read("gamma", gamma, pitch)
        .TmpOrStack(tmp, NormTmp(rows, pitch))
        .Write("dst", y, all)
        .Write("mean", mean, rows)
        .Write("variance", variance, rows);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const uint64_t row = uint64_t(i) * pitch;
        auto at = [&](uint32_t j) { return F(alpha) * F(x.GetPhyAddr()[row + j]) + F(gx.GetPhyAddr()[row + j]); };
        double sum = 0, square = 0;
        for (uint32_t j = 0; j < h; ++j) {
            sum += at(j);
        }
        const double m = sum / h;
        for (uint32_t j = 0; j < h; ++j) {
            square += (at(j) - m) * (at(j) - m);
        }
        const float v = static_cast<float>(square / h), r = static_cast<float>(1.0 / sqrt(square / h + F(epsilon)));
        for (uint32_t j = 0; j < h; ++j) {
            y.GetPhyAddr()[row + j] = static_cast<T>((at(j) - static_cast<float>(m)) * r * F(gamma.GetPhyAddr()[j]) +
                                                     F(beta.GetPhyAddr()[j]));
        }
        mean.GetPhyAddr()[i] = static_cast<T>(static_cast<float>(m));
        variance.GetPhyAddr()[i] = static_cast<T>(v);  // despite its name in the documentation, rstdLocal
    }
}
template <class T>
inline void RmsNormRows(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& x,
                        const AscendC::LocalTensor<T>& gamma, const Tmp8* tmp, T epsilon, const RmsNormTiling& t)
{
    static_assert(OneOf<T, half, float>, "RmsNorm: A2 takes half and float");
    const uint32_t rows = t.bLength * t.sLength, pitch = t.hLength, h = t.originalHLength != 0 ? t.originalHLength : pitch;
    const uint64_t all = uint64_t(rows) * pitch;
    HighCall call("RmsNorm");
    call.Rule(rows != 0 && h != 0 && h <= pitch && pitch * sizeof(T) % 32 == 0, "norm-shape",
              "%u rows of %u of %u elements (rows are multiples of 32 bytes)", rows, h, pitch)
        .Read("src", x, all)
        .Read("gamma", gamma, pitch)
        .TmpOrStack(tmp, sizeof(T) == 4 ? 4 * (uint64_t(pitch) + 8) : 4 * (2 * uint64_t(pitch) + 16))
        .Write("dst", y, all);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const T* row = x.GetPhyAddr() + uint64_t(i) * pitch;
        double square = 0;
        for (uint32_t j = 0; j < h; ++j) {
            square += double(F(row[j])) * F(row[j]);
        }
        const float r = static_cast<float>(1.0 / sqrt(square / h + F(epsilon)));
        for (uint32_t j = 0; j < h; ++j) {
            y.GetPhyAddr()[uint64_t(i) * pitch + j] = static_cast<T>(F(row[j]) * r * F(gamma.GetPhyAddr()[j]));
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

struct WelfordUpdateConfig {
    constexpr WelfordUpdateConfig(bool inplace) : isInplace(inplace) {}
    bool isInplace = false;
};
constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG = {false};
struct WelfordUpdateParam {
    uint32_t rnLength, abLength, abComputeLength;
    float nRec;
};
struct WelfordFinalizeConfig {
    constexpr WelfordFinalizeConfig(bool correction) : isCorrection(correction) {}
    bool isCorrection = false;
};
constexpr WelfordFinalizeConfig WFFINALIZE_DEFAULT_CFG = {false};
struct WelfordFinalizePara {
    uint32_t rnLength = 0, abLength = 0, headCount = 0, headCountLength = 0, tailCount = 0, tailCountLength = 0;
    float abRec = 0, rRec = 0, rRecWithCorrection = 0;
};
enum class ReducePattern : uint32_t { AR = 0, RA = 1, R, ARA, ARAR };
struct NormalizeConfig {
    ReducePattern reducePattern = ReducePattern::AR;
    int32_t aLength = -1;
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
constexpr NormalizeConfig NLCFG_NORM = {ReducePattern::AR, -1, false, false, false};
struct NormalizePara {
    uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// One step of Welford's sums: mean and variance sum of every column, over rnLength rows of x.
template <class T, class U, bool INPLACE>
inline void Welford(const AscendC::LocalTensor<U>& outMean, const AscendC::LocalTensor<U>& outVariance,
                    const AscendC::LocalTensor<U>& inMean, const AscendC::LocalTensor<U>& inVariance,
                    const AscendC::LocalTensor<T>& x, const Tmp8* tmp, const AscendC::WelfordUpdateParam& p)
{
    const uint32_t n = p.abComputeLength;
    HighCall call("WelfordUpdate");
    call.Rule(p.rnLength == 1, "welford-shape", "rnLength %u: only 1 is possible", p.rnLength)
        .Rule(n <= p.abLength && p.abLength % 8 == 0, "welford-shape", "%u of %u elements (a multiple of 8)", n, p.abLength)
        .Read("inputX", x, p.abLength)
        .Read("inputMean", inMean, p.abLength)
        .Read("inputVariance", inVariance, p.abLength)
        .TmpOrStack(tmp, 0)
        .Write("outputMean", outMean, p.abLength)
        .Write("outputVariance", outVariance, p.abLength);
    for (uint32_t i = 0; call.ok() && i < p.abLength; ++i) {
        const float m = F(inMean.GetPhyAddr()[i]), v = F(inVariance.GetPhyAddr()[i]), xi = F(x.GetPhyAddr()[i]);
        if (i < n) {
            const float next = m + (xi - m) * p.nRec;
            outMean.GetPhyAddr()[i] = static_cast<U>(next);
            outVariance.GetPhyAddr()[i] = static_cast<U>(v + (xi - m) * (xi - next));
        } else if (INPLACE) {
            outMean.GetPhyAddr()[i] = static_cast<U>(m);
            outVariance.GetPhyAddr()[i] = static_cast<U>(v);
        }
    }
}
inline void WelfordFinal(const AscendC::LocalTensor<float>& outMean, const AscendC::LocalTensor<float>& outVariance,
                         const AscendC::LocalTensor<float>& inMean, const AscendC::LocalTensor<float>& inVariance,
                         const AscendC::LocalTensor<int32_t>* counts, const Tmp8* tmp,
                         const AscendC::WelfordFinalizePara& p, bool correction)
{
    HighCall call("WelfordFinalize");
    call.Read("inputMean", inMean, p.abLength).Read("inputVariance", inVariance, p.abLength);
    if (counts != nullptr) {
        call.Read("counts", *counts, p.abLength);
    }
    call.TmpOrStack(tmp, 0).Write("outputMean", outMean, 8).Write("outputVariance", outVariance, 8);
    if (!call.ok()) {
        return;
    }
    const bool tail = p.tailCount != 0 && p.headCount != p.tailCount;
    auto count = [&](uint32_t i) {
        return counts != nullptr ? static_cast<double>(counts->GetPhyAddr()[i])
               : tail            ? static_cast<double>(i < p.headCountLength ? p.headCount : p.tailCount)
                                 : static_cast<double>(p.rnLength);
    };
    const bool weighted = counts != nullptr || tail;
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < p.abLength; ++i) {
        mean += weighted ? inMean.GetPhyAddr()[i] * count(i) * p.rRec : inMean.GetPhyAddr()[i] * double(p.abRec);
    }
    for (uint32_t i = 0; i < p.abLength; ++i) {
        const double d = inMean.GetPhyAddr()[i] - mean;
        square += inVariance.GetPhyAddr()[i] + d * d * count(i);
    }
    outMean.GetPhyAddr()[0] = static_cast<float>(mean);
    outVariance.GetPhyAddr()[0] = static_cast<float>(square * (correction ? p.rRecWithCorrection : p.rRec));
}
template <class U, class T>
inline void NormalizeRows(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<float>& rstd,
                          const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& variance,
                          const AscendC::LocalTensor<T>& x, const AscendC::LocalTensor<U>& gamma,
                          const AscendC::LocalTensor<U>& beta, const Tmp8* tmp, float epsilon,
                          const AscendC::NormalizePara& p, const AscendC::NormalizeConfig& c)
{
    const uint32_t rows = p.aLength, pitch = p.rLengthWithPadding, h = p.rLength;
    HighCall call("Normalize");
    call.Rule(c.reducePattern == AscendC::ReducePattern::AR, "norm-shape", "Normalize reduces the last axis only")
        .Read("inputX", x, uint64_t(rows) * pitch)
        .Read("inputMean", mean, rows)
        .Read("inputVariance", variance, rows)
        .Read("gamma", gamma, c.isNoGamma ? 0 : h)
        .Read("beta", beta, c.isNoBeta ? 0 : h)
        .TmpOrStack(tmp, 0)
        .Write("output", y, uint64_t(rows) * pitch)
        .Write("outputRstd", rstd, c.isOnlyOutput ? 0 : rows);
    for (uint32_t i = 0; call.ok() && i < rows; ++i) {
        const float r = 1.0f / sqrtf(variance.GetPhyAddr()[i] + epsilon), m = mean.GetPhyAddr()[i];
        for (uint32_t j = 0; j < h; ++j) {
            const uint64_t at = uint64_t(i) * pitch + j;
            const float g = c.isNoGamma ? 1.0f : F(gamma.GetPhyAddr()[j]), b = c.isNoBeta ? 0.0f : F(beta.GetPhyAddr()[j]);
            y.GetPhyAddr()[at] = static_cast<T>((F(x.GetPhyAddr()[at]) - m) * r * g + b);
        }
        if (!c.isOnlyOutput) {
            rstd.GetPhyAddr()[i] = r;
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_NORMS(TMP_PARAMETER, TMP)                                                                     \
    template <class T, bool isReuseSource = false>                                                             \
    inline void LayerNormGrad(const LocalTensor<T>& pdX, const LocalTensor<T>& resForGamma,                    \
                              const LocalTensor<T>& dy, const LocalTensor<T>& x,                               \
                              const LocalTensor<T>& variance, const LocalTensor<T>& mean,                      \
                              const LocalTensor<T>& gamma, TMP_PARAMETER T epsilon,                            \
                              LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& = {})                 \
    {                                                                                                          \
        gaf_twin::LayerNormGradRows(pdX, resForGamma, dy, x, variance, mean, gamma, TMP, epsilon, tiling);     \
    }                                                                                                          \
    template <class T, bool isReuseSource = false>                                                             \
    inline void LayerNormGradBeta(const LocalTensor<T>& pdGamma, const LocalTensor<T>& pdBeta,                 \
                                  const LocalTensor<T>& resForGamma, const LocalTensor<T>& dy,                 \
                                  TMP_PARAMETER const LayerNormGradBetaTiling& tiling)                         \
    {                                                                                                          \
        gaf_twin::LayerNormGradBetaRows(pdGamma, pdBeta, resForGamma, dy, TMP, tiling);                        \
    }                                                                                                          \
    template <class T, bool isReuseSrc = false, bool isBasicBlock = false>                                     \
    inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd,    \
                         const LocalTensor<T>& src, const LocalTensor<T>& gx, const LocalTensor<T>& beta,      \
                         const LocalTensor<T>& gamma, TMP_PARAMETER const T alpha, const T epsilon,            \
                         DeepNormTiling& tiling)                                                               \
    {                                                                                                          \
        gaf_twin::DeepNormRows(dst, mean, rstd, src, gx, beta, gamma, TMP, alpha, epsilon, tiling);            \
    }                                                                                                          \
    template <class T, bool isBasicBlock = false>                                                              \
    inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,     \
                        TMP_PARAMETER const T epsilon, const RmsNormTiling& tiling)                            \
    {                                                                                                          \
        gaf_twin::RmsNormRows(dst, src, gamma, TMP, epsilon, tiling);                                          \
    }                                                                                                          \
    template <class T, class U, bool isReuseSource = false,                                                    \
              const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>                                        \
    inline void WelfordUpdate(const LocalTensor<U>& outMean, const LocalTensor<U>& outVariance,                \
                              const LocalTensor<U>& inMean, const LocalTensor<U>& inVariance,                  \
                              const LocalTensor<T>& x, TMP_PARAMETER const WelfordUpdateParam& para)           \
    {                                                                                                          \
        gaf_twin::Welford<T, U, config.isInplace>(outMean, outVariance, inMean, inVariance, x, TMP, para);     \
    }                                                                                                          \
    template <bool isReuseSource = false, const WelfordFinalizeConfig& config = WFFINALIZE_DEFAULT_CFG>        \
    inline void WelfordFinalize(const LocalTensor<float>& outMean, const LocalTensor<float>& outVariance,      \
                                const LocalTensor<float>& inMean, const LocalTensor<float>& inVariance,        \
                                TMP_PARAMETER WelfordFinalizePara& para)                                       \
    {                                                                                                          \
        gaf_twin::WelfordFinal(outMean, outVariance, inMean, inVariance, nullptr, TMP, para,                   \
                               config.isCorrection);                                                           \
    }                                                                                                          \
    template <bool isReuseSource = false, const WelfordFinalizeConfig& config = WFFINALIZE_DEFAULT_CFG>        \
    inline void WelfordFinalize(const LocalTensor<float>& outMean, const LocalTensor<float>& outVariance,      \
                                const LocalTensor<float>& inMean, const LocalTensor<float>& inVariance,        \
                                const LocalTensor<int32_t>& counts, TMP_PARAMETER WelfordFinalizePara& para)   \
    {                                                                                                          \
        gaf_twin::WelfordFinal(outMean, outVariance, inMean, inVariance, &counts, TMP, para,                   \
                               config.isCorrection);                                                           \
    }                                                                                                          \
    template <class U, class T, bool isReuseSource = false, const NormalizeConfig& config = NLCFG_NORM>        \
    inline void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& rstd,                        \
                          const LocalTensor<float>& mean, const LocalTensor<float>& variance,                  \
                          const LocalTensor<T>& x, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,    \
                          TMP_PARAMETER const float epsilon, const NormalizePara& para)                        \
    {                                                                                                          \
        gaf_twin::NormalizeRows(output, rstd, mean, variance, x, gamma, beta, TMP, epsilon, para, config);     \
    }
#define GAF_TWIN_TMP const LocalTensor<uint8_t>&tmp,
GAF_TWIN_NORMS(GAF_TWIN_TMP, &tmp)
GAF_TWIN_NORMS(, gaf_twin::NO_TMP)
#undef GAF_TWIN_TMP
#undef GAF_TWIN_NORMS

}  // namespace AscendC

#endif  // GAF_TWIN_NORMALIZE_H
