# SPDX-License-Identifier: Apache-2.0
"""Cycles that the trace mode of the host twin charges: one record, every figure with unit and source.

Sources: [att] perf_param_v1.cpp of the public graph-autofusion tree, fits measured on A2; [doc] asc-devkit
documentation (table of theoretical vector throughput, NPU architecture 2201, matmul best practice); [catlass]
CATLASS example 102; [ini] platform_config of a CANN toolkit; [derived] arithmetic on these; [estimated]
nobody publishes the figure: a named assumption, to be replaced by a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from gaf.target.chips import DEFAULT, Chip
from gaf.target.rates import Rates, rates

REPEAT_BYTES = 256


@dataclass(frozen=True)
class VectorCost:
    """One vector API: `slope` cycles per element and `start` cycles, for 16-bit and for 32-bit elements.

    Slopes below one 256-byte repeat a cycle are raised to it: no instruction is faster.
    """

    slope16: float
    start16: float
    slope32: float
    start32: float

    def slope(self, element_bytes: int) -> float:
        """Cycles per element. 8-bit elements cost as 16-bit ones, 64-bit elements twice as much as 32-bit
        ones.
        """
        found = self.slope16 if element_bytes <= 2 else self.slope32 * max(1, element_bytes // 4)
        return max(found, min(element_bytes, 8) / REPEAT_BYTES)

    def start(self, element_bytes: int) -> float:
        """Cycles from the start of the instruction to its first result."""
        return self.start16 if element_bytes <= 2 else self.start32


def _c(slope16: float, start16: float, slope32: float, start32: float) -> VectorCost:
    return VectorCost(slope16, start16, slope32, start32)


H, F = 1 / 128, 1 / 64  # one repeat a cycle
_ADD, _SCALAR, _UNARY = _c(0.0103, 22.22, 0.0206, 23.22), _c(H, 22.09, F, 22.09), _c(H, 20.02, F, 20.06)
_ERF, _TANH, _SIGMOID = (
    _c(0.6996, 478.42, 0.6038, 458.29),
    _c(0.1976, 181.69, 0.1570, 153.93),
    _c(0.1011, 116.04, 0.1256, 115.97),
)
_LOGIC, _ROUND = _c(0.0107, 17.14, 2 * 0.0107, 17.14), _c(4 * H, 4 * 20.12, 4 * F, 4 * 20.44)
_WHOLE, _WHOLE_SUM = _c(0.0547, 21.0, 0.1094, 20.01), _c(0.0547, 35.0, 0.1094, 32.0)
_SORT = _c(0.5, 20.0, 0.5, 20.0)  # [doc] two elements a cycle
_REDUCE = _c(0.0547 * 1.02, 90.0, 0.1094 * 1.02, 90.0)

VECTOR_COSTS: dict[str, VectorCost] = {
    # [att], with slopes below the floor raised
    "Add": _ADD, "Sub": _c(0.0107, 22.12, 0.0213, 22.13), "Mul": _c(0.0110, 23.12, 0.0206, 23.23),
    "Div": _c(0.0460, 29.12, 0.0454, 29.09), "Max": _c(0.0111, 20.12, 0.0215, 20.13),
    "Min": _c(0.0111, 20.11, 0.0215, 20.13),
    "Adds": _SCALAR, "Muls": _c(H, 23.10, F, 23.10), "Maxs": _c(H, 20.09, F, 20.09),
    "Mins": _c(H, 20.09, F, 20.09),
    "Abs": _UNARY, "Relu": _c(H, 20.02, F, 20.02), "Exp": _c(0.0311, 28.01, 0.0307, 28.04),
    "Sqrt": _c(0.0312, 29.01, 0.0313, 29.0), "Rsqrt": _c(H, 21.10, F, 21.10),
    "Reciprocal": _c(H, 21.01, F, 21.06),
    "And": _LOGIC, "Or": _c(0.0132, 12.40, 2 * 0.0132, 12.40),
    "Sigmoid": _SIGMOID, "Tanh": _TANH, "Erf": _ERF, "Sign": _c(0.0855, 119.08, 0.1701, 119.07),
    "Power": _c(0.6647, 2516.53, 0.6199, 730.11), "Select": _c(0.0118, 45.97, 0.0229, 43.99),
    "CompareScalar": _c(0.0084, 21.92, 0.0161, 21.97), "Compare": _c(H, 21.03, F, 21.03),
    "Duplicate": _c(H, 17.0, F, 17.0), "Brcb": _c(H, 13.06, F, 13.07), "Copy": _c(H, 13.0, 0.0157, 13.0),
    "DataCopy": _c(H, 11.64, F, 11.64), "GatherMask": _c(0.0156, 14.02, 0.0313, 14.02),
    "Gather": _c(0.1873, 17.02, 0.1875, 15.0),
    "BlockReduceMax": _c(0.0547, 18.0, 0.0198, 16.74), "BlockReduceMin": _c(0.0547, 18.01, 0.0198, 16.74),
    "BlockReduceSum": _c(0.0547, 18.0, 0.0198, 16.74), "WholeReduceMax": _WHOLE,
    "WholeReduceMin": _WHOLE, "WholeReduceSum": _WHOLE_SUM,
    "Cast": _c(H, 20.12, F, 20.44),
    # [doc] throughput where [att] has no fit or a wrong one; the start of a like instruction
    "PairReduceSum": _c(H, 37.16, F, 36.96), "Ln": _c(1 / 32, 28.01, 1 / 32, 28.04),
    "Log": _c(1 / 32, 28.01, 1 / 32, 28.04),
    "Not": _LOGIC, "LeakyRelu": _UNARY, "ShiftLeft": _SCALAR, "ShiftRight": _SCALAR, "Axpy": _SCALAR,
    "AddRelu": _ADD, "SubRelu": _ADD, "FusedMulAdd": _ADD, "FusedMulAddRelu": _ADD, "MulAddDst": _ADD,
    "Transpose": _c(H, 17.0, F, 17.0), "TransDataTo5HD": _c(2 * H, 17.0, 2 * F, 17.0),
    "CreateVecIndex": _c(H, 17.0, F, 17.0), "ArithProgression": _c(H, 17.0, F, 17.0),
    # [estimated]: compositions without a figure, by the number of instructions or as the nearest function
    "Erfc": _ERF, "Sin": _ERF, "Cos": _ERF, "Tan": _ERF, "Asin": _ERF, "Acos": _ERF, "Atan": _ERF,
    "Sinh": _TANH, "Cosh": _TANH, "Asinh": _ERF, "Acosh": _ERF, "Atanh": _TANH, "Silu": _SIGMOID,
    "Log2": _c(1 / 32 + H, 51.0, 1 / 32 + F, 51.0), "Log10": _c(1 / 32 + H, 51.0, 1 / 32 + F, 51.0),
    "Floor": _ROUND, "Ceil": _ROUND, "Round": _ROUND, "Trunc": _ROUND, "Frac": _ROUND,
    "ReduceSum": _REDUCE, "ReduceMax": _REDUCE, "ReduceMin": _REDUCE,
    "Gatherb": _c(8 * H, 17.0, 8 * F, 15.0), "Sort32": _SORT, "MrgSort": _SORT,
    "CastDequant": _c(F, 20.44, F, 20.44),
    "SetCmpMask": _UNARY, "GetCmpMask": _UNARY,
}  # fmt: skip
"""Twin API name -> cost. [estimated]: BlockReduceSum as its maximum, Reduce* as two WholeReduce."""

UNKNOWN_VECTOR_COST = _ADD
"""What an API without a row costs; the timeline names those that it met."""


@dataclass(frozen=True)
class Timing:
    """Cycles, bytes per cycle of one core, bytes. The order of the fields is that of GafTraceCosts
    (twin/trace.h).
    """

    clock_mhz: float
    aic_cores: float
    aiv_cores: float
    l2_resident_bytes: float
    """Re-read data below this stays in L2 [estimated: half of L2]."""
    hbm_bytes_per_cycle: float
    """Of the chip [doc]."""
    # -- scalar unit
    issue: float = 6.0
    """Scalar work per API call: addresses, parameters, dispatch [estimated]."""
    scalar_ub: float = 12.0
    """GetValue / SetValue in UB [estimated]."""
    scalar_gm_hit: float = 6.0
    """GetValue in a 64-byte line that the last access brought in [estimated]."""
    scalar_gm_miss: float = 300.0
    """GetValue in another line [estimated]."""
    cross_flag: float = 200.0
    """From CrossCoreSetFlag to the partner's wait [estimated]."""
    sync_all: float = 1800.0
    """SyncAll after the last core has come [estimated: 1 us]."""
    # -- heads
    kernel_head: float = 300.0
    """[att]"""
    mix_head: float = 1800.0
    """Extra start of a kernel with cube and vector cores: 1 us [catlass]."""
    mix_head_full: float = 7200.0
    """Added in proportion to the cores that take part: 4 us [catlass]."""
    vector_head: float = 37.37
    """[att]"""
    mte3_head: float = 497.36
    """[att]"""
    large_load: float = 25_000.0
    """Bytes from which on loads count as large [att]."""
    mte2_head_small: float = 882.09
    """[att]"""
    mte2_head_small_core: float = 15.89
    """Added per core [att]."""
    mte2_head_large: float = 1575.03
    """[att]"""
    mte2_head_large_core: float = 32.72
    """Added per core [att]."""
    # -- GM -> UB
    load_small: float = 7.9052
    """Bytes per cycle with many cores [att]."""
    load_small_core: float = 7.31
    """Over the number of cores: added to it [att]."""
    load_large: float = 9.9074
    """[att]"""
    load_large_core: float = 15.896
    """[att]"""
    load_start: float = 27.01
    """[att]"""
    load_stride: float = 0.07
    """Per row and byte of (row pitch mod 256) [att]."""
    load_l2: float = 33.0
    """Bytes per cycle when the data lie in L2 [derived, doc: matmul_gelu]."""
    short_row: float = 32.0
    """Rows below these bytes cost `short_row_as` bytes [att]."""
    short_row_as: float = 512.0
    """[att]"""
    # -- UB -> GM
    store: float = 9.96
    """[att]"""
    store_core: float = 3.79
    """[att]"""
    store_start: float = 12.09
    """[att]"""
    store_stride: float = 0.02
    """[att]"""
    store_l2: float = 45.0
    """Bytes per cycle into L2 [derived, doc: matmul_gelu]."""
    store_unaligned: float = 2.0
    """Bytes per cycle of rows of 32 to 512 bytes that are no multiple of 32 [att]."""
    store_tiny_core_slope: float = -0.101
    """Rows below 32 bytes: cycles a row = (a n + b) bytes + c n + d, n cores [att]."""
    store_tiny_slope: float = -2.2
    """b [att]"""
    store_tiny_core: float = 8.89
    """c [att]"""
    store_tiny: float = 96.24
    """d [att]"""
    # -- cube core
    aic_load: float = 84.5
    """GM or L2 to L1, rows of 512 bytes and more [doc]."""
    aic_row_128: float = 44 / 80
    """Part of it with rows of 128 bytes [catlass]."""
    aic_row_256: float = 60 / 80
    """With rows of 256 bytes [catlass]."""
    aic_pitch_32: float = 33 / 80
    """With a row pitch that is a multiple of 32 but not of 512 bytes [catlass]."""
    aic_pitch_odd: float = 25 / 80
    """With any other row pitch [catlass]."""
    nd2nz_start: float = 210.0
    """[att]"""
    mte1_l0a: float = 256.0
    """L1 to L0A [doc]."""
    mte1_l0b: float = 128.0
    """L1 to L0B [doc]."""
    mte1_table: float = 32.0
    """L1 to the bias table and the Fixpipe buffer [doc]."""
    mte1_start: float = 26.0
    """[att]"""
    mmad_start: float = 26.0
    """[estimated: as MTE1]"""
    fixpipe_l2: float = 86.0
    """L0C to L2 [att]."""
    fixpipe_hbm: float = 32.0
    """L0C to memory [att]."""
    fixpipe_start: float = 210.0
    """[estimated: as nd2nz]"""

    @classmethod
    def of(cls, chip: Chip = DEFAULT, known: Rates | None = None) -> Timing:
        """The record of a chip."""
        known = known or rates(chip)
        hertz = chip.clock_mhz * 1e6
        return cls(
            clock_mhz=float(chip.clock_mhz), aic_cores=float(chip.aic_cores), aiv_cores=float(chip.aiv_cores),
            l2_resident_bytes=known.l2_fraction * chip.l2_bytes,
            hbm_bytes_per_cycle=known.hbm_bytes_per_s / hertz,
            sync_all=known.barrier_us * chip.clock_mhz, mix_head=known.mix_head_us * chip.clock_mhz,
            mix_head_full=known.mix_head_full_us * chip.clock_mhz, load_l2=known.aiv_read_bytes_per_cycle,
            store_l2=known.aiv_write_bytes_per_cycle, aic_load=known.aic_read_bytes_per_cycle,
            fixpipe_l2=known.fixpipe_bytes_per_cycle, mte3_head=known.mte3_head_cycles,
            vector_head=known.vector_head_cycles,
            mte2_head_small=known.mte2_head_cycles, mte2_head_small_core=known.mte2_head_cycles_per_core,
        )  # fmt: skip

    def values(self) -> list[float]:
        """All fields in order."""
        return [getattr(self, f.name) for f in fields(self)]

    def load_rate(self, cores: int, tile_bytes: float = 32 * 1024) -> float:
        """Bytes per cycle of one vector core that loads tiles from memory while `cores` do."""
        if tile_bytes >= self.large_load:
            return self.load_large + self.load_large_core / cores
        return self.load_small + self.load_small_core / cores

    def store_rate(self, cores: int) -> float:
        """Bytes per cycle of one vector core that stores whole blocks while `cores` do."""
        return self.store + self.store_core / cores

    def fractal_cycles(self, element_bytes: int) -> float:
        """Cycles of one fractal product, 16 x 16 x 32 bytes: float32 runs at a quarter of the rate of float16
        [doc].
        """
        return 2.0 if element_bytes == 4 else 1.0
