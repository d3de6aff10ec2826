# SPDX-License-Identifier: Apache-2.0
"""How big the integers of a graph value can be, from the ops that make it: positions, masks, widened bytes, constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Block, BlockArgument, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import scalar
from gaf.dialects.common.index import Expr
from gaf.dialects.common.order import PLACES
from gaf.dialects.common.random import RANDOM_BITS
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Dim, Meaning, Stage, View
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp

SMALL = {dt.BOOL: 1, dt.U8: 255, dt.I8: 128, dt.I16: 1 << 15}
"""Largest absolute value of dtypes narrower than 32 bits."""

LIMIT = 1 << 31
"""Absolute values below this fit int32."""

UNKNOWN_SIZE = 1 << 29
"""A size that isn't known is taken to be smaller than this: a longer int64 tensor takes 4 GiB."""

MAX_DEPTH = 64


class Bounds:
    """Bounds of the absolute value of graph values, each computed once."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, int | None] = {}

    def of(self, value: SSAValue, depth: int = 0) -> int | None:
        """A bound below 2**31 of every element of an integer or bool value, or None."""
        kind = tensor_type(value).dtype
        if kind in SMALL:
            return SMALL[kind]
        if not kind.is_int or depth > MAX_DEPTH:
            return None
        if value not in self.known:
            self.known[value] = None
            self.known[value] = _fits(self._of(value, depth + 1))
        return self.known[value]

    def _of(self, value: SSAValue, depth: int) -> int | None:
        owner = value.owner
        if isinstance(value, BlockArgument) or isinstance(owner, Block):
            fused = owner.parent_op() if isinstance(owner, Block) else None
            return self.of(fused.operands[value.index], depth) if isinstance(fused, FusedOp) else None  # type: ignore[union-attr]
        if isinstance(owner, FusedOp):
            return self.of(owner.yielded[list(owner.results).index(value)], depth)
        if isinstance(owner, ConstantOp):
            array = owner.value.array
            return max((abs(int(v)) for v in (array.min(), array.max())), default=0) if array.size else 0
        if not isinstance(owner, GraphOp):
            return None
        meaning = owner.meaning()
        if isinstance(meaning, View):
            parts = [self.of(owner.operands[p.operand], depth) for p in meaning.pieces]
            return _most([*parts, abs(int(meaning.fill)) if meaning.fill is not None else 0])
        if isinstance(meaning, Meaning):
            stage = meaning.results[list(owner.results).index(value)]
            return self._stage(owner, meaning, meaning.stages[stage], depth)
        return None

    def _stage(self, op: GraphOp, meaning: Meaning, stage: Stage, depth: int) -> int | None:
        reads = [
            self._stage(op, meaning, meaning.stages[r.stage], depth)
            if r.stage is not None
            else self.of(op.operands[r.operand or 0], depth)
            for r in stage.reads
        ]
        result = _body(stage.body, reads, {d.name: d for d in (*stage.dims, *stage.reduced)})
        if stage.rank is not None and stage.rank.what == PLACES:
            return size_bound(stage.reduced[0].extent)
        if stage.monoid in (None, "max", "min") or result is None:
            return result
        count = 1
        for dim in stage.reduced:
            count *= size_bound(dim.extent)
        return result * count if stage.monoid == "sum" else None


def size_bound(size: Expr) -> int:
    """A bound of a dim, as far as it is known."""
    known = size.as_int()
    return known if known is not None else UNKNOWN_SIZE


def combine(function: str, sizes: Sequence[int | None]) -> int | None:
    """A bound of a scalar function from bounds of its operands; None if there is none."""
    entry = scalar.FUNCTIONS[function]
    if entry.result == "bool":
        return 1
    if function == "random24":
        return (1 << RANDOM_BITS) - 1
    values = list(sizes[1:]) if function == "select" else list(sizes)
    most = _most(values)
    if most is None:
        return None
    match function:
        case "add" | "sub":
            return sum(v or 0 for v in values)
        case "mul":
            return (values[0] or 0) * (values[1] or 0)
        case "max" | "min" | "select" | "neg" | "abs" | "relu":
            return most
        case "sign":
            return 1
    return None


def _body(body: scalar.Scalar, reads: Sequence[int | None], dims: dict[str, Dim]) -> int | None:
    match body:
        case scalar.Arg(index):
            return reads[index]
        case scalar.Const(value):
            return abs(int(value)) if np.isfinite(value) and float(value).is_integer() else None
        case scalar.Extent(value):
            return size_bound(value)
        case scalar.Coord(dim):
            return max(0, size_bound(dims[dim].extent) - 1)
        case scalar.Call("cast", (operand,), target):
            if target is not None and target.is_bool:
                return 1
            inner = _body(operand, reads, dims)
            return inner if target is not None and not target.is_float else None
        case scalar.Call(function, operands):
            return combine(function, [_fits(_body(o, reads, dims)) for o in operands])
    return None


def _fits(value: int | None) -> int | None:
    return value if value is not None and value < LIMIT else None


def _most(values: Sequence[int | None]) -> int | None:
    return None if None in values else max((v for v in values if v is not None), default=0)
