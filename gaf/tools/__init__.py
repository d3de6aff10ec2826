# SPDX-License-Identifier: Apache-2.0
"""Command line tools: `gaf` for models, `gaf-opt` for one pass at a time."""
