# SPDX-License-Identifier: Apache-2.0
"""Barriers: an independent checker watches the executed calls with their real addresses and finds missing
ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from xdsl.ir import Operation

from gaf.dialects.ascendc import ApiOp, KernelBuilder, KernelOp, Pipe, counts, vector
from gaf.dialects.ascendc.interpreter import Core, interpret
from gaf.dialects.ascendc.queue import AllocOp, DequeOp
from gaf.dialects.ascendc.sync import PipeBarrierOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import sym
from gaf.passes.ascendc.insert_sync import insert_sync
from tests.dialects.ascendc.kernels import CASES, arrays_of


@dataclass
class Watch:
    """Per core: byte ranges that vector calls since the last barrier touched; hazards that were met."""

    pending: dict[int, list[tuple[int, int, bool]]] = field(default_factory=dict)
    hazards: list[str] = field(default_factory=list)

    def __call__(self, core: Core, op: Operation) -> None:
        touched = self.pending.setdefault(id(core), [])
        if isinstance(op, PipeBarrierOp):
            touched.clear()
        elif isinstance(op, AllocOp | DequeOp):
            queue = core.values[op.queue]
            # the events of a queue order its tensors: forget what was done to buffers that change hands
            slots = {s.start for s in queue.slots if s.state in ("free", "enqueued")}
            touched[:] = [t for t in touched if not any(s <= t[0] < s + queue.bytes for s in slots)]
        elif isinstance(op, ApiOp) and op.PIPE is Pipe.V:
            mine = []
            for access in op.accesses():
                start = core.values[access.value].start
                size = core.int(access.elements) * dt.of(access.value.type.element).bytes  # type: ignore[attr-defined]
                mine.append((start, start + size, access.write))
            for lo, hi, write in mine:
                if any(lo < h and low < hi and (write or w) for low, h, w in touched):
                    self.hazards.append(op.name)
            touched += mine


def hazards(kernel: KernelOp, arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> list[str]:
    watch = Watch()
    interpret(kernel, arrays, sizes, blocks=2, observe=watch)
    return watch.hazards


def barriers(kernel: KernelOp) -> list[PipeBarrierOp]:
    return [op for op in kernel.walk() if isinstance(op, PipeBarrierOp)]


@pytest.mark.parametrize("name", CASES)
def test_no_dependent_calls_overlap_and_no_barrier_is_superfluous(name: str) -> None:
    case = CASES[name]
    sizes = {s: n // 4 + 1 for s, n in case.sizes[-1].items()}
    arrays = arrays_of(case, sizes)
    kernel = case.build()
    if name != "gather_rows":  # a single call per tile, ordered by its queues
        assert hazards(kernel, arrays, sizes)
    count = insert_sync(kernel)
    assert len(barriers(kernel)) == count
    assert not hazards(kernel, arrays, sizes)
    assert insert_sync(kernel) == 0
    for i in range(count):
        fewer = kernel.clone()
        barriers(fewer)[i].detach()
        assert hazards(fewer, arrays, sizes), f"barrier {i} is not needed"


def vector_kernel() -> tuple[KernelBuilder, list]:  # type: ignore[type-arg]
    kb = KernelBuilder(
        "k", "aiv", [("x", dt.F32, "in", [8])], symbols=["N"], tiling=[("N", "N"), ("size", sym("N") * 32)]
    )
    pool = kb.init_buf("pool", sym("size") * 16)
    return kb, [kb.buf_get(pool, sym("size") * (4 * i), sym("size"), dt.F32, n) for i, n in enumerate("abcd")]


def places(kernel: KernelOp) -> str:
    """The vector calls and barriers in order: letters of tensors, `|` for a barrier."""
    out = []
    for op in kernel.walk():
        if isinstance(op, PipeBarrierOp):
            out.append("|")
        elif isinstance(op, ApiOp):
            out.append("".join(v.name_hint or "?" for v in op.operands))
    return " ".join(out)


def test_reads_do_not_wait_for_reads() -> None:
    kb, (a, b, c, d) = vector_kernel()
    kb.call(vector.ExpOp, b, a, count=8)
    kb.call(vector.ExpOp, c, a, count=8)
    kb.call(vector.AddOp, d, b, c, count=8)  # read after write
    kb.call(vector.ExpOp, a, a, count=8)  # a was read before the barrier only
    kb.call(vector.ExpOp, b, c, count=8)  # write after read
    kb.call(vector.ExpOp, b, c, count=8)  # write after write
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "ba ca | dbc aa | bc | bc"


def test_loop_carries_dependences_around_its_back_edge() -> None:
    kb, (a, b, c, d) = vector_kernel()
    with kb.for_("i", 0, 4):
        kb.call(vector.ExpOp, b, a, count=8)
        kb.call(vector.ExpOp, d, c, count=8)
    with kb.for_("j", 0, 4):
        kb.call(vector.AddsOp, a, b, scalar=1.0, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "| ba dc | ab"


def test_barrier_inside_a_loop_that_may_not_run_does_not_count_after_it() -> None:
    kb, (a, b, c, _) = vector_kernel()
    kb.call(vector.ExpOp, b, a, count=8)
    with kb.for_("i", 0, sym("N")):
        kb.call(PipeBarrierOp, pipe="V")
    with kb.if_("N", "gt", 4):
        kb.call(PipeBarrierOp, pipe="ALL")
    kb.call(vector.ExpOp, c, b, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "ba | | | cb"


def test_slots_of_one_buffer_are_apart_only_if_proven() -> None:
    kb = KernelBuilder(
        "k", "aiv", [("x", dt.F32, "in", [8])], symbols=["N"], tiling=[("N", "N"), ("off", sym("N") * 32)]
    )
    pool = kb.init_buf("pool", 1 << 12)
    a, b = kb.buf_get(pool, 0, 8, dt.F32, "a"), kb.buf_get(pool, 32, 8, dt.F32, "b")
    c = kb.buf_get(pool, sym("off"), 8, dt.F32, "c")
    for target in (a, b, c):
        kb.call(vector.DuplicateOp, target, scalar=0.0, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "a b | c"


def test_slots_whose_places_are_fields_are_told_apart_by_the_definitions_of_the_fields() -> None:
    tiling = [
        ("N", "N"),
        ("size", sym("N") * 64),
        ("bAt", sym("size") + 32),
        ("cAt", sym("bAt") + sym("size") * 2 - 32),
    ]
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [8])], symbols=["N"], tiling=tiling)
    pool = kb.init_buf("pool", sym("size") * 4)
    a, b = (kb.buf_get(pool, at, sym("N") * 16, dt.F32, n) for n, at in (("a", 0), ("b", "bAt")))
    c = kb.buf_get(pool, "cAt", sym("N") * 16, dt.F32, "c")
    d = kb.buf_get(pool, sym("cAt") + 32, sym("N") * 16, dt.F32, "d")
    for target in (a, b, c, d):
        kb.call(vector.DuplicateOp, target, scalar=0.0, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "a b c | d"


def test_slots_that_move_with_a_loop_are_not_told_apart() -> None:
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [8])])
    pool = kb.init_buf("pool", 1 << 12)
    with kb.for_("i", 0, 4) as i:
        t = kb.buf_get(pool, i * 32, 8, dt.F32, "t")
        kb.call(vector.DuplicateOp, t, scalar=0.0, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "| t"


def test_scratch_counts_as_written() -> None:
    kb, (a, b, c, d) = vector_kernel()
    with kb.for_("i", 0, 1):
        kb.call(counts.Recip1Op, a, b, d, count=8)
        kb.call(counts.Recip1Op, c, b, d, count=8)
    kernel = kb.finish()
    insert_sync(kernel)
    assert places(kernel) == "| abd | cbd"
