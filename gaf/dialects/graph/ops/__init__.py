# SPDX-License-Identifier: Apache-2.0
"""The graph ops, one module a family; `FAMILIES` is the order in which they are registered."""

FAMILIES = (
    "structure",
    "foreign",
    "custom",
    "control",
    "unary",
    "activation",
    "binary",
    "compare",
    "cast",
    "reduce",
    "search",
    "matmul",
    "softmax",
    "norm",
    "channel_norm",
    "shape",
    "assume",
    "slice",
    "index",
    "scatter",
    "create",
    "random",
    "conv",
    "pool",
    "resize",
    "collective",
    "overlap",
)
"""Modules of this package that define graph ops. A new family is one more name here."""
