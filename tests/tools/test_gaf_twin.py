# SPDX-License-Identifier: Apache-2.0
"""`gaf twin`: programs built and run from the command line, violations as exit code 1, one message for bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gaf.errors import EXIT_COMPILER, EXIT_INVALID, EXIT_MISMATCH, EXIT_OK
from gaf.runtime import compiler
from gaf.tools import gaf as cli

pytestmark = pytest.mark.skipif(compiler.find_compiler() is None, reason="no C++ compiler")

SAMPLES = Path(__file__).parents[1] / "runtime" / "samples"


def run_json(capsys: pytest.CaptureFixture[str], *args: str, code: int = EXIT_OK) -> dict[str, Any]:
    assert cli.main(["twin", *args, "--json", "-q"]) == code
    return json.loads(capsys.readouterr().out)


def test_run_shows_launches(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [str(SAMPLES / "queue_add.cpp"), str(SAMPLES / "queue_add_main.cpp")]
    data = run_json(capsys, "run", *sources, "--check")
    assert data["ok"] and data["mode"] == "check" and data["exit_code"] == 0
    assert [(n["stuck"], n["violations"]) for n in data["launches"]] == [(False, 0)]


def test_violations_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    fault = [str(SAMPLES / "faults.asc"), "-D", "FAULT=2"]
    data = run_json(capsys, "run", *fault, "--check", code=EXIT_MISMATCH)
    assert data["launches"][0]["found"][0]["rule"] == "missing-sync"
    assert cli.main(["twin", "run", *fault, "--check", "-q"]) == EXIT_MISMATCH
    assert "[missing-sync] AIV 0" in capsys.readouterr().out


def test_build_writes_a_program_that_runs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "sort"
    run_json(capsys, "build", str(SAMPLES / "sort.asc"), "-o", str(program))
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


def test_arguments_and_exit_code_are_the_program_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "count.cpp"
    source.write_text('#include <cstdio>\nint main(int n, char** a) { puts(a[n - 1]); return n - 1; }\n')
    assert cli.main(["twin", "run", str(source), "-q", "--args", "one", "--two"]) == EXIT_MISMATCH
    assert capsys.readouterr().out == "--two\nfast mode, exit code 2\n"


@pytest.mark.parametrize(
    "args, code, said",
    [
        (["build", "x.asc"], EXIT_INVALID, "-o FILE"),
        (["run", "missing.asc"], EXIT_INVALID, "no such source"),
        (["run", "x.asc", "--shared"], EXIT_INVALID, "can't be run"),
        (["run", "x.asc", "--cwd", "/there/is/nothing"], EXIT_INVALID, "no such folder"),
        (["run", "x.asc", "--fill", "300"], EXIT_INVALID, "byte (0..255)"),
        (["run", "x.asc", "-D", "BROKEN"], EXIT_COMPILER, "x.asc:3"),
    ],
)
def test_bad_input_is_one_message(
    args: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("x.asc").write_text("int main() { return 0; }\n#ifdef BROKEN\n#error wrong\n#endif\n")
    assert cli.main(["twin", *args, "-q"]) == code
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
