# SPDX-License-Identifier: Apache-2.0
"""The public models get inputs and weights that tell right from wrong."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.public_models import ONNX_MODELS, expected_outputs, load, random_inputs


def test_light_models_get_weights_and_varied_results() -> None:
    pytest.importorskip("onnxruntime")
    public = ONNX_MODELS["squeezenet"]
    path = public.path()
    assert path is not None
    proto = load(public, path)
    assert not [n for n in proto.graph.node if n.op_type == "ConstantOfShape"]
    inputs = random_inputs(proto, public.shapes)
    assert {n: a.shape for n, a in inputs.items()} == {"data_0": (1, 3, 224, 224)}
    (scores,) = expected_outputs(proto, inputs)
    assert np.isfinite(scores).all() and scores.std() > 0.1 * scores.mean()


def test_inputs_follow_their_names() -> None:
    value = onnx.helper.make_tensor_value_info
    inputs = [value(n, onnx.TensorProto.INT64, ["B", "S"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
    graph = onnx.helper.make_graph([], "g", [*inputs, value("x", onnx.TensorProto.FLOAT, [2, 3])], [])
    made = random_inputs(onnx.helper.make_model(graph), dict.fromkeys((i.name for i in inputs), (2, 8)))
    assert made["input_ids"].min() > 0 and made["attention_mask"].sum() == 13 and not made["token_type_ids"].any()
    assert made["x"].shape == (2, 3) and made["x"].dtype == np.float32
