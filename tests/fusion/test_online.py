# SPDX-License-Identifier: Apache-2.0
"""Reductions in one pass: which the prover takes, that states in any chunks give the value, what must stay apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.config import FusionConfig
from gaf.dialects.common.index import Expr
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.graph.model import finish
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from gaf.dialects.graph.ops.compare import EqualOp, GreaterOp, WhereOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceSumOp
from gaf.dialects.graph.ops.softmax import LogSoftmaxOp, SafeSoftmaxOp, SoftmaxOp
from gaf.dialects.graph.ops.unary import AbsOp, ExpOp, LogOp, NegOp, ReciprocalOp, RoundOp, SqrtOp
from gaf.fusion.nodes import Region
from gaf.fusion.online import RULE, Fold, body, finished, fold_passes, moved, stand_in
from gaf.fusion.region import build_region
from gaf.runtime.compiler import find_compiler
from tests.fusion.test_piecewise import Graph

ROWS, LENGTH = 3, 32  # 1 / 32 is exact in float32
Model = Callable[[Graph], SSAValue]


class Rows(Graph):
    """A graph on x, w: [3, 32] and p: [3, 1]; reductions keep their axis."""

    def __init__(self) -> None:
        super().__init__(x=[ROWS, LENGTH], w=[ROWS, LENGTH], p=[ROWS, 1])

    def fold(self, op: Any, x: SSAValue) -> SSAValue:
        return self.add(op, x, axes=(1,), keepdims=True)

    def number(self, value: float) -> SSAValue:
        op = self.model.constant(np.float32(value), f"c{len(self.model.block.ops)}")
        self.model.block.add_op(op)
        return op.results[0]


def softmax(g: Rows) -> SSAValue:
    e = g.add(ExpOp, g.add(SubOp, g["x"], g.fold(ReduceMaxOp, g["x"])))
    return g.fold(ReduceSumOp, g.add(DivOp, g.add(MulOp, e, g["w"]), g.fold(ReduceSumOp, e)))


def softmax_by_reciprocal(g: Rows) -> SSAValue:
    """The shift negated, a temperature, the sum's inverse, and another order of factors."""
    x = g.add(MulOp, g["x"], g.number(0.25))
    shifted = g.add(AddOp, g.add(NegOp, g.fold(ReduceMaxOp, x)), x)
    e = g.add(ExpOp, g.add(MulOp, g.number(3.0), shifted))
    inverse = g.add(ReciprocalOp, g.fold(ReduceSumOp, e))
    return g.fold(ReduceSumOp, g.add(MulOp, g["w"], g.add(MulOp, inverse, e)))


def scaled_after_the_maximum(g: Rows) -> SSAValue:
    """exp(x / 2 - max(x) / 2)"""
    peak = g.fold(ReduceMaxOp, g["x"])
    half = g.number(0.5)
    e = g.add(ExpOp, g.add(SubOp, g.add(MulOp, g["x"], half), g.add(MulOp, peak, half)))
    return g.fold(ReduceSumOp, e)


def log_sum_exp(g: Rows) -> SSAValue:
    peak = g.fold(ReduceMaxOp, g["x"])
    total = g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], peak)))
    return g.add(AddOp, peak, g.add(LogOp, total))


def guarded_log_sum_exp(g: Rows) -> SSAValue:
    """Rows of -inf are shifted by 0: the result is -inf instead of NaN."""
    peak = g.fold(ReduceMaxOp, g["x"])
    shift = g.add(WhereOp, g.add(EqualOp, peak, g.number(-np.inf)), g.number(0.0), peak)
    total = g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], shift)))
    return g.add(AddOp, shift, g.add(LogOp, total))


def guarded_softmax(g: Rows) -> SSAValue:
    """Rows of -inf are 0: shifted by 0, and divided by 1."""
    peak = g.fold(ReduceMaxOp, g["x"])
    empty = g.add(EqualOp, peak, g.number(-np.inf))
    e = g.add(ExpOp, g.add(SubOp, g["x"], g.add(WhereOp, empty, g.number(0.0), peak)))
    total = g.add(WhereOp, empty, g.number(1.0), g.fold(ReduceSumOp, e))
    return g.fold(ReduceSumOp, g.add(MulOp, g.add(DivOp, e, total), g["w"]))


