# SPDX-License-Identifier: Apache-2.0
"""Rounds that overlap: the second matmul of a round, and what needs it, run one turn behind the first.

In one round the cube waits for the vector cores between its matmuls, and they wait for it. Behind by a turn, the cube
starts the next first product before it waits, and the vector cores work on it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from gaf.dialects.tile.memory import MoveOp
from gaf.dialects.tile.structure import ForOp
from gaf.passes.tile.handover import HandOver, top_op
from gaf.passes.tile.program import goes_to_cube, is_cube_op


def lags(ring: ForOp, handovers: Sequence[HandOver]) -> dict[Operation, int]:
    """By how many turns each op of a round is behind: one from its third stage on, hand-overs being the borders of
    stages. Empty if that would take more than two copies of collected tiles.
    """
    body = ring.body.block
    stage: dict[Operation, int] = {}
    for op in body.ops:
        read = [w for h in handovers if op in h.readers for w in h.writers]
        beside = [p for _, p in _operands(op, ring) if is_cube_op(p) == is_cube_op(op)]
        stage[op] = max([stage[w] + 1 for w in read] + [stage[p] for p in beside], default=0)
    found = {op: n // 2 for op, n in stage.items()}
    return found if max(found.values()) == 1 and _is_legal(ring, found) else {}


def _operands(op: Operation, ring: ForOp) -> Iterator[tuple[SSAValue, Operation]]:
    """Values that an op and those in it read from other ops of the round, with those."""
    for inner in op.walk():
        for value in inner.operands:
            owner = top_op(value.owner, ring.body.block)
            if owner is not None and owner is not op and not isinstance(owner, MoveOp):  # that is a hand-over
                yield value, owner


def _is_legal(ring: ForOp, found: Mapping[Operation, int]) -> bool:
    """States belong to one lag, and what passes from one to the other is collected in UB."""
    body, last = ring.body.block, ring.terminator
    for arg, value in zip(body.args, last.carried, strict=True):
        users = [top_op(u.operation, body) for u in arg.uses]
        owner = top_op(value.owner, body)
        if owner is None or any(u is None or found[u] != found[owner] for u in users if u is not last):
            return False
    for op in body.ops:
        for value, owner in _operands(op, ring):
            passes = is_cube_op(owner) == is_cube_op(op) and op is not last and found[owner] != found[op]
            if passes and not (isinstance(owner, ForOp) and value in owner.collected_results and not goes_to_cube(value)):
                return False
    return True


def copies(ring: ForOp, value: SSAValue, found: Mapping[Operation, int]) -> int:
    """Copies of a tile that an op of the round collects in UB: as many as turns pass until its last use, and one."""
    body = ring.body.block
    owner = top_op(value.owner, body)
    if owner is None or not found:
        return 1
    users = [top_op(u.operation, body) for u in value.uses]
    return 1 + max((found[u] - found[owner] for u in users if u is not None and u is not ring.terminator), default=0)
