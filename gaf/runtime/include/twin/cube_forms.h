// SPDX-License-Identifier: Apache-2.0
// Cube core, further forms: Fixpipe with quantisation by a tensor, L0C to GM by DataCopy, fractals from GM,
// mode registers, 4-bit integers.
#ifndef GAF_TWIN_CUBE_FORMS_H
#define GAF_TWIN_CUBE_FORMS_H

#include "twin/copy_forms.h"
#include "twin/cube.h"

namespace gaf_twin {

// Quantisation constant of one column: a float of 19 bits in bits 13..31, an offset of 9 bits from bit 37 (int8
// results), bit 46: the result is signed.
struct QuantOf {
    float scale = 1.0f;
    int32_t offset = 0;
    bool isSigned = true;
    QuantOf() {}
    explicit QuantOf(uint64_t bits)
        : scale(FloatOf(static_cast<uint32_t>(bits) & 0xffffe000u)),
          offset(static_cast<int32_t>(bits >> 37 & 0x1ff)),
          isSigned((bits >> 46 & 1) != 0)
    {
        offset = offset >= 256 ? offset - 512 : offset;
    }
};

constexpr bool QuantByTensor(QuantMode_t q)
{
    return q == QuantMode_t::VDEQF16 || q == QuantMode_t::VREQ8 || q == QuantMode_t::VQF322B8_PRE;
}

template <class D, class S>
inline D QuantValue(S v, QuantMode_t mode, const QuantOf& q, bool relu)
{
    using Q = QuantMode_t;
    if (mode == Q::NoQuant || mode == Q::F322F16 || mode == Q::F322BF16) {
        return static_cast<D>(relu && !(v > S(0)) ? S(0) : v);
    }
    float x = static_cast<float>(v) * q.scale;
    if (relu && !(x > 0)) {
        x = 0;
    }
    if (mode == Q::DEQF16 || mode == Q::VDEQF16) {
        return static_cast<D>(x);
    }
    x = __builtin_rintf(x) + static_cast<float>(q.offset);
    const float low = q.isSigned ? -128.0f : 0.0f, high = low + 255.0f;
    x = x < low ? low : x > high ? high : x;
    if (std::is_same<D, int8_t>::value || std::is_same<D, uint8_t>::value) {
        return static_cast<D>(static_cast<uint8_t>(static_cast<int32_t>(x) & 0xff));
    }
    return static_cast<D>(x);
}

// L0C -> GM or L1, quantised by `scales` (a word a column) or by one word.
template <class D, class S>
inline void FixpipeQuant(const char* api, D* dst, check::View dstView, Hardware to, const LocalTensor<S>& src,
                         const uint64_t* scales, bool rowMajor, const AscendC::FixpipeParamsV220& p)
{
    check::rule(to != Hardware::UB, "fixpipe-path", api, "A2 has no path from L0C to UB");
    check::rule(HardwareOfTensor(src) == Hardware::L0C, "position", api, "the source must lie in L0C");
    check::rule(p.nSize <= 4095 && (rowMajor || p.nSize % (p.isChannelSplit ? 8 : 16) == 0), "fixpipe-limits",
                api, "nSize %u is not a multiple of 16 up to 4095", static_cast<uint32_t>(p.nSize));
    if (p.nSize == 0 || p.mSize == 0 || (rowMajor && p.ndNum == 0)) {
        return;
    }
    const uint32_t nds = rowMajor ? uint32_t(p.ndNum) : 1u, blocks = DivUp(p.nSize, 16);
    const QuantOf whole(p.deqScalar);
    auto at = [&](const S* s, uint32_t i, uint32_t j) {
        const S v = s[(uint64_t(j / 16) * p.srcStride + i) * 16 + j % 16];
        return QuantValue<D>(v, p.quantPre, scales != nullptr ? QuantOf(scales[j]) : whole, p.reluEn);
    };
    check::op(Pipe::FIX, api, p.unitFlag != 0 ? check::OP_UNIT_FLAG : 0u);
    for (uint32_t nd = 0; nd < nds; ++nd) {
        const S* s = src.GetPhyAddr() + uint64_t(nd) * p.srcNdStride * 256;
        D* d = dst + uint64_t(nd) * p.dstNdStride;
        if (!Touch(Pipe::FIX, api, "src", false, s, uint64_t(p.mSize) * 64, blocks, int64_t(p.srcStride) * 64, 64,
                   src.View())) {
            return;
        }
        if (rowMajor) {
            if (!Touch(Pipe::FIX, api, "dst", true, d, uint64_t(p.nSize) * sizeof(D), p.mSize,
                       int64_t(p.dstStride) * int64_t(sizeof(D)), to == Hardware::GM ? sizeof(D) : 32, dstView)) {
                return;
            }
            for (uint32_t i = 0; i < p.mSize; ++i) {
                D row[4096];
                for (uint32_t j = 0; j < p.nSize; ++j) {
                    row[j] = at(s, i, j);
                }
                StoreRuns(d + uint64_t(i) * p.dstStride, row, uint64_t(p.nSize) * sizeof(D), 1, 0, 0);
            }
            continue;
        }
        // Nz: columns in blocks of 16, of 32 for 8-bit results, of 8 with isChannelSplit.
        const uint32_t width = p.isChannelSplit ? 8 : sizeof(D) == 1 ? 32 : 16;
        for (uint32_t j0 = 0; j0 < p.nSize; j0 += width) {
            D* col = d + uint64_t(j0 / width) * p.dstStride * (32 / sizeof(D));
            if (!Touch(Pipe::FIX, api, "dst", true, col, uint64_t(p.mSize) * width * sizeof(D), 1, 0, 32, dstView)) {
                return;
            }
            for (uint32_t i = 0; i < p.mSize; ++i) {
                for (uint32_t j = j0; j < j0 + width && j < p.nSize; ++j) {
                    D v = at(s, i, j);
                    StoreRuns(col + uint64_t(i) * width + j - j0, &v, sizeof(D), 1, 0, 0);
                }
            }
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

// ---- Fixpipe with a tensor of constants (L1) --------------------------------------------------------------
template <class D, class S, const FixpipeConfig& CONFIG = CFG_ROW_MAJOR, class Q = uint64_t>
inline void Fixpipe(const GlobalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<Q>& scales,
                    const FixpipeParamsV220& p)
{
    gaf_twin::check::rule(gaf_twin::QuantByTensor(p.quantPre), "fixpipe-quant", "Fixpipe",
                          "quantPre %d takes no tensor", static_cast<int>(p.quantPre));
    gaf_twin::check::op(gaf_twin::Pipe::FIX, "Fixpipe");
    if (gaf_twin::check::access(gaf_twin::Pipe::FIX, "Fixpipe", "cbufWorkspace", false, scales.GetPhyAddr(),
                                uint64_t(p.nSize) * 8, 1, 0, 32, scales.View())) {
        gaf_twin::FixpipeQuant<D, S>("Fixpipe", dst.GetPhyAddr(), dst.View(), Hardware::GM, src, scales.GetPhyAddr(),
                                     CONFIG.format == CO2Layout::ROW_MAJOR, p);
    }
}
template <class D, class S, const FixpipeConfig& CONFIG = CFG_ROW_MAJOR, class Q = uint64_t>
inline void Fixpipe(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<Q>& scales,
                    const FixpipeParamsV220& p)
{
    gaf_twin::check::rule(gaf_twin::QuantByTensor(p.quantPre), "fixpipe-quant", "Fixpipe",
                          "quantPre %d takes no tensor", static_cast<int>(p.quantPre));
    gaf_twin::check::op(gaf_twin::Pipe::FIX, "Fixpipe");
    if (gaf_twin::check::access(gaf_twin::Pipe::FIX, "Fixpipe", "cbufWorkspace", false, scales.GetPhyAddr(),
                                uint64_t(p.nSize) * 8, 1, 0, 32, scales.View())) {
        gaf_twin::FixpipeQuant<D, S>("Fixpipe", dst.GetPhyAddr(), dst.View(), gaf_twin::HardwareOfTensor(dst), src,
                                     scales.GetPhyAddr(), false, p);
    }
}
// ---- LoadData in further forms ----------------------------------------------------------------------------
template <class T, const IsResetLoad3dConfig& CONFIG = IS_RESER_LOAD3D_DEFAULT_CONFIG>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2Pro& p)
{
    static constexpr IsResetLoad3dConfig KEEP = {false, false};  // SetFmatrix and the padding value stand
    LoadData3DParamsV2<T> q;
    const uint64_t e = p.extConfig, f = p.filterConfig;
    q.channelSize = p.channelSize;
    q.kExtension = static_cast<uint16_t>(e);
    q.mExtension = static_cast<uint16_t>(e >> 16);
    q.kStartPt = static_cast<uint16_t>(e >> 32);
    q.mStartPt = static_cast<uint16_t>(e >> 48);
    q.strideW = static_cast<uint8_t>(f);
    q.strideH = static_cast<uint8_t>(f >> 8);
    q.filterW = static_cast<uint8_t>(f >> 16);
    q.filterH = static_cast<uint8_t>(f >> 24);
    q.dilationFilterW = static_cast<uint8_t>(f >> 32);
    q.dilationFilterH = static_cast<uint8_t>(f >> 40);
    q.enTranspose = p.enTranspose;
    q.enSmallK = p.enSmallK;
    q.filterSizeW = p.filterSizeW;
    q.filterSizeH = p.filterSizeH;
    q.fMatrixCtrl = p.fMatrixCtrl;
    LoadData<T, KEEP>(dst, src, q);
}
template <class T>
inline void LoadData(const LocalTensor<T>&, const LocalTensor<T>&, const LoadData2DParamsV2&)
{
    gaf_twin::check::rule(false, "not-on-a2", "LoadData", "LoadData2DParamsV2 belongs to a later architecture");
}

using FixpipeParamsM300 = FixpipeParamsV220;
using FixpipeParamsM310 = FixpipeParamsV220;

// ---- L0C -> GM or L1 as a DataCopy, configured by registers -----------------------------------------------
struct DataCopyCO12DstParams {
    DataCopyCO12DstParams() {}
    DataCopyCO12DstParams(U16 n, U16 m, U32 dst, U16 src, QuantMode_t quant, U8 relu, bool split, bool nd)
        : nSize(n),
          mSize(m),
          dstStride(dst),
          srcStride(src),
          quantPre(quant),
          reluPre(relu),
          channelSplit(split),
          nz2ndEn(nd)
    {
    }
    uint8_t sid = 0;
    U16 nSize = 0, mSize = 0;
    U32 dstStride = 0;
    U16 srcStride = 0;
    U8 unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    U8 reluPre = 0;
    bool channelSplit = false, nz2ndEn = false;
};
template <class T>
inline void SetFixPipeConfig(const LocalTensor<T>&, const LocalTensor<T>& quantPre, bool isUnitFlag = false)
{
    gaf_twin::Current().fixScales = reinterpret_cast<uint64_t>(quantPre.GetPhyAddr());
    (void)isUnitFlag;
}
template <class T, bool setRelu = false>
inline void SetFixPipeConfig(const LocalTensor<T>& data, bool isUnitFlag = false)
{
    if (!setRelu) {
        gaf_twin::Current().fixScales = reinterpret_cast<uint64_t>(data.GetPhyAddr());
    }
    (void)isUnitFlag;
}
inline void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint32_t dstNdStride)
{
    gaf_twin::Core& c = gaf_twin::Current();
    c.fixNdNum = ndNum;
    c.fixSrcNd = srcNdStride;
    c.fixDstNd = static_cast<uint16_t>(dstNdStride);
}
inline void SetFixpipePreQuantFlag(uint64_t config) { gaf_twin::Current().fixScalar = config; }
inline void SetFixPipeClipRelu(uint64_t) {}

}  // namespace AscendC

namespace gaf_twin {

template <class D, class S>
inline void CopyL0C(D* dst, check::View view, Hardware to, const LocalTensor<S>& src,
                    const AscendC::DataCopyCO12DstParams& p)
{
    const Core& c = Current();
    AscendC::FixpipeParamsV220 f(p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluPre != 0);
    f.quantPre = p.quantPre;
    f.deqScalar = c.fixScalar;
    f.unitFlag = p.unitFlag;
    f.isChannelSplit = p.channelSplit;
    f.ndNum = c.fixNdNum;
    f.srcNdStride = c.fixSrcNd;
    f.dstNdStride = c.fixDstNd;
    const uint64_t* scales = QuantByTensor(p.quantPre) ? reinterpret_cast<const uint64_t*>(c.fixScales) : nullptr;
    if (scales != nullptr) {
        check::op(Pipe::FIX, "DataCopy(CO1)");
        if (!check::access(Pipe::FIX, "DataCopy(CO1)", "quantPre", false, scales, uint64_t(p.nSize) * 8, 1, 0, 32)) {
            return;
        }
    }
    FixpipeQuant<D, S>("DataCopy(CO1)", dst, view, to, src, scales, p.nz2ndEn, f);
}

}  // namespace gaf_twin

namespace AscendC {

template <class D, class S>
inline void DataCopy(const GlobalTensor<D>& dst, const LocalTensor<S>& src, const DataCopyCO12DstParams& p)
{
    gaf_twin::CopyL0C(dst.GetPhyAddr(), dst.View(), Hardware::GM, src, p);
}
template <class D, class S>
inline void DataCopy(const LocalTensor<D>& dst, const LocalTensor<S>& src, const DataCopyCO12DstParams& p)
{
    gaf_twin::CopyL0C(dst.GetPhyAddr(), dst.View(), gaf_twin::HardwareOfTensor(dst), src, p);
}

// ---- fractals straight from GM ----------------------------------------------------------------------------
template <class T>
inline void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& p)
{
    using gaf_twin::Pipe;
    const char* api = "LoadData(2D)";
    const Hardware to = gaf_twin::HardwareOfTensor(dst);
    gaf_twin::check::rule(gaf_twin::IsL0(to) || to == Hardware::L1, "position", api, "the path is GM to L1, L0A or L0B");
    gaf_twin::check::rule(!p.ifTranspose, "load-transpose", api, "fractals from GM are not transposed");
    if (p.repeatTimes == 0) {
        return;
    }
    const int64_t step = (p.addrMode == 0 ? 1 : -1) * int64_t(p.srcStride) * 512, dstStep = (int64_t(p.dstGap) + 1) * 512;
    const uint8_t* s = reinterpret_cast<const uint8_t*>(src.GetPhyAddr()) + uint64_t(p.startIndex) * 512;
    gaf_twin::check::op(Pipe::MTE2, api);
    if (gaf_twin::Touch(Pipe::MTE2, api, "src", false, s, 512, p.repeatTimes, step, sizeof(T), src.View()) &&
        gaf_twin::Touch(Pipe::MTE2, api, "dst", true, dst.GetPhyAddr(), 512, p.repeatTimes, dstStep,
                        gaf_twin::IsL0(to) ? 512 : 32, dst.View())) {
        gaf_twin::rt::CopyRuns(dst.GetPhyAddr(), s, 512, p.repeatTimes, dstStep, step);
    }
}

// ---- modes of the cube that do not change results here ----------------------------------------------------
inline void SetMMLayoutTransform(bool) {}
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}

}  // namespace AscendC

#endif  // GAF_TWIN_CUBE_FORMS_H
