// SPDX-License-Identifier: Apache-2.0
// Running folds of the device library in fast mode, element after element.
#include "twin/rt.h"

namespace gaf_twin {
namespace rt {

namespace {

template <int MON>
inline float Fold(float a, float b)
{
    if constexpr (MON == 0) return a + b;
    if constexpr (MON == 1) return a != a || a > b ? a : b;
    if constexpr (MON == 2) return a != a || a < b ? a : b;
    return a * b;
}

template <int MON>
void Lanes(float* dst, float* carry, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, bool exclusive)
{
    for (uint32_t r = 0; r < rows; ++r) {
        float state = carry[r];
        for (uint32_t c = 0; c < lanes; ++c) {
            const float before = state;
            state = Fold<MON>(state, src[uint64_t(r) * pitch + c]);
            dst[uint64_t(r) * pitch + c] = exclusive ? before : state;
        }
        for (uint32_t c = lanes; c < pitch; ++c) {
            dst[uint64_t(r) * pitch + c] = state;
        }
        carry[r] = state;
    }
}

template <int MON>
void Rows(float* dst, float* carry, const float* src, uint32_t rows, uint32_t pitch, bool exclusive)
{
    for (uint32_t r = 0; r < rows; ++r) {
        float* to = dst + uint64_t(r) * pitch;
        const float* from = src + uint64_t(r) * pitch;
        for (uint32_t c = 0; c < pitch; ++c) {
            const float before = carry[c];
            carry[c] = Fold<MON>(before, from[c]);
            to[c] = exclusive ? before : carry[c];
        }
    }
}

}  // namespace

void ScanLanes(float* dst, float* carry, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, int mon,
               bool exclusive)
{
    switch (mon) {
        case 0: return Lanes<0>(dst, carry, src, rows, lanes, pitch, exclusive);
        case 1: return Lanes<1>(dst, carry, src, rows, lanes, pitch, exclusive);
        case 2: return Lanes<2>(dst, carry, src, rows, lanes, pitch, exclusive);
        default: return Lanes<3>(dst, carry, src, rows, lanes, pitch, exclusive);
    }
}

void ScanRows(float* dst, float* carry, const float* src, uint32_t rows, uint32_t pitch, int mon, bool exclusive)
{
    switch (mon) {
        case 0: return Rows<0>(dst, carry, src, rows, pitch, exclusive);
        case 1: return Rows<1>(dst, carry, src, rows, pitch, exclusive);
        case 2: return Rows<2>(dst, carry, src, rows, pitch, exclusive);
        default: return Rows<3>(dst, carry, src, rows, pitch, exclusive);
    }
}

}  // namespace rt
}  // namespace gaf_twin
