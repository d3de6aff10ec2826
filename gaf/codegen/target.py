# SPDX-License-Identifier: Apache-2.0
"""The `ascendc` target of gaf-opt: the C++ of every kernel in a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from gaf.codegen.host import HostTiling
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.errors import InvalidInputError


@dataclass(frozen=True)
class AscendCTarget(Target):
    """Print Ascend C C++; `host=true` prints the host tiling functions instead."""

    name = "ascendc"

    host: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
        if not kernels:
            raise InvalidInputError(
                "there is no ascendc.kernel to print", hint="lower the program to the ascendc dialect"
            )
        texts = [HostTiling(k).cpp(k) if self.host else print_kernel(k) for k in kernels]
        output.write("\n".join(texts))
