# SPDX-License-Identifier: Apache-2.0
"""`tensorflow_to_graph`: Keras models, `tf.function`s and SavedModels, by way of tf2onnx."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tf2onnx

from gaf.dialects.graph.model import Model
from gaf.errors import InvalidInputError, UnsupportedError, first_line
from gaf.frontend.onnx import load_onnx
from gaf.frontend.tensorflow.repair import repair

if TYPE_CHECKING:
    from gaf.frontend.onnx.shapes import InputShapes

OPSET = 17
"""The newest that tf2onnx 1.17 is tested with here; it has LayerNormalization."""

DEFAULT_SIGNATURE = "serving_default"


def tensorflow_to_graph(
    source: Any, example_inputs: Any = None, input_shapes: InputShapes | None = None, signature: str | None = None
) -> Model:
    """The graph of a TensorFlow program.

    `source` is a Keras model, a `tf.function` or concrete function, a loaded SavedModel, the folder of a
    SavedModel, or a `.keras` or `.h5` file. A `tf.function` without `input_signature` needs `example_inputs`:
    arrays, tensors or `tf.TensorSpec`s, in the order of its arguments. `signature` picks one of a
    SavedModel (`serving_default` if it has that). `input_shapes` gives dims of inputs as for ONNX files.
    Files are read without running code that they carry (Keras' safe mode).

    Raises InvalidInputError for what is none of these, UnsupportedError with every operator that has no form
    in ONNX.
    """
    where = str(source) if isinstance(source, str | os.PathLike) else _name(source)
    opened = _open(Path(source)) if isinstance(source, str | os.PathLike) else source  # alive as long as its functions
    program, specs, keras = _program(opened, example_inputs, signature, where)
    log = StringIO()
    try:
        with _quiet(log):
            proto, _ = tf2onnx.convert.from_function(program, specs, opset=OPSET)
    except Exception as error:  # tf2onnx and TensorFlow raise anything
        raise UnsupportedError(
            f"tf2onnx can't convert this: {type(error).__name__}: {_last_line(error)}",
            where=where,
            hint="export the model to ONNX yourself and load the .onnx file",
        ) from error
    proto.graph.name = _name(source)
    repair(proto, where, shared_batch=keras)
    model = load_onnx(proto, input_shapes)
    model.source = where
    return model


Program = tuple[Any, list[Any], bool]
"""A `tf.function`, the `tf.TensorSpec`s of its arguments, and whether it is a Keras model."""


def _program(source: Any, example_inputs: Any, signature: str | None, where: str) -> Program:
    if isinstance(source, tf.keras.Model):
        return _keras(source, example_inputs, where)
    signatures = getattr(source, "signatures", None)
    if isinstance(signatures, Mapping):
        return _from_signature(signatures, signature, where)
    if hasattr(source, "structured_input_signature"):
        return _concrete(source)
    if hasattr(source, "get_concrete_function"):
        specs = _specs(source, example_inputs, where)
        return source, specs, False
    raise InvalidInputError(
        "this is no TensorFlow program",
        where=where,
        expected="a Keras model, tf.function, SavedModel, .keras or .h5 file",
        got=type(source).__name__,
        hint="wrap a plain function with tf.function",
    )


def _open(path: Path) -> Any:
    try:
        if path.is_dir():
            return tf.saved_model.load(str(path))
        return tf.keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        raise InvalidInputError(
            f"TensorFlow can't open this: {first_line(error)}",
            where=str(path),
            expected="the folder of a SavedModel, a .keras or .h5 file",
        ) from error


def _keras(model: Any, example_inputs: Any, where: str) -> Program:
    if not model.built or not model.inputs:
        if example_inputs is None:
            raise InvalidInputError(
                "the Keras model doesn't know its inputs yet",
                where=where,
                hint="call it once, start it with keras.layers.Input, or give example_inputs",
            )
        specs = [_spec(x, i) for i, x in enumerate(_listed(example_inputs))]
        model(*[tf.zeros([d or 1 for d in s.shape], s.dtype) for s in specs])
    else:
        specs = [tf.TensorSpec(i.shape, i.dtype, name=i.name) for i in model.inputs]
    names = list(dict.fromkeys(getattr(model, "output_names", None) or [layer.name for layer in model.layers[-1:]]))

    def call(*arrays: Any) -> Any:
        results = model(list(arrays) if len(arrays) > 1 else arrays[0], training=False)
        if isinstance(results, Mapping):
            return dict(results)
        flat = tf.nest.flatten(results)
        # names of layers; distinct, or else the numbers that tf2onnx gives
        return dict(zip(names, flat)) if len(names) == len(flat) else results

    return tf.function(call, input_signature=specs), specs, True


def _from_signature(signatures: Mapping[str, Any], wanted: str | None, where: str) -> Program:
    names = list(signatures)
    name = wanted or (DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else names[0] if len(names) == 1 else None)
    if name not in names:
        raise InvalidInputError(
            f"the SavedModel has no signature '{name}'" if name else "the SavedModel has several signatures",
            where=where,
            expected=" or ".join(names) or "a model saved with signatures",
            hint="give signature=NAME" if names else "tf.saved_model.save(model, path, signatures=...)",
        )
    return _concrete(signatures[name])


def _concrete(function: Any) -> Program:
    positional, named = function.structured_input_signature
    specs = [s for s in (*tf.nest.flatten(positional), *named.values()) if isinstance(s, tf.TensorSpec)]
    keys = list(named)

    def call(*arrays: Any) -> Any:
        first = len(arrays) - len(keys)
        return function(*arrays[:first], **dict(zip(keys, arrays[first:])))

    specs = [tf.TensorSpec(s.shape, s.dtype, name=s.name or f"x{i}") for i, s in enumerate(specs)]
    return tf.function(call, input_signature=specs), specs, False


def _specs(function: Any, example_inputs: Any, where: str) -> list[Any]:
    declared = function.input_signature
    if declared is not None:
        return [tf.TensorSpec(s.shape, s.dtype, name=s.name or f"x{i}") for i, s in enumerate(tf.nest.flatten(declared))]
    if example_inputs is None:
        raise InvalidInputError(
            "the tf.function has no input_signature",
            where=where,
            hint="declare one, or give example_inputs=[array or tf.TensorSpec, ...]",
        )
    names = list(function.function_spec.arg_names) if hasattr(function, "function_spec") else []
    return [_spec(x, i, names) for i, x in enumerate(_listed(example_inputs))]


def _spec(example: Any, number: int, names: Sequence[str] = ()) -> Any:
    """A spec as it is; of an array or tensor its shape and dtype."""
    name = names[number] if number < len(names) else f"x{number}"
    if isinstance(example, tf.TensorSpec):
        return tf.TensorSpec(example.shape, example.dtype, name=example.name or name)
    tensor = tf.convert_to_tensor(example)
    return tf.TensorSpec(tensor.shape, tensor.dtype, name=name)


def _listed(example_inputs: Any) -> list[Any]:
    return list(example_inputs) if isinstance(example_inputs, tuple | list) else [example_inputs]


def _name(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).stem
    return str(getattr(source, "name", None) or getattr(source, "__name__", None) or type(source).__name__)


def _last_line(error: BaseException) -> str:
    """What an error in traced code says, behind the places it came through."""
    return (str(error).strip() or "no message").splitlines()[-1].strip()


@contextmanager
def _quiet(log: StringIO) -> Iterator[None]:
    """tf2onnx reports what it can't convert on its logger; the converted model is judged instead."""
    logger = logging.getLogger("tf2onnx")
    level, disabled = logger.level, logging.root.manager.disable
    logger.setLevel(logging.CRITICAL)
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(log):
            yield
    finally:
        logger.setLevel(level)
        logging.disable(disabled)
