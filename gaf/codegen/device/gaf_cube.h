// SPDX-License-Identifier: Apache-2.0
// BlockMmad: one output block of a matrix product on the cube core, c[m, n] = A * B with float accumulation.
#ifndef GAF_CUBE_H
#define GAF_CUBE_H

#include "gaf_compat.h"

namespace gaf {

// Where the rows of B start that are windows of an image, line by line in memory: row (o * taps + t) * inner + i at
// o * outer + t * dilation / stride * line + t * dilation % stride * phase + i * step.
struct WindowRows {
    uint64_t taps, inner, outer, line, phase, step, dilation, stride;

    __aicore__ inline uint64_t operator()(uint32_t row) const
    {
        const uint64_t i = row % inner, t = row / inner % taps * dilation, o = row / inner / taps;
        return o * outer + t / stride * line + t % stride * phase + i * step;
    }
};

}  // namespace gaf

#if defined(GAF_TWIN) && GAF_TWIN == 1
#include "twin/fast_cube.h"  // the same class with a direct body for the CPU
#else

namespace gaf {

// The queues of a BlockMmad.
struct MmadQueues {
    static constexpr uint32_t PANEL_BYTES = 512;      // bytes of k in an L1 panel, for one m or n
    static constexpr uint32_t L0_BYTES = 32 * 1024;  // half of L0A and of L0B
    static constexpr uint32_t STRIP = 128;           // columns of one L0C tile
    static constexpr uint32_t CHUNKS = 4;            // pieces of a left operand that stays in L1

    uint32_t chunk = 0;  // k of such a piece; 0: panels of the left operand come and go
    AscendC::TQue<AscendC::TPosition::A1, CHUNKS> a1;
    AscendC::TQue<AscendC::TPosition::B1, 2> b1;
    AscendC::TQue<AscendC::TPosition::A2, 2> a2;
    AscendC::TQue<AscendC::TPosition::B2, 2> b2;
    AscendC::TQue<AscendC::TPosition::CO1, 2> c;
};

// AT: float, half or bfloat16_t. TA: A is stored [k, m] (else [m, k]). TB: B is stored [n, k] (else [k, n]).
// CT: float or AT. One object serves any number of blocks; blocks are limited to maxM <= 128 by maxN <= 256,
// k is free. L0 has room for the queues of one object: a kernel whose products differ in operand layout or type
// gives them to the first object by Init, and the others use them by Share.
//
// Data path: GM -> L1 by Nd2Nz, two panels of each operand, B first -> L0 by LoadData, two tiles of each -> Mmad
// into an L0C tile for each strip of 128 columns -> Fixpipe to GM. The strips of a panel are done one after the
// other: Fixpipe writes one while Mmad works on the other, the next block's included. A panel holds 512 bytes of
// k, so that rows along k are read in pieces of 512 bytes. Fractals at an edge are completed with zeros in L1
// (never with what an earlier block left there), k is passed to Mmad as it is. Fixpipe writes whole 16-column
// fractals: c needs ldc >= roundUp(n, 16), and columns n.. become 0.
template <class AT, bool TA, bool TB, class CT = float>
class BlockMmad {
public:
    __aicore__ inline BlockMmad() {}

    // Makes the queues: L1 2 x (maxM + maxN) x 512 bytes, L0A and L0B 2 x 32 KiB, L0C two strips of maxM rows. With
    // keptK, A [m, keptK] (not transposed) stays in L1, all of it, until a block has another one: nothing may write it
    // meanwhile. Then Release belongs behind the last block, and the object shares its queues with no other.
    __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t maxM = 128, uint32_t maxN = 256, uint32_t keptK = 0)
    {
        const uint32_t rows = RoundUp(maxM, 16), cols = RoundUp(maxN, 16);
        if (keptK != 0) {
            own_.chunk = DivUp(DivUp(keptK, PANEL_K), MmadQueues::CHUNKS) * PANEL_K;
            pipe->InitBuffer(own_.a1, static_cast<uint8_t>(DivUp(keptK, own_.chunk)), rows * own_.chunk * sizeof(AT));
        } else {
            pipe->InitBuffer(own_.a1, 2, rows * PANEL_BYTES);
        }
        pipe->InitBuffer(own_.b1, 2, cols * PANEL_BYTES);
        pipe->InitBuffer(own_.a2, 2, L0_BYTES);
        pipe->InitBuffer(own_.b2, 2, L0_BYTES);
        pipe->InitBuffer(own_.c, 2, rows * Min(cols, STRIP) * sizeof(float));
        queues_ = &own_;
    }

