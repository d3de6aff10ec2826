// SPDX-License-Identifier: Apache-2.0
// Parameter structures of the Ascend C basic API: member names, order, types and defaults as in CANN 8.1
// (U8, U16 and U32 are those types; in check mode they report values that do not fit).
#ifndef GAF_TWIN_PARAMS_H
#define GAF_TWIN_PARAMS_H

#include "twin/narrow.h"
#include "twin/types.h"

namespace AscendC {

using gaf_twin::U16;
using gaf_twin::U32;
using gaf_twin::U8;

struct UnaryRepeatParams {
    UnaryRepeatParams() {}
    UnaryRepeatParams(U16 dstBlk, U16 srcBlk, U8 dstRep, U8 srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep)
    {
    }
    UnaryRepeatParams(U16 dstBlk, U16 srcBlk, U8 dstRep, U8 srcRep, bool half)
        : dstBlkStride(dstBlk),
          srcBlkStride(srcBlk),
          dstRepStride(dstRep),
          srcRepStride(srcRep),
          halfBlock(half)
    {
    }
    uint32_t blockNumber = 8;
    U16 dstBlkStride = 1, srcBlkStride = 1;
    U8 dstRepStride = 8, srcRepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false, halfBlock = false;
};

struct BinaryRepeatParams {
    BinaryRepeatParams() {}
    BinaryRepeatParams(U8 dstBlk, U8 src0Blk, U8 src1Blk, U8 dstRep, U8 src0Rep, U8 src1Rep)
        : dstBlkStride(dstBlk),
          src0BlkStride(src0Blk),
          src1BlkStride(src1Blk),
          dstRepStride(dstRep),
          src0RepStride(src0Rep),
          src1RepStride(src1Rep)
    {
    }
    uint32_t blockNumber = 8;
    U8 dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    U8 dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false;
};

struct BrcbRepeatParams {
    BrcbRepeatParams() {}
    BrcbRepeatParams(U16 dstBlk, U16 dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
    uint32_t blockNumber = 8;
    U16 dstRepStride = 8, dstBlkStride = 1;
};

struct CopyRepeatParams {
    CopyRepeatParams() {}
    CopyRepeatParams(U16 dst, U16 src, U16 dstRep, U16 srcRep)
        : dstStride(dst), srcStride(src), dstRepeatSize(dstRep), srcRepeatSize(srcRep)
    {
    }
    U16 dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
};

struct GatherMaskParams {
    GatherMaskParams() {}
    GatherMaskParams(U8 blk, U16 times, U16 src0Rep, U8 src1Rep)
        : src0BlockStride(blk), repeatTimes(times), src0RepeatStride(src0Rep), src1RepeatStride(src1Rep)
    {
    }
    U8 src0BlockStride = 1;
    U16 repeatTimes = 0, src0RepeatStride = 8;
    U8 src1RepeatStride = 8;
};

struct DataCopyParams {
    DataCopyParams() {}
    DataCopyParams(U16 count, U16 len, U16 srcGap, U16 dstGap)
        : blockCount(count), blockLen(len), srcStride(srcGap), dstStride(dstGap)
    {
    }
    U16 blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
};

struct DataCopyExtParams {
    DataCopyExtParams() {}
    DataCopyExtParams(U16 count, U32 len, U32 srcGap, U32 dstGap, uint32_t reserved)
        : blockCount(count), blockLen(len), srcStride(srcGap), dstStride(dstGap), rsv(reserved)
    {
    }
    U16 blockCount = 1;
    U32 blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};

struct DataCopyPadParams {
    DataCopyPadParams() {}
    DataCopyPadParams(bool pad, U8 left, U8 right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    bool isPad = false;
    U8 leftPadding = 0, rightPadding = 0;
    uint64_t paddingValue = 0;
};

template <class T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() {}
    DataCopyPadExtParams(bool pad, U8 left, U8 right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    bool isPad = false;
    U8 leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
};

struct Nd2NzParams {
    Nd2NzParams() {}
    Nd2NzParams(U16 nd, U16 n, U16 d, U16 srcMatrix, U16 srcD, U16 dstC0, U16 dstN, U16 dstMatrix)
        : ndNum(nd),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(srcMatrix),
          srcDValue(srcD),
          dstNzC0Stride(dstC0),
          dstNzNStride(dstN),
          dstNzMatrixStride(dstMatrix)
    {
    }
    U16 ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0,
        dstNzNStride = 0, dstNzMatrixStride = 0;
};

struct LoadData2DParams {
    LoadData2DParams() {}
    LoadData2DParams(U16 start, U8 times, U16 src, U8 id, U16 gap, bool transpose, U8 mode)
        : startIndex(start),
          dstGap(gap),
          srcStride(src),
          ifTranspose(transpose),
          repeatTimes(times),
          sid(id),
          addrMode(mode)
    {
    }
    U16 startIndex = 0, dstGap = 0, srcStride = 0;
    bool ifTranspose = false;
    U8 repeatTimes = 0, sid = 0, addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct LoadData2dTransposeParams {
    LoadData2dTransposeParams() {}
    LoadData2dTransposeParams(U16 start, U8 times, U16 src, U16 gap, U16 fracGap, U8 mode = 0)
        : startIndex(start),
          repeatTimes(times),
          srcStride(src),
          dstGap(gap),
          dstFracGap(fracGap),
          addrMode(mode)
    {
    }
    U16 startIndex = 0;
    U8 repeatTimes = 0;
    U16 srcStride = 0, dstGap = 0, dstFracGap = 0;
    U8 addrMode = 0;
};

struct IsResetLoad3dConfig {
    bool isSetFMatrix = true;
    bool isSetPadding = true;
};
constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};

template <class T>
struct LoadData3DParamsV2 {
    LoadData3DParamsV2() {}
    LoadData3DParamsV2(const uint8_t pad[4], U16 h, U16 w, U16 channels, U16 kExt, U16 mExt, U16 kStart,
                       U16 mStart, U8 strW, U8 strH, U8 filW, U8 filH, U8 dilW, U8 dilH, bool transpose,
                       bool smallK, T value, bool sizeW = false, bool sizeH = false, bool ctrl = false)
        : l1H(h),
          l1W(w),
          channelSize(channels),
          kExtension(kExt),
          mExtension(mExt),
          kStartPt(kStart),
          mStartPt(mStart),
          strideW(strW),
          strideH(strH),
          filterW(filW),
          filterH(filH),
          dilationFilterW(dilW),
          dilationFilterH(dilH),
          enTranspose(transpose),
          enSmallK(smallK),
          padValue(value),
          filterSizeW(sizeW),
          filterSizeH(sizeH),
          fMatrixCtrl(ctrl)
    {
        for (int i = 0; i < 4; ++i) {
            padList[i] = pad[i];
        }
    }
    uint8_t padList[4] = {0, 0, 0, 0};
    U16 l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
    U8 strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    bool enTranspose = false, enSmallK = false;
    T padValue = T(0);
    bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
};

// The same packed into two words: extConfig = mStartPt, kStartPt, mExtension, kExtension of 16 bits each;
// filterConfig = dilationFilterH, dilationFilterW, filterH, filterW, strideH, strideW of 8 bits each.
struct LoadData3DParamsV2Pro {
    LoadData3DParamsV2Pro() {}
    LoadData3DParamsV2Pro(U16 channels, bool transpose, bool smallK, bool sizeW, bool sizeH, bool ctrl, uint64_t ext,
                          uint64_t filter)
        : channelSize(channels),
          enTranspose(transpose),
          enSmallK(smallK),
          filterSizeW(sizeW),
          filterSizeH(sizeH),
          fMatrixCtrl(ctrl),
          extConfig(ext),
          filterConfig(filter)
    {
    }
    U16 channelSize = 0;
    bool enTranspose = false, enSmallK = false, filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
    uint64_t extConfig = 0, filterConfig = 0x10101010101ull;
};
struct LoadDataRepeatParam {
    LoadDataRepeatParam() {}
    LoadDataRepeatParam(U16 stride, U8 time, U8 mode) : repeatStride(stride), repeatTime(time), repeatMode(mode) {}
    U16 repeatStride = 0;
    U8 repeatTime = 1, repeatMode = 0;
};
// Of a later architecture: code that is never run on A2 may name it.
struct LoadData2DParamsV2 {
    LoadData2DParamsV2() {}
    LoadData2DParamsV2(U32 m, U32 k, U16 mCount, U16 kCount, int32_t src, U16 dst, bool transpose, U8 id)
        : mStartPosition(m),
          kStartPosition(k),
          mStep(mCount),
          kStep(kCount),
          srcStride(src),
          dstStride(dst),
          ifTranspose(transpose),
          sid(id)
    {
    }
    U32 mStartPosition = 0, kStartPosition = 0;
    U16 mStep = 0, kStep = 0;
    int32_t srcStride = 0;
    U16 dstStride = 0;
    bool ifTranspose = false;
    U8 sid = 0;
};

template <class U>
struct InitConstValueParams {
    InitConstValueParams() {}
    InitConstValueParams(U16 times, U16 blocks, U16 gap, U value)
        : repeatTimes(times), blockNum(blocks), dstGap(gap), initValue(value)
    {
    }
    InitConstValueParams(U16 times, U value) : repeatTimes(times), initValue(value) {}
    U16 repeatTimes = 0, blockNum = 0, dstGap = 0;
    U initValue = U(0);
};

struct MmadParams {
    MmadParams() {}
    MmadParams(U16 mIn, U16 nIn, U16 kIn, bool bias, int32_t offset, bool sparse, bool winA, bool winB)
        : m(mIn),
          n(nIn),
          k(kIn),
          isBias(bias),
          fmOffset(offset),
          enSsparse(sparse),
          enWinogradA(winA),
          enWinogradB(winB)
    {
    }
    MmadParams(U16 mIn, U16 nIn, U16 kIn, U8 unit, bool source, bool init)
        : m(mIn), n(nIn), k(kIn), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(init)
    {
    }
    U16 m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    U8 unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
};

struct FixpipeConfig {
    CO2Layout format;
    bool isToUB = false;  // of a later architecture
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};
constexpr FixpipeConfig CFG_COLUMN_MAJOR = {CO2Layout::COLUMN_MAJOR};

struct FixpipeParamsV220 {
    FixpipeParamsV220() {}
    FixpipeParamsV220(U16 n, U16 m, U16 src, U32 dst, bool relu)
        : nSize(n), mSize(m), srcStride(src), dstStride(dst), reluEn(relu)
    {
    }
    FixpipeParamsV220(U16 n, U16 m, U16 src, U32 dst, bool relu, QuantMode_t quant, int64_t scalar, U16 nd,
                      U16 srcNd, U16 dstNd, U8 unit, bool split = false)
        : nSize(n),
          mSize(m),
          srcStride(src),
          dstStride(dst),
          quantPre(quant),
          deqScalar(scalar),
          ndNum(nd),
          srcNdStride(srcNd),
          dstNdStride(dstNd),
          reluEn(relu),
          unitFlag(unit),
          isChannelSplit(split)
    {
    }
    U16 nSize = 0, mSize = 0, srcStride = 0;
    U32 dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint64_t deqScalar = 0;
    U16 ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    bool reluEn = false;
    U8 unitFlag = 0;
    bool isChannelSplit = false;
};

struct TransDataTo5HDParams {
    TransDataTo5HDParams() {}
    TransDataTo5HDParams(bool dstHigh, bool srcHigh, U8 times, U16 dstRep, U16 srcRep)
        : dstHighHalf(dstHigh),
          srcHighHalf(srcHigh),
          repeatTimes(times),
          dstRepStride(dstRep),
          srcRepStride(srcRep)
    {
    }
    bool dstHighHalf = false, srcHighHalf = false;
    U8 repeatTimes = 1;
    U16 dstRepStride = 0, srcRepStride = 0;
};

}  // namespace AscendC

#endif  // GAF_TWIN_PARAMS_H
