# SPDX-License-Identifier: Apache-2.0
"""The C++ text of expressions means what the expression means, by C++'s rules of rounding and precedence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaf.codegen.expr import ExprStyle, Signs, field_signs
from gaf.dialects.common.index import (
    Expr,
    ceildiv,
    const,
    expr,
    floordiv,
    maximum,
    minimum,
    mod,
    round_up,
    sym,
)

NAMES = ("M", "K", "tm", "n", "z")
LOW = {"M": 1, "K": 1, "tm": 1, "n": 0}
"""`z` may be negative."""


class CInt(int):
    """An integer that divides as C++ does: towards zero."""

    def __truediv__(self, other: int) -> CInt:  # type: ignore[override]
        quotient = abs(int(self)) // abs(int(other))
        return CInt(quotient if (self < 0) == (other < 0) else -quotient)

    def __mod__(self, other: int) -> CInt:
        return CInt(int(self) - int(self / other) * int(other))

    def __add__(self, other: int) -> CInt:
        return CInt(int(self) + int(other))

    def __sub__(self, other: int) -> CInt:
        return CInt(int(self) - int(other))

    def __rsub__(self, other: int) -> CInt:
        return CInt(int(other) - int(self))

    def __mul__(self, other: int) -> CInt:
        return CInt(int(self) * int(other))

    def __neg__(self) -> CInt:
        return CInt(-int(self))

    __radd__, __rmul__ = __add__, __mul__


HELPERS = {
    "gaf_Min": lambda a, b: CInt(min(a, b)), "gaf_Max": lambda a, b: CInt(max(a, b)),
    "gaf_FloorDiv": lambda a, b: CInt(int(a) // int(b)), "gaf_FloorMod": lambda a, b: CInt(int(a) % int(b)),
    "gaf_RoundUp": lambda a, b: CInt(-(-int(a) // int(b)) * int(b)),
}  # fmt: skip


def run_cpp(text: str, env: dict[str, int]) -> int:
    """Evaluate C++ text; C++ and Python agree on precedence and associativity of + - * / %."""
    import re

    text = re.sub(r"\b\d+\b(?!\w)", lambda m: f"CInt({m[0]})", text.replace("::", "_").replace("LL", ""))
    return int(eval(text, {"CInt": CInt, **HELPERS, **{n: CInt(v) for n, v in env.items()}}))


def expressions() -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.sampled_from(NAMES).map(sym), st.integers(-70, 70).map(const))
    divisor = st.one_of(st.integers(1, 70).map(const), st.sampled_from(["M", "K", "tm"]).map(sym))

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda t: t[0] + t[1]), pair.map(lambda t: t[0] - t[1]), pair.map(lambda t: t[0] * t[1]),
            pair.map(lambda t: minimum(*t)), pair.map(lambda t: maximum(*t)),
            st.tuples(inner, divisor).map(lambda t: floordiv(*t)), st.tuples(inner,
            divisor).map(lambda t: mod(*t)),
            st.tuples(inner, st.sampled_from([8, 16, 32])).map(lambda t: round_up(*t)),
        )  # fmt: skip

    return st.recursive(leaf, extend, max_leaves=8)


@given(
    expressions(),
    st.fixed_dictionaries({"M": st.integers(1, 200), "K": st.integers(1, 9), "tm": st.integers(1, 64),
    "n": st.integers(0, 99),
                           "z": st.integers(-50, 50)}),
    st.booleans(),
)  # fmt: skip
def test_text_means_the_expression(e: Expr, env: dict[str, int], tight: bool) -> None:
    text = ExprStyle(signs=Signs(dict(LOW))).format(e, tight)
    assert run_cpp(text, env) == e.evaluate(env)
    if tight:
        assert run_cpp(f"2 * {text}", env) == 2 * e.evaluate(env)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ceildiv("M", "tm"), "(M - 1) / tm + 1"),
        (ceildiv("M", 64), "(M + 63) / 64"),
        (sym("tm") * round_up("K", 16) * 2, "tm * gaf::RoundUp(K, 16) * 2"),
        (round_up("K", 8), "gaf::RoundUp(K, 8)"),
        (minimum(64, sym("M") - "n"), "gaf::Min(64, M - n)"),
        (sym("n") % "tm" * 8 + sym("n") // "tm" * 2, "n % tm * 8 + n / tm * 2"),
        (sym("z") // 8, "gaf::FloorDiv(z, 8)"),
        (sym("z") % 8, "gaf::FloorMod(z, 8)"),
        (sym("M") * "K" + "n" - 1, "n + K * M - 1"),
        (-sym("n"), "-n"),
        (expr(0), "0"),
        (expr(2**40), "1099511627776LL"),
    ],
    ids=str,
)
def test_text(e: Expr, text: str) -> None:
    assert ExprStyle(signs=Signs(dict(LOW))).format(e) == text


def test_signs_of_fields_follow_from_symbols() -> None:
    signs = field_signs(
        ["M"], [("tm", minimum(64, "M")), ("rest", sym("M") - 64), ("left", maximum(0, sym("M") - 64))]
    )
    assert signs.low == {"M": 1, "tm": 1, "left": 0}


def test_every_nested_function_is_written_once() -> None:
    """Two texts a level, one to sort by and one to print, would be 2 ** 60."""
    value = sym("x0")
    for i in range(1, 61):
        value = maximum(value * 2 + 0, sym(f"x{i}"))
    text = ExprStyle().format(value)
    assert text.count("Max(") == 60
