# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM: a matmul for all steps and a loop of kernels, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import gaf
from gaf.dialects.graph.ops.control import LoopOp
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.onnx import load_onnx
from gaf.frontend.onnx.recurrent import GATES
from tests.frontend.onnx_models import assert_same, node, onnx_model, onnxruntime_results, reference, value

BATCH, INPUT, HIDDEN = 3, 5, 6


def layer(
    op: str, steps: int | str, given: tuple[str, ...] = (), layout: int = 0, **attrs: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one layer, and inputs; `given` are optional inputs: B, sequence_lens, initial_h, initial_c, P."""
    rng = np.random.default_rng(len(op) + len(given))

    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.4).astype(np.float32)

    length = steps if isinstance(steps, int) else 7
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    gates = GATES[op] * HIDDEN
    weights = {"W": random(directions, gates, INPUT), "R": random(directions, gates, HIDDEN)}
    first, second = (BATCH, length) if layout else (length, BATCH)
    inputs = {"X": random(first, second, INPUT)}
    infos = [value("X", [BATCH, steps, INPUT] if layout else [steps, BATCH, INPUT])]
    names = ["X", "W", "R"]
    for name in ("B", "sequence_lens", "initial_h", "initial_c", "P"):
        if op != "LSTM" and name in ("initial_c", "P"):
            continue
        names.append(name if name in given else "")
        if name not in given:
            continue
        if name == "B":
            weights[name] = random(directions, 2 * gates)
        elif name == "P":
            weights[name] = random(directions, 3 * HIDDEN)
        elif name == "sequence_lens":
            inputs[name] = np.int32([length, 1, max(length - 2, 1)])
            infos.append(value(name, [BATCH], onnx.TensorProto.INT32))
        else:
            inputs[name] = random(*((BATCH, directions) if layout else (directions, BATCH)), HIDDEN)
            infos.append(value(name, list(inputs[name].shape)))
    while not names[-1]:
        names.pop()
    outputs = ["Y", "Y_h", "Y_c"] if op == "LSTM" else ["Y", "Y_h"]
    made = node(op, names, outputs, hidden_size=HIDDEN, layout=layout, name="layer", **attrs)
    return onnx_model([made], infos, outputs, weights), inputs


def check(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], expected: list[np.ndarray]) -> gaf.FusedModel:
    model = load_onnx(proto)
    assert not model.fallbacks
    assert_same(list(model.run(inputs).values()), expected, atol=1e-5)
    fused = gaf.fuse(model)
    assert not [op for op in fused.host_ops if op.result_tensor_types()[0].dtype.is_float]
    assert_same(list(fused.run(inputs, engine="tile").values()), expected, atol=1e-5)
    return fused


ALL = ("B", "sequence_lens", "initial_h", "initial_c", "P")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_directions_and_lengths(op: str, direction: str) -> None:
    proto, inputs = layer(op, "steps", ALL, direction=direction)
    expected = onnxruntime_results(proto, inputs)
    fused = check(proto, inputs, expected)
    assert sum(isinstance(o, LoopOp) for o in fused.model.block.ops) == (2 if direction == "bidirectional" else 1)


@pytest.mark.parametrize(
    ("op", "given", "attrs"),
    [
        ("RNN", (), {}),
        ("RNN", ("B",), {"activations": ["Relu"], "clip": 0.3}),
        ("RNN", ("B", "initial_h"), {"activations": ["Affine"], "activation_alpha": [0.4], "activation_beta": [0.1]}),
        ("GRU", ("B",), {"linear_before_reset": 1}),
        ("GRU", ("sequence_lens",), {"linear_before_reset": 1, "clip": 0.5}),
        ("GRU", ("B", "initial_h"), {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3]}),
        ("LSTM", ("B", "P"), {"input_forget": 1}),
        ("LSTM", ("initial_h",), {"clip": 0.2, "activations": ["Sigmoid", "Relu", "Tanh"]}),
        ("LSTM", ("B", "initial_c"), {"activations": ["HardSigmoid", "ScaledTanh", "LeakyRelu"],
                                      "activation_alpha": [0.25, 1.2, 0.05], "activation_beta": [0.45, 0.7]}),
    ],
)  # fmt: skip
def test_variants(op: str, given: tuple[str, ...], attrs: dict[str, Any]) -> None:
    proto, inputs = layer(op, 9, given, **attrs)
    check(proto, inputs, onnxruntime_results(proto, inputs))


@pytest.mark.parametrize("op", GATES)
def test_batch_first(op: str) -> None:
    proto, inputs = layer(op, 4, ("B", "initial_h"), layout=1)
    check(proto, inputs, reference(proto, inputs))  # onnxruntime has no layout 1


def test_one_step_needs_no_loop() -> None:
    proto, inputs = layer("LSTM", 1, ("B", "initial_h", "initial_c"))
    fused = check(proto, inputs, onnxruntime_results(proto, inputs))
    assert not any(isinstance(o, LoopOp) for o in fused.model.block.ops)


def test_the_body_of_a_long_layer_is_fused() -> None:
    proto, inputs = layer("LSTM", "steps", ("B",))
    fused = check(proto, inputs, onnxruntime_results(proto, inputs))
    assert fused.verify(inputs, engine="interpreter").ok
    (loop,) = [o for o in fused.model.block.ops if isinstance(o, LoopOp)]
    names = [o.name for o in loop.bodies[0].ops]
    assert names.count("graph.fused") <= 4 and not fused.host_ops


def test_wrong_attributes() -> None:
    proto, _ = layer("LSTM", 4, activations=["Sigmoid", "Tanh"])
    with pytest.raises(InvalidInputError, match="'layer' .LSTM.: attribute 'activations' has the wrong length; expected 3, got 2"):
        load_onnx(proto)
    proto, _ = layer("GRU", 4, activations=["Sigmoid", "Swish"])
    with pytest.raises(UnsupportedError, match="activation 'Swish' is not known"):
        load_onnx(proto)
    proto, _ = layer("RNN", 4, direction="sideways")
    with pytest.raises(InvalidInputError, match="unknown direction"):
        load_onnx(proto)
