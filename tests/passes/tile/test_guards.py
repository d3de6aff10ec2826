# SPDX-License-Identifier: Apache-2.0
"""Guarded loads through the lowering: both interpreters agree, and the printed kernels keep the machine's rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8
from gaf.dialects.common.index import Expr, const, minimum, sym
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.errors import UnsupportedError
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT
from tests.dialects.tile.kernels import parse_kernel
from tests.passes.tile.test_lower_tile import make_inputs

G, M, K, L = (sym(n) for n in "GMKL")


def padded(dtype: dt.DType, fill: float, before: int = 3, after: int = 2) -> KernelOp:
    """y = x with `before` / `after` more lanes and rows, copied as it is."""
    both = before + after
    kb = KernelBuilder(
        "padded", [("x", gm([M, K], dtype)), ("y", gm([M + both, K + both], dtype, "out"))], ["M", "K"],
        {"m": M + both, "k": K + both}, {"tm": minimum(5, M), "tk": minimum(24, K)},
    )  # fmt: skip
    row, lane = sym("m") - before, sym("k") - before
    with kb.grid([("m", "tm"), ("k", "tk")]):
        t = kb.load("x", [row, lane], ("m", "k"), where=[(row, 0, M), (lane, 0, K)], otherwise=fill)
        kb.store(t, "y", ["m", "k"])
    return kb.finish()


def concat_lanes(dtype: dt.DType = F32) -> KernelOp:
    """y = concat(x, z) along lanes, as a sum of guarded loads."""
    kb = KernelBuilder(
        "concat_lanes", [("x", gm([M, K], dtype)), ("z", gm([M, L], dtype)), ("y", gm([M, K + L], dtype, "out"))],
        ["M", "K", "L"], {"m": M, "k": K + L}, {"tm": minimum(8, M), "tk": minimum(64, K + L)},
    )  # fmt: skip
    with kb.grid([("m", "tm"), ("k", "tk")]):
        x = kb.load("x", ["m", "k"], ("m", "k"), where=[("k", 0, K)], otherwise=-0.0)
        z = kb.load("z", ["m", sym("k") - K], ("m", "k"), where=[("k", K, K + L)], otherwise=-0.0)
        kb.store(kb.cast(kb.map("add", kb.cast(x, F32), kb.cast(z, F32)), dtype), "y", ["m", "k"])
    return kb.finish()


def token(dtype: dt.DType = F32) -> KernelOp:
    """y[g] = concat(one row for every g, x[g]) along rows: a row read at stride 0, a guard on rows."""
    kb = KernelBuilder(
        "token", [("c", gm([K], dtype)), ("x", gm([G, M, K], dtype)), ("y", gm([G, M + 1, K], dtype, "out"))],
        ["G", "M", "K"], {"g": G, "m": M + 1, "k": K}, {"tm": minimum(4, M), "tk": minimum(40, K)},
    )  # fmt: skip
    row = sym("m") - 1
    with kb.grid([("g", 1), ("m", "tm"), ("k", "tk")]):
        c = kb.load("c", ["k"], ("m", "k"), where=[("m", 0, 1)], otherwise=-0.0)
        x = kb.load("x", [sym("g.lo"), row, "k"], ("m", "k"), where=[("m", 1, M + 1)], otherwise=-0.0)
        kb.store(kb.cast(kb.map("add", kb.cast(c, F32), kb.cast(x, F32)), dtype), "y", [sym("g.lo"), "m", "k"])
    return kb.finish()


def outer(dtype: dt.DType = F32) -> KernelOp:
    """y = concat(x, z) along a grid axis, with a column that exists in the middle only."""
    kb = KernelBuilder(
        "outer",
        [("x", gm([G, M, K], dtype)), ("z", gm([L, M, K], dtype)), ("c", gm([M], F32)), ("y", gm([G + L, M, K], dtype, "out"))],
        ["G", "L", "M", "K"], {"g": G + L, "m": M, "k": K}, {"tm": minimum(8, M)},
    )  # fmt: skip
    g = sym("g.lo")
    with kb.grid([("g", 1), ("m", "tm")]):
        x = kb.load("x", [g, "m", "k"], ("m", "k"), where=[(g, 0, G)], otherwise=-0.0)
        z = kb.load("z", [g - G, "m", "k"], ("m", "k"), where=[(g, G, G + L)], otherwise=-0.0)
        c = kb.load("c", ["m"], ("m",), where=[(sym("m"), 2, M - 1), (g, 1, G + L)], otherwise=1.0)
        both = kb.map("add", kb.cast(x, F32), kb.cast(z, F32))
        kb.store(kb.cast(kb.map("mul", both, c), dtype), "y", [g, "m", "k"])
    return kb.finish()


def falling(dtype: dt.DType = F32) -> KernelOp:
    """A guard whose value goes down along the axis: the lanes k with L <= K - 1 - k < K + 2."""
    kb = KernelBuilder(
        "falling", [("x", gm([M, K], dtype)), ("y", gm([M, K], dtype, "out"))], ["M", "K", "L"], {"m": M, "k": K},
        {"tm": minimum(8, M), "tk": minimum(16, K)},
    )  # fmt: skip
    with kb.grid([("m", "tm"), ("k", "tk")]):
        t = kb.load("x", ["m", "k"], ("m", "k"), where=[(K - 1 - sym("k"), L, K + 2)], otherwise=float("-inf"))
        kb.store(t, "y", ["m", "k"])
    return kb.finish()


def streamed(dtype: dt.DType = F32) -> KernelOp:
    """s = sum over k of concat(x, z) in chunks: boxes that end in the middle of a chunk, or before it."""
    kb = KernelBuilder(
        "streamed", [("x", gm([M, K], dtype)), ("z", gm([M, L], dtype)), ("s", gm([M], F32, "out"))],
        ["M", "K", "L"], {"m": M, "k": K + L}, {"tm": minimum(8, M), "tk": minimum(16, K + L)},
    )  # fmt: skip
    with kb.grid([("m", "tm")]):
        with kb.for_("k", "tk", [kb.fill(0, F32, ("m",))]) as loop:
            x = kb.load("x", ["m", "k"], ("m", "k"), where=[("k", 0, K)], otherwise=0)
            z = kb.load("z", ["m", sym("k") - K], ("m", "k"), where=[("k", K, K + L)], otherwise=0)
            part = kb.reduce("sum", kb.map("add", kb.cast(x, F32), kb.cast(z, F32)), ["k"])
            loop.yield_([kb.merge("sum", loop.carried[0], part)])
        kb.store(loop.results[0], "s", ["m"])
    return kb.finish()


KERNELS = (concat_lanes, token, outer, falling, streamed)
SIZES = [
    {"G": 2, "M": 7, "K": 13, "L": 5}, {"G": 1, "M": 1, "K": 1, "L": 1}, {"G": 3, "M": 9, "K": 64, "L": 30},
    {"G": 2, "M": 20, "K": 3, "L": 90},
]  # fmt: skip


def used(kernel: KernelOp, sizes: dict[str, int]) -> dict[str, int]:
    return {n: sizes[n] for n in kernel.symbols}


def agree(kernel: KernelOp, symbols: dict[str, int]) -> None:
    arrays = make_inputs(kernel, symbols)
    want = run_tile(kernel, arrays, symbols)
    got = run_ascendc(lower_kernel(kernel, DEFAULT), arrays, symbols)
    for name, array in want.items():
        if dt.of_numpy(array.dtype).is_float:
            np.testing.assert_allclose(got[name].astype(float), array.astype(float), rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("planned", [False, True], ids=["steps", "planned"])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_boxes_in_the_interpreter(make, dtype: dt.DType, planned: bool) -> None:  # type: ignore[no-untyped-def]
    for sizes in SIZES:
        kernel = make(dtype)
        if planned:
            bind_tiles(kernel, DEFAULT)
        agree(kernel, used(kernel, sizes))


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [(F32, 2.5), (F16, float("-inf")), (BF16, -0.0), (BOOL, 1), (I32, -7), (I64, 0), (U8, 200), (I8, -3), (I16, 9)],
    ids=str,
)
def test_pads_of_every_dtype(dtype: dt.DType, fill: float) -> None:
    for sizes in SIZES:
        agree(padded(dtype, fill), {"M": sizes["M"], "K": sizes["K"]})


@given(
    st.lists(st.tuples(st.sampled_from(["m", "k", "g"]), st.sampled_from([1, -1]), st.integers(-9, 9), st.integers(0, 25)), max_size=3),
    st.integers(1, 12), st.integers(1, 40), st.integers(1, 3), st.integers(1, 9), st.integers(1, 20),
)  # fmt: skip
@settings(deadline=None)
def test_any_ranges(ranges: list[tuple[str, int, int, int]], m: int, k: int, g: int, tm: int, tk: int) -> None:
    """Random conjunctions of ranges; the load itself is in bounds everywhere."""
    kb = KernelBuilder(
        "random", [("x", gm([G, M, K], F32)), ("y", gm([G, M, K], F32, "out"))], ["G", "M", "K"],
        {"g": G, "m": M, "k": K}, {"tm": const(tm), "tk": const(tk)},
    )  # fmt: skip
    where = []
    for axis, sign, low, count in ranges:
        name = sym("g.lo" if axis == "g" else axis)
        value: Expr = name if sign == 1 else K - name
        where.append((value, low, low + count))
    with kb.grid([("g", 1), ("m", "tm"), ("k", "tk")]):
        index = [sym("g.lo"), "m", "k"]
        t = kb.load("x", index, ("m", "k"), where=where, otherwise=3.0 if where else None)
        kb.store(t, "y", index)
    agree(kb.finish(), {"G": g, "M": m, "K": k})


HEADER = (
    "tile.kernel @f(%x: !tile.gm<[M, K], f32>, %l: !tile.gm<[M, K], i64>, %ids: !tile.gm<[M], i32>, "
    "%y: !tile.gm<[M, K], f32, out>, %z: !tile.gm<[M, K], i64, out>) symbols [M, K] axes [m = M, k = K]"
)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("%x[m, k] where [m + k in 0 to 3] else 0 : !tile.t<[m, k], f32>", "isn't a range of rows or of lanes"),
        ("%x[m, k] where [-2 * k in 0 to 3] else 0 : !tile.t<[m, k], f32>", "isn't a range of rows or of lanes"),
        ("%x[m, k] where [k in 0 to m] else 0 : !tile.t<[m, k], f32>", "isn't a range of rows or of lanes"),
        ("%x[m, k] where [k floordiv 2 in 0 to 3] else 0 : !tile.t<[m, k], f32>", "isn't a range of rows or of lanes"),
        ("%x[read ids[m], k] where [k in 0 to 3] else 0 : !tile.t<[m, k], f32>", "a gather with a guard"),
        ("%x[m, K - 1 - k] where [k in 0 to 3] else 0 : !tile.t<[m, k], f32>", "a stride of -1 elements"),
        ("%l[m, k] where [k in 0 to 3] else 1 : !tile.t<[m, k], i64>", "fills with 0 only"),
    ],
)
def test_other_guards_are_refused(load: str, message: str) -> None:
    target = "z" if "i64" in load else "y"
    kernel = parse_kernel(f"{HEADER} {{\n%t = tile.load {load}\ntile.store %t, %{target}[m, k]\n}}")
    with pytest.raises(UnsupportedError, match=message):
        lower_kernel(kernel, DEFAULT)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("mode", ["check", pytest.param("fast", marks=pytest.mark.slow)])
def test_boxes_on_the_twin(mode: str) -> None:
    jobs = []
    for i, (make, dtype) in enumerate([*((m, F16) for m in KERNELS), (padded, F32), (padded, BOOL), (padded, I32)]):
        kernel = make(dtype) if make is not padded else padded(dtype, 1)
        kernel.properties["sym_name"] = type(kernel.sym_name)(f"{kernel.sym_name.data}_{i}")
        bind_tiles(kernel, DEFAULT)
        lowered = lower_kernel(kernel, DEFAULT)
        insert_sync(lowered)
        jobs.append((kernel, lowered))
    built = build_kernels([(low.sym_name.data, print_kernel(low)) for _, low in jobs], mode=mode)
    for kernel, lowered in jobs:
        for sizes in SIZES:
            symbols = used(kernel, sizes)
            launch = HostTiling(lowered).evaluate(symbols)
            arrays = make_inputs(kernel, symbols)
            want = run_tile(kernel, arrays, symbols)
            args = [np.ascontiguousarray(arrays[n]) if n in arrays else np.zeros_like(want[n]) for n in kernel.arg_names.data]
            found = built[kernel.sym_name.data].launch(args, launch.workspace, launch.packed, launch.blocks, outputs=len(want))
            assert found.violations == [] and not found.deadlock, (kernel.sym_name.data, symbols, found.message)
            for name, array in want.items():
                got = args[kernel.arg_names.data.index(name)]
                np.testing.assert_allclose(got.astype(float), array.astype(float), rtol=1e-3, atol=1e-3, err_msg=f"{kernel.sym_name.data} {symbols}")
