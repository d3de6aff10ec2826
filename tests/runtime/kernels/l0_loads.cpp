// SPDX-License-Identifier: Apache-2.0
// c[m, n] = A * B of one L0 tile, every way to bring an operand from L1 to L0, written with basic calls.
//
// m, n, k are multiples of 32. load 0: LoadData 2D (with ifTranspose where the operand needs it, 16-bit
// only); 1: LoadData 3D; 2: LoadDataWithTranspose for the operand that needs a transpose (float: L1 in Zz
// order).
#include "kernel_operator.h"
using namespace AscendC;

struct L0LoadsTiling {
    uint32_t type;  // 0 float, 1 half, 2 int8
    uint32_t load;
    uint32_t ta, tb;  // A stored [k, m], B stored [n, k]
    uint32_t m, n, k;
    uint32_t bias;  // 1: C starts from a bias row in the bias table
};

template <class T, class C>
class L0Loads {
public:
    __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const L0LoadsTiling& t)
    {
        t_ = t;
        TPipe pipe;
        TQue<TPosition::A1, 1> a1q;
        TQue<TPosition::B1, 1> b1q;
        TQue<TPosition::A2, 1> a2q;
        TQue<TPosition::B2, 1> b2q;
        TQue<TPosition::CO1, 1> cq;
        TQue<TPosition::C1, 1> c1q;
        TQue<TPosition::C2, 1> c2q;
        pipe.InitBuffer(a1q, 1, t.m * t.k * sizeof(T));
        pipe.InitBuffer(b1q, 1, t.k * t.n * sizeof(T));
        pipe.InitBuffer(a2q, 1, t.m * t.k * sizeof(T));
        pipe.InitBuffer(b2q, 1, t.k * t.n * sizeof(T));
        pipe.InitBuffer(cq, 1, t.m * t.n * 4);
        pipe.InitBuffer(c1q, 1, t.n * 4);
        pipe.InitBuffer(c2q, 1, t.n * 4);
        GlobalTensor<T> aGm, bGm;
        GlobalTensor<C> cGm, biasGm;
        aGm.SetGlobalBuffer((__gm__ T*)a, t.m * t.k);
        bGm.SetGlobalBuffer((__gm__ T*)b, t.k * t.n);
        biasGm.SetGlobalBuffer((__gm__ C*)bias, t.n);
        cGm.SetGlobalBuffer((__gm__ C*)c, t.m * t.n);

        LocalTensor<T> a1 = a1q.template AllocTensor<T>(), b1 = b1q.template AllocTensor<T>();
        ToL1(a1, aGm, t.ta ? t.k : t.m, t.ta ? t.m : t.k, t.ta != 0);
        ToL1(b1, bGm, t.tb ? t.n : t.k, t.tb ? t.k : t.n, t.tb == 0);
        a1q.EnQue(a1);
        b1q.EnQue(b1);
        a1 = a1q.template DeQue<T>();
        b1 = b1q.template DeQue<T>();
        LocalTensor<T> a2 = a2q.template AllocTensor<T>(), b2 = b2q.template AllocTensor<T>();
        LoadA(a2, a1);
        LoadB(b2, b1);
        a2q.EnQue(a2);
        b2q.EnQue(b2);
        a2 = a2q.template DeQue<T>();
        b2 = b2q.template DeQue<T>();
        LocalTensor<C> acc = cq.template AllocTensor<C>();
        MmadParams p;
        p.m = t.m;
        p.n = t.n;
        p.k = t.k;
        if (t.bias != 0) {
            LocalTensor<C> row1 = c1q.template AllocTensor<C>();
            DataCopy(row1, biasGm, t.n);
            c1q.EnQue(row1);
            row1 = c1q.template DeQue<C>();
            LocalTensor<C> row2 = c2q.template AllocTensor<C>();
            DataCopy(row2, row1, DataCopyParams{1, static_cast<uint16_t>(t.n * 4 / 64), 0, 0});
            c2q.EnQue(row2);
            row2 = c2q.template DeQue<C>();
            Mmad(acc, a2, b2, row2, p);
            c1q.FreeTensor(row1);
            c2q.FreeTensor(row2);
        } else {
            Mmad(acc, a2, b2, p);
        }
        cq.EnQue(acc);
        acc = cq.template DeQue<C>();
        FixpipeParamsV220 f(t.n, t.m, t.m, t.n, false);
        Fixpipe<C, C, CFG_ROW_MAJOR>(cGm, acc, f);
        cq.FreeTensor(acc);
        a1q.FreeTensor(a1);
        b1q.FreeTensor(b1);
        a2q.FreeTensor(a2);
        b2q.FreeTensor(b2);
    }

