# SPDX-License-Identifier: Apache-2.0
"""What a kernel's loads and stores demand of its axes: steps in memory, guards, gathers, and the rows of tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gaf.dialects.common.index import Expr, const, mod
from gaf.dialects.graph.types import TensorType
from gaf.fusion.piecewise import guard_names
from gaf.fusion.region import Node, NotFusible, Region, address, direct_names, reads_in


@dataclass(frozen=True)
class Access:
    """One load or store: step of every axis in elements (None: not affine), axes named inside gather indices."""

    what: str
    steps: dict[str, Expr | None]
    indirect: frozenset[str]
    weight: int

    def step(self, axis: str) -> Expr | None:
        return self.steps.get(axis, const(0))

    def has(self, axis: str) -> bool:
        return axis in self.steps or axis in self.indirect


def access_of(what: str, type_: TensorType, index: Sequence[Expr], region: Region) -> Access:
    linear = address(type_.shape, index, region.axes)
    steps: dict[str, Expr | None] = {}
    for axis in direct_names(linear) & set(region.axes):
        bare = Expr({m: c for m, c in linear.terms.items() if not reads_in(Expr({m: c}))})
        steps[axis] = bare.coefficient(axis)
    indirect = {n for r in reads_in(linear) for e in r.args for n in e.names()} & set(region.axes)
    return Access(what, steps, frozenset(indirect), len(steps))


def vector_accesses(region: Region, skip: Iterable[int]) -> list[Access]:
    """Accesses of the vector unit: all loads but the matmul operands, and all stores."""
    types = region.input_types
    skipped = set(skip)
    found = [
        access_of(region.inputs[n.input].name_hint or f"input {n.input}", types[n.input], n.index, region)
        for i, n in enumerate(region.nodes)
        if n.kind == "load" and i not in skipped
    ]
    return found + [access_of(f"output {i}", o.type, o.index, region) for i, o in enumerate(region.outputs)]


def is_spread(node: Node, axis: str) -> bool:
    """True for a guarded load that has an axis only through its guards: the same element all along it."""
    return bool(node.guards) and axis in node.axes and not any(axis in e.names() for e in node.index)


def check_gathers(region: Region) -> None:
    """Raise NotFusible for loads whose place is more than one dim looked up in an index tensor.

    Indices that count from the end may be taken modulo the size: the device function does that itself.
    """
    for node in region.nodes:
        looked_up = [(i, e) for i, e in enumerate(node.index) if node.kind == "load" and reads_in(e)]
        if not looked_up:
            continue
        (dim, place), name = looked_up[0], region.inputs[node.input].name_hint or f"input {node.input}"
        row = Expr({(reads_in(place)[0],): 1})
        if len(reads_in(place)) > 1:
            raise NotFusible(f"'{name}' is looked up at indices that are looked up themselves: a kernel of its own stores them")
        if len(looked_up) > 1:
            raise NotFusible(f"'{name}' is looked up in {len(looked_up)} dims at once: a gather copies rows along one")
        if place not in (row, mod(row, region.input_types[node.input].shape[dim])):
            raise NotFusible(f"'{name}' is looked up at {place}: a gather takes indices as they are")


def check_guards(region: Region, tile: Collection[str | None]) -> None:
    """Guards and coordinates are linear: a copy from memory is a box of rows and lanes, with a constant around it."""
    for node in region.nodes:
        for guard in node.guards:
            used = [a for a in tile if a is not None and a in guard_names(guard)]
            step = guard.index.coefficient(used[0]) if used else None
            number = step.as_int() if step is not None else None
            bounds = guard.low.names() | guard.high.names()
            if len(set(used)) > 1 or (used and (number is None or number < -1 or number == 0 or bounds & set(used))):
                raise NotFusible("a padded or concatenated axis is split or combined with another one")
        if node.kind == "coord":
            for axis in tile:
                if axis is not None and axis in node.index[0].names() and node.index[0].coefficient(axis) is None:
                    raise NotFusible("coordinates that aren't linear in an axis have no vector form")


def check_affine(accesses: Sequence[Access]) -> None:
    for access in accesses:
        for axis, step in access.steps.items():
            if step is None:
                raise NotFusible(f"the index map of {access.what} is not affine")


def check_loops(region: Region, loops: Sequence[str]) -> None:
    """No reduction is recomputed, and no output rewritten, for every step of a loop it doesn't depend on."""
    for node in region.nodes:
        if node.kind in ("reduce", "contract", "rank", "scan") and not set(loops) <= node.axes | set(node.over):
            lacks = sorted(set(loops) - node.axes - set(node.over))
            made = region.origins.get(region.nodes.index(node), "a reduction")
            raise NotFusible(f"{made} would be computed again for every step of an axis it doesn't have ({extents_of(region, lacks)})")
    for number, out in enumerate(region.outputs):
        names = {n for e in out.index for n in e.names()}
        if not set(loops) <= names:
            made = region.origins.get(out.node, f"output {number}")
            raise NotFusible(f"the result of {made} lacks an axis that the kernel loops over ({extents_of(region, sorted(set(loops) - names))})")


LONG = 128
"""Rows that fill the largest tile or matmul block: an axis of so many, or of unknown extent, is long enough."""


def pick_rows(
    region: Region, candidates: Sequence[str], lanes: Collection[str], accesses: Sequence[Access]
) -> str | None:
    """The innermost of the longest axes whose column accesses (with rows, without lanes) are contiguous in memory."""

    def is_legal(axis: str) -> bool:
        columns = [a for a in accesses if a.has(axis) and not any(a.has(x) for x in lanes)]
        return all(axis in a.steps and a.step(axis) == 1 and not a.indirect for a in columns)

    def length(axis: str) -> int:
        known = region.axes[axis].as_int()
        return LONG if known is None else min(known, LONG)

    return max((a for a in reversed(candidates) if is_legal(a)), key=length, default=None)


def extents_of(region: Region, axes: Sequence[str]) -> str:
    """For messages: `axis of 512, axis of 64`."""
    return ", ".join(f"axis of {region.axes[a]}" for a in axes) or "none"


def contiguous(region: Region, accesses: Sequence[Access]) -> str:
    """For messages: along which axis each operand is contiguous, those that differ from the first one only."""
    found: dict[str, str] = {}
    for access in accesses:
        along = [a for a in region.axes if access.step(a) == 1]
        found.setdefault(extents_of(region, along), access.what)
    return "; ".join(f"{what} along {sizes}" for sizes, what in list(found.items())[:3])
