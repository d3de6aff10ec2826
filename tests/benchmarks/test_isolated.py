# SPDX-License-Identifier: Apache-2.0
"""Cases in child processes: the others go on when one dies or hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from benchmarks.isolated import Lost, run_isolated


def squares(task: int, first: int) -> Iterator[tuple[int, int]]:
    """Three cases a task; task 2 dies in its case 1, task 3 hangs in its case 0."""
    for case in range(first, 3):
        if (task, case) == (2, 1):
            os.abort()
        if (task, case) == (3, 0):
            time.sleep(600)
        yield task, case * case


def test_every_case_has_an_outcome() -> None:
    found = list(run_isolated(squares, [1, 2, 3, 4], jobs=2, seconds=8))
    lost = {(o.task, o.case): o.reason for o in found if isinstance(o, Lost)}
    assert {o for o in found if not isinstance(o, Lost)} == {
        *((task, square) for task in (1, 4) for square in (0, 1, 4)),
        *((2, 0), (2, 4), (3, 1), (3, 4)),
    }
    assert "-6" in lost.pop((2, 1)) and "not done" in lost.pop((3, 0)) and not lost


def dies(task: int, first: int) -> Iterator[int]:
    """Every case dies."""
    os._exit(first + 3)
    yield 0


def test_a_task_that_only_dies_is_given_up() -> None:
    found = list(run_isolated(dies, [0], jobs=2, seconds=60))
    assert [(o.case, o.reason[-6:]) for o in found] == [(0, "code 3"), (1, "code 4"), (2, "code 5")]
