# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the host twin's speed: its cases mean the same everywhere, its figures are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.host import TOLERANCE, error, figures_of
from benchmarks.host_cases import CASES, Case
from gaf.runtime.compiler import find_compiler

SMALL = {"NN": 5003, "RR": 67, "CC": 130}
NAMES = [c.name for c in CASES]


def _small(case: Case) -> tuple[dict[str, int], dict[str, np.ndarray], np.ndarray]:
    sizes = {k: SMALL[k] for k in case.sizes}
    arrays = case.arrays(sizes)
    return sizes, arrays, case.numpy({n: a.astype(np.float64) for n, a in arrays.items()})


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_generated_kernels_compute_the_case(case: Case) -> None:
    import gaf

    sizes, arrays, expected = _small(case)
    fused = gaf.fuse(gaf.load_model(case.model(sizes, arrays)))
    assert len(fused.fused_ops) == 1 and not fused.host_ops
    inputs = {n: a for n, a in arrays.items() if n not in case.weights}
    for _ in range(2):  # the second run finds tilings, memory and packed weights
        assert error(fused.run(inputs, engine="host")["y"], expected) <= TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_pytorch_computes_the_case(case: Case) -> None:
    torch = pytest.importorskip("torch")
    _, arrays, expected = _small(case)
    tensors = {n: torch.from_numpy(a) for n, a in arrays.items()}
    got = case.torch(tensors)(*(t for n, t in tensors.items() if n not in case.weights))
    assert error(got, expected) <= TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_numpy_in_float32_computes_the_case(case: Case) -> None:
    _, arrays, expected = _small(case)
    got = case.numpy(arrays)
    assert got.dtype == np.float32 and error(got, expected) <= TOLERANCE


def test_figures() -> None:
    def case(gaf: float, numpy: float, eager: float) -> dict[str, object]:
        return {"ms": {"gaf": gaf, "numpy": numpy, "eager": eager}, "errors": {"gaf": 1e-6, "numpy": 0.0, "eager": 0.0}}

    found = figures_of({1: {"a": case(2.0, 9.0, 4.0)}, 2: {"a": case(2.0, 1.0, 3.0)}})
    assert found["a_fp32_t1"]["best_peer"] == "eager" and found["a_fp32_t1"]["ratio"] == 2.0
    assert found["a_fp32_t2"]["best_peer"] == "numpy" and found["a_fp32_t2"]["best_peer_ms"] == 1.0
    assert found["ratio_geomean"] == pytest.approx(1.0) and found["ratio_least"] == 0.5
