# SPDX-License-Identifier: Apache-2.0
"""A group of graph ops as one set of named axes: the analysis behind legality, cost and lowering.

`build_region` starts at the outputs and pulls values back through the group: elementwise ops become `map`
nodes, views disappear into index expressions, reductions bind an axis, matmuls become `contract` nodes, and
what remains are loads of external values with index maps. Equal sub-computations are one node (hash
consing), so two readers of a value at the same index share it, and a reader at another index gets its own
copy. Nothing here looks at op names, only at `op.meaning()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import scalar
from gaf.dialects.common.index import Expr, Func, const, map_atoms, product, sym
from gaf.dialects.common.monoid import by_name
from gaf.dialects.common.order import PLACES
from gaf.dialects.graph.contract import GraphOp, location_name, tensor_type
from gaf.dialects.graph.meaning import Dim, Guard, Meaning, Opaque, Piece, Rank, Read, Stage, View
from gaf.dialects.graph.ops.structure import ConstantOp
from gaf.dialects.graph.types import TensorType
from gaf.fusion import integers
from gaf.fusion.axes import collapse, find_split, prune
from gaf.fusion.bounds import SMALL, Bounds
from gaf.fusion.nodes import (
    Handed,
    Node,
    NotFusible,
    Output,
    Region,
    address,
    direct_names,
    read_elements,
    reads_in,
    region_bytes,
)
from gaf.fusion.piecewise import guard_names, pull_padded, pull_pieces

__all__ = [
    "Builder", "Handed", "Node", "NotFusible", "Output", "Region", "address", "build_region", "direct_names", "is_product_sum",
    "read_elements", "reads_in", "region_bytes",
]  # fmt: skip

SEVERAL_PASSES = "gaf.several_passes"
"""Attribute of an op: its reductions aren't folded in one pass with those that they depend on."""

_PRODUCT = scalar.Call("mul", (scalar.Arg(0), scalar.Arg(1)))


def is_product_sum(stage: Stage) -> bool:
    """A stage of the form of a matmul: the sum of products of two operands."""
    return stage.monoid == "sum" and stage.body == _PRODUCT


