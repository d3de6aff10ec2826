# SPDX-License-Identifier: Apache-2.0
"""Pass `limit-tiles`: bounds tiling parameters from above, as `gaf tune` found best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.dialects.common.index import minimum
from gaf.dialects.tile.attributes import BindingsAttr
from gaf.dialects.tile.structure import KernelOp
from gaf.errors import InvalidInputError
from gaf.passes.registry import option, register_pass


@register_pass
@dataclass(frozen=True)
class LimitTilesPass(ModulePass):
    """Bound tiling parameters of tile kernels from above; a smaller tile fits wherever a larger one does."""

    name = "limit-tiles"

    limits: tuple[str, ...] = option((), 'bounds, each as "kernel.parameter=value"')

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limits: dict[str, dict[str, int]] = {}
        for text in self.limits:
            place, _, value = text.partition("=")
            kernel, _, param = place.rpartition(".")
            if not kernel or not param or not value.isdecimal():
                raise InvalidInputError(
                    "this is no bound of a tile", expected='"kernel.parameter=value"', got=f'"{text}"'
                )
            limits.setdefault(kernel, {})[param] = int(value)
        for kernel_op in op.walk():
            if isinstance(kernel_op, KernelOp) and kernel_op.sym_name.data in limits:
                limit_tiles(kernel_op, limits[kernel_op.sym_name.data])


def limit_tiles(kernel: KernelOp, limits: Mapping[str, int]) -> None:
    """Replace parameters by the smaller of their value and a bound.

    `kernel` has its parameters bound. Raises InvalidInputError for a parameter that it hasn't, or a bound < 1.
    """
    params = dict(kernel.params)
    for name, bound in limits.items():
        if name not in params:
            raise InvalidInputError(
                f"no tiling parameter of kernel '{kernel.sym_name.data}' is called '{name}'", expected=" or ".join(params)
            )
        if bound < 1:
            raise InvalidInputError(f"the bound of '{name}' leaves no tile", expected=">= 1", got=bound)
        params[name] = minimum(params[name], bound)
    kernel.properties["params"] = BindingsAttr.of(params)
