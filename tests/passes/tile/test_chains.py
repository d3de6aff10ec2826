# SPDX-License-Identifier: Apache-2.0
"""Kernels whose cube and vector cores hand over more than once: prologues, chains, matmuls side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.attributes import Pipe, PipeAttr
from gaf.dialects.ascendc.interpreter import interpret as run_ascendc
from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
from gaf.dialects.ascendc.sync import FLAG_LIMIT, CrossCoreSetFlagOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.dtype import BF16, F16, F32
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.interpreter import interpret as run_tile
from gaf.dialects.tile.structure import KernelOp
from gaf.errors import InternalError, UnsupportedError
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.passes.tile.cube import plan_cube
from gaf.passes.tile.handover import Step, check_order
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.plan import Plan
from gaf.passes.tile.tile_plan import bind_tiles, evaluate_params
from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import build_kernels
from gaf.target import DEFAULT
from tests.dialects.tile.kernels import parse_kernel
from tests.passes.tile.test_lower_tile import make_inputs

FLOATS = [F32, F16, BF16]
Make = Callable[[dt.DType], KernelOp]


def kernel(
    name: str,
    args: Sequence[str],
    axes: str,
    body: str,
    dtype: dt.DType,
    grid: str = "m step bm",
    **shapes: str,
) -> KernelOp:
    """A kernel from text; `@` stands for the dtype, `x: [M, K]` is an input, `>y: [M, N]` an output."""
    symbols = sorted({s for s in "BSMKNFJ" if any(s in a.split(":")[1] for a in args)})
    types = [
        f"%{a.strip('>').split(':')[0]}: !tile.gm<{a.split(': ')[1]}, @{', out' if a[0] == '>' else ''}>"
        for a in args
    ]
    text = (
        f"tile.kernel @{name}({', '.join(types)}) symbols [{', '.join(symbols)}] axes [{axes}] "
        f"params [bm = 128, tm = 128] {{ tile.grid [{grid}] sub m {{ {body} }} }}"
    )
    return parse_kernel(text.replace("@" + name, "$").replace("@", str(dtype)).replace("$", "@" + name))


def load(name: str, index: str, axes: str, dtype: dt.DType) -> str:
    """`%name` in f32, whatever the array's dtype is."""
    if dtype is F32:
        return f"%{name} = tile.load %{name}_gm[{index}] : !tile.t<[{axes}], f32>\n"
    return (
        f"%{name}_raw = tile.load %{name}_gm[{index}] : !tile.t<[{axes}], @>\n"
        f"%{name} = tile.map cast(%{name}_raw) : !tile.t<[{axes}], f32>\n"
    )


def narrow(name: str, axes: str, dtype: dt.DType) -> str:
    """`%name_out`: the value in the array's dtype."""
    if dtype is F32:
        return ""
    return f"%{name}_out = tile.map cast(%{name}) : !tile.t<[{axes}], @>\n"


def out(name: str, dtype: dt.DType) -> str:
    return f"%{name}" if dtype is F32 else f"%{name}_out"


def norm(dtype: dt.DType, extra: str = "") -> str:
    """Rows of x, scaled by their root mean square and handed over as %panel."""
    return (
        "%rows = tile.for m step tm {\n"
        + load("x", "m, k", "m, k", dtype)
        + "%sq = tile.map mul(%x, %x) : !tile.t<[m, k], f32>\n"
        "%sum = tile.reduce sum(%sq) over [k] : !tile.t<[m], f32>\n"
        "%inv = tile.map rsqrt(%sum) : !tile.t<[m], f32>\n"
        "%h = tile.map mul(%x, %inv) : !tile.t<[m, k], f32>\n"
        + narrow("h", "m, k", dtype)
        + extra
        + f"tile.yield collect {out('h', dtype)}\n}}\n"
        "%panel = tile.move %rows {slots = 2 : i64} : !tile.t<[m, k], @, l1>\n"
    )


