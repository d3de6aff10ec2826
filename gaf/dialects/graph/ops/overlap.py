# SPDX-License-Identifier: Apache-2.0
"""`graph.overlap`: a collective between two computations, cut into equal parts so that one travels while the
next is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Self

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import region_def

from gaf.dialects.common.index import const, exact_div
from gaf.dialects.graph.contract import GraphOp, graph_op, int_prop, ints_prop, tensor_type
from gaf.dialects.graph.ops.collective import CollectiveOp
from gaf.dialects.graph.ops.control import ControlOp, RunBody, yielded_types
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError, InvalidInputError

WHOLE = -1
"""In place of an axis: every part reads all of the operand."""


@graph_op
class OverlapOp(ControlOp):
    """`parts` times: produce, send, consume; part i + 1 is produced while part i is on its way.

    Operand j is cut into equal parts along `axes[j]`, or read whole by every part (`WHOLE`); the results are
    the parts' results, joined along `result_axes`. All axes are the outermost ones longer than 1, so that
    parts are contiguous in memory. Bodies: `produce`: parts of the operands -> what is sent, and what
    consumers read besides; `transfer`: one collective; `consume`: what arrived, what `produce` yielded
    besides, parts of the operands -> parts of the results. Order on the compute stream: p0, p1, c0, p2, c1,
    ...
    """

    name = "graph.overlap"
    parts = int_prop()
    axes = ints_prop()
    result_axes = ints_prop()
    produce = region_def("single_block")
    transfer = region_def("single_block")
    consume = region_def("single_block")

    @classmethod
    def of(
        cls,
        parts: int,
        operands: Sequence[SSAValue],
        axes: Sequence[int],
        bodies: Sequence[Region],
        results: Sequence[TensorType],
        result_axes: Sequence[int],
    ) -> Self:
        """The op; `bodies` are produce, transfer, consume."""
        return cls.create(
            operands=list(operands),
            result_types=list(results),
            properties={
                "parts": IntegerAttr(parts, i64),
                "axes": DenseArrayBase.from_list(i64, list(axes)),
                "result_axes": DenseArrayBase.from_list(i64, list(result_axes)),
            },
            regions=list(bodies),
        )

    @property
    def collective(self) -> CollectiveOp:
        """The op that moves the parts."""
        found = [op for op in self.transfer.block.ops if isinstance(op, CollectiveOp)]
        if len(found) != 1:
            raise InternalError(f"graph.overlap: the body 'transfer' has {len(found)} collectives")
        return found[0]

    def _verify_bodies(self) -> None:
        attrs, (produce, transfer, consume) = self.attrs(), self.bodies
        count = attrs["parts"]
        pieces = [
            part_of(t, a, count) for t, a in zip(self.operand_tensor_types(), attrs["axes"], strict=True)
        ]
        self._check_types("arguments of 'produce'", [tensor_type(a) for a in produce.args], pieces)
        sent, *kept = yielded_types(produce)
        self._check_types("arguments of 'transfer'", [tensor_type(a) for a in transfer.args], [sent])
        (arrived,) = yielded_types(transfer)
        self._check_types(
            "arguments of 'consume'", [tensor_type(a) for a in consume.args], [arrived, *kept, *pieces]
        )
        joined = [
            part_of(t, a, count)
            for t, a in zip(self.result_tensor_types(), attrs["result_axes"], strict=True)
        ]
        self._check_types("results of 'consume'", yielded_types(consume), joined)
        _ = self.collective

    def run(self, operands: Sequence[np.ndarray], run_body: RunBody) -> list[np.ndarray]:
        attrs, (produce, transfer, consume) = self.attrs(), self.bodies
        count, results = attrs["parts"], list[np.ndarray]()
        cut = [
            [x] * count if a == WHOLE else np.split(x, count, axis=a) for x, a in zip(operands, attrs["axes"])
        ]

        def finish(i: int, coming: Future[Sequence[np.ndarray]], kept: Sequence[np.ndarray]) -> None:
            made = run_body(consume, [*coming.result(), *kept, *(c[i] for c in cut)])
            for number, (part, axis) in enumerate(zip(made, attrs["result_axes"])):
                if i == 0:
                    shape = [n * count if d == axis else n for d, n in enumerate(part.shape)]
                    results.append(np.empty(shape, part.dtype))
                size = part.shape[axis]
                results[number][(slice(None),) * axis + (slice(i * size, (i + 1) * size),)] = part

        with ThreadPoolExecutor(1, thread_name_prefix="gaf-transfer") as wire:
            waiting: tuple[int, Future[Sequence[np.ndarray]], Sequence[np.ndarray]] | None = None
            for i in range(count):
                sent, *kept = run_body(produce, [c[i] for c in cut])
                coming = wire.submit(copy_context().run, run_body, transfer, [sent])
                if waiting is not None:
                    finish(*waiting)
                waiting = i, coming, kept
            if waiting is not None:
                finish(*waiting)
        return results


def times_run(op: Operation) -> int:
    """How often an op runs in one run of the block around all overlaps: once, or once for every part."""
    times, inner = 1, op.parent_op()
    while isinstance(inner, GraphOp):
        times *= inner.attrs()["parts"] if isinstance(inner, OverlapOp) else 1
        inner = inner.parent_op()
    return times


def part_of(whole: TensorType, axis: int, parts: int) -> TensorType:
    """The type of one of `parts` equal parts along `axis`. Raises InvalidInputError if the size isn't a
    multiple.
    """
    if axis == WHOLE:
        return whole
    size = exact_div(whole.shape[axis], const(parts)) if axis < whole.rank else None
    if size is None:
        raise InvalidInputError(
            "a tensor that can't be cut into equal parts", expected=f"{parts} along axis {axis}", got=whole
        )
    return TensorType.of([size if i == axis else d for i, d in enumerate(whole.shape)], whole.dtype)
