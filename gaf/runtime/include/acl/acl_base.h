// SPDX-License-Identifier: Apache-2.0
// Part of acl/acl.h.
#include "acl/acl.h"