def columns(left: str, weight: str, k: str, n: str, result: str, step: int = 128) -> str:
    """`%result` = left x weight, by blocks of columns."""
    return (
        f"%{result} = tile.for {n} step {step} {{\n"
        f"%{result}_w = tile.load %{weight}[{k}, {n}] : !tile.t<[{k}, {n}], @, l1>\n"
        f"%{result}_c = tile.contract({left}, %{result}_w) : !tile.t<[m, {n}], f32, l0c>\n"
        f"tile.yield collect %{result}_c\n}}\n"
    )


def norm_linear(dtype: dt.DType) -> KernelOp:
    """y = rms(x) @ w + b."""
    body = (
        norm(dtype)
        + columns("%panel", "w", "k", "n", "acc", 32)
        + load("b", "n", "n", dtype)
        + "tile.for m step tm {\n%u = tile.move %acc {slots = 2 : i64} : !tile.t<[m, n], f32>\n"
        "%v = tile.map add(%u, %b) : !tile.t<[m, n], f32>\n"
        + narrow("v", "m, n", dtype)
        + f"tile.store {out('v', dtype)}, %y[m, n]\n}}"
    )
    args = ["x_gm: [M, K]", "w: [K, N]", "b_gm: [N]", ">y: [M, N]"]
    return kernel("norm_linear", args, "m = M, k = K, n = N", body, dtype)


def norm_direct(dtype: dt.DType) -> KernelOp:
    """y = rms(x) @ w, stored by the cube; the rows of rms(x) are an output too."""
    body = norm(dtype, f"tile.store {out('h', dtype)}, %rows_gm[m, k]\n") + (
        "tile.for n step 32 {\n%wt = tile.load %w[k, n] : !tile.t<[k, n], @, l1>\n"
        "%acc = tile.contract(%panel, %wt) : !tile.t<[m, n], f32, l0c>\ntile.store %acc, %y[m, n]\n}"
    )
    args = ["x_gm: [M, K]", "w: [K, 48]", ">rows_gm: [M, K]", ">y: [M, 48]"]
    return kernel("norm_direct", args, "m = M, k = K, n = 48", body, dtype)


def softmax(dtype: dt.DType) -> str:
    return (
        "%rows = tile.for m step tm {\n"
        "%s = tile.move %scores {slots = 2 : i64} : !tile.t<[m, k], f32>\n"
        "%top = tile.reduce max(%s) over [k] : !tile.t<[m], f32>\n"
        "%d = tile.map sub(%s, %top) : !tile.t<[m, k], f32>\n"
        "%e = tile.map exp(%d) : !tile.t<[m, k], f32>\n"
        "%sum = tile.reduce sum(%e) over [k] : !tile.t<[m], f32>\n"
        "%p = tile.map div(%e, %sum) : !tile.t<[m, k], f32>\n"
        + narrow("p", "m, k", dtype)
        + f"tile.yield collect {out('p', dtype)}\n}}\n"
        "%panel = tile.move %rows {slots = 2 : i64} : !tile.t<[m, k], @, l1>\n"
    )


def attention_scores(dtype: dt.DType) -> str:
    """Scores of one head against keys that are stored by rows: the right operand is transposed."""
    return (
        "%q = tile.load %q_gm[b.lo, m, d] : !tile.t<[m, d], @, l1>\n"
        "%scores = tile.for k step 32 {\n"
        "%kt = tile.load %k_gm[b.lo, k, d] : !tile.t<[d, k], @, l1>\n"
        "%sc = tile.contract(%q, %kt) : !tile.t<[m, k], f32, l0c>\ntile.yield collect %sc\n}\n"
    )


def attention(dtype: dt.DType) -> KernelOp:
    """softmax(q @ k.T) @ v with a tanh behind it: three hand-overs, two operand layouts."""
    body = (
        attention_scores(dtype)
        + softmax(dtype)
        + "%o = tile.for n step 16 {\n%vt = tile.load %v_gm[b.lo, k, n] : !tile.t<[k, n], @, l1>\n"
        "%oc = tile.contract(%panel, %vt) : !tile.t<[m, n], f32, l0c>\ntile.yield collect %oc\n}\n"
        "tile.for m step tm {\n%u = tile.move %o {slots = 2 : i64} : !tile.t<[m, n], f32>\n"
        "%t = tile.map tanh(%u) : !tile.t<[m, n], f32>\n"
        + narrow("t", "m, n", dtype)
        + f"tile.store {out('t', dtype)}, %y[b.lo, m, n]\n}}"
    )
    args = ["q_gm: [B, M, 24]", "k_gm: [B, S, 24]", "v_gm: [B, S, N]", ">y: [B, M, N]"]
    return kernel("attention", args, "b = B, m = M, k = S, d = 24, n = N", body, dtype, "b step 1, m step bm")


