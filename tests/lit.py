# SPDX-License-Identifier: Apache-2.0
"""Runs the RUN lines of `.mlir` files in this process: gaf-opt and filecheck without a shell."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

MACROS = {
    "%roundtrip": "gaf-opt %s --split-input-file {args} | gaf-opt --split-input-file | filecheck %s",
    "%generic": "gaf-opt %s --split-input-file --print-op-generic {args}"
    " | gaf-opt --split-input-file --print-op-generic | filecheck %s --check-prefix=GENERIC",
    "%verify": "gaf-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics {args}"
    " | filecheck %s",
}
"""Shorthands for a whole RUN line; what follows the name goes to the first gaf-opt."""

INTERNAL_ERROR = 70
ANSI = re.compile(r"\x1b\[[0-9;]*m")
RUN = re.compile(r"^\s*//\s*RUN:\s*(.*?)\s*$")
DIRECTIVE = re.compile(r"^\s*//\s*([A-Z][A-Z0-9_-]*):", re.MULTILINE)
SUFFIX = re.compile(r"-(NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+)$")
NO_CHECK = {"RUN", "COM", "TODO", "NOTE", "XFAIL"}


class LitFailure(Exception):
    """A RUN line that failed; the text is the whole report."""


@dataclass
class Command:
    """One command of a RUN line: its words, whether it must fail, whether stderr joins stdout."""

    words: list[str]
    must_fail: bool
    merge_stderr: bool


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str


def run_lines(text: str) -> list[str]:
    """The RUN lines of a file, with continuations (`\\` at the end) joined."""
    lines: list[str] = []
    continued = False
    for line in text.splitlines():
        match = RUN.match(line)
        if match is None:
            continue
        part = match[1]
        if continued:
            lines[-1] = f"{lines[-1]} {part.removesuffix(chr(92)).strip()}"
        else:
            lines.append(part.removesuffix("\\").strip())
        continued = part.endswith("\\")
    return lines


def parse_run_line(line: str, path: Path, scratch: Path) -> list[Command]:
    """The commands of a RUN line; replaces macros, `%s` (file), `%S` (folder) and `%t` (scratch path)."""
    name, _, args = line.partition(" ")
    if name in MACROS:
        line = MACROS[name].format(args=args)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[Command] = []
    words: list[str] = []
    for word in [*lexer, "|"]:
        if word == "|":
            if not words:
                raise LitFailure(f"empty command in RUN line: {line}")
            must_fail = words[0] == "not"
            merge = "2>&1" in words
            words = [w for w in words[must_fail:] if w != "2>&1"]
            commands.append(Command(words, must_fail, merge))
            words = []
            continue
        for key, value in (("%s", path), ("%S", path.parent), ("%t", scratch)):
            word = re.sub(rf"{key}\b", lambda _, value=value: str(value), word)
        words.append(word)
    return commands


def check_prefixes(commands: list[Command]) -> set[str]:
    """The CHECK prefixes that the filecheck commands of a RUN line look for."""
    prefixes: set[str] = set()
    for command in commands:
        if command.words[0] == "filecheck":
            found = re.findall(r"--check-prefix(?:es)?[= ](\S+)", " ".join(command.words))
            prefixes.update(*(names.split(",") for names in found) if found else [["CHECK"]])
    return prefixes


def missing_checks(text: str, lines: list[list[Command]]) -> str | None:
    """Why a file checks less than it seems to, or None: no RUN, no filecheck, unused or absent prefixes."""
    if not lines:
        return "the file has no `// RUN:` line, so it tests nothing"
    used: set[str] = set()
    for commands in lines:
        if commands[-1].words[0] != "filecheck":
            return "a RUN line must end in `| filecheck %s`, or it checks nothing"
        used |= check_prefixes(commands)
    written = {SUFFIX.sub("", name) for name in DIRECTIVE.findall(text)} - NO_CHECK
    if absent := used - written:
        return f"there is no line `// {sorted(absent)[0]}: ...`, so the RUN line checks nothing"
    if re.search(r"^\s*//\s*[A-Z_-]+-LABEL:.*\[\[\w+:", text, re.MULTILINE):
        return "a LABEL line can't capture: follow it by a SAME line with the [[X:...]]"
    if unused := written - used:
        return (
            f"no RUN line looks for `// {sorted(unused)[0]}:` lines (misspelled, or --check-prefix missing)"
        )
    return None


def execute(commands: list[Command]) -> None:
    """Runs a RUN line; raises `LitFailure` with commands, exit codes and outputs when it doesn't pass."""
    stdin = ""
    log: list[str] = []
    for command in commands:
        outcome = run_command(command.words, stdin)
        shown = shlex.join(command.words)
        log.append(f"$ {shown}")
        failed = outcome.code != 0
        if failed != command.must_fail or (command.must_fail and outcome.code == INTERNAL_ERROR):
            wanted = "a failure" if command.must_fail else "0"
            log.append(f"exit code {outcome.code}, expected {wanted}")
            if command.words[0] == "filecheck":
                log += [outcome.stderr or outcome.stdout, "--- the text that was checked:", stdin]
            else:
                log += [outcome.stderr, outcome.stdout]
            raise LitFailure("\n".join(part.rstrip("\n") for part in log))
        stdin = outcome.stdout + (outcome.stderr if command.merge_stderr else "")
        if outcome.stderr and not command.merge_stderr:
            log.append(outcome.stderr)


def run_command(words: list[str], stdin: str) -> Outcome:
    """One command in this process, with its own stdin, stdout and stderr."""
    stdout, stderr = io.StringIO(), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with redirect_stdout(stdout), redirect_stderr(stderr), mock.patch.object(sys, "stdin", source):
        try:
            code = _call(words, stdin)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Outcome(code, ANSI.sub("", stdout.getvalue()), ANSI.sub("", stderr.getvalue()))


def _call(words: list[str], stdin: str) -> int:
    match words[0]:
        case "gaf-opt":
            from gaf.tools.gaf_opt import main

            return main(words[1:])
        case "gaf":
            from gaf.tools.gaf import main

            return main(words[1:])
        case "filecheck":
            return _filecheck(words, stdin)
        case other:
            raise LitFailure(f"RUN lines know gaf-opt, gaf, filecheck and not; got '{other}'")


def _filecheck(words: list[str], stdin: str) -> int:
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    options = parse_argv_options(list(words))
    text = FInput.canonicalize_line_ends(stdin)
    return Matcher(options, FInput("<checked text>", text), Parser.from_opts(options)).run()


class LitFile(pytest.File):
    """A `.mlir` test file; every RUN line is a test."""

    def collect(self) -> Iterator[pytest.Item]:
        lines = run_lines(self.path.read_text(encoding="utf-8"))
        for number in range(1, max(1, len(lines)) + 1):
            yield LitItem.from_parent(self, name=f"run{number}", number=number)


class LitItem(pytest.Item):
    """One RUN line."""

    def __init__(self, *, number: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.number = number

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        scratch = self.config._tmp_path_factory.getbasetemp() / f"{self.path.stem}.{self.number}"  # type: ignore[attr-defined]
        lines = [parse_run_line(line, self.path, scratch) for line in run_lines(text)]
        if problem := missing_checks(text, lines):
            raise LitFailure(problem)
        execute(lines[self.number - 1])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        if isinstance(excinfo.value, LitFailure):
            return f"{self.path}\n{excinfo.value}"
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}::{self.name}"
