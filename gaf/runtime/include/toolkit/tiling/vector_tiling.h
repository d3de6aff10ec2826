// SPDX-License-Identifier: Apache-2.0
// Temporary memory and tiling of the vector calls of the high-level API.
#ifndef GAF_TWIN_VECTOR_TILING_H
#define GAF_TWIN_VECTOR_TILING_H

#include <algorithm>

#include "kernel_operator.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/shape.h"
#include "twin/tiling_data.h"

namespace gaf_twin {
namespace host {

// `temps` temporaries of the tensor's size (max), of 256 bytes (min).
inline void Range(const ge::Shape& shape, uint32_t typeSize, uint32_t temps, uint32_t& max, uint32_t& min)
{
    const uint32_t bytes = static_cast<uint32_t>(shape.GetShapeSize()) * typeSize;
    min = 256 * temps;
    max = temps * std::max(bytes, 256u);
}

}  // namespace host
}  // namespace gaf_twin

namespace AscendC {

// Temporaries with float and with half data, as the calls in twin/math.h want them.
#define GAF_TWIN_TMP_SIZE(NAME, FLOAT_TEMPS, HALF_TEMPS)                                                        \
    inline void Get##NAME##MaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool,           \
                                         uint32_t& maxValue, uint32_t& minValue)                                \
    {                                                                                                           \
        gaf_twin::host::Range(shape, typeSize, typeSize == 4 ? FLOAT_TEMPS : HALF_TEMPS, maxValue, minValue);   \
    }                                                                                                           \
    inline void Get##NAME##TmpBufferFactorSize(const uint32_t typeSize, uint32_t& maxLiveNodeCount,             \
                                               uint32_t& extraBuf)                                              \
    {                                                                                                           \
        maxLiveNodeCount = typeSize == 4 ? FLOAT_TEMPS : HALF_TEMPS;                                            \
        extraBuf = 0;                                                                                           \
    }
GAF_TWIN_TMP_SIZE(Tanh, 1, 4)
GAF_TWIN_TMP_SIZE(Erf, 3, 8)
GAF_TWIN_TMP_SIZE(Erfc, 7, 16)
GAF_TWIN_TMP_SIZE(Sigmoid, 1, 1)
GAF_TWIN_TMP_SIZE(Sin, 3, 8)
GAF_TWIN_TMP_SIZE(Cos, 3, 8)
GAF_TWIN_TMP_SIZE(Tan, 4, 10)
GAF_TWIN_TMP_SIZE(Asin, 4, 6)
GAF_TWIN_TMP_SIZE(Acos, 4, 6)
GAF_TWIN_TMP_SIZE(Atan, 5, 6)
GAF_TWIN_TMP_SIZE(Sinh, 2, 4)
GAF_TWIN_TMP_SIZE(Cosh, 2, 4)
GAF_TWIN_TMP_SIZE(Asinh, 3, 5)
GAF_TWIN_TMP_SIZE(Acosh, 1, 3)
GAF_TWIN_TMP_SIZE(Atanh, 1, 3)
GAF_TWIN_TMP_SIZE(Log, 1, 1)
GAF_TWIN_TMP_SIZE(Log2, 1, 4)
GAF_TWIN_TMP_SIZE(Log10, 1, 1)
GAF_TWIN_TMP_SIZE(Floor, 1, 1)
GAF_TWIN_TMP_SIZE(Ceil, 1, 1)
GAF_TWIN_TMP_SIZE(Trunc, 1, 1)
GAF_TWIN_TMP_SIZE(Sign, 3, 3)
GAF_TWIN_TMP_SIZE(Frac, 1, 4)
GAF_TWIN_TMP_SIZE(Fmod, 1, 3)
GAF_TWIN_TMP_SIZE(Hypot, 1, 4)
GAF_TWIN_TMP_SIZE(Xor, 1, 1)
GAF_TWIN_TMP_SIZE(Clamp, 1, 1)
GAF_TWIN_TMP_SIZE(Axpy, 1, 4)
GAF_TWIN_TMP_SIZE(Gelu, 3, 6)
GAF_TWIN_TMP_SIZE(GeGLU, 1, 4)
GAF_TWIN_TMP_SIZE(ReGlu, 1, 6)
GAF_TWIN_TMP_SIZE(DropOut, 2, 2)
GAF_TWIN_TMP_SIZE(Sort, 2, 4)
#undef GAF_TWIN_TMP_SIZE

