// SPDX-License-Identifier: Apache-2.0
// The Ascend C API for the CPU: an independent implementation of its public behaviour on Atlas A2 (dav-2201).
//
// Build a kernel with this folder in the include path and -DGAF_TWIN=1 (fast), 2 (check) or
// 3 (trace); see gaf_twin_launch.h. -DGAF_TWIN_LEAN leaves out what generated kernels do not use.
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

// What generated kernels do not use.
#if !defined(GAF_TWIN_LEAN)
#include "twin/activation.h"
#include "twin/cube_forms.h"
#include "twin/debug.h"
#include "twin/gather.h"
#include "twin/intercore.h"
#include "twin/math_forms.h"
#include "twin/normalize.h"
#include "twin/operators.h"
#include "twin/pad.h"
#include "twin/pool.h"
#include "twin/quant.h"
#include "twin/sort.h"
#include "twin/static.h"
#include "twin/utility.h"
#endif

#endif  // GAF_TWIN_KERNEL_OPERATOR_H
