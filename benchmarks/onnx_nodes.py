# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's 1884 node tests through import, fusion and generated kernels, compared with ONNX's own results.

A case is `right` if every output has the expected dtype, shape and values (the test's tolerance; in 16-bit floats,
whose steps are larger, one rounding relative to the value and its neighbours), `refused` if gaf says that
it can't take the model, `crashed` for any other exception and for errors that call themselves bugs of
gaf. `through_kernels` counts right cases in which every eligible op, one that computes on types that the chip
computes in, ran in a generated kernel. A case without such an op counts apart: as `views` if it is nothing but views,
constants and copies of inputs, as `float64` if it computes in float64 only, for which the chip has no vector unit.
Ops on random numbers are compared in dtype and shape only.

Where a test passes a shape, axes or another parameter as an input at run time, and the model isn't complete
without it, the parameter is written into the model as a constant, as exported models have it.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.common import finish, parser, table
from gaf.dialects.common import dtype as dt

KEYS = ("right", "wrong", "refused", "crashed")

FAMILIES = {
    "float elementwise": (
        "Abs Acos Acosh Add Asin Asinh Atan Atanh BinaryCrossEntropy Ceil Celu Clip Cos Cosh Div Elu Erf Exp Floor "
        "Gelu HardSigmoid HardSwish LeakyRelu Log Max Mean Min Mish Mod Mul Neg PRelu Pow Reciprocal Relu Round Selu "
        "Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where"
    ),
    "reduction": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare ArgMax ArgMin CumSum CumProd"
    ),
    "norm": (
        "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization LpNormalization "
        "MeanVarianceNormalization RMSNormalization LRN"
    ),
    "softmax": "Softmax LogSoftmax Hardmax SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss",
    "matmul": "MatMul Gemm Einsum Attention LinearAttention",
    "conv": "Conv ConvTranspose DeformConv",
    "pool": "AveragePool MaxPool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool MaxUnpool",
    "shape": (
        "CenterCropPad Concat DepthToSpace Expand Flatten Identity Pad Reshape Slice SpaceToDepth Split Squeeze Tile "
        "Transpose Trilu Unsqueeze Upsample Resize ReverseSequence"
    ),
    "index": "Gather GatherElements GatherND OneHot Scatter ScatterElements ScatterND TensorScatter EyeLike RotaryEmbedding",
}
"""The families of issue 5 whose tests are to run through kernels, with their ops."""


@dataclass
class Outcome:
    """One case: what came of it, whether kernels did everything, and why not."""

    name: str
    family: str
    kind: str
    kernels: bool = False
    views: bool = False
    float64: bool = False
    reason: str = ""
    host: tuple[str, ...] = ()  # the ops that no kernel computes, with the reason


@lru_cache(maxsize=1)
def cases() -> list[Any]:
    """All node tests, in the order of the onnx package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return load_model_tests(kind="node")


@lru_cache(maxsize=1)
def families() -> dict[str, str]:
    """Test name -> family: by the op of the test, or of the test that it is an expansion of."""
    by_op = {op: family for family, ops in FAMILIES.items() for op in ops.split()}
    found: dict[str, str] = {}
    for case in cases():
        stem = case.name.partition("_expanded")[0]
        if stem == case.name:
            nodes = [n.op_type for n in case.model.graph.node if n.op_type not in ("Constant", "Cast")]
            found[case.name] = by_op.get(nodes[-1], "other") if nodes else "other"
            if not computes_on_floats(case.model):
                found[case.name] = "other"
    return {case.name: found.get(case.name.partition("_expanded")[0], "other") for case in cases()}


def computes_on_floats(model: onnx.ModelProto) -> bool:
    """True if the first tensor that the model takes and the first that it returns hold floats."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
    kinds = [v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]]
    return any(kind in floats for kind in kinds)


def as_array(value: Any) -> np.ndarray | None:
    """A value of a data set as an array; None for sequences and values left out."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return None if isinstance(value, list) or value is None else np.asarray(value)


PARAMETERS = ("scales", "roi")
"""Names that ONNX's schemas give to operands of floats that say what an op does, rather than being its data."""


