# SPDX-License-Identifier: Apache-2.0
"""The written project: its files, what they agree on, and what a failure leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gaf.codegen.project import project_files, write_project
from gaf.dialects.ascendc import KernelBuilder
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.common import dtype as dt
from gaf.errors import InvalidInputError
from tests.dialects.ascendc.kernels import CASES


def kernels() -> list:  # type: ignore[type-arg]
    return [c.build() for c in CASES.values()]


def test_files() -> None:
    found = project_files(kernels())
    assert {f"kernels/{n}.{e}" for n in CASES for e in ("cpp", "asc")} <= set(found)
    assert {"CMakeLists.txt", "README.md", "host/launch.h", "host/launch.cpp", "host/gaf_host.h"} <= set(
        found
    )
    assert {"check/main.cpp", "check/entries.h", "torch/binding.cpp"} <= set(found)
    assert found == project_files(kernels())
    for name, text in found.items():
        for line in text.splitlines():
            included = line.split('"')[1] if line.startswith('#include "') else None
            known = ("acl/", "aclrtlaunch_", "kernel_operator", "torch_npu/", "twin/")
            if included and not included.startswith(known):
                folders = (name.rpartition("/")[0], "host")
                assert any(f"{f}/{included}" in found for f in folders), f"{name} includes {included}"


def test_entries_of_cann_9() -> None:
    found = project_files(kernels())
    assert "#define GAF_CORE __vector__\n" in found["kernels/softmax.asc"]
    assert "#define GAF_CORE __mix__(1, 2)\n" in found["kernels/matmul_rms_norm.asc"]
    kb = KernelBuilder("barrier", "aiv", [("x", dt.F32, "in", [8])])
    kb.call(SyncAllOp)
    assert "#define GAF_CORE __mix__(0, 1)\n" in project_files([kb.finish()])["kernels/barrier.asc"]


@pytest.mark.parametrize("mode", ["by value", "by pointer", "CANN 9"])
def test_launch_code_compiles_against_every_kind_of_stub(tmp_path: Path, mode: str) -> None:
    """The stubs stand in for what the toolkits generate; they record that they were called."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    write_project(tmp_path, kernels())
    host = tmp_path / "host"
    main = ["#include <cstdio>", '#include "launch.h"', '#include "softmax_tiling.h"']
    flags = ["-DGAF_CANN9"] if mode == "CANN 9" else []
    for kernel in kernels():
        name = kernel.sym_name.data
        struct = f"Gaf{''.join(p.capitalize() for p in name.split('_'))}Tiling"
        tensors = "".join("void *, " for _ in kernel.args)
        last = struct if mode == "by value" else f"{struct} *"
        if mode == "CANN 9":
            main.append(f'#include "{name}_tiling.h"')
            main.append(
                f'extern "C" void gaf_launch_{name}(uint32_t b, void *, {tensors}void *, const {struct} *) '
                f'{{ printf("{name} %u\\n", b); }}'
            )
        else:
            (host / f"aclrtlaunch_{name}.h").write_text(
                "#define ACLRT_LAUNCH_KERNEL(k) aclrtlaunch_##k\n"
                f"inline uint32_t aclrtlaunch_{name}(uint32_t b, void *, {tensors}void *, {last}) "
                f'{{ printf("{name} %u\\n", b); return 0; }}\n'
            )
    main.append(
        "int main() { void *p = nullptr; const char *e = gaf_kernels::softmax(p, p, p, p, 100, 64);"
        " if (e) return 1; e = gaf_kernels::softmax(p, p, p, p, 100, 5000); return e ? 0 : 2; }"
    )
    (host / "main.cpp").write_text("\n".join(main))
    subprocess.run(
        [compiler, "-std=c++17", "-O0", "-include", "cstdio", *flags, "launch.cpp", "main.cpp", "-o", "main"],
        cwd=host,
        check=True,
    )
    done = subprocess.run([str(host / "main")], capture_output=True, text=True, check=True)
    assert done.stdout == "softmax 13\n"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_says_which_toolkit_is_missing(tmp_path: Path) -> None:
    write_project(tmp_path, kernels())
    env = {k: v for k, v in os.environ.items() if k != "ASCEND_HOME_PATH"}
    done = subprocess.run(
        ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")], capture_output=True, text=True, env=env
    )
    assert done.returncode != 0
    assert "neither CANN 9 (find_package ASC) nor CANN 8" in " ".join(done.stderr.split())


def test_rewriting_replaces_generated_folders_only(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    write_project(tmp_path, kernels())
    files = write_project(tmp_path, kernels()[:1])
    assert (tmp_path / "report.json").read_text() == "{}"
    assert sorted(p.name for p in (tmp_path / "kernels").iterdir() if not p.name.startswith("gaf_")) == [
        "bias_gelu.asc",
        "bias_gelu.cpp",
    ]
    assert all(f.is_file() for f in files)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".gaf-")]


def test_same_names_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="two kernels are named 'softmax'"):
        project_files([CASES["softmax"].build(), CASES["softmax"].build()])


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="the project can't be written"):
        write_project(tmp_path / "file" / "out", kernels()[:1])
