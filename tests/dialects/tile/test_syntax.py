# SPDX-License-Identifier: Apache-2.0
"""parse(print(x)) == x for attributes, types and whole kernels, in the custom and the generic syntax."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, floordiv, maximum, minimum, mod, read, sym
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.tile.attributes import (
    AxesAttr,
    Axis,
    BindingsAttr,
    Guard,
    GuardsAttr,
    NamesAttr,
    NumberAttr,
)
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.structure import KernelOp
from gaf.dialects.tile.types import GmType, TileType

from . import kernels

NAMES = st.sampled_from(["m", "k", "n", "oh", "tm", "S", "a_1", "x2"])
DTYPES = st.sampled_from(dt.ALL)


def expressions(names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(names.map(sym), st.integers(-9, 9).map(const))
    positive = st.integers(1, 130).map(const)

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda t: t[0] + t[1]),
            st.tuples(inner, inner).map(lambda t: t[0] * t[1]),
            st.tuples(inner, positive).map(lambda t: floordiv(*t)),
            st.tuples(inner, positive).map(lambda t: mod(*t)),
            st.tuples(inner, inner).map(lambda t: minimum(*t)),
            st.tuples(inner, inner).map(lambda t: maximum(*t)),
            inner.map(lambda e: read("ids", e)),
        )

    return st.recursive(leaf, extend, max_leaves=6)


NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())
AXES = st.builds(Axis, NAMES, expressions(), st.booleans())
GUARDS = st.builds(Guard, expressions(), expressions(), expressions())
ATTRIBUTES: st.SearchStrategy[Attribute] = st.one_of(
    st.lists(AXES, max_size=3).map(AxesAttr.of),
    st.lists(NAMES, max_size=3).map(NamesAttr.of),
    st.lists(st.tuples(NAMES, expressions()), max_size=3).map(BindingsAttr.of),
    st.lists(GUARDS, max_size=2).map(GuardsAttr.of),
    NUMBERS.map(NumberAttr.of),
    st.builds(GmType.of, st.lists(expressions(), max_size=3), DTYPES, st.sampled_from(["in", "out", "ws"])),
    st.builds(
        TileType.of, st.lists(NAMES, max_size=3, unique=True), DTYPES, st.sampled_from(["ub", "l1", "l0c"])
    ),
)


@given(ATTRIBUTES)
def test_attributes_round_trip(attribute: Attribute) -> None:
    text = str(attribute)
    if isinstance(attribute, GmType | TileType):
        import io

        from xdsl.printer import Printer

        stream = io.StringIO()
        Printer(stream).print_attribute(attribute)
        text = stream.getvalue()
    assert Parser(kernels.context(), text).parse_attribute() == attribute


@given(NUMBERS)
def test_numbers_keep_their_value(value: float) -> None:
    kept = NumberAttr.of(value).value
    assert kept == value or (math.isnan(kept) and math.isnan(value))
    assert math.copysign(1, kept) == math.copysign(1, value) or math.isnan(value)


def test_numbers_are_equal_by_value() -> None:
    assert NumberAttr.of(1.0) == NumberAttr.of(1)
    assert NumberAttr.of(math.nan) == NumberAttr.of(math.nan)
    assert NumberAttr.of(-0.0) != NumberAttr.of(0)


@st.composite
def random_kernels(draw: st.DrawFn) -> KernelOp:
    """Random legal kernels over the axes m, k and n: loops, loads, maps, reductions, guarded stores."""
    kb = KernelBuilder(
        draw(st.sampled_from(["f", "fused_3"])),
        [
            ("x", gm(["M", "K"], dt.F32)),
            ("x_1", gm(["K"], dt.F32)),
            ("ids", gm(["M"], dt.I64)),
            ("y", gm(["M", "K"], dt.F32, "out")),
            ("z", gm(["M"], dt.F32, "out")),
        ],
        symbols=["M", "K"],
        axes={"m": "M", "k": "K"},
        params={"tm": minimum(draw(st.integers(1, 64)), "M")},
        guards=draw(st.sampled_from([(), (const(512) - sym("tm"),)])),
    )
    step = draw(st.one_of(st.integers(1, 64), st.just("tm")))
    unary = [f for f, e in FUNCTIONS.items() if e.arity == 1 and e.result == "same" and f != "bitnot"]
    binary = [
        f for f, e in FUNCTIONS.items() if e.arity == 2 and e.result == "same" and not f.startswith("bit")
    ]

    def chain(v: SSAValue) -> SSAValue:
        for _ in range(draw(st.integers(0, 4))):
            choice = draw(st.integers(0, 4))
            if choice == 0:
                v = kb.map(draw(st.sampled_from(unary)), v)
            elif choice == 1:
                other = kb.load("x_1", ["k"], ("k",)) if draw(st.booleans()) else v
                v = kb.map(draw(st.sampled_from(binary)), v, other)
            elif choice == 2:
                v = kb.map("mul", v, kb.fill(draw(st.floats(width=32)), dt.F32))
            elif choice == 3:
                i = kb.index(
                    draw(expressions(st.sampled_from(["m", "k", "M", "K", "m.lo", "m.hi"]))).substitute({}),
                    ("m", "k"),
                )
                v = kb.map("add", v, kb.cast(i, dt.F32))
            else:
                p = kb.map(draw(st.sampled_from(["lt", "ge", "ne"])), v, kb.fill(0, dt.F32))
                v = kb.map("select", p, v, kb.map("neg", v))
        return v

    with kb.grid([("m", step)], sub=draw(st.sampled_from([None, "m"]))):
        index: list = ["m", "k"] if draw(st.booleans()) else [read("ids", "m"), "k"]
        if draw(st.booleans()):
            x = kb.load(
                "x", index, ("m", "k"), where=[("m", 0, sym("M") - 1)], otherwise=draw(st.floats(width=32))
            )
        else:
            x = kb.load("x", index, ("m", "k"), buffers=draw(st.sampled_from([None, 2])))
        v = chain(x)
        kb.store(v, "y", ["m", "k"])
        if draw(st.booleans()):
            kb.store(kb.reduce("sum", v, ["k"]), "z", ["m"])
        else:
            with kb.for_("k", 8, [kb.fill(0, dt.F32, ("m",))]) as loop:
                part = kb.reduce("sum", v, ["k"])
                collected = [kb.map("abs", v)] if draw(st.booleans()) else []
                loop.yield_([kb.merge("sum", loop.carried[0], part)], collected)
            kb.store(loop.results[0], "z", ["m"])
    return kb.finish(verify=False)


def assert_round_trip(kernel: KernelOp) -> None:
    for generic in (False, True):
        text = kernels.to_text(kernel, generic)
        (again,) = kernels.parse(text).ops
        assert again.is_structurally_equivalent(kernel), text
        assert kernels.to_text(again, generic) == text


@given(random_kernels())
def test_random_kernels_round_trip(kernel: KernelOp) -> None:
    assert_round_trip(kernel)


@pytest.mark.parametrize(
    "make",
    [
        kernels.elementwise,
        kernels.softmax,
        kernels.streamed_softmax,
        kernels.layernorm,
        kernels.column_sum,
        kernels.gather,
        kernels.masked,
        kernels.integers,
        kernels.matmul_gelu,
        kernels.matmul_layernorm,
        kernels.matmul,
        kernels.split_sum,
    ],
)
def test_kernels_round_trip(make) -> None:
    assert_round_trip(make())


def test_argument_names_survive_name_clashes() -> None:
    kb = KernelBuilder("f", [("x_1", gm([4], dt.F32)), ("x_2", gm([4], dt.F32, "out"))], axes={"i": 4})
    with kb.grid([("i", 4)]):
        kb.store(kb.load("x_1", ["i"], ("i",)), "x_2", ["i"])
    kernel = kb.finish()
    (again,) = kernels.parse(kernels.to_text(kernel)).ops
    assert again.arg_names.data == ("x_1", "x_2")
