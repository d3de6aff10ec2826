// SPDX-License-Identifier: Apache-2.0
// High-level changes of shape: Broadcast, Pad, UnPad, Transpose of Nz and ND data, TransData.
#ifndef GAF_TWIN_PAD_H
#define GAF_TWIN_PAD_H

#include "twin/gather.h"
#include "twin/layout.h"
#include "twin/tiling_data.h"

namespace gaf_twin {

template <class T>
inline void BroadcastTo(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                        const uint32_t* dstShape, const uint32_t* srcShape, uint32_t dim, const Tmp8* tmp,
                        bool needsTmp)
{
    uint64_t n = 1, from = 1;
    HighCall call("Broadcast", check::OP_NO_ALIAS);
    // The toolkit's headers accept more types than A2 has: seen when the call runs.
    call.Rule(OneOf<T, half, float, int8_t, uint8_t>, "dtype", "A2 takes half, float, int8_t and uint8_t");
    for (uint32_t d = 0; d < dim; ++d) {
        n *= dstShape[d];
        from *= srcShape[d];
        call.Rule(srcShape[d] == dstShape[d] || srcShape[d] == 1, "broadcast-shape", "dimension %u: %u to %u", d,
                  srcShape[d], dstShape[d]);
    }
    call.Read("src", src, from);
    if (needsTmp) {
        call.TmpOrStack(tmp, 0);
    }
    if (!call.Write("dst", dst, n).ok()) {
        return;
    }
    for (uint64_t i = 0; i < n; ++i) {
        uint64_t rest = i, at = 0, pitch = 1;
        for (uint32_t d = dim; d-- > 0;) {
            at += srcShape[d] == 1 ? 0 : rest % dstShape[d] * pitch;
            rest /= dstShape[d];
            pitch *= srcShape[d];
        }
        dst.GetPhyAddr()[i] = src.GetPhyAddr()[at];
    }
}

template <class T, int32_t dim, int32_t axis>
inline void CheckBroadcast(const uint32_t srcShape[dim])
{
    static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), "Broadcast: dim 1 or 2, axis 0 or 1");
    check::rule(dim != 2 || axis != 0 || uint64_t(srcShape[dim - 1]) * sizeof(T) % 32 == 0,
                          "broadcast-shape", "Broadcast", "rows of %u elements are no multiple of 32 bytes",
                          srcShape[dim - 1]);
}

}  // namespace gaf_twin

namespace AscendC {

template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], LocalTensor<uint8_t>& tmp)
{
    gaf_twin::CheckBroadcast<T, dim, axis>(srcShape);
    gaf_twin::BroadcastTo(dst, src, dstShape, srcShape, dim, &tmp, true);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim])
{
    gaf_twin::CheckBroadcast<T, dim, axis>(srcShape);
    gaf_twin::BroadcastTo(dst, src, dstShape, srcShape, dim, gaf_twin::NO_TMP, true);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], LocalTensor<uint8_t>& tmp)
{
    Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, tmp);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim])
{
    Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape);
}
struct BroadcastTiling {
    uint32_t oriRank = 0, rank = 0, dstSize = 0, srcSize = 0, loopNum = 0;
    uint32_t oriSrcShape[9] = {}, oriDstShape[9] = {}, dstShape[9] = {}, dstStride[9] = {}, srcStride[10] = {};
};
template <class T, int constRank = -1, uint32_t* constDstShape = nullptr, uint32_t* constSrcShape = nullptr>
inline void GetBroadcastTilingInfo(uint32_t rank, const uint32_t* dstShape, const uint32_t* srcShape, bool,
                                   BroadcastTiling& tiling)
{
    tiling.rank = tiling.oriRank = rank;
    for (uint32_t i = 0; i < rank && i < 9; ++i) {
        tiling.oriDstShape[i] = tiling.dstShape[i] = dstShape[i];
        tiling.oriSrcShape[i] = srcShape[i];
    }
}
template <class T, int constRank = -1, uint32_t* constDstShape = nullptr, uint32_t* constSrcShape = nullptr,
          bool constSrcInnerPad = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t* dstShape,
                      const uint32_t* srcShape, BroadcastTiling* tiling)
{
    gaf_twin::BroadcastTo(dst, src, dstShape, srcShape, tiling->rank, gaf_twin::NO_TMP, false);
}

