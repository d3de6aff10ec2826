# SPDX-License-Identifier: Apache-2.0
"""Kernels, modelled HBM traffic and modelled time on 910B3 of known networks, fused and unfused (fp32, static
sizes).

`unfused` runs every op as a kernel of its own, where Linear with its bias, LayerNorm, Softmax, GELU and the
like count as one op in any spelling, as in an eager framework. `mb` counts every operand of every kernel
once, `l2_mb` the workspace between cube and vector cores of one kernel. An op that stays on the host counts
as a kernel with its bytes. Weights are holes in a sparse file. Every network is built small as well, fused and
run in check mode: kernel patterns that don't verify there are listed in `unverified` and counted unfused.
`--no-verify` leaves that out, and `unverified` is null.

`bert_base_tp2_b16_s512` is one rank of BERT-base in tensor parallelism 2, with an AllReduce behind attention and
feed-forward block, and a rule of a user's: there every one of the five kinds of fusion is counted (`kinds`).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.common import finish, parser, table

EAGER_OPS = ("Linear", "LayerNorm", "RMSNorm", "Softmax", "Gelu", "Silu")
"""Macros that an eager framework runs as one kernel."""


@dataclass(frozen=True)
class Case:
    """A network: how to build it with a writer, the sizes of its inputs, and how to build it small."""

    build: Callable[..., Any]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    small: Callable[[], Any] | None = None
    small_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    eager: tuple[str, ...] = EAGER_OPS
    rules: Mapping[str, Sequence[tuple[str, list[str]]]] = field(default_factory=dict)
    """Rules of a user's: name -> pattern."""


def cases() -> dict[str, Case]:
    """The networks that issue and readers compare, by name."""
    from examples.onnx import networks as n
    from examples.onnx import transformers as t

    base = {"vocab": 30522, "positions": 512}
    bert = lambda w: t.bert(t.Size(12, 768, 12, **base), w, pooler=True)
    # A first, an inner and a last layer; heads of 64, so that the scale 1/8 is a Mul as in the large ones.
    little = t.Size(3, 320, 5, positions=320)
    small_bert = lambda: t.bert(little, pooler=True)
    tokens = lambda b, s: {"input_ids": (b, s), "attention_mask": (b, s)}
    resnet = lambda w: n.resnet50(224, 64, classes=1000, writer=w)
    small_resnet = lambda: n.resnet50(64, 8)
    vit = lambda w: t.vit(t.Size(12, 768, 12), 224, 16, 1000, w)
    return {
        "ln_gate_linear_b1": Case(
            lambda w: n.ln_gate_linear(768, w),
            {"x": (1, 512, 768)},
            lambda: n.ln_gate_linear(288),
            {"x": (1, 288, 288)},
            EAGER_OPS[:-1],
        ),
        "ln_gate_linear_b16": Case(
            lambda w: n.ln_gate_linear(768, w),
            {"x": (16, 512, 768)},
            lambda: n.ln_gate_linear(288),
            {"x": (2, 288, 288)},
            EAGER_OPS[:-1],
        ),
        "bert_base_b1_s128": Case(bert, tokens(1, 128), small_bert, tokens(1, 288)),
        "bert_base_b16_s512": Case(bert, tokens(16, 512), small_bert, tokens(2, 288)),
        "bert_base_tp2_b16_s512": Case(
            lambda w: t.bert(t.Size(12, 768, 12, **base), w, pooler=True, ranks=2),
            tokens(16, 512),
            lambda: t.bert(t.Size(3, 256, 4, positions=288), pooler=True, ranks=2),
            tokens(2, 288),
            rules={"mlp in one": [("widen", ["Linear"]), ("bend", ["Gelu"])]},
        ),
        "gpt2_b1_s128": Case(
            lambda w: t.gpt2(t.Size(12, 768, 12, vocab=50257, positions=1024), w, head=False),
            {"input_ids": (1, 128)},
            lambda: t.gpt2(little, head=False),
            {"input_ids": (1, 288)},
        ),
        "llama_block_s2048": Case(
            lambda w: n.llama_block(4096, 32, 8, 14336, 2048, w),
            {},
            lambda: n.llama_block(288, 4, 2, 320, 288),
        ),
        "vit_b1": Case(
            vit,
            {"pixel_values": (1, 3, 224, 224)},
            lambda: t.vit(t.Size(3, 320, 5), 32, 2),
            {"pixel_values": (1, 3, 32, 32)},
        ),
        "resnet50_b1": Case(resnet, {"pixels": (1, 3, 224, 224)}, small_resnet, {"pixels": (1, 3, 64, 64)}),
        "resnet50_b16": Case(resnet, {"pixels": (16, 3, 224, 224)}, small_resnet, {"pixels": (2, 3, 64, 64)}),
        "dlrm_b128": Case(
            lambda w: n.dlrm(128, 26, 10000, 64, 4, 13, (512, 256, 64), (512, 256, 1), w),
            {},
            lambda: n.dlrm(48, 26, 300, 32, 4, 13, (288, 64, 32), (288, 64, 1)),
        ),
    }