    // Uses the queues of an object that had Init: for blocks up to the same size.
    template <class Other>
    __aicore__ inline void Share(Other& other)
    {
        queues_ = other.Queues();
    }

    __aicore__ inline MmadQueues* Queues() { return queues_; }

    // A that stayed in L1 is no longer needed.
    __aicore__ inline void Release()
    {
        for (uint32_t i = 0; i < kept_; ++i) {
            queues_->a1.FreeTensor(chunks_[i]);
        }
        kept_ = 0;
    }

    // c[i * ldc + j] = sum over k of A[i, k] * B[k, j] for i < m <= maxM, j < n <= maxN; lda, ldb, ldc in
    // elements. ldb is the distance of rows of B, or WindowRows: where they start (B not transposed).
    template <class Rows>
    __aicore__ inline void Run(const GlobalTensor<CT>& c, uint64_t ldc, const GlobalTensor<AT>& a,
                               uint64_t lda, const GlobalTensor<AT>& b, const Rows& ldb, uint32_t m, uint32_t n,
                               uint32_t k)
    {
        const uint32_t mPad = RoundUp(m, 16);
        const uint32_t step = StepOf(Max(mPad, RoundUp(Min(n, STRIP), 16)));
        LocalTensor<float> l0c[2];
        const bool keeps = queues_->chunk != 0;
        isNew_ = !keeps || kept_ == 0 || a.GetPhyAddr() != left_.GetPhyAddr() || m != rows_;
        LoadPanels(a, lda, b, ldb, m, n, 0, Min(k, PANEL_K), k);
        for (uint32_t k1 = 0; k1 < k; k1 += PANEL_K) {
            const uint32_t kPanel = Min(k - k1, PANEL_K);
            if (k1 + PANEL_K < k) {
                LoadPanels(a, lda, b, ldb, m, n, k1 + PANEL_K, Min(k - k1 - PANEL_K, PANEL_K), k);
            }
            LocalTensor<AT> b1 = queues_->b1.template DeQue<AT>();
            LocalTensor<AT> a1 = keeps ? Kept(k1, mPad) : queues_->a1.template DeQue<AT>();
            for (uint32_t s = 0; s * STRIP < n; ++s) {
                const uint32_t width = Min(n - s * STRIP, STRIP), nPad = RoundUp(width, 16);
                if (k1 == 0) {
                    l0c[s] = queues_->c.template AllocTensor<float>();
                }
                const LocalTensor<AT> b1Strip = b1[s * STRIP * RoundUp(kPanel, TB ? C0 : 16)];
                for (uint32_t k0 = 0; k0 < kPanel; k0 += step) {
                    Multiply(l0c[s], a1, b1Strip, m, nPad, k0, Min(kPanel - k0, step), kPanel, k1 + k0 == 0);
                }
                if (k1 + kPanel == k) {
                    Store(c[s * STRIP], ldc, l0c[s], m, nPad);
                }
            }
            if (!keeps) {
                queues_->a1.FreeTensor(a1);
            }
            queues_->b1.FreeTensor(b1);
        }
        if (keeps) {
            left_ = a;
            rows_ = m;
            kept_ = DivUp(k, queues_->chunk);
        }
    }

private:
    static constexpr uint32_t C0 = BLOCK_BYTES / sizeof(AT);  // elements of a fractal row
    static constexpr uint32_t PANEL_BYTES = MmadQueues::PANEL_BYTES;
    static constexpr uint32_t PANEL_K = PANEL_BYTES / sizeof(AT);  // 256, or 128 for float
    static constexpr uint32_t L0_BYTES = MmadQueues::L0_BYTES;
    static constexpr uint32_t STRIP = MmadQueues::STRIP;

