// SPDX-License-Identifier: Apache-2.0
// Tile functions of the vector core: a tile is rows x lanes in UB with row pitch PitchOf<T>(lanes), all
// initialised.
//
// Contract of every function: it places the PipeBarriers between its own dependent instructions; the caller
// places the barriers (or flags) before it and after it. Columns ([rows]) and rows ([lanes]) are float tiles
// with one row. Pad lanes are written, but with any value; no result depends on them. dst may be the first
// tile operand where a function says "in place". Limits that the functions respect by splitting: 255 repeats,
// 8-bit strides, 4095 bursts, Compare on multiples of 256 bytes. Functions that use Select need the top 8 KiB
// of UB free (see NEEDS_RESERVED_UB).
#ifndef GAF_VECTOR_H
#define GAF_VECTOR_H

#include "gaf_compat.h"

namespace gaf {

// Elementwise operation of a tile `a` and a column or row `b`: RSUB is b - a, RDIV is b / a.
enum class Bop { ADD, SUB, RSUB, MUL, DIV, RDIV, MAX, MIN };

// Monoid of a reduction.
enum class Mon { SUM, MAX, MIN, PROD };

// Partial results that RowReduce keeps for every row of long rows.
constexpr uint32_t FOLD_PARTS = 4;

// Floats of `tmp` of RowReduce.
__aicore__ constexpr uint32_t RowReduceTmp(uint32_t rows, uint32_t lanes)
{
    return rows * 64 * Min(Max(lanes / 64, 1), FOLD_PARTS);
}

// Bytes of UB that Select borrows at the top (184 KiB .. 192 KiB): Compare01, Compare01S, Select01.
constexpr uint32_t NEEDS_RESERVED_UB = 8 * 1024;

// Bytes of `tmp` of Compare01, Compare01S and Select01 for `count` elements: a bit per element and room for
// the tail.
__aicore__ constexpr uint32_t Compare01Bytes(uint32_t count)
{
    return RoundUp(RoundUp(count, 256) / 8, BLOCK_BYTES) + 2 * 1024;
}
__aicore__ constexpr uint32_t Select01Bytes(uint32_t count) { return Compare01Bytes(count); }

// Bytes of `tmp` of the functions below that wrap the high-level mathematics API. The toolkit needs 256 bytes
// times the number of temporaries of the function; more lets it work on more elements at a time, up to 2048.
__aicore__ constexpr uint32_t MathBytes(uint32_t count, uint32_t temporaries)
{
    return temporaries * RoundUp(Min(Max(count, 1), 2048), 64) * 4;
}
__aicore__ constexpr uint32_t Tanh1Bytes(uint32_t count) { return MathBytes(count, 1); }
__aicore__ constexpr uint32_t Erf1Bytes(uint32_t count) { return MathBytes(count, 3); }
__aicore__ constexpr uint32_t Sin1Bytes(uint32_t count) { return MathBytes(count, 3); }
__aicore__ constexpr uint32_t Cos1Bytes(uint32_t count) { return MathBytes(count, 3); }
__aicore__ constexpr uint32_t Tan1Bytes(uint32_t count) { return MathBytes(count, 4); }
__aicore__ constexpr uint32_t Atan1Bytes(uint32_t count) { return MathBytes(count, 5); }
__aicore__ constexpr uint32_t Pow1Bytes(uint32_t count) { return MathBytes(count, 5); }
__aicore__ constexpr uint32_t Log1Bytes(uint32_t) { return 0; }
// Rsqrt1 and Recip1 take a float tile of `count` as tmp.

// Row of the table that an id names: negative ids count from the end; ids outside are reported in check mode
// and read the nearest row.
template <class I>
__aicore__ inline int64_t WrapRow(I id, int64_t tableRows)
{
    int64_t row = static_cast<int64_t>(id);
    row = row < 0 ? row + tableRows : row;
    GAF_REPORT(row >= 0 && row < tableRows, "gather-index", "GatherTile",
               "index %lld is outside a table of %lld rows", static_cast<long long>(id),
               static_cast<long long>(tableRows));
    row = row < 0 ? 0 : row;
    return row < tableRows ? row : tableRows - 1;
}

}  // namespace gaf

#if defined(GAF_TWIN) && GAF_TWIN == 1
#include "twin/fast_vector.h"  // the same functions with direct bodies for the CPU
#else

namespace gaf {

using AscendC::BinaryRepeatParams;
using AscendC::BrcbRepeatParams;
using AscendC::CopyRepeatParams;
using AscendC::DataCopyExtParams;
using AscendC::DataCopyPadExtParams;
using AscendC::PipeBarrier;
using AscendC::UnaryRepeatParams;

// ---- GM <-> UB --------------------------------------------------------------------------------------------

// dst[r, c] = src[r * gmRowStride + c] on MTE2; pad lanes become 0. gmRowStride in elements; 0 reads one row
// again.
template <class T>
__aicore__ inline void LoadTile(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows,
                                uint32_t lanes, uint64_t gmRowStride)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    const DataCopyPadExtParams<T> pad{true, 0, static_cast<uint8_t>(pitch - lanes), static_cast<T>(0)};
    const uint32_t bytes = lanes * sizeof(T);
    if (rows > 1 && gmRowStride == lanes && pitch == lanes &&
        static_cast<uint64_t>(rows) * bytes < (1u << 21)) {
        DataCopyPad(dst, src, DataCopyExtParams{1, rows * bytes, 0, 0, 0}, pad);
        return;
    }
    const uint64_t gap = (gmRowStride - lanes) * sizeof(T);
    const bool strided = gmRowStride >= lanes && gap <= 0xffffffffull;
    const uint32_t step = strided ? MAX_BURSTS : 1;
    for (uint32_t r = 0; r < rows; r += step) {
        const uint32_t n = Min(rows - r, step);
        const uint32_t gmGap = n > 1 ? static_cast<uint32_t>(gap) : 0;
        DataCopyPad(dst[r * pitch], src[r * gmRowStride],
                    DataCopyExtParams{static_cast<uint16_t>(n), bytes, gmGap, 0, 0}, pad);
    }
}

