# SPDX-License-Identifier: Apache-2.0
"""HF32: matmuls whose f32 operands are rounded to 11 bits of mantissa, the same on the interpreter and the twin."""

from __future__ import annotations

import numpy as np
import pytest

import gaf
from gaf.dialects.ascendc.cube import round_hf32
from gaf.errors import InvalidInputError
from gaf.frontend.language.program import program_from_text
from gaf.runtime.compiler import find_compiler

TEXT = "model m(x: f32[n, 96], w: f32[96, 80], b: f32[80]) { sigmoid(matmul(x, w) + b) }"
HF32 = gaf.FusionConfig(matmul_precision="hf32")


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 96)).astype(np.float32)
    return {"x": x, "w": rng.standard_normal((96, 80)).astype(np.float32), "b": np.zeros(80, np.float32)}


def test_rounding() -> None:
    one = np.float32(1)
    ulp = np.float32(2.0**-11)
    x = np.array([1, 1 + ulp / 2, 1 + ulp * 0.51, -1 - ulp * 0.51, 1 + ulp * 1.5, np.inf, -np.inf, np.nan, 0], np.float32)
    expected = np.array([1, 1, 1 + ulp, -1 - ulp, 1 + ulp, np.inf, -np.inf, np.nan, 0], np.float32)
    assert np.array_equal(round_hf32(x), expected, equal_nan=True)
    assert round_hf32(np.array([2 * one - ulp / 8], np.float32)) == 2  # the carry runs into the exponent


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_twin_and_interpreter_round_alike() -> None:
    feeds = inputs()
    model = program_from_text(TEXT).model()
    reduced, full = gaf.fuse(model, HF32), gaf.fuse(model)
    rounded = {**feeds, "x": round_hf32(feeds["x"]), "w": round_hf32(feeds["w"])}
    expected = full.run(rounded, "interpreter")["y"]
    for engine in ("interpreter", "check"):
        got = reduced.run(feeds, engine)["y"]
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)
        assert np.abs(got - full.run(feeds, engine)["y"]).max() > 1e-5
    assert reduced.verify(feeds, "check").ok


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_products_take_half_the_time_on_the_cube() -> None:
    model = program_from_text("model m(x: f32[512, 512], w: f32[512, 512]) { matmul(x, w) }").model()
    busy = []
    for config in (HF32, gaf.FusionConfig()):
        times: list[float] = []
        fused = gaf.fuse(model, config)
        rng = np.random.default_rng(0)
        feeds = {n: rng.standard_normal((512, 512)).astype(np.float32) for n in ("x", "w")}
        fused.run(feeds, "trace", lambda launch, times=times: times.append(launch.timeline.busiest("M")))
        busy.append(sum(times))
    assert busy[0] < 0.7 * busy[1]


def test_what_has_no_kernel_form_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="fp16"):
        gaf.FusionConfig(matmul_precision="fp16")
