# SPDX-License-Identifier: Apache-2.0
"""What a candidate takes of the chip's memories, as the search asks the code generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gaf.fusion.region import Region
from gaf.fusion.schedule import Schedule
from gaf.target import Chip


@dataclass(frozen=True)
class Footprint:
    """Bytes of UB at the smallest tile (None: they depend on sizes that only the run knows), and why there is
    no kernel.
    """

    bytes: int | None
    reason: str = ""


Planner = Callable[[Region, Schedule, Chip], Footprint]
"""Makes the memory plan of a schedule's kernel."""

SUSPECT = 0.125
"""Part of UB from which on an estimated footprint is checked by a plan: estimates are off by up to this
factor.
"""
