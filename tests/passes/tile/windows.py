# SPDX-License-Identifier: Apache-2.0
"""Models of one windowed op for the tests of pools and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import FusedModel, fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.unary import ReluOp, SigmoidOp
from gaf.dialects.graph.types import TensorType
from gaf.runtime.compiler import find_compiler

SLOW = pytest.mark.slow
CHECK = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")


def judged(model: Model, inputs: dict[str, np.ndarray], *engines: str) -> FusedModel:
    """Fuse, demand that no op is left on the host, and judge every kernel against float64 on each engine."""
    fused = fuse(model)
    assert not fused.fallbacks, [str(f) for f in fused.fallbacks]
    for engine in engines:
        result = fused.verify(inputs, engine=engine)
        wrong = [c for c in [*result.launches, *result.outputs] if not c.ok]
        assert not wrong, "\n".join(f"{engine}: {c.kernel or c.name}: {c.error:.2e} {c.note}" for c in wrong)
        assert not result.violations, result.violations[0]
    return fused


def build(op: type[GraphOp], x: TensorType, *weights: np.ndarray, around: bool = True, **attrs: Any) -> Model:
    """relu -> op -> sigmoid, or the op alone."""
    model = new_model([("x", x)])

    def add(kind: type[GraphOp], operands: Sequence[SSAValue], attrs: dict[str, Any]) -> SSAValue:
        made = kind.make(operands, attrs)
        model.block.add_op(made)
        return made.results[0]

    constants = [model.constant(w) for w in weights]
    model.block.add_ops(constants)
    value: SSAValue = model.block.args[0]
    if around:
        value = add(ReluOp, [value], {})
    value = add(op, [value, *(c.result for c in constants)], attrs)
    if around:
        value = add(SigmoidOp, [value], {})
    return finish(model, [("y", value)])


def values(shape: Sequence[int], kind: dt.DType = dt.F32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(kind.numpy)


def window(kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]) -> dict[str, Any]:
    return {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations}
