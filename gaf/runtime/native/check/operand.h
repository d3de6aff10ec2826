// SPDX-License-Identifier: Apache-2.0
// One operand on its way through the checks: its bytes, its names, and what the walk over the shadow found.
#ifndef GAF_CHECK_OPERAND_H
#define GAF_CHECK_OPERAND_H

#include <algorithm>

#include "engine.h"

namespace gaf_twin {
namespace check {

// The bytes of one operand, relative to its address: `runs` runs of `runBytes` bytes, the whole `outer`
// times.
struct Engine::Pattern {
    uint64_t runBytes, runs, outer;
    int64_t stride, outerStride;
    int64_t low = 0, high = 0;             // extent of all runs

    Pattern(uint64_t bytes, uint64_t n, int64_t step, uint64_t times, int64_t timesStep)
        : runBytes(bytes),
          runs(step == 0 ? 1 : n),
          outer(timesStep == 0 ? 1 : times),
          stride(runs == 1 ? 0 : step),
          outerStride(outer == 1 ? 0 : timesStep)
    {
        int64_t span = stride * static_cast<int64_t>(runs - 1);
        int64_t outerSpan = outerStride * static_cast<int64_t>(outer - 1);
        low = std::min<int64_t>(0, span) + std::min<int64_t>(0, outerSpan);
        high = std::max<int64_t>(0, span) + std::max<int64_t>(0, outerSpan) + static_cast<int64_t>(runBytes);
    }

    // Joins runs that touch.
    void merge()
    {
        mergeRuns();
        if (runs == 1 && outer > 1) {
            runs = outer;
            stride = outerStride;
            outer = 1;
            outerStride = 0;
            mergeRuns();
        }
    }

    bool contiguous() const { return runs == 1 && outer == 1; }

private:
    void mergeRuns()
    {
        if (runs > 1 && stride == static_cast<int64_t>(runBytes)) {
            runBytes *= runs;
            runs = 1;
            stride = 0;
        }
    }
};

// What messages say of the operand being checked.
struct Engine::Operand {
    const char* api;
    const char* name;
    const char* verb;
    bool write;
    const char* pipe;
};

// What one access found while it walked over the shadow: reported once, with the first offending byte.
struct Engine::Touch {
    Access now;
    uint8_t pipe;
    bool write;
    bool polled = false;                   // of a word that other cores may write at any time: no later write waits for it
    uint32_t written = 0;                  // the state that this write makes
    uint32_t from = 0, to = 0;   // last state that was replaced in part by one of its own, and by which
    bool haveFrom = false;
    Access rival;                          // first unordered access
    bool rivalWrote = false;
    int64_t raceAt = -1;
    int64_t unwrittenAt = -1;
    uint64_t unwrittenBytes = 0;
};

}  // namespace check
}  // namespace gaf_twin

#endif  // GAF_CHECK_OPERAND_H
