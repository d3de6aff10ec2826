# SPDX-License-Identifier: Apache-2.0
"""Whole kernels in the interpreter: right results, and every illegal action named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaf.dialects.ascendc import KernelBuilder, KernelOp, counts, rows, vector
from gaf.dialects.ascendc.interpreter import interpret
from gaf.dialects.ascendc.queue import BufGetOp
from gaf.dialects.ascendc.sync import (
    CrossCoreSetFlagOp,
    CrossCoreWaitFlagOp,
    PipeBarrierOp,
    SetFlagOp,
    SyncAllOp,
    WaitFlagOp,
)
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import sym
from gaf.errors import GafError, InvalidInputError, UnsupportedError
from tests.dialects.ascendc.kernels import CASES, arrays_of, expected

RUNS = [(name, sizes) for name, case in CASES.items() for sizes in case.sizes]


@pytest.mark.parametrize(
    ("name", "sizes"), RUNS, ids=lambda v: str(v) if isinstance(v, str) else "x".join(map(str, v.values()))
)
def test_kernel_equals_reference(name: str, sizes: dict[str, int]) -> None:
    case = CASES[name]
    arrays = arrays_of(case, sizes)
    result = interpret(case.build(), arrays, sizes)
    for output, want in expected(case, arrays).items():
        assert result[output].shape == want.shape
        np.testing.assert_allclose(
            result[output].astype(np.float64), want, rtol=case.tolerance, atol=case.tolerance
        )


@pytest.mark.parametrize("name", CASES)
def test_result_does_not_depend_on_the_number_of_cores(name: str) -> None:
    case = CASES[name]
    sizes = case.sizes[1]
    arrays = arrays_of(case, sizes)
    results = [interpret(case.build(), arrays, sizes, blocks=b) for b in (1, 3, 7)]
    for output in results[0]:
        assert all(np.array_equal(r[output], results[0][output]) for r in results)


def copy_kernel(
    body: Callable[..., None] | None = None, rows_: int = 1, lanes: int = 64, **options: object
) -> KernelOp:
    """y = x through one tile; `body(kb, x, y)` stands in for the vector call."""
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64]), ("y", dt.F32, "out", [64])], **options)  # type: ignore[arg-type]
    xq, yq = kb.init_queue("xq", "vecin", 1, 256), kb.init_queue("yq", "vecout", 1, 256)
    x = kb.load(xq, kb.arg("x"), "x", 0, 1, 64, 64)
    y = kb.alloc(yq, dt.F32, "y")
    kb.node("model/Copy")
    if body is None:
        kb.call(vector.AddsOp, y, x, scalar=0.0, count=64)
    else:
        body(kb, x, y)
    kb.free(xq, x)
    kb.store(yq, y, kb.arg("y"), 0, rows_, lanes, lanes)
    return kb.finish()


X = np.arange(64, dtype=np.float32)


def failure(kernel: KernelOp, **symbols: int) -> str:
    with pytest.raises(GafError) as caught:
        interpret(kernel, {"x": X}, symbols)
    return str(caught.value)


def test_copy() -> None:
    assert np.array_equal(interpret(copy_kernel(), {"x": X}, {})["y"], X)


def test_reads_beyond_a_tensor_are_named_with_kernel_core_node_and_call() -> None:
    def body(kb: KernelBuilder, x: object, y: object) -> None:
        with kb.for_("n", 64, 66) as n:
            kb.call(vector.AddsOp, y, x, scalar=0.0, count=n)  # type: ignore[arg-type]

    text = failure(copy_kernel(body))
    assert (
        text
        == "kernel 'k', aiv 0, node 'model/Copy', ascendc.adds: 65 elements (260 bytes) of '%x', which has 256 bytes"
    )


def test_output_elements_that_nobody_writes() -> None:
    assert "14 of 64 elements of output 'y' are never written; got the first is element 50" in failure(
        copy_kernel(lanes=50)
    )


def test_store_beyond_an_output() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64]), ("y", dt.F32, "out", [64])])
    yq = kb.init_queue("yq", "vecout", 1, 256)
    y = kb.alloc(yq, dt.F32, "y")
    kb.call(vector.DuplicateOp, y, scalar=0.0, count=64)
    kb.store(yq, y, kb.arg("y"), 8, 1, 64, 64)
    assert "elements 8..71 of 'y', which has 64" in failure(kb.finish())


def test_uninitialised_memory_is_nan() -> None:
    def body(kb: KernelBuilder, x: object, y: object) -> None:
        kb.call(vector.AddOp, y, y, x, count=64)  # type: ignore[arg-type]

    assert np.isnan(interpret(copy_kernel(body), {"x": X}, {})["y"]).all()


def test_scratch_is_destroyed() -> None:
    def body(kb: KernelBuilder, x: object, y: object) -> None:
        pool = kb.init_buf("pool", 512)
        a, tmp = kb.buf_get(pool, 0, 64, dt.F32, "a"), kb.buf_get(pool, 256, 64, dt.F32, "tmp")
        kb.call(vector.DuplicateOp, tmp, scalar=1.0, count=64)
        kb.call(vector.AddsOp, a, x, scalar=1.0, count=64)  # type: ignore[arg-type]
        kb.call(counts.Recip1Op, a, a, tmp, count=64)
        kb.call(vector.AddOp, y, a, tmp, count=64)  # type: ignore[arg-type]

    assert np.isnan(interpret(copy_kernel(body), {"x": X}, {})["y"]).all()


def test_overlapping_slots_of_a_wrong_plan_give_wrong_results() -> None:
    def body(kb: KernelBuilder, x: object, y: object) -> None:
        pool = kb.init_buf("pool", 512)
        a, b = kb.buf_get(pool, 0, 64, dt.F32, "a"), kb.buf_get(pool, 32, 64, dt.F32, "b")
        kb.call(vector.AddsOp, a, x, scalar=0.0, count=64)  # type: ignore[arg-type]
        kb.call(vector.DuplicateOp, b, scalar=7.0, count=64)
        kb.call(vector.AddsOp, y, a, scalar=0.0, count=64)  # type: ignore[arg-type]

    result = interpret(copy_kernel(body), {"x": X}, {})["y"]
    assert np.array_equal(result[:8], X[:8]) and (result[8:] == 7).all()


def test_operands_that_overlap_for_some_sizes() -> None:
    """Whether the slots overlap depends on a tiling field, so that the verifier can't tell."""
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])], symbols=["N"], tiling=[("at", sym("N"))])
    pool = kb.init_buf("pool", 512)
    a, b = kb.buf_get(pool, 0, 16, dt.F32, "a"), kb.buf_get(pool, "at", 16, dt.F32, "b")
    kb.call(vector.DuplicateOp, b, scalar=0.0, count=16)
    kb.call(vector.ExpOp, a, b, count=16)
    kernel = kb.finish()
    assert interpret(kernel, {"x": X}, {"N": 64}) == {}
    assert "ascendc.exp: dst overlaps src; only src may equal dst" in failure(kernel, N=32)


