// SPDX-License-Identifier: Apache-2.0
// Tiling structures of kernels.
#ifndef GAF_TWIN_KERNEL_TILING_H
#define GAF_TWIN_KERNEL_TILING_H

#include "twin/tiling_data.h"

#endif  // GAF_TWIN_KERNEL_TILING_H
