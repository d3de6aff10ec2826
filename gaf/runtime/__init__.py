# SPDX-License-Identifier: Apache-2.0
"""Running kernels on the host: compiler and disk cache, the host twin, execution of a whole model."""
