# SPDX-License-Identifier: Apache-2.0
"""Philox2x32 against its authors' known answers (Random123, kat_vectors)."""

import numpy as np
import pytest

from gaf.dialects.common.random import philox2x32, random24

ANSWERS = [
    (7, (0, 0, 0), (0x257A3673, 0xCD26BE2A)),
    (7, (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (0xAB302C4D, 0x3DC9D239)),
    (7, (0x243F6A88, 0x85A308D3, 0x13198A2E), (0xBEDBBE6B, 0xE4C770B3)),
    (10, (0, 0, 0), (0xFF1DAE59, 0x6CD10DF2)),
    (10, (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (0x2C3F628B, 0xAB4FD7AD)),
    (10, (0x243F6A88, 0x85A308D3, 0x13198A2E), (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize("rounds, counter, words", ANSWERS)
def test_known_answers(rounds: int, counter: tuple[int, int, int], words: tuple[int, int]) -> None:
    assert tuple(int(w) for w in philox2x32(*counter, rounds=rounds)) == words


def test_random24_is_the_top_of_the_first_word() -> None:
    assert int(random24(0, 0, 0)) == 0xFF1DAE
    signed = np.asarray(-1, np.int32)  # 32-bit words are held as int32
    assert int(random24(signed, signed, 0xFFFFFFFF)) == 0x2C3F62