// `count` elements (whole blocks) become `value`, whatever their type. 64-bit values: 0 only.
template <class T>
__aicore__ inline void FillTile(const LocalTensor<T>& dst, T value, uint32_t count)
{
    if constexpr (sizeof(T) == 1) {
        const uint16_t byte = static_cast<uint8_t>(value);
        Duplicate(dst.template ReinterpretCast<int16_t>(), static_cast<int16_t>(byte | (byte << 8)),
                  static_cast<int32_t>(count / 2));
    } else if constexpr (sizeof(T) == 8) {
        Duplicate(dst.template ReinterpretCast<int32_t>(), static_cast<int32_t>(value),
                  static_cast<int32_t>(count * 2));
    } else {
        Duplicate(dst, value, static_cast<int32_t>(count));
    }
}

// A tile of which only a box comes from memory: dst[r, c] = src[(r - row0) * gmRowStride + c - col0] inside
// row0 <= r < row0 + nrows, col0 <= c < col0 + ncols, and `fill` elsewhere, pad lanes included. src is the
// box's first element; an empty box reads nothing. The fill runs on V, the copy on MTE2 after it: dst is ready
// for V when MTE2 is done.
template <class T>
__aicore__ inline void LoadTileBox(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows,
                                   uint32_t lanes, uint32_t row0, uint32_t col0, uint32_t nrows,
                                   uint32_t ncols, uint64_t gmRowStride, T fill)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    if (nrows >= rows && ncols >= lanes) {
        LoadTile(dst, src, rows, lanes, gmRowStride);
        return;
    }
    PipeBarrier<PIPE_V>();  // readers of the buffer's previous tile
    FillTile(dst, fill, rows * pitch);
    SyncPipes<AscendC::HardEvent::V_MTE2>();
    if (nrows == 0 || ncols == 0) {
        return;
    }
    const uint32_t left = col0 % BLOCK<T>, width = RoundUp(left + ncols, BLOCK<T>);
    const DataCopyPadExtParams<T> pad{true, static_cast<uint8_t>(left),
                                      static_cast<uint8_t>(width - left - ncols), fill};
    const uint32_t at = row0 * pitch + (col0 - left), ubGap = (pitch - width) / BLOCK<T>;
    const uint64_t gap = (gmRowStride - ncols) * sizeof(T);
    const uint32_t step = gmRowStride >= ncols && gap <= 0xffffffffull ? MAX_BURSTS : 1;
    for (uint32_t r = 0; r < nrows; r += step) {
        const uint32_t n = Min(nrows - r, step);
        DataCopyPad(dst[at + r * pitch], src[r * gmRowStride],
                    DataCopyExtParams{static_cast<uint16_t>(n), static_cast<uint32_t>(ncols * sizeof(T)),
                                      n > 1 ? static_cast<uint32_t>(gap) : 0, ubGap, 0},
                    pad);
    }
}

// dst[r * gmRowStride + c] = src[r, c] on MTE3 for the real lanes; gmRowStride (elements) >= lanes when rows
// > 1.
template <class T>
__aicore__ inline void StoreTile(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows,
                                 uint32_t lanes, uint64_t gmRowStride)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    const uint32_t bytes = lanes * sizeof(T);
    if (rows > 1 && gmRowStride == lanes && pitch == lanes &&
        static_cast<uint64_t>(rows) * bytes < (1u << 21)) {
        DataCopyPad(dst, src, DataCopyExtParams{1, rows * bytes, 0, 0, 0});
        return;
    }
    const uint64_t gap = (gmRowStride - lanes) * sizeof(T);
    const bool strided = gmRowStride >= lanes && gap <= 0xffffffffull;
    const uint32_t step = strided ? MAX_BURSTS : 1;
    for (uint32_t r = 0; r < rows; r += step) {
        const uint32_t n = Min(rows - r, step);
        const uint32_t gmGap = n > 1 ? static_cast<uint32_t>(gap) : 0;
        DataCopyPad(dst[r * gmRowStride], src[r * pitch],
                    DataCopyExtParams{static_cast<uint16_t>(n), bytes, 0, gmGap, 0});
    }
}

// dst[r, c] = table[row(ids[r * idStride]) * tableRowStride + c] on MTE2 (indices read by the scalar unit);
// row() wraps negative ids. Pad lanes become 0.
template <class T, class I>
__aicore__ inline void GatherTile(const LocalTensor<T>& dst, const GlobalTensor<T>& table,
                                  const GlobalTensor<I>& ids, uint32_t rows, uint32_t lanes, int64_t idStride,
                                  uint64_t tableRowStride, int64_t tableRows)
{
    static_assert(IS_SAME<I, int32_t> || IS_SAME<I, int64_t>, "GatherTile: indices are int32_t or int64_t");
    const uint32_t pitch = PitchOf<T>(lanes);
    const DataCopyPadExtParams<T> pad{true, 0, static_cast<uint8_t>(pitch - lanes), static_cast<T>(0)};
    const uint32_t bytes = lanes * sizeof(T);
    for (uint32_t r = 0; r < rows; ++r) {
        const int64_t row =
            WrapRow(ids.GetValue(static_cast<uint64_t>(static_cast<int64_t>(r) * idStride)), tableRows);
        DataCopyPad(dst[r * pitch], table[static_cast<uint64_t>(row) * tableRowStride],
                    DataCopyExtParams{1, bytes, 0, 0, 0}, pad);
    }
}

// ---- broadcast operands -----------------------------------------------------------------------------------

