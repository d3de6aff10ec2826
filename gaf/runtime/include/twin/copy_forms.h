// SPDX-License-Identifier: Apache-2.0
// Further forms of data movement: slices, enhanced copies, Nz to ND, scalar access past the data cache.
#ifndef GAF_TWIN_COPY_FORMS_H
#define GAF_TWIN_COPY_FORMS_H

#include "twin/copy.h"

namespace AscendC {

// ---- slices of a tensor of up to 8 dimensions -------------------------------------------------------------
// Dimension 0 is the innermost. In GM a dimension takes [startIndex, endIndex] of shapeValue elements, in
// bursts of burstLen blocks of 32 bytes (1 beyond dimension 0) with `stride` elements (GM) or blocks (UB)
// between them.
struct SliceInfo {
    SliceInfo() {}
    SliceInfo(uint32_t start, uint32_t end, uint32_t gap, uint32_t burst, uint32_t shape = 0)
        : startIndex(start), endIndex(end), stride(gap), burstLen(burst), shapeValue(shape)
    {
    }
    uint32_t startIndex = 0, endIndex = ONE_BLK_SIZE - 1, stride = 0, burstLen = ONE_BLK_SIZE, shapeValue = 0;
};

}  // namespace AscendC

namespace gaf_twin {

// Scalar loads and stores of memory that other cores poll.
template <class T>
inline void StoreScalar(T* p, T value)
{
    *const_cast<volatile T*>(p) = value;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
template <class T>
inline T LoadScalar(const T* p)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return *const_cast<const volatile T*>(p);
}

// One side of a slice copy: byte offsets of its bursts in order.
template <class T>
class SliceWalk {
public:
    SliceWalk(const AscendC::SliceInfo* s, uint32_t dims, bool gm) : s_(s), dims_(dims), gm_(gm)
    {
        check::rule(dims >= 1 && dims <= 8, "slice-limits", "DataCopy", "%u dimensions, 1 to 8 are possible", dims);
        for (uint32_t d = 0; d < dims; ++d) {
            check::rule(s[d].startIndex <= s[d].endIndex &&
                            (s[d].shapeValue == 0 || s[d].endIndex < s[d].shapeValue),
                        "slice-limits", "DataCopy", "slice %u..%u of a dimension of %u", s[d].startIndex,
                        s[d].endIndex, s[d].shapeValue);
            check::rule(d == 0 || s[d].burstLen == 1, "slice-limits", "DataCopy",
                        "burstLen %u beyond the innermost dimension, it must be 1", s[d].burstLen);
            // Bursts in this dimension: burst elements, then stride elements are skipped.
            const uint64_t unit = d == 0 ? uint64_t(s[0].burstLen) * 32 / sizeof(T) : 1;
            const uint64_t span = s[d].endIndex - s[d].startIndex + 1, step = unit + Gap(d);
            count_[d] = static_cast<uint32_t>(unit == 0 ? 0 : (span + Gap(d)) / step);
            step_[d] = step;
        }
    }
    uint64_t Bursts() const
    {
        uint64_t n = 1;
        for (uint32_t d = 0; d < dims_; ++d) {
            n *= count_[d];
        }
        return n;
    }
    // Element offset of burst i.
    uint64_t At(uint64_t i) const
    {
        uint64_t pitch = 1, offset = 0;
        for (uint32_t d = 0; d < dims_; ++d) {
            offset += (s_[d].startIndex + i % count_[d] * step_[d]) * pitch;
            i /= count_[d];
            pitch *= s_[d].shapeValue != 0 ? s_[d].shapeValue : s_[d].endIndex + 1;
        }
        return offset;
    }

private:
    uint64_t Gap(uint32_t d) const
    {
        return gm_ || d != 0 ? s_[d].stride : uint64_t(s_[d].stride) * 32 / sizeof(T);
    }
    const AscendC::SliceInfo* s_;
    uint32_t dims_;
    bool gm_;
    uint32_t count_[8] = {};
    uint64_t step_[8] = {};
};

template <class T>
inline void CopySlices(T* dst, check::View dstView, const AscendC::SliceInfo* dstSlice, T* src, check::View srcView,
                       const AscendC::SliceInfo* srcSlice, uint32_t dims, bool toLocal)
{
    const char* api = "DataCopy(slice)";
    const Pipe pipe = toLocal ? Pipe::MTE2 : Pipe::MTE3;
    const SliceWalk<T> from(srcSlice, dims, toLocal), to(dstSlice, dims, !toLocal);
    const uint64_t bytes = uint64_t(srcSlice[0].burstLen) * 32;
    check::rule(srcSlice[0].burstLen == dstSlice[0].burstLen, "slice-limits", api,
                "burst lengths %u and %u differ", srcSlice[0].burstLen, dstSlice[0].burstLen);
    const uint64_t n = from.Bursts() < to.Bursts() ? from.Bursts() : to.Bursts();
    check::rule(from.Bursts() == to.Bursts(), "slice-limits", api, "%llu bursts from, %llu to",
                static_cast<unsigned long long>(from.Bursts()), static_cast<unsigned long long>(to.Bursts()));
    if (bytes == 0) {
        return;
    }
    check::op(pipe, api);
    for (uint64_t i = 0; i < n; ++i) {
        T *d = dst + to.At(i), *s = src + from.At(i);
        if (!Touch(pipe, api, "src", false, s, bytes, 1, 0, toLocal ? sizeof(T) : 32, srcView) ||
            !Touch(pipe, api, "dst", true, d, bytes, 1, 0, toLocal ? 32 : sizeof(T), dstView)) {
            return;
        }
        if (toLocal) {
            memcpy(d, s, bytes);
        } else {
            StoreRuns(d, s, bytes, 1, 0, 0);
        }
    }
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSlice[],
                     const SliceInfo srcSlice[], const uint32_t dims = 1)
{
    gaf_twin::CopySlices(dst.GetPhyAddr(), dst.View(), dstSlice, src.GetPhyAddr(), src.View(), srcSlice, dims, true);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSlice[],
                     const SliceInfo srcSlice[], const uint32_t dims = 1)
{
    gaf_twin::CopySlices(dst.GetPhyAddr(), dst.View(), dstSlice, src.GetPhyAddr(), src.View(), srcSlice, dims, false);
}

// ---- copies with options of other chips: on A2 only the plain mode ----------------------------------------
enum class BlockMode : uint8_t { BLOCK_MODE_NORMAL = 0, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR, BLOCK_MODE_SMALL_CHANNEL };
enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };
struct DataCopyEnhancedParams {
    DataCopyEnhancedParams() {}
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
    uint8_t padMode = 0;
    uint64_t padValue = 0, deqTensorAddr = 0;
};
template <class D, class S>
inline void DataCopy(const D& dst, const S& src, const DataCopyParams& p, const DataCopyEnhancedParams& e)
{
    gaf_twin::check::rule(e.blockMode == BlockMode::BLOCK_MODE_NORMAL && e.deqScale == DeqScale::DEQ_NONE && !e.isRelu,
                          "copy-mode", "DataCopy", "A2 copies between GM and UB without conversion");
    DataCopy(dst, src, p);
}

