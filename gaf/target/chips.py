# SPDX-License-Identifier: Apache-2.0
"""Chips of the Ascend 910B family as data: bytes, MHz, and the source of each figure.

Sources: [ini] the platform_config/Ascend910B*.ini files of a CANN 8.1 toolkit; [doc] the asc-devkit 9.1
documentation, page on NPU architecture version 2201; [derived] arithmetic on these.
"""

from __future__ import annotations

from dataclasses import dataclass

from gaf.errors import UnsupportedError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True)
class Chip:
    """One chip. All sizes are bytes per core unless the name says otherwise."""

    name: str
    soc_version: str
    """The name that CANN's build files use (SOC_VERSION)."""
    aic_cores: int
    """Cube cores [ini]."""
    aiv_cores: int
    """Vector cores, two beside each cube core [ini]."""
    clock_mhz: int
    """cube_freq [ini]; no separate vector clock is published."""
    l2_bytes: int
    """L2 cache of the chip [ini]."""
    hbm_bytes: int
    """Memory of the chip [ini]."""
    ub_bytes: int = 192 * KIB
    """Unified buffer of a vector core [ini]."""
    ub_reserved_bytes: int = 256 + 8 * KIB
    """Not available to a kernel: 256 bytes, and 8 KiB that Select, Compare and others borrow [doc]."""
    l1_bytes: int = 512 * KIB
    """L1 buffer of a cube core [ini]."""
    l1_reserved_bytes: int = 256
    """Not available to a kernel [doc]."""
    l0a_bytes: int = 64 * KIB  # [ini]
    l0b_bytes: int = 64 * KIB  # [ini]
    l0c_bytes: int = 128 * KIB  # [ini]
    block_bytes: int = 32
    """Unit of alignment in UB, and of a DataCopy [doc]."""
    repeat_bytes: int = 256
    """What one vector instruction does per repeat, and per cycle [doc]."""

    @property
    def ub_usable_bytes(self) -> int:
        """Bytes of UB that buffers of a kernel may take: 188,160 on all chips so far [derived]."""
        return self.ub_bytes - self.ub_reserved_bytes

    @property
    def l1_usable_bytes(self) -> int:
        """Bytes of L1 that buffers of a kernel may take [derived]."""
        return self.l1_bytes - self.l1_reserved_bytes


CHIPS: dict[str, Chip] = {
    c.name: c
    for c in (
        Chip("ascend910b1", "Ascend910B1", 24, 48, 1850, 192 * MIB, 64 * GIB),
        Chip("ascend910b2", "Ascend910B2", 24, 48, 1800, 192 * MIB, 64 * GIB),
        Chip("ascend910b3", "Ascend910B3", 20, 40, 1800, 192 * MIB, 64 * GIB),
        Chip("ascend910b4", "Ascend910B4", 20, 40, 1500, 96 * MIB, 32 * GIB),
    )
}
DEFAULT = CHIPS["ascend910b3"]


def chip(name: str) -> Chip:
    """The chip called `name`. Raises UnsupportedError."""
    found = CHIPS.get(name.lower())
    if found is None:
        raise UnsupportedError(f"unknown chip '{name}'", expected=" or ".join(CHIPS), got=name)
    return found
