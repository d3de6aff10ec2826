# SPDX-License-Identifier: Apache-2.0
"""Random kernels through the lowering: every operand form, dtype, loop shape and store, both levels compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, BOOL, F16, F32, I32, I64, U8
from gaf.dialects.common.index import Expr, minimum, sym
from gaf.dialects.common.monoid import by_name
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.target import DEFAULT
from tests.passes.tile.test_lower_tile import make_inputs

# "exact" functions give the same bits in any correct implementation; others differ in the last places
EXACT_1 = ["neg", "abs", "relu"]
ROUNDING = ["floor", "ceil", "rint", "trunc", "sign"]
SMOOTH_1 = ["tanh", "sigmoid", "erf", "sin", "cos", "atan"]
EXACT_2 = ["add", "sub", "mul", "max", "min"]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]
LOADS = [F32, F16, BF16, I32, I64, U8]


@dataclass
class Value:
    """A float tile; `exact` values have the same bits at both levels, so discontinuous functions may see them."""

    value: SSAValue
    exact: bool


class Generator:
    """Builds one kernel over the axes m and k (and a unit axis g)."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.dtypes = {name: draw(st.sampled_from(LOADS)) for name in ("a", "b", "row", "col", "one")}
        shapes: dict[str, list] = {
            "a": ["G", "M", "K"], "b": ["M", "K"], "row": ["K"], "col": ["M"], "one": ["G"], "p": ["M", "K"],
        }  # fmt: skip
        self.out_dtypes = [draw(st.sampled_from([F32, F16, BF16, I32, BOOL])) for _ in range(2)]
        args = [(n, gm(s, BOOL if n == "p" else self.dtypes[n])) for n, s in shapes.items()]
        args += [(f"y{i}", gm(["G", "M", "K"], d, "out")) for i, d in enumerate(self.out_dtypes)]
        args += [("r", gm(["G", "M"], F32, "out"))]
        self.kb = KernelBuilder(
            "random", args, ["G", "M", "K"], {"g": "G", "m": "M", "k": "K"},
            {"tm": minimum(draw(st.sampled_from([1, 3, 8, 16])), "M"), "tk": minimum(draw(st.sampled_from([5, 8, 64])), "K")},
        )  # fmt: skip

    def pick(self, options: list) -> object:
        return self.draw(st.sampled_from(options))

    def load(self, name: str) -> Value:
        kb = self.kb
        index: dict[str, list[Expr | str]] = {
            "a": [sym("g.lo"), "m", "k"], "b": ["m", "k"], "row": ["k"], "col": ["m"], "one": [sym("g.lo")],
        }  # fmt: skip
        axes = tuple(a for a in ("m", "k") if a in index[name])
        return Value(kb.cast(kb.load(name, index[name], axes), F32), True)

    def leaf(self) -> Value:
        kb = self.kb
        match self.draw(st.integers(0, 6)):
            case 0 | 1 | 2:
                return self.load(str(self.pick(["a", "b", "row", "col", "one"])))
            case 3:
                return Value(kb.fill(self.draw(st.sampled_from([0.5, -2.0, 3.0, 0.1])), F32), True)
            case 4:
                return Value(kb.cast(kb.index(sym("K") + 1, ()), F32), True)
            case 5:
                index = self.pick([sym("m") * 2 + sym("k"), sym("k") - sym("m"), sym("m") + sym("g.lo")])
                axes = ("m", "k") if "k" in index.names() else ("m",)  # type: ignore[attr-defined]
                return Value(kb.cast(kb.index(index, axes), F32), True)  # type: ignore[arg-type]
            case _:
                return Value(kb.cast(kb.load("p", ["m", "k"], ("m", "k")), F32), True)

    def tree(self, depth: int) -> Value:
        kb = self.kb
        if depth == 0:
            return self.leaf()
        x = self.tree(depth - 1)
        match self.draw(st.integers(0, 8)):
            case 0:
                return Value(kb.map(str(self.pick(EXACT_1)), x.value), x.exact)
            case 1 if x.exact:
                return Value(kb.map(str(self.pick(ROUNDING)), x.value), True)
            case 2:
                return Value(kb.map(str(self.pick(SMOOTH_1)), x.value), False)
            case 3 if x.exact:
                y = self.tree(depth - 1)
                if not y.exact:
                    return Value(kb.map("add", x.value, y.value), False)
                predicate = kb.map(str(self.pick(COMPARE)), x.value, y.value)
                if self.draw(st.booleans()):
                    predicate = kb.map("not", predicate)
                if self.draw(st.booleans()):
                    predicate = kb.map(
                        str(self.pick(["and", "or", "xor"])), predicate, kb.map("isnan", x.value)
                    )
                if self.draw(st.booleans()):
                    return Value(kb.cast(predicate, F32), True)
                z = self.tree(depth - 1)
                return Value(kb.map("select", predicate, y.value, z.value), y.exact and z.exact)
            case 4:
                y = kb.map("add", kb.map("abs", self.tree(depth - 1).value), kb.fill(0.75, F32))
                f = str(self.pick(["div", "rsqrt", "reciprocal", "log", "sqrt"]))
                return Value(kb.map("div", x.value, y) if f == "div" else kb.map(f, y), False)
            case 5:
                number = kb.fill(self.draw(st.sampled_from([4.0, 3.0, -0.5])), F32)
                operands = (
                    [x.value, number]
                    if self.draw(st.booleans())
                    else [number, kb.map("exp", kb.map("tanh", x.value))]
                )
                return Value(kb.map(str(self.pick(["div", "sub"])), *operands), False)
            case _:
                y = self.tree(depth - 1)
                return Value(kb.map(str(self.pick(EXACT_2)), x.value, y.value), x.exact and y.exact)

    def full(self, x: Value) -> SSAValue:
        """A value over both axes."""
        return self.kb.map("add", x.value, self.load("b").value)

    def store(self, number: int, x: Value) -> None:
        kb, kind = self.kb, self.out_dtypes[number]
        value = self.full(x)
        index = [sym("g.lo"), "m", "k"]
        if kind in (I32, BOOL):
            value = self.full(self.load("a"))
            value = kb.map("gt", value, kb.fill(1.0, F32)) if kind is BOOL else kb.cast(value, I32)
        kb.store(kb.cast(value, kind), f"y{number}", index)

    def run(self) -> KernelOp:
        kb = self.kb
        shape = self.draw(st.integers(0, 2))
        monoid = str(self.pick(["sum", "max", "min"]))
        if shape == 0:  # everything in one tile
            with kb.grid([("g", 1), ("m", "tm")]):
                x = self.tree(3)
                r = kb.reduce(monoid, kb.map("tanh", self.full(x)), ["k"])
                kb.store(r, "r", [sym("g.lo"), "m"])
                self.store(0, Value(kb.map("sub", x.value, r), False))
                self.store(1, x)
        elif shape == 1:  # lanes in chunks, a carried state
            with kb.grid([("g", 1), ("m", "tm")]):
                outside = self.load("col")
                with kb.for_("k", "tk", [kb.fill(by_name(monoid).identity, F32, ("m",))]) as loop:
                    part = kb.map("tanh", self.full(self.tree(2)))
                    loop.yield_([kb.merge(monoid, loop.carried[0], kb.reduce(monoid, part, ["k"]))])
                kb.store(loop.results[0], "r", [sym("g.lo"), "m"])
                with kb.for_("k", "tk"):
                    x = self.tree(2)
                    self.store(0, Value(kb.map("mul", kb.map("tanh", x.value), loop.results[0]), False))
                    self.store(1, outside)
        else:  # a grid over lanes too, and a reduction of its own
            with kb.grid([("g", 1), ("m", "tm"), ("k", "tk")]):
                self.store(0, self.tree(3))
                self.store(1, self.tree(2))
            with kb.grid([("g", 1), ("m", "tm")]):
                x = self.tree(2)
                kb.store(kb.reduce(monoid, kb.map("tanh", self.full(x)), ["k"]), "r", [sym("g.lo"), "m"])
        return kb.finish()


@st.composite
def random_kernels(draw: st.DrawFn) -> KernelOp:
    return Generator(draw).run()


SIZES = st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 7, 8, 20]), st.sampled_from([1, 4, 8, 13, 65]))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(random_kernels(), SIZES, st.integers(0, 99), st.booleans())
def test_both_levels_agree(kernel: KernelOp, sizes: tuple[int, int, int], seed: int, planned: bool) -> None:
    symbols = dict(zip(("G", "M", "K"), sizes, strict=True))
    if planned:
        bind_tiles(kernel, DEFAULT)
    arrays = make_inputs(kernel, symbols, seed)
    want = run_tile(kernel, arrays, symbols)
    got = run_ascendc(lower_kernel(kernel, DEFAULT), arrays, symbols)
    for name, array in want.items():
        kind = dt.of_numpy(array.dtype)
        if not kind.is_float:
            np.testing.assert_array_equal(got[name], array, err_msg=name)
            continue
        np.testing.assert_allclose(
            got[name].astype(float),
            array.astype(float),
            rtol=max(1e-4, 4 * kind.eps),
            atol=1e-3,
            err_msg=name,
        )
