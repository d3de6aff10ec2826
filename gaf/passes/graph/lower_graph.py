# SPDX-License-Identifier: Apache-2.0
"""`lower-graph`: give every `graph.fused` its tile kernels; equal regions share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.errors import UnsupportedError
from gaf.fusion.bounds import Bounds
from gaf.fusion.region import SEVERAL_PASSES, NotFusible, Region
from gaf.fusion.schedule import Schedule
from gaf.fusion.side_by_side import kernel_of
from gaf.fusion.work import Sizes, Work, region_work
from gaf.passes.registry import option, register_pass
from gaf.passes.tile.lower_region import lower_region

KERNELS, ARGS = "kernels", "kernel_args"


@register_pass
@dataclass(frozen=True)
class LowerGraphPass(ModulePass):
    """Emit a tile kernel for every schedule variant of every distinct fused region."""

    name = "lower-graph"
    LOWERS_TO: ClassVar[str] = "tile"

    strict: bool = option(False, "round fp16 and bf16 after every op, as the unfused model does")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for fused, reason in lower_module(op, strict=self.strict).items():
            raise UnsupportedError(f"graph.fused @{fused.label.data} is not one kernel: {reason}")


@dataclass
class KnownKernels:
    """Regions that have their kernels already: structural key -> attributes of the fused op; and names in use."""

    by_key: dict[tuple, tuple[ArrayAttr, DenseArrayBase]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


def lower_module(module: ModuleOp, *, strict: bool = False, known: KnownKernels | None = None) -> dict[FusedOp, str]:
    """Append the tile kernels of all fused ops to the module, except those that are `known`.

    Returns the fused ops that aren't one kernel, each with the reason.

    Each fused op gets the attributes `kernels` (variants, the first whose guard holds is launched) and
    `kernel_args` (the operands that the kernel takes, in order).
    """
    known = known or KnownKernels()
    refused: dict[FusedOp, str] = {}
    for fused in [op for op in module.walk() if isinstance(op, FusedOp)]:
        key = structural_key(fused)
        if key not in known.by_key:
            try:
                region, schedules = fused_kernel(fused, strict)
            except NotFusible as error:
                refused[fused] = str(error)
                continue
            name = _unique(fused.label.data, known.names)
            names, args = _lower(module, fused, region, schedules, name)
            known.by_key[key] = (
                ArrayAttr([StringAttr(n) for n in names]),
                DenseArrayBase.from_list(i64, args),
            )
        fused.attributes[KERNELS], fused.attributes[ARGS] = known.by_key[key]
    return refused


def fused_kernel(fused: FusedOp, strict: bool = False) -> tuple[Region, list[Schedule]]:
    """The region of a fused op's body and its schedules, best first. Raises NotFusible if it isn't one kernel."""
    return kernel_of(fused.members, fused.yielded, strict, fused.in_stages)


def fused_work(fused: FusedOp, strict: bool, env: Sizes) -> Work:
    """What the first kernel of a fused op asks of the chip at given sizes."""
    region, schedules = fused_kernel(fused, strict)
    return region_work(region, schedules[0], env)


def _lower(
    module: ModuleOp, fused: FusedOp, region: Region, schedules: Sequence[Schedule], name: str
) -> tuple[list[str], list[int]]:
    members = [location_name(op) or op.name for op in fused.members if op.name != "graph.constant"]
    names: list[str] = []
    for i, schedule in enumerate(schedules):
        variant = name if i == 0 else f"{name}_streamed"
        module.body.block.add_op(
            lower_region(region, schedule, variant, [r.name_hint for r in fused.results], members)
        )
        names.append(variant)
    arguments: list[object] = list(fused.block.args)
    return names, [arguments.index(v) for v in region.inputs]


def structural_key(fused: FusedOp) -> tuple:
    """Equal for fused ops that compute the same function on the same types; names and places don't count."""
    numbers: dict[SSAValue, int] = {a: i for i, a in enumerate(fused.block.args)}
    bounds = Bounds()  # whether int64 values fit 32 bits decides how they are computed
    several = any(SEVERAL_PASSES in op.attributes for op in fused.block.ops)
    parts: list[object] = [fused.in_stages, several, tuple((a.type, bounds.of(a)) for a in fused.block.args)]
    for op in fused.block.ops:
        parts.append(_op_key(op, [numbers[o] for o in op.operands]))
        for r in op.results:
            numbers[r] = len(numbers)
    return tuple(parts)


def _op_key(op: Operation, operands: Sequence[int]) -> tuple:
    properties = tuple((k, op.properties[k]) for k in sorted(op.properties)) if isinstance(op, GraphOp) else ()
    return (op.name, properties, tuple(operands), tuple(r.type for r in op.results))


def _unique(stem: str, taken: set[str]) -> str:
    name, i = stem, 1
    while name in taken:
        i += 1
        name = f"{stem}_{i}"
    taken |= {name, f"{name}_streamed"}
    return name
