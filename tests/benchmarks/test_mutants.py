# SPDX-License-Identifier: Apache-2.0
"""The mutation benchmark: the adversary by itself, how mutants are made, and one small run."""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np
import pytest

from benchmarks import mutants
from benchmarks.adversary import Verdict, judge
from benchmarks.mutants import (
    BLOCKS,
    Caught,
    Mutant,
    Specimen,
    enumerate_mutants,
    make_specimens,
    mistakes,
    mutated,
)
from gaf.dialects.ascendc.queue import EnqueOp, FreeOp
from gaf.dialects.ascendc.sync import CrossCoreSetFlagOp, CrossCoreWaitFlagOp, PipeBarrierOp
from gaf.runtime.compiler import find_compiler


@cache
def specimen(title: str) -> Specimen:
    (found,) = make_specimens(title)
    return found


SOFTMAX, LINEAR = "softmax f32 14", "linear_relu"


def verdicts(s: Specimen, op_type: type, what: str) -> list[Verdict]:
    found = []
    for at, op in enumerate(s.kernel.ascendc.walk()):
        if isinstance(op, op_type):
            for kind, text, apply in mistakes(op):
                if text == what:
                    kernel = mutated(s, Mutant(0, kind, text, at, apply), s.kernel.name)
                    found.append(judge(kernel, s.arrays, {}, BLOCKS, s.expected, limit=100_000))
    assert found
    return found


@pytest.mark.parametrize("title", [SOFTMAX, LINEAR])
def test_a_right_kernel_gives_one_result_in_every_order(title: str) -> None:
    s = specimen(title)
    verdict = judge(s.kernel.ascendc, s.arrays, {}, BLOCKS, s.expected)
    assert not verdict.wrong and verdict.steps > 50


def test_a_wrong_expectation_is_noticed() -> None:
    s = specimen(SOFTMAX)
    other = {n: np.array(a) for n, a in s.expected.items()}
    next(iter(other.values()))[3, 5] += 0.01
    assert judge(s.kernel.ascendc, s.arrays, {}, BLOCKS, other).differs


def test_barriers_that_dependent_calls_need_are_missed() -> None:
    found = verdicts(specimen(SOFTMAX), PipeBarrierOp, "deleted")
    assert sum(v.differs for v in found) >= 2 and not any(v.illegal for v in found)


def test_queue_calls_are_missed() -> None:
    s = specimen(SOFTMAX)
    assert all(v.wrong for v in verdicts(s, EnqueOp, "EnQue deleted"))
    assert all(v.illegal for v in verdicts(s, FreeOp, "FreeTensor deleted"))
    bypass = verdicts(s, EnqueOp, "used without EnQue and DeQue")
    assert all(v.differs or v.illegal for v in bypass)
    assert any(v.wrong for v in verdicts(s, FreeOp, "FreeTensor too early"))


def test_flags_between_cores_are_missed() -> None:
    s = specimen(LINEAR)
    assert all(v.wrong for v in verdicts(s, CrossCoreSetFlagOp, "cross_core_set_flag deleted"))
    assert any(v.wrong for v in verdicts(s, CrossCoreWaitFlagOp, "cross_core_wait_flag deleted"))


def test_mutants_are_drawn_evenly_and_the_same_every_time() -> None:
    kernel = specimen(SOFTMAX).kernel.ascendc
    first = enumerate_mutants(0, kernel, 40, random.Random(0))
    again = enumerate_mutants(0, kernel, 40, random.Random(0))
    assert [(m.kind, m.what, m.at) for m in first] == [(m.kind, m.what, m.at) for m in again]
    assert len(first) <= 40 and {m.kind for m in first} >= {
        "barrier",
        "queue",
        "offset",
        "count",
        "stride",
        "size",
        "loop",
    }
    all_of_them = enumerate_mutants(0, kernel, 10_000, random.Random(0))
    assert len(all_of_them) > 80 and len({(m.what, m.at) for m in all_of_them}) == len(all_of_them)


def test_a_mutant_leaves_the_original_alone() -> None:
    s = specimen(SOFTMAX)
    before = str(s.kernel.ascendc)
    for m in enumerate_mutants(0, s.kernel.ascendc, 200, random.Random(1)):
        changed = mutated(s, m, s.kernel.name)
        assert str(changed) != before, (m.what, m.at)
    assert str(s.kernel.ascendc) == before


def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Mutant(0, kind, "x", 1, lambda op: None) for kind in ("a", "a", "b", "b", "b", "b")]
    monkeypatch.setattr(mutants, "MUTANTS", made)
    monkeypatch.setattr(mutants, "SPECIMENS_MADE", [specimen(SOFTMAX)])
    seen = [
        Verdict(),
        Verdict(differs=1),
        Verdict(illegal="i"),
        Verdict(differs=1),
        Verdict(differs=1),
        Verdict(differs=1),
    ]
    caught = {
        1: Caught("rule", ("r",)),
        2: Caught("value"),
        3: Caught(),
        4: Caught("crash"),
        5: Caught("compiler"),
    }
    figures = mutants._figures(seen, [1, 2, 3, 4, 5], caught)
    assert (figures["mutants"], figures["excluded"], figures["caught_pct"]) == (4, 2, 50.0)
    assert (
        figures["caught_by_rules_pct"] == 25.0
        and figures["crashes"] == 1
        and figures["refused_by_compiler"] == 1
    )
    assert [m["check mode"] for m in figures["misses"]] == ["silent", "crash"]


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_a_small_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--only", SOFTMAX, "--most", "14", "--json", "--jobs", "1"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert {"mutants", "excluded", "caught_pct"} <= set(figures)
    assert figures["mutants"] + figures["excluded"] == 14 and figures["mutants"] >= 5
    assert figures["caught_pct"] >= 80 and figures["crashes"] == 0
