// SPDX-License-Identifier: Apache-2.0
// High-level quantisation: AscendQuant, AscendDequant, AscendAntiQuant and their forms of CANN 9.
#ifndef GAF_TWIN_QUANT_H
#define GAF_TWIN_QUANT_H

#include "twin/forms.h"

namespace gaf_twin {

template <class D>
inline D ToInteger(float v, AscendC::RoundMode mode)
{
    using M = AscendC::RoundMode;
    v = mode == M::CAST_FLOOR   ? __builtin_floorf(v)
        : mode == M::CAST_CEIL  ? __builtin_ceilf(v)
        : mode == M::CAST_ROUND ? __builtin_roundf(v)
        : mode == M::CAST_TRUNC ? __builtin_truncf(v)
                                : __builtin_rintf(v);
    return static_cast<D>(v < -128.0f ? -128.0f : v > 127.0f ? 127.0f : v);
}

// A constant per tensor, column, row or group: a scalar or a tensor.
template <class V>
inline float ConstantAt(const V& v, uint64_t i)
{
    if constexpr (IsTensor<V>::value) {
        return static_cast<float>(v.GetPhyAddr()[i]);
    } else {
        return static_cast<float>(v);
    }
}
template <class V>
inline void ReadConstant(HighCall& call, const char* name, const V& v, uint64_t n)
{
    if constexpr (IsTensor<V>::value) {
        call.Read(name, v, n);
    }
}
enum class Policy : int32_t { PER_TENSOR, PER_CHANNEL, PER_TOKEN, PER_GROUP };
struct QuantLayout {
    Policy policy;
    uint32_t m, n, group;
    int32_t kDim;
    uint64_t Constants() const
    {
        return policy == Policy::PER_TENSOR    ? 1
               : policy == Policy::PER_CHANNEL ? n
               : policy == Policy::PER_TOKEN   ? m
               : kDim == 0                     ? uint64_t(DivUp(m, group)) * n
                                               : uint64_t(m) * DivUp(n, group);
    }
    uint64_t At(uint32_t i, uint32_t j) const
    {
        return policy == Policy::PER_TENSOR    ? 0
               : policy == Policy::PER_CHANNEL ? j
               : policy == Policy::PER_TOKEN   ? i
               : kDim == 0                     ? uint64_t(i / group) * n + j
                                               : uint64_t(i) * DivUp(n, group) + j / group;
    }
};

}  // namespace gaf_twin

