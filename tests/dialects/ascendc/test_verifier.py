# SPDX-License-Identifier: Apache-2.0
"""What verifiers refuse, with the message that says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.ascendc import API_OPS, KernelBuilder, counts, rows, vector
from gaf.dialects.ascendc.copy import GatherTileOp, LoadTileBoxOp, LoadTileOp, StoreTileOp
from gaf.dialects.ascendc.cube import InitMmadOp, MmadRunOp, MmadWindowsOp
from gaf.dialects.ascendc.kernel import RESERVED_NAMES, KernelOp
from gaf.dialects.ascendc.sync import CrossCoreSetFlagOp, PipeBarrierOp, SetFlagOp
from gaf.dialects.ascendc.types import LocalType, MmadType, QueueType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import read, sym


def builder(kind: str = "aiv", **options: object) -> KernelBuilder:
    return KernelBuilder(
        "k", kind, [("x", dt.F32, "in", ["M"]), ("h", dt.F16, "in", ["M"]), ("l", dt.I64, "in", ["M"]), ("y", dt.F32, "out", ["M"])],
        symbols=["M"], tiling=[("M", "M"), ("tm", 64)], **options,  # type: ignore[arg-type]
    )  # fmt: skip


def floats(kb: KernelBuilder, *names: str, count: int = 64, element: dt.DType = dt.F32):  # type: ignore[no-untyped-def]
    buf = kb.init_buf("pool", len(names) * count * element.bytes)
    return [kb.buf_get(buf, i * count * element.bytes, count, element, n) for i, n in enumerate(names)]


def unknown_name(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b")
    kb.call(vector.ExpOp, a, b, count=sym("rows"))


def symbol_in_body(kb: KernelBuilder) -> None:
    kb.symbols.append("N")
    kb.let("n", sym("N"))


def sub_outside_of_aiv(kb: KernelBuilder) -> None:
    kb.let("which", sym("sub"))


def loop_variable_after_loop(kb: KernelBuilder) -> None:
    with kb.for_("i", 0, 4):
        pass
    kb.let("j", sym("i"))


def name_twice(kb: KernelBuilder) -> None:
    kb.let("rows", 1)
    with kb.for_("rows", 0, 4):
        pass


def reserved_name(kb: KernelBuilder) -> None:
    kb.let("register", 1)


def reads_memory(kb: KernelBuilder) -> None:
    kb.let("row", read("x", 0))


def element_type(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b", element=dt.BF16)
    kb.call(vector.ExpOp, a, b, count=64)


def mixed_types(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a")
    (b,) = floats(kb, "b", element=dt.F16)
    kb.call(vector.ExpOp, a, b, count=64)


def too_small(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b")
    kb.call(vector.ExpOp, a, b, count=65)


def alias(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b", count=1024)
    kb.call(counts.Tanh1Op, a, a, kb.reinterpret(b, dt.U8), count=64)


def overlap(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a", count=128)
    kb.call(vector.ExpOp, kb.slice(a, 8, 64), kb.slice(a, 0, 64), count=64)


def scratch_overlap(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b", count=64)
    kb.call(counts.Rsqrt1Op, a, a, a, count=64)


def misaligned(kb: KernelBuilder) -> None:
    buf = kb.init_buf("pool", 256)
    kb.buf_get(buf, 16, 8, dt.F32, "a")


def misaligned_slice(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a")
    kb.call(vector.ExpOp, kb.slice(a, 3, 8), kb.slice(a, 32, 8), count=8)


def load_into_buffer(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a")
    kb.call(LoadTileOp, a, kb.arg("x"), src_at=0, rows=1, lanes=64, stride=64)


def load_box(kb: KernelBuilder, source: str, kind: dt.DType, col0: int, fill: float) -> None:
    q = kb.init_queue("q", "vecin", 1, 1024)
    kb.call(
        LoadTileBoxOp, kb.alloc(q, kind, "t"), kb.arg(source), src_at=0, rows=2, lanes=16, row0=0, col0=col0,
        nrows=1, ncols=8, stride=16, fill=fill,
    )  # fmt: skip


def box_outside_of_tile(kb: KernelBuilder) -> None:
    load_box(kb, "x", dt.F32, 9, 0)


def box_filled_with_a_long_number(kb: KernelBuilder) -> None:
    load_box(kb, "l", dt.I64, 0, 1)


def division_of_integers(kb: KernelBuilder) -> None:
    a, b, c = floats(kb, "a", "b", "c", element=dt.I32)
    kb.call(rows.BinaryRowOp, a, b, c, op="div", rows=1, lanes=64)


def bits_of_long_words(kb: KernelBuilder) -> None:
    a, b, c = floats(kb, "a", "b", "c", element=dt.I32)
    kb.call(vector.AndOp, a, b, c, count=64)


def vector_before_enque(kb: KernelBuilder) -> None:
    q = kb.init_queue("q", "vecin", 1, 256)
    x = kb.alloc(q, dt.F32, "x")
    kb.call(vector.ExpOp, x, x, count=64)


def store_before_enque(kb: KernelBuilder) -> None:
    q = kb.init_queue("q", "vecout", 1, 256)
    y = kb.alloc(q, dt.F32, "yt")
    kb.call(StoreTileOp, kb.arg("y"), y, dst_at=0, rows=1, lanes=64, stride=64)


def wrong_store_type(kb: KernelBuilder) -> None:
    q = kb.init_queue("q", "vecout", 1, 256)
    y = kb.alloc(q, dt.F16, "yt")
    kb.store(q, y, kb.arg("y"), 0, 1, 64, 64)


def free_to_other_queue(kb: KernelBuilder) -> None:
    p, q = kb.init_queue("p", "vecin", 1, 256), kb.init_queue("q", "vecin", 1, 256)
    x = kb.load(p, kb.arg("x"), "t", 0, 1, 64, 64)
    kb.free(q, x)


def init_in_loop(kb: KernelBuilder) -> None:
    with kb.for_("i", 0, 4):
        kb.init_buf("pool", 64)


def queue_of_calc(kb: KernelBuilder) -> None:
    QueueType.of("veccalc", 2)


def many_buffers(kb: KernelBuilder) -> None:
    QueueType.of("vecin", 9)


def local_bool(kb: KernelBuilder) -> None:
    LocalType.of(dt.BOOL)


def negative_count(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b")
    kb.call(vector.ExpOp, a, b, count=-1)


def no_such_cast(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a", element=dt.F16)
    (b,) = floats(kb, "b", element=dt.BF16)
    kb.call(vector.CastOp, a, b, mode="none", count=64)


def cast_mode(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a", element=dt.BF16)
    (b,) = floats(kb, "b")
    kb.call(vector.CastOp, a, b, mode="none", count=64)


def cast_without_tmp(kb: KernelBuilder) -> None:
    (a,) = floats(kb, "a", element=dt.U8)
    (b,) = floats(kb, "b")
    kb.call(rows.CastTileOp, a, b, mode="rint", rows=1, lanes=64)


def round_none(kb: KernelBuilder) -> None:
    a, b = floats(kb, "a", "b")
    kb.call(counts.RoundToOp, a, b, mode="none", count=64)


def gather_by_float(kb: KernelBuilder) -> None:
    q = kb.init_queue("q", "vecin", 1, 256)
    kb.call(
        GatherTileOp,
        kb.alloc(q, dt.F32, "t"),
        kb.arg("x"),
        kb.arg("x"),
        table_at=0,
        ids_at=0,
        rows=1,
        lanes=8,
        id_stride=1,
        table_stride=8,
        table_rows=8,
    )


def barrier_on_scalar(kb: KernelBuilder) -> None:
    kb.call(PipeBarrierOp, pipe="S")


def event_of_toolkit(kb: KernelBuilder) -> None:
    kb.call(SetFlagOp, event="V_MTE3", id=6)


def flag_in_vector_kernel(kb: KernelBuilder) -> None:
    kb.call(CrossCoreSetFlagOp, flag=0, pipe="MTE3")


def section_in_vector_kernel(kb: KernelBuilder) -> None:
    with kb.section("aiv"):
        pass


def mmad_on_vector_core(kb: KernelBuilder) -> None:
    kb.init_mmad("mm", dt.F32)


def mmad_of_integers(kb: KernelBuilder) -> None:
    MmadType.of(dt.I8, False, False, dt.I32)


def zero_step(kb: KernelBuilder) -> None:
    with kb.for_("i", 0, 4, 0):
        pass


def unaligned_workspace(kb: KernelBuilder) -> None:
    kb.workspace("ring", 8, dt.F32)


MESSAGES: dict[Callable[[KernelBuilder], None], str] = {
    unknown_name: "ascendc.exp: count uses the unknown name rows; expected one of M, block, blocks, tm",
    symbol_in_body: "ascendc.let: value uses the unknown name N",
    sub_outside_of_aiv: "ascendc.let: value uses the unknown name sub",
    loop_variable_after_loop: "ascendc.let: value uses the unknown name i",
    name_twice: "the name 'rows' of a loop variable is taken",
    reserved_name: "'register' can't name a scalar; expected a C++ identifier that isn't reserved",
    reads_memory: "ascendc.let: value reads memory",
    element_type: "ascendc.exp: element type of src; expected f32 or f16, got bf16",
    mixed_types: "ascendc.exp: dst, src have one element type; got dst f32, src f16",
    too_small: "ascendc.exp: src is too small; expected at least 65 elements, got 64",
    alias: "ascendc.tanh1: dst overlaps src; expected disjoint memory",
    overlap: "ascendc.exp: dst overlaps src; expected disjoint memory",
    scratch_overlap: "ascendc.rsqrt1: tmp overlaps src",
    misaligned: "ascendc.buf_get: offset in bytes; expected a multiple of 32, got 16",
    misaligned_slice: "ascendc.slice: start; expected a multiple of 32 bytes, got 12 bytes",
    load_into_buffer: "ascendc.load_tile runs on PIPE_MTE2 and can't use dst",
    box_outside_of_tile: "the box ends outside of the tile; expected col0 + ncols <= 16, got 17",
    box_filled_with_a_long_number: "a tile of i64 is filled with 1.0; expected 0",
    division_of_integers: "ascendc.binary_row: no division of i32; expected f32, got i32",
    bits_of_long_words: "ascendc.and: element type of a; expected i16 or ui16, got i32",
    vector_before_enque: "ascendc.exp runs on PIPE_V and can't use src",
    store_before_enque: "ascendc.store_tile runs on PIPE_MTE3 and can't use src",
    wrong_store_type: "ascendc.store_tile: dst, src have one element type; got dst f32, src f16",
    free_to_other_queue: "ascendc.free: the tensor isn't from this queue",
    init_in_loop: "ascendc.init_buf in ascendc.for; expected at the top of a kernel or section",
    queue_of_calc: "a queue moves data in or out; expected vecin or vecout, got veccalc",
    many_buffers: "buffers of one queue; expected 1..8",
    local_bool: "a LocalTensor can't hold i1",
    negative_count: "ascendc.exp: count is negative; expected >= 0, got -1",
    no_such_cast: "ascendc.cast: no instruction converts bf16 to f16; expected bf16 to f32, i32",
    cast_mode: "ascendc.cast: rounding from f32 to bf16; expected rint or floor or ceil or round or trunc, got none",
    cast_without_tmp: "ascendc.cast_tile from f32 to ui8; expected a tmp tile of f16",
    round_none: "ascendc.round_to: mode",
    gather_by_float: "ascendc.gather_tile: element type of ids; expected i32 or i64, got f32",
    barrier_on_scalar: "ascendc.pipe_barrier: the scalar pipe needs none",
    event_of_toolkit: "ascendc.set_flag: event id; expected 0..5, got 6",
    flag_in_vector_kernel: "ascendc.cross_core_set_flag in a kernel of kind aiv; expected kind mix",
    section_in_vector_kernel: "ascendc.section aiv; expected directly in a mix kernel, once, got a kernel of kind aiv",
    mmad_on_vector_core: "ascendc.init_mmad runs on the cube core",
    mmad_of_integers: "operands of BlockMmad; expected f32 or f16 or bf16, got i8",
    zero_step: "ascendc.for: step; expected > 0, got 0",
    unaligned_workspace: "ascendc.workspace: offset in bytes; expected a multiple of 32, got 8",
}


@pytest.mark.parametrize("wrong", MESSAGES, ids=lambda f: f.__name__)
def test_refused(wrong: Callable[[KernelBuilder], None]) -> None:
    with pytest.raises(VerifyException, match=re.escape(MESSAGES[wrong])):
        kb = builder()
        wrong(kb)
        kb.finish()


def cube(**changes: object) -> KernelOp:
    kb = builder("mix", workspace=1 << 16)
    ring = kb.workspace("ring", 0, dt.F32)
    with kb.section("aic"):
        mm = kb.init_mmad("mm", dt.F16, m=64, n=64)
        params = {
            "c_at": 0,
            "ldc": 64,
            "a_at": 0,
            "lda": 8,
            "b_at": 0,
            "ldb": 64,
            "m": 8,
            "n": 64,
            "k": 8,
            **changes,
        }
        call = MmadWindowsOp if "taps" in params else MmadRunOp
        kb.call(call, mm, ring, kb.arg(str(params.pop("a", "h"))), kb.arg("h"), **params)
        flag = params.get("flag", 0)
        kb.call(CrossCoreSetFlagOp, flag=flag, pipe="FIX")
    return kb.finish()


def test_cube_calls() -> None:
    cube()
    with pytest.raises(VerifyException, match="ascendc.mmad_run: row pitch of c; expected >= 64, got 50"):
        cube(ldc=50)
    with pytest.raises(VerifyException, match="ascendc.mmad_run: element type of a; expected f16, got f32"):
        cube(a="x")
    windows = {"taps": 2, "inner": 1, "line": 64, "phase": 0, "step": 0, "dilation": 1, "stride": 1}
    cube(**windows)
    with pytest.raises(VerifyException, match="ascendc.mmad_windows: stride; expected >= 1, got 0"):
        cube(**windows | {"stride": 0})
    kb = builder("aic")
    with pytest.raises(VerifyException, match=r"ascendc.init_mmad: n; expected 1..256, got 512"):
        kb.emit(InitMmadOp(m=64, n=512, result=MmadType.of(dt.F16, False, False)))
        kb.finish()


def test_flag_ids() -> None:
    kb = builder("mix")
    with kb.section("aiv"):
        kb.call(CrossCoreSetFlagOp, flag=11, pipe="MTE3")
    with pytest.raises(VerifyException, match=r"flag id; expected 0..10, got 11"):
        kb.finish()


def test_sub_is_known_in_the_vector_section_of_a_mix_kernel_only() -> None:
    kb = builder("mix")
    with kb.section("aiv"):
        kb.let("first", sym("sub") * 8)
    kb.finish()
    kb = builder("mix")
    with kb.section("aic"):
        kb.let("second", sym("sub") * 8)
    with pytest.raises(VerifyException, match="uses the unknown name sub"):
        kb.finish()


def test_tiling_fields_see_symbols_and_earlier_fields() -> None:
    options = {
        "symbols": ["M"],
        "tiling": [("a", "M"), ("b", sym("a") + 1)],
        "guards": [sym("b")],
        "blocks": "b",
    }
    KernelBuilder("k", "aiv", [], **options).finish()  # type: ignore[arg-type]
    with pytest.raises(VerifyException, match="tiling field a uses the unknown name b"):
        KernelBuilder("k", "aiv", [], **{**options, "tiling": [("a", "b"), ("b", 1)]}).finish()  # type: ignore[arg-type]
    with pytest.raises(VerifyException, match="the name 'M' of a tiling field is taken"):
        KernelBuilder("k", "aiv", [], **{**options, "tiling": [("M", sym("M") + 1)]}).finish()  # type: ignore[arg-type]


def test_names_of_calls_are_reserved() -> None:
    for cls in API_OPS:
        template = cls.__dict__.get("CPP")
        if template is not None and (head := re.match(r"\w+(?=[(<])", template)):
            assert head[0] in RESERVED_NAMES, f"a scalar named {head[0]} would hide the call of {cls.name}"
