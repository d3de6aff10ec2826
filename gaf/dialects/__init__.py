# SPDX-License-Identifier: Apache-2.0
"""The three levels of gaf: `graph` (tensors), `tile` (tiles of one kernel), `ascendc` (API calls)."""