class Builder:
    """Pulls values back to loads; see the module docstring."""

    def __init__(self, ops: Iterable[Operation], strict: bool) -> None:
        self.members = set(ops)
        self.strict = strict
        self.region = Region(one_pass=not strict and not any(SEVERAL_PASSES in op.attributes for op in self.members))
        self.table: dict[tuple[Node, str], int] = {}
        self.memo: dict[tuple, int] = {}
        self.meanings: dict[Operation, Meaning | View | Opaque] = {}
        self.input_numbers: dict[SSAValue, int] = {}
        self.origin = ""
        self.sum_axes: dict[tuple[SSAValue, str, Expr], str] = {}  # left matmul operand -> its summed axes
        self.context: list[tuple[Expr, ...]] = []  # the indices at which enclosing stages are evaluated
        self.bounds = Bounds()
        self.kind = dt.F32  # of the stage whose body is built
        self.guards: tuple[Guard, ...] = ()  # where the value that is being pulled counts

    # -- nodes ----------------------------------------------------------------------------------

    def add(self, node: Node) -> int:
        key = (node, repr(node.value))  # -0.0 == 0.0
        number = self.table.get(key)
        if number is None:
            number = self.table[key] = len(self.region.nodes)
            self.region.nodes.append(node)
            self.region.origins[number] = self.origin
        return number

    def node(self, number: int) -> Node:
        return self.region.nodes[number]

    def number(self, value: float, dtype: dt.DType) -> int:
        return self.add(Node("number", dtype, value=float(value)))

    def map(self, function: str, args: Sequence[int], dtype: dt.DType) -> int:
        if function == "cast" and self.node(args[0]).dtype == dtype:
            return args[0]
        axes = frozenset().union(*(self.node(a).axes for a in args)) if args else frozenset()
        return self.add(Node("map", dtype, axes, tuple(args), function))

    def axis(self, extent: Expr, taken: set[str], last: bool = False) -> str:
        """An axis to bind a reduced dim: an existing one of the same extent that the result doesn't use, the `last`
        or the first of them.

        The axes of the place that asks come first: the mean of a LayerNorm in front of a matmul runs over the
        matmul's summed axis, not over its columns, even if both have the same size.
        """
        for index in reversed(self.context):
            for e in reversed(index):
                name = e.as_name()
                if name is not None and name not in taken and self.region.axes.get(name) == extent:
                    return name
        names = reversed(list(self.region.axes)) if last else list(self.region.axes)
        for name in names:
            if self.region.axes[name] == extent and name not in taken:
                return name
        return self.fresh(extent)

    def summed(self, op: GraphOp, stage: Stage, dim: Dim) -> str:
        """The axis a matmul sums over: its own (columns may have the same size), shared by matmuls of one left operand."""
        key = (op.operands[stage.reads[0].operand or 0], dim.name, dim.extent)
        if key not in self.sum_axes:
            self.sum_axes[key] = self.fresh(dim.extent)
        return self.sum_axes[key]

    def fresh(self, extent: Expr) -> str:
        name = f"a{len(self.region.axes)}"
        self.region.axes[name] = extent
        return name

    # -- values -----------------------------------------------------------------------------------

    def pull(self, value: SSAValue, index: tuple[Expr, ...]) -> int:
        """The node for element `index` of `value`."""
        with self.reading(index):
            key = (value, index, self.guards)
            found = self.memo.get(key)
            if found is None:
                found = self.memo[key] = self._pull(value, index)
            return found

    @contextmanager
    def reading(self, index: Sequence[Expr]) -> Iterator[None]:
        """Forget the guards that can't matter to a value at `index`: an axis may mean something else below."""
        saved = self.guards
        if saved:
            names = {n for e in index for n in e.names()}
            self.guards = tuple(g for g in saved if guard_names(g) & names or not guard_names(g) & set(self.region.axes))
        yield
        self.guards = saved

    @contextmanager
    def under(self, guards: Sequence[Guard]) -> Iterator[None]:
        """Values pulled inside count only where `guards` hold."""
        saved = self.guards
        self.guards = (*saved, *(g for g in guards if g not in saved))
        yield
        self.guards = saved

    def view_of(self, value: SSAValue) -> tuple[GraphOp, View] | None:
        """The view of the group that makes a value."""
        owner = value.owner
        if not isinstance(owner, IRDLOperation) or owner not in self.members:
            return None
        assert isinstance(owner, GraphOp)
        meaning = self.meaning(owner)
        return (owner, meaning) if isinstance(meaning, View) else None

    def computed(self, value: SSAValue) -> bool:
        """True if a value isn't an array in memory: an op of the group makes it, or it is a number."""
        owner = value.owner
        return (isinstance(owner, IRDLOperation) and owner in self.members) or (
            isinstance(owner, ConstantOp) and owner.value.array.size == 1
        )

    def meaning(self, op: GraphOp) -> Meaning | View | Opaque:
        meaning = self.meanings.get(op)
        if meaning is None:
            meaning = self.meanings[op] = op.meaning()
        return meaning

    def _pull(self, value: SSAValue, index: tuple[Expr, ...]) -> int:
        owner = value.owner
        if isinstance(owner, ConstantOp) and owner.value.array.size == 1:
            kind = tensor_type(value).dtype
            if not (kind.is_int and abs(int(owner.value.array.reshape(-1)[0])) > 1 << 24):
                return self.number(float(owner.value.array.reshape(-1)[0]), dt.BOOL if kind.is_bool else dt.F32)
        if not isinstance(owner, IRDLOperation) or owner not in self.members:
            return self.load(value, index, self.guards, 0.0)
        assert isinstance(owner, GraphOp)
        meaning = self.meaning(owner)
        if isinstance(meaning, Opaque):
            raise NotFusible(f"{owner.name}: {meaning.reason}")
        if isinstance(meaning, View) and not meaning.is_simple:
            saved, self.origin = self.origin, location_name(owner) or owner.name
            result = pull_pieces(self, owner, meaning, index)
            self.origin = saved
            return result
        if isinstance(meaning, View):
            piece = meaning.pieces[0]
            env = {f"d{i}": e for i, e in enumerate(index)}
            moved = tuple(self.resolve(owner, e.substitute(env, self.region.axes)) for e in piece.index)
            saved = self.origin
            if any(reads_in(e) for e in piece.index):  # a gather that fails has to name itself
                self.origin = location_name(owner) or owner.name
            result = self.pull(owner.operands[piece.operand], moved)
            self.origin = saved
            return result
        saved, self.origin = self.origin, location_name(owner) or owner.name
        result = self.stage(owner, meaning, meaning.results[list(owner.results).index(value)], index)
        self.origin = saved
        return result

    def load(self, value: SSAValue, index: tuple[Expr, ...], guards: Sequence[Guard] = (), fill: float | None = None) -> int:
        """The node of an external value; outside the guards it is `fill`."""
        type_ = tensor_type(value)
        if any(d == 0 for d in type_.shape):
            raise NotFusible("an empty tensor: there is nothing for a kernel to do")
        if type_.dtype == dt.F64:
            raise NotFusible("float64 has no vector unit on this chip; it stays on the host")
        if guards and any(reads_in(e) for e in index):
            raise NotFusible("a gather inside a padded or concatenated value needs its own kernel")
        number = self.input_numbers.setdefault(value, len(self.input_numbers))
        if number == len(self.region.inputs):
            self.region.inputs.append(value)
        names = {n for e in index for n in e.names()} | {n for g in guards for n in guard_names(g)}
        axes = frozenset(names & set(self.region.axes))
        kept = tuple(dict.fromkeys(guards))
        outside = float(fill) if kept and fill is not None else 0.0
        return self.add(Node("load", type_.dtype, axes, index=index, input=number, guards=kept, value=outside))

    def stage(self, op: GraphOp, meaning: Meaning, number: int, index: tuple[Expr, ...]) -> int:
        with self.reading(index):
            key = (op, number, index, self.guards)
            found = self.memo.get(key)
            if found is None:
                found = self.memo[key] = self._stage(op, meaning, meaning.stages[number], index)
            return found

    def _stage(self, op: GraphOp, meaning: Meaning, stage: Stage, index: tuple[Expr, ...]) -> int:
        self.context.append(index)
        env: dict[str, Expr] = {d.name: e for d, e in zip(stage.dims, index)}
        over: list[str] = []
        if stage.reduced:
            taken = {n for e in index for n in e.names()} | {n for g in self.guards for n in guard_names(g)}
            several = len(stage.reduced) > 1
            for dim in reversed(stage.reduced):  # the last dim first: of two axes of one size it has the last too
                if dim.extent == 1:
                    env[dim.name] = const(0)
                    continue
                shared = is_product_sum(stage)
                name = self.summed(op, stage, dim) if shared else self.axis(dim.extent, taken, several)
                taken.add(name)
                over.insert(0, name)
                env[dim.name] = sym(name)
        reads = [self.read(op, meaning, r, env) for r in stage.reads]
        self.context.pop()
        result = self.contraction(op, meaning, stage, reads, over, index)
        if result is None:
            self.kind = stage.dtype
            result = self.body(stage.body, reads, env, stage.dtype)
            if stage.rank is not None:
                result = self.rank(op, stage.rank, result, env, over)
            elif stage.scan is not None:
                result = self.scan(op, stage, result, env)
            elif over:
                arg = self.node(result)
                if not arg.axes.issuperset(over):
                    raise NotFusible(f"{op.name}: reduces an axis that its operand lacks")
                assert stage.monoid is not None
                result = self.reduction(result, stage.monoid, over)
        if self.strict and stage.dtype in (dt.F16, dt.BF16):
            result = self.map("cast", [result], stage.dtype)
        return result

    def rank(self, op: GraphOp, rank: Rank, number: int, env: Mapping[str, Expr], over: Sequence[str]) -> int:
        """The elements along an axis in order, in float32."""
        arg, place = self.node(number), env[rank.dim].as_name()
        if len(over) != 1 or over[0] not in arg.axes or place is None or place in arg.axes:
            raise NotFusible(f"{op.name}: the ordered elements are read at other places than one axis of the result")
        if arg.dtype.is_int:
            most = integers.bound(self, number)
            if most is None or most >= integers.EXACT_FLOAT:
                raise NotFusible(f"{op.name}: the order of {arg.dtype} numbers is not exact in float32; it stays on the host")
        source = self.map("cast", [number], dt.F32) if arg.dtype != dt.F32 else number
        axes = arg.axes - set(over) | {place}
        kind = dt.I32 if rank.what == PLACES else dt.F32
        result = self.add(Node("rank", kind, axes, (source,), rank.what, over=tuple(over), order=rank.order))
        if rank.what == PLACES or not arg.dtype.is_int:
            return result
        return self.map("cast", [result], arg.dtype if arg.dtype in SMALL else dt.I32)

    def scan(self, op: GraphOp, stage: Stage, number: int, env: Mapping[str, Expr]) -> int:
        """A running fold along an axis, in float32; of integers where that is exact."""
        scan, arg = stage.scan, self.node(number)
        assert scan is not None
        axis, extent = env[scan.dim].as_name(), next(d.extent for d in stage.dims if d.name == scan.dim)
        if extent == 1:
            return self.number(by_name(scan.monoid).identity, dt.F32) if scan.exclusive else number
        if axis is None or axis not in arg.axes or self.region.axes[axis] != extent:
            raise NotFusible(f"{op.name}: a running fold is read at other places than one axis of the result")
        if arg.dtype.is_int or arg.dtype.is_bool:
            most = integers.bound(self, number)
            terms = extent.as_int() if scan.monoid == "sum" else 1
            limit = min(integers.EXACT_FLOAT, SMALL.get(self.kind, integers.EXACT_FLOAT) + 1)
            if scan.monoid == "prod" or most is None or terms is None or most * terms >= limit:
                raise NotFusible(f"{op.name}: a running fold of {arg.dtype} may not be exact in float32; it stays on the host")
        source = self.map("cast", [number], dt.F32) if arg.dtype != dt.F32 else number
        node = Node("scan", dt.F32, arg.axes, (source,), scan.monoid, over=(axis,), exclusive=scan.exclusive)
        result = self.add(node)
        return self.map("cast", [result], dt.I32) if arg.dtype.is_int else result

    def reduction(self, number: int, monoid: str, over: Sequence[str]) -> int:
        """A fold over axes, in float32; integers and predicates where that is exact."""
        arg = self.node(number)
        integer = arg.dtype.is_int
        if integer:
            most = integers.bound(self, number)
            terms = product(self.region.axes[a] for a in over).as_int() if monoid == "sum" else 1
            limit = min(integers.EXACT_FLOAT, SMALL.get(self.kind, integers.EXACT_FLOAT) + 1)
            if monoid == "prod" or most is None or terms is None or most * terms >= limit:
                raise NotFusible(f"a reduction of {arg.dtype} may not be exact in float32; it stays on the host")
        if arg.dtype.is_bool and monoid == "sum":
            raise NotFusible("a sum of bool stays on the host")
        source = self.map("cast", [number], dt.F32) if integer or arg.dtype.is_bool else number
        result = self.add(Node("reduce", dt.F32, arg.axes - set(over), (source,), monoid, over=tuple(over)))
        if integer:
            return self.map("cast", [result], dt.I32)
        if arg.dtype.is_bool:
            return self.map("ne", [result, self.number(0.0, dt.F32)], dt.BOOL)
        return result

    def read(self, op: GraphOp, meaning: Meaning, read: Read, env: Mapping[str, Expr]) -> int:
        index = tuple(self.resolve(op, e.substitute(env, self.region.axes)) for e in read.index)
        if read.stage is not None:
            return self.stage(op, meaning, read.stage, index)
        assert read.operand is not None
        if read.guards:
            return pull_padded(self, op, Piece(read.operand, read.index, read.guards), read.fill, env)
        return self.pull(op.operands[read.operand], index)

    def resolve(self, op: GraphOp, e: Expr) -> Expr:
        """Rename `read` tags from operand numbers to region inputs, pulling views of the index tensor."""

        def atom(found: Func) -> Expr | None:
            if found.name != "read" or found.tag.startswith("in"):
                return None
            node = self.node(self.pull(op.operands[int(found.tag)], found.args))
            if node.kind == "number":
                return const(int(node.value))
            if node.guards:
                raise NotFusible(f"{op.name}: the indices are padded or concatenated in the same group")
            if node.kind == "load" and node.dtype in (dt.I32, dt.I64):
                return Expr({(Func("read", node.index, f"in{node.input}"),): 1})
            raise NotFusible(f"{op.name}: the indices are computed in the same group")

        return map_atoms(e, atom)

    def contraction(
        self, op: GraphOp, meaning: Meaning, stage: Stage, reads: Sequence[int], over: Sequence[str], index: Sequence[Expr]
    ) -> int | None:
        """A matmul-like stage: a sum of products whose factors each have an axis of their own.

        Factors that aren't arrays in memory are computed in the group: the vector cores hand them to the cube. The
        right factor is the one with the last axis of the result: the cube stores rows.
        """
        if not is_product_sum(stage) or not over:
            return None
        a, b = (self.node(r) for r in reads)
        if not (a.axes - b.axes and b.axes - a.axes):
            return None
        if not a.axes & b.axes >= set(over):
            raise NotFusible("an operand of a matmul lacks an axis that is summed")
        factors = []
        for number, read in zip(reads, stage.reads):
            if self.node(number).kind != "load":
                made = meaning.stages[read.stage].dtype if read.stage is not None else None
                number = self.map("cast", [number], made or tensor_type(op.operands[read.operand or 0]).dtype)
            factors.append(number)
        last = [n for e in index for n in self.region.axes if n in e.names() and n in a.axes ^ b.axes][-1:]
        if last and last[0] in a.axes:
            factors.reverse()
        axes = (a.axes | b.axes) - set(over)
        return self.add(Node("contract", dt.F32, axes, tuple(factors), over=tuple(over)))

    def body(self, body: scalar.Scalar, reads: Sequence[int], env: Mapping[str, Expr], dtype: dt.DType) -> int:
        match body:
            case scalar.Arg(i):
                return reads[i]
            case scalar.Const(value):
                return self.number(value, dt.F32)
            case scalar.Extent(value):
                known = value.as_int()
                return self.number(known, dt.F32) if known is not None else self.add(Node("extent", dt.F32, index=(value,)))
            case scalar.Coord(dim):
                return self.coordinate(env[dim])
            case scalar.Call(function, operands, target):
                args = [self.body(o, reads, env, dtype) for o in operands]
                return self.compute(function, args, target)
        raise NotFusible(f"unknown scalar expression {body!r}")

    def coordinate(self, value: Expr) -> int:
        """An index expression as i32 data."""
        if reads_in(value):
            raise NotFusible("coordinates that are looked up in an index tensor")
        return self.add(Node("coord", dt.I32, frozenset(value.names() & set(self.region.axes)), index=(value,)))

    def reciprocal(self, args: list[int]) -> tuple[list[int], str]:
        """`x / c` as `x * (1/c)`: one scalar instruction instead of a broadcast and a division.

        The factor is rounded once, so the result is off by at most one more half ulp; `strict` keeps the division.
        """
        divisor = self.node(args[1])
        if divisor.kind != "number" or self.node(args[0]).kind == "number":
            return args, "div"
        factor = float(np.float32(1.0) / np.float32(divisor.value)) if divisor.value else float("inf")
        if not np.isfinite(factor) or abs(factor) < float(np.finfo(np.float32).tiny):
            return args, "div"
        return [args[0], self.number(factor, dt.F32)], "mul"

    def unchanged(self, function: str, args: list[int]) -> int | None:
        """The operand that `x * 1`, `x / 1` and `x - 0` return bit for bit; None for anything else.

        Not `x + 0`, which turns -0 into 0.
        """
        neutral = {"mul": 1.0, "div": 1.0, "sub": 0.0}.get(function)
        for value, other in ((0, 1), (1, 0)) if function == "mul" else ((0, 1),):
            if neutral is None or self.node(args[value]).dtype != dt.F32:
                continue
            number = self.node(args[other])
            if number.kind == "number" and number.value == neutral and not np.signbit(number.value):
                return args[value]
        return None

    def compute(self, function: str, args: list[int], target: dt.DType | None) -> int:
        kinds = [self.node(a).dtype for a in args]
        if function == "cast":
            assert target is not None
            if target == dt.F64 or kinds[0] == dt.F64:
                raise NotFusible("a cast to float64 stays on the host")
            if self.node(args[0]).kind == "number":
                if target.is_int and kinds[0].is_float:
                    return self.number(float(int(self.node(args[0]).value)), dt.F32)
                return self.number(self.node(args[0]).value, dt.BOOL if target.is_bool else dt.F32)
            if target.is_int and not (kinds[0].is_float or kinds[0].is_int or kinds[0].is_bool):
                raise NotFusible(f"no cast from {kinds[0]} to {target}")
            narrow = integers.cast(self, args[0], target) if target.is_int else None
            return narrow if narrow is not None else self.map("cast", args, target)
        if any(k.is_int and self.node(a).kind != "number" for a, k in zip(args, kinds)):
            return integers.compute(self, function, args)
        if function == "div" and not self.strict:
            args, function = self.reciprocal(args)
        if (same := self.unchanged(function, args)) is not None:
            return same
        result = scalar.FUNCTIONS[function].result
        if all(self.node(a).kind == "number" for a in args):
            folded = scalar.FUNCTIONS[function].numpy(*(np.float64(self.node(a).value) for a in args))
            return self.number(float(folded), dt.BOOL if result == "bool" else dt.F32)
        if result == "bool":
            return self.map(function, args, dt.BOOL)
        if function == "select":
            return self.map(function, args, dt.BOOL if kinds[1].is_bool and kinds[2].is_bool else dt.F32)
        if any(k.is_bool for k in kinds):
            logic = {"max": "or", "min": "and", "mul": "and"}.get(function)
            if logic is None or not all(k.is_bool for k in kinds):
                raise NotFusible(f"'{function}' on bool operands")
            return self.map(logic, args, dt.BOOL)
        return self.map(function, args, dt.F32)


