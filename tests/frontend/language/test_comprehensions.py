# SPDX-License-Identifier: Apache-2.0
"""Comprehensions against numpy: as references, element by element, as text, as ONNX, and as kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.meaning import Meaning, View
from gaf.dialects.graph.meaning_attr import MeaningAttr
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.custom import GenericOp
from gaf.frontend.language.program import program_from_text
from gaf.frontend.onnx.exporter import export_model
from tests.dialects.graph.harness import run_stage, run_view

RNG = np.random.default_rng(5)
A, B, V = (RNG.normal(size=s).astype(np.float32) for s in ((5, 7), (4, 7), (7,)))
IDS = np.array([3, 0, 4, 4], np.int64)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# parameters, result, formula, arrays, numpy's way
CASES: list[tuple[str, str, str, list[np.ndarray], Callable[..., Any]]] = [
    ("a: f32[m, k], b: f32[n, k]", "f32[m, n]", "[i, j] = sum(k: (a[i, k] - b[j, k])^2)", [A, B],
     lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1)),
    ("a: f32[m, k], b: f32[n, k]", "f32[m, n]", "[i, j] = sum(k: a[i, k] * b[j, k])", [A, B], lambda a, b: a @ b.T),
    ("a: f32[m, k], b: f32[n, k]", "f32[n, m]", "[j, i] = sum(l: b[j, l] * a[i, l])", [A, B], lambda a, b: b @ a.T),
    ("a: f32[m, k]", "f32[m]", "[i] = max(k: a[i, k])", [A], lambda a: a.max(1)),
    ("a: f32[m, k]", "f32[k]", "[j] = min(i: a[i, j])", [A], lambda a: a.min(0)),
    ("a: f32[m, k]", "f32[]", "[] = mean(i, k: a[i, k])", [A], lambda a: a.mean()),
    ("a: f32[m, 7]", "f32[m]", "[i] = prod(l < 3: a[i, l + 2])", [A], lambda a: a[:, 2:5].prod(1)),
    ("a: f32[m, k]", "f32[m, k]", "[i, j] = exp(a[i, j] - max(l: a[i, l])) / sum(l: exp(a[i, l] - max(p: a[i, p])))", [A], softmax),
    ("a: f32[m, k], v: f32[k]", "f32[m, k]", "[i, j] = (a[i, j] - mean(l: a[i, l])) * v[j]", [A, V],
     lambda a, v: (a - a.mean(1, keepdims=True)) * v),
    ("a: f32[m, k]", "f32[k, m]", "[j, i] = a[i, j]", [A], lambda a: a.T),
    ("a: f32[m, 7]", "f32[m, 7]", "[i, j] = a[i, 6 - j]", [A], lambda a: a[:, ::-1]),
    ("a: f32[m, k]", "f32[m, k]", "[i, j] = a[i, min(j + 1, k - 1)] - a[i, max(j - 1, 0)]", [A],
     lambda a: a[:, [*range(1, 7), 6]] - a[:, [0, *range(6)]]),
    ("a: f32[m, 7]", "f32[m, 14]", "[i, j] = a[i, j // 2]", [A], lambda a: a.repeat(2, 1)),
    ("a: f32[m, k]", "f32[m, 21]", "[i, j] = a[i, j % k]", [A], lambda a: np.tile(a, (1, 3))),
    ("a: f32[m, k], ids: i64[n]", "f32[n, k]", "[i, j] = 2 * a[ids[i], j]", [A, IDS], lambda a, i: 2 * a[i]),
    ("b: f32[4, 7]", "f32[4]", "[i] = b[i, i + 2]", [B], lambda b: b[np.arange(4), np.arange(4) + 2]),
    ("a: f32[m, k]", "f32[m, k]", "[i, j] = select(j <= i, a[i, j], -inf)", [A],
     lambda a: np.where(np.arange(7) <= np.arange(5)[:, None], a, -np.inf)),
    ("a: f32[m, k]", "f32[m, k]", "[i, j] = a[i, j] * f32(j) / k + m", [A], lambda a: a * np.arange(7) / 7 + 5),
    ("a: f32[m, k]", "bool[m, k]", "[i, j] = a[i, j] > 0 and not (a[i, j] > 1 or j == 3)", [A],
     lambda a: (a > 0) & ~((a > 1) | (np.arange(7) == 3))),
    ("ids: i64[n]", "i64[n]", "[i] = sum(j: select(ids[j] < ids[i], 1, 0))", [IDS], lambda i: (i[None] < i[:, None]).sum(1)),
    ("a: f32[m, k]", "i32[m, k]", "[i, j] = i32(a[i, j] * 10) % 3", [A], lambda a: (a * np.float32(10)).astype(np.int32) % 3),
    ("a: f32[m, k]", "f32[m, k]", "[i, j] = gelu(a[i, j], approximate=\"tanh\") + silu(a[i, j]) + where(a[i, j] > 0, 1, 0.5)", [A],
     lambda a: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) + a / (1 + np.exp(-a)) + np.where(a > 0, 1, 0.5)),
    ("a: f32[..., k], v: f32[k]", "f32[..., k]", "[..., i] = a[..., i] * v[i] / sum(l: abs(a[..., l]))", [A.reshape(1, 5, 7), V],
     lambda a, v: a * v / np.abs(a).sum(-1, keepdims=True)),
]  # fmt: skip


def model_of(params: str, result: str, formula: str) -> Model:
    rank = "B, M, " if "..." in params else ""
    text = f"op f({params}) -> {result} {{ {formula} }}\n"
    inputs = params.replace("..., ", rank)
    names = ", ".join(p.split(":")[0] for p in inputs.split(", ") if ":" in p)
    return program_from_text(f"{text}model m({inputs}) {{ f({names}) }}", "t.gaf").model()


def wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) if a.dtype.kind == "f" else a


@pytest.mark.parametrize(("params", "result", "formula", "arrays", "want"), CASES, ids=[c[2] for c in CASES])
def test_values(
    params: str, result: str, formula: str, arrays: list[np.ndarray], want: Callable[..., Any]
) -> None:
    model = model_of(params, result, formula)
    inputs = dict(zip(model.input_names, arrays))
    expected = np.asarray(want(*map(wide, arrays)))
    (got,) = model.run(inputs).values()
    assert got.dtype == model.output_types[0].dtype.numpy
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    (exact,) = model.run(inputs, wide=True).values()
    np.testing.assert_allclose(exact, expected, rtol=1e-9, atol=1e-9)
    # the exported model computes the same
    session = onnxruntime.InferenceSession(
        export_model(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_allclose(session.run(None, inputs)[0], expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("params", "result", "formula", "arrays", "want"), CASES, ids=[c[2] for c in CASES])
def test_meaning_is_what_the_reference_computes(
    params: str, result: str, formula: str, arrays: list[np.ndarray], want: Callable[..., Any]
) -> None:
    """An evaluator that shares no code with the reference runs the stages that fusion gets to see."""
    model = model_of(params, result, formula)
    op = next(op for op in model.block.ops if isinstance(op, GenericOp))
    env = {"m": 5, "k": 7, "n": 4, "B": 1, "M": 5}
    by_name = dict(zip(model.input_names, map(wide, arrays)))
    operands = [by_name[o.name_hint or ""] for o in op.operands]
    meaning = op.meaning()
    if isinstance(meaning, View):
        got = run_view(meaning, operands, op.result_tensor_types()[0], env)
    else:
        assert isinstance(meaning, Meaning)
        stages: list[np.ndarray] = []
        for stage in meaning.stages:
            stages.append(run_stage(stage, operands, stages, env, True))
        got = stages[meaning.results[0]]
    np.testing.assert_allclose(got, np.asarray(want(*map(wide, arrays))), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_folded_in_f32(dtype: Any) -> None:
    """4096 ones sum up to 4096, which neither type reaches by adding ones."""
    name = dt.of_numpy(np.dtype(dtype)).name
    model = model_of(f"a: {name}[m, k]", f"{name}[m]", "[i] = sum(k: a[i, k])")
    (got,) = model.run({"a": np.ones((2, 4096), dtype)}).values()
    assert got.dtype == dtype and (got == np.asarray(4096, dtype)).all()


def test_large_spaces_are_evaluated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaf.dialects.graph.meaning_eval.BLOCK", 16)
    model = model_of(*CASES[0][:3])
    (got,) = model.run({"a": A, "b": B}).values()
    np.testing.assert_allclose(got, CASES[0][4](A, B), rtol=2e-5)


def test_gathers_out_of_range_are_refused() -> None:
    model = model_of("a: f32[m, k], ids: i64[n]", "f32[n, k]", "[i, j] = 2 * a[ids[i], j]")
    with pytest.raises(gaf.InvalidInputError, match="out of range on axis 0; expected 0..4, got 5"):
        model.run({"a": A, "ids": np.array([5])})


def test_empty_axes() -> None:
    model = model_of("a: f32[m, k]", "f32[m]", "[i] = sum(k: a[i, k]) + prod(k: a[i, k]) + max(k: a[i, k])")
    (got,) = model.run({"a": np.zeros((3, 0), np.float32)}).values()
    assert (got == -np.inf).all()
    (none,) = model.run({"a": np.zeros((0, 3), np.float32)}).values()
    assert none.shape == (0,)


FLOATS = st.floats(-3, 3, width=32)


@given(st.data())
def test_random_formulas_round_trip_as_text_and_agree_with_numpy(data: st.DataObject) -> None:
    """Formulas of two tensors; Python evaluates the same text."""
    leaf = st.sampled_from(
        ["a[i, j]", "b[j]", "2", "0.5", "f32(j)", "max(l: a[i, l])", "sum(p: a[p, j])", "mean(q: b[q])"]
    )
    formula = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
                st.builds("tanh({})".format, inner),
                st.builds("select({} < {}, {}, {})".format, inner, inner, inner, inner),
            ),
            max_leaves=6,
        )
    )
    model = model_of("a: f32[m, k], b: f32[k]", "f32[m, k]", f"[i, j] = a[i, j] * 0 + b[j] * 0 + {formula}")
    op = next(op for op in model.block.ops if isinstance(op, GenericOp))
    text = str(model.module)
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser

    from gaf.dialects.graph import Graph

    context = Context()
    for dialect in (Builtin, Func, Graph):
        context.load_dialect(dialect)
    again = Parser(context, text).parse_module()
    again.verify()
    assert str(again) == text
    assert MeaningAttr.of(op.spaces.data) == op.spaces

    a, b = A.astype(np.float64), V.astype(np.float64)
    python = formula
    for old, new in (
        ("a[i, j]", "a"), ("b[j]", "b[None]"), ("f32(j)", "np.arange(7.0)[None]"), ("max(l: a[i, l])", "a.max(1, keepdims=True)"),
        ("sum(p: a[p, j])", "a.sum(0, keepdims=True)"), ("mean(q: b[q])", "b.mean()"), ("tanh", "np.tanh"), ("select", "choose"),
    ):  # fmt: skip
        python = python.replace(old, new)
    python = python.replace("choose(", "np.where(")
    want = eval(python, {"np": np, "a": a, "b": b})  # our own text
    got = model.run({"a": A, "b": V}, wide=True)["y"]
    np.testing.assert_allclose(got, np.broadcast_to(want, (5, 7)), rtol=1e-9, atol=1e-9)


def test_row_distances_run_as_a_kernel() -> None:
    fused = gaf.fuse(model_of(*CASES[0][:3]))
    assert len(fused.fused_ops) == 1 and not fused.fallbacks
    assert fused.kernels[0].name.startswith("f_op")
    assert fused.verify(engine="interpreter").ok
    np.testing.assert_allclose(
        fused.run({"a": A, "b": B}, engine="interpreter")["y"], CASES[0][4](A, B), rtol=1e-5
    )


def test_equal_folds_are_one_stage() -> None:
    model = model_of(*CASES[7][:3])
    op = next(op for op in model.block.ops if isinstance(op, GenericOp))
    assert [stage.monoid for stage in op.spaces.data.stages] == ["max", "sum", None]


def test_a_copy_of_elements_is_a_view() -> None:
    model = program_from_text(
        "op t(a: f32[m, k]) -> f32[k, m] { [j, i] = a[i, j] }\nmodel m(a: f32[M, K], b: f32[M, N]) { t(a) @ b }",
        "t.gaf",
    ).model()
    fused = gaf.fuse(model)
    assert len(fused.fused_ops) == 1, "the transpose became an index map of the matmul"
    assert fused.verify(engine="interpreter").ok
