// SPDX-License-Identifier: Apache-2.0
// Matrix products: a packed, blocked product for BlockMmad (fast mode) and Mmad on fractal layouts (check
// mode).
//
// One micro kernel in the compiler's vector extensions: MR rows of A by NR columns of B, all sums in
// registers. Built with -ffp-contract=fast, so that multiply and add fuse where the processor can; sums over
// k run in order within a block of KC and blocks are added in order, so that results do not depend on the
// number of threads.
#include "twin/rt.h"

#include <stdlib.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "halfs.h"
#include "packs.h"

namespace gaf_twin {
namespace rt {

namespace {

#if defined(__AVX512F__)
constexpr uint32_t VL = 16, MR = 6, NV = 4;
#elif defined(__AVX__)
constexpr uint32_t VL = 8, MR = 6, NV = 2;
#elif defined(__aarch64__)
constexpr uint32_t VL = 4, MR = 8, NV = 3;
#else
constexpr uint32_t VL = 4, MR = 4, NV = 2;
#endif
// A panel of B, NR columns of KC, stays in the first-level cache while the rows of A pass by.
constexpr uint32_t NR = VL * NV, KC = VL == 16 ? 128 : 256;

typedef float Vec __attribute__((vector_size(VL * sizeof(float))));
typedef float VecAny __attribute__((vector_size(VL * sizeof(float)), aligned(4), may_alias));

// All lanes equal x: one load that broadcasts, where adding x to a zero vector would take an arithmetic unit.
template <size_t... I>
inline Vec Splat(float x, std::index_sequence<I...>)
{
    return Vec{(static_cast<void>(I), x)...};
}

// Scratch of one thread, grown as needed and kept.
class Scratch {
public:
    float* Get(size_t floats)
    {
        if (floats > size_) {
            free(p_);
            size_ = floats;
            p_ = static_cast<float*>(aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64));
        }
        return p_;
    }
    ~Scratch() { free(p_); }

private:
    float* p_ = nullptr;
    size_t size_ = 0;
};
thread_local Scratch packedA, packedB, sums;

// A row of `n` elements as floats.
inline void ToFloats(float* d, const void* base, Num t, uint64_t offset, uint32_t n)
{
    if (t == Num::F32) {
        memcpy(d, static_cast<const float*>(base) + offset, n * sizeof(float));
    } else if (t == Num::F16) {
        HalfToFloats(d, static_cast<const half*>(base) + offset, n);
    } else {
        Bf16ToFloats(d, static_cast<const bfloat16_t*>(base) + offset, n);
    }
}

typedef float Vec4 __attribute__((vector_size(16), aligned(4), may_alias));

// 4 x 4 floats, rows of src become columns of dst.
inline void Transpose4(float* dst, uint32_t dstPitch, const float* src, uint32_t srcPitch)
{
    Vec4 a, b, c, d;
    memcpy(&a, src, 16);
    memcpy(&b, src + srcPitch, 16);
    memcpy(&c, src + 2 * srcPitch, 16);
    memcpy(&d, src + 3 * srcPitch, 16);
    const Vec4 ab0 = {a[0], b[0], a[1], b[1]}, ab1 = {a[2], b[2], a[3], b[3]};
    const Vec4 cd0 = {c[0], d[0], c[1], d[1]}, cd1 = {c[2], d[2], c[3], d[3]};
    a = Vec4{ab0[0], ab0[1], cd0[0], cd0[1]};
    b = Vec4{ab0[2], ab0[3], cd0[2], cd0[3]};
    c = Vec4{ab1[0], ab1[1], cd1[0], cd1[1]};
    d = Vec4{ab1[2], ab1[3], cd1[2], cd1[3]};
    memcpy(dst, &a, 16);
    memcpy(dst + dstPitch, &b, 16);
    memcpy(dst + 2 * dstPitch, &c, 16);
    memcpy(dst + 3 * dstPitch, &d, 16);
}

// Packs the [rows, k] operand (rows = m or n) as panels of R rows, each panel [k][R], missing rows zero.
// contiguous along k (byRow): element (r, p) at r * ld + p; else at p * ld + r.
template <uint32_t R>
void Pack(float* out, const void* base, Num t, uint64_t origin, bool byRow, uint64_t ld, uint32_t rows,
          uint32_t k)
{
    for (uint32_t r0 = 0; r0 < rows; r0 += R) {
        const uint32_t n = rows - r0 < R ? rows - r0 : R;
        if (byRow) {
            constexpr uint32_t STEP = 64;
            float line[R][STEP];
            for (uint32_t p0 = 0; p0 < k; p0 += STEP) {
                const uint32_t kn = k - p0 < STEP ? k - p0 : STEP;
                for (uint32_t r = 0; r < R; ++r) {
                    if (r < n) {
                        ToFloats(line[r], base, t, origin + (r0 + r) * ld + p0, kn);
                    } else {
                        memset(line[r], 0, sizeof(line[r]));
                    }
                }
                uint32_t p = 0;
                if (R % 4 == 0) {
                    for (; p + 4 <= kn; p += 4) {
                        for (uint32_t r = 0; r < R; r += 4) {
                            Transpose4(out + (p0 + p) * R + r, R, &line[r][p], STEP);
                        }
                    }
                }
                for (; p < kn; ++p) {
                    for (uint32_t r = 0; r < R; ++r) {
                        out[(p0 + p) * R + r] = line[r][p];
                    }
                }
            }
        } else {
            for (uint32_t p = 0; p < k; ++p) {
                float* o = out + p * R;
                ToFloats(o, base, t, origin + p * ld + r0, n);
                for (uint32_t r = n; r < R; ++r) {
                    o[r] = 0.0f;
                }
            }
        }
        out += static_cast<size_t>(R) * k;
    }
}

// c[ROWS][COLS * VL] (+)= A * a panel of B. A is either packed, [k][MR], or read in place: row i at a + i * lda.
template <uint32_t ROWS, uint32_t COLS, bool PACKED>
__attribute__((noinline)) void Kernel(float* c, uint64_t ldc, const float* a, uint64_t lda, const float* b,
                                      uint32_t k, bool add)
{
    Vec acc[ROWS][COLS];
    for (uint32_t i = 0; i < ROWS; ++i) {
        for (uint32_t j = 0; j < COLS; ++j) {
            acc[i][j] = Vec{};
        }
    }
    for (uint32_t p = 0; p < k; ++p, b += COLS * VL) {
        Vec bv[COLS];
        for (uint32_t j = 0; j < COLS; ++j) {
            bv[j] = *reinterpret_cast<const Vec*>(b + j * VL);
        }
        for (uint32_t i = 0; i < ROWS; ++i) {
            const Vec av = Splat(PACKED ? a[p * MR + i] : a[i * lda + p], std::make_index_sequence<VL>());
            for (uint32_t j = 0; j < COLS; ++j) {
                acc[i][j] += av * bv[j];
            }
        }
    }
    for (uint32_t i = 0; i < ROWS; ++i) {
        for (uint32_t j = 0; j < COLS; ++j) {
            VecAny* to = reinterpret_cast<VecAny*>(c + i * ldc + j * VL);
            *to = add ? *to + acc[i][j] : acc[i][j];
        }
    }
}

using KernelFn = void (*)(float*, uint64_t, const float*, uint64_t, const float*, uint32_t, bool);

// The kernel of a number of rows, 1..MR, and of vectors of columns, 1..NV.
template <bool PACKED, size_t... I>
KernelFn KernelOf(uint32_t rows, uint32_t cols, std::index_sequence<I...>)
{
    static constexpr KernelFn table[] = {&Kernel<I / NV + 1, I % NV + 1, PACKED>...};
    return table[(rows - 1) * NV + cols - 1];
}

// Fetches bytes into the second-level cache while the kernel multiplies others.
inline void Ahead(const uint8_t* p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(p + i, 0, 2);
    }
}

// B as panels of NR columns (the last one narrower, whole vectors), each [k][columns]: where panel j starts.
inline size_t PanelAt(uint32_t j, uint32_t k) { return static_cast<size_t>(j) * k; }

// B by rows of columns: row p begins at element start(p).
template <class START>
void PackRows(float* out, const void* b, Num ab, START start, uint32_t n, uint32_t k)
{
    constexpr uint32_t AHEAD = 8;  // rows lie too far apart for the processor to guess the next
    const uint32_t whole = n / NR * NR, rest = n - whole, width = (rest + VL - 1) / VL * VL;
    const uint32_t element = ab == Num::F32 ? 4 : 2;
    for (uint32_t p = 0; p < k; ++p) {
        const uint64_t from = start(p);
        if (p + AHEAD < k) {
            const uint8_t* next = static_cast<const uint8_t*>(b) + start(p + AHEAD) * element;
            for (uint32_t i = 0; i < n * element; i += 64) {
                __builtin_prefetch(next + i, 0, 3);
            }
        }
        for (uint32_t j = 0; j < whole; j += NR) {
            float* panel = out + PanelAt(j, k) + static_cast<size_t>(p) * NR;
            if (ab == Num::F32) {
                const float* row = static_cast<const float*>(b) + from + j;
                for (uint32_t v = 0; v < NV; ++v) {
                    *reinterpret_cast<Vec*>(panel + v * VL) = *reinterpret_cast<const VecAny*>(row + v * VL);
                }
            } else {
                ToFloats(panel, b, ab, from + j, NR);
            }
        }
        if (rest != 0) {
            float* panel = out + PanelAt(whole, k) + static_cast<size_t>(p) * width;
            ToFloats(panel, b, ab, from + whole, rest);
            for (uint32_t i = rest; i < width; ++i) {
                panel[i] = 0.0f;
            }
        }
    }
}

// B by columns, [n, k].
void PackColumns(float* out, const void* b, Num ab, uint64_t ldb, uint32_t n, uint32_t k)
{
    const uint32_t whole = n / NR * NR;
    Pack<NR>(out, b, ab, 0, true, ldb, whole, k);
    uint32_t j = whole;
    const auto rest = [&](auto width) {
        constexpr uint32_t W = decltype(width)::value;
        if ((n - j + VL - 1) / VL * VL == W && j < n) {
            Pack<W>(out + PanelAt(j, k), b, ab, j * ldb, true, ldb, n - j, k);
            j = n;
        }
    };
    rest(std::integral_constant<uint32_t, VL>());
    rest(std::integral_constant<uint32_t, 2 * VL>());
    rest(std::integral_constant<uint32_t, 3 * VL>());
    rest(std::integral_constant<uint32_t, NR>());
}

void PackB(float* out, const void* b, Num ab, bool tb, uint64_t ldb, uint32_t n, uint32_t k)
{
    if (tb) {
        PackColumns(out, b, ab, ldb, n, k);
    } else {
        PackRows(out, b, ab, [=](uint32_t p) { return p * ldb; }, n, k);
    }
}

// The product with a packed B; see rt::Gemm.
void Multiply(void* c, Num ct, uint64_t ldc, const void* a, Num ab, bool ta, uint64_t lda, const float* pb,
              uint32_t m, uint32_t n, uint32_t k)
{
    const uint32_t nPad = (n + VL - 1) / VL * VL;
    const bool packed = ab != Num::F32 || ta;
    const bool direct = ct == Num::F32;
    const uint32_t n16 = (n + 15) / 16 * 16;
    const bool inPlace = direct && nPad <= n16 && ldc >= n16;  // no row's padding lies in the next row
    const uint64_t lds = inPlace ? ldc : nPad;
    float* s = inPlace ? static_cast<float*>(c) : sums.Get(static_cast<size_t>(m) * nPad);
    const uint32_t mPad = (m + MR - 1) / MR * MR;
    float* pa = packed ? packedA.Get(static_cast<size_t>(mPad) * (k < KC ? k : KC)) : nullptr;
    constexpr std::make_index_sequence<MR * NV> all;
    for (uint32_t p0 = 0; p0 < k; p0 += KC) {
        const uint32_t kn = k - p0 < KC ? k - p0 : KC;
        if (packed) {
            Pack<MR>(pa, a, ab, ta ? p0 * lda : p0, !ta, lda, m, kn);
        }
        for (uint32_t j = 0; j < nPad; j += NR) {
            const uint32_t cols = (nPad - j < NR ? nPad - j : NR) / VL;
            const float* panel = pb + PanelAt(j, k) + static_cast<size_t>(p0) * cols * VL;
            const float* next = j + NR < nPad ? pb + PanelAt(j + NR, k) + static_cast<size_t>(p0) * NR
                                              : pb + static_cast<size_t>(p0 + kn) * NR;
            const uint32_t share = static_cast<uint32_t>(sizeof(float)) * kn * NR / (mPad / MR);
            for (uint32_t i = 0; i < m; i += MR) {
                const uint32_t rows = m - i < MR ? m - i : MR;
                Ahead(reinterpret_cast<const uint8_t*>(next) + static_cast<size_t>(i / MR) * share, share);
                if (!packed && j == 0 && i + MR < m) {
                    for (uint32_t r = i + MR; r < i + 2 * MR && r < m; ++r) {
                        Ahead(reinterpret_cast<const uint8_t*>(static_cast<const float*>(a) + r * lda + p0),
                              kn * sizeof(float));
                    }
                }
                float* to = s + i * lds + j;
                if (packed) {
                    KernelOf<true>(rows, cols, all)(to, lds, pa + static_cast<size_t>(i) * kn, 0, panel, kn,
                                                    p0 != 0);
                } else {
                    const float* from = static_cast<const float*>(a) + i * lda + p0;
                    KernelOf<false>(rows, cols, all)(to, lds, from, lda, panel, kn, p0 != 0);
                }
            }
        }
    }
    // Fixpipe writes whole fractals: zeros beyond n.
    for (uint32_t i = 0; i < m && (!inPlace || n != n16); ++i) {
        const float* row = s + i * lds;
        if (direct) {
            float* d = static_cast<float*>(c) + i * ldc;
            if (!inPlace) {
                memcpy(d, row, n * sizeof(float));
            }
            memset(d + n, 0, (n16 - n) * sizeof(float));
        } else {
            uint16_t* d = static_cast<uint16_t*>(c) + i * ldc;
            if (ct == Num::F16) {
                FloatsToHalf(reinterpret_cast<half*>(d), row, n);
            } else {
                FloatsToBf16(reinterpret_cast<bfloat16_t*>(d), row, n);
            }
            memset(d + n, 0, (n16 - n) * sizeof(uint16_t));
        }
    }
}

}  // namespace

