# SPDX-License-Identifier: Apache-2.0
"""`smallest_tile`: what a candidate kernel takes of UB at its smallest tile, from the memory plan that
generates it.
"""

from __future__ import annotations

from gaf.errors import UnsupportedError
from gaf.fusion.footprint import Footprint
from gaf.fusion.region import Region
from gaf.fusion.schedule import Schedule
from gaf.passes.tile.lower_region import lower_region
from gaf.passes.tile.tile_plan import smallest_bytes
from gaf.target import Chip


def smallest_tile(region: Region, schedule: Schedule, target: Chip) -> Footprint:
    """What a schedule's kernel takes of UB with the smallest tiles that the host may choose, or why it has no
    kernel.
    """
    kernel = lower_region(region, schedule, "candidate")
    try:
        return Footprint(smallest_bytes(kernel, target))
    except UnsupportedError as error:
        return Footprint(None, error.what)
