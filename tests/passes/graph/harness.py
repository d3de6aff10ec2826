# SPDX-License-Identifier: Apache-2.0
"""Small graphs as text, passes on them, and the comparison of what they compute before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from gaf.dialects.graph import Graph
from gaf.dialects.graph.model import Model, WeightStore
from gaf.passes.boundary import check_level
from gaf.passes.driver import record_rewrites
from gaf.passes.pipeline import run_pipeline

# what elementwise rules get wrong first
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, 0.5, -2.5, 7.0]


def t(*dims: int | str, dtype: str = "f32") -> str:
    """The text of a tensor type."""
    return f"!graph.tensor<[{', '.join(map(str, dims))}], {dtype}>"


def f32(value: float | Sequence[float], *shape: int) -> str:
    """The text of an f32 constant's attributes and type: all elements `value`, or the given ones."""
    return array(value, "f32", shape)


def array(value: object, dtype: str, shape: Sequence[int]) -> str:
    """The text `{value = ...} : () -> type` of a `graph.constant`."""
    values = list(value) if isinstance(value, list | tuple) else [value] * int(np.prod(shape))
    body = ", ".join(map(str, values))
    return f"{{value = #graph.array<{dtype} {list(shape)} : {body}>}} : () -> {t(*shape, dtype=dtype)}"


def model_of(
    inputs: str, outputs: str, body: str, returned: str, weights: Mapping[str, np.ndarray] | None = None
) -> Model:
    """The model `func @main(inputs) -> (outputs) { body; return returned }`, verified."""
    types = f" : {outputs}" if returned else ""
    text = f"func.func @main({inputs}) -> ({outputs}) {{\n{body}\nfunc.return {returned}{types}\n}}"
    ctx = Context()
    for dialect in (Builtin, Func, Graph):
        ctx.load_dialect(dialect)
    model = Model(Parser(ctx, text).parse_module(), WeightStore(weights))
    check_level(model.module, "graph")
    return model


def run(model: Model, pipeline: str) -> tuple[Model, Counter[str]]:
    """A copy of `model` after the passes, checked; and how often each canonicalization rule fired."""
    copy = model.clone()
    with record_rewrites(verify_touched=True) as log:
        run_pipeline(copy.module, pipeline)
    return copy, log.fired.get("canonicalize", Counter())


def names(model: Model) -> list[str]:
    """The graph ops of a model in order, without their dialect."""
    return [op.name.removeprefix("graph.") for op in model.block.ops if op.name.startswith("graph.")]


def random_inputs(
    model: Model, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Random inputs for a model; float ones hold `SPECIAL` values, too."""
    rng = np.random.default_rng(seed)
    result = {}
    for name, type_ in zip(model.input_names, model.input_types):
        shape = type_.concrete(dict(sizes or {}))
        count = int(np.prod(shape))
        if type_.dtype.is_float:
            values = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)
            special = rng.permutation(np.resize(SPECIAL, count // 2))
            values[: len(special)] = special
        elif type_.dtype.is_bool:
            values = rng.integers(0, 2, count)
        else:
            values = rng.integers(0 if type_.dtype.kind == "uint" else -100, 100, count)
        with np.errstate(all="ignore"):
            result[name] = rng.permutation(values).reshape(shape).astype(type_.dtype.numpy)
    return result


def assert_same(
    before: Model,
    after: Model,
    *,
    ulps: float = 0,
    wide: bool = True,
    wide_rtol: float = 0,
    sizes: Mapping[str, int] | None = None,
    seeds: int = 3,
) -> None:
    """Both compute the same on random inputs: in the model's dtypes within `ulps`, and in float64.

    With 0 ulps the results have the same bits, except those of NaN. `wide_rtol` is for passes that round
    to the model's dtypes, which the float64 run of the original does not.
    """
    for seed in range(seeds):
        inputs = random_inputs(before, seed, sizes)
        for in_float64 in (False, True) if wide else (False,):
            with np.errstate(all="ignore"):
                expected, got = before.run(inputs, wide=in_float64), after.run(inputs, wide=in_float64)
            assert list(expected) == list(got)
            for name in expected:
                eps = np.finfo(np.float64).eps
                _assert_close(
                    expected[name], got[name], wide_rtol / eps if in_float64 and wide_rtol else ulps
                )


def _assert_close(expected: np.ndarray, got: np.ndarray, ulps: float) -> None:
    assert expected.dtype == got.dtype and expected.shape == got.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    from ml_dtypes import finfo

    a, b = expected.astype(np.float64), got.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(b), np.isnan(a))
    ok = ~np.isnan(a)
    np.testing.assert_array_equal(np.signbit(b[ok]), np.signbit(a[ok]))
    if not ulps:
        np.testing.assert_array_equal(b[ok], a[ok])
        return
    info = finfo(expected.dtype)
    finite = ok & np.isfinite(a) & np.isfinite(b)
    np.testing.assert_array_equal(b[ok & ~finite], a[ok & ~finite])
    spacing = np.maximum(np.abs(a[finite]) * float(info.eps), float(info.smallest_subnormal))
    assert np.all(np.abs(a[finite] - b[finite]) <= ulps * spacing)
