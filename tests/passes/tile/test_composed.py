# SPDX-License-Identifier: Apache-2.0
"""Composed functions against float64 numpy: accuracy over the whole range of float32, special values, broadcasts."""

from __future__ import annotations

import numpy as np
import pytest

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common.dtype import F32
from gaf.dialects.common.index import minimum, sym
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.structure import KernelOp
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.recipes.composed import MAX_ULPS, RECIPES
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT

M, K = sym("M"), sym("K")
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-38, -1e-30, 88.5, -88.5, 1 / 3, 4096, -4096, 4095.9, 3e38, 1.0000001],
    np.float32,
)


def kernel(function: str, column: bool = False) -> KernelOp:
    """y = f(x), or f(x, z) with z full or a column."""
    binary = FUNCTIONS[function].arity == 2
    shape = [M] if column else [M, K]
    args = [("x", gm([M, K], F32)), *([("z", gm(shape, F32))] if binary else []), ("y", gm([M, K], F32, "out"))]
    kb = KernelBuilder(f"composed_{function}", args, ["M", "K"], {"m": M, "k": K}, {"tm": minimum(8, M), "tk": minimum(256, K)})
    with kb.grid([("m", "tm"), ("k", "tk")]):
        values = [kb.load("x", ["m", "k"], ("m", "k"))]
        if binary:
            values.append(kb.load("z", ["m"] if column else ["m", "k"], ("m",) if column else ("m", "k")))
        kb.store(kb.map(function, *values), "y", ["m", "k"])
    return kb.finish()


def domain(function: str, seed: int = 0) -> list[np.ndarray]:
    """Operands of shape [20, 2000] over the domain of a function, special values in front."""
    rng = np.random.default_rng(seed)
    n = 40000
    wide = np.exp2(rng.uniform(-30, 30, n)) * rng.choice([-1, 1], n)
    unit = np.concatenate([rng.uniform(-1, 1, n // 2), np.exp2(rng.uniform(-20, 0, n // 4)), 1 - np.exp2(rng.uniform(-24, -1, n // 4))])
    values = {
        "asin": unit, "acos": unit, "atanh": unit, "acosh": 1 + np.exp2(rng.uniform(-24, 100, n)),
        "sinh": np.concatenate([rng.uniform(-90, 90, n // 2), np.exp2(rng.uniform(-20, 1, n // 2))]),
        "cosh": rng.uniform(-90, 90, n),
    }.get(function, wide)  # fmt: skip
    first = values.astype(np.float32)
    other = (np.exp2(rng.uniform(-10, 10, n)) * rng.choice([-1, 1], n)).astype(np.float32)
    if function in ("fmod", "floormod"):
        first[: n // 2] = (other * rng.integers(-9, 9, n))[: n // 2]  # exact multiples, and their neighbours
        first[: n // 4] = np.nextafter(first[: n // 4], np.float32(rng.choice([-1e9, 1e9])))
        first = np.where(np.abs(first / other) < 2.0**40, first, other)
    pairs = len(SPECIAL) ** 2
    if FUNCTIONS[function].arity == 2:
        first[:pairs], other[:pairs] = (a.reshape(-1) for a in np.meshgrid(SPECIAL, SPECIAL))
    else:
        first[: len(SPECIAL)] = SPECIAL
    return [a.reshape(20, 2000) for a in ([first, other] if FUNCTIONS[function].arity == 2 else [first])]


def check(function: str, got: np.ndarray, operands: list[np.ndarray]) -> float:
    """The error in ulps; NaN, infinities and (where float64 has them) zeros agree exactly."""
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[function].numpy(*(a.astype(np.float64) for a in operands))
        want = exact.astype(np.float32)
    defined = np.ones(got.shape, bool)
    if function in ("fmod", "floormod"):  # quotients of 2^40 and more aren't exact, products beyond 2^115 overflow
        with np.errstate(all="ignore"):
            quotient = np.abs(operands[0].astype(np.float64) / operands[1])
        defined = ~(np.isfinite(want) & (quotient > 2.0**40))
        defined &= ~(np.isfinite(want) & (np.abs(operands[0]) > 2.0**115))
    special = ~np.isfinite(want) | (exact == 0)
    bad = defined & special & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert not bad.any(), [(a[bad][:5], got[bad][:5], want[bad][:5]) for a in operands]
    signs = defined & (exact == 0) & (np.signbit(got) != np.signbit(want))
    assert not signs.any(), [a[signs][:5] for a in operands]
    normal = defined & ~special & (np.abs(want) > 2.0**-126)
    ulp = np.spacing(np.abs(want[normal])).astype(np.float64)
    return float(np.max(np.abs(got[normal].astype(np.float64) - exact[normal]) / ulp, initial=0))


@pytest.mark.parametrize("function", sorted(RECIPES))
def test_accuracy(function: str) -> None:
    lowered = lower_kernel(kernel(function), DEFAULT)
    operands = domain(function)
    got = run_ascendc(lowered, dict(zip("xz", operands)), {"M": 20, "K": 2000})["y"]
    error = check(function, got, operands)
    assert error <= MAX_ULPS[function], f"{function}: {error} ulps"


@pytest.mark.parametrize("function", [f for f in sorted(RECIPES) if FUNCTIONS[f].arity == 2])
def test_columns(function: str) -> None:
    rng = np.random.default_rng(1)
    x, z = rng.uniform(-9, 9, (9, 70)).astype(np.float32), rng.uniform(1, 3, 9).astype(np.float32)
    got = run_ascendc(lower_kernel(kernel(function, column=True), DEFAULT), {"x": x, "z": z}, {"M": 9, "K": 70})["y"]
    assert check(function, got, [x, np.broadcast_to(z[:, None], x.shape)]) <= MAX_ULPS[function]


def test_every_recipe_states_its_error() -> None:
    assert set(MAX_ULPS) == set(RECIPES)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("mode", ["fast", pytest.param("check", marks=pytest.mark.slow)])
def test_accuracy_on_the_twin(mode: str) -> None:
    jobs = []
    for function in sorted(RECIPES):
        op = kernel(function)
        bind_tiles(op, DEFAULT)
        lowered = lower_kernel(op, DEFAULT)
        insert_sync(lowered)
        jobs.append((function, lowered))
    built = build_kernels([(low.sym_name.data, print_kernel(low)) for _, low in jobs], mode=mode)
    for function, lowered in jobs:
        operands = domain(function, 1)
        launch = HostTiling(lowered).evaluate({"M": 20, "K": 2000})
        got = np.zeros_like(operands[0])
        found = built[lowered.sym_name.data].launch([*operands, got], launch.workspace, launch.packed, launch.blocks, outputs=1)
        assert found.violations == [] and not found.deadlock, (function, found.message)
        error = check(function, got, operands)
        assert error <= MAX_ULPS[function] + 1, f"{function}: {error} ulps"  # Exp and Ln of the twin: 2 ulps