namespace AscendC {

// ---- CANN 9: one form for all policies --------------------------------------------------------------------
enum class QuantizePolicy : int32_t { PER_TENSOR, PER_CHANNEL, PER_TOKEN, PER_GROUP };
enum class DequantizePolicy : int32_t { PER_TENSOR, PER_CHANNEL, PER_TOKEN, PER_GROUP };
enum class AntiQuantizePolicy : int32_t { PER_TENSOR, PER_CHANNEL, PER_TOKEN, PER_GROUP };
struct QuantizeConfig {
    QuantizePolicy policy;
    bool hasOffset;
    RoundMode roundMode = RoundMode::CAST_RINT;
    int32_t kDim = 1;
};
struct DequantizeConfig {
    DequantizePolicy policy;
    bool hasOffset = false;
    int32_t kDim = 1;
};
struct AntiQuantizeConfig {
    AntiQuantizePolicy policy;
    bool hasOffset;
    int32_t kDim = 1;
};
struct QuantizeParams {
    uint32_t m, n, groupSize = 0;
};
struct DequantizeParams {
    uint32_t m, n, groupSize = 0;
};
struct AntiQuantizeParams {
    uint32_t m, n, groupSize = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// fn(value, scale, offset) of every element of [m, n].
template <class D, class S, class SCALE, class OFFSET, class FN>
inline void QuantRows(const char* api, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src,
                      const SCALE& scale, const OFFSET& offset, const Tmp8* tmp, const QuantLayout& l, bool hasOffset,
                      FN fn)
{
    const uint64_t all = uint64_t(l.m) * l.n;
    HighCall call(api, check::OP_MAY_OVERLAP);
    call.Rule(l.policy != Policy::PER_GROUP || (l.group != 0 && l.group % 32 == 0), "quant-group",
              "groupSize %u is not a multiple of 32", l.group)
        .Read("src", src, all);
    ReadConstant(call, "scale", scale, l.Constants());
    if (hasOffset) {
        ReadConstant(call, "offset", offset, l.Constants());
    }
    if (!call.TmpOrStack(tmp, 0).Write("dst", dst, all).ok()) {
        return;
    }
    for (uint32_t i = 0; i < l.m; ++i) {
        for (uint32_t j = 0; j < l.n; ++j) {
            const uint64_t at = uint64_t(i) * l.n + j, c = l.At(i, j);
            dst.GetPhyAddr()[at] = fn(static_cast<float>(src.GetPhyAddr()[at]), ConstantAt(scale, c),
                                      hasOffset ? ConstantAt(offset, c) : 0.0f);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_QUANTIZE(TMP, ...)                                                                              \
    template <const QuantizeConfig& config, class D, class S, class SCALE, class OFFSET>                         \
    inline void Quantize(const LocalTensor<D>& dst, const LocalTensor<S>& src, ##__VA_ARGS__,                    \
                         const SCALE& scale, const OFFSET& offset, const QuantizeParams& p)                      \
    {                                                                                                            \
        gaf_twin::QuantRows("Quantize", dst, src, scale, offset, TMP,                                            \
                            {static_cast<gaf_twin::Policy>(config.policy), p.m, p.n, p.groupSize, config.kDim},  \
                            config.hasOffset, [](float x, float s, float o) {                                    \
                                return gaf_twin::ToInteger<D>(x * s + o, config.roundMode);                      \
                            });                                                                                  \
    }
GAF_TWIN_QUANTIZE(gaf_twin::NO_TMP)
GAF_TWIN_QUANTIZE(&tmp, const LocalTensor<uint8_t>& tmp)
#undef GAF_TWIN_QUANTIZE
template <const DequantizeConfig& config, class D, class S, class SCALE, class OFFSET>
inline void Dequantize(const LocalTensor<D>& dst, const LocalTensor<S>& src, const SCALE& scale, const OFFSET& offset,
                       const LocalTensor<uint8_t>& tmp, const DequantizeParams& p)
{
    gaf_twin::QuantRows("Dequantize", dst, src, scale, offset, &tmp,
                        {static_cast<gaf_twin::Policy>(config.policy), p.m, p.n, p.groupSize, config.kDim},
                        config.hasOffset, [](float x, float s, float o) { return static_cast<D>((x + o) * s); });
}
template <const DequantizeConfig& config, class D, class S, class SCALE, class OFFSET>
inline void Dequantize(const LocalTensor<D>& dst, const LocalTensor<S>& src, const SCALE& scale, const OFFSET& offset,
                       const DequantizeParams& p)
{
    gaf_twin::QuantRows("Dequantize", dst, src, scale, offset, gaf_twin::NO_TMP,
                        {static_cast<gaf_twin::Policy>(config.policy), p.m, p.n, p.groupSize, config.kDim},
                        config.hasOffset, [](float x, float s, float o) { return static_cast<D>((x + o) * s); });
}
template <const AntiQuantizeConfig& config, class D, class S, class SCALE, class OFFSET>
inline void AntiQuantize(const LocalTensor<D>& dst, const LocalTensor<S>& src, const SCALE& scale,
                         const OFFSET& offset, const LocalTensor<uint8_t>& tmp, const AntiQuantizeParams& p)
{
    gaf_twin::QuantRows("AntiQuantize", dst, src, scale, offset, &tmp,
                        {static_cast<gaf_twin::Policy>(config.policy), p.m, p.n, p.groupSize, config.kDim},
                        config.hasOffset, [](float x, float s, float o) { return static_cast<D>((x + o) * s); });
}

// ---- CANN 8 -----------------------------------------------------------------------------------------------
struct AscendQuantConfig {
    constexpr AscendQuantConfig(uint32_t calc = 0, uint32_t offset = 0, uint32_t scale = 0, uint32_t work = 0)
        : calcCount(calc), offsetCount(offset), scaleCount(scale), workLocalSize(work)
    {
    }
    uint32_t calcCount = 0, offsetCount = 0, scaleCount = 0, workLocalSize = 0;
};
constexpr AscendQuantConfig ASCEND_QUANT_DEFAULT_CFG = {0, 0, 0, 0};

}  // namespace AscendC

namespace gaf_twin {

// round(src * scale + offset), saturated; a scale per column when it is a tensor.
template <class T, class SCALE, class OFFSET>
inline void QuantFlat(const AscendC::LocalTensor<int8_t>& dst, const AscendC::LocalTensor<T>& src, const Tmp8* tmp,
                      const SCALE& scale, const OFFSET& offset, uint32_t columns, uint32_t count)
{
    static_assert(OneOf<T, half, float>, "AscendQuant: A2 takes half and float");
    HighCall call("AscendQuant", check::OP_MAY_OVERLAP);
    call.Read("src", src, count);
    ReadConstant(call, "scale", scale, columns);
    ReadConstant(call, "offset", offset, columns);
    if (!call.TmpOrStack(tmp, 0).Write("dst", dst, count).ok()) {
        return;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t c = columns == 0 ? 0 : i % columns;
        // A2 makes halves of everything first.
        const half product(static_cast<float>(half(F(src.GetPhyAddr()[i]))) * static_cast<float>(half(ConstantAt(scale, c))));
        const half sum(static_cast<float>(product) + static_cast<float>(half(ConstantAt(offset, c))));
        dst.GetPhyAddr()[i] = ToInteger<int8_t>(static_cast<float>(sum), AscendC::RoundMode::CAST_RINT);
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                        const float scale, const float offset, const uint32_t count)
{
    gaf_twin::QuantFlat(dst, src, &tmp, scale, offset, 0, count);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale,
                        const float offset, const uint32_t count)
{
    gaf_twin::QuantFlat(dst, src, gaf_twin::NO_TMP, scale, offset, 0, count);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                        const float scale, const float offset)
{
    gaf_twin::QuantFlat(dst, src, &tmp, scale, offset, 0, src.GetSize());
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale,
                        const float offset)
{
    gaf_twin::QuantFlat(dst, src, gaf_twin::NO_TMP, scale, offset, 0, src.GetSize());
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                        const LocalTensor<T>& scale, const LocalTensor<T>& offset, const uint32_t scaleCount,
                        const uint32_t, const uint32_t count)
{
    gaf_twin::QuantFlat(dst, src, &tmp, scale, offset, scaleCount, count);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<T>& scale,
                        const LocalTensor<T>& offset, const uint32_t scaleCount, const uint32_t, const uint32_t count)
{
    gaf_twin::QuantFlat(dst, src, gaf_twin::NO_TMP, scale, offset, scaleCount, count);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                        const LocalTensor<T>& scale, const T offset, const uint32_t scaleCount, const uint32_t count)
{
    gaf_twin::QuantFlat(dst, src, &tmp, scale, offset, scaleCount, count);
}

struct DequantParams {
    uint32_t m, n, calCount;
};
enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW, DEQUANT_WITH_MULTI_ROW };

}  // namespace AscendC

namespace gaf_twin {

// Rows of n int32 times a scale per column; rows of dst are padded to 32 bytes.
template <class D, class SCALE>
inline void DequantRows(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<int32_t>& src,
                        const SCALE& scale, const Tmp8* tmp, const AscendC::DequantParams& p)
{
    const uint32_t out = RoundUp(p.n, BLK<D>);
    HighCall call("AscendDequant", check::OP_NO_ALIAS);
    call.Rule(p.n % 8 == 0 && p.calCount <= p.n, "quant-shape", "%u of %u columns (a multiple of 8)", p.calCount, p.n)
        .Read("src", src, uint64_t(p.m) * p.n);
    ReadConstant(call, "deqScale", scale, p.calCount);
    if (!call.TmpOrStack(tmp, 0).Write("dst", dst, uint64_t(p.m) * out).ok()) {
        return;
    }
    for (uint32_t i = 0; i < p.m; ++i) {
        for (uint32_t j = 0; j < p.calCount; ++j) {
            dst.GetPhyAddr()[uint64_t(i) * out + j] = static_cast<D>(
                static_cast<float>(src.GetPhyAddr()[uint64_t(i) * p.n + j]) * ConstantAt(scale, j));
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_DEQUANT(SCALE_PARAMETER)                                                                       \
    template <class D, class SCALE, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                    \
    inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, SCALE_PARAMETER,      \
                              const LocalTensor<uint8_t>& tmp, DequantParams params)                            \
    {                                                                                                           \
        gaf_twin::DequantRows(dst, src, scale, &tmp, params);                                                   \
    }                                                                                                           \
    template <class D, class SCALE, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                    \
    inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, SCALE_PARAMETER,      \
                              DequantParams params)                                                             \
    {                                                                                                           \
        gaf_twin::DequantRows(dst, src, scale, gaf_twin::NO_TMP, params);                                       \
    }
GAF_TWIN_DEQUANT(const LocalTensor<SCALE>& scale)
GAF_TWIN_DEQUANT(const SCALE scale)
#undef GAF_TWIN_DEQUANT

struct AntiQuantShapeInfo {
    uint32_t offsetHeight{0}, offsetWidth{0}, scaleHeight{0}, scaleWidth{0};
};
struct AscendAntiQuantParam {
    uint32_t m, n, calCount, groupSize = 0;
};

}  // namespace AscendC

namespace gaf_twin {

template <class S, class D, class V>
inline void AntiQuantRows(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src, const V& offset,
                          const V& scale, const Tmp8* tmp, uint32_t k, const AscendC::AntiQuantShapeInfo& info,
                          bool transposed)
{
    const uint32_t total = src.GetSize(), rows = transposed ? (k == 0 ? 0 : total / k) : k,
                   cols = rows == 0 ? 0 : total / rows;
    const uint32_t height = info.offsetHeight != 0 ? info.offsetHeight : 1;
    const uint32_t group = transposed ? cols / (info.offsetWidth != 0 ? info.offsetWidth : 1) : rows / height;
    HighCall call("AscendAntiQuant", check::OP_NO_ALIAS);
    call.Rule(k != 0 && total % k == 0 && group != 0, "quant-shape", "%u elements in rows of k %u", total, k)
        .Read("src", src, total);
    const uint64_t constants = transposed ? uint64_t(rows) * (cols / (group == 0 ? 1 : group)) : uint64_t(height) * cols;
    ReadConstant(call, "offset", offset, constants);
    ReadConstant(call, "scale", scale, constants);
    if (!call.TmpOrStack(tmp, 0).Write("dst", dst, total).ok() || group == 0) {
        return;
    }
    for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t j = 0; j < cols; ++j) {
            const uint64_t c = transposed ? uint64_t(i) * (cols / group) + j / group : uint64_t(i / group) * cols + j;
            const uint64_t at = uint64_t(i) * cols + j;
            float sum = static_cast<float>(src.GetPhyAddr()[at]) + ConstantAt(offset, c);
            sum = std::is_same<D, half>::value ? static_cast<float>(half(sum)) : sum;  // bfloat16_t goes through float
            dst.GetPhyAddr()[at] = static_cast<D>(sum * ConstantAt(scale, c));
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& offset,
                            const LocalTensor<D>& scale, const LocalTensor<uint8_t>& tmp, const uint32_t k,
                            const AntiQuantShapeInfo& info = {})
{
    gaf_twin::AntiQuantRows(dst, src, offset, scale, &tmp, k, info, isTranspose);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const D offset, const D scale,
                            const LocalTensor<uint8_t>& tmp, const uint32_t k, const AntiQuantShapeInfo& info = {})
{
    gaf_twin::AntiQuantRows(dst, src, offset, scale, &tmp, k, info, isTranspose);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& offset,
                            const LocalTensor<D>& scale, const uint32_t k, const AntiQuantShapeInfo& info = {})
{
    gaf_twin::AntiQuantRows(dst, src, offset, scale, gaf_twin::NO_TMP, k, info, isTranspose);
}

}  // namespace AscendC

#endif  // GAF_TWIN_QUANT_H
