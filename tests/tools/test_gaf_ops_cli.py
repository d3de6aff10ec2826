# SPDX-License-Identifier: Apache-2.0
"""`gaf fmt`, `gaf new-op` and `--ops`: what they write and load, and that nothing is replaced that shouldn't be."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import gaf
from gaf.errors import EXIT_INVALID, EXIT_MISMATCH, EXIT_OK, EXIT_UNSUPPORTED
from gaf.tools import gaf as cli

UGLY = "# kept\nop   twice(x:T[n])->T[n]{ x*2 }\n"


def test_fmt_lays_out_and_then_has_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ops.gaf"
    path.write_text(UGLY)
    path.chmod(0o640)
    assert cli.main(["fmt", "--check", str(path)]) == EXIT_MISMATCH
    assert path.read_text() == UGLY
    assert "would be laid out anew" in capsys.readouterr().out
    assert cli.main(["fmt", str(path)]) == EXIT_OK
    assert path.read_text() == gaf.format_source(UGLY) != UGLY
    assert path.stat().st_mode & 0o777 == 0o640
    assert cli.main(["fmt", "--check", str(path)]) == EXIT_OK
    assert [p.name for p in tmp_path.iterdir()] == ["ops.gaf"]


def test_fmt_leaves_a_broken_file_alone_and_does_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, good = tmp_path / "broken.gaf", tmp_path / "good.gaf"
    broken.write_text("op twice(x: T[n]) -> {")
    good.write_text(UGLY)
    missing, binary = tmp_path / "missing.gaf", tmp_path / "binary.gaf"
    binary.write_bytes(b"\xff\xfe")
    files = [str(p) for p in (broken, missing, binary, good)]
    assert cli.main(["fmt", "--json", *files]) == EXIT_INVALID
    said = capsys.readouterr()
    assert json.loads(said.out) == {"changed": [str(good)], "failed": files[:3], "written": True}
    assert f"{broken}:1:" in said.err and "not text in UTF-8" in said.err
    assert broken.read_text() == "op twice(x: T[n]) -> {"
    assert good.read_text() == gaf.format_source(UGLY)


def test_new_op_writes_files_that_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-op", "my_gate", "--namespace", "corp", "-o", str(tmp_path / "ops")]) == EXIT_OK
    path = tmp_path / "ops" / "my_gate.gaf"
    assert str(path) in capsys.readouterr().out
    assert 'onnx "com.corp.MyGate"' in path.read_text()
    assert cli.main(["fmt", "--check", str(path)]) == EXIT_OK
    assert gaf.fuse(gaf.load_model(path)).verify(engine="interpreter").ok
    with gaf.custom_ops():
        runpy.run_path(str(path.with_suffix(".py")), run_name="__main__")


def test_new_op_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gate.py").write_text("mine")
    assert cli.main(["new-op", "gate", "-o", str(tmp_path)]) == EXIT_INVALID
    assert f"{tmp_path / 'gate.py'}: the file exists already" in capsys.readouterr().err
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"gate.py": "mine"}


@pytest.mark.parametrize("name", ["My-Gate", "class", "../gate", ""])
def test_new_op_refuses_names(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-op", name, "-o", str(tmp_path)]) == EXIT_INVALID
    assert "can't be the name of an operator" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# -- --ops ----------------------------------------------------------------------------------------


@pytest.fixture
def scoped() -> Iterator[None]:
    """Nothing that a test registers outlives it."""
    with gaf.custom_ops():
        yield


def gate_model(path: Path) -> str:
    """x -> MyGate(x, g), an operator of the domain com.acme."""
    graph = helper.make_graph(
        [helper.make_node("MyGate", ["x", "g"], ["y"], domain="com.acme", name="gate")],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8]),
            helper.make_tensor_value_info("g", TensorProto.FLOAT, [8]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return str(path)


@pytest.mark.parametrize("ending", [".gaf", ".py"])
@pytest.mark.usefixtures("scoped")
def test_ops_are_there_before_the_model(ending: str, tmp_path: Path) -> None:
    assert cli.main(["new-op", "my_gate", "-o", str(tmp_path)]) == EXIT_OK
    ops, model = str(tmp_path / f"my_gate{ending}"), gate_model(tmp_path / "model.onnx")
    # the same file twice is loaded once
    assert cli.main(["verify", model, "--engine", "interpreter"]) == EXIT_UNSUPPORTED
    command = ["verify", model, "--ops", ops, "--ops", ops, "--engine", "interpreter"]
    assert cli.main(command) == EXIT_OK


@pytest.mark.usefixtures("scoped")
def test_run_of_a_folder_takes_opaque_ops(tmp_path: Path) -> None:
    ops, model = tmp_path / "ops.py", gate_model(tmp_path / "model.onnx")
    ops.write_text(
        "import gaf, numpy as np\n"
        "@gaf.custom_op('acme::my_gate', '(x: f32[n, d], g: f32[d]) -> f32[n, d]', onnx='com.acme.MyGate',"
        " opaque=True)\n"
        "def my_gate(x, g):\n    return x * g\n"
    )
    out = str(tmp_path / "out")
    command = ["fuse", model, "--ops", str(ops), "-o", out, "--engine", "interpreter"]
    with gaf.custom_ops():
        assert cli.main(command) == EXIT_OK
    assert cli.main(["run", out, "--ops", str(ops), "--engine", "interpreter"]) == EXIT_OK


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("ops.py", "import gaf\n1 / 0\n", "ops.py:2: running the file stopped with ZeroDivisionError"),
        ("ops.py", "def (:\n", "ops.py:1: this is not Python"),
        ("ops.py", "raise SystemExit(0)\n", "running the file stopped with SystemExit"),
        ("ops.gaf", "op (", "ops.gaf:1:"),
        ("ops.txt", "", ".gaf or .py"),
        ("missing.py", None, "can't read the file"),
    ],
)
@pytest.mark.usefixtures("scoped")
def test_bad_ops_files(
    name: str, text: str | None, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    model = gate_model(tmp_path / "model.onnx")
    assert cli.main(["verify", model, "--ops", str(path)]) == EXIT_INVALID
    assert what in capsys.readouterr().err


@pytest.mark.usefixtures("scoped")
def test_a_file_that_fails_registers_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    gate = "import gaf\n@gaf.custom_op('a::f', '(x: T[n]) -> T[n]')\ndef f(x):\n    return x + 1\n"
    path.write_text(gate + "raise ValueError('no')\n")
    with pytest.raises(gaf.InvalidInputError, match="ValueError: no"):
        gaf.load_custom_ops(path)
    path.write_text(gate)
    assert [op.name for op in gaf.load_custom_ops(path)] == ["a::f"]
