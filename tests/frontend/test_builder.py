# SPDX-License-Identifier: Apache-2.0
"""Shape arithmetic, shared constants and clean-up of the builder that all frontends use."""

from __future__ import annotations

import numpy as np
import pytest

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.frontend.builder import GraphBuilder, dim_from_text, symbol_name

B, S = sym("B"), sym("S")


@pytest.fixture
def builder() -> GraphBuilder:
    """A model with x: f32[B, S, 12] and n: i64[2]."""
    return GraphBuilder(
        new_model([("x", TensorType.of(["B", "S", 12], dt.F32)), ("n", TensorType.of([2], dt.I64))])
    )


def emit(builder: GraphBuilder, name: str, *operands: object, **attrs: object) -> object:
    op = registry.by_name(f"graph.{name}")
    assert op is not None
    return builder.emit(op, list(operands), attrs, f"the {name}")


def ops(model: Model) -> list[str]:
    return [op.name.removeprefix("graph.") for op in model.block.ops]


def test_shape_of_symbolic_tensor_is_known(builder: GraphBuilder) -> None:
    x, n = builder.model.block.args
    shape = emit(builder, "shape", x, start=0, end=3)
    assert builder.dims(shape) == (B, S, Expr({(): 12}))
    assert builder.known(shape) is None
    assert builder.dims(n) is None


def test_arithmetic_on_dims(builder: GraphBuilder) -> None:
    x, _ = builder.model.block.args
    shape = emit(builder, "shape", x, start=0, end=2)
    two = builder.constant(np.array([2, 3], np.int64))
    assert builder.dims(emit(builder, "mul", shape, two)) == (B * 2, S * 3)
    assert builder.dims(emit(builder, "add", shape, two)) == (B + 2, S + 3)
    halves = builder.dims(emit(builder, "div", shape, two))
    assert halves is not None and str(halves[0]) == "B floordiv 2"
    back = emit(builder, "div", emit(builder, "mul", shape, two), two)
    assert builder.dims(back) == (B, S)
    ordered = emit(builder, "reduce_prod", shape, axes=(0,), keepdims=True)
    assert builder.dims(ordered) == (B * S,)


def test_comparison_of_dims_holds_for_all_sizes_or_is_unknown(builder: GraphBuilder) -> None:
    x, _ = builder.model.block.args
    shape = emit(builder, "shape", x, start=0, end=2)
    unequal = emit(builder, "equal", shape, builder.constant(np.array([-1, -1], np.int64)))
    assert builder.known(unequal).tolist() == [False, False]
    maybe = emit(builder, "equal", shape, builder.constant(np.array([1, 5], np.int64)))
    assert builder.known(maybe) is None and builder.dims(maybe) is None


def test_order_of_unknown_dims_is_not_decided(builder: GraphBuilder) -> None:
    """ArgMax, TopK and the like compare elements: their references must not run on dims."""
    x, _ = builder.model.block.args
    shape = emit(builder, "shape", x, start=0, end=2)
    largest = emit(builder, "argmax", shape, axis=0, keepdims=True, select_last=False)
    assert largest.owner.name == "graph.argmax" and builder.dims(largest) is None


def test_constant_arithmetic_leaves_one_constant(builder: GraphBuilder) -> None:
    a = builder.constant(np.array([3.0, 5.0], np.float32))
    result = emit(builder, "mul", a, builder.constant(np.array(2.0, np.float32)))
    builder.finish([("y", result)])
    assert ops(builder.model) == ["constant", "func.return"]
    assert builder.known(result).tolist() == [6.0, 10.0]


def test_equal_constants_are_shared_and_different_bits_are_not(builder: GraphBuilder) -> None:
    one = builder.constant(np.float32(1))
    assert builder.constant(np.float32(1)) is one
    assert builder.constant(np.int32(1)) is not one
    assert builder.constant(np.float32([1])) is not one
    assert builder.constant(np.float32(0.0)) is not builder.constant(np.float32(-0.0))


def test_big_constants_are_weights_and_big_results_are_not_folded(builder: GraphBuilder) -> None:
    small = builder.constant(np.ones(64, np.float32))
    big = builder.constant(np.ones(65, np.float32), "w")
    assert isinstance(small.owner, ConstantOp) and isinstance(big.owner, WeightOp)
    doubled = emit(builder, "add", big, big)
    assert doubled.owner.name == "graph.add"
    assert builder.known(big).shape == (65,)


def test_finish_drops_what_nobody_uses(builder: GraphBuilder) -> None:
    x, _ = builder.model.block.args
    w = builder.constant(np.ones((12, 100), np.float32), "unused")
    emit(builder, "matmul", x, w)
    y = emit(builder, "neg", x)
    model = builder.finish([("y", y)])
    assert ops(model) == ["neg", "func.return"]
    assert "unused" not in model.weights
    model.module.verify()


def test_errors_name_the_node(builder: GraphBuilder) -> None:
    x, n = builder.model.block.args
    with pytest.raises(GafError, match="the add: .*element types"):
        emit(builder, "add", x, n)


def test_new_symbols_are_fresh(builder: GraphBuilder) -> None:
    assert str(builder.new_symbol("B")) == "B_1"
    assert str(builder.new_symbol("B")) == "B_2"
    assert str(builder.new_symbol("node/x:0")) == "node_x_0"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("batch size", "batch_size"),
        ("2x", "n2x"),
        ("d0", "d0_"),
        ("r1", "r1_"),
        ("mod", "mod_"),
        ("größe", "gr__e"),
        ("", "dim"),
    ],
)
def test_symbol_names_are_legal(text: str, name: str) -> None:
    assert symbol_name(text) == name


@pytest.mark.parametrize(
    ("text", "dim"),
    [("S + 1", S + 1), ("2*B", B * 2), ("batch size", None), ("f(x)", None), ("a/b", None), ("d0", None)],
)
def test_dims_written_as_expressions(text: str, dim: Expr | None) -> None:
    assert dim_from_text(text) == dim
