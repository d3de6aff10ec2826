// SPDX-License-Identifier: Apache-2.0
// Elementwise routines on float, half and integers: the instantiations that twin/rt.h declares.
#include "twin/rt.h"

#include "halfs.h"
#include "vmath.h"

namespace gaf_twin {
namespace rt {

namespace vm = gaf_twin::vmath;

// Values are computed by these; NaN passes through MAX, MIN and RELU.
template <class T>
inline T WrapAdd(T a, T b)
{
    using U = typename std::make_unsigned<T>::type;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
}
template <class T>
inline T WrapSub(T a, T b)
{
    using U = typename std::make_unsigned<T>::type;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
}
template <class T>
inline T WrapMul(T a, T b)
{
    return static_cast<T>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

template <Op OP>
inline float Unary(float x)
{
    if constexpr (OP == Op::EXP) return vm::Exp(x);
    if constexpr (OP == Op::LN) return vm::Log(x);
    if constexpr (OP == Op::ABS) return vm::Abs(x);
    if constexpr (OP == Op::SQRT) return __builtin_sqrtf(x);
    if constexpr (OP == Op::RSQRT) return 1.0f / __builtin_sqrtf(x);
    if constexpr (OP == Op::RECIPROCAL) return 1.0f / x;
    if constexpr (OP == Op::RELU) return x > 0.0f || x != x ? x : 0.0f;
    if constexpr (OP == Op::TANH) return vm::Tanh(x);
    if constexpr (OP == Op::ERF) return vm::Erf(x);
    if constexpr (OP == Op::SIGMOID) return vm::Sigmoid(x);
    if constexpr (OP == Op::SILU) return x * vm::Sigmoid(x);
    if constexpr (OP == Op::SIGN) return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    if constexpr (OP == Op::FRAC) return x - __builtin_truncf(x);
    if constexpr (OP == Op::FLOOR) return __builtin_floorf(x);
    if constexpr (OP == Op::CEIL) return __builtin_ceilf(x);
    if constexpr (OP == Op::TRUNC) return __builtin_truncf(x);
    if constexpr (OP == Op::RINT) return __builtin_rintf(x);
    if constexpr (OP == Op::ROUND) return vm::RoundAway(x);
    if constexpr (OP == Op::ERFC) return static_cast<float>(erfc(static_cast<double>(x)));
    if constexpr (OP == Op::TAN) return static_cast<float>(tan(static_cast<double>(x)));
    if constexpr (OP == Op::ASIN) return static_cast<float>(asin(static_cast<double>(x)));
    if constexpr (OP == Op::ACOS) return static_cast<float>(acos(static_cast<double>(x)));
    if constexpr (OP == Op::ATAN) return static_cast<float>(atan(static_cast<double>(x)));
    if constexpr (OP == Op::SINH) return static_cast<float>(sinh(static_cast<double>(x)));
    if constexpr (OP == Op::COSH) return static_cast<float>(cosh(static_cast<double>(x)));
    if constexpr (OP == Op::ASINH) return static_cast<float>(asinh(static_cast<double>(x)));
    if constexpr (OP == Op::ACOSH) return static_cast<float>(acosh(static_cast<double>(x)));
    if constexpr (OP == Op::ATANH) return static_cast<float>(atanh(static_cast<double>(x)));
    if constexpr (OP == Op::LOG2) return static_cast<float>(log2(static_cast<double>(x)));
    if constexpr (OP == Op::LOG10) return static_cast<float>(log10(static_cast<double>(x)));
    return x;
}

template <Op OP, class T>
inline T Binary(T a, T b)
{
    if constexpr (std::is_same<T, float>::value) {
        if constexpr (OP == Op::ADD || OP == Op::ADDS) return a + b;
        if constexpr (OP == Op::SUB) return a - b;
        if constexpr (OP == Op::MUL || OP == Op::MULS) return a * b;
        if constexpr (OP == Op::DIV) return a / b;
        if constexpr (OP == Op::ADD_RELU) return Unary<Op::RELU>(a + b);
        if constexpr (OP == Op::SUB_RELU) return Unary<Op::RELU>(a - b);
        if constexpr (OP == Op::LEAKY_RELU) return a >= 0.0f || a != a ? a : a * b;
        if constexpr (OP == Op::MAX || OP == Op::MAXS) return a > b || a != a ? a : b;
        if constexpr (OP == Op::MIN || OP == Op::MINS) return a < b || a != a ? a : b;
    } else {
        if constexpr (OP == Op::ADD || OP == Op::ADDS) return WrapAdd(a, b);
        if constexpr (OP == Op::SUB) return WrapSub(a, b);
        if constexpr (OP == Op::MUL || OP == Op::MULS) return WrapMul(a, b);
        if constexpr (OP == Op::ADD_RELU) return WrapAdd(a, b) > 0 ? WrapAdd(a, b) : T(0);
        if constexpr (OP == Op::SUB_RELU) return WrapSub(a, b) > 0 ? WrapSub(a, b) : T(0);
        if constexpr (OP == Op::MAX || OP == Op::MAXS) return a > b ? a : b;
        if constexpr (OP == Op::MIN || OP == Op::MINS) return a < b ? a : b;
        if constexpr (OP == Op::AND) return static_cast<T>(a & b);
        if constexpr (OP == Op::OR) return static_cast<T>(a | b);
        if constexpr (OP == Op::SHIFT_LEFT) return static_cast<T>(static_cast<uint64_t>(a) << b);
        if constexpr (OP == Op::SHIFT_RIGHT) return static_cast<T>(static_cast<int64_t>(a) >> b);
    }
    return a;
}

constexpr bool IsUnary(Op op)
{
    return (op >= Op::EXP && op <= Op::NOT) || (op >= Op::TANH && op <= Op::RINT);
}
constexpr bool IsScalar(Op op) { return op >= Op::ADDS; }
constexpr bool ReadsDst(Op op) { return op == Op::FUSED_MUL_ADD || op == Op::FUSED_MUL_ADD_RELU; }

// sin and cos: a fast reduction for the range that A2 supports, libm beyond it.
template <Op OP>
static void Trigonometric(float* d, const float* a, uint32_t n)
{
    constexpr int32_t quarter = OP == Op::COS ? 1 : 0;
    for (; n > 0;) {
        const uint32_t m = n < 64 ? n : 64;
        int32_t largest = 0;  // as bits: ordered like the magnitudes, NaN above all
        for (uint32_t k = 0; k < m; ++k) {
            const int32_t v = vm::AsInt(a[k]) & 0x7fffffff;
            largest = v > largest ? v : largest;
        }
        if (largest <= vm::AsInt(65536.0f) && GAF_HAVE_FMA) {
            for (uint32_t k = 0; k < m; ++k) {
                d[k] = vm::SinCos(a[k], quarter);
            }
        } else {
            for (uint32_t k = 0; k < m; ++k) {
                const double x = a[k];
                d[k] = static_cast<float>(quarter != 0 ? cos(x) : sin(x));
            }
        }
        a += m, d += m, n -= m;
    }
}

// Powers in double: exp(b log a) for positive bases, libm for the rest (signs, zeros, infinities, NaN).
static void Powers(float* d, const float* a, const float* b, uint32_t n)
{
    for (; n > 0;) {
        const uint32_t m = n < 32 ? n : 32;
        int32_t odd = 0;  // sign bits of what is out of range: base outside (0, inf), exponent beyond 1e30
        for (uint32_t k = 0; k < m; ++k) {
            const int32_t base = vm::AsInt(a[k]), magnitude = vm::AsInt(b[k]) & 0x7fffffff;
            odd |= (base - 1) | (vm::AsInt(HUGE_VALF) - 1 - base) | (vm::AsInt(1e30f) - magnitude);
        }
        if (odd >= 0) {
            for (uint32_t k = 0; k < m; ++k) {
                const double e = static_cast<double>(b[k]) * vm::LogD(a[k]);
                d[k] = static_cast<float>(vm::ExpD(e));
            }
        } else {
            for (uint32_t k = 0; k < m; ++k) {
                d[k] = static_cast<float>(pow(static_cast<double>(a[k]), static_cast<double>(b[k])));
            }
        }
        a += m, b += m, d += m, n -= m;
    }
}

// vm::Exp on n elements. AVX-512 multiplies by a power of two in one instruction, subnormal results included.
static void Exps(float* d, const float* a, uint32_t n)
{
    uint32_t i = 0;
#if defined(__AVX512F__)
    const __m512 one = _mm512_set1_ps(1.0f);
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(a + i);
        // Beyond these limits the result is 0 or infinity anyway; min and max keep a NaN that comes second.
        const __m512 c = _mm512_min_ps(_mm512_set1_ps(200.0f), _mm512_max_ps(_mm512_set1_ps(-200.0f), x));
        const __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(c, _mm512_set1_ps(vm::LOG2E)),
                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(vm::LN2_HI), c);
        r = _mm512_fnmadd_ps(k, _mm512_set1_ps(vm::LN2_LO), r);
        __m512 q = _mm512_set1_ps(vm::EXP_TERMS[0]);
        for (uint32_t t = 1; t < 6; ++t) {
            q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(vm::EXP_TERMS[t]));
        }
        q = _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r);
        _mm512_storeu_ps(d + i, _mm512_scalef_ps(_mm512_add_ps(q, one), k));
    }
