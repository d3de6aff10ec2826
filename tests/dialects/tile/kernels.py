# SPDX-License-Identifier: Apache-2.0
"""Tile kernels that several tests share, written with the builder, and text helpers."""

from __future__ import annotations

import io

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr, ExprAttr, ShapeAttr
from gaf.dialects.common.dtype import BOOL, F32, I32, I64
from gaf.dialects.common.index import ceildiv, minimum, read, sym
from gaf.dialects.tile import Tile
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.structure import KernelOp


def context() -> Context:
    """A context with the tile dialect and the attributes that all dialects share."""
    ctx = Context()
    for dialect in (Builtin, Dialect("graph", [], [ExprAttr, ShapeAttr, ArrayAttr]), Tile):
        ctx.load_dialect(dialect)
    return ctx


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


def parse_kernel(text: str) -> KernelOp:
    (kernel,) = parse(text).ops
    assert isinstance(kernel, KernelOp)
    kernel.verify()
    return kernel


def to_text(op: Operation, generic: bool = False) -> str:
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic).print_op(op)
    return stream.getvalue()


def elementwise(dtype: dt.DType = F32) -> KernelOp:
    """y = gelu(x * gamma + c) + r, with gamma a row, c a column and r a full operand."""
    kb = KernelBuilder(
        "elementwise",
        [
            ("x", gm(["M", "K"], dtype)),
            ("gamma", gm(["K"], dtype)),
            ("c", gm(["M"], dtype)),
            ("r", gm(["M", "K"], dtype)),
            ("y", gm(["M", "K"], dtype, "out")),
        ],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M"), "tk": minimum(64, "K")},
    )
    with kb.grid([("m", "tm"), ("k", "tk")]):
        x = kb.cast(kb.load("x", ["m", "k"], ("m", "k")), F32)
        gamma = kb.cast(kb.load("gamma", ["k"], ("k",)), F32)
        c = kb.cast(kb.load("c", ["m"], ("m",)), F32)
        r = kb.cast(kb.load("r", ["m", "k"], ("m", "k")), F32)
        z = kb.map("add", kb.map("mul", x, gamma), c)
        e = kb.map("erf", kb.map("mul", z, kb.fill(0.5**0.5, F32)))
        g = kb.map("mul", kb.map("mul", z, kb.fill(0.5, F32)), kb.map("add", e, kb.fill(1.0, F32)))
        kb.store(kb.cast(kb.map("add", g, r), dtype), "y", ["m", "k"])
    return kb.finish()


def softmax(dtype: dt.DType = F32) -> KernelOp:
    """Softmax along K with whole rows on chip."""
    kb = KernelBuilder(
        "softmax",
        [("x", gm(["M", "K"], dtype)), ("y", gm(["M", "K"], dtype, "out"))],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M")},
    )
    with kb.grid([("m", "tm")]):
        x = kb.cast(kb.load("x", ["m", "k"], ("m", "k")), F32)
        e = kb.map("exp", kb.map("sub", x, kb.reduce("max", x, ["k"])))
        y = kb.map("div", e, kb.reduce("sum", e, ["k"]))
        kb.store(kb.cast(y, dtype), "y", ["m", "k"])
    return kb.finish()


def streamed_softmax(dtype: dt.DType = F32) -> KernelOp:
    """Softmax along K in chunks: maximum, sum of exponentials, and the output are three passes over the row."""
    kb = KernelBuilder(
        "streamed_softmax",
        [("x", gm(["M", "K"], dtype)), ("y", gm(["M", "K"], dtype, "out"))],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M"), "tk": minimum(64, "K")},
    )

    def load() -> SSAValue:
        return kb.cast(kb.load("x", ["m", "k"], ("m", "k"), buffers=2), F32)

    with kb.grid([("m", "tm")]):
        with kb.for_("k", "tk", [kb.fill(float("-inf"), F32, ("m",))]) as top:
            top.yield_([kb.merge("max", top.carried[0], kb.reduce("max", load(), ["k"]))])
        (peak,) = top.results
        with kb.for_("k", "tk", [kb.fill(0, F32, ("m",))]) as total:
            e = kb.map("exp", kb.map("sub", load(), peak))
            total.yield_([kb.merge("sum", total.carried[0], kb.reduce("sum", e, ["k"]))])
        (norm,) = total.results
        with kb.for_("k", "tk") as _:
            e = kb.map("exp", kb.map("sub", load(), peak))
            kb.store(kb.cast(kb.map("div", e, norm), dtype), "y", ["m", "k"])
    return kb.finish()


