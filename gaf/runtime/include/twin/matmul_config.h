// SPDX-License-Identifier: Apache-2.0
// Types and configuration of the high-level Matmul: names and members as in the toolkit.
//
// Most members steer how the device moves data; results depend on few of them, which matmul.h reads.
#ifndef GAF_TWIN_MATMUL_CONFIG_H
#define GAF_TWIN_MATMUL_CONFIG_H

#include "twin/tiling_data.h"
#include "twin/types.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 8 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };
enum class BatchMode { NONE = 0, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum BatchOutMode { SINGLE_BATCH = 0, MULTI_BATCH, DYNAMIC };
enum class IterateOrder { ORDER_M = 0, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT };
enum IterateMode : uint8_t {
    ITERATE_MODE_NORMAL = 1,
    ITERATE_MODE_ALL = 2,
    ITERATE_MODE_BATCH = 4,
    ITERATE_MODE_N_BATCH = 8,
    ITERATE_MODE_DEFAULT = 255
};
enum class MatmulConfigMode { CONFIG_NORM, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };
enum class MatmulVersion { NORMAL = 0, MULTI_DATA_LOAD, BASIC_BLOCK, IBSHARE_NORM };

struct MatmulConfig {
    bool doNorm = true, doBasicBlock = false, doMultiDataLoad = false;
    uint32_t basicM = 0, basicN = 0, basicK = 0;
    bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
    uint32_t doMTE2Preload = 0;
    uint32_t singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0, baseMN = 0, singleCoreMN = 0;
    bool enUnitFlag = true, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false,
         doSpecialMDL = false, enableInit = true;
    BatchMode batchMode = BatchMode::BATCH_LESS_THAN_L1;
    bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true,
         enableSetTail = true, enableQuantVector = true, enableSetDefineData = true;
    uint8_t iterateMode = IterateMode::ITERATE_MODE_DEFAULT;
    bool enableReuse = true, enableUBReuse = true, enableL1CacheUB = false, intraBlockPartSum = false;
    IterateOrder iterateOrder{IterateOrder::UNDEF};
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false,
         enableMixDualMaster = false, isA2B2Shared = false, isEnableChannelSplit = false,
         enableKdimReorderLoad = false, isCO1Shared = false;
    uint32_t sharedCO1BufferSize = 64 * 1024;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
    bool enableL1BankConflictOptimise = false, enableRelu = false;
};
struct MatmulShapeParams {
    uint32_t singleCoreM, singleCoreN, singleCoreK, basicM, basicN, basicK;
};
struct MatmulQuantParams {
    bool isPerTensor, hasAntiQuantOffset;
};
struct MatmulBatchParams {
    bool isNBatch;
    BatchMode batchMode;
    bool isBiasBatch = true;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
};
struct MatmulFuncParams {
    bool intrinsicsCheck, enVecND2NZ, enableDoubleCache, enableL1CacheUB;
    uint32_t doMTE2Preload;
    IterateOrder iterateOrder;
    ScheduleType scheduleType;
    bool enableReuse = true, enableUBReuse = true, isPartialOutput = false, isA2B2Shared = false,
         isEnableChannelSplit = false, enableKdimReorderLoad = false, enableL1BankConflictOptimise = false,
         enableRelu = false;
};
struct MatmulBiasParams {
    bool enableSetBias = true;
};
struct MatrixOffset {
    int32_t offset, row, col, height, width;
};

namespace gaf_twin {

constexpr MatmulConfig MatmulMode(bool multiDataLoad, bool ibShare = false)
{
    MatmulConfig c;
    c.doNorm = !multiDataLoad && !ibShare;
    c.doMultiDataLoad = multiDataLoad;
    c.doIBShareNorm = ibShare;
    return c;
}
constexpr void ApplyMatmulParams(MatmulConfig& c, const MatmulShapeParams& p)
{
    c.singleCoreM = p.singleCoreM;
    c.singleCoreN = p.singleCoreN;
    c.singleCoreK = p.singleCoreK;
    c.basicM = p.basicM;
    c.basicN = p.basicN;
    c.basicK = p.basicK;
}
constexpr void ApplyMatmulParams(MatmulConfig& c, const MatmulQuantParams& p)
{
    c.isPerTensor = p.isPerTensor;
    c.hasAntiQuantOffset = p.hasAntiQuantOffset;
}
constexpr void ApplyMatmulParams(MatmulConfig& c, const MatmulBatchParams& p)
{
    c.isNBatch = p.isNBatch;
    c.batchMode = p.batchMode;
    c.isBiasBatch = p.isBiasBatch;
    c.bmmOutMode = p.bmmOutMode;
}
constexpr void ApplyMatmulParams(MatmulConfig& c, const MatmulFuncParams& p)
{
    c.iterateOrder = p.iterateOrder;
    c.scheduleType = p.scheduleType;
    c.isPartialOutput = p.isPartialOutput;
    c.isA2B2Shared = p.isA2B2Shared;
    c.isEnableChannelSplit = p.isEnableChannelSplit;
    c.enableKdimReorderLoad = p.enableKdimReorderLoad;
    c.enableRelu = p.enableRelu;
}
constexpr void ApplyMatmulParams(MatmulConfig& c, const MatmulBiasParams& p) { c.enableSetBias = p.enableSetBias; }

}  // namespace gaf_twin

template <MatmulConfigMode MODE, class... P>
constexpr MatmulConfig GetMMConfig(P&&... params)
{
    MatmulConfig c = gaf_twin::MatmulMode(MODE == MatmulConfigMode::CONFIG_MDL || MODE == MatmulConfigMode::CONFIG_SPECIALMDL,
                                          MODE == MatmulConfigMode::CONFIG_IBSHARE);
    (gaf_twin::ApplyMatmulParams(c, params), ...);
    return c;
}
constexpr MatmulConfig GetNormalConfig(bool = false, bool = false, bool = false,
                                       BatchMode batchMode = BatchMode::BATCH_LESS_THAN_L1, bool = true,
                                       IterateOrder iterateOrder = IterateOrder::UNDEF,
                                       ScheduleType scheduleType = ScheduleType::INNER_PRODUCT, bool enUnitFlag = true,
                                       bool enableMixDualMaster = false, BatchOutMode bmmOutMode = SINGLE_BATCH)
{
    MatmulConfig c = gaf_twin::MatmulMode(false);
    c.batchMode = batchMode;
    c.iterateOrder = iterateOrder;
    c.scheduleType = scheduleType;
    c.enUnitFlag = enUnitFlag;
    c.enableMixDualMaster = enableMixDualMaster;
    c.bmmOutMode = bmmOutMode;
    return c;
}
constexpr MatmulConfig GetMDLConfig(bool = false, bool = false, uint32_t preload = 0, bool = false, bool = false,
                                    bool = false, bool = false, bool = true, bool enUnitFlag = true, bool = false,
                                    bool enableMixDualMaster = false, bool kdimReorder = false)
{
    MatmulConfig c = gaf_twin::MatmulMode(true);
    c.doMTE2Preload = preload;
    c.enUnitFlag = enUnitFlag;
    c.enableMixDualMaster = enableMixDualMaster;
    c.enableKdimReorderLoad = kdimReorder;
    return c;
}
constexpr MatmulConfig GetBasicConfig(uint32_t m, uint32_t n, uint32_t k, bool = false, bool = false,
                                      BatchMode = BatchMode::BATCH_LESS_THAN_L1)
{
    MatmulConfig c = gaf_twin::MatmulMode(false);
    c.doBasicBlock = true;
    c.basicM = m;
    c.basicN = n;
    c.basicK = k;
    return c;
}
constexpr MatmulConfig GetIBShareNormConfig(bool = false, bool = false, bool = false,
                                            BatchMode = BatchMode::BATCH_LESS_THAN_L1, bool = false)
{
    return gaf_twin::MatmulMode(false, true);
}
constexpr MatmulConfig CFG_NORM = gaf_twin::MatmulMode(false);
constexpr MatmulConfig CFG_MDL = gaf_twin::MatmulMode(true);
constexpr MatmulConfig MM_CFG_BB = GetBasicConfig(128, 128, 128);
constexpr MatmulConfig CFG_IBSHARE_NORM = gaf_twin::MatmulMode(false, true);

namespace AscendC {

template <TPosition POSITION, CubeFormat FORMAT, class TYPE, bool ISTRANS = false, LayoutMode LAYOUT = LayoutMode::NONE,
          bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
    static constexpr TPosition pos = POSITION;
    static constexpr CubeFormat format = FORMAT;
    using T = TYPE;
    static constexpr bool isTrans = ISTRANS;
    static constexpr LayoutMode layout = LAYOUT;
    static constexpr bool ibShare = IBSHARE;
    static constexpr TPosition srcPos = SRCPOS;
};
template <class A, class B>
struct SparseMatmulType : B {
};

// Tiling known when the kernel is compiled; used as a configuration and in place of a tiling structure.
struct MatmulApiStaticTiling {
    constexpr operator MatmulConfig() const { return cfg; }
    int32_t usedCoreNum = -1, M = -1, N = -1, Ka = -1, Kb = -1, singleCoreM = -1, singleCoreN = -1, singleCoreK = -1,
            baseM = -1, baseN = -1, baseK = -1, depthA1 = 1, depthB1 = 1, stepM = 1, stepN = 1, isBias = 0,
            transLength = 0, iterateOrder = 0, dbL0A = 2, dbL0B = 2, dbL0C = 1, shareMode = 0, shareL1Size = 0,
            shareL0CSize = 0, shareUbSize = 0, stepKa = 1, stepKb = 1, depthAL1CacheUB = 0, depthBL1CacheUB = 0;
    MatmulConfig cfg = CFG_NORM;
};
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE>
constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig& cfg, int32_t = 0)
{
    MatmulApiStaticTiling t;
    t.cfg = cfg;
    t.M = t.singleCoreM = static_cast<int32_t>(cfg.singleCoreM);
    t.N = t.singleCoreN = static_cast<int32_t>(cfg.singleCoreN);
    t.Ka = t.Kb = t.singleCoreK = static_cast<int32_t>(cfg.singleCoreK);
    t.baseM = static_cast<int32_t>(cfg.basicM);
    t.baseN = static_cast<int32_t>(cfg.basicN);
    t.baseK = static_cast<int32_t>(cfg.basicK);
    t.isBias = cfg.enableSetBias ? 1 : 0;
    t.iterateOrder = cfg.iterateOrder == IterateOrder::ORDER_N ? 1 : 0;
    return t;
}

}  // namespace AscendC

namespace gaf_twin {

// The configuration inside a template argument that is a MatmulConfig or a MatmulApiStaticTiling.
constexpr const MatmulConfig& ConfigOf(const MatmulConfig& c) { return c; }
constexpr const MatmulConfig& ConfigOf(const AscendC::MatmulApiStaticTiling& t) { return t.cfg; }
inline bool StaticTiling(const MatmulConfig&, TCubeTiling&) { return false; }
inline bool StaticTiling(const AscendC::MatmulApiStaticTiling& s, TCubeTiling& t)
{
    t.M = s.M;
    t.N = s.N;
    t.Ka = s.Ka;
    t.Kb = s.Kb;
    t.singleCoreM = s.singleCoreM;
    t.singleCoreN = s.singleCoreN;
    t.singleCoreK = s.singleCoreK;
    t.baseM = s.baseM;
    t.baseN = s.baseN;
    t.baseK = s.baseK;
    t.isBias = s.isBias;
    t.iterateOrder = s.iterateOrder;
    return true;
}

}  // namespace gaf_twin

#endif  // GAF_TWIN_MATMUL_CONFIG_H