// One instruction dst = a OP b in mask form; strides in 32-byte blocks.
template <Bop OP, class T>
__aicore__ inline void BinaryRepeat(const LocalTensor<T>& dst, const LocalTensor<T>& a,
                                    const LocalTensor<T>& b, uint64_t mask, uint32_t repeat, uint32_t rep,
                                    uint32_t bBlk, uint32_t bRep)
{
    const uint8_t times = static_cast<uint8_t>(repeat);
    const uint8_t rs = static_cast<uint8_t>(rep), bb = static_cast<uint8_t>(bBlk),
                  br = static_cast<uint8_t>(bRep);
    const BinaryRepeatParams ab{1, 1, bb, rs, rs, br};
    const BinaryRepeatParams ba{1, bb, 1, rs, br, rs};
    if constexpr (OP == Bop::ADD) {
        Add(dst, a, b, mask, times, ab);
    } else if constexpr (OP == Bop::SUB) {
        Sub(dst, a, b, mask, times, ab);
    } else if constexpr (OP == Bop::RSUB) {
        Sub(dst, b, a, mask, times, ba);
    } else if constexpr (OP == Bop::MUL) {
        Mul(dst, a, b, mask, times, ab);
    } else if constexpr (OP == Bop::DIV) {
        Div(dst, a, b, mask, times, ab);
    } else if constexpr (OP == Bop::RDIV) {
        Div(dst, b, a, mask, times, ba);
    } else if constexpr (OP == Bop::MAX) {
        AscendC::Max(dst, a, b, mask, times, ab);
    } else {
        AscendC::Min(dst, a, b, mask, times, ab);
    }
}

// dst[r, c] = a[r, c] OP operand of row r, where the operand of row r starts at b[r * bRow] and is either one
// block that is read again (bBlk = 0) or a whole row (bBlk = 1, bRow = 0). Goes down the rows with one
// instruction per 256 bytes of lanes, or along each row, whichever takes fewer instructions and fits the
// 8-bit strides.
template <Bop OP, class T>
__aicore__ inline void BinaryRows(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,
                                  uint32_t rows, uint32_t pitch, uint32_t bBlk, uint32_t bRow)
{
    const uint32_t rowBlocks = pitch / BLOCK<T>, full = pitch / REPEAT<T>, tail = pitch % REPEAT<T>;
    const uint32_t down = DivUp(pitch, REPEAT<T>) * DivUp(rows, MAX_REPEAT);
    const uint32_t along = rows * (DivUp(full, MAX_REPEAT) + (tail != 0 ? 1 : 0));
    if (rowBlocks <= MAX_STRIDE && down <= along) {
        for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
            const uint32_t n = Min(rows - r, MAX_REPEAT);
            for (uint32_t c = 0; c < pitch; c += REPEAT<T>) {
                BinaryRepeat<OP>(dst[r * pitch + c], a[r * pitch + c], b[r * bRow + (bBlk != 0 ? c : 0)],
                                 Min(pitch - c, REPEAT<T>), n, rowBlocks, bBlk, bRow / BLOCK<T>);
            }
        }
        return;
    }
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t k = 0; k < full; k += MAX_REPEAT) {
            const uint32_t n = Min(full - k, MAX_REPEAT), c = k * REPEAT<T>;
            BinaryRepeat<OP>(dst[r * pitch + c], a[r * pitch + c], b[r * bRow + (bBlk != 0 ? c : 0)],
                             REPEAT<T>, n, 8, bBlk, bBlk != 0 ? 8 : 0);
        }
        if (tail != 0) {
            const uint32_t c = full * REPEAT<T>;
            BinaryRepeat<OP>(dst[r * pitch + c], a[r * pitch + c], b[r * bRow + (bBlk != 0 ? c : 0)], tail, 1,
                             8, bBlk, 0);
        }
    }
}

// tmp block r (32 bytes) = col[r], for all r < roundUp(rows, 8).
template <class T>
__aicore__ inline void BlockBroadcast(const LocalTensor<T>& tmp, const LocalTensor<T>& col, uint32_t rows)
{
    const uint32_t groups = DivUp(rows, 8);
    for (uint32_t g = 0; g < groups; g += MAX_REPEAT) {
        const uint32_t n = Min(groups - g, MAX_REPEAT);
        Brcb(tmp[g * 8 * BLOCK<T>], col[g * 8], static_cast<uint8_t>(n), BrcbRepeatParams{1, 8});
    }
}

// dst[r, c] = a[r, c] OP col[r]; in place allowed. tmp >= roundUp(rows, 8) * BLOCK<T> elements.
template <Bop OP, class T>
__aicore__ inline void BinaryCol(const LocalTensor<T>& dst, const LocalTensor<T>& a,
                                 const LocalTensor<T>& col, const LocalTensor<T>& tmp, uint32_t rows,
                                 uint32_t lanes)
{
    static_assert(sizeof(T) == 4, "BinaryCol: compute dtype is 32 bits wide");
    BlockBroadcast(tmp, col, rows);
    PipeBarrier<PIPE_V>();
    BinaryRows<OP>(dst, a, tmp, rows, PitchOf<T>(lanes), 0, BLOCK<T>);
}

// dst[r, c] = a[r, c] OP row[c]; in place allowed.
template <Bop OP, class T>
__aicore__ inline void BinaryRow(const LocalTensor<T>& dst, const LocalTensor<T>& a,
                                 const LocalTensor<T>& row, uint32_t rows, uint32_t lanes)
{
    static_assert(sizeof(T) == 4, "BinaryRow: compute dtype is 32 bits wide");
    BinaryRows<OP>(dst, a, row, rows, PitchOf<T>(lanes), 1, 0);
}

// dst[r, c] = col[r]. tmp >= roundUp(rows, 8) * BLOCK<T> elements.
template <class T>
__aicore__ inline void BroadcastCol(const LocalTensor<T>& dst, const LocalTensor<T>& col,
                                    const LocalTensor<T>& tmp, uint32_t rows, uint32_t lanes)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    BlockBroadcast(tmp, col, rows);
    PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
        const uint8_t n = static_cast<uint8_t>(Min(rows - r, MAX_REPEAT));
        for (uint32_t c = 0; c < pitch; c += REPEAT<T>) {
            Copy(dst[r * pitch + c], tmp[r * BLOCK<T>], static_cast<uint64_t>(Min(pitch - c, REPEAT<T>)), n,
                 CopyRepeatParams{1, 0, static_cast<uint16_t>(pitch / BLOCK<T>), 1});
        }
    }
}

