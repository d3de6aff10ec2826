// SPDX-License-Identifier: Apache-2.0
// Enumerations of the Ascend C basic API that the twin and its check engine share (values as in CANN 8.1).
#ifndef GAF_TWIN_ENUMS_H
#define GAF_TWIN_ENUMS_H

#include <stdint.h>

// Pipelines of an AI core. S is the scalar unit; ALL stands for every pipe of the core.
enum pipe_t : uint8_t {
    PIPE_S = 0,
    PIPE_V,
    PIPE_M,
    PIPE_MTE1,
    PIPE_MTE2,
    PIPE_MTE3,
    PIPE_ALL,
    PIPE_MTE4 = 7,
    PIPE_MTE5 = 8,
    PIPE_V2 = 9,
    PIPE_FIX = 10
};

namespace AscendC {

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    C2PIPE2LOCAL,
    MAX
};
using QuePosition = TPosition;

// The physical memory behind a TPosition.
enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

// Source and destination pipe of a flag inside one core.
enum class HardEvent : uint8_t {
    MTE2_MTE1,
    MTE1_MTE2,
    MTE1_M,
    M_MTE1,
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    M_V,
    V_M,
    V_V,
    MTE3_MTE1,
    MTE1_MTE3,
    MTE1_V,
    MTE2_M,
    M_MTE2,
    V_MTE1,
    M_FIX,
    FIX_M,
    MTE3_MTE2,
    MTE2_MTE3,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
    MTE2_FIX,
    FIX_MTE2,
    FIX_S,
    M_S,
    FIX_MTE3,
    MTE1_FIX,
    FIX_MTE1,
    FIX_FIX,
    MAX
};

}  // namespace AscendC

namespace gaf_twin {

// A pipe, dense, as the check engine indexes its clocks.
enum class Pipe : uint8_t { S = 0, V, M, MTE1, MTE2, MTE3, FIX, ALL, COUNT = ALL };

constexpr Pipe PipeOf(pipe_t p)
{
    return p == PIPE_S      ? Pipe::S
           : p == PIPE_V    ? Pipe::V
           : p == PIPE_M    ? Pipe::M
           : p == PIPE_MTE1 ? Pipe::MTE1
           : p == PIPE_MTE2 ? Pipe::MTE2
           : p == PIPE_MTE3 ? Pipe::MTE3
           : p == PIPE_FIX  ? Pipe::FIX
                            : Pipe::ALL;
}

struct EventPipes {
    Pipe src, dst;
};

// The two pipes that a hard event orders: work of `src` before the set, work of `dst` after the wait.
constexpr EventPipes PipesOf(AscendC::HardEvent e)
{
    using E = AscendC::HardEvent;
    switch (e) {
        case E::MTE2_MTE1: return {Pipe::MTE2, Pipe::MTE1};
        case E::MTE1_MTE2: return {Pipe::MTE1, Pipe::MTE2};
        case E::MTE1_M: return {Pipe::MTE1, Pipe::M};
        case E::M_MTE1: return {Pipe::M, Pipe::MTE1};
        case E::MTE2_V: return {Pipe::MTE2, Pipe::V};
        case E::V_MTE2: return {Pipe::V, Pipe::MTE2};
        case E::MTE3_V: return {Pipe::MTE3, Pipe::V};
        case E::V_MTE3: return {Pipe::V, Pipe::MTE3};
        case E::M_V: return {Pipe::M, Pipe::V};
        case E::V_M: return {Pipe::V, Pipe::M};
        case E::V_V: return {Pipe::V, Pipe::V};
        case E::MTE3_MTE1: return {Pipe::MTE3, Pipe::MTE1};
        case E::MTE1_MTE3: return {Pipe::MTE1, Pipe::MTE3};
        case E::MTE1_V: return {Pipe::MTE1, Pipe::V};
        case E::MTE2_M: return {Pipe::MTE2, Pipe::M};
        case E::M_MTE2: return {Pipe::M, Pipe::MTE2};
        case E::V_MTE1: return {Pipe::V, Pipe::MTE1};
        case E::M_FIX: return {Pipe::M, Pipe::FIX};
        case E::FIX_M: return {Pipe::FIX, Pipe::M};
        case E::MTE3_MTE2: return {Pipe::MTE3, Pipe::MTE2};
        case E::MTE2_MTE3: return {Pipe::MTE2, Pipe::MTE3};
        case E::S_V: return {Pipe::S, Pipe::V};
        case E::V_S: return {Pipe::V, Pipe::S};
        case E::S_MTE2: return {Pipe::S, Pipe::MTE2};
        case E::MTE2_S: return {Pipe::MTE2, Pipe::S};
        case E::S_MTE3: return {Pipe::S, Pipe::MTE3};
        case E::MTE3_S: return {Pipe::MTE3, Pipe::S};
        case E::MTE2_FIX: return {Pipe::MTE2, Pipe::FIX};
        case E::FIX_MTE2: return {Pipe::FIX, Pipe::MTE2};
        case E::FIX_S: return {Pipe::FIX, Pipe::S};
        case E::M_S: return {Pipe::M, Pipe::S};
        case E::FIX_MTE3: return {Pipe::FIX, Pipe::MTE3};
        case E::MTE1_FIX: return {Pipe::MTE1, Pipe::FIX};
        case E::FIX_MTE1: return {Pipe::FIX, Pipe::MTE1};
        case E::FIX_FIX: return {Pipe::FIX, Pipe::FIX};
        default: return {Pipe::ALL, Pipe::ALL};
    }
}

// Physical memory that a logical position lives in on A2.
constexpr AscendC::Hardware HardwareOf(AscendC::TPosition p)
{
    using P = AscendC::TPosition;
    using H = AscendC::Hardware;
    switch (p) {
        case P::GM: return H::GM;
        case P::A1:
        case P::B1:
        case P::C1:
        case P::TSCM: return H::L1;
        case P::A2: return H::L0A;
        case P::B2: return H::L0B;
        case P::C2: return H::BIAS;
        case P::CO1: return H::L0C;
        case P::CO2: return H::GM;
        case P::VECIN:
        case P::VECOUT:
        case P::VECCALC: return H::UB;
        case P::C2PIPE2GM: return H::FIXBUF;
        default: return H::UB;
    }
}

// Sizes in bytes of the on-chip memories of one core (dav-2201; hardware tables of the toolkit's platform
// files).
constexpr uint32_t UB_BYTES = 192 * 1024, L1_BYTES = 512 * 1024, L0A_BYTES = 64 * 1024, L0B_BYTES = 64 * 1024;
constexpr uint32_t L0C_BYTES = 128 * 1024, BIAS_BYTES = 1024, FIXBUF_BYTES = 7 * 1024;

constexpr uint32_t BytesOf(AscendC::Hardware h)
{
    using H = AscendC::Hardware;
    return h == H::UB       ? UB_BYTES
           : h == H::L1     ? L1_BYTES
           : h == H::L0A    ? L0A_BYTES
           : h == H::L0B    ? L0B_BYTES
           : h == H::L0C    ? L0C_BYTES
           : h == H::BIAS   ? BIAS_BYTES
           : h == H::FIXBUF ? FIXBUF_BYTES
                            : 0;
}

// Kind of core that a program runs on.
enum class CoreKind : uint8_t { AIV = 0, AIC = 1 };

}  // namespace gaf_twin

#endif  // GAF_TWIN_ENUMS_H
