# SPDX-License-Identifier: Apache-2.0
"""Rates and fixed costs of the Ascend 910B family for the cost model: one record, every figure with unit and
source.

Sources: [doc] asc-devkit documentation (NPU architecture 2201, L2 cache splitting, matmul best practice);
[catlass] CATLASS example 102 and its documentation; [att] perf_param_v1.cpp of the public graph-autofusion
tree; [cases] 240 operator times measured on a 910B2; [derived] arithmetic on these; [estimated] no figure is
published: a named assumption, to be replaced by a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

from gaf.target.chips import Chip


@dataclass(frozen=True)
class Rates:
    """Times in µs, bandwidths in bytes per second (chip) or bytes per cycle (core)."""

    hbm_bytes_per_s: float = 1.6e12
    """GM bandwidth of the chip [doc]; the learning hub says 1.8e12."""
    l2_bytes_per_s: float = 7.0e12
    """L2 bandwidth of the chip, reads and writes mixed [doc, said to be assumed]."""
    l2_fraction: float = 0.5
    """Live data below this part of L2 counts as resident between two kernels [estimated]."""
    aiv_read_bytes_per_cycle: float = 33.0
    """L2 to UB of one vector core [derived from the doc's matmul_gelu example]."""
    aiv_read_together_bytes_per_cycle: float = 16.7
    """The same when all vector cores read: 30 GB/s at 1.8 GHz [catlass]; the fastest of [cases] reach 15.3."""
    aiv_write_bytes_per_cycle: float = 45.0
    """UB to L2 of one vector core [derived, as above]."""
    aic_read_bytes_per_cycle: float = 84.5
    """GM or L2 to L1 (ND2NZ, long rows) of one cube core [doc]."""
    aic_read_low_bytes_per_cycle: float = 44.4
    """The same as CATLASS plans it: 80 GB/s at 1.8 GHz [catlass]."""
    fixpipe_bytes_per_cycle: float = 86.0
    """L0C to L2 of one cube core [att]."""
    cube_efficiency: float = 0.86
    """Part of the cube's peak that long loops reach: MAC busy in the vendor's best matmul [doc]."""
    macs_per_cycle: tuple[tuple[str, int], ...] = (
        ("f32", 16 * 16 * 4),
        ("hf32", 16 * 16 * 8),
        ("f16", 16 * 16 * 16),
        ("bf16", 16 * 16 * 16),
        ("i8", 16 * 16 * 32),
    )
    """Multiply-adds per cycle of one cube core [doc]."""
    launch_us: float = 3.0
    """Start of a kernel; whole kernels on little data take 5 µs [cases]."""
    super_kernel_us: float = 0.5
    """What is left of a launch inside a super-kernel: the sync between two ops [estimated]."""
    mix_head_us: float = 1.0
    """Extra start of a kernel with cube and vector cores [catlass]."""
    mix_head_full_us: float = 4.0
    """What is added to it when all cores take part: 1 to 5 µs in total in the text, 8 in the code [catlass].
    """
    barrier_us: float = 1.0
    """A grid-wide barrier inside a kernel [estimated]."""
    mte2_head_cycles: float = 882.09
    """Head of the load pipe, tiles below 25,000 bytes [att]."""
    mte2_head_cycles_per_core: float = 15.89
    """What every core adds to it [att]."""
    mte3_head_cycles: float = 497.36
    """Head of the store pipe [att]."""
    vector_head_cycles: float = 37.37
    """Head of the vector pipe [att]."""
    jit_s: float = 2.0
    """Seconds to build one kernel with the device compiler [estimated]."""
    jit_s_per_op: float = 0.05
    """Seconds that every op of it adds [estimated]."""

    def macs(self, kind: str) -> int:
        """Multiply-adds per cycle of one cube core for a dtype name, "hf32" included."""
        return dict(self.macs_per_cycle).get(kind, dict(self.macs_per_cycle)["f32"])


RATES = Rates()
"""The rates of all chips of the family; what differs between them is in `Chip`."""


def rates(target: Chip) -> Rates:
    """The rates of a chip: one record for the whole family so far."""
    return RATES
