// SPDX-License-Identifier: Apache-2.0
// Tiling of the high-level Matmul for host code: cuts M and N over the cores, picks block sizes that fit L0.
//
// The split is our own; programs take it from the tiling structure, so any valid one gives the same result.
#ifndef GAF_TWIN_MATMUL_TILING_H
#define GAF_TWIN_MATMUL_TILING_H

#include <algorithm>
#include <cstdint>

#include "tiling/platform/platform_ascendc.h"
#include "twin/tiling_data.h"

namespace matmul_tiling {

enum class DataType : int32_t {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_BF16 = 27,
    DT_BFLOAT16 = 27,
    DT_INT4 = 29,
    DT_HIFLOAT8 = 34,
    DT_FLOAT8_E5M2 = 35,
    DT_FLOAT8_E4M3FN = 36,
    DT_FLOAT4_E2M1 = 40,
    DT_FLOAT4_E1M2 = 41
};
enum class TPosition : int32_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    MAX
};
enum class CubeFormat : int32_t { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 8 };
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class MatrixMadType : int32_t { NORMAL = 0, HF32 = 1, MXMODE = 2 };
enum class DequantType : int32_t { SCALAR = 0, TENSOR = 1 };
enum class ScheduleType : int32_t { INNER_PRODUCT = 0, OUTER_PRODUCT = 1, N_BUFFER_33 = 2 };
enum class TilingPolicy : int32_t { FIXED_A_TSCM, FIXED_B_TSCM, FIXED_A_B_TSCM, NO_POLICY };
struct MatmulConfigParams {
    MatmulConfigParams(int32_t type = 1, bool l1CacheLimit = false, ScheduleType schedule = ScheduleType::INNER_PRODUCT,
                       MatrixTraverse order = MatrixTraverse::NOSET, bool a2b2 = false)
        : mmConfigType(type), enableL1CacheUB(l1CacheLimit), scheduleType(schedule), traverse(order), enVecND2NZ(a2b2)
    {
    }
    int32_t mmConfigType;
    bool enableL1CacheUB;
    ScheduleType scheduleType;
    MatrixTraverse traverse;
    bool enVecND2NZ;
};

class MatmulApiTilingBase {
public:
    MatmulApiTilingBase() {}
    explicit MatmulApiTilingBase(const platform_ascendc::PlatformAscendC&) {}
    virtual ~MatmulApiTilingBase() {}

