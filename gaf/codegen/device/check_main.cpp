// SPDX-License-Identifier: Apache-2.0
// Runs every kernel on the inputs in check/data and compares its results with those that gaf verified.
// gaf_check [FOLDER]: FOLDER holds cases.txt, by default ./check. Exit code 0: all agree, 1: some don't, 2: an error.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "entries.h"

namespace {

struct Tensor {
    bool output = false;
    std::string dtype;
    double tolerance = 0.0;
    std::vector<char> bytes;
    void *device = nullptr;
};

[[noreturn]] void Stop(const std::string &what)
{
    std::fprintf(stderr, "gaf_check: %s\n", what.c_str());
    std::exit(2);
}

void Acl(aclError code, const char *call)
{
    if (code != ACL_SUCCESS) {
        Stop(std::string(call) + " returned " + std::to_string(static_cast<int>(code)));
    }
}

std::vector<char> ReadBytes(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        Stop("can't read " + path);
    }
    return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

template <class T>
T Load(const char *at)
{
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

double FromBits(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

double HalfValue(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double sign = h >> 15 ? -1.0 : 1.0;
    if (exponent == 31) {
        return mantissa != 0 ? NAN : sign * INFINITY;
    }
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

size_t Width(const std::string &dtype)
{
    const size_t bits = dtype.find("64") != std::string::npos   ? 64
                        : dtype.find("32") != std::string::npos ? 32
                        : dtype.find("16") != std::string::npos ? 16
                                                                : 8;
    return bits / 8;
}

double Value(const std::string &dtype, const char *at)
{
    if (dtype == "f32") {
        return Load<float>(at);
    }
    if (dtype == "f16") {
        return HalfValue(Load<uint16_t>(at));
    }
    if (dtype == "bf16") {
        return FromBits(static_cast<uint32_t>(Load<uint16_t>(at)) << 16);
    }
    if (dtype == "i64" || dtype == "ui64") {
        return static_cast<double>(Load<int64_t>(at));
    }
    if (dtype == "i32") {
        return Load<int32_t>(at);
    }
    if (dtype == "ui32") {
        return Load<uint32_t>(at);
    }
    if (dtype == "i16") {
        return Load<int16_t>(at);
    }
    if (dtype == "ui16") {
        return Load<uint16_t>(at);
    }
    return dtype == "i8" ? static_cast<double>(Load<int8_t>(at)) : static_cast<double>(Load<uint8_t>(at));
}

// The largest |got - expected| / (|expected| + rms of all expected); NaN must meet NaN, infinity the same one.
double Error(const Tensor &tensor, const std::vector<char> &got)
{
    const size_t width = Width(tensor.dtype), count = got.size() / width;
    double square = 0.0, worst = 0.0;
    for (size_t i = 0; i < count; ++i) {
        const double e = Value(tensor.dtype, tensor.bytes.data() + i * width);
        square += std::isfinite(e) ? e * e : 0.0;
    }
    const double rms = count == 0 ? 0.0 : std::sqrt(square / static_cast<double>(count));
    for (size_t i = 0; i < count; ++i) {
        const double e = Value(tensor.dtype, tensor.bytes.data() + i * width), g = Value(tensor.dtype, &got[i * width]);
        if (e == g || (std::isnan(e) && std::isnan(g))) {
            continue;
        }
        const double error = std::fabs(g - e) / (std::fabs(e) + rms);
        worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
    }
    return worst;
}

const gaf_check::Entry *Find(const std::string &name)
{
    for (const gaf_check::Entry &entry : gaf_check::ENTRIES) {
        if (name == entry.name) {
            return &entry;
        }
    }
    return nullptr;
}

// Runs one case; true if every output agrees.
bool Run(const gaf_check::Entry &entry, const std::vector<int64_t> &sizes, std::vector<Tensor> &tensors,
         aclrtStream stream)
{
    if (sizes.size() != entry.sizes || tensors.size() != entry.tensors) {
        Stop(std::string("cases.txt does not fit kernel ") + entry.name);
    }
    std::vector<void *> pointers;
    for (Tensor &tensor : tensors) {
        const size_t bytes = tensor.bytes.size();
        Acl(aclrtMalloc(&tensor.device, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        if (!tensor.output) {
            Acl(aclrtMemcpy(tensor.device, bytes, tensor.bytes.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        }
        pointers.push_back(tensor.device);
    }
    void *workspace = nullptr;
    const uint64_t bytes = entry.workspace(sizes.data());
    Acl(aclrtMalloc(&workspace, bytes > 32 ? bytes : 32, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    const char *error = entry.launch(pointers.data(), workspace, stream, sizes.data());
    if (error != nullptr) {
        Stop(std::string(entry.name) + ": " + error);
    }
    Acl(aclrtSynchronizeStream(stream), entry.name);
    bool fine = true;
    for (Tensor &tensor : tensors) {
        if (tensor.output) {
            std::vector<char> got(tensor.bytes.size());
            Acl(aclrtMemcpy(got.data(), got.size(), tensor.device, got.size(), ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
            const double found = Error(tensor, got);
            const bool good = found <= tensor.tolerance;
            std::printf("%s: %s, error %.2g (tolerance %.2g)\n", entry.name, good ? "ok" : "DIFFERS", found,
                        tensor.tolerance);
            fine = fine && good;
        }
        Acl(aclrtFree(tensor.device), "aclrtFree");
    }
    Acl(aclrtFree(workspace), "aclrtFree");
    return fine;
}

}  // namespace

int main(int argc, char **argv)
{
    const std::string folder = argc > 1 ? argv[1] : "check";
    std::ifstream cases(folder + "/cases.txt");
    if (!cases) {
        Stop("can't read " + folder + "/cases.txt");
    }
    Acl(aclInit(nullptr), "aclInit");
    Acl(aclrtSetDevice(0), "aclrtSetDevice");
    aclrtStream stream = nullptr;
    Acl(aclrtCreateStream(&stream), "aclrtCreateStream");
    int run = 0, wrong = 0;
    std::string line;
    while (std::getline(cases, line)) {
        std::istringstream words(line);
        std::string kernel;
        size_t count = 0;
        if (line.empty() || line[0] == '#' || !(words >> kernel >> count)) {
            continue;
        }
        std::vector<int64_t> sizes;
        for (int64_t size = 0; words >> size;) {
            sizes.push_back(size);
        }
        std::vector<Tensor> tensors(count);
        for (Tensor &tensor : tensors) {
            std::string role, file;
            if (!std::getline(cases, line)) {
                Stop("cases.txt ends in the middle of a case");
            }
            std::istringstream fields(line);
            fields >> role >> tensor.dtype >> file >> tensor.tolerance;
            tensor.output = role == "out";
            tensor.bytes = ReadBytes(folder + "/" + file);
        }
        const gaf_check::Entry *entry = Find(kernel);
        if (entry == nullptr) {
            Stop("no kernel " + kernel);
        }
        ++run;
        wrong += Run(*entry, sizes, tensors, stream) ? 0 : 1;
    }
    Acl(aclrtDestroyStream(stream), "aclrtDestroyStream");
    Acl(aclrtResetDevice(0), "aclrtResetDevice");
    Acl(aclFinalize(), "aclFinalize");
    std::printf("%d of %d kernels agree\n", run - wrong, run);
    return wrong == 0 ? 0 : 1;
}
