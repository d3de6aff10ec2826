// SPDX-License-Identifier: Apache-2.0
// Packed right operands of matrix products, shared by the blocks of a launch or, for constants, by launches.
#ifndef GAF_NATIVE_PACKS_H
#define GAF_NATIVE_PACKS_H

#include <stdlib.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "twin/rt.h"

namespace gaf_twin {

// What decides the packed form of a block of B: rt::Gemm's parameters.
struct PackKey {
    const void* b;
    uint64_t ldb;
    uint32_t k, n;
    rt::Num type;
    bool transposed;
    bool operator<(const PackKey& o) const
    {
        return std::tie(b, ldb, k, n, type, transposed) <
               std::tie(o.b, o.ldb, o.k, o.n, o.type, o.transposed);
    }
};

class PackCache {
public:
    static constexpr uint64_t LIMIT = 1ull << 30;  // bytes that one cache keeps at most

    // The packed block, made by fill(out) into 64-byte aligned floats; null when the cache does not keep it.
    // `once`: a block that is asked for a single time is not kept.
    template <class F>
    const float* Get(const PackKey& key, size_t floats, bool once, F fill)
    {
        std::lock_guard<std::mutex> hold(lock_);
        const auto found = blocks_.find(key);
        if (found != blocks_.end() && found->second != nullptr) {
            return found->second.get();
        }
        if (found == blocks_.end() && once) {
            blocks_.emplace(key, nullptr);
            return nullptr;
        }
        const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
        if (bytes > LIMIT - bytes_) {
            return nullptr;
        }
        std::unique_ptr<float, Free> block(static_cast<float*>(aligned_alloc(64, bytes)));
        if (block == nullptr) {
            return nullptr;
        }
        bytes_ += bytes;
        fill(block.get());
        return (blocks_[key] = std::move(block)).get();
    }

private:
    struct Free {
        void operator()(float* p) const { free(p); }
    };
    std::mutex lock_;
    std::map<PackKey, std::unique_ptr<float, Free>> blocks_;
    uint64_t bytes_ = 0;
};

// The cache for blocks that begin at `b` in the current launch, null when its contents may change meanwhile;
// `constant`: they never change.
PackCache* PacksFor(const void* b, bool* constant);

template <class F>
const float* SharedPack(const PackKey& key, size_t floats, F fill)
{
    bool constant = false;
    PackCache* cache = PacksFor(key.b, &constant);
    return cache != nullptr ? cache->Get(key, floats, !constant, fill) : nullptr;
}

}  // namespace gaf_twin

#endif  // GAF_NATIVE_PACKS_H
