# SPDX-License-Identifier: Apache-2.0
"""Kernels as an operator project of CANN: aclnn operators for graph engines, and the ONNX parser plugin for ATC.

op_host/     OP.cpp (prototype, shape and dtype inference, tiling), sizes.h, the kernels' host tiling
op_kernel/   OP.cpp (all variants of a kernel behind tiling keys), the device library's headers
framework/   onnx_plugin/gaf_plugin.cc: nodes of the ONNX domain `gaf` become these operators
CMakeLists.txt (CANN 9), operators.json (for msopgen of CANN 8), README.md

Operators know their sizes by the shapes of their inputs only. A kernel with a size that no input shows is left
out, and the README says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from gaf.codegen.expr import ExprStyle, field_signs
from gaf.codegen.host import HOST_HEADER, HostTiling, has_scheduler
from gaf.codegen.printer import (
    HEADERS,
    INDENT,
    KernelPrinter,
    core_index,
    headers,
    member_function,
    task_type,
    tiling_struct_text,
    wrap,
)
from gaf.dialects.ascendc.kernel import KernelOp, cpp_comment, tiling_struct
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr

ONNX_DOMAIN = "gaf"
"""Domain of the ONNX nodes that stand for operators of the project; version 1."""

COMPUTE_UNIT = "ascend910b"
"""The toolkit's name of the chip family (asc-devkit, custom operator project)."""

BATCH_SCHEDULE = 1
"""Schedule mode of kernels whose cores wait for one another: all start together (asc-devkit, SyncAll)."""

GE_TYPES = {
    dt.F32: "DT_FLOAT", dt.F16: "DT_FLOAT16", dt.BF16: "DT_BF16", dt.BOOL: "DT_BOOL",
    dt.I64: "DT_INT64", dt.I32: "DT_INT32", dt.I16: "DT_INT16", dt.I8: "DT_INT8", dt.U8: "DT_UINT8",
}  # fmt: skip
"""dtypes as the graph engine names them."""

MSOPGEN_TYPES = {
    dt.F32: "float", dt.F16: "fp16", dt.BF16: "bf16", dt.BOOL: "bool",
    dt.I64: "int64", dt.I32: "int32", dt.I16: "int16", dt.I8: "int8", dt.U8: "uint8",
}  # fmt: skip
"""dtypes as the operator descriptions of msopgen name them."""


@dataclass(frozen=True)
class Operator:
    """One operator: the variants of a kernel, best first; the first that can run is launched."""

    type: str
    """OpType, in camel case."""
    variants: tuple[KernelOp, ...]
    sizes: tuple[tuple[str, Size], ...]
    """How each symbol follows from the inputs; later ones may need earlier ones."""

    @property
    def name(self) -> str:
        """Name of its files and of its device entry."""
        return entry_name(self.type)

    @property
    def args(self) -> list[tuple[str, dt.DType, str, tuple[Expr, ...]]]:
        """(name, dtype, role, shape) with names that the toolkit accepts: small letters, each once."""
        found, taken = [], {"workspace", "tiling"}
        for name, kind, role, shape in self.variants[0].args:
            base = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_") or "t"
            base = base if base[0].isalpha() else f"t_{base}"
            name, n = base, 2
            while name in taken:
                name, n = f"{base}_{n}", n + 1
            taken.add(name)
            found.append((name, kind.dtype, role, tuple(shape)))
        return found


@dataclass(frozen=True)
class Size:
    """`(dim `axis` of input `input` - rest) / factor`."""

    input: int
    axis: int
    factor: Expr
    rest: Expr


def operators(groups: Sequence[Sequence[KernelOp]]) -> tuple[list[Operator], dict[str, str]]:
    """The operators for groups of kernel variants, and why a group (by its first kernel's name) has none."""
    made: list[Operator] = []
    left_out: dict[str, str] = {}
    taken: set[str] = set()
    for group in groups:
        name = group[0].sym_name.data
        sizes, missing = _sizes(group[0])
        if "in" not in group[0].roles.data:
            left_out[name] = "it has no inputs"
        elif missing:
            left_out[name] = f"no shape of an input shows the size {missing[0]}"
        else:
            base = "Gaf" + "".join(p[:1].upper() + p[1:].lower() for p in name.split("_"))
            type_, n = base, 2
            while entry_name(type_) in taken:
                type_, n = f"{base}V{n}", n + 1
            taken.add(entry_name(type_))
            made.append(Operator(type_, tuple(group), tuple(sizes.items())))
    return made, left_out


