# SPDX-License-Identifier: Apache-2.0
"""Writes kernels as a project that bisheng builds on CANN 8 and 9: sources, host code, CMake, README.

kernels/   NAME.cpp (the kernel), NAME.asc (its CANN 9 entry and launch), the device library's headers
host/      NAME_tiling.h (host tiling), launch.h and launch.cpp (one function per kernel), gaf_host.h
torch/     binding.cpp: the kernels as PyTorch operators; overlap.py: those beside collectives, in parts
check/     main.cpp and entries.h: a program that runs the kernels on stored inputs (`check_cases` makes the data)
CMakeLists.txt, README.md
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from gaf.codegen.expr import field_signs
from gaf.codegen.host import HOST_HEADER, HostTiling
from gaf.codegen.overlap import overlap_module, overlapped_kernels
from gaf.codegen.printer import HEADERS, plain_text, print_kernel, wrap
from gaf.codegen.super_kernel import SuperKernel
from gaf.codegen.torch_binding import torch_binding
from gaf.dialects.ascendc.attributes import KernelKind, cpp_type
from gaf.dialects.ascendc.kernel import KernelOp, tiling_struct
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.graph.ops.overlap import OverlapOp
from gaf.errors import InvalidInputError

DEVICE_HEADERS = (*HEADERS, "gaf_device.h")
QUALIFIER = {KernelKind.AIV: "__vector__", KernelKind.AIC: "__cube__", KernelKind.MIX: "__mix__(1, 2)"}
"""What CANN 9 calls the kinds of kernels."""


@dataclass(frozen=True)
class _Entry:
    """What is launched: a kernel or a super-kernel, as the host sees it."""

    name: str
    source: str
    tiling: str
    qualifier: str
    """The kind of kernel, in CANN 9's words."""
    args: list[tuple[str, str]]
    """(name, role) of the GM arguments."""
    symbols: tuple[str, ...]
    notes: list[str]
    """Comment lines about the arguments."""
    row: str
    """Kind, launch width, workspace and nodes, for the table of the README."""


def project_files(
    kernels: Sequence[KernelOp],
    soc: str = "Ascend910B3",
    super_kernels: Sequence[SuperKernel] = (),
    overlaps: Sequence[OverlapOp] = (),
) -> dict[str, str]:
    """The text of every file by its path in the project; `soc` is the default of the CANN 8 build.

    `overlaps` are kernels beside collectives, of which `torch/overlap.py` makes functions.

    Raises InvalidInputError when two kernels have one name.
    """
    entries = [*map(_kernel_entry, kernels), *map(_super_entry, super_kernels)]
    names = [e.name for e in entries]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InvalidInputError(
            f"two kernels are named '{twice[0]}'", hint="kernels of one project need different names"
        )
    device = files("gaf.codegen") / "device"
    found = {f"kernels/{h}": (device / h).read_text(encoding="utf-8") for h in DEVICE_HEADERS}
    found["host/gaf_host.h"] = HOST_HEADER
    for entry in entries:
        found[f"kernels/{entry.name}.cpp"] = entry.source
        found[f"kernels/{entry.name}.asc"] = _asc(entry)
        found[f"host/{entry.name}_tiling.h"] = entry.tiling
    found["host/launch.h"] = _launch_header(entries)
    found["host/launch.cpp"] = _launch_source(entries)
    by_name = {k.sym_name.data: k for k in kernels}
    found["torch/binding.cpp"] = torch_binding(kernels, overlapped_kernels(overlaps, by_name))
    notes = []
    if overlaps:
        found["torch/overlap.py"] = overlap_module(overlaps, by_name)
        notes = ["", "`torch/overlap.py` calls those beside collectives in parts, so that one part travels while the next is made."]
    found["check/main.cpp"] = (device / "check_main.cpp").read_text(encoding="utf-8")
    found["check/entries.h"] = _check_entries(entries)
    found["CMakeLists.txt"] = _cmake(names, soc)
    found["README.md"] = _readme(entries, soc) + "".join(f"{line}\n" for line in notes)
    return dict(sorted(found.items()))


