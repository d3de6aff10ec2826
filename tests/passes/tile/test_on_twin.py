# SPDX-License-Identifier: Apache-2.0
"""Lowered kernels as C++ on the host twin in check mode: right values and no violation of a rule of the machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, F16, F32
from gaf.dialects.tile.interpreter import interpret
from gaf.dialects.tile.structure import KernelOp
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT
from tests.dialects.tile import kernels
from tests.passes.tile.test_lower_tile import make_inputs

Case = tuple[Callable[..., KernelOp], dict[str, int]]

QUICK: list[Case] = [
    (kernels.layernorm, {"M": 90, "K": 70}),
    (kernels.matmul_layernorm, {"M": 200, "N": 33, "K": 129}),
]
ALL: list[Case] = [
    *QUICK,
    (kernels.elementwise, {"M": 13, "K": 700}),
    (kernels.softmax, {"M": 41, "K": 200}),
    (kernels.streamed_softmax, {"M": 13, "K": 2100}),
    (kernels.column_sum, {"R": 77, "N": 1500}),
    (kernels.gather, {"V": 9, "M": 11, "K": 33}),
    (kernels.masked, {"M": 13, "K": 70}),
    (kernels.matmul_gelu, {"M": 330, "N": 140, "K": 300}),
    (kernels.split_sum, {"R": 77, "N": 150}),
    (kernels.integers, {"M": 13, "K": 70}),
]
WITHOUT_DTYPE = (kernels.split_sum, kernels.integers)

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def run_all(cases: list[Case], dtype: dt.DType, mode: str) -> None:
    jobs = []
    for make, symbols in cases:
        kernel = make() if make in WITHOUT_DTYPE else make(dtype)
        bind_tiles(kernel, DEFAULT)
        lowered = lower_kernel(kernel, DEFAULT)
        insert_sync(lowered)
        jobs.append((kernel, lowered, symbols))
    built = build_kernels([(low.sym_name.data, print_kernel(low)) for _, low, _ in jobs], mode=mode)
    for kernel, lowered, symbols in jobs:
        name = kernel.sym_name.data
        launch = HostTiling(lowered).evaluate(symbols)
        arrays = make_inputs(kernel, symbols)
        want = interpret(kernel, arrays, symbols)
        got = {n: np.zeros_like(a) for n, a in want.items()}
        args = [np.ascontiguousarray(arrays.get(n, got.get(n))) for n in kernel.arg_names.data]
        result = built[name].launch(args, launch.workspace, launch.packed, launch.blocks, outputs=len(got))
        assert not result.deadlock, f"{name}: deadlock"
        assert result.total == 0, f"{name}: {result.message}"
        outputs = dict(zip(kernel.arg_names.data, args, strict=True))
        for output, array in want.items():
            kind = dt.of_numpy(array.dtype)
            if kind.is_float:
                np.testing.assert_allclose(
                    outputs[output].astype(float),
                    array.astype(float),
                    rtol=max(1e-5, 2 * kind.eps),
                    atol=max(1e-5, kind.eps),
                    err_msg=f"{name} {output}",
                )
            else:
                np.testing.assert_array_equal(outputs[output], array, err_msg=f"{name} {output}")


def test_a_vector_and_a_mix_kernel_in_check_mode() -> None:
    run_all(QUICK, F16, "check")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("mode", ["check", "fast"])
def test_all_kernels(dtype: dt.DType, mode: str) -> None:
    run_all(ALL, dtype, mode)
