# SPDX-License-Identifier: Apache-2.0
"""ONNX Attention: one kernel, right where no key takes part, and within the rules of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from gaf.compiler import fuse
from gaf.frontend.onnx import load_onnx

KINDS = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.bool_: TensorProto.BOOL}


def model(operands: dict[str, tuple[Any, ...]], kinds: dict[str, Any], **attributes: Any) -> Any:
    """A model of one Attention node; operands by the names of its schema."""
    slots = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
    last = max(i for i, s in enumerate(slots) if s in operands)
    names = [s if s in operands else "" for s in slots[: last + 1]]
    node = helper.make_node("Attention", names, ["Y"], **attributes)
    inputs = [helper.make_tensor_value_info(n, KINDS[kinds.get(n, np.float32)], s) for n, s in operands.items()]
    graph = helper.make_graph([node], "attention", inputs, [helper.make_empty_tensor_value_info("Y")])
    return load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10))


@pytest.mark.parametrize(
    ("kv_heads", "queries", "keys", "causal"), [(4, 17, 17, 1), (2, 5, 33, 0), (1, 9, 20, 1)], ids=["mha", "gqa", "mqa"]
)
def test_heads_and_causal_masks_are_one_kernel(kv_heads: int, queries: int, keys: int, causal: int) -> None:
    shapes = {"Q": (2, 4, queries, 64), "K": (2, kv_heads, keys, 64), "V": (2, kv_heads, keys, 48)}
    fused = fuse(model(shapes, {}, is_causal=causal))
    assert len(fused.kernels) == 1 and not fused.fallbacks
    result = fused.verify(engine="check")
    assert result.ok and not result.violations


def test_rows_without_a_key_are_zero() -> None:
    shapes = {"Q": (1, 2, 6, 16), "K": (1, 2, 8, 16), "V": (1, 2, 8, 16), "attn_mask": (6, 8)}
    fused = fuse(model(shapes, {"attn_mask": np.bool_}))
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}
    mask = rng.random((6, 8)) < 0.5
    mask[:, 0], mask[2] = True, False
    y = fused.run({**inputs, "attn_mask": mask})["Y"]
    assert np.all(y[:, :, 2] == 0)
    assert np.all(np.isfinite(y)) and np.all(np.any(y[:, :, [0, 1, 3, 4, 5]] != 0, axis=-1))


def test_symbolic_lengths() -> None:
    shapes = {"Q": ("B", 2, "S", 32), "K": ("B", 2, "T", 32), "V": ("B", 2, "T", 32)}
    fused = fuse(model(shapes, {}, is_causal=1))
    assert len(fused.fused_ops) == 1, "one launch: whole rows if they fit, else a walk"
    rng = np.random.default_rng(1)
    for batch, queries, keys in ((1, 3, 3), (2, 20, 41)):
        sizes = {"Q": queries, "K": keys, "V": keys}
        inputs = {n: rng.standard_normal((batch, 2, s, 32), dtype=np.float32) for n, s in sizes.items()}
        assert fused.verify(inputs).ok


def test_heads_that_share_no_keys_stay_on_the_host() -> None:
    shapes = {"Q": (1, 5, 24), "K": (1, 5, 16), "V": (1, 5, 16)}
    found = model(shapes, {}, q_num_heads=3, kv_num_heads=2)
    assert list(found.fallbacks) == ["Attention"]
    assert any("query heads" in note for note in found.notes)
