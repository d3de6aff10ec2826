// SPDX-License-Identifier: Apache-2.0
// Random bits on the vector core: Philox2x32-10 of a counter per element, from 32-bit integers only.
#ifndef GAF_RANDOM_H
#define GAF_RANDOM_H

#include "gaf_vector.h"

namespace gaf {

// Elements that Random24 works on at a time.
constexpr uint32_t RANDOM_CHUNK = 1024;

// int32 elements of `tmp` of Random24.
__aicore__ constexpr uint32_t Random24Tmp(uint32_t count)
{
    return 7 * RoundUp(Min(Max(count, 1), RANDOM_CHUNK), 64);
}

}  // namespace gaf

#if defined(GAF_TWIN) && GAF_TWIN == 1

namespace gaf {

__aicore__ inline void Random24(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& index,
                                const LocalTensor<int32_t>& salt, const LocalTensor<int32_t>&, uint32_t key,
                                uint32_t count)
{
    gaf_twin::rt::Random24(dst.GetPhyAddr(), index.GetPhyAddr(), salt.GetPhyAddr(), key, count);
}

}  // namespace gaf

#else

namespace gaf {

// Tiles of one chunk: `left` and `right` are the two words of the state, the others hold halves and products.
struct PhiloxTiles {
    LocalTensor<int32_t> left, right, mask, low, high, product, sum;
    int32_t count;
};

// dst = f(a, b) on the 16-bit words of n integers: the vector core has And and Or for these only.
__aicore__ inline void AndBits(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& a,
                               const LocalTensor<int32_t>& b, int32_t n)
{
    And(dst.ReinterpretCast<int16_t>(), a.ReinterpretCast<int16_t>(), b.ReinterpretCast<int16_t>(), 2 * n);
    PipeBarrier<PIPE_V>();
}
__aicore__ inline void OrBits(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& a,
                              const LocalTensor<int32_t>& b, int32_t n)
{
    Or(dst.ReinterpretCast<int16_t>(), a.ReinterpretCast<int16_t>(), b.ReinterpretCast<int16_t>(), 2 * n);
    PipeBarrier<PIPE_V>();
}
// dst = a ^ b = (a | b) - (a & b), which never borrows; dst may be a. tmp must be neither.
__aicore__ inline void XorBits(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& a,
                               const LocalTensor<int32_t>& b, const LocalTensor<int32_t>& tmp, int32_t n)
{
    AndBits(tmp, a, b, n);
    OrBits(dst, a, b, n);
    Sub(dst, dst, tmp, n);
    PipeBarrier<PIPE_V>();
}
// dst = src >> 16 with copies of the sign, dst = src << 16.
__aicore__ inline void UpperHalf(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src, int32_t n)
{
    ShiftRight(dst, src, static_cast<int32_t>(16), n);
    PipeBarrier<PIPE_V>();
}
__aicore__ inline void ToUpperHalf(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src, int32_t n)
{
    ShiftLeft(dst, src, static_cast<int32_t>(16), n);
    PipeBarrier<PIPE_V>();
}
__aicore__ inline void Times(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src, int32_t factor,
                             int32_t n)
{
    Muls(dst, src, factor, n);
    PipeBarrier<PIPE_V>();
}
__aicore__ inline void AddTo(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src, int32_t n)
{
    Add(dst, dst, src, n);
    PipeBarrier<PIPE_V>();
}

// One round: left' = (left * M >> 32) ^ key ^ right, right' = low word of left * M.
//
// M = LOW + HIGH * 2^16 + 2^32 with digits of both signs below 2^14, so that every product of a digit with half
// a word, and every sum of two of them with a carry, fits an int32: nothing depends on how overflow behaves.
__aicore__ inline void PhiloxRound(PhiloxTiles& t, uint32_t key)
{
    constexpr int32_t LOW = 0xD193 - 0x10000, HIGH = 0xD256 + 1 - 0x10000;
    const int32_t n = t.count;
    AndBits(t.low, t.left, t.mask, n);
    ShiftRight(t.high.ReinterpretCast<uint32_t>(), t.left.ReinterpretCast<uint32_t>(), static_cast<uint32_t>(16), n);
    PipeBarrier<PIPE_V>();
    Times(t.product, t.low, LOW, n);
    UpperHalf(t.sum, t.product, n);
    AndBits(t.product, t.product, t.mask, n);  // bits 0..15
    Times(t.left, t.low, HIGH, n);
    AddTo(t.sum, t.left, n);
    Times(t.left, t.high, LOW, n);
    AddTo(t.left, t.sum, n);
    UpperHalf(t.sum, t.left, n);
    ToUpperHalf(t.left, t.left, n);
    OrBits(t.product, t.product, t.left, n);  // bits 0..31
    Times(t.left, t.high, HIGH, n);
    AddTo(t.sum, t.left, n);
    AddTo(t.sum, t.low, n);  // left * 2^32 goes to the upper word as a whole, its halves one by one
    UpperHalf(t.low, t.sum, n);
    AndBits(t.sum, t.sum, t.mask, n);
    AddTo(t.low, t.high, n);
    ToUpperHalf(t.low, t.low, n);
    OrBits(t.left, t.sum, t.low, n);  // bits 32..63
    XorBits(t.left, t.left, t.right, t.low, n);
    Duplicate(t.high, static_cast<int32_t>(key), n);
    PipeBarrier<PIPE_V>();
    XorBits(t.left, t.left, t.high, t.low, n);
    const LocalTensor<int32_t> right = t.right;
    t.right = t.product;
    t.product = right;
}

// dst[i] = the upper 24 bits of the first word of Philox2x32-10 (Salmon et al., SC 2011) of the counter (index[i],
// salt[i]) under `key`; dst may be index. tmp: Random24Tmp(count) elements.
__aicore__ inline void Random24(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& index,
                                const LocalTensor<int32_t>& salt, const LocalTensor<int32_t>& tmp, uint32_t key,
                                uint32_t count)
{
    const uint32_t size = Random24Tmp(count) / 7;
    Duplicate(tmp, static_cast<int32_t>(0xFFFF), static_cast<int32_t>(size));
    PipeBarrier<PIPE_V>();
    for (uint32_t at = 0; at < count; at += RANDOM_CHUNK) {
        const int32_t n = static_cast<int32_t>(Min(RANDOM_CHUNK, count - at));
        PhiloxTiles t{tmp[size],     tmp[2 * size], tmp[0], tmp[3 * size],
                      tmp[4 * size], tmp[5 * size], tmp[6 * size], n};
        Adds(t.left, index[at], static_cast<int32_t>(0), n);
        Adds(t.right, salt[at], static_cast<int32_t>(0), n);
        PipeBarrier<PIPE_V>();
        uint32_t k = key;
        for (uint32_t round = 0; round < 10; ++round, k += 0x9E3779B9u) {
            PhiloxRound(t, k);
        }
        ShiftRight(dst[at].ReinterpretCast<uint32_t>(), t.left.ReinterpretCast<uint32_t>(), static_cast<uint32_t>(8),
                   n);
        PipeBarrier<PIPE_V>();
    }
}

}  // namespace gaf

#endif  // GAF_TWIN == 1
#endif  // GAF_RANDOM_H
