# SPDX-License-Identifier: Apache-2.0
"""Index expressions: the normal form, its simplifications, and text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from gaf.dialects.common.attributes import expr_from_text
from gaf.dialects.common.index import (
    Expr,
    ceildiv,
    const,
    exact_div,
    expr,
    floordiv,
    is_nonneg,
    maximum,
    minimum,
    mod,
    read,
    sym,
)

NAMES = ("a", "b", "S")
RANGES = {"a": const(6), "b": sym("S")}


@st.composite
def exprs(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Random expressions over a in [0, 6), b in [0, S), S >= 1."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([sym(n) for n in NAMES] + [const(c) for c in (-3, 0, 1, 2, 7)]))
    left, right = draw(exprs(depth=depth - 1)), draw(exprs(depth=depth - 1))
    divisor = draw(st.sampled_from([const(2), const(3), sym("S")]))
    return draw(
        st.sampled_from(
            [left + right, left - right, left * right, floordiv(left, divisor), mod(left, divisor), minimum(left, right), maximum(left, right)]
        )
    )


def points() -> list[dict[str, int]]:
    return [{"a": a, "b": b, "S": s} for s in (1, 2, 5) for a in (0, 1, 5) for b in range(s)]


@given(exprs(), exprs(), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_arithmetic_means_the_same_as_on_integers(left: Expr, right: Expr, operator: str) -> None:
    divisor = expr(3) if operator in "//%" else right
    combined = {"+": left + right, "-": left - right, "*": left * right, "//": floordiv(left, 3), "%": mod(left, 3)}[operator]
    for env in points():
        x, y = left.evaluate(env), divisor.evaluate(env)
        expected = {"+": x + y, "-": x - y, "*": x * y, "//": x // 3, "%": x % 3}[operator]
        assert combined.evaluate(env) == expected


@given(exprs())
def test_simplify_keeps_the_value_inside_the_ranges(e: Expr) -> None:
    simple = e.simplify(RANGES)
    for env in points():
        assert simple.evaluate(env) == e.evaluate(env)


@given(exprs())
def test_text_reads_back(e: Expr) -> None:
    assert expr_from_text(str(e)) == e


@given(exprs(), exprs())
def test_substitution_commutes_with_evaluation(e: Expr, replacement: Expr) -> None:
    replaced = e.substitute({"a": replacement})
    for env in points():
        assert replaced.evaluate(env) == e.evaluate({**env, "a": replacement.evaluate(env)})


@given(exprs())
def test_proven_bounds_hold(e: Expr) -> None:
    if is_nonneg(e, RANGES):
        assert all(e.evaluate(env) >= 0 for env in points())


def test_split_and_merged_axes_are_recognised() -> None:
    ranges = {"h": const(12), "d": const(64), "b": sym("B"), "s": sym("S")}
    head = sym("h") * 64 + sym("d")
    assert floordiv(head, 64, ranges) == sym("h")
    assert mod(head, 64, ranges) == sym("d")
    row = sym("b") * sym("S") + sym("s")
    assert floordiv(row, sym("S"), ranges) == sym("b")
    assert mod(row, sym("S"), ranges) == sym("s")


def test_collapsed_axes_are_contiguous_again() -> None:
    m, s = sym("m"), sym("S")
    flat = (m // (s * 96)) * s * 96 + ((m // 96) % s) * 96 + m % 96
    assert flat == m


def test_nested_floordiv_joins() -> None:
    assert floordiv(floordiv(sym("m"), 4), 3) == floordiv(sym("m"), 12)


def test_coefficient_refuses_what_is_not_linear() -> None:
    m = sym("m")
    assert (m * sym("S") + 3).coefficient("m") == sym("S")
    assert (m * m).coefficient("m") is None
    assert (m // 2 + m).coefficient("m") is None
    assert const(7).coefficient("m") == 0


def test_exact_division_and_ceildiv() -> None:
    assert exact_div(sym("B") * 8, 4) == sym("B") * 2
    assert exact_div(sym("B") + 1, 2) is None
    assert ceildiv(10, 4) == 3
    with pytest.raises(ZeroDivisionError):
        floordiv(sym("a"), 0)


def test_reads_are_atoms_that_evaluate_through_a_callback() -> None:
    e = read("ids", sym("a"), 1) * 64 + sym("b")
    assert e.coefficient("b") == 1
    assert e.evaluate({"a": 2, "b": 5}, lambda tag, index: {("ids", 2, 1): 7}[(tag, *index)]) == 7 * 64 + 5
    assert expr_from_text(str(e)) == e
