// SPDX-License-Identifier: Apache-2.0
// Matmul for kernels, and REGIST_MATMUL_OBJ(pipe, workspace, object, tiling, ...).
//
// Without ASCENDC_CUBE_ONLY the cube core leaves the kernel at REGIST_MATMUL_OBJ (it serves the vector cores), so
// the macro stands in a function that returns void.
#ifndef GAF_TWIN_MATMUL_INTF_H
#define GAF_TWIN_MATMUL_INTF_H

#include "kernel_operator.h"
#include "twin/matmul.h"

namespace matmul {
using AscendC::GetBlockIdx;
using AscendC::GetBlockNum;
using AscendC::Matmul;
using AscendC::MatmulApiStaticTiling;
using AscendC::MatmulCallBackFunc;
using AscendC::MatmulImpl;
using AscendC::MatmulType;
using AscendC::GetMatmulApiTiling;
using AscendC::GetSysWorkSpacePtr;
using AscendC::SetSysWorkspace;
}  // namespace matmul
using AscendC::GetSysWorkSpacePtr;
using AscendC::MatmulApiStaticTiling;
using AscendC::SetSysWorkspace;

#ifdef ASCENDC_CUBE_ONLY
#define REGIST_MATMUL_OBJ(TPIPE, WORKSPACE, ...)             \
    if (ASCEND_IS_AIV) {                                     \
        return;                                              \
    }                                                        \
    (void)(WORKSPACE);                                       \
    ::gaf_twin::RegisterMatmul(TPIPE, __VA_ARGS__)
#else
#define REGIST_MATMUL_OBJ(TPIPE, WORKSPACE, ...)                       \
    if (ASCEND_IS_AIC && !::gaf_twin::MatmulTwoMasters(__VA_ARGS__)) { \
        return;                                                        \
    }                                                                  \
    (void)(WORKSPACE);                                                 \
    ::gaf_twin::CheckMatmulOrder();                                    \
    ::gaf_twin::RegisterMatmul(TPIPE, __VA_ARGS__)
#endif
#define REGIST_CUBE_OBJ REGIST_MATMUL_OBJ

#endif  // GAF_TWIN_MATMUL_INTF_H
