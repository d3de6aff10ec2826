# SPDX-License-Identifier: Apache-2.0
"""`gaf tune`: searches better tile sizes on the modelled chip, checks them, and writes them for `gaf fuse --tuning`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from gaf.errors import EXIT_MISMATCH, EXIT_OK, InvalidInputError
from gaf.report.text import records_table
from gaf.tools.cli.bundle import json_text
from gaf.tools.cli.common import (
    Output,
    add_jobs_option,
    add_model_options,
    build,
    config_of,
    inputs_or_random,
    jobs_of,
    load,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--inputs", metavar="FILE.npz", help="an array for each input (default: random ones)")
    parser.add_argument(
        "-o", "--output", default="tuning.json", metavar="FILE", help="where to write (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="time for the search (default %(default)s)"
    )
    add_jobs_option(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if a kernel with the new sizes is wrong: then nothing is written."""
    from gaf.compiler import fuse
    from gaf.tuning import tune

    if not args.seconds > 0:
        raise InvalidInputError("--seconds has to be positive", expected="> 0", got=args.seconds)
    config = config_of(args)
    model = load(args)
    with out.phase("fuse and generate"):
        fused = fuse(model, config)
    inputs = inputs_or_random(fused, args.inputs, out)
    with jobs_of(args):
        build(fused, "trace", out)
        with out.phase("search"), out.progress("searching tile sizes") as show:
            found = tune(fused, inputs, args.seconds, show)
        ok = True
        if found.limits:
            tuned = fuse(model, replace(config, tuning=found.limits))
            build(tuned, "check", out)
            with out.phase("verify (check)"):
                ok = tuned.verify(inputs, "check").ok
    if ok:
        _write(args.output, json_text(found.to_json()))
    rows = [
        {
            "kernel": k.kernel,
            "launches": k.launches,
            "µs": k.us_before,
            "tuned µs": k.us_after,
            "tried": k.tried,
            "largest tiles": ", ".join(f"{p} = {v}" for p, v in k.limits.items()) or "as planned",
        }
        for k in found.kernels
    ]
    lines = [records_table(rows), "", f"{100 * found.gain:.1f} % less modelled time in kernels on {config.target}"]
    lines.append(
        f"written to {args.output}: gaf fuse --tuning {args.output}"
        if ok
        else "NOT written: the model is wrong with these sizes; please report this"
    )
    out.result(
        "\n".join(lines),
        {"command": "tune", "ok": ok, "output": args.output if ok else None, "gain": found.gain, **found.to_json()},
    )
    return EXIT_OK if ok else EXIT_MISMATCH


def _write(path: str, text: str) -> None:
    part = f"{path}.{os.getpid()}.part"
    try:
        Path(part).write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise InvalidInputError(f"can't write the tuning: {error.strerror}", where=path) from None