// UB (Nz) -> GM (row-major): nValue x dValue of ndNum matrices.
struct Nz2NdParamsFull {
    Nz2NdParamsFull() {}
    Nz2NdParamsFull(U16 nd, U16 n, U16 d, U16 srcMatrix, U16 srcN, U16 dstD, U16 dstMatrix)
        : ndNum(nd),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(srcMatrix),
          srcNStride(srcN),
          dstDStride(dstD),
          dstNdMatrixStride(dstMatrix)
    {
    }
    U16 ndNum = 1, nValue = 0, dValue = 0, srcNdMatrixStride = 1, srcNStride = 0, dstDStride = 0,
        dstNdMatrixStride = 1;
};
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Nz2NdParamsFull& p)
{
    using gaf_twin::Pipe;
    const char* api = "DataCopy(Nz2Nd)";
    constexpr uint32_t c0 = 16;
    gaf_twin::check::op(Pipe::MTE3, api);
    for (uint32_t m = 0; m < p.ndNum; ++m) {
        for (uint32_t j = 0; j < p.dValue; j += c0) {
            const uint32_t n = p.dValue - j < c0 ? p.dValue - j : c0;
            const T* s = src.GetPhyAddr() + uint64_t(m) * p.srcNdMatrixStride * 256 + uint64_t(j / c0) * p.srcNStride * c0;
            T* d = dst.GetPhyAddr() + uint64_t(m) * p.dstNdMatrixStride + j;
            if (!gaf_twin::Touch(Pipe::MTE3, api, "src", false, s, n * sizeof(T), p.nValue, c0 * sizeof(T), 0,
                                 src.View()) ||
                !gaf_twin::Touch(Pipe::MTE3, api, "dst", true, d, n * sizeof(T), p.nValue,
                                 int64_t(p.dstDStride) * int64_t(sizeof(T)), sizeof(T), dst.View())) {
                return;
            }
            gaf_twin::StoreRuns(d, s, n * sizeof(T), p.nValue, int64_t(p.dstDStride) * int64_t(sizeof(T)),
                                c0 * sizeof(T));
        }
    }
}

// ---- fill of GM -------------------------------------------------------------------------------------------
template <class T>
inline void Fill(GlobalTensor<T> dst, uint64_t count, T value)
{
    InitOutput<T>(dst, static_cast<uint32_t>(count), value);
}

// ---- scalar access to GM ----------------------------------------------------------------------------------
template <class T>
inline void WriteGmByPassDCache(__gm__ T* address, T value)
{
    gaf_twin::check::op(gaf_twin::Pipe::S, "WriteGmByPassDCache");
    if (gaf_twin::Touch(gaf_twin::Pipe::S, "WriteGmByPassDCache", "addr", true, address, sizeof(T), 1, 0, sizeof(T),
                        gaf_twin::check::View{})) {
        gaf_twin::StoreScalar(address, value);
        gaf_twin::check::cacheCleaned(address);
    }
}
template <class T>
inline T ReadGmByPassDCache(__gm__ T* address)
{
    gaf_twin::YieldCore(address);
    gaf_twin::check::cacheDropped(address);  // it sees the last write, and all before
    gaf_twin::check::op(gaf_twin::Pipe::S, "ReadGmByPassDCache");
    if (!gaf_twin::Touch(gaf_twin::Pipe::S, "ReadGmByPassDCache", "addr", false, address, sizeof(T), 1, 0, sizeof(T),
                         gaf_twin::check::View{})) {
        return T(0);
    }
    return gaf_twin::LoadScalar(address);
}

}  // namespace AscendC

#endif  // GAF_TWIN_COPY_FORMS_H
