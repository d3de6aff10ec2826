// SPDX-License-Identifier: Apache-2.0
// Tensor operators: dst = a + b stands for Add(dst, a, b, dst.GetSize()), a comparison for Compare.
#ifndef GAF_TWIN_OPERATORS_H
#define GAF_TWIN_OPERATORS_H

#include "twin/select.h"
#include "twin/vector.h"

namespace AscendC {

#define GAF_TWIN_OPERATOR(SYMBOL, CALL, NUMBER)                                                        \
    template <class T>                                                                                 \
    inline TensorPair<T, NUMBER> operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b)     \
    {                                                                                                  \
        return {a, b};                                                                                 \
    }                                                                                                  \
    template <class T>                                                                                 \
    inline void AssignPair(const LocalTensor<T>& dst, const TensorPair<T, NUMBER>& e)                  \
    {                                                                                                  \
        CALL(dst, e.a, e.b, static_cast<int32_t>(dst.GetSize()));                                      \
    }
GAF_TWIN_OPERATOR(+, Add, 0)
GAF_TWIN_OPERATOR(-, Sub, 1)
GAF_TWIN_OPERATOR(*, Mul, 2)
GAF_TWIN_OPERATOR(/, Div, 3)
GAF_TWIN_OPERATOR(|, Or, 4)
GAF_TWIN_OPERATOR(&, And, 5)
#undef GAF_TWIN_OPERATOR

#define GAF_TWIN_COMPARISON(SYMBOL, MODE, NUMBER)                                                      \
    template <class T>                                                                                 \
    inline TensorPair<T, NUMBER> operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b)     \
    {                                                                                                  \
        return {a, b};                                                                                 \
    }                                                                                                  \
    template <class U, class T>                                                                        \
    inline void AssignPair(const LocalTensor<U>& dst, const TensorPair<T, NUMBER>& e)                  \
    {                                                                                                  \
        Compare(dst, e.a, e.b, CMPMODE::MODE, e.a.GetSize());                                          \
    }
GAF_TWIN_COMPARISON(<, LT, 6)
GAF_TWIN_COMPARISON(>, GT, 7)
GAF_TWIN_COMPARISON(==, EQ, 8)
GAF_TWIN_COMPARISON(<=, LE, 9)
GAF_TWIN_COMPARISON(>=, GE, 10)
GAF_TWIN_COMPARISON(!=, NE, 11)
#undef GAF_TWIN_COMPARISON

}  // namespace AscendC

#endif  // GAF_TWIN_OPERATORS_H
