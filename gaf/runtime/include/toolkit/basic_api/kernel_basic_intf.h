// SPDX-License-Identifier: Apache-2.0
// Part of kernel_operator.h.
#include "kernel_operator.h"
