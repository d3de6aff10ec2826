# SPDX-License-Identifier: Apache-2.0
"""The device library type-checks against the twin, and against a toolkit's own headers where one is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gaf.runtime.compiler import DEVICE, INCLUDE, find_compiler

from .twin_kernels import KERNELS

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

CANN = os.environ.get("GAF_CANN")  # root of an unpacked toolkit: holds tools/ and <arch>-linux/
CANN_DEFINES = (
    "__CCE_AICORE__=220",
    "__DAV_C220__",
    "__CCE_KT_TEST__=1",
    "ASCENDC_CPU_DEBUG=1",
    "ASCENDC_DEBUG=1",
)
SOURCES = sorted(p.name for p in KERNELS.glob("*.cpp"))


def syntax_check(source: Path, *flags: str) -> str:
    """Error lines of -fsyntax-only."""
    compiler = find_compiler()
    assert compiler is not None
    command = [*compiler.command, "-std=c++17", "-fsyntax-only", f"-I{DEVICE}", *flags, str(source)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr


@pytest.mark.parametrize("mode", (1, 2), ids=("fast", "check"))
def test_against_the_twin(mode: int) -> None:
    flags = (f"-DGAF_TWIN={mode}", f"-I{INCLUDE}", "-Wall", "-Werror")
    assert syntax_check(KERNELS / "whole_library.cpp", *flags) == ""


@pytest.mark.skipif(CANN is None, reason="GAF_CANN does not name an unpacked toolkit")
@pytest.mark.parametrize("name", SOURCES)
def test_against_a_toolkit(name: str) -> None:
    root = Path(CANN or "")
    arch = next(root.glob("*-linux"))
    basic, high = arch / "ascendc/include/basic_api", arch / "ascendc/include/highlevel_api"
    folders = [
        root / "tools/tikicpulib/lib/include",
        arch / "include",
        basic,
        basic / "impl",
        basic / "interface",
    ]
    folders += [high, high / "lib", high / "impl", high / "lib/matmul"]
    flags = [f"-D{d}" for d in CANN_DEFINES] + [f"-I{f}" for f in folders] + ["-w"]
    assert syntax_check(KERNELS / name, *flags) == ""
