# SPDX-License-Identifier: Apache-2.0
"""`gaf verify`: is a fused model right, and if not, which level is the first that is wrong?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.errors import EXIT_MISMATCH, EXIT_OK
from gaf.tools.cli.common import (
    Output,
    add_engine_options,
    add_model_options,
    build,
    config_of,
    jobs_of,
    load,
    model_inputs,
    resolve_engine,
)

if TYPE_CHECKING:
    from gaf.dialects.graph.model import Model
    from gaf.runtime.verify import Verification

LEVELS = (
    ("graph", "fused graph", "fuse"),
    ("tile", "tile kernels", "lower-graph, tile-plan"),
    ("interpreter", "ascendc kernels", "lower-tile, insert-sync"),
    ("host", "C++ on the host twin", "the C++ printer, the device library or the host twin"),
    ("check", "C++ in check mode", "the C++ printer, the device library or check mode"),
)
"""Engine that runs a level, what it is, and what made it from the level before."""


@dataclass
class Step:
    """One level of a bisection: its largest error over outputs and kernels, and what is wrong with it."""

    name: str
    made_by: str
    error: float = 0.0
    faults: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def ok(self) -> bool:
        return not self.faults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--inputs", metavar="FILE.npz", help="inputs to compare on (default: random ones)")
    parser.add_argument(
        "--bisect", action="store_true", help="run every pass of the graph level and every level below"
    )
    add_engine_options(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 for a difference or a violation."""
    from gaf.compiler import fuse
    from gaf.report.model import verification_json
    from gaf.report.text import verification_lines
    from gaf.runtime.inputs import random_inputs

    config = config_of(args)
    model = load(args)
    inputs = model_inputs(model, args.inputs) or random_inputs(model)
    with jobs_of(args):
        if args.bisect:
            return _bisect(args, model, inputs, out)
        engine = resolve_engine(args.engine, out)
        with out.phase("fuse and generate"):
            fused = fuse(model, config)
        build(fused, engine, out)
        with out.phase(f"verify ({engine})"):
            result = fused.verify(inputs, engine)
    data = verification_json(result)
    lines = verification_lines(data)
    if not result.ok:
        lines.append("`gaf verify --bisect` names the first level that is wrong")
    out.result("\n".join(lines), {"command": "verify", **data})
    return EXIT_OK if result.ok else EXIT_MISMATCH


def _bisect(args: argparse.Namespace, model: Model, inputs: Mapping[str, np.ndarray], out: Output) -> int:
    from gaf.compiler import fuse
    from gaf.report.text import error_text, table
    from gaf.runtime.compiler import compiler_reason, find_compiler

    with out.phase("graph passes"):
        steps = list(graph_steps(model, inputs))
    fused = None
    if all(s.ok for s in steps):
        with out.phase("fuse and generate"):
            fused = fuse(model, config_of(args))
    for engine, name, made_by in LEVELS:
        step = Step(name, made_by)
        if fused is None:
            step.skipped = "an earlier pass is wrong"
        elif engine in ("host", "check") and find_compiler() is None:
            step.skipped = compiler_reason()
        else:
            build(fused, engine, out)
            with out.phase(f"verify ({name})"):
                fill(step, fused.verify(inputs, engine))
        steps.append(step)
    first = next((s for s in steps if not s.ok), None)
    lines = table(
        ("level", "largest error", "result"),
        (
            (
                s.name,
                "-" if s.skipped else error_text(s.error),
                f"not run: {s.skipped}" if s.skipped else "ok" if s.ok else "WRONG",
            )
            for s in steps
        ),
        right=(1,),
    )
    if first is None:
        lines.append("every level that ran agrees with float64")
    else:
        lines += [
            f"first level that is wrong: {first.name}; suspect: {first.made_by}",
            *(f"  {f}" for f in first.faults[:10]),
        ]
    out.result(
        "\n".join(lines),
        {
            "command": "verify",
            "ok": first is None,
            "first_wrong": None
            if first is None
            else {"level": first.name, "made_by": first.made_by, "faults": first.faults},
            "levels": [
                {
                    "level": s.name,
                    "error": s.error if np.isfinite(s.error) else str(s.error),
                    "ok": s.ok,
                    "skipped": s.skipped or None,
                }
                for s in steps
            ],
        },
    )
    return EXIT_OK if first is None else EXIT_MISMATCH


def graph_steps(model: Model, inputs: Mapping[str, np.ndarray]) -> Iterator[Step]:
    """The model as imported in its own dtypes, then after each pass of the graph level in float64."""
    from gaf.dialects.graph.interpreter import run_model
    from gaf.passes.pipeline import GRAPH_CLEANUP, run_pipeline
    from gaf.passes.registry import parse_passes

    reference = run_model(model, inputs, wide=True)
    yield _outputs_step(
        "imported model", "the importer, or a reference", model, inputs, run_model(model, inputs), reference
    )
    work = model.clone()
    for one in parse_passes(GRAPH_CLEANUP):
        run_pipeline(work.module, [one])
        step = _outputs_step(
            f"after {one.name}", f"pass {one.name}", model, inputs, run_model(work, inputs, wide=True), reference
        )
        yield step
        if not step.ok:
            return


def _outputs_step(
    name: str,
    made_by: str,
    model: Model,
    inputs: Mapping[str, np.ndarray],
    got: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
) -> Step:
    from gaf.dialects.common import dtype as dt
    from gaf.runtime.verify import judge_outputs, tolerance_of

    step = Step(name, made_by)
    depth = max(1, sum(1 for _ in model.block.ops))
    types = dict(zip(model.output_names, model.output_types))
    tolerances = [min(tolerance_of(t.dtype.eps or dt.F32.eps, 1) * depth**0.5, 0.1) for t in types.values()]
    narrow = {n: got[n].astype(t.dtype.numpy) for n, t in types.items()}
    for c in judge_outputs(model, inputs, narrow, reference, tolerances):
        step.error = max(step.error, c.error)
        if not c.ok:
            step.faults.append(f"output '{c.name}': error {c.error:.1e} > {c.tolerance:.1e} {c.note}".rstrip())
    return step


def fill(step: Step, result: Verification) -> None:
    """Error and faults of a level from its verification; kernels first, because they are judged one by one."""
    step.error = max((c.error for c in [*result.outputs, *result.launches]), default=0.0)
    seen: dict[str, Any] = {}
    for c in result.launches:
        if not c.ok:
            seen.setdefault(f"kernel {c.kernel} ({', '.join(dict.fromkeys(c.nodes))})", c)
    for c in result.outputs:
        if not c.ok:
            seen.setdefault(f"output '{c.name}'", c)
    step.faults = [
        f"{where}: error {c.error:.1e} > {c.tolerance:.1e} {c.note}".rstrip() for where, c in seen.items()
    ]
    step.faults += [
        f"kernel {v.get('kernel')}, {v.get('node') or 'unknown node'}: {v.get('message')}"
        for v in result.violations
    ]
