# SPDX-License-Identifier: Apache-2.0
"""What a graph op means as iteration spaces: the only thing fusion, lowering and cost ever look at.

A `Meaning` is a short list of *stages*. A stage iterates over parallel dims (one per result dim, in
order) and reduced dims, reads operands or earlier stages at index expressions over those dims, applies a
scalar body, and folds over the reduced dims with a monoid. Elementwise ops, reductions and matmul have
one stage, softmax and LayerNorm have several. A `View` computes nothing: it says where each result
element comes from. An `Opaque` op has no such description; it runs on the host and is never fused.

Result dims are called d0, d1, ...; reduced dims r0, r1, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, ExprLike, const, expr, sym
from gaf.dialects.common.scalar import Arg, Scalar


@dataclass(frozen=True)
class Dim:
    """One dim of an iteration space: 0 <= name < extent."""

    name: str
    extent: Expr


@dataclass(frozen=True)
class Guard:
    """`low <= index < high`, over the result dims."""

    index: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True)
class Read:
    """Operand number `operand`, or the result of stage number `stage`, at `index` (one Expr per dim).

    A gather index is the atom `read(tag, ...)` whose tag is the operand number of the index tensor. Where a
    guard doesn't hold the value is `fill` (the padding of a window); only operands are read under guards.
    """

    index: tuple[Expr, ...]
    operand: int | None = None
    stage: int | None = None
    guards: tuple[Guard, ...] = ()
    fill: float = 0.0


@dataclass(frozen=True)
class Rank:
    """What a stage keeps of the elements along its one reduced dim: the `what` (values or places) of the element that
    is number `dim` in the order (largest or smallest first, equal ones by place, NaN as the largest number).
    """

    dim: str
    order: str
    what: str


@dataclass(frozen=True)
class Scan:
    """A running fold along `dim`: each element is the fold of the bodies up to its own, which `exclusive` leaves out."""

    dim: str
    monoid: str
    exclusive: bool


@dataclass(frozen=True)
class Stage:
    """One iteration space: `result[dims] = monoid over reduced of body(reads)`, or what `rank` or `scan` say.

    `dtype` is what the result is rounded to. Bodies on 16-bit floats are computed, and folded, in float32;
    values of earlier stages that stay inside an op have that type already.
    """

    dims: tuple[Dim, ...]
    reads: tuple[Read, ...]
    body: Scalar
    dtype: dt.DType
    reduced: tuple[Dim, ...] = ()
    monoid: str | None = None
    rank: Rank | None = None
    scan: Scan | None = None


@dataclass(frozen=True)
class Meaning:
    """The stages of an op; `results[i]` is the stage that produces result i."""

    stages: tuple[Stage, ...]
    results: tuple[int, ...] = (0,)

    @property
    def is_elementwise(self) -> bool:
        return len(self.stages) == 1 and not self.stages[0].reduced


@dataclass(frozen=True)
class Piece:
    """Inside all guards the result element is `operand[index]`."""

    operand: int
    index: tuple[Expr, ...]
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class View:
    """A result made only of operand elements; `fill` where no piece applies (pad)."""

    pieces: tuple[Piece, ...]
    fill: float | None = None

    @property
    def is_simple(self) -> bool:
        """True for one unguarded piece: reshape, transpose, slice, expand."""
        return len(self.pieces) == 1 and not self.pieces[0].guards


@dataclass(frozen=True)
class Opaque:
    """No iteration space is known; `reason` goes to the report."""

    reason: str


OpMeaning = Meaning | View | Opaque


def result_dims(shape: Sequence[ExprLike], prefix: str = "d") -> tuple[Dim, ...]:
    """Dims d0, d1, ... for a shape."""
    return tuple(Dim(f"{prefix}{i}", expr(e)) for i, e in enumerate(shape))


def broadcast_index(operand_shape: Sequence[Expr], dims: Sequence[Dim]) -> tuple[Expr, ...]:
    """Index of a numpy-broadcast operand: aligned at the right, size-1 dims read element 0."""
    offset = len(dims) - len(operand_shape)
    return tuple(
        const(0) if size == 1 and dims[offset + i].extent != 1 else sym(dims[offset + i].name)
        for i, size in enumerate(operand_shape)
    )


def elementwise(
    shape: Sequence[Expr], operand_shapes: Sequence[Sequence[Expr]], body: Scalar, dtype: dt.DType
) -> Meaning:
    """One stage over `shape` whose operands broadcast as in numpy."""
    dims = result_dims(shape)
    reads = tuple(Read(broadcast_index(s, dims), operand=i) for i, s in enumerate(operand_shapes))
    return Meaning((Stage(dims, reads, body, dtype),))


def split_axes(rank: int, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """(kept axes, reduced axes), both ascending and non-negative."""
    reduced = sorted({a % rank for a in axes}) if rank else []
    return [i for i in range(rank) if i not in reduced], reduced


def row_stage(
    shape: Sequence[Expr], axes: Sequence[int], reads: Sequence[Read], body: Scalar, monoid: str, dtype: dt.DType
) -> Stage:
    """A stage that reduces `axes` of a `shape`-shaped space and keeps the other dims.

    The reads are given over d0..d(rank-1); reduced dims are renamed to r<axis>, kept dims renumbered.
    """
    kept, reduced = split_axes(len(shape), axes)
    rename = {f"d{a}": sym(f"r{a}") for a in reduced} | {f"d{a}": sym(f"d{i}") for i, a in enumerate(kept)}
    return Stage(
        dims=tuple(Dim(f"d{i}", expr(shape[a])) for i, a in enumerate(kept)),
        reads=tuple(Read(tuple(e.substitute(rename) for e in r.index), r.operand, r.stage) for r in reads),
        body=body,
        dtype=dtype,
        reduced=tuple(Dim(f"r{a}", expr(shape[a])) for a in reduced),
        monoid=monoid,
    )


def identity_read(rank: int, *, operand: int | None = None, stage: int | None = None) -> Read:
    """Read at [d0, ..., d(rank-1)]."""
    return Read(tuple(sym(f"d{i}") for i in range(rank)), operand, stage)


def kept_read(rank: int, axes: Sequence[int], *, stage: int) -> Read:
    """Read a row statistic (result of `row_stage` over `axes`) from the full space d0..d(rank-1)."""
    kept, _ = split_axes(rank, axes)
    return Read(tuple(sym(f"d{a}") for a in kept), stage=stage)


IDENTITY_BODY: Scalar = Arg(0)
