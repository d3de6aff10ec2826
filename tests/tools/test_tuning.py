# SPDX-License-Identifier: Apache-2.0
"""`gaf tune`: bounds of tile sizes that are never slower, that survive a file, and that leave results alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gaf
from gaf.errors import EXIT_INVALID, EXIT_OK, InvalidInputError
from gaf.runtime.compiler import find_compiler
from gaf.runtime.inputs import random_inputs
from gaf.tools import gaf as cli
from gaf.tuning import TunedKernel, Tuning, tune

SOURCE = "model block(x: f32[300, 200], y: f32[300, 1], w: f32[200]) { sigmoid(x * y + x) * w }\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "block.gaf"
    file.write_text(SOURCE)
    return file


def kernel_of(fused: gaf.FusedModel) -> str:
    return fused.kernels[0].name


def test_bounds_reach_the_kernel_and_results_stay(path: Path) -> None:
    model = gaf.load_model(str(path))
    plain = gaf.fuse(model)
    name = kernel_of(plain)
    before = plain.kernels[0].host.evaluate({}).fields
    bound = max(1, before["tm"] // 2)
    tuned = gaf.fuse(model, gaf.FusionConfig(tuning={name: {"tm": bound}}))
    assert tuned.kernels[0].host.evaluate({}).fields["tm"] == bound
    assert plain.kernels[0].host.evaluate({}, {"tm": bound}).fields["tm"] == bound
    inputs = random_inputs(model)
    one, other = (f.run(inputs, "interpreter") for f in (plain, tuned))
    assert all(np.array_equal(one[n], other[n]) for n in one)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_search_never_makes_a_kernel_slower(path: Path) -> None:
    fused = gaf.fuse(gaf.load_model(str(path)))
    found = tune(fused, random_inputs(fused.model), seconds=5)
    (entry,) = found.kernels
    assert entry.kernel == kernel_of(fused) and entry.tried > 0
    assert 0 < entry.us_after <= entry.us_before
    assert (found.gain > 0) == bool(entry.limits)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_command_writes_what_fuse_reads(path: Path, tmp_path: Path) -> None:
    tuning = tmp_path / "tuning.json"
    assert cli.main(["tune", str(path), "-o", str(tuning), "--seconds", "5", "-q"]) == EXIT_OK
    assert json.loads(tuning.read_text())["kernels"]
    command = ["fuse", str(path), "-o", str(tmp_path / "out"), "--tuning", str(tuning), "--no-verify", "-q"]
    assert cli.main(command) == EXIT_OK


def test_a_file_gives_back_the_bounds(tmp_path: Path) -> None:
    found = Tuning("ascend910b3", {"B": 2}, [TunedKernel("a", 1, 2.0, 1.0, {"tm": 8}, 3), TunedKernel("b", 1, 1.0, 1.0, {}, 3)])
    (tmp_path / "t.json").write_text(json.dumps(found.to_json()))
    assert gaf.read_tuning(tmp_path / "t.json", "ascend910b3") == {"a": {"tm": 8}}
    with pytest.raises(InvalidInputError, match="another chip"):
        gaf.read_tuning(tmp_path / "t.json", "ascend910b1")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 1, "target": "ascend910b3", "kernels": 3}'])
def test_bad_files_are_refused(text: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.json").write_text(text)
    command = ["explain", str(path), "--tuning", str(tmp_path / "t.json")]
    assert cli.main(command) == EXIT_INVALID
    assert "this is no tuning" in capsys.readouterr().err


def test_unknown_parameters_are_refused(path: Path) -> None:
    model = gaf.load_model(str(path))
    name = kernel_of(gaf.fuse(model))
    with pytest.raises(InvalidInputError, match="no tiling parameter of kernel"):
        gaf.fuse(model, gaf.FusionConfig(tuning={name: {"nonsense": 8}}))
