// SPDX-License-Identifier: Apache-2.0
// Masked, repeated and strided instructions: which lanes a Shape selects, run on values or reported to the
// checker.
#include "twin/rt.h"

namespace gaf_twin {

namespace {

// Lanes [first, first + count) of one repeat.
struct Span {
    uint32_t first, count;
};

// Runs of active lanes of a bit mask; returns their number.
uint32_t SpansOf(uint64_t lo, uint64_t hi, uint32_t lanes, Span* out)
{
    uint32_t n = 0;
    bool open = false;
    for (uint32_t l = 0; l < lanes; ++l) {
        const bool active = ((l < 64 ? lo >> l : hi >> (l - 64)) & 1) != 0;
        if (active && open) {
            ++out[n - 1].count;
        } else if (active) {
            out[n++] = Span{l, 1};
        }
        open = active;
    }
    return n;
}

// The usual mask selects the first lanes: no search.
uint32_t LeadingLanes(uint64_t lo, uint64_t hi, uint32_t lanes)
{
    const uint64_t limit = lanes >= 64 ? ~0ull : (1ull << lanes) - 1;
    lo &= limit;
    if (lo != ~0ull) {
        return (lo & (lo + 1)) == 0 && hi == 0 ? static_cast<uint32_t>(__builtin_popcountll(lo)) : ~0u;
    }
    if (lanes <= 64 || hi == 0) {
        return 64;
    }
    const uint64_t next = hi & (lanes >= 128 ? ~0ull : (1ull << (lanes - 64)) - 1);
    return (next & (next + 1)) == 0 ? 64 + static_cast<uint32_t>(__builtin_popcountll(next)) : ~0u;
}

inline uint8_t* At(const Lanes& l, uint32_t repeat, uint32_t lane)
{
    uint8_t* p = static_cast<uint8_t*>(l.base);
    if (l.fixed || p == nullptr) {
        return p;
    }
    const uint32_t perBlock = 32 / l.bytes;
    return p + (static_cast<uint64_t>(repeat) * l.rep + static_cast<uint64_t>(lane / perBlock) * l.blk) * 32 +
           lane % perBlock * l.bytes;
}

inline bool Dense(const Lanes& l) { return l.fixed || l.base == nullptr || l.blk == 1; }

// Lanes after which an operand's address jumps.
inline uint32_t StepOf(const Lanes& l, uint32_t lanes) { return Dense(l) ? lanes : 32 / l.bytes; }

}  // namespace

void RunMasked(rt::Fn fn, const Lanes& dst, const Lanes& a, const Lanes& b, const Shape& shape,
               uint32_t lanes)
{
    uint32_t step = StepOf(dst, lanes);
    step = StepOf(a, lanes) < step ? StepOf(a, lanes) : step;
    step = StepOf(b, lanes) < step ? StepOf(b, lanes) : step;
    auto run = [&](uint32_t repeat, Span s) {
        for (uint32_t l = s.first; l < s.first + s.count;) {
            uint32_t n = step - l % step;
            n = n < s.first + s.count - l ? n : s.first + s.count - l;
            fn(At(dst, repeat, l), At(a, repeat, l), At(b, repeat, l), n);
            l += n;
        }
    };
    if (shape.counter) {
        for (uint32_t r = 0, left = shape.count; left > 0; ++r) {
            const uint32_t n = left < lanes ? left : lanes;
            run(r, Span{0, n});
            left -= n;
        }
        return;
    }
    const uint32_t leading = LeadingLanes(shape.lo, shape.hi, lanes);
    if (leading != ~0u) {
        if (leading != 0) {
            for (uint32_t r = 0; r < shape.repeat; ++r) {
                run(r, Span{0, leading});
            }
        }
        return;
    }
    Span spans[128];
    const uint32_t n = SpansOf(shape.lo, shape.hi, lanes, spans);
    for (uint32_t r = 0; r < shape.repeat; ++r) {
        for (uint32_t i = 0; i < n; ++i) {
            run(r, spans[i]);
        }
    }
}

bool TouchMasked(const char* api, const char* operand, bool write, const Lanes& l, const Shape& shape,
                 uint32_t lanes, check::View view)
{
    const uint32_t perBlock = 32 / l.bytes;
    check::rule(!write || l.blk != 0 || l.bytes == 0, "stride", api, "%s: a block stride of 0 is undefined",
                operand);
    // One span of lanes in `repeats` repeats from `first` on.
    auto touch = [&](uint32_t first, uint32_t repeats, Span s) {
        const int64_t rep = static_cast<int64_t>(l.rep) * 32;
        if (l.blk == 1) {
            return check::access(Pipe::V, api, operand, write, At(l, first, s.first),
                                 static_cast<uint64_t>(s.count) * l.bytes, 1, 0, s.first == 0 ? 32 : l.bytes,
                                 view, repeats, rep);
        }
        for (uint32_t i = s.first; i < s.first + s.count;) {
            uint32_t n = perBlock - i % perBlock;
            n = n < s.first + s.count - i ? n : s.first + s.count - i;
            if (!check::access(Pipe::V, api, operand, write, At(l, first, i),
                               static_cast<uint64_t>(n) * l.bytes, 1, 0, i % perBlock == 0 ? 32 : l.bytes,
                               view, repeats, rep)) {
                return false;
            }
            i += n;
        }
        return true;
    };
    if (shape.counter) {
        const uint32_t full = shape.count / lanes, tail = shape.count % lanes;
        return (full == 0 || touch(0, full, Span{0, lanes})) && (tail == 0 || touch(full, 1, Span{0, tail}));
    }
    if (shape.repeat == 0) {
        return true;
    }
    const uint32_t leading = LeadingLanes(shape.lo, shape.hi, lanes);
    if (leading != ~0u) {
        return leading == 0 || touch(0, shape.repeat, Span{0, leading});
    }
    Span spans[128];
    const uint32_t n = SpansOf(shape.lo, shape.hi, lanes, spans);
    for (uint32_t i = 0; i < n; ++i) {
        if (!touch(0, shape.repeat, spans[i])) {
            return false;
        }
    }
    return true;
}

}  // namespace gaf_twin
