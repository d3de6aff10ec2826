// SPDX-License-Identifier: Apache-2.0
// Ordered rows of the device library in fast mode: the first elements of a row, chunk by chunk.
#include <algorithm>
#include <vector>

#include "twin/rt.h"

namespace gaf_twin {
namespace rt {

namespace {

struct Ranked {
    int32_t key, place;  // keys compare as integers
};

// A signed integer that grows with the element; NaN is the largest number, -0 equals 0.
inline int32_t OrderOf(float x)
{
    int32_t bits;
    memcpy(&bits, &x, 4);
    if (x != x) {
        return INT32_MAX;
    }
    return bits >= 0 ? bits : -(bits & INT32_MAX);
}
inline float NumberOf(int32_t order)
{
    int32_t bits = order >= 0 ? order : (-order) | INT32_MIN;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
inline bool Before(const Ranked& a, const Ranked& b)
{
    return a.key != b.key ? a.key > b.key : a.place < b.place;
}

}  // namespace

// The state holds order numbers instead of float keys: only the two functions below read it.
void RankRows(float* state, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, uint32_t kept,
              uint32_t statePitch, uint32_t first, bool largest)
{
    const uint32_t seen = first < kept ? first : kept, all = seen + lanes, stay = all < kept ? all : kept;
    std::vector<Ranked> row(all);
    for (uint32_t r = 0; r < rows; ++r) {
        memcpy(row.data(), state + uint64_t(r) * statePitch, seen * sizeof(Ranked));
        uint32_t n = seen;
        for (uint32_t i = 0; i < lanes; ++i) {
            const int32_t order = OrderOf(src[uint64_t(r) * pitch + i]), key = largest ? order : -order;
            if (seen == kept && key <= row[kept - 1].key) {
                continue;  // behind all that stay
            }
            row[n++] = {key, static_cast<int32_t>(first + i)};
        }
        if (stay < n / 8) {  // few: a heap of them sees most elements once
            std::partial_sort(row.begin(), row.begin() + stay, row.begin() + n, Before);
        } else {
            if (stay < n) {
                std::nth_element(row.begin(), row.begin() + stay, row.begin() + n, Before);
            }
            std::sort(row.begin(), row.begin() + stay, Before);
        }
        memcpy(state + uint64_t(r) * statePitch, row.data(), stay * sizeof(Ranked));
    }
}

void RankedValues(float* dst, const float* state, uint32_t rows, uint32_t kept, uint32_t pitch, uint32_t statePitch,
                  bool largest)
{
    for (uint32_t r = 0; r < rows; ++r) {
        const Ranked* row = reinterpret_cast<const Ranked*>(state + uint64_t(r) * statePitch);
        for (uint32_t i = 0; i < kept; ++i) {
            const int32_t order = largest ? row[i].key : -row[i].key;
            dst[uint64_t(r) * pitch + i] = order == INT32_MAX ? __builtin_nanf("") : NumberOf(order);
        }
    }
}

void RankedPlaces(int32_t* dst, const float* state, uint32_t rows, uint32_t kept, uint32_t pitch, uint32_t statePitch)
{
    for (uint32_t r = 0; r < rows; ++r) {
        const Ranked* row = reinterpret_cast<const Ranked*>(state + uint64_t(r) * statePitch);
        for (uint32_t i = 0; i < kept; ++i) {
            dst[uint64_t(r) * pitch + i] = row[i].place;
        }
    }
}

}  // namespace rt
}  // namespace gaf_twin
