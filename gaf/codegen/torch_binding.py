# SPDX-License-Identifier: Apache-2.0
"""The PyTorch extension of a project: every kernel as an operator `torch.ops.gaf.NAME`, with shapes for torch.compile."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from gaf.codegen.expr import ExprStyle, field_signs
from gaf.codegen.host import HostTiling
from gaf.codegen.printer import wrap
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.dialects.common import dtype as dt

SCALAR_TYPES = {
    dt.F32: "at::kFloat", dt.F16: "at::kHalf", dt.BF16: "at::kBFloat16", dt.BOOL: "at::kBool",
    dt.I64: "at::kLong", dt.I32: "at::kInt", dt.I16: "at::kShort", dt.I8: "at::kChar", dt.U8: "at::kByte",
}  # fmt: skip

HEAD = """\
// The kernels as PyTorch operators: torch.ops.load_library("libgaf_torch.so"), then torch.ops.gaf.NAME(tensors, sizes).
// With torch_npu the operators are for its device and run on the current stream. Without it they are for the CPU,
// where gaf's host twin runs the same kernels.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "gaf_host.h"
#include "launch.h"

#if __has_include("torch_npu/csrc/core/npu/NPUStream.h")
#include "torch_npu/csrc/core/npu/NPUStream.h"
#define GAF_DISPATCH_KEY PrivateUse1
#else
#define GAF_DISPATCH_KEY CPU
#endif

namespace {

// The stream of this thread; with torch_npu's task queue, what is queued on it goes first.
void *Stream()
{
#if __has_include("torch_npu/csrc/core/npu/NPUStream.h")
    return c10_npu::getCurrentNPUStream().stream(true);
#else
    return nullptr;
#endif
}

// The tensor as the kernel reads it: dense, of its dtype, with as many elements as `dims` say.
at::Tensor Dense(const at::Tensor &x, const char *name, at::ScalarType dtype, at::IntArrayRef dims)
{
    TORCH_CHECK(x.scalar_type() == dtype, name, " is ", x.scalar_type(), ", expected ", dtype);
    TORCH_CHECK(x.numel() == c10::multiply_integers(dims), name, " has shape ", x.sizes(), ", expected ", dims);
    return x.contiguous();
}

at::Tensor Workspace(uint64_t bytes, const at::Tensor &like)
{
    return at::empty({static_cast<int64_t>(bytes > 32 ? bytes : 32)}, like.options().dtype(at::kByte));
}
"""


def torch_binding(kernels: Sequence[KernelOp]) -> str:
    """The C++ source of the extension. Kernels without an input are left out: nothing says on which device they run."""
    usable = [k for k in kernels if "in" in k.roles.data]
    lines = HEAD.splitlines()
    for kernel in usable:
        lines += ["", *_function(kernel, meta=False), "", *_function(kernel, meta=True)]
    lines += ["", "}  // namespace", "", "TORCH_LIBRARY(gaf, m)", "{"]
    lines += [f'    m.def("{_schema(k)}");' for k in usable]
    for key, suffix in (("GAF_DISPATCH_KEY", ""), ("Meta", "_meta")):
        lines += ["}", "", f"TORCH_LIBRARY_IMPL(gaf, {key}, m)", "{"]
        lines += [f'    m.impl("{k.sym_name.data}", {k.sym_name.data}_op{suffix});' for k in usable]
    return "\n".join(part for line in [*lines, "}"] for part in wrap(line)) + "\n"


def _schema(kernel: KernelOp) -> str:
    """`softmax(Tensor x, int rows) -> Tensor`."""
    inputs = [f"Tensor {_word(n)}" for n, _, role, _ in kernel.args if role == "in"]
    count = kernel.roles.data.count("out")
    result = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"{kernel.sym_name.data}({', '.join([*inputs, *(f'int {_word(s)}' for s in kernel.symbols.data)])}) -> {result}"


def _word(name: str) -> str:
    """A name that Python and schemas can use."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _function(kernel: KernelOp, meta: bool) -> list[str]:
    """The operator, or (`meta`) what says the shapes and dtypes of its results."""
    name = kernel.sym_name.data
    style = ExprStyle(signs=field_signs(kernel.symbols.data, ()), prefix="gaf_host::")
    inputs = [a for a in kernel.args if a[2] == "in"]
    outputs = [a for a in kernel.args if a[2] == "out"]

    def dims(shape: Sequence[object]) -> str:
        return "{" + ", ".join(style.format(d) for d in shape) + "}"  # type: ignore[arg-type]

    result = "at::Tensor" if len(outputs) == 1 else f"std::tuple<{', '.join(['at::Tensor'] * len(outputs))}>"
    params = [f"const at::Tensor &{n}_in" for n, *_ in inputs] + [f"int64_t {s}" for s in kernel.symbols.data]
    lines = [f"{result} {name}_op{'_meta' if meta else ''}({', '.join(params)})", "{"]
    first = f"{inputs[0][0]}_in"
    if not meta:
        lines.append(f"    const c10::DeviceGuard gaf_guard({first}.device());")
        lines += [
            f'    const at::Tensor {n} = ::Dense({n}_in, "{n}", {SCALAR_TYPES[kind.dtype]}, {dims(shape)});'
            for n, kind, _, shape in inputs
        ]
    lines += [
        f"    at::Tensor {n} = at::empty({dims(shape)}, {first}.options().dtype({SCALAR_TYPES[kind.dtype]}));"
        for n, kind, _, shape in outputs
    ]
    if not meta:
        sizes = ", ".join(HostTiling(kernel).symbols)
        pointers = "".join(f"{n}.data_ptr(), " for n, *_ in kernel.args)
        lines += [
            f"    at::Tensor workspace = ::Workspace(gaf_kernels::{name}_workspace({sizes}), {first});",
            f"    const char *gaf_refused = gaf_kernels::{name}({pointers}workspace.data_ptr(), "
            f"::Stream(){', ' + sizes if sizes else ''});",
            f'    TORCH_CHECK(gaf_refused == nullptr, "{name}: ", gaf_refused);',
        ]
    values = ", ".join(n for n, *_ in outputs)
    return [*lines, f"    return {values};" if len(outputs) == 1 else f"    return {{{values}}};", "}"]
