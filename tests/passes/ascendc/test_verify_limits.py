# SPDX-License-Identifier: Apache-2.0
"""Limits that hold for any shape are checked once, before there is any C++."""

from __future__ import annotations

import pytest

from gaf.dialects.ascendc import KernelBuilder
from gaf.dialects.common import dtype as dt
from gaf.errors import UnsupportedError
from gaf.passes.ascendc.verify_limits import verify_limits
from tests.dialects.ascendc.kernels import CASES


@pytest.mark.parametrize("name", CASES)
def test_kernels_fit(name: str) -> None:
    verify_limits(CASES[name].build())


def kernel() -> KernelBuilder:
    return KernelBuilder("k", "aiv", [("x", dt.F32, "in", [8])])


def test_unified_buffer() -> None:
    kb = kernel()
    kb.init_queue("x", "vecin", 2, 90_000)
    kb.init_buf("pool", 8_128)
    verify_limits(kb.finish())
    kb = kernel()
    kb.init_queue("x", "vecin", 2, 90_000)
    kb.init_buf("pool", 8_129)
    with pytest.raises(UnsupportedError) as caught:
        verify_limits(kb.finish())
    assert str(caught.value).startswith(
        "kernel 'k': the buffers don't fit UB; expected at most 188160 bytes, got 188192: x 180032, pool 8160"
    )


def test_cube_memory() -> None:
    kb = KernelBuilder("k", "aic", [("x", dt.F16, "in", [8])])
    kb.init_mmad("first", dt.F16, m=128, n=256)
    verify_limits(kb.finish())
    kb = KernelBuilder("k", "aic", [("x", dt.F16, "in", [8])])
    kb.init_mmad("first", dt.F16, m=128, n=256)
    kb.init_mmad("second", dt.F16, m=128, n=256)
    with pytest.raises(UnsupportedError, match="the buffers don't fit L1|the buffers don't fit L0C"):
        verify_limits(kb.finish())


def test_events_of_a_position() -> None:
    kb = kernel()
    for i in range(5):
        kb.init_queue(f"x{i}", "vecin", 2, 32)
    with pytest.raises(UnsupportedError, match="vecin queues hold too many buffers; expected at most 8"):
        verify_limits(kb.finish())


def test_number_of_buffers() -> None:
    kb = kernel()
    for i in range(61):
        kb.init_buf(f"b{i}", 32)
    with pytest.raises(UnsupportedError, match="too many buffers; expected at most 60, got 61"):
        verify_limits(kb.finish())
