// SPDX-License-Identifier: Apache-2.0
// What differs between toolkits (CANN 8.x, 9.x, the CPU twin), so that every other file is written once.
#ifndef GAF_COMPAT_H
#define GAF_COMPAT_H

#include "kernel_operator.h"

// GAF_AT("model/node") names the model node that the following calls compute. On the NPU it is nothing; on
// the twin it is the name shown with a violation.
#if defined(GAF_TWIN)
#define GAF_AT(node) ::gaf_twin::SetNode(node)
#else
#define GAF_AT(node) \
    do {             \
    } while (0)
#endif

// GAF_REPORT(ok, rule, ...) records a violation on the twin in check mode, and is nothing elsewhere.
#if defined(GAF_TWIN) && GAF_TWIN == 2
#define GAF_REPORT(ok, rule_name, api, ...) (void)::gaf_twin::check::rule((ok), rule_name, api, __VA_ARGS__)
#else
#define GAF_REPORT(ok, rule_name, api, ...) \
    do {                                    \
    } while (0)
#endif

namespace gaf {

using AscendC::CMPMODE;
using AscendC::GlobalTensor;
using AscendC::LocalTensor;
using AscendC::RoundMode;

constexpr uint32_t BLOCK_BYTES = 32;    // alignment of UB addresses and of rows in UB
constexpr uint32_t REPEAT_BYTES = 256;  // bytes that one repeat of a vector instruction covers
constexpr uint32_t MAX_REPEAT = 255;    // repeats of one vector instruction
constexpr uint32_t MAX_STRIDE = 255;    // block and repeat strides of a binary vector instruction (uint8)
constexpr uint32_t MAX_BURSTS = 4095;   // blockCount of one DataCopyPad

template <class A, class B>
struct SameType {
    static constexpr bool value = false;
};
template <class A>
struct SameType<A, A> {
    static constexpr bool value = true;
};
template <class A, class B>
constexpr bool IS_SAME = SameType<A, B>::value;

__aicore__ constexpr uint32_t DivUp(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
__aicore__ constexpr uint32_t RoundUp(uint32_t a, uint32_t b) { return (a + b - 1) / b * b; }
__aicore__ constexpr uint32_t Min(uint32_t a, uint32_t b) { return a < b ? a : b; }
__aicore__ constexpr uint32_t Max(uint32_t a, uint32_t b) { return a < b ? b : a; }

// Elements of T in 32 bytes, in 256 bytes, and the row pitch of a tile of `lanes` elements.
template <class T>
constexpr uint32_t BLOCK = BLOCK_BYTES / sizeof(T);
template <class T>
constexpr uint32_t REPEAT = REPEAT_BYTES / sizeof(T);
template <class T>
__aicore__ constexpr uint32_t PitchOf(uint32_t lanes)
{
    return RoundUp(lanes, BLOCK<T>);
}

// Set and wait of a flag between two pipes of this core, with an id that nobody else holds.
template <AscendC::HardEvent EVENT>
__aicore__ inline void SyncPipes()
{
    event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(EVENT));
    AscendC::SetFlag<EVENT>(id);
    AscendC::WaitFlag<EVENT>(id);
}

}  // namespace gaf

#endif  // GAF_COMPAT_H
