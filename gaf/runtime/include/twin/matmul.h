// SPDX-License-Identifier: Apache-2.0
// The high-level Matmul: C = A * B + bias of one core, block by block or at once, carried out where it is called.
//
// On the device a vector core sends every call to its cube core and (sync) waits for it. Here the calling core
// reads and writes the operands itself, ordered with all its pipes; a cube core beside vector cores has nothing
// to do. A call that is not synchronous is carried out when its result is waited for, so reading earlier finds
// the old content.
#ifndef GAF_TWIN_MATMUL_H
#define GAF_TWIN_MATMUL_H

#include <stdlib.h>

#include "twin/cube_forms.h"
#include "twin/matmul_config.h"
#include "twin/static.h"

namespace gaf_twin {

// Where an operand lies; local tensors and GM look the same to the product.
struct MatrixView {
    void* base = nullptr;
    check::View view;
    bool gm = true, trans = false, set = false, nz = false, scalar = false;
};

template <class T>
inline float MatrixValue(const T* p)
{
    return static_cast<float>(*p);
}

class MatmulScratch {
public:
    explicit MatmulScratch(uint64_t bytes) : p_(malloc(bytes == 0 ? 1 : bytes)) {}
    ~MatmulScratch() { free(p_); }
    MatmulScratch(const MatmulScratch&) = delete;
    MatmulScratch& operator=(const MatmulScratch&) = delete;
    template <class T>
    T* As()
    {
        return static_cast<T*>(p_);
    }

private:
    void* p_;
};

}  // namespace gaf_twin

namespace AscendC {

// Hooks of a program into the copies of Matmul; the twin moves data in one piece and can't call them.
template <auto DATA_COPY_OUT = nullptr, auto COPY_A1 = nullptr, auto COPY_B1 = nullptr>
struct MatmulCallBackFunc {
    static constexpr bool NONE = std::is_same<decltype(DATA_COPY_OUT), std::nullptr_t>::value &&
                                 std::is_same<decltype(COPY_A1), std::nullptr_t>::value &&
                                 std::is_same<decltype(COPY_B1), std::nullptr_t>::value;
};
template <const auto& MM_CFG, class IMPL, class A, class B, class C, class BIAS>
struct MatmulPolicy {
    static constexpr int TRIANGLE = 0;
};
// Schedules of the device. Results are the same, but for the triangles: blocks below (above) the diagonal of blocks
// are left out.
namespace Impl {
constexpr int32_t QUEUE_DEPTH = 1;
namespace Detail {
template <const auto& MM_CFG, class IMPL, class A, class B, class C, class BIAS>
struct NBuffer33MatmulPolicy : MatmulPolicy<MM_CFG, IMPL, A, B, C, BIAS> {
};
template <const auto& MM_CFG, class IMPL, class A, class B, class C, class BIAS>
struct SplitMMatmulPolicy : MatmulPolicy<MM_CFG, IMPL, A, B, C, BIAS> {
};
template <const auto& MM_CFG, class IMPL, class A, class B, class C, class BIAS>
struct TrianUpperMatmulPolicy {
    static constexpr int TRIANGLE = 1;
};
template <const auto& MM_CFG, class IMPL, class A, class B, class C, class BIAS>
struct TrianLowerMatmulPolicy {
    static constexpr int TRIANGLE = -1;
};
}  // namespace Detail
}  // namespace Impl

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class CALLBACK = MatmulCallBackFunc<>, template <const auto&, class, class, class, class, class> class POLICY = MatmulPolicy>
class Matmul {
    using AT = typename A_TYPE::T;
    using BT = typename B_TYPE::T;
    using CT = typename C_TYPE::T;
    using VT = typename BIAS_TYPE::T;
    static constexpr MatmulConfig CONFIG = gaf_twin::ConfigOf(MM_CFG);
    static_assert(CALLBACK::NONE, "Matmul: the twin does not support MatmulCallBackFunc");
    static constexpr bool INTEGER = std::is_same<AT, int8_t>::value;
    static constexpr int TRIANGLE = POLICY<MM_CFG, int, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>::TRIANGLE;

public:
    using IMPL = Matmul;
    static constexpr bool TWO_MASTERS = CONFIG.enableMixDualMaster;

