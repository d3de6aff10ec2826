# SPDX-License-Identifier: Apache-2.0
"""The clean-up passes together: random graphs keep their results, and the time grows linearly."""

from __future__ import annotations


import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import product, sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.passes.boundary import check_level
from gaf.passes.pipeline import GRAPH_CLEANUP
from tests.passes.graph.harness import assert_same, names, run
from tests.work import count_calls

SHAPES = [("B", 3, 4), ("B", 12), (3 * sym("B"), 4), ("B", 3, 4, 1), (1, "B", 3, 4), ("B", 4, 3), (12, "B")]
UNARY = ["neg", "abs", "floor", "ceil", "round", "relu", "sign", "sqrt", "reciprocal"]
BINARY = ["add", "sub", "mul", "div", "max", "min"]
COMPARE = ["less", "greater_or_equal", "equal"]
CONSTANTS = [1.0, -1.0, 2.0, -0.25, 3.0, np.inf]
FLOATS = [dt.F32, dt.F16, dt.F64]


class Grower:
    """Adds ops that are drawn at random; one that doesn't fit its operands is left out."""

    def __init__(self, model: Model, draw: st.DrawFn) -> None:
        self.model, self.draw = model, draw
        self.values: list[SSAValue] = list(model.block.args)

    def pick(self, options: list) -> object:
        return self.draw(st.sampled_from(options))

    def value(self, like: SSAValue | None = None) -> SSAValue:
        dtype = None if like is None else tensor_type(like).dtype
        fitting = [
            v for v in self.values if dtype in (None, tensor_type(v).dtype) and tensor_type(v).dtype.is_float
        ]
        return self.pick(fitting)  # type: ignore[return-value]

    def constant(self, like: SSAValue) -> SSAValue:
        dims = tensor_type(like).shape
        last = dims[-1].as_int() if dims else None
        shape = self.pick([(), (1,), (last or 1,), (8, 3, 1, last or 1)])
        fill = self.pick([float(self.pick(CONSTANTS)), None])
        array = np.full(shape, fill) if fill is not None else np.random.default_rng(3).standard_normal(shape)
        op = self.model.constant(array.astype(tensor_type(like).dtype.numpy), "w")
        self.model.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def emit(self, name: str, operands: list[SSAValue], **attrs: object) -> None:
        try:
            op = registry.by_gaf(name).make(operands, attrs)
        except GafError:
            return
        if tensor_type(op.results[0]).rank <= 4:
            self.model.block.add_op(op)
            self.values += op.results

    def step(self) -> None:
        x = self.value()
        rank = tensor_type(x).rank
        match self.pick(
            [
                "unary",
                "binary",
                "constant",
                "constant",
                "cast",
                "reshape",
                "transpose",
                "unit",
                "expand",
                "where",
            ]
        ):
            case "unary":
                self.emit(self.pick(UNARY), [x])
            case "binary":
                self.emit(self.pick(BINARY), [x, self.value(x)])
            case "constant":
                pair = [x, self.constant(x)]
                self.emit(self.pick(BINARY), self.pick([pair, pair[::-1]]))
            case "cast":
                self.emit("cast", [x], to=self.pick(FLOATS))
            case "reshape":
                size = tensor_type(x).num_elements()
                shapes = [s for s in SHAPES if product(s) == size]  # others fail when the model runs
                self.emit("reshape", [x], shape=self.pick([*shapes, tensor_type(x).shape]))
            case "transpose":
                self.emit("transpose", [x], perm=tuple(self.draw(st.permutations(range(rank)))))
            case "unit":
                self.emit(self.pick(["squeeze", "unsqueeze"]), [x], axes=(self.pick([0, -1]),))
            case "expand":
                self.emit("expand", [x], shape=self.pick([("B", 3, 4), (2, "B", 3, 4)]))
            case "where":
                self.emit(self.pick(COMPARE), [x, self.value(x)])
                condition = self.values[-1]
                if tensor_type(condition).dtype.is_bool:
                    if self.pick([True, False]):
                        self.emit("not", [condition])
                    self.emit("where", [self.values[-1], x, self.value(x)])


class Drawn:
    """A random model that shows itself as IR when a test fails."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __repr__(self) -> str:
        return f"\n{self.model.module}"


@st.composite
def models(draw: st.DrawFn) -> Drawn:
    model = new_model([("x", TensorType.of(SHAPES[0], dt.F32)), ("h", TensorType.of(SHAPES[1], dt.F16))])
    grower = Grower(model, draw)
    for _ in range(draw(st.integers(4, 30))):
        grower.step()
    outputs = grower.values[-3:]
    finish(model, [(f"y{i}", v) for i, v in enumerate(outputs)])
    check_level(model.module, "graph")
    return Drawn(model)


@given(models())
def test_random_graphs_keep_their_results(drawn: Drawn) -> None:
    model = drawn.model
    # without folding, which rounds to the model's dtypes, float64 runs agree to the last bit, too
    after, _ = run(model, "canonicalize,cse,dce")
    assert_same(model, after, sizes={"B": 2}, seeds=1)
    folded, _ = run(after, "fold-constants,canonicalize,cse,dce")
    assert_same(model, folded, sizes={"B": 2}, seeds=1, wide=False)
    cleaned, _ = run(model, GRAPH_CLEANUP)
    assert_same(model, cleaned, sizes={"B": 2}, seeds=1, wide=False)
    # nothing is left to do
    again, _ = run(folded, "canonicalize,fold-constants,canonicalize,cse,dce")
    assert names(again) == names(folded)


def layers(count: int) -> Model:
    """`count` layers of 16 operations with something to do for every pass."""
    type_ = TensorType.of(["B", 16], dt.F32)
    model = new_model([("x", type_)])
    rng = np.random.default_rng(0)

    def emit(name: str, *operands: SSAValue, **attrs: object) -> SSAValue:
        op = registry.by_gaf(name).make(operands, attrs)
        model.block.add_op(op)
        return op.results[0]

    def constant(array: np.ndarray) -> SSAValue:
        op = model.constant(array, f"w{len(model.weights)}")
        model.block.add_op(op)
        return op.results[0]

    x: SSAValue = model.block.args[0]
    for _ in range(count):
        quantized = constant(rng.integers(-128, 128, (16, 16)).astype(np.int8))
        weight = emit("mul", emit("cast", quantized, to=dt.F32), constant(np.float32(rng.uniform())))
        y = emit("add", constant(np.float32(2.0)), emit("matmul", x, weight))
        y = emit("div", y, constant(np.float32(4.0)))
        z = emit("squeeze", emit("unsqueeze", y, axes=(0,)), axes=(0,))
        emit("exp", z)
        x = emit("tanh", emit("add", emit("exp", z), emit("exp", y)))
    return finish(model, [("y", x)])


def work(count: int) -> int:
    model = layers(count)
    results = []
    calls = count_calls(lambda: results.append(run(model, "canonicalize,fold-constants,canonicalize,cse,dce")))
    # weight, matmul, add (and its constant, shared), mul (and its, shared), exp, add, tanh
    assert len(names(results[0][0])) == 7 * count + 2
    return calls


def test_work_grows_linearly() -> None:
    assert work(200) < 12 * work(25)  # 8 times the operations