@dataclass
class Totals:
    """Sums over the kernels and host ops of one plan; bytes, µs."""

    kernels: int = 0
    bytes: int = 0
    l2_bytes: int = 0
    us: float = 0.0

    def figures(self, prefix: str = "") -> dict[str, float]:
        return {
            f"{prefix}kernels": self.kernels,
            f"{prefix}mb": self.bytes / 1e6,
            f"{prefix}l2_mb": self.l2_bytes / 1e6,
            f"{prefix}us": self.us,
        }


def plan_totals(plan: Any, config: Any) -> Totals:
    """Cost of a plan that was not outlined: its groups, and what it leaves to the host."""
    from gaf.fusion.cost import OpView, sizes
    from gaf.fusion.search import model_of

    model, env, sums = model_of(config), sizes(config.symbols), Totals()
    for group in plan.groups:
        sums.kernels += 1
        sums.bytes += group.cost.hbm_bytes
        sums.l2_bytes += group.cost.l2_bytes
        sums.us += group.cost.us
    for i in plan.host:
        if _is_work(plan.ops[i]):
            view = OpView(plan.ops[i], env)
            sums.kernels += 1
            sums.bytes += view.bytes
            sums.us += model.estimate_latency(view)
    return sums


def fused_totals(fused: Any) -> Totals:
    """Cost of a model as it was generated: every launch, and the ops on the host."""
    from gaf.dialects.graph.ops.overlap import OverlapOp
    from gaf.dialects.graph.ops.structure import FusedOp
    from gaf.fusion.cost import OpView, sizes
    from gaf.fusion.opgraph import OpGraph
    from gaf.fusion.residency import resident_values
    from gaf.fusion.search import model_of
    from gaf.passes.graph.lower_graph import fused_work
    from gaf.passes.graph.overlap_collectives import overlap_cost

    model, env, sums = model_of(fused.config), sizes(fused.config.symbols), Totals()
    graph = OpGraph(fused.model.block)
    resident = resident_values(graph, env, model.l2_bytes * model.rates.l2_fraction)
    works: dict[str, Any] = {}
    for op in fused.model.block.ops:
        if isinstance(op, OverlapOp):
            cost = overlap_cost(op, model, env, fused.config)
            sums.kernels += cost.launches
            sums.bytes += cost.hbm_bytes
            sums.l2_bytes += cost.l2_bytes
            sums.us += cost.us
        elif isinstance(op, FusedOp):
            key = str(op.attributes.get("kernels"))
            if key not in works:
                works[key] = fused_work(op, fused.config.strict, env)
            operands = [op.operands[i] for i in op.attributes["kernel_args"].get_values()]
            reads = [graph.root(v) in resident for v in operands]
            cost = model.price(works[key], reads, [r in resident for r in op.results], len(op.members))
            sums.kernels += 1
            sums.bytes += cost.hbm_bytes
            sums.l2_bytes += cost.l2_bytes
            sums.us += cost.us
        elif _is_work(op):
            view = OpView(op, env)
            sums.kernels += 1
            sums.bytes += view.bytes
            sums.us += model.estimate_latency(view)
    return sums


def _is_work(op: Any) -> bool:
    """An op on the host that moves data: all but constants and views that are one index map."""
    from gaf.dialects.graph.contract import GraphOp
    from gaf.dialects.graph.meaning import View
    from gaf.fusion.opgraph import is_constant

    if not isinstance(op, GraphOp) or is_constant(op):
        return False
    meaning = op.meaning()
    return not isinstance(meaning, View) or not meaning.is_simple


