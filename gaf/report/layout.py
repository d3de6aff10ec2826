# SPDX-License-Identifier: Apache-2.0
"""Draws a directed acyclic graph in layers: positions of boxes, and the points that edges run through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

BOX_WIDTH, BOX_HEIGHT = 250.0, 40.0
LAYER_STEP = 68.0  # from the top of one layer to the next
GAP, LANE = 24.0, 14.0  # between boxes; width of an edge that passes through a layer
SWEEPS = 4


@dataclass
class Layout:
    """Top-left corners of boxes, edges as (from, to, points), and the size of the drawing, in pixels."""

    boxes: list[tuple[float, float]] = field(default_factory=list)
    edges: list[tuple[int, int, list[tuple[float, float]]]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


@dataclass
class _Slot:
    """A place in a layer: a box (`node` >= 0) or an edge that passes."""

    node: int
    layer: int
    up: list[_Slot] = field(default_factory=list)
    down: list[_Slot] = field(default_factory=list)
    order: float = 0.0
    x: float = 0.0  # centre

    @property
    def width(self) -> float:
        return BOX_WIDTH if self.node >= 0 else LANE


def layered_layout(sources: Sequence[Sequence[int]]) -> Layout:
    """Places node i below all nodes in `sources[i]`, which have smaller numbers.

    The usual four steps: layers by longest path, a lane for every layer that an edge passes, crossings reduced
    by sweeps that order each layer by the mean place of its neighbours, places from the order.
    """
    layers: list[int] = []
    for above in sources:
        layers.append(1 + max((layers[s] for s in above), default=-1))
    slots = [_Slot(i, layer) for i, layer in enumerate(layers)]
    chains: list[tuple[int, int, list[_Slot]]] = []
    rows: list[list[_Slot]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for slot in slots:
        rows[slot.layer].append(slot)
    for i, above in enumerate(sources):
        for s in above:
            chain = [slots[s], *(_Slot(-1, layer) for layer in range(layers[s] + 1, layers[i])), slots[i]]
            for upper, lower in zip(chain, chain[1:]):
                upper.down.append(lower)
                lower.up.append(upper)
            for lane in chain[1:-1]:
                rows[lane.layer].append(lane)
            chains.append((s, i, chain))
    _order(rows)
    width = _place(rows)
    layout = Layout(width=width, height=max(0.0, len(rows) * LAYER_STEP - (LAYER_STEP - BOX_HEIGHT)))
    layout.boxes = [(s.x - BOX_WIDTH / 2, s.layer * LAYER_STEP) for s in slots]
    for s, i, chain in chains:
        points = [(chain[0].x, chain[0].layer * LAYER_STEP + BOX_HEIGHT)]
        for lane in chain[1:-1]:
            points += [(lane.x, lane.layer * LAYER_STEP), (lane.x, lane.layer * LAYER_STEP + BOX_HEIGHT)]
        points.append((chain[-1].x, chain[-1].layer * LAYER_STEP))
        layout.edges.append((s, i, points))
    return layout


def _order(rows: list[list[_Slot]]) -> None:
    for row in rows:
        for i, slot in enumerate(row):
            slot.order = i
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            for slot in row:
                near = slot.up if downwards else slot.down
                if near:
                    slot.order = sum(n.order for n in near) / len(near)
            row.sort(key=lambda s: s.order)
            for i, slot in enumerate(row):
                slot.order = i - (len(row) - 1) / 2


def _place(rows: list[list[_Slot]]) -> float:
    """Centres of all slots; returns the width of the drawing."""
    for row in rows:
        x = -(sum(s.width for s in row) + GAP * (len(row) - 1)) / 2
        for slot in row:
            slot.x = x + slot.width / 2
            x += slot.width + GAP
    for sweep in range(2 * SWEEPS):  # straighten: move towards neighbours as far as the row allows
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            wanted = []
            for slot in row:
                near = slot.up if downwards else slot.down
                wanted.append(sum(n.x for n in near) / len(near) if near else slot.x)
            _spread(row, wanted)
    left = min((s.x - s.width / 2 for row in rows for s in row), default=0.0)
    for row in rows:
        for slot in row:
            slot.x -= left
    return max((s.x + s.width / 2 for row in rows for s in row), default=0.0)


def _spread(row: list[_Slot], wanted: Sequence[float]) -> None:
    """Centres near `wanted` that keep order and gaps: the mean of a pass from the left and one from the right."""
    lefts: list[float] = []
    for slot, x in zip(row, wanted):
        least = lefts[-1] + _distance(row[len(lefts) - 1], slot) if lefts else x
        lefts.append(max(x, least))
    rights: list[float] = []
    for k in range(len(row) - 1, -1, -1):
        most = rights[-1] - _distance(row[k], row[k + 1]) if rights else wanted[k]
        rights.append(min(wanted[k], most))
    for slot, a, b in zip(row, lefts, reversed(rights)):
        slot.x = (a + b) / 2


def _distance(a: _Slot, b: _Slot) -> float:
    return (a.width + b.width) / 2 + GAP