def cross_entropy(g: Rows) -> SSAValue:
    """-sum w * log_softmax(x), written as logsumexp(x) * sum w - sum w * x."""
    weight, score = g.fold(ReduceSumOp, g["w"]), g.fold(ReduceSumOp, g.add(MulOp, g["w"], g["x"]))
    return g.add(SubOp, g.add(MulOp, log_sum_exp(g), weight), score)


def variance(g: Rows) -> SSAValue:
    centred = g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["x"]))
    return g.fold(ReduceMeanOp, g.add(MulOp, centred, centred))


def variance_by_power(g: Rows) -> SSAValue:
    """Sum times 1/n, the mean minus x, and a power."""
    mean = g.add(MulOp, g.fold(ReduceSumOp, g["x"]), g.number(1 / LENGTH))
    centred = g.add(MulOp, g.add(SubOp, mean, g["x"]), g.number(0.5))
    return g.fold(ReduceSumOp, g.add(PowOp, centred, g.number(2.0)))


def rms(g: Rows) -> SSAValue:
    r = g.add(DivOp, g["p"], g.add(SqrtOp, g.fold(ReduceMeanOp, g.add(MulOp, g["x"], g["x"]))))
    return g.fold(ReduceSumOp, g.add(MulOp, g.add(MulOp, g["x"], r), g["w"]))


def l2_normalise(g: Rows) -> SSAValue:
    length = g.add(SqrtOp, g.fold(ReduceSumOp, g.add(PowOp, g["x"], g.number(2.0))))
    return g.fold(ReduceSumOp, g.add(DivOp, g.add(MulOp, g["w"], g["x"]), length))


MATCHES: list[Model] = [
    softmax, softmax_by_reciprocal, scaled_after_the_maximum, log_sum_exp, guarded_log_sum_exp, guarded_softmax, cross_entropy, variance,
    variance_by_power, rms, l2_normalise,
]  # fmt: skip


# -- look-alikes ------------------------------------------------------------------------------------


def shift_of_something_else(g: Rows) -> SSAValue:
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], g.fold(ReduceMaxOp, g["w"]))))


def minimum_as_shift(g: Rows) -> SSAValue:
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], g.fold(ReduceMinOp, g["x"]))))


def mean_as_shift(g: Rows) -> SSAValue:
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["x"]))))


def rising_rate(g: Rows) -> SSAValue:
    """exp(max x - x): the largest terms belong to the smallest x."""
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g.fold(ReduceMaxOp, g["x"]), g["x"])))


def half_the_shift(g: Rows) -> SSAValue:
    half = g.add(MulOp, g.fold(ReduceMaxOp, g["x"]), g.number(0.5))
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], half)))


def mask_after_the_exponential(g: Rows) -> SSAValue:
    e = g.add(ExpOp, g.add(SubOp, g["x"], g.fold(ReduceMaxOp, g["x"])))
    return g.fold(ReduceSumOp, g.add(WhereOp, g.add(GreaterOp, g["w"], g.number(0.0)), e, g.number(0.0)))


def clipped_maximum(g: Rows) -> SSAValue:
    """The maximum of x and 0 isn't the maximum of x."""
    peak = g.add(MaxOp, g.fold(ReduceMaxOp, g["x"]), g.number(0.0))
    return g.fold(ReduceSumOp, g.add(ExpOp, g.add(SubOp, g["x"], peak)))


def dynamic_quantisation(g: Rows) -> SSAValue:
    scale = g.add(DivOp, g.fold(ReduceMaxOp, g.add(AbsOp, g["x"])), g.number(127.0))
    return g.fold(ReduceSumOp, g.add(RoundOp, g.add(DivOp, g["x"], scale)))


def scaled_norm(g: Rows) -> SSAValue:
    """Scaled by the largest element so that no square overflows: the factor stays inside."""
    scaled = g.add(DivOp, g["x"], g.fold(ReduceMaxOp, g.add(AbsOp, g["x"])))
    return g.fold(ReduceSumOp, g.add(MulOp, scaled, scaled))


def variance_around_something_else(g: Rows) -> SSAValue:
    centred = g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["w"]))
    return g.fold(ReduceMeanOp, g.add(MulOp, centred, centred))


