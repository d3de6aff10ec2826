# SPDX-License-Identifier: Apache-2.0
"""Which bytes of the unified buffer a tensor names, whether two overlap, and who may touch them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from gaf.dialects.ascendc.api import Access, ApiOp, local_dtype, root
from gaf.dialects.ascendc.attributes import Bindings, Pipe, Position, invalid
from gaf.dialects.ascendc.queue import AllocOp, BufGetOp, DequeOp, InitQueueOp, SliceOp
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common.index import Expr, Func, const, sym


@dataclass(frozen=True)
class Range:
    """`bytes` bytes from `start` in one buffer: a TBuf, or one tensor taken from a queue."""

    buffer: SSAValue
    start: Expr
    bytes: Expr


def nonneg(e: Expr) -> bool:
    """True if `e >= 0` follows from every name in it being >= 0."""
    return all(c >= 0 for c in e.terms.values()) and all(_atom_nonneg(a) for a in e.atoms())


def _atom_nonneg(atom: str | Func) -> bool:
    if isinstance(atom, str):
        return True
    if atom.name == "max":
        return any(nonneg(a) for a in atom.args)
    return atom.name in ("floordiv", "mod", "min") and all(nonneg(a) for a in atom.args)


def capacity(value: SSAValue) -> Expr:
    """Elements from the start of a LocalTensor to the end of the memory it was given."""
    assert isinstance(value, OpResult)
    size = local_dtype(value).bytes
    match value.op:
        case BufGetOp() as get:
            return get.param("count")
        case SliceOp() as part:
            return part.param("count")
        case AllocOp() | DequeOp() as taken:
            queue = taken.queue.owner
            assert isinstance(queue, InitQueueOp)
            return queue.param("bytes") // size
        case op:  # a reinterpreted tensor
            source = op.operands[0]
            return capacity(source) * local_dtype(source).bytes // size


def range_of(value: SSAValue) -> Range:
    """The bytes that a LocalTensor may cover."""
    size = local_dtype(value).bytes
    start, current = const(0), value
    while isinstance(current, OpResult) and getattr(current.op, "IS_VIEW", False):
        if isinstance(current.op, SliceOp):
            start = start + current.op.param("offset") * local_dtype(current).bytes
        current = current.op.operands[0]
    assert isinstance(current, OpResult)
    if isinstance(current.op, BufGetOp):
        return Range(current.op.buf, start + current.op.param("offset"), capacity(value) * size)
    return Range(current, start, capacity(value) * size)


Values = Mapping[str, Expr]
"""Tiling fields by name, written in terms of names that are >= 0."""


def field_values(fields: Bindings) -> Values:
    """What tiling fields are computed from, for proofs about sums of them.

    A field that hands over a symbol n becomes n + 1, as the host refuses symbols below 1. A field that isn't
    proven to be >= 0 from its definition stands for itself.
    """
    values: dict[str, Expr] = {}
    for name, value in fields:
        if value.as_name() == name:
            values[name] = value + 1
        else:
            expanded = value.substitute(values)
            values[name] = expanded if nonneg(expanded) else sym(name)
    return values


def disjoint(a: Range, b: Range, values: Values | None = None) -> bool:
    """True if two ranges are proven not to share a byte; names are >= 0."""
    if a.buffer is not b.buffer:
        return True
    return any(nonneg((y.start - x.start - x.bytes).substitute(values or {})) for x, y in ((a, b), (b, a)))


def overlapping(a: Range, b: Range) -> bool:
    """True if two ranges obviously share a byte: they start a known distance apart."""
    distance = (b.start - a.start).as_int() if a.buffer is b.buffer else None
    if distance is None:
        return False
    first, gap = (a, distance) if distance >= 0 else (b, -distance)
    return nonneg(first.bytes - gap - 1)


def check_use(op: ApiOp) -> None:
    """Raises VerifyException if a call touches a tensor it may not touch, or more of it than there is.

    What can't be decided here, since sizes depend on tiling fields, the interpreter checks.
    """
    accesses = [a for a in op.accesses() if isinstance(a.value.type, LocalType)]
    for access in accesses:
        _check_owner(op, access)
        have, need = capacity(access.value).as_int(), access.elements.as_int()
        if have is not None and need is not None and need > have:
            raise invalid(
                f"{op.name}: {access.name} is too small", expected=f"at least {need} elements", got=have
            )
    for target, other in conflicting_pairs(op, accesses):
        a, b = range_of(target.value), range_of(other.value)
        if a == b and not other.write and target.name == "dst" and other.name in op.INPLACE:
            continue
        if a == b or overlapping(a, b):
            raise invalid(
                f"{op.name}: {target.name} overlaps {other.name}",
                expected="disjoint memory",
                hint=overlap_hint(op),
            )


def conflicting_pairs(op: ApiOp, accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of operands of one call of which the first is written."""
    for i, target in enumerate(accesses):
        if target.write:
            yield from ((target, o) for k, o in enumerate(accesses) if k != i and not (o.write and k < i))


def overlap_hint(op: ApiOp) -> str:
    """Which operands may be the same tensor as dst."""
    return "only " + (", ".join(op.INPLACE) or "no operand") + " may equal dst"


def _check_owner(op: ApiOp, access: Access) -> None:
    owner = root(access.value)
    if not isinstance(owner, OpResult):
        raise invalid(f"{op.name}: {access.name} doesn't come from a buffer or a queue")
    match owner.op:
        case BufGetOp():
            allowed, why = (Pipe.V,), "a temporary buffer has no events: only vector calls may use it"
        case AllocOp() | DequeOp() as taken:
            position, fresh = taken.position, isinstance(taken, AllocOp)
            if position is Position.VECIN:
                allowed, why = (
                    ((Pipe.MTE2,), "a freshly allocated vecin tensor is filled by a load, then enqueued")
                    if fresh
                    else ((Pipe.V,), "a dequeued vecin tensor is used by vector calls, then freed")
                )
            else:
                allowed, why = (
                    ((Pipe.V,), "a freshly allocated vecout tensor is written by vector calls, then enqueued")
                    if fresh
                    else ((Pipe.MTE3,), "a dequeued vecout tensor is stored, then freed")
                )
        case _:
            raise invalid(f"{op.name}: {access.name} doesn't come from a buffer or a queue")
    if op.PIPE not in allowed:
        raise invalid(f"{op.name} runs on {op.PIPE.cpp} and can't use {access.name}", hint=why)
