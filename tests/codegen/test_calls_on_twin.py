# SPDX-License-Identifier: Apache-2.0
"""Every API call printed and run on the host twin gives what the interpreter computes, without violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc import KernelOp
from gaf.dialects.ascendc.interpreter import interpret
from gaf.dialects.common import dtype as dt
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import TwinKernel, build_kernels
from tests.dialects.ascendc import test_calls as calls

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@dataclass(frozen=True)
class Entry:
    kernel: KernelOp
    arrays: Mapping[str, np.ndarray]


def entries() -> dict[str, Entry]:
    """A kernel per call and set of parameters."""
    found: dict[str, Entry] = {}
    for entry in calls.CALLS:
        cls, operands, _, shape, scratch, params = entry
        if scratch is not None and callable(scratch[1]):
            scratch = (scratch[0], scratch[1](cls))
        arrays = calls.inputs()
        found[calls.call_id(entry)] = Entry(
            calls.call_kernel(cls, operands, arrays, shape, scratch, **params), arrays
        )
    for source, target, mode, as_tile in calls.PAIRS:
        kernel = calls.cast_kernel(source, target, mode, as_tile)
        x = calls.cast_values(source).reshape(kernel.args[0][3][0].as_int(), -1)
        found[f"{source.name}-{target.name}-{mode}-{'tile' if as_tile else 'count'}"] = Entry(
            kernel, {"x": x}
        )
    for kind in (dt.F16, dt.F32):
        found[f"data_copy_pad-{kind.name}"] = Entry(
            calls.pad_kernel(kind), {"x": np.arange(64).astype(kind.numpy)}
        )
    for i, entry_ in enumerate(found.values()):
        entry_.kernel.properties["sym_name"] = StringAttr(f"k{i}")
        insert_sync(entry_.kernel)
    return found


ENTRIES = entries()


@pytest.fixture(scope="module", params=["fast", "check"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def library(mode: str) -> TwinKernel:
    """All kernels in one library: the entries of all but the first are made here."""
    source = [print_kernel(e.kernel) for e in ENTRIES.values()]
    launchers = "".join(f"GAF_TWIN_ENTRY(k{i})\n" for i in range(1, len(source)))
    return build_kernels(
        [("k0", "\n".join([*source, '#include "gaf_twin_launch.h"', launchers]))], mode=mode
    )["k0"]


@pytest.mark.parametrize("name", ENTRIES)
def test_call(library: TwinKernel, mode: str, name: str) -> None:
    kernel, arrays = ENTRIES[name].kernel, ENTRIES[name].arrays
    twin = TwinKernel(library.path, kernel.sym_name.data, mode)
    launch = HostTiling(kernel).evaluate({})
    (out,) = (
        np.empty(tuple(d.evaluate({}) for d in s), k.dtype.numpy) for _, k, r, s in kernel.args if r == "out"
    )
    inputs = [np.ascontiguousarray(arrays[n]) for n, _, role, _ in kernel.args if role == "in"]
    result = twin.launch([*inputs, out], launch.workspace, launch.packed, launch.blocks, outputs=1)
    assert not result.violations, result.message
    (want,) = interpret(kernel, arrays, {}).values()
    if out.dtype.kind in "iu":
        assert np.array_equal(out, want)
    else:
        np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=2e-5, atol=1e-6)
