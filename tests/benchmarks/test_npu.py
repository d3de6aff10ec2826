# SPDX-License-Identifier: Apache-2.0
"""The benchmark of single operators: its list, its roofline, and one case from graph to JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import npu
from benchmarks.npu import CASES, F16, F32, Graph, feeds, geomean, roofline
from gaf.runtime.compiler import find_compiler
from gaf.runtime.timeline import PIPES, CoreTime, Timeline
from gaf.target.timing import Timing


def test_the_list_is_what_the_page_says() -> None:
    assert len(CASES) == 40 and len({c.title for c in CASES}) == 40
    assert {c.kind.name for c in CASES} == {"f32", "f16", "bf16"}
    families = " ".join(c.name for c in CASES)
    for word in (
        "layer_norm",
        "rms_norm",
        "group_norm",
        "softmax",
        "gelu",
        "swiglu",
        "rope",
        "transpose",
        "embedding",
        "linear",
        "attention",
    ):
        assert word in families
    for where in ("last", "first", "middle", "all"):
        assert any(c.name.startswith("reduce") and c.name.endswith(where) for c in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.title)
def test_every_case_builds_at_both_sizes(case: npu.Case) -> None:
    model, graph = case.graph(case.small)
    inputs = feeds(model, graph)
    assert list(inputs) == model.input_names and model.output_types
    assert 0 < graph.compulsory(inputs) <= 10 * sum(a.nbytes for a in inputs.values())
    full, graph = case.graph(case.full)
    assert graph._bytes >= 1_000_000
    assert [t.rank for t in full.output_types] == [t.rank for t in model.output_types]


def test_compulsory_bytes_of_a_lookup_are_the_distinct_rows() -> None:
    g = Graph(F16)
    g.model([g.lookup(100, 8, 5)])
    inputs = {"x0": np.zeros((100, 8), np.float16), "x1": np.array([7, 7, 3, 3, 3], np.int32)}
    assert g.compulsory(inputs) == 5 * 4 + 5 * 8 * 2 + 2 * 8 * 2


def _line(work: dict[str, float]) -> Timeline:
    core = CoreTime(
        "AIV 0", False, 0, 0, 0.0, 10.0, dict.fromkeys(PIPES, 0.0), {**dict.fromkeys(PIPES, 0.0), **work}, {}
    )
    return Timeline("k", Timing.of(), 10.0, 0.0, [core], [], {}, 0)


def test_roofline_spreads_work_over_all_cores() -> None:
    timing = Timing.of()
    least = roofline([_line({"V": 80.0}), _line({"V": 40.0, "M": 172.0})], 4_000_000, 2_000_000, timing)
    assert least["V"] == pytest.approx(120 / 40) and least["M"] == pytest.approx(172 / 20 / 0.86)
    assert least["MTE2"] == pytest.approx(4_000_000 / (timing.load_rate(40) * 40))
    assert least["MTE3"] == pytest.approx(2_000_000 / (timing.store_rate(40) * 40))


def test_geomean() -> None:
    assert geomean([1.0, 4.0]) == pytest.approx(2.0) and np.isnan(geomean([]))


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_one_case(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    case = npu.Case("softmax", F32, npu.softmax, (400, 1024), (50, 200))
    monkeypatch.setattr(npu, "CASES", (case,))
    assert npu.main(["--only", "softmax", "--json"]) == 0
    printed = capsys.readouterr().out.splitlines()
    figures = json.loads(printed[-1])["figures"]
    assert {"traffic_ratio_geomean", "roofline_ratio_geomean", "violations", "hbm_ratio"} <= set(figures)
    found = figures["per_case"][case.title]
    assert found["traffic_ratio"] == 1.0 and found["violations"] == 0 and found["right"] is True
    assert found["compulsory_bytes"] == 2 * 400 * 1024 * 4
    assert found["roofline_ratio"] >= 1.0 and found["hbm_ratio"] >= 1.0 and found["faults"] == []
    assert figures["through_kernels"] == figures["cases"] == 1 and figures["no_kernel_yet"] == {}


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_what_has_no_kernel_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = npu.Case(
        "cumsum",
        F32,
        lambda g, m, n: g.cumsum(g.input(m, n), axis=1, exclusive=False, reverse=False),
        (8, 16),
        (8, 16),
    )
    broken = npu.Case("broken", F32, lambda g, m: g.matmul(g.input(m), g.input(m, m, m)), (3,), (3,))
    monkeypatch.setattr(npu, "CASES", (case, broken))
    (found, error) = npu.run_cases(npu.CASES, check=False)
    if "us" not in found:  # until there is a kernel for it
        assert "cumsum" in found["host"][0]
    assert "error" in error and "us" not in error