def attention_direct(dtype: dt.DType) -> KernelOp:
    """The same without an epilogue: the cube stores the result."""
    body = (
        attention_scores(dtype)
        + softmax(dtype)
        + "tile.for n step 16 {\n%vt = tile.load %v_gm[b.lo, k, n] : !tile.t<[k, n], @, l1>\n"
        "%oc = tile.contract(%panel, %vt) : !tile.t<[m, n], f32, l0c>\ntile.store %oc, %y[b.lo, m, n]\n}"
    )
    args = ["q_gm: [B, M, 24]", "k_gm: [B, S, 24]", "v_gm: [B, S, 32]", ">y: [B, M, 32]"]
    return kernel(
        "attention_direct", args, "b = B, m = M, k = S, d = 24, n = 32", body, dtype, "b step 1, m step bm"
    )


def gate(dtype: dt.DType) -> str:
    return (
        "tile.for m step tm {\n%g = tile.move %gate {slots = 2 : i64} : !tile.t<[m, n], f32>\n"
        "%a = tile.map sigmoid(%g) : !tile.t<[m, n], f32>\n"
        "%u = tile.move %up {slots = 2 : i64} : !tile.t<[m, n], f32>\n"
        "%r = tile.map mul(%a, %u) : !tile.t<[m, n], f32>\n"
        + narrow("r", "m, n", dtype)
        + f"tile.store {out('r', dtype)}, %y[m, n]\n}}"
    )


def gated(dtype: dt.DType) -> KernelOp:
    """sigmoid(x @ w) * (x @ v): two blocks of one grid tile, handed over together."""
    body = (
        "%xt = tile.load %x_gm[m, k] : !tile.t<[m, k], @, l1>\n"
        "%wt = tile.load %w[k, n] : !tile.t<[k, n], @, l1>\n"
        "%gate = tile.contract(%xt, %wt) : !tile.t<[m, n], f32, l0c>\n"
        "%vt = tile.load %v[k, n] : !tile.t<[k, n], @, l1>\n"
        "%up = tile.contract(%xt, %vt) : !tile.t<[m, n], f32, l0c>\n"
    ) + gate(dtype)
    args = ["x_gm: [M, K]", "w: [K, N]", "v: [K, N]", ">y: [M, N]"]
    return kernel("gated", args, "m = M, k = K, n = N", body, dtype, "m step bm, n step 48")


def norm_gated(dtype: dt.DType) -> KernelOp:
    """The same behind a normalisation, over whole rows: the two matmuls share a loop and a panel."""
    body = (
        norm(dtype) + "%gate, %up = tile.for n step 48 {\n"
        "%wt = tile.load %w[k, n] : !tile.t<[k, n], @, l1>\n"
        "%gc = tile.contract(%panel, %wt) : !tile.t<[m, n], f32, l0c>\n"
        "%vt = tile.load %v[n, k] : !tile.t<[k, n], @, l1>\n"
        "%uc = tile.contract(%panel, %vt) : !tile.t<[m, n], f32, l0c>\n"
        "tile.yield collect %gc, %uc\n}\n" + gate(dtype)
    )
    args = ["x_gm: [M, K]", "w: [K, N]", "v: [N, K]", ">y: [M, N]"]
    return kernel("norm_gated", args, "m = M, k = K, n = N", body, dtype)


