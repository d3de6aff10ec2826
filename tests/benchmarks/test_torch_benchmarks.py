# SPDX-License-Identifier: Apache-2.0
"""The PyTorch benchmarks measure what they say: right results are found right, wrong ones wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from benchmarks import models, torch_ops  # noqa: E402


def test_a_wrong_result_is_found_wrong() -> None:
    x = torch.tensor([1.0, float("nan"), 3.0])
    same = x.numpy().copy()
    assert torch_ops.difference([same], [x], None, True) == ""
    assert "off by" in torch_ops.difference([same + 0.01], [x], [x.double()], True)
    assert "float64" in torch_ops.difference([same.astype(np.float64)], [x], None, True)
    assert torch_ops.difference([same + 0.01], [x], None, values=False) == ""
    assert models.compare([x], [x.double()]) == 0.0
    assert models.compare([x + 1], [x.double()]) > models.TOLERANCE
    assert models.compare([x.nan_to_num()], [x.double()]) == float("inf")


@pytest.mark.slow
def test_torch_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert torch_ops.main(["--only", "softmax", "where", "--samples", "2", "--jobs", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["wrong"] == figures["crashed"] == 0 and figures["right"] == figures["total"] > 4
    assert figures["through_kernels"] >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit"])
def test_tiny_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    row = models.measure_module(name, "auto")
    assert row["right"], row
    assert row["kernels"] and row["fallback_ops"] <= (1 if name == "vit" else 0)  # vit: a convolution
