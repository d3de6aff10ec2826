// SPDX-License-Identifier: Apache-2.0
// Synchronisation and system variables: flags, barriers, cross-core flags, SyncAll, block indices, mask
// registers.
#ifndef GAF_TWIN_SYNC_H
#define GAF_TWIN_SYNC_H

#include "twin/tensor.h"

namespace AscendC {

// ---- inside a core ----------------------------------------------------------------------------------------
// Instructions of the twin run in program order, so flags order nothing here: only the check engine looks at
// them.
template <HardEvent EVENT>
inline void SetFlag(int32_t id)
{
    gaf_twin::check::setFlag(EVENT, id);
}
template <HardEvent EVENT>
inline void WaitFlag(int32_t id)
{
    gaf_twin::check::waitFlag(EVENT, id);
}
template <pipe_t PIPE>
inline void PipeBarrier()
{
    static_assert(PIPE != PIPE_S, "PipeBarrier: PIPE_S is not allowed");
    gaf_twin::check::barrier(gaf_twin::PipeOf(PIPE));
}
template <MemDsbT KIND>
inline void DataSyncBarrier()
{
}
template <class T, CacheLine LINE = CacheLine::SINGLE_CACHE_LINE, DcciDst DST = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor)
{
    gaf_twin::Core& core = gaf_twin::Current();
    if (!core.scalarWrote) {  // there is nothing to clean: the next read is to see what another core wrote
        gaf_twin::YieldCore(tensor.GetPhyAddr());
    }
    core.scalarWrote = false;
    gaf_twin::check::cacheCleaned(LINE == CacheLine::SINGLE_CACHE_LINE ? tensor.GetPhyAddr() : nullptr);
}
template <class T, CacheLine LINE>
inline void DataCacheCleanAndInvalid(const LocalTensor<T>&)
{
}
template <class T>
inline void DataCachePreload(const GlobalTensor<uint64_t>&, T)
{
}
inline void ICachePreLoad(int64_t) {}

template <pipe_t SRC, pipe_t DST>
class TQueSync {
public:
    void SetFlag(TEventID id) { gaf_twin::check::setFlag(EventFor(), id); }
    void WaitFlag(TEventID id) { gaf_twin::check::waitFlag(EventFor(), id); }

private:
    static constexpr HardEvent EventFor()
    {
        for (uint32_t e = 0; e < static_cast<uint32_t>(HardEvent::MAX); ++e) {
            const auto pipes = gaf_twin::PipesOf(static_cast<HardEvent>(e));
            if (pipes.src == gaf_twin::PipeOf(SRC) && pipes.dst == gaf_twin::PipeOf(DST)) {
                return static_cast<HardEvent>(e);
            }
        }
        return HardEvent::MAX;
    }
};

// ---- between cores ----------------------------------------------------------------------------------------
template <uint8_t MODE, pipe_t PIPE>
inline void CrossCoreSetFlag(uint16_t id)
{
    static_assert(MODE <= 2, "CrossCoreSetFlag: mode is 0, 1 or 2");
    static_assert(PIPE != PIPE_S && PIPE != PIPE_ALL, "CrossCoreSetFlag: the pipe may be neither S nor ALL");
    gaf_twin::CrossSet(MODE, gaf_twin::PipeOf(PIPE), id);
}
template <uint8_t MODE = 0, pipe_t PIPE = PIPE_S>
inline void CrossCoreWaitFlag(uint16_t id)
{
    gaf_twin::CrossWait(id);
}
template <bool AIV_ONLY = true>
inline void SyncAll()
{
    gaf_twin::SyncAllCores(AIV_ONLY);
}

// ---- who am I ---------------------------------------------------------------------------------------------
inline int64_t GetBlockIdx()
{
    const gaf_twin::Core& c = gaf_twin::Current();
    return c.kind == gaf_twin::CoreKind::AIV ? int64_t(c.block) * c.subs + c.sub : c.block;
}
inline int64_t GetBlockNum() { return gaf_twin::Current().blockNum; }
inline int64_t GetSubBlockIdx() { return gaf_twin::Current().sub; }
inline int64_t GetSubBlockNum() { return gaf_twin::Current().subs; }
inline int64_t GetTaskRation()
{
    const gaf_twin::Core& c = gaf_twin::Current();
    return c.kind == gaf_twin::CoreKind::AIV ? c.subs : 1;
}
inline int64_t GetTaskRatio() { return GetTaskRation(); }
inline int64_t GetSystemCycle() { return 0; }
inline void Trap()
{
    gaf_twin::check::rule(false, "trap", "Trap", "the kernel called Trap()");
    gaf_twin::Abandon("trap", "the kernel called Trap()");
}
inline constexpr int16_t GetDataBlockSizeInBytes() { return 32; }