def entry_name(op_type: str) -> str:
    """The name that the toolkit's build gives an operator's files and entry (asc-devkit, naming rules)."""
    text = re.sub(r"(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1", op_type)
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower()


def _sizes(kernel: KernelOp) -> tuple[dict[str, Size], list[str]]:
    """How symbols follow from dims of inputs, in an order in which they can be computed, and those that don't."""
    inputs = [shape for _, _, role, shape in kernel.args if role == "in"]
    found: dict[str, Size] = {}
    missing = list(kernel.symbols.data)
    while missing:
        for symbol in missing:
            size = _read_from(symbol, inputs, found)
            if size is not None:
                found[symbol] = size
                missing.remove(symbol)
                break
        else:
            break
    return found, missing


def _read_from(symbol: str, inputs: Sequence[Sequence[Expr]], known: Mapping[str, Size]) -> Size | None:
    for number, shape in enumerate(inputs):
        for axis, dim in enumerate(shape):
            factor = dim.coefficient(symbol)
            if factor is None or factor.as_int() == 0:
                continue
            rest = dim - factor * Expr({(symbol,): 1})
            if (factor.names() | rest.names()) <= set(known):
                return Size(number, axis, factor, rest)
    return None


def operator_files(made: Sequence[Operator], left_out: Mapping[str, str]) -> dict[str, str]:
    """The text of every file by its path in the project."""
    device = files("gaf.codegen") / "device"
    found = {f"op_kernel/{h}": (device / h).read_text(encoding="utf-8") for h in HEADERS}
    found["op_host/gaf_host.h"] = HOST_HEADER
    found["op_host/sizes.h"] = _SIZES_HEADER
    for op in made:
        found[f"op_kernel/{op.name}.cpp"] = _text(_kernel(op))
        found[f"op_host/{op.name}.cpp"] = _text(_host(op))
        for kernel in op.variants:
            found[f"op_host/{kernel.sym_name.data}_tiling.h"] = HostTiling(kernel).cpp(kernel)
    found["framework/onnx_plugin/gaf_plugin.cc"] = _text(_plugin(made))
    found["CMakeLists.txt"] = _cmake(made)
    found["operators.json"] = _msopgen(made)
    found["README.md"] = _readme(made, left_out)
    return dict(sorted(found.items()))


def _text(lines: Sequence[str]) -> str:
    return "\n".join(part for line in lines for part in wrap(line.rstrip())) + "\n"


# -- device ---------------------------------------------------------------------------------------


def _kernel(op: Operator) -> list[str]:
    """The device entry: the variant that the host chose, by its tiling key."""
    names = [name for name, *_ in op.args]
    lines = [
        f"// Operator {op.type}: generated by gaf; computes the model nodes",
        *(f"//   {cpp_comment(m.data)}" for m in op.variants[0].members), "",
        *(f'#include "{h}"' for h in headers(op.variants)), "using namespace AscendC;", "",
    ]  # fmt: skip
    for kernel in op.variants:
        lines += [*tiling_struct_text(kernel), ""]
    for kernel in op.variants:
        lines += [*KernelPrinter(kernel, member_function(kernel)).lines(), ""]
    params = "".join(f"GM_ADDR {n}, " for n in names)
    lines += [
        f'extern "C" __global__ __aicore__ void {op.name}({params}GM_ADDR workspace, GM_ADDR tiling)',
        "{",
        f"{INDENT}REGISTER_TILING_DEFAULT({tiling_struct(op.variants[0].sym_name.data)});",
    ]
    for key, kernel in enumerate(op.variants[1:], 1):
        struct = tiling_struct(kernel.sym_name.data)
        lines.append(f'{INDENT}REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == {key}", {struct});')
    lines.append(f"{INDENT}GM_ADDR own = GetUserWorkspace(workspace);")
    for key, kernel in enumerate(op.variants):
        struct = tiling_struct(kernel.sym_name.data)
        lines += [
            f"{INDENT}{'} else ' if key else ''}if (TILING_KEY_IS({key})) {{",
            f"{INDENT * 2}KERNEL_TASK_TYPE({key}, {task_type(kernel)});",
            f"{INDENT * 2}GET_TILING_DATA_WITH_STRUCT({struct}, t, tiling);",
            *(INDENT * 2 + line for line in core_index("block", kernel.kind.data)),
            f"{INDENT * 2}{member_function(kernel)}({', '.join(names)}, own, t, block, GetBlockNum());",
        ]
    return [*lines, f"{INDENT}}}", "}"]


