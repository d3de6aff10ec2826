# SPDX-License-Identifier: Apache-2.0
"""The rules of the pass `canonicalize`, one file a family of operations."""
