// SPDX-License-Identifier: Apache-2.0
// Interface of the trace mode (GAF_TWIN == 3): what the caller gives, what a launch returns. Plain C data.
//
// A kernel built for trace mode announces its instructions through twin/check.h as in check mode; the
// launcher sends them to the recorder (native/trace) instead of the check engine, which turns them into a
// timeline. Figures come with the call: none is compiled in.
#ifndef GAF_TWIN_TRACE_H
#define GAF_TWIN_TRACE_H

#include <stdint.h>

extern "C" {

// One vector API: cycles = slope * elements + start, by width of the elements in bytes (1, 2, 4 or 8).
typedef struct GafTraceVectorCost {
    char api[24];
    uint32_t elementBytes;
    uint32_t reserved;
    double slope, start;
} GafTraceVectorCost;

// Figures of gaf/target/timing.py, in the order of `Timing`, which says what each means.
typedef struct GafTraceTiming {
    double clockMhz, aicCores, aivCores, l2ResidentBytes, hbmBytesPerCycle;
    double issue, scalarUb, scalarGmHit, scalarGmMiss, crossFlag, syncAll;
    double kernelHead, mixHead, mixHeadFull, vectorHead, mte3Head;
    double largeLoad, mte2HeadSmall, mte2HeadSmallCore, mte2HeadLarge, mte2HeadLargeCore;
    double loadSmall, loadSmallCore, loadLarge, loadLargeCore, loadStart, loadStride, loadL2;
    double shortRow, shortRowAs;
    double store, storeCore, storeStart, storeStride, storeL2, storeUnaligned;
    double storeTinyCoreSlope, storeTinySlope, storeTinyCore, storeTiny;
    double aicLoad, aicRow128, aicRow256, aicPitch32, aicPitchOdd, nd2nzStart;
    double mte1L0a, mte1L0b, mte1Table, mte1Start, mmadStart, fixpipeL2, fixpipeHbm, fixpipeStart;
} GafTraceTiming;

typedef struct GafTraceCosts {
    uint32_t timingBytes;  // sizeof(GafTraceTiming) as the caller knows it
    uint32_t vectors;      // rows of `vector`; the last one holds for every API that has none
    const GafTraceTiming* timing;
    const GafTraceVectorCost* vector;
    uint32_t fractalCycles[9];  // cycles of a 16 x 16 x 32-byte product, by bytes of an element
    uint32_t wantSpans;         // keep every instruction, not only the sums
} GafTraceCosts;

// One instruction on the timeline. Times in cycles from the start of the launch.
typedef struct GafTraceSpan {
    double start, end;
    uint32_t core;  // index into `cores`
    uint16_t api, node;
    uint32_t pipe;
    uint32_t bytes;  // moved by copies, 0 for others
} GafTraceSpan;

typedef struct GafTraceCore {
    uint32_t cube;  // 1: AIC
    uint32_t block, sub, slot;  // slot: the physical group of cores that ran the block
    double start, end;
    double busy[7];              // cycles that S, V, M, MTE1, MTE2, MTE3, FIX were occupied
    double work[7];              // the same without start-up and waiting: at the throughput of the pipe
    uint64_t instructions[7];
} GafTraceCore;

typedef struct GafTraceArgument {
    uint64_t bytes;                      // size
    uint64_t read, readOnce, readAgain;  // moved; distinct; distinct that were read more than once
    uint64_t written, writtenOnce;
    uint64_t hbmRead, hbmWritten;  // what the memory behind L2 has to move
    uint64_t unaligned;            // moved by copies that do not start on 512 bytes
    uint32_t role, reserved;
} GafTraceArgument;

// Everything belongs to the runtime library until gafTraceFree.
typedef struct GafTrace {
    double cycles;                 // of the launch, without the host's launch time
    double fillCycles;             // until the first instruction that is not scalar starts
    uint32_t cores, arguments, apis, nodes, unknown, faults;
    uint64_t spans, instructions;
    uint64_t local[8][2];          // bytes read and written by on-chip memory (AscendC::Hardware)
    const GafTraceCore* core;
    const GafTraceArgument* argument;
    const GafTraceSpan* span;
    const char* const* api;        // names
    const char* const* node;
    const char* const* unknownApi; // vector APIs without a cost row
    const char* fault;             // what was skipped because it would have left memory, or ""
    void* owner;
} GafTrace;

__attribute__((visibility("default"))) void gafTraceFree(GafTrace* trace);
}

#endif  // GAF_TWIN_TRACE_H
