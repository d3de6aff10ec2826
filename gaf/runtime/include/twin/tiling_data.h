// SPDX-License-Identifier: Apache-2.0
// Tiling structures of the high-level API, for kernels (plain structs) and for host code (optiling, with
// setters), with the members, order and sizes of the toolkit: programs copy them word by word.
//
// What the twin needs of them are shapes; the rest describes loops that it does not have and stays 0.
#ifndef GAF_TWIN_TILING_DATA_H
#define GAF_TWIN_TILING_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// clang-format off
// Members: U uint32_t, I int32_t, H uint16_t, R float, B bool.
#define GAF_TILING_SoftMaxTiling(U, I, H, R, B) \
    U(srcM) U(srcK) U(srcSize) U(outMaxM) U(outMaxK) U(outMaxSize) U(splitM) U(splitK) U(splitSize) \
    U(reduceM) U(reduceK) U(reduceSize) U(rangeM) U(tailM) U(tailSplitSize) U(tailReduceSize)
#define GAF_TILING_LogSoftMaxTiling(U, I, H, R, B) \
    U(srcM) U(srcK) U(srcSize) U(outMaxM) U(outMaxK) U(outMaxSize) U(splitM) U(splitK) U(splitSize) \
    U(reduceM) U(reduceK) U(reduceSize) U(rangeM) U(tailM) U(tailSplitSize) U(tailReduceSize)
#define GAF_TILING_UnPadTiling(U, I, H, R, B) \
    U(srcHeight) U(srcWidth) U(tmpBuffer1BlockNum) U(tmpBuffer1RowNum) U(tmpBuffer2Offset) \
    U(widthTiling) U(widthFractal) U(widthFractalTail)
#define GAF_TILING_PadTiling(U, I, H, R, B) \
    U(srcHeight) U(srcWidth) U(srcOriWidth) U(widthWithoutLastBlock) U(blocksPerRow) U(heightTiling) \
    U(heightFractal) U(heightFractalTail) U(mainLoopOffset) U(tailBlockOffset) U(tmpBuffer1BlockNum) \
    U(tmpBuffer1RowNum) U(tmpBuffer2Offset) U(widthTiling) U(widthFractal) U(widthFractalTail) \
    U(widthFractalTailAlingned) U(brcbTiling) U(brcbFractal) U(brcbFractalTail) U(maxRepeatTimes) \
    U(brcbTilingRepeatTimes) U(brcbTilingRepeatTimesTail) U(brcbFractalTailRepeatTimes) \
    U(brcbFractalTailRepeatTimesTail) U(reserved)
#define GAF_TILING_TopkTiling(U, I, H, R, B) \
    I(tmpLocalSize) I(allDataSize) I(innerDataSize) U(sortRepeat) I(mrgSortRepeat) I(kAlignFourBytes) \
    I(kAlignTwoBytes) I(maskOffset) I(maskVreducev2FourBytes) I(maskVreducev2TwoBytes) \
    I(mrgSortSrc1offset) I(mrgSortSrc2offset) I(mrgSortSrc3offset) I(mrgSortTwoQueueSrc1Offset) \
    I(mrgFourQueueTailPara1) I(mrgFourQueueTailPara2) I(srcIndexOffset) U(copyUbToUbBlockCount) \
    I(topkMrgSrc1MaskSizeOffset) I(topkNSmallSrcIndexOffset) U(vreduceValMask0) U(vreduceValMask1) \
    U(vreduceIdxMask0) U(vreduceIdxMask1) H(vreducehalfValMask0) H(vreducehalfValMask1) \
    H(vreducehalfValMask2) H(vreducehalfValMask3) H(vreducehalfValMask4) H(vreducehalfValMask5) \
    H(vreducehalfValMask6) H(vreducehalfValMask7)
#define GAF_TILING_LayerNormTiling(U, I, H, R, B) \
    U(bLength) U(sLength) U(hLength) U(originalHLength) U(inputXSize) U(meanVarSize) U(numberOfTmpBuf) \
    U(meanTmpTensorPos) U(meanTmpTensorSize) U(varianceTmpTensorPos) U(varianceTmpTensorSize) \
    U(tmpBufSize) U(oneTmpSize) U(firstTmpStartPos) U(secondTmpStartPos) U(thirdTmpStartPos) \
    U(loopRound) U(inputRoundSize) U(inputTailSize) U(inputTailPos) U(meanVarRoundSize) \
    U(meanVarTailSize) U(meanVarTailPos) U(bshCurLength) U(bsCurLength) R(lastDimValueBack)
