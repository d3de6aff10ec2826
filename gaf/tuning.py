# SPDX-License-Identifier: Apache-2.0
"""`tune`: searches the tile sizes of kernels in trace mode; `Tuning`: what it found, as a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.errors import InvalidInputError

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.runtime.executor import Launch
    from gaf.runtime.kernel import Kernel

SCHEMA = 1
Limits = Mapping[str, Mapping[str, int]]
"""Kernel name -> tiling parameter -> its largest value."""

LEAST_GAIN = 0.01
"""Part of a kernel's time that a bound has to save: less is noise of the model."""


@dataclass(frozen=True)
class TunedKernel:
    """Modelled µs of a kernel with its own tile sizes and with the best ones found, and launches tried."""

    kernel: str
    launches: int
    us_before: float
    us_after: float
    limits: dict[str, int]
    tried: int


@dataclass
class Tuning:
    """Bounds of tiling parameters, by kernel, for a chip and the sizes they were found at."""

    target: str
    symbols: dict[str, int] = field(default_factory=dict)
    kernels: list[TunedKernel] = field(default_factory=list)

    @property
    def limits(self) -> dict[str, dict[str, int]]:
        return {k.kernel: k.limits for k in self.kernels if k.limits}

    @property
    def gain(self) -> float:
        """Part of the modelled time of all launches that the bounds save, 0..1."""
        before = sum(k.launches * k.us_before for k in self.kernels)
        return 1 - sum(k.launches * k.us_after for k in self.kernels) / before if before else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "target": self.target,
            "symbols": self.symbols,
            "kernels": {
                k.kernel: {
                    "limits": k.limits,
                    "us_before": round(k.us_before, 3),
                    "us_after": round(k.us_after, 3),
                    "launches": k.launches,
                    "tried": k.tried,
                }
                for k in self.kernels
            },
        }


def read_tuning(path: str | Path, target: str) -> dict[str, dict[str, int]]:
    """The bounds in a file of `gaf tune`. Raises InvalidInputError for another file, or one for another chip."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        kernels = found["kernels"]
        limits = {
            name: {p: int(v) for p, v in entry["limits"].items()} for name, entry in kernels.items()
        }
        made_for, schema = found["target"], found["schema"]
    except OSError as error:
        raise InvalidInputError(f"can't read the tuning: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInputError(
            "this is no tuning", where=str(path), expected="a file that `gaf tune` wrote"
        ) from None
    if schema != SCHEMA or made_for != target:
        raise InvalidInputError(
            "the tuning was made for another chip or by another version of gaf",
            where=str(path),
            expected=f"{target}, schema {SCHEMA}",
            got=f"{made_for}, schema {schema}",
            hint="run `gaf tune` again",
        )
    return {name: bounds for name, bounds in limits.items() if bounds}


def tune(
    fused: FusedModel,
    inputs: Mapping[str, np.ndarray],
    seconds: float = 60.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Tuning:
    """Search smaller tiles for every kernel that `inputs` launch, by modelled time, for `seconds` at most.

    Each parameter in turn takes the best of its halves, quarters and so on, until a round changes nothing:
    tiles only shrink (though fewer lanes may make room for more rows), so what is found fits every size that
    the kernel fits now. The source of a kernel doesn't depend on its
    tile sizes, so nothing is built for a try. Kernels are searched in order of their share of the time.
    Raises CompileError without a C++ compiler.
    """
    launches: dict[str, Launch] = {}
    counts: dict[str, int] = {}

    def observe(launch: Launch) -> None:
        counts[launch.kernel.name] = counts.get(launch.kernel.name, 0) + 1
        launches.setdefault(launch.kernel.name, launch)

    executor = fused.executor("trace")
    fused.run(inputs, "trace", observe)
    symbols = {s: n for launch in launches.values() for s, n in launch.symbols.items()}
    result = Tuning(fused.config.target, symbols)
    order = sorted(launches, key=lambda n: -counts[n] * _us(launches[n]))
    deadline = time.perf_counter() + seconds
    for number, name in enumerate(order):
        if progress is not None:
            progress(name, number, len(order))
        search = _Search(launches[name], executor.built[name])
        if time.perf_counter() < deadline:
            search.run(deadline)
        result.kernels.append(
            TunedKernel(name, counts[name], search.us_before, search.us, search.limits, search.tried)
        )
    if progress is not None:
        progress("", len(order), len(order))
    return result


def _us(launch: Launch) -> float:
    return launch.timeline.us if launch.timeline is not None else 0.0


class _Search:
    """Coordinate descent over the tiling parameters of one kernel on the operands of one launch."""

    def __init__(self, launch: Launch, built: Any) -> None:
        from gaf.runtime.executor import contiguous, kernel_args

        self.kernel: Kernel = launch.kernel
        self.built = built
        self.symbols = launch.symbols
        self.inputs = [contiguous(launch.operands[i]) for i in kernel_args(launch.fused)]
        self.outputs = [np.empty_like(o) for o in launch.outputs]
        self.us_before = self.us = _us(launch)
        self.limits: dict[str, int] = {}
        self.tried = 0

    def run(self, deadline: float) -> None:
        changed = True
        while changed:
            changed = False
            for name in self._params():
                best = self.limits
                for bound in self._smaller(name):
                    if time.perf_counter() > deadline:
                        return
                    limits = {**self.limits, name: bound}
                    if (us := self._time(limits)) < self.us * (1 - LEAST_GAIN):
                        self.us, best, changed = us, limits, True
                self.limits = best

    def _params(self) -> list[str]:
        """Parameters that are tile sizes: the steps of loops."""
        from gaf.dialects.tile.structure import ForOp, GridOp

        names = {n for n, _ in self.kernel.tile.params}
        steps = set()
        for op in self.kernel.tile.walk():
            if isinstance(op, GridOp):
                steps |= {step.as_name() for _, step in op.steps}
            elif isinstance(op, ForOp):
                steps.add(op.step.as_name())
        return [n for n, _ in self.kernel.tile.params if n in steps & names]

    def _smaller(self, name: str) -> Iterator[int]:
        """Halves of the present value: whole fractals of 16 as long as it has some, for the sake of the cube."""
        value = self.kernel.host.evaluate(self.symbols, self.limits).fields[name]
        unit = 16 if value % 16 == 0 else 1
        while value > unit:
            value = max(unit, value // 2 // unit * unit)
            yield value

    def _time(self, limits: Mapping[str, int]) -> float:
        from gaf.errors import UnsupportedError

        self.tried += 1
        try:
            launch = self.kernel.host.evaluate(self.symbols, limits)
        except UnsupportedError:
            return float("inf")
        found = self.built.launch(
            [*self.inputs, *self.outputs], launch.workspace, launch.packed, launch.blocks,
            outputs=len(self.outputs), spans=False,
        )  # fmt: skip
        return found.timeline.us if found.timeline is not None else float("inf")