# -- host -----------------------------------------------------------------------------------------


def _host(op: Operator) -> list[str]:
    """Prototype, inference and tiling of one operator."""
    inputs = [a for a in op.args if a[2] == "in"]
    outputs = [a for a in op.args if a[2] == "out"]
    symbols = [s for s, _ in op.sizes]
    style = ExprStyle(lambda n: f"s.{n}" if n in symbols else n, field_signs(symbols, ()), "gaf_host::")
    body = [
        "    bool known = true;",
        *(f"    known = gaf_host::Solve(dim({z.input}, {z.axis}), {style.format(z.rest)}, {style.format(z.factor)}, s.{n})"
          " && known;" for n, z in op.sizes),
    ]  # fmt: skip
    lines = [
        f"// Operator {op.type}: prototype, shapes and tiling; generated by gaf.",
        '#include "register/op_def_registry.h"', '#include "tiling/platform/platform_ascendc.h"', "",
        '#include "sizes.h"', *(f'#include "{k.sym_name.data}_tiling.h"' for k in op.variants), "",
        "namespace {", "", f'constexpr const char *OPERATOR = "{op.type}";', "",
        "struct Sizes {", *(f"    int64_t {s} = 0;" for s in symbols), "};", "",
        "// The sizes that the dims of the inputs show; false while one of them isn't known.",
        "template <class Dim>", f"bool ReadSizes({'Dim dim, Sizes &s' if symbols else 'Dim, Sizes &'})", "{",
        *body, "    return known;", "}", "",
        "ge::graphStatus InferShape(gert::InferShapeContext *context)", "{",
        "    const auto dim = [context](size_t input, size_t axis) {",
        "        return gaf_host::Dim(context->GetInputShape(input), axis);", "    };", "    Sizes s;", "    const bool known = ReadSizes(dim, s);",
    ]  # fmt: skip
    for number, (_, _, _, shape) in enumerate(outputs):
        dims = ", ".join(style.format(d) for d in shape)
        lines.append(f"    if (!gaf_host::SetShape(context->GetOutputShape({number}), known, {{{dims}}})) {{")
        lines += ["        return ge::GRAPH_FAILED;", "    }"]
    lines += [
        "    return ge::GRAPH_SUCCESS;", "}", "",
        "ge::graphStatus InferDataType(gert::InferDataTypeContext *context)", "{",
        *(f"    context->SetOutputDataType({i}, ge::{GE_TYPES[a[1]]});" for i, a in enumerate(outputs)),
        "    return ge::GRAPH_SUCCESS;", "}", "",
        "ge::graphStatus Tiling(gert::TilingContext *context)", "{",
        "    const auto shape = [context](size_t input) {",
        "        const auto *found = context->GetInputShape(input);",
        "        return found == nullptr ? nullptr : &found->GetOriginShape();", "    };",
        "    const auto dim = [&shape](size_t input, size_t axis) { return gaf_host::Dim(shape(input), axis); };",
        "    Sizes s;", "    if (!ReadSizes(dim, s)) {",
        '        return gaf_host::Refuse(OPERATOR, "a size is unknown or doesn\'t divide");', "    }",
    ]  # fmt: skip
    for number, (name, _, _, shape) in enumerate(inputs):
        dims = ", ".join(style.format(d) for d in shape)
        lines += [
            f"    if (!gaf_host::HasShape(shape({number}), {{{dims}}})) {{",
            f'        return gaf_host::Refuse(OPERATOR, "input {name} has another shape");', "    }",
        ]  # fmt: skip
    lines.append("    const char *why = nullptr;")
    sizes = {k.sym_name.data: ", ".join(f"s.{s}" for s in HostTiling(k).symbols) for k in op.variants}
    for key, kernel in enumerate(op.variants):
        name = kernel.sym_name.data
        mode = str(BATCH_SCHEDULE) if has_scheduler(kernel) else "0"
        lines += [
            "    {", f"        const auto launch = {name}_tiling({sizes[name]});",
            "        if (launch.error == nullptr) {",
            f"            return gaf_host::SetLaunch(context, launch, {key}, {mode});", "        }",
            "        why = launch.error;", "    }",
        ]  # fmt: skip
    lines += [
        "    return gaf_host::Refuse(OPERATOR, why);", "}", "", "}  // namespace", "", "namespace ops {", "",
        f"class {op.type} : public OpDef {{", "public:", f"    explicit {op.type}(const char *name) : OpDef(name)", "    {",
    ]  # fmt: skip
    for name, dtype, role, _ in op.args:
        dense = ".AutoContiguous()" if role == "in" else ""
        put = "Input" if role == "in" else "Output"
        lines.append(
            f'        this->{put}("{name}").ParamType(REQUIRED).DataType({{ge::{GE_TYPES[dtype]}}})'
            f".Format({{ge::FORMAT_ND}}){dense};"
        )
    return [
        *lines, "        this->SetInferShape(InferShape).SetInferDataType(InferDataType);",
        f'        this->AICore().SetTiling(Tiling).AddConfig("{COMPUTE_UNIT}");', "    }", "};", "",
        f"OP_ADD({op.type});", "", "}  // namespace ops",
    ]  # fmt: skip


