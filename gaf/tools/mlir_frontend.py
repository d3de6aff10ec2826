# SPDX-License-Identifier: Apache-2.0
"""Reads `.mlir` text so that every operation knows the line it came from."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from difflib import get_close_matches
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.frontend import Frontend
from xdsl.utils.lexer import Span

from gaf.errors import InvalidInputError


@dataclass(frozen=True)
class MlirFrontend(Frontend):
    """The `mlir` frontend of `gaf-opt`.

    Operations without a `loc(...)` of their own get the line and column of their first character.
    Raises `InvalidInputError` that shows the offending line.
    """

    name = "mlir"

    no_implicit_module: bool = False
    line_offset: int = 0

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        try:
            text = input.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                "this is not a text file",
                where=input_name,
                expected="MLIR text in UTF-8",
                got=f"byte 0x{error.object[error.start]:02x} at offset {error.start}",
                hint="use the extension .onnx for ONNX models",
            ) from None
        if not text.strip():
            raise InvalidInputError("the file is empty", where=input_name, expected="MLIR text")
        parser = _LocatingParser(ctx, text, input_name, self.line_offset)
        try:
            return parser.parse_module(not self.no_implicit_module)
        except ParseError as error:
            raise parser.user_error(error) from error
        except RecursionError:
            raise InvalidInputError("the text is nested too deeply", where=input_name) from None


class _LocatingParser(Parser):
    def __init__(self, ctx: Context, text: str, name: str, line_offset: int) -> None:
        super().__init__(ctx, text, name)
        self._text = text
        self._file = StringAttr(name)
        self._line_offset = line_offset
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1] + 1
            op.location = FileLineColLoc(self._file, IntAttr(line + self._line_offset), IntAttr(column))
        return op

    def user_error(self, error: ParseError) -> InvalidInputError:
        """The error with its line, at the place that a person would point at."""
        span, message, hint = error.span, error.msg.strip(), None
        if message.startswith("values used but not defined") and self.forward_ssa_references:
            # xDSL points at the end of the file; the first use is more helpful
            name = next(iter(self.forward_ssa_references))
            message = f"%{name} is used but not defined"
            if use := re.search(rf"%{re.escape(name)}(?![\w$.\-])", self._text):
                span = Span(use.start(), use.end(), span.input)
        elif unknown := re.fullmatch(r"Operation (\S+) is not registered", message):
            # xDSL points at the token after the name
            name = unknown[1]
            message = f"there is no operation '{name}'"
            hint = self._similar_ops(name)
            if (start := self._text.rfind(name, 0, span.start)) >= 0:
                span = Span(start, start + len(name), span.input)
        place = span.get_location()
        return InvalidInputError(
            f"{message}\n{_excerpt(span)}",
            where=f"{place.file}:{place.line + self._line_offset}:{place.col}",
            hint=hint,
        )

    def _similar_ops(self, name: str) -> str:
        dialect = name.partition(".")[0]
        dialects = sorted(self.ctx.registered_dialect_names)
        if dialect not in dialects:
            return f"there is no dialect '{dialect}' either; the dialects are {', '.join(dialects)}"
        close = get_close_matches(name, [op.name for op in self.ctx.loaded_ops], n=3)
        return f"did you mean {' or '.join(close)}?" if close else f"see the documentation of '{dialect}'"


def _excerpt(span: Span[str]) -> str:
    """The line of a span, with carets under it."""
    line_start = span.input.get_start_of_line(span.start)
    line = span.input.content[line_start : span.input.get_end_of_line(span.start)]
    column = span.start - line_start
    return f"  {line}\n  {' ' * column}{'^' * max(1, min(len(span), len(line) - column))}"
