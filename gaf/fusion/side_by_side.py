# SPDX-License-Identifier: Apache-2.0
"""Regions side by side: results that share no work, or the pieces of a concatenation, as one kernel.

Twenty-six lookups in as many tables that end in one concatenated tensor have no joint iteration space: every
piece has its own. Each becomes a region of its own that writes its part of the result; one launch runs them one after
the other, without barriers, every one shared out to all cores. Where a region of the kernel reads the concatenation, the
pieces are assembled in workspace, and all cores wait for each other before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from gaf.dialects.common.index import Expr, sym
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Meaning, View
from gaf.dialects.graph.types import TensorType
from gaf.fusion.nodes import Handed, NotFusible, Output, Region
from gaf.fusion.region import build_region
from gaf.fusion.schedule import Schedule, Stage
from gaf.fusion.schedules import MAX_INPUTS
from gaf.fusion.stages import kernel_schedules

MAX_REGIONS = 40
"""Regions of one kernel: their code has to fit the instruction cache."""


@dataclass(frozen=True)
class _Arm:
    """A value that is stored as a result, or from `first` on along the axis `axis` of it."""

    value: SSAValue
    result: int
    axis: int | None = None
    first: Expr | None = None

    def output(self, made: Output, type_: TensorType) -> Output:
        """Where the value goes, from where a region of its own would put it."""
        if self.axis is None or self.first is None:
            return made
        index = tuple(e + self.first if i == self.axis else e for i, e in enumerate(made.index))
        return Output(made.node, index, type_)


Memo = dict[tuple, tuple[Region, list[Schedule]] | str]
"""Regions that were analysed before, by the values that they store and the ops below: the same ones come up again for
every group that a search looks at.
"""


def side_by_side(
    ops: Sequence[Operation], outputs: Sequence[SSAValue], strict: bool = False, memo: Memo | None = None
) -> tuple[Region, list[Schedule]]:
    """A region that only names inputs and outputs, and its schedules, best first.

    Raises NotFusible if there is one region only, or one of them has no schedule.
    """
    members = set(ops)
    groups = _groups(outputs, members)
    if len(groups) < 2:
        raise NotFusible("nothing runs side by side")
    if len(groups) > MAX_REGIONS:
        raise NotFusible(f"{len(groups)} regions side by side in one kernel > {MAX_REGIONS}")
    inputs: dict[SSAValue, None] = {}
    choices: list[tuple[Region, tuple[int, ...], list[Schedule]]] = []
    for group in groups:
        region, schedules = _analysed(group, ops, members, outputs, strict, memo if memo is not None else {})
        inputs.update((v, None) for v in region.inputs if not isinstance(v, Handed))
        choices.append((region, tuple(arm.result for arm in group), schedules))
    if len(inputs) > MAX_INPUTS:
        raise NotFusible(f"{len(inputs)} inputs are more than the {MAX_INPUTS} a kernel takes")
    if sum(schedules[0].is_cube for _, _, schedules in choices) > 1:
        raise NotFusible("two matmuls side by side that share neither rows nor operands")
    whole = Region(inputs=list(inputs), outputs=[Output(-1, (), tensor_type(v)) for v in outputs])
    found = []
    for variant in range(max(len(schedules) for _, _, schedules in choices)):
        stages: list[Stage] = []
        for region, results, schedules in choices:
            stages += _stages(region, results, schedules[min(variant, len(schedules) - 1)])
        core = next((s.schedule for s in stages if s.schedule.is_cube), stages[0].schedule)
        found.append(replace(core, stages=tuple(stages)))
    return whole, found


def assembled(
    ops: Sequence[Operation], outputs: Sequence[SSAValue], strict: bool = False, memo: Memo | None = None
) -> tuple[Region, list[Schedule]]:
    """A kernel whose first regions write the pieces of a concatenation to workspace, for a last one that reads it.

    Raises NotFusible if no concatenation of the group is all that its pieces are for, or a region has no schedule.
    """
    memo = memo if memo is not None else {}
    ops = _needed(ops, outputs)
    members = set(ops)
    cut = next((v for v in _concatenations(ops) if _is_cut(v, ops, outputs, members)), None)
    if cut is None:
        raise NotFusible("no concatenation between two parts of the group")
    groups = _groups([cut], members)
    if not 2 <= len(groups) < MAX_REGIONS:
        raise NotFusible(f"{len(groups)} regions before a region of one kernel, not 2 to {MAX_REGIONS - 1}")
    below = set(_below(cut, members))
    above = [op for op in ops if op not in below]
    key = (cut, tuple(outputs), frozenset(above), strict)
    if key not in memo:
        try:
            region = build_region(above, outputs, strict)
            memo[key] = region, kernel_schedules(region)
        except NotFusible as error:
            memo[key] = str(error)
    known = memo[key]
    if isinstance(known, str):
        raise NotFusible(known)
    last, choices = known
    pieces = [_analysed(group, ops, members, [cut], strict, memo) for group in groups]
    if any(schedules[0].is_cube for _, schedules in pieces):
        raise NotFusible("a matmul before another one that reads its result as a piece of a concatenation")
    regions = [*(region for region, _ in pieces), last]
    inputs = dict.fromkeys(v for r in regions for v in r.inputs if v is not cut and not isinstance(v, Handed))
    if len(inputs) > MAX_INPUTS:
        raise NotFusible(f"{len(inputs)} inputs are more than the {MAX_INPUTS} a kernel takes")
    whole = Region(inputs=list(inputs), outputs=[Output(-1, (), tensor_type(v)) for v in outputs])
    handed = Handed("pieces", tensor_type(cut))
    first: list[Stage] = []
    for region, schedules in pieces:
        first += [_into(stage, handed) for stage in _stages(region, range(len(region.outputs)), schedules[0])]
    found = []
    for schedule in choices:
        head, *others = _stages(last, range(len(outputs)), schedule)
        stages = [replace(head, barrier=True), *others]
        stages = [replace(stage, region=_renamed(stage.region, {cut: handed})) for stage in stages]
        core = next((s.schedule for s in stages if s.schedule.is_cube), stages[0].schedule)
        found.append(replace(core, stages=(*first, *stages)))
    return whole, found


def _needed(ops: Sequence[Operation], outputs: Sequence[SSAValue]) -> list[Operation]:
    """The ops that `outputs` are made by: views of other groups may be among `ops`."""
    members = set(ops)
    found = {op for v in outputs for op in _below(v, members)}
    return [op for op in ops if op in found]


def _concatenations(ops: Sequence[Operation], least: int = 2) -> list[SSAValue]:
    """The concatenations of `least` pieces or more among some ops."""
    members = set(ops)
    return [r for op in ops for r in op.results if len(_arms(r, 0, members)) >= least]


def _is_cut(value: SSAValue, ops: Sequence[Operation], outputs: Sequence[SSAValue], members: set[Operation]) -> bool:
    """Whether nothing but `value` leads from the ops that it is made by to other ops of the group and its results."""
    below = set(_below(value, members))
    made = {r for op in below for r in op.results}
    others = [op for op in ops if op not in below]
    return bool(others) and not any(v in made for v in outputs) and not any(
        v in made and v is not value for op in others for v in op.operands
    )  # fmt: skip


def _into(stage: Stage, handed: Handed) -> Stage:
    """A stage that stores its results as pieces of an array."""
    return replace(stage, stores=tuple(t if isinstance(t, Handed) else handed for t in stage.stores))


def _analysed(
    arms: Sequence[_Arm],
    ops: Sequence[Operation],
    members: set[Operation],
    outputs: Sequence[SSAValue],
    strict: bool,
    memo: Memo,
) -> tuple[Region, list[Schedule]]:
    """The region that stores some arms, and its schedules. Raises NotFusible."""
    types = [tensor_type(outputs[arm.result]) for arm in arms]
    below = frozenset(op for arm in arms for op in _below(arm.value, members))
    key = (tuple((a.value, a.axis, a.first, t) for a, t in zip(arms, types)), below, strict)
    known = memo.get(key)
    if known is None:
        try:
            values = [arm.value for arm in arms]
            region = build_region(ops, values, strict, lambda i, o: arms[i].output(o, types[i]))
            known = region, kernel_schedules(region)
        except NotFusible as error:
            known = str(error)
        memo[key] = known
    if isinstance(known, str):
        raise NotFusible(known)
    return known


MANY = 8
"""Independent regions from which on one region for all of them, which computes all pieces everywhere, isn't tried."""


