// SPDX-License-Identifier: Apache-2.0
// What host code asks about the chip: an Ascend 910B1 as the platform files of the toolkit describe it.
#ifndef GAF_TWIN_PLATFORM_ASCENDC_H
#define GAF_TWIN_PLATFORM_ASCENDC_H

#include <stddef.h>
#include <stdint.h>

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B,
    ASCEND310P,
    ASCEND310B,
    ASCEND910_93,
    ASCEND910_95,
    ASCEND950,
    RESERVED_VERSION = 99999
};
enum class NpuArch { DAV_1001 = 1001, DAV_2002 = 2002, DAV_2201 = 2201, DAV_3510 = 3510 };

class PlatformAscendC {
public:
    PlatformAscendC() {}
    explicit PlatformAscendC(void*) {}
    uint32_t GetCoreNum() const { return 24; }
    uint32_t GetCoreNumAic() const { return 24; }
    uint32_t GetCoreNumAiv() const { return 48; }
    uint32_t GetCoreNumVector() const { return 0; }
    SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
    NpuArch GetCurNpuArch() const { return NpuArch::DAV_2201; }
    // Blocks of a mix kernel for `slices` pieces of work.
    uint32_t CalcTschBlockDim(uint32_t slices, uint32_t aicores, uint32_t vectorCores) const
    {
        if (aicores == 0 || vectorCores == 0 || aicores > vectorCores) {
            return slices;
        }
        const uint32_t ratio = vectorCores / aicores;
        return (slices + ratio - 1) / ratio;
    }
    void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const
    {
        switch (type) {
            case CoreMemType::L0_A:
            case CoreMemType::L0_B: size = 64 * 1024; break;
            case CoreMemType::L0_C: size = 128 * 1024; break;
            case CoreMemType::L1: size = 512 * 1024; break;
            case CoreMemType::L2: size = uint64_t(192) * 1024 * 1024; break;
            case CoreMemType::UB: size = 192 * 1024 - 256; break;
            case CoreMemType::HBM: size = uint64_t(64) << 30; break;
            case CoreMemType::FB: size = 2 * 1024; break;
            case CoreMemType::BT: size = 1024; break;
            default: size = 0; break;
        }
    }
    // Bytes a cycle and core.
    void GetCoreMemBw(const CoreMemType& type, uint64_t& bandwidth) const
    {
        bandwidth = type == CoreMemType::L2 ? 110 : type == CoreMemType::HBM ? 32 : 0;
    }
    uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
    uint32_t GetResCubeGroupWorkSpaceSize() const { return 16 * 1024 * 1024; }
    uint32_t GetResGroupBarrierWorkSpaceSize() const { return 16 * 1024 * 1024; }
};

class PlatformAscendCManager {
public:
    static PlatformAscendC* GetInstance()
    {
        static PlatformAscendC platform;
        return &platform;
    }
    static PlatformAscendC* GetInstance(const char*) { return GetInstance(); }
};

}  // namespace platform_ascendc

#endif  // GAF_TWIN_PLATFORM_ASCENDC_H
