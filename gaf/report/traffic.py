# SPDX-License-Identifier: Apache-2.0
"""Bytes that ops move when each runs on its own, and the sizes at which they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.model import Model, bind_symbols
from gaf.dialects.graph.ops.control import ops_of
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion.region import NotFusible, build_region, region_bytes
from gaf.report.names import computes
from gaf.runtime.inputs import random_inputs

if TYPE_CHECKING:
    from gaf.compiler import FusedModel

UNKNOWN_SIZE = 5
"""Size taken for a symbol that no input has (a data-dependent dim)."""


def input_symbols(model: Model) -> list[str]:
    return sorted({s for t in model.input_types for s in t.symbols()})


def symbol_sizes(fused: FusedModel, given: Mapping[str, int] | None) -> dict[str, int]:
    """A size for every symbol of the model."""
    source = fused.source_model
    defaults = random_inputs(source)
    env = bind_symbols(source.input_names, source.input_types, [defaults[n] for n in source.input_names])
    env.update({k: int(v) for k, v in (given or {}).items()})
    for model in (source, fused.model):
        for op in model.module.walk():
            for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
                if isinstance(value.type, TensorType):
                    for symbol in value.type.symbols():
                        env.setdefault(symbol, UNKNOWN_SIZE)
    return env


class OpBytes:
    """Bytes of single ops, equal ones computed once."""

    def __init__(self, env: Mapping[str, int], strict: bool) -> None:
        self.env, self.strict = env, strict
        self.known: dict[tuple, int] = {}

    def model(self, model: Model) -> int:
        """What all ops move that depend on an input: any runtime computes the others once, when it loads the model."""
        total = 0
        constant: set[SSAValue] = set()
        for op in ops_of(model.block):
            if isinstance(op, ConstantOp | WeightOp) or (op.operands and constant.issuperset(op.operands)):
                constant.update(op.results)
            elif computes(op):
                total += self.op(op)
        return total

    def op(self, op: Operation) -> int:
        """Every operand once, for an indexed operand the rows that are read; and every result that is used."""
        types = tuple(tensor_type(v) for v in (*op.operands, *op.results))
        same = tuple(op.operands.index(o) for o in op.operands)  # x * x reads x once
        key = (op.name, tuple(op.properties.items()), types, same, tuple(bool(r.uses) for r in op.results))
        if key not in self.known:
            self.known[key] = self._op(op)
        return self.known[key]

    def _op(self, op: Operation) -> int:
        results = [r for r in op.results if r.uses]
        try:
            if results:
                return sum(region_bytes(build_region([op], results, self.strict), self.env))
        except (NotFusible, KeyError):
            pass
        operands = [o for o in dict.fromkeys(op.operands) if not isinstance(o.owner, ConstantOp)]
        return sum(tensor_type(v).num_bytes().evaluate(self.env) for v in (*operands, *results))
