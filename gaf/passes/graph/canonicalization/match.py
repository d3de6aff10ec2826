# SPDX-License-Identifier: Apache-2.0
"""What the rules share: looking at the producer of a value, at inline constants, and replacing an op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.errors import GafError

OpT = TypeVar("OpT", bound=Operation)


def producer(value: SSAValue, *classes: type[OpT]) -> OpT | None:
    """The op that computes `value` if it is one of `classes`."""
    if isinstance(value, OpResult) and isinstance(value.op, classes):
        return value.op
    return None


def is_constant(value: SSAValue) -> bool:
    """True for the result of `graph.constant` or `graph.weight`."""
    return isinstance(value, OpResult) and isinstance(value.op, ConstantOp | WeightOp)


def inline_constant(value: SSAValue) -> np.ndarray | None:
    """The elements of an inline constant. Weights are not looked at: nobody waits for that here."""
    op = producer(value, ConstantOp)
    return None if op is None else op.value.array


def uniform(value: SSAValue) -> float | int | bool | None:
    """The value of all elements of an inline constant; None if they differ (-0.0 from 0.0) or are NaN."""
    array = inline_constant(value)
    if array is None or array.size == 0:
        return None
    kind = dt.of_numpy(array.dtype)
    number = float if kind.is_float else bool if kind.is_bool else int
    values = {(v, math.copysign(1, v)) for v in map(number, array.reshape(-1))}
    return values.pop()[0] if len(values) == 1 and not any(math.isnan(v) for v, _ in values) else None


def replace(
    op: GraphOp, rewriter: PatternRewriter, cls: type[GraphOp], operands: Sequence[SSAValue], **attrs: Any
) -> bool:
    """Replaces `op` by a new `cls`, if that has the same result types; says whether it did."""
    try:
        types = list(cls.infer([o.type for o in operands], attrs))  # type: ignore[misc]
    except GafError:
        return False
    if types != [r.type for r in op.results]:
        return False
    rewriter.replace(op, cls.make(operands, attrs))
    return True
