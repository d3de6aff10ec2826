# SPDX-License-Identifier: Apache-2.0
"""What a region asks of the chip at given sizes: bytes of every operand, vector cycles, matmuls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from gaf.dialects.ascendc.cycles import VECTOR_F32
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.graph.contract import tensor_type
from gaf.fusion.online import fold_passes
from gaf.fusion.region import Handed, Region, read_elements
from gaf.fusion.schedule import Schedule

FRACTAL = 16
"""Rows and columns of the cube's smallest operand."""

DEFAULT_EXTENT = 128
"""Size at which a symbolic dim is priced when the user gives none."""

Sizes = Mapping[str, int]

# What the lowering makes of a scalar function on full float32 tiles; names of `ascendc.cycles.VECTOR_F32`.
_CALLS: dict[str, tuple[str, ...]] = {
    "neg": ("Muls",),
    "abs": ("Abs",),
    "exp": ("Exp",),
    "log": ("Ln",),
    "sqrt": ("Sqrt",),
    "relu": ("Relu",),
    "rsqrt": ("Sqrt", "Duplicate", "Div"),
    "reciprocal": ("Duplicate", "Div"),
    "tanh": ("Tanh",),
    "erf": ("Erf",),
    "sigmoid": ("Muls", "Exp", "Adds", "Duplicate", "Div"),
    "sin": ("Sin",),
    "cos": ("Cos",),
    "tan": ("Tan",),
    "add": ("Add",),
    "sub": ("Sub",),
    "mul": ("Mul",),
    "div": ("Div",),
    "max": ("Max",),
    "min": ("Min",),
    "pow": ("Power",),
    "select": ("Compare", "Select"),
    "cast": ("Cast",),
    "floor": ("Cast", "Cast"),
    "ceil": ("Cast", "Cast"),
    "rint": ("Cast", "Cast"),
    "trunc": ("Cast", "Cast"),
    "sign": ("Compare", "Compare", "Select", "Select"),
    "fmod": ("Div", "Cast", "Cast", "Mul", "Sub"),
    "floormod": ("Div", "Cast", "Cast", "Mul", "Sub"),
    "atan": ("Atan",),
    "atan2": ("Div", "Atan", "Select"),
    "not": ("Muls", "Adds"),
    "and": ("Mul",),
    "or": ("Max",),
    "xor": ("Sub", "Abs"),
}
_COMPARE = ("Compare", "Duplicate", "Select")
_RANK = (("Adds", 16), ("Sort32", 1), ("MrgSort", 4))  # calls of an ordered row, and how often each element takes part
_UNKNOWN = ("Erf",)  # a composite of unknown cost is priced like a costly known one


@dataclass(frozen=True)
class Matmul:
    """One contraction of a group: extents, the dtype name of its operands, and whether the left one is
    computed.
    """

    rows: int
    columns: int
    summed: int
    dtype: str
    computed: bool = False


