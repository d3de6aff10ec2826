// SPDX-License-Identifier: Apache-2.0
// The host runtime API of acl/acl.h over the twin's memory table.
#include "acl/acl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gaf_twin_host.h"
#include "host_memory.h"
#include "twin/types.h"

namespace {

using gaf_twin::host::FindAllocation;
using gaf_twin::host::MemoryLock;

thread_local char message[256];
thread_local aclError lastError = ACL_SUCCESS;
int32_t currentDevice = 0;
int defaultContext;  // an address is all that a context is

struct Event {
    timespec at;
};
struct Stream {
    uint32_t flag;
};

aclError Fail(aclError code, const char* format, ...) __attribute__((format(printf, 2, 3)));
aclError Fail(aclError code, const char* format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fprintf(stderr, "gaf twin: %s\n", message);
    lastError = code;
    return code;
}

aclError Finished()
{
    const int32_t code = gaf_twin::host::TakeFailure();
    return code == 0   ? ACL_SUCCESS
           : code == 2 ? Fail(ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel got stuck")
                       : Fail(ACL_ERROR_RT_AICORE_EXCEPTION, "a kernel could not be launched");
}

// Whether [p, p + bytes) lies in one piece of device memory; null: not in device memory at all.
const char* DeviceRangeProblem(const void* p, size_t bytes)
{
    std::lock_guard<std::mutex> hold(MemoryLock());
    gaf_twin::host::Allocation* a = FindAllocation(p);
    if (a == nullptr) {
        return "is not device memory";
    }
    const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(p) - static_cast<uint8_t*>(a->base));
    return at + bytes <= a->bytes ? nullptr : "runs past the end of its device memory";
}

aclError Copy(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind)
{
    if (bytes == 0) {
        return ACL_SUCCESS;
    }
    if (dst == nullptr || src == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy: null address");
    }
    if (bytes > room) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy: %zu bytes into room for %zu", bytes, room);
    }
    const bool toDevice = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool fromDevice = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const char* problem = toDevice ? DeviceRangeProblem(dst, bytes) : nullptr;
    if (problem != nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy: the destination %s", problem);
    }
    problem = fromDevice ? DeviceRangeProblem(src, bytes) : nullptr;
    if (problem != nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy: the source %s", problem);
    }
    memmove(dst, src, bytes);
    gaf_twin::host::DeviceWritten(dst);
    return ACL_SUCCESS;
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

aclError aclInit(const char*) { return ACL_SUCCESS; }
aclError aclFinalize(void) { return ACL_SUCCESS; }
const char* aclGetRecentErrMsg(void) { return message[0] != '\0' ? message : nullptr; }
const char* aclrtGetSocName(void) { return "Ascend910B1"; }
aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch)
{
    *major = 1;
    *minor = *patch = 0;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device)
{
    if (device != 0) {
        return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "aclrtSetDevice: device %d, there is only device 0", device);
    }
    currentDevice = device;
    return ACL_SUCCESS;
}
aclError aclrtResetDevice(int32_t device) { return aclrtSetDevice(device); }
aclError aclrtResetDeviceForce(int32_t device) { return aclrtSetDevice(device); }
aclError aclrtGetDevice(int32_t* device)
{
    *device = currentDevice;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceCount(uint32_t* count)
{
    *count = 1;
    return ACL_SUCCESS;
}
aclError aclrtGetRunMode(aclrtRunMode* mode)
{
    *mode = ACL_HOST;
    return ACL_SUCCESS;
}
aclError aclrtSynchronizeDevice(void) { return Finished(); }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return Finished(); }
aclError aclrtGetLastError(aclrtLastErrLevel)
{
    const aclError code = lastError;
    lastError = ACL_SUCCESS;
    return code;
}
aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return lastError; }

aclError aclrtCreateContext(aclrtContext* context, int32_t)
{
    *context = &defaultContext;
    return ACL_SUCCESS;
}
aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
aclError aclrtSetCurrentContext(aclrtContext) { return ACL_SUCCESS; }
aclError aclrtGetCurrentContext(aclrtContext* context)
{
    *context = &defaultContext;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream* stream)
{
    *stream = new Stream{0};
    return ACL_SUCCESS;
}
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t flag)
{
    *stream = new Stream{flag};
    return ACL_SUCCESS;
}
aclError aclrtDestroyStream(aclrtStream stream)
{
    delete static_cast<Stream*>(stream);
    return ACL_SUCCESS;
}
aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }
aclError aclrtSynchronizeStream(aclrtStream) { return Finished(); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream, int32_t) { return Finished(); }
aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return ACL_SUCCESS; }

