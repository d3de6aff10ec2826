# SPDX-License-Identifier: Apache-2.0
"""Attention whose keys are walked in stacks: one kernel for rows of any length, on every engine, for every mask."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.compiler import fuse
from gaf.config import FusionConfig
from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, BOOL, F16, F32
from gaf.dialects.common.index import const
from gaf.dialects.graph.interpreter import run_model
from gaf.dialects.graph.model import Model, finish
from gaf.dialects.graph.ops.activation import GeluOp
from gaf.dialects.graph.ops.binary import AddOp, MulOp
from gaf.dialects.graph.ops.compare import AndOp, GreaterOrEqualOp, LessOrEqualOp, WhereOp
from gaf.dialects.graph.ops.create import PositionsOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.shape import TransposeOp
from gaf.dialects.graph.ops.softmax import SafeSoftmaxOp, SoftmaxOp
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.fusion import cube_schedules
from gaf.fusion.online import RULE
from gaf.fusion.region import build_region
from gaf.fusion.schedule import Schedule
from gaf.fusion.schedules import choose_schedules
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.limit_tiles import limit_tiles
from gaf.passes.tile.lower_region import lower_region
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.tile_plan import bind_tiles, evaluate_params
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT
from tests.fusion.test_piecewise import Graph
from tests.passes.tile.test_chains import compare


@dataclass(frozen=True)
class Case:
    """softmax(scale * q @ k' + mask) @ v for `heads` of `queries` x `keys`, which share `groups` of keys and values."""

    heads: int = 1
    groups: int = 0
    queries: int = 70
    keys: int = 300
    size: int = 64
    dtype: dt.DType = F32
    mask: str = ""
    safe: bool = False

    def __str__(self) -> str:
        changed = [f"{n}={v}" for n, v in vars(self).items() if v != getattr(Case, n)]
        return ",".join(changed) or "plain"


def attention(case: Case) -> tuple[Graph, SSAValue]:
    own = [case.groups, case.heads // case.groups] if case.groups else [case.heads]
    shared = [case.groups, 1] if case.groups else [case.heads]
    inputs = {
        "q": ([*own, case.queries, case.size], case.dtype),
        "k": ([*shared, case.keys, case.size], case.dtype),
        "v": ([*shared, case.keys, case.size], case.dtype),
    }
    if case.mask in ("bool", "add"):
        inputs["b"] = ([case.queries, case.keys], BOOL if case.mask == "bool" else case.dtype)
    g = Graph(**inputs)
    rank = len(own) + 2

    def number(value: float) -> SSAValue:
        op = g.model.constant(np.asarray(value, case.dtype.numpy), f"c{len(g.model.block.ops)}")
        g.model.block.add_op(op)
        return op.results[0]

    scores = g.add(MatMulOp, g["q"], g.add(TransposeOp, g["k"], perm=(*range(rank - 2), rank - 1, rank - 2)))
    scores = g.add(MulOp, scores, number(1 / math.sqrt(case.size)))
    allowed = g["b"] if case.mask == "bool" else None
    if case.mask == "add":
        scores = g.add(AddOp, scores, g["b"])
    if case.mask in ("causal", "window"):
        key = g.add(PositionsOp, first=(const(0),), shape=(const(1), const(case.keys)))
        first = const(case.keys - case.queries)
        allowed = g.add(LessOrEqualOp, key, g.add(PositionsOp, first=(first,), shape=(const(case.queries), const(1))))
        if case.mask == "window":
            left = g.add(PositionsOp, first=(first - 40,), shape=(const(case.queries), const(1)))
            allowed = g.add(AndOp, allowed, g.add(GreaterOrEqualOp, key, left))
    if allowed is not None:
        scores = g.add(WhereOp, allowed, scores, number(-math.inf))
    weights = g.add(SafeSoftmaxOp if case.safe else SoftmaxOp, scores, axes=(rank - 1,))
    return g, g.add(MatMulOp, weights, g["v"])


def looped(g: Graph, y: SSAValue) -> Schedule:
    """The walk, though whole rows may suit the size better."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cube_schedules, "SHORT_ROW", 0)
        return next(s for s in choose_schedules(build_region(g.ops, [y])) if s.looped)


def make(case: Case, **limits: int) -> tuple[Model, KernelOp, AscendKernelOp]:
    """The model, the tile kernel with bound parameters, and the lowered one; `limits` bound tile sizes."""
    g, y = attention(case)
    kernel = lower_region(build_region(g.ops, [y]), looped(g, y), "attention")
    bind_tiles(kernel, DEFAULT)
    limit_tiles(kernel, limits)
    lowered = lower_kernel(kernel.clone(), DEFAULT)
    insert_sync(lowered)
    return finish(g.model, [("y", y)]), kernel, lowered


def arrays_of(case: Case, model: Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for name, kind in zip(model.input_names, model.input_types):
        shape = kind.concrete({})
        array = rng.random(shape) < 0.6 if kind.dtype.is_bool else rng.standard_normal(shape)
        if name == "b":
            array[3:5] = False if kind.dtype.is_bool else -np.inf  # rows without any key
            array[7, : case.keys // 2] = False if kind.dtype.is_bool else -np.inf
        found[name] = np.asarray(array).astype(kind.dtype.numpy)
    return found


def named(kernel: KernelOp, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays by the kernel's argument names, which avoid those of its axes."""
    return {n: arrays[n.partition("_")[0]] for n in kernel.arg_names.data if n != "y0"}


CASES = [
    Case(), Case(heads=2, keys=301, queries=301, dtype=F16), Case(mask="causal", safe=True, queries=300),
    Case(mask="causal", queries=37, dtype=BF16), Case(mask="window", queries=300), Case(mask="bool", safe=True),
    Case(mask="bool"), Case(mask="add", safe=True, dtype=F16), Case(heads=4, groups=2, queries=33, dtype=F16),
    Case(heads=8, groups=2, queries=1), Case(size=256, keys=130, queries=130), Case(size=80, keys=129, queries=17),
    Case(queries=2, keys=5, size=16),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_levels_agree(case: Case) -> None:
    """Tile in float64, Ascend C in float32, all launch widths down to one group: slots are used again and again."""
    model, kernel, lowered = make(case, tk=64, bm=32)
    arrays = arrays_of(case, model)
    want = run_model(model, arrays, wide=True)["y"]
    exact = run_tile(kernel, named(kernel, arrays), {}, wide=True)["y0"]
    np.testing.assert_allclose(exact, want, rtol=1e-9, atol=1e-9)
    rounded = run_model(model, arrays, wide=False)["y"]
    for blocks in (None, 1, 2):
        got = run_ascendc(lowered, named(kernel, arrays), {}, blocks)["y0"]
        compare(f"{case} on {blocks}", got, rounded)


def on_twin(cases: list[Case], **limits: int) -> None:
    """Check mode, in both orders of cores, on all blocks and on one."""
    made = {}
    for i, case in enumerate(cases):
        model, kernel, lowered = make(case, **limits)
        lowered.properties["sym_name"] = type(lowered.sym_name)(f"attention{i}")
        made[f"attention{i}"] = case, model, kernel, lowered
    built = build_kernels([(name, print_kernel(low)) for name, (_, _, _, low) in made.items()], mode="check")
    for name, (case, model, kernel, lowered) in made.items():
        arrays = arrays_of(case, model)
        want = run_model(model, arrays, wide=False)["y"]
        plan = HostTiling(lowered).evaluate({})
        for blocks in {1, plan.blocks}:
            y = np.zeros_like(want)
            args = [np.ascontiguousarray(named(kernel, arrays).get(n, y)) for n in kernel.arg_names.data]
            result = built[name].launch(args, plan.workspace, plan.packed, blocks, outputs=1)
            assert not result.deadlock and result.total == 0, f"{case} on {blocks}: {result.message}"
            compare(f"{case} on {blocks}", args[-1], want)


needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@needs_compiler
def test_in_check_mode() -> None:
    on_twin([CASES[1], CASES[2], CASES[7]], tk=64, bm=32)


@needs_compiler
@pytest.mark.slow
def test_all_in_check_mode() -> None:
    on_twin(CASES, tk=64, bm=32)
    on_twin([replace(c, keys=1500) for c in CASES[:6]])


def test_masked_stacks_are_skipped() -> None:
    """A causal mask gives the walk a bound of the rows, a sliding window one on both sides, other masks none."""
    texts = {mask: str(make(Case(mask=mask))[1]) for mask in ("causal", "window", "bool")}
    assert "step tk in 0 to m.hi + 230" in texts["causal"]
    assert "step tk in m.lo + 190 to m.hi + 230" in texts["window"]
    assert "step tk iter" in texts["bool"]


def test_long_rows_are_one_kernel() -> None:
    """4096 keys of size 128; whole rows are kept while they are short, and longer ones if a mask skips nothing."""
    g, y = attention(Case(heads=2, queries=4096, keys=4096, size=128))
    assert choose_schedules(build_region(g.ops, [y]))[0].looped
    fused = fuse(finish(g.model, [("y", y)]))
    assert len(fused.fused_ops) == 1 and not fused.fallbacks
    assert "tk" in dict(fused.kernels[0].tile.params)

    def first(**sizes: object) -> bool:
        graph, result = attention(Case(**sizes))  # type: ignore[arg-type]
        return choose_schedules(build_region(graph.ops, [result]))[0].looped

    assert not first(keys=512, mask="causal") and not first(keys=1500) and first(keys=1500, queries=1500, mask="causal")


def test_the_rule_can_be_switched_off() -> None:
    g, y = attention(Case(keys=4096))
    fused = fuse(finish(g.model, [("y", y)]), FusionConfig(disabled_rules=(RULE,)))
    assert not any("tk" in dict(k.tile.params) for k in fused.kernels)


def test_matmul_activation_matmul_is_walked_too() -> None:
    """Without any statistic: the hidden row of an MLP, however long it is."""
    g = Graph(x=[33, 40], w=[40, 700], z=[700, 48])
    y = g.add(MatMulOp, g.add(GeluOp, g.add(MatMulOp, g["x"], g["w"]), approximate="tanh"), g["z"])
    kernel = lower_region(build_region(g.ops, [y]), looped(g, y), "mlp")
    bind_tiles(kernel, DEFAULT)
    limit_tiles(kernel, {"tk": 256})
    model = finish(g.model, [("y", y)])
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(t.concrete({})).astype(np.float32) for n, t in zip(model.input_names, model.input_types)}
    want = run_model(model, arrays, wide=True)["y"]
    np.testing.assert_allclose(run_tile(kernel, arrays, {}, wide=True)["y0"], want, rtol=1e-9, atol=1e-9)
    lowered = lower_kernel(kernel, DEFAULT)
    insert_sync(lowered)
    got = run_ascendc(lowered, arrays, {}, 1)["y0"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size, rows", [(64, 128), (128, 128), (256, 64)])
def test_carried_sums_fit(size: int, rows: int) -> None:
    """A block has 128 rows, 64 of 256 columns: the sums of half of it stay in UB. Stacks have 512 columns or more."""
    _, kernel, _ = make(Case(heads=40, queries=4096, keys=4096, size=size, dtype=F16))
    params = evaluate_params(kernel, {})
    assert params["bm"] == rows and 512 <= params["tk"] <= 1024