// ---- Pad, UnPad -------------------------------------------------------------------------------------------
struct PadParams {
    uint16_t leftPad = 0, rightPad = 0;
    int32_t padValue = 0;
};
struct UnPadParams {
    uint16_t leftPad = 0, rightPad = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// Rows of 32-byte multiples: the columns behind the valid ones get the value. Others: rows grow by the pads.
template <class T>
inline void PadRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                    const AscendC::PadParams& p, const Tmp8* tmp, const PadTiling& t)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Pad: 16-bit and 32-bit types");
    const uint32_t h = t.srcHeight, w = t.srcWidth, valid = t.srcOriWidth;
    const bool aligned = uint64_t(w) * sizeof(T) % 32 == 0;
    const uint32_t wide = aligned ? w : w + p.leftPad + p.rightPad;
    T value;
    memcpy(&value, &p.padValue, sizeof(T));
    value = static_cast<T>(p.padValue);
    HighCall call("Pad", check::OP_NO_ALIAS);
    call.Rule(p.leftPad * sizeof(T) <= 32 && p.rightPad * sizeof(T) <= 32, "pad-width", "pads of %u and %u columns",
              static_cast<uint32_t>(p.leftPad), static_cast<uint32_t>(p.rightPad))
        .Rule(!aligned || (p.leftPad == 0 && p.rightPad <= w - valid), "pad-width",
              "rows of 32-byte multiples have room for %u columns on the right", w - valid)
        .Rule(aligned || uint64_t(wide) * sizeof(T) % 32 == 0, "pad-width",
              "padded rows of %u elements are no multiple of 32 bytes", wide)
        .Read("src", src, uint64_t(h) * w)
        .TmpOrStack(tmp, 0)
        .Write("dst", dst, uint64_t(h) * wide);
    for (uint32_t i = 0; call.ok() && i < h; ++i) {
        const T* s = src.GetPhyAddr() + uint64_t(i) * w;
        T* d = dst.GetPhyAddr() + uint64_t(i) * wide;
        for (uint32_t j = 0; j < wide; ++j) {
            if (aligned) {
                d[j] = j >= valid && j < valid + p.rightPad ? value : s[j];
            } else {
                d[j] = j < p.leftPad || j >= p.leftPad + w ? value : s[j - p.leftPad];
            }
        }
    }
}
template <class T>
inline void UnPadRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                      const AscendC::UnPadParams& p, const Tmp8* tmp, const UnPadTiling& t)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "UnPad: 16-bit and 32-bit types");
    const uint32_t h = t.srcHeight, w = t.srcWidth, out = w - p.leftPad - p.rightPad;
    HighCall call("UnPad", check::OP_NO_ALIAS);
    call.Rule(uint32_t(p.leftPad) + p.rightPad < w, "pad-width", "%u columns are taken off %u",
              uint32_t(p.leftPad) + p.rightPad, w)
        .Read("src", src, uint64_t(h) * w)
        .TmpOrStack(tmp, 0)
        .Write("dst", dst, uint64_t(h) * out);
    for (uint32_t i = 0; call.ok() && i < h; ++i) {
        memmove(dst.GetPhyAddr() + uint64_t(i) * out, src.GetPhyAddr() + uint64_t(i) * w + p.leftPad, out * sizeof(T));
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& p, const LocalTensor<uint8_t>& tmp,
                PadTiling& tiling)
{
    gaf_twin::PadRows(dst, src, p, &tmp, tiling);
}
template <class T>
inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& p, PadTiling& tiling)
{
    gaf_twin::PadRows(dst, src, p, gaf_twin::NO_TMP, tiling);
}
template <class T>
inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& p, LocalTensor<uint8_t>& tmp,
                  UnPadTiling& tiling)
{
    gaf_twin::UnPadRows(dst, src, p, &tmp, tiling);
}
template <class T>
inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& p, UnPadTiling& tiling)
{
    gaf_twin::UnPadRows(dst, src, p, gaf_twin::NO_TMP, tiling);
}

}  // namespace AscendC