#define GAF_TILING_LayerNormSeparateTiling(U, I, H, R, B) \
    U(aLength) U(rLength) U(halfAddRepeatTimes) U(rHeadLength) R(k2Rec) R(k2RRec) U(inputXSize) \
    U(meanVarSize) U(numberOfTmpBuf) U(varianceTmpTensorPos) U(varianceTmpTensorSize) U(tmpBufSize) \
    U(oneTmpSize) U(firstTmpStartPos) U(secondTmpStartPos) U(thirdTmpStartPos) U(loopRound) \
    U(inputRoundSize) U(inputTailSize) U(inputTailPos) U(meanVarRoundSize) U(meanVarTailSize) \
    U(meanVarTailPos) U(arCurLength) U(aCurLength) R(rValueBack)
#define GAF_TILING_LayerNormGradBetaTiling(U, I, H, R, B) \
    U(stackBufferSize) U(bLength) U(sLength) U(hLength) U(originalHLength) U(bshLength) U(bsLength) \
    U(oneCalSize) U(numberOfTmpBuf) U(loopRound) U(inputTailSize) U(inputTailPos) U(bsTailSize) \
    U(bshCurLength) U(bsCurLength) U(gammaTempTensorPos) U(betaTempTensorPos) U(inputDyTmpTensorPos) \
    U(resForGammaTmpTensorPos) U(reserved)
#define GAF_TILING_RmsNormTiling(U, I, H, R, B) \
    U(bLength) U(sLength) U(hLength) U(originalHLength) R(reciprocalOfHLength) U(mainBshLength) \
    U(mainBsLength) U(mainBsLengthAlign) U(loopRound) U(inputTailPos) U(tailBshLength) U(tailBsLength)
#define GAF_TILING_GroupNormTiling(U, I, H, R, B) \
    U(n) U(c) U(hw) U(g) U(d) U(hwAlignSize) U(dhwAlignSize) U(inputXSize) U(meanVarSize) \
    U(numberOfTmpBuf) U(meanTmpTensorPos) U(meanTmpTensorSize) U(varianceTmpTensorPos) \
    U(varianceTmpTensorSize) U(tmpBufSize) U(oneTmpSize) U(firstTmpStartPos) U(secondTmpStartPos) \
    U(thirdTmpStartPos) U(loopRound) U(inputRoundSize) U(inputTailSize) U(inputTailPos) \
    U(meanVarRoundSize) U(meanVarTailSize) U(meanVarTailPos) U(bshCurLength) U(bsCurLength) R(factor) \
    B(smallShape)
#define GAF_TILING_DeepNormTiling(U, I, H, R, B) \
    U(bLength) U(sLength) U(hLength) U(originalHLength) U(inputXSize) U(meanVarSize) U(numberOfTmpBuf) \
    U(meanTmpTensorPos) U(meanTmpTensorSize) U(varianceTmpTensorPos) U(varianceTmpTensorSize) \
    U(tmpBufSize) U(oneTmpSize) U(firstTmpStartPos) U(secondTmpStartPos) U(thirdTmpStartPos) \
    U(loopRound) U(inputRoundSize) U(inputTailSize) U(inputTailPos) U(meanVarRoundSize) \
    U(meanVarTailSize) U(meanVarTailPos) U(bshCurLength) U(bsCurLength) R(lastDimValueBack)
#define GAF_TILING_LayerNormGradTiling(U, I, H, R, B) \
    U(stackBufferSize) U(bLength) U(sLength) U(hLength) U(originalHLength) U(oneCalSize) U(nohCalSize) \
    U(loopNum) U(tailSize) U(nohTailSize) U(tmpTensorBSHPos) U(tmpTensorBSHSize) U(pdVarTensorPos) \
    U(pdVarTensorSize) U(pdMeanTensorPos) U(pdMeanTensorSize) U(x1TensorPos) U(x1TensorSize) \
    U(x2TensorPos) U(x2TensorSize) U(x3TensorPos) U(x3TensorSize) U(tmpTensorPos) U(tmpTensorSize) \
    U(tmpTensor1Pos) U(tmpTensor1Size) U(tmpTensor2Pos) U(tmpTensor2Size) U(lastDimValueBack) \
    U(lastDimValueBackMulTwo)
#define GAF_TILING_ConfusionTransposeTiling(U, I, H, R, B) \
    U(param0) U(param1) U(param2) U(param3) U(param4) U(param5) U(param6) U(param7) U(param8) U(param9) \
    U(param10) U(param11) U(param12) U(param13) U(param14) U(param15) U(param16) U(param17)
