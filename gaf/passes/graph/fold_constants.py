# SPDX-License-Identifier: Apache-2.0
"""Pass `fold-constants`: computes at compile time what depends only on constants and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.meaning import Meaning
from gaf.dialects.graph.model import WeightStore, weights_of
from gaf.dialects.graph.ops.control import ControlOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.random import RandomOp
from gaf.dialects.graph.ops.structure import INLINE_LIMIT, ConstantOp, WeightOp, constant
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError, InvalidInputError, UnsupportedError, first_line
from gaf.passes.graph.effects import is_pure
from gaf.passes.registry import option, register_pass

MEBIBYTE = 1 << 20


@register_pass
@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Replace operations on constants by their results, computed in the model's own dtypes.

    Results of at most 64 elements are written into the IR, larger ones go to the weight store, and weights
    that are no longer used leave it. Tensors of a shape without elements are constants, too. Only the last
    result of a chain of such operations is kept: Cast, Sub and Mul on an int8 weight leave one float weight behind.

    Not folded: operations with effects, with symbolic result dims, of another framework
    (`graph.foreign`), or whose result would be both above `max-bytes` and larger than the operands; and
    what costs a kernel nothing, but memory if it is stored: views that repeat elements (Expand) or show a
    weight that is needed anyway, and tensors made by a formula (Full, Range).
    """

    name = "fold-constants"

    max_bytes: int = option(64 * MEBIBYTE, "largest result in bytes that may be larger than its operands")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        store = weights_of(op)
        dropped: set[str] = set()
        for func in op.walk():
            for region in func.regions:
                for block in region.blocks:
                    # weights belong to the model's functions; the inside of a kernel gets inline constants
                    fold = _Fold(store, self.max_bytes, use_store=isinstance(func, FuncOp | ControlOp))
                    fold.run(block)
                    dropped |= fold.dropped
        if dropped:
            dropped -= {weight.weight.data for weight in op.walk() if isinstance(weight, WeightOp)}
            for name in sorted(dropped):
                store.discard(name)


@dataclass
class _Fold:
    """The folding of one block."""

    store: WeightStore
    max_bytes: int
    use_store: bool
    folded: set[Operation] = field(default_factory=set)  # operations that are evaluated here
    arrays: dict[SSAValue, np.ndarray] = field(default_factory=dict)  # known values that are still needed
    uses: dict[SSAValue, int] = field(default_factory=dict)  # how many folded operations still read a value
    made: dict[SSAValue, SSAValue] = field(default_factory=dict)  # folded result -> the new constant
    dropped: set[str] = field(default_factory=set)  # weights whose `graph.weight` was erased
    taken: dict[str, int] = field(default_factory=dict)  # name -> the last number that was tried behind it

    def run(self, block: Block) -> None:
        replace_empty(block)
        candidates, sources = self._candidates(block)
        if not candidates:
            return
        needed = self._needed(candidates)
        operands = {op: tuple(op.operands) for op in candidates}
        for op in candidates:
            if op in needed:
                for operand in operands[op]:
                    self.uses[operand] = self.uses.get(operand, 0) + 1
        for op in candidates:
            if op in needed:
                self._fold(op, operands[op])
        for op in reversed(candidates):
            if op in self.folded and all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
        for op in sources:
            if op.results[0].first_use is None:
                if isinstance(op, WeightOp):
                    self.dropped.add(op.weight.data)
                op.detach()
                op.erase()

    def _candidates(self, block: Block) -> tuple[list[GraphOp], list[Operation]]:
        """The operations that depend only on constants, in order; and the constants that they read."""
        known: set[SSAValue] = set()
        candidates: list[GraphOp] = []
        sources: dict[Operation, None] = {}
        for op in block.ops:
            if isinstance(op, ConstantOp) or (isinstance(op, WeightOp) and op.weight.data in self.store):
                known.add(op.results[0])
            elif all(o in known for o in op.operands) and self._may_fold(op):
                candidates.append(op)
                known.update(op.results)
                for operand in op.operands:
                    if isinstance(operand, OpResult) and isinstance(operand.op, ConstantOp | WeightOp):
                        sources[operand.op] = None
        self.folded = set(candidates)
        return candidates, list(sources)

    def _may_fold(self, op: Operation) -> bool:
        if not isinstance(op, GraphOp) or isinstance(op, ForeignOp | WeightOp) or not op.results:
            return False
        results = op.result_tensor_types()
        if not all(t.is_static for t in results) or not is_pure(op):
            return False
        if not self.use_store and any(_elements(t) > INLINE_LIMIT for t in results):
            return False
        size = sum(_bytes(t) for t in results)
        return size <= self.max_bytes or size <= sum(_bytes(t) for t in op.operand_tensor_types())

    def _needed(self, candidates: Sequence[GraphOp]) -> set[Operation]:
        """The candidates to evaluate: those that something outside reads, and what they are made of."""
        needed: set[Operation] = set()
        for op in reversed(candidates):
            outside = self._read_outside(op)
            if outside and self._is_better_kept(op):
                self.folded.discard(op)  # from here on it is one of those outside
                outside = False
            if outside or any(use.operation in needed for r in op.results for use in r.uses):
                needed.add(op)
        return needed

    def _read_outside(self, op: Operation) -> bool:
        return any(use.operation not in self.folded for r in op.results for use in r.uses)

    def _is_better_kept(self, op: GraphOp) -> bool:
        """True for a result that costs a kernel nothing, and memory if it is stored."""
        if len(op.results) != 1 or _elements(op.result_tensor_types()[0]) <= INLINE_LIMIT:
            return False
        if not op.operands or isinstance(op, RandomOp):  # made from nothing (Full, noise) by a formula
            return isinstance(op.meaning(), Meaning)
        if not op.IS_VIEW or len(op.operands) != 1:
            return False
        (source,), (result,) = op.operand_tensor_types(), op.result_tensor_types()
        if _elements(result) >= 2 * _elements(source):
            return True
        return any(u.operation is not op and u.operation not in self.folded for u in op.operands[0].uses)

    def _fold(self, op: GraphOp, operands: Sequence[SSAValue]) -> None:
        arrays = [self._array(o) for o in operands]
        results = None if any(a is None for a in arrays) else _evaluate(op, arrays)
        if results is None:  # it stays in the graph, on operands that do too
            self.folded.discard(op)
            for operand in operands:
                if isinstance(operand, OpResult) and operand.op in self.folded and operand in self.arrays:
                    self._materialize(operand)
        else:
            self.arrays.update(zip(op.results, results))
            for result in op.results if op in self.folded else ():
                if any(use.operation not in self.folded for use in result.uses):
                    self._materialize(result)
        for operand in operands:
            self.uses[operand] -= 1
        for value in (*operands, *op.results):
            if not self.uses.get(value):
                self.arrays.pop(value, None)

    def _array(self, value: SSAValue) -> np.ndarray | None:
        if isinstance(value, OpResult) and value not in self.arrays:
            if isinstance(value.op, ConstantOp):
                return value.op.value.array
            if isinstance(value.op, WeightOp):
                return self.store[value.op.weight.data]
        return self.arrays.get(value)

    def _materialize(self, value: SSAValue) -> None:
        """Lets everything that reads `value` from outside read a new constant."""
        if value in self.made:
            return
        assert isinstance(value, OpResult)
        array, owner = self.arrays[value], value.op
        # a copy of what is only a view of a smaller or other array; reshaped memory maps stay what they are
        array = np.ascontiguousarray(array).reshape(array.shape)
        new: Operation
        if array.size <= INLINE_LIMIT:
            new = constant(array)
        else:
            type_ = value.type
            assert isinstance(type_, TensorType)
            stem = location_name(owner) or value.name_hint or owner.name.removeprefix("graph.")
            new = WeightOp.of(self.store.add(self._unused_name(stem), array), type_)
        new.location = owner.location
        assert owner.parent is not None
        owner.parent.insert_op_before(new, owner)
        new.results[0].name_hint = value.name_hint
        value.replace_uses_with_if(new.results[0], lambda use: use.operation not in self.folded)
        self.made[value] = new.results[0]

    def _unused_name(self, stem: str) -> str:
        name = stem
        while name in self.store:
            self.taken[stem] = self.taken.get(stem, 0) + 1
            name = f"{stem}_{self.taken[stem]}"
        return name


