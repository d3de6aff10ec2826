# SPDX-License-Identifier: Apache-2.0
"""Is the generated code right? Every kernel launch and every model output against float64.

A kernel is judged on the inputs it actually got: its graph region is run in float64 on the same arrays, so an
error is blamed on the kernel that makes it, not on those before it. Model outputs are compared with a float64
run of the whole unfused model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from gaf.dialects.ascendc.cube import SetHf32Op
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.interpreter import run_block, run_model, widen
from gaf.dialects.graph.meaning import Meaning
from gaf.dialects.graph.ops.control import ops_of
from gaf.dialects.graph.seeds import same_draws
from gaf.dialects.graph.types import TensorType
from gaf.errors import VerificationError
from gaf.runtime.executor import Launch
from gaf.runtime.inputs import random_inputs

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.dialects.graph.model import Model

# Rounding errors of a kernel grow like the square root of the number of dependent roundings; the constant
# covers the vector unit's approximate exp, tanh and erf (a few ulp each). Measured kernels stay below half.
TOLERANCE_ULPS = 64.0


HF32_EPS = 2.0**-11
"""Spacing of HF32 numbers around 1: 11 bits of mantissa (asc-devkit, HF32)."""


# A point is ill-conditioned when changing the inputs by their own rounding moves the reference by more than the
# tolerance: a comparison or a floor at a jump, a difference of large numbers. There the kernel may be off by
# SPREAD_FACTOR times as much as the reference moved under PERTURBATIONS random roundings.
PERTURBATIONS = 4
SPREAD_FACTOR = 8.0


@dataclass
class Comparison:
    """One compared tensor. `error` is max |got - expected| / (|expected| + rms(expected)); `max_abs` its numerator's max.

    `ill_conditioned` counts elements that were left out because the reference itself jumps there.
    """

    name: str
    error: float
    max_abs: float
    tolerance: float
    kernel: str | None = None
    nodes: list[str] = field(default_factory=list)
    note: str = ""
    ill_conditioned: int = 0

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance


@dataclass
class Verification:
    """The result of `verify`: all comparisons, and the violations that check mode reported."""

    engine: str
    launches: list[Comparison] = field(default_factory=list)
    outputs: list[Comparison] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.violations and all(c.ok for c in [*self.launches, *self.outputs])

    @property
    def max_error(self) -> float:
        """The largest error of a model output."""
        return max((c.error for c in self.outputs), default=0.0)

    @property
    def max_kernel_error(self) -> float:
        return max((c.error for c in self.launches), default=0.0)

    def kernel_errors(self) -> dict[str, float]:
        """Kernel name -> largest error over its launches."""
        result: dict[str, float] = {}
        for c in self.launches:
            if c.kernel is not None:
                result[c.kernel] = max(c.error, result.get(c.kernel, 0.0))
        return result

    def raise_if_failed(self) -> None:
        """Raise VerificationError for the first thing that is wrong."""
        for v in self.violations:
            raise VerificationError(v.get("message", "violation"), where=f"kernel {v.get('kernel')}, {v.get('node') or 'unknown node'}")
        for c in [*self.launches, *self.outputs]:
            if not c.ok:
                where = f"kernel {c.kernel} ({', '.join(c.nodes[:3])})" if c.kernel else f"output '{c.name}'"
                raise VerificationError("result differs from the float64 reference", where=where,
                                        expected=f"relative error <= {c.tolerance:.1e}", got=f"{c.error:.1e}")


def compare(
    name: str, got: np.ndarray, expected: np.ndarray, tolerance: float, spread: np.ndarray | None = None
) -> Comparison:
    """Compare a result with its float64 reference. NaN must meet NaN and inf the same inf.

    `spread` says for every element how far the reference moves under rounding of its inputs: elements where it
    moves by more than the tolerance are counted as ill-conditioned and not judged.
    """
    kind = dt.of_numpy(got.dtype)
    g, e = got.astype(np.float64), np.asarray(expected).astype(np.float64)
    if g.shape != e.shape:
        return Comparison(name, float("inf"), float("inf"), tolerance, note=f"shape {g.shape}, expected {e.shape}")
    if g.size == 0:
        return Comparison(name, 0.0, 0.0, tolerance)
    if kind.is_float:
        top = float(ml_dtypes.finfo(kind.numpy).max)
        e = np.where(np.abs(e) > top, np.copysign(np.inf, e), e)  # what the dtype can't hold is inf there
    special = ~np.isfinite(e) | ~np.isfinite(g)
    same = (np.isnan(g) & np.isnan(e)) | (g == e)
    finite = np.where(np.isfinite(e), e, 0.0)
    scale = np.abs(finite) + typical_size(finite)
    difference = np.where(special, np.where(same, 0.0, np.inf), np.abs(np.where(special, 0.0, g) - finite))
    loose = np.zeros(g.shape, bool)
    if spread is not None:
        loose = ~(spread <= (tolerance * scale if kind.is_float else 0.0))
        difference = np.where(loose & ~(difference > SPREAD_FACTOR * spread), 0.0, difference)
    count = int(np.sum(loose))
    note = f"{count} of {g.size} elements are ill-conditioned" if count else ""
    if not kind.is_float:
        wrong = float(np.max(difference))
        return Comparison(name, wrong, wrong, 0.0, note=note, ill_conditioned=count)
    error = float(np.max(np.divide(difference, scale, out=difference.copy(), where=scale > 0)))
    if np.isinf(error):
        note = f"{int(np.sum(np.isinf(difference)))} elements differ in NaN or inf"
    return Comparison(name, error, float(np.max(difference)), tolerance, note=note, ill_conditioned=count)


def typical_size(values: np.ndarray) -> float:
    """The rms of an array, but at most ten times the median of its non-zero magnitudes.

    So that a few huge elements, like the -1e9 of a mask, don't make errors of all others look small.
    """
    magnitude = np.abs(values)
    nonzero = magnitude[magnitude > 0]
    if nonzero.size == 0:
        return 0.0
    with np.errstate(over="ignore"):
        rms = float(np.sqrt(np.mean(np.square(values))))
    return min(rms, 10.0 * float(np.median(nonzero)))


def reference_spread(
    run: Callable[[Sequence[np.ndarray], bool], Sequence[np.ndarray]],
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    eps: float,
) -> list[np.ndarray]:
    """How far each element of the reference moves when inputs are rounded differently, or dtypes kept.

    `run(inputs, wide)` is the reference. The perturbations are relative, of one `eps`, with a fixed seed.
    """
    rng = np.random.default_rng(0)
    spread = [np.zeros(np.shape(e)) for e in expected]

    def widen_spread(results: Sequence[np.ndarray]) -> None:
        for s, r, e in zip(spread, results, expected):
            with np.errstate(invalid="ignore"):
                moved = np.abs(np.asarray(r, np.float64) - np.asarray(e, np.float64))
            same = (np.isnan(r) & np.isnan(e)) | (np.asarray(r) == np.asarray(e))
            np.maximum(s, np.where(same, 0.0, np.where(np.isnan(moved), np.inf, moved)), out=s)

    for _ in range(PERTURBATIONS):
        moved = [
            a * (1 + eps * rng.choice((-1.0, 1.0), a.shape)) if a.dtype == np.float64 else a for a in map(widen, inputs)
        ]
        widen_spread(run(moved, True))
    widen_spread([np.asarray(r, np.float64) for r in run(inputs, False)])
    return spread


def tolerance_of(eps: float, reduction: int) -> float:
    """Tolerance of a result: from the coarsest rounding on its way (`eps`) and the length of its reductions."""
    if eps > dt.F32.eps:  # rounded once per 16-bit value, computed in fp32
        return 4 * eps
    return TOLERANCE_ULPS * eps * (1 + np.sqrt(max(reduction, 1)) / 8)


def rounding_of(launch: Launch, number: int) -> float:
    """The coarsest float eps that result `number` of a launch passes through: its own, and those of the members' results.

    Inputs don't count: they are exact as they are.
    """
    types = [tensor_type(launch.fused.results[number])]
    types += [tensor_type(r) for op in launch.fused.members for r in op.results if not op.IS_VIEW]
    return max((t.dtype.eps for t in types if t.dtype.is_float), default=dt.F32.eps)


def _rounds_products(launch: Launch) -> bool:
    """Whether the kernel lets the cube round the f32 operands of its matmuls."""
    return any(isinstance(op, SetHf32Op) for op in launch.kernel.ascendc.walk())


def verify_model(fused: FusedModel, inputs: Mapping[str, np.ndarray] | None, engine: str) -> Verification:
    """See `FusedModel.verify`."""
    with same_draws():
        return _verify_model(fused, inputs, engine)


def _verify_model(fused: FusedModel, inputs: Mapping[str, np.ndarray] | None, engine: str) -> Verification:
    model = fused.source_model
    inputs = dict(inputs) if inputs is not None else random_inputs(model)
    executor = fused.executor(engine)
    result = Verification(executor.engine)

    def observe(launch: Launch) -> None:
        operands = launch.operands

        def reference(arrays: Sequence[np.ndarray], wide: bool) -> list[np.ndarray]:
            return run_block(launch.fused.block, arrays, model.weights, launch.symbols, wide=wide)

        expected = reference([widen(a) for a in operands], True)
        length = _reduction_length(launch)
        coarse = HF32_EPS if _rounds_products(launch) else 0.0
        tolerances = [tolerance_of(max(rounding_of(launch, i), coarse), length) for i in range(len(expected))]
        names = [r.name_hint or f"output {i}" for i, r in enumerate(launch.fused.results)]
        judged = list(zip(names, launch.outputs, expected, tolerances))
        found = [compare(*one) for one in judged]
        if not all(c.ok for c in found):  # a wrong kernel, or a point where the reference jumps?
            eps = max((t.dtype.eps for t in _types(launch) if t.dtype.is_float), default=dt.F32.eps)
            spread = reference_spread(reference, operands, expected, eps)
            found = [compare(*one, moved) for one, moved in zip(judged, spread)]
        for c in found:
            c.kernel = launch.kernel.name
            c.nodes = [location_name(op) or op.name for op in launch.fused.members]
            result.launches.append(c)
        result.violations += [{"kernel": launch.kernel.name, **v} for v in launch.violations]

    outputs = executor.run(inputs, observe)
    depth = max(1, len(result.launches))
    base = max((c.tolerance for c in result.launches), default=0.0)
    tolerances = [
        min((base or tolerance_of(t.dtype.eps or dt.F32.eps, 1)) * float(np.sqrt(depth)), 0.1) for t in model.output_types
    ]
    if engine == "check" and fused.chains:
        result.violations += _check_chains(fused, inputs, outputs)
    reference = run_model(model, inputs, wide=True)
    result.outputs += judge_outputs(model, inputs, outputs, reference, tolerances)
    return result


def _check_chains(
    fused: FusedModel, inputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """What check mode finds in the super-kernels, and outputs that aren't those of the kernels one by one, bit for bit."""
    found: list[dict[str, Any]] = []

    def observe(launch: Launch) -> None:
        found.extend({"kernel": f"super-kernel with {launch.kernel.name}", **v} for v in launch.violations)

    outputs = fused.executor("check").run(inputs, observe, fused.chains)
    for name, value in expected.items():
        if value.tobytes() != outputs[name].tobytes():
            found.append(
                {"kernel": "super-kernels", "node": name, "message": "results differ from those of single launches"}
            )
    return found


