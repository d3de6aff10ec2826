# SPDX-License-Identifier: Apache-2.0
"""Tile sizes: bound to what fits UB, work for every core, and legal kernels for every shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common.dtype import BF16, F16, F32
from gaf.dialects.common.index import Expr, ceildiv, maximum, minimum, round_up, sym
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.errors import GafError
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.plan import Plan
from gaf.passes.tile.tile_plan import _linear_bound, bind_tiles, evaluate_params
from gaf.target import CHIPS, DEFAULT
from tests.dialects.tile import kernels
from tests.passes.tile.test_lower_tile import make_inputs

MAKERS = [
    kernels.elementwise,
    kernels.softmax,
    kernels.streamed_softmax,
    kernels.layernorm,
    kernels.column_sum,
    kernels.masked,
    kernels.matmul_gelu,
    kernels.matmul_layernorm,
]


def sizes_of(kernel: KernelOp, values: list[int]) -> dict[str, int]:
    return dict(zip(kernel.symbols, values, strict=False))


@given(
    st.sampled_from(MAKERS),
    st.sampled_from([F32, F16, BF16]),
    st.lists(st.one_of(st.integers(1, 300), st.integers(1, 9000)), min_size=3, max_size=3),
    st.sampled_from(list(CHIPS.values())),
)
def test_bound_tiles_fit(make: Callable[..., KernelOp], dtype, values: list[int], chip) -> None:
    """Whenever the guards hold, the planned buffers fit UB; they fail only if the smallest tile is too big."""
    kernel = make(dtype)
    plan = bind_tiles(kernel, chip)
    names = sizes_of(kernel, values)
    names |= evaluate_params(kernel, names)
    assert all(v >= 1 for n, v in names.items() if not n.endswith("_fit"))
    used = plan.ub_bytes.evaluate(names)
    if all(g.evaluate(names) >= 0 for g in kernel.guards):
        assert used <= chip.ub_usable_bytes
    else:
        assert plan.ub_bytes.evaluate({**names, "tm": 1}) > chip.ub_usable_bytes


@pytest.mark.parametrize("m", [40, 512, 8192])
def test_all_cores_have_work(m: int) -> None:
    kernel = kernels.softmax()
    bind_tiles(kernel, DEFAULT)
    tm = evaluate_params(kernel, {"M": m, "K": 768})["tm"]
    assert -(-m // tm) >= DEFAULT.aiv_cores * 0.9
    assert tm <= -(-m // DEFAULT.aiv_cores)


def test_rows_fill_the_memory_when_it_is_the_limit() -> None:
    kernel = kernels.layernorm()
    bind_tiles(kernel, DEFAULT)
    for k in (64, 200, 768, 1000, 3000):
        params = evaluate_params(kernel, {"M": 10**6, "K": k})
        assert 0.95 * params["tm_fit"] <= params["tm"] <= max(1, params["tm_fit"])


def test_a_row_that_is_too_long_fails_the_guard() -> None:
    kernel = kernels.softmax()
    bind_tiles(kernel, DEFAULT)
    x = {"x": np.zeros((2, 20000), np.float32)}
    with pytest.raises(GafError, match="a guard of the kernel doesn't hold"):
        run_tile(kernel, x, {"M": 2, "K": 20000})
    with pytest.raises(GafError, match="softmax"):
        run_ascendc(lower_kernel(kernel, DEFAULT), x, {"M": 2, "K": 20000})


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_bound_kernels_compute_the_same(make: Callable[..., KernelOp]) -> None:
    kernel = make(F16)
    bind_tiles(kernel, DEFAULT)
    symbols = sizes_of(kernel, [77, 150, 40])
    arrays = make_inputs(kernel, symbols)
    want = run_tile(kernel, arrays, symbols)
    got = run_ascendc(lower_kernel(kernel, DEFAULT), arrays, symbols)
    for name in want:
        np.testing.assert_allclose(
            got[name].astype(float), want[name].astype(float), rtol=4 * F16.eps, atol=1e-4, err_msg=name
        )


def _size(tm: Expr) -> Expr:
    p = round_up("K", 8)
    tile = tm * p
    return (
        tile * 12
        + round_up(tm, 8) * 36
        + round_up(round_up(tile, 256) // 8, 32)
        + round_up(minimum(maximum(tile, 1), 2048), 64) * 12
        + p * 4
        + 2048
    )


@given(st.integers(1, 500), st.integers(1, 2000))
def test_linear_bounds_are_bounds(tm: int, k: int) -> None:
    size = _size(sym("tm"))
    slope, offset, scale = _linear_bound(size, "tm")
    names = {"tm": tm, "K": k}
    exact, bound = size.evaluate(names), slope.evaluate(names) * tm + offset.evaluate(names)
    assert "tm" not in slope.names() | offset.names()
    assert scale * exact <= bound
    assert bound <= scale * (exact + 2 * 12 * 2048 + 8 * 36 + 512)


def test_what_has_no_linear_bound() -> None:
    for value in (sym("tm") * sym("tm"), ceildiv("K", "tm"), sym("tm") * -1, sym("tm") % 3):
        with pytest.raises(ValueError):
            _linear_bound(value, "tm")


@given(st.sampled_from([*MAKERS, kernels.gather, kernels.split_sum]), st.sampled_from([F32, F16]))
def test_living_values_never_share_a_slot(make: Callable[..., KernelOp], dtype) -> None:
    """Lifetimes of values in one slot don't overlap, whatever the tile sizes."""
    kernel = make() if make is kernels.split_sum else make(dtype)
    plan = Plan.build(kernel, DEFAULT)
    program = plan.program
    lives: dict[int, list[tuple[int, int]]] = {}
    for value, home in plan.homes.items():
        if home.slot is not None:
            owner = value.owner
            start = program.position[owner]  # type: ignore[index]
            lives.setdefault(home.slot.number, []).append((start, program.end(value)))
    for spans in lives.values():
        spans.sort()
        for (_, end), (start, _) in zip(spans, spans[1:], strict=False):
            assert end <= start  # equal: the operand's memory is taken over in place
    for op, leaf in plan.leaves.items():
        at = program.position[op]
        for slot, _ in leaf.scratch:
            for start, end in lives.get(slot.number, ()):
                assert not start < at < end, f"scratch of {op.name} in a living slot"