def _kernel_entry(kernel: KernelOp) -> _Entry:
    kind = kernel.kind.data
    signs, every = field_signs(kernel.symbols.data, ()), field_signs(kernel.symbols.data, kernel.tiling.data)
    notes = []
    for arg, type_, role, shape in kernel.args:
        dims = ", ".join(plain_text(d, signs) for d in shape)
        notes.append(f"// {arg}: {role}, {cpp_type(type_.element)} [{dims}]")
    joins_cores = kind is KernelKind.AIV and any(isinstance(op, SyncAllOp) for op in kernel.walk())
    members = ", ".join(f"`{m.data}`" for m in kernel.members)
    blocks, size = plain_text(kernel.param("blocks"), every), plain_text(kernel.param("workspace"), every)
    return _Entry(
        kernel.sym_name.data,
        print_kernel(kernel),
        HostTiling(kernel).cpp(kernel),
        "__mix__(0, 1)" if joins_cores else QUALIFIER[kind],
        list(zip(kernel.arg_names.data, kernel.roles.data, strict=True)),
        kernel.symbols.data,
        notes,
        f"{kind.value} | {blocks} | {size} | {members}",
    )


def _super_entry(kernel: SuperKernel) -> _Entry:
    alone = {KernelKind.AIV: "__mix__(0, 1)", KernelKind.AIC: "__mix__(1, 0)"} if kernel.barrier_count else {}
    members = ", ".join(f"`{m.kernel.sym_name.data}`" for m in kernel.members)
    return _Entry(
        kernel.name,
        kernel.source,
        kernel.cpp(),
        alone.get(kernel.kind, QUALIFIER[kernel.kind]),
        kernel.arguments,
        kernel.symbols,
        [f"// One launch of {', '.join(m.kernel.sym_name.data for m in kernel.members)}."],
        f"{kernel.kind.value} | of its widest kernel | of all its kernels | super-kernel of {members}",
    )


def write_project(
    folder: Path | str,
    kernels: Sequence[KernelOp],
    soc: str = "Ascend910B3",
    super_kernels: Sequence[SuperKernel] = (),
) -> list[Path]:
    """Write the project into `folder`; returns the files.

    `kernels/` and `host/` are replaced as a whole, other files of the folder stay. Everything is written
    beside it first, so that a failure leaves what was there. Raises InvalidInputError when the folder can't
    be written.
    """
    texts = project_files(kernels, soc, super_kernels)
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gaf-", dir=target) as temporary:
            for path, text in texts.items():
                file = Path(temporary) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            for part in sorted({path.partition("/")[0] for path in texts}):
                old = Path(temporary) / f"old-{part}"
                if (target / part).exists():
                    os.replace(target / part, old)
                os.replace(Path(temporary) / part, target / part)
                if old.is_dir():
                    shutil.rmtree(old)
    except OSError as error:
        raise InvalidInputError(
            f"the project can't be written: {error.strerror}", where=str(error.filename or target)
        ) from error
    return [target / path for path in texts]


def _params(entry: _Entry) -> str:
    """Tensor parameters of host functions."""
    return "".join(f"{'const void' if role == 'in' else 'void'} *{name}, " for name, role in entry.args)


def _sizes(entry: _Entry) -> str:
    return ", ".join(f"int64_t {s}" for s in entry.symbols)


def _asc(entry: _Entry) -> str:
    name = entry.name
    params = "".join(f"void *{n}, " for n, _ in entry.args)
    args = "".join(f"static_cast<uint8_t *>({n}), " for n, _ in entry.args)
    return _text([
        f"// CANN 9 entry of kernel {name}: the qualifier takes the place of KERNEL_TASK_TYPE_DEFAULT.",
        '#include "kernel_operator.h"', "#undef KERNEL_TASK_TYPE_DEFAULT",
        "#define KERNEL_TASK_TYPE_DEFAULT(type)",
        f"#define GAF_CORE {entry.qualifier}", f'#include "{name}.cpp"', "",
        f'extern "C" void gaf_launch_{name}(uint32_t blocks, void *stream, {params}void *workspace, '
        f"const {tiling_struct(name)} *t)",
        "{", f"    {name}<<<blocks, 0, stream>>>({args}static_cast<uint8_t *>(workspace), *t);", "}",
    ])  # fmt: skip


