# SPDX-License-Identifier: Apache-2.0
"""A small writer of ONNX graphs: one call a node, automatic names, random but repeatable weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Writer:
    """Collects nodes and weights; `scope` is the prefix of all names, as exporters write them."""

    _check = True

    def __init__(self, name: str, seed: int = 0, opset: int = OPSET) -> None:
        self.name = name
        self.opset = opset
        self.scope = ""
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._scalars: dict[tuple[Any, ...], str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._counts: dict[str, int] = {}

    def input(self, name: str, shape: Sequence[int | str], dtype: type = np.float32) -> str:
        """A model input; string dims are symbolic."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def op(self, op_type: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        """A node; returns its output name, or a list of names if there are several."""
        name = self._unique(op_type)
        names = [f"{name}_output_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(op_type, list(inputs), names, name=name, domain=domain, **attrs))
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: type = np.float32) -> str:
        """A small constant; equal ones are shared."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._scalars:
            name = f"const_{len(self._scalars)}"
            self._weights.append(numpy_helper.from_array(array, name))
            self._scalars[key] = name
        return self._scalars[key]

    def ints(self, *values: int) -> str:
        """A constant int64 vector."""
        return self.const(list(values), np.int64)

    def weight(self, name: str, shape: Sequence[int], scale: float | None = None) -> str:
        """A random float32 weight; by default scaled to keep the size of activations through a matmul."""
        scale = shape[0] ** -0.5 if scale is None else scale
        return self.array(name, self._random.standard_normal(shape, np.float32) * np.float32(scale))

    def array(self, name: str, array: np.ndarray) -> str:
        """A weight with given values."""
        full = self.scope + name
        self._weights.append(numpy_helper.from_array(array, full))
        return full

    def gain(self, name: str, size: int) -> str:
        """A random float32 vector around 1."""
        return self.array(name, 1 + np.float32(0.1) * self._random.standard_normal(size, np.float32))

    def model(self, outputs: Sequence[tuple[str, str, Sequence[int | str]]]) -> onnx.ModelProto:
        """The checked model; `outputs` are (name, value, shape), all float32."""
        for name, value, _ in outputs:
            self._nodes.append(helper.make_node("Identity", [value], [name], name=f"output/{name}"))
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, _, s in outputs]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, infos, self._weights)
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in self._nodes} - {""})]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="gaf examples", ir_version=8)
        if opsets[1:] == [] and self._check:
            onnx.checker.check_model(model)
        return model

    def _unique(self, op_type: str) -> str:
        stem = f"{self.scope}{op_type}"
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return f"{stem}_{count}" if count else stem


class SparseWriter(Writer):
    """A Writer whose large weights are holes of one sparse file: real sizes without the memory.

    Every weight starts with its number, so no two are equal; the rest is zero. `save` writes the model and its
    weights beside each other.
    """

    def __init__(self, name: str, seed: int = 0, opset: int = OPSET) -> None:
        super().__init__(name, seed, opset)
        self._holes: list[tuple[int, int]] = []
        self._end = 0

    def weight(self, name: str, shape: Sequence[int], scale: float | None = None) -> str:
        full = self.scope + name
        size = int(np.prod(shape)) * 4
        tensor = TensorProto(name=full, data_type=TensorProto.FLOAT, dims=list(shape))
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", f"{self.name}.weights"), ("offset", self._end), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self._weights.append(tensor)
        self._holes.append((self._end, size))
        self._end += -(-size // 4096) * 4096
        return full

    def gain(self, name: str, size: int) -> str:
        return self.weight(name, [size])

    def model(self, outputs: Sequence[tuple[str, str, Sequence[int | str]]]) -> onnx.ModelProto:
        self._check = False
        return super().model(outputs)

    def save(self, model: onnx.ModelProto, folder: Path) -> Path:
        """Write `<name>.onnx` and its weights; returns the path of the model."""
        with open(folder / f"{self.name}.weights", "wb") as file:
            for number, (offset, _) in enumerate(self._holes, 1):
                file.seek(offset)
                file.write(np.float32(number).tobytes())
            file.truncate(max(self._end, 1))
        path = folder / f"{self.name}.onnx"
        onnx.save(model, path)
        return path