#define GAF_TILING_TCubeTiling(U, I, H, R, B) \
    I(usedCoreNum) I(M) I(N) I(Ka) I(Kb) I(singleCoreM) I(singleCoreN) I(singleCoreK) I(baseM) I(baseN) \
    I(baseK) I(depthA1) I(depthB1) I(stepM) I(stepN) I(isBias) I(transLength) I(iterateOrder) \
    I(shareMode) I(shareL1Size) I(shareL0CSize) I(shareUbSize) I(batchM) I(batchN) I(singleBatchM) \
    I(singleBatchN) I(stepKa) I(stepKb) I(depthAL1CacheUB) I(depthBL1CacheUB) I(dbL0A) I(dbL0B) I(dbL0C) \
    I(ALayoutInfoB) I(ALayoutInfoS) I(ALayoutInfoN) I(ALayoutInfoG) I(ALayoutInfoD) I(BLayoutInfoB) \
    I(BLayoutInfoS) I(BLayoutInfoN) I(BLayoutInfoG) I(BLayoutInfoD) I(CLayoutInfoB) I(CLayoutInfoS1) \
    I(CLayoutInfoN) I(CLayoutInfoG) I(CLayoutInfoS2) I(BatchNum) I(mxTypePara)

#define GAF_TILINGS(X) \
    X(SoftMaxTiling) X(LogSoftMaxTiling) X(UnPadTiling) X(PadTiling) X(TopkTiling) X(LayerNormTiling) \
    X(LayerNormSeparateTiling) X(LayerNormGradBetaTiling) X(RmsNormTiling) X(GroupNormTiling) \
    X(DeepNormTiling) X(LayerNormGradTiling) X(ConfusionTransposeTiling) X(TCubeTiling)

// ---- plain structs ----------------------------------------------------------------------------------------
#define GAF_TILING_U(NAME) uint32_t NAME = 0;
#define GAF_TILING_I(NAME) int32_t NAME = 0;
#define GAF_TILING_H(NAME) uint16_t NAME = 0;
#define GAF_TILING_R(NAME) float NAME = 0;
#define GAF_TILING_B(NAME) bool NAME = false;
#define GAF_TILING_ALL GAF_TILING_U, GAF_TILING_I, GAF_TILING_H, GAF_TILING_R, GAF_TILING_B
#define GAF_TILING_EXPAND(LIST, ...) LIST(__VA_ARGS__)
#define GAF_TILING_STRUCT(NAME) \
    struct NAME { \
        GAF_TILING_EXPAND(GAF_TILING_##NAME, GAF_TILING_ALL) \
    };
GAF_TILINGS(GAF_TILING_STRUCT)
#undef GAF_TILING_U
#undef GAF_TILING_I
#undef GAF_TILING_H
#undef GAF_TILING_R
#undef GAF_TILING_B
#undef GAF_TILING_STRUCT
namespace AscendC {
namespace tiling {
#define GAF_TILING_USING(NAME) using ::NAME;
GAF_TILINGS(GAF_TILING_USING)
#undef GAF_TILING_USING
}  // namespace tiling
}  // namespace AscendC

// ---- with setters -----------------------------------------------------------------------------------------
#define GAF_TILING_MEMBER(TYPE, NAME) \
    TYPE NAME = {}; \
    void set_##NAME(TYPE value) { NAME = value; } \
    TYPE get_##NAME() const { return NAME; }
#define GAF_TILING_BUFFER \
    void SaveToBuffer(void* p, size_t room) const { memcpy(p, this, room < sizeof(*this) ? room : sizeof(*this)); } \
    size_t GetDataSize() const { return sizeof(*this); } \
    void SetDataPtr(void* p) { memcpy(static_cast<void*>(this), p, sizeof(*this)); }

namespace optiling {
#define GAF_TILING_U(NAME) GAF_TILING_MEMBER(uint32_t, NAME)
#define GAF_TILING_I(NAME) GAF_TILING_MEMBER(int32_t, NAME)
#define GAF_TILING_H(NAME) GAF_TILING_MEMBER(uint16_t, NAME)
#define GAF_TILING_R(NAME) GAF_TILING_MEMBER(float, NAME)
#define GAF_TILING_B(NAME) GAF_TILING_MEMBER(bool, NAME)
#define GAF_TILING_CLASS(NAME) \
    class NAME { \
    public: \
        GAF_TILING_EXPAND(GAF_TILING_##NAME, GAF_TILING_ALL) GAF_TILING_BUFFER \
        operator ::NAME() const \
        { \
            ::NAME plain; \
            memcpy(static_cast<void*>(&plain), this, sizeof(plain)); \
            return plain; \
        } \
    };
GAF_TILINGS(GAF_TILING_CLASS)
#undef GAF_TILING_U
#undef GAF_TILING_I
#undef GAF_TILING_H
#undef GAF_TILING_R
#undef GAF_TILING_B
#undef GAF_TILING_CLASS
#undef GAF_TILING_ALL
#undef GAF_TILING_EXPAND
}  // namespace optiling
// clang-format on

#endif  // GAF_TWIN_TILING_DATA_H
