# SPDX-License-Identifier: Apache-2.0
"""One table of concrete examples for every graph op; all op tests run over it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, expr, floordiv, sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp

F16, F32, F64 = np.float16, np.float32, np.float64
I8, I32, I64, U8 = np.int8, np.int32, np.int64, np.uint8
BF16 = ml_dtypes.bfloat16
INF, NAN = np.inf, np.nan


@dataclass
class Case:
    """An op on operands.

    `tolerance` is relative, against the oracle that runs the exported op: "onnx" (its reference), "ort"
    (onnxruntime without optimisation, where onnx's reference is wrong), or None (`why_not`).
    """

    op: str
    arrays: tuple[np.ndarray, ...]
    attrs: dict[str, Any]
    tolerance: float | None = 1e-5
    why_not: str = ""
    opsets: tuple[int, ...] = (17, 18, 21)
    oracle: str = "onnx"
    draws: bool = False  # numbers of the runtime's own: only types are compared with it

    @property
    def op_class(self) -> type[GraphOp]:
        found = registry.by_name(f"graph.{self.op}")
        assert found is not None, self.op
        return found

    def __str__(self) -> str:
        shapes = "-".join(f"{dt.of_numpy(a.dtype)}x{'x'.join(map(str, a.shape))}" for a in self.arrays)
        attrs = "-".join(f"{k}={v}" for k, v in self.attrs.items())
        return f"{self.op}-{shapes}-{attrs}".replace(" ", "")[:110]


def normal(*shape: int, dtype: Any = F32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(repr((shape, np.dtype(dtype).name, seed)).encode()))
    return (rng.standard_normal(shape) * 1.5).astype(dtype)


def uniform(low: float, high: float, *shape: int, dtype: Any = F32) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(repr((low, high, shape)).encode()))
    return rng.uniform(low, high, shape).astype(dtype)


def ints(low: int, high: int, *shape: int, dtype: Any = I64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(repr((low, high, shape, seed)).encode()))
    return rng.integers(low, high, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    return ints(0, 2, *shape, seed=seed).astype(bool)


def arr(values: Any, dtype: Any = F32) -> np.ndarray:
    return np.asarray(values, dtype)


def dims(*values: int | str) -> tuple:
    return tuple(expr(v) for v in values)


SPECIAL = arr([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, 1.5, -2.5, 3.5, 90.0, -90.0, 1e-20])
UNARY_SHAPES = ((2, 3), (), (1,), (0, 3))
ROUNDING = {F32: 1e-5, F64: 1e-12, F16: 1e-2}


def unary() -> Iterator[Case]:
    domains = {
        "log": (0.01, 9),
        "sqrt": (0, 9),
        "rsqrt": (0.1, 9),
        "reciprocal": (0.3, 3),
        "asin": (-1, 1),
        "acos": (-1, 1),
        "acosh": (1, 9),
        "atanh": (-0.99, 0.99),
    }
    plain = [
        "neg",
        "abs",
        "sign",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "floor",
        "ceil",
        "trunc",
        "round",
        "relu",
        "softplus",
        "softsign",
        "mish",
        "hard_swish",
    ]
    for name in plain:
        low, high = domains.get(name, (-4, 4))
        for shape in UNARY_SHAPES:
            yield Case(
                name, (uniform(low, high, *shape),), {}, oracle="ort" if name == "softsign" else "onnx"
            )
        constants = name in ("hard_swish", "erf")  # onnx computes them in float32
        yield Case(name, (uniform(low, high, 5, dtype=F64),), {}, 1e-6 if constants else 1e-12)
        yield Case(name, (uniform(low, high, 5, dtype=F16),), {}, 1e-2)
        yield Case(
            name,
            (uniform(low, high, 4).astype(BF16),),
            {},
            None,
            "the onnx reference has no bfloat16 rules for it",
        )
        if name not in ("softplus", "softsign", "mish", "hard_swish", "tan", "sin", "cos", "sinh", "cosh"):
            yield Case(name, (SPECIAL,), {})
    for name in ("neg", "abs", "sign", "relu"):
        yield Case(name, (ints(-9, 9, 2, 3, dtype=I32),), {})
    yield Case("bitwise_not", (ints(-9, 9, 2, 3, dtype=np.int16),), {}, opsets=(18, 21))
    yield Case("not", (bools(2, 3),), {})
    yield Case("isnan", (SPECIAL,), {})
    for negative in (True, False):
        for positive in (True, False):
            yield Case("isinf", (SPECIAL,), {"negative": negative, "positive": positive})
    attributes: dict[str, list[dict[str, Any]]] = {
        "leaky_relu": [{"alpha": 0.01}, {"alpha": 1.5}],
        "thresholded_relu": [{"alpha": 1.0}],
        "elu": [{"alpha": 1.0}, {"alpha": 2.0}],
        "selu": [{"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}],
        "celu": [{"alpha": 1.0}, {"alpha": 2.5}],
        "hard_sigmoid": [{"alpha": 0.2, "beta": 0.5}],
        "gelu": [{"approximate": "none"}, {"approximate": "tanh"}],
        "silu": [{"alpha": 1.0}, {"alpha": 1.702}],
    }
    for name, choices in attributes.items():
        for attrs in choices:
            yield Case(name, (uniform(-4, 4, 3, 2),), attrs)
            yield Case(name, (uniform(-4, 4, 5, dtype=F16),), attrs, 1e-2)
            yield Case(name, (arr([0.0, -80.0, 80.0, -1e-3, 1e-3]),), attrs)


def binary() -> Iterator[Case]:
    broadcasts = [
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((2, 1, 3), (4, 1)),
        ((), (2,)),
        ((1,), (1, 1)),
        ((0, 3), (1, 3)),
        ((), ()),
    ]
    for name in ("add", "sub", "mul", "div", "pow", "max", "min", "mod", "prelu"):
        for a, b in broadcasts:
            if name == "prelu" and np.broadcast_shapes(a, b) != a:
                continue
            x = uniform(0.5, 3, *a) if name == "pow" else normal(*a)
            y = uniform(0.5, 3, *b) if name in ("div", "mod") else normal(*b, seed=1)
            yield Case(name, (x, y), {"fmod": True} if name == "mod" else {})
        x, y = uniform(0.5, 3, 4, dtype=F16), uniform(0.5, 2, 3, 1, dtype=F16)
        attrs = {"fmod": True} if name == "mod" else {}
        if name != "prelu":
            yield Case(name, (x, y), attrs, 1e-2)
            yield Case(name, (x.astype(F64), y.astype(F64)), attrs, 1e-12)
            yield Case(name, (x.astype(BF16), y.astype(BF16)), attrs, None, "16-bit rounding differs")
    for name in ("add", "sub", "mul", "div", "max", "min"):
        yield Case(name, (ints(-9, 9, 2, 3, dtype=I32), ints(1, 5, 3, dtype=I32)), {})
        yield Case(name, (ints(-9, 9, 2, 3), ints(1, 5, 3)), {})
    yield Case("pow", (ints(-3, 4, 2, 3), ints(0, 4, 3)), {})
    yield Case("mod", (ints(-9, 9, 2, 3), arr([-3, 4, 5], I64)), {"fmod": False})
    yield Case("mod", (ints(-9, 9, 2, 3), arr([-3, 4, 5], I64)), {"fmod": True})
    yield Case("mod", (normal(2, 3), arr([-3.0, 4.0, 0.7])), {"fmod": False}, opsets=(17, 21))
    yield Case("prelu", (normal(2, 3, 4), normal(3, 1)), {})  # case 49: broadcasts, not per channel
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield Case(
            name, (ints(-99, 99, 2, 3, dtype=I32), ints(-99, 99, 3, dtype=I32, seed=1)), {}, opsets=(18, 21)
        )
    for name in ("max", "min", "add", "mul"):
        yield Case(name, (SPECIAL, SPECIAL[::-1].copy()), {})


def compare() -> Iterator[Case]:
    for name in ("equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"):
        yield Case(name, (ints(0, 3, 2, 3), ints(0, 3, 3, seed=1)), {})
        yield Case(name, (SPECIAL, SPECIAL[::-1].copy()), {})
        yield Case(name, (ints(0, 3, 4, 1).astype(F16), ints(0, 3, 5).astype(F16)), {})
    yield Case("equal", (bools(3), bools(3, seed=1)), {})
    for name in ("and", "or", "xor"):
        yield Case(name, (bools(2, 3), bools(3, seed=1)), {})
    yield Case("where", (bools(2, 3), normal(3), normal(2, 1, seed=1)), {})
    yield Case("where", (bools(3, 1), ints(0, 9, 4), ints(0, 9, seed=1)), {})
    yield Case("where", (bools(), bools(2), bools(2, seed=1)), {})
    yield Case("where", (bools(3), arr([NAN, 1, INF]), arr([0, NAN, -INF])), {})
    yield Case("where", (bools(4), normal(4, dtype=F16), normal(4, dtype=F16, seed=1)), {})


def casts() -> Iterator[Case]:
    for source in (
        normal(2, 3),
        ints(-5, 6, 2, 3),
        bools(4),
        arr([0.4, -0.6, 2.5, 1e5], F64),
        ints(0, 9, 3, dtype=U8),
    ):
        for to in (dt.F32, dt.F16, dt.F64, dt.I32, dt.I64, dt.BOOL):
            yield Case("cast", (source,), {"to": to})
    yield Case("cast", (normal(5),), {"to": dt.BF16}, None, "the onnx reference keeps bfloat16 as raw bits")
    yield Case("cast", (normal(5).astype(BF16),), {"to": dt.F32}, None, "as above")
    yield Case("cast", (arr([INF, -INF, NAN, 7e4]),), {"to": dt.F16})


def reduce() -> Iterator[Case]:
    names = [
        "reduce_sum",
        "reduce_mean",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "reduce_l1",
        "reduce_l2",
        "reduce_sum_square",
        "reduce_log_sum",
        "reduce_log_sum_exp",
    ]
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3, 4), (1,)),
        ((2, 3, 4), (0, 2)),
        ((2, 3, 4), (0, 1, 2)),
        ((5,), (-1,)),
        ((2, 1, 3), (1,)),
        ((1, 1), (0, 1)),
    ]
    for name in names:
        positive = name == "reduce_log_sum"
        for shape, axes in shapes:
            for keepdims in (True, False):
                x = uniform(0.1, 3, *shape) if positive else normal(*shape)
                yield Case(name, (x,), {"axes": axes, "keepdims": keepdims})
        yield Case(name, (uniform(0.1, 2, 3, 4, dtype=F16),), {"axes": (1,), "keepdims": True}, 2e-2)
        yield Case(name, (uniform(0.1, 2, 3, 4, dtype=F64),), {"axes": (1,), "keepdims": True}, 1e-12)
        yield Case(name, (uniform(0.1, 2, 3),), {"axes": (), "keepdims": True}, opsets=(17, 18))
        yield Case(name, (arr(2.5),), {"axes": (), "keepdims": False}, opsets=(17, 18))
    for name in (
        "reduce_sum",
        "reduce_mean",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "reduce_l1",
        "reduce_sum_square",
    ):
        # onnx's reference widens sums of squares to int64
        oracle = "ort" if name == "reduce_sum_square" else "onnx"
        yield Case(name, (ints(1, 5, 3, 4, dtype=I32),), {"axes": (1,), "keepdims": False}, oracle=oracle)
    for name in ("reduce_sum", "reduce_prod"):
        yield Case(name, (np.zeros((2, 0, 3), F32),), {"axes": (1,), "keepdims": True})
    for name in ("reduce_max", "reduce_min"):
        yield Case(name, (bools(3, 4),), {"axes": (1,), "keepdims": True})
        yield Case(name, (arr([[1, NAN, 2], [INF, -INF, 0]]),), {"axes": (1,), "keepdims": False})
    extreme = arr([[-INF, -INF], [INF, 0], [1000, 1000], [-1000, -1001], [0, -INF]])
    yield Case(
        "reduce_log_sum_exp",
        (extreme,),
        {"axes": (1,), "keepdims": True},
        None,
        "the onnx reference overflows",
    )
    for name in ("argmax", "argmin"):
        for keepdims in (True, False):
            for last in (True, False):
                x = ints(0, 3, 3, 5).astype(F32)
                yield Case(name, (x,), {"axis": 1, "keepdims": keepdims, "select_last": last})
    for exclusive in (True, False):
        for reverse in (True, False):
            flags = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
            yield Case("cumsum", (normal(3, 4),), flags)
            yield Case("cumprod", (normal(3, 4),), flags)
            yield Case("cumsum", (arr([[INF, 1, -INF], [NAN, 2, 3]]),), flags)
    for largest in (True, False):
        x = normal(3, 5) if largest else ints(0, 90, 3, 5)
        yield Case("topk", (x,), {"k": dims(3), "axis": 1, "largest": largest})
        yield Case("topk", (x,), {"k": dims(1), "axis": 0, "largest": largest})
        special = arr([[NAN, INF, 1, -INF, 1], [NAN, NAN, NAN, NAN, NAN], [0, NAN, -0.0, INF, INF]])
        for k in (1, 5):
            yield Case("topk", (special,), {"k": dims(k), "axis": 1, "largest": largest}, None, "NaN is the largest number")


def matmul() -> Iterator[Case]:
    shapes = [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((1, 1), (1, 1)),
        ((2, 3), (5, 3, 1)),
        ((0, 3), (3, 2)),
    ]
    for a, b in shapes:
        yield Case("matmul", (normal(*a), normal(*b, seed=1)), {})
    yield Case("matmul", (normal(4, 8, dtype=F16), normal(8, 3, dtype=F16)), {}, 2e-2)
    yield Case("matmul", (normal(4, 8, dtype=F64), normal(8, 3, dtype=F64)), {}, 1e-12)
    yield Case("matmul", (ints(-9, 9, 4, 8, dtype=I32), ints(-9, 9, 8, 3, dtype=I32)), {})
    yield Case(
        "matmul", (normal(4, 8).astype(BF16), normal(8, 3).astype(BF16)), {}, None, "16-bit rounding differs"
    )


def norm() -> Iterator[Case]:
    for name in ("softmax", "safe_softmax", "log_softmax"):
        for shape, axes in [
            ((2, 3, 4), (-1,)),
            ((2, 3, 4), (1,)),
            ((2, 3, 4), (1, 2)),
            ((5,), (0,)),
            ((2, 1), (1,)),
            ((3,), ()),
        ]:
            yield Case(name, (normal(*shape),), {"axes": axes})
        # onnx's reference takes the log of a softmax that underflows
        oracle = "ort" if name == "log_softmax" else "onnx"
        extreme = arr([[1e4, 1e4, -1e4], [-INF, 0, 1], [-INF, -INF, -INF], [NAN, 0, 0]])
        yield Case(name, (extreme,), {"axes": (1,)}, oracle=oracle)
        yield Case(name, (normal(3, 8, dtype=F16),), {"axes": (1,)}, 2e-2)
    for axis, scale, bias in [
        (-1, (4,), (4,)),
        (1, (3, 4), None),
        (2, (1,), (4,)),
        (-1, (4,), None),
        (0, (2, 3, 4), (4,)),
    ]:
        operands = [normal(2, 3, 4), normal(*scale, seed=1), *([normal(*bias, seed=2)] if bias else [])]
        for stash in (False, True):
            yield Case("layer_norm", tuple(operands), {"axis": axis, "epsilon": 1e-5, "stash": stash}, 1e-4)
    half = tuple(normal(*s, dtype=F16) for s in ((3, 8), (8,), (8,)))
    yield Case("layer_norm", half, {"axis": -1, "epsilon": 1e-5, "stash": True}, 3e-2, oracle="ort")
    for axis, scale in [(-1, (4,)), (1, (3, 4)), (1, (4,))]:
        yield Case(
            "rms_norm",
            (normal(2, 3, 4), normal(*scale, seed=1)),
            {"axis": axis, "epsilon": 1e-5},
            1e-4,
            opsets=(17, 18, 21, 23),
        )
    yield Case(
        "rms_norm", (normal(3, 8, dtype=F16), normal(8, dtype=F16)), {"axis": 1, "epsilon": 1e-5}, 2e-2
    )
    for shape in ((2, 3, 4), (2, 3), (2, 3, 2, 2)):
        parameters = [normal(3), normal(3, seed=1), normal(3, seed=2), uniform(0.5, 2, 3)]
        yield Case("batch_norm", (normal(*shape), *parameters), {"epsilon": 1e-5}, 1e-4)
    for shape in ((2, 3, 4), (2, 3, 2, 5)):
        yield Case("instance_norm", (normal(*shape), normal(3), normal(3, seed=1)), {"epsilon": 1e-5}, 1e-4)
    for groups in (1, 2, 6):
        yield Case(
            "group_norm",
            (normal(2, 6, 3, 2), normal(6), normal(6, seed=1)),
            {"num_groups": groups, "epsilon": 1e-5},
            1e-4,
        )


def shape() -> Iterator[Case]:
    reshapes = [
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (2, 12)),
        ((6, 4), (2, 3, 4)),
        ((6, 4), (4, 6)),
        ((2, 3), (3, 2)),
        ((1, 6), (6,)),
        ((), (1, 1)),
        ((1, 1), ()),
        ((2, 3, 4), (24,)),
        ((2, 1, 3), (2, 3, 1)),
        ((0, 3), (3, 0)),
        ((4, 3, 2), (2, 2, 3, 2)),
        ((4, 6), (2, 4, 3)),
    ]
    for source, target in reshapes:
        yield Case("reshape", (normal(*source),), {"shape": dims(*target)})
    yield Case("assume_shape", (normal(3, 4),), {"shape": dims(3, 4)})
    yield Case("squeeze", (normal(1, 2, 1),), {"axes": (0, 2)})
    yield Case("squeeze", (normal(1, 2, 1),), {"axes": (-1,)})
    yield Case("unsqueeze", (normal(2, 3),), {"axes": (0, 2)})
    yield Case("unsqueeze", (arr(2.0),), {"axes": (0,)})
    yield Case("unsqueeze", (normal(2, 3),), {"axes": (-1,)})
    yield Case("transpose", (normal(2, 3, 4),), {"perm": (2, 0, 1)})
    yield Case("transpose", (arr(2.0),), {"perm": ()})
    yield Case("expand", (normal(3, 1),), {"shape": dims(2, 3, 4)})
    yield Case("expand", (arr(2.0),), {"shape": dims(2, 1)})
    yield Case("expand", (normal(1, 1),), {"shape": dims(1, 1, 1)})
    yield Case("tile", (normal(2, 1, 3),), {"repeats": dims(2, 3, 1)})
    yield Case("tile", (normal(2),), {"repeats": dims(0)})
    yield Case("flip", (normal(2, 3, 4),), {"axes": (0, -1)})
    yield Case("flip", (normal(2),), {"axes": ()})
    for starts, sizes, steps in [
        ((0, 1, 0), (2, 2, 4), (1, 1, 1)),
        ((1, 2, 3), (2, 3, 2), (-1, -1, -2)),
        ((0, 0, 1), (2, 3, 2), (1, 1, 2)),
        ((0, 0, 0), (2, 0, 4), (1, 1, 1)),
        ((0, 0, 0), (2, 3, 4), (1, 1, 1)),
    ]:
        yield Case(
            "slice", (normal(2, 3, 4),), {"starts": dims(*starts), "sizes": dims(*sizes), "steps": steps}
        )
    yield Case("concat", (normal(2, 3), normal(2, 1), normal(2, 2)), {"axis": 1})
    yield Case("concat", (ints(0, 9, 2), ints(0, 9, 3)), {"axis": 0})
    yield Case("concat", (normal(2, 0), normal(2, 2)), {"axis": -1})
    for mode in ("constant", "edge", "reflect", "wrap"):
        attrs = {"before": dims(1, 2), "after": dims(0, 3), "mode": mode, "value": 0.0}
        yield Case("pad", (normal(2, 4),), attrs, opsets=(17, 19, 21))
    yield Case(
        "pad",
        (normal(4),),
        {"before": dims(-1), "after": dims(2), "mode": "constant", "value": -2.5},
        oracle="ort",
    )
    yield Case(
        "pad",
        (ints(0, 9, 4),),
        {"before": dims(1), "after": dims(-2), "mode": "constant", "value": 7.0},
        oracle="ort",
    )
    yield Case(
        "pad",
        (normal(2),),
        {"before": dims(3), "after": dims(5), "mode": "wrap", "value": 0.0},
        opsets=(17, 19),
    )
    yield Case(
        "pad", (normal(2, 0),), {"before": dims(0, 1), "after": dims(0, 1), "mode": "constant", "value": -INF}
    )


def index() -> Iterator[Case]:
    for indices, axis in [
        (ints(0, 3, 2, 2), 1),
        (ints(-3, 3, 4), 1),
        (ints(0, 4, dtype=I32), 2),
        (ints(0, 2, 0), 0),
    ]:
        yield Case("gather", (normal(2, 3, 4), indices), {"axis": axis, "wrap": bool(np.any(indices < 0))})
    yield Case("gather_elements", (normal(3, 4), ints(-4, 4, 3, 2)), {"axis": 1, "wrap": True})
    yield Case("gather_elements", (normal(3, 4), ints(0, 3, 2, 4)), {"axis": 0, "wrap": False})
    yield Case("gather_nd", (normal(2, 3, 4), ints(0, 2, 5, 2)), {"batch_dims": 0, "wrap": False})
    yield Case("gather_nd", (normal(2, 3, 4), ints(-3, 3, 2, 1)), {"batch_dims": 1, "wrap": True})
    yield Case("gather_nd", (normal(3, 4), arr([[1, 2], [0, 3]], I64)), {"batch_dims": 0, "wrap": False})
    for reduction in ("none", "add", "mul", "max", "min"):
        opsets = (18, 21) if reduction in ("max", "min") else (17, 18, 21)
        where = arr([[1, 0, 2], [0, 2, 1]], I64)
        yield Case(
            "scatter_elements",
            (normal(3, 3), where, normal(2, 3)),
            {"axis": 0, "reduction": reduction},
            opsets=opsets,
        )
        rows = arr([[0], [2]], I64)
        yield Case("scatter_nd", (normal(3, 4), rows, normal(2, 4)), {"reduction": reduction}, opsets=opsets)
    many = (normal(1, 1), np.zeros((37, 1), I64), normal(37, 1))
    yield Case("scatter_elements", many, {"axis": 0, "reduction": "add"})
    yield Case("one_hot", (arr([0, 2, -1, 7], I64), arr([-1.0, 5.0])), {"depth": dims(3), "axis": -1})
    yield Case("one_hot", (ints(0, 3, 2, 2), arr([0, 1], I32)), {"depth": dims(4), "axis": 1})
    yield Case("nonzero", (ints(0, 2, 3, 4).astype(F32),), {"count": dims("nonzero")})


def create() -> Iterator[Case]:
    yield Case("full", (), {"shape": dims(2, 3), "value": arr(1.5)})
    yield Case("full", (), {"shape": dims(), "value": arr(7, I64)})
    yield Case("full", (), {"shape": dims(0, 2), "value": np.asarray(True)})
    yield Case("range", (arr(2, I64), arr(3, I64)), {"count": dims(4)})
    yield Case("range", (arr(1.5), arr(-0.25)), {"count": dims(5)})
    yield Case("range", (arr(1, I32), arr(1, I32)), {"count": dims(0)})
    yield Case("positions", (), {"first": dims(3), "shape": dims(1, 5)})
    yield Case("positions", (), {"first": dims(-2), "shape": dims(4, 1, 1)})
    yield Case("positions", (), {"first": dims(7), "shape": dims(1)})
    salt = arr(12345, I32)
    drawn = "numbers of the runtime's own"
    yield Case("run_salt", (), {"framework": "gaf"}, None, drawn, draws=True)
    for dtype in (dt.F32, dt.F16, dt.BF16):
        about = {"shape": dims(3, 5), "key": 7, "dtype": dtype}
        yield Case("random_uniform", (salt,), {**about, "low": -1.0, "high": 3.0}, None, drawn, draws=True)
        yield Case("random_normal", (salt,), {**about, "mean": 0.5, "scale": 2.0}, None, drawn, draws=True)
    for k in (0, 1, -1):
        yield Case("eye", (), {"shape": dims(3, 4), "k": k, "dtype": dt.F32})
        for upper in (True, False):
            yield Case("trilu", (normal(2, 3, 4),), {"upper": upper, "k": k})
    yield Case("trilu", (bools(3, 3),), {"upper": True, "k": 0})
    yield Case("shape", (normal(2, 3, 4),), {"start": 0, "end": 3})
    yield Case("shape", (normal(2, 3, 4),), {"start": 1, "end": 2})
    yield Case("size", (normal(2, 3, 4),), {})


def conv() -> Iterator[Case]:
    def window(n: int, stride: int = 1, pad: int = 0, dilation: int = 1) -> dict[str, Any]:
        return {"strides": (stride,) * n, "pads": (pad,) * n * 2, "dilations": (dilation,) * n}

    bias = normal(4)
    yield Case("conv", (normal(2, 3, 7), normal(4, 3, 3)), {**window(1), "groups": 1}, 1e-4)
    yield Case("conv", (normal(1, 3, 5, 6), normal(4, 3, 3, 2), bias), {**window(2, 2, 1), "groups": 1}, 1e-4)
    yield Case(
        "conv", (normal(2, 4, 6, 6), normal(4, 2, 3, 3), bias), {**window(2, 1, 1, 2), "groups": 2}, 1e-4
    )
    yield Case("conv", (normal(1, 2, 3, 4, 3), normal(4, 2, 2, 2, 2)), {**window(3), "groups": 1}, 1e-4)
    extra = {"output_padding": (0, 0)}
    yield Case(
        "conv_transpose",
        (normal(1, 2, 3, 3), normal(2, 3, 2, 2)),
        {**window(2, 2), "groups": 1, **extra},
        1e-4,
    )
    yield Case(
        "conv_transpose",
        (normal(1, 2, 4), normal(2, 4, 3), bias),
        {**window(1, 2, 1), "groups": 1, "output_padding": (1,)},
        1e-4,
    )
    yield Case(
        "conv_transpose",
        (normal(1, 4, 3, 3), normal(4, 1, 3, 3)),
        {**window(2, 1, 1, 2), "groups": 2, **extra},
        1e-4,
        oracle="ort",
    )
    for ceil in (False, True):
        pool = {"kernel": (3, 2), "ceil_mode": ceil, **window(2, 2, 1)}
        yield Case("max_pool", (normal(1, 2, 6, 7),), pool)
        for whole, first in ((True, False), (True, True), (False, False)):
            flags = {"whole": whole, "columns_first": first}
            yield Case("max_pool_positions", (normal(2, 2, 6, 7),), {**pool, **flags}, oracle="ort")
        for include in (False, True):
            opsets = (22,) if ceil and include else (17, 18, 21)
            yield Case(
                "average_pool",
                (normal(1, 2, 6, 7),),
                {**pool, "count_include_pad": include},
                1e-4,
                opsets=opsets,
            )
    for mode, coordinates, rounding, sizes, scales in (
        ("nearest", "asymmetric", "floor", (10, 12), ((2, 1), (2, 1))),
        ("nearest", "half_pixel", "round_prefer_floor", (8, 4), ((8, 5), (2, 3))),
        ("nearest", "half_pixel", "ceil", (1, 9), ((1, 5), (3, 2))),
        ("nearest", "asymmetric", "round_prefer_ceil", (3, 4), ((3, 5), (2, 3))),
        ("linear", "half_pixel", "floor", (10, 9), ((2, 1), (3, 2))),
        ("linear", "align_corners", "floor", (3, 11), ((3, 5), (11, 6))),
        ("linear", "pytorch_half_pixel", "floor", (1, 4), ((1, 5), (2, 3))),
        ("cubic", "half_pixel", "floor", (10, 4), ((2, 1), (2, 3))),
    ):
        up, down = zip(*scales)
        attrs = {"mode": mode, "coordinates": coordinates, "rounding": rounding, "cubic": -0.75, "axes": (2, 3)}
        attrs |= {"sizes": sizes, "numerators": up, "denominators": down}
        yield Case("resize", (normal(1, 2, 5, 6),), attrs, 1e-4, opsets=(13, 18, 19))
    plain, wide = window(2, 2, 1), window(1, 2, 0, 2)
    yield Case("lp_pool", (normal(1, 2, 6, 7),), {"kernel": (3, 2), "ceil_mode": False, "p": 2, **plain}, 1e-4)
    yield Case("lp_pool", (normal(1, 2, 6, 7),), {"kernel": (3, 2), "ceil_mode": False, "p": 3, **plain}, 1e-4)
    yield Case("lp_pool", (normal(1, 2, 9),), {"kernel": (3,), "ceil_mode": False, "p": 1, **wide}, 1e-4, opsets=(18, 22))
    yield Case("max_pool", (normal(1, 2, 9),), {"kernel": (3,), "ceil_mode": False, **window(1, 2, 0, 2)})
    uneven = {
        "kernel": (2, 2),
        "strides": (2, 2),
        "pads": (0, 0, 1, 1),
        "dilations": (1, 1),
        "ceil_mode": True,
    }
    yield Case("average_pool", (normal(1, 1, 5, 5),), {**uneven, "count_include_pad": False}, 1e-4)


def collective() -> Iterator[Case]:
    alone = {"tolerance": None, "why_not": "no reference runs several ranks"}
    for reduce in ("sum", "mean", "max", "min", "prod"):
        yield Case("all_reduce", (normal(2, 3),), {"reduce": reduce, "ranks": 2, "group": ""}, **alone)
    yield Case("all_reduce", (normal(3, dtype=F16),), {"reduce": "sum", "ranks": 0, "group": "tp"}, **alone)
    yield Case("all_gather", (normal(2, 3),), {"axis": 1, "ranks": 4, "group": ""}, **alone)
    yield Case("reduce_scatter", (normal(4, 6),), {"reduce": "sum", "axis": -1, "ranks": 3, "group": ""}, **alone)


FAMILIES = (unary, binary, compare, casts, reduce, matmul, norm, shape, index, create, conv, collective)


def all_cases() -> list[Case]:
    return [case for family in FAMILIES for case in family()]


# Ops with dims properties, under symbols: operand dims, attributes.
Symbolic = tuple[str, Sequence[Sequence[int | str | Any]], dict[str, Any]]


def symbolic_cases() -> list[Symbolic]:
    b, s = sym("B"), sym("S")
    return [
        ("reshape", [("B", "S", 12)], {"shape": (b * s, const(12))}),
        ("assume_shape", [("B", "S", 12)], {"shape": (b, floordiv(s + 5, const(2)), const(12))}),
        ("reshape", [(b * s, 12)], {"shape": (b, s, const(12))}),
        ("reshape", [("B", "S", 12)], {"shape": (b, s, const(3), const(4))}),
        ("reshape", [("B", "S", 3, 4)], {"shape": (b, s * 12)}),
        ("reshape", [("B", "S", 12)], {"shape": (b, s * 3, const(4))}),
        ("reshape", [("B", "S")], {"shape": (s, b)}),
        ("reshape", [("B", 3, "S", 4)], {"shape": (b * 3, s, const(4))}),
        ("reshape", [(b * 3, "S", 4)], {"shape": (b, const(3), s, const(4))}),
        ("expand", [("B", 1, "S")], {"shape": (b, const(3), s)}),
        ("expand", [(1, "S")], {"shape": (b, const(1), s)}),
        ("tile", [("B", 2)], {"repeats": (s, const(2))}),
        ("slice", [(6, "S")], {"starts": dims(0, 0), "sizes": (b, s), "steps": (1, 1)}),
        ("slice", [("S", 2)], {"starts": (s - 1, const(0)), "sizes": (s, const(2)), "steps": (-1, 1)}),
        ("pad", [("S", 2)], {"before": (b, const(0)), "after": dims(0, 1), "mode": "constant", "value": 1.5}),
        ("full", [], {"shape": (b, s), "value": arr(2.0)}),
        ("range", [(), ()], {"count": (s,)}),
        ("positions", [], {"first": (b - s,), "shape": (s, const(1))}),
        ("eye", [], {"shape": (s, b), "k": 0, "dtype": dt.F32}),
        ("topk", [("B", 9)], {"k": (s,), "axis": 1, "largest": True}),
        ("concat", [("B", 2), ("B", "S"), ("B", 1)], {"axis": 1}),
        ("matmul", [("B", "S", 4), (4, 3)], {}),
        ("matmul", [("B", 2, "S", 4), ("B", 2, 4, "S")], {}),
        ("softmax", [("B", "S")], {"axes": (1,)}),
        ("safe_softmax", [("B", "S")], {"axes": (1,)}),
        ("reduce_mean", [("B", "S", 3)], {"axes": (1,), "keepdims": False}),
        ("layer_norm", [("B", "S", 4), (4,), (4,)], {"axis": -1, "epsilon": 1e-5, "stash": False}),
        ("layer_norm", [("B", "S", 4), ("S", 4)], {"axis": 1, "epsilon": 1e-5, "stash": True}),
        ("group_norm", [("B", 6, "S"), (6,), (6,)], {"num_groups": 2, "epsilon": 1e-5}),
        ("transpose", [("B", "S", 4)], {"perm": (1, 2, 0)}),
        ("flip", [("B", "S")], {"axes": (1,)}),
        ("trilu", [("S", "S")], {"upper": False, "k": 0}),
        ("add", [("B", "S", 4), ("S", 1)], {}),
        (
            "conv",
            [("B", 2, "S"), (3, 2, 2)],
            {"strides": (1,), "pads": (1, 1), "dilations": (1,), "groups": 1},
        ),
    ]