def named_parameters(model: onnx.ModelProto) -> set[str]:
    """The inputs of a model that are PARAMETERS of a node."""
    found: set[str] = set()
    for node in model.graph.node:
        if onnx.defs.has(node.op_type, node.domain):
            formals = onnx.defs.get_schema(node.op_type, node.domain).inputs
            found |= {name for name, formal in zip(node.input, formals) if formal.name in PARAMETERS}
    return found


def with_parameters(case: Any) -> onnx.ModelProto:
    """The model with scalars, small integer vectors (shapes, axes, pads) and PARAMETERS as constants, as real models."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    named = named_parameters(case.model)
    for info, given in zip(case.model.graph.input, case.data_sets[0][0]):
        array = as_array(given)
        if array is None or array.ndim > 1:
            continue
        if array.size == 1 or (array.dtype.kind in "iu" and array.size <= 16) or info.name in named:
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    return model


def load_case(case: Any) -> Any:
    """The imported model, with the test's parameters as constants if it isn't complete without. Raises GafError."""
    from gaf.dialects.graph import registry
    from gaf.errors import UnsupportedError
    from gaf.frontend.onnx import load_onnx
    from gaf.frontend.onnx.support import DIRECT

    try:
        model = load_onnx(case.model)
    except UnsupportedError:
        return load_onnx(with_parameters(case))
    if model.fallbacks and all(n.op_type in DIRECT or registry.by_onnx(n.domain, n.op_type) for n in case.model.graph.node):
        return load_onnx(with_parameters(case))
    return model


def data_sets(case: Any, model: Any) -> Iterator[tuple[dict[str, np.ndarray], list[np.ndarray | None]]]:
    """Inputs of the model by name and expected outputs, for each data set of the test."""
    for given, expected in case.data_sets:
        named = dict(zip((v.name for v in case.model.graph.input), map(as_array, given)))
        yield {n: named[n] for n in model.input_names}, [as_array(e) for e in expected]


def typical_size(values: np.ndarray) -> float:
    """The root mean square of what is finite."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0


def difference(got: Sequence[np.ndarray], expected: Sequence[Any], rtol: float, atol: float) -> str:
    """ "" if the results agree, else what differs."""
    for g, e in zip(got, expected, strict=True):
        if e is None or g.dtype != e.dtype or g.shape != e.shape:
            return f"{g.dtype}{list(g.shape)} for {getattr(e, 'dtype', None)}{list(getattr(e, 'shape', []))}"
        with np.errstate(all="ignore"):
            a, b = g.astype(np.float64), e.astype(np.float64)
            if g.dtype.itemsize == 2 and dt.of_numpy(g.dtype).is_float:  # the tests' 1e-3 is less than one rounding
                eps = dt.of_numpy(g.dtype).eps
                rtol, atol = max(rtol, eps), max(atol, eps * typical_size(b))
            if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
                return f"other values, off by up to {np.nanmax(np.abs(a - b)):.2g}"
    return ""


def run_case(case: Any, engine: str) -> Outcome:
    """Import, fuse, run and compare one case."""
    import gaf
    from gaf.errors import InternalError

    result = Outcome(case.name, families()[case.name], "right")
    try:
        model = load_case(case)
        fused = gaf.fuse(model)
        for inputs, expected in data_sets(case, model):
            got = list(fused.run(inputs, engine=engine).values())
            reason = compare(case, got, expected)
            if reason:
                result.kind, result.reason = "wrong", reason
                break
    except InternalError as error:
        result.kind, result.reason = "crashed", " ".join(str(error).split())[:300]
        return result
    except gaf.GafError as error:
        result.kind, result.reason = "refused", " ".join(str(error).split())[:300]
        return result
    except Exception as error:
        result.kind, result.reason = "crashed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return result
    result.host = tuple(text.partition("(")[0].partition(" x ")[2] + text.rpartition("):")[2] for text in fused.fallbacks)
    eligible = [op for op in fused.host_ops if not on_float64(op)]
    result.kernels = not eligible and bool(fused.fused_ops)
    result.views = not fused.host_ops and not fused.fused_ops
    result.float64 = not result.views and not eligible and not fused.fused_ops
    return result


