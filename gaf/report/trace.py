# SPDX-License-Identifier: Apache-2.0
"""Timelines of a fused model's launches: as a table, as JSON, and as a file for Perfetto (ui.perfetto.dev).

`trace_model` runs the model in trace mode; `write_perfetto` writes what it returns. Lanes are the pipes of
every core; launches follow one another with the launch time of the cost model between them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gaf.errors import InvalidInputError
from gaf.runtime.timeline import PIPES, CoreTime, Timeline
from gaf.target import DEFAULT, rates

if TYPE_CHECKING:
    import numpy as np

    from gaf.compiler import FusedModel


@dataclass(frozen=True)
class TracedLaunch:
    """One kernel launch: its timeline, its start (µs from the start of the model), and its model nodes."""

    timeline: Timeline
    start_us: float
    members: tuple[str, ...] = ()

    @property
    def end_us(self) -> float:
        return self.start_us + self.timeline.us


def trace_model(fused: FusedModel, inputs: Mapping[str, np.ndarray]) -> list[TracedLaunch]:
    """Run a model in trace mode; returns its launches in order. Ops on the host take no time here.

    Raises GafError as `fused.run` does, CompileError without a C++ compiler.
    """
    launches: list[TracedLaunch] = []
    gap = rates(DEFAULT).launch_us
    end = 0.0

    def observe(launch: Any) -> None:
        nonlocal end
        if launch.timeline is not None:
            launches.append(TracedLaunch(launch.timeline, end + gap, tuple(launch.kernel.members)))
            end = launches[-1].end_us

    fused.run(inputs, engine="trace", observe=observe)
    return launches


def rows(launches: Sequence[TracedLaunch]) -> list[dict[str, Any]]:
    """One row a kernel: launches, µs, the busiest pipe, the share of time that each pipe is busy, MB."""
    table: dict[str, list[TracedLaunch]] = {}
    for launch in launches:
        table.setdefault(launch.timeline.kernel, []).append(launch)
    result = []
    for name, same in sorted(table.items(), key=lambda item: -sum(x.timeline.us for x in item[1])):
        lines = [x.timeline for x in same]
        us = sum(t.us for t in lines)
        span = sum(t.cycles for t in lines)
        busy = {p: sum(t.busiest(p) for t in lines) / span if span else 0.0 for p in PIPES}
        result.append(
            {
                "kernel": name, "launches": len(same), "us": us, "bound by": lines[0].bound_by,
                **{f"{p} %": round(100 * busy[p]) for p in PIPES},
                "HBM MB": sum(t.hbm_bytes for t in lines) / 1e6,
                "moved MB": sum(t.moved_bytes for t in lines) / 1e6,
            }
        )  # fmt: skip
    return result


def to_json(launches: Sequence[TracedLaunch]) -> dict[str, Any]:
    """Sums of the run and of every launch; single instructions are only in the Perfetto file."""
    return {
        "us": launches[-1].end_us if launches else 0.0,
        "launches": [
            {"start_us": x.start_us, "members": list(x.members), **x.timeline.to_json()} for x in launches
        ],
        "model": "cycles from published figures (gaf.target.timing), not measured on a device",
    }


def write_perfetto(path: str | Path, launches: Sequence[TracedLaunch] | Timeline) -> None:
    """Write Chrome's JSON trace format: a process a core, a thread a pipe, one event an instruction.

    A path that ends in .gz is compressed; Perfetto opens both. Raises InvalidInputError if it can't be
    written.
    """
    if isinstance(launches, Timeline):
        launches = [TracedLaunch(launches, 0.0)]
    path = Path(path)
    try:
        with (
            gzip.open(path, "wt", encoding="utf-8")
            if path.suffix == ".gz"
            else open(path, "w", encoding="utf-8") as f
        ):
            _write(f, launches)
    except OSError as e:
        raise InvalidInputError(f"the timeline can't be written: {e.strerror or e}", where=str(path)) from e


def _write(f: IO[str], launches: Sequence[TracedLaunch]) -> None:
    f.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    first = True
    for event in _events(launches):
        f.write(("" if first else ",\n") + json.dumps(event, separators=(",", ":")))
        first = False
    f.write("\n]}\n")


def _core_id(core: CoreTime) -> int:
    """Process number of a core: its place on the chip, AIC before AIV."""
    number = int(core.name.split()[1])
    return 1 + number if core.cube else 1001 + number


def _events(launches: Sequence[TracedLaunch]) -> Iterator[dict[str, Any]]:
    named: set[tuple[int, int]] = set()
    yield {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "launches"}}
    for launch in launches:
        line = launch.timeline
        per_us = line.timing.clock_mhz
        yield {
            "ph": "X", "name": line.kernel, "cat": "kernel", "pid": 0, "tid": 0,
            "ts": launch.start_us, "dur": line.us,
            "args": {
                "cycles": round(line.cycles), "bound by": line.bound_by, "nodes": ", ".join(launch.members),
            },
        }  # fmt: skip
        ids = [_core_id(c) for c in line.cores]
        for span in line.spans:
            core, pipe = ids[span["core"]], int(span["pipe"])
            if (core, -1) not in named:
                named.add((core, -1))
                yield {
                    "ph": "M",
                    "name": "process_name",
                    "pid": core,
                    "args": {"name": line.cores[span["core"]].name},
                }
                yield {"ph": "M", "name": "process_sort_index", "pid": core, "args": {"sort_index": core}}
            if (core, pipe) not in named:
                named.add((core, pipe))
                yield {
                    "ph": "M",
                    "name": "thread_name",
                    "pid": core,
                    "tid": pipe + 1,
                    "args": {"name": PIPES[pipe]},
                }
            args: dict[str, Any] = {"node": line.nodes[span["node"]]}
            if span["bytes"]:
                args["bytes"] = int(span["bytes"])
            yield {
                "ph": "X", "name": line.apis[span["api"]], "cat": PIPES[pipe], "pid": core, "tid": pipe + 1,
                "ts": round(launch.start_us + float(span["start"]) / per_us, 4),
                "dur": round(float(span["end"] - span["start"]) / per_us, 4), "args": args,
            }  # fmt: skip
