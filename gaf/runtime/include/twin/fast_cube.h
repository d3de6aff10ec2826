// SPDX-License-Identifier: Apache-2.0
// BlockMmad with a direct body: same contract as gaf_cube.h, used in fast mode only.
#ifndef GAF_TWIN_FAST_CUBE_H
#define GAF_TWIN_FAST_CUBE_H

#include "twin/cube.h"

namespace gaf {

// Straight from GM by a packed product; blocks may be larger than on the device.
template <class AT, bool TA, bool TB, class CT = float>
class BlockMmad {
public:
    BlockMmad() {}
    void Init(AscendC::TPipe*, uint32_t = 128, uint32_t = 256, uint32_t = 0) {}
    void Release() {}
    template <class Other>
    void Share(Other&)
    {
    }
    void Run(const GlobalTensor<CT>& c, uint64_t ldc, const GlobalTensor<AT>& a, uint64_t lda,
             const GlobalTensor<AT>& b, uint64_t ldb, uint32_t m, uint32_t n, uint32_t k)
    {
        static_assert(IS_SAME<CT, float> || IS_SAME<CT, AT>, "BlockMmad: CT is float or AT");
        gaf_twin::rt::Gemm(c.GetPhyAddr(), gaf_twin::NumOf<CT>(), ldc, a.GetPhyAddr(), b.GetPhyAddr(),
                           gaf_twin::NumOf<AT>(), TA, lda, TB, ldb, m, n, k);
    }
    void Run(const GlobalTensor<CT>& c, uint64_t ldc, const GlobalTensor<AT>& a, uint64_t lda,
             const GlobalTensor<AT>& b, const WindowRows& rows, uint32_t m, uint32_t n, uint32_t k)
    {
        static_assert(!TB && (IS_SAME<CT, float> || IS_SAME<CT, AT>), "BlockMmad: windows are rows of columns");
        uint64_t* starts = gaf_twin::rt::RowStarts(k);
        for (uint32_t i = 0; i < k; ++i) {
            starts[i] = rows(i);
        }
        gaf_twin::rt::GemmRows(c.GetPhyAddr(), gaf_twin::NumOf<CT>(), ldc, a.GetPhyAddr(), b.GetPhyAddr(),
                               gaf_twin::NumOf<AT>(), TA, lda, starts, m, n, k);
    }
};

}  // namespace gaf

#endif  // GAF_TWIN_FAST_CUBE_H
