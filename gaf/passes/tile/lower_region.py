# SPDX-License-Identifier: Apache-2.0
"""Emit the tile kernel of a region under a schedule: loops, loads, maps, reductions, stores.

Tile sizes stay open: steps are the parameters `tm` (rows), `tn` (lanes), `bm` (rows of a matmul block) and `tk` (columns of a stack), which
`tile-plan` binds to host expressions once the memory plan is known.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, Func, const, map_atoms, product, sym
from gaf.dialects.common.names import short_name
from gaf.dialects.tile.builder import KernelBuilder, gm
from gaf.dialects.tile.structure import KernelOp
from gaf.fusion.cube_schedules import node_phases
from gaf.fusion.region import Handed, Node, NotFusible, Output, Region, reads_in
from gaf.fusion.schedule import MatMul, Schedule, Stage
from gaf.passes.tile.blocks import even_columns, grid_columns, looped_rows
from gaf.passes.tile.cube import MAX_ROWS
from gaf.passes.tile.lower_folds import FoldEmitter
from gaf.passes.tile.lower_looped import LoopedEmitter
from gaf.passes.tile.lower_ranks import RankEmitter
from gaf.passes.tile.lower_scans import ScanEmitter

UNIT = "u"  # axis of extent 1 for kernels without a parallel axis
STRIDE = 25  # levels of a region that one recursion of the emission goes down at most
KEPT_ELEMENTS = 8192  # of operands that stay in UB for the whole kernel: a sixth of it as f32


def _free(name: str, taken: Collection[str]) -> str:
    """`name`, with underscores added until it isn't taken."""
    while name in taken:
        name += "_"
    return name


