# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan: slots and queues of UB and how they are handed out, where values live, what ops become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from gaf.dialects.common.index import Expr, const, maximum, round_up
from gaf.dialects.tile.structure import ForOp, GridOp
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Kind, Recipe, Scratch

MAX_QUEUE_BUFFERS = 8
"""Tensors of one position that may be between AllocTensor and the end of their use: one event id each."""


Phase = ForOp | GridOp
"""A loop of a grid whose units hand over to each other, or a grid of its own beside that of the matmuls."""


@dataclass
class Slot:
    """A piece of the buffer for temporaries. Slots of different phases of a kernel lie over each other."""

    number: int
    bytes: Expr
    phase: Phase | None = None


@dataclass
class Group:
    """A queue: tensors of one size that never live more than `buffers` at a time."""

    position: str  # "vecin" or "vecout"
    bytes: Expr
    live: int = 0
    peak: int = 0
    looped: bool = False
    buffers: int = 0
    label: str = ""
    ahead: int = 0
    """Tensors of a tile that get a second buffer each, so that all of the next tile is loaded ahead."""
    phase: Phase | None = None
    shared: Group | None = None
    """The queue that this one became a part of: one of another phase."""

    @property
    def queue(self) -> Group:
        """The queue that is made for this group."""
        return self if self.shared is None else self.shared


@dataclass(frozen=True)
class Home:
    """Where a value lives: a slot, with a copy for each of some turns of a loop, or a tensor of a queue."""

    form: Form
    slot: Slot | None = None
    queue: Group | None = None
    copies: int = 1


@dataclass
class Leaf:
    """What one op becomes: its recipe, scratch slots, and the queue tensors that are over after it."""

    form: Form
    recipe: Recipe | None = None
    kinds: tuple[Kind, ...] = ()
    scratch: list[tuple[Slot, Scratch]] = field(default_factory=list)
    queue: Group | None = None
    source: SSAValue | None = None
    sink: bool = False


@dataclass
class Carry:
    """A copy into a loop variable, or into the rows of a collected tile: from a number, or from another value's memory."""

    value: SSAValue
    variable: SSAValue
    recipe: Recipe


