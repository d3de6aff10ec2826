// SPDX-License-Identifier: Apache-2.0
// Host program of queue_add.cpp, in a file of its own: launches through the generated header.
#include "aclrtlaunch_queue_add.h"
#include "common.h"

// Fractions that half holds exactly, so that sums are exact as well.
static float Value(size_t i) { return static_cast<float>(i % 64) / 8.0f; }
static uint16_t HalfOf(float v)
{
    if (v == 0) {
        return 0;
    }
    int e;
    const float m = std::frexp(v, &e);  // v = m * 2^e, m in [0.5, 1)
    return static_cast<uint16_t>((e + 14) << 10 | static_cast<int>((m * 2 - 1) * 1024));
}
static double FromHalf(uint16_t h)
{
    return (h & 0x7fff) == 0 ? 0.0 : std::ldexp(1.0 + (h & 1023) / 1024.0, (h >> 10 & 31) - 15) * (h >> 15 ? -1 : 1);
}

int main()
{
    Device device;
    const uint32_t n = 5000;
    Array<uint16_t> x(n), y(n), z(n);
    for (uint32_t i = 0; i < n; ++i) {
        x.data[i] = HalfOf(Value(i));
        y.data[i] = HalfOf(Value(3 * i + 1));
    }
    x.Upload();
    y.Upload();
    ACLRT_LAUNCH_KERNEL(queue_add)(8, device.stream, x.device, y.device, z.device, n);
    CHECK_ACL(aclrtSynchronizeStream(device.stream));
    z.Download();
    return Compare(
        "sum", n, [&](size_t i) { return FromHalf(z.data[i]); },
        [](size_t i) { return Value(i) + Value(3 * i + 1); }, 0);
}
