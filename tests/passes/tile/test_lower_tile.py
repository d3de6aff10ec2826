# SPDX-License-Identifier: Apache-2.0
"""The lowered kernel computes what the tile kernel means: both interpreters on the same inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, F16, F32, I32, I64
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.target import DEFAULT
from tests.dialects.tile import kernels

FLOATS = [F32, F16, BF16]


def make_inputs(
    kernel: KernelOp, symbols: dict[str, int], seed: int = 0, **given: np.ndarray
) -> dict[str, np.ndarray]:
    """Random arrays for the inputs of a kernel; `given` ones are taken as they are."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for name, arg in zip(kernel.arg_names.data, kernel.body.block.args, strict=True):
        assert isinstance(arg.type, GmType)
        if arg.type.role != "in":
            continue
        shape = tuple(d.evaluate(symbols) for d in arg.type.shape)
        kind = arg.type.dtype
        if name in given:
            arrays[name] = given[name]
        elif kind.is_bool:
            arrays[name] = rng.random(shape) < 0.5
        elif kind.is_int:
            arrays[name] = rng.integers(0, 9, shape).astype(kind.numpy)
        else:
            arrays[name] = rng.standard_normal(shape).astype(kind.numpy)
    return arrays


def check(
    kernel: KernelOp, symbols: dict[str, int], ulps: float = 4, atol: float = 1e-6, blocks: int | None = None,
    **given: np.ndarray,
) -> None:  # fmt: skip
    """Both levels agree within `ulps` units of the output dtype (the order of sums differs)."""
    arrays = make_inputs(kernel, symbols, **given)
    want = run_tile(kernel, arrays, symbols)
    lowered = lower_kernel(kernel, DEFAULT)
    got = run_ascendc(lowered, arrays, symbols, blocks)
    assert got.keys() == want.keys()
    for name in want:
        kind = dt.of_numpy(want[name].dtype)
        assert got[name].dtype == want[name].dtype
        if kind.is_float:
            np.testing.assert_allclose(
                got[name].astype(float),
                want[name].astype(float),
                rtol=ulps * kind.eps,
                atol=atol,
                err_msg=name,
            )
        else:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name)


SIZES = [(1, 1), (8, 64), (13, 70), (3, 200), (41, 7)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "k"), SIZES)
@pytest.mark.parametrize(
    "make",
    [kernels.elementwise, kernels.softmax, kernels.streamed_softmax, kernels.layernorm, kernels.masked],
    ids=lambda f: f.__name__,
)
def test_rows_and_lanes(make: Callable[..., KernelOp], m: int, k: int, dtype: dt.DType) -> None:
    check(make(dtype), {"M": m, "K": k}, ulps=16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("r", "n"), [(1, 1), (77, 150), (16, 64), (5, 1000)])
def test_column_sum(r: int, n: int, dtype: dt.DType) -> None:
    check(kernels.column_sum(dtype), {"R": r, "N": n}, atol=1e-5)


@pytest.mark.parametrize("ids", [I32, I64], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gather(dtype: dt.DType, ids: dt.DType) -> None:
    index = np.array([0, -1, 8, -9, 3, 3, 7, 1, 2, 0, 5], ids.numpy)
    check(kernels.gather(dtype, ids), {"V": 9, "M": 11, "K": 33}, ids=index)


@pytest.mark.parametrize(("m", "k"), SIZES)
def test_coordinates(m: int, k: int) -> None:
    check(kernels.integers(), {"M": m, "K": k})


def test_split_sum_with_a_barrier() -> None:
    check(kernels.split_sum(), {"R": 77, "N": 150}, atol=1e-5)


MATMULS = [(1, 16, 1), (130, 140, 30), (64, 256, 77), (200, 33, 129)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), MATMULS)
def test_matmul_with_epilogue(m: int, n: int, k: int, dtype: dt.DType) -> None:
    check(kernels.matmul_gelu(dtype), {"M": m, "N": n, "K": k}, atol=2e-5)
    check(kernels.matmul_gelu(dtype, trans_b=True), {"M": m, "N": n, "K": k}, atol=2e-5, blocks=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), MATMULS)
def test_matmul_with_complete_rows(m: int, n: int, k: int, dtype: dt.DType) -> None:
    check(kernels.matmul_layernorm(dtype), {"M": m, "N": n, "K": k}, ulps=16, atol=2e-5)
