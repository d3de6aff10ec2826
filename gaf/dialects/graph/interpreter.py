# SPDX-License-Identifier: Apache-2.0
"""Runs a graph in numpy through the ops' own references: the oracle of every later level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import Model, bind_symbols, check_conditions
from gaf.dialects.graph.ops.control import ControlOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.structure import FusedOp, WeightOp, YieldOp
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError, first_line

Observer = Callable[[Operation, Sequence[np.ndarray]], None]


def check_inputs(
    model: Model, inputs: Mapping[str, np.ndarray], names: Sequence[str] | None = None
) -> list[np.ndarray]:
    """The inputs in order. Raises InvalidInputError for missing or unknown names. `names`: those of the model, if the
    caller knows them.
    """
    names = model.input_names if names is None else names
    for name in inputs:
        if name not in names:
            raise InvalidInputError(f"the model has no input '{name}'", where=model.source, expected=", ".join(names))
    missing = [n for n in names if n not in inputs]
    if missing:
        raise InvalidInputError(f"input '{missing[0]}' is missing", where=model.source, expected=", ".join(names), got=", ".join(inputs))
    return [np.asarray(inputs[n]) for n in names]


def run_model(
    model: Model, inputs: Mapping[str, np.ndarray], *, wide: bool = False, observe: Observer | None = None
) -> dict[str, np.ndarray]:
    """Run `@main`; `observe(op, results)` sees every op's results as they are computed."""
    arrays = check_inputs(model, inputs)
    env = bind_symbols(model.input_names, model.input_types, arrays, model.source)
    check_conditions(model, env)
    if wide:
        arrays = [widen(a) for a in arrays]
    results = run_block(model.block, arrays, model.weights, env, wide=wide, observe=observe)
    return dict(zip(model.output_names, results))


def run_block(
    block: Block,
    args: Sequence[np.ndarray],
    weights: Mapping[str, np.ndarray] | object,
    env: Mapping[str, int],
    *,
    wide: bool = False,
    observe: Observer | None = None,
) -> list[np.ndarray]:
    """Run the ops of a block; returns the operands of its terminator. `env` gives symbol values."""
    values: dict[SSAValue, np.ndarray] = dict(zip(block.args, args))
    env = dict(env)
    last_use = last_uses(block)
    for op in block.ops:
        operands = [values[o] for o in op.operands]
        if isinstance(op, ReturnOp | YieldOp):
            return operands
        results = run_op(op, operands, weights, env, wide=wide)
        bind_results(op, results, env)
        if observe is not None:
            observe(op, results)
        values.update(zip(op.results, results))
        for value in last_use.get(op, ()):
            values.pop(value, None)
    raise InternalError("block without terminator")


def bind_results(op: Operation, results: Sequence[np.ndarray], env: dict[str, int]) -> bool:
    """Add the sizes that an op introduces (how many elements are non-zero, ...) to the values of symbols.

    Returns True if there are any. Raises InvalidInputError for a size that is known to be another.
    """
    before = len(env)
    if not isinstance(op, GraphOp):
        return False
    for value, array in zip(op.results, results):
        for dim, size in zip(value.type.shape, array.shape):  # type: ignore[attr-defined]
            symbol = dim.as_name()
            if symbol is None:
                continue
            if env.setdefault(symbol, size) != size:
                raise InvalidInputError(
                    "two sizes that the model needs equal are not", where=op.location_name(),
                    expected=f"{symbol} = {env[symbol]}", got=size,
                )  # fmt: skip
    return len(env) > before


def body_symbols(
    body: Block, args: Sequence[np.ndarray], env: Mapping[str, int], op: Operation
) -> dict[str, int]:
    """The values of symbols in a body of control flow: those outside, and the sizes of this run of the body.

    Raises InvalidInputError for an argument of another size than its type says.
    """
    inner = dict(env)
    for value, array in zip(body.args, args):
        for dim, size in zip(value.type.shape, array.shape):  # type: ignore[attr-defined]
            symbol = dim.as_name()
            if symbol is not None:
                inner.setdefault(symbol, size)
            if dim.names() <= inner.keys() and dim.evaluate(inner) != size:
                raise InvalidInputError(
                    "a value of the control flow has another size than its type says",
                    where=op.location_name() if isinstance(op, GraphOp) else None,
                    expected=f"{dim} = {dim.evaluate(inner)}", got=size,
                )  # fmt: skip
    return inner


def run_op(
    op: Operation,
    operands: Sequence[np.ndarray],
    weights: Mapping[str, np.ndarray] | object,
    env: Mapping[str, int],
    *,
    wide: bool = False,
) -> list[np.ndarray]:
    """Results of one op. Raises UnsupportedError if a framework refuses its op, InternalError if a reference fails."""
    if isinstance(op, WeightOp):
        array = weights[op.weight.data]  # type: ignore[index]
        return [widen(array) if wide else array]
    if isinstance(op, FusedOp):
        return run_block(op.block, operands, weights, env, wide=wide)
    if isinstance(op, ControlOp):

        def run_body(body: Block, args: Sequence[np.ndarray]) -> list[np.ndarray]:
            return run_block(body, args, weights, body_symbols(body, args, env, op), wide=wide)

        return op.run(operands, run_body)
    if not isinstance(op, GraphOp):
        raise InternalError(f"{op.name} is not a graph op")
    try:
        results = op.reference_with_symbols(*operands, env=env, wide=wide)
    except GafError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in operands)
        if isinstance(op, ForeignOp):
            raise UnsupportedError(
                f"{op.framework.data} refuses {op.op_type.data}: {first_line(error)}", where=op.location_name(), got=shapes,
                hint="does the model run in its own framework with these inputs?",
            ) from error  # fmt: skip
        raise InternalError(f"reference of {op.name} failed on ({shapes}): {error}", where=op.location_name()) from error
    return [np.asarray(r) for r in results]


def widen(array: np.ndarray) -> np.ndarray:
    """Float arrays as float64; other arrays unchanged."""
    return array.astype(np.float64) if dt.of_numpy(array.dtype).is_float else array


def evaluate_shape(shape: Sequence[Expr], env: Mapping[str, int]) -> tuple[int, ...]:
    """A symbolic shape for given symbol values."""
    return tuple(d.evaluate(env) for d in shape)


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """op -> values that no later op of the block uses (so that big arrays are freed early)."""
    seen: set[SSAValue] = set()
    result: dict[Operation, list[SSAValue]] = {}
    for op in reversed(list(block.ops)):
        for operand in op.operands:
            if operand not in seen:
                seen.add(operand)
                result.setdefault(op, []).append(operand)
    return result


