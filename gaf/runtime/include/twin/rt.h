// SPDX-License-Identifier: Apache-2.0
// Vector routines of the precompiled runtime library: what an instruction computes, on flat memory.
//
// Everything here is instantiated in gaf/runtime/native/; kernels only call it, so that a kernel compiles
// quickly without optimisation of loops. Routines allow dst to equal a source. n is a number of elements.
#ifndef GAF_TWIN_RT_H
#define GAF_TWIN_RT_H

#include "twin/check.h"
#include "twin/types.h"

#pragma GCC visibility push(default)
namespace gaf_twin {
namespace rt {

// dst, source 0, source 1 (null for unary routines; a single scalar for the scalar ones), n.
using Fn = void (*)(void* dst, const void* a, const void* b, uint32_t n);

enum class Op : uint8_t {
    // binary
    ADD,
    SUB,
    MUL,
    DIV,
    MAX,
    MIN,
    AND,
    OR,
    ADD_RELU,
    SUB_RELU,
    // binary that reads dst too
    FUSED_MUL_ADD,
    FUSED_MUL_ADD_RELU,
    // unary
    EXP,
    LN,
    ABS,
    SQRT,
    RSQRT,
    RECIPROCAL,
    RELU,
    NOT,
    // unary, mathematics API
    TANH,
    ERF,
    ERFC,
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    SINH,
    COSH,
    ASINH,
    ACOSH,
    ATANH,
    LOG2,
    LOG10,
    SIGMOID,
    SIGN,
    FRAC,
    SILU,
    GELU_TANH,
    FLOOR,
    CEIL,
    ROUND,
    TRUNC,
    RINT,
    // binary, mathematics API
    POWER,
    FMOD,
    // scalar as source 1
    ADDS,
    MULS,
    MAXS,
    MINS,
    LEAKY_RELU,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SHIFT_RIGHT_ROUND
};

template <Op OP, class T>
void Apply(void* dst, const void* a, const void* b, uint32_t n);

// dst += a * b and dst += a * scalar, D float with S half or D == S.
template <class D, class S>
void MulAddDst(void* dst, const void* a, const void* b, uint32_t n);
template <class D, class S>
void Axpy(void* dst, const void* a, const void* b, uint32_t n);

// Conversion S -> D of one mode; the pairs and modes of A2 only.
template <class D, class S>
void Convert(void* dst, const void* src, AscendC::RoundMode mode, uint32_t n);
void Int32ToHalfScaled(void* dst, const void* src, float scale, uint32_t n);

template <class T>
void Fill(void* dst, T value, uint32_t n);
template <class T>
void Iota(void* dst, T first, T step, uint32_t n);

// Bits of a CMP b, least significant bit first; n a multiple of 8. scalar: b is one element.
template <class T>
void CompareBits(uint8_t* dst, const void* a, const void* b, bool scalar, AscendC::CMPMODE mode, uint32_t n);
// dst[i] = bit i ? a[i] : b[i] (b one element when scalar).
template <class T>
void SelectBits(void* dst, const uint8_t* bits, const void* a, const void* b, bool scalar, uint32_t n);
// The fused forms of the device library: 1.0f / 0.0f results and float conditions.
void Compare01(float* dst, const float* a, const float* b, bool scalar, AscendC::CMPMODE mode, uint32_t n);
void Select01(float* dst, const float* cond, const float* a, const float* b, uint32_t n);

// Sum of n lanes as a tree over pairs (how one repeat is reduced); maximum and minimum ignore nothing and
// keep NaN.
template <class T>
T TreeSum(const T* src, uint32_t n);
template <class T>
T Extreme(const T* src, uint32_t n, bool max, uint32_t* index);

// dst[i] = upper 24 bits of the first word of Philox2x32-10 of the counter (index[i], salt[i]) under key.
void Random24(int32_t* dst, const int32_t* index, const int32_t* salt, uint32_t key, uint32_t n);

// State of ordered rows: pairs (float key, int32 place), `kept` a row; see gaf_sort.h. Joins elements first, first + 1,
// ... of every row; pitches in elements.
void RankRows(float* state, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, uint32_t kept,
              uint32_t statePitch, uint32_t first, bool largest);
void RankedValues(float* dst, const float* state, uint32_t rows, uint32_t kept, uint32_t pitch, uint32_t statePitch,
                  bool largest);
void RankedPlaces(int32_t* dst, const float* state, uint32_t rows, uint32_t kept, uint32_t pitch, uint32_t statePitch);

// Running folds, mon 0..3 = gaf::Mon, that continue from `carry` and update it; see gaf_scan.h.
void ScanLanes(float* dst, float* carry, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, int mon,
               bool exclusive);
void ScanRows(float* dst, float* carry, const float* src, uint32_t rows, uint32_t pitch, int mon, bool exclusive);

// Strided movement of bytes: `runs` runs.
void CopyRuns(void* dst, const void* src, uint64_t runBytes, uint32_t runs, int64_t dstStride,
              int64_t srcStride);

// Tiles of the device library, fast mode. kind 0..7 = gaf::Bop.
void TileCol(float* dst, const float* a, const float* col, uint32_t rows, uint32_t pitch, int bop);
void TileRow(float* dst, const float* a, const float* row, uint32_t rows, uint32_t pitch, int bop);
void TileColI(int32_t* dst, const int32_t* a, const int32_t* col, uint32_t rows, uint32_t pitch, int bop);
void TileRowI(int32_t* dst, const int32_t* a, const int32_t* row, uint32_t rows, uint32_t pitch, int bop);
// mon 0..3 = gaf::Mon.
void TileRowReduce(float* col, const float* src, uint32_t rows, uint32_t lanes, uint32_t pitch, int mon);
void TileColReduce(float* row, const float* src, uint32_t rows, uint32_t pitch, int mon);
// Rows of `bytes` bytes from GM into UB rows of `pitchBytes`, pad cleared.
void LoadRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, uint32_t pitchBytes,
              int64_t srcStride);
// The same; a load that walks through memory also fetches its next tile into the second-level cache. The
// caller is inlined into the kernel: loads are told apart by where they return to.
void FetchRows(void* dst, const void* src, uint32_t rows, uint32_t bytes, uint32_t pitchBytes,
               int64_t srcStride);

// Element types of a matrix product.
enum class Num : uint8_t { F32, F16, BF16 };
// c[m, n] = A * B, float accumulation; ta: a is [k, m]; tb: b is [n, k]; leading dimensions in elements. Rows
// of c are written to a multiple of 16 columns, with zeros beyond n.
void Gemm(void* c, Num ct, uint64_t ldc, const void* a, const void* b, Num ab, bool ta, uint64_t lda, bool tb,
          uint64_t ldb, uint32_t m, uint32_t n, uint32_t k);
// The same with row i of B at b + starts[i]. RowStarts: room for so many of them, until the thread asks again.
void GemmRows(void* c, Num ct, uint64_t ldc, const void* a, const void* b, Num ab, bool ta, uint64_t lda,
              const uint64_t* starts, uint32_t m, uint32_t n, uint32_t k);
uint64_t* RowStarts(uint32_t k);
// One Mmad on fractal layouts: l0c is Nz [n/16][mPad][16] float, a Zz [m/16][aFrac][16][c0], b Zn
// [k/c0][n/16][16][c0]. `hf32` rounds float operands first.
enum class Hf32 : uint8_t { OFF, TIES_TO_ZERO, TIES_TO_EVEN };
void MmadFloat(float* l0c, const void* a, const void* b, Num ab, uint32_t m, uint32_t n, uint32_t k,
               uint32_t aFrac, const float* bias, bool init, Hf32 hf32);
void MmadInt8(int32_t* l0c, const int8_t* a, const int8_t* b, uint32_t m, uint32_t n, uint32_t k,
              const int32_t* bias, bool init);

}  // namespace rt

