// SPDX-License-Identifier: Apache-2.0
// Instantiates every function of the device library once: for type checks against a toolkit's headers. Never
// launched.
#include "gaf_device.h"
using namespace AscendC;

struct WholeLibraryTiling {
    uint32_t n;
};

template <class AT, bool TA, bool TB, class CT>
__aicore__ inline void Product(GM_ADDR a, GM_ADDR b, GM_ADDR c, TPipe* pipe)
{
    GlobalTensor<AT> aGm, bGm;
    GlobalTensor<CT> cGm;
    aGm.SetGlobalBuffer((__gm__ AT*)a);
    bGm.SetGlobalBuffer((__gm__ AT*)b);
    cGm.SetGlobalBuffer((__gm__ CT*)c);
    gaf::BlockMmad<AT, TA, TB, CT> mmad;
    mmad.Init(pipe);
    mmad.Run(cGm, 256, aGm, 100, bGm, 100, 5, 6, 7);
}
template <class AT, class CT>
__aicore__ inline void Products(GM_ADDR a, GM_ADDR b, GM_ADDR c, TPipe* pipe)
{
    Product<AT, false, false, CT>(a, b, c, pipe);
    Product<AT, true, false, CT>(a, b, c, pipe);
    Product<AT, false, true, CT>(a, b, c, pipe);
    Product<AT, true, true, CT>(a, b, c, pipe);
}
template <class D, class S>
__aicore__ inline void CastBoth(const LocalTensor<uint8_t>& x)
{
    gaf::CastTile(x.ReinterpretCast<D>(), x.ReinterpretCast<S>(), RoundMode::CAST_RINT, 3, 5);
    gaf::CastTile(x.ReinterpretCast<D>(), x.ReinterpretCast<S>(), x.ReinterpretCast<half>(),
                  RoundMode::CAST_RINT, 3, 5);
}

extern "C" __global__ __aicore__ void whole_library(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace,
                                                    WholeLibraryTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GAF_AT("node");
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 4096);
    LocalTensor<float> x = buf.Get<float>(), y = buf.GetWithOffset<float>(64, 0), z = y;
    LocalTensor<uint8_t> u = buf.Get<uint8_t>();
    LocalTensor<half> h = buf.Get<half>();
    LocalTensor<int32_t> xi = buf.Get<int32_t>();
    GlobalTensor<float> g;
    g.SetGlobalBuffer((__gm__ float*)a, 100);
    GlobalTensor<int64_t> g64;
    GlobalTensor<int32_t> g32;
    GlobalTensor<half> gh;
    gaf::LoadTile(x, g, 3, 5, 7);
    gaf::LoadTile(h, gh, 3, 5, 0);
    gaf::LoadTile(xi, g32, 1, 1, 1);
    gaf::LoadTileBox(x, g, 3, 5, 1, 2, 2, 3, 7, -0.0f);
    gaf::LoadTileBox(h, gh, 3, 5, 1, 2, 2, 3, 7, static_cast<half>(0.0f));
    gaf::StoreTile(g, x, 3, 5, 7);
    gaf::GatherTile(x, g, g64, 3, 5, 1, 5, 9);
    gaf::GatherTile(h, gh, g32, 3, 5, 1, 5, 9);
#define BOTH(OP)                                    \
    gaf::BinaryCol<gaf::Bop::OP>(x, x, y, z, 3, 5); \
    gaf::BinaryRow<gaf::Bop::OP>(x, x, y, 3, 5);
    BOTH(ADD)
    BOTH(SUB) BOTH(RSUB) BOTH(MUL) BOTH(DIV) BOTH(RDIV) BOTH(MAX) BOTH(MIN)
        gaf::BinaryCol<gaf::Bop::ADD>(xi, xi, xi, xi, 3, 5);
    gaf::BinaryRow<gaf::Bop::MAX>(xi, xi, xi, 3, 5);
    gaf::BroadcastCol(x, y, z, 3, 5);
    gaf::BroadcastRow(x, y, 3, 5);
