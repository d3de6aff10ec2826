# SPDX-License-Identifier: Apache-2.0
"""Conversion between element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.scalar import Arg, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    dtype_prop,
    graph_op,
    tensor_type,
)
from gaf.dialects.graph.meaning import Meaning, elementwise
from gaf.dialects.graph.ops.common import cast_symbolic, finish, is_symbolic
from gaf.dialects.graph.types import TensorType


@graph_op
class CastOp(GraphOp):
    """x as another element type.

    Floats round to nearest even; float to integer truncates towards zero (out of range: unspecified, as
    in ONNX); to bool is `x != 0`. A float64-wide reference does not narrow floats.
    """

    name = "graph.cast"
    x = operand_def(TensorType)
    to = dtype_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    ONNX = ("Cast", "CastLike")
    ATEN = ("aten._to_copy.default", "prims.convert_element_type.default")
    GAF = ("cast",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        return [TensorType.of(operands[0].shape, attrs["to"])]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        (x,) = args
        to = dt.of(self.to)
        return [cast_symbolic(x, to) if is_symbolic(args) else finish(x, to, wide)]

    def meaning(self) -> Meaning:
        (x,), (r,) = self.operand_tensor_types(), self.result_tensor_types()
        return elementwise(r.shape, [x.shape], cast(Arg(0), r.dtype), r.dtype)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x = ctx.operands[0]
        if ctx.op_type == "CastLike":
            to = tensor_type(ctx.operands[1]).dtype
        else:
            code = ctx.attr("to")
            if code is None:
                raise ctx.unsupported("attribute 'to' is missing")
            to = dt.of_onnx(int(code))
        return x if tensor_type(x).dtype == to else ctx.emit(cls, [x], to=to)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.cast(ctx.operands[0], ctx.result.dtype)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Cast", inputs, to=dt.of(self.to).onnx)
