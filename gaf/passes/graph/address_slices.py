# SPDX-License-Identifier: Apache-2.0
"""`address-slices`: many parts of one input, each in one piece in memory, are handed to kernels by their addresses.

A slice is an index map in the kernel that reads it, so kernels of two time steps that read row 3 and row 4 of an input
differ by a number. Where many such slices exist they stay outside: the steps then share one kernel (and one plan), and
an address costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from gaf.dialects.common.index import const, exact_div
from gaf.dialects.graph.ops.slice import SliceOp
from gaf.passes.graph.fuse import HOST_REASON
from gaf.passes.registry import option, register_pass

ALIGNMENT = 32
"""Bytes: what a tensor's address is a multiple of, and the vector cores copy at a time."""

REASON = "a part of an input in one piece: kernels get its address"


@register_pass
@dataclass(frozen=True)
class AddressSlicesPass(ModulePass):
    """Keep slices of one size of an input out of kernels if there are many of them."""

    name = "address-slices"

    many: int = option(8, "fewest slices of one size of an input that stay outside")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if not isinstance(func, FuncOp):
                continue
            for argument in func.body.block.args:
                self.mark(argument)

    def mark(self, argument: SSAValue) -> None:
        groups: dict[object, list[SliceOp]] = defaultdict(list)
        for use in argument.uses:
            if isinstance(use.operation, SliceOp) and is_one_piece(use.operation):
                groups[use.operation.result.type].append(use.operation)
        for slices in groups.values():
            if len(slices) >= self.many:
                for each in slices:
                    each.attributes[HOST_REASON] = StringAttr(REASON)


def is_one_piece(op: SliceOp) -> bool:
    """Whether a slice is contiguous and begins and ends at an aligned address, as a tensor of its own would.

    Single elements of the dims in front of the last one that it cuts, whole dims behind.
    """
    (source,), attrs = op.operand_tensor_types(), op.attrs()
    sizes = list(attrs["sizes"])
    cut = [i for i, (size, whole) in enumerate(zip(sizes, source.shape)) if size != whole]
    if not cut or any(size != 1 for size in sizes[: cut[-1]]) or any(step != 1 for step in attrs["steps"]):
        return False
    start, length = const(0), const(1)
    for at, size, whole in zip(attrs["starts"], sizes, source.shape):
        start, length = start * whole + at, length * size
    aligned = [exact_div(e * source.dtype.bytes, const(ALIGNMENT)) for e in (start, length)]
    return all(at.as_int() is not None for at in attrs["starts"]) and None not in aligned
