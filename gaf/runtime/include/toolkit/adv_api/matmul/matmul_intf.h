// SPDX-License-Identifier: Apache-2.0
// Another name of lib/matmul_intf.h.
#include "lib/matmul_intf.h"
