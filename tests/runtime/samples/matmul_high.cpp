// SPDX-License-Identifier: Apache-2.0
// The high-level Matmul with bias, its blocks taken into UB and scaled by the vector cores; M and N with tails.
// FAULT=1: a buffer before the Matmul object, 2: no right operand, 3: a block that was not computed.
#include "common.h"
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

#ifndef FAULT
#define FAULT 0
#endif

using namespace AscendC;
using namespace matmul;

constexpr uint32_t M = 200, N = 136, K = 96;

extern "C" __global__ __aicore__ void matmul_kernel(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR workspace,
                                                    GM_ADDR tilingGm)
{
    TCubeTiling tiling;
    for (uint32_t i = 0; i < sizeof(tiling) / sizeof(uint32_t); ++i) {
        reinterpret_cast<uint32_t*>(&tiling)[i] = reinterpret_cast<__gm__ uint32_t*>(tilingGm)[i];
    }
    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half, true>,
           MatmulType<TPosition::VECIN, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>>
        mm;
    SetSysWorkspace(workspace);
#if FAULT == 1
    TBuf<TPosition::VECCALC> early;
    pipe.InitBuffer(early, 64);
#endif
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &tiling);
    if (GetBlockIdx() >= tiling.usedCoreNum) {
        return;
    }
    const int32_t rows = (tiling.M + tiling.singleCoreM - 1) / tiling.singleCoreM;
    const int32_t m0 = GetBlockIdx() % rows * tiling.singleCoreM, n0 = GetBlockIdx() / rows * tiling.singleCoreN;
    const int32_t m = tiling.M - m0 < tiling.singleCoreM ? tiling.M - m0 : tiling.singleCoreM;
    const int32_t n = tiling.N - n0 < tiling.singleCoreN ? tiling.N - n0 : tiling.singleCoreN;
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> biasGm, cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a, tiling.M * tiling.Ka);
    bGm.SetGlobalBuffer((__gm__ half*)b, tiling.Kb * tiling.N);
    biasGm.SetGlobalBuffer((__gm__ float*)bias, tiling.N);
    cGm.SetGlobalBuffer((__gm__ float*)c, tiling.M * tiling.N);
    mm.SetTensorA(aGm[m0 * tiling.Ka]);
#if FAULT != 2
    mm.SetTensorB(bGm[n0 * tiling.Kb], true);
#endif
    mm.SetBias(biasGm[n0]);
    mm.SetTail(m, n, tiling.Ka);

    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, tiling.baseM * tiling.baseN * sizeof(float));
    pipe.InitBuffer(out, 1, tiling.baseM * tiling.baseN * sizeof(float));
#if FAULT == 3
    mm.GetTensorC(in.AllocTensor<float>());
    return;
#endif
    while (mm.Iterate()) {
        const MatrixOffset at = mm.GetOffsetC();
        LocalTensor<float> block = in.AllocTensor<float>();
        mm.GetTensorC(block);
        in.EnQue(block);
        block = in.DeQue<float>();
        const uint32_t pitch = (at.width + 7) / 8 * 8;
        LocalTensor<float> scaled = out.AllocTensor<float>();
        Muls(scaled, block, 0.5f, at.height * pitch);
        in.FreeTensor(block);
        out.EnQue(scaled);
        scaled = out.DeQue<float>();
        DataCopyPad(cGm[(m0 + at.row) * tiling.N + n0 + at.col], scaled,
                    DataCopyExtParams{static_cast<uint16_t>(at.height), static_cast<uint32_t>(at.width * sizeof(float)), 0,
                                      static_cast<uint32_t>((tiling.N - at.width) * sizeof(float)), 0});
        out.FreeTensor(scaled);
    }
    mm.End();
}

int main()
{
    Device device;
    auto* platform = platform_ascendc::PlatformAscendCManager::GetInstance();
    matmul_tiling::MultiCoreMatmulTiling api(*platform);
    using matmul_tiling::DataType;
    api.SetDim(4);
    api.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, DataType::DT_FLOAT16);
    api.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, DataType::DT_FLOAT16, true);
    api.SetCType(matmul_tiling::TPosition::VECIN, matmul_tiling::CubeFormat::ND, DataType::DT_FLOAT);
    api.SetBiasType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, DataType::DT_FLOAT);
    api.SetShape(M, N, K);
    api.SetOrgShape(M, N, K);
    api.SetFixSplit(64, 64, -1);
    api.EnableBias(true);
    api.SetBufferSpace(-1, -1, -1);
    optiling::TCubeTiling tiling;
    if (api.GetTiling(tiling) == -1) {
        return 3;
    }
    Array<uint8_t> tilingArray(tiling.GetDataSize());
    tiling.SaveToBuffer(tilingArray.data.data(), tiling.GetDataSize());
    tilingArray.Upload();
    Array<uint8_t> workspace(platform->GetLibApiWorkSpaceSize());
    Array<half> a(M * K), b(N * K);
    Array<float> bias(N), c(M * N);
    for (uint32_t i = 0; i < M * K; ++i) {
        a.data[i] = half(Noise(i));
    }
    for (uint32_t i = 0; i < N * K; ++i) {
        b.data[i] = half(Noise(i + 31));
    }
    for (uint32_t i = 0; i < N; ++i) {
        bias.data[i] = Noise(i + 62);
    }
    a.Upload();
    b.Upload();
    bias.Upload();
    const uint32_t cores = reinterpret_cast<TCubeTiling*>(tilingArray.data.data())->usedCoreNum;
    matmul_kernel<<<(cores + 1) / 2, nullptr, device.stream>>>(a.device, b.device, bias.device, c.device,
                                                               workspace.device, tilingArray.device);
    CHECK_ACL(aclrtSynchronizeStream(device.stream));
    c.Download();
    return Compare(
        "c", c.data.size(), [&](size_t i) { return c.data[i]; },
        [&](size_t i) {
            double sum = bias.data[i % N];
            for (uint32_t k = 0; k < K; ++k) {
                sum += static_cast<float>(a.data[i / N * K + k]) * static_cast<float>(b.data[i % N * K + k]);
            }
            return sum / 2;
        },
        1e-5);
}
