# SPDX-License-Identifier: Apache-2.0
"""Tables and JSON lines of the benchmarks."""

from __future__ import annotations

import json

import pytest

from benchmarks.common import finish, table


def test_table_aligns_columns() -> None:
    rows = [{"model": "a", "s": 1.23456}, {"model": "longer", "s": None}, {"model": "b", "s": 1234.5}]
    assert table(rows).splitlines() == [
        "model      s",
        "------  ----",
        "a       1.23",
        "longer     -",
        "b       1234",
    ]


def test_last_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish("compile", {"s": 1.234567, "bad": float("nan"), "none": None, "n": {"x": 2}}, True) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    expected = {"name": "compile", "figures": {"s": 1.235, "bad": None, "none": None, "n": {"x": 2}}}
    assert json.loads(last) == expected


def test_no_json_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    finish("compile", {"s": 1.0}, False)
    assert capsys.readouterr().out == ""
