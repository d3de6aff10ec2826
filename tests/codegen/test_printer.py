# SPDX-License-Identifier: Apache-2.0
"""Printed kernels: six golden files, and what the printer must get right for any kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from gaf.codegen.printer import WIDTH, print_kernel, wrap
from gaf.dialects.ascendc import KernelBuilder, KernelOp, counts, vector
from gaf.dialects.ascendc.kernel import cpp_string
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, minimum, sym
from gaf.errors import InternalError
from gaf.passes.ascendc.insert_sync import insert_sync
from tests.dialects.ascendc.kernels import CASES


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = CASES[name].build()
    insert_sync(kernel)
    golden(f"ascendc/{name}.cpp", print_kernel(kernel))


@pytest.mark.parametrize("name", CASES)
def test_same_input_gives_the_same_text(name: str) -> None:
    first, second = CASES[name].build(), CASES[name].build()
    assert print_kernel(first) == print_kernel(second) == print_kernel(first)


def small(name: str = "k", members: tuple[str, ...] = ()) -> KernelBuilder:
    return KernelBuilder(name, "aiv", [("x", dt.F32, "in", [64])], members=members)


def body(kernel: KernelOp) -> list[str]:
    return [line.strip() for line in print_kernel(kernel).splitlines()]


def tensor(kb: KernelBuilder, name: str, element: dt.DType = dt.F32):  # type: ignore[no-untyped-def]
    return kb.buf_get(kb.init_buf("pool", 256), 0, 256 // element.bytes, element, name)


def test_values_get_distinct_names_that_are_no_keywords() -> None:
    kb = small()
    for name in ("half", "half", "Add", "pool", "x", "v2.nd", "sum_1"):
        tensor(kb, name)
    kb.let("sum", 1)
    lines = "\n".join(body(kb.finish()))
    names = [line.split()[1] for line in lines.splitlines() if line.startswith("LocalTensor")]
    assert names == ["half2", "half3", "Add2", "pool", "x2", "v2_nd", "sum2"]


def test_scalars_have_the_type_of_the_tensor() -> None:
    kb = small()
    f, h, i = tensor(kb, "f"), tensor(kb, "h", dt.F16), tensor(kb, "i", dt.I32)
    kb.call(vector.MulsOp, f, f, scalar=0.1, count=8)
    kb.call(vector.MulsOp, h, h, scalar=0.5, count=8)
    kb.call(vector.AddsOp, i, i, scalar=-3, count=8)
    kb.call(vector.DuplicateOp, f, scalar=-math.inf, count=8)
    kb.call(vector.DuplicateOp, f, scalar=math.nan, count=8)
    kb.call(vector.DuplicateOp, f, scalar=1e30, count=8)
    kb.call(vector.DuplicateOp, f, scalar=sym("block"), count=8)
    kb.call(vector.CreateVecIndexOp, i, first=const(4), count=8)
    calls = [line for line in body(kb.finish()) if line.startswith(("Muls", "Adds", "Dup", "Create"))]
    assert calls == [
        "Muls(f, f, 0.1f, 8);", "Muls(h, h, static_cast<half>(0.5f), 8);", "Adds(i, i, -3, 8);",
        "Duplicate(f, -gaf::InfF(), 8);", "Duplicate(f, gaf::NanF(), 8);", "Duplicate(f, 1e+30f, 8);",
        "Duplicate(f, static_cast<float>(block), 8);", "CreateVecIndex(i, 4, 8);",
    ]  # fmt: skip


def test_views_are_written_in_place() -> None:
    kb = small()
    f = kb.buf_get(kb.init_buf("pool", 512), 0, 128, dt.F32, "f")
    kb.call(
        counts.Tanh1Op,
        kb.slice(f, 0, 8),
        kb.slice(f, 8, 8),
        kb.reinterpret(kb.slice(f, 16, 64), dt.U8),
        count=8,
    )
    assert "gaf::Tanh1(f, f[8], f[16].ReinterpretCast<uint8_t>(), 8);" in body(kb.finish())


def test_includes_follow_from_the_calls() -> None:
    def includes(kernel: KernelOp) -> list[str]:
        return [line.split('"')[1] for line in body(kernel) if line.startswith("#include")]

    kb = small()
    tensor(kb, "f")
    assert includes(kb.finish()) == ["gaf_compat.h", "gaf_scalar.h"]
    assert includes(CASES["softmax"].build()) == ["gaf_compat.h", "gaf_scalar.h", "gaf_vector.h"]
    assert includes(CASES["matmul_rms_norm"].build())[-1] == "gaf_cube.h"


def test_kernel_types() -> None:
    def task(kernel: KernelOp) -> str:
        return next(line for line in body(kernel) if line.startswith("KERNEL_TASK"))

    assert task(CASES["softmax"].build()) == "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);"
    assert task(CASES["matmul_rms_norm"].build()) == "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);"
    kb = small()
    kb.call(SyncAllOp)
    barrier = kb.finish()
    assert task(barrier) == "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);"
    assert "SyncAll<true>();" in body(barrier)


def test_model_names_can_hold_anything() -> None:
    kb = small(members=('a"b\\c\n*/d', "层/归一化", "ends with \\"))
    kb.node('a"b\\c\n*/d', "note \\")
    kb.node("层/归一化??/")
    lines = body(kb.finish())
    assert 'GAF_AT("a\\"b\\\\c */d");  // note \\ .' in lines
    assert 'GAF_AT("层/归一化\\?\\?/");' in lines
    assert '//   a"b\\c */d' in lines
    assert "//   ends with \\ ." in lines


def test_a_kernel_without_fields_has_a_struct() -> None:
    kernel = small().finish()
    assert "int64_t reserved;  // 0" in body(kernel)


def test_only_ascendc_ops_print() -> None:
    kernel = small().finish()
    kernel.body.block.add_op(ModuleOp([]))
    with pytest.raises(InternalError, match="builtin.module can't be printed as Ascend C"):
        print_kernel(kernel)


def test_long_lines_do_not_break_in_strings_and_comments() -> None:
    name = 'layer, with \\", commas' + ", and more" * 20
    kb = small()
    kb.node(name)
    kb.node("short", "a long note" + ", and more" * 20)
    first, second = (line for line in body(kb.finish()) if line.startswith("GAF_AT"))
    assert first.endswith('");') and second.endswith("and more")
    field = KernelBuilder("k", "aiv", [], symbols=["M"], tiling=[("at", _long())]).finish()
    assert any(line.startswith("int64_t at;  // ") and len(line) > WIDTH for line in body(field))
    literal = cpp_string(name)
    assert wrap(f"    f(first, {literal}, a, b);") == ["    f(first,", f"            {literal}, a, b);"]


def _long() -> Expr:
    """An expression with commas, longer than a line."""
    value = sym("M")
    for i in range(2, 20):
        value = minimum(value * i, sym("M") + i)
    return value


def test_long_lines_break_after_commas() -> None:
    text = "    call(" + ", ".join(f"argument{i}(a, b)" for i in range(20)) + ");"
    parts = wrap(text)
    assert len(parts) > 1 and all(len(p) <= WIDTH for p in parts)
    assert " ".join(p.strip() for p in parts) == text.strip()
    assert all(p.rstrip(",").count("(") - p.rstrip(",").count(")") in (0, 1, -1) for p in parts)
    for name in CASES:
        for line in print_kernel(CASES[name].build()).splitlines():
            assert len(line) <= WIDTH or line.startswith("//")
