// SPDX-License-Identifier: Apache-2.0
// Collects the violations of one launch: the first of every kind with all its facts, the others as counts.
#ifndef GAF_CHECK_REPORT_H
#define GAF_CHECK_REPORT_H

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace gaf_twin {
namespace check {

// One violation. Empty strings and offset -1 mean "does not apply".
struct Violation {
    std::string rule;
    std::string api;
    std::string operand;
    std::string buffer;
    int64_t offset = -1;   // bytes from the start of `buffer` to the first offending byte
    std::string core;      // "AIV 3"
    std::string pipe;      // "V"
    std::string node;      // model node (GAF_AT)
    std::string message;
    uint64_t count = 1;    // times that the same rule, api, operand, buffer and node were hit
};

class Report {
public:
    static constexpr size_t KEPT = 50;

    void clear();
    void setKernel(const char* name) { kernel_ = name != nullptr ? name : ""; }
    // Keeps at most KEPT distinct violations, but always the first of every rule; counts all.
    void add(Violation violation);
    uint64_t total() const { return total_; }
    // One JSON object a line, in the order of first occurrence. `rule_count` is the number of all violations
    // of that rule, kept or not. Returns the length of the text; `out` gets whole lines only, NUL-terminated.
    // `note`: marks every object as a note.
    uint64_t json(char* out, uint64_t cap, bool note = false) const;

private:
    std::string kernel_;
    uint64_t total_ = 0;
    std::vector<Violation> kept_;
    std::map<std::string, uint64_t> byRule_;
    std::unordered_map<std::string, size_t> index_;   // signature -> position in kept_, or KEPT when dropped
};

}  // namespace check
}  // namespace gaf_twin

#endif  // GAF_CHECK_REPORT_H
