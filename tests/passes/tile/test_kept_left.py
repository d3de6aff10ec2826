# SPDX-License-Identifier: Apache-2.0
"""A left operand that stays in L1 for all column blocks of its rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gaf
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.binary import AddOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.unary import ReluOp
from gaf.runtime.compiler import find_compiler
from tests.fusion.helpers import Net

KEPT = re.compile(r"Init\(&pipe, [^,]+, [^,]+, (\d+)\)")


def linear(kind: dt.DType, m: int | str, k: int, n: int, bias: bool = True) -> Net:
    net = Net(kind, x=(m, k), w=(k, n), b=(n,))
    y = net.op(MatMulOp, net["x"], net["w"])
    net.finish(net.op(ReluOp, net.op(AddOp, y, net["b"])) if bias else y)
    return net


@pytest.mark.parametrize("kind", [dt.F32, dt.F16, dt.BF16])
@pytest.mark.parametrize(("m", "k", "n"), [(300, 72, 600), (130, 300, 1000)])
@pytest.mark.parametrize("bias", [True, False])
def test_blocks_of_the_same_rows_are_neighbours(kind: dt.DType, m: int, k: int, n: int, bias: bool) -> None:
    fused = gaf.fuse(linear(kind, m, k, n, bias).model)
    (kernel,) = fused.kernels
    assert KEPT.search(kernel.source).group(1) == str(k)  # type: ignore[union-attr]
    assert kernel.source.count("mmad.Release();") == 1
    for engine in ["interpreter"] + (["check"] if find_compiler() is not None else []):
        result = fused.verify(engine=engine)
        assert result.ok and not result.violations, str(result)


def test_unknown_rows_and_more_rounds_than_slots() -> None:
    """The number of rows is a symbol: a core has any number of neighbours."""
    fused = gaf.fuse(linear(dt.F16, "M", 64, 768).model)
    (kernel,) = fused.kernels
    assert KEPT.search(kernel.source)
    rng = np.random.default_rng(0)
    for m in (1, 129, 2600):
        inputs = {
            "x": rng.standard_normal((m, 64)).astype(np.float16),
            "w": rng.standard_normal((64, 768)).astype(np.float16),
            "b": rng.standard_normal(768).astype(np.float16),
        }
        result = fused.verify(inputs, engine="check" if find_compiler() is not None else "interpreter")
        assert result.ok and not result.violations, str(result)


@pytest.mark.parametrize(("k", "n"), [(64, 16), (4096, 768)])
def test_one_block_of_columns_or_rows_too_long_for_l1(k: int, n: int) -> None:
    (kernel,) = gaf.fuse(linear(dt.F16, 300, k, n).model).kernels
    assert not KEPT.search(kernel.source) and "Release" not in kernel.source