inline void GetSwiGLUMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                   uint32_t& minValue, const bool)
{
    gaf_twin::host::Range(shape, typeSize, 6, maxValue, minValue);
}
inline bool GetExpMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool isReuseSource,
                                uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, typeSize == 4 ? (isReuseSource ? 2 : 3) : 4, maxValue, minValue);
    return true;
}
inline void GetRoundMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape& shape,
                                  const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, typeSize == 4 ? 1 : 3, maxValue, minValue);
}
inline void GetPowerMaxMinTmpSize(const ge::Shape& base, const ge::Shape& exponent, const bool typeIsInt,
                                  const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    const bool scalar = base.GetShapeSize() == 1 || exponent.GetShapeSize() == 1;
    const uint32_t temps = typeSize == 2 ? 14 : typeIsInt ? (scalar ? 7 : 6) : (scalar ? 5 : 4);
    gaf_twin::host::Range(base.GetShapeSize() > exponent.GetShapeSize() ? base : exponent, typeSize, temps, maxValue,
                          minValue);
}
inline void GetGeluMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                 uint32_t& minValue)
{
    GetGeluMaxMinTmpSize(shape, typeSize, false, maxValue, minValue);
    minValue = 768;
}
inline uint32_t GetGeluMinTmpSize(const ge::Shape&, const uint32_t) { return 768; }
inline uint32_t GetGeluMaxTmpSize(const ge::Shape& shape, const uint32_t)
{
    return std::max(768u, 12 * static_cast<uint32_t>(shape.GetShapeSize()));
}
inline void GetSiluTmpSize(const ge::Shape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    maxValue = minValue = 0;
}
inline void GetSwishTmpSize(const ge::Shape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    maxValue = minValue = 0;
}
inline void GetArangeMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }
inline void GetArithProgressionMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }
inline void GetSumMaxMinTmpSize(const uint32_t n, const uint32_t typeSize, const bool, uint32_t& maxValue,
                                uint32_t& minValue)
{
    const uint32_t lanes = 256 / typeSize, block = 32 / typeSize, parts = (n + lanes - 1) / lanes;
    maxValue = minValue = (parts + block - 1) / block * block * typeSize;
}
inline void GetMeanMaxMinTmpSize(const uint32_t n, const uint32_t typeSize, const uint32_t, const bool isReuseSource,
                                 uint32_t& maxValue, uint32_t& minValue)
{
    GetSumMaxMinTmpSize(n, typeSize, isReuseSource, maxValue, minValue);
}
inline void GetCumSumMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const bool, const bool, uint32_t& maxValue,
                                   uint32_t& minValue)
{
    maxValue = 2 * static_cast<uint32_t>(shape.GetShapeSize()) * 4;
    minValue = 16 * static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() - 1)) * 4;
}
#define GAF_TWIN_REDUCE_TMP(NAME)                                                                                  \
    template <class PATTERN>                                                                                       \
    inline void Get##NAME##MaxMinTmpSize(const ge::Shape& shape, const ge::DataType, PATTERN, bool, bool,          \
                                         uint32_t& maxValue, uint32_t& minValue)                                   \
    {                                                                                                              \
        gaf_twin::host::Range(shape, 4, 1, maxValue, minValue);                                                    \
    }
GAF_TWIN_REDUCE_TMP(ReduceSum)
GAF_TWIN_REDUCE_TMP(ReduceMax)
GAF_TWIN_REDUCE_TMP(ReduceMin)
GAF_TWIN_REDUCE_TMP(ReduceProd)
GAF_TWIN_REDUCE_TMP(ReduceMean)
GAF_TWIN_REDUCE_TMP(ReduceAny)
GAF_TWIN_REDUCE_TMP(ReduceAll)
#undef GAF_TWIN_REDUCE_TMP
inline uint32_t GetSortTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t count, uint32_t)
{
    return count * 8;
}
template <class CONFIG>
inline void GetSortMaxMinTmpSize(const ge::Shape& shape, TensorDataType, TensorDataType, bool, const CONFIG&,
                                 uint32_t& maxValue, uint32_t& minValue)
{
    maxValue = minValue = static_cast<uint32_t>(shape.GetShapeSize()) * 8;
}
inline uint32_t GetConcatTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t, uint32_t) { return 0; }
inline void GetSelectMaxMinTmpSize(const ge::Shape& src0, const ge::Shape&, const uint32_t typeSize, const ge::Shape&,
                                   const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(src0, typeSize, 2, maxValue, minValue);
}
inline void GetSelectWithBytesMaskMaxMinTmpSize(const ge::Shape& src0, const ge::Shape& src1, const uint32_t typeSize,
                                                const ge::Shape& mask, const uint32_t maskSize, const bool reuse,
                                                uint32_t& maxValue, uint32_t& minValue)
{
    GetSelectMaxMinTmpSize(src0, src1, typeSize, mask, maskSize, reuse, maxValue, minValue);
}
inline void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape&, const ge::Shape& dst,
                                      uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(dst, typeSize, 2, maxValue, minValue);
}
template <class... A>
inline void GetTransDataMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape& src, const ge::Shape&,
                                      ge::DataType, const TransDataConfig&, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(src, 2, 2, maxValue, minValue);
}

