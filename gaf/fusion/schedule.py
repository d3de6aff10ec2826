# SPDX-License-Identifier: Apache-2.0
"""How one kernel runs a region: which axes become lanes, rows and grid, and what is streamed.

A kernel computes on two-dimensional tiles, *rows* x *lanes*; every other parallel axis is a grid loop of step 1.
`gaf.fusion.schedules` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaf.fusion.region import Handed, Region
from gaf.fusion.split import Split


@dataclass(frozen=True)
class MatMul:
    """One matmul of a schedule: contract node `node` sums over `summed`, its result has the axis `columns`.

    `trans_a` / `trans_b`: the operand is stored [k, m] / [n, k]. `computed`: the left operand comes from the
    vector cores instead of global memory. Several summed axes, outermost first, are one row of the left operand; the
    rows of the right one start anywhere, as those of the windows of an image do.
    """

    node: int
    columns: str
    summed: tuple[str, ...]
    trans_a: bool
    trans_b: bool
    computed: bool


@dataclass(frozen=True)
class Schedule:
    """The role of every axis of a region.

    `lanes` is contiguous in memory in every access that has it; `rows` is the second tile axis (None: one
    row); `grid` axes run in steps of 1. `reduced` is the axis of the vector reductions (lanes or rows). With
    `streamed` that axis is walked in chunks with carried state, once per dependent reduction; otherwise whole
    rows stay in UB. A reduced axis that is neither lanes nor rows is one of a sliding window: it is walked in
    steps of 1, and the state is a whole tile. `folded` are further axes that every reduction folds, outermost
    first: the rows, walked in chunks too, and axes that are neither rows nor lanes, walked in steps of 1. `split`:
    cores fold parts of one of these axes and merge their states.

    `levels` are the matmuls in order, those of one level side by side. Between two levels, and before the first
    one if its left operand is computed, the vector cores work on whole rows of the axis that the next level sums.

    `looped`: the columns of the first level, which the second one sums, are walked in stacks with carried states.

    `scanned`: the kernel makes running folds along the axis that is `reduced` and streamed.

    `ranked`: the kernel orders the elements along the lanes, which are `reduced` and streamed; this is the axis of
    those that it keeps.

    With `stages` the kernel runs these one after the other; the other fields are those of the stage with the matmul.
    """

    lanes: str
    rows: str | None
    grid: tuple[str, ...]
    reduced: str | None = None
    streamed: bool = False
    levels: tuple[tuple[MatMul, ...], ...] = ()
    folded: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    split: Split | None = None
    looped: bool = False
    ranked: str | None = None
    scanned: bool = False

    @property
    def nest(self) -> tuple[str, ...]:
        """All axes that the vector reductions fold, outermost first."""
        return (*self.folded, self.reduced) if self.reduced is not None else ()

    @property
    def walked(self) -> tuple[str, ...]:
        """Axes of loops in steps of 1: a tile has one point of them."""
        return (*self.grid, *(a for a in self.nest if a not in (self.rows, self.lanes)))

    @property
    def is_cube(self) -> bool:
        return bool(self.levels)

    @property
    def is_chain(self) -> bool:
        """Vector work feeds a matmul of the same kernel."""
        return any(m.computed for level in self.levels for m in level)

    @property
    def is_pipeline(self) -> bool:
        """Several matmuls, or vector work in front of one: a kernel whose units hand over more than once."""
        return self.is_chain or sum(len(level) for level in self.levels) > 1

    @property
    def kind(self) -> str:
        """The fusion type, for reports."""
        if self.stages:
            return _joined_kind([stage.schedule.kind for stage in self.stages])
        if self.ranked is not None:
            return "sort+elementwise"
        if self.scanned:
            return "scan+elementwise"
        if not self.is_cube:
            return "reduction+elementwise" if self.reduced else "elementwise"
        parts = ["elementwise"] if self.levels[0][0].computed else []
        parts += ["matmul"] * len(self.levels) + (["reduction", "elementwise"] if self.reduced else [])
        return "+".join(parts)

    @property
    def handed(self) -> int:
        """Values that one stage writes for another."""
        return sum(isinstance(target, Handed) for stage in self.stages for target in stage.stores)

    @property
    def tile_axes(self) -> tuple[str, ...]:
        return (self.rows, self.lanes) if self.rows is not None else (self.lanes,)


@dataclass(frozen=True, eq=False)
class Stage:
    """One of several regions of a kernel; `stores` says for every output of it which result of the kernel it is,
    or what it hands to later stages. All cores wait for each other before it if it has a `barrier`; without one it
    doesn't depend on the region before it.
    """

    region: Region
    schedule: Schedule
    stores: tuple[int | Handed, ...]
    barrier: bool = False


def _joined_kind(kinds: Sequence[str]) -> str:
    """The kind of a kernel in stages: vector work before a matmul is a prologue, whatever it is."""
    at = next((i for i, kind in enumerate(kinds) if "matmul" in kind), None)
    if at is None:
        return max(kinds, key=len)
    behind = [k for k in kinds[at + 1 :] if k != "elementwise" or not kinds[at].endswith(k)]
    return "+".join((["elementwise"] if at else []) + [kinds[at], *dict.fromkeys(behind)])
