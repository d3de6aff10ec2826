// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace platform_ascendc {
struct PlatformAscendC {
    explicit PlatformAscendC(int) {}
    uint32_t GetLibApiWorkSpaceSize() { return 16u << 20; }
};
}  // namespace platform_ascendc
