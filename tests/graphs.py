# SPDX-License-Identifier: Apache-2.0
"""Random small graphs: the input of every test that compares levels with each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.activation import SiluOp
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp, SubOp
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.compare import GreaterOp, LessOrEqualOp, WhereOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp, RMSNormOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from gaf.dialects.graph.ops.shape import ReshapeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp, PadOp, SliceOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.unary import AbsOp, NegOp, SigmoidOp, SqrtOp, TanhOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]

SIZES: tuple[int | str, ...] = (1, 2, 3, 5, 8, 16, 17, 33, "B", "S")
SYMBOLS = {"B": 3, "S": 9}


class GraphMaker:
    """Grows a random graph; `pick(choices)` is the only source of randomness."""

    def __init__(self, pick: Pick[Any], dtype: dt.DType = dt.F32) -> None:
        self.pick, self.dtype = pick, dtype
        self.inputs: list[tuple[str, TensorType]] = []
        rank = pick((1, 2, 2, 3, 3, 4))
        shape = [expr(pick(SIZES)) for _ in range(rank)]
        self.model = new_model([("x0", TensorType.of(shape, dtype))])
        self.values: list[SSAValue] = list(self.model.block.args)
        self.input_names = ["x0"]

    def new_input(self, shape: Sequence[Expr]) -> SSAValue:
        block = self.model.block
        value = block.insert_arg(TensorType.of(shape, self.dtype), len(block.args))
        self.input_names.append(f"x{len(block.args) - 1}")
        value.name_hint = self.input_names[-1]
        return value

    def add(self, op: type[GraphOp], operands: Sequence[SSAValue], **attrs: Any) -> SSAValue | None:
        """Append an op; None if the operands don't fit (the graph is unchanged)."""
        try:
            made = op.make(operands, attrs, location=f"n{len(self.values)}_{op.name.removeprefix('graph.')}")
        except GafError:
            return None
        self.model.block.add_op(made)
        self.values.append(made.results[0])
        return made.results[0]

    def constant(self, value: float) -> SSAValue:
        op = self.model.constant(np.asarray(value, self.dtype.numpy))
        self.model.block.add_op(op)
        return op.results[0]

    def float_value(self) -> SSAValue:
        recent = [v for v in self.values[-4:] if tensor_type(v).dtype == self.dtype]
        return self.pick(recent or [self.values[0]])

    def step(self) -> None:
        x = self.float_value()
        shape = tensor_type(x).shape
        match self.pick(
            (
                "unary", "unary", "binary", "binary", "scalar", "broadcast", "reduce", "norm", "matmul", "view", "where",
                "cast", "concat", "pad", "slice",
            )
        ):
            case "unary":
                op = self.pick((AbsOp, NegOp, SigmoidOp, TanhOp, SiluOp))
                self.add(op, [x], **({"alpha": 1.0} if op is SiluOp else {}))
            case "binary":
                other = self.pick([v for v in self.values if tensor_type(v).dtype == self.dtype])
                self.add(self.pick((AddOp, SubOp, MulOp, MaxOp, MinOp)), [x, other])
            case "scalar":
                self.add(self.pick((AddOp, MulOp, DivOp)), [x, self.constant(self.pick((0.5, 2.0, -1.5)))])
            case "broadcast":
                keep = [self.pick((True, False)) for _ in shape]
                other = self.new_input([d if k else expr(1) for d, k in zip(shape, keep)][self.pick((0, len(shape) // 2)):])
                self.add(self.pick((AddOp, SubOp, MulOp)), self.pick(([x, other], [other, x])))
            case "reduce" if shape:
                axis = self.pick(range(len(shape)))
                axes = (axis, axis + 2) if axis + 2 < len(shape) else (axis,)
                self.add(self.pick((ReduceSumOp, ReduceMeanOp, ReduceMaxOp)), [x], axes=axes, keepdims=self.pick((True, True, False)))
            case "norm" if shape:
                kind = self.pick(("softmax", "layer_norm", "rms_norm"))
                if kind == "softmax":
                    self.add(SoftmaxOp, [x], axes=(-1,))
                elif kind == "layer_norm":
                    self.add(LayerNormOp, [x, self.new_input(shape[-1:]), self.new_input(shape[-1:])], axis=-1, epsilon=1e-5, stash=False)
                else:
                    self.add(RMSNormOp, [x, self.new_input(shape[-1:])], axis=-1, epsilon=1e-5)
            case "matmul" if len(shape) >= 2:
                columns = expr(self.pick((1, 4, 16, 24, 40)))
                self.add(MatMulOp, [x, self.new_input([shape[-1], columns])])
            case "view" if shape:
                self.view(x, shape)
            case "concat" if shape:
                self.concat(x, shape)
            case "pad" if shape:
                before, after = ([expr(self.pick((0, 0, 1, 3))) for _ in shape] for _ in range(2))
                fill = self.pick((0.0, 0.0, -1.5, float("-inf")))
                self.add(PadOp, [x], before=before, after=after, mode="constant", value=fill)
            case "slice" if shape:
                self.slice(x, self.pick(range(len(shape))))
            case "where":
                condition = self.add(self.pick((GreaterOp, LessOrEqualOp)), [x, self.constant(0.25)])
                if condition is not None:
                    self.add(WhereOp, [condition, x, self.constant(-3.0)])
            case "cast" if self.dtype == dt.F32:
                half = self.add(CastOp, [x], to=dt.F16)
                if half is not None:
                    self.add(CastOp, [half], to=dt.F32)
            case _:
                self.add(SqrtOp, [self.add(AbsOp, [x]) or x])

    def concat(self, x: SSAValue, shape: Sequence[Expr]) -> None:
        """x with a new input, with itself, or with another value that fits, in any order, along any axis."""
        axis = self.pick(range(len(shape)))
        fits = [
            v for v in self.values
            if tensor_type(v).dtype == self.dtype and len(tensor_type(v).shape) == len(shape)
            and all(i == axis or a == b for i, (a, b) in enumerate(zip(tensor_type(v).shape, shape)))
        ]
        size = expr(self.pick(SIZES))
        other = self.pick(fits) if self.pick((True, False)) else self.new_input([*shape[:axis], size, *shape[axis + 1:]])
        self.add(ConcatOp, self.pick(([x, other], [other, x], [x, other, x])), axis=axis)

    def slice(self, x: SSAValue, axis: int) -> SSAValue | None:
        """A part of an axis: the first or second half, all but the first, or every other element."""
        shape = tensor_type(x).shape
        size = shape[axis].as_int()
        if size is None or size < 2:
            return None
        start, count, step = self.pick(((0, size // 2, 1), (size - size // 2, size // 2, 1), (1, size - 1, 1), (0, (size + 1) // 2, 2)))
        starts = [expr(start) if i == axis else expr(0) for i in range(len(shape))]
        sizes = [expr(count) if i == axis else d for i, d in enumerate(shape)]
        return self.add(SliceOp, [x], starts=starts, sizes=sizes, steps=[step if i == axis else 1 for i in range(len(shape))])

    def view(self, x: SSAValue, shape: Sequence[Expr]) -> None:
        match self.pick(("transpose", "merge", "unsqueeze", "split", "rotate")):
            case "rotate":  # rotate_half of rotary embeddings
                axis = self.pick(range(len(shape)))
                size = shape[axis].as_int()
                if size is None or size % 2:
                    return
                halves = []
                for start in (size // 2, 0):
                    starts = [expr(start) if i == axis else expr(0) for i in range(len(shape))]
                    sizes = [expr(size // 2) if i == axis else d for i, d in enumerate(shape)]
                    halves.append(self.add(SliceOp, [x], starts=starts, sizes=sizes, steps=[1] * len(shape)))
                if None not in halves:
                    turned = self.add(NegOp, [halves[0]])  # type: ignore[list-item]
                    both = self.add(ConcatOp, [turned, halves[1]], axis=axis)  # type: ignore[list-item]
                    self.add(MulOp, [both or x, x])
            case "transpose" if len(shape) >= 2:
                perm = list(range(len(shape)))
                i, j = self.pick(perm), self.pick(perm)
                perm[i], perm[j] = perm[j], perm[i]
                self.add(TransposeOp, [x], perm=tuple(perm))
            case "merge" if len(shape) >= 2:
                i = self.pick(range(len(shape) - 1))
                self.add(ReshapeOp, [x], shape=(*shape[:i], shape[i] * shape[i + 1], *shape[i + 2:]))
            case "split":
                for i, d in enumerate(shape):
                    if d in (8, 16, 24, 40):
                        self.add(ReshapeOp, [x], shape=(*shape[:i], d // 4, expr(4), *shape[i + 1:]))
                        return
            case _:
                if len(shape) < 4:
                    self.add(UnsqueezeOp, [x], axes=(self.pick(range(len(shape) + 1)),))

    def finish(self) -> Model:
        """Return every value that nothing else uses, and sometimes an inner one."""
        unused = [v for v in self.values if not v.uses]
        if self.pick((False, False, True)):
            unused.append(self.pick(self.values))
        outputs = list(dict.fromkeys(unused))
        model = finish(self.model, [(f"y{i}", v) for i, v in enumerate(outputs)])
        from xdsl.dialects.builtin import ArrayAttr, StringAttr

        model.func.attributes["gaf.inputs"] = ArrayAttr([StringAttr(n) for n in self.input_names])
        return model


def make_graph(pick: Pick[Any], steps: int, dtype: dt.DType = dt.F32) -> Model:
    """A random model of about `steps` ops."""
    maker = GraphMaker(pick, dtype)
    for _ in range(steps):
        maker.step()
    return maker.finish()


@st.composite
def graphs(draw: st.DrawFn, max_steps: int = 7, dtypes: Sequence[dt.DType] = (dt.F32,)) -> Model:
    """Hypothesis strategy of random models."""
    return make_graph(lambda choices: draw(st.sampled_from(list(choices))), draw(st.integers(1, max_steps)), draw(st.sampled_from(list(dtypes))))


def random_graph(seed: int, steps: int = 7, dtype: dt.DType = dt.F32) -> Model:
    """A random model from a seed, for bulk runs."""
    rng = np.random.default_rng(seed)

    def pick(choices: Sequence[Any]) -> Any:
        items = list(choices)
        return items[int(rng.integers(len(items)))]

    return make_graph(pick, steps, dtype)


def inputs_for(model: Model, seed: int = 0, symbols: dict[str, int] | None = None) -> dict[str, np.ndarray]:
    """Random inputs of moderate size for a model made here."""
    rng = np.random.default_rng(seed)
    env = symbols or SYMBOLS
    return {
        n: rng.uniform(-2, 2, t.concrete(env)).astype(t.dtype.numpy) for n, t in zip(model.input_names, model.input_types)
    }


