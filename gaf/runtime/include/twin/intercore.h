// SPDX-License-Identifier: Apache-2.0
// Order between cores through GM: IBSet and IBWait, blocks in turn, groups, tasks, atomics of the scalar unit.
//
// On the device these calls poll words of a workspace; here counters of the launch take their place, and the
// workspace is only checked for its size.
#ifndef GAF_TWIN_INTERCORE_H
#define GAF_TWIN_INTERCORE_H

#include "twin/copy_forms.h"

namespace gaf_twin {

inline void CheckSpace(const char* api, uint64_t gmBytes, uint64_t gmHas, uint64_t ubBytes, uint64_t ubHas)
{
    check::rule(gmHas == 0 || gmHas >= gmBytes, "workspace-size", api,
                "gmWorkspace has %llu bytes, at least %llu are needed", static_cast<unsigned long long>(gmHas),
                static_cast<unsigned long long>(gmBytes));
    check::rule(ubHas >= ubBytes, "workspace-size", api, "ubWorkspace has %llu bytes, at least %llu are needed",
                static_cast<unsigned long long>(ubHas), static_cast<unsigned long long>(ubBytes));
}

}  // namespace gaf_twin

namespace AscendC {

// Core `blockIdx` has set event `eventID`; IBWait of another core takes one set. Both wait for all pipes.
template <bool isAIVOnly = true>
inline void IBSet(const GlobalTensor<int32_t>& gm, const LocalTensor<int32_t>& ub, int32_t blockIdx, int32_t eventID)
{
    gaf_twin::CheckSpace("IBSet", uint64_t(GetBlockNum()) * 32 * uint64_t(eventID + 1) + 32, gm.GetSize() * 4, 32,
                         uint64_t(ub.GetSize()) * 4);
    gaf_twin::Post(gaf_twin::PostKey(gaf_twin::PostKind::PAIR, uint64_t(blockIdx), uint64_t(eventID)));
}
template <bool isAIVOnly = true>
inline void IBWait(const GlobalTensor<int32_t>& gm, const LocalTensor<int32_t>& ub, int32_t blockIdx, int32_t eventID)
{
    gaf_twin::CheckSpace("IBWait", uint64_t(GetBlockNum()) * 32 * uint64_t(eventID + 1) + 32, gm.GetSize() * 4, 32,
                         uint64_t(ub.GetSize()) * 4);
    const uint64_t key = gaf_twin::PostKey(gaf_twin::PostKind::PAIR, uint64_t(blockIdx), uint64_t(eventID));
    gaf_twin::AwaitPosts(key, gaf_twin::NextWait(key));
}

// All vector cores, or the first `usedCores`, wait for each other; of any kernel type, unlike SyncAll().
template <bool isAIVOnly = true>
inline void SyncAll(const GlobalTensor<int32_t>& gm, const LocalTensor<int32_t>& ub, const int32_t usedCores = 0)
{
    static_assert(isAIVOnly, "SyncAll: with a workspace A2 synchronises vector cores");
    const gaf_twin::Core& c = gaf_twin::Current();
    const uint64_t all = uint64_t(c.blockNum) * (c.subs == 0 ? 1 : c.subs);
    const uint64_t cores = usedCores > 0 ? static_cast<uint64_t>(usedCores) : all;
    gaf_twin::CheckSpace("SyncAll", cores * 32, gm.GetSize() * 4, cores * 32, uint64_t(ub.GetSize()) * 4);
    PipeBarrier<PIPE_ALL>();
    const uint64_t key = gaf_twin::PostKey(gaf_twin::PostKind::ALL, 0, 0);
    gaf_twin::Post(key);
    gaf_twin::AwaitPosts(key, gaf_twin::NextWait(key) * cores);
}

// Blocks in the order of their numbers, round after round.
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gm, LocalTensor<int32_t>& ub)
{
    gaf_twin::CheckSpace("InitDetermineComputeWorkspace", uint64_t(GetBlockNum()) * 32, gm.GetSize() * 4,
                         uint64_t(GetBlockNum()) * 32 + 32, uint64_t(ub.GetSize()) * 4);
}
inline void WaitPreBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&)
{
    // The device polls with copies on MTE2, so what that pipe had to do before is done.
    gaf_twin::check::barrier(gaf_twin::Pipe::ALL);
    const uint64_t block = static_cast<uint64_t>(GetBlockIdx());
    const uint64_t key = gaf_twin::PostKey(gaf_twin::PostKind::TURN, block, 0), round = gaf_twin::NextWait(key);
    gaf_twin::AwaitPosts(key, block == 0 ? round - 1 : round);  // the first round begins with block 0
}
inline void NotifyNextBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&)
{
    const uint64_t cores = static_cast<uint64_t>(GetBlockNum()) * static_cast<uint64_t>(GetTaskRation());
    gaf_twin::Post(gaf_twin::PostKey(gaf_twin::PostKind::TURN,
                                     (static_cast<uint64_t>(GetBlockIdx()) + 1) % (cores == 0 ? 1 : cores), 0));
}

// arriveSize cores arrive, waitSize cores wait for all of them, round after round.
enum class PipeMode : uint8_t { SCALAR_MODE = 0, MTE3_MODE = 1, MAX };
template <PipeMode MODE>
class GroupBarrier {
public:
    GroupBarrier(GM_ADDR workspace, uint32_t arriveSize, uint32_t waitSize)
        : key_(gaf_twin::PostKey(gaf_twin::PostKind::ARRIVE, reinterpret_cast<uint64_t>(workspace) >> 5, 0)),
          arriveSize_(arriveSize),
          waitSize_(waitSize)
    {
    }
    void Arrive(uint32_t index)
    {
        gaf_twin::check::rule(index < arriveSize_, "group-index", "Arrive", "index %u of %u arriving cores", index,
                              arriveSize_);
        gaf_twin::Post(key_);
    }
    void Wait(uint32_t index)
    {
        gaf_twin::check::rule(index < waitSize_, "group-index", "Wait", "index %u of %u waiting cores", index,
                              waitSize_);
        gaf_twin::AwaitPosts(key_, gaf_twin::NextWait(key_) * arriveSize_);
    }
    uint64_t GetWorkspaceLen() { return uint64_t(arriveSize_ + waitSize_ + 2) * 64; }

private:
    uint64_t key_;
    uint32_t arriveSize_, waitSize_;
};

// Tasks of one super kernel: the twin runs one kernel after the other.
template <pipe_t AIV_PIPE = PIPE_MTE3, pipe_t AIC_PIPE = PIPE_FIX, bool FORCE = false>
inline void SetNextTaskStart()
{
    gaf_twin::Current();
}
template <bool FORCE = false>
inline void WaitPreTaskEnd()
{
    gaf_twin::Current();
}

// ---- raw launches of mix kernels set the base of the flags between cores ----------------------------------
inline void SetSyncBaseAddr(uint64_t) {}
inline void SetSyncBaseAddr(GM_ADDR) {}

}  // namespace AscendC

inline void set_ffts_base_addr(uint64_t) {}

#endif  // GAF_TWIN_INTERCORE_H
