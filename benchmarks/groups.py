# SPDX-License-Identifier: Apache-2.0
"""Random groups of ops for `benchmarks.fuzz`: every element type, symbolic sizes, views, several results.

A group has symbolic sizes, so that one build of its kernels serves many cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.model import INPUTS, Model, finish, new_model
from gaf.dialects.graph.ops.activation import GeluOp, SiluOp
from gaf.dialects.graph.ops.binary import (
    AddOp,
    BitwiseAndOp,
    BitwiseOrOp,
    BitwiseXorOp,
    DivOp,
    MaxOp,
    MinOp,
    MulOp,
    SubOp,
)
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.compare import (
    AndOp,
    EqualOp,
    GreaterOp,
    LessOp,
    LessOrEqualOp,
    OrOp,
    WhereOp,
    XorOp,
)
from gaf.dialects.graph.ops.index import GatherOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp, RMSNormOp
from gaf.dialects.graph.ops.reduce import (
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceSumOp,
    ReduceSumSquareOp,
)
from gaf.dialects.graph.ops.search import CumSumOp
from gaf.dialects.graph.ops.shape import ExpandOp, FlipOp, ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp, PadOp, SliceOp
from gaf.dialects.graph.ops.softmax import LogSoftmaxOp, SoftmaxOp
from gaf.dialects.graph.ops.unary import (
    AbsOp,
    CeilOp,
    CosOp,
    ErfOp,
    ExpOp,
    FloorOp,
    LogOp,
    NegOp,
    NotOp,
    ReciprocalOp,
    ReluOp,
    RoundOp,
    RsqrtOp,
    SigmoidOp,
    SignOp,
    SinOp,
    SqrtOp,
    TanhOp,
)
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError

DTYPES = (dt.F32, dt.F16, dt.BF16, dt.I8, dt.U8, dt.I16, dt.I32, dt.I64, dt.BOOL)
SYMBOLS = ("A", "B", "C")
LEAST = dict.fromkeys(SYMBOLS, 1)
LARGEST = 300
"""Of a symbolic size."""
MOST_ELEMENTS = 40_000
"""Of any tensor of a case."""

UNARY = (
    AbsOp, NegOp, SignOp, ReluOp, TanhOp, SigmoidOp, ErfOp, SinOp, CosOp, FloorOp, CeilOp, RoundOp, SiluOp, GeluOp,
)  # fmt: skip
POSITIVE = (SqrtOp, LogOp, RsqrtOp, ReciprocalOp)
"""Functions that need arguments well above 0."""
KINDS = {
    "float": (
        "unary", "unary", "positive", "exp", "binary", "binary", "scalar", "broadcast", "compare", "reduce", "reduce", "norm",
        "softmax", "matmul", "scan", "gather", "cast", "view", "view", "view", "view",
    ),
    "int": ("sign", "binary", "scalar", "bitwise", "compare", "reduce", "gather", "cast", "cast", "view", "view"),
    "bool": ("logic", "not", "where", "cast", "view"),
}  # fmt: skip


class GroupMaker:
    """Grows a random group from a generator; `ranges` are the bounds of the values of integer inputs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = self.pick(DTYPES)
        shape: list[Expr] = []
        while not shape or _elements(TensorType.of(shape, self.dtype), LEAST) > MOST_ELEMENTS // 32:
            shape = [self.size() for _ in range(self.pick((1, 2, 2, 3, 3, 4)))]
        self.model = new_model([("x0", TensorType.of(shape, self.dtype))])
        self.values: list[SSAValue] = list(self.model.block.args)
        self.ranges: dict[str, tuple[int, int]] = {}

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def size(self) -> Expr:
        """A symbol more often than not: its value changes from case to case."""
        return expr(self.pick((*SYMBOLS, *SYMBOLS, 1, 2, 3, 8, 16, 24, 33, 64)))

    def new_input(self, shape: Sequence[Expr], dtype: dt.DType) -> SSAValue:
        block = self.model.block
        value = block.insert_arg(TensorType.of(shape, dtype), len(block.args))
        value.name_hint = f"x{len(block.args) - 1}"
        return value

    def add(self, op: type[GraphOp], *operands: SSAValue | None, **attrs: Any) -> SSAValue | None:
        """Append an op; None if an operand is missing or doesn't fit (the group is unchanged)."""
        if any(o is None for o in operands):
            return None
        try:
            made = op.make(list(operands), attrs, location=f"n{len(self.values)}_{op.name.removeprefix('graph.')}")
        except GafError:
            return None
        if any(_elements(tensor_type(r), LEAST) > MOST_ELEMENTS // 8 for r in made.results):
            return None
        self.model.block.add_op(made)
        self.values.append(made.results[0])
        return made.results[0]

    def number(self, value: float, like: SSAValue) -> SSAValue:
        op = self.model.constant(np.asarray(value).astype(tensor_type(like).dtype.numpy))
        self.model.block.add_op(op)
        return op.results[0]

    def bounded(self, x: SSAValue | None, limit: float) -> SSAValue | None:
        """x kept within a limit, so that no chain of ops leaves the range of its type."""
        if x is None:
            return None
        low = 0.0 if tensor_type(x).dtype.kind == "uint" else -limit
        return self.add(MaxOp, self.add(MinOp, x, self.number(limit, x)), self.number(low, x))

    def step(self) -> None:
        x: SSAValue = self.pick(self.values[-3:])
        kind = tensor_type(x).dtype
        name = self.pick(KINDS["float" if kind.is_float else "bool" if kind.is_bool else "int"])
        getattr(self, f"_{name}")(x, tensor_type(x).shape, kind)

    # -- computing ------------------------------------------------------------------------------

    def _unary(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        op = self.pick(UNARY)
        attrs = {"alpha": 1.0} if op is SiluOp else {"approximate": self.pick(("none", "tanh"))} if op is GeluOp else {}
        self.add(op, x, **attrs)

    def _positive(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(self.pick(POSITIVE), self.add(AddOp, self.add(AbsOp, x), self.number(0.5, x)))

    def _exp(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(ExpOp, self.bounded(x, 4.0))

    def _sign(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(self.pick((AbsOp, NegOp, SignOp)) if kind.kind == "int" else SignOp, x)

    def _binary(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        other = self.pick([v for v in self.values if tensor_type(v).dtype == kind])
        self.bounded(self.add(self.pick((AddOp, SubOp, MulOp, MaxOp, MinOp)), x, other), 9.0)

    def _scalar(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        ops, numbers = ((AddOp, MulOp, DivOp), (0.5, 2.0, -1.5)) if kind.is_float else ((AddOp, MulOp), (1, 2, 3))
        self.bounded(self.add(self.pick(ops), x, self.number(self.pick(numbers), x)), 9.0)

    def _broadcast(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        kept = [d if self.pick((True, False)) else expr(1) for d in shape]
        other = self.new_input(kept[self.pick((0, len(kept) // 2)):], kind)
        self.bounded(self.add(self.pick((AddOp, SubOp, MulOp)), *self.pick(((x, other), (other, x)))), 9.0)

    def _bitwise(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.bounded(self.add(self.pick((BitwiseAndOp, BitwiseOrOp, BitwiseXorOp)), x, self.number(5, x)), 9.0)

    def _logic(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        other = self.pick([v for v in self.values if tensor_type(v).dtype == kind])
        self.add(self.pick((AndOp, OrOp, XorOp)), x, other)

    def _not(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(NotOp, x)

    def _compare(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        ops = (GreaterOp, LessOrEqualOp, LessOp) if kind.is_float else (GreaterOp, LessOrEqualOp, EqualOp)
        self.add(self.pick(ops), x, self.number(self.pick((0, 1)), x))

    def _where(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        same = [v for v in self.values if tensor_type(v).shape == tensor_type(x).shape and not tensor_type(v).dtype.is_bool]
        a = self.pick(same) if same else self.new_input(shape, self.pick((dt.F32, dt.F16, dt.I32)))
        self.add(WhereOp, x, a, self.number(self.pick((0, 3)), a))

    def _cast(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        to = self.pick([d for d in DTYPES if d != kind])
        if to.kind == "uint":
            x = self.add(AbsOp, x) or x if kind.kind in ("float", "int") else x
        self.add(CastOp, self.bounded(x, 9.0) if not kind.is_bool else x, to=to)

    def _reduce(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if not shape:
            return
        axis = self.pick(range(len(shape)))
        axes = tuple(sorted({axis, self.pick(range(len(shape)))})) if self.pick((True, False, False)) else (axis,)
        floats = (ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceL2Op, ReduceSumSquareOp, ReduceLogSumExpOp)
        wide = kind in (dt.I32, dt.I64)
        op = self.pick(floats if kind.is_float else (ReduceMaxOp, ReduceMinOp, *((ReduceSumOp,) if wide else ())))
        self.bounded(self.add(op, x, axes=axes, keepdims=self.pick((True, False))), 50.0)

    def _norm(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if not shape:
            return
        if self.pick((True, False)):
            self.add(RMSNormOp, x, self.new_input(shape[-1:], kind), axis=-1, epsilon=1e-5)
        else:
            scale, bias = (self.new_input(shape[-1:], kind) for _ in range(2))
            self.add(LayerNormOp, x, scale, bias, axis=-1, epsilon=1e-5, stash=False)

    def _softmax(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if shape:
            self.add(self.pick((SoftmaxOp, LogSoftmaxOp)), x, axes=(self.pick(range(-len(shape), 0)),))

    def _matmul(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if len(shape) >= 2:
            columns = self.size()
            self.bounded(self.add(MatMulOp, x, self.new_input([shape[-1], columns], kind)), 100.0)

    def _scan(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if shape:
            flags = {"exclusive": self.pick((True, False)), "reverse": self.pick((True, False))}
            self.add(CumSumOp, x, axis=self.pick(range(len(shape))), **flags)

    def _gather(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        axes = [i for i, d in enumerate(shape) if d.as_int() is not None]
        if axes:
            axis = self.pick(axes)
            size = shape[axis].as_int() or 1
            at = self.new_input([self.size()], self.pick((dt.I32, dt.I64)))
            self.ranges[at.name_hint or ""] = (-size, size - 1)
            self.add(GatherOp, x, at, axis=axis, wrap=True)

    # -- views ----------------------------------------------------------------------------------

    def _view(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if shape:
            views = ("transpose", "merge", "split", "squeeze", "unsqueeze", "expand", "flip", "concat", "pad", "slice", "slice")
            getattr(self, f"_{self.pick(views)}")(x, shape, kind)

    def _transpose(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(TransposeOp, x, perm=tuple(int(i) for i in self.rng.permutation(len(shape))))

    def _merge(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if len(shape) >= 2:
            i = self.pick(range(len(shape) - 1))
            self.add(ReshapeOp, x, shape=(*shape[:i], shape[i] * shape[i + 1], *shape[i + 2:]))

    def _split(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        for i, d in enumerate(shape):
            if d.as_int() in (8, 16, 24, 64) and len(shape) < 5:
                part = self.pick((2, 4, 8))
                self.add(ReshapeOp, x, shape=(*shape[:i], d // part, expr(part), *shape[i + 1:]))
                return

    def _squeeze(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        ones = [i for i, d in enumerate(shape) if d == 1]
        if ones:
            self.add(SqueezeOp, x, axes=(self.pick(ones),))

    def _unsqueeze(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        if len(shape) < 5:
            self.add(UnsqueezeOp, x, axes=(self.pick(range(len(shape) + 1)),))

    def _expand(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        known = [d for a in self.model.block.args for d in tensor_type(a).shape]  # others would have no value
        wide = [self.pick(known) if d == 1 else d for d in shape]
        self.add(ExpandOp, x, shape=tuple(wide if wide != list(shape) or len(shape) > 3 else [expr(3), *wide]))

    def _flip(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        self.add(FlipOp, x, axes=(self.pick(range(len(shape))),))

    def _concat(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        axis = self.pick(range(len(shape)))
        other = self.new_input([*shape[:axis], self.size(), *shape[axis + 1:]], kind)
        self.add(ConcatOp, *self.pick(((x, other), (other, x), (x, other, x), (x, x))), axis=axis)

    def _pad(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        before, after = ([expr(self.pick((0, 0, 1, 3))) for _ in shape] for _ in range(2))
        fill = self.pick((0.0, 2.0)) if not kind.is_bool else 0.0
        self.add(PadOp, x, before=before, after=after, mode="constant", value=fill)

    def _slice(self, x: SSAValue, shape: Sequence[Expr], kind: dt.DType) -> None:
        axes = [i for i, d in enumerate(shape) if (d.as_int() or 0) >= 2]
        if not axes:
            return
        axis = self.pick(axes)
        size = shape[axis].as_int() or 0
        start, count, step = self.pick(
            ((0, size // 2, 1), (size - size // 2, size // 2, 1), (1, size - 1, 1), (0, (size + 1) // 2, 2))
        )
        starts = [expr(start) if i == axis else expr(0) for i in range(len(shape))]
        sizes = [expr(count) if i == axis else d for i, d in enumerate(shape)]
        self.add(SliceOp, x, starts=starts, sizes=sizes, steps=[step if i == axis else 1 for i in range(len(shape))])

    # -- the whole ------------------------------------------------------------------------------

    def finish(self) -> Model:
        """Return what nothing else uses, and sometimes inner values too."""
        args = set(self.model.block.args)
        made = [v for v in self.values if v not in args] or self.values
        unused = [v for v in made if not v.uses]
        unused += [self.pick(made) for _ in range(self.pick((0, 0, 1, 2)))]
        model = finish(self.model, [(f"y{i}", v) for i, v in enumerate(dict.fromkeys(unused))])
        names = [f"x{i}" for i in range(len(model.block.args))]
        model.func.attributes[INPUTS] = ArrayAttr([StringAttr(n) for n in names])
        return model


class Group:
    """A random group: `model`, and the inputs of its cases. Equal seeds give equal groups and cases."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        maker = GroupMaker(seed)
        steps = maker.pick((2, 3, 4, 5, 6, 8))
        while steps > 0 or len(maker.values) == 1:
            maker.step()
            steps -= 1
        self.model = maker.finish()
        self.ranges = maker.ranges

    def sizes(self, case: int) -> dict[str, int]:
        """Sizes 0 to LARGEST of the symbols in a case, small enough for its largest tensor; 0 and 1 come up often."""
        rng = np.random.default_rng((self.seed, case))
        types = [tensor_type(a) for a in self.model.block.args]
        types += [tensor_type(v) for op in self.model.block.ops for v in (*op.operands, *op.results)]
        names = sorted({s for t in types for s in t.symbols()})
        limit = LARGEST
        while True:
            found = {}
            for name in names:
                most = int(rng.choice((0, 1, 8, 40, limit), p=(0.02, 0.08, 0.2, 0.3, 0.4)))
                found[name] = min(most if most < 2 else int(rng.integers(2, most + 1)), limit)
            if limit == 2 or all(_elements(t, found) <= MOST_ELEMENTS for t in types):
                return found
            limit = max(limit * 2 // 3, 2)

    def inputs(self, case: int) -> dict[str, np.ndarray]:
        """Values of moderate size: -2..2, integers within -3..3 or what the group needs."""
        rng = np.random.default_rng((self.seed, case, 1))
        sizes = self.sizes(case)
        found: dict[str, np.ndarray] = {}
        for name, kind in zip(self.model.input_names, self.model.input_types):
            shape = kind.concrete(sizes)
            if kind.dtype.is_float:
                values: np.ndarray = rng.uniform(-2, 2, shape)
            elif kind.dtype.is_bool:
                values = rng.integers(0, 2, shape)
            else:
                low, high = self.ranges.get(name, (0 if kind.dtype.kind == "uint" else -3, 3))
                values = rng.integers(low, high + 1, shape)
            found[name] = values.astype(kind.dtype.numpy)
        return found


def _elements(kind: TensorType, sizes: Mapping[str, int]) -> int:
    return math.prod(kind.concrete(dict(sizes)))
