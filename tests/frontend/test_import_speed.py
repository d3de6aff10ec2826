# SPDX-License-Identifier: Apache-2.0
"""The work of an import grows with the number of nodes, not faster."""

from __future__ import annotations

from examples.onnx.transformers import with_nodes
from gaf.frontend.onnx import load_onnx
from tests.work import count_calls


def test_work_is_linear_in_the_nodes() -> None:
    small, big = (count_calls(lambda: load_onnx(with_nodes(n))) for n in (300, 2400))
    assert big < 12 * small  # 8 times the nodes
