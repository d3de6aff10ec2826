// SPDX-License-Identifier: Apache-2.0
// One function of the device library on a tile of rows x lanes floats: a, column c, row r and a second tile b
// -> d.
#include "gaf_device.h"
using namespace AscendC;

struct DeviceOpsTiling {
    uint32_t op, which, rows, lanes;
    float scalar;
};

struct Tile {
    LocalTensor<float> d, a, b, col, row, tmp;
    LocalTensor<uint8_t> bytes;
    uint32_t rows, lanes, count;
};

#define BOP(NUMBER, NAME)                                                            \
    case NUMBER:                                                                     \
        if (op == 0) {                                                               \
            gaf::BinaryCol<gaf::Bop::NAME>(t.d, t.a, t.col, t.tmp, t.rows, t.lanes); \
        } else {                                                                     \
            gaf::BinaryRow<gaf::Bop::NAME>(t.d, t.a, t.row, t.rows, t.lanes);        \
        }                                                                            \
        break;
#define MON(NUMBER, NAME)                                                     \
    case NUMBER:                                                              \
        if (op == 2) {                                                        \
            gaf::RowReduce<gaf::Mon::NAME>(t.d, t.a, t.tmp, t.rows, t.lanes); \
        } else {                                                              \
            gaf::ColReduce<gaf::Mon::NAME>(t.d, t.a, t.rows, t.lanes);        \
        }                                                                     \
        break;
#define CMP(NUMBER, NAME)                                                       \
    case NUMBER:                                                                \
        if (op == 5) {                                                          \
            gaf::Compare01<CMPMODE::NAME>(t.d, t.a, t.b, t.bytes, t.count);     \
        } else {                                                                \
            gaf::Compare01S<CMPMODE::NAME>(t.d, t.a, scalar, t.bytes, t.count); \
        }                                                                       \
        break;
#define ROUND(NUMBER, NAME) \
    case NUMBER: gaf::RoundTo<RoundMode::CAST_##NAME>(t.d, t.a, t.count); break;
#define MATH(NUMBER, NAME) \
    case NUMBER: gaf::NAME(t.d, t.a, t.bytes, t.count); break;

__aicore__ inline void Work(Tile& t, uint32_t op, uint32_t which, float scalar)
{
    switch (op) {
        case 0:
        case 1:
            switch (which) {
                BOP(0, ADD)
                BOP(1, SUB) BOP(2, RSUB) BOP(3, MUL) BOP(4, DIV) BOP(5, RDIV) BOP(6, MAX) BOP(7, MIN) default
                    : break;
            }
            break;
        case 2:
        case 3:
            switch (which) {
                MON(0, SUM) MON(1, MAX) MON(2, MIN) MON(3, PROD) default : break;
            }
            break;
        case 4:
            if (which == 0) {
                gaf::BroadcastCol(t.d, t.col, t.tmp, t.rows, t.lanes);
            } else {
                gaf::BroadcastRow(t.d, t.row, t.rows, t.lanes);
            }
            break;
        case 5:
        case 6:
            switch (which) {
                CMP(0, LT) CMP(1, GT) CMP(2, EQ) CMP(3, LE) CMP(4, GE) CMP(5, NE) default : break;
            }
            break;
        case 7: gaf::Select01(t.d, t.a, t.b, t.tmp, t.bytes, t.count); break;
        case 8:
            switch (which) {
                ROUND(0, RINT) ROUND(1, FLOOR) ROUND(2, CEIL) ROUND(3, ROUND) ROUND(4, TRUNC) default : break;
            }
            break;
        default:
            switch (which) {
            MATH(0, Tanh1)
            MATH(1, Erf1) MATH(2, Sin1) MATH(3, Cos1) MATH(4, Tan1) MATH(5, Atan1) MATH(6, Log1) case 7:
                gaf::Pow1(t.d, t.a, t.b, t.bytes, t.count);
                break;
                case 8: gaf::Rsqrt1(t.d, t.a, t.tmp, t.count); break;
                case 9: gaf::Recip1(t.d, t.a, t.tmp, t.count); break;
                default: break;
            }
    }
}

