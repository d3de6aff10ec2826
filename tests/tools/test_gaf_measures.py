# SPDX-License-Identifier: Apache-2.0
"""`gaf trace`, `gaf bench` and `gaf compare`: their figures, their files, and their exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gaf.errors import EXIT_INVALID, EXIT_MISMATCH, EXIT_OK
from gaf.runtime.compiler import find_compiler
from gaf.tools import gaf as cli

MODEL = "model block(x: f32[B, 16, 64], w: f32[64, 32], g: f32[64]) { linear(layer_norm(x) * g, w) }\n"

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "block.gaf"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture(scope="module")
def folders(model: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The model fused, and with a kernel an op."""
    base = tmp_path_factory.mktemp("out")
    for name, options in (("fused", []), ("apart", ["--no-autofuse"])):
        command = ["fuse", model, "-o", str(base / name), "--engine", "interpreter", "-q", *options]
        assert cli.main(command) == EXIT_OK
    return base / "fused", base / "apart"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = EXIT_OK) -> dict[str, Any]:
    assert cli.main([*arguments, "--json", "-q"]) == code
    return json.loads(capsys.readouterr().out)


@needs_compiler
def test_trace_says_what_bounds_each_kernel(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    file = tmp_path / "t.json.gz"
    found = answer(capsys, "trace", str(folders[0]), "-o", str(file))
    assert {k["kernel"] for k in found["kernels"]} == {x["kernel"] for x in found["launches"]}
    assert all(k["us"] > 0 and k["bound by"] for k in found["kernels"])
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert {k["kernel"] for k in found["kernels"]} <= {e["name"] for e in events}


@needs_compiler
def test_trace_refuses_a_place_that_cannot_be_written(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    found = answer(
        capsys, "trace", str(folders[0]), "-o", str(tmp_path / "no" / "t.json"), code=EXIT_INVALID
    )
    assert "can't be written" in found["error"]["what"]


@needs_compiler
def test_bench_puts_fused_and_unfused_side_by_side(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "bench", model, "--runs", "2")
    fused, apart = found["sides"]
    assert (fused["name"], fused["ratio"]) == ("fused", 1.0)
    assert fused["kernels"] < apart["kernels"] and fused["HBM MB"] < apart["HBM MB"]


def test_compare_stops_a_lost_fusion(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    fused, apart = map(str, folders)
    worse = answer(capsys, "compare", fused, apart, code=EXIT_MISMATCH)
    assert not worse["ok"] and "bytes moved" in worse["regressions"] and worse["no_longer_fused"]
    better = answer(capsys, "compare", apart, str(folders[0] / "report.json"))
    assert better["ok"] and better["newly_fused"]
    assert answer(capsys, "compare", fused, fused)["figures"][0]["result"] == "same"
    tolerated = answer(capsys, "compare", fused, apart, "--tolerance", "1000")
    assert {r["result"] for r in tolerated["figures"]} == {"within tolerance", "same"}


def test_compare_stops_a_verification_that_fails_now(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report = json.loads((folders[0] / "report.json").read_text())
    report["verification"]["ok"] = False
    (tmp_path / "report.json").write_text(json.dumps(report))
    found = answer(capsys, "compare", str(folders[0]), str(tmp_path), code=EXIT_MISMATCH)
    assert found["regressions"] == ["verification"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"figures": 3}', "\xff"])
def test_compare_refuses_what_is_no_report(
    text: str, folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    file = tmp_path / "report.json"
    file.write_bytes(text.encode("latin-1"))
    found = answer(capsys, "compare", str(folders[0]), str(file), code=EXIT_INVALID)
    assert found["error"]["where"] == str(file)


def test_compare_refuses_other_sizes(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report = json.loads((folders[0] / "report.json").read_text())
    report["symbols"] = {"B": 1000}
    (tmp_path / "report.json").write_text(json.dumps(report))
    found = answer(capsys, "compare", str(folders[0]), str(tmp_path), code=EXIT_INVALID)
    assert "different sizes" in found["error"]["what"]
