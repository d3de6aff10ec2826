# SPDX-License-Identifier: Apache-2.0
"""Custom operators: traced bodies, opaque ops and their effects, ops of `.gaf` files, and bindings to ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.ops.custom import CustomOp
from gaf.dialects.graph.ops.structure import ConstantOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InvalidInputError, UnsupportedError
from gaf.frontend import custom
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.language.program import program_from_text
from gaf.frontend.onnx import load_onnx
from gaf.frontend.onnx.exporter import export_model
from gaf.passes.pipeline import GRAPH_CLEANUP, run_pipeline

X = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
G = np.linspace(-1, 1, 8, dtype=np.float32)
SIGNATURE = "(x: T[..., d], g: T[d], slope: float = 1.0) -> T[..., d]"


@pytest.fixture(autouse=True)
def scoped() -> Iterator[None]:
    """Nothing that a test registers outlives it."""
    with gaf.custom_ops():
        yield


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def traced_gate(**names: Any) -> custom.CustomOp:
    @gaf.custom_op("acme::gate", SIGNATURE, **names)
    def gate(x: Any, g: Any, slope: float) -> Any:
        return x * gaf.ops.sigmoid(slope * (x * g))

    return gate


def onnx_model(
    nodes: list[onnx.NodeProto], shape: list[Any], constants: dict[str, np.ndarray] | None = None
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    )


def gate_model(**attributes: Any) -> onnx.ModelProto:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "ones"], ["n"], name="norm"),
        helper.make_node("Gate", ["n", "g"], ["h"], name="gate_3", domain="com.acme", **attributes),
        helper.make_node("Softmax", ["h"], ["y"], name="soft"),
    ]
    return onnx_model(nodes, ["B", 8], {"g": G, "ones": np.ones(8, np.float32)})


def ops(model: Model) -> list[str]:
    return [op.name for op in model.block.ops if isinstance(op, GraphOp) and not isinstance(op, ConstantOp)]


# -- traced bodies ----------------------------------------------------------------------------------


def test_a_traced_body_becomes_graph_ops_that_fuse() -> None:
    traced_gate(onnx="com.acme.Gate")
    model = load_onnx(gate_model(slope=2.0))
    assert ops(model) == [
        "graph.layer_norm",
        "graph.mul",
        "graph.mul",
        "graph.sigmoid",
        "graph.mul",
        "graph.softmax",
    ]
    places = {location_name(op) for op in model.block.ops if op.name in ("graph.mul", "graph.sigmoid")}
    assert places == {"gate_3/mul", "gate_3/sigmoid"}, "they know the model node"
    (got,) = model.run({"x": X}, wide=True).values()
    n = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    e = np.exp(n * sigmoid(2 * n * G))
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-5)
    fused = gaf.fuse(model)
    assert len(fused.fused_ops) == 1 and not fused.fallbacks
    assert fused.verify(engine="interpreter").ok


def test_calling_it_on_arrays_runs_the_reference() -> None:
    gate = traced_gate()
    np.testing.assert_allclose(gate(X, G), X * sigmoid(X * G), rtol=1e-5)
    np.testing.assert_allclose(gate(X, g=G, slope=3), X * sigmoid(3 * X * G), rtol=1e-5)
    assert gate(X.astype(np.float16), G.astype(np.float16)).dtype == np.float16


def test_operators_and_functions_of_tracers() -> None:
    @gaf.custom_op("t::all", "(x: f32[n, d], y: f32[d]) -> (f32[n, d], bool[n, d], f32[n, n], f32[])")
    def everything(x: Any, y: Any) -> Any:
        assert x.shape[1:] == (8,) and x.ndim == 2 and x.dtype == dt.F32
        a = ((2 * x + y - 1) / (abs(y) + 1)) ** 2 - (-x) % 3 + 2**y
        b = (x > 0) & ~(y >= x) | (x == y)
        return a, b, x @ gaf.ops.transpose(x), gaf.ops.sum(x)

    a, b, c, d = everything(X, G)
    np.testing.assert_allclose(
        a, ((2 * X + G - 1) / (abs(G) + 1)) ** 2 - np.mod(-X, 3) + 2**G, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(b, (X > 0) & ~(G >= X) | (X == G))
    np.testing.assert_allclose(c, X @ X.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d, X.sum(), rtol=1e-4)


def test_custom_ops_call_each_other_and_gaf_calls_both() -> None:
    gate = traced_gate()

    @gaf.custom_op("acme::twice", "(x: T[..., d], g: T[d]) -> T[..., d]")
    def twice(x: Any, g: Any) -> Any:
        return gate(gate(x, g), g, slope=2.0)

    y = X * sigmoid(X * G)
    np.testing.assert_allclose(twice(X, G), y * sigmoid(2 * y * G), rtol=1e-5)
    model = program_from_text(
        "model m(x: f32[n, 8], g: f32[8]) { twice(x, g) + gate(x, g, slope=0.5) }", "t.gaf"
    ).model()
    want = y * sigmoid(2 * y * G) + X * sigmoid(0.5 * X * G)
    np.testing.assert_allclose(model.run({"x": X, "g": G})["y"], want, rtol=1e-4, atol=1e-6)
    assert model.num_ops == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: x if x > 0 else -x, "no value to branch on"),
        (lambda x: x[0], "isn't indexed"),
        (lambda x: [a for a in x], "can't be iterated"),
        (lambda x: (x, x), "wrong number of results; expected 1, got 2"),
        (lambda x: gaf.ops.sum(x), "another type for result 0; expected f32"),
        (lambda x: "text", "result 0 of the body of 't::f'"),
        (lambda x: gaf.ops.softmax(x, axis=7), "axis out of range"),
        (lambda x: gaf.ops.softmax(x, axes="all"), "argument 'axes' of 'softmax' has the wrong kind"),
    ],
)
def test_bad_bodies(body: Any, message: str) -> None:
    op = gaf.custom_op("t::f", "(x: f32[n, d]) -> f32[n, d]")(body)
    with pytest.raises(GafError, match=message):
        op(X)


def test_unknown_functions_of_gaf_ops() -> None:
    with pytest.raises(AttributeError, match="did you mean sigmoid"):
        gaf.ops.sigmoidd
    with pytest.raises(InvalidInputError, match="works on tensors of a traced body"):
        gaf.ops.sigmoid(X)
    assert {"softmax", "linear", "clip"} <= set(dir(gaf.ops))


@pytest.mark.parametrize(
    ("name", "shapes", "options", "message"),
    [
        ("gate", "(x: f32[n]) -> f32[n]", {}, "a namespace and a name; expected acme::gate"),
        ("a::b", "(x: f32[n] -> f32[n]", {}, "signature of a::b:1:12: unexpected '->'"),
        ("a::b", "(x: f31[n]) -> f32[n]", {}, "unknown element type 'f31'"),
        (
            "a::b",
            "(x: f32[n]) -> f32[n]",
            {"mutates": ["y"], "opaque": True},
            "mutates 'y', which is no tensor",
        ),
        ("a::b", "(x: f32[n]) -> f32[n]", {"mutates": ["x"]}, "opaque=True"),
        ("acme::gate", "(x: f32[n]) -> f32[n]", {}, "registered already"),
        ("a::b", "(x: f32[n]) -> f32[n]", {"onnx": "com.acme.Gate"}, "belongs to the custom op 'acme::gate'"),
    ],
)
def test_bad_declarations(name: str, shapes: str, options: dict[str, Any], message: str) -> None:
    traced_gate(onnx="com.acme.Gate")
    with pytest.raises(GafError, match=message):
        gaf.custom_op(name, shapes, **options)(lambda x: x)


def test_wrong_arguments() -> None:
    gate = traced_gate()
    for args, named, message in (
        ((X,), {}, "needs the argument 'g'"),
        ((X, G, 1.0, 2.0), {}, "too many arguments"),
        ((X, G[:3]), {}, "wrong size on axis 0; expected d = 8, got 3"),
        ((X, G.astype(np.float16)), {}, "another element type"),
        ((X, G), {"slop": 2.0}, "argument 'slop' of 'acme::gate' doesn't exist"),
        ((X, G), {"slope": "steep"}, "expected float"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=message):
            gate(*args, **named)


def test_registrations_end_with_their_scope() -> None:
    with gaf.custom_ops():
        traced_gate(onnx="com.acme.Gate", torch="acme.gate")
        assert (
            custom.by_onnx("com.acme", "Gate")
            is custom.by_torch("acme.gate.default")
            is custom.by_gaf("gate")
        )
    assert custom.by_onnx("com.acme", "Gate") is None and not custom.registered()
    with pytest.raises(InvalidInputError, match="no custom op 'acme::gate'"):
        gaf.unregister_custom_op("acme::gate")


# -- ONNX ---------------------------------------------------------------------------------------------


def test_an_unregistered_op_is_named_with_the_ways_out() -> None:
    with pytest.raises(UnsupportedError) as caught:
        load_onnx(gate_model())
    for part in (
        "com.acme.Gate x1: gate_3",
        "nothing is known about the domain 'com.acme'",
        "@gaf.custom_op",
        ".gaf file",
    ):
        assert part in str(caught.value)


def test_a_custom_op_on_constants_is_folded_only_through_its_reference() -> None:
    """An opaque op with constant inputs: with a reference it may be computed early, without one it stays."""
    nodes = [
        helper.make_node("Gate", ["g"], ["h"], name="gate", domain="com.acme"),
        helper.make_node("Mul", ["x", "h"], ["y"], name="mul"),
    ]
    source = onnx_model(nodes, [2, 8], {"g": G})
    gaf.opaque_op("acme::gate", "(w: f32[d]) -> f32[d]", onnx="com.acme.Gate")
    model = load_onnx(source)
    run_pipeline(model.module, GRAPH_CLEANUP)
    assert ops(model) == ["graph.custom", "graph.mul"]
    with pytest.raises(UnsupportedError, match="gate: the custom op 'acme::gate' has no reference"):
        model.run({"x": X[:2]})
    gaf.unregister_custom_op("acme::gate")
    gaf.custom_op("acme::gate", "(w: f32[d]) -> f32[d]", onnx="com.acme.Gate", opaque=True)(
        lambda w: w * sigmoid(w) + 1
    )
    model = load_onnx(source)
    assert ops(model) == ["graph.mul"]
    np.testing.assert_allclose(model.run({"x": X[:2]})["y"], X[:2] * (G * sigmoid(G) + 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (["n"], {}, "gate_3.*needs the argument 'g'"),
        (["n", "g", "g"], {}, "at most 2 inputs"),
        (["n", "g"], {"slop": 1.0}, "argument 'slop'"),
        (["n", "g"], {"slope": "a"}, "expected float"),
        (["n", "n"], {}, "has the wrong rank"),
    ],
)
def test_nodes_that_do_not_fit(inputs: list[str], attributes: dict[str, Any], message: str) -> None:
    traced_gate(onnx="com.acme.Gate")
    proto = gate_model(**attributes)
    del proto.graph.node[1].input[:]
    proto.graph.node[1].input.extend(inputs)
    with pytest.raises(InvalidInputError, match=message):
        load_onnx(proto)


def test_ops_of_a_gaf_file_are_bound_to_onnx(tmp_path: Path) -> None:
    path = tmp_path / "my-ops.gaf"
    path.write_text(
        'op gate(x: T[..., d], g: T[d], slope: float = 1.0) -> T[..., d] as onnx "com.acme.Gate" '
        "{ [..., i] = x[..., i] / (1 + exp(-slope * x[..., i] * g[i])) }"
    )
    (op,) = gaf.load_custom_ops(path)
    assert op.name == "my_ops::gate"
    fused = gaf.fuse(load_onnx(gate_model(slope=2.0)))
    assert len(fused.fused_ops) == 1 and fused.verify(engine="interpreter").ok
    np.testing.assert_allclose(op(X, G), X * sigmoid(X * G), rtol=1e-5)


def test_opaque_ops_are_written_as_their_node_again(tmp_path: Path) -> None:
    gaf.custom_op("acme::gate", SIGNATURE, onnx="com.acme.Gate", opaque=True)(
        lambda x, g, slope: x * sigmoid(slope * x * g)
    )
    model = load_onnx(gate_model(slope=2.0))
    assert model.fallbacks == {"acme::gate": ["gate_3"]}
    proto = export_model(model)
    (node,) = (n for n in proto.graph.node if n.op_type == "Gate")
    assert node.domain == "com.acme" and node.attribute[0].f == 2.0
    np.testing.assert_array_equal(load_onnx(proto).run({"x": X})["y"], model.run({"x": X})["y"])


# -- opaque ops and effects -----------------------------------------------------------------------------


def test_an_opaque_op_is_a_boundary_between_kernels() -> None:
    gaf.custom_op("acme::gate", SIGNATURE, onnx="com.acme.Gate", opaque=True)(
        lambda x, g, slope: x * sigmoid(x * g)
    )
    fused = gaf.fuse(load_onnx(gate_model()))
    kinds = [type(op).__name__ for op in fused.model.block.ops if not isinstance(op, ConstantOp)]
    assert kinds == ["FusedOp", "CustomOp", "FusedOp", "ReturnOp"]
    assert len(fused.fallbacks) == 1 and "opaque custom op" in fused.fallbacks[0]
    assert fused.verify(engine="interpreter").ok


def test_a_device_function_is_kept_and_refused_with_the_reason() -> None:
    op = gaf.custom_op("acme::gate", "(x: f32[n]) -> f32[n]", opaque=True, device="AcmeGateTile")(
        lambda x: 2 * x
    )
    model = program_from_text("model m(x: f32[n]) { gate(x) }", "t.gaf").model()
    (call,) = (o for o in model.block.ops if isinstance(o, CustomOp))
    assert call.device is not None and call.device.data == "AcmeGateTile" and op.device == "AcmeGateTile"
    assert (
        "AcmeGateTile" in gaf.fuse(model).fallbacks[0]
        and "can't call such functions" in gaf.fuse(model).fallbacks[0]
    )


def cache_model() -> Model:
    """sum(cache), write(cache), sum(cache): the case in which merging the sums is wrong."""

    @gaf.custom_op("acme::write", "(cache: f32[n], x: f32[n]) -> f32[]", opaque=True, mutates=["cache"])
    def write(cache: np.ndarray, x: np.ndarray) -> np.ndarray:
        cache += x
        return cache.max()

    text = "model m(cache: f32[8], x: f32[8]) { let a = sum(cache); let top = write(cache, x); a = a, b = sum(cache), cache = cache }"
    return program_from_text(text, "t.gaf").model()


def test_readers_behind_a_mutation_see_the_new_value() -> None:
    model = cache_model()
    inputs = {"cache": np.ones(8, np.float32), "x": G}
    want = {"a": 8.0, "b": np.float32(8 + G.sum())}
    for _ in range(2):
        out = model.run(inputs)
        assert out["a"] == want["a"] and out["b"] == pytest.approx(want["b"])
        np.testing.assert_array_equal(out["cache"], 1 + G)
        np.testing.assert_array_equal(inputs["cache"], 1)  # the caller's array is copied
        run_pipeline(model.module, GRAPH_CLEANUP)
        assert ops(model).count("graph.reduce_sum") == 2, "the sums of the old and the new cache differ"
    fused = gaf.fuse(model)
    out = fused.run(inputs, engine="interpreter")
    assert out["a"] == want["a"] and out["b"] == pytest.approx(want["b"])


def test_mutation_in_onnx_models_reaches_later_nodes() -> None:
    gaf.custom_op(
        "acme::write",
        "(cache: f32[n, d], x: f32[d]) -> f32[n, d]",
        opaque=True,
        mutates=["cache"],
        onnx="com.acme.Write",
    )(lambda cache, x: np.add(cache, x, out=cache))
    nodes = [
        helper.make_node("Relu", ["x"], ["cache"], name="r"),
        helper.make_node("Write", ["cache", "g"], ["w"], name="w", domain="com.acme"),
        helper.make_node("Neg", ["cache"], ["y"], name="n"),
    ]
    model = load_onnx(onnx_model(nodes, [3, 8], {"g": G}))
    np.testing.assert_allclose(model.run({"x": X})["y"], -(np.maximum(X, 0) + G), rtol=1e-6)


def test_effects_are_neither_dropped_nor_merged_nor_reordered() -> None:
    log: list[str] = []

    @gaf.custom_op("t::say", "(x: f32[n], word: string) -> f32[n]", opaque=True, pure=False)
    def say(x: np.ndarray, word: str) -> np.ndarray:
        log.append(word)
        return x.copy()

    x_type = TensorType.of([8], dt.F32)
    model = new_model([("x", x_type)])
    builder = GraphBuilder(model)
    (x,) = model.block.args
    # the first call depends on much work, the others on nothing: they still come after it
    late = builder.emit(
        gaf.dialects.graph.registry.by_gaf("exp"),
        [builder.emit(gaf.dialects.graph.registry.by_gaf("tanh"), [x])],
    )
    say.emit(builder, [late, "first"])
    say.emit(builder, [x, "same"])
    say.emit(builder, [x, "same"])
    say.emit(builder, [builder.constant(np.ones(8, np.float32)), "constant"])
    (last,) = say.emit(builder, [x, "last"])
    assert not log, "nothing runs while the graph is built"
    builder.finish([("y", builder.emit(gaf.dialects.graph.registry.by_gaf("neg"), [last]))])
    words = ["first", "same", "same", "constant", "last"]
    model.run({"x": G})
    assert log == words
    fused = gaf.fuse(model)
    log.clear()
    fused.run({"x": G}, engine="interpreter")
    assert log == words


def test_a_pure_opaque_op_is_merged_and_dropped() -> None:
    calls: list[int] = []

    @gaf.custom_op("t::f", "(x: f32[n]) -> f32[n]", opaque=True)
    def f(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        return 2 * x

    model = program_from_text("model m(x: f32[n]) { let unused = f(x + 1); f(x) + f(x) }", "t.gaf").model()
    run_pipeline(model.module, GRAPH_CLEANUP)
    assert ops(model).count("graph.custom") == 1
    np.testing.assert_allclose(model.run({"x": G})["y"], 4 * G)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: (x, x), "wrong number of results; expected 1, got 2"),
        (lambda x: None, "wrong number of results; expected 1, got 0"),
        (lambda x: x.astype(np.float64), r"another type for result 0; expected f32\[n\], got float64\[8\]"),
        (lambda x: x[None], "another type for result 0"),
    ],
)
def test_references_that_break_their_signature(result: Any, message: str) -> None:
    gaf.custom_op("t::f", "(x: f32[n]) -> f32[n]", opaque=True)(result)
    model = program_from_text("model m(x: f32[n]) { f(x) }", "t.gaf").model()
    with pytest.raises(InvalidInputError, match=message):
        model.run({"x": G})


def test_mutated_operands_can_not_be_written_as_onnx() -> None:
    gaf.custom_op("acme::write", "(c: f32[n]) -> f32[n]", opaque=True, mutates=["c"], onnx="com.acme.Write")(
        lambda c: c
    )
    model = program_from_text("model m(x: f32[n]) { let y = write(x); a = y, b = x }", "t.gaf").model()
    with pytest.raises(UnsupportedError, match="writes into its operands, which ONNX can't express"):
        export_model(model)
    with pytest.raises(InvalidInputError, match="writes into this argument"):
        program_from_text("model m(x: f32[n]) { write(x + 1) }", "t.gaf").model()