#endif
    for (; i < n; ++i) {
        d[i] = vm::Exp(a[i]);
    }
}

// 1 / x of n elements. AVX-512 improves its estimate by two steps, which is shorter than dividing; the second one
// rounds as a division does.
static void Reciprocals(float* d, const float* a, uint32_t n)
{
    uint32_t i = 0;
#if defined(__AVX512F__)
    const __m512 one = _mm512_set1_ps(1.0f);
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(a + i), y = _mm512_rcp14_ps(x);
        const __m512 left = _mm512_fnmadd_ps(x, y, one);
        // Of zeros, infinities, NaN and subnormals the estimate is the result: the step would make them NaN.
        const __mmask16 ends = _mm512_cmp_ps_mask(_mm512_abs_ps(left), _mm512_set1_ps(0.5f), _CMP_NLT_UQ);
        const __m512 near = _mm512_fmadd_ps(y, left, y);
        const __m512 better = _mm512_fmadd_ps(near, _mm512_fnmadd_ps(x, near, one), near);
        _mm512_storeu_ps(d + i, _mm512_mask_mov_ps(better, ends, y));
    }
#endif
    for (; i < n; ++i) {
        d[i] = 1.0f / a[i];
    }
}

template <Op OP>
static void ApplyFloat(float* d, const float* a, const float* b, uint32_t n)
{
    if constexpr (OP == Op::EXP) {
        Exps(d, a, n);
    } else if constexpr (OP == Op::RECIPROCAL) {
        Reciprocals(d, a, n);
    } else if constexpr (OP == Op::SIN || OP == Op::COS) {
        Trigonometric<OP>(d, a, n);
    } else if constexpr (OP == Op::POWER) {
        Powers(d, a, b, n);
    } else if constexpr (OP == Op::FMOD) {
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = fmodf(a[i], b[i]);
        }
    } else if constexpr (IsUnary(OP)) {
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = Unary<OP>(a[i]);
        }
    } else if constexpr (IsScalar(OP)) {
        const float s = *b;
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = Binary<OP, float>(a[i], s);
        }
    } else if constexpr (ReadsDst(OP)) {
        for (uint32_t i = 0; i < n; ++i) {
            const float v = a[i] * d[i] + b[i];
            d[i] = OP == Op::FUSED_MUL_ADD_RELU ? Unary<Op::RELU>(v) : v;
        }
    } else {
        for (uint32_t i = 0; i < n; ++i) {
            d[i] = Binary<OP, float>(a[i], b[i]);
        }
    }
}

