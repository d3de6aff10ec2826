# SPDX-License-Identifier: Apache-2.0
"""Stages: one kernel as several regions with a barrier of all cores between them, for what rows can't hand over.

A matmul whose rows are followed by a row statistic, or preceded by vector work, keeps few cores busy when it has
few rows: a block has to be a whole row for the vector cores. Cut at that value, each side is tiled as suits it:
the value lies in workspace (in L2, if it is small), and the launch of a second kernel is saved. There is one
matmul stage, with vector work before it (`head`), behind it (`tail`), or both. A convolution is such a kernel: its
head lays out the windows of the input as a matrix, all but the positions along the outermost dim of a window
(`windows.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gaf.dialects.common.index import sym
from gaf.dialects.graph.types import TensorType
from gaf.fusion.axes import collapse, prune
from gaf.fusion.cube_schedules import matmul_levels
from gaf.fusion.cut import cut_at_guards
from gaf.fusion.nodes import Handed, Node, NotFusible, Output, Region, address
from gaf.fusion.schedule import Schedule, Stage
from gaf.fusion.schedules import choose_schedules
from gaf.fusion.windows import Slide, find_slide

MAX_HANDED = 3
"""Values that one kernel hands from stage to stage: each is written and read once more."""


def kernel_schedules(region: Region, in_stages: bool = False) -> list[Schedule]:
    """The schedules of a region, best first: those that need no stages if there are any, unless `in_stages` says
    otherwise. Raises NotFusible with the reason against the former if there is none at all.
    """
    if in_stages and (found := staged_schedules(region)):
        return found
    try:
        if found := _cut_schedules(region):
            return found
    except NotFusible:
        pass
    try:
        return choose_schedules(region)
    except NotFusible as error:
        reason = error
    try:
        if found := staged_schedules(region):
            return found
    except NotFusible:
        pass
    raise reason


def _cut_schedules(region: Region) -> list[Schedule]:
    """The schedules of a region with an axis cut where guards change, best first; none if there are no such guards.

    Raises NotFusible where the pieces have no schedule.
    """
    cut = cut_at_guards(region)
    if cut is None:
        return []
    pieces, results = cut
    return [replace(s, stages=(Stage(pieces, s, results),)) for s in choose_schedules(pieces)]


def staged_schedules(region: Region) -> list[Schedule]:
    """The schedules of a region in stages, best first; none if there is nothing to cut.

    Raises NotFusible where a stage has no schedule of its own.
    """
    cuts = _Cuts(region)
    if not cuts.head and not cuts.tail:
        return []
    if len(cuts.head) + len(cuts.tail) > MAX_HANDED:
        raise NotFusible(f"{len(cuts.head) + len(cuts.tail)} values between the stages of a kernel > {MAX_HANDED}")
    parts = cuts.parts()
    choices = [[replace(s, split=None) for s in choose_schedules(part.region)] for part in parts]
    core = next(c for c in choices if c[0].is_cube)
    if core[0].reduced is not None or any(m.computed for m in core[0].levels[0]):
        raise NotFusible("a stage with a matmul still needs complete rows")
    found = []
    for variant in range(max(map(len, choices))):
        stages = tuple(
            Stage(part.region, c[min(variant, len(c) - 1)], part.stores, part.barrier)
            for part, c in zip(parts, choices)
        )
        found.append(replace(core[0], stages=stages))
    return found


@dataclass(frozen=True)
class _Part:
    """A region of a kernel in stages that has no schedule yet; see `Stage`."""

    region: Region
    stores: tuple[int | Handed, ...]
    barrier: bool


def is_matrix(region: Region, number: int, side: int) -> bool:
    """Whether an operand of a matmul is a matrix in memory: contiguous along what is summed, or along an axis of its own,
    and with all summed axes in one.
    """
    contract = region.nodes[number]
    mine, other = (region.nodes[contract.args[i]] for i in (side, 1 - side))
    if mine.kind != "load" or mine.guards:
        return False
    linear = address(region.input_types[mine.input].shape, mine.index, region.axes)
    steps = {a: linear.coefficient(a) for a in region.axes if a in mine.axes}
    own = mine.axes - other.axes
    for outer, inner in pairwise(contract.over):
        if steps[inner] is None or steps[outer] != steps[inner] * region.axes[inner]:
            return False
    return None not in steps.values() and any(steps[a] == 1 for a in steps if a in own or a in contract.over)


class _Cuts:
    """Where a region is cut: `head` are nodes computed before the first matmul, `tail` those that the row
    statistics behind the last one start from.
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        levels, self.depth = matmul_levels(region)
        self.last = len(levels)
        nodes = region.nodes
        self.head: list[int] = []
        self.tail: list[int] = []
        if not levels:
            return
        first = [(c, side) for c in levels[0] for side in (0, 1)] + [(c, 1) for level in levels[1:] for c in level]
        laid_out = [(c, side) for c, side in first if not is_matrix(region, c, side)]
        self.head = sorted({nodes[c].args[side] for c, side in laid_out})
        if any(self.depth[a] for a in self.head):
            raise NotFusible("the right matmul operand is computed from another matmul in the same group")
        self.windows = {nodes[c].args[1]: c for c, side in laid_out if side and self._is_window(c)}
        """Right operands that are laid out along columns, as the windows of a convolution are."""
        self.slides = {n: slide for n in self.windows if (slide := self._slide(n)) is not None}
        self.statistics: list[int] = []
        """Reductions behind the last matmul on the longest path up to a node."""
        for i, node in enumerate(nodes):
            below = max((self.statistics[a] for a in node.args), default=0)
            fold = node.kind == "reduce" and self.depth[i] == self.last
            self.statistics.append(0 if node.kind == "contract" else below + fold)
        border = {
            a for i, node in enumerate(nodes) for a in node.args
            if self.statistics[i] and not self.statistics[a] and self.depth[a] == self.last
        }  # fmt: skip
        self.tail = sorted(t for t in border if self._needed(t, border - {t}))

    def _is_window(self, number: int) -> bool:
        """Whether the right operand of a matmul comes from arrays that aren't contiguous along what is summed."""
        region, contract = self.region, self.region.nodes[number]
        if len(contract.over) > 1:
            return True
        stack, found = [contract.args[1]], False
        while stack:
            node = region.nodes[stack.pop()]
            stack += node.args
            if node.kind == "load" and set(contract.over) <= node.axes:
                linear = address(region.input_types[node.input].shape, node.index, region.axes)
                found |= linear.coefficient(contract.over[0]) == 1
        return not found

    def _slide(self, number: int) -> Slide | None:
        """How the windows of a right operand slide along its first column axis."""
        contract = self.region.nodes[self.windows[number]]
        columns = self._window_columns(number)
        if not columns or any(o.node == number for o in self.region.outputs):
            return None
        return find_slide(self.region, number, columns[0], contract.over)

    def _needed(self, number: int, others: Collection[int]) -> bool:
        """Does a node need a matmul that it can't be computed without, given the other values of the border?"""
        node = self.region.nodes[number]
        if node.kind == "contract":
            return True
        return any(a not in others and self.depth[a] == self.last and self._needed(a, others) for a in node.args)

    def parts(self) -> list[_Part]:
        """The regions of the stages in order. Values of the first stage that have other axes are regions of their
        own, side by side.
        """
        region, outputs = self.region, list(enumerate(self.region.outputs))
        known: dict[int, tuple[Handed, Node]] = {}
        found: list[_Part] = []
        before = {i for i, o in outputs if self.head and not self.depth[o.node]}
        behind = {i for i, o in outputs if self.statistics[o.node]}
        for axes in dict.fromkeys(region.nodes[n].axes for n in [*self.head, *(region.outputs[i].node for i in before)]):
            slid = [n for n in self.head if region.nodes[n].axes == axes and n in self.slides]
            found += [self._slid_part(n, known) for n in slid]
            cut = [n for n in self.head if region.nodes[n].axes == axes and n not in self.slides]
            mine = [(i, o) for i, o in outputs if i in before and region.nodes[o.node].axes == axes]
            if cut or mine:
                found.append(self._part(cut, mine, known))
        core = [(i, o) for i, o in outputs if i not in before | behind]
        found.append(self._part(self.tail, core, known, barrier=bool(found)))
        if self.tail:
            found.append(self._part((), [(i, o) for i, o in outputs if i in behind], known, barrier=True))
        return found

    def _part(
        self,
        cut: Sequence[int],
        outputs: Sequence[tuple[int, Output]],
        known: dict[int, tuple[Handed, Node]],
        barrier: bool = False,
    ) -> _Part:
        """A region that stores `outputs` and hands on the nodes `cut`; later ones read them through `known`."""
        region = self.region
        stored = [o for _, o in outputs]
        names: list[int | Handed] = [i for i, _ in outputs]
        fresh: dict[int, tuple[Handed, Node]] = {}
        for number in cut:
            node = region.nodes[number]
            same = next((i for i, o in outputs if o.node == number and o.type.dtype == node.dtype), None)
            if same is not None:
                out = region.outputs[same]
                fresh[number] = self._handed(Handed(f"y{same}", out.type, same), number, out.index)
                continue
            if not node.dtype.is_float:
                raise NotFusible(f"a value of {node.dtype} between two stages of a kernel")
            order = self._order(number)
            index = tuple(sym(a) for a in order)
            handed = Handed(f"stage{number}", TensorType.of([region.axes[a] for a in order], node.dtype))
            fresh[number] = self._handed(handed, number, index)
            stored.append(Output(number, index, handed.type))
            names.append(handed)
        if not stored:
            raise NotFusible("a stage of a kernel stores nothing")
        part = _Part(self._extract(stored, known), tuple(names), barrier)
        known.update(fresh)
        return part

    def _slid_part(self, number: int, known: dict[int, tuple[Handed, Node]]) -> _Part:
        """The region that lays out a right operand but for the positions along which its windows slide."""
        slide = self.slides[number]
        region = slide.region
        order = slide.order(self._window_order(number))
        handed = Handed(f"stage{number}", TensorType.of([region.axes[a] for a in order], region.nodes[number].dtype))
        out = Output(number, tuple(sym(a) for a in order), handed.type)
        part = _Part(self._extract([out], known, region), (handed,), False)
        known[number] = self._handed(handed, number, tuple(slide.place(a) for a in order))
        return part

    def _handed(self, handed: Handed, number: int, index: tuple) -> tuple[Handed, Node]:
        node = self.region.nodes[number]
        return handed, Node("load", node.dtype, node.axes, index=index)

    def _order(self, number: int) -> list[str]:
        """Axes of a handed value, the contiguous one last: what the next matmul sums, or the columns of the last."""
        region = self.region
        axes = [a for a in region.axes if a in region.nodes[number].axes]
        if number in self.windows:
            return self._window_order(number)
        users = [n for n in region.nodes if n.kind == "contract" and number in n.args]
        lanes = [a for n in users for a in n.over] if users else self._columns()
        return [a for a in axes if a not in lanes] + [a for a in dict.fromkeys(lanes) if a in axes]

    def _window_order(self, number: int) -> list[str]:
        """Axes of a right operand: batches, what is summed, columns as they are stored."""
        region = self.region
        contract = region.nodes[self.windows[number]]
        columns = self._window_columns(number)
        summed = [a for a in contract.over if a in region.nodes[number].axes]
        axes = [a for a in region.axes if a in region.nodes[number].axes]
        return [a for a in axes if a not in (*summed, *columns)] + summed + columns

    def _window_columns(self, number: int) -> list[str]:
        """Column axes of a right operand as they are stored behind the rows of the result."""
        region = self.region
        left = region.nodes[region.nodes[self.windows[number]].args[0]]
        own = left.axes - region.nodes[number].axes
        stored = [a for e in region.outputs[0].index for a in region.axes if a in e.names()]
        first = min((stored.index(a) for a in own if a in stored), default=0)
        return [a for a in stored[first:] if a in region.nodes[number].axes - left.axes]

    def _columns(self) -> list[str]:
        found: list[str] = []
        for i, node in enumerate(self.region.nodes):
            if node.kind == "contract" and self.depth[i] == self.last:
                left, right = (self.region.nodes[a] for a in node.args)
                found += [a for a in self.region.axes if a in right.axes - left.axes]
        return found

    def _extract(
        self, outputs: Sequence[Output], known: Mapping[int, tuple[Handed, Node]], region: Region | None = None
    ) -> Region:
        """The part of a region (this one) below `outputs`, with loads for what earlier stages hand over."""
        region = region if region is not None else self.region
        arrays = [*region.inputs, *(h for h, _ in known.values())]
        first = len(region.inputs)
        nodes = list(region.nodes)
        for i, (number, (_, node)) in enumerate(known.items()):
            nodes[number] = replace(node, input=first + i)
        stage = prune(Region(dict(region.axes), nodes, arrays, list(outputs), dict(region.origins), region.one_pass))
        collapse(stage)
        return prune(stage)
