# SPDX-License-Identifier: Apache-2.0
"""Lets `gaf-opt` open programs of the `.gaf` language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.frontend import Frontend

from gaf.errors import InvalidInputError


@dataclass(frozen=True)
class GafFrontend(Frontend):
    """The `gaf` frontend of `gaf-opt`: the graph of one model of a file; `model` names it if there are several."""

    name = "gaf"

    model: str | None = None

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        from gaf.frontend.language import load_gaf, program_from_text

        if getattr(input, "name", None) == input_name:
            return load_gaf(input_name, self.model).module
        try:
            text = input.read().decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInputError(
                "this is not text in UTF-8", where=input_name, expected="a .gaf program"
            ) from None
        return program_from_text(text, input_name, Path()).model(self.model).module