def mlp(dtype: dt.DType) -> KernelOp:
    """tanh(relu(rms(x) @ w) @ v): four hand-overs, more flags than two slots each would take."""
    body = (
        norm(dtype)
        + columns("%panel", "w", "k", "n", "acc", 64)
        + "%rows2 = tile.for m step tm {\n%u = tile.move %acc {slots = 2 : i64} : !tile.t<[m, n], f32>\n"
        "%r = tile.map relu(%u) : !tile.t<[m, n], f32>\n"
        + narrow("r", "m, n", dtype)
        + f"tile.yield collect {out('r', dtype)}\n}}\n"
        "%panel2 = tile.move %rows2 {slots = 2 : i64} : !tile.t<[m, n], @, l1>\n"
        + columns("%panel2", "v", "n", "j", "acc2", 64)
        + "tile.for m step tm {\n%u2 = tile.move %acc2 {slots = 2 : i64} : !tile.t<[m, j], f32>\n"
        "%t = tile.map tanh(%u2) : !tile.t<[m, j], f32>\n"
        + narrow("t", "m, j", dtype)
        + f"tile.store {out('t', dtype)}, %y[m, j]\n}}"
    )
    args = ["x_gm: [M, K]", "w: [K, N]", "v: [N, J]", ">y: [M, J]"]
    return kernel("mlp", args, "m = M, k = K, n = N, j = J", body, dtype)


SIZES: dict[Make, list[dict[str, int]]] = {
    norm_linear: [{"M": 1, "K": 1, "N": 1}, {"M": 70, "K": 77, "N": 35}, {"M": 333, "K": 16, "N": 70}],
    norm_direct: [{"M": 1, "K": 3}, {"M": 331, "K": 130}],
    attention: [
        {"B": 1, "M": 1, "S": 1, "N": 1},
        {"B": 3, "M": 37, "S": 70, "N": 20},
        {"B": 2, "M": 64, "S": 9, "N": 16},
    ],
    attention_direct: [{"B": 1, "M": 1, "S": 3}, {"B": 5, "M": 33, "S": 45}],
    gated: [{"M": 1, "K": 1, "N": 1}, {"M": 190, "K": 33, "N": 70}],
    norm_gated: [{"M": 1, "K": 5, "N": 3}, {"M": 190, "K": 33, "N": 70}],
    mlp: [{"M": 1, "K": 1, "N": 1, "J": 1}, {"M": 130, "K": 40, "N": 90, "J": 70}],
}


def bound(make: Make, dtype: dt.DType) -> KernelOp:
    made = make(dtype)
    bind_tiles(made, DEFAULT)
    return made


