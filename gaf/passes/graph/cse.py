# SPDX-License-Identifier: Apache-2.0
"""Pass `cse`: merges operations that compute the same value, and weights with the same content."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import Commutative

from gaf.dialects.graph.model import WeightStore, weights_of
from gaf.dialects.graph.ops.structure import WeightOp
from gaf.passes.graph.effects import is_pure
from gaf.passes.registry import register_pass

SAMPLES = 64
"""Elements of a weight that are compared before all of it is read."""

_commutative: dict[type[Operation], bool] = {}


@register_pass
@dataclass(frozen=True)
class CsePass(ModulePass):
    """Merge equal operations: same class, operands, properties and result types.

    The first of them stays. Operations with effects or regions are never merged; the blocks inside a
    region are cleaned up on their own. Constants are equal if dtype, shape and bits are; weights if they
    have one name, or equal bits.
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        aliases = equal_weights(weights_of(op))
        for region in op.regions:
            for block in region.blocks:
                merge_equal_ops(block, aliases)


def merge_equal_ops(block: Block, aliases: Mapping[str, str] | None = None) -> int:
    """Merges the equal operations of `block`, and of each block inside it; returns how many vanished.

    `aliases` maps the name of a weight to that of the one with equal content.
    """
    merged = 0
    seen: dict[Hashable, Operation] = {}
    for op in tuple(block.ops):
        if op.regions:
            merged += sum(merge_equal_ops(b, aliases) for region in op.regions for b in region.blocks)
            continue
        if not op.results or not is_pure(op):
            continue
        first = seen.setdefault(_key(op, aliases or {}), op)
        if first is not op:
            for old, new in zip(op.results, first.results):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()
            merged += 1
    return merged


def _key(op: Operation, aliases: Mapping[str, str]) -> Hashable:
    """Equal keys: the operations compute the same value."""
    cls, operands = type(op), tuple(op.operands)
    properties: Hashable = frozenset(op.properties.items())
    if isinstance(op, WeightOp):
        properties = aliases.get(op.weight.data, op.weight.data)
    elif len(operands) == 2 and _is_commutative(op):
        operands = tuple(sorted(operands, key=id))
    attributes = frozenset(op.attributes.items()) if op.attributes else None
    return cls, operands, properties, attributes, tuple(r.type for r in op.results)


def _is_commutative(op: Operation) -> bool:
    found = _commutative.get(type(op))
    if found is None:
        found = _commutative[type(op)] = op.has_trait(Commutative)
    return found


def equal_weights(store: WeightStore) -> dict[str, str]:
    """Maps each weight to the first one in the store with the same dtype, shape and bits, if that is another.

    Weights are first told apart by size and a few elements; only those that still look alike are read.
    """
    groups: dict[Hashable, list[str]] = {}
    for name in store:
        array = store[name]
        groups.setdefault((array.dtype.str, array.dtype.name, array.shape), []).append(name)
    aliases: dict[str, str] = {}
    for names in groups.values():
        if len(names) == 1:
            continue
        alike: dict[bytes, list[str]] = {}
        for name in names:
            candidates = alike.setdefault(_sample(store[name]), [])
            for other in candidates:
                if _same_bits(store[name], store[other]):
                    aliases[name] = other
                    break
            else:
                candidates.append(name)
    return aliases


def _sample(array: np.ndarray) -> bytes:
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // SAMPLES)].tobytes()


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    # compared as bytes: NaN equals itself, 0.0 differs from -0.0
    if a is b:
        return True
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(left, right))
