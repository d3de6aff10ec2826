# SPDX-License-Identifier: Apache-2.0
"""Host tiling: Python and the generated C++ give the same fields, launch width, workspace and refusals."""

from __future__ import annotations

import pickle
import random
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gaf.codegen.host import HOST_HEADER, HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc import KernelBuilder, KernelOp
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import ceildiv, maximum, minimum, sym
from gaf.errors import UnsupportedError
from gaf.target import DEFAULT
from tests.dialects.ascendc.kernels import CASES


def odd_tiling() -> KernelOp:
    """Fields that are negative, zero, divided and taken modulo; a guard; a symbol that is no field."""
    kb = KernelBuilder(
        "odd", "aiv", [("x", dt.F32, "in", ["M", "N"])], symbols=["M", "N"],
        tiling=[("a", sym("M") - sym("N")), ("b", (sym("M") - sym("N")) // 7), ("c",
        (sym("M") - sym("N")) % 7),
                ("d", maximum("a", minimum("b", "M"))), ("e", sym("N") * sym("M") * 5 - sym("d") * sym("a"))],
        guards=[sym("M") * 3 - "N"], blocks=ceildiv("M", 3) - 2, workspace=sym("a") * 64,
    )  # fmt: skip
    kb.init_buf("pool", sym("e") * sym("e"))
    return kb.finish()


KERNELS = {**{n: c.build for n, c in CASES.items()}, "odd": odd_tiling}


def values(host: HostTiling, sizes: dict[str, int]) -> str:
    """One line: fields, launch width and workspace, or `refused`."""
    try:
        launch = host.evaluate(sizes)
    except UnsupportedError:
        return "refused"
    assert launch.packed == struct.pack(f"<{len(launch.fields)}q", *launch.fields.values())
    assert len(launch.packed) == host.struct_bytes
    return " ".join(map(str, [*launch.fields.values(), launch.blocks, launch.workspace]))


def test_cpp_equals_python(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    rng = random.Random(0)
    main, want = ["#include <cstdio>"], []
    (tmp_path / "gaf_host.h").write_text(HOST_HEADER)
    calls: list[str] = []
    for name, build in KERNELS.items():
        kernel = build()
        host = HostTiling(kernel)
        (tmp_path / f"{name}_tiling.h").write_text(host.cpp(kernel))
        main.append(f'#include "{name}_tiling.h"')
        fields = [n for n, _ in kernel.tiling.data]
        calls.append(
            f"static_assert(sizeof(gaf_host::Launch<int>) > 0 && sizeof(decltype({host.function}"
            f'({", ".join("1" for _ in host.symbols)}).tiling)) == {host.struct_bytes}, "packed");'
        )
        for _ in range(60):
            sizes = {s: rng.choice([0, 1, 2, 7, 33, 64, 100, 257, 1000, 40000]) for s in host.symbols}
            arguments = ", ".join(f"{sizes[s]}LL" for s in host.symbols)
            shown = [f"l.tiling.{f}" for f in fields] + ["(int64_t)l.blocks", "(int64_t)l.workspace"]
            text = " ".join(["%lld"] * len(shown))
            casts = ", ".join(f"(long long){v}" for v in shown)
            calls.append(
                f'{{ auto l = {host.function}({arguments}); if (l.error) puts("refused"); else printf("{text}\\n", {casts}); }}'
            )
            want.append(values(host, sizes))
    source = tmp_path / "main.cpp"
    source.write_text("\n".join([*main, "int main() {", *calls, "return 0; }"]))
    subprocess.run(
        [compiler, "-std=c++17", "-O0", "-Wall", "-Werror", "main.cpp", "-o", "main"],
        cwd=tmp_path,
        check=True,
    )
    got = subprocess.run(
        [str(tmp_path / "main")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert got == want
    assert 40 < want.count("refused") < 360


def test_refusals_say_why() -> None:
    host = HostTiling(CASES["softmax"].build())
    with pytest.raises(UnsupportedError) as caught:
        host.evaluate({"M": 16, "K": 5000})
    assert "kernel 'softmax' can't run for M = 16, K = 5000: the schedule needs -K + 4096 >= 0" in str(
        caught.value
    )
    with pytest.raises(UnsupportedError, match="K is less than 1; expected >= 1, got 0"):
        host.evaluate({"M": 16, "K": 0})
    assert host.failed_guard({"M": 16, "K": 100}) is None
    text = host.failed_guard({"M": 16, "K": 4000})
    assert (
        text
        == "the buffers don't fit UB: expected at most 188160 bytes, got 648224 (x 256000, y 256000, pool 136224)"
    )


def test_memory_limits_can_be_set() -> None:
    kernel = CASES["softmax"].build()
    small = replace(DEFAULT, name="small", ub_bytes=16_384)
    assert HostTiling(kernel, small).failed_guard({"M": 16, "K": 100}) is not None
    assert HostTiling(kernel).failed_guard({"M": 16, "K": 100}) is None


def test_further_symbols_are_ignored_and_missing_ones_named() -> None:
    host = HostTiling(CASES["softmax"].build())
    assert host.evaluate({"M": 9, "K": 4, "batch": 3}).fields == {"M": 9, "K": 4, "tm": 8}
    with pytest.raises(KeyError, match="K"):
        host.evaluate({"M": 9})


def test_kernels_with_a_scheduler_have_workspace() -> None:
    kb = KernelBuilder("k", "mix", [("x", dt.F32, "in", [8])])
    assert HostTiling(kb.finish()).evaluate({}).workspace == 32
    kb = KernelBuilder("k", "aiv", [("x", dt.F32, "in", [8])])
    launch = HostTiling(kb.finish()).evaluate({})
    assert (launch.workspace, launch.blocks, launch.packed) == (0, 1, bytes(8))


def test_pickles() -> None:
    host = HostTiling(CASES["softmax"].build())
    again = pickle.loads(pickle.dumps(host))
    assert again.evaluate({"M": 9, "K": 4}) == host.evaluate({"M": 9, "K": 4})


def test_struct_in_kernel_and_host_header_is_the_same_text() -> None:
    kernel = CASES["softmax"].build()

    def struct_of(text: str) -> str:
        return text[
            text.index("#ifndef GAF_SOFTMAX_TILING_DEFINED") : text.index(
                "#endif  // GAF_SOFTMAX_TILING_DEFINED"
            )
        ]

    assert struct_of(print_kernel(kernel)) == struct_of(HostTiling(kernel).cpp(kernel))
