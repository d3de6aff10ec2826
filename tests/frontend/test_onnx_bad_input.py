# SPDX-License-Identifier: Apache-2.0
"""Bad input gives one clear message with a documented exit code: never a traceback, never a guess."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from examples.onnx.transformers import Size, bert
from gaf.errors import EXIT_INVALID, EXIT_UNSUPPORTED, GafError, InternalError
from gaf.frontend.load import load_model
from gaf.frontend.onnx import load_onnx
from gaf.tools.gaf_opt import main as gaf_opt
from tests.frontend.onnx_models import BOOL, F32, node, onnx_model, value

X = [value("x", [2, 3])]


def mutated(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    """A good model (Relu, then Exp) after `change`."""
    proto = onnx_model(
        [node("Relu", ["x"], ["h"], name="relu"), node("Exp", ["h"], ["y"], name="exp")], X, ["y"]
    )
    change(proto)
    return proto


def sequence_input(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, [2]))
    )


def sparse_weight(proto: onnx.ModelProto) -> None:
    values = helper.make_tensor("sp", F32, [1], [1.0])
    indices = helper.make_tensor("i", onnx.TensorProto.INT64, [1], [0])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))


def short_weight(proto: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    tensor.raw_data = tensor.raw_data[:10]
    proto.graph.initializer.append(tensor)
    proto.graph.node[0].input[0] = "w"


def string_weight(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(numpy_helper.from_array(np.array(["a", "b"], object), "w"))
    proto.graph.node[0].input[0] = "w"


def two_weights(proto: onnx.ModelProto) -> None:
    for _ in range(2):
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "w"))


CASES: dict[str, tuple[onnx.ModelProto, int, list[str]]] = {
    "undefined value": (
        mutated(lambda m: m.graph.node[1].input.__setitem__(0, "nowhere")),
        EXIT_INVALID,
        ["node 'exp' (Exp)", "the value 'nowhere' is used but not defined"],
    ),
    "undefined output": (
        mutated(lambda m: m.graph.output[0].ParseFromString(value("z", [1]).SerializeToString())),
        EXIT_INVALID,
        ["output 'z'", "not defined"],
    ),
    "cycle": (
        mutated(lambda m: m.graph.node[0].input.__setitem__(0, "y")),
        EXIT_INVALID,
        ["the nodes form a cycle", "'exp' -> 'relu' -> 'exp'"],
    ),
    "value defined twice": (
        mutated(lambda m: m.graph.node[1].output.__setitem__(0, "h")),
        EXIT_INVALID,
        ["'h' is defined twice", "'exp'", "by relu"],
    ),
    "input defined again": (
        mutated(lambda m: m.graph.node[1].output.__setitem__(0, "x")),
        EXIT_INVALID,
        ["'x' is defined twice", "inputs"],
    ),
    "two inputs of one name": (
        mutated(lambda m: m.graph.input.append(m.graph.input[0])),
        EXIT_INVALID,
        ["two inputs are called 'x'"],
    ),
    "two outputs of one name": (
        mutated(lambda m: m.graph.output.append(m.graph.output[0])),
        EXIT_INVALID,
        ["two outputs are called 'y'"],
    ),
    "two weights of one name": (mutated(two_weights), EXIT_INVALID, ["two initializers are called 'w'"]),
    "input without type": (
        mutated(lambda m: m.graph.input[0].ClearField("type")),
        EXIT_INVALID,
        ["'x': it has no type"],
    ),
    "sequence input": (
        mutated(sequence_input),
        EXIT_UNSUPPORTED,
        ["'x': sequence values are not supported", "expected tensors"],
    ),
    "string input": (
        onnx_model([node("Identity", ["x"], ["y"])], [value("x", [2], onnx.TensorProto.STRING)], ["y"]),
        EXIT_UNSUPPORTED,
        ["input 'x'", "ONNX element type string is not supported"],
    ),
    "complex input": (
        onnx_model([node("Identity", ["x"], ["y"])], [value("x", [2], onnx.TensorProto.COMPLEX64)], ["y"]),
        EXIT_UNSUPPORTED,
        ["input 'x'", "complex64 is not supported"],
    ),
    "sparse weight": (
        mutated(sparse_weight),
        EXIT_UNSUPPORTED,
        ["sparse initializers are not supported; got 'sp'"],
    ),
    "string weight": (mutated(string_weight), EXIT_UNSUPPORTED, ["tensor 'w'", "string is not supported"]),
    "weight without its data": (
        mutated(short_weight),
        EXIT_INVALID,
        ["tensor 'w'", "expected 16 bytes for f32[4], got 10 bytes"],
    ),
    "no opset": (mutated(lambda m: m.ClearField("opset_import")), EXIT_INVALID, ["the model names no opset"]),
    "only a custom opset": (
        mutated(lambda m: m.opset_import[0].__setattr__("domain", "acme")),
        EXIT_INVALID,
        ["uses the standard ops but names no version"],
    ),
    "old opset": (
        mutated(lambda m: m.opset_import[0].__setattr__("version", 6)),
        EXIT_UNSUPPORTED,
        ["expected 7..", "got 6", "version_converter"],
    ),
    "future opset": (
        mutated(lambda m: m.opset_import[0].__setattr__("version", 999)),
        EXIT_UNSUPPORTED,
        ["got 999", "newer onnx"],
    ),
    "empty graph": (mutated(lambda m: m.graph.Clear()), EXIT_INVALID, ["no nodes and no outputs"]),
    "too few inputs": (
        onnx_model([node("Add", ["x"], ["y"], name="sum")], X, ["y"]),
        EXIT_INVALID,
        ["node 'sum' (Add)", "wrong number of inputs", "expected 2, got 1"],
    ),
    "too many inputs": (
        onnx_model([node("Relu", ["x", "x"], ["y"])], X, ["y"]),
        EXIT_INVALID,
        ["wrong number of inputs; expected 1, got 2"],
    ),
    "too many outputs": (
        onnx_model([node("Relu", ["x"], ["y", "z"])], X, ["y"]),
        EXIT_INVALID,
        ["too many outputs; expected at most 1, got 2"],
    ),
    "required input left out": (
        onnx_model([node("Add", ["", "x"], ["y"])], X, ["y"]),
        EXIT_INVALID,
        ["input 0 may not be left out"],
    ),
    "unknown attribute": (
        onnx_model([node("Relu", ["x"], ["y"], alpha=1.0)], X, ["y"]),
        EXIT_INVALID,
        ["unknown attribute 'alpha' for opset 17"],
    ),
    "attribute of the wrong type": (
        onnx_model([node("Softmax", ["x"], ["y"], axis=1.5)], X, ["y"]),
        EXIT_INVALID,
        ["attribute 'axis' has the wrong type; expected INT, got FLOAT"],
    ),
    "attribute missing": (
        onnx_model([node("Cast", ["x"], ["y"])], X, ["y"]),
        EXIT_INVALID,
        ["attribute 'to' is missing"],
    ),
    "shapes that don't broadcast": (
        onnx_model([node("Add", ["x", "w"], ["y"], name="sum")], X, ["y"], {"w": np.zeros(4, np.float32)}),
        EXIT_INVALID,
        ["node 'sum' (Add)", "shapes don't broadcast", "[2, 3] and [4]"],
    ),
    "matmul of the wrong sizes": (
        onnx_model([node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": np.zeros((2, 2), np.float32)}),
        EXIT_INVALID,
        ["node 'MatMul_0'", "3", "2"],
    ),
    "element types that differ": (
        onnx_model([node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.zeros(3, np.float16)}),
        EXIT_INVALID,
        ["different element types; expected f32, got f16"],
    ),
    "declared output of another element type": (
        onnx_model([node("Relu", ["x"], ["y"])], X, [value("y", [2, 3], BOOL)]),
        EXIT_INVALID,
        ["output 'y'", "expected i1, got f32"],
    ),
    "axis out of range": (
        onnx_model([node("Softmax", ["x"], ["y"], axis=5)], X, ["y"]),
        EXIT_INVALID,
        ["axis", "got 5"],
    ),
    "host op with wrong shapes": (
        onnx_model([node("Det", ["x"], ["y"], name="det")], X, ["y"]),
        EXIT_INVALID,
        ["node 'det' (Det)", "ONNX shape inference refuses this node"],
    ),
    "sparse constant": (
        onnx_model(
            [
                helper.make_node(
                    "Constant",
                    [],
                    ["y"],
                    sparse_value=helper.make_sparse_tensor(
                        helper.make_tensor("v", F32, [1], [1.0]),
                        helper.make_tensor("i", onnx.TensorProto.INT64, [1], [0]),
                        [4],
                    ),
                )
            ],
            X,
            ["y"],
        ),
        EXIT_UNSUPPORTED,
        ["sparse constants are not supported"],
    ),
    "loop": (
        onnx_model(
            [node("Loop", ["n", "", "x"], ["y"], name="loop", body=helper.make_graph([], "b", [], []))],
            X,
            ["y"],
            {"n": np.int64(3)},
        ),
        EXIT_INVALID,
        ["node 'loop' (Loop)", "the body doesn't fit the loop", "expected 3 inputs and at least 2 outputs"],
    ),
    "sequence op": (
        onnx_model([node("SequenceConstruct", ["x"], ["y"])], X, ["y"]),
        EXIT_UNSUPPORTED,
        ["SequenceConstruct x1", "only tensors"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_and_exit_code(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto, code, parts = CASES[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert gaf_opt([str(path)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(path) in captured.err and "Traceback" not in captured.err
    for part in parts:
        assert part in captured.err, captured.err


def test_all_unsupported_ops_in_one_message() -> None:
    nodes = [node("Gelu", ["x"], [f"g{i}"], domain="com.acme", name=f"gate_{i}") for i in range(5)]
    nodes += [
        node("Relo", ["x"], ["r"], name="typo"),
        node("Gelu", ["x"], ["m"], domain="com.microsoft.nothere"),
    ]
    proto = onnx_model(nodes, X, ["r"], domains=["com.acme", "com.microsoft.nothere"])
    with pytest.raises(GafError) as caught:
        load_onnx(proto)
    text = str(caught.value)
    assert caught.value.exit_code == EXIT_UNSUPPORTED
    assert "3 op types are not supported (7 nodes)" in text
    assert "com.acme.Gelu x5: gate_0, gate_1, gate_2, ..." in text
    assert "Relo x1: typo (nearest supported name: Relu)" in text
    assert "nearest supported name: Gelu" not in text, "a name says nothing in another domain"
    assert "hint: ways out:" in text


def test_unsupported_op_inside_a_function_is_found_before_the_import() -> None:
    function = helper.make_function(
        "acme",
        "Block",
        ["x"],
        ["y"],
        [node("Gate", ["x"], ["y"], domain="other", name="inner")],
        [helper.make_opsetid("other", 1)],
    )
    proto = onnx_model(
        [node("Block", ["x"], ["y"], domain="acme", name="call")],
        X,
        ["y"],
        functions=[function],
        domains=["acme"],
    )
    with pytest.raises(GafError, match="other.Gate x1: call/inner"):
        load_onnx(proto)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", ["the file is empty"]),
        (b"hello world, this is text", ["not an ONNX model, or the file is truncated"]),
        (b"PK\x03\x04rest", ["not an ONNX model", "zip archive", "torch.onnx.export"]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", ["Git LFS pointer", "git lfs pull"]),
        (b"<!DOCTYPE html><html>", ["HTML page", "download"]),
        (b"\x89HDF\r\n\x1a\n", ["HDF5"]),
        (b"\x80\x04\x95", ["pickle", "never loads pickles"]),
        (
            numpy_helper.from_array(np.arange(100, dtype=np.float32), "t").SerializeToString(),
            ["not an ONNX model"],
        ),
    ],
)
def test_files_that_are_not_onnx(data: bytes, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(GafError) as caught:
        load_model(path)
    assert caught.value.exit_code == EXIT_INVALID
    for part in (str(path), *parts):
        assert part in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(GafError, match="there is no such file"):
        load_model(tmp_path / "no.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(GafError, match="this is a folder"):
        load_model(tmp_path / "folder.onnx")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m.pb", "TensorFlow graph"),
        ("m.safetensors", "weights without a graph"),
        ("m.pkl", "pickle"),
    ],
)
def test_other_kinds_of_files(name: str, message: str) -> None:
    with pytest.raises(GafError, match=message) as caught:
        load_model(name)
    assert caught.value.exit_code == EXIT_UNSUPPORTED and "hint:" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"), [(b"x", "bytes are not a model"), (3, "got int"), (None, "got NoneType")]
)
def test_other_kinds_of_objects(source: object, message: str) -> None:
    with pytest.raises(GafError, match=message):
        load_model(source)


def test_objects_that_only_look_like_modules() -> None:
    class Module:
        def state_dict(self) -> dict:
            return {}

    with pytest.raises(GafError, match="this is not a model; expected .onnx file"):
        load_model(Module())


# -- damaged files --------------------------------------------------------------------------------------

GOOD = bert(Size(layers=1, hidden=8, heads=2, vocab=20, positions=16)).SerializeToString()


def loads_or_complains(data: bytes, path: Path) -> bool:
    path.write_bytes(data)
    try:
        load_model(path)
    except InternalError as error:
        pytest.fail(f"a damaged file is no bug of gaf: {error}")
    except GafError as error:
        assert error.exit_code in (EXIT_INVALID, EXIT_UNSUPPORTED)
        return False
    return True


def test_truncated_anywhere(tmp_path: Path) -> None:
    for end in random.Random(0).sample(range(len(GOOD)), 80):
        assert not loads_or_complains(GOOD[:end], tmp_path / "t.onnx"), (
            f"truncated at {end} of {len(GOOD)} it still loads"
        )


def test_random_bytes_changed(tmp_path: Path) -> None:
    draw = random.Random(1)
    loaded = 0
    for _ in range(80):
        data = bytearray(GOOD)
        for _ in range(draw.choice((1, 3, 20))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        loaded += loads_or_complains(bytes(data), tmp_path / "t.onnx")
    assert loaded, "most changes hit weights: some files must load"