void Gemm(void* c, Num ct, uint64_t ldc, const void* a, const void* b, Num ab, bool ta, uint64_t lda, bool tb,
          uint64_t ldb, uint32_t m, uint32_t n, uint32_t k)
{
    const size_t floats = static_cast<size_t>((n + VL - 1) / VL * VL) * k;
    const PackKey key{b, ldb, k, n, ab, tb};
    const float* pb = SharedPack(key, floats, [&](float* out) { PackB(out, b, ab, tb, ldb, n, k); });
    if (pb == nullptr) {
        float* own = packedB.Get(floats);
        PackB(own, b, ab, tb, ldb, n, k);
        pb = own;
    }
    Multiply(c, ct, ldc, a, ab, ta, lda, pb, m, n, k);
}

uint64_t* RowStarts(uint32_t k)
{
    thread_local std::vector<uint64_t> starts;
    if (starts.size() < k) {
        starts.resize(k);
    }
    return starts.data();
}

void GemmRows(void* c, Num ct, uint64_t ldc, const void* a, const void* b, Num ab, bool ta, uint64_t lda,
              const uint64_t* starts, uint32_t m, uint32_t n, uint32_t k)
{
    float* pb = packedB.Get(static_cast<size_t>((n + VL - 1) / VL * VL) * k);
    PackRows(pb, b, ab, [=](uint32_t p) { return starts[p]; }, n, k);
    Multiply(c, ct, ldc, a, ab, ta, lda, pb, m, n, k);
}