// A float routine on half: computed in float, rounded once. operands: 1, 2, or -1 for a scalar second one.
static void InFloat(void (*fn)(float*, const float*, const float*, uint32_t), int operands, bool readsDst,
                    half* d, const half* a, const half* b, uint32_t n)
{
    float fa[128], fb[128], fd[128];
    if (operands < 0) {
        fb[0] = *b;
    }
    for (uint32_t i = 0; i < n; i += 128) {
        const uint32_t m = n - i < 128 ? n - i : 128;
        HalfToFloats(fa, a + i, m);
        if (operands == 2) {
            HalfToFloats(fb, b + i, m);
        }
        if (readsDst) {
            HalfToFloats(fd, d + i, m);
        }
        fn(fd, fa, fb, m);
        FloatsToHalf(d + i, fd, m);
    }
}

template <Op OP, class T>
void Apply(void* dst, const void* a, const void* b, uint32_t n)
{
    if constexpr (std::is_same<T, float>::value) {
        ApplyFloat<OP>(static_cast<float*>(dst), static_cast<const float*>(a), static_cast<const float*>(b),
                       n);
    } else if constexpr (std::is_same<T, half>::value) {
        constexpr int operands = IsScalar(OP) ? -1 : IsUnary(OP) ? 1 : 2;
        InFloat(&ApplyFloat<OP>, operands, ReadsDst(OP), static_cast<half*>(dst), static_cast<const half*>(a),
                static_cast<const half*>(b), n);
    } else if constexpr (OP == Op::POWER) {
        for (uint32_t i = 0; i < n; ++i) {
            const double p = pow(static_cast<double>(static_cast<const T*>(a)[i]),
                                 static_cast<double>(static_cast<const T*>(b)[i]));
            static_cast<T*>(dst)[i] = p >= 2147483647.0    ? 2147483647
                                      : p <= -2147483648.0 ? INT32_MIN
                                                           : static_cast<T>(p);
        }
    } else {
        T* d = static_cast<T*>(dst);
        const T* pa = static_cast<const T*>(a);
        const T* pb = static_cast<const T*>(b);
        if constexpr (OP == Op::NOT) {
            for (uint32_t i = 0; i < n; ++i) {
                d[i] = static_cast<T>(~pa[i]);
            }
        } else if constexpr (OP == Op::RELU) {
            for (uint32_t i = 0; i < n; ++i) {
                d[i] = pa[i] > 0 ? pa[i] : T(0);
            }
        } else if constexpr (IsScalar(OP)) {
            const T s = *pb;
            for (uint32_t i = 0; i < n; ++i) {
                d[i] = Binary<OP, T>(pa[i], s);
            }
        } else {
            for (uint32_t i = 0; i < n; ++i) {
                d[i] = Binary<OP, T>(pa[i], pb[i]);
            }
        }
    }
}

