# SPDX-License-Identifier: Apache-2.0
"""Random bits as a function of a counter: Philox2x32-10 (Salmon et al., SC 2011), in numpy.

An element's counter is its place in the tensor, so the numbers depend neither on tiles and cores nor on fusion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MULTIPLIER = 0xD256D193
WEYL = 0x9E3779B9
ROUNDS = 10

RANDOM_BITS = 24
"""Bits of `random24`: as many as float32 counts exactly."""


def philox2x32(low: Any, high: Any, key: Any, rounds: int = ROUNDS) -> tuple[np.ndarray, np.ndarray]:
    """The two 32-bit words (as uint64) of counters with the words `low` and `high` under a 32-bit `key`."""
    word = np.uint64(0xFFFFFFFF)
    left, right, key = (np.asarray(v).astype(np.int64).astype(np.uint64) & word for v in (low, high, key))
    for _ in range(rounds):
        product = left * np.uint64(MULTIPLIER)
        left, right = (product >> np.uint64(32)) ^ key ^ right, product & word
        key = (key + np.uint64(WEYL)) & word
    return left, right


def random24(index: Any, salt: Any, key: Any) -> np.ndarray:
    """The upper 24 bits of the first word for the counter (index, salt), as int32."""
    left, _ = philox2x32(index, salt, key)
    return np.asarray(left >> np.uint64(32 - RANDOM_BITS)).astype(np.int32)
