# SPDX-License-Identifier: Apache-2.0
"""`gaf run`: runs the kernels in a folder of `gaf fuse`, or of a model that is fused on the way."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from gaf.errors import EXIT_MISMATCH, EXIT_OK, InvalidInputError
from gaf.tools.cli.common import (
    Output,
    add_engine_options,
    add_fused_model_options,
    build,
    describe_array,
    fused_model,
    inputs_or_random,
    jobs_of,
    output_lines,
    resolve_engine,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fused_model_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="where to write the outputs")
    add_engine_options(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if check mode found violations."""
    from gaf.runtime.executor import Launch

    fused = fused_model(args, out)
    inputs = inputs_or_random(fused, args.inputs, out)
    violations: list[dict[str, object]] = []

    def observe(launch: Launch) -> None:
        violations.extend({"kernel": launch.kernel.name, **v} for v in launch.violations)

    with jobs_of(args):
        engine = resolve_engine(args.engine, out)
        build(fused, engine, out)
        start = time.perf_counter()
        outputs = fused.run(inputs, engine, observe)
        seconds = time.perf_counter() - start
    if args.output is not None:
        _write(args.output, outputs)
    described = [describe_array(name, array) for name, array in outputs.items()]
    lines = [*output_lines(described), f"engine {engine}, {seconds:.3f} s"]
    lines += [
        f"violation: kernel {v['kernel']}, {v.get('node') or 'unknown node'}: {v.get('message')}"
        for v in violations[:20]
    ]
    if args.output is not None:
        lines.append(f"outputs written to {args.output}")
    out.result(
        "\n".join(lines),
        {
            "command": "run",
            "engine": engine,
            "seconds": round(seconds, 6),
            "outputs": described,
            "violations": violations,
            "output": args.output,
        },
    )
    return EXIT_MISMATCH if violations else EXIT_OK


def _write(path: str, outputs: dict[str, np.ndarray]) -> None:
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as stream:
            np.savez(stream, **outputs)  # type: ignore[arg-type]
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise InvalidInputError(f"can't write the outputs: {error.strerror}", where=path) from None
