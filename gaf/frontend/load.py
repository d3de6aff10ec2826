# SPDX-License-Identifier: Apache-2.0
"""`load_model`: opens whatever a user calls a model, and says what to do with what can't be opened yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaf.dialects.graph.model import Model
from gaf.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from gaf.frontend.onnx.shapes import InputShapes

_KINDS = (
    ".onnx file, onnx.ModelProto, PyTorch module with example inputs, trace or exported program, Keras model, "
    "tf.function, SavedModel folder, .keras file, .gaf file, .mlir file"
)

_TORCH_FILES = (".pt", ".pth", ".pt2")
_KERAS_FILES = (".keras", ".h5")

# File name ending -> what it is, what to do
_OTHER_FILES = {
    ".pkl": ("Python pickle", "gaf never loads pickles; export the model to ONNX"),
    ".pb": ("TensorFlow graph", "convert it with tf2onnx and load the .onnx file"),
    ".tflite": ("TensorFlow Lite model", "convert it with tf2onnx and load the .onnx file"),
    ".safetensors": ("file of weights without a graph", "export the model that uses them to ONNX"),
}


def load_model(
    source: Any,
    input_shapes: InputShapes | None = None,
    *,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> Model:
    """Open a model: path of an `.onnx`, `.gaf` (or `file.gaf:model`), `.pt2`, `.pt` or `.mlir` file, an
    onnx.ModelProto, a PyTorch module, trace or exported program, a Keras model, `tf.function` or SavedModel (also
    its folder, and `.keras` or `.h5` files), or a Model (returned as it is).

    `input_shapes` fixes dims of ONNX inputs, e.g. `{"x": (1, "S", 768)}`: numbers, names, None for the model's.
    PyTorch modules need `example_inputs`; `dynamic_shapes` says which of their dims vary, as for
    torch.export.export (see `gaf.torch_to_graph`). A `tf.function` without a signature takes `example_inputs` too.
    Raises InvalidInputError or UnsupportedError with what to do instead.
    """
    if isinstance(source, Model):
        if input_shapes:
            raise InvalidInputError(
                "input shapes can be given only when a file is opened", where=source.source
            )
        return source
    suffix = Path(source).suffix.lower() if isinstance(source, str | os.PathLike) else ""
    if suffix in _TORCH_FILES or _is_torch(source):
        if input_shapes:
            raise InvalidInputError(
                "input shapes are for ONNX files",
                where=str(source) if suffix else type(source).__name__,
                hint="PyTorch programs take example_inputs=(x,), and dynamic_shapes for dims that vary",
            )
        from gaf.frontend.torch import torch_to_graph

        return torch_to_graph(source, example_inputs, dynamic_shapes=dynamic_shapes)
    if suffix in _KERAS_FILES or _is_saved_model(source) or _is_tensorflow(source):
        from gaf.frontend.tensorflow import tensorflow_to_graph

        return tensorflow_to_graph(source, example_inputs, input_shapes)
    if example_inputs is not None or dynamic_shapes is not None:
        raise InvalidInputError(
            "example inputs and dynamic shapes are for PyTorch programs",
            expected=_KINDS,
            got=type(source).__name__,
            hint="ONNX files take input_shapes={'x': (1, 'S', 768)}",
        )
    if isinstance(source, str | os.PathLike):
        return _load_file(Path(source), input_shapes)
    module = type(source).__module__.partition(".")[0]
    if type(source).__name__ == "ModelProto":
        from gaf.frontend.onnx import load_onnx

        return load_onnx(source, input_shapes)
    if isinstance(source, bytes):
        raise InvalidInputError(
            "bytes are not a model", expected=_KINDS, hint="parse them first: onnx.load_from_string(data)"
        )
    if module in ("jax", "flax"):
        name = {"jax": "JAX", "flax": "Flax"}[module]
        raise UnsupportedError(
            f"{name} import is not there yet",
            expected=_KINDS,
            got=type(source).__name__,
            hint="export the model to ONNX and load the file",
        )
    raise InvalidInputError("this is not a model", expected=_KINDS, got=type(source).__name__)


load_graph = load_model


def _is_torch(source: Any) -> bool:
    """True for what `torch_to_graph` takes; without importing torch."""
    bases = {f"{c.__module__}.{c.__qualname__}" for c in type(source).__mro__}
    known = {
        "torch.nn.modules.module.Module",
        "torch.export.exported_program.ExportedProgram",
        "torch.jit.torch.jit.ScriptFunction",
        "torch.jit.ScriptFunction",
        "torch._C.ScriptFunction",
    }
    return bool(bases & known)


def _is_tensorflow(source: Any) -> bool:
    """True for what `tensorflow_to_graph` takes, subclasses of Keras models too; without importing TensorFlow."""
    return any(c.__module__.partition(".")[0] in ("tensorflow", "keras", "tf_keras") for c in type(source).__mro__)


def _is_saved_model(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and (Path(source) / "saved_model.pb").is_file()


def _load_file(path: Path, input_shapes: InputShapes | None) -> Model:
    suffix = path.suffix.lower()
    if suffix in _OTHER_FILES:
        what, hint = _OTHER_FILES[suffix]
        raise UnsupportedError(f"a {what} can't be opened", where=str(path), expected=_KINDS, hint=hint)
    if path.is_dir():
        raise InvalidInputError("this is a folder", where=str(path), expected=_KINDS)
    if suffix == ".mlir":
        return _load_mlir(path, input_shapes)
    name, _, model = path.name.rpartition(":")
    if suffix == ".gaf" or name.lower().endswith(".gaf"):
        from gaf.frontend.language import load_gaf

        if suffix == ".gaf":
            return load_gaf(path, input_shapes=input_shapes)
        return load_gaf(path.with_name(name), model, input_shapes)
    from gaf.frontend.onnx import load_onnx

    return load_onnx(path, input_shapes)


def _load_mlir(path: Path, input_shapes: InputShapes | None) -> Model:
    """Graph-level IR. Weights come from the `.npz` file of the same name, if there is one."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    from gaf.dialects.graph import Graph
    from gaf.dialects.graph.model import WeightStore

    if input_shapes:
        raise InvalidInputError("input shapes can be given only for .onnx files", where=str(path))
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidInputError(f"can't read the file: {reason}", where=str(path)) from None
    context = Context()
    for dialect in (Builtin, Func, Graph):
        context.load_dialect(dialect)
    try:
        module = Parser(context, text, str(path)).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        span = getattr(error, "span", None)
        place = span.get_location() if span is not None else None
        where = f"{path}:{place.line}:{place.col}" if place else str(path)
        what = getattr(error, "msg", str(error)).strip().splitlines()[0]
        raise InvalidInputError(what, where=where, expected="a module of the graph level") from None
    model = Model(
        module, _npz_weights(path.with_suffix(".npz"), WeightStore), name=path.stem, source=str(path)
    )
    _ = model.func  # raises for a module without a function
    return model


def _npz_weights(path: Path, store: Any) -> Any:
    import ml_dtypes
    import numpy as np

    if not path.exists():
        return store()
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"can't read the weights: {error}", where=str(path)) from None
    # .npz has no bfloat16: numpy writes it as two raw bytes
    return store({n: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for n, a in weights.items()})
