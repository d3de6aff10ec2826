# SPDX-License-Identifier: Apache-2.0
"""The schedules that are legal for a region, best first, or the constraint that binds.

There are two families: *vector* (elementwise, broadcasts, reductions along lanes or rows) and *cube* (matmuls whose
result tiles the vector cores finish).
"""

from __future__ import annotations

from gaf.dialects.common import dtype as dt
from gaf.fusion.accesses import check_gathers, check_guards
from gaf.fusion.cube_schedules import cube_schedules
from gaf.fusion.region import NotFusible, Region
from gaf.fusion.schedule import Schedule
from gaf.fusion.vector_schedules import ranked_schedule, vector_schedules

MAX_INPUTS = 64  # kernel arguments: their addresses are 512 bytes of the launch


def choose_schedules(region: Region) -> list[Schedule]:
    """Legal schedules, best first. Raises NotFusible with the reason when there is none."""
    if len(region.inputs) > MAX_INPUTS:
        raise NotFusible(f"{len(region.inputs)} inputs are more than the {MAX_INPUTS} a kernel takes")
    check_gathers(region)
    contracts = region.contracts()
    for node in region.nodes:
        if node.kind == "load" and node.dtype not in (dt.F32, dt.F16, dt.BF16, dt.BOOL, dt.I32, dt.I64, dt.I16, dt.U8, dt.I8):
            raise NotFusible(f"{node.dtype} has no vector form yet")
    ordered = [n for n in region.nodes if n.kind == "rank"]
    scans = [n for n in region.nodes if n.kind == "scan"]
    if (ordered or scans) and (contracts or region.reductions() or (ordered and scans)):
        raise NotFusible("a sort or a running fold beside other folds or matmuls")
    if ordered:
        return [ranked_schedule(region, ordered)]
    if not contracts:
        return vector_schedules(region)
    schedules = cube_schedules(region, contracts)
    first = schedules[0]
    inner = [a for level in first.levels for m in level for a in (m.columns, *m.summed)]
    check_guards(region, (first.rows, first.lanes, *inner))
    return schedules
