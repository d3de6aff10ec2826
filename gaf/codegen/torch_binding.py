# SPDX-License-Identifier: Apache-2.0
"""The PyTorch extension of a project: every kernel as an operator `torch.ops.gaf.NAME`, with shapes for torch.compile."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Sequence

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


def torch_binding(kernels: Sequence[KernelOp], into: Collection[str] = ()) -> str:
    """The C++ source of the extension. Kernels without an input are left out: nothing says on which device they run.

    Kernels named in `into` also have an overload `NAME.out` that writes into given tensors, e.g. parts of larger ones.
    """
    usable = [k for k in kernels if "in" in k.roles.data]
    lines = HEAD.splitlines()
    for kernel in usable:
        lines += ["", *_function(kernel, meta=False), "", *_function(kernel, meta=True)]
        if kernel.sym_name.data in into:
            lines += ["", *_function_into(kernel)]
    lines += ["", "}  // namespace", "", "TORCH_LIBRARY(gaf, m)", "{"]
    lines += [f'    m.def("{_schema(k)}");' for k in usable]
    written = [k for k in usable if k.sym_name.data in into]
    lines += [f'    m.def("{_schema_into(k)}");' for k in written]
    for key, suffix in (("GAF_DISPATCH_KEY", ""), ("Meta", "_meta")):
        lines += ["}", "", f"TORCH_LIBRARY_IMPL(gaf, {key}, m)", "{"]
        lines += [f'    m.impl("{k.sym_name.data}", {k.sym_name.data}_op{suffix});' for k in usable]
        if not suffix:
            lines += [f'    m.impl("{k.sym_name.data}.out", {k.sym_name.data}_op_out);' for k in written]
    return "\n".join(part for line in [*lines, "}"] for part in wrap(line)) + "\n"


def _schema(kernel: KernelOp) -> str:
    """`softmax(Tensor x, int rows) -> Tensor`."""
    inputs = [f"Tensor {word(n)}" for n, _, role, _ in kernel.args if role == "in"]
    count = kernel.roles.data.count("out")
    result = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"{kernel.sym_name.data}({', '.join([*inputs, *(f'int {word(s)}' for s in kernel.symbols.data)])}) -> {result}"


def _schema_into(kernel: KernelOp) -> str:
    """`softmax.out(Tensor x, int rows, *, Tensor(a!) y) -> ()`."""
    given = _schema(kernel).partition("(")[2].rpartition(") ->")[0]
    outputs = [n for n, _, role, _ in kernel.args if role == "out"]
    marked = ", ".join(f"Tensor({chr(ord('a') + i)}!) {word(n)}" for i, n in enumerate(outputs))
    return f"{kernel.sym_name.data}.out({given}, *, {marked}) -> ()"


def word(name: str) -> str:
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


def _function_into(kernel: KernelOp) -> list[str]:
    """The overload that writes into given tensors, which are dense and of the kernel's dtypes."""
    body = _function(kernel, meta=False)
    outputs = [n for n, _, role, _ in kernel.args if role == "out"]
    params = body[0].partition("(")[2].rpartition(")")[0]
    given = ", ".join(f"const at::Tensor &{n}_out" for n in outputs)
    lines = [f"void {kernel.sym_name.data}_op_out({params}, {given})", "{"]
    for line in body[2:-2]:
        made = next((n for n in outputs if line.startswith(f"    at::Tensor {n} = at::empty(")), None)
        if made is None:
            lines.append(line)
            continue
        dims = line.partition("at::empty(")[2].partition("}, ")[0] + "}"
        kind = line.rpartition(".dtype(")[2].partition(")")[0]
        lines += [
            f'    const at::Tensor {made} = ::Dense({made}_out, "{made}", {kind}, {dims});',
            f'    TORCH_CHECK({made}.data_ptr() == {made}_out.data_ptr(), "{made} is not dense");',
        ]
    return [*lines, "}"]
