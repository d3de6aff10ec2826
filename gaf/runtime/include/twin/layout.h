// SPDX-License-Identifier: Apache-2.0
// Shapes, strides and coordinates as tuples: MakeShape, MakeStride, MakeCoord, MakeLayout.
#ifndef GAF_TWIN_LAYOUT_H
#define GAF_TWIN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <tuple>
#include <type_traits>
#include <utility>

namespace gaf_twin {

template <class TUPLE, size_t... I>
inline void Flatten(const TUPLE& tuple, int64_t* out, std::index_sequence<I...>)
{
    ((out[I] = static_cast<int64_t>(std::get<I>(tuple))), ...);
}

}  // namespace gaf_twin

namespace AscendC {

template <class... A>
using Shape = std::tuple<A...>;
template <class... A>
using Stride = std::tuple<A...>;
template <class... A>
using Coord = std::tuple<A...>;

template <class... A>
constexpr Shape<A...> MakeShape(const A&... a)
{
    return {a...};
}
template <class... A>
constexpr Stride<A...> MakeStride(const A&... a)
{
    return {a...};
}
template <class... A>
constexpr Coord<A...> MakeCoord(const A&... a)
{
    return {a...};
}
template <size_t I, class... A>
constexpr decltype(auto) Get(const std::tuple<A...>& t)
{
    return std::get<I>(t);
}

template <class SHAPE, class STRIDE>
struct Layout {
    SHAPE shape;
    STRIDE stride;
    constexpr const SHAPE& GetShape() const { return shape; }
    constexpr const STRIDE& GetStride() const { return stride; }
    // Offset of a coordinate; without strides the last dimension is innermost.
    template <class... A>
    int64_t operator()(const std::tuple<A...>& coord) const
    {
        constexpr size_t n = sizeof...(A), strides = std::tuple_size<STRIDE>::value;
        static_assert(n > 0 && std::tuple_size<SHAPE>::value == n, "a coordinate has as many numbers as the shape");
        int64_t at[n], sizes[n], steps[strides == 0 ? 1 : strides], offset = 0, pitch = 1;
        gaf_twin::Flatten(coord, at, std::make_index_sequence<n>());
        gaf_twin::Flatten(shape, sizes, std::make_index_sequence<n>());
        gaf_twin::Flatten(stride, steps, std::make_index_sequence<strides>());
        for (size_t i = n; i-- > 0;) {
            offset += at[i] * (strides == n ? steps[i] : pitch);
            pitch *= sizes[i];
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
