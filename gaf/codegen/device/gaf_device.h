// SPDX-License-Identifier: Apache-2.0
// The device library of generated kernels: one include for the vector and the cube part.
#ifndef GAF_DEVICE_H
#define GAF_DEVICE_H

#include "gaf_compat.h"
#include "gaf_cube.h"
#include "gaf_random.h"
#include "gaf_scan.h"
#include "gaf_sort.h"
#include "gaf_vector.h"

#endif  // GAF_DEVICE_H
