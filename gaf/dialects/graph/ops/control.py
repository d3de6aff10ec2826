# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on data: `graph.loop` and `graph.if`, whose bodies hold ops and kernels of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, NameLoc, NoneAttr, StringAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp, graph_op, int_prop, ints_prop, maybe_equal, tensor_type
from gaf.dialects.graph.meaning import Opaque, OpMeaning
from gaf.dialects.graph.ops.structure import YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError

RunBody = Callable[[Block, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a body on its arguments and returns what it yields."""

FOREVER = np.iinfo(np.int64).max
"""The trip limit of a loop that only its condition ends."""


class ControlOp(GraphOp):
    """Base of ops with bodies: isolated regions of one block that end in `graph.yield`.

    A body sees values from outside only as its arguments. Their types may hold symbols that nothing outside
    knows: sizes that change from one run of the body to the next.
    """

    args = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    @property
    def bodies(self) -> list[Block]:
        return [region.block for region in self.regions]

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        raise InternalError(f"the types of {cls.name} come from its bodies; use `of`")

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        raise InternalError(f"{self.name} needs an interpreter that runs its bodies")

    @abstractmethod
    def run(self, operands: Sequence[np.ndarray], run_body: RunBody) -> list[np.ndarray]:
        """The results, with `run_body` for the bodies."""

    def meaning(self) -> OpMeaning:
        return Opaque("control flow: its bodies have kernels of their own")

    def verify_(self) -> None:
        for body in self.bodies:
            if not isinstance(body.last_op, YieldOp):
                raise VerifyException(f"{self.name}: a body must end with graph.yield")
        self._verify_bodies()

    @abstractmethod
    def _verify_bodies(self) -> None:
        """Compare the types of arguments and yields with those of operands and results."""

    def _check_types(self, what: str, got: Sequence[TensorType], expected: Sequence[TensorType]) -> None:
        fits = len(got) == len(expected) and all(map(types_agree, got, expected))
        if not fits:
            raise VerifyException(
                f"{self.name}: types of {what} don't fit: expected ({', '.join(map(str, expected))}), "
                f"got ({', '.join(map(str, got))})"
            )

    def print(self, printer: Printer) -> None:
        super().print(printer)
        for region in self.regions:
            printer.print_string(" ")
            printer.print_region(region)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = super().parse(parser)
        for _ in range(len(cls.get_irdl_definition().regions)):
            op.add_region(parser.parse_region())
        return op


def types_agree(got: TensorType, expected: TensorType) -> bool:
    """Same element type and rank, and sizes that may be equal; a symbol stands for any size of a run."""
    if got.dtype != expected.dtype or got.rank != expected.rank:
        return False
    return all(e.as_name() is not None or maybe_equal(g, e) for g, e in zip(got.shape, expected.shape))


def yielded_types(block: Block) -> list[TensorType]:
    """Types of what a body yields."""
    assert block.last_op is not None
    return [tensor_type(v) for v in block.last_op.operands]


@graph_op
class LoopOp(ControlOp):
    """Runs a body again and again: ONNX Loop and Scan, and the steps of a recurrent layer.

    Operands: the largest number of iterations (i64), whether to begin (i1), `carried` values that each
    iteration replaces, `scanned` tensors of which iteration i sees element i along axis 0 (counted from the
    end for those in `backward`), and values that the body only reads. Body: iteration number (i64), carried
    values, elements of the scanned tensors, read values -> whether to go on (i1), carried values, outputs.
    Results: the carried values at the end, and the outputs of all iterations stacked along axis 0 (filled from
    the end for those in `backward_outputs`). It ends with the shortest scanned tensor at the latest.
    """

    name = "graph.loop"
    carried = int_prop()
    scanned = int_prop()
    backward = ints_prop()
    backward_outputs = ints_prop()
    body = region_def("single_block")

    @classmethod
    def of(
        cls,
        limit: SSAValue,
        begin: SSAValue,
        carried: Sequence[SSAValue],
        scanned: Sequence[SSAValue],
        read: Sequence[SSAValue],
        body: Region,
        results: Sequence[TensorType],
        *,
        backward: Sequence[int] = (),
        backward_outputs: Sequence[int] = (),
        location: str | None = None,
    ) -> Self:
        """The loop; `results` are the types of its results."""
        op = cls.create(
            operands=[limit, begin, *carried, *scanned, *read],
            result_types=list(results),
            properties={
                "carried": IntegerAttr(len(carried), i64),
                "scanned": IntegerAttr(len(scanned), i64),
                "backward": DenseArrayBase.from_list(i64, list(backward)),
                "backward_outputs": DenseArrayBase.from_list(i64, list(backward_outputs)),
            },
            regions=[body],
        )
        _locate(op, location)
        return op

    def _verify_bodies(self) -> None:
        carried, scanned = self.attrs()["carried"], self.attrs()["scanned"]
        operands, results = self.operand_tensor_types(), self.result_tensor_types()
        number, flag = TensorType.of((), dt.I64), TensorType.of((), dt.BOOL)
        self._check_types("limit and condition", operands[:2], [number, flag])
        elements = [TensorType.of(t.shape[1:], t.dtype) for t in operands[2 + carried : 2 + carried + scanned]]
        expected = [number, *operands[2 : 2 + carried], *elements, *operands[2 + carried + scanned :]]
        arguments = [tensor_type(a) for a in self.bodies[0].args]
        self._check_types("body arguments", arguments, expected)
        got = yielded_types(self.bodies[0])
        self._check_types("yielded condition and carried values", got[: 1 + carried], [flag, *arguments[1 : 1 + carried]])
        self._check_types("carried results", results[:carried], got[1 : 1 + carried])
        stacked = [TensorType.of(t.shape[1:], t.dtype) for t in results[carried:]]
        self._check_types("yielded outputs", got[1 + carried :], stacked)

    def run(self, operands: Sequence[np.ndarray], run_body: RunBody) -> list[np.ndarray]:
        attrs = self.attrs()
        carried, scanned = attrs["carried"], attrs["scanned"]
        state = list(operands[2 : 2 + carried])
        columns = operands[2 + carried : 2 + carried + scanned]
        read = operands[2 + carried + scanned :]
        limit = min([int(operands[0]), *(len(c) for c in columns)])
        outputs: list[list[np.ndarray]] = [[] for _ in range(len(self.results) - carried)]
        i, going = 0, bool(operands[1])
        while going and i < limit:
            elements = [c[len(c) - 1 - i if n in attrs["backward"] else i] for n, c in enumerate(columns)]
            going, *rest = run_body(self.bodies[0], [np.asarray(i, np.int64), *state, *elements, *read])
            state = rest[:carried]
            for column, value in zip(outputs, rest[carried:]):
                column.append(value)
            i += 1
        stacked = [
            np.stack(column[::-1] if n in attrs["backward_outputs"] else column) if column else self._nothing(n)
            for n, column in enumerate(outputs)
        ]
        return [*state, *stacked]

    def _nothing(self, number: int) -> np.ndarray:
        """The stacked output `number` of no iteration; sizes that only an iteration would show are 0."""
        type_ = self.result_tensor_types()[self.attrs()["carried"] + number]
        return np.zeros((0, *(d.as_int() or 0 for d in type_.shape[1:])), type_.dtype.numpy)


@graph_op
class IfOp(ControlOp):
    """Runs one of two bodies.

    Operands: the condition (i1) and the values that the bodies read, which are the arguments of both.
    """

    name = "graph.if"
    then_body = region_def("single_block")
    else_body = region_def("single_block")

    @classmethod
    def of(
        cls,
        condition: SSAValue,
        read: Sequence[SSAValue],
        bodies: Sequence[Region],
        results: Sequence[TensorType],
        location: str | None = None,
    ) -> Self:
        """The op; `bodies` are the one for true and the one for false."""
        op = cls.create(operands=[condition, *read], result_types=list(results), regions=list(bodies))
        _locate(op, location)
        return op

    def _verify_bodies(self) -> None:
        condition, *read = self.operand_tensor_types()
        self._check_types("condition", [condition], [TensorType.of((), dt.BOOL)])
        for body in self.bodies:
            self._check_types("body arguments", [tensor_type(a) for a in body.args], read)
            self._check_types("yielded values", yielded_types(body), self.result_tensor_types())

    def run(self, operands: Sequence[np.ndarray], run_body: RunBody) -> list[np.ndarray]:
        return list(run_body(self.bodies[0 if bool(operands[0]) else 1], operands[1:]))


def _locate(op: GraphOp, location: str | None) -> None:
    if location:
        op.location = NameLoc(StringAttr(location), NoneAttr())


def all_blocks(block: Block) -> list[Block]:
    """The bodies of control flow in a block, however deep, innermost first; and the block itself at the end."""
    found: list[Block] = []
    stack: list[tuple[Block, bool]] = [(block, False)]
    while stack:
        current, done = stack.pop()
        if done:
            found.append(current)
            continue
        stack.append((current, True))
        for op in current.ops:
            if isinstance(op, ControlOp):
                stack += [(body, False) for body in op.bodies]
    return found


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block and of the bodies of control flow in it."""
    return [op for inner in reversed(all_blocks(block)) for op in inner.ops]
