// SPDX-License-Identifier: Apache-2.0
// Elementary functions without branches, so that the compiler vectorises loops over them; errors in units of
// last place.
//
// Polynomials are Taylor series or our own minimax fits (weighted least squares on Chebyshev nodes in
// double). MADD is a fused multiply-add where the processor has one: results may differ between processors in
// the last place.
#ifndef GAF_NATIVE_VMATH_H
#define GAF_NATIVE_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace gaf_twin {
namespace vmath {

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define GAF_HAVE_FMA 1
inline float Madd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double Madd(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define GAF_HAVE_FMA 0
inline float Madd(float a, float b, float c) { return a * b + c; }
inline double Madd(double a, double b, double c) { return a * b + c; }
#endif

inline int32_t AsInt(float f)
{
    int32_t i;
    memcpy(&i, &f, 4);
    return i;
}
inline float AsFloat(int32_t i)
{
    float f;
    memcpy(&f, &i, 4);
    return f;
}
inline int64_t AsInt64(double d)
{
    int64_t i;
    memcpy(&i, &d, 8);
    return i;
}
inline double AsDouble(int64_t i)
{
    double d;
    memcpy(&d, &i, 8);
    return d;
}

constexpr float LOG2E = 1.44269504088896341f;
constexpr float LN2_HI = 0.693359375f;  // 9 bits: n * LN2_HI is exact
constexpr float LN2_LO = -2.12194440054690583e-4f;

// 1/7! .. 1/2!: e^r - 1 for |r| <= ln(2)/2 is r + r^2 (1/2 + r/6 + ...), Taylor to r^7.
constexpr float EXP_TERMS[] = {1.98412698413e-4f, 1.38888888889e-3f, 8.33333333333e-3f,
                               4.16666666667e-2f, 1.66666666667e-1f, 0.5f};

inline float ExpTail(float r)
{
    float q = EXP_TERMS[0];
    q = Madd(q, r, EXP_TERMS[1]);
    q = Madd(q, r, EXP_TERMS[2]);
    q = Madd(q, r, EXP_TERMS[3]);
    q = Madd(q, r, EXP_TERMS[4]);
    q = Madd(q, r, EXP_TERMS[5]);
    return Madd(q, r * r, r);
}

// e^x, 1.2 ulp; 0 below -104, infinity above 88.73, NaN kept.
inline float Exp(float x)
{
    const float c = x < -104.0f ? -104.0f : x;
    const float n = __builtin_rintf(c * LOG2E);
    float r = Madd(n, -LN2_HI, c);
    r = Madd(n, -LN2_LO, r);
    const int32_t k = static_cast<int32_t>(n), k1 = k >> 1, k2 = k - k1;  // two steps: subnormal results
    const float p = (ExpTail(r) + 1.0f) * AsFloat((k1 + 127) << 23) * AsFloat((k2 + 127) << 23);
    return x > 88.8f ? HUGE_VALF : p;
}

// e^y - 1 for 0 <= y <= 80, 2 ulp.
inline float Expm1Positive(float y)
{
    const float n = __builtin_rintf(y * LOG2E);
    float r = Madd(n, -LN2_HI, y);
    r = Madd(n, -LN2_LO, r);
    const float s = AsFloat((static_cast<int32_t>(n) + 127) << 23);
    return Madd(s, ExpTail(r), s - 1.0f);
}

// Natural logarithm, 1 ulp; log(0) = -inf, negative arguments NaN.
inline float Log(float x)
{
    const bool tiny = x < 1.17549435e-38f;
    const float y = tiny ? x * 8388608.0f : x;
    const int32_t bits = AsInt(y) - 0x3f3504f3;  // sqrt(1/2)
    const float k = static_cast<float>(bits >> 23) - (tiny ? 23.0f : 0.0f);
    const float f = AsFloat((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    // log(1 + f) = 2 atanh(s), s = f / (2 + f): series of 2 s^(2i + 1) / (2i + 1)
    const float s = f / (2.0f + f), z = s * s;
    float t = 0.181818181818f;
    t = Madd(t, z, 0.222222222222f);
    t = Madd(t, z, 0.285714285714f);
    t = Madd(t, z, 0.4f);
    t = Madd(t, z, 0.666666666667f);
    const float half = 0.5f * f * f;
    float r = k * LN2_HI - ((half - Madd(s, half + z * t, k * LN2_LO)) - f);
    r = x == 0.0f ? -HUGE_VALF : r;
    r = x < 0.0f || x != x ? __builtin_nanf("") : r;
    return x == HUGE_VALF ? x : r;
}

// Logarithm of a positive finite double and e^x of a double, relative error below 1e-14.
inline double LogD(double x)
{
    const int64_t bits = AsInt64(x) - 0x3fe6a09e667f3bcdll;
    // The exponent as a double without signed shift or int64 conversion: made positive, then added to the
    // bits of 2^52.
    const uint64_t up = (static_cast<uint64_t>(bits) + 0x4000000000000000ull) >> 52;
    const double k =
        AsDouble(static_cast<int64_t>(up) + 0x4330000000000000ll) - (4503599627370496.0 + 1024.0);
    const double f = AsDouble((bits & 0xfffffffffffffll) + 0x3fe6a09e667f3bcdll) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    double t = 2.0 / 19;
    t = Madd(t, z, 2.0 / 17);
    t = Madd(t, z, 2.0 / 15);
    t = Madd(t, z, 2.0 / 13);
    t = Madd(t, z, 2.0 / 11);
    t = Madd(t, z, 2.0 / 9);
    t = Madd(t, z, 2.0 / 7);
    t = Madd(t, z, 2.0 / 5);
    t = Madd(t, z, 2.0 / 3);
    return Madd(k, 0.693147180559945309417, Madd(t * z, s, 2.0 * s));
}
inline double ExpD(double x)
{
    double c = x > 709.0 ? 709.0 : x;
    c = c < -709.0 ? -709.0 : c;
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer in the low bits
    const double m = c * 1.44269504088896340736 + magic, n = m - magic;
    const double r = Madd(n, -1.90821492927058770002e-10, Madd(n, -0.693147180369123816490, c));
    double q = 1.0 / 479001600;
    q = Madd(q, r, 1.0 / 39916800);
    q = Madd(q, r, 1.0 / 3628800);
    q = Madd(q, r, 1.0 / 362880);
    q = Madd(q, r, 1.0 / 40320);
    q = Madd(q, r, 1.0 / 5040);
    q = Madd(q, r, 1.0 / 720);
    q = Madd(q, r, 1.0 / 120);
    q = Madd(q, r, 1.0 / 24);
    q = Madd(q, r, 1.0 / 6);
    q = Madd(q, r, 0.5);
    const double p = Madd(q, r * r, r) + 1.0;
    return p * AsDouble(static_cast<int64_t>(static_cast<uint64_t>(AsInt64(m)) << 52) + 0x3ff0000000000000ll);
}

inline float CopySign(float magnitude, float sign)
{
    return AsFloat((AsInt(magnitude) & 0x7fffffff) | (AsInt(sign) & static_cast<int32_t>(0x80000000)));
}
inline float Abs(float x) { return AsFloat(AsInt(x) & 0x7fffffff); }

// tanh by (e^2x - 1) / (e^2x + 1), 2.7 ulp.
inline float Tanh(float x)
{
    const float a = Abs(x), c = a > 10.0f ? 10.0f : a;
    const float e = Expm1Positive(2.0f * c);
    const float t = e / (e + 2.0f);
    return x != x ? x : CopySign(t, x);
}

// 1 / (1 + e^-x), 2.5 ulp, subnormal results included.
inline float Sigmoid(float x)
{
    const float e = Exp(-Abs(x)), r = 1.0f / (1.0f + e);
    return x >= 0.0f ? r : e * r;
}

// erf, 1.5 ulp: x P(x^2) below 1, 1 - exp(-Q(x)) above (Q fits -log(erfc)).
inline float Erf(float x)
{
    const float a = Abs(x), u = x * x;
    float p = -9.641509677749127e-06f;
    p = Madd(p, u, 0.00011256945435889065f);
    p = Madd(p, u, -0.000848282827064395f);
    p = Madd(p, u, 0.005220945458859205f);
    p = Madd(p, u, -0.0268654003739357f);
    p = Madd(p, u, 0.11283782124519348f);
    p = Madd(p, u, -0.37612637877464294f);
    p = Madd(p, u, 0.128379225730896f);
    const float near = Madd(x, p, x);
    const float c = a > 4.0f ? 4.0f : a;
    float q = 2.169777508242987e-05f;
    q = Madd(q, c, -0.00044147457811050117f);
    q = Madd(q, c, 0.004205294419080019f);
    q = Madd(q, c, -0.025210365653038025f);
    q = Madd(q, c, 0.10842213779687881f);
    q = Madd(q, c, 0.633216381072998f);
    q = Madd(q, c, 1.1295803785324097f);
    q = Madd(q, c, -0.0001884719094960019f);
    const float far = CopySign(1.0f - Exp(-q), x);
    return a < 1.0f || x != x ? near : far;
}

// sin and cos for |x| <= 65536, 1.5 ulp; the caller handles larger arguments. quarter: 0 for sin, 1 for cos.
inline float SinCos(float x, int32_t quarter)
{
    const float k = __builtin_rintf(x * 0.636619772367581343f);
    // pi/2 in four parts, the first two short: their products with k (16 bits) are exact
    float r = Madd(k, -1.5703125f, x);
    r = Madd(k, -4.837512969970703125e-4f, r);
    r = Madd(k, -7.549790126404332e-08f, r);
    r = Madd(k, 1.7151245e-15f, r);
    const int32_t q = static_cast<int32_t>(k) + quarter;
    const float z = r * r;
    float s = 2.75573192240e-6f;
    s = Madd(s, z, -1.98412698413e-4f);
    s = Madd(s, z, 8.33333333333e-3f);
    s = Madd(s, z, -1.66666666667e-1f);
    s = Madd(s * z, r, r);
    float c = -2.75573192240e-7f;
    c = Madd(c, z, 2.48015873016e-5f);
    c = Madd(c, z, -1.38888888889e-3f);
    c = Madd(c, z, 4.16666666667e-2f);
    c = Madd(c, z, -0.5f);
    c = Madd(c, z, 1.0f);
    const float v = (q & 1) != 0 ? c : s;
    return (q & 2) != 0 ? -v : v;
}

// Rounding to an integer, halves away from zero.
inline float RoundAway(float x)
{
    const float t = __builtin_truncf(x), d = Abs(x - t);
    return d >= 0.5f ? t + CopySign(1.0f, x) : CopySign(t, x);
}

}  // namespace vmath
}  // namespace gaf_twin

#endif  // GAF_NATIVE_VMATH_H