    // The panel from k1 on of an A that stays: taken from the queue when it was loaded for this block.
    __aicore__ inline LocalTensor<AT> Kept(uint32_t k1, uint32_t mPad)
    {
        const uint32_t i = k1 / queues_->chunk, first = i * queues_->chunk;
        if (isNew_ && k1 == first) {
            chunks_[i] = queues_->a1.template DeQue<AT>();
        }
        return chunks_[i][(k1 - first) * mPad];
    }

    // The chunk of A that starts at k1, into L1 to stay there.
    __aicore__ inline void Keep(const GlobalTensor<AT>& a, uint64_t lda, uint32_t m, uint32_t k1, uint32_t k)
    {
        const uint32_t i = k1 / queues_->chunk;
        if (i < kept_) {
            queues_->a1.FreeTensor(chunks_[i]);
        }
        LocalTensor<AT> a1 = queues_->a1.template AllocTensor<AT>();
        Nd2Nz(a1, a[k1], lda, m, Min(k - k1, queues_->chunk), C0);
        queues_->a1.EnQue(a1);
    }

    // l0c (=, +=) A[:, k0 .. k0 + kTile] * B, of which the panels hold kPanel of k.
    __aicore__ inline void Multiply(const LocalTensor<float>& l0c, const LocalTensor<AT>& a1,
                                    const LocalTensor<AT>& b1, uint32_t m, uint32_t nPad, uint32_t k0,
                                    uint32_t kTile, uint32_t kPanel, bool first)
    {
        const uint32_t mPad = RoundUp(m, 16);
        LocalTensor<AT> b2 = queues_->b2.template AllocTensor<AT>();
        LoadB(b2, b1, nPad, k0, kTile, kPanel);
        queues_->b2.EnQue(b2);
        LocalTensor<AT> a2 = queues_->a2.template AllocTensor<AT>();
        LoadA(a2, a1, mPad, k0, kTile, kPanel);
        queues_->a2.EnQue(a2);
        b2 = queues_->b2.template DeQue<AT>();
        a2 = queues_->a2.template DeQue<AT>();
        AscendC::MmadParams p;
        p.m = static_cast<uint16_t>(m == 1 ? 16 : m);  // with 1 the unit reads A as a vector (GEMV)
        p.n = static_cast<uint16_t>(nPad);
        p.k = static_cast<uint16_t>(kTile);
        p.cmatrixInitVal = first;
        p.kDirectionAlign = TA && IS_SAME<AT, float>;
        Mmad(l0c, a2, b2, p);
        if ((mPad / 16) * (nPad / 16) < 10) {  // a small product ends before the next may read its sums
            AscendC::PipeBarrier<PIPE_M>();
        }
        queues_->a2.FreeTensor(a2);
        queues_->b2.FreeTensor(b2);
    }

    // A finished strip to global memory, in the output's type.
    __aicore__ inline void Store(const GlobalTensor<CT>& c, uint64_t ldc, LocalTensor<float> l0c, uint32_t m,
                                 uint32_t nPad)
    {
        queues_->c.EnQue(l0c);
        l0c = queues_->c.template DeQue<float>();
        AscendC::FixpipeParamsV220 f(static_cast<uint16_t>(nPad), static_cast<uint16_t>(m),
                                     static_cast<uint16_t>(RoundUp(m, 16)), static_cast<uint32_t>(ldc), false);
        f.quantPre = IS_SAME<CT, half>         ? QuantMode_t::F322F16
                     : IS_SAME<CT, bfloat16_t> ? QuantMode_t::F322BF16
                                               : QuantMode_t::NoQuant;
        AscendC::Fixpipe<CT, float, AscendC::CFG_ROW_MAJOR>(c, l0c, f);
        queues_->c.FreeTensor(l0c);
    }

    // k of one L0 tile: a multiple of 16 that keeps the wider operand within L0_BYTES.
    static __aicore__ inline uint32_t StepOf(uint32_t wide)
    {
        const uint32_t fit = L0_BYTES / (wide * sizeof(AT)) / 16 * 16;
        return fit < 16 ? 16 : fit > PANEL_K ? PANEL_K : fit;
    }

