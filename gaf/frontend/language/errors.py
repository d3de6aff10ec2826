# SPDX-License-Identifier: Apache-2.0
"""Errors in `.gaf` files: file, line and column, the line itself with carets, what was expected, near names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gaf.errors import GafError, InvalidInputError, UnsupportedError
from gaf.frontend.language.syntax import Span


class _Located(GafError):
    """An error with the line it is about: the message, that line with carets, who called it, then the hint."""

    excerpt: str = ""
    calls: tuple[str, ...] = ()  # the calls around it, innermost first

    def __str__(self) -> str:
        hint, self.hint = self.hint, None
        try:
            text = super().__str__()
        finally:
            self.hint = hint
        lines = [text, *([self.excerpt] if self.excerpt else []), *(f"  {c}" for c in self.calls)]
        return "\n".join([*lines, *([f"  hint: {hint}"] if hint else [])])


class LanguageError(_Located, InvalidInputError):
    """A `.gaf` file that can't be read, or that says something inconsistent."""


class LanguageUnsupportedError(_Located, UnsupportedError):
    """A `.gaf` file that is right but asks for something that gaf lacks."""


@dataclass(frozen=True)
class Source:
    """The text of a file and the name to show for it."""

    name: str
    text: str

    def location(self, span: Span) -> str:
        """`file:line:column`."""
        return f"{self.name}:{span.line}:{span.column}" if span.line else self.name

    def excerpt(self, span: Span) -> str:
        """The line of a span with carets under it; empty for a place that isn't known."""
        lines = self.text.splitlines()
        if not 0 < span.line <= len(lines):
            return ""
        line = lines[span.line - 1]
        start = span.column - 1
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        shown = line.expandtabs(4)
        before = len(line[:start].expandtabs(4))
        width = max(1, len(line[:end].expandtabs(4)) - before)
        return f"  {shown}\n  {' ' * before}{'^' * width}"

    def error(self, what: str, span: Span, **details: Any) -> LanguageError:
        """An error at a place; `details` as in GafError."""
        error = LanguageError(what, where=self.location(span), **details)
        error.excerpt = self.excerpt(span)
        return error

    def unsupported(self, what: str, span: Span, **details: Any) -> LanguageUnsupportedError:
        """The same for what is valid but not supported."""
        error = LanguageUnsupportedError(what, where=self.location(span), **details)
        error.excerpt = self.excerpt(span)
        return error

    def wrap(self, error: GafError, span: Span) -> GafError:
        """An error of an op or file, at the place in the text that it is about."""
        if isinstance(error, LanguageError | LanguageUnsupportedError):
            return error
        what = error.what if error.where is None else f"{error.where}: {error.what}"
        make = self.unsupported if isinstance(error, UnsupportedError) else self.error
        return make(
            what.removeprefix("graph."), span, expected=error.expected, got=error.got, hint=error.hint
        )


def near(name: str, known: Iterable[str]) -> str | None:
    """A hint with the known names that look like `name`, or None."""
    close = get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else None