def judge_outputs(
    model: Model,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
    tolerances: Sequence[float],
) -> list[Comparison]:
    """Compare a model's outputs with its float64 run `reference`; ill-conditioned elements by how far that moves."""
    names = model.output_names
    found = [compare(n, outputs[n], reference[n], t) for n, t in zip(names, tolerances)]
    if all(c.ok for c in found):
        return found

    def run(arrays: Sequence[np.ndarray], wide: bool) -> list[np.ndarray]:
        # perturbed float64 inputs go back to the model's dtypes, which its input check insists on
        narrow = {n: a.astype(t.dtype.numpy) for n, a, t in zip(model.input_names, arrays, model.input_types)}
        results = run_model(model, narrow, wide=wide)
        return [results[n] for n in names]

    eps = max((t.dtype.eps for t in _model_types(model) if t.dtype.is_float), default=dt.F32.eps)
    arrays = [np.asarray(inputs[n]) for n in model.input_names]
    spread = reference_spread(run, arrays, [reference[n] for n in names], eps)
    return [compare(n, outputs[n], reference[n], t, moved) for n, t, moved in zip(names, tolerances, spread)]


def _model_types(model: Model) -> list[TensorType]:
    return [*model.input_types, *(tensor_type(r) for op in ops_of(model.block) for r in op.results)]


def _types(launch: Launch) -> list[TensorType]:
    values = [*launch.fused.block.args, *launch.fused.results]
    return [tensor_type(v) for v in values] + [tensor_type(r) for op in launch.fused.members for r in op.results]


def _reduction_length(launch: Launch) -> int:
    """The longest reduced extent of the region, for these sizes."""
    longest = 1
    for op in launch.fused.members:
        meaning = op.meaning()
        if isinstance(meaning, Meaning):
            for stage in meaning.stages:
                size = 1
                for d in stage.reduced:
                    size *= d.extent.evaluate(dict(launch.symbols))
                longest = max(longest, size)
    return longest