// dst[r, c] = row[c].
template <class T>
__aicore__ inline void BroadcastRow(const LocalTensor<T>& dst, const LocalTensor<T>& row, uint32_t rows,
                                    uint32_t lanes)
{
    const uint32_t pitch = PitchOf<T>(lanes);
    for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
        const uint8_t n = static_cast<uint8_t>(Min(rows - r, MAX_REPEAT));
        for (uint32_t c = 0; c < pitch; c += REPEAT<T>) {
            Copy(dst[r * pitch + c], row[c], static_cast<uint64_t>(Min(pitch - c, REPEAT<T>)), n,
                 CopyRepeatParams{1, 1, static_cast<uint16_t>(pitch / BLOCK<T>), 0});
        }
    }
}

// ---- reductions -------------------------------------------------------------------------------------------

// acc = acc (fold) src in mask form; all strides in blocks. src is the first source, acc the second: with
// accRep = 0 this is the accumulating form, the only one where a repeat may read what the previous repeat
// wrote.
template <Mon M>
__aicore__ inline void FoldRepeat(const LocalTensor<float>& acc, const LocalTensor<float>& src, uint64_t mask,
                                  uint32_t repeat, uint32_t accRep, uint32_t srcRep)
{
    const BinaryRepeatParams p{
        1, 1, 1, static_cast<uint8_t>(accRep), static_cast<uint8_t>(srcRep), static_cast<uint8_t>(accRep)};
    const uint8_t times = static_cast<uint8_t>(repeat);
    if constexpr (M == Mon::SUM) {
        Add(acc, src, acc, mask, times, p);
    } else if constexpr (M == Mon::MAX) {
        AscendC::Max(acc, src, acc, mask, times, p);
    } else if constexpr (M == Mon::MIN) {
        AscendC::Min(acc, src, acc, mask, times, p);
    } else {
        Mul(acc, src, acc, mask, times, p);
    }
}

// dst = a (fold) b in mask form, blocks next to each other; repeat strides in blocks.
template <Mon M>
__aicore__ inline void FoldPair(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                                const LocalTensor<float>& b, uint32_t repeat, uint32_t dstRep,
                                uint32_t srcRep)
{
    const uint8_t times = static_cast<uint8_t>(repeat), dr = static_cast<uint8_t>(dstRep),
                  sr = static_cast<uint8_t>(srcRep);
    const BinaryRepeatParams p{1, 1, 1, dr, sr, sr};
    if constexpr (M == Mon::SUM) {
        Add(dst, a, b, static_cast<uint64_t>(64), times, p);
    } else if constexpr (M == Mon::MAX) {
        AscendC::Max(dst, a, b, static_cast<uint64_t>(64), times, p);
    } else if constexpr (M == Mon::MIN) {
        AscendC::Min(dst, a, b, static_cast<uint64_t>(64), times, p);
    } else {
        Mul(dst, a, b, static_cast<uint64_t>(64), times, p);
    }
}

// tmp[r, 0..63] = fold of the 64-lane pieces of row r, tail lanes folded into the first lanes. lanes > 64.
// Down the rows, pieces are folded into up to FOLD_PARTS partial results, which don't wait for each other.
template <Mon M>
__aicore__ inline void FoldRowsTo64(const LocalTensor<float>& tmp, const LocalTensor<float>& src,
                                    uint32_t rows, uint32_t lanes, uint32_t pitch)
{
    const uint32_t full = lanes / 64, tail = lanes % 64, rowBlocks = pitch / 8;
    const bool down = rowBlocks <= MAX_STRIDE && (full + 1) * DivUp(rows, MAX_REPEAT) <= 3 * rows;
    uint32_t parts = down ? Min(full, FOLD_PARTS) : 1;
    const uint32_t pairs = down && full >= 2 * parts ? parts : 0, part = rows * 64;
    for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
        const uint32_t n = Min(rows - r, MAX_REPEAT);
        for (uint32_t k = 0; k < parts; ++k) {
            if (pairs != 0) {
                FoldPair<M>(tmp[k * part + r * 64], src[r * pitch + k * 64],
                            src[r * pitch + (k + parts) * 64], n, 8, rowBlocks);
            } else {
                Copy(tmp[k * part + r * 64], src[r * pitch + k * 64], static_cast<uint64_t>(64),
                     static_cast<uint8_t>(n), CopyRepeatParams{1, 1, 8, static_cast<uint16_t>(rowBlocks)});
            }
        }
    }
    PipeBarrier<PIPE_V>();
    if (down) {
        for (uint32_t c = (parts + pairs) * 64; c < lanes; c += parts * 64) {
            for (uint32_t k = 0; k < parts && c + k * 64 < lanes; ++k) {
                const uint32_t at = c + k * 64;
                for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
                    FoldRepeat<M>(tmp[k * part + r * 64], src[r * pitch + at], Min(lanes - at, 64),
                                  Min(rows - r, MAX_REPEAT), 8, rowBlocks);
                }
            }
            PipeBarrier<PIPE_V>();
        }
        while (parts > 1) {  // the upper half into the lower one
            const uint32_t half = parts / 2, repeats = half * rows;
            for (uint32_t r = 0; r < repeats; r += MAX_REPEAT) {
                FoldRepeat<M>(tmp[r * 64], tmp[(parts - half) * part + r * 64], 64,
                              Min(repeats - r, MAX_REPEAT), 8, 8);
            }
            PipeBarrier<PIPE_V>();
            parts -= half;
        }
        return;
    }
    for (uint32_t k = 1; k < full; k += MAX_REPEAT) {
        for (uint32_t r = 0; r < rows; ++r) {
            FoldRepeat<M>(tmp[r * 64], src[r * pitch + k * 64], 64, Min(full - k, MAX_REPEAT), 0, 8);
        }
        PipeBarrier<PIPE_V>();
    }
    if (tail != 0) {
        for (uint32_t r = 0; r < rows; ++r) {
            FoldRepeat<M>(tmp[r * 64], src[r * pitch + full * 64], tail, 1, 0, 8);
        }
        PipeBarrier<PIPE_V>();
    }
}

