# SPDX-License-Identifier: Apache-2.0
"""A small builder for tile kernels: lowerings and tests write kernels against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.dialects.builtin import UNKNOWN_LOC, IntegerAttr, LocationAttr, NameLoc, NoneAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import ExprLike
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.dialects.tile.attributes import Axis, Guard
from gaf.dialects.tile.compute import CallOp, FillOp, IndexOp, MapOp, ViewOp
from gaf.dialects.tile.folds import ContractOp, MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.dialects.tile.types import GmType, TileType
from gaf.errors import InternalError

GuardLike = Guard | tuple[ExprLike, ExprLike, ExprLike]


def gm(shape: Iterable[ExprLike], element: dt.DType, role: str = "in") -> GmType:
    """`!tile.gm<shape, element, role>`; a dim is an int, a symbol name or an Expr."""
    return GmType.of(shape, element, role)


def name_location(name: str) -> LocationAttr:
    """The location of a model node: it becomes the comment and GAF_AT of the calls lowered from an op."""
    return NameLoc(StringAttr(name), NoneAttr())


class Loop:
    """An open `tile.for`: `carried` are the states inside, `yield_` closes it, `results` are its values."""

    def __init__(self, builder: KernelBuilder, axis: str, carried: tuple[SSAValue, ...]) -> None:
        self.carried = carried
        self.axis = axis
        self._builder = builder
        self._yielded: tuple[list[SSAValue], list[SSAValue]] | None = None
        self._results: tuple[SSAValue, ...] | None = None

    def yield_(self, carried: Sequence[SSAValue] = (), collect: Sequence[SSAValue] = ()) -> None:
        """End the body: the next states, then the tiles collected over the whole window. Once per loop."""
        if self._yielded is not None:
            raise InternalError(f"the loop over '{self.axis}' yields twice")
        self._yielded = (list(carried), list(collect))

    @property
    def results(self) -> tuple[SSAValue, ...]:
        """Carried states, then collected tiles; available after the `with` block."""
        if self._results is None:
            raise InternalError(f"the loop over '{self.axis}' is still open: no results yet")
        return self._results


class KernelBuilder:
    """Builds one `tile.kernel` in program order.

        kb = KernelBuilder("scale", [("x", gm(["M", "K"], F16)), ("y", gm(["M", "K"], F16, "out"))],
                           symbols=["M", "K"], axes={"m": "M", "k": "K"}, params={"tm": minimum(64, "M")})
        with kb.grid([("m", "tm")]):
            x = kb.cast(kb.load("x", ["m", "k"], axes=("m", "k")), F32)
            kb.store(kb.cast(kb.map("mul", x, kb.fill(0.5, F32)), F16), "y", ["m", "k"])
        kernel = kb.finish()

    Arguments and workspaces are named by string or by value. `location` is stamped on every op made after
    it is set (see `at`).
    """

    def __init__(
        self,
        name: str,
        args: Sequence[tuple[str, GmType]],
        symbols: Sequence[str] = (),
        axes: Mapping[str, ExprLike] | Sequence[tuple[str, ExprLike] | Axis] = (),
        params: Mapping[str, ExprLike] | Sequence[tuple[str, ExprLike]] = (),
        guards: Sequence[ExprLike] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        block = Block(arg_types=[t for _, t in args])
        for arg, (arg_name, _) in zip(block.args, args, strict=True):
            arg.name_hint = arg_name
        self.kernel = KernelOp(
            name, [n for n, _ in args], symbols, axes, params, guards, Region(block), attributes
        )
        self.args: dict[str, SSAValue] = dict(zip((n for n, _ in args), block.args, strict=True))
        self.location: LocationAttr = UNKNOWN_LOC
        self._order = [a.name for a in self.kernel.axes]
        self._insert = Builder(InsertPoint.at_end(block))

    # -- structure ----------------------------------------------------------------------------

    @contextmanager
    def at(self, location: LocationAttr | str) -> Iterator[None]:
        """Ops made inside come from `location` (a model node name or a location attribute)."""
        saved = self.location
        self.location = name_location(location) if isinstance(location, str) else location
        try:
            yield
        finally:
            self.location = saved

    @contextmanager
    def grid(self, steps: Sequence[tuple[str, ExprLike]], sub: str | None = None) -> Iterator[None]:
        """Windows of `steps` (axis, step) shared out to cores; the `sub` axis is halved between the AIVs."""
        block = Block()
        self._add(GridOp(steps, Region(block), sub))
        with self._inside(block):
            yield

    @contextmanager
    def for_(
        self,
        axis: str,
        step: ExprLike,
        carried: Sequence[SSAValue] = (),
        bounds: tuple[ExprLike, ExprLike] | None = None,
        attributes: Mapping[str, int] | None = None,
    ) -> Iterator[Loop]:
        """Sequential loop over the current window of `axis` (or over `bounds`) in steps of `step`."""
        block = Block(arg_types=[c.type for c in carried])
        for arg, value in zip(block.args, carried, strict=True):
            arg.name_hint = value.name_hint
        loop = Loop(self, axis, tuple(block.args))
        with self._inside(block):
            yield loop
            next_states, collected = loop._yielded or ([], [])
            self._add(YieldOp(next_states, collected))
        op = ForOp(axis, step, carried, Region(block), bounds)
        op.attributes.update(_strategy(attributes or {}))
        self._add(op)
        loop._results = tuple(op.results)

    def workspace(self, shape: Iterable[ExprLike], dtype: dt.DType, name: str = "ws") -> SSAValue:
        """A scratch array in global memory, usable by name like an argument."""
        value = self._add(WorkspaceOp(GmType.of(shape, dtype, "ws")), name).results[0]
        self.args[name] = value
        return value

    def sync(self) -> None:
        """Earlier stores become visible to all cores; between grids only."""
        self._add(SyncOp())

    # -- memory -------------------------------------------------------------------------------

    def load(
        self,
        arg: str | SSAValue,
        index: Sequence[ExprLike],
        axes: Sequence[str],
        dtype: dt.DType | None = None,
        space: str = "ub",
        where: Sequence[GuardLike] = (),
        otherwise: int | float | None = None,
        buffers: int | None = None,
    ) -> SSAValue:
        """`out[axes] = arg[index]`, `otherwise` outside the guards; `dtype` defaults to that of `arg`."""
        source = self._gm(arg)
        gm_type = source.type
        assert isinstance(gm_type, GmType)
        result = TileType.of(axes, dtype or gm_type.dtype, space)
        op = LoadOp(source, index, result, where, otherwise)
        op.attributes.update(_strategy({"buffers": buffers}))
        return self._add(op).results[0]

    def store(
        self,
        value: SSAValue,
        arg: str | SSAValue,
        index: Sequence[ExprLike],
        where: Sequence[GuardLike] = (),
        add: bool = False,
    ) -> None:
        """`arg[index] = value` (or `+=` with `add`) inside the guards."""
        self._add(StoreOp(value, self._gm(arg), index, where, add))

    def move(
        self,
        value: SSAValue,
        space: str | None = None,
        slots: int | None = None,
        dtype: dt.DType | None = None,
    ) -> SSAValue:
        """Hand a tile to the other unit: ub -> l1 and l0c -> ub by default, l0c -> l1 with space="l1"."""
        source = _tile(value)
        space = space or ("l1" if source.space == "ub" else "ub")
        op = MoveOp(value, TileType.of(source.axes, dtype or source.dtype, space))
        op.attributes.update(_strategy({"slots": slots}))
        return self._add(op).results[0]

    # -- compute ------------------------------------------------------------------------------

    def fill(self, value: int | float | bool, dtype: dt.DType, axes: Sequence[str] = ()) -> SSAValue:
        """A constant tile."""
        return self._add(FillOp(value, TileType.of(axes, dtype))).results[0]

    def index(self, value: ExprLike, axes: Sequence[str], dtype: dt.DType = dt.I32) -> SSAValue:
        """Coordinates as data: an expression over axes and symbols."""
        return self._add(IndexOp(value, TileType.of(axes, dtype))).results[0]

    def map(
        self,
        function: str,
        *operands: SSAValue,
        axes: Sequence[str] | None = None,
        dtype: dt.DType | None = None,
    ) -> SSAValue:
        """A scalar function applied element by element; operands are aligned by axis name.

        The result has the union of the operand axes in kernel axis order unless `axes` says otherwise; its
        dtype is that of the operands, i1 for predicates, and has to be given for "cast".
        """
        types = [_tile(o) for o in operands]
        if axes is None:
            axes = self.union_axes(types)
        if dtype is None:
            kind = FUNCTIONS[function].result if function in FUNCTIONS else "same"
            if kind == "cast":
                raise InternalError("map 'cast' needs a dtype")
            dtype = dt.BOOL if kind == "bool" else types[-1].dtype
        return self._add(MapOp(function, operands, TileType.of(axes, dtype))).results[0]

    def cast(self, value: SSAValue, dtype: dt.DType) -> SSAValue:
        """Conversion of dtype; the value itself when it has that dtype already."""
        return value if _tile(value).dtype == dtype else self.map("cast", value, dtype=dtype)

    map_cast = cast

    def view(self, value: SSAValue, axes: Sequence[str], **bindings: ExprLike) -> SSAValue:
        """`out[axes] = value[k = e(axes)]`: transpose, split, window or slice on chip."""
        source = _tile(value)
        return self._add(ViewOp(value, bindings, TileType.of(axes, source.dtype))).results[0]

    def reduce(self, monoid: str, value: SSAValue, over: Sequence[str]) -> SSAValue:
        """Fold the current window of the axes `over`."""
        return self._add(ReduceOp(monoid, [value], over)).results[0]

    def merge(self, monoid: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Join two states of a monoid."""
        return self._add(MergeOp(monoid, [a], [b])).results[0]

    def scan(
        self, monoid: str, value: SSAValue, carry: SSAValue, over: str, exclusive: bool = False
    ) -> tuple[SSAValue, SSAValue]:
        """Prefix fold along `over` starting from `carry`; returns (prefix, new carry)."""
        prefix, last = self._add(ScanOp(monoid, value, carry, over, exclusive)).results
        return prefix, last

    def rank(self, order: str, value: SSAValue, state: SSAValue, over: str) -> SSAValue:
        """The state with the current window of `value` joined to it."""
        return self._add(RankOp(order, value, state, over)).results[0]

    def ranked(self, what: str, order: str, state: SSAValue, axes: Sequence[str]) -> SSAValue:
        """The values or places of a state of ordered pairs."""
        return self._add(RankedOp(what, order, state, tuple(axes))).results[0]

    def contract(
        self,
        a: SSAValue,
        b: SSAValue,
        axes: Sequence[str] | None = None,
        acc: SSAValue | None = None,
        dtype: dt.DType | None = None,
    ) -> SSAValue:
        """Sum of products over the axes that `a` and `b` share and the result lacks.

        Without `axes` the result has the axes that one operand only has: those of `a`, then those of `b`.
        """
        ta, tb = _tile(a), _tile(b)
        if axes is None:
            axes = [x for x in ta.axes if x not in tb.axes] + [x for x in tb.axes if x not in ta.axes]
        dtype = dtype or (dt.F32 if ta.dtype.is_float else dt.I32)
        return self._add(ContractOp(a, b, TileType.of(axes, dtype, "l0c"), acc)).results[0]

    def call(
        self, function: str, operands: Sequence[SSAValue], result_types: Sequence[TileType]
    ) -> tuple[SSAValue, ...]:
        """An opaque tile function."""
        return tuple(self._add(CallOp(function, operands, result_types)).results)

    # -- end ----------------------------------------------------------------------------------

    def finish(self, verify: bool = True) -> KernelOp:
        """The finished kernel; raises xdsl VerifyException if it breaks a rule of the dialect."""
        if verify:
            self.kernel.verify()
        return self.kernel

    def union_axes(self, types: Iterable[TileType]) -> list[str]:
        """The axes of all types, in kernel axis order."""
        present = {a for t in types for a in t.axes}
        return [a for a in self._order if a in present]

    def _gm(self, arg: str | SSAValue) -> SSAValue:
        if isinstance(arg, SSAValue):
            return arg
        if arg not in self.args:
            raise InternalError(f"kernel '{self.kernel.sym_name.data}' has no argument '{arg}'", got=arg)
        return self.args[arg]

    def _add(self, op: Operation, name: str | None = None) -> Operation:
        op.location = self.location
        self._insert.insert(op)
        if name is not None:
            op.results[0].name_hint = name
        return op

    @contextmanager
    def _inside(self, block: Block) -> Iterator[None]:
        saved = self._insert
        self._insert = Builder(InsertPoint.at_end(block))
        try:
            yield
        finally:
            self._insert = saved


def _tile(value: SSAValue) -> TileType:
    if not isinstance(value.type, TileType):
        raise InternalError(f"expected a tile, got {value.type}")
    return value.type


def _strategy(values: Mapping[str, int | None]) -> dict[str, Attribute]:
    return {k: IntegerAttr(v, i64) for k, v in values.items() if v is not None}
