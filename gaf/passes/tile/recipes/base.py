# SPDX-License-Identifier: Apache-2.0
"""What a recipe is: the API calls of one tile op, and the scratch memory they need, known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from xdsl.ir import SSAValue

from gaf.dialects.ascendc import vector as v
from gaf.dialects.ascendc.api import AscendOp
from gaf.dialects.ascendc.attributes import CmpMode
from gaf.dialects.ascendc.rows import BroadcastColOp, BroadcastRowOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.passes.tile.forms import Form

Number = int | float | Expr


class Kind(StrEnum):
    """How an operand relates to the rows x lanes of the result."""

    FULL = "full"  # an element for each of the result's
    COL = "col"  # one per row
    ROW = "row"  # one per lane
    ONE = "one"  # a single element in UB
    NUMBER = "number"  # known in scalar registers: a constant, or an expression over symbols


@dataclass(frozen=True)
class Arg:
    """An operand at emission: a tensor, or the number itself."""

    kind: Kind
    tensor: SSAValue | None = None
    number: Number = 0

    @property
    def value(self) -> SSAValue:
        assert self.tensor is not None
        return self.tensor


@dataclass(frozen=True)
class Scratch:
    """A temporary tensor of a recipe."""

    dtype: dt.DType
    elements: Expr


@dataclass
class Calls:
    """What a recipe emits to: the size of the result here, and the API calls."""

    rows: Expr
    lanes: Expr
    count_of: Callable[[dt.DType], Expr]
    """Elements of a tile of this size and that dtype, with its row padding."""
    call: Callable[..., None]
    slice: Callable[[SSAValue, Expr, Expr], SSAValue]
    reinterpret: Callable[[SSAValue, dt.DType], SSAValue]
    for_: Callable[..., Any]

    @property
    def count(self) -> Expr:
        """Elements of a tile of 32-bit values."""
        return self.count_of(dt.F32)


Kinds = Sequence[Kind]


class Recipe:
    """The calls of one scalar function. Subclasses say how much scratch they need and emit the calls."""

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        """Temporaries for a result of `form`, in the order in which `emit` gets them."""
        return []

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        """Operands whose memory the result may take over (only full ones count)."""
        return ()

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        raise NotImplementedError


def word_of(form: Form) -> dt.DType:
    """The 32-bit type that operands of a result of this form are in: i32 for integers, else f32."""
    return dt.I32 if form.dtype is dt.I32 else dt.F32


def spread_scratch(kind: Kind, form: Form) -> list[Scratch]:
    """Scratch of `spread` for an operand of this kind: the full tile, then what its broadcast needs."""
    if kind is Kind.FULL:
        return []
    found = [Scratch(word_of(form), form.elements)]
    if kind in (Kind.COL, Kind.ONE):
        found.append(column_scratch(kind, form))
    return found


def column_scratch(kind: Kind, form: Form) -> Scratch:
    """Scratch of a column broadcast; a single element is a column of one row."""
    return Scratch(word_of(form), BroadcastColOp.tmp_elements(form.rows if kind is Kind.COL else const(1)))


def spread(calls: Calls, dst: SSAValue, arg: Arg, tmp: Sequence[SSAValue]) -> None:
    """Write an operand that isn't full to all of `dst`; `tmp` is the scratch after the tile itself."""
    match arg.kind:
        case Kind.NUMBER:
            calls.call(v.DuplicateOp, dst, scalar=arg.number, count=calls.count)
        case Kind.ROW:
            calls.call(BroadcastRowOp, dst, arg.value, rows=calls.rows, lanes=calls.lanes)
        case Kind.COL:
            calls.call(BroadcastColOp, dst, arg.value, tmp[0], rows=calls.rows, lanes=calls.lanes)
        case Kind.ONE:
            calls.call(BroadcastColOp, dst, arg.value, tmp[0], rows=1, lanes=calls.count)
        case Kind.FULL:
            raise AssertionError("a full operand is used as it is")


class Spread(Recipe):
    """Base of recipes that only know full operands (and numbers as `NUMBERS` says): others are spread."""

    NUMBERS: tuple[int, ...] = ()
    """Operands that may stay numbers."""

    def own_scratch(self, form: Form) -> list[Scratch]:
        """Scratch of the recipe itself."""
        return []

    def stays(self, position: int, kind: Kind) -> bool:
        return kind is Kind.FULL or (kind is Kind.NUMBER and position in self.NUMBERS)

    def scratch(self, kinds: Kinds, form: Form) -> list[Scratch]:
        found = self.own_scratch(form)
        for i, kind in enumerate(kinds):
            if not self.stays(i, kind):
                found += spread_scratch(kind, form)
        return found

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        rest = list(tmp)
        own = [rest.pop(0) for _ in range(self.own_count)]
        full: list[Arg] = []
        for i, arg in enumerate(args):
            if self.stays(i, arg.kind):
                full.append(arg)
                continue
            tile = rest.pop(0)
            needs = [rest.pop(0)] if arg.kind in (Kind.COL, Kind.ONE) else []
            spread(calls, tile, arg, needs)
            full.append(Arg(Kind.FULL, tile))
        self.emit_full(calls, dst, full, own)

    own_count: int = 0
    """Number of `own_scratch` temporaries."""

    def emit_full(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Step:
    """One call `op(dst, src, params, count)` of a chain; `src` is the operand in the first step, then dst."""

    op: type[AscendOp]
    params: tuple[tuple[str, Any], ...] = ()


def step(op: type[AscendOp], **params: Any) -> Step:
    return Step(op, tuple(params.items()))


class Chain(Recipe):
    """A unary function as count-form calls one after the other, all in place after the first."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps

    def inplace(self, kinds: Kinds) -> tuple[int, ...]:
        return (0,)

    def emit(self, calls: Calls, dst: SSAValue, args: Sequence[Arg], tmp: Sequence[SSAValue]) -> None:
        source = args[0].value
        for item in self.steps:
            calls.call(item.op, dst, source, **dict(item.params), count=calls.count)
            source = dst


COMPARISONS = {
    "eq": CmpMode.EQ,
    "ne": CmpMode.NE,
    "lt": CmpMode.LT,
    "le": CmpMode.LE,
    "gt": CmpMode.GT,
    "ge": CmpMode.GE,
}
MIRRORED = {
    CmpMode.EQ: CmpMode.EQ,
    CmpMode.NE: CmpMode.NE,
    CmpMode.LT: CmpMode.GT,
    CmpMode.LE: CmpMode.GE,
    CmpMode.GT: CmpMode.LT,
    CmpMode.GE: CmpMode.LE,
}
"""`a mode b` is `b MIRRORED[mode] a`."""