def _launch_header(entries: Sequence[_Entry]) -> str:
    lines = [
        "// Launches of the generated kernels, one function each; all pointers are device memory.",
        "#ifndef GAF_LAUNCH_H", "#define GAF_LAUNCH_H", "", "#include <cstdint>", "",
        "namespace gaf_kernels {", "",
    ]  # fmt: skip
    for entry in entries:
        lines += [
            *entry.notes,
            "// Returns null, or why the kernel can't run for these sizes; launches on `stream`.",
            f"const char *{entry.name}({_params(entry)}void *workspace, void *stream{_lead(_sizes(entry))});",
            f"uint64_t {entry.name}_workspace({_sizes(entry)});  // bytes", "",
        ]  # fmt: skip
    return _text([*lines, "}  // namespace gaf_kernels", "", "#endif  // GAF_LAUNCH_H"])


def _text(lines: Sequence[str]) -> str:
    return "\n".join(part for line in lines for part in wrap(line)) + "\n"


def _lead(text: str) -> str:
    return f", {text}" if text else ""


def _launch_source(entries: Sequence[_Entry]) -> str:
    lines = [
        "// Launches of the generated kernels.", '#include "launch.h"', "",
        *(f'#include "{e.name}_tiling.h"' for e in entries), "",
        "#ifdef GAF_CANN9",
        *(f'extern "C" void gaf_launch_{e.name}(uint32_t blocks, void *stream, '
          + "".join(f"void *{n}, " for n, _ in e.args)
          + f"void *workspace, const {tiling_struct(e.name)} *t);" for e in entries),
        "#else",
        *(f'#include "aclrtlaunch_{e.name}.h"' for e in entries), "",
        "namespace {", "",
        "// The launch stubs of CANN 8 take the tiling struct by value or by pointer, as the release has it.",
        "template <class Stub, class Tiling, class... Args>",
        "auto Call(Stub stub, Tiling &t, Args... args) -> decltype(stub(args..., t))", "{",
        "    return stub(args..., t);", "}",
        "template <class Stub, class Tiling, class... Args>",
        "auto Call(Stub stub, Tiling &t, Args... args) -> decltype(stub(args..., &t))", "{",
        "    return stub(args..., &t);", "}", "", "}  // namespace",
        "#endif", "", "namespace gaf_kernels {", "",
    ]  # fmt: skip
    for entry in entries:
        name, sizes = entry.name, ", ".join(entry.symbols)
        tensors = "".join(f"const_cast<void *>({n}), " if role == "in" else f"{n}, " for n, role in entry.args)
        lines += [
            f"const char *{name}({_params(entry)}void *workspace, void *stream{_lead(_sizes(entry))})", "{",
            f"    auto launch = {name}_tiling({sizes});",
            "    if (launch.error != nullptr) {", "        return launch.error;", "    }",
            "#ifdef GAF_CANN9",
            f"    gaf_launch_{name}(launch.blocks, stream, {tensors}workspace, &launch.tiling);",
            "#else",
            f"    Call(ACLRT_LAUNCH_KERNEL({name}), launch.tiling, launch.blocks, stream,"
            f" {tensors}workspace);",
            "#endif", "    return nullptr;", "}", "",
            f"uint64_t {name}_workspace({_sizes(entry)})", "{",
        ]  # fmt: skip
        lines += [f"    return {name}_tiling({sizes}).workspace;", "}", ""]
    return _text([*lines, "}  // namespace gaf_kernels"])