// The lanes that one masked instruction works on.
struct Shape {
    uint64_t lo = 0, hi = 0;  // Normal mode: bit mask of the lanes of each repeat
    uint32_t repeat = 0;      // Normal mode: number of repeats
    uint32_t count = 0;       // Counter mode: number of elements
    bool counter = false;
};

// One operand of a masked instruction. Strides in 32-byte blocks; bytes = 0: absent; fixed: one scalar.
struct Lanes {
    void* base = nullptr;
    uint32_t bytes = 0;  // of one element
    uint32_t blk = 1, rep = 8;
    bool fixed = false;
};

// Runs fn over all active lanes in order of repeats; `lanes` = lanes of a full repeat.
void RunMasked(rt::Fn fn, const Lanes& dst, const Lanes& a, const Lanes& b, const Shape& shape,
               uint32_t lanes);

// Access check of one operand of a masked instruction (check builds).
bool TouchMasked(const char* api, const char* operand, bool write, const Lanes& operandLanes,
                 const Shape& shape, uint32_t lanes, check::View view);

// Reports a source that overlaps dst in part within a repeat, or that a later repeat reads after dst wrote
// it.
void CheckRepeatOverlap(const char* api, const char* operand, const Lanes& dst, const Lanes& src,
                        const Shape& shape, uint32_t lanes, bool secondSource);

}  // namespace gaf_twin
#pragma GCC visibility pop

#endif  // GAF_TWIN_RT_H
