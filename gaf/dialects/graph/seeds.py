# SPDX-License-Identifier: Apache-2.0
"""Where the randomness of a run comes from: one number for each run of a model, under the user's seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gaf.dialects.common.random import random24
from gaf.errors import InvalidInputError

_DEFAULT_SEED = 0


class _Seeds:
    """The state: a user seed, how many numbers were drawn under it, and a number that replaces all draws."""

    def __init__(self) -> None:
        self.seed = _DEFAULT_SEED
        self.drawn = 0
        self.fixed: int | None = None


_seeds = _Seeds()


def manual_seed(seed: int) -> None:
    """Start the sequence of random runs anew: equal seeds and models give equal results, on every engine.

    A process starts with seed 0. Raises InvalidInputError for what is no integer of 64 bits.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(1 << 63) <= seed < 1 << 64:
        raise InvalidInputError("a seed is an integer", expected="-2**63 .. 2**64 - 1", got=seed)
    _seeds.seed, _seeds.drawn = seed & 0xFFFFFFFFFFFFFFFF, 0


def draw(framework: str) -> int:
    """A number of 24 bits for one run; for a model from PyTorch it is drawn from PyTorch's own generator."""
    if _seeds.fixed is not None:
        return _seeds.fixed
    torch = sys.modules.get("torch")
    if framework == "torch" and torch is not None:
        return int(torch.randint(1 << 24, ()))
    _seeds.drawn += 1
    return int(random24(_seeds.drawn & 0xFFFFFFFF, _seeds.seed & 0xFFFFFFFF, _seeds.seed >> 32))


@contextmanager
def same_draws() -> Iterator[None]:
    """Inside, every draw is one and the same number: runs of a model on several engines can be compared."""
    saved = _seeds.fixed
    if saved is None:
        _seeds.fixed = draw("gaf")
    try:
        yield
    finally:
        _seeds.fixed = saved
