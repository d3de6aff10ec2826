// SPDX-License-Identifier: Apache-2.0
// One vector instruction on n elements of a type: count form, contiguous mask form and bit mask form.
#include "gaf_device.h"
using namespace AscendC;

struct VectorOpsTiling {
    uint32_t type;  // 0 float, 1 half, 2 int32, 3 int16
    uint32_t op;    // position in the list below
    uint32_t
        form;  // 0 count, 1 mask (n % lanes lanes of each of n / lanes repeats), 2 the same with a bit mask
    uint32_t n;
    float scalar;
};

constexpr uint32_t MAX_N = 2048;

template <class T>
struct Operands {
    LocalTensor<T> d, a, b;
    LocalTensor<uint8_t> tmp;
    T scalar;
    int32_t n;
    uint64_t mask, bits[2];
    uint8_t repeat;
    uint32_t form;
};

#define UNARY(NUMBER, NAME)                                                  \
    case NUMBER:                                                             \
        if (o.form == 0) {                                                   \
            NAME(o.d, o.a, o.n);                                             \
        } else if (o.form == 1) {                                            \
            NAME(o.d, o.a, o.mask, o.repeat, UnaryRepeatParams{1, 1, 8, 8}); \
        } else {                                                             \
            NAME(o.d, o.a, o.bits, o.repeat, UnaryRepeatParams{1, 1, 8, 8}); \
        }                                                                    \
        break;
#define BINARY(NUMBER, NAME)                                                             \
    case NUMBER:                                                                         \
        if (o.form == 0) {                                                               \
            NAME(o.d, o.a, o.b, o.n);                                                    \
        } else if (o.form == 1) {                                                        \
            NAME(o.d, o.a, o.b, o.mask, o.repeat, BinaryRepeatParams{1, 1, 1, 8, 8, 8}); \
        } else {                                                                         \
            NAME(o.d, o.a, o.b, o.bits, o.repeat, BinaryRepeatParams{1, 1, 1, 8, 8, 8}); \
        }                                                                                \
        break;
#define SCALAR(NUMBER, NAME)                                                           \
    case NUMBER:                                                                       \
        if (o.form == 0) {                                                             \
            NAME(o.d, o.a, o.scalar, o.n);                                             \
        } else if (o.form == 1) {                                                      \
            NAME(o.d, o.a, o.scalar, o.mask, o.repeat, UnaryRepeatParams{1, 1, 8, 8}); \
        } else {                                                                       \
            NAME(o.d, o.a, o.scalar, o.bits, o.repeat, UnaryRepeatParams{1, 1, 8, 8}); \
        }                                                                              \
        break;
#define MATH(NUMBER, NAME) \
    case NUMBER: NAME(o.d, o.a, o.tmp, static_cast<uint32_t>(o.n)); break;

template <class T>
__aicore__ inline void Common(Operands<T>& o, uint32_t op)
{
    switch (op) {
    BINARY(0, Add)
    BINARY(1, Sub) BINARY(2, Mul) BINARY(3, AscendC::Max) BINARY(4, AscendC::Min) SCALAR(5, Adds)
        SCALAR(6, Muls) SCALAR(7, Maxs) SCALAR(8, Mins) case 9:
        Duplicate(o.d, o.scalar, o.n);
        break;
        case 10: CreateVecIndex(o.d, o.scalar, static_cast<uint32_t>(o.n)); break;
        default: break;
    }
}
template <class T>
__aicore__ inline void Floats(Operands<T>& o, uint32_t op)
{
    Common(o, op);
    switch (op) {
    BINARY(20, Div)
    SCALAR(21, LeakyRelu) BINARY(22, AddRelu) BINARY(23, SubRelu) BINARY(24, FusedMulAdd) UNARY(30, Exp)
        UNARY(31, Ln) UNARY(32, Abs) UNARY(33, Sqrt) UNARY(34, Rsqrt) UNARY(35, Reciprocal) UNARY(36, Relu)
            MATH(40, Tanh) MATH(41, Erf) MATH(42, Erfc) MATH(43, Sin) MATH(44, Cos) MATH(45, Tan)
                MATH(46, Asin) MATH(47, Acos) MATH(48, Atan) MATH(49, Sinh) MATH(50, Cosh) MATH(51, Asinh)
                    MATH(52, Acosh) MATH(53, Atanh) MATH(54, Log2) MATH(55, Sigmoid) MATH(56, Floor)
                        MATH(57, Ceil) MATH(58, Round) MATH(59, Trunc) MATH(60, Sign) MATH(61, Frac) case 62:
        Log(o.d, o.a, static_cast<uint32_t>(o.n));
        break;
        case 63: Log10(o.d, o.a, static_cast<uint32_t>(o.n)); break;
        case 64: Power(o.d, o.a, o.b, o.tmp, static_cast<uint32_t>(o.n)); break;
        case 65: Axpy(o.d, o.a, o.scalar, o.n); break;
        case 66: MulAddDst(o.d, o.a, o.b, o.n); break;
        default: break;
    }
}

