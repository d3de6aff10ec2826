# SPDX-License-Identifier: Apache-2.0
"""`pack-matmuls`: matmuls that read the same left operand and constant weights become one wide matmul.

The query, key and value projections of attention are one GEMM over concatenated weights: the activations are
read once and there is one launch. The results are slices, which later kernels read as offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from gaf.dialects.common.index import Expr, const, expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.model import WeightStore, weights_of
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.passes.graph.weights import changed_weight, constant_array
from gaf.passes.registry import option, register_pass


@register_pass
@dataclass(frozen=True)
class PackMatmulsPass(ModulePass):
    """Join matmuls of one left operand with constant weights into one, with their biases."""

    name = "pack-matmuls"

    fold_scales: bool = option(
        True, "multiply constant scalar factors behind a packed matmul into its weights (one more rounding of a weight)"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _Packer(weights_of(op), self.fold_scales).run(op)


@dataclass
class _Arm:
    """One matmul of a pack: its weight, and the bias and scalar factor that follow it (`end` is the last op)."""

    matmul: MatMulOp
    weight: np.ndarray
    bias: np.ndarray | None
    scale: float
    end: Operation

    @property
    def columns(self) -> int:
        return self.weight.shape[1]


class _Packer:
    def __init__(self, weights: WeightStore, fold_scales: bool) -> None:
        self.weights, self.fold_scales = weights, fold_scales

    def run(self, module: ModuleOp) -> None:
        groups: dict[tuple, list[MatMulOp]] = {}
        for op in module.walk():
            if isinstance(op, MatMulOp) and isinstance(op.parent_op(), Operation):
                shape = tensor_type(op.operands[1]).static_shape()
                if shape is not None and len(shape) == 2 and constant_array(op.operands[1], self.weights) is not None:
                    if tensor_type(op.operands[0]).rank >= 2 and tensor_type(op.results[0]).dtype.is_float:
                        groups.setdefault((op.parent, op.operands[0], shape[0]), []).append(op)
        for matmuls in groups.values():
            if len(matmuls) > 1:
                self.pack(matmuls)

    def pack(self, matmuls: Sequence[MatMulOp]) -> None:
        arms = [self.arm(m) for m in matmuls]
        if len({a.bias is None for a in arms}) > 1:  # some without bias: leave all biases where they are
            arms = [_Arm(a.matmul, a.weight, None, 1.0, a.matmul) for a in arms]
        first = matmuls[0]
        kind = tensor_type(first.results[0]).dtype
        new: list[Operation] = []

        def add(op: GraphOp, like: Operation) -> SSAValue:
            op.location = like.location
            new.append(op)
            return op.results[0]

        def scaled(array: np.ndarray, factor: float) -> np.ndarray:
            if factor == 1.0:
                return array
            return (array.astype(np.float64) * factor).astype(array.dtype)

        packed = np.concatenate([scaled(a.weight, a.scale) for a in arms], axis=1)
        weight = add(changed_weight(first, "packed", packed, self.weights), first)
        result = add(MatMulOp.make([first.operands[0], weight]), first)
        if arms[0].bias is not None:
            bias = np.concatenate([scaled(np.broadcast_to(a.bias, (a.columns,)), a.scale) for a in arms if a.bias is not None])
            result = add(AddOp.make([result, add(changed_weight(first, "packed_bias", bias.astype(kind.numpy), self.weights), first)]), first)
        Rewriter.insert_op(new, InsertPoint.before(first))
        shape = tensor_type(result).shape
        offset = 0
        for arm in arms:
            starts: list[Expr] = [const(0)] * (len(shape) - 1) + [const(offset)]
            piece = SliceOp.make(
                [result], {"starts": tuple(starts), "sizes": (*shape[:-1], expr(arm.columns)), "steps": (1,) * len(shape)}
            )
            piece.location = arm.end.location
            offset += arm.columns
            Rewriter.insert_op([piece], InsertPoint.before(first))
            old = arm.end.results[0]
            piece.results[0].name_hint = old.name_hint
            old.replace_all_uses_with(piece.results[0])
        for arm in arms:
            self.erase(arm)

    def arm(self, matmul: MatMulOp) -> _Arm:
        """Follow a matmul through its bias and a constant factor, as long as nothing else reads in between."""
        weight = constant_array(matmul.operands[1], self.weights)
        assert weight is not None
        arm = _Arm(matmul, weight, None, 1.0, matmul)
        user = _only_user(matmul)
        if isinstance(user, AddOp):
            other = user.operands[1] if user.operands[0] is matmul.results[0] else user.operands[0]
            bias = constant_array(other, self.weights)
            if bias is not None and bias.size in (1, arm.columns) and bias.shape[-1:] in ((), (1,), (arm.columns,)):
                if tensor_type(user.results[0]).shape == tensor_type(matmul.results[0]).shape:
                    arm = _Arm(matmul, weight, bias.reshape(-1), 1.0, user)
                    user = _only_user(user)
        if self.fold_scales and isinstance(user, MulOp | DivOp):
            at = 0 if user.operands[0] is arm.end.results[0] else 1
            factor = constant_array(user.operands[1 - at], self.weights)
            if factor is not None and factor.size == 1 and (isinstance(user, MulOp) or at == 0):
                if tensor_type(user.results[0]).shape == tensor_type(arm.end.results[0]).shape:
                    number = float(factor.reshape(-1)[0])
                    if np.isfinite(number) and number != 0.0:
                        arm.scale = number if isinstance(user, MulOp) else 1.0 / number
                        arm.end = user
        return arm

    def erase(self, arm: _Arm) -> None:
        op: Operation | None = arm.end
        while op is not None and not any(r.uses for r in op.results):
            before = next((o.owner for o in op.operands if isinstance(o.owner, AddOp | MatMulOp)), None)
            Rewriter.erase_op(op)
            op = before if isinstance(before, Operation) and before is not op and arm.matmul in (before, *_inputs(before)) else None


def _inputs(op: Operation) -> list[object]:
    return [o.owner for o in op.operands]


def _only_user(op: Operation) -> Operation | None:
    return op.results[0].get_user_of_unique_use()
