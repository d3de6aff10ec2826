# SPDX-License-Identifier: Apache-2.0
"""Runs a tile kernel on numpy arrays: the exact, sequential meaning, with detection of illegal accesses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid as monoids
from gaf.dialects.common.index import Expr, Func, format_expr
from gaf.dialects.common.order import PLACES, stable_order
from gaf.dialects.common.scalar import FUNCTIONS, convert
from gaf.dialects.tile.attributes import Guard
from gaf.dialects.tile.compute import CallOp, FillOp, IndexOp, MapOp, ViewOp, tile_type
from gaf.dialects.tile.folds import ContractOp, MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.dialects.tile.types import GmType
from gaf.errors import InvalidInputError

Window = tuple[int, int]
TileFunction = Callable[..., "np.ndarray | tuple[np.ndarray, ...]"]

TILE_FUNCTIONS: dict[str, TileFunction] = {}
"""numpy meaning of the functions that `tile.call` names: takes and returns arrays in axis order."""


class ExecutionError(InvalidInputError):
    """A tile kernel reads or writes where it may not, or leaves an output unwritten."""


@dataclass
class Tile:
    """An array with named axes; `origin` is the coordinate of element 0 along each axis."""

    array: np.ndarray
    axes: tuple[str, ...]
    origin: dict[str, int]


@dataclass
class _Gm:
    """An array in global memory with, per element, who wrote it."""

    name: str
    array: np.ndarray
    role: str
    writes: np.ndarray | None = None  # outputs: number of plain stores
    adds: bool = False
    writer: np.ndarray | None = None  # workspaces: grid point that wrote last, -2 for none
    phase: np.ndarray | None = None


def interpret(
    kernel: KernelOp,
    arrays: Mapping[str, np.ndarray],
    symbols: Mapping[str, int],
    wide: bool = False,
    order: str | Sequence[int] = "forward",
    params: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """Run `kernel` and return its outputs by argument name.

    `arrays` gives the inputs by argument name (shape and dtype as declared). `wide` computes every float in
    float64. `order` is the order of grid points: "forward", "reverse", "random:SEED" or a permutation; legal
    kernels give the same result for all. `params` overrides tiling parameters. An output that is only stored
    with `add` starts at zero.

    Raises ExecutionError for an access out of bounds, an output element unwritten or written twice, and a
    workspace element read unwritten or written by another core since the last sync.
    """
    return _Machine(kernel, arrays, symbols, wide, order, params or {}).run()


class _Machine:
    def __init__(
        self,
        kernel: KernelOp,
        arrays: Mapping[str, np.ndarray],
        symbols: Mapping[str, int],
        wide: bool,
        order: str | Sequence[int],
        params: Mapping[str, int],
    ) -> None:
        self.kernel = kernel
        self.wide = wide
        self.order = order
        self.values: dict[SSAValue, Tile] = {}
        self.gm: dict[SSAValue, _Gm] = {}
        self.point = -1
        self.phase = 0
        self.where = f"tile.kernel @{kernel.sym_name.data}"
        self.names: dict[str, Any] = {}
        for name in kernel.symbols:
            if name not in symbols:
                raise InvalidInputError(f"no value for symbol '{name}'", where=self.where)
            self.names[name] = int(symbols[name])
        for name, value in kernel.params:
            self.names[name] = int(params[name]) if name in params else value.evaluate(self.names)
        for guard in kernel.guards:
            if guard.evaluate(self.names) < 0:
                raise InvalidInputError(
                    "a guard of the kernel doesn't hold",
                    where=self.where,
                    expected=f"{format_expr(guard)} >= 0",
                    got=guard.evaluate(self.names),
                )
        self.hull = {a.name: a.extent for a in kernel.axes if a.hull}
        self.windows: dict[str, Window] = {
            a.name: (0, a.extent.evaluate(self.names)) for a in kernel.axes if not a.hull
        }
        self.args: dict[str, _Gm] = {}
        for name, arg in zip(kernel.arg_names.data, kernel.body.block.args, strict=True):
            assert isinstance(arg.type, GmType)
            self.gm[arg] = self.args[name] = self._argument(name, arg.type, arrays)

    def _argument(self, name: str, type: GmType, arrays: Mapping[str, np.ndarray]) -> _Gm:
        shape = tuple(d.evaluate(self.names) for d in type.shape)
        if type.role != "in":
            return self._allocate(name, type, shape)
        if name not in arrays:
            raise InvalidInputError(f"no array for argument '{name}'", where=self.where)
        array = np.asarray(arrays[name])
        if array.shape != shape or (array.dtype != type.dtype.numpy and not self.wide):
            raise InvalidInputError(
                f"wrong array for argument '{name}'",
                where=self.where,
                expected=f"{type.dtype}{list(shape)}",
                got=f"{array.dtype}{list(array.shape)}",
            )
        return _Gm(name, array.astype(self._numpy(type.dtype)), "in")

    def _allocate(self, name: str, type: GmType, shape: tuple[int, ...]) -> _Gm:
        gm = _Gm(name, np.zeros(shape, self._numpy(type.dtype)), type.role)
        if type.role == "out":
            gm.writes = np.zeros(shape, np.int32)
        gm.writer = np.full(shape, -2, np.int64)
        gm.phase = np.full(shape, -1, np.int32)
        return gm

    def _numpy(self, kind: dt.DType) -> np.dtype:
        return np.dtype(np.float64) if self.wide and kind.is_float else kind.numpy

    def run(self) -> dict[str, np.ndarray]:
        self._block(self.kernel.body.block)
        outputs: dict[str, np.ndarray] = {}
        for gm in self.args.values():
            if gm.role != "out":
                continue
            assert gm.writes is not None
            if not gm.adds and (missing := int((gm.writes == 0).sum())):
                first = tuple(int(i) for i in np.argwhere(gm.writes == 0)[0])
                raise ExecutionError(
                    f"{missing} of {gm.writes.size} elements of output '{gm.name}' are never written, "
                    f"the first at {first}",
                    where=self.where,
                )
            outputs[gm.name] = gm.array
        return outputs

    # -- structure ----------------------------------------------------------------------------

    def _block(self, block: Block) -> YieldOp | None:
        for op in block.ops:
            if isinstance(op, YieldOp):
                return op
            self._op(op)
        return None

    def _op(self, op: Operation) -> None:
        match op:
            case GridOp():
                self._grid(op)
            case ForOp():
                self._for(op)
            case SyncOp():
                self.phase += 1
            case WorkspaceOp():
                type = op.res.type
                assert isinstance(type, GmType)
                shape = tuple(d.evaluate(self.names) for d in type.shape)
                self.gm[op.res] = self._allocate(op.res.name_hint or "workspace", type, shape)
            case StoreOp():
                self._store(op)
            case _:
                arrays = self._compute(op)
                for result, array in zip(op.results, arrays, strict=True):
                    self._define(result, array)

    def _grid(self, op: GridOp) -> None:
        ranges = []
        for axis, step in op.steps:
            low, high = self.windows[axis]
            size = self._step(op, axis, step)
            ranges.append([(lo, min(lo + size, high)) for lo in range(low, high, size)])
        points = list(product(*ranges))
        saved = dict(self.windows)
        for position in self._permutation(len(points)):
            self.point = position
            for (axis, _), window in zip(op.steps, points[position], strict=True):
                self.windows[axis] = window
            self._block(op.body.block)
        self.windows = saved
        self.point = -1

    def _permutation(self, n: int) -> Sequence[int]:
        if not isinstance(self.order, str):
            return [i for i in self.order if i < n]
        match self.order.partition(":"):
            case "forward", _, _:
                return range(n)
            case "reverse", _, _:
                return range(n - 1, -1, -1)
            case "random", _, seed:
                points = list(range(n))
                random.Random(int(seed or 0)).shuffle(points)
                return points
        raise InvalidInputError(
            "unknown order of grid points", expected="forward, reverse or random:SEED", got=self.order
        )

    def _step(self, op: Operation, axis: str, step: Expr) -> int:
        size = step.evaluate(self._scalars())
        if size < 1:
            raise ExecutionError(
                f"the step of '{axis}' isn't positive", where=self._at(op), expected="1 or more", got=size
            )
        return size

    def _for(self, op: ForOp) -> None:
        low, high = outer = self.windows[op.axis]
        if op.bounds is not None:
            scalars = self._scalars()
            low, high = max(low, op.bounds[0].evaluate(scalars)), min(high, op.bounds[1].evaluate(scalars))
        size = self._step(op, op.axis, op.step)
        states = [self._get(v) for v in op.inits]
        pieces: list[list[np.ndarray]] = [[] for _ in op.collected_results]
        # one empty pass gives an empty loop's collected tiles their shape
        starts = list(range(low, high, size)) or ([low] if pieces else [])
        for lo in starts:
            self.windows[op.axis] = (lo, max(lo, min(lo + size, high)))
            for arg, state in zip(op.body.block.args, states, strict=True):
                self._define(arg, state)
            last = self._block(op.body.block)
            assert last is not None
            if low < high:
                states = [self._get(v) for v in last.carried]
            for piece, value in zip(pieces, last.collected, strict=True):
                piece.append(self._get(value))
        self.windows[op.axis] = outer
        for result, state in zip(op.carried_results, states, strict=True):
            self._define(result, state)
        for result, parts in zip(op.collected_results, pieces, strict=True):
            axes = tile_type(result).axes
            array = np.concatenate(parts, axis=axes.index(op.axis))
            self._define(result, array)
            self.values[result].origin[op.axis] = low

    # -- values -------------------------------------------------------------------------------

    def _window(self, axis: str) -> Window:
        if axis not in self.hull:
            return self.windows[axis]
        low = high = 0
        expression = self.hull[axis]
        for mono, coef in expression.terms.items():
            ends = [coef, coef]
            for atom in mono:
                if isinstance(atom, str) and (atom in self.windows or atom in self.hull):
                    lo, hi = self._window(atom)
                    if lo >= hi:
                        return (0, 0)
                    values = [ends[0] * lo, ends[0] * (hi - 1), ends[1] * lo, ends[1] * (hi - 1)]
                else:
                    factor = Expr({(atom,): 1}).evaluate(self.names)
                    values = [ends[0] * factor, ends[1] * factor]
                ends = [min(values), max(values)]
            low, high = low + ends[0], high + ends[1]
        return (low, high + 1)

    def _define(self, value: SSAValue, array: np.ndarray) -> None:
        axes = tile_type(value).axes
        self.values[value] = Tile(array, axes, {a: self._window(a)[0] for a in axes})

    def _get(self, value: SSAValue) -> np.ndarray:
        """The current window of a value: what is visible inside the open loops."""
        tile = self.values[value]
        slices = []
        for axis, size in zip(tile.axes, tile.array.shape, strict=True):
            low, high = self._window(axis)
            start = low - tile.origin[axis]
            if start < 0 or start + (high - low) > size:
                raise ExecutionError(
                    f"a tile is used outside its window along '{axis}'",
                    where=self._at(value.owner),
                    expected=f"part of [{tile.origin[axis]}, {tile.origin[axis] + size})",
                    got=f"[{low}, {high})",
                )
            slices.append(slice(start, start + high - low))
        return tile.array[tuple(slices)]

    def _shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(max(0, hi - lo) for lo, hi in map(self._window, axes))

    def _scalars(self) -> dict[str, Any]:
        names = dict(self.names)
        for axis, (low, high) in self.windows.items():
            names[f"{axis}.lo"], names[f"{axis}.hi"] = low, high
        return names

    def _coordinates(self, axes: Sequence[str]) -> dict[str, Any]:
        """Names to integers; axes of the tile to arrays that broadcast to its shape."""
        names = self._scalars()
        for position, axis in enumerate(axes):
            low, high = self._window(axis)
            shape = [1] * len(axes)
            shape[position] = max(0, high - low)
            names[axis] = np.arange(low, max(low, high), dtype=np.int64).reshape(shape)
        return names

    def _evaluate(self, value: Expr, names: Mapping[str, Any]) -> Any:
        total: Any = 0
        for mono, coef in value.terms.items():
            term: Any = coef
            for atom in mono:
                term = term * (names[atom] if isinstance(atom, str) else self._function(atom, names))
            total = total + term
        return total

    def _function(self, atom: Func, names: Mapping[str, Any]) -> Any:
        args = [self._evaluate(a, names) for a in atom.args]
        match atom.name:
            case "floordiv":
                return np.asarray(args[0]) // args[1]
            case "mod":
                return np.asarray(args[0]) % args[1]
            case "min":
                return np.minimum(*args)
            case "max":
                return np.maximum(*args)
        gm = self.args[atom.tag]
        self._bounds(gm, args, None, f"read {atom.tag}")
        return gm.array[tuple(np.asarray(a) for a in args)].astype(np.int64)

    def _mask(self, guards: Sequence[Guard], names: Mapping[str, Any]) -> Any:
        mask: Any = None
        for guard in guards:
            value, low, high = (self._evaluate(e, names) for e in (guard.value, guard.low, guard.high))
            inside = (np.asarray(value) >= low) & (np.asarray(value) < high)
            mask = inside if mask is None else mask & inside
        return mask

    def _bounds(self, gm: _Gm, index: Sequence[Any], mask: Any, where: str) -> None:
        for dim, (values, size) in enumerate(zip(index, gm.array.shape, strict=True)):
            bad = (np.asarray(values) < 0) | (np.asarray(values) >= size)
            if mask is not None:
                bad = bad & mask
            if bad.any():
                values = np.broadcast_to(np.asarray(values), bad.shape)
                raise ExecutionError(
                    f"index out of bounds in dimension {dim} of '{gm.name}'",
                    where=where,
                    expected=f"0 to {size - 1}",
                    got=int(values[bad][0]),
                )

    # -- memory -------------------------------------------------------------------------------

    def _slices(self, index: Sequence[Expr], axes: Sequence[str]) -> tuple[tuple[Any, ...], list[str]] | None:
        """Basic slices for an index whose dims are `axis + scalar` or scalars; with the axes in dim order."""
        slices: list[Any] = []
        order: list[str] = []
        scalars = self._scalars()
        for value in index:
            if any(isinstance(a, Func) and a.name == "read" for a in value.atoms()):
                return None
            used = [a for a in axes if a in value.names()]
            if not used:
                slices.append(int(self._evaluate(value, scalars)))
                continue
            if len(used) > 1 or used[0] in order or value.coefficient(used[0]) != 1:
                return None
            low, high = self._window(used[0])
            rest = int(self._evaluate(value - used[0], scalars))
            slices.append(slice(low + rest, max(low, high) + rest))
            order.append(used[0])
        return (tuple(slices), order) if len(order) == len(axes) else None

    def _plain(
        self, op: LoadOp | StoreOp, gm: _Gm, axes: Sequence[str]
    ) -> tuple[tuple[Any, ...], list[str]] | None:
        if op.guards:
            return None
        found = self._slices(op.index, axes)
        if found is None:
            return None
        for item, size in zip(found[0], gm.array.shape, strict=True):
            low, high = (item, item + 1) if isinstance(item, int) else (item.start, item.stop)
            if low < high and (low < 0 or high > size):
                return None  # the general path reports it
        return found

    def _general(
        self, op: LoadOp | StoreOp, gm: _Gm, axes: Sequence[str]
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
        """Index arrays over the shape of the tile, and the guard mask."""
        names = self._coordinates(axes)
        shape = self._shape(axes)
        mask = self._mask(op.guards, names)
        index = []
        for value, size in zip(op.index, gm.array.shape, strict=True):
            found = np.asarray(self._evaluate(value, names))
            if any(isinstance(a, Func) and a.name == "read" for a in value.atoms()):
                found = np.where(found < 0, found + size, found)  # gather indices count from the end
            index.append(found)
        if 0 not in shape:
            self._bounds(gm, index, mask, self._at(op))
        if mask is not None:
            index = [np.clip(i, 0, max(0, s - 1)) for i, s in zip(index, gm.array.shape, strict=True)]
            mask = np.broadcast_to(mask, shape)
        return tuple(np.broadcast_to(i, shape) for i in index), mask

    def _load(self, op: LoadOp) -> np.ndarray:
        gm = self.gm[op.source]
        axes = tile_type(op.res).axes
        if plain := self._plain(op, gm, axes):
            slices, order = plain
            self._check_ws(op, gm, slices, None)
            return np.transpose(gm.array[slices], [order.index(a) for a in axes]).copy()
        index, mask = self._general(op, gm, axes)
        if mask is None:
            self._check_ws(op, gm, index, None)
            return gm.array[index]
        otherwise = np.asarray(op.otherwise).astype(gm.array.dtype)
        if gm.array.size == 0:
            return np.full(mask.shape, otherwise)
        self._check_ws(op, gm, index, mask)
        return np.where(mask, gm.array[index], otherwise)

    def _check_ws(self, op: LoadOp, gm: _Gm, index: Any, mask: np.ndarray | None) -> None:
        if gm.writer is None or gm.phase is None:
            return
        what = "output" if gm.role == "out" else "workspace"
        writer, phase = gm.writer[index], gm.phase[index]
        bad = writer == -2
        other = (phase == self.phase) & (writer != self.point)
        if mask is not None:
            bad, other = bad & mask, other & mask
        if bad.any():
            raise ExecutionError(f"{what} '{gm.name}' is read before it is written", where=self._at(op))
        if other.any():
            raise ExecutionError(
                f"{what} '{gm.name}' is read where another core wrote since the last sync",
                where=self._at(op),
                hint="close the grid, add tile.sync and read in a second grid",
            )

    def _store(self, op: StoreOp) -> None:
        gm = self.gm[op.target]
        axes = tile_type(op.value).axes
        value = convert(self._get(op.value), dt.of_numpy(gm.array.dtype))
        if plain := self._plain(op, gm, axes):
            slices, order = plain
            value = np.transpose(value, [axes.index(a) for a in order])
            index: Any = slices
        else:
            index, mask = self._general(op, gm, axes)
            value = np.broadcast_to(value, index[0].shape if index else ())
            if mask is not None and not index:  # a rank-0 array: there is nothing to select from
                if not mask.any():
                    return
            elif mask is not None:
                index, value = tuple(i[mask] for i in index), value[mask]
        if op.add:
            gm.adds = True
            np.add.at(gm.array, index, value)
            return
        if gm.writes is not None:
            np.add.at(gm.writes, index, 1)
            if (gm.writes[index] > 1).any():
                raise ExecutionError(f"an element of output '{gm.name}' is written twice", where=self._at(op))
        if gm.writer is not None and gm.phase is not None:
            if ((gm.phase[index] == self.phase) & (gm.writer[index] != self.point)).any():
                raise ExecutionError(
                    f"two cores write the same element of workspace '{gm.name}' between two syncs",
                    where=self._at(op),
                )
            gm.writer[index] = self.point
            gm.phase[index] = self.phase
        gm.array[index] = value

    # -- compute ------------------------------------------------------------------------------

    def _aligned(self, value: SSAValue, axes: Sequence[str]) -> np.ndarray:
        array, own = self._get(value), tile_type(value).axes
        return array.reshape([array.shape[own.index(a)] if a in own else 1 for a in axes])

    def _compute(self, op: Operation) -> list[np.ndarray]:
        match op:
            case LoadOp():
                return [self._load(op)]
            case FillOp():
                result = tile_type(op.res)
                return [np.full(self._shape(result.axes), op.value).astype(self._numpy(result.dtype))]
            case IndexOp():
                result = tile_type(op.res)
                value = self._evaluate(op.value, self._coordinates(result.axes))
                shape = self._shape(result.axes)
                return [np.broadcast_to(np.asarray(value), shape).astype(self._numpy(result.dtype))]
            case MapOp():
                return [self._map(op)]
            case ViewOp():
                return [self._view(op)]
            case MoveOp():
                kind = tile_type(op.res).dtype
                return [self._get(op.source).astype(self._numpy(kind))]
            case ReduceOp():
                monoid = monoids.by_name(op.monoid)
                axes = tile_type(op.args[0]).axes
                folded = tuple(axes.index(a) for a in op.over)
                return [monoid.fold(self._get(v), folded) for v in op.args]
            case MergeOp():
                monoid = monoids.by_name(op.monoid)
                pairs = zip(op.first, op.second, strict=True)
                return [np.asarray(monoid.merge(self._get(a), self._get(b))) for a, b in pairs]
            case ScanOp():
                return self._scan(op)
            case RankOp():
                return [self._rank(op)]
            case RankedOp():
                pairs = self._get(op.state)
                return [pairs[..., int(op.what == PLACES) :: 2].astype(self._numpy(tile_type(op.res).dtype))]
            case ContractOp():
                return [self._contract(op)]
            case CallOp():
                function = TILE_FUNCTIONS.get(op.function)
                if function is None:
                    raise ExecutionError(
                        f"no numpy meaning for tile function '{op.function}'",
                        where=self._at(op),
                        hint="add it to gaf.dialects.tile.interpreter.TILE_FUNCTIONS",
                    )
                found = function(*(self._get(v) for v in op.args))
                return list(found) if isinstance(found, tuple) else [found]
        raise ExecutionError(f"the tile interpreter doesn't know {op.name}", where=self._at(op))

    def _map(self, op: MapOp) -> np.ndarray:
        result = tile_type(op.res)
        args = [self._aligned(v, result.axes) for v in op.args]
        if op.function == "cast":
            if self.wide and result.dtype.is_float:
                return args[0].astype(np.float64)
            return convert(args[0], result.dtype)
        value = np.asarray(FUNCTIONS[op.function].numpy(*args))
        return value.astype(self._numpy(result.dtype), copy=False)

    def _view(self, op: ViewOp) -> np.ndarray:
        source = self.values[op.source]
        axes = tile_type(op.res).axes
        names = self._coordinates(axes)
        bound = dict(op.bindings)
        index = []
        shape = self._shape(axes)
        for axis, size in zip(source.axes, source.array.shape, strict=True):
            coordinate = np.asarray(self._evaluate(bound[axis], names) if axis in bound else names[axis])
            coordinate = coordinate - source.origin[axis]
            if 0 not in shape and ((coordinate < 0) | (coordinate >= size)).any():
                raise ExecutionError(
                    f"tile.view reads outside the window of '{axis}'",
                    where=self._at(op),
                    expected=f"[{source.origin[axis]}, {source.origin[axis] + size})",
                )
            index.append(np.broadcast_to(coordinate, shape))
        return source.array[tuple(index)] if index else source.array.copy()

    def _scan(self, op: ScanOp) -> list[np.ndarray]:
        monoid = monoids.by_name(op.monoid)
        value, carry = self._get(op.value), self._get(op.carry)
        along = tile_type(op.value).axes.index(op.over)
        prefix = np.empty_like(value)
        for i in range(value.shape[along]):
            at = (slice(None),) * along + (i,)
            before, carry = carry, np.asarray(monoid.merge(carry, value[at])).astype(value.dtype)
            prefix[at] = before if op.exclusive else carry
        return [prefix, carry]

    def _rank(self, op: RankOp) -> np.ndarray:
        """The first pairs of the state and the window together; a state that nothing was joined to is empty."""
        value, pairs = self._get(op.value), self._get(op.state).copy()
        first, most = self.values[op.value].origin[op.over], pairs.shape[-1] // 2
        seen = min(first, most)
        places = np.broadcast_to(np.arange(first, first + value.shape[-1]), value.shape).astype(value.dtype)
        values = np.concatenate([pairs[..., : 2 * seen : 2], value], -1)
        places = np.concatenate([pairs[..., 1 : 2 * seen : 2], places], -1)
        order = stable_order(values, -1, op.order)[..., :most]
        count = order.shape[-1]
        pairs[..., : 2 * count : 2] = np.take_along_axis(values, order, -1)
        pairs[..., 1 : 2 * count : 2] = np.take_along_axis(places, order, -1)
        return pairs

    def _contract(self, op: ContractOp) -> np.ndarray:
        a, b, result = tile_type(op.a), tile_type(op.b), tile_type(op.res)
        letters = {axis: chr(97 + i) for i, axis in enumerate(dict.fromkeys((*a.axes, *b.axes)))}
        spec = ["".join(letters[x] for x in t.axes) for t in (a, b, result)]
        kind = self._numpy(result.dtype)
        operands = [self._get(v).astype(kind) for v in (op.a, op.b)]
        value = np.einsum(f"{spec[0]},{spec[1]}->{spec[2]}", *operands, optimize=True)
        if op.acc is not None:
            value = self._get(op.acc) + value
        return value.astype(kind, copy=False)

    def _at(self, owner: Operation | Block) -> str:
        return f"{self.where}: {owner.name}" if isinstance(owner, Operation) else self.where
