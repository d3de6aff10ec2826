// SPDX-License-Identifier: Apache-2.0
// Parameters of 8, 16 and 32 bits: the device takes the low bits of a value that is too large, check mode
// reports it.
//
// Only implicit conversions can be seen: a kernel that writes static_cast<uint8_t>(repeat) has narrowed
// already.
#ifndef GAF_TWIN_NARROW_H
#define GAF_TWIN_NARROW_H

#include <type_traits>

#include "twin/check.h"

namespace gaf_twin {

#if GAF_TWIN_CHECKING

// A parameter of type U that accepts any integer and reports one that U can't hold.
template <class U>
class Narrow {
public:
    constexpr Narrow() {}
    template <class I,
              typename std::enable_if<std::is_integral<I>::value || std::is_enum<I>::value, int>::type = 0>
    constexpr Narrow(I value) : value_(static_cast<U>(value))
    {
        if (static_cast<I>(value_) != value || (value < I(0)) != (value_ < U(0))) {
            check::rule(false, "narrowing", "parameter",
                        "the value %lld does not fit a parameter of %d bits: %lld is used",
                        static_cast<long long>(value), static_cast<int>(sizeof(U) * 8),
                        static_cast<long long>(value_));
        }
    }
    constexpr operator U() const { return value_; }

private:
    U value_ = 0;
};
using U8 = Narrow<uint8_t>;
using U16 = Narrow<uint16_t>;
using U32 = Narrow<uint32_t>;

#else

using U8 = uint8_t;
using U16 = uint16_t;
using U32 = uint32_t;

#endif

}  // namespace gaf_twin

#endif  // GAF_TWIN_NARROW_H
