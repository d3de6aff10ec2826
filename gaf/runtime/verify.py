# SPDX-License-Identifier: Apache-2.0
"""Is the generated code right? Every kernel launch and every model output against float64.

A kernel is judged on the inputs it actually got: its graph region is run in float64 on the same arrays, so an
error is blamed on the kernel that makes it, not on those before it. Model outputs are compared with a float64
run of the whole unfused model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.interpreter import run_block, run_model, widen
from gaf.dialects.graph.types import TensorType
from gaf.errors import VerificationError
from gaf.runtime.executor import Launch

if TYPE_CHECKING:
    from gaf.compiler import FusedModel

# Rounding errors of a kernel grow like the square root of the number of dependent roundings; the constant
# covers the vector unit's approximate exp, tanh and erf (a few ulp each). Measured kernels stay below half.
TOLERANCE_ULPS = 64.0


@dataclass
class Comparison:
    """One compared tensor. `error` is max |got - expected| / (|expected| + rms(expected)); `max_abs` its numerator's max."""

    name: str
    error: float
    max_abs: float
    tolerance: float
    kernel: str | None = None
    nodes: list[str] = field(default_factory=list)
    note: str = ""

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


def compare(name: str, got: np.ndarray, expected: np.ndarray, tolerance: float) -> Comparison:
    """Compare a result with its float64 reference. NaN must meet NaN and inf the same inf."""
    kind = dt.of_numpy(got.dtype)
    g, e = got.astype(np.float64), np.asarray(expected).astype(np.float64)
    if g.shape != e.shape:
        return Comparison(name, float("inf"), float("inf"), tolerance, note=f"shape {g.shape}, expected {e.shape}")
    if g.size == 0:
        return Comparison(name, 0.0, 0.0, tolerance)
    if not kind.is_float:
        wrong = float(np.max(np.abs(g - e)))
        return Comparison(name, wrong, wrong, 0.0)
    top = float(np.finfo(np.float32).max) if kind == dt.F32 or kind == dt.BF16 else float(np.finfo(np.float16).max)
    e = np.where(np.abs(e) > top, np.copysign(np.inf, e), e)  # what the dtype can't hold is inf there
    special = ~np.isfinite(e) | ~np.isfinite(g)
    same = (np.isnan(g) & np.isnan(e)) | (g == e)
    if np.any(special & ~same):
        count = int(np.sum(special & ~same))
        return Comparison(name, float("inf"), float("inf"), tolerance, note=f"{count} elements differ in NaN or inf")
    g, e = np.where(special, 0.0, g), np.where(special, 0.0, e)
    difference = np.abs(g - e)
    scale = np.abs(e) + np.sqrt(np.mean(e * e))
    error = float(np.max(np.divide(difference, scale, out=np.zeros_like(difference), where=difference > 0)))
    return Comparison(name, error, float(np.max(difference)), tolerance)


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
        operands: list[np.ndarray | None] = [None] * len(launch.fused.operands)
        for i, array in zip(launch.fused.attributes["kernel_args"].get_values(), launch.inputs):  # type: ignore[attr-defined]
            operands[i] = widen(array)
        expected = run_block(launch.fused.block, operands, model.weights, launch.symbols, wide=True)  # type: ignore[arg-type]
        tolerance = tolerance_of(_types(launch), _reduction_length(launch))
        for i, (got, want) in enumerate(zip(launch.outputs, expected)):
            c = compare(launch.fused.results[i].name_hint or f"output {i}", got, want, tolerance)
            c.kernel = launch.kernel.name
            c.nodes = [location_name(op) or op.name for op in launch.fused.members]
            result.launches.append(c)
        result.violations += [{"kernel": launch.kernel.name, **v} for v in launch.violations]

    outputs = executor.run(inputs, observe)
    reference = run_model(model, inputs, wide=True)
    depth = max(1, len(result.launches))
    for name, type_ in zip(model.output_names, model.output_types):
        base = max((c.tolerance for c in result.launches), default=tolerance_of([type_], 1))
        result.outputs.append(compare(name, outputs[name], reference[name], min(base * np.sqrt(depth), 0.1)))
    return result


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
