# SPDX-License-Identifier: Apache-2.0
"""Rules of a tile kernel beyond the types of its ops: names in scope, and no escaping partial results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from gaf.dialects.common.index import Expr, Func, format_expr
from gaf.dialects.common.monoid import by_name
from gaf.dialects.tile.attributes import IDENTIFIER, format_names, invalid
from gaf.dialects.tile.compute import IndexOp, ViewOp
from gaf.dialects.tile.folds import MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, StoreOp
from gaf.dialects.tile.rank import RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, YieldOp
from gaf.dialects.tile.types import GmType, TileType


@dataclass
class Scope:
    """The loops that are open at a point of a kernel."""

    kernel: KernelOp
    loops: list[GridOp | ForOp] = field(default_factory=list)

    @property
    def open_axes(self) -> list[str]:
        """Axes narrowed by an open loop, outermost first, each once."""
        found: dict[str, None] = {}
        for loop in self.loops:
            for axis in loop_axes(loop):
                found[axis] = None
        return list(found)

    @property
    def sub(self) -> str | None:
        return next((g.sub for g in self.loops if isinstance(g, GridOp)), None)


def loop_axes(loop: GridOp | ForOp) -> list[str]:
    """The axes whose windows a loop narrows."""
    return [loop.axis] if isinstance(loop, ForOp) else [name for name, _ in loop.steps]


def verify_kernel(kernel: KernelOp) -> None:
    """Raise VerifyException on the first broken rule."""
    _verify_header(kernel)
    _Verifier(kernel).block(kernel.body.block, Scope(kernel))


def _verify_header(kernel: KernelOp) -> None:
    args = kernel.body.block.args
    if len(kernel.arg_names.data) != len(args):
        raise invalid("a name per kernel argument", expected=len(args), got=len(kernel.arg_names.data))
    known: set[str] = set()
    symbols = set(kernel.symbols)
    param_names = [n for n, _ in kernel.params]
    axis_names = [a.name for a in kernel.axes]
    for what, names in (
        ("argument", kernel.arg_names.data),
        ("symbol", kernel.symbols),
        ("axis", axis_names),
        ("parameter", param_names),
    ):
        for name in names:
            if not IDENTIFIER.fullmatch(name):
                raise invalid(f"bad {what} name", expected="letters, digits and _", got=name)
            if name in known:
                raise invalid(f"the {what} name '{name}' is declared twice in tile.kernel")
            known.add(name)
    for arg, name in zip(args, kernel.arg_names.data, strict=True):
        if not isinstance(arg.type, GmType):
            raise invalid(f"kernel argument '{name}' is no array", expected="!tile.gm", got=arg.type)
        for dim in arg.type.shape:
            _check_names(dim, symbols, f"the shape of argument '{name}'")
    in_order = set(symbols)
    for name, value in kernel.params:
        _check_names(value, in_order, f"parameter '{name}'")
        in_order.add(name)
    for guard in kernel.guards:
        _check_names(guard, in_order, "a kernel guard")
    for axis in kernel.axes:
        allowed = symbols | (set(axis_names) - {axis.name} if axis.hull else set())
        _check_names(axis.extent, allowed, f"the extent of axis '{axis.name}'")


def _check_names(value: Expr, allowed: set[str], where: str) -> None:
    for name in sorted(value.names()):
        if name not in allowed:
            raise invalid(
                f"{where} uses '{name}', which isn't known there",
                expected=f"one of {format_names(sorted(allowed))}",
                got=format_expr(value),
            )


def _reads(value: Expr) -> Iterable[Func]:
    for atom in value.atoms():
        if isinstance(atom, Func):
            if atom.name == "read":
                yield atom
            for arg in atom.args:
                yield from _reads(arg)


class _Verifier:
    """One walk over a kernel; `partial` holds, per value, the axes over which it is folded so far only."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.symbols = set(kernel.symbols)
        self.params = {n for n, _ in kernel.params}
        self.axes = {a.name: a for a in kernel.axes}
        self.args = {
            name: arg.type for name, arg in zip(kernel.arg_names.data, kernel.body.block.args, strict=True)
        }
        self.partial: dict[SSAValue, frozenset[str]] = {}

    def block(self, block: Block, scope: Scope) -> None:
        for op in block.ops:
            for value in (*op.operands, *op.results):
                self._check_axes(op, value)
            match op:
                case GridOp():
                    self._grid(op, scope)
                case ForOp():
                    self._for(op, scope)
                case _:
                    self._leaf(op, scope)

    # -- loops --------------------------------------------------------------------------------

    def _grid(self, op: GridOp, scope: Scope) -> None:
        for name, step in op.steps:
            self._axis(name, "tile.grid")
            _check_names(step, self.symbols | self.params, f"the step of '{name}'")
            self._positive(step, name)
        self.block(op.body.block, Scope(scope.kernel, [*scope.loops, op]))

    def _for(self, op: ForOp, scope: Scope) -> None:
        self._axis(op.axis, "tile.for")
        allowed = self._index_names(scope, ())
        _check_names(op.step, self.symbols | self.params, f"the step of '{op.axis}'")
        self._positive(op.step, op.axis)
        for bound in op.bounds or ():
            _check_names(bound, allowed, f"a bound of the loop over '{op.axis}'")
        for arg, init in zip(op.body.block.args, op.inits, strict=True):
            self.partial[arg] = self._of(init) | {op.axis}
        self.block(op.body.block, Scope(scope.kernel, [*scope.loops, op]))
        last = op.terminator
        for position, (arg, init, value) in enumerate(
            zip(op.body.block.args, op.inits, last.carried, strict=True)
        ):
            self._carried(op, position, arg, init, value)
        for value in last.collected:
            if op.axis in self._of(value):
                raise invalid(
                    f"a tile collected along '{op.axis}' depends on an incomplete fold over '{op.axis}'",
                    hint="use the state after the loop, or collect in a second loop",
                )
        inner = [*last.carried, *last.collected]
        outer = frozenset(scope.open_axes)
        for result, value in zip(op.res, inner, strict=True):
            self.partial[result] = (self._of(value) - {op.axis}) | (
                frozenset({op.axis}) & outer if op.axis in self._of(value) else frozenset()
            )

    def _carried(self, op: ForOp, position: int, arg: BlockArgument, init: SSAValue, value: SSAValue) -> None:
        """A state that a merge carries has to start at the identity of its monoid."""
        from gaf.dialects.tile.compute import FillOp

        if not isinstance(value.owner, MergeOp) or not isinstance(init.owner, FillOp):
            return
        merge = value.owner
        if arg not in merge.operands:
            return
        identity = by_name(merge.monoid).identity
        start = init.owner.value
        kind = init.type.dtype if isinstance(init.type, TileType) else None
        if kind is not None and not kind.is_float and merge.monoid in ("max", "min"):
            return  # integers have no infinity: their lowest or highest value starts the fold
        if start != identity:
            raise invalid(
                f"carried state {position} of the loop over '{op.axis}' doesn't start at the identity of "
                f"'{merge.monoid}'",
                expected=identity,
                got=start,
            )

    def _axis(self, name: str, where: str) -> None:
        axis = self.axes.get(name)
        if axis is None:
            raise invalid(
                f"{where} over '{name}', which isn't an axis of the kernel",
                expected=f"one of {format_names(self.axes)}",
            )
        if axis.hull:
            raise invalid(f"{where} over the hull axis '{name}'", hint="loop over the axes in its expression")

    def _positive(self, step: Expr, axis: str) -> None:
        value = step.as_int()
        if value is not None and value < 1:
            raise invalid(f"the step of '{axis}' isn't positive", expected="1 or more", got=value)

    # -- other ops ----------------------------------------------------------------------------

    def _check_axes(self, op: Operation, value: SSAValue) -> None:
        if isinstance(value.type, TileType):
            for name in value.type.axes:
                if name not in self.axes:
                    raise invalid(
                        f"{op.name}: the tile has '{name}', which isn't an axis of the kernel",
                        expected=f"axes of {format_names(self.axes)}",
                        got=value.type,
                    )

    def _index_names(self, scope: Scope, tile_axes: Iterable[str]) -> set[str]:
        bounds = {f"{a}.{end}" for a in scope.open_axes for end in ("lo", "hi")}
        return self.symbols | self.params | bounds | set(tile_axes)

    def _expression(self, op: Operation, value: Expr, scope: Scope, tile_axes: tuple[str, ...]) -> None:
        _check_names(value, self._index_names(scope, tile_axes), f"an index of {op.name}")
        for atom in _reads(value):
            array = self.args.get(atom.tag)
            if array is None or not isinstance(array, GmType):
                raise invalid(
                    f"{op.name} reads indices from '{atom.tag}', which isn't an argument of the kernel",
                    expected=f"one of {format_names(self.args)}",
                )
            if not array.dtype.is_int:
                raise invalid(f"indices are read from '{atom.tag}'", expected="an integer array", got=array)
            if len(atom.args) != array.rank:
                raise invalid(
                    f"the index into '{atom.tag}' has another rank", expected=array.rank, got=len(atom.args)
                )

    def _leaf(self, op: Operation, scope: Scope) -> None:
        match op:
            case LoadOp():
                self._access(op, op.res, scope)
            case StoreOp():
                self._access(op, op.value, scope)
                self._store(op, scope)
                return
            case IndexOp():
                assert isinstance(op.res.type, TileType)
                self._expression(op, op.value, scope, op.res.type.axes)
            case ViewOp():
                assert isinstance(op.res.type, TileType)
                for _, value in op.bindings:
                    self._expression(op, value, scope, op.res.type.axes)
            case ReduceOp():
                self._sub_axis(op, op.over, scope)
                folded = frozenset(op.over) & frozenset(scope.open_axes)
                for result, arg in zip(op.res, op.args, strict=True):
                    self.partial[result] = self._of(arg) | folded
                return
            case ScanOp():
                self._sub_axis(op, (op.over,), scope)
                # a prefix is complete by construction; its carry is what the loop hands on
                self.partial[op.prefix] = self._of(op.value)
                self.partial[op.last] = self._of(op.value) | (
                    frozenset({op.over}) & frozenset(scope.open_axes)
                )
                return
            case RankOp():
                self._sub_axis(op, (op.over,), scope)
                self.partial[op.res] = self._of(op.value) | (frozenset({op.over}) & frozenset(scope.open_axes))
                return
            case YieldOp():
                return
        inherited = frozenset().union(*(self._of(v) for v in op.operands))
        if summed := getattr(op, "summed", ()):
            inherited |= frozenset(summed) & frozenset(scope.open_axes)
        for result in op.results:
            self.partial[result] = inherited

    def _access(self, op: LoadOp | StoreOp, tile: SSAValue, scope: Scope) -> None:
        assert isinstance(tile.type, TileType)
        for value in op.index:
            self._expression(op, value, scope, tile.type.axes)
        for guard in op.guards:
            for value in (guard.value, guard.low, guard.high):
                self._expression(op, value, scope, tile.type.axes)

    def _store(self, op: StoreOp, scope: Scope) -> None:
        assert isinstance(op.value.type, TileType) and isinstance(op.target.type, GmType)
        used = {n for e in op.index for n in e.names()} | {n for g in op.guards for n in g.names()}
        for loop in reversed(scope.loops):  # the part of a window that belongs to a point of an outer loop
            if isinstance(loop, ForOp) and loop.bounds is not None and {loop.axis, f"{loop.axis}.lo"} & used:
                used |= {n for bound in loop.bounds for n in bound.names()}
        if not op.add:
            for axis in op.value.type.axes:
                if axis not in used:
                    raise invalid(
                        f"tile.store writes elements twice: its index lacks the axis '{axis}' of the tile",
                        expected=f"'{axis}' in the index or a guard",
                    )
            for axis in scope.open_axes:
                if axis not in used and f"{axis}.lo" not in used and f"{axis}.hi" not in used:
                    raise invalid(
                        f"tile.store in a loop over '{axis}' writes the same elements in every iteration",
                        expected=f"'{axis}' or '{axis}.lo' in the index or a guard",
                        hint=f"add the guard [{axis}.lo in 0 to 1] if every iteration has the same value",
                    )
            if op.target.type.role == "out" and (partial := self._of(op.value)):
                raise invalid(
                    f"tile.store writes a value that is folded over a part of '{min(partial)}' only",
                    expected="a value that is complete over every axis",
                    hint="merge the partial results in a loop, or go through a workspace",
                )

    def _sub_axis(self, op: Operation, over: Iterable[str], scope: Scope) -> None:
        if scope.sub is not None and scope.sub in over:
            raise invalid(
                f"{op.name} folds the sub axis '{scope.sub}', which is split between two vector cores",
                hint="make another axis the sub axis of the grid",
            )

    def _of(self, value: SSAValue) -> frozenset[str]:
        return self.partial.get(value, frozenset())