def eager_kernels(case: Case) -> Any:
    """A context in which the ops that an eager framework runs as one kernel are one."""
    import gaf

    return gaf.fusion_rules(
        *(gaf.FusionRule(f"one {m}", [("op", [m])], lambda s: 1.0) for m in case.eager), only=True
    )


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """All figures of one network but `unverified`; under `fused` the model as it was generated."""
    import gaf
    from examples.onnx.writer import SparseWriter
    from gaf.dialects.graph.ops.collective import CollectiveOp
    from gaf.fusion.search import plan_fusion
    from gaf.passes.graph.footprint import smallest_tile
    from gaf.passes.pipeline import graph_pipeline, run_pipeline

    writers: list[SparseWriter] = []

    def writer(name: str) -> SparseWriter:
        writers.append(SparseWriter(name))
        return writers[-1]

    proto = case.build(writer)
    model = gaf.load_model(writers[0].save(proto, folder), dict(case.shapes) or None)
    work, eager = model.clone(), model.clone()
    run_pipeline(work.module, graph_pipeline(True, False))
    run_pipeline(eager.module, graph_pipeline(False, False))
    plain = gaf.FusionConfig(enable_autofuse=False)
    with eager_kernels(case):
        unfused = plan_totals(plan_fusion(eager.block, config=plain, candidates=False, planner=smallest_tile), plain)
    config = gaf.FusionConfig()
    start = time.perf_counter()
    plan_fusion(work.block, config=config, planner=smallest_tile)
    search_s = time.perf_counter() - start
    fast = gaf.FusionConfig(objective="time")
    if any(isinstance(op, CollectiveOp) for op in work.block.ops):  # parts beside them are decided on kernels
        by_time = fused_totals(gaf.fuse(model, fast))
    else:
        by_time = plan_totals(plan_fusion(work.block, config=fast, candidates=False, planner=smallest_tile), fast)
    exact = plan_fusion(work.block, config=gaf.FusionConfig(objective="time", strategy="optimal"), planner=smallest_tile)
    with gaf.fusion_rules(*(gaf.FusionRule(n, list(p)) for n, p in case.rules.items())):
        fused = gaf.fuse(model, config)
    sums = fused_totals(fused)
    assert exact.report is not None
    best = min(exact.report.optimum_us, exact.report.cost_us)
    greedy = plan_fusion(work.block, config=fast, candidates=False, planner=smallest_tile).modelled_us
    return {
        **sums.figures(),
        "compulsory_mb": exact.report.compulsory_bytes / 1e6,
        **unfused.figures("unfused_"),
        **by_time.figures("time_"),
        "gap_pct": 100 * max(0.0, greedy / best - 1) if best else 0.0,
        "exact_clusters": f"{exact.report.exact_clusters}/{exact.report.clusters}",
        "lower_bound_us": exact.report.lower_bound_us,
        "search_s": search_s,
        "host_ops": len(fused.host_ops),
        "fusions": fused.report.fusions,
        "kinds": fused.report.kinds,
        "fused": fused,
    }


def count_unverified_apart(case: Case, fused: Any) -> dict[str, Any]:
    """Verifies the kernels of a network in the small one; those that don't verify there are counted unfused."""
    import gaf
    from gaf.dialects.graph.ops.overlap import times_run

    kinds = [(op.label.data, op.in_stages) for op in fused.fused_ops]
    groups = [_nodes(op) for op in fused.fused_ops]
    forms = sorted({(op.in_stages, times_run(op) > 1) for op in fused.fused_ops})
    verified = verified_patterns(case, groups, forms)
    unverified = {kind for kind in kinds if not verified.get(kind, False)}
    found: dict[str, Any] = {"unverified": sorted({label for label, _ in unverified})}
    if unverified:
        kept = tuple(group for group, kind in zip(groups, kinds) if kind not in unverified)
        with eager_kernels(case):
            apart = gaf.fuse(fused.source_model, gaf.FusionConfig(groups=kept))
        found |= fused_totals(apart).figures()
    return found


def _nodes(op: Any) -> tuple[str, ...]:
    """The model nodes that a kernel computes; a slice of a packed matmul has the name of the matmul, so no views but
    concatenations.
    """
    from gaf.fusion.names import node_name

    views = [o for o in op.members if o.IS_VIEW and o.meaning().is_simple]
    named = [o for o in op.members if o not in views and o.name != "graph.constant"] or views
    return tuple(dict.fromkeys(node_name(o) for o in named))


LAYER = re.compile(r"(?<=\.)\d+(?=/)")
"""The number of a layer in a node's name, as in `layer.11/mlp/MatMul`."""


