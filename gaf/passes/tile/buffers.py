# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan: slots and queues of UB, where a value lives, and what each op becomes."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from gaf.dialects.common.index import Expr
from gaf.dialects.tile.structure import ForOp
from gaf.passes.tile.forms import Form
from gaf.passes.tile.recipes.base import Kind, Recipe, Scratch


@dataclass
class Slot:
    """A piece of the buffer for temporaries. Slots of different phases of a kernel lie over each other."""

    number: int
    bytes: Expr
    phase: ForOp | None = None


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
    phase: ForOp | None = None
    shared: Group | None = None
    """The queue that this one became a part of: one of another phase."""

    @property
    def queue(self) -> Group:
        """The queue that is made for this group."""
        return self if self.shared is None else self.shared


@dataclass(frozen=True)
class Home:
    """Where a value lives: a slot, or a tensor of a queue."""

    form: Form
    slot: Slot | None = None
    queue: Group | None = None


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
    """A copy into a loop variable: from a number, or from another value's memory."""

    value: SSAValue
    variable: SSAValue
    recipe: Recipe
