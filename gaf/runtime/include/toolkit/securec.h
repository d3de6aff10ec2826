// SPDX-License-Identifier: Apache-2.0
// Copies that check their room, as host code of the toolkit uses them.
#ifndef GAF_TWIN_SECUREC_H
#define GAF_TWIN_SECUREC_H

#include <stddef.h>
#include <string.h>

typedef int errno_t;
#ifndef EOK
#define EOK 0
#endif

inline errno_t memcpy_s(void* dst, size_t room, const void* src, size_t bytes)
{
    if (dst == nullptr || src == nullptr || bytes > room) {
        return 34;  // ERANGE
    }
    memcpy(dst, src, bytes);
    return EOK;
}
inline errno_t memset_s(void* dst, size_t room, int value, size_t bytes)
{
    if (dst == nullptr || bytes > room) {
        return 34;
    }
    memset(dst, value, bytes);
    return EOK;
}

#endif  // GAF_TWIN_SECUREC_H