def compare(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """16-bit values between the phases may round differently, which the next matmul adds up."""
    kind = dt.of_numpy(want.dtype)
    atol = 2e-5 if kind is F32 else 4 * kind.eps
    np.testing.assert_allclose(
        got.astype(float), want.astype(float), rtol=max(1e-5, 4 * kind.eps), atol=atol, err_msg=name
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("make", SIZES, ids=lambda m: m.__name__)
def test_chains(make: Make, dtype: dt.DType) -> None:
    """All launch widths down to one group, so that rings are used again and again."""
    made = bound(make, dtype)
    lowered = lower_kernel(made, DEFAULT)
    for symbols in SIZES[make]:
        arrays = make_inputs(made, symbols)
        want = run_tile(made, arrays, symbols)
        for blocks in (None, 1, 2):
            got = run_ascendc(lowered, arrays, symbols, blocks)
            for name in want:
                compare(f"{name} {symbols} on {blocks}", got[name], want[name])


def launch(
    lowered: AscendKernelOp, built: object, made: KernelOp, symbols: dict[str, int], blocks: int | None = None
):  # type: ignore[no-untyped-def]
    """Run on the twin; returns its result, and outputs beside what the tile kernel means."""
    plan = HostTiling(lowered).evaluate(symbols)
    arrays = make_inputs(made, symbols)
    want = run_tile(made, arrays, symbols)
    outputs = {n: np.zeros_like(a) for n, a in want.items()}
    args = [np.ascontiguousarray(arrays.get(n, outputs.get(n))) for n in made.arg_names.data]
    width = plan.blocks if blocks is None else min(blocks, plan.blocks)
    result = built.launch(args, plan.workspace, plan.packed, width, outputs=len(outputs))  # type: ignore[attr-defined]
    found = dict(zip(made.arg_names.data, args, strict=True))
    return result, [(n, found[n], want[n]) for n in want]


def run_on_twin(makes: Sequence[Make], dtypes: Sequence[dt.DType], mode: str) -> None:
    jobs = []
    for dtype in dtypes:
        for make in makes:
            made = bound(make, dtype)
            lowered = lower_kernel(made, DEFAULT)
            insert_sync(lowered)
            lowered.properties["sym_name"] = type(lowered.sym_name)(f"{make.__name__}_{dtype}")
            jobs.append((make, made, lowered))
    built = build_kernels([(low.sym_name.data, print_kernel(low)) for _, _, low in jobs], mode=mode)
    for make, made, lowered in jobs:
        name = lowered.sym_name.data
        for symbols in SIZES[make]:
            for blocks in (None, 1):
                result, outputs = launch(lowered, built[name], made, symbols, blocks)
                assert not result.deadlock, f"{name} {symbols}: deadlock"
                assert result.total == 0, f"{name} {symbols}: {result.message}"
                for output, got, want in outputs:
                    compare(f"{name} {output} {symbols}", got, want)


needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@needs_compiler
def test_in_check_mode() -> None:
    run_on_twin([attention, norm_gated, mlp], [F16], "check")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["check", "fast"])
def test_all_on_the_twin(mode: str) -> None:
    run_on_twin(list(SIZES), FLOATS, mode)


@needs_compiler
@pytest.mark.parametrize("pipe", ["V", "MTE2"])
def test_rows_signalled_before_they_are_stored_are_a_race(pipe: str) -> None:
    """The checker sees the hand-over: FULL set by another pipe than MTE3 doesn't order the stores."""
    made = bound(norm_direct, F32)
    lowered = lower_kernel(made, DEFAULT)
    insert_sync(lowered)
    (signal,) = [o for o in lowered.walk() if isinstance(o, CrossCoreSetFlagOp) and o.pipe.data is Pipe.MTE3]
    signal.properties["pipe"] = PipeAttr(Pipe(pipe))
    built = build_kernels([("norm_direct", print_kernel(lowered))], mode="check")
    result, _ = launch(lowered, built["norm_direct"], made, {"M": 331, "K": 130}, 1)
    assert result.total > 0


@pytest.mark.parametrize(
    ("make", "slots"),
    [(norm_direct, [2]), (gated, [2]), (norm_linear, [2, 2]), (norm_gated, [2, 2]), (attention, [2, 2, 1]), (mlp, [2, 1, 1, 1])],
)  # fmt: skip
def test_flags_are_shared_out(make: Make, slots: list[int]) -> None:
    """Two flags a slot out of eleven: later hand-overs get a single slot."""
    cube = plan_cube(make(F32))
    assert cube is not None
    assert [h.slots for h in cube.handovers] == slots
    ids = [f for h in cube.handovers for f in range(h.flag, h.flag + 2 * h.slots)]
    assert ids == list(range(len(ids))) and len(ids) <= FLAG_LIMIT


def test_blocks_of_one_run_are_handed_over_together() -> None:
    cube = plan_cube(gated(F16))
    assert cube is not None
    assert [len(h.parts) for h in cube.handovers] == [2]


@pytest.mark.parametrize("make", SIZES, ids=lambda m: m.__name__)
def test_a_program_out_of_order_is_found(make: Make) -> None:
    """Each wait that moves to the front of its program's round, past a set, or a lost set, is a proof that fails."""
    cube = plan_cube(make(F32))
    assert cube is not None
    aic, aiv = cube.steps("aic"), cube.steps("aiv")
    check_order(aic, aiv, cube.handovers)
    for i, step in enumerate(aiv):
        if step.kind == "set":
            with pytest.raises(InternalError, match="wait for each other|left over"):
                check_order(aic, aiv[:i] + aiv[i + 1 :], cube.handovers)
    if len(cube.handovers) > 1:
        moved = next(s for s in reversed(aiv) if s.kind == "wait" and s.is_full)
        late: list[Step] = [moved, *(s for s in aiv if s is not moved)]
        if cube.handovers[0].to_cube or len(cube.handovers) > 2:
            with pytest.raises(InternalError, match="wait for each other"):
                check_order(aic, late, cube.handovers)


@pytest.mark.parametrize("make", SIZES, ids=lambda m: m.__name__)
def test_rings_lie_at_multiples_of_512_bytes(make: Make) -> None:
    made = bound(make, F16)
    lowered = lower_kernel(made, DEFAULT)
    symbols = SIZES[make][-1]
    fields = HostTiling(lowered).evaluate(symbols)
    names = evaluate_params(made, symbols) | symbols
    cube = plan_cube(made)
    assert cube is not None
    parts = [(p, h.slots) for h in cube.handovers for p in h.parts]
    assert all(p.elements.evaluate(names) * p.dtype.bytes % 512 == 0 for p, _ in parts)
    assert fields.workspace == sum(
        fields.blocks * s * p.elements.evaluate(names) * p.dtype.bytes for p, s in parts
    )


@pytest.mark.parametrize(("make", "count"), [(norm_linear, 1), (attention, 2), (mlp, 2)])
def test_phases_share_the_unified_buffer(make: Make, count: int) -> None:
    """Wide rows in one phase leave no less room for the others: memory is the largest phase's, not the sum."""
    made = make(F32)
    plan = Plan.build(made, DEFAULT)
    phases = {s.phase for s in plan.slots if s.phase is not None}
    assert len(phases) == count  # those with temporaries
    assert len({g.position for g in plan.groups}) == len(plan.groups) - (make is norm_linear)
    sizes = {"M": 512, "K": 300, "N": 200, "J": 100, "S": 300, "B": 1, "bm": 32, "tm": 8}
    each = [sum(s.bytes.evaluate(sizes) for s in plan.slots if s.phase in (None, p)) for p in phases]
    assert plan.pool_bytes.evaluate(sizes) == max(each)
    ends = [(slot, at.evaluate(sizes)) for slot, at in plan.layout()]
    for a, at in ends:
        for b, start in ends:
            if a is not b and (a.phase is b.phase or None in (a.phase, b.phase)):
                assert at + a.bytes.evaluate(sizes) <= start or start + b.bytes.evaluate(sizes) <= at


@pytest.mark.parametrize(("rows", "block"), [(1, 16), (321, 32), (1280, 64), (100_000, 128)])
def test_blocks_of_a_chain_keep_all_cores_busy(rows: int, block: int) -> None:
    made = bound(norm_direct, F16)
    params = evaluate_params(made, {"M": rows, "K": 256})
    assert params["bm"] == block
    assert 1 <= params["tm"] <= block // 2


def test_rows_that_do_not_fit_are_a_guard() -> None:
    made = bound(attention_direct, F32)
    assert all(
        g.evaluate({"B": 1, "M": 64, "S": 2000} | evaluate_params(made, {"B": 1, "M": 64, "S": 2000})) >= 0
        for g in made.guards
    )
    long = {"B": 1, "M": 64, "S": 20_000}
    assert any(g.evaluate(long | evaluate_params(made, long)) < 0 for g in made.guards)


def long_chain(matmuls: int) -> KernelOp:
    """A chain of matmuls with a relu in front of each and behind the last."""
    body, left = norm(F32), "%panel"
    for i in range(matmuls):
        body += columns(left, f"w{i}", "k" if i % 2 == 0 else "n", "n" if i % 2 == 0 else "k", f"acc{i}")
        axes = "m, n" if i % 2 == 0 else "m, k"
        last = i == matmuls - 1
        body += (
            ("" if last else f"%rows{i} = ")
            + f"tile.for m step tm {{\n%u{i} = tile.move %acc{i} {{slots = 2 : i64}} : !tile.t<[{axes}], f32>\n"
            f"%r{i} = tile.map relu(%u{i}) : !tile.t<[{axes}], f32>\n"
            + (f"tile.store %r{i}, %y[{axes}]\n}}" if last else f"tile.yield collect %r{i}\n}}\n")
        )
        if not last:
            body += f"%panel{i} = tile.move %rows{i} {{slots = 2 : i64}} : !tile.t<[{axes}], f32, l1>\n"
            left = f"%panel{i}"
    weights = [f"w{i}: [{'K, N' if i % 2 == 0 else 'N, K'}]" for i in range(matmuls)]
    result = ">y: [M, N]" if matmuls % 2 else ">y: [M, K]"
    return kernel("long_chain", ["x_gm: [M, K]", *weights, result], "m = M, k = K, n = N", body, F32)


def test_more_hand_overs_than_flags_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="hands over 6 times.*at most 5"):
        plan_cube(long_chain(3))
    made = long_chain(2)
    bind_tiles(made, DEFAULT)
    symbols = {"M": 70, "K": 20, "N": 33}
    arrays = make_inputs(made, symbols)
    got = run_ascendc(lower_kernel(made, DEFAULT), arrays, symbols, 1)
    compare("y", got["y"], run_tile(made, arrays, symbols)["y"])