void Random24(int32_t* dst, const int32_t* index, const int32_t* salt, uint32_t key, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t left = static_cast<uint32_t>(index[i]), right = static_cast<uint32_t>(salt[i]), k = key;
        for (int round = 0; round < 10; ++round, k += 0x9E3779B9u) {
            const uint64_t product = uint64_t(left) * 0xD256D193u;
            left = static_cast<uint32_t>(product >> 32) ^ k ^ right;
            right = static_cast<uint32_t>(product);
        }
        dst[i] = static_cast<int32_t>(left >> 8);
    }
}

#define I(OP, T) template void Apply<Op::OP, T>(void*, const void*, const void*, uint32_t);
#define FH(OP) I(OP, float) I(OP, half)
#define ARITH(OP) FH(OP) I(OP, int16_t) I(OP, int32_t)
ARITH(ADD)
ARITH(SUB) ARITH(MUL) ARITH(MAX) ARITH(MIN) ARITH(ADDS) ARITH(MULS) ARITH(MAXS) ARITH(MINS) FH(DIV)
    FH(FUSED_MUL_ADD) FH(FUSED_MUL_ADD_RELU) FH(LEAKY_RELU) FH(ADD_RELU) I(ADD_RELU, int16_t) FH(SUB_RELU)
        I(SUB_RELU, int16_t) I(AND, int16_t) I(AND, uint16_t) I(OR, int16_t) I(OR, uint16_t) I(NOT, int16_t)
            I(NOT, uint16_t)