def groups_of_small(groups: Sequence[tuple[str, ...]], names: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of a large network for one with fewer layers, whose nodes are called `names`.

    The last layers correspond, whose neighbours differ from those of the inner ones.
    """

    def layers(nodes: Iterable[str]) -> set[int]:
        return {int(m) for n in nodes for m in LAYER.findall(n)}

    top, last = max(layers(n for g in groups for n in g), default=0), max(layers(names), default=0)
    found = []
    for group in groups:
        of = layers(group)
        if of and top in of:
            found.append(tuple(LAYER.sub(lambda m: str(int(m[0]) - top + last), n) for n in group))
        elif not of or max(of) < last:
            found.append(group)
    return found


def verified_patterns(
    case: Case, groups: Sequence[tuple[str, ...]], forms: Sequence[tuple[bool, bool]]
) -> dict[tuple[str, bool], bool]:
    """(kernel pattern, is it in stages) -> did it verify in check mode, on the small network grouped as the large one.

    Small sizes would choose stages, and parts beside collectives, for other groups, so there is a run for each of
    the `forms` (in stages, in parts) that the large one has.
    """
    import gaf
    from gaf.dialects.graph.contract import location_name
    from gaf.fusion.cost import CostModel

    class Forced(CostModel):
        """Every kernel that can have stages gets them, and beside a collective parts, if that is asked for."""

        stages = parts = False

        def price(self, work: Any, *args: Any, **kwargs: Any) -> Any:
            cost = super().price(work, *args, **kwargs)
            us = float(sum(work.writes)) if self.parts else cost.us
            return replace(cost, us=us / 1e6 if self.stages and work.stages else us)

        def collective_us(self, op: Any, larger_bytes: int) -> float:
            return float(larger_bytes) if self.parts else super().collective_us(op, larger_bytes)

    assert case.small is not None
    model = gaf.load_model(case.small(), dict(case.small_shapes) or None)
    groups = groups_of_small(groups, [location_name(op) or "" for op in model.block.ops])
    found: dict[tuple[str, bool], bool] = {}
    for stages, parts in sorted(forms):
        forced = Forced()
        forced.stages, forced.parts = stages, parts
        config = gaf.FusionConfig(groups=tuple(groups), cost_model=forced)
        fused = gaf.fuse(model, replace(config, enable_superkernel=False))
        result = fused.verify(engine="check")
        kinds = {name: (op.label.data, op.in_stages) for op in fused.fused_ops for name in _kernel_names(op)}
        found |= {kind: True for kind in kinds.values() if kind not in found}
        wrong = [c.kernel for c in result.launches if not c.ok and c.kernel is not None]
        for kernel in [*wrong, *(v["kernel"] for v in result.violations)]:
            found[kinds[kernel]] = False
    return found


def _kernel_names(op: Any) -> list[str]:
    from gaf.runtime.executor import kernel_names

    return list(kernel_names(op))


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    known = cases()
    args.add_argument(
        "--models", nargs="+", choices=list(known), default=list(known), metavar="NAME", help=", ".join(known)
    )
    args.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the networks, built small, in check mode (minutes)",
    )
    options = args.parse_args(argv)
    figures: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(known[name], Path(folder))
            fused = found.pop("fused")
            found["unverified"] = None
            if options.verify:
                found |= count_unverified_apart(known[name], fused)
        figures[name] = found
        shown = (
            "kernels",
            "mb",
            "l2_mb",
            "compulsory_mb",
            "unfused_kernels",
            "unfused_mb",
            "us",
            "unfused_us",
            "gap_pct",
            "search_s",
            "time_kernels",
            "time_mb",
            "time_us",
            "host_ops",
        )
        rows.append({"model": name, **{k: found[k] for k in shown}})
        print(f"{name}: {found['kernels']} kernels, {found['search_s']:.2f} s", file=sys.stderr)
    print(table(rows))
    for name in ("bert_base_b16_s512", "bert_base_b1_s128", "bert_base_tp2_b16_s512"):
        if name in figures:
            counted = ", ".join(f"{n} {kind}" for kind, n in figures[name]["kinds"].items())
            gain = 100 * (1 - figures[name]["us"] / figures[name]["unfused_us"])
            print(f"{name}: fusion saves {gain:.0f} % of the modelled time; the vendor's users quote 31 %")
            print(f"  the five kinds of fusion: {counted}")
    return finish("fusion", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
