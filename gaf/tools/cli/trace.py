# SPDX-License-Identifier: Apache-2.0
"""`gaf trace`: where the time of every kernel goes on the modelled chip, as a table and as a Perfetto timeline."""

from __future__ import annotations

import argparse

from gaf.errors import EXIT_OK
from gaf.report.text import records_table
from gaf.tools.cli.common import (
    Output,
    add_fused_model_options,
    add_jobs_option,
    build,
    fused_model,
    inputs_or_random,
    jobs_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fused_model_options(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", help="write the timeline for ui.perfetto.dev; .gz compresses it"
    )
    add_jobs_option(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Raises CompileError without a C++ compiler, InvalidInputError if the timeline can't be written."""
    from gaf.report.trace import rows, to_json, trace_model, write_perfetto

    fused = fused_model(args, out)
    inputs = inputs_or_random(fused, args.inputs, out)
    with jobs_of(args):
        build(fused, "trace", out)
    with out.phase("tracing"):
        launches = trace_model(fused, inputs)
    found, kernels = to_json(launches), rows(launches)
    lines = [
        records_table(kernels),
        "",
        f"{len(launches)} launches, {found['us']:.1f} µs with launch times: {found['model']}",
    ]
    if fused.host_ops:
        lines.append(f"{len(fused.host_ops)} ops on the host take no time here")
    if args.output is not None:
        write_perfetto(args.output, launches)
        lines.append(f"timeline written to {args.output}: open it in ui.perfetto.dev")
    out.result(
        "\n".join(lines), {"command": "trace", **found, "kernels": kernels, "output": args.output}
    )
    return EXIT_OK
