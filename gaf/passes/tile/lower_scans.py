# SPDX-License-Identifier: Apache-2.0
"""Running folds of a stage: one loop over the axis that carries their states and stores the outputs on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid
from gaf.dialects.common.index import sym

if TYPE_CHECKING:
    from gaf.passes.tile.lower_region import RegionEmitter


class ScanEmitter:
    """Emits the running folds and the outputs of a stage, with the values of its `RegionEmitter`."""

    def __init__(self, e: RegionEmitter) -> None:
        self.e = e

    def run(self, grid_axes: Sequence[str]) -> None:
        """The chunks in order; a later running fold may build on an earlier one of the same chunk."""
        e, kb, nodes = self.e, self.e.kb, self.e.region.nodes
        (axis,) = e.schedule.nest
        name = e.rename[axis]
        scans = [i for i, n in enumerate(nodes) if n.kind == "scan"]
        first = [
            kb.fill(monoid.by_name(nodes[i].function).identity, dt.F32, [a for a in e.tile_axes(nodes[i]) if a != name])
            for i in scans
        ]
        with kb.for_(name, sym(e.names["tm" if name == e.m else "tn"]), first) as loop, e.scope():
            states = []
            for i, state in zip(scans, loop.carried):
                with kb.at(e.region.origins.get(i) or kb.location):
                    prefix, last = kb.scan(nodes[i].function, e.operand(nodes[i].args[0]), state, name, nodes[i].exclusive)
                e.scopes[-1][i] = prefix
                states.append(last)
            for i in range(len(e.outputs)):
                e.store(i, grid_axes)
            loop.yield_(carried=states)