    // Panel [rows, cols] of a row-major matrix into L1 as Nz: fractal column j (C0 columns) holds rowsPad
    // rows. Rows up to rowsPad = roundUp(rows, 16) are zero; columns up to colsPad = roundUp(cols, colAlign)
    // are zero.
    __aicore__ inline void Nd2Nz(const LocalTensor<AT>& l1, const GlobalTensor<AT>& gm, uint64_t ld,
                                 uint32_t rows, uint32_t cols, uint32_t colAlign)
    {
        Complete(l1, rows, cols, colAlign);
        const uint32_t rowsPad = RoundUp(rows, 16);
        if (ld <= 65535) {
            AscendC::Nd2NzParams p(1, static_cast<uint16_t>(rows), static_cast<uint16_t>(cols), 0,
                                   static_cast<uint16_t>(ld), static_cast<uint16_t>(rowsPad), 1, 0);
            DataCopy(l1, gm, p);
            return;
        }
        for (uint32_t r = 0; r < rows; ++r) {  // the row pitch does not fit srcDValue
            AscendC::Nd2NzParams p(1, 1, static_cast<uint16_t>(cols), 0, static_cast<uint16_t>(cols),
                                   static_cast<uint16_t>(rowsPad), 1, 0);
            DataCopy(l1[r * C0], gm[r * ld], p);
        }
    }

    // The same for rows first .. first + rows that start anywhere: one copy for each run of rows equally far apart.
    __aicore__ inline void Nd2Nz(const LocalTensor<AT>& l1, const GlobalTensor<AT>& gm, const WindowRows& start,
                                 uint32_t first, uint32_t rows, uint32_t cols)
    {
        Complete(l1, rows, cols, 16);
        const uint32_t rowsPad = RoundUp(rows, 16);
        for (uint32_t r = 0; r < rows;) {
            const uint64_t from = start(first + r);
            uint64_t pitch = r + 1 < rows ? start(first + r + 1) - from : 0;
            uint32_t run = 1;
            if (pitch >= cols && pitch <= 65535) {
                while (r + run < rows && start(first + r + run) == from + run * pitch) {
                    ++run;
                }
            } else {
                pitch = cols;
            }
            AscendC::Nd2NzParams p(1, static_cast<uint16_t>(run), static_cast<uint16_t>(cols), 0,
                                   static_cast<uint16_t>(pitch), static_cast<uint16_t>(rowsPad), 1, 0);
            DataCopy(l1[r * C0], gm[from], p);
            r += run;
        }
    }

    // Zeros where the fractals of a panel of rows x cols reach beyond it.
    __aicore__ inline void Complete(const LocalTensor<AT>& l1, uint32_t rows, uint32_t cols, uint32_t colAlign)
    {
        const uint32_t rowsPad = RoundUp(rows, 16), fracCols = RoundUp(cols, colAlign) / C0,
                       loaded = DivUp(cols, C0);
        if (rows != rowsPad) {  // clear the last 16 rows of every fractal column that Nd2Nz reaches
            AscendC::InitConstValueParams<AT> z(static_cast<uint16_t>(loaded), 16,
                                                static_cast<uint16_t>(rowsPad - 16), static_cast<AT>(0));
            InitConstValue(l1[(rowsPad - 16) * C0], z);
        }
        if (loaded != fracCols) {  // float: a second fractal column that Nd2Nz does not reach
            AscendC::InitConstValueParams<AT> z(1, static_cast<uint16_t>(rowsPad), 0, static_cast<AT>(0));
            InitConstValue(l1[loaded * rowsPad * C0], z);
        }
        if (rows != rowsPad || loaded != fracCols) {
            AscendC::PipeBarrier<PIPE_MTE2>();
        }
    }