def test_more_memory_than_there_is() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])], symbols=["N"], tiling=[("N", "N")])
    kb.init_buf("first", sym("N"))
    kb.init_buf("second", sym("N"))
    kernel = kb.finish()
    assert interpret(kernel, {"x": X}, {"N": 94_080}) == {}
    assert "buffer 'second' of 94112 bytes ends at 188224 of 188160 bytes" in failure(kernel, N=94_112)


def test_guards() -> None:
    kb = KernelBuilder(
        "k", "aiv", [("x", dt.F32, "in", [64])], symbols=["N"], tiling=[("N", "N")], guards=[sym("N") - 4]
    )
    with pytest.raises(
        UnsupportedError, match="kernel 'k' can't run for these sizes; expected N - 4 >= 0, got -1"
    ):
        interpret(kb.finish(), {"x": X}, {"N": 3})


def test_inputs_must_fit() -> None:
    with pytest.raises(
        InvalidInputError, match=r"input 'x' doesn't fit; expected f32\[64\], got float32\[63\]"
    ):
        interpret(copy_kernel(), {"x": X[:63]}, {})
    with pytest.raises(InvalidInputError, match="input 'x' is missing"):
        interpret(copy_kernel(), {}, {})


def queue_kernel(body: Callable[[KernelBuilder, object], None], buffers: int = 1) -> KernelOp:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])])
    body(kb, kb.init_queue("q", "vecout", buffers, 256))
    return kb.finish()