aclError aclrtCreateEvent(aclrtEvent* event)
{
    *event = new Event{};
    return ACL_SUCCESS;
}
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
aclError aclrtDestroyEvent(aclrtEvent event)
{
    delete static_cast<Event*>(event);
    return ACL_SUCCESS;
}
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream)
{
    clock_gettime(CLOCK_MONOTONIC, &static_cast<Event*>(event)->at);
    return ACL_SUCCESS;
}
aclError aclrtResetEvent(aclrtEvent, aclrtStream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeEvent(aclrtEvent) { return Finished(); }
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end)
{
    const timespec a = static_cast<Event*>(start)->at, b = static_cast<Event*>(end)->at;
    *ms = static_cast<float>(static_cast<double>(b.tv_sec - a.tv_sec) * 1e3 +
                             static_cast<double>(b.tv_nsec - a.tv_nsec) * 1e-6);
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void** p, size_t bytes, aclrtMemMallocPolicy)
{
    if (p == nullptr || bytes == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMalloc: null address or 0 bytes");
    }
    *p = gaf_twin::host::DeviceAlloc(bytes);
    return *p != nullptr ? ACL_SUCCESS
                         : Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMalloc: no %zu bytes left", bytes);
}
aclError aclrtMallocAlign32(void** p, size_t bytes, aclrtMemMallocPolicy policy)
{
    return aclrtMalloc(p, bytes, policy);
}
aclError aclrtMallocCached(void** p, size_t bytes, aclrtMemMallocPolicy policy)
{
    return aclrtMalloc(p, bytes, policy);
}
aclError aclrtFree(void* p)
{
    return gaf_twin::host::DeviceFree(p) ? ACL_SUCCESS
                                         : Fail(ACL_ERROR_INVALID_PARAM, "aclrtFree: not device memory");
}
aclError aclrtMallocHost(void** p, size_t bytes)
{
    if (p == nullptr || bytes == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocHost: null address or 0 bytes");
    }
    *p = nullptr;
    return posix_memalign(p, 64, bytes) == 0
               ? ACL_SUCCESS
               : Fail(ACL_ERROR_BAD_ALLOC, "aclrtMallocHost: no %zu bytes left", bytes);
}
aclError aclrtFreeHost(void* p)
{
    free(p);
    return ACL_SUCCESS;
}
aclError aclrtMemset(void* p, size_t room, int32_t value, size_t bytes)
{
    if (bytes > room) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtMemset: %zu bytes into room for %zu", bytes, room);
    }
    memset(p, value, bytes);
    gaf_twin::host::DeviceWritten(p);
    return ACL_SUCCESS;
}
aclError aclrtMemsetAsync(void* p, size_t room, int32_t value, size_t bytes, aclrtStream)
{
    return aclrtMemset(p, room, value, bytes);
}
aclError aclrtMemcpy(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind)
{
    return Copy(dst, room, src, bytes, kind);
}
aclError aclrtMemcpyAsync(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind,
                          aclrtStream)
{
    return Copy(dst, room, src, bytes, kind);
}
aclError aclrtMemcpy2d(void* dst, size_t dstPitch, const void* src, size_t srcPitch, size_t width,
                       size_t height, aclrtMemcpyKind kind)
{
    for (size_t i = 0; i < height; ++i) {
        const aclError code = Copy(static_cast<uint8_t*>(dst) + i * dstPitch, dstPitch,
                                   static_cast<const uint8_t*>(src) + i * srcPitch, width, kind);
        if (code != ACL_SUCCESS) {
            return code;
        }
    }
    return ACL_SUCCESS;
}
aclError aclrtGetMemInfo(aclrtMemAttr, size_t* available, size_t* total)
{
    *available = *total = size_t(64) << 30;  // HBM of a 910B1
    return ACL_SUCCESS;
}
aclError aclrtGetHardwareSyncAddr(void** address)
{
    static uint64_t base[2];
    *address = base;
    return ACL_SUCCESS;
}

size_t aclDataTypeSize(aclDataType type)
{
    switch (type) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL: return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16: return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32: return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE:
        case ACL_COMPLEX64: return 8;
        case ACL_COMPLEX128: return 16;
        default: return 0;
    }
}
float aclFloat16ToFloat(aclFloat16 value) { return gaf_twin::HalfToFloat(value); }
aclFloat16 aclFloatToFloat16(float value) { return gaf_twin::FloatToHalf(value); }

#pragma GCC visibility pop

}  // extern "C"
