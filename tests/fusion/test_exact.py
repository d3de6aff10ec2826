# SPDX-License-Identifier: Apache-2.0
"""The exact search finds what enumeration finds; greedy is close to it on clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gaf.config import FusionConfig
from gaf.fusion.exact import Cost, best_partition
from gaf.fusion.search import check_acyclic, plan_fusion
from tests.graphs import random_graph


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """All set partitions."""
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for i, group in enumerate(rest):
            yield [*rest[:i], [items[0], *group], *rest[i + 1 :]]


def connected(group: list[int], needs: list[int]) -> bool:
    """By data flow, directions ignored."""
    seen, stack = {group[0]}, [group[0]]
    while stack:
        i = stack.pop()
        for j in group:
            if j not in seen and (needs[i] >> j & 1 or needs[j] >> i & 1):
                seen.add(j)
                stack.append(j)
    return len(seen) == len(group)


def ordered(groups: list[list[int]], needs: list[int]) -> bool:
    """The groups have an order."""
    left = [set(g) for g in groups]
    done: set[int] = set()
    while left:
        ready = [
            g
            for g in left
            if all(set(j for j in range(len(needs)) if needs[i] >> j & 1) <= done | g for i in g)
        ]
        if not ready:
            return False
        done |= ready[0]
        left.remove(ready[0])
    return True


@pytest.mark.parametrize("seed", range(12))
def test_the_dynamic_program_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 6
    needs = [sum(1 << j for j in range(i) if rng.random() < 0.4) for i in range(count)]
    table: dict[int, Cost | None] = {}

    def price(mask: int) -> Cost | None:
        if mask not in table:
            size = bin(mask).count("1")
            table[mask] = (
                None if size > 1 and rng.random() < 0.3 else (float(rng.uniform(0.6, 1.2) * size**0.7), 1.0)
            )
        return table[mask]

    def mask_of(group: list[int]) -> int:
        return sum(1 << i for i in group)

    for mask in range(1, 1 << count):
        price(mask)
    best = min(
        sum(price(mask_of(g))[0] for g in p)  # type: ignore[index]
        for p in partitions(list(range(count)))
        if all(connected(g, needs) and price(mask_of(g)) is not None for g in p) and ordered(p, needs)
    )
    found = best_partition(needs, price)
    assert found is not None and found[0][0] == pytest.approx(best)
    assert sorted(i for m in found[1] for i in range(count) if m >> i & 1) == list(range(count))


def test_too_many_groups_are_left_to_the_greedy_search() -> None:
    assert best_partition([0] + [1] * 15, lambda mask: (1.0,), max_sets=50) is None


@pytest.mark.parametrize("objective", ["time", "traffic"])
@pytest.mark.parametrize("seed", range(20))
def test_greedy_is_close_to_exact(seed: int, objective: str) -> None:
    model = random_graph(seed, steps=9)
    plans = {
        s: plan_fusion(model.block, config=FusionConfig(strategy=s, objective=objective))
        for s in ("greedy", "optimal", "none")
    }
    costs = {}
    for name, p in plans.items():
        check_acyclic(p)
        assert p.report is not None and p.report.lower_bound_us <= p.report.cost_us * 1.0001 or not p.groups
        costs[name] = p.report.cost_us if objective == "time" else float(p.report.hbm_bytes)  # type: ignore[union-attr]
    assert costs["optimal"] <= costs["greedy"] * 1.0001 <= costs["none"] * 1.0002
    assert costs["greedy"] <= 1.05 * costs["optimal"]
