# SPDX-License-Identifier: Apache-2.0
"""Tests of gaf; folders mirror the package."""
