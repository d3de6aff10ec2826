# SPDX-License-Identifier: Apache-2.0
"""gaf-opt on bad input: one message, a documented exit code, no traceback, nothing half-written."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
from xdsl.ir import Attribute

from gaf.errors import EXIT_INTERNAL, EXIT_INVALID, EXIT_OK, EXIT_UNSUPPORTED
from gaf.tools import gaf_opt

PROGRAM = "func.func @f(%a: i32) -> i32 {\n  func.return %a : i32\n}\n"

USER_PASS = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException
from gaf.passes.registry import register_pass

@register_pass
@dataclass(frozen=True)
class UserPass(ModulePass):
    name = "user-pass"

    def apply(self, ctx, op):
        {body}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return str(path)


def user_pass(tmp_path: Path, body: str) -> str:
    path = tmp_path / "user_pass.py"
    path.write_text(USER_PASS.format(body=body))
    return str(path)


def fails(capsys: pytest.CaptureFixture[str], args: list[str], code: int, *parts: str) -> str:
    """Runs gaf-opt, which must fail with `code` and say all `parts`, in that order, and nothing on stdout."""
    assert gaf_opt.main(args) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gaf-opt: ")
    assert "Traceback" not in err and "builtin.module" not in err
    assert len(err.splitlines()) <= 6
    at = -1
    for part in parts:
        assert part in err
        assert err.index(part) > at
        at = err.index(part)
    return err


def test_prints_the_program(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaf_opt.main([program]) == EXIT_OK
    assert "func.func @f(%a: i32) -> i32" in capsys.readouterr().out


def test_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "absent.mlir")
    fails(capsys, [path], EXIT_INVALID, f"{path}: can't read the input: No such file")


def test_a_folder_is_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "d.mlir").mkdir()
    fails(capsys, [str(tmp_path / "d.mlir")], EXIT_INVALID, "can't read the input")


def test_unknown_extension(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text(PROGRAM)
    fails(capsys, [str(path)], EXIT_INVALID, "extension '.xyz'", "expected .mlir or .onnx", "--frontend=mlir")
    assert gaf_opt.main([str(path), "--frontend=mlir"]) == EXIT_OK


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"\xff\xfe\x00", ["this is not a text file", "byte 0xff at offset 0"]),
        (b" \n", ["the file is empty"]),
        (b"func.func @f(", ["bad.mlir:1:", "func.func @f("]),
        (
            b"func.func @f() {\n  func.retrun\n}",
            ["bad.mlir:2:3: there is no operation", "did you mean func.return"],
        ),
        (b"(" * 50_000, ["bad.mlir"]),
    ],
)
def test_bad_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, parts: list[str]
) -> None:
    path = tmp_path / "bad.mlir"
    path.write_bytes(content)
    fails(capsys, [str(path)], EXIT_INVALID, *parts)


def test_deep_nesting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "deep.mlir"
    path.write_text("builtin.module {" * 5000 + "}" * 5000)
    fails(capsys, [str(path)], EXIT_INVALID, "nested too deeply")


@pytest.mark.parametrize(
    ("pipeline", "parts"),
    [
        ("verify-levl", ["unknown pass 'verify-levl'", "did you mean 'verify-level'"]),
        ("verify-level{level=3}", ["wrong options for 'verify-level'", "expected level: str"]),
        ("verify-level{depth=3}", ["wrong options for 'verify-level'", '"depth"', "expected level: str"]),
        ("verify-level{", ["Expected argument name here"]),
        ("verify-level verify-level", ["Expected a comma"]),
        ("verify-level{level=cloud}", ["there is no level 'cloud'", "expected graph or tile or ascendc"]),
    ],
)
def test_bad_pipelines(
    program: str, capsys: pytest.CaptureFixture[str], pipeline: str, parts: list[str]
) -> None:
    assert gaf_opt.main([program, "-p", pipeline]) == EXIT_INVALID
    err = capsys.readouterr().err
    assert all(part in err for part in parts), err


def test_blanks_around_commas_are_fine(program: str) -> None:
    assert gaf_opt.main([program, "-p", ' verify-level{level="graph"} ,\n  verify-level ']) == EXIT_OK


def test_unknown_pass_in_print_after(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, [program, "--print-after=fooze"], EXIT_INVALID, "unknown pass 'fooze'")


def test_invalid_input_and_invalid_output_of_a_pass_differ(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mlir"
    bad.write_text(PROGRAM.replace("-> i32", "-> i64"))
    fails(capsys, [str(bad), "-p", "verify-level"], EXIT_INVALID, "bad.mlir:2:3: func.return: ")
    erase_return = "op.body.block.first_op.body.block.last_op.detach()"
    load = user_pass(tmp_path, erase_return)
    fails(
        capsys,
        [program, "--load", load, "-p", "user-pass"],
        EXIT_INTERNAL,
        "pass 'user-pass' left an invalid",
    )


@pytest.mark.parametrize(
    ("body", "code", "parts"),
    [
        (
            "raise KeyError('shape')",
            EXIT_INTERNAL,
            ["internal error in pass 'user-pass': KeyError: 'shape'", "--debug"],
        ),
        ("raise PassFailedException('no loop here')", EXIT_UNSUPPORTED, ["pass 'user-pass': no loop here"]),
    ],
)
def test_errors_in_passes(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, code: int, parts: list[str]
) -> None:
    fails(capsys, [program, "--load", user_pass(tmp_path, body), "-p", "user-pass"], code, *parts)


def test_debug_shows_the_traceback(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = user_pass(tmp_path, "raise KeyError('shape')")
    assert gaf_opt.main([program, "--load", load, "-p", "user-pass", "--debug"]) == EXIT_INTERNAL
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("x = 1\nraise ValueError('broken')\n", ["user.py:2", "ValueError: broken"]),
        ("def f(:\n", ["user.py:1", "SyntaxError"]),
        ("import no_such_module\n", ["user.py:1", "ModuleNotFoundError"]),
    ],
)
def test_bad_files_to_load(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, parts: list[str]
) -> None:
    path = tmp_path / "user.py"
    path.write_text(content)
    fails(capsys, [program, "--load", str(path)], EXIT_INVALID, *parts)
    fails(
        capsys,
        [program, "--load", str(tmp_path / "absent.py")],
        EXIT_INVALID,
        "absent.py: can't load this file",
    )


@pytest.fixture
def onnx_model(tmp_path: Path) -> Path:
    """relu(x + x) on float32[n, 4], with a named node."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    nodes = [
        onnx.helper.make_node("Add", ["x", "x"], ["t"], name="block/double"),
        onnx.helper.make_node("Relu", ["t"], ["y"], name="block/relu"),
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "m", [x], [y]), opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def test_opens_onnx(onnx_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaf_opt.main([str(onnx_model), "-p", "verify-level", "--print-debuginfo"]) == EXIT_OK
    out = capsys.readouterr().out
    assert "graph.add" in out and "graph.relu" in out and "!graph.tensor<[n, 4], f32>" in out
    assert "block/double" in out and "block/relu" in out


def test_bad_onnx(
    onnx_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(onnx_model.read_bytes())))
    fails(capsys, ["--frontend=onnx"], EXIT_INVALID, "stdin: ONNX models are read from a file")
    onnx_model.write_bytes(onnx_model.read_bytes()[:50])
    fails(capsys, [str(onnx_model)], EXIT_INVALID, "model.onnx", "not an ONNX model")


