# SPDX-License-Identifier: Apache-2.0
"""Small models for the tests of fusion: ops with node names, built in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from gaf.config import FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp, SubOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceMeanOp
from gaf.dialects.graph.ops.unary import SqrtOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion.search import FusionPlan, plan_fusion


class Net:
    """A model under construction; `net["x"]` is an input, `net.op` appends a node and returns its result."""

    def __init__(self, dtype: dt.DType = dt.F32, **inputs: Any) -> None:
        self.model = new_model([(n, TensorType.of(s, dtype)) for n, s in inputs.items()])
        self.values = dict(zip(inputs, self.model.block.args))
        self.count = 0

    def __getitem__(self, name: str) -> SSAValue:
        return self.values[name]

    def op(self, op: type[GraphOp], *operands: SSAValue, name: str | None = None, **attrs: Any) -> SSAValue:
        made = op.make(operands, attrs, location=name or f"n{self.count}")
        self.count += 1
        self.model.block.add_op(made)
        return made.results[0]

    def constant(self, value: Any, dtype: dt.DType = dt.F32) -> SSAValue:
        op = self.model.constant(np.asarray(value, dtype.numpy), f"w{self.count}")
        self.count += 1
        self.model.block.add_op(op)
        return op.results[0]

    def linear(self, x: SSAValue, rows: int, columns: int, name: str = "linear") -> SSAValue:
        """MatMul with a weight, and a bias."""
        weight = self.constant(np.full((rows, columns), 0.01))
        y = self.op(MatMulOp, x, weight, name=f"{name}/MatMul")
        return self.op(AddOp, y, self.constant(np.full(columns, 0.1)), name=f"{name}/Add")

    def layer_norm(self, x: SSAValue, size: int) -> SSAValue:
        """LayerNorm in nine ops."""
        centred = self.op(SubOp, x, self.op(ReduceMeanOp, x, axes=(-1,), keepdims=True))
        variance = self.op(ReduceMeanOp, self.op(MulOp, centred, centred), axes=(-1,), keepdims=True)
        deviation = self.op(SqrtOp, self.op(AddOp, variance, self.constant(1e-5)))
        scaled = self.op(
            MulOp, self.op(DivOp, centred, deviation), self.constant(np.linspace(0.5, 1.5, size))
        )
        return self.op(AddOp, scaled, self.constant(np.linspace(-1, 1, size)))

    def finish(self, *outputs: SSAValue) -> Model:
        return finish(self.model, [(f"y{i}", v) for i, v in enumerate(outputs)])


def plan(model: Model, config: FusionConfig | None = None, **options: Any) -> FusionPlan:
    """The fusion plan of a model, without clean-up."""
    return plan_fusion(model.block, config=FusionConfig(**options) if config is None else config)


def members(plan: FusionPlan) -> list[list[str]]:
    """Node names of every group."""
    from gaf.fusion.names import node_name

    return [[node_name(plan.ops[i]) for i in g.ops] for g in plan.groups]
