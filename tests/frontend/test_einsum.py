# SPDX-License-Identifier: Apache-2.0
"""Einsum against numpy: matrices where both sides have labels of their own, products and sums elsewhere."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gaf
from gaf.compiler import fuse
from gaf.dialects.graph.interpreter import run_model
from gaf.errors import InvalidInputError
from tests.frontend.onnx_models import node, onnx_model, value

EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)], 1),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 8), (2, 3, 5, 8)], 1),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 8), (2, 5, 3, 8)], 1),
    ("bij,bj->bi", [(2, 3, 4), (2, 4)], 0),
    ("i,j->ij", [(3,), (4,)], 0),
    ("ij,ij->", [(3, 4), (3, 4)], 0),
    ("ii->i", [(4, 4)], 0),
    ("ii", [(4, 4)], 0),
    ("bij->bji", [(2, 3, 4)], 0),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)], 1),
    ("b...->...", [(2, 3, 4)], 0),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 2),
    ("abc,cd,bd->a", [(2, 3, 4), (4, 5), (3, 5)], 1),
    ("bij,bjk", [(2, 3, 4), (2, 4, 5)], 1),
    ("ijkl,klmn->ijmn", [(2, 3, 4, 5), (4, 5, 2, 3)], 1),
    ("iji,j->i", [(3, 4, 3), (4,)], 0),
    ("ij,jk->ik", [(3, 1), (4, 5)], 1),
    ("i j , j k -> k i", [(3, 4), (4, 5)], 1),
]


def model(equation: str, shapes: list[tuple[Any, ...]]) -> gaf.Model:
    names = [f"x{i}" for i in range(len(shapes))]
    proto = onnx_model(
        [node("Einsum", names, ["y"], equation=equation)],
        [value(n, s) for n, s in zip(names, shapes, strict=True)], ["y"],
    )  # fmt: skip
    return gaf.load_model(proto)


def check(equation: str, shapes: list[tuple[int, ...]], engine: str = "interpreter") -> gaf.Model:
    rng = np.random.default_rng(0)
    imported = model(equation, shapes)
    inputs = {f"x{i}": rng.normal(size=s).astype("f") for i, s in enumerate(shapes)}
    fused = fuse(imported)
    assert not imported.fallbacks and not fused.host_ops
    (got,) = fused.run(inputs, engine).values()
    want = np.einsum(equation.replace(" ", ""), *(x.astype("d") for x in inputs.values()))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return imported


@pytest.mark.parametrize(("equation", "shapes", "products"), EQUATIONS)
def test_equations(equation: str, shapes: list[tuple[int, ...]], products: int) -> None:
    imported = check(equation, shapes)
    assert sum(op.name == "graph.matmul" for op in imported.module.walk()) == products


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    letters = string.ascii_letters[: draw(st.integers(1, 5))]
    size = {c: draw(st.integers(1, 5)) for c in letters}
    terms = draw(st.lists(st.lists(st.sampled_from(letters), max_size=3).map("".join), min_size=1, max_size=3))
    known = sorted(set("".join(terms)))
    output = "".join(draw(st.permutations(draw(st.lists(st.sampled_from(known), unique=True))))) if known else ""
    return f"{','.join(terms)}->{output}", [tuple(size[c] for c in t) for t in terms]


@settings(max_examples=25, deadline=None)
@given(equations())
def test_random_equations(case: tuple[str, list[tuple[int, ...]]]) -> None:
    equation, shapes = case
    imported = model(equation, shapes)
    rng = np.random.default_rng(0)
    inputs = {f"x{i}": rng.normal(size=s).astype("f") for i, s in enumerate(shapes)}
    (got,) = run_model(imported, inputs).values()
    np.testing.assert_allclose(got, np.einsum(equation, *(x.astype("d") for x in inputs.values())), rtol=1e-4, atol=1e-4)


def test_symbolic_dims_stay() -> None:
    imported = model("bqd,bkd->bqk", [("b", "q", 8), ("b", "k", 8)])
    assert imported.output_types[0].rank == 3
    fused = fuse(imported)
    x, y = np.ones((2, 3, 8), "f"), np.ones((2, 5, 8), "f")
    (got,) = fused.run({"x0": x, "x1": y}, "interpreter").values()
    assert got.shape == (2, 3, 5) and (got == 8).all()


@pytest.mark.parametrize(
    ("equation", "shapes", "what"),
    [
        ("ij,jk->ik", [(3, 4)], "another number of operands"),
        ("ijk->i", [(3, 4)], "doesn't fit its operand"),
        ("ij->k", [(3, 4)], "in no operand"),
        ("ij->ii", [(3, 4)], "there twice"),
        ("i*j->ij", [(3, 4)], "other signs"),
        ("ii->i", [(3, 4)], "differ"),
    ],
)
def test_equations_that_don_t_fit(equation: str, shapes: list[tuple[int, ...]], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        model(equation, shapes)


def test_the_diagonal_of_a_symbolic_matrix_runs_on_the_host() -> None:
    imported = model("ii->i", [("n", "n")])
    assert list(imported.fallbacks) == ["Einsum"]