// ---- quantisation -----------------------------------------------------------------------------------------
inline void GetAscendQuantMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                        uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, 2, maxValue, minValue);
}
inline void GetQuantizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                     uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, 2, maxValue, minValue);
}
inline void GetAscendDequantMaxMinTmpSize(const ge::Shape& shape, const uint32_t, uint32_t& maxValue,
                                          uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}
inline void GetDequantizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}
inline void GetAscendAntiQuantMaxMinTmpSize(const ge::Shape& shape, const ge::Shape&, bool, ge::DataType, ge::DataType,
                                            uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}
inline void GetAntiQuantizeMaxMinTmpSize(const ge::Shape& shape, const ge::Shape&, ge::DataType, ge::DataType,
                                         uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}

// ---- softmax ----------------------------------------------------------------------------------------------
}  // namespace AscendC

namespace gaf_twin {
namespace host {

inline uint32_t LastDim(const ge::Shape& s) { return static_cast<uint32_t>(s.GetDim(s.GetDimNum() - 1)); }
inline uint32_t Rows(const ge::Shape& s)
{
    return LastDim(s) == 0 ? 0 : static_cast<uint32_t>(s.GetShapeSize()) / LastDim(s);
}
inline uint32_t SoftmaxBytes(uint32_t rows, uint32_t k, uint32_t typeSize) { return 4 * rows * (32 / typeSize + k + 64); }
template <class TILING>
inline void FillSoftmax(const ge::Shape& shape, TILING& t)
{
    t.srcM = Rows(shape);
    t.srcK = LastDim(shape);
    t.srcSize = t.srcM * t.srcK;
}
template <class TILING>
inline void FillNorm(const ge::Shape& shape, uint32_t originalH, TILING& t)
{
    t.bLength = static_cast<uint32_t>(shape.GetDim(0));
    t.sLength = static_cast<uint32_t>(shape.GetDim(1));
    t.hLength = static_cast<uint32_t>(shape.GetDim(2));
    t.originalHLength = originalH != 0 ? originalH : t.hLength;
}

}  // namespace host
}  // namespace gaf_twin

namespace AscendC {

inline uint32_t GetSoftMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return gaf_twin::host::SoftmaxBytes(1, gaf_twin::host::LastDim(shape), typeSize);
}
inline uint32_t GetSoftMaxMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return gaf_twin::host::SoftmaxBytes(gaf_twin::host::Rows(shape), gaf_twin::host::LastDim(shape), typeSize);
}
inline uint32_t GetLogSoftMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return GetSoftMaxMinTmpSize(shape, typeSize, false);
}
inline uint32_t GetLogSoftMaxMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool)
{
    return GetSoftMaxMaxTmpSize(shape, typeSize, false);
}
inline uint32_t GetSoftMaxFlashV2MinTmpSize(const ge::Shape& shape, const uint32_t size1, const uint32_t, bool = false,
                                            bool = false, bool = false)
{
    return GetSoftMaxMinTmpSize(shape, size1, false);
}
inline uint32_t GetSoftMaxFlashV2MaxTmpSize(const ge::Shape& shape, const uint32_t size1, const uint32_t, bool = false,
                                            bool = false, bool = false)
{
    return GetSoftMaxMaxTmpSize(shape, size1, false);
}
inline uint32_t GetSoftMaxGradMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, bool = false, bool = false)
{
    return GetSoftMaxMinTmpSize(shape, typeSize, false);
}
inline uint32_t GetSoftMaxGradMaxTmpSize(const ge::Shape& shape, const uint32_t typeSize, bool = false, bool = false)
{
    return GetSoftMaxMaxTmpSize(shape, typeSize, false);
}
template <class TILING>
inline void SoftMaxTilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t, TILING& tiling)
{
    gaf_twin::host::FillSoftmax(shape, tiling);
}
template <class TILING>
inline void LogSoftMaxTilingFunc(const ge::Shape shape, const uint32_t, const uint32_t, TILING& tiling)
{
    gaf_twin::host::FillSoftmax(shape, tiling);
}
template <class TILING>
inline void SoftMaxFlashV2TilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t, const uint32_t,
                                     TILING& tiling, bool, bool = false, bool = false)
{
    gaf_twin::host::FillSoftmax(shape, tiling);
}
template <class TILING>
inline void SoftMaxFlashV3TilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t, const uint32_t,
                                     TILING& tiling, bool, bool = false)
{
    gaf_twin::host::FillSoftmax(shape, tiling);
}
inline void GetSoftMaxFlashV3MaxMinTmpSize(const ge::Shape& shape, const uint32_t size1, const uint32_t,
                                           uint32_t& maxValue, uint32_t& minValue, bool = false, bool = false)
{
    maxValue = GetSoftMaxMaxTmpSize(shape, size1, false);
    minValue = GetSoftMaxMinTmpSize(shape, size1, false);
}
template <class TILING>
inline void SoftMaxGradTilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t, TILING& tiling, bool = false)
{
    gaf_twin::host::FillSoftmax(shape, tiling);
}

