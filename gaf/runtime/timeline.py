# SPDX-License-Identifier: Apache-2.0
"""The timeline of one kernel launch in trace mode: cycles per pipe of every core, bytes per argument and
memory.

Times are modelled cycles of a device core (`Timing.clock_mhz`), from the figures of `gaf.target.timing`; the
launch time of the host is not part of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, fields
from functools import lru_cache

import numpy as np

from gaf.target import DEFAULT, Chip
from gaf.target.timing import UNKNOWN_VECTOR_COST, VECTOR_COSTS, Timing

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
MEMORIES = ("GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB")

SPAN = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("core", "u4"),
        ("api", "u2"),
        ("node", "u2"),
        ("pipe", "u4"),
        ("bytes", "u4"),
    ]
)
"""One instruction: cycles, core number, indices into `apis` and `nodes`, pipe number, bytes it copies."""


class _TimingStruct(ctypes.Structure):
    _fields_ = [(f.name, ctypes.c_double) for f in fields(Timing)]


class _VectorCost(ctypes.Structure):
    _fields_ = [
        ("api", ctypes.c_char * 24),
        ("element_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("slope", ctypes.c_double),
        ("start", ctypes.c_double),
    ]


class _Costs(ctypes.Structure):
    _fields_ = [
        ("timing_bytes", ctypes.c_uint32),
        ("vectors", ctypes.c_uint32),
        ("timing", ctypes.POINTER(_TimingStruct)),
        ("vector", ctypes.POINTER(_VectorCost)),
        ("fractal_cycles", ctypes.c_uint32 * 9),
        ("want_spans", ctypes.c_uint32),
    ]


class _Core(ctypes.Structure):
    _fields_ = [
        ("cube", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("sub", ctypes.c_uint32),
        ("slot", ctypes.c_uint32),
        ("start", ctypes.c_double),
        ("end", ctypes.c_double),
        ("busy", ctypes.c_double * 7),
        ("work", ctypes.c_double * 7),
        ("instructions", ctypes.c_uint64 * 7),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in (
        "bytes", "read", "read_once", "read_again", "written", "written_once",
        "hbm_read", "hbm_written", "unaligned",
    )] + [("role", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]  # fmt: skip


class _Trace(ctypes.Structure):
    _fields_ = [
        ("cycles", ctypes.c_double),
        ("fill_cycles", ctypes.c_double),
        *[(n, ctypes.c_uint32) for n in ("cores", "arguments", "apis", "nodes", "unknown", "faults")],
        ("spans", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64),
        ("local", (ctypes.c_uint64 * 2) * 8),
        ("core", ctypes.POINTER(_Core)),
        ("argument", ctypes.POINTER(_Argument)),
        ("span", ctypes.c_void_p),
        ("api", ctypes.POINTER(ctypes.c_char_p)),
        ("node", ctypes.POINTER(ctypes.c_char_p)),
        ("unknown_api", ctypes.POINTER(ctypes.c_char_p)),
        ("fault", ctypes.c_char_p),
        ("owner", ctypes.c_void_p),
    ]


@lru_cache(maxsize=8)
def costs_of(timing: Timing, spans: bool = True) -> ctypes.Structure:
    """The figures as the runtime library takes them (GafTraceCosts)."""
    rows = [
        (name, width, cost)
        for name, cost in [*VECTOR_COSTS.items(), ("", UNKNOWN_VECTOR_COST)]
        for width in (1, 2, 4, 8)
    ]
    vector = (_VectorCost * len(rows))(
        *[_VectorCost(n.encode(), w, 0, c.slope(w), c.start(w)) for n, w, c in rows]
    )
    struct = _TimingStruct(*timing.values())
    fractals = (ctypes.c_uint32 * 9)(*[int(timing.fractal_cycles(b)) for b in range(9)])
    costs = _Costs(ctypes.sizeof(struct), len(rows), ctypes.pointer(struct), vector, fractals, int(spans))
    costs.keep = (vector, struct)  # type: ignore[attr-defined]
    return costs


@dataclass(frozen=True)
class CoreTime:
    """One core: an AIC or AIV of a block; cycles by pipe."""

    name: str
    cube: bool
    block: int
    slot: int
    start: float
    end: float
    busy: dict[str, float]
    """Cycles that the pipe was occupied."""
    work: dict[str, float]
    """The same at the throughput of the pipe: without start-up, short rows or bad alignment."""
    instructions: dict[str, int]


@dataclass(frozen=True)
class ArgumentTraffic:
    """Bytes of one GM argument, in 32-byte blocks where distinct ones are counted."""

    name: str
    role: str
    bytes: int
    read: int
    read_once: int
    """Distinct bytes read."""
    read_again: int
    """Distinct bytes that several instructions read."""
    written: int
    written_once: int
    hbm_read: int
    """What memory moves: distinct bytes while all that is read again stays in L2, else all of them; a
    workspace that stays in L2 moves none.
    """
    hbm_written: int
    unaligned: int
    """Moved by copies that do not start on 512 bytes."""


@dataclass
class Timeline:
    """What trace mode found for one launch."""

    kernel: str
    timing: Timing
    cycles: float
    fill_cycles: float
    """Until the first instruction of another pipe than S starts."""
    cores: list[CoreTime]
    arguments: list[ArgumentTraffic]
    memory: dict[str, tuple[int, int]]
    """On-chip memory -> bytes read and written, all cores together."""
    instructions: int
    apis: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    spans: np.ndarray = field(default_factory=lambda: np.empty(0, SPAN))
    unknown_apis: list[str] = field(default_factory=list)
    """Vector APIs without a cost row: they were charged as Add."""
    fault: str = ""
    """An access that was left out because it would have left memory; check mode says more."""

    @property
    def us(self) -> float:
        """Modelled microseconds."""
        return self.cycles / self.timing.clock_mhz

    @property
    def hbm_bytes(self) -> int:
        return sum(a.hbm_read + a.hbm_written for a in self.arguments)

    @property
    def moved_bytes(self) -> int:
        """Bytes that copies moved between GM (with L2) and the cores."""
        return sum(a.read + a.written for a in self.arguments)

    def busiest(self, pipe: str, kind: str = "busy") -> float:
        """Most cycles of a pipe on one core."""
        return max((getattr(c, kind)[pipe] for c in self.cores), default=0.0)

    def total(self, pipe: str, kind: str = "busy") -> float:
        """Cycles of a pipe over all cores."""
        return sum(getattr(c, kind)[pipe] for c in self.cores)

    @property
    def bound_by(self) -> str:
        """The pipe that is busiest on the core that ends last."""
        last = max(self.cores, key=lambda c: c.end)
        return max(PIPES, key=lambda p: last.busy[p])

    def to_json(self) -> dict[str, object]:
        """The sums, without single instructions."""
        return {
            "kernel": self.kernel, "cycles": self.cycles, "us": self.us, "fill_cycles": self.fill_cycles,
            "bound_by": self.bound_by, "cores": len(self.cores), "instructions": self.instructions,
            "busy": {p: self.total(p) for p in PIPES if self.total(p)},
            "hbm_bytes": self.hbm_bytes, "moved_bytes": self.moved_bytes,
            "arguments": [vars(a) for a in self.arguments],
            "memory": {m: list(v) for m, v in self.memory.items() if any(v)},
            "unknown_apis": self.unknown_apis, "fault": self.fault,
        }  # fmt: skip


_ROLES = {0: "in/out", 1: "workspace", 2: "input", 3: "output"}


def take(
    address: int, library: ctypes.CDLL, kernel: str, timing: Timing, names: list[str] | None = None
) -> Timeline:
    """Copy a GafTrace of the runtime library and free it."""
    trace = ctypes.cast(address, ctypes.POINTER(_Trace)).contents
    try:
        spans = (
            np.frombuffer(ctypes.string_at(trace.span, trace.spans * SPAN.itemsize), SPAN).copy()
            if trace.spans
            else np.empty(0, SPAN)
        )
        per_block = max((c.sub for c in trace.core[: trace.cores] if not c.cube), default=0) + 1
        cores = [
            CoreTime(
                f"AIC {c.block}" if c.cube else f"AIV {c.block * per_block + c.sub}",
                bool(c.cube), c.block, c.slot, c.start, c.end,
                dict(zip(PIPES, c.busy)), dict(zip(PIPES, c.work)), dict(zip(PIPES, c.instructions)),
            )
            for c in trace.core[: trace.cores]
        ]  # fmt: skip
        arguments = []
        for i, a in enumerate(trace.argument[: trace.arguments]):
            role = _ROLES[a.role]
            name = (
                names[i]
                if names is not None and i < len(names)
                else role
                if role == "workspace"
                else f"argument {i}"
            )
            numbers = [getattr(a, f.name) for f in fields(ArgumentTraffic) if f.name not in ("name", "role")]
            arguments.append(ArgumentTraffic(name, role, *numbers))
        text = lambda pointer, n: [s.decode("utf-8", "replace") for s in pointer[:n]]
        return Timeline(
            kernel, timing, trace.cycles, trace.fill_cycles, cores, arguments,
            {m: (rw[0], rw[1]) for m, rw in zip(MEMORIES, trace.local)}, trace.instructions,
            text(trace.api, trace.apis), text(trace.node, trace.nodes), spans,
            text(trace.unknown_api, trace.unknown), trace.fault.decode("utf-8", "replace"),
        )  # fmt: skip
    finally:
        library.gafTraceFree(ctypes.c_void_p(address))


def timing_of(chip: Chip = DEFAULT) -> Timing:
    """The figures of a chip."""
    return Timing.of(chip)
