# SPDX-License-Identifier: Apache-2.0
"""The unrolled LSTM of the benchmark is an LSTM whose steps share kernels, whether they read one input or several."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gaf
from benchmarks import import_lstm
from gaf.frontend.onnx import load_onnx
from tests.frontend.onnx_models import random_inputs, reference


@pytest.mark.parametrize("each", [False, True])
def test_values(each: bool) -> None:
    model = import_lstm.unrolled_lstm(48, each, size=8)
    inputs = random_inputs(model, {})
    got = gaf.fuse(load_onnx(model)).run(inputs, engine="interpreter")
    for a, b in zip(got.values(), reference(model, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", ["one", "each"])
def test_figures(inputs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_lstm.main(["--nodes", "152", "--inputs", inputs, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["fallbacks"] == 0 and figures["s"] >= figures["fuse_s"] > 0
    assert figures["kernels"] < figures["launches"]