_SIZES_HEADER = """\
// What the operators' host code shares: sizes from shapes, and what a launch needs.
#ifndef GAF_SIZES_H
#define GAF_SIZES_H

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "gaf_host.h"

namespace gaf_host {

// A dim of a shape; negative if it isn't known.
template <class Shape>
int64_t Dim(const Shape *shape, size_t axis)
{
    return shape == nullptr || axis >= shape->GetDimNum() ? -1 : shape->GetDim(axis);
}

// Solves dim = factor * size + rest; false if the dim isn't known or doesn't divide.
inline bool Solve(int64_t dim, int64_t rest, int64_t factor, int64_t &size)
{
    if (dim < 0 || factor <= 0 || (dim - rest) % factor != 0) {
        size = -1;
        return false;
    }
    size = (dim - rest) / factor;
    return true;
}

template <class Shape>
bool HasShape(const Shape *shape, std::initializer_list<int64_t> dims)
{
    if (shape == nullptr || shape->GetDimNum() != dims.size()) {
        return false;
    }
    size_t axis = 0;
    for (int64_t d : dims) {
        if (shape->GetDim(axis++) != d) {
            return false;
        }
    }
    return true;
}

// Sets the shape of an output; dims that need an unknown size stay unknown (-1).
template <class Shape>
bool SetShape(Shape *shape, bool known, std::initializer_list<int64_t> dims)
{
    if (shape == nullptr) {
        return false;
    }
    shape->SetDimNum(dims.size());
    size_t axis = 0;
    for (int64_t d : dims) {
        shape->SetDim(axis++, known ? d : -1);
    }
    return true;
}

inline ge::graphStatus Refuse(const char *op, const char *why)
{
    std::fprintf(stderr, "%s: %s\\n", op, why);
    return ge::GRAPH_FAILED;
}

template <class Tiling>
ge::graphStatus SetLaunch(gert::TilingContext *context, const Launch<Tiling> &launch, uint64_t key, uint32_t schedule)
{
    Tiling *tiling = context->GetTilingData<Tiling>();
    size_t *workspace = context->GetWorkspaceSizes(1);
    if (tiling == nullptr || workspace == nullptr) {
        return ge::GRAPH_FAILED;
    }
    std::memcpy(tiling, &launch.tiling, sizeof(Tiling));
    context->SetBlockDim(launch.blocks);
    context->SetTilingKey(key);
    context->SetScheduleMode(schedule);
    // the toolkit's own workspace stands before the kernel's
    workspace[0] = platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetLibApiWorkSpaceSize() + launch.workspace;
    return ge::GRAPH_SUCCESS;
}

}  // namespace gaf_host

#endif  // GAF_SIZES_H
"""


# -- around the operators ---------------------------------------------------------------------------


def _plugin(made: Sequence[Operator]) -> list[str]:
    lines = [
        f"// ATC's ONNX parser: nodes of the domain `{ONNX_DOMAIN}` become the operators of this project.",
        '#include "graph/operator.h"', '#include "register/register.h"', "", "namespace domi {", "namespace {", "",
        "// The operators have no attributes.",
        "Status NoAttributes(const ge::Operator &, ge::Operator &)", "{", "    return SUCCESS;", "}", "",
        "}  // namespace", "",
    ]  # fmt: skip
    for op in made:
        lines += [
            f'REGISTER_CUSTOM_OP("{op.type}")', "    .FrameworkType(ONNX)",
            f'    .OriginOpType("{ONNX_DOMAIN}::1::{op.type}")', "    .ParseParamsByOperatorFn(NoAttributes)",
            "    .ImplyType(ImplyType::TVM);", "",
        ]  # fmt: skip
    return [*lines, "}  // namespace domi"]


