# SPDX-License-Identifier: Apache-2.0
"""The six printed kernels on the host twin: right values in both modes, no violations in check mode."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc import KernelOp
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import TwinKernel, build_kernels
from tests.dialects.ascendc.kernels import CASES, arrays_of, expected

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def kernel_of(name: str) -> KernelOp:
    kernel = CASES[name].build()
    insert_sync(kernel)
    return kernel


@pytest.fixture(scope="module", params=["fast", "check"])
def built(request: pytest.FixtureRequest) -> Mapping[str, TwinKernel]:
    return build_kernels([(name, print_kernel(kernel_of(name))) for name in CASES], mode=request.param)


RUNS = [(name, sizes) for name, case in CASES.items() for sizes in case.sizes]


@pytest.mark.parametrize(
    ("name", "sizes"), RUNS, ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v.values()))
)
def test_kernel_on_the_twin(built: Mapping[str, TwinKernel], name: str, sizes: dict[str, int]) -> None:
    case, kernel = CASES[name], kernel_of(name)
    arrays = arrays_of(case, sizes)
    launch = HostTiling(kernel).evaluate(sizes)
    inputs = [arrays[n] for n, _, role, _ in kernel.args if role == "in"]
    outputs = {
        n: np.empty(tuple(d.evaluate(sizes) for d in shape), kind.dtype.numpy)
        for n, kind, role, shape in kernel.args
        if role == "out"
    }
    result = built[name].launch(
        [*inputs, *outputs.values()], launch.workspace, launch.packed, launch.blocks, outputs=len(outputs)
    )
    assert not result.deadlock
    assert not result.violations, result.message
    for output, want in expected(case, arrays).items():
        np.testing.assert_allclose(
            outputs[output].astype(np.float64), want, rtol=case.tolerance, atol=case.tolerance
        )


@pytest.mark.parametrize("name", [n for n in CASES if n != "gather_rows"])
def test_check_mode_misses_the_barriers_of_a_kernel_without_them(name: str) -> None:
    """The kernels need their barriers: without `insert-sync` check mode names the missing ones."""
    case, kernel = CASES[name], CASES[name].build()
    sizes = case.sizes[-1]
    arrays = arrays_of(case, sizes)
    twin = build_kernels([(name, print_kernel(kernel))], mode="check")[name]
    launch = HostTiling(kernel).evaluate(sizes)
    inputs = [arrays[n] for n, _, role, _ in kernel.args if role == "in"]
    outputs = [
        np.empty(tuple(d.evaluate(sizes) for d in s), k.dtype.numpy)
        for _, k, r, s in kernel.args
        if r == "out"
    ]
    result = twin.launch(
        [*inputs, *outputs], launch.workspace, launch.packed, launch.blocks, outputs=len(outputs)
    )
    assert {v["rule"] for v in result.violations} == {"missing-barrier"}
    assert all(v["node"] for v in result.violations)
