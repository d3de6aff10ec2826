# SPDX-License-Identifier: Apache-2.0
"""`gaf bench`: fused and unfused side by side, modelled on the chip and measured on this machine."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.errors import EXIT_OK
from gaf.report.text import records_table
from gaf.tools.cli.common import (
    Output,
    add_engine_options,
    add_model_options,
    build,
    config_of,
    jobs_of,
    load,
    model_inputs,
    positive,
    resolve_engine,
)

if TYPE_CHECKING:
    from gaf.compiler import FusedModel

Runner = Callable[[], object]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--inputs", metavar="FILE.npz", help="an array for each input (default: random ones)")
    parser.add_argument(
        "--runs", type=positive, default=15, metavar="N", help="timed runs of each side (default %(default)s)"
    )
    add_engine_options(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Times are medians of interleaved runs; ratios are to the fused model."""
    from gaf.compiler import fuse
    from gaf.runtime.inputs import random_inputs

    config = config_of(args)
    model = load(args)
    with out.phase("fuse and generate, twice"):
        fused = fuse(model, config)
        unfused = fuse(model, replace(config, strategy="none"))
    inputs = model_inputs(model, args.inputs) or random_inputs(model)
    with jobs_of(args):
        engine = resolve_engine(args.engine, out)
        sides: dict[str, Runner] = {}
        for name, side in (("fused", fused), ("one kernel an op", unfused)):
            build(side, engine, out)
            sides[name] = lambda side=side: side.run(inputs, engine)
    if (peer := _onnxruntime(args.model, model.output_names, inputs)) is not None:
        sides["onnxruntime"] = peer
    with out.phase(f"{args.runs} runs of each"):
        measured = interleaved(sides, args.runs)
    modelled = _modelled(fused, unfused)
    rows = [
        {"": name, "ms here": 1e3 * seconds, "ratio": seconds / measured["fused"], **modelled.get(name, {})}
        for name, seconds in measured.items()
    ]
    columns = {key: None for row in rows for key in row}
    rows = [{c: row.get(c) for c in columns} for row in rows]
    lines = [
        records_table(rows),
        "",
        f"ms here: engine {engine}, median of {args.runs} interleaved runs; "
        f"µs: modelled on {config.target} at the sizes that fusion was priced for, not measured",
    ]
    out.result(
        "\n".join(lines),
        {
            "command": "bench",
            "engine": engine,
            "runs": args.runs,
            "target": config.target,
            "inputs": {n: list(a.shape) for n, a in inputs.items()},
            "sides": [{"name": r.pop(""), **r} for r in rows],
        },
    )
    return EXIT_OK


def interleaved(sides: Mapping[str, Runner], runs: int) -> dict[str, float]:
    """Median seconds of each side, after one warm-up; the sides take turns so that load hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for one in sides.values():
        one()
    for _ in range(runs):
        for name, one in sides.items():
            start = time.perf_counter()
            one()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def _modelled(fused: FusedModel, unfused: FusedModel) -> dict[str, dict[str, Any]]:
    found = {}
    for name, side in (("fused", fused), ("one kernel an op", unfused)):
        if side.search is not None:
            figures = side.report.figures()
            found[name] = {
                "kernels": figures["kernels"],
                "HBM MB": side.search.hbm_bytes / 1e6,
                "µs": side.search.cost_us,
            }
    return found


def _onnxruntime(path: str, names: list[str], inputs: Mapping[str, np.ndarray]) -> Runner | None:
    """A session on the model's file, with onnxruntime's own optimisations; None if it isn't there or can't run it."""
    if Path(path).suffix != ".onnx":
        return None
    try:
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = {i.name: inputs[i.name] for i in session.get_inputs() if i.name in inputs}
        session.run(names, feeds)
    except Exception:  # it is only something to compare with: any failure leaves it out
        return None
    return lambda: session.run(names, feeds)