#define FOLD(M)                                 \
    gaf::RowReduce<gaf::Mon::M>(x, y, z, 3, 5); \
    gaf::ColReduce<gaf::Mon::M>(x, y, 3, 5);
    FOLD(SUM)
    FOLD(MAX) FOLD(MIN) FOLD(PROD) CastBoth<half, float>(u), CastBoth<float, half>(u),
        CastBoth<bfloat16_t, float>(u), CastBoth<float, bfloat16_t>(u);
    CastBoth<int32_t, float>(u), CastBoth<float, int32_t>(u), CastBoth<int64_t, float>(u),
        CastBoth<float, int64_t>(u);
    CastBoth<int64_t, int32_t>(u), CastBoth<int32_t, int64_t>(u), CastBoth<int16_t, float>(u),
        CastBoth<float, int16_t>(u);
    CastBoth<half, int8_t>(u), CastBoth<half, uint8_t>(u), CastBoth<int8_t, half>(u),
        CastBoth<uint8_t, half>(u);
    CastBoth<half, int16_t>(u), CastBoth<int16_t, half>(u), CastBoth<int32_t, half>(u),
        CastBoth<int32_t, bfloat16_t>(u);
    CastBoth<int16_t, int32_t>(u);
    gaf::TransposeTile(x, y, z, 3, 5);
    gaf::TransposeTile(h, h, h, 3, 5);
    gaf::TransposeTile(u.ReinterpretCast<bfloat16_t>(), u.ReinterpretCast<bfloat16_t>(),
                       u.ReinterpretCast<bfloat16_t>(), 3, 5);
    gaf::TakeLanes(x, y, u.ReinterpretCast<int32_t>(), 3, 5, 9, 2, 0, 1, 0);
    gaf::TakeLanes(h, h, u.ReinterpretCast<int32_t>(), 3, 5, 9, 2, 0, 1, 0);
    gaf::CastTile(x, u, h, RoundMode::CAST_NONE, 3, 5);
    gaf::CastTile(u, x, h, RoundMode::CAST_TRUNC, 3, 5);
    gaf::CastTile(x, u.ReinterpretCast<int8_t>(), h, RoundMode::CAST_NONE, 3, 5);
    gaf::CastTile(u.ReinterpretCast<int8_t>(), x, h, RoundMode::CAST_TRUNC, 3, 5);
#define ROUND(M) gaf::RoundTo<RoundMode::CAST_##M>(x, x, 5);
    ROUND(RINT)
    ROUND(FLOOR) ROUND(CEIL) ROUND(ROUND) ROUND(TRUNC)
#define COMPARE(M)                             \
    gaf::Compare01<CMPMODE::M>(x, y, z, u, 5); \
    gaf::Compare01S<CMPMODE::M>(x, y, 1.0f, u, 5);
        COMPARE(LT) COMPARE(GT) COMPARE(EQ) COMPARE(LE) COMPARE(GE) COMPARE(NE)
            gaf::Select01(x, y, y, z, u, 5);
    gaf::Random24(xi, xi, xi, xi, 7, 5);
    gaf::RankTile<true>(x, y, z, 3, 5, 2, 0), gaf::RankTile<false>(x, y, z, 3, 5, 2, 5);
    gaf::RankValues<true>(x, y, xi, 3, 2), gaf::RankValues<false>(x, y, xi, 3, 2), gaf::RankPlaces(xi, x, 3, 2);
    gaf::ScanLanes<gaf::Mon::SUM, false>(x, y, y, z, 3, 5), gaf::ScanLanes<gaf::Mon::MAX, true>(x, y, y, z, 3, 5);
    gaf::ScanRows<gaf::Mon::PROD, false>(x, y, y, 3, 5), gaf::ScanRows<gaf::Mon::MIN, true>(x, y, y, 3, 5);
    gaf::Rsqrt1(x, y, z, 5);
    gaf::Recip1(x, y, z, 5);
    gaf::Tanh1(x, y, u, 5), gaf::Erf1(x, y, u, 5), gaf::Sin1(x, y, u, 5), gaf::Cos1(x, y, u, 5);
    gaf::Tan1(x, y, u, 5), gaf::Atan1(x, y, u, 5), gaf::Log1(x, y, u, 5), gaf::Pow1(x, y, y, u, 5);
    Products<float, float>(a, b, c, &pipe);
    Products<half, float>(a, b, c, &pipe);
    Products<half, half>(a, b, c, &pipe);
    Products<bfloat16_t, float>(a, b, c, &pipe);
    Products<bfloat16_t, bfloat16_t>(a, b, c, &pipe);
}
