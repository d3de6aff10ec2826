# SPDX-License-Identifier: Apache-2.0
"""Milliseconds of fused groups on this machine: generated kernels beside numpy, PyTorch and ONNX Runtime.

Each case runs in float32 with one and with two threads, every contender in turn, and the medians are
compared. Contenders run at their best: weights are constants of the model, freed memory is used again (it
would cost page faults otherwise), large arrays lie in huge pages, worker threads spin between calls, ONNX
Runtime writes into a bound output. `ratio` = best contender / gaf, above 1 when gaf is faster.
`first_kernel_s`: from a fused group in the IR to a kernel that can be launched, nothing of it in a cache
but what all kernels share.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.common import finish, parser, table

GOALS = {"ratio_geomean": 1.3, "ratio_least": 1.0, "first_kernel_s": 0.15}
THREADS = (1, 2)
SECONDS = 5.0
"""Least time that one case runs with one number of threads, all contenders together."""
FEWEST_ROUNDS = 7
PAUSE_S = 0.1
"""Idle time before a contender's turn. ONNX Runtime's workers spin on for tens of milliseconds and would take a
processor from whoever comes next: with 4 ms gaf ran at half its speed on two threads."""
LOWERING = ("lower to tile", "plan and lower", "print")
"""Phases of `fused.seconds` between a fused group and its source."""
TOLERANCE = 2e-5
"""Largest |got - expected| / (|expected| + rms(expected)) against numpy in float64."""

REUSE = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 26),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Environment in which glibc keeps freed memory, in huge pages where the system allows it."""

Run = Callable[[], Any]


def contenders(case: Any, arrays: dict[str, np.ndarray], threads: int) -> dict[str, Run]:
    """How each contender computes the case once; a call gives an array or a tensor."""
    import onnxruntime
    import torch

    import gaf

    torch.set_num_threads(threads)
    inputs = {n: a for n, a in arrays.items() if n not in case.weights}
    proto = case.model(case.sizes, arrays)
    tensors = {n: torch.from_numpy(a) for n, a in arrays.items()}
    arguments = [tensors[n] for n in inputs]
    function = case.torch(tensors)
    compiled = torch.compile(function)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding, result = session.io_binding(), np.empty_like(case.numpy(arrays))
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    out = onnxruntime.OrtValue.ortvalue_from_numpy(result)
    binding.bind_ortvalue_output(session.get_outputs()[0].name, out)

    fused = gaf.fuse(gaf.load_model(proto))
    if fused.host_ops or len(fused.fused_ops) != 1:
        print(f"case {case.name}: not one kernel: {fused.fallbacks}", file=sys.stderr)

    def in_torch(run: Callable[..., Any]) -> Run:
        def call() -> Any:
            with torch.no_grad():
                return run(*arguments)

        return call

    def in_onnxruntime() -> Any:
        session.run_with_iobinding(binding)
        return out

    return {
        "gaf": lambda: fused.run(inputs, engine="host")["y"],
        "numpy": lambda: case.numpy(arrays),
        "eager": in_torch(function),
        "inductor": in_torch(compiled),
        "onnxruntime": in_onnxruntime,
    }


def error(got: Any, expected: np.ndarray) -> float:
    """Largest |got - expected| / (|expected| + rms(expected))."""
    values = got if isinstance(got, np.ndarray) else got.numpy()
    rms = float(np.sqrt(np.mean(np.square(expected))))
    return float(np.max(np.abs(values - expected) / (np.abs(expected) + rms)))


def measure(case: Any, threads: int, seconds: float) -> dict[str, Any]:
    """Median milliseconds of every contender and the error of gaf's result. Runs in its own process."""
    arrays = case.arrays(case.sizes)
    runs = contenders(case, arrays, threads)
    expected = case.numpy({n: a.astype(np.float64) for n, a in arrays.items()})
    errors = {name: error(run(), expected) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["gaf"]) < FEWEST_ROUNDS:
        for name, run in runs.items():
            time.sleep(PAUSE_S)
            run()  # wakes its threads up
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {
        "ms": {name: float(np.median(t)) * 1e3 for name, t in times.items()},
        "least_ms": {name: min(t) * 1e3 for name, t in times.items()},
        "errors": errors,
        "rounds": len(times["gaf"]),
    }


