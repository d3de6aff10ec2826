# SPDX-License-Identifier: Apache-2.0
"""Transformers of any size as ONNX graphs, as PyTorch exporters write them: BERT, GPT-2, ViT, LLaMA.

python -m examples.onnx.transformers bert out/bert.onnx --layers 2 --decomposed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx

from examples.onnx.writer import Writer

NewWriter = Callable[[str], Writer]
"""Makes the writer of a model with a given name."""


@dataclass(frozen=True)
class Size:
    """Sizes of a transformer; `decomposed` spells LayerNorm and GELU out as older exporters do."""

    layers: int = 2
    hidden: int = 32
    heads: int = 4
    vocab: int = 100
    positions: int = 64
    decomposed: bool = False

    @property
    def inner(self) -> int:
        """Width of the feed-forward block."""
        return 4 * self.hidden

    @property
    def head(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


def layer_norm(w: Writer, x: str, name: str, size: Size, eps: float = 1e-5) -> str:
    """LayerNorm over the last axis: one node, or the nine nodes that it is made of."""
    gamma, beta = w.gain(f"{name}.weight", size.hidden), w.weight(f"{name}.bias", [size.hidden], 0.1)
    if not size.decomposed:
        return w.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=eps)
    centred = w.op("Sub", x, w.op("ReduceMean", x, axes=[-1]))
    variance = w.op("ReduceMean", w.op("Pow", centred, w.const(2.0)), axes=[-1])
    deviation = w.op("Sqrt", w.op("Add", variance, w.const(eps)))
    return w.op("Add", w.op("Mul", w.op("Div", centred, deviation), gamma), beta)


def rms_norm(w: Writer, x: str, name: str, size: Size, eps: float = 1e-6) -> str:
    """RMSNorm over the last axis; ONNX has no node for it at opset 17."""
    mean = w.op("ReduceMean", w.op("Pow", x, w.const(2.0)), axes=[-1])
    scale = w.op("Div", w.const(1.0), w.op("Sqrt", w.op("Add", mean, w.const(eps))))
    return w.op("Mul", w.op("Mul", x, scale), w.gain(f"{name}.weight", size.hidden))


def gelu(w: Writer, x: str) -> str:
    """GELU by erf: Div, Erf, Add, Mul, Mul."""
    inner = w.op("Add", w.op("Erf", w.op("Div", x, w.const(2.0**0.5))), w.const(1.0))
    return w.op("Mul", w.op("Mul", x, inner), w.const(0.5))


def gelu_tanh(w: Writer, x: str) -> str:
    """GELU by tanh, as GPT-2 has it."""
    cubic = w.op("Mul", w.op("Pow", x, w.const(3.0)), w.const(0.044715))
    inner = w.op("Tanh", w.op("Mul", w.op("Add", x, cubic), w.const((2 / np.pi) ** 0.5)))
    return w.op("Mul", w.op("Mul", x, w.const(0.5)), w.op("Add", inner, w.const(1.0)))


def linear(w: Writer, x: str, name: str, rows: int, columns: int, bias: bool = True) -> str:
    """x @ weight + bias."""
    y = w.op("MatMul", x, w.weight(f"{name}.weight", [rows, columns]))
    return w.op("Add", w.weight(f"{name}.bias", [columns], 0.1), y) if bias else y


def split_heads(w: Writer, x: str, size: Size, transpose: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    """[B, S, H] -> [B, heads, S, head]; the shape is computed from x, as exporters with dynamic axes do."""
    batch = w.op("Unsqueeze", w.op("Gather", w.op("Shape", x), w.const(0, np.int64), axis=0), w.ints(0))
    length = w.op("Unsqueeze", w.op("Gather", w.op("Shape", x), w.const(1, np.int64), axis=0), w.ints(0))
    shape = w.op("Concat", batch, length, w.ints(size.heads), w.ints(size.head), axis=0)
    return w.op("Transpose", w.op("Reshape", x, shape), perm=list(transpose))


def merge_heads(w: Writer, x: str, size: Size) -> str:
    """[B, heads, S, head] -> [B, S, H]."""
    merged = w.op("Transpose", x, perm=[0, 2, 1, 3])
    return w.op("Reshape", merged, w.ints(0, 0, size.hidden))


def attend(w: Writer, q: str, k: str, v: str, size: Size, mask: str | None) -> str:
    """softmax(q @ k / sqrt(head) + mask) @ v, with k already transposed to [B, heads, head, S]."""
    scores = w.op("Div", w.op("MatMul", q, k), w.const(float(size.head) ** 0.5))
    if mask is not None:
        scores = w.op("Add", scores, mask)
    return merge_heads(w, w.op("MatMul", w.op("Softmax", scores, axis=-1), v), size)


def row_parallel(w: Writer, x: str, name: str, rows: int, columns: int, ranks: int) -> str:
    """x @ weight + bias, where a rank holds its share of `rows` of x and weight: the products are added over ranks."""
    y = w.op("MatMul", x, w.weight(f"{name}.weight", [rows // ranks, columns]))
    if ranks > 1:
        y = w.op("AllReduce", y, domain="gaf", group_size=ranks)
    return w.op("Add", w.weight(f"{name}.bias", [columns], 0.1), y)


def attention(w: Writer, x: str, size: Size, mask: str | None, ranks: int = 1) -> str:
    """Self-attention with separate projections; a rank has its share of the heads."""
    mine = replace(size, heads=size.heads // ranks, hidden=size.hidden // ranks)
    q = split_heads(w, linear(w, x, "query", size.hidden, mine.hidden), mine)
    k = split_heads(w, linear(w, x, "key", size.hidden, mine.hidden), mine, (0, 2, 3, 1))
    v = split_heads(w, linear(w, x, "value", size.hidden, mine.hidden), mine)
    return row_parallel(w, attend(w, q, k, v, mine, mask), "output", size.hidden, size.hidden, ranks)


def bert(
    size: Size = Size(), writer: NewWriter = Writer, pooler: bool = False, ranks: int = 1
) -> onnx.ModelProto:
    """Encoder with post-norm: input_ids, attention_mask i64[B, S] -> last_hidden_state f32[B, S, hidden].

    With `pooler`, a second result: tanh of a linear layer on the first token. With several `ranks`, one rank of a
    tensor-parallel group: it has its share of the heads and of the feed-forward block, and an AllReduce behind each.
    """
    w = writer("bert")
    ids = w.input("input_ids", ["batch", "sequence"], np.int64)
    attention_mask = w.input("attention_mask", ["batch", "sequence"], np.int64)
    w.scope = "embeddings/"
    tokens = w.op("Gather", w.weight("word", [size.vocab, size.hidden], 1.0), ids)
    length = w.op("Unsqueeze", w.op("Gather", w.op("Shape", ids), w.const(1, np.int64), axis=0), w.ints(0))
    positions = w.op(
        "Slice", w.weight("position", [1, size.positions, size.hidden], 1.0), w.ints(0), length, w.ints(1)
    )
    x = layer_norm(w, w.op("Add", tokens, positions), "LayerNorm", size, 1e-12)
    w.scope = "mask/"
    wide = w.op("Unsqueeze", w.op("Unsqueeze", attention_mask, w.ints(1)), w.ints(2))
    hidden = w.op("Sub", w.const(1.0), w.op("Cast", wide, to=onnx.TensorProto.FLOAT))
    mask = w.op("Mul", hidden, w.const(-10000.0))
    for i in range(size.layers):
        w.scope = f"layer.{i}/attention/"
        x = layer_norm(w, w.op("Add", attention(w, x, size, mask, ranks), x), "LayerNorm", size, 1e-12)
        w.scope = f"layer.{i}/mlp/"
        y = gelu(w, linear(w, x, "intermediate", size.hidden, size.inner // ranks))
        y = row_parallel(w, y, "output", size.inner, size.hidden, ranks)
        x = layer_norm(w, w.op("Add", y, x), "LayerNorm", size, 1e-12)
    results = [("last_hidden_state", x, ["batch", "sequence", size.hidden])]
    if pooler:
        w.scope = "pooler/"
        first = w.op("Gather", x, w.const(0, np.int64), axis=1)
        pooled = w.op("Tanh", linear(w, first, "dense", size.hidden, size.hidden))
        results.append(("pooler_output", pooled, ["batch", size.hidden]))
    return w.model(results)


def gpt2(size: Size = Size(), writer: NewWriter = Writer, head: bool = True) -> onnx.ModelProto:
    """Decoder with pre-norm and causal mask: input_ids i64[B, S] -> logits f32[B, S, vocab].

    Without `head` the result is the last hidden state.
    """
    w = writer("gpt2")
    ids = w.input("input_ids", ["batch", "sequence"], np.int64)
    w.scope = "transformer/"
    embedding = w.weight("wte", [size.vocab, size.hidden], 1.0)
    length = w.op("Gather", w.op("Shape", ids), w.const(1, np.int64), axis=0)
    positions = w.op("Range", w.const(0, np.int64), length, w.const(1, np.int64))
    x = w.op(
        "Add",
        w.op("Gather", embedding, ids),
        w.op("Gather", w.weight("wpe", [size.positions, size.hidden], 1.0), positions),
    )
    triangle = w.array("bias", np.tril(np.ones((1, 1, size.positions, size.positions), bool)))
    end = w.op("Unsqueeze", length, w.ints(0))
    rows = w.op("Slice", triangle, w.ints(0), end, w.ints(2))
    causal = w.op("Slice", rows, w.ints(0), end, w.ints(3))
    for i in range(size.layers):
        w.scope = f"transformer/h.{i}/attn/"
        h = layer_norm(w, x, "ln_1", size)
        qkv = linear(w, h, "c_attn", size.hidden, 3 * size.hidden)
        q, k, v = w.op("Split", qkv, w.ints(*[size.hidden] * 3), outputs=3, axis=2)
        q, k, v = split_heads(w, q, size), split_heads(w, k, size, (0, 2, 3, 1)), split_heads(w, v, size)
        scores = w.op("Div", w.op("MatMul", q, k), w.const(float(size.head) ** 0.5))
        scores = w.op("Where", causal, scores, w.const(np.finfo(np.float32).min))
        merged = merge_heads(w, w.op("MatMul", w.op("Softmax", scores, axis=-1), v), size)
        x = w.op("Add", x, linear(w, merged, "c_proj", size.hidden, size.hidden))
        w.scope = f"transformer/h.{i}/mlp/"
        y = gelu_tanh(w, linear(w, layer_norm(w, x, "ln_2", size), "c_fc", size.hidden, size.inner))
        x = w.op("Add", x, linear(w, y, "c_proj", size.inner, size.hidden))
    w.scope = ""
    x = layer_norm(w, x, "ln_f", size)
    if not head:
        return w.model([("last_hidden_state", x, ["batch", "sequence", size.hidden])])
    logits = w.op("MatMul", x, w.op("Transpose", embedding, perm=[1, 0]))
    return w.model([("logits", logits, ["batch", "sequence", size.vocab])])


def vit(
    size: Size = Size(), image: int = 16, patch: int = 4, classes: int = 10, writer: NewWriter = Writer
) -> onnx.ModelProto:
    """Vision transformer: pixel_values f32[B, 3, image, image] -> logits f32[B, classes]."""
    w = writer("vit")
    pixels = w.input("pixel_values", ["batch", 3, image, image])
    w.scope = "embeddings/"
    grid = image // patch
    kernel = w.weight("projection.weight", [size.hidden, 3, patch, patch], (3 * patch * patch) ** -0.5)
    bias = w.weight("projection.bias", [size.hidden], 0.1)
    x = w.op("Conv", pixels, kernel, bias, kernel_shape=[patch, patch], strides=[patch, patch])
    x = w.op("Transpose", w.op("Reshape", x, w.ints(0, size.hidden, -1)), perm=[0, 2, 1])
    batch = w.op("Unsqueeze", w.op("Gather", w.op("Shape", pixels), w.const(0, np.int64), axis=0), w.ints(0))
    shape = w.op("Concat", batch, w.ints(1), w.ints(size.hidden), axis=0)
    token = w.op("Expand", w.weight("cls_token", [1, 1, size.hidden], 1.0), shape)
    x = w.op(
        "Add", w.op("Concat", token, x, axis=1), w.weight("position", [1, grid * grid + 1, size.hidden], 1.0)
    )
    for i in range(size.layers):
        w.scope = f"layer.{i}/attention/"
        x = w.op("Add", attention(w, layer_norm(w, x, "layernorm_before", size, 1e-12), size, None), x)
        w.scope = f"layer.{i}/mlp/"
        y = gelu(
            w,
            linear(
                w, layer_norm(w, x, "layernorm_after", size, 1e-12), "intermediate", size.hidden, size.inner
            ),
        )
        x = w.op("Add", linear(w, y, "output", size.inner, size.hidden), x)
    w.scope = ""
    x = w.op("Gather", layer_norm(w, x, "layernorm", size, 1e-12), w.const(0, np.int64), axis=1)
    logits = w.op(
        "Gemm",
        x,
        w.weight("classifier.weight", [classes, size.hidden], 0.2),
        w.weight("classifier.bias", [classes]),
        transB=1,
    )
    return w.model([("logits", logits, ["batch", classes])])


def llama(size: Size = Size(), writer: NewWriter = Writer) -> onnx.ModelProto:
    """Decoder with RMSNorm, rotary positions, SiLU gate: f32[B, S, hidden] -> the same shape."""
    w = writer("llama")
    x = w.input("inputs_embeds", ["batch", "sequence", size.hidden])
    length = w.op("Gather", w.op("Shape", x), w.const(1, np.int64), axis=0)
    positions = w.op(
        "Cast", w.op("Range", w.const(0, np.int64), length, w.const(1, np.int64)), to=onnx.TensorProto.FLOAT
    )
    steps = w.array("inv_freq", (10000.0 ** -(np.arange(0, size.head, 2) / size.head)).astype(np.float32))
    angles = w.op("Mul", w.op("Unsqueeze", positions, w.ints(1)), w.op("Unsqueeze", steps, w.ints(0)))
    both = w.op("Concat", angles, angles, axis=-1)
    cos, sin = w.op("Cos", both), w.op("Sin", both)
    shape = w.op("Concat", *[w.op("Unsqueeze", length, w.ints(0))] * 2, axis=0)
    minus = w.op("Expand", w.const(np.finfo(np.float32).min), shape)
    mask = w.op("Trilu", minus, w.const(1, np.int64), upper=1)

    def rotate(y: str) -> str:
        half = size.head // 2
        first = w.op("Slice", y, w.ints(0), w.ints(half), w.ints(3))
        second = w.op("Slice", y, w.ints(half), w.ints(np.iinfo(np.int64).max), w.ints(3))
        turned = w.op("Concat", w.op("Neg", second), first, axis=-1)
        return w.op("Add", w.op("Mul", y, cos), w.op("Mul", turned, sin))

    for i in range(size.layers):
        w.scope = f"layers.{i}/self_attn/"
        h = rms_norm(w, x, "input_layernorm", size)
        q, k, v = (
            split_heads(w, linear(w, h, n, size.hidden, size.hidden, bias=False), size)
            for n in ("q", "k", "v")
        )
        k = w.op("Transpose", rotate(k), perm=[0, 1, 3, 2])
        y = linear(w, attend(w, rotate(q), k, v, size, mask), "o", size.hidden, size.hidden, bias=False)
        x = w.op("Add", x, y)
        w.scope = f"layers.{i}/mlp/"
        h = rms_norm(w, x, "post_attention_layernorm", size)
        gate = linear(w, h, "gate", size.hidden, size.inner, bias=False)
        up = linear(w, h, "up", size.hidden, size.inner, bias=False)
        y = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
        x = w.op("Add", x, linear(w, y, "down", size.inner, size.hidden, bias=False))
    return w.model([("last_hidden_state", x, ["batch", "sequence", size.hidden])])


MODELS = {"bert": bert, "gpt2": gpt2, "vit": vit, "llama": llama}


def with_nodes(count: int, hidden: int = 16) -> onnx.ModelProto:
    """A decomposed BERT of about `count` nodes, in small sizes: for timing the compiler."""
    per_layer = len(bert(Size(2, hidden, 2, decomposed=True)).graph.node) - len(
        bert(Size(1, hidden, 2, decomposed=True)).graph.node
    )
    return bert(Size(max(1, round(count / per_layer)), hidden, 2, decomposed=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("path")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--decomposed", action="store_true", help="LayerNorm spelled out")
    args = parser.parse_args()
    onnx.save(
        MODELS[args.model](Size(args.layers, args.hidden, args.heads, decomposed=args.decomposed)), args.path
    )


if __name__ == "__main__":
    main()