#define SHIFT(OP) I(OP, int16_t) I(OP, uint16_t) I(OP, int32_t) I(OP, uint32_t)
                SHIFT(SHIFT_LEFT) SHIFT(SHIFT_RIGHT) FH(EXP) FH(LN) FH(ABS) FH(SQRT) FH(RSQRT) FH(RECIPROCAL)
                    FH(RELU) I(RELU, int32_t) FH(TANH) FH(ERF) FH(ERFC) FH(SIN) FH(COS) FH(TAN) FH(ASIN)
                        FH(ACOS) FH(ATAN) FH(SINH) FH(COSH) FH(ASINH) FH(ACOSH) FH(ATANH) FH(LOG2) FH(LOG10)
                            FH(SIGMOID) FH(SIGN) FH(FRAC) FH(SILU) FH(FLOOR) FH(CEIL) FH(ROUND) FH(TRUNC)
                                FH(RINT) FH(POWER) I(POWER, int32_t) FH(FMOD)
#undef I

                                    template <class D, class S>
                                    void MulAddDst(void* dst, const void* a, const void* b, uint32_t n)
{
    D* d = static_cast<D*>(dst);
    for (uint32_t i = 0; i < n; ++i) {
        const float p =
            static_cast<float>(static_cast<const S*>(a)[i]) * static_cast<float>(static_cast<const S*>(b)[i]);
        d[i] = static_cast<D>(static_cast<float>(d[i]) + p);
    }
}
template <class D, class S>
void Axpy(void* dst, const void* a, const void* b, uint32_t n)
{
    D* d = static_cast<D*>(dst);
    const float s = static_cast<float>(*static_cast<const S*>(b));
    for (uint32_t i = 0; i < n; ++i) {
        d[i] = static_cast<D>(static_cast<float>(d[i]) + static_cast<float>(static_cast<const S*>(a)[i]) * s);
    }
}
#define I(D, S)                                                               \
    template void MulAddDst<D, S>(void*, const void*, const void*, uint32_t); \
    template void Axpy<D, S>(void*, const void*, const void*, uint32_t);
I(float, float)
I(half, half) I(float, half)
#undef I

    template <class T>
    void Fill(void* dst, T value, uint32_t n)
{
    T* d = static_cast<T*>(dst);
    for (uint32_t i = 0; i < n; ++i) {
        d[i] = value;
    }
}
template <class T>
void Iota(void* dst, T first, T step, uint32_t n)
{
    T* d = static_cast<T*>(dst);
    for (uint32_t i = 0; i < n; ++i) {
        d[i] = static_cast<T>(first + step * static_cast<T>(i));
    }
}
#define I(T) template void Fill<T>(void*, T, uint32_t);
I(int16_t)
I(uint16_t) I(half) I(bfloat16_t) I(int32_t) I(uint32_t) I(float)
#undef I
#define I(T) template void Iota<T>(void*, T, T, uint32_t);
    I(int16_t) I(half) I(int32_t) I(float)
#undef I

        template <AscendC::CMPMODE M, class T>
        inline bool Holds(T a, T b)
{
    using C = AscendC::CMPMODE;
    return M == C::LT   ? a < b
           : M == C::GT ? a > b
           : M == C::EQ ? a == b
           : M == C::LE ? a <= b
           : M == C::GE ? a >= b
                        : a != b;
}
// A lane as the comparison sees it.
inline float Wide(half h) { return h; }
inline float Wide(float f) { return f; }
inline int32_t Wide(int32_t i) { return i; }

