// SPDX-License-Identifier: Apache-2.0
// Shapes, strides and coordinates as values: MakeShape, MakeStride, MakeCoord, MakeLayout.
#ifndef GAF_TWIN_LAYOUT_H
#define GAF_TWIN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <type_traits>

namespace gaf_twin {

template <size_t N>
struct Extents {
    int64_t value[N == 0 ? 1 : N] = {};
    static constexpr size_t COUNT = N;
};

}  // namespace gaf_twin

namespace AscendC {

template <class... A>
constexpr gaf_twin::Extents<sizeof...(A)> MakeShape(const A&... a)
{
    return {{static_cast<int64_t>(a)...}};
}
template <class... A>
constexpr gaf_twin::Extents<sizeof...(A)> MakeStride(const A&... a)
{
    return {{static_cast<int64_t>(a)...}};
}
template <class... A>
constexpr gaf_twin::Extents<sizeof...(A)> MakeCoord(const A&... a)
{
    return {{static_cast<int64_t>(a)...}};
}
template <size_t I, size_t N>
constexpr int64_t Get(const gaf_twin::Extents<N>& e)
{
    static_assert(I < N, "Get: index out of range");
    return e.value[I];
}

template <class SHAPE, class STRIDE>
struct Layout {
    SHAPE shape;
    STRIDE stride;
    constexpr const SHAPE& GetShape() const { return shape; }
    constexpr const STRIDE& GetStride() const { return stride; }
    // Offset of a coordinate; without strides the last dimension is innermost.
    template <size_t N>
    constexpr int64_t operator()(const gaf_twin::Extents<N>& coord) const
    {
        int64_t offset = 0, pitch = 1;
        for (size_t i = N; i-- > 0;) {
            offset += coord.value[i] * (STRIDE::COUNT == N ? stride.value[i] : pitch);
            pitch *= shape.value[i];
        }
        return offset;
    }
};
template <class SHAPE, class STRIDE>
constexpr Layout<SHAPE, STRIDE> MakeLayout(const SHAPE& shape, const STRIDE& stride)
{
    return {shape, stride};
}
template <class L>
struct is_layout : std::false_type {
};
template <class A, class B>
struct is_layout<Layout<A, B>> : std::true_type {
};
template <class L>
constexpr bool is_layout_v = is_layout<L>::value;

}  // namespace AscendC

#endif  // GAF_TWIN_LAYOUT_H