def test_queue_misuse() -> None:
    def twice(kb: KernelBuilder, q: object) -> None:
        kb.alloc(q, dt.F32, "a")  # type: ignore[arg-type]
        kb.alloc(q, dt.F32, "b")  # type: ignore[arg-type]

    def empty(kb: KernelBuilder, q: object) -> None:
        kb.deque(q, dt.F32, "a")  # type: ignore[arg-type]

    def not_enqueued(kb: KernelBuilder, q: object) -> None:
        kb.free(q, kb.alloc(q, dt.F32, "a"))  # type: ignore[arg-type]

    def leak(kb: KernelBuilder, q: object) -> None:
        kb.alloc(q, dt.F32, "a")  # type: ignore[arg-type]

    def use_after_enque(kb: KernelBuilder, q: object) -> None:
        a = kb.alloc(q, dt.F32, "a")  # type: ignore[arg-type]
        kb.enque(q, a)  # type: ignore[arg-type]
        kb.call(vector.DuplicateOp, a, scalar=0.0, count=8)

    assert "all 1 buffers of 'q' are in use: the core would hang" in failure(queue_kernel(twice))
    assert "'q' is empty: the core would hang" in failure(queue_kernel(empty))
    assert "a tensor of 'q' is freed while allocated" in failure(queue_kernel(not_enqueued))
    assert "queue 'q' ends with buffers allocated, free" in failure(queue_kernel(leak, 2))
    assert "'%a' is used while enqueued" in failure(queue_kernel(use_after_enque))


def test_events() -> None:
    def events(*ops: object) -> KernelOp:
        kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])])
        kb.call(PipeBarrierOp, pipe="ALL")
        for op in ops:
            kb.call(op, event="V_MTE3", id=0)  # type: ignore[arg-type]
        return kb.finish()

    assert interpret(events(SetFlagOp, WaitFlagOp), {"x": X}, {}) == {}
    assert "event V_MTE3 0 is set twice" in failure(events(SetFlagOp, SetFlagOp))
    assert "event V_MTE3 0 was never set" in failure(events(WaitFlagOp))
    assert "events without a wait" in failure(events(SetFlagOp))


def mix(
    aic: Callable[[KernelBuilder], None], aiv: Callable[[KernelBuilder], None], blocks: int = 1
) -> KernelOp:
    kb = KernelBuilder("k", "mix", [("x", dt.F32, "in", [64])], blocks=blocks, workspace=64)
    with kb.section("aic"):
        aic(kb)
    with kb.section("aiv"):
        aiv(kb)
    return kb.finish()


def test_cross_core_flags() -> None:
    def send(kb: KernelBuilder) -> None:
        kb.call(CrossCoreSetFlagOp, flag=0, pipe="FIX")

    def receive(kb: KernelBuilder) -> None:
        kb.call(CrossCoreWaitFlagOp, flag=0)

    def nothing(kb: KernelBuilder) -> None:
        kb.let("n", 1)

    def half(kb: KernelBuilder) -> None:
        with kb.if_("sub", "eq", 0):
            send(kb)

    assert interpret(mix(send, receive, 2), {"x": X}, {}) == {}
    assert interpret(mix(receive, send, 2), {"x": X}, {}) == {}
    assert "deadlock: aiv 0.0 waits for flag 0; aiv 0.1 waits for flag 0" in failure(mix(nothing, receive))
    assert "deadlock: aic 0 waits for flag 0" in failure(mix(receive, half))
    assert "cross-core flags without a wait: {0: 1}" in failure(mix(send, nothing))
    assert "cross-core flags that only one vector core set: {0: [1, 0]}" in failure(mix(nothing, half))

    def flood(kb: KernelBuilder) -> None:
        with kb.for_("i", 0, 16):
            send(kb)

    assert "flag 0 counts beyond 15" in failure(mix(flood, nothing))