def variance_around_the_sum(g: Rows) -> SSAValue:
    centred = g.add(SubOp, g["x"], g.fold(ReduceSumOp, g["x"]))
    return g.fold(ReduceMeanOp, g.add(MulOp, centred, centred))


def third_moment(g: Rows) -> SSAValue:
    centred = g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["x"]))
    return g.fold(ReduceMeanOp, g.add(MulOp, g.add(MulOp, centred, centred), centred))


def absolute_deviation(g: Rows) -> SSAValue:
    return g.fold(ReduceMeanOp, g.add(AbsOp, g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["x"]))))


def largest_deviation(g: Rows) -> SSAValue:
    return g.fold(ReduceMaxOp, g.add(AbsOp, g.add(SubOp, g["x"], g.fold(ReduceMeanOp, g["x"]))))


def smaller_than_the_mean(g: Rows) -> SSAValue:
    return g.fold(ReduceSumOp, g.add(MinOp, g["x"], g.fold(ReduceMeanOp, g["x"])))


LOOKALIKES: list[Model] = [
    shift_of_something_else, minimum_as_shift, mean_as_shift, rising_rate, half_the_shift, mask_after_the_exponential,
    clipped_maximum, dynamic_quantisation, scaled_norm, variance_around_something_else, variance_around_the_sum,
    third_moment, absolute_deviation, largest_deviation, smaller_than_the_mean,
]  # fmt: skip


def region_of(model: Model, strict: bool = False) -> Region:
    g = Rows()
    y = model(g)
    return build_region(g.ops, [y], strict)


@pytest.mark.parametrize("model", MATCHES, ids=lambda m: m.__name__)
def test_one_pass(model: Model) -> None:
    assert len(fold_passes(region_of(model))) == 1
    assert len(fold_passes(region_of(model, strict=True))) > 1, "rounding as written takes a pass for each"


@pytest.mark.parametrize("model", LOOKALIKES, ids=lambda m: m.__name__)
def test_lookalikes_take_another_pass(model: Model) -> None:
    assert len(fold_passes(region_of(model))) == 2


# -- float64 ----------------------------------------------------------------------------------------


class Arrays:
    """Arithmetic of states on arrays."""

    def map(self, function: str, *args: Any) -> Any:
        return FUNCTIONS[function].numpy(*args)

    def number(self, value: float | Expr) -> float:
        return float(value.as_int() or 0) if isinstance(value, Expr) else value


def value(region: Region, number: int, loads: Mapping[str, np.ndarray], known: Mapping[int, Any]) -> Any:
    """A node in float64: rows x 1 or rows x lanes."""
    if number in known:
        return known[number]
    node = region.nodes[number]
    if node.kind == "load":
        return loads[region.inputs[node.input].name_hint or ""]
    if node.kind == "number":
        return node.value
    args = [value(region, a, loads, known) for a in node.args]
    if node.kind == "reduce":
        return fold_with(node.function, args[0])
    assert node.kind == "map"
    return args[0] if node.function == "cast" else FUNCTIONS[node.function].numpy(*args)


def fold_with(monoid: str, array: np.ndarray) -> np.ndarray:
    return {"sum": np.sum, "max": np.max, "min": np.min}[monoid](array, axis=1, keepdims=True)


def in_chunks(region: Region, inputs: Mapping[str, np.ndarray], cuts: Sequence[int], in_parts: bool) -> Any:
    """The output, folded chunk by chunk: with the running values, or as states of their own that are merged."""
    on, known = Arrays(), {}
    pieces = list(zip([0, *cuts], [*cuts, LENGTH]))
    for folds in fold_passes(region):
        state: dict[int, Any] = {}
        before = 0
        for low, high in pieces:
            if low == high:
                continue
            loads = {n: a[:, low:high] if a.shape[1] > 1 else a for n, a in inputs.items()}
            if in_parts:
                part = step(region, folds, {}, loads, known, 0, high - low)
                state = merge(region, folds, state, part, before, high - low) if state else part
            else:
                state = step(region, folds, state, loads, known, before, high - low)
            before = high
        for fold in folds:
            shift = value(region, fold.running, {}, known) if fold.running is not None and not fold.is_moment else None
            factors = [(value(region, t.node, inputs, known), t.inverse) for t in fold.outside]
            known[fold.node] = finished(fold, on, state[fold.node], shift, factors)
    return value(region, region.outputs[0].node, inputs, known)