def replace_empty(block: Block) -> None:
    """Constants for all tensors without elements: there is nothing to compute, and what they are reduced to is known."""
    arguments = [arg for arg in block.args if _is_empty(arg) and arg.first_use is not None]
    for argument in arguments:
        made = constant(np.zeros(argument.type.static_shape(), argument.type.dtype.numpy))  # type: ignore[union-attr]
        block.insert_op_before(made, block.first_op)  # type: ignore[arg-type]
        argument.replace_all_uses_with(made.result)
    for op in list(block.ops):
        if not isinstance(op, GraphOp) or isinstance(op, ForeignOp | ConstantOp | ControlOp) or not op.results:
            continue
        if not all(map(_is_empty, op.results)) or not is_pure(op):
            continue
        for result in op.results:
            made = constant(np.zeros(result.type.static_shape(), result.type.dtype.numpy))  # type: ignore[union-attr]
            made.location = op.location
            block.insert_op_before(made, op)
            made.result.name_hint = result.name_hint
            result.replace_all_uses_with(made.result)
        op.detach()
        op.erase()


def _is_empty(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and any(d == 0 for d in value.type.shape) and value.type.is_static


def _evaluate(op: GraphOp, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The results of `op`, or None if they don't exist (an index out of range: a run will say so).

    Raises InternalError if the reference fails otherwise, or breaks the op's own result types.
    """
    try:
        with np.errstate(all="ignore"):
            results = [np.asarray(r) for r in op.reference_with_symbols(*operands, env={})]
    except (InvalidInputError, UnsupportedError):
        return None
    except Exception as error:
        raise InternalError(
            f"the reference of {op.name} failed: {first_line(error)}", where=location_name(op)
        ) from error
    for array, type_ in zip(results, op.result_tensor_types(), strict=True):
        if array.shape != type_.static_shape() or array.dtype != type_.dtype.numpy:
            raise InternalError(
                f"the reference of {op.name} doesn't give its result type",
                where=location_name(op),
                expected=type_,
                got=f"{array.dtype}{list(array.shape)}",
            )
    return results


def _elements(type_: TensorType) -> int:
    size = type_.num_elements().as_int()
    assert size is not None
    return size


def _bytes(type_: TensorType) -> int:
    return _elements(type_) * type_.dtype.bytes