namespace gaf_twin {

// Element (row, col) of a matrix of `rows` rows: Nz [cols/16][rows][16] or row-major.
inline uint64_t NzAt(uint64_t rows, uint64_t row, uint64_t col) { return (col / 16 * rows + row) * 16 + col % 16; }

// The tiling of GetTransposeTilingInfo: param0..3 are b, n, s, h / n.
template <class T>
inline void TransposeBlocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Tmp8* tmp,
                            AscendC::TransposeType type, const ConfusionTransposeTiling& t)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Transpose: 16-bit and 32-bit types");
    using K = AscendC::TransposeType;
    const uint64_t b = t.param0, n = t.param1, s = t.param2, hn = t.param3, h = hn * n, hnPad = (hn + 15) / 16 * 16,
                   hPad = (h + 15) / 16 * 16, nPad = (n + 15) / 16 * 16;
    const bool square = type == K::TRANSPOSE_ND2ND_ONLY;
    const bool perHead = type == K::TRANSPOSE_NZ2ND_0213 || type == K::TRANSPOSE_NZ2NZ_0213 ||
                         type == K::TRANSPOSE_NZ2ND_012_WITHOUT_N || type == K::TRANSPOSE_NZ2NZ_012_WITHOUT_N;
    const bool split = type == K::TRANSPOSE_NZ2NZ_012_WITH_N || type == K::TRANSPOSE_NZ2ND_012_WITH_N;
    const uint64_t from = square ? s * hn : perHead ? b * n * s * hnPad : b * s * hPad;
    uint64_t to = from;
    if (type == K::TRANSPOSE_NZ2ND_0213) {
        to = b * s * n * hn;
    } else if (type == K::TRANSPOSE_NZ2NZ_0213) {
        to = b * s * nPad * hnPad;
    } else if (split) {
        to = b * n * s * hnPad;
    } else if (!square) {
        to = b * s * hPad;
    }
    HighCall call("Transpose", check::OP_NO_ALIAS);
    call.Rule(square || perHead || split, "transpose-type", "transposeType %d is not available on A2",
              static_cast<int>(type))
        .Read("src", src, from)
        .TmpOrStack(tmp, 0)
        .Write("dst", dst, to);
    if (!call.ok()) {
        return;
    }
    const T* x = src.GetPhyAddr();
    T* y = dst.GetPhyAddr();
    if (square) {
        for (uint64_t i = 0; i < s; ++i) {
            for (uint64_t j = 0; j < hn; ++j) {
                y[j * s + i] = x[i * hn + j];
            }
        }
        return;
    }
    for (uint64_t bi = 0; bi < b; ++bi) {
        for (uint64_t ni = 0; ni < n; ++ni) {
            for (uint64_t si = 0; si < s; ++si) {
                for (uint64_t k = 0; k < hn; ++k) {
                    const uint64_t a = perHead ? (bi * n + ni) * s * hnPad + NzAt(s, si, k)
                                               : bi * s * hPad + NzAt(s, si, ni * hn + k);
                    uint64_t z = 0;
                    switch (type) {
                        case K::TRANSPOSE_NZ2ND_0213: z = ((bi * s + si) * n + ni) * hn + k; break;
                        case K::TRANSPOSE_NZ2NZ_0213: z = (bi * s + si) * nPad * hnPad + NzAt(nPad, ni, k); break;
                        case K::TRANSPOSE_NZ2NZ_012_WITH_N: z = (bi * n + ni) * s * hnPad + NzAt(s, si, k); break;
                        case K::TRANSPOSE_NZ2ND_012_WITH_N: z = ((bi * n + ni) * s + si) * hnPad + k; break;
                        case K::TRANSPOSE_NZ2ND_012_WITHOUT_N: z = (bi * s + si) * hPad + ni * hn + k; break;
                        default: z = bi * s * hPad + NzAt(s, si, ni * hn + k); break;
                    }
                    y[z] = x[a];
                }
            }
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                      TransposeType type, ConfusionTransposeTiling& tiling)
{
    gaf_twin::TransposeBlocks(dst, src, &tmp, type, tiling);
}
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType type,
                      ConfusionTransposeTiling& tiling)
{
    gaf_twin::TransposeBlocks(dst, src, gaf_twin::NO_TMP, type, tiling);
}
template <class T>
inline void ConfusionTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                               TransposeType type, ConfusionTransposeTiling& tiling)
{
    gaf_twin::TransposeBlocks(dst, src, &tmp, type, tiling);
}
template <class T>
inline void ConfusionTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType type,
                               ConfusionTransposeTiling& tiling)
{
    gaf_twin::TransposeBlocks(dst, src, gaf_twin::NO_TMP, type, tiling);
}

