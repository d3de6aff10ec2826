// SPDX-License-Identifier: Apache-2.0
// High-level mathematics and activation API on half and float: exact functions of the runtime library.
//
// dst must not overlap src; tmp must have the bytes that the toolkit needs at least (the twin itself uses
// none).
#ifndef GAF_TWIN_MATH_H
#define GAF_TWIN_MATH_H

#include "twin/vector.h"

namespace gaf_twin {

// Minimum bytes of tmp: 256 bytes times the number of float (half) temporaries of the function.
template <class T>
inline bool TouchTmp(const char* api, const AscendC::LocalTensor<uint8_t>& tmp, uint32_t floatTemps,
                     uint32_t halfTemps)
{
    const uint32_t need = 256 * (std::is_same<T, float>::value ? floatTemps : halfTemps);
    check::rule(tmp.GetSize() >= need, "tmp-size", api,
                "sharedTmpBuffer has %u bytes, at least %u are needed", tmp.GetSize(), need);
    // The toolkit uses as much of it as speeds it up: all of it counts as written.
    return check::access(Pipe::V, api, "sharedTmpBuffer", true, tmp.GetPhyAddr(), tmp.GetSize(), 1, 0, 32,
                         tmp.View());
}

constexpr uint32_t USES_RESERVED_UB = 1u << 31;  // a flag of MathUnary: the function borrows the top of UB

template <class T>
inline void MathUnary(const char* api, rt::Fn fn, const AscendC::LocalTensor<T>& dst,
                      const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>* tmp,
                      uint32_t floatTemps, uint32_t halfTemps, uint32_t n, uint32_t flags)
{
    if (n == 0) {
        return;
    }
    check::op(Pipe::V, api, flags & ~USES_RESERVED_UB);
    if ((flags & USES_RESERVED_UB) != 0) {
        check::reservedUb(api);
    }
    if (TouchFlat(api, "src", false, src, n) &&
        (tmp == nullptr || TouchTmp<T>(api, *tmp, floatTemps, halfTemps)) &&
        TouchFlat(api, "dst", true, dst, n)) {
        fn(dst.GetPhyAddr(), src.GetPhyAddr(), nullptr, n);
    }
}

}  // namespace gaf_twin

namespace AscendC {

#define GAF_TWIN_MATH(NAME, OP, FLOAT_TEMPS, HALF_TEMPS, FLAGS)                                             \
    template <class T, bool isReuseSource = false>                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp, \
                     const uint32_t count)                                                                  \
    {                                                                                                       \
        static_assert(gaf_twin::OneOf<T, half, float>, #NAME ": A2 takes half and float");                  \
        gaf_twin::MathUnary(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src, &tmp,           \
                            FLOAT_TEMPS, HALF_TEMPS, count, FLAGS);                                         \
    }                                                                                                       \
    template <class T, bool isReuseSource = false>                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp) \
    {                                                                                                       \
        NAME<T, isReuseSource>(dst, src, tmp, src.GetSize());                                               \
    }                                                                                                       \
    template <class T, bool isReuseSource = false>                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)            \
    {                                                                                                       \
        static_assert(gaf_twin::OneOf<T, half, float>, #NAME ": A2 takes half and float");                  \
        gaf_twin::MathUnary(#NAME, &gaf_twin::rt::Apply<gaf_twin::rt::Op::OP, T>, dst, src,                 \
                            static_cast<const LocalTensor<uint8_t>*>(nullptr), FLOAT_TEMPS, HALF_TEMPS,     \
                            count, FLAGS);                                                                  \
    }                                                                                                       \
    template <class T, bool isReuseSource = false>                                                          \
    inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src)                                  \
    {                                                                                                       \
        NAME<T, isReuseSource>(dst, src, src.GetSize());                                                    \
    }

