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

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.interpreter import run_block, run_model, widen
from gaf.dialects.graph.types import TensorType
from gaf.errors import VerificationError
from gaf.runtime.executor import Launch

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.dialects.graph.model import Model

# Rounding errors of a kernel grow like the square root of the number of dependent roundings; the constant
# covers the vector unit's approximate exp, tanh and erf (a few ulp each). Measured kernels stay below half.
TOLERANCE_ULPS = 64.0


# A point is ill-conditioned when changing the inputs by their own rounding moves the reference by more than the
# tolerance: a comparison or a floor at a jump. There the kernel may be off by as much as the reference moves.
PERTURBATIONS = 4


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
    scale = np.abs(finite) + np.sqrt(np.mean(finite * finite))
    difference = np.where(special, np.where(same, 0.0, np.inf), np.abs(np.where(special, 0.0, g) - finite))
    skipped = np.zeros(g.shape, bool)
    if spread is not None:
        skipped = ~(spread <= (tolerance * scale if kind.is_float else 0.0))
        difference = np.where(skipped, 0.0, difference)
    if not kind.is_float:
        wrong = float(np.max(difference))
        return Comparison(name, wrong, wrong, 0.0, ill_conditioned=int(np.sum(skipped)))
    error = float(np.max(np.divide(difference, scale, out=difference.copy(), where=scale > 0)))
    note = f"{int(np.sum(np.isinf(difference)))} elements differ in NaN or inf" if np.isinf(error) else ""
    return Comparison(name, error, float(np.max(difference)), tolerance, note=note, ill_conditioned=int(np.sum(skipped)))


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


def tolerance_of(types: list[TensorType], reduction: int) -> float:
    """Tolerance of a kernel from its coarsest float dtype and the length of its reductions."""
    eps = max((t.dtype.eps for t in types if t.dtype.is_float), default=dt.F32.eps)
    if eps > dt.F32.eps:  # results rounded once per 16-bit value, computed in fp32
        return 4 * eps
    return TOLERANCE_ULPS * eps * (1 + np.sqrt(max(reduction, 1)) / 8)


def random_inputs(model: Any, seed: int = 0, size: int = 5) -> dict[str, np.ndarray]:
    """Random inputs: floats normal, integers in 0..9, bool; symbols get small distinct sizes."""
    rng = np.random.default_rng(seed)
    symbols = sorted({s for t in model.input_types for s in t.symbols()})
    env = {s: size + i for i, s in enumerate(symbols)}
    result: dict[str, np.ndarray] = {}
    for name, type_ in zip(model.input_names, model.input_types):
        shape, kind = type_.concrete(env), type_.dtype
        if kind.is_float:
            result[name] = rng.standard_normal(shape).astype(kind.numpy)
        elif kind.is_bool:
            result[name] = rng.integers(0, 2, shape).astype(bool)
        else:
            result[name] = rng.integers(0, 2 if "mask" in name or "type" in name else 10, shape).astype(kind.numpy)
    return result


def verify_model(fused: FusedModel, inputs: Mapping[str, np.ndarray] | None, engine: str) -> Verification:
    """See `FusedModel.verify`."""
    model = fused.source_model
    inputs = dict(inputs) if inputs is not None else random_inputs(model)
    executor = fused.executor(engine)
    result = Verification(executor.engine)

    def observe(launch: Launch) -> None:
        operands = launch.operands

        def reference(arrays: Sequence[np.ndarray], wide: bool) -> list[np.ndarray]:
            return run_block(launch.fused.block, arrays, model.weights, launch.symbols, wide=wide)

        expected = reference([widen(a) for a in operands], True)
        tolerance = tolerance_of(_types(launch), _reduction_length(launch))
        names = [r.name_hint or f"output {i}" for i, r in enumerate(launch.fused.results)]
        found = [compare(n, got, want, tolerance) for n, got, want in zip(names, launch.outputs, expected)]
        if not all(c.ok for c in found):  # a wrong kernel, or a point where the reference jumps?
            eps = max((t.dtype.eps for t in _types(launch) if t.dtype.is_float), default=dt.F32.eps)
            spread = reference_spread(reference, operands, expected, eps)
            found = [
                compare(n, got, want, tolerance, s) for n, got, want, s in zip(names, launch.outputs, expected, spread)
            ]
        for c in found:
            c.kernel = launch.kernel.name
            c.nodes = [location_name(op) or op.name for op in launch.fused.members]
            result.launches.append(c)
        result.violations += [{"kernel": launch.kernel.name, **v} for v in launch.violations]

    outputs = executor.run(inputs, observe)
    names = model.output_names

    def whole(arrays: Sequence[np.ndarray], wide: bool) -> list[np.ndarray]:
        results = run_model(model, dict(zip(model.input_names, arrays)), wide=wide)
        return [results[n] for n in names]

    reference = run_model(model, inputs, wide=True)
    depth = max(1, len(result.launches))
    tolerances = []
    for type_ in model.output_types:
        base = max((c.tolerance for c in result.launches), default=tolerance_of([type_], 1))
        tolerances.append(min(base * float(np.sqrt(depth)), 0.1))
    found = [compare(n, outputs[n], reference[n], t) for n, t in zip(names, tolerances)]
    if not all(c.ok for c in found) and all(c.ok for c in result.launches):
        eps = max((t.dtype.eps for t in _model_types(model) if t.dtype.is_float), default=dt.F32.eps)
        arrays = [np.asarray(inputs[n]) for n in model.input_names]
        spread = reference_spread(_narrow(model, whole), arrays, [reference[n] for n in names], eps)
        found = [compare(n, outputs[n], reference[n], t, s) for n, t, s in zip(names, tolerances, spread)]
    result.outputs += found
    return result


def _narrow(
    model: Model, whole: Callable[[Sequence[np.ndarray], bool], list[np.ndarray]]
) -> Callable[[Sequence[np.ndarray], bool], list[np.ndarray]]:
    """Perturbed float64 inputs go back to the model's dtypes, which its input check insists on."""

    def run(arrays: Sequence[np.ndarray], wide: bool) -> list[np.ndarray]:
        return whole([a.astype(t.dtype.numpy) for a, t in zip(arrays, model.input_types)], wide)

    return run


def _model_types(model: Model) -> list[TensorType]:
    return [*model.input_types, *(tensor_type(r) for op in model.block.ops for r in op.results)]


def _types(launch: Launch) -> list[TensorType]:
    values = [*launch.fused.block.args, *launch.fused.results]
    return [tensor_type(v) for v in values] + [tensor_type(r) for op in launch.fused.members for r in op.results]


def _reduction_length(launch: Launch) -> int:
    """The longest reduced extent of the region, for these sizes."""
    from gaf.dialects.graph.meaning import Meaning

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
