# SPDX-License-Identifier: Apache-2.0
"""The project's check program, built for the twin as CANN 8 and CANN 9 would build it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gaf.codegen.host import HostTiling
from gaf.codegen.project import CheckCase, check_cases, write_project
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.runtime.compiler import find_compiler
from gaf.runtime.samples import ProgramResult, build_program
from tests.dialects.ascendc.kernels import CASES, arrays_of, expected

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

KERNELS = ("bias_gelu", "softmax", "matmul_rms_norm")


def case_of(name: str, off: float = 0.0) -> CheckCase:
    """A case of the tests' kernels; its results are those that numpy computes, `off` by so much."""
    case, kernel = CASES[name], CASES[name].build()
    sizes = case.sizes[0]
    arrays: Mapping[str, np.ndarray] = arrays_of(case, sizes)
    results = expected(case, arrays)
    tensors, dtypes = [], []
    for arg, kind, role, _ in kernel.args:
        array = arrays[arg] if role == "in" else (results[arg] + off).astype(kind.dtype.numpy)
        tensors.append(np.ascontiguousarray(array).tobytes())
        dtypes.append(kind.dtype.name)
    return CheckCase(
        name, [sizes[s] for s in HostTiling(kernel).symbols], dtypes, tensors, [case.tolerance] * len(results)
    )


def run(folder: Path, style: str, mode: str, cases: list[CheckCase], budget: int = 1 << 24) -> ProgramResult:
    kernels = [CASES[c.kernel].build() for c in cases]
    for kernel in kernels:
        insert_sync(kernel)
    write_project(folder, kernels)
    for name, data in check_cases(cases, budget).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    sources = [folder / f"kernels/{c.kernel}.{style}" for c in cases]
    program = build_program(
        [*sources, folder / "host/launch.cpp", folder / "check/main.cpp"],
        folder / "gaf_check",
        mode,
        [folder / "kernels", folder / "host", folder / "check"],
        ["GAF_CANN9"] if style == "asc" else [],
    )
    return program.run(cwd=folder, timeout=120)


@pytest.mark.parametrize(("style", "mode"), [("cpp", "check"), ("asc", "fast")])
def test_kernels_agree(style: str, mode: str, tmp_path: Path) -> None:
    result = run(tmp_path, style, mode, [case_of(n) for n in KERNELS])
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 of 3 kernels agree" in result.stdout
    assert [launch.kernel for launch in result.launches] == list(KERNELS) and not result.violations


def test_wrong_results_and_missing_data_are_told(tmp_path: Path) -> None:
    result = run(tmp_path, "cpp", "fast", [case_of("bias_gelu"), case_of("softmax", off=0.25)])
    assert result.returncode == 1
    assert "softmax: DIFFERS" in result.stdout and "1 of 2 kernels agree" in result.stdout
    (tmp_path / "check/data/0_0.bin").unlink()
    again = build_program_result(tmp_path)
    assert again.returncode == 2 and "can't read" in again.stderr


def build_program_result(folder: Path) -> ProgramResult:
    from gaf.runtime.samples import Program

    return Program(folder / "gaf_check", "fast").run(cwd=folder, timeout=60)


def test_cases_beyond_the_budget_are_named() -> None:
    small, large = (CheckCase(n, [1], ["f32"], [bytes(size)], [1e-5]) for n, size in (("a", 8), ("b", 800)))
    found = check_cases([small, large], 100)
    text = found["check/cases.txt"].decode()
    assert set(found) == {"check/cases.txt", "check/data/0_0.bin"}
    assert "a 1 1\nout f32 data/0_0.bin 1e-05\n" in text and "# b: left out, its tensors take 800 bytes" in text
