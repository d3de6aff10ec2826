# SPDX-License-Identifier: Apache-2.0
"""From ascendc kernels to files: C++ text of kernels, host tiling, and whole projects."""
