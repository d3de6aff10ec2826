# SPDX-License-Identifier: Apache-2.0
"""Merging of equal operations, constants and weights: what is equal, and what only looks so."""

from __future__ import annotations

import numpy as np
import pytest

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import WeightStore
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.types import TensorType
from gaf.passes.graph.cse import equal_weights
from tests.passes.graph.harness import array, assert_same, f32, model_of, names, run, t

X = t(3, 5)


def check(
    body: str,
    returned: str,
    expected: list[str],
    inputs: str = f"%x: {X}, %y: {X}",
    weights: dict[str, np.ndarray] | None = None,
) -> None:
    count = returned.count("%")
    model = model_of(inputs, ", ".join([X] * count), body, returned, weights)
    after, _ = run(model, "cse")
    assert names(after) == expected
    assert_same(model, after)


def line(result: str, op: str, a: str, b: str, extra: str = "") -> str:
    return f"{result} = graph.{op} {a}, {b}{extra} : ({X}, {X}) -> {X}\n"


def test_equal_ops_are_merged_to_the_end_of_the_chain() -> None:
    body = line("%a", "sub", "%x", "%y") + line("%b", "sub", "%x", "%y")
    body += line("%c", "div", "%a", "%y") + line("%d", "div", "%b", "%y")
    check(body, "%c, %d", ["sub", "div"])


def test_commutative_ops_are_merged_in_any_order() -> None:
    check(line("%a", "add", "%x", "%y") + line("%b", "add", "%y", "%x"), "%a, %b", ["add"])
    check(line("%a", "sub", "%x", "%y") + line("%b", "sub", "%y", "%x"), "%a, %b", ["sub", "sub"])


def test_properties_count() -> None:
    body = line("%a", "mod", "%x", "%y", " {fmod = true}") + line("%b", "mod", "%x", "%y", " {fmod = false}")
    check(body, "%a, %b", ["mod", "mod"])
    check(body.replace("true", "false"), "%a, %b", ["mod"])


def test_equal_looking_constants() -> None:
    # case 07: x / 2 + y * 4
    body = f"%c = graph.constant {f32('2.0')}\n%d = graph.constant {f32('4.0')}\n" + (
        f"%a = graph.div %x, %c : ({X}, {t()}) -> {X}\n%b = graph.mul %y, %d : ({X}, {t()}) -> {X}\n"
    )
    check(body + line("%r", "add", "%a", "%b"), "%r", ["constant", "constant", "div", "mul", "add"])


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (f32("2.0"), f32("2.0"), True),
        (f32("0x7fc00000"), f32("0x7fc00000"), True),
        (f32("0.0"), f32("-0.0"), False),
        (f32("0x7fc00000"), f32("0x7fc00001"), False),
        (f32("2.0"), f32("2.0", 1), False),  # another shape
        (f32("0.0"), array(0, "i32", ()), False),  # another dtype, the same bytes
        (array("1.0", "f16", ()), array("1.0", "bf16", ()), False),
    ],
)
def test_constants_are_equal_if_dtype_shape_and_bits_are(first: str, second: str, merged: bool) -> None:
    kinds = [c.rpartition("-> ")[2] for c in (first, second)]
    model = model_of(
        "", ", ".join(kinds), f"%a = graph.constant {first}\n%b = graph.constant {second}", "%a, %b"
    )
    after, _ = run(model, "cse")
    assert len(names(after)) == 2 - merged


def test_ops_with_effects_stay() -> None:
    # case 55: two calls of an op that changes state are two
    for pure in (True, False):
        model = model_of(f"%x: {X}", X, f"%n = graph.neg %x : ({X}) -> {X}", "%n")
        node = 'input: "i0" output: "o0" op_type: "Cache" domain: "com.acme"'
        ops = [
            ForeignOp.of(
                "onnx", "com.acme", "Cache", 1, node, [model.block.args[0]], model.input_types, pure=pure
            )
            for _ in range(2)
        ]
        for op in ops:
            model.block.insert_op_before(op, model.block.last_op)
        after, _ = run(model, "cse")
        assert names(after) == ["neg"] + ["foreign"] * (1 if pure else 2)


def test_result_types_count() -> None:
    model = model_of(f"%x: {X}", X, "", "%x")
    node = 'input: "i0" output: "o0" op_type: "Gate" domain: "com.acme"'
    for type_ in (model.input_types[0], TensorType.of(["M"], dt.F32)):
        op = ForeignOp.of("onnx", "com.acme", "Gate", 1, node, [model.block.args[0]], [type_])
        model.block.insert_op_before(op, model.block.last_op)
    assert names(run(model, "cse")[0]) == ["foreign", "foreign"]


def test_ops_with_regions_stay_and_are_cleaned_inside() -> None:
    body = "".join(
        f"""
        %{r} = graph.fused "elementwise" @k{r} (%i = %x : {X}) -> ({X}) {{
          %p = graph.neg %i : ({X}) -> {X}
          %q = graph.neg %i : ({X}) -> {X}
          %s = graph.add %p, %q : ({X}, {X}) -> {X}
          graph.yield %s : {X}
        }}"""
        for r in "ab"
    )
    model = model_of(f"%x: {X}", f"{X}, {X}", body, "%a, %b")
    after, _ = run(model, "cse")
    fused = [op for op in after.block.ops if op.name == "graph.fused"]
    assert len(fused) == 2
    assert all([m.name for m in op.members] == ["graph.neg", "graph.add"] for op in fused)
    assert_same(model, after)


def test_weights_with_one_name_or_equal_content() -> None:
    w = np.arange(15, dtype=np.float32).reshape(3, 5)
    other = w.copy()
    other[1, 3] += 1
    names_ = ["u", "u", "v", "o"]
    body = "".join(f'%w{i} = graph.weight {{weight = "{n}"}} : () -> {X}\n' for i, n in enumerate(names_))
    body += "".join(line(f"%r{i}", "add", "%x", f"%w{i}") for i in range(4))
    check(
        body,
        "%r0, %r1, %r2, %r3",
        ["weight", "weight", "add", "add"],
        weights={"u": w, "v": w.copy(), "o": other},
    )


def test_equal_weights_compares_bits_dtype_and_shape() -> None:
    zeros = np.zeros((40, 10), np.float32)
    late = zeros.copy()
    late[39, 9] = -0.0  # past the sampled elements, equal as a number
    nan = np.full((40, 10), np.nan, np.float32)
    store = WeightStore({
        "zeros": zeros, "again": zeros.copy(), "same": zeros, "late": late, "flat": zeros.reshape(400),
        "ints": zeros.astype(np.int32), "nan": nan, "nan2": nan.copy(),
        "strided": np.zeros((10, 40), np.float32).T,
    })  # fmt: skip
    assert equal_weights(store) == {"again": "zeros", "same": "zeros", "nan2": "nan", "strided": "zeros"}
