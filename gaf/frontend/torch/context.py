# SPDX-License-Identifier: Apache-2.0
"""`CallContext`: one ATen call as the graph ops see it while they import themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import number
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.calls import size_tensor
from gaf.frontend.torch.types import dtype_of, torch_dtype

_NUMBERS = bool | int | float


class CallContext:
    """Implements `gaf.dialects.graph.contract.AtenContext` for a call of an overload.

    `arguments` are all arguments by their names in the schema, defaults included, with SSAValues for
    tensors and Expr for symbolic sizes. `used` holds the numbers of the results that somebody reads.
    """

    opset = 0

    def __init__(
        self,
        builder: GraphBuilder,
        op_type: str,
        arguments: dict[str, Any],
        results: Sequence[TensorType],
        used: set[int],
        location: str,
    ) -> None:
        self._builder = builder
        self.op_type = op_type
        self.arguments = arguments
        self.results = results
        self.result = results[0] if results else TensorType.of([], dt.F32)
        self.num_outputs = len(results)
        self._used = used
        self.draws = False  # random numbers: calling twice is not calling once
        self.location = location
        self.operands: list[SSAValue | None] = list(_tensors(arguments.values()))

    # -- arguments ------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return self.arguments.get(name) is not None

    def attr(self, name: str, default: Any = None) -> Any:
        value = self.arguments.get(name)
        return default if value is None else _plain(value)

    def value(self, name: str, dtype: dt.DType | None = None) -> SSAValue:
        value = self.arguments.get(name)
        if isinstance(value, _NUMBERS):
            return self.number(value, dtype or _number_dtype(value))
        if isinstance(value, Expr):
            return size_tensor(self._builder, value, dtype or dt.I64, self.location)
        if not isinstance(value, SSAValue):
            raise self.unsupported(f"'{name}' is no tensor and no number", got=value)
        return value if dtype is None else self.cast(value, dtype)

    def values(self, name: str, dtype: dt.DType | None = None) -> list[SSAValue | None]:
        listed = self.arguments[name]
        return [v if v is None or dtype is None else self.cast(v, dtype) for v in listed]

    def dim_args(self, name: str) -> tuple[Expr, ...]:
        value = self.arguments[name]
        return tuple(expr(v) for v in (value if isinstance(value, list | tuple) else (value,)))

    def common_dtype(self, *names: str) -> dt.DType:
        samples: list[Any] = []
        for name in names:
            value = self.arguments[name]
            if isinstance(value, SSAValue):
                type_ = tensor_type(value)
                # a tensor of rank 0 has less say than one of a higher rank
                samples.append(torch.empty([1] * type_.rank, dtype=torch_dtype(type_.dtype), device="meta"))
            else:  # a size counts as the number that it is
                samples.append(1 if isinstance(value, Expr) else value)
        if not any(isinstance(s, torch.Tensor) for s in samples):
            samples[0] = torch.tensor(samples[0], device="meta")
        return dtype_of(torch.result_type(*samples))

    # -- the ImportContext of all frontends --------------------------------------------------------

    def operand(self, index: int) -> SSAValue | None:
        return self.operands[index] if index < len(self.operands) else None

    def constant(self, index: int) -> np.ndarray | None:
        value = self.operand(index)
        return None if value is None else self._builder.known(value)

    def dims(self, index: int) -> tuple[Expr, ...] | None:
        value = self.operand(index)
        return None if value is None else self._builder.dims(value)

    def constant_value(self, array: np.ndarray) -> SSAValue:
        return self._builder.constant(array, self.location)

    def number(self, value: float, dtype: dt.DType) -> SSAValue:
        return self._builder.constant(number(value, dtype))

    def cast(self, value: SSAValue, dtype: dt.DType) -> SSAValue:
        return value if tensor_type(value).dtype == dtype else self.emit(CastOp, [value], to=dtype)

    def random_source(self) -> tuple[SSAValue, int]:
        self.draws = True
        return self._builder.random_source("torch")

    def new_symbol(self, stem: str) -> Expr:
        return self._builder.new_symbol(stem)

    def assume(self, condition: Expr, what: str) -> None:
        self._builder.assume(condition, what)

    def emit(self, op: type[GraphOp], operands: Sequence[SSAValue | None], **attributes: Any) -> Any:
        return self._builder.emit(op, [o for o in operands if o is not None], attributes, self.location)

    def used(self, index: int) -> bool:
        return index in self._used

    def unsupported(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(what, where=f"{self.location} ({self.op_type})", **details)


def _plain(value: Any) -> Any:
    """Sizes that are known numbers as int."""
    match value:
        case Expr():
            known = value.as_int()
            return value if known is None else known
        case list() | tuple():
            return [_plain(v) for v in value]
    return value


def _number_dtype(value: float) -> dt.DType:
    if isinstance(value, bool):
        return dt.BOOL
    return dt.I64 if isinstance(value, int) else dt.F32


def _tensors(values: Any) -> list[SSAValue]:
    found: list[SSAValue] = []
    for value in values:
        if isinstance(value, SSAValue):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found
