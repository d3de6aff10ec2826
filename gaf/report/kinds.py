# SPDX-License-Identifier: Apache-2.0
"""How often a model's fusions are of each of the five kinds that people ask for; a fusion can be of several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaf.dialects.graph.meaning import Meaning
from gaf.dialects.graph.ops.control import ops_of
from gaf.dialects.graph.ops.overlap import OverlapOp
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.fusion.macros import find_macros
from gaf.fusion.opgraph import OpGraph
from gaf.fusion.work import sizes
from gaf.passes.graph.lower_graph import structural_key
from gaf.passes.graph.overlap_collectives import KIND as OVERLAP
from gaf.report.names import computes, op_title

if TYPE_CHECKING:
    from gaf.compiler import FusedModel

ELEMENTWISE, MATMUL, NORMALISATION, CUSTOM = "elementwise", "matmul+elementwise", "normalisation", "custom"

KINDS = (ELEMENTWISE, MATMUL, NORMALISATION, OVERLAP, CUSTOM)

NORMS = ("LayerNorm", "RMSNorm", "Softmax", "LogSoftmax")
"""Macros that are normalisations, in any spelling; besides the ops whose names end in Norm."""


def count_kinds(fused: FusedModel) -> dict[str, int]:
    """Kind -> fusions: kernels of two computing ops or more, and collectives with kernels in parts beside
    them.

    A kernel counts as "elementwise" if two elementwise ops in it hand a value to each other, as
    "matmul+elementwise" if it has a matmul or convolution besides elementwise ops, as "normalisation" if it
    has a norm or softmax, one op or spelled out, and as "custom" if a rule of the user asked for it. A kernel
    in parts counts once.
    """
    known: dict[tuple, tuple[str, ...]] = {}
    found = dict.fromkeys(KINDS, 0)
    for op in ops_of(fused.model.block):
        if isinstance(op, OverlapOp):
            found[OVERLAP] += 1
        elif isinstance(op, FusedOp) and sum(map(computes, op.members)) > 1:
            key = structural_key(op)
            if key not in known:
                known[key] = _kinds_of(op)
            for kind in known[key]:
                found[kind] += 1
    found[CUSTOM] = sum(bool(c.rule) and c.fused for c in fused.candidates)
    return found


def _kinds_of(fused: FusedOp) -> tuple[str, ...]:
    """The kinds of one kernel, but for rules."""
    graph = OpGraph(fused.block)
    in_norm = {i for macro in find_macros(graph, sizes(None)) if macro.name in NORMS for i in macro.ops}
    in_norm |= {
        i
        for i, op in enumerate(graph.ops)
        if op in fused.members and op_title(op).endswith(("Norm", "Softmax"))
    }
    plain = {
        i
        for i, m in graph.meanings.items()
        if isinstance(m, Meaning) and m.is_elementwise and i not in in_norm
    }
    products = any(
        isinstance(m, Meaning) and any(s.reduced and s.monoid == "sum" and len(s.reads) > 1 for s in m.stages)
        for i, m in graph.meanings.items()
        if i not in in_norm
    )
    kinds = []
    if any(s in plain for i in plain for s in graph.sources(i)):
        kinds.append(ELEMENTWISE)
    if products and plain:
        kinds.append(MATMUL)
    if in_norm:
        kinds.append(NORMALISATION)
    return tuple(kinds)
