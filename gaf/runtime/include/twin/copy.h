// SPDX-License-Identifier: Apache-2.0
// Data movement: DataCopy in all directions of A2, DataCopyPad, Nd2Nz, atomic stores, InitOutput.
#ifndef GAF_TWIN_COPY_H
#define GAF_TWIN_COPY_H

#include "twin/params.h"
#include "twin/queue.h"
#include "twin/rt.h"

#pragma GCC visibility push(default)
namespace gaf_twin {
// Stores runs to GM with the core's atomic operation; exclusive among threads.
void AtomicRuns(void* dst, const void* src, uint64_t runBytes, uint32_t runs, int64_t dstStride,
                int64_t srcStride);
// Stores rows to GM in fast mode: past the caches where the output is large.
void StoreRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, int64_t dstStride, int64_t srcStride);
}  // namespace gaf_twin
#pragma GCC visibility pop

namespace gaf_twin {

using AscendC::GlobalTensor;
using AscendC::LocalTensor;

template <class T>
constexpr bool IS_MOVABLE = OneOf<T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t,
                                  float, int64_t, uint64_t, double, bool>;

template <class T>
inline Hardware HardwareOfTensor(const LocalTensor<T>& t)
{
    return HardwareOf(static_cast<TPosition>(t.GetPosition()));
}
inline uint32_t AlignmentOf(Hardware h)
{
    return h == Hardware::L0A || h == Hardware::L0B    ? 512
           : h == Hardware::L0C || h == Hardware::BIAS ? 64
                                                       : 32;
}

inline void StoreRuns(void* dst, const void* src, uint64_t runBytes, uint32_t runs, int64_t dstStride,
                      int64_t srcStride)
{
    if (Current().atomicOp != AtomicOp::NONE) {
        AtomicRuns(dst, src, runBytes, runs, dstStride, srcStride);
    } else {
        rt::CopyRuns(dst, src, runBytes, runs, dstStride, srcStride);
    }
}

// Runs of one transfer GM -> local.
template <class T>
inline void Fetch(const char* api, const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint64_t runBytes,
                  uint32_t runs, int64_t dstStride, int64_t srcStride)
{
    if (runBytes == 0 || runs == 0) {
        return;
    }
    check::op(Pipe::MTE2, api);
    if (Touch(Pipe::MTE2, api, "src", false, src.GetPhyAddr(), runBytes, runs, srcStride, sizeof(T),
              src.View()) &&
        Touch(Pipe::MTE2, api, "dst", true, dst.GetPhyAddr(), runBytes, runs, dstStride,
              AlignmentOf(HardwareOfTensor(dst)), dst.View())) {
        rt::CopyRuns(dst.GetPhyAddr(), src.GetPhyAddr(), runBytes, runs, dstStride, srcStride);
    }
}
// Runs of one transfer local -> GM.
template <class T>
inline void Put(const char* api, const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint64_t runBytes,
                uint32_t runs, int64_t dstStride, int64_t srcStride)
{
    if (runBytes == 0 || runs == 0) {
        return;
    }
    check::op(Pipe::MTE3, api);
    if (Touch(Pipe::MTE3, api, "src", false, src.GetPhyAddr(), runBytes, runs, srcStride, 32, src.View()) &&
        Touch(Pipe::MTE3, api, "dst", true, dst.GetPhyAddr(), runBytes, runs, dstStride, sizeof(T),
              dst.View())) {
        StoreRuns(dst.GetPhyAddr(), src.GetPhyAddr(), runBytes, runs, dstStride, srcStride);
    }
}
// Local -> local: UB -> UB runs on the vector pipe, L1 -> BT and L1 -> FB on MTE1 and FIX, UB -> L1 on MTE3.
template <class D, class S>
inline void Move(const char* api, const LocalTensor<D>& dst, const LocalTensor<S>& src, uint64_t runBytes,
                 uint32_t runs, int64_t dstStride, int64_t srcStride)
{
    if (runBytes == 0 || runs == 0) {
        return;
    }
    const Hardware from = HardwareOfTensor(src), to = HardwareOfTensor(dst);
    const Pipe pipe = to == Hardware::UB       ? Pipe::V
                      : to == Hardware::BIAS   ? Pipe::MTE1
                      : to == Hardware::FIXBUF ? Pipe::FIX
                                               : Pipe::MTE3;
    check::rule((from == Hardware::UB && (to == Hardware::UB || to == Hardware::L1)) ||
                    (from == Hardware::L1 && (to == Hardware::BIAS || to == Hardware::FIXBUF)),
                "copy-path", api, "A2 has no such data path between on-chip memories");
    check::op(pipe, api);
    if (Touch(pipe, api, "src", false, src.GetPhyAddr(), runBytes, runs, srcStride, AlignmentOf(from),
              src.View()) &&
        Touch(pipe, api, "dst", true, dst.GetPhyAddr(), runBytes, runs, dstStride, AlignmentOf(to),
              dst.View())) {
        rt::CopyRuns(dst.GetPhyAddr(), src.GetPhyAddr(), runBytes, runs, dstStride, srcStride);
    }
}

inline bool CheckCopyParams(const char* api, const AscendC::DataCopyParams& p)
{
    return check::rule(p.blockCount <= 4095, "copy-limits", api, "blockCount %u is above 4095",
                       static_cast<uint32_t>(p.blockCount));
}
template <class T>
inline uint64_t WholeBlocks(const char* api, uint32_t count)
{
    const uint64_t bytes = uint64_t(count) * sizeof(T);
    check::rule(bytes % 32 == 0, "copy-count", api,
                "%u elements are %llu bytes, not a multiple of 32: the rest is not copied", count,
                static_cast<unsigned long long>(bytes));
    return bytes / 32 * 32;
}

}  // namespace gaf_twin