def build_region(
    ops: Sequence[Operation],
    outputs: Sequence[SSAValue],
    strict: bool = False,
    place: Callable[[int, Output], Output] | None = None,
) -> Region:
    """Analyse a group of ops (any order) that yields `outputs`.

    `place` says where an output (by its number) goes that isn't a tensor of its own, but a part of one. Raises NotFusible with the reason if the group has no joint iteration space.
    """
    if any(d == 0 for v in outputs for d in tensor_type(v).shape):
        raise NotFusible("an empty tensor: there is nothing for a kernel to do")
    root = tensor_type(max(outputs, key=lambda v: tensor_type(v).rank)).shape
    factors = [[d] for d in root]
    for _ in range(MAX_SPLITS):
        region, owners = _analyse(ops, outputs, strict, root, factors)
        if place is not None:
            region.outputs = [place(i, o) for i, o in enumerate(region.outputs)]
        split = find_split(region, owners)
        if split is None:
            break
        dim, position, inner, outer = split
        factors[dim][position : position + 1] = [outer, inner]
    collapse(region)
    result = prune(region)
    if not result.axes:  # single elements only: a loop over one of them
        result.axes["a0"] = const(1)
    return result


MAX_SPLITS = 8
"""Dims of an output that are cut in two, because an operand sees the two parts apart (heads, channel groups)."""