def on_float64(op: Any) -> bool:
    """True if an op reads or makes float64."""
    return any(t.dtype == dt.F64 for t in [*op.operand_tensor_types(), *op.result_tensor_types()])


def draws(case: Any) -> bool:
    """Whether the results depend on random numbers, which are the runtime's own."""
    from gaf.frontend.onnx.support import RANDOM

    nodes = case.model.graph.node
    return any(n.op_type in RANDOM or (n.op_type == "Dropout" and len(n.input) > 2) for n in nodes)


def compare(case: Any, got: Sequence[np.ndarray], expected: Sequence[Any]) -> str:
    """What differs, or "": results of a data set against the test's."""
    if draws(case):
        types = [(g.dtype, g.shape) for g in got]
        return "" if types == [(e.dtype, e.shape) for e in expected] else "other dtypes or shapes"
    return difference(got, expected, case.rtol, case.atol)


def run_shard(shard: int, shards: int, only: Sequence[str], engine: str) -> list[Outcome]:
    """Every `shards`-th case from `shard` on."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    return [run_case(case, engine) for case in selected(only)[shard::shards]]


def selected(only: Sequence[str]) -> list[Any]:
    """The cases whose names, less `test_`, start with one of the words."""
    every = cases()
    return [c for c in every if not only or any(c.name.removeprefix("test_").startswith(p) for p in only)]


def family_rows(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row a family: cases by kind, and how many of those with an eligible op ran through kernels."""
    rows = []
    for family in [*FAMILIES, "other"]:
        mine = [o for o in found if o.family == family]
        counts = Counter(o.kind for o in mine)
        through = sum(o.kind == "right" and o.kernels for o in mine)
        views = sum(o.kind == "right" and o.views for o in mine)
        wide = sum(o.kind == "right" and o.float64 for o in mine)
        share = 100 * through / max(len(mine) - views - wide, 1)
        rows.append(
            {"family": family, "total": len(mine), **{k: counts[k] for k in KEYS}, "views": views, "float64": wide,
             "through_kernels": through, "percent": share}
        )  # fmt: skip
    return rows


def main(argv: list[str] | None = None) -> int:
    """Run all shards and print; returns the exit code."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help="tests whose name starts so (without test_)")
    options.add_argument("--engine", default="interpreter", help="interpreter (default), host or check")
    options.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
    options.add_argument("--list", action="store_true", help="print every case that is refused or not through kernels")
    args = options.parse_args(argv)
    start = time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    shards = max(args.jobs * 8, 1)
    found: list[Outcome] = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        work = [pool.submit(run_shard, i, shards, args.only, args.engine) for i in range(shards)]
        for i, future in enumerate(work):
            found += future.result()
            print(f"{i + 1}/{shards}: {len(found)} cases, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    for o in sorted(found, key=lambda o: (o.kind, o.name)):
        if o.kind in ("wrong", "crashed") or (args.list and not (o.kernels or o.views or o.float64)):
            print(f"{o.kind}: {o.name} ({o.family}): {o.reason or '; '.join(o.host)}")
    hosts = Counter(h for o in found if o.family != "other" for h in set(o.host))
    print("\n".join(f"{count} cases with an op on the host: {text}" for text, count in hosts.most_common(20)))
    counts = Counter(o.kind for o in found)
    rows = family_rows(found)
    through = sum(o.kind == "right" and o.kernels for o in found)
    figures = {"total": len(found), **{k: counts[k] for k in KEYS}, "through_kernels": through}
    print(table(rows))
    print()
    print(table([{**figures, "seconds": time.perf_counter() - start}]))
    by_family = {r["family"]: {k: r[k] for k in ("total", "right", "views", "float64", "through_kernels", "percent")} for r in rows}
    return finish("onnx_nodes", {**figures, "families": by_family}, args.json)


if __name__ == "__main__":
    sys.exit(main())