// col[r] = product of block r's 8 lanes, by the scalar unit: the vector unit has no product within a block.
__aicore__ inline void ProductOfBlocks(const LocalTensor<float>& col, const LocalTensor<float>& tmp,
                                       uint32_t rows)
{
    SyncPipes<AscendC::HardEvent::V_S>();
    for (uint32_t r = 0; r < rows; ++r) {
        float p = tmp.GetValue(r * 64);
        for (uint32_t c = 1; c < 8; ++c) {
            p = p * tmp.GetValue(r * 64 + c);
        }
        col.SetValue(r, p);
    }
    SyncPipes<AscendC::HardEvent::S_V>();
}

// col[r] = fold over the real lanes of src[r, :]; col is written up to a multiple of 8, its pad with 0.
// tmp >= RowReduceTmp(rows, lanes) floats. Order of folding: 64 interleaved partial results (or FOLD_PARTS
// times as many, then a tree of those), then the tree of WholeReduce.
template <Mon M>
__aicore__ inline void RowReduce(const LocalTensor<float>& col, const LocalTensor<float>& src,
                                 const LocalTensor<float>& tmp, uint32_t rows, uint32_t lanes)
{
    const uint32_t pitch = PitchOf<float>(lanes);
    if (rows % 8 != 0) {
        Duplicate(col[rows / 8 * 8], 0.0f, static_cast<uint64_t>(8), static_cast<uint8_t>(1), 1, 8);
        PipeBarrier<PIPE_V>();
    }
    if constexpr (M == Mon::PROD) {
        if (lanes > 64) {
            FoldRowsTo64<M>(tmp, src, rows, lanes, pitch);
        } else {
            Duplicate(tmp, 1.0f, static_cast<int32_t>(rows * 64));
            PipeBarrier<PIPE_V>();
            for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
                Copy(tmp[r * 64], src[r * pitch], static_cast<uint64_t>(lanes),
                     static_cast<uint8_t>(Min(rows - r, MAX_REPEAT)),
                     CopyRepeatParams{1, 1, 8, static_cast<uint16_t>(pitch / 8)});
            }
            PipeBarrier<PIPE_V>();
        }
        for (uint32_t half = 32; half >= 8; half /= 2) {
            for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
                FoldRepeat<M>(tmp[r * 64], tmp[r * 64 + half], half, Min(rows - r, MAX_REPEAT), 8, 8);
            }
            PipeBarrier<PIPE_V>();
        }
        ProductOfBlocks(col, tmp, rows);
    } else {
        const bool wide = lanes > 64;
        if (wide) {
            FoldRowsTo64<M>(tmp, src, rows, lanes, pitch);
        }
        const uint32_t rowPitch = wide ? 64 : pitch;
        const int32_t mask = static_cast<int32_t>(wide ? 64 : lanes),
                      rep = static_cast<int32_t>(rowPitch / 8);
        for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
            const int32_t n = static_cast<int32_t>(Min(rows - r, MAX_REPEAT));
            if constexpr (M == Mon::SUM) {
                if (wide) {
                    WholeReduceSum(col[r], tmp[r * rowPitch], mask, n, 1, 1, rep);
                } else {
                    WholeReduceSum(col[r], src[r * rowPitch], mask, n, 1, 1, rep);
                }
            } else if constexpr (M == Mon::MAX) {
                constexpr auto order = AscendC::ReduceOrder::ORDER_ONLY_VALUE;
                if (wide) {
                    WholeReduceMax(col[r], tmp[r * rowPitch], mask, n, 1, 1, rep, order);
                } else {
                    WholeReduceMax(col[r], src[r * rowPitch], mask, n, 1, 1, rep, order);
                }
            } else {
                constexpr auto order = AscendC::ReduceOrder::ORDER_ONLY_VALUE;
                if (wide) {
                    WholeReduceMin(col[r], tmp[r * rowPitch], mask, n, 1, 1, rep, order);
                } else {
                    WholeReduceMin(col[r], src[r * rowPitch], mask, n, 1, 1, rep, order);
                }
            }
        }
    }
}

// row[c] = fold over the rows of src[:, c], first row first; pad lanes are folded too. row must not overlap
// src.
template <Mon M>
__aicore__ inline void ColReduce(const LocalTensor<float>& row, const LocalTensor<float>& src, uint32_t rows,
                                 uint32_t lanes)
{
    const uint32_t pitch = PitchOf<float>(lanes);
    DataCopy(row, src, pitch);
    PipeBarrier<PIPE_V>();
    if (pitch / 8 <= MAX_STRIDE && DivUp(pitch, 64) <= rows) {
        for (uint32_t r = 1; r < rows; r += MAX_REPEAT) {
            for (uint32_t c = 0; c < pitch; c += 64) {
                FoldRepeat<M>(row[c], src[r * pitch + c], Min(pitch - c, 64), Min(rows - r, MAX_REPEAT), 0,
                              pitch / 8);
            }
            PipeBarrier<PIPE_V>();
        }
        return;
    }
    for (uint32_t r = 1; r < rows; ++r) {
        const int32_t n = static_cast<int32_t>(pitch);
        if constexpr (M == Mon::SUM) {
            Add(row, row, src[r * pitch], n);
        } else if constexpr (M == Mon::MAX) {
            AscendC::Max(row, row, src[r * pitch], n);
        } else if constexpr (M == Mon::MIN) {
            AscendC::Min(row, row, src[r * pitch], n);
        } else {
            Mul(row, row, src[r * pitch], n);
        }
        PipeBarrier<PIPE_V>();
    }
}