def first_kernel() -> dict[str, float]:
    """Seconds from a fused group to a loaded kernel, medians over groups of one kernel that no cache knows.

    What all kernels share is there already: the runtime library, compiled headers, Python modules.
    """
    import gaf
    from benchmarks.host_cases import CASES
    from gaf.runtime.twin import build_kernels

    lower: list[float] = []
    build: list[float] = []
    for size in range(512, 512 + 64 * 8, 64):
        for case in CASES[:2]:
            sizes = {k: size for k in case.sizes}
            fused = gaf.fuse(gaf.load_model(case.model(sizes, case.arrays(sizes))))
            (kernel,) = fused.kernels
            source = f"{kernel.source}// {time.time()}\n"  # no cache has this text
            start = time.perf_counter()
            build_kernels([(kernel.name, source)])
            build.append(time.perf_counter() - start)
            lower.append(sum(fused.seconds.get(phase, 0.0) for phase in LOWERING))
    lower, build = lower[2:], build[2:]  # the first ones import modules and compile headers
    return {
        "first_kernel_s": float(np.median(np.add(lower, build))),
        "lower_s": float(np.median(lower)),
        "build_s": float(np.median(build)),
    }


def worker(threads: int, names: Sequence[str], seconds: float) -> None:
    """Measure cases with a number of threads and print one JSON line for each."""
    from benchmarks.host_cases import CASES

    for case in CASES:
        if case.name in names:
            print(json.dumps({"case": case.name, **measure(case, threads, seconds)}), flush=True)


def measured(threads: int, names: Sequence[str], seconds: float) -> dict[str, dict[str, Any]]:
    """The figures of cases, from a process of its own with the environment that contenders like."""
    count = str(threads)
    counts = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "GAF_THREADS": count}
    command = [sys.executable, "-m", "benchmarks.host", "--worker", count, "--only", "".join(names), "--seconds", str(seconds)]
    found: dict[str, dict[str, Any]] = {}
    with subprocess.Popen(command, env={**os.environ, **REUSE, **counts}, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                one = json.loads(line)
                found[one["case"]] = one
                print(f"case {one['case']}, {threads} thread(s): {one['rounds']} rounds", file=sys.stderr, flush=True)
    if process.returncode != 0:
        print(f"with {threads} threads: the process ended with code {process.returncode}", file=sys.stderr)
    return found


def figures_of(results: dict[int, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """The figures by key (`a_fp32_t1`, ...), and their summary."""
    figures: dict[str, Any] = {}
    for threads, cases in results.items():
        for name, found in cases.items():
            peers = {peer: ms for peer, ms in found["ms"].items() if peer != "gaf"}
            best = min(peers, key=lambda p: peers[p])
            figures[f"{name}_fp32_t{threads}"] = {
                "gaf_ms": found["ms"]["gaf"],
                "best_peer": best,
                "best_peer_ms": peers[best],
                "ratio": peers[best] / found["ms"]["gaf"],
                "peers_ms": peers,
                "rel_err": found["errors"]["gaf"],
                "right": found["errors"]["gaf"] <= TOLERANCE,
            }
    ratios = [f["ratio"] for f in figures.values()]
    if ratios:
        figures["ratio_geomean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
        figures["ratio_least"] = min(ratios)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--only", default="abcdef", help="letters of the cases to run")
    args.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    args.add_argument("--seconds", type=float, default=SECONDS, help="least seconds of a case")
    args.add_argument("--worker", type=int, help="measure in this process with so many threads")
    options = args.parse_args(argv)
    if options.worker:
        worker(options.worker, options.only, options.seconds)
        return 0
    results = {t: measured(t, options.only, options.seconds) for t in options.threads}
    figures = figures_of(results)
    rows = [
        {"case": key, **{k: f[k] for k in ("gaf_ms", "best_peer", "best_peer_ms", "ratio")}, **f["peers_ms"], "rel_err": f["rel_err"]}
        for key, f in figures.items() if isinstance(f, dict)
    ]
    print(table(rows))
    figures |= first_kernel()
    for key, goal in GOALS.items():
        if key in figures:
            met = figures[key] <= goal if key.endswith("_s") else figures[key] >= goal
            print(f"{key} = {figures[key]:.3g} (goal {goal:g}: {'reached' if met else 'missed'})")
    for key, f in figures.items():
        if isinstance(f, dict) and not f["right"]:
            print(f"{key}: WRONG, relative error {f['rel_err']:.2g}")
    return finish("host", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
