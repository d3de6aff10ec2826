// SPDX-License-Identifier: Apache-2.0
// Host side of the high-level API: sizes of temporary memory and tiling structures.
//
// Sizes are the toolkit's for the calls whose minimum the check mode knows; the tiling functions fill in the
// shapes that the twin's calls read.
#ifndef GAF_TWIN_TILING_API_H
#define GAF_TWIN_TILING_API_H

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <vector>

#include "register/tilingdata_base.h"
#include "securec.h"
#include "tiling/matmul_tiling.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/shape.h"
#include "tiling/vector_tiling.h"

#endif  // GAF_TWIN_TILING_API_H
