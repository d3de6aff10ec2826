# SPDX-License-Identifier: Apache-2.0
"""`fold-batch-norm`: a factor and a shift per channel behind a convolution or matmul go into its constant weights.

BatchNorm of an inference model, in any spelling, is `x * a + b` with constants per channel. What follows a
convolution or a matmul with constant weights is gathered into one such pair; the weights are multiplied by `a`, the
bias becomes `bias * a + b`. Weights that others share are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.model import WeightStore, weights_of
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp, SubOp
from gaf.dialects.graph.ops.channel_norm import BatchNormOp
from gaf.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.passes.graph.weights import changed_weight, constant_array
from gaf.passes.registry import register_pass

LONGEST = 8
"""Ops behind one convolution that are looked at: BatchNorm in its longest spelling has five."""


@register_pass
@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Multiply constant factors per channel behind convolutions and matmuls into their weights.

    A weight is rounded once more, so results differ in the last bits.
    """

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        folder = _Folder(weights_of(op))
        for source in [o for o in op.walk() if isinstance(o, ConvOp | ConvTransposeOp | MatMulOp)]:
            folder.fold(source)


@dataclass(frozen=True)
class _Affine:
    """`x * factor + shift` per channel, float64 vectors; `scales` if an op multiplies; `end` is the last op."""

    factor: np.ndarray
    shift: np.ndarray
    scales: bool
    end: Operation

    def times(self, c: np.ndarray, end: Operation) -> _Affine:
        return _Affine(self.factor * c, self.shift * c, True, end)

    def plus(self, c: np.ndarray, end: Operation) -> _Affine:
        return replace(self, shift=self.shift + c, end=end)


class _Folder:
    def __init__(self, weights: WeightStore) -> None:
        self.weights = weights

    def fold(self, source: ConvOp | ConvTransposeOp | MatMulOp) -> None:
        """Fold what follows `source`, if its weights are constant and it pays: something multiplies."""
        result = tensor_type(source.results[0])
        weights = constant_array(source.operands[1], self.weights)
        channel = result.rank - 1 if isinstance(source, MatMulOp) else 1
        channels = result.shape[channel].as_int() if result.rank > 1 else None
        if weights is None or channels is None or not result.dtype.is_float:
            return
        if isinstance(source, MatMulOp):
            if weights.ndim != 2:
                return
            bias: np.ndarray | None = np.zeros(channels)
        else:
            given = source.operands[2] if len(source.operands) > 2 else None
            bias = np.zeros(channels) if given is None else constant_array(given, self.weights)
        if bias is None or (isinstance(source, ConvTransposeOp) and source.attrs()["groups"] != 1):
            return
        affine = self.follow(source, channel, channels)
        if not affine.scales:
            return
        shape = [1] * weights.ndim
        shape[0 if isinstance(source, ConvOp) else 1] = channels
        kind = dt.of_numpy(weights.dtype)
        with np.errstate(over="ignore"):  # what overflows isn't folded
            new_weights = (weights.astype(np.float64) * affine.factor.reshape(shape)).astype(weights.dtype)
            new_bias = (bias.astype(np.float64) * affine.factor + affine.shift).astype(result.dtype.numpy)
        finite = np.isfinite(new_weights.astype(np.float64)).all() and np.isfinite(new_bias.astype(np.float64)).all()
        if not finite or not kind.is_float:
            return
        self.replace(source, affine.end, new_weights, new_bias)

    def follow(self, source: Operation, channel: int, channels: int) -> _Affine:
        """What the ops behind `source` compute of its result, as long as they are the only readers."""
        found = _Affine(np.ones(channels), np.zeros(channels), False, source)
        best = found
        for _ in range(LONGEST):
            user = found.end.results[0].get_user_of_unique_use()
            step = self.step(found, user, channel, channels) if user is not None else None
            if step is None:
                break
            found = step
            if found.scales:
                best = found
        return best

    def step(self, so_far: _Affine, op: Operation, channel: int, channels: int) -> _Affine | None:
        """`so_far` and then `op`; None if `op` isn't a constant factor or shift per channel."""
        value, result = so_far.end.results[0], op.results[0] if op.results else None
        if result is None or result.type != value.type:
            return None
        if isinstance(op, BatchNormOp):
            parameters = [constant_array(v, self.weights) for v in op.operands[1:]]
            if op.operands[0] is not value or channel != 1 or any(p is None for p in parameters):
                return None
            scale, bias, mean, variance = (p.astype(np.float64) for p in parameters if p is not None)
            factor = scale / np.sqrt(variance + op.attrs()["epsilon"])
            return so_far.plus(-mean, op).times(factor, op).plus(bias, op)
        if not isinstance(op, AddOp | SubOp | MulOp | DivOp) or op.operands[0] is op.operands[1]:
            return None
        first = op.operands[0] is value
        other = self.per_channel(op.operands[1 if first else 0], tensor_type(value).rank, channel, channels)
        if other is None:
            return None
        match op:
            case AddOp():
                return so_far.plus(other, op)
            case MulOp():
                return so_far.times(other, op)
            case SubOp():
                return so_far.plus(-other, op) if first else so_far.times(np.float64(-1.0), op).plus(other, op)
            case _:
                return so_far.times(1.0 / other, op) if first and (other != 0).all() else None

    def per_channel(self, value: SSAValue, rank: int, channel: int, channels: int) -> np.ndarray | None:
        """A constant that varies along the channels at most, as a vector of them."""
        array = constant_array(value, self.weights)
        if array is None or not tensor_type(value).dtype.is_float or array.ndim > rank:
            return None
        shape = (1,) * (rank - array.ndim) + array.shape
        if any(size != 1 for i, size in enumerate(shape) if i != channel):
            return None
        return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))

    def replace(
        self, source: ConvOp | ConvTransposeOp | MatMulOp, end: Operation, weights: np.ndarray, bias: np.ndarray
    ) -> None:
        made: list[Operation] = []

        def add(op: GraphOp) -> SSAValue:
            op.location = source.location
            made.append(op)
            return op.results[0]

        operands = [source.operands[0], add(changed_weight(source, "folded", weights, self.weights))]
        vector = add(changed_weight(source, "folded_bias", bias, self.weights))
        if isinstance(source, MatMulOp):
            result = add(AddOp.make([add(MatMulOp.make(operands)), vector]))
        else:
            result = add(type(source).make([*operands, vector], source.attrs()))
        result.name_hint = end.results[0].name_hint
        Rewriter.insert_op(made, InsertPoint.before(source))
        end.results[0].replace_all_uses_with(result)
        self.erase(end, source)

    def erase(self, end: Operation, source: Operation) -> None:
        """Erase the ops from `end` back to `source`: nothing else reads them."""
        at: Operation | None = end
        while at is not None:
            before = next((o.owner for o in at.operands if _leads_to(o.owner, source)), None) if at is not source else None
            Rewriter.erase_op(at)
            at = before if isinstance(before, Operation) else None


def _leads_to(owner: object, source: Operation) -> bool:
    """Is `owner` the source, or an op of the chain behind it? Constants are neither."""
    stack: Sequence[object] = [owner]
    for _ in range(LONGEST + 1):
        stack = [o for o in stack if isinstance(o, Operation)]
        if source in stack:
            return True
        stack = [operand.owner for o in stack for operand in o.operands]
    return False
