// SPDX-License-Identifier: Apache-2.0
// Host side of the test programs: device buffers with values, comparison.
#ifndef SAMPLE_COMMON_H
#define SAMPLE_COMMON_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"

#define CHECK_ACL(call)                                                        \
    do {                                                                       \
        const aclError code = (call);                                          \
        if (code != ACL_SUCCESS) {                                             \
            std::printf("%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, static_cast<int>(code)); \
            std::exit(2);                                                      \
        }                                                                      \
    } while (0)

struct Device {
    aclrtStream stream = nullptr;
    Device()
    {
        CHECK_ACL(aclInit(nullptr));
        CHECK_ACL(aclrtSetDevice(0));
        CHECK_ACL(aclrtCreateStream(&stream));
    }
    ~Device()
    {
        aclrtDestroyStream(stream);
        aclrtResetDevice(0);
        aclFinalize();
    }
};

// An array on the device; `data` is its copy on the host.
template <class T>
struct Array {
    std::vector<T> data;
    uint8_t* device = nullptr;
    explicit Array(size_t n) : data(n)
    {
        CHECK_ACL(aclrtMalloc(reinterpret_cast<void**>(&device), Bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    }
    ~Array() { aclrtFree(device); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    size_t Bytes() const { return data.size() * sizeof(T); }
    void Upload() { CHECK_ACL(aclrtMemcpy(device, Bytes(), data.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE)); }
    void Download() { CHECK_ACL(aclrtMemcpy(data.data(), Bytes(), device, Bytes(), ACL_MEMCPY_DEVICE_TO_HOST)); }
};

// Values between -1 and 1, the same in every run.
inline float Noise(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return static_cast<float>(x % 20001u) / 10000.0f - 1.0f;
}

// 0 when all values are near, else 1; prints the first that is not.
template <class FOUND, class WANTED>
int Compare(const char* name, size_t n, FOUND found, WANTED wanted, double tolerance)
{
    for (size_t i = 0; i < n; ++i) {
        const double f = found(i), w = wanted(i);
        if (!(std::fabs(f - w) <= tolerance * (1.0 + std::fabs(w)))) {
            std::printf("%s: element %zu is %.9g, expected %.9g\n", name, i, f, w);
            return 1;
        }
    }
    return 0;
}

#endif  // SAMPLE_COMMON_H
