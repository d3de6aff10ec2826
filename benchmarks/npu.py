# SPDX-License-Identifier: Apache-2.0
"""Forty fused operators on the modelled 910B: bytes against compulsory bytes, cycles against the roofline of
the pipes.

Every case is fused as a model of its own and run in trace mode at full size; a reduced size runs in check
mode against float64. Times are modelled (gaf.target.timing), not measured on a device.

* traffic_ratio: bytes that memory moves over bytes of inputs and outputs, each once (of a gathered table the
  rows that are read). A byte counts once per kernel while what is read again stays below half of L2.
* roofline_ratio: cycles over the slowest pipe's work spread evenly over all cores at achievable rates:
  compulsory loads, compulsory stores, the vector instructions and the cube products that the kernels execute.
* hbm_ratio: modelled time over compulsory bytes at the chip's memory bandwidth.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from benchmarks.common import demo_model, finish, parser, table
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.model import INPUTS, Model, new_model
from gaf.dialects.graph.model import finish as finish_model
from gaf.dialects.graph.registry import by_name
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.frontend.builder import GraphBuilder
from gaf.runtime.timeline import PIPES, Timeline
from gaf.target import DEFAULT, rates
from gaf.target.timing import Timing

GOALS = {"traffic_ratio_geomean": 1.05, "roofline_ratio_geomean": 1.25}
F32, F16, BF16, I32 = dt.F32, dt.F16, dt.BF16, dt.I32
LARGE = 8_000_000
"""Bytes of a case from which on its roofline ratio counts in the geomean."""


class Graph:
    """Builds one case: `input`, then ops by name (`g.add(a, b)`), then `model`."""

    def __init__(self, kind: dt.DType) -> None:
        self.kind = kind
        self._model = new_model([])
        self._builder = GraphBuilder(self._model)
        self.names: list[str] = []
        self.ids: dict[str, int] = {}
        self.lookups: list[tuple[str, int]] = []
        self._bytes = 0

    def input(self, *shape: int, kind: dt.DType | None = None, below: int = 0) -> SSAValue:
        """A model input; `below`: it holds indices 0..below-1."""
        kind = kind or self.kind
        block = self._model.block
        value = block.insert_arg(TensorType.of(shape, kind), len(block.args))
        self.names.append(f"x{len(self.names)}")
        value.name_hint = self.names[-1]
        if below:
            self.ids[self.names[-1]] = below
        self._bytes += math.prod(shape) * kind.bytes
        return value

    def lookup(self, rows: int, width: int, count: int) -> SSAValue:
        """`count` rows of a table that is an input, by ids that are one too."""
        table = self.input(rows, width)
        self._bytes -= rows * width * self.kind.bytes
        ids = self.input(count, kind=I32, below=rows)
        self.lookups.append((self.names[-1], width * self.kind.bytes))
        return self.gather(table, ids, axis=0, wrap=False)

    def compulsory(self, inputs: dict[str, np.ndarray]) -> int:
        """Bytes of inputs and outputs, each once; of a looked-up table the distinct rows."""
        return self._bytes + sum(len(np.unique(inputs[ids])) * row for ids, row in self.lookups)

    def number(self, value: float) -> SSAValue:
        return self._builder.constant(np.asarray(value, self.kind.numpy))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = by_name(f"graph.{name.rstrip('_')}")
        if op is None:
            raise AttributeError(name)

        def emit(*operands: SSAValue, **attrs: Any) -> Any:
            return self._builder.emit(
                op, list(operands), attrs, location=f"{name}_{len(self._model.block.ops)}"
            )

        return emit

    def model(self, outputs: Sequence[SSAValue]) -> Model:
        for value in outputs:
            t = tensor_type(value)
            self._bytes += math.prod(t.concrete({})) * t.dtype.bytes
        self._model.func.attributes[INPUTS] = ArrayAttr([StringAttr(n) for n in self.names])
        finish_model(self._model, [(f"y{i}", v) for i, v in enumerate(outputs)])
        return self._model


Build = Callable[..., SSAValue | Sequence[SSAValue]]


@dataclass(frozen=True)
class Case:
    """One operator: how to build it, its element type, and the sizes for trace and for check mode."""

    name: str
    kind: dt.DType
    build: Build
    full: tuple[int, ...]
    small: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"{self.name} {self.kind.name} {'x'.join(map(str, self.full))}"

    def graph(self, sizes: Sequence[int]) -> tuple[Model, Graph]:
        g = Graph(self.kind)
        made = self.build(g, *sizes)
        return g.model([made] if isinstance(made, SSAValue) else made), g


def layer_norm(g: Graph, m: int, n: int) -> SSAValue:
    return g.layer_norm(g.input(m, n), g.input(n), g.input(n), axis=-1, epsilon=1e-5, stash=False)


def rms_norm(g: Graph, m: int, n: int) -> SSAValue:
    return g.rms_norm(g.input(m, n), g.input(n), axis=-1, epsilon=1e-6)


def add_rms_norm(g: Graph, m: int, n: int) -> list[SSAValue]:
    total = g.add(g.input(m, n), g.input(m, n))
    return [total, g.rms_norm(total, g.input(n), axis=-1, epsilon=1e-6)]


def group_norm(g: Graph, b: int, c: int, h: int, w: int) -> SSAValue:
    return g.group_norm(g.input(b, c, h, w), g.input(c), g.input(c), num_groups=8, epsilon=1e-5)


def instance_norm(g: Graph, b: int, c: int, h: int, w: int) -> SSAValue:
    return g.instance_norm(g.input(b, c, h, w), g.input(c), g.input(c), epsilon=1e-5)


def channel_scale(g: Graph, b: int, c: int, h: int, w: int) -> SSAValue:
    """Batch norm after folding: relu(x * scale + shift) per channel."""
    scale, shift = (g.input(c, 1, 1) for _ in range(2))
    return g.relu(g.add(g.mul(g.input(b, c, h, w), scale), shift))


def softmax(g: Graph, m: int, n: int) -> SSAValue:
    return g.softmax(g.input(m, n), axes=(-1,))


def softmax_first(g: Graph, m: int, n: int) -> SSAValue:
    return g.softmax(g.input(m, n), axes=(0,))


def log_softmax(g: Graph, m: int, n: int) -> SSAValue:
    return g.log_softmax(g.input(m, n), axes=(-1,))


def masked_softmax(g: Graph, b: int, h: int, m: int, n: int) -> SSAValue:
    scaled = g.mul(g.input(b, h, m, n), g.number(0.125))
    return g.softmax(g.add(scaled, g.input(b, 1, 1, n)), axes=(-1,))


def gelu(g: Graph, m: int, n: int) -> SSAValue:
    return g.gelu(g.input(m, n), approximate="none")


def bias_gelu_tanh(g: Graph, m: int, n: int) -> SSAValue:
    return g.mul(g.gelu(g.add(g.input(m, n), g.input(n)), approximate="tanh"), g.number(0.5))


def swiglu(g: Graph, m: int, n: int) -> SSAValue:
    return g.mul(g.silu(g.input(m, n), alpha=1.0), g.input(m, n))


def multiply_add_relu(g: Graph, m: int, n: int) -> SSAValue:
    return g.relu(g.add(g.mul(g.input(m, n), g.input(m, n)), g.input(m, n)))


def rope(g: Graph, b: int, h: int, s: int, d: int) -> SSAValue:
    x, cos, sin = g.input(b, h, s, d), g.input(s, d), g.input(s, d)
    halves = [
        g.slice(x, starts=(0, 0, 0, at), sizes=(b, h, s, d // 2), steps=(1, 1, 1, 1)) for at in (0, d // 2)
    ]
    turned = g.concat(g.neg(halves[1]), halves[0], axis=-1)
    return g.add(g.mul(x, cos), g.mul(turned, sin))


def reduce(name: str, *axes: int) -> Build:
    def build(g: Graph, *shape: int) -> SSAValue:
        return getattr(g, f"reduce_{name}")(g.input(*shape), axes=axes, keepdims=False)

    return build


def transpose(*perm: int) -> Build:
    def build(g: Graph, *shape: int) -> SSAValue:
        return g.transpose(g.input(*shape), perm=perm)

    return build


def scaled_transpose(g: Graph, m: int, n: int) -> SSAValue:
    return g.mul(g.transpose(g.input(m, n), perm=(1, 0)), g.number(2.0))


def embedding(g: Graph, rows: int, m: int, n: int) -> SSAValue:
    return g.lookup(rows, n, m)


def embedding_norm(g: Graph, rows: int, m: int, n: int) -> SSAValue:
    return g.layer_norm(
        g.add(g.lookup(rows, n, m), g.input(m, n)), g.input(n), g.input(n), axis=-1, epsilon=1e-5, stash=False
    )


def linear_gelu(g: Graph, m: int, k: int, n: int) -> SSAValue:
    return g.gelu(g.add(g.matmul(g.input(m, k), g.input(k, n)), g.input(n)), approximate="tanh")


def linear_residual_norm(g: Graph, m: int, k: int, n: int) -> SSAValue:
    total = g.add(g.add(g.matmul(g.input(m, k), g.input(k, n)), g.input(n)), g.input(m, n))
    return g.layer_norm(total, g.input(n), g.input(n), axis=-1, epsilon=1e-5, stash=False)


def linear_relu(g: Graph, m: int, k: int, n: int) -> SSAValue:
    return g.relu(g.matmul(g.input(m, k), g.input(k, n)))


def attention(g: Graph, b: int, h: int, s: int, d: int) -> SSAValue:
    q, k, v = (g.input(b, h, s, d) for _ in range(3))
    scores = g.mul(g.matmul(q, g.transpose(k, perm=(0, 1, 3, 2))), g.number(d**-0.5))
    return g.matmul(g.softmax(scores, axes=(-1,)), v)


def masked_attention(g: Graph, b: int, h: int, s: int, d: int) -> SSAValue:
    q, k, v = (g.input(b, h, s, d) for _ in range(3))
    scores = g.mul(g.matmul(q, g.transpose(k, perm=(0, 1, 3, 2))), g.number(d**-0.5))
    return g.matmul(g.softmax(g.add(scores, g.input(b, 1, 1, s)), axes=(-1,)), v)


CASES: tuple[Case, ...] = (
    Case("layer_norm", F32, layer_norm, (4096, 1024), (50, 1024)),
    Case("layer_norm", F16, layer_norm, (8192, 768), (70, 768)),
    Case("layer_norm", BF16, layer_norm, (4099, 1021), (37, 1021)),
    Case("rms_norm", F32, rms_norm, (4096, 2048), (29, 2048)),
    Case("rms_norm", F16, rms_norm, (5003, 1000), (41, 1000)),
    Case("add_rms_norm", BF16, add_rms_norm, (4096, 2048), (29, 2048)),
    Case("group_norm", F32, group_norm, (8, 64, 64, 64), (2, 16, 64, 64)),
    Case("group_norm", F16, group_norm, (16, 32, 97, 89), (2, 16, 37, 29)),
    Case("instance_norm", F32, instance_norm, (8, 32, 96, 96), (2, 5, 96, 96)),
    Case("channel_scale", F32, channel_scale, (16, 64, 56, 56), (2, 7, 56, 56)),
    Case("softmax", F32, softmax, (4096, 1024), (50, 1024)),
    Case("softmax", F16, softmax, (9001, 500), (90, 500)),
    Case("softmax_first", F32, softmax_first, (1024, 4096), (100, 530)),
    Case("log_softmax", BF16, log_softmax, (2048, 4096), (11, 4096)),
    Case("masked_softmax", F32, masked_softmax, (8, 12, 256, 256), (2, 3, 37, 256)),
    Case("gelu", F32, gelu, (4096, 1024), (50, 1024)),
    Case("gelu", BF16, gelu, (2999, 1999), (31, 1999)),
    Case("bias_gelu_tanh", F16, bias_gelu_tanh, (4096, 3072), (17, 3072)),
    Case("bias_gelu_tanh", F32, bias_gelu_tanh, (4097, 1001), (45, 1001)),
    Case("swiglu", F16, swiglu, (4096, 4096), (17, 4096)),
    Case("swiglu", BF16, swiglu, (3001, 2731), (19, 2731)),
    Case("multiply_add_relu", F32, multiply_add_relu, (4096, 1024), (60, 1024)),
    Case("rope", F16, rope, (4, 16, 512, 128), (2, 3, 70, 128)),
    Case("rope", F32, rope, (4, 9, 1001, 64), (2, 3, 71, 64)),
    Case("reduce_sum_last", F32, reduce("sum", -1), (4096, 2048), (50, 2048)),
    Case("reduce_sum_first", F32, reduce("sum", 0), (2048, 4096), (130, 530)),
    Case("reduce_mean_middle", F32, reduce("mean", 1), (64, 256, 512), (5, 70, 512)),
    Case("reduce_max_all", F32, reduce("max", 0, 1), (4096, 1024), (70, 1024)),
    Case("reduce_sum_last", F16, reduce("sum", -1), (8003, 1003), (90, 1003)),
    Case("reduce_l2_first", BF16, reduce("l2", 0), (4099, 2001), (130, 301)),
    Case("transpose", F32, transpose(1, 0), (2048, 2048), (150, 130)),
    Case("scaled_transpose", F16, scaled_transpose, (2501, 2003), (101, 203)),
    Case("transpose_heads", F16, transpose(0, 2, 1, 3), (16, 512, 16, 64), (2, 37, 5, 64)),
    Case("embedding", F32, embedding, (30000, 8192, 768), (300, 130, 768)),
    Case("embedding_norm", F16, embedding_norm, (30000, 8192, 768), (300, 130, 768)),
    Case("linear_gelu", F16, linear_gelu, (2048, 768, 3072), (200, 768, 300)),
    Case("linear_relu", F32, linear_relu, (1000, 700, 1300), (150, 700, 300)),
    Case("linear_residual_norm", F16, linear_residual_norm, (4096, 768, 768), (100, 768, 768)),
    Case("attention", F16, attention, (4, 12, 512, 64), (1, 2, 150, 64)),
    Case("masked_attention", F32, masked_attention, (2, 8, 333, 64), (1, 2, 133, 64)),
)


def feeds(model: Model, g: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: normal numbers, and indices in range."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, kind in zip(model.input_names, model.input_types):
        shape = kind.concrete({})
        if name in g.ids:
            made[name] = rng.integers(0, g.ids[name], shape).astype(kind.dtype.numpy)
        else:
            made[name] = rng.standard_normal(shape, np.float32).astype(kind.dtype.numpy)
    return made


def roofline(lines: Sequence[Timeline], read: int, written: int, timing: Timing) -> dict[str, float]:
    """Cycles that each pipe needs at least, its work spread evenly over all cores of the chip.

    Loads and stores are the compulsory ones of the case; V and M are what the kernels execute.
    """
    aiv, aic = int(timing.aiv_cores), int(timing.aic_cores)
    cube = max((c.cube for line in lines for c in line.cores), default=False)
    load = timing.hbm_bytes_per_cycle if cube else timing.load_rate(aiv) * aiv
    return {
        "MTE2": read / load,
        "MTE3": written / (timing.store_rate(aiv) * aiv),
        "V": sum(line.total("V", "work") for line in lines) / aiv,
        "M": sum(line.total("M", "work") for line in lines) / (aic * rates(DEFAULT).cube_efficiency),
    }


class Run:
    """One case, fused at both sizes."""

    def __init__(self, case: Case, check: bool) -> None:
        import gaf

        self.case, self.check = case, check
        (self.model, self.graph), (self.small, self.small_graph) = (
            case.graph(case.full),
            case.graph(case.small),
        )
        self.fused = gaf.fuse(self.model)
        self.fused_small = gaf.fuse(self.small) if check else None

    def build(self) -> None:
        """Compile the kernels of both."""
        if not self.fused.host_ops:
            self.fused.executor("trace").build()
        if self.fused_small is not None:
            self.fused_small.executor("check").build()

    def figures(self) -> dict[str, Any]:
        return self._trace() | (self._check() if self.check else {})

    def _trace(self) -> dict[str, Any]:
        """The case at full size in trace mode."""
        fused, timing = self.fused, Timing.of()
        inputs = feeds(self.model, self.graph)
        written = sum(math.prod(t.concrete({})) * t.dtype.bytes for t in self.model.output_types)
        compulsory = self.graph.compulsory(inputs)
        lines: list[Timeline] = []
        if not fused.host_ops:
            fused.run(inputs, engine="trace", observe=lambda launch: lines.append(launch.timeline))
        found: dict[str, Any] = {
            "kernels": len(lines),
            "compulsory_bytes": compulsory,
            "host": list(fused.fallbacks),
        }
        if not lines:
            views = sorted(
                {
                    op.name.removeprefix("graph.")
                    for op in self.model.block.ops
                    if getattr(op, "IS_VIEW", False)
                }
            )
            return found | {
                "host": found["host"] or [f"{', '.join(views)} alone: a copy that the host makes"]
            }
        cycles = sum(line.cycles for line in lines)
        least = roofline(lines, compulsory - written, written, timing)
        bound = max(least, key=lambda p: least[p])
        us = cycles / timing.clock_mhz
        return found | {
            "us": us,
            "bytes": sum(line.hbm_bytes for line in lines),
            "traffic_ratio": sum(line.hbm_bytes for line in lines) / compulsory,
            "roofline_bound": bound,
            "roofline_ratio": cycles / least[bound],
            "hbm_ratio": us / (compulsory / rates(DEFAULT).hbm_bytes_per_s * 1e6),
            "bound_by": max(lines, key=lambda line: line.cycles).bound_by,
            "busy": {p: sum(line.busiest(p) for line in lines) / cycles for p in PIPES},
            "faults": [line.fault for line in lines if line.fault],
            "unknown_apis": sorted({a for line in lines for a in line.unknown_apis}),
        }

    def _check(self) -> dict[str, Any]:
        """The case at reduced size in check mode and against float64."""
        assert self.fused_small is not None
        verified = self.fused_small.verify(feeds(self.small, self.small_graph, 1), engine="check")
        return {
            "violations": len(verified.violations),
            "rules": sorted({v["rule"] for v in verified.violations}),
            "right": all(c.ok for c in [*verified.launches, *verified.outputs]),
            "max_rel_err": verified.max_error,
        }


def run_cases(cases: Sequence[Case], check: bool) -> list[dict[str, Any]]:
    """Figures of every case, `error` for one that fails: it must not hide the others."""
    results: dict[str, dict[str, Any]] = {}
    runs: list[Run] = []
    for case in cases:
        try:
            runs.append(Run(case, check))
        except GafError as e:
            results[case.title] = {"error": str(e)}

    def build(run: Run) -> None:
        with suppress(GafError):  # figures() meets it again
            run.build()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, runs))
    for i, run in enumerate(runs):
        try:
            results[run.case.title] = run.figures()
        except GafError as e:
            results[run.case.title] = {"error": str(e)}
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{i + 1}/{len(runs)} {run.case.title:<60}", end=end, file=sys.stderr, flush=True)
    return [{"case": case.title, **results[case.title]} for case in cases]


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def run_model() -> list[dict[str, Any]]:
    """The kernels of the demo model, batch 2 of 128 tokens: bytes and time of each, first launch."""
    import gaf

    path = demo_model()
    if path is None:
        return []
    model = gaf.load_model(path)
    rng = np.random.default_rng(0)
    inputs = {
        n: rng.integers(0, 2 if "mask" in n or "type" in n else 1000, (2, 128)).astype(t.dtype.numpy)
        for n, t in zip(model.input_names, model.input_types)
    }
    seen: dict[str, dict[str, Any]] = {}
    timing = Timing.of()

    def observe(launch: Any) -> None:
        line: Timeline = launch.timeline
        least = sum(max(a.read_once, a.written_once) for a in line.arguments if a.role != "workspace")
        read = sum(a.read_once for a in line.arguments if a.role == "input")
        written = sum(a.written_once for a in line.arguments if a.role == "output")
        limits = roofline([line], read, written, timing)
        entry = seen.setdefault(line.kernel, {"kernel": line.kernel, "launches": 0, "us": 0.0})
        entry["launches"] += 1
        entry["us"] += line.us
        entry["traffic_ratio"] = line.hbm_bytes / least if least else math.nan
        entry["roofline_ratio"] = line.cycles / max(limits.values())
        entry["bound_by"] = line.bound_by

    gaf.fuse(model).run(inputs, engine="trace", observe=observe)
    return list(seen.values())


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--only", help="run the cases whose title contains this text")
    args.add_argument("--no-check", action="store_true", help="leave check mode and float64 out")
    options = args.parse_args(argv)
    started = time.perf_counter()
    cases = [c for c in CASES if not options.only or options.only in c.title]
    results = run_cases(cases, not options.no_check)
    done = [r for r in results if "us" in r]
    missing = {r["case"]: r["host"] for r in results if r.get("host")}
    failed = {r["case"]: r["error"] for r in results if "error" in r}
    columns = (
        "case",
        "kernels",
        "us",
        "traffic_ratio",
        "roofline_ratio",
        "roofline_bound",
        "hbm_ratio",
        "bound_by",
        "violations",
    )
    print(table([{c: r.get(c) for c in columns} for r in done]))
    for title, why in missing.items():
        print(f"no kernel yet: {title}: {'; '.join(why)}")
    for title, why in failed.items():
        print(f"failed: {title}: {why}")
    wrong = [r["case"] for r in done if r.get("right") is False]
    for title in wrong:
        print(f"differs from float64: {title}")
    kernels = [] if options.only else run_model()
    if kernels:
        print("\nkernels of the demo model, 2 x 128 tokens")
        print(table(kernels))
    large = [r for r in done if r["compulsory_bytes"] >= LARGE]
    figures: dict[str, Any] = {
        "traffic_ratio_geomean": geomean([r["traffic_ratio"] for r in done]),
        "roofline_ratio_geomean": geomean([r["roofline_ratio"] for r in large]),
        "hbm_ratio": geomean([r["hbm_ratio"] for r in large]),
        "violations": None if options.no_check else sum(r.get("violations", 0) for r in results),
        "cases": len(results), "through_kernels": len(done), "wrong": len(wrong),
        "no_kernel_yet": missing, "failed": failed, "seconds": time.perf_counter() - started,
        "per_case": {r["case"]: {k: v for k, v in r.items() if k != "case"} for r in results},
        "demo_model": {k["kernel"]: k for k in kernels},
    }  # fmt: skip
    for key, goal in GOALS.items():
        print(
            f"{key} = {figures[key]:.3g} (goal <= {goal:g}: "
            + ("reached)" if figures[key] <= goal else "missed)")
        )
    print(
        f"violations = {'not checked' if options.no_check else figures['violations']} (goal 0), hbm_ratio = {figures['hbm_ratio']:.3g}, "
        f"{figures['seconds']:.0f} s"
    )
    return finish("npu", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
