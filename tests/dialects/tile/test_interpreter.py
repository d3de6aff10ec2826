# SPDX-License-Identifier: Apache-2.0
"""The tile interpreter against numpy, in any order of grid points, and what it detects."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, F16, F32, I32, I64
from gaf.dialects.tile.interpreter import ExecutionError, interpret
from gaf.errors import GafError, InvalidInputError

from . import kernels

ORDERS = ["forward", "reverse", "random:7"]
SIZES = [(1, 1), (8, 64), (13, 70), (3, 200)]
rng = np.random.default_rng(5)


def normal(*shape: int, dtype: dt.DType = F32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype.numpy)


def softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    mean = x.mean(1, keepdims=True)
    var = ((x - mean) ** 2).mean(1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gamma + beta


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("m", "k"), SIZES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_softmax(m: int, k: int, dtype: dt.DType, order: str) -> None:
    x = normal(m, k, dtype=dtype) * dtype.numpy.type(3)
    for make in (kernels.softmax, kernels.streamed_softmax):
        y = interpret(make(dtype), {"x": x}, {"M": m, "K": k}, order=order)["y"]
        assert y.dtype == dtype.numpy
        np.testing.assert_allclose(y.astype(float), softmax(x), rtol=4 * dtype.eps, atol=1e-7)


@pytest.mark.parametrize(("m", "k"), SIZES)
def test_wide_is_float64(m: int, k: int) -> None:
    x = normal(m, k, dtype=F16)
    y = interpret(kernels.streamed_softmax(F16), {"x": x}, {"M": m, "K": k}, wide=True)["y"]
    np.testing.assert_allclose(y, softmax(x), rtol=1e-13)


@pytest.mark.parametrize(("m", "k"), SIZES)
def test_elementwise_broadcast(m: int, k: int) -> None:
    a = {"x": normal(m, k), "gamma": normal(k), "c": normal(m), "r": normal(m, k)}
    y = interpret(kernels.elementwise(), a, {"M": m, "K": k}, wide=True)["y"]
    z = a["x"].astype(float) * a["gamma"] + a["c"][:, None]
    np.testing.assert_allclose(y, gelu(z) + a["r"], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("m", "k"), SIZES)
def test_layernorm(m: int, k: int) -> None:
    a = {"x": normal(m, k), "gamma": normal(k), "beta": normal(k)}
    y = interpret(kernels.layernorm(), a, {"M": m, "K": k})["y"]
    want = layer_norm(a["x"].astype(float), a["gamma"], a["beta"])
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [kernels.column_sum, kernels.split_sum])
@pytest.mark.parametrize("order", ORDERS)
def test_sums_over_rows(make, order: str) -> None:
    x = normal(77, 150)
    y = interpret(make(), {"x": x}, {"R": 77, "N": 150}, order=order)["y"]
    np.testing.assert_allclose(y, x.astype(float).sum(0), atol=1e-4)


@pytest.mark.parametrize("ids", [I32, I64], ids=str)
def test_gather_with_negative_indices(ids: dt.DType) -> None:
    table, p = normal(9, 20), normal(20)
    index = np.array([0, -1, 8, -9, 3], ids.numpy)
    y = interpret(kernels.gather(ids=ids), {"table": table, "ids": index, "p": p}, {"V": 9, "M": 5, "K": 20})[
        "y"
    ]
    np.testing.assert_array_equal(y, table[index] + p)


def test_gather_out_of_bounds() -> None:
    arrays = {"table": normal(9, 20), "ids": np.array([0, 9], np.int64), "p": normal(20)}
    with pytest.raises(ExecutionError, match="dimension 0 of 'table'; expected 0 to 8, got 9"):
        interpret(kernels.gather(), arrays, {"V": 9, "M": 2, "K": 20})


def test_predicates_and_select() -> None:
    x, mask = normal(11, 33), rng.random((11, 33)) < 0.5
    x[0, 0] = np.nan
    out = interpret(kernels.masked(), {"x": x, "mask": mask}, {"M": 11, "K": 33})
    np.testing.assert_array_equal(out["y"], np.where(mask, x, np.float32(-1)))
    np.testing.assert_array_equal(out["positive"], x > 0)


def test_coordinates_as_data() -> None:
    x = rng.integers(-9, 9, (13, 21)).astype(np.int32)
    y = interpret(kernels.integers(), {"x": x}, {"M": 13, "K": 21})["y"]
    np.testing.assert_array_equal(y, x + np.arange(13 * 21).reshape(13, 21))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (130, 140, 30), (64, 256, 77)])
def test_matmuls(m: int, n: int, k: int, order: str) -> None:
    a, w, bias, res = normal(m, k), normal(k, n), normal(n), normal(m, n)
    gamma, beta = normal(n), normal(n)
    sizes = {"M": m, "N": n, "K": k}
    want = a.astype(float) @ w
    y = interpret(kernels.matmul(), {"a": a, "w": w}, sizes, order=order)["y"]
    np.testing.assert_allclose(y, want, atol=1e-4)
    y = interpret(kernels.matmul_gelu(), {"a": a, "w": w, "bias": bias}, sizes, order=order)["y"]
    np.testing.assert_allclose(y, gelu(want + bias), atol=1e-4)
    y = interpret(kernels.matmul_gelu(trans_b=True), {"a": a, "w": w.T, "bias": bias}, sizes, order=order)[
        "y"
    ]
    np.testing.assert_allclose(y, gelu(want + bias), atol=1e-4)
    arrays = {"a": a, "w": w, "res": res, "gamma": gamma, "beta": beta}
    y = interpret(kernels.matmul_layernorm(), arrays, sizes, wide=True, order=order)["y"]
    np.testing.assert_allclose(y, layer_norm(want + res, gamma, beta), rtol=1e-7, atol=1e-7)


VIEWS = """
tile.kernel @shuffle(%x: !tile.gm<[M, K], f32>, %z: !tile.gm<[M, L], f32>, %y: !tile.gm<[K + L - 3, M], f32, out>)
    symbols [M, K, L] axes [m = M, j = K + L - 3] {
  tile.grid [j step 16, m step 32] {
    %a = tile.load %x[m, j + 3] where [j in 0 to K - 3] else 0 : !tile.t<[m, j], f32>
    %b = tile.load %z[m, j - K + 3] where [j in K - 3 to K - 3 + L] else 0 : !tile.t<[m, j], f32>
    %s = tile.map add(%a, %b) : !tile.t<[m, j], f32>
    %t = tile.view %s[] : !tile.t<[j, m], f32>
    tile.store %t, %y[j, m]
  }
}"""


def test_slice_concat_transpose() -> None:
    x, z = normal(37, 11), normal(37, 20)
    y = interpret(kernels.parse_kernel(VIEWS), {"x": x, "z": z}, {"M": 37, "K": 11, "L": 20})["y"]
    np.testing.assert_array_equal(y, np.concatenate([x[:, 3:], z], 1).T)


POOL = """
tile.kernel @pool(%x: !tile.gm<[H], f32>, %y: !tile.gm<[O], f32, out>)
    symbols [H, O] axes [o = O, i = 3, ih hull o * 2 + i - 1] {
  tile.grid [o step 4] {
    %x0 = tile.load %x[ih] where [ih in 0 to H] else -inf : !tile.t<[ih], f32>
    %v = tile.view %x0[ih = o * 2 + i - 1] : !tile.t<[o, i], f32>
    %r = tile.reduce max(%v) over [i] : !tile.t<[o], f32>
    tile.store %r, %y[o]
  }
}"""


def test_halo_of_a_pooling() -> None:
    x = normal(19)
    y = interpret(kernels.parse_kernel(POOL), {"x": x}, {"H": 19, "O": 10})["y"]
    padded = np.pad(x, 1, constant_values=-np.inf)
    np.testing.assert_array_equal(y, [padded[2 * o : 2 * o + 3].max() for o in range(10)])


CUMSUM = """
tile.kernel @cumsum(%x: !tile.gm<[M, K], f32>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] axes [m = M, k = K] {
  tile.grid [m step 4] {
    %z = tile.fill 0 : !tile.t<[m], f32>
    %e = tile.for k step 8 iter(%c = %z) {
      %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
      %p, %n = tile.scan sum(%t, %c) over [k]
      tile.store %p, %y[m, k]
      tile.yield %n
    }
  }
}"""


def test_scan_with_a_carry() -> None:
    x = normal(7, 30)
    text = CUMSUM
    y = interpret(kernels.parse_kernel(text), {"x": x}, {"M": 7, "K": 30})["y"]
    np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=np.float32))


SCATTER = """
tile.kernel @scatter(%x: !tile.gm<[M, K], f32>, %ids: !tile.gm<[M], i32>, %y: !tile.gm<[V, K], f32, out>)
    symbols [M, K, V] axes [m = M, k = K] {
  tile.grid [m step 4] {
    %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
    tile.store %t, %y[read ids[m], k] add
  }
}"""


def test_scatter_add() -> None:
    x, ids = normal(13, 5), rng.integers(0, 4, 13).astype(np.int32)
    y = interpret(kernels.parse_kernel(SCATTER), {"x": x, "ids": ids}, {"M": 13, "K": 5, "V": 6})["y"]
    want = np.zeros((6, 5), np.float32)
    np.add.at(want, ids, x)
    np.testing.assert_allclose(y, want, atol=1e-6)


EMPTY_LOOP = """
tile.kernel @empty(%x: !tile.gm<[M, K], f32>, %y: !tile.gm<[M], f32, out>) symbols [M, K] axes [m = M, k = K] {
  tile.grid [m step 4] {
    %z = tile.fill -inf : !tile.t<[m], f32>
    %e = tile.for k step 8 in 2 to K - 3 iter(%c = %z) {
      %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
      %r = tile.reduce max(%t) over [k] : !tile.t<[m], f32>
      %n = tile.merge max(%c | %r)
      tile.yield %n
    }
    tile.store %e, %y[m]
  }
}"""


@pytest.mark.parametrize("k", [3, 5, 6, 40])
def test_loop_bounds(k: int) -> None:
    x = normal(6, k)
    y = interpret(kernels.parse_kernel(EMPTY_LOOP), {"x": x}, {"M": 6, "K": k})["y"]
    np.testing.assert_array_equal(y, x[:, 2 : max(2, k - 3)].max(1, initial=-np.inf))


def kernel_with(body: str, header: str = "") -> str:
    return (
        "tile.kernel @f(%x: !tile.gm<[M], f32>, %y: !tile.gm<[M], f32, out>) symbols [M] axes [m = M] "
        f"{header} {{\n {body} \n}}"
    )


LOAD = "%t = tile.load %x[m] : !tile.t<[m], f32>"

DETECTED = [
    (
        "load",
        kernel_with("%t = tile.load %x[m + 1] : !tile.t<[m], f32>\ntile.store %t, %y[m]"),
        "index out of bounds",
    ),
    ("store", kernel_with(f"{LOAD}\ntile.store %t, %y[m - 1]"), "index out of bounds in dimension 0 of 'y'"),
    (
        "unwritten",
        kernel_with(f"{LOAD}\ntile.store %t, %y[m] where [m in 0 to M - 1]"),
        "1 of 5 elements .* never",
    ),
    ("twice", kernel_with(f"{LOAD}\ntile.store %t, %y[m]\ntile.store %t, %y[m]"), "written twice"),
    (
        "view",
        kernel_with(f"{LOAD}\n%v = tile.view %t[m = m + 1] : !tile.t<[m], f32>\ntile.store %v, %y[m]"),
        "outside the window of 'm'",
    ),
    (
        "unwritten workspace",
        kernel_with(
            "%w = tile.workspace : !tile.gm<[M], f32, ws>\n%t = tile.load %w[m] : !tile.t<[m], f32>\n"
            "tile.store %t, %y[m]"
        ),
        "read before it is written",
    ),
    (
        "missing sync",
        kernel_with(
            f"%w = tile.workspace : !tile.gm<[M], f32, ws>\ntile.grid [m step 2] {{ {LOAD}\n tile.store %t, %w[m] }}\n"
            "tile.grid [m step 3] { %u = tile.load %w[m] : !tile.t<[m], f32>\n tile.store %u, %y[m] }"
        ),
        "another core wrote since the last sync",
    ),
    (
        "collected too little",
        kernel_with(
            f"%h = tile.for m step 2 in 0 to M - 1 {{ {LOAD}\n tile.yield collect %t }}\ntile.store %h, %y[m]"
        ),
        "used outside its window",
    ),
    (
        "kernel guard",
        kernel_with(f"{LOAD}\ntile.store %t, %y[m]", "guards [M - 9]"),
        "expected M - 9 >= 0, got -4",
    ),
    (
        "call",
        kernel_with("%t = tile.call @sort() : !tile.t<[m], f32>\ntile.store %t, %y[m]"),
        "no numpy meaning",
    ),
]


@pytest.mark.parametrize(("text", "message"), [d[1:] for d in DETECTED], ids=[d[0] for d in DETECTED])
def test_detects(text: str, message: str) -> None:
    with pytest.raises(GafError, match=message):
        interpret(kernels.parse_kernel(text), {"x": normal(5)}, {"M": 5})


def test_wrong_inputs() -> None:
    kernel = kernels.softmax()
    with pytest.raises(InvalidInputError, match="no value for symbol 'K'"):
        interpret(kernel, {"x": normal(2, 3)}, {"M": 2})
    with pytest.raises(InvalidInputError, match=r"expected f32\[2, 3\], got float32\[3, 2\]"):
        interpret(kernel, {"x": normal(3, 2)}, {"M": 2, "K": 3})
    with pytest.raises(InvalidInputError, match="no array for argument 'x'"):
        interpret(kernel, {}, {"M": 2, "K": 3})


def test_parameters_can_be_given() -> None:
    x = normal(13, 70)
    for tm in (1, 5, 100):
        y = interpret(kernels.streamed_softmax(), {"x": x}, {"M": 13, "K": 70}, params={"tm": tm, "tk": 9})[
            "y"
        ]
        np.testing.assert_allclose(y, softmax(x), rtol=1e-5)


def test_symbolic_call() -> None:
    from gaf.dialects.tile.interpreter import TILE_FUNCTIONS

    kernel = kernels.parse_kernel(
        kernel_with(f"{LOAD}\n%s = tile.call @sort(%t) : !tile.t<[m], f32>\ntile.store %s, %y[m]")
    )
    x = normal(9)
    TILE_FUNCTIONS["sort"] = np.sort
    try:
        np.testing.assert_array_equal(interpret(kernel, {"x": x}, {"M": 9})["y"], np.sort(x))
    finally:
        del TILE_FUNCTIONS["sort"]