    void Init(const TCubeTiling* tiling, TPipe* = nullptr)
    {
        if (tiling != nullptr) {
            tiling_ = *tiling;
        } else if (!gaf_twin::StaticTiling(MM_CFG, tiling_)) {
            gaf_twin::check::rule(false, "matmul-tiling", "Matmul", "no tiling was given");
        }
        orgM_ = tiling_.M;
        orgN_ = tiling_.N;
        orgKa_ = tiling_.Ka;
        orgKb_ = tiling_.Kb;
        orgKc_ = tiling_.N;
        singleM_ = tiling_.singleCoreM;
        singleN_ = tiling_.singleCoreN;
        singleK_ = tiling_.singleCoreK;
        ready_ = true;
        Restart();
    }
    void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k, n); }
    void SetOrgShape(int m, int n, int ka, int kb, int kc = 0)
    {
        orgM_ = m;
        orgN_ = n;
        orgKa_ = ka;
        orgKb_ = kb;
        orgKc_ = kc != 0 ? kc : n;
    }
    void SetSingleShape(int m, int n, int k)
    {
        singleM_ = m;
        singleN_ = n;
        singleK_ = k;
    }
    void SetTail(int m = -1, int n = -1, int k = -1)
    {
        singleM_ = m != -1 ? m : singleM_;
        singleN_ = n != -1 ? n : singleN_;
        singleK_ = k != -1 ? k : singleK_;
    }
    void SetTensorA(const GlobalTensor<AT>& gm, bool trans = false) { a_ = ViewOf(gm, trans, A_TYPE::format), Restart(); }
    void SetTensorB(const GlobalTensor<BT>& gm, bool trans = false) { b_ = ViewOf(gm, trans, B_TYPE::format), Restart(); }
    void SetTensorA(const LocalTensor<AT>& t, bool trans = false) { a_ = ViewOf(t, trans, A_TYPE::format), Restart(); }
    void SetTensorB(const LocalTensor<BT>& t, bool trans = false) { b_ = ViewOf(t, trans, B_TYPE::format), Restart(); }
    void SetTensorA(AT scalar)
    {
        scalarA_ = scalar;
        a_ = {&scalarA_, {}, false, false, true, false, true};
        Restart();
    }
    void SetTensorB(BT scalar)
    {
        scalarB_ = scalar;
        b_ = {&scalarB_, {}, false, false, true, false, true};
        Restart();
    }
    void SetBias(const GlobalTensor<VT>& gm) { bias_ = ViewOf(gm, false, CubeFormat::ND); }
    void SetBias(const LocalTensor<VT>& t) { bias_ = ViewOf(t, false, CubeFormat::ND); }
    void DisableBias() { bias_ = {}; }
    void ClearBias() { bias_ = {}; }
    void SetQuantScalar(const uint64_t scalar)
    {
        quantScalar_ = scalar;
        quantMode_ = 1;
    }
    void SetQuantVector(const GlobalTensor<uint64_t>& t)
    {
        quant_ = ViewOf(t, false, CubeFormat::ND);
        quantMode_ = 2;
    }
    void SetQuantVector(const LocalTensor<uint64_t>& t)
    {
        quant_ = ViewOf(t, false, CubeFormat::ND);
        quantMode_ = 2;
    }
    void SetHF32(bool = false, int32_t = 0) {}
    void SetSubBlockIdx(uint8_t) {}
    uint8_t GetSubBlockIdx() { return static_cast<uint8_t>(gaf_twin::Current().sub); }
    template <class T>
    void SetWorkspace(__gm__ T*, int)
    {
    }
    template <class T>
    void SetWorkspace(GlobalTensor<T>& workspace)
    {
        workspace_ = ViewOf(workspace, false, CubeFormat::ND);
    }
    void SetLocalWorkspace(const LocalTensor<uint8_t>&) {}
    template <class T>
    void SetSelfDefineData(T)
    {
    }
    void SetUserDefInfo(const uint64_t) {}
    void SetBatchNum(int32_t a, int32_t b)
    {
        batchA_ = a;
        batchB_ = b;
    }

    // The next block of baseM x baseN; false when there is none left. enPartialSum adds to the block's sums.
    template <bool sync = true>
    bool Iterate(bool enPartialSum = false)
    {
        if (!Executes()) {
            return false;
        }
        const int all = Steps();
        if (!sync) {  // the device works on; the results come one by one with GetTensorC
            const bool first = !async_;
            async_ = true;
            return first;
        }
        do {
            if (++at_ >= all) {
                Restart();
                return false;
            }
        } while (LeftOut(BlockAt(at_)));
        partial_ = enPartialSum;
        return true;
    }
    // The next block straight into L0C, where C_TYPE says CO1.
    template <bool sync = true, class T>
    bool Iterate(bool enPartialSum, const LocalTensor<T>& l0c)
    {
        static_assert(C_TYPE::format == CubeFormat::NZ && std::is_same<T, CT>::value, "Matmul: L0C holds C as Nz");
        if (!Iterate<true>(enPartialSum)) {
            return false;
        }
        const Block k = BlockAt(at_);
        Product(k, l0c.GetPhyAddr(), l0c.View(), false, 0, k.n, 0, k.m, 0, 0);
        return true;
    }
    template <bool sync = true>
    void GetTensorC(const GlobalTensor<CT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false)
    {
        if (Executes() && NextAsync()) {
            const Block k = BlockAt(at_);
            const uint64_t offset = enSequentialWrite ? 0 : C_TYPE::format == CubeFormat::NZ ? 0 : uint64_t(k.m0) * Pitch() + k.n0;
            Product(k, gm.GetPhyAddr(), gm.View(), true, offset, enSequentialWrite ? k.n : Pitch(), enAtomic,
                    enSequentialWrite ? k.m : orgM_, enSequentialWrite ? 0 : k.n0, enSequentialWrite ? 0 : k.m0);
        }
    }
    template <bool sync = true, bool doPad = false>
    void GetTensorC(const LocalTensor<CT>& c, uint8_t enAtomic = 0, bool = false, uint32_t = 0, uint32_t = 0,
                    uint32_t = 0, uint32_t = 0)
    {
        if (Executes() && NextAsync()) {
            const Block k = BlockAt(at_);
            const uint32_t pitch = gaf_twin::RoundUp(static_cast<uint32_t>(k.n), gaf_twin::BLK<CT>);
            Product(k, c.GetPhyAddr(), c.View(), false, 0, pitch, enAtomic, k.m, 0, 0);
        }
    }
    // Both at once.
    template <bool sync = true>
    void GetTensorC(const GlobalTensor<CT>& gm, const LocalTensor<CT>& c, uint8_t enAtomic = 0,
                    bool enSequentialWrite = false)
    {
        const bool async = async_;
        GetTensorC<sync>(c, enAtomic, enSequentialWrite);
        async_ = false;
        GetTensorC<sync>(gm, enAtomic, enSequentialWrite);
        async_ = async;
    }
    void AsyncGetTensorC(const LocalTensor<CT>& c) { GetTensorC<false>(c); }
    void WaitGetTensorC() {}
    template <bool isTurnOnDebug = true>
    MatrixOffset GetOffsetC()
    {
        const Block k = BlockAt(at_ < 0 ? 0 : at_);
        return {k.m0 * orgN_ + k.n0, k.m0, k.n0, k.m, k.n};
    }

    // All blocks. Not synchronous: done by WaitIterateAll or End.
    template <bool sync = true>
    void IterateAll(const GlobalTensor<CT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false,
                    bool waitIterateAll = false, bool = false)
    {
        if (!Executes()) {
            return;
        }
        if (!sync && waitIterateAll) {
            pendingGm_ = gm;
            pendingAtomic_ = enAtomic;
            pendingSequential_ = enSequentialWrite;
            pending_ = true;
            return;
        }
        All(gm.GetPhyAddr(), gm.View(), true, enAtomic, enSequentialWrite);
    }
    template <bool sync = true>
    void IterateAll(const LocalTensor<CT>& c, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool = false)
    {
        if (Executes()) {
            All(c.GetPhyAddr(), c.View(), false, enAtomic, enSequentialWrite);
        }
    }
    void WaitIterateAll()
    {
        if (pending_) {
            pending_ = false;
            All(pendingGm_.GetPhyAddr(), pendingGm_.View(), true, pendingAtomic_, pendingSequential_);
        }
    }

    // A batch of products. matrixStride*: distance of matrices, 0: as the layout says.
    template <bool sync = true, bool waitIterateBatch = false>
    void IterateBatch(const GlobalTensor<CT>& gm, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                      const uint32_t strideA = 0, const uint32_t strideB = 0, const uint32_t strideC = 0,
                      const bool = false, const uint8_t enAtomic = 0)
    {
        if (Executes()) {
            Batch(gm.GetPhyAddr(), gm.View(), true, batchA, batchB, enSequentialWrite, strideA, strideB, strideC, enAtomic, 0);
        }
    }
    template <bool sync = true>
    void IterateBatch(const LocalTensor<CT>& c, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                      const uint32_t strideA = 0, const uint32_t strideB = 0, const uint32_t strideC = 0,
                      const bool = false, const uint8_t enAtomic = 0)
    {
        if (Executes()) {
            Batch(c.GetPhyAddr(), c.View(), false, batchA, batchB, enSequentialWrite, strideA, strideB, strideC, enAtomic, 0);
        }
    }
    void WaitIterateBatch() {}
    // `loops` batches one after the other; their results are fetched with GetBatchTensorC.
    template <bool sync = true, bool waitIterateBatch = false>
    void IterateNBatch(const uint32_t loops, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                       const uint32_t strideA = 0, const uint32_t strideB = 0, const uint32_t strideC = 0,
                       const bool = false, const uint8_t enAtomic = 0)
    {
        if (!Executes()) {
            return;
        }
        nBatch_ = 0;
        nBatchLoops_ = loops;
        const uint64_t batch = batchA > batchB ? batchA : batchB;
        for (uint32_t l = 0; l < loops; ++l) {  // one matrix after the other, or as the layout of C says
            const uint64_t apart = enSequentialWrite ? batch * uint64_t(singleM_) * singleN_ : 0;
            Batch(static_cast<CT*>(workspace_.base) + l * apart, workspace_.view, true, batchA, batchB, enSequentialWrite, strideA,
                  strideB, strideC, enAtomic, l);
        }
    }
    template <bool sync = true>
    GlobalTensor<CT> GetBatchTensorC(uint32_t batchA, uint32_t batchB, bool = false)
    {
        GlobalTensor<CT> c;
        const uint64_t batch = batchA > batchB ? batchA : batchB, size = batch * uint64_t(singleM_) * singleN_;
        c.SetGlobalBuffer(static_cast<CT*>(workspace_.base) + nBatch_ * size, size);
        ++nBatch_;
        return c;
    }
    template <bool sync = true>
    GlobalTensor<CT> GetBatchC(uint32_t batchA, uint32_t batchB, bool enSequentialWrite = false)
    {
        return GetBatchTensorC<sync>(batchA, batchB, enSequentialWrite);
    }
    void End()
    {
        WaitIterateAll();
        Restart();
    }

