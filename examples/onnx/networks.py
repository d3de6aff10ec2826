# SPDX-License-Identifier: Apache-2.0
"""Networks beside the transformers as ONNX graphs: LayerNorm-gate-linear, a Llama block with GQA, ResNet-50,
a DLRM.

python -m examples.onnx.networks resnet50 out/resnet50.onnx
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import onnx

from examples.onnx.transformers import NewWriter, Size, layer_norm, linear, rms_norm
from examples.onnx.writer import Writer


def ln_gate_linear(hidden: int = 48, writer: NewWriter = Writer) -> onnx.ModelProto:
    """y = Linear(n * sigmoid(n)), n = LayerNorm(x): f32[B, S, hidden] -> the same shape."""
    w = writer("ln_gate_linear")
    x = w.input("x", ["batch", "sequence", hidden])
    n = layer_norm(w, x, "norm", Size(hidden=hidden))
    y = linear(w, w.op("Mul", n, w.op("Sigmoid", n)), "proj", hidden, hidden)
    return w.model([("y", y, ["batch", "sequence", hidden])])


def llama_block(
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    inner: int = 96,
    sequence: int = 24,
    writer: NewWriter = Writer,
) -> onnx.ModelProto:
    """One decoder layer with grouped-query attention: x f32[1, S, hidden], cos and sin f32[S, head] -> f32[1,
    S, hidden].
    """
    w = writer("llama_block")
    size, head = Size(hidden=hidden, heads=heads), hidden // heads
    x = w.input("x", [1, sequence, hidden])
    cos, sin = w.input("cos", [sequence, head]), w.input("sin", [sequence, head])
    steps = w.array("positions", np.arange(sequence, dtype=np.float32))
    allowed = w.op("GreaterOrEqual", w.op("Unsqueeze", steps, w.ints(1)), w.op("Unsqueeze", steps, w.ints(0)))

    def split(y: str, count: int) -> str:
        return w.op("Transpose", w.op("Reshape", y, w.ints(1, sequence, count, head)), perm=[0, 2, 1, 3])

    def rotate(y: str) -> str:
        half = head // 2
        first = w.op("Slice", y, w.ints(0), w.ints(half), w.ints(3))
        second = w.op("Slice", y, w.ints(half), w.ints(head), w.ints(3))
        turned = w.op("Concat", w.op("Neg", second), first, axis=-1)
        return w.op("Add", w.op("Mul", y, cos), w.op("Mul", turned, sin))

    def repeat(y: str) -> str:
        groups = heads // kv_heads
        wide = w.op("Expand", w.op("Unsqueeze", y, w.ints(2)), w.ints(1, kv_heads, groups, sequence, head))
        return w.op("Reshape", wide, w.ints(1, heads, sequence, head))

    w.scope = "self_attn/"
    h = rms_norm(w, x, "input_layernorm", size)
    q = rotate(split(linear(w, h, "q", hidden, hidden, bias=False), heads))
    k = repeat(rotate(split(linear(w, h, "k", hidden, kv_heads * head, bias=False), kv_heads)))
    v = repeat(split(linear(w, h, "v", hidden, kv_heads * head, bias=False), kv_heads))
    scores = w.op("Mul", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2])), w.const(head**-0.5))
    scores = w.op("Where", allowed, scores, w.const(np.finfo(np.float32).min))
    y = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = linear(w, w.op("Reshape", y, w.ints(1, sequence, hidden)), "o", hidden, hidden, bias=False)
    x = w.op("Add", x, y)
    w.scope = "mlp/"
    h = rms_norm(w, x, "post_attention_layernorm", size)
    gate = linear(w, h, "gate", hidden, inner, bias=False)
    up = linear(w, h, "up", hidden, inner, bias=False)
    y = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
    x = w.op("Add", x, linear(w, y, "down", inner, hidden, bias=False))
    return w.model([("y", x, [1, sequence, hidden])])


def resnet50(
    image: int = 32,
    width: int = 8,
    blocks: Sequence[int] = (3, 4, 6, 3),
    classes: int = 10,
    writer: NewWriter = Writer,
) -> onnx.ModelProto:
    """Bottleneck ResNet with BatchNormalization nodes: pixels f32[B, 3, image, image] -> logits f32[B,
    classes].
    """
    w = writer("resnet50")
    x = w.input("pixels", ["batch", 3, image, image])

    def conv(y: str, name: str, inputs: int, outputs: int, kernel: int, stride: int, relu: bool) -> str:
        weight = w.weight(
            f"{name}.weight", [outputs, inputs, kernel, kernel], (inputs * kernel * kernel) ** -0.5
        )
        y = w.op("Conv", y, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        gain, bias = w.gain(f"{name}.bn.weight", outputs), w.weight(f"{name}.bn.bias", [outputs], 0.1)
        mean, variance = w.weight(f"{name}.bn.mean", [outputs], 0.1), w.gain(f"{name}.bn.var", outputs)
        y = w.op("BatchNormalization", y, gain, bias, mean, variance, epsilon=1e-5)
        return w.op("Relu", y) if relu else y

    x = conv(x, "stem", 3, width, 7, 2, True)
    x = w.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for i in range(count):
            w.scope = f"layer{stage + 1}.{i}/"
            stride = 2 if stage and i == 0 else 1
            y = conv(x, "conv1", channels, inner, 1, 1, True)
            y = conv(y, "conv2", inner, inner, 3, stride, True)
            y = conv(y, "conv3", inner, 4 * inner, 1, 1, False)
            if i == 0:
                x = conv(x, "downsample", channels, 4 * inner, 1, stride, False)
            x = w.op("Relu", w.op("Add", y, x))
            channels = 4 * inner
    w.scope = ""
    x = w.op("Flatten", w.op("GlobalAveragePool", x), axis=1)
    logits = w.op(
        "Gemm",
        x,
        w.weight("fc.weight", [classes, channels], 0.1),
        w.weight("fc.bias", [classes], 0.1),
        transB=1,
    )
    return w.model([("logits", logits, ["batch", classes])])


def dlrm(
    batch: int = 16, tables: int = 6, rows: int = 50, width: int = 16, bag: int = 4, dense: int = 13,
    bottom: Sequence[int] = (32, 16), top: Sequence[int] = (32, 16, 1), writer: NewWriter = Writer,
) -> onnx.ModelProto:  # fmt: skip
    """Recommender: dense f32[batch, dense], ids i64[tables, batch, bag] -> click probability f32[batch, 1].

    Bags of embeddings are summed, all pairs of features multiplied, and the lower triangle of the products
    goes on.
    """
    w = writer("dlrm")
    x = w.input("dense", [batch, dense])
    ids = [w.input(f"ids_{i}", [batch, bag], np.int64) for i in range(tables)]
    w.scope = "bottom/"
    for i, (a, b) in enumerate(zip((dense, *bottom), (*bottom, width)[: len(bottom)])):
        x = w.op("Relu", linear(w, x, f"{i}", a, b))
    w.scope = "embeddings/"
    features = [x]
    for i, one in enumerate(ids):
        rows_of = w.op("Gather", w.weight(f"table_{i}", [rows, width], 0.3), one)
        features.append(w.op("ReduceSum", rows_of, w.ints(1), keepdims=0))
    w.scope = "interaction/"
    stacked = w.op("Concat", *[w.op("Unsqueeze", f, w.ints(1)) for f in features], axis=1)
    count = tables + 1
    pairs = w.op("MatMul", stacked, w.op("Transpose", stacked, perm=[0, 2, 1]))
    lower = [i * count + j for i in range(count) for j in range(i)]
    flat = w.op(
        "Gather",
        w.op("Reshape", pairs, w.ints(batch, count * count)),
        w.array("lower", np.asarray(lower, np.int64)),
        axis=1,
    )
    x = w.op("Concat", x, flat, axis=1)
    w.scope = "top/"
    for i, (a, b) in enumerate(zip((width + len(lower), *top), top)):
        x = linear(w, x, f"{i}", a, b)
        x = w.op("Relu", x) if i + 1 < len(top) else w.op("Sigmoid", x)
    return w.model([("probability", x, [batch, top[-1]])])


NETWORKS = {"ln_gate_linear": ln_gate_linear, "llama_block": llama_block, "resnet50": resnet50, "dlrm": dlrm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("path")
    args = parser.parse_args()
    onnx.save(NETWORKS[args.network](), args.path)


if __name__ == "__main__":
    main()
