# SPDX-License-Identifier: Apache-2.0
"""Import is linear in the number of nodes, and fast enough not to be noticed."""

from __future__ import annotations

import time

import pytest

from examples.onnx.transformers import with_nodes
from gaf.frontend.onnx import load_onnx


def seconds(count: int) -> float:
    """CPU seconds of one import, the better of two."""
    proto = with_nodes(count)
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        load_onnx(proto)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.slow
def test_ten_thousand_nodes() -> None:
    """About 1.6 s of CPU time; the bounds are generous because test machines are shared."""
    small, big = seconds(1000), seconds(10_000)
    assert big < 10
    assert big / small < 15
