# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's own node tests: import, interpret, export; and every op that gaf knows is among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from benchmarks.onnx_nodes import cases, compare, data_sets, difference, draws, load_case
from gaf.dialects.graph import registry
from gaf.errors import UnsupportedError
from gaf.frontend.onnx import export_model
from tests.frontend.onnx_models import onnxruntime_results, reference

WITHOUT_NODE_TEST = {
    "SimplifiedLayerNormalization", "RandomUniform", "RandomNormal", "RandomNormalLike",
}  # fmt: skip
"""Ops that ONNX has no node test for, or only as a part of Bernoulli (the first is onnxruntime's)."""

OTHER_ROUNDING = "attention"
"""16-bit attention: ONNX rounds after every step, gaf's references once per op, in float32 inside."""

REFERENCE_IS_WRONG = {"test_maxpool_2d_same_upper", "test_maxpool_2d_same_lower"}
"""onnx.reference gets MaxPool with uneven pads wrong (33 or 31 instead of 32); onnxruntime agrees with us."""

NO_RUNTIME = {"test_range_bfloat16_type_positive_delta_expanded"}
"""A Loop in bfloat16, which onnxruntime lacks."""

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


def outcome(case: Any) -> Outcome:
    result = Outcome(case.name, {n.op_type for n in case.model.graph.node if not n.domain}, "gaf")
    try:
        model = load_case(case)
    except UnsupportedError as error:
        return Outcome(case.name, result.ops, "unsupported", str(error))
    except Exception as error:
        return Outcome(case.name, result.ops, "import failed", f"{type(error).__name__}: {error}")
    if model.fallbacks:
        result.result = "host"
    for inputs, expected in data_sets(case, model):
        try:
            got = list(model.run(inputs).values())
        except Exception as error:
            return Outcome(case.name, result.ops, "run failed", f"{type(error).__name__}: {error}")
        loose = OTHER_ROUNDING in case.name and any(g.dtype.itemsize == 2 for g in got)
        rtol, atol = (2e-2, 8e-3) if loose else (case.rtol, case.atol)
        wrong = compare(case, got, expected) if draws(case) else difference(got, expected, rtol, atol)
        if wrong:
            return Outcome(case.name, result.ops, "wrong", wrong)
        if draws(case):
            continue
        result.export = exported(model, inputs, got, case)
    return result


def exported(model: Any, inputs: dict[str, np.ndarray], expected: list[np.ndarray], case: Any) -> str:
    try:
        proto = export_model(model)
    except UnsupportedError as error:
        return f"unsupported: {error}"
    try:
        # onnx.reference concatenates the outputs of a Loop along their first axis instead of stacking them
        loops = any(n.op_type == "Loop" for n in proto.graph.node)
        got = onnxruntime_results(proto, inputs) if loops else reference(proto, inputs)
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"
    # a 16-bit op may be written as several, each of which rounds
    rtol = 2e-2 if any(e.dtype.itemsize == 2 for e in expected) else case.rtol
    wrong = difference(got, expected, rtol, max(case.atol, 1e-6))
    return f"wrong: {wrong}" if wrong else "right"


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
        # its function computes sizes that depend on more than shapes; as a single op it is fine
        if not (o.name.startswith("test_affine_grid") and "symbolic" in o.detail)
    }
    assert not failures


def test_exports_are_right(outcomes: Outcomes) -> None:
    failures = {
        o.name: o.export
        for o in outcomes.all
        if o.export.startswith("wrong")
        and o.name not in REFERENCE_IS_WRONG | NO_RUNTIME
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
