# SPDX-License-Identifier: Apache-2.0
"""Random fused groups in check mode against float64.

A case is a random group (`benchmarks/groups.py`) with sizes and values of its own: every kernel launch and
every result is compared with the reference in float64, and check mode watches all accesses. `mismatches`
counts cases with a wrong value or a violation, `crashes` those that raised anything but a refusal, died or
took too long. `refused` are cases of groups that gaf refuses with an error for users; `on_host` counts ops of
groups that have no kernel.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common import finish, parser
from benchmarks.isolated import Lost, run_isolated

CASES = 3000
PER_GROUP = 40
"""Cases of one group: they share its kernels, since its sizes are symbols."""
SECONDS = 60.0
"""Limit for one case; the first of a group includes the build."""


@dataclass(frozen=True)
class Task:
    """The first `cases` cases of a group, on an engine."""

    seed: int
    cases: int
    engine: str


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "right", "mismatch", "crash" or "refused", and why."""

    task: Task
    case: int
    verdict: str
    detail: str = ""
    kernels: int = 0
    on_host: tuple[str, ...] = ()


def run_group(task: Task, first: int = 0) -> Iterator[Outcome]:
    """The outcomes of a group's cases from number `first` on."""
    import gaf
    from benchmarks.groups import Group
    from gaf.errors import GafError, InternalError

    try:
        group = Group(task.seed)
        config = gaf.FusionConfig(enable_superkernel=task.seed % 4 == 0)
        fused = gaf.fuse(group.model, config)
    except Exception as error:  # a crash is a result
        refusal = isinstance(error, GafError) and not isinstance(error, InternalError)
        for case in range(first, task.cases):
            yield Outcome(task, case, "refused" if refusal else "crash", f"{type(error).__name__}: {error}")
        return
    kernels, on_host = len(fused.kernels), tuple(getattr(op, "name", "") for op in fused.host_ops)
    for case in range(first, task.cases):
        verdict, detail = "right", ""
        try:
            verified = fused.verify(group.inputs(case), engine=task.engine)
            wrong = [c for c in [*verified.launches, *verified.outputs] if not c.ok]
            if verified.violations:
                v = verified.violations[0]
                verdict, detail = "mismatch", f"violation in {v.get('kernel')}: {v.get('rule')}: {v.get('message')}"
            elif wrong:
                c = wrong[0]
                verdict, detail = "mismatch", f"{c.kernel or c.name}: error {c.error:.3g}, tolerance {c.tolerance:.3g} {c.note}"
        except Exception as error:  # a crash is a result
            refusal = isinstance(error, GafError) and not isinstance(error, InternalError)
            verdict, detail = "refused" if refusal else "crash", f"{type(error).__name__}: {error}"
        yield Outcome(task, case, verdict, detail, kernels, on_host)


def tasks_of(n: int, seed: int, per_group: int, engine: str) -> list[Task]:
    """`n` cases as groups of `per_group`, the last one smaller; group i has seed + i."""
    full, rest = divmod(n, per_group)
    return [Task(seed + i, per_group, engine) for i in range(full)] + ([Task(seed + full, rest, engine)] if rest else [])


def summary(outcomes: Sequence[Outcome | Lost]) -> dict[str, Any]:
    """The figures; `failures` names the first case of every group that has a wrong one."""
    verdicts: Counter[str] = Counter()
    failures: dict[int, str] = {}
    kernels: dict[int, int] = {}
    on_host: dict[int, tuple[str, ...]] = {}
    for o in outcomes:
        seed = o.task.seed
        if isinstance(o, Lost):
            verdicts["crash"] += 1
            failures.setdefault(seed, f"case {o.case}: {o.reason}")
            continue
        verdicts[o.verdict] += 1
        kernels[seed], on_host[seed] = o.kernels, o.on_host
        if o.verdict in ("mismatch", "crash"):
            failures.setdefault(seed, f"case {o.case}: {o.verdict}: {o.detail}")
    hosts = Counter(op for ops in on_host.values() for op in ops)
    return {
        "cases": sum(verdicts.values()), "mismatches": verdicts["mismatch"], "crashes": verdicts["crash"],
        "refused": verdicts["refused"], "groups": len({o.task.seed for o in outcomes}), "kernels": sum(kernels.values()),
        "on_host": dict(hosts.most_common()), "failures": failures,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--n", type=int, default=CASES, help="cases")
    args.add_argument("--seed", type=int, help="of the first group (default: the time of day)")
    args.add_argument("--per-group", type=int, default=PER_GROUP, help="cases of one group")
    args.add_argument("--engine", default="check", help="check, host, interpreter or tile")
    args.add_argument("--jobs", type=int, default=2, help="processes")
    options = args.parse_args(argv)
    seed = options.seed if options.seed is not None else int(time.time()) % 1_000_000 * 1000
    tasks = tasks_of(options.n, seed, options.per_group, options.engine)
    started = time.perf_counter()
    outcomes: list[Outcome | Lost] = []
    for o in run_isolated(run_group, tasks, jobs=options.jobs, seconds=SECONDS):
        outcomes.append(o)
        if len(outcomes) % 500 == 0:
            print(f"{len(outcomes)} of {options.n} cases, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    figures = summary(outcomes)
    failures = figures.pop("failures")
    for group, text in sorted(failures.items()):
        print(f"group {group}, {text}")
    if figures["on_host"]:
        print("ops without a kernel: " + ", ".join(f"{op} {count}" for op, count in figures["on_host"].items()))
    figures |= {"seed": seed, "seconds": time.perf_counter() - started}
    print(", ".join(f"{figures[k]} {k}" for k in ("cases", "groups", "kernels", "mismatches", "crashes", "refused")))
    print(f"{figures['seconds']:.0f} s; again with --seed {seed}; one group with --n {options.per_group} --seed GROUP")
    return finish("fuzz", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