def layer_norm(
    kb: KernelBuilder, x: SSAValue, gamma: SSAValue, beta: SSAValue, axis: str, size: str
) -> SSAValue:
    """(x - mean) / sqrt(var + 1e-5) * gamma + beta along one axis, with the count as index data."""
    count = kb.cast(kb.index(sym(size), ()), F32)
    mean = kb.map("div", kb.reduce("sum", x, [axis]), count)
    d = kb.map("sub", x, mean)
    var = kb.map("div", kb.reduce("sum", kb.map("mul", d, d), [axis]), count)
    r = kb.map("rsqrt", kb.map("add", var, kb.fill(1e-5, F32)))
    return kb.map("add", kb.map("mul", kb.map("mul", d, r), gamma), beta)


def layernorm(dtype: dt.DType = F32) -> KernelOp:
    """LayerNorm of rows with gamma and beta."""
    kb = KernelBuilder(
        "layernorm",
        [
            ("x", gm(["M", "K"], dtype)),
            ("gamma", gm(["K"], dtype)),
            ("beta", gm(["K"], dtype)),
            ("y", gm(["M", "K"], dtype, "out")),
        ],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M")},
    )
    with kb.grid([("m", "tm")]):
        with kb.at("block/LayerNorm_0"):
            x = kb.cast(kb.load("x", ["m", "k"], ("m", "k")), F32)
            gamma = kb.cast(kb.load("gamma", ["k"], ("k",)), F32)
            beta = kb.cast(kb.load("beta", ["k"], ("k",)), F32)
            y = layer_norm(kb, x, gamma, beta, "k", "K")
            kb.store(kb.cast(y, dtype), "y", ["m", "k"])
    return kb.finish()


def column_sum(dtype: dt.DType = F32) -> KernelOp:
    """y[n] = sum over r: columns are shared out to cores, rows are streamed."""
    kb = KernelBuilder(
        "column_sum",
        [("x", gm(["R", "N"], dtype)), ("y", gm(["N"], dtype, "out"))],
        symbols=["R", "N"],
        axes={"r": "R", "n": "N"},
        params={"tn": minimum(64, "N")},
    )
    with kb.grid([("n", "tn")]):
        with kb.for_("r", 16, [kb.fill(0, F32, ("n",))]) as loop:
            x = kb.cast(kb.load("x", ["r", "n"], ("r", "n")), F32)
            loop.yield_([kb.merge("sum", loop.carried[0], kb.reduce("sum", x, ["r"]))])
        kb.store(kb.cast(loop.results[0], dtype), "y", ["n"])
    return kb.finish()


def gather(dtype: dt.DType = F32, ids: dt.DType = I64) -> KernelOp:
    """y[m, k] = table[ids[m], k] + p[k]: an embedding look-up with a fused addition."""
    kb = KernelBuilder(
        "gather",
        [
            ("table", gm(["V", "K"], dtype)),
            ("ids", gm(["M"], ids)),
            ("p", gm(["K"], dtype)),
            ("y", gm(["M", "K"], dtype, "out")),
        ],
        symbols=["V", "M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M")},
    )
    with kb.grid([("m", "tm")]):
        t = kb.cast(kb.load("table", [read("ids", "m"), "k"], ("m", "k")), F32)
        p = kb.cast(kb.load("p", ["k"], ("k",)), F32)
        kb.store(kb.cast(kb.map("add", t, p), dtype), "y", ["m", "k"])
    return kb.finish()


def masked(dtype: dt.DType = F32) -> KernelOp:
    """y = mask ? x : -1, and the predicate x > 0 as a second output."""
    kb = KernelBuilder(
        "masked",
        [
            ("x", gm(["M", "K"], dtype)),
            ("mask", gm(["M", "K"], BOOL)),
            ("y", gm(["M", "K"], dtype, "out")),
            ("positive", gm(["M", "K"], BOOL, "out")),
        ],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M")},
    )
    with kb.grid([("m", "tm")]):
        x = kb.cast(kb.load("x", ["m", "k"], ("m", "k")), F32)
        mask = kb.load("mask", ["m", "k"], ("m", "k"))
        y = kb.map("select", mask, x, kb.fill(-1.0, F32))
        kb.store(kb.cast(y, dtype), "y", ["m", "k"])
        kb.store(kb.map("gt", x, kb.fill(0.0, F32)), "positive", ["m", "k"])
    return kb.finish()


def integers() -> KernelOp:
    """y = x + i * K + k in int32: coordinates as data."""
    kb = KernelBuilder(
        "integers",
        [("x", gm(["M", "K"], I32)), ("y", gm(["M", "K"], I32, "out"))],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(8, "M")},
    )
    with kb.grid([("m", "tm")]):
        x = kb.load("x", ["m", "k"], ("m", "k"))
        i = kb.index(sym("m") * sym("K") + sym("k"), ("m", "k"))
        kb.store(kb.map("add", x, i), "y", ["m", "k"])
    return kb.finish()


