# SPDX-License-Identifier: Apache-2.0
"""Ordered rows of a stage: chunks of a row are joined to the first elements so far, then results are read off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const

if TYPE_CHECKING:
    from gaf.passes.tile.lower_region import RegionEmitter

CHUNK = 1024
"""Elements of a row that are sorted at a time: their pairs take a seventh of UB, with room for both sides of a merge."""


class RankEmitter:
    """Emits the ordered values and the outputs of a stage, with the values of its `RegionEmitter`."""

    def __init__(self, e: RegionEmitter) -> None:
        self.e = e

    def run(self, grid_axes: Sequence[str]) -> None:
        """One loop over the chunks that carries a state for every value and order, then the outputs."""
        e, kb, nodes = self.e, self.e.kb, self.e.region.nodes
        ordered = [i for i, n in enumerate(nodes) if n.kind == "rank"]
        keys = list(dict.fromkeys((nodes[i].args[0], nodes[i].order) for i in ordered))
        rows = [e.tile_axes(nodes[source])[:-1] for source, _ in keys]
        empty = [kb.fill(0.0, dt.F32, [*axes, e.pairs]) for axes in rows]
        known = e.axes[e.n].as_int()
        with kb.for_(e.n, const(CHUNK if known is None else min(known, CHUNK)), empty) as loop, e.scope():
            states = []
            for (source, order), state in zip(keys, loop.carried):
                with kb.at(e.region.origins.get(source) or kb.location):
                    states.append(kb.rank(order, e.operand(source), state, e.n))
            loop.yield_(carried=states)
        complete = dict(zip(keys, loop.results))
        for i in ordered:
            state = complete[(nodes[i].args[0], nodes[i].order)]
            with kb.at(e.region.origins.get(i) or kb.location):
                e.scopes[-1][i] = kb.ranked(nodes[i].function, nodes[i].order, state, e.tile_axes(nodes[i]))
        for i in range(len(e.outputs)):
            e.store(i, grid_axes)
