# SPDX-License-Identifier: Apache-2.0
"""`graph.assume_shape`: sizes that have to be equal for the model to make sense, though nothing proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaf.dialects.common.index import sym
from gaf.dialects.graph.contract import ExportContext, dims_prop, graph_op, maybe_equal
from gaf.dialects.graph.meaning import View
from gaf.dialects.graph.ops.common import concrete, format_dims
from gaf.dialects.graph.ops.shape import ViewOp, view
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


@graph_op
class AssumeShapeOp(ViewOp):
    """The operand itself under other expressions for its sizes.

    Whoever makes it also declares the equality as a condition of the model, which is checked whenever it runs.
    """

    name = "graph.assume_shape"
    shape = dims_prop()

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,), shape = operands, tuple(attrs["shape"])
        if x.rank != len(shape) or not all(map(maybe_equal, x.shape, shape)):
            raise InvalidInputError(
                f"{cls.name}: the sizes differ", expected=format_dims(x.shape), got=format_dims(shape)
            )
        return [TensorType.of(shape, x.dtype)]

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        shape = concrete(self.attrs()["shape"], env, self.name)
        if args[0].shape != shape:
            raise InvalidInputError(
                "two sizes that the model needs equal are not",
                where=self.location_name(),
                expected=f"{format_dims(self.attrs()['shape'])} = {format_dims(shape)}",
                got=format_dims(args[0].shape),
            )
        return [args[0]]

    def meaning(self) -> View:
        return view([sym(f"d{i}") for i in range(self._types()[0].rank)])

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Identity", inputs)