template <AscendC::CMPMODE M, class T>
static void Bits(uint8_t* dst, const T* a, const T* b, uint32_t stepB, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8) {
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8; ++k) {
            byte |= static_cast<uint32_t>(Holds<M>(Wide(a[i + k]), Wide(b[(i + k) * stepB]))) << k;
        }
        dst[i / 8] = static_cast<uint8_t>(byte);
    }
}
template <class T>
void CompareBits(uint8_t* dst, const void* a, const void* b, bool scalar, AscendC::CMPMODE mode, uint32_t n)
{
    using C = AscendC::CMPMODE;
    const T *pa = static_cast<const T*>(a), *pb = static_cast<const T*>(b);
    const uint32_t s = scalar ? 0 : 1;
    switch (mode) {
        case C::LT: return Bits<C::LT, T>(dst, pa, pb, s, n);
        case C::GT: return Bits<C::GT, T>(dst, pa, pb, s, n);
        case C::EQ: return Bits<C::EQ, T>(dst, pa, pb, s, n);
        case C::LE: return Bits<C::LE, T>(dst, pa, pb, s, n);
        case C::GE: return Bits<C::GE, T>(dst, pa, pb, s, n);
        default: return Bits<C::NE, T>(dst, pa, pb, s, n);
    }
}
template <class T>
void SelectBits(void* dst, const uint8_t* bits, const void* a, const void* b, bool scalar, uint32_t n)
{
    T* d = static_cast<T*>(dst);
    const T *pa = static_cast<const T*>(a), *pb = static_cast<const T*>(b);
    const uint32_t s = scalar ? 0 : 1;
    for (uint32_t i = 0; i < n; ++i) {
        d[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? pa[i] : pb[i * s];
    }
}
#define I(T) \
    template void CompareBits<T>(uint8_t*, const void*, const void*, bool, AscendC::CMPMODE, uint32_t);
I(half)
I(float) I(int32_t)
#undef I
#define I(T) template void SelectBits<T>(void*, const uint8_t*, const void*, const void*, bool, uint32_t);
    I(half) I(float)
#undef I

        template <AscendC::CMPMODE M>
        static void Floats01(float* dst, const float* a, const float* b, bool scalar, uint32_t n)
{
    if (scalar) {
        const float s = *b;
        for (uint32_t i = 0; i < n; ++i) {
            dst[i] = Holds<M>(a[i], s) ? 1.0f : 0.0f;
        }
        return;
    }
    for (uint32_t i = 0; i < n; ++i) {
        dst[i] = Holds<M>(a[i], b[i]) ? 1.0f : 0.0f;
    }
}
void Compare01(float* dst, const float* a, const float* b, bool scalar, AscendC::CMPMODE mode, uint32_t n)
{
    using C = AscendC::CMPMODE;
    switch (mode) {
        case C::LT: return Floats01<C::LT>(dst, a, b, scalar, n);
        case C::GT: return Floats01<C::GT>(dst, a, b, scalar, n);
        case C::EQ: return Floats01<C::EQ>(dst, a, b, scalar, n);
        case C::LE: return Floats01<C::LE>(dst, a, b, scalar, n);
        case C::GE: return Floats01<C::GE>(dst, a, b, scalar, n);
        default: return Floats01<C::NE>(dst, a, b, scalar, n);
    }
}
void Select01(float* dst, const float* cond, const float* a, const float* b, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        dst[i] = cond[i] != 0.0f ? a[i] : b[i];
    }
}

template <class T>
T TreeSum(const T* src, uint32_t n)
{
    float v[128];
    for (uint32_t i = 0; i < n; ++i) {
        v[i] = src[i];
    }
    for (; n > 1; n = (n + 1) / 2) {
        for (uint32_t i = 0; i < n / 2; ++i) {
            v[i] = v[2 * i] + v[2 * i + 1];
        }
        if (n % 2 != 0) {
            v[n / 2] = v[n - 1];
        }
    }
    return static_cast<T>(v[0]);
}
template <class T>
T Extreme(const T* src, uint32_t n, bool max, uint32_t* index)
{
    uint32_t at = 0;
    float best = src[0];
    for (uint32_t i = 1; i < n; ++i) {  // NaN wins, then the first of equals
        const float v = src[i];
        const bool better = best == best && ((max ? v > best : v < best) || v != v);
        at = better ? i : at;
        best = better ? v : best;
    }
    *index = at;
    return static_cast<T>(best);
}
template float TreeSum<float>(const float*, uint32_t);
template half TreeSum<half>(const half*, uint32_t);
template float Extreme<float>(const float*, uint32_t, bool, uint32_t*);
template half Extreme<half>(const half*, uint32_t, bool, uint32_t*);

void CopyRuns(void* dst, const void* src, uint64_t runBytes, uint32_t runs, int64_t dstStride,
              int64_t srcStride)
{
    uint8_t* d = static_cast<uint8_t*>(dst);
    const uint8_t* s = static_cast<const uint8_t*>(src);
    if (runs > 1 && dstStride == static_cast<int64_t>(runBytes) && srcStride == dstStride) {
        runBytes *= runs;
        runs = 1;
    }
    for (uint32_t r = 0; r < runs; ++r) {
        memmove(d + dstStride * r, s + srcStride * r, runBytes);
    }
}

}  // namespace rt
}  // namespace gaf_twin
