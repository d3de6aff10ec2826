# SPDX-License-Identifier: Apache-2.0
"""Exported files give the same numbers in onnx.reference and onnxruntime, and come back as the same model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from xdsl.ir import Block, Operation, Region, SSAValue

from examples.onnx.transformers import MODELS, Size, bert
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import expr_from_text
from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.create import FullOp
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, WeightOp, YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.onnx import export_model, load_onnx
from tests.frontend.onnx_models import (
    assert_same,
    node,
    onnx_model,
    onnxruntime_results,
    random_inputs,
    reference,
    value,
)

SIZES = {"batch": 2, "sequence": 7}


def outline(
    model: Model, ops: Sequence[Operation], label: str, kind: str = "test", weights_inside: bool = False
) -> FusedOp:
    """Move consecutive ops of the main block into one fused op, as the fusion pass does."""
    inside = set(ops)
    operands = list(dict.fromkeys(o for op in ops for o in op.operands if o.owner not in inside))
    results = [r for op in ops for r in op.results if any(u.operation not in inside for u in r.uses)]
    block = Block(arg_types=[o.type for o in operands])
    copies: dict[SSAValue, SSAValue] = dict(zip(operands, block.args))
    for op in ops:
        copy = op.clone(copies)
        block.add_op(copy)
        copies.update(zip(op.results, copy.results))
    block.add_op(YieldOp.create(operands=[copies[r] for r in results]))
    fused = FusedOp.build_from(kind, label, operands, Region(block))
    model.block.insert_op_after(fused, ops[-1])
    for old, new in zip(results, fused.results):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.detach()
        op.erase()
    return fused


def fuse_runs(model: Model, length: int) -> Model:
    """Outline every run of `length` ops that are no constants."""
    model = model.clone()
    ops = [op for op in model.block.ops if isinstance(op, GraphOp)]
    # constants first, so that runs of other ops are consecutive
    first = model.block.first_op
    for op in ops:
        if isinstance(op, ConstantOp | WeightOp) and op is not first:
            op.detach()
            model.block.insert_op_before(op, first)
    others = [op for op in ops if not isinstance(op, ConstantOp | WeightOp)]
    for i in range(0, len(others) - length + 1, length):
        outline(model, others[i : i + length], f"kernel_{i // length}")
    model.module.verify()
    return model


@pytest.mark.parametrize("length", [0, 3, 9])
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str, length: int) -> None:
    source = MODELS[name](Size(decomposed=name == "gpt2"))
    model = load_onnx(source)
    if length:
        model = fuse_runs(model, length)
    proto = export_model(model)
    inputs = random_inputs(source, SIZES)
    expected = list(model.run(inputs).values())
    assert_same(reference(proto, inputs), expected, rtol=1e-4, atol=1e-5)
    assert_same(onnxruntime_results(proto, inputs), expected, rtol=1e-4, atol=1e-5)
    assert_same(list(load_onnx(proto).run(inputs).values()), expected, rtol=1e-4, atol=1e-5)
    for old, new in ((source.graph.input, proto.graph.input), (source.graph.output, proto.graph.output)):
        assert [v.SerializeToString() for v in new] == [v.SerializeToString() for v in old]
    assert bool(proto.functions) == bool(length)


def test_fused_ops_come_back() -> None:
    model = fuse_runs(load_onnx(bert(Size())), 6)
    again = load_onnx(export_model(model), keep_fused=True)
    before, after = ([op for op in m.block.ops if isinstance(op, FusedOp)] for m in (model, again))
    assert len(before) == len(after) > 5
    for a, b in zip(before, after):
        assert a.kind == b.kind and a.label == b.label
        assert [op.name for op in a.members if op.name != "graph.constant"] == [
            op.name for op in b.members if op.name != "graph.constant"
        ]
        assert [location_name(op) for op in a.members] == [
            location_name(op) for op in b.members if op.name != "graph.constant"
        ]
    again.module.verify()
    inputs = random_inputs(bert(Size()), SIZES)
    assert_same(list(again.run(inputs).values()), list(model.run(inputs).values()))


def gelu_layers(count: int) -> Model:
    """x * sigmoid(1.7 * x), `count` times, each outlined with its constant outside."""
    nodes, last = [], "x"
    for i in range(count):
        nodes += [
            node("Mul", [last, "k"], [f"m{i}"], name=f"layer{i}/mul"),
            node("Sigmoid", [f"m{i}"], [f"s{i}"], name=f"layer{i}/sigmoid"),
            node("Mul", [last, f"s{i}"], [f"x{i}"], name=f"layer{i}/out"),
        ]
        last = f"x{i}"
    return load_onnx(onnx_model(nodes, [value("x", ["n", 8])], [last], {"k": np.float32(1.7)}))


def test_equal_fused_ops_share_a_function() -> None:
    proto = export_model(fuse_runs(gelu_layers(4), 3))
    assert len(proto.functions) == 1
    calls = [n for n in proto.graph.node if n.domain == "gaf.fused"]
    assert [n.name for n in calls] == [f"kernel_{i}" for i in range(4)]
    members = [json.loads(n.metadata_props[0].value) for n in calls]
    assert members[2] == ["layer2/mul", "layer2/sigmoid", "layer2/out"]
    kernels = json.loads(next(p.value for p in proto.metadata_props if p.key == "gaf.kernels"))
    assert [k["name"] for k in kernels] == [f"kernel_{i}" for i in range(4)]
    assert {p.key for p in proto.metadata_props} >= {"gaf.version", "gaf.kernels"}


def test_without_functions() -> None:
    model = fuse_runs(gelu_layers(2), 3)
    proto = export_model(model, functions=False)
    assert not proto.functions and len(proto.graph.node) == 6
    inputs = {"x": np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)}
    assert_same(reference(proto, inputs), list(model.run(inputs).values()))


def test_sizes_inside_functions_are_computed_from_their_inputs_or_handed_over() -> None:
    """Reshape to [n, m, k] inside a function whose only operand is [n * m, k]: n and m come from outside."""
    nodes = [
        node("Reshape", ["x", "flat"], ["a"], name="flatten"),
        node("Relu", ["a"], ["b"], name="relu"),
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["b", "s"], ["c"], name="back"),
        node("Exp", ["c"], ["y"], name="exp"),
    ]
    source = onnx_model(nodes, [value("x", ["n", "m", 4])], ["y"], {"flat": np.array([-1, 4])})
    model = load_onnx(source)
    ops = [op for op in model.block.ops if isinstance(op, GraphOp) and not isinstance(op, ConstantOp)]
    assert [op.name for op in ops] == ["graph.reshape", "graph.relu", "graph.reshape", "graph.exp"]
    outline(model, ops[1:3], "back")
    proto = export_model(model)
    assert list(proto.functions[0].input) == ["x0", "size_m", "size_n"] or list(proto.functions[0].input) == [
        "x0",
        "size_n",
        "size_m",
    ]
    inputs = random_inputs(source, {"n": 3, "m": 5})
    expected = reference(source, inputs)
    assert_same(reference(proto, inputs), expected)
    assert_same(onnxruntime_results(proto, inputs), expected)
    again = load_onnx(proto, keep_fused=True)
    (fused,) = (op for op in again.block.ops if isinstance(op, FusedOp))
    assert len(fused.operands) == 1, "sizes became part of the types again"
    assert_same(list(again.run(inputs).values()), expected)


def test_weights_inside_fused_ops_become_inputs() -> None:
    model = load_onnx(
        onnx_model(
            [node("Add", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
            [value("x", [100])],
            ["y"],
            {"w": np.ones(100, np.float32)},
        )
    )
    outline(model, [op for op in model.block.ops if isinstance(op, GraphOp)], "all")
    proto = export_model(model)
    assert list(proto.functions[0].input) == ["x0", "weight"]
    inputs = {"x": np.linspace(-2, 2, 100, dtype=np.float32)}
    assert_same(onnxruntime_results(proto, inputs), list(model.run(inputs).values()))


def test_several_results_of_one_value() -> None:
    """An input, a constant and a computed value, each under two output names."""
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Identity", ["y"], ["z"]),
        node("Identity", ["x"], ["a"]),
        node("Identity", ["k"], ["b"]),
    ]
    model = load_onnx(
        onnx_model(nodes, [value("x", [2])], ["y", "z", "a", "x", "b", "k"], {"k": np.float32([7])})
    )
    proto = export_model(model)
    inputs = {"x": np.float32([-1, 2])}
    for got in (reference(proto, inputs), onnxruntime_results(proto, inputs)):
        assert [g.tolist() for g in got] == [[0, 2], [0, 2], [-1, 2], [-1, 2], [7], [7]]


def test_names_of_inner_values_cannot_clash_with_inputs_and_outputs() -> None:
    model = load_onnx(
        onnx_model([node("Exp", ["in"], ["a"]), node("Neg", ["a"], ["b"])], [value("in", [2])], ["b"])
    )
    model.block.first_op.results[0].name_hint = "b"
    proto = export_model(model)
    assert_same(reference(proto, {"in": np.zeros(2, np.float32)}), [np.float32([-1, -1])])


@pytest.mark.parametrize(("opset", "written"), [(13, 17), (17, 17), (20, 20), (22, 21)])
def test_opset_follows_the_model(opset: int, written: int) -> None:
    model = load_onnx(onnx_model([node("Relu", ["x"], ["y"])], [value("x", [2])], ["y"], opset=opset))
    proto = export_model(model)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", written)]
    assert proto.ir_version >= helper.find_min_ir_version_for(list(proto.opset_import))


def test_foreign_ops_are_written_as_they_were() -> None:
    source = onnx_model(
        [node("Det", ["x"], ["y"]), node("Compress", ["y", "c"], ["z"])],
        [value("x", ["n", 2, 2]), value("c", [3], onnx.TensorProto.BOOL)],
        ["z"],
    )
    proto = export_model(load_onnx(source))
    assert [n.op_type for n in proto.graph.node] == ["Det", "Compress"]
    inputs = {"x": np.arange(12, dtype=np.float32).reshape(3, 2, 2) ** 2, "c": np.array([1, 0, 1], bool)}
    assert_same(reference(proto, inputs), reference(source, inputs))


def test_foreign_op_that_changed_since_is_refused() -> None:
    source = onnx_model(
        [node("RoiAlign", ["x", "r", "b"], ["y"])],
        [value("x", [1, 1, 4, 4]), value("r", [1, 4]), value("b", [1], onnx.TensorProto.INT64)],
        ["y"],
        opset=10,
    )
    with pytest.raises(UnsupportedError, match="RoiAlign of opset 10 can't be written in opset 17"):
        export_model(load_onnx(source))


def test_external_data(tmp_path: Path) -> None:
    source = bert(Size())
    model = load_onnx(source)
    path = tmp_path / "big.onnx"
    export_model(model, path, external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.onnx", "big.onnx.data"]
    assert path.stat().st_size < 60_000 < (tmp_path / "big.onnx.data").stat().st_size
    inputs = random_inputs(source, SIZES)
    expected = list(model.run(inputs).values())
    assert_same(onnxruntime_results(str(path), inputs), expected, rtol=1e-4, atol=1e-5)
    assert_same(list(load_onnx(path).run(inputs).values()), expected)


def test_external_data_needs_a_path() -> None:
    with pytest.raises(InvalidInputError, match="external data needs a file name"):
        export_model(gelu_layers(1), external_data=True)


def test_same_model_same_bytes(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        export_model(fuse_runs(load_onnx(bert(Size())), 5), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize(
    ("expression", "sizes"),
    [
        ("n + m", {"n": 2, "m": 3}),
        ("2 * n - 1", {"n": 4}),
        ("n floordiv 2", {"n": 7}),
        ("n mod 3", {"n": 8}),
        ("min(n, 4)", {"n": 9}),
        ("max(n, m)", {"n": 2, "m": 6}),
        ("n * n", {"n": 3}),
    ],
)
def test_dims_are_computed_from_shapes(expression: str, sizes: dict[str, int]) -> None:
    dim = expr_from_text(expression)
    inputs = [(name, TensorType.of([name], dt.F32)) for name in sizes]
    model = new_model(inputs)
    op = FullOp.make([], {"shape": (dim,), "value": np.array(1, np.float32)})
    model.block.add_op(op)
    finish(model, [("y", op.results[0])])
    proto = export_model(model)
    arrays = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
    expected = dim.evaluate(sizes)
    assert reference(proto, arrays)[0].shape == (expected,)
    assert onnxruntime_results(proto, arrays)[0].shape == (expected,)
