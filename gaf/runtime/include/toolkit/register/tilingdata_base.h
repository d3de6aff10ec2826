// SPDX-License-Identifier: Apache-2.0
// Tiling structures that a program defines itself: members with setters, saved byte by byte.
#ifndef GAF_TWIN_TILINGDATA_BASE_H
#define GAF_TWIN_TILINGDATA_BASE_H

#include "twin/tiling_data.h"

#define BEGIN_TILING_DATA_DEF(NAME) \
    class NAME {                    \
    public:                         \
        using Self = NAME;          \
        GAF_TILING_BUFFER
#define TILING_DATA_FIELD_DEF(TYPE, NAME) GAF_TILING_MEMBER(TYPE, NAME)
#define TILING_DATA_FIELD_DEF_ARR(TYPE, COUNT, NAME)                                                        \
    TYPE NAME[COUNT] = {};                                                                                  \
    void set_##NAME(const TYPE* values) { memcpy(NAME, values, sizeof(NAME)); }                             \
    TYPE* get_##NAME() { return NAME; }
#define TILING_DATA_FIELD_DEF_STRUCT(TYPE, NAME) TYPE NAME;
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(OP, NAME)

// In kernels: the structure behind the tiling address.
#define REGISTER_TILING_DEFAULT(NAME)
#define GET_TILING_DATA_WITH_STRUCT(TYPE, NAME, ADDRESS) \
    TYPE NAME;                                           \
    memcpy(static_cast<void*>(&NAME), (ADDRESS), sizeof(TYPE))

#endif  // GAF_TWIN_TILINGDATA_BASE_H
