# SPDX-License-Identifier: Apache-2.0
"""What a group costs: bytes, cycles per pipe, launches, build seconds; the model that users override.

`Work` is what a region asks of the chip at given sizes, independent of where its operands lie. `CostModel`
turns it into time: the slowest of memory, vector and cube work, plus what doesn't overlap in the first and
last tile, plus the start of the kernel. The figures are those of `gaf.target.rates`; rounds over
cores are counted whole, because that decides more than bandwidth on small tensors.

Against 121 operators measured on a 910B2 (`benchmarks.calibration`, the vendor's kernels): modelled over measured time
is 0.79 in the geometric mean, within a factor of 1.65 (one standard deviation), and the order agrees (rank correlation
0.94). Simple kernels at the limit of the memory are met within 20 % (sigmoid 1.19, maximum 0.97, large gelu 0.96,
convolutions 1.16); it promises more than the vendor reaches where that takes several kernels or odd sizes (rms_norm 0.61,
AdamW 0.56), and less for gelu by erf (1.87), which gaf computes with the costly Erf of the API.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.ir import Operation, SSAValue

from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.ops.collective import CollectiveOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.errors import InvalidInputError
from gaf.fusion import names
from gaf.fusion.region import NotFusible, build_region
from gaf.fusion.stages import kernel_schedules
from gaf.fusion.work import FRACTAL, Matmul, Sizes, Work, region_work, sizes
from gaf.target import Chip, chip, rates
from gaf.target.links import ASSUMED_RANKS, LINKS

BLOCK, COLUMNS = 128, 256
"""Rows and columns of a matmul block; the lowering takes fewer rows when there are fewer blocks than cores.
"""

FEWEST_LANES = 256
"""Lanes are split over cores only down to this."""

PIPES = ("memory", "load", "vector", "store", "cube")


@dataclass(frozen=True)
class GroupCost:
    """Modelled cost of one kernel, or a sum of them. Times in µs, sizes in bytes, `jit_s` in seconds.

    `hbm_bytes` counts every operand once, as peers are counted; `l2_bytes` is the workspace between cube and
    vector cores of one kernel. `resident_bytes` is the part of `hbm_bytes` that the time takes at L2 speed.
    `pipes` says how long each pipe works; `limit` is the slowest.
    """

    us: float
    hbm_bytes: int
    l2_bytes: int = 0
    resident_bytes: int = 0
    launches: int = 1
    launch_us: float = 0.0
    memory_us: float = 0.0
    jit_s: float = 0.0
    blocks: int = 1
    cores: int = 1
    pipes: Mapping[str, float] = field(default_factory=dict)
    footprint: int = 0

    @property
    def limit(self) -> str:
        """The pipe that works longest, or "launch" if starting the kernel takes longer than all of them."""
        slowest = max(self.pipes, key=lambda p: self.pipes[p], default="launch")
        return slowest if self.pipes and self.pipes[slowest] > self.launch_us else "launch"


def total(costs: Sequence[GroupCost]) -> GroupCost:
    """The sum of kernels that run one after the other."""
    return GroupCost(
        us=sum(c.us for c in costs),
        hbm_bytes=sum(c.hbm_bytes for c in costs),
        l2_bytes=sum(c.l2_bytes for c in costs),
        resident_bytes=sum(c.resident_bytes for c in costs),
        launches=sum(c.launches for c in costs),
        launch_us=sum(c.launch_us for c in costs),
        memory_us=sum(c.memory_us for c in costs),
        jit_s=sum(c.jit_s for c in costs),
        footprint=max((c.footprint for c in costs), default=0),
    )


# -- what users see of an op and a group ----------------------------------------------------------------


class OpView:
    """An op as cost models and rules see it.

    `type` is what people call it (`MatMul`, `LayerNorm`, `Relu`), `shape` its result shape as integers, for
    MatMul (batch..., M, K, N); `dtype` the result's element type name, `name` the model node.
    """

    def __init__(self, op: Operation, env: Sizes | None = None, work: Work | None = None) -> None:
        self.operation = op
        self._env = env if env is not None else sizes(None)
        self._work = work

    @cached_property
    def type(self) -> str:
        return names.op_type(self.operation)

    @cached_property
    def title(self) -> str:
        """The type, with `Scale` for a product or quotient with a constant scalar."""
        return names.op_title(self.operation)

    @cached_property
    def name(self) -> str:
        return names.node_name(self.operation)

    def freeze(self) -> OpView:
        """Look everything up now: what a view says stays true when the op is gone."""
        _ = (self.type, self.title, self.name, self.shape, self.dtype, self.input_shapes, self.attributes)
        return self

    def _concrete(self, value: SSAValue) -> tuple[int, ...]:
        return tuple(d.evaluate(self._env) for d in tensor_type(value).shape)  # type: ignore[arg-type]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        if not self.operation.results:
            return ()
        shape = self._concrete(self.operation.results[0])
        if isinstance(self.operation, MatMulOp):
            k = tensor_type(self.operation.operands[0]).shape[-1].evaluate(self._env)  # type: ignore[arg-type]
            return (*shape[:-1], k, shape[-1])
        return shape

    @cached_property
    def dtype(self) -> str:
        return tensor_type(self.operation.results[0]).dtype.name if self.operation.results else ""

    @property
    def inputs(self) -> list[SSAValue]:
        """Operand values, for `FusedNode`."""
        return list(self.operation.operands)

    @property
    def outputs(self) -> list[SSAValue]:
        return list(self.operation.results)

    @cached_property
    def input_shapes(self) -> list[tuple[int, ...]]:
        return [self._concrete(o) for o in self.operation.operands]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        return self.operation.attrs() if isinstance(self.operation, GraphOp) else {}

    @property
    def work(self) -> Work | None:
        """The work of a kernel of this op alone; None if it has no kernel form."""
        if self._work is None and isinstance(self.operation, GraphOp):
            try:
                region = build_region([self.operation], list(self.operation.results))
                self._work = region_work(region, kernel_schedules(region)[0], self._env)
            except NotFusible:
                return None
        return self._work

    @property
    def bytes(self) -> int:
        """Every operand and result once."""
        work = self.work
        if work is not None:
            return work.bytes
        values = [*dict.fromkeys(self.operation.operands), *self.operation.results]
        return sum(tensor_type(v).num_bytes().evaluate(self._env) for v in values)  # type: ignore[arg-type]

    @property
    def larger_bytes(self) -> int:
        """Of the largest operand or result."""
        values = [*self.operation.operands, *self.operation.results]
        return max((tensor_type(v).num_bytes().evaluate(self._env) for v in values), default=0)  # type: ignore[type-var,arg-type]

    def __repr__(self) -> str:
        return f"<{self.type} {self.name} {self.dtype}{list(self.shape)}>"


@dataclass(frozen=True)
class GroupView:
    """A group of ops as `estimate_group` sees it; `resident` says which operands the previous kernels left in
    L2.
    """

    ops: tuple[OpView, ...]
    work: Work
    resident_reads: tuple[bool, ...] = ()
    resident_writes: tuple[bool, ...] = ()

    def __iter__(self) -> Iterator[OpView]:
        return iter(self.ops)

    def __str__(self) -> str:
        return names.join_names(o.title for o in self.ops)


# -- the model ----------------------------------------------------------------------------------------


class LatencyTable(dict[tuple[int, ...], float]):
    """Measured times in µs by shape; a shape that is missing gets the model's own estimate."""

    def __init__(self, model: CostModel, entries: Mapping[tuple[int, ...], float]) -> None:
        super().__init__({tuple(k): float(v) for k, v in entries.items()})
        self.model = model

    def __missing__(self, shape: tuple[int, ...]) -> float:
        return self.model.matmul_us(shape, self.model.current_dtype)