def test_target_without_kernels(onnx_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, [str(onnx_model), "--target=ascendc"], EXIT_INVALID, "there is no ascendc.kernel to print")


def test_unwritable_output(program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "absent" / "out.mlir")
    fails(capsys, [program, "-o", path], EXIT_INVALID, f"{path}: can't write the output: No such file")


def test_output_is_written_whole_or_not_at_all(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.mlir"
    out.write_text("old")
    load = user_pass(tmp_path, "raise KeyError('shape')")
    fails(capsys, [program, "--load", load, "-p", "user-pass", "-o", str(out)], EXIT_INTERNAL)
    assert out.read_text() == "old"
    assert gaf_opt.main([program, "-o", str(out)]) == EXIT_OK
    assert "func.func @f" in out.read_text()
    left = {p.name for p in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"out.mlir", "program.mlir", "user_pass.py"}


def test_flags_leave_no_trace_in_the_process(program: str) -> None:
    post_init = Attribute.__post_init__
    assert gaf_opt.main([program, "--disable-verify", "--syntax-highlight"]) == EXIT_OK
    assert Attribute.__post_init__ is post_init
    assert not gaf_opt.Diagnostic.colored


def test_usage_error_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        gaf_opt.main(["--no-such-flag"])
    assert stop.value.code == EXIT_INVALID
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_unknown_target(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        gaf_opt.main([program, "-t", "cuda"])
    assert stop.value.code == EXIT_INVALID
    assert "choose from mlir, ascendc" in capsys.readouterr().err


def test_explain_without_rules(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaf_opt.main([program, "--explain"]) == EXIT_OK
    assert capsys.readouterr().err == "no rewrite rule fired\n"
