# SPDX-License-Identifier: Apache-2.0
"""The cost model beside 132 measured operators: what can be built, how far it is off, and whether the order agrees."""

from __future__ import annotations

import pytest

from benchmarks.calibration import FAMILIES, Priced, figures, price, rank_correlation, read_rows


@pytest.fixture(scope="module")
def priced() -> list[Priced]:
    return [p for p in map(price, read_rows()) if p is not None]


def test_most_rows_are_networks_of_gaf(priced: list[Priced]) -> None:
    assert len(priced) >= 121 and {p.row.family for p in priced} == set(FAMILIES)
    assert sum(p.kernels == 1 for p in priced) >= 113  # the vendor has one kernel for each


def test_ratio_and_order_are_pinned(priced: list[Priced]) -> None:
    """The figures of the docstring of `gaf.fusion.cost`; a change of either is a change of the model."""
    found = figures(priced, 132)
    assert found["ratio_geomean"] == pytest.approx(0.79, abs=0.03)
    assert found["spread"] <= 1.70
    assert found["rank_correlation"] >= 0.93


def test_simple_kernels_are_met(priced: list[Priced]) -> None:
    families = figures(priced, 132)["families"]
    for name in ("sigmoid", "maximum", "conv_2d"):
        assert 0.8 < families[name]["ratio"] < 1.25, name


def test_order_within_a_family(priced: list[Priced]) -> None:
    """Larger cases of one operator are modelled as larger."""
    for name in ("sigmoid", "maximum", "rms_norm", "mish"):
        group = [p for p in priced if p.row.family == name]
        assert rank_correlation([p.us for p in group], [p.row.measured_us for p in group]) > 0.85, name