class CostModel:
    """Modelled time of ops and groups on one chip; override any method in a subclass.

    `matmul_latency_table` maps (batch..., M, K, N) to measured µs; missing shapes fall back to the model.
    `expected_runs` spreads the build time of kernels over that many runs; None: kernels are built ahead of
    time, so build seconds are shown, but don't count against a fusion. `core_budget` and `l2_budget` limit
    the part of the chip (cube cores; bytes) that a model may count on, e.g. beside another process.
    """

    matmul_latency_table: Any = {}
    _measured: Mapping[tuple[int, ...], float] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        table = cls.__dict__.get("matmul_latency_table")
        if isinstance(table, Mapping):  # a table written in the class body falls back too
            cls._measured = table
            del cls.matmul_latency_table

    def __init__(
        self,
        target: str = "ascend910b3",
        *,
        matmul_latency_table: Mapping[tuple[int, ...], float] | None = None,
        matmul_precision: str = "fp32",
        expected_runs: int | None = None,
        core_budget: int | None = None,
        l2_budget: int | None = None,
    ) -> None:
        self.configure(
            target, matmul_precision=matmul_precision, core_budget=core_budget, l2_budget=l2_budget
        )
        self.expected_runs = expected_runs
        self.current_dtype = "f32"
        if matmul_latency_table is not None:
            self.matmul_latency_table = matmul_latency_table

    def configure(
        self,
        target: str,
        *,
        matmul_precision: str = "fp32",
        core_budget: int | None = None,
        l2_budget: int | None = None,
    ) -> None:
        """Price for this chip. Raises UnsupportedError for an unknown one."""
        self.target: Chip = chip(target)
        self.rates = rates(self.target)
        self.matmul_precision = matmul_precision
        self.aic = min(self.target.aic_cores, core_budget or self.target.aic_cores)
        self.aiv = self.aic * self.target.aiv_cores // self.target.aic_cores
        self.l2_bytes = min(
            self.target.l2_bytes, l2_budget if l2_budget is not None else self.target.l2_bytes
        )

    # Users may subclass without calling __init__ of this class.
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "target" in self.__dict__ or name not in _LAZY:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        CostModel.__init__(self)
        return getattr(self, name)

    # -- leaves ---------------------------------------------------------------------------------

    def estimate_latency(self, op: OpView) -> float:
        """µs of a kernel of this op alone; of a collective, which is no kernel, by the links between chips."""
        if isinstance(op.operation, CollectiveOp):
            return self.collective_us(op.operation, op.larger_bytes)
        self.current_dtype = op.dtype
        work = op.work
        if work is None:
            return self.rates.launch_us + 1e6 * op.bytes / self.rates.hbm_bytes_per_s
        return self.price(work).us

    def estimate_group(self, group: GroupView) -> GroupCost | float:
        """The cost of a group as one kernel: a GroupCost, or just µs."""
        return self.price(group.work, group.resident_reads, group.resident_writes, ops=len(group.ops))

    def matmul_us(self, shape: tuple[int, ...], dtype: str = "f32") -> float:
        """µs of a plain matmul of (batch..., M, K, N)."""
        if len(shape) < 3:
            raise InvalidInputError(
                "a matmul's shape in the latency table is (batch..., M, K, N)",
                expected="3 sizes or more",
                got=shape,
            )
        *batch, m, k, n = shape
        size = {"f16": 2, "bf16": 2}.get(dtype, 4)
        count = math.prod(batch)
        reads = (count * m * k * size, count * k * n * size)
        work = Work(
            reads,
            (count * m * n * size,),
            0,
            0,
            m,
            n,
            count,
            1,
            (Matmul(m, n, k, dtype),),
            bare=n % FRACTAL == 0,
        )
        return self.price(work).us

    def collective_us(self, op: CollectiveOp, larger_bytes: int) -> float:
        """µs of a collective; `larger_bytes` is the larger of what it takes and gives."""
        ranks = op.ranks.value.data or ASSUMED_RANKS
        return LINKS.collective_us(larger_bytes, ranks, op.MOVES)

    def jit_seconds(self, ops: int) -> float:
        """Seconds to build a kernel of so many ops."""
        return self.rates.jit_s + self.rates.jit_s_per_op * ops

    # -- one kernel -----------------------------------------------------------------------------

    def price(
        self,
        work: Work,
        resident_reads: Sequence[bool] = (),
        resident_writes: Sequence[bool] = (),
        ops: int = 1,
    ) -> GroupCost:
        """The formula behind all estimates; see the module docstring."""
        if work.stages:
            return self._in_stages(work, resident_reads, resident_writes, ops)
        r = self.rates
        resident = sum(b for b, here in zip(work.reads, resident_reads) if here)
        resident_out = sum(b for b, here in zip(work.writes, resident_writes) if here)
        passes = max(1, work.passes)
        read = sum(work.reads) + (passes - 1) * max(work.reads, default=0) + work.handed
        hbm = sum(work.reads) + sum(work.writes) - resident - resident_out
        spilled = work.handed if work.handed > self.l2_bytes * r.l2_fraction else 0
        hbm += spilled
        l2 = resident + resident_out + work.handed - spilled
        memory = 1e6 * (hbm / r.hbm_bytes_per_s + l2 / r.l2_bytes_per_s)
        make = self._cube if work.matmuls else self._vector
        us, blocks, cores, pipes, head, ring = make(work, read, memory)
        return GroupCost(
            us=us + head,
            hbm_bytes=work.bytes + spilled,
            l2_bytes=ring,
            resident_bytes=resident + resident_out,
            launch_us=head,
            memory_us=memory,
            jit_s=self.jit_seconds(ops),
            blocks=blocks,
            cores=cores,
            pipes=pipes,
            footprint=self.footprint(work),
        )

    def _in_stages(
        self, work: Work, resident_reads: Sequence[bool], resident_writes: Sequence[bool], ops: int
    ) -> GroupCost:
        """Stages one after the other in one launch; what they hand over is L2 traffic while it fits there.

        The cores of all stages start together, so the longest start counts, and every barrier costs its time.
        """
        r = self.rates
        parts = [self.price(stage, resident_reads, resident_writes, ops) for stage in work.stages]
        spilled = sum(p.hbm_bytes - stage.bytes for p, stage in zip(parts, work.stages))
        head = max(p.launch_us for p in parts) + r.barrier_us * work.barriers
        if work.matmuls and any(p.pipes["vector"] for p in parts):  # a lone matmul becomes part of a kernel with vector cores
            cores = max(p.cores for p, s in zip(parts, work.stages) if s.matmuls)
            head = max(head, r.launch_us + r.mix_head_us + r.mix_head_full_us * cores / self.target.aic_cores)
        return GroupCost(
            us=head + sum(p.us - p.launch_us for p in parts),
            hbm_bytes=work.bytes + spilled,
            l2_bytes=sum(p.l2_bytes for p in parts) + work.handed - spilled,
            resident_bytes=max(p.resident_bytes for p in parts),
            launch_us=head,
            memory_us=sum(p.memory_us for p in parts),
            jit_s=self.jit_seconds(ops),
            blocks=max(p.blocks for p in parts),
            cores=max(p.cores for p in parts),
            pipes={pipe: sum(p.pipes[pipe] for p in parts) for pipe in PIPES},
            footprint=max(p.footprint for p in parts),
        )

    def _us(self, cycles: float) -> float:
        return cycles / self.target.clock_mhz

    def _vector(
        self, work: Work, read: int, memory: float
    ) -> tuple[float, int, int, dict[str, float], float, int]:
        r = self.rates
        columns = max(1, -(-work.lanes // FEWEST_LANES) if work.passes == 1 else 1)
        units = (work.results or work.grid * work.rows) * columns * work.parts
        cores = max(1, min(self.aiv, units))
        share = -(-units // cores) / units  # of the busiest core
        tile = self._tile_elements(work)
        elements = work.grid * work.rows * work.lanes
        tiles = max(1, -(-math.ceil(elements * share) // tile))
        pipes = {
            "memory": memory,
            "load": self._us(read * share / r.aiv_read_together_bytes_per_cycle),
            "vector": self._us(work.cycles * share + work.starts * tiles),
            "store": self._us(sum(work.writes) * share / r.aiv_write_bytes_per_cycle),
            "cube": 0.0,
        }
        head = r.launch_us + self._us(
            r.mte2_head_cycles + r.mte2_head_cycles_per_core * cores + r.vector_head_cycles
        )
        if work.parts > 1:
            head += r.barrier_us * (work.passes - 1)
        return _overlap(pipes, tiles), cores, cores, pipes, head, 0

    def _cube(
        self, work: Work, read: int, memory: float
    ) -> tuple[float, int, int, dict[str, float], float, int]:
        r = self.rates
        columns = 1 if work.row_complete else -(-work.lanes // COLUMNS)
        others = work.grid * columns
        rounds = -(-(-(-work.rows // BLOCK)) * others // self.aic)
        share = -(-work.rows // max(1, rounds * self.aic // max(1, others)))
        rows = min(BLOCK, max(FRACTAL, _up(share, FRACTAL)))
        blocks = others * -(-work.rows // rows)
        rounds = -(-blocks // self.aic)
        cores = min(blocks, self.aic)
        cube = load = fix = 0.0
        ring = 0
        for m in work.matmuls:
            width = m.columns if work.row_complete else min(COLUMNS, m.columns)
            tiles = -(-width // COLUMNS)
            size = {"f16": 2, "bf16": 2}.get(m.dtype, 4)
            kind = "hf32" if m.dtype == "f32" and self.matmul_precision == "hf32" else m.dtype
            kind = "f16" if m.dtype == "f32" and self.matmul_precision == "fp16" else kind
            cube += rows * _up(width, FRACTAL) * m.summed / r.macs(kind) / r.cube_efficiency
            load += (tiles * rows * m.summed + m.summed * width) * size / r.aic_read_bytes_per_cycle
            fix += rows * width * 4 / r.fixpipe_bytes_per_cycle
            if not work.bare:
                ring += 2 * 4 * work.grid * m.rows * m.columns
            if m.computed:
                ring += 2 * size * work.grid * m.rows * m.summed
        share = 1 / max(1, blocks)
        width = work.lanes if work.row_complete else min(COLUMNS, work.lanes)
        tiles = max(
            1, -(-rows * width // (2 * self._tile_elements(work)))
        )  # of each of a block's two vector cores
        read_back = (
            (ring / 2 + sum(work.reads) - self._cube_reads(work)) * share / 2 / r.aiv_read_together_bytes_per_cycle
        )
        vector = max(work.cycles * share / 2 + work.starts * tiles, read_back)
        pipes = {
            "memory": memory,
            "load": rounds * self._us(load),
            "cube": rounds * self._us(max(cube, fix)),
            "vector": 0.0 if work.bare else rounds * self._us(vector),
            "store": 0.0,
        }
        head = r.launch_us + (
            0.0 if work.bare else r.mix_head_us + r.mix_head_full_us * cores / self.target.aic_cores
        )
        steps = rounds if not any(m.computed for m in work.matmuls) else max(1, rounds)
        return _overlap(pipes, max(1, steps)), blocks, cores, pipes, head, ring

    def _cube_reads(self, work: Work) -> int:
        """Bytes of operands that the cube cores load, or all that is read if some of them are computed."""
        size = sum(
            (m.rows * m.summed + m.summed * m.columns) * work.grid * 4 for m in work.matmuls if not m.computed
        )
        return min(size, sum(work.reads))

    def _tile_elements(self, work: Work) -> int:
        return max(64, self.target.ub_usable_bytes // (4 * work.live))

    def footprint(self, work: Work) -> int:
        """Bytes of UB at the smallest tile: one row if lanes are reduced whole, else one repeat."""
        lanes = (
            work.lanes
            if (work.row_complete or "reduction" in work.kind) and work.passes == 1
            else min(work.lanes, 64)
        )
        return 4 * work.live * _up(lanes, 8)

    # -- lower bound ------------------------------------------------------------------------------

    def lower_bound_us(self, hbm_bytes: int, macs: Mapping[str, int], kernels: int = 1) -> float:
        """No plan is faster: all compulsory bytes at full bandwidth, or all products at the cube's peak, and
        launches.
        """
        r = self.rates
        cube = (
            sum(n / r.macs(kind) for kind, n in macs.items()) / self.target.aic_cores / self.target.clock_mhz
        )
        return max(1e6 * hbm_bytes / r.hbm_bytes_per_s, cube) + kernels * r.launch_us


_LAZY = ("target", "rates", "matmul_precision", "aic", "aiv", "l2_bytes", "expected_runs", "current_dtype")


def _table(self: CostModel) -> LatencyTable:
    found = self.__dict__.get("_table")
    if found is None:
        found = self.__dict__["_table"] = LatencyTable(self, type(self)._measured)
    return found


def _set_table(self: CostModel, entries: Mapping[tuple[int, ...], float]) -> None:
    self.__dict__["_table"] = LatencyTable(self, entries)


CostModel.matmul_latency_table = property(_table, _set_table, doc="Measured µs by (batch..., M, K, N).")


def _overlap(pipes: Mapping[str, float], steps: int) -> float:
    """Pipes work side by side except in the first and last of `steps` tiles."""
    slowest = max(pipes.values())
    rest = sum(v for k, v in pipes.items() if k != "memory") - max(
        v for k, v in pipes.items() if k != "memory"
    )
    return slowest + rest / steps


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
