# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common.index import expr, sym
from gaf.dialects.common.scalar import Arg
from gaf.dialects.graph.contract import (
    AtenContext,
    GraphOp,
    ImportContext,
    broadcast_shapes,
    graph_op,
    tensor_type,
    unequal,
)
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage, broadcast_index, result_dims
from gaf.dialects.graph.ops.common import (
    NUMERIC,
    check_kind,
    computing,
    finish,
    format_dims,
    same_dtype,
)
from gaf.dialects.graph.ops.shape import SqueezeOp, UnsqueezeOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


@graph_op
class MatMulOp(GraphOp):
    """`[batch.., m, k] x [batch.., k, n] -> [batch.., m, n]`; batch dims broadcast as in numpy.

    16-bit floats are multiplied and summed in float32 and rounded once; integers wrap around.
    """

    name = "graph.matmul"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("MatMul",)
    ATEN = (
        "aten.mm.default",
        "aten.bmm.default",
        "aten.matmul.default",
        "aten.mv.default",
        "aten.dot.default",
    )
    GAF = ("matmul",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        a, b = operands
        dtype = same_dtype(operands, cls.name)
        check_kind(dtype, NUMERIC, cls.name)
        if a.rank < 2 or b.rank < 2:
            raise InvalidInputError(
                f"{cls.name}: operands are matrices",
                expected="rank 2 or more",
                got=f"ranks {a.rank} and {b.rank}",
            )
        if a.shape[-1] != b.shape[-2]:
            raise unequal(
                f"{cls.name}: the summed dims differ",
                a.shape[-1],
                b.shape[-2],
                expected=f"{a.shape[-1]} rows in b (the columns of a {format_dims(a.shape)})",
                got=format_dims(b.shape),
            )
        batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]], f"{cls.name}: batch dims")
        return [TensorType.of((*batch, a.shape[-2], b.shape[-1]), dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        a, b = (computing(x) for x in args)
        with np.errstate(all="ignore"):
            return [finish(np.matmul(a, b), self.result_tensor_types()[0].dtype, wide)]

    def meaning(self) -> Meaning:
        (a, b), (r,) = self.operand_tensor_types(), self.result_tensor_types()
        dims = result_dims(r.shape)
        k, batch = sym("r0"), dims[:-2]
        m, n = sym(dims[-2].name), sym(dims[-1].name)
        reads = (
            Read((*broadcast_index(a.shape[:-2], batch), m, k), operand=0),
            Read((*broadcast_index(b.shape[:-2], batch), k, n), operand=1),
        )
        reduced = (Dim("r0", expr(a.shape[-1])),)
        return Meaning((Stage(dims, reads, Arg(0) * Arg(1), r.dtype, reduced, "sum"),))

    @classmethod
    def from_gaf(cls, ctx: ImportContext, operands: Sequence[SSAValue], attrs: Mapping[str, Any]) -> Any:
        return matmul(ctx, *operands)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return matmul(ctx, ctx.operands[0], ctx.operands[1])

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        a, b = (ctx.cast(o, ctx.result.dtype) for o in ctx.operands[:2])
        return matmul(ctx, a, b)


def matmul(ctx: ImportContext, a: Any, b: Any) -> Any:
    """Emit `a @ b` with numpy's rules for rank-1 operands: a row (a), a column (b), dropped again."""
    a_rank, b_rank = tensor_type(a).rank, tensor_type(b).rank
    if a_rank == 0 or b_rank == 0:
        raise ctx.unsupported("matrix product of a scalar", expected="operands of rank 1 or more")
    a = ctx.emit(UnsqueezeOp, [a], axes=(0,)) if a_rank == 1 else a
    b = ctx.emit(UnsqueezeOp, [b], axes=(1,)) if b_rank == 1 else b
    result = ctx.emit(MatMulOp, [a, b])
    rank = tensor_type(result).rank
    dropped = tuple(axis for axis, gone in ((rank - 2, a_rank == 1), (rank - 1, b_rank == 1)) if gone)
    return ctx.emit(SqueezeOp, [result], axes=dropped) if dropped else result