LOOSE = {
    "rows for the cube are collected by a loop": (
        "%x = tile.load %x_gm[m, k] : !tile.t<[m, k], f32>\n%panel = tile.move %x : !tile.t<[m, k], f32, l1>\n"
        + columns("%panel", "w", "k", "n", "acc")
        + "tile.for m step tm {\n%u = tile.move %acc : !tile.t<[m, n], f32>\ntile.store %u, %y[m, n]\n}"
    ),
    "a tile with the sub axis 'm' between two hand-overs": (
        norm(F32)
        + columns("%panel", "w", "k", "n", "acc")
        + "%u = tile.move %acc : !tile.t<[m, n], f32>\n%r = tile.map relu(%u) : !tile.t<[m, n], f32>\ntile.store %r, %y[m, n]"
    ),
    "no matmul uses it": norm(F32)
    + "%xl = tile.load %x_gm[m, k] : !tile.t<[m, k], f32, l1>\n"
    + columns("%xl", "w", "k", "n", "acc")
    + "tile.for m step tm {\n%u = tile.move %acc : !tile.t<[m, n], f32>\ntile.store %u, %y[m, n]\n}",
    "only the left one may come from the vector cores": (
        norm(F32)
        + "%wl = tile.load %w[k, n] : !tile.t<[n, k], f32, l1>\n"
        "%c = tile.contract(%wl, %panel) : !tile.t<[n, m], f32, l0c>\n"
        "tile.for m step tm {\n%u = tile.move %c : !tile.t<[n, m], f32>\ntile.store %u, %y[m, n]\n}"
    ),
    "a panel for the cube is collected row by row": (
        "%rows = tile.for k step tm {\n%x = tile.load %x_gm[m, k] : !tile.t<[m, k], f32>\ntile.yield collect %x\n}\n"
        "%panel = tile.move %rows : !tile.t<[m, k], f32, l1>\n"
        + columns("%panel", "w", "k", "n", "acc")
        + "tile.for m step tm {\n%u = tile.move %acc : !tile.t<[m, n], f32>\ntile.store %u, %y[m, n]\n}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", LOOSE)
def test_refusals_say_why(reason: str) -> None:
    args = ["x_gm: [M, K]", "w: [K, N]", ">y: [M, N]"]
    with pytest.raises(UnsupportedError, match=reason):
        lower_kernel(kernel("loose", args, "m = M, k = K, n = N", LOOSE[reason], F32), DEFAULT)


def random_chain(seed: int) -> tuple[KernelOp, dict[str, int]]:
    """One or two levels of one or two matmuls, with random vector work and outputs around them, and sizes."""
    rng = np.random.default_rng(seed)
    dtype = FLOATS[seed % 3]

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    levels, batch, prologue = int(rng.integers(1, 3)), chance(0.4), chance(0.6)
    wide = [chance(0.4) for _ in range(levels)]
    direct = chance(0.3) and not wide[-1]
    width = 16 * int(rng.integers(1, 4))
    extents = ["L0", *(["L1"] if levels == 2 else []), width if direct else "L2"]
    lanes = [f"l{i}" for i in range(levels + 1)]
    lead, at = (["B"], ["b.lo"]) if batch else ([], [])
    trans = [[chance(0.4) for _ in range(2)] for _ in range(levels)]
    args = [("x", gm([*lead, "M", extents[0]], dtype))]
    for i in range(levels):
        for j in range(2 if wide[i] else 1):
            shape = [extents[i + 1], extents[i]] if trans[i][j] else [extents[i], extents[i + 1]]
            args.append((f"w{i}{j}", gm([*lead, *shape] if batch and trans[i][j] else shape, dtype)))
    extra = [i for i in range(levels) if chance(0.4) and (i > 0 or prologue)]
    args += [(f"e{i}", gm([*lead, "M", extents[i]], F32, "out")) for i in extra]
    args.append(("y", gm([*lead, "M", extents[-1]], dtype, "out")))
    symbols = sorted({s for _, t in args for d in t.shape for s in d.names()})
    axes = {**({"b": "B"} if batch else {}), "m": "M", **dict(zip(lanes, extents, strict=True))}
    kb = KernelBuilder("chain", args, symbols, axes, {"bm": 128, "tm": "M"})

    def work(value: SSAValue, lane: str) -> SSAValue:
        """Vector work on rows: elementwise, or with a statistic of each row."""
        if chance(0.5):
            return kb.map("tanh", value)
        shifted = kb.map("sub", value, kb.reduce("max", value, [lane]))
        e = kb.map("exp", shifted)
        return kb.map("div", e, kb.reduce("sum", e, [lane]))

    with kb.grid([*([("b", 1)] if batch else []), ("m", "bm")], sub="m"):
        if prologue:
            with kb.for_("m", "tm") as loop:
                value = work(kb.cast(kb.load("x", [*at, "m", "l0"], ["m", "l0"]), F32), "l0")
                if 0 in extra:
                    kb.store(value, "e0", [*at, "m", "l0"])
                loop.yield_(collect=[kb.cast(value, dtype)])
            left = kb.move(loop.results[0], slots=2)
        else:
            left = kb.load("x", [*at, "m", "l0"], ["m", "l0"], space="l1")
        for i in range(levels):
            inner, outer = lanes[i], lanes[i + 1]

            def product(
                j: int, left: SSAValue = left, i: int = i, inner: str = inner, outer: str = outer
            ) -> SSAValue:
                index = [outer, inner] if trans[i][j] else [inner, outer]
                index = [*at, *index] if batch and trans[i][j] else index
                return kb.contract(left, kb.load(f"w{i}{j}", index, [inner, outer], space="l1"))

            step = int(rng.choice([16, 48, 128]))
            last = i == levels - 1
            if last and direct:
                with kb.for_(outer, 16) as loop:
                    kb.store(product(0), "y", [*at, "m", outer])
                    loop.yield_()
                break
            with kb.for_(outer, step) as loop:
                loop.yield_(collect=[product(j) for j in range(2 if wide[i] else 1)])
            blocks = loop.results
            with kb.for_("m", "tm") as loop:
                value = kb.move(blocks[0], slots=2)
                if wide[i]:
                    value = kb.map("mul", kb.map("sigmoid", value), kb.move(blocks[1], slots=2))
                value = work(value, outer)
                if i + 1 in extra and not last:
                    kb.store(value, f"e{i + 1}", [*at, "m", outer])
                if last:
                    kb.store(kb.cast(value, dtype), "y", [*at, "m", outer])
                    loop.yield_()
                else:
                    loop.yield_(collect=[kb.cast(value, dtype)])
            if not last:
                left = kb.move(loop.results[0], slots=2)
    sizes = {s: int(rng.choice([1, 5, 16, 33, 70, 130])) for s in symbols}
    sizes["M"] = int(rng.choice([1, 2, 17, 64, 150, 400]))
    if batch:
        sizes["B"] = int(rng.integers(1, 4))
    return kb.finish(), sizes


@pytest.mark.parametrize("seed", range(24))
def test_random_chains(seed: int) -> None:
    made, symbols = random_chain(seed)
    bind_tiles(made, DEFAULT)
    lowered = lower_kernel(made, DEFAULT)
    arrays = make_inputs(made, symbols, seed)
    want = run_tile(made, arrays, symbols)
    for blocks in (None, 1):
        got = run_ascendc(lowered, arrays, symbols, blocks)
        for name in want:
            compare(f"{name} {symbols} on {blocks}", got[name], want[name])
