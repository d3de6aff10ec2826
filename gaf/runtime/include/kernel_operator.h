// SPDX-License-Identifier: Apache-2.0
// The Ascend C API for the CPU: an independent implementation of its public behaviour on Atlas A2 (dav-2201).
//
// Build a kernel with this folder in the include path and -DGAF_TWIN=1 (fast) or 2 (check); see
// gaf_twin_launch.h.
#ifndef GAF_TWIN_KERNEL_OPERATOR_H
#define GAF_TWIN_KERNEL_OPERATOR_H

#include "twin/copy.h"
#include "twin/cube.h"
#include "twin/math.h"
#include "twin/move.h"
#include "twin/queue.h"
#include "twin/reduce.h"
#include "twin/select.h"
#include "twin/sync.h"
#include "twin/vector.h"

#endif  // GAF_TWIN_KERNEL_OPERATOR_H
