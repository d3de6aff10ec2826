# SPDX-License-Identifier: Apache-2.0
"""500 random cases in check mode, and that the fuzzer would see a wrong kernel."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks import fuzz
from benchmarks.fuzz import Outcome, Task, run_group, summary, tasks_of
from benchmarks.groups import DTYPES, LARGEST, Group
from gaf.dialects.graph.contract import tensor_type
from gaf.runtime.compiler import find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_500_cases_in_check_mode(seed: int) -> None:
    outcomes = list(run_group(Task(seed, 50, "check")))
    assert len(outcomes) == 50
    assert [o for o in outcomes if o.verdict != "right"] == []


def test_groups_have_all_dtypes_sizes_views_and_results() -> None:
    groups = [Group(seed) for seed in range(120)]
    ops = [op for g in groups for op in g.model.block.ops if hasattr(op, "IS_VIEW")]
    assert {tensor_type(r).dtype for op in ops for r in op.results} >= set(DTYPES)
    assert len({op.name for op in ops if op.IS_VIEW}) >= 9 and len({op.name for op in ops if not op.IS_VIEW}) >= 40
    assert sum(len(g.model.returned) > 1 for g in groups) >= 20
    sizes = [s for g in groups for case in range(10) for s in g.sizes(case).values()]
    assert {0, 1} <= set(sizes) and 250 < max(sizes) <= LARGEST


def test_a_group_and_its_cases_are_the_same_again() -> None:
    a, b = Group(7), Group(7)
    assert str(a.model.module) == str(b.model.module)
    for case in range(3):
        assert a.sizes(case) == b.sizes(case)
        for x, y in zip(a.inputs(case).values(), b.inputs(case).values()):
            assert x.tobytes() == y.tobytes()


def test_tasks_add_up() -> None:
    tasks = tasks_of(95, 10, 40, "tile")
    assert [(t.seed, t.cases) for t in tasks] == [(10, 40), (11, 40), (12, 15)]


def test_summary_counts_and_names_the_first_failure_of_a_group() -> None:
    task = Task(3, 4, "tile")
    found = summary([
        Outcome(task, 0, "right", kernels=2), Outcome(task, 1, "mismatch", "far off", 2, ("graph.topk",)),
        Outcome(task, 2, "crash", "later", 2, ("graph.topk",)), Outcome(task, 3, "refused", "too large", 2, ("graph.topk",)),
    ])  # fmt: skip
    assert (found["cases"], found["mismatches"], found["crashes"], found["refused"]) == (4, 1, 1, 1)
    assert found["kernels"] == 2 and found["on_host"] == {"graph.topk": 1}
    assert found["failures"] == {3: "case 1: mismatch: far off"}


def test_a_wrong_kernel_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    from gaf.runtime.kernel import Kernel

    right = Kernel.interpret

    def off_by_some(self: Kernel, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        return {n: a + np.ones((), a.dtype) if a.dtype.kind == "f" else a for n, a in right(self, *args, **kwargs).items()}

    monkeypatch.setattr(Kernel, "interpret", off_by_some)
    verdicts = {o.verdict for seed in range(1000, 1006) for o in run_group(Task(seed, 3, "tile"))}
    assert "mismatch" in verdicts


def test_command_prints_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--n", "6", "--per-group", "3", "--seed", "1000", "--engine", "tile", "--jobs", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["cases"] == 6 and figures["mismatches"] == figures["crashes"] == 0 and figures["seed"] == 1000
    assert {"refused", "groups", "kernels"} <= set(figures)
