# SPDX-License-Identifier: Apache-2.0
"""Which values stay in L2 between the kernel that writes them and those that read them: one rule for all
plans.

A value counts as resident if the live data stays below a limit from its definition to its last use: all
intermediate values that are alive, and what the op at hand reads besides. The rule looks at the unfused op
order, so fused and unfused plans take the same bytes at L2 speed.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from gaf.dialects.graph.types import TensorType
from gaf.fusion.opgraph import OpGraph, is_constant
from gaf.fusion.work import Sizes


def resident_values(graph: OpGraph, env: Sizes, limit: float) -> set[SSAValue]:
    """Results of ops that stay in L2 until their last use. `limit` is in bytes."""
    bytes_of: dict[TensorType, int] = {}

    def size(value: SSAValue) -> int:
        kind = value.type
        if not isinstance(kind, TensorType):
            return 0
        if kind not in bytes_of:
            bytes_of[kind] = kind.num_bytes().evaluate(env)  # type: ignore[arg-type]
        return bytes_of[kind]

    count = len(graph.ops)
    change = np.zeros(count + 2)
    extra = np.zeros(count + 1)
    spans: list[tuple[SSAValue, int, int]] = []
    for i, op in enumerate(graph.ops):
        if is_constant(op) or i in graph.folded:
            continue
        for result in op.results:
            last = _last(graph, result, i)
            spans.append((result, i, last))
            change[i] += size(result)
            change[last + 1] -= size(result)
        seen: set[SSAValue] = set()
        for operand in op.operands:
            value = graph.root(operand)
            if value not in seen and (not isinstance(value.owner, Operation) or is_constant(value.owner)):
                extra[i] += size(value)
                seen.add(value)
    load = np.cumsum(change[: count + 1]) + extra
    peak = _RangeMax(load)
    return {v for v, first, last in spans if last > first and peak(first, last) <= limit}


def _last(graph: OpGraph, value: SSAValue, default: int) -> int:
    """The last op that reads a value; what the model returns goes to its caller, not to a kernel."""
    last = default
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            i = graph.number[use.operation]
            if i in graph.folded:
                stack += use.operation.results
            elif use.operation.results:
                last = max(last, i)
    return last


class _RangeMax:
    """Maximum of any slice in constant time (sparse table)."""

    def __init__(self, values: np.ndarray) -> None:
        self.levels = [values]
        step = 1
        while 2 * step <= len(values):
            top = self.levels[-1]
            self.levels.append(np.maximum(top[:-step], top[step:]))
            step *= 2

    def __call__(self, first: int, last: int) -> float:
        level = (last - first + 1).bit_length() - 1
        row = self.levels[level]
        return float(max(row[first], row[last - (1 << level) + 1]))
