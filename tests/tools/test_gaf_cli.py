# SPDX-License-Identifier: Apache-2.0
"""`gaf` from the command line: what it writes, what it prints, and one message with an exit code for bad input."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from gaf.errors import EXIT_COMPILER, EXIT_INTERNAL, EXIT_INVALID, EXIT_MISMATCH, EXIT_OK, EXIT_UNSUPPORTED
from gaf.runtime import compiler
from gaf.tools import gaf as cli
from gaf.tools.cli import bundle

F32, I64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
WIDTH = 12


def value(name: str, shape: Sequence[int | str], dtype: int = F32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, list(shape))


def proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray] | None = None,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


APART = ("--max-fusion-depth", "1")
"""Keeps the two matmuls of `small` in kernels of their own, whatever fusion could do."""


def small() -> onnx.ModelProto:
    """Projection with bias and activation, and a second one with a gate; weights above the inline limit."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(size=(WIDTH, WIDTH)) / 4,
        "bias": rng.normal(size=WIDTH),
        "w2": rng.normal(size=(WIDTH, WIDTH)) / 4,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="project"),
        helper.make_node("Add", ["p", "bias"], ["q"], name="add_bias"),
        helper.make_node("Relu", ["q"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w2"], ["g"], name="second"),
        helper.make_node("Sigmoid", ["g"], ["s"], name="gate_sigmoid"),
        helper.make_node("Mul", ["g", "s"], ["y"], name="gate_mul"),
    ]
    tensors = {n: w.astype(np.float32) for n, w in weights.items()}
    return proto(nodes, [value("x", ["B", WIDTH])], [value("y", ["B", WIDTH])], tensors)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(small(), path)
    return str(path)


@pytest.fixture(scope="module")
def fused(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `gaf fuse` wrote, verified on the Python engine."""
    folder = tmp_path_factory.mktemp("fused") / "out"
    assert cli.main(["fuse", model, "-o", str(folder), "--engine", "interpreter", "-q"]) == EXIT_OK
    return folder


@pytest.fixture
def no_compiler_cache() -> Any:
    """The compiler is looked for again, before and after the test."""
    compiler.find_compiler.cache_clear()
    yield
    compiler.find_compiler.cache_clear()


def run_json(capsys: pytest.CaptureFixture[str], *args: str, code: int = EXIT_OK) -> dict[str, Any]:
    """Runs `gaf ... --json`; stdout must be one JSON object."""
    assert cli.main([*args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def fails(capsys: pytest.CaptureFixture[str], args: Sequence[str], code: int, *parts: str) -> str:
    """`gaf` must fail with `code` and one message that says all `parts`, with no traceback."""
    assert cli.main(list(args)) == code
    out, err = capsys.readouterr()
    assert out == ""
    message = err[err.index("gaf: ", err.rfind(" s\n") + 1) :]
    assert "Traceback" not in err and "builtin.module" not in err
    assert len(message.splitlines()) <= 9
    for part in parts:
        assert part in message, message
    return message


# -- fuse: what lands in the folder ------------------------------------------------------------------


def test_fuse_writes_everything(fused: Path) -> None:
    files = {str(p.relative_to(fused)) for p in fused.rglob("*") if p.is_file()}
    assert {
        "optimized_model.onnx",
        "report.json",
        "report.html",
        "report.txt",
        "README.md",
        "CMakeLists.txt",
        "ir/graph.mlir",
        "ir/fused.mlir",
        "ir/tile.mlir",
        "ir/ascendc.mlir",
        "verify/inputs.npz",
        "verify/outputs.npz",
        "verify/verification.json",
        "kernels/gaf_device.h",
    } <= files
    report = json.loads((fused / "report.json").read_text())
    for kernel in report["kernels"]:
        assert kernel["source"] in files
        assert f"host/{kernel['name']}_tiling.h" in files
    assert {f.split("/")[0] for f in files} <= bundle.ENTRIES
    assert not [p for p in fused.parent.iterdir() if p != fused]


def test_fuse_prints_figures(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "fuse", model, "-o", str(tmp_path / "o"), "--engine", "interpreter", "-q")
    assert data["ok"] is True
    figures = data["figures"]
    assert figures["ops_before"] == 6
    assert figures["kernels"] == figures["launches"] < 6
    assert figures["bytes_after"] < figures["bytes_before"]
    assert [v["engine"] for v in data["verified"]] == ["interpreter"]
    assert 0 < data["verified"][0]["outputs"][0]["error"] < 1e-5


def test_text_without_terminal_has_no_escape_sequences(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["fuse", model, "-o", str(tmp_path / "o"), "--engine", "interpreter"]) == EXIT_OK
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert re.search(r"^ops in the model +6$", out, re.MULTILINE)
    assert re.search(r"^gaf: fuse and generate: \d+\.\d s$", err, re.MULTILINE)


def test_optimized_model_runs_in_onnx_reference(fused: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    x = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
    expected = ReferenceEvaluator(small()).run(None, {"x": x})[0]
    got = ReferenceEvaluator(str(fused / "optimized_model.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_no_verify_builds_nothing(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("built a kernel")

    monkeypatch.setattr("gaf.runtime.twin.build_kernels", never)
    data = run_json(capsys, "fuse", model, "-o", str(tmp_path / "o"), "--no-verify", "-q")
    assert data["verified"] == []
    assert not (tmp_path / "o" / "verify").exists()
    assert json.loads((tmp_path / "o" / "report.json").read_text())["verification"] is None


def test_same_model_gives_the_same_bytes(model: str, fused: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert cli.main(["fuse", model, "-o", str(again), "--engine", "interpreter", "-q"]) == EXIT_OK
    for path in sorted(fused.rglob("*")):
        if path.is_file() and path.suffix != ".npz":  # zip files hold the time of writing
            assert path.read_bytes() == (again / path.relative_to(fused)).read_bytes(), path


def test_fuse_replaces_its_own_folder_and_keeps_files_of_the_user(model: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command = ["fuse", model, "-o", str(folder), "--no-verify", "-q"]
    assert cli.main(command) == EXIT_OK
    (folder / "build").mkdir()
    (folder / "build" / "mine.txt").write_text("mine")
    (folder / "report.txt").write_text("old")
    assert cli.main(command) == EXIT_OK
    assert (folder / "build" / "mine.txt").read_text() == "mine"
    assert (folder / "report.txt").read_text() != "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_input_shape_fixes_dims(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_json(
        capsys, "fuse", model, "-o", str(tmp_path / "o"), "--no-verify", "--input-shape", f"x:7,{WIDTH}", "-q"
    )
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["model"]["inputs"] == [f"x: f32[7, {WIDTH}]"]
    assert report["symbols"] == {}


def test_log_lines_of_the_toolkit(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "1")
    assert cli.main(["fuse", model, "-o", str(tmp_path / "o"), "--no-verify", *APART]) == EXIT_OK
    out, err = capsys.readouterr()
    assert "[GRAPH_AUTOFUSION]" not in out
    assert "[GRAPH_AUTOFUSION] Detected 1 MatMul+Add+Relu fusion opportunities\n" in err
    assert "[GRAPH_AUTOFUSION] Applied 2/2 fusions successfully\n" in err
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    assert cli.main(["fuse", model, "-o", str(tmp_path / "o"), "--no-verify", *APART]) == EXIT_OK
    out, err = capsys.readouterr()
    assert "[GRAPH_AUTOFUSION] Applied 2/2 fusions successfully\n" in out and "[GRAPH_AUTOFUSION]" not in err


def test_difference_gives_exit_code_1_and_a_report(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong_kernels(monkeypatch)
    data = run_json(
        capsys, "fuse", model, "-o", str(tmp_path / "o"), "--engine", "interpreter", "-q", code=EXIT_MISMATCH
    )
    assert data["ok"] is False
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["verification"]["ok"] is False
    assert "FAILED" in (tmp_path / "o" / "report.html").read_text()


def wrong_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ascendc level computes something else."""
    from gaf.runtime.kernel import Kernel

    original = Kernel.interpret

    def interpret(
        self: Kernel, arrays: Any, symbols: Any, level: str = "ascendc", wide: bool = False
    ) -> dict[str, np.ndarray]:
        results = original(self, arrays, symbols, level, wide)
        return {n: a + np.float32(0.125) if level == "ascendc" else a for n, a in results.items()}

    monkeypatch.setattr(Kernel, "interpret", interpret)


# -- run, verify, explain, doctor, check ---------------------------------------------------------------


def test_run_uses_the_kernels_of_the_folder(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = np.load(fused / "verify" / "inputs.npz")
    np.savez(tmp_path / "in.npz", x=inputs["x"])
    data = run_json(
        capsys,
        "run",
        str(fused),
        "--inputs",
        str(tmp_path / "in.npz"),
        "-o",
        str(tmp_path / "r.npz"),
        "--engine",
        "interpreter",
    )
    assert data["engine"] == "interpreter" and data["violations"] == []
    assert data["outputs"][0]["shape"] == [len(inputs["x"]), WIDTH]
    got, stored = np.load(tmp_path / "r.npz")["y"], np.load(fused / "verify" / "outputs.npz")["y"]
    assert got.tobytes() == stored.tobytes()


def test_reloaded_kernels_are_those_that_were_written(model: str, fused: Path) -> None:
    from gaf.compiler import fuse
    from gaf.frontend.load import load_model

    again, fresh = bundle.read_bundle(fused), fuse(load_model(model))
    assert [k.name for k in again.kernels] == [k.name for k in fresh.kernels]
    for a, b in zip(again.kernels, fresh.kernels):
        assert (a.source, a.kind, a.members, a.arg_names) == (b.source, b.kind, b.members, b.arg_names)
        assert a.host.evaluate({"B": 9}) == b.host.evaluate({"B": 9})


def test_run_takes_edited_sources(fused: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(fused, tmp_path / "copy")
    path = next((tmp_path / "copy" / "kernels").glob("matmul*.cpp"))
    path.write_text("// edited\n" + path.read_text())
    again = bundle.read_bundle(tmp_path / "copy")
    assert next(k for k in again.kernels if k.name == path.stem).source.startswith("// edited")


def test_run_converts_numpy_defaults(fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((2, WIDTH)))  # float64
    data = run_json(
        capsys, "run", str(fused), "--inputs", str(tmp_path / "in.npz"), "--engine", "interpreter"
    )
    assert data["outputs"][0]["dtype"] == "float32"


def test_verify(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "verify", model, "--engine", "interpreter", "-q")
    assert data["ok"] and data["engine"] == "interpreter"
    assert data["launches"] and data["outputs"]


def test_bisect_names_the_first_wrong_level(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_compiler_cache: None
) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    data = run_json(capsys, "verify", model, "--bisect", "-q")
    assert data["ok"] and data["first_wrong"] is None
    names = [level["level"] for level in data["levels"]]
    assert names[:2] == ["imported model", "after canonicalize"]
    assert names[-5:] == [
        "fused graph",
        "tile kernels",
        "ascendc kernels",
        "C++ on the host twin",
        "C++ in check mode",
    ]
    assert "no C++ compiler" in data["levels"][-1]["skipped"]
    wrong_kernels(monkeypatch)
    data = run_json(capsys, "verify", model, "--bisect", "-q", code=EXIT_MISMATCH)
    assert data["first_wrong"]["level"] == "ascendc kernels"
    assert "lower-tile" in data["first_wrong"]["made_by"]
    assert any("project" in fault for fault in data["first_wrong"]["faults"])


def test_bisect_names_a_wrong_pass(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gaf.dialects.graph.ops.unary import ReluOp, SigmoidOp
    from gaf.passes.graph.cse import CsePass

    def apply(self: object, ctx: object, op: Any) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, ReluOp):
                other = SigmoidOp.make([inner.operands[0]])
                inner.parent.insert_op_before(other, inner)
                inner.results[0].replace_all_uses_with(other.results[0])
                inner.detach()
                inner.erase()

    monkeypatch.setattr(CsePass, "apply", apply)
    data = run_json(capsys, "verify", model, "--bisect", "-q", code=EXIT_MISMATCH)
    assert data["first_wrong"]["made_by"] == "pass cse"
    assert data["levels"][-1]["skipped"] == "an earlier pass is wrong"


def test_explain(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", model, "-q", *APART]) == EXIT_OK
    text = capsys.readouterr().out
    assert "MatMul+Add+Relu" in text and "not fused:" in text and "because " in text
    apart = text[text.index("not fused:") :]
    assert re.search(r"apart: 2 kernels, [\d.]+ [KM]iB, [\d.]+ µs, build [\d.]+ s; (together|there is no such kernel)", apart)
    data = run_json(capsys, "explain", model, "--op", "project", "-q", *APART)
    assert [s["members"] for s in data["steps"]] == [["project", "add_bias", "act"]]
    assert all("project" in f"{d['producer']} {d['consumer']}" for d in data["decisions"])
    assert {d["fused"] for d in data["decisions"]} == {True, False}
    part = run_json(capsys, "explain", model, "--op", "gate", "-q", *APART)
    assert [s["members"] for s in part["steps"]] == [["second", "gate_sigmoid", "gate_mul"]]


def test_explain_unknown_node(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    fails(
        capsys, ["explain", model, "--op", "gate_sigmid", "-q"], EXIT_INVALID, "'gate_sigmid'", "gate_sigmoid"
    )


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from gaf.tools.cli import doctor

    data = run_json(capsys, "doctor")
    rows = {f["name"]: f for f in data["findings"]}
    assert {"Python", "xdsl", "C++ compiler", "kernel cache", "Ascend NPU"} <= rows.keys()
    assert rows["xdsl"]["status"] == "PASS"
    monkeypatch.setitem(doctor.REQUIRED, "numpy", ">=99.0")
    data = run_json(capsys, "doctor", code=EXIT_MISMATCH)
    row = next(f for f in data["findings"] if f["name"] == "numpy")
    assert row["status"] == "FAIL" and row["advice"] == "pip install 'numpy>=99.0'"
    assert cli.main(["doctor"]) == EXIT_MISMATCH
    assert re.search(r"^FAIL  numpy +\S+ +>=99\.0", capsys.readouterr().out, re.MULTILINE)


def test_doctor_without_compiler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_compiler_cache: None
) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    row = next(f for f in run_json(capsys, "doctor")["findings"] if f["name"] == "C++ compiler")
    assert row["status"] == "WARN" and "there-is-no-such-compiler" in row["current"]


needs_compiler = pytest.mark.skipif(compiler.find_compiler() is None, reason="no C++ compiler")


def fake_toolkit(root: Path, operator: str = "") -> Path:
    """Headers of a toolkit in the layout of CANN 8, that hold `operator`."""
    for name, text in (("basic_api/kernel_operator.h", operator), ("tikicpulib/lib/include/stub_fun.h", "")):
        path = root / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return root


@needs_compiler
def test_check_reports_kernels_that_do_not_compile(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toolkit = fake_toolkit(tmp_path / "cann", "#error this toolkit has no such type\n")
    data = run_json(capsys, "check", str(fused), "--cann", str(toolkit), "-q", code=EXIT_COMPILER)
    assert data["ok"] is False
    assert all("this toolkit has no such type" in errors[0] for errors in data["kernels"].values())


@needs_compiler
def test_check_passes_the_defines_of_the_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operator = "#pragma once\n#if __CCE_AICORE__ != 220 || !defined(__DAV_C220__)\n#error wrong chip\n#endif\nstruct FromToolkit {};\n"
    toolkit = fake_toolkit(tmp_path / "cann", operator)
    kernels = tmp_path / "out" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "good.cpp").write_text('#include "kernel_operator.h"\nFromToolkit t;\n')
    (kernels / "bad.cpp").write_text('#include "kernel_operator.h"\nFromNowhere t;\n')
    data = run_json(capsys, "check", str(tmp_path / "out"), "--cann", str(toolkit), "-q", code=EXIT_COMPILER)
    assert data["kernels"]["good"] == []
    assert "FromNowhere" in data["kernels"]["bad"][0]


def test_check_needs_a_toolkit(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    fails(capsys, ["check", str(fused)], EXIT_INVALID, "--cann PATH")
    fails(capsys, ["check", str(fused), "--cann", str(tmp_path / "nowhere")], EXIT_INVALID, "no such folder")
    fails(capsys, ["check", str(fused), "--cann", str(tmp_path)], EXIT_INVALID, "stub_fun.h")
    fails(capsys, ["check", str(tmp_path), "--cann", str(tmp_path)], EXIT_INVALID, "there are no kernels")


# -- bad input ------------------------------------------------------------------------------------


def custom(op: str, domain: str = "") -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], name="strange", domain=domain)
    return proto([node], [value("x", [2, 3])], [value("y", [2, 3])], domains=[domain] if domain else [])


def external(folder: Path) -> onnx.ModelProto:
    """A model whose weight is in a file that isn't there."""
    model = small()
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="lost.bin")
    return model


def with_types(dtype: int) -> onnx.ModelProto:
    return proto(
        [helper.make_node("Neg", ["x"], ["y"], name="neg")],
        [value("x", [4], dtype)],
        [value("y", [4], dtype)],
    )


def misshapen() -> onnx.ModelProto:
    add = helper.make_node("Add", ["x", "x2"], ["y"], name="add_them")
    return proto([add], [value("x", [2, 3]), value("x2", [2, 4])], [value("y", [2, 3])])


MODELS: dict[str, tuple[Callable[[Path], bytes | onnx.ModelProto], int, tuple[str, ...]]] = {
    "not ONNX": (lambda f: b"this is a text, not a model\n" * 9, EXIT_INVALID, ("not an ONNX model",)),
    "empty": (lambda f: b"", EXIT_INVALID, ("the file is empty",)),
    "truncated": (lambda f: small().SerializeToString()[:-200], EXIT_INVALID, ("truncated",)),
    "zip": (lambda f: b"PK\x03\x04" + bytes(100), EXIT_INVALID, ("zip archive", "torch.onnx.export")),
    "unknown op": (lambda f: custom("Reluu"), EXIT_UNSUPPORTED, ("Reluu", "strange")),
    "unknown domain": (
        lambda f: custom("Gate", "com.example"),
        EXIT_UNSUPPORTED,
        ("com.example", "Gate", "strange"),
    ),
    "dtype": (lambda f: with_types(onnx.TensorProto.COMPLEX64), EXIT_UNSUPPORTED, ("complex64",)),
    "lost weights": (external, EXIT_INVALID, ("lost.bin", "'w'")),
    "shapes": (lambda f: misshapen(), EXIT_INVALID, ("add_them",)),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("command", ["fuse", "verify"])
def test_bad_models(kind: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, code, parts = MODELS[kind]
    made = make(tmp_path)
    path = tmp_path / "bad.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    output = ["-o", str(tmp_path / "out")] if command == "fuse" else []
    fails(capsys, [command, str(path), *output, "--engine", "interpreter"], code, "bad.onnx", *parts)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.onnx"]


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails(
        capsys,
        ["fuse", str(tmp_path / "no.onnx"), "-o", str(tmp_path / "out")],
        EXIT_INVALID,
        "no.onnx",
        "no such file",
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ("x", "NAME:DIM"),
        (f"z:1,{WIDTH}", "no input 'z'"),
        (f"x:1,2,{WIDTH}", "'x'"),
        (f"x:1,{WIDTH + 1}", "'x'"),
        (f"x:-3,{WIDTH}", "'x'"),
    ],
)
def test_bad_input_shape(
    model: str, shape: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails(capsys, ["fuse", model, "-o", str(tmp_path / "out"), "--input-shape", shape], EXIT_INVALID, part)
    assert not list(tmp_path.iterdir())


def test_output_that_can_not_be_written(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("a file")
    fails(
        capsys,
        ["fuse", model, "-o", str(tmp_path / "file" / "out")],
        EXIT_INVALID,
        "can't write: a parent of it is a file",
    )
    fails(capsys, ["fuse", model, "-o", str(tmp_path / "file")], EXIT_INVALID, "not a folder that gaf wrote")
    assert (tmp_path / "file").read_text() == "a file"


def test_a_folder_of_the_user_is_never_replaced(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    fails(capsys, ["fuse", model, "-o", str(tmp_path / "mine")], EXIT_INVALID, "not a folder that gaf wrote")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def fake_compiler(folder: Path, script: str) -> str:
    path = folder / "fake-cxx"
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "fake 1.0"; exit 0; fi\n{script}\n')
    path.chmod(0o755)
    return str(path)


def test_compiler_that_fails(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_compiler_cache: None,
) -> None:
    from gaf.runtime import twin

    monkeypatch.setenv("CXX", fake_compiler(tmp_path, 'echo "x.cpp:1: error: out of cheese" >&2; exit 1'))
    monkeypatch.setenv("GAF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(twin, "_runtime", None)
    fails(capsys, ["fuse", model, "-o", str(tmp_path / "out")], EXIT_COMPILER, "out of cheese")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "fake-cxx"]


def test_host_engine_without_compiler(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_compiler_cache: None,
) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    out = str(tmp_path / "out")
    fails(
        capsys,
        ["fuse", model, "-o", out, "--engine", "host"],
        EXIT_COMPILER,
        "there-is-no-such-compiler",
        "--engine=interpreter",
    )
    assert not list(tmp_path.iterdir())
    assert cli.main(["fuse", model, "-o", out]) == EXIT_OK
    said = [line for line in capsys.readouterr().err.splitlines() if "Python engine" in line]
    assert len(said) == 1
    assert (
        json.loads((tmp_path / "out" / "report.json").read_text())["verification"]["engine"] == "interpreter"
    )


def test_bad_npz(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = np.zeros((2, WIDTH), np.float32)

    def refuse(*parts: str) -> None:
        arguments = [
            "fuse",
            model,
            "-o",
            str(tmp_path / "out"),
            "--engine",
            "interpreter",
            "--inputs",
            str(tmp_path / "in.npz"),
        ]
        fails(capsys, arguments, EXIT_INVALID, "in.npz", *parts)
        assert not (tmp_path / "out").exists()

    refuse("no such file")
    (tmp_path / "in.npz").write_bytes(b"not a zip file at all")
    refuse("not an .npz file")
    np.savez(tmp_path / "in.npz", wrong=good)
    refuse("'wrong'")
    np.savez(tmp_path / "in.npz")
    refuse("'x' is missing")
    np.savez(tmp_path / "in.npz", x=good[:, :5])
    refuse("wrong size on axis 1", f"expected {WIDTH}, got 5")
    np.savez(tmp_path / "in.npz", x=good[0])
    refuse("wrong rank")
    np.savez(tmp_path / "in.npz", x=good.astype(np.int32))
    refuse("element type", "f32", "int32")
    np.savez(tmp_path / "in.npz", x=np.array([{"a": 1}], dtype=object))
    refuse("plain arrays")
    whole = tmp_path / "whole.npz"
    np.savez(whole, x=good)
    (tmp_path / "in.npz").write_bytes(whole.read_bytes()[:-30])
    refuse()
    with (tmp_path / "in.npz").open("wb") as stream:
        np.save(stream, good)
    refuse("one array, without a name")


def test_damaged_folder(fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(fused, copy)
    (copy / "ir" / "fused.mlir").write_text("builtin.module { graph.nonsense }")
    fails(capsys, ["run", str(copy)], EXIT_INVALID, "damaged", "fused.mlir", "gaf fuse")
    next((copy / "kernels").glob("*.cpp")).unlink()
    shutil.copy(fused / "ir" / "fused.mlir", copy / "ir" / "fused.mlir")
    fails(capsys, ["run", str(copy)], EXIT_INVALID, "can't be read", ".cpp")
    (copy / "ir" / "bundle.json").write_text('{"schema": 0}')
    fails(capsys, ["run", str(copy)], EXIT_INVALID, "another version")
    fails(capsys, ["run", str(tmp_path)], EXIT_INVALID, "not a folder that `gaf fuse` wrote")
    fails(capsys, ["run", str(tmp_path / "nowhere")], EXIT_INVALID, "no such folder")


def test_unknown_target_and_option(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, ["explain", model, "--target", "h100", "-q"], EXIT_UNSUPPORTED, "h100", "ascend910b3")
    for arguments in (
        ["explain"],
        ["explain", model, "--nonsense"],
        ["nonsense"],
        [],
        ["run", model, "--jobs", "0"],
    ):
        assert cli.main(arguments) == EXIT_INVALID
        out, err = capsys.readouterr()
        assert out == "" and "usage: gaf" in err


def test_bugs_give_exit_code_70(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("cogs are stuck\nsecond line")

    monkeypatch.setattr("gaf.compiler.fuse", broken)
    message = fails(
        capsys, ["explain", model, "-q"], EXIT_INTERNAL, "RuntimeError: cogs are stuck", "--debug"
    )
    assert "second line" not in message
    assert cli.main(["explain", model, "-q", "--debug"]) == EXIT_INTERNAL
    assert "Traceback" in capsys.readouterr().err


def test_errors_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "verify", str(tmp_path / "no.onnx"), code=EXIT_INVALID)
    assert data["error"]["exit_code"] == EXIT_INVALID
    assert data["error"]["where"].endswith("no.onnx")


def test_help_documents_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["fuse", "--help"]):
        assert cli.main(arguments) == EXIT_OK
        text = capsys.readouterr().out
        for code in (EXIT_OK, EXIT_MISMATCH, EXIT_INVALID, EXIT_UNSUPPORTED, EXIT_COMPILER, EXIT_INTERNAL):
            assert re.search(rf"^ +{code}  \w", text, re.MULTILINE)


def test_jobs_are_undone(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAF_JOBS", raising=False)
    assert cli.main(["verify", model, "--engine", "interpreter", "--jobs", "1", "-q"]) == EXIT_OK
    assert "GAF_JOBS" not in os.environ