private:
    static constexpr uint32_t C0 = 32 / sizeof(T), FRAC = 16 * C0;

    // Nz, or for a float operand that LoadDataWithTranspose will turn: Zz, one band of 16 rows after the
    // other.
    __aicore__ inline void ToL1(const LocalTensor<T>& l1, const GlobalTensor<T>& gm, uint32_t rows,
                                uint32_t cols, bool turned)
    {
        if (sizeof(T) == 4 && turned && t_.load == 2) {
            Nd2NzParams p(rows / 16, 16, cols, 16 * cols, cols, 16, 1, 16 * cols);
            DataCopy(l1, gm, p);
        } else {
            Nd2NzParams p(1, rows, cols, 0, cols, rows, 1, 0);
            DataCopy(l1, gm, p);
        }
    }
    __aicore__ inline void Image(const LocalTensor<T>& l0, const LocalTensor<T>& l1, uint32_t rows,
                                 uint32_t cols, bool transpose)
    {
        LoadData3DParamsV2<T> p;
        p.l1H = 1;
        p.l1W = rows;
        p.channelSize = cols;
        p.kExtension = cols;
        p.mExtension = rows;
        p.enTranspose = transpose;
        LoadData(l0, l1, p);
    }
    __aicore__ inline void LoadA(const LocalTensor<T>& a2, const LocalTensor<T>& a1)
    {
        const uint32_t m = t_.m, k = t_.k;
        if (t_.load == 1) {
            Image(a2, a1, t_.ta ? k : m, t_.ta ? m : k, t_.ta != 0);
        } else if (t_.ta == 0) {  // Nz -> Zz, fractals as they are
            for (uint32_t i = 0; i < m / 16; ++i) {
                LoadData2DParams p;
                p.repeatTimes = k / C0;
                p.srcStride = m / 16;
                LoadData(a2[i * 16 * k], a1[i * FRAC], p);
            }
        } else if (t_.load ==
                   0) {  // [k, m] in Nz: column band of 16 m holds k / 16 fractals, each to be turned
            for (uint32_t i = 0; i < m / 16; ++i) {
                LoadData2DParams p;
                p.repeatTimes = k / 16;
                p.srcStride = 1;
                p.ifTranspose = true;
                LoadData(a2[i * 16 * k], a1[i * 16 * k], p);
            }
        } else if (sizeof(T) == 2) {
            for (uint32_t i = 0; i < m / 16; ++i) {
                LoadData2dTransposeParams p(0, k / 16, 1, 0, 0);
                LoadDataWithTranspose(a2[i * 16 * k], a1[i * 16 * k], p);
            }
        } else if (sizeof(T) == 1) {  // squares of 32 x 32: [m / 32][k / 32] in L1, two m bands each
            for (uint32_t i = 0; i < m / 32; ++i) {
                LoadData2dTransposeParams p(0, k / 32, 1, 0, k / 32 - 1);
                LoadDataWithTranspose(a2[i * 32 * k], a1[i * 32 * k], p);
            }
        } else {  // L1 Zz: band j of 16 k holds m / 8 fractals; squares of 16 x 16 side by side
            for (uint32_t i = 0; i < m / 16; ++i) {
                LoadData2dTransposeParams p(0, k / 16, m / 16, 1, 0);
                LoadDataWithTranspose(a2[i * 16 * k], a1[i * 256], p);
            }
        }
    }
    __aicore__ inline void LoadB(const LocalTensor<T>& b2, const LocalTensor<T>& b1)
    {
        const uint32_t n = t_.n, k = t_.k;
        if (t_.tb != 0) {  // [n, k] in Nz is Zn already
            LoadData2DParams p;
            p.repeatTimes = (k / C0) * (n / 16);
            p.srcStride = 1;
            LoadData(b2, b1, p);
        } else if (t_.load == 1) {
            Image(b2, b1, k, n, false);
        } else if (t_.load == 0) {  // [k, n] in Nz: fractal (k band i, n band j) at j * k / 16 + i
            for (uint32_t i = 0; i < k / 16; ++i) {
                LoadData2DParams p;
                p.repeatTimes = n / 16;
                p.srcStride = k / 16;
                p.ifTranspose = true;
                LoadData(b2[i * 16 * n], b1[i * 256], p);
            }
        } else if (sizeof(T) == 2) {
            for (uint32_t i = 0; i < k / 16; ++i) {
                LoadData2dTransposeParams p(0, n / 16, k / 16, 0, 0);
                LoadDataWithTranspose(b2[i * 16 * n], b1[i * 256], p);
            }
        } else if (sizeof(T) == 1) {
            for (uint32_t i = 0; i < k / 32; ++i) {
                LoadData2dTransposeParams p(0, n / 32, k / 32, 1, 0);
                LoadDataWithTranspose(b2[i * 32 * n], b1[i * 1024], p);
            }
        } else {
            for (uint32_t i = 0; i < k / 16; ++i) {  // band i of 16 k gives two k bands of 8
                LoadData2dTransposeParams p(0, n / 16, 1, 0, n / 16 - 1);
                LoadDataWithTranspose(b2[i * 16 * n], b1[i * 16 * n], p);
            }
        }
    }

    L0LoadsTiling t_;
};

extern "C" __global__ __aicore__ void l0_loads(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c,
                                               GM_ADDR workspace, L0LoadsTiling t)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if (t.type == 0) {
        L0Loads<float, float> k;
        k.Run(a, b, bias, c, t);
    } else if (t.type == 1) {
        L0Loads<half, float> k;
        k.Run(a, b, bias, c, t);
    } else {
        L0Loads<int8_t, int32_t> k;
        k.Run(a, b, bias, c, t);
    }
}
