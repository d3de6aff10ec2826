// SPDX-License-Identifier: Apache-2.0
// Overlap of the operands of masked instructions, repeat by repeat (hardware constraints of dav-2201).
#include <cstring>

#include "twin/rt.h"

namespace gaf_twin {

namespace {

// Bytes that one repeat touches, from the first active block to the last.
struct Range {
    const uint8_t* lo;
    const uint8_t* hi;
    bool overlaps(const Range& o) const { return lo < o.hi && o.lo < hi; }
};

Range rangeOf(const Lanes& l, uint32_t repeat, uint32_t lanesUsed)
{
    uint32_t blocks = (lanesUsed * l.bytes + 31) / 32;
    const uint8_t* base = static_cast<const uint8_t*>(l.base) + static_cast<uint64_t>(repeat) * l.rep * 32;
    return Range{base, base + (static_cast<uint64_t>(blocks - 1) * l.blk + 1) * 32};
}

uint32_t lanesUsedBy(const Shape& shape, uint32_t lanes)
{
    if (shape.counter) {
        return shape.count < lanes ? shape.count : lanes;
    }
    uint32_t used = shape.hi != 0 ? 128u - static_cast<uint32_t>(__builtin_clzll(shape.hi))
                  : shape.lo != 0 ? 64u - static_cast<uint32_t>(__builtin_clzll(shape.lo)) : 0u;
    return used < lanes ? used : lanes;
}

// Instructions whose second source may be the destination of the repeat before (an accumulator that stays in
// place).
bool accumulates(const char* api)
{
    static const char* const names[] = {"Add", "Sub", "Mul", "Max", "Min", "AddRelu", "SubRelu"};
    for (const char* name : names) {
        if (strcmp(api, name) == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

void CheckRepeatOverlap(const char* api, const char* operand, const Lanes& dst, const Lanes& src,
                        const Shape& shape, uint32_t lanes, bool secondSource)
{
    uint32_t repeats = shape.counter ? (shape.count + lanes - 1) / lanes : shape.repeat;
    uint32_t used = lanesUsedBy(shape, lanes);
    if (repeats == 0 || used == 0 || src.base == nullptr || src.fixed) {
        return;
    }
    Range allDst{rangeOf(dst, 0, used).lo, rangeOf(dst, repeats - 1, used).hi};
    Range allSrc{rangeOf(src, 0, used).lo, rangeOf(src, repeats - 1, used).hi};
    if (!allDst.overlaps(allSrc)) {
        return;
    }
    for (uint32_t r = 0; r < repeats; ++r) {
        Range d = rangeOf(dst, r, used), s = rangeOf(src, r, used);
        bool dense = dst.blk == 1 && src.blk == 1;   // otherwise blocks may interleave without touching
        if (dense && d.overlaps(s) && (d.lo != s.lo || d.hi != s.hi)) {
            check::rule(false, "operand-overlap", api, "in repeat %u %s overlaps dst, but is not the same", r,
                        operand);
            return;
        }
        if (r + 1 == repeats) {
            return;
        }
        bool accumulator =
            secondSource && dst.base == src.base && dst.rep == 0 && src.rep == 0 && accumulates(api);
        if (!accumulator && (dense || dst.blk == src.blk) && d.overlaps(rangeOf(src, r + 1, used))) {
            check::rule(false, "repeat-overlap", api,
                        "%s of repeat %u is dst of repeat %u: the result is undefined%s", operand, r + 1, r,
                        accumulates(api) ? " (only the second source may be an accumulator)" : "");
            return;
        }
    }
}

}  // namespace gaf_twin