// ---- normalisations ---------------------------------------------------------------------------------------
inline void GetLayerNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const bool, uint32_t& maxValue,
                                      uint32_t& minValue)
{
    // {B, S, storage H, original H}, or {A, R} of the form with separate lengths.
    const bool four = shape.GetDimNum() == 4;
    const uint32_t h = four ? static_cast<uint32_t>(shape.GetDim(2)) : gaf_twin::host::LastDim(shape);
    const uint32_t rows = four ? static_cast<uint32_t>(shape.GetDim(0) * shape.GetDim(1)) : gaf_twin::host::Rows(shape);
    minValue = static_cast<uint32_t>(gaf_twin::NormTmp(rows, h));
    maxValue = 3 * 4 * rows * h + 2 * 4 * ((rows + 7) / 8 * 8);
}
inline void GetLayerNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool reuse, const bool,
                                      const bool, uint32_t& maxValue, uint32_t& minValue)
{
    GetLayerNormMaxMinTmpSize(shape, typeSize, reuse, maxValue, minValue);
}
template <class TILING>
inline void GetLayerNormNDTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const bool,
                                     TILING& tiling)
{
    gaf_twin::host::FillNorm(shape, shape.GetDimNum() == 4 ? static_cast<uint32_t>(shape.GetDim(3)) : 0, tiling);
}
template <class TILING>
inline void GetLayerNormNDTillingInfo(const ge::Shape& shape, const uint32_t space, const uint32_t typeSize,
                                      const bool reuse, TILING& tiling)
{
    GetLayerNormNDTilingInfo(shape, space, typeSize, reuse, tiling);
}
template <class TILING>
inline void GetLayerNormNDTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const bool, const bool,
                                     TILING& tiling)
{
    tiling.aLength = static_cast<uint32_t>(shape.GetDim(0));
    tiling.rLength = static_cast<uint32_t>(shape.GetDim(1));
}
inline void GetLayerNormGradMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const bool, uint32_t& maxValue,
                                          uint32_t& minValue)
{
    minValue = 9 * 4 * gaf_twin::host::LastDim(shape);
    maxValue = 9 * 4 * static_cast<uint32_t>(shape.GetShapeSize());
}
template <class TILING>
inline void GetLayerNormGradNDTilingInfo(const ge::Shape shape, const uint32_t, const uint32_t, const bool,
                                         TILING& tiling)
{
    gaf_twin::host::FillNorm(shape, 0, tiling);
}
inline void GetLayerNormGradBetaMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool,
                                              uint32_t& maxValue, uint32_t& minValue)
{
    minValue = typeSize == 2 ? 4 * 4 * gaf_twin::host::LastDim(shape) : 0;
    maxValue = typeSize == 2 ? 4 * 4 * static_cast<uint32_t>(shape.GetShapeSize()) : 0;
}
template <class TILING>
inline void GetLayerNormGradBetaNDTilingInfo(const ge::Shape shape, const uint32_t, const uint32_t, const bool,
                                             TILING& tiling)
{
    gaf_twin::host::FillNorm(shape, 0, tiling);
}
inline bool GetDeepNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const bool reuse, const bool,
                                     uint32_t& maxValue, uint32_t& minValue)
{
    GetLayerNormMaxMinTmpSize(shape, typeSize, reuse, maxValue, minValue);
    return true;
}
template <class TILING>
inline bool GetDeepNormTilingInfo(const ge::Shape& shape, const ge::Shape& original, const uint32_t, const uint32_t,
                                  const bool, const bool, TILING& tiling)
{
    gaf_twin::host::FillNorm(shape, gaf_twin::host::LastDim(original), tiling);
    return true;
}
inline bool GetRmsNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                    uint32_t& minValue, const bool = false)
{
    const uint32_t h = gaf_twin::host::LastDim(shape), n = static_cast<uint32_t>(shape.GetShapeSize());
    minValue = typeSize == 4 ? 4 * (h + 8) : 4 * (2 * h + 16);
    maxValue = std::max(minValue, typeSize == 4 ? 4 * (n + 8) : 4 * (2 * n + 16));
    return true;
}
template <class TILING>
inline bool GetRmsNormTilingInfo(const ge::Shape& shape, const ge::Shape& original, const uint32_t, const uint32_t,
                                 TILING& tiling, const bool = false)
{
    gaf_twin::host::FillNorm(shape, gaf_twin::host::LastDim(original), tiling);
    return true;
}
inline void GetNormalizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const uint32_t, const bool, const bool,
                                      const bool, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}
