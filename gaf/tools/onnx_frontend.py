# SPDX-License-Identifier: Apache-2.0
"""Lets `gaf-opt` open ONNX models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.frontend import Frontend

from gaf.errors import InvalidInputError


@dataclass(frozen=True)
class OnnxFrontend(Frontend):
    """The `onnx` frontend of `gaf-opt`: the graph level of a model; its weights stay with the module."""

    name = "onnx"

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        from gaf.frontend.onnx.importer import load_onnx

        if getattr(input, "name", None) != input_name:
            raise InvalidInputError(
                "ONNX models are read from a file, not from a pipe or a part of a file",
                where=input_name,
                hint="weights may lie in files beside the model: give its path",
            )
        return load_onnx(input_name).module
