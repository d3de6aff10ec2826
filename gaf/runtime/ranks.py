# SPDX-License-Identifier: Apache-2.0
"""Runs all ranks of a group in one process, a thread each, so that collectives exchange real data on one
machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gaf.dialects.graph.ops.collective import acting_as
from gaf.errors import GafError, InvalidInputError

PATIENCE_S = 600.0
"""Seconds that a rank waits for the others in a collective."""


class RankLeftError(GafError):
    """A rank waited for another one that failed; the other one's error says why."""


class _Meeting:
    """Where the ranks of a group lay down what they hold, and pick up what all hold."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks)
        self.shelf: list[Any] = [None] * ranks


class SimulatedRank:
    """One rank of a simulated group, as collectives see it (`gaf.dialects.graph.ops.collective.Ranks`)."""

    def __init__(self, rank: int, meeting: _Meeting) -> None:
        self.rank, self._meeting = rank, meeting

    def gather(self, x: np.ndarray, ranks: int) -> Sequence[np.ndarray]:
        meeting = self._meeting
        meeting.shelf[self.rank] = x
        try:
            meeting.barrier.wait(PATIENCE_S)
            found = list(meeting.shelf)
            meeting.barrier.wait(PATIENCE_S)  # nobody lays down the next before all have picked up these
        except threading.BrokenBarrierError:
            raise RankLeftError(f"rank {self.rank} waits in a collective for ranks that never come") from None
        return found


def run_ranks(
    run: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]],
    inputs: Sequence[Mapping[str, np.ndarray]],
) -> list[dict[str, np.ndarray]]:
    """The outputs of every rank; `run` is called once for each of `inputs`, all at the same time.

    `run` is e.g. the `run` of a fused model. Raises what the first rank that
    fails raises; ranks that wait for it are released.
    """
    if not inputs:
        raise InvalidInputError("a group without ranks", expected="inputs for one rank or more")
    meeting = _Meeting(len(inputs))

    def one(rank: int) -> dict[str, np.ndarray]:
        with acting_as(SimulatedRank(rank, meeting)):
            try:
                return run(inputs[rank])
            except BaseException:
                meeting.barrier.abort()
                raise

    with ThreadPoolExecutor(len(inputs), thread_name_prefix="gaf-rank") as threads:
        futures = [threads.submit(one, rank) for rank in range(len(inputs))]
    failed = [e for f in futures if (e := f.exception()) is not None]
    if failed:
        raise next((e for e in failed if not isinstance(e, RankLeftError)), failed[0])
    return [f.result() for f in futures]