Place = tuple[Expr, Expr]
"""Index expression and extent of a dim of the root output."""


def _analyse(
    ops: Sequence[Operation], outputs: Sequence[SSAValue], strict: bool, root: Sequence[Expr], factors: Sequence[Sequence[Expr]]
) -> tuple[Region, dict[str, tuple[int, int]]]:
    """The region with one axis for every factor of every root dim, and axis -> (dim, position of the factor)."""
    builder = Builder(ops, strict)
    owners: dict[str, tuple[int, int]] = {}
    places: list[Place | None] = []
    for dim, (size, parts) in enumerate(zip(root, factors)):
        if size == 1:
            places.append(None)
            continue
        index = const(0)
        for position, part in enumerate(parts):
            name = builder.fresh(part)
            owners[name] = dim, position
            index = index * part + sym(name)
        places.append((index, size))
    for value in outputs:
        type_ = tensor_type(value)
        index_ = _output_index(builder, type_, [p for p in places if p is not None])
        builder.region.outputs.append(Output(builder.pull(value, index_), index_, type_))
    return builder.region, owners


def _output_index(builder: Builder, type_: TensorType, root: Sequence[Place]) -> tuple[Expr, ...]:
    """Axes for an output: those of the root output in order where extents agree, else fresh ones."""
    free = list(root)
    index: list[Expr] = []
    sizes = [d for d in type_.shape if d != 1]
    if len(sizes) == len(free) and all(size == d for (_, size), d in zip(free, sizes)):
        chosen = iter(free)
        return tuple(const(0) if d == 1 else next(chosen)[0] for d in type_.shape)
    for dim in type_.shape:
        if dim == 1:
            index.append(const(0))
            continue
        match = next((i for i, (_, size) in enumerate(free) if size == dim), None)
        if match is None:
            index.append(sym(builder.fresh(dim)))
        else:
            index.append(free[match][0])
            free = free[match + 1 :]
    return tuple(index)
