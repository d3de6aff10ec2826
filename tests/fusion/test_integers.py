# SPDX-License-Identifier: Apache-2.0
"""Graphs of integers and predicates through the whole compiler: exact results, and the reason where one stays on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import FusedModel, fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8
from gaf.dialects.common.index import expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.interpreter import run_model
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops import binary, compare, unary
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.compare import WhereOp
from gaf.dialects.graph.ops.create import RangeOp, TriluOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMinOp, ReduceSumOp
from gaf.dialects.graph.ops.slice import ConcatOp, PadOp, SliceOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError

SIZES = {"B": 3, "S": 9}
SPECIAL = [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1, 7]
COMPARE = (
    compare.EqualOp, compare.NotEqualOp, compare.LessOp, compare.LessOrEqualOp, compare.GreaterOp,
    compare.GreaterOrEqualOp,
)  # fmt: skip


class Graph:
    """Ops on named inputs, run as a fused model on the ascendc interpreter."""

    def __init__(self, **inputs: tuple[Sequence[int | str], dt.DType]) -> None:
        self.model: Model = new_model([(n, TensorType.of(s, k)) for n, (s, k) in inputs.items()])
        self.values: dict[str, SSAValue] = dict(zip(inputs, self.model.block.args))

    def __getitem__(self, name: str) -> SSAValue:
        return self.values[name]

    def add(self, op: type[GraphOp], *operands: SSAValue, **attrs: Any) -> SSAValue:
        made = op.make(operands, attrs, location=f"n{len(self.model.block.ops)}")
        self.model.block.add_op(made)
        return made.results[0]

    def constant(self, value: Any, kind: dt.DType) -> SSAValue:
        made = self.model.constant(np.asarray(value, kind.numpy))
        self.model.block.add_op(made)
        return made.results[0]

    def finish(self, *outputs: SSAValue) -> FusedModel:
        return fuse(finish(self.model, [(f"y{i}", v) for i, v in enumerate(outputs)]))


def random_inputs(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name, type_ in zip(model.input_names, model.input_types):
        shape, kind = type_.concrete(SIZES), type_.dtype
        if kind.is_bool:
            found[name] = rng.random(shape) < 0.5
        elif kind.is_int:
            info = np.iinfo(kind.numpy)
            special = [v for v in SPECIAL if info.min <= v <= info.max]
            found[name] = rng.choice(special, shape).astype(kind.numpy)
        else:
            found[name] = rng.integers(-4, 5, shape).astype(kind.numpy)
    return found


def exact(fused: FusedModel, seed: int = 0) -> None:
    inputs = random_inputs(fused.source_model, seed)
    want = run_model(fused.source_model, inputs)
    got = fused.run(inputs, "interpreter")
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=f"{fused.source_model.module}")


def on_device(fused: FusedModel) -> None:
    assert not fused.fallbacks, fused.fallbacks
    exact(fused)


ARITHMETIC: tuple[type[GraphOp], ...] = (binary.AddOp, binary.SubOp, binary.MulOp, binary.MaxOp, binary.MinOp)
BITS: tuple[type[GraphOp], ...] = (binary.BitwiseAndOp, binary.BitwiseOrOp, binary.BitwiseXorOp)


@pytest.mark.parametrize("op", [*ARITHMETIC, *BITS, *COMPARE], ids=lambda o: o.name)
@pytest.mark.parametrize("shape", [["B", "S"], ["S"], ["B", 1], [1, 1]], ids=str)
def test_int32_with_broadcasts(op: type[GraphOp], shape: list[int | str]) -> None:
    g = Graph(x=(["B", "S"], I32), y=(shape, I32))
    on_device(g.finish(g.add(op, g["x"], g["y"]), g.add(op, g["y"], g.add(unary.NegOp, g["x"]))))


def test_int32_unary_where_and_constants() -> None:
    g = Graph(x=(["B", "S"], I32), p=(["B", "S"], BOOL))
    y = g.add(binary.AddOp, g.add(unary.AbsOp, g["x"]), g.constant(-5, I32))
    z = g.add(WhereOp, g["p"], y, g.add(unary.BitwiseNotOp, g["x"]))
    on_device(g.finish(z, g.add(WhereOp, g["p"], g.constant(3, I32), z)))


@pytest.mark.parametrize("kind", [U8, I8, I16], ids=str)
@pytest.mark.parametrize("op", COMPARE, ids=lambda o: o.name)
def test_narrow_integers_compare(op: type[GraphOp], kind: dt.DType) -> None:
    g = Graph(x=(["B", "S"], kind), y=(["S"], kind))
    on_device(g.finish(g.add(op, g["x"], g["y"]), g.add(CastOp, g["x"], to=I64)))


@pytest.mark.parametrize("kind", [U8, I8, I16], ids=str)
@pytest.mark.parametrize("fmod", [False, True])
def test_remainders_of_narrow_integers(kind: dt.DType, fmod: bool) -> None:
    """Every pair of int8, zero divisors too; other types by samples."""
    values = np.arange(np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max + 1).astype(kind.numpy)
    values = values if kind != I16 else np.random.default_rng(0).choice(values, 256)
    g = Graph(x=([256, 1], kind), y=([256], kind))
    outputs = [g.add(binary.ModOp, g["x"], g["y"], fmod=fmod), g.add(binary.ModOp, g["x"], g.constant(7, kind), fmod=fmod)]
    if kind == U8:
        outputs.append(g.add(binary.DivOp, g["x"], g["y"]))
    fused = g.finish(*outputs)
    assert not fused.fallbacks, fused.fallbacks
    inputs = {"x": values[:, None], "y": values[::-1].copy()}
    want, got = run_model(fused.source_model, inputs), fused.run(inputs, "interpreter")
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("op", COMPARE, ids=lambda o: o.name)
def test_any_int64_compares_with_a_small_one(op: type[GraphOp]) -> None:
    """Token ids and padding values: exact also where float32 rounds and int32 wraps."""
    near = [5, 6, -1, 2**24, 2**24 + 1, 2**24 + 2, 2**29 - 1, 2**29]
    wide = [v + k for v in near for k in (0, 1, -1, 1 << 32, -(1 << 32))] + [2**63 - 1, -(2**63), 2**31, -(2**31) - 1]
    g = Graph(x=([len(wide)], I64), y=([len(near), 1], I16))
    mask = g.add(op, g["x"], g.constant(5, I64))
    limit = g.add(op, g.constant([[v] for v in near], I64), g["x"])
    fused = g.finish(mask, limit, g.add(op, g["x"], g.add(CastOp, g["y"], to=I64)))
    assert not fused.fallbacks, fused.fallbacks
    inputs = {"x": np.asarray(wide), "y": np.asarray([[v % 7] for v in near], np.int16)}
    want = run_model(fused.source_model, inputs)
    for engine in ("interpreter", "host"):
        got = fused.run(inputs, engine)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)
    assert not fused.verify(inputs, engine="check").violations


@pytest.mark.parametrize("kind", [BOOL, U8, I8, I16, I32, I64], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_views_of_every_dtype(kind: dt.DType, axis: int) -> None:
    g = Graph(x=(["B", "S"], kind), y=(["B", "S"], kind), z=(["B", 6], kind))
    both = g.add(ConcatOp, g["x"], g["y"], axis=axis)
    padded = g.add(PadOp, g["z"], before=[1, 2], after=[0, 3], mode="constant", value=0.0)
    part = g.add(SliceOp, g["z"], starts=[0, 1], sizes=["B", 4], steps=[1, 1])
    fused = g.finish(both, padded, part)
    exact(fused)
    kernels = {n for k in fused.kernels for n in k.members}
    assert len(kernels) >= 2, "concat and pad are kernels"


def test_bool_logic() -> None:
    g = Graph(x=(["B", "S"], BOOL), y=(["S"], BOOL), v=(["B", "S"], F32))
    both = g.add(compare.AndOp, g["x"], g["y"])
    other = g.add(compare.XorOp, g.add(unary.NotOp, both), g.add(compare.OrOp, g["x"], g["y"]))
    same = g.add(compare.EqualOp, other, g["x"])
    on_device(g.finish(other, same, g.add(WhereOp, same, g["v"], g.add(unary.NegOp, g["v"]))))


def test_positions_stay_on_the_device() -> None:
    """A causal mask from int64 positions: no host op, though int64 has no arithmetic."""
    g = Graph(x=(["S", "S"], F32))
    one, zero = g.constant(1, I64), g.constant(0, I64)
    position = g.add(RangeOp, zero, one, count=["S"])
    row = g.add(binary.SubOp, position, g.constant(2, I64))
    from gaf.dialects.graph.ops.shape import UnsqueezeOp

    keep = g.add(compare.LessOrEqualOp, g.add(UnsqueezeOp, position, axes=(0,)), g.add(UnsqueezeOp, row, axes=(1,)))
    y = g.add(WhereOp, keep, g["x"], g.constant(-1.0, F32))
    on_device(g.finish(y, row, g.add(TriluOp, g["x"], upper=True, k=1)))


def test_reductions_of_predicates_and_narrow_integers() -> None:
    g = Graph(x=(["B", "S"], BOOL), y=(["B", 12], U8))
    wide = g.add(CastOp, g["y"], to=I32)
    fused = g.finish(
        g.add(CastOp, g.add(ReduceMaxOp, g.add(CastOp, g["x"], to=I32), axes=(1,), keepdims=False), to=BOOL),
        g.add(ReduceSumOp, wide, axes=(1,), keepdims=False), g.add(ReduceMinOp, wide, axes=(1,), keepdims=True),
    )  # fmt: skip
    on_device(fused)


def cube(g: Graph, x: SSAValue) -> SSAValue:
    return g.add(binary.MulOp, g.add(binary.MulOp, x, x), x)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda g: g.add(binary.AddOp, g["l"], g["l"]), "only copied and converted"),
        (lambda g: g.add(binary.AddOp, g["b"], g["b"]), "would have to wrap at 8 bits"),
        (lambda g: g.add(CastOp, g["i"], to=I8), "drops high bits"),
        (lambda g: g.add(binary.DivOp, g["i"], g["i"]), "exact below 2**24 only"),
        (lambda g: g.add(ReduceSumOp, g["i"], axes=(0,), keepdims=False), "may not be exact in float32"),
        (lambda g: cube(g, g.add(CastOp, g["h"], to=I64)), "more than 32 bits"),
    ],
)
def test_what_stays_on_the_host_says_why(build: Callable[[Graph], SSAValue], reason: str) -> None:
    g = Graph(l=([24], I64), b=([24], U8), i=([24], I32), h=([24], I16))
    fused = g.finish(build(g))
    assert any(reason in text for text in fused.fallbacks), fused.fallbacks
    exact(fused)


def random_graph(seed: int) -> FusedModel:
    """A few ops on tensors of all dtypes; whatever doesn't fit is left out."""
    rng = np.random.default_rng(seed)

    def pick(items: Sequence[Any]) -> Any:
        return items[int(rng.integers(len(items)))]

    kinds = [I32, I32, I64, BOOL, U8, I16, F32, F16, BF16]
    g = Graph(**{f"x{i}": (pick([["B", "S"], ["B", "S"], ["S"], ["B", 1]]), pick(kinds)) for i in range(3)})
    values = list(g.values.values())
    for _ in range(7):
        x, y = pick(values), pick(values)
        kind = tensor_type(x).dtype
        op: type[GraphOp] = pick([*ARITHMETIC, *BITS, *COMPARE, compare.AndOp, compare.OrOp, unary.NegOp, unary.NotOp])
        rank = tensor_type(x).rank
        try:
            match pick(("op", "op", "op", "cast", "where", "concat", "pad", "reduce")):
                case "op":
                    y = y if tensor_type(y).dtype == kind else g.constant(pick([0, 1, 5, -2]) if kind != U8 else 3, kind)
                    values.append(g.add(op, x) if op in (unary.NegOp, unary.NotOp) else g.add(op, x, y))
                case "cast":
                    arrived = x in g.values.values()  # computed floats may be too big for an integer
                    target = pick([I32, I64, BOOL, F32] if arrived else [BOOL, F32]) if kind.is_float else pick(kinds)
                    values.append(g.add(CastOp, x, to=target))
                case "where":
                    p = next(v for v in reversed(values) if tensor_type(v).dtype.is_bool)
                    values.append(g.add(WhereOp, p, x, g.constant(1, kind)))
                case "concat":
                    values.append(g.add(ConcatOp, x, pick([y, x]), axis=rank - 1))
                case "pad":
                    before = [expr(pick([0, 1, 2])) for _ in range(rank)]
                    values.append(g.add(PadOp, x, before=before, after=before[::-1], mode="constant", value=float(pick([0, 1]))))
                case "reduce":
                    values.append(g.add(pick([ReduceMaxOp, ReduceSumOp]), x, axes=(rank - 1,), keepdims=True))
        except (GafError, StopIteration):
            continue
    return g.finish(*[v for v in values if not v.uses] or values[-1:])


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_are_exact(seed: int) -> None:
    fused = random_graph(seed)
    inputs = random_inputs(fused.source_model, seed)
    want = run_model(fused.source_model, inputs)
    got = fused.run(inputs, "interpreter")
    for name, array in want.items():
        if dt.of_numpy(array.dtype).is_float:
            ok = np.isclose(got[name].astype(float), array.astype(float), rtol=2e-2, atol=1e-2, equal_nan=True)
            assert ok.all(), f"{name}\n{fused.source_model.module}"
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=f"{name}\n{fused.source_model.module}")
