// SPDX-License-Identifier: Apache-2.0
// Notes on numbers: overflow of half, and results that are not finite although everything read was. They
// break no rule, so they are reported apart from violations.
#include <cinttypes>
#include <cstring>

#include "operand.h"
#include "twin/types.h"

namespace gaf_twin {
namespace check {

namespace {

constexpr uint32_t HALF_INFINITE = 0x477ff000;  // bits of 65520: from there on half is infinite
constexpr uint32_t FLOAT_INFINITE = 0x7f800000;

// Calls fn(first byte, bytes) for every run of the pattern.
template <class Pattern, class Fn>
void forRuns(const void* ptr, const Pattern& p, Fn&& fn)
{
    for (uint64_t o = 0; o < p.outer; ++o) {
        for (uint64_t r = 0; r < p.runs; ++r) {
            fn(static_cast<const uint8_t*>(ptr) + static_cast<int64_t>(o) * p.outerStride +
                   static_cast<int64_t>(r) * p.stride,
               p.runBytes);
        }
    }
}

// The magnitudes of n floating-point numbers as bits, the largest of them: loops without exits, so that they
// vectorise.
uint32_t largestFloat(const uint8_t* p, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; ++i) {
        uint32_t bits;
        memcpy(&bits, p + i * 4, 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

uint16_t largestShort(const uint8_t* p, uint64_t n)
{
    uint16_t most = 0;
    for (uint64_t i = 0; i < n; ++i) {
        uint16_t bits;
        memcpy(&bits, p + i * 2, 2);
        bits &= 0x7fff;
        most = bits > most ? bits : most;
    }
    return most;
}

bool runIsFinite(Number number, const uint8_t* p, uint64_t bytes)
{
    switch (number) {
        case Number::F32: return largestFloat(p, bytes / 4) < FLOAT_INFINITE;
        case Number::F16: return largestShort(p, bytes / 2) < 0x7c00;
        case Number::BF16: return largestShort(p, bytes / 2) < 0x7f80;
        default: return true;
    }
}

}  // namespace

bool Engine::isFinite(Number number, const void* ptr, const Pattern& pattern)
{
    bool finite = true;
    forRuns(ptr, pattern,
            [&](const uint8_t* p, uint64_t bytes) { finite = finite && runIsFinite(number, p, bytes); });
    return finite;
}

void Engine::checkNumbers(const Operand& o, const Place& place, const void* ptr, View view,
                          const Pattern& pattern)
{
    const Pipe pipe = static_cast<Pipe>(core_->pipe);
    const bool cast = pipe == Pipe::V && strcmp(o.api, "Cast") == 0;
    if (!o.write) {
        if (pipe == Pipe::MTE2 && inputsFinite_ && place.argument != nullptr &&
            place.argument->role != GmRole::WORKSPACE) {
            inputsFinite_ = isFinite(view.number, ptr, pattern);
        }
        core_->source = pipe == Pipe::MTE3 || pipe == Pipe::FIX || cast ? ptr : nullptr;
        core_->sourceNumber = view.number;
        core_->sourceRuns = {pattern.runBytes, pattern.runs, pattern.outer};
        core_->sourceStrides = {pattern.stride, pattern.outerStride};
        return;
    }
    if (core_->source == nullptr) {
        return;
    }
    const Pattern source(core_->sourceRuns[0], core_->sourceRuns[1], core_->sourceStrides[0],
                         core_->sourceRuns[2], core_->sourceStrides[1]);
    if (view.number == Number::F16 && core_->sourceNumber == Number::F32) {
        uint64_t overflows = 0;
        forRuns(core_->source, source, [&](const uint8_t* p, uint64_t bytes) {
            const uint64_t n = bytes / 4;
            if (largestFloat(p, n) < HALF_INFINITE) {
                return;
            }
            for (uint64_t i = 0; i < n; ++i) {
                uint32_t bits;
                memcpy(&bits, p + i * 4, 4);
                bits &= 0x7fffffff;
                overflows += bits >= HALF_INFINITE && bits < FLOAT_INFINITE ? 1 : 0;
            }
        });
        if (overflows != 0) {
            note("half-overflow", o, place, "%" PRIu64 " finite numbers of %s become infinity as half",
                 overflows, o.api);
        }
    }
    const bool result = place.argument != nullptr && place.argument->role != GmRole::WORKSPACE;
    if (result && inputsFinite_ && !isFinite(core_->sourceNumber, core_->source, source)) {
        note("not-finite", o, place,
             "NaN or infinity goes to '%s', although everything read so far is finite",
             place.argument->name.c_str());
    }
}

void Engine::note(const char* rule, const Operand& o, const Place& place, const char* format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    Violation v;
    v.rule = rule;
    v.api = o.api;
    v.operand = o.name;
    v.buffer = placeName(place);
    v.offset = offsetInBuffer(place, place.offset);
    v.core = coreName(core_->number);
    v.pipe = o.pipe;
    v.node = core_->node;
    v.message = text;
    notes_.add(std::move(v));
}

}  // namespace check
}  // namespace gaf_twin
