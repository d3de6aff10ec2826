# SPDX-License-Identifier: Apache-2.0
"""Six kernels written with the builder: what tests of the dialect, interpreter and printer run on.

Each function returns a verified kernel without barriers; `reference` computes the same in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gaf.dialects.ascendc import KernelBuilder, KernelOp, counts, rows, vector
from gaf.dialects.ascendc.api import tile
from gaf.dialects.ascendc.copy import GatherTileOp
from gaf.dialects.ascendc.cube import MmadRunOp
from gaf.dialects.ascendc.sync import CrossCoreSetFlagOp, CrossCoreWaitFlagOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import ceildiv, expr, maximum, minimum, round_up, sym
from gaf.dialects.common.scalar import FUNCTIONS

CORES = 40
CUBES = 20


def elementwise() -> KernelOp:
    """y = gelu_erf(x + b) over rows of x, b broadcast over rows; f16."""
    kb = KernelBuilder(
        "bias_gelu", "aiv",
        [("x", dt.F16, "in", ["M", "N"]), ("b", dt.F16, "in", ["N"]), ("y", dt.F16, "out", ["M", "N"])],
        symbols=["M", "N"], tiling=[("M", "M"), ("N", "N"), ("tm", minimum(16, "M"))],
        blocks=minimum(CORES, ceildiv("M", 16)), members=["ffn/Add_1", "ffn/Gelu_2"],
    )  # fmt: skip
    m, n, tm = sym("M"), sym("N"), sym("tm")
    size, row = tile(tm, n), tile(1, n)
    xq = kb.init_queue("x", "vecin", 2, tile(tm, n, dt.F16) * 2)
    bq = kb.init_queue("b", "vecin", 1, tile(1, n, dt.F16) * 2)
    yq = kb.init_queue("y", "vecout", 2, tile(tm, n, dt.F16) * 2)
    erf = counts.Erf1Op.tmp_bytes(size)
    pool = kb.init_buf("pool", size * 8 + row * 4 + erf)
    f = kb.buf_get(pool, 0, size, dt.F32, "sum")
    g = kb.buf_get(pool, size * 4, size, dt.F32, "erf")
    bias = kb.buf_get(pool, size * 8, row, dt.F32, "bias")
    tmp = kb.buf_get(pool, size * 8 + row * 4, erf, dt.U8, "tmp")
    half = kb.load(bq, kb.arg("b"), "biasHalf", 0, 1, n, n)
    kb.call(rows.CastTileOp, bias, half, mode="none", rows=1, lanes=n)
    kb.free(bq, half)
    with kb.for_("i", "block", ceildiv(m, tm), "blocks") as i:
        m0 = kb.let("m0", i * tm)
        r = kb.let("rows", minimum(tm, m - m0))
        count = kb.let("count", tile(r, n))
        x = kb.load(xq, kb.arg("x"), "xHalf", m0 * n, r, n, n)
        kb.node("ffn/Add_1")
        kb.call(rows.CastTileOp, f, x, mode="none", rows=r, lanes=n)
        kb.free(xq, x)
        kb.call(rows.BinaryRowOp, f, f, bias, op="add", rows=r, lanes=n)
        kb.node("ffn/Gelu_2", "x / 2 * (1 + erf(x / sqrt(2)))")
        kb.call(vector.MulsOp, f, f, scalar=float(np.sqrt(np.float32(0.5))), count=count)
        kb.call(counts.Erf1Op, g, f, tmp, count=count)
        kb.call(vector.AddsOp, g, g, scalar=1.0, count=count)
        kb.call(vector.MulsOp, f, f, scalar=float(np.sqrt(np.float32(0.5))), count=count)
        kb.call(vector.MulOp, f, f, g, count=count)
        y = kb.alloc(yq, dt.F16, "yHalf")
        kb.call(rows.CastTileOp, y, f, mode="rint", rows=r, lanes=n)
        kb.store(yq, y, kb.arg("y"), m0 * n, r, n, n)
    return kb.finish()


def softmax() -> KernelOp:
    """Softmax of rows that fit one tile; f32."""
    kb = KernelBuilder(
        "softmax", "aiv", [("x", dt.F32, "in", ["M", "K"]), ("y", dt.F32, "out", ["M", "K"])],
        symbols=["M", "K"], tiling=[("M", "M"), ("K", "K"), ("tm", minimum(8, "M"))],
        guards=[expr(4096) - "K"], blocks=minimum(CORES, ceildiv("M", 8)), members=["attn/Softmax_7"],
    )  # fmt: skip
    m, k, tm = sym("M"), sym("K"), sym("tm")
    size, column = tile(tm, k), round_up(tm, 8)
    xq = kb.init_queue("x", "vecin", 2, size * 4)
    yq = kb.init_queue("y", "vecout", 2, size * 4)
    scratch = rows.RowReduceOp.tmp_elements(tm, k)
    pool = kb.init_buf("pool", size * 4 + column * 4 + scratch * 4)
    e = kb.buf_get(pool, 0, size, dt.F32, "e")
    col = kb.buf_get(pool, size * 4, column, dt.F32, "col")
    tmp = kb.buf_get(pool, size * 4 + column * 4, scratch, dt.F32, "tmp")
    with kb.for_("i", "block", ceildiv(m, tm), "blocks") as i:
        m0 = kb.let("m0", i * tm)
        r = kb.let("rows", minimum(tm, m - m0))
        box = {"rows": r, "lanes": k}
        x = kb.load(xq, kb.arg("x"), "xTile", m0 * k, r, k, k)
        kb.node("attn/Softmax_7")
        kb.call(rows.RowReduceOp, col, x, tmp, mon="max", **box)
        kb.call(rows.BinaryColOp, e, x, col, tmp, op="sub", **box)
        kb.free(xq, x)
        kb.call(vector.ExpOp, e, e, count=tile(r, k))
        kb.call(rows.RowReduceOp, col, e, tmp, mon="sum", **box)
        y = kb.alloc(yq, dt.F32, "yTile")
        kb.call(rows.BinaryColOp, y, e, col, tmp, op="div", **box)
        kb.store(yq, y, kb.arg("y"), m0 * k, r, k, k)
    return kb.finish()


def layer_norm() -> KernelOp:
    """(x - mean) / sqrt(var + 1e-5) * gamma + beta over rows; bf16 in and out, f32 parameters."""
    kb = KernelBuilder(
        "layer_norm", "aiv",
        [("x", dt.BF16, "in", ["M", "K"]), ("gamma", dt.F32, "in", ["K"]), ("beta", dt.F32, "in", ["K"]),
         ("y", dt.BF16, "out", ["M", "K"])],
        symbols=["M", "K"], tiling=[("M", "M"), ("K", "K"), ("tm", minimum(8, "M"))],
        blocks=minimum(CORES, ceildiv("M", 8)), members=["block/LayerNorm_3"],
    )  # fmt: skip
    m, k, tm = sym("M"), sym("K"), sym("tm")
    size, column, row = tile(tm, k), round_up(tm, 8), tile(1, k)
    xq = kb.init_queue("x", "vecin", 2, tile(tm, k, dt.BF16) * 2)
    gq = kb.init_queue("gamma", "vecin", 1, row * 4)
    bq = kb.init_queue("beta", "vecin", 1, row * 4)
    yq = kb.init_queue("y", "vecout", 2, tile(tm, k, dt.BF16) * 2)
    scratch = rows.RowReduceOp.tmp_elements(tm, k)
    pool = kb.init_buf("pool", size * 8 + column * 12 + scratch * 4)
    c = kb.buf_get(pool, 0, size, dt.F32, "centred")
    sq = kb.buf_get(pool, size * 4, size, dt.F32, "square")
    mean = kb.buf_get(pool, size * 8, column, dt.F32, "mean")
    var = kb.buf_get(pool, size * 8 + column * 4, column, dt.F32, "var")
    root = kb.buf_get(pool, size * 8 + column * 8, column, dt.F32, "root")
    tmp = kb.buf_get(pool, size * 8 + column * 12, scratch, dt.F32, "tmp")
    gamma = kb.load(gq, kb.arg("gamma"), "gammaRow", 0, 1, k, k)
    beta = kb.load(bq, kb.arg("beta"), "betaRow", 0, 1, k, k)
    with kb.for_("i", "block", ceildiv(m, tm), "blocks") as i:
        m0 = kb.let("m0", i * tm)
        r = kb.let("rows", minimum(tm, m - m0))
        box = {"rows": r, "lanes": k}
        cols = round_up(r, 8)
        x = kb.load(xq, kb.arg("x"), "xTile", m0 * k, r, k, k)
        kb.node("block/LayerNorm_3", "mean and variance of the rows")
        kb.call(rows.CastTileOp, c, x, mode="none", **box)
        kb.free(xq, x)
        kb.call(rows.RowReduceOp, mean, c, tmp, mon="sum", **box)
        kb.call(vector.DuplicateOp, root, scalar=sym("K"), count=cols)
        kb.call(vector.DivOp, mean, mean, root, count=cols)
        kb.call(rows.BinaryColOp, c, c, mean, tmp, op="sub", **box)
        kb.call(vector.MulOp, sq, c, c, count=tile(r, k))
        kb.call(rows.RowReduceOp, var, sq, tmp, mon="sum", **box)
        kb.call(vector.DivOp, var, var, root, count=cols)
        kb.call(vector.AddsOp, var, var, scalar=1e-5, count=cols)
        kb.call(counts.Rsqrt1Op, var, var, root, count=cols)
        kb.node("block/LayerNorm_3", "scale and shift")
        kb.call(rows.BinaryColOp, c, c, var, tmp, op="mul", **box)
        kb.call(rows.BinaryRowOp, c, c, gamma, op="mul", **box)
        kb.call(rows.BinaryRowOp, c, c, beta, op="add", **box)
        y = kb.alloc(yq, dt.BF16, "yTile")
        kb.call(rows.CastTileOp, y, c, mode="rint", **box)
        kb.store(yq, y, kb.arg("y"), m0 * k, r, k, k)
    kb.free(gq, gamma)
    kb.free(bq, beta)
    return kb.finish()


def gather() -> KernelOp:
    """y[i] = table[ids[i]] * 2; i64 ids, f32 table."""
    kb = KernelBuilder(
        "gather_rows", "aiv",
        [("table", dt.F32, "in", ["V", "D"]), ("ids", dt.I64, "in", ["M"]), ("y", dt.F32, "out", ["M", "D"])],
        symbols=["V", "D", "M"], tiling=[("V", "V"), ("D", "D"), ("M", "M"), ("tm", minimum(32, "M"))],
        blocks=minimum(CORES, ceildiv("M", 32)), members=["embed/Gather_0", "embed/Mul_1"],
    )  # fmt: skip
    v, d, m, tm = sym("V"), sym("D"), sym("M"), sym("tm")
    tq = kb.init_queue("rows", "vecin", 2, tile(tm, d) * 4)
    yq = kb.init_queue("y", "vecout", 2, tile(tm, d) * 4)
    with kb.for_("i", "block", ceildiv(m, tm), "blocks") as i:
        m0 = kb.let("m0", i * tm)
        r = kb.let("count", minimum(tm, m - m0))
        kb.node("embed/Gather_0")
        room = kb.alloc(tq, dt.F32, "rowsIn")
        kb.call(
            GatherTileOp,
            room,
            kb.arg("table"),
            kb.arg("ids"),
            table_at=0,
            ids_at=m0,
            rows=r,
            lanes=d,
            id_stride=1,
            table_stride=d,
            table_rows=v,
        )
        kb.enque(tq, room)
        x = kb.deque(tq, dt.F32, "rowsTile")
        kb.node("embed/Mul_1")
        y = kb.alloc(yq, dt.F32, "yTile")
        kb.call(vector.MulsOp, y, x, scalar=2.0, count=tile(r, d))
        kb.free(tq, x)
        kb.store(yq, y, kb.arg("y"), m0 * d, r, d, d)
    return kb.finish()


def _matmul_head(kb: KernelBuilder, tm: int, tn: int) -> tuple:
    m, n, k = sym("M"), sym("N"), sym("K")
    ring = kb.workspace("ring", sym("block") * (2 * tm * tn * 4), dt.F32)
    return m, n, k, ring


def matmul_epilogue() -> KernelOp:
    """y = relu(a @ b^T + bias), tiles of 64 x 64 through a two-slot ring; f16."""
    tm = tn = 64
    kb = KernelBuilder(
        "matmul_bias_relu", "mix",
        [("a", dt.F16, "in", ["M", "K"]), ("b", dt.F16, "in", ["N", "K"]), ("bias", dt.F32, "in", ["N"]),
         ("y", dt.F16, "out", ["M", "N"])],
        symbols=["M", "N", "K"],
        tiling=[("M", "M"), ("N", "N"), ("K", "K"), ("tilesN", ceildiv("N", tn)), ("tiles", ceildiv("M",
        tm) * ceildiv("N", tn))],
        blocks=minimum(CUBES, "tiles"), workspace=expr(CUBES * 2 * tm * tn * 4), members=["ffn/MatMul_4",
        "ffn/Add_5", "ffn/Relu_6"],
    )  # fmt: skip
    m, n, k, ring = _matmul_head(kb, tm, tn)
    rounds = kb.let("rounds", maximum(0, ceildiv(sym("tiles") - "block", "blocks")))
    with kb.section("aic"):
        mm = kb.init_mmad("mm", dt.F16, False, True, m=tm, n=tn)
        with kb.for_("it", 0, rounds) as it:
            t = kb.let("tile", sym("block") + it * "blocks")
            m0, n0 = kb.let("m0", t // "tilesN" * tm), kb.let("n0", t % "tilesN" * tn)
            slot = kb.let("slot", it % 2)
            with kb.if_(it, "ge", 2):
                kb.call(CrossCoreWaitFlagOp, flag=slot + 2)
            kb.node("ffn/MatMul_4")
            kb.call(
                MmadRunOp,
                mm,
                ring,
                kb.arg("a"),
                kb.arg("b"),
                c_at=slot * (tm * tn),
                ldc=tn,
                a_at=m0 * k,
                lda=k,
                b_at=n0 * k,
                ldb=k,
                m=minimum(tm, m - m0),
                n=minimum(tn, n - n0),
                k=k,
            )
            kb.call(CrossCoreSetFlagOp, flag=slot, pipe="FIX")
        with kb.for_("left", maximum(0, rounds - 2), rounds) as left:
            kb.call(CrossCoreWaitFlagOp, flag=left % 2 + 2)
    with kb.section("aiv"):
        size = tile(tm // 2, tn)
        cq = kb.init_queue("c", "vecin", 2, size * 4)
        bq = kb.init_queue("bias", "vecin", 2, tile(1, tn) * 4)
        yq = kb.init_queue("y", "vecout", 2, tile(tm // 2, tn, dt.F16) * 2)
        pool = kb.init_buf("pool", size * 4)
        s = kb.buf_get(pool, 0, size, dt.F32, "sum")
        with kb.for_("it", 0, rounds) as it:
            t = kb.let("tile", sym("block") + it * "blocks")
            m0, n0 = kb.let("m0", t // "tilesN" * tm), kb.let("n0", t % "tilesN" * tn)
            slot = kb.let("slot", it % 2)
            first = kb.let("first", sym("sub") * (tm // 2))
            r = kb.let("rows", maximum(0, minimum(tm // 2, m - m0 - first)))
            c = kb.let("cols", minimum(tn, n - n0))
            kb.call(CrossCoreWaitFlagOp, flag=slot)
            with kb.if_(r, "gt", 0):
                acc = kb.load(cq, ring, "acc", (slot * tm + first) * tn, r, c, tn)
                bias = kb.load(bq, kb.arg("bias"), "biasRow", n0, 1, c, c)
                kb.node("ffn/Add_5")
                kb.call(rows.BinaryRowOp, s, acc, bias, op="add", rows=r, lanes=c)
                kb.free(cq, acc)
                kb.free(bq, bias)
                kb.node("ffn/Relu_6")
                kb.call(vector.ReluOp, s, s, count=tile(r, c))
                y = kb.alloc(yq, dt.F16, "yTile")
                kb.call(rows.CastTileOp, y, s, mode="rint", rows=r, lanes=c)
                kb.store(yq, y, kb.arg("y"), (m0 + first) * n + n0, r, c, n)
            kb.call(CrossCoreSetFlagOp, flag=slot + 2, pipe="MTE2")
    return kb.finish()


def matmul_norm() -> KernelOp:
    """y = rms_norm(a @ b) over complete rows of 32 x N blocks in a two-slot ring; f32."""
    tm, tn = 32, 128
    pitch = round_up("N", tn)
    kb = KernelBuilder(
        "matmul_rms_norm", "mix",
        [("a", dt.F32, "in", ["M", "K"]), ("b", dt.F32, "in", ["K", "N"]), ("y", dt.F32, "out", ["M", "N"])],
        symbols=["M", "N", "K"],
        tiling=[("M", "M"), ("N", "N"), ("K", "K"), ("ldc", pitch), ("tiles", ceildiv("M", tm))],
        blocks=minimum(CUBES, "tiles"), workspace=sym("ldc") * (CUBES * 2 * tm * 4), members=["head/MatMul_0",
        "head/RMSNorm_1"],
    )  # fmt: skip
    m, n, k, ldc = sym("M"), sym("N"), sym("K"), sym("ldc")
    ring = kb.workspace("ring", sym("block") * ldc * (2 * tm * 4), dt.F32)
    rounds = kb.let("rounds", maximum(0, ceildiv(sym("tiles") - "block", "blocks")))
    with kb.section("aic"):
        mm = kb.init_mmad("mm", dt.F32, m=tm, n=tn)
        with kb.for_("it", 0, rounds) as it:
            m0, slot = kb.let("m0", (sym("block") + it * "blocks") * tm), kb.let("slot", it % 2)
            with kb.if_(it, "ge", 2):
                kb.call(CrossCoreWaitFlagOp, flag=slot + 2)
            kb.node("head/MatMul_0")
            with kb.for_("n0", 0, n, tn) as n0:
                kb.call(
                    MmadRunOp,
                    mm,
                    ring,
                    kb.arg("a"),
                    kb.arg("b"),
                    c_at=slot * tm * ldc + n0,
                    ldc=ldc,
                    a_at=m0 * k,
                    lda=k,
                    b_at=n0,
                    ldb=n,
                    m=minimum(tm, m - m0),
                    n=minimum(tn, n - n0),
                    k=k,
                )
            kb.call(CrossCoreSetFlagOp, flag=slot, pipe="FIX")
        with kb.for_("left", maximum(0, rounds - 2), rounds) as left:
            kb.call(CrossCoreWaitFlagOp, flag=left % 2 + 2)
    with kb.section("aiv"):
        step = 8
        size = tile(step, n)
        cq = kb.init_queue("c", "vecin", 2, size * 4)
        yq = kb.init_queue("y", "vecout", 1, size * 4)
        scratch = rows.RowReduceOp.tmp_elements(step, n)
        pool = kb.init_buf("pool", size * 4 + 64 + scratch * 4)
        sq = kb.buf_get(pool, 0, size, dt.F32, "square")
        col = kb.buf_get(pool, size * 4, 8, dt.F32, "norm")
        den = kb.buf_get(pool, size * 4 + 32, 8, dt.F32, "den")
        tmp = kb.buf_get(pool, size * 4 + 64, scratch, dt.F32, "tmp")
        with kb.for_("it", 0, rounds) as it:
            m0, slot = kb.let("m0", (sym("block") + it * "blocks") * tm), kb.let("slot", it % 2)
            lo = kb.let("lo", sym("sub") * (tm // 2))
            hi = kb.let("hi", minimum(lo + tm // 2, m - m0))
            kb.call(CrossCoreWaitFlagOp, flag=slot)
            with kb.for_("r0", lo, hi, step) as r0:
                r = kb.let("rows", minimum(step, hi - r0))
                box = {"rows": r, "lanes": n}
                acc = kb.load(cq, ring, "acc", (slot * tm + r0) * ldc, r, n, ldc)
                kb.node("head/RMSNorm_1")
                kb.call(vector.MulOp, sq, acc, acc, count=tile(r, n))
                kb.call(rows.RowReduceOp, col, sq, tmp, mon="sum", **box)
                kb.call(vector.DuplicateOp, den, scalar=n, count=8)
                kb.call(vector.DivOp, col, col, den, count=8)
                kb.call(vector.AddsOp, col, col, scalar=1e-6, count=8)
                kb.call(counts.Rsqrt1Op, col, col, den, count=8)
                y = kb.alloc(yq, dt.F32, "yTile")
                kb.call(rows.BinaryColOp, y, acc, col, tmp, op="mul", **box)
                kb.free(cq, acc)
                kb.store(yq, y, kb.arg("y"), (m0 + r0) * n, r, n, n)
            kb.call(CrossCoreSetFlagOp, flag=slot + 2, pipe="MTE2")
    return kb.finish()


@dataclass(frozen=True)
class Case:
    """A kernel, inputs for given sizes, and the expected outputs in float64."""

    build: Callable[[], KernelOp]
    inputs: Callable[[np.random.Generator, dict[str, int]], dict[str, np.ndarray]]
    reference: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    sizes: tuple[dict[str, int], ...]
    tolerance: float


def _normal(rng: np.random.Generator, dtype: dt.DType, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype.numpy)


def _wide(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {k: v.astype(np.float64) if dt.of_numpy(v.dtype).is_float else v for k, v in arrays.items()}


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + FUNCTIONS["erf"].numpy(x / np.sqrt(2)))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta


def _rms(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)


CASES: dict[str, Case] = {
    "bias_gelu": Case(
        elementwise, lambda g, s: {"x": _normal(g, dt.F16, s["M"], s["N"]), "b": _normal(g, dt.F16, s["N"])},
        lambda a: {"y": _gelu(a["x"] + a["b"])},
        ({"M": 1, "N": 1}, {"M": 50, "N": 37}, {"M": 700, "N": 64}), 2e-3,
    ),
    "softmax": Case(
        softmax, lambda g, s: {"x": _normal(g, dt.F32, s["M"], s["K"])}, lambda a: {"y": _softmax(a["x"])},
        ({"M": 1, "K": 1}, {"M": 27, "K": 131}, {"M": 400, "K": 64}), 1e-6,
    ),
    "layer_norm": Case(
        layer_norm,
        lambda g, s: {"x": _normal(g, dt.BF16, s["M"], s["K"]), "gamma": _normal(g, dt.F32, s["K"]),
        "beta": _normal(g, dt.F32, s["K"])},
        lambda a: {"y": _norm(a["x"], a["gamma"], a["beta"])},
        ({"M": 1, "K": 2}, {"M": 27, "K": 131}, {"M": 400, "K": 64}), 2e-2,
    ),
    "gather_rows": Case(
        gather,
        lambda g, s: {"table": _normal(g, dt.F32, s["V"], s["D"]), "ids": g.integers(-s["V"], s["V"],
        s["M"])},
        lambda a: {"y": a["table"][a["ids"]] * 2},
        ({"V": 1, "D": 1, "M": 1}, {"V": 50, "D": 19, "M": 70}), 1e-6,
    ),
    "matmul_bias_relu": Case(
        matmul_epilogue,
        lambda g, s: {"a": _normal(g, dt.F16, s["M"], s["K"]), "b": _normal(g, dt.F16, s["N"], s["K"]),
        "bias": _normal(g, dt.F32, s["N"])},
        lambda a: {"y": np.maximum(a["a"] @ a["b"].T + a["bias"], 0)},
        ({"M": 1, "N": 1, "K": 1}, {"M": 100, "N": 90, "K": 70}, {"M": 500, "N": 400, "K": 33}), 2e-3,
    ),
    "matmul_rms_norm": Case(
        matmul_norm,
        lambda g, s: {"a": _normal(g, dt.F32, s["M"], s["K"]), "b": _normal(g, dt.F32, s["K"], s["N"])},
        lambda a: {"y": _rms(a["a"] @ a["b"])},
        ({"M": 1, "N": 1, "K": 1}, {"M": 100, "N": 300, "K": 70}, {"M": 1400, "N": 40, "K": 20}), 2e-5,
    ),
}  # fmt: skip


def arrays_of(case: Case, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of a case."""
    return case.inputs(np.random.default_rng(seed), sizes)


def expected(case: Case, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a case in float64."""
    return case.reference(_wide(arrays))