template <class T>
__aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR d, const VectorOpsTiling& t)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> bufA, bufB, bufD, bufTmp;
    pipe.InitBuffer(bufA, MAX_N * 4);
    pipe.InitBuffer(bufB, MAX_N * 4);
    pipe.InitBuffer(bufD, MAX_N * 4);
    pipe.InitBuffer(bufTmp, 16384);
    GlobalTensor<T> aGm, bGm, dGm;
    aGm.SetGlobalBuffer((__gm__ T*)a, t.n);
    bGm.SetGlobalBuffer((__gm__ T*)b, t.n);
    dGm.SetGlobalBuffer((__gm__ T*)d, t.n);
    Operands<T> o;
    o.d = bufD.Get<T>();
    o.a = bufA.Get<T>();
    o.b = bufB.Get<T>();
    o.tmp = bufTmp.Get<uint8_t>();
    o.scalar = static_cast<T>(t.scalar);
    o.n = static_cast<int32_t>(t.n);
    o.form = t.form;
    constexpr uint32_t lanes = 256 / sizeof(T);
    o.repeat = t.n <= lanes ? 1 : static_cast<uint8_t>(t.n / lanes);
    o.mask = t.n <= lanes ? t.n : lanes;
    o.bits[0] = o.mask >= 64 ? ~0ull : (1ull << o.mask) - 1;
    o.bits[1] = o.mask >= 128 ? ~0ull : o.mask > 64 ? (1ull << (o.mask - 64)) - 1 : 0;
    gaf::LoadTile(o.a, aGm, 1, t.n, t.n);
    gaf::LoadTile(o.b, bGm, 1, t.n, t.n);
    gaf::LoadTile(o.d, dGm, 1, t.n, t.n);  // operations that read dst start from what the caller put there
    gaf::SyncPipes<HardEvent::MTE2_V>();
    gaf::SyncPipes<HardEvent::MTE2_MTE3>();
    if constexpr (gaf::IS_SAME<T, float> || gaf::IS_SAME<T, half>) {
        Floats(o, t.op);
    } else {
        Common(o, t.op);
        if constexpr (gaf::IS_SAME<T, int16_t>) {
            switch (t.op) {
                BINARY(70, And) BINARY(71, Or) UNARY(72, Not) default : break;
            }
        }
        switch (t.op) {
            SCALAR(73, ShiftLeft) SCALAR(74, ShiftRight) default : break;
        }
    }
    gaf::SyncPipes<HardEvent::V_MTE3>();
    gaf::StoreTile(dGm, o.d, 1, t.n, t.n);
}

extern "C" __global__ __aicore__ void vector_ops(GM_ADDR a, GM_ADDR b, GM_ADDR d, GM_ADDR workspace,
                                                 VectorOpsTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    switch (t.type) {
        case 0: Run<float>(a, b, d, t); break;
        case 1: Run<half>(a, b, d, t); break;
        case 2: Run<int32_t>(a, b, d, t); break;
        default: Run<int16_t>(a, b, d, t); break;
    }
}
