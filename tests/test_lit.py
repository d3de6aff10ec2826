# SPDX-License-Identifier: Apache-2.0
"""The runner of `.mlir` tests must fail when a test is wrong: no checks, an unmet CHECK, a crash."""

from pathlib import Path

import pytest

from tests import lit

PROGRAM = "func.func @f() {\n  func.return\n}\n"


def run(tmp_path: Path, text: str) -> None:
    """Runs every RUN line of a test file that holds `text`."""
    path = tmp_path / "case.mlir"
    path.write_text(text)
    lines = [lit.parse_run_line(line, path, tmp_path / "scratch") for line in lit.run_lines(text)]
    if problem := lit.missing_checks(text, lines):
        raise lit.LitFailure(problem)
    for commands in lines:
        lit.execute(commands)


@pytest.mark.parametrize("name", ["%roundtrip", "%verify", "gaf-opt %s | filecheck %s"])
def test_met_checks_pass(tmp_path: Path, name: str) -> None:
    run(tmp_path, f"// RUN: {name}\n{PROGRAM}// CHECK: func.func @f\n")


def test_generic_form_has_its_own_prefix(tmp_path: Path) -> None:
    run(tmp_path, f'// RUN: %generic\n{PROGRAM}// GENERIC: "func.return"() : () -> ()\n')


def test_unmet_check_shows_the_checked_text(tmp_path: Path) -> None:
    with pytest.raises(lit.LitFailure) as failure:
        run(tmp_path, f"// RUN: %roundtrip\n{PROGRAM}// CHECK: func.func @g\n")
    assert 'Couldn\'t match "func.func @g"' in str(failure.value)
    assert "func.func @f()" in str(failure.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{PROGRAM}// CHECK: func", "no `// RUN:` line"),
        (f"// RUN: %roundtrip\n{PROGRAM}", "no line `// CHECK: ...`"),
        (f"// RUN: gaf-opt %s\n{PROGRAM}// CHECK: func", "must end in `| filecheck %s`"),
        (f"// RUN: %roundtrip\n{PROGRAM}// CHECK: func\n// CHECK-NXT: return", "looks for `// CHECK-NXT:`"),
        (f"// RUN: %roundtrip\n{PROGRAM}// CHECK: func\n// GENERIC: func", "looks for `// GENERIC:`"),
        (f"// RUN: %roundtrip\n{PROGRAM}// CHECK-LABEL: @[[F:.*]](", "a LABEL line can't capture"),
        (f"// RUN: gaf-opt %s | filecheck %s --check-prefix=A\n{PROGRAM}// B: func", "no line `// A: ...`"),
    ],
)
def test_a_file_that_checks_nothing_fails(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(lit.LitFailure, match=problem.replace("|", r"\|").replace(".", r"\.")):
        run(tmp_path, text)


def test_failing_command_shows_its_message(tmp_path: Path) -> None:
    with pytest.raises(lit.LitFailure) as failure:
        run(tmp_path, "// RUN: gaf-opt %s | filecheck %s\nfunc.func @f(\n// CHECK: f")
    assert "exit code 2, expected 0" in str(failure.value)
    assert "case.mlir:3" in str(failure.value)


def test_not_wants_a_failure(tmp_path: Path) -> None:
    run(tmp_path, "// RUN: not gaf-opt %s 2>&1 | filecheck %s\nfunc.retrun\n// CHECK: there is no operation")
    with pytest.raises(lit.LitFailure, match="exit code 0, expected a failure"):
        run(tmp_path, f"// RUN: not gaf-opt %s | filecheck %s\n{PROGRAM}// CHECK: f")


def test_not_does_not_excuse_a_crash(tmp_path: Path) -> None:
    crash = tmp_path / "crash.py"
    crash.write_text(
        "from dataclasses import dataclass\n"
        "from xdsl.passes import ModulePass\n"
        "from gaf.passes.registry import register_pass\n"
        "@register_pass\n"
        "@dataclass(frozen=True)\n"
        "class Crash(ModulePass):\n"
        "    name = 'crash'\n"
        "    def apply(self, ctx, op):\n"
        "        raise KeyError('x')\n"
    )
    run_line = f"// RUN: not gaf-opt %s --load {crash} -p crash 2>&1 | filecheck %s"
    text = f"{run_line}\n{PROGRAM}// CHECK: internal error"
    with pytest.raises(lit.LitFailure, match="exit code 70"):
        run(tmp_path, text)


def test_continued_and_quoted_run_lines(tmp_path: Path) -> None:
    text = "// RUN: gaf-opt %s -p 'a{b=1 c=\"|\"},d' \\\n// RUN:   | filecheck %s\n"
    path = tmp_path / "case.mlir"
    (line,) = lit.run_lines(text)
    first, second = lit.parse_run_line(line, path, tmp_path)
    assert first.words == ["gaf-opt", str(path), "-p", 'a{b=1 c="|"},d']
    assert second.words == ["filecheck", str(path)]


def test_unknown_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(lit.LitFailure, match="got 'cat'"):
        run(tmp_path, f"// RUN: cat %s | filecheck %s\n{PROGRAM}// CHECK: f")