def _cmake(made: Sequence[Operator]) -> str:
    sources = "\n".join(f"  op_host/{op.name}.cpp" for op in made)
    kernels = "\n".join(
        f"npu_op_kernel_sources(gaf_kernels OP_TYPE {op.type} KERNEL_FILE {op.name}.cpp)" for op in made
    )
    return f"""\
# Builds the operator package on CANN 9: cmake -B build && cmake --build build -t package
cmake_minimum_required(VERSION 3.16)
project(gaf_operators)
find_package(ASC REQUIRED)

set(ASCEND_COMPUTE_UNIT {COMPUTE_UNIT})
npu_op_package(gaf TYPE RUN CONFIG INSTALL_PATH ${{CMAKE_BINARY_DIR}})

set(GAF_HOST
{sources}
)
npu_op_code_gen(SRC ${{GAF_HOST}} PACKAGE gaf OUT_DIR ${{ASCEND_AUTOGEN_PATH}})

npu_op_library(gaf_tiling TILING ${{GAF_HOST}})
file(GLOB GAF_ACLNN ${{ASCEND_AUTOGEN_PATH}}/aclnn_*.cpp)
set_source_files_properties(${{GAF_ACLNN}} PROPERTIES GENERATED TRUE)
npu_op_library(gaf_aclnn ACLNN ${{GAF_ACLNN}})
set(GAF_PROTO ${{ASCEND_AUTOGEN_PATH}}/op_proto.cc)
set_source_files_properties(${{GAF_PROTO}} PROPERTIES GENERATED TRUE)
npu_op_library(gaf_proto GRAPH ${{GAF_HOST}} ${{GAF_PROTO}})
npu_op_library(gaf_onnx ONNX_PLUGIN framework/onnx_plugin/gaf_plugin.cc)

{kernels}
npu_op_kernel_library(gaf_kernels SRC_BASE ${{CMAKE_CURRENT_SOURCE_DIR}}/op_kernel TILING_LIBRARY gaf_tiling)

npu_op_package_add(gaf LIBRARY gaf_tiling gaf_aclnn gaf_proto gaf_onnx gaf_kernels)
"""


def _msopgen(made: Sequence[Operator]) -> str:
    import json

    def described(op: Operator, role: str) -> list[dict[str, object]]:
        return [
            {"name": name, "param_type": "required", "format": ["ND"], "type": [MSOPGEN_TYPES[dtype]]}
            for name, dtype, r, _ in op.args
            if r == role
        ]

    found = [
        {"op": op.type, "language": "cpp", "input_desc": described(op, "in"), "output_desc": described(op, "out")}
        for op in made
    ]
    return json.dumps(found, indent=1) + "\n"


def _readme(made: Sequence[Operator], left_out: Mapping[str, str]) -> str:
    table = "\n".join(
        f"| `{op.type}` | `aclnn{op.type}` | {', '.join(f'`{k.sym_name.data}`' for k in op.variants)} |" for op in made
    )
    missing = "\n".join(f"* `{name}`: {why}" for name, why in left_out.items())
    note = f"\nKernels that are no operators here; `model.onnx` has their ops instead:\n\n{missing}\n" if missing else ""
    return f"""\
# Operator project

The kernels as operators of CANN: `aclnn` calls, and nodes that the graph engine and ATC understand.

CANN 9:

    cmake -B build && cmake --build build -t package       # build/custom_opp_*.run installs the operators

CANN 8 brings the build scripts with msopgen; let it make a project, then put these files over its own:

    msopgen gen -i operators.json -f onnx -c ai_core-Ascend910B3 -lan cpp -out project
    rm project/op_host/*.cpp project/op_host/*.h project/op_kernel/*.cpp
    cp -r op_host op_kernel framework project/ && cd project && ./build.sh

With the package installed, ATC turns `model.onnx` (nodes of the domain `{ONNX_DOMAIN}`) into an offline model:

    atc --model=model.onnx --framework=5 --soc_version=Ascend910B3 --output=model

| operator | call | kernels, best first |
|---|---|---|
{table}
{note}
Nothing here was built or run on a device by gaf; `gaf check` reads the sources with the toolkit's headers.
"""
