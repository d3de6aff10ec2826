// SPDX-License-Identifier: Apache-2.0
// Device memory of host programs, and launches out of them with their reports.
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gaf_twin_host.h"
#include "gaf_twin_launch.h"
#include "host_memory.h"
#include "scheduler.h"
#include "twin/debug.h"

namespace gaf_twin {
namespace host {

namespace {

constexpr uint64_t ALIGNMENT = 512;  // of device memory
constexpr uint64_t REPORT_BYTES = 1 << 18;
constexpr int SHOWN = 8;             // violations of a launch printed in full

std::mutex lock;
std::map<uintptr_t, Allocation>& Table()
{
    static auto* table = new std::map<uintptr_t, Allocation>;  // outlives every static of the program
    return *table;
}
int32_t failure = 0;
alignas(512) uint8_t systemWorkspace[512];  // only its address is used: the twin keeps nothing there

void CallBody(void* const*, const void* closure)
{
    const LaunchRequest& r = *static_cast<const LaunchRequest*>(closure);
    r.run(r.closure);
}

// The value of a string member of a one-line JSON object.
std::string Member(const std::string& json, const std::string& key)
{
    const std::string start = "\"" + key + "\": \"";
    const size_t at = json.find(start);
    if (at == std::string::npos) {
        return "";
    }
    std::string out;
    for (size_t i = at + start.size(); i < json.size() && json[i] != '"'; ++i) {
        if (json[i] == '\\' && i + 1 < json.size()) {
            ++i;
        }
        out += json[i];
    }
    return out;
}

void Report(const LaunchRequest& request, int32_t code, uint64_t violations, const char* text)
{
    std::vector<std::string> lines;
    for (const char* p = text; *p != '\0';) {
        const char* end = p;
        while (*end != '\0' && *end != '\n') {
            ++end;
        }
        if (*p == '{' && end[-1] == '}') {
            lines.emplace_back(p, end);
        }
        p = *end == '\0' ? end : end + 1;
    }
    const char* file = getenv("GAF_TWIN_REPORT");
    if (file != nullptr) {
        FILE* f = fopen(file, "a");
        if (f != nullptr) {
            fprintf(f, "{\"launch\":\"%s\",\"blocks\":%u,\"code\":%d,\"violations\":%llu}\n", request.name,
                    request.blocks, code, static_cast<unsigned long long>(violations));
            for (const std::string& line : lines) {
                fprintf(f, "%s\n", line.c_str());
            }
            fclose(f);
        }
    }
    if (code == 0) {
        return;
    }
    fprintf(stderr, "gaf twin: kernel '%s' (%u blocks): %s, %llu violations\n", request.name, request.blocks,
            code == 2 ? "stuck" : code == 3 ? "not launched" : "rules broken",
            static_cast<unsigned long long>(violations));
    for (size_t i = 0; i < lines.size() && i < SHOWN; ++i) {
        fprintf(stderr, "  [%s] %s %s: %s\n", Member(lines[i], "rule").c_str(),
                Member(lines[i], "core").c_str(), Member(lines[i], "api").c_str(),
                Member(lines[i], "message").c_str());
    }
    if (lines.size() > SHOWN) {
        fprintf(stderr, "  and %zu more\n", lines.size() - SHOWN);
    }
    fflush(stderr);
}

}  // namespace

Allocation* FindAllocation(const void* p)
{
    auto& table = Table();
    auto at = table.upper_bound(reinterpret_cast<uintptr_t>(p));
    if (at == table.begin()) {
        return nullptr;
    }
    --at;
    return reinterpret_cast<uintptr_t>(p) < at->first + at->second.bytes ? &at->second : nullptr;
}
std::mutex& MemoryLock() { return lock; }

void* DeviceAlloc(uint64_t bytes)
{
    void* p = nullptr;
    const uint64_t size = (bytes + 31) / 32 * 32;
    if (bytes == 0 || posix_memalign(&p, ALIGNMENT, size) != 0) {
        return nullptr;
    }
    // NaN in every float type: what nothing has written shows. GAF_TWIN_FILL: another byte, for programs that count
    // on fresh memory being 0.
    const char* fill = getenv("GAF_TWIN_FILL");
    memset(p, fill == nullptr || *fill == 0 ? 0xff : static_cast<int>(strtol(fill, nullptr, 0)), size);
    std::lock_guard<std::mutex> hold(lock);
    Table()[reinterpret_cast<uintptr_t>(p)] = Allocation{p, size, false};
    return p;
}

bool DeviceFree(void* p)
{
    {
        std::lock_guard<std::mutex> hold(lock);
        if (Table().erase(reinterpret_cast<uintptr_t>(p)) == 0) {
            return false;
        }
    }
    free(p);
    return true;
}

void DeviceWritten(const void* p)
{
    std::lock_guard<std::mutex> hold(lock);
    if (Allocation* a = FindAllocation(p)) {
        a->written = true;
    }
}

int32_t TakeFailure()
{
    std::lock_guard<std::mutex> hold(lock);
    const int32_t code = failure;
    failure = 0;
    return code;
}

void SetWorkspace(void* p) { Current().sysWorkspace = reinterpret_cast<uint64_t>(p); }

int32_t Launch(const LaunchRequest& request)
{
    std::vector<void*> args;
    std::vector<uint64_t> bytes;
    std::vector<uint8_t> roles;
    std::vector<std::string> texts;
    std::vector<const char*> names;
    {
        std::lock_guard<std::mutex> hold(lock);
        for (auto& entry : Table()) {
            Allocation& a = entry.second;
            std::string name;
            for (uint32_t i = 0; i < request.pointerCount; ++i) {
                const uint64_t at = reinterpret_cast<uintptr_t>(request.pointers[i]) - entry.first;
                if (at < a.bytes) {
                    name += (name.empty() ? "argument " : ", ") + std::to_string(i);
                }
            }
            args.push_back(a.base);
            bytes.push_back(a.bytes);
            roles.push_back(static_cast<uint8_t>(a.written ? check::GmRole::IN_OUT : check::GmRole::WORKSPACE));
            texts.push_back(name.empty() ? "device memory of " + std::to_string(a.bytes) + " bytes" : name);
            a.written = true;
        }
    }
    for (const std::string& t : texts) {
        names.push_back(t.c_str());
    }
    std::string text(request.mode == MODE_CHECK ? REPORT_BYTES : 4096, '\0');
    GafTwinResult result = {};
    result.roles = roles.data();
    result.text = &text[0];
    result.textBytes = text.size();
    int type = request.type;
    LaunchCall call = {};
    call.name = request.name;
    call.run = &CallBody;
    call.kernelType = &type;
    call.mode = request.mode;
    call.pointers = call.nargs = static_cast<uint32_t>(args.size());
    call.args = args.data();
    call.bytes = bytes.data();
    call.tiling = &request;
    call.blocks = request.blocks;
    call.result = &result;
    call.names = names.data();
    call.sysWorkspace = systemWorkspace;
    const char* strict = getenv("GAF_TWIN_AUTO_SYNC");
    call.autoSync = strict == nullptr || strict[0] != '0';
    const int32_t code = RunLaunch(call);
    Report(request, code, result.violations, text.c_str());
    if (code >= 2) {
        std::lock_guard<std::mutex> hold(lock);
        failure = code;
    }
    return code;
}

}  // namespace host

void WriteOutput(const char* text, uint64_t bytes)
{
    std::lock_guard<std::mutex> hold(host::MemoryLock());
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

}  // namespace gaf_twin

// The C library's assert, which a source that includes <cassert> has in its kernels too: there it stops the kernel,
// as on the device, not the program.
extern "C" __attribute__((visibility("default"), noreturn)) void __assert_fail(const char* condition, const char* file,
                                                                              unsigned int line,
                                                                              const char*) noexcept
{
    gaf_twin::AssertFailed(file, static_cast<int>(line), condition);
}