    int32_t SetAType(TPosition pos, CubeFormat format, DataType type, bool trans = false)
    {
        return Note(a_, pos, format, type, trans);
    }
    int32_t SetBType(TPosition pos, CubeFormat format, DataType type, bool trans = false)
    {
        return Note(b_, pos, format, type, trans);
    }
    int32_t SetCType(TPosition pos, CubeFormat format, DataType type) { return Note(c_, pos, format, type, false); }
    int32_t SetBiasType(TPosition pos, CubeFormat format, DataType type) { return Note(bias_, pos, format, type, false); }
    int32_t SetDequantType(DequantType) { return 0; }
    int32_t SetShape(int32_t m, int32_t n, int32_t k)
    {
        m_ = m;
        n_ = n;
        k_ = k;
        return 0;
    }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) { return SetOrgShape(m, n, k, k); }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb)
    {
        orgM_ = m;
        orgN_ = n;
        orgKa_ = ka;
        orgKb_ = kb;
        return 0;
    }
    int32_t SetALayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return Layout(layoutA_, b, s, n, g, d); }
    int32_t SetBLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return Layout(layoutB_, b, s, n, g, d); }
    int32_t SetCLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return Layout(layoutC_, b, s, n, g, d); }
    int32_t SetBatchInfoForNormal(int32_t batchA, int32_t batchB, int32_t m, int32_t n, int32_t k)
    {
        batchNum_ = std::max(batchA, batchB);
        return SetShape(m, n, k);
    }
    int32_t SetBatchNum(int32_t batch)
    {
        batchNum_ = batch;
        return 0;
    }
    int32_t EnableBias(bool on = false)
    {
        isBias_ = on;
        return 0;
    }
    int32_t SetBias(bool on = false) { return EnableBias(on); }
    int32_t SetFixSplit(int32_t m = -1, int32_t n = -1, int32_t k = -1)
    {
        fixM_ = m;
        fixN_ = n;
        fixK_ = k;
        return 0;
    }
    int32_t SetBufferSpace(int32_t = -1, int32_t = -1, int32_t ub = -1, int32_t = -1)
    {
        ubSpace_ = ub;
        return 0;
    }
    int32_t SetTraverse(MatrixTraverse traverse)
    {
        traverse_ = traverse;
        return 0;
    }
    int32_t SetMadType(MatrixMadType) { return 0; }
    int32_t SetSplitRange(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
    int32_t SetDoubleBuffer(bool, bool, bool, bool, bool = true, bool = true) { return 0; }
    void SetMatmulConfigParams(int32_t = 1, bool = false, ScheduleType = ScheduleType::INNER_PRODUCT,
                               MatrixTraverse traverse = MatrixTraverse::NOSET, bool = false)
    {
        traverse_ = traverse != MatrixTraverse::NOSET ? traverse : traverse_;
    }
    void SetMatmulConfigParams(const MatmulConfigParams& p) { SetMatmulConfigParams(p.mmConfigType, false, p.scheduleType, p.traverse); }
    int32_t SetSparse(bool = false) { return 0; }
    int32_t GetBaseM() const { return baseM_; }
    int32_t GetBaseN() const { return baseN_; }
    int32_t GetBaseK() const { return baseK_; }

    // 0, or -1 when no split fits.
    virtual int64_t GetTiling(TCubeTiling& tiling) { return Compute(tiling); }
    virtual int64_t GetTiling(optiling::TCubeTiling& tiling)
    {
        TCubeTiling plain;
        const int64_t code = Compute(plain);
        memcpy(static_cast<void*>(&tiling), &plain, sizeof(plain));
        return code;
    }

protected:
    struct Operand {
        TPosition pos = TPosition::GM;
        CubeFormat format = CubeFormat::ND;
        DataType type = DataType::DT_FLOAT16;
        bool trans = false;
    };
    static int32_t Note(Operand& o, TPosition pos, CubeFormat format, DataType type, bool trans)
    {
        o.pos = pos;
        o.format = format;
        o.type = type;
        o.trans = trans;
        return 0;
    }
    static int32_t Layout(int32_t (&l)[5], int32_t b, int32_t s, int32_t n, int32_t g, int32_t d)
    {
        l[0] = b;
        l[1] = s;
        l[2] = n;
        l[3] = g;
        l[4] = d;
        return 0;
    }
    static int32_t Bytes(DataType t)
    {
        return t == DataType::DT_FLOAT || t == DataType::DT_INT32                                ? 4
               : t == DataType::DT_FLOAT16 || t == DataType::DT_BF16 || t == DataType::DT_INT16 ? 2
                                                                                                   : 1;
    }
    static int32_t Up(int32_t a, int32_t b) { return (a + b - 1) / b * b; }
    static int32_t Div(int32_t a, int32_t b) { return (a + b - 1) / b; }
    virtual int32_t Cores() const { return 1; }

    // Length of a block of at most `most`: without a tail where that takes no less than half of it.
    static int32_t BlockOf(int32_t single, int32_t most)
    {
        const int32_t plain = std::min(Up(single, 16), most);
        for (int32_t b = plain; 2 * b > plain; b -= 16) {
            if (single % b == 0) {
                return b;
            }
        }
        return plain;
    }
    // Cores along M and N: the fewest elements for the busiest core. False when there is no such split.
    bool Parts(int32_t cores, bool even, int32_t& sm, int32_t& sn, int32_t& used) const
    {
        int64_t best = -1;
        // An operand in L1 is there whole.
        const int32_t mostM = a_.pos == TPosition::TSCM ? 1 : cores, mostN = b_.pos == TPosition::TSCM ? 1 : cores;
        // Among equals M is cut, so that every core reads all of B; with given blocks the other dimension, if that
        // leaves one block a core.
        for (int32_t cm = mostM; cm >= 1; --cm) {
            for (int32_t cn = 1; cn <= mostN && cn * cm <= cores; ++cn) {
                const int32_t tm = std::min(m_, Up(Div(m_, cm), 16)), tn = std::min(n_, Up(Div(n_, cn), 16));
                const int32_t um = Div(m_, tm), un = Div(n_, tn);
                const bool oneBlock = fixN_ > 0 && tn == fixN_ && tm != fixM_;
                const int64_t cost = (int64_t(tm) * tn << 21) + 2 * (tm + tn) + (oneBlock ? -2 * (m_ + n_) : 0);
                if (um * un <= cores && (!even || (tm * um == m_ && tn * un == n_)) && (best < 0 || cost < best)) {
                    best = cost;
                    sm = tm;
                    sn = tn;
                    used = um * un;
                }
            }
        }
        return best >= 0;
    }
    // The same along K too.
    void Split(int32_t& sm, int32_t& sn, int32_t& sk, int32_t& used) const
    {
        const int32_t cores = std::max(Cores(), 1);
        if (singleM_ > 0 || singleN_ > 0 || singleK_ > 0) {
            sm = singleM_ > 0 ? singleM_ : m_;
            sn = singleN_ > 0 ? singleN_ : n_;
            sk = singleK_ > 0 ? singleK_ : k_;
            used = Div(m_, sm) * Div(n_, sn) * (splitK_ ? Div(k_, sk) : 1);
            return;
        }
        // Parts without a tail, unless these leave more than half of the cores idle: callers may not look for tails.
        if (!Parts(cores, true, sm, sn, used) || used * 2 < cores) {
            Parts(cores, false, sm, sn, used);
        }
        sk = k_;
        if (splitK_ && used < cores) {
            int32_t parts = cores / used;
            while (parts > 1 && k_ % (parts * 16) != 0) {
                --parts;
            }
            sk = parts > 1 ? k_ / parts : k_;
            used *= parts;
        }
    }
    int64_t Compute(TCubeTiling& t)
    {
        if (m_ <= 0 || n_ <= 0 || k_ <= 0) {
            m_ = orgM_;
            n_ = orgN_;
            k_ = orgKa_;
        }
        if (m_ <= 0 || n_ <= 0 || k_ <= 0) {
            return -1;
        }
        int32_t sm = m_, sn = n_, sk = k_, used = 1;
        Split(sm, sn, sk, used);
        const int32_t in = Bytes(a_.type), out = c_.type == DataType::DT_FLOAT16 || c_.type == DataType::DT_BF16 ? 2 : Bytes(c_.type);
        const int32_t kStep = 32 / in;
        int32_t bm = fixM_ > 0 ? fixM_ : BlockOf(sm, 128), bn = fixN_ > 0 ? fixN_ : BlockOf(sn, 256);
        const bool toUb = c_.pos == TPosition::VECIN || c_.pos == TPosition::VECCALC;
        while (fixM_ <= 0 && fixN_ <= 0 && toUb && ubSpace_ > 0 && int64_t(bm) * bn * out > ubSpace_ && (bm > 16 || bn > 16)) {
            (bn >= bm && bn > 16 ? bn : bm) /= 2;
            bm = std::max(Up(bm, 16), 16);
            bn = std::max(Up(bn, 16), 16);
        }
        int32_t bk = fixK_ > 0 ? fixK_ : std::min(Up(sk, kStep), std::max(kStep, 32 * 1024 / in / std::max(bm, bn) / kStep * kStep));
        if (int64_t(bm) * bn * 4 > 128 * 1024 || int64_t(bm) * bk * in > 64 * 1024 || int64_t(bn) * bk * in > 64 * 1024) {
            return -1;
        }
        baseM_ = bm;
        baseN_ = bn;
        baseK_ = bk;
        t = TCubeTiling();
        t.usedCoreNum = used;
        t.M = orgM_ > 0 ? orgM_ : m_;
        t.N = orgN_ > 0 ? orgN_ : n_;
        t.Ka = orgKa_ > 0 ? orgKa_ : k_;
        t.Kb = orgKb_ > 0 ? orgKb_ : k_;
        t.singleCoreM = sm;
        t.singleCoreN = sn;
        t.singleCoreK = sk;
        t.baseM = bm;
        t.baseN = bn;
        t.baseK = bk;
        t.stepM = t.stepN = 1;
        t.stepKa = t.stepKb = std::max(1, std::min(4, Div(sk, bk)));
        t.depthA1 = t.depthB1 = 2 * t.stepKa;
        t.isBias = isBias_ ? 1 : 0;
        t.iterateOrder = traverse_ == MatrixTraverse::FIRSTN ? 1 : 0;
        t.dbL0A = t.dbL0B = 2;
        t.dbL0C = int64_t(bm) * bn * 4 <= 64 * 1024 ? 2 : 1;
        t.shareL0CSize = bm * bn * 4;
        t.shareL1Size = (bm + bn) * bk * in * t.depthA1;
        t.shareUbSize = 0;
        t.batchM = t.batchN = t.singleBatchM = t.singleBatchN = 1;
        t.BatchNum = batchNum_;
        int32_t* const infos[3] = {&t.ALayoutInfoB, &t.BLayoutInfoB, &t.CLayoutInfoB};
        const int32_t* const given[3] = {layoutA_, layoutB_, layoutC_};
        for (int i = 0; i < 3; ++i) {
            memcpy(infos[i], given[i], 5 * sizeof(int32_t));
        }
        return 0;
    }

    Operand a_, b_, c_, bias_;
    int32_t m_ = 0, n_ = 0, k_ = 0, orgM_ = 0, orgN_ = 0, orgKa_ = 0, orgKb_ = 0, fixM_ = -1, fixN_ = -1, fixK_ = -1,
            ubSpace_ = -1, baseM_ = 0, baseN_ = 0, baseK_ = 0, singleM_ = -1, singleN_ = -1, singleK_ = -1, batchNum_ = 0;
    int32_t layoutA_[5] = {}, layoutB_[5] = {}, layoutC_[5] = {};
    bool isBias_ = false, splitK_ = false;
    MatrixTraverse traverse_ = MatrixTraverse::NOSET;
};

