# SPDX-License-Identifier: Apache-2.0
"""The operator project: names, sizes from shapes, and operators called as the graph engine calls them, on the twin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import gaf
from gaf.codegen.operator_project import Operator, entry_name, operator_files, operators
from gaf.dialects.ascendc import KernelBuilder
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import expr, sym
from gaf.frontend.language.program import program_from_text
from gaf.runtime.compiler import find_compiler
from gaf.runtime.executor import kernel_names
from gaf.runtime.inputs import random_inputs
from gaf.runtime.samples import ProgramResult, build_program
from gaf.tools.gaf import main

ENGINE = Path(__file__).parent / "graph_engine"

ROWS = """
model rows(x: f32[n, k], g: f32[k]) {
    y = softmax(x * g, axis=-1)
}
"""
BLOCK = """
model block(x: f16[n, 48], w: f16[48, 32], b: f16[32]) {
    y = matmul(x, w) + b
}
"""


@pytest.mark.parametrize(
    ("op_type", "name"),
    [("AddCustom", "add_custom"), ("Conv2DCustom", "conv2_d_custom"), ("GRUCell", "gru_cell"), ("AbcAAc", "abc_a_ac"),
     ("GafMatmul2", "gaf_matmul2"), ("HTTPServerCustom", "http_server_custom")],
)  # fmt: skip
def test_entry_names_follow_the_toolkit_s_rule(op_type: str, name: str) -> None:
    assert entry_name(op_type) == name  # examples of the toolkit's documentation


def kernel(name: str, *shapes: list, roles: str = "io"):  # type: ignore[no-untyped-def]
    args = [
        (f"{'X' if role == 'i' else 'Y'}{i}", dt.F32, "in" if role == "i" else "out", shape)
        for i, (role, shape) in enumerate(zip(roles, shapes, strict=True))
    ]
    names = sorted(set().union(*(d.names() for s in shapes for d in map(expr, s))))
    return KernelBuilder(name, "aiv", args, names).finish()


def test_sizes_are_solved_from_dims_in_the_order_they_become_known() -> None:
    n, k = sym("N"), sym("K")
    found, left_out = operators([[kernel("a", [n * k + 3], [2 * k, 4], [n], roles="iio")]])
    assert not left_out
    text = operator_files(found, left_out)["op_host/gaf_a.cpp"]
    k_at = text.index("gaf_host::Solve(dim(1, 0), 0, 2, s.K)")
    n_at = text.index("gaf_host::Solve(dim(0, 0), 3, s.K, s.N)")
    assert k_at < n_at


def test_kernels_that_operators_can_t_be_are_named() -> None:
    n, k = sym("N"), sym("K")
    found, left_out = operators(
        [[kernel("hidden", [n * k], [n], roles="io")], [kernel("source", [8], roles="o")], [kernel("ok", [n], [n])]]
    )
    assert [op.type for op in found] == ["GafOk"]
    assert left_out == {"hidden": "no shape of an input shows the size K", "source": "it has no inputs"}
    assert "`hidden`" in operator_files(found, left_out)["README.md"]


def test_operator_types_and_argument_names_are_told_apart() -> None:
    twice = KernelBuilder("a_b", "aiv", [("x", dt.F32, "in", [8]), ("X", dt.F32, "in", [8]), ("tiling", dt.F32, "out", [8])])
    found, _ = operators([[kernel("aB", [8], [8])], [kernel("ab", [8], [8])], [twice.finish()]])
    assert len({entry_name(op.type) for op in found}) == 3
    assert [name for name, *_ in found[2].args] == ["x", "x_2", "tiling_2"]


def call(op: Operator, folder: Path, arrays: list[np.ndarray], dims: list[tuple[int, ...]], mode: str) -> ProgramResult:
    """Run an operator through its host code and device entry; outputs are the last arrays, in place."""
    for path, text in operator_files([op], {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    pointers = "".join(f"static_cast<uint8_t *>(device[{i}]), " for i in range(len(arrays)))
    launch = (ENGINE / "launch.asc.in").read_text()
    for place, text in {
        "@DEVICE@": f"op_kernel/{op.name}.cpp",
        "@HOST@": f"op_host/{op.name}.cpp",
        "@CALL@": f"{op.name}<<<context.blocks, nullptr, stream>>>({pointers}"
        "static_cast<uint8_t *>(workspace), static_cast<uint8_t *>(tiling))",
    }.items():
        launch = launch.replace(place, text)
    (folder / "launch.asc").write_text(launch)
    program = build_program([folder / "launch.asc"], folder / "launch", mode, [folder, folder / "op_kernel", folder / "op_host", ENGINE])
    for i, a in enumerate(arrays):
        a.tofile(folder / f"{i}.bin")
    result = program.run(
        [*(f"{i}.bin" for i in range(len(arrays))), *(",".join(map(str, d)) for d in dims)], cwd=folder, timeout=120
    )
    for i, a in enumerate(arrays):
        a[...] = np.fromfile(folder / f"{i}.bin", a.dtype).reshape(a.shape)
    return result


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize(("n", "k", "key"), [(5, 130, 0), (2, 60000, 1)])
def test_the_variant_that_fits_runs(n: int, k: int, key: int, tmp_path: Path) -> None:
    fused = gaf.fuse(program_from_text(ROWS).model())
    (op,), _ = operators([[next(x.ascendc for x in fused.kernels if x.name == v) for v in kernel_names(fused.fused_ops[0])]])
    assert len(op.variants) == 2
    rng = np.random.default_rng(0)
    x, g, y = rng.normal(size=(n, k)).astype("f"), rng.normal(size=k).astype("f"), np.zeros((n, k), "f")
    result = call(op, tmp_path, [x, g, y], [(n, k), (k,)], "check")
    assert result.returncode == 0 and not result.violations, (result.stderr, result.violations)
    first, second = result.stdout.splitlines()
    assert first == f"{op.type} ascend910b {op.args[-1][0]}:0:{n},{k},"
    assert second.startswith(f"key {key} ")
    assert int(second.rpartition(" ")[2]) >= 16 << 20  # the toolkit's own workspace
    z = x.astype("d") * g
    e = np.exp(z - z.max(-1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_a_mix_kernel_runs_and_other_shapes_are_refused(tmp_path: Path) -> None:
    fused = gaf.fuse(program_from_text(BLOCK).model())
    (op,), _ = operators([[next(x.ascendc for x in fused.kernels if x.name == v) for v in kernel_names(fused.fused_ops[0])]])
    inputs = random_inputs(fused.model, size=70)
    args = [name for name, *_ in op.args]
    arrays = [inputs[a] for a in args[:-1]] + [np.zeros((70, 32), np.float16)]
    result = call(op, tmp_path, arrays, [a.shape for a in arrays[:-1]], "fast")
    assert result.returncode == 0, result.stderr
    assert " schedule 1 " in result.stdout  # the cores wait for one another
    want = inputs["x"].astype("d") @ inputs["w"].astype("d") + inputs["b"].astype("d")
    np.testing.assert_allclose(arrays[-1], want, rtol=2e-3, atol=2e-3)
    shapes = [a.shape for a in arrays[:-1]]
    shapes[args.index("b")] = (31,)
    refused = call(op, tmp_path, arrays, shapes, "fast")
    assert refused.returncode == 4 and "input b has another shape" in refused.stderr


def test_the_command_writes_the_project_and_a_model_of_its_operators(tmp_path: Path) -> None:
    (tmp_path / "rows.gaf").write_text(ROWS)
    assert main(["fuse", str(tmp_path / "rows.gaf"), "-o", str(tmp_path / "out"), "--aclnn", "--no-verify"]) == 0
    folder = tmp_path / "out/aclnn"
    model = onnx.load(folder / "model.onnx")
    (node,) = model.graph.node
    (described,) = json.loads((folder / "operators.json").read_text())
    assert (node.domain, node.op_type) == ("gaf", described["op"])
    assert len(node.input) == len(described["input_desc"]) == 2
    assert f'"gaf::1::{node.op_type}"' in (folder / "framework/onnx_plugin/gaf_plugin.cc").read_text()
    assert "aclnn/" in (tmp_path / "out/README.md").read_text()
    assert main(["fuse", str(tmp_path / "rows.gaf"), "-o", str(tmp_path / "out"), "--no-verify"]) == 0
    assert not folder.exists()  # what an earlier run wrote doesn't stay