#define GAF_TWIN_NO_ALIAS gaf_twin::check::OP_NO_ALIAS
GAF_TWIN_MATH(Tanh, TANH, 1, 4, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Erf, ERF, 3, 8, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Erfc, ERFC, 7, 16, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Sigmoid, SIGMOID, 1, 1, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Sin, SIN, 3, 8, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Cos, COS, 3, 8, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Tan, TAN, 4, 10, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Asin, ASIN, 4, 6, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Acos, ACOS, 4, 6, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Atan, ATAN, 5, 6, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Sinh, SINH, 2, 4, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Cosh, COSH, 2, 4, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Asinh, ASINH, 3, 5, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Acosh, ACOSH, 1, 3, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Atanh, ATANH, 1, 3, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Log2, LOG2, 0, 4, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Floor, FLOOR, 1, 1, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Ceil, CEIL, 1, 1, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Round, ROUND, 1, 3, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Trunc, TRUNC, 1, 1, GAF_TWIN_NO_ALIAS)
GAF_TWIN_MATH(Sign, SIGN, 3, 3, GAF_TWIN_NO_ALIAS | gaf_twin::USES_RESERVED_UB)
GAF_TWIN_MATH(Frac, FRAC, 1, 4, GAF_TWIN_NO_ALIAS)
#undef GAF_TWIN_MATH

template <class T, bool isReuseSource = false>
inline void Log(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Log: A2 takes half and float");
    gaf_twin::MathUnary("Log", &gaf_twin::rt::Apply<gaf_twin::rt::Op::LN, T>, dst, src,
                        static_cast<const LocalTensor<uint8_t>*>(nullptr), 0, 0, count, 0);
}
template <class T, bool isReuseSource = false>
inline void Log10(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Log10: A2 takes half and float");
    gaf_twin::MathUnary("Log10", &gaf_twin::rt::Apply<gaf_twin::rt::Op::LOG10, T>, dst, src,
                        static_cast<const LocalTensor<uint8_t>*>(nullptr), 0, 0, count, 0);
}
// The Taylor form of Exp.
template <class T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                const uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Exp: A2 takes half and float");
    gaf_twin::MathUnary("Exp", &gaf_twin::rt::Apply<gaf_twin::rt::Op::EXP, T>, dst, src, &tmp,
                        isReuseSource ? 2 : 3, 4, count, GAF_TWIN_NO_ALIAS);
}
template <class T, bool isReuseSource = false>
inline void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float>, "Silu: A2 takes half and float");
    gaf_twin::MathUnary("Silu", &gaf_twin::rt::Apply<gaf_twin::rt::Op::SILU, T>, dst, src,
                        static_cast<const LocalTensor<uint8_t>*>(nullptr), 0, 0, count, GAF_TWIN_NO_ALIAS);
}

template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const LocalTensor<T>& exponent,
                  const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float, int32_t>, "Power: A2 takes half, float and int32_t");
    if (count == 0) {
        return;
    }
    gaf_twin::check::op(gaf_twin::Pipe::V, "Power", GAF_TWIN_NO_ALIAS);
    gaf_twin::check::reservedUb("Power");
    if (gaf_twin::TouchFlat("Power", "src0", false, base, count) &&
        gaf_twin::TouchFlat("Power", "src1", false, exponent, count) &&
        gaf_twin::TouchTmp<T>("Power", tmp, 4, std::is_same<T, half>::value ? 14 : 6) &&
        gaf_twin::TouchFlat("Power", "dst", true, dst, count)) {
        gaf_twin::rt::Apply<gaf_twin::rt::Op::POWER, T>(dst.GetPhyAddr(), base.GetPhyAddr(),
                                                        exponent.GetPhyAddr(), count);
    }
}
template <class T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dst, const LocalTensor<T>& base, const T& exponent,
                  const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    static_assert(gaf_twin::OneOf<T, half, float, int32_t>, "Power: A2 takes half, float and int32_t");
    if (count == 0) {
        return;
    }
    gaf_twin::check::op(gaf_twin::Pipe::V, "Power", GAF_TWIN_NO_ALIAS);
    gaf_twin::check::reservedUb("Power");
    if (gaf_twin::TouchFlat("Power", "src0", false, base, count) &&
        gaf_twin::TouchTmp<T>("Power", tmp, 5, std::is_same<T, half>::value ? 14 : 7) &&
        gaf_twin::TouchFlat("Power", "dst", true, dst, count)) {
        T row[64];
        for (uint32_t i = 0; i < 64; ++i) {
            row[i] = exponent;
        }
        for (uint32_t i = 0; i < count; i += 64) {
            gaf_twin::rt::Apply<gaf_twin::rt::Op::POWER, T>(dst.GetPhyAddr() + i, base.GetPhyAddr() + i, row,
                                                            count - i < 64 ? count - i : 64);
        }
    }
}
#undef GAF_TWIN_NO_ALIAS

}  // namespace AscendC

#endif  // GAF_TWIN_MATH_H
