# SPDX-License-Identifier: Apache-2.0
"""The cases of `benchmarks.host`: one ONNX model each, and the same function in numpy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model

HEADER = '<ir_version: 10, opset_import: ["" : 23]>'
EPSILON = 1e-5
"""Of every normalisation."""


@dataclass(frozen=True)
class Case:
    """One fused group in float32.

    `graph` is ONNX text; its dims can be replaced by smaller ones through `sizes`. `weights` are the names of
    inputs that are constants of the model. `numpy` computes the result from the arrays by name, in their
    precision; `torch` makes a module from the weights, whose arguments are the other inputs in order.
    """

    name: str
    title: str
    graph: str
    sizes: Mapping[str, int]
    weights: tuple[str, ...]
    numpy: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    torch: Callable[[Mapping[str, Any]], Callable[..., Any]]

    def model(self, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
        """The ONNX model for these sizes, with the weights among `arrays`."""
        text = self.graph
        for name, size in sizes.items():
            text = text.replace(name, str(size))
        proto = parse_model(f"{HEADER} {text}")
        kept = [i for i in proto.graph.input if i.name not in self.weights]
        del proto.graph.input[:]
        proto.graph.input.extend(kept)
        proto.graph.initializer.extend(numpy_helper.from_array(arrays[w], w) for w in self.weights)
        onnx.checker.check_model(proto)
        return proto

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
        """Random values of all inputs and weights, by name; matrices are scaled to keep rows of size 1."""
        text = self.graph
        for name, size in sizes.items():
            text = text.replace(name, str(size))
        rng = np.random.default_rng(seed)
        found: dict[str, np.ndarray] = {}
        for value in parse_model(f"{HEADER} {text}").graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            array = rng.standard_normal(shape, dtype=np.float32)
            matrix = value.name in self.weights and len(shape) == 2
            found[value.name] = array / np.float32(shape[0] ** 0.5) if matrix else array
        return found


def _norm(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + x.dtype.type(EPSILON))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _chain(v: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.maximum(v["a"] * v["b"] + v["c"], 0)


def _gelu(v: Mapping[str, np.ndarray]) -> np.ndarray:
    x = v["x"] + v["bias"]
    inner = x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return x.dtype.type(0.5) * x * (1 + np.tanh(inner)) * v["scale"]


def _layer_norm(v: Mapping[str, np.ndarray]) -> np.ndarray:
    return _norm(v["x"]) * v["g"] + v["b"]


def _softmax(v: Mapping[str, np.ndarray]) -> np.ndarray:
    x = v["x"] * v["x"].dtype.type(0.125) + v["mask"]
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _rms_silu(v: Mapping[str, np.ndarray]) -> np.ndarray:
    x, z = v["x"], v["z"]
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(EPSILON)) * v["g"]
    return normed * (z * _sigmoid(z))


def _gated_linear(v: Mapping[str, np.ndarray]) -> np.ndarray:
    n = _layer_norm(v)
    return (n * _sigmoid(n)) @ v["w"] + v["u"]


def _torch_chain(_: Mapping[str, Any]) -> Callable[..., Any]:
    import torch

    return lambda a, b, c: torch.relu(a * b + c)


def _torch_gelu(v: Mapping[str, Any]) -> Callable[..., Any]:
    from torch.nn.functional import gelu

    return lambda x: gelu(x + v["bias"], approximate="tanh") * v["scale"]


def _torch_layer_norm(v: Mapping[str, Any]) -> Callable[..., Any]:
    from torch.nn.functional import layer_norm

    return lambda x: layer_norm(x, x.shape[-1:], v["g"], v["b"], EPSILON)


def _torch_softmax(_: Mapping[str, Any]) -> Callable[..., Any]:
    import torch

    return lambda x, mask: torch.softmax(x * 0.125 + mask, -1)


def _torch_rms_silu(v: Mapping[str, Any]) -> Callable[..., Any]:
    from torch.nn.functional import rms_norm, silu

    return lambda x, z: rms_norm(x, x.shape[-1:], v["g"], EPSILON) * silu(z)


def _torch_gated_linear(v: Mapping[str, Any]) -> Callable[..., Any]:
    import torch
    from torch.nn.functional import layer_norm, linear

    turned = v["w"].T.contiguous()  # the layout of nn.Linear

    def run(x: torch.Tensor) -> torch.Tensor:
        n = layer_norm(x, x.shape[-1:], v["g"], v["b"], EPSILON)
        return linear(n * torch.sigmoid(n), turned, v["u"])

    return run


CASES = (
    Case(
        "a", "relu(a * b + c)",
        "chain (float[NN] a, float[NN] b, float[NN] c) => (float[NN] y)"
        " { p = Mul(a, b)  s = Add(p, c)  y = Relu(s) }",
        {"NN": 1 << 24}, (), _chain, _torch_chain,
    ),
    Case(
        "b", "gelu-tanh(x + bias) * scale",
        "gelu (float[RR, CC] x, float[CC] bias, float[CC] scale) => (float[RR, CC] y)"
        ' { s = Add(x, bias)  t = Gelu<approximate = "tanh">(s)  y = Mul(t, scale) }',
        {"RR": 4096, "CC": 3072}, ("bias", "scale"), _gelu, _torch_gelu,
    ),
    Case(
        "c", "LayerNorm",
        "norm (float[RR, CC] x, float[CC] g, float[CC] b) => (float[RR, CC] y)"
        " { y = LayerNormalization<axis = -1, epsilon = 1e-5>(x, g, b) }",
        {"RR": 8192, "CC": 768}, ("g", "b"), _layer_norm, _torch_layer_norm,
    ),
    Case(
        "d", "softmax(scale * x + mask)",
        "weights (float[RR, CC] x, float[RR, CC] mask) => (float[RR, CC] y)"
        " { c = Constant<value_float = 0.125>()  m = Mul(x, c)  s = Add(m, mask)  y = Softmax<axis = -1>(s) }",
        {"RR": 8192, "CC": 1024}, (), _softmax, _torch_softmax,
    ),
    Case(
        "e", "RMSNorm * SiLU",
        "gated (float[RR, CC] x, float[RR, CC] z, float[CC] g) => (float[RR, CC] y)"
        " { n = RMSNormalization<axis = -1, epsilon = 1e-5>(x, g)  s = Sigmoid(z)  t = Mul(z, s)  y = Mul(n, t) }",
        {"RR": 8192, "CC": 1024}, ("g",), _rms_silu, _torch_rms_silu,
    ),
    Case(
        "f", "LayerNorm -> gate -> Linear",
        "block (float[RR, CC] x, float[CC] g, float[CC] b, float[CC, CC] w, float[CC] u) => (float[RR, CC] y)"
        " { n = LayerNormalization<axis = -1, epsilon = 1e-5>(x, g, b)  s = Sigmoid(n)  t = Mul(n, s)"
        "   m = MatMul(t, w)  y = Add(m, u) }",
        {"RR": 8192, "CC": 768}, ("g", "b", "w", "u"), _gated_linear, _torch_gated_linear,
    ),
)  # fmt: skip
