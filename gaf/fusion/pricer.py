# SPDX-License-Identifier: Apache-2.0
"""Asking a cost model that users may have overridden: every answer is checked, and every question asked once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation

from gaf.errors import GafError, InvalidInputError
from gaf.fusion import names
from gaf.fusion.cost import CostModel, GroupCost, GroupView, OpView
from gaf.fusion.work import Sizes, Work


def checked(value: Any, model: CostModel, node: str, what: str) -> float:
    """A time from a user's model. Raises InvalidInputError, naming model and node, unless it is finite and >=
    0.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise InvalidInputError(
            f"cost model '{type(model).__name__}' returned a bad time from {what}", where=node,
            expected="microseconds, finite and >= 0", got=value,
        )  # fmt: skip
    return number


def ask(model: CostModel, method: str, argument: Any, node: str) -> Any:
    """Call a method of a user's model. Raises InvalidInputError, naming model and node, if it raises."""
    try:
        return getattr(model, method)(argument)
    except GafError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"cost model '{type(model).__name__}' raised {type(error).__name__} in {method}: {error}",
            where=node,
        ) from error


class Pricer:
    """Prices groups with a model that may be overridden; asks it once per op, and once per distinct group."""

    def __init__(self, model: CostModel, env: Sizes) -> None:
        self.model, self.env = model, env
        self.own_leaves = type(model).estimate_latency is CostModel.estimate_latency
        self.own_groups = type(model).estimate_group is CostModel.estimate_group
        self.groups: dict[tuple, GroupCost] = {}
        self.leaves: dict[Operation, tuple[float, float]] = {}

    def leaf(self, op: Operation, work: Work | None) -> float:
        """µs of an op alone, as the user's model says."""
        return self._leaf(op, work)[0]

    def _leaf(self, op: Operation, work: Work | None) -> tuple[float, float]:
        found = self.leaves.get(op)
        if found is None:
            view = OpView(op, self.env, work)
            own = CostModel.estimate_latency(self.model, view)
            value = own
            if not self.own_leaves:
                value = checked(
                    ask(self.model, "estimate_latency", view, view.name),
                    self.model,
                    view.name,
                    "estimate_latency",
                )
            found = self.leaves[op] = (value, own)
        return found

    def group(
        self,
        ops: Sequence[Operation],
        works: Sequence[Work | None],
        work: Work,
        reads: Sequence[bool],
        writes: Sequence[bool],
    ) -> GroupCost:
        """The cost of `ops` as one kernel.

        A leaf that the user's model prices differently from the built-in one changes every group with that
        op: by the difference if it is slower, by the ratio if it is faster.
        """
        key = (work, tuple(reads), tuple(writes), len(ops))
        cost = self.groups.get(key)
        if cost is None or not self.own_groups:
            view = GroupView(
                tuple(OpView(o, self.env, w) for o, w in zip(ops, works)), work, tuple(reads), tuple(writes)
            )
            cost = self._asked(view, ops)
            self.groups[key] = cost
        if self.own_leaves:
            return cost
        pairs = [self._leaf(o, w) for o, w in zip(ops, works) if names.computes(o)]
        theirs, own = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        if theirs == own or not own:
            return cost
        return replace(cost, us=cost.us + theirs - own if theirs > own else cost.us * theirs / own)

    def _asked(self, view: GroupView, ops: Sequence[Operation]) -> GroupCost:
        node = names.node_name(ops[0])
        if self.own_groups:
            cost = self.model.price(view.work, view.resident_reads, view.resident_writes, len(ops))
            checked(cost.us, self.model, node, "price")
            return cost
        answer = ask(self.model, "estimate_group", view, node)
        if isinstance(answer, GroupCost):
            checked(answer.us, self.model, node, "estimate_group")
            return answer
        us = checked(answer, self.model, node, "estimate_group")
        return replace(
            self.model.price(view.work, view.resident_reads, view.resident_writes, len(ops)), us=us
        )