// ---- casts ------------------------------------------------------------------------------------------------

// The mode that the instruction takes for S -> D: exact pairs take CAST_NONE only, and pairs without
// CAST_NONE round to nearest even when asked for it.
template <class D, class S>
__aicore__ constexpr RoundMode LegalMode(RoundMode mode)
{
    constexpr bool exact =
        (IS_SAME<D, float> && (IS_SAME<S, half> || IS_SAME<S, bfloat16_t> || IS_SAME<S, int16_t>)) ||
        (IS_SAME<D, half> && (IS_SAME<S, int8_t> || IS_SAME<S, uint8_t>)) ||
        (IS_SAME<S, int64_t> && IS_SAME<D, int32_t>) ||
        (IS_SAME<S, int32_t> && (IS_SAME<D, int64_t> || IS_SAME<D, int16_t>));
    constexpr bool hasNone = (IS_SAME<S, float> && IS_SAME<D, half>) ||
                             (IS_SAME<S, int32_t> && IS_SAME<D, float>) ||
                             (IS_SAME<S, int16_t> && IS_SAME<D, half>) ||
                             (IS_SAME<S, half> && (IS_SAME<D, int8_t> || IS_SAME<D, uint8_t>));
    return exact                                        ? RoundMode::CAST_NONE
           : (!hasNone && mode == RoundMode::CAST_NONE) ? RoundMode::CAST_RINT
                                                        : mode;
}

// count elements (whole blocks) from dst on become zero, whatever their type.
template <class D>
__aicore__ inline void Clear(const LocalTensor<D>& dst, uint32_t count)
{
    Duplicate(dst.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
              static_cast<int32_t>(count * sizeof(D) / sizeof(int16_t)));
    PipeBarrier<PIPE_V>();
}

// One hop: dst[r, c] = src[r, c] converted, each side with its own pitch. Lanes of dst's pad that src has no
// pad for become 0.
template <class D, class S>
__aicore__ inline void CastHop(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode,
                               uint32_t rows, uint32_t lanes)
{
    const uint32_t dp = PitchOf<D>(lanes), sp = PitchOf<S>(lanes);
    const RoundMode m = LegalMode<D, S>(mode);
    if (dp == sp || rows == 1) {
        if (dp > sp) {
            Clear(dst[dp - BLOCK<D>], BLOCK<D>);
        }
        Cast(dst, src, m, rows == 1 ? Min(dp, sp) : rows * dp);
        return;
    }
    if (dp > sp) {
        Clear(dst, rows * dp);
    }
    constexpr uint32_t step = REPEAT_BYTES / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
    const uint32_t n = Min(dp, sp), db = dp / BLOCK<D>, sb = sp / BLOCK<S>;
    if (db <= MAX_STRIDE && sb <= MAX_STRIDE) {
        for (uint32_t r = 0; r < rows; r += MAX_REPEAT) {
            const uint8_t times = static_cast<uint8_t>(Min(rows - r, MAX_REPEAT));
            for (uint32_t c = 0; c < n; c += step) {
                Cast(dst[r * dp + c], src[r * sp + c], m, static_cast<uint64_t>(Min(n - c, step)), times,
                     UnaryRepeatParams{1, 1, static_cast<uint8_t>(db), static_cast<uint8_t>(sb)});
            }
        }
        return;
    }
    for (uint32_t r = 0; r < rows; ++r) {
        Cast(dst[r * dp], src[r * sp], m, n);
    }
}

// dst[r, c] = src[r, place(c)] with place(c) = (c * mul + rest) / div + shift rounded down, limited to [0, span):
// lanes picked out of rows that have the pitch of `span` lanes. 16-bit and 32-bit types. tmp: two times PitchOf<T>(lanes)
// words, each rounded up to 64. 0 <= rest < div; lanes * mul < 2^21, so that float holds the places.
template <class T>
__aicore__ inline void TakeLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                 const LocalTensor<int32_t>& tmp, uint32_t rows, uint32_t lanes, uint32_t span,
                                 uint32_t mul, uint32_t rest, uint32_t div, int32_t shift)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TakeLanes: 16-bit and 32-bit types");
    const uint32_t pitch = PitchOf<T>(lanes), srcPitch = PitchOf<T>(span);
    const int32_t count = static_cast<int32_t>(pitch);
    AscendC::CreateVecIndex(tmp, static_cast<int32_t>(0), pitch);
    PipeBarrier<PIPE_V>();
    Muls(tmp, tmp, static_cast<int32_t>(mul), count);
    PipeBarrier<PIPE_V>();
    if (div > 1) {  // (v + rest + 1/2) / div never comes near an integer, however it is rounded
        const LocalTensor<float> real = tmp[RoundUp(pitch, 64)].template ReinterpretCast<float>();
        Cast(real, tmp, RoundMode::CAST_RINT, pitch);
        PipeBarrier<PIPE_V>();
        Adds(real, real, static_cast<float>(rest) + 0.5f, count);
        PipeBarrier<PIPE_V>();
        Muls(real, real, 1.0f / static_cast<float>(div), count);
        PipeBarrier<PIPE_V>();
        Cast(tmp, real, RoundMode::CAST_FLOOR, pitch);
        PipeBarrier<PIPE_V>();
    }
    Adds(tmp, tmp, shift, count);
    PipeBarrier<PIPE_V>();
    Maxs(tmp, tmp, static_cast<int32_t>(0), count);
    PipeBarrier<PIPE_V>();
    Mins(tmp, tmp, static_cast<int32_t>(span - 1), count);  // pad lanes too
    PipeBarrier<PIPE_V>();
    Muls(tmp, tmp, static_cast<int32_t>(sizeof(T)), count);
    PipeBarrier<PIPE_V>();
    const LocalTensor<uint32_t> offsets = tmp.template ReinterpretCast<uint32_t>();
    for (uint32_t r = 0; r < rows; ++r) {
        Gather(dst[r * pitch], src, offsets, static_cast<uint32_t>(r * srcPitch * sizeof(T)), pitch);
    }
}

