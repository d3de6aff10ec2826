# SPDX-License-Identifier: Apache-2.0
"""Ops that ONNX defines by a function of the node: in kernels where gaf takes all of it, else on the host."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.onnx_nodes import cases, data_sets, difference, load_case
from gaf.compiler import fuse

NAMES = ("test_rotary_embedding_interleaved", "test_sce_mean_3d", "test_nllloss_NCd1d2_with_weight", "test_center_crop_pad_crop_axes_hwc")


@pytest.mark.parametrize("name", NAMES)
def test_function_of_the_node_runs_in_kernels(name: str) -> None:
    case: Any = next(c for c in cases() if c.name == name)
    model = load_case(case)
    assert not model.fallbacks
    fused = fuse(model)
    assert fused.kernels and not fused.fallbacks
    for inputs, expected in data_sets(case, model):
        got = list(fused.run(inputs, engine="interpreter").values())
        assert not difference(got, expected, 1e-4, 1e-5)


def test_a_function_with_a_scan_is_expanded_too() -> None:
    case: Any = next(c for c in cases() if c.name == "test_linear_attention_linear")
    assert not load_case(case).fallbacks
