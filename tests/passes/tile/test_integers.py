# SPDX-License-Identifier: Apache-2.0
"""Maps on int32 tiles: every function and operand form at both levels and on the twin, extremes included."""

from __future__ import annotations

import numpy as np
import pytest

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BOOL, I8, I16, I32, I64, U8
from gaf.dialects.common.index import Expr, minimum, sym
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.errors import UnsupportedError
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.recipes import INTEGER_MAPS
from gaf.passes.tile.tile_plan import bind_tiles
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT

M, K = sym("M"), sym("K")
UNARY = ("neg", "relu", "bitnot")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
FUNCTIONS = sorted(INTEGER_MAPS.keys() - {"random24"})  # the latter: tests/runtime/test_random.py
FORMS = ("full", "row", "col", "one", "number", "index")
SPECIAL = np.array([0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1, 7, 2**31 - 2], np.int32)


def operand(kb: KernelBuilder, form: str, name: str):  # type: ignore[no-untyped-def]
    indices: dict[str, tuple[list[Expr | str | int], tuple[str, ...]]] = {
        "full": (["m", "k"], ("m", "k")), "row": (["k"], ("k",)), "col": (["m"], ("m",)), "one": ([0], ()),
    }  # fmt: skip
    if form == "number":
        return kb.fill(-3, I32)
    if form == "index":
        return kb.index(sym("m") * 3 - sym("k"), ("m", "k"))
    index, axes = indices[form]
    return kb.load(f"{name}{form}", index, axes)


def kernel(function: str, forms: tuple[str, ...], name: str = "ints") -> KernelOp:
    """y = f(operands of these forms) and, so that every axis occurs, the full operand through `or 0`."""
    result = BOOL if function in COMPARE else I32
    shapes: dict[str, list[Expr | int]] = {"full": [M, K], "row": [K], "col": [M], "one": [1]}
    args = [(f"{n}{f}", gm(shapes[f], I32)) for n, f in zip("abc", forms) if f in shapes]
    if function == "select":
        args.append(("p", gm([M, K], BOOL)))
    kb = KernelBuilder(
        name, [*args, ("y", gm([M, K], result, "out"))], ["M", "K"], {"m": M, "k": K},
        {"tm": minimum(8, M), "tk": minimum(64, K)},
    )  # fmt: skip
    with kb.grid([("m", "tm"), ("k", "tk")]):
        values = [operand(kb, form, n) for n, form in zip("abc", forms)]
        if function == "select":
            values.insert(0, kb.load("p", ["m", "k"], ("m", "k")))
        y = kb.map(function, *values, axes=("m", "k"), dtype=result)
        kb.store(y, "y", ["m", "k"])
    return kb.finish()


def inputs(op: KernelOp, m: int, k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(m * 100 + k)
    found: dict[str, np.ndarray] = {}
    for name, arg in zip(op.arg_names.data, op.body.block.args):
        if arg.type.role == "in":  # type: ignore[attr-defined]
            shape = tuple(d.evaluate({"M": m, "K": k}) for d in arg.type.shape)  # type: ignore[attr-defined]
            found[name] = rng.choice(SPECIAL, shape) if name != "p" else rng.random(shape) < 0.5
    return found


def combinations(function: str) -> list[tuple[str, ...]]:
    if function in UNARY:
        return [("full",), ("index",)]
    pairs = [("full", f) for f in FORMS] + [(f, "full") for f in FORMS] + [("row", "col"), ("col", "row"), ("one", "full")]
    return [p for p in pairs if set(p) & {"full", "index"} or {"row", "col"} <= set(p)]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_and_form(function: str) -> None:
    for forms in combinations(function):
        op = kernel(function, forms)
        lowered = lower_kernel(op, DEFAULT)
        for m, k in ((1, 1), (9, 70), (5, 8)):
            arrays = inputs(op, m, k)
            want = run_tile(op, arrays, {"M": m, "K": k})["y"]
            got = run_ascendc(lowered, arrays, {"M": m, "K": k})["y"]
            np.testing.assert_array_equal(got, want, err_msg=f"{function} {forms} {m} {k}")


@pytest.mark.parametrize("kind", [U8, I8, I16, I32, I64], ids=str)
@pytest.mark.parametrize("function", ["bitor", "bitand"])
def test_bits_of_every_width(function: str, kind: dt.DType) -> None:
    kb = KernelBuilder(
        "bits", [("a", gm([M, K], kind)), ("b", gm([M, K], kind)), ("y", gm([M, K], kind, "out"))], ["M", "K"],
        {"m": M, "k": K}, {"tm": minimum(4, M)},
    )  # fmt: skip
    with kb.grid([("m", "tm")]):
        a, b = (kb.load(n, ["m", "k"], ("m", "k")) for n in "ab")
        kb.store(kb.map(function, a, b), "y", ["m", "k"])
    op = kb.finish()
    info = np.iinfo(kind.numpy)
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(info.min, info.max, (7, 13), endpoint=True, dtype=kind.numpy) for n in "ab"}
    want = run_tile(op, arrays, {"M": 7, "K": 13})["y"]
    np.testing.assert_array_equal(run_ascendc(lower_kernel(op, DEFAULT), arrays, {"M": 7, "K": 13})["y"], want)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("mode", ["check", pytest.param("fast", marks=pytest.mark.slow)])
def test_integers_on_the_twin(mode: str) -> None:
    jobs = []
    for i, function in enumerate(FUNCTIONS):
        forms = ("full",) if function in UNARY else (("full", "col"), ("row", "full"), ("full", "number"))[i % 3]
        op = kernel(function, forms, f"ints_{function}")
        bind_tiles(op, DEFAULT)
        lowered = lower_kernel(op, DEFAULT)
        insert_sync(lowered)
        jobs.append((op, lowered))
    built = build_kernels([(low.sym_name.data, print_kernel(low)) for _, low in jobs], mode=mode)
    for op, lowered in jobs:
        for m, k in ((9, 70), (1, 1)):
            arrays = inputs(op, m, k)
            launch = HostTiling(lowered).evaluate({"M": m, "K": k})
            want = run_tile(op, arrays, {"M": m, "K": k})["y"]
            args = [np.ascontiguousarray(arrays[n]) if n in arrays else np.zeros_like(want) for n in op.arg_names.data]
            found = built[op.sym_name.data].launch(args, launch.workspace, launch.packed, launch.blocks, outputs=1)
            assert found.violations == [] and not found.deadlock, (op.sym_name.data, found.message)
            np.testing.assert_array_equal(args[-1], want, err_msg=op.sym_name.data)


def test_other_widths_have_no_arithmetic() -> None:
    kb = KernelBuilder("long", [("a", gm([K], I64)), ("y", gm([K], I64, "out"))], ["K"], {"k": K})
    with kb.grid([("k", 64)]):
        a = kb.load("a", ["k"], ("k",))
        kb.store(kb.map("add", a, a), "y", ["k"])
    with pytest.raises(UnsupportedError, match="'add' on a tile of i64 has no lowering"):
        lower_kernel(kb.finish(), DEFAULT)


def test_float_functions_stay_float() -> None:
    kb = KernelBuilder("root", [("a", gm([K], I32)), ("y", gm([K], I32, "out"))], ["K"], {"k": K})
    with kb.grid([("k", 64)]):
        a = kb.load("a", ["k"], ("k",))
        kb.store(kb.map("sqrt", a), "y", ["k"])
    with pytest.raises(UnsupportedError, match="'sqrt' on a tile of i32 has no lowering"):
        lower_kernel(kb.finish(), DEFAULT)
