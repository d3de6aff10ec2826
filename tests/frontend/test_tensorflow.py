# SPDX-License-Identifier: Apache-2.0
"""Keras models, tf.functions and SavedModels: imported, fused, and right; skipped without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaf
from gaf.errors import InvalidInputError, UnsupportedError

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tf2onnx")


class Layer(tf.Module):
    """A linear layer with an exact GELU, whose Erfc tf2onnx can't write."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.w = tf.Variable(rng.standard_normal((8, 6)).astype(np.float32))
        self.b = tf.Variable(rng.standard_normal(6).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.gelu(x @ self.w + self.b, approximate=False)}


@pytest.fixture(scope="module")
def layer() -> Layer:
    return Layer()


@pytest.fixture(scope="module")
def keras_model() -> Any:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(8, 3, activation="relu", padding="same"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax", name="probabilities"),
        ]
    )


def right(model: gaf.Model, feeds: dict[str, np.ndarray], expected: Any) -> None:
    (got,) = gaf.fuse(model).run(feeds).values()
    np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-5, atol=1e-5)


X = np.linspace(-3, 3, 40, dtype=np.float32).reshape(5, 8)


def test_function_with_a_signature(layer: Layer) -> None:
    model = gaf.load_model(layer.__call__)
    assert model.input_names == ["x"] and model.output_names == ["y"]
    assert str(model.input_types[0]) == "f32[x_0, 8]"
    right(model, {"x": X}, layer(X)["y"])


def test_saved_model_folder_and_object(layer: Layer, tmp_path: Path) -> None:
    folder = str(tmp_path / "saved")
    tf.saved_model.save(layer, folder, signatures=layer.__call__.get_concrete_function())
    for source in (folder, tf.saved_model.load(folder)):
        right(gaf.load_model(source), {"x": X}, layer(X)["y"])
    with pytest.raises(InvalidInputError, match="no signature 'other'"):
        gaf.tensorflow_to_graph(folder, signature="other")


def test_keras_model_and_file(keras_model: Any, tmp_path: Path) -> None:
    keras_model.save(tmp_path / "m.keras")
    image = np.random.default_rng(1).standard_normal((2, 16, 16, 3)).astype(np.float32)
    for source in (keras_model, str(tmp_path / "m.keras")):
        model = gaf.load_model(source)
        assert str(model.input_types[0]) == "f32[batch, 16, 16, 3]" and model.output_names == ["probabilities"]
        right(model, {model.input_names[0]: image}, keras_model(image))


def test_plain_function_with_examples() -> None:
    @tf.function
    def add(a: Any, b: Any) -> Any:
        return tf.nn.relu(a) + b

    with pytest.raises(InvalidInputError, match="no input_signature"):
        gaf.load_model(add)
    model = gaf.load_model(add, example_inputs=[tf.TensorSpec([None, 8], tf.float32), X])
    right(model, dict(zip(model.input_names, (X, X))), np.maximum(X, 0) + X)


def test_what_onnx_lacks_is_named() -> None:
    @tf.function(input_signature=[tf.TensorSpec([4, 4], tf.float32)])
    def determinant(x: Any) -> Any:
        return tf.linalg.det(x) + tf.linalg.logdet(x @ tf.transpose(x))

    with pytest.raises(UnsupportedError):
        gaf.load_model(determinant)


def test_lambda_layers_of_files_do_not_run(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Lambda(lambda x: x * 2)])
    model.save(tmp_path / "m.keras")
    with pytest.raises(InvalidInputError, match="can't open"):
        gaf.load_model(str(tmp_path / "m.keras"))


def test_no_tensorflow_program(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no TensorFlow program"):
        gaf.load_model(tf.constant(1.0))
    (tmp_path / "m.keras").write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="can't open"):
        gaf.load_model(str(tmp_path / "m.keras"))
