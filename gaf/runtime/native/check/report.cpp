// SPDX-License-Identifier: Apache-2.0
// Violations of one launch: deduplication, counting and JSON text.
#include "report.h"

#include <cstdio>
#include <cstring>

namespace gaf_twin {
namespace check {

namespace {

constexpr size_t DROPPED = ~static_cast<size_t>(0);

void appendString(std::string& to, const char* key, const std::string& text, bool first = false)
{
    if (!first) {
        to += ", ";
    }
    to += '"';
    to += key;
    to += "\": \"";
    for (char c : text) {
        switch (c) {
            case '"': to += "\\\""; break;
            case '\\': to += "\\\\"; break;
            case '\n': to += "\\n"; break;
            case '\t': to += "\\t"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    char hex[8];
                    snprintf(hex, sizeof hex, "\\u%04x", c);
                    to += hex;
                } else {
                    to += c;
                }
        }
    }
    to += '"';
}

void appendNumber(std::string& to, const char* key, int64_t value)
{
    to += ", \"";
    to += key;
    to += "\": ";
    to += std::to_string(value);
}

}  // namespace

void Report::clear()
{
    kernel_.clear();
    total_ = 0;
    kept_.clear();
    byRule_.clear();
    index_.clear();
}

void Report::add(Violation violation)
{
    ++total_;
    bool firstOfRule = ++byRule_[violation.rule] == 1;
    std::string signature = violation.rule + '\0' + violation.api + '\0' + violation.operand + '\0'
                            + violation.buffer + '\0' + violation.node;
    auto [at, isNew] = index_.emplace(std::move(signature), DROPPED);
    if (!isNew) {
        if (at->second != DROPPED) {
            ++kept_[at->second].count;
        }
        return;
    }
    if (kept_.size() < KEPT || firstOfRule) {
        at->second = kept_.size();
        kept_.push_back(std::move(violation));
    }
}

uint64_t Report::json(char* out, uint64_t cap, bool note) const
{
    if (out == nullptr || cap == 0) {
        return 0;
    }
    uint64_t used = 0;
    for (const Violation& v : kept_) {
        std::string line = "{";
        appendString(line, "rule", v.rule, true);
        appendString(line, "kernel", kernel_);
        appendString(line, "api", v.api);
        appendString(line, "operand", v.operand);
        appendString(line, "buffer", v.buffer);
        appendNumber(line, "offset", v.offset);
        appendString(line, "core", v.core);
        appendString(line, "pipe", v.pipe);
        appendString(line, "node", v.node);
        appendString(line, "message", v.message);
        appendNumber(line, "count", static_cast<int64_t>(v.count));
        appendNumber(line, "rule_count", static_cast<int64_t>(byRule_.at(v.rule)));
        line += note ? ", \"note\": true}\n" : "}\n";
        if (used + line.size() + 1 > cap) {
            break;
        }
        memcpy(out + used, line.data(), line.size());
        used += line.size();
    }
    out[used] = '\0';
    return used;
}

}  // namespace check
}  // namespace gaf_twin