class Memory:
    """Slots and queues while a plan hands them out.

    Memory of a phase lies over that of the other phases; the rest is common to all.
    """

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.groups: list[Group] = []
        self._free_slots: dict[Expr, list[Slot]] = {}
        self._phase: Phase | None = None

    # -- sizes --------------------------------------------------------------------------------

    @property
    def pool_bytes(self) -> Expr:
        """Bytes of the buffer for temporaries."""
        phases: dict[Phase | None, Expr] = {None: const(0)}
        for slot in self.slots:
            phases[slot.phase] = phases.get(slot.phase, const(0)) + slot.bytes
        largest = const(0)
        for size in dict.fromkeys(size for phase, size in phases.items() if phase is not None):
            largest = maximum(largest, size)
        return phases[None] + largest

    def layout(self) -> list[tuple[Slot, Expr]]:
        """Slots and their offsets in the buffer for temporaries: phases start where the common ones end."""
        ordered = sorted(self.slots, key=lambda s: s.bytes.key)
        common = [s for s in ordered if s.phase is None]
        ends: dict[Phase | None, Expr] = {None: const(0)}
        found = []
        for slot in [*common, *(s for s in ordered if s.phase is not None)]:
            at = ends.setdefault(slot.phase, ends[None])
            found.append((slot, at))
            ends[slot.phase] = at + slot.bytes
        return found

    @property
    def queue_bytes(self) -> Expr:
        return sum((g.bytes * g.buffers for g in self.groups), const(0))

    @property
    def ub_bytes(self) -> Expr:
        """Bytes of UB that the kernel takes on a vector core."""
        return self.pool_bytes + self.queue_bytes

    def breakdown(self) -> str:
        """The buffers and their sizes, for messages: `2 x tm * K * 4 (x), ...`."""
        parts = [f"{g.buffers} x {g.bytes} bytes ({g.label})" for g in self.groups]
        counts: dict[Expr, int] = {}
        for slot in self.slots:
            counts[slot.bytes] = counts.get(slot.bytes, 0) + 1
        return ", ".join(parts + [f"{n} x {size} bytes (temporaries)" for size, n in counts.items()])

    # -- handing out --------------------------------------------------------------------------

    def _take(self, size: Expr) -> Slot:
        free = self._free_slots.get(size, [])
        for i in reversed(range(len(free))):
            if free[i].phase in (None, self._phase):
                return free.pop(i)
        slot = Slot(len(self.slots), size, self._phase)
        self.slots.append(slot)
        return slot

    def _give_back_slot(self, slot: Slot) -> None:
        self._free_slots.setdefault(slot.bytes, []).append(slot)

    def _scratch(self, needs: Sequence[Scratch]) -> list[tuple[Slot, Scratch]]:
        return [(self._take(slot_bytes(n.elements * n.dtype.bytes)), n) for n in needs]

    def _give_back(self, scratch: Sequence[tuple[Slot, Scratch]]) -> None:
        for slot, _ in scratch:
            self._give_back_slot(slot)

    def _group(self, position: str, size: Expr, looped: bool, label: str) -> Group:
        for group in self.groups:
            same = group.position == position and group.bytes == size and group.label != "staged"
            if same and group.phase in (None, self._phase):
                break
        else:
            group = Group(position, size, label=label, phase=self._phase)
            self.groups.append(group)
        return self._occupy(group, looped)

    def _occupy(self, group: Group, looped: bool) -> Group:
        group.live += 1
        group.peak = max(group.peak, group.live)
        group.looped |= looped
        return group

    def _staged_group(self, size: Expr, looped: bool) -> Group:
        """The one queue that all staged loads pass through, as big as the biggest of them."""
        group = next((g for g in self.groups if g.label == "staged"), None)
        if group is None:
            group = Group("vecin", size, label="staged")
            self.groups.append(group)
        group.bytes = maximum(group.bytes, size)
        return self._occupy(group, looped)

    def _share_queues(self) -> None:
        """Make one queue of queues in different phases, those with the most buffers first."""
        for position in ("vecin", "vecout"):
            phases: dict[Phase, list[Group]] = {}
            for group in self.groups:
                if group.position == position and group.phase is not None:
                    phases.setdefault(group.phase, []).append(group)
            common: list[Group] = []
            sizes: list[set[Expr]] = []
            for groups in phases.values():
                for i, group in enumerate(sorted(groups, key=lambda g: -g.peak)):
                    if i == len(common):
                        common.append(group)
                        sizes.append({group.bytes})
                        continue
                    group.shared = common[i]
                    if group.bytes not in sizes[i]:
                        sizes[i].add(group.bytes)
                        common[i].bytes = maximum(common[i].bytes, group.bytes)
                    common[i].peak = max(common[i].peak, group.peak)
                    common[i].looped |= group.looped
        self.groups = [g for g in self.groups if g.shared is None]

    def _set_buffers(self, doubled: Sequence[str]) -> None:
        """One buffer more than what lives at a time, or as many as are loaded `ahead`, lets the next loads start early,
        if events allow. Positions that aren't `doubled` get none.
        """
        for position in ("vecin", "vecout"):
            groups = [g for g in self.groups if g.position == position]
            for group in groups:
                group.buffers = group.peak
            spare = MAX_QUEUE_BUFFERS - sum(g.peak for g in groups)
            for group in groups:
                if group.looped and spare > 0 and position in doubled:
                    more = min(spare, max(1, group.ahead))
                    group.buffers += more
                    spare -= more


def slot_bytes(size: Expr) -> Expr:
    """Slots start 32-byte aligned, so their sizes are multiples of 32."""
    value = size.as_int()
    if value is not None:
        return const(-(-value // 32) * 32)
    return size if all(c % 32 == 0 for c in size.terms.values()) else round_up(size, 32)