// One TransDataTo5HD of `times` groups of 16 rows: a block of columns of src becomes rows of dst. Repeat strides in
// blocks.
template <class T>
__aicore__ inline void TransposeGroups(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16],
                                       uint32_t times, uint32_t dstRep, uint32_t srcRep)
{
    const AscendC::TransDataTo5HDParams p(false, false, static_cast<uint8_t>(times),
                                          static_cast<uint16_t>(times > 1 ? dstRep : 0),
                                          static_cast<uint16_t>(times > 1 ? srcRep : 0));
    AscendC::TransDataTo5HD<T>(dst, src, p);
}

// dst[c, r] = src[r, c] for a src of rows x lanes; 16-bit and 32-bit types. tmp: a row of dst, roundUp(rows, 16)
// elements, for what lies beyond the last lane. Groups of 16 rows at a time; the last one repeats its last row.
template <class T>
__aicore__ inline void TransposeTile(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp,
                                     uint32_t rows, uint32_t lanes)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TransposeTile: 16-bit and 32-bit types");
    if constexpr (IS_SAME<T, bfloat16_t>) {  // moved as it is, and A2 has no such instruction for the type
        TransposeTile(dst.template ReinterpretCast<half>(), src.template ReinterpretCast<half>(),
                      tmp.template ReinterpretCast<half>(), rows, lanes);
    } else {
        constexpr uint32_t halves = 16 / BLOCK<T>;  // blocks of dst that 16 rows of src make
        const uint32_t pitch = PitchOf<T>(lanes), dstPitch = PitchOf<T>(rows), full = rows / 16, rest = rows % 16;
        LocalTensor<T> to[16], from[16];
        bool dirty = false;  // an instruction without a barrier behind it writes tmp
        for (uint32_t c = 0; c < lanes; c += BLOCK<T>) {
            for (uint32_t g = 0; g <= full; g += g < full ? Min(full - g, MAX_REPEAT) : 1) {
                const uint32_t times = g < full ? Min(full - g, MAX_REPEAT) : 1, valid = g < full ? 16 : rest;
                if (valid == 0) {
                    break;
                }
                const bool spills = c + BLOCK<T> > lanes || g * 16 + 16 > dstPitch;
                if (spills && dirty) {
                    PipeBarrier<PIPE_V>();
                }
                dirty = dirty || spills;
                for (uint32_t i = 0; i < 16; ++i) {
                    const uint32_t lane = c + i / halves, at = g * 16 + i % halves * BLOCK<T>;
                    from[i] = src[(g * 16 + Min(i, valid - 1)) * pitch + c];
                    to[i] = lane < lanes && at < dstPitch ? dst[lane * dstPitch + at] : tmp[i % halves * BLOCK<T>];
                }
                TransposeGroups<T>(to, from, times, halves, pitch / BLOCK<T> * 16);
            }
        }
    }
}

template <class T>
constexpr bool IS_BYTE = IS_SAME<T, int8_t> || IS_SAME<T, uint8_t>;

// dst[r, c] = src[r, c] converted; single-instruction pairs of A2. See CastTile with tmp for bytes <-> float.
template <class D, class S>
__aicore__ inline void CastTile(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode,
                                uint32_t rows, uint32_t lanes)
{
    CastHop(dst, src, mode, rows, lanes);
}

// The same with a half tile `tmp` (rows * PitchOf<half>(lanes)) for the pairs that need hops on A2:
// bytes -> float by half; float -> bytes by int16 (rounded by mode, so that no value is rounded twice) and
// half, saturating. Other pairs ignore tmp.
template <class D, class S>
__aicore__ inline void CastTile(const LocalTensor<D>& dst, const LocalTensor<S>& src,
                                const LocalTensor<half>& tmp, RoundMode mode, uint32_t rows, uint32_t lanes)
{
    if constexpr (IS_BYTE<S> && IS_SAME<D, float>) {
        CastHop(tmp, src, RoundMode::CAST_NONE, rows, lanes);
        PipeBarrier<PIPE_V>();
        CastHop(dst, tmp, RoundMode::CAST_NONE, rows, lanes);
    } else if constexpr (IS_BYTE<D> && IS_SAME<S, float>) {
        LocalTensor<int16_t> wide = tmp.template ReinterpretCast<int16_t>();
        CastHop(wide, src, mode, rows, lanes);
        PipeBarrier<PIPE_V>();
        CastHop(tmp, wide, RoundMode::CAST_RINT, rows, lanes);
        PipeBarrier<PIPE_V>();
        CastHop(dst, tmp, RoundMode::CAST_RINT, rows, lanes);
    } else {
        CastHop(dst, src, mode, rows, lanes);
    }
}

// dst = src rounded to an integer, float to float; in place allowed. MODE: RINT, FLOOR, CEIL, ROUND (away),
// TRUNC.
template <RoundMode MODE>
__aicore__ inline void RoundTo(const LocalTensor<float>& dst, const LocalTensor<float>& src, uint32_t count)
{
    Cast(dst, src, MODE, count);
}

// ---- comparisons and selection ----------------------------------------------------------------------------

// Moves the last n < 256 elements of a[from..] to a 256-element staging area, so that Compare may read whole
// repeats.
__aicore__ inline void StageTail(const LocalTensor<float>& stage, const LocalTensor<float>& a, uint32_t n)
{
    Duplicate(stage, 0.0f, 256);
    PipeBarrier<PIPE_V>();
    if (n >= 64) {
        Copy(stage, a, static_cast<uint64_t>(64), static_cast<uint8_t>(n / 64), CopyRepeatParams{1, 1, 8, 8});
    }
    if (n % 64 != 0) {
        Copy(stage[n / 64 * 64], a[n / 64 * 64], static_cast<uint64_t>(n % 64), static_cast<uint8_t>(1),
             CopyRepeatParams{1, 1, 8, 8});
    }
}

