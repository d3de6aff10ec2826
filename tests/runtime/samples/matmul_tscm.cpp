// SPDX-License-Identifier: Apache-2.0
// The high-level Matmul with its left operand in L1, where the vector cores place it (TSCM) in cube order.
// FAULT=1: the same from a queue for a position that vector cores don't have.
#include "common.h"
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

#ifndef FAULT
#define FAULT 0
#endif

using namespace AscendC;

constexpr uint32_t M = 48, N = 64, K = 32, C0 = 16;

extern "C" __global__ __aicore__ void tscm_kernel(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tilingGm)
{
    TCubeTiling tiling;
    for (uint32_t i = 0; i < sizeof(tiling) / sizeof(uint32_t); ++i) {
        reinterpret_cast<uint32_t*>(&tiling)[i] = reinterpret_cast<__gm__ uint32_t*>(tilingGm)[i];
    }
    TPipe pipe;
    matmul::Matmul<matmul::MatmulType<TPosition::TSCM, CubeFormat::NZ, half>, matmul::MatmulType<TPosition::GM, CubeFormat::ND, half>,
                   matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>, matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>>
        mm;
    SetSysWorkspace(workspace);
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &tiling);
    if (GetBlockIdx() >= tiling.usedCoreNum) {
        return;
    }
    const int32_t n0 = GetBlockIdx() * tiling.singleCoreN;
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a, M * K);
    bGm.SetGlobalBuffer((__gm__ half*)b, K * N);
    cGm.SetGlobalBuffer((__gm__ float*)c, M * N);
    TSCM<TPosition::GM, 1> scm;
#if FAULT == 1
    TQue<TPosition::A1, 1> wrong;
    pipe.InitBuffer(wrong, 1, M * K * sizeof(half));
#endif
    pipe.InitBuffer(scm, 1, M * K * sizeof(half));
    LocalTensor<half> left = scm.AllocTensor<half>();
    DataCopy(left, aGm, M * K);
    scm.EnQue(left);
    left = scm.DeQue<half>();
    mm.SetTensorA(left);
    mm.SetTensorB(bGm[n0]);
    mm.IterateAll(cGm[n0]);
    mm.End();
    scm.FreeTensor(left);
}

int main()
{
    Device device;
    auto* platform = platform_ascendc::PlatformAscendCManager::GetInstance();
    matmul_tiling::MultiCoreMatmulTiling api(*platform);
    using matmul_tiling::CubeFormat;
    using matmul_tiling::DataType;
    using Position = matmul_tiling::TPosition;
    api.SetDim(4);
    api.SetAType(Position::TSCM, CubeFormat::NZ, DataType::DT_FLOAT16);
    api.SetBType(Position::GM, CubeFormat::ND, DataType::DT_FLOAT16);
    api.SetCType(Position::GM, CubeFormat::ND, DataType::DT_FLOAT);
    api.SetShape(M, N, K);
    api.SetOrgShape(M, N, K);
    api.SetBufferSpace(-1, -1, -1);
    optiling::TCubeTiling tiling;
    if (api.GetTiling(tiling) == -1) {
        return 3;
    }
    Array<uint8_t> tilingArray(tiling.GetDataSize());
    tiling.SaveToBuffer(tilingArray.data.data(), tiling.GetDataSize());
    tilingArray.Upload();
    const auto* fields = reinterpret_cast<TCubeTiling*>(tilingArray.data.data());
    if (fields->singleCoreM != static_cast<int32_t>(M) || fields->usedCoreNum < 2) {
        return 4;  // an operand in L1 is there whole, so only N is shared out
    }
    Array<uint8_t> workspace(platform->GetLibApiWorkSpaceSize());
    Array<half> a(M * K), b(K * N);
    Array<float> c(M * N);
    const auto left = [](uint32_t m, uint32_t k) { return half(Noise(m * K + k)); };
    for (uint32_t m = 0; m < M; ++m) {
        for (uint32_t k = 0; k < K; ++k) {
            a.data[(k / C0 * M + m) * C0 + k % C0] = left(m, k);
        }
    }
    for (uint32_t i = 0; i < K * N; ++i) {
        b.data[i] = half(Noise(i + 31));
    }
    a.Upload();
    b.Upload();
    tscm_kernel<<<(fields->usedCoreNum + 1) / 2, nullptr, device.stream>>>(a.device, b.device, c.device, workspace.device,
                                                                           tilingArray.device);
    if (aclrtSynchronizeStream(device.stream) != ACL_SUCCESS) {
        return 1;
    }
    c.Download();
    return Compare(
        "c", c.data.size(), [&](size_t i) { return c.data[i]; },
        [&](size_t i) {
            double sum = 0;
            for (uint32_t k = 0; k < K; ++k) {
                sum += static_cast<float>(left(i / N, k)) * static_cast<float>(b.data[k * N + i % N]);
            }
            return sum;
        },
        1e-5);
}
