# SPDX-License-Identifier: Apache-2.0
"""Every op over the table of cases: types, references, meanings, text and ONNX agree with each other."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.printer import Printer

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import expr
from gaf.dialects.graph import Graph, registry
from gaf.dialects.graph.meaning import Meaning, View
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError
from tests.dialects.graph.cases import Case, all_cases, symbolic_cases
from tests.dialects.graph.harness import build, export, run_meaning, run_onnx, value, widen

CASES = all_cases()
IDS = [f"{i}-{case}" for i, case in enumerate(CASES)]
every_case = pytest.mark.parametrize("case", CASES, ids=IDS)
ENV = {"B": 2, "S": 5}


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Same shape; equal up to a relative error where the values are floats, NaN and infinities included."""
    assert got.shape == want.shape
    if not dt.of_numpy(want.dtype).is_float:
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = want[np.isfinite(want)]
    scale = float(np.max(np.abs(finite), initial=0.0))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * min(scale, 1.0), equal_nan=True)


def test_every_op_has_cases() -> None:
    covered = Counter(case.op_class for case in CASES)
    written = ("graph.foreign", "graph.generic", "graph.custom", "graph.loop", "graph.if", "graph.overlap")  # tested apart
    foreign = {op for op in registry.all_ops() if op.name in written}
    assert set(registry.all_ops()) - foreign - {ConstantOp, WeightOp} == set(covered)


@every_case
def test_types_match_reference(case: Case) -> None:
    op = build(case.op_class, case.arrays, case.attrs)
    op.verify()
    env = {"nonzero": int(np.count_nonzero(case.arrays[0]))} if case.op == "nonzero" else {}
    for wide in (False, True):
        arrays = [widen(a) for a in case.arrays] if wide else case.arrays
        results = op.reference_with_symbols(*arrays, env=env, wide=wide)
        assert len(results) == len(op.results)
        for array, type_ in zip(results, op.result_tensor_types()):
            assert isinstance(array, np.ndarray)
            assert array.shape == type_.concrete(env)
            expected = np.dtype(np.float64) if wide and type_.dtype.is_float else type_.dtype.numpy
            assert array.dtype == expected


@every_case
def test_meaning_matches_reference(case: Case) -> None:
    op = build(case.op_class, case.arrays, case.attrs)
    arrays = [widen(a) for a in case.arrays]
    found = run_meaning(op, arrays, wide=True)
    if found is None:
        return
    for got, want in zip(found, op.reference(*arrays, wide=True), strict=True):
        close(got, want, 1e-9)
    narrow = run_meaning(op, case.arrays)
    for got, want, type_ in zip(narrow, op.reference(*case.arrays), op.result_tensor_types(), strict=True):
        assert got.dtype == want.dtype
        close(got, want, 8 * type_.dtype.eps)


@every_case
def test_views_and_meanings_are_well_formed(case: Case) -> None:
    op = build(case.op_class, case.arrays, case.attrs)
    meaning = op.meaning()
    assert op.IS_VIEW == isinstance(meaning, View)
    if isinstance(meaning, Meaning):
        assert len(meaning.results) == len(op.results)
        for number, type_ in zip(meaning.results, op.result_tensor_types()):
            stage = meaning.stages[number]
            assert tuple(d.extent for d in stage.dims) == type_.shape
            assert [d.name for d in stage.dims] == [f"d{i}" for i in range(type_.rank)]
            assert stage.dtype == type_.dtype
        for number, stage in enumerate(meaning.stages):
            assert bool(stage.reduced) == (stage.monoid is not None or stage.rank is not None)
            names = {d.name for d in (*stage.dims, *stage.reduced)}
            for read in stage.reads:
                assert (read.operand is None) != (read.stage is None)
                assert read.stage is None or read.stage < number
                assert set().union(*(e.names() for e in read.index), set()) <= names


def round_trip(op, generic: bool) -> None:
    producers = [v.owner for v in op.operands]
    module = ModuleOp([*producers, op])
    module.verify()
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    ctx = Context()
    for dialect in (Builtin, Graph, Test):
        ctx.load_dialect(dialect)
    again = Parser(ctx, stream.getvalue()).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(module), stream.getvalue()
    stream2 = StringIO()
    Printer(stream2, print_generic_format=generic).print_op(again)
    assert stream2.getvalue() == stream.getvalue()


@every_case
def test_text_round_trip(case: Case) -> None:
    round_trip(build(case.op_class, case.arrays, case.attrs), generic=False)


@pytest.mark.parametrize("op_class", sorted({c.op for c in CASES}))
def test_generic_text_round_trip(op_class: str) -> None:
    case = next(c for c in CASES if c.op == op_class)
    round_trip(build(case.op_class, case.arrays, case.attrs), generic=True)


def run_oracle(oracle: str, model: ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    if oracle == "onnx":
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, inputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@every_case
def test_onnx_round_trip(case: Case) -> None:
    """to_onnx means the same to onnx's reference, and from_onnx reads it back with the same numbers."""
    op = build(case.op_class, case.arrays, case.attrs)
    want = op.reference(*case.arrays)
    names = {f"x{i}": a for i, a in enumerate(case.arrays)}
    for opset in case.opsets:
        model = export(op, case.arrays, opset)
        if case.tolerance is not None:
            for got, expected in zip(run_oracle(case.oracle, model, names), want, strict=True):
                got = np.asarray(got)
                assert got.dtype == expected.dtype
                close(got, expected, case.tolerance)
        for got, expected in zip(run_onnx(model, names), want, strict=True):
            assert got.dtype == expected.dtype and got.shape == expected.shape
            if case.draws:
                continue
            close(got, expected, case.tolerance or 8 * dt.of_numpy(expected.dtype).eps)


@pytest.mark.parametrize(
    "name, shapes, attrs", symbolic_cases(), ids=[f"{i}-{c[0]}" for i, c in enumerate(symbolic_cases())]
)
def test_symbolic_shapes(name: str, shapes, attrs) -> None:
    """Inference and meaning under symbols agree with the reference on numbers."""
    op_class = registry.by_name(f"graph.{name}")
    types = [TensorType.of(shape, dt.F32) for shape in shapes]
    op = op_class.make([value(t) for t in types], attrs)
    round_trip(op, generic=False)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.concrete(ENV)) for t in types]
    results = op.reference_with_symbols(*arrays, env=ENV, wide=True)
    for array, type_ in zip(results, op.result_tensor_types(), strict=True):
        assert array.shape == type_.concrete(ENV)
    found = run_meaning(op, arrays, ENV, wide=True)
    for got, want in zip(found or [], results):
        close(got, want, 1e-9)


def test_missing_symbol_value_is_an_error() -> None:
    op = registry.by_name("graph.full").make([], {"shape": (expr("B"),), "value": np.asarray(1.0)})
    with pytest.raises(InvalidInputError, match="the value of symbol 'B' is not known"):
        op.reference()


def test_onnx_needs_newer_opset() -> None:
    op = build(registry.by_name("graph.bitwise_and"), [np.arange(3), np.arange(3)], {})
    with pytest.raises(UnsupportedError, match="opset 18 or later"):
        export(op, [np.arange(3), np.arange(3)], 17)
