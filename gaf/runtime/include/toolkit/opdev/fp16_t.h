// SPDX-License-Identifier: Apache-2.0
// Half precision on the host: the kernels' own type.
#ifndef GAF_TWIN_OPDEV_FP16_T_H
#define GAF_TWIN_OPDEV_FP16_T_H

#include "twin/types.h"

namespace op {
using fp16_t = half;
}  // namespace op

#endif  // GAF_TWIN_OPDEV_FP16_T_H
