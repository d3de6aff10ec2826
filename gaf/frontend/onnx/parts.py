# SPDX-License-Identifier: Apache-2.0
"""Writes `graph.overlap` as ONNX nodes: every part one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, SSAValue

from gaf.dialects.graph.ops.overlap import WHOLE, OverlapOp
from gaf.frontend.onnx.scope import Scope

WriteBlock = Callable[[Scope, Block, dict[SSAValue, str]], None]
"""Writes the ops of a block; results in the dict get the names given there."""


def write_overlap(scope: Scope, op: OverlapOp, wanted: dict[SSAValue, str], write_block: WriteBlock) -> None:
    """The parts in order, cut by Split and joined by Concat: ONNX has no words for what happens at the same
    time.
    """
    attrs, (produce, transfer, consume) = op.attrs(), op.bodies
    count = attrs["parts"]
    extra = {"num_outputs": count} if scope.opset >= 18 else {}

    def cut(name: str, axis: int) -> list[str]:
        parts = [scope.unique("part") for _ in range(count)]
        return list(scope.node("Split", [name], parts, "", {"axis": axis, **extra}, ""))

    def run(body: Block, arguments: Sequence[str]) -> list[str]:
        for arg, name in zip(body.args, arguments, strict=True):
            scope.define(arg, name)
        write_block(scope, body, {})
        assert body.last_op is not None
        return [scope.names[v] for v in body.last_op.operands]

    operands = [scope.names[o] for o in op.operands]
    pieces = [[n] * count if a == WHOLE else cut(n, a) for n, a in zip(operands, attrs["axes"])]
    made: list[list[str]] = []
    for i in range(count):
        mine = [p[i] for p in pieces]
        sent, *kept = run(produce, mine)
        made.append(run(consume, [*run(transfer, [sent]), *kept, *mine]))
    for result, axis, parts in zip(op.results, attrs["result_axes"], zip(*made)):
        name = wanted.get(result) or scope.unique(result.name_hint or "joined")
        scope.node("Concat", list(parts), [name], "", {"axis": axis}, op.location_name() or "")
        scope.define(result, name)