def _check_entries(entries: Sequence[_Entry]) -> str:
    """The launches by name, for the check program."""
    lines = [
        "// The launches of launch.h by name, with tensors and sizes as arrays in the order of their parameters.",
        "#ifndef GAF_CHECK_ENTRIES_H", "#define GAF_CHECK_ENTRIES_H", "", "#include <cstddef>", "#include <cstdint>",
        "", '#include "launch.h"', "", "namespace gaf_check {", "",
        "struct Entry {", "    const char *name;", "    size_t tensors, sizes;",
        "    const char *(*launch)(void **p, void *workspace, void *stream, const int64_t *s);",
        "    uint64_t (*workspace)(const int64_t *s);", "};", "", "const Entry ENTRIES[] = {",
    ]  # fmt: skip
    for e in entries:
        tensors = "".join(f"p[{i}], " for i in range(len(e.args)))
        sizes = ", ".join(f"s[{i}]" for i in range(len(e.symbols)))
        s = "const int64_t *s" if e.symbols else "const int64_t *"
        lines += [
            f'    {{"{e.name}", {len(e.args)}, {len(e.symbols)},',
            f"     [](void **p, void *workspace, void *stream, {s}) {{",
            f"         return gaf_kernels::{e.name}({tensors}workspace, stream{_lead(sizes)});",
            "     },",
            f"     []({s}) {{ return gaf_kernels::{e.name}_workspace({sizes}); }}}},",
        ]
    return _text([*lines, "};", "", "}  // namespace gaf_check", "", "#endif  // GAF_CHECK_ENTRIES_H"])


@dataclass(frozen=True)
class CheckCase:
    """One launch that the check program repeats: tensors in the order of the kernel's arguments.

    `dtypes` are names of the IR (f32, bf16, i64, ui8, i1 ...); `tolerances` belong to the outputs, which come last.
    """

    kernel: str
    sizes: Sequence[int]
    dtypes: Sequence[str]
    tensors: Sequence[bytes]
    tolerances: Sequence[float]


def check_cases(cases: Sequence[CheckCase], budget: int) -> dict[str, bytes]:
    """The data of the check program by path in the project; cases beyond `budget` bytes are named and left out."""
    lines = ["# kernel, number of tensors, sizes; then per tensor: role, dtype, file, tolerance"]
    found: dict[str, bytes] = {}
    spent = 0
    for number, case in enumerate(cases):
        size = sum(map(len, case.tensors))
        if spent + size > budget:
            lines.append(f"# {case.kernel}: left out, its tensors take {size} bytes")
            continue
        spent += size
        lines.append(" ".join(map(str, [case.kernel, len(case.tensors), *case.sizes])))
        inputs = len(case.tensors) - len(case.tolerances)
        for i, (dtype, data) in enumerate(zip(case.dtypes, case.tensors, strict=True)):
            file = f"data/{number}_{i}.bin"
            end = f"out {dtype} {file} {case.tolerances[i - inputs]:.3g}" if i >= inputs else f"in {dtype} {file}"
            lines.append(end)
            found[f"check/{file}"] = data
    found["check/cases.txt"] = ("\n".join(lines) + "\n").encode()
    return found


