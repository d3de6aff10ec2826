# SPDX-License-Identifier: Apache-2.0
"""`gaf fuse`: from a model to a folder with kernels, their sources, a report and the result of verification."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.codegen.project import CheckCase, check_cases
from gaf.dialects.common import dtype as dt
from gaf.errors import EXIT_MISMATCH, EXIT_OK
from gaf.tools.cli import bundle
from gaf.tools.cli.common import (
    Output,
    add_engine_options,
    add_model_options,
    build,
    config_of,
    jobs_of,
    load,
    model_inputs,
    relative,
    resolve_engine,
)

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.report.model import Report
    from gaf.runtime.executor import Launch
    from gaf.runtime.verify import Verification

CHECK_BYTES = 32 << 20
"""What the data of the check program may take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "-o", "--output", default="out", metavar="FOLDER", help="where to write (default %(default)s)"
    )
    parser.add_argument("--inputs", metavar="FILE.npz", help="inputs for verification (default: random ones)")
    parser.add_argument("--no-verify", action="store_true", help="neither build nor run the kernels")
    parser.add_argument(
        "--aclnn", action="store_true", help="also write the kernels as an operator project of CANN, for aclnn and ATC"
    )
    add_engine_options(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if verification found a difference; the folder is then written all the same."""
    config = config_of(args)
    model = load(args)
    inputs = model_inputs(model, args.inputs)
    space = bundle.Workspace(Path(args.output))
    try:
        from gaf.compiler import fuse

        with out.phase("fuse and generate"):
            fused = fuse(model, config)
        verifications: list[Verification] = []
        if not args.no_verify:
            with jobs_of(args):
                engine = resolve_engine(args.engine, out)
                engines = ["host", "check"] if args.engine == "auto" and engine == "host" else [engine]
                inputs, verifications = verify(fused, engines, inputs, out)
        report = write(fused, inputs, verifications, space, out, args.aclnn)
        space.publish()
    finally:
        space.discard()
    out.result(_text(report, verifications, Path(args.output)), _data(report, verifications, args.output))
    return EXIT_OK if all(v.ok for v in verifications) else EXIT_MISMATCH


def verify(
    fused: FusedModel, engines: list[str], inputs: dict[str, np.ndarray] | None, out: Output
) -> tuple[dict[str, np.ndarray], list[Verification]]:
    """Build for and verify on each engine; returns the inputs that were used."""
    from gaf.runtime.inputs import random_inputs

    inputs = inputs if inputs is not None else random_inputs(fused.source_model)
    results: list[Verification] = []
    for engine in engines:
        build(fused, engine, out)
        with out.phase(f"verify ({engine})"):
            results.append(fused.verify(inputs, engine))
    return inputs, results


def write(
    fused: FusedModel,
    inputs: dict[str, np.ndarray] | None,
    verifications: list[Verification],
    space: bundle.Workspace,
    out: Output,
    operators: bool = False,
) -> Report:
    """Fill the new folder, with `operators` also `aclnn/`; returns the report."""
    from gaf.dialects.graph.model import bind_symbols
    from gaf.report.model import build_report, verification_json

    source = fused.source_model
    symbols = None
    if inputs is not None:
        symbols = bind_symbols(
            source.input_names, source.input_types, [inputs[n] for n in source.input_names]
        )
    with out.phase("write"):
        report = build_report(fused, worst(verifications), symbols)
        bundle.write_model(fused, space, operators)
        bundle.write_report(report, {k.name: k.source for k in fused.kernels}, space)
        recorder = CaseRecorder(verifications)
        if inputs is not None and verifications:
            space.write_arrays("verify/inputs.npz", inputs)
            space.write_arrays("verify/outputs.npz", fused.run(inputs, verifications[0].engine, recorder.observe))
            space.write(
                {"verify/verification.json": bundle.json_text([verification_json(v) for v in verifications])}
            )
        space.write_bytes(check_cases(list(recorder.cases.values()), CHECK_BYTES))
    return report


class CaseRecorder:
    """Keeps the first launch of every kernel for the project's check program."""

    def __init__(self, verifications: list[Verification]) -> None:
        self.cases: dict[str, CheckCase] = {}
        self._tolerance: dict[tuple[str | None, str], float] = {}
        for c in (c for v in verifications for c in v.launches):
            self._tolerance[c.kernel, c.name] = max(c.tolerance, self._tolerance.get((c.kernel, c.name), 0.0))

    def observe(self, launch: Launch) -> None:
        from gaf.runtime.executor import kernel_args

        kernel = launch.kernel
        if kernel.name in self.cases:
            return
        arrays = [*(launch.operands[i] for i in kernel_args(launch.fused)), *launch.outputs]
        names = [r.name_hint or f"output {i}" for i, r in enumerate(launch.fused.results)]
        self.cases[kernel.name] = CheckCase(
            kernel.name,
            [launch.symbols[s] for s in kernel.host.symbols],
            [dt.of_numpy(a.dtype).name for a in arrays],
            [a.tobytes() for a in arrays],
            [self._tolerance.get((kernel.name, n), 0.0) for n in names],
        )


def worst(verifications: list[Verification]) -> Verification | None:
    """The verification to show: a failed one, else the last (check mode looks closest)."""
    return next((v for v in verifications if not v.ok), verifications[-1] if verifications else None)


def _text(report: Report, verifications: list[Verification], folder: Path) -> str:
    from gaf.report.model import verification_json
    from gaf.report.text import figures_text, verification_lines

    lines = figures_text(report)
    for h in report.host:
        lines.append(f"on the host           {h.count} x {h.op}: {h.reason}")
    for verification in verifications:
        lines += verification_lines(verification_json(verification))
    if not verifications:
        lines.append("verification          not run")
    name = relative(folder)
    lines += [f"report                {name}/report.html", f"kernels               {name}/kernels/"]
    return "\n".join(lines)


def _data(report: Report, verifications: list[Verification], folder: str) -> dict[str, Any]:
    from gaf.report.model import verification_json

    return {
        "command": "fuse",
        "output": folder,
        "ok": all(v.ok for v in verifications),
        "figures": report.figures(),
        "fusions": report.fusions,
        "host": [{"op": h.op, "count": h.count, "reason": h.reason} for h in report.host],
        "verified": [
            {
                key: found[key]
                for key in ("engine", "ok", "max_error", "max_kernel_error", "outputs", "violations")
            }
            for found in map(verification_json, verifications)
        ],
    }