// bits of tmp = a CMP b for any count; returns the bit tensor.
template <CMPMODE M>
__aicore__ inline void CompareBits(const LocalTensor<float>& a, const LocalTensor<float>& b,
                                   const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    const uint32_t body = count % 64 == 0 ? count : count / 256 * 256;
    if (body != 0) {
        Compare(tmp, a, b, M, body);
    }
    if (body != count) {
        const uint32_t bits = RoundUp(RoundUp(count, 256) / 8, BLOCK_BYTES);
        LocalTensor<float> sa = tmp[bits].template ReinterpretCast<float>();
        LocalTensor<float> sb = tmp[bits + 1024].template ReinterpretCast<float>();
        StageTail(sa, a[body], count - body);
        StageTail(sb, b[body], count - body);
        PipeBarrier<PIPE_V>();
        Compare(tmp[body / 8], sa, sb, M, 256);
    }
}

template <CMPMODE M>
__aicore__ inline void CompareBits(const LocalTensor<float>& a, float scalar, const LocalTensor<uint8_t>& tmp,
                                   uint32_t count)
{
    const uint32_t body = count % 64 == 0 ? count : count / 256 * 256;
    if (body != 0) {
        CompareScalar(tmp, a, scalar, M, body);
    }
    if (body != count) {
        const uint32_t bits = RoundUp(RoundUp(count, 256) / 8, BLOCK_BYTES);
        LocalTensor<float> sa = tmp[bits].template ReinterpretCast<float>();
        StageTail(sa, a[body], count - body);
        PipeBarrier<PIPE_V>();
        CompareScalar(tmp[body / 8], sa, scalar, M, 256);
    }
}

// dst[i] = bit i of tmp ? 1 : 0.
__aicore__ inline void BitsToFloat(const LocalTensor<float>& dst, const LocalTensor<uint8_t>& tmp,
                                   uint32_t count)
{
    PipeBarrier<PIPE_V>();
    Duplicate(dst, 1.0f, static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
    Select(dst, tmp, dst, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
}

// dst[i] = a[i] CMP b[i] ? 1.0f : 0.0f; any count; dst may be a or b. Comparisons with NaN are false, NE is
// true.
template <CMPMODE M>
__aicore__ inline void Compare01(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                                 const LocalTensor<float>& b, const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    CompareBits<M>(a, b, tmp, count);
    BitsToFloat(dst, tmp, count);
}

// dst[i] = a[i] CMP scalar ? 1.0f : 0.0f; dst may be a.
template <CMPMODE M>
__aicore__ inline void Compare01S(const LocalTensor<float>& dst, const LocalTensor<float>& a, float scalar,
                                  const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    CompareBits<M>(a, scalar, tmp, count);
    BitsToFloat(dst, tmp, count);
}

// dst[i] = cond[i] != 0 ? a[i] : b[i]; dst may be a or b. The side not chosen has no influence, NaN or not.
__aicore__ inline void Select01(const LocalTensor<float>& dst, const LocalTensor<float>& cond,
                                const LocalTensor<float>& a, const LocalTensor<float>& b,
                                const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    CompareBits<CMPMODE::NE>(cond, 0.0f, tmp, count);
    PipeBarrier<PIPE_V>();
    Select(dst, tmp, a, b, AscendC::SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
}

// ---- exact roots and the mathematics API ------------------------------------------------------------------

// dst = 1 / sqrt(src) by Sqrt and Div (the Rsqrt instruction is approximate); in place allowed. tmp: count
// floats.
__aicore__ inline void Rsqrt1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                              const LocalTensor<float>& tmp, uint32_t count)
{
    const int32_t n = static_cast<int32_t>(count);
    Sqrt(tmp, src, n);
    PipeBarrier<PIPE_V>();
    Duplicate(dst, 1.0f, n);
    PipeBarrier<PIPE_V>();
    Div(dst, dst, tmp, n);
}

// dst = 1 / src by Div (the Reciprocal instruction is approximate); in place allowed. tmp: count floats.
__aicore__ inline void Recip1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                              const LocalTensor<float>& tmp, uint32_t count)
{
    const int32_t n = static_cast<int32_t>(count);
    Duplicate(tmp, 1.0f, n);
    PipeBarrier<PIPE_V>();
    Div(dst, tmp, src, n);
}

// dst = f(src); dst must not overlap src. tmp >= <name>Bytes(count).
__aicore__ inline void Tanh1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                             const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Tanh(dst, src, tmp, count);
}
__aicore__ inline void Erf1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                            const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Erf(dst, src, tmp, count);
}
__aicore__ inline void Sin1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                            const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Sin(dst, src, tmp, count);
}
__aicore__ inline void Cos1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                            const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Cos(dst, src, tmp, count);
}
__aicore__ inline void Tan1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                            const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Tan(dst, src, tmp, count);
}
__aicore__ inline void Atan1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                             const LocalTensor<uint8_t>& tmp, uint32_t count)
{
    AscendC::Atan(dst, src, tmp, count);
}
__aicore__ inline void Log1(const LocalTensor<float>& dst, const LocalTensor<float>& src,
                            const LocalTensor<uint8_t>&, uint32_t count)
{
    AscendC::Ln(dst, src, static_cast<int32_t>(count));
}
__aicore__ inline void Pow1(const LocalTensor<float>& dst, const LocalTensor<float>& base,
                            const LocalTensor<float>& exponent, const LocalTensor<uint8_t>& tmp,
                            uint32_t count)
{
    AscendC::Power(dst, base, exponent, tmp, count);
}

}  // namespace gaf

#endif  // GAF_TWIN == 1
#endif  // GAF_VECTOR_H