inline void SetSysWorkspace(GM_ADDR p) { gaf_twin::Current().sysWorkspace = reinterpret_cast<uint64_t>(p); }
inline GM_ADDR GetSysWorkSpacePtr() { return reinterpret_cast<uint8_t*>(gaf_twin::Current().sysWorkspace); }
// The twin has no system workspace: what the kernel is given is all user workspace.
inline GM_ADDR GetUserWorkspace(GM_ADDR p) { return p; }

// ---- vector mask registers --------------------------------------------------------------------------------
template <class T, MaskMode MODE = MaskMode::NORMAL>
inline void SetVectorMask(uint64_t high, uint64_t low)
{
    gaf_twin::Core& c = gaf_twin::Current();
    c.maskHi = high;
    c.maskLo = low;
}
template <class T, MaskMode MODE = MaskMode::NORMAL>
inline void SetVectorMask(int32_t len)
{
    gaf_twin::Core& c = gaf_twin::Current();
    if (MODE == MaskMode::COUNTER) {
        c.maskHi = 0;
        c.maskLo = static_cast<uint64_t>(len);
        return;
    }
    c.maskLo = len >= 64 ? ~0ull : (1ull << len) - 1;
    c.maskHi = len >= 128 ? ~0ull : len > 64 ? (1ull << (len - 64)) - 1 : 0;
}
inline void SetMaskCount()
{
    gaf_twin::Current().counterMode = true;
    gaf_twin::check::counterMode(true);
}
inline void SetMaskNorm()
{
    gaf_twin::Current().counterMode = false;
    gaf_twin::check::counterMode(false);
}
inline void ResetMask()
{
    gaf_twin::Core& c = gaf_twin::Current();
    c.maskHi = c.maskLo = ~0ull;
}

// ---- atomic mode of stores to GM --------------------------------------------------------------------------
enum class AtomicDtype {
    ATOMIC_NONE = 0,
    ATOMIC_F32,
    ATOMIC_F16,
    ATOMIC_S16,
    ATOMIC_S32,
    ATOMIC_S8,
    ATOMIC_BF16
};

}  // namespace AscendC

namespace gaf_twin {

template <class T>
inline void SetAtomic(AtomicOp op)
{
    using D = AscendC::AtomicDtype;
    static_assert(OneOf<T, float, half, int16_t, int32_t, int8_t, bfloat16_t>,
                  "SetAtomic*: dtype not supported on A2");
    Core& c = Current();
    c.atomicOp = op;
    c.atomicType = static_cast<uint8_t>(std::is_same<T, float>::value     ? D::ATOMIC_F32
                                        : std::is_same<T, half>::value    ? D::ATOMIC_F16
                                        : std::is_same<T, int16_t>::value ? D::ATOMIC_S16
                                        : std::is_same<T, int32_t>::value ? D::ATOMIC_S32
                                        : std::is_same<T, int8_t>::value  ? D::ATOMIC_S8
                                                                          : D::ATOMIC_BF16);
    check::atomicMode(true);
}

}  // namespace gaf_twin

namespace AscendC {

template <class T>
inline void SetAtomicAdd()
{
    gaf_twin::SetAtomic<T>(gaf_twin::AtomicOp::ADD);
}
template <class T>
inline void SetAtomicMax()
{
    gaf_twin::SetAtomic<T>(gaf_twin::AtomicOp::MAX);
}
template <class T>
inline void SetAtomicMin()
{
    gaf_twin::SetAtomic<T>(gaf_twin::AtomicOp::MIN);
}
inline void SetAtomicNone()
{
    gaf_twin::Current().atomicOp = gaf_twin::AtomicOp::NONE;
    gaf_twin::check::atomicMode(false);
}
inline void DisableDmaAtomic() { SetAtomicNone(); }

}  // namespace AscendC

inline AscendC::TPipe* GetTPipePtr() { return gaf_twin::Current().pipe; }

#endif  // GAF_TWIN_SYNC_H
