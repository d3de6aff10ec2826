// SPDX-License-Identifier: Apache-2.0
// Integer helpers of generated kernels: the scalars of a kernel are int64_t.
#ifndef GAF_SCALAR_H
#define GAF_SCALAR_H

#include "gaf_compat.h"

// Kind of core in the signature of a kernel: CANN 9 builds set __vector__, __cube__ or __mix__(1, 2) here.
#ifndef GAF_CORE
#define GAF_CORE
#endif

namespace gaf {

__aicore__ constexpr int64_t Min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
__aicore__ constexpr int64_t Max(int64_t a, int64_t b)
{
    return a < b ? b : a;
}

// Quotient rounded towards minus infinity and its remainder, 0 <= FloorMod < b; b > 0.
__aicore__ constexpr int64_t FloorDiv(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}
__aicore__ constexpr int64_t FloorMod(int64_t a, int64_t b)
{
    return a - FloorDiv(a, b) * b;
}

// The smallest multiple of b that is not less than a; b > 0.
__aicore__ constexpr int64_t RoundUp(int64_t a, int64_t b)
{
    return FloorDiv(a + b - 1, b) * b;
}

// Values that have no literal.
__aicore__ constexpr float InfF()
{
    return __builtin_inff();
}
__aicore__ constexpr float NanF()
{
    return __builtin_nanf("");
}

}  // namespace gaf

#endif  // GAF_SCALAR_H