namespace {

// To 11 bits of mantissa (the last 12 of 23 become 0), to nearest. A carry runs into the exponent, as it should;
// infinities and NaNs stay.
void RoundHf32(float* values, size_t count, Hf32 mode)
{
    for (size_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof(bits));
        if ((bits & 0x7F800000u) == 0x7F800000u) {
            continue;
        }
        const uint32_t odd = mode == Hf32::TIES_TO_EVEN ? bits >> 12 & 1u : 0u;
        bits = (bits + 0x7FFu + odd) & ~0xFFFu;
        memcpy(values + i, &bits, sizeof(bits));
    }
}

}  // namespace

void MmadFloat(float* l0c, const void* a, const void* b, Num ab, uint32_t m, uint32_t n, uint32_t k,
               uint32_t aFrac, const float* bias, bool init, Hf32 hf32)
{
    typedef float V16 __attribute__((vector_size(64), aligned(4), may_alias));
    const uint32_t c0 = ab == Num::F32 ? 8 : 16, nBlocks = (n + 15) / 16, mPad = (m + 15) / 16 * 16;
    // A as [m][k] and B as [n block][k][16], in float.
    float* fa = packedA.Get(static_cast<size_t>(m) * k);
    float* fb = packedB.Get(static_cast<size_t>(nBlocks) * k * 16);
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t p = 0; p < k; p += c0) {
            const uint64_t at = ((static_cast<uint64_t>(i / 16) * aFrac + p / c0) * 16 + i % 16) * c0;
            ToFloats(fa + static_cast<size_t>(i) * k + p, a, ab, at, k - p < c0 ? k - p : c0);
        }
    }
    for (uint32_t j = 0; j < nBlocks; ++j) {
        const uint32_t cols = n - j * 16 < 16 ? n - j * 16 : 16;
        for (uint32_t p = 0; p < k; p += c0) {
            const uint32_t kn = k - p < c0 ? k - p : c0;
            for (uint32_t q = 0; q < 16; ++q) {
                float line[16];
                if (q < cols) {
                    ToFloats(line, b, ab, ((static_cast<uint64_t>(p / c0) * nBlocks + j) * 16 + q) * c0, kn);
                }
                for (uint32_t e = 0; e < kn; ++e) {
                    fb[(static_cast<size_t>(j) * k + p + e) * 16 + q] = q < cols ? line[e] : 0.0f;
                }
            }
        }
    }
    if (hf32 != Hf32::OFF && ab == Num::F32) {
        RoundHf32(fa, static_cast<size_t>(m) * k, hf32);
        RoundHf32(fb, static_cast<size_t>(nBlocks) * k * 16, hf32);
    }
    for (uint32_t j = 0; j < nBlocks; ++j) {
        const uint32_t cols = n - j * 16 < 16 ? n - j * 16 : 16;
        const float* bp = fb + static_cast<size_t>(j) * k * 16;
        for (uint32_t i0 = 0; i0 < m; i0 += 4) {
            const uint32_t rows = m - i0 < 4 ? m - i0 : 4;
            V16 acc[4];
            for (uint32_t i = 0; i < rows; ++i) {
                float line[16] = {};
                if (bias != nullptr) {
                    memcpy(line, bias + j * 16, cols * sizeof(float));
                } else if (!init) {
                    memcpy(line, l0c + (static_cast<size_t>(j) * mPad + i0 + i) * 16, cols * sizeof(float));
                }
                memcpy(&acc[i], line, sizeof(line));
            }
            for (uint32_t p = 0; p < k; ++p) {
                const V16 bv = *reinterpret_cast<const V16*>(bp + static_cast<size_t>(p) * 16);
                for (uint32_t i = 0; i < rows; ++i) {
                    acc[i] += (V16{} + fa[static_cast<size_t>(i0 + i) * k + p]) * bv;
                }
            }
            for (uint32_t i = 0; i < rows; ++i) {
                memcpy(l0c + (static_cast<size_t>(j) * mPad + i0 + i) * 16, &acc[i], cols * sizeof(float));
            }
        }
    }
}

void MmadInt8(int32_t* l0c, const int8_t* a, const int8_t* b, uint32_t m, uint32_t n, uint32_t k,
              const int32_t* bias, bool init)
{
    const uint32_t c0 = 32, kFrac = (k + 31) / 32, nBlocks = (n + 15) / 16, mPad = (m + 15) / 16 * 16;
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
            int32_t& c = l0c[(static_cast<size_t>(j / 16) * mPad + i) * 16 + j % 16];
            uint32_t sum = static_cast<uint32_t>(bias != nullptr ? bias[j] : init ? 0 : c);
            for (uint32_t p = 0; p < k; ++p) {
                const int32_t x =
                    a[((static_cast<size_t>(i / 16) * kFrac + p / c0) * 16 + i % 16) * c0 + p % c0];
                const int32_t y =
                    b[((static_cast<size_t>(p / c0) * nBlocks + j / 16) * 16 + j % 16) * c0 + p % c0];
                sum += static_cast<uint32_t>(x * y);
            }
            c = static_cast<int32_t>(sum);
        }
    }
}

}  // namespace rt
}  // namespace gaf_twin