    template <class Rows>
    __aicore__ inline void LoadPanels(const GlobalTensor<AT>& a, uint64_t lda, const GlobalTensor<AT>& b,
                                      const Rows& ldb, uint32_t m, uint32_t n, uint32_t k1, uint32_t kPanel, uint32_t k)
    {
        LocalTensor<AT> b1 = queues_->b1.template AllocTensor<AT>();
        if constexpr (IS_SAME<Rows, WindowRows>) {
            static_assert(!TB, "BlockMmad: windows are rows of columns");
            Nd2Nz(b1, b, ldb, k1, kPanel, n);
        } else if constexpr (TB) {
            for (uint32_t s = 0; s < n; s += STRIP) {  // a panel of its own for each strip
                Nd2Nz(b1[s * RoundUp(kPanel, C0)], b[s * ldb + k1], ldb, Min(n - s, STRIP), kPanel, C0);
            }
        } else {
            Nd2Nz(b1, b[k1 * ldb], ldb, kPanel, n, 16);
        }
        queues_->b1.EnQue(b1);
        if (queues_->chunk != 0) {
            if (isNew_ && k1 % queues_->chunk == 0) {
                Keep(a, lda, m, k1, k);
            }
            return;
        }
        LocalTensor<AT> a1 = queues_->a1.template AllocTensor<AT>();
        if constexpr (TA) {
            Nd2Nz(a1, a[k1 * lda], lda, kPanel, m, 16);
        } else {
            Nd2Nz(a1, a[k1], lda, m, kPanel, C0);
        }
        queues_->a1.EnQue(a1);
    }

    // One Load3D: the L1 panel seen as an image of one line of `rows` pixels and `channels` channels.
    __aicore__ inline void Load3D(const LocalTensor<AT>& l0, const LocalTensor<AT>& l1, uint32_t rows,
                                  uint32_t channels, uint32_t rowStart, uint32_t rowCount, bool transpose)
    {
        AscendC::LoadData3DParamsV2<AT> p;
        p.l1H = 1;
        p.l1W = static_cast<uint16_t>(rows);
        p.channelSize = static_cast<uint16_t>(channels);
        p.kExtension = static_cast<uint16_t>(channels);
        p.mExtension = static_cast<uint16_t>(rowCount);
        p.mStartPt = static_cast<uint16_t>(rowStart);
        p.enTranspose = transpose;
        LoadData(l0, l1, p);
    }

    // L0A tile, Zz: [mPad / 16][k / C0][16][C0].
    __aicore__ inline void LoadA(const LocalTensor<AT>& a2, const LocalTensor<AT>& a1, uint32_t mPad,
                                 uint32_t k0, uint32_t kTile, uint32_t kPanel)
    {
        if constexpr (TA) {
            Load3D(a2, a1, RoundUp(kPanel, 16), mPad, k0, RoundUp(kTile, 16), true);
        } else {
            Load3D(a2, a1[k0 * mPad], mPad, RoundUp(kTile, C0), 0, mPad, false);
        }
    }

    // L0B tile, Zn: [k / C0][nPad / 16][16][C0].
    __aicore__ inline void LoadB(const LocalTensor<AT>& b2, const LocalTensor<AT>& b1, uint32_t nPad,
                                 uint32_t k0, uint32_t kTile, uint32_t kPanel)
    {
        if constexpr (TB) {  // the panel already has this layout
            const uint32_t fractals = DivUp(kTile, C0) * (nPad / 16);
            for (uint32_t i = 0; i < fractals; i += MAX_REPEAT) {
                AscendC::LoadData2DParams p;
                p.repeatTimes = static_cast<uint8_t>(Min(fractals - i, MAX_REPEAT));
                p.srcStride = 1;
                LoadData(b2[i * 16 * C0], b1[k0 * nPad + i * 16 * C0], p);
            }
        } else {
            Load3D(b2, b1, RoundUp(kPanel, 16), nPad, k0, RoundUp(kTile, 16), false);
        }
    }

    MmadQueues own_;
    MmadQueues* queues_ = nullptr;

    // An A that stays in L1: what it was loaded from, its rows, and its chunks. isNew_: this block has another one.
    GlobalTensor<AT> left_;
    uint32_t rows_ = 0, kept_ = 0;
    bool isNew_ = true;
    LocalTensor<AT> chunks_[MmadQueues::CHUNKS];
};

}  // namespace gaf

#endif  // GAF_TWIN == 1
#endif  // GAF_CUBE_H
