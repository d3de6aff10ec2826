# SPDX-License-Identifier: Apache-2.0
"""Cases in child processes: one that dies or takes too long costs one case, not the whole run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

Work = Callable[[Any, int], Iterator[Any]]
"""work(task, first): the results of the task's cases from number `first` on, in order."""

STRIKES = 3  # cases that end their process, until the rest of a task is given up


@dataclass(frozen=True)
class Lost:
    """Case number `case` of a task ended its process, or was ended after the time limit."""

    task: Any
    case: int
    reason: str


@dataclass
class _Piece:
    """A task from case number `case` on."""

    task: Any
    case: int = 0
    strikes: int = 0


def run_isolated(work: Work, tasks: Sequence[Any], *, jobs: int, seconds: float) -> Iterator[Any | Lost]:
    """Every result of `work` on every task, and a `Lost` for each case without one, as they come.

    `jobs` processes; `seconds` is the time that one case may take. `work` and its results must be picklable.
    """
    queue = [_Piece(task) for task in reversed(tasks)]
    running: list[_Child] = []
    try:
        while queue or running:
            while queue and len(running) < jobs:
                running.append(_Child(work, queue.pop()))
            soonest = min(child.started for child in running) + seconds - time.monotonic()
            ready = wait([child.pipe for child in running], timeout=max(soonest, 0.0))
            for child in list(running):
                lost = None
                if child.pipe in ready:
                    message = child.receive()
                    if message:
                        yield message[0]
                    elif message is not None and queue:
                        child.give(queue.pop())
                    elif message is not None:
                        child.end()
                        running.remove(child)
                    else:
                        lost = f"the process ended with code {child.end()}"
                elif time.monotonic() - child.started >= seconds:
                    child.end(patience=0.0)
                    lost = f"not done after {seconds:g} s"
                if lost is not None:
                    running.remove(child)
                    piece = child.piece
                    yield Lost(piece.task, piece.case, lost)
                    if piece.strikes + 1 < STRIKES:
                        queue.append(_Piece(piece.task, piece.case + 1, piece.strikes + 1))
    finally:
        for child in running:
            child.end(patience=0.0)


class _Child:
    """A process that works on one piece after the other."""

    def __init__(self, work: Work, piece: _Piece) -> None:
        context = get_context("spawn")  # a fork would inherit the locks of libraries that have threads
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()
        self.give(piece)

    def give(self, piece: _Piece) -> None:
        self.piece = piece
        self.started = time.monotonic()
        self.pipe.send((piece.task, piece.case))

    def receive(self) -> tuple[Any, ...] | None:
        """(result,), or () at the end of the piece, or None if the process is gone."""
        try:
            message: tuple[Any, ...] = self.pipe.recv()
        except (EOFError, ConnectionError):
            return None
        self.started = time.monotonic()
        self.piece.case += len(message)
        return message

    def end(self, patience: float = 5.0) -> int | None:
        """Ends the process, by force if it has not ended by itself after so many seconds; its exit code."""
        self.pipe.close()
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


def _serve(pipe: Connection, work: Work) -> None:
    try:
        while True:
            for result in work(*pipe.recv()):
                pipe.send((result,))
            pipe.send(())
    except (EOFError, KeyboardInterrupt):
        return
