# SPDX-License-Identifier: Apache-2.0
"""Constant operands of matmuls and convolutions: reading them, and putting changed ones in their place."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import WeightStore
from gaf.dialects.graph.ops.structure import INLINE_LIMIT, ConstantOp, WeightOp, constant
from gaf.dialects.graph.types import TensorType


def constant_array(value: SSAValue, weights: WeightStore) -> np.ndarray | None:
    """The array of a constant or a weight; None for anything else."""
    match value.owner:
        case WeightOp():
            return weights[value.owner.weight.data]
        case ConstantOp():
            return value.owner.value.array
    return None


def changed_weight(source: Operation, suffix: str, array: np.ndarray, weights: WeightStore) -> GraphOp:
    """An op for `array`, made of the weight (operand 1) of `source`: inline if small, else stored under its name + suffix."""
    if array.size <= INLINE_LIMIT:
        return constant(array)
    owner = source.operands[1].owner
    stem = owner.weight.data if isinstance(owner, WeightOp) else "weight"
    name = weights.add(f"{stem}.{suffix}", np.ascontiguousarray(array))
    return WeightOp.of(name, TensorType.of(array.shape, dt.of_numpy(array.dtype)))
