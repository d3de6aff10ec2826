# SPDX-License-Identifier: Apache-2.0
"""Reductions that cores share: when, into how many parts, and that every part is folded and stored once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from xdsl.ir import SSAValue

from gaf.compiler import fuse
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import const, sym
from gaf.dialects.graph.model import finish
from gaf.dialects.graph.ops.binary import MulOp, SubOp
from gaf.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceProdOp, ReduceSumOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.unary import ExpOp
from gaf.fusion.region import build_region
from gaf.fusion.schedule import Schedule
from gaf.fusion.schedules import choose_schedules
from gaf.fusion.split import CORES, choose_split
from gaf.runtime.compiler import find_compiler
from tests.fusion.test_piecewise import Graph


def schedule(g: Graph, *outputs: SSAValue) -> Schedule:
    (found,) = choose_schedules(build_region(g.ops, outputs))
    return found


def check(g: Graph, *outputs: SSAValue) -> None:
    """The one kernel of a graph is split, and right on all engines."""
    assert schedule(g, *outputs).split is not None
    fused = fuse(finish(g.model, [(f"y{i}", v) for i, v in enumerate(outputs)]))
    assert len(fused.fused_ops) == 1
    rng = np.random.default_rng(1)
    inputs = {
        n: rng.standard_normal(t.concrete({})).astype(t.dtype.numpy)
        for n, t in zip(fused.source_model.input_names, fused.source_model.input_types)
    }
    for engine in ["interpreter", "check"] if find_compiler() else ["interpreter"]:
        verified = fused.verify(inputs, engine=engine)
        assert verified.ok, verified


@pytest.mark.parametrize("op", [ReduceSumOp, ReduceMaxOp, ReduceMeanOp], ids=lambda o: o.name)
@pytest.mark.parametrize("kind", [dt.F32, dt.BF16], ids=str)
def test_one_result(op: type, kind: dt.DType) -> None:
    g = Graph(x=([123, 333], kind))
    check(g, g.add(op, g["x"], axes=(0, 1), keepdims=False))


def test_columns_of_many_rows() -> None:
    g = Graph(x=[1001, 75])
    check(g, g.add(ReduceMeanOp, g.add(ExpOp, g["x"]), axes=(0,), keepdims=False))


def test_few_long_rows() -> None:
    g = Graph(x=[3, 20011])
    check(g, g.add(ReduceSumOp, g["x"], axes=(1,), keepdims=True))


def test_outputs_along_the_shared_axis_are_stored_by_parts() -> None:
    g = Graph(x=[901, 90])
    check(g, g.add(SoftmaxOp, g["x"], axes=(0,)))


def test_dependent_statistics_and_the_values_themselves() -> None:
    g = Graph(x=[901, 90])
    largest = g.add(ReduceMaxOp, g["x"], axes=(0,), keepdims=True)
    powers = g.add(ExpOp, g.add(SubOp, g["x"], largest))
    total = g.add(ReduceSumOp, powers, axes=(0,), keepdims=True)
    check(g, g.add(MulOp, powers, total))


def test_two_reduced_axes_around_a_kept_one() -> None:
    g = Graph(x=[70, 2, 1300])
    check(g, g.add(ReduceSumOp, g["x"], axes=(0, 2), keepdims=False))


def test_a_product_of_parts() -> None:
    g = Graph(x=[30_000])
    y = g.add(ReduceProdOp, g.add(ExpOp, g["x"]), axes=(0,), keepdims=False)
    assert schedule(g, y).split is not None


def test_enough_results_are_not_split() -> None:
    g = Graph(x=[400, 20_000])
    y = g.add(ReduceSumOp, g["x"], axes=(1,), keepdims=False)
    assert all(s.split is None for s in choose_schedules(build_region(g.ops, [y])))
    small = Graph(x=[40, 64])
    y = small.add(ReduceSumOp, small["x"], axes=(0, 1), keepdims=False)
    assert all(s.split is None for s in choose_schedules(build_region(small.ops, [y])))


def test_parts_by_size() -> None:
    def parts(rows: int | None, lanes: int, reduced: str, depth: int = 1) -> int:
        extents = {"r": const(rows) if rows is not None else sym("R"), "n": const(lanes)}
        found = choose_split(extents, list(reduced), "n", depth, along=False)
        return 1 if found is None else found.parts

    assert parts(None, 4096, "rn") == CORES, "one result, of unknown size"
    assert parts(None, 4096, "n") == 1, "an unknown number of results may be many"
    by_rows = [parts(rows, 100_000, "n") for rows in (1, 5, 20, 40, 400)]
    assert by_rows[0] == CORES and by_rows[-1] == 1 and all(a >= b for a, b in pairwise(by_rows))
    assert parts(2000, 4096, "r") > 1 and parts(2000, 40 * 2048, "r") == 1
    assert parts(1, 8192, "n") == 1 or parts(1, 8192, "n", depth=3) == 1, "barriers cost more than short rows"