def _cmake(names: Sequence[str], soc: str) -> str:
    cpp = "\n".join(f"    kernels/{n}.cpp" for n in names)
    asc = "\n".join(f"    kernels/{n}.asc" for n in names)
    return f"""\
# Builds the generated kernels and their launch functions as one shared library, with CANN 8 or CANN 9.
cmake_minimum_required(VERSION 3.19)

set(SOC_VERSION "{soc}" CACHE STRING "chip, for CANN 8")
set(CMAKE_ASC_ARCHITECTURES "dav-2201" CACHE STRING "architecture, for CANN 9")
find_package(ASC QUIET)

if(ASC_FOUND)
  project(gaf_kernels LANGUAGES ASC CXX)
  add_library(gaf_kernels SHARED
{asc}
    host/launch.cpp)
  target_compile_definitions(gaf_kernels PRIVATE GAF_CANN9)
  target_compile_options(gaf_kernels PRIVATE
    $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=${{CMAKE_ASC_ARCHITECTURES}}>)
else()
  project(gaf_kernels LANGUAGES CXX)
  set(ASCEND_CANN_PACKAGE_PATH "$ENV{{ASCEND_HOME_PATH}}" CACHE PATH "where CANN 8 is installed")
  set(RUN_MODE npu CACHE STRING "npu, sim or cpu")
  foreach(folder tools/tikcpp compiler/tikcpp ascendc_devkit/tikcpp aarch64-linux/tikcpp)
    if(NOT GAF_TIKCPP AND EXISTS ${{ASCEND_CANN_PACKAGE_PATH}}/${{folder}}/ascendc_kernel_cmake)
      set(GAF_TIKCPP ${{ASCEND_CANN_PACKAGE_PATH}}/${{folder}}/ascendc_kernel_cmake)
    endif()
  endforeach()
  if(NOT GAF_TIKCPP)
    message(FATAL_ERROR "neither CANN 9 (find_package ASC) nor CANN 8 (ASCEND_HOME_PATH) was found: source
    set_env.sh")
  endif()
  include(${{GAF_TIKCPP}}/ascendc.cmake)
  ascendc_library(gaf_device SHARED
{cpp})
  ascendc_include_directories(gaf_device PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}}/kernels)
  add_library(gaf_kernels SHARED host/launch.cpp)
  target_link_libraries(gaf_kernels PRIVATE gaf_device)
endif()

set_target_properties(gaf_kernels PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_include_directories(gaf_kernels PRIVATE kernels PUBLIC host)

# Runs the kernels on stored inputs: build/gaf_check check
add_executable(gaf_check check/main.cpp)
set_target_properties(gaf_check PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_include_directories(gaf_check PRIVATE check $ENV{{ASCEND_HOME_PATH}}/include)
target_link_directories(gaf_check PRIVATE $ENV{{ASCEND_HOME_PATH}}/lib64)
target_link_libraries(gaf_check PRIVATE gaf_kernels ascendcl)

# The kernels as PyTorch operators: torch.ops.load_library("build/libgaf_torch.so")
option(GAF_TORCH "build the PyTorch extension (needs torch and torch_npu)" OFF)
if(GAF_TORCH)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${{Python3_EXECUTABLE}} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE GAF_TORCH_CMAKE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${{Python3_EXECUTABLE}} -c "import os, torch_npu; print(os.path.dirname(torch_npu.__file__))"
    OUTPUT_VARIABLE GAF_TORCH_NPU OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND CMAKE_PREFIX_PATH ${{GAF_TORCH_CMAKE}})
  find_package(Torch REQUIRED)
  add_library(gaf_torch SHARED torch/binding.cpp)
  set_target_properties(gaf_torch PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  target_include_directories(gaf_torch PRIVATE ${{GAF_TORCH_NPU}}/include $ENV{{ASCEND_HOME_PATH}}/include)
  target_link_directories(gaf_torch PRIVATE ${{GAF_TORCH_NPU}}/lib)
  target_link_libraries(gaf_torch PRIVATE gaf_kernels ${{TORCH_LIBRARIES}} torch_npu)
endif()
"""


def _readme(entries: Sequence[_Entry], soc: str) -> str:
    table = "\n".join(f"| `{e.name}` | {e.row} |" for e in entries)
    return f"""\
# Generated Ascend C kernels

Made by gaf for the Ascend 910B. Kernel sources are in `kernels/`, launch functions in `host/launch.h`.

## Build

    source $ASCEND_HOME_PATH/../set_env.sh     # or wherever the toolkit is installed
    cmake -B build && cmake --build build      # CANN 9 if its ASC package is found, else CANN 8

Options: `-DSOC_VERSION={soc}` (CANN 8), `-DCMAKE_ASC_ARCHITECTURES=dav-2201` (CANN 9). The result is
`libgaf_kernels.so`, and `gaf_check`, which runs every kernel on stored inputs and compares the results:

    build/gaf_check check                      # exit code 0 if all agree

With `-DGAF_TORCH=ON` (torch and torch_npu installed) also `libgaf_torch.so`, in which every kernel is an operator; sizes
follow the tensors:

    torch.ops.load_library("build/libgaf_torch.so")
    y = torch.ops.gaf.KERNEL(x, rows, columns)     # `torch.ops.gaf.KERNEL.default` prints the parameters

## Kernels

Kind `aiv` runs on vector cores, `aic` on cube cores, `mix` on groups of one cube and two vector cores; the
launch width counts those. Widths and workspace bytes are computed by `host/NAME_tiling.h` from the sizes of
the tensors; the fields they name are in the tiling struct of the kernel. A super-kernel runs the kernels it names in
one launch, with the same results; `launch.h` has a function for each way.

| kernel | kind | launch width | workspace bytes | model nodes |
|---|---|---|---|---|
{table}

Nothing here was run on a device by gaf; the same sources run on the CPU through gaf's host twin.
"""