private:
    struct Block {
        int m0, n0, m, n, k0, k;
    };

    template <class TENSOR>
    static gaf_twin::MatrixView ViewOf(const TENSOR& t, bool trans, CubeFormat format)
    {
        gaf_twin::MatrixView v;
        v.base = const_cast<void*>(static_cast<const void*>(t.GetPhyAddr()));
        v.view = t.View();
        v.gm = std::is_same<TENSOR, GlobalTensor<typename TENSOR::PrimType>>::value;
        v.trans = trans;
        v.set = true;
        v.nz = format == CubeFormat::NZ;
        return v;
    }
    static int Blocks(int whole, int base) { return base <= 0 ? 1 : (whole + base - 1) / base; }
    int Pitch() const
    {
        return C_TYPE::format == CubeFormat::ND_ALIGN
                   ? static_cast<int>(gaf_twin::RoundUp(static_cast<uint32_t>(orgKc_), gaf_twin::BLK<CT>))
                   : orgKc_;
    }
    void Restart()
    {
        at_ = -1;
        async_ = false;
    }
    // Whether this core carries the product out (two masters: the cube core does).
    bool Executes()
    {
        gaf_twin::check::rule(ready_, "matmul-init", "Matmul", "REGIST_MATMUL_OBJ has not been called for the object");
        if (!ready_) {
            gaf_twin::Abandon("matmul-init", "a Matmul object is used before REGIST_MATMUL_OBJ");
        }
        return !CONFIG.enableMixDualMaster || gaf_twin::Current().kind == gaf_twin::CoreKind::AIC;
    }
    bool NextAsync()
    {
        if (async_) {
            ++at_;
        }
        const int all = Steps();
        return gaf_twin::check::rule(at_ >= 0 && at_ < all, "matmul-iterate", "GetTensorC",
                                     "no block has been computed (Iterate comes first)") &&
               at_ >= 0 && at_ < all;
    }
    // Blocks that Iterate walks: with partial output every baseK of k is one of its own.
    int Steps() const
    {
        return Blocks(singleM_, tiling_.baseM) * Blocks(singleN_, tiling_.baseN) *
               (CONFIG.isPartialOutput ? Blocks(singleK_, tiling_.baseK) : 1);
    }
    // Block number `i` in the order of the tiling: along M first, or along N.
    Block BlockAt(int i) const
    {
        const int rows = Blocks(singleM_, tiling_.baseM), cols = Blocks(singleN_, tiling_.baseN);
        const bool byN = CONFIG.iterateOrder == IterateOrder::ORDER_N ||
                         (CONFIG.iterateOrder == IterateOrder::UNDEF && tiling_.iterateOrder == 1);
        const int parts = CONFIG.isPartialOutput ? Blocks(singleK_, tiling_.baseK) : 1, part = i % parts;
        i /= parts;
        const int r = byN ? i / cols : i % rows, c = byN ? i % cols : i / rows;
        Block b;
        b.k0 = part * tiling_.baseK;
        b.k = parts == 1 ? singleK_ : singleK_ - b.k0 < tiling_.baseK ? singleK_ - b.k0 : tiling_.baseK;
        b.m0 = r * tiling_.baseM;
        b.n0 = c * tiling_.baseN;
        b.m = singleM_ - b.m0 < tiling_.baseM ? singleM_ - b.m0 : tiling_.baseM;
        b.n = singleN_ - b.n0 < tiling_.baseN ? singleN_ - b.n0 : tiling_.baseN;
        return b;
    }
    // Triangles count in blocks.
    bool LeftOut(const Block& k) const
    {
        const int row = TRIANGLE == 0 ? 0 : k.m0 / tiling_.baseM, column = TRIANGLE == 0 ? 0 : k.n0 / tiling_.baseN;
        return TRIANGLE > 0 ? row > column : row < column;
    }
    void All(CT* c, gaf_twin::check::View view, bool gm, uint8_t atomic, bool sequential)
    {
        if (sequential && gm) {  // block after block, as if each were a matrix of its own
            const int blocks = Blocks(singleM_, tiling_.baseM) * Blocks(singleN_, tiling_.baseN);
            uint64_t offset = 0;
            for (int i = 0; i < blocks; ++i) {
                const Block k = BlockAt(i);
                Product(k, c, view, gm, offset, k.n, atomic, k.m, 0, 0);
                offset += uint64_t(tiling_.baseM) * tiling_.baseN;
            }
        } else if (TRIANGLE != 0) {
            for (int i = 0; i < Blocks(singleM_, tiling_.baseM) * Blocks(singleN_, tiling_.baseN); ++i) {
                const Block k = BlockAt(i);
                if (!LeftOut(k)) {
                    Product(k, c, view, gm, uint64_t(k.m0) * Pitch() + k.n0, Pitch(), atomic, orgM_, k.n0, k.m0);
                }
            }
        } else {
            Product({0, 0, singleM_, singleN_, 0, singleK_}, c, view, gm, 0,
                    gm ? Pitch() : static_cast<int>(gaf_twin::RoundUp(static_cast<uint32_t>(singleN_), gaf_twin::BLK<CT>)),
                    atomic, gm ? orgM_ : singleM_, 0, 0);
        }
        Restart();
    }

    // ---- operands -----------------------------------------------------------------------------------------
    // Announces rows x cols elements of a matrix, the first of which is (row0, col0); `pitch` in elements.
    template <class T>
    bool TouchMatrix(const char* operand, const gaf_twin::MatrixView& v, const T* p, uint64_t rows, uint64_t cols,
                     uint64_t row0, uint64_t col0, uint64_t pitch, uint64_t nzRows) const
    {
        using gaf_twin::Pipe;
        const gaf_twin::Core& core = gaf_twin::Current();
        const Pipe pipe = v.gm ? Pipe::MTE2 : core.kind == gaf_twin::CoreKind::AIC ? Pipe::MTE1 : Pipe::MTE3;
        gaf_twin::check::op(pipe, "Matmul");
        if (v.nz) {
            constexpr uint64_t c0 = 32 / sizeof(T);
            return gaf_twin::Touch(pipe, "Matmul", operand, false, p + (col0 / c0 * nzRows + row0) * c0, rows * 32,
                                   static_cast<uint32_t>((cols + c0 - 1) / c0), static_cast<int64_t>(nzRows * 32), 0, v.view);
        }
        return gaf_twin::Touch(pipe, "Matmul", operand, false, p + row0 * pitch + col0, cols * sizeof(T),
                               static_cast<uint32_t>(rows), static_cast<int64_t>(pitch * sizeof(T)), sizeof(T), v.view);
    }
    // A dense row-major copy of rows x cols from (row0, col0) of an operand.
    template <class T>
    void Gather(T* out, const gaf_twin::MatrixView& v, const T* p, int rows, int cols, int row0, int col0, uint64_t pitch,
                uint64_t nzRows) const
    {
        constexpr int c0 = 32 / sizeof(T);
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < cols; ++j) {
                const uint64_t r = static_cast<uint64_t>(row0 + i), c = static_cast<uint64_t>(col0 + j);
                out[uint64_t(i) * cols + j] = v.scalar ? *p : v.nz ? p[(c / c0 * nzRows + r) * c0 + c % c0] : p[r * pitch + c];
            }
        }
    }
    template <class T>
    static uint64_t NzRows(uint64_t rows, bool gm)
    {
        (void)gm;
        return gaf_twin::RoundUp(static_cast<uint32_t>(rows), sizeof(T) == 1 ? 32 : 16);
    }

    // C of `block` = A * B + bias, written at element `offset` of c with rows `pitch` apart.
    void Product(const Block& block, CT* c, gaf_twin::check::View view, bool gm, uint64_t offset, int pitch,
                 uint8_t atomic, int nzRowsC, int nzCol0, int nzRow0)
    {
        const AT* a = static_cast<const AT*>(a_.base);
        const BT* b = static_cast<const BT*>(b_.base);
        ProductOf(block, a, b, static_cast<const VT*>(bias_.base), c, view, gm, offset, pitch, atomic, nzRowsC, nzCol0, nzRow0,
                  a_.gm ? (a_.trans ? orgM_ : orgKa_) : LocalPitch<AT>(a_.trans ? singleM_ : singleK_),
                  b_.gm ? (b_.trans ? orgKb_ : orgN_) : LocalPitch<BT>(b_.trans ? singleK_ : singleN_));
    }
    template <class T>
    static int LocalPitch(int n)
    {
        return static_cast<int>(gaf_twin::RoundUp(static_cast<uint32_t>(n), gaf_twin::BLK<T>));
    }
    void ProductOf(const Block& block, const AT* a, const BT* b, const VT* bias, CT* c, gaf_twin::check::View view,
                   bool gm, uint64_t offset, int pitch, uint8_t atomic, int nzRowsC, int nzCol0, int nzRow0, int lda,
                   int ldb)
    {
        using gaf_twin::Pipe;
        const int m = block.m, n = block.n, k = block.k;
        gaf_twin::check::rule(a_.set && b_.set, "matmul-operand", "Matmul", "SetTensorA and SetTensorB come before a product");
        if (!a_.set || !b_.set || m <= 0 || n <= 0 || k <= 0) {
            return;
        }
        gaf_twin::check::rule(A_TYPE::format != CubeFormat::VECTOR || m == 1, "matmul-shape", "Matmul",
                              "a vector A has one row, not %d", m);
        gaf_twin::check::barrier(Pipe::ALL);
        // Operands as they lie in memory: A is [M, K] or, transposed, [K, M].
        const uint64_t aRows = a_.gm ? (a_.trans ? orgKa_ : orgM_) : (a_.trans ? singleK_ : singleM_);
        const uint64_t bRows = b_.gm ? (b_.trans ? orgN_ : orgKb_) : (b_.trans ? singleN_ : singleK_);
        const bool ok =
            (a_.scalar || TouchMatrix("A", a_, a, a_.trans ? k : m, a_.trans ? m : k, a_.trans ? block.k0 : block.m0,
                                      a_.trans ? block.m0 : block.k0, lda, NzRows<AT>(aRows, a_.gm))) &&
            (b_.scalar || TouchMatrix("B", b_, b, b_.trans ? n : k, b_.trans ? k : n, b_.trans ? block.n0 : block.k0,
                                      b_.trans ? block.k0 : block.n0, ldb, NzRows<BT>(bRows, b_.gm))) &&
            (!bias_.set || TouchMatrix("bias", bias_, bias, 1, n, 0, block.n0, n, 1)) &&
            (quantMode_ != 2 || TouchMatrix("quant", quant_, static_cast<const uint64_t*>(quant_.base), 1, n, 0, block.n0, n, 1));
        if (!ok) {
            return;
        }
        // Gemm completes rows with zeros to 16 columns: the next row, or the slack, takes them.
        gaf_twin::MatmulScratch sumBytes((uint64_t(m) * n + 16) * 4), aBytes(uint64_t(m) * k * sizeof(AT)),
            bBytes(uint64_t(n) * k * sizeof(BT));
        AT* da = aBytes.As<AT>();
        BT* db = bBytes.As<BT>();
        Gather(da, a_, a, a_.trans ? k : m, a_.trans ? m : k, a_.trans ? block.k0 : block.m0,
               a_.trans ? block.m0 : block.k0, lda,
               NzRows<AT>(aRows, a_.gm));
        Gather(db, b_, b, b_.trans ? n : k, b_.trans ? k : n, b_.trans ? block.n0 : block.k0,
               b_.trans ? block.k0 : block.n0, ldb,
               NzRows<BT>(bRows, b_.gm));
        if constexpr (INTEGER) {
            int32_t* sums = sumBytes.As<int32_t>();
            for (int i = 0; i < m; ++i) {
                for (int j = 0; j < n; ++j) {
                    int32_t s = bias_.set ? static_cast<int32_t>(bias[block.n0 + j]) : 0;
                    for (int q = 0; q < k; ++q) {
                        s += static_cast<int32_t>(da[a_.trans ? uint64_t(q) * m + i : uint64_t(i) * k + q]) *
                             static_cast<int32_t>(db[b_.trans ? uint64_t(j) * k + q : uint64_t(q) * n + j]);
                    }
                    sums[uint64_t(i) * n + j] = s;
                }
            }
            Store(block, sums, c, view, gm, offset, pitch, atomic, nzRowsC, nzCol0, nzRow0);
        } else {
            static_assert(std::is_same<AT, BT>::value && gaf_twin::OneOf<AT, half, bfloat16_t, float>,
                          "Matmul: A2 takes half, bfloat16_t, float or int8_t");
            float* sums = sumBytes.As<float>();
            gaf_twin::rt::Gemm(sums, gaf_twin::rt::Num::F32, n, da, db, gaf_twin::NumOf<AT>(), a_.trans, a_.trans ? m : k,
                               b_.trans, b_.trans ? k : n, m, n, k);
            for (int i = 0; bias_.set && i < m; ++i) {
                for (int j = 0; j < n; ++j) {
                    sums[uint64_t(i) * n + j] += static_cast<float>(bias[block.n0 + j]);
                }
            }
            Store(block, sums, c, view, gm, offset, pitch, atomic, nzRowsC, nzCol0, nzRow0);
        }
        gaf_twin::check::barrier(Pipe::ALL);
    }
    template <class SUM>
    CT Result(SUM v, int column) const
    {
        constexpr bool narrow = sizeof(CT) < 4 && !std::is_same<SUM, float>::value;
        if (narrow || (sizeof(CT) == 1)) {
            const uint64_t word = quantMode_ == 2 ? static_cast<const uint64_t*>(quant_.base)[column] : quantScalar_;
            gaf_twin::check::rule(quantMode_ != 0, "matmul-quant", "Matmul",
                                  "this pair of types needs SetQuantScalar or SetQuantVector");
            return gaf_twin::QuantValue<CT>(v, sizeof(CT) == 1 ? QuantMode_t::REQ8 : QuantMode_t::DEQF16,
                                            gaf_twin::QuantOf(word), CONFIG.enableRelu);
        }
        return static_cast<CT>(CONFIG.enableRelu && !(v > SUM(0)) ? SUM(0) : v);
    }
    template <class SUM>
    void Store(const Block& block, const SUM* sums, CT* c, gaf_twin::check::View view, bool gm, uint64_t offset,
               int pitch, uint8_t atomic, int nzRowsC, int nzCol0, int nzRow0)
    {
        using gaf_twin::Pipe;
        const int m = block.m, n = block.n;
        gaf_twin::Core& core = gaf_twin::Current();
        const Pipe pipe = C_TYPE::pos == TPosition::CO1 ? Pipe::M : !gm ? Pipe::MTE2 : core.kind == gaf_twin::CoreKind::AIC ? Pipe::FIX : Pipe::MTE3;
        const gaf_twin::AtomicOp before = core.atomicOp;
        const uint8_t beforeType = core.atomicType;
        if (atomic != 0 && gm) {
            gaf_twin::SetAtomic<CT>(atomic == 1   ? gaf_twin::AtomicOp::ADD
                                    : atomic == 2 ? gaf_twin::AtomicOp::MAX
                                                  : gaf_twin::AtomicOp::MIN);
        }
        gaf_twin::check::op(pipe, "Matmul");
        gaf_twin::MatmulScratch rowBytes(uint64_t(n) * sizeof(CT));
        CT* row = rowBytes.As<CT>();
        bool ok = true;
        if (C_TYPE::format == CubeFormat::NZ) {
            constexpr int width = CONFIG.isEnableChannelSplit ? 8 : sizeof(CT) == 1 ? 32 : 16;
            const uint64_t rows = gaf_twin::RoundUp(static_cast<uint32_t>(nzRowsC), 16);
            for (int j0 = 0; ok && j0 < n; j0 += width) {
                const int w = n - j0 < width ? n - j0 : width;
                CT* to = c + (uint64_t(nzCol0 + j0) / width * rows + nzRow0) * width;
                ok = gaf_twin::Touch(pipe, "Matmul", "C", true, to, uint64_t(m) * width * sizeof(CT), 1, 0, 32, view);
                for (int i = 0; ok && i < m; ++i) {
                    for (int j = 0; j < w; ++j) {
                        row[j] = Result(sums[uint64_t(i) * n + j0 + j], block.n0 + j0 + j);
                    }
                    Write(to + uint64_t(i) * width, row, w, gm);
                }
            }
        } else {
            ok = gaf_twin::Touch(pipe, "Matmul", "C", true, c + offset, n * sizeof(CT), static_cast<uint32_t>(m),
                                 int64_t(pitch) * int64_t(sizeof(CT)), gm ? sizeof(CT) : 32, view);
            for (int i = 0; ok && i < m; ++i) {
                CT* to = c + offset + uint64_t(i) * pitch;
                for (int j = 0; j < n; ++j) {
                    const SUM v = sums[uint64_t(i) * n + j];
                    row[j] = Result(v, block.n0 + j);
                    if (partial_) {
                        row[j] = static_cast<CT>(row[j] + to[j]);
                    }
                }
                Write(to, row, n, gm);
            }
        }
        if (atomic != 0 && gm) {
            core.atomicOp = before;
            core.atomicType = beforeType;
            gaf_twin::check::atomicMode(before != gaf_twin::AtomicOp::NONE);
        }
    }
    static void Write(CT* to, const CT* row, int n, bool gm)
    {
        if (gm) {
            gaf_twin::StoreRuns(to, row, uint64_t(n) * sizeof(CT), 1, 0, 0);
        } else {
            memcpy(to, row, uint64_t(n) * sizeof(CT));
        }
    }

    // ---- batches ------------------------------------------------------------------------------------------
    // Distance of two matrices of a batch and of two rows of one, in elements. `rows`, `cols` of one matrix; the
    // layouts B S N G D have N * G matrices side by side in a row.
    struct BatchLayout {
        uint64_t matrix, pitch;
    };
    static BatchLayout LayoutOf(LayoutMode mode, uint64_t rows, uint64_t cols, uint64_t n, uint64_t g, uint64_t b)
    {
        const uint64_t ng = (n == 0 ? 1 : n) * (g == 0 ? 1 : g);
        if (mode == LayoutMode::BSNGD) {
            return {cols, ng * cols};
        }
        if (mode == LayoutMode::SBNGD) {
            return {cols, (b == 0 ? 1 : b) * ng * cols};
        }
        return {rows * cols, cols};  // BNGS1S2, NORMAL
    }
    void Batch(CT* c, gaf_twin::check::View view, bool gm, uint32_t batchA, uint32_t batchB, bool sequential,
               uint32_t strideA, uint32_t strideB, uint32_t strideC, uint8_t atomic, uint32_t loop)
    {
        const uint32_t batch = batchA > batchB ? batchA : batchB;
        gaf_twin::check::rule(batchA != 0 && batchB != 0 && (batch % batchA == 0 && batch % batchB == 0), "matmul-batch",
                              "IterateBatch", "batches of %u and %u", batchA, batchB);
        if (batchA == 0 || batchB == 0) {
            return;
        }
        const uint64_t aRows = a_.trans ? singleK_ : singleM_, aCols = a_.trans ? singleM_ : singleK_,
                       bRows = b_.trans ? singleN_ : singleK_, bCols = b_.trans ? singleK_ : singleN_;
        BatchLayout la = LayoutOf(A_TYPE::layout, aRows, aCols, tiling_.ALayoutInfoN, tiling_.ALayoutInfoG, tiling_.ALayoutInfoB),
                    lb = LayoutOf(B_TYPE::layout, bRows, bCols, tiling_.BLayoutInfoN, tiling_.BLayoutInfoG, tiling_.BLayoutInfoB),
                    lc = LayoutOf(C_TYPE::layout, singleM_, singleN_, tiling_.CLayoutInfoN, tiling_.CLayoutInfoG, tiling_.CLayoutInfoB);
        if (sequential) {
            lc = {uint64_t(singleM_) * singleN_, static_cast<uint64_t>(singleN_)};
        }
        la.matrix = strideA != 0 ? strideA : la.matrix;
        lb.matrix = strideB != 0 ? strideB : lb.matrix;
        lc.matrix = strideC != 0 ? strideC : lc.matrix;
        const Block whole{0, 0, singleM_, singleN_, 0, singleK_};
        for (uint32_t i = 0; i < batch; ++i) {
            const uint64_t ia = uint64_t(loop) * batchA + i / (batch / batchA), ib = uint64_t(loop) * batchB + i / (batch / batchB);
            const VT* bias = static_cast<const VT*>(bias_.base);
            if (bias != nullptr && CONFIG.isBiasBatch) {
                bias += (uint64_t(loop) * batch + i) * static_cast<uint64_t>(singleN_);
            }
            ProductOf(whole, static_cast<const AT*>(a_.base) + ia * la.matrix, static_cast<const BT*>(b_.base) + ib * lb.matrix,
                      bias, c, view, gm, (sequential ? i : uint64_t(loop) * batch + i) * lc.matrix, static_cast<int>(lc.pitch), atomic, singleM_, 0, 0,
                      static_cast<int>(la.pitch), static_cast<int>(lb.pitch));
        }
    }

    TCubeTiling tiling_;
    int orgM_ = 0, orgN_ = 0, orgKa_ = 0, orgKb_ = 0, orgKc_ = 0, singleM_ = 0, singleN_ = 0, singleK_ = 0;
    gaf_twin::MatrixView a_, b_, bias_, quant_, workspace_;
    AT scalarA_ = AT(0);
    BT scalarB_ = BT(0);
    uint64_t quantScalar_ = 0;
    int quantMode_ = 0, at_ = -1;
    int32_t batchA_ = 1, batchB_ = 1;
    uint32_t nBatch_ = 0, nBatchLoops_ = 0;
    bool ready_ = false, async_ = false, partial_ = false, pending_ = false, pendingSequential_ = false;
    uint8_t pendingAtomic_ = 0;
    GlobalTensor<CT> pendingGm_;
};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class CALLBACK = MatmulCallBackFunc<>>
using MatmulImpl = Matmul<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, CALLBACK>;

}  // namespace AscendC

namespace gaf_twin {

template <class MM>
inline auto RegisterMatmul(AscendC::TPipe* pipe, MM& mm) -> decltype(mm.Init(nullptr))
{
    mm.Init(static_cast<const TCubeTiling*>(nullptr), pipe);
}
template <class MM, class... REST>
inline void RegisterMatmul(AscendC::TPipe* pipe, MM& mm, const TCubeTiling* tiling, REST&&... rest)
{
    mm.Init(tiling, pipe);
    if constexpr (sizeof...(REST) > 0) {
        RegisterMatmul(pipe, rest...);
    }
}
inline void CheckMatmulOrder()
{
    check::rule(Current().used[static_cast<uint32_t>(Hardware::UB)] == 0, "matmul-order", "REGIST_MATMUL_OBJ",
                "it must come before the first InitBuffer");
}
// Whether the cube core runs the kernel as well (enableMixDualMaster) instead of serving the vector cores.
template <class MM, class... REST>
constexpr bool MatmulTwoMasters(const MM&, const REST&...)
{
    return MM::TWO_MASTERS;
}

}  // namespace gaf_twin

#endif  // GAF_TWIN_MATMUL_H