def test_sync_all_orders_cores() -> None:
    """Core b writes element b of the workspace; after the barrier core b stores what its neighbour wrote."""
    kb = KernelBuilder("k", "aiv", [("y", dt.F32, "out", [4, 8])], blocks=4, workspace=4 * 32)
    ws = kb.workspace("ws", 0, dt.F32)
    wq, xq, yq = (kb.init_queue(n, p, 1, 32) for n, p in (("w", "vecout"), ("x", "vecin"), ("y", "vecout")))
    w = kb.alloc(wq, dt.F32, "w")
    kb.call(vector.DuplicateOp, w, scalar=sym("block"), count=8)
    kb.store(wq, w, ws, sym("block") * 8, 1, 8, 8)
    kb.call(SyncAllOp)
    x = kb.load(xq, ws, "x", (sym("block") + 1) % "blocks" * 8, 1, 8, 8)
    y = kb.alloc(yq, dt.F32, "y")
    kb.call(vector.AddsOp, y, x, scalar=0.0, count=8)
    kb.free(xq, x)
    kb.store(yq, y, kb.arg("y"), sym("block") * 8, 1, 8, 8)
    result = interpret(kb.finish(), {}, {})["y"]
    assert np.array_equal(result, np.repeat([[1], [2], [3], [0]], 8, axis=1).astype(np.float32))


def test_booleans_are_bytes() -> None:
    kb = KernelBuilder("k", "aiv", [("c", dt.BOOL, "in", [40]), ("n", dt.BOOL, "out", [40])])
    cq, nq = kb.init_queue("c", "vecin", 1, 64), kb.init_queue("n", "vecout", 1, 64)
    pool = kb.init_buf("pool", 40 * 4 + 128)
    f, tmp = kb.buf_get(pool, 0, 40, dt.F32, "f"), kb.buf_get(pool, 160, 64, dt.F16, "tmp")
    c = kb.load(cq, kb.arg("c"), "c", 0, 1, 40, 40)
    kb.call(rows.CastTileOp, f, c, tmp, mode="none", rows=1, lanes=40)
    kb.free(cq, c)
    kb.call(vector.MulsOp, f, f, scalar=-1.0, count=40)
    kb.call(vector.AddsOp, f, f, scalar=1.0, count=40)
    n = kb.alloc(nq, dt.U8, "n")
    kb.call(rows.CastTileOp, n, f, tmp, mode="rint", rows=1, lanes=40)
    kb.store(nq, n, kb.arg("n"), 0, 1, 40, 40)
    c_array = np.random.default_rng(0).integers(0, 2, 40).astype(bool)
    result = interpret(kb.finish(), {"c": c_array}, {})["n"]
    assert result.dtype == bool and np.array_equal(result, ~c_array)


def test_offsets_of_slots_are_checked() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [64])], symbols=["N"], tiling=[("N", "N")])
    buf = kb.init_buf("pool", 256)
    kb.emit(BufGetOp(buf, offset=sym("N"), count=8, result=kb.buf_get(buf, 0, 8, dt.F32, "a").type))
    kernel = kb.finish()
    assert interpret(kernel, {"x": X}, {"N": 224}) == {}
    assert "offset 16 isn't a multiple of 32 bytes" in failure(kernel, N=16)
    assert "bytes 256..288 of a buffer of 256 bytes" in failure(kernel, N=256)