inline void GetWelfordUpdateMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const uint32_t, const bool,
                                          const bool, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}
inline void GetWelfordFinalizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const bool, uint32_t& maxValue,
                                            uint32_t& minValue)
{
    gaf_twin::host::Range(shape, 4, 2, maxValue, minValue);
}

// ---- shapes -----------------------------------------------------------------------------------------------
inline void GetPadMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, uint32_t& maxValue,
                                uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, 2, maxValue, minValue);
}
template <class TILING>
inline void PadTilingFunc(const ge::Shape shape, const ge::Shape original, const uint32_t, const uint32_t,
                          TILING& tiling)
{
    tiling.srcHeight = gaf_twin::host::Rows(shape);
    tiling.srcWidth = gaf_twin::host::LastDim(shape);
    tiling.srcOriWidth = gaf_twin::host::LastDim(original);
}
inline void GetUnPadMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape& shape,
                                  const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, 2, maxValue, minValue);
}
template <class TILING>
inline void UnPadTilingFunc(const ge::Shape shape, const uint32_t, const uint32_t, TILING& tiling)
{
    tiling.srcHeight = gaf_twin::host::Rows(shape);
    tiling.srcWidth = gaf_twin::host::LastDim(shape);
}
inline void GetTransposeMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const uint32_t,
                                      uint32_t& maxValue, uint32_t& minValue)
{
    gaf_twin::host::Range(shape, typeSize, 2, maxValue, minValue);
}
inline void GetConfusionTransposeMaxMinTmpSize(const ge::Shape& shape, const uint32_t typeSize, const uint32_t type,
                                               uint32_t& maxValue, uint32_t& minValue)
{
    GetTransposeMaxMinTmpSize(shape, typeSize, type, maxValue, minValue);
}
// Kinds 1 to 6 take [b, n, s, h / n], kind 7 [h, w].
template <class TILING>
inline void GetTransposeTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const uint32_t type,
                                   TILING& tiling)
{
    const bool square = type == 7;
    tiling.param0 = square ? 1 : static_cast<uint32_t>(shape.GetDim(0));
    tiling.param1 = square ? 1 : static_cast<uint32_t>(shape.GetDim(1));
    tiling.param2 = static_cast<uint32_t>(shape.GetDim(square ? 0 : 2));
    tiling.param3 = static_cast<uint32_t>(shape.GetDim(square ? 1 : 3));
}
template <class TILING>
inline void GetConfusionTransposeTilingInfo(const ge::Shape& shape, const uint32_t stack, const uint32_t typeSize,
                                            const uint32_t type, TILING& tiling)
{
    GetTransposeTilingInfo(shape, stack, typeSize, type, tiling);
}

// ---- TopK -------------------------------------------------------------------------------------------------
inline bool GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const int32_t inner, const int32_t outter,
                                 const bool, const bool, enum TopKMode mode, const bool, const uint32_t,
                                 uint32_t& maxValue, uint32_t& minValue)
{
    minValue = mode == TopKMode::TOPK_NSMALL ? static_cast<uint32_t>(outter) * 32 * 8 : static_cast<uint32_t>(inner) * 16;
    maxValue = minValue;
    return true;
}
template <class TILING>
inline bool TopKTilingFunc(const platform_ascendc::PlatformAscendC&, const int32_t inner, const int32_t outter,
                           const int32_t, const uint32_t, const bool, enum TopKMode, const bool, TILING& tiling)
{
    tiling.innerDataSize = inner;
    tiling.allDataSize = inner * outter;
    return true;
}

}  // namespace AscendC

#endif  // GAF_TWIN_VECTOR_TILING_H