// One core.
class MatmulApiTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
};

// Several cores (in a mix kernel: vector cores).
class MultiCoreMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
    int32_t SetDim(int32_t dim)
    {
        dim_ = dim;
        return 0;
    }
    int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1)
    {
        singleM_ = m;
        singleN_ = n;
        singleK_ = k;
        return 0;
    }
    int32_t SetSingleRange(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
    int32_t SetAlignSplit(int32_t, int32_t, int32_t) { return 0; }
    void EnableMultiCoreSplitK(bool on) { splitK_ = on; }
    void SetSplitK(bool on) { splitK_ = on; }
    int32_t GetSingleShape(int32_t& m, int32_t& n, int32_t& k)
    {
        int32_t used;
        Split(m, n, k, used);
        return 0;
    }
    int32_t GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim)
    {
        int32_t m, n, k;
        Split(m, n, k, dim);
        mDim = Div(m_, m);
        nDim = Div(n_, n);
        return 0;
    }

protected:
    int32_t Cores() const override { return dim_; }
    int32_t dim_ = 1;
};

// Batches: the shape of one matrix comes from the layouts.
class BatchMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
    int32_t GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim, int32_t& batchM, int32_t& batchN)
    {
        dim = mDim = nDim = batchM = batchN = 1;
        return 0;
    }
};

}  // namespace matmul_tiling

#endif  // GAF_TWIN_MATMUL_TILING_H