def kernel_of(
    ops: Sequence[Operation],
    outputs: Sequence[SSAValue],
    strict: bool = False,
    in_stages: bool = False,
    memo: Memo | None = None,
) -> tuple[Region, list[Schedule]]:
    """The region of a group and its schedules, best first: as one region (in stages if need be, or if `in_stages`
    says so), else side by side; the other way round for many pieces; else one region behind others side by side.
    Raises NotFusible with the reason against one region. `memo` holds what one search has found out before.
    """
    members = set(ops)
    first = []
    if len(_groups(outputs, members)) >= MANY:
        first.append(side_by_side)
    elif len(ops) > MANY and _concatenations(_needed(ops, outputs), MANY):
        first.append(assembled)
    for way in first:
        try:
            return way(ops, outputs, strict, memo)
        except NotFusible:
            pass
    try:
        region = build_region(ops, outputs, strict)
        return region, kernel_schedules(region, in_stages)
    except NotFusible as error:
        reason = error
    for way in (side_by_side, assembled):
        try:
            return way(ops, outputs, strict, memo)
        except NotFusible:
            pass
    raise reason


def _groups(outputs: Sequence[SSAValue], members: set[Operation]) -> list[list[_Arm]]:
    """What is stored, in groups that share no work."""
    return _independent([a for i, value in enumerate(outputs) for a in _arms(value, i, members)], members)


