# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's own node tests: import, interpret, export; and every op that gaf knows is among them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from gaf.dialects.graph import registry
from gaf.errors import UnsupportedError
from gaf.frontend.onnx import export_model, load_onnx
from gaf.frontend.onnx.support import RANDOM
from tests.frontend.onnx_models import reference

WITHOUT_NODE_TEST = {"SimplifiedLayerNormalization"}
"""Ops that ONNX has no node test for (this one is onnxruntime's, in the standard domain)."""

OTHER_ROUNDING = "attention"
"""Expanded 16-bit attention: ONNX rounds after every op, gaf's references once per op, in float32 inside."""

REFERENCE_IS_WRONG = {"test_maxpool_2d_same_upper", "test_maxpool_2d_same_lower"}
"""onnx.reference gets MaxPool with uneven pads wrong (33 or 31 instead of 32); onnxruntime agrees with us."""

MOD_EDGES = "test_mod_float_edge_cases_fmod_0"
"""Floor modulo of infinities: written as a - b * floor(a / b) for opsets that lack it, which gives NaN."""


@dataclass
class Outcome:
    """How a node test went: "gaf", "host", "unsupported", or what is wrong."""

    name: str
    ops: set[str]
    result: str
    detail: str = ""
    export: str = "not tried"


@lru_cache(maxsize=1)
def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return load_model_tests(kind="node")


def as_array(value: Any) -> np.ndarray | None:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return None if isinstance(value, list) or value is None else np.asarray(value)


def with_parameters(case: Any) -> onnx.ModelProto:
    """The model with scalars and small integer vectors (shapes, axes, pads) as constants, as real models."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info, given in zip(case.model.graph.input, case.data_sets[0][0]):
        array = as_array(given)
        if array is None or array.ndim > 1:
            continue
        if array.size == 1 or (array.dtype.kind in "iu" and array.size <= 16):
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    return model


def outcome(case: Any) -> Outcome:
    result = Outcome(case.name, {n.op_type for n in case.model.graph.node if not n.domain}, "gaf")
    try:
        try:
            model = load_onnx(case.model)
            if model.fallbacks and all(registry.by_onnx(n.domain, n.op_type) for n in case.model.graph.node):
                model = load_onnx(with_parameters(case))
        except UnsupportedError:
            model = load_onnx(with_parameters(case))
    except UnsupportedError as error:
        return Outcome(case.name, result.ops, "unsupported", str(error))
    except Exception as error:
        return Outcome(case.name, result.ops, "import failed", f"{type(error).__name__}: {error}")
    if model.fallbacks:
        result.result = "host"
    for given, expected in case.data_sets:
        inputs = dict(zip((v.name for v in case.model.graph.input), map(as_array, given)))
        inputs = {name: inputs[name] for name in model.input_names}
        try:
            got = list(model.run(inputs).values())
        except Exception as error:
            return Outcome(case.name, result.ops, "run failed", f"{type(error).__name__}: {error}")
        wrong = difference(got, [as_array(e) for e in expected], case.rtol, case.atol)
        if wrong:
            return Outcome(case.name, result.ops, "wrong", wrong)
        result.export = exported(model, inputs, got, case)
    return result


def exported(model: Any, inputs: dict[str, np.ndarray], expected: list[np.ndarray], case: Any) -> str:
    try:
        proto = export_model(model)
    except UnsupportedError as error:
        return f"unsupported: {error}"
    try:
        got = reference(proto, inputs)
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"
    # a 16-bit op may be written as several, each of which rounds
    rtol = 2e-2 if any(e.dtype.itemsize == 2 for e in expected) else case.rtol
    wrong = difference(got, expected, rtol, max(case.atol, 1e-6))
    return f"wrong: {wrong}" if wrong else "right"


def difference(got: list[np.ndarray], expected: list[Any], rtol: float, atol: float) -> str:
    for g, e in zip(got, expected, strict=True):
        if e is None or g.dtype != e.dtype or g.shape != e.shape:
            return f"{g.dtype}{list(g.shape)} for {getattr(e, 'dtype', None)}{list(getattr(e, 'shape', []))}"
        with np.errstate(all="ignore"):
            if not np.allclose(
                g.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
            ):
                return "other values"
    return ""


@dataclass
class Outcomes:
    all: list[Outcome] = field(default_factory=list)

    def having(self, *results: str) -> Iterator[Outcome]:
        return (o for o in self.all if o.result in results)


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return Outcomes([outcome(case) for case in cases()])


def test_nothing_is_wrong(outcomes: Outcomes) -> None:
    """What is imported computes what ONNX says; everything else is refused as unsupported."""
    failures = {
        o.name: f"{o.result}: {o.detail}"
        for o in outcomes.having("import failed", "run failed", "wrong")
        if not o.ops & RANDOM
        and not (OTHER_ROUNDING in o.name and "16_expanded" in o.name)
        and not o.name.startswith("test_bernoulli")
        # its function computes sizes that depend on more than shapes; as a single op it is fine
        and not (o.name.startswith("test_affine_grid") and "symbolic" in o.detail)
    }
    assert not failures


def test_exports_are_right(outcomes: Outcomes) -> None:
    failures = {
        o.name: o.export
        for o in outcomes.all
        if o.export.startswith("wrong")
        and o.name not in REFERENCE_IS_WRONG
        and not o.name.startswith(MOD_EDGES)
    }
    assert not failures


def test_every_known_op_is_tested(outcomes: Outcomes) -> None:
    """For each ONNX op with a graph op at least one node test runs entirely in gaf."""
    tested: set[str] = set()
    for o in outcomes.having("gaf"):
        tested |= o.ops
    assert set(registry.onnx_names("")) - tested == WITHOUT_NODE_TEST


def test_coverage_does_not_shrink(outcomes: Outcomes) -> None:
    """Of 1884 tests (onnx 1.23); lower bounds, to be raised when ops are added."""
    assert len(list(outcomes.having("gaf"))) >= 1000
    assert len(list(outcomes.having("gaf", "host"))) >= 1550


def test_refusals_are_about_types_control_flow_or_training(outcomes: Outcomes) -> None:
    """No refusal names an internal problem: each says what isn't supported."""
    reasons = (
        "is not supported",
        "are not supported",
        "training",
        "depends on run-time data",
        "computed at run time",
        "is not known",
    )
    odd = {
        o.name: o.detail for o in outcomes.having("unsupported") if not any(r in o.detail for r in reasons)
    }
    odd = {name: text for name, text in odd.items() if "expected 7.." not in text}
    assert not odd
