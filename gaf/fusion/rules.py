# SPDX-License-Identifier: Apache-2.0
"""Fusion rules of users: a pattern and a gain, registered for the process or for a block of code.

A rule adds a candidate and says what it is worth; it can't make an illegal group legal. `register_fusion` is
the short form with `Pattern >> Pattern` and a `FusedNode`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import SSAValue

from gaf.dialects.common.names import legal_name
from gaf.errors import GafError, InvalidInputError
from gaf.fusion import names
from gaf.fusion.cost import GroupCost, OpView
from gaf.fusion.patterns import Pattern, Slot, parse_pattern


class RuleWarning(UserWarning):
    """A rule of the user failed or gave an odd value; the rest of the compilation went on without it."""


@dataclass(frozen=True)
class Subgraph:
    """Ops that a rule matched, or that one candidate joins. `str` joins their names with " + ".

    `before` is the cost of the ops as kernels of their own, `after` as one kernel.
    """

    ops: tuple[OpView, ...]
    titles: tuple[str, ...]
    before: GroupCost
    after: GroupCost

    def __str__(self) -> str:
        return names.join_names(self.titles)

    def __iter__(self) -> Iterator[OpView]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def members(self) -> list[str]:
        """Model nodes, each once."""
        return list(dict.fromkeys(o.name for o in self.ops))

    @property
    def memory_reduction(self) -> float:
        """Fraction of the bytes of the single ops that the fused kernel doesn't move, 0..1."""
        return max(0.0, 1 - self.after.hbm_bytes / self.before.hbm_bytes) if self.before.hbm_bytes else 0.0

    @property
    def launch_reduction(self) -> float:
        """Fraction of the launches that go away, 0..1."""
        return max(0.0, 1 - self.after.launches / self.before.launches) if self.before.launches else 0.0

    @property
    def latency_reduction(self) -> float:
        """Fraction of the modelled time that goes away, 0..1."""
        return max(0.0, 1 - self.after.us / self.before.us) if self.before.us else 0.0


class FusionRule:
    """A pattern of slots and its gain; subclass it, or give `name`, `pattern` and `gain` to the constructor.

    `pattern` is a list of (label, names) pairs or a `Pattern`. `evaluate_gain(subgraph)` returns a fraction
    0..1 of the members' time; by default the modelled one.
    """

    name: str = ""
    pattern: Any = ()

    def __init__(
        self, name: str | None = None, pattern: Any = None, gain: Callable[[Subgraph], float] | None = None
    ) -> None:
        if name is not None:
            self.name = name
        if pattern is not None:
            self.pattern = pattern
        self._gain = gain

    @property
    def title(self) -> str:
        return self.name or type(self).__name__

    def slots(self) -> tuple[Slot, ...]:
        """The parsed pattern. Raises InvalidInputError."""
        return parse_pattern(self.pattern, self.title)

    def evaluate_gain(self, subgraph: Subgraph) -> float:
        """What fusing this subgraph gains: 0 nothing, 1 everything."""
        gain = getattr(self, "_gain", None)
        return gain(subgraph) if gain is not None else subgraph.latency_reduction

    def estimate_memory_reduction(self, subgraph: Subgraph) -> float:
        """Fraction of the unfused bytes that the fused kernel saves, 0..1."""
        return subgraph.memory_reduction

    def estimate_latency_reduction(self, subgraph: Subgraph) -> float:
        """Fraction of the unfused modelled time that the fused kernel saves, 0..1."""
        return subgraph.latency_reduction

    def generate(self, nodes: Sequence[OpView]) -> FusedNode | None:
        """The node that stands for a match; None: gaf names the kernel."""
        return None


@dataclass
class FusedNode:
    """The kernel that stands for matched ops: its name and inputs.

    Missing outside inputs are appended, outputs are inferred. `device_function` names an Ascend C function
    for ops without a body that gaf knows; there is no lowering for it yet.
    """

    name: str
    inputs: Sequence[SSAValue] = ()
    outputs: Sequence[SSAValue] | None = None
    device_function: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return legal_name(self.name, "fused")


class _Registered(FusionRule):
    """A class decorated with `register_fusion`."""

    def __init__(self, owner: type, op_names: Sequence[str]) -> None:
        super().__init__(owner.__name__)
        self.owner = owner
        self.instance = owner()
        pattern = getattr(self.instance, "pattern", None)
        if pattern is None:
            self.pattern = [(n, [n]) for n in op_names]
        else:
            self.pattern = pattern() if callable(pattern) else pattern
        if not isinstance(self.pattern, Pattern | list | tuple):
            raise InvalidInputError(
                "pattern() must return a Pattern", where=f"fusion '{self.name}'",
                expected='Pattern("Add") >> Pattern("Relu")', got=type(self.pattern).__name__,
            )  # fmt: skip
        missing = {names.plain(n) for n in op_names} - {n for s in self.slots() for n in s.plain}
        if missing:
            raise InvalidInputError(
                "register_fusion names ops that the pattern lacks", where=f"fusion '{self.name}'",
                expected=f"ops of {self.pattern!r}", got=", ".join(sorted(missing)),
            )  # fmt: skip

    def evaluate_gain(self, subgraph: Subgraph) -> float:
        gain = getattr(self.instance, "evaluate_gain", None)
        return gain(subgraph) if gain is not None else super().evaluate_gain(subgraph)

    def generate(self, nodes: Sequence[OpView]) -> FusedNode | None:
        make = getattr(self.instance, "generate", None)
        return make(nodes) if make is not None else None


