// SPDX-License-Identifier: Apache-2.0
// Direct bodies of the device library's tile functions (fast mode).
#include "twin/rt.h"

#include "vmath.h"

namespace gaf_twin {
namespace rt {

namespace {

// Operations by number: 0..7 are gaf::Bop ADD SUB RSUB MUL DIV RDIV MAX MIN.
template <int B, class T>
inline T Bin(T a, T b)
{
    if constexpr (B == 0) return a + b;
    if constexpr (B == 1) return a - b;
    if constexpr (B == 2) return b - a;
    if constexpr (B == 3) return a * b;
    if constexpr (B == 4) return a / b;
    if constexpr (B == 5) return b / a;
    if constexpr (B == 6) return a > b || a != a ? a : b;
    return a < b || a != a ? a : b;
}

template <int B, class T>
void Col(T* dst, const T* a, const T* col, uint32_t rows, uint32_t pitch)
{
    for (uint32_t r = 0; r < rows; ++r) {
        const T v = col[r];
        T* d = dst + static_cast<uint64_t>(r) * pitch;
        const T* s = a + static_cast<uint64_t>(r) * pitch;
        for (uint32_t c = 0; c < pitch; ++c) {
            d[c] = Bin<B>(s[c], v);
        }
    }
}
// a / col by the reciprocal of col and one correction, which gives the rounded quotient; what is not finite
// has no correction. `v` and its reciprocal must be far from the ends of the exponents.
void ColQuotient(float* d, const float* s, float v, uint32_t n)
{
    const float inverse = 1.0f / v;
    for (uint32_t c = 0; c < n; ++c) {
        const float q = s[c] * inverse;
        const float left = vmath::Madd(-v, q, s[c]);
        const float better = vmath::Madd(left, inverse, q);
        d[c] = vmath::Abs(left) < HUGE_VALF && vmath::Abs(q) > 1e-30f ? better : q;
    }
}
void ColQuotients(float* dst, const float* a, const float* col, uint32_t rows, uint32_t pitch)
{
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t at = static_cast<uint64_t>(r) * pitch;
        const float v = vmath::Abs(col[r]);
        if (GAF_HAVE_FMA && v > 1e-30f && v < 1e30f) {
            ColQuotient(dst + at, a + at, col[r], pitch);
        } else {
            Col<4, float>(dst + at, a + at, col + r, 1, pitch);
        }
    }
}
template <int B, class T>
void Row(T* dst, const T* a, const T* row, uint32_t rows, uint32_t pitch)
{
    for (uint32_t r = 0; r < rows; ++r) {
        T* d = dst + static_cast<uint64_t>(r) * pitch;
        const T* s = a + static_cast<uint64_t>(r) * pitch;
        for (uint32_t c = 0; c < pitch; ++c) {
            d[c] = Bin<B>(s[c], row[c]);
        }
    }
}

// Monoids by number: 0..3 are gaf::Mon SUM MAX MIN PROD.
template <int M>
constexpr int FoldOf()
{
    return M == 0 ? 0 : M == 1 ? 6 : M == 2 ? 7 : 3;
}
template <int M>
constexpr float Neutral()
{
    return M == 0 ? 0.0f : M == 1 ? -HUGE_VALF : M == 2 ? HUGE_VALF : 1.0f;
}

typedef float Vec16 __attribute__((vector_size(64)));

inline Vec16 Load16(const float* p)
{
    Vec16 v;
    memcpy(&v, p, sizeof(v));
    return v;
}
template <int M>
inline Vec16 Fold16(Vec16 a, Vec16 b)
{
    if constexpr (M == 0) return a + b;
    if constexpr (M == 1) return (a > b) | (a != a) ? a : b;
    if constexpr (M == 2) return (a < b) | (a != a) ? a : b;
    return a * b;
}

// 64 partial results, folded as a tree: the order of the instructions on the device, up to the tree's shape.
template <int M>
void RowFold(float* col, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch)
{
    for (uint32_t r = 0; r < rows; ++r) {
        const float* s = src + static_cast<uint64_t>(r) * pitch;
        Vec16 acc[4];
        uint32_t c = 0;
        if (lanes >= 64) {
            for (uint32_t k = 0; k < 4; ++k) {
                acc[k] = Load16(s + 16 * k);
            }
            for (c = 64; c + 64 <= lanes; c += 64) {
                for (uint32_t k = 0; k < 4; ++k) {
                    acc[k] = Fold16<M>(Load16(s + c + 16 * k), acc[k]);
                }
            }
        } else {
            for (uint32_t k = 0; k < 4; ++k) {
                acc[k] = Vec16{} + Neutral<M>();
            }
        }
        if (c < lanes) {
            float tail[64];
            for (uint32_t k = 0; k < 64; ++k) {
                tail[k] = Neutral<M>();
            }
            memcpy(tail, s + c, (lanes - c) * sizeof(float));
            for (uint32_t k = 0; k < 4; ++k) {
                acc[k] = Fold16<M>(Load16(tail + 16 * k), acc[k]);
            }
        }
        const Vec16 v = Fold16<M>(Fold16<M>(acc[0], acc[2]), Fold16<M>(acc[1], acc[3]));
        float part[16];
        memcpy(part, &v, sizeof(part));
        for (uint32_t half = 8; half > 0; half /= 2) {
            for (uint32_t k = 0; k < half; ++k) {
                part[k] = Bin<FoldOf<M>()>(part[k], part[k + half]);
            }
        }
        col[r] = part[0];
    }
    for (uint32_t r = rows; r % 8 != 0; ++r) {
        col[r] = 0.0f;
    }
}
template <int M>
void ColFold(float* row, const float* src, uint32_t rows, uint32_t pitch)
{
    memmove(row, src, pitch * sizeof(float));
    for (uint32_t r = 1; r < rows; ++r) {
        Row<FoldOf<M>(), float>(row, row, src + static_cast<uint64_t>(r) * pitch, 1, pitch);
    }
}

}  // namespace

#define DISPATCH(FN, T)                                  \
    switch (bop) {                                       \
        case 0: return FN<0, T>(dst, a, b, rows, pitch); \
        case 1: return FN<1, T>(dst, a, b, rows, pitch); \
        case 2: return FN<2, T>(dst, a, b, rows, pitch); \
        case 3: return FN<3, T>(dst, a, b, rows, pitch); \
        case 6: return FN<6, T>(dst, a, b, rows, pitch); \
        case 7: return FN<7, T>(dst, a, b, rows, pitch); \
        default: break;                                  \
    }
void TileCol(float* dst, const float* a, const float* b, uint32_t rows, uint32_t pitch, int bop)
{
    DISPATCH(Col, float)
    return bop == 4 ? ColQuotients(dst, a, b, rows, pitch) : Col<5, float>(dst, a, b, rows, pitch);
}
void TileRow(float* dst, const float* a, const float* b, uint32_t rows, uint32_t pitch, int bop)
{
    DISPATCH(Row, float)
    return bop == 4 ? Row<4, float>(dst, a, b, rows, pitch) : Row<5, float>(dst, a, b, rows, pitch);
}
void TileColI(int32_t* dst, const int32_t* a, const int32_t* b, uint32_t rows, uint32_t pitch, int bop)
{
    DISPATCH(Col, int32_t)
}
void TileRowI(int32_t* dst, const int32_t* a, const int32_t* b, uint32_t rows, uint32_t pitch, int bop)
{
    DISPATCH(Row, int32_t)
}
#undef DISPATCH

void TileRowReduce(float* col, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, int mon)
{
    switch (mon) {
        case 0: return RowFold<0>(col, src, rows, lanes, pitch);
        case 1: return RowFold<1>(col, src, rows, lanes, pitch);
        case 2: return RowFold<2>(col, src, rows, lanes, pitch);
        default: return RowFold<3>(col, src, rows, lanes, pitch);
    }
}
void TileColReduce(float* row, const float* src, uint32_t rows, uint32_t pitch, int mon)
{
    switch (mon) {
        case 0: return ColFold<0>(row, src, rows, pitch);
        case 1: return ColFold<1>(row, src, rows, pitch);
        case 2: return ColFold<2>(row, src, rows, pitch);
        default: return ColFold<3>(row, src, rows, pitch);
    }
}

void LoadRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, uint32_t pitchBytes,
              int64_t srcStride)
{
    uint8_t* d = static_cast<uint8_t*>(dst);
    const uint8_t* s = static_cast<const uint8_t*>(src);
    if (bytes == pitchBytes && srcStride == static_cast<int64_t>(bytes)) {
        memcpy(d, s, static_cast<uint64_t>(rows) * bytes);
        return;
    }
    for (uint32_t r = 0; r < rows; ++r, d += pitchBytes, s += srcStride) {
        memcpy(d, s, bytes);
        memset(d + bytes, 0, pitchBytes - bytes);
    }
}

}  // namespace rt
}  // namespace gaf_twin
