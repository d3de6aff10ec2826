# SPDX-License-Identifier: Apache-2.0
"""The project's PyTorch extension: its schemas, and the operators themselves on the twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaf.codegen.project import write_project
from gaf.codegen.torch_binding import torch_binding
from gaf.dialects.ascendc import KernelBuilder
from gaf.dialects.common import dtype as dt
from gaf.passes.ascendc.insert_sync import insert_sync
from gaf.runtime.compiler import find_compiler
from tests.dialects.ascendc.kernels import CASES, arrays_of, expected


def test_schemas() -> None:
    text = torch_binding([CASES["softmax"].build(), CASES["bias_gelu"].build()])
    assert 'm.def("softmax(Tensor x, int M, int K) -> Tensor");' in text
    assert 'm.def("bias_gelu(Tensor x, Tensor b, int M, int N) -> Tensor");' in text
    assert text.count('m.impl("softmax", ') == 2  # for the device, and for shapes alone


def test_names_that_python_can_not_use_and_kernels_without_input() -> None:
    lambda_ = KernelBuilder("k", "aiv", [("lambda", dt.F32, "in", [8]), ("y", dt.F32, "out", [8])]).finish()
    source = KernelBuilder("source", "aiv", [("y", dt.F32, "out", [8])]).finish()
    text = torch_binding([lambda_, source])
    assert "k(Tensor lambda_) -> Tensor" in text and '"source' not in text


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_operators_compute_on_the_twin(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import cpp_extension

    from gaf.runtime.samples import build_program

    names = ("bias_gelu", "softmax")
    kernels = [CASES[n].build() for n in names]
    for kernel in kernels:
        insert_sync(kernel)
    write_project(tmp_path, kernels)
    folders = [Path(p) for p in cpp_extension.library_paths()]
    flags = [f"-L{f}" for f in folders] + [f"-Wl,-rpath,{f}" for f in folders]
    flags += ["-ltorch", "-ltorch_cpu", "-lc10", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    build_program(
        [*(tmp_path / f"kernels/{n}.cpp" for n in names), tmp_path / "host/launch.cpp", tmp_path / "torch/binding.cpp"],
        tmp_path / "libgaf_torch.so",
        "fast",
        [tmp_path / "kernels", tmp_path / "host", *cpp_extension.include_paths()],
        flags=flags,
        shared=True,
    )
    torch.ops.load_library(str(tmp_path / "libgaf_torch.so"))
    case = CASES["softmax"]
    sizes = case.sizes[0]
    x = arrays_of(case, sizes)["x"]
    operator = torch.ops.gaf.softmax
    got = operator(torch.from_numpy(x), sizes["M"], sizes["K"])
    want = expected(case, {"x": x})["y"]
    np.testing.assert_allclose(got.numpy(), want, rtol=case.tolerance, atol=case.tolerance)
    # the transposed tensor is made dense first
    turned = torch.from_numpy(np.ascontiguousarray(x.T)).T
    assert torch.equal(operator(turned, sizes["M"], sizes["K"]), got)
    assert operator(torch.empty(3, 64, device="meta"), 3, 64).shape == (3, 64)
    with pytest.raises(RuntimeError, match="x is Double, expected Float"):
        operator(torch.from_numpy(x).double(), sizes["M"], sizes["K"])
    with pytest.raises(RuntimeError, match="x has shape"):
        operator(torch.from_numpy(x), sizes["M"] + 1, sizes["K"])
    with pytest.raises(RuntimeError, match="softmax: "):
        operator(torch.zeros(8, 50000), 8, 50000)