def argument_names(
    region: Region, output_names: Sequence[str | None] = (), symbols: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Short, C-legal, distinct names for the inputs and outputs of a kernel."""
    taken = {"m", "n", "k", "p", "q", "r", UNIT, *(f"g{i}" for i in range(8)), *symbols}

    def unique(stem: str | None, fallback: str) -> str:
        base = short_name(stem or "", fallback)
        name, i = base, 1
        while name in taken:
            name, i = f"{base}_{i}", i + 1
        taken.add(name)
        return name

    inputs = [unique(v.name_hint, f"x{i}") for i, v in enumerate(region.inputs)]
    outputs = [
        unique(output_names[i] if i < len(output_names) else None, f"y{i}") for i in range(len(region.outputs))
    ]
    return inputs, outputs


def lower_region(
    region: Region, schedule: Schedule, name: str, output_names: Sequence[str | None] = (), members: Sequence[str] = ()
) -> KernelOp:
    """The tile kernel `name`; arguments are the region's inputs, then its outputs.

    `members` are the model nodes it computes, for reports and comments.
    """
    sizes = {x for node in region.nodes if node.kind == "extent" for e in node.index for x in e.names()}
    symbols = sizes | {x for t in (*region.input_types, *(o.type for o in region.outputs)) for x in t.symbols()}
    inputs, outputs = argument_names(region, output_names, symbols)
    emitters = []
    handed: dict[Handed, str] = {}
    arrays = dict(zip(region.inputs, inputs))
    stages = schedule.stages or (Stage(region, schedule, tuple(range(len(outputs)))),)
    spaces: dict[tuple, str] = {}
    for stage in stages:
        for target in stage.stores:
            if isinstance(target, Handed) and target not in handed:
                handed[target] = _free(target.name_hint, {*symbols, *inputs, *outputs, *handed.values()})
        emitters.append(
            RegionEmitter(
                stage.region,
                stage.schedule,
                [_array(v, arrays, handed, outputs) for v in stage.region.inputs],
                [handed[t] if isinstance(t, Handed) else outputs[t] for t in stage.stores],
                {*symbols, *(n for n in (*inputs, *outputs) if schedule.stages)},
                spaces.setdefault(_space(stage), str(len(spaces))) if schedule.stages else "",
            )
        )
    args = [(n, gm(t.shape, t.dtype)) for n, t in zip(inputs, region.input_types)]
    args += [(n, gm(o.type.shape, o.type.dtype, "out")) for n, o in zip(outputs, region.outputs)]
    axes = {a: size for e in emitters for a, size in e.axes.items()}
    params = {n: value for e in emitters for n, value in e.params.items()}
    used = {s for _, t in args for d in t.shape for s in d.names()} | {s for e in axes.values() for s in e.names()}
    used |= sizes  # computed with, though no operand has them
    attributes = {
        "kind": StringAttr(schedule.kind),
        "members": ArrayAttr([StringAttr(m) for m in members]),
    }
    kb = KernelBuilder(name, args, sorted(used), axes, params, attributes=attributes)
    for array, array_name in handed.items():
        kb.workspace(array.type.shape, array.type.dtype, array_name)
    for stage, emitter in zip(stages, emitters):
        if stage.barrier:
            kb.sync()
        emitter.run(kb)
    return kb.finish()


def _space(stage: Stage) -> tuple:
    """Equal for vector stages that walk the same axes in the same way: they share axes and tile sizes."""
    s, size = stage.schedule, stage.region.axes
    if s.is_cube:
        return (stage,)
    walked = [(a == s.rows, a == s.lanes, a in s.nest, size[a]) for a in (*s.walked, s.rows, s.lanes) if a is not None]
    return (s.streamed, s.nest.index(s.rows) if s.rows in s.nest else None, *walked)


def _array(
    value: SSAValue | Handed, arrays: Mapping[SSAValue | Handed, str], handed: Mapping[Handed, str], outputs: Sequence[str]
) -> str:
    """The name of the argument or workspace that a stage reads."""
    if not isinstance(value, Handed):
        return arrays[value]
    return handed[value] if value.output is None else outputs[value.output]


class RegionEmitter:
    """Emits one stage: `inputs` and `outputs` name its arrays, `taken` can't name its axes, `suffix` ends their names."""

    kb: KernelBuilder

    def __init__(
        self, region: Region, schedule: Schedule, inputs: Sequence[str], outputs: Sequence[str], taken: Collection[str],
        suffix: str,
    ) -> None:  # fmt: skip
        self.region, self.schedule = region, schedule
        self.inputs, self.outputs = inputs, outputs
        self.taken, self.suffix = taken, suffix
        # the names of axes and tiling parameters, none of which may be a symbol of the model
        self.names = {n: self._fresh(n) for n in ("m", "n", "k", "tm", "tn", "tk", "bm", UNIT, "p", "q", "r")}
        self.m, self.n, self.unit = self.names["m"], self.names["n"], self.names[UNIT]
        self.part, self.slot, self.pairs = self.names["p"], self.names["q"], self.names["r"]
        self.rename = self._axis_names()
        self.axes = {self.rename[a]: region.axes[a] for a in self.axis_order()}
        if schedule.split is not None:
            parts = const(schedule.split.parts)
            self.axes = {self.part: parts, self.slot: parts, **self.axes}
        if schedule.ranked is not None:
            self.axes[self.pairs] = 2 * region.axes[schedule.ranked]
        if set(self.axis_order()) <= {*schedule.nest, schedule.ranked}:
            self.axes[self.unit] = const(1)
        self.params = self._params(self.axes)
        self.depths: list[int] = []  # nodes on the longest path up to each node
        for node in region.nodes:
            self.depths.append(1 + max((self.depths[a] for a in node.args), default=0))
        # one dict a loop scope, innermost last: node -> its tile, and node -> the tile cast to f32
        self.scopes: list[dict[int, SSAValue]] = [{}]
        self.casts: list[dict[int, SSAValue]] = [{}]
        self.phases = node_phases(region, schedule)
        self.blocks: dict[int, SSAValue] = {}  # contract node -> its block in L0C

    # -- names ------------------------------------------------------------------------------------

    def free_name(self, name: str) -> str:
        """`name`, unless an array of the stage has it."""
        return _free(name, [*self.inputs, *self.outputs])

    def _fresh(self, name: str) -> str:
        return _free(f"{name}_{self.suffix}" if self.suffix else name, self.taken)

    def axis_order(self) -> list[str]:
        """Grid axes, rows, lanes, then the axes that only inner phases have."""
        s = self.schedule
        order = [*s.walked, *([s.rows] if s.rows else []), s.lanes]
        inner = [x for level in reversed(s.levels) for m in level for x in (m.columns, *m.summed)]
        inner += [s.ranked] if s.ranked is not None else []
        return list(dict.fromkeys(order + inner))

    def whole_grid(self, steps: Sequence[tuple[str, Expr]]) -> list[tuple[str, Expr]]:
        """The grid; a kernel that folds everything into one element has one step of a unit axis."""
        return list(steps) or [(self.unit, const(1))]

    def _axis_names(self) -> dict[str, str]:
        s = self.schedule
        names = {a: self._fresh(f"g{i}") for i, a in enumerate(s.walked)}
        if s.rows:
            names[s.rows] = self.m
        names[s.lanes] = self.n
        inner = [a for a in self.axis_order() if a not in names]
        stems = ["k"] if len(inner) == 1 else [f"k{i}" for i in range(len(inner))]
        names.update(zip(inner, (self._fresh(x) for x in stems)))
        return names

    def _params(self, axes: Mapping[str, Expr]) -> dict[str, Expr]:
        params: dict[str, Expr] = {}
        if self.schedule.is_cube:
            params[self.names["bm"]] = const(MAX_ROWS)
            if self.schedule.looped:
                params[self.names["bm"]] = const(looped_rows(self.region.axes[self.schedule.lanes].as_int()))
                params[self.names["tk"]] = self.region.axes[self.schedule.levels[0][0].columns]
                return params
        s = self.schedule
        whole = () if s.streamed else s.nest  # axes that a tile holds completely
        if self.m in axes and s.rows not in whole:
            params[self.names["tm"]] = axes[self.m]
        if (not s.is_cube or s.streamed) and s.lanes not in whole and s.ranked is None:
            params[self.names["tn"]] = axes[self.n]
        return params

    def index(self, index: Sequence[Expr]) -> list[Expr]:
        """Region axes renamed; grid axes stand for their single point `g.lo`."""
        env: dict[str, Expr] = {
            old: sym(new + ".lo") if old in self.schedule.walked else sym(new) for old, new in self.rename.items()
        }
        return [self._rename_reads(e.substitute(env)) for e in index]

    def _rename_reads(self, e: Expr) -> Expr:
        def atom(found: Func) -> Expr | None:
            if found.name != "read":
                return None
            args = tuple(self._rename_reads(a) for a in found.args)
            return Expr({(Func("read", args, self.inputs[int(found.tag[2:])]),): 1})

        return map_atoms(e, atom)

    def tile_axes(self, node: Node) -> list[str]:
        """The axes of a node's tile in physical order: rows, then the lanes of its phase."""
        return [self.rename[a] for a in self.axis_order() if a in node.axes and a not in self.schedule.walked]

    # -- values -----------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        self.casts.append({})
        yield
        self.scopes.pop()
        self.casts.pop()

    def value(self, number: int) -> SSAValue:
        """The tile of a node, emitted here on first use in the current loop scope."""
        for known in reversed(self.scopes):
            if number in known:
                return known[number]
        if self.depths[number] > STRIDE:
            for node in self._on_the_way(number):
                self.value(node)
        with self.kb.at(self.region.origins.get(number) or self.kb.location):
            result = self._emit(number, self.region.nodes[number])
        self.scopes[-1][number] = result
        return result

    def _on_the_way(self, number: int) -> list[int]:
        """What a deep node needs, every STRIDE levels: emitted first, these keep the recursion short."""
        needed: set[int] = set()
        stack = list(self.region.nodes[number].args)
        while stack:
            node = stack.pop()
            if node in needed or any(node in known for known in self.scopes):
                continue
            needed.add(node)
            if self.region.nodes[node].kind != "contract":
                stack += self.region.nodes[node].args
        return sorted(n for n in needed if self.depths[n] and self.depths[n] % STRIDE == 0)

    def operand(self, number: int) -> SSAValue:
        """The tile of a node in its compute dtype: floats and integers as f32, bool as i1."""
        kind = self.region.nodes[number].dtype
        if kind in (dt.F32, dt.BOOL):
            return self.value(number)
        for known in reversed(self.casts):
            if number in known:
                return known[number]
        value = self.value(number)
        with self.kb.at(self.region.origins.get(number) or self.kb.location):
            result = self.casts[-1][number] = self.kb.cast(value, dt.F32)
        return result

    def _emit(self, number: int, node: Node) -> SSAValue:
        kb = self.kb
        match node.kind:
            case "load":
                where = [self.index((g.index, g.low, g.high)) for g in node.guards]
                return kb.load(
                    self.inputs[node.input], self.index(node.index), self.tile_axes(node),
                    where=[(value, low, high) for value, low, high in where], otherwise=node.value if where else None,
                )  # fmt: skip
            case "number":
                return kb.fill(bool(node.value) if node.dtype.is_bool else node.value, node.dtype)
            case "extent":
                return kb.cast(kb.index(node.index[0], ()), dt.F32)
            case "coord":
                return kb.index(self.index(node.index)[0], self.tile_axes(node))
            case "reduce":
                return kb.reduce(node.function, self.operand(node.args[0]), [self.rename[a] for a in node.over])
            case "contract":
                return kb.move(self.blocks[number], slots=2)
            case "map" if node.function == "cast":
                return self._cast(node)
            case "map":
                integer = self._integer(node)
                operands = [self.operand(a) if integer is None else self.word(a, integer) for a in node.args]
                return kb.map(node.function, *operands, axes=self.tile_axes(node), dtype=node.dtype)
        raise NotFusible(f"no tile form for a {node.kind} node")

    def _integer(self, node: Node) -> dt.DType | None:
        """The dtype in which a map computes on integers; None if it computes on floats and predicates."""
        nodes = (self.region.nodes[a] for a in node.args)
        return next((n.dtype for n in nodes if n.dtype.is_int and n.kind != "number"), None)

    def word(self, number: int, kind: dt.DType) -> SSAValue:
        """The tile of an operand of an integer map: `kind`, or a predicate."""
        node = self.region.nodes[number]
        return self.kb.fill(int(node.value), kind) if node.kind == "number" else self.value(number)

    def _cast(self, node: Node) -> SSAValue:
        kb, source = self.kb, self.region.nodes[node.args[0]]
        value = self.value(node.args[0])
        if node.dtype.is_bool:
            return kb.map("ne", self.operand(node.args[0]), kb.fill(0.0, dt.F32))
        if node.dtype == dt.F32 or (node.dtype.is_int and source.dtype in (dt.F16, dt.BF16)):
            value = self.operand(node.args[0])
        return kb.cast(value, node.dtype)

    # -- loops ------------------------------------------------------------------------------------

    def run(self, kb: KernelBuilder) -> None:
        """Emit the loops of the stage."""
        self.kb = kb
        if self.schedule.is_cube:
            self._cube()
        else:
            self._vector()

    def kept_steps(self) -> list[tuple[str, Expr]]:
        """The grid of a vector kernel: all axes but the reduced ones."""
        s = self.schedule
        steps: list[tuple[str, Expr]] = [(self.rename[a], const(1)) for a in s.grid]
        if s.rows and s.rows not in s.nest:
            steps.append((self.m, sym(self.names["tm"])))
        if s.lanes not in s.nest:
            steps.append((self.n, sym(self.names["tn"])))
        return steps

    def _vector(self) -> None:
        if self.schedule.split is not None:
            FoldEmitter(self).split()
            return
        steps = self.whole_grid(self.kept_steps())
        self._keep_rows([a for a, _ in steps])
        with self.kb.grid(steps), self.scope():
            self.finish([a for a, _ in steps])

    def _keep_rows(self, grid: Sequence[str]) -> None:
        """Emit operands of whole rows that are the same for every tile before the grid: each core loads them once."""
        lanes = self.region.axes[self.schedule.lanes].as_int()
        if self.n in grid or self.schedule.streamed or lanes is None or self.suffix:
            return
        kept = [
            i for i, node in enumerate(self.region.nodes)
            if node.kind == "load" and node.axes == {self.schedule.lanes} and not node.guards and self._is_affine(node)
        ]  # fmt: skip
        if lanes * len(kept) <= KEPT_ELEMENTS:
            for i in kept:
                self.operand(i) if self.region.nodes[i].dtype.is_float else self.value(i)

    def _is_affine(self, node: Node) -> bool:
        return not any(reads_in(e) for e in node.index)

    def _cube(self) -> None:
        s, kb = self.schedule, self.kb
        steps: list[tuple[str, Expr]] = [(self.rename[a], const(1)) for a in s.grid]
        steps.append((self.m, sym(self.names["bm"])))
        in_grid = s.reduced is None and not s.is_chain
        if in_grid:
            steps.append((self.n, self._grid_columns(s.levels[-1][0])))
        with kb.grid(steps, sub=self.m), self.scope():
            if s.looped:
                LoopedEmitter(self).emit(steps)
                return
            for phase, level in enumerate(s.levels):
                lefts = self.panels(level, phase, steps)
                last = level is s.levels[-1]
                if last and in_grid:
                    for m in level:
                        self.blocks[m.node] = self.contract(m, lefts)
                    if self._direct_store(level[0]):
                        return
                elif last and s.reduced is None and self._is_bare(level[0]):
                    with kb.for_(self.n, self.block_columns(s.lanes)) as loop:
                        self.blocks[level[0].node] = self.contract(level[0], lefts)
                        self._direct_store(level[0])
                        loop.yield_()
                    return
                else:
                    with kb.for_(self.rename[level[0].columns], self.block_columns(level[0].columns)) as loop:
                        loop.yield_(collect=[self.contract(m, lefts) for m in level])
                    self.blocks.update(zip((m.node for m in level), loop.results))
            self._hoist(without=self.m)
            with kb.for_(self.m, sym(self.names["tm"])) as loop, self.scope():
                self.finish([a for a, _ in steps])
                loop.yield_()

    def panels(
        self, level: Sequence[MatMul], phase: int, steps: Sequence[tuple[str, Expr]]
    ) -> dict[int, SSAValue]:
        """The left operands of matmuls side by side, by their nodes."""
        panels: dict[int, SSAValue] = {}
        for m in level:
            node = self.region.nodes[m.node].args[0]
            if node not in panels:
                panels[node] = self._panel(m, phase, steps)
        return panels

    def _panel(self, m: MatMul, phase: int, steps: Sequence[tuple[str, Expr]]) -> SSAValue:
        """The left operand in L1: loaded, or computed row by row and handed over by the vector cores."""
        node = self.region.nodes[m.node]
        if not m.computed:
            return self._cube_load(node.args[0], [self.rename[a] for a in (self.schedule.rows or "", *m.summed)])
        with self.kb.for_(self.m, sym(self.names["tm"])) as loop, self.scope():
            operand = self.value(node.args[0])
            for i, out in enumerate(self.region.outputs):
                if phase in self.phases[out.node]:
                    self.store(i, [a for a, _ in steps])
            loop.yield_(collect=[operand])
        return self.kb.move(loop.results[0], slots=2)

    def contract(self, m: MatMul, lefts: Mapping[int, SSAValue]) -> SSAValue:
        with self.kb.at(self.region.origins.get(m.node) or self.kb.location):
            right = self._cube_load(self.region.nodes[m.node].args[1], [self.rename[a] for a in (*m.summed, m.columns)])
            return self.kb.contract(lefts[self.region.nodes[m.node].args[0]], right)

    def block_columns(self, axis: str) -> Expr:
        """Columns of a matmul block: a constant, so that the cube can be shown to store whole fractals."""
        return const(even_columns(self.region.axes[axis].as_int()))

    def _grid_columns(self, m: MatMul) -> Expr:
        """Columns of a block where blocks of a row are shared out to cores."""
        s, axes = self.schedule, {a: e.as_int() for a, e in self.region.axes.items()}
        counts = [axes[a] for a in s.grid]
        others = None if None in counts else math.prod(n for n in counts if n is not None)
        rows = axes[s.rows] if s.rows is not None else 1
        summed = product([self.region.axes[a] for a in m.summed]).as_int()
        right = self.region.nodes[self.region.nodes[m.node].args[1]]
        return const(grid_columns(axes[m.columns], rows, others, summed, right.dtype.bytes, m.trans_b))

    def _cube_load(self, number: int, axes: Sequence[str]) -> SSAValue:
        node = self.region.nodes[number]
        if {self.rename[a] for a in node.axes} - {self.rename[g] for g in self.schedule.grid} != set(axes):
            raise NotFusible("a matmul operand lacks one of its axes")
        with self.kb.at(self.region.origins.get(number) or self.kb.location):
            return self.kb.load(self.inputs[node.input], self.index(node.index), axes, space="l1")

    def _is_bare(self, m: MatMul) -> bool:
        """Can the cube unit write the result itself (Fixpipe)? It stores whole fractals of 16 columns."""
        out = self.region.outputs[-1]
        width = self.region.axes[m.columns].as_int()
        last = len(self.schedule.levels)
        inner = all(last not in self.phases[o.node] for o in self.region.outputs[:-1])
        return out.node == m.node and inner and width is not None and width % 16 == 0 and len(self.schedule.levels[-1]) == 1

    def _direct_store(self, m: MatMul) -> bool:
        """Store a bare matmul from the cube; False if it has an epilogue or ragged rows."""
        if not self._is_bare(m):
            return False
        with self.kb.at(self.region.origins.get(m.node) or self.kb.location):
            self.kb.store(self.blocks[m.node], self.outputs[-1], self.index(self.region.outputs[-1].index))
        return True

    def _hoist(self, without: str) -> None:
        """Emit nodes that don't vary along the axis `without` before its loop opens (bias rows)."""
        axis = next(a for a, n in self.rename.items() if n == without)
        inside = {self.schedule.reduced} if self.schedule.streamed else set()
        for i, node in enumerate(self.region.nodes):
            if len(self.schedule.levels) not in self.phases[i]:
                continue
            hoistable = axis not in node.axes and axis not in node.over and not (node.axes & inside)
            if hoistable and self.is_ready(node) and self.is_vector(i):
                if node.kind != "number":
                    self.operand(i)

    def is_vector(self, number: int) -> bool:
        contracts = self.region.contracts()
        return not any(number in self.region.nodes[c].args for c in contracts)

    def is_ready(self, node: Node) -> bool:
        return all(
            self.region.nodes[a].kind == "number" or any(a in known for known in self.scopes) for a in node.args
        )

    def finish(self, grid_axes: Sequence[str]) -> None:
        """Compute and store all outputs inside the open loops."""
        if self.schedule.ranked is not None:
            RankEmitter(self).run(grid_axes)
            return
        if self.schedule.scanned:
            ScanEmitter(self).run(grid_axes)
            return
        if self.schedule.streamed:
            FoldEmitter(self).stream(grid_axes)
            return
        for i, out in enumerate(self.region.outputs):
            if len(self.schedule.levels) in self.phases[out.node]:
                self.store(i, grid_axes)

    def store(self, number: int, grid_axes: Sequence[str]) -> None:
        out = self.region.outputs[number]
        index = self.index(out.index)
        value = self._stored(out, index)
        names = {n.removesuffix(".lo") for e in index for n in e.names()}
        if self.schedule.split is not None and self.rename[self.schedule.split.axis] in names:
            names.add(self.part)  # each core stores its own part
        where = [(sym(f"{a}.lo"), 0, 1) for a in grid_axes if a not in names]
        with self.kb.at(self.region.origins.get(out.node) or self.kb.location):
            self.kb.store(value, self.outputs[number], index, where=where)

    def _stored(self, out: Output, index: Sequence[Expr]) -> SSAValue:
        """The tile to store: in the output's dtype, and along every tile axis of the index (an expanded value)."""
        node = self.region.nodes[out.node]
        indexed = {n for e in index for n in e.names()}
        axes = [self.rename[a] for a in self.axis_order() if a not in self.schedule.walked and self.rename[a] in indexed]
        if set(axes) <= set(self.tile_axes(node)):
            if node.dtype == out.type.dtype:
                return self.value(out.node)
            direct = node.dtype.is_int and out.type.dtype.is_int and node.kind != "number"
            return self.kb.cast(self.value(out.node) if direct else self.operand(out.node), out.type.dtype)
        if node.dtype.is_int and node.kind != "number":
            value = self.kb.map("bitor", self.value(out.node), self.kb.fill(0, node.dtype, axes), axes=axes, dtype=node.dtype)
            return value if node.dtype == out.type.dtype else self.kb.cast(value, out.type.dtype)
        # x + -0.0 is x for every float, -0.0 and NaN included
        full = self.kb.fill(False, dt.BOOL, axes) if node.dtype.is_bool else self.kb.fill(-0.0, dt.F32, axes)
        spread = self.kb.map("or" if node.dtype.is_bool else "add", self.operand(out.node), full, axes=axes)
        return self.kb.cast(spread, out.type.dtype)
