# SPDX-License-Identifier: Apache-2.0
"""`gaf fmt` and `gaf new-op`: what they write, and that they never replace what they shouldn't."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

import gaf
from gaf.errors import EXIT_INVALID, EXIT_MISMATCH, EXIT_OK
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
