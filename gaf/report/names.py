# SPDX-License-Identifier: Apache-2.0
"""What people call ops and groups of ops."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.meaning import View
from gaf.dialects.graph.ops.control import ControlOp
from gaf.dialects.graph.ops.random import RunSaltOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.fusion.region import reads_in


def op_title(op: Operation) -> str:
    """What people call an op: `MatMul`, `LayerNorm`, `Gelu`."""
    names = getattr(type(op), "ONNX", ())
    if not names:
        if isinstance(custom := getattr(op, "user_name", None), str):
            return custom
        return "".join(p.capitalize() for p in op.name.removeprefix("graph.").split("_"))
    return names[0].rpartition(".")[2].replace("Normalization", "Norm")


def pattern_of(ops: Sequence[Operation]) -> str:
    """`MatMul+Add+Relu`: the computing ops of a group in order; casts are named only if there is nothing else."""
    titles = [op_title(op) for op in ops if computes(op)]
    shown = [t for t in titles if t not in ("Cast", "CastLike")] or titles or [op_title(op) for op in ops[:1]]
    return "+".join(shown)


def member_names(ops: Sequence[Operation]) -> list[str]:
    """Model nodes of a group, each once, in order; constants are left out."""
    found = [location_name(op) or op.name for op in ops if not isinstance(op, ConstantOp | WeightOp)]
    return list(dict.fromkeys(found))


def computes(op: Operation) -> bool:
    """Work of its own: no constant or control flow, and no view but one that reads through indices."""
    if not isinstance(op, GraphOp) or isinstance(op, ConstantOp | WeightOp | RunSaltOp | ControlOp):
        return False
    return not op.IS_VIEW or _gathers(op)


def _gathers(op: GraphOp) -> bool:
    meaning = op.meaning()
    return isinstance(meaning, View) and any(reads_in(e) for p in meaning.pieces for e in p.index)


def num_computing(ops: Sequence[Operation]) -> int:
    """How many ops of a group do work of their own."""
    return sum(computes(op) for op in ops)