// ---- TransData: NCDHW (rows of h * w padded to 32 bytes) and NDC1HWC0 or FRACTAL_Z_3D ----------------------
struct TransDataConfig {
    DataFormat srcFormat;
    DataFormat dstFormat;
};
template <class T, class U>
struct TransDataParams {
    T srcLayout;
    U dstLayout;
};

}  // namespace AscendC

namespace gaf_twin {

// Offsets of element (n, c, d, h, w) of one side.
struct TransLayout {
    AscendC::DataFormat format;
    int64_t v[7];
    uint64_t rowPitch;
    uint64_t At(uint64_t n, uint64_t c, uint64_t d, uint64_t h, uint64_t w) const
    {
        if (format == AscendC::DataFormat::NCDHW) {
            return ((n * v[1] + c) * v[2] + d) * rowPitch + h * v[4] + w;
        }
        if (format == AscendC::DataFormat::NDC1HWC0) {  // n d c1 h w c0
            return ((((n * v[1] + d) * v[2] + c / v[5]) * v[3] + h) * v[4] + w) * v[5] + c % v[5];
        }
        // d c1 h w n1 n0 c0
        return (((((d * v[1] + c / v[6]) * v[2] + h) * v[3] + w) * v[4] + n / v[5]) * v[5] + n % v[5]) * v[6] + c % v[6];
    }
    uint64_t Size() const
    {
        if (format == AscendC::DataFormat::NCDHW) {
            return uint64_t(v[0]) * v[1] * v[2] * rowPitch;
        }
        uint64_t n = 1;
        for (int i = 0; i < (format == AscendC::DataFormat::NDC1HWC0 ? 6 : 7); ++i) {
            n *= static_cast<uint64_t>(v[i]);
        }
        return n;
    }
};
template <class T, class... A>
inline TransLayout LayoutOf(AscendC::DataFormat format, const std::tuple<A...>& shape)
{
    static_assert(sizeof...(A) >= 1 && sizeof...(A) <= 7, "TransData: shapes of up to 7 dimensions");
    TransLayout l{format, {}, 0};
    Flatten(shape, l.v, std::make_index_sequence<sizeof...(A)>());
    if (format == AscendC::DataFormat::NCDHW) {
        l.rowPitch = RoundUp(static_cast<uint32_t>(l.v[3] * l.v[4]), 32 / sizeof(T));
    }
    return l;
}

}  // namespace gaf_twin

namespace AscendC {

template <const TransDataConfig& config, class T, class U, class S>
inline void TransData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                      const TransDataParams<U, S>& params)
{
    static_assert(sizeof(T) == 2, "TransData: 16-bit types");
    const gaf_twin::TransLayout from = gaf_twin::LayoutOf<T>(config.srcFormat, params.srcLayout.shape),
                                to = gaf_twin::LayoutOf<T>(config.dstFormat, params.dstLayout.shape);
    const gaf_twin::TransLayout& plain = config.srcFormat == DataFormat::NCDHW ? from : to;
    gaf_twin::HighCall call("TransData", gaf_twin::check::OP_NO_ALIAS);
    call.Rule(plain.format == DataFormat::NCDHW && from.format != to.format, "transdata-format",
              "from format %d to %d: one of them is NCDHW", static_cast<int>(config.srcFormat),
              static_cast<int>(config.dstFormat))
        .Read("src", src, from.Size())
        .Tmp(tmp, 0)
        .Write("dst", dst, to.Size());
    if (!call.ok()) {
        return;
    }
    memset(dst.GetPhyAddr(), 0, to.Size() * sizeof(T));  // channels beyond c are 0
    for (int64_t n = 0; n < plain.v[0]; ++n) {
        for (int64_t c = 0; c < plain.v[1]; ++c) {
            for (int64_t d = 0; d < plain.v[2]; ++d) {
                for (int64_t h = 0; h < plain.v[3]; ++h) {
                    for (int64_t w = 0; w < plain.v[4]; ++w) {
                        dst.GetPhyAddr()[to.At(n, c, d, h, w)] = src.GetPhyAddr()[from.At(n, c, d, h, w)];
                    }
                }
            }
        }
    }
}

}  // namespace AscendC

#endif  // GAF_TWIN_PAD_H