namespace AscendC {

// ---- DataCopy: a count, or bursts of 32-byte blocks (gaps from the end of one to the start of the next) ---
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count)
{
    static_assert(gaf_twin::IS_MOVABLE<T>, "DataCopy: dtype not supported");
    gaf_twin::Fetch("DataCopy", dst, src, gaf_twin::WholeBlocks<T>("DataCopy", count), 1, 0, 0);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    static_assert(gaf_twin::IS_MOVABLE<T>, "DataCopy: dtype not supported");
    gaf_twin::Put("DataCopy", dst, src, gaf_twin::WholeBlocks<T>("DataCopy", count), 1, 0, 0);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    static_assert(gaf_twin::IS_MOVABLE<T>, "DataCopy: dtype not supported");
    gaf_twin::Move("DataCopy", dst, src, gaf_twin::WholeBlocks<T>("DataCopy", count), 1, 0, 0);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p)
{
    gaf_twin::CheckCopyParams("DataCopy", p);
    const int64_t len = int64_t(p.blockLen) * 32;
    gaf_twin::Fetch("DataCopy", dst, src, len, p.blockCount, len + int64_t(p.dstStride) * 32,
                    len + int64_t(p.srcStride) * 32);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p)
{
    gaf_twin::CheckCopyParams("DataCopy", p);
    const int64_t len = int64_t(p.blockLen) * 32;
    gaf_twin::Put("DataCopy", dst, src, len, p.blockCount, len + int64_t(p.dstStride) * 32,
                  len + int64_t(p.srcStride) * 32);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p)
{
    gaf_twin::CheckCopyParams("DataCopy", p);
    const Hardware to = gaf_twin::HardwareOfTensor(dst);  // L1 -> BT counts in 64 bytes, L1 -> FB in 128
    const int64_t unit = to == Hardware::BIAS ? 64 : to == Hardware::FIXBUF ? 128 : 32,
                  len = int64_t(p.blockLen) * unit;
    gaf_twin::Move("DataCopy", dst, src, len, p.blockCount, len + int64_t(p.dstStride) * unit,
                   len + int64_t(p.srcStride) * 32);
}

