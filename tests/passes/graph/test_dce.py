# SPDX-License-Identifier: Apache-2.0
"""Dead code: unused pure ops and unused weights go, effects stay."""

from __future__ import annotations

import numpy as np

from gaf.dialects.graph.ops.foreign import ForeignOp
from tests.passes.graph.harness import model_of, names, run, t

X = t(3, 5)


def test_chains_without_use_vanish() -> None:
    ops = (("a", "neg", "x"), ("b", "exp", "a"), ("c", "abs", "a"))
    body = "\n".join(f"%{result} = graph.{op} %{x} : ({X}) -> {X}" for result, op, x in ops)
    after, _ = run(model_of(f"%x: {X}", X, body, "%x"), "dce")
    assert names(after) == []
    after, _ = run(model_of(f"%x: {X}", X, body, "%c"), "dce")
    assert names(after) == ["neg", "abs"]


def test_unused_weights_leave_the_store() -> None:
    body = "".join(f'%{n} = graph.weight {{weight = "{n}"}} : () -> {X}\n' for n in "uv")
    model = model_of("", X, body, "%u", {n: np.zeros((3, 5), np.float32) for n in ("u", "v", "never")})
    after, _ = run(model, "dce")
    assert names(after) == ["weight"] and list(after.weights) == ["u"]
    assert len(model.weights) == 3


def test_effects_keep_an_op() -> None:
    for pure, left in ((True, []), (False, ["foreign"])):
        model = model_of(f"%x: {X}", X, "", "%x")
        node = 'input: "i0" output: "o0" op_type: "Log" domain: "com.acme"'
        op = ForeignOp.of(
            "onnx", "com.acme", "Log", 1, node, [model.block.args[0]], model.input_types, pure=pure
        )
        model.block.insert_op_before(op, model.block.last_op)
        assert names(run(model, "dce")[0]) == left


def fused(inner: str) -> str:
    return f"""
      %a = graph.fused "elementwise" @k (%i = %x : {X}) -> ({X}) {{
        %p = graph.neg %i : ({X}) -> {X}
        {inner}
        graph.yield %p : {X}
      }}"""


def test_inside_of_regions() -> None:
    after, _ = run(model_of(f"%x: {X}", X, fused(f"%q = graph.exp %p : ({X}) -> {X}"), "%a"), "dce")
    (op,) = (op for op in after.block.ops if op.name == "graph.fused")
    assert [m.name for m in op.members] == ["graph.neg"]


def test_a_region_with_effects_inside_stays() -> None:
    node = r'"input: \22i0\22 output: \22o0\22 op_type: \22Log\22 domain: \22com.acme\22"'.replace(
        r"\22", r"\""
    )
    props = f'framework = "onnx", domain = "com.acme", op_type = "Log", opset = 1 : i64, node = {node}'
    for pure, left in (("true", []), ("false", ["fused"])):
        inner = f"%q = graph.foreign %p {{{props}, pure = {pure}}} : ({X}) -> {X}"
        assert names(run(model_of(f"%x: {X}", X, fused(inner), "%x"), "dce")[0]) == left