def _arms(value: SSAValue, result: int, members: set[Operation]) -> list[_Arm]:
    """The pieces of a concatenation of the group, or the value as a whole."""
    owner = value.owner
    if not isinstance(owner, GraphOp) or owner not in members:
        return [_Arm(value, result)]
    meaning = owner.meaning()
    if not isinstance(meaning, View) or len(meaning.pieces) < 2 or meaning.fill is not None:
        return [_Arm(value, result)]
    found = []
    for piece in meaning.pieces:
        if len(piece.guards) != 1:
            return [_Arm(value, result)]
        guard = piece.guards[0]
        name = guard.index.as_name()
        axis = int(name[1:]) if name is not None and name[1:].isdigit() else None
        plain = axis is not None and all(
            e - (guard.index - guard.low if i == axis else sym(f"d{i}")) == 0 for i, e in enumerate(piece.index)
        )
        if not plain:
            return [_Arm(value, result)]
        found.append(_Arm(owner.operands[piece.operand], result, axis, guard.low))
    return found


def _independent(arms: Sequence[_Arm], members: set[Operation]) -> list[list[_Arm]]:
    """Arms that share a computing op of the group together, all others apart; in order."""
    home: dict[Operation, int] = {}
    root = list(range(len(arms)))

    def find(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    for i, arm in enumerate(arms):
        for op in _computing(arm.value, members):
            if op in home:
                a, b = find(home[op]), find(i)
                root[max(a, b)] = min(a, b)
            home[op] = i
    groups: dict[int, list[_Arm]] = {}
    for i, arm in enumerate(arms):
        groups.setdefault(find(i), []).append(arm)
    return list(groups.values())


def _computing(value: SSAValue, members: set[Operation]) -> list[Operation]:
    """The ops of the group that compute what `value` is made from."""
    return [op for op in _below(value, members) if isinstance(op, GraphOp) and isinstance(op.meaning(), Meaning)]


def _below(value: SSAValue, members: set[Operation]) -> list[Operation]:
    """The ops of the group, views included, that `value` is made by."""
    found: dict[Operation, None] = {}
    stack = [value]
    while stack:
        owner = stack.pop().owner
        if isinstance(owner, Operation) and owner in members and owner not in found:
            found[owner] = None
            stack += owner.operands
    return list(found)


def _stages(region: Region, results: Sequence[int], schedule: Schedule) -> list[Stage]:
    """A region of the kernel as stages, their results numbered as those of the kernel."""
    if not schedule.stages:
        return [Stage(region, schedule, tuple(results))]
    renamed: dict[Handed, Handed] = {}
    found = []
    for stage in schedule.stages:
        for target in (*stage.stores, *stage.region.inputs):
            if isinstance(target, Handed) and target.output is not None:
                renamed[target] = replace(target, output=results[target.output])
        stores = tuple(t if isinstance(t, Handed) else results[t] for t in stage.stores)
        found.append(replace(stage, region=_renamed(stage.region, renamed), stores=stores))
    return found


def _renamed(region: Region, names: Mapping[Any, Handed]) -> Region:
    return replace(region, inputs=[names.get(v, v) for v in region.inputs])
