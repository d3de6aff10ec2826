# SPDX-License-Identifier: Apache-2.0
"""Random shapes: broadcasting, reshapes, slices, pads and reductions agree with numpy and with their maps."""

from __future__ import annotations

import numpy as np
from hypothesis import assume as given_that
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from gaf.dialects.common.index import expr, product
from gaf.dialects.graph import registry
from gaf.dialects.graph.ops.shape import matching_groups
from tests.dialects.graph.harness import build, import_node, run_meaning, run_ops, type_of, value

SIZES = st.integers(0, 4)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)


def op(name: str):
    return registry.by_name(f"graph.{name}")


def check(name: str, arrays: list[np.ndarray], attrs: dict) -> list[np.ndarray]:
    """Types, reference and meaning of one op agree; returns the results."""
    built = build(op(name), arrays, attrs)
    built.verify()
    results = built.reference(*arrays)
    for array, type_ in zip(results, built.result_tensor_types(), strict=True):
        assert array.shape == type_.static_shape() and array.dtype == type_.dtype.numpy
    for got, want in zip(run_meaning(built, arrays) or [], results):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return list(results)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    full = draw(SHAPES)
    shapes = []
    for _ in range(count):
        rank = draw(st.integers(0, len(full)))
        shapes.append(tuple(1 if draw(st.booleans()) else d for d in full[len(full) - rank :]))
    return shapes


@given(broadcastable(2))
def test_binary_broadcast(shapes: list[tuple[int, ...]]) -> None:
    a, b = map(numbers, shapes)
    (got,) = check("add", [a, b], {})
    np.testing.assert_array_equal(got, a + b)


@given(broadcastable(3))
def test_where_broadcast(shapes: list[tuple[int, ...]]) -> None:
    c, a, b = map(numbers, shapes)
    (got,) = check("where", [c > 0, a, b], {})
    np.testing.assert_array_equal(got, np.where(c > 0, a, b))


@st.composite
def factorisations(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of one number of elements, with ones."""
    primes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5]), max_size=5))

    def group() -> tuple[int, ...]:
        order = draw(st.permutations(primes))
        dims: list[int] = []
        for p in order:
            if dims and draw(st.booleans()):
                dims[-1] *= p
            else:
                dims.append(p)
        return tuple(dims)

    return group(), group()


@given(factorisations())
def test_reshape_maps(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    source, target = shapes
    x = np.arange(np.prod(source, dtype=int), dtype=np.float32).reshape(source)
    (got,) = check("reshape", [x], {"shape": tuple(map(expr, target))})
    np.testing.assert_array_equal(got, x.reshape(target))


@given(factorisations())
def test_matching_groups_cover_all_dims(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (tuple(map(expr, s)) for s in shapes)
    groups = matching_groups(a, b)
    assert [i for g, _ in groups for i in g] == list(range(len(a)))
    assert [j for _, g in groups for j in g] == list(range(len(b)))
    for left, right in groups:
        assert product(a[i] for i in left) == product(b[j] for j in right)


@given(st.data(), SHAPES.filter(bool))
def test_slices_as_numpy(data: st.DataObject, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    bound = st.one_of(st.integers(-6, 6), st.sampled_from([-(2**63), 2**63 - 1, 2**31 - 1]))
    start, end, step = data.draw(bound), data.draw(bound), data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
    x = numbers(shape)
    # Going down, the standard clamps a start before the first element to it; numpy takes nothing.
    given_that(step > 0 or start >= -x.shape[axis])
    known = [np.asarray([v], np.int64) for v in (start, end, axis, step)]
    values = [value(type_of(a)) for a in (x, *known)]
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    ctx, (result,) = import_node(node, values, 17, dict(zip(values[1:], known)))
    env = dict(zip(values, (x, *known)))
    run_ops(ctx.ops, env)
    window = tuple(slice(start, end, step) if i == axis else slice(None) for i in range(len(shape)))
    np.testing.assert_array_equal(env[result], x[window])
    for made in ctx.ops:
        check(made.name.removeprefix("graph."), [x], made.attrs())


@given(st.data(), SHAPES, st.sampled_from(["constant", "edge", "reflect", "wrap"]))
def test_pads_as_numpy(data: st.DataObject, shape: tuple[int, ...], mode: str) -> None:
    given_that(mode == "constant" or 0 not in shape)
    limit = {"reflect": lambda n: n - 1}.get(mode, lambda n: 3)
    pads = [tuple(data.draw(st.integers(0, max(limit(n), 0))) for _ in range(2)) for n in shape]
    x = numbers(shape)
    attrs = {
        "before": tuple(expr(p) for p, _ in pads),
        "after": tuple(expr(p) for _, p in pads),
        "mode": mode,
        "value": -1.5,
    }
    (got,) = check("pad", [x], attrs)
    extra = {"constant_values": -1.5} if mode == "constant" else {}
    np.testing.assert_array_equal(got, np.pad(x, pads, mode=mode, **extra) if shape else x)


@given(
    st.data(),
    SHAPES,
    st.booleans(),
    st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "reduce_log_sum_exp"]),
)
def test_reductions_as_numpy(data: st.DataObject, shape: tuple[int, ...], keepdims: bool, name: str) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))) if shape else ())
    given_that(not any(shape[a] == 0 for a in axes) or name == "reduce_sum")
    x = numbers(shape)
    (got,) = check(name, [x], {"axes": axes, "keepdims": keepdims})
    wide = x.astype(np.float64)
    want = {
        "reduce_sum": lambda: wide.sum(axes, keepdims=keepdims),
        "reduce_mean": lambda: wide.mean(axes, keepdims=keepdims) if axes else wide,
        "reduce_max": lambda: wide.max(axes, keepdims=keepdims) if axes else wide,
        "reduce_log_sum_exp": lambda: np.log(np.exp(wide).sum(axes, keepdims=keepdims)),
    }[name]()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@given(st.permutations(range(4)), st.lists(SIZES, min_size=4, max_size=4))
def test_transposes_as_numpy(perm: list[int], shape: list[int]) -> None:
    x = numbers(tuple(shape))
    (got,) = check("transpose", [x], {"perm": tuple(perm)})
    np.testing.assert_array_equal(got, x.transpose(perm))


@given(broadcastable(2), st.integers(1, 4), st.integers(0, 4), st.integers(1, 4))
def test_matmul_batch_broadcast(batch: list[tuple[int, ...]], m: int, k: int, n: int) -> None:
    a, b = numbers((*batch[0], m, k)), numbers((*batch[1], k, n))
    (got,) = check("matmul", [a, b], {})
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
