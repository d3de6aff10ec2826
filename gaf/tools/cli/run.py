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
    build,
    describe_array,
    jobs_of,
    model_inputs,
    output_lines,
    resolve_engine,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FOLDER", help="a folder that `gaf fuse` wrote, or a model file")
    parser.add_argument("--inputs", metavar="FILE.npz", help="an array for each input (default: random ones)")
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="where to write the outputs")
    add_engine_options(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if check mode found violations."""
    from gaf.compiler import fuse
    from gaf.frontend.load import load_model
    from gaf.runtime.executor import Launch
    from gaf.runtime.inputs import random_inputs
    from gaf.tools.cli.bundle import read_bundle

    if Path(args.model).is_file():
        with out.phase("fuse and generate"):
            fused = fuse(load_model(args.model))
    else:
        fused = read_bundle(args.model)
    inputs = model_inputs(fused.model, args.inputs)
    if inputs is None:
        inputs = random_inputs(fused.model)
        out.note("gaf: no --inputs: running on random ones")
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
