# SPDX-License-Identifier: Apache-2.0
"""The lowered kernel computes what the tile kernel means: both interpreters on the same inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.dialects.tile.types import GmType
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.plan import MAX_QUEUE_BUFFERS, Plan
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


def many_inputs(count: int, dtype: dt.DType) -> KernelOp:
    """The sum of `count` inputs that are all loaded before the first is used: more than there are event ids."""
    names = [f"x{i}" for i in range(count)]
    shapes = {n: ["M", "K"] if i % 3 == 0 else ["K"] if i % 3 == 1 else ["M"] for i, n in enumerate(names)}
    args = [(n, gm(shapes[n], dtype)) for n in names] + [("y", gm(["M", "K"], F32, "out"))]
    kb = KernelBuilder("many", args, ["M", "K"], {"m": "M", "k": "K"})
    with kb.grid([("m", 8)]):
        loads = []
        for n in names:
            axes = [d.lower() for d in shapes[n]]
            loads.append(kb.load(n, axes, axes))
        total = kb.cast(loads[0], F32)
        for value in loads[1:]:
            total = kb.map("add", total, kb.cast(value, F32))
        kb.store(total, "y", ["m", "k"])
    return kb.finish()


@pytest.mark.parametrize("dtype", [F32, BOOL, I64], ids=str)
@pytest.mark.parametrize("count", [6, 9, 23])
def test_more_inputs_than_events(count: int, dtype: dt.DType) -> None:
    kernel = many_inputs(count, dtype)
    plan = Plan.build(kernel, DEFAULT)
    for position in ("vecin", "vecout"):
        assert sum(g.buffers for g in plan.groups if g.position == position) <= MAX_QUEUE_BUFFERS
    check(kernel, {"M": 13, "K": 21}, atol=1e-5)


TEXTS = {
    "row slices of a tile, columns in eights": """
      tile.grid [m step 40] {
        %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
        %e = tile.map exp(%t) : !tile.t<[m, k], f32>
        %c = tile.reduce sum(%e) over [k] : !tile.t<[m], f32>
        tile.for m step 16 {
          %o = tile.map div(%e, %c) : !tile.t<[m, k], f32>
          tile.store %o, %y[m, k]
        }
      }""",
    "a row per step": """
      tile.grid [m step 40] {
        %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
        tile.for m step 1 {
          %c = tile.reduce max(%t) over [k] : !tile.t<[m], f32>
          %o = tile.map sub(%t, %c) : !tile.t<[m, k], f32>
          tile.store %o, %y[m, k]
        }
      }""",
    "values of the whole kernel": """
      %g = tile.load %row[k] : !tile.t<[k], f32>
      %h = tile.map tanh(%g) : !tile.t<[k], f32>
      %n = tile.index(K) : !tile.t<[], i32>
      %nf = tile.map cast(%n) : !tile.t<[], f32>
      %r = tile.map rsqrt(%nf) : !tile.t<[], f32>
      tile.grid [m step 8] {
        %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
        %u = tile.map mul(%t, %h) : !tile.t<[m, k], f32>
        %o = tile.map mul(%u, %r) : !tile.t<[m, k], f32>
        tile.store %o, %y[m, k]
      }""",
    "part of the rows, part of the columns": """
      tile.grid [m step 8] {
        %z = tile.fill -inf : !tile.t<[m], f32>
        %c = tile.for k step 4 in 1 to K - 2 iter(%a = %z) {
          %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
          %p = tile.reduce max(%t) over [k] : !tile.t<[m], f32>
          %b = tile.merge max(%a | %p)
          tile.yield %b
        }
        %t2 = tile.load %x[m, k] : !tile.t<[m, k], f32>
        %o = tile.map max(%t2, %c) : !tile.t<[m, k], f32>
        tile.store %o, %y[m, k]
      }""",
    "a state that isn't computed in place": """
      tile.grid [m step 8] {
        %z = tile.fill 0 : !tile.t<[m], f32>
        %one = tile.fill 1 : !tile.t<[m], f32>
        %c, %d = tile.for k step 4 iter(%a = %z, %b = %one) {
          %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
          %p = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>
          %n = tile.merge sum(%a | %p)
          %old = tile.map mul(%a, %p) : !tile.t<[m], f32>
          %q = tile.map tanh(%old) : !tile.t<[m], f32>
          tile.yield %n, %q
        }
        %t2 = tile.load %x[m, k] : !tile.t<[m, k], f32>
        %u = tile.map mul(%t2, %c) : !tile.t<[m, k], f32>
        %o = tile.map add(%u, %d) : !tile.t<[m, k], f32>
        tile.store %o, %y[m, k]
      }""",
    "constants everywhere": """
      tile.grid [m step 8] {
        %f = tile.fill 0.5 : !tile.t<[m, k], f32>
        %i = tile.index(K + 1) : !tile.t<[], i32>
        %n = tile.map cast(%i) : !tile.t<[], f32>
        %two = tile.fill 2 : !tile.t<[], f32>
        %half = tile.map div(%two, %n) : !tile.t<[], f32>
        %s = tile.map sub(%n, %two) : !tile.t<[], f32>
        %s2 = tile.map tanh(%s) : !tile.t<[], f32>
        %c = tile.reduce sum(%f) over [k] : !tile.t<[m], f32>
        %u = tile.map mul(%f, %half) : !tile.t<[m, k], f32>
        %v = tile.map add(%u, %c) : !tile.t<[m, k], f32>
        %o = tile.map div(%v, %s2) : !tile.t<[m, k], f32>
        tile.store %o, %y[m, k]
      }""",
    "both folds at once": """
      tile.grid [m step 64] {
        %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
        %o = tile.map neg(%t) : !tile.t<[m, k], f32>
        tile.store %o, %y[m, k]
      }
      %a = tile.load %x[m, k] : !tile.t<[m, k], f32>
      %s = tile.reduce sum(%a) over [m, k] : !tile.t<[], f32>
      tile.grid [k step 8] {
        tile.store %s, %one[0] where [k.lo in 0 to 1]
      }""",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("m", "k"), [(1, 1), (45, 13), (9, 64)])
def test_shapes_of_loops(name: str, m: int, k: int) -> None:
    if name == "part of the rows, part of the columns" and k < 4:
        k = 4
    one = ", %one: !tile.gm<[1], f32, out>" if "%one[0]" in TEXTS[name] else ""
    kernel = kernels.parse_kernel(
        f"tile.kernel @f(%x: !tile.gm<[M, K], f32>, %row: !tile.gm<[K], f32>, %y: !tile.gm<[M, K], f32, out>{one}) "
        f"symbols [M, K] axes [m = M, k = K] {{ {TEXTS[name]} }}"
    )
    check(kernel, {"M": m, "K": k}, ulps=32, atol=1e-5)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I8, U8, I16, I32, I64, BOOL], ids=str)
def test_copies_keep_the_bits(dtype: dt.DType) -> None:
    kernel = kernels.parse_kernel(
        f"tile.kernel @f(%x: !tile.gm<[M, K], {dtype}>, %y: !tile.gm<[M, K], {dtype}, out>) symbols [M, K] "
        f"axes [m = M, k = K] {{ tile.grid [m step 8] {{ %t = tile.load %x[m, k] : !tile.t<[m, k], {dtype}>\n"
        "tile.store %t, %y[m, k] } }"
    )
    bits = np.random.default_rng(1).integers(0, 256, (11, 13 * dtype.bytes)).astype(np.uint8)
    x = bits % 2 == 1 if dtype.is_bool else bits.view(dtype.numpy)
    y = run_ascendc(lower_kernel(kernel, DEFAULT), {"x": x}, {"M": 11, "K": 13})["y"]
    assert y.tobytes() == x.tobytes()


CASTS = [F32, F16, BF16, I8, U8, I32, I64, BOOL]


@pytest.mark.parametrize("target", CASTS, ids=str)
@pytest.mark.parametrize("source", CASTS, ids=str)
def test_conversions(source: dt.DType, target: dt.DType) -> None:
    kernel = kernels.parse_kernel(
        f"tile.kernel @f(%x: !tile.gm<[M, K], {source}>, %y: !tile.gm<[M, K], {target}, out>) symbols [M, K] "
        f"axes [m = M, k = K] {{ tile.grid [m step 8] {{ %t = tile.load %x[m, k] : !tile.t<[m, k], {source}>\n"
        f"%u = tile.map cast(%t) : !tile.t<[m, k], {target}>\ntile.store %u, %y[m, k] }} }}"
    )
    rng = np.random.default_rng(2)
    low = 0 if U8 in (source, target) else -100
    x = rng.uniform(low, 100, (11, 13))
    x[rng.random(x.shape) < 0.2] = 0
    check(kernel, {"M": 11, "K": 13}, ulps=0, x=x > 50 if source.is_bool else x.astype(source.numpy))


def test_a_side_that_is_not_selected_has_no_influence() -> None:
    x = np.array([[np.nan, 1, np.inf, -np.inf, -0.0, 2]], np.float32)
    mask = np.array([[False, True, False, True, True, False]])
    check(kernels.masked(), {"M": 1, "K": 6}, x=x, mask=mask)


FORMS = {"full": "[m, k]", "col": "[m]", "row": "[k]", "one": "[]", "number": ""}
BINARY = ["add", "sub", "mul", "div", "max", "min", "pow", "lt", "ge", "eq"]


@pytest.mark.parametrize("right", FORMS)
@pytest.mark.parametrize("left", FORMS)
@pytest.mark.parametrize("function", BINARY)
def test_operand_forms(function: str, left: str, right: str) -> None:
    """Every binary function with every pair of a full tile, column, row, single element and number."""
    index = {"full": "m, k", "col": "m", "row": "k", "one": "0"}
    shapes = {"full": "[M, K]", "col": "[M]", "row": "[K]", "one": "[1]"}
    args, lines = [], []
    for side, form in (("a", left), ("b", right)):
        if form == "number":
            lines.append(f"%{side}t = tile.fill {'1.5' if side == 'a' else '3'} : !tile.t<[], f32>")
        else:
            args.append(f"%{side}: !tile.gm<{shapes[form]}, f32>")
            lines.append(f"%{side}t = tile.load %{side}[{index[form]}] : !tile.t<{FORMS[form]}, f32>")
    present = {a for form in (left, right) for a in ("m", "k") if a in FORMS[form]}
    axes = "[" + ", ".join(a for a in ("m", "k") if a in present) + "]"
    kind = "i1" if function in ("lt", "ge", "eq") else "f32"
    target = {"[m, k]": "[M, K]", "[m]": "[M]", "[k]": "[K]", "[]": "[1]"}[axes]
    store = axes if axes != "[]" else "[0]"
    guard = " where [m.lo in 0 to 1]" if "m" not in present else ""
    kernel = kernels.parse_kernel(
        f"tile.kernel @f({', '.join([*args, f'%y: !tile.gm<{target}, {kind}, out>'])}) symbols [M, K] "
        f"axes [m = M, k = K] {{ tile.grid [m step 8] {{ {chr(10).join(lines)}\n"
        f"%c = tile.map {function}(%at, %bt) : !tile.t<{axes}, {kind}>\ntile.store %c, %y{store}{guard} }} }}"
    )
    symbols = {"M": 11, "K": 13}
    given = {n: np.abs(a) + np.float32(0.5) for n, a in make_inputs(kernel, symbols).items()}
    check(kernel, symbols, **given)


def test_an_operand_that_is_also_the_condition_is_not_overwritten() -> None:
    kernel = kernels.parse_kernel(
        "tile.kernel @f(%x: !tile.gm<[M, K], f32>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] "
        "axes [m = M, k = K] { tile.grid [m step 8] { %t = tile.load %x[m, k] : !tile.t<[m, k], f32>\n"
        "%z = tile.fill 0 : !tile.t<[], f32>\n%p = tile.map gt(%t, %z) : !tile.t<[m, k], i1>\n"
        "%f = tile.map cast(%p) : !tile.t<[m, k], f32>\n%e = tile.map exp(%t) : !tile.t<[m, k], f32>\n"
        "%s = tile.map select(%p, %f, %e) : !tile.t<[m, k], f32>\n%u = tile.map neg(%s) : !tile.t<[m, k], f32>\n"
        "tile.store %u, %y[m, k] } }"
    )
    check(kernel, {"M": 11, "K": 13})


def test_memory_is_reused() -> None:
    """Softmax needs one tile, one column of statistics and the scratch of its calls, beside its queues."""
    plan = Plan.build(kernels.softmax(), DEFAULT)
    names = {"M": 100, "K": 64, "tm": 8}
    tile, column = 8 * 64 * 4, 8 * 4
    assert plan.queue_bytes.evaluate(names) == 4 * tile
    assert plan.pool_bytes.evaluate(names) == tile + column + 8 * 64 * 4 + 8 * 8 * 4