_registry: dict[str, FusionRule] = {}


def register_fusion_rule(rule: FusionRule) -> FusionRule:
    """Use a rule in all following fusions; returns it.

    Raises InvalidInputError if its pattern is empty or misspelt, or if another rule has its name.
    """
    if isinstance(rule, type):
        raise InvalidInputError(
            "register an instance of the rule", where=f"rule '{rule.__name__}'", hint=f"{rule.__name__}()"
        )
    if not isinstance(rule, FusionRule):
        raise InvalidInputError(
            "this is not a fusion rule", expected="a subclass of gaf.FusionRule", got=type(rule).__name__
        )
    known = _registry.get(rule.title)
    if known is not None and known is not rule:
        raise InvalidInputError(
            f"there is a fusion rule '{rule.title}' already",
            hint=f"gaf.unregister_fusion_rule('{rule.title}') removes it",
        )
    rule.slots()
    _registry[rule.title] = rule
    return rule


def unregister_fusion_rule(rule: FusionRule | type | str) -> None:
    """Forget a rule, given by itself, its name, or the class that `register_fusion` decorated.

    Raises InvalidInputError if it isn't registered.
    """
    title = rule if isinstance(rule, str) else rule.__name__ if isinstance(rule, type) else rule.title
    found = next(
        (k for k, r in _registry.items() if k == title or (isinstance(rule, type) and type(r) is rule)), None
    )
    if found is None:
        raise InvalidInputError(
            f"there is no fusion rule '{title}'", expected=", ".join(_registry) or "no rule is registered"
        )
    del _registry[found]


unregister_fusion = unregister_fusion_rule


@contextmanager
def fusion_rules(*rules: FusionRule, only: bool = False) -> Iterator[None]:
    """Rules that hold inside a `with` block; with `only`, no others do. Afterwards all is as before."""
    saved = dict(_registry)
    if only:
        _registry.clear()
    try:
        for rule in rules:
            register_fusion_rule(rule)
        yield
    finally:
        _registry.clear()
        _registry.update(saved)


def registered_rules() -> tuple[FusionRule, ...]:
    """All rules, in the order of their registration."""
    return tuple(_registry.values())


def register_fusion(*op_names: str) -> Callable[[type], type]:
    """Class decorator: `pattern()` gives the Pattern to match, `generate(nodes)` the FusedNode for a match.

    Raises InvalidInputError if there is no pattern, or if it lacks one of `op_names`.
    """

    def decorate(owner: type) -> type:
        register_fusion_rule(_Registered(owner, op_names))
        return owner

    return decorate


def rule_gain(rule: FusionRule, subgraph: Subgraph) -> float:
    """The gain that a rule claims, 0..1; above 1 it is clamped with a warning.

    Raises InvalidInputError, naming rule and node, if the rule raises or returns NaN or a negative number.
    """
    node = subgraph.members[0]
    try:
        answer = rule.evaluate_gain(subgraph)
        gain = float(answer)
    except GafError as error:
        raise InvalidInputError(str(error), where=f"rule '{rule.title}' at node '{node}'") from error
    except Exception as error:
        raise InvalidInputError(
            f"evaluate_gain raised {type(error).__name__}: {error}",
            where=f"rule '{rule.title}' at node '{node}'",
        ) from error
    if not math.isfinite(gain) or gain < 0:
        raise InvalidInputError(
            "evaluate_gain returned a bad gain", where=f"rule '{rule.title}' at node '{node}'",
            expected="a fraction 0..1", got=answer,
        )  # fmt: skip
    if gain > 1:
        warn(f"rule '{rule.title}' at node '{node}' claims a gain of {gain:g}: taken as 1")
        return 1.0
    return gain


def generated(rule: FusionRule, nodes: Sequence[OpView], external: Sequence[SSAValue]) -> FusedNode | None:
    """What a rule's `generate` makes of a match, with missing outside inputs appended.

    Raises InvalidInputError, naming rule and node, if it raises or returns something else.
    """
    where = f"rule '{rule.title}' at node '{nodes[0].name}'"
    try:
        node = rule.generate(nodes)
    except Exception as error:
        raise InvalidInputError(f"generate raised {type(error).__name__}: {error}", where=where) from error
    if node is None:
        return None
    if not isinstance(node, FusedNode) or not isinstance(node.name, str) or not node.name.strip():
        raise InvalidInputError(
            "generate must return a FusedNode with a name", where=where, got=type(node).__name__
        )
    given = list(node.inputs)
    node.inputs = [*given, *(v for v in external if v not in given)]
    return node


def warn(text: str) -> None:
    """A RuleWarning at the caller of the public API."""
    warnings.warn(text, RuleWarning, stacklevel=2)
