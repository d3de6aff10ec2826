# SPDX-License-Identifier: Apache-2.0
"""Errors meant for users: what is wrong, where, what was expected and found, and what to do about it."""

from __future__ import annotations

EXIT_OK = 0
EXIT_MISMATCH = 1
EXIT_INVALID = 2
EXIT_UNSUPPORTED = 3
EXIT_COMPILER = 4
EXIT_INTERNAL = 70


class GafError(Exception):
    """Base of all errors that a user of gaf can act on.

    `what` says what is wrong in one sentence; `where` names the file, node or op; `expected` and `got`
    are the two sides of a failed check; `hint` says what to do. `exit_code` is the documented exit
    code of the command line tools.
    """

    exit_code = EXIT_INTERNAL

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.got is not None:
            text += f", got {self.got}" if self.expected is not None else f"; got {self.got}"
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


class InvalidInputError(GafError):
    """The input can't be read or is inconsistent, or an output can't be written."""

    exit_code = EXIT_INVALID


class UnsupportedError(GafError):
    """The input is valid, but holds an op, dtype or shape that gaf can't handle."""

    exit_code = EXIT_UNSUPPORTED


class CompileError(GafError):
    """The C++ compiler is missing or refused a generated kernel."""

    exit_code = EXIT_COMPILER


class VerificationError(GafError):
    """Two levels, or a kernel and its reference, disagree."""

    exit_code = EXIT_MISMATCH


class InternalError(GafError):
    """A bug in gaf itself."""

    exit_code = EXIT_INTERNAL


def first_line(error: BaseException) -> str:
    """What an exception says, on one line, without notes or module dumps."""
    text = str(error).strip().partition("\n")[0]
    return text or type(error).__name__
