# SPDX-License-Identifier: Apache-2.0
"""Passes that work on the graph level."""
