# SPDX-License-Identifier: Apache-2.0
"""The vector program of a tile kernel: its ops in order, which values share memory, how long each lives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.common.scalar import FUNCTIONS, convert
from gaf.dialects.tile.compute import FillOp, IndexOp, MapOp, ViewOp
from gaf.dialects.tile.folds import ContractOp, MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.passes.tile.forms import Loop, Windows, loops_around, physical_dtype, refuse, tile_type

Number = int | float | Expr


def is_cube_op(op: Operation) -> bool:
    """True if the op runs on the cube core (its loops may run on both)."""
    match op:
        case LoadOp():
            return tile_type(op.res).space == "l1"
        case StoreOp():
            return tile_type(op.value).space == "l0c"
        case ContractOp():
            return True
        case ForOp():
            inner = [o for o in op.body.block.ops if not isinstance(o, YieldOp)]
            return bool(inner) and all(is_cube_op(o) for o in inner)
        case MoveOp() | FillOp() | IndexOp():
            return tile_type(op.results[0]).space != "ub"
    return False


def is_store(use: Use) -> bool:
    """True if a use writes the value to global memory: a store, or a loop that collects it for the cube."""
    op = use.operation
    if not isinstance(op, YieldOp) or use.index < len(op.carried):
        return isinstance(op, StoreOp)
    loop = op.parent_op()
    assert isinstance(loop, ForOp)
    return goes_to_cube(loop.collected_results[use.index - len(op.carried)])


def goes_to_cube(collected: SSAValue) -> bool:
    """True if a tile that a loop of the vector cores collects is handed over to the cube; others stay in UB."""
    users = [u.operation for u in collected.uses]
    return bool(users) and all(isinstance(u, MoveOp) and tile_type(u.res).space == "l1" for u in users)


def vector_ops(block: Block) -> Iterator[Operation]:
    """The ops of a block that the vector cores run, in order."""
    for op in block.ops:
        if not is_cube_op(op):
            yield op


class Program:
    """Positions, roots and lifetimes of the values on the vector cores.

    Values that share memory by construction have one root: a carried state is one variable from the start of
    its loop on; a predicate cast to float is the same floats; a fold over axes of one element is its operand.
    """

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.position: dict[Operation, int] = {}
        self.loop_end: dict[Loop, int] = {}
        self.numbers: dict[SSAValue, Number] = {}
        self.lazy: set[SSAValue] = set()
        self.in_place: set[SSAValue] = set()
        """Values computed straight into the variable that the loop carries."""
        self._alias: dict[SSAValue, SSAValue] = {}
        self._chains: dict[Operation, list[Loop]] = {}
        self._count = 0
        self._number_block(kernel.body.block)
        self._scan(kernel.body.block)
        self._ends: dict[SSAValue, int] = {}

    # -- order --------------------------------------------------------------------------------

    def _number_block(self, block: Block) -> None:
        for op in vector_ops(block):
            self._count += 1
            self.position[op] = self._count
            if isinstance(op, GridOp | ForOp):
                self._number_block(op.body.block)
                self._count += 1
                self.loop_end[op] = self._count

    def loops(self, op: Operation) -> list[Loop]:
        """The loops around an op, outermost first."""
        if op not in self._chains:
            self._chains[op] = loops_around(op)
        return self._chains[op]

    def windows(self, op: Operation) -> Windows:
        """Capacities of the axes where an op stands."""
        return Windows(self.kernel, self.loops(op))

    # -- numbers and shared memory ------------------------------------------------------------

    def _scan(self, block: Block) -> None:
        for op in vector_ops(block):
            match op:
                case GridOp():
                    self._scan(op.body.block)
                case ForOp():
                    for arg, result in zip(op.body.block.args, op.carried_results, strict=True):
                        self._alias[arg] = result
                    self._scan(op.body.block)
                    self._carry_in_place(op)
                case FillOp() if self._stays_number(op):
                    self.numbers[op.res] = _typed(op.value, tile_type(op.res).dtype)
                case IndexOp() if not self.windows(op).wide_axes(tile_type(op.res).axes):
                    self.numbers[op.res] = op.value
                case MapOp():
                    self._scan_map(op)
                case ReduceOp() if not self.windows(op).wide_axes(op.over):
                    for result, arg in zip(op.res, op.args, strict=True):
                        self._alias[result] = arg
                case _:
                    pass

    def _stays_number(self, op: FillOp) -> bool:
        """True if every user takes the constant as a scalar operand; others need it as a tile."""
        return all(isinstance(u.operation, MapOp | StoreOp | MergeOp | ForOp) for u in op.res.uses)

    def _scan_map(self, op: MapOp) -> None:
        result = tile_type(op.res)
        known = [self.numbers.get(self.root(a)) for a in op.args]
        if op.function == "cast":
            source = tile_type(op.args[0])
            if known[0] is not None:
                number = known[0]
                if not isinstance(number, Expr):
                    self.numbers[op.res] = _typed(number, result.dtype)
                    return
                if result.dtype in (dt.F32, source.dtype):
                    self.numbers[op.res] = number
                    return
            if source.dtype.is_bool and result.dtype in (dt.F32, dt.BOOL):
                self._alias[op.res] = op.args[0]
            elif not result.dtype.is_bool and all(is_store(u) for u in op.res.uses):
                self.lazy.add(op.res)
            return
        if all(n is not None and not isinstance(n, Expr) for n in known):
            args = [
                np.asarray(n).astype(tile_type(a).dtype.numpy) for n, a in zip(known, op.args, strict=True)
            ]
            value = FUNCTIONS[op.function].numpy(*args)
            self.numbers[op.res] = _typed(np.asarray(value).item(), result.dtype)

    def _carry_in_place(self, op: ForOp) -> None:
        """Find the yielded values that can be computed into the carried variable itself."""
        last = op.terminator
        for arg, result, value in zip(op.body.block.args, op.carried_results, last.carried, strict=True):
            producer = value.owner
            if isinstance(producer, ForOp) and self._rewrites(producer, value, arg):
                self._alias[value] = result
                continue
            if not isinstance(producer, MergeOp | MapOp | ReduceOp | RankOp | ScanOp) or producer.parent is not op.body.block:
                continue
            if self.root(value) is not value or value in self.numbers or value in self.lazy:
                continue
            if sum(v is value for v in last.carried) > 1:
                continue
            # these read the old state where they write the new one; other recipes may need both at once
            if not isinstance(producer, MergeOp | RankOp | ScanOp) and any(self.root(v) is result for v in producer.operands):
                continue
            if self.variable_allows(arg, producer):
                self._alias[value] = result
                self.in_place.add(value)

    def _rewrites(self, loop: ForOp, value: SSAValue, arg: BlockArgument | SSAValue) -> bool:
        """True if a loop in a loop collects the next state, and nothing reads the old one later: a step reads its rows
        before it writes them.
        """
        inner = [u.operation for u in arg.uses]
        return (
            value in loop.collected_results and not goes_to_cube(value) and loop.axis in tile_type(value).axes
            and all(u.parent is loop.body.block and not isinstance(u, YieldOp) for u in inner)
        )  # fmt: skip

    def variable_allows(self, arg: BlockArgument | SSAValue, producer: Operation) -> bool:
        """True if no use of the carried state comes after the op that computes its next value."""
        limit = self.position[producer]
        for use in self.uses_of_group(arg):
            at = self.position.get(use, 0)
            loops = [p for p in self.loops(use) if p not in self.loops(producer)]
            if (self.loop_end[loops[0]] if loops else at) > limit:
                return False
        return True

    def uses_of_group(self, value: SSAValue) -> list[Operation]:
        """The users of a value and of what is aliased to it, lazily converted values included."""
        found: list[Operation] = []
        for use in value.uses:
            op = use.operation
            if op not in self.position:
                continue
            found.append(op)
            for result in op.results:
                if self._alias.get(result) is value or result in self.lazy:
                    found += self.uses_of_group(result)
        return found

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for the memory of `value`."""
        while value in self._alias:
            value = self._alias[value]
        return value

    def number(self, value: SSAValue) -> Number | None:
        """The number that a value is, or None if it lives in memory."""
        return self.numbers.get(self.root(value))

    # -- lifetimes ----------------------------------------------------------------------------

    def end(self, root: SSAValue) -> int:
        """The last position at which the memory of a root is needed."""
        if not self._ends:
            self._compute_ends()
        return self._ends.get(root, 0)

    def home(self, root: SSAValue) -> list[Loop]:
        """The loops around the place where a root comes into being."""
        owner = root.owner
        assert isinstance(owner, Operation)
        return self.loops(owner)

    def _compute_ends(self) -> None:
        for op in self.position:
            for operand in op.operands:
                self._use(operand, op)
            for result in op.results:
                root = self.root(result)
                self._ends[root] = max(self._ends.get(root, 0), self.position[op])
            if isinstance(op, ForOp):
                for result in op.res:
                    root = self.root(result)
                    self._ends[root] = max(self._ends.get(root, 0), self.loop_end[op])
                for value in op.terminator.carried:
                    self._use(value, op.terminator)

    def _use(self, operand: SSAValue, op: Operation) -> None:
        if operand in self.lazy:
            producer = operand.owner
            assert isinstance(producer, MapOp)
            self._use(producer.args[0], op)
            return
        root = self.root(operand)
        if isinstance(root, BlockArgument):
            return  # an array in global memory
        home = self.home(root)
        inner = [loop for loop in self.loops(op) if loop not in home]
        owner = root.owner
        if isinstance(owner, ForOp):
            inner = [loop for loop in inner if loop is not owner]
        at = self.loop_end[inner[0]] if inner else self.position[op]
        self._ends[root] = max(self._ends.get(root, 0), at)


def _typed(value: int | float, kind: dt.DType) -> int | float:
    """A constant as a tile of `kind` would hold it."""
    result = convert(np.asarray(value), kind).item() if kind is not dt.F32 else float(np.float32(value))
    return int(result) if kind.is_bool or kind.is_int else float(result)


def check_supported(program: Program) -> None:
    """Raise UnsupportedError for ops of the vector program that have no lowering."""
    supported = (
        LoadOp, StoreOp, MoveOp, FillOp, IndexOp, MapOp, ReduceOp, MergeOp, RankOp, RankedOp, ScanOp, GridOp, ForOp, YieldOp,
        SyncOp, WorkspaceOp,
    )  # fmt: skip
    for op in program.position:
        if not isinstance(op, supported):
            hint = "transposes and slices on chip have no recipe yet" if isinstance(op, ViewOp) else None
            raise refuse(op, f"{op.name} has no lowering to Ascend C yet", hint=hint)


def same_dtype(kind: dt.DType) -> bool:
    """True if a tile of `kind` looks the same in UB and in global memory."""
    return physical_dtype(kind) is kind
