# SPDX-License-Identifier: Apache-2.0
"""Passes on tile kernels: regions to tiles, tile sizes and memory plan, tiles to Ascend C."""