// d holds rows * pitch floats for tile results, pitch for ColReduce, roundUp(rows, 8) for RowReduce: all of
// them go out.
extern "C" __global__ __aicore__ void device_ops(GM_ADDR a, GM_ADDR b, GM_ADDR col, GM_ADDR row, GM_ADDR d,
                                                 GM_ADDR workspace, DeviceOpsTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const uint32_t pitch = gaf::PitchOf<float>(t.lanes), count = t.rows * pitch;
    TPipe pipe;
    TBuf<TPosition::VECCALC> bufA, bufB, bufD, bufCol, bufRow, bufTmp, bufBytes;
    const uint32_t tmpFloats = gaf::Max(gaf::RowReduceTmp(t.rows, t.lanes), count);
    pipe.InitBuffer(bufA, count * 4);
    pipe.InitBuffer(bufB, count * 4);
    pipe.InitBuffer(bufD, gaf::Max(count, gaf::RoundUp(t.rows, 8)) * 4);
    pipe.InitBuffer(bufCol, gaf::RoundUp(t.rows, 8) * 4);
    pipe.InitBuffer(bufRow, pitch * 4);
    pipe.InitBuffer(bufTmp, gaf::Max(tmpFloats, gaf::RoundUp(t.rows, 8) * 8) * 4);
    pipe.InitBuffer(bufBytes, gaf::Max(gaf::Compare01Bytes(count), gaf::Pow1Bytes(count)));
    GlobalTensor<float> aGm, bGm, colGm, rowGm, dGm;
    aGm.SetGlobalBuffer((__gm__ float*)a, t.rows * t.lanes);
    bGm.SetGlobalBuffer((__gm__ float*)b, t.rows * t.lanes);
    colGm.SetGlobalBuffer((__gm__ float*)col, t.rows);
    rowGm.SetGlobalBuffer((__gm__ float*)row, t.lanes);
    Tile w{bufD.Get<float>(),
           bufA.Get<float>(),
           bufB.Get<float>(),
           bufCol.Get<float>(),
           bufRow.Get<float>(),
           bufTmp.Get<float>(),
           bufBytes.Get<uint8_t>(),
           t.rows,
           t.lanes,
           count};
    gaf::LoadTile(w.a, aGm, t.rows, t.lanes, t.lanes);
    gaf::LoadTile(w.b, bGm, t.rows, t.lanes, t.lanes);
    gaf::LoadTile(w.col, colGm, 1, t.rows, t.rows);
    gaf::LoadTile(w.row, rowGm, 1, t.lanes, t.lanes);
    if (t.op == 7) {
        gaf::LoadTile(w.tmp, bGm, t.rows, t.lanes, t.lanes);
    }
    gaf::SyncPipes<HardEvent::MTE2_V>();
    if (t.op == 7) {  // the other side of the selection: -b
        Muls(w.tmp, w.tmp, -1.0f, static_cast<int32_t>(count));
        PipeBarrier<PIPE_V>();
    }
    Work(w, t.op, t.which, t.scalar);
    gaf::SyncPipes<HardEvent::V_MTE3>();
    gaf::SyncPipes<HardEvent::S_MTE3>();
    if (t.op == 2) {
        const uint32_t n = gaf::RoundUp(t.rows, 8);
        dGm.SetGlobalBuffer((__gm__ float*)d, n);
        gaf::StoreTile(dGm, w.d, 1, n, n);
    } else {
        const uint32_t rows = t.op == 3 ? 1 : t.rows;
        dGm.SetGlobalBuffer((__gm__ float*)d, rows * t.lanes);
        gaf::StoreTile(dGm, w.d, rows, t.lanes, t.lanes);
    }
}
