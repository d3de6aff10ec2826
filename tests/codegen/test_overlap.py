# SPDX-License-Identifier: Apache-2.0
"""`torch/overlap.py` of a project: the functions it defines compute what the model does, part by part."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gaf.codegen.overlap import overlap_module
from gaf.codegen.project import project_files
from gaf.dialects.graph.interpreter import run_block, run_model
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.runtime.compiler import find_compiler
from gaf.runtime.samples import build_program
from tests.passes.test_overlap_collectives import fused, overlaps, parallel_block, random_ranks

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")


def module_of(found: Any) -> str:
    return overlap_module(overlaps(found), {k.name: k.ascendc for k in found.kernels})


def defined(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(text, "overlap.py", "exec"), space)
    return space


def operands(found: Any, inputs: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """What the overlap takes: inputs and weights by the order of its operands."""
    (op,) = overlaps(found)
    model = found.model
    known = {**dict(zip(model.block.args, (inputs[n] for n in model.input_names)))}
    arrays = []
    for value in op.operands:
        owner = value.owner
        if value in known:
            arrays.append(known[value])
        elif owner.name == "graph.weight":
            arrays.append(model.weights[owner.weight.data])
        else:
            arrays.append(owner.value.array)
    return [torch.from_numpy(np.array(a)) for a in arrays]


def stub(found: Any) -> SimpleNamespace:
    """The operators of the extension, computed by the references of the kernels' ops."""
    made = {}
    for op in found.fused_ops:
        name = op.attributes["kernels"].data[0].data

        def out(*given: torch.Tensor, op: FusedOp = op, **results: torch.Tensor) -> None:
            order = op.attributes["kernel_args"].get_values()
            arrays: list[Any] = [None] * len(op.operands)
            for number, tensor in zip(order, given):
                arrays[number] = tensor.numpy()
            for target, value in zip(results.values(), run_block(op.block, arrays, {}, {}), strict=True):
                assert target.is_contiguous()
                target.copy_(torch.from_numpy(np.array(value)))

        made[name] = SimpleNamespace(out=out)
    return SimpleNamespace(**made)


@pytest.mark.parametrize("options", [
    {}, {"tail": "reshape"}, {"tail": "across"}, {"reduce": "mean"}, {"kernel_before": False},
])  # fmt: skip
def test_functions_compute_the_model(options: dict, lone_group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fused(parallel_block(**options))
    (op,) = overlaps(found)
    (inputs,) = random_ranks(found, 1)
    for o in found.source_model.block.ops:  # a group of one: its sum is what it holds
        if o.name == "graph.all_reduce":
            o.properties["ranks"] = type(o).make([o.x], {**o.attrs(), "ranks": 1}).properties["ranks"]
    monkeypatch.setattr(torch.ops, "gaf", stub(found), raising=False)
    space = defined(module_of(found))
    given = operands(found, inputs)
    before = [t.clone() for t in given]
    got = space["overlap_0"](*given)
    assert all(torch.equal(a, b) for a, b in zip(given, before)), "operands stay as they are"
    if options.get("tail") == "across":  # only the matmul is in parts
        wanted = inputs["x"] @ found.model.weights[next(iter(found.model.weights))]
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-5)
        return
    wanted = run_model(found.source_model, inputs)["y"]
    np.testing.assert_allclose(got.numpy().reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


def test_projects_without_overlaps_have_no_such_file() -> None:
    found = fused(parallel_block(), disabled_rules=("overlap-collectives",))
    assert "torch/overlap.py" not in project_files([k.ascendc for k in found.kernels])


def run_extension(folder: Path, given: list[np.ndarray]) -> np.ndarray:
    """What `overlap_0` of a project gives; for a process of its own, since one can load only one extension `gaf`."""
    torch.ops.load_library(str(folder / "libgaf_torch.so"))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    space = defined((folder / "torch/overlap.py").read_text())
    return space["overlap_0"](*map(torch.from_numpy, given)).numpy()


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_functions_call_the_extension(tmp_path: Path) -> None:
    """The extension with its `out` overloads, built for the twin."""
    from torch.utils import cpp_extension

    found = fused(parallel_block())
    for path, text in project_files([k.ascendc for k in found.kernels], overlaps=overlaps(found)).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    folders = [Path(p) for p in cpp_extension.library_paths()]
    flags = [f"-L{f}" for f in folders] + [f"-Wl,-rpath,{f}" for f in folders]
    flags += ["-ltorch", "-ltorch_cpu", "-lc10", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    build_program(
        [*(tmp_path / f"kernels/{k.name}.cpp" for k in found.kernels), tmp_path / "host/launch.cpp", tmp_path / "torch/binding.cpp"],
        tmp_path / "libgaf_torch.so",
        "fast",
        [tmp_path / "kernels", tmp_path / "host", *cpp_extension.include_paths()],
        flags=flags,
        shared=True,
    )
    (inputs,) = random_ranks(found, 1)
    for o in found.source_model.block.ops:
        if o.name == "graph.all_reduce":
            o.properties["ranks"] = type(o).make([o.x], {**o.attrs(), "ranks": 1}).properties["ranks"]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        got = process.submit(run_extension, tmp_path, [t.numpy() for t in operands(found, inputs)]).result()
    np.testing.assert_allclose(got, run_model(found.source_model, inputs)["y"], rtol=1e-4, atol=1e-5)
