# SPDX-License-Identifier: Apache-2.0
"""Passes on ascendc kernels."""
