# SPDX-License-Identifier: Apache-2.0
"""Chains: runs of fused ops in a model that one super-kernel launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from gaf.codegen.super_kernel import Member, SuperKernel, outputs_last, refusal, scalar_reads
from gaf.dialects.graph.ops.shape import ReshapeOp, SqueezeOp, UnsqueezeOp
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, WeightOp
from gaf.runtime.executor import kernel_args, kernel_names
from gaf.runtime.kernel import Kernel
from gaf.target import DEFAULT, Chip

MOST_MEMBERS = 8
"""Kernels of one launch: their code has to stay near the 32 KiB of a core's instruction cache."""

MOST_ARGUMENTS = 40
"""GM addresses of one launch."""

_ALIASES = (ReshapeOp, SqueezeOp, UnsqueezeOp)
"""Views that are the same bytes: no kernel runs for them."""


@dataclass
class Chain:
    """One launch of a super-kernel in a model: its fused ops in order, and the value of each argument."""

    kernel: SuperKernel
    ops: list[FusedOp]
    values: list[SSAValue]

    @property
    def span(self) -> list[Operation]:
        """Everything in the model from the first op to the last: views and constants stand between them."""
        ops: list[Operation] = [self.ops[0]]
        while ops[-1] is not self.ops[-1]:
            following = ops[-1].next_op
            assert following is not None
            ops.append(following)
        return ops


@dataclass
class _Open:
    """A chain that is being collected."""

    ops: list[FusedOp] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    places: dict[SSAValue, int] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)


def find_chains(block: Block, kernels: Mapping[str, Kernel], target: Chip = DEFAULT) -> list[Chain]:
    """The chains of a model: kernels that follow one another, with nothing on the host between them.

    A chain holds every kernel once, so that the layers of a model share one super-kernel. Only the first
    variant of a kernel is chained; sizes that need another one run kernel by kernel.
    """
    found: list[Chain] = []
    known: dict[tuple[tuple[str, tuple[int, ...]], ...], SuperKernel] = {}
    roots: dict[SSAValue, SSAValue] = {}
    current = _Open()

    def close() -> None:
        nonlocal current
        if len(current.ops) > 1:
            members, order = outputs_last(current.members)
            key = tuple((m.kernel.sym_name.data, m.args) for m in members)
            if key not in known:
                known[key] = SuperKernel(_free_name(kernels, len(known)), members, target)
            values = list(current.places)
            found.append(Chain(known[key], current.ops, [values[i] for i in order]))
        current = _Open()

    for op in block.ops:
        if isinstance(op, ConstantOp | WeightOp):
            continue
        if isinstance(op, _ALIASES):
            roots[op.results[0]] = roots.get(op.operands[0], op.operands[0])
            continue
        if not isinstance(op, FusedOp):
            close()
            continue
        kernel = next((kernels[n].ascendc for n in kernel_names(op) if n in kernels), None)
        if kernel is None or refusal(kernel) is not None:
            close()
            continue
        if not _extend(current, op, kernel.sym_name.data, kernels, roots):
            close()
            if not _extend(current, op, kernel.sym_name.data, kernels, roots):
                close()
    close()
    return found


def _free_name(kernels: Mapping[str, Kernel], number: int) -> str:
    name = f"super_{number}"
    while name in kernels:
        name += "_"
    return name


def _extend(
    chain: _Open, op: FusedOp, name: str, kernels: Mapping[str, Kernel], roots: Mapping[SSAValue, SSAValue]
) -> bool:
    """Add an op to a chain if that is possible."""
    kernel = kernels[name].ascendc
    if len(chain.ops) == MOST_MEMBERS or any(m.kernel is kernel for m in chain.members):
        return False
    values: Sequence[SSAValue] = [*(op.operands[i] for i in kernel_args(op)), *op.results]
    values = [roots.get(v, v) for v in values]
    places = dict(chain.places)
    for value in values:
        places.setdefault(value, len(places))
    if len(places) > MOST_ARGUMENTS:
        return False
    member = Member(kernel, tuple(places[v] for v in values), kernels[name].host)
    if any(member.args[i] in chain.written for i in scalar_reads(kernel)):
        return False
    chain.ops.append(op)
    chain.members.append(member)
    chain.places = places
    chain.written |= member.arguments("out")
    return True
