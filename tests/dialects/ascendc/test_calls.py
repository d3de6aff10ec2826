# SPDX-License-Identifier: Apache-2.0
"""Every API call: its interpreter against numpy, its memory accesses, its scratch and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaf.dialects.ascendc import (
    API_OPS,
    ApiOp,
    KernelBuilder,
    KernelOp,
    copy,
    counts,
    cube,
    random,
    ranks,
    rows,
    scans,
    sync,
    vector,
)
from gaf.dialects.ascendc.api import tile
from gaf.dialects.ascendc.attributes import RoundMode
from gaf.dialects.ascendc.interpreter import interpret
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, expr, round_up
from gaf.dialects.common.scalar import FUNCTIONS

ROWS, LANES = 5, 37
"""A tile with a tail in both directions."""


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e38, 0.5, 1.5, -2.5], np.float32)
    x = (rng.normal(size=(ROWS, LANES)) * 3).astype(np.float32)
    z = x.copy()
    z.reshape(-1)[: special.size] = special
    return {
        "x": x, "y": (rng.normal(size=(ROWS, LANES)) + 4).astype(np.float32), "z": z,
        "c": rng.integers(0, 2, (ROWS, LANES)).astype(np.float32),
        "col": rng.normal(size=(1, ROWS)).astype(np.float32), "row": rng.normal(size=(1,
        LANES)).astype(np.float32),
    }  # fmt: skip


def call_kernel(
    cls: type[ApiOp],
    operands: str,
    arrays: dict[str, np.ndarray],
    shape: tuple[int, int] = (ROWS, LANES),
    scratch: tuple[dt.DType, Any] | None = None,
    inplace: bool = False,
    **params: Any,
) -> KernelOp:
    """A kernel that loads the operands (letters or names of `arrays`), calls `cls(dst, operands.., tmp)`,
    stores dst of `shape`.
    """
    names = operands.split()
    args = [(n, dt.F32, "in", arrays[n].shape) for n in dict.fromkeys(names)]
    kb = KernelBuilder("k", "aiv", [*args, ("out", dt.F32, "out", shape)])
    yq = kb.init_queue("outQueue", "vecout", 1, tile(*shape) * 4)
    values = {}
    for name in dict.fromkeys(names):
        r, c = arrays[name].shape
        queue = kb.init_queue(f"{name}Queue", "vecin", 1, round_up(tile(r, c), 8) * 4)
        values[name] = kb.load(queue, kb.arg(name), name, 0, r, c, c)
    tmp = []
    if scratch is not None:
        kind, count = scratch
        pool = kb.init_buf("pool", expr(count) * kind.bytes)
        tmp = [kb.buf_get(pool, 0, count, kind, "tmp")]
    y = kb.alloc(yq, dt.F32, "y")
    if inplace:
        kb.call(vector.AddsOp, y, values[names[0]], scalar=0.0, count=tile(*shape))
    kb.call(cls, y, *((y if inplace and i == 0 else values[n]) for i, n in enumerate(names)), *tmp, **params)
    kb.store(yq, y, kb.arg("out"), 0, *shape, shape[1])
    for name, value in values.items():
        kb.free(value.owner.queue, value)  # type: ignore[union-attr]
    return kb.finish()


def run(
    cls: type[ApiOp], operands: str, arrays: dict[str, np.ndarray], *args: Any, **params: Any
) -> np.ndarray:
    """The output of `call_kernel`."""
    return interpret(call_kernel(cls, operands, arrays, *args, **params), arrays, {})["out"]


COUNT = int(tile(ROWS, LANES).as_int() or 0)
F = np.float32
TILE = {"rows": ROWS, "lanes": LANES}
N = {"count": COUNT}
MATH = (dt.U8, lambda cls: cls.tmp_bytes(COUNT))
COMPARE = (dt.U8, counts.compare_bytes(COUNT))
COL_TMP = (dt.F32, rows.BinaryColOp.tmp_elements(ROWS))
ROW_TMP = (dt.F32, rows.RowReduceOp.tmp_elements(ROWS, LANES))
ROOT_TMP = (dt.F32, COUNT)


def case(
    cls: type[ApiOp], operands: str, want: Callable[..., Any], shape: tuple[int, int] = (ROWS, LANES),
    scratch: Any = None, **params: Any,
) -> tuple[type[ApiOp], str, Callable[..., Any], tuple[int, int], Any, dict[str, Any]]:  # fmt: skip
    return cls, operands, want, shape, scratch, params


CALLS = [
    case(vector.ExpOp, "x", np.exp, **N), case(vector.LnOp, "y", np.log, **N), case(vector.AbsOp, "z", np.abs,
    **N),
    case(vector.SqrtOp, "y", np.sqrt, **N), case(vector.ReluOp, "z", lambda x: np.maximum(x, 0), **N),
    case(vector.ReciprocalOp, "y", lambda x: 1 / x, **N), case(vector.RsqrtOp, "y", lambda x: 1 / np.sqrt(x),
    **N),
    case(vector.AddOp, "x y", np.add, **N), case(vector.SubOp, "x y", np.subtract, **N),
    case(vector.MulOp, "x y", np.multiply, **N), case(vector.DivOp, "x y", np.divide, **N),
    case(vector.MaxOp, "z x", np.maximum, **N), case(vector.MinOp, "z x", np.minimum, **N),
    case(vector.AddsOp, "x", lambda x: x + F(0.1), scalar=0.1, **N), case(vector.MulsOp, "x",
    lambda x: x * F(0.1), scalar=0.1, **N),
    case(vector.MaxsOp, "x", lambda x: np.maximum(x, F(0.1)), scalar=0.1, **N),
    case(vector.MinsOp, "x", lambda x: np.minimum(x, F(0.1)), scalar=0.1, **N),
    case(vector.LeakyReluOp, "x", lambda x: np.where(x >= 0, x, x * F(0.1)), scalar=0.1, **N),
    case(vector.DuplicateOp, "", lambda: np.full((ROWS, LANES), -np.inf, F), scalar=-math.inf, **N),
    case(vector.CreateVecIndexOp, "", lambda: np.arange(3, 3 + LANES, dtype=F)[None], (1, LANES),
    first=const(3), count=LANES),
    case(vector.CastOp, "z", np.rint, mode="rint", **N),
    *[case(counts.RoundToOp, "z", RoundMode(m).numpy, mode=m, **N) for m in ("rint", "floor", "ceil", "trunc",
    "round")],
    *[
        case(rows.BinaryColOp, "x col", lambda x, c, f=f: f(x, c.T), (ROWS, LANES), COL_TMP, op=op, **TILE)
        for op, f in {"add": np.add, "sub": np.subtract, "rsub": lambda a, b: b - a, "mul": np.multiply,
        "div": np.divide,
                      "rdiv": lambda a, b: b / a, "max": np.maximum, "min": np.minimum}.items()
    ],
    *[
        case(rows.BinaryRowOp, "x row", f, op=op, **TILE)
        for op, f in {"add": np.add, "rsub": lambda a, b: b - a, "rdiv": lambda a, b: b / a,
        "min": np.minimum}.items()
    ],
    case(rows.BroadcastColOp, "col", lambda c: np.broadcast_to(c.T, (ROWS, LANES)), (ROWS, LANES), COL_TMP,
    **TILE),
    *[
        case(rows.TakeLanesOp, "x", lambda x, p=p, n=n: x[:, np.clip((np.arange(n) * p[0] + p[1]) // p[2] + p[3], 0,
        LANES - 1)], (ROWS, n), (dt.I32, rows.TakeLanesOp.tmp_elements(n, dt.F32)), rows=ROWS, lanes=n, span=LANES,
        mul=p[0], rest=p[1], div=p[2], shift=p[3])
        for p, n in (((2, 0, 1, 0), (LANES + 1) // 2), ((3, 4, 7, -2), 2 * LANES), ((1, 0, 1, 0), LANES))
    ],
    case(rows.TransposeTileOp, "x", np.transpose, (LANES, ROWS), (dt.F32, rows.TransposeTileOp.tmp_elements(ROWS)),
    **TILE),
    case(rows.BroadcastRowOp, "row", lambda r: np.broadcast_to(r, (ROWS, LANES)), **TILE),
    *[
        case(rows.RowReduceOp, "x", lambda x, f=f: f(x.astype(float), axis=1)[None], (1, ROWS), ROW_TMP,
        mon=m, **TILE)
        for m, f in {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}.items()
    ],
    *[
        case(rows.ColReduceOp, "x", lambda x, f=f: f(x.astype(float), axis=0)[None], (1, LANES), mon=m,
        **TILE)
        for m, f in {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}.items()
    ],
    *[
        case(counts.Compare01Op, "z x", f, (ROWS, LANES), COMPARE, mode=m, **N)
        for m, f in {"lt": np.less, "gt": np.greater, "eq": np.equal, "le": np.less_equal,
        "ge": np.greater_equal,
                     "ne": np.not_equal}.items()
    ],
    case(counts.Compare01SOp, "z", lambda z: z >= F(0.5), (ROWS, LANES), COMPARE, mode="ge", scalar=0.5, **N),
    case(counts.Select01Op, "c x z", lambda c, x, z: np.where(c != 0, x, z), (ROWS, LANES), COMPARE, **N),
    case(counts.Tanh1Op, "x", np.tanh, (ROWS, LANES), MATH, **N), case(counts.Erf1Op, "x", FUNCTIONS["erf"].numpy,
    (ROWS, LANES), MATH, **N),
    case(counts.Sin1Op, "x", np.sin, (ROWS, LANES), MATH, **N), case(counts.Cos1Op, "x", np.cos, (ROWS, LANES),
    MATH, **N),
    case(counts.Tan1Op, "c", np.tan, (ROWS, LANES), MATH, **N), case(counts.Atan1Op, "x", np.arctan, (ROWS,
    LANES), MATH, **N),
    case(counts.Pow1Op, "y x", np.power, (ROWS, LANES), MATH, **N),
    case(counts.Rsqrt1Op, "y", lambda x: 1 / np.sqrt(x), (ROWS, LANES), ROOT_TMP, **N),
    case(counts.Recip1Op, "y", lambda x: 1 / x, (ROWS, LANES), ROOT_TMP, **N),
]  # fmt: skip


def call_id(entry: tuple[Any, ...]) -> str:
    params = [str(v) for k, v in entry[5].items() if k in ("op", "mon", "mode")]
    return "-".join([entry[0].name.removeprefix("ascendc."), *params])


@pytest.mark.parametrize("entry", CALLS, ids=call_id)
def test_call_computes_what_numpy_does(entry: tuple[Any, ...]) -> None:
    cls, operands, want, shape, scratch, params = entry
    if scratch is not None and callable(scratch[1]):
        scratch = (scratch[0], scratch[1](cls))
    arrays = inputs()
    got = run(cls, operands, arrays, shape, scratch, **params)
    with np.errstate(all="ignore"):
        expected = np.asarray(want(*(arrays[n] for n in operands.split())), dtype=np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


IN_PLACE = [
    e for e in CALLS if e[0].INPLACE and e[3] == (ROWS, LANES) and e[1] and e[0] is not counts.Select01Op
]


@pytest.mark.parametrize("entry", IN_PLACE, ids=call_id)
def test_call_in_place(entry: tuple[Any, ...]) -> None:
    cls, operands, want, shape, scratch, params = entry
    arrays = inputs()
    got = run(cls, operands, arrays, shape, scratch, inplace=True, **params)
    with np.errstate(all="ignore"):
        expected = np.asarray(want(*(arrays[n] for n in operands.split())), dtype=np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def cast_kernel(source: dt.DType, target: dt.DType, mode: str, as_tile: bool) -> KernelOp:
    """Load, convert, store; tiles of ROWS x LANES, or COUNT consecutive elements."""
    shape = (ROWS, LANES) if as_tile else (1, ROWS * LANES)
    kb = KernelBuilder("k", "aiv", [("x", source, "in", shape), ("y", target, "out", shape)])
    xq = kb.init_queue("x", "vecin", 1, tile(*shape, source) * source.bytes)
    yq = kb.init_queue("y", "vecout", 1, tile(*shape, target) * target.bytes)
    x = kb.load(xq, kb.arg("x"), "x", 0, *shape, shape[1])
    y = kb.alloc(yq, target, "y")
    if as_tile:
        tmp = []
        if rows.CastTileOp.needs_tmp(source, target):
            size = rows.CastTileOp.tmp_elements(source, target, *shape)
            tmp = [kb.buf_get(kb.init_buf("tmp", size * 2), 0, size, dt.F16, "tmp")]
        kb.call(rows.CastTileOp, y, x, *tmp, mode=mode, rows=shape[0], lanes=shape[1])
    else:
        kb.call(vector.CastOp, y, x, mode=mode, count=shape[1])
    kb.free(xq, x)
    kb.store(yq, y, kb.arg("y"), 0, *shape, shape[1])
    return kb.finish()


def cast_values(source: dt.DType) -> np.ndarray:
    rng = np.random.default_rng(1)
    if source.is_int:
        info = np.iinfo(source.numpy)
        low, high = max(info.min, -(2**40)), min(info.max, 2**40)
        return rng.integers(low, high, ROWS * LANES, endpoint=True).astype(source.numpy)
    values = rng.normal(size=ROWS * LANES) * 60
    values[:8] = [0.5, 1.5, -0.5, -2.5, 2.4, -2.6, 300.0, -300.0]
    return values.astype(source.numpy)


TILE_ONLY = [(dt.U8, dt.F32), (dt.I8, dt.F32), (dt.F32, dt.U8), (dt.F32, dt.I8)]
PAIRS = [(s, d, m.value, t) for (s, d), ms in vector.CAST_PAIRS.items() for m in ms for t in (False, True)]
PAIRS += [(s, d, m, True) for s, d in TILE_ONLY for m in ("rint", "floor", "ceil", "trunc")]


def directed(x: np.ndarray, target: dt.DType, mode: str) -> np.ndarray:
    """Round each number by searching the neighbourhood of the nearest representable one."""
    out = []
    for value in x.reshape(-1).astype(np.float64):
        centre = target.numpy.type(value)
        near = [
            centre,
            np.nextafter(centre, target.numpy.type(np.inf)),
            np.nextafter(centre, target.numpy.type(-np.inf)),
        ]
        if mode in ("floor", "trunc") and value >= 0 or mode == "floor":
            out.append(max((c for c in near if float(c) <= value), key=float))
        elif mode in ("ceil", "trunc"):
            out.append(min((c for c in near if float(c) >= value), key=float))
        else:
            sign = -1 if mode == "round" else 1
            out.append(
                min(
                    near,
                    key=lambda c: (abs(float(c) - value), sign * abs(float(c)) if mode == "round" else 0),
                )
            )
    return np.array(out, target.numpy).reshape(x.shape)


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda p: f"{p[0].name}-{p[1].name}-{p[2]}-{'tile' if p[3] else 'count'}"
)
def test_casts(pair: tuple[dt.DType, dt.DType, str, bool]) -> None:
    source, target, mode, as_tile = pair
    kernel = cast_kernel(source, target, mode, as_tile)
    x = cast_values(source).reshape(kernel.args[0][3][0].as_int(), -1)
    got = interpret(kernel, {"x": x}, {})["y"]
    if target.is_int:
        info = np.iinfo(target.numpy)
        whole = x.astype(object) if source.is_int else RoundMode(mode).numpy(x.astype(np.float64))
        want = np.clip(whole, info.min, info.max).astype(target.numpy)
    elif source is target:
        want = RoundMode(mode).numpy(x)
    elif mode in ("floor", "ceil", "trunc", "round"):
        want = directed(x, target, mode)
    else:
        want = x.astype(target.numpy)
    assert np.array_equal(got, want)


def test_casts_of_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**63], np.float32)
    i64, i8 = np.iinfo(np.int64), np.iinfo(np.int8)
    assert list(vector.convert(x, dt.I64, RoundMode.RINT)) == [0, i64.max, i64.min, i64.max, i64.min, i64.max]
    assert list(vector.convert(x, dt.I8, RoundMode.TRUNC)) == [0, i8.max, i8.min, i8.max, i8.min, i8.max]
    assert list(vector.convert(np.array([2049.0], np.float32), dt.F16, RoundMode.ROUND)) == [2050.0]
    assert list(vector.convert(np.array([2049.0], np.float32), dt.F16, RoundMode.RINT)) == [2048.0]


def test_gather_takes_negative_ids_and_refuses_those_outside() -> None:
    from tests.dialects.ascendc.kernels import CASES, arrays_of

    sizes = {"V": 9, "D": 5, "M": 40}
    case_ = CASES["gather_rows"]
    arrays = arrays_of(case_, sizes)
    assert (arrays["ids"] < 0).any()
    assert np.array_equal(interpret(case_.build(), arrays, sizes)["y"], arrays["table"][arrays["ids"]] * 2)
    arrays["ids"][3] = 9
    with pytest.raises(Exception, match="index 9 is outside a table of 9 rows"):
        interpret(case_.build(), arrays, sizes)


def test_load_pads_with_zeros_and_strides() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F16, "in", [64]), ("y", dt.F16, "out", [3, 16])])
    xq, yq = kb.init_queue("x", "vecin", 1, 96), kb.init_queue("y", "vecout", 1, 96)
    x = kb.load(xq, kb.arg("x"), "x", 5, 3, 7, 20)
    y = kb.alloc(yq, dt.F16, "y")
    kb.call(vector.AddsOp, y, x, scalar=1.0, count=48)
    kb.free(xq, x)
    kb.store(yq, y, kb.arg("y"), 0, 3, 16, 16)
    data = np.arange(64, dtype=np.float16)
    want = np.ones((3, 16), np.float16)
    for r in range(3):
        want[r, :7] += data[5 + 20 * r : 12 + 20 * r]
    assert np.array_equal(interpret(kb.finish(), {"x": data}, {})["y"], want)


def pad_kernel(kind: dt.DType = dt.F16) -> KernelOp:
    """Rows of 7 of 20 elements, every second block of the unified buffer left out, stored 11 apart."""
    kb = KernelBuilder("k", "aiv", [("x", kind, "in", [64]), ("y", kind, "out", [3, 11])])
    block = 32 // kind.bytes
    xq, yq = kb.init_queue("x", "vecin", 1, 160), kb.init_queue("y", "vecout", 1, 160)
    room = kb.alloc(xq, kind, "room")
    kb.call(
        copy.DataCopyPadInOp,
        room,
        kb.arg("x"),
        src_at=5,
        bursts=3,
        length=7,
        gm_gap=13 * kind.bytes,
        ub_gap=1,
    )
    kb.enque(xq, room)
    x = kb.deque(xq, kind, "x")
    y = kb.alloc(yq, kind, "y")
    kb.call(vector.DuplicateOp, y, scalar=0.0, count=5 * block)
    for r in range(3):
        source, target = kb.slice(x, 2 * r * block, block), kb.slice(y, 2 * r * block, block)
        kb.call(vector.AddsOp, target, source, scalar=1.0, count=block)
    kb.free(xq, x)
    kb.enque(yq, y)
    ready = kb.deque(yq, kind, "ready")
    for at, length in ((0, 7), (7, 4)):
        start = kb.slice(ready, 0, 5 * block) if at == 0 else kb.slice(ready, block, 4 * block)
        bursts = 3 if at == 0 else 2
        kb.call(
            copy.DataCopyPadOutOp,
            kb.arg("y"),
            start,
            dst_at=at,
            bursts=bursts,
            length=length,
            gm_gap=(11 - length) * kind.bytes,
            ub_gap=1,
        )
    kb.call(
        copy.DataCopyPadOutOp,
        kb.arg("y"),
        kb.slice(ready, block, block),
        dst_at=29,
        bursts=1,
        length=4,
        gm_gap=0,
        ub_gap=0,
    )
    kb.free(yq, ready)
    return kb.finish()


def test_raw_copies_have_gaps_on_both_sides() -> None:
    data = np.arange(64, dtype=np.float16)
    want = np.zeros((3, 11), np.float16)
    for r in range(3):
        want[r, :7] = data[5 + 20 * r : 12 + 20 * r] + 1
    assert np.array_equal(interpret(pad_kernel(), {"x": data}, {})["y"], want)


def test_raw_copies_keep_within_the_limits_of_the_instruction() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])])
    x = kb.alloc(kb.init_queue("x", "vecin", 1, 1 << 17), dt.F32, "x")
    kb.call(copy.DataCopyPadInOp, x, kb.arg("x"), src_at=0, bursts=4096, length=1, gm_gap=0, ub_gap=0)
    with pytest.raises(Exception, match="bursts; expected at most 4095, got 4096"):
        kb.finish()


@pytest.mark.parametrize("kind", [dt.F32, dt.F16, dt.BF16], ids=str)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_mmad(kind: dt.DType, ta: bool, tb: bool) -> None:
    m, n, k = 21, 40, 33
    kb = KernelBuilder("k", "aic", [("a", kind, "in", [k, m] if ta else [m, k]), ("b", kind, "in", [n,
    k] if tb else [k, n]),
                                    ("c", dt.F32, "out", [m, 48])])  # fmt: skip
    mm = kb.init_mmad("mm", kind, ta, tb, m=32, n=48)
    kb.call(
        cube.MmadRunOp,
        mm,
        kb.arg("c"),
        kb.arg("a"),
        kb.arg("b"),
        c_at=0,
        ldc=48,
        a_at=0,
        lda=m if ta else k,
        b_at=0,
        ldb=k if tb else n,
        m=m,
        n=n,
        k=k,
    )
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(kind.numpy), rng.normal(size=(k, n)).astype(kind.numpy)
    out = interpret(kb.finish(), {"a": a.T if ta else a, "b": b.T if tb else b}, {})["c"]
    np.testing.assert_allclose(out[:, :n], a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)
    assert not out[:, n:].any()


@pytest.mark.parametrize(("taps", "inner", "dilation", "stride"), [(3, 2, 1, 1), (5, 1, 2, 3), (2, 3, 3, 2)])
def test_mmad_of_windows(taps: int, inner: int, dilation: int, stride: int) -> None:
    """Rows of B start where a lookup in the image, dim by dim, finds them."""
    m, n, outer = 5, 9, 2
    lines = (taps - 1) * dilation // stride + 1
    image = np.random.default_rng(0).normal(size=(outer, inner, stride, lines, n)).astype(np.float32)
    k = outer * taps * inner
    kb = KernelBuilder("k", "aic", [("a", dt.F32, "in", [m, k]), ("b", dt.F32, "in", image.shape), ("c", dt.F32, "out", [m, 16])])
    mm = kb.init_mmad("mm", dt.F32, m=16, n=16)
    kb.call(
        cube.MmadWindowsOp, mm, kb.arg("c"), kb.arg("a"), kb.arg("b"), c_at=0, ldc=16, a_at=0, lda=k, b_at=0,
        ldb=inner * stride * lines * n, m=m, n=n, k=k, taps=taps, inner=inner, line=n, phase=lines * n,
        step=stride * lines * n, dilation=dilation, stride=stride,
    )  # fmt: skip
    a = np.random.default_rng(1).normal(size=(m, k)).astype(np.float32)
    places = [divmod(t * dilation, stride) for t in range(taps)]
    b = np.stack([image[o, i, phase, line] for o in range(outer) for line, phase in places for i in range(inner)])
    out = interpret(kb.finish(), {"a": a, "b": image}, {})["c"]
    np.testing.assert_allclose(out[:, :n], a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [dt.F32, dt.BF16, dt.U8, dt.I64], ids=lambda d: d.name)
@pytest.mark.parametrize("box", [(1, 3, 2, 4), (0, 0, 5, 37), (2, 30, 3, 7), (0, 0, 0, 0), (5, 37, 0, 0)])
def test_load_tile_box(box: tuple[int, int, int, int], kind: dt.DType) -> None:
    row0, col0, nrows, ncols = box
    fill = 0 if kind is dt.I64 else 3
    kb = KernelBuilder("k", "aiv", [("x", kind, "in", (9, 50)), ("y", kind, "out", (ROWS, LANES))])
    q = kb.init_queue("q", "vecin", 1, tile(ROWS, LANES, kind) * kind.bytes)
    out = kb.init_queue("out", "vecout", 1, tile(ROWS, LANES, kind) * kind.bytes)
    room = kb.alloc(q, kind, "room")
    kb.call(
        copy.LoadTileBoxOp, room, kb.arg("x"), src_at=7 if nrows else -100, rows=ROWS, lanes=LANES, row0=row0,
        col0=col0, nrows=nrows, ncols=ncols, stride=50, fill=fill,
    )  # fmt: skip
    kb.enque(q, room)
    ready = kb.deque(q, kind, "ready")
    words, result = tile(ROWS, LANES, kind) * kind.bytes // 4, kb.alloc(out, kind, "result")
    kb.call(vector.AddsOp, kb.reinterpret(result, dt.I32), kb.reinterpret(ready, dt.I32), scalar=0, count=words)
    kb.free(q, ready)
    kb.store(out, result, kb.arg("y"), 0, ROWS, LANES, LANES)
    x = np.arange(450).reshape(9, 50).astype(kind.numpy)
    want = np.full((ROWS, LANES), fill).astype(kind.numpy)
    for r in range(nrows):
        want[row0 + r, col0 : col0 + ncols] = x.reshape(-1)[7 + 50 * r : 7 + 50 * r + ncols]
    np.testing.assert_array_equal(interpret(kb.finish(), {"x": x}, {})["y"], want)


@pytest.mark.parametrize(
    ("cls", "want"), [(vector.AndOp, np.bitwise_and), (vector.OrOp, np.bitwise_or), (vector.NotOp, lambda a, b: ~a)]
)
def test_bits_of_words(cls: type[ApiOp], want: Callable[..., Any]) -> None:
    shape, count = (ROWS, LANES), tile(ROWS, LANES)
    kb = KernelBuilder("k", "aiv", [(n, dt.I32, "in", shape) for n in "ab"] + [("y", dt.I32, "out", shape)])
    queues = [kb.init_queue(n, "vecin", 1, count * 4) for n in "ab"]
    a, b = (kb.load(q, kb.arg(n), n, 0, *shape, LANES) for q, n in zip(queues, "ab"))
    out = kb.init_queue("out", "vecout", 1, count * 4)
    y = kb.alloc(out, dt.I32, "y")
    operands = [kb.reinterpret(v, dt.I16) for v in ((y, a) if cls is vector.NotOp else (y, a, b))]
    kb.call(cls, *operands, count=count * 2)
    kb.free(queues[0], a)
    kb.free(queues[1], b)
    kb.store(out, y, kb.arg("y"), 0, *shape, LANES)
    rng = np.random.default_rng(0)
    x, z = (rng.integers(-(2**31), 2**31, shape).astype(np.int32) for _ in range(2))
    np.testing.assert_array_equal(interpret(kb.finish(), {"a": x, "b": z}, {})["y"], want(x, z))


def test_every_call_is_tested() -> None:
    tested = {e[0] for e in CALLS} | {
        vector.AndOp,
        vector.OrOp,
        vector.NotOp,
        copy.LoadTileOp,
        copy.LoadTileBoxOp,
        copy.StoreTileOp,
        copy.GatherTileOp,
        copy.DataCopyPadInOp,
        copy.DataCopyPadOutOp,
        rows.CastTileOp,
        cube.MmadRunOp,
        cube.MmadWindowsOp,
        cube.ReleaseMmadOp,  # tests/passes/tile/test_kept_left.py
        cube.SetHf32Op,  # tests/runtime/test_hf32.py
        random.Random24Op,  # tests/runtime/test_random.py
        *ranks.OPS,  # tests/runtime/test_ordered_rows.py
        *scans.OPS,  # tests/runtime/test_scans.py
    }
    assert set(API_OPS) - tested == set(sync.OPS), "calls of the unit sync are tested in test_interpreter.py"


def test_scratch_equals_the_device_library() -> None:
    """Sizes by the formulas of gaf_vector.h, written out again here."""
    for n in (0, 1, 63, 64, 255, 256, 257, 2047, 2048, 2049, 5000):
        assert counts.compare_bytes(n).as_int() == -(-(-(-n // 256) * 32) // 32) * 32 + 2048
        assert counts.Erf1Op.tmp_bytes(n).as_int() == 3 * -(-min(max(n, 1), 2048) // 64) * 64 * 4


def test_cost_grows_with_the_work() -> None:
    kb = KernelBuilder("k", "aiv", [])
    a = kb.buf_get(kb.init_buf("pool", 1 << 16), 0, 1 << 14, dt.F32, "a")
    small, large = (vector.AddOp(a, a, a, count=n) for n in (64, 64 * 256))
    assert small.cycles({}) == pytest.approx(23.22 + 64 * 0.0206)
    assert large.cycles({}) == pytest.approx(23.22 + 64 * 256 * 0.0206)
    free = [c.name for c in API_OPS if c.cost is ApiOp.cost]
    assert sorted(free) == [
        "ascendc.cross_core_set_flag",
        "ascendc.cross_core_wait_flag",
        "ascendc.release_mmad",
        "ascendc.set_flag",
        "ascendc.set_hf32",
        "ascendc.sync_all",
        "ascendc.wait_flag",
    ]  # no published figures