@dataclass(frozen=True)
class Work:
    """What a region asks of the chip at given sizes.

    `reads` and `writes` are bytes, one entry per input and output, every operand counted once, and slices and
    gathered tables by what is read of them. `cycles` and `starts` are vector cycles over all elements, and those
    that every tile adds. `rows` x `lanes` is the tile space, `grid` the number of them. `live` counts the
    float32 tiles that live at a time. `row_complete`: a core finishes whole rows, so columns aren't split
    over cores.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    cycles: float
    starts: float
    rows: int
    lanes: int
    grid: int
    live: int
    matmuls: tuple[Matmul, ...] = ()
    row_complete: bool = False
    passes: int = 1
    bare: bool = False
    kind: str = "elementwise"
    stages: tuple[Work, ...] = ()
    """The parts of a kernel in stages; then `cycles`, `rows`, ... above are those of the stage with the matmul."""
    barriers: int = 0
    """Times that all cores of a kernel in stages wait for each other."""
    handed: int = 0
    """Bytes of workspace that a stage writes and reads for other stages."""
    results: int = 0
    """Of a reduction: points of the kept axes but the lanes, which cores can share; 0: no reduction."""
    parts: int = 1
    """Parts of a reduced axis that cores share, with a barrier behind every level of dependent reductions."""

    @property
    def bytes(self) -> int:
        return sum(self.reads) + sum(self.writes)

    @property
    def macs(self) -> int:
        return self.grid * sum(m.rows * m.columns * m.summed for m in self.matmuls)


def map_calls(function: str, result: dt.DType) -> tuple[str, ...]:
    """The vector instructions of a scalar function on full float32 tiles, as names of `ascendc.cycles.VECTOR_F32`."""
    return _CALLS.get(function) or (_COMPARE if result.is_bool else _UNKNOWN)


class _AnySize(dict[str, int]):
    """Sizes with a default for symbols that nobody gave."""

    def __missing__(self, name: str) -> int:
        return DEFAULT_EXTENT


def sizes(symbols: Sizes | None) -> Sizes:
    """Symbol values, with `DEFAULT_EXTENT` for all others."""
    return _AnySize(symbols or {})


def region_work(region: Region, schedule: Schedule, env: Sizes) -> Work:
    """The work of a region under a schedule at the sizes `env` (made by `sizes`)."""
    if schedule.stages:
        return _staged_work(region, schedule, env)
    extent = {a: max(1, e.evaluate(env)) for a, e in region.axes.items()}

    def count(axes: Iterable[str]) -> int:
        return math.prod(extent[a] for a in axes)

    steps = set(schedule.grid)
    cycles = starts = 0.0
    matmuls: list[Matmul] = []
    operands = {
        a for n in region.nodes if n.kind == "contract" for a in n.args if region.nodes[a].kind == "load"
    }
    for i, node in enumerate(region.nodes):
        if node.kind == "load":
            if node.dtype not in (dt.F32,) and i not in operands:
                cycles, starts = _add(cycles, starts, "Cast", count(node.axes))
        elif node.kind == "map":
            for call in map_calls(node.function, node.dtype):
                cycles, starts = _add(cycles, starts, call, count(node.axes))
        elif node.kind == "reduce":
            source = region.nodes[node.args[0]]
            cycles, starts = _add(cycles, starts, "WholeReduceSum", count(source.axes | set(node.over)))
        elif node.kind == "scan":
            for call, times in (("Gather", 10), ("Add", 10)) if node.over[0] == schedule.lanes else (("Add", 1),):
                cycles, starts = _add(cycles, starts, call, times * count(node.axes))
        elif node.kind == "rank":
            source = count(region.nodes[node.args[0]].axes)
            for call, times in _RANK:
                cycles, starts = _add(cycles, starts, call, times * source)
        elif node.kind == "contract":
            left, right = (region.nodes[a] for a in node.args[:2])
            rows, columns = left.axes - right.axes - steps, right.axes - left.axes - steps
            sizes_of = count(rows), count(columns), count(node.over)
            matmuls.append(Matmul(*sizes_of, left.dtype.name, left.kind != "load"))
        elif node.kind == "coord":
            cycles, starts = _add(cycles, starts, "CreateVecIndex", count(node.axes))
    reads = tuple(n * t.dtype.bytes for n, t in zip(read_elements(region, env), region.input_types))
    writes = tuple(
        min(o.type.num_bytes().evaluate(env), count(_named(o.index) & set(extent)) * o.type.dtype.bytes) for o in region.outputs
    )
    stored = region.nodes[region.outputs[0].node] if region.outputs else None
    lone = len(matmuls) == 1 and not matmuls[0].computed
    bare = lone and len(region.outputs) == 1 and stored is not None and stored.kind == "contract"
    lanes = extent.get(schedule.lanes, 1)
    return Work(
        reads,
        writes,
        cycles,
        starts,
        rows=extent.get(schedule.rows, 1) if schedule.rows else 1,
        lanes=lanes,
        grid=count(schedule.grid),
        live=_live(region),
        matmuls=tuple(matmuls),
        row_complete=schedule.is_cube and (schedule.reduced is not None or schedule.is_chain),
        passes=_passes(region) if schedule.streamed else 1,
        bare=bare and not lanes % FRACTAL,
        kind=schedule.kind,
        results=0 if schedule.is_cube or not schedule.nest else count(a for a in extent if a not in {*schedule.nest, schedule.lanes, schedule.ranked}),
        parts=schedule.split.parts if schedule.split is not None else 1,
    )


def _staged_work(region: Region, schedule: Schedule, env: Sizes) -> Work:
    """The work of a kernel in stages: operands of the kernel counted once, what stages hand over apart."""
    numbers = {v: i for i, v in enumerate(region.inputs)}
    reads, writes, parts = [0] * len(region.inputs), [0] * len(region.outputs), []
    for stage in schedule.stages:
        own = region_work(stage.region, stage.schedule, env)
        own_reads, own_writes, handed = [0] * len(reads), [0] * len(writes), 0
        for array, size in zip(stage.region.inputs, own.reads):
            if isinstance(array, Handed):
                handed += size
            else:
                own_reads[numbers[array]] = size
        for target, size in zip(stage.stores, own.writes):
            if isinstance(target, Handed):
                handed += size
            else:
                own_writes[target] = size
        parts.append(replace(own, reads=tuple(own_reads), writes=tuple(own_writes), handed=handed))
        reads = [a + b for a, b in zip(reads, own_reads)]
        writes = [a + b for a, b in zip(writes, own_writes)]
    reads = [min(size, t.num_bytes().evaluate(env)) for size, t in zip(reads, region.input_types)]
    core = next((p for p in parts if p.matmuls), parts[0])
    return replace(
        core, reads=tuple(reads), writes=tuple(writes), kind=schedule.kind, stages=tuple(parts),
        barriers=sum(s.barrier for s in schedule.stages), handed=sum(p.handed for p in parts), live=max(p.live for p in parts), bare=False,
    )  # fmt: skip


def _named(index: Iterable[Expr]) -> set[str]:
    return {name for e in index for name in e.names()}


def _add(cycles: float, starts: float, call: str, elements: int) -> tuple[float, float]:
    slope, start = VECTOR_F32[call]
    return cycles + slope * elements, starts + start


def _live(region: Region) -> int:
    """Most float32 tiles that live at the same time, two buffers for every load."""
    last: dict[int, int] = {}
    for i, node in enumerate(region.nodes):
        for a in node.args:
            last[a] = i
    for out in region.outputs:
        last[out.node] = len(region.nodes)
    live = peak = 0
    ends: dict[int, int] = {}
    for i, node in enumerate(region.nodes):
        if node.kind in ("number", "extent") or i not in last:
            continue
        weight = 2 if node.kind == "load" else 1
        live += weight if node.axes else 0
        ends[last[i]] = ends.get(last[i], 0) + (weight if node.axes else 0)
        peak = max(peak, live)
        live -= ends.pop(i, 0)
    return max(peak, 2)


def _passes(region: Region) -> int:
    """Times that the streamed axis is walked: once for every pass of reductions, and once for the outputs."""
    return 1 + len(fold_passes(region))


def value_bytes(value: SSAValue, env: Sizes) -> int:
    """Bytes of a tensor at given sizes."""
    kind = tensor_type(value)
    return kind.num_bytes().evaluate(env)  # type: ignore[arg-type]
