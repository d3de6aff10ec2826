// SPDX-License-Identifier: Apache-2.0
// Table of the device memory that a host program holds.
#ifndef GAF_NATIVE_HOST_MEMORY_H
#define GAF_NATIVE_HOST_MEMORY_H

#include <stdint.h>

#include <mutex>

namespace gaf_twin {
namespace host {

struct Allocation {
    void* base;
    uint64_t bytes;
    bool written;  // by the host or by an earlier launch
};

std::mutex& MemoryLock();
// The allocation that holds `p`; the caller has the lock.
Allocation* FindAllocation(const void* p);

}  // namespace host
}  // namespace gaf_twin

#endif  // GAF_NATIVE_HOST_MEMORY_H
