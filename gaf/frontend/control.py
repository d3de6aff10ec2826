# SPDX-License-Identifier: Apache-2.0
"""Builds `graph.loop` and `graph.if`: what frontends use for control flow that depends on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops.control import FOREVER, IfOp, LoopOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp, YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError
from gaf.frontend.builder import GraphBuilder, remove_dead_ops

ROUNDS = 6  # a size that changes from one iteration to the next is found in the first, its followers in the next

TRUE = np.asarray(True)

Values = Sequence[SSAValue]


@dataclass
class Iteration:
    """What the body of a loop makes: whether to go on (None: always), new carried values, outputs."""

    go_on: SSAValue | None
    carried: list[SSAValue]
    outputs: list[SSAValue]


def emit_loop(
    builder: GraphBuilder,
    limit: SSAValue | None,
    begin: SSAValue | None,
    carried: Values,
    scanned: Values,
    read: Values,
    fill: Callable[[SSAValue, Values, Values, Values], Iteration],
    *,
    backward: Sequence[int] = (),
    backward_outputs: Sequence[int] = (),
    location: str,
    where: str,
) -> list[SSAValue]:
    """A `graph.loop` with the body that `fill(number, carried, elements, read)` makes; returns its results.

    `fill` runs more than once if sizes turn out to change from iteration to iteration. Raises
    UnsupportedError if a carried value changes its element type or rank.
    """
    outside = frozenset(builder.symbols)
    types = [tensor_type(c) for c in carried]
    varying: set[Expr] = set()
    for _ in range(ROUNDS):
        mark = builder.mark()
        body = _Body(builder, [TensorType.of((), dt.I64), *types, *map(_element, scanned)], read)
        with builder.region(body.block, body.sources):
            number, args = body.block.args[0], list(body.block.args[1 : 1 + len(types) + len(scanned)])
            made = fill(number, args[: len(types)], args[len(types) :], body.inside())
            go_on = made.go_on if made.go_on is not None else builder.constant(TRUE)
            body.finish([go_on, *made.carried, *made.outputs])
        always = _is_true(builder, go_on) and (begin is None or _is_true(builder, begin))
        wider = [
            _widened(builder, have, tensor_type(new), varying, location, where)
            for have, new in zip(types, made.carried, strict=True)
        ]
        if wider == types:
            break
        builder.reset(mark)
        types = wider
    else:
        raise UnsupportedError("the sizes of a loop's values don't settle", where=where)
    count = _count(builder, limit, scanned, location) if always else None
    count = count if count is not None else builder.new_symbol(f"{_stem(location)}_count")
    results = [_known_outside(builder, t, outside, location) for t in types]
    for output in made.outputs:
        element = _known_outside(builder, tensor_type(output), outside, location)
        results.append(TensorType.of((count, *element.shape), element.dtype))
    op = LoopOp.of(
        limit if limit is not None else builder.constant(np.asarray(FOREVER, np.int64)),
        begin if begin is not None else builder.constant(TRUE),
        carried,
        scanned,
        body.read,
        body.region,
        results,
        backward=backward,
        backward_outputs=backward_outputs,
        location=location,
    )
    builder.block.add_op(op)
    return list(op.results)


def emit_if(
    builder: GraphBuilder,
    condition: SSAValue,
    read: Values,
    fills: Sequence[Callable[[Values], Values]],
    *,
    location: str,
    where: str,
) -> list[SSAValue]:
    """A `graph.if` whose bodies (true, false) `fills` make from the values they read; returns its results.

    Raises UnsupportedError if the two give different element types or ranks.
    """
    outside = frozenset(builder.symbols)
    bodies = [_Body(builder, [], read) for _ in fills]
    yielded: list[list[TensorType]] = []
    for body, fill in zip(bodies, fills):
        with builder.region(body.block, body.sources):
            results = list(fill(body.inside()))
            body.finish(results, drop=False)
        yielded.append([tensor_type(r) for r in results])
    used = [i for i in range(len(read)) if any(b.block.args[i].first_use is not None for b in bodies)]
    for body in bodies:
        body.keep(used)
    types = []
    for number, (a, b) in enumerate(zip(*yielded, strict=True)):
        if a.dtype != b.dtype or a.rank != b.rank:
            raise UnsupportedError(
                f"the two branches give result {number} different types", where=where, expected=a, got=b
            )
        shape = [
            d if d == e and d.names() <= outside else builder.new_symbol(f"{_stem(location)}_{number}_{axis}")
            for axis, (d, e) in enumerate(zip(a.shape, b.shape))
        ]
        types.append(TensorType.of(shape, a.dtype))
    op = IfOp.of(condition, bodies[0].read, [b.region for b in bodies], types, location)
    builder.block.add_op(op)
    return list(op.results)


class _Body:
    """A body being made: arguments of the given types, then one for each value that it reads."""

    def __init__(self, builder: GraphBuilder, types: Sequence[TensorType], read: Values) -> None:
        self.builder = builder
        self.read = list(read)
        self.block = Block(arg_types=[*types, *(v.type for v in read)])
        self.region = Region(self.block)
        self.first = len(types)
        self.sources: list[SSAValue | None] = [*([None] * len(types)), *read]
        for arg, value in zip(self.block.args[self.first :], read):
            arg.name_hint = value.name_hint

    def inside(self) -> list[SSAValue]:
        """What stands for the values that the body reads; constants are made again inside."""
        found: list[SSAValue] = []
        for value, arg in zip(self.read, self.block.args[self.first :]):
            match value.owner:
                case ConstantOp():
                    found.append(self.builder.constant(value.owner.value.array))
                case WeightOp():
                    copy = value.owner.clone()
                    copy.results[0].name_hint = value.name_hint
                    self.block.add_op(copy)
                    found.append(copy.results[0])
                case _:
                    found.append(arg)
        return found

    def finish(self, results: Values, drop: bool = True) -> None:
        self.block.add_op(YieldOp.create(operands=list(results)))
        remove_dead_ops(self.block)
        if drop:
            args = self.block.args[self.first :]
            self.keep([i for i, arg in enumerate(args) if arg.first_use is not None])

    def keep(self, used: Sequence[int]) -> None:
        """Leave out the arguments for values that nobody reads."""
        for i in reversed(range(len(self.read))):
            if i not in used:
                self.block.erase_arg(self.block.args[self.first + i])
                del self.read[i]


def _element(scanned: SSAValue) -> TensorType:
    type_ = tensor_type(scanned)
    return TensorType.of(type_.shape[1:], type_.dtype)


def _widened(
    builder: GraphBuilder, have: TensorType, new: TensorType, varying: set[Expr], location: str, where: str
) -> TensorType:
    """`have` with a symbol for every size that an iteration changes."""
    if have.dtype != new.dtype or have.rank != new.rank:
        raise UnsupportedError(
            "a value of the loop changes its element type or rank", where=where, expected=have, got=new
        )
    shape = []
    for old, got in zip(have.shape, new.shape):
        if old != got and old not in varying:
            old = builder.new_symbol(f"{_stem(location)}_size")
            varying.add(old)
        shape.append(old)
    return TensorType.of(shape, have.dtype)


def _known_outside(
    builder: GraphBuilder, type_: TensorType, outside: frozenset[str], location: str
) -> TensorType:
    """The type with fresh symbols for the sizes that only the body knows."""
    shape = [
        d if d.names() <= outside else builder.new_symbol(f"{_stem(location)}_final") for d in type_.shape
    ]
    return TensorType.of(shape, type_.dtype)


def _count(builder: GraphBuilder, limit: SSAValue | None, scanned: Values, location: str) -> Expr | None:
    """The number of iterations of a loop without a condition, if it is known."""
    sizes = [tensor_type(s).shape[0] for s in scanned]
    for size in sizes[1:]:
        if size != sizes[0]:
            builder.assume_equal(sizes[0], size, location)
    if limit is not None:
        dims = builder.dims(limit)
        if dims is None or (sizes and dims[0] != sizes[0]):
            return None
        sizes.append(dims[0])
    if not sizes:
        return None
    number = sizes[0].as_int()
    return sizes[0] if number is None else expr(max(number, 0))


def _is_true(builder: GraphBuilder, value: SSAValue) -> bool:
    known = builder.known(value)
    return known is not None and known.size == 1 and bool(known.reshape(-1)[0])


def _stem(location: str) -> str:
    return location.rpartition("/")[2]