def step(
    region: Region, folds: Sequence[Fold], old: Mapping[int, Any], loads: Mapping[str, np.ndarray], known: Mapping[int, Any],
    before: int, count: int,
) -> dict[int, Any]:  # fmt: skip
    on, new, inside = Arrays(), {}, dict(known)
    for fold in folds:
        monoid = region.nodes[fold.node].function
        if fold.follows is not None:
            inside[fold.running] = stand_in(fold, on, new[fold.follows], before + count, LENGTH)
        part = fold_with(monoid, body(fold, on, [value(region, t.node, loads, inside) for t in fold.terms]) + np.zeros((ROWS, count)))
        if not old:
            new[fold.node] = part
        elif fold.follows is None:
            new[fold.node] = combine(monoid, old[fold.node], part)
        else:
            kept = moved(fold, on, old[fold.node], old[fold.follows], new[fold.follows], before, before + count)
            new[fold.node] = kept + part
    return new


def merge(region: Region, folds: Sequence[Fold], a: Mapping[int, Any], b: Mapping[int, Any], n: int, m: int) -> dict[int, Any]:
    on, new = Arrays(), {}
    for fold in folds:
        if fold.follows is None:
            new[fold.node] = combine(region.nodes[fold.node].function, a[fold.node], b[fold.node])
            continue
        final = new[fold.follows]
        sides = [moved(fold, on, s[fold.node], s[fold.follows], final, count, n + m) for s, count in ((a, n), (b, m))]
        new[fold.node] = sides[0] + sides[1]
    return new


def combine(monoid: str, a: Any, b: Any) -> Any:
    return {"sum": np.add, "max": np.maximum, "min": np.minimum}[monoid](a, b)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, LENGTH), max_size=5), st.booleans(), st.sampled_from(MATCHES), st.integers(0, 9),
    st.sampled_from([0.1, 1.0, 300.0]), st.sampled_from([0.0, 1e4]), st.integers(0, LENGTH),
)  # fmt: skip
def test_chunks_give_the_value(
    cuts: list[int], in_parts: bool, model: Model, seed: int, scale: float, offset: float, masked: int
) -> None:
    """Against two passes, in float64; the first elements of a row, or all of them, are -inf if the shift is a maximum."""
    region = region_of(model)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, LENGTH)) * scale + offset
    if any(region.nodes[r].function == "max" for r in region.reductions()):
        x[1, :masked] = -np.inf
    inputs = {"x": x, "w": rng.random((ROWS, LENGTH)), "p": rng.random((ROWS, 1))}
    with np.errstate(all="ignore"):
        want = value(region, region.outputs[0].node, inputs, {})
        got = in_chunks(region, inputs, sorted(cuts), in_parts)
    size = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * size)


# -- kernels ----------------------------------------------------------------------------------------


def long_rows(op: Any, shape: Sequence[int], axis: int) -> tuple[Graph, SSAValue]:
    g = Graph(x=shape)
    return g, g.add(op, g["x"], axes=(axis,))


@pytest.mark.parametrize("op", [SoftmaxOp, SafeSoftmaxOp, LogSoftmaxOp], ids=lambda o: o.name)
@pytest.mark.parametrize("shape, axis", [([45, 3011], 0), ([41, 130, 24], 1), ([2, 60_001], 1)], ids=str)
def test_rows_that_are_streamed(op: Any, shape: Sequence[int], axis: int) -> None:
    """One walk for the statistics, whole rows of -inf included."""
    g, y = long_rows(op, shape, axis)
    fused = fuse(finish(g.model, [("y", y)]))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x[:1] = -np.inf
    x[..., :5] = -np.inf
    for engine in ["interpreter", "check"] if find_compiler() else ["interpreter"]:
        result = fused.verify({"x": x}, engine=engine)
        assert result.ok, result


def walks(source: str) -> int:
    """Loads of the operand in a kernel's source."""
    return source.count("LoadTile(")


def test_the_rule_can_be_switched_off() -> None:
    loads = []
    for disabled in ((), (RULE,)):
        g, y = long_rows(SoftmaxOp, [600, 400, 70], 1)
        (kernel,) = fuse(finish(g.model, [("y", y)]), FusionConfig(disabled_rules=disabled)).kernels
        loads.append(walks(kernel.source))
    assert loads == [2, 3]