def matmul_gelu(dtype: dt.DType = F32, trans_b: bool = False) -> KernelOp:
    """y = gelu(a @ w + bias): the epilogue of each block runs on the vector cores."""
    w = gm(["N", "K"] if trans_b else ["K", "N"], dtype)
    kb = KernelBuilder(
        "matmul_gelu",
        [
            ("a", gm(["M", "K"], dtype)),
            ("w", w),
            ("bias", gm(["N"], dtype)),
            ("y", gm(["M", "N"], dtype, "out")),
        ],
        symbols=["M", "N", "K"],
        axes={"m": "M", "n": "N", "k": "K"},
    )
    with kb.grid([("m", 128), ("n", 128)], sub="m"):
        a = kb.load("a", ["m", "k"], ("m", "k"), space="l1")
        order = ("n", "k") if trans_b else ("k", "n")
        acc = kb.contract(a, kb.load("w", list(order), order, space="l1"))
        with kb.for_("m", 16) as _:
            z = kb.map("add", kb.move(acc, slots=2), kb.cast(kb.load("bias", ["n"], ("n",)), F32))
            e = kb.map("erf", kb.map("mul", z, kb.fill(0.5**0.5, F32)))
            g = kb.map("mul", kb.map("mul", z, kb.fill(0.5, F32)), kb.map("add", e, kb.fill(1.0, F32)))
            kb.store(kb.cast(g, dtype), "y", ["m", "n"])
    return kb.finish()


def matmul_layernorm(dtype: dt.DType = F32) -> KernelOp:
    """y = LayerNorm(a @ w + residual): row blocks of C are complete before the vector cores start."""
    kb = KernelBuilder(
        "matmul_layernorm",
        [
            ("a", gm(["M", "K"], dtype)),
            ("w", gm(["K", "N"], dtype)),
            ("res", gm(["M", "N"], dtype)),
            ("gamma", gm(["N"], dtype)),
            ("beta", gm(["N"], dtype)),
            ("y", gm(["M", "N"], dtype, "out")),
        ],
        symbols=["M", "N", "K"],
        axes={"m": "M", "n": "N", "k": "K"},
    )
    with kb.grid([("m", 64)], sub="m"):
        a = kb.load("a", ["m", "k"], ("m", "k"), space="l1")
        with kb.for_("n", 128) as block:
            w = kb.load("w", ["k", "n"], ("k", "n"), space="l1")
            block.yield_(collect=[kb.contract(a, w)])
        with kb.for_("m", 8) as _:
            c = kb.move(block.results[0], slots=2)
            x = kb.map("add", c, kb.cast(kb.load("res", ["m", "n"], ("m", "n")), F32))
            gamma = kb.cast(kb.load("gamma", ["n"], ("n",)), F32)
            beta = kb.cast(kb.load("beta", ["n"], ("n",)), F32)
            kb.store(kb.cast(layer_norm(kb, x, gamma, beta, "n", "N"), dtype), "y", ["m", "n"])
    return kb.finish()


def matmul(dtype: dt.DType = F32) -> KernelOp:
    """y = a @ w without an epilogue: the cube stores its accumulator itself."""
    kb = KernelBuilder(
        "matmul",
        [("a", gm(["M", "K"], dtype)), ("w", gm(["K", "N"], dtype)), ("y", gm(["M", "N"], dtype, "out"))],
        symbols=["M", "N", "K"],
        axes={"m": "M", "n": "N", "k": "K"},
    )
    with kb.grid([("m", 128), ("n", 128)]):
        a = kb.load("a", ["m", "k"], ("m", "k"), space="l1")
        kb.store(kb.contract(a, kb.load("w", ["k", "n"], ("k", "n"), space="l1")), "y", ["m", "n"])
    return kb.finish()


def split_sum() -> KernelOp:
    """Sum over rows, split over cores: partial sums in a workspace, a sync, then merged in slot order."""
    slots = ceildiv("R", 16)
    kb = KernelBuilder(
        "split_sum",
        [("x", gm(["R", "N"], F32)), ("y", gm(["N"], F32, "out"))],
        symbols=["R", "N"],
        axes={"r": "R", "n": "N", "p": slots},
    )
    kb.workspace([slots, "N"], F32, "part")
    with kb.grid([("r", 16)]):
        s = kb.reduce("sum", kb.load("x", ["r", "n"], ("r", "n")), ["r"])
        kb.store(s, "part", [sym("r.lo") // 16, "n"])
    kb.sync()
    with kb.grid([("n", 64)]):
        with kb.for_("p", 8, [kb.fill(0, F32, ("n",))]) as loop:
            part = kb.load("part", ["p", "n"], ("p", "n"))
            loop.yield_([kb.merge("sum", loop.carried[0], kb.reduce("sum", part, ["p"]))])
        kb.store(loop.results[0], "y", ["n"])
    return kb.finish()
