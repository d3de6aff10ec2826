// SPDX-License-Identifier: Apache-2.0
// bfloat16 on the host: the kernels' own type.
#ifndef GAF_TWIN_OPDEV_BFLOAT16_H
#define GAF_TWIN_OPDEV_BFLOAT16_H

#include "twin/types.h"

namespace op {
using bfloat16 = bfloat16_t;
}  // namespace op

#endif  // GAF_TWIN_OPDEV_BFLOAT16_H
