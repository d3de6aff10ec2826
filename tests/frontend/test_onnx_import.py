# SPDX-License-Identifier: Apache-2.0
"""ONNX models become graph models: names, dims, weights, functions, branches and host fallbacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import gaf
from examples.onnx.transformers import MODELS, Size
from gaf.dialects.common.index import sym
from gaf.dialects.graph.contract import location_name
from gaf.dialects.graph.model import Model, conditions
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.errors import InvalidInputError
from gaf.frontend.onnx import export_model, load_onnx
from gaf.frontend.onnx.shapes import parse_input_shape
from tests.frontend.onnx_models import (
    BOOL,
    F32,
    I64,
    assert_same,
    node,
    onnx_model,
    random_inputs,
    reference,
    value,
)

SIZES = {"batch": 2, "sequence": 7}


def op_names(model: Model) -> list[str]:
    return [
        op.name.removeprefix("graph.")
        for op in model.block.ops
        if not isinstance(op, ConstantOp | WeightOp) and op.name != "func.return"
    ]


def locations(model: Model) -> list[str | None]:
    return [
        location_name(op)
        for op in model.block.ops
        if not isinstance(op, ConstantOp | WeightOp) and op.results
    ]


# -- whole models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_transformer_computes_what_onnx_reference_computes(name: str, decomposed: bool) -> None:
    proto = MODELS[name](Size(decomposed=decomposed))
    model = load_onnx(proto)
    inputs = random_inputs(proto, SIZES)
    expected = reference(proto, inputs)
    assert_same(list(model.run(inputs).values()), expected, rtol=1e-4, atol=1e-5)
    wide = list(model.run(inputs, wide=True).values())
    np.testing.assert_allclose(wide[0], expected[0], rtol=1e-3, atol=1e-4)
    assert not model.fallbacks
    model.module.verify()
    assert model.num_ops == len([n for n in proto.graph.node if n.op_type != "Identity"])


@pytest.mark.parametrize("name", MODELS)
def test_shape_arithmetic_vanishes(name: str) -> None:
    """Shape -> Gather -> Unsqueeze -> Concat -> Reshape chains leave only the reshape."""
    proto = MODELS[name](Size())
    assert sum(n.op_type == "Shape" for n in proto.graph.node) > 1
    names = op_names(load_onnx(proto))
    assert "shape" not in names
    # what is left of these is about data: tokens, class token, rotated halves, masks
    assert (
        names.count("concat")
        == sum(n.op_type == "Concat" for n in proto.graph.node)
        - {"bert": 6, "gpt2": 6, "vit": 7, "llama": 7}[name]
    )


def test_names_and_locations() -> None:
    proto = onnx_model(
        [node("Relu", ["in.put"], ["h/a"], name="block/relu"), node("Exp", ["h/a"], ["out put"])],
        [value("in.put", [2])],
        ["out put"],
    )
    model = load_onnx(proto)
    assert model.input_names == ["in.put"] and model.output_names == ["out put"]
    assert locations(model) == ["block/relu", "Exp_1"]
    text = str(model.module)
    assert "%in_put" in text and "%h_a" in text and "%out_put" in text


def test_output_can_be_an_input_or_a_weight() -> None:
    proto = onnx_model([], [value("x", [2])], ["x", "w"], {"w": np.float32([1, 2, 3])})
    got = load_onnx(proto).run({"x": np.float32([4, 5])})
    assert got["x"].tolist() == [4, 5] and got["w"].tolist() == [1, 2, 3]


def test_nodes_in_any_order_are_sorted() -> None:
    nodes = [node("Exp", ["b"], ["y"]), node("Neg", ["a"], ["b"]), node("Relu", ["x"], ["a"])]
    model = load_onnx(onnx_model(nodes, [value("x", [2])], ["y"]))
    assert op_names(model) == ["relu", "neg", "exp"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_sizes_zero_and_one(size: int) -> None:
    proto = onnx_model(
        [node("Softmax", ["x"], ["s"], axis=-1), node("ReduceSum", ["s"], ["y"], keepdims=0)],
        [value("x", ["n", 4])],
        ["s", "y"],
    )
    inputs = {"x": np.random.default_rng(0).standard_normal((size, 4)).astype(np.float32)}
    assert_same(list(load_onnx(proto).run(inputs).values()), reference(proto, inputs))


# -- dims of inputs ---------------------------------------------------------------------------------


def one_input(shape: list[int | str | None]) -> onnx.ModelProto:
    return onnx_model([node("Relu", ["x"], ["y"])], [value("x", shape)], ["y"])


def test_named_dims_are_symbols() -> None:
    (x,) = load_onnx(one_input(["batch", "past + 1", 3])).input_types
    assert x.shape == (sym("batch"), sym("past") + 1, 3)


def test_unnamed_dims_get_names_and_notes() -> None:
    proto = one_input([None, "?", "seq len", "d0"])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    model = load_onnx(proto)
    assert [str(d) for d in model.input_types[0].shape] == ["x_0", "x_1", "seq_len", "d0_"]
    assert any("axis 0 of input 'x'" in n and "x_0" in n for n in model.notes)
    assert any("'seq len'" in n and "seq_len" in n for n in model.notes)


def test_override_binds_a_name_wherever_it_occurs() -> None:
    proto = onnx_model(
        [node("Add", ["a", "b"], ["y"])], [value("a", ["n", "m"]), value("b", ["n", "m"])], ["y"]
    )
    model = load_onnx(proto, {"a": (4, None)})
    assert [str(t) for t in model.input_types] == ["f32[4, m]"] * 2
    renamed = load_onnx(proto, {"b": ("rows", "?")})
    assert [str(t) for t in renamed.input_types] == ["f32[rows, m]"] * 2


def test_override_gives_an_unranked_input_its_shape() -> None:
    proto = onnx_model([node("Relu", ["x"], ["y"])], [value("x", None)], ["y"])
    with pytest.raises(InvalidInputError, match="how many dims.*\n.*--input-shape x:"):
        load_onnx(proto)
    assert [str(t) for t in load_onnx(proto, {"x": (2, "S")}).input_types] == ["f32[2, S]"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "no input 'z'; expected x"),
        ({"x": (1,)}, "wrong number of dims; expected 2 dims: .n, 3., got .1."),
        ({"x": (1, 4)}, "axis 1 has a fixed size; expected 3, got 4"),
        ({"x": (-2, 3)}, "axis 0 has a negative size"),
        ({"x": ("a b", 3)}, "'a b' is not a dim"),
        ({"x": (1.5, 3)}, "axis 0 must be a number, a name or None; got 1.5"),
    ],
)
def test_overrides_that_do_not_fit(shapes: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        load_onnx(one_input(["n", 3]), shapes)


def test_contradicting_overrides() -> None:
    proto = onnx_model([node("Add", ["a", "b"], ["y"])], [value("a", ["n"]), value("b", ["n"])], ["y"])
    with pytest.raises(InvalidInputError, match="dim n is given two sizes; expected 3 as in .*'a', got 4"):
        load_onnx(proto, {"a": (3,), "b": (4,)})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("x:1,S,768", ("x", (1, "S", 768))),
        ("a:b:2", ("a:b", (2,))),
        ("x:", ("x", ())),
        ("x: -1, 4", ("x", (-1, 4))),
    ],
)
def test_parse_input_shape(text: str, parsed: object) -> None:
    assert parse_input_shape(text) == parsed


def test_parse_input_shape_refuses() -> None:
    with pytest.raises(InvalidInputError, match="expected NAME:DIM"):
        parse_input_shape("1,2,3")


# -- weights ----------------------------------------------------------------------------------------


def test_weights_stay_out_of_the_ir() -> None:
    proto = onnx_model(
        [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])],
        [value("x", [2, 16])],
        ["y"],
        {"w": np.arange(128, dtype=np.float32).reshape(16, 8), "b": np.ones(8, np.float32)},
    )
    model = load_onnx(proto)
    assert list(model.weights) == ["w"]
    assert "graph.weight" in str(model.module) and len(str(model.module)) < 2000
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)}
    assert_same(list(model.run(inputs).values()), reference(proto, inputs))


def test_initializer_that_is_also_an_input_is_a_constant() -> None:
    proto = onnx_model(
        [node("Add", ["x", "w"], ["y"])], [value("x", [2]), value("w", [2])], ["y"], {"w": np.float32([1, 2])}
    )
    assert load_onnx(proto).input_names == ["x"]


def external_model(folder: Path, **changes: str) -> Path:
    """A model whose weight w (f32[100, 2]) lies in weights.bin at offset 16."""
    array = np.arange(200, dtype=np.float32).reshape(100, 2)
    (folder / "weights.bin").write_bytes(b"\0" * 16 + array.tobytes())
    proto = onnx_model([node("Add", ["x", "w"], ["y"])], [value("x", [100, 2])], ["y"], {"w": array})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": "weights.bin", "offset": "16", "length": "800"} | changes
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_weights_are_mapped(tmp_path: Path) -> None:
    model = load_onnx(external_model(tmp_path))
    w = model.weights["w"]
    assert (
        isinstance(w, np.memmap)
        or isinstance(w.base, np.memmap)
        or isinstance(getattr(w.base, "base", None), np.memmap)
    )
    got = model.run({"x": np.zeros((100, 2), np.float32)})["y"]
    assert got[-1].tolist() == [198.0, 199.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"location": "missing.bin"}, "tensor 'w': the external data file 'missing.bin' is missing"),
        ({"location": "../weights.bin"}, "must lie in the model's folder; got '../weights.bin'"),
        ({"location": "/etc/passwd"}, "must lie in the model's folder"),
        (
            {"offset": "1000"},
            "expected 800 bytes for f32.100, 2. inside the file's 816 bytes, got 800 bytes at offset 1000",
        ),
        ({"length": "8"}, "doesn't fit; expected 800 bytes"),
        ({"offset": "x"}, "offset and length must be integers"),
    ],
)
def test_external_weights_that_are_wrong(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        load_onnx(external_model(tmp_path, **changes))


def test_external_weights_need_a_folder(tmp_path: Path) -> None:
    proto = onnx.load(external_model(tmp_path), load_external_data=False)
    with pytest.raises(InvalidInputError, match="not read from a file"):
        load_onnx(proto)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "u1", "i2", "u2", "i4", "i8", "u4", "u8", "?"])
@pytest.mark.parametrize("raw", [True, False])
def test_initializers_of_every_dtype(dtype: str, raw: bool) -> None:
    array = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    tensor = numpy_helper.from_array(array, "w")
    if not raw:
        values = array.view(np.uint16).reshape(-1) if dtype == "f2" else array.reshape(-1)
        tensor = (
            helper.make_tensor("w", tensor.data_type, array.shape, values, raw=False)
            if dtype != "f2"
            else tensor
        )
    proto = onnx_model([node("Identity", ["w"], ["y"])], [], ["y"])
    proto.graph.initializer.append(tensor)
    (got,) = load_onnx(proto).run({}).values()
    assert got.dtype == array.dtype and (got == array).all()


# -- optional inputs, functions, branches ----------------------------------------------------------------


def test_optional_inputs_left_out() -> None:
    proto = onnx_model(
        [node("Clip", ["x", "", "hi"], ["a"]), node("Clip", ["x", "lo"], ["b"]), node("Clip", ["x"], ["c"])],
        [value("x", [5])],
        ["a", "b", "c"],
        {"hi": np.float32(0.5), "lo": np.float32(-0.5)},
        opset=13,
    )
    inputs = {"x": np.linspace(-1, 1, 5, dtype=np.float32)}
    assert_same(list(load_onnx(proto).run(inputs).values()), reference(proto, inputs))


def scale_function() -> onnx.FunctionProto:
    """Scale(x, bias?) <factor = 2.0, shift> = x * factor + shift (+ bias)."""
    nodes = [
        node("Constant", [], ["f"]),
        node("Constant", [], ["s"]),
        node("Mul", ["x", "f"], ["m"], name="times"),
        node("Add", ["m", "s"], ["y"]),
    ]
    for n, ref in zip(nodes, ("factor", "shift")):
        attribute = n.attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT)
        attribute.ref_attr_name = ref
    return helper.make_function(
        "acme",
        "Scale",
        ["x", "bias"],
        ["y"],
        nodes,
        [helper.make_opsetid("", 17)],
        attributes=["shift"],
        attribute_protos=[helper.make_attribute("factor", 2.0)],
    )


def test_local_functions_are_inlined() -> None:
    outer = helper.make_function(
        "acme",
        "Twice",
        ["x"],
        ["y"],
        [
            node("Scale", ["x"], ["t"], domain="acme", name="first", shift=1.0),
            node("Scale", ["t"], ["y"], domain="acme", factor=3.0, shift=0.5),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)],
    )
    proto = onnx_model(
        [node("Twice", ["x"], ["y"], domain="acme", name="call")],
        [value("x", [3])],
        ["y"],
        functions=[scale_function(), outer],
        domains=["acme"],
    )
    model = load_onnx(proto)
    assert model.run({"x": np.float32([0, 1, 2])})["y"].tolist() == [3.5, 9.5, 15.5]
    assert "call/first/times" in locations(model)


def test_recursive_function_is_refused() -> None:
    loop = helper.make_function(
        "acme",
        "Loop",
        ["x"],
        ["y"],
        [node("Loop", ["x"], ["y"], domain="acme")],
        [helper.make_opsetid("acme", 1)],
    )
    proto = onnx_model(
        [node("Loop", ["x"], ["y"], domain="acme")],
        [value("x", [3])],
        ["y"],
        functions=[loop],
        domains=["acme"],
    )
    with pytest.raises(InvalidInputError, match="acme.Loop calls itself"):
        load_onnx(proto)


def test_functions_nest_deeper_than_the_python_stack() -> None:
    functions, depth = [], 1500
    for i in range(depth):
        inner = (
            node("Neg", ["x"], ["y"]) if i == 0 else node(f"F{i - 1}", ["x"], ["y"], domain="acme", name="n")
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
        functions.append(helper.make_function("acme", f"F{i}", ["x"], ["y"], [inner], opsets))
    proto = onnx_model(
        [node(f"F{depth - 1}", ["x"], ["y"], domain="acme")],
        [value("x", [2])],
        ["y"],
        functions=functions,
        domains=["acme"],
    )
    assert load_onnx(proto).run({"x": np.float32([1, 2])})["y"].tolist() == [-1, -2]


def if_model(condition: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """y = x * k if the condition holds, else x - k; both branches capture x and k."""
    branches = {}
    for name, op_type in (("then_branch", "Mul"), ("else_branch", "Sub")):
        inner = [node(op_type, ["x", "k"], ["t"], name=op_type.lower())]
        branches[name] = helper.make_graph(inner, name, [], [value("t", None)])
    return onnx_model(
        [*condition, node("If", ["c"], ["r"], name="choice", **branches), node("Neg", ["r"], ["y"])],
        [value("x", ["n", 3])],
        ["y"],
        {"k": np.float32(4), **weights},
    )


@pytest.mark.parametrize("taken", [True, False])
def test_if_with_constant_condition(taken: bool) -> None:
    model = load_onnx(if_model([], {"c": np.array(taken)}))
    assert op_names(model) == ["mul" if taken else "sub", "neg"]
    assert locations(model)[0] == ("choice/mul" if taken else "choice/sub")


def test_if_on_the_rank_is_constant() -> None:
    """The form that TorchScript exports for `if x.dim() == 2`."""
    condition = [
        node("Shape", ["x"], ["s"]),
        node("Size", ["s"], ["rank"]),
        node("Equal", ["rank", "two"], ["c"]),
    ]
    assert op_names(load_onnx(if_model(condition, {"two": np.int64(2)}))) == ["mul", "neg"]


# -- ops that gaf has no class for ----------------------------------------------------------------------


def test_unknown_op_with_reference_runs_on_the_host() -> None:
    proto = onnx_model(
        [
            node("Relu", ["x"], ["r"]),
            node("Det", ["r"], ["y"], name="area"),
            node("Det", ["m"], ["d"]),
        ],
        [value("x", ["n", 2, 2]), value("m", ["n", 3, 3])],
        ["y", "d"],
    )
    model = load_onnx(proto)
    assert model.fallbacks == {"Det": ["area", "Det_2"]}
    assert [str(t) for t in model.output_types] == ["f32[n]", "f32[n]"]
    inputs = random_inputs(proto, {"n": 2})
    assert_same(list(model.run(inputs).values()), reference(proto, inputs))
    wide = list(model.run(inputs, wide=True).values())
    assert wide[0].dtype == np.float64
    np.testing.assert_allclose(wide[0], reference(proto, inputs)[0], rtol=1e-5)


def test_foreign_op_round_trips_as_text() -> None:
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser

    from gaf.dialects.graph import Graph

    proto = onnx_model([node("Det", ["x"], ["y"])], [value("x", ["n", 4, 4])], ["y"])
    module = load_onnx(proto).module
    context = Context()
    for dialect in (Builtin, Func, Graph):
        context.load_dialect(dialect)
    again = Parser(context, str(module)).parse_module()
    again.verify()
    assert str(again) == str(module)
    assert any(isinstance(op, ForeignOp) for op in again.walk())


def test_new_sizes_of_host_ops_are_symbols() -> None:
    proto = onnx_model(
        [node("Compress", ["x", "c"], ["y"], axis=0)], [value("x", [5, 2]), value("c", [5], BOOL)], ["y"]
    )
    model = load_onnx(proto)
    (y,) = model.output_types
    assert y.shape[0].as_name() is not None and y.shape[1] == 2
    inputs = {"x": np.arange(10, dtype=np.float32).reshape(5, 2), "c": np.array([1, 0, 1, 1, 0], bool)}
    assert_same(list(model.run(inputs).values()), reference(proto, inputs))


def test_ops_that_onnx_defines_by_a_function_are_decomposed() -> None:
    proto = onnx_model(
        [node("MeanVarianceNormalization", ["x"], ["y"], name="mvn")], [value("x", [2, 3, 4, 4])], ["y"]
    )
    model = load_onnx(proto)
    assert not model.fallbacks and len(op_names(model)) > 3
    assert all(name and name.startswith("mvn/") for name in locations(model))
    inputs = random_inputs(proto, {})
    assert_same(list(model.run(inputs).values()), reference(proto, inputs), rtol=1e-4, atol=1e-5)


def test_random_ops_are_neither_merged_nor_dropped() -> None:
    proto = onnx_model(
        [node("RandomNormalLike", ["x"], ["a"]), node("RandomNormalLike", ["x"], ["b"])], [value("x", [3])], ["a", "b"]
    )
    model = load_onnx(proto)
    assert op_names(model).count("random_normal") == 2
    a, b = model.run({"x": np.zeros(3, np.float32)}).values()
    assert (a != b).all()


def test_variant_that_an_op_does_not_take_runs_on_the_host() -> None:
    """CumSum along an axis that is known only at run time."""
    nodes = [node("CumSum", ["x", "axis"], ["y"])]
    proto = onnx_model(nodes, [value("x", [3, 4]), value("axis", [], I64)], ["y"])
    model = load_onnx(proto)
    assert model.fallbacks == {"CumSum": ["CumSum_0"]}
    assert any("CumSum_0" in note and "on the host" in note for note in model.notes)
    inputs = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "axis": np.array(1)}
    assert_same(list(model.run(inputs).values()), reference(proto, inputs))


def test_declared_output_shape_that_differs_is_a_note() -> None:
    proto = onnx_model([node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [3, 2], F32)])
    assert any("declares output 'y' as [3, 2]" in n for n in load_onnx(proto).notes)


# -- sizes that have to be equal -------------------------------------------------------------------------


def halves() -> Model:
    """x plus every second column of itself repeated: defined where the columns are even."""
    nodes = [
        node("MaxPool", ["x"], ["small"], kernel_shape=[1, 2], strides=[1, 2], ceil_mode=1),
        node("Concat", ["small", "small"], ["wide"], axis=3),
        node("Add", ["x", "wide"], ["y"], name="join"),
    ]
    return load_onnx(onnx_model(nodes, [value("x", ["b", 3, "h", "w"])], ["y"]))


def test_sizes_that_may_be_equal_are_checked_at_run_time() -> None:
    model = halves()
    assert [str(d) for d in model.output_types[0].shape] == ["b", "3", "h", "w"]
    assert any(note.startswith("join needs ((w + 1) floordiv 2) * 2 to be w") for note in model.notes)
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)
    small = x.reshape(2, 3, 5, 3, 2).max(-1)
    np.testing.assert_array_equal(model.run({"x": x})["y"], x + np.concatenate([small, small], 3))
    with pytest.raises(InvalidInputError, match=r"condition.*expected .*== w, got w = 5"):
        model.run({"x": x[..., :5]})


def test_assumed_sizes_hold_in_kernels_and_in_saved_models() -> None:
    fused = gaf.fuse(halves())
    assert fused.verify(engine="interpreter").ok  # finds sizes that the condition allows
    with pytest.raises(InvalidInputError, match="condition"):
        fused.run({"x": np.zeros((1, 3, 2, 5), np.float32)}, engine="interpreter")
    again = load_onnx(export_model(fused.model))
    x = np.random.default_rng(1).standard_normal((1, 3, 2, 8)).astype(np.float32)
    np.testing.assert_allclose(again.run({"x": x})["y"], halves().run({"x": x})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "needs"),
    [
        ("Add", [["a", 4], ["b", 4]], {}, "b == a"),
        ("Add", [["a", 4], [5, 4]], {}, "a == 5"),
        ("MatMul", [[3, "a"], ["b", 4]], {}, "b == a"),
        ("MatMul", [["n", 3, 4], ["m", 4, 2]], {}, "n == m"),
        ("Concat", [["a", 2], ["b", 3]], {"axis": 1}, "b == a"),
        ("Where", [["a"], ["b"], ["a"]], {}, "b == a"),
        ("Gemm", [["a", "k"], ["j", 3]], {}, "j == k"),
    ],
)
def test_every_op_that_needs_equal_sizes(op: str, shapes: list[list[object]], attrs: dict, needs: str) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    kinds = [BOOL if op == "Where" and not i else F32 for i in range(len(shapes))]
    inputs = [value(n, s, k) for n, s, k in zip(names, shapes, kinds)]
    proto = onnx_model([node(op, names, ["y"], **attrs)], inputs, ["y"])
    model = load_onnx(proto)
    assert [c.text for c in conditions(model)] == [needs] or [c.text for c in conditions(model)] == [
        " == ".join(reversed(needs.split(" == ")))
    ]
    rng = np.random.default_rng(0)
    arrays = {
        n: np.asarray(rng.standard_normal([d if isinstance(d, int) else 5 for d in s])).astype(t.dtype.numpy)
        for n, s, t in zip(names, shapes, model.input_types)
    }
    assert_same(list(model.run(arrays).values()), reference(proto, arrays))


def test_a_size_that_only_the_run_shows_is_checked_when_it_is_known() -> None:
    nodes = [
        node("NonZero", ["x"], ["where"]),
        node("Cast", ["where"], ["z"], to=F32),
        node("Add", ["z", "bias"], ["y"]),
    ]
    fused = gaf.fuse(load_onnx(onnx_model(nodes, [value("x", [8]), value("bias", ["n"])], ["y"])))
    x, bias = np.float32([0, 1, 0, 2, 3, 0, 0, 0]), np.float32([1, 2, 3])
    np.testing.assert_array_equal(fused.run({"x": x, "bias": bias}, engine="interpreter")["y"], [[2, 5, 7]])
    with pytest.raises(InvalidInputError, match="equal|condition"):
        fused.run({"x": x, "bias": np.float32([1, 2])}, engine="interpreter")


@pytest.mark.parametrize("size", [1, 4, 5])
def test_local_response_norm_counts_channels_not_the_batch(size: int) -> None:
    """onnx.reference is wrong where batch and channels differ; the formula of ONNX's text is the judge."""
    proto = onnx_model(
        [node("LRN", ["x"], ["y"], size=size, alpha=0.1, bias=2.0)], [value("x", ["N", 7, 3, 2])], ["y"]
    )
    model = load_onnx(proto)
    assert not model.fallbacks
    x = np.random.default_rng(0).standard_normal((2, 7, 3, 2)).astype(np.float32)
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)])
    near = sum(squares[:, i : i + 7] for i in range(size))
    np.testing.assert_allclose(model.run({"x": x})["y"], x / (2.0 + 0.1 / size * near) ** 0.75, rtol=1e-5)