// ---- DataCopyPad: bursts of bytes; UB rows are padded to 32 bytes -----------------------------------------
template <class T>
inline void SetPadValue(T value)
{
    gaf_twin::Current().padValue = 0;
    gaf_twin::Current().padValueSet = true;
    memcpy(&gaf_twin::Current().padValue, &value, sizeof(T));
}

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void FetchPadded(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t runs, uint32_t len,
                        uint64_t srcGap, uint64_t dstGap, bool isPad, uint32_t left, uint32_t right, T value)
{
    static_assert(IS_MOVABLE<T>, "DataCopyPad: dtype not supported");
    const char* api = "DataCopyPad";
    check::rule(runs <= 4095, "copy-limits", api, "blockCount %u is above 4095", runs);
    check::rule(len <= 2097151, "copy-limits", api, "blockLen %u is above 2097151 bytes", len);
    check::rule(len % sizeof(T) == 0, "copy-limits", api, "blockLen %u is not a multiple of the element size",
                len);
    check::rule(left * sizeof(T) <= 32 && right * sizeof(T) <= 32, "copy-padding", api,
                "padding of %u and %u elements is above 32 bytes", left, right);
    check::rule(sizeof(T) < 8 || !isPad || value == T(0), "copy-padding", api,
                "64-bit types pad with 0 only");
    if (runs == 0 || len == 0) {
        return;
    }
    const uint32_t leftBytes = left * sizeof(T), rightBytes = right * sizeof(T);
    const uint32_t row = RoundUp(leftBytes + len + rightBytes, 32);
    const int64_t dstStride = static_cast<int64_t>(row + dstGap * 32),
                  srcStride = static_cast<int64_t>(len + srcGap);
    // Paddings without isPad hold noise unless SetPadValue was called: they do not count as written.
    const bool noise = !isPad && (left != 0 || right != 0) && !Current().padValueSet;
    check::op(Pipe::MTE2, api);
    if (!Touch(Pipe::MTE2, api, "src", false, src.GetPhyAddr(), len, runs, srcStride, sizeof(T),
               src.View()) ||
        !(noise
              ? Touch(Pipe::MTE2, api, "dst", true, reinterpret_cast<uint8_t*>(dst.GetPhyAddr()) + leftBytes,
                      len, runs, dstStride, 0, dst.View())
              : Touch(Pipe::MTE2, api, "dst", true, dst.GetPhyAddr(), row, runs, dstStride, 32,
                      dst.View()))) {
        return;
    }
    if (row == len) {
        rt::CopyRuns(dst.GetPhyAddr(), src.GetPhyAddr(), len, runs, dstStride, srcStride);
        return;
    }
    // Filler: the value; without padding the first element of the burst; else what SetPadValue left.
    T fill = value;
    if (!isPad) {
        if (left == 0 && right == 0) {
            fill = *src.GetPhyAddr();
        } else {
            memcpy(&fill, &Current().padValue, sizeof(T));
        }
    }
    for (uint32_t r = 0; r < runs; ++r) {
        uint8_t* d = reinterpret_cast<uint8_t*>(dst.GetPhyAddr()) + dstStride * r;
        const uint8_t* s = reinterpret_cast<const uint8_t*>(src.GetPhyAddr()) + srcStride * r;
        if (!isPad && left == 0 && right == 0) {
            memcpy(&fill, s, sizeof(T));
        }
        for (uint32_t i = 0; i < left; ++i) {
            memcpy(d + i * sizeof(T), &fill, sizeof(T));
        }
        memcpy(d + leftBytes, s, len);
        for (uint32_t i = leftBytes + len; i < row; i += sizeof(T)) {
            memcpy(d + i, &fill, sizeof(T));
        }
    }
}
template <class T>
inline void PutBytes(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t runs, uint32_t len,
                     uint64_t srcGap, uint64_t dstGap)
{
    static_assert(IS_MOVABLE<T>, "DataCopyPad: dtype not supported");
    check::rule(runs <= 4095, "copy-limits", "DataCopyPad", "blockCount %u is above 4095", runs);
    check::rule(len <= 2097151, "copy-limits", "DataCopyPad", "blockLen %u is above 2097151 bytes", len);
    Put("DataCopyPad", dst, src, len, runs, static_cast<int64_t>(len + dstGap),
        static_cast<int64_t>(RoundUp(len, 32) + srcGap * 32));
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                        const DataCopyPadExtParams<T>& pad)
{
    gaf_twin::FetchPadded<T>(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride, pad.isPad,
                             pad.leftPadding, pad.rightPadding, pad.paddingValue);
}
template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                        const DataCopyPadParams& pad)
{
    T value;
    memcpy(&value, &pad.paddingValue, sizeof(T));
    gaf_twin::FetchPadded<T>(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride, pad.isPad,
                             pad.leftPadding, pad.rightPadding, value);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p)
{
    gaf_twin::PutBytes(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p)
{
    gaf_twin::PutBytes(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride);
}

// ---- GM -> L1 with conversion of a row-major matrix to Nz -------------------------------------------------
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p)
{
    using gaf_twin::Pipe;
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4, "Nd2Nz: 8-, 16- and 32-bit types");
    const char* api = "DataCopy(Nd2Nz)";
    constexpr uint32_t c0 = 32 / sizeof(T);
    using gaf_twin::check::rule;
    rule(p.ndNum <= 4095, "nd2nz-limits", api, "ndNum %u is above 4095", static_cast<uint32_t>(p.ndNum));
    rule(p.nValue <= 16384, "nd2nz-limits", api, "nValue %u is above 16384", static_cast<uint32_t>(p.nValue));
    rule(p.nValue <= 1 || p.srcDValue >= 1, "nd2nz-limits", api, "srcDValue must be 1 to 65535");
    rule(p.dValue <= p.srcDValue || p.nValue <= 1, "nd2nz-limits", api, "dValue %u is above srcDValue %u",
         static_cast<uint32_t>(p.dValue), static_cast<uint32_t>(p.srcDValue));
    rule(p.dstNzC0Stride >= 1 && p.dstNzC0Stride <= 16384, "nd2nz-limits", api,
         "dstNzC0Stride %u is not in 1..16384", static_cast<uint32_t>(p.dstNzC0Stride));
    rule(gaf_twin::HardwareOfTensor(dst) == Hardware::L1, "position", api, "dst must lie in L1");
    if (p.ndNum == 0 || p.nValue == 0 || p.dValue == 0) {
        return;
    }
    const uint32_t columns = gaf_twin::DivUp(p.dValue, c0);
    gaf_twin::check::op(Pipe::MTE2, api);
    for (uint32_t m = 0; m < p.ndNum; ++m) {
        const T* s = src.GetPhyAddr() + uint64_t(m) * p.srcNdMatrixStride;
        T* d = dst.GetPhyAddr() + uint64_t(m) * p.dstNzMatrixStride;
        if (!gaf_twin::Touch(Pipe::MTE2, api, "src", false, s, uint64_t(p.dValue) * sizeof(T), p.nValue,
                             int64_t(p.srcDValue) * int64_t(sizeof(T)), sizeof(T), src.View()) ||
            !gaf_twin::check::access(Pipe::MTE2, api, "dst", true, d, 32, p.nValue,
                                     int64_t(p.dstNzNStride) * 32, 32, dst.View(), columns,
                                     int64_t(p.dstNzC0Stride) * 32)) {
            return;
        }
        for (uint32_t j = 0; j < columns; ++j) {
            const uint32_t n = p.dValue - j * c0 < c0 ? p.dValue - j * c0 : c0;
            const T* sj = s + j * c0;
            T* dj = d + uint64_t(j) * p.dstNzC0Stride * c0;
            for (uint32_t i = 0; i < p.nValue; ++i) {
                T* row = dj + uint64_t(i) * p.dstNzNStride * c0;
                if (n == c0) {
                    memcpy(row, sj + uint64_t(i) * p.srcDValue, 32);
                } else {
                    memcpy(row, sj + uint64_t(i) * p.srcDValue, n * sizeof(T));
                    memset(row + n, 0, (c0 - n) * sizeof(T));
                }
            }
        }
    }
}

// Fills GM; each core gives its own range.
template <class T>
inline void InitOutput(GlobalTensor<T> dst, uint32_t count, T value = T(0))
{
    gaf_twin::check::op(gaf_twin::Pipe::MTE3, "InitOutput");
    if (count != 0 && gaf_twin::Touch(gaf_twin::Pipe::MTE3, "InitOutput", "dst", true, dst.GetPhyAddr(),
                                      uint64_t(count) * sizeof(T), 1, 0, sizeof(T), dst.View())) {
        for (uint32_t i = 0; i < count; ++i) {
            dst.GetPhyAddr()[i] = value;
        }
    }
}

}  // namespace AscendC

#endif  // GAF_TWIN_COPY_H
