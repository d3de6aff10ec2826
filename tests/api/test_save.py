# SPDX-License-Identifier: Apache-2.0
"""`gaf.load_model` and `gaf.save`: what users call."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx
import pytest

import gaf
from examples.onnx.transformers import Size, bert
from tests.frontend.onnx_models import F32, assert_same, node, onnx_model, random_inputs, value

SIZES = {"batch": 2, "sequence": 5}


@pytest.fixture
def model() -> gaf.Model:
    return gaf.load_model(bert(Size(layers=1)))


def test_onnx_file_round_trip(model: gaf.Model, tmp_path: Path) -> None:
    path = gaf.save(model, tmp_path / "new" / "folder" / "m.onnx")
    assert path.read_bytes()[:2] == onnx.load(path).SerializeToString()[:2]
    inputs = random_inputs(bert(Size(layers=1)), SIZES)
    assert_same(list(gaf.load_graph(str(path)).run(inputs).values()), list(model.run(inputs).values()))
    assert [p.name for p in path.parent.iterdir()] == ["m.onnx"], "no temporary files stay"


def test_mlir_round_trip_with_weights(model: gaf.Model, tmp_path: Path) -> None:
    path = gaf.save(model, tmp_path / "m.mlir")
    again = gaf.load_model(path)
    assert str(again.module) == str(model.module)
    inputs = random_inputs(bert(Size(layers=1)), SIZES)
    assert_same(list(again.run(inputs).values()), list(model.run(inputs).values()), rtol=0, atol=0)


def test_bfloat16_weights_survive_npz(tmp_path: Path) -> None:
    w = np.arange(100).astype(ml_dtypes.bfloat16)
    proto = onnx_model(
        [node("Add", ["x", "w"], ["y"])], [value("x", [100], onnx.TensorProto.BFLOAT16)], ["y"], {"w": w}
    )
    gaf.save(gaf.load_model(proto), tmp_path / "m.mlir")
    again = gaf.load_model(tmp_path / "m.mlir")
    (name,) = again.weights
    assert again.weights[name].dtype == ml_dtypes.bfloat16 and (again.weights[name] == w).all()


def test_mlir_without_its_weights_says_so(model: gaf.Model, tmp_path: Path) -> None:
    gaf.save(model, tmp_path / "m.mlir")
    (tmp_path / "m.npz").unlink()
    with pytest.raises(gaf.InvalidInputError, match="not in the weight store"):
        gaf.load_model(tmp_path / "m.mlir").run(random_inputs(bert(Size(layers=1)), SIZES))


def test_mlir_errors_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text("builtin.module {\n  graph.nothing\n}\n")
    with pytest.raises(gaf.InvalidInputError, match=r"m.mlir:\d+:\d+: .*graph.nothing"):
        gaf.load_model(path)
    path.write_text("builtin.module {}\n")
    with pytest.raises(gaf.InvalidInputError, match="no function"):
        gaf.load_model(path)


def test_fused_models_are_saved(model: gaf.Model, tmp_path: Path) -> None:
    """Anything whose `model` is a graph model: what `gaf.fuse` returns."""
    assert gaf.save(SimpleNamespace(model=model), tmp_path / "m.onnx").is_file()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("m.txt", "ending says how to save; expected .onnx or .mlir, got .txt"),
        ("m", "got no ending"),
        ("file/m.onnx", "can't write"),
    ],
)
def test_targets_that_cannot_be_written(model: gaf.Model, tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(gaf.InvalidInputError, match=message):
        gaf.save(model, tmp_path / target)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(model: gaf.Model, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(gaf.InvalidInputError, match="can't write: Permission denied"):
        gaf.save(model, tmp_path / "m.onnx")


def test_target_that_is_a_folder(model: gaf.Model, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(gaf.InvalidInputError, match="can't write"):
        gaf.save(model, tmp_path / "m.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"] and not list((tmp_path / "m.onnx").iterdir())


def test_existing_file_survives_a_failed_save(
    model: gaf.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")

    def fails(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(gaf.InvalidInputError, match="No space left on device"):
        gaf.save(model, path)
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_only_models_are_saved(tmp_path: Path) -> None:
    with pytest.raises(gaf.InvalidInputError, match="only models can be saved; .*got dict"):
        gaf.save({}, tmp_path / "m.onnx")


def test_load_passes_models_through(model: gaf.Model) -> None:
    assert gaf.load_model(model) is model
    with pytest.raises(gaf.InvalidInputError, match="only when a file is opened"):
        gaf.load_model(model, {"input_ids": (1, 2)})


def test_num_ops_counts_nodes_without_constants() -> None:
    nodes = [
        node("Constant", [], ["k"], value_float=2.0),
        node("Mul", ["x", "k"], ["a"]),
        node("Identity", ["a"], ["y"]),
    ]
    assert gaf.load_model(onnx_model(nodes, [value("x", [2], F32)], ["y"])).num_ops == 1


def test_public_names() -> None:
    names = (
        "load_model",
        "load_graph",
        "save",
        "Model",
        "register_pass",
        "GafError",
        "InvalidInputError",
        "UnsupportedError",
    )
    assert set(names) <= set(dir(gaf))
    assert all(getattr(gaf, name) is not None for name in names)
