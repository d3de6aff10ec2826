# SPDX-License-Identifier: Apache-2.0
"""Inputs that a model accepts, for verifying it when the user gives none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import View
from gaf.dialects.graph.model import Model, check_conditions, conditions
from gaf.errors import InvalidInputError
from gaf.fusion.region import reads_in

# Sizes of symbolic dims, the first that the model's conditions allow: small enough to be quick, more than one
# tile of eight rows where that is possible.
SIZES = (19, 11, 5, 2, 1)
SEARCHED = 128  # the largest size that is tried for a symbol when conditions forbid all of SIZES


def random_inputs(model: Model, seed: int = 0, size: int | None = None) -> dict[str, np.ndarray]:
    """Random inputs: floats normal, bool, and integers that are valid positions where something is looked up.

    Symbols get distinct sizes from `size` on; by default the largest of SIZES that no condition forbids.
    """
    rng = np.random.default_rng(seed)
    env = _sizes(model, size)
    result: dict[str, np.ndarray] = {}
    for name, arg in zip(model.input_names, model.block.args):
        type_ = tensor_type(arg)
        shape, kind = type_.concrete(env), type_.dtype
        if kind.is_float:
            result[name] = rng.standard_normal(shape).astype(kind.numpy)
        elif kind.is_bool:
            result[name] = rng.integers(0, 2, shape).astype(bool)
        else:
            result[name] = rng.integers(0, _positions(arg, env), shape).astype(kind.numpy)
    return result


def _sizes(model: Model, size: int | None) -> dict[str, int]:
    symbols = sorted({s for t in model.input_types for s in t.symbols()})
    env: dict[str, int] = {}
    for start in (size,) if size is not None else SIZES:
        # a batch of 19 teaches nothing that 2 or 3 don't
        env = {s: min(start, 2) if s.lower() in ("batch", "batch_size", "b") else start + i for i, s in enumerate(symbols)}
        if _allowed(model, env):
            return env
    return _search(model, symbols, env) or env


def _allowed(model: Model, env: Mapping[str, int]) -> bool:
    """True if the model's conditions hold and no input has a negative size."""
    try:
        check_conditions(model, env)
        return all(d >= 0 for t in model.input_types for d in t.concrete(dict(env)))
    except InvalidInputError:
        return False


def _search(model: Model, symbols: Sequence[str], wanted: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes up to SEARCHED that the conditions allow, those of `wanted` where possible; None if none are found."""
    declared = conditions(model)
    tries = 20_000

    def extend(env: dict[str, int]) -> dict[str, int] | None:
        nonlocal tries
        if len(env) == len(symbols):
            return env if _allowed(model, env) else None
        symbol = symbols[len(env)]
        decided = [c for c in declared if symbol in c.names and c.names <= env.keys() | {symbol}]
        for size in dict.fromkeys((wanted[symbol], *range(1, SEARCHED + 1))):
            tries -= 1
            if tries < 0:
                return None
            trial = {**env, symbol: size}
            if all(c.holds(trial) for c in decided):
                found = extend(trial)
                if found is not None:
                    return found
        return None

    return extend({})


def _positions(value: SSAValue, env: dict[str, int]) -> int:
    """How many values an integer input may take: the size of the smallest table that it looks up, else 2 (a mask)."""
    limit, stack, seen = 2, [value], set()
    looked_up = False
    while stack:
        current = stack.pop()
        for use in current.uses:
            op = use.operation
            if not isinstance(op, GraphOp) or (op, use.index) in seen:
                continue
            seen.add((op, use.index))
            table = _table_size(op, use.index, env)
            if table is not None:
                limit = min(limit, table) if looked_up else table
                looked_up = True
            elif op.IS_VIEW or op.name == "graph.cast":
                stack += [r for r in op.results if not tensor_type(r).dtype.is_float]
    return max(1, limit)


def _table_size(op: GraphOp, position: int, env: dict[str, int]) -> int | None:
    """The size of the dim that operand `position` of `op` indexes, if it is an index tensor."""
    meaning = op.meaning()
    if not isinstance(meaning, View):
        return None
    for piece in meaning.pieces:
        shape = tensor_type(op.operands[piece.operand]).shape
        for dim, index in zip(shape, piece.index):
            if any(r.tag == str(position) for r in reads_in(index)):
                return dim.evaluate(env)
    return None
