# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for tests, and the evaluators that gaf is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

F32, I64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
Shape = Sequence[int | str | None]


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> onnx.NodeProto:
    """A node; `name` and `domain` are given like attributes."""
    return helper.make_node(op_type, list(inputs), list(outputs), **attrs)


def value(name: str, shape: Shape | None, dtype: int = F32) -> onnx.ValueInfoProto:
    """An input or output; strings are symbolic dims, None is an unnamed one."""
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; outputs given by name have no declared type."""
    infos = [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "test", list(inputs), infos, tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def reference(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx.reference computes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, dict(inputs))]


def onnxruntime_results(model: onnx.ModelProto | str, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes with its optimisations switched off (they change results of legal graphs)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    data = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(array) for name, array in inputs.items()})


def random_inputs(model: onnx.ModelProto, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: floats around 0, masks of 0 and 1, other integers in 0..49."""
    random = np.random.default_rng(seed)
    result = {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if dtype.kind == "f":
            result[info.name] = random.standard_normal(shape).astype(dtype)
        else:
            result[info.name] = random.integers(0, 2 if "mask" in info.name else 50, shape).astype(dtype)
    return result


def assert_same(
    got: Sequence[np.ndarray], expected: Sequence[np.ndarray], rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Same number of arrays, dtypes, shapes and values up to rounding."""
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
