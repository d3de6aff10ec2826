# SPDX-License-Identifier: Apache-2.0
"""Drawn graphs: boxes don't overlap, edges go down and start and end at their boxes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gaf.report.layout import BOX_HEIGHT, BOX_WIDTH, layered_layout


@st.composite
def dags(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(0, 14))
    return [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(count)]


@given(dags())
def test_drawing(sources: list[list[int]]) -> None:
    layout = layered_layout(sources)
    assert len(layout.boxes) == len(sources)
    for i, (x, y) in enumerate(layout.boxes):
        assert -1e-6 <= x <= layout.width - BOX_WIDTH + 1e-6 and 0 <= y <= layout.height - BOX_HEIGHT + 1e-6
        for u, v in layout.boxes[:i]:
            assert abs(x - u) >= BOX_WIDTH - 1e-6 or abs(y - v) >= BOX_HEIGHT
        assert all(layout.boxes[s][1] < y for s in sources[i])
    assert [(s, i) for s, i, _ in layout.edges] == [(s, i) for i, above in enumerate(sources) for s in above]
    for s, i, points in layout.edges:
        heights = [v for _, v in points]
        assert heights == sorted(heights)
        assert points[0] == (layout.boxes[s][0] + BOX_WIDTH / 2, layout.boxes[s][1] + BOX_HEIGHT)
        assert points[-1] == (layout.boxes[i][0] + BOX_WIDTH / 2, layout.boxes[i][1])
        for (x, y), (box_x, box_y) in ((p, b) for p in points for b in layout.boxes):
            inside = box_x < x < box_x + BOX_WIDTH and box_y < y < box_y + BOX_HEIGHT
            assert not inside


def test_a_chain_is_straight() -> None:
    layout = layered_layout([[], [0], [1], [2]])
    assert len({x for x, _ in layout.boxes}) == 1
